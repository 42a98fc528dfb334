"""Which nodes may attach an array: weftctl array allow and deny.

Topology: weftd and three nodes that have enrolled, each in a network namespace of its
      own, with TLS.  n1 and n2 have the disks of array a, n3 has none.
Cause: n3 attaches the array, takes it over, uses its service; it gets that right and
      loses it.
Pass: n3 may do what the array's list allows, and nothing else, at most 5 s after the list was
      changed; a refusal names the command that gives the right.
"""

import json

import nbd
import pytest

from enrollworld import World
from nbdclient import connected, refuses
from wefttest import Stopwatch, eventually

BOUND_S = 5
BLOCK = b"w" * 4096


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("allow")) as w:
        w.n1, w.n2 = (w.serving(n, "d0") for n in ("n1", "n2"))
        w.ctl("array", "create", "a", "--layout", "raid-1", "--yes", *[
            x for n in (w.n1, w.n2) for x in ("--disk", f"{n.name}:{n.disk('d0')}")])
        w.n3 = w.node("n3")
        w.enroll(w.n3)
        yield w


@pytest.fixture(autouse=True)
def as_it_was(world):
    """Nothing is attached, and the list is that of the beginning."""
    yield
    for n in (world.n1, world.n2, world.n3):
        for name in [x for x in n.processes if x != "d0"]:
            n.end(name)
    world.ctl("array", "service", "a", "--off", "--yes", check=False)
    allow(world, "n1", "rw")
    allow(world, "n2", "rw")
    deny(world, "n3")
    eventually(lambda: sessions(world) == [])


def allow(w, node, *words):
    return w.ctl("array", "allow", "a", node, *words, "--yes").stdout


def deny(w, node):
    return w.ctl("array", "deny", "a", node, "--yes").stdout


def listed(w):
    return [(x["node"], x["mode"], x["failover"])
            for x in w.json("array", "show", "a")["allow"]]


def sessions(w):
    return w.json("session", "ls")["sessions"]


def begin(n, name, *words, options=(), served_at=None):
    """An array process on this node, as its unit starts it."""
    config = n.settings(n.conf)
    sock = n.dir / f"{name}.sock"
    sock.unlink(missing_ok=True)
    where = ["-i", n.address, "-p", str(served_at), "--tls=require",
             "--tls-verify-peer", f"--tls-certificates={config['WEFT_TLS']}"] \
        if served_at else ["-U", str(sock)]
    pid = n.dir / f"{name}.pid"
    pid.unlink(missing_ok=True)
    n.popen(name, "nbdkit", "-f", "-P", str(pid), *where, *options, "weft", *words,
            f"admin={config['WEFT_ADMIN']}", f"node={n.name}",
            f"tls={config['WEFT_TLS']}")
    return pid


def attach(n, *words, options=()):
    pid = begin(n, "array", *words or ["array=a"], options=options)
    eventually(pid.exists, 40, what=f"{n.name}: {n.log('array')[-800:]}")
    return connected(f"nbd+unix:///?socket={n.dir}/array.sock")


def refused(n, *words, options=()):
    """It does not start.  Returns its log."""
    begin(n, "array", *words or ["array=a"], options=options)
    p = n.processes["array"]
    assert p.wait(40) != 0
    del n.processes["array"]
    return n.log("array")


def asks(n):
    """The node asks weftd itself for a session that reads: the answer, and its status."""
    body = {"instance": "cafe", "node": n.name, "pid": 1, "mode": "ro"}
    etc = n.settings(n.conf)["WEFT_TLS"]
    p = n.run("curl", "-s", "-w", "\n%{http_code}", "--cacert",
              f"{etc}/ca-cert.pem", "--cert", f"{etc}/client-cert.pem", "--key",
              f"{etc}/client-key.pem", "-H", "Content-Type: application/json",
              "-d", json.dumps(body), n.world.admin + "/api/v1/arrays/a/sessions")
    answer, status = p.stdout.rsplit("\n", 1)
    return json.loads(answer), status


def fails_soon(since, *requests):
    """All of these have failed, each time, when the bound has passed."""
    for request in requests:
        def fails():
            try:
                request()
            except nbd.Error:
                return True
            return False
        eventually(fails, BOUND_S)
        assert since.seconds() < BOUND_S
        assert fails()


def test_nodes_without_a_disk(world):
    """The list begins with the nodes of the disks, and binds all others."""
    assert listed(world) == [("n1", "rw", False), ("n2", "rw", False)]
    assert "n1, n2" in world.ctl("array", "show", "a").stdout
    for options in ((), ("-r",)):
        said = refused(world.n3, options=options)
        assert "node n3 may not attach array a" in said
        assert "weftctl array allow a n3" in said
    attach(world.n2).shutdown()
    world.n2.end("array")

    # A client without heartbeats asks weftd itself.
    problem, status = asks(world.n3)
    assert (problem["code"], status) == ("not-allowed", "403")
    [line] = [x for x in world.json("audit")["audit"]
              if x["who"] == "n3" and x["status"] == 403]
    assert line["times"] >= 3 and line["subject"] == "a"


def test_allowed(world):
    said = allow(world, "n3", "ro")
    assert said == "array a: node n3 may read it\n"
    assert "node n3 may only read array a" in refused(world.n3)
    h = attach(world.n3, options=("-r",))
    assert h.is_read_only() and len(h.pread(4096, 0)) == 4096
    with refuses("EPERM"):
        h.set_strict_mode(0)
        h.pwrite(BLOCK, 0)
    world.n3.end("array")
    allow(world, "n3")
    h = attach(world.n3)
    h.pwrite(BLOCK, 0)
    h.flush()
    assert h.pread(4096, 0) == BLOCK
    [change] = [x for x in world.json("audit")["audit"]
                if x["subject"] == "a for n3, ro"][-1:]
    assert change["action"] == "PUT /arrays/{name}/allow/{node}"


