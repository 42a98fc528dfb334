"""The device of a member is removed, and comes back under another name.

Topology: one devcluster; the disk of one member is a block device, and its path a link,
          as those of /dev/disk/by-id are.  A client that knows what each FLUSH has
          promised writes all along.
Cause: the device is removed: it has no size any more.  The path leads to nothing, to a
       foreign disk, to another Weft disk; then to the same disk as another device.
Pass:  The client sees no error while another copy is there.  Meanwhile the verdict and the
       disk say that it is gone.  Another file at the path is not written.  When the disk is
       back the process ends by itself, and the next one joins; all copies are alike.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil

import pytest

from arraystate import Pending, content, wait_in_sync, wait_state, writing
from copies import check_copies, model_of
from loopdisk import LoopDisk, loop_of
from nbdclient import connected
from wefttest import digest, eventually, run

UNIT = 64 << 10
MIB = 1 << 20


@pytest.fixture
def stack(cluster):
    """Ends before the cluster does: a loop device stays as long as it is open."""
    with contextlib.ExitStack() as s:
        yield s


def verdict(c):
    return c.get("/api/v1/status")["verdict"]


def reason(c, number):
    disk = c.get("/api/v1/arrays/a")["members"][number]["disk"]
    return c.get(f"/api/v1/disks/{disk}")["reason"] or ""


def wait_end(c, name):
    """The process ends by itself; then a unit would start it again."""
    eventually(lambda: not c.running(name), what=f"{name} to end")
    assert "and is there again: this process ends" in c.log(name)
    c.start(name)


def test_gone_and_back(cluster, stack, tmp_path, seed):
    rng = random.Random(seed)
    bad = rng.randrange(4)
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="48M")
    disk = LoopDisk(c, bad, stack)
    wait_in_sync(c)
    foreign, weft = tmp_path / "foreign", tmp_path / "weft"
    for file in foreign, weft:
        with file.open("wb") as f:
            f.truncate(64 * MIB)
    run("mke2fs", "-q", foreign)
    run("weftctl", "disk", "format", weft)
    before = digest(foreign), digest(weft)
    c.may_end(f"m{bad}")
    with writing(c, rng) as w:
        disk.remove()
        wait_state(c, bad, "out")
        eventually(lambda: "has a disk that is gone, and is out" in verdict(c))
        eventually(lambda: "its path leads to no disk" in reason(c, bad))
        for file in foreign, weft:
            other = stack.enter_context(loop_of(file))
            disk.lead_to(other)
            eventually(lambda: "its path leads to another disk" in reason(c, bad))
            disk.lead_to(None)
            eventually(lambda: "its path leads to no disk" in reason(c, bad))
        assert c.running(f"m{bad}") and w.error is None and w.is_alive()
        was = disk.device
        disk.bring_back()
        assert disk.device != was
        wait_end(c, f"m{bad}")
        wait_in_sync(c)
    assert (digest(foreign), digest(weft)) == before
    eventually(lambda: "All is well" in verdict(c))
    disk.show_file()
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))


def test_the_last_copy(cluster, stack, seed):
    """Requests wait, and flushed data is there."""
    rng = random.Random(seed)
    c = cluster(layout="raid-1", members=2, unit=UNIT, size="24M")
    disk = LoopDisk(c, 1, stack)
    wait_in_sync(c)
    data = rng.randbytes(4 * MIB)
    h = connected(c.nbd)
    h.pwrite(data, 0)
    h.flush()
    c.kill("m0")
    wait_state(c, 0, "out")
    h.pwrite(data, 8 * MIB)
    h.flush()
    c.may_end("m1")
    disk.remove()
    eventually(lambda: "Nothing is lost if the member comes back: connect its disk again"
               in verdict(c))
    read = Pending(c.nbd).read(4 * MIB, 8 * MIB)
    disk.bring_back()
    wait_end(c, "m1")
    assert read.result() == data
    c.start("m0")
    wait_in_sync(c)
    h = connected(c.nbd)
    assert h.pread(4 * MIB, 0) == h.pread(4 * MIB, 8 * MIB) == data
    h.pwrite(data, 0)
    h.flush()


def test_another_disk(tmp_path):
    """A process with the UUID of its disk serves no other disk, and writes to none."""
    file = tmp_path / "disk"
    with file.open("wb") as f:
        f.truncate(64 * MIB)
    run("weftctl", "disk", "format", file)
    # A slot that must be repaired, which is a process's first write.
    with file.open("r+b") as f:
        f.write(bytes(512))
    before = digest(file)
    words = ["nbdkit", "-f", "-U", tmp_path / "s", "weft", f"disk={file}", "node=n",
             "admin=http://127.0.0.1:9", "uri=nbd://127.0.0.1:9"]
    p = run(*words, "uuid=00000000-0000-4000-8000-000000000000", check=False)
    assert p.returncode == 1 and "and not disk 00000000-0000" in p.stderr, p
    assert digest(file) == before
    assert os.stat(file).st_size == 64 * MIB


def test_another_disk_in_its_place(cluster, tmp_path):
    """The unit starts the process again and again: it serves when its own disk is back."""
    c = cluster(members=4, size="32M")
    member = c.status()["members"][1]
    file = pathlib.Path(member["file"])
    probed = json.loads(run("weftctl", "disk", "probe", file, "--json").stdout)
    uuid = probed["disks"][0]["uuid"]
    c.kill("m1")
    wait_state(c, 1, "out")
    file.rename(tmp_path / "own")
    with file.open("wb") as f:
        f.truncate(64 * MIB)
    run("weftctl", "disk", "format", file)
    before = digest(file)
    for _ in range(2):
        p = run("nbdkit", "-f", "-U", tmp_path / "s", "weft", f"disk={file}", "node=n1",
                f"uuid={uuid}", f"admin={c.admin}", f"uri={member['uri']}", check=False)
        assert p.returncode == 1 and f"and not disk {uuid}" in p.stderr, p
    assert digest(file) == before
    file.unlink()
    shutil.copy(tmp_path / "own", file)
    c.start("m1")
    wait_in_sync(c)
