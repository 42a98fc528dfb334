"""A joining member that fetches from the others what it lacks: real member
processes and real NBD, with weftd and the host played here.

Topology: two or three members; the last one is joining, the others are in-sync.
Causes: blank and outdated joiners, writes beside the copying, kill -9 of the
joiner and of a source, unreadable and failed sources, rates and pauses.
Pass:  the joiner ends `synced` with what its layout says byte by byte, and
tells at any time how far it is and whom it waits for.
"""

import contextlib
import hmac
import http.server
import json
import os
import random
import signal
import struct
import subprocess
import threading
import time
import uuid
import zlib

import nbd
import pytest

from copies import Copies, Model
from wefttest import eventually, run

MIB = 1 << 20
EXTENT = 4 * MIB
HEADER = MIB
UNIT = 65536


# --- Playing weftd ---------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Or a reply's head waits for the acknowledgement of the one before.
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        reply = self.server.scene.heartbeat(self.path.split("/")[4],
                                            json.loads(body))
        text = json.dumps(reply).encode()
        with contextlib.suppress(ConnectionError):  # it was killed meanwhile
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, *_):
        pass


class Disk:
    """A disk, and the process that serves it."""

    def __init__(self, scene, number, size, env=None):
        self.scene, self.number = scene, number
        self.env = env or {}
        self.file = scene.dir / f"m{number}.img"
        self.socket = scene.dir / f"m{number}.sock"
        self.log = scene.dir / f"m{number}.log"
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.key = os.urandom(32)
        self.min_epoch = 1
        self.heard, self.said = {}, 0
        self.process, self.killed = None, False
        with open(self.file, "wb") as f:
            f.truncate(size)
        run("weftctl", "disk", "format", self.file)
        with open(self.file, "rb") as f:
            f.seek(32)
            self.uuid = str(uuid.UUID(bytes=f.read(16)))

    def start(self):
        self.socket.unlink(missing_ok=True)
        pid = self.scene.dir / f"m{self.number}.pid"
        pid.unlink(missing_ok=True)
        self.said = 0
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                ["nbdkit", "-f", "-P", pid, "-U", self.socket, "weft",
                 f"disk={self.file}", f"admin={self.scene.url}",
                 f"uri={self.uri}", f"node=n{self.number}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **self.env})
        eventually(lambda: self.alive() and pid.exists() and
                   pid.read_text().strip(), every=0.02)
        self.pid, self.killed = int(pid.read_text()), False
        return self

    def alive(self):
        assert self.process.poll() is None, \
            f"status {self.process.returncode}: {self.log.read_text()}"
        return True

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.process.wait()
        self.killed = True

    def end(self):
        if self.process is None or self.killed:
            return
        self.alive()
        os.kill(self.pid, signal.SIGCONT)
        os.kill(self.pid, signal.SIGTERM)
        try:
            assert self.process.wait(20) == 0, self.log.read_text()
        finally:
            self.process.kill()
            self.killed = True
        text = self.log.read_text()
        for fault in ("Sanitizer", "runtime error", "Assertion"):
            assert fault not in text, text

    def token(self, writable=False, epoch=None, session=7):
        text = (f"1.{self.scene.array.hex}.{uuid.UUID(self.uuid).hex}."
                f"{session:016x}.{'rw' if writable else 'ro'}."
                f"{epoch or self.scene.epoch}")
        return text + "." + hmac.digest(self.key, text.encode(), "sha256").hex()

    def open(self, writable=True):
        h = nbd.NBD()
        h.set_strict_mode(0)
        h.set_export_name("data/" + self.token(writable))
        h.connect_unix(str(self.socket))
        return h


class Scene:
    """An array of its own, without a host."""

    def __init__(self, directory, layout="raid-x", members=3, size=61 * MIB,
                 unit=UNIT, env=None):
        self.dir = directory
        self.array, self.cluster = uuid.uuid4(), str(uuid.uuid4())
        self.layout, self.n, self.unit = layout, members, unit
        self.epoch = 1
        self.states = ["in-sync"] * members
        self.join = None
        self.changed = threading.Condition()
        self.version = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                      Handler)
        self.server.daemon_threads = True
        self.server.scene = self
        self.url = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever,
                         daemon=True).start()
        self.model = Model(layout, members, unit, size - HEADER)
        self.disks = [Disk(self, i, size, (env or {}).get(i))
                      for i in range(members)]
        self.joiner = self.disks[-1]
        self.content = bytearray(self.model.size)

    def close(self):
        try:
            for d in self.disks:
                d.end()
        finally:
            self.server.shutdown()
            self.server.server_close()

    # What weftd says.

    def heartbeat(self, disk, body):
        d = next(d for d in self.disks if d.uuid == disk)
        with self.changed:
            version = self.version
            d.heard = body
            d.said += 1
            d.min_epoch = max(d.min_epoch, body["min_epoch"])
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.version != version,
                                  body["wait_ms"] / 1000)
            return self.reply(d)

    def reply(self, d):
        return {
            "generation": 1, "cluster": self.cluster, "release": None,
            "min_epoch": d.min_epoch, "key": d.key.hex(),
            "news": "of a later weftd",
            "assignment": {
                "array": str(self.array), "position": d.number,
                "layout": self.layout, "n": self.n, "groups": 1,
                "unit": self.unit, "epoch": self.epoch, "states": self.states,
                "dup": "async-client", "member_bytes":
                    self.disks[0].file.stat().st_size - HEADER},
            "join": self.join if d is self.joiner else None}

    def say(self, change=lambda: None):
        """Change what is said, and wait until everybody has heard it."""
        with self.changed:
            change()
            self.version += 1
            begun = {d: d.said for d in self.disks}
            self.changed.notify_all()
        for d in self.disks:
            if d.process and d.process.poll() is None:
                eventually(lambda: d.said > begun[d] + 1, every=0.01)

    def start(self, joiner=True):
        for d in self.disks:
            if joiner or d is not self.joiner:
                d.start()
        self.say()
        return self

    def order(self, epoch=None, **more):
        """The join order, with the sources' newest tokens."""
        with self.changed:
            old = self.join or {"paused": False, "rate": 0}
            self.join = {
                "epoch": epoch or old["epoch"],
                "paused": old["paused"], "rate": old["rate"], **more,
                "sources": [
                    {"member": d.number, "uri": d.uri,
                     "tokens": {"data": d.token(session=0),
                                "intents": d.token(session=0)}}
                    for d in self.disks if self.states[d.number] == "in-sync"]}
            self.version += 1
            self.changed.notify_all()

    def next_epoch(self):
        """An epoch that every member's fence lets through."""
        self.epoch = max([self.epoch, *(d.heard.get("min_epoch", 0)
                                        for d in self.disks)]) + 1

    def out(self):
        def change():
            self.next_epoch()
            self.states[-1] = "out"
            self.join = None
        self.say(change)

    def begin(self, **more):
        """The last member begins to join; the order follows its fence."""
        def change():
            self.next_epoch()
            self.states[-1] = "joining"
            self.joiner.min_epoch = self.epoch
            self.join = None
        self.say(change)
        eventually(lambda: self.joiner.heard["min_epoch"] >= self.epoch)
        self.order(self.epoch, **more)

    @property
    def progress(self):
        return self.joiner.heard.get("join") or {"phase": None}

    def synced(self, seconds=60):
        def check():
            self.joiner.alive()
            p = self.progress
            return p["phase"] == "synced" and p["epoch"] == self.join["epoch"]
        eventually(check, seconds, 0.02,
                   f"synced: {self.progress}\n{self.joiner.log.read_text()}")
        return self.progress

    # What a host does.

    def write(self, doors, unit, data):
        """Survivors first, then the joiner, as a background copy."""
        places = sorted(self.model.copies(unit),
                        key=lambda p: p[0] == self.joiner.number)
        for member, at in places:
            if doors[member]:
                doors[member].pwrite(data, at * self.unit)
        self.content[unit * self.unit:(unit + 1) * self.unit] = data

    def doors(self, joiner=True):
        return [d.open() if joiner or d is not self.joiner else None
                for d in self.disks]

    def fill(self, rnd, doors, units=None):
        for a in units if units is not None else range(self.model.units):
            self.write(doors, a, rnd.randbytes(self.unit))
        for h in filter(None, doors):
            h.flush()

    def check(self, lost=()):
        files = [(d.file, HEADER) for d in self.disks]
        content = lambda at, n: self.content[at:at + n]
        with Copies(self.model, files) as copies:
            bad = copies.different(content, lost)
        assert not bad, f"{len(bad)} of {self.model.units}: {bad[:4]}"


