/* engine-thread.c: the engine thread, and the making and ending of an engine.
 *
 * The engine thread sleeps in one of two ways.  It leads (polls) when no
 * request waits.  While requests come it is on patrol: it sleeps on a
 * condition, wakes for the block's deadlines, and looks every few
 * milliseconds whether the requests have ceased.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "engine-internal.h"
#include "hangup.h"
#include "role.h"

#define PATROL_MS 10
/* How often we look whether nbdkit is ending, and how long a request that is
 * held by a barrier then gets.
 */
#define ENDING_CHECK_MS 1000
#define ENDING_GRACE_MS 5000
#define IOS_PREALLOCATED 64

/*----- The engine thread -----*/

/* With the lock. */
static void
break_all (struct engine *e)
{
  for (unsigned m = 0; m < e->members; m++)
    if (e->peers[m])
      peer_break (e->peers[m]);
}

/* A stopped block has no time-outs any more: requests to a member that
 * hangs come back only when its connection is broken.
 */
void
engine_abandon (struct engine *e)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  e->block->ops->stop (e->block, ESHUTDOWN, clock_ns ());
  break_all (e);
  engine_turn_end (e, &t);
}

/* nbdkit waits for its worker threads when it ends, so those in a barrier, or
 * that wait for a member, must not stay there for ever.  Called and returns with
 * the lock; returns when to look again.
 */
static uint64_t
check_ending (struct engine *e, uint64_t now)
{
  if (!hangup_ending ())
    return now + MS (ENDING_CHECK_MS);
  if (!atomic_exchange (&e->ending, true))
    return now + MS (ENDING_GRACE_MS);
  if (e->drain_deadline != UINT64_MAX)
    return UINT64_MAX; /* engine_end has a deadline of its own */
  if (e->running == 0)
    return now + MS (ENDING_CHECK_MS);
  nbdkit_error ("weft: ending: failing %u requests that wait for weftd or for "
                "a member",
                e->running);
  pthread_mutex_unlock (&e->lock);
  hangup_cut ();
  engine_abandon (e);
  pthread_mutex_lock (&e->lock);
  return UINT64_MAX;
}

/* With the lock.  True: the block must hear of it. */
static bool
look_for_black_holes (struct engine *e)
{
  bool any = false;

  for (unsigned m = 0; m < e->members; m++)
    any |= e->peers[m] && peer_swallowed (e->peers[m]);
  return any;
}

/* Lead until something happened or the deadline.  Called and returns with the
 * lock.
 */
static void
lead (struct engine *e, uint64_t deadline, uint64_t now)
{
  uint64_t ms = (deadline - now + 999999) / 1000000;
  struct turn t;

  e->leader = &e->self;
  pthread_mutex_unlock (&e->lock);
  if (engine_poll (e, &e->by_self, ms > 60000 ? 60000 : (int) ms)) {
    engine_turn_begin (e, &t, &e->self);
    engine_turn_end (e, &t);
  }
  pthread_mutex_lock (&e->lock);
  if (e->leader == &e->self)
    e->leader = NULL;
}

static void *
engine_thread (void *opaque)
{
  struct engine *e = opaque;
  uint64_t seen = 0, now, deadline, ending_check;
  struct turn t;

  pthread_setname_np (pthread_self (), "weft-engine");
  pthread_mutex_lock (&e->lock);
  ending_check = clock_ns () + MS (ENDING_CHECK_MS);
  while (!e->quit) {
    now = clock_ns ();
    deadline = e->block->ops->deadline (e->block);
    if (now >= deadline) {
      engine_turn_reset (&t, &e->self);
      for (unsigned m = 0; m < e->members; m++)
        if (e->peers[m])
          e->block->ops->heard (e->block, m,
                                atomic_load (&e->peers[m]->heard_ns));
      e->block->ops->tick (e->block, now);
      engine_turn_end (e, &t);
      pthread_mutex_lock (&e->lock);
      continue;
    }
    if (now >= e->drain_deadline) {
      /* The time for a clean end is over: break whatever hangs. */
      e->drain_deadline = UINT64_MAX;
      pthread_mutex_unlock (&e->lock);
      engine_abandon (e);
      pthread_mutex_lock (&e->lock);
      continue;
    }
    if (now >= ending_check) {
      ending_check = check_ending (e, now);
      if (look_for_black_holes (e)) {
        engine_turn_reset (&t, &e->self);
        engine_turn_end (e, &t);
        pthread_mutex_lock (&e->lock);
      }
      continue;
    }
    if (deadline > e->drain_deadline)
      deadline = e->drain_deadline;
    if (deadline > ending_check)
      deadline = ending_check;
    if (e->leader == NULL &&
        (e->requests == seen || e->block->ops->awaited (e->block)))
      lead (e, deadline, now);
    else { /* on patrol */
      seen = e->requests;
      if (deadline > now + MS (PATROL_MS))
        deadline = now + MS (PATROL_MS);
      clock_wait (&e->patrol, &e->lock, deadline);
    }
  }
  pthread_mutex_unlock (&e->lock);
  return NULL;
}

