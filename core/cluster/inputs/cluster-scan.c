/* cluster-scan.c: a pool is scanned: the process that has attached it says which volumes
 * are there, and which segments each has.
 *
 * That is necessary where weftd's database may be older than the pool: after an import,
 * after a restore from a backup, or when the process knows of more messages than the
 * database.  Until the scan is over, nothing of the pool is opened or granted.  The pool is
 * right about volumes that are made; the database knows besides which volumes are new, and
 * which are being deleted.
 *
 * The messages are kept in memory, and taken over in one step.  Each volume first gets so many segments more that it can rewrite its log; so a FLUSH and a trim need no
 * space that another volume has taken.
 *
 * A volume whose root or log can't be read is broken.  Nobody knows all of its segments, so
 * nothing is granted in the pool while there is one.
 */

#include <config.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "cluster-inputs.h"

static void
begin (struct cluster_pool *p, const struct cluster_session *s)
{
  struct cluster_scan *scan = p->scan;

  if (scan == NULL) {
    scan = p->scan = alloc_zeroed (sizeof *scan);
    scan->owner = alloc_zeroed (p->geometry.segments * sizeof *scan->owner);
    scan->found = alloc_zeroed (p->geometry.roots * sizeof *scan->found);
  }
  scan->session = s->rec.id;
  memset (scan->owner, 0, p->geometry.segments * sizeof *scan->owner);
  memset (scan->found, 0, p->geometry.roots * sizeof *scan->found);
}

/* ---- What it says. ---- */

static bool
refuse_found (struct cluster *c, uint64_t op, const struct cluster_pool *p,
              const struct cluster_found_volume *w)
{
  struct cluster_problem *problem = NULL;

  if (w->root >= p->geometry.roots)
    problem = cluster_step_refuse (c, op, CLUSTER_INVALID, "root",
                                   "there is no root %u: the pool has %u",
                                   w->root, p->geometry.roots);
  else if (w->found.why[0] == '\0' &&
           (!name_valid (w->found.name) ||
            cluster_uuid_is_zero (w->found.uuid) || w->found.size == 0 ||
            w->found.size % 512 != 0 || w->found.size > VOLUME_BYTES_MAX))
    problem = cluster_step_refuse (c, op, CLUSTER_INVALID, "size",
                                   "root %u has no valid name, UUID or size",
                                   w->root);
  for (unsigned i = 0; problem == NULL && i < w->runs; i++)
    if (!cluster_space_fits (p, &w->run[i]))
      problem = cluster_step_refuse (c, op, CLUSTER_INVALID, "run",
                                     "root %u: %" PRIu32
                                     " segments from %" PRIu32
                                     " on are none that the pool grants",
                                     w->root, w->run[i].count, w->run[i].first);
    else if (i > 0 &&
             w->run[i].first < w->run[i - 1].first + w->run[i - 1].count)
      problem = cluster_step_refuse (c, op, CLUSTER_INVALID, "run",
                                     "root %u: its runs are not ascending, or "
                                     "overlap: see the one from %" PRIu32 " on",
                                     w->root, w->run[i].first);
  if (problem)
    problem->field = "volumes";
  return problem != NULL;
}

/* Each root is in it once, and its runs are ascending.  So a message names a segment as often
 * as the pool has roots at most, and is sent again without harm.
 */
static bool
refuse_order (struct cluster *c, uint64_t op, const struct cluster_pool *p,
              const struct cluster_scan_message *message)
{
  bool seen[POOL_ROOTS_MAX] = { false };

  for (unsigned i = 0; i < message->volumes; i++) {
    const struct cluster_found_volume *w = &message->volume[i];

    if (refuse_found (c, op, p, w))
      return true;
    if (seen[w->root]) {
      cluster_step_refuse (c, op, CLUSTER_INVALID, "twice",
                           "two elements are about root %u", w->root)
        ->field = "volumes";
      return true;
    }
    seen[w->root] = true;
  }
  return false;
}

static void
clash (struct cluster_scan *scan, unsigned root, unsigned other,
       uint32_t segment)
{
  struct cluster_found *f = &scan->found[root], *o = &scan->found[other];

  snprintf (f->why, sizeof f->why,
            "it and the volume of root %u name segment %" PRIu32, other,
            segment);
  snprintf (o->why, sizeof o->why,
            "it and the volume of root %u name segment %" PRIu32, root,
            segment);
}

