"""The member role: doors, tokens, intents, min_epoch, over real NBD connections
and with a real weftd; the hosts are played (memberhost.py).

Topology: a weftd and three members of a raid-x array, no array process.
Causes: good and bad requests, tokens of every kind, kill -9.
Pass:  The promises of docs/FORMAT.md and core/member/member.h hold.
"""

import contextlib
import os
import pathlib
import random
import re
import sys
import time
import uuid

import nbd
import pytest

from memberhost import (Array, BAD, CLEAR, EXTENT, HEADER, MIB, ROUND, TRIM, WRITE,
                        ZERO, array, batch, dirty_in_view, dirty_on_disk, read_slots,
                        read_superblock, refuses)
from wefttest import eventually

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import counting                                                  # noqa: E402


# --- Doors ---------------------------------------------------------------------


def test_data_door_holds_what_is_written(array, seed):
    """Random writes, zeroes and trims of odd sizes against a model."""
    rnd = random.Random(seed)
    [h] = array.opened(0, "data")
    size = h.get_size()
    assert size == 60 * MIB and not h.is_read_only()
    assert h.can_multi_conn() and h.can_fua() and h.can_flush()
    model = bytearray(size)
    for _ in range(300):
        n = rnd.choice([1, 511, 4096, 65536, 300000])
        at = rnd.randrange(size - n + 1)
        if rnd.random() < 0.5:
            at -= at % 4096
        flags = rnd.choice([0, nbd.CMD_FLAG_FUA])
        what = rnd.randrange(4)
        if what < 2:
            data = rnd.randbytes(n)
            h.pwrite(data, at, flags)
            model[at:at + n] = data
        elif what == 2:
            h.zero(n, at, flags | rnd.choice([0, nbd.CMD_FLAG_NO_HOLE]))
            model[at:at + n] = bytes(n)
        else:
            h.trim(n, at, flags)
            model[at:at + n] = bytes(n)
        at = rnd.randrange(size - 100000)
        assert h.pread(100000, at) == model[at:at + 100000]
    h.flush()
    assert b"".join(h.pread(MIB, i * MIB) for i in range(60)) == model
    h.shutdown()
    # And so it stands in the file, behind the header.
    with open(array.file(0), "rb") as f:
        f.seek(read_superblock(array.file(0))["data_offset"])
        assert f.read() == model


def test_extents_show_holes(array):
    [h] = array.opened(0, "data", context="base:allocation")
    h.pwrite(b"d" * 65536, 8 * MIB)
    h.pwrite(b"d" * 65536, 20 * MIB)
    h.trim(65536, 20 * MIB)
    def extents(length, offset):
        found = []
        h.block_status(length, offset, lambda *a: found.append(list(a[2])) or 0)
        return found[0]

    runs, at = [], 0
    found = extents(h.get_size(), 0)
    for length, kind in zip(found[::2], found[1::2]):
        runs.append((at, length, kind))
        at += length
    hole = nbd.STATE_HOLE | nbd.STATE_ZERO
    assert runs == [(0, 8 * MIB, hole), (8 * MIB, 65536, 0),
                    (8 * MIB + 65536, 52 * MIB - 65536, hole)], runs
    # From the middle, too.
    assert extents(MIB, 8 * MIB + 4096)[:2] == [61440, 0]
    # And where a hole is made in what was just told.
    h.trim(4096, 8 * MIB + 8192)
    assert extents(MIB, 8 * MIB + 4096)[:4] == [4096, 0, 4096, hole]
    h.pwrite(b"e" * 4096, 8 * MIB + 8192)
    assert extents(MIB, 8 * MIB + 4096)[:2] == [61440, 0]


def test_a_run_of_data_is_looked_for_once(array):
    """Extent by extent, as a rebuild asks: some file systems go through the whole
    run to find where it ends."""
    [h] = array.opened(0, "data", context="base:allocation")
    h.pwrite(b"d" * 16 * MIB, 8 * MIB)
    found = []

    def ask():
        for at in range(8 * MIB, 24 * MIB, MIB):
            h.block_status(MIB, at, lambda *a: found.append(list(a[2])) or 0)

    seeks = counting.traced([array.c.pid(array.members[0]["name"])], ask)["lseek"]
    assert [f[:2] for f in found] == [[MIB, 0]] * 16
    assert 0 < seeks <= 4


