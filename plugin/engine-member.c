/* engine-member.c: epochs, and members that come back, while requests go on.
 *
 * A member that returns gets a new peer.  The old one is broken first and has
 * given back all its I/O, so nothing that was asked of the member before can
 * be answered, or even arrive, behind what is asked through the new one.  A
 * peer is used by those who send (`senders`), by the poller, and by libnbd's
 * callbacks, which run within one of the two: it may be closed when it has no
 * I/O, no sender, and the poller was outside meanwhile.
 */

#include <config.h>

#include <errno.h>
#include <time.h>

#include "engine-internal.h"

#define SEVER_MS 5000

void
engine_states (const enum member_state states[], const bool joined[],
               unsigned members, enum member_state seen[])
{
  for (unsigned m = 0; m < members; m++)
    seen[m] = states[m] == MEMBER_JOINING && !joined[m] ? MEMBER_OUT
                                                       : states[m];
}

/* Within a turn: the array engine's view of the recorded states.  A member
 * that was out became in-sync behind our back while weftd could not be heard:
 * it is lost until there is a connection.
 */
static void
commit_states (struct engine *e, uint64_t now)
{
  enum member_state seen[ARRAY_MEMBERS_MAX];

  engine_states (e->states, e->joined, e->members, seen);
  array_commit (e->array, e->epoch, seen, now);
  for (unsigned m = 0; m < e->members; m++)
    if (e->states[m] == MEMBER_IN_SYNC && !e->joined[m])
      array_lost (e->array, m, "there is no connection to it yet", now);
}

void
engine_commit (struct engine *e, uint64_t epoch,
               const enum member_state states[])
{
  struct turn t;

  turn_begin (&t, NULL);
  pthread_mutex_lock (&e->lock);
  if (epoch < e->epoch) {
    pthread_mutex_unlock (&e->lock);
    return;
  }
  e->epoch = epoch;
  for (unsigned m = 0; m < e->members; m++) {
    /* From in-sync to joining there is no way but by way of out. */
    if (states[m] == MEMBER_OUT || (states[m] == MEMBER_JOINING &&
                                    e->states[m] == MEMBER_IN_SYNC))
      e->joined[m] = false;
    if (states[m] == MEMBER_OUT && e->peers[m])
      peer_break (e->peers[m]);
    e->states[m] = states[m];
  }
  commit_states (e, engine_now_ns ());
  turn_end (e, &t);
}

void
engine_prepare (struct engine *e, uint64_t epoch,
                const enum member_state states[])
{
  struct turn t;

  turn_begin (&t, NULL);
  pthread_mutex_lock (&e->lock);
  if (epoch > e->epoch && epoch > e->prepared) {
    e->prepared = epoch;
    /* Not as seen: a joiner may be connected before the commit. */
    array_prepare (e->array, epoch, states, engine_now_ns ());
  }
  turn_end (e, &t);
}

uint64_t
engine_epoch (struct engine *e)
{
  uint64_t epoch;

  pthread_mutex_lock (&e->lock);
  epoch = array_epoch (e->array);
  pthread_mutex_unlock (&e->lock);
  return epoch;
}

uint64_t
engine_round (struct engine *e)
{
  uint64_t round;

  pthread_mutex_lock (&e->lock);
  round = array_round (e->array);
  pthread_mutex_unlock (&e->lock);
  return round;
}

void
engine_hold (struct engine *e, bool hold)
{
  struct turn t;

  turn_begin (&t, NULL);
  pthread_mutex_lock (&e->lock);
  array_hold (e->array, hold, engine_now_ns ());
  turn_end (e, &t);
}

void
engine_settled (struct engine *e, unsigned member, uint64_t offset,
                uint64_t length)
{
  struct turn t;

  turn_begin (&t, NULL);
  pthread_mutex_lock (&e->lock);
  array_settled (e->array, member, offset, length, engine_now_ns ());
  turn_end (e, &t);
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

uint64_t
engine_member_bytes (struct engine *e, unsigned member)
{
  uint64_t bytes;

  pthread_mutex_lock (&e->lock);
  bytes = e->peers[member] ? e->peers[member]->size : 0;
  pthread_mutex_unlock (&e->lock);
  return bytes;
}

bool
engine_in_sync (struct engine *e, unsigned member)
{
  bool in_sync;

  pthread_mutex_lock (&e->lock);
  in_sync = e->states[member] == MEMBER_IN_SYNC;
  pthread_mutex_unlock (&e->lock);
  return in_sync;
}

/* The array engine is told by whoever polls. */
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
  const struct timespec pause = { .tv_nsec = 2000000 };
  uint64_t until = engine_now_ns () + MS (SEVER_MS);
  struct peer *p;
  bool over;

  engine_break (e, member);
  do {
    pthread_mutex_lock (&e->lock);
    p = e->peers[member];
    over = (p == NULL || (p->reported && is_over (p))) &&
           atomic_load (&e->telling) == 0;
    pthread_mutex_unlock (&e->lock);
    if (over)
      return true;
    nanosleep (&pause, NULL);
  } while (engine_now_ns () < until);
  return false;
}

bool
engine_replace (struct engine *e, struct peer *peer, bool kept)
{
  unsigned member = peer->member;
  struct peer *old;
  struct turn t;
  bool over;

  if (!engine_sever (e, member))
    return false;
  pthread_mutex_lock (&e->swap_lock);
  atomic_store (&e->swapping, true);
  engine_kick (e->kick_self);
  engine_kick (e->kick_leader);
  pthread_mutex_lock (&e->poll_lock);
  turn_begin (&t, NULL);
  pthread_mutex_lock (&e->lock);
  old = e->peers[member];
  over = is_over (old);
  if (over) {
    /* A joining member has begun anew: it was out meanwhile. */
    if (e->states[member] == MEMBER_JOINING) {
      e->joined[member] = false;
      commit_states (e, engine_now_ns ());
    }
    e->peers[member] = peer;
    e->joined[member] = true;
    array_back (e->array, member, kept, engine_now_ns ());
    commit_states (e, engine_now_ns ());
  }
  atomic_store (&e->swapping, false);
  pthread_mutex_unlock (&e->poll_lock);
  turn_end (e, &t);
  pthread_mutex_unlock (&e->swap_lock);
  if (over)
    peer_close (old);
  return over;
}
