/* engine.c: a block (block.h) with threads and connections around it.
 *
 * The block is a pure state machine under one lock, held for its step
 * alone.  A thread that has something for it (a request, finished I/O, the
 * time) makes a `turn`: lock; hand the inputs over; take the outputs; unlock;
 * then carry the outputs out: send I/O to members, wake threads whose requests
 * are done, pass on notices.
 *
 * Leader and followers.  Answers of members are awaited by epoll.  One of the
 * threads that wait for a request is the leader and polls for all of them; the
 * others, the followers, sleep on a word of their own.  A leader whose request
 * is done makes the newest follower the leader, so a lone request at a time is
 * served without any change of thread.
 *
 * If no request waits, the engine thread leads.  It handles background I/O and
 * the deadlines of the block.  A request takes the lead away from it; as
 * long as requests keep coming it leaves the lead to them and handles only the
 * deadlines (its patrol), unless another host waits for background I/O of ours:
 * for a lease.
 *
 * Each of the two kinds of poller has an epoll, and an eventfd that reports a
 * change in its polling: a socket became full, another thread leads, its own
 * request was finished by another thread.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "engine-internal.h"
#include "role.h"

NBDKIT_DLL_PUBLIC int weft_debug_io = 0;

#define EVENTS_PER_POLL 64

/*----- Waiters -----*/

/* Waiters are never freed while the engine lives: a late futex wake must not
 * hit something else.  Put back without the lock, taken with it: with one
 * taker at a time the list has no ABA problem.
 */
static void
waiter_put (struct engine *e, struct waiter *w)
{
  w->spare_next = atomic_load_explicit (&e->spare_waiters,
                                        memory_order_relaxed);
  while (!atomic_compare_exchange_weak (&e->spare_waiters, &w->spare_next, w))
    ;
}

static struct waiter *
waiter_get (struct engine *e)
{
  struct waiter *w = atomic_load (&e->spare_waiters);

  while (w &&
         !atomic_compare_exchange_weak (&e->spare_waiters, &w, w->spare_next))
    ;
  if (w == NULL)
    w = calloc (1, sizeof *w);
  if (w)
    atomic_store_explicit (&w->word, 0, memory_order_relaxed);
  return w;
}

static void
waiter_sleep (struct waiter *w)
{
  unsigned v = atomic_load (&w->word);

  while (!(v & (DONE | LEAD))) {
    if (!(v & SLEEPING) &&
        !atomic_compare_exchange_strong (&w->word, &v, v | SLEEPING))
      continue;
    syscall (SYS_futex, &w->word, FUTEX_WAIT_PRIVATE, v | SLEEPING, NULL);
    v = atomic_load (&w->word);
  }
  atomic_fetch_and (&w->word, ~SLEEPING);
}

static void
waiter_wake (struct waiter *w)
{
  syscall (SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, 1);
}

/* Set a bit; if the waiter sleeps it is woken when the lock is free again. */
static void
turn_signal (struct turn *t, struct waiter *w, unsigned bit)
{
  if (!(atomic_fetch_or (&w->word, bit) & SLEEPING))
    return;
  if (t->wake_count < WAKES_PER_TURN)
    t->wake[t->wake_count++] = w;
  else
    waiter_wake (w);
}

void
engine_kick (struct poller *p)
{
  static const uint64_t one = 1;
  ssize_t r = write (p->kick, &one, sizeof one);

  (void) r; /* EAGAIN: it has been kicked enough */
}

/*----- I/O on its way -----*/

void
engine_io_done (struct peer_io *pio)
{
  struct engine *e = pio->engine;

  pio->next = atomic_load_explicit (&e->finished, memory_order_relaxed);
  while (!atomic_compare_exchange_weak (&e->finished, &pio->next, pio))
    ;
}

static struct peer_io *
io_get (struct engine *e)
{
  struct peer_io *pio = e->spare_ios;

  if (pio)
    e->spare_ios = pio->next;
  else {
    pio = malloc (sizeof *pio);
    if (pio == NULL)
      return NULL;
    pio->engine = e;
  }
  e->ios_out++;
  pio->peer = NULL;
  pio->flush_after = false;
  return pio;
}