def test_batch_door_applies_all_records(array):
    h, b = array.opened(1, "data", "batch")
    assert b.get_size() == 64 * MIB
    h.pwrite(b"o" * 100000, 10 * MIB)
    b.pwrite(batch((WRITE, 0, b"first"), (ZERO, 10 * MIB + 10, 20),
                   (WRITE, 59 * MIB, b"L" * 70000),
                   (TRIM, 10 * MIB + 8192, 8192), (CLEAR, 0, 60 * MIB)), 0,
             nbd.CMD_FLAG_FUA)
    assert h.pread(6, 0) == b"first\0"
    assert h.pread(100000, 10 * MIB) == (
        b"o" * 10 + bytes(20) + b"o" * 8162 + bytes(8192) + b"o" * 83616)
    assert h.pread(70001, 59 * MIB) == b"L" * 70000 + b"\0"
    b.pwrite(batch(), 0)  # nothing is a batch too
    with refuses("EINVAL"):
        b.zero(512, 0)


def test_batch_door_says_the_round(array):
    b, other = array.opened(0, "batch", "batch")
    assert b.pread(8, 0) == bytes(8)
    b.pwrite(batch((ROUND, 0, 0x1234567)), 0)
    assert other.pread(8, 0) == (0x1234567).to_bytes(8, "little")
    assert other.pread(8, 8) == bytes(8)  # for how long its disk has been stuck
    for length, offset in (512, 0), (8, 16), (7, 0), (9, 0), (16, 0), (8, 1):
        with refuses("EINVAL"):
            b.pread(length, offset)
    assert "the batch door is not for reading" in array.log(0)


def test_a_bad_batch_has_no_effect(array, seed):
    """Each is refused whole: also the good records before the bad one."""
    rnd = random.Random(seed)
    h, b = array.opened(0, "data", "batch")
    h.pwrite(b"before" * 1000, 0)
    good = (WRITE, 0, b"after!" * 100)
    end = h.get_size()
    whole = batch(good, (ZERO, 4096, 4096))
    bad = [
        b"", b"W", whole[:15], whole[:-1], whole + b"\0",
        b"XBAT" + whole[4:],
        batch(good, count=2), batch(good, count=0), batch(good, size=17),
        batch(good, crc=0), batch(good, (9, 0, 1)), batch(good, (0, 0, 1)),
        batch(good, (ZERO, 0, 0)), batch(good, (ZERO, end, 1)),
        batch(good, (ZERO, end - 1, 2)), batch(good, (CLEAR, 0, end + 1)),
        batch(good, (ZERO, 2 ** 64 - 1, 2)), batch(good, (ZERO, 2, 2 ** 64 - 1)),
        batch(good, (WRITE, 8, 4096)),  # a length without its payload
        batch(*[(ZERO, 0, 1)] * 1025),
        batch((WRITE, 0, bytes(2 * MIB))),
        os.urandom(5000),
    ]
    for _ in range(300):
        bent = bytearray(whole)
        bent[rnd.randrange(16 + 2 * 24)] ^= 1 << rnd.randrange(8)
        bad.append(bytes(bent))
    for data in bad:
        if data:
            with refuses("EINVAL"):
                b.pwrite(data, 0)
    with refuses("EINVAL"):
        b.pwrite(whole, 512)
    assert h.pread(6000, 0) == b"before" * 1000
    assert "a batch is refused as a whole: " in array.log(0)
    b.pwrite(whole, 0)  # the good one still works
    assert h.pread(600, 0) == b"after!" * 100


def test_a_bad_range_without_a_place_is_refused(array):
    """The list holds 1,020 ranges.  A longer report is refused; otherwise the caller would
    believe that all ranges were noted."""
    b, = array.opened(0, "batch")
    with refuses("ENOSPC"):
        b.pwrite(batch(*[(BAD, i * 8192, 4096) for i in range(1021)]), 0)
    assert "there is no room in the list of bad ranges: " in array.log(0)


def test_intents_door_is_for_reading(array):
    h, i = array.opened(0, "data", "intents")
    assert i.get_size() == 2 and i.is_read_only()  # 15 extents
    assert dirty_in_view(i) == set()
    h.pwrite(b"x", 0)
    h.zero(2, 2 * EXTENT - 1)
    h.trim(4096, 60 * MIB - 4096)
    assert dirty_in_view(i) == {0, 1, 2, 14}
    h.pread(4096, 6 * EXTENT)
    h.flush()
    assert dirty_in_view(i) == {0, 1, 2, 14}
    assert dirty_on_disk(array.file(0)) == {0, 1, 2, 14}
    with pytest.raises(nbd.Error):
        i.pwrite(b"x", 0)


