/* records.c: see records.h.  Numbers that may pass 2^53 are safe: jansson keeps
 * 64-bit integers, and nobody else reads these.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "base/name.h"
#include "records.h"
#include "text.h"

static const char *const kinds[CLUSTER_RECORD_KINDS] = {
  [CLUSTER_RECORD_IDENTITY] = "cluster", [CLUSTER_RECORD_DISK] = "disk",
  [CLUSTER_RECORD_ARRAY] = "array",      [CLUSTER_RECORD_SESSION] = "session",
  [CLUSTER_RECORD_NODE] = "node",        [CLUSTER_RECORD_JOB] = "job",
};

bool
records_is_kind (const char *kind)
{
  for (unsigned i = 0; i < CLUSTER_RECORD_KINDS; i++)
    if (strcmp (kinds[i], kind) == 0)
      return true;
  return false;
}

/* ---- Out. ---- */

static json_t *
number (uint64_t n)
{
  assert (n <= INT64_MAX);
  return json_integer ((json_int_t) n);
}

static json_t *
identity_json (const struct cluster_identity *i)
{
  return json_pack ("{so so}", "uuid", text_uuid (i->uuid), "generation",
                    number (i->generation));
}

static json_t *
disk_json (const struct cluster_disk_record *d)
{
  return json_pack (
    "{so so so so ss so so ss so ss sb so so so}", "key",
    text_hex (d->key, KEY_BYTES), "release", text_uuid_or_null (d->release),
    "spare_of", text_uuid_or_null (d->spare_of), "sequence",
    number (d->sequence), "node", d->node, "uri", text_string (d->uri), "path",
    text_string (d->path), "instance", d->instance, "cache",
    text_string (d->cache), "moves_to", d->moves_to, "shut_out", d->shut_out,
    "size", number (d->size), "data_bytes", number (d->data_bytes), "imported",
    number (d->imported));
}

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
  return json_pack ("{so sb so so so}", "epoch", number (c->epoch), "sessions",
                    c->sessions, "since_ms", number (c->since_wall_ms),
                    "states", states, "confirm", confirm);
}

static json_t *
member_json (const struct cluster_member *m)
{
  return json_pack ("{so ss so so so so so so sb sb sb sb sb so so ss}", "disk",
                    text_uuid (m->disk), "state", member_state_name (m->state),
                    "fence", number (m->fence), "lapse", number (m->lapse),
                    "confirmed", number (m->confirmed), "round",
                    number (m->round), "since_ms", number (m->since_wall_ms),
                    "reason", text_string (m->reason), "planned", m->planned,
                    "held", m->held, "reset", m->reset, "partly", m->partly,
                    "paused", m->paused, "floor", number (m->floor), "ceiling",
                    number (m->ceiling), "moved_from", m->moved_from);
}

static json_t *
array_json (const struct cluster_array_record *a)
{
  json_t *members = json_array ();

  for (unsigned m = 0; m < a->n * a->groups; m++)
    json_array_append_new (members, member_json (&a->member[m]));
  return json_pack (
    "{ss ss ss sI sI so so sb so so so so so so}", "name", a->name, "layout",
    layout_name (a->layout), "dup", array_dup_name (a->dup), "n",
    (json_int_t) a->n, "groups", (json_int_t) a->groups, "unit",
    number (a->unit), "member_bytes", number (a->member_bytes), "ready",
    a->ready, "epoch", number (a->epoch), "round", number (a->round),
    "unprepared", number (a->unprepared), "spare_after_ms",
    number (a->spare_after_ms), "change",
    change_json (&a->change, a->n * a->groups), "members", members);
}

static json_t *
session_json (const struct cluster_session_record *s)
{
  return json_pack (
    "{so ss ss so so so sb so so sb so so}", "array", text_uuid (s->array),
    "array_name", s->array_name, "node", s->node, "instance",
    text_string (s->instance), "uri", text_string (s->uri), "pid",
    number (s->pid), "writable", s->writable, "epoch", number (s->epoch),
    "since_ms", number (s->since_wall_ms), "ended", s->ended, "ended_ms",
    number (s->ended_wall_ms), "reason", text_string (s->reason));
}

static json_t *
node_json (const struct cluster_node_record *n)
{
  return json_pack (
    "{sb sb so so so}", "maintenance", n->maintenance, "draining", n->draining,
    "maintenance_ms", number (n->maintenance_wall_ms), "draining_ms",
    number (n->draining_wall_ms), "drain_bytes", number (n->drain_bytes));
}

