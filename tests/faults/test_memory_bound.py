"""The array process's memory is bounded, however long it runs.

Topology: one raid-x devcluster with a small image buffer, few threads and
          several connections; or with the default buffer and one connection.
Cause: fio writes and reads at random for long, in sizes that change all the
       time, and comes back with new connections.
Pass:  the largest resident set is below image buffer + connections x threads
       x 2 largest requests + 32 MiB (docs/DESIGN.md 6.7); with the small
       buffer, below that with, in place of the 32 MiB, what was resident before
       there was a client, and the little that SMALL says.
"""

import pytest

from copies import check_copies, model_of
from fiojob import fio
from wefttest import ALL, eventually, idle_threads

pytestmark = pytest.mark.long(40)
UNIT = 64 << 10
LARGEST = 1 << 20
SECONDS = 25 if ALL else 10
# A worker of nbdkit has a buffer for the largest request so far, which leaves a
# hole in the heap whenever it grows.  7 to 11 MiB of holes were measured beside 16
# buffers of 1 MiB.
BUFFER = 2 * LARGEST
# The other memory that a load may add: memory that the heap keeps when images and buffers are
# freed, the workers' stacks, code that runs for the first time.
SMALL = 3 << 20


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
    threads = idle_threads(c.array["pid"])
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
    """nbdkit's buffers grow in steps, and are freed when a connection ends:
    later rounds' buffers must take no more than the first's."""
    buffer, threads, connections, rounds = 1 << 20, 4, 4, 3
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="128M",
                image_buffer=buffer, threads=threads)
    before = field(c, "VmRSS") << 10
    bound = before + buffer + SMALL \
        + connections * threads * BUFFER
    assert bound < buffer + connections * threads * BUFFER + (32 << 20)
    for i in range(rounds):
        job = load(c, SECONDS // rounds + 1, jobs=connections, depth=8,
                   size="32M", bs=f"512-{LARGEST}", seed=(seed + i) % 2 ** 31)
        assert job["write"]["io_bytes"] > 16 * buffer
        within(c, bound)
    check_copies(c, model_of(c, "raid-x", UNIT))


@pytest.mark.long(40)
def test_sizes_that_change(cluster, seed):
    """Memory once given back for one size must serve the others."""
    buffer, threads = 64 << 20, 8
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="140M",
                threads=threads)
    for i in range(SECONDS // 2):
        bs, depth = [("4k", 32), (str(LARGEST), 4), (f"512-{LARGEST}", 8),
                     ("512-16k", 32)][i % 4]
        load(c, 2, depth=depth, size="256M", bs=bs, rwmixwrite=90,
             seed=(seed + i) % 2 ** 31)
    within(c, buffer + threads * BUFFER + (32 << 20))
    check_copies(c, model_of(c, "raid-x", UNIT))
