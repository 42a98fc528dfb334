/* array-range.c: requests whose ranges overlap take turns.
 *
 * Writers of a range exclude each other and the readers that asked for a turn
 * (those that read an image); readers share.  First come, first served: a
 * request waits for every earlier one that it conflicts with, whether that one
 * has its turn or waits itself, so nobody starves.  Requests at one time are
 * few (connections x threads), so their ranges lie in one dense table that is
 * walked once when a request comes and once when it goes.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "array-internal.h"

static bool
conflict (const struct range *x, const struct range *y)
{
  return x->start < y->end && y->start < x->end && !(x->shared && y->shared);
}

/* True: it is its turn.  False: req_wake is called later. */
bool
range_take (struct array *a, struct req *q, enum lock_kind kind)
{
  struct range new = {
    .start = q->r->offset,
    .end = q->r->offset + q->r->length,
    .sequence = ++a->ranges_sequence,
    .req = q,
    .shared = kind == LOCK_SHARED,
  };

  assert (q->lock == LOCK_NONE && q->blockers == 0);
  if (a->ranges_count == a->ranges_room) {
    unsigned room = a->ranges_room ? 2 * a->ranges_room : 64;
    struct range *ranges = realloc (a->ranges, room * sizeof *ranges);

    if (!ranges)
      abort ();
    a->ranges = ranges;
    a->ranges_room = room;
  }
  for (unsigned i = 0; i < a->ranges_count; i++)
    q->blockers += conflict (&a->ranges[i], &new);
  q->lock = q->want = kind;
  q->range = a->ranges_count;
  a->ranges[a->ranges_count++] = new;
  return q->blockers == 0;
}

/* Does anybody write here, or wait to? */
bool
range_written (const struct array *a, uint64_t offset, uint64_t length)
{
  struct range x = { .start = offset, .end = offset + length, .shared = true };

  for (unsigned i = 0; i < a->ranges_count; i++)
    if (conflict (&a->ranges[i], &x))
      return true;
  return false;
}

void
range_drop (struct array *a, struct req *q)
{
  struct range old = a->ranges[q->range];

  assert (q->lock != LOCK_NONE && old.req == q);
  a->ranges[q->range] = a->ranges[--a->ranges_count];
  a->ranges[q->range].req->range = q->range;
  for (unsigned i = 0; i < a->ranges_count; i++) {
    struct range *x = &a->ranges[i];

    if (x->sequence > old.sequence && conflict (x, &old)) {
      assert (x->req->blockers > 0);
      if (--x->req->blockers == 0)
        req_wake (a, x->req);
    }
  }
  q->lock = LOCK_NONE;
  q->blockers = 0;
}
