/* array-round.c: rounds, by which an old copy of a member's disk is recognised.
 *
 * While data is written, a round begins every ROUND_MS: its number, one more
 * than that of the last, is sent to each member that counts, which notes it
 * durably (BATCH_ROUND). It is *complete* when all of them have noted it, and
 * no round begins before the last one is complete: so their disks are never
 * more than one round apart, and a disk that is further behind is an old copy.
 * A lost member delays the round, as it does a FLUSH, until it is recorded as
 * out or is back.
 *
 * A write is *covered* when two rounds that began after it are complete: then a
 * copy of a disk from before the write is two behind.  Rounds go on until every
 * write is covered.
 *
 *   FLUSH  is answered when two rounds are complete that began no more than
 *          ROUND_LATE_MS before the last write that it covers.  So a copy that
 *          is that much older than the write is two behind.
 *   bits   are cleared when the writes that they stand for are covered
 *          (array-clear.c).  So if an old copy is at most one behind, its peers
 *          still have the bits of all extents that it lacks.
 *   back   is a member, by another process, that had the last copy of some data:
 *          writes that its disk's round does not cover, as it would for a FLUSH,
 *          may be lost (array-epoch.c).  So a copy that was put back while no
 *          round could be complete costs no more than at any other time.
 *   out    is a member, and perhaps only weftd and this session know that: an
 *          import without weftd's database goes by the rounds of the disks.  So a
 *          FLUSH waits for three rounds that began afterwards (round_outrun):
 *          then the disk that is out is two behind.  Two rounds are not enough,
 *          because that disk may have noted one that no other disk has.
 *   joins  end when all earlier writes are covered (array-join.c), because
 *          the joiner's own bits were cleared as it copied.
 *
 * The first round of a session is the highest that any member has.  Another
 * session may have begun it long ago: so it is completed where not all members
 * have it, but covers no write.
 *
 * If several sessions write, each begins rounds, and none knows the rounds of
 * the others.  So each goes by *steps*. A step first asks each member that
 * counts for its noted round (IO_ROUND): X is the highest answer, and no less
 * than the round of the last step.  Members with a lower round are given X.
 * When all have X they are given X + 1, and when all have that, the step is
 * complete.  Numbers may jump, as others make steps between.  Each rule above
 * about "two rounds that began after it" holds for two steps, and a step begins
 * when it asks.  Why this is right:
 *
 *   apart   No writer gives a member r before all have answered that they have
 *           r - 1: X was noted by a member already, so all had X - 1 then, and
 *           X + 1 is given when all have X.  Members never lower their noted
 *           round.  So disks are never more than one round apart, whoever gives
 *           which number when.
 *   old     A disk, when it answers, has every round that a copy made before the
 *           ask has (it waits for a round that it is just noting: a copy may
 *           have that already): so the copy has no more than X.  After the step
 *           all have X + 1; the next one asks again, hears X + 1 or more, and
 *           after it all have X + 2.  So two steps after a write, a copy from
 *           before it is two behind.
 *   time    If a copy of a disk has a higher round than the disk has answered,
 *           the copy was made after the ask, whichever writer has given the
 *           round.  So each ask that a member has answered with a lower round
 *           gives a time before which the member has all earlier writes; the
 *           newest such ask counts (round_reaches).  Answers of other members do
 *           not help: they may be a round apart.  The answer of a member that
 *           has joined does not help either, before it was given the round: a
 *           copy from before it joined may have a higher one.
 *
 * While a member is lost its answer is missing, so no step is complete: a lost
 * member delays the rounds of each writer that has lost it.  A joining member
 * is given rounds by each writer as soon as that writer counts it; it is
 * in-sync when all do, and by then it has had the newest round of each.
 *
 * A single writer need not ask: only it gives rounds, so its last round is the
 * highest there is, and each member that has a round was given it after the
 * round had begun.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "array-internal.h"
#include "base/bytes.h"
#include "format/batch.h"

void
round_init (struct array *a)
{
  struct round *r = &a->round;

  r->on = a->config.rounds && a->config.batches && !a->config.readonly;
  if (!r->on)
    return;
  r->shared = a->config.leases;
  r->begun = a->config.round;
  for (unsigned i = 0; i < a->layout->members; i++)
    if (a->member[i].counts) {
      a->member[i].rounds.newest = a->config.member_round[i];
      if (a->member[i].rounds.newest > r->begun)
        r->begun = a->member[i].rounds.newest;
    }
  r->number = r->given = r->begun;
  r->highest = r->begun - (r->begun > 0);
  for (unsigned i = 0; i < a->layout->members; i++)
    if (a->member[i].counts)
      a->member[i].rounds.heard = r->begun; /* the first one asks for nothing */
    else if (!state_takes_part (a->member[i].state))
      round_outrun (a);
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

static void
go_on (struct round *r, uint64_t step)
{
  if (r->target < step)
    r->target = step;
}

void
round_touch (struct array *a)
{
  if (!a->round.on)
    return;
  go_on (&a->round, a->round.begun + 2);
  a->round.wrote_ns = a->now_ns;
  a->look |= due (a);
}

