/* server.c: see server.h.
 *
 * This file finds out which process is at the other end of a connection.  The
 * socket may be systemd's, so its credentials do not help; the array process
 * has written its number to a file.  A new array process starts, and writes the
 * file, only after the old one has ended.  So: connect, read the file, then
 * have a request answered.  The process that answers was alive when the file
 * was read, so it is the process in the file.
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
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <libnbd.h>
#include <linux/nbd.h>

#include "common/refuse.h"
#include "common/strike.h"
#include "server.h"

/* The file and the socket are in a folder of the user of arrays, not of ours.  So no link
 * is followed, nothing is waited for, and no process of another user is believed to be
 * the array's.
 */

/* The number in the file, and the file's author.  -1 with errno. */
static int
pid_read (const char *pid_file, uid_t *user)
{
  int fd = open (pid_file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  int found = -1;
  char text[24];
  struct stat st;
  ssize_t n;

  if (fd == -1)
    return -1;
  if (fstat (fd, &st) == 0 && S_ISREG (st.st_mode) &&
      (n = read (fd, text, sizeof text - 1)) > 0) {
    text[n] = '\0';
    *user = st.st_uid;
    found = (int) strtol (text, NULL, 10);
  }
  close (fd);
  errno = ESRCH;
  return found > 0 ? found : -1;
}

/* The process whose number is in the file, or -1. */
static int
process_open (const char *pid_file, int *pid)
{
  char path[32];
  struct stat st;
  uid_t user;
  int fd;

  *pid = pid_read (pid_file, &user);
  if (*pid == -1)
    return -1;
  fd = pidfd_open (*pid, 0);
  snprintf (path, sizeof path, "/proc/%d", *pid);
  if (fd != -1 && (stat (path, &st) == -1 || st.st_uid != user)) {
    close (fd);
    errno = EPERM;
    return -1;
  }
  return fd;
}

/* The socket's address, whose path leads to this socket and to no other; the
 * caller closes *fd.
 */
static int
socket_find (const char *path, struct sockaddr_un *sun, int *fd)
{
  struct stat st;

  *fd = open (path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (*fd == -1)
    return -1;
  sun->sun_family = AF_UNIX;
  snprintf (sun->sun_path, sizeof sun->sun_path, "/proc/self/fd/%d", *fd);
  if (fstat (*fd, &st) == 0 && S_ISSOCK (st.st_mode))
    return 0;
  errno = ENOTSOCK;
  return -1;
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
  struct sockaddr_un sun = { 0 };
  struct nbd_handle *h;
  int64_t size, cookie;
  int r = -1, found = -1;

  s->process = -1;
  if (socket_find (socket_path, &sun, &found) == -1) {
    refuse (why, why_size, "%s: %s", socket_path, strerror (errno));
    if (found != -1)
      close (found);
    return -1;
  }
  h = nbd_create ();
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
  close (found);
  if (r == -1)
    strike_controls (why); /* libnbd's has words of the other end */
  if (r == -1 && s->process != -1)
    close (s->process);
  /* This ends the handle and says nothing to the other end. */
  nbd_close (h);
  return r;
}
