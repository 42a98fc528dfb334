"""An array that is served to several hosts, whose server goes.

Topology: a devcluster without its own array process; nodes s0 and s1 may serve the
          array, and do not have members; clients c0 and c1 use it by way of the
          service.  (Hosts that are cut off: test_service_cut.py.)
Cause: The server is killed, stopped, or moved; its clients' connections break; members are
       killed or lose unflushed data at the same time.
Pass:  Clients see no error and go on within 15 s.  Their acknowledged data is there; otherwise
       one FLUSH of each client that may have lost something fails.  Nothing of a former server
       or connection is carried out any longer.
"""

import random
import signal
import socket
import threading
import time

import nbd
import pytest

from badspots import bad_spots, mend, spoil
from blockwriter import Writer
from nbdclient import connected, flush
from powercut import power_cut, volatile
from servedarray import BOUND_S, MOVE_S, Pulse, Served
from wefttest import eventually, free_port

BLOCK = 4096
UNIT = 64 << 10


@pytest.fixture
def served(cluster):
    made = []

    def make(nodes=("s0", "s1"), **options):
        made.append(Served(cluster(**{"unit": UNIT, "size": "16M", **options}),
                           nodes))
        return made[-1]
    yield make
    for s in made:
        s.end()


def goes_on(w):
    """The writer makes progress: each request is acknowledged within the bound."""
    w.since, w.longest = time.monotonic(), 0
    w.until_flushed(2)
    assert w.longest < BOUND_S


def test_killed(served, seed):
    s = served()
    s.stand_by("s0")
    s.stand_by("s1")
    uri = s.client("c0")
    w = Writer(uri, random.Random(seed))
    w.start()
    w.until_flushed(3)
    pulse = Pulse(uri)
    s.kill("s0")
    goes_on(w)
    assert pulse.longest() < BOUND_S
    assert s.serving() == "s1"
    # Its own node says that it has ended: nobody waits for its TTL.
    s.kill("s1")
    s.stand_by("s1")
    goes_on(w)
    w.until_flushed(3)
    w.end()
    w.check(uri)
    w.check(s.client("c1"))
    assert s.service()["lapse"] == 0


@pytest.mark.parametrize("later_ms", [0, 20, 100])
def test_killed_again(served, seed, later_ms):
    """The next server is killed when it has just been admitted: before it is connected,
    resynchronizes copies, or has clients."""
    s = served(nodes=["s0", "s1", "s2"])
    for name in ("s0", "s1", "s2"):
        s.stand_by(name)
    uri = s.client("c0")
    w = Writer(uri, random.Random(seed))
    w.start()
    w.until_flushed(2)
    first = s.service()["serving"]["pid"]
    s.kill("s0")
    s.stand_by("s0")  # by whose word nobody waits
    let_in = []

    def another_serves():
        serving = s.service()["serving"]
        if serving and serving["pid"] != first:
            let_in.append(serving["node"])
        return let_in
    eventually(another_serves, every=0.002)
    time.sleep(later_ms / 1000)
    s.kill(let_in[0])
    goes_on(w)
    w.end()
    w.check(uri)


def test_stopped(served, seed):
    """It wakes up with requests that it has not read, of a client that has long
    sent them to another, and has since written something else there."""
    s = served()
    s.stand_by("s0")
    s.stand_by("s1")
    uri = s.client("c0")
    h, w = connected(uri), Writer(s.client("c1"), random.Random(seed))
    w.start()
    w.until_flushed(2)
    place = 600 * BLOCK  # beyond the writer's
    s.signal("s0", signal.SIGSTOP)
    h.pwrite(b"1" * BLOCK, place)  # has gone to s0, and to s1
    assert s.serving() == "s1"
    h.pwrite(b"2" * BLOCK, place)
    goes_on(w)
    s.signal("s0", signal.SIGCONT)
    assert s.ended("s0") == 0
    assert h.pread(BLOCK, place) == b"2" * BLOCK
    h.flush()
    goes_on(w)
    w.end()
    w.check(uri)


