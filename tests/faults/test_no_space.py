"""The file system below members' sparse files is full.

Topology: one raid-x devcluster of four members; the file of one, or of all, lies on a
          small tmpfs.  A client that knows what each FLUSH has promised writes all
          along.
Cause: ENOSPC, because the array has more data than there is room; then there
       is room again.
Pass:  the client sees no error, and nothing is started again.  Where one member is full
       it is out, with its process well, and stays so until there is room.  Where all
       are, writes wait, reads go on, and the verdict says what is waited for.  Before
       that it says that there is little room.  Then all goes on by itself within
       seconds; no flushed block is lost and all copies are alike.
"""

import errno
import os
import pathlib
import random

import pytest

from arraystate import Pending, content, wait_in_sync, wait_state, writing
from copies import check_copies, model_of
from fiojob import fio
from nbdclient import connected
from wefttest import eventually, run

UNIT = 64 << 10
MIB = 1 << 20


@pytest.fixture
def small(tmp_path):
    """A tmpfs that holds a header and very little data."""
    path = tmp_path / "small"
    path.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=6M", "tmpfs", path)
    yield path
    run("umount", "-l", path)


def resize(directory, size):
    run("mount", "-o", f"remount,size={size}", directory)


def move(c, number, directory):
    """Sparse as it was; a link stays behind."""
    file = pathlib.Path(c.members[number]["file"])
    c.kill(f"m{number}")
    run("cp", "--sparse=always", file, directory)
    os.unlink(file)
    file.symlink_to(directory / file.name)
    c.start(f"m{number}")


def verdict(c):
    return c.get("/api/v1/status")["verdict"]


def rebuilds(c):
    """How often a member was taken back: that may last for a moment only."""
    return c.log("weftd").count(" is being rebuilt.")


def test_one_is_full_and_has_room_again(cluster, small, seed):
    rng = random.Random(seed)
    bad = rng.randrange(4)
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="48M")
    move(c, bad, small)
    wait_in_sync(c)
    before = rebuilds(c)
    with writing(c, rng) as w:
        fio(c.nbd, size="40M", offset="4M", bs="64k", rw="write",
            seed=seed % 2 ** 31)
        wait_state(c, bad, "out")
        eventually(lambda: "has no room, and is out" in verdict(c))
        disk = c.get("/api/v1/arrays/a")["members"][bad]["disk"]
        d = c.get(f"/api/v1/disks/{disk}")
        assert d["state"] == "serving", d
        assert d["short"] == os.strerror(errno.ENOSPC), d
        assert w.error is None and w.is_alive()
        assert rebuilds(c) == before  # in vain

        resize(small, "64M")
        wait_in_sync(c)
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))


def test_all_are_full_and_have_room_again(cluster, small, seed):
    rng = random.Random(seed)
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="24M")
    resize(small, "40M")
    for m in range(4):
        move(c, m, small)
        wait_in_sync(c)
    h = connected(c.nbd)
    done = {}

    def write(at):
        done[at] = rng.randbytes(MIB)
        return Pending(c.nbd).write(done[at], at)

    for at in range(0, 14 * MIB, MIB):
        h.pwrite(done.setdefault(at, rng.randbytes(MIB)), at)
    h.flush()
    fs = os.statvfs(small)
    resize(small, (fs.f_blocks - fs.f_bfree) * fs.f_frsize + 2 * MIB)
    eventually(lambda: "has little room" in verdict(c))
    waiting = [write(at) for at in range(14 * MIB, 22 * MIB, MIB)]
    eventually(lambda: "has refused what is written" in verdict(c))
    assert os.strerror(errno.ENOSPC) in verdict(c)
    for at in range(0, 14 * MIB, MIB):
        assert h.pread(MIB, at) == done[at]
    h.pread(22 * MIB - UNIT, 0)  # beside what waits, too
    resize(small, "128M")
    for w in waiting:
        w.result()
    h.flush()
    wait_in_sync(c)
    eventually(lambda: "All is well" in verdict(c))
    for at, data in done.items():
        assert h.pread(MIB, at) == data
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))


def test_single_requests_are_refused(cluster, tmp_path, seed):
    """By something in front of every member, which is well."""
    trigger = tmp_path / "refuses"
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="24M", env={
        "WEFT_MEMBER_ARGS": "--filter=error error=ENOSPC error-rate=3% "
                            f"error-file={trigger}"})
    trigger.touch()
    with writing(c, random.Random(seed)):
        fio(c.nbd, jobs=2, depth=4, size="12M", offset="4M", rw="randrw",
            bs="4k-64k", seed=seed % 2 ** 31)
    trigger.unlink()
    assert sum(c.log(f"m{m}").count("injecting") for m in range(4)) > 20
    assert " is lost: " not in c.log("array")
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))
