"""Members lose their power, and with it what was not flushed.

Topology: one devcluster over volatile disks (tests/volatile/volatile.c).
Cause: while a client writes and flushes, one member, or all processes of the
       cluster at one moment, are killed, and the members' unflushed writes
       are taken back at random, some of each.
Pass:  after the next start every block that was flushed has its last flushed
       value or one that was written later; the copies are alike; bits fall.
"""

import random
import time

import pytest

from arraystate import away
from blockwriter import Writer
from copies import check_copies, model_of
from powercut import power_cut, volatile
from wefttest import picked

UNIT = 64 << 10
# A cut may find everything flushed: then there are more.
CUTS, ENOUGH = 3, 12
# A new array process need not wait for the dead one's silence.
AT_ONCE = {"WEFT_ARRAY_ARGS": "takeover=true"}


@pytest.mark.long(30)
@pytest.mark.parametrize("layout,members", picked([("raid-x", 4), ("raid-10", 4),
                                                   ("raid-1", 3)], 2))
def test_power_of_all(cluster, seed, layout, members):
    rng = random.Random(seed)
    c = cluster(layout=layout, members=members, unit=UNIT, size="64M",
                env=volatile(AT_ONCE))
    names = ["array", "weftd"] + [m["name"] for m in c.members]
    doubtful = lost = flushes = 0
    writer = Writer(c.nbd, rng)
    for cut in range(ENOUGH):
        if cut >= CUTS and lost > 0:
            break
        writer.start()
        writer.until_flushed(rng.randrange(2, 30))
        time.sleep(0.02)
        rng.shuffle(names)
        c.kill(*names)
        writer.broken()
        for m in c.members:
            d, n = power_cut(m["file"], rng)
            doubtful, lost = doubtful + d, lost + n
        c.up()
        flushes += writer.flushes
        writer.check(c.nbd)
        check_copies(c, model_of(c, layout, UNIT))
        writer = Writer(c.nbd, rng, after=writer)
    print(f"{flushes} FLUSHes, {doubtful} writes in doubt, {lost} lost")
    assert flushes > 0 and lost > 0


@pytest.mark.long(30)
@pytest.mark.parametrize("layout,members", picked([("raid-x", 4), ("raid-10", 4)]))
def test_power_of_a_member(cluster, seed, layout, members):
    """The writer sees no error; the member is caught up."""
    rng = random.Random(seed)
    c = cluster(layout=layout, members=members, unit=UNIT, size="64M",
                env=volatile())
    writer = Writer(c.nbd, rng)
    writer.start()
    lost = 0
    for cut in range(ENOUGH):
        if cut >= CUTS and lost > 0:
            break
        writer.until_flushed(rng.randrange(2, 30))
        m = rng.randrange(members)
        with away(c, m):
            lost += power_cut(c.members[m]["file"], rng)[1]
    writer.end()
    writer.check(c.nbd)
    check_copies(c, model_of(c, layout, UNIT))
    assert lost > 0
