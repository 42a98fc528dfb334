"""The member role: doors, tokens, intents, min_epoch, bad disks, over real NBD
connections and with a real weftd; the hosts are played here.

Topology: a weftd and three members of a raid-x array, no array process.
Causes: good and bad requests, kill -9, full disks, foreign and broken disks.
Pass:  what docs/FORMAT.md and core/member.h promise.  The header is read here by
a decoder of its own, written from docs/FORMAT.md.
"""

import contextlib
import os
import random
import re
import signal
import struct
import subprocess
import tempfile
import time
import uuid
import zlib

import nbd
import pytest

from nbdkitproc import refused
from wefttest import eventually, run

MIB = 1 << 20
EXTENT = 4 * MIB
HEADER = MIB
WRITE, ZERO, TRIM, CLEAR = 1, 2, 3, 4


# --- A second reader of docs/FORMAT.md ----------------------------------------


def crc_is_right(block, at):
    blank = block[:at] + bytes(4) + block[at + 4:]
    return struct.unpack_from("<I", block, at)[0] == zlib.crc32(blank)


def read_slot(block):
    """None: not valid."""
    if block[:8] != b"WEFTDISK" or not crc_is_right(block, 12):
        return None
    s = {"version": struct.unpack_from("<I", block, 8)[0]}
    for at, name in ((16, "cluster"), (32, "disk"), (48, "array")):
        s[name] = str(uuid.UUID(bytes=block[at:at + 16]))
    for at, name in ((64, "position"), (68, "layout"), (72, "n"),
                     (76, "groups"), (80, "unit")):
        s[name] = struct.unpack_from("<I", block, at)[0]
    for at, name in ((88, "data_offset"), (96, "data_bytes"),
                     (104, "min_epoch"), (112, "served_epoch"),
                     (120, "generation"), (128, "sequence"),
                     (136, "states_epoch")):
        s[name] = struct.unpack_from("<Q", block, at)[0]
    s["states"] = list(block[256:256 + s["n"] * s["groups"]])
    return s


def read_superblock(path):
    with open(path, "rb") as f:
        slots = [read_slot(f.read(4096)) for _ in range(2)]
    good = [s for i, s in enumerate(slots) if s and s["sequence"] % 2 == i]
    return max(good, key=lambda s: s["sequence"])


