/* engine-internal.h: shared by engine.c, engine-thread.c and engine-member.c.
 *
 * engine.c has the turns, the polling and the requests; engine-thread.c has the
 * background thread, and the engine's start and end: they know the block alone.
 * engine-member.c tells the array of its members.
 */

#ifndef WEFT_ENGINE_INTERNAL_H
#define WEFT_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "engine.h"

#define NOTICES_PER_TURN 8
#define WAKES_PER_TURN 64
#define PAUSE_MS 2 /* between two looks whether something has ended */

#define MS(n) ((uint64_t) (n) * 1000000)

/* Bits of a waiter's word. */
enum {
  DONE = 1,     /* its request is done */
  LEAD = 2,     /* it has been made the leader */
  SLEEPING = 4, /* it needs a futex wake */
};

struct waiter {
  atomic_uint word;
  bool following; /* is in engine.followers */
  TAILQ_ENTRY (waiter) entry;
  struct waiter *spare_next;
};

/* One of the two kinds of thread that poll: those with a request, and the engine
 * thread.  Each has an epoll, so that a poll costs what has come, not what there is to
 * wait for.  An event's data is the member and, in the lower half, the door.
 */
#define POLLER_KICK UINT64_MAX

struct poller {
  int epoll, kick; /* an eventfd, which is in the epoll */
  /* The events of each door; 0: it is not in the epoll.  With poll_lock. */
  short watched[ARRAY_MEMBERS_MAX][PEER_DOORS_MAX];
};

struct engine {
  /* The three locks, in the order in which they are taken.
   *
   * poll_lock is held by the thread that polls, from poll(2) to the last notify:
   * libnbd 1.14 hangs when a handle reads bytes that another thread has read already.  Two
   * kinds of threads may find it taken: a request's thread that takes
   * the lead away from the engine thread, and a thread that puts a new peer in.  The latter
   * holds swap_lock and sets `swapping`, so that pollers let poll_lock go.
   */
  pthread_mutex_t swap_lock;
  atomic_bool swapping;
  pthread_mutex_t poll_lock;
  pthread_mutex_t lock; /* held across no I/O and no callback */
  /* Under the lock: */
  struct block *block;
  struct array *array;   /* at the bottom of it; for engine-member.c */
  struct waiter *leader; /* NULL: nobody polls */
  TAILQ_HEAD (follower_list, waiter) followers;
  uint64_t requests; /* that have come */
  unsigned running;  /* requests that have come and are not done */
  struct peer_io *spare_ios;
  unsigned ios_out;      /* how many peer_io are in use */
  pthread_cond_t patrol; /* the engine thread sleeps here on patrol */
  bool quit;
  uint64_t drain_deadline; /* UINT64_MAX: none */
  struct seats seats;

  /* Finished I/O, newest first; pushed by anyone, taken by a turn. */
  _Atomic (struct peer_io *) finished;
  _Atomic (struct waiter *) spare_waiters;
  atomic_bool ending; /* nbdkit is ending */

  struct peer **peers; /* NULL: none yet.  Changed with poll_lock and lock. */
  unsigned members;
  engine_notice_fn notice;
  void *notice_opaque;
  struct waiter self; /* the engine thread as a leader */
  struct poller by_self, by_requests;
  pthread_t thread;
  bool started;
};

/* The outputs that a turn took out of the block. */
struct turn {
  struct waiter *self; /* NULL: a thread that waits for nothing */
  struct peer_io *send, **send_tail;
  struct waiter *wake[WAKES_PER_TURN];
  unsigned wake_count;
  bool leads; /* self is the leader */
  bool kick_leader, kick_self;
  struct array_notice notices[NOTICES_PER_TURN];
  uint64_t connections[NOTICES_PER_TURN]; /* which each notice is about */
  unsigned notices_count;
};

/* A turn: engine_turn_begin, which takes the lock; inputs to e->block or e->array;
 * engine_turn_end, which unlocks, and may make more turns.  A caller with the
 * lock begins by engine_turn_reset.
 */
void engine_turn_reset (struct turn *t, struct waiter *self);
void engine_turn_begin (struct engine *e, struct turn *t, struct waiter *self);
void engine_turn_end (struct engine *e, struct turn *t);

/* Poll once, and move on every connection that has something.  True: a turn
 * is due.
 */
bool engine_poll (struct engine *e, struct poller *p, int timeout_ms);
void engine_kick (struct poller *p);

/* Forget a member's doors: its peer will be another.  With poll_lock. */
void engine_unwatch (struct engine *e, unsigned member);

/* Give a peer_io back to be used again; with the lock. */
void engine_io_put (struct engine *e, struct peer_io *pio);

#endif /* WEFT_ENGINE_INTERNAL_H */
