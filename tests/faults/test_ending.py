"""SIGTERM while clients live that take nothing.

Topology: a devcluster; beside a client that behaves, some that connect and say
          nothing, or ask for much and read no answer (their sockets are full).
Cause: SIGTERM to the array process, and to a member; an array by static map on
       a Unix socket.  Meanwhile a member is lost, or a lost member comes back.
Pass:  The process ends by itself nevertheless, and properly: all written data is flushed on
       both copies, and the session is given back, so that the next attach needs neither a
       takeover nor a resync.  A client at work loses its connection, and gets no error: a
       kernel's would fail requests that can wait for the next process.
"""

import errno
import re
import signal
import threading
import time

import nbd

from arraystate import content, states, wait_in_sync, wait_state
from certificates import Authority, nbd_connect
from copies import check_copies, model_of
from deafclient import CHUNK, connect, deaf_client
from maparray import *
from memberhost import Array
from nbdclient import connected
from wefttest import run

MIB = 1 << 20
# It is bounded; how quick it is depends on the machine.
ENDS_S = 60


def annoy(stack, uri, export=""):
    """Two clients: the first sends requests and doesn't read the replies, the second sends
    nothing."""
    stack.enter_context(deaf_client(uri, export=export))
    stack.enter_context(connect(uri))
    time.sleep(1)  # until the sockets are full


def check_detached(c):
    assert "not everything that was written" not in c.log("array")
    assert c.get("/api/v1/arrays/a")["session"] is None


def check(c, data):
    c.start("array")
    h = connected(c.nbd)
    assert h.pread(MIB, 0) == data
    h.shutdown()
    wait_in_sync(c)
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))


def four(cluster):
    return cluster(layout="raid-x", members=4, unit=UNIT, size="64M",
                   image_age="10000")


def write(c, stack, data):
    """The images are not written before the array process ends; the client lives longer."""
    annoy(stack, c.nbd)
    c.client = connected(c.nbd)
    c.client.pwrite(data, 0)
    return data


def check_clean_end(cluster, prepare):
    """As often as the machine stalls meanwhile.  prepare: called with the cluster, returns
    the data that was written."""
    for _ in range(5):
        c = four(cluster)
        data = prepare(c)
        if c.detaches("array"):
            break
    else:
        raise AssertionError("it loses a member each time")
    check_detached(c)
    check(c, data)


