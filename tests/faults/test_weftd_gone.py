"""weftd dies while the array is used.

Topology: one raid-x devcluster of four members; one or several NBD clients.
Pass:  I/O of a healthy array goes on; I/O that waits for the record of a
       failure waits, and goes on when weftd is back; a restarted weftd knows
       all that it knew.
"""

import time

import nbd
import pytest

from arraystate import Pending
from copies import check_copies, model_of
from fiojob import Fio
from nbdclient import connected
from wefttest import eventually

UNIT = 64 << 10


@pytest.fixture
def array(cluster):
    return cluster(layout="raid-x", members=4, unit=UNIT, size="64M",
                   io_timeout=3000)


def lasting(c):
    """The state that weftd must know again."""
    a = c.get("/api/v1/arrays/a")
    return {
        "array": {k: a[k] for k in ("name", "uuid", "layout", "n", "groups",
                                    "unit", "size", "state", "epoch")},
        "members": [(m["position"], m["disk"], m["node"], m["state"])
                    for m in a["members"]],
        "session": a["session"] and a["session"]["session"],
        "cluster": c.get("/api/v1/status")["cluster"],
        "disks": sorted(d["uuid"] for d in c.get("/api/v1/disks")["disks"]),
    }


def test_io_goes_on_and_everything_is_found_again(array, seed):
    before = lasting(array)
    with Fio(array.nbd, jobs=4, depth=8, size="12M", rw="randrw",
             bs="512-256k", bs_unaligned=True, seed=seed % 2 ** 31,
             rate="3m,3m") as f:
        time.sleep(1)
        array.kill("weftd")
        f.wait()
    model = None
    array.start("weftd")
    eventually(lambda: all(m["alive"] for m in
                           array.get("/api/v1/arrays/a")["members"]),
               what="the members to be heard from again")
    assert lasting(array) == before
    model = model_of(array, "raid-x", UNIT)
    h = connected(array.nbd)
    check_copies(array, model, lambda at, n: h.pread(n, at))

    # The same session, not a new one: the array process still works for it.
    h.pwrite(b"after" * 1000, 0, nbd.CMD_FLAG_FUA)
    assert h.pread(5, 0) == b"after"


def test_a_loss_waits_for_its_record(array):
    """m1 dies while weftd is down: a write that only m1's partner could take
    is not acknowledged before weftd has recorded it; reads of what others
    hold go on meanwhile."""
    model = model_of(array, "raid-x", UNIT)
    on_m1 = next(a for a in range(model.units) if model.copies(a)[0][0] == 1)
    elsewhere = next(a for a in range(model.units)
                     if 1 not in [m for m, _ in model.copies(a)])
    h, other = connected(array.nbd), connected(array.nbd)
    h.pwrite(b"e" * UNIT, elsewhere * UNIT)
    h.flush()

    array.kill("weftd")
    array.kill("m1")
    buf = nbd.Buffer.from_bytearray(bytearray(b"w" * UNIT))
    cookie = h.aio_pwrite(buf, on_m1 * UNIT)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        h.poll(200)
        assert h.aio_in_flight() == 1, "acknowledged without a record"
        assert other.pread(UNIT, elsewhere * UNIT) == b"e" * UNIT
        other.pwrite(b"e" * UNIT, elsewhere * UNIT)

    array.start("weftd")
    while h.aio_in_flight():
        assert h.poll(30_000) > 0, "still waits though weftd is back"
    assert h.aio_command_completed(cookie)
    assert h.pread(UNIT, on_m1 * UNIT) == b"w" * UNIT
    a = array.get("/api/v1/arrays/a")
    assert [m["state"] for m in a["members"]] == [
        "in-sync", "out", "in-sync", "in-sync"]
    h.flush()
    check_copies(array, model, lambda at, n: h.pread(n, at), lost=(1,))


def test_reads_go_on_though_it_stays_away(array):
    """For longer than the session's TTL (10 s). Another host might write by then, so the
    members of the other copies are asked.  A read of data with a copy on a member that is
    lost, too, waits, and is answered when weftd is back."""
    model = model_of(array, "raid-x", UNIT)
    image_on_m1 = next(a for a in range(model.units)
                       if model.copies(a)[1][0] == 1)
    elsewhere = next(a for a in range(model.units)
                     if 1 not in [m for m, _ in model.copies(a)])
    h, waits = connected(array.nbd), Pending(array.nbd)
    h.pwrite(b"r" * UNIT * 12, 0)
    h.flush()
    array.kill("weftd")
    time.sleep(11)
    for unit in range(12):
        assert h.pread(UNIT, unit * UNIT) == b"r" * UNIT
    array.kill("m1")
    waits.read(UNIT, image_on_m1 * UNIT).waits(3)
    assert h.pread(UNIT, elsewhere * UNIT) == b"r" * UNIT
    array.start("weftd")
    assert waits.result() == b"r" * UNIT


def test_a_record_survives_weftd(array):
    """Recorded once is recorded: weftd killed right after it said so."""
    h = connected(array.nbd)
    array.kill("m2")
    h.pwrite(b"x" * UNIT * 12, 0)
    h.flush()
    eventually(lambda: array.get("/api/v1/arrays/a")["members"][2]["state"]
               == "out")
    array.restart("weftd")
    a = array.get("/api/v1/arrays/a")
    assert a["members"][2]["state"] == "out"
    assert a["state"] == "degraded"