@pytest.fixture
def scene(tmp_path):
    made = []

    def make(**more):
        made.append(Scene(tmp_path, **more))
        return made[-1]
    yield make
    for s in made:
        s.close()


LAYOUTS = [("raid-x", 3), ("raid-x", 4), ("raid-10", 4), ("chained", 3),
           ("rotated", 4), ("raid-1", 2), ("raid-1", 3)]


def blank(scene, rnd, **more):
    """Members 0... hold random data; the last one is blank and about to join.
    """
    s = scene(**more)
    s.states[-1] = "out"
    s.start(joiner=False)
    s.fill(rnd, s.doors(joiner=False))
    s.joiner.start()
    return s


# --- Copying ------------------------------------------------------------------------


@pytest.mark.parametrize("layout, members", LAYOUTS)
def test_blank_joiner_is_filled(scene, seed, layout, members):
    rnd = random.Random(seed)
    s = blank(scene, rnd, layout=layout, members=members)
    s.begin()
    p = s.synced()
    s.check()
    half = 60 * MIB - p["copied_bytes"]
    assert 0 <= half < 2 * MIB, p  # what the layout leaves unused
    assert p["todo_bytes"] == 0 and p["unreadable_bytes"] == 0
    assert p["waits"] is None
    h = s.joiner.heard
    assert (h["layout"], h["n"], h["unit"]) == (layout, members, UNIT)
    assert h["states"] == s.states and h["dup"] == "async-client"
    assert h["member_bytes"] == 60 * MIB


