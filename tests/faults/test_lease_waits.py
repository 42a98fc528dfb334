"""The messages about a write that waits for a lease, and about the holder that it waits for.

Topology: a devcluster with two array processes that share its array by leases.
Cause: the holder of a range is stopped for some seconds, or killed; weftd is killed.
Pass:  The waiting process says why after some seconds, once, and once that it goes on; weftctl
       says the same meanwhile; a short wait makes no message.
"""

import concurrent.futures
import http.server
import json
import re
import threading
import time

import pytest

from nbdclient import connected
from nbdkitproc import Nbdkit, array_of, refused
from wefttest import Stopwatch, eventually, run

UNIT = 64 << 10
AT = 8 << 20
TTL_S = 10    # SESSION_TTL_MS


@pytest.fixture
def later():
    with concurrent.futures.ThreadPoolExecutor() as pool:
        yield pool.submit


def make(cluster, **options):
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="32M", writers=2,
                leases=True, **options)
    handles = [connected(a["uri"]) for a in c.arrays]
    for h in handles:  # the recovery at the attach does not lose it
        h.pwrite(b"0" * UNIT, AT)
    return c, handles


def lines(c, *words):
    return [line for line in c.log("array").splitlines()
            if all(word in line for word in words)]


@pytest.mark.long(15)
def test_the_holder_is_stopped(cluster, later):
    """Shorter than its TTL."""
    c, (first, second) = make(cluster)
    first.pwrite(b"1" * UNIT, AT)
    second.pwrite(b"2" * UNIT, AT)
    assert not lines(c, "lease of")
    c.stop("array1")
    begin = time.monotonic()
    write = later(first.pwrite, b"1" * UNIT, AT)
    try:
        eventually(lambda: lines(c, "requests wait for a lease"), 6, every=0.02)
        assert time.monotonic() - begin > 3
        what = c.get("/api/v1/arrays/a")["waits_for"]
        text = run("weftctl", "--admin", c.admin, "array", "leases", "a").stdout
        status = run("weftctl", "--admin", c.admin, "status").stdout
    finally:
        c.cont("array1")
    write.result()
    [said] = lines(c, "requests wait for a lease")
    holder = f"node n1, process {c.arrays[1]['pid']}, has it"
    assert f" {UNIT} bytes from {AT} on" in said and holder in said, said
    assert f"node n0, process {c.arrays[0]['pid']}, has asked" in what
    assert re.search(r"since [3-9] s: ", what) and holder in what, what
    for words in text, status:
        assert "waits for a lease: node n0" in words and holder in words, words
    [line] = eventually(lambda: lines(c, "no longer wait"))
    assert f" {UNIT} bytes from {AT} on" in line
    assert c.get("/api/v1/arrays/a")["waits_for"] is None
    second.pwrite(b"2" * UNIT, AT)
    first.pwrite(b"1" * UNIT, AT)
    assert len(lines(c, "lease of")) == 2


@pytest.mark.long(25)
def test_weftd_is_silent(cluster, later):
    """Hosts read and write their own leases as before, and are informed of waiting
    requests."""
    c, (first, second) = make(cluster)
    first.pwrite(b"1" * UNIT, AT)
    c.kill("weftd")
    write = later(second.pwrite, b"2" * UNIT, AT)
    try:
        first.pwrite(b"3" * UNIT, AT)
        [line] = eventually(lambda: lines(c, "weftd is silent"))
        assert "each write that needs another lease" in line
    finally:
        c.start("weftd")
    write.result()
    [line] = eventually(lambda: lines(c, "heard again: reads"))
    assert "what needs another lease" in line
    assert first.pread(UNIT, AT) == b"2" * UNIT


@pytest.mark.long(15)
def test_a_process_that_was_killed(cluster):
    """The next one of its node says that it has ended: nobody waits for its TTL."""
    c, (first, second) = make(cluster)
    first.pwrite(b"1" * UNIT, AT)
    first.flush()
    c.restart("array")
    watch = Stopwatch(disk=True)
    first = connected(c.nbd)
    assert first.pread(UNIT, AT) == b"1" * UNIT
    first.pwrite(b"2" * UNIT, AT)
    assert watch.seconds() < TTL_S / 2
    assert second.pread(UNIT, AT) == b"2" * UNIT
    assert "of the same node knows so" in c.log("weftd")


class Older(http.server.BaseHTTPRequestHandler):
    """weftd from before there were leases: a sharing session has a part."""

    def do_POST(self):
        problem = json.dumps({
            "status": 422, "code": "field", "field": "part",
            "detail": "field part is missing"}).encode()
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(422)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(problem)))
        self.end_headers()
        self.wfile.write(problem)

    def log_message(self, *_):
        pass


def test_an_older_weftd():
    """The message says that weftd is older, not that a part is missing."""
    with http.server.HTTPServer(("127.0.0.1", 0), Older) as older:
        threading.Thread(target=older.serve_forever, daemon=True).start()
        line = refused("weft", "array=a", "mode=shared", "node=n1",
                       f"admin=http://127.0.0.1:{older.server_port}")
        older.shutdown()
    assert "grants no leases" in line and "older Weft" in line, line


def test_as_the_unit_starts_it(cluster, tmp_path):
    """weft-array@ adds WEFT_OPTIONS=mode=shared to what it says of itself."""
    c, _ = make(cluster)
    with Nbdkit(*array_of(c), f"client={tmp_path}/a.client", "mode=shared") as one:
        assert connected(one.uri).pread(UNIT, AT) == b"0" * UNIT
    assert "node n9" in c.log("weftd").lower()