def test_array(cluster, stack, seed):
    data = seed.to_bytes(4, "little") * (MIB // 4)
    check_clean_end(cluster, lambda c: write(c, stack, data))


def test_a_member_comes_back(cluster, stack):
    """A member that was lost before does not disturb the end."""
    def prepare(c):
        c.kill("m1")
        wait_state(c, 1, "out")
        data = write(c, stack, b"back" * (MIB // 4))
        start = threading.Thread(target=c.start, args=["m1"])
        start.start()
        stack.callback(start.join)
        return data

    check_clean_end(cluster, prepare)


def test_a_member_is_lost(cluster, stack):
    """The whole host may be ending: so nothing is recorded, and the array process does not
    detach.  The next one takes the array over, and makes all copies alike."""
    c = four(cluster)
    data = write(c, stack, b"lost" * (MIB // 4))
    c.stop("m1")
    assert not c.detaches("array")
    assert states(c) == ["in-sync"] * 4
    c.cont("m1")
    check(c, data)


def test_array_with_tls(cluster, stack, tmp_path):
    tls = Authority(tmp_path / "ca").host(
        tmp_path / "tls", "h", "127.0.0.1", "127.0.0.2")
    c = cluster(layout="raid-1", members=2, size="64M",
                env={"WEFT_TLS": str(tls)})
    for _ in range(5):
        deaf = nbd_connect(nbd.NBD(), c.nbd, tls)
        for i in range(256):
            deaf.aio_pread(nbd.Buffer(CHUNK), i * CHUNK)
        stack.enter_context(connect(c.nbd))
        time.sleep(1)
        assert deaf.aio_in_flight() > 100  # it reads only while it is called
        if c.detaches("array"):
            break
        c.start("array")
    assert c.get("/api/v1/arrays/a")["session"] is None


def test_member(cluster, stack):
    array = Array(cluster(members=3, size="61M", no_array=True))
    tokens = array.attach()[0]
    array.open(0, "data", tokens["data"]).pwrite(b"x" * MIB, 0)
    annoy(stack, array.members[0]["uri"], "data/" + tokens["data"])
    array.c.terminate("m0")
    array.end()
    array.c.start("m0")
    [h] = array.opened(0, "data")
    assert h.pread(MIB, 0) == b"x" * MIB


def check_files(a, data):
    """All have it but one that was lost, because the machine stalled."""
    lost = set(re.findall(r"member (m\d) is lost: it has answered nothing", a.array.log()))
    assert len(lost) <= 1
    for m, file in enumerate(a.files):
        with open(file, "rb") as f:
            assert f.read(len(data)) == data or f"m{m}" in lost


def test_on_a_unix_socket(tmp_path, stack):
    a = MapArray(tmp_path, stack, "raid-1", "image-age=10000", members=2)
    h = connected(a.uri)
    h.pwrite(b"y" * MIB, 0)
    annoy(stack, a.uri)
    assert a.array.stop(ENDS_S) == 0
    check_files(a, b"y" * MIB)


# accept reports a new client a second late.
LATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

int
poll (struct pollfd *f, nfds_t n, int ms)
{
  int (*real) (struct pollfd *, nfds_t, int) =
    (int (*) (struct pollfd *, nfds_t, int)) dlsym (RTLD_NEXT, "poll");
  int r = real (f, n, ms), listens = 0;
  socklen_t bytes = sizeof listens;

  for (nfds_t i = 0; r > 0 && i < n; i++)
    if ((f[i].revents & POLLIN) &&
        getsockopt (f[i].fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens) {
      struct timespec t = { 1, 0 };

      while (nanosleep (&t, &t) == -1)
        ;
    }
  return r;
}
"""


def test_a_client_that_comes_as_it_ends(tmp_path, stack):
    """Between nbdkit's poll and its accept: its socket is gone then."""
    (tmp_path / "late.c").write_text(LATE)
    run("cc", "-shared", "-fPIC", "-o", tmp_path / "late.so", tmp_path / "late.c", "-ldl")
    a = MapArray(tmp_path, stack, "raid-1", "image-age=10000", members=2,
                 env={"LD_PRELOAD": str(tmp_path / "late.so")})
    h = connected(a.uri)
    h.pwrite(b"z" * MIB, 0)
    s = stack.enter_context(connect(a.uri))
    time.sleep(0.3)
    a.array.signal(signal.SIGTERM)
    assert a.array.stop(ENDS_S) == 0
    assert "accept: Socket operation on non-socket" in a.array.log()
    try:
        assert s.recv(1) == b""
    except ConnectionResetError:
        pass
    check_files(a, b"z" * MIB)


def errors_until_the_end(uri, end):
    """A client with many requests under way, until its connection is gone."""
    h, errors = connected(uri), []

    def completed(error):
        errors.append(error.value)
        return 1

    data, asked, ended = bytes(4096), 0, False
    try:
        while not h.aio_is_dead() and not h.aio_is_closed():
            while h.aio_in_flight() < 64:
                h.aio_pwrite(data, asked % 256 * 4096, completion=completed)
                asked += 1
            h.poll(1000)
            if len(errors) > 200 and not ended:
                ended = end()
    except nbd.Error:
        assert h.aio_is_dead() or h.aio_is_closed()
    assert ended
    return set(errors)


def test_no_client_hears_an_error(tmp_path, stack):
    """Each request is answered well, or not at all."""
    for i in range(16):
        (tmp_path / str(i)).mkdir()
        a = MapArray(tmp_path / str(i), stack, "raid-1", members=2)
        errors = errors_until_the_end(
            a.uri, lambda a=a: a.array.signal(signal.SIGTERM) or True)
        assert a.array.stop(ENDS_S) == 0
        assert errors <= {0, errno.ENOTCONN}, errors
