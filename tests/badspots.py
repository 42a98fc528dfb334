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

# Reads that touch a range of FILE.bad fail, and one flush when there is FILE.fail.
SHIM = r"""
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
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
