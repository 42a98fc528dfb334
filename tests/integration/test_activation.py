"""An array process as systemd starts it: with its sockets, and protected.

Topology: a devcluster; its array process is ended, and one is started here with
          a socket that was made before (LISTEN_FDS), on TCP and on a Unix path.
Pass:  A client that connects before a process exists is served.  The process ends on SIGTERM
       nevertheless, with all written data flushed, and the next one, with the same socket,
       serves clients that connected meanwhile.  All processes are the last to be killed for
       memory, and never wait for their own clients to free it, if they have the right.
       Another process of their user can neither read nor change their memory.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import threading

import nbd
import pytest

from nbdclient import connected
from wefttest import eventually, run, task_stat

MIB = 1 << 20
START = """
import os, sys
fd, *command = sys.argv[1:]
os.dup2(int(fd), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execvp(command[0], command)
"""
PR_SET_IO_FLUSHER, PR_GET_IO_FLUSHER = 57, 58
# /proc/PID/stat's flags that PR_SET_IO_FLUSHER sets.
IO_FLUSHER = 0x00080000 | 0x00100000
# Each way into the process of this number; prints those that are open.
LOOK = """
import os, sys
pid = int(sys.argv[1])
for name in ("mem", "maps", "environ", "auxv"):
    try:
        with open(f"/proc/{pid}/{name}", "r+b" if name == "mem" else "rb") as f:
            name == "mem" or f.read()
        print(name)
    except OSError:
        pass
try:
    os.readlink(f"/proc/{pid}/fd/0")
    print("fd")
except OSError:
    pass
"""


class Unit:
    """A socket, and the process that gets it."""

    def __init__(self, c, s, uri, log):
        self.socket, self.log = s, log
        self.words = ["weft", "array=a", f"admin={c.admin}", f"uri={uri}",
                      "node=n0"]
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["/usr/bin/python3", "-c", START, str(self.socket.fileno()),
                 "nbdkit", *self.words], pass_fds=[self.socket.fileno()],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log.read_text()

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(params=["tcp", "unix"])
def unit(request, cluster, tmp_path):
    c = cluster(members=3, layout="raid-x", size="61M", image_age=10000)
    c.terminate("array")
    if request.param == "tcp":
        s = socket.create_server(("127.0.0.1", 0))
        uri = "nbd://127.0.0.1:%d" % s.getsockname()[1]
    else:
        s = socket.socket(socket.AF_UNIX)
        s.bind(str(tmp_path / "s"))
        s.listen()
        uri = f"nbd+unix:///?socket={tmp_path}/s"
    with s, contextlib.closing(Unit(c, s, uri, tmp_path / "log")) as u:
        u.uri = uri
        yield u


def connecting(uri):
    """A client that has connected, and waits to be answered."""
    h = nbd.NBD()
    t = threading.Thread(target=h.connect_uri, args=[uri], daemon=True)
    t.start()
    return h, t


def test_who_comes_first_is_served(unit):
    h, waits = connecting(unit.uri)
    unit.start()
    waits.join(60)
    h.pwrite(b"x" * MIB, 0)

    # It ends with this client, and h, connected.
    unit.stop()
    h2, waits = connecting(unit.uri)
    unit.start()
    waits.join(60)
    assert h2.pread(MIB, 0) == b"x" * MIB
    h2.shutdown()
    unit.stop()


# --- Shortage of memory ------------------------------------------------------------


def permitted():
    """The rights that this machine gives us, and so our children: (oom, flusher)."""
    libc = ctypes.CDLL(None)
    score = oom_score(os.getpid())
    try:
        for value in (-900, score):
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as f:
                f.write(str(value))
        oom = True
    except PermissionError:
        oom = False
    was = libc.prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0)
    flusher = libc.prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0
    if flusher:
        libc.prctl(PR_SET_IO_FLUSHER, was, 0, 0, 0)
    print(f"permitted: oom_score_adj {oom}, PR_SET_IO_FLUSHER {flusher}")
    return oom, flusher


def oom_score(pid):
    with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as f:
        return int(f.read())


def flags(pid):
    """Of each of its threads, and one may just end."""
    found = (task_stat(f"{pid}/task/{tid}") for tid in os.listdir(f"/proc/{pid}/task"))
    return [int(stat[6]) for stat in found if stat]


def test_protected(cluster):
    c = cluster(members=2, layout="raid-1", size="61M")
    h = nbd.NBD()
    h.connect_uri(c.nbd)  # and so there are threads of its connection
    oom, flusher = permitted()
    for name in ("array", "m0", "m1"):
        pid = c.pid(name)
        assert (oom_score(pid) == -900) == oom, name
        for f in flags(pid):
            assert (f & IO_FLUSHER == IO_FLUSHER) == flusher, (name, hex(f))


def test_without_the_privilege(cluster, tmp_path):
    """It starts, and works, nevertheless."""
    wrap = "setpriv --inh-caps -sys_resource --bounding-set -sys_resource"
    c = cluster(members=2, layout="raid-1", size="61M",
                env={"WEFT_WRAP": wrap, "WEFT_WRAP_MEMBER": wrap})
    h = connected(c.nbd)
    h.pwrite(b"x" * MIB, 0)
    h.flush()
    assert oom_score(c.pid("array")) == oom_score(os.getpid())
    assert not any(f & IO_FLUSHER for f in flags(c.pid("m0")))


def test_memory_is_its_own(cluster):
    """An intruder in one member can't attack the members of other disks, which run as the same
    user; an intruder in an array can't attack other arrays."""
    wrap = "setpriv --inh-caps -all --bounding-set -all"
    c = cluster(members=2, layout="raid-1", size="61M",
                env={"WEFT_WRAP": wrap, "WEFT_WRAP_MEMBER": wrap})
    connected(c.nbd).shutdown()

    def open_ways(pid):
        return run(*wrap.split(), "/usr/bin/python3", "-c", LOOK, pid).stdout.split()

    with subprocess.Popen([*wrap.split(), "sleep", "1000"]) as other:
        try:
            eventually(lambda: open_ways(other.pid) ==
                       ["mem", "maps", "environ", "auxv", "fd"])
        finally:
            other.kill()
    for name in ("array", "m0", "m1"):
        assert not open_ways(c.pid(name)), name
