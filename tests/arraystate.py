"""What weftd says of the array of a devcluster, for tests that break it."""

import contextlib

import nbd

from blockwriter import Writer
from wefttest import eventually


def members(c):
    return c.get("/api/v1/arrays/a")["members"]


def states(c):
    return [m["state"] for m in members(c)]


def wait_state(c, number, state, seconds=30):
    """Returns what is said of the member then."""
    return eventually(lambda: members(c)[number]["state"] == state
                      and members(c)[number], seconds, every=0.02,
                      what=f"member {number} {state}")


def wait_in_sync(c, seconds=60):
    eventually(lambda: set(states(c)) == {"in-sync"}, seconds, every=0.05,
               what="all members in-sync")


def wait_failed(c, number, why):
    """The member is out, and its process says why."""
    disk = wait_state(c, number, "out")["disk"]
    eventually(lambda: why in (c.get(f"/api/v1/disks/{disk}")["reason"] or ""),
               what=f"the disk of member {number} to say: {why}")


@contextlib.contextmanager
def writing(c, rng, after=None):
    """A Writer that goes on after another, and sees no error; in the end all
    it wrote is flushed and as it should be."""
    w = Writer(c.nbd, rng)
    if after:
        w.number, w.flushed, w.issued = \
            after.number, after.flushed, after.issued
    w.start()
    try:
        yield w
    finally:
        w.done = True
        w.join(60)
    assert not w.is_alive(), "the writer hangs"
    assert w.error is None, w.error
    w.handle.flush()
    w.flushed = list(w.issued)
    w.handle.shutdown()
    w.check(c.nbd)


def content(uri):
    """What check_copies compares with: reads of the array."""
    h = nbd.NBD()
    h.connect_uri(uri)
    return lambda at, n: h.pread(n, at)