/*----- Making, ending -----*/

static bool
poller_open (struct poller *p)
{
  struct epoll_event event = { .events = EPOLLIN, .data.u64 = POLLER_KICK };

  p->kick = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  p->epoll = epoll_create1 (EPOLL_CLOEXEC);
  return p->kick != -1 && p->epoll != -1 &&
         epoll_ctl (p->epoll, EPOLL_CTL_ADD, p->kick, &event) == 0;
}

static void
poller_close (struct poller *p)
{
  if (p->kick != -1)
    close (p->kick);
  if (p->epoll != -1)
    close (p->epoll);
}

struct engine *
engine_new (struct block *block, struct array *array, struct peer **peers,
            const struct seats *seats, engine_notice_fn notice, void *opaque)
{
  struct engine *e = calloc (1, sizeof *e);
  struct peer_io *pio;
  bool polls;
  unsigned i;

  if (e == NULL)
    return NULL;
  e->block = block;
  e->array = array;
  e->peers = peers;
  e->members = seats->members;
  e->seats = *seats;
  e->notice = notice;
  e->notice_opaque = opaque;
  e->drain_deadline = UINT64_MAX;
  TAILQ_INIT (&e->followers);
  pthread_mutex_init (&e->swap_lock, NULL);
  pthread_mutex_init (&e->poll_lock, NULL);
  pthread_mutex_init (&e->lock, NULL);
  clock_condition (&e->patrol);
  for (i = 0; i < IOS_PREALLOCATED; i++) {
    pio = malloc (sizeof *pio);
    if (pio) {
      pio->engine = e;
      pio->peer = NULL;
      e->ios_out++;
      engine_io_put (e, pio);
    }
  }
  polls = poller_open (&e->by_self);
  polls &= poller_open (&e->by_requests);
  if (!polls || e->spare_ios == NULL) {
    e->block = NULL; /* the block and the peers stay the caller's */
    e->members = 0;
    e->peers = NULL;
    engine_free (e);
    return NULL;
  }
  return e;
}

int
engine_start (struct engine *e)
{
  int r = pthread_create (&e->thread, NULL, engine_thread, e);

  if (r == 0)
    e->started = true;
  return r;
}

/* Wait until all I/O came back; false when it did not within the time. */
static bool
wait_ios (struct engine *e, unsigned ms)
{
  uint64_t until = clock_ns () + MS (ms);
  bool busy;

  do {
    pthread_mutex_lock (&e->lock);
    busy = e->ios_out > 0;
    pthread_mutex_unlock (&e->lock);
    if (!busy)
      return true;
    clock_sleep_ms (PAUSE_MS);
  } while (clock_ns () < until);
  return false;
}

bool
engine_end (struct engine *e, bool drain, unsigned drain_ms)
{
  struct turn t;
  bool clean = true;

  if (!e->started)
    return false;
  if (drain) {
    pthread_mutex_lock (&e->lock);
    e->drain_deadline = clock_ns () + MS (drain_ms);
    pthread_cond_signal (&e->patrol);
    pthread_mutex_unlock (&e->lock);
    clean = engine_cover (e) == 0;
  }
  engine_turn_begin (e, &t, NULL);
  e->block->ops->stop (e->block, ESHUTDOWN, clock_ns ());
  engine_turn_end (e, &t);
  if (!wait_ios (e, 1000)) {
    pthread_mutex_lock (&e->lock);
    break_all (e);
    pthread_mutex_unlock (&e->lock);
    wait_ios (e, 5000);
  }
  pthread_mutex_lock (&e->lock);
  e->quit = true;
  pthread_cond_signal (&e->patrol);
  pthread_mutex_unlock (&e->lock);
  engine_kick (&e->by_self);
  pthread_join (e->thread, NULL);
  e->started = false;
  return clean;
}

void
engine_free (struct engine *e)
{
  struct waiter *w;
  struct peer_io *pio;
  unsigned m;

  if (e == NULL)
    return;
  /* libnbd may still use requests that did not come back in time. */
  if (e->ios_out > 0)
    return;
  if (e->block)
    e->block->ops->free (e->block);
  for (m = 0; m < e->members; m++)
    peer_close (e->peers[m]);
  free (e->peers);
  while ((w = atomic_load (&e->spare_waiters)) != NULL) {
    atomic_store (&e->spare_waiters, w->spare_next);
    free (w);
  }
  while ((pio = e->spare_ios) != NULL) {
    e->spare_ios = pio->next;
    free (pio);
  }
  poller_close (&e->by_self);
  poller_close (&e->by_requests);
  pthread_cond_destroy (&e->patrol);
  pthread_mutex_destroy (&e->lock);
  pthread_mutex_destroy (&e->poll_lock);
  pthread_mutex_destroy (&e->swap_lock);
  free (e);
}
