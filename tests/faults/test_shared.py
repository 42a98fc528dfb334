"""Several array processes write one array at the same time, each a part of it.

Topology: a devcluster with two or three array processes, over four members.
Cause: an array process is killed, or stopped for longer than its TTL; a member or weftd
       is killed and started again; all processes write meanwhile.  Forbidden requests
       are tried.
Pass:  The other processes see no error, and wait no longer than the product's constants
       say. Each process reads every acknowledged write, also in the parts of others. No
       block is torn unless a write of it was under way. The next owner of a dead
       process's part finds every flushed byte. Refused requests change nothing. In the
       end all copies are alike, and no extent is dirty.
"""

import errno
import random
import time

import nbd
import pytest

from arraystate import (away, content, in_sync, states, wait_clean, wait_in_sync,
                        wait_state)
from blockwriter import BLOCK, BLOCKS
from copies import check_copies, model_of
from nbdclient import connected, refuses
from nbdkitproc import Nbdkit, array_of, refused
from sharedwriters import all_write as writing_places
from wefttest import ALL, Stopwatch, eventually, picked

UNIT = 64 << 10
TTL_S = 10    # SESSION_TTL_MS
# The connections of a killed member break, so its loss is found at once. If a session is
# silent, the change waits until weftd has ended that session, and hosts hear of the change
# a tick and a heartbeat later.
LOSS_S = TTL_S + 5


def make(cluster, layout="raid-x", writers=3, **options):
    return cluster(layout=layout, members=2 if layout == "raid-1" else 4,
                   unit=UNIT, size="32M", writers=writers, **options)


def places(part):
    """At both ends of the part, where extents are shared with the neighbours."""
    end, half = part["offset"] + part["length"], BLOCKS // 2
    return [part["offset"] + b * BLOCK for b in range(half)] + \
        [end - (b + 1) * BLOCK for b in range(half)]


def all_write(c, rng):
    return writing_places(c, rng, [places(a["part"]) for a in c.arrays])


def check_all(c, layout="raid-x"):
    wait_in_sync(c)
    check_copies(c, model_of(c, layout, UNIT), content(c.nbd))
    wait_clean(c)


def check_after_deaths(c, layout="raid-x"):
    """If a dead process left intent bits in an extent that it shared with a neighbour,
    the bits stay until a process attaches the whole array."""
    wait_in_sync(c)
    check_copies(c, model_of(c, layout, UNIT), content(c.nbd))
    c.terminate(*(a["name"] for a in c.arrays))
    with Nbdkit(*array_of(c)) as alone:
        check_copies(c, model_of(c, layout, UNIT), content(alone.uri))
        wait_clean(c)


def nodes(c):
    return {s["node"] for s in c.get("/api/v1/sessions")["sessions"]}


@pytest.mark.long(20)
@pytest.mark.parametrize("layout, writers", picked([
    ("raid-x", 2), ("raid-x", 3), ("raid-10", 3), ("raid-1", 2), ("chained", 3)], 2))
def test_all_write_at_once(cluster, seed, layout, writers):
    c = make(cluster, layout, writers)
    epoch = c.get("/api/v1/arrays/a")["epoch"]
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(30)
    assert c.get("/api/v1/arrays/a")["epoch"] == epoch
    check_all(c, layout)


@pytest.mark.long(30)
@pytest.mark.parametrize("layout", picked(["raid-x", "raid-10"]))
def test_one_is_killed(cluster, seed, layout):
    c = make(cluster, layout)
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(5)
        reader = w.lose(1)
        c.kill("array1")
        w.all[1].broken()
        reader.join(30)
        w.until_flushed(20, but=[1])
        # Its host knows that the process has ended, so the next one need not wait for
        # the TTL.
        watch = Stopwatch(disk=True)
        c.start("array1")
        assert watch.seconds() < TTL_S
        w.go_on(1)
        w.until_flushed(5)
        assert w.longest() < TTL_S
    check_after_deaths(c, layout)


