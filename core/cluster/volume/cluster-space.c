/* cluster-space.c: the owner of each segment of a pool.
 *
 * A segment has one owner at most, so no two volumes ever get the same one.  A grant is
 * stored before the process hears of it.  A segment that a process gives back is free at
 * once, because the process does not touch it any more.  A page of the table is a record, and pages without an
 * owner have none.
 *
 * Segments for data are granted in windows that grow with their use, side by side if
 * possible (Redbud, Yi and others, section 4.2, Algorithm 1).  A small share of the pool
 * is for logs alone, so that a volume in a full pool can still log that segments are gone.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-volume.h"

static uint32_t
page_end (const struct cluster_pool *p, uint32_t page)
{
  uint32_t end = (page + 1) * POOL_PAGE_SEGMENTS;

  return end < p->geometry.segments ? end : p->geometry.segments;
}

static void
own (struct cluster_pool *p, struct cluster_volume *v, uint32_t segment,
     bool owned)
{
  uint32_t page = segment / POOL_PAGE_SEGMENTS;

  assert (p->owner[segment] == (owned ? 0 : v->rec.root + 1));
  p->owner[segment] = owned ? v->rec.root + 1 : 0;
  p->page_changed[page] = true;
  if (owned)
    p->free--, p->page_free[page]--, v->segments++;
  else
    p->free++, p->page_free[page]++, v->segments--;
}

void
cluster_space_begin (struct cluster_pool *p)
{
  uint32_t segments = p->geometry.segments;

  p->first = pool_first_segment (&p->geometry);
  p->pages = (segments + POOL_PAGE_SEGMENTS - 1) / POOL_PAGE_SEGMENTS;
  p->owner = alloc_zeroed (segments * sizeof *p->owner);
  p->page_free = alloc_zeroed (p->pages * sizeof *p->page_free);
  p->page_changed = alloc_zeroed (p->pages * sizeof *p->page_changed);
  p->free = segments - p->first;
  for (uint32_t page = 0; page < p->pages; page++) {
    uint32_t begin = page * POOL_PAGE_SEGMENTS, end = page_end (p, page);

    if (begin < p->first)
      begin = p->first < end ? p->first : end;
    p->page_free[page] = end - begin;
  }
}

void
cluster_space_end (struct cluster_pool *p)
{
  free (p->owner);
  free (p->page_free);
  free (p->page_changed);
}

static struct cluster_volume *
by_root (const struct cluster_pool *p, unsigned root)
{
  struct cluster_volume *v;

  TAILQ_FOREACH (v, &p->volumes, link)
    if (v->rec.root == root)
      return v;
  return NULL;
}

bool
cluster_space_load (struct cluster_pool *p,
                    const struct cluster_space_record *r)
{
  uint32_t begin = r->page * POOL_PAGE_SEGMENTS;
  struct cluster_volume *v = NULL;

  if (r->page >= p->pages)
    return false;
  for (uint32_t i = 0; i < POOL_PAGE_SEGMENTS; i++) {
    if (r->owner[i] == 0)
      continue;
    if (v == NULL || v->rec.root != r->owner[i] - 1)
      v = by_root (p, r->owner[i] - 1);
    if (v == NULL || begin + i < p->first || begin + i >= p->geometry.segments)
      return false;
    own (p, v, begin + i, true);
  }
  p->page_changed[r->page] = false;
  return true;
}

bool
cluster_space_fits (const struct cluster_pool *p, const struct cluster_run *run)
{
  return run->count > 0 && run->first >= p->first &&
         run->first < p->geometry.segments &&
         run->count <= p->geometry.segments - run->first;
}

/* The first free segment from this one on, before `end`; or `end`. */
static uint32_t
next_free (const struct cluster_pool *p, uint32_t segment, uint32_t end)
{
  while (segment < end && p->owner[segment] != 0)
    if (segment % POOL_PAGE_SEGMENTS == 0 &&
        p->page_free[segment / POOL_PAGE_SEGMENTS] == 0)
      segment += POOL_PAGE_SEGMENTS;
    else
      segment++;
  return segment < end ? segment : end;
}

/* Free segments from this one on, but not more than `most`. */
static uint32_t
free_from (const struct cluster_pool *p, uint32_t segment, uint32_t most)
{
  uint32_t count = 0;

  while (count < most && segment + count < p->geometry.segments &&
         p->owner[segment + count] == 0)
    count++;
  return count;
}

static void
take_run (struct cluster_pool *p, struct cluster_volume *v, uint32_t first,
          uint32_t count, struct cluster_run *run, unsigned *runs)
{
  struct cluster_run *last = *runs ? &run[*runs - 1] : NULL;

  for (uint32_t i = 0; i < count; i++)
    own (p, v, first + i, true);
  if (last && last->first + last->count == first)
    last->count += count;
  else
    run[(*runs)++] = (struct cluster_run) { first, count };
}