@pytest.mark.parametrize("unit", [4096, 4 * MIB])
def test_units_of_any_size(scene, seed, unit):
    s = blank(scene, random.Random(seed), unit=unit, size=37 * MIB)
    s.begin()
    s.synced()
    s.check()


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
    p = s.synced()
    s.check()
    blocks = [d.file.stat().st_blocks * 512 for d in s.disks]
    assert abs(blocks[0] - blocks[1]) < MIB, blocks
    assert p["copied_bytes"] <= 30 * MIB - 8 * MIB


def clear_all(length):
    """A batch that clears the intent bits of all these bytes."""
    table = struct.pack("<B7xQQ", 4, 0, length)
    head = struct.pack("<4sHHI", b"WBAT", 1, 1, 16 + len(table))
    crc = zlib.crc32(head + bytes(4) + table)
    return head + struct.pack("<I", crc) + table


@pytest.mark.parametrize("layout, members", [("raid-x", 3), ("raid-10", 4),
                                             ("raid-1", 3), ("chained", 3)])
def test_catch_up_reads_what_is_dirty(scene, seed, layout, members):
    """To the byte: our units that have another copy in an extent that became
    dirty elsewhere, and what shares an extent with them here."""
    rnd = random.Random(seed)
    s = scene(layout=layout, members=members).start()
    doors = s.doors()
    s.fill(rnd, doors)
    for d in s.disks:
        h = nbd.NBD()
        h.set_export_name("batch/" + d.token(True))
        h.connect_unix(str(d.socket))
        h.pwrite(clear_all(60 * MIB), 0)
    eventually(lambda: all(d.heard["dirty_extents"] == 0 for d in s.disks))
    s.out()
    touched = rnd.sample(range(s.model.units), 2)
    s.fill(rnd, doors[:-1] + [None], touched)

    me, extent = s.joiner.number, lambda place: place[1] * UNIT // EXTENT
    dirty = {(p[0], extent(p)) for a in touched for p in s.model.copies(a)
             if p[0] != me}
    ours = {extent(p) for a in range(s.model.units)
            for p in s.model.copies(a) if p[0] == me and
            any((q[0], extent(q)) in dirty for q in s.model.copies(a))}
    units = sum(p[0] == me and extent(p) in ours
                for a in range(s.model.units) for p in s.model.copies(a))
    s.begin()
    p = s.synced()
    s.check()
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
    s = blank(scene, rnd)
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
    s.synced()
    s.check()


