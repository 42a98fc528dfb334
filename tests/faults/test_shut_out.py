"""A session or node that is shut out reads and writes nothing further.

Topology: weftd and real members, without TLS. The test plays the array processes of node n9,
       and the process that serves a third member on node n7: it has their tokens, and
       disobeys.
Cause: a reader or writer is evicted, or a node is shut out that reads, writes, and
       copies for its joining member; besides, a member hangs, weftd is killed, or
       weftd takes no changes because its database is an old one.
Pass:  within 5 s each request fails, on connections that were open and on new ones,
       and weftd says so, or which members have not confirmed it; nobody else is
       disturbed.
"""

import shutil
import time

import nbd
import pytest

from memberhost import Array
from weftdactors import Member
from wefttest import Stopwatch, eventually

LIMIT = 5


class Intruder:
    """Connections that were open, and the tokens that they were opened with."""

    def __init__(self, array, tokens, members=None, doors=("data", "intents")):
        self.array, self.tokens, self.doors = array, tokens, doors
        self.members = range(len(tokens)) if members is None else members
        self.handles = [array.open(m, d, tokens[m][d])
                        for m in self.members for d in doors]
        assert all(self.requests())

    def requests(self):
        return [self.works(h) for h in self.handles]

    def works(self, h):
        try:
            h.pread(1, 0)
            if not h.is_read_only():
                h.pwrite(b"x", 0)
                h.flush()
            return True
        except nbd.Error as e:
            assert e.errno == "ESHUTDOWN", e
            return False

    def opens(self):
        found = []
        for m in self.members:
            for d in self.doors:
                try:
                    self.array.open(m, d, self.tokens[m][d])
                    found.append((m, d))
                except nbd.Error:
                    pass
        return found

    def is_out(self):
        return not any(self.requests()) and not self.opens()

    def goes_out(self, began):
        eventually(self.is_out, seconds=LIMIT, every=0.05)
        assert began.seconds() < LIMIT


@pytest.fixture
def array(cluster):
    return Array(cluster(members=3, size="61M", no_array=True))


def sessions(array):
    return array.c.get("/api/v1/sessions")["sessions"]


def evict(array, mode):
    [s] = [s for s in sessions(array) if s["mode"] == mode]
    began = Stopwatch(disk=True)
    assert array.c.call("DELETE", f"/api/v1/sessions/{s['id']}")[0] == 200
    return began


def shut_out(array, node):
    status, r = array.c.call("DELETE", f"/api/v1/nodes/{node}/certificate")
    assert status == 200, r
    return r["unconfirmed"]


def all_are_shut_out(array, node):
    """Confirmed by each member, within the bound; since when."""
    began = Stopwatch(disk=True)
    while left := shut_out(array, node):
        assert began.seconds() < LIMIT, left
    assert began.seconds() < LIMIT
    return began


def test_evicted(array):
    writer = Intruder(array, array.attach(), doors=("data",))
    reader = Intruder(array, array.attach("ro"))
    reader.goes_out(evict(array, "ro"))
    assert all(writer.requests()) and len(writer.opens()) == 3
    writer.goes_out(evict(array, "rw"))


def test_one_of_two(array):
    """The other one of the same node reads on."""
    reader, stays = (Intruder(array, array.attach("ro")) for _ in range(2))
    s = min(sessions(array), key=lambda s: s["since"])
    began = Stopwatch(disk=True)
    assert array.c.call("DELETE", f"/api/v1/sessions/{s['id']}")[0] == 200
    reader.goes_out(began)
    assert all(stays.requests()) and stays.opens()


def test_node(array):
    """Its readers and its writer, in one."""
    all_of_it = [Intruder(array, array.attach(), doors=("data",)),
                 Intruder(array, array.attach("ro")),
                 Intruder(array, array.attach("ro"))]
    all_are_shut_out(array, "n9")
    assert all(i.is_out() for i in all_of_it)
    assert sessions(array) == []
    assert shut_out(array, "n9") == []  # once more
    assert array.c.call("DELETE", "/api/v1/nodes/n8/certificate")[0] == 404


def reads_its_own_copies(array, source):
    """Each block of the joining member has one other copy, and nothing else is read;
    that it may read these is in the audit trail, once."""
    readable, unit = 0, 65536
    data = [h for h, door in zip(source.handles, 2 * ["data", "intents"])
            if door == "data"]
    for h in data:
        size = h.get_size()
        with pytest.raises(nbd.Error) as e:
            h.pread(8 * unit, 0)
        assert e.value.errno == "EPERM"
        for at in range(0, size, unit):
            try:
                readable += len(h.pread(min(unit, size - at), at))
            except nbd.Error as e:
                assert e.errno == "EPERM", e
    assert readable == array.show()["member_bytes"]
    lines = [line for line in array.c.get("/api/v1/audit?limit=1000")["audit"]
             if "its rebuild reads" in (line["subject"] or "")]
    assert len(lines) == 1 and lines[0]["subject"].startswith("a/2, disk ")
    assert lines[0]["subject"].endswith("reads members 0-1")


