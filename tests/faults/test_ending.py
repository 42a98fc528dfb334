"""SIGTERM while clients live that take nothing.

Topology: a devcluster; beside a client that behaves, some that connect and say
          nothing, or ask for much and read no answer (their sockets are full).
Cause: SIGTERM to the array process, and to a member; an array by static map on
       a Unix socket.
Pass:  the process ends by itself, all the same, and as it should: what was
       written is flushed on both copies, the session is given back, so that the
       next attach needs neither a takeover nor a resync.
"""

import contextlib
import json
import time

import nbd
import pytest

from arraystate import content
from certificates import Authority, nbd_connect
from copies import check_copies, model_of
from deafclient import CHUNK, connect, deaf_client
from memberhost import Array
from nbdkitproc import Nbdkit
from wefttest import run

UNIT = 64 << 10
MIB = 1 << 20
# It is bounded; how quick it is depends on the machine.
ENDS_S = 60


@pytest.fixture
def stack():
    with contextlib.ExitStack() as s:
        yield s


def annoy(stack, uri, export=""):
    """A client that asks and doesn't listen, and one that doesn't even ask."""
    stack.enter_context(deaf_client(uri, export=export))
    stack.enter_context(connect(uri))
    time.sleep(1)  # until the sockets are full


def test_array(cluster, stack, seed):
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="64M",
                image_age="10000")
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    data = seed.to_bytes(4, "little") * (MIB // 4)
    annoy(stack, c.nbd)
    h.pwrite(data, 0)
    c.terminate("array")
    assert "not everything that was written" not in c.log("array")
    assert c.get("/api/v1/arrays/a")["session"] is None
    c.start("array")
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    assert h.pread(MIB, 0) == data
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))


def test_array_with_tls(cluster, stack, tmp_path):
    tls = Authority(tmp_path / "ca").host(
        tmp_path / "tls", "h", "127.0.0.1", "127.0.0.2")
    c = cluster(layout="raid-1", members=2, size="64M",
                env={"WEFT_TLS": str(tls)})
    deaf = nbd_connect(nbd.NBD(), c.nbd, tls)
    for i in range(256):
        deaf.aio_pread(nbd.Buffer(CHUNK), i * CHUNK)
    stack.enter_context(connect(c.nbd))
    time.sleep(1)
    assert deaf.aio_in_flight() > 100  # it reads only while it is called
    c.terminate("array")
    assert c.get("/api/v1/arrays/a")["session"] is None


def test_member(cluster, stack):
    array = Array(cluster(members=3, size="61M", no_array=True))
    tokens = array.attach()[0]
    array.open(0, "data", tokens["data"]).pwrite(b"x" * MIB, 0)
    annoy(stack, array.members[0]["uri"], "data/" + tokens["data"])
    array.c.terminate("m0")
    array.end()
    array.c.start("m0")
    array.members = array.c.members
    h = array.open(0, "data", array.attach()[0]["data"])
    assert h.pread(MIB, 0) == b"x" * MIB


def test_on_a_unix_socket(tmp_path, stack):
    files = [tmp_path / f"m{i}.img" for i in range(2)]
    for file in files:
        run("truncate", "-s", "64M", file)
    members = [stack.enter_context(Nbdkit("file", f)) for f in files]
    path = tmp_path / "map.json"
    path.write_text(json.dumps({
        "layout": "raid-1", "unit": UNIT,
        "members": [{"uri": m.uri} for m in members]}))
    a = stack.enter_context(Nbdkit("weft", f"map={path}", "image-age=10000"))
    h = nbd.NBD()
    h.connect_uri(a.uri)
    h.pwrite(b"y" * MIB, 0)
    annoy(stack, a.uri)
    assert a.stop(ENDS_S) == 0
    for file in files:
        with open(file, "rb") as f:
            assert f.read(MIB) == b"y" * MIB
