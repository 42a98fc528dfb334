"""Several array processes write one array at the same time: each a part of it, or all of it
by leases.

Topology: a devcluster with two to four array processes, over four members.
Cause: clients write and read by way of all processes: numbered blocks, or with leases the same
       sectors.  A process is killed, stopped for longer than its TTL, or ended; a member or
       weftd is killed and started again, also while leases move between processes.
       Forbidden requests are tried.
Pass:  The other processes see no error, and wait no longer than the product's constants
       say, or than the recovery of a dead process takes.  Each process reads every
       acknowledged write, and the history of each sector is linearizable, by way of any
       process.  No block is torn unless a write of it was under way.  Flushed data is there.
       A process that was stopped completes nothing afterwards.  Refused requests change
       nothing.  In the end all copies are alike, and no extent is dirty.
"""

import errno
import itertools
import math
import random
import time

import nbd
import pytest

from arraystate import (away, content, in_sync, states, wait_clean, wait_in_sync,
                        wait_state)
from badspots import bad_spots, mend, spoil
from blockwriter import BLOCK, BLOCKS
from copies import check_copies, model_of
from nbdclient import connected, refuses
from nbdkitproc import Nbdkit, array_of, refused
from sectorhistory import SECTOR, Client, History, check_register
from sharedwriters import all_write as writing_places
from wefttest import ALL, Stopwatch, eventually, picked

UNIT = 64 << 10
TTL_S = 10    # SESSION_TTL_MS
# The connections of a killed member break, so its loss is found at once. If a session is
# silent, the change waits until weftd has ended that session, and hosts hear of the change
# a tick and a heartbeat later.
LOSS_S = TTL_S + 5
# The leases of a dead process are not granted before weftd has ended its session and
# another process has resynchronized their ranges.
RECOVERY_S = TTL_S + 5
# Array processes have parts, or all of the array by leases.
PARTS, LEASES = "parts", "leases"


def make(cluster, layout="raid-x", writers=3, mode=PARTS, **options):
    return cluster(layout=layout, members=2 if layout == "raid-1" else 4, unit=UNIT,
                   size="32M", writers=writers, **{"leases": True} if mode == LEASES else {},
                   **options)


def ends_of(part):
    """Blocks at both ends of the part, where extents are shared with the neighbours."""
    end, half = part["offset"] + part["length"], BLOCKS // 2
    return [part["offset"] + b * BLOCK for b in range(half)] + \
        [end - (b + 1) * BLOCK for b in range(half)]


def in_turn(writers):
    """Blocks go to the writers in turn, so that all neighbours belong to others."""
    return [[(b * writers + i) * BLOCK for b in range(BLOCKS)]
            for i in range(writers)]


def all_write(c, rng):
    """Each process its own blocks."""
    parts = [a["part"] for a in c.arrays]
    return writing_places(c, rng, [ends_of(p) for p in parts] if all(parts)
                          else in_turn(len(parts)))


def shared_words(c, *more, node="n9"):
    return [*array_of(c, node), "mode=shared", *more]


def part_words(c, offset, length=""):
    return [*array_of(c), "mode=shared", f"part={offset}+{length}"]


def sessions(c):
    return c.get("/api/v1/sessions")["sessions"]


def nodes(c):
    return {s["node"] for s in sessions(c)}


def check_alike(c, layout="raid-x"):
    wait_in_sync(c)
    check_copies(c, model_of(c, layout, UNIT), content(c.nbd))


def check_all(c, layout="raid-x"):
    check_alike(c, layout)
    wait_clean(c)


def check_after_deaths(c, layout="raid-x"):
    """Intent bits of a dead process, in an extent of its own or shared with a neighbour,
    stay until a process has the whole array."""
    check_alike(c, layout)
    words = array_of(c) if c.arrays[0]["part"] else shared_words(c)
    c.terminate(*(a["name"] for a in c.arrays if c.running(a["name"])))
    with Nbdkit(*words) as alone:
        check_copies(c, model_of(c, layout, UNIT), content(alone.uri))
        wait_clean(c)


