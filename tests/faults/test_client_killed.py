"""A client dies with many requests under way, and takes nobody with it.

Topology: one devcluster; fio's nbd engine at depth 32 on its array.
Cause: SIGKILL, again and again: of fio, which is the array process's client,
       then of the array process, which is the members'; of a client that has
       read no answer for so long that the sockets are full, or that then asks
       what no client may.  The end of the only client of nbdkit -s.
Pass:  the processes that served it live on and serve the next one; nothing is
       left behind of the dead client's connection.  (nbdkit 1.32 would end
       itself by an assertion: plugin/nbdkit-replies.c.)  nbdkit -s ends.
"""

import contextlib
import json
import os
import random
import socket
import struct
import subprocess
import time

import nbd
import pytest

from arraystate import states, wait_for_writes
from deafclient import CHUNK, MAGIC, deaf_client
from fiojob import Fio
from nbdclient import connected
from nbdkitproc import Nbdkit
from wefttest import eventually

CLIENTS = 20
HOSTS = 5
WRITE = 1
BAD_HEADER = b"\xff" * 28
TOO_LARGE = struct.pack(">IHHQQI", MAGIC, 0, WRITE, 0, 0, 0xf0000000)


def sockets(pid):
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass  # just closed
    return sum(link.startswith("socket:") for link in links)


@pytest.mark.long(40)
def test_client_killed(cluster, seed):
    rng = random.Random(seed)
    c = cluster(members=4, size="64M", env={"WEFT_ARRAY_ARGS": "takeover=true"})
    pid = c.pid("array")
    before = sockets(pid)
    for i in range(CLIENTS):
        with Fio(c.nbd, depth=32, jobs=2, rw="randrw", bs="4k-128k",
                 bs_unaligned=True, size="32M", verify=False,
                 time_based=True, runtime=60,
                 seed=(seed + i) % 2 ** 31) as job:
            wait_for_writes(c)
            time.sleep(rng.random() / 4)
            assert job.running()
            job.kill()
    for abort in (False, True):
        s = deaf_client(c.nbd)
        time.sleep(1)
        if abort:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                         struct.pack("ii", 1, 0))
        s.close()
    assert c.pid("array") == pid and c.running("array")
    eventually(lambda: sockets(pid) <= before)
    h = connected(c.nbd)
    h.pwrite(b"still here", 0)
    h.flush()
    assert h.pread(10, 0) == b"still here"


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("bad", [BAD_HEADER, TOO_LARGE],
                         ids=["magic", "too-large"])
def test_client_breaks_the_rules(cluster, bad, parts):
    c = cluster(members=4, size="64M")
    pid = c.pid("array")
    h = connected(c.nbd)
    before = sockets(pid)
    s = deaf_client(c.nbd, requests=8, chunk=2 << 20)
    time.sleep(0.5)
    for i in range(parts):
        n = len(bad) // parts
        s.sendall(bad[i * n:(i + 1) * n])
        time.sleep(0.2)
    time.sleep(1)
    s.close()
    eventually(lambda: sockets(pid) <= before)
    assert c.pid("array") == pid and c.running("array")
    h.pwrite(b"still here", 0)
    h.flush()


def test_only_client_ends(tmp_path):
    with contextlib.ExitStack() as stack:
        uris = []
        for _ in range(2):
            m = stack.enter_context(Nbdkit("memory", "64M"))
            uris.append({"name": f"m{len(uris)}", "uri": m.uri})
        path = tmp_path / "map.json"
        path.write_text(json.dumps({"layout": "raid-10", "n": 2,
                                    "unit": 65536, "members": uris}))
        ours, theirs = socket.socketpair()
        p = subprocess.Popen(["nbdkit", "-s", "weft", f"map={path}"],
                             stdin=theirs, stdout=theirs)
        stack.callback(p.kill)
        theirs.close()
        h = nbd.NBD()
        h.connect_socket(os.dup(ours.fileno()))
        for i in range(40):
            h.aio_pread(nbd.Buffer(CHUNK), i * CHUNK)
        while h.aio_in_flight():
            h.poll(1000)
        ours.shutdown(socket.SHUT_RDWR)
        p.wait(20)


def test_host_killed_again_and_again(cluster, seed):
    rng = random.Random(seed)
    c = cluster(members=4, size="64M", env={"WEFT_ARRAY_ARGS": "takeover=true"})
    pids = [c.pid(f"m{i}") for i in range(4)]
    for i in range(HOSTS):
        with Fio(c.nbd, depth=32, jobs=2, rw="randwrite", bs="4k-128k",
                 bs_unaligned=True, size="32M", verify=False,
                 end_fsync=0, time_based=True, runtime=60,
                 seed=(seed + i) % 2 ** 31) as job:
            wait_for_writes(c)
            time.sleep(rng.random() / 2)
            assert job.running()
            c.kill("array")
        c.start("array")
    assert [c.pid(f"m{i}") for i in range(4)] == pids
    assert all(c.running(f"m{i}") for i in range(4))
    assert states(c) == ["in-sync"] * 4
