/* control-messages.c: an array process's messages to weftd, and its parser of
 * weftd's answers (docs/API).
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "control-internal.h"
#include "exposure.h"
#include "guests.h"
#include "role.h"
#include "volumes.h"

/* ----- Messages to weftd ----- */

/* The empty buckets at its end are left out. */
static json_t *
latency_json (const struct latency *l)
{
  json_t *counts = json_array ();
  unsigned n = LATENCY_BUCKETS + 1;

  while (n > 0 && l->count[n - 1] == 0)
    n--;
  for (unsigned i = 0; i < n; i++)
    json_array_append_new (counts, json_integer ((json_int_t) l->count[i]));
  return json_pack ("{s:I, s:o}", "sum_us", (json_int_t) (l->sum_ns / 1000),
                    "counts", counts);
}

static json_t *
stats_json (struct engine *e, unsigned members)
{
  struct array_stats s;
  json_t *json = json_object (), *list = json_array ();

  engine_stats (e, &s);
  for (unsigned m = 0; m < members; m++)
    json_array_append_new (
      list, json_pack ("{s:I, s:b, s:I, s:o}", "service_us",
                       (json_int_t) (s.member[m].service_ns / 1000), "suspect",
                       (int) s.member[m].suspect, "refused_ms",
                       (json_int_t) (s.member[m].refused_ns / 1000000),
                       "latency", latency_json (&s.member[m].service)));
  json_object_set_new (json, "members", list);
  json_object_set_new (json, "read_latency", latency_json (&s.read));
  json_object_set_new (json, "write_latency", latency_json (&s.write));
  json_object_set_new (json, "flush_latency", latency_json (&s.flush));
#define FIELD(name)                                                            \
  json_object_set_new (json, #name, json_integer ((json_int_t) s.name))
  FIELD (reads);
  FIELD (writes);
  FIELD (flushes);
  FIELD (zeroes);
  FIELD (trims);
  FIELD (read_bytes);
  FIELD (write_bytes);
  FIELD (read_ns);
  FIELD (write_ns);
  FIELD (flush_ns);
  FIELD (image_bytes);
  FIELD (image_bytes_max);
  FIELD (image_oldest_ns);
  FIELD (memory_wait_ns);
  FIELD (images_sent);
  FIELD (images_replaced);
  FIELD (batches);
  FIELD (requests_waiting);
  FIELD (ios_in_flight);
#undef FIELD
  return json;
}

json_t *
control_messages (struct control *c, const struct host_action *a)
{
  struct taken *t = &c->taken;
  json_t *said, *stats;
  uint64_t order, number;
  json_t *body = json_pack (
    "{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:s?, s:s, s:b, s:i}", "instance",
    c->instance, "epoch", (json_int_t) a->epoch, "arrived",
    (json_int_t) a->arrived, "prepared", (json_int_t) a->prepared, "round",
    (json_int_t) engine_round (c->engine), "round_entered",
    (json_int_t) engine_round_entered (c->engine), "older", (int) a->older,
    "equal", (int) a->equal, "uri", params.uri, "process", c->process,
    "draining", (int) engine_ending (c->engine), "wait_ms", (int) a->wait_ms);

  if (c->lessee) {
    pthread_mutex_lock (&c->lock);
    order = lessee_order (c->lessee);
    pthread_mutex_unlock (&c->lock);
    json_object_set_new (body, "order", json_integer ((json_int_t) order));
  }
  if (c->volumes && volumes_number (c->volumes, &number))
    json_object_set_new (body, "volumes", json_integer ((json_int_t) number));
  if (params.serves || exposure_listens ())
    json_object_set_new (body, "fences",
                         json_integer ((json_int_t) guests_fences ()));
  if (a->kind != HOST_DO_BEAT)
    return body;
  /* Values that have not changed since weftd took them in are left out. */
  said = json_copy (body);
  stats = stats_json (c->engine, c->first->members);
  json_object_set_new (body, "news",
                       json_boolean (!json_equal (said, t->words)));
  json_object_set (body, "stats",
                   json_equal (stats, t->stats) ? json_true () : stats);
  json_decref (t->words);
  json_decref (t->stats);
  t->words = said;
  t->stats = stats;
  return body;
}

void
control_messages_taken (struct taken *t, const json_t *reply)
{
  json_t *generation = json_object_get (reply, "generation");

  if (generation && json_integer_value (generation) == t->generation)
    return;
  t->generation = json_integer_value (generation);
  json_decref (t->words);
  json_decref (t->stats);
  t->words = t->stats = NULL;
}

json_t *
control_messages_report (struct control *c, const struct host_action *a)
{
  json_t *reason = json_string (a->reason);

  if (reason == NULL) /* it is no UTF-8 */
    reason = json_string ("it failed");
  return json_pack ("{s:i, s:I, s:b, s:I, s:o}", "member", (int) a->member,
                    "round", (json_int_t) engine_round (c->engine), "answers",
                    (int) a->answers, "waited_ms", (json_int_t) a->waited_ms,
                    "reason", reason);
}

/*----- What is answered -----*/

/* 0: it is missing or invalid. */
static uint64_t
read_epoch (const json_t *json)
{
  json_int_t n = json_integer_value (json_object_get (json, "epoch"));

  return n > 0 && n <= (json_int_t) EPOCH_MAX ? (uint64_t) n : 0;
}

/* {"epoch", "states"}: false when they are missing or invalid. */
static bool
read_states (const json_t *json, unsigned members, uint64_t *epoch,
             enum member_state states[])
{
  const json_t *list = json_object_get (json, "states");
  uint64_t n = read_epoch (json);
  const char *name;
  int state;

  if (n == 0 || json_array_size (list) != members)
    return false;
  for (unsigned i = 0; i < members; i++) {
    name = json_string_value (json_array_get (list, i));
    state = name ? member_state_parse (name) : -1;
    if (state == -1)
      return false;
    states[i] = state;
  }
  *epoch = n;
  return true;
}

/* The map in an answer, of this epoch. */
static struct map *
read_map (const struct control *c, const json_t *reply, uint64_t epoch)
{
  const json_t *json = json_object_get (reply, "map");
  char why[512];
  struct map *m;

  if (!json_is_object (json))
    return NULL;
  m = map_from_json (json, why, sizeof why);
  if (m == NULL)
    nbdkit_error ("array %s: weftd's map is not usable: %s", params.array, why);
  else if (m->epoch == epoch && m->members == c->first->members)
    return m;
  map_free (m);
  return NULL;
}

void
control_messages_view (const struct map *map, struct host_view *v)
{
  v->map_epoch = map->epoch;
  for (unsigned m = 0; m < map->members; m++) {
    v->fence[m] = map->member[m].fence;
    v->lapse[m] = map->member[m].lapse;
    v->life[m] = map->member[m].life;
    v->round[m] = map->member[m].life_round;
  }
}

void
control_messages_read (const struct control *c, int status, const json_t *reply,
                       struct host_answer *a, struct map **map)
{
  const unsigned members = c->first->members;
  struct host_view *v = &a->view;
  json_int_t ms = json_integer_value (
    json_object_get (reply, "retry_after_ms"));
  uint64_t change, epoch;

  memset (a, 0, sizeof *a);
  a->status = status;
  a->code = json_string_value (json_object_get (reply, "code"));
  a->retry_after_ms = ms > 0 ? ms : 0;
  *map = NULL;
  if (status != 200)
    return;
  /* `true` stands for the states of the epoch in which this process works. */
  if (json_is_true (json_object_get (reply, "states")))
    epoch = read_epoch (reply);
  else if (read_states (reply, members, &epoch, v->states))
    v->epoch = epoch;
  else
    return;
  v->all_arrived = json_is_true (json_object_get (reply, "hold")) ? 0 : epoch;
  *map = read_map (c, reply, epoch);
  if (*map)
    control_messages_view (*map, v);
  if (read_states (json_object_get (reply, "change"), members, &change,
                   v->change_states))
    v->change = change;
}

/*----- Leases -----*/

json_t *
control_messages_ranges (const struct array_range *list, unsigned count)
{
  json_t *json = json_array ();

  for (unsigned i = 0; i < count; i++)
    json_array_append_new (json,
                           json_pack ("[I, I]", (json_int_t) list[i].offset,
                                      (json_int_t) list[i].length));
  return json;
}

json_t *
control_messages_wish (const struct lease_wish *wish)
{
  return json_pack (
    "{s:[I, I], s:[I, I]}", "must", (json_int_t) wish->must.offset,
    (json_int_t) wish->must.length, "wish", (json_int_t) wish->wish.offset,
    (json_int_t) wish->wish.length);
}

static bool
read_range (const struct control *c, const json_t *json, struct array_range *r)
{
  const uint64_t size = c->layout->size;

  r->offset = json_integer_value (json_array_get (json, 0));
  r->length = json_integer_value (json_array_get (json, 1));
  return r->length > 0 && r->offset <= size && r->length <= size - r->offset;
}

unsigned
control_messages_read_ranges (const struct control *c, const json_t *json,
                              struct array_range **list)
{
  unsigned count = 0;
  const json_t *one;
  size_t i;

  *list = calloc (json_array_size (json) + 1, sizeof **list);
  json_array_foreach (json, i, one)
    if (*list && read_range (c, one, &(*list)[count]))
      count++;
  return count;
}

void
control_messages_leases (const struct control *c, const json_t *reply,
                         struct lease_words *w)
{
  const json_t *revoke = json_object_get (reply, "revoke"), *one;
  const json_t *recover = json_object_get (reply, "recover");
  size_t i;

  memset (w, 0, sizeof *w);
  if (c->lessee == NULL)
    return;
  w->generation = json_integer_value (json_object_get (reply, "generation"));
  w->recover = json_integer_value (json_object_get (recover, "order"));
  w->count = control_messages_read_ranges (
    c, json_object_get (recover, "ranges"), &w->ranges);
  w->revoke = calloc (json_array_size (revoke) + 1, sizeof *w->revoke);
  json_array_foreach (revoke, i, one) {
    struct lease_wish *wish = &w->revoke[w->revokes];

    if (w->revoke &&
        read_range (c, json_object_get (one, "must"), &wish->must) &&
        read_range (c, json_object_get (one, "wish"), &wish->wish) &&
        wish->must.offset >= wish->wish.offset &&
        wish->must.offset + wish->must.length <=
          wish->wish.offset + wish->wish.length)
      w->revokes++;
  }
}

void
control_messages_leases_free (struct lease_words *w)
{
  free (w->revoke);
  free (w->ranges);
}