/* The beginning of a free run of so many segments from `from` on, before `to`; 0: none. */
static uint32_t
find_run (const struct cluster_pool *p, uint32_t from, uint32_t to,
          uint32_t want)
{
  for (uint32_t s = from, count; (s = next_free (p, s, to)) < to; s += count) {
    count = free_from (p, s, want);
    if (count == want)
      return s;
  }
  return 0;
}

/* Take free segments from `from` on, before `to`.  Returns how many segments. */
static uint32_t
take_pieces (struct cluster_pool *p, struct cluster_volume *v, uint32_t from,
             uint32_t to, uint32_t want, struct cluster_run *run,
             unsigned *runs, unsigned max)
{
  uint32_t taken = 0;

  for (uint32_t s = from, count;
       taken < want && *runs < max && (s = next_free (p, s, to)) < to;
       s += count) {
    count = free_from (p, s, want - taken);
    take_run (p, v, s, count, run, runs);
    taken += count;
  }
  return taken;
}

uint32_t
cluster_space_take (struct cluster_pool *p, struct cluster_volume *v,
                    uint32_t near, uint32_t want, struct cluster_run *run,
                    unsigned *runs, unsigned max)
{
  uint32_t end = p->geometry.segments, at, taken;

  if (want > p->free)
    want = p->free;
  if (want == 0 || *runs >= max)
    return 0;
  if (near < p->first || near >= end)
    near = p->first;
  at = find_run (p, near, end, want);
  if (at == 0)
    at = find_run (p, p->first, near, want);
  if (at != 0) {
    take_run (p, v, at, want, run, runs);
    return want;
  }
  taken = take_pieces (p, v, near, end, want, run, runs, max);
  return taken +
         take_pieces (p, v, p->first, near, want - taken, run, runs, max);
}

void
cluster_space_give (struct cluster_pool *p, struct cluster_volume *v,
                    const struct cluster_run *run)
{
  for (uint32_t i = 0; i < run->count; i++)
    if (p->owner[run->first + i] == v->rec.root + 1)
      own (p, v, run->first + i, false);
}

static void
volumes_by_root (const struct cluster_pool *p,
                 struct cluster_volume *of[POOL_ROOTS_MAX])
{
  struct cluster_volume *v;

  memset (of, 0, POOL_ROOTS_MAX * sizeof of[0]);
  TAILQ_FOREACH (v, &p->volumes, link)
    of[v->rec.root] = v;
}

void
cluster_space_adopt (struct cluster_pool *p, const uint32_t owner[])
{
  struct cluster_volume *of[POOL_ROOTS_MAX];

  volumes_by_root (p, of);
  for (uint32_t s = p->first; s < p->geometry.segments; s++)
    if (owner[s])
      own (p, of[owner[s] - 1], s, true);
}

void
cluster_space_clear (struct cluster_pool *p)
{
  struct cluster_volume *of[POOL_ROOTS_MAX];

  volumes_by_root (p, of);
  for (uint32_t s = p->first; s < p->geometry.segments; s++)
    if (p->owner[s])
      own (p, of[p->owner[s] - 1], s, false);
}

uint32_t
cluster_space_keep (struct cluster_pool *p, struct cluster_volume *v,
                    uint32_t from, uint32_t want)
{
  uint32_t end = p->geometry.segments;

  for (; want > 0 && (from = next_free (p, from, end)) < end; want--)
    own (p, v, from++, true);
  return from;
}

void
cluster_space_drop (struct cluster_pool *p, struct cluster_volume *v)
{
  for (uint32_t s = p->first; v->segments > 0; s++)
    if (p->owner[s] == v->rec.root + 1)
      own (p, v, s, false);
}

uint32_t
cluster_space_for_data (const struct cluster_pool *p)
{
  uint32_t kept = (p->geometry.segments - p->first) / POOL_LOG_SHARE;

  if (kept < POOL_LOG_SEGMENTS_MIN)
    kept = POOL_LOG_SEGMENTS_MIN;
  return p->free > kept ? p->free - kept : 0;
}

static void
store_page (struct cluster *c, const struct cluster_array *a, uint32_t page,
            bool deleted)
{
  const struct cluster_pool *p = a->pool;
  uint32_t begin = page * POOL_PAGE_SEGMENTS, end = page_end (p, page);
  struct cluster_space_record r = { .page = page };
  bool any = false;

  memcpy (r.array, a->rec.uuid, 16);
  for (uint32_t s = begin; s < end; s++) {
    r.owner[s - begin] = p->owner[s];
    any |= p->owner[s] != 0;
  }
  cluster_step_put_space (c, &r, deleted || !any);
}

void
cluster_space_store (struct cluster *c, const struct cluster_array *a)
{
  for (uint32_t page = 0; page < a->pool->pages; page++)
    if (a->pool->page_changed[page]) {
      store_page (c, a, page, false);
      a->pool->page_changed[page] = false;
    }
}

void
cluster_space_forget (struct cluster *c, const struct cluster_array *a)
{
  for (uint32_t page = 0; page < a->pool->pages; page++)
    store_page (c, a, page, true);
}
