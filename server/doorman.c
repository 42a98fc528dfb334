/* doorman.c: see doorman.h.
 *
 * Connections are met in accept, which civetweb calls and which is ours: later
 * is too late, as a TLS handshake needs a thread already.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "doorman.h"
#include "log.h"
#include "quota.h"
#include "refusals.h"

/* Threads that are kept free, so that who is shut out ends at once. */
#define SPARE 64
/* At once all of 64 hosts, 512 disks and 100 sessions may be about to ask again,
 * and some pages; and as many fit in when others hold so many.
 */
#define WAITING_MAX 736
#define GUESTS_MAX 8192
/* Addresses and callers are counted by hashes of them. */
#define CROWDS 4096

struct guest {
  bool here, busy, out;
  bool known; /* `caller` is one whose connections are spared */
  int port;
  char address[64];
  unsigned crowd, caller;
  uint64_t since; /* it waits; ever larger */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guest guests[GUESTS_MAX]; /* by their sockets' numbers */
static int highest;
static unsigned waiting, busy;
static unsigned crowds[CROWDS]; /* of these networks, that wait, of which nobody
                                   knows whose they are */
static unsigned known[CROWDS];  /* connections of these callers */
static uint64_t turns;

static unsigned
hash (const char *text)
{
  unsigned h = 5381;

  for (; *text; text++)
    h = h * 33 + (unsigned char) *text;
  return h % CROWDS;
}

/* With the lock held: is it to go rather than the other? */
static bool
goes_first (const struct guest *g, const struct guest *other)
{
  if (g->known != other->known)
    return !g->known;
  if (!g->known && crowds[g->crowd] != crowds[other->crowd])
    return crowds[g->crowd] > crowds[other->crowd];
  return g->since < other->since;
}

/* With the lock held. */
static void
count_waiting (struct guest *g, int change)
{
  waiting += (unsigned) change;
  if (!g->known)
    crowds[g->crowd] += (unsigned) change;
}

/* With the lock held. */
static void
shut_out_one (void)
{
  int oldest = -1;

  for (int fd = 0; fd <= highest; fd++)
    if (guests[fd].here && !guests[fd].busy && !guests[fd].out &&
        (oldest == -1 || goes_first (&guests[fd], &guests[oldest])))
      oldest = fd;
  assert (oldest != -1);
  shutdown (oldest, SHUT_RDWR);
  guests[oldest].out = true;
  count_waiting (&guests[oldest], -1);
  if (refusals_first ("connections", guests[oldest].address))
    log_line (CLUSTER_WARNING,
              "closed a connection from %s that was silent, as there are very "
              "many (said once in a while)",
              guests[oldest].address);
}

static void
leave (struct guest *g)
{
  if (!g->here)
    return;
  g->here = false;
  if (g->busy)
    busy--;
  else if (!g->out)
    count_waiting (g, -1);
  if (g->known)
    known[g->caller]--;
}

/* Of IPv6 a host has as many addresses as it likes: its network. */
static unsigned
crowd_of (const char *address)
{
  struct caller from = { .role = ROLE_NOBODY };
  char key[QUOTA_KEY_BYTES];

  snprintf (from.address, sizeof from.address, "%.45s", address);
  quota_key (&from, key);
  return hash (key);
}

static unsigned threads;
static pthread_once_t threads_known = PTHREAD_ONCE_INIT;

static void
know_threads (void)
{
  const char *text = getenv ("WEFT_THREADS");
  unsigned long n = text ? strtoul (text, NULL, 10) : 0;

  threads = n > SPARE && n < DOORMAN_THREADS ? n : DOORMAN_THREADS;
}

unsigned
doorman_threads (void)
{
  pthread_once (&threads_known, know_threads);
  return threads;
}

static bool
admit (int fd, const struct sockaddr *from, socklen_t length)
{
  struct guest new = { .here = true };
  char port[8];

  if (fd >= GUESTS_MAX ||
      getnameinfo (from, length, new.address, sizeof new.address, port,
                   sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return false;
  new.port = atoi (port);
  new.crowd = crowd_of (new.address);
  pthread_mutex_lock (&lock);
  leave (&guests[fd]);
  while (waiting >= WAITING_MAX ||
         (waiting > 0 && waiting + busy >= doorman_threads () - SPARE))
    shut_out_one ();
  new.since = ++turns;
  guests[fd] = new;
  count_waiting (&guests[fd], 1);
  if (fd > highest)
    highest = fd;
  pthread_mutex_unlock (&lock);
  return true;
}

int accept (int fd, __SOCKADDR_ARG from, socklen_t *restrict length)
  __attribute__ ((visibility ("default")));

/* In place of the C library's. */
int
accept (int fd, __SOCKADDR_ARG from, socklen_t *restrict length)
{
  static const struct timespec moment = { .tv_nsec = 20000000 };
  struct sockaddr_storage address;
  socklen_t n = sizeof address, room = from.__sockaddr__ ? *length : 0;
  int new = accept4 (fd, (struct sockaddr *) &address, &n, SOCK_CLOEXEC);

  if (new == -1) {
    /* It would be called again at once. */
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
      nanosleep (&moment, NULL);
    return -1;
  }
  if (!admit (new, (struct sockaddr *) &address, n)) {
    close (new);
    errno = ECONNABORTED;
    return -1;
  }
  if (from.__sockaddr__) {
    memcpy (from.__sockaddr__, &address, n < room ? n : room);
    *length = n;
  }
  return new;
}

/* With the lock held. */
static struct guest *
guest_of (const struct mg_connection *conn)
{
  const struct mg_request_info *info = mg_get_request_info (conn);
  struct guest *g = mg_get_user_connection_data (conn);

  if (g)
    return g;
  for (int fd = 0; info && fd <= highest; fd++)
    if (guests[fd].here && guests[fd].port == info->remote_port &&
        strcmp (guests[fd].address, info->remote_addr) == 0)
      return &guests[fd];
  return NULL;
}

void
doorman_busy (struct mg_connection *conn, bool is_busy)
{
  struct guest *g;

  pthread_mutex_lock (&lock);
  g = guest_of (conn);
  if (g && !g->out && g->busy != is_busy) {
    g->busy = is_busy;
    g->since = ++turns;
    busy += is_busy ? 1 : -1u;
    count_waiting (g, is_busy ? -1 : 1);
  }
  pthread_mutex_unlock (&lock);
  mg_set_user_connection_data (conn, g);
}

void
doorman_know (struct mg_connection *conn, const struct caller *caller)
{
  char key[QUOTA_KEY_BYTES];
  struct guest *g;
  unsigned of;

  if (caller->role == ROLE_NOBODY)
    return;
  quota_key (caller, key);
  of = hash (key);
  pthread_mutex_lock (&lock);
  g = guest_of (conn);
  if (g && g->here && !g->known && known[of] < QUOTA_CONNECTIONS) {
    if (!g->busy && !g->out) /* it leaves the crowd */
      crowds[g->crowd]--;
    g->known = true;
    g->caller = of;
    known[of]++;
  }
  pthread_mutex_unlock (&lock);
}

void
doorman_end (const struct mg_connection *conn)
{
  struct guest *g;

  pthread_mutex_lock (&lock);
  g = guest_of (conn);
  if (g)
    leave (g);
  pthread_mutex_unlock (&lock);
}

void
doorman_end_fd (int fd)
{
  pthread_mutex_lock (&lock);
  if (fd >= 0 && fd < GUESTS_MAX)
    leave (&guests[fd]);
  pthread_mutex_unlock (&lock);
}

/* Accept no connection from now on, and read no further request. */
void
doorman_close (void)
{
  pthread_mutex_lock (&lock);
  for (int fd = 0; fd < GUESTS_MAX; fd++) {
    int listens = 0;
    socklen_t n = sizeof listens;

    if (guests[fd].here ||
        (getsockopt (fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 &&
         listens))
      shutdown (fd, SHUT_RD);
  }
  pthread_mutex_unlock (&lock);
}
