"""Every kind of request at random, against a plain array of bytes.

Topology: one devcluster; eight connections to its array (multi-conn).
Cause: thousands of writes (with and without FUA), zeroes (may unmap or not),
       trims, flushes and reads at any byte, of a byte to some hundred KiB,
       many in flight at once, none overlapping another in flight.
Pass:  each read returns what the plain array holds (of trimmed ranges:
       zeroes), and so do at the end all copies on the members' files.
"""

import random

import nbd
import pytest

from copies import check_copies, model_of
from nbdclient import connected

UNIT = 16 << 10
IN_FLIGHT = 24
KINDS = {"write": 30, "fua": 3, "zero": 5, "zero-keep": 5, "trim": 5,
         "read": 50, "flush": 1}


class Request:
    def __init__(self, kind, at, n):
        self.kind, self.at, self.n = kind, at, n
        self.buf = None  # libnbd copies nothing: it lives as long as we do
        self.answered = False
        self.error = 0

    def done(self, error):
        # An int, or in older libnbd a ctypes c_int.
        self.answered, self.error = True, getattr(error, "value", error)
        return 1

    def overlaps(self, at, n):
        return self.at < at + n and at < self.at + self.n


class Client:
    def __init__(self, uri, connections, rng):
        self.rng = rng
        self.handles = []
        for _ in range(connections):
            h = connected(uri)
            self.handles.append(h)
        assert self.handles[0].can_multi_conn()
        self.size = self.handles[0].get_size()
        self.content = bytearray(self.size)
        self.flying = []
        self.counts = dict.fromkeys(KINDS, 0)

    def somewhere(self):
        n = int(2 ** self.rng.uniform(0, 18.5))
        at = self.rng.choice([self.rng.randrange(self.size),
                              self.rng.randrange(self.size // UNIT) * UNIT])
        return at, min(n, self.size - at)

    def step(self):
        kind = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        at, n = self.somewhere() if kind != "flush" else (0, 0)
        while (len(self.flying) >= IN_FLIGHT
               or any(r.overlaps(at, n) for r in self.flying)):
            self.poll()
        self.counts[kind] += 1
        self.send(Request(kind, at, n))

    def send(self, r):
        h = self.rng.choice(self.handles)
        self.flying.append(r)
        if r.kind in ("write", "fua"):
            r.buf = nbd.Buffer.from_bytearray(
                bytearray(self.rng.randbytes(r.n)))
            self.content[r.at:r.at + r.n] = r.buf.to_bytearray()
            h.aio_pwrite(r.buf, r.at, r.done,
                         nbd.CMD_FLAG_FUA if r.kind == "fua" else 0)
        elif r.kind in ("zero", "zero-keep"):
            self.content[r.at:r.at + r.n] = bytes(r.n)
            h.aio_zero(r.n, r.at, r.done,
                       nbd.CMD_FLAG_NO_HOLE if r.kind == "zero-keep" else 0)
        elif r.kind == "trim":
            self.content[r.at:r.at + r.n] = bytes(r.n)
            h.aio_trim(r.n, r.at, r.done)
        elif r.kind == "flush":
            h.aio_flush(r.done)
        else:
            r.buf = nbd.Buffer(r.n)
            h.aio_pread(r.buf, r.at, r.done)

    def poll(self):
        for h in self.handles:
            if h.aio_in_flight() and h.poll(60_000) == 0:
                raise AssertionError(f"no answer for a minute: "
                                     f"{[vars(r) for r in self.flying]}")
        for r in [r for r in self.flying if r.answered]:
            self.flying.remove(r)
            assert r.error == 0, f"{r.kind} of {r.n} at {r.at}: {r.error}"
            if r.kind == "read":
                assert (r.buf.to_bytearray()
                        == self.content[r.at:r.at + r.n]), \
                    f"read of {r.n} at {r.at} returned something else"

    def finish(self):
        self.send(Request("flush", 0, 0))
        while self.flying:
            self.poll()
        # One flush sent after all of them, because a flush promises nothing about requests in
        # flight with it.
        self.handles[0].flush()


@pytest.mark.parametrize("layout,members,options", [
    ("raid-x", 4, {"image_buffer": "1M"}),
    ("raid-x", 5, {}),
    ("raid-10", 4, {"dup": "async-client"}),
    ("raid-10", 4, {"dup": "sync-client"}),
    ("rotated", 4, {}),
    ("raid-1", 3, {}),
], ids=lambda v: "" if isinstance(v, dict) and not v else str(v))
def test_random_ops(cluster, seed, layout, members, options):
    c = cluster(layout=layout, members=members, unit=UNIT, size="9M",
                **options)
    client = Client(c.nbd, 8, random.Random(seed))
    for _ in range(4000):
        client.step()
    client.finish()
    assert min(client.counts.values()) > 10, client.counts

    def content(at, n):
        return bytes(client.content[at:at + n])

    h = client.handles[0]
    for at in range(0, client.size, 1 << 20):
        n = min(1 << 20, client.size - at)
        assert h.pread(n, at) == content(at, n), f"in the MiB at {at}"
    check_copies(c, model_of(c, layout, UNIT), content)
    for h in client.handles:
        h.shutdown()
