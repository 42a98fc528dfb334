/* engine-member.c: epochs, leases, and members that come back, while requests go on.
 *
 * These are the array's alone, so they go past the block to the array itself.
 *
 * A member that returns gets a new peer.  The old one is broken first and has
 * given back all its I/O, so nothing that was asked of the member before can
 * be answered, or even arrive, behind what is asked through the new one.  A
 * peer is used by those who send (`senders`), by the poller, and by libnbd's
 * callbacks, which run within one of the two: it may be closed when it has no
 * I/O, no sender, and the poller was outside meanwhile.
 */

#include <config.h>

#include <string.h>

#include "common/clock.h"
#include "engine-internal.h"

#define SEVER_MS 5000

void
engine_commit (struct engine *e, uint64_t epoch,
               const enum member_state states[])
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  if (seats_commit (&e->seats, e->array, epoch, states, clock_ns ()))
    for (unsigned m = 0; m < e->members; m++)
      if (states[m] == MEMBER_OUT && e->peers[m])
        peer_break (e->peers[m]);
  engine_turn_end (e, &t);
}

void
engine_prepare (struct engine *e, uint64_t epoch,
                const enum member_state states[])
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  seats_prepare (&e->seats, e->array, epoch, states, clock_ns ());
  engine_turn_end (e, &t);
}

/* A number that the array tells. */
static uint64_t
tell (struct engine *e, uint64_t (*number) (const struct array *a))
{
  uint64_t told;

  pthread_mutex_lock (&e->lock);
  told = number (e->array);
  pthread_mutex_unlock (&e->lock);
  return told;
}

uint64_t
engine_epoch (struct engine *e)
{
  return tell (e, array_epoch);
}

uint64_t
engine_arrived (struct engine *e)
{
  struct turn t;
  uint64_t epoch;

  engine_turn_begin (e, &t, NULL);
  epoch = array_arrived (e->array, clock_ns ());
  engine_turn_end (e, &t);
  return epoch;
}

uint64_t
engine_round (struct engine *e)
{
  return tell (e, array_round);
}

uint64_t
engine_round_entered (struct engine *e)
{
  return tell (e, array_round_entered);
}

void
engine_trust (struct engine *e, uint64_t until_ms)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  array_trust (e->array, until_ms * NS_PER_MS, clock_ns ());
  engine_turn_end (e, &t);
}

void
engine_all_arrived (struct engine *e, uint64_t epoch)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  array_all_arrived (e->array, epoch, clock_ns ());
  engine_turn_end (e, &t);
}

void
engine_settled (struct engine *e, unsigned member, uint64_t offset,
                uint64_t length)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  array_settled (e->array, member, offset, length, clock_ns ());
  engine_turn_end (e, &t);
}

bool
engine_differs (struct engine *e)
{
  bool differs;

  pthread_mutex_lock (&e->lock);
  differs = array_differs (e->array);
  pthread_mutex_unlock (&e->lock);
  return differs;
}

unsigned
engine_lease_wants (struct engine *e, struct array_range *wants, unsigned max)
{
  unsigned count;

  pthread_mutex_lock (&e->lock);
  count = array_lease_wants (e->array, wants, max);
  pthread_mutex_unlock (&e->lock);
  return count;
}

void
engine_lease_grant (struct engine *e, const struct array_range *granted,
                    unsigned count)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  array_lease_grant (e->array, granted, count, clock_ns ());
  engine_turn_end (e, &t);
}

void
engine_lease_recover (struct engine *e, const struct array_range *ranges,
                      unsigned count)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  array_lease_recover (e->array, ranges, count, clock_ns ());
  engine_turn_end (e, &t);
}

void
engine_lease_recovered (struct engine *e)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  array_lease_recovered (e->array, clock_ns ());
  engine_turn_end (e, &t);
}

bool
engine_lease_leaves (struct engine *e)
{
  struct turn t;
  bool leaves;

  engine_turn_begin (e, &t, NULL);
  leaves = array_lease_leaves (e->array);
  engine_turn_end (e, &t);
  return leaves;
}

