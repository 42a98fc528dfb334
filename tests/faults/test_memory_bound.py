"""The array process's memory is bounded, however long it runs.

Topology: one raid-x devcluster with a small image buffer, few threads and
          several connections; or with the default buffer and one connection.
Cause: fio writes and reads at random for long, in sizes that change all the
       time, and comes back with new connections.
Pass:  the largest resident set is below image buffer + connections x threads
       x largest request + 32 MiB (docs/DESIGN.md 6.7); with the small buffer,
       below that with, in place of the 32 MiB, what was resident before there
       was a client, and the little that HOLE and SMALL say.
"""

import pytest

from copies import check_copies, model_of
from fiojob import fio
from wefttest import eventually

pytestmark = pytest.mark.long(40)
UNIT = 64 << 10
LARGEST = 1 << 20
SECONDS = 25
# What else a load may add.  For each worker of nbdkit: the hole that its buffer
# leaves in the heap when it becomes too large for that (MAPPED_BYTES of weft.c).
# And once: what the heap keeps when images are freed (twice that), the workers'
# stacks, code that runs for the first time.  1.3 MiB was measured in all, and
# the same after many rounds; 7 to 15 MiB where buffers grow within the heap.
HOLE = (256 + 32) << 10
SMALL = 2 << 20


def field(c, key):
    with open(f"/proc/{c.array['pid']}/status", encoding="ascii",
              errors="replace") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    raise AssertionError(key)


def load(c, seconds, **options):
    """Run fio so long, until nbdkit has ended its connections, which have
    buffers of their own.  Returns its JSON."""
    threads = field(c, "Threads")
    job = fio(c.nbd, rw="randrw", bs_unaligned=True, verify=False,
              norandommap=True, time_based=True, runtime=seconds,
              randrepeat=0, **options)
    eventually(lambda: field(c, "Threads") <= threads)
    return job


def within(c, bound):
    peak = field(c, "VmHWM") << 10
    print(f"peak {peak >> 10} KiB, bound {bound >> 10} KiB")
    assert peak <= bound, f"{peak} bytes, bound {bound}"


def test_small_buffer(cluster, seed):
    """nbdkit's buffers grow in steps, and are freed when a connection ends.
    Neither may leave holes in the heap: the second round's buffers, whose size
    has been freed before, must take as little as the first's."""
    buffer, threads, connections, rounds = 1 << 20, 4, 4, 3
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="128M",
                image_buffer=buffer, threads=threads)
    before = field(c, "VmRSS") << 10
    bound = before + buffer + SMALL \
        + connections * threads * (LARGEST + HOLE)
    assert bound < buffer + connections * threads * LARGEST + (32 << 20)
    for i in range(rounds):
        job = load(c, SECONDS // rounds + 1, jobs=connections, depth=8,
                   size="32M", bs=f"512-{LARGEST}", seed=(seed + i) % 2 ** 31)
        assert job["write"]["io_bytes"] > 16 * buffer
        within(c, bound)
    check_copies(c, model_of(c, "raid-x", UNIT))


@pytest.mark.timeout(400)
def test_sizes_that_change(cluster, seed):
    """Memory once given back for one size must serve the others."""
    buffer, threads = 64 << 20, 8
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="140M",
                threads=threads)
    for i in range(SECONDS // 4):
        bs, depth = [("4k", 32), (str(LARGEST), 4), (f"512-{LARGEST}", 8),
                     ("512-16k", 32)][i % 4]
        load(c, 4, depth=depth, size="256M", bs=bs, rwmixwrite=90,
             seed=(seed + i) % 2 ** 31)
    within(c, buffer + threads * LARGEST + (32 << 20))
    check_copies(c, model_of(c, "raid-x", UNIT))