void
engine_io_put (struct engine *e, struct peer_io *pio)
{
  e->ios_out--;
  if (pio->peer)
    pio->peer->ios--;
  pio->next = e->spare_ios;
  e->spare_ios = pio;
}

/*----- A turn -----*/

void
engine_turn_reset (struct turn *t, struct waiter *self)
{
  t->self = self;
  t->send = NULL;
  t->send_tail = &t->send;
  t->wake_count = 0;
  t->leads = t->kick_leader = t->kick_self = false;
  t->notices_count = 0;
}

void
engine_turn_begin (struct engine *e, struct turn *t, struct waiter *self)
{
  engine_turn_reset (t, self);
  pthread_mutex_lock (&e->lock);
}

static void
turn_send (struct turn *t, struct peer_io *pio)
{
  if (pio->peer)
    atomic_fetch_add_explicit (&pio->peer->senders, 1, memory_order_relaxed);
  pio->next = NULL;
  *t->send_tail = pio;
  t->send_tail = &pio->next;
}

/* Tell the block, once, that a peer's connection is gone.  An I/O may
 * bring the news before the thread that saw it happen has noted the reason.
 */
static void
report_broken (struct engine *e, struct peer *p, int error, uint64_t now)
{
  bool broken = p && atomic_load (&p->state) == PEER_BROKEN;

  if (p == NULL || p->reported || (!broken && error != ENOTCONN))
    return;
  p->reported = true;
  e->block->ops->lost (e->block, p->member,
                       broken ? p->reason : "its connection broke", now);
}

static void
take_finished (struct engine *e, struct turn *t, uint64_t now)
{
  struct peer_io *pio = atomic_exchange (&e->finished, NULL);
  struct peer_io *list = NULL, *next;

  for (; pio; pio = next) { /* from newest first to oldest first */
    next = pio->next;
    pio->next = list;
    list = pio;
  }
  for (pio = list; pio; pio = next) {
    int error = atomic_load_explicit (&pio->error, memory_order_relaxed);

    next = pio->next;
    if (weft_debug_io)
      nbdkit_debug ("weft: io %d member %u offset %llu length %llu: %d",
                    pio->io->kind, pio->io->member,
                    (unsigned long long) pio->io->offset,
                    (unsigned long long) pio->io->length, error);
    if (pio->flush_after && !error) {
      turn_send (t, pio);
      continue;
    }
    if (error)
      report_broken (e, pio->peer, error, now);
    e->block->ops->io_done (e->block, pio->io, error, now);
    engine_io_put (e, pio);
  }
}

static void
finish (struct engine *e, struct turn *t, struct array_request *r)
{
  struct waiter *w = r->owner;

  e->running--;
  if (w->following) {
    TAILQ_REMOVE (&e->followers, w, entry);
    w->following = false;
  }
  if (w == e->leader && w != t->self)
    t->kick_leader = true;
  turn_signal (t, w, DONE);
}

/* A leader whose own request is done leaves the lead to the newest follower:
 * it is the least likely to sleep already, and the one to wait longest.
 */
static void
hand_over (struct engine *e, struct turn *t)
{
  struct waiter *w = TAILQ_LAST (&e->followers, follower_list);

  e->leader = w;
  if (w == NULL) {
    if (e->block->ops->awaited (e->block))
      pthread_cond_signal (&e->patrol);
    return;
  }
  TAILQ_REMOVE (&e->followers, w, entry);
  w->following = false;
  turn_signal (t, w, LEAD);
}

/* Nothing more may come of what a lost member was asked. */
static void
take_notices (struct engine *e, struct turn *t)
{
  struct array_notice *n = &t->notices[t->notices_count];

  for (; t->notices_count < NOTICES_PER_TURN &&
         e->block->ops->next_notice (e->block, n);
       n++) {
    t->connections[t->notices_count++] = e->seats.connection[n->member];
    if (n->kind == NOTICE_LOST && e->peers[n->member])
      peer_break (e->peers[n->member]);
  }
}

