"""Members whose disks have places that can't be read, or fail to flush.

    c = cluster(env=bad_spots(tmp_path), ...)
    file = c.members[0]["file"]
    spoil(file, (4096, 512))     # of its data area: offset, length
    mend(file)
    fail_flush(file)             # the next one
    bad_list(c, 1)               # [(first block, blocks, reason)], from its disk
"""

import pathlib
import struct
import zlib

from wefttest import run

HEADER = 1 << 20
SLOT = 16 << 10
BLOCK = 4096

# Reads that touch a range of FILE.bad fail, and one flush if FILE.fail exists.  A write, or a
# zero, of a part of a block with such a range fails, too, because the kernel reads the rest of
# the block for it.  If all of the block is written, it is readable again.
SHIM = r"""
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Of a file: its name with this behind it. */
static bool
beside (int fd, const char *suffix, char path[4096 + 8])
{
  char link[64];
  ssize_t n;

  snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
  n = readlink (link, path, 4096);
  if (n > 0)
    strcpy (path + n, suffix);
  return n > 0;
}

ssize_t
pread (int fd, void *buf, size_t n, off_t at)
{
  ssize_t (*real) (int, void *, size_t, off_t) =
    (ssize_t (*) (int, void *, size_t, off_t)) dlsym (RTLD_NEXT, "pread");
  char path[4096 + 8];
  long from, length;
  FILE *f = beside (fd, ".bad", path) ? fopen (path, "r") : NULL;

  while (f && fscanf (f, "%ld %ld", &from, &length) == 2)
    if (at < from + length && from < at + (off_t) n) {
      fclose (f);
      errno = EIO;
      return -1;
    }
  if (f)
    fclose (f);
  return real (fd, buf, n, at);
}

static long
least (long a, long b)
{
  return a < b ? a : b;
}

/* 0, or EIO: the change is one of a part of a bad block. */
static int
change (int fd, off_t at, off_t n)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  char path[4096 + 8], new[4096 + 16], kept[65536] = "";
  long from, length, end = at + n;
  bool mended = false;
  int error = 0;
  FILE *f = beside (fd, ".bad", path) ? fopen (path, "r") : NULL;

  if (f == NULL)
    return 0;
  pthread_mutex_lock (&lock);
  while (fscanf (f, "%ld %ld", &from, &length) == 2)
    for (long stop = from + length, next; from < stop; from = next) {
      long block = from & ~4095L;

      next = least (stop, block + 4096);
      if (at <= block && end >= block + 4096)
        mended = true;
      else {
        if (at < block + 4096 && end > block)
          error = EIO;
        if (strlen (kept) < sizeof kept - 64)
          sprintf (kept + strlen (kept), "%ld %ld\n", from, next - from);
      }
    }
  fclose (f);
  if (mended && !error) {
    sprintf (new, "%s.%d", path, (int) getpid ());
    f = fopen (new, "w");
    fputs (kept, f);
    fclose (f);
    rename (new, path);
  }
  pthread_mutex_unlock (&lock);
  return error;
}

ssize_t
pwritev64v2 (int fd, const struct iovec *iov, int count, off_t at, int flags)
{
  ssize_t (*real) (int, const struct iovec *, int, off_t, int) =
    (ssize_t (*) (int, const struct iovec *, int, off_t, int))
      dlsym (RTLD_NEXT, "pwritev64v2");
  int error = change (fd, at, iov[0].iov_len);

  errno = error;
  return error ? -1 : real (fd, iov, count, at, flags);
}

ssize_t
pwritev2 (int fd, const struct iovec *iov, int count, off_t at, int flags)
{
  return pwritev64v2 (fd, iov, count, at, flags);
}

int
fallocate64 (int fd, int mode, off_t at, off_t n)
{
  int (*real) (int, int, off_t, off_t) =
    (int (*) (int, int, off_t, off_t)) dlsym (RTLD_NEXT, "fallocate64");
  int error = change (fd, at, n);

  errno = error;
  return error ? -1 : real (fd, mode, at, n);
}

int
fallocate (int fd, int mode, off_t at, off_t n)
{
  return fallocate64 (fd, mode, at, n);
}

ssize_t
pread64 (int fd, void *buf, size_t n, off_t at)
{
  return pread (fd, buf, n, at);
}

int
fdatasync (int fd)
{
  int (*real) (int) = (int (*) (int)) dlsym (RTLD_NEXT, "fdatasync");
  char path[4096 + 8];

  if (beside (fd, ".fail", path) && unlink (path) == 0) {
    errno = EIO;
    return -1;
  }
  return real (fd);
}
"""


def preload(tmp_path):
    """The environment of such a process."""
    source, library = tmp_path / "bad.c", tmp_path / "bad.so"
    source.write_text(SHIM)
    run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    return {"LD_PRELOAD": str(library)}


def bad_spots(tmp_path, env=None):
    """The environment of a devcluster whose members are such ones."""
    library = preload(tmp_path)["LD_PRELOAD"]
    return {**(env or {}), "WEFT_WRAP_MEMBER": f"env LD_PRELOAD={library}"}


def spoil(file, *ranges):
    pathlib.Path(f"{file}.bad").write_text(
        "".join(f"{HEADER + at} {n}\n" for at, n in ranges))


def mend(file):
    pathlib.Path(f"{file}.bad").unlink()


def fail_flush(file):
    pathlib.Path(f"{file}.fail").touch()


def _slot(data):
    magic, version, crc, sequence, count = struct.unpack_from("<4sII4xQI", data)
    if magic != b"WBAD" or version != 1:
        return None
    if zlib.crc32(data[:8] + bytes(4) + data[12:]) != crc:
        return None
    return sequence, [struct.unpack_from("<QII", data, 32 + 16 * i)
                      for i in range(count)]


def bad_list(c, m):
    """As docs/FORMAT.md has it."""
    with open(c.members[m]["file"], "rb") as f:
        f.seek(HEADER - 2 * SLOT)
        slots = [_slot(f.read(SLOT)) for _ in range(2)]
    slots = [s for s in slots if s]
    return max(slots)[1] if slots else []


def bad_blocks(c, m):
    """The offsets of its bad blocks."""
    return [b * BLOCK for first, n, _ in bad_list(c, m)
            for b in range(first, first + n)]
