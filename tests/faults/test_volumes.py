"""The volumes of a pool, by real processes, through kills, power cuts and a full pool.

Topology: one devcluster whose array is a pool, with two volumes; clients by libnbd.
Cause: the array process is killed; all processes lose their power, over volatile disks; the
       pool is full; a volume grows, is deleted, is made again.
Pass:  after the next start each volume has all blocks that were flushed; in a full pool, after
       full-wait, writes that need space fail and all other requests succeed; trimmed space
       can be used again; a refusal says the reason, and changes nothing.
"""

import errno
import json
import random
import time

import nbd
import pytest

from blockwriter import BLOCKS, Writer
from copies import check_copies, model_of
from nbdclient import connected
from powercut import power_cut, volatile
from wefttest import Stopwatch, eventually, run

UNIT = 64 << 10
MIB = 1 << 20
VOLUMES = ("one", "two")


def args(*more):
    # A new array process need not wait for the dead one's silence.
    return {"WEFT_ARRAY_ARGS": " ".join(("takeover=true",) + more)}


def volume(c, name, size):
    c.call("POST", "/api/v1/arrays/a/volumes", {"name": name, "size": size})
    assert name in volumes(c)


def volumes(c):
    return {v["name"]: v for v in c.get("/api/v1/arrays/a/volumes")["volumes"]}


def uri(c, name):
    return f"{c.nbd}/{name}"


def spread(rng):
    """Places in many segments, so that the log has something to say."""
    return [4096 * b for b in rng.sample(range(40 * MIB // 4096), BLOCKS)]


def pool(cluster, env, size="64M"):
    c = cluster(pool=True, unit=UNIT, size=size, env=env)
    for name in VOLUMES:
        volume(c, name, 64 * MIB)
    return c


def writers(c, rng, after=None):
    new = [Writer(uri(c, name), rng, after=after and after[i],
                  places=after[i].places if after else spread(rng))
           for i, name in enumerate(VOLUMES)]
    for w in new:
        w.start()
    return new


def checked(c, all_of_them):
    for w, name in zip(all_of_them, VOLUMES):
        w.check(uri(c, name))


@pytest.mark.long(30)
def test_process_is_killed(cluster, seed):
    rng = random.Random(seed)
    c = pool(cluster, args())
    both = writers(c, rng)
    for _ in range(4):
        for w in both:
            w.until_flushed(rng.randrange(2, 20))
        c.kill("array")
        for w in both:
            w.broken()
        c.start("array")
        checked(c, both)
        both = writers(c, rng, after=both)
    for w in both:
        w.end()
    c.terminate("array")
    c.start("array")
    checked(c, both)


@pytest.mark.long(30)
def test_power_of_all(cluster, seed):
    rng = random.Random(seed)
    c = pool(cluster, volatile(args()))
    names = ["array", "weftd"] + [m["name"] for m in c.members]
    both, lost = writers(c, rng), 0
    for cut in range(12):
        if cut >= 3 and lost > 0:
            break
        for w in both:
            w.until_flushed(rng.randrange(2, 20))
        time.sleep(0.02)
        rng.shuffle(names)
        c.kill(*names)
        for w in both:
            w.broken()
        lost += sum(power_cut(m["file"], rng)[1] for m in c.members)
        c.up()
        checked(c, both)
        check_copies(c, model_of(c, "raid-x", UNIT))
        both = writers(c, rng, after=both)
    for w in both:
        w.end()
    assert lost > 0


def fill(h, size):
    """Writes whole MiB until it fails: how many were written, and the error."""
    data = random.randbytes(MIB)
    for at in range(0, size, MIB):
        try:
            h.pwrite(data, at)
        except nbd.Error as e:
            return at // MIB, e.errno
    return size // MIB, None


def test_full(cluster, seed):
    rng = random.Random(seed)
    c = pool(cluster, args("full-wait=1500"), size="128M")
    volume(c, "large", 240 * MIB)
    one = Writer(uri(c, "one"), rng, places=spread(rng))
    one.start()
    one.until_flushed(5)
    one.end()
    large = connected(uri(c, "large"))
    since, watch = time.monotonic(), Stopwatch()
    written, error = fill(large, 240 * MIB)
    assert error == "ENOSPC" and 130 < written < 240
    assert watch.seconds(since) >= 1.4
    # Reads, writes in place, FLUSH, trim and the other volume go on.
    large.pwrite(b"x" * 4096, 0)
    large.flush()
    assert large.pread(4096, 0) == b"x" * 4096
    h = connected(uri(c, "one"))
    h.pwrite(b"y" * 4096, one.places[0])
    h.flush()
    assert h.pread(4096, one.places[0]) == b"y" * 4096
    # A write that waits goes on when there is space.
    waits = large.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"z" * 4096)), 239 * MIB)
    large2 = connected(uri(c, "large"))
    large2.trim(20 * MIB, 0)
    large2.flush()
    eventually(lambda: large.poll(10) is not None and large.aio_command_completed(waits),
               what="the write to go on")
    assert large.pread(4096, 239 * MIB) == b"z" * 4096
    assert large2.pread(MIB, MIB) == bytes(MIB)
    # Space that was trimmed comes back to the other volume.
    large2.trim(100 * MIB, 20 * MIB)
    large2.flush()
    two = connected(uri(c, "two"))
    again = []

    def fits():
        again.append(fill(two, 40 * MIB))
        return again[-1] == (40, None)
    eventually(fits, 60, what="the space to come back")
    two.flush()


