"""A joining member that fetches from the others what it lacks: real member
processes and real NBD, with weftd and the host played (memberscene.py).

Topology: two or three members; the last one is joining, the others are in-sync.
Causes: blank and outdated joiners, writes beside the copying, kill -9 of the
joiner and of a source, unreadable and failed sources, rates and pauses.
Pass:  the joiner ends `synced` with what its layout says byte by byte, and
tells at any time how far it is and whom it waits for.
"""

import os
import random
import signal
import time

import nbd
import pytest

from badspots import fail_flush, mend, preload, spoil
from memberhost import CLEAR, batch
from memberscene import EXTENT, HEADER, MIB, UNIT, scene
from wefttest import Process, Stopwatch, eventually, picked

LAYOUTS = [("raid-x", 3), ("raid-x", 4), ("raid-10", 4), ("chained", 3),
           ("rotated", 4), ("raid-1", 2), ("raid-1", 3)]


def blank(scene, rnd, layout="raid-1", members=2, **more):
    """Members 0... hold random data; the last one is blank and about to join.
    """
    s = scene(layout=layout, members=members, **more)
    s.states[-1] = "out"
    s.start(joiner=False)
    s.fill(rnd, s.doors(joiner=False))
    s.joiner.start()
    return s


# --- Copying ------------------------------------------------------------------------


@pytest.mark.parametrize("layout, members", picked(LAYOUTS, 3))
def test_blank_joiner_is_filled(scene, seed, layout, members):
    rnd = random.Random(seed)
    s = blank(scene, rnd, layout=layout, members=members)
    s.begin()
    p = s.done()
    half = 60 * MIB - p["copied_bytes"]
    assert 0 <= half < 2 * MIB, p  # the part that the layout leaves unused
    assert p["todo_bytes"] == 0 and p["unreadable_bytes"] == 0
    assert p["waits"] is None
    h = s.joiner.heard
    assert (h["layout"], h["n"], h["unit"]) == (layout, members, UNIT)
    assert h["states"] == s.states and h["dup"] == "async-client"
    assert h["member_bytes"] == 60 * MIB
    eventually(lambda: s.short_answers > 2 * members)  # they go on by these
    assert s.joiner.heard["join"]["phase"] == "synced"


@pytest.mark.parametrize("unit", [4096, 4 * MIB])
def test_units_of_any_size(scene, seed, unit):
    s = blank(scene, random.Random(seed), "raid-x", 3, unit=unit, size=37 * MIB)
    s.begin()
    s.done()


