"""An array taken over: by a new weftd from its members, and by one host from
another, on a real cluster.

Topology: one raid-x devcluster of four, with an array process or none.
Causes: weftd killed, and its database removed; all the rest killed, too; a member
        that does not ask the new one, for good or until later; a blank disk that
        has asked it before.
        A host that holds the array and lives.
Pass:  weftctl refuses commands that would lose data, with the reason and the way out; all
       flushed data is there afterwards, on every copy.
"""

import os
import random
import re
import shutil
import threading

import pytest

from arraystate import content, states, wait_state
from copies import check_copies, model_of
from heldmessages import Proxied
from nbdclient import connected, refuses
from nbdkitproc import array_of, refused
from weftctlproc import FAILED, REFUSED, USAGE, ctl
from wefttest import background, eventually

MIB = 1 << 20
UNIT = 64 << 10
FILLED = 24 * MIB
# The array announces this as its largest request; libnbd 1.22 sends none larger.
LARGEST = 8 * MIB


def write(h, data):
    for at in range(0, len(data), LARGEST):
        h.pwrite(data[at:at + LARGEST], at)


def read(h, length):
    return b"".join(h.pread(min(LARGEST, length - at), at)
                    for at in range(0, length, LARGEST))


def fill(uri, data):
    h = connected(uri)
    write(h, data)
    h.flush()
    h.shutdown()


def check(c, model, data):
    h = connected(c.nbd)
    assert read(h, len(data)) == data
    h.flush()
    h.shutdown()
    check_copies(c, model, content(c.nbd))


# --- import ---------------------------------------------------------------------------


class Lost:
    """A cluster whose weftd has lost its database."""

    def __init__(self, cluster, ctl, seed, down=(), out=(), replaced=None,
                 all_of_it=False):
        self.c = c = cluster(members=4, unit=UNIT, size="32M")
        self.ctl = ctl(c)
        self.model = model_of(c, "raid-x", UNIT)
        self.before = [(m["position"], m["disk"])
                       for m in c.get("/api/v1/arrays/a")["members"]]
        self.uuid = c.get("/api/v1/arrays/a")["uuid"]
        self.data = random.Random(seed).randbytes(FILLED)
        fill(c.nbd, self.data)
        if replaced is not None:
            new, disk = c.add()
            c.kill(f"m{replaced}")
            wait_state(c, replaced, "out")
            self.ctl("array", "replace", "a", replaced, disk, "--yes")
            self.ctl("rebuild", "wait", "a", replaced)
            down = [*down, new]
            self.before[replaced] = (replaced, disk)
        for name in out:
            c.kill(name)
            self.data = self.data[::-1]
            fill(c.nbd, self.data)
            wait_state(c, int(name[1:]), "out")
        four = ["m0", "m1", "m2", "m3"]
        if all_of_it:
            c.kill("weftd", "array", *four)
        else:
            c.terminate("array")
            c.kill("weftd", *down)
        shutil.rmtree(c.dir / "weftd")
        c.start("weftd")
        if all_of_it:
            # A new disk is enrolled before the old ones are back.
            self.blank = c.add()[1]
            c.start(*four)
        eventually(lambda: self.heard() == 4 - len(down) - len(out),
                   what="the members to ask the new weftd")

    def heard(self):
        found = self.ctl.json("array", "import")["imports"]
        return len(found) == 1 and len(found[0]["members"])


def test_import(cluster, ctl, seed):
    s = Lost(cluster, ctl, seed)
    c, w = s.c, s.ctl
    said = w("array", "import")
    assert f"array {s.uuid}: raid-x, 4 members in 1 group\n" in said
    for m in c.members:
        assert m["file"] in said
    assert "a" in w("attach", "a", "--print-uri", status=REFUSED)
    assert "give the UUID" in w("array", "import", "a", status=USAGE)
    w("array", "import", "a", "0" * 8 + s.uuid[8:], status=REFUSED)
    w("array", "import", "A", s.uuid, status=USAGE)
    assert c.get("/api/v1/arrays") == {"arrays": [], "next": None}

    assert "a is imported" in w("array", "import", "a", s.uuid)
    assert "nothing to import" in w("array", "import")
    a = c.get("/api/v1/arrays/a")
    assert [(m["position"], m["disk"]) for m in a["members"]] == s.before
    c.start("array")
    check(c, s.model, s.data)
    # It is an array as any other: a member may go, and comes back.
    c.kill("m1")
    fill(c.nbd, s.data[::-1])
    eventually(lambda: states(c)[1] == "out")
    c.start("m1")
    w("rebuild", "wait", "a", 1)
    check(c, s.model, s.data[::-1])


