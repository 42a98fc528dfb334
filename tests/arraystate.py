"""weftd's view of a devcluster's array, for tests that break it."""

import contextlib
import time

import nbd

from blockwriter import Writer
from copies import files_of
from memberhost import dirty_on_disk
from nbdclient import connected
from wefttest import eventually


def members(c):
    return c.get("/api/v1/arrays/a")["members"]


def states(c):
    return [m["state"] for m in members(c)]


def wait_state(c, number, state, seconds=30):
    """Returns the member's status then."""
    return eventually(lambda: members(c)[number]["state"] == state
                      and members(c)[number], seconds, every=0.02,
                      what=f"member {number} {state}")


# The verdict's words on an array whose members are all in sync, one of which is about to go
# out.
JOINS_ANEW = "The member joins again, which resynchronizes them"


def in_sync(c):
    """The members of `a` when all are in sync and stay so; else None.  A member that came back
    without its unflushed data is in sync.  It is put out as soon as the array can do without
    it, and joins again: until then its copies may differ."""
    status = c.get("/api/v1/status")
    mine = next(a for a in status["arrays"] if a["name"] == "a")["members"]
    verdict = status["verdict"]
    if {m["state"] for m in mine} == {"in-sync"} and JOINS_ANEW not in verdict \
            and "Array a changes: " not in verdict:
        return mine
    return None


def wait_in_sync(c, seconds=60):
    eventually(lambda: in_sync(c), seconds, every=0.05,
               what="all members in-sync for good")


@contextlib.contextmanager
def away(c, *numbers):
    """Kills these members; afterwards starts them, and waits until they are in-sync again.
    Being in-sync still is not enough: the report of a loss may take a moment."""
    names = [f"m{m}" for m in numbers]
    before = members(c)
    c.kill(*names)
    yield
    c.start(*names)

    def back():
        now = in_sync(c)
        return now and all(now[m]["since"] != before[m]["since"] for m in numbers)
    eventually(back, 60, every=0.05, what=f"{names} to have been out")


def dirty(c):
    """Extents that may differ between their copies."""
    return sum(d["dirty_extents"] for d in c.get("/api/v1/disks")["disks"])


def wait_clean(c):
    """Also on the disks: weftd hears of a bit some time after it is set."""
    eventually(lambda: dirty(c) == 0 and not any(
        dirty_on_disk(file) for file, _ in files_of(c)),
        60, what="no dirty extent")


def wait_for_writes(c):
    """Until weftd shows that the array is written (bytes a second)."""
    def busy():
        session = c.get("/api/v1/arrays/a")["session"]
        return session and session["load"]["write_bytes"] > 1 << 20
    eventually(busy, 60, what="fio to write")


def wait_failed(c, number, why):
    """The member is out, and its process says why."""
    disk = wait_state(c, number, "out")["disk"]
    eventually(lambda: why in (c.get(f"/api/v1/disks/{disk}")["reason"] or ""),
               what=f"the disk of member {number} to say: {why}")


@contextlib.contextmanager
def writing(c, rng, after=None):
    """A Writer that sees no error; in the end all it wrote is flushed and as
    it should be."""
    w = Writer(c.nbd, rng, after)
    w.start()
    try:
        yield w
    except BaseException:
        w.done = True
        raise
    w.end()
    w.check(c.nbd)


class Pending:
    """A request of its own connection that may have to wait."""

    def __init__(self, uri):
        self.handle = connected(uri)

    def read(self, n, at):
        self.buffer = nbd.Buffer(n)
        self.cookie = self.handle.aio_pread(self.buffer, at)
        return self

    def write(self, data, at):
        self.buffer = nbd.Buffer.from_bytearray(bytearray(data))
        self.cookie = self.handle.aio_pwrite(self.buffer, at)
        return self

    def waits(self, seconds, meanwhile=lambda: None):
        """Fails when it is answered before this has passed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.handle.poll(100)
            assert self.handle.aio_in_flight() == 1, "answered already"
            meanwhile()

    def result(self, seconds=60):
        """The data that was read; an error raises."""
        end = time.monotonic() + seconds
        while self.handle.aio_in_flight():
            assert time.monotonic() < end, f"no answer for {seconds} s"
            self.handle.poll(100)
        assert self.handle.aio_command_completed(self.cookie)
        return bytes(self.buffer.to_bytearray())


def content(uri):
    """Reads of the array, for check_copies to compare with."""
    h = connected(uri)
    return lambda at, n: h.pread(n, at)


def settle(uri):
    """A client was killed: have what it had asked for done (a read waits for
    the writes that it overlaps), and then flushed."""
    h = connected(uri)
    size = h.get_size()
    for at in range(0, size, 8 << 20):
        h.pread(min(8 << 20, size - at), at)
    h.flush()