void
engine_lease_leave (struct engine *e, const struct lease_wish *leave)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  array_lease_leave (e->array, &leave->must, &leave->wish, clock_ns ());
  pthread_cond_signal (&e->patrol);
  engine_turn_end (e, &t);
}

unsigned
engine_lease_left (struct engine *e, struct array_range *left, unsigned max)
{
  unsigned count;

  pthread_mutex_lock (&e->lock);
  count = array_lease_left (e->array, left, max);
  pthread_mutex_unlock (&e->lock);
  return count;
}

size_t
engine_lease_all (struct engine *e, struct array_range **list)
{
  size_t count;

  pthread_mutex_lock (&e->lock);
  count = array_lease_all (e->array, list);
  pthread_mutex_unlock (&e->lock);
  return count;
}

void
engine_stats (struct engine *e, struct array_stats *stats)
{
  pthread_mutex_lock (&e->lock);
  array_stats (e->array, clock_ns (), stats);
  pthread_mutex_unlock (&e->lock);
}

int
engine_cover (struct engine *e)
{
  struct array_request r = { .op = ARRAY_FLUSH, .flags = ARRAY_COVER };

  return engine_run (e, &r);
}

uint64_t
engine_member_bytes (struct engine *e, unsigned member)
{
  uint64_t bytes;

  pthread_mutex_lock (&e->lock);
  bytes = e->peers[member] ? e->peers[member]->size : 0;
  pthread_mutex_unlock (&e->lock);
  return bytes;
}

void
engine_recorded (struct engine *e, enum member_state states[])
{
  pthread_mutex_lock (&e->lock);
  memcpy (states, e->seats.states, sizeof e->seats.states);
  pthread_mutex_unlock (&e->lock);
}

/* The polling thread passes it to the block. */
void
engine_break (struct engine *e, unsigned member)
{
  pthread_mutex_lock (&e->lock);
  if (e->peers[member])
    peer_break (e->peers[member]);
  pthread_mutex_unlock (&e->lock);
}

/* Has it given back everything?  With poll_lock and lock. */
static bool
is_over (const struct peer *p)
{
  return p == NULL ||
         (p->ios == 0 &&
          atomic_load_explicit (&p->senders, memory_order_acquire) == 0);
}

bool
engine_sever (struct engine *e, unsigned member)
{
  uint64_t until = clock_ns () + MS (SEVER_MS);
  struct peer *p;
  bool over;

  engine_break (e, member);
  do {
    pthread_mutex_lock (&e->lock);
    p = e->peers[member];
    over = p == NULL || (p->reported && is_over (p));
    pthread_mutex_unlock (&e->lock);
    if (over)
      return true;
    clock_sleep_ms (PAUSE_MS);
  } while (clock_ns () < until);
  return false;
}

bool
engine_replace (struct engine *e, struct peer *peer, uint64_t connection,
                bool kept, uint64_t reach)
{
  unsigned member = peer->member;
  struct peer *old;
  struct turn t;
  bool over;

  if (!engine_sever (e, member))
    return false;
  pthread_mutex_lock (&e->swap_lock);
  atomic_store (&e->swapping, true);
  engine_kick (&e->by_self);
  engine_kick (&e->by_requests);
  pthread_mutex_lock (&e->poll_lock);
  engine_turn_begin (e, &t, NULL);
  old = e->peers[member];
  over = is_over (old);
  if (over) {
    engine_unwatch (e, member);
    e->peers[member] = peer;
    seats_take (&e->seats, e->array, member, connection, kept, reach,
                clock_ns ());
  }
  atomic_store (&e->swapping, false);
  pthread_mutex_unlock (&e->poll_lock);
  engine_turn_end (e, &t);
  pthread_mutex_unlock (&e->swap_lock);
  if (over)
    peer_close (old);
  return over;
}
