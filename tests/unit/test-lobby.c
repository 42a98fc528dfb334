/* test-lobby.c: the clients that wait before a process's doors, and the clients inside.
 *
 * A guest is a connection over the loopback with a thread of its own, as in nbdkit.  The
 * thread calls the lobby as the plugin does, then obeys the client until the connection
 * ends.  The limit of descriptors makes the bounds small.  Where nbdkit would accept by
 * the lobby's function, the test does.
 */

#include <config.h>

#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "plugin/calls.h"
#include "common/clock.h"
#include "plugin/lobby.h"

/* 96 of these descriptors are kept, and each of 24 connections has 4. */
#define DESCRIPTORS 192
#define WAITING 8
#define INSIDE 16
#define GUESTS (LOBBY_INSIDE_MAX + 4)

/* ---- nbdkit's part. ---- */

static char said[256];
static int code;

void
nbdkit_error (const char *fmt, ...)
{
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (said, sizeof said, fmt, ap);
  va_end (ap);
}

void
nbdkit_set_error (int error)
{
  code = error;
}

static int (*accepts) (int, struct sockaddr *, socklen_t *, int);

bool
calls_replace (const char *object, const struct call *calls)
{
  assert (object[0] == '\0' && strcmp (calls[0].name, "accept4") == 0 &&
          calls[1].name == NULL);
  accepts =
    (int (*) (int, struct sockaddr *, socklen_t *, int)) calls[0].function;
  return true;
}

/* How often somebody looks at a socket. */
static atomic_uint looks;

int
getpeername (int fd, __SOCKADDR_ARG sa, socklen_t *restrict n)
{
  looks++;
  return (int) syscall (SYS_getpeername, fd, sa.__sockaddr__, n);
}

/* ---- Guests. ---- */

struct guest {
  struct sockaddr_storage peer; /* as nbdkit reports it */
  socklen_t bytes;
  int client, server;
  const char *node; /* of its certificate; NULL: it shows none */
  uint64_t session;
  bool reads;
  pthread_t thread;
};

static struct guest guests[GUESTS];
static unsigned count;

/* 'l', it opens an export; 'r', it closes that: 'y' or 'n' is the answer. */
static void *
serve (void *opaque)
{
  struct guest *g = opaque;
  char ask, answer;

  lobby_enter (&g->peer, g->bytes);
  answer = 'y';
  do {
    if (write (g->server, &answer, 1) != 1)
      break;
    if (read (g->server, &ask, 1) != 1)
      break;
    answer = 'y';
    if (ask == 'l' && lobby_leave (g->node) == -1)
      answer = 'n';
    else if (ask == 'l' && lobby_settle (g->session, g->reads) == -1) {
      lobby_return ();
      answer = 'n';
    }
    else if (ask == 'r')
      lobby_return ();
  } while (true);
  close (g->server);
  return NULL;
}

static bool
ask (struct guest *g, char what)
{
  char answer;

  assert (write (g->client, &what, 1) == 1 &&
          read (g->client, &answer, 1) == 1);
  return answer == 'y';
}

static struct guest *
begin (struct guest *g)
{
  char answer;

  g->node = NULL;
  g->session = 0;
  g->reads = false;
  assert (pthread_create (&g->thread, NULL, serve, g) == 0);
  assert (read (g->client, &answer, 1) == 1); /* it has entered */
  return g;
}

/* By 127.0.0.`host`; six: to a socket of IPv6, which names it in its own way; ours: the
 * lobby sees it accepted.
 */
