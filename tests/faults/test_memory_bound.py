"""The array process's memory is bounded, however long it runs.

Topology: one raid-x devcluster with a small image buffer, few threads and
          several connections; or with the default buffer and one connection.
Cause: fio writes and reads at random for long, in sizes that change all the
       time.
Pass:  the largest resident set is below image buffer + connections x threads
       x largest request + 32 MiB (DESIGN section 5), and does not grow once it
       has been reached.
"""

import time

import pytest

from copies import check_copies, model_of
from fiojob import Fio

UNIT = 64 << 10
LARGEST = 1 << 20
SECONDS = 25

def memory(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii",
              errors="replace") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise AssertionError(key)


def watch(c, resident, seconds, **options):
    """Run fio so long; add what is resident meanwhile.  Returns its JSON."""
    with Fio(c.nbd, rw="randrw", bs_unaligned=True, verify=False,
             norandommap=True, time_based=True, runtime=seconds,
             randrepeat=0, **options) as f:
        while f.running():
            resident.append(memory(c.array["pid"], "VmRSS"))
            time.sleep(0.25)
        return f.wait()


def within(c, bound):
    peak = memory(c.array["pid"], "VmHWM")
    print(f"peak {peak >> 20} MiB, bound {bound >> 20} MiB")
    assert peak <= bound, f"{peak} bytes, bound {bound}"
    check_copies(c, model_of(c, "raid-x", UNIT))


def test_small_buffer(cluster, seed):
    buffer, threads, connections = 1 << 20, 4, 4
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="128M",
                image_buffer=buffer, threads=threads)
    resident = []
    job = watch(c, resident, SECONDS, jobs=connections, depth=8, size="32M",
                bs=f"512-{LARGEST}", seed=seed % 2 ** 31)
    assert len(resident) > SECONDS * 2
    assert job["write"]["io_bytes"] > 16 * buffer
    # A leak of one page in a thousand requests would show.
    first = resident[len(resident) // 3:len(resident) // 2]
    last = resident[-len(resident) // 4:]
    assert max(last) <= max(first) + (2 << 20), (max(first), max(last))
    within(c, buffer + connections * threads * LARGEST + (32 << 20))


@pytest.mark.timeout(400)
def test_sizes_that_change(cluster, seed):
    """Memory once given back for one size must serve the others."""
    buffer, threads = 64 << 20, 8
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="140M",
                threads=threads)
    for i in range(SECONDS // 4):
        bs, depth = [("4k", 32), (str(LARGEST), 4), (f"512-{LARGEST}", 8),
                     ("512-16k", 32)][i % 4]
        watch(c, [], 4, depth=depth, size="256M", bs=bs, rwmixwrite=90,
              seed=(seed + i) % 2 ** 31)
    within(c, buffer + threads * LARGEST + (32 << 20))
