"""Nodes are drained and hosts evicted while clients write.

Topology: a raid-x devcluster of four members, each on a node of its own, and
          blank disks on further nodes; a client that knows what a FLUSH has
          promised.
Cause: an administrator drains nodes, with weftd killed on the way; or puts a
       node in maintenance and kills its member; or evicts the array process.
Pass:  A client sees errors only if it was evicted, and the copies on the members' files are as
       written.  An evicted one gets ESHUTDOWN, its process names the administrator, and all
       data flushed before is there afterwards.
"""

import random

import pytest

import fiojob
from arraystate import states, wait_in_sync, wait_state, writing
from blockwriter import Writer
from copies import check_copies, model_of
from nbdclient import connected, refuses
from nbdkitproc import Nbdkit, array_of
from wefttest import eventually, http

UNIT = 64 << 10


@pytest.fixture
def rng():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return random.Random(seed)


def node_of(c, number):
    return c.get("/api/v1/arrays/a")["members"][number]["node"]


def drained(c, node):
    return c.get(f"/api/v1/nodes/{node}")["drained"]


def check(c):
    h = connected(c.nbd)
    h.flush()
    check_copies(c, model_of(c, "raid-x", UNIT), lambda at, n: h.pread(n, at))
    h.shutdown()


def test_a_drain_under_load(cluster, rng):
    c = cluster(members=4, unit=UNIT, size="64M")
    names = [c.add()[0] for _ in range(2)]
    with writing(c, rng) as w:
        w.until_flushed(3)
        for node in ("n1", "n2"):
            status, job = c.call("POST", f"/api/v1/nodes/{node}/drain", {})
            assert (status, job["kind"]) == (202, "drain")
        # The first member is out or moves: weftd dies now, and again later.
        eventually(lambda: set(states(c)) != {"in-sync"})
        for _ in range(2):
            c.kill("weftd")
            w.until_flushed(1)
            c.start("weftd")
            eventually(lambda: http("GET", c.admin + "/api/v1/jobs")[0] == 200)
        seen = set()

        def done():
            now = states(c)
            seen.add(tuple(now))
            assert now.count("in-sync") >= 3, now
            return drained(c, "n1") and drained(c, "n2")
        eventually(done, 120, every=0.05, what="both nodes to be drained")
        wait_in_sync(c)
        assert len(seen) > 1
        w.until_flushed(3)
    assert {node_of(c, 1), node_of(c, 2)} == {"n" + name[1:] for name in names}
    jobs = {j["id"]: j for j in c.get("/api/v1/jobs")["jobs"]}
    for node in ("n1", "n2"):
        assert jobs[f"drain-{node}"]["state"] == "done"
        assert c.get(f"/api/v1/nodes/{node}/ok-to-stop")["ok"]
    check(c)

    # A drained node can be removed.
    assert c.call("DELETE", "/api/v1/nodes/n1")[0] == 409
    c.terminate("m1")
    eventually(lambda: c.call("DELETE", "/api/v1/nodes/n1")[0] == 200)
    assert c.call("GET", "/api/v1/nodes/n1")[0] == 404


def test_maintenance_keeps_the_spare_away(cluster, rng):
    c = cluster(members=4, unit=UNIT, size="64M")
    _, spare = c.add()
    for method, path, body in (
            ("POST", "/api/v1/arrays/a/spares", {"disk": spare}),
            ("PATCH", "/api/v1/arrays/a", {"spare_after_s": 1}),
            ("PATCH", "/api/v1/nodes/n1", {"maintenance": True})):
        assert c.call(method, path, body)[0] == 200
    with writing(c, rng) as w:
        w.until_flushed(1)
        c.kill("m1")
        wait_state(c, 1, "out")
        w.until_flushed(5)
        status = c.get("/api/v1/status")
        assert status["health"] == "warning", status["verdict"]
        assert "no spare takes its place" in status["verdict"]
        assert not c.get("/api/v1/nodes/n2/ok-to-stop")["ok"]
        assert c.get("/api/v1/arrays/a")["members"][1]["spare_at"] is None
        c.start("m1")
        wait_in_sync(c)
        assert c.call("PATCH", "/api/v1/nodes/n1",
                      {"maintenance": False})[0] == 200
        c.kill("m1")
        eventually(lambda: node_of(c, 1) == "n4", what="the spare to take over")
        wait_in_sync(c)
    check(c)


def evict(c):
    session = c.get("/api/v1/arrays/a")["session"]["id"]
    status, said = c.call("DELETE", f"/api/v1/sessions/{session}?dry_run=true")
    assert status == 200 and said["allowed"]
    assert c.call("DELETE", f"/api/v1/sessions/{session}")[0] == 200


def said_who(c):
    eventually(lambda: "evicted by" in c.log("array"),
               what="the evicted process to say who did it")


def test_an_evicted_writer(cluster, rng):
    # Images stay in the buffer for long, so that it loses some.
    c = cluster(members=4, unit=UNIT, size="64M", image_age=10000)
    w = Writer(c.nbd, rng)
    w.start()
    w.until_flushed(3)
    evict(c)
    w.broken()
    assert w.error.errno == "ESHUTDOWN", w.error
    with refuses("ESHUTDOWN"):
        w.handle.pread(4096, 0)
    said_who(c)
    # The next process finds every flushed byte, on both copies.
    with Nbdkit(*array_of(c)) as second:
        w.check(second.uri)
        h = connected(second.uri)
        h.flush()
        check_copies(c, model_of(c, "raid-x", UNIT),
                     lambda at, n: h.pread(n, at))
        h.shutdown()
    # It does not end by itself, nor attach again, though the array is free.
    late = connected(c.nbd)
    with refuses("ESHUTDOWN"):
        late.pread(4096, 0)
    late.shutdown()
    assert c.get("/api/v1/arrays/a")["session"] is None
    c.terminate("array")
    c.start("array")
    w.check(c.nbd)


def test_fio_of_an_evicted_writer_fails(cluster):
    c = cluster(members=4, unit=UNIT, size="64M")
    fio = fiojob.Fio(c.nbd, verify=False, size="16M", time_based=True,
                     runtime=60)
    eventually(lambda: c.get("/api/v1/arrays/a")["session"]
               ["load"]["write_bytes"] > 0, what="fio to write")
    evict(c)
    out, err = fio.process.communicate(timeout=30)
    assert fio.process.returncode != 0
    assert "shutdown" in (out + err).lower() or "108" in out + err, out + err
    said_who(c)
