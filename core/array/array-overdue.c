/* array-overdue.c: members that keep silent (docs/DESIGN.md 6.5).
 *
 * A member that owes us answers and has given none for its time-out, which
 * follows its service times (timeout.h), is asked for a sign of life: an empty
 * batch, for which no disk is needed.  Any answer will do, even to another request, and
 * any part of one: on a congested link whole answers, signs of life among them, wait
 * behind what else is on its way.  Without any the member is lost.  So a member may be
 * as slow as its load and its link make it, and a silent one is found soon after its
 * time-out.  A member that gives signs of life but leaves a request unanswered is lost
 * after IO_PATIENCE times the longest time-out.
 *
 * Where there are no batches the sign of life is a read, which takes a disk as
 * long as any: it may take the rest of the longest time-out.
 *
 * Perhaps it is we who were asleep (a stopped process, a suspended host), and the
 * answers are there, unread: they are read while the probe is under way.
 */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "array-internal.h"

/* A probe that no disk is needed for has so long; of a shorter io_timeout_ms three
 * eighths.
 */
#define PROBE_NS (850 * NS_PER_MS)
#define IO_PATIENCE 8
#define LOOK_NS (1000 * NS_PER_MS) /* how often a prediction is made */

/* When a member that is being asked is lost.  (What it is allowed may have changed since
 * it was asked.)
 */
static uint64_t
lost_at_ns (const struct array *a, const struct overdue *o)
{
  uint64_t ns = timing_longest_ns (a) / 8 * 3;
  uint64_t longest = o->quiet_ns + timing_longest_ns (a);

  ns = o->probe_ns + (ns < PROBE_NS ? ns : PROBE_NS);
  return !a->config.batches && longest > ns ? longest : ns;
}

static void
send_probe (struct array *a, unsigned member)
{
  struct overdue *o = &a->member[member].overdue;
  struct aio *x = aio_sign (a, FOR_PROBE, member);

  o->probe = x;
  o->probe_ns = a->now_ns;
  aio_send (a, x);
}

void
overdue_look (struct array *a)
{
  const struct aio *x = TAILQ_FIRST (&a->sent);

  if (a->stopped || timing_longest_ns (a) == 0 ||
      a->now_ns < a->overdue_look_ns)
    return;
  a->overdue_look_ns = a->now_ns + LOOK_NS;
  timing_predict (a);
  /* While not all members are there, the one that is asked to flush may be the
   * last one, with much to flush: that may take as long as it takes.
   */
  while (x && x->io.kind == IO_FLUSH && a->degraded)
    x = TAILQ_NEXT (x, link);
  /* The member has answered other requests since, so it is not we who were asleep. */
  if (x && x->io.sent_ns + IO_PATIENCE * timing_longest_ns (a) <=
             a->member[x->io.member].overdue.quiet_ns)
    member_lost (
      a, x->io.member,
      "it has not answered a %s request for %llu s, although it "
      "lives",
      aio_name (x->io.kind),
      (unsigned long long) ((a->now_ns - x->io.sent_ns) / (1000 * NS_PER_MS)));
}

void
overdue_tick (struct array *a)
{
  if (a->stopped || timing_longest_ns (a) == 0)
    return;
  overdue_look (a);
  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct overdue *o = &a->member[i].overdue;

    if (o->waiting == 0 || !member_reachable (a, i))
      continue;
    if (!o->probe && o->quiet_ns + o->allowed_ns <= a->now_ns)
      send_probe (a, i);
    else if (o->probe && lost_at_ns (a, o) <= a->now_ns)
      member_lost (
        a, i, "it has answered nothing for %llu ms, not even a sign of life",
        (unsigned long long) ((a->now_ns - o->quiet_ns) / NS_PER_MS));
  }
}

uint64_t
overdue_deadline (const struct array *a)
{
  uint64_t first = UINT64_MAX;

  if (timing_longest_ns (a) == 0)
    return first;
  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct overdue *o = &a->member[i].overdue;
    uint64_t at = o->probe ? lost_at_ns (a, o) : o->quiet_ns + o->allowed_ns;

    if (o->waiting > 0 && member_reachable (a, i) && at < first)
      first = at;
  }
  return first;
}
