"""Which clients get an error when their writes may be gone, and how often.

Topology: a mirror of two volatile disks (tests/volatile/volatile.c), one of which
          is down: the other one has the last copy.  Three connections to the
          array process, two of which write and do not flush.
Cause: the member with the last copy is killed and started again; or its host
       loses its power, that is, its disk all that was not flushed.
Pass:  After the kill no client sees an error, and all data is there.  After the power cut one
       FLUSH of each connection that has written fails, and the third connection's only if it
       is the first to flush: a FLUSH covers the writes of all.  Data flushed after that is
       kept.  The member may differ from the other then, and weftd says so, until it has joined
       again: as soon as the other one is back, while all three clients go on.
"""

import random

import nbd
import pytest

from arraystate import states, wait_in_sync, wait_state
from nbdclient import flush
from powercut import power_cut, volatile
from wefttest import eventually

UNIT = 64 << 10


def connections(uri, count):
    handles = [nbd.NBD() for _ in range(count)]
    for h in handles:
        h.connect_uri(uri)
    return handles


def alone(cluster):
    """A cluster whose member 0 has the last copy."""
    c = cluster(layout="raid-1", members=2, unit=UNIT, size="16M",
                env=volatile())
    c.kill("m1")
    h, = connections(c.nbd, 1)
    h.pwrite(b"1" * UNIT, 8 * UNIT)  # and so it is out
    h.flush()
    wait_state(c, 1, "out")
    h.shutdown()
    return c


def verdict(c):
    return c.get("/api/v1/status")["verdict"]


def write_both(a, b, text):
    a.pwrite(text * UNIT, 0)
    b.pwrite(text * UNIT, UNIT)


def test_process_killed(cluster):
    c = alone(cluster)
    a, b, third = connections(c.nbd, 3)
    for text in (b"2", b"3"):
        write_both(a, b, text)
        c.restart("m0")
        assert [flush(h) for h in (third, a, b)] == [""] * 3
        assert third.pread(2 * UNIT, 0) == text * 2 * UNIT
    c.start("m1")
    wait_in_sync(c)


@pytest.mark.parametrize("third_is_first", [False, True])
def test_power_cut(cluster, seed, third_is_first):
    c = alone(cluster)
    a, b, third = connections(c.nbd, 3)
    write_both(a, b, b"2")
    c.kill("m0")
    doubtful, lost = power_cut(c.members[0]["file"], random.Random(seed), keep=0)
    assert doubtful == lost > 0
    c.start("m0")
    if third_is_first:
        assert flush(third) == "EIO"
    assert flush(b) == "EIO"
    assert [flush(h) for h in (third, b)] == [""] * 2
    a.pwrite(b"3" * UNIT, 3 * UNIT)  # he does not know yet
    assert flush(a) == "EIO"
    assert [flush(h) for h in (a, b, third)] == [""] * 3
    assert third.pread(2 * UNIT, 0) == bytes(2 * UNIT)  # it is gone indeed
    # A cut does not touch flushed data, whichever client wrote it and whichever flushed it.
    write_both(a, b, b"4")
    assert flush(a) == ""
    c.kill("m0")
    power_cut(c.members[0]["file"], random.Random(seed), keep=0)
    c.start("m0")
    assert [flush(h) for h in (a, b, third)] == [""] * 3
    assert third.pread(2 * UNIT, 0) == b"4" * 2 * UNIT
    said = verdict(c)
    assert "member 0" in said and "came back without its unflushed writes" in said, said
    assert "that waits for member 1" in said, said
    c.start("m1")
    eventually(lambda: states(c) == ["in-sync"] * 2 and
               "may differ" not in verdict(c), 60, what="member 0 to join anew")
    assert [flush(h) for h in (a, b, third)] == [""] * 3
    assert third.pread(2 * UNIT, 0) == b"4" * 2 * UNIT
