"""weftctl commands for members that are out, on a real cluster: replace, spares, and control
of a rebuild.

Topology: one raid-x devcluster of four; a client that writes numbered blocks
          all the while; disks of 64 MiB, a third of them filled.
Causes: members killed; blank disks put in their place, by hand or because a
        spare's time has come; rebuilds paused, slowed, cancelled.
Pass:  weftctl shows the progress, and its settings hold; the client sees no error; in the end
       all copies on the members' files are as written.
"""

import json
import random
import re
import time
from datetime import datetime

import pytest

from arraystate import content, members, states, wait_state, writing
from blockwriter import BLOCK, BLOCKS
from copies import EXTENT, check_copies, model_of
from nbdclient import connected
from weftctlproc import FAILED, REFUSED, ctl
from wefttest import eventually

MIB = 1 << 20
UNIT = 64 << 10
FILLED = 40 * MIB
BLANK = 63 * MIB  # to copy when a disk is new


class Scene:
    def __init__(self, cluster, ctl, seed):
        self.rng = random.Random(seed)
        self.c = cluster(members=4, unit=UNIT, size="64M", io_timeout=2000)
        self.model = model_of(self.c, "raid-x", UNIT)
        self.ctl = ctl(self.c)
        self.data = self.rng.randbytes(FILLED)
        h = connected(self.c.nbd)
        # Behind the blocks of the client.
        for at in range(0, FILLED, 8 * MIB):
            h.pwrite(self.data[at:at + 8 * MIB], 2 * MIB + at)
        h.flush()
        h.shutdown()

    def lose(self, number):
        """Returns when weftd has recorded it."""
        self.c.kill(f"m{number}")
        return wait_state(self.c, number, "out")

    def rebuild(self, number):
        return members(self.c)[number]["rebuild"]

    def progress(self, number, phase):
        r = self.rebuild(number)
        return r and r["phase"] == phase and r

    def wait(self, number):
        assert self.ctl("rebuild", "wait", "a", number).endswith("in-sync\n")

    def check(self, lost=()):
        h = connected(self.c.nbd)
        for at in range(0, FILLED, 8 * MIB):
            assert h.pread(8 * MIB, 2 * MIB + at) == \
                self.data[at:at + 8 * MIB], f"at {at}"
        h.shutdown()
        check_copies(self.c, self.model, content(self.c.nbd), lost)


@pytest.fixture
def scene(cluster, ctl, seed):
    return Scene(cluster, ctl, seed)


def test_replace(scene):
    """A blank disk for a dead one; then another member dies; and the first one
    comes back to find its place taken."""
    c, w = scene.c, scene.ctl
    with writing(c, scene.rng) as writer:
        _, disk = c.add()
        first = members(c)[1]["disk"]
        said = w("array", "replace", "a", 1, disk, "--yes")
        assert "which moves to it" in said
        w("rebuild", "wait", "a", 1)
        assert members(c)[1]["disk"] == disk
        disk = first
        eventually(lambda: not c.get(f"/api/v1/disks/{disk}")["releasing"])
        scene.lose(2)
        assert "in-sync" in w("array", "replace", "a", 3, disk, "--yes",
                              status=REFUSED)
        said = w("array", "replace", "a", 2, disk, "--yes")
        assert disk in said and "rebuild wait a 2" in said
        assert members(c)[2]["disk"] == disk
        scene.wait(2)
    scene.check()
    with writing(c, scene.rng, writer) as writer:
        scene.lose(0)
    scene.check(lost=(0,))
    with writing(c, scene.rng, writer):
        c.start("m0")
        scene.wait(0)
        # It lets go of the array, and is free for any other.
        c.start("m2")
        old = eventually(lambda: [d for d in c.get("/api/v1/disks")["disks"]
                                  if d["path"] == c.members[2]["file"]
                                  and d["alive"]])[0]
        assert old["array"] is None and states(c) == ["in-sync"] * 4
        w("array", "spare", "add", "a", old["uuid"])
    scene.check()


