"""The disk of a member fails at every n-th call.

Topology: one raid-x devcluster, four groups of three members, over disks that
          fail on demand (everynth.c); a client that knows what each FLUSH has
          promised writes all along, or fio verifies.
Cause: n = 1..30, four at a time: reads, writes (EIO and ENOSPC) and flushes of
       one member in each group; then its process starts again over a healthy
       disk.
Pass:  the client sees no error.  Unreadable blocks are read elsewhere, and
       their member stays in-sync; a failed write or flush has it out, and it
       says why; started again it comes back in-sync by itself; no flushed block
       is lost and all copies are alike.
"""

import errno
import os
import random

import pytest

from arraystate import content, states, wait_failed, wait_in_sync, writing
from copies import check_copies, model_of
from faultydisk import FaultyDisk, faulty
from fiojob import Fio
from wefttest import eventually

UNIT = 64 << 10
GROUPS, MEMBERS = 4, 12
UP_TO = 30


@pytest.fixture
def broken(cluster, tmp_path):
    """A cluster, and its disks, to be broken."""
    c = cluster(layout="raid-x", members=MEMBERS, groups=GROUPS, unit=UNIT,
                size="16M", env=faulty(tmp_path))
    return c, [FaultyDisk(m["file"]) for m in c.members]


def rounds(rng):
    """{member: n}, a member of each group, in turn, so that none flaps."""
    every = list(range(1, UP_TO + 1))
    rng.shuffle(every)
    width = MEMBERS // GROUPS
    first = rng.randrange(width)
    for r, at in enumerate(range(0, UP_TO, GROUPS)):
        yield {g * width + (first + r) % width: n
               for g, n in enumerate(every[at:at + GROUPS])}


@pytest.mark.parametrize("call,error", [
    ("write", errno.EIO), ("write", errno.ENOSPC), ("flush", errno.EIO)])
def test_member_is_out_and_comes_back(broken, seed, call, error):
    rng = random.Random(seed)
    c, disks = broken
    with writing(c, rng):
        for bad in rounds(rng):
            wait_in_sync(c)
            for m, n in bad.items():
                disks[m].fail(call, n, error)
            for m in bad:
                wait_failed(c, m, os.strerror(error))
                assert disks[m].failed(call) >= 1
                disks[m].heal()
            names = [f"m{m}" for m in bad]
            c.kill(*names)
            c.start(*names)
        wait_in_sync(c)
    check_copies(c, model_of(c, "raid-x", UNIT, GROUPS), content(c.nbd))


def test_reads_are_answered_by_others(broken, seed):
    c, disks = broken
    with Fio(c.nbd, jobs=2, depth=4, size="12M", rw="randrw", bs="4k-64k",
             seed=seed % 2 ** 31, loops=1000, verify_backlog=64) as load:
        for bad in rounds(random.Random(seed)):
            for m, n in bad.items():
                disks[m].fail("read", n, errno.EIO)
            for m in bad:
                eventually(lambda m=m: disks[m].failed("read") > 3)
                disks[m].heal()
            assert load.running(), load.wait()
    assert set(states(c)) == {"in-sync"}
    check_copies(c, model_of(c, "raid-x", UNIT, GROUPS), content(c.nbd))
