"""Members alone: a weftd, three members of an array, and the host played here.

    from memberhost import *

The fixture `array` is that array; its header is read by a decoder of its own,
written from docs/FORMAT.md.
"""

import os
import struct
import uuid
import zlib

import nbd
import pytest

from nbdclient import refuses
from wefttest import eventually

__all__ = ["Array", "BAD", "CLEAR", "EXTENT", "HEADER", "MIB", "ROUND", "TRIM",
           "WRITE", "ZERO", "array", "batch", "dirty_in_view", "dirty_on_disk",
           "read_slots", "read_superblock", "refuses"]

MIB = 1 << 20
EXTENT = 4 * MIB
HEADER = MIB
WRITE, ZERO, TRIM, CLEAR, ROUND, BAD = 1, 2, 3, 4, 6, 7


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
                     (136, "states_epoch"), (408, "round")):
        s[name] = struct.unpack_from("<Q", block, at)[0]
    s["states"] = list(block[256:256 + s["n"] * s["groups"]])
    return s


def read_superblock(path):
    good = [s for i, s in enumerate(read_slots(path)) if s and s["sequence"] % 2 == i]
    return max(good, key=lambda s: s["sequence"])


def read_slots(path):
    with open(path, "rb") as f:
        return [read_slot(f.read(4096)) for _ in range(2)]


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
        # Disks of an array that was just deleted may not be free yet.
        eventually(lambda: c.call("POST", "/api/v1/arrays", {
            "name": "a", "layout": "raid-x", "unit": 65536,
            "disks": [disks[f"n{i}"] for i in range(len(disks))]})[0] == 201)
        eventually(lambda: self.show()["state"] == "ready")
        self.session = None

    @property
    def members(self):
        return self.c.members

    def show(self):
        return self.c.get("/api/v1/arrays/a")

    def disk(self, position):
        uuid_ = self.show()["members"][position]["disk"]
        return next(d for d in self.c.get("/api/v1/disks")["disks"]
                    if d["uuid"] == uuid_)

    def attach(self, mode="rw"):
        """Returns the tokens of each member.  Ends the writer before."""
        if mode == "rw":
            self.end()
        status, r = self.c.call("POST", "/api/v1/arrays/a/sessions", {
            "instance": os.urandom(8).hex(), "node": "n9",
            "pid": os.getpid(), "mode": mode, "uri": None})
        assert status == 201, r
        if mode == "rw":
            self.session = r["session"]
        return [m["tokens"] for m in r["map"]["members"]]

    def end(self):
        """Ends the writer's session, if there is one: beside a writer, a member that is
        started again would go out."""
        if self.session:
            self.c.call("DELETE", f"/api/v1/sessions/{self.session}")
        self.session = None

    def opened(self, position, *doors, **options):
        """A new writer's, of one member."""
        tokens = self.attach()[position]
        return [self.open(position, d, tokens[d], **options) for d in doors]

    def open(self, position, door, token, context=None):
        h = nbd.NBD()
        if context:
            h.add_meta_context(context)
        h.set_strict_mode(0)
        h.set_export_name(f"{door}/{token}")
        host, port = self.members[position]["uri"][len("nbd://"):].split(":")
        h.connect_tcp(host, port)
        return h

    def file(self, position):
        return self.members[position]["file"]

    def log(self, position):
        return self.c.log(self.members[position]["name"])

    def restart(self, position, end=True):
        name = self.members[position]["name"]
        self.c.kill(name)
        if end:
            self.end()
        self.c.start(name)


@pytest.fixture
def array(cluster):
    return Array(cluster(members=3, size="61M", no_array=True))


def dirty_in_view(h):
    view = h.pread(h.get_size(), 0)
    return {e for e in range(len(view) * 8) if view[e // 8] >> e % 8 & 1}
