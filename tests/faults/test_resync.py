"""An array process that dies leaves copies that differ; the next attach resynchronizes them
before it serves any client.

Topology: a devcluster whose array process keeps images in its buffer for long.
Cause: kill -9 of the array process after writes that were acknowledged but not
       flushed; or of everything at once; or a clean end.
Pass:  after the next start all copies are alike on the members' files, what
       was read back before is still there, and no extent stays dirty.
"""

import random

import pytest

from arraystate import dirty, wait_clean
from copies import check_copies, model_of
from nbdclient import connected
from wefttest import eventually, picked

UNIT = 64 << 10
# A new array process need not wait for the dead one's silence.
AT_ONCE = {"WEFT_ARRAY_ARGS": "takeover=true"}


def scribble(h, seed, count):
    """Writes all over, none flushed.  Returns {offset: bytes}."""
    rng = random.Random(seed)
    size, written = h.get_size(), {}
    for at in rng.sample(range(0, size - 4096, 4096), count):
        written[at] = rng.randbytes(4096)
        h.pwrite(written[at], at)
    return written


@pytest.mark.parametrize("layout,members,all_at_once", picked([
    ("raid-x", 4, False), ("raid-x", 5, True), ("raid-10", 4, False),
    ("rotated", 3, True)], 2))
def test_array_killed(cluster, seed, layout, members, all_at_once):
    c = cluster(layout=layout, members=members, unit=UNIT, size="64M",
                image_age=10000, env=AT_ONCE,
                **({} if layout == "raid-x" else {"dup": "async-client"}))
    model = model_of(c, layout, UNIT)
    h = connected(c.nbd)
    written = scribble(h, seed, 400)
    c.kill("array")
    eventually(lambda: dirty(c) > 0, what="dirty extents")
    if all_at_once:
        names = [m["name"] for m in c.members]
        c.kill("weftd", *names)
        c.start("weftd", *names)
    c.start("array")
    h = connected(c.nbd)
    for at, data in written.items():
        assert h.pread(4096, at) == data, f"at {at}"
    check_copies(c, model, lambda at, n: h.pread(n, at))
    wait_clean(c)


def test_clean_end(cluster, seed):
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="64M",
                image_age=10000)
    h = connected(c.nbd)
    written = scribble(h, seed, 200)
    h.shutdown()
    c.down()
    c.up()
    wait_clean(c)
    assert "may have copies that differ" not in c.log("array")
    h = connected(c.nbd)
    for at, data in written.items():
        assert h.pread(4096, at) == data, f"at {at}"


def test_all_end_at_the_same_time(cluster):
    """A host that goes down takes members and array at once: no member is
    recorded as out for that."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="64M")
    h = connected(c.nbd)
    h.pwrite(b"x" * UNIT, 0)
    h.flush()
    h.shutdown()
    names = [m["name"] for m in c.members] + ["array"]
    c.terminate(*names)
    c.start(*(m["name"] for m in c.members))
    c.start("array")
    assert c.get("/api/v1/arrays/a")["state"] == "ready"
    h = connected(c.nbd)
    assert h.pread(UNIT, 0) == b"x" * UNIT