def test_source(cluster):
    """A member's process that copies from others for a node that is shut out."""
    c = cluster(members=2, size="61M", no_array=True)

    class Api:
        @staticmethod
        def call(method, path, body):
            return c.call(method, "/api/v1" + path, body)

    m = Member(Api, 7)
    m.data_bytes = 61 << 20
    m.stay_joining()
    m.start()
    eventually(lambda: len(c.get("/api/v1/disks")["disks"]) == 3)
    array = Array.__new__(Array)
    array.c, array.session = c, None
    disks = {d["node"]: d["uuid"] for d in c.get("/api/v1/disks")["disks"]}
    assert c.call("POST", "/api/v1/arrays", {
        "name": "a", "layout": "raid-x", "unit": 65536,
        "disks": [disks["n0"], disks["n1"], m.uuid]})[0] == 201
    eventually(lambda: array.show()["state"] == "ready")
    m.state, m.reason = "failed", "the test says so"
    eventually(lambda: array.show()["members"][2]["state"] == "out")
    m.stop()
    m.instance, m.state, m.reason = "beef" * 4, "serving", None
    m.start()
    order = eventually(lambda: m.order and m.order["sources"] and m.order,
                       seconds=30)
    source = Intruder(array, {s["member"]: s["tokens"] for s in order["sources"]},
                      members=[s["member"] for s in order["sources"]])
    reads_its_own_copies(array, source)
    m.stop()
    began = all_are_shut_out(array, "n7")
    assert source.is_out() and began.seconds() < LIMIT
    assert array.show()["members"][2]["state"] == "out"


def test_a_member_that_hangs(array):
    """It is named, and weftd may be killed meanwhile."""
    reader = Intruder(array, array.attach("ro"), members=[1])
    array.c.stop("m1")
    began = Stopwatch(disk=True)
    [left] = shut_out(array, "n9")
    assert time.monotonic() - began.begin > LIMIT - 1
    assert began.seconds() < LIMIT + 2
    assert left.startswith("member 1 of array a (")
    assert "has not confirmed" in array.c.get("/api/v1/status")["verdict"]
    array.c.kill("weftd")
    array.c.start("weftd")
    array.c.cont("m1")
    eventually(reader.is_out, seconds=10)
    eventually(lambda: shut_out(array, "n9") == [], seconds=20)
    assert "has not confirmed" not in array.c.get("/api/v1/status")["verdict"]


def test_a_member_that_is_started_again(array):
    """A token opens one life: nothing needs to be remembered."""
    reader = Intruder(array, array.attach("ro"), members=[1])
    evict(array, "ro")
    array.restart(1)
    assert not reader.opens()


def test_weftd_takes_no_changes(array):
    """Its database is older than its members: the members that it knows get the order."""
    c = array.c
    writer = Intruder(array, array.attach(), doors=("data",))
    reader = Intruder(array, array.attach("ro"))
    c.kill("weftd")
    old = c.dir / "old-database"
    state = next(c.dir.glob("**/weftd.db")).parent
    shutil.copytree(state, old)
    for _ in range(2):
        c.start("weftd")
        eventually(lambda: all(d["alive"] for d in
                               c.get("/api/v1/disks")["disks"]))
        time.sleep(2)
        c.kill("weftd")
    shutil.rmtree(state)
    shutil.copytree(old, state)
    c.start("weftd")
    eventually(lambda: c.get("/api/v1/status")["read_only"])
    assert all(reader.requests()) and all(writer.requests())
    began = all_are_shut_out(array, "n9")
    assert reader.is_out() and writer.is_out()
    assert began.seconds() < LIMIT
    assert shut_out(array, "n9") == []


@pytest.mark.long(70)
def test_many_readers(array):
    """More than one answer has room for; the writer goes on, its door open."""
    writer = Intruder(array, array.attach(), doors=("data",))
    first = Intruder(array, array.attach("ro"), members=[0])
    for _ in range(150):
        status, r = array.c.call("POST", "/api/v1/arrays/a/sessions", {
            "instance": f"{_:032x}", "node": f"n{20 + _ // 50}", "pid": 1,
            "mode": "ro", "uri": None})
        assert status == 201, r
        assert array.c.call("DELETE", f"/api/v1/sessions/{r['session']}")[0] \
            == 200
    assert all(first.requests()) and all(writer.requests())
    first.goes_out(evict(array, "ro"))
    assert all(writer.requests())