/* A further message about a root takes no doubt back.  The rest of a volume that names
 * another one's segment is left out: it is broken, and nothing is granted beside it.
 */
static void
note (struct cluster_pool *p, const struct cluster_found_volume *w)
{
  struct cluster_scan *scan = p->scan;
  struct cluster_found *f = &scan->found[w->root];
  char why[sizeof f->why];

  snprintf (why, sizeof why, "%s", f->why);
  *f = w->found;
  f->there = true;
  if (f->why[0] == '\0')
    snprintf (f->why, sizeof f->why, "%s", why);
  for (unsigned i = 0; i < w->runs; i++)
    for (uint32_t s = w->run[i].first; s < w->run[i].first + w->run[i].count;
         s++) {
      uint32_t other = scan->owner[s];

      if (other && other != w->root + 1) {
        clash (scan, w->root, other - 1, s);
        return;
      }
      scan->owner[s] = w->root + 1;
    }
}

/* ---- Taking it over. ---- */

/* A volume that the database has, and that is not found.  It stays if no process has made
 * it, and no volume that is found has its name; else it was deleted later.
 */
static void
judge_missing (struct cluster *c, struct cluster_array *a,
               struct cluster_volume *v)
{
  bool new = v->rec.state == CLUSTER_VOLUME_NEW ||
             v->rec.state == CLUSTER_VOLUME_TOLD;

  if (new && !cluster_found_name (a->pool, v->rec.name)) {
    v->rec.state = CLUSTER_VOLUME_NEW;
    return;
  }
  if (new)
    cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                      "Volume %s/%s, which no process has made, is gone: "
                      "the pool has another volume of this name.",
                      a->rec.name, v->rec.name);
  else
    cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                      "Volume %s/%s is not in the pool, and was deleted "
                      "later than weftd's database says.",
                      a->rec.name, v->rec.name);
  cluster_volume_drop (c, a, v);
}

static void
take_over (struct cluster *c, struct cluster_array *a, unsigned root,
           const struct cluster_found *f)
{
  struct cluster_volume *v = cluster_volume_by_uuid (a, f->uuid);

  if (v == NULL) {
    v = alloc_zeroed (sizeof *v);
    memcpy (v->rec.uuid, f->uuid, 16);
    memcpy (v->rec.array, a->rec.uuid, 16);
    v->rec.size = 512;
    v->rec.since_wall_ms = c->wall_ms;
  }
  else {
    TAILQ_REMOVE (&a->pool->volumes, v, link);
    a->pool->volumes_count--;
  }
  snprintf (v->rec.name, sizeof v->rec.name, "%s", f->name);
  v->rec.root = root;
  if (f->size > 0)
    v->rec.size = f->size;
  if (v->rec.state != CLUSTER_VOLUME_DELETING)
    v->rec.state = f->why[0] ? CLUSTER_VOLUME_BROKEN : CLUSTER_VOLUME_MADE;
  snprintf (v->rec.reason, sizeof v->rec.reason, "%s", f->why);
  v->rec.granted = 0;
  cluster_volume_insert (a, v);
}

/* The roots of volumes that are not made go to places that are free. */
static void
move_new (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_scan *scan = a->pool->scan;
  struct cluster_volume *v, *next;
  unsigned root;

  TAILQ_FOREACH_SAFE (v, &a->pool->volumes, link, next) {
    if (v->rec.state != CLUSTER_VOLUME_NEW || !scan->found[v->rec.root].there)
      continue;
    root = cluster_volume_root (a);
    if (root != UINT_MAX) {
      v->rec.root = root;
      continue;
    }
    cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                      "Volume %s/%s, which no process has made, is gone: the "
                      "pool has as many other volumes as it can have.",
                      a->rec.name, v->rec.name);
    cluster_volume_drop (c, a, v);
  }
}

static void
log_end (struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_volume *v;

  cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                    "Pool %s was scanned: it has %u volumes.", a->rec.name,
                    a->pool->volumes_count);
  TAILQ_FOREACH (v, &a->pool->volumes, link)
    if (v->rec.state == CLUSTER_VOLUME_BROKEN)
      cluster_step_log (c, CLUSTER_ERROR, "array", a->rec.name,
                        "Volume %s/%s can't be read: %s", a->rec.name,
                        v->rec.name, v->rec.reason);
}

