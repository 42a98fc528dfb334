/* everynth.c: a disk of which every n-th call fails, by LD_PRELOAD.
 *
 * The first file NAME that a process uses and that WEFT_FAULTY, a pattern
 * (fnmatch), fits is its disk.  NAME.faults, which the struct below describes,
 * is made and mapped, so that tests/faultydisk.py may change it at any time.
 */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { READ, WRITE, FLUSH, CALLS };

struct faults {
  struct {
    uint32_t every; /* 0: none fails */
    uint32_t error;
    uint32_t calls, failed;
  } of[CALLS];
};

static struct faults *faults;
static dev_t dev;
static ino_t ino;

static void
map_faults (const char *path)
{
  char name[4096 + 8];
  void *p;
  int fd;

  snprintf (name, sizeof name, "%s.faults", path);
  fd = open (name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd == -1 || ftruncate (fd, sizeof *faults) == -1 ||
      (p = mmap (NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                 0)) == MAP_FAILED) {
    perror (name);
    abort ();
  }
  close (fd);
  faults = p;
}

/* Is it our disk?  The first call comes before there are other threads. */
static bool
ours (int fd)
{
  const char *pattern = getenv ("WEFT_FAULTY");
  char link[64], path[4096];
  struct stat st;
  ssize_t n;

  if (pattern == NULL || fstat (fd, &st) == -1)
    return false;
  if (faults == NULL) {
    snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink (link, path, sizeof path - 1);
    if (n == -1)
      return false;
    path[n] = '\0';
    if (fnmatch (pattern, path, 0) != 0)
      return false;
    map_faults (path);
    dev = st.st_dev;
    ino = st.st_ino;
  }
  return st.st_dev == dev && st.st_ino == ino;
}

/* Does this call fail?  Then errno says why. */
static bool
fails (int fd, enum call call)
{
  uint32_t every, count;

  if (!ours (fd))
    return false;
  every = __atomic_load_n (&faults->of[call].every, __ATOMIC_ACQUIRE);
  if (every == 0)
    return false;
  count = __atomic_add_fetch (&faults->of[call].calls, 1, __ATOMIC_RELAXED);
  if (count % every != 0)
    return false;
  __atomic_add_fetch (&faults->of[call].failed, 1, __ATOMIC_RELAXED);
  errno = faults->of[call].error;
  return true;
}

ssize_t
pread (int fd, void *buf, size_t n, off_t at)
{
  ssize_t (*real) (int, void *, size_t, off_t) = dlsym (RTLD_NEXT, "pread");

  return fails (fd, READ) ? -1 : real (fd, buf, n, at);
}

ssize_t
pwritev2 (int fd, const struct iovec *iov, int count, off_t at, int flags)
{
  ssize_t (*real) (int, const struct iovec *, int, off_t, int)
    = dlsym (RTLD_NEXT, "pwritev2");

  return fails (fd, WRITE) ? -1 : real (fd, iov, count, at, flags);
}

int
fallocate (int fd, int mode, off_t at, off_t length)
{
  int (*real) (int, int, off_t, off_t) = dlsym (RTLD_NEXT, "fallocate");

  return fails (fd, WRITE) ? -1 : real (fd, mode, at, length);
}

int
fdatasync (int fd)
{
  int (*real) (int) = dlsym (RTLD_NEXT, "fdatasync");

  return fails (fd, FLUSH) ? -1 : real (fd);
}

/* The names that a program built for large files calls. */
ssize_t pread64 (int fd, void *buf, size_t n, off_t at)
  __attribute__ ((alias ("pread")));
ssize_t pwritev64v2 (int fd, const struct iovec *iov, int count, off_t at,
                     int flags) __attribute__ ((alias ("pwritev2")));
int fallocate64 (int fd, int mode, off_t at, off_t length)
  __attribute__ ((alias ("fallocate")));