class Unheard:
    """A trap for a member's answers: none of a later epoch arrives."""

    def __init__(self, epoch):
        self.epoch, self.dropped = epoch, threading.Event()

    def passes(self, _, where, words, *__):
        place = words.get("assignment")
        if where != "reply" or not isinstance(place, dict) or place["epoch"] <= self.epoch:
            return True
        self.dropped.set()
        return False


def test_import_right_after_a_detach(cluster, ctl, seed):
    """weftd is lost when all members have confirmed the last epoch, and before member 3 has
    heard of its COMMIT."""
    c = cluster(members=4, unit=UNIT, size="32M")
    w, model = ctl(c), model_of(c, "raid-x", UNIT)
    uuid = c.get("/api/v1/arrays/a")["uuid"]
    proxy = Proxied(c)
    c.terminate("array")
    command = c.dir / "m3.cmd"
    was = command.read_text()
    command.write_text(was.replace(c.admin, proxy.admin))
    assert command.read_text() != was
    c.restart("m3")
    c.start("array")
    data = random.Random(seed).randbytes(FILLED)
    fill(c.nbd, data)
    proxy.trap = Unheard(c.get("/api/v1/arrays/a")["epoch"])
    c.terminate("array")
    assert proxy.trap.dropped.wait(40)
    c.kill("weftd")
    shutil.rmtree(c.dir / "weftd")
    c.start("weftd")
    members = eventually(lambda: [
        i["members"] for i in w.json("array", "import")["imports"]
        if len(i["members"]) == 4], what="the members to ask the new weftd")[0]
    epochs = {m["position"]: m["states_epoch"] for m in members}
    assert epochs[3] < epochs[0], epochs
    proxy.trap = None
    w("array", "import", "a", uuid)
    assert states(c) == ["in-sync"] * 4
    c.start("array")
    check(c, model, data)


def test_import_without_a_member(cluster, ctl, seed):
    """A member that does not ask is given up by name; a blank disk takes its place."""
    s = Lost(cluster, ctl, seed, down=["m2"])
    c, w = s.c, s.ctl
    assert "not heard of: 2" in w("array", "import")
    line = w("array", "import", "a", s.uuid, status=REFUSED)
    assert "member 2" in line and "without" in line
    line = w("array", "import", "a", s.uuid, "--without", 2, "--without", 3,
             status=REFUSED)
    assert "no copy is left" in line
    assert c.get("/api/v1/arrays") == {"arrays": [], "next": None}
    w("array", "import", "a", s.uuid, "--without", 2)
    assert states(c)[2] == "out"
    c.start("array")
    h = connected(c.nbd)
    assert h.pread(FILLED, 0) == s.data
    h.shutdown()
    _, disk = c.add()
    w("array", "replace", "a", 2, disk, "--yes")
    w("rebuild", "wait", "a", 2)
    check(c, s.model, s.data)
    # The content of the member that was given up is unknown; it must be formatted again.
    file = c.members[2]["file"]
    line = refused("weft", f"disk={file}", f"admin={c.admin}",
                   "uri=nbd://127.0.0.3:10809")
    assert "format it" in line and file in line
    w("disk", "format", "--force", file)
    c.start("m2")
    w("array", "spare", "add", "a", file)