static struct guest *
connects_by (unsigned host, bool six, bool ours)
{
  struct guest *g = &guests[count++];
  struct sockaddr_in from = { .sin_family = AF_INET };
  struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
  struct sockaddr_storage at;
  socklen_t n = sizeof at;
  int listener = socket (six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK,
                         0);

  assert (count <= GUESTS && listener != -1);
  from.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  if (six)
    assert (bind (listener, (struct sockaddr *) &any, sizeof any) == 0);
  else
    assert (bind (listener, (struct sockaddr *) &from, sizeof from) == 0);
  assert (listen (listener, 1) == 0);
  assert (getsockname (listener, (struct sockaddr *) &at, &n) == 0);
  g->client = socket (AF_INET, SOCK_STREAM, 0);
  from.sin_addr.s_addr = htonl (INADDR_LOOPBACK - 1 + host);
  assert (bind (g->client, (struct sockaddr *) &from, sizeof from) == 0);
  from.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  from.sin_port = six ? ((struct sockaddr_in6 *) &at)->sin6_port
                      : ((struct sockaddr_in *) &at)->sin_port;
  assert (connect (g->client, (struct sockaddr *) &from, sizeof from) == 0);
  memset (&g->peer, 0, sizeof g->peer);
  g->bytes = sizeof g->peer;
  g->server = (ours ? accepts : accept4) (
    listener, (struct sockaddr *) &g->peer, &g->bytes, SOCK_CLOEXEC);
  assert (g->server != -1);
  close (listener);
  return g;
}

static struct guest *
comes_by (unsigned host, bool six, bool ours)
{
  return begin (connects_by (host, six, ours));
}

static struct guest *
comes (unsigned host)
{
  return comes_by (host, false, true);
}

