"""A member dies, or hangs, under a client that writes and verifies.

Topology: one devcluster; fio with four connections.
Cause: SIGKILL, or SIGSTOP, of one member (drawn by the seed) in the middle.
Pass:  fio sees no error and no wrong byte; weftd records the member as out;
       the copies on the others are right; the array refuses to start again,
       and says which member is out.
"""

import os
import random
import signal

import nbd
import pytest

from copies import check_copies, model_of
from fiojob import Fio
from nbdkitproc import refused
from wefttest import eventually

UNIT = 64 << 10
ARRAYS = [
    ("raid-x", 4, 1, {}),
    ("raid-x", 6, 2, {}),
    ("raid-10", 4, 1, {"dup": "async-client"}),
    ("raid-10", 4, 1, {"dup": "sync-client"}),
    ("chained", 4, 1, {}),
    ("rotated", 4, 1, {}),
    ("raid-1", 3, 1, {}),
]


def member_state(c, position):
    return c.get("/api/v1/arrays/a")["members"][position]["state"]


def load(c, seed):
    """Some seconds of writes, then their verification."""
    return Fio(c.nbd, jobs=4, depth=8, size="12M", rw="randrw", bs="512-256k",
               bs_unaligned=True, seed=seed % 2 ** 31, rate="1m,1m")


def wait_for_writes(c):
    """Until weftd shows that the array is written (bytes per second)."""
    def busy():
        session = c.get("/api/v1/arrays/a")["session"]
        return session and session["load"]["write_bytes"] > 1 << 20
    eventually(busy, what="fio to write")


def end_array(c):
    """As an administrator would: buffer drained, session given back."""
    c.may_end("array")
    os.kill(c.array["pid"], signal.SIGTERM)
    eventually(lambda: c.status()["array"]["state"] == "down",
               what="the array process to end")


@pytest.mark.parametrize("layout,members,groups,options", ARRAYS,
                         ids=lambda v: str(v))
def test_killed(cluster, seed, layout, members, groups, options):
    c = cluster(layout=layout, members=members, groups=groups, unit=UNIT,
                size="64M", **options)
    model = model_of(c, layout, UNIT, groups)
    lost = random.Random(seed).randrange(members)
    with load(c, seed) as f:
        wait_for_writes(c)
        assert f.running()
        c.kill(f"m{lost}")
        f.wait()
    eventually(lambda: member_state(c, lost) == "out")
    array = c.get("/api/v1/arrays/a")
    assert array["state"] == "degraded"
    assert [m["state"] for m in array["members"]].count("out") == 1
    assert array["members"][lost]["reason"]

    h = nbd.NBD()
    h.connect_uri(c.nbd)
    check_copies(c, model, lambda at, n: h.pread(n, at), lost=(lost,))
    h.shutdown()

    # Back again, but it has missed writes: nobody may use it unnoticed.
    c.start(f"m{lost}")
    end_array(c)
    line = refused("weft", "array=a", f"admin={c.admin}", "node=n9")
    assert "out" in line and f"{lost}" in line, line


def test_two_of_different_groups(cluster, seed):
    """What the layout survives is one failure in each group."""
    c = cluster(layout="raid-x", members=6, groups=2, unit=UNIT, size="64M")
    model = model_of(c, "raid-x", UNIT, 2)
    rng = random.Random(seed)
    lost = rng.randrange(3), 3 + rng.randrange(3)
    with load(c, seed) as f:
        wait_for_writes(c)
        for m in lost:
            c.kill(f"m{m}")
        f.wait()
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    check_copies(c, model, lambda at, n: h.pread(n, at), lost=lost)


def test_two_of_one_group(cluster):
    """More than the layout survives: the array stops.  Every request is an
    error, never old or wrong data, and the last copy is not recorded as out,
    for it may be whole."""
    c = cluster(layout="raid-10", members=4, unit=UNIT, size="64M")
    model = model_of(c, "raid-10", UNIT)
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    for a in range(4):
        h.pwrite(bytes([a + 1]) * UNIT, a * UNIT)
    h.flush()
    gone = {m for m, _ in model.copies(0)}
    for m in gone:
        c.kill(f"m{m}")
    for a in range(4):
        if {m for m, _ in model.copies(a)} != gone:
            continue
        with pytest.raises(nbd.Error) as e:
            h.pread(UNIT, a * UNIT)
        assert e.value.errno == "EIO"
    with pytest.raises(nbd.Error) as e:
        h.pwrite(b"x" * UNIT, 0)
    assert e.value.errno == "EIO"
    array = c.get("/api/v1/arrays/a")
    states = [m["state"] for m in array["members"]]
    assert states.count("out") == 1, states
    assert "has stopped" in c.get("/api/v1/status")["verdict"]


def test_without_redundancy(cluster):
    """A member of raid-0 that is killed stops the array; when the member is
    back, so is every flushed byte."""
    c = cluster(layout="raid-0", members=3, unit=UNIT, size="64M")
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    h.pwrite(b"kept" * UNIT, 0)
    h.flush()
    c.kill("m1")
    with pytest.raises(nbd.Error) as e:
        h.pread(4 * UNIT, 0)
    assert e.value.errno == "EIO"
    c.start("m1")
    c.kill("array")
    c.start("array")
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    assert h.pread(4 * UNIT, 0) == b"kept" * UNIT


@pytest.mark.parametrize("layout,members", [("raid-x", 4), ("raid-10", 4)])
def test_stopped(cluster, seed, layout, members):
    # nbdkit 1.32 may abort itself when a client goes away while several
    # threads answer it on one connection; one thread each can't.
    c = cluster(layout=layout, members=members, unit=UNIT, size="64M",
                io_timeout=2000, env={"WEFT_MEMBER_ARGS": "--threads=1"})
    model = model_of(c, layout, UNIT)
    lost = random.Random(seed).randrange(members)
    with load(c, seed) as f:
        wait_for_writes(c)
        c.stop(f"m{lost}")
        f.wait()
    eventually(lambda: member_state(c, lost) == "out")

    # It wakes up with old requests in its sockets; they change nothing that
    # anybody reads, and it stays out.
    c.cont(f"m{lost}")
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    h.pwrite(b"z" * UNIT * 8, 0)
    h.flush()
    assert h.pread(UNIT * 8, 0) == b"z" * UNIT * 8
    check_copies(c, model, lambda at, n: h.pread(n, at), lost=(lost,))
    assert member_state(c, lost) == "out"


def test_a_slow_member_is_not_thrown_out(cluster):
    """A pause shorter than the time-out delays, and does nothing else."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="64M",
                io_timeout=20000)
    h = nbd.NBD()
    h.connect_uri(c.nbd)
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
    check_copies(c, model_of(c, "raid-x", UNIT),
                 lambda at, n: h.pread(n, at))
    assert {m["state"] for m in c.get("/api/v1/arrays/a")["members"]} == {
        "in-sync"}
