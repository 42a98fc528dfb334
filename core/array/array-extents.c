/* array-extents.c: where the array is sparse.
 *
 * Each member is asked once, about its contiguous span of data; the answers
 * are interleaved again unit by unit.  A member's answer may be a prefix, and
 * so is ours then.  Where a member is not in-sync or does not know, we say that
 * there is data, which is never a wrong answer.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "array-internal.h"

/* The range that is answered at most. */
static uint64_t
bounded (const struct array *a, const struct array_request *r)
{
  uint64_t most = (uint64_t) EXTENTS_UNITS_MAX * a->layout->unit;

  if (most > GiB (1))
    most = GiB (1);
  return r->length < most ? r->length : most;
}

/* A walk through a member's answer, which is in the order of the array. */
struct walk {
  size_t index;
  uint64_t at; /* where extent `index` begins, in the member */
};

/* The kind of data at `offset` of the member, and its length: false when the
 * answer does not reach so far.
 */
static bool
look_up (const struct aio *x, struct walk *w, uint64_t offset,
         struct array_extent *found)
{
  const struct array_extent *e;

  if (!x || x->io.extents_count == 0) {
    *found = (struct array_extent) { .length = UINT64_MAX };
    return true;
  }
  for (; w->index < x->io.extents_count; w->index++) {
    e = &x->io.extents[w->index];
    if (offset - w->at < e->length) {
      *found = *e;
      found->length = w->at + e->length - offset;
      return true;
    }
    w->at += e->length;
  }
  return false;
}

static void
interleave (struct array *a, struct req *q)
{
  struct array_request *r = q->r;
  struct walk *walks = alloc_zeroed (a->layout->members * sizeof walks[0]);
  uint64_t offset = r->offset, end = offset + bounded (a, r);
  struct array_extent *last = NULL;

  for (unsigned i = 0; i < a->layout->members; i++)
    if (q->asked[i])
      walks[i].at = q->asked[i]->io.offset;
  while (offset < end) {
    struct layout_piece p;
    struct array_extent e;
    unsigned member;

    layout_map (a->layout, offset, end - offset, &p);
    member = p.copy[0].member;
    if (!look_up (q->asked[member], &walks[member], p.copy[0].offset, &e))
      break;
    if (e.length > p.length)
      e.length = p.length;
    if (last && last->hole == e.hole && last->zero == e.zero)
      last->length += e.length;
    else if (r->extents_count == EXTENTS_MAX)
      break;
    else {
      last = &r->extents[r->extents_count++];
      *last = e;
    }
    offset += e.length;
  }
  free (walks);
  if (r->extents_count == 0) { /* a member answered nonsense */
    r->extents[0] = (struct array_extent) { .length = end - offset };
    r->extents_count = 1;
  }
}

static void
answered (struct array *a, struct req *q)
{
  bool held = array_holds_reads (a, q, q->r->offset, q->r->length) && !q->error;

  assert (q->answers > 0);
  if (--q->answers > 0)
    return;
  if (!q->error && !held) {
    q->r->extents = malloc (EXTENTS_MAX * sizeof q->r->extents[0]);
    if (q->r->extents)
      interleave (a, q);
    else
      req_fail (a, q, ENOMEM);
  }
  for (unsigned i = 0; i < a->layout->members; i++)
    if (q->asked[i])
      aio_free (a, q->asked[i]);
  free (q->asked);
  q->asked = NULL;
  q->busy = held;
  if (!held)
    req_wake (a, q);
}

static void
ask (struct array *a, struct req *q)
{
  uint64_t length = bounded (a, q->r);

  q->asked = alloc_zeroed (a->layout->members * sizeof q->asked[0]);
  q->answers = 1; /* until all are asked */
  for (unsigned i = 0; i < a->layout->members; i++) {
    uint64_t member_offset, member_length;
    struct aio *x;

    if (witness_needed (a, q) || !member_readable (a, i) ||
        !layout_data_span (a->layout, i, q->r->offset, length, &member_offset,
                           &member_length))
      continue;
    x = aio_new (a, FOR_EXTENTS, IO_EXTENTS, i);
    x->io.offset = member_offset;
    x->io.length = member_length;
    x->req = q;
    q->asked[i] = x;
    q->answers++;
    aio_send (a, x);
  }
  answered (a, q);
}

void
extents_begin (struct array *a, struct req *q)
{
  q->busy = true;
  if (!array_holds_reads (a, q, q->r->offset, q->r->length))
    ask (a, q);
}

void
extents_go_on (struct array *a)
{
  struct req *q;

  TAILQ_FOREACH (q, &a->requests, link)
    if (q->r->op == ARRAY_EXTENTS && q->busy && !q->asked &&
        !array_holds_reads (a, q, q->r->offset, q->r->length))
      ask (a, q);
}

void
extents_answered (struct array *a, struct aio *x, bool ok)
{
  if (!ok) {
    free (x->io.extents);
    x->io.extents = NULL;
    x->io.extents_count = 0;
  }
  answered (a, x->req);
}
