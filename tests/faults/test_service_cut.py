"""An array that is served to several hosts, whose hosts are cut off.

Topology: a network namespace for each of weftd, four members, two nodes that may serve
          the array, and a client of the service (tests/netcluster.py); fio writes
          and verifies all along.
Cause: blackhole routes between them, and their removal.
Pass:  the client goes on within 15 s, sees no error and reads what it wrote; a server
       that was cut off, and wakes up, does no harm and ends; in the end all copies
       are alike.
"""

import os
import time

import pytest

from certificates import Authority
from copies import check_copies, model_of
from fiojob import Load
from netcluster import Client, NetCluster
from servedarray import BOUND_S, Pulse
from wefttest import background, eventually, run

pytestmark = pytest.mark.long(20)

# If a client alone does not reach who serves, it goes on so soon: TCP gives up after 4 s,
# two connections fail in 3 s each, and the service moves between them.
MOVES_S = 20


def loaded(net, seed):
    load = Load(net.uri("c0"), seed, inside=net.inside("c0"))
    load.start()
    eventually(lambda: load.jobs > 0 or load.failure, 60)
    return load


def whole(net, load):
    net.heal()
    load.end()
    net.in_sync()
    check_copies(net, model_of(net, net.layout, net.unit))


def pulse_of(net):
    return Pulse(net.uri("c0"), net.inside("c0"))


def goes_on(net, was):
    """Another serves within the bound, and answers."""
    eventually(lambda: net.serving() not in (None, was), BOUND_S, every=0.05,
               what="another to serve")


def test_server_cut_off(tmp_path, seed):
    with NetCluster(tmp_path, servers=["s0", "s1"], clients=["c0"]) as net:
        load = loaded(net, seed)
        assert net.serving() == "s0"
        pulse = pulse_of(net)
        time.sleep(1)
        begin = time.monotonic()
        net.cut_off("s0")
        jobs = load.jobs
        goes_on(net, "s0")
        eventually(lambda: load.jobs > jobs + 1 or load.failure, 60)
        assert not load.failure
        assert pulse.longest() < BOUND_S and pulse.paused > 5
        assert net.get("/api/v1/arrays/a/service")["lapse"] == 0
        net.heal()
        # It hears that its session is over, and that nothing of it counts any more.
        p = net.processes.pop("serve-s0")
        assert p.wait(60) == 0
        assert time.monotonic() - begin > 10
        whole(net, load)


def test_server_with_a_member_cut_off(tmp_path, seed):
    """Its host has a member: with sync-client nothing is lost by that."""
    with NetCluster(tmp_path, layout="raid-10", dup="sync-client",
                    servers=["h1", "h2"], clients=["c0"]) as net:
        load = loaded(net, seed)
        assert net.serving() == "h1"
        pulse = pulse_of(net)
        time.sleep(1)
        net.cut_off("h1")
        jobs = load.jobs
        goes_on(net, "h1")
        eventually(lambda: load.jobs > jobs + 1 or load.failure, 60)
        assert not load.failure
        assert pulse.longest() < BOUND_S and pulse.paused > 5
        assert net.states()[1] == "out"
        assert net.get("/api/v1/arrays/a/service")["lapse"] == 0
        net.heal()
        p = net.processes.pop("serve-h1")
        assert p.wait(60) == 0
        whole(net, load)


@pytest.mark.parametrize("ways", ["both", "there", "back"])
def test_client_and_server(tmp_path, seed, ways):
    """They do not hear each other, and weftd hears both: the service moves. Where the
    next server is not reached either, requests wait, and weftd says for what."""
    with NetCluster(tmp_path, servers=["s0", "s1"], clients=["c0"]) as net:
        load = loaded(net, seed)
        pulse = pulse_of(net)
        time.sleep(1)
        if ways in ("both", "there"):
            net.cut("c0", "s0")
        if ways in ("both", "back"):
            net.cut("s0", "c0")
        jobs = load.jobs
        goes_on(net, "s0")
        eventually(lambda: load.jobs > jobs + 1 or load.failure, 60)
        assert not load.failure
        assert pulse.longest() < MOVES_S
        assert net.get("/api/v1/arrays/a/service")["lapse"] == 0
        assert net.processes.pop("serve-s0").wait(60) == 0
        if ways == "both":
            net.start("serve-s0", wait=False)
            eventually(lambda: net.standing_by() == ["s0"], 30)
            net.cut_both("c0", "s1")
            time.sleep(15)  # longer than any time-out of the client
            jobs = load.jobs
            waits = "Node c0 does not reach node s1, which serves array a"
            assert net.get("/api/v1/arrays/a/service")["unreached"].startswith(waits)
            assert waits in net.get("/api/v1/status")["verdict"]
            time.sleep(2)
            assert load.jobs == jobs and not load.failure
            net.heal()
            eventually(lambda: load.jobs > jobs + 1 or load.failure, 60)
            assert net.serving() == "s1"
            eventually(lambda: net.get("/api/v1/arrays/a/service")["unreached"] is None,
                       10)
        whole(net, load)


