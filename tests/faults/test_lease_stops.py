"""A process is stopped, or killed, at each step of granting a lease, of giving it back
and of recovering what a dead one had.

Topology: devclusters whose array is shared by leases; array processes speak to weftd,
          and where a step needs it to members, by proxies of the test.
Cause: SIGSTOP, for longer than a session lives unheard, at a message of the protocol;
       then SIGCONT, and what was on its way arrives.  weftd is stopped or killed when
       it has decided, and before anybody has its answer.
Pass:  For each sector one order of all operations explains all reads.  The others go on, and
       wait no longer than for a dead host.  A host that was ended while it was stopped
       completes nothing that it began afterwards, no write of it comes late, and it says why
       it ends.  When weftd is stopped no host is ended.  In the end all copies are alike.
"""

import contextlib
import os
import random
import signal
import time

import pytest

from arraystate import content, wait_in_sync
from copies import check_copies, model_of
from heldmessages import (Proxied, Trap, answer_to, next_request, reply, request,
                          write)
from nbdclient import connected
from nbdkitproc import Nbdkit
from sectorhistory import SECTOR, History, Paced
from wefttest import Process, Stopwatch, at_once, eventually

# One after the other: each has thousands of threads, mostly of nbdkit, which has 16 for
# each connection, and a machine has 32768 at most.
pytestmark = pytest.mark.xdist_group("many threads")

UNIT = 64 << 10
REGION = 2 << 20
TTL_S = 10    # SESSION_TTL_MS
RECOVERY_S = TTL_S + 5
STANDS_S = TTL_S + 2  # weftd
# A range that one host writes just before it is killed, and no other host touches: larger than
# all recent writes of the clients.
COLD, LARGE = range(20 << 20, (20 << 20) + UNIT), UNIT // 2

# The messages that come, one after the other, until the host is stopped; the numbers of those
# that are held until it goes on; and how many sectors the clients write.
HOST_STEPS = {
    "asks": ([request("ask")], (), 16),
    "is granted something": ([reply("granted")], (), 16),
    "writes what it was granted": ([reply("granted"), write()], (1,), 16),
    "hears that it is to leave, and writes there":
        ([write(), reply("revoke"), next_request("heartbeat")], (0,), 1),
    "has left": ([request("give")], (0,), 16),
    "has given back": ([answer_to("give")], (), 16),
    "knows that it has given back": ([answer_to("give"), request("ask")], (), 1),
}
RECOVERER_STEPS = {
    "is ordered": ([reply("recover")], ()),
    "has taken the order": ([reply("recover"), next_request("order")], ()),
    "copies": ([reply("recover"), write(LARGE)], (1,)),
    "is done": ([request("recovered")], (0,)),
    "has said so": ([answer_to("recovered")], ()),
}
WEFTD_STEPS = {
    "grants": reply("granted"),
    "takes back": answer_to("give"),
    "hears what there is": answer_to("declare"),
    "hears of a recovery": answer_to("recovered"),
}


class Host:
    """An array process, and its clients.  It ends with the thread that makes it: so
    Debian 12's nbdkit -f has it."""

    def __init__(self, world, node, proxied=True, members=False, trap=None):
        self.world, self.node, self.clients, self.counts = world, node, [], []
        self.proxy = Proxied(world.c, members, trap) if proxied else None
        self.process = world.close.enter_context(Nbdkit(
            "weft", "array=a", "mode=shared", f"node={node}",
            f"admin={self.proxy.admin if self.proxy else world.c.admin}"))
        self.uri = self.process.uri

    def client(self, run):
        one = Paced(self.world.history, self.uri, self.world.mine(), [run])
        self.clients.append(one)
        one.start()

    def stop(self):
        Process(self.process.pid).stop()

    def until_done(self, times):
        for one in self.clients:
            one.until_done(times)

    def end_clients(self):
        for one in self.clients:
            one.end()
            assert one.longest < self.world.patience, (self.node, one.longest)
        self.clients.clear()

    def ends(self):
        """By SIGTERM; how long it took."""
        watch = Stopwatch(disk=True)
        assert self.process.stop() == 0
        return watch.seconds()

    def longest(self):
        return max(one.longest for one in self.clients)

    def is_over(self):
        """It has gone on.  The request that each client waited for may have been done
        before."""
        for one, count in zip(self.clients, self.counts):
            one.broken()
            assert one.error.errno == "ESHUTDOWN", (self.node, one.error)
            assert one.count <= count + 1, (self.node, one.count - count)
            self.world.history.never(one.value)
        eventually(lambda: "every request fails from now on" in self.process.log(),
                   what=f"{self.node} to say why it ends")


