"""Volumes of a pool as a user has them, on a real cluster: created, attached as devices,
grown, detached, deleted.

Topology: one devcluster whose array is a pool, with or without its array process.
Pass:  each device holds its volume's data, also after it was attached again; the process that
       attach started ends with the last volume; a refusal is one line that names the thing
       and the way out, and changes nothing.
"""

import contextlib
import os
import random
import re

from nbdclient import connected
from weftctlproc import FAILED, OK, REFUSED, USAGE, ctl
from wefttest import Process, eventually, run

MIB = 1 << 20


def written(device, seed, size=3 * MIB):
    data = random.Random(seed).randbytes(size)
    fd = os.open(device, os.O_RDWR)
    try:
        os.pwrite(fd, data, 5 * MIB)
        os.fsync(fd)
    finally:
        os.close(fd)
    return data


def read(device, size=3 * MIB):
    fd = os.open(device, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.pread(fd, size, 5 * MIB)
    finally:
        os.close(fd)


@contextlib.contextmanager
def client(uri):
    h = connected(uri)
    try:
        yield h
    finally:
        h.shutdown()


def device_of(w, name, *more):
    device = w("attach", name, "--fuse", *more).strip()
    assert re.fullmatch(r"/dev/loop\d+", device)
    return device


def volume(w, name):
    return w.json("volume", "show", name)


def test_devices_of_two_volumes(cluster, ctl):
    """No array process: the first attach starts one for both, and the last detach ends it."""
    c = cluster(members=4, size="64M", pool=True)
    w = ctl(c)
    c.terminate("array")
    w("volume", "create", "a/one", "40M")
    w("volume", "create", "a/two", "30M")
    one, two = device_of(w, "a/one"), device_of(w, "a/two")
    assert one != two
    assert device_of(w, "a/one") == one
    assert [int(run("blockdev", "--getsize64", d).stdout) for d in (one, two)] == \
        [40 * MIB, 30 * MIB]
    [session] = w.json("session", "ls")["sessions"]
    process = Process(session["pid"])
    first, second = written(one, 1), written(two, 2)
    assert (read(one), read(two)) == (first, second)
    eventually(lambda: volume(w, "a/one")["mapped_bytes"] >= 3 * MIB)
    assert volume(w, "a/one")["clients"] > 0
    assert "connected" in w("volume", "rm", "a/one", "--yes", status=REFUSED)
    assert "weftctl detach a/NAME first" in w("detach", "a", status=FAILED)

    w("detach", "a/one")
    assert process.alive()
    assert read(two) == second
    w("detach", "a/two")
    eventually(lambda: not process.alive())
    assert "nothing to detach" in w("detach", "a/two", status=FAILED)

    # The next process finds the data.
    one = device_of(w, "a/one")
    assert read(one) == first
    w("detach", "a/one")


def test_life_with_an_array_process(cluster, ctl):
    """The array process runs already: it is used, and stays."""
    c = cluster(members=4, size="64M", pool=True)
    w = ctl(c)
    w("volume", "create", "a/v", "8M")
    uri = w("attach", "a/v", "--print-uri").strip()
    assert "/v" in uri
    with client(uri) as h:
        assert h.get_size() == 8 * MIB
        h.pwrite(b"x" * MIB, MIB)
        h.flush()
    eventually(lambda: volume(w, "a/v")["state"] == "ready"
               and volume(w, "a/v")["clients"] == 0)
    assert w("volume", "resize", "a/v", "20M") == "volume a/v: has 20M now\n"
    with client(uri) as h:
        assert h.get_size() == 20 * MIB
        assert h.pread(MIB, MIB) == b"x" * MIB
        assert h.pread(MIB, 15 * MIB) == bytes(MIB)
    for size, said in (("10M", "cannot shrink"), ("64T", "never be filled")):
        assert said in w("volume", "resize", "a/v", size, status=REFUSED)
    free = w.json("array", "show", "a")["pool"]["free_bytes"]
    eventually(lambda: volume(w, "a/v")["clients"] == 0)
    assert w("volume", "rm", "a/v", "--yes") == "volume a/v: deleted\n"
    pool = w.json("array", "show", "a")["pool"]
    assert pool["free_bytes"] == pool["total_bytes"] > free
    assert len(w.json("session", "ls")["sessions"]) == 1


def test_deleted_without_a_process(cluster, ctl):
    c = cluster(members=4, size="64M", pool=True)
    w = ctl(c)
    w("volume", "create", "a/v", "8M")
    with client(w("attach", "a/v", "--print-uri").strip()) as h:
        h.pwrite(b"x" * MIB, 0)
        h.flush()
    c.terminate("array")
    eventually(lambda: not w.json("session", "ls")["sessions"])
    assert "weftctl attach a/v" in w("volume", "resize", "a/v", "9M",
                                     status=REFUSED)
    assert "is being deleted" in w("volume", "rm", "a/v", "--yes")
    assert volume(w, "a/v")["state"] == "deleting"
    w("volume", "create", "a/w", "8M")
    device_of(w, "a/w")
    eventually(lambda: [v["name"] for v in
                        w.json("volume", "ls", "a")["volumes"]] == ["w"])
    w("detach", "a/w")


def test_refused(cluster, ctl):
    c = cluster(members=4, size="64M", pool=True)
    w = ctl(c)
    w("volume", "create", "a/v", "8M")
    for words, status, said in (
            (("attach", "a"), REFUSED, "attach a volume of it, such as a/NAME"),
            (("attach", "a", "--read-only"), REFUSED, "attach a volume of it"),
            (("attach", "a/w"), REFUSED, "no volume w"),
            (("attach", "b/v"), REFUSED, "no array b"),
            (("attach", "a/v@s"), USAGE, "no snapshots"),
            (("attach", "a/V"), USAGE, "not the name of a volume"),
            (("attach", "a/v", "--shared"), USAGE, "--shared"),
            (("attach", "a/v", "--part", "0+"), USAGE, "--part"),
            (("detach", "a/v"), FAILED, "nothing to detach")):
        assert said in w(*words, status=status), words
    assert [s["mode"] for s in w.json("session", "ls")["sessions"]] == ["rw"]
