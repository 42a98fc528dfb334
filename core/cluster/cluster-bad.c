/* cluster-bad.c: the cluster engine: what members say that no copy of could be
 * found, in offsets of their array.
 *
 * Nothing is decided by it, and nothing stored: the lists are on the disks, and
 * every process says all when weftd has started.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

struct pieces {
  struct cluster_bad *piece;
  size_t count, room;
};

static void
push (struct pieces *p, const struct cluster_bad *bad)
{
  if (p->count == p->room) {
    p->room = p->room ? 2 * p->room : 64;
    p->piece = realloc (p->piece, p->room * sizeof *p->piece);
    if (p->piece == NULL)
      abort ();
  }
  p->piece[p->count++] = *bad;
}

/* Block by block, for no two members need to have the same ranges. */
static void
push_range (struct pieces *p, const struct cluster_array *a, unsigned member,
            const struct bad_range *r)
{
  for (uint64_t b = r->first; b < r->first + r->blocks; b++) {
    struct cluster_bad bad = { .length = BAD_BLOCK_BYTES, .reason = r->reason,
                               .members = 1, .member = { member } };
    uint32_t length;

    if (layout_unmap (&a->layout, member, b * BAD_BLOCK_BYTES, &bad.offset,
                      &length) >= 0)
      push (p, &bad);
  }
}

static int
compare (const void *a, const void *b)
{
  const struct cluster_bad *x = a, *y = b;

  return x->offset != y->offset ? (x->offset > y->offset) - (x->offset < y->offset)
                                : (int)x->member[0] - (int)y->member[0];
}

/* Is there an in-sync copy that nobody has found bad? */
static bool
copy_left (const struct cluster_array *a, const struct cluster_bad *bad)
{
  struct layout_piece p;

  layout_map (&a->layout, bad->offset, bad->length, &p);
  for (unsigned c = 0; c < p.copies; c++) {
    unsigned m = p.copy[c].member;
    bool listed = false;

    for (unsigned i = 0; i < bad->members; i++)
      listed |= bad->member[i] == m;
    if (!listed && a->rec.member[m].state == MEMBER_IN_SYNC)
      return true;
  }
  return false;
}

static bool
alike (const struct cluster_bad *a, const struct cluster_bad *b)
{
  return a->offset + a->length == b->offset && a->reason == b->reason &&
         a->copy_left == b->copy_left && a->members == b->members &&
         memcmp (a->member, b->member, a->members * sizeof a->member[0]) == 0;
}

/* Those of one block become one; then neighbours. */
static void
merge (struct pieces *p, const struct cluster_array *a)
{
  size_t n = 0;

  for (size_t i = 0; i < p->count; i++) {
    struct cluster_bad *last = n ? &p->piece[n - 1] : NULL;

    if (last && last->offset == p->piece[i].offset &&
        last->members < COPIES_MAX)
      last->member[last->members++] = p->piece[i].member[0];
    else
      p->piece[n++] = p->piece[i];
  }
  p->count = n;
  n = 0;
  for (size_t i = 0; i < p->count; i++) {
    p->piece[i].copy_left = copy_left (a, &p->piece[i]);
    if (n && alike (&p->piece[n - 1], &p->piece[i]))
      p->piece[n - 1].length += p->piece[i].length;
    else
      p->piece[n++] = p->piece[i];
  }
  p->count = n;
}

size_t
cluster_array_bad (const struct cluster_array *a, struct cluster_bad **list)
{
  struct pieces p = { 0 };

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];

    if (d == NULL || d->said == NULL || !d->took_place ||
        (a->rec.member[m].state != MEMBER_IN_SYNC &&
         a->rec.member[m].state != MEMBER_JOINING))
      continue;
    for (unsigned i = 0; i < d->said->bad.count; i++)
      push_range (&p, a, m, &d->said->bad.range[i]);
  }
  if (p.count > 0) {
    qsort (p.piece, p.count, sizeof *p.piece, compare);
    merge (&p, a);
  }
  *list = p.piece;
  return p.count;
}

uint64_t
cluster_array_bad_bytes (const struct cluster_array *a)
{
  struct cluster_bad *list;
  size_t count = cluster_array_bad (a, &list);
  uint64_t bytes = 0;

  for (size_t i = 0; i < count; i++)
    bytes += list[i].length;
  free (list);
  return bytes;
}