static json_t *
job_json (const struct cluster_job *j)
{
  return json_pack (
    "{ss so ss so so so so so}", "kind", cluster_job_kind_word (j->kind),
    "subject", text_string (j->subject), "state",
    cluster_job_state_word (j->state), "waits", text_string (j->waits),
    "done_bytes", number (j->done_bytes), "total_bytes",
    number (j->total_bytes), "since_ms", number (j->since_wall_ms), "ended_ms",
    number (j->ended_wall_ms));
}

static void
record_key (const struct cluster_record *r, char key[STORE_KEY_BYTES])
{
  switch (r->kind) {
  case CLUSTER_RECORD_IDENTITY:
    strcpy (key, "");
    return;
  case CLUSTER_RECORD_DISK:
    text_uuid_print (r->disk.uuid, key);
    return;
  case CLUSTER_RECORD_ARRAY:
    text_uuid_print (r->array.uuid, key);
    return;
  case CLUSTER_RECORD_SESSION:
    snprintf (key, STORE_KEY_BYTES, "%016" PRIx64, r->session.id);
    return;
  case CLUSTER_RECORD_NODE:
    strcpy (key, r->node.name);
    return;
  case CLUSTER_RECORD_JOB:
    strcpy (key, r->job.id);
    return;
  case CLUSTER_RECORD_KINDS:
    break;
  }
  abort ();
}

void
records_add (struct store_txn *t, const struct cluster_record *r)
{
  char key[STORE_KEY_BYTES];
  json_t *json = NULL;
  char *text = NULL;

  record_key (r, key);
  if (!r->deleted) {
    switch (r->kind) {
    case CLUSTER_RECORD_IDENTITY:
      json = identity_json (&r->identity);
      break;
    case CLUSTER_RECORD_DISK:
      json = disk_json (&r->disk);
      break;
    case CLUSTER_RECORD_ARRAY:
      json = array_json (&r->array);
      break;
    case CLUSTER_RECORD_SESSION:
      json = session_json (&r->session);
      break;
    case CLUSTER_RECORD_NODE:
      json = node_json (&r->node);
      break;
    case CLUSTER_RECORD_JOB:
      json = job_json (&r->job);
      break;
    case CLUSTER_RECORD_KINDS:
      break;
    }
    text = json ? json_dumps (json, JSON_COMPACT) : NULL;
    json_decref (json);
    if (text == NULL)
      abort (); /* out of memory: all text was checked when it came in */
  }
  store_txn_add (t, kinds[r->kind], key, text);
}

/* ---- In. ---- */

static void
parse_disk (struct fields *f, const char *key, struct cluster_disk_record *d)
{
  if (!fields_parse_uuid (key, d->uuid))
    fields_fail (f, "key", "its key is no UUID");
  fields_hex (f, "key", d->key, KEY_BYTES);
  if (fields_has (f, "release"))
    fields_uuid (f, "release", d->release);
  if (fields_has (f, "spare_of"))
    fields_uuid (f, "spare_of", d->spare_of);
  if (fields_has (f, "sequence"))
    fields_u64 (f, "sequence", 0, INT64_MAX, &d->sequence);
  fields_text (f, "node", d->node, sizeof d->node);
  fields_text (f, "uri", d->uri, sizeof d->uri);
  fields_text (f, "path", d->path, sizeof d->path);
  if (fields_has (f, "instance"))
    fields_text (f, "instance", d->instance, sizeof d->instance);
  if (fields_has (f, "cache"))
    fields_text (f, "cache", d->cache, sizeof d->cache);
  if (fields_has (f, "moves_to"))
    fields_text (f, "moves_to", d->moves_to, sizeof d->moves_to);
  if (fields_has (f, "shut_out"))
    fields_bool (f, "shut_out", &d->shut_out);
  fields_u64 (f, "size", 0, INT64_MAX, &d->size);
  fields_u64 (f, "data_bytes", 0, INT64_MAX, &d->data_bytes);
  if (fields_has (f, "imported"))
    fields_u64 (f, "imported", 0, EPOCH_MAX, &d->imported);
}

/* Older records have one fence for all members of an array, and a change either
 * asked every member that stays to confirm, or none.
 */
