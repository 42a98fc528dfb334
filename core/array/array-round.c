/* array-round.c: rounds, by which an old copy of a member's disk is told.
 *
 * While data is written, a round begins every ROUND_MS: its number, one more than
 * that of the last, is sent to each member that counts, which notes it durably
 * (BATCH_ROUND).  It is *complete* when all of them have noted it, and no round
 * begins before the last one is complete: so their disks are never more than one
 * round apart, and a disk that is further behind is an old copy.  A lost member
 * holds the round up, as it does a FLUSH, until it is recorded as out or is back.
 *
 * A write is *covered* when two rounds that began after it are complete: then a
 * copy of a disk from before the write is two behind.  Rounds go on until every
 * write is covered.
 *
 *   FLUSH  is answered when two rounds are complete that began no more than
 *          ROUND_LATE_MS before the last write that it stands for.  So a copy that
 *          is that much older than the write is two behind.
 *   bits   are cleared when the writes that they stand for are covered
 *          (array-clear.c).  So what an old copy lacks that is at most one behind
 *          has bits at its peers.
 *   back   is a member, by another process, that had the last copy of something: what
 *          its disk's round does not vouch for, as it would for a FLUSH, may be gone
 *          (array-epoch.c).  So a copy that was put back while no round could be
 *          complete costs no more than at any other time.
 *   joins  end when all is covered that was written before (array-join.c), since
 *          the joiner's own bits were cleared as it copied.
 *
 * The first round of a session is the highest that any member has.  Another session
 * may have begun it long ago: so it is completed where not all members have it, but
 * covers no write.
 */

#include <config.h>

#include <stdlib.h>

#include "array-internal.h"
#include "format/batch.h"

void
round_init (struct array *a)
{
  struct round *r = &a->round;

  r->on = a->config.rounds && a->config.batches && !a->config.readonly;
  if (!r->on)
    return;
  r->begun = a->config.round;
  for (unsigned i = 0; i < a->layout->members; i++)
    if (a->member[i].counts) {
      a->member[i].round = a->config.member_round[i];
      if (a->member[i].round > r->begun)
        r->begun = a->member[i].round;
    }
  a->look = true;
}

/* Is another one to begin, once the last is complete? */
static bool
due (const struct array *a)
{
  const struct round *r = &a->round;

  return r->complete < r->target &&
         (r->since_ns == 0 || r->hurry > r->complete ||
          r->since_ns + ROUND_MS * NS_PER_MS <= a->now_ns);
}

void
round_touch (struct array *a)
{
  if (!a->round.on)
    return;
  a->round.target = a->round.begun + 2;
  a->round.wrote_ns = a->now_ns;
  a->look |= due (a);
}

bool
round_covers (const struct array *a, uint64_t target)
{
  return !a->round.on || a->round.complete >= target;
}

/* Did it begin late enough for a write at wrote_ns to be flushed? */
static bool
late (uint64_t begun_ns, uint64_t wrote_ns)
{
  return begun_ns != 0 && begun_ns + ROUND_LATE_MS * NS_PER_MS >= wrote_ns;
}

bool
round_reaches (const struct array *a, uint64_t reach, uint64_t wrote_ns)
{
  const struct round *r = &a->round;
  uint64_t begun_ns = reach >= r->begun          ? r->begun_ns
                      : reach == r->complete     ? r->since_ns
                      : reach + 1 == r->complete ? r->before_ns
                                                 : 0;

  return !r->on || wrote_ns == 0 || reach == UINT64_MAX ||
         late (begun_ns, wrote_ns);
}

/* How many more are to be complete before what was written at wrote_ns counts as
 * flushed?
 */
static unsigned
missing (const struct round *r, uint64_t wrote_ns)
{
  return late (r->before_ns, wrote_ns)  ? 0
         : late (r->since_ns, wrote_ns) ? 1
                                        : 2;
}

void
round_ahead (struct array *a)
{
  const struct round *r = &a->round;

  if (r->on && r->target != 0 && missing (r, r->wrote_ns) > 0)
    round_hurry (a, r->complete + missing (r, r->wrote_ns));
}

bool
round_holds (struct array *a, struct req *q)
{
  const struct round *r = &a->round;
  unsigned more;

  if (!r->on || r->target == 0 || q->error || a->stopped)
    return false;
  if (q->wrote_ns == 0)
    q->wrote_ns = r->wrote_ns;
  more = missing (r, q->wrote_ns);
  if (more > 0)
    round_hurry (a, r->complete + more);
  return more > 0;
}

/* Must it yet be given the newest one? */
static bool
lacks (const struct array *a, unsigned member)
{
  return member_counts (a, member) && a->member[member].round < a->round.begun;
}

/* Do all that count have it?  Ask those that do not. */
static bool
everywhere (struct array *a)
{
  struct batch_record record = { .kind = BATCH_ROUND,
                                 .length = a->round.begun };
  bool all = true;

  for (unsigned i = 0; i < a->layout->members; i++) {
    struct aio *x;

    if (!lacks (a, i))
      continue;
    all = false;
    if (!member_reachable (a, i) || a->member[i].asked_round)
      continue;
    x = aio_new (a, FOR_ROUND, IO_BATCH, i);
    x->start = a->round.begun;
    x->io.length = batch_bytes (&record, 1);
    x->io.buf = alloc_zeroed (x->io.length);
    batch_encode (&record, 1, x->io.buf);
    a->member[i].asked_round = true;
    aio_send (a, x);
  }
  return all;
}

void
round_hurry (struct array *a, uint64_t target)
{
  if (a->round.hurry >= target)
    return;
  a->round.hurry = target;
  a->look = true;
}

/* A write with FUA is a FLUSH of its own. */
static void
wake_writers (struct array *a)
{
  struct req *q;

  TAILQ_FOREACH (q, &a->requests, link)
    if (request_writes (q->r) && q->r->flags & ARRAY_FUA &&
        q->pieces_count == 0)
      req_wake (a, q);
}

void
round_look (struct array *a)
{
  struct round *r = &a->round;

  if (!r->on || a->stopped)
    return;
  for (;;) {
    if (!everywhere (a))
      return;
    if (r->complete < r->begun) {
      r->complete = r->begun;
      r->before_ns = r->since_ns;
      r->since_ns = r->begun_ns;
      wake_writers (a);
    }
    if (!due (a))
      return;
    r->begun++;
    r->begun_ns = a->now_ns;
  }
}

void
round_answered (struct array *a, struct aio *x, bool ok)
{
  struct array_member *m = &a->member[x->io.member];

  m->asked_round = false;
  if (ok && m->round < x->start)
    m->round = x->start;
  free (x->io.buf);
  a->look = true;
}

void
round_tick (struct array *a)
{
  a->look |= round_deadline (a) <= a->now_ns;
}

uint64_t
round_deadline (const struct array *a)
{
  const struct round *r = &a->round;

  if (!r->on || r->complete >= r->target)
    return UINT64_MAX;
  for (unsigned i = 0; i < a->layout->members; i++)
    if (lacks (a, i))
      return UINT64_MAX; /* its answer is waited for */
  return r->since_ns + ROUND_MS * NS_PER_MS;
}

uint64_t
array_round (const struct array *a)
{
  return a->round.complete;
}

void
round_entered (struct array *a)
{
  struct round *r = &a->round;

  /* Where none is known to be complete, `begun` may be: too high a number costs a
   * copy in full, one too low would take an old copy for the disk itself.
   */
  r->entered = r->complete ? r->complete : r->begun;
}

uint64_t
array_round_entered (const struct array *a)
{
  return a->round.entered;
}