void
round_outrun (struct array *a)
{
  struct round *r = &a->round;

  r->outrun = r->begun + 3;
  go_on (r, r->outrun);
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
round_reaches (const struct array *a, unsigned member)
{
  const struct array_member *m = &a->member[member];

  if (!a->round.on || m->writes.last_ns == 0 || m->loss.reach == UINT64_MAX)
    return true;
  for (unsigned i = 0; i < NOTED_MAX; i++)
    if (m->rounds.noted[i].round < m->loss.reach)
      return late (m->rounds.noted[i].ns, m->writes.last_ns);
  return false;
}

/* Its disk had no more than this round then. */
static void
note (struct member_rounds *m, uint64_t round, uint64_t ns)
{
  if (m->noted[0].round < round) /* else this one says more than the last */
    memmove (m->noted + 1, m->noted, (NOTED_MAX - 1) * sizeof m->noted[0]);
  m->noted[0].round = round;
  m->noted[0].ns = ns;
}

/* How many more steps are to be complete before what was written at wrote_ns counts as
 * flushed?
 */
static uint64_t
missing (const struct round *r, uint64_t wrote_ns)
{
  if (r->complete < r->outrun)
    return r->outrun - r->complete;
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
  uint64_t more;

  if (!r->on || r->target == 0 || q->error || a->stopped)
    return false;
  if (q->wrote_ns == 0)
    q->wrote_ns = r->wrote_ns;
  more = missing (r, q->wrote_ns);
  if (more > 0)
    round_hurry (a, r->complete + more);
  return more > 0;
}

/* Has it yet to say what it has noted, for the step that is under way? */
static bool
unheard (const struct array *a, unsigned member)
{
  const struct round *r = &a->round;

  return r->shared && r->complete < r->begun && member_counts (a, member) &&
         a->member[member].rounds.heard < r->begun;
}

/* Must it yet be given this round? */
static bool
lacks (const struct array *a, unsigned member, uint64_t round)
{
  return member_counts (a, member) && a->member[member].rounds.newest < round;
}

/* Ask it to note this round, or, with 0, what it has noted, unless that can't be or
 * it is being asked already.
 */
static void
ask (struct array *a, unsigned member, uint64_t round)
{
  struct batch_record record = { .kind = BATCH_ROUND, .length = round };
  struct aio *x;

  if (!member_reachable (a, member) || a->member[member].rounds.asking)
    return;
  x = aio_new (a, FOR_ROUND, round ? IO_BATCH : IO_ROUND, member);
  x->start = round ? round : a->round.begun;
  x->io.length = round ? batch_bytes (&record, 1) : ROUND_BYTES;
  x->io.buf = alloc_zeroed (x->io.length);
  if (round)
    batch_encode (&record, 1, x->io.buf);
  a->member[member].rounds.asking = true;
  a->member[member].rounds.asked_ns = a->now_ns;
  aio_send (a, x);
}

/* Do all have this round?  Ask those that do not; a member that counts later is
 * given it, too.
 */
static bool
all_have (struct array *a, uint64_t round)
{
  bool all = true;

  if (a->round.given < round)
    a->round.given = round;
  for (unsigned i = 0; i < a->layout->members; i++)
    if (lacks (a, i, round)) {
      all = false;
      ask (a, i, round);
    }
  return all;
}

/* Is all heard that the newest step asks for?  Then its number is known. */
static bool
all_heard (struct array *a)
{
  struct round *r = &a->round;
  bool all = true;

  for (unsigned i = 0; i < a->layout->members; i++)
    if (unheard (a, i)) {
      all = false;
      ask (a, i, 0);
    }
  if (all && r->complete < r->begun)
    r->number = r->highest + 1;
  return all;
}

/* Do all that count have the newest round?  Ask those that do not.  A lost
 * member delays the step, but the others still get the former round.
 */
static bool
everywhere (struct array *a)
{
  const struct round *r = &a->round;
  bool heard = all_heard (a), have = all_have (a, r->given);

  return heard && have &&
         (!r->shared || r->complete == r->begun || all_have (a, r->highest)) &&
         all_have (a, r->number);
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
      r->since = r->number;
      wake_writers (a);
    }
    if (!due (a))
      return;
    r->begun++;
    r->begun_ns = a->now_ns;
    if (r->highest < r->number)
      r->highest = r->number;
    r->number = 0;
    for (unsigned i = 0; i < a->layout->members && !r->shared; i++)
      note (&a->member[i].rounds, r->highest, r->begun_ns);
  }
}

void
round_answered (struct array *a, struct aio *x, bool ok)
{
  struct array_member *m = &a->member[x->io.member];

  uint64_t round = x->start;

  m->rounds.asking = false;
  if (ok && x->io.kind == IO_ROUND) {
    round = get_le64 (x->io.buf);
    if (round > a->round.given + AHEAD_MAX) { /* others would refuse it */
      member_lost (a, x->io.member,
                   "it says to have noted round %llu, and %llu is known of",
                   (unsigned long long) round,
                   (unsigned long long) a->round.given);
      ok = false;
    }
  }
  if (ok && x->io.kind == IO_ROUND) {
    m->rounds.heard = x->start;
    if (round >= a->round.since) /* else it has forgotten them all, to join */
      note (&m->rounds, round, m->rounds.asked_ns);
    if (a->round.highest < round)
      a->round.highest = round;
  }
  if (ok && m->rounds.newest < round)
    m->rounds.newest = round;
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

  if (!r->on || r->complete >= r->target || r->complete < r->begun)
    return UINT64_MAX;
  for (unsigned i = 0; i < a->layout->members; i++)
    if (lacks (a, i, r->number))
      return UINT64_MAX; /* its answer is waited for */
  return r->since_ns + ROUND_MS * NS_PER_MS;
}

uint64_t
array_round (const struct array *a)
{
  return a->round.since;
}

void
round_entered (struct array *a)
{
  struct round *r = &a->round;

  /* Where none is known to be complete, `begun` may be: too high a number costs a
   * copy in full, one too low would take an old copy for the disk itself.
   */
  r->entered = r->since ? r->since : r->given;
}

uint64_t
array_round_entered (const struct array *a)
{
  return a->round.entered;
}
