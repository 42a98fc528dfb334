/* records.c: see records.h.  Numbers that may pass 2^53 are safe: jansson keeps
 * 64-bit integers, and nobody else reads these.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "allow.h"
#include "fields.h"
#include "format/format.h"
#include "base/name.h"
#include "records.h"
#include "common/refuse.h"
#include "text.h"

/* ---- Fields.  Fields of later versions may be missing.  ---- */

#define AT(member) FIELD_AT (cluster_identity, member)
static const struct field identity_fields[] = {
  { "uuid", FIELD_UUID, AT (uuid) },
  { "generation", FIELD_NUMBER, AT (generation), .max = GENERATION_MAX },
  { "fences", FIELD_NUMBER, AT (fences), .optional = true, .max = EPOCH_MAX },
  { "restore", FIELD_BOOL, AT (restore), .optional = true },
  { "backup_ms", FIELD_NUMBER, AT (backup_wall_ms), .optional = true },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (cluster_disk_record, member)
static const struct field disk_fields[] = {
  { "key", FIELD_HEX, AT (key) },
  { "next_key", FIELD_HEX, AT (next_key), .optional = true },
  { "untold", FIELD_BOOL, AT (untold), .optional = true },
  { "release", FIELD_UUID, AT (release), .optional = true },
  { "spare_of", FIELD_UUID, AT (spare_of), .optional = true },
  { "sequence", FIELD_NUMBER, AT (sequence), .optional = true },
  { "node", FIELD_TEXT, AT (node) },
  { "uri", FIELD_TEXT, AT (uri) },
  { "path", FIELD_TEXT, AT (path) },
  { "instance", FIELD_TEXT, AT (instance), .optional = true },
  { "cache", FIELD_TEXT, AT (cache), .optional = true },
  { "moves_to", FIELD_TEXT, AT (moves_to), .optional = true },
  { "shut_out", FIELD_BOOL, AT (shut_out), .optional = true },
  { "size", FIELD_NUMBER, AT (size) },
  { "data_bytes", FIELD_NUMBER, AT (data_bytes) },
  { "imported", FIELD_NUMBER, AT (imported), .optional = true,
    .max = EPOCH_MAX },
  { NULL },
};
#undef AT

static const char *
pool_state_print (unsigned value)
{
  return cluster_pool_state_word ((enum cluster_pool_state) value);
}

static const char *
volume_state_print (unsigned value)
{
  return cluster_volume_state_word ((enum cluster_volume_state) value);
}

#define AT(member) FIELD_AT (cluster_array_record, member)
static const struct field array_fields[] = {
  { "name", FIELD_NAME, AT (name) },
  { "layout", FIELD_WORD, AT (layout), .parse = layout_parse,
    .words = "the layouts", .print = layout_name },
  { "dup", FIELD_WORD, AT (dup), .parse = array_dup_parse,
    .words = "the duplications", .print = array_dup_name },
  { "n", FIELD_NUMBER, AT (n), .min = 1, .max = GROUP_MEMBERS_MAX },
  { "groups", FIELD_NUMBER, AT (groups), .min = 1, .max = ARRAY_GROUPS_MAX },
  { "unit", FIELD_NUMBER, AT (unit), .min = UNIT_BYTES_MIN,
    .max = UNIT_BYTES_MAX },
  { "member_bytes", FIELD_NUMBER, AT (member_bytes), .min = 1 },
  { "ready", FIELD_BOOL, AT (ready) },
  { "restoring", FIELD_BOOL, AT (restoring), .optional = true },
  { "epoch", FIELD_NUMBER, AT (epoch), .min = 1 },
  { "round", FIELD_NUMBER, AT (round), .optional = true, .max = EPOCH_MAX },
  { "unprepared", FIELD_NUMBER, AT (unprepared), .optional = true,
    .max = EPOCH_MAX },
  { "spare_after_ms", FIELD_NUMBER, AT (spare_after_ms), .optional = true },
  { "slow_out_ms", FIELD_NUMBER, AT (slow_out_ms), .optional = true },
  { "writer_epoch", FIELD_NUMBER, AT (writer_epoch), .optional = true,
    .max = EPOCH_MAX },
  { "risky", FIELD_BOOL, AT (risky), .optional = true },
  { "unequal", FIELD_BOOL, AT (unequal), .optional = true },
  { "to_recover", FIELD_BOOL, AT (to_recover), .optional = true },
  { "lapse", FIELD_NUMBER, AT (lapse), .optional = true, .max = EPOCH_MAX },
  { "allow_fence", FIELD_NUMBER, AT (allow_fence), .optional = true,
    .max = EPOCH_MAX },
  { "pool", FIELD_WORD, AT (pool), .optional = true,
    .parse = cluster_pool_state_parse, .words = "the states",
    .print = pool_state_print },
  { "segment_bytes", FIELD_NUMBER, AT (segment_bytes), .optional = true,
    .max = POOL_SEGMENT_BYTES_MAX },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (cluster_member, member)
static const struct field member_fields[] = {
  { "disk", FIELD_UUID, AT (disk) },
  { "state", FIELD_WORD, AT (state), .parse = member_state_parse,
    .words = "the states", .print = member_state_name },
  { "fence", FIELD_NUMBER, AT (fence), .optional = true },
  { "lapse", FIELD_NUMBER, AT (lapse), .optional = true },
  { "life", FIELD_NUMBER, AT (life), .optional = true },
  { "life_round", FIELD_NUMBER, AT (life_round), .optional = true,
    .max = EPOCH_MAX },
  { "confirmed", FIELD_NUMBER, AT (confirmed), .optional = true },
  { "round", FIELD_NUMBER, AT (round), .optional = true, .max = EPOCH_MAX },
  { "since_ms", FIELD_NUMBER, AT (since_wall_ms) },
  { "reason", FIELD_TEXT, AT (reason) },
  { "planned", FIELD_BOOL, AT (planned), .optional = true },
  { "held", FIELD_BOOL, AT (held), .optional = true },
  { "slow", FIELD_BOOL, AT (slow), .optional = true },
  { "reset", FIELD_BOOL, AT (reset), .optional = true },
  { "partly", FIELD_BOOL, AT (partly), .optional = true },
  { "anew", FIELD_BOOL, AT (anew), .optional = true },
  { "differs", FIELD_BOOL, AT (differs), .optional = true },
  { "paused", FIELD_BOOL, AT (paused), .optional = true },
  { "floor", FIELD_NUMBER, AT (floor), .optional = true },
  { "ceiling", FIELD_NUMBER, AT (ceiling), .optional = true },
  { "imported", FIELD_NUMBER, AT (imported), .optional = true,
    .max = EPOCH_MAX },
  { "imported_round", FIELD_NUMBER, AT (imported_round), .optional = true },
  { "next_disk", FIELD_UUID, AT (next_disk), .optional = true },
  { "moved_from", FIELD_TEXT, AT (moved_from), .optional = true },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (cluster_session_record, member)
static const struct field session_fields[] = {
  { "array", FIELD_UUID, AT (array) },
  { "array_name", FIELD_NAME, AT (array_name) },
  { "node", FIELD_TEXT, AT (node) },
  { "instance", FIELD_TEXT, AT (instance) },
  { "uri", FIELD_TEXT, AT (uri) },
  { "pid", FIELD_NUMBER, AT (pid) },
  { "writable", FIELD_BOOL, AT (writable) },
  { "part_offset", FIELD_NUMBER, AT (part.offset), .optional = true },
  { "part_length", FIELD_NUMBER, AT (part.length), .optional = true },
  { "leases", FIELD_BOOL, AT (leases), .optional = true },
  { "service", FIELD_BOOL, AT (service), .optional = true },
  { "by_admin", FIELD_BOOL, AT (by_admin), .optional = true },
  { "exports", FIELD_BOOL, AT (exports), .optional = true },
  { "scans", FIELD_BOOL, AT (scans), .optional = true },
  { "epoch", FIELD_NUMBER, AT (epoch), .min = 1 },
  { "volumes", FIELD_NUMBER, AT (volumes), .optional = true },
  { "since_ms", FIELD_NUMBER, AT (since_wall_ms) },
  { "ended", FIELD_BOOL, AT (ended) },
  { "ended_ms", FIELD_NUMBER, AT (ended_wall_ms) },
  { "reason", FIELD_TEXT, AT (reason) },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (cluster_node_record, member)
static const struct field node_fields[] = {
  { "maintenance", FIELD_BOOL, AT (maintenance) },
  { "draining", FIELD_BOOL, AT (draining) },
  { "maintenance_ms", FIELD_NUMBER, AT (maintenance_wall_ms) },
  { "draining_ms", FIELD_NUMBER, AT (draining_wall_ms) },
  { "drain_bytes", FIELD_NUMBER, AT (drain_bytes) },
  { "fenced", FIELD_BOOL, AT (fenced), .optional = true },
  { "fence", FIELD_NUMBER, AT (fence), .optional = true, .max = EPOCH_MAX },
  { "fenced_ms", FIELD_NUMBER, AT (fenced_wall_ms), .optional = true },
  { "removed", FIELD_BOOL, AT (removed), .optional = true },
  { "shut_out", FIELD_BOOL, AT (shut_out), .optional = true },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (cluster_job, member)
static const struct field job_fields[] = {
  { "kind", FIELD_WORD, AT (kind), .parse = cluster_job_kind_parse,
    .words = "the kinds", .print = cluster_job_kind_word },
  { "subject", FIELD_TEXT, AT (subject) },
  { "state", FIELD_WORD, AT (state), .parse = cluster_job_state_parse,
    .words = "the states", .print = cluster_job_state_word },
  { "waits", FIELD_TEXT, AT (waits) },
  { "done_bytes", FIELD_NUMBER, AT (done_bytes) },
  { "total_bytes", FIELD_NUMBER, AT (total_bytes) },
  { "since_ms", FIELD_NUMBER, AT (since_wall_ms) },
  { "ended_ms", FIELD_NUMBER, AT (ended_wall_ms) },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (cluster_volume_record, member)
static const struct field volume_fields[] = {
  { "array", FIELD_UUID, AT (array) },
  { "root", FIELD_NUMBER, AT (root), .max = POOL_ROOTS_MAX - 1 },
  { "name", FIELD_NAME, AT (name) },
  { "size", FIELD_NUMBER, AT (size), .min = 512, .max = VOLUME_BYTES_MAX },
  { "state", FIELD_WORD, AT (state), .parse = cluster_volume_state_parse,
    .words = "the states", .print = volume_state_print },
  { "since_ms", FIELD_NUMBER, AT (since_wall_ms) },
  { "reason", FIELD_TEXT, AT (reason), .optional = true },
  { "session", FIELD_HEX, AT (session) },
  { "number", FIELD_NUMBER, AT (number) },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (cluster_space_record, member)
static const struct field space_fields[] = {
  { "array", FIELD_UUID, AT (array) },
  { "page", FIELD_NUMBER, AT (page),
    .max = POOL_SEGMENTS_MAX / POOL_PAGE_SEGMENTS - 1 },
  { NULL },
};
#undef AT

static const struct {
  const char *word;
  const struct field *fields;
} kinds[CLUSTER_RECORD_KINDS] = {
  [CLUSTER_RECORD_IDENTITY] = { "cluster", identity_fields },
  [CLUSTER_RECORD_DISK] = { "disk", disk_fields },
  [CLUSTER_RECORD_ARRAY] = { "array", array_fields },
  [CLUSTER_RECORD_SESSION] = { "session", session_fields },
  [CLUSTER_RECORD_NODE] = { "node", node_fields },
  [CLUSTER_RECORD_JOB] = { "job", job_fields },
  [CLUSTER_RECORD_VOLUME] = { "volume", volume_fields },
  [CLUSTER_RECORD_SPACE] = { "space", space_fields },
};

/* ---- Out. ---- */

static json_t *
change_json (const struct cluster_change *c, unsigned members)
{
  json_t *states, *confirm;

  if (c->epoch == 0)
    return json_null ();
  states = json_array ();
  confirm = json_array ();
  for (unsigned m = 0; m < members; m++) {
    json_array_append_new (states, json_string (member_state_name (
                                     (enum member_state) c->states[m])));
    json_array_append_new (confirm, json_boolean (c->confirm[m]));
  }
  return fields_object ((const struct field_value[]) {
    { "epoch", text_number (c->epoch) },
    { "sessions", json_boolean (c->sessions) },
    { "since_ms", text_number (c->since_wall_ms) },
    { "states", states },
    { "confirm", confirm },
    { NULL } });
}

/* Sessions that are over: [session, epoch, ordered, node] each. */
static json_t *
over_json (const struct cluster_array_record *a)
{
  json_t *list = json_array ();

  for (unsigned i = 0; i < a->over_count; i++)
    json_array_append_new (
      list, json_pack ("[oobs]", text_session (a->over[i].session),
                       text_number (a->over[i].epoch), a->over[i].ordered,
                       a->over[i].node));
  return list;
}

/* Runs of a volume's last grant: [first, count] each. */
static json_t *
grant_json (const struct cluster_volume_record *v)
{
  json_t *list = json_array ();

  for (unsigned i = 0; i < v->granted; i++)
    json_array_append_new (list,
                           json_pack ("[II]", (json_int_t) v->grant[i].first,
                                      (json_int_t) v->grant[i].count));
  return list;
}

/* Owners of the segments of a page, in runs: [count, owner] each. */
static json_t *
owners_json (const struct cluster_space_record *s)
{
  json_t *list = json_array ();

  for (unsigned i = 0, end; i < POOL_PAGE_SEGMENTS; i = end) {
    for (end = i; end < POOL_PAGE_SEGMENTS && s->owner[end] == s->owner[i];)
      end++;
    json_array_append_new (list, json_pack ("[II]", (json_int_t) (end - i),
                                            (json_int_t) s->owner[i]));
  }
  return list;
}

void
records_add (struct store_txn *t, const struct cluster_record *r)
{
  const struct cluster_array_record *a = &r->array;
  char key[STORE_KEY_BYTES] = "";
  json_t *json = NULL, *members;

  switch (r->kind) {
  case CLUSTER_RECORD_DISK:
    format_uuid (r->disk.uuid, key);
    break;
  case CLUSTER_RECORD_ARRAY:
    format_uuid (a->uuid, key);
    break;
  case CLUSTER_RECORD_SESSION:
    snprintf (key, sizeof key, "%016" PRIx64, r->session.id);
    break;
  case CLUSTER_RECORD_NODE:
    strcpy (key, r->node.name);
    break;
  case CLUSTER_RECORD_JOB:
    strcpy (key, r->job.id);
    break;
  case CLUSTER_RECORD_VOLUME:
    format_uuid (r->volume.uuid, key);
    break;
  case CLUSTER_RECORD_SPACE:
    format_uuid (r->space.array, key);
    snprintf (key + strlen (key), sizeof key - strlen (key), "-%u",
              r->space.page);
    break;
  case CLUSTER_RECORD_IDENTITY:
  case CLUSTER_RECORD_KINDS:
    break;
  }
  if (!r->deleted)
    json = fields_json (kinds[r->kind].fields, &r->identity);
  if (json && r->kind == CLUSTER_RECORD_ARRAY) {
    members = json_array ();
    for (unsigned m = 0; m < a->n * a->groups; m++)
      json_array_append_new (members,
                             fields_json (member_fields, &a->member[m]));
    json_object_set_new (json, "over", over_json (a));
    json_object_set_new (json, "change",
                         change_json (&a->change, a->n * a->groups));
    json_object_set_new (json, "members", members);
    json_object_set_new (json, "service",
                         fields_names_json (a->service_node, a->service_nodes));
    json_object_set_new (json, "allow", allow_json (&a->allow));
  }
  if (json && r->kind == CLUSTER_RECORD_VOLUME)
    json_object_set_new (json, "granted", grant_json (&r->volume));
  if (json && r->kind == CLUSTER_RECORD_SPACE)
    json_object_set_new (json, "owners", owners_json (&r->space));
  store_txn_put (t, kinds[r->kind].word, key, json);
}

/* ---- In. ---- */

/* Older records have one fence for all members of an array, and a change either
 * asked every member that stays to confirm, or none.
 */
static void
parse_change (struct fields *f, struct cluster_change *c, unsigned members)
{
  struct fields g;
  unsigned count = 0, confirms = members;
  bool all = false;

  if (!fields_has (f, "change"))
    return;
  fields_begin (&g, fields_get (f, "change"));
  fields_u64 (&g, "epoch", 1, INT64_MAX, &c->epoch);
  fields_u64 (&g, "since_ms", 0, INT64_MAX, &c->since_wall_ms);
  fields_words (&g, "states", member_state_parse, "the states", members,
                c->states, &count);
  if (fields_has (&g, "fence")) {
    fields_bool (&g, "fence", &all);
    for (unsigned m = 0; m < members; m++)
      c->confirm[m] = all && c->states[m] != MEMBER_OUT;
  }
  else {
    fields_bool (&g, "sessions", &c->sessions);
    fields_bools (&g, "confirm", members, c->confirm, &confirms);
  }
  if (count != members || confirms != members)
    fields_fail (&g, "states", "it must have an element for each member");
  fields_end (&g);
  if (g.failed)
    fields_fail (f, "change", "field change: %.200s", g.why);
}

static void
parse_over (struct fields *f, struct cluster_array_record *a)
{
  const json_t *list = fields_get (f, "over"), *one;
  size_t i;

  json_array_foreach (list, i, one) {
    struct cluster_over *o = &a->over[i];
    const char *session = json_string_value (json_array_get (one, 0));
    const json_t *epoch = json_array_get (one, 1);
    const char *node = json_string_value (json_array_get (one, 3));

    if (i == OVER_MAX || session == NULL || !json_is_integer (epoch) ||
        !fields_parse_id (session, &o->session)) {
      fields_fail (f, "over", "element %zu of field over makes no sense", i);
      return;
    }
    o->epoch = (uint64_t) json_integer_value (epoch);
    o->ordered = json_is_true (json_array_get (one, 2));
    snprintf (o->node, sizeof o->node, "%s", node ? node : "");
    a->over_count++;
  }
}

static void
parse_array (struct fields *f, struct cluster_array_record *a)
{
  uint64_t fence = 0;
  const json_t *list;
  struct fields g;

  a->spare_after_ms = SPARE_AFTER_MS_DEFAULT;
  fields_take (f, array_fields, a);
  if (!fields_has (f, "unequal"))
    a->unequal = a->writer_epoch != 0;
  if (fields_has (f, "fence"))
    fields_u64 (f, "fence", 0, INT64_MAX, &fence);
  if (!f->failed && a->n * a->groups > ARRAY_MEMBERS_MAX)
    fields_fail (f, "n", "there are too many members");
  if (f->failed)
    return;
  parse_change (f, &a->change, a->n * a->groups);
  if (fields_has (f, "over"))
    parse_over (f, a);
  if (fields_has (f, "service"))
    fields_names (f, "service", 0, SERVICE_NODES_MAX, a->service_node,
                  &a->service_nodes);
  if (fields_has (f, "allow"))
    allow_take_list (f, "allow", &a->allow);
  list = fields_get (f, "members");
  if (json_array_size (list) != a->n * a->groups)
    fields_fail (f, "members", "field members must have n * groups elements");
  for (unsigned m = 0; m < a->n * a->groups && !f->failed; m++) {
    struct cluster_member *member = &a->member[m];

    member->fence = fence;
    fields_begin (&g, json_array_get (list, m));
    fields_take (&g, member_fields, member);
    if (!fields_has (&g, "lapse"))
      member->lapse = member->fence;
    if (!fields_has (&g, "life"))
      member->life = member->fence;
    fields_end (&g);
    if (g.failed)
      fields_fail (f, "members", "member %u: %.200s", m, g.why);
  }
}

/* The i-th pair of a list of pairs.  False: it is none of two whole numbers of 32 bits. */
static bool
take_pair (const json_t *list, size_t i, uint32_t *first, uint32_t *second)
{
  const json_t *pair = json_array_get (list, i);
  uint64_t a, b;

  if (json_array_size (pair) != 2 ||
      !fields_whole (json_array_get (pair, 0), &a) ||
      !fields_whole (json_array_get (pair, 1), &b) || a > UINT32_MAX ||
      b > UINT32_MAX)
    return false;
  *first = (uint32_t) a;
  *second = (uint32_t) b;
  return true;
}

static void
parse_volume (struct fields *f, struct cluster_volume_record *v)
{
  const json_t *list;

  fields_take (f, volume_fields, v);
  list = fields_get (f, "granted");
  if (json_array_size (list) > VOLUME_RUNS_MAX) {
    fields_fail (f, "granted", "it was granted too many runs");
    return;
  }
  for (; v->granted < json_array_size (list); v->granted++)
    if (!take_pair (list, v->granted, &v->grant[v->granted].first,
                    &v->grant[v->granted].count)) {
      fields_fail (f, "granted", "field granted makes no sense");
      return;
    }
}

static void
parse_space (struct fields *f, struct cluster_space_record *s)
{
  const json_t *list;
  uint32_t count, owner, at = 0;

  fields_take (f, space_fields, s);
  list = fields_get (f, "owners");
  for (size_t i = 0; i < json_array_size (list); i++) {
    if (!take_pair (list, i, &count, &owner) ||
        count > POOL_PAGE_SEGMENTS - at || owner > POOL_ROOTS_MAX) {
      fields_fail (f, "owners", "element %zu of field owners makes no sense",
                   i);
      return;
    }
    while (count-- > 0)
      s->owner[at++] = owner;
  }
}

/* The fields in its key. */
static void
parse_key (struct fields *f, const char *key, struct cluster_record *r)
{
  switch (r->kind) {
  case CLUSTER_RECORD_DISK:
  case CLUSTER_RECORD_ARRAY:
    if (format_uuid_parse (key, r->kind == CLUSTER_RECORD_DISK
                                  ? r->disk.uuid
                                  : r->array.uuid) == -1)
      fields_fail (f, "key", "its key is no UUID");
    return;
  case CLUSTER_RECORD_SESSION:
    if (!fields_parse_id (key, &r->session.id))
      fields_fail (f, "key", "its key is no session's number");
    return;
  case CLUSTER_RECORD_NODE:
    if (name_valid (key))
      strcpy (r->node.name, key);
    else
      fields_fail (f, "key", "its key is no node's name");
    return;
  case CLUSTER_RECORD_JOB:
    if (strlen (key) < sizeof r->job.id)
      strcpy (r->job.id, key);
    else
      fields_fail (f, "key", "its key is no job's id");
    return;
  case CLUSTER_RECORD_VOLUME:
    if (format_uuid_parse (key, r->volume.uuid) == -1)
      fields_fail (f, "key", "its key is no UUID");
    return;
  case CLUSTER_RECORD_SPACE: /* its fields have all of it */
  case CLUSTER_RECORD_IDENTITY:
  case CLUSTER_RECORD_KINDS:
    return;
  }
}

int
records_parse (const char *kind, const char *key, const char *json,
               struct cluster_record *r, char *why, size_t why_size)
{
  json_error_t error;
  json_t *object = json_loads (json, JSON_REJECT_DUPLICATES, &error);
  struct fields f;
  unsigned k = 0;

  if (object == NULL)
    return refuse (why, why_size, "%s", error.text);
  while (k < CLUSTER_RECORD_KINDS && strcmp (kinds[k].word, kind) != 0)
    k++;
  if (k == CLUSTER_RECORD_KINDS) {
    json_decref (object);
    return refuse (why, why_size, "this weftd knows no such kind");
  }
  memset (r, 0, cluster_record_bytes ((enum cluster_record_kind) k));
  r->kind = (enum cluster_record_kind) k;
  fields_begin (&f, object);
  parse_key (&f, key, r);
  if (r->kind == CLUSTER_RECORD_ARRAY)
    parse_array (&f, &r->array);
  else if (r->kind == CLUSTER_RECORD_VOLUME)
    parse_volume (&f, &r->volume);
  else if (r->kind == CLUSTER_RECORD_SPACE)
    parse_space (&f, &r->space);
  else
    fields_take (&f, kinds[k].fields, &r->identity);
  fields_end (&f);
  json_decref (object);
  return fields_result (&f, why, why_size);
}