def dirty_on_disk(path):
    """The set of extents whose bits are set in the file."""
    extents = -(-read_superblock(path)["data_bytes"] // EXTENT)
    dirty = set()
    with open(path, "rb") as f:
        for b in range(-(-extents // 32640)):
            f.seek(8192 + b * 4096)
            block = f.read(4096)
            assert block[:4] == b"WINT" and crc_is_right(block, 8)
            assert struct.unpack_from("<I", block, 4)[0] == b
            for i in range(32640):
                if block[16 + i // 8] >> i % 8 & 1:
                    dirty.add(b * 32640 + i)
    assert all(e < extents for e in dirty)
    return dirty


def batch(*records, count=None, size=None, crc=None):
    """records: (kind, offset, payload or length).  The rest is for lying."""
    table, payloads = b"", b""
    for kind, offset, what in records:
        length = what if isinstance(what, int) else len(what)
        table += struct.pack("<B7xQQ", kind, offset, length)
        payloads += b"" if isinstance(what, int) else what
    count = len(records) if count is None else count
    size = 16 + len(table) + len(payloads) if size is None else size
    head = struct.pack("<4sHHI", b"WBAT", 1, count, size)
    if crc is None:
        crc = zlib.crc32(head + bytes(4) + table)
    return head + struct.pack("<I", crc) + table + payloads


# --- Playing the host ----------------------------------------------------------


class Array:
    """An array without an array process, and the host's side of its doors."""

    def __init__(self, c):
        self.c = c
        disks = {d["node"]: d["uuid"] for d in c.get("/api/v1/disks")["disks"]}
        self.members = c.members
        # Disks of an array that was just deleted may not be free yet.
        eventually(lambda: c.call("POST", "/api/v1/arrays", {
            "name": "a", "layout": "raid-x", "unit": 65536,
            "disks": [disks[f"n{i}"] for i in range(len(disks))]})[0] == 201)
        eventually(lambda: self.show()["state"] == "ready")
        self.session = None

    def show(self):
        return self.c.get("/api/v1/arrays/a")

    def disk(self, position):
        uuid_ = self.show()["members"][position]["disk"]
        return next(d for d in self.c.get("/api/v1/disks")["disks"]
                    if d["uuid"] == uuid_)

    def attach(self, mode="rw"):
        """Returns the tokens of each member.  Ends the writer before."""
        if mode == "rw" and self.session:
            self.c.call("DELETE", f"/api/v1/sessions/{self.session}")
        status, r = self.c.call("POST", "/api/v1/arrays/a/sessions", {
            "instance": os.urandom(8).hex(), "node": "n9",
            "pid": os.getpid(), "mode": mode, "uri": None})
        assert status == 201, r
        if mode == "rw":
            self.session = r["session"]
        return [m["tokens"] for m in r["map"]["members"]]

    def open(self, position, door, token):
        h = nbd.NBD()
        h.set_strict_mode(0)
        h.set_export_name(f"{door}/{token}")
        host, port = self.members[position]["uri"][len("nbd://"):].split(":")
        h.connect_tcp(host, port)
        return h

    def file(self, position):
        return self.members[position]["file"]

    def log(self, position):
        return self.c.log(self.members[position]["name"])

    def restart(self, position):
        name = self.members[position]["name"]
        self.c.kill(name)
        self.c.start(name)
        self.members = self.c.members


@pytest.fixture
def array(cluster):
    return Array(cluster(members=3, size="61M", no_array=True))


@contextlib.contextmanager
def refuses(errno_name):
    with pytest.raises(nbd.Error) as e:
        yield
    assert e.value.errno == errno_name, e.value


def dirty_in_view(h):
    view = h.pread(h.get_size(), 0)
    return {e for e in range(len(view) * 8) if view[e // 8] >> e % 8 & 1}


# --- Doors ---------------------------------------------------------------------


def test_data_door_holds_what_is_written(array, seed):
    """Random writes, zeroes and trims of odd sizes against a model."""
    rnd = random.Random(seed)
    t = array.attach()[0]
    h = array.open(0, "data", t["data"])
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
    h = nbd.NBD()
    h.add_meta_context("base:allocation")
    t = array.attach()[0]
    h.set_export_name("data/" + t["data"])
    host, port = array.members[0]["uri"][len("nbd://"):].split(":")
    h.connect_tcp(host, port)
    h.pwrite(b"d" * 65536, 8 * MIB)
    h.pwrite(b"d" * 65536, 20 * MIB)
    h.trim(65536, 20 * MIB)
    found = []
    h.block_status(h.get_size(), 0,
                   lambda _, offset, e, err: found.append((offset, list(e))))
    runs, at = [], 0
    for length, kind in zip(found[0][1][::2], found[0][1][1::2]):
        runs.append((at, length, kind))
        at += length
    hole = nbd.STATE_HOLE | nbd.STATE_ZERO
    assert runs == [(0, 8 * MIB, hole), (8 * MIB, 65536, 0),
                    (8 * MIB + 65536, 52 * MIB - 65536, hole)], runs
    # From the middle, too.
    found.clear()
    h.block_status(MIB, 8 * MIB + 4096,
                   lambda _, offset, e, err: found.append((offset, list(e))))
    assert found[0][1][:2] == [61440, 0]


def test_batch_door_applies_all_records(array):
    t = array.attach()[1]
    h = array.open(1, "data", t["data"])
    b = array.open(1, "batch", t["batch"])
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
        b.pread(512, 0)
    with refuses("EINVAL"):
        b.zero(512, 0)


def test_a_bad_batch_has_no_effect(array, seed):
    """Each is refused whole: also the good records before the bad one."""
    rnd = random.Random(seed)
    t = array.attach()[0]
    h = array.open(0, "data", t["data"])
    b = array.open(0, "batch", t["batch"])
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


def test_intents_door_is_for_reading(array):
    t = array.attach()[0]
    h = array.open(0, "data", t["data"])
    i = array.open(0, "intents", t["intents"])
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
    array.members = array.c.members
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
    t = array.attach()[2]
    h = array.open(2, "data", t["data"])
    b = array.open(2, "batch", t["batch"])
    h.pwrite(b"x" * 100, 3 * EXTENT)
    b.pwrite(batch((WRITE, 7 * EXTENT - 1, b"yy"), (ZERO, 12 * EXTENT, 1)), 0)
    want = {3, 6, 7, 12}
    array.restart(2)
    assert dirty_on_disk(array.file(2)) == want
    t = array.attach()[2]
    i = array.open(2, "intents", t["intents"])
    assert dirty_in_view(i) == want
    assert eventually(lambda: array.disk(2)["dirty_extents"] == 4)

    # They are nobody's now: the new session can't clear them.
    b = array.open(2, "batch", t["batch"])
    b.pwrite(batch((CLEAR, 0, 60 * MIB)), 0)
    assert dirty_in_view(i) == want


def test_cleared_bits_stay_cleared(array):
    """The session's own bits fall at once in the view, later on the disk;
    part of an extent clears nothing, the short last extent can be cleared."""
    t = array.attach()[0]
    h = array.open(0, "data", t["data"])
    b = array.open(0, "batch", t["batch"])
    i = array.open(0, "intents", t["intents"])
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
    t = array.attach()[0]
    assert dirty_in_view(array.open(0, "intents", t["intents"])) == {1, 2, 14}


def test_no_bit_falls_while_a_member_is_out(array):
    t = array.attach()
    h = array.open(0, "data", t[0]["data"])
    b = array.open(0, "batch", t[0]["batch"])
    i = array.open(0, "intents", t[0]["intents"])
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
    array.restart(0)
    after = read_superblock(array.file(0))
    assert after["min_epoch"] == served["min_epoch"] + 1
    cannot_open(array, 0, "data/" + t[0]["data"], r"epoch \d+ is over")
    # Nothing was served since: the next start changes nothing.
    array.restart(0)
    assert read_superblock(array.file(0))["min_epoch"] == after["min_epoch"]
    # weftd learns it, and a new writer gets an epoch beyond it.
    t = array.attach()
    array.open(0, "data", t[0]["data"])
    assert read_superblock(array.file(0))["min_epoch"] >= after["min_epoch"]


def test_superblock_says_what_weftd_says(array):
    shown = array.show()
    for p in range(3):
        s = read_superblock(array.file(p))
        d = array.disk(p)
        assert s["version"] == 1 and s["disk"] == d["uuid"]
        assert s["array"] == shown["uuid"] and s["position"] == p
        assert (s["layout"], s["n"], s["groups"], s["unit"]) == (0, 3, 1, 65536)
        assert s["data_offset"] == HEADER and s["data_bytes"] == 60 * MIB
        assert s["states"] == [0, 0, 0]
        assert s["cluster"] == array.c.get("/api/v1/status")["cluster"]
    # Both slots say the same.
    with open(array.file(0), "rb") as f:
        slots = [read_slot(f.read(4096)) for _ in range(2)]
    for s in slots:
        s.pop("sequence")
    assert slots[0] == slots[1]


def test_a_released_disk_is_dirty_and_free(array):
    t = array.attach()
    h = array.open(0, "data", t[0]["data"])
    h.pwrite(b"x", 0)
    array.c.call("DELETE", f"/api/v1/sessions/{array.session}")
    status, reply = array.c.call("DELETE", "/api/v1/arrays/a")
    assert status in (200, 202, 204), reply
    eventually(lambda: read_superblock(array.file(0))["array"] ==
               str(uuid.UUID(int=0)))
    assert dirty_on_disk(array.file(0)) == set(range(15))
    with refuses("ESHUTDOWN"):
        h.pread(1, 0)
    again = Array(array.c)
    h = again.open(0, "data", again.attach()[0]["data"])
    h.pwrite(b"y", 0)


# --- Disks ---------------------------------------------------------------------


def start_refused(path, admin):
    return refused("weft", f"disk={path}", f"admin={admin}",
                   "uri=nbd://127.0.0.1:10999", "node=n9")


@pytest.fixture
def weftd(cluster):
    return cluster(members=1, size="32M", no_array=True)


def format_disk(path, *words, check=True):
    return run("weftctl", "disk", "format", path, *words, check=check)


def a_file(tmp_path, size=32 * MIB):
    path = tmp_path / "disk.img"
    with open(path, "wb") as f:
        f.truncate(size)
    return path


def gpt(size):
    """The least that is a GUID partition table: both headers, no entries."""
    entries = bytes(128 * 128)

    def header(lba, other, table):
        h = struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0,
                        lba, other, 34, size // 512 - 34,
                        uuid.uuid4().bytes, table, 128, 128,
                        zlib.crc32(entries))
        return h[:16] + struct.pack("<I", zlib.crc32(h)) + h[20:]

    last = size // 512 - 1
    mbr = bytearray(512)
    mbr[446:462] = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xee, b"\xff" * 3,
                               1, last)
    mbr[510:] = b"\x55\xaa"
    return {0: bytes(mbr), 512: header(1, last, 2),
            last * 512: header(last, 1, last - 32)}


def lvm():
    label = struct.pack("<QI8s", 1, 32, b"LVM2 001") + b"A" * 32
    label = label + bytes(512 - 12 - len(label) - 8)
    body = label[8:]
    crc = zlib.crc32(body, 0xf597a6cf ^ 0xffffffff) ^ 0xffffffff
    return {512: b"LABELONE" + label[:8] + struct.pack("<I", crc) + body}


def md_at_end(size):
    """Version 1.0: at the end of the disk, within the data area."""
    sector = (size // 512 - 16) & ~7
    sb = bytearray(512)
    struct.pack_into("<II", sb, 0, 0xa92b4efc, 1)
    sb[16:32] = uuid.uuid4().bytes
    struct.pack_into("<Q", sb, 144, sector)
    total = sum(struct.unpack("<64I", sb[:256]))
    struct.pack_into("<I", sb, 216, (total + (total >> 32)) & 0xffffffff)
    return {sector * 512: bytes(sb)}


@pytest.mark.parametrize("what, words", [
    ("gpt", "partition table"), ("lvm", "LVM"), ("md", "software RAID"),
    ("swap", "swap"), ("ext4", "ext4 file system labelled \"home\"")])
def test_foreign_disks(weftd, tmp_path, what, words):
    """Refused as a member, not formatted over; with force, formatted so that
    libblkid finds nothing any more."""
    path = a_file(tmp_path)
    if what == "ext4":
        run("mke2fs", "-q", "-t", "ext4", "-L", "home", path)
    elif what == "swap":
        run("mkswap", path)
    else:
        parts = {"gpt": lambda: gpt(32 * MIB), "lvm": lvm,
                 "md": lambda: md_at_end(32 * MIB)}[what]()
        with open(path, "r+b") as f:
            for at, data in parts.items():
                f.seek(at)
                f.write(data)
    before = path.read_bytes()
    line = start_refused(path, weftd.admin)
    assert words in line and str(path) in line, line
    p = format_disk(path, check=False)
    assert p.returncode != 0 and words in p.stderr, p.stderr
    assert path.read_bytes() == before
    format_disk(path, "--force")
    p = run("blkid", "-p", path, check=False)
    assert p.returncode == 2 and p.stdout == "", p.stdout
    assert read_superblock(path)["array"] == str(uuid.UUID(int=0))


def test_a_file_system_made_over_a_member(weftd, tmp_path):
    """Swap space overwrites one slot only: the other must not serve."""
    path = a_file(tmp_path)
    format_disk(path)
    run("mkswap", path)
    line = start_refused(path, weftd.admin)
    assert "holds swap space" in line, line


def test_fresh_disks_know_whether_they_are_clean(tmp_path):
    clean = a_file(tmp_path)
    format_disk(clean)
    assert dirty_on_disk(clean) == set()
    used = tmp_path / "used.img"
    used.write_bytes(b"something" * 1000000)
    format_disk(used)
    s = read_superblock(used)
    assert s["data_bytes"] == (9000000 - MIB) // 4096 * 4096
    with open(used, "rb") as f:
        f.seek(HEADER)
        zeroes = not any(f.read(s["data_bytes"]))
    assert dirty_on_disk(used) == (set() if zeroes else {0, 1})


def test_disks_that_cannot_be_zeroed_start_dirty(tmp_path):
    """tmpfs has no ZERO_RANGE, so what was there is still there."""
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", small)
    try:
        disk = small / "disk.img"
        disk.write_bytes(b"something" * 1000000)
        format_disk(disk)
        with open(disk, "rb") as f:
            f.seek(HEADER)
            assert f.read(9) != bytes(9)
        assert dirty_on_disk(disk) == {0, 1}
    finally:
        run("umount", small)


@pytest.fixture
def loop(tmp_path):
    """A real block device."""
    path = a_file(tmp_path, 40 * MIB)
    device = run("losetup", "-f", "--show", path).stdout.strip()
    yield device
    run("losetup", "-d", device)


def test_block_device(weftd, loop, tmp_path):
    """Claimed for ourselves alone while it is served; refused while somebody
    else has it; everything works on it as on a file."""
    run("mke2fs", "-q", "-t", "ext4", loop)
    mount = tmp_path / "mnt"
    mount.mkdir()
    run("mount", loop, mount)
    try:
        p = format_disk(loop, "--force", check=False)
        assert p.returncode != 0 and "in use" in p.stderr, p.stderr
    finally:
        run("umount", mount)
    format_disk(loop, "--force")
    with open(loop, "rb") as f:
        f.seek(HEADER)
        zeroes = not any(f.read())
    assert dirty_on_disk(loop) == (set() if zeroes else set(range(10)))

    # In the place of the devcluster's only member, with an array over it.
    weftd.may_end("m0")
    weftd.kill("m0")
    host, port = weftd.members[0]["uri"][len("nbd://"):].split(":")
    with serving(loop, weftd.admin, host, port):
        disk = eventually(lambda: next(
            (d for d in weftd.get("/api/v1/disks")["disks"]
             if d["path"] == loop and d["alive"]), None))
        status, reply = weftd.call("POST", "/api/v1/arrays", {
            "name": "a", "layout": "raid-0", "unit": 65536,
            "disks": [disk["uuid"]]})
        assert status == 201, reply
        eventually(lambda: weftd.get("/api/v1/arrays/a")["state"] == "ready")
        status, r = weftd.call("POST", "/api/v1/arrays/a/sessions", {
            "instance": "aa", "node": "n9", "pid": 1, "mode": "rw",
            "uri": None})
        assert status == 201, r
        h = nbd.NBD()
        h.set_export_name("data/" + r["map"]["members"][0]["tokens"]["data"])
        h.connect_tcp(host, port)
        model = bytearray(os.urandom(MIB))
        h.pwrite(model, 5 * MIB, nbd.CMD_FLAG_FUA)
        for at, n, trim in ((100, 1000, False), (5000, 20000, True),
                            (65536, 131072, False), (262144, 4096, True),
                            (300001, 4095, True), (MIB - 7, 7, False)):
            (h.trim if trim else h.zero)(n, 5 * MIB + at)
            model[at:at + n] = bytes(n)
        h.flush()
        assert h.pread(MIB, 5 * MIB) == model
        assert "in use" in start_refused(loop, weftd.admin)
        p = format_disk(loop, "--force", check=False)
        assert p.returncode != 0 and "in use" in p.stderr, p.stderr
        # Nor can the system take it.
        assert run("mount", loop, mount, check=False).returncode != 0


@contextlib.contextmanager
def serving(path, admin, host, port):
    with tempfile.NamedTemporaryFile("r") as log, subprocess.Popen(
            ["nbdkit", "-f", "-i", host, "-p", port, "weft", f"disk={path}",
             f"admin={admin}", f"uri=nbd://{host}:{port}", "node=n9"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log) as p:
        try:
            yield
            assert p.poll() is None, log.read()
        finally:
            p.send_signal(signal.SIGTERM)
            try:
                assert p.wait(20) == 0, log.read()
            except subprocess.TimeoutExpired:
                p.kill()
                raise


def test_a_full_file_system_fails_the_member(cluster, tmp_path):
    """A write that fails: the host gets the error, and from then on the
    member serves nothing, not even reads, and weftd knows why."""
    c = cluster(members=1, size="32M", no_array=True)
    small = tmp_path / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", small)
    try:
        disk = small / "disk.img"
        with open(disk, "wb") as f:
            f.truncate(64 * MIB)
        format_disk(disk)
        c.may_end("m0")
        c.kill("m0")
        host, port = c.members[0]["uri"][len("nbd://"):].split(":")
        with serving(disk, c.admin, host, port):
            find = lambda: next((d for d in c.get("/api/v1/disks")["disks"]
                                 if d["path"] == str(disk)), None)
            uuid_ = eventually(find)["uuid"]
            status, reply = c.call("POST", "/api/v1/arrays", {
                "name": "a", "layout": "raid-0", "unit": 65536,
                "disks": [uuid_]})
            assert status == 201, reply
            eventually(lambda:
                       c.get("/api/v1/arrays/a")["state"] == "ready")
            status, r = c.call("POST", "/api/v1/arrays/a/sessions", {
                "instance": "aa", "node": "n9", "pid": 1, "mode": "rw",
                "uri": None})
            token = r["map"]["members"][0]["tokens"]["data"]
            h = nbd.NBD()
            h.set_export_name("data/" + token)
            h.connect_tcp(host, port)
            h.pwrite(b"x" * MIB, 0)
            with refuses("ENOSPC"):
                for i in range(1, 8):
                    h.pwrite(b"x" * MIB, i * MIB)
            for request in (lambda: h.pread(512, 0), lambda: h.flush(),
                            lambda: h.pwrite(b"y", 0)):
                with refuses("EIO"):
                    request()
            again = nbd.NBD()
            again.set_export_name("data/" + token)
            with pytest.raises(nbd.Error):
                again.connect_tcp(host, port)
            eventually(lambda: "No space left" in str(find()))
    finally:
        run("umount", small)


FAIL_ONCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
int
fdatasync (int fd)
{
  int (*real) (int) = (int (*) (int)) dlsym (RTLD_NEXT, "fdatasync");
  if (unlink (getenv ("FAIL_ONCE")) == 0) {
    errno = EIO;
    return -1;
  }
  return real (fd);
}
"""


def test_a_failed_flush_is_not_tried_again(cluster, tmp_path):
    """fdatasync fails once: the kernel may have dropped what it could not
    write, so a later success would mean nothing."""
    (tmp_path / "fail.c").write_text(FAIL_ONCE)
    shim, flag = tmp_path / "fail.so", tmp_path / "fail"
    run("cc", "-shared", "-fPIC", "-o", shim, tmp_path / "fail.c", "-ldl")
    array = Array(cluster(
        members=3, size="61M", no_array=True,
        env={"WEFT_WRAP_MEMBER": f"env LD_PRELOAD={shim} FAIL_ONCE={flag}"}))
    t = array.attach()[0]
    h = array.open(0, "data", t["data"])
    h.pwrite(b"x", 0)
    h.flush()
    flag.touch()
    with refuses("EIO"):
        h.flush()
    assert not flag.exists()
    for request in (h.flush, lambda: h.pread(1, 0), lambda: h.pwrite(b"y", 0)):
        with refuses("EIO"):
            request()
    eventually(lambda: "flushing failed" in str(array.disk(0)))
    # The bits of what was written are there for whoever resyncs it.
    assert dirty_on_disk(array.file(0)) == {0}


def test_superblock_shows_that_a_member_is_written(array):
    """At least once a minute while it is; not while it is not."""
    t = array.attach()
    h = array.open(0, "data", t[0]["data"])
    sequences = [read_superblock(array.file(p))["sequence"] for p in range(3)]

    def touched():
        h.pwrite(b"x", 0)
        return read_superblock(array.file(0))["sequence"] > sequences[0]
    eventually(touched, seconds=60, every=1)
    assert read_superblock(array.file(1))["sequence"] == sequences[1]


def test_ends_quickly_with_idle_clients(array):
    """SIGTERM with doors open and nobody asking anything."""
    t = array.attach()
    doors = [array.open(0, d, t[0][d]) for d in ("data", "batch", "intents")]
    doors[0].pwrite(b"x" * MIB, 0)
    array.c.may_end("m0")
    array.c.stop("weftd")  # nor does a weftd that hangs keep it
    begin = time.monotonic()
    os.kill(array.members[0]["pid"], signal.SIGTERM)
    eventually(lambda: array.c.status()["members"][0]["state"] == "down",
               seconds=10, every=0.05)
    assert time.monotonic() - begin < 10
    assert "Assertion" not in array.log(0)
    array.c.cont("weftd")
    array.c.start("m0")
    array.members = array.c.members
    h = array.open(0, "data", array.attach()[0]["data"])
    assert h.pread(MIB, 0) == b"x" * MIB


def test_torn_header_writes(array):
    """One slot and a block of the intent map are damaged, as by a power cut:
    the other slot serves, the block counts as all dirty, both are mended."""
    t = array.attach()
    array.open(0, "data", t[0]["data"]).pwrite(b"x", 0)
    array.c.kill("m0")
    before = read_superblock(array.file(0))
    with open(array.file(0), "r+b") as f:
        # The one that would be written next.
        f.seek((before["sequence"] + 1) % 2 * 4096 + 512)
        f.write(b"torn")
        f.seek(8192 + 512)
        f.write(b"torn")
    array.c.start("m0")
    array.members = array.c.members
    with open(array.file(0), "rb") as f:
        slots = [read_slot(f.read(4096)) for _ in range(2)]
    assert all(slots) and {s["min_epoch"] for s in slots} == \
        {before["min_epoch"] + 1}
    assert "damaged" in array.log(0)
    i = array.open(0, "intents", array.attach()[0]["intents"])
    assert dirty_in_view(i) == set(range(15))