def test_source_that_dies_is_waited_for(scene, seed):
    s = blank(scene, random.Random(seed))
    s.begin(rate=8 * MIB)
    eventually(lambda: s.progress.get("copied_bytes", 0) > 0)
    s.disks[1].kill()
    eventually(lambda: (s.progress["waits"] or "").startswith("member 1 "))
    assert s.disks[1].uri in s.progress["waits"]
    assert "rebuild waits for member 1" in s.joiner.log.read_text()
    s.disks[1].start()
    # Its start has fenced the old tokens; new ones come with the next order.
    s.next_epoch()
    s.order(rate=0)
    p = s.synced()
    s.check()
    assert p["waits"] is None and p["unreadable_bytes"] == 0


def test_source_that_hangs_holds_nothing_for_long(scene, seed):
    """A write that waits for an extent that waits for a stopped source."""
    s = blank(scene, random.Random(seed), layout="raid-1", members=2)
    s.begin(rate=8 * MIB)
    doors = s.doors()
    eventually(lambda: s.progress.get("copied_bytes", 0) > 0)
    os.kill(s.disks[0].pid, signal.SIGSTOP)
    eventually(lambda: "no answer" in (s.progress["waits"] or ""))
    begin = time.monotonic()
    for e in range(15):
        doors[1].pwrite(s.content[e * EXTENT:e * EXTENT + UNIT], e * EXTENT)
    assert time.monotonic() - begin < 12
    begin = time.monotonic()
    s.joiner.end()  # nor does it hold up the end
    assert time.monotonic() - begin < 10
    os.kill(s.disks[0].pid, signal.SIGCONT)
    s.joiner.start()
    s.begin()
    s.synced()
    s.check()


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
/* Reads that touch a range of the file BAD_RANGES fail. */
ssize_t
pread (int fd, void *buf, size_t n, off_t at)
{
  ssize_t (*real) (int, void *, size_t, off_t) =
    (ssize_t (*) (int, void *, size_t, off_t)) dlsym (RTLD_NEXT, "pread");
  long from, length;
  FILE *f = fopen (getenv ("BAD_RANGES"), "r");

  while (f && fscanf (f, "%ld %ld", &from, &length) == 2)
    if (at < from + length && from < at + (off_t) n) {
      fclose (f);
      errno = EIO;
      return -1;
    }
  if (f)
    fclose (f);
  return real (fd, buf, n, at);
}
ssize_t
pread64 (int fd, void *buf, size_t n, off_t at)
{
  return pread (fd, buf, n, at);
}
/* The next flush fails. */
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


@pytest.fixture
def shim(tmp_path):
    """The environment of a member whose disk breaks on demand."""
    (tmp_path / "shim.c").write_text(SHIM)
    run("cc", "-shared", "-fPIC", "-o", tmp_path / "shim.so",
        tmp_path / "shim.c", "-ldl")
    return {"LD_PRELOAD": str(tmp_path / "shim.so"),
            "BAD_RANGES": str(tmp_path / "bad"),
            "FAIL_ONCE": str(tmp_path / "fail")}


def test_unreadable_blocks_are_passed(scene, seed, shim, tmp_path):
    """Two sectors, and two blocks side by side."""
    s = blank(scene, random.Random(seed), layout="raid-1", members=2,
              env={0: shim})
    bad = [(5 * MIB + 512, 512, 1), (9 * MIB, 1, 1), (33 * MIB + 100, 8000, 2)]
    (tmp_path / "bad").write_text("\n".join(
        f"{HEADER + at} {n}" for at, n, _ in bad))
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
    (tmp_path / "bad").unlink()
    s.check(lost=[0])