def test_moved(served, seed):
    s = served()
    s.stand_by("s0")
    s.stand_by("s1")
    uri = s.client("c0")
    w = Writer(uri, random.Random(seed))
    w.start()
    for name in ("s1", "s0", "s1"):
        w.until_flushed(2)
        pulse = Pulse(uri)
        s.move(name)
        eventually(lambda: s.serving() == name, every=0.02)
        goes_on(w)
        assert pulse.longest() < MOVE_S
        other = "s0" if name == "s1" else "s1"
        assert s.ended(other) == 0
        s.stand_by(other)
    w.end()
    w.check(uri)
    assert s.service()["lapse"] == 0


def test_unflushed(served):
    """Nobody has flushed, and all is there: but for the server nothing was lost."""
    s = served()
    s.stand_by("s0")
    s.stand_by("s1")
    h = connected(s.client("c0"))
    h.pwrite(b"1" * 16 * UNIT, 0)
    s.kill("s0")
    assert h.pread(16 * UNIT, 0) == b"1" * 16 * UNIT
    assert flush(h) == ""


def test_one_disk(served):
    """One host reads another host's writes, and its FLUSH covers both."""
    s = served()
    s.stand_by("s0")
    a, b = connected(s.client("c0")), connected(s.client("c1"))
    a.pwrite(b"1" * UNIT, UNIT)
    assert b.pread(UNIT, UNIT) == b"1" * UNIT
    b.flush()
    assert s.service()["lapse"] == 0


def test_member_with_the_server(served, seed):
    """The server goes, and a member loses its power: of each client that has written
    and not flushed one FLUSH fails, of nobody else."""
    s = served(layout="raid-1", members=2, env=volatile())
    s.stand_by("s0")
    s.stand_by("s1")
    a, b, third = [connected(s.client(f"c{i}")) for i in range(3)]
    third.pwrite(b"3" * UNIT, 4 * UNIT)
    third.flush()
    a.pwrite(b"1" * UNIT, 0)
    b.pwrite(b"2" * UNIT, UNIT)
    s.c.kill("m0")
    s.kill("s0")
    power_cut(s.c.members[0]["file"], random.Random(seed), keep=0)
    s.c.start("m0")
    assert third.pread(UNIT, 4 * UNIT) == b"3" * UNIT  # s1 serves
    assert s.service()["lapse"] > 0
    assert flush(third) == ""
    assert flush(a) == "EIO"
    assert [flush(h) for h in (a, third)] == [""] * 2
    b.pwrite(b"4" * UNIT, 2 * UNIT)  # he does not know yet
    assert flush(b) == "EIO"
    assert [flush(h) for h in (a, b, third)] == [""] * 3


def told(s):
    """The copies are not in sync: weftd's text about what clients may rely on."""
    return "being resynchronized" in s.service()["promise"]


class Busy(threading.Thread):
    """Writes without a pause, so that a server does not send its images for being
    idle."""

    def __init__(self, uri, offset):
        super().__init__(daemon=True)
        self.handle, self.offset, self.over = connected(uri), offset, False
        self.start()

    def run(self):
        while not self.over:
            self.handle.pwrite(b"b" * BLOCK, self.offset)

    def end(self):
        self.over = True
        self.join(30)
        assert not self.is_alive()


