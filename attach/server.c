/* server.c: see server.h.
 *
 * Which process is at the other end?  The socket may be systemd's, so its
 * credentials tell nothing; the process has written its number to a file.  A
 * new one is started, and writes the file, only after the old one has ended.
 * So: connect, read the file, and then have a request answered.  What answers
 * was alive when the file was read, and is the process that the file names.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <libnbd.h>
#include <linux/nbd.h>

#include "server.h"

static int
fail (char *why, unsigned why_size, const char *what, const char *reason)
{
  snprintf (why, why_size, "%s: %s", what, reason);
  return -1;
}

/* The process whose number is in the file, or -1. */
static int
process_open (const char *pid_file, int *pid)
{
  FILE *f = fopen (pid_file, "re");
  int found = 0;

  if (f == NULL)
    return -1;
  if (fscanf (f, "%d", &found) != 1)
    found = 0;
  fclose (f);
  if (found <= 0) {
    errno = ESRCH;
    return -1;
  }
  *pid = found;
  return pidfd_open (found, 0);
}

static uint64_t
flags_of (struct nbd_handle *h)
{
  uint64_t flags = NBD_FLAG_HAS_FLAGS;

  if (nbd_is_read_only (h) == 1)
    flags |= NBD_FLAG_READ_ONLY;
  if (nbd_can_flush (h) == 1)
    flags |= NBD_FLAG_SEND_FLUSH;
  if (nbd_can_fua (h) == 1)
    flags |= NBD_FLAG_SEND_FUA;
  if (nbd_can_trim (h) == 1)
    flags |= NBD_FLAG_SEND_TRIM;
  if (nbd_can_multi_conn (h) == 1)
    flags |= NBD_FLAG_CAN_MULTI_CONN;
  return flags;
}

/* Is it done?  1, or -1: it never will be. */
static int
is_ready (struct nbd_handle *h, int64_t cookie)
{
  if (nbd_aio_is_dead (h) == 1 || nbd_aio_is_closed (h) == 1)
    return -1;
  if (cookie != -1)
    return nbd_aio_command_completed (h, (uint64_t) cookie);
  return nbd_aio_is_ready (h);
}

/* Until the handle is ready, or has that command's answer.  -1: never, or told
 * to stop.
 */
static int
wait_ready (struct nbd_handle *h, int64_t cookie, int stop)
{
  int r;

  while ((r = is_ready (h, cookie)) == 0) {
    unsigned direction = nbd_aio_get_direction (h);
    struct pollfd p[2] = {
      { .fd = nbd_aio_get_fd (h),
        .events = (direction & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
                  (direction & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0) },
      { .fd = stop, .events = POLLIN }
    };

    if (poll (p, 2, -1) == -1 || p[1].revents)
      return -1;
    if (direction & LIBNBD_AIO_DIRECTION_READ &&
        p[0].revents & (POLLIN | POLLHUP | POLLERR))
      nbd_aio_notify_read (h);
    else if (p[0].revents)
      nbd_aio_notify_write (h);
  }
  return r == 1 ? 0 : -1;
}

static int
connect_to (struct nbd_handle *h, const char *socket_path, int stop)
{
  struct sockaddr_un sun = { .sun_family = AF_UNIX };

  snprintf (sun.sun_path, sizeof sun.sun_path, "%s", socket_path);
  return nbd_aio_connect (h, (struct sockaddr *) &sun, sizeof sun) == -1
           ? -1
           : wait_ready (h, -1, stop);
}

static int
read_first (struct nbd_handle *h, void *block, size_t bytes, int stop)
{
  int64_t cookie = nbd_aio_pread (h, block, bytes, 0, NBD_NULL_COMPLETION, 0);

  return cookie == -1 ? -1 : wait_ready (h, cookie, stop);
}

/* The handle is ready, and the process of the file is to be found behind it. */
static int
take (struct nbd_handle *h, const char *pid_file, int stop, struct server *s,
      char *why, unsigned why_size)
{
  static char block[512]; /* outlives a handle that is closed early */
  int64_t size = nbd_get_size (h);

  s->process = process_open (pid_file, &s->pid);
  if (s->process == -1)
    return fail (why, why_size, pid_file, strerror (errno));
  /* The kernel knows simple replies only, which is what was agreed upon. */
  if (size < (int64_t) sizeof block ||
      read_first (h, block, sizeof block, stop) == -1) {
    close (s->process);
    return fail (why, why_size, "the array process", nbd_get_error ());
  }
  s->size = (uint64_t) size;
  s->flags = flags_of (h);
  s->socket = fcntl (nbd_aio_get_fd (h), F_DUPFD_CLOEXEC, 3);
  if (s->socket == -1) {
    close (s->process);
    return fail (why, why_size, "dup", strerror (errno));
  }
  return 0;
}

int
server_connect (const char *socket_path, const char *pid_file,
                const char *export, int stop, struct server *s, char *why,
                unsigned why_size)
{
  struct nbd_handle *h = nbd_create ();
  int r = -1;

  if (h == NULL || nbd_set_export_name (h, export) == -1 ||
      nbd_set_request_structured_replies (h, false) == -1 ||
      connect_to (h, socket_path, stop) == -1)
    fail (why, why_size, socket_path, nbd_get_error ());
  else
    r = take (h, pid_file, stop, s, why, why_size);
  /* This ends the handle and says nothing to the other end. */
  nbd_close (h);
  return r;
}
