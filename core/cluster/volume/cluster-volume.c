/* cluster-volume.c: the volumes of a pool, and the orders for them.
 *
 * The pool itself has each volume's root, size and map; weftd knows which volumes there
 * are, and which segments each has.  A volume that is created is a record alone until a
 * process opens it.  After that, changes are orders: the process that has the pool gets the
 * order with each answer to its heartbeats, until it says that it has carried it out.
 *
 * Orders are in memory alone.  If the session ends or weftd is started again, an order to
 * resize is forgotten: the root shows whether it was carried out.  The record of a volume
 * that is being deleted says so, and weftd repeats that order to the next session as well.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-volume.h"

/* ---- Pools. ---- */

bool
cluster_volume_pool (struct cluster_array *a)
{
  struct pool_header geometry;
  const char *why;

  assert (a->pool == NULL);
  if (pool_plan (a->layout.size, a->rec.segment_bytes, &geometry, &why) == -1)
    return false;
  a->pool = alloc_zeroed (sizeof *a->pool);
  a->pool->geometry = geometry;
  TAILQ_INIT (&a->pool->volumes);
  cluster_space_begin (a->pool);
  return true;
}

void
cluster_volume_scan_free (struct cluster_pool *p)
{
  if (p->scan == NULL)
    return;
  free (p->scan->owner);
  free (p->scan->found);
  free (p->scan);
  p->scan = NULL;
}

void
cluster_volume_pool_free (struct cluster_array *a)
{
  struct cluster_volume *v, *next;

  if (a->pool == NULL)
    return;
  TAILQ_FOREACH_SAFE (v, &a->pool->volumes, link, next)
    free (v);
  cluster_volume_scan_free (a->pool);
  cluster_space_end (a->pool);
  free (a->pool);
  a->pool = NULL;
}

static int
link_volume (struct cluster *c, struct cluster_volume *v, char *why,
             size_t why_size)
{
  struct cluster_array *a = cluster_array_by_uuid (c, v->rec.array);
  const struct cluster_volume *other;

  if (a == NULL || a->pool == NULL) {
    snprintf (why, why_size, "the pool of volume %s is missing", v->rec.name);
    return -1;
  }
  TAILQ_FOREACH (other, &a->pool->volumes, link)
    if (other->rec.root == v->rec.root ||
        strcmp (other->rec.name, v->rec.name) == 0)
      break;
  if (other || v->rec.root >= a->pool->geometry.roots) {
    snprintf (why, why_size,
              "volume %s of array %s has a name or a root that another has, or "
              "a root that there is not",
              v->rec.name, a->rec.name);
    return -1;
  }
  TAILQ_REMOVE (&c->loaded_volumes, v, link);
  cluster_volume_insert (a, v);
  return 0;
}

int
cluster_volume_link (struct cluster *c, char *why, size_t why_size)
{
  struct loaded_space *space;
  struct cluster_volume *v;
  struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    if (a->rec.pool >= CLUSTER_POOL_BLANK && !cluster_volume_pool (a)) {
      snprintf (why, why_size,
                "array %s can't be a pool with segments of %" PRIu64 " bytes",
                a->rec.name, a->rec.segment_bytes);
      return -1;
    }
  while ((v = TAILQ_FIRST (&c->loaded_volumes)))
    if (link_volume (c, v, why, why_size) == -1)
      return -1;
  while ((space = STAILQ_FIRST (&c->loaded_space))) {
    a = cluster_array_by_uuid (c, space->rec.array);
    if (a == NULL || a->pool == NULL ||
        !cluster_space_load (a->pool, &space->rec)) {
      snprintf (why, why_size,
                "page %u of the space of a pool has no pool, or an owner that "
                "there is not",
                space->rec.page);
      return -1;
    }
    STAILQ_REMOVE_HEAD (&c->loaded_space, link);
    free (space);
  }
  return 0;
}

void
cluster_volume_forget (struct cluster *c, struct cluster_array *a)
{
  struct cluster_volume *v;

  if (a->pool == NULL)
    return;
  cluster_space_forget (c, a);
  TAILQ_FOREACH (v, &a->pool->volumes, link)
    cluster_step_drop_volume (c, v);
  cluster_volume_pool_free (a);
}

void
cluster_volume_unscanned (struct cluster *c, struct cluster_array *a)
{
  if (a->rec.pool < CLUSTER_POOL_BLANK || a->rec.pool == CLUSTER_POOL_UNSCANNED)
    return;
  a->rec.pool = CLUSTER_POOL_UNSCANNED;
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  cluster_step_log (c, CLUSTER_ERROR, "array", a->rec.name,
                    "weftd's database may be older than pool %s: nothing is "
                    "granted before a process has scanned the pool.",
                    a->rec.name);
}

/* ---- Volumes. ---- */

