"""A virtual machine moves between hosts, with its disk on an array that is served.

Topology: two QEMU processes, each with a client of the service of its own, as on two
          hosts (cache=none); two processes that may serve the array; four members.
Cause: while the guest writes files to an ext4 on it, each durable before the next, it
       is migrated, who serves is killed, and it is migrated back.
Pass:  the guest sees no error; every file is there, whole, and the file system is
       clean, as the guest and as the host sees it.
"""

import pytest

from guestvm import Guest
from servedarray import Served
from wefttest import eventually, run

WRITE = ("set -e; i=0; until [ -e /enough ]; do i=$((i + 1)); "
         "dd if=/dev/urandom of=/mnt/f$i bs=32k count=3 conv=fsync 2>/dev/null; "
         "(cd /mnt; sha256sum f$i) >>/sums; done")


@pytest.fixture
def served(cluster):
    s = Served(cluster(members=4, layout="raid-x", size="96M"))
    yield s
    s.end()


def files(guest):
    return int(guest.run("wc -l </sums"))


def writes_on(guest, done):
    before = files(guest)
    eventually(lambda: done() is not None or files(guest) > before + 3, 60)
    assert done() is None, done()


@pytest.mark.timeout(600)
def test_live_migration(served, tmp_path):
    served.stand_by("s0")
    served.stand_by("s1")
    drives = [{"array": f"{served.client(name)},cache=none"}
              for name in ("c0", "c1")]
    guest = Guest(tmp_path, drives[0])
    try:
        guest.run("/sbin/mke2fs -q -t ext4 /dev/vda && "
                  "mount -t ext4 /dev/vda /mnt; touch /sums; dmesg -c >/dev/null")
        done = guest.start(WRITE)
        writes_on(guest, done)
        guest.migrate(drives[1])
        served.kill("c0")  # nothing of it is needed any more
        writes_on(guest, done)
        served.kill("s0")
        writes_on(guest, done)
        assert served.serving() == "s1"
        guest.migrate({"array": f"{served.client('c2')},cache=none"})
        writes_on(guest, done)
        guest.run("touch /enough")
        assert eventually(done, 60)[0] == 0
        assert guest.kernel_errors() == []
        guest.run("umount /mnt && /sbin/e2fsck -fn /dev/vda && "
                  "mount -t ext4 /dev/vda /mnt && cd /mnt && "
                  "sha256sum -c -s /sums", timeout=120)
        guest.run("umount /mnt")
        count = files(guest)
    finally:
        guest.close()
    image = tmp_path / "image"
    run("nbdcopy", served.client("c3"), image)
    run("/sbin/e2fsck", "-fn", image)
    listed = run("/sbin/debugfs", "-R", "ls -p /", image).stdout
    assert listed.count("/f") == count
