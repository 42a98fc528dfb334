/* hangup.c: lets nbdkit end although clients are connected.
 *
 * nbdkit tells a plugin neither the socket of a connection nor that it is
 * about to end.  The first is found by the peer's address, among the
 * descriptors of the process.  The second is learned from the signals that end
 * nbdkit: its handlers are called by ours.  (nbdkit_nanosleep knows too, but
 * says "error" on every ordinary end.  A filter that ends nbdkit by
 * nbdkit_shutdown is not noticed; then it is as if this file were not there.)
 */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "hangup.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hangup *connections;
static bool ending;  /* under lock */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* ending was set */

static pthread_t thread;
static bool started;
static int wake_fd = -1; /* an eventfd; readable: end or hangup_stop */
static atomic_bool stopping;

/* nbdkit's handlers, which ours stand before. */
static const int signals[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP };
#define SIGNALS (sizeof signals / sizeof signals[0])
static struct sigaction handlers[SIGNALS];
static bool replaced[SIGNALS];

/* The socket that is connected to the peer of the calling thread's client. */
static int
find_socket (void)
{
  struct sockaddr_storage peer, other;
  socklen_t peer_bytes = sizeof peer, other_bytes;
  struct dirent *entry;
  int found = -1;
  DIR *dir;

  memset (&peer, 0, sizeof peer);
  if (nbdkit_peer_name ((struct sockaddr *) &peer, &peer_bytes) == -1 ||
      peer.ss_family == AF_UNIX) /* clients have no names there */
    return -1;
  dir = opendir ("/proc/self/fd");
  if (dir == NULL)
    return -1;
  while (found == -1 && (entry = readdir (dir)) != NULL) {
    int fd = atoi (entry->d_name);

    other_bytes = sizeof other;
    memset (&other, 0, sizeof other);
    if (entry->d_name[0] != '.' &&
        getpeername (fd, (struct sockaddr *) &other, &other_bytes) == 0 &&
        other_bytes == peer_bytes && memcmp (&peer, &other, peer_bytes) == 0)
      found = fd;
  }
  closedir (dir);
  return found;
}

void
hangup_add (struct hangup *h)
{
  h->fd = find_socket ();
  pthread_mutex_lock (&lock);
  if (ending && h->fd != -1)
    shutdown (h->fd, SHUT_RD);
  h->next = connections;
  h->link = &connections;
  if (h->next)
    h->next->link = &h->next;
  connections = h;
  pthread_mutex_unlock (&lock);
}

void
hangup_remove (struct hangup *h)
{
  pthread_mutex_lock (&lock);
  *h->link = h->next;
  if (h->next)
    h->next->link = h->link;
  pthread_mutex_unlock (&lock);
}

/* Clients on a Unix socket have no names, but the sockets that nbdkit accepted
 * bear the name of the one that it listens on; none of our own has a name.
 */
static void
hang_up_unix (void)
{
  struct sockaddr_storage name;
  socklen_t bytes;
  struct dirent *entry;
  int listens;
  DIR *dir = opendir ("/proc/self/fd");

  while (dir && (entry = readdir (dir)) != NULL) {
    int fd = atoi (entry->d_name);

    bytes = sizeof name;
    if (entry->d_name[0] == '.' ||
        getsockname (fd, (struct sockaddr *) &name, &bytes) == -1 ||
        name.ss_family != AF_UNIX || bytes <= sizeof name.ss_family)
      continue;
    bytes = sizeof listens;
    if (getsockopt (fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 &&
        !listens)
      shutdown (fd, SHUT_RD);
  }
  if (dir)
    closedir (dir);
}

bool
hangup_wait (unsigned ms)
{
  struct timespec until;
  bool r;

  clock_gettime (CLOCK_REALTIME, &until);
  until.tv_nsec += (long) (ms % 1000) * 1000000;
  until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock (&lock);
  while (!ending && pthread_cond_timedwait (&ended, &lock, &until) == 0)
    ;
  r = ending;
  pthread_mutex_unlock (&lock);
  return r;
}

bool
hangup_ending (void)
{
  bool r;

  pthread_mutex_lock (&lock);
  r = ending;
  pthread_mutex_unlock (&lock);
  return r;
}

static void
wake (void)
{
  static const uint64_t one = 1;
  int saved = errno;
  ssize_t r = write (wake_fd, &one, sizeof one);

  (void) r; /* it is readable already */
  errno = saved;
}

static void
on_signal (int sig)
{
  wake ();
  for (size_t i = 0; i < SIGNALS; i++)
    if (signals[i] == sig)
      handlers[i].sa_handler (sig);
}

static void
replace_handlers (void)
{
  struct sigaction ours;

  for (size_t i = 0; i < SIGNALS; i++) {
    if (sigaction (signals[i], NULL, &handlers[i]) == -1 ||
        (handlers[i].sa_flags & SA_SIGINFO) ||
        handlers[i].sa_handler == SIG_DFL || handlers[i].sa_handler == SIG_IGN)
      continue;
    ours = handlers[i];
    ours.sa_handler = on_signal;
    replaced[i] = sigaction (signals[i], &ours, NULL) == 0;
  }
}

static void
restore_handlers (void)
{
  for (size_t i = 0; i < SIGNALS; i++)
    if (replaced[i])
      sigaction (signals[i], &handlers[i], NULL);
}

static void *
wait_for_end (void *opaque)
{
  uint64_t count;

  while (read (wake_fd, &count, sizeof count) == -1 && errno == EINTR)
    ;
  if (atomic_load (&stopping))
    return NULL;
  /* A connection that ends just now by itself may have closed its socket: from
   * here on nbdkit does not call close () any more.  The worst that can come
   * of it is that a connection which is being made meanwhile fails.
   */
  pthread_mutex_lock (&lock);
  ending = true;
  pthread_cond_broadcast (&ended);
  for (struct hangup *h = connections; h; h = h->next)
    if (h->fd != -1)
      shutdown (h->fd, SHUT_RD);
  hang_up_unix ();
  pthread_mutex_unlock (&lock);
  return NULL;
}

int
hangup_start (void)
{
  sigset_t all, old;
  int err;

  wake_fd = eventfd (0, EFD_CLOEXEC);
  if (wake_fd == -1) {
    nbdkit_error ("eventfd: %m");
    return -1;
  }
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  err = pthread_create (&thread, NULL, wait_for_end, NULL);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (err) {
    nbdkit_error ("no thread to wait for the end: %s", strerror (err));
    close (wake_fd);
    return -1;
  }
  started = true;
  replace_handlers ();
  return 0;
}

/* wake_fd stays open: a thread may be in our handler still. */
void
hangup_stop (void)
{
  if (!started)
    return;
  restore_handlers ();
  atomic_store (&stopping, true);
  wake ();
  pthread_join (thread, NULL);
  started = false;
}
