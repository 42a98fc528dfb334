"""Floods at the doors of members and arrays: admitted clients go on, and clients with the
right are admitted.

Topology: a devcluster; or an array process over a file, whose limit of descriptors is a
          usual one.
Causes: silent connections by the hundred, from one address and from very many; such as
        begin to negotiate and go no further; more exports opened than there may be;
        weftd that has too much to do when a member starts.
Pass:  an attached client goes on, and another one attaches meanwhile; a silent connection
       ends after 10 s, and no other does; threads, descriptors and memory are bounded,
       and as they were when it is over.
"""

import contextlib
import json
import os
import resource
import select
import socket
import threading
import time
from urllib.parse import urlsplit

import nbd
import pytest

from memberscene import *
from nbdkitproc import Nbdkit
from wefttest import Stopwatch, eventually, free_port, run

# plugin/lobby.h
OPEN_S = 10
WAITING, INSIDE = 256, 512
STRANGER = "127.0.0.66"


@pytest.fixture(autouse=True)
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def usage(pid):
    """(threads, descriptors, bytes in memory)"""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        fields = dict(line.split(":", 1) for line in f)
    return (int(fields["Threads"]), len(os.listdir(f"/proc/{pid}/fd")),
            int(fields["RssAnon"].split()[0]) << 10)


def of_sanitizer(pid):
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        return "san.so" in f.read()


def processor_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        words = f.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def place(uri):
    at = urlsplit(uri)
    return at.hostname, at.port


def silent(address, source=STRANGER, data=b""):
    s = socket.socket()
    s.settimeout(30)
    s.bind((source, 0))
    s.connect(address)
    if data:
        s.sendall(data)
    return s


def option(number, data=b""):
    return (b"IHAVEOPT" + number.to_bytes(4, "big") +
            len(data).to_bytes(4, "big") + data)


class Flood:
    """Silent connections without end; the oldest 2000 are kept."""

    def __init__(self, address):
        self.address, self.made = address, 0
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.go, daemon=True)

    def go(self):
        with contextlib.ExitStack() as stack:
            while not self.ends.is_set():
                with contextlib.suppress(OSError):
                    stack.enter_context(silent(self.address))
                    self.made += 1
                if self.made % 2000 == 0:
                    stack.close()
                time.sleep(0.002)

    def __enter__(self):
        self.thread.start()
        eventually(lambda: self.made > WAITING + 150)
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


class Writer:
    """An attached client that writes, flushes and reads back without a pause."""

    def __init__(self, uri):
        self.h = nbd.NBD()
        self.h.connect_uri(uri)
        self.rounds, self.failure = 0, None
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.go, daemon=True)

    def go(self):
        try:
            while not self.ends.is_set():
                data = os.urandom(4096)
                at = self.rounds % 1000 * 4096
                self.h.pwrite(data, at)
                self.h.flush()
                assert self.h.pread(4096, at) == data
                self.rounds += 1
        except BaseException as e:
            self.failure = e

    def goes_on(self, more=20):
        n = self.rounds
        eventually(lambda: self.failure or self.rounds >= n + more, 60)
        assert self.failure is None, self.failure

    def __enter__(self):
        self.thread.start()
        self.goes_on()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        self.h.shutdown()


def is_as_before(pid, before):
    """A flood leaves little behind, and many floods leave as little."""
    def check():
        now = usage(pid)
        return now[0] <= before[0] and now[1] <= before[1] and \
            (of_sanitizer(pid) or now[2] <= before[2] + (8 << 20))
    eventually(check, 60, what=f"{before}, now {usage(pid)}")