@pytest.mark.long(40)
def test_one_is_killed_and_stays_away(cluster, seed):
    """weftd ends the dead session by itself, and requests that waited for it go on.
    Another process resynchronizes its part: each copy then has every write that was
    acknowledged and that others have read."""
    c = make(cluster)
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(5)
        w.lose(2).join(30)
        part, other = c.arrays[2]["part"], connected(c.nbd)
        read = [part["offset"] + k * UNIT for k in range(20, 36)]
        victim = connected(c.arrays[2]["uri"])
        for at in read:
            victim.pwrite(b"v" * BLOCK, at)
        c.kill("array2")
        w.all[2].broken()
        assert all(other.pread(BLOCK, at) == b"v" * BLOCK for at in read)
        eventually(lambda: nodes(c) == {"n0", "n1"}, TTL_S + 5,
                   what="weftd to end it")
        eventually(lambda: "resynchronizing its last writes" in c.log("array") + c.log("array1"),
                   what="another one to recover its part")
        eventually(lambda: "older data" not in c.get("/api/v1/status")["verdict"],
                   what="the end of that")
        assert c.get("/api/v1/nodes/n3/ok-to-stop")["ok"]
        with away(c, 3):
            wait_state(c, 3, "out")
            assert all(other.pread(BLOCK, at) == b"v" * BLOCK for at in read)
            w.until_flushed(5, but=[2])
        assert w.longest(but=[2]) < TTL_S
        c.start("array2")
        w.go_on(2)
        w.until_flushed(5)
    check_after_deaths(c)


@pytest.mark.long(40)
def test_one_is_killed_with_a_member(cluster, seed):
    """The change waits until weftd has ended the dead, silent session."""
    c = make(cluster)
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(5)
        w.lose(0).join(30)
        c.kill("array", "m2")
        w.all[0].broken()
        wait_state(c, 2, "out", LOSS_S)
        w.until_flushed(5, but=[0])
        assert w.longest(but=[0]) < LOSS_S
        c.start("m2", "array")
        w.go_on(0)
        wait_in_sync(c)
        w.until_flushed(5)
    check_after_deaths(c)


class Late:
    """Writes that a process has received, but not answered."""

    def __init__(self, uri):
        self.handle, self.buffers, self.errors = connected(uri), [], []

    def write(self, byte, places):
        for at in places:
            buf = nbd.Buffer.from_bytearray(bytearray(byte) * BLOCK)
            self.buffers.append(buf)  # libnbd copies nothing
            self.handle.aio_pwrite(buf, at, self.answered)

    def answered(self, error):
        self.errors.append(getattr(error, "value", error))
        return 1

    def wait(self):
        while len(self.errors) < len(self.buffers):
            assert self.handle.poll(30_000) > 0, "no answer for 30 s"


@pytest.mark.long(40)
def test_one_is_stopped(cluster, seed):
    """If a process is stopped for longer than its TTL, its session ends, and it
    completes nothing afterwards."""
    c = make(cluster)
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(5)
        late = Late(c.arrays[1]["uri"])
        w.lose(1)
        c.stop("array1")
        late.write(b"L", w.all[1].places)
        eventually(lambda: nodes(c) == {"n0", "n2"}, TTL_S + 5,
                   what="weftd to end it")
        c.kill("m1")
        wait_state(c, 1, "out", LOSS_S)
        w.until_flushed(5, but=[1])
        assert w.longest(but=[1]) < TTL_S

        other = connected(c.nbd)
        before = [other.pread(BLOCK, at) for at in w.all[1].places]
        c.may_end("array1")
        c.cont("array1")
        late.wait()
        assert set(late.errors) == {errno.ESHUTDOWN}
        w.all[1].broken()
        assert w.all[1].error.errno == "ESHUTDOWN"
        assert [other.pread(BLOCK, at) for at in w.all[1].places] == before

        c.start("m1")
        if c.running("array1"):
            c.kill("array1")
        c.start("array1")
        w.go_on(1)
        wait_in_sync(c)
        w.until_flushed(5)
    check_after_deaths(c)


@pytest.mark.long(30)
@pytest.mark.parametrize("layout", picked(["raid-x", "raid-10", "raid-1"]))
def test_a_member_is_killed(cluster, seed, layout):
    c = make(cluster, layout, 2)
    with all_write(c, random.Random(seed)) as w:
        for m in (0, 1):
            with away(c, m):
                wait_state(c, m, "out")
                w.until_flushed(5)
            w.until_flushed(5)
        assert w.longest() < TTL_S
    check_all(c, layout)