def test_holes_stay_holes(scene, seed):
    """Also where the joiner holds something old, which must go."""
    s = scene(layout="raid-1", members=2)
    s.start()
    rnd = random.Random(seed)
    doors = s.doors()
    s.fill(rnd, doors, range(s.model.units // 2))
    s.out()
    s.write([doors[0], None], 100, bytes(UNIT))
    doors[0].trim(8 * MIB, 0)
    s.content[:8 * MIB] = bytes(8 * MIB)
    s.content[100 * UNIT:101 * UNIT] = bytes(UNIT)
    s.begin()
    p = s.done()
    blocks = [d.file.stat().st_blocks * 512 for d in s.disks]
    assert abs(blocks[0] - blocks[1]) < MIB, blocks
    assert p["copied_bytes"] <= 30 * MIB - 8 * MIB


@pytest.mark.parametrize("layout, members", picked([("raid-x", 3), ("raid-10", 4),
                                                    ("raid-1", 3), ("chained", 3)], 2))
def test_catch_up_reads_what_is_dirty(scene, seed, layout, members):
    """To the byte: our units that have another copy in an extent that became
    dirty elsewhere, and what shares an extent with them here."""
    rnd = random.Random(seed)
    s = scene(layout=layout, members=members).start()
    doors = s.doors()
    s.fill(rnd, doors)
    for d in s.disks:
        d.open(door="batch").pwrite(batch((CLEAR, 0, 60 * MIB)), 0)
    eventually(lambda: all(d.heard["dirty_extents"] == 0 for d in s.disks))
    s.out()
    touched = rnd.sample(range(s.model.units), 2)
    s.fill(rnd, doors[:-1] + [None], touched)

    me = s.joiner.number
    ours = s.model.stale(me, touched)
    units = sum(p[0] == me and p[1] * UNIT // EXTENT in ours
                for a in range(s.model.units) for p in s.model.copies(a))
    s.begin()
    p = s.done()
    assert p["copied_bytes"] == units * UNIT, (touched, ours)


@pytest.mark.parametrize("layout, members", [("raid-x", 3), ("raid-1", 2)])
def test_writes_beside_the_copying(scene, seed, layout, members):
    """Dropped, held or carried out: in the end all is there.  From before the
    order is given until after the last extent is copied."""
    rnd = random.Random(seed)
    s = blank(scene, rnd, layout=layout, members=members)
    s.states[-1] = "joining"
    s.next_epoch()
    s.joiner.min_epoch = s.epoch
    s.say()
    eventually(lambda: s.joiner.heard["min_epoch"] >= s.epoch)
    doors = s.doors()
    phases = set()

    def some(count=20):
        for _ in range(count):
            phases.add(s.progress["phase"])
            a = rnd.randrange(s.model.units)
            s.write(doors, a, rnd.randbytes(UNIT))
    some()
    s.order(s.epoch, rate=30 * MIB)
    while s.progress["phase"] != "synced":
        some()
    some()
    for h in doors:
        h.flush()
    assert {"waiting", "copying"} <= phases, phases
    s.check()


# --- Deaths -----------------------------------------------------------------------


def test_killed_joiner_goes_on(scene, seed):
    """kill -9 at random moments, with writes beside the copying; every start
    is a new epoch, as weftd makes it."""
    rnd = random.Random(seed)
    s = blank(scene, rnd, "raid-x", 3)
    s.begin(rate=40 * MIB)
    todo = 60 * MIB
    for _ in range(6):
        doors = s.doors()
        end = time.monotonic() + rnd.random()
        while time.monotonic() < end:
            s.write(doors, rnd.randrange(s.model.units), rnd.randbytes(UNIT))
        s.joiner.kill()
        s.write(doors[:-1] + [None], rnd.randrange(s.model.units),
                rnd.randbytes(UNIT))
        s.join = None
        s.joiner.start()
        s.begin(rate=40 * MIB)
    s.order(rate=0)
    s.done()


def test_source_that_dies_is_waited_for(scene, seed):
    s = blank(scene, random.Random(seed), "raid-x", 3)
    s.begin(rate=8 * MIB)
    s.copied_some()
    s.disks[1].kill()
    eventually(lambda: (s.progress["waits"] or "").startswith("member 1 "))
    assert s.disks[1].uri in s.progress["waits"]
    assert "rebuild waits for member 1" in s.joiner.log.read_text()
    s.revive(1, rate=0)
    p = s.done()
    assert p["waits"] is None and p["unreadable_bytes"] == 0


def test_source_that_forgets_is_read_again(scene, seed):
    """The power of a source goes after it was read, and with it what was not
    flushed there: the joiner keeps none of that."""
    rnd = random.Random(seed)
    s = blank(scene, rnd)
    old = bytes(s.content)
    doors = s.doors(joiner=False)
    for unit in range(s.model.units):
        s.write(doors, unit, rnd.randbytes(s.unit))
    s.begin(rate=8 * MIB)
    s.copied_some(8 * MIB)
    Process(s.disks[0].pid).stop()
    time.sleep(0.5)  # its acknowledged data is kept
    unstable = s.joiner.dirty()
    s.disks[0].kill()
    with open(s.disks[0].file, "r+b") as f:
        for extent in unstable:
            at = extent * EXTENT
            f.seek(HEADER + at)
            f.write(old[at:at + EXTENT])
            s.content[at:at + EXTENT] = old[at:at + EXTENT]
    s.revive(0, rate=0)
    s.done()


def test_source_that_hangs_holds_nothing_for_long(scene, seed):
    """A write that waits for an extent that waits for a stopped source."""
    s = blank(scene, random.Random(seed))
    s.begin(rate=8 * MIB)
    doors = s.doors()
    s.copied_some()
    Process(s.disks[0].pid).stop()
    eventually(lambda: "no answer" in (s.progress["waits"] or ""))
    watch = Stopwatch(disk=True)
    for e in range(15):
        doors[1].pwrite(s.content[e * EXTENT:e * EXTENT + UNIT], e * EXTENT)
    assert watch.seconds() < 12
    watch = Stopwatch(disk=True)
    s.joiner.end()  # it does not delay the end
    assert watch.seconds() < 10
    os.kill(s.disks[0].pid, signal.SIGCONT)
    s.joiner.start()
    s.begin()
    s.done()


def test_unreadable_blocks_are_passed(scene, seed, tmp_path):
    """Two sectors, and two blocks side by side."""
    s = blank(scene, random.Random(seed), env={0: preload(tmp_path)})
    bad = [(5 * MIB + 512, 512, 1), (9 * MIB, 1, 1), (33 * MIB + 100, 8000, 2)]
    spoil(s.disks[0].file, *((at, n) for at, n, _ in bad))
    s.begin()
    p = s.synced()
    assert p["unreadable_bytes"] == 4 * 4096, p
    assert p["copied_bytes"] == s.model.size - 4 * 4096
    log = s.joiner.log.read_text()
    for at, _, blocks in bad:
        at -= at % 4096
        s.content[at:at + 4096 * blocks] = bytes(4096 * blocks)
        assert f"{4096 * blocks} bytes at {at} of the data area of member 0" \
            in log, log
    mend(s.disks[0].file)
    s.check(lost=[0])


def test_unreadable_blocks_come_from_another_copy(scene, seed, tmp_path):
    s = blank(scene, random.Random(seed), layout="raid-1", members=3,
              env={0: preload(tmp_path)})
    spoil(s.disks[0].file, (5 * MIB, 20000))
    s.begin()
    p = s.synced()
    assert p["unreadable_bytes"] == 0 and p["copied_bytes"] == s.model.size
    s.check()


def test_failed_source_is_no_unreadable_one(scene, seed, tmp_path):
    """It answers EIO to everything; nothing of that may count as copied."""
    s = blank(scene, random.Random(seed), env={0: preload(tmp_path)})
    h = s.disks[0].open()
    fail_flush(s.disks[0].file)
    with pytest.raises(nbd.Error):
        h.flush()
    s.begin()
    eventually(lambda: "member 0" in (s.progress.get("waits") or ""))
    time.sleep(2)
    p = s.progress
    assert p["unreadable_bytes"] == 0 and p["phase"] != "synced", p
    s.revive(0)
    s.done()


def test_source_that_fails_midway(scene, seed, tmp_path):
    """Between two extents, its doors open."""
    s = blank(scene, random.Random(seed), env={0: preload(tmp_path)})
    s.begin(rate=8 * MIB)
    s.copied_some()
    fail_flush(s.disks[0].file)
    eventually(lambda: "member 0" in (s.progress["waits"] or ""))
    s.order(rate=0)
    time.sleep(2)
    p = s.progress
    assert p["unreadable_bytes"] == 0 and p["phase"] == "copying", p
    s.revive(0)
    p = s.synced()
    assert p["unreadable_bytes"] == 0
    s.check()


# --- Steering -----------------------------------------------------------------------


def test_rate_and_pause(scene, seed):
    """Counted in bytes: never more than the rate and one extent; nothing while
    paused; both at once when they are changed."""
    s = blank(scene, random.Random(seed))
    rate = 3 * MIB
    begin = time.monotonic()
    s.begin(rate=rate)
    while time.monotonic() - begin < 5:
        p = s.progress
        most = rate * (time.monotonic() - begin + 0.5) + EXTENT
        assert p.get("copied_bytes", 0) <= most, p
        time.sleep(0.05)
    eventually(lambda: s.progress["copied_bytes"] >= 2 * EXTENT)
    assert 0 < s.progress["rate"] < 2 * rate
    s.order(paused=True, rate=0)
    s.say()

    def rests():
        p = s.progress
        time.sleep(2)
        return s.progress["copied_bytes"] == p["copied_bytes"]
    eventually(rests)  # copies under way are done first
    assert s.progress["copied_bytes"] < s.model.size
    assert s.progress["phase"] == "copying"
    s.order(paused=False)
    p = s.synced()
    assert p["copied_bytes"] == s.model.size
    s.check()


def test_order_withdrawn(scene, seed):
    """The member is taken out midway: it copies nothing any more, its threads
    end, and what it lacks stays marked."""
    s = blank(scene, random.Random(seed))
    threads = lambda: len(os.listdir(f"/proc/{s.joiner.pid}/task"))
    eventually(lambda: s.joiner.said >= 2)  # registered, and then by its own thread
    before = threads()
    s.begin(rate=8 * MIB)
    s.copied_some()
    assert threads() > before
    s.out()
    eventually(lambda: s.joiner.heard["join"] is None)
    eventually(lambda: threads() <= before)
    assert 0 < s.joiner.heard["dirty_extents"] <= 15
    s.begin()
    s.done()
