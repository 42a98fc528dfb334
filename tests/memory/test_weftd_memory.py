"""weftd's memory does not grow with the number of its threads that have answered.

Topology: a weftd and the members of an array, played (weftdactors.py).
Cause: more connections than weftd has threads, which take turns at them, each with
       one request; for short answers, then for long ones, made of many pieces.
Pass:  each thread keeps next to nothing of it.
"""

from weftdactors import *

# More than DOORMAN_THREADS of server/doorman.h.
CONNECTIONS = 2000
# Of each thread after its first request.  4 KiB were measured, and 24 where it kept
# all of the stack that the request had used.
KEPT_BYTES = 16 << 10
# For all threads.  1 MiB was measured, and 10 MiB when each thread freed the loop's memory
# itself instead of giving it back.
LONG_BYTES = 4 << 20


def resident(w):
    with open(f"/proc/{w.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f
                    if line.startswith("RssAnon:"))


def threads(w):
    with open(f"/proc/{w.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f
                    if line.startswith("Threads:"))


def grown(w, path):
    """The growth of weftd by so many connections, one after the other.  Memory for
    simultaneous answers would be another measure, and differs each time."""
    before = resident(w)
    for _ in range(CONNECTIONS):
        w.get(path)
    n = resident(w) - before
    print(f"{path}: {n >> 10} KiB more")
    return n


def test_each_thread_keeps_little(all_threads, weftd, array):
    count = threads(weftd)
    assert count < CONNECTIONS
    assert grown(weftd, "/me") < count * KEPT_BYTES
    assert grown(weftd, "/status") < LONG_BYTES