def test_unreadable_blocks_come_from_another_copy(scene, seed, shim, tmp_path):
    s = blank(scene, random.Random(seed), layout="raid-1", members=3,
              env={0: shim})
    (tmp_path / "bad").write_text(f"{HEADER + 5 * MIB} 20000")
    s.begin()
    p = s.synced()
    assert p["unreadable_bytes"] == 0 and p["copied_bytes"] == s.model.size
    s.check()


def test_failed_source_is_no_unreadable_one(scene, seed, shim, tmp_path):
    """It answers EIO to everything; nothing of that may count as copied."""
    s = blank(scene, random.Random(seed), layout="raid-1", members=2,
              env={0: shim})
    h = s.disks[0].open()
    (tmp_path / "fail").touch()
    with pytest.raises(nbd.Error):
        h.flush()
    s.begin()
    eventually(lambda: "member 0" in (s.progress.get("waits") or ""))
    time.sleep(2)
    p = s.progress
    assert p["unreadable_bytes"] == 0 and p["phase"] != "synced", p
    s.disks[0].kill()
    s.disks[0].start()
    s.next_epoch()
    s.order()
    s.synced()
    s.check()


def test_source_that_fails_midway(scene, seed, shim, tmp_path):
    """Between two extents, its doors open."""
    s = blank(scene, random.Random(seed), layout="raid-1", members=2,
              env={0: shim})
    s.begin(rate=8 * MIB)
    eventually(lambda: s.progress.get("copied_bytes", 0) > 0)
    (tmp_path / "fail").touch()
    eventually(lambda: "member 0" in (s.progress["waits"] or ""))
    s.order(rate=0)
    time.sleep(2)
    p = s.progress
    assert p["unreadable_bytes"] == 0 and p["phase"] == "copying", p
    s.disks[0].kill()
    s.disks[0].start()
    s.next_epoch()
    s.order()
    p = s.synced()
    assert p["unreadable_bytes"] == 0
    s.check()


# --- Steering -----------------------------------------------------------------------


def test_rate_and_pause(scene, seed):
    """Counted in bytes: never more than the rate and one extent; nothing while
    paused; both at once when they are changed."""
    s = blank(scene, random.Random(seed), layout="raid-1", members=2)
    rate = 3 * MIB
    s.begin(rate=rate)
    begin = time.monotonic()
    while time.monotonic() - begin < 5:
        p = s.progress
        most = rate * (time.monotonic() - begin + 0.5) + EXTENT
        assert p.get("copied_bytes", 0) <= most, p
        time.sleep(0.05)
    assert s.progress["copied_bytes"] >= 2 * EXTENT
    assert 0 < s.progress["rate"] < 2 * rate
    s.order(paused=True, rate=0)
    s.say()
    time.sleep(0.5)
    p = s.progress
    time.sleep(2)
    assert s.progress["copied_bytes"] == p["copied_bytes"] < s.model.size
    assert s.progress["phase"] == "copying"
    s.order(paused=False)
    p = s.synced()
    assert p["copied_bytes"] == s.model.size
    s.check()


def test_order_withdrawn(scene, seed):
    """The member is taken out midway: it copies nothing any more, its threads
    end, and what it lacks stays marked."""
    s = blank(scene, random.Random(seed), layout="raid-1", members=2)
    threads = lambda: len(os.listdir(f"/proc/{s.joiner.pid}/task"))
    before = threads()
    s.begin(rate=8 * MIB)
    eventually(lambda: s.progress.get("copied_bytes", 0) > 0)
    assert threads() > before
    s.out()
    eventually(lambda: s.joiner.heard["join"] is None)
    eventually(lambda: threads() <= before)
    assert 0 < s.joiner.heard["dirty_extents"] <= 15
    s.begin()
    s.synced()
    s.check()
