"""The disk of a member fails at every n-th call.

Topology: one raid-x devcluster, four groups of three members; a member's disk
          is a file that nbdkit serves by FUSE, with its error filter, or for
          flushes a preloaded library, in the way; a client that knows what each
          FLUSH has promised writes all along, or fio verifies.
Cause: n from 1 to 31, four at a time, eight of sixteen in each run: reads, writes, zeroes and flushes (EIO, and
       ENOSPC) of one member in each group; then its process starts again over
       a disk that is well.  And the flushes of all members of a mirror at once.
Pass:  the client sees no error.  Unreadable blocks are read elsewhere, zeroes
       are written, and their member stays in-sync; a failed write or flush has
       it out, and it says why; started again it comes back in-sync by itself; no
       flushed block is lost and all copies are alike.  Where nobody could flush,
       FLUSH fails, and what was flushed before is there.
"""

import contextlib
import errno
import os
import random

import nbd
import pytest

from arraystate import (away, content, settle, states, wait_failed, wait_in_sync,
                        writing)
from copies import check_copies, model_of
from filterdisk import OVER_NBDKIT, filterdisks
from fiojob import BURSTS, Fio
from nbdclient import connected, refuses
from wefttest import ALL, eventually

UNIT = 64 << 10
GROUPS, MEMBERS = 4, 12
EVERY = [*range(1, 10), 11, 13, 16, 19, 23, 27, 31]


@pytest.fixture
def broken(cluster):
    """A cluster, and its disks, to be broken."""
    c = cluster(layout="raid-x", members=MEMBERS, groups=GROUPS, unit=UNIT,
                size="16M", env=OVER_NBDKIT)
    with filterdisks(c) as disks:
        yield c, disks


def rounds(rng):
    """{member: n}, a member of each group."""
    every = rng.sample(EVERY, len(EVERY) if ALL else 2 * GROUPS)
    width = MEMBERS // GROUPS
    members = [g * width + rng.randrange(width) for g in range(GROUPS)]
    for at in range(0, len(every), GROUPS):
        yield dict(zip(members, every[at:at + GROUPS]))


def start_over(c, disks, bad, call, error):
    """The members in `bad`, over disks that will fail."""
    with away(c, *bad):
        for m, n in bad.items():
            disks[m].serve(call, n, errno.errorcode[error])


@pytest.mark.long(50)
@pytest.mark.parametrize("call,error", [
    ("write", errno.EIO), ("flush", errno.EIO), ("flush", errno.ENOSPC)])
def test_member_is_out_and_comes_back(broken, seed, call, error):
    rng = random.Random(seed)
    c, disks = broken
    with writing(c, rng):
        for bad in rounds(rng):
            start_over(c, disks, bad, call, error)
            for m in bad:
                disks[m].arm()
            for m in bad:
                wait_failed(c, m, os.strerror(error))
                assert disks[m].failed() >= 1
        start_over(c, disks, dict.fromkeys(bad, 1), call, error)
    check_copies(c, model_of(c, "raid-x", UNIT, GROUPS), content(c.nbd))


def still_in_use(c, disks, bad, call, ask):
    """Their calls fail while `ask` is called again and again."""
    start_over(c, disks, bad, call, errno.EIO)
    for m in bad:
        disks[m].arm()
    for m in bad:
        eventually(lambda m=m: ask(m) or disks[m].failed() > 3, every=0.01)
        disks[m].heal()
    assert set(states(c)) == {"in-sync"}


@pytest.mark.long(50)
def test_reads_are_answered_by_others(broken, seed):
    c, disks = broken
    with Fio(c.nbd, jobs=2, depth=4, size="12M", rw="randrw", bs="4k-64k",
             seed=seed % 2 ** 31, loops=1000, verify_backlog=64, **BURSTS) as load:
        for bad in rounds(random.Random(seed)):
            still_in_use(c, disks, bad, "read",
                         lambda m: disks[m].forget_cache())
            assert load.running(), load.wait()
    settle(c.nbd)
    check_copies(c, model_of(c, "raid-x", UNIT, GROUPS), content(c.nbd))


@pytest.mark.long(50)
def test_zeroes_are_written(broken, seed):
    """A disk that can't punch holes or zero ranges is written instead."""
    rng = random.Random(seed)
    c, disks = broken
    h = connected(c.nbd)
    size = h.get_size() // UNIT * UNIT
    at = 0

    def ask(_):
        nonlocal at
        for _ in range(MEMBERS):  # or it would mostly wait to be called again
            h.pwrite(b"z" * UNIT, at)
            rng.choice([h.zero, h.trim])(UNIT, at)
            at = (at + UNIT) % size

    for bad in rounds(rng):
        still_in_use(c, disks, bad, "zero", ask)
    h.flush()
    check_copies(c, model_of(c, "raid-x", UNIT, GROUPS),
                 lambda at, n: bytes(n))


def test_nobody_can_flush(cluster, seed):
    """FLUSH waits for the last copy, and says that it may have lost something
    when that is back."""
    c = cluster(layout="raid-1", members=2, unit=UNIT, size="16M",
                env=OVER_NBDKIT)
    names = ["m0", "m1"]
    data = seed.to_bytes(4, "little") * (UNIT // 4)
    with filterdisks(c) as disks:
        for m in (0, 1):
            start_over(c, disks, {m: 1}, "flush", errno.EIO)
        h = connected(c.nbd)
        h.pwrite(data, 0)
        h.flush()
        for d in disks:
            d.arm()
        h.pwrite(data, UNIT)
        cookie = h.aio_flush()
        eventually(lambda: all(d.failed() for d in disks) or h.poll(10))
        for d in disks:
            d.heal()
        c.restart(*names)
        while h.aio_in_flight():
            h.poll(100)
        with refuses("EIO"):
            h.aio_command_completed(cookie)
        # It said so of what was written before it; the next one says so of what
        # was written while it waited.
        with contextlib.suppress(nbd.Error):
            h.flush()
        wait_in_sync(c)
        h.pwrite(data, 2 * UNIT)
        h.flush()
        assert h.pread(UNIT, 0) == h.pread(UNIT, 2 * UNIT) == data
        check_copies(c, model_of(c, "raid-1", UNIT), content(c.nbd))
