/* hangup.c: lets nbdkit end although clients are connected.
 *
 * nbdkit tells a plugin neither the socket of a connection nor that it is
 * about to end.  The first is found by the peer's address, among the
 * descriptors of the process; the second by nbdkit_nanosleep, which fails then.
 */

#include <config.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "hangup.h"

#define LOOK_MS 250

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hangup *connections;
static bool ending; /* under lock */

static pthread_t thread;
static bool started;
static atomic_bool stopping, is_ending;

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
hangup_ending (void)
{
  return atomic_load (&is_ending);
}

static void *
wait_for_end (void *opaque)
{
  while (!atomic_load (&stopping))
    if (nbdkit_nanosleep (0, LOOK_MS * 1000000) == -1)
      break;
  /* A connection that ends just now by itself may have closed its socket: from
   * here on nbdkit does not call close () any more.  The worst that can come
   * of it is that a connection which is being made meanwhile fails.
   */
  pthread_mutex_lock (&lock);
  ending = true;
  for (struct hangup *h = connections; h; h = h->next)
    if (h->fd != -1)
      shutdown (h->fd, SHUT_RD);
  hang_up_unix ();
  pthread_mutex_unlock (&lock);
  atomic_store (&is_ending, true);
  return NULL;
}

int
hangup_start (void)
{
  sigset_t all, old;
  int err;

  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  err = pthread_create (&thread, NULL, wait_for_end, NULL);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (err) {
    nbdkit_error ("no thread to wait for the end: %s", strerror (err));
    return -1;
  }
  started = true;
  return 0;
}

void
hangup_stop (void)
{
  if (!started)
    return;
  atomic_store (&stopping, true);
  pthread_join (thread, NULL);
  started = false;
}
