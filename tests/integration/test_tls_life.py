"""Certificates come and go under running I/O.

Topology: weftd, three nodes with a disk each and one without, each in a network
namespace of its own; raid-x over the three disks, attached on the first node.  Causes:
certificates that last seconds and are renewed; a node that is shut out.  Pass: no
process ends and no byte is lost while certificates expire; who is shut out gets nothing
more from a member within 5 s, by a connection that is open or by a new one, whoever of
the two is the server, and although weftd takes no changes.
"""

import ctypes
import fcntl
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

from enrollworld import World, fill, read, world
from strangers import Stranger, serial, serial_served
from wefttest import Stopwatch, eventually, run


@pytest.mark.long(90)
def test_certificates_expire_under_io(tmp_path):
    with World(tmp_path, env={"WEFT_CERTIFICATE_SECONDS": "15"}) as world:
        nodes = a, b, c = [world.serving(f"n{i}", "d0") for i in range(3)]
        world.make_array(nodes)
        uri = a.serve_array("a")
        first = [serial(n) for n in nodes]
        pids = [n.processes["d0"].pid for n in nodes]
        stop, failures = threading.Event(), []

        def renew(n):
            while not stop.is_set():
                p = n.run("weft-renew", "--root", n.root, check=False)
                if p.returncode:
                    failures.append(p)
                stop.wait(2)
        threads = [threading.Thread(target=renew, args=[n]) for n in nodes]
        for t in threads:
            t.start()
        try:
            end = time.monotonic() + 40
            while time.monotonic() < end:
                wanted = fill(a, uri, tmp_path)
                assert read(a, uri, tmp_path) == wanted
            # New connections, both ways, long after the first certificates' end.
            b.end("d0", 9)
            b.serve()
            eventually(lambda: {m["state"] for m in world.json(
                "array", "show", "a")["members"]} == {"in-sync"}, 60, every=0.3)
            wanted = fill(a, uri, tmp_path)
            assert read(a, uri, tmp_path) == wanted
            for n, before in zip(nodes, first):
                assert serial(n) != before
            assert serial_served(c, a) not in first
        finally:
            stop.set()
            for t in threads:
                t.join()
        assert not failures, failures
        assert [n.processes["d0"].pid for n in (a, c)] == [pids[0], pids[2]]
        assert all(n.processes["d0"].poll() is None for n in nodes)


def test_a_new_certificate_is_shown_at_once(world):
    """By the process that was started with the old one."""
    a, b = world.serving("n0", "d0"), world.serving("n1", "d0")
    before = serial_served(a, b)
    assert before.lstrip("0") == serial(a).lstrip("0")
    a.run("weft-renew", "--root", a.root, "--now")
    after = serial_served(a, b)
    assert after != before and after.lstrip("0") == serial(a).lstrip("0")


def test_one_script_at_a_time(world):
    """Who is second waits: the timer's may be at work whenever an administrator runs one."""
    a = world.serving("second", "d0")
    before = serial(a)
    held = os.open(a.root / "etc", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    a.popen("renew", "weft-renew", "--root", a.root, "--now")
    eventually(lambda: "waiting until it has ended" in a.log("renew"))
    assert serial(a) == before
    os.close(held)
    assert a.processes.pop("renew").wait(60) == 0
    assert serial(a) != before


class Opened:
    """How often files of a folder were opened."""

    IN_OPEN, IN_NONBLOCK = 0x20, 0o4000

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(self.IN_NONBLOCK)
        assert self.fd >= 0
        for file in folder.iterdir():
            assert libc.inotify_add_watch(self.fd, bytes(file), self.IN_OPEN) > 0

    def count(self):
        try:
            return len(os.read(self.fd, 65536)) // 16
        except BlockingIOError:
            return 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)


def test_certificates_are_read_when_they_change(world):
    a, b = world.serving("n0", "d0"), world.serving("n1", "d0")
    before = serial_served(a, b)
    tls = (a.etc / "tls").resolve()
    with Opened(tls) as opened:
        for _ in range(3):
            assert serial_served(a, b) == before
        assert opened.count() == 0
        # The same again, in their places.
        for file in tls.iterdir():
            text = file.read_bytes()
            file.write_bytes(text)
        opened.count()
        assert serial_served(a, b) == before and opened.count() == 3
        assert serial_served(a, b) == before and opened.count() == 0
    a.run("weft-renew", "--root", a.root, "--now")
    assert serial_served(a, b) != before


def test_a_folder_that_is_away(world):
    """For a moment: clients are served as before, and it is said once."""
    a, b = world.serving("n0", "d0"), world.serving("n1", "d0")
    before = serial_served(a, b)
    away = a.etc / "away"
    (a.etc / "tls").rename(away)
    for _ in range(3):
        assert serial_served(a, b) == before
    assert a.log("d0").count("can't be read") == 1
    away.rename(a.etc / "tls")
    a.run("weft-renew", "--root", a.root, "--now")
    assert serial_served(a, b) not in ("", before)
    assert a.log("d0").count("can't be read") == 1


