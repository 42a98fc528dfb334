"""The array role's side of epochs: members that go, come back and count again.

Topology: one array process; plain nbdkit file servers as its members (they
          take any door and token); weftd is played here, by a script.
Causes: members killed, started again, or silent; changes of epoch; a weftd
        that falls silent.
Pass:  requests go on or wait as core/array/array.h and docs/API say, and the array
       process tells weftd what it must know, at once.
"""

import contextlib
import os
import random
import shutil
import socket
import threading
import time

import nbd
import pytest

from memberscene import serve_json
from nbdclient import connected, refuses
from nbdkitproc import Nbdkit, refused
from wefttest import Stopwatch, eventually

MIB = 1 << 20
MEMBER = 16 * MIB
SESSION = "00000000000000aa"
WELL = {"code": "in-use", "detail": "it is well"}


class Script:
    """A weftd that says what the test wants.  `lost` decides on reports."""

    def __init__(self, members, layout, states=None):
        self.members, self.layout = members, layout
        self.epoch, self.change, self.told = 1, None, None
        self.states = states or ["in-sync"] * len(members)
        self.fences = [1] * len(members)
        self.cond = threading.Condition()
        self.beats, self.reports, self.attached = [], [], None
        self.silent = self.crossing = False
        self.lost = lambda m: (409, {"code": "last-copy", "detail": "no"})
        self.server, self.url = serve_json(self.post)

    def map(self):
        return {"name": "a", "layout": self.layout, "unit": 65536,
                "epoch": self.epoch, "session": SESSION,
                "member_bytes": MEMBER, "dup": "async-client",
                "members": [{"uri": m.uri, "name": f"m{i}",
                             "state": self.states[i],
                             "fence": self.fences[i],
                             "tokens": {"data": f"t{self.epoch}"}}
                            for i, m in enumerate(self.members)]}

    def answer(self, with_map):
        r = {"epoch": self.epoch, "states": list(self.states),
             "change": self.change}
        return {**r, "map": self.map()} if with_map else r

    def post(self, path, body):
        with self.cond:
            if path.endswith("/sessions"):
                self.attached = body
                return 201, {"session": SESSION, "map": self.map()}
            if self.silent:
                return 503, {"detail": "silent on purpose"}
            if path.endswith("/lost"):
                self.reports.append((body["member"], time.monotonic()))
                status, more = self.lost(body["member"])
                return status, (self.answer(True) if status == 200 else more)
            assert path.endswith("/heartbeat")
            self.beats.append((time.monotonic(), body))
            self.cond.notify_all()
            self.cond.wait_for(
                lambda: self.told != (self.epoch, self.change) or self.silent
                or body["epoch"] != self.epoch, body["wait_ms"] / 1000)
            self.told = (self.epoch, self.change)
            if self.crossing:  # an answer that was long on its way
                return 200, {"epoch": 1, "change": None,
                             "states": ["in-sync"] * len(self.members)}
            return 200, self.answer(body["epoch"] != self.epoch)

    def commit(self, *states, fence=()):
        """A new epoch; those in `fence` confirmed it."""
        with self.cond:
            self.epoch += 1
            self.states, self.change = list(states), None
            for m in fence:
                self.fences[m] = self.epoch
            self.cond.notify_all()

    def out(self, member):
        """As `lost`: the member is left out at once."""
        if self.states[member] != "out":
            self.epoch += 1
            self.states[member] = "out"
        return 200, None

    def prepare(self, *states):
        """Returns how long the array process took to be prepared."""
        with self.cond:
            self.change = {"epoch": self.epoch + 1, "states": list(states)}
            watch = Stopwatch(disk=True)
            self.cond.notify_all()
        eventually(lambda: self.beats[-1][1]["prepared"] == self.epoch + 1,
                   every=0.01, what="prepared")
        return watch.seconds(end=next(t for t, b in self.beats
                                      if b["prepared"] == self.epoch + 1))

    def joined(self):
        """Wait until the array process says that it is in the epoch."""
        eventually(lambda: self.beats and
                   self.beats[-1][1]["epoch"] == self.epoch, every=0.02,
                   what=f"epoch {self.epoch}")