struct cluster_volume *
cluster_volume_find (const struct cluster_array *a, const char *name)
{
  struct cluster_volume *v;

  if (a->pool)
    TAILQ_FOREACH (v, &a->pool->volumes, link)
      if (strcmp (v->rec.name, name) == 0)
        return v;
  return NULL;
}

struct cluster_volume *
cluster_volume_by_uuid (const struct cluster_array *a, const uint8_t uuid[16])
{
  struct cluster_volume *v;

  TAILQ_FOREACH (v, &a->pool->volumes, link)
    if (cluster_uuid_equal (v->rec.uuid, uuid))
      return v;
  return NULL;
}

struct cluster_volume *
cluster_volume_by_root (const struct cluster_array *a, unsigned root)
{
  struct cluster_volume *v;

  TAILQ_FOREACH (v, &a->pool->volumes, link)
    if (v->rec.root == root)
      return v;
  return NULL;
}

bool
cluster_volume_any_broken (const struct cluster_array *a)
{
  const struct cluster_volume *v;

  TAILQ_FOREACH (v, &a->pool->volumes, link)
    if (v->rec.state == CLUSTER_VOLUME_BROKEN)
      return true;
  return false;
}

void
cluster_volume_insert (struct cluster_array *a, struct cluster_volume *v)
{
  struct cluster_pool *p = a->pool;
  struct cluster_volume *after;

  TAILQ_FOREACH (after, &p->volumes, link)
    if (strcmp (after->rec.name, v->rec.name) > 0)
      break;
  if (after)
    TAILQ_INSERT_BEFORE (after, v, link);
  else
    TAILQ_INSERT_TAIL (&p->volumes, v, link);
  p->volumes_count++;
}

unsigned
cluster_volume_root (const struct cluster_array *a)
{
  bool used[POOL_ROOTS_MAX] = { false };
  const struct cluster_volume *v;

  TAILQ_FOREACH (v, &a->pool->volumes, link)
    used[v->rec.root] = true;
  for (unsigned root = 0; root < a->pool->geometry.roots; root++)
    if (!used[root])
      return root;
  return UINT_MAX;
}

void
cluster_volume_drop (struct cluster *c, struct cluster_array *a,
                     struct cluster_volume *v)
{
  cluster_space_drop (a->pool, v);
  cluster_space_store (c, a);
  cluster_step_drop_volume (c, v);
  cluster_step_changed_array (c, a);
  TAILQ_REMOVE (&a->pool->volumes, v, link);
  a->pool->volumes_count--;
  free (v);
}

struct cluster_run *
cluster_volume_runs (const struct cluster_array *a,
                     const struct cluster_volume *v, unsigned *count)
{
  struct cluster_run *list = alloc_zeroed ((v->segments + 1) * sizeof *list);
  uint32_t left = v->segments;

  *count = 0;
  for (uint32_t s = a->pool->first; left > 0; s++) {
    struct cluster_run *last = *count ? &list[*count - 1] : NULL;

    if (a->pool->owner[s] != v->rec.root + 1)
      continue;
    left--;
    if (last && last->first + last->count == s)
      last->count++;
    else
      list[(*count)++] = (struct cluster_run) { s, 1 };
  }
  return list;
}

const struct cluster_volume *
cluster_volume_granted (const struct cluster_session *s, uint64_t number,
                        const struct cluster_volume *before)
{
  const struct cluster_volume *v;

  if (s->array == NULL || s->array->pool == NULL)
    return NULL;
  v = before ? TAILQ_NEXT (before, link)
             : TAILQ_FIRST (&s->array->pool->volumes);
  while (v && (v->rec.session != s->rec.id || v->rec.number != number ||
               v->rec.granted == 0))
    v = TAILQ_NEXT (v, link);
  return v;
}

/* ---- Orders. ---- */

uint64_t
cluster_volume_order (struct cluster *c, struct cluster_array *a,
                      struct cluster_volume *v, enum cluster_volume_what what,
                      uint64_t size)
{
  v->order = (struct cluster_volume_order) {
    /* JSON's numbers are exact below 2^53 */
    .number = (c->identity.generation & UINT32_MAX) << 20 | ++c->volume_orders,
    .what = what,
    .size = size,
  };
  a->pool->newest_order = v->order.number;
  cluster_array_due (c, a, DUE_MEMBERS); /* the session's poll is answered */
  return v->order.number;
}

struct waiting *
cluster_volume_waiting (const struct cluster *c, uint64_t order)
{
  struct waiting *w;

  TAILQ_FOREACH (w, &c->waitings, link)
    if (w->kind == WAIT_ORDER && w->order == order)
      return w;
  return NULL;
}

