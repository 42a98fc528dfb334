/* lobby.c: see lobby.h.
 *
 * nbdkit calls a plugin when a client has connected (preconnect) and when the
 * client opens an export, both on the connection's own thread.  If a client
 * disconnects without opening an export, nbdkit makes no call: then the
 * thread's end releases the data here.
 *
 * nbdkit does not say which socket a connection has.  So accept4 is intercepted
 * (calls.c), and its sockets are found by the address of the peer.  (If it
 * can't be intercepted, all sockets are searched.) A duplicate is kept, because
 * the number alone may belong to another connection later.
 */

#include <config.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include <bsd/sys/queue.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "calls.h"
#include "common/clock.h"
#include "lobby.h"

/* More than these a process hardly needs, and it raises its limit no further. */
#define DESCRIPTORS_MAX 65536

/* Descriptors for the process itself: members' connections, the disk, weftd. */
#define DESCRIPTORS_KEPT 384

/* nbdkit's socket and its pipe, and our duplicate. */
#define DESCRIPTORS_EACH 4

/* A socket is looked for among so many numbers. */
#define NUMBERS_MAX 8192

/* So many may be accepted before the thread of the first begins. */
#define ACCEPTED_MAX 256

/* One comes in this time; so many may come at once after a pause; and so many are refused
 * for each that comes.
 */
#define EACH_NS (1000000000 / LOBBY_ACCEPTS_S)
#define ACCEPTS_AT_ONCE 8
#define REFUSED_AT_ONCE 5

/* Of so many that came last it is known whose they were. */
#define CAME_MAX 64

/* Whose connections count together: an address, of IPv6 its /64. */
struct origin {
  sa_family_t family; /* AF_UNSPEC: by a Unix socket, and not looked at */
  uint8_t bytes[8];
};

struct caller {
  TAILQ_ENTRY (caller) link; /* of `waiting` or `inside` */
  struct origin origin;
  struct share share; /* in `places` while it is inside */
  uint64_t since_ms;  /* it has connected, and then the time inside is added */
  uint64_t inside_ms; /* since when it is inside */
  int fd;             /* -1: not found */
  unsigned look;      /* of longest_waiting_of_most: its origin is counted */
  enum { NOWHERE, WAITS, INSIDE } state;
};
TAILQ_HEAD (callers, caller);

static pthread_mutex_t lock =
  PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct callers waiting = TAILQ_HEAD_INITIALIZER (
  waiting); /* oldest first */
static struct callers inside = TAILQ_HEAD_INITIALIZER (inside);
static struct shares places;
static unsigned waiting_count;
static unsigned waiting_max = LOBBY_WAITING_MAX;

static struct {
  struct sockaddr_storage peer;
  socklen_t bytes; /* 0: nobody, or it was found */
  int fd;
} accepted[ACCEPTED_MAX];
static unsigned accepted_count; /* the newest is before this place */

static pthread_key_t key; /* the thread's caller */

/*----- Origins -----*/

