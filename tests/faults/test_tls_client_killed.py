"""A client that speaks TLS dies with many requests under way.

Topology: one devcluster that speaks TLS; a client with two connections and 64
          requests under way on its array, which is a client of the members.
Cause: SIGKILL, again and again: of the client, of the array process.
Pass:  the processes that served it live on and serve the next one; nothing is
       left behind of the dead client's connections.
"""

import random
import subprocess
import time

import nbd
import pytest

from arraystate import states
from certificates import Authority, nbd_connect
from wefttest import SOURCE, eventually, idle_threads

CLIENTS, HOSTS = 15, 4
# A load through libnbd, because fio can't be given certificates.
CLIENT = """
import random, sys
import nbd
sys.path.insert(0, sys.argv[1])
from certificates import nbd_connect
uri, tls, seed = sys.argv[2:]
rng = random.Random(int(seed))
handles = [nbd_connect(nbd.NBD(), uri, tls) for _ in range(2)]
for turn in range(10 ** 9):
    if turn == 100:
        print("busy", flush=True)
    for h in handles:
        while h.aio_in_flight() < 32:
            n = rng.randrange(1, 128 << 10)
            at = rng.randrange(32 << 20)
            ask = rng.choice([h.aio_pread, h.aio_pwrite])
            ask(nbd.Buffer(n), at, completion=lambda error: 1)
        h.poll(1)
"""


@pytest.fixture
def tls(tmp_path):
    return Authority(tmp_path / "ca").host(
        tmp_path / "tls", "h", *(f"127.0.0.{i}" for i in range(1, 5)))


@pytest.fixture
def c(cluster, tls):
    return cluster(members=4, size="64M", env={
        "WEFT_TLS": str(tls), "WEFT_ARRAY_ARGS": "takeover=true"})


def client(c, tls, seed):
    return subprocess.Popen(
        ["/usr/bin/python3", "-c", CLIENT, SOURCE / "tests", c.nbd, tls,
         str(seed)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def threads(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(next(x for x in f if x.startswith("Threads:")).split()[1])


def die(c, tls, rng, seed, kill):
    """Killed in the middle of its work."""
    p = client(c, tls, seed)
    try:
        assert p.stdout.readline() == b"busy\n"
        time.sleep(rng.random() / 4)
        assert p.poll() is None
        kill()
    finally:
        p.kill()
        p.communicate()


def test_client_killed(c, tls, seed):
    rng = random.Random(seed)
    pid = c.pid("array")
    before = idle_threads(pid)
    for i in range(CLIENTS):
        die(c, tls, rng, seed + i, lambda: None)
    assert c.pid("array") == pid and c.running("array")
    eventually(lambda: threads(pid) <= before)
    h = nbd_connect(nbd.NBD(), c.nbd, tls)
    h.pwrite(b"still here", 0)
    h.flush()
    assert h.pread(10, 0) == b"still here"


def test_host_killed(c, tls, seed):
    rng = random.Random(seed)
    pids = [c.pid(f"m{i}") for i in range(4)]
    for i in range(HOSTS):
        die(c, tls, rng, seed + i, lambda: c.kill("array"))
        c.start("array")
    assert [c.pid(f"m{i}") for i in range(4)] == pids
    assert all(c.running(f"m{i}") for i in range(4))
    assert states(c) == ["in-sync"] * 4