def test_takeover(world):
    """From who is heard it is a right of its own; an administrator evicts."""
    allow(world, "n3")
    h = attach(world.n3)
    said = refused(world.n1, "array=a", "takeover=true")
    assert "node n1 may not take array a from node n3" in said
    assert "weftctl session evict" in said and "--failover" in said
    h.pwrite(BLOCK, 4096)
    allow(world, "n1", "--failover")
    assert ("n1", "rw", True) in listed(world)
    watch = Stopwatch(disk=True)
    other = attach(world.n1, "array=a", "takeover=true")
    fails_soon(watch, lambda: h.pwrite(BLOCK, 0), lambda: h.pread(512, 0))
    other.pwrite(BLOCK, 0)
    world.n3.end("array")

    # weftctl, where an administrator is logged in.
    world.ctl("array", "allow", "a", "n1", "--yes")
    n3 = world.n3
    n3.run("weftctl", "login", "--user", "ann", "--password-file", world.password)
    uri = n3.run("weftctl", "attach", "a", "--takeover", "--yes", "--print-uri",
                 env={"WEFT_RUN_DIR": str(n3.dir / "run")}).stdout.strip()
    assert connected(uri).pread(4096, 0) == BLOCK
    [session] = sessions(world)
    assert session["node"] == "n3"
    n3.run("weftctl", "detach", "a", env={"WEFT_RUN_DIR": str(n3.dir / "run")})
    n3.run("weftctl", "logout")


@pytest.mark.parametrize("change", [("deny",), ("allow", "ro")])
def test_the_list_shrinks(world, change):
    """Under an open session: writes and reads fail, and the next session is admitted."""
    allow(world, "n3")
    h = attach(world.n3)
    h.pwrite(BLOCK, 0)
    # The command shows the cost first, and acts only after a yes.
    p = world.ctl("array", change[0], "a", "n3", *change[1:], check=False)
    assert p.returncode != 0 and "its unflushed writes are lost" in p.stdout
    h.pwrite(BLOCK, 0)
    watch = Stopwatch(disk=True)
    world.ctl("array", change[0], "a", "n3", *change[1:], "--yes")
    fails_soon(watch, lambda: h.pwrite(BLOCK, 0), lambda: h.pread(4096, 0))
    assert "evicted by token" in world.n3.log("array")
    attach(world.n1).pwrite(BLOCK, 0)


def test_tokens_are_for_a_node(world):
    """The tokens of one node's session are invalid with another node's certificate."""
    answer, status = asks(world.n2)
    assert status == "201"
    for m in answer["map"]["members"]:
        door = f"{m['uri']}/data/{m['tokens']['data']}?tls-certificates="
        own, other = (n.run("nbdinfo", "--size", f"{door}{n.etc}/tls", check=False)
                      for n in (world.n2, world.n3))
        assert own.returncode == 0, own.stderr
        assert other.returncode != 0
    assert any("the token is for node n2 alone, and the client shows the certificate "
               "of node n3" in n.log("d0") for n in (world.n1, world.n2))
    world.ctl("session", "evict", sessions(world)[0]["id"], "--yes")


def test_a_reader_that_is_denied(world):
    allow(world, "n3", "ro")
    h = attach(world.n3, options=("-r",))
    h.pread(4096, 0)
    watch = Stopwatch(disk=True)
    deny(world, "n3")
    fails_soon(watch, lambda: h.pread(4096, 0))


def test_weftd_is_killed_in_between(world):
    """The list persists, and admitted sessions go on."""
    allow(world, "n3", "--failover")
    h = attach(world.n3)
    world.w.end("weftd", 9)
    world.start_weftd()
    eventually(lambda: sessions(world))
    assert listed(world)[-1] == ("n3", "rw", True)
    h.pwrite(BLOCK, 0)
    h.flush()


def test_service(world):
    """Its clients' nodes are in the list, too."""
    world.ctl("array", "service", "a", "--on", "n1")
    uri = f"uri=nbds://{world.n1.address}:10809"
    begin(world.n1, "service", "array=a", "service=yes", uri, served_at=10809)
    eventually(lambda: sessions(world), 40)
    said = refused(world.n3, "service=a")
    assert "node n3 may not attach array a" in said
    allow(world, "n3", "ro")
    assert "node n3 may only read array a" in refused(world.n3, "service=a")
    h = attach(world.n3, "service=a", options=("-r",))
    h.pread(4096, 0)
    world.n3.end("array")
    allow(world, "n3")
    h = attach(world.n3, "service=a")
    h.pwrite(BLOCK, 8192)
    watch = Stopwatch(disk=True)
    allow(world, "n3", "ro")
    fails_soon(watch, lambda: h.pwrite(BLOCK, 0), lambda: h.pread(4096, 0))

    # To serve it is to write it.
    world.ctl("array", "service", "a", "--on", "n1,n3")
    assert ("n3", "rw", False) in listed(world)
    deny(world, "n3")
    assert [x["node"] for x in world.json("array", "service", "a")["nodes"]] == ["n1"]


def test_removed(world):
    """A node that is gone is in no list, nor is one of its name later."""
    n4 = world.node("n4")
    world.enroll(n4)
    allow(world, "n4")
    world.ctl("node", "remove", "n4", "--yes")
    assert [x[0] for x in listed(world)] == ["n1", "n2"]
