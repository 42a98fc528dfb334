/* array-join.c: how a member comes back (docs/DESIGN.md 8.1).
 *
 * A joining member copies the data that it lacks from the others by itself.  We
 * send it a copy of every new write (array-write.c), but do not wait for it.
 * When it has all the rest, weftd prepares the epoch in which it is in-sync:
 *
 *   prepared  it counts: every write and FLUSH from now on needs it;
 *   drained   the images that were accepted before are written;
 *   covered   earlier writes are covered by rounds (array-round.c);
 *   flushed   it and all of its peers, none of which is lost: so the data that it
 *             copied from them is stable there, too.  NOTICE_PREPARED is given;
 *   commit    it is read.
 *
 * A member that goes out in the prepared epoch gets no more requests, and
 * requests that need it wait for the commit.  The same holds for a member that
 * another change, for which we were prepared, would have made in-sync, and
 * which a later change has replaced.
 *
 * Readers must not see the old epoch's copies when a writer writes by the new
 * one.  So a reader reads nothing between its NOTICE_PREPARED and the commit.
 * After the commit it waits until other writers' requests of the old epoch have
 * reached the copies of the new one (array_all_arrived). It also reads nothing
 * when weftd may have passed it over (array_trust). A writer of a part is a
 * reader of all other parts, and a writer with leases is a reader of all ranges
 * without its lease.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "array-internal.h"

void
join_prepare (struct array *a, uint64_t epoch, const enum member_state states[])
{
  struct array_next *next = &a->next, older = a->next;

  if (a->stopped || epoch <= a->config.epoch || epoch <= next->epoch)
    return;
  *next = (struct array_next) { .epoch = epoch };
  for (unsigned i = 0; i < a->layout->members && older.epoch; i++)
    next->promised[i] = older.promised[i] ||
                        (older.told && older.states[i] == MEMBER_IN_SYNC);
  memcpy (next->states, states, a->layout->members * sizeof states[0]);
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct array_member *m = &a->member[i];

    if (!state_takes_part (states[i])) {
      if (member_reachable (a, i))
        member_lose (a, i);
    }
    /* It was to go out by the older change, and is to stay by this one. */
    else if (member_is_lost (a, i) && !m->loss.reported)
      member_tell (a, i, "there is no connection to it");
  }
  member_count (a);
  join_again (a);
  /* Reads that the older change held go on. */
  join_release (a);
}

/* A joiner's copied data must be covered before it is in-sync.  But no round
 * can end while a member is lost that counts until it goes.
 */
static uint64_t
rounds_wanted (struct array *a)
{
  uint64_t round = 0;

  for (unsigned i = 0; i < a->layout->members; i++)
    if (member_counts (a, i) && !state_takes_part (a->next.states[i]))
      return 0;
    else if (!member_in_sync (a, i) && a->next.states[i] == MEMBER_IN_SYNC)
      round = a->round.target;
  /* Others may have given the joiner rounds already: two steps are to have asked it. */
  if (round && a->round.shared && round < a->round.begun + 2)
    round = a->round.target = a->round.begun + 2;
  return round;
}

void
join_again (struct array *a)
{
  if (!a->next.epoch || a->next.told)
    return;
  images_fire (a->images);
  a->next.sequence = images_sequence (a->images);
  a->next.flushing = false;
  a->next.round = rounds_wanted (a);
  round_hurry (a, a->next.round);
  a->look = true;
}

/* Is it in-sync before and after, or becomes it so? */
static bool
stays (const struct array *a, unsigned member)
{
  return member_counts (a, member) && state_takes_part (a->next.states[member]);
}

/* Are the images written that the copies of the new epoch need? */
static bool
drained (const struct array *a)
{
  for (unsigned i = 0; i < a->layout->members; i++)
    if (stays (a, i) && !images_written (a->images, i, a->next.sequence))
      return false;
  return true;
}

/* Is it stable what these members have?  All of it, whoever has written it.  And
 * have they the last round?
 */
static bool
flushed (struct array *a)
{
  bool all = true;

  if (!a->next.flushing)
    a->next.start = ++a->event;
  a->next.flushing = true;
  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct array_member *m = &a->member[i];

    if (!stays (a, i))
      continue;
    all &= !member_is_lost (a, i) && m->writes.flushed >= a->next.start &&
           m->rounds.newest >= a->round.given;
    if (!member_is_lost (a, i) && m->writes.flushed < a->next.start)
      flush_want (a, i, a->next.start);
  }
  return all;
}

void
join_look (struct array *a)
{
  struct array_notice *notice;

  if (!a->next.epoch || a->next.told || a->stopped)
    return;
  if (!a->config.readonly && ((!a->next.flushing && !drained (a)) ||
                              !flushed (a) || !round_covers (a, a->next.round)))
    return;
  a->next.told = true;
  notice = member_notice_new (a, NOTICE_PREPARED, 0);
  notice->epoch = a->next.epoch;
  snprintf (notice->reason, sizeof notice->reason, "prepared for epoch %llu",
            (unsigned long long) a->next.epoch);
}

void
join_release (struct array *a)
{
  if (a->config.readonly && array_holds_others (a))
    return;
  pieces_go_on (a, &a->stalled);
  extents_go_on (a);
}

/* When the oldest image for a joiner has waited for too long; UINT64_MAX: it is
 * none.
 */
static uint64_t
late_ns (const struct array *a, unsigned member)
{
  uint64_t oldest_ns;

  if (!member_background (a, member) || a->config.io_timeout_ms == 0)
    return UINT64_MAX;
  oldest_ns = images_oldest (a->images, member);
  if (oldest_ns == 0)
    return UINT64_MAX;
  return oldest_ns +
         (a->config.image_age_ms + (uint64_t) a->config.io_timeout_ms) *
           NS_PER_MS;
}

/* Writers would have to wait for it, sooner or later. */
void
join_tick (struct array *a)
{
  for (unsigned i = 0; i < a->layout->members && a->degraded; i++)
    if (late_ns (a, i) <= a->now_ns)
      member_lost (a, i, "it has not kept up with the writes for %u ms",
                   a->config.io_timeout_ms);
}

uint64_t
join_deadline (const struct array *a)
{
  uint64_t first = UINT64_MAX;

  for (unsigned i = 0; i < a->layout->members && a->degraded; i++) {
    uint64_t at = late_ns (a, i);

    first = at < first ? at : first;
  }
  return first;
}