# What the clock of a process shows: so many seconds more, as a file says.
WRONG_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t
ahead (void)
{
  FILE *f = fopen (getenv ("AHEAD"), "r");
  long n = 0;

  if (f == NULL || fscanf (f, "%ld", &n) != 1)
    n = 0;
  if (f)
    fclose (f);
  return n;
}

int
clock_gettime (clockid_t id, struct timespec *t)
{
  int (*real) (clockid_t, struct timespec *) =
    (int (*) (clockid_t, struct timespec *)) dlsym (RTLD_NEXT, "clock_gettime");
  int r = real (id, t);

  if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
    t->tv_sec += ahead ();
  return r;
}

time_t
time (time_t *to)
{
  struct timespec t;

  clock_gettime (CLOCK_REALTIME, &t);
  if (to)
    *to = t.tv_sec;
  return t.tv_sec;
}

int
gettimeofday (struct timeval *restrict t, void *restrict zone)
{
  struct timespec now;

  clock_gettime (CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}
"""
DAY = 24 * 3600


class WrongClock:
    """For the environment `env`, of which the clock can be set."""

    def __init__(self, tmp_path):
        source, library = tmp_path / "clock.c", tmp_path / "clock.so"
        source.write_text(WRONG_CLOCK)
        run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
        self.file = tmp_path / "ahead"
        self.set(0)
        self.env = {"LD_PRELOAD": str(library), "AHEAD": str(self.file)}

    def set(self, days):
        new = self.file.with_suffix(".new")
        new.write_text(f"{days * DAY}\n")
        new.rename(self.file)


@pytest.mark.long(60)
def test_weftd_whose_clock_was_wrong(tmp_path):
    """While it is wrong nodes may be refused; as soon as it is right all is as before, and
    whoever was revoked meanwhile stays so."""
    clock = WrongClock(tmp_path)
    with World(tmp_path, env=clock.env) as world:
        nodes = a, b, c = [world.serving(f"n{i}", "d0") for i in range(3)]
        world.make_array(nodes)
        uri = a.serve_array("a")
        wanted = fill(a, uri, tmp_path)
        thieves = [world.node(f"thief{i}") for i in range(3)]
        for n in thieves:
            world.enroll(n)

        def jump(days, restart):
            clock.set(days)
            if restart:
                world.w.end("weftd")
                world.start_weftd()
            world.log_in()
            world.ctl("node", "revoke", thieves[-1].name, "--yes")
            c.run("weft-renew", "--root", c.root, "--now", check=False)
            world.w.run("sh", "-c", f"sleep 3; echo | openssl s_client -connect "
                        f"{world.w.address}:7380", check=False)
            clock.set(0)
            if restart:
                world.w.end("weftd")
                world.start_weftd()

        for days, restart in ((25, False), (3650, True), (-3650, True)):
            jump(days, restart)
            world.log_in()
            began = Stopwatch()
            eventually(lambda: all(len(world.disks_of(n)) == 1 for n in nodes), 30)
            for n in nodes:
                n.run("weft-renew", "--root", n.root)
            # New connections between nodes, by what they have now.
            c.end("d0", 9)
            c.serve()
            eventually(lambda: {m["state"] for m in world.json(
                "array", "show", "a")["members"]} == {"in-sync"}, 60, every=0.3)
            assert read(a, uri, tmp_path) == wanted
            wanted = fill(a, uri, tmp_path)
            print(f"{days} days: {began.seconds():.1f} s")
            thief = thieves.pop()
            assert thief.run("weft-renew", "--root", thief.root, "--now",
                             check=False).returncode != 0
            crl = run("openssl", "crl", "-noout", "-text", "-in",
                      a.etc / "tls/ca-crl.pem").stdout
            assert crl.count("Serial Number:") == 3 - len(thieves)


def shut_out_thief(world, thief, honest, door):
    """By its open and by new connections.  Both strangers, of whom the other does not
    feel it."""
    strangers = [Stranger(thief, door), Stranger(honest, door)]
    for s in strangers:
        assert s.ask("old") == s.ask("new") == "True"
    world.ctl("node", "revoke", "thief", "--yes")
    began = Stopwatch(disk=True)
    eventually(lambda: strangers[0].ask("old") != "True", 5)
    assert strangers[0].ask("new") != "True"
    assert began.seconds() < 5
    assert strangers[1].ask("old") == strangers[1].ask("new") == "True"
    return strangers


@pytest.mark.long(20)
def test_who_is_shut_out_gets_nothing(world, tmp_path):
    nodes = a, b, c = [world.serving(f"n{i}", "d0") for i in range(3)]
    world.make_array(nodes)
    uri = a.serve_array("a")
    wanted = fill(a, uri, tmp_path)
    thief, honest = world.node("thief"), world.node("honest")
    for n in (thief, honest):
        world.enroll(n)
    door = f"nbds://{b.address}:10810"
    strangers = shut_out_thief(world, thief, honest, door)
    assert read(a, uri, tmp_path) == wanted
    # Nor does it come back with a member that is started anew, by which weftd's list
    # is heard before there are clients.
    b.end("d0")
    b.serve()
    eventually(lambda: strangers[1].ask("new") == "True", 30)
    assert strangers[0].ask("new") != "True"
    for s in strangers:
        s.end()


def threads(process):
    return len(os.listdir(f"/proc/{process.pid}/task"))


def test_who_is_shut_out_and_says_nothing(world):
    """Its connections stay open at its own end; the member keeps nothing of them."""
    a = world.serving("n0", "d0")
    thief, honest = world.node("thief"), world.node("honest")
    for n in (thief, honest):
        world.enroll(n)
    door = f"nbds://{a.address}:10810"
    d0 = a.processes["d0"]
    stays = Stranger(honest, door)
    before = threads(d0)
    silent = [Stranger(thief, door) for _ in range(5)]
    assert threads(d0) > before
    world.ctl("node", "revoke", "thief", "--yes")
    eventually(lambda: threads(d0) <= before, 10, what=f"{before} threads")
    assert all(s.p.poll() is None for s in silent)
    assert stays.ask("old") == "True"
    for s in [stays, *silent]:
        s.end()


# Says goodbye, and keeps its end open.
STAYS = """
import socket, ssl, sys
s = socket.create_connection((sys.argv[1], 10810))
s.recv(18, socket.MSG_WAITALL)
s.sendall(b"\\0\\0\\0\\3IHAVEOPT\\0\\0\\0\\5\\0\\0\\0\\0")
s.recv(20, socket.MSG_WAITALL)
c = ssl.create_default_context(cafile=sys.argv[2] + "/ca-cert.pem")
c.load_cert_chain(sys.argv[2] + "/client-cert.pem", sys.argv[2] + "/client-key.pem")
t = c.wrap_socket(s, server_hostname=sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
t.sendall(b"IHAVEOPT\\0\\0\\0\\2\\0\\0\\0\\0")
print("gone", flush=True)
sys.stdin.readline()
"""


def test_who_is_done_and_does_not_close(world):
    """Nor is anything kept of who is not shut out."""
    a, b = world.serving("n0", "d0"), world.serving("n1", "d0")
    d0 = a.processes["d0"]
    before = threads(d0)
    p = subprocess.Popen(
        ["ip", "netns", "exec", b.ns, "/usr/bin/python3", "-c", STAYS, a.address,
         str(b.etc / "tls")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "open\n"
    assert threads(d0) > before
    p.stdin.write("\n")
    p.stdin.flush()
    assert p.stdout.readline() == "gone\n"
    eventually(lambda: threads(d0) <= before, 10, what=f"{before} threads")
    assert p.poll() is None
    p.stdin.close()
    p.wait(30)


@pytest.mark.long(30)
def test_shut_out_while_weftd_takes_no_changes(world):
    """Its database is older than its members, so that it refuses each heartbeat; who is
    revoked is named in the refusals."""
    nodes = [world.serving(f"n{i}", "d0") for i in range(3)]
    world.make_array(nodes)
    eventually(lambda: world.json("array", "show", "a")["state"] == "ready", 30)
    thief, honest = world.node("thief"), world.node("honest")
    for n in (thief, honest):
        world.enroll(n)
    state, old = world.w.dir / "state", world.w.dir / "old"
    world.w.end("weftd", signal.SIGKILL)
    shutil.copytree(state, old)
    for _ in range(2):
        world.start_weftd()
        for n in nodes:
            world.seen(n, 1)
        time.sleep(2)
        world.w.end("weftd", signal.SIGKILL)
    shutil.rmtree(state)
    shutil.copytree(old, state)
    world.start_weftd()
    eventually(lambda: world.json("status")["read_only"], 30, every=0.3)
    door = f"nbds://{nodes[1].address}:10810"
    strangers = shut_out_thief(world, thief, honest, door)
    assert world.json("status")["read_only"]
    for s in strangers:
        s.end()


def test_a_server_that_is_shut_out(world, tmp_path):
    """A client with the list on its disk does not speak with it."""
    a, b = world.serving("n0", "d0"), world.serving("n1", "d0")
    door = f"nbds://{b.address}:10810"
    s = Stranger(a, door)
    assert s.ask("new") == "True"
    world.ctl("node", "revoke", "n1", "--yes")
    a.run("weft-renew", "--root", a.root)
    assert (a.etc / "tls/ca-crl.pem").exists()
    assert re.search("verif|revoked|certificate", s.ask("new"))
    s.end()
    # And a node that gets a new certificate keeps the list.
    a.run("weft-renew", "--root", a.root, "--now")
    text = run("openssl", "crl", "-noout", "-text", "-in",
               a.etc / "tls/ca-crl.pem").stdout
    assert serial(b) in text