void
cluster_volume_late (struct cluster *c, struct waiting *w)
{
  cluster_step_defer (
    c, w->op, CLUSTER_UNAVAILABLE, "no-answer", HEARTBEAT_MS,
    "the process that has pool %s has not carried the order out within %d s, "
    "and still has it; see weftctl volume ls %s",
    w->array->rec.name, ORDER_MS / 1000, w->array->rec.name);
  cluster_wait_end (c, w);
}

void
cluster_volume_begin (struct cluster *c, struct cluster_array *a)
{
  struct cluster_volume *v;

  if (a->pool == NULL)
    return;
  TAILQ_FOREACH (v, &a->pool->volumes, link)
    if (v->rec.state == CLUSTER_VOLUME_DELETING)
      cluster_volume_order (c, a, v, CLUSTER_VOLUME_DELETE, 0);
}

void
cluster_volume_session_over (struct cluster *c, struct cluster_array *a,
                             const struct cluster_session *s)
{
  struct cluster_volume *v;
  struct waiting *w;

  if (a->pool == NULL || !s->rec.writable)
    return;
  if (a->pool->scan && a->pool->scan->session == s->rec.id)
    cluster_volume_scan_free (a->pool);
  TAILQ_FOREACH (v, &a->pool->volumes, link) {
    v->heard = false;
    v->said.clients = v->said.waiting = 0;
    v->waits_live_ms = 0;
    if (v->order.number == 0)
      continue;
    while ((w = cluster_volume_waiting (c, v->order.number))) {
      if (v->order.what == CLUSTER_VOLUME_DELETE)
        cluster_step_reply_volume (c, w->op, CLUSTER_REPLY_VOLUME, a, v);
      else
        cluster_step_refuse (
          c, w->op, CLUSTER_CONFLICT, "no-holder",
          "the process that had pool %s has ended: the size of "
          "volume %s is %" PRIu64
          " bytes, as far as weftd knows; attach the pool, and "
          "try again",
          a->rec.name, v->rec.name, v->rec.size);
      cluster_wait_end (c, w);
    }
    v->order.number = 0;
  }
}

static int
by_number (const void *a, const void *b)
{
  const struct cluster_volume *const *v = a, *const *w = b;

  return ((*v)->order.number > (*w)->order.number) -
         ((*v)->order.number < (*w)->order.number);
}

const struct cluster_volume **
cluster_volume_orders (const struct cluster_array *a, unsigned *count)
{
  const struct cluster_volume **list, *v;

  list = alloc_zeroed ((a->pool->volumes_count + 1) * sizeof *list);
  *count = 0;
  TAILQ_FOREACH (v, &a->pool->volumes, link)
    if (v->order.number)
      list[(*count)++] = v;
  qsort (list, *count, sizeof *list, by_number);
  return list;
}

/* ---- Words and figures. ---- */

const char *
cluster_volume_state_word (enum cluster_volume_state state)
{
  static const char *const words[CLUSTER_VOLUME_STATES] = {
    [CLUSTER_VOLUME_NEW] = "new",       [CLUSTER_VOLUME_TOLD] = "opening",
    [CLUSTER_VOLUME_MADE] = "ready",    [CLUSTER_VOLUME_DELETING] = "deleting",
    [CLUSTER_VOLUME_BROKEN] = "broken",
  };

  return words[state];
}

int
cluster_volume_state_parse (const char *word)
{
  for (int i = 0; i < CLUSTER_VOLUME_STATES; i++)
    if (strcmp (word,
                cluster_volume_state_word ((enum cluster_volume_state) i)) == 0)
      return i;
  return -1;
}

const char *
cluster_pool_state_word (enum cluster_pool_state state)
{
  static const char *const words[CLUSTER_POOL_STATES] = {
    [CLUSTER_POOL_NONE] = "none",          [CLUSTER_POOL_UNKNOWN] = "unknown",
    [CLUSTER_POOL_BLANK] = "blank",        [CLUSTER_POOL_READY] = "ready",
    [CLUSTER_POOL_UNSCANNED] = "scanning",
  };

  return words[state];
}

int
cluster_pool_state_parse (const char *word)
{
  for (int i = 0; i < CLUSTER_POOL_STATES; i++)
    if (strcmp (word, cluster_pool_state_word ((enum cluster_pool_state) i)) ==
        0)
      return i;
  return -1;
}

void
cluster_pool_figures (const struct cluster_array *a,
                      struct cluster_pool_figures *f)
{
  const struct cluster_pool *p = a->pool;
  uint64_t segment = p->geometry.segment_bytes;
  const struct cluster_volume *v;

  memset (f, 0, sizeof *f);
  f->total = (p->geometry.segments - p->first) * segment;
  f->free = p->free * segment;
  f->granted = f->total - f->free;
  TAILQ_FOREACH (v, &p->volumes, link) {
    f->promised += v->rec.size;
    f->mapped += v->said.mapped * segment;
    f->log += v->said.log * segment;
    f->spare += v->said.spare * segment;
  }
}
