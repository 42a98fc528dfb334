"""The array process's memory is bounded, however long it runs.

Topology: one raid-x devcluster whose array has a small image buffer and few
          threads.
Cause: fio writes and reads at random over several connections, for long.
Pass:  the largest resident set is below image buffer + connections x threads
       x largest request + 32 MiB (DESIGN section 5), and does not grow once it
       has been reached.
"""

import time

from copies import check_copies, model_of
from fiojob import Fio

UNIT = 64 << 10
BUFFER = 1 << 20
THREADS = 4
CONNECTIONS = 4
LARGEST = 1 << 20
SECONDS = 40


def memory(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii",
              errors="replace") as f:
        for line in f:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise AssertionError(key)


def test_bound(cluster, seed):
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="128M",
                image_buffer=BUFFER, threads=THREADS)
    pid = c.array["pid"]
    bound = BUFFER + CONNECTIONS * THREADS * LARGEST + (32 << 20)
    resident = []
    with Fio(c.nbd, jobs=CONNECTIONS, depth=8, size="32M", rw="randrw",
             bs=f"512-{LARGEST}", bs_unaligned=True, verify=False,
             norandommap=True, time_based=True, runtime=SECONDS,
             randrepeat=0, seed=seed % 2 ** 31) as f:
        while f.running():
            resident.append(memory(pid, "VmRSS"))
            time.sleep(0.25)
        job = f.wait()
    peak = memory(pid, "VmHWM")
    print(f"peak {peak >> 20} MiB, bound {bound >> 20} MiB, "
          f"{job['write']['io_bytes'] >> 20} MiB written")
    assert len(resident) > SECONDS * 2
    assert job["write"]["io_bytes"] > 16 * BUFFER
    assert peak <= bound, f"{peak} bytes, bound {bound}"

    # A leak of one page in a thousand requests would show.
    first, last = resident[len(resident) // 3:len(resident) // 2], \
        resident[-len(resident) // 4:]
    assert max(last) <= max(first) + (2 << 20), (max(first), max(last))
    check_copies(c, model_of(c, "raid-x", UNIT))
