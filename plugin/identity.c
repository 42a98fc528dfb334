/* identity.c: see identity.h.
 *
 * The file is one line: "INSTANCE STARTS", and " FENCES USED" when they are
 * known.  The process that has locked the file replaces it as a whole: so the
 * file is never torn, and no two processes have the same number.  An empty file
 * is being made, and its content has not been used yet.  The file need not
 * outlive the kernel, because the device does not either.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "identity.h"

/* The file, open and locked; the former holder of the lock may have put another
 * there.
 */
static int
lock_file (const char *path)
{
  struct stat ours, there;
  int fd;

  for (;;) {
    fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd == -1)
      return -1;
    if (flock (fd, LOCK_EX) == -1 || fstat (fd, &ours) == -1) {
      close (fd);
      return -1;
    }
    if (stat (path, &there) == 0 && there.st_dev == ours.st_dev &&
        there.st_ino == ours.st_ino)
      return fd;
    close (fd);
  }
}

/* The file's content.  An empty one: 0 starts. */
static int
read_file (int fd, struct identity *id)
{
  char text[160];
  ssize_t n = pread (fd, text, sizeof text - 1, 0);
  int parts, read = 0;

  if (n == -1)
    return -1;
  if (n == 0) {
    id->starts = 0;
    return 0;
  }
  text[n] = '\0';
  _Static_assert (PROCESS_INSTANCE_BYTES == 33, "the width below");
  parts = sscanf (text, "%32[0-9a-f] %" SCNu64 " %" SCNu64 " %" SCNu64 " %n",
                  id->instance, &id->starts, &id->fences, &id->used, &read);
  id->known = parts >= 3; /* an older client knew nothing of USED */
  if (text[n - 1] == '\n' && parts >= 2 && (parts < 4 || read == n) &&
      strlen (id->instance) == PROCESS_INSTANCE_BYTES - 1 && id->starts > 0 &&
      id->starts < UINT32_MAX)
    return 0;
  errno = EINVAL;
  return -1;
}

/* In the place of the file, which is locked. */
static int
replace_file (const struct identity *id)
{
  char path[PATH_MAX];
  bool ok;
  FILE *f;

  if (snprintf (path, sizeof path, "%s.new", id->path) >= (int) sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  f = fopen (path, "we");
  if (f == NULL)
    return -1;
  ok = fprintf (f, "%s %" PRIu64, id->instance, id->starts) > 0 &&
       (!id->known ||
        fprintf (f, " %" PRIu64 " %" PRIu64, id->fences, id->used) > 0) &&
       fputc ('\n', f) != EOF;
  ok = fclose (f) == 0 && ok;
  return ok ? rename (path, id->path) : -1;
}

/* Take the lock off, and say what failed. */
static int
end (const struct identity *id, int fd, int r)
{
  if (r == -1)
    nbdkit_error (
      "client=%s: %m%s", id->path,
      errno == EINVAL
        ? "; detach the device, remove the file, and start this process again"
        : "");
  if (fd != -1)
    close (fd);
  return r;
}

int
identity_take (struct identity *id, const char *path)
{
  int fd = -1, r;

  memset (id, 0, sizeof *id);
  id->path = path;
  if (path) {
    fd = lock_file (path);
    if (fd == -1 || read_file (fd, id) == -1)
      return end (id, fd, -1);
  }
  if (id->starts == 0 && process_draw_instance (id->instance) == -1) {
    nbdkit_error ("the kernel gives no random bytes: %m");
    end (id, fd, 0);
    return -1;
  }
  id->starts++;
  r = path ? replace_file (id) : 0;
  return end (id, fd, r);
}

int
identity_keep (const struct identity *id)
{
  struct identity there = { .path = id->path };
  bool anew;
  int fd, r;

  if (id->path == NULL)
    return 0;
  fd = lock_file (id->path);
  r = fd == -1 ? -1 : read_file (fd, &there);
  anew = r == 0 && there.starts == 0;
  if (anew)
    r = replace_file (id);
  else if (r == 0 && id->known && !there.known &&
           strcmp (there.instance, id->instance) == 0) {
    there.known = true;
    there.fences = id->fences;
    r = replace_file (&there);
  }
  r = end (id, fd, r);
  return r == 0 && anew ? 1 : r;
}

int
identity_keep_used (const struct identity *id)
{
  struct identity there = { .path = id->path };
  int fd, r;

  if (id->path == NULL)
    return 0;
  fd = lock_file (id->path);
  r = fd == -1 ? -1 : read_file (fd, &there);
  if (r == 0 && there.known && strcmp (there.instance, id->instance) == 0) {
    there.used = id->used;
    r = replace_file (&there);
  }
  else if (r == 0 && there.starts == 0)
    unlink (id->path); /* the device was detached */
  return end (id, fd, r);
}