# --- Tokens --------------------------------------------------------------------


def cannot_open(array, position, name, *patterns):
    before = len(array.log(position))
    with pytest.raises(nbd.Error):
        array.open(position, *name.split("/", 1))
    said = array.log(position)[before:]
    for p in patterns:
        assert re.search(p, said), said


def test_tokens_open_one_door_set_of_one_member(array):
    t = array.attach()
    ro = array.attach("ro")
    array.open(0, "data", t[0]["data"])
    cannot_open(array, 1, "data/" + t[0]["data"],
                "was not made for this member")
    cannot_open(array, 0, "attic/" + t[0]["data"], "no such export")
    body, mac = t[0]["data"].rsplit(".", 1)
    for forged in (body + "." + "0" * 64, body + "." + mac[::-1], body,
                   body.replace(".rw.", ".ro.") + "." + mac,
                   ro[0]["data"].replace(".ro.", ".rw.")):
        cannot_open(array, 0, "data/" + forged, "token")

    # Read-only: reads, and has no way to write.
    h = array.open(0, "data", ro[0]["data"])
    assert h.is_read_only()
    assert len(h.pread(4096, 0)) == 4096
    for write in (lambda: h.pwrite(b"x", 0), lambda: h.zero(1, 0),
                  lambda: h.trim(1, 0)):
        with pytest.raises(nbd.Error):
            write()
    cannot_open(array, 0, "batch/" + ro[0]["data"], "read-only")
    i = array.open(0, "intents", ro[0]["data"])
    assert dirty_in_view(i) == set()


def test_an_epoch_that_is_over_is_over_on_every_request(array):
    """The doors of the old session stay open, but nothing goes through."""
    old = array.attach()
    doors = [array.open(0, d, old[0][d]) for d in ("data", "batch", "intents")]
    doors[0].pwrite(b"old", 0)
    new = array.attach()
    for request in (lambda: doors[0].pread(512, 0),
                    lambda: doors[0].pwrite(b"x", 0),
                    lambda: doors[0].zero(512, 0),
                    lambda: doors[0].trim(512, 0),
                    lambda: doors[0].flush(),
                    lambda: doors[1].pwrite(batch((WRITE, 0, b"x")), 0),
                    lambda: doors[2].pread(1, 0)):
        with refuses("ESHUTDOWN"):
            request()
    cannot_open(array, 0, "data/" + old[0]["data"], r"epoch \d+ is over")
    h = array.open(0, "data", new[0]["data"])
    assert h.pread(3, 0) == b"old"


def test_no_door_before_weftd_was_reached(array):
    """weftd is away as the member starts: it starts, and says why it opens
    nothing; when weftd comes back, it does."""
    t = array.attach()
    array.c.kill("weftd")
    array.c.kill("m0")
    before = len(array.log(0))
    array.c.start("m0")
    cannot_open(array, 0, "data/" + t[0]["data"], "has not reached weftd")
    time.sleep(2.5)
    log = array.log(0)[before:]
    assert log.count("does not answer") == 1, log  # said once, not each second
    array.c.start("weftd")
    array.session = None
    eventually(lambda: array.disk(0)["alive"])
    h = array.open(0, "data", eventually_attach(array)[0]["data"])
    h.pwrite(b"again", 0)


def eventually_attach(array):
    """The last writer is silent, not gone: it must first be missed."""
    def attach():
        with contextlib.suppress(AssertionError):
            return array.attach()
    return eventually(attach, seconds=40)


# --- Intents and min_epoch over restarts ---------------------------------------


def test_intents_survive_kill_9(array):
    h, b = array.opened(2, "data", "batch")
    h.pwrite(b"x" * 100, 3 * EXTENT)
    b.pwrite(batch((WRITE, 7 * EXTENT - 1, b"yy"), (ZERO, 12 * EXTENT, 1)), 0)
    want = {3, 6, 7, 12}
    array.restart(2)
    assert dirty_on_disk(array.file(2)) == want
    i, b = array.opened(2, "intents", "batch")
    assert dirty_in_view(i) == want
    assert eventually(lambda: array.disk(2)["dirty_extents"] == 4)

    # They are nobody's now: the new session can't clear them.
    b.pwrite(batch((CLEAR, 0, 60 * MIB)), 0)
    assert dirty_in_view(i) == want


