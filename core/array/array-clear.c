/* array-clear.c: how intent bits are cleared (docs/DESIGN.md 5.3).
 *
 * A member sets the bit of an extent before the first write to it.  The array
 * engine has it cleared, because only the array engine sees all copies: it does
 * so when the extent has been idle, and all copies of its writes are stable.
 * The fewer bits are set when this process dies, the less must be copied at the
 * next attach.
 *
 * We keep two bits for each extent of a member, in chunks that are made when
 * they are first needed.  *recent*: written since the last shift; *rested*:
 * before it, and not since.  In turn:
 *
 *   resting   for 5 s.  Then, if anything is rested by now:
 *   flushing  unless a FLUSH of the client's that began since the last shift
 *             is done.  Either way, a FLUSH that began after the last write to
 *             the extents that are still rested was answered: it drained the
 *             other copies and flushed both.
 *   asking    the rested bits are cleared at their members.  Until a member
 *             has answered, no write to these extents is sent to it.
 *   shift     recent becomes rested; but extents with writes in flight stay
 *             recent.
 *
 * A rested extent must also be covered by rounds (array-round.c). So if an old
 * copy of a member's disk is put back later, either the old copy is recognised,
 * or the bits of all extents that it lacks are still set at its peers.
 *
 * No bit is cleared while a member is lost or not in-sync: these bits tell the
 * member what it misses.  After an in-sync member has been given back, no bit
 * is cleared until it has joined, or until the next attach: it may lack
 * unflushed writes, or its disk may be an old copy that is too young to be
 * recognised.
 *
 * After array_settled bits are cleared whichever session has set them
 * (BATCH_SETTLE): where earlier sessions left bits, the copies are known to be
 * in sync.  A third copy that has joined kept a bit wherever a peer had one,
 * and its bit is cleared with the peer's.  One of several writers knows of no
 * whole extent that its copies are in sync: it gives up only its own claim
 * (BATCH_CLEAR).
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "array-internal.h"
#include "format/batch.h"

void
clear_init (struct array *a)
{
  struct clear *c = &a->clear;

  c->extent_bytes = a->config.extent_bytes ? a->config.extent_bytes
                                           : EXTENT_BYTES;
  /* Without batches there is no way to ask, and without copies no need. */
  if (!a->config.batches || a->config.readonly || a->layout->copies < 2)
    return;
  c->chunks = a->layout->member_bytes / c->extent_bytes / CHUNK_EXTENTS + 1;
  for (unsigned i = 0; i < a->layout->members; i++)
    a->member[i].clear.chunks = alloc_zeroed (
      c->chunks * sizeof a->member[i].clear.chunks[0]);
}

void
clear_free (struct array *a)
{
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct clear_member *m = &a->member[i].clear;

    assert (!m->asked);
    for (unsigned j = 0; j < a->clear.chunks; j++)
      free (m->chunks[j]);
    free (m->chunks);
  }
}

static bool
barred (const struct array *a)
{
  return a->degraded || a->clear.differs || a->stopped;
}

static void
rest (struct array *a)
{
  a->clear.phase = CLEAR_RESTING;
  a->clear.at_ns = barred (a) ? UINT64_MAX : a->now_ns + CLEAR_IDLE_NS;
}

void
clear_touch_range (struct array *a, unsigned member, uint64_t offset,
                   uint64_t length)
{
  struct clear_member *m = &a->member[member].clear;
  uint64_t e = offset / a->clear.extent_bytes;
  uint64_t last = (offset + length - 1) / a->clear.extent_bytes;

  if (a->clear.chunks == 0)
    return;
  for (; e <= last; e++) {
    struct clear_chunk **chunk = &m->chunks[e / CHUNK_EXTENTS];
    unsigned word = e % CHUNK_EXTENTS / 64;
    uint64_t bit = UINT64_C (1) << e % 64;

    if (!*chunk)
      *chunk = alloc_zeroed (sizeof **chunk);
    (*chunk)->recent[word] |= bit;
    (*chunk)->rested[word] &= ~bit;
  }
  m->recent = true;
  if (a->clear.phase == CLEAR_NONE)
    rest (a);
}

