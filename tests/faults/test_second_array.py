"""Two array processes for one array.

Topology: one raid-x devcluster of four members, and a second array process.
Cause: The second process starts while the first one lives; or after the first one was killed,
       perhaps with a member, while a third one reads; or while the first one is stopped, which
       then goes on as if nothing had happened.  A reader is stopped, and a member is lost
       meanwhile.
Pass:  while the first one lives the second is refused with its name; a dead
       or silent one is replaced, and fenced: its clients get ESHUTDOWN, and
       nothing that it still had to write reaches a member.  A reader waits no longer
       than the TTL of the dead one.
"""

import errno
import os
import signal
import time

import nbd
import pytest

from arraystate import Pending, wait_in_sync, wait_state
from copies import check_copies, model_of
from nbdclient import connected, refuses
from nbdkitproc import Nbdkit, NotStarted, array_of, refused
from wefttest import Process, Stopwatch, eventually, run

UNIT = 64 << 10


@pytest.fixture
def array(cluster):
    # Images stay in the buffer for long, so that a fenced process has some.
    return cluster(layout="raid-x", members=4, unit=UNIT, size="64M",
                   image_age=10000, io_timeout=60000)


def take_over(c):
    """A second array process, as soon as weftd lets it."""
    end = time.monotonic() + 60
    while True:
        try:
            return Nbdkit(*array_of(c))
        except NotStarted as e:
            assert time.monotonic() < end, e.said
            e.line()  # also now: one clear line
            time.sleep(0.5)


def test_the_second_is_refused_with_the_firsts_name(array):
    line = refused(*array_of(array))
    assert "n0" in line and str(array.array["pid"]) in line, line
    h = connected(array.nbd)
    h.pwrite(b"still mine", 0)
    h.flush()


def test_readers_are_welcome(array):
    h = connected(array.nbd)
    h.pwrite(b"shared" * 1000, 123)
    h.flush()
    with Nbdkit("-r", *array_of(array)) as second:
        r = connected(second.uri)
        assert r.is_read_only()
        assert r.pread(6000, 123) == b"shared" * 1000
    # The writer was not disturbed.
    h.pwrite(b"x", 0, nbd.CMD_FLAG_FUA)


def test_a_reader_that_was_silent_reads_nothing_old(array):
    """A member is lost meanwhile, and its image's member hangs: that the loss is
    recorded waits for neither; the reader waits until the image is written."""
    model = model_of(array, "raid-x", UNIT)
    h = connected(array.nbd)
    h.pwrite(b"old" * 1000, 0)
    h.flush()
    (lost, _), (image, _) = model.copies(0)
    with Nbdkit("-r", *array_of(array)) as second:
        r = Pending(second.uri)
        assert r.read(3000, 0).result() == b"old" * 1000
        second.signal(signal.SIGSTOP)
        eventually(lambda: not [s for s in array.get("/api/v1/sessions")[
            "sessions"] if s["node"] == "n9"][0]["alive"],
                   what="weftd to miss the reader")
        array.stop(f"m{image}")
        h.pwrite(b"new" * 1000, 0)
        array.kill(f"m{lost}")
        wait_state(array, lost, "out", seconds=8)
        second.signal(signal.SIGCONT)
        r.read(3000, 0).waits(3)
        array.cont(f"m{image}")
        assert r.result() == b"new" * 1000


def test_after_a_clean_end_the_next_starts_at_once(array):
    array.devcluster("down", array.dir)
    array.up()
    h = connected(array.nbd)
    h.pwrite(b"x", 0, nbd.CMD_FLAG_FUA)


TTL_S = 10  # SESSION_TTL_MS


@pytest.mark.long(20)
def test_a_killed_one_is_replaced(array):
    """A member dies with it, and others have copies: a reader is answered when the dead
    one has been silent for its TTL, and need not wait until somebody writes again."""
    model = model_of(array, "raid-x", UNIT)
    h = connected(array.nbd)
    h.pwrite(b"flushed" * 9000, 0)
    h.flush()
    (data, _), _ = model.copies(0)
    with Nbdkit("-r", *array_of(array)) as third:
        r = Pending(third.uri)
        assert r.read(63000, 0).result() == b"flushed" * 9000
        array.kill("array", f"m{data}")
        watch = Stopwatch(disk=True)
        r.read(63000, 0).waits(2)
        assert r.result() == b"flushed" * 9000
        assert watch.seconds() < TTL_S + 6
        wait_state(array, data, "out")
    assert "Attach the array for" in array.get("/api/v1/status")["verdict"]
    array.start(f"m{data}")
    with take_over(array) as second:
        r = connected(second.uri)
        assert r.pread(63000, 0) == b"flushed" * 9000
        r.pwrite(b"new" * 9000, 0)
        r.flush()
        wait_in_sync(array)
        r.flush()
        check_copies(array, model, lambda at, n: r.pread(n, at))


def waits_for(watch):
    """Until the one that was there is silent; since it was heard last, as near as we
    know."""
    return time.monotonic() - watch.begin > TTL_S / 2


@pytest.mark.long(20)
def test_its_host_knows_that_it_was_killed(array):
    h = connected(array.nbd)
    h.pwrite(b"flushed" * 9000, 0)
    h.flush()
    array.kill("array")
    watch = Stopwatch(disk=True)
    with Nbdkit(*array_of(array, "n0")) as second:
        assert watch.seconds() < TTL_S / 2
        r = connected(second.uri)
        assert r.pread(63000, 0) == b"flushed" * 9000
        check_copies(array, model_of(array, "raid-x", UNIT),
                     lambda at, n: r.pread(n, at))
        watch = Stopwatch()
        second.kill()
    # Another host can't know, though it is the same one here.
    with Nbdkit(*array_of(array, "n1")):
        assert waits_for(watch)


