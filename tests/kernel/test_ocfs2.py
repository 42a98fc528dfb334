"""A cluster file system on an array that two hosts use at the same time.

Topology: a network namespace for each of weftd, four members, and two hosts
          (tests/netcluster.py) with a process each that has the array: a client of its
          service, which one of two more hosts serves; or an array process that shares
          it by leases.  On each of the two a guest with Debian's kernel has the array
          as its /dev/vda.  The guests are the nodes of an o2cb cluster with a network
          of its own.
Cause: both have the OCFS2 on it mounted; both copy a tree there, and change a file in
       all the ways there are, one of its own and one that they share by turns (fsx);
       then they write files, each durable before the next, beside fsx, while one guest
       is killed with its host's process, and a little later who serves, if anybody does.
Pass:  fsx finds in its file what it should; each guest reads what the other has written;
       the other one goes on by itself, and has all files of which the dead one knew that
       they are durable; the file system is clean.  Leases went from host to host, and
       nobody waits for one of the dead host's in the end.
"""

import time

import pytest

from guestvm import Guest, boot_files
from netcluster import NetCluster
from wefttest import at_once, eventually

CLUSTER = "/sys/kernel/config/cluster/weft"
# Heartbeats of 2 s: a node that has written none for 30 s is dead.
THRESHOLD = 16
WRITE = ("set -e; i=0; until [ -e /enough ]; do i=$((i + 1)); "
         "dd if=/dev/urandom of=/mnt/{0}/f$i bs=16k count=3 conv=fsync "
         "2>/dev/null; (cd /mnt; sha256sum {0}/f$i) >>/sums; done")
# A part of the tree without its large files, for the emulated processors' sake.
COPY = "cp -a /src/d[0-4] /mnt/{0} && sync"
CHECK_COPY = "cd /mnt/{0} && grep '  d[0-4]/' /src/SUMS | sha256sum -c -s"
FSX = "/sbin/fsx /mnt/{0}/x {1} 200"
FSX_SHARED = "/sbin/fsx /mnt/x {0} 240 /mnt/turns"
FSX_ON = ("set -e; i={1}; until [ -e /enough ]; do i=$((i + 1)); "
          "/sbin/fsx /mnt/{0}/x $i 50; done")


class Node:
    def __init__(self, number, directory, net, tree, files):
        self.name, self.host = f"g{number}", f"c{number}"
        path = directory / self.name
        path.mkdir()
        ends = ",".join(
            f"{end}.type=inet,{end}.host={net.address(f'c{i}')},{end}.port=7777"
            for end, i in (("local", number), ("remote", 1 - number)))
        self.guest = Guest(
            path, {"array": f"{net.uri(self.host)},cache=none",
                   "tree": f"{tree.image},readonly=on"},
            words=["-netdev", f"dgram,id=link,{ends}", "-device", "virtio-net-pci,"
                   f"netdev=link,mac=52:54:00:77:00:0{number + 1},romfile="],
            files=files, inside=net.inside(self.host), punctual=True, processors=1)
        self.run = self.guest.run
        nodes = "".join(
            f"mkdir $c/node/g{i}; cd $c/node/g{i}; echo 7777 >ipv4_port; "
            f"echo 10.77.0.{i + 1} >ipv4_address; echo {i} >num; "
            for i in range(2))
        self.run(f"hostname {self.name}; ip addr add 10.77.0.{number + 1}/24 "
                 "dev eth1; ip link set eth1 up; "
                 "mount -t configfs none /sys/kernel/config && "
                 "echo o2cb >/sys/fs/ocfs2/cluster_stack && "
                 f"c={CLUSTER}; mkdir $c && {nodes} "
                 f"echo 1 >$c/node/{self.name}/local && "
                 f"echo {THRESHOLD} >$c/heartbeat/dead_threshold && "
                 "echo 10000 >$c/idle_timeout_ms && touch /sums && "
                 "mount -t ext4 -o ro /dev/vdb /src && dmesg -c >/dev/null")

    def mount(self):
        self.run("/sbin/mount.ocfs2 /dev/vda /mnt", timeout=60)

    def change(self, seed):
        """Returns how many of the operations on the shared file were its own."""
        self.run(f"mkdir /mnt/{self.name}")
        jobs = [self.guest.start(job) for job in (
            FSX_SHARED.format(seed), FSX.format(self.name, seed),
            COPY.format(self.name))]
        for done in jobs:
            status, said = eventually(done, 120)
            assert status == 0, said
        return int(jobs[0]()[1])

    def write(self, seed):
        self.done = self.guest.start(WRITE.format(self.name))
        self.fsx_done = self.guest.start(FSX_ON.format(self.name, seed))

    def sums(self):
        """The files that are durable."""
        return self.run("cat /sums").splitlines()

    def writes_on(self, seconds):
        """Returns how long it took."""
        begin, before = time.monotonic(), len(self.sums())
        eventually(lambda: self.done() is not None or
                   len(self.sums()) > before + 2, seconds)
        assert self.done() is None, self.done()
        assert self.fsx_done() is None, self.fsx_done()
        return time.monotonic() - begin

    def check(self, sums):
        for at in range(0, len(sums), 20):
            lines = "\\n".join(sums[at:at + 20])
            self.run(f"cd /mnt && printf '{lines}\\n' | sha256sum -c -s")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return boot_files(tmp_path_factory.mktemp("boot"), "ocfs2")