def test_flood_of_an_array(cluster):
    c = cluster(members=3, size="61M")
    pid = c.array["pid"]
    with Writer(c.nbd) as w:
        before = usage(pid)
        for _ in range(2):
            with Flood(place(c.nbd)) as f:
                made = f.made
                w.goes_on()
                h = nbd.NBD()
                h.connect_uri(c.nbd)
                h.pread(4096, 0)
                h.shutdown()
                # Half of those who wait may be of one address.
                threads, descriptors, _ = usage(pid)
                assert threads <= before[0] + WAITING // 2 + 40
                assert descriptors <= before[1] + 4 * (WAITING // 2 + 40)
                eventually(lambda f=f, made=made: f.made > made + 500)
                w.goes_on()
            is_as_before(pid, before)
    assert all(m["state"] == "in-sync" for m in
               c.get("/api/v1/arrays/a")["members"])


def test_flood_of_a_member(cluster):
    """Another process attaches the array meanwhile: ten connections to that member."""
    c = cluster(members=3, size="61M")
    member = c.members[1]
    pid = c.pid(member["name"])
    before = usage(pid)
    for _ in range(2):
        with Flood(place(member["uri"])):
            with Writer(c.nbd) as w:
                w.goes_on()
                threads, descriptors, _ = usage(pid)
                assert threads <= before[0] + WAITING // 2 + 40
                assert descriptors <= before[1] + 4 * (WAITING // 2 + 40)
            c.terminate("array")
            c.start("array")
            with Writer(c.nbd) as w:
                w.goes_on()
        is_as_before(pid, before)
    assert all(m["state"] == "in-sync" for m in
               c.get("/api/v1/arrays/a")["members"])


def test_from_very_many_addresses(cluster):
    """None has more than another: the longest silent ones go."""
    c = cluster(members=3, size="61M")
    pid = c.array["pid"]
    address = place(c.nbd)
    with Writer(c.nbd), contextlib.ExitStack() as stack:
        before = usage(pid)
        sockets = [stack.enter_context(silent(address, f"127.0.{1 + i // 200}."
                                                       f"{1 + i % 200}"))
                   for i in range(WAITING + 100)]
        # Each has been greeted, and the first hundred were hung up on.
        for s in sockets:
            assert len(s.recv(18, socket.MSG_WAITALL)) == 18
        assert all(s.recv(1) == b"" for s in sockets[:90])
        # Their threads end a moment later.
        eventually(lambda: usage(pid)[0] <= before[0] + WAITING + 20)
        h = nbd.NBD()
        h.connect_uri(c.nbd)
        h.shutdown()
        stack.close()
        is_as_before(pid, before)


def test_time_to_open(cluster):
    """The time-outs of a silent client, of one that begins and goes no further, and of one
    that asks about an export, which opens it, and closes it with the next option; and of one
    that asks a member every second for an export that it is refused.  An admitted client may be
    silent."""
    c = cluster(members=2, layout="raid-1", size="61M")
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    flags = (3).to_bytes(4, "big")
    watch, took = Stopwatch(), {}
    waiting = [silent(place(c.nbd), data=data) for data in (
        b"", flags, flags + b"IHAVEOPT", flags + option(3),
        flags + option(6, bytes(6)) + option(3))]
    go = option(7, (1).to_bytes(4, "big") + b"x" + bytes(2))
    asks = silent(place(c.members[0]["uri"]), data=flags)
    waiting.append(asks)
    refused = 0
    while waiting:
        if watch.seconds() > refused:
            with contextlib.suppress(OSError):
                asks.sendall(go)
            refused += 1
        for s in select.select(waiting, [], [], 1)[0]:
            try:
                gone = not s.recv(4096)
            except ConnectionResetError:
                gone = True
            if gone:
                took[s] = time.monotonic() - watch.begin, watch.seconds()
                waiting.remove(s)
                s.close()
    print(sorted(took.values()))
    assert all(OPEN_S - 0.1 <= by_clock and seconds < OPEN_S + 5
               for by_clock, seconds in took.values())
    assert refused > 5
    assert len(h.pread(4096, 0)) == 4096
    h.shutdown()


@pytest.fixture
def map_words(tmp_path):
    """`weft map=...` over one member that is a file."""
    file = tmp_path / "m0.img"
    run("truncate", "-s", "64M", file)
    with Nbdkit("file", file) as member:
        path = tmp_path / "map.json"
        path.write_text(json.dumps({"layout": "raid-0", "unit": 65536,
                                    "members": [{"uri": member.uri}]}))
        yield ["weft", f"map={path}"]


def test_where_descriptors_are_few(map_words):
    """The limit that shells have: it is raised, and nbdkit does not spin."""
    address = "127.0.0.1", free_port()
    with Nbdkit(*map_words, wrap=["prlimit", "--nofile=1024:"],
                address=address) as a, contextlib.ExitStack() as stack:
        uri = f"nbd://127.0.0.1:{address[1]}"
        for i in range(600):
            stack.enter_context(silent(address, f"127.0.0.{60 + i % 4}"))
        h = nbd.NBD()
        h.connect_uri(uri)
        before = processor_s(a.pid)
        time.sleep(2)
        assert processor_s(a.pid) - before < 1
        h.pread(4096, 0)
        h.shutdown()
        assert a.log().count("Too many open files") == 0


def test_exports_that_are_open(map_words):
    """An address has half of them at most; the other half is for others.  Where
    descriptors are few they are fewer."""
    address = "127.0.0.1", free_port()
    with Nbdkit(*map_words, "-t", "1", wrap=["prlimit", "--nofile=1024:1024"],
                address=address) as a, contextlib.ExitStack() as stack:
        def opened(source):
            """Is the default export opened?"""
            s = stack.enter_context(silent(
                address, source, (3).to_bytes(4, "big") + option(1)))
            got = b""
            while len(got) < 28 and (part := s.recv(28 - len(got))):
                got += part
            return s, len(got) == 28

        mine = [opened("127.0.0.71") for _ in range(60)]
        count = sum(ok for _, ok in mine)
        assert 40 <= count < 60
        assert "too many connections from its address" in a.log()
        assert opened("127.0.0.72")[1]
        mine[0][0].close()
        eventually(lambda: opened("127.0.0.71")[1])


def test_member_that_weftd_has_no_time_for(scene):
    """It starts nevertheless, asks again, and then is a member."""
    s = scene()
    s.refusals = 3
    s.start()
    assert s.refusals == 0
    d = s.disks[0]
    eventually(lambda: "key" in s.reply(d) or d.said > 1)
    h = eventually(lambda: try_open(d))
    h.pwrite(b"w" * UNIT, 0)
    h.shutdown()
    assert "too many requests" in d.log.read_text()


def try_open(d):
    try:
        return d.open()
    except nbd.Error:
        return None