def test_cleared_bits_stay_cleared(array):
    """The session's own bits fall at once in the view, later on the disk;
    part of an extent clears nothing, the short last extent can be cleared."""
    h, b, i = array.opened(0, "data", "batch", "intents")
    for e in (0, 1, 2, 14):
        h.pwrite(b"x", e * EXTENT)
    h.flush()
    b.pwrite(batch((CLEAR, 0, EXTENT), (CLEAR, EXTENT, EXTENT - 1),
                   (CLEAR, 14 * EXTENT, 60 * MIB - 14 * EXTENT)), 0)
    assert dirty_in_view(i) == {1, 2}
    eventually(lambda: dirty_on_disk(array.file(0)) == {1, 2})
    h.pwrite(b"y", 14 * EXTENT)
    array.restart(0)
    assert dirty_on_disk(array.file(0)) == {1, 2, 14}
    assert dirty_in_view(*array.opened(0, "intents")) == {1, 2, 14}


def test_no_bit_falls_while_a_member_is_out(array):
    h, b, i = array.opened(0, "data", "batch", "intents")
    h.pwrite(b"x", 0)
    array.c.may_end("m1")
    array.c.kill("m1")
    status, reply = array.c.call(
        "POST", f"/api/v1/sessions/{array.session}/lost",
        {"member": 1, "reason": "killed by the test"})
    assert status == 200 and reply["states"][1] == "out", reply
    eventually(lambda: read_superblock(array.file(0))["states"] == [0, 1, 0])
    b.pwrite(batch((CLEAR, 0, 60 * MIB)), 0)
    assert dirty_in_view(i) == {0}
    h.pwrite(b"x", 0)  # and the door is as open as before


def test_min_epoch_goes_up_at_each_start_that_follows_service(array):
    t = array.attach()
    before = read_superblock(array.file(0))
    array.open(0, "data", t[0]["data"])
    served = read_superblock(array.file(0))
    assert served["served_epoch"] == served["min_epoch"] == \
        before["min_epoch"] > 0
    array.restart(0, end=False)
    after = read_superblock(array.file(0))
    assert after["min_epoch"] == served["min_epoch"] + 1
    # A token is for one life of a member.
    cannot_open(array, 0, "data/" + t[0]["data"], "was not made for this member")
    # Nothing was served since: the next start changes nothing.
    array.restart(0, end=False)
    assert read_superblock(array.file(0))["min_epoch"] == after["min_epoch"]
    # weftd learns it, and a new writer gets an epoch beyond it; at once, or when
    # the member was out meanwhile, as one is that starts again beside a writer.
    def opens():
        with contextlib.suppress(nbd.Error):
            return array.open(0, "data", array.attach()[0]["data"])
        return None
    eventually(opens)
    assert read_superblock(array.file(0))["min_epoch"] >= after["min_epoch"]


def test_superblock_says_what_weftd_says(array):
    shown = array.show()
    for p in range(3):
        s = read_superblock(array.file(p))
        d = array.disk(p)
        assert s["version"] == 2 and s["disk"] == d["uuid"]
        assert s["array"] == shown["uuid"] and s["position"] == p
        assert (s["layout"], s["n"], s["groups"], s["unit"]) == (0, 3, 1, 65536)
        assert s["data_offset"] == HEADER and s["data_bytes"] == 60 * MIB
        assert s["states"] == [0, 0, 0]
        assert s["cluster"] == array.c.get("/api/v1/status")["cluster"]
    # Both slots say the same.
    slots = read_slots(array.file(0))
    for s in slots:
        s.pop("sequence")
    assert slots[0] == slots[1]


def test_a_released_disk_is_dirty_and_free(array):
    [h] = array.opened(0, "data")
    h.pwrite(b"x", 0)
    array.c.call("DELETE", f"/api/v1/sessions/{array.session}")
    status, reply = array.c.call("DELETE", "/api/v1/arrays/a")
    assert status in (200, 202, 204), reply
    eventually(lambda: read_superblock(array.file(0))["array"] ==
               str(uuid.UUID(int=0)))
    assert dirty_on_disk(array.file(0)) == set(range(15))
    with refuses("ESHUTDOWN"):
        h.pread(1, 0)
    [h] = Array(array.c).opened(0, "data")
    h.pwrite(b"y", 0)