def extents(h, size):
    found = []
    h.block_status(size, 0, lambda context, offset, e, error: found.extend(e))
    return list(zip(found[::2], found[1::2]))


def test_thin(cluster):
    """Trim returns space, a hole is shown as one, and nothing of another volume."""
    c = pool(cluster, args())
    h = nbd.NBD()
    h.add_meta_context("base:allocation")
    h.connect_uri(uri(c, "one"))
    assert h.get_size() == 64 * MIB
    assert extents(h, 64 * MIB) == [(64 * MIB, 3)]
    h.pwrite(b"a" * 8 * MIB, 4 * MIB)
    h.flush()
    assert extents(h, 64 * MIB) == [(4 * MIB, 3), (8 * MIB, 0), (52 * MIB, 3)]

    def mapped(name):
        return volumes(c)[name]["mapped_bytes"]
    eventually(lambda: mapped("one") == 8 * MIB)
    h.trim(6 * MIB, 4 * MIB)
    h.flush()
    assert h.pread(6 * MIB, 4 * MIB) == bytes(6 * MIB)
    eventually(lambda: mapped("one") == 2 * MIB)
    # The segments are used again, and what stood there is not seen.
    other = connected(uri(c, "two"))
    other.pwrite(b"b" * 4096, 30 * MIB)
    assert other.pread(MIB, 30 * MIB) == b"b" * 4096 + bytes(MIB - 4096)


def refused(c, method, path, body=None):
    return c.call(method, path, body, check=False)


def test_grow_and_delete(cluster):
    c = pool(cluster, args())
    h = connected(uri(c, "one"))
    h.pwrite(b"a" * 4096, 0)
    h.flush()
    c.call("PATCH", "/api/v1/arrays/a/volumes/one", {"size": 96 * MIB})
    bigger = connected(uri(c, "one"))
    assert bigger.get_size() == 96 * MIB
    bigger.pwrite(b"b" * 4096, 95 * MIB)
    bigger.flush()
    c.restart("array")
    bigger = connected(uri(c, "one"))
    assert bigger.get_size() == 96 * MIB
    assert bigger.pread(4096, 0) == b"a" * 4096
    assert bigger.pread(4096, 95 * MIB) == b"b" * 4096
    bigger.shutdown()
    eventually(lambda: volumes(c)["one"]["clients"] == 0)
    c.call("DELETE", "/api/v1/arrays/a/volumes/one")
    eventually(lambda: "one" not in volumes(c))
    with pytest.raises(nbd.Error) as e:
        connected(uri(c, "one"))
    assert "one" in str(e.value)
    # Another one of this name is empty.
    volume(c, "one", 32 * MIB)
    h = connected(uri(c, "one"))
    assert h.get_size() == 32 * MIB and h.pread(MIB, 0) == bytes(MIB)


def test_names(cluster):
    c = pool(cluster, args())
    listed = json.loads(run("nbdinfo", "--list", "--json", c.nbd).stdout)["exports"]
    assert {e["export-name"] for e in listed} == set(VOLUMES)
    for name in ("", "a", "nope", "one/two", "one@monday"):
        with pytest.raises(nbd.Error):
            connected(uri(c, name))
    log = c.log("array")
    assert "array a is a pool" in log and "weftctl volume ls a" in log
    # Volumes that are open stay so while weftd is down; others cannot be opened.
    volume(c, "three", 8 * MIB)
    h = connected(uri(c, "one"))
    c.kill("weftd")
    again = connected(uri(c, "one"))
    again.pwrite(b"a" * 4096, 0)
    again.flush()
    assert h.pread(4096, 0) == b"a" * 4096
    with pytest.raises(nbd.Error):
        connected(uri(c, "three"))
    c.start("weftd")
    assert connected(uri(c, "three")).get_size() == 8 * MIB
