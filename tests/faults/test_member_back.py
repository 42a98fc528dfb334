"""A member comes back by itself, while clients write and read.

Topology: one devcluster; a client that writes numbered blocks and, in a second
          array process, a reader that knows what was acknowledged.
Cause: SIGKILL of members, one after the other, each started again when it is
       out; or SIGSTOP, and SIGCONT when it is out.
Pass:  nobody sees an error; no read is older than an acknowledged write; each
       member gets in-sync by itself; then all copies on the members' files are
       as written, and no extent stays dirty though the array is in use.
"""

import random
import resource
import threading
import time
from datetime import datetime

import nbd
import pytest

from arraystate import in_sync, states, wait_clean
from copies import check_copies, model_of
from nbdclient import connected
from nbdkitproc import Nbdkit, array_of
from wefttest import eventually, picked

UNIT = 64 << 10
BLOCK = 4096
ARRAYS = [
    ("raid-x", 4, {}),
    ("raid-10", 4, {"dup": "async-client"}),
    ("raid-10", 4, {"dup": "sync-client"}),
    ("raid-1", 3, {}),
    ("rotated", 4, {}),
]


def block(number):
    return number.to_bytes(8, "little") * (BLOCK // 8)


class Thread(threading.Thread):
    """Repeats self.step(), in bursts, until its end is requested; keeps the first error."""

    def __init__(self, uri, seed):
        super().__init__(daemon=True)
        self.handle = connected(uri)
        self.rng = random.Random(seed)
        self.done, self.error, self.count = False, None, 0

    def run(self):
        try:
            while not self.done:
                self.step()
                self.count += 1
                if self.rng.random() < 0.05:
                    time.sleep(self.rng.random() * 0.1)
        except (nbd.Error, AssertionError) as e:
            self.error = e

    def check(self):
        assert self.error is None, self.error
        return True

    def end(self):
        self.done = True
        self.join(60)
        assert not self.is_alive(), "a request hangs"
        self.check()
        assert self.count > 0


class Writer(Thread):
    """self.acknowledged[b]: the number of the last write of block b."""

    def __init__(self, uri, seed):
        super().__init__(uri, seed)
        self.blocks = self.handle.get_size() // BLOCK
        self.acknowledged = [0] * self.blocks

    def step(self):
        n = self.rng.randrange(1, 33)
        b = self.rng.randrange(self.blocks - n)
        number = self.count + 1
        self.handle.pwrite(block(number) * n, b * BLOCK)
        self.acknowledged[b:b + n] = [number] * n
        if number % 40 == 0:
            self.handle.flush()

    def content(self, offset, length):
        first = offset // BLOCK
        return b"".join(map(block, self.acknowledged[
            first:first + length // BLOCK]))


class Reader(Thread):
    def __init__(self, uri, seed, writer):
        super().__init__(uri, seed)
        self.writer = writer

    def step(self):
        b = self.rng.randrange(self.writer.blocks)
        least = self.writer.acknowledged[b]
        data = self.handle.pread(BLOCK, b * BLOCK)
        for at in 0, BLOCK - 8:
            number = int.from_bytes(data[at:at + 8], "little")
            assert number >= least, \
                f"block {b}: read {number}, acknowledged was {least}"


def check_all(c, writer, model):
    h = connected(c.nbd)
    h.flush()
    for at in range(0, h.get_size(), UNIT):
        assert h.pread(UNIT, at) == writer.content(at, UNIT), f"at {at}"
    check_copies(c, model, writer.content)
    h.shutdown()


@pytest.mark.long(30)
@pytest.mark.parametrize("layout,members,options", picked(ARRAYS, 2),
                         ids=lambda v: str(v))
def test_killed(cluster, seed, layout, members, options):
    c = cluster(layout=layout, members=members, unit=UNIT, size="32M",
                io_timeout=5000, **options)
    model = model_of(c, layout, UNIT)
    with Nbdkit("-r", *array_of(c)) as second:
        writer = Writer(c.nbd, seed)
        threads = [writer, Reader(second.uri, seed, writer),
                   Reader(c.nbd, seed, writer)]
        for t in threads:
            t.start()

        def fine():
            return all(t.check() for t in threads)
        for m in random.Random(seed).sample(range(members), 2):
            c.kill(f"m{m}")
            eventually(lambda: fine() and states(c)[m] == "out")
            c.start(f"m{m}")
            eventually(lambda: fine() and in_sync(c), seconds=60,
                       what=f"m{m} to be in-sync again")
        for t in threads:
            t.end()
            t.handle.shutdown()
    check_all(c, writer, model)


@pytest.mark.long(30)
@pytest.mark.parametrize("layout", picked(["raid-x", "raid-10"]))
def test_stopped(cluster, seed, layout):
    """It wakes up with old requests in its sockets."""
    c = cluster(layout=layout, members=4, unit=UNIT, size="64M",
                io_timeout=1000)
    model = model_of(c, layout, UNIT)
    lost = random.Random(seed).randrange(4)
    writer = Writer(c.nbd, seed)
    writer.start()
    for _ in range(2):
        c.stop(f"m{lost}")
        eventually(lambda: writer.check() and states(c)[lost] == "out")
        c.cont(f"m{lost}")
        eventually(lambda: writer.check() and in_sync(c), seconds=60,
                   what=f"m{lost} to be in-sync again")
    writer.end()
    check_all(c, writer, model)


def test_nobody_asks_meanwhile(cluster):
    """No request between a member's loss and its return: the connections that it has
    then are waited for by requests as well, and it is not lost again."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="32M")
    h = connected(c.nbd)

    def read_all():
        for at in range(0, h.get_size(), UNIT):
            h.pread(UNIT, at)
    read_all()
    c.kill("m1")
    eventually(lambda: states(c)[1] == "out")
    c.start("m1")
    eventually(lambda: in_sync(c), seconds=60, what="m1 to be in-sync again")
    epoch = c.get("/api/v1/arrays/a")["epoch"]
    read_all()
    assert c.get("/api/v1/arrays/a")["epoch"] == epoch
    h.shutdown()


@pytest.mark.long(30)
def test_hangs_while_it_joins(cluster, seed):
    """A member that is joining and hangs is out again; requests do not wait
    for it, and it is taken back when it goes on."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="128M",
                io_timeout=1000)
    model = model_of(c, "raid-x", UNIT)
    lost = random.Random(seed).randrange(4)
    writer = Writer(c.nbd, seed)
    writer.start()
    c.kill(f"m{lost}")
    eventually(lambda: writer.check() and states(c)[lost] == "out")
    c.start(f"m{lost}")
    eventually(lambda: states(c)[lost] != "out", every=0.02)
    c.stop(f"m{lost}")
    eventually(lambda: writer.check() and states(c)[lost] != "joining")
    c.cont(f"m{lost}")
    eventually(lambda: writer.check() and in_sync(c), seconds=90)
    writer.end()
    check_all(c, writer, model)
    # The session of the writer goes on all the time.
    wait_clean(c)


def member(c, number):
    """Its state, and since when, in seconds."""
    m = c.get("/api/v1/arrays/a")["members"][number]
    return m["state"], datetime.fromisoformat(m["since"]).timestamp()


@pytest.mark.long(40)
def test_flapping(cluster, seed):
    """A member that goes out soon after it came back is taken back later each
    time, but at once where an administrator says so."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="32M")
    lost = random.Random(seed).randrange(4)
    writer = Writer(c.nbd, seed)
    writer.start()

    def out():
        c.kill(f"m{lost}")
        eventually(lambda: writer.check() and member(c, lost)[0] == "out")
        return member(c, lost)[1]

    def back():
        """When it was taken back."""
        eventually(lambda: writer.check() and member(c, lost)[0] != "out",
                   every=0.02)
        at = member(c, lost)
        eventually(lambda: writer.check() and in_sync(c), seconds=60)
        return at[1] if at[0] == "joining" else None
    for seconds in 0, 1, 2, 4:
        went = out()
        c.start(f"m{lost}")
        came = back()
        print(f"taken back after {came - went if came else '?'} s")
        # It counts from the decision, which is shown when it is durable.
        assert came is None or came - went >= seconds * 0.7
    out()
    c.start(f"m{lost}")
    status, reply = c.call("POST", f"/api/v1/arrays/a/members/{lost}/join")
    assert status == 200, reply
    back()
    writer.end()
    check_all(c, writer, model_of(c, "raid-x", UNIT))


def test_too_few_descriptors_to_connect(cluster):
    """The array process can open none for the member that is back: it says that,
    and has it back when it may."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="32M")
    limit = resource.prlimit(c.array["pid"], resource.RLIMIT_NOFILE)
    c.kill("m1")
    eventually(lambda: states(c)[1] == "out")
    resource.prlimit(c.array["pid"], resource.RLIMIT_NOFILE, (3, limit[1]))
    c.start("m1")
    eventually(lambda: f"too many open files: process {c.array['pid']} may have "
               "3 (ulimit -n" in c.log("weftd"))
    assert "could not connect" not in c.log("weftd")
    resource.prlimit(c.array["pid"], resource.RLIMIT_NOFILE, limit)
    eventually(lambda: in_sync(c), seconds=60)