def test_import_before_a_member_is_back(cluster, ctl, seed):
    """Member 3 was replaced, then member 2 was out while data was flushed.  The disk
    that was replaced is served again, and its successor is late: the import waits for
    that.  Member 2 is silent at the import, and comes back by itself."""
    s = Lost(cluster, ctl, seed, out=["m2"], replaced=3)
    c, w = s.c, s.ctl
    c.start("m3")
    eventually(lambda: s.heard() == 3)
    said = w("array", "import")
    assert "not heard of: 2" in said
    assert f"Member 3: disk {c.members[3]['file']} of node n3 knows epoch" in said
    for more in [], ["--dry-run"], ["--without", 3]:
        line = w("array", "import", "a", s.uuid, *more, status=REFUSED)
        assert "Member 3" in line or "no copy is left" in line
    assert "weftctl array import lists what can be" in w("status")
    assert "rebuilt" not in w("array", "import", "a", s.uuid, "--accept-loss",
                              "--dry-run")
    assert c.get("/api/v1/arrays") == {"arrays": [], "next": None}
    c.start("m4")
    eventually(lambda: s.heard() == 4)
    assert "was member 3 before" in w("array", "import", "a", s.uuid, "--dry-run")
    w("array", "import", "a", s.uuid)
    assert states(c)[2] == "out"
    said = w("status")
    assert "member 2 (a disk that is not known yet) is out" in said
    assert "Start its member process again" in said
    c.start("array")
    h = connected(c.nbd)
    assert h.pread(FILLED, 0) == s.data
    h.shutdown()
    c.restart("weftd")  # the record of it is stored
    c.start("m2")
    w("rebuild", "wait", "a", 2)
    assert [(m["position"], m["disk"])
            for m in c.get("/api/v1/arrays/a")["members"]] == s.before
    check(c, s.model, s.data)


def test_import_after_the_end_of_everything(cluster, ctl, seed):
    """All is killed with the writer attached, and a blank disk has asked first:
    it is no hindrance, and is there to be used."""
    s = Lost(cluster, ctl, seed, all_of_it=True)
    c, w = s.c, s.ctl
    w("array", "import", "a", s.uuid)
    c.start("array")
    check(c, s.model, s.data)
    c.kill("m3")
    w("array", "spare", "add", "a", s.blank)
    w("array", "set", "a", "--spare-after", 1)
    fill(c.nbd, s.data[::-1])
    eventually(lambda: c.get("/api/v1/arrays/a")["members"][3]["disk"]
               == s.blank, what="the blank disk to take the place")
    w("rebuild", "wait", "a", 3)
    check(c, s.model, s.data[::-1])


# --- takeover --------------------------------------------------------------------------


class FarHost:
    """An array process that weftctl can't take for one of this host: it has
    process numbers of its own."""

    def __init__(self, c, directory):
        self.socket, self.ready = directory / "far.sock", directory / "far.ready"
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.log = directory / "far.log"
        self.process = background(
            self.log, "unshare", "--pid", "--fork", "--kill-child", "nbdkit",
            "-f", "-P", self.ready, "-U", self.socket, *array_of(c, "far"), "image-age=10000")

    def up(self):
        assert self.process.poll() is None, self.log.read_text()
        return self.ready.exists()

    def close(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def far(cluster, tmp_path):
    made = []

    def make(c):
        made.append(FarHost(c, tmp_path))
        eventually(made[0].up, what="the other host to have the array")
        return made[0]
    yield make
    for one in made:
        one.close()


def test_takeover(cluster, ctl, far, seed):
    c = cluster(members=4, unit=UNIT, size="32M")
    w = ctl(c)
    model = model_of(c, "raid-x", UNIT)
    c.terminate("array")
    other = far(c)
    old = connected(other.uri)
    data = random.Random(seed).randbytes(FILLED)
    write(old, data)
    old.flush()
    old.pwrite(b"not flushed" * 1000, FILLED)

    def attached_by():
        return c.get("/api/v1/arrays/a")["session"]["node"]

    # The message names the holder, and when weftd last heard it; nothing is changed.
    line = w("attach", "a", "--print-uri", status=REFUSED)
    assert "node far" in line and "--takeover" in line
    assert re.search(r"last heard of \d+\.\d s ago", line), line
    line = w("attach", "a", "--print-uri", "--takeover", status=USAGE)
    assert "node far" in line and "--yes" in line
    status, said = w.on_terminal("attach", "a", "--print-uri", "--takeover",
                                 answer="n")
    assert status == FAILED and "last heard of" in said
    assert attached_by() == "far"
    assert os.listdir(w.env["WEFT_RUN_DIR"]) == []
    old.pwrite(b"still his", FILLED + MIB)

    uri = w("attach", "a", "--print-uri", "--takeover", "--yes").strip()
    assert attached_by() != "far"
    new = connected(uri)
    assert read(new, FILLED) == data
    write(new, data[::-1])
    new.flush()
    for call in (lambda: old.pwrite(b"too late", 0), old.flush,
                 lambda: old.pread(4096, 0)):
        with refuses("ESHUTDOWN"):
            call()
    old.shutdown()
    assert read(new, FILLED) == data[::-1]
    check_copies(c, model, lambda at, n: new.pread(n, at))
    new.shutdown()
    w("detach", "a")