class World:
    def __init__(self, cluster, seed, close):
        self.rng, self.history, self.close = random.Random(seed), History(), close
        self.c = c = cluster(members=4, size="32M", unit=UNIT, no_array=True)
        status, said = c.call("POST", "/api/v1/arrays", {
            "name": "a", "layout": "raid-x", "unit": UNIT,
            "disks": [d["uuid"] for d in c.get("/api/v1/disks")["disks"]]})
        assert status < 300, said
        eventually(lambda: c.get("/api/v1/arrays/a")["state"] == "ready")
        self.hosts, self.cold, self.patience = [], bytes(UNIT), RECOVERY_S

    def mine(self):
        return random.Random(self.rng.random())

    def sessions(self):
        return {s["node"]: s["session"]
                for s in self.c.get("/api/v1/sessions")["sessions"]}

    def only(self, *hosts):
        """All others are ended; it has taken no longer than it may."""
        eventually(lambda: set(self.sessions()) == {h.node for h in hosts}, RECOVERY_S,
                   what=f"{[h.node for h in hosts]} to be left")

    def all_recovered(self):
        leases = self.c.get("/api/v1/arrays/a/leases")
        return leases["orphan_bytes"] == 0 and leases["recoverer"] is None

    def all_are_read(self, host, runs):
        """Unacknowledged writes of dead hosts are there by now, or never."""
        h = connected(host.uri)
        for run in runs:
            begin = time.monotonic()
            data = h.pread(len(run) * SECTOR, run[0] * SECTOR)
            for i, s in enumerate(run):
                self.history.read(s, data[i * SECTOR:(i + 1) * SECTOR], begin,
                                  time.monotonic())

    def over(self, dead, left, runs):
        """The remaining hosts have the dead hosts' ranges, and are idle for now."""
        for h in left:
            h.until_done(5)
            h.end_clients()
        eventually(self.all_recovered, what="all to be recovered")
        self.all_are_read(left[0], runs)
        for h in dead:
            for one in h.clients:
                self.history.never(one.value)

    def go_on(self, traps, left, runs):
        """Their sessions are over: they had completed all that is there.  traps: for each host
        the trap that holds it."""
        for h, trap in traps.items():
            h.counts = [one.count for one in h.clients]
            h.process.signal(signal.SIGCONT)
            trap.release()
        for h in traps:
            h.is_over()
        for h in left:
            self.all_are_read(h, runs)
            for run in runs:
                h.client(run)

    def end(self, left):
        for h in left:
            h.until_done(5)
        for h in left:
            h.end_clients()
        wait_in_sync(self.c)
        self.history.check()
        assert connected(left[0].uri).pread(UNIT, COLD.start) == self.cold
        check_copies(self.c, model_of(self.c, "raid-x", UNIT), content(left[0].uri))


@contextlib.contextmanager
def world(cluster, seed):
    with contextlib.ExitStack() as close:
        w = World(cluster, seed, close)
        try:
            yield w
        finally:
            for h in w.hosts:
                for one in h.clients:
                    one.done = True


# --- One has leases ------------------------------------------------------------------


