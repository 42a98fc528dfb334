"""A member dies, or hangs, under a client that writes and verifies.

Topology: one devcluster; fio with four connections.
Cause: SIGKILL, or SIGSTOP, of one member (drawn by the seed) in the middle; or
       of more than the layout survives.
Pass:  fio sees no error and no wrong byte; weftd records the member as out; the
       copies on the others are right; when it is there again it is caught up by
       itself.  Where the last copy is lost, what needs it waits for it, and
       nothing else does.
"""

import contextlib
import random
import re
import time

import nbd
import pytest

from arraystate import (Pending, away, content, states, wait_clean,
                        wait_for_writes, wait_in_sync, wait_state)
from copies import check_copies, model_of
from filterdisk import OVER_NBDKIT, filterdisks
from fiojob import Fio, fio
from nbdclient import connected
from wefttest import Stopwatch, eventually, picked, run

UNIT = 64 << 10


def load(c, seed):
    """Some seconds of writes, then their verification."""
    return Fio(c.nbd, jobs=4, depth=8, size="8M", rw="randrw", bs="512-256k",
               bs_unaligned=True, seed=seed % 2 ** 31, rate="1m,1m")


# The other layouts: test_member_back.py.
@pytest.mark.parametrize("layout,count,groups", [("raid-x", 6, 2),
                                                 ("chained", 4, 1)])
def test_killed(cluster, seed, layout, count, groups):
    c = cluster(layout=layout, members=count, groups=groups, unit=UNIT,
                size="64M")
    model = model_of(c, layout, UNIT, groups)
    lost = random.Random(seed).randrange(count)
    with load(c, seed) as f:
        wait_for_writes(c)
        assert f.running()
        c.kill(f"m{lost}")
        f.wait()
    assert wait_state(c, lost, "out")["reason"]
    assert c.get("/api/v1/arrays/a")["state"] == "degraded"
    assert states(c).count("out") == 1
    check_copies(c, model, content(c.nbd), lost=(lost,))

    c.start(f"m{lost}")
    wait_in_sync(c)
    check_copies(c, model, content(c.nbd))
    wait_clean(c)


@pytest.mark.long(30)
def test_two_of_different_groups(cluster, seed):
    """The layout survives one failure in each group."""
    c = cluster(layout="raid-x", members=6, groups=2, unit=UNIT, size="64M")
    model = model_of(c, "raid-x", UNIT, 2)
    rng = random.Random(seed)
    lost = rng.randrange(3), 3 + rng.randrange(3)
    with load(c, seed) as f:
        wait_for_writes(c)
        for m in lost:
            c.kill(f"m{m}")
        f.wait()
    check_copies(c, model, content(c.nbd), lost=lost)
    c.start(*(f"m{m}" for m in lost))
    wait_in_sync(c)
    check_copies(c, model, content(c.nbd))


def test_two_of_one_group(cluster):
    """The last lost member is not recorded as out, because it may be whole."""
    c = cluster(layout="raid-10", members=4, unit=UNIT, size="64M")
    model = model_of(c, "raid-10", UNIT)
    h = connected(c.nbd)
    for a in range(4):
        h.pwrite(bytes([a + 1]) * UNIT, a * UNIT)
    h.flush()
    gone = sorted({m for m, _ in model.copies(0)})
    elsewhere = next(a for a in range(4)
                     if not {m for m, _ in model.copies(a)} & set(gone))
    reads = Pending(c.nbd).read(UNIT, elsewhere * UNIT)
    assert reads.result() == bytes([elsewhere + 1]) * UNIT

    c.kill(*(f"m{m}" for m in gone))
    reads = Pending(c.nbd).read(UNIT, 0)
    writes = Pending(c.nbd).write(b"x" * UNIT, UNIT * model.width)
    eventually(lambda: states(c).count("out") == 1)
    eventually(lambda: "only copy" in c.get("/api/v1/status")["verdict"])
    reads.waits(3, lambda: h.pwrite(b"y" * UNIT, elsewhere * UNIT))
    assert writes.handle.aio_in_flight() == 1
    assert states(c).count("out") == 1

    last = next(m for m in gone if states(c)[m] == "in-sync")
    c.start(f"m{last}")
    assert reads.result() == b"\1" * UNIT
    writes.result()
    c.start(*(f"m{m}" for m in gone if m != last))
    wait_in_sync(c)
    assert h.pread(UNIT, UNIT * model.width) == b"x" * UNIT
    assert h.pread(UNIT, elsewhere * UNIT) == b"y" * UNIT
    # Data not flushed before may be gone with the last copy, and one FLUSH says so.
    with contextlib.suppress(nbd.Error):
        h.flush()
    h.flush()
    check_copies(c, model, content(c.nbd))