@pytest.mark.parametrize("back", [False, True], ids=["gone", "back"])
@pytest.mark.parametrize("later_ms", [0, 30])
def test_member_lost_before_copies_are_equal(served, seed, later_ms, back):
    """A server is killed with images in its buffer.  The next one has been admitted, and has
    not resynchronized the copies yet, when the member with the newer copy loses its power, and
    stays away or is started again.  A client that has not flushed then finds its writes or
    gets an error, at any server that admits clients."""
    # Reads that take their time: else the copies may be equal before anybody has looked.
    s = served(nodes=["s0", "s1", "s2"], layout="raid-1", members=2,
               env=volatile({"WEFT_MEMBER_ARGS": "--filter=delay rdelay=10ms"}))
    for name in ("s0", "s1", "s2"):
        s.stand_by(name)
    h, third = connected(s.client("c0")), connected(s.client("c2"))
    busy = Busy(s.client("c1"), 16 * UNIT)
    h.pwrite(b"0" * 8 * UNIT, 0)
    third.pwrite(b"3" * UNIT, 64 * UNIT)
    h.flush()
    third.flush()
    places = range(0, 8 * UNIT, UNIT)
    for place in places:  # less than what is written through
        h.pwrite(b"1" * BLOCK, place)
    s.kill("s0")
    eventually(lambda: told(s), every=0.002)
    time.sleep(later_ms / 1000)
    s.signal("s1", signal.SIGSTOP)
    early = told(s)
    s.c.kill("m0")
    power_cut(s.c.members[0]["file"], random.Random(seed), keep=0)
    if back:
        s.c.start("m0")
    s.signal("s1", signal.SIGCONT)
    lost = sum(h.pread(BLOCK, place) != b"1" * BLOCK for place in places)
    print(f"stopped before the copies were equal: {early}, lost: {lost}")
    said = flush(h)
    assert said == "EIO" or not lost
    assert said == "" or s.service()["lapse"] > 0
    assert early or later_ms > 0
    assert flush(h) == ""
    assert flush(third) == ""
    busy.end()
    eventually(lambda: not told(s))
    if not back:
        s.c.start("m0")


def test_newest_copy_that_cannot_be_read(served, tmp_path):
    """A server is killed with images in its buffer, and the member with the data can't read it
    there.  The next server takes the old images, and each former client gets an error, even if
    it comes only when that server is gone, too."""
    s = served(("s0", "s1", "s2"), layout="raid-1", members=2,
               env=bad_spots(tmp_path))
    for name in ("s0", "s1"):
        s.stand_by(name, "image-age=10000")
    h, late = connected(s.client("c0")), connected(s.client("c1"))
    new = s.client("c2")
    places = range(0, 8 * UNIT, UNIT)
    h.pwrite(b"0" * 8 * UNIT, 0)
    h.flush()
    for place in places:  # less than what is written through
        (late if place else h).pwrite(b"1" * BLOCK, place)
    s.signal("c1", signal.SIGSTOP)
    s.kill("s0")
    spoil(s.c.members[0]["file"], *((place, BLOCK) for place in places))
    said = flush(h)
    mend(s.c.members[0]["file"])
    lost = sum(h.pread(BLOCK, place) != b"1" * BLOCK for place in places)
    print(f"lost: {lost}")
    assert lost and said == "EIO"
    assert flush(h) == ""
    s.stand_by("s2")
    s.kill("s1")
    assert flush(h) == "" and s.serving() == "s2"
    s.signal("c1", signal.SIGCONT)
    assert flush(late) == "EIO"
    assert [flush(late), flush(h), flush(connected(new))] == [""] * 3


def test_last_copy_beside_a_server(served, seed):
    """A member with the last copy loses its power; the server stays, and tells each
    client that has written, by way of its process."""
    s = served(layout="raid-1", members=2, env=volatile())
    s.stand_by("s0")
    a, b, third = [connected(s.client(f"c{i}")) for i in range(3)]
    s.c.kill("m1")
    a.pwrite(b"0" * UNIT, 8 * UNIT)
    a.flush()
    a.pwrite(b"1" * UNIT, 0)
    b.pwrite(b"2" * UNIT, UNIT)
    s.c.kill("m0")
    power_cut(s.c.members[0]["file"], random.Random(seed), keep=0)
    s.c.start("m0")
    assert flush(a) == "EIO"
    assert flush(third) == ""
    assert flush(b) == "EIO"
    assert [flush(h) for h in (a, b, third)] == [""] * 3
    s.c.start("m1")


