"""A weftd alone, and the members and hosts that talk to it, played here.

Members and hosts are threads that send heartbeats and obey the replies, as
docs/API says.  The fixtures: `weftd`, a running one, whose end is checked, and
`array`, the members of its array "a".

    from weftdactors import *

An actor that a test makes and leaves running belongs into weftd.actors.
"""

import http.client
import json
import os
import shutil
import threading
import time
import uuid

import pytest

from wefttest import Stopwatch, background, eventually, free_port, http as call, run

__all__ = ["Events", "GIB", "Host", "LONG_MS", "Lessee", "Member", "Weftd",
           "array", "create", "host", "members", "roll_back", "weftd"]

GIB = 1 << 30
LONG_MS = 2000


def roll_back(state, old):
    """Put weftd's state back as a snapshot of the file system does: into the same files."""
    for file in state.iterdir():
        if file.is_file() and not (old / file.name).exists():
            file.unlink()
    for file in old.iterdir():
        if file.is_file():
            shutil.copyfile(file, state / file.name)


class Weftd:
    """extra: options; login: does it want one?"""

    def __init__(self, directory, *extra, login=False):
        self.dir = directory
        self.state = directory / "state"
        self.url_file = directory / "url"
        self.log = directory / "weftd.log"
        # Always the same, as members know only this one.
        self.listen = f"127.0.0.1:{free_port()}"
        self.login, self.extra = login, list(extra)
        self.process = None
        self.ended = False  # by us?

    def start(self, wait=True, under=()):
        self.ended = False
        self.process = background(
            self.log, *under, "weftd", "--state", self.state, "--listen",
            self.listen, "--port-file", self.url_file, "--pid-file",
            self.dir / "pid", *self.extra,
            *([] if self.login else ["--no-login"]))
        if wait:
            try:
                eventually(self.is_up, every=0.02, what="weftd serves")
            except BaseException:  # nobody would end it
                self.kill()
                raise
        return self

    def refused(self, *words):
        """A weftd on its state that does not start: the line that it says."""
        p = run("weftd", "--state", self.state, "--listen", "127.0.0.1:0",
                *words, check=False)
        assert p.returncode == 1 and p.stdout == "", p
        assert len(p.stderr.splitlines()) == 1, p
        return p.stderr

    def is_up(self):
        assert self.process.poll() is None, self.log.read_text()
        return self.url_file.exists() and self.call("GET", "/me")[0] == 200

    @property
    def url(self):
        return self.url_file.read_text().split()[0]

    @property
    def tls_address(self):
        """The address of the second listener."""
        port = self.url_file.read_text().split()[1].rsplit(":", 1)[1]
        return "127.0.0.1", int(port)

    @property
    def address(self):
        host, port = self.listen.split(":")
        return host, int(port)

    def call(self, method, path, body=None, headers=None, timeout=30):
        return call(method, self.url + "/api/v1" + path, body, headers,
                    timeout)

    def get(self, path):
        status, reply = self.call("GET", path)
        assert status == 200, reply
        return reply

    def kill(self):
        self.ended = True
        self.process.kill()
        self.process.wait()
        self.url_file.unlink(missing_ok=True)

    def stop(self):
        """Ends it; returns how long that took."""
        watch = Stopwatch(disk=True)
        self.ended = True
        self.process.terminate()
        assert self.process.wait(timeout=20) == 0, self.log.read_text()
        return watch.seconds()

    def restart(self, kill=False, between=lambda: None):
        (self.kill if kill else self.stop)()
        between()
        self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.end()

    def end(self):
        if self.process and self.process.poll() is None:
            self.stop()
        text = self.log.read_text()
        if self.process and not self.ended:  # it may have refused to start
            assert self.process.returncode >= 0, text
        for fault in ("ERROR: AddressSanitizer", "runtime error",
                      "LeakSanitizer", "ThreadSanitizer", "Assertion"):
            assert fault not in text, text