def test_client_and_weftd(tmp_path, seed):
    """A client that can't ask goes on; when another serves, it waits until it can."""
    with NetCluster(tmp_path, servers=["s0", "s1"], clients=["c0"]) as net:
        load = loaded(net, seed)
        net.cut_both("c0", "w")
        jobs = load.jobs
        eventually(lambda: load.jobs > jobs + 1 or load.failure, 60)
        net.kill("serve-s0")
        goes_on(net, "s0")
        time.sleep(2)
        jobs = load.jobs
        assert not load.failure
        net.heal()
        eventually(lambda: load.jobs > jobs + 1 or load.failure, 60)
        whole(net, load)


WRITE = """
import nbd, sys
h = nbd.NBD()
h.set_tls_certificates(sys.argv[2])
h.connect_uri(sys.argv[1])
h.pwrite(b"1" * 4096, 0)
h.flush()
"""


def test_other_hosts_come_by_the_service(tmp_path):
    """From another host who serves lets only clients of the service in: others would
    not be stopped by a fence of their node."""
    ca = Authority(tmp_path / "ca")
    tls = {host: ca.host(tmp_path / host, host,
                         *(f"{net}.0.{i}" for net in ("127.77", "10.77")
                           for i in range(1, 9)))
           for host in ("s0", "c0")}
    with NetCluster(tmp_path, members=2, layout="raid-1", servers=["s0"],
                    clients=["c0"], tls=tls) as net:
        def writes(host, uri):
            p = run(*net.inside(host, "/usr/bin/python3", "-c", WRITE, uri, tls[host]),
                    check=False)
            return p.returncode == 0
        there = f"nbds://{net.outside('s0')}:10809"
        for export in ("", "/a"):
            assert not writes("c0", there + export)
        assert net.log("serve-s0").count("hosts use it by way of") == 2
        assert "weftctl attach a --shared" in net.log("serve-s0")
        assert writes("s0", net.uri("s0").replace("nbd:", "nbds:"))
        assert writes("c0", net.uri("c0"))
def test_server_member_and_client_cut_off(tmp_path):
    """All three on one host: the former server reads nothing old there to the client,
    which follows the next one when it can."""
    with NetCluster(tmp_path, layout="raid-10", servers=["h0", "h2"],
                    clients=["c0"]) as net:
        assert model_of(net, net.layout, net.unit).copies(0)[0][0] == 0
        assert net.serving() == "h0"
        ready = f"{net.dir}/use-h0.ready"
        net.processes["use-h0"] = background(
            f"{net.dir}/use-h0.log", *net.inside(
                "h0", "nbdkit", "-f", "-P", ready, "-i", net.address("h0"), "-p",
                "10811", "weft", "service=a", "node=h0",
                f"admin=http://{net.address('w')}:7380"), start_new_session=True)
        eventually(lambda: os.path.exists(ready), 30)
        with Client(net, "h0", f"nbd://{net.address('h0')}:10811") as old, \
                Client(net, "c0", net.uri("c0")) as new:
            old.ask("write old")
            assert old.answer() == "old"
            net.cut_off("h0")
            goes_on(net, "h0")
            new.ask("write new")
            assert new.answer() == "new"
            assert net.states()[0] == "out"
            old.ask("read")
            assert old.answer(8) is None
            net.heal()
            assert old.answer() == "new"
            assert net.processes.pop("serve-h0").wait(60) == 0