static void
end (struct cluster *c, const struct cluster_input *in, struct cluster_array *a)
{
  struct cluster_pool *p = a->pool;
  struct cluster_scan *scan = p->scan;
  struct cluster_volume *v, *next;
  uint32_t from = p->first;

  cluster_found_settle (c, in, a);
  cluster_space_clear (p);
  TAILQ_FOREACH_SAFE (v, &p->volumes, link, next) {
    v->order.number = 0;
    if (!cluster_found_uuid (p, v->rec.uuid))
      judge_missing (c, a, v);
  }
  for (unsigned root = 0; root < p->geometry.roots; root++)
    if (scan->found[root].there)
      take_over (c, a, root, &scan->found[root]);
  move_new (c, a);
  cluster_space_adopt (p, scan->owner);
  TAILQ_FOREACH (v, &p->volumes, link)
    cluster_step_put_volume (c, v);
  TAILQ_FOREACH (v, &p->volumes, link)
    if (v->rec.state == CLUSTER_VOLUME_MADE)
      from = cluster_space_keep (p, v, from, scan->found[v->rec.root].kept);
  cluster_space_store (c, a);
  cluster_volume_scan_free (p);
  a->rec.pool = CLUSTER_POOL_READY;
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  log_end (c, a);
  cluster_volume_begin (c, a); /* deletions are ordered again */
}

/* ---- The message. ---- */

/* The kind of an imported array is known now.  False: refused. */
static bool
learn_kind (struct cluster *c, uint64_t op, struct cluster_array *a,
            const struct cluster_scan_message *message)
{
  if (message->segment_bytes == 0) {
    a->rec.pool = CLUSTER_POOL_NONE;
    cluster_step_put_array (c, a);
    return true;
  }
  a->rec.segment_bytes = message->segment_bytes;
  if (!cluster_volume_pool (a)) {
    a->rec.segment_bytes = 0;
    cluster_step_refuse (c, op, CLUSTER_INVALID, "pool",
                         "array %s can't be a pool with segments of %" PRIu64
                         " bytes",
                         a->rec.name, message->segment_bytes)
      ->field = "segment_bytes";
    return false;
  }
  a->rec.pool = CLUSTER_POOL_UNSCANNED;
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  return true;
}

static bool
refuse_now (struct cluster *c, uint64_t op, const struct cluster_session *s)
{
  const struct cluster_array *a = s->array;

  if (cluster_step_refuse_read_only (c, op))
    return true;
  if (!s->rec.writable || s->rec.part.length > 0 ||
      a->rec.pool == CLUSTER_POOL_NONE)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "not-pool",
                         "array %s is no pool, or was not attached as one",
                         a->rec.name);
  else
    return cluster_pool_refuse_early (c, op, s->array);
  return true;
}

static void
scan (struct cluster *c, const struct cluster_input *in,
      struct cluster_session *s, const struct cluster_scan_message *message)
{
  struct cluster_array *a = s->array;

  if (refuse_now (c, in->op, s))
    return;
  if (a->rec.pool == CLUSTER_POOL_UNKNOWN && message->begin &&
      !learn_kind (c, in->op, a, message))
    return;
  /* An answer to the end was lost. */
  if (a->rec.pool != CLUSTER_POOL_UNSCANNED) {
    cluster_step_reply_session (c, in->op, CLUSTER_REPLY_SCANNED, a, s);
    return;
  }
  if (refuse_order (c, in->op, a->pool, message))
    return;
  if (message->begin)
    begin (a->pool, s);
  if (a->pool->scan == NULL || a->pool->scan->session != s->rec.id) {
    cluster_step_refuse (
      c, in->op, CLUSTER_CONFLICT, "scan",
      "weftd does not have the earlier messages of this scan of "
      "pool %s: begin the scan again",
      a->rec.name);
    return;
  }
  for (unsigned i = 0; i < message->volumes; i++)
    note (a->pool, &message->volume[i]);
  if (message->end)
    end (c, in, a);
  cluster_step_reply_session (c, in->op, CLUSTER_REPLY_SCANNED, a, s);
}

void
cluster_session_scan (struct cluster *c, const struct cluster_input *in,
                      uint64_t id, const struct cluster_scan_message *message)
{
  struct cluster_session *s;

  cluster_step_begin (c, in);
  s = cluster_session_end_find_own (c, in->op, id, message->instance);
  if (s)
    scan (c, in, s, message);
  cluster_pump_end (c);
}