/* With the lock held and all inputs made: take every output. */
static void
turn_take (struct engine *e, struct turn *t, uint64_t now)
{
  struct array_request *r;
  struct peer_io *pio;
  unsigned m;

  take_finished (e, t, now);
  for (m = 0; m < e->members; m++)
    report_broken (e, e->peers[m], 0, now);
  while ((r = e->block->ops->next_done (e->block, now)) != NULL)
    finish (e, t, r);
  /* Without memory the block keeps its I/O until some comes back: there is
   * always some on its way then.
   */
  while ((pio = io_get (e)) != NULL) {
    pio->io = e->block->ops->next_io (e->block);
    if (pio->io == NULL) {
      engine_io_put (e, pio);
      break;
    }
    pio->peer = e->peers[pio->io->member];
    if (pio->peer)
      pio->peer->ios++;
    turn_send (t, pio);
  }
  take_notices (e, t);
  if (t->self && t->self == e->leader && t->self != &e->self &&
      (atomic_load_explicit (&t->self->word, memory_order_relaxed) & DONE))
    hand_over (e, t);
  t->leads = t->self && t->self == e->leader;
  /* A request that takes the lead from the engine thread makes it look at its
   * deadlines.  A thread that waits for nothing may have changed them, too, and has
   * to tell it.
   */
  if (t->self == NULL)
    t->kick_self = true;
}

/* Without the lock: carry the outputs out.  Returns true when there is more to
 * do for another turn.
 */
static bool
turn_carry_out (struct engine *e, struct turn *t)
{
  struct peer_io *pio, *next;
  bool full = false;
  unsigned i;

  for (pio = t->send; pio; pio = next) {
    struct peer *p = pio->peer;

    next = pio->next;
    if (p == NULL) { /* a member that never was connected */
      atomic_store (&pio->error, ENOTCONN);
      engine_io_done (pio);
      continue;
    }
    full |= peer_send (pio);
    atomic_fetch_sub_explicit (&p->senders, 1, memory_order_release);
  }
  for (i = 0; i < t->wake_count; i++)
    waiter_wake (t->wake[i]);
  /* A leader looks at the directions before it polls; another thread, which may
   * poll already, must be woken.
   */
  if (full && (!t->leads || t->self == &e->self))
    t->kick_self = t->kick_leader = true;
  if (t->kick_self)
    engine_kick (&e->by_self);
  if (t->kick_leader)
    engine_kick (&e->by_requests);
  for (i = 0; i < t->notices_count; i++)
    e->notice (e->notice_opaque, &t->notices[i], t->connections[i]);
  return t->notices_count == NOTICES_PER_TURN ||
         atomic_load (&e->finished) != NULL;
}

/* The rest of a turn whose inputs were made: unlocks. */
void
engine_turn_end (struct engine *e, struct turn *t)
{
  turn_take (e, t, clock_ns ());
  pthread_mutex_unlock (&e->lock);
  while (turn_carry_out (e, t)) {
    engine_turn_begin (e, t, t->self);
    turn_take (e, t, clock_ns ());
    pthread_mutex_unlock (&e->lock);
  }
}

/*----- Polling -----*/

/* Have the kernel look at a door for other events than now.  False: it can't, for
 * want of memory.
 */
static bool
watch (struct poller *p, unsigned m, unsigned d, int fd, short events)
{
  struct epoll_event event = { .events = events,
                               .data.u64 = (uint64_t) m << 32 | d };
  int op = p->watched[m][d] == 0 ? EPOLL_CTL_ADD
           : events == 0         ? EPOLL_CTL_DEL
                                 : EPOLL_CTL_MOD;

  if (epoll_ctl (p->epoll, op, fd, &event) == -1)
    return false;
  p->watched[m][d] = events;
  return true;
}

static bool
watch_all (struct engine *e, struct poller *p)
{
  bool all = true;

  for (unsigned m = 0; m < e->members; m++)
    for (unsigned d = 0; e->peers[m] && d < e->peers[m]->doors_count; d++) {
      const struct door *door = &e->peers[m]->doors[d];
      short events = door_events (door);

      if (events != p->watched[m][d])
        all &= watch (p, m, d, door->fd, events);
    }
  return all;
}

void
engine_unwatch (struct engine *e, unsigned member)
{
  struct poller *pollers[] = { &e->by_self, &e->by_requests };
  const struct peer *peer = e->peers[member];

  for (unsigned i = 0; i < 2; i++)
    for (unsigned d = 0; peer && d < peer->doors_count; d++)
      if (pollers[i]->watched[member][d] != 0) {
        epoll_ctl (pollers[i]->epoll, EPOLL_CTL_DEL, peer->doors[d].fd, NULL);
        pollers[i]->watched[member][d] = 0;
      }
}

