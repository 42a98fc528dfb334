"""The kernel's own NBD client with a file system on an array.

Topology: a guest with Debian's kernel -- nbd-client, one connection --
one array process -- four members, all on this host.  Cause: a member is
killed while a tree is being copied.  Pass: the guest's kernel sees no error at
all, every byte is there after detaching and attaching again, the file system
is clean, and the host, reading the array by another client, finds the same
without the lost member.
"""

import pytest

from wefttest import eventually, picked, run


def check_tree(guest):
    guest.run("/sbin/e2fsck -fn /dev/nbd0")
    guest.run("mount -t ext4 /dev/nbd0 /mnt")
    guest.run("cd /mnt && sha256sum -c -s SUMS && "
              "[ \"$(readlink link)\" = big/f0 ]", timeout=300)
    guest.run("umount /mnt")


def check_from_host(c, tree, directory):
    """Copy the array out by another client, and look at it without mounting."""
    image = directory / "image"
    run("nbdcopy", c.nbd, image, timeout=300)
    run("/sbin/e2fsck", "-fn", image)
    out = directory / "out"
    out.mkdir()
    run("/sbin/debugfs", "-R", f"rdump / {out}", image)
    assert tree.differences(out) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("layout", picked(["raid-x", "raid-10"]))
def test_ext4_survives_a_member(guest, tree, cluster, tmp_path, layout):
    c = cluster(members=4, layout=layout, size="96M")
    guest.run("dmesg -c")

    guest.attach(c.nbd)
    guest.run("/sbin/mke2fs -q -t ext4 /dev/nbd0")
    guest.run("mount -t ext4 /dev/nbd0 /mnt")

    # File by file, so that there is a middle.
    copied = guest.start(
        "set -e; cd /src; find . -type d | while read -r d; "
        "do mkdir -p \"/mnt/$d\"; done; "
        "find . -type f -o -type l | while read -r f; "
        "do cp -a \"$f\" \"/mnt/$f\"; done")
    files = len(tree.sums)

    def a_third():
        n = int(guest.run("find /mnt -type f | wc -l"))
        assert copied() is None, "the copy was over before the member was killed"
        return n > files // 3
    eventually(a_third, seconds=120, every=0.05)
    c.kill("m2")
    assert copied() is None, "the copy was over before the member was killed"

    status, output = eventually(copied, seconds=300)
    assert status == 0, output
    guest.run("sync", timeout=300)
    guest.run("umount /mnt", timeout=300)
    guest.detach()
    assert guest.kernel_errors() == []

    # weftd knows which member is out, and why the array is not whole.
    array = c.get("/api/v1/arrays/a")
    assert array["state"] == "degraded"
    assert [m["state"] for m in array["members"]] == [
        "in-sync", "in-sync", "out", "in-sync"]

    guest.attach(c.nbd)
    check_tree(guest)
    guest.detach()
    assert guest.kernel_errors() == []
    check_from_host(c, tree, tmp_path)


def test_trim_and_flush(guest, cluster):
    """The kernel's use of our flags: FLUSH and FUA reach us, discards give space back on the
    members."""
    c = cluster(members=4, size="64M")
    guest.attach(c.nbd)
    queue = "/sys/block/nbd0/queue"
    assert guest.run(f"cat {queue}/write_cache").strip() == "write back"
    assert int(guest.run(f"cat {queue}/fua")) == 1
    assert int(guest.run(f"cat {queue}/discard_max_bytes")) > 0

    def used():
        return sum(int(run("stat", "-c", "%b", m["file"]).stdout) * 512
                   for m in c.members)
    before = used()
    guest.run("dd if=/dev/zero bs=1M count=32 2>/dev/null | tr '\\0' x | "
              "dd of=/dev/nbd0 bs=1M iflag=fullblock conv=fsync 2>/dev/null")
    full = used()
    assert full - before >= 64 << 20  # every byte on two members
    guest.run("blkdiscard /dev/nbd0")
    guest.detach()
    eventually(lambda: used() < before + (8 << 20), seconds=20,
               what="discarded space came back")
    assert guest.kernel_errors() == []
