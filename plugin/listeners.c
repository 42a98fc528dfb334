/* listeners.c: the sockets that nbdkit listens on, and what it accepted.
 *
 * nbdkit keeps them to itself, so they are looked for among the descriptors of
 * the process.  Each is looked at through a duplicate: its number may be another
 * file's a moment later.
 */

#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "blackhole.h"
#include "listeners.h"
#include "reach.h"

/* nbdkit listens on one socket for each address of a name; systemd hands it 16
 * at most.
 */
#define LISTENERS_MAX 64

struct address {
  struct sockaddr_storage sa;
  socklen_t bytes;
};

/* Call this for each socket of the process, which is `number`; fd: its duplicate. */
static void
each_socket (void (*f) (int number, int fd, const struct address *local,
                        void *opaque),
             void *opaque)
{
  DIR *dir = opendir ("/proc/self/fd");
  struct dirent *entry;

  while (dir && (entry = readdir (dir)) != NULL) {
    struct address local = { .bytes = sizeof local.sa };
    int fd = -1;

    if (entry->d_name[0] != '.')
      fd = fcntl (atoi (entry->d_name), F_DUPFD_CLOEXEC, 0);
    if (fd == -1)
      continue;
    if (getsockname (fd, (struct sockaddr *) &local.sa, &local.bytes) == 0)
      f (atoi (entry->d_name), fd, &local, opaque);
    close (fd);
  }
  if (dir)
    closedir (dir);
}

struct listeners {
  struct address address[LISTENERS_MAX];
  int number[LISTENERS_MAX];
  unsigned count, accepted;
  int how;
};

/* The result of listeners_find, also of sockets that no longer listen. */
static struct listeners found;
/* An eventfd that takes their place: nobody ever comes. */
static int nobody_fd = -1;

static bool
listens (int fd)
{
  socklen_t bytes = sizeof (int);
  int r = 0;

  return getsockopt (fd, SOL_SOCKET, SO_ACCEPTCONN, &r, &bytes) == 0 && r;
}

static void
note_listener (int number, int fd, const struct address *local, void *opaque)
{
  struct listeners *l = opaque;

  if (l->count == LISTENERS_MAX || !listens (fd))
    return;
  l->number[l->count] = number;
  l->address[l->count++] = *local;
}

/* Was this connection accepted by that listener?  The port is the same whatever
 * address a client has used, and no connection that this process makes gets
 * that port.
 */
static bool
accepted_by (const struct address *a, const struct address *listener)
{
  if (a->sa.ss_family != listener->sa.ss_family)
    return false;
  switch (a->sa.ss_family) {
  case AF_INET:
    return ((const struct sockaddr_in *) &a->sa)->sin_port ==
           ((const struct sockaddr_in *) &listener->sa)->sin_port;
  case AF_INET6:
    return ((const struct sockaddr_in6 *) &a->sa)->sin6_port ==
           ((const struct sockaddr_in6 *) &listener->sa)->sin6_port;
  case AF_VSOCK:
    return ((const struct sockaddr_vm *) &a->sa)->svm_port ==
           ((const struct sockaddr_vm *) &listener->sa)->svm_port;
  case AF_UNIX:
    return a->bytes == listener->bytes &&
           memcmp (&a->sa, &listener->sa, a->bytes) == 0;
  }
  return false;
}

static bool
was_accepted (const struct listeners *l, int fd, const struct address *local)
{
  for (unsigned i = 0; i < l->count; i++)
    if (accepted_by (local, &l->address[i]) && !listens (fd))
      return true;
  return false;
}

static void
hang_up_one (int number, int fd, const struct address *local, void *opaque)
{
  struct listeners *l = opaque;

  if (!was_accepted (l, fd, local))
    return;
  shutdown (fd, l->how);
  l->accepted++;
}

static void
reset_one (int number, int fd, const struct address *local, void *opaque)
{
  struct listeners *l = opaque;

  if (!was_accepted (l, fd, local) || !blackhole_swallows (fd))
    return;
  blackhole_reset (fd);
  l->accepted++;
}

int
listeners_find (void)
{
  nobody_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  found.count = 0;
  each_socket (note_listener, &found);
  return nobody_fd == -1 ? -1 : 0;
}

/* A number that is another file's by now is left alone. */
void
listeners_close (void)
{
  int saved = errno;

  for (unsigned i = 0; i < found.count; i++)
    if (listens (found.number[i]))
      dup3 (nobody_fd, found.number[i], O_CLOEXEC);
  errno = saved;
}

unsigned
listeners_hang_up (int how)
{
  struct listeners l = found;

  l.how = how;
  each_socket (hang_up_one, &l);
  return l.accepted;
}

unsigned
listeners_reset_swallowed (void)
{
  struct listeners l = found;

  each_socket (reset_one, &l);
  return l.accepted;
}

bool
listeners_any (struct sockaddr_storage *exposed)
{
  struct listeners l = { .count = 0 };

  exposed->ss_family = AF_UNSPEC;
  each_socket (note_listener, &l);
  for (unsigned i = 0; i < l.count; i++)
    if (reach_outside (&l.address[i].sa))
      *exposed = l.address[i].sa;
  return l.count > 0;
}
