"""Members of a devcluster whose disks have places that can't be read.

    c = cluster(env=bad_spots(tmp_path), ...)
    spoil(c, 0, (4096, 512))     # of the data area of member 0: offset, length
    mend(c, 0)
    bad_list(c, 1)               # [(first block, blocks, reason)], from its disk
"""

import pathlib
import struct
import zlib

from wefttest import run

HEADER = 1 << 20
SLOT = 16 << 10
BLOCK = 4096

# Reads that touch a range of FILE.bad fail.
SHIM = r"""
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

ssize_t
pread (int fd, void *buf, size_t n, off_t at)
{
  ssize_t (*real) (int, void *, size_t, off_t) =
    (ssize_t (*) (int, void *, size_t, off_t)) dlsym (RTLD_NEXT, "pread");
  char link[64], path[4096 + 8];
  long from, length;
  ssize_t name;
  FILE *f;

  snprintf (link, sizeof link, "/proc/self/fd/%d", fd);
  name = readlink (link, path, 4096);
  if (name <= 0)
    return real (fd, buf, n, at);
  snprintf (path + name, 8, ".bad");
  f = fopen (path, "r");
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
"""


def bad_spots(tmp_path, env=None):
    """The environment of such a devcluster."""
    source, library = tmp_path / "bad.c", tmp_path / "bad.so"
    source.write_text(SHIM)
    run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    return {**(env or {}), "WEFT_WRAP_MEMBER": f"env LD_PRELOAD={library}"}


def _ranges(c, m):
    return pathlib.Path(f"{c.members[m]['file']}.bad")


def spoil(c, m, *ranges):
    _ranges(c, m).write_text("".join(f"{HEADER + at} {n}\n"
                                     for at, n in ranges))


def mend(c, m):
    _ranges(c, m).unlink(missing_ok=True)


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