class Late:
    """Writes that a process has received, but not answered."""

    def __init__(self, uri, length):
        self.handle, self.length = connected(uri), length
        self.buffers, self.errors = [], []

    def write(self, byte, places):
        for at in places:
            buf = nbd.Buffer.from_bytearray(bytearray(byte) * self.length)
            self.buffers.append(buf)  # libnbd copies nothing
            self.handle.aio_pwrite(buf, at, self.answered)

    def answered(self, error):
        self.errors.append(getattr(error, "value", error))
        return 1

    def wait(self):
        while len(self.errors) < len(self.buffers):
            assert self.handle.poll(30_000) > 0, "no answer for 30 s"


def runs(size):
    """Sectors at a few places, such as the borders of units and extents."""
    starts = [0, UNIT - 8 * SECTOR, (4 << 20) - 8 * SECTOR, size - 16 * SECTOR]
    return [list(range(at // SECTOR, at // SECTOR + 16)) for at in starts]


class Clients:
    """Two clients of each array process, on the same sectors."""

    def __init__(self, c, seed):
        self.history, rng = History(), random.Random(seed)
        where = runs(c.get("/api/v1/arrays/a")["size"])
        self.of = [[Client(self.history, a["uri"], random.Random(rng.random()),
                           where) for _ in range(2)] for a in c.arrays]
        for one in self.all():
            one.start()

    def all(self, but=()):
        return [one for i, some in enumerate(self.of) if i not in but for one in some]

    def until_done(self, times, but=(), seconds=60):
        """Each client does that many requests, all at the same time."""
        for one in self.all(but):
            one.want(times)
        for one in self.all(but):
            one.until_done(seconds=seconds)

    def longest(self, but=()):
        return max(one.longest for one in self.all(but))

    def end(self, but=()):
        for one in self.all(but):
            one.end()
        self.history.check()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for one in self.all():
            one.done = True


# --- The checker ------------------------------------------------------------------


def ordered(writes, reads):
    """Is there an order of the writes that explains the reads?  Tries all orders."""
    def explained(rest, value):
        return not rest or any(
            explained(rest[:i] + rest[i + 1:], one[1])
            for i, one in enumerate(rest)
            if (one[0] or one[1] == value) and
            not any(other[3] < one[2] for other in rest))

    done = [(True, v, *t) for v, t in writes.items() if t[1] < math.inf] + \
        [(False, *r) for r in reads]
    maybe = [(True, v, *t) for v, t in writes.items() if t[1] == math.inf]
    return any(explained(done + list(some), None)
               for n in range(len(maybe) + 1)
               for some in itertools.combinations(maybe, n))


def passes(writes, reads):
    try:
        check_register("a sector", writes, reads)
        return True
    except AssertionError:
        return False


def test_the_checker(seed):
    """The checker agrees with a search through all orders."""
    rng, seen = random.Random(seed), [0, 0]
    for _ in range(3000):
        writes, reads = {0: (-math.inf, -math.inf)}, []
        for v in range(1, rng.randint(2, 4)):
            at = rng.random()
            writes[v] = (at, at + rng.choice([math.inf, rng.random() / 2]))
        for _ in range(rng.randint(0, 4)):
            at = rng.random() * 1.5
            reads.append((rng.choice(list(writes)), at, at + rng.random() / 2))
        verdict = passes(writes, reads)
        assert verdict == ordered(writes, reads), (writes, reads)
        seen[verdict] += 1
    assert min(seen) > 300


# --- Both ways --------------------------------------------------------------------


@pytest.mark.long(20)
@pytest.mark.parametrize("mode, layout, writers", picked([
    (PARTS, "raid-x", 2), (PARTS, "raid-x", 3), (PARTS, "raid-10", 3), (PARTS, "raid-1", 2),
    (PARTS, "chained", 3), (LEASES, "raid-x", 3), (LEASES, "raid-10", 2)], 2))
def test_all_write_at_once(cluster, seed, mode, layout, writers):
    c = make(cluster, layout, writers, mode)
    epoch = c.get("/api/v1/arrays/a")["epoch"]
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(30)
        assert w.longest() < TTL_S
    assert c.get("/api/v1/arrays/a")["epoch"] == epoch
    check_all(c, layout)


@pytest.mark.long(50)
@pytest.mark.parametrize("mode, layout", picked([
    (PARTS, "raid-x"), (LEASES, "raid-x"), (LEASES, "raid-10")]))
def test_one_is_killed_with_a_member(cluster, seed, mode, layout):
    """The change waits until weftd has ended the dead, silent session. All data that the
    process had flushed is there. When it is back, it goes on."""
    c, rng = make(cluster, layout, 3, mode), random.Random(seed)
    dead = rng.randrange(3)
    name = c.arrays[dead]["name"]
    with all_write(c, rng) as w:
        w.until_flushed(5)
        reader = w.lose(dead)
        c.kill(name, "m2")
        w.all[dead].broken()
        reader.join(30)
        wait_state(c, 2, "out", LOSS_S)
        w.until_flushed(5, but=[dead])
        assert w.longest(but=[dead]) < LOSS_S
        c.start("m2", name)
        w.go_on(dead)
        wait_in_sync(c)
        w.until_flushed(5)
    check_after_deaths(c, layout)


@pytest.mark.long(100)
@pytest.mark.parametrize("mode", picked([PARTS, LEASES]))
def test_one_thing_after_the_other(cluster, seed, mode):
    rng = random.Random(seed)
    c = make(cluster, mode=mode)
    with all_write(c, rng) as w:
        for _ in range(12 if ALL else 4):
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


# --- Parts ------------------------------------------------------------------------


@pytest.mark.long(30)
@pytest.mark.parametrize("layout", picked(["raid-x", "raid-10"]))
def test_the_owner_is_killed(cluster, seed, layout):
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
def test_the_owner_is_killed_and_stays_away(cluster, seed):
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
def test_the_owner_is_stopped(cluster, seed):
    """If a process is stopped for longer than its TTL, its session ends, and it
    completes nothing afterwards."""
    c = make(cluster)
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(5)
        late = Late(c.arrays[1]["uri"], BLOCK)
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
def test_a_member_is_killed_beside_parts(cluster, seed, layout):
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
def test_weftd_is_killed_beside_parts(cluster, seed):
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


def test_what_does_not_go_together_with_parts(cluster):
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


# --- Leases -----------------------------------------------------------------------


@pytest.mark.long(70)
@pytest.mark.parametrize("layout, writers", picked([
    ("raid-x", 2), ("raid-x", 4), ("raid-10", 2), ("raid-10", 4), ("chained", 3)], 2))
def test_all_write_the_same(cluster, seed, layout, writers):
    c = make(cluster, layout, writers, LEASES)
    with Clients(c, seed) as all:
        all.until_done(500)
        all.end()
        assert all.longest() < TTL_S
    check_all(c, layout)


@pytest.mark.long(15)
@pytest.mark.parametrize("kind", [1, 2], ids=["naive", "token"])
def test_other_wishes(cluster, seed, kind):
    """Other amounts of leases to ask for change no data that is read."""
    c = make(cluster, writers=2, mode=LEASES, env={"WEFT_ARRAY_ARGS": f"-D weft.leases={kind}"})
    with Clients(c, seed) as all:
        all.until_done(200)
        all.end()
    check_all(c)


@pytest.mark.long(15)
@pytest.mark.parametrize("layout", picked(["raid-x", "raid-10"]))
def test_one_after_the_other(cluster, seed, layout):
    """Processes write, zero and trim in turn. Each reads what those before it have
    written."""
    c, rng = make(cluster, layout, 3, LEASES), random.Random(seed)
    handles = [connected(a["uri"]) for a in c.arrays]
    at, size = (4 << 20) - 2 * UNIT, 4 * UNIT
    model = bytearray(size)
    for n in range(400):
        h = rng.choice(handles)
        first = rng.randrange(size)
        end = min(size, first + rng.choice([100, 512, 4096, UNIT, 3 * UNIT]))
        what = rng.choice(["read", "write", "write", "zero", "trim"])
        if what == "read":
            assert h.pread(end - first, at + first) == model[first:end], n
        elif what == "write":
            model[first:end] = rng.randbytes(end - first)
            h.pwrite(bytes(model[first:end]), at + first)
        elif what == "zero":
            h.zero(end - first, at + first)
            model[first:end] = bytes(end - first)
        else:
            h.trim(end - first, at + first)
            data = h.pread(end - first, at + first)
            # Trimmed bytes are zeroes, or unchanged.
            assert all(a in (0, b) for a, b in zip(data, model[first:end])), n
            model[first:end] = data
    for h in handles:
        assert h.pread(size, at) == model
        h.flush()
    check_all(c, layout)


@pytest.mark.long(40)
@pytest.mark.parametrize("layout", picked(["raid-x", "raid-10"]))
def test_one_is_killed(cluster, seed, layout):
    """The others wait for its leases until its session is ended, and go on."""
    c = make(cluster, layout, 3, LEASES)
    with Clients(c, seed) as all:
        all.until_done(200)
        c.kill("array1")
        for one in all.of[1]:
            one.broken()
        all.until_done(300, but=[1])
        eventually(lambda: nodes(c) == {"n0", "n2"}, RECOVERY_S,
                   what="weftd to end it")
        all.until_done(200, but=[1])
        all.end(but=[1])
        assert all.longest(but=[1]) < RECOVERY_S
    check_after_deaths(c, layout)


@pytest.mark.long(50)
def test_one_is_stopped(cluster, seed):
    """A process is stopped for longer than its TTL while others wait for its leases.
    Its session is ended and its ranges are resynchronized. When the process continues,
    it completes nothing."""
    c = make(cluster, mode=LEASES)
    at = 2 << 20
    holder = connected(c.arrays[1]["uri"])
    holder.pwrite(b"h" * UNIT, at)
    with Clients(c, seed) as all:
        all.until_done(100)
        late = Late(c.arrays[1]["uri"], SECTOR)
        c.stop("array1")
        late.write(b"L", range(at, at + UNIT, SECTOR))
        # The read waits until the holder's session is over, and no longer.
        other, watch = connected(c.nbd), Stopwatch(disk=True)
        assert other.pread(UNIT, at) == b"h" * UNIT
        other.pwrite(b"o" * UNIT, at)
        assert time.monotonic() - watch.begin > 1 and watch.seconds() < RECOVERY_S
        assert nodes(c) == {"n0", "n2"}
        all.until_done(200, but=[1])

        c.may_end("array1")
        c.cont("array1")
        late.wait()
        assert set(late.errors) == {errno.ESHUTDOWN}
        for one in all.of[1]:
            one.broken()
            assert one.error.errno == "ESHUTDOWN"
        with refuses("ESHUTDOWN"):
            holder.pwrite(b"h" * UNIT, at)
        for i in (0, 2):
            assert connected(c.arrays[i]["uri"]).pread(UNIT, at) == b"o" * UNIT
        all.until_done(100, but=[1])
        all.end(but=[1])
        assert all.longest(but=[1]) < RECOVERY_S
    if c.running("array1"):
        c.kill("array1")
    check_after_deaths(c)


@pytest.mark.long(20)
def test_a_clean_end(cluster, seed):
    """After a clean end others get the leases at once, and resynchronize nothing."""
    c = make(cluster, mode=LEASES)
    with Clients(c, seed) as all:
        all.until_done(200)
        for one in all.of[1]:
            one.end()
        c.terminate("array1")
        assert nodes(c) == {"n0", "n2"}
        all.until_done(200, but=[1])
        c.start("array1")
        h = connected(c.arrays[1]["uri"])
        h.pwrite(b"1" * SECTOR, 8 << 20)
        for i in range(3):
            assert connected(c.arrays[i]["uri"]).pread(SECTOR, 8 << 20) == b"1" * SECTOR
        all.end(but=[1])
        assert all.longest(but=[1]) < TTL_S / 2
    assert not any("resynchronizing its last writes" in c.log(a["name"]) for a in c.arrays)
    check_all(c)


@pytest.mark.long(30)
def test_all_are_killed(cluster, seed):
    """New processes write while the sessions of the dead ones have not ended yet."""
    c = make(cluster, writers=2, mode=LEASES)
    with all_write(c, random.Random(seed)) as w:
        w.until_flushed(5)
        for i in (0, 1):
            w.lose(i).join(30)
        c.kill("array", "array1")
        for one in w.all:
            one.broken()
        c.start("array")
        c.start("array1")
        for i in (0, 1):
            w.go_on(i)
        w.until_flushed(5)
    check_after_deaths(c)


@pytest.mark.long(30)
@pytest.mark.parametrize("layout", picked(["raid-x", "raid-10"]))
def test_a_member_is_killed(cluster, seed, layout):
    """A member dies while leases move. A range with an unfinished write is not granted
    to another process."""
    c = make(cluster, layout, 3, LEASES)
    with Clients(c, seed) as all:
        for m in (0, 1):
            all.until_done(100)
            with away(c, m):
                wait_state(c, m, "out")
                all.until_done(100)
        all.until_done(100)
        all.end()
        assert all.longest() < RECOVERY_S
    check_all(c, layout)


@pytest.mark.long(40)
def test_weftd_is_killed(cluster, seed):
    """While weftd is down, each process writes under the leases that it has. After its
    restart they declare their leases to weftd."""
    c = make(cluster, writers=2, mode=LEASES)
    first, second = (connected(a["uri"]) for a in c.arrays)
    first.pwrite(b"1" * UNIT, 8 << 20)
    second.pwrite(b"2" * UNIT, 12 << 20)
    with Clients(c, seed) as all:
        for _ in range(3):
            all.until_done(100)
            for h, at in (first, 8 << 20), (second, 12 << 20):
                h.pwrite(bytes(UNIT), at)  # an idle lease may have been given away
            c.kill("weftd")
            for n in range(50):
                data = b"%d" % (n % 10) * SECTOR
                first.pwrite(data, (8 << 20) + n * SECTOR)
                second.pwrite(data, (12 << 20) + n * SECTOR)
            time.sleep(1)
            c.start("weftd")
        all.until_done(100)
        all.end()
        assert all.longest() < RECOVERY_S
    assert nodes(c) == {"n0", "n1"}
    for h in (first, second):
        for n in range(50):
            for at in (8 << 20, 12 << 20):
                assert h.pread(SECTOR, at + n * SECTOR) == b"%d" % (n % 10) * SECTOR
    check_all(c)


@pytest.mark.long(50)
def test_weftd_is_killed_with_one(cluster, seed):
    """The leases of the killed process are granted only after its session is ended and
    its ranges are resynchronized, although the new weftd never heard of them."""
    c = make(cluster, mode=LEASES)
    with Clients(c, seed) as all:
        all.until_done(200)
        c.kill("weftd", "array1")
        for one in all.of[1]:
            one.broken()
        c.start("weftd")
        all.until_done(200, but=[1], seconds=90)
        all.end(but=[1])
    assert nodes(c) == {"n0", "n2"}
    assert any("resynchronizing its last writes" in c.log(a["name"]) for a in c.arrays)
    check_after_deaths(c)


@pytest.mark.long(20)
def test_bad_spots(cluster, tmp_path):
    """A process that reads a bad block of another's range gets the lease, and repairs
    the block. A process that zeroes lost data (accept-loss) gets the lease, too."""
    c = cluster(env=bad_spots(tmp_path), layout="raid-1", members=2, unit=UNIT,
                size="32M", writers=2, leases=True)
    first, second = (connected(a["uri"]) for a in c.arrays)
    file, at, lost = c.members[0]["file"], 1 << 20, 5 << 20
    second.pwrite(b"2" * UNIT, at)
    second.flush()
    spoil(file, (at, BLOCK))
    assert first.pread(UNIT, at) == b"2" * UNIT
    mend(file)
    assert second.pread(UNIT, at) == b"2" * UNIT

    c.kill("m1")
    wait_state(c, 1, "out")
    second.pwrite(b"3" * UNIT, lost)
    second.flush()
    spoil(file, (lost, BLOCK))
    c.start("m1")
    wait_in_sync(c)
    for h in (first, second):
        with refuses("EIO"):
            h.pread(BLOCK, lost)
        assert h.pread(BLOCK, lost + BLOCK) == b"3" * BLOCK
    status, answer = c.call("POST", "/api/v1/arrays/a/accept-loss", {
        "ranges": [{"offset": lost, "length": BLOCK}]})
    assert status < 300, answer
    eventually(lambda: c.get("/api/v1/arrays/a")["bad_bytes"] == 0)
    for h in (first, second):
        assert h.pread(UNIT, lost) == bytes(BLOCK) + b"3" * (UNIT - BLOCK)


def test_what_does_not_go_together_with_leases(cluster):
    """A single writer, a part or a service beside leases is refused. Nothing changes."""
    c = make(cluster, writers=2, mode=LEASES)
    before = c.get("/api/v1/arrays/a")["epoch"], nodes(c)
    for words, *said in (
            (array_of(c), "n0"),
            (shared_words(c, f"part=0+{UNIT}"), "n0"),
            (["-r", *shared_words(c)], "-r"),
            (shared_words(c, "service=yes", "uri=nbd://127.0.0.1:1"), "service=yes"),
            (["weft", "service=a", f"admin={c.admin}", "mode=shared"], "array=")):
        line = refused(*words)
        assert all(word in line for word in said), (words, line)
    assert (c.get("/api/v1/arrays/a")["epoch"], nodes(c)) == before
    first, second = (connected(a["uri"]) for a in c.arrays)
    first.pwrite(b"a" * 4096, 0)
    with Nbdkit("-r", *array_of(c)) as reader:
        assert connected(reader.uri).pread(4096, 0) == b"a" * 4096
    assert second.pread(4096, 0) == b"a" * 4096


@pytest.mark.parametrize("words", [[], [f"part=0+{UNIT}"]])
def test_beside_others(cluster, words):
    """A single writer, or the owner of a part, keeps a host with leases out."""
    c = cluster(members=3, size="32M", unit=UNIT, no_array=True)
    c.call("POST", "/api/v1/arrays", {
        "name": "a", "layout": "raid-x", "unit": UNIT,
        "disks": [d["uuid"] for d in c.get("/api/v1/disks")["disks"]]})
    eventually(lambda: c.get("/api/v1/arrays/a")["state"] == "ready")
    there = shared_words(c, *words, node="n7") if words else array_of(c, "n7")
    with Nbdkit(*there):
        assert "n7" in refused(*shared_words(c))
    with Nbdkit(*shared_words(c, node="n7")) as one, \
            Nbdkit(*shared_words(c)) as other:
        connected(one.uri).pwrite(b"x" * 4096, 4096)
        h = connected(other.uri)
        assert h.pread(4096, 4096) == b"x" * 4096
        h.pwrite(b"y" * 4096, 4096)
        assert connected(one.uri).pread(4096, 4096) == b"y" * 4096


def test_bad_words(cluster):
    """weftd refuses impossible messages about leases, and nothing changes. A session
    that declares a lease of another session is ended."""
    c = make(cluster, writers=2, mode=LEASES)
    h = connected(c.arrays[1]["uri"])
    h.pwrite(b"x" * SECTOR, 0)
    status, granted = c.call("POST", "/api/v1/arrays/a/sessions", {
        "instance": "0" * 32, "node": "n8", "pid": 1, "mode": "shared"})
    assert status == 201 or status == 200, granted
    path = f"/api/v1/sessions/{granted['session']}/leases"
    size, good = c.get("/api/v1/arrays/a")["size"], [0, 512]

    def say(**words):
        return c.call("POST", path, {"instance": "0" * 32, **words})

    for words in (
            {"number": 1, "give": [[0]]}, {"number": 1, "give": "all"},
            {"number": 1, "give": [[0, 0]]}, {"number": -1, "give": [good]},
            {"number": 1, "give": [[size, 512]]}, {"number": 1, "give": [[1, 512]]},
            {"number": 1, "give": [[0, -512]]},
            {"number": 1, "give": [[512, (1 << 63) - 512]]},
            {"number": 1, "declare": [[512, 1]]}, {"number": 1, "declare": {}},
            {"number": 1, "recovered": -1}, {"wait_ms": "long"},
            {"ask": good}, {"ask": [good]}, {"ask": [{"must": good}]},
            {"ask": [{"must": [512, 512], "wish": [0, 512]}]},
            {"ask": [{"must": [1, 512], "wish": [1, 512]}]},
            {"ask": [{"must": [0, size + 512], "wish": [0, size + 512]}]},
            {"ask": [{"must": good, "wish": good}] * 17}):
        status, reply = say(**words)
        assert status == 422, (words, status, reply)
    status, reply = c.call("POST", path, {"instance": "1" * 32, "number": 1})
    assert status in (403, 409, 410), reply
    # A session may give back, or report as recovered, leases that it does not have: no
    # other session loses a lease.
    number = granted["generation"] << 32
    assert say(number=number + 1, give=[[0, size]], recovered=1 << 40)[0] == 200
    h.pwrite(b"y" * SECTOR, 0)
    assert connected(c.nbd).pread(SECTOR, 0) == b"y" * SECTOR
    status, reply = say(number=number + 2, declare=[good])
    assert status == 409 and reply["code"] == "lease-overlap", reply
    assert say(number=number + 3, give=[good])[0] == 410
    h.pwrite(b"z" * SECTOR, 0)
    assert connected(c.nbd).pread(SECTOR, 0) == b"z" * SECTOR
    assert nodes(c) == {"n0", "n1"}
