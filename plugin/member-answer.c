/* member-answer.c: applies weftd's answer to a heartbeat to this member.
 *
 * A field that is missing or makes no sense is returned by its name, so that
 * people see the incompatibility of weftd and this plugin.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "member-role.h"
#include "puller.h"

static int
get_uuid (json_t *from, const char *name, uint8_t uuid[16])
{
  const char *text = json_string_value (json_object_get (from, name));

  return text ? format_uuid_parse (text, uuid) : -1;
}

/* A whole number from 0 to max. */
static int
get_number (json_t *from, const char *name, uint64_t max, uint64_t *v)
{
  json_t *n = json_object_get (from, name);

  if (!json_is_integer (n) || json_integer_value (n) < 0 ||
      (uint64_t) json_integer_value (n) > max)
    return -1;
  *v = json_integer_value (n);
  return 0;
}

static int
get_key (json_t *from, uint8_t key[KEY_BYTES])
{
  const char *text = json_string_value (json_object_get (from, "key"));
  unsigned v;

  if (text == NULL || strlen (text) != 2 * KEY_BYTES ||
      strspn (text, "0123456789abcdef") != 2 * KEY_BYTES)
    return -1;
  for (unsigned i = 0; i < KEY_BYTES; i++) {
    sscanf (text + 2 * i, "%2x", &v);
    key[i] = v;
  }
  return 0;
}

/* Returns NULL, or the name of the field that is missing or makes no sense. */
static const char *
parse_assignment (json_t *json, struct member_desire *d)
{
  json_t *states = json_object_get (json, "states");
  const char *layout = json_string_value (json_object_get (json, "layout"));
  const char *dup;
  uint64_t position, n, groups, unit;
  int kind = layout ? layout_parse (layout) : -1;

  if (get_uuid (json, "array", d->array) == -1 || format_uuid_zero (d->array))
    return "assignment.array";
  if (kind == -1)
    return "assignment.layout";
  if (get_number (json, "n", GROUP_MEMBERS_MAX, &n) == -1 || n == 0)
    return "assignment.n";
  if (get_number (json, "groups", ARRAY_GROUPS_MAX, &groups) == -1 ||
      groups == 0 || n * groups > ARRAY_MEMBERS_MAX)
    return "assignment.groups";
  if (get_number (json, "position", n * groups - 1, &position) == -1)
    return "assignment.position";
  if (get_number (json, "unit", UNIT_BYTES_MAX, &unit) == -1)
    return "assignment.unit";
  if (get_number (json, "epoch", EPOCH_MAX, &d->epoch) == -1)
    return "assignment.epoch";
  if (!json_is_array (states) || json_array_size (states) != n * groups)
    return "assignment.states";
  for (unsigned i = 0; i < n * groups; i++) {
    const char *name = json_string_value (json_array_get (states, i));
    int state = name ? member_state_parse (name) : -1;

    if (state == -1)
      return "assignment.states";
    d->states[i] = state;
  }
  /* An older weftd names neither the size nor the duplication. */
  if (json_object_get (json, "member_bytes") &&
      get_number (json, "member_bytes", MEMBER_DATA_BYTES_MAX,
                  &d->member_bytes) == -1)
    return "assignment.member_bytes";
  dup = json_string_value (json_object_get (json, "dup"));
  if (dup && array_dup_parse (dup) != -1)
    d->dup = array_dup_parse (dup);
  d->assigned = true;
  d->layout = kind;
  d->position = position;
  d->n = n;
  d->groups = groups;
  d->unit = unit;
  return NULL;
}

/* One source of a join order; an invalid one is an error. */
static int
parse_source (json_t *json, struct puller_order *o)
{
  const char *uri = json_string_value (json_object_get (json, "uri"));
  json_t *tokens = json_object_get (json, "tokens");
  const char *data = json_string_value (json_object_get (tokens, "data"));
  const char *intents = json_string_value (json_object_get (tokens, "intents"));
  uint64_t m;

  if (get_number (json, "member", o->order.layout.members - 1, &m) == -1 ||
      o->source[m].uri || uri == NULL || strstr (uri, "://") == NULL ||
      data == NULL || intents == NULL)
    return -1;
  o->order.source[m] = true;
  o->source[m].data = strdup (data);
  o->source[m].intents = strdup (intents);
  o->source[m].uri = strdup (uri);
  return o->source[m].data && o->source[m].intents && o->source[m].uri ? 0 : -1;
}