def test_without_redundancy(cluster):
    """Every member of raid-0 is a last copy."""
    c = cluster(layout="raid-0", members=3, unit=UNIT, size="64M",
                env={"WEFT_ARRAY_ARGS": "takeover=true"})
    h = connected(c.nbd)
    h.pwrite(b"kept" * UNIT, 0)
    h.flush()
    c.kill("m1")
    reads = Pending(c.nbd).read(4 * UNIT, 0)
    reads.waits(3)
    assert states(c) == ["in-sync"] * 3
    c.start("m1")
    assert reads.result() == b"kept" * UNIT
    # And where the array process dies meanwhile, too.
    c.kill("m1")
    c.kill("array")
    c.start("m1")
    c.start("array")
    assert Pending(c.nbd).read(4 * UNIT, 0).result() == b"kept" * UNIT


@pytest.mark.parametrize("layout,count", picked([("raid-x", 4), ("raid-10", 4)]))
def test_stopped(cluster, seed, layout, count):
    c = cluster(layout=layout, members=count, unit=UNIT, size="64M",
                io_timeout=2000)
    model = model_of(c, layout, UNIT)
    lost = random.Random(seed).randrange(count)
    with load(c, seed) as f:
        wait_for_writes(c)
        c.stop(f"m{lost}")
        f.wait()
    wait_state(c, lost, "out")

    # It wakes up with old requests in its sockets; they change nothing that
    # anybody reads.
    h = connected(c.nbd)
    h.pwrite(b"z" * UNIT * 8, 0)
    h.flush()
    c.cont(f"m{lost}")
    assert h.pread(UNIT * 8, 0) == b"z" * UNIT * 8
    wait_in_sync(c)
    assert h.pread(UNIT * 8, 0) == b"z" * UNIT * 8
    check_copies(c, model, content(c.nbd))


def test_its_process_hangs(cluster):
    """A member that answers quickly is asked for a sign of life after 0.5 s, and lost 0.85 s
    later: 1.35 s, as nbdkit-weft-plugin(1) says."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="64M")
    h = connected(c.nbd)
    for _ in range(40):  # its answer times are known
        h.pread(UNIT * 8, 0)
    c.stop("m2")
    watch = Stopwatch()
    h.pread(UNIT * 8, 0)
    waited = watch.seconds()
    print(f"a read waited for {waited:.2f} s")
    assert waited < 2.5
    assert "not even a sign of life" in wait_state(c, 2, "out")["reason"]
    c.cont("m2")
    wait_in_sync(c)


@pytest.mark.long(30)
def test_its_disk_hangs(cluster):
    """Its process lives, and says so: the first client waits for some seconds, others
    for nothing.  It comes back when its disk answers; or a spare takes its place."""
    c = cluster(layout="raid-1", members=2, unit=UNIT, size="16M", env=OVER_NBDKIT)
    _, spare = c.add()
    with filterdisks(c) as disks:
        disks[1].serve_well()
        with away(c, 1):
            pass
        h = connected(c.nbd)
        with disks[1].hung():
            watch = Stopwatch()
            h.pwrite(b"x" * UNIT, 0)
            h.flush()
            waited = watch.seconds()
            print(f"a write and a FLUSH waited for {waited:.2f} s")
            assert waited < 5
            watch = Stopwatch()
            other = connected(c.nbd)
            other.pwrite(b"y" * UNIT, UNIT)
            other.flush()
            assert other.pread(UNIT, 0) == b"x" * UNIT
            assert watch.seconds() < waited / 4
            assert "disk" in wait_state(c, 1, "out")["reason"]
            eventually(lambda: "member 1" in (
                v := c.get("/api/v1/status")["verdict"]) and "hangs" in v)
            time.sleep(2)
            assert states(c) == ["in-sync", "out"]
        wait_in_sync(c)
        check_copies(c, model_of(c, "raid-1", UNIT), content(c.nbd))
        its_last_copy_waits(c, h, disks[1])

        assert c.call("PATCH", "/api/v1/arrays/a", {"spare_after_s": 1})[0] == 200
        assert c.call("POST", "/api/v1/arrays/a/spares",
                      {"disk": spare})[0] == 200
        with disks[1].hung():
            h.pwrite(b"z" * UNIT, 0)
            h.flush()
            eventually(lambda: states(c) == ["in-sync"] * 2 and
                       c.get("/api/v1/arrays/a")["members"][1]["disk"] ==
                       spare, 60)
        assert h.pread(UNIT, 0) == b"z" * UNIT


def its_last_copy_waits(c, h, disk):
    """Where the other member is out: no error, nothing is acknowledged meanwhile, weftd
    says after io-timeout (15 s, as the manual says) that the array has stopped, and it goes on
    by itself."""
    c.kill("m0")
    h.pwrite(b"u" * UNIT, 0)
    h.flush()
    wait_state(c, 0, "out")
    with disk.hung():
        watch = Stopwatch()
        write = Pending(c.nbd).write(b"v" * 512, 100)
        eventually(lambda: "has stopped" in (
            v := c.get("/api/v1/status")["verdict"]) and "its disk" in v, 60)
        waited = watch.seconds()
        print(f"the array had stopped after {waited:.2f} s")
        assert 13 < waited < 18
        write.waits(1)
        assert states(c) == ["out", "in-sync"]
    write.result()
    print(f"the write was answered after {watch.seconds():.2f} s")
    h.flush()
    assert h.pread(UNIT, 0) == b"u" * 100 + b"v" * 512 + b"u" * (UNIT - 612)
    c.start("m0")
    wait_in_sync(c)


def test_a_slow_member_is_not_thrown_out(cluster):
    """A pause shorter than the time-out delays, and does nothing else."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="64M",
                io_timeout=20000)
    h = connected(c.nbd)
    buffers = [nbd.Buffer.from_bytearray(bytearray([i + 1]) * UNIT)
               for i in range(8)]
    c.stop("m2")
    cookies = [h.aio_pwrite(b, i * UNIT) for i, b in enumerate(buffers)]
    for _ in range(20):
        h.poll(100)
    assert h.aio_in_flight() > 0  # those of m2's data
    c.cont("m2")
    while h.aio_in_flight():
        assert h.poll(30_000) > 0, "no answer after the pause"
    assert all(h.aio_command_completed(k) for k in cookies)
    h.flush()
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))
    assert states(c) == ["in-sync"] * 4