class Member:
    """A disk and the process that serves it.  When it is to join, it says that
    it is in self.phase, with todo_bytes left of total_bytes."""

    def __init__(self, weftd, number, disk=None):
        self.weftd = weftd
        self.uuid = disk or str(uuid.uuid4())
        self.number = number
        self.instance = os.urandom(8).hex()
        self.header = {"cluster": None, "array": None, "position": None,
                       "min_epoch": 0, "generation": 0, "states_epoch": 0,
                       "over": 0}
        self.load = {"cpu": 0.25, "loadavg": 0.5, "mem_free": GIB,
                     "disk_read_bytes": 0, "disk_write_bytes": 0}
        self.state, self.reason = "serving", None
        self.sequence, self.data_bytes = 1, GIB - (1 << 20)
        self.phase, self.todo, self.total = "synced", 0, 8 << 20
        self.join = self.order = None
        self.said = []
        self.thread = None
        self.running = False

    @property
    def path(self):
        return f"/disks/{self.uuid}/heartbeat"

    def body(self, **more):
        return {"instance": self.instance, "node": f"n{self.number}",
                "uri": f"nbd://127.0.0.{self.number + 1}:10809",
                "path": f"/dev/disk{self.number}", "size": GIB,
                "data_bytes": self.data_bytes, "sequence": self.sequence,
                "join": self.join, "state": self.state, "reason": self.reason,
                "dirty_extents": 0, "load": self.load, **self.header, **more}

    def same(self, report):
        """That nothing has changed since that report."""
        body = self.body()
        return {k: body[k] for k in ("instance", "node", "dirty_extents",
                                     "load")} | {"report": report, "news": False}

    def stay_joining(self):
        """When it is to join it comes to no end."""
        self.phase, self.todo, self.total = "copying", 6 << 20, 8 << 20

    def beat(self, *, body=None, **more):
        status, r = self.weftd.call("POST", self.path,
                                    body or self.body(**more))
        self.said.append((status, r))
        if status == 200:
            self.obey(r)
        return status, r

    def obey(self, r):
        h = self.header
        assert r["generation"] >= h["generation"]
        h["cluster"], h["generation"] = r["cluster"], r["generation"]
        h["min_epoch"] = max(h["min_epoch"], r["min_epoch"])
        for number, _, _ in r.get("over", []):
            h["over"] = number
        a = r["assignment"]
        if a is True:  # the last full answer
            a = h
        elif a:
            h.update(array=a["array"], position=a["position"],
                     states_epoch=a["epoch"],
                     **{k: a[k] for k in ("layout", "n", "groups", "unit",
                                          "member_bytes", "dup", "states")})
            self.states = a["states"]
        elif h["array"] and r.get("release") == h["array"]:
            h.update(array=None, position=None, states_epoch=0)
        self.order = r["join"]
        self.join = self.progress() \
            if a and a["states"][a["position"]] == "joining" else None

    def progress(self):
        if self.order is None:
            return {"epoch": 0, "phase": "waiting"}
        return {"epoch": self.order["epoch"], "phase": self.phase,
                "todo_bytes": self.todo, "total_bytes": self.total,
                "copied_bytes": self.total - self.todo,
                "unreadable_bytes": 0, "rate": 1 << 20, "waits": None}

    def live(self):
        while self.running:
            try:
                status, _ = self.beat(wait_ms=1000)
            except (OSError, http.client.HTTPException):
                status = 0
            if status != 200:
                time.sleep(0.1)

    def start(self):
        self.running = True
        self.thread = threading.Thread(target=self.live, daemon=True)
        self.thread.start()
        return self

    def stop(self):
        self.running = False
        if self.thread:
            self.thread.join()


class Host:
    """An array process that attaches and sends heartbeats."""

    def __init__(self, weftd, node, mode="rw"):
        self.weftd, self.node, self.mode = weftd, node, mode
        self.instance = os.urandom(8).hex()
        self.epoch = self.prepared = 0
        self.prepares = True
        self.over = None
        self.leave = False  # was it told to, as one who serves?
        self.running = False
        self.stats = {"reads": 0, "read_bytes": 0, "read_ns": 0}

    def attach(self, array="a", **more):
        status, r = self.weftd.call(
            "POST", f"/arrays/{array}/sessions",
            {"instance": self.instance, "node": self.node, "pid": 42,
             "mode": self.mode, "uri": None, "pinned": "part" in more, **more})
        if status == 201:
            self.session, self.map = r["session"], r["map"]
            self.epoch = r["map"]["epoch"]
        return status, r

    @property
    def path(self):
        return f"/sessions/{self.session}/heartbeat"

    def body(self, wait_ms):
        return {"instance": self.instance, "epoch": self.epoch,
                "prepared": self.prepared, "uri": None, "stats": self.stats,
                "draining": False, "wait_ms": wait_ms}

    def beat(self, wait_ms=0):
        status, r = self.weftd.call("POST", self.path, self.body(wait_ms))
        if status == 200:
            self.obey(r)
        if status == 410:
            self.over = r["detail"]
        return status, r

    def lost(self, member, reason="connection refused"):
        status, r = self.weftd.call("POST", f"/sessions/{self.session}/lost",
                                    {"member": member, "reason": reason})
        if status == 200:
            self.obey(r)
        return status, r

    def obey(self, r):
        """Reaches every member that the epoch wants, and is ready for the next
        one as soon as it hears of it."""
        if "map" not in r:  # the reply to another call, under way beside this, has it
            eventually(lambda: r["epoch"] <= self.epoch, what="the map of the epoch")
        if r["epoch"] < self.epoch:
            return
        self.map = r.get("map", self.map)
        if r["states"] is True:  # as it was said
            assert r["epoch"] == self.epoch
        else:
            self.epoch, self.states = r["epoch"], r["states"]
        assert [m["state"] for m in self.map["members"]] == self.states
        self.leave |= r.get("leave", False)
        if r["change"] and self.prepares:
            self.prepared = r["change"]["epoch"]

    def detach(self):
        self.stop()
        return self.weftd.call(
            "DELETE", f"/sessions/{self.session}?instance={self.instance}")

    def live(self):
        while self.running and not self.over:
            try:
                self.beat(1000)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)

    def start(self):
        self.running = True
        self.thread = threading.Thread(target=self.live, daemon=True)
        self.thread.start()
        return self

    def start_attached(self):
        status, r = self.attach()
        assert status == 201, r
        return self.start()

    def stop(self):
        if self.running:
            self.running = False
            self.thread.join()