def test_steering(scene):
    """Each command while a blank disk is filled, and what it copies then."""
    c, w = scene.c, scene.ctl
    # Extents that the client writes must be copied again whenever the member is away.
    again = len(scene.model.stale(1, range(BLOCKS * BLOCK // UNIT))) * EXTENT
    c.terminate("array")  # which leaves all other extents clean
    c.start("array")
    scene.lose(1)
    _, disk = c.add()
    w("rebuild", "pause", "a", 1)
    with writing(c, scene.rng):
        w("array", "replace", "a", 1, disk, "--yes")
        eventually(lambda: scene.progress(1, "copying"),
                   what="the member to know what is to do")
        assert "paused" in w("rebuild", "ls")
        time.sleep(1.5)
        r = scene.rebuild(1)
        assert r["copied_bytes"] == 0 and r["paused"] and r["eta_s"] is None
        assert "is paused: weftctl rebuild resume a 1" in w("status")
        exposed = c.get("/api/v1/arrays/a")["exposed_bytes"]
        assert exposed > 0
        assert r["todo_bytes"] == r["total_bytes"] == BLANK

        w("rebuild", "rate", "a", 1, "--ceiling", "4M")
        w("rebuild", "resume", "a", 1)

        def copied():
            at = time.monotonic()
            return scene.rebuild(1)["copied_bytes"] and \
                (at, scene.rebuild(1)["copied_bytes"])
        begin, first = eventually(copied, every=0.02)
        time.sleep(3)
        r = scene.rebuild(1)
        passed = time.monotonic() - begin
        # The copies in flight, and a second's delay of the reports.
        assert r["copied_bytes"] - first <= (passed + 2) * 4 * MIB, r
        assert r["phase"] == "copying" and r["sources"] == [0, 2, 3]

        def stable():
            return BLANK - scene.rebuild(1)["todo_bytes"]
        eventually(lambda: stable() > again)
        kept = stable()
        assert 0 < c.get("/api/v1/arrays/a")["exposed_bytes"] < exposed
        row = json.loads(w("rebuild", "ls", "--json"))["rebuilds"][0]
        assert (row["array"], row["member"], row["ceiling"]) == \
            ("a", 1, 4 * MIB)

        w("rebuild", "cancel", "a", 1, "--yes")
        held = wait_state(c, 1, "out")
        assert held["held"] and "cancelled" in held["reason"]
        assert "cancelled" in w("rebuild", "wait", "a", 1, status=FAILED)
        assert w("rebuild", "ls").count("\n") == 1  # the heading
        time.sleep(2)  # its disk is well, but nobody takes it back
        assert states(c)[1] == "out"

        w("rebuild", "join", "a", 1)
        # Data copied before is there.
        r = eventually(lambda: scene.progress(1, "copying"), every=0.02)
        assert r["total_bytes"] <= BLANK - kept + again, (kept, again)
        assert r["ceiling"] == 4 * MIB
        w("rebuild", "rate", "a", 1, "--floor", "200M", "--ceiling", 0)
        scene.wait(1)
        assert states(c) == ["in-sync"] * 4
    scene.check()


@pytest.mark.long(20)
def test_spare(scene):
    """The countdown is shown.  It ends when the member is back, or must stay out; otherwise
    the spare takes its place."""
    c, w = scene.c, scene.ctl
    _, disk = c.add()

    def countdown():
        return members(c)[3]["spare_at"]

    w("array", "spare", "add", "a", disk)
    w("array", "set", "a", "--spare-after", 60)
    assert re.search(rf"^{disk} .* a +spare ", w("disk", "ls"), re.MULTILINE)
    with writing(c, scene.rng):
        scene.lose(3)
        at = eventually(countdown, what="the countdown")
        # weftd computes it again each time from two clocks, to the millisecond.
        for shown in (
                re.search(r"a spare takes the place of 3 at (\S+Z)",
                          w("array", "show", "a")),
                re.search(r"a spare takes its place at (\S+Z)", w("status"))):
            apart = (datetime.fromisoformat(shown[1])
                     - datetime.fromisoformat(at))
            assert abs(apart.total_seconds()) < 0.1
        c.start("m3")
        scene.wait(3)
        assert countdown() is None
        assert c.get("/api/v1/arrays/a")["spares"] == [disk]

        scene.lose(3)
        eventually(countdown)
        w("rebuild", "cancel", "a", 3, "--yes")
        assert countdown() is None
        w("array", "set", "a", "--spare-after", 1)
        time.sleep(3)
        assert c.get("/api/v1/arrays/a")["spares"] == [disk]
        w("rebuild", "join", "a", 3)
        eventually(lambda: members(c)[3]["disk"] == disk,
                   what="the spare to take the place")
        scene.wait(3)
        assert c.get("/api/v1/arrays/a")["spares"] == []
    assert "was replaced by a spare" in c.log("weftd")
    scene.check()


@pytest.mark.long(20)
def test_no_spare_where_nobody_waits_for_one(scene):
    """--spare-after 0, and a spare that is taken away again."""
    c, w = scene.c, scene.ctl
    _, disk = c.add()
    w("array", "spare", "add", "a", disk)
    w("array", "set", "a", "--spare-after", 0)
    with writing(c, scene.rng):
        scene.lose(0)
        eventually(lambda: not members(c)[0]["alive"])
        assert members(c)[0]["spare_at"] is None
        w("array", "set", "a", "--spare-after", 3600)
        assert members(c)[0]["spare_at"]
        w("array", "spare", "rm", "a", disk)
        assert members(c)[0]["spare_at"] is None
        # By hand it is taken at once.
        w("array", "replace", "a", 0, disk, "--yes")
        scene.wait(0)
    scene.check()
