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
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <libnbd.h>
#include <linux/nbd.h>

#include "common/refuse.h"
#include "server.h"

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

/* Until the handle is ready, or has that command's answer.  -1: never, or told
 * to stop.
 */
static int
wait_ready (struct nbd_handle *h, int64_t cookie, int stop)
{
  while (nbd_aio_is_dead (h) != 1 && nbd_aio_is_closed (h) != 1) {
    unsigned direction = nbd_aio_get_direction (h);
    int done = cookie == -1 ? nbd_aio_is_ready (h)
                            : nbd_aio_command_completed (h, (uint64_t) cookie);
    struct pollfd p[2] = {
      { .fd = nbd_aio_get_fd (h),
        .events = (direction & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
                  (direction & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0) },
      { .fd = stop, .events = POLLIN }
    };

    if (done)
      return done == 1 ? 0 : -1;
    if (poll (p, 2, -1) == -1 || p[1].revents)
      return -1;
    if (direction & LIBNBD_AIO_DIRECTION_READ &&
        p[0].revents & (POLLIN | POLLHUP | POLLERR))
      nbd_aio_notify_read (h);
    else if (p[0].revents)
      nbd_aio_notify_write (h);
  }
  return -1;
}

int
server_connect (const char *socket_path, const char *pid_file,
                const char *export, int stop, struct server *s, char *why,
                unsigned why_size)
{
  static char block[512]; /* outlives a handle that is closed early */
  struct sockaddr_un sun = { .sun_family = AF_UNIX };
  struct nbd_handle *h = nbd_create ();
  int64_t size, cookie;
  int r = -1;

  snprintf (sun.sun_path, sizeof sun.sun_path, "%s", socket_path);
  s->process = -1;
  if (h == NULL || nbd_set_export_name (h, export) == -1 ||
      /* The kernel knows simple replies only. */
      nbd_set_request_structured_replies (h, false) == -1 ||
      nbd_aio_connect (h, (struct sockaddr *) &sun, sizeof sun) == -1 ||
      wait_ready (h, -1, stop) == -1) {
    refuse (why, why_size, "%s: %s", socket_path, nbd_get_error ());
    goto out;
  }
  s->process = process_open (pid_file, &s->pid);
  if (s->process == -1) {
    refuse (why, why_size, "%s: %s", pid_file, strerror (errno));
    goto out;
  }
  size = nbd_get_size (h);
  if (size < (int64_t) sizeof block ||
      (cookie = nbd_aio_pread (h, block, sizeof block, 0, NBD_NULL_COMPLETION,
                               0)) == -1 ||
      wait_ready (h, cookie, stop) == -1) {
    refuse (why, why_size, "the array process: %s", nbd_get_error ());
    goto out;
  }
  s->size = (uint64_t) size;
  s->flags = NBD_FLAG_HAS_FLAGS;
  if (nbd_is_read_only (h) == 1)
    s->flags |= NBD_FLAG_READ_ONLY;
  if (nbd_can_flush (h) == 1)
    s->flags |= NBD_FLAG_SEND_FLUSH;
  if (nbd_can_fua (h) == 1)
    s->flags |= NBD_FLAG_SEND_FUA;
  if (nbd_can_trim (h) == 1)
    s->flags |= NBD_FLAG_SEND_TRIM;
  if (nbd_can_multi_conn (h) == 1)
    s->flags |= NBD_FLAG_CAN_MULTI_CONN;
  s->socket = fcntl (nbd_aio_get_fd (h), F_DUPFD_CLOEXEC, 3);
  if (s->socket == -1)
    refuse (why, why_size, "dup: %s", strerror (errno));
  else
    r = 0;
out:
  if (r == -1 && s->process != -1)
    close (s->process);
  /* This ends the handle and says nothing to the other end. */
  nbd_close (h);
  return r;
}