void
clear_touch (struct array *a, const struct aio *x)
{
  const struct image *at = NULL;
  uint64_t offset, length;

  if (a->clear.chunks == 0 || !aio_writes (x))
    return;
  if (x->purpose != FOR_IMAGES)
    clear_touch_range (a, x->io.member, x->io.offset, x->io.length);
  else
    while (image_run_range (x->run, &at, &offset, &length))
      clear_touch_range (a, x->io.member, offset, length);
}

bool
clear_holds_range (const struct array *a, unsigned member, uint64_t offset,
                   uint64_t length)
{
  const struct clear_member *m = &a->member[member].clear;
  unsigned low = 0, high = m->count;

  if (!m->asked)
    return false;
  while (low < high) { /* the first that ends beyond offset */
    unsigned middle = (low + high) / 2;

    if (m->records[middle].offset + m->records[middle].length > offset)
      high = middle;
    else
      low = middle + 1;
  }
  return low < m->count && m->records[low].offset < offset + length;
}

bool
clear_holds (const struct array *a, const struct aio *x)
{
  const struct image *at = NULL;
  uint64_t offset, length;

  if (!a->member[x->io.member].clear.asked || !aio_writes (x))
    return false;
  if (x->purpose != FOR_IMAGES)
    return clear_holds_range (a, x->io.member, x->io.offset, x->io.length);
  while (image_run_range (x->run, &at, &offset, &length))
    if (clear_holds_range (a, x->io.member, offset, length))
      return true;
  return false;
}

/* Each range has its turn: the last writes come next. */
static void
shift (struct array *a)
{
  const struct aio_queue *queues[] = { &a->out, &a->sent, &a->refused };
  const struct aio *x;
  const struct req *q;
  const struct piece *p;
  bool any = false;

  a->clear.round = a->round.target;
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct clear_member *m = &a->member[i].clear;

    for (unsigned j = 0; j < a->clear.chunks && m->recent; j++) {
      struct clear_chunk *chunk = m->chunks[j];

      for (unsigned w = 0; chunk && w < CHUNK_WORDS; w++) {
        chunk->rested[w] |= chunk->recent[w];
        chunk->recent[w] = 0;
      }
    }
    m->rested |= m->recent;
    m->recent = false;
    any |= m->rested;
  }
  a->clear.shifts++;
  a->clear.covered = false;
  a->clear.phase = CLEAR_NONE;
  for (unsigned i = 0; i < sizeof queues / sizeof queues[0]; i++)
    TAILQ_FOREACH (x, queues[i], link)
      clear_touch (a, x);
  /* A write that waits for something may be on some copies only. */
  TAILQ_FOREACH (q, &a->requests, link)
    TAILQ_FOREACH (p, &q->pieces, link)
      for (unsigned c = 0; c < p->at.copies; c++)
        if (p->started && request_writes (q->r))
          clear_touch_range (a, p->at.copy[c].member, p->at.copy[c].offset,
                             p->at.length);
  if (any)
    rest (a);
}

/* Take up to a batch of rested extents of a member into m->records.  The last
 * one ends where the layout's use of the member does.
 */
static void
gather (struct array *a, unsigned member)
{
  struct clear_member *m = &a->member[member].clear;
  uint64_t bytes = a->clear.extent_bytes, end = a->layout->member_bytes;
  /* May bits fall that others have left? */
  enum batch_kind kind = a->clear.settle && !a->config.leases ? BATCH_SETTLE
                                                              : BATCH_CLEAR;

  m->count = 0;
  for (unsigned j = 0; j < a->clear.chunks; j++) {
    struct clear_chunk *chunk = m->chunks[j];

    for (unsigned w = 0; chunk && w < CHUNK_WORDS; w++)
      while (chunk->rested[w]) {
        unsigned bit = __builtin_ctzll (chunk->rested[w]);
        uint64_t e = (uint64_t) j * CHUNK_EXTENTS + w * 64 + bit;
        uint64_t length = end - e * bytes < bytes ? end - e * bytes : bytes;
        struct batch_record *r = &m->records[m->count];

        if (m->count > 0 && r[-1].offset + r[-1].length == e * bytes)
          r[-1].length += length;
        else if (m->count == BATCH_RECORDS_MAX)
          return;
        else {
          *r = (struct batch_record) { .kind = kind,
                                       .offset = e * bytes,
                                       .length = length };
          m->count++;
        }
        chunk->rested[w] &= ~(UINT64_C (1) << bit);
      }
  }
  m->rested = false;
}

