"""A backup that is a day old is put back while clients go on, and much has changed since.

Topology: weftd and nodes with disks, every one in a network namespace of its own, with TLS.
        Array plain has a writer on n0, leased has lessees on n0 and n1, served has a
        service on n1 and a client on n2; on n2 are an array that is deleted and disks that
        get places.
Cause:  a backup; then a member is replaced, disks get other keys, a writer is evicted, the
        CA is rotated to its end, an array is deleted, another one made with the disk of a
        node that has enrolled, settings change, a user is deleted, a token made, a node
        shut out; then weftd is restored while all clients write.
Pass:   Every write whose FLUSH a client saw acknowledged is there.  Clients go on, or end with
        a message that says why.  The verdict names all that an administrator must do; after
        that the new array is there, and shut-out nodes stay out.
"""

import random
import threading
import time

import nbd
import pytest

from enrollworld import REFUSED, world
from nbdclient import connected
from wefttest import eventually

BLOCK = 16 << 10
BLOCKS = 64
LESSEE = "mode=shared"


class Client(threading.Thread):
    """Writes one block after the other, each with a FLUSH, until an error; a FLUSH that fails
    by EIO is counted, and what it was for written again."""

    def __init__(self, uri, seed, first=0):
        super().__init__(daemon=True)
        self.uri, self.first = uri, first
        self.random = random.Random(seed)
        self.flushed, self.now = {}, None
        self.error, self.count, self.ends, self.eio = None, 0, False, 0
        self.start()

    def run(self):
        try:
            h = connected(self.uri)
            while not self.ends:
                at = (self.first + self.count % BLOCKS) * BLOCK
                data = self.random.randbytes(16) * (BLOCK // 16)
                self.now = at, data
                h.pwrite(data, at)
                try:
                    h.flush()
                except nbd.Error as e:
                    if e.errno != "EIO":
                        raise
                    self.eio += 1
                    continue
                self.flushed[at] = data
                self.now = None
                self.count += 1
                time.sleep(0.1)  # leaves some of the processor to others
        except nbd.Error as e:
            self.error = e

    def goes_on(self, what):
        """It writes, by now."""
        count = self.count
        eventually(lambda: self.count > count or self.error, 60, what=what)
        assert not self.error, self.error

    def end(self):
        self.ends = True
        self.join(60)
        assert not self.is_alive()

    def check(self, uri):
        """Flushed data is there; a block of an unflushed write may have either content."""
        h = connected(uri)
        for at, data in self.flushed.items():
            found = h.pread(BLOCK, at)
            if self.now and self.now[0] == at:
                assert found in (data, self.now[1]), at
            else:
                assert found == data, at
        h.shutdown()
        return len(self.flushed)


def disk(n, name):
    return f"{n.name}:{n.dir / name}"


def renew(n, *words):
    n.run("weft-renew", "--root", n.root, *words)


def show(world, array):
    return world.json("array", "show", array)


def in_sync(world, array):
    return all(m["state"] == "in-sync" for m in show(world, array)["members"])


def create(world, name, *disks, layout="raid-1"):
    world.ctl("array", "create", name, "--layout", layout, "--unit", "64K", "--yes",
              *[x for d in disks for x in ("--disk", d)])
    eventually(lambda: show(world, name)["state"] == "ready", 60,
               what=f"array {name} to be made")


def start_clients(world, n0, n1, n2, seed):
    """{name: client}; each is to have written."""
    n1.serve_service("served")
    clients = {
        "plain": Client(n0.serve_array("plain"), seed),
        "leased 0": Client(n0.serve_array("leased", options=LESSEE), seed + 1),
        "leased 1": Client(n1.serve_array("leased", options=LESSEE), seed + 2, BLOCKS),
        "served": Client(n2.serve_array("served", kind="service"), seed + 3),
    }
    for name, c in clients.items():
        c.goes_on(f"{name} to write")
    return clients


def change_much(world, n0, n1, n2, evil, seed):
    """A day's changes.  Returns the node that has come, and its array's content."""
    world.ctl("array", "replace", "plain", "1", disk(n2, "d1"), "--force", "--yes")
    world.ctl("disk", "rekey", show(world, "leased")["members"][0]["disk"])
    world.ctl("array", "rm", "doomed", "--yes")
    world.ctl("array", "set", "served", "--spare-after", "77")
    world.ctl("user", "rm", "bob", "--yes")
    world.json("token", "add", "late", "--role", "admin")
    n3 = world.serving("n3", "d0")
    create(world, "newer", disk(n2, "d0"), disk(n3, "d0"))
    newer = random.Random(seed).randbytes(4 * BLOCK)
    h = connected(n3.serve_array("newer"))
    h.pwrite(newer, 0)
    h.flush()
    h.shutdown()
    n3.end("newer")
    # The CA, to the end.
    world.ctl("ca", "rotate", "--yes")
    nodes = [n0, n1, n2, n3, evil]
    for _ in range(2):
        for n in nodes:
            renew(n, "--now")
    world.ctl("ca", "retire", "--yes")
    world.ctl("node", "revoke", "evil", "--yes")
    for n in nodes[:-1]:
        renew(n)
    eventually(lambda: in_sync(world, "plain"), 60, what="the replaced member")
    return n3, newer


@pytest.mark.long(60)
def test_a_day_old(world, tmp_path, seed):
    n0, n1 = (world.serving(f"n{i}", "d0", "d1", "d2") for i in range(2))
    n2 = world.serving("n2", "d0", "d1")
    evil = world.node("evil")
    world.enroll(evil)
    for i, name in enumerate(("plain", "leased", "served")):
        create(world, name, disk(n0, f"d{i}"), disk(n1, f"d{i}"))
    world.ctl("array", "allow", "served", "n2", "--yes")
    world.ctl("array", "service", "served", "--on", "n1")
    create(world, "doomed", disk(n2, "d0"), layout="raid-0")
    world.ctl("user", "add", "bob", "--role", "admin", "--password-file", world.password)
    clients = start_clients(world, n0, n1, n2, seed)
    backup = world.w.dir / "backup"
    world.ctl("backup", backup)
    n3, newer = change_much(world, n0, n1, n2, evil, seed)
    for name, c in clients.items():
        c.goes_on(f"{name} to write after the changes")

    world.w.end("weftd")
    state = world.w.dir / "state"
    world.w.run("weftd", "--state", state, "--restore", backup, "--replace")
    world.start_weftd()
    restored(world, n0, n1, n2, clients)
    clients = go_on(n0, n1, n2, clients, seed)
    as_the_manual_says(world, n2, n3, evil, state)
    for name, c in clients.items():
        c.goes_on(f"{name} to write at the end")
        c.end()
        c.check(c.uri)
    assert read_newer(n3) == newer


def restored(world, n0, n1, n2, clients):
    """Arrays are restored, and the former writers hear why their sessions ended."""
    for name in ("plain", "leased", "served"):
        eventually(lambda: f"Array {name} was restored from its members" in
                   world.w.log("weftd"), 60, what=f"array {name} to be restored")
    for name, n, process in (("plain", n0, "plain"), ("leased 0", n0, "leased"),
                             ("leased 1", n1, "leased")):
        c = clients[name]
        c.join(60)
        assert c.error and c.error.errno == "ESHUTDOWN", c.error
        said = n.log(process)
        assert "is over: weftd was restored from a backup" in said
        assert "end this nbdkit and start it again to attach the array again" in said
        n.end(process)
    # systemd starts a service again, which has ended by itself.
    assert n1.processes.pop("served-service").wait(60) == 0


def go_on(n0, n1, n2, clients, seed):
    """The client of the service sees a pause; the others start again, with the data that is
    there."""
    n1.serve_service("served")
    clients["served"].goes_on("the service's client to go on")
    assert clients["served"].eio <= 1
    assert "unflushed writes may be lost" in n2.log("served")
    for name, n, options in (("plain", n0, ""), ("leased 0", n0, LESSEE),
                             ("leased 1", n1, LESSEE)):
        before = clients[name]
        uri = n.serve_array(name.split()[0], options=options)
        assert before.check(uri) > 10
        clients[name] = Client(uri, seed + 10, before.first)
        clients[name].goes_on(f"{name} to write again")
    return clients


def verdict(world):
    return world.json("status")["verdict"]


def as_the_manual_says(world, n2, n3, evil, state):
    # No user and no token is admitted that may have been removed since.
    assert world.ctl("status", check=False).returncode != 0
    world.ctl("setup", "ann", "--url-file", state / "setup-url", "--password-file",
              world.password)
    world.log_in()
    said = verdict(world)
    for word in ("weftd was restored from a backup", "weftctl revocations confirm",
                 "Array doomed is frozen",
                 "delete it again by the command weftctl array rm doomed"):
        assert word in said, said
    # Things that only the backup has are removed again.
    world.ctl("array", "rm", "doomed", "--yes")
    world.ctl("user", "rm", "bob", "--yes")
    assert "late" not in [t["name"] for t in world.json("token", "ls")["tokens"]]
    # Things that the backup lacks are made again.
    n3.end("d0")
    n3.run("weft-leave", "--root", n3.root, "--forgotten", "--yes")
    world.enroll(n3, "--keep", disks=["d0"])
    n3.serve()
    disks = {str(n2.dir / "d0"), str(n3.dir / "d0")}
    eventually(lambda: disks == {m["path"] for i in world.json("array", "import")["imports"]
                                 for m in i["members"]}, 60,
               what="the disks of the new array to be heard")
    [found] = world.json("array", "import")["imports"]
    world.ctl("array", "import", "newer", found["array"], "--yes")
    world.ctl("array", "allow", "newer", "n3", "--yes")
    world.ctl("revocations", "confirm", "--yes")
    for word in ("revocations", "restored", "is frozen"):
        eventually(lambda: word not in verdict(world), 60, what=f"no more {word}")
    # The shut-out node stays out, without an administrator's order.
    p = evil.run("weft-renew", "--root", evil.root, "--now", check=False)
    assert p.returncode == REFUSED, p


def read_newer(n3):
    h = connected(n3.serve_array("newer"))
    return h.pread(4 * BLOCK, 0)
