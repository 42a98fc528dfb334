"""Members that fetch from each other, with weftd and the host played here.

    from memberscene import *

The fixture `scene` makes one: real member processes, real NBD, and a model of
what each must hold.
"""

import contextlib
import hmac
import http.server
import json
import os
import signal
import threading
import uuid

import nbd
import pytest

from copies import Copies, Model
from wefttest import background, eventually, run

__all__ = ["EXTENT", "HEADER", "MIB", "Scene", "UNIT", "mint", "scene", "serve_json"]

MIB = 1 << 20
EXTENT = 4 * MIB
HEADER = MIB
UNIT = 65536


# --- Playing weftd ---------------------------------------------------------------


def serve_json(post):
    """An HTTP server: post (path, body) returns the status and the reply."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Or a reply's head waits for the acknowledgement of the one before.
        disable_nagle_algorithm = True

        def answer(self, status, text):
            with contextlib.suppress(ConnectionError):  # it was killed meanwhile
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, reply = post(self.path, json.loads(body))
            self.answer(status, json.dumps(reply).encode())

        def do_DELETE(self):
            self.answer(204, b"")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


def mint(key, array, member, session, rights, epoch):
    """A token of docs/PROTOCOL.md: of two UUIDs, the session's name, "rw" or "ro"."""
    text = f"1.{array.hex}.{member.hex}.{session}.{rights}.{epoch}"
    return text + "." + hmac.digest(key, text.encode(), "sha256").hex()


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
        self.process = background(
            self.log, "nbdkit", "-f", "-P", pid, "-U", self.socket, "weft",
            f"disk={self.file}", f"admin={self.scene.url}", f"uri={self.uri}",
            f"node=n{self.number}", env=self.env)
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
        return mint(self.key, self.scene.array, uuid.UUID(self.uuid),
                    f"{session:016x}", "rw" if writable else "ro",
                    epoch or self.scene.epoch)

    def open(self, writable=True, door="data"):
        h = nbd.NBD()
        h.set_strict_mode(0)
        h.set_export_name(f"{door}/{self.token(writable)}")
        h.connect_unix(str(self.socket))
        return h

    def dirty(self):
        """The extents that are marked as dirty now."""
        h = self.open(writable=False, door="intents")
        bits = h.pread(h.get_size(), 0)
        return {e for e in range(8 * len(bits)) if bits[e // 8] >> e % 8 & 1}


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
        self.short_answers = 0
        self.changed = threading.Condition()
        self.version = 0
        self.refusals = 0 # so many heartbeats are one too many for weftd
        self.server, self.url = serve_json(lambda path, body:
            self.busy() or (200, self.heartbeat(path.split("/")[4], body)))
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

    # weftd's answers.

    def busy(self):
        with self.changed:
            if self.refusals == 0:
                return None
            self.refusals -= 1
        return 429, {"status": 429, "code": "too-many-requests",
                     "detail": "too many requests at once"}

    def heartbeat(self, disk, body):
        d = next(d for d in self.disks if d.uuid == disk)
        with self.changed:
            version = self.version
            if not body["news"]:
                assert not body.keys() & {"uri", "min_epoch", "layout"}
                assert all(body[k] == d.heard[k] for k in (
                    "instance", "node", "report"))
                body = {**d.heard, **body}
            d.heard = body
            d.said += 1
            d.min_epoch = max(d.min_epoch, body["min_epoch"])
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.version != version,
                                  body["wait_ms"] / 1000)
            return self.reply(d)

    def reply(self, d):
        """Once it is up to date, it hears only that."""
        if not d.heard["news"] and d.heard["states_epoch"] == self.epoch:
            said = {"assignment": True}
            self.short_answers += 1
        else:
            said = self.place(d)
        return {
            "generation": 1, "cluster": self.cluster, "release": None,
            "min_epoch": d.min_epoch, "more": "of a later weftd", **said,
            "join": self.join if d is self.joiner else None}

    def place(self, d):
        return {
            "key": d.key.hex(),
            "assignment": {
                "array": str(self.array), "position": d.number,
                "layout": self.layout, "n": self.n, "groups": 1,
                "unit": self.unit, "epoch": self.epoch, "states": self.states,
                "dup": "async-client", "member_bytes":
                    self.disks[0].file.stat().st_size - HEADER}}

    def say(self, change=lambda: None):
        """Changes the answers, and waits until all disks have heard it."""
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

    def copied_some(self, least=1):
        eventually(lambda: self.progress.get("copied_bytes", 0) >= least)

    def revive(self, number, **more):
        """Its start has fenced the old tokens; new ones come with the next order."""
        d = self.disks[number]
        if not d.killed:
            d.kill()
        d.start()
        self.next_epoch()
        self.order(**more)

    def done(self):
        """The end of the rebuild: all that there is is there."""
        p = self.synced()
        self.check()
        return p

    def synced(self, seconds=60):
        def check():
            self.joiner.alive()
            p = self.progress
            return p["phase"] == "synced" and p["epoch"] == self.join["epoch"]
        eventually(check, seconds, 0.02,
                   f"synced: {self.progress}\n{self.joiner.log.read_text()}")
        return self.progress

    # A host's actions.

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