/* Poll once, and move on every connection that has something.  True: a turn
 * is due.
 */
bool
engine_poll (struct engine *e, struct poller *p, int timeout_ms)
{
  struct epoll_event events[EVENTS_PER_POLL];
  uint64_t kicks;
  bool broken = false;
  int n;

  while (atomic_load (&e->swapping)) {
    pthread_mutex_lock (&e->swap_lock);
    pthread_mutex_unlock (&e->swap_lock);
  }
  pthread_mutex_lock (&e->poll_lock);
  if (!watch_all (e, p) && (timeout_ms < 0 || timeout_ms > PAUSE_MS))
    timeout_ms = PAUSE_MS; /* and again */
  n = epoll_wait (p->epoll, events, EVENTS_PER_POLL, timeout_ms);
  for (int i = 0; i < n; i++) {
    unsigned m = events[i].data.u64 >> 32, d = (uint32_t) events[i].data.u64;

    if (events[i].data.u64 != POLLER_KICK)
      broken |= door_notify (e->peers[m], &e->peers[m]->doors[d],
                             events[i].events);
    else if (read (p->kick, &kicks, sizeof kicks) == -1)
      assert (errno == EAGAIN);
  }
  pthread_mutex_unlock (&e->poll_lock);
  return broken || atomic_load (&e->finished) != NULL;
}

/*----- Requests -----*/

/* The caller's request is on its way: poll for everybody, or sleep. */
static void
wait_done (struct engine *e, struct turn *t, struct waiter *w, bool lead)
{
  unsigned v;

  for (;;) {
    v = atomic_load (&w->word);
    if (v & LEAD)
      lead = true;
    if (v & DONE)
      break;
    if (!lead)
      waiter_sleep (w);
    else if (engine_poll (e, &e->by_requests, -1)) {
      engine_turn_begin (e, t, w);
      engine_turn_end (e, t);
    }
  }
  if (!lead)
    return;
  /* This thread hands the lead over, unless a turn of its own has done so. */
  engine_turn_begin (e, t, w);
  if (e->leader == w)
    hand_over (e, t);
  pthread_mutex_unlock (&e->lock);
  turn_carry_out (e, t);
}

int
engine_run (struct engine *e, struct array_request *r)
{
  struct waiter *w;
  struct turn t;
  bool lead = false;

  pthread_mutex_lock (&e->lock);
  w = waiter_get (e);
  if (w == NULL) {
    pthread_mutex_unlock (&e->lock);
    return ENOMEM;
  }
  r->owner = w;
  e->requests++;
  e->running++;
  engine_turn_reset (&t, w);
  e->block->ops->submit (e->block, r, clock_ns ());
  if (e->leader == NULL || e->leader == &e->self) {
    t.kick_self = e->leader == &e->self;
    e->leader = w;
    lead = true;
  }
  else {
    TAILQ_INSERT_TAIL (&e->followers, w, entry);
    w->following = true;
  }
  engine_turn_end (e, &t);
  wait_done (e, &t, w, lead);
  waiter_put (e, w);
  return r->error;
}

void
engine_call (struct engine *e,
             void (*call) (struct block *b, void *opaque, uint64_t now_ns),
             void *opaque)
{
  struct turn t;

  engine_turn_begin (e, &t, NULL);
  call (e->block, opaque, clock_ns ());
  engine_turn_end (e, &t);
}

struct array_client *
engine_client_open (struct engine *e)
{
  struct array_client *c;

  pthread_mutex_lock (&e->lock);
  c = e->block->ops->client_open (e->block);
  pthread_mutex_unlock (&e->lock);
  return c;
}

void
engine_client_close (struct engine *e, struct array_client *c)
{
  pthread_mutex_lock (&e->lock);
  e->block->ops->client_close (e->block, c);
  pthread_mutex_unlock (&e->lock);
}

int
engine_run_alone (struct engine *e, struct array_request *r)
{
  int error;

  r->client = engine_client_open (e);
  error = engine_run (e, r);
  engine_client_close (e, r->client);
  return error;
}

bool
engine_ending (struct engine *e)
{
  return atomic_load (&e->ending);
}