/* Ask a member to clear what has rested, if there is anything. */
static void
ask (struct array *a, unsigned member)
{
  struct clear_member *m = &a->member[member].clear;
  struct aio *x;

  if (!m->rested)
    return;
  m->records = alloc_zeroed (BATCH_RECORDS_MAX * sizeof m->records[0]);
  gather (a, member);
  if (m->count == 0) {
    free (m->records);
    m->records = NULL;
    return;
  }
  x = aio_new (a, FOR_CLEAR, IO_BATCH, member);
  x->io.length = batch_bytes (m->records, m->count);
  x->io.buf = alloc_zeroed (x->io.length);
  batch_encode (m->records, m->count, x->io.buf);
  aio_send (a, x);
  m->asked = x;
}

/* The rested extents are stable: clear their bits, then the later writes rest.
 */
void
clear_go_on (struct array *a)
{
  bool any = false;

  a->clear.phase = CLEAR_ASKING;
  for (unsigned i = 0; i < a->layout->members; i++) {
    if (!barred (a) && !a->member[i].clear.asked)
      ask (a, i);
    any |= a->member[i].clear.asked != NULL;
  }
  if (any)
    return;
  if (barred (a))
    rest (a);
  else
    shift (a);
}

void
clear_answered (struct array *a, struct aio *x, bool ok)
{
  struct clear_member *m = &a->member[x->io.member].clear;

  assert (m->asked == x);
  m->asked = NULL;
  /* A clear that failed may have been carried out or not: the bits count as set. */
  for (unsigned i = 0; i < m->count && !ok; i++)
    clear_touch_range (a, x->io.member, m->records[i].offset,
                       m->records[i].length);
  free (m->records);
  m->records = NULL;
  m->count = 0;
  free (x->io.buf);
}

void
clear_flushed (struct array *a, const struct req *q)
{
  if (!q->error && q->shift == a->clear.shifts)
    a->clear.covered = true;
  if (q->r != &a->clear.flush)
    return;
  if (a->clear.covered && !barred (a))
    clear_go_on (a);
  else
    rest (a);
}

void
clear_tick (struct array *a)
{
  struct clear *c = &a->clear;
  bool rested = false;

  if (c->phase != CLEAR_RESTING || a->now_ns < c->at_ns || a->stopped)
    return;
  for (unsigned i = 0; i < a->layout->members; i++)
    rested |= a->member[i].clear.rested;
  if (barred (a))
    rest (a);
  else if (!rested)
    shift (a);
  else if (!round_covers (a, c->round))
    c->at_ns = a->now_ns + ROUND_MS * NS_PER_MS;
  else if (c->covered)
    clear_go_on (a);
  else {
    c->phase = CLEAR_FLUSHING;
    c->flush = (struct array_request) { .op = ARRAY_FLUSH, .client = a->own };
    flush_begin (a, req_new (a, &c->flush));
  }
}

uint64_t
clear_deadline (const struct array *a)
{
  return a->clear.phase == CLEAR_RESTING ? a->clear.at_ns : UINT64_MAX;
}

void
clear_joined (struct array *a, unsigned member)
{
  const struct layout_group group = layout_group (a->layout, member);

  for (unsigned i = group.first; i < group.end && a->layout->copies > 2; i++)
    for (unsigned j = 0; j < a->clear.chunks; j++) {
      const struct clear_chunk *chunk = a->member[i].clear.chunks[j];

      for (unsigned w = 0; i != member && chunk && w < CHUNK_WORDS; w++)
        for (uint64_t bits = chunk->recent[w] | chunk->rested[w]; bits;
             bits &= bits - 1) {
          uint64_t e = (uint64_t) j * CHUNK_EXTENTS + w * 64 +
                       __builtin_ctzll (bits);

          clear_touch_range (a, member, e * a->clear.extent_bytes, 1);
        }
    }
}

void
clear_states (struct array *a)
{
  if (a->clear.phase == CLEAR_RESTING)
    rest (a);
}