def test_ends_beside_members_that_hang(cluster):
    """nbdkit ends although they owe it answers, long before their time-out; the
    client hears that it failed."""
    c = cluster(layout="raid-1", members=2, unit=UNIT, size="61M",
                io_timeout=60000)
    for m in ("m0", "m1"):
        c.stop(m)
    write = Pending(c.nbd).write(b"x" * UNIT, 0)
    write.waits(1)
    c.detaches("array")
    with pytest.raises(nbd.Error):
        write.result()
    for m in ("m0", "m1"):
        c.cont(m)
    c.start("array")
    assert content(c.nbd)(0, UNIT) in (b"x" * UNIT, bytes(UNIT))


@pytest.mark.long(30)
def test_a_slow_member_is_read_around(cluster, tmp_path):
    """A member that is far slower than its peers gets fewer reads, and nothing else happens to
    it."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="32M")
    fio(c.nbd, size="24M", bs="256k", rw="write")
    wait_clean(c)
    log = tmp_path / "reads"
    command = c.dir / "m2.cmd"
    command.write_text(command.read_text().rstrip() + " --filter=log "
                       f"--filter=delay rdelay=200ms logfile={log}\n")
    c.restart("m2")
    eventually(lambda: log.exists())
    wait_in_sync(c)
    wait_clean(c)  # nothing else goes on

    def share():
        """Of the reads of some seconds, how many has it got?"""
        before = log.read_text().count(" Read ")
        job = fio(c.nbd, size="24M", rw="randread", depth=8, verify=False,
                  time_based=True, runtime=6)
        return ((log.read_text().count(" Read ") - before)
                / job["read"]["total_ios"])
    print(f"{share():.0%} while it was found out")
    later = share()
    print(f"{later:.0%} later")
    assert later < 0.1, "without, it would be one in four"
    # It is named, with the time that its answers take, and those of its peers.
    for _ in range(9):
        slow = c.get("/api/v1/arrays/a")["members"][2]
        if slow["suspect"]:
            break
        share()
    assert 100_000 < slow["service_us"] > 3 * slow["peers_us"] > 0
    said = run("weftctl", "--admin", c.admin, "array", "show", "a").stdout
    assert re.search("2 is slow: its answers take [0-9]+ us, and those of its peers", said)
    eventually(lambda: re.search("^Member 2 .* is slow: a request takes",
                                 c.get("/api/v1/status")["verdict"]), 30)
    assert states(c) == ["in-sync"] * 4