@pytest.mark.long(30)
def test_weftd_is_killed(cluster, seed):
    """While weftd is down, all processes go on. After its restart they report again
    what weftd had not heard."""
    c = make(cluster)
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(5)
        for _ in range(3):
            c.kill("weftd")
            w.until_flushed(10)
            c.start("weftd")
            w.until_flushed(3)
        with away(c, 2):
            wait_state(c, 2, "out")
            w.until_flushed(5)
        assert nodes(c) == {"n0", "n1", "n2"}
    check_all(c)


@pytest.mark.long(100)
def test_one_thing_after_the_other(cluster, seed):
    rng = random.Random(seed)
    c = make(cluster)
    with all_write(c, rng) as w:
        for _ in range(12 if ALL else 6):
            victims = rng.sample(["weftd", f"m{rng.randrange(4)}", "array1",
                                  "array2"], rng.randint(1, 2))
            dead = [int(v[5:]) for v in victims if v.startswith("array")]
            for i in dead:
                w.lose(i)
            c.kill(*victims)
            for i in dead:
                w.all[i].broken()
            time.sleep(rng.choice([0, 0.5, 2]))
            if "weftd" in victims:
                c.start("weftd")
            c.start(*(v for v in victims if v != "weftd"))
            for i in dead:
                w.go_on(i)
            w.until_flushed(3)
            eventually(lambda: in_sync_again(c), 60, every=0.2,
                       what="all members in-sync")
        w.until_flushed(5)
    check_after_deaths(c)


def in_sync_again(c):
    """Skips the wait that a flapping member has to serve."""
    for m, state in enumerate(states(c)):
        if state == "out":
            c.call("POST", f"/api/v1/arrays/a/members/{m}/join")
    return in_sync(c)


def test_a_clean_end_leaves_nothing(cluster, seed):
    """A process that ends clears its intent bits, also in extents that it shares with a
    live neighbour."""
    c = make(cluster, writers=2)
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(5)
        w.all[0].end()
        w.until_flushed(5, but=[0])
        w.lose(1).join(30)
        w.all[1].end()
        c.terminate("array1")
        assert nodes(c) == {"n0"}
        wait_clean(c)
        c.start("array1")
        assert "copying them before" not in c.log("array1")
        w.go_on(1)
        w.until_flushed(5, but=[0])
    check_all(c)


# --- What is refused -------------------------------------------------------------


def part_words(c, offset, length=""):
    return [*array_of(c), "mode=shared", f"part={offset}+{length}"]


def test_a_write_elsewhere(cluster):
    """A write outside the own part is refused with EPERM, also if only its begin or its
    end is outside. Nothing changes."""
    c = make(cluster, writers=2)
    size = c.get("/api/v1/arrays/a")["size"]
    first, second = (connected(a["uri"]) for a in c.arrays)
    border = c.arrays[1]["part"]["offset"]
    assert first.get_size() == second.get_size() == size
    assert not second.is_read_only()
    first.pwrite(b"a" * UNIT * 2, border - UNIT * 2)
    second.pwrite(b"b" * UNIT * 2, border)
    first.flush()
    second.flush()
    for h, at in ((first, border), (first, border - 4096), (first, size - 8192),
                  (second, border - 4096), (second, border - 8192),
                  (second, 0), (second, border - 1)):
        for call in (lambda: h.pwrite(b"x" * 8192, at),
                     lambda: h.pwrite(b"x" * 8192, at, nbd.CMD_FLAG_FUA),
                     lambda: h.zero(8192, at), lambda: h.trim(8192, at)):
            with refuses("EPERM"):
                call()
    # A large write whose last byte alone is outside the part is refused, too.
    with refuses("EPERM"):
        first.pwrite(b"x" * (UNIT * 4), border - UNIT * 4 + 1)
    for h in (first, second):
        h.flush()
        assert h.pread(UNIT * 4, border - UNIT * 2) == \
            b"a" * UNIT * 2 + b"b" * UNIT * 2
        assert h.pread(8192, size - 8192) == bytes(8192)
    first.pwrite(b"y" * 8192, border - 8192)
    second.pwrite(b"z" * 8192, border)
    for h in (first, second):
        assert h.pread(16384, border - 8192) == b"y" * 8192 + b"z" * 8192


