"""A cluster file system on an array that is served to two hosts.

Topology: two guests with Debian's kernel, each a node of an o2cb cluster with a network
          between them, and each with the array as its /dev/vda by a client of the
          service of its own; two processes that may serve the array; four members.
Cause: both have the OCFS2 on it mounted and write files, each durable before the next;
       then one guest and its client are killed, and a little later who serves.
Pass:  each guest reads what the other has written; the other one goes on by itself, and
       has all files of which the dead one knew that they are durable; the file system
       is clean.
"""

import time

import pytest

from guestvm import Guest
from servedarray import Served
from wefttest import at_once, eventually

CLUSTER = "/sys/kernel/config/cluster/weft"
# Heartbeats of 2 s: a node that has written none for 30 s is dead.
THRESHOLD = 16
WRITE = ("set -e; i=0; until [ -e /enough ]; do i=$((i + 1)); "
         "dd if=/dev/urandom of=/mnt/{0}/f$i bs=16k count=3 conv=fsync "
         "2>/dev/null; (cd /mnt; sha256sum {0}/f$i) >>/sums; done")


class Node:
    def __init__(self, number, directory, uri):
        self.name = f"g{number}"
        path = directory / self.name
        path.mkdir()
        ends = ",".join(f"{end}.type=unix,{end}.path={directory}/link{i}"
                        for end, i in (("local", number), ("remote", 1 - number)))
        self.guest = Guest(path, {"array": f"{uri},cache=none"}, words=[
            "-netdev", f"dgram,id=link,{ends}", "-device",
            f"virtio-net-pci,netdev=link,mac=52:54:00:77:00:0{number + 1},romfile="],
            extra=["ocfs2"], punctual=True)
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
                 "dmesg -c >/dev/null")

    def mount(self):
        self.run("/sbin/mount.ocfs2 /dev/vda /mnt", timeout=60)

    def write(self):
        self.run(f"mkdir /mnt/{self.name}")
        self.done = self.guest.start(WRITE.format(self.name))

    def sums(self):
        """Of the files that are durable."""
        return self.run("cat /sums").splitlines()

    def writes_on(self, seconds):
        """Returns how long it took."""
        begin, before = time.monotonic(), len(self.sums())
        eventually(lambda: self.done() is not None or
                   len(self.sums()) > before + 2, seconds)
        assert self.done() is None, self.done()
        return time.monotonic() - begin

    def check(self, sums):
        for at in range(0, len(sums), 20):
            lines = "\\n".join(sums[at:at + 20])
            self.run(f"cd /mnt && printf '{lines}\\n' | sha256sum -c -s")


@pytest.fixture
def served(cluster):
    s = Served(cluster(members=4, layout="raid-x", size="96M"))
    yield s
    s.end()


@pytest.mark.timeout(600)
def test_two_guests(served, tmp_path):
    served.stand_by("s0")
    served.stand_by("s1")
    uris = [served.client(name) for name in ("c0", "c1")]
    nodes = at_once(lambda i: Node(i, tmp_path, uris[i]), 0, 1)
    try:
        stays, dies = nodes
        stays.run("/sbin/mkfs.ocfs2 -q -x -F -b 4K -C 4K -N 2 -J size=4M "
                  "--cluster-stack=o2cb --cluster-name=weft /dev/vda")
        for n in nodes:
            n.mount()
        # They have seen each other's heartbeats: they are one cluster, not two.
        assert "Node 1 joins domain" in stays.run("dmesg")
        for n in nodes:
            n.write()
        at_once(lambda n: n.writes_on(60), *nodes)
        stays.check(dies.sums())
        dies.check(stays.sums())

        durable = dies.sums()
        dies.guest.close()
        served.kill("c1")
        time.sleep(5)
        served.kill("s0")
        # It may go on until it needs what the dead one has locked.
        stays.check(durable)
        stays.run("touch /mnt/g1/new && rm /mnt/g1/f1", timeout=120)
        print(f"the other guest goes on after {stays.writes_on(60):.1f} s more")
        assert served.serving() == "s1"
        stays.run("touch /enough")
        assert eventually(stays.done, 60)[0] == 0
        assert stays.guest.kernel_errors() == []
        sums = [*stays.sums(), *durable[1:]]
        stays.run("umount /mnt", timeout=60)
        said = stays.run("/sbin/fsck.ocfs2 -fn /dev/vda", timeout=60)
        assert "All passes succeeded" in said, said
        stays.mount()
        stays.check(sums)
        stays.run("umount /mnt", timeout=60)
    finally:
        for n in nodes:
            n.guest.close()
