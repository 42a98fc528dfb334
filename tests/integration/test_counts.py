"""The cost of a request: context switches and system calls, not time.

Topology: a raid-x devcluster of four members.
Cause: 4 KiB reads and writes at random places, one and 32 at a time (bench/requests),
       and the same again under strace; and a write after which there is a FLUSH.
Pass:  no request makes more threads sleep, sends more or receives more than today's
       figures of docs/PERFORMANCE.md and half as much again.
"""

import collections
import pathlib
import sys

import pytest

from nbdkitproc import nbdkit_is_old

BENCH = pathlib.Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import counting                                                  # noqa: E402
import measure                                                   # noqa: E402
import subjects                                                  # noqa: E402

SIZE = 32 << 20

# Threads of the array process and of the members that go to sleep.
SLEEPS = {
    "4k-randread-1": (4.5, 1.6),
    "4k-randread-32": (3.3, 1.5),
    "4k-randwrite-1": (4.5, 1.6),
    "4k-randwrite-32": (3.3, 1.5),
}
# Calls of the array process.  Where plugin/nbdkit-replies.c replaces nbdkit's send, it sends
# the reply to a read in one call, and otherwise in three.
REPLY = 1 if nbdkit_is_old() else 3
CALLS = {
    "4k-randread-1": {"send": 1.5 + REPLY * 1.2, "receive": 1.5, "read": 1.5,
                      "poll": 2.0},
    "4k-randread-32": {"send": 1.5 + REPLY * 1.2, "receive": 1.5, "read": 1.5,
                       "futex": 6.5},
    "4k-randwrite-32": {"send": 3.0, "receive": 1.5, "read": 2.6, "futex": 7.0},
}
SAME = {"sendto": "send", "sendmsg": "send", "recvfrom": "receive",
        "recvmsg": "receive", "epoll_wait": "poll"}


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    s = subjects.RaidX(tmp_path_factory.mktemp("counts"), SIZE)
    try:
        s.start()
        measure.fill(s.uri, SIZE)
        yield s
    finally:
        s.stop()


@pytest.mark.parametrize("workload", SLEEPS)
def test_sleeps(array, workload):
    seen = counting.costs(array, workload, 5000, SIZE)
    print(seen)
    most = dict(zip(("array", "members"), SLEEPS[workload]))
    assert {p: seen[p]["sleeps"] for p in most if seen[p]["sleeps"] > most[p]} == {}
    assert seen["array"]["sleeps"] > 0.1 and seen["members"]["sleeps"] > 0.1


def calls(array, workload, count, party):
    seen = collections.Counter()
    for name, made in counting.calls(array, workload, count, SIZE, party).items():
        seen[SAME.get(name, name)] += made
    print(seen)
    return seen


@pytest.mark.parametrize("workload", CALLS)
def test_calls(array, workload):
    seen = calls(array, workload, 3000, "array")
    most = CALLS[workload]
    assert {n: k for n, k in seen.items() if n in most and k > most[n]} == {}
    assert seen["send"] > 1.9  # one to a member, one to the client: it does count


def test_commit(array):
    """A write and a FLUSH: members answer the write, the image and one flush, for the
    image is stable with its write."""
    seen = calls(array, "4k-commit-1", 1000, "members")
    assert 2.9 < seen["send"] < 3.6
    assert 0.9 < seen["fdatasync"] < 1.4