/* The order, if there is one.  Returns NULL, or the name of the field that is
 * missing or makes no sense.
 */
static const char *
parse_join (json_t *json, struct member_desire *d, struct puller_order **order)
{
  json_t *sources = json_object_get (json, "sources"), *source;
  struct puller_order *o;
  char why[256];
  size_t i;

  if (json == NULL || json_is_null (json))
    return NULL;
  if (!d->assigned || d->member_bytes == 0)
    return "assignment.member_bytes";
  *order = o = puller_order_new ();
  if (o == NULL ||
      layout_init (&o->order.layout, d->layout, d->n, d->groups, d->unit,
                   d->member_bytes, why, sizeof why) == -1)
    return "assignment.member_bytes";
  o->order.member = d->position;
  o->order.paused = json_is_true (json_object_get (json, "paused"));
  if (get_number (json, "epoch", EPOCH_MAX, &o->order.epoch) == -1)
    return "join.epoch";
  if (get_number (json, "rate", INT64_MAX, &o->order.rate) == -1)
    return "join.rate";
  if (json_object_get (json, "round") &&
      get_number (json, "round", EPOCH_MAX, &d->join_round) == -1)
    return "join.round";
  if (!json_is_array (sources))
    return "join.sources";
  json_array_foreach (sources, i, source)
    if (parse_source (source, o) == -1)
      return "join.sources";
  d->join_epoch = o->order.epoch;
  return NULL;
}

const char *
member_answer_read (json_t *reply, const struct superblock *told,
                    struct member_desire *d, uint8_t key[KEY_BYTES],
                    struct puller_order **order)
{
  json_t *assignment = json_object_get (reply, "assignment");
  json_t *release = json_object_get (reply, "release");
  const char *field = NULL;

  if (get_number (reply, "generation", GENERATION_MAX, &d->generation) == -1)
    return "generation";
  if (get_uuid (reply, "cluster", d->cluster) == -1)
    return "cluster";
  if (get_number (reply, "min_epoch", EPOCH_MAX, &d->min_epoch) == -1)
    return "min_epoch";
  if (release && !json_is_null (release) &&
      get_uuid (reply, "release", d->release) == -1)
    return "release";
  if (assignment == NULL)
    return "assignment";
  if (json_is_true (assignment) && !format_uuid_zero (told->array))
    member_desire_place (d, told);
  else if (get_key (reply, key) == -1)
    return "key";
  else if (!json_is_null (assignment))
    field = parse_assignment (assignment, d);
  return field ? field : parse_join (json_object_get (reply, "join"), d, order);
}

/* [number, session, epoch] */
static bool
parse_over (const json_t *json, struct member_over *o)
{
  const char *session = json_string_value (json_array_get (json, 1));
  const json_t *number = json_array_get (json, 0),
               *epoch = json_array_get (json, 2);
  char rest;

  if (!json_is_integer (number) || !json_is_integer (epoch) ||
      session == NULL ||
      sscanf (session, "%16" SCNx64 "%c", &o->session, &rest) != 1)
    return false;
  o->number = (uint64_t) json_integer_value (number);
  o->epoch = (uint64_t) json_integer_value (epoch);
  return o->epoch < EPOCH_MAX;
}

unsigned
member_answer_over (const json_t *reply, struct member_over over[])
{
  const json_t *list = json_object_get (reply, "over"), *one;
  unsigned count = 0;
  size_t i;

  json_array_foreach (list, i, one)
    if (count < OVER_TOLD_MAX && parse_over (one, &over[count]))
      count++;
  return count;
}