def test_told_by_a_connection_that_broke(served, seed):
    """A FLUSH fails, and the client may not have heard it: so the first FLUSH on its next
    connection fails, and no other."""
    s = served(layout="raid-1", members=2, env=volatile())
    s.stand_by("s0")
    session = s.session_of("s0")

    def connection(number):
        h = nbd.NBD()
        h.connect_uri(f"nbd://{s.address}:{s.ports['s0']}/data/{session}/c0/"
                      f"{'ab' * 16}/{number}/0")
        return h
    first = connection(1)
    s.c.kill("m1")
    first.pwrite(b"1" * UNIT, 0)
    s.c.kill("m0")
    power_cut(s.c.members[0]["file"], random.Random(seed), keep=0)
    s.c.start("m0")
    assert flush(first) == "EIO"
    second = connection(2)
    assert [flush(second) for _ in range(2)] == ["EIO", ""]
    third = connection(3)
    assert flush(third) == "EIO"  # that was just now, too
    third.pwrite(b"2" * UNIT, 0)
    assert flush(third) == ""
    s.c.start("m1")


class Proxy(threading.Thread):
    """Carries connections to an address.  After `hold` it passes nothing on to the
    server; `drop` ends the clients' sides, and `release` sends on what was held."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"nbd://127.0.0.1:{self.listener.getsockname()[1]}"
        self.pairs = []
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(self.target)
            except OSError:  # it has not come up, or is ending
                client.close()
                continue
            pair = {"client": client, "server": server, "held": None}
            self.pairs.append(pair)
            for a, b in (("client", "server"), ("server", "client")):
                threading.Thread(target=self.carry, args=(pair, a, b),
                                 daemon=True).start()

    def carry(self, pair, a, b):
        try:
            while data := pair[a].recv(1 << 16):
                if a == "client" and pair["held"] is not None:
                    pair["held"] += data
                else:
                    pair[b].sendall(data)
        except OSError:
            pass
        # The server is not told that the client has gone.
        if a == "server":
            pair["client"].close()

    def hold(self):
        for pair in self.pairs:
            pair["held"] = b""

    def held(self):
        return sum(len(pair["held"] or b"") for pair in self.pairs)

    def drop(self):
        for pair in self.pairs:
            pair["client"].shutdown(socket.SHUT_RDWR)

    def release(self):
        for pair in self.pairs:
            if pair["held"]:
                pair["server"].sendall(pair["held"])


def test_connection_breaks(served):
    """The server stays.  A write of the old connection arrives after the client has sent it
    again, got the reply, and written something else there."""
    s = served()
    port = s.ports["s0"] = free_port()
    proxy = Proxy((s.address, port))
    s.stand_by("s0", uri=proxy.uri)
    h = connected(s.client("c0"))
    h.pwrite(b"0" * BLOCK, 0)
    old = list(proxy.pairs)
    proxy.hold()
    buf = nbd.Buffer.from_bytearray(bytearray(b"1" * BLOCK))
    cookie = h.aio_pwrite(buf, 0)
    eventually(lambda: h.poll(10) != -1 and proxy.held() > BLOCK, every=0.01)
    proxy.drop()
    while not h.aio_command_completed(cookie):
        h.poll(-1)
    assert len(proxy.pairs) > len(old)
    h.pwrite(b"2" * BLOCK, 0)
    proxy.release()
    time.sleep(1)
    assert h.pread(BLOCK, 0) == b"2" * BLOCK
    assert flush(h) == ""
    assert s.serving() == "s0"


def test_client_process_killed(served):
    """The client's process is killed, and its device goes on with the next process.  A write
    of the first process arrives after the next one has sent it again, got the reply and
    flushed something else there."""
    s = served()
    port = s.ports["s0"] = free_port()
    proxy = Proxy((s.address, port))
    s.stand_by("s0", uri=proxy.uri)
    file = s.c.dir / "c0.client"
    word = f"client={file}"
    h = connected(s.client("c0", word))
    h.pwrite(b"0" * BLOCK, 0)
    instance, starts, *rest = file.read_text().split()
    proxy.hold()
    buf = nbd.Buffer.from_bytearray(bytearray(b"1" * BLOCK))
    h.aio_pwrite(buf, 0)
    eventually(lambda: h.poll(10) != -1 and proxy.held() > BLOCK, every=0.01)
    s.kill("c0")
    (s.c.dir / "c0.sock").unlink()
    h = connected(s.client("c0", word))
    h.pwrite(b"1" * BLOCK, 0)
    h.pwrite(b"2" * BLOCK, 0)
    h.flush()
    proxy.release()
    time.sleep(1)
    assert h.pread(BLOCK, 0) == b"2" * BLOCK
    assert file.read_text().split() == [instance, str(int(starts) + 1), *rest]
    # It was detached, and a new device comes to the same process.
    file.unlink()
    connected(s.uri("c0"))
    assert file.read_text().split() == [instance, str(int(starts) + 1), *rest]


def test_client_process_anew_after_a_lapse(served, seed):
    """A client's acknowledged data is lost while its process is gone.  The next process gives
    its device one error, even if it is killed before it could, or if more is lost.  A device
    that had flushed everything when its process ended gets no error."""
    s = served(layout="raid-1", members=2, env=volatile())
    s.stand_by("s0")
    s.stand_by("s1")
    rng = random.Random(seed)
    words = {name: f"client={s.c.dir / name}.client" for name in ("c0", "c2")}

    def again(name):
        (s.c.dir / f"{name}.sock").unlink(missing_ok=True)
        return connected(s.client(name, words[name]))

    def anew():
        s.kill("c0")
        return again("c0")

    def lapses(server):
        lapse = s.service()["lapse"]
        s.c.kill("m0")
        s.kill(server)
        power_cut(s.c.members[0]["file"], rng, keep=0)
        s.c.start("m0")
        assert flush(other) == "" and s.service()["lapse"] > lapse
    h, other, clean = again("c0"), connected(s.client("c1")), again("c2")
    clean.pwrite(b"2" * UNIT, UNIT)
    clean.flush()
    clean.shutdown()
    s.signal("c2", signal.SIGTERM)
    assert s.ended("c2") == 0
    h.pwrite(b"0" * UNIT, 0)
    h.flush()
    h = anew()
    assert flush(h) == ""
    h.pwrite(b"1" * UNIT, 0)
    h = anew()
    s.kill("c0")
    lapses("s0")
    again("c0")
    h, clean = anew(), again("c2")
    s.stand_by("s0")
    lapses("s1")
    assert flush(clean) == ""
    assert flush(h) == "EIO"
    assert flush(h) == ""
    h = anew()
    assert flush(h) == ""


def test_client_process_anew_after_a_fence(served):
    """The node was fenced and admitted again while its client's process was gone: the device
    that waits for the next process is refused, until it is detached."""
    s = served()
    s.stand_by("s0")
    file = s.c.dir / "c0.client"
    words = ("-U", str(s.c.dir / "c0.sock"), "weft", "service=a", "node=n0",
             f"client={file}")
    connected(s.client("c0", words[-1], node="n0")).pwrite(b"1" * BLOCK, 0)
    s.kill("c0")
    s.fence("n0")
    s.fence("n0", False)
    kept = file.read_text()
    (s.c.dir / "c0.sock").unlink()
    s._start("c0", *words)
    assert s.ended("c0") == 1 and "detach the device" in s.log("c0")
    file.write_text(kept[:20])
    s._start("c0", *words)
    assert s.ended("c0") == 1 and "remove the file" in s.log("c0")
    file.unlink()
    connected(s.client("c0", words[-1], node="n0")).pwrite(b"2" * BLOCK, 0)


def test_weftd_away(served, seed):
    """While nothing fails, clients need no weftd; when weftd is back the next server is
    admitted.  This server does not know whether the members kept their data, so one FLUSH may
    fail."""
    s = served()
    s.stand_by("s0")
    s.stand_by("s1")
    uri = s.client("c0")
    w = Writer(uri, random.Random(seed))
    w.start()
    w.until_flushed(2)
    s.c.kill("weftd")
    w.until_flushed(3)
    w.forgives = 1
    s.kill("s0")
    time.sleep(2)
    s.c.start("weftd")
    eventually(lambda: s.serving() == "s1", 30)
    goes_on(w)
    w.end()
    w.check(uri)


def test_fenced(served):
    """A node is fenced: its client's unsent requests are not carried out, then or when the
    node is admitted again."""
    s = served()
    s.stand_by("s0")
    s.stand_by("s1")
    frozen = connected(s.client("c0", node="n0"))
    running = connected(s.client("c1", node="n0"))
    here = connected(s.client("c2", node="n1"))
    frozen.pwrite(b"1" * BLOCK, 0)
    running.pwrite(b"1" * BLOCK, BLOCK)
    s.signal("c0", signal.SIGSTOP)
    buf = nbd.Buffer.from_bytearray(bytearray(b"2" * BLOCK))
    frozen.aio_pwrite(buf, 0)
    # A node without a disk, in a cluster without enrollment: weftd knows it as a client.
    diskless = connected(s.client("c5", node="diskless"))
    s.fence("diskless")
    with pytest.raises(nbd.Error) as e:
        diskless.pwrite(b"2" * BLOCK, BLOCK)
    assert e.value.errno == "ESHUTDOWN"
    s.fence("n0")
    here.pwrite(b"3" * BLOCK, 0)
    here.pwrite(b"3" * BLOCK, BLOCK)
    with pytest.raises(nbd.Error) as e:
        running.pwrite(b"2" * BLOCK, BLOCK)
    assert e.value.errno == "ESHUTDOWN"
    s._start("c3", "-U", str(s.c.dir / "c3.sock"), "weft", "service=a", "node=n0")
    assert s.ended("c3") == 1 and "n0 was fenced" in s.log("c3")
    s.fence("n0", False)
    new = connected(s.client("c4", node="n0"))
    assert new.pread(2 * BLOCK, 0) == b"3" * 2 * BLOCK
    # It wakes up, with another server, which has never seen it.
    s.kill("s0")
    eventually(lambda: s.serving() == "s1", BOUND_S)
    s.signal("c0", signal.SIGCONT)
    eventually(lambda: "was fenced" in s.log("c0"))
    time.sleep(1)
    assert here.pread(2 * BLOCK, 0) == b"3" * 2 * BLOCK
    new.pwrite(b"4" * BLOCK, 0)
    assert here.pread(BLOCK, 0) == b"4" * BLOCK


def test_bad_input(served):
    """A process that may not serve hears why.  A client that names an invalid connection hears
    why, too."""
    s = served()
    s._start("s9", "-U", str(s.c.dir / "s9.sock"), "weft", "array=a",
             "service=yes", "uri=nbd://127.0.0.1:1")
    assert s.ended("s9") == 1 and "no candidate" in s.log("s9")
    s._start("x", "-U", str(s.c.dir / "x.sock"), "weft", "array=a")
    assert s.ended("x") == 1 and "weftctl attach a --shared" in s.log("x")
    s.stand_by("s0")
    session = s.session_of("s0")
    instance = "ab" * 16
    port = s.ports["s0"]

    def opens(token):
        h = nbd.NBD()
        try:
            h.connect_uri(f"nbd://{s.address}:{port}/data/{token}")
        except nbd.Error:
            return None
        return h
    for token in ("", "x", f"{session}/c0/{instance}/0/0",
                  f"{session}/c0/{instance}/x/0", f"{session}/c0/ab/1/0",
                  f"{session}/C0/{instance}/1/0", f"{session}/c0/{instance}/1",
                  f"{session}/c0/{instance}/1/0/",
                  f"0123456789abcdef/c0/{instance}/1/0"):
        assert opens(token) is None, token
    first = opens(f"{session}/c0/{instance}/1/0")
    first.pwrite(b"1" * BLOCK, 0)
    second = opens(f"{session}/c0/{instance}/3/0")
    assert opens(f"{session}/c0/{instance}/2/0") is None
    with pytest.raises(nbd.Error) as e:
        first.pwrite(b"2" * BLOCK, 0)
    assert e.value.errno == "ESHUTDOWN"
    assert second.pread(BLOCK, 0) == b"1" * BLOCK