@pytest.mark.long(30)
def test_a_host_is_stopped(cluster, seed):
    """One at each step, all at the same time; two others write the same sectors."""
    runs = {step: list(range(k * REGION // SECTOR, k * REGION // SECTOR + sectors))
            for k, (step, (_, _, sectors)) in enumerate(HOST_STEPS.items())}
    with world(cluster, seed) as w:
        left = [Host(w, n, proxied=False) for n in ("n8", "n9")]
        dead = {step: Host(w, f"v{k}", members=bool(keep))
                for k, (step, (_, keep, _)) in enumerate(HOST_STEPS.items())}
        w.hosts = [*left, *dead.values()]
        for step, run in runs.items():
            for h in (*left, dead[step], dead[step]):
                h.client(run)
        for h in w.hosts:
            h.until_done(5)
        traps = {}
        for step, h in dead.items():
            matchers, keep, _ = HOST_STEPS[step]
            h.proxy.trap = traps[step] = Trap(matchers, h.stop, keep)
        for step, trap in traps.items():
            trap.wait()
        w.only(*left)
        w.over(dead.values(), left, runs.values())
        w.go_on({h: traps[step] for step, h in dead.items()}, left, runs.values())
        w.end(left)


# --- One recovers what another had ---------------------------------------------------


def one_is_killed(w, dead):
    """Before it has written all images; and weftd hears of its end."""
    session, h = w.sessions()[dead.node], connected(dead.uri)
    h.pread(1, COLD.start)
    w.cold = b"c" * UNIT
    h.pwrite(w.cold, COLD.start)
    dead.process.kill()
    status, said = w.c.call("DELETE", f"/api/v1/sessions/{session}")
    assert status < 300, said


def three(w, run, members=False):
    w.hosts = [Host(w, n, members=members and n != "n2") for n in ("n0", "n1", "n2")]
    for h in w.hosts:
        for _ in range(2):
            h.client(run)
    for h in w.hosts:
        h.until_done(20)
    return w.hosts


def a_recoverer_is_stopped(cluster, seed, step):
    matchers, keep = RECOVERER_STEPS[step]
    run = list(range(REGION // SECTOR, REGION // SECTOR + 16))
    with world(cluster, seed) as w:
        *alive, killed = three(w, run, step == "copies")
        trap = Trap(matchers, lambda: next(
            h for h in alive if h.proxy is trap.owner).stop(), keep)
        for h in alive:
            h.proxy.trap = trap
        one_is_killed(w, killed)
        trap.wait()
        stopped, = (h for h in alive if h.proxy is trap.owner)
        left = [h for h in alive if h is not stopped]
        w.only(*left)
        w.over([stopped, killed], left, [run])
        w.go_on({stopped: trap}, left, [run])
        w.end(left)


@pytest.mark.long(30)
def test_a_recoverer_is_stopped(cluster, seed):
    at_once(lambda step: a_recoverer_is_stopped(cluster, seed, step), *RECOVERER_STEPS)


# --- One ends before weftd has heard that all is recovered ---------------------------


def the_first_one_ends(cluster, seed):
    """It has recovered everything, as the first session does.  It detaches, and no host
    waits."""
    run = list(range(16))
    with world(cluster, seed) as w:
        trap = Trap([request("recovered")], lambda: None, (0,))
        first = Host(w, "n0", trap=trap)
        trap.wait()
        other = Host(w, "n1", proxied=False)
        other.client(run)
        w.hosts = [first, other]
        assert first.ends() < TTL_S / 2
        assert set(w.sessions()) == {"n1"}
        other.until_done(5)
        assert other.longest() < TTL_S / 2
        w.end([other])
        trap.release()


def a_recoverer_ends(cluster, seed):
    """weftd had ordered it to recover a dead host's ranges.  Its session ends only after its
    silence, and then another host recovers them from the start."""
    run = list(range(REGION // SECTOR, REGION // SECTOR + 16))
    with world(cluster, seed) as w:
        *alive, killed = three(w, run)
        for h in alive:
            h.end_clients()
        trap = Trap([request("recovered")], lambda: None, (0,))
        for h in alive:
            h.proxy.trap = trap
        one_is_killed(w, killed)
        trap.wait()
        ended, = (h for h in alive if h.proxy is trap.owner)
        left = [h for h in alive if h is not ended]
        assert ended.ends() < TTL_S
        assert ended.node in w.sessions()
        left[0].client(run)
        w.only(*left)
        w.over([killed], left, [run])
        trap.release()
        left[0].client(run)
        w.end(left)


@pytest.mark.long(30)
def test_one_ends_that_recovers(cluster, seed):
    at_once(lambda scene: scene(cluster, seed), the_first_one_ends, a_recoverer_ends)


# --- weftd ---------------------------------------------------------------------------


def weftd_decides(cluster, seed, step, act, **how):
    """act(world, trap) is then done to weftd."""
    run = list(range(REGION // SECTOR, REGION // SECTOR + 16))
    with world(cluster, seed) as w:
        hosts = three(w, run)
        trap = Trap([WEFTD_STEPS[step]], lambda: act(w.c), **how)
        for h in hosts:
            h.proxy.trap = trap
        if step == "hears what there is":
            w.c.restart("weftd")
        elif step == "hears of a recovery":
            one_is_killed(w, hosts.pop())
        trap.wait()
        yield w, trap
        sessions = w.sessions()
        assert set(sessions) == {h.node for h in hosts}
        w.end(hosts)
        assert w.sessions() == sessions


def weftd_is_stopped(cluster, seed, step):
    for w, trap in weftd_decides(cluster, seed, step,
                                 lambda c: c.process("weftd").stop(), keep=[0]):
        # weftd may also have been started again, and it is asked again each second.
        w.patience = STANDS_S + 5
        time.sleep(STANDS_S)
        os.kill(w.c.pid("weftd"), signal.SIGCONT)
        trap.release()


@pytest.mark.long(30)
def test_weftd_is_stopped(cluster, seed):
    """A host that weftd could not hear does not count as silent."""
    at_once(lambda step: weftd_is_stopped(cluster, seed, step), *WEFTD_STEPS)


def weftd_is_killed(cluster, seed, step):
    for w, _ in weftd_decides(cluster, seed, step, lambda c: c.kill("weftd"),
                              drop=True):
        w.c.start("weftd")


@pytest.mark.long(20)
def test_weftd_is_killed(cluster, seed):
    """Another one is started on its state; it knows of no lease."""
    at_once(lambda step: weftd_is_killed(cluster, seed, step), *WEFTD_STEPS)