static struct origin
origin_of (const struct sockaddr_storage *sa)
{
  struct origin o = { .family = AF_UNSPEC };

  if (sa->ss_family == AF_INET) {
    o.family = AF_INET;
    memcpy (o.bytes, &((const struct sockaddr_in *) sa)->sin_addr, 4);
  }
  else if (sa->ss_family == AF_INET6) {
    const struct in6_addr *a = &((const struct sockaddr_in6 *) sa)->sin6_addr;
    bool mapped = IN6_IS_ADDR_V4MAPPED (a);

    o.family = mapped ? AF_INET : AF_INET6;
    memcpy (o.bytes, a->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
  }
  else if (sa->ss_family == AF_VSOCK) {
    o.family = AF_VSOCK;
    memcpy (o.bytes, &((const struct sockaddr_vm *) sa)->svm_cid, 4);
  }
  else if (sa->ss_family != AF_UNIX)
    o.family = sa->ss_family;
  return o;
}

/* Its name for the places.  No node has a point or a colon in its name. */
static void
origin_name (const struct origin *o, char name[NAME_BYTES_MAX + 1])
{
  uint8_t network[16] = { 0 };
  uint32_t machine;

  memcpy (network, o->bytes, sizeof o->bytes);
  memcpy (&machine, o->bytes, sizeof machine);
  name[0] = '\0';
  if (o->family == AF_INET || o->family == AF_INET6)
    inet_ntop (o->family, network, name, NAME_BYTES_MAX);
  else if (o->family != AF_UNSPEC)
    snprintf (name, NAME_BYTES_MAX, "%d:%" PRIu32, o->family, machine);
}

static bool
same (const struct origin *a, const struct origin *b)
{
  return a->family == b->family &&
         memcmp (a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static unsigned
count_of (const struct origin *origin, const struct callers *list)
{
  unsigned count = 0;
  struct caller *c;

  TAILQ_FOREACH (c, list, link)
    count += same (&c->origin, origin);
  return count;
}

/*----- Sockets -----*/

static bool
is_of (int fd, const struct sockaddr_storage *peer, socklen_t bytes)
{
  struct sockaddr_storage sa;
  socklen_t n = sizeof sa;

  return getpeername (fd, (struct sockaddr *) &sa, &n) == 0 && n == bytes &&
         memcmp (&sa, peer, n) == 0;
}

/* Sleep until the next one may come: the thread that accepts, and the many that
 * it would make, had the processor for milliseconds together while admitted
 * clients waited for it.
 */
static void
take_turn (void)
{
  static uint64_t next_ns; /* of the one thread that accepts */
  uint64_t now = clock_ns ();
  struct timespec left = { 0 };

  if (now > next_ns + ACCEPTS_AT_ONCE * EACH_NS)
    next_ns = now - ACCEPTS_AT_ONCE * EACH_NS;
  else if (now < next_ns) {
    left.tv_nsec = (long) (next_ns - now);
    nanosleep (&left, NULL);
  }
  next_ns += EACH_NS;
}

/* Is it of the address with the most recent arrivals, while very many wait in
 * the kernel's queue?  Then it is refused, for the sake of those behind it.
 */
static bool
is_too_much (int listener, const struct sockaddr_storage *peer)
{
  static struct origin came[CAME_MAX]; /* of the one thread that accepts */
  static unsigned came_count;
  struct origin *o = &came[came_count++ % CAME_MAX];
  struct tcp_info info;
  socklen_t n = sizeof info;
  unsigned alike = 0;

  *o = origin_of (peer);
  for (unsigned i = 0; i < CAME_MAX; i++)
    alike += same (&came[i], o);
  /* For a listening socket it is the length of its queue. */
  return o->family != AF_UNSPEC && alike > CAME_MAX / 2 &&
         getsockopt (listener, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 &&
         info.tcpi_unacked >= LOBBY_QUEUE_MAX;
}

/* In place of nbdkit's, which accepts on one thread. */
static int
our_accept4 (int listener, struct sockaddr *peer, socklen_t *bytes, int flags)
{
  static const struct linger reset = { .l_onoff = 1 }; /* the cheapest end */
  struct sockaddr_storage sa;
  socklen_t n = sizeof sa;
  unsigned i, refused = 0;
  int fd;

  take_turn ();
  while ((fd = accept4 (listener, (struct sockaddr *) &sa, &n, flags)) != -1 &&
         refused < REFUSED_AT_ONCE && is_too_much (listener, &sa)) {
    setsockopt (fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close (fd);
    refused++;
    n = sizeof sa;
  }
  if (fd == -1)
    return -1;
  if (peer) {
    memcpy (peer, &sa, n < *bytes ? n : *bytes);
    *bytes = n;
  }
  pthread_mutex_lock (&lock);
  i = accepted_count++ % ACCEPTED_MAX;
  accepted[i].peer = sa;
  accepted[i].bytes = n;
  accepted[i].fd = fd;
  pthread_mutex_unlock (&lock);
  return fd;
}

/* The socket with this peer, as it was accepted; it is open until the thread that asks
 * ends.  -1: it was not noted.
 */
static int
find_accepted (const struct sockaddr_storage *peer, socklen_t bytes)
{
  int fd = -1;

  pthread_mutex_lock (&lock);
  for (unsigned i = 1; fd == -1 && i <= ACCEPTED_MAX; i++) {
    unsigned k = (accepted_count - i) % ACCEPTED_MAX;

    if (accepted[k].bytes != bytes ||
        memcmp (&accepted[k].peer, peer, bytes) != 0)
      continue;
    fd = accepted[k].fd;
    accepted[k].bytes = 0;
  }
  pthread_mutex_unlock (&lock);
  return fd;
}

/* A duplicate of the socket with this peer, or -1. The kernel gives the lowest
 * free number: a connection that was just accepted is near the number that it
 * would give now.
 */
static int
find_socket (const struct sockaddr_storage *peer, socklen_t bytes)
{
  int near, fd = find_accepted (peer, bytes);

  if (fd != -1)
    return fcntl (fd, F_DUPFD_CLOEXEC, 0);
  near = fcntl (STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  if (near != -1)
    close (near);
  for (int i = 0; i < 2 * NUMBERS_MAX; i++) {
    int number = i % 2 ? near + i / 2 : near - i / 2;

    if (number < 0 || number >= NUMBERS_MAX || !is_of (number, peer, bytes))
      continue;
    fd = fcntl (number, F_DUPFD_CLOEXEC, 0);
    if (fd != -1 && is_of (fd, peer, bytes))
      return fd;
    if (fd != -1)
      close (fd);
  }
  return -1;
}

/*----- Coming and going; under the lock -----*/

static void
take_out (struct caller *c)
{
  if (c->state == WAITS) {
    TAILQ_REMOVE (&waiting, c, link);
    waiting_count--;
  }
  else if (c->state == INSIDE) {
    TAILQ_REMOVE (&inside, c, link);
    shares_remove (&c->share);
  }
  c->state = NOWHERE;
}

/* The list is in order of since_ms, also when a client comes back. */
static void
let_wait (struct caller *c)
{
  struct caller *before = TAILQ_LAST (&waiting, callers);

  while (before && before->since_ms > c->since_ms)
    before = TAILQ_PREV (before, callers, link);
  c->state = WAITS;
  if (before)
    TAILQ_INSERT_AFTER (&waiting, before, c, link);
  else
    TAILQ_INSERT_HEAD (&waiting, c, link);
  waiting_count++;
}

/* Its thread finds the end of the connection, and ends. */
static void
send_away (struct caller *c)
{
  take_out (c);
  shutdown (c->fd, SHUT_RDWR);
}

static struct caller *
longest_waiting_of (const struct origin *origin)
{
  struct caller *c;

  TAILQ_FOREACH (c, &waiting, link)
    if (same (&c->origin, origin))
      break;
  return c;
}

/* The oldest of the origin that has most. */
static struct caller *
longest_waiting_of_most (void)
{
  static unsigned looks;
  struct caller *c, *d, *found = NULL;
  unsigned most = 0, count;

  looks++;
  TAILQ_FOREACH (c, &waiting, link) {
    if (c->look == looks)
      continue;
    count = 0;
    for (d = c; d; d = TAILQ_NEXT (d, link))
      if (same (&d->origin, &c->origin)) {
        d->look = looks;
        count++;
      }
    if (count > most) {
      most = count;
      found = c;
    }
  }
  return found;
}

/* The thread of a connection ends. */
static void
gone (void *opaque)
{
  struct caller *c = opaque;

  pthread_mutex_lock (&lock);
  take_out (c);
  pthread_mutex_unlock (&lock);
  if (c->fd != -1)
    close (c->fd);
  free (c);
}

/*----- What nbdkit's calls do -----*/

/* One session, or a node's readers, may have an eighth of the places, but no fewer than a
 * session needs that connects again before its former connections have ended.
 */
static void
set_places (unsigned all)
{
  unsigned each = all / 8 < LOBBY_SESSION_MIN ? LOBBY_SESSION_MIN : all / 8;

  places.max[SHARES_ALL] = all;
  places.max[SHARES_NAME] = places.max[SHARES_READERS] = (all + 1) / 2;
  places.max[SHARES_READER] = places.max[SHARES_SESSION] = each;
}

/* Share out what the limit leaves. */
static void
set_bounds (rlim_t descriptors)
{
  rlim_t kept = descriptors / 2 < DESCRIPTORS_KEPT ? descriptors / 2
                                                   : DESCRIPTORS_KEPT;
  rlim_t all = (descriptors - kept) / DESCRIPTORS_EACH;

  if (all / 3 < waiting_max)
    waiting_max = all / 3;
  if (all - waiting_max < LOBBY_INSIDE_MAX)
    set_places (all - waiting_max);
}

void
lobby_begin (void)
{
  static const struct call calls[] = { { "accept4", our_accept4 }, { NULL } };
  struct rlimit limit;

  set_places (LOBBY_INSIDE_MAX);
  calls_replace ("", calls);
  if (pthread_key_create (&key, gone) != 0)
    abort ();
  if (getrlimit (RLIMIT_NOFILE, &limit) == -1)
    return;
  if (limit.rlim_cur < DESCRIPTORS_MAX && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS_MAX ? limit.rlim_max
                                                      : DESCRIPTORS_MAX;
    if (setrlimit (RLIMIT_NOFILE, &limit) == -1)
      getrlimit (RLIMIT_NOFILE, &limit);
  }
  set_bounds (limit.rlim_cur);
}

void
lobby_enter (const struct sockaddr_storage *peer, socklen_t bytes)
{
  struct caller *c = pthread_getspecific (key), *goes = NULL;

  if (c == NULL)
    c = calloc (1, sizeof *c);
  if (c == NULL || pthread_setspecific (key, c) != 0)
    return;
  c->origin = origin_of (peer);
  c->fd = c->origin.family == AF_UNSPEC ? -1 : find_socket (peer, bytes);
  if (c->fd == -1)
    return;
  pthread_mutex_lock (&lock);
  c->since_ms = clock_ms ();
  let_wait (c);
  if (count_of (&c->origin, &waiting) > (waiting_max + 1) / 2)
    goes = longest_waiting_of (&c->origin);
  else if (waiting_count > waiting_max)
    goes = longest_waiting_of_most ();
  if (goes)
    send_away (goes);
  pthread_mutex_unlock (&lock);
}

static void
put_in (struct caller *c)
{
  take_out (c);
  c->state = INSIDE;
  c->inside_ms = clock_ms ();
  TAILQ_INSERT_TAIL (&inside, c, link);
  shares_add (&places, &c->share);
}

static void
say_full (enum shares_bound bound, const struct share *s)
{
  bool address = strpbrk (s->name, ".:") != NULL;

  switch (bound) {
  case SHARES_FIT:
  case SHARES_ALL:
    nbdkit_error ("a client is refused: there are too many connections in all; "
                  "close unused ones");
    break;
  case SHARES_NAME:
    nbdkit_error ("a client is refused: there are too many connections from "
                  "its %s %s; close unused ones",
                  address ? "address" : "node", s->name);
    break;
  case SHARES_READERS:
    nbdkit_error (
      "a client is refused: there are too many read-only connections, and the "
      "rest is reserved for writers; close unused ones");
    break;
  case SHARES_READER:
    nbdkit_error ("a client is refused: there are too many read-only "
                  "connections from %s; close unused ones",
                  s->name);
    break;
  case SHARES_SESSION:
    nbdkit_error ("a client is refused: there are too many connections of its "
                  "session %016" PRIx64 "; close unused ones",
                  s->session);
    break;
  }
  nbdkit_set_error (EMFILE);
}

int
lobby_leave (const char *node)
{
  struct caller *c = pthread_getspecific (key);
  enum shares_bound full = SHARES_FIT;

  if (c == NULL)
    return 0;
  pthread_mutex_lock (&lock);
  if (c->state != INSIDE) {
    c->share = (struct share) { .amount = 1 };
    if (node)
      snprintf (c->share.name, sizeof c->share.name, "%s", node);
    else
      origin_name (&c->origin, c->share.name);
    full = shares_check (&places, &c->share);
    if (full == SHARES_FIT)
      put_in (c);
  }
  pthread_mutex_unlock (&lock);
  if (full == SHARES_FIT)
    return 0;
  say_full (full, &c->share);
  return -1;
}

int
lobby_settle (uint64_t session, bool reads)
{
  struct caller *c = pthread_getspecific (key);
  enum shares_bound full;

  if (c == NULL || c->state != INSIDE)
    return 0;
  pthread_mutex_lock (&lock);
  shares_remove (&c->share);
  c->share.session = session;
  c->share.reads = reads;
  full = shares_check (&places, &c->share);
  shares_add (&places, &c->share);
  pthread_mutex_unlock (&lock);
  if (full == SHARES_FIT)
    return 0;
  say_full (full, &c->share);
  return -1;
}

struct share
lobby_share (const struct caller *c)
{
  struct share share;

  pthread_mutex_lock (&lock);
  share = c->share;
  pthread_mutex_unlock (&lock);
  return share;
}

void
lobby_return (void)
{
  struct caller *c = pthread_getspecific (key);

  if (c == NULL)
    return;
  pthread_mutex_lock (&lock);
  if (c->state == INSIDE) {
    take_out (c);
    c->since_ms += clock_ms () - c->inside_ms;
    if (c->fd != -1)
      let_wait (c);
  }
  pthread_mutex_unlock (&lock);
}

struct caller *
lobby_caller (void)
{
  return pthread_getspecific (key);
}

/* Its thread finds the end, and takes it out. */
void
lobby_hang_up (const struct caller *c)
{
  const struct caller *there;

  pthread_mutex_lock (&lock);
  TAILQ_FOREACH (there, &inside, link)
    if (there == c && c->fd != -1)
      shutdown (c->fd, SHUT_RDWR);
  pthread_mutex_unlock (&lock);
}

void
lobby_sweep (uint64_t now_ms)
{
  struct caller *c;

  pthread_mutex_lock (&lock);
  while ((c = TAILQ_FIRST (&waiting)) != NULL &&
         now_ms >= c->since_ms + LOBBY_OPEN_MS)
    send_away (c);
  pthread_mutex_unlock (&lock);
}
