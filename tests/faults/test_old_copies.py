"""A copy of a member's disk is put back in its place, and nothing else tells.

Topology: one devcluster, raid-1 of two or raid-x of four members.
Cause: One member's file is copied while it is served, with the array idle for 3 s or being
       written for 3 s more.  Everything is written again, and flushed.  Then the array process
       and the member are killed at once, with weftd or without, the copy takes the disk's
       place, and all is started again.
Pass:  every byte that was flushed is read, and all copies are alike in the end.
       (No intent bit of the copy, and no epoch, says that it is old; before there
       were rounds, a quarter of this was read as it had been.)
"""

import random
import shutil
import threading
import time

import pytest

from arraystate import content, wait_clean, wait_in_sync
from copies import check_copies, model_of
from nbdclient import connected
from wefttest import eventually, picked

pytestmark = pytest.mark.long(15)
UNIT = 64 << 10
BLOCK = 1 << 20
SHAPES = {"raid-1": 2, "raid-x": 4}


def block(offset, version):
    return (b"%015d %015d\n" % (offset, version)) * (BLOCK // 32)


def write_anew(c, version):
    """Everything, and a FLUSH."""
    h = connected(c.nbd)
    for offset in range(0, h.get_size(), BLOCK):
        length = min(BLOCK, h.get_size() - offset)
        h.pwrite(block(offset, version)[:length], offset)
    h.flush()
    h.shutdown()


def check(c, version):
    h = connected(c.nbd)
    wrong = []
    for offset in range(0, h.get_size(), BLOCK):
        length = min(BLOCK, h.get_size() - offset)
        is_, should = bytes(h.pread(length, offset)), block(offset, version)
        wrong += [offset + i for i in range(0, length, 4096)
                  if is_[i:i + 4096] != should[:length][i:i + 4096]]
    h.shutdown()
    assert not wrong, (f"{len(wrong)} blocks of 4 KiB are not what was flushed, "
                       f"the first at {wrong[0]}")


def copy_while_written(file, copy, c):
    """Beside one who overwrites it all the time, and goes on for 3 s."""
    quit_ = threading.Event()

    def keep():
        h = connected(c.nbd)
        while not quit_.is_set():
            for offset in range(0, 8 * BLOCK, BLOCK):
                h.pwrite(block(offset, 1), offset)
        h.shutdown()

    thread = threading.Thread(target=keep)
    thread.start()
    time.sleep(2)
    shutil.copyfile(file, copy)
    time.sleep(3)
    quit_.set()
    thread.join()


@pytest.mark.parametrize("weftd", [False, True], ids=["beside", "with-weftd"])
@pytest.mark.parametrize("how", ["idle", "clean", "written"])
@pytest.mark.parametrize("layout", picked(list(SHAPES)))
def test_copy_is_put_back(cluster, seed, tmp_path, layout, how, weftd):
    rng = random.Random(seed)
    c = cluster(layout=layout, members=SHAPES[layout], unit=UNIT, size="24M",
                env={"WEFT_ARRAY_ARGS": "takeover=true"})
    old = rng.randrange(SHAPES[layout])
    file, copy = c.members[old]["file"], tmp_path / "copy"
    write_anew(c, 1)
    if how == "written":
        copy_while_written(file, copy, c)
    else:
        if how == "clean":
            wait_clean(c)
        time.sleep(3)
        shutil.copyfile(file, copy)
    write_anew(c, 2)
    c.kill("array", f"m{old}", *(["weftd"] if weftd else []))
    shutil.copyfile(copy, file)
    for name in [*(["weftd"] if weftd else []), f"m{old}", "array"]:
        eventually(lambda n=name: starts(c, n), 60, every=0.5)
    check(c, 2)
    wait_in_sync(c)
    check(c, 2)
    check_copies(c, model_of(c, layout, UNIT), content(c.nbd))


def starts(c, name):
    """As a service manager would: again, until it does."""
    try:
        c.start(name)
    except AssertionError:
        return False
    return True
