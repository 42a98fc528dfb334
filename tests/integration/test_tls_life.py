"""Certificates come and go under running I/O.

Topology: weftd, three nodes with a disk each and one without, each in a network namespace of
its own; raid-x over the three disks, attached on the first node.  Causes: certificates that
last seconds and are renewed; a node that is shut out.  Pass: no process ends and no byte is
lost while certificates expire.  A shut-out node gets nothing further from a member within 5 s,
on an open connection or a new one, whichever of the two is the server, and even though weftd
takes no changes.
"""

import ctypes
import fcntl
import os
import re
import shutil
import signal
import ssl
import stat
import subprocess
import threading
import time

import pytest

from enrollworld import World, fill, read, world
from strangers import Stranger, serial, serial_served
from weftdactors import roll_back
from wefttest import Stopwatch, eventually, run


# The folder of the process that serves a node's disk d0.
OWN = "processes/disk-d0/tls"


def expires(node, folder):
    """When the certificate in this folder does, in s since the epoch."""
    text = run("openssl", "x509", "-noout", "-enddate", "-in",
               node.etc / folder / "server-cert.pem").stdout
    return ssl.cert_time_to_seconds(text.strip().removeprefix("notAfter="))


def states(world):
    """The states of the array's members."""
    return {m["state"] for m in world.json("array", "show", "a")["members"]}


@pytest.mark.long(90)
def test_certificates_expire_under_io(tmp_path):
    # A renewal comes after a third of this, and may take the rest on a busy machine.
    with World(tmp_path, env={"WEFT_CERTIFICATE_SECONDS": "45"}) as world:
        stop, failures, nodes, threads = threading.Event(), [], [], []

        def renew(n):
            while not stop.is_set():
                p = n.run("weft-renew", "--root", n.root, check=False)
                if p.returncode:
                    failures.append(p)
                stop.wait(2)
        try:
            for i in range(3):
                nodes.append(world.serving(f"n{i}", "d0"))
                threads.append(threading.Thread(target=renew, args=nodes[-1:]))
                threads[-1].start()
            a, b, c = nodes
            world.make_array(nodes)
            uri = a.serve_array("a")
            first = [serial(n, folder) for n in nodes for folder in ("tls", OWN)]
            pids = [n.processes["d0"].pid for n in nodes]
            until = max(expires(n, folder) for n in nodes for folder in ("tls", OWN))
            while time.time() < until + 1:
                wanted = fill(a, uri, tmp_path)
                assert read(a, uri, tmp_path) == wanted
                time.sleep(0.5)
            # New connections, both ways, after the first certificates' end.
            b.end("d0", 9)
            eventually(lambda: states(world) != {"in-sync"})
            b.serve()
            eventually(lambda: states(world) == {"in-sync"}, 60, every=0.3)
            wanted = fill(a, uri, tmp_path)
            assert read(a, uri, tmp_path) == wanted
            for n in nodes:
                assert not {serial(n), serial(n, OWN)} & set(first)
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
    assert before.lstrip("0") == serial(a, OWN).lstrip("0")
    a.run("weft-renew", "--root", a.root, "--now")
    after = serial_served(a, b)
    assert after != before and after.lstrip("0") == serial(a, OWN).lstrip("0")


def test_one_script_at_a_time(world):
    """The second script waits: the timer's may be at work whenever an administrator runs one.
    Another user cannot take the lock, and so cannot stop renewal."""
    a = world.serving("second", "d0")
    before = serial(a)
    lock = a.root / "etc/weft/lock"
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    held = os.open(lock, os.O_RDONLY)
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
    tls = (a.etc / OWN).resolve()
    a.run("weft-renew", "--root", a.root)  # there is a list of what is revoked
    with Opened(tls) as opened:
        for _ in range(3):
            assert serial_served(a, b) == before
        assert opened.count() == 0
        # The same again, in their places.
        for file in tls.iterdir():
            text = file.read_bytes()
            file.write_bytes(text)
        opened.count()
        assert serial_served(a, b) == before and opened.count() >= 3
        # After that there is no retry, but the next heartbeat uses a connection of its own.
        eventually(lambda: serial_served(a, b) == before and opened.count() == 0)
    a.run("weft-renew", "--root", a.root, "--now")
    assert serial_served(a, b) != before


def test_a_folder_that_is_away(world):
    """For a moment: clients are served as before, and the log has one line."""
    a, b = world.serving("n0", "d0"), world.serving("n1", "d0")
    before = serial_served(a, b)
    away = a.etc / "away"
    (a.etc / OWN).rename(away)
    for _ in range(3):
        assert serial_served(a, b) == before
    assert a.log("d0").count("can't be read") == 1
    away.rename(a.etc / OWN)
    a.run("weft-renew", "--root", a.root, "--now")
    assert serial_served(a, b) not in ("", before)
    assert a.log("d0").count("can't be read") == 1


# Shifts a process's clock by the number of seconds in a file.
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
    """While the clock is wrong, nodes may be refused.  As soon as it is right, all is as
    before, and nodes revoked meanwhile stay revoked."""
    clock = WrongClock(tmp_path)
    with World(tmp_path, env=clock.env) as world:
        nodes = a, b, c = [world.serving(f"n{i}", "d0") for i in range(3)]
        world.make_array(nodes)
        uri = a.serve_array("a")
        wanted = fill(a, uri, tmp_path)
        thieves = [world.node(f"thief{i}") for i in range(3)]
        for n in thieves:
            world.enroll(n)
        late = world.node("late")

        def jump(days, restart):
            clock.set(days)
            if restart:
                world.w.end("weftd")
                world.start_weftd()
            world.log_in()
            world.ctl("node", "revoke", thieves[-1].name, "--yes")
            c.run("weft-renew", "--root", c.root, "--now", check=False)
            if not late.processes:
                world.enroll(late, disks=["d0"])
            world.w.run("sh", "-c", f"sleep 3; echo | openssl s_client -connect "
                        f"{world.w.address}:7380", check=False)
            clock.set(0)
            if restart:
                world.w.end("weftd")
                world.start_weftd()

        for days, restart in ((25, False), (3650, True), (-3650, True)):
            jump(days, restart)
            world.log_in()
            # Its certificates were made when weftd's clock was ahead, and are good now.
            if not late.processes:
                late.serve("d0")
                world.seen(late, 1)
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
    world.w.end("weftd")
    shutil.copytree(world.w.dir / "state", world.w.dir / "old")
    world.start_weftd()
    strangers = shut_out_thief(world, thief, honest, door)
    assert read(a, uri, tmp_path) == wanted
    # It does not return with a restarted member either, because the member hears weftd's list
    # before it has clients.
    b.end("d0")
    b.serve()
    eventually(lambda: strangers[1].ask("new") == "True", 30)
    assert strangers[0].ask("new") != "True"
    # It does not return with an older database either: each process shows its list to weftd.
    world.w.end("weftd")
    shutil.rmtree(world.w.dir / "state")
    (world.w.dir / "old").rename(world.w.dir / "state")
    world.start_weftd()
    eventually(lambda: "node thief is shut out again" in world.w.log("weftd"), 30,
               what="the list to be shown")
    assert thief.run("weft-renew", "--root", thief.root, "--now",
                     check=False).returncode != 0
    assert world.ctl("status", check=False).returncode != 0  # ann's token is refused
    assert strangers[1].ask("new") == "True" != strangers[0].ask("new")
    assert read(a, uri, tmp_path) == wanted
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
    """State is kept only of a client that is shut out."""
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
    """weftd's database is older than its members, so it refuses each heartbeat; the refusals
    name the revoked node."""
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
    roll_back(state, old)
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