class Lessee(Host):
    """It shares the array by leases.  weftd's orders to it are in `revoke` and `recover`; it
    does nothing by itself."""

    def __init__(self, weftd, node):
        super().__init__(weftd, node, "shared")
        self.order = self.number = 0
        self.revoke, self.recover = [], None
        self.generation = 0

    def attach(self, array="a", **more):
        """Asks again while members have not shut who is over, or are unheard."""
        while True:
            status, r = super().attach(array, **more)
            if status == 201 and "leases" in r:
                self.order, self.generation = r["leases"]["order"], r["generation"]
            if status != 409 or r["code"] not in ("changing", "member-missing"):
                return status, r
            time.sleep(r["retry_after_ms"] / 1000)

    def body(self, wait_ms):
        return {**super().body(wait_ms), "order": self.order}

    def obey(self, r):
        super().obey(r)
        self.generation = r["generation"]
        self.revoke = r.get("revoke", [])
        if "recover" in r:
            self.recover, self.order = r["recover"], r["recover"]["order"]

    def say(self, **words):
        return self.weftd.call("POST", f"/sessions/{self.session}/leases",
                               {"instance": self.instance, **words})

    def ask(self, must, wish=None, wait_ms=LONG_MS):
        return self.say(ask=[{"must": must, "wish": wish or must}],
                        wait_ms=wait_ms)

    def tell(self, **words):
        """A message that counts once.  A declaration is for one weftd, whose generation comes
        with a heartbeat."""
        until = time.monotonic() + LONG_MS / 1000
        while True:
            self.number = max(self.number, self.generation << 32) + 1
            status, r = self.say(number=self.number, **words)
            if ("declare" not in words or r.get("code") != "declare"
                    or time.monotonic() > until):
                break
            time.sleep(0.02)
        assert (status, r) == (200, {"granted": []}), r

    def recovered(self):
        self.tell(recovered=self.order)
        self.order = 0


class Events:
    def __init__(self, w, last=None):
        self.c = http.client.HTTPConnection(*w.address, timeout=20)
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        self.c.request("GET", "/api/v1/events", headers=headers)
        self.r = self.c.getresponse()
        assert self.r.status == 200
        assert self.r.headers["Content-Type"] == "text/event-stream"
        self.last = last

    def next(self):
        """(id or None, event, data)"""
        event = {}
        while True:
            line = self.r.readline().decode()
            assert line, "the stream ended"
            line = line.rstrip("\n")
            if line == "" and "data" in event:
                if "id" in event:
                    self.last = int(event["id"])
                return (event.get("id") and int(event["id"]), event["event"],
                        json.loads(event["data"]))
            if ":" in line:
                k, _, v = line.partition(":")
                event[k] = v.lstrip()

    def until(self, kind, check=lambda d: True):
        while True:
            i, k, data = self.next()
            if k == kind and check(data):
                return i, data

    def close(self):
        self.r.close()
        self.c.close()


@pytest.fixture
def weftd(tmp_path):
    with Weftd(tmp_path) as w:
        w.actors = []
        yield w
        for a in w.actors:
            a.running = False
        assert not w.process or w.ended or w.process.poll() is None, w.log.read_text()


def members(w, count=4):
    made = [Member(w, i).start() for i in range(count)]
    w.actors += made
    eventually(lambda: {m.uuid for m in made} <= {
        d["uuid"] for d in w.get("/disks")["disks"]})
    return made


def create(w, ms, name="a", **more):
    status, r = w.call("POST", "/arrays", {
        "name": name, "layout": "raid-x", "disks": [m.uuid for m in ms],
        **more})
    assert status == 201, r
    eventually(lambda: w.get(f"/arrays/{name}")["state"] == "ready")
    return r


@pytest.fixture
def array(weftd):
    ms = members(weftd)
    create(weftd, ms)
    return ms


def host(w, node="h0", mode="rw"):
    h = Host(w, node, mode)
    w.actors.append(h)
    return h