class Member:
    """An nbdkit that serves a file, and can be killed and started again."""

    def __init__(self, directory, number):
        self.file = directory / f"m{number}"
        self.socket = directory / f"m{number}.sock"
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.process = None

    def start(self):
        self.socket.unlink(missing_ok=True)
        self.process = Nbdkit("file", self.file)
        os.symlink(self.process.socket, self.socket)
        return self

    def kill(self):
        self.process.kill()

    @contextlib.contextmanager
    def hanging(self):
        """In its place, one that lets connect and says nothing."""
        self.socket.unlink()
        with socket.socket(socket.AF_UNIX) as hangs:
            hangs.bind(str(self.socket))
            hangs.listen()
            yield hangs

    def close(self):
        if self.process:
            self.process.close()


class Bench:
    def __init__(self, directory):
        self.dir, self.ends, self.arrays = directory, [], []

    def script(self, layout, count=2, states=None, lost=None, content=b""):
        """(the members, a weftd for them); lost: weftd's answer to a report, or that it leaves
        the member out."""
        made = [Member(self.dir, i) for i in range(count)]
        for m in made:
            self.ends.append(m.close)
            m.file.write_bytes(content * (MEMBER // max(1, len(content))))
            os.truncate(m.file, MEMBER)
            m.start()
        s = Script(made, layout, states)
        if lost:
            s.lost = s.out if lost == "out" else lambda m: (409, lost)
        return made, s

    def array(self, script, *words):
        a = Nbdkit(*words, "weft", "array=a", "admin=" + script.url)
        self.ends.append(a.close)
        self.arrays.append(a)
        return a

    def connect(self, a):
        h = connected(a.uri)
        return h


@pytest.fixture
def bench(tmp_path):
    b = Bench(tmp_path)
    yield b
    logs = "".join(a.log() for a in b.arrays)
    for end in reversed(b.ends):
        end()
    for fault in ("Assertion", "Sanitizer", "runtime error"):
        assert fault not in logs, logs


class Writer(threading.Thread):
    """Writes without pause, flushes now and then; knows what must be read."""

    def __init__(self, h, seed):
        super().__init__(daemon=True)
        self.h, self.random = h, random.Random(seed)
        self.model = bytearray(h.get_size())
        self.go, self.rests = threading.Event(), threading.Event()
        self.go.set()
        self.error, self.count = None, 0

    def run(self):
        try:
            while True:
                if not self.go.is_set():
                    self.rests.set()
                    self.go.wait()
                n = self.random.choice([512, 4096, 100000])
                at = self.random.randrange(len(self.model) - n + 1)
                data = self.random.randbytes(n)
                self.h.pwrite(data, at)
                self.model[at:at + n] = data
                self.count += 1
                if self.count % 50 == 0:
                    self.h.flush()
        except nbd.Error as e:
            self.error = e
            self.rests.set()

    def rest(self):
        self.rests.clear()
        self.go.clear()
        assert self.rests.wait(20)
        assert self.error is None, self.error
        self.h.flush()

    def progress(self, writes=30):
        n = self.count + writes
        eventually(lambda: self.error or self.count >= n, every=0.01,
                   what="writes go on")
        assert self.error is None, self.error


def later(call):
    """Run it in a thread; returns a list that gets its result or error."""
    result = []

    def work():
        try:
            result.append(call())
        except nbd.Error as e:
            result.append(e)
    threading.Thread(target=work, daemon=True).start()
    return result


def test_out_joining_in_sync(bench, seed):
    """A member of raid-1 is lost, recorded as out, taken back, and counts:
    writes go on all the time, and at the end its copy alone has everything."""
    ms, s = bench.script("raid-1", lost="out")
    a = bench.array(s)
    w = Writer(bench.connect(a), seed)
    w.start()
    w.progress()
    ms[0].kill()
    w.progress()
    assert s.states == ["out", "in-sync"] and s.epoch == 2
    s.joined()
    # A late answer of an older epoch brings nobody back.
    s.crossing = True
    time.sleep(0.3)
    s.crossing = False
    w.progress()
    assert a.process.poll() is None and s.beats[-1][1]["epoch"] == 2

    ms[0].start()
    s.commit("joining", "in-sync", fence=[0])
    s.joined()
    w.rest()
    shutil.copyfile(ms[1].file, ms[0].file)  # the rebuild
    w.go.set()
    w.progress(100)
    assert s.prepare("in-sync", "in-sync") < 0.7
    w.progress()
    s.commit("in-sync", "in-sync")
    s.joined()
    w.progress(100)
    assert len(s.reports) == 1
    ms[1].kill()
    eventually(lambda: s.states == ["in-sync", "out"], what="recorded")
    w.progress()
    w.rest()
    assert bytes(w.h.pread(MIB, MIB)) == w.model[MIB:2 * MIB]
    assert ms[0].file.read_bytes() == w.model


def test_joiner_that_hangs(bench):
    """A joining member that accepts connections and says nothing delays no
    request, no heartbeat and no report; it is reported as lost."""
    ms, s = bench.script("raid-1", lost="out")
    a = bench.array(s)
    h = bench.connect(a)
    ms[0].kill()
    h.pwrite(b"x" * 4096, 0)
    s.joined()
    with ms[0].hanging() as hangs:
        s.commit("joining", "in-sync", fence=[0])
        all_, slowest = Stopwatch(disk=True), 0
        while all_.seconds() < 4:
            begin = time.monotonic()
            h.pwrite(b"y" * 4096, 4096)
            h.flush()
            slowest = max(slowest, all_.seconds(begin))
            time.sleep(0.05)
        assert slowest < 1
        beats = [t for t, _ in s.beats if t > all_.begin + 1]
        assert len(beats) >= 2 and s.beats[-1][1]["epoch"] == 2
        eventually(lambda: len(s.reports) == 2, what="reported")
    s.joined()
    assert s.states == ["out", "in-sync"]
    assert h.pread(4096, 0) == b"x" * 4096


def test_last_copy_comes_back(bench):
    """A request to a member that can't be left out waits, however often the loss is reported,
    until the member has confirmed a new epoch."""
    ms, s = bench.script("raid-0")
    a = bench.array(s)
    h = bench.connect(a)
    h.pwrite(b"a" * 131072, 0)
    h.flush()
    h.pwrite(b"b" * 131072, 0)
    ms[1].kill()
    waits = later(lambda: bench.connect(a).pread(131072, 0))
    eventually(lambda: len(s.reports) >= 3, what="repeated reports")
    assert s.reports[2][1] - s.reports[1][1] > 0.5
    assert h.pread(65536, 0) == b"b" * 65536
    # An epoch that is about something else does not bring it back, for
    # requests of its former life may be executed still.
    ms[1].start()
    s.commit("in-sync", "in-sync")
    s.joined()
    time.sleep(1.5)
    assert not waits
    s.commit("in-sync", "in-sync", fence=[1])
    s.joined()
    eventually(lambda: waits, what="the read goes on")
    assert waits[0][:65536] == b"b" * 65536
    # Unflushed data may be gone: one FLUSH reports that.
    with refuses("EIO"):
        h.flush()
    h.pwrite(b"c" * 131072, 0)
    h.flush()
    assert h.pread(131072, 0) == b"c" * 131072
    assert "stops" not in a.log()


@pytest.mark.parametrize("words", [(), ("-r",)], ids=["writer", "reader"])
def test_fence_of_a_living_connection(bench, words):
    """It is no use any more, though nothing was in flight and it lives."""
    ms, s = bench.script("raid-1", lost="out")
    a = bench.array(s, *words)
    h = bench.connect(a)
    if not words:
        h.pwrite(b"a" * 4096, 0)
        h.flush()
    s.commit("in-sync", "in-sync", fence=[0])
    s.joined()
    assert "m0 is connected again" in a.log()
    assert "m1 is connected again" not in a.log()
    if not words:
        h.pwrite(b"b" * 4096, 4096)
        h.flush()  # nothing that was written may be gone
    h.pread(8192, 0)
    assert not s.reports and "is lost" not in a.log(), a.log()


def test_end_while_a_connect_hangs(bench):
    ms, s = bench.script("raid-1", states=["out", "in-sync"])
    ms[0].kill()
    a = bench.array(s)
    with ms[0].hanging() as hangs:
        s.commit("joining", "in-sync", fence=[0])
        hangs.settimeout(10)
        with hangs.accept()[0]:
            watch = Stopwatch(disk=True)
            assert a.stop() == 0
            assert watch.seconds() < 2
    assert not s.reports


def test_reader_connects_again(bench):
    """A reader whose connection broke though the member is well."""
    ms, s = bench.script("raid-0", lost=WELL, content=b"d")
    h = bench.connect(bench.array(s, "-r"))
    assert h.pread(4096, 0) == b"d" * 4096
    ms[0].kill()
    waits = later(lambda: h.pread(4096, 0))
    time.sleep(1.5)
    assert not waits
    ms[0].start()
    eventually(lambda: waits, what="the read goes on")
    assert waits[0] == b"d" * 4096


def test_reader_without_the_joiner(bench):
    """A reader that can't reach a member that joins keeps nobody from taking
    it in; at most what it wants to read there waits."""
    ms, s = bench.script("raid-1", states=["out", "in-sync"], lost=WELL,
                         content=b"d")
    ms[0].kill()
    h = bench.connect(bench.array(s, "-r"))
    s.commit("joining", "in-sync", fence=[0])
    s.joined()
    s.prepare("in-sync", "in-sync")
    s.commit("in-sync", "in-sync")
    s.joined()
    waits = later(lambda: [h.pread(4096, i * 65536) for i in range(4)])
    time.sleep(1)
    ms[0].start()
    eventually(lambda: waits, what="the reads go on")
    assert waits[0] == [b"d" * 4096] * 4


def test_reader_holds_when_weftd_is_silent(bench):
    """It may be passed over after 10 s: it answers nothing then."""
    ms, s = bench.script("raid-1")
    h = bench.connect(bench.array(s, "-r"))
    eventually(lambda: s.beats)
    s.silent = True
    begin = time.monotonic()
    while time.monotonic() < begin + 8:
        read = later(lambda: h.pread(4096, 0))
        eventually(lambda: read or time.monotonic() > begin + 8, every=0.01)
        time.sleep(0.1)
    time.sleep(max(0, begin + 11 - time.monotonic()))
    waits = later(lambda: h.pread(4096, 0))
    time.sleep(1)
    assert not waits
    s.silent = False
    eventually(lambda: waits, what="the read goes on")
    assert waits[0] == bytes(4096)


def test_degraded_start(bench):
    """A member that is out is not asked; a joining one that can't be reached
    is reported."""
    ms, s = bench.script("raid-1", 3, ["in-sync", "out", "joining"], "out")
    ms[1].kill()
    ms[2].kill()
    h = bench.connect(bench.array(s))
    h.pwrite(b"z" * 4096, 0)
    h.flush()
    assert h.pread(4096, 0) == b"z" * 4096
    s.joined()
    assert s.states == ["in-sync", "out", "out"]
    assert [m for m, _ in s.reports] == [2]


def test_takeover(bench):
    _, s = bench.script("raid-1")
    Nbdkit("weft", "array=a", "admin=" + s.url).close()
    assert not s.attached.get("takeover")
    a = Nbdkit("weft", "array=a", "admin=" + s.url, "takeover=true")
    a.close()
    assert s.attached["takeover"] is True
    assert "takeover=" in refused("weft", "disk=/dev/null", "takeover=true",
                                  "admin=" + s.url)