static void
parse_change (struct fields *f, struct cluster_change *c, unsigned members)
{
  struct fields g;
  unsigned count = 0, confirms = members;
  bool all = false;

  if (!fields_has (f, "change") || f->failed)
    return;
  f->seen[f->seen_count++] = "change";
  fields_begin (&g, json_object_get (f->object, "change"));
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
parse_member (struct fields *g, struct cluster_member *member)
{
  int state = 0;

  fields_uuid (g, "disk", member->disk);
  fields_word (g, "state", member_state_parse, "the states", &state);
  member->state = (enum member_state) state;
  if (fields_has (g, "fence"))
    fields_u64 (g, "fence", 0, INT64_MAX, &member->fence);
  member->lapse = member->fence;
  if (fields_has (g, "lapse"))
    fields_u64 (g, "lapse", 0, INT64_MAX, &member->lapse);
  if (fields_has (g, "confirmed"))
    fields_u64 (g, "confirmed", 0, INT64_MAX, &member->confirmed);
  if (fields_has (g, "round"))
    fields_u64 (g, "round", 0, EPOCH_MAX, &member->round);
  fields_u64 (g, "since_ms", 0, INT64_MAX, &member->since_wall_ms);
  fields_text (g, "reason", member->reason, sizeof member->reason);
  if (fields_has (g, "planned"))
    fields_bool (g, "planned", &member->planned);
  if (fields_has (g, "held"))
    fields_bool (g, "held", &member->held);
  if (fields_has (g, "reset"))
    fields_bool (g, "reset", &member->reset);
  if (fields_has (g, "partly"))
    fields_bool (g, "partly", &member->partly);
  if (fields_has (g, "paused"))
    fields_bool (g, "paused", &member->paused);
  if (fields_has (g, "floor"))
    fields_u64 (g, "floor", 0, INT64_MAX, &member->floor);
  if (fields_has (g, "ceiling"))
    fields_u64 (g, "ceiling", 0, INT64_MAX, &member->ceiling);
  if (fields_has (g, "moved_from"))
    fields_text (g, "moved_from", member->moved_from,
                 sizeof member->moved_from);
  fields_end (g);
}

/* `fence`: of those members that have none of their own. */
static void
parse_members (struct fields *f, struct cluster_array_record *a, uint64_t fence)
{
  const json_t *list = json_object_get (f->object, "members");
  struct fields g;

  if (f->failed)
    return;
  f->seen[f->seen_count++] = "members";
  if (json_array_size (list) != a->n * a->groups) {
    fields_fail (f, "members", "field members must have n * groups elements");
    return;
  }
  for (unsigned m = 0; m < a->n * a->groups; m++) {
    a->member[m].fence = fence;
    fields_begin (&g, json_array_get (list, m));
    parse_member (&g, &a->member[m]);
    if (g.failed) {
      fields_fail (f, "members", "member %u: %.200s", m, g.why);
      return;
    }
  }
}

static void
parse_array (struct fields *f, const char *key, struct cluster_array_record *a)
{
  int layout = 0, dup = 0;
  uint64_t n = 0, groups = 0, fence = 0;

  if (!fields_parse_uuid (key, a->uuid))
    fields_fail (f, "key", "its key is no UUID");
  fields_name (f, "name", a->name, sizeof a->name);
  fields_word (f, "layout", layout_parse, "the layouts", &layout);
  fields_word (f, "dup", array_dup_parse, "the duplications", &dup);
  fields_u64 (f, "n", 1, GROUP_MEMBERS_MAX, &n);
  fields_u64 (f, "groups", 1, ARRAY_GROUPS_MAX, &groups);
  fields_u64 (f, "unit", UNIT_BYTES_MIN, UNIT_BYTES_MAX, &a->unit);
  fields_u64 (f, "member_bytes", 1, INT64_MAX, &a->member_bytes);
  fields_bool (f, "ready", &a->ready);
  fields_u64 (f, "epoch", 1, INT64_MAX, &a->epoch);
  if (fields_has (f, "round"))
    fields_u64 (f, "round", 0, EPOCH_MAX, &a->round);
  if (fields_has (f, "fence"))
    fields_u64 (f, "fence", 0, INT64_MAX, &fence);
  if (fields_has (f, "unprepared"))
    fields_u64 (f, "unprepared", 0, EPOCH_MAX, &a->unprepared);
  a->spare_after_ms = SPARE_AFTER_MS_DEFAULT;
  if (fields_has (f, "spare_after_ms"))
    fields_u64 (f, "spare_after_ms", 0, INT64_MAX, &a->spare_after_ms);
  if (!f->failed && n * groups > ARRAY_MEMBERS_MAX)
    fields_fail (f, "n", "there are too many members");
  a->layout = (enum layout_kind) layout;
  a->dup = (enum array_dup) dup;
  a->n = (unsigned) n;
  a->groups = (unsigned) groups;
  parse_change (f, &a->change, a->n * a->groups);
  parse_members (f, a, fence);
}

static void
parse_session (struct fields *f, const char *key,
               struct cluster_session_record *s)
{
  uint8_t id[8];

  if (!fields_parse_hex (key, id, sizeof id))
    fields_fail (f, "key", "its key is no session's number");
  else
    for (unsigned i = 0; i < 8; i++)
      s->id = s->id << 8 | id[i];
  fields_uuid (f, "array", s->array);
  fields_name (f, "array_name", s->array_name, sizeof s->array_name);
  fields_text (f, "node", s->node, sizeof s->node);
  fields_text (f, "instance", s->instance, sizeof s->instance);
  fields_text (f, "uri", s->uri, sizeof s->uri);
  fields_u64 (f, "pid", 0, INT64_MAX, &s->pid);
  fields_bool (f, "writable", &s->writable);
  fields_u64 (f, "epoch", 1, INT64_MAX, &s->epoch);
  fields_u64 (f, "since_ms", 0, INT64_MAX, &s->since_wall_ms);
  fields_bool (f, "ended", &s->ended);
  fields_u64 (f, "ended_ms", 0, INT64_MAX, &s->ended_wall_ms);
  fields_text (f, "reason", s->reason, sizeof s->reason);
}

static void
parse_node (struct fields *f, const char *key, struct cluster_node_record *n)
{
  if (name_valid (key))
    strcpy (n->name, key);
  else
    fields_fail (f, "key", "its key is no node's name");
  fields_bool (f, "maintenance", &n->maintenance);
  fields_bool (f, "draining", &n->draining);
  fields_u64 (f, "maintenance_ms", 0, INT64_MAX, &n->maintenance_wall_ms);
  fields_u64 (f, "draining_ms", 0, INT64_MAX, &n->draining_wall_ms);
  fields_u64 (f, "drain_bytes", 0, INT64_MAX, &n->drain_bytes);
}

static void
parse_job (struct fields *f, const char *key, struct cluster_job *j)
{
  int kind = 0, state = 0;

  if (strlen (key) < sizeof j->id)
    strcpy (j->id, key);
  else
    fields_fail (f, "key", "its key is no job's id");
  fields_word (f, "kind", cluster_job_kind_parse, "the kinds", &kind);
  fields_text (f, "subject", j->subject, sizeof j->subject);
  fields_word (f, "state", cluster_job_state_parse, "the states", &state);
  fields_text (f, "waits", j->waits, sizeof j->waits);
  fields_u64 (f, "done_bytes", 0, INT64_MAX, &j->done_bytes);
  fields_u64 (f, "total_bytes", 0, INT64_MAX, &j->total_bytes);
  fields_u64 (f, "since_ms", 0, INT64_MAX, &j->since_wall_ms);
  fields_u64 (f, "ended_ms", 0, INT64_MAX, &j->ended_wall_ms);
  j->kind = (enum cluster_job_kind) kind;
  j->state = (enum cluster_job_state) state;
}

int
records_parse (const char *kind, const char *key, const char *json,
               struct cluster_record *r, char *why, size_t why_size)
{
  json_error_t error;
  json_t *object = json_loads (json, JSON_REJECT_DUPLICATES, &error);
  struct fields f;

  if (object == NULL) {
    snprintf (why, why_size, "%s", error.text);
    return -1;
  }
  memset (r, 0, sizeof *r);
  fields_begin (&f, object);
  if (strcmp (kind, kinds[CLUSTER_RECORD_IDENTITY]) == 0) {
    r->kind = CLUSTER_RECORD_IDENTITY;
    fields_uuid (&f, "uuid", r->identity.uuid);
    fields_u64 (&f, "generation", 0, INT64_MAX - 1, &r->identity.generation);
  }
  else if (strcmp (kind, kinds[CLUSTER_RECORD_DISK]) == 0) {
    r->kind = CLUSTER_RECORD_DISK;
    parse_disk (&f, key, &r->disk);
  }
  else if (strcmp (kind, kinds[CLUSTER_RECORD_ARRAY]) == 0) {
    r->kind = CLUSTER_RECORD_ARRAY;
    parse_array (&f, key, &r->array);
  }
  else if (strcmp (kind, kinds[CLUSTER_RECORD_SESSION]) == 0) {
    r->kind = CLUSTER_RECORD_SESSION;
    parse_session (&f, key, &r->session);
  }
  else if (strcmp (kind, kinds[CLUSTER_RECORD_NODE]) == 0) {
    r->kind = CLUSTER_RECORD_NODE;
    parse_node (&f, key, &r->node);
  }
  else if (strcmp (kind, kinds[CLUSTER_RECORD_JOB]) == 0) {
    r->kind = CLUSTER_RECORD_JOB;
    parse_job (&f, key, &r->job);
  }
  else
    fields_fail (&f, "kind", "there is no such kind of record");
  fields_end (&f);
  json_decref (object);
  if (f.failed)
    snprintf (why, why_size, "%s", f.why);
  return f.failed ? -1 : 0;
}
