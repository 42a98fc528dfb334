"""A sector is read whole: as some write left it.

Topology: weftd and real members; the test is a writer and a reader of one of them,
          or a client with two connections to an array process.
Cause: A write stops for a moment in the middle of a sector, as one may that loses its
       processor while the kernel copies its data.
Pass:  each sector that is read meanwhile has what stood there before the write or
       what the write brings; none has some of both.
"""

import nbd
import pytest

from memberhost import Array, MIB, ZERO, WRITE, batch
from nbdclient import connected
from wefttest import run

SECTOR = 512

# Changes of data behind the header are done in two halves, which meet in a sector.
SHIM = r"""
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEADER (1 << 20)

static size_t
half (size_t bytes)
{
  return bytes / 1024 * 512 + 256;
}

ssize_t
pwritev2 (int fd, const struct iovec *iov, int count, off_t at, int flags)
{
  ssize_t (*real) (int, const struct iovec *, int, off_t, int) =
    (ssize_t (*) (int, const struct iovec *, int, off_t, int))
      dlsym (RTLD_NEXT, "pwritev2");
  size_t n = half (iov->iov_len);
  struct iovec first = { iov->iov_base, n };
  struct iovec rest = { (char *) iov->iov_base + n, iov->iov_len - n };
  ssize_t r, s;

  if (at < HEADER || count != 1 || iov->iov_len < 512)
    return real (fd, iov, count, at, flags);
  r = real (fd, &first, 1, at, flags);
  if (r != (ssize_t) n)
    return r;
  usleep (20000);
  s = real (fd, &rest, 1, at + n, flags);
  return s == -1 ? -1 : r + s;
}

int
fallocate (int fd, int mode, off_t at, off_t bytes)
{
  int (*real) (int, int, off_t, off_t) =
    (int (*) (int, int, off_t, off_t)) dlsym (RTLD_NEXT, "fallocate");
  size_t n = half (bytes);

  if (at < HEADER || bytes < 512)
    return real (fd, mode, at, bytes);
  if (real (fd, mode, at, n) == -1)
    return -1;
  usleep (20000);
  return real (fd, mode, at + n, bytes - n);
}

/* The names that a program built for large files calls. */
ssize_t pwritev64v2 (int, const struct iovec *, int, off_t, int)
  __attribute__ ((alias ("pwritev2")));
int fallocate64 (int, int, off_t, off_t) __attribute__ ((alias ("fallocate")));
"""


@pytest.fixture
def halves(tmp_path):
    """The environment of a devcluster whose members do so."""
    source, library = tmp_path / "halves.c", tmp_path / "halves.so"
    source.write_text(SHIM)
    run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    return {"WEFT_WRAP_MEMBER": f"env LD_PRELOAD={library}"}


class Reads:
    """Reads of a place during a write there."""

    def __init__(self, reader, at, n):
        self.reader, self.at, self.n = reader, at, n
        self.found, self.torn, self.count = set(), 0, 0

    def during(self, writer, cookie):
        while not writer.aio_command_completed(cookie):
            data = self.reader.pread(self.n, self.at)
            for i in range(0, self.n, SECTOR):
                letters = set(data[i:i + SECTOR])
                self.torn += len(letters) > 1
                self.found |= letters
            self.count += 1
            writer.poll(0)

    def check(self, letters):
        assert self.torn == 0, f"{self.torn} sectors in {self.count} reads"
        assert self.found == set(letters), self.found


def buffer(data):
    return nbd.Buffer.from_bytearray(bytearray(data))


def write(door, at, data):
    return door.aio_pwrite(buffer(data), at)


def write_stable(door, at, data):
    return door.aio_pwrite(buffer(data), at, flags=nbd.CMD_FLAG_FUA)


def write_batch(door, at, data):
    """Beside two others, in front and behind."""
    return door.aio_pwrite(buffer(batch((ZERO, at - 4096, 4096), (WRITE, at, data),
                                        (WRITE, at + len(data), data))), 0)


def zero(door, at, data):
    """`data` is zeroes."""
    return door.aio_zero(len(data), at)


WAYS = [("data", write, b"12"), ("data", write_stable, b"12"),
        ("batch", write_batch, b"12"), ("data", zero, b"1\0")]


@pytest.mark.parametrize("bytes_", [SECTOR, 4096, 600 * 1024 + SECTOR])
@pytest.mark.parametrize("door,way,letters", WAYS, ids=[w.__name__ for _, w, _ in WAYS])
def test_of_a_member(cluster, halves, door, way, letters, bytes_):
    array = Array(cluster(members=3, size="61M", no_array=True, env=halves))
    data, changes = array.opened(0, "data", door)
    # The longest begins and ends within a page, and a member does it in parts.
    at = 5 * MIB + 3 * SECTOR
    reads = Reads(array.open(0, "data", array.attach("ro")[0]["data"]), at, bytes_)
    for i in range(6):
        letter = letters[i % 2:i % 2 + 1]
        if letter == b"\0" or way is not zero:
            reads.during(changes, way(changes, at, letter * bytes_))
        else:
            reads.during(data, write(data, at, letter * bytes_))
        # The new content is there from now on, and the old content no longer.
        assert reads.reader.pread(bytes_, at) == letter * bytes_
        if i == 0:
            reads.found.discard(0)
    reads.check(letters)


def test_of_an_array(cluster, halves):
    """An array process puts writes of a place in order, but no reads."""
    c = cluster(layout="raid-x", size="61M", env=halves)
    writer, reads = connected(c.nbd), Reads(connected(c.nbd), 3 * SECTOR, 4096)
    for i in range(6):
        letter = b"12"[i % 2:i % 2 + 1]
        reads.during(writer, write(writer, 3 * SECTOR, letter * 4096))
        assert reads.reader.pread(4096, 3 * SECTOR) == letter * 4096
        if i == 0:
            reads.found.discard(0)
    reads.check(b"12")
