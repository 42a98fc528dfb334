/* volatile.c: a disk with a volatile cache, by LD_PRELOAD.
 *
 * kill -9 alone loses nothing, for the page cache stays.  With this library in a
 * member process, what was written to its disk file and not synced is noted in
 * FILE.undo, with what stood there before; tests/powercut.py then takes some of
 * it back, as a power cut would.  WEFT_VOLATILE is a pattern (fnmatch) of the
 * files.
 *
 * A log is a row of records, in this machine's byte order.  A sync ends with a record of
 * its own, which says how much of the log it covers: bytes written while it runs are in
 * doubt.
 */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PATH_BYTES 4096

enum kind {
  WRITTEN = 1, /* `length` bytes at `offset`; the old ones follow */
  ZEROES = 2,  /* the same, but zeroes stood there, and nothing follows */
  STABLE = 3,  /* written, and stable at once */
  SYNCED = 4,  /* all records before byte `offset` of the log are stable */
};

struct record {
  uint64_t kind, offset, length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  int log;
  dev_t dev;
  ino_t ino;
} disk = { .log = -1 };

static ssize_t (*real_pwritev2) (int, const struct iovec *, int, off_t, int);
static int (*real_fallocate) (int, int, off_t, off_t);
static int (*real_fdatasync) (int);

static void
fail (const char *what)
{
  fprintf (stderr, "volatile: %s: %s\n", what, strerror (errno));
  abort ();
}

static void __attribute__ ((constructor))
begin (void)
{
  real_pwritev2 = dlsym (RTLD_NEXT, "pwritev2");
  real_fallocate = dlsym (RTLD_NEXT, "fallocate");
  real_fdatasync = dlsym (RTLD_NEXT, "fdatasync");
}

/* Is it a file of the pattern?  The first one is it for good. */
static bool
ours (int fd)
{
  const char *pattern = getenv ("WEFT_VOLATILE");
  char link[64], path[PATH_BYTES], log[PATH_BYTES + 8];
  struct stat st;
  ssize_t n;

  if (pattern == NULL || fstat (fd, &st) == -1 || !S_ISREG (st.st_mode))
    return false;
  if (disk.log != -1)
    return st.st_dev == disk.dev && st.st_ino == disk.ino;
  snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
  n = readlink (link, path, sizeof path - 1);
  if (n == -1)
    return false;
  path[n] = '\0';
  if (fnmatch (pattern, path, 0) != 0)
    return false;
  snprintf (log, sizeof log, "%s.undo", path);
  disk.log = open (log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (disk.log == -1)
    fail (log);
  disk.dev = st.st_dev;
  disk.ino = st.st_ino;
  return true;
}

static uint64_t
log_end (void)
{
  off_t end = lseek (disk.log, 0, SEEK_END);

  if (end == -1)
    fail ("lseek");
  return end;
}

static void
append (enum kind kind, uint64_t offset, uint64_t length, const void *old)
{
  struct record r = { .kind = kind, .offset = offset, .length = length };
  struct iovec iov[] = {
    { .iov_base = &r, .iov_len = sizeof r },
    { .iov_base = (void *) old, .iov_len = old ? length : 0 },
  };

  if (writev (disk.log, iov, 2) != (ssize_t) (sizeof r + iov[1].iov_len))
    fail ("writing the log");
}

/* Note what stands where something is about to be written. */
static void
note (int fd, uint64_t offset, uint64_t length)
{
  char *old = calloc (1, length ? length : 1);
  uint64_t got = 0;
  bool zero = true;

  if (old == NULL)
    fail ("calloc");
  while (got < length) {
    ssize_t n = pread (fd, old + got, length - got, offset + got);

    if (n == -1 && errno != EINTR)
      fail ("pread");
    if (n == 0)
      break; /* beyond its end: zeroes */
    got += n > 0 ? n : 0;
  }
  for (uint64_t i = 0; zero && i < length; i++)
    zero = old[i] == 0;
  append (zero ? ZEROES : WRITTEN, offset, length, zero ? NULL : old);
  free (old);
}

ssize_t
pwritev2 (int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
  uint64_t length = 0;
  ssize_t r;

  pthread_mutex_lock (&lock);
  if (ours (fd)) {
    for (int i = 0; i < count; i++)
      length += iov[i].iov_len;
    if ((flags & RWF_DSYNC) == 0)
      note (fd, offset, length);
    r = real_pwritev2 (fd, iov, count, offset, flags);
    if (r > 0 && (flags & RWF_DSYNC))
      append (STABLE, offset, r, NULL);
  }
  else
    r = real_pwritev2 (fd, iov, count, offset, flags);
  pthread_mutex_unlock (&lock);
  return r;
}

int
fallocate (int fd, int mode, off_t offset, off_t length)
{
  int r;

  pthread_mutex_lock (&lock);
  if (ours (fd))
    note (fd, offset, length);
  r = real_fallocate (fd, mode, offset, length);
  pthread_mutex_unlock (&lock);
  return r;
}

/* The names that a program built for large files calls. */
ssize_t pwritev64v2 (int fd, const struct iovec *iov, int count, off_t offset,
                     int flags) __attribute__ ((alias ("pwritev2")));
int fallocate64 (int fd, int mode, off_t offset, off_t length)
  __attribute__ ((alias ("fallocate")));

int
fdatasync (int fd)
{
  uint64_t covers = 0;
  bool mine;
  int r;

  pthread_mutex_lock (&lock);
  mine = ours (fd);
  if (mine)
    covers = log_end ();
  pthread_mutex_unlock (&lock);
  r = real_fdatasync (fd);
  if (!mine || r == -1)
    return r;
  pthread_mutex_lock (&lock);
  if (log_end () > covers)
    append (SYNCED, covers, 0, NULL);
  else if (ftruncate (disk.log, 0) == -1)
    fail ("ftruncate");
  pthread_mutex_unlock (&lock);
  return 0;
}
