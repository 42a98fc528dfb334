/* folder.c: see folder.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "refuse.h"

#define LINKS_MAX 40
#define FOLDER_FLAGS (O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* May users other than root and ours write to it?  The group of this process counts as
 * ours: many systems give each user a group.  For root no group does: with an access
 * control list the group's bits stand for all users whom the list names.
 */
static bool
others_write (const struct stat *st)
{
  return st->st_mode & S_IWOTH ||
         (st->st_mode & S_IWGRP &&
          (geteuid () == 0 || (st->st_gid != 0 && st->st_gid != getegid ())));
}

static bool
is_trusted (const struct stat *st)
{
  return (st->st_uid == 0 || st->st_uid == geteuid ()) &&
         (S_ISLNK (st->st_mode) || st->st_mode & S_ISVTX || !others_write (st));
}

static int
untrusted (const char *name, const struct stat *st, char *why, size_t why_size)
{
  errno = EPERM;
  return refuse (why, why_size,
                 "%s belongs to user %u with mode %04o, and so another user "
                 "could replace files there; use a folder that only root or "
                 "this user may write to",
                 name, (unsigned) st->st_uid, (unsigned) st->st_mode & 07777);
}

static int
failed (const char *name, char *why, size_t why_size)
{
  int error = errno;

  refuse (why, why_size, "%s: %s", name, strerror (error));
  errno = error;
  return -1;
}

/* Go from folder *at into `name`; *at is closed in either case, and -1 after a failure. */
static int
step (int *at, const char *name, char *why, size_t why_size)
{
  int next = openat (*at, name, O_PATH | FOLDER_FLAGS);
  struct stat st;

  if (*at != AT_FDCWD)
    close (*at);
  *at = next;
  if (next == -1 || fstat (next, &st) == -1)
    failed (name, why, why_size);
  else if (is_trusted (&st))
    return 0;
  else
    untrusted (name, &st, why, why_size);
  if (next != -1)
    close (next);
  *at = -1;
  return -1;
}

/* Put the target of a link before what is left of the path. */
static int
follow (int *at, const char *name, char rest[PATH_MAX], char *why,
        size_t why_size)
{
  char target[PATH_MAX], longer[2 * PATH_MAX];
  ssize_t n = readlinkat (*at, name, target, sizeof target - 1);

  if (n == -1)
    return failed (name, why, why_size);
  target[n] = '\0';
  snprintf (longer, sizeof longer, "%s/%s", target, rest);
  if (strlen (longer) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return failed (name, why, why_size);
  }
  strcpy (rest, longer);
  if (target[0] != '/')
    return 0;
  close (*at);
  *at = AT_FDCWD;
  return step (at, "/", why, why_size);
}

/* Take the first name off the path. */
static int
take_name (char rest[PATH_MAX], char name[FOLDER_NAME_BYTES], char *why,
           size_t why_size)
{
  const char *p = rest + strspn (rest, "/");
  size_t n = strcspn (p, "/");

  if (n >= FOLDER_NAME_BYTES) {
    errno = ENAMETOOLONG;
    return failed (p, why, why_size);
  }
  memcpy (name, p, n);
  name[n] = '\0';
  if (n == 0)
    strcpy (name, ".");
  p += n;
  p += strspn (p, "/");
  memmove (rest, p, strlen (p) + 1);
  return 0;
}

int
folder_find (const char *path, char name[FOLDER_NAME_BYTES], char *why,
             size_t why_size)
{
  char rest[PATH_MAX];
  struct stat st;
  int at = AT_FDCWD, r;

  if (path[0] != '/' || strlen (path) >= sizeof rest) {
    errno = EINVAL;
    return refuse (why, why_size, "%s: not an absolute path, or too long",
                   path);
  }
  strcpy (rest, path);
  r = step (&at, "/", why, why_size);
  for (unsigned links = 0;
       r == 0 && (r = take_name (rest, name, why, why_size)) == 0;) {
    if (fstatat (at, name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
      if (errno == ENOENT && rest[0] == '\0')
        return at;
      r = failed (name, why, why_size);
    }
    else if (S_ISLNK (st.st_mode) && !is_trusted (&st))
      r = untrusted (name, &st, why, why_size);
    else if (S_ISLNK (st.st_mode) && ++links > LINKS_MAX) {
      errno = ELOOP;
      r = failed (name, why, why_size);
    }
    else if (S_ISLNK (st.st_mode))
      r = follow (&at, name, rest, why, why_size);
    else if (rest[0] == '\0')
      return at;
    else
      r = step (&at, name, why, why_size);
  }
  if (at != -1 && at != AT_FDCWD)
    close (at);
  return -1;
}

int
folder_enter (int folder, const char *name, bool create, char *why,
              size_t why_size)
{
  struct stat st;
  int fd;

  if (create && mkdirat (folder, name, 0700) == -1 && errno != EEXIST)
    return failed (name, why, why_size);
  fd = openat (folder, name, O_RDONLY | FOLDER_FLAGS);
  if (fd == -1)
    return failed (name, why, why_size);
  if (fstat (fd, &st) == 0 && st.st_uid == geteuid () && !others_write (&st))
    return fd;
  close (fd);
  return untrusted (name, &st, why, why_size);
}

int
folder_read (int folder, const char *name)
{
  int fd = openat (folder, name,
                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat st;

  if (fd == -1)
    return -1;
  if (fstat (fd, &st) == 0 && S_ISREG (st.st_mode) && st.st_uid == geteuid ())
    return fd;
  close (fd);
  errno = EPERM;
  return -1;
}

int
folder_create (int folder, const char *name, mode_t mode)
{
  if (unlinkat (folder, name, 0) == -1 && errno != ENOENT)
    return -1;
  return openat (folder, name,
                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}
