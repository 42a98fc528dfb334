"""A virtual machine moves between hosts, with its disk on an array that is served.

Topology: a network namespace for each of weftd, four members, two hosts that may serve
          the array, and two hosts for QEMU, each with a client of the service
          (tests/netcluster.py), which has the disk by that (cache=none).
Cause: The guest writes files to an ext4 on it, each durable before the next.  Meanwhile it is
       migrated, the client on the first host and the server are killed, and it is migrated
       back, to a client that is new there.
Pass:  the guest sees no error; every file is there, whole, and the file system is
       clean, as the guest and as the host sees it.
"""

from guestvm import Guest
from netcluster import NetCluster
from wefttest import eventually, run

WRITE = ("set -e; i=0; until [ -e /enough ]; do i=$((i + 1)); "
         "dd if=/dev/urandom of=/mnt/f$i bs=32k count=3 conv=fsync 2>/dev/null; "
         "(cd /mnt; sha256sum f$i) >>/sums; done")


def files(guest):
    return int(guest.run("wc -l </sums"))


def writes_on(guest, done):
    before = files(guest)
    eventually(lambda: done() is not None or files(guest) > before + 3, 60)
    assert done() is None, done()


def drives(net, host):
    return {"array": f"{net.uri(host)},cache=none"}


def migrate(guest, net, host):
    guest.migrate(drives(net, host), net.inside(host), f"tcp:{net.address(host)}:4444")


def test_live_migration(tmp_path):
    with NetCluster(tmp_path, servers=["s0", "s1"], clients=["c0", "c1"]) as net:
        # Its kernel reports a task that waits for 120 s of its clock as if that were an error.
        guest = Guest(tmp_path, drives(net, "c0"), inside=net.inside("c0"),
                      punctual=True)
        try:
            guest.run("/sbin/mke2fs -q -t ext4 /dev/vda && "
                      "mount -t ext4 /dev/vda /mnt; touch /sums; dmesg -c >/dev/null")
            done = guest.start(WRITE)
            writes_on(guest, done)
            migrate(guest, net, "c1")
            net.kill("c0")  # nothing of it is needed any more
            writes_on(guest, done)
            net.kill("serve-s0")
            writes_on(guest, done)
            assert net.serving() == "s1"
            net.start("c0")
            migrate(guest, net, "c0")
            net.kill("c1")
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
        run(*net.inside("c0", "nbdcopy", net.uri("c0"), image))
    run("/sbin/e2fsck", "-fn", image)
    listed = run("/sbin/debugfs", "-R", "ls -p /", image).stdout
    assert listed.count("/f") == count