def leases(net):
    return net.get("/api/v1/arrays/a/leases")


@pytest.mark.parametrize("servers", [["s0", "s1"], []], ids=["service", "leases"])
def test_two_guests(tree, tmp_path, files, seed, servers):
    with NetCluster(tmp_path, servers=servers, clients=["c0", "c1"]) as net:
        nodes = at_once(lambda i: Node(i, tmp_path, net, tree, files), 0, 1)
        try:
            check(net, nodes, seed)
        finally:
            for n in nodes:
                n.guest.close()


def check(net, nodes, seed):
    stays, dies = nodes
    stays.run("/sbin/mkfs.ocfs2 -q -x -F -b 4K -C 4K -N 2 -J size=4M "
              "--cluster-stack=o2cb --cluster-name=weft /dev/vda")
    at_once(Node.mount, *nodes)
    # They have seen each other's heartbeats: they are one cluster, not two.
    assert any("joins domain" in n.run("dmesg") for n in nodes)
    # To one of two nodes that make a file at the same time OCFS2 says EEXIST, although
    # O_EXCL is not wanted.
    stays.run("touch /mnt/x /mnt/turns")
    turns = at_once(lambda n: n.change(seed), *nodes)
    assert all(turns), turns
    print(f"{turns} of the operations were done by the two guests")
    at_once(lambda pair: pair[0].run(CHECK_COPY.format(pair[1].name)),
            (stays, dies), (dies, stays))
    for n in nodes:
        n.write(seed)
    at_once(lambda n: n.writes_on(60), *nodes)
    stays.check(dies.sums())
    dies.check(stays.sums())

    if not net.servers:
        had = leases(net)
        assert {s["node"] for s in had["sessions"]} == {n.host for n in nodes}
        assert all(s["gets"] and s["revokes"] for s in had["sessions"]), had
        print(f"{had['conflicts']} asks for leases met others' leases; "
              f"{had['revokes']} leases were asked back")

    durable = dies.sums()
    dies.guest.close()
    net.kill(dies.host)
    if net.servers:
        time.sleep(5)
        net.kill("serve-s0")
    # It may go on until it needs what the dead one has locked.
    stays.check(durable)
    stays.run(f"touch /mnt/{dies.name}/new && rm /mnt/{dies.name}/f1", timeout=120)
    print(f"the other guest goes on after {stays.writes_on(60):.1f} s more")
    if net.servers:
        assert net.serving() == "s1"
    else:
        eventually(lambda: leases(net)["orphan_bytes"] == 0, 30,
                   what="what the dead host had to be recovered")
        assert [s["node"] for s in leases(net)["sessions"]] == [stays.host]
    stays.run("touch /enough")
    for done in (stays.done, stays.fsx_done):
        status, said = eventually(done, 60)
        assert status == 0, said
    assert stays.guest.kernel_errors() == []
    sums = [*stays.sums(), *durable[1:]]
    stays.run("umount /mnt", timeout=60)
    said = stays.run("/sbin/fsck.ocfs2 -fn /dev/vda", timeout=60)
    assert "All passes succeeded" in said, said
    stays.mount()
    stays.check(sums)
    for n in nodes:
        stays.run(CHECK_COPY.format(n.name))
