"""The file system below a member's sparse file is full.

Topology: one raid-x devcluster of four members; the file of one lies on a small
          tmpfs.  A client that knows what each FLUSH has promised writes all
          along.
Cause: ENOSPC, because the array has more data than there is room; then there
       is room again, and the member's process is started again.
Pass:  the client sees no error; the member is out and says why, is taken back
       only to go out again while there is no room, and is caught up once there
       is; no flushed block is lost and all copies are alike.
"""

import errno
import os
import pathlib
import random

import pytest

from arraystate import content, wait_failed, wait_in_sync, writing
from copies import check_copies, model_of
from fiojob import fio
from wefttest import eventually, run

UNIT = 64 << 10


@pytest.fixture
def small(tmp_path):
    """A tmpfs that holds a header and very little data."""
    path = tmp_path / "small"
    path.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=6M", "tmpfs", path)
    yield path
    run("umount", "-l", path)


def move(c, number, directory):
    """Sparse as it was; a link stays behind."""
    file = pathlib.Path(c.members[number]["file"])
    c.kill(f"m{number}")
    run("cp", "--sparse=always", file, directory)
    os.unlink(file)
    file.symlink_to(directory / file.name)
    c.start(f"m{number}")


def rebuilds(c):
    """How often a member was taken back: that may last for a moment only."""
    return c.log("weftd").count(" is being rebuilt.")


def test_full_and_room_again(cluster, small, seed):
    rng = random.Random(seed)
    bad = rng.randrange(4)
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="48M")
    move(c, bad, small)
    wait_in_sync(c)
    with writing(c, rng) as w:
        fio(c.nbd, size="40M", offset="4M", bs="64k", rw="write",
            seed=seed % 2 ** 31)
        wait_failed(c, bad, os.strerror(errno.ENOSPC))
        assert w.error is None

        # Still full: it comes back only to fail again.
        before = rebuilds(c)
        c.restart(f"m{bad}")
        eventually(lambda: rebuilds(c) > before, what="it to be taken back")
        wait_failed(c, bad, os.strerror(errno.ENOSPC))
        assert w.error is None and w.is_alive()

        run("mount", "-o", "remount,size=64M", small)
        c.restart(f"m{bad}")
        wait_in_sync(c)
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))