/* By no socket that the lobby finds: a client of a Unix socket, or of this address. */
static struct guest *
comes_with (const void *peer, socklen_t bytes)
{
  struct guest *g = &guests[count++];
  int pair[2];

  assert (count <= GUESTS && socketpair (AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  g->client = pair[0];
  g->server = pair[1];
  memset (&g->peer, 0, sizeof g->peer);
  memcpy (&g->peer, peer, bytes);
  g->bytes = bytes;
  return begin (g);
}

static struct guest *
comes_as (const char *address)
{
  struct sockaddr_in6 sa = { .sin6_family = AF_UNIX };

  if (address) {
    sa.sin6_family = AF_INET6;
    assert (inet_pton (AF_INET6, address, &sa.sin6_addr) == 1);
  }
  return comes_with (&sa, sizeof sa);
}

static struct guest *
comes_from (const struct sockaddr_vm *machine)
{
  return comes_with (machine, sizeof *machine);
}

/* Is the connection still there?  A refused connection is closed as soon as that is
 * decided. */
static bool
stays (const struct guest *g)
{
  struct pollfd p = { .fd = g->client, .events = POLLIN };

  return poll (&p, 1, 0) == 0;
}

static unsigned
staying (void)
{
  unsigned n = 0;

  for (unsigned i = 0; i < count; i++)
    n += stays (&guests[i]);
  return n;
}

static unsigned
descriptors (void)
{
  DIR *d = opendir ("/proc/self/fd");
  unsigned n = 0;

  while (readdir (d))
    n++;
  closedir (d);
  return n;
}

/* All go, and nothing is kept of them. */
static void
all_go (void)
{
  for (unsigned i = 0; i < count; i++) {
    close (guests[i].client);
    assert (pthread_join (guests[i].thread, NULL) == 0);
  }
  count = 0;
}

/* ---- Who comes. ---- */

/* Listens on the loopback; *at: where.  To accept where nobody is fails. */
static int
listens (struct sockaddr_in *at)
{
  socklen_t n = sizeof *at;
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

  *at = (struct sockaddr_in) { .sin_family = AF_INET };
  at->sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  assert (fd != -1 && bind (fd, (struct sockaddr *) at, sizeof *at) == 0 &&
          listen (fd, 4096) == 0 &&
          getsockname (fd, (struct sockaddr *) at, &n) == 0);
  return fd;
}

/* From 127.0.0.`host`, and goes again before it is accepted. */
static void
passes (const struct sockaddr_in *at, unsigned host)
{
  struct sockaddr_in from = { .sin_family = AF_INET };
  int fd = socket (AF_INET, SOCK_STREAM, 0);

  from.sin_addr.s_addr = htonl (INADDR_LOOPBACK - 1 + host);
  assert (fd != -1 && bind (fd, (struct sockaddr *) &from, sizeof from) == 0 &&
          connect (fd, (const struct sockaddr *) at, sizeof *at) == 0);
  close (fd);
}

/* Accepts all in the queue.  Returns how many of them came from this host. */
static unsigned
all_come (int listener, unsigned host)
{
  struct pollfd p = { .fd = listener, .events = POLLIN };
  unsigned of_host = 0;

  while (poll (&p, 1, 0) == 1) {
    struct sockaddr_in from;
    socklen_t n = sizeof from;
    int fd = accepts (listener, (struct sockaddr *) &from, &n, SOCK_CLOEXEC);

    assert (fd != -1);
    of_host += from.sin_addr.s_addr == htonl (INADDR_LOOPBACK - 1 + host);
    close (fd);
  }
  return of_host;
}

/* Many of one address: not faster than they may come, and nobody is refused. */
static void
test_pace (void)
{
  struct sockaddr_in at;
  int listener = listens (&at);
  const unsigned many = LOBBY_QUEUE_MAX / 2;
  uint64_t begin;

  for (unsigned i = 0; i < many; i++)
    passes (&at, 7);
  begin = clock_ns ();
  assert (all_come (listener, 7) == many);
  /* A tenth of them may have come at once. */
  assert (clock_ns () - begin >=
          many * 9 / 10 * (UINT64_C (1000000000) / LOBBY_ACCEPTS_S));
  close (listener);
}

/* More than that: a client of another address is admitted, even if that address has one
 * in five.
 */
static void
test_too_many (void)
{
  struct sockaddr_in at;
  int listener = listens (&at);
  const unsigned many = 2 * LOBBY_QUEUE_MAX;

  for (unsigned i = 0; i < many; i++)
    passes (&at, i % 5 == 4 ? 8 : 7);
  assert (all_come (listener, 8) == many / 5);
  for (unsigned i = 0; i < many; i++)
    passes (&at, 7);
  assert (all_come (listener, 7) < many * 9 / 10);
  close (listener);
}

/* ---- Who waits. ---- */

/* One address has half of the places, and its oldest makes room. */
static void
test_one_address (void)
{
  struct guest *other = comes (2), *first = comes (1);

  for (unsigned i = 1; i < WAITING / 2; i++)
    comes (1);
  assert (staying () == 1 + WAITING / 2);
  comes (1);
  assert (!stays (first) && staying () == 1 + WAITING / 2);
  for (unsigned i = 0; i < 2 * WAITING; i++)
    comes (1);
  assert (stays (other) && staying () == 1 + WAITING / 2);
  all_go ();
}

/* Where all places are taken, the oldest of the address that has most makes room. */
static void
test_all_places (void)
{
  struct guest *alone = comes (3), *most, *fewer = comes (2);

  most = comes (1);
  for (unsigned i = 1; i < WAITING / 2; i++)
    comes (1);
  for (unsigned i = 0; i < WAITING / 2 - 2; i++)
    comes (2);
  assert (staying () == WAITING);
  comes (4);
  assert (!stays (most) && staying () == WAITING);
  comes (5); /* now two have as many: the oldest of these */
  assert (!stays (fewer) && stays (alone) && staying () == WAITING);
  all_go ();
}

/* An address is the same, whichever way a socket of IPv6 names it. */
static void
test_mapped (void)
{
  struct guest *other = comes_by (2, true, true), *first = comes (1);

  for (unsigned i = 0; i < WAITING / 2; i++)
    comes_by (1, true, true);
  assert (!stays (first) && stays (other));
  assert (staying () == 1 + WAITING / 2);
  all_go ();
}

/* It is known which socket is whose without a look at any; or by a look at all. */
static void
test_sockets (bool ours)
{
  struct guest *other, *first;

  looks = 0;
  other = connects_by (2, false, ours);
  first = connects_by (1, false, ours);
  begin (other); /* the other thread was slower */
  begin (first);
  for (unsigned i = 0; i < WAITING / 2; i++)
    comes_by (1, false, ours);
  assert (!stays (first) && stays (other));
  assert (staying () == 1 + WAITING / 2);
  assert ((looks == 0) == ours);
  all_go ();
}

/* A client may take this long to open an export; the time that it has one open does not
 * count.
 */
static void
test_time (void)
{
  uint64_t begin = clock_ms (), entering_ms;
  struct guest *waits, *is_in, *was_in;

  waits = comes (1);
  is_in = comes (1);
  was_in = comes (2);
  assert (ask (is_in, 'l') && ask (was_in, 'l'));
  entering_ms = clock_ms () - begin;
  lobby_sweep (begin + LOBBY_OPEN_MS - 1);
  assert (staying () == 3);
  while (clock_ms () <= begin + 2 * entering_ms)
    usleep (1000);
  begin = clock_ms ();
  assert (ask (was_in, 'r'));
  lobby_sweep (begin - entering_ms + LOBBY_OPEN_MS - 1);
  assert (!stays (waits) && stays (is_in) && stays (was_in));
  lobby_sweep (clock_ms () + LOBBY_OPEN_MS);
  assert (stays (is_in) && !stays (was_in));
  all_go ();
}

/* A refused attempt to open an export gives no further time, and no place behind those
 * that have come since.
 */
static void
test_time_of_the_refused (void)
{
  uint64_t here, asks, refused;
  struct guest *first, *later;

  first = comes (1);
  here = clock_ms ();
  usleep (20000);
  later = comes (2);
  asks = clock_ms ();
  assert (ask (first, 'l') && ask (first, 'r'));
  refused = clock_ms ();
  lobby_sweep (here + LOBBY_OPEN_MS + refused - asks);
  assert (!stays (first));
  /* Where the machine is slow, the time of both may be over. */
  assert (stays (later) || refused - asks >= 20);
  all_go ();
}

/* ---- Who is inside. ---- */

static bool
refused (struct guest *g, const char *why)
{
  said[0] = '\0';
  code = 0;
  return !ask (g, 'l') && code == EMFILE && strstr (said, why);
}

/* Nobody is closed for somebody outside; an address has half of these places, too. */
static void
test_inside (void)
{
  struct guest *first = comes (1), *last, *other;

  assert (ask (first, 'l'));
  for (unsigned i = 1; i < INSIDE / 2; i++)
    assert (ask (comes (1), 'l'));
  last = comes (1);
  assert (refused (last, "from its address"));
  assert (ask (first, 'l')); /* it is in already */
  for (unsigned i = 0; i < 2 * WAITING; i++)
    comes (1);
  for (unsigned i = 0; i < INSIDE / 2; i++)
    assert (stays (&guests[i]));
  for (unsigned i = 0; i < INSIDE / 2; i++)
    assert (ask (comes (2), 'l'));
  other = comes (3);
  assert (refused (other, "in all"));
  /* Closing an export makes room. */
  assert (ask (first, 'r') && ask (other, 'l'));
  assert (refused (first, "in all"));
  all_go ();
}

/* Clients of a Unix socket count in all only, and none of them waits. */
static void
test_unix (void)
{
  for (unsigned i = 0; i < 2 * WAITING; i++)
    comes_as (NULL);
  lobby_sweep (clock_ms () + LOBBY_OPEN_MS);
  for (unsigned i = 0; i < INSIDE; i++)
    assert (ask (&guests[i], 'l'));
  assert (staying () == INSIDE);
  assert (refused (comes_as (NULL), "in all"));
  all_go ();
}

/* A host has as many addresses of IPv6 as it likes out of its network. */
static void
test_network (void)
{
  char address[64];

  for (unsigned i = 0; i < INSIDE / 2; i++) {
    snprintf (address, sizeof address, "2001:db8::%x:1", i);
    assert (ask (comes_as (address), 'l'));
  }
  assert (refused (comes_as ("2001:db8::9:9:9:9"), "from its address"));
  assert (ask (comes_as ("2001:db8:0:1::1"), 'l'));
  all_go ();
}

/* The machine at the other end of vsock is an address like others. */
static void
test_vsock (void)
{
  struct sockaddr_vm vm = { .svm_family = AF_VSOCK, .svm_cid = 3 };

  for (unsigned i = 0; i < INSIDE / 2; i++)
    assert (ask (comes_from (&vm), 'l'));
  assert (refused (comes_from (&vm), "from its address"));
  vm.svm_cid = 4;
  assert (ask (comes_from (&vm), 'l'));
  all_go ();
}

/* `host` is the address that it comes from. */
static struct guest *
comes_of (unsigned host, const char *node, bool reads)
{
  struct guest *g = comes (host);

  g->node = node;
  g->reads = reads;
  return g;
}

/* A node has half of the places, from however many addresses; and an address that two
 * nodes share is none of theirs.
 */
static void
test_node (void)
{
  for (unsigned i = 0; i < INSIDE / 2; i++)
    assert (ask (comes_of (1 + i % 3, "n1", false), 'l'));
  assert (refused (comes_of (9, "n1", false), "from its node n1"));
  assert (ask (comes_of (1, "n2", false), 'l'));
  all_go ();
}

/* Readers have half of the places, whichever nodes they are on: a writer finds one.  A
 * reader that is refused keeps no place.
 */
static void
test_readers (void)
{
  struct guest *reader = NULL;

  for (unsigned i = 0; i < INSIDE / 2; i++) {
    reader = comes_of (1, i % 2 ? "n1" : "n2", true);
    assert (ask (reader, 'l'));
  }
  for (unsigned i = 0; i < INSIDE; i++)
    assert (refused (comes_of (2, "n3", true), "read-only"));
  for (unsigned i = 0; i < INSIDE / 2; i++)
    assert (ask (comes_of (1, "n4", false), 'l'));
  assert (ask (reader, 'r'));
  assert (ask (comes_of (2, "n3", true), 'l'));
  all_go ();
}

/* A session gets `each` of `all` places, and so do the readers of a node.  The next client
 * is refused by that bound, not by another.
 */
static void
test_eighth (unsigned all, unsigned each)
{
  struct guest *g;

  for (unsigned i = 0; i <= each; i++) {
    g = comes_of (1, "n1", false);
    g->session = 7;
    assert (i < each ? ask (g, 'l') : refused (g, "of its session"));
  }
  g->session = 8;
  assert (ask (g, 'l'));
  for (unsigned i = 0; i < each; i++)
    assert (ask (comes_of (2, "n2", true), 'l'));
  g = comes_of (3, "n2", true);
  assert (refused (g, "read-only connections from n2"));
  g->reads = false;
  assert (ask (g, 'l'));
  assert (ask (comes_of (2, "n3", true), 'l'));
  /* The rest is there for others. */
  for (unsigned i = 2 * each + 3; i < all; i++)
    assert (ask (comes_as (NULL), 'l'));
  assert (refused (comes_as (NULL), "in all"));
  all_go ();
}

/* A process of its own: it shares out its places once. */
static void
in_a_process (rlim_t descriptors, unsigned all, unsigned each)
{
  struct rlimit limit = { descriptors, descriptors };
  pid_t pid = fork ();
  int status;

  assert (pid != -1);
  if (pid == 0) {
    assert (setrlimit (RLIMIT_NOFILE, &limit) == 0);
    lobby_begin ();
    test_eighth (all, each);
    _exit (0);
  }
  assert (waitpid (pid, &status, 0) == pid && status == 0);
}

int
main (void)
{
  struct rlimit limit = { .rlim_cur = DESCRIPTORS / 2,
                          .rlim_max = DESCRIPTORS };
  unsigned before = descriptors ();

  in_a_process (1024, 107, LOBBY_SESSION_MIN);
  in_a_process (4096, LOBBY_INSIDE_MAX, LOBBY_INSIDE_MAX / 8);
  assert (setrlimit (RLIMIT_NOFILE, &limit) == 0);
  lobby_begin ();
  assert (getrlimit (RLIMIT_NOFILE, &limit) == 0);
  assert (limit.rlim_cur == DESCRIPTORS);
  /* Twice: nobody is counted any more who has gone. */
  for (unsigned i = 0; i < 2; i++) {
    test_one_address ();
    test_all_places ();
    test_mapped ();
    test_sockets (true);
    test_sockets (false);
    test_time ();
    test_time_of_the_refused ();
    test_inside ();
    test_unix ();
    test_network ();
    test_vsock ();
    test_node ();
    test_readers ();
    test_pace ();
    test_too_many ();
  }
  assert (descriptors () == before);
  return 0;
}