def test_what_does_not_go_together(cluster):
    c = make(cluster, writers=2)
    size = c.get("/api/v1/arrays/a")["size"]
    border = c.arrays[1]["part"]["offset"]
    before = c.get("/api/v1/arrays/a")["epoch"], nodes(c)
    # The whole array, beside parts; a part that another host has.
    line = refused(*array_of(c))
    assert "n0" in line or "n1" in line, line
    assert str(border) in line or "0 on" in line, line
    for offset, length, holder in ((0, UNIT, "n0"), (border - UNIT, UNIT, "n0"),
                                   (border, "", "n1"),
                                   (size - UNIT, UNIT, "n1")):
        line = refused(*part_words(c, offset, length))
        assert holder in line, line
    # Invalid parts and options.
    for words, *said in (
            (part_words(c, 1, UNIT), "stripe unit"),
            (part_words(c, 0, UNIT + 1), "stripe unit"),
            (part_words(c, 0, size + UNIT), str(size)),
            (part_words(c, size, UNIT), str(size)),
            (part_words(c, size), str(size)),
            (part_words(c, 0, 0), "part=0+0", "length"),
            (part_words(c, "x", 1), "x"),
            ([*array_of(c), "mode=shared", "part=64K"], "OFFSET+LENGTH"),
            ([*array_of(c), "mode=shared"], "n0", "part"),
            ([*array_of(c), "part=0+64K"], "mode=shared"),
            ([*array_of(c), "mode=rw"], "mode=rw", "shared"),
            (["-r", *part_words(c, 0, UNIT)], "-r"),
            ([*part_words(c, 0, UNIT), "service=yes",
              "uri=nbd://127.0.0.1:1"], "service=yes"),
            (["weft", "service=a", f"admin={c.admin}", "mode=shared",
              "part=0+64K"], "array=")):
        line = refused(*words)
        assert all(word in line for word in said), (words, line)
    assert (c.get("/api/v1/arrays/a")["epoch"], nodes(c)) == before
    # Readers are allowed beside parts.
    with Nbdkit("-r", *array_of(c)) as reader:
        assert connected(reader.uri).pread(8192, border - 4096) == bytes(8192)


def test_a_part_beside_one_that_writes_all(cluster):
    c = cluster(members=3, size="32M", unit=UNIT)
    line = refused(*part_words(c, 0, UNIT))
    assert "n0" in line and str(c.array["pid"]) in line, line
    c.terminate("array")
    with Nbdkit(*part_words(c, UNIT)) as rest, \
            Nbdkit(*part_words(c, 0, "64K")) as first:
        connected(rest.uri).pwrite(b"r" * 4096, UNIT)
        connected(first.uri).pwrite(b"f" * 4096, UNIT - 4096)
        assert connected(first.uri).pread(8192, UNIT - 4096) == \
            b"f" * 4096 + b"r" * 4096
        line = refused(*array_of(c))
        assert "n9" in line, line


def test_a_takeover_of_a_part(cluster):
    """A takeover of a part ends its holder's session, and no other one."""
    c = make(cluster)
    part = c.arrays[1]["part"]
    handles = [connected(a["uri"]) for a in c.arrays]
    for h, a in zip(handles, c.arrays):
        h.pwrite(b"%d" % len(a["name"]) * UNIT, a["part"]["offset"])
        h.flush()
    c.may_end("array1")
    with Nbdkit(*part_words(c, part["offset"], part["length"]),
                "takeover=yes") as new:
        h = connected(new.uri)
        assert h.pread(UNIT, part["offset"]) == b"6" * UNIT
        h.pwrite(b"n" * UNIT, part["offset"])
        h.flush()
        with refuses("ESHUTDOWN"):
            handles[1].pwrite(b"o" * UNIT, part["offset"])
        for i in (0, 2):
            handles[i].pwrite(b"s" * UNIT, c.arrays[i]["part"]["offset"])
            assert handles[i].pread(UNIT, part["offset"]) == b"n" * UNIT
        assert nodes(c) == {"n0", "n9", "n2"}
