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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
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

/* The handle is ready, and the process of the file is to be found behind it. */
static int
take (struct nbd_handle *h, const char *pid_file, struct server *s, char *why,
      unsigned why_size)
{
  char block[512];
  int64_t size = nbd_get_size (h);

  s->process = process_open (pid_file, &s->pid);
  if (s->process == -1)
    return fail (why, why_size, pid_file, strerror (errno));
  /* The kernel knows simple replies only, which is what was agreed upon. */
  if (size < (int64_t) sizeof block ||
      nbd_pread (h, block, sizeof block, 0, 0) == -1) {
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
                const char *export, struct server *s, char *why,
                unsigned why_size)
{
  struct nbd_handle *h = nbd_create ();
  int r = -1;

  if (h == NULL || nbd_set_export_name (h, export) == -1 ||
      nbd_set_request_structured_replies (h, false) == -1 ||
      nbd_connect_unix (h, socket_path) == -1)
    fail (why, why_size, socket_path, nbd_get_error ());
  else
    r = take (h, pid_file, s, why, why_size);
  /* This ends the handle and says nothing to the other end. */
  nbd_close (h);
  return r;
}