@pytest.mark.long(20)
@pytest.mark.parametrize("wrap", [
    [], ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]],
    ids=["its host", "a container"])
def test_its_host_knows_that_it_lives(array, wrap):
    """In a PID namespace of its own, where nobody has that number, it can't
    tell."""
    watch = Stopwatch()
    array.stop("array")
    with Nbdkit(*array_of(array, "n0"), wrap=wrap):
        assert waits_for(watch)
        array.cont("array")
        eventually(lambda: "n0" in array.log("array"))
    array.may_end("array")


@pytest.mark.long(20)
def test_in_the_background_it_is_another_process(array, tmp_path):
    """nbdkit attaches, and then goes into the background."""
    array.terminate("array")
    pid = tmp_path / "pid"
    run("nbdkit", "-P", pid, "-U", tmp_path / "s", *array_of(array, "n0"))
    # It is written when the process that we have waited for is gone.
    eventually(lambda: pid.exists() and pid.read_text().endswith("\n"))
    process = Process(int(pid.read_text()))
    try:
        line = refused(*array_of(array, "n0"))
        assert "n0" in line
        # Silent, but alive.
        watch = Stopwatch()
        process.stop()
        with Nbdkit(*array_of(array, "n0")):
            assert waits_for(watch)
            os.kill(process.pid, signal.SIGCONT)
    finally:
        process.kill()


class Writes:
    """Writes in flight on one connection."""

    def __init__(self, h):
        self.h = h
        self.buffers = []  # libnbd copies nothing
        self.errors = []   # of each answer, in the order of their coming

    def start(self, byte, n, at):
        buf = nbd.Buffer.from_bytearray(bytearray(byte) * n)
        self.buffers.append(buf)

        def done(error):
            self.errors.append(getattr(error, "value", error))
            return 1

        self.h.aio_pwrite(buf, at, done)

    def wait(self, count):
        while len(self.errors) < count:
            assert self.h.poll(30_000) > 0, \
                f"{len(self.errors)} answers of {count}, then none for 30 s"


def is_fenced(h):
    for call in (lambda: h.pwrite(b"E" * 4096, 0), lambda: h.pread(4096, 0),
                 h.flush):
        with refuses("ESHUTDOWN"):
            call()


@pytest.mark.long(30)
def test_a_stopped_one_is_fenced(array):
    model = model_of(array, "raid-x", UNIT)
    units, many = 24, 600
    old = connected(array.nbd)
    idle = connected(array.nbd)
    old.pwrite(b"A" * UNIT * units, 0)
    old.flush()
    # Stopped in the middle: writes half done, images in the buffer, and
    # requests in the socket that it has not read.
    writes = Writes(old)
    for i in range(many):
        writes.start(b"B", 4096, i * 7 % units * UNIT + i % 16 * 4096)
    writes.wait(many // 6)
    array.stop("array")
    late = Writes(idle)
    late.start(b"C", UNIT, 0)

    with take_over(array) as second:
        new = connected(second.uri)
        new.pwrite(b"D" * UNIT * units, 0)
        new.flush()
        array.cont("array")

        late.wait(1)
        assert late.errors == [errno.ESHUTDOWN]
        # Writes that the members had carried out before the fence may be acknowledged.
        writes.wait(many)
        assert set(writes.errors) <= {0, errno.ESHUTDOWN}
        is_fenced(idle)
        # As long as its images would have taken to be sent by age.
        time.sleep(11)
        assert new.pread(UNIT * units, 0) == b"D" * UNIT * units
        check_copies(array, model, lambda at, n: new.pread(n, at))
    eventually(lambda: "n9" in array.log("array"),
               what="the fenced process to say who replaced it")
    array.may_end("array")


@pytest.mark.long(30)
def test_a_stopped_one_answers_only_what_is_there(array):
    """Members had carried out what it asked for when it was stopped, and what they
    answered is in its sockets when it goes on: so it answers its clients, if it has
    not heard yet that it was taken over.  weftd is stopped for that moment."""
    units, mine = 12, b"B" * 4096
    old = connected(array.nbd)
    idle = connected(array.nbd)
    old.pwrite(b"A" * UNIT * units, 0)
    old.flush()
    # It waits for all members, and then no more for anything.
    for m in range(4):
        array.stop(f"m{m}")
    writes = Writes(old)
    for i in range(units):
        writes.start(b"B", 4096, i * UNIT)
    while old.poll(200) > 0:
        pass
    assert writes.errors == []
    array.stop("array")
    for m in range(4):
        array.cont(f"m{m}")
    # weftd answers the heartbeat that it was holding for that process.
    time.sleep(2)
    with Nbdkit(*array_of(array), "takeover=true") as second:
        new = connected(second.uri)
        there = [new.pread(4096, i * UNIT) for i in range(units)]
        array.stop("weftd")
        array.cont("array")
        # It may hear of the fence, by a round that a member refuses, before it has
        # read all answers: then it waits for weftd with the rest.
        writes.wait(1)
        while old.poll(5_000) > 0 and len(writes.errors) < units:
            pass
        assert writes.errors and set(writes.errors) == {0}
        assert there == [mine] * units
        array.cont("weftd")
        writes.wait(units)
        assert set(writes.errors) <= {0, errno.ESHUTDOWN}
        is_fenced(idle)
        assert [new.pread(4096, i * UNIT) for i in range(units)] == there
        check_copies(array, model_of(array, "raid-x", UNIT),
                     lambda at, n: new.pread(n, at))
    array.may_end("array")
