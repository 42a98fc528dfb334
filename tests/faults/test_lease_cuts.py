"""Lines are cut between those who write one array at the same time by leases, and a member,
weftd, or all.

Topology: a network namespace for each of weftd, four members and nine array processes
          (tests/netcluster.py); each of seven shares a run of sectors with the two
          others, whose lines stay whole, and has one that these want when it is cut off.
Cause: blackhole routes, both ways or one way: four at one moment, then, when the first three
       have ended their hosts, three more; they are removed when all are ended.  Two cases have
       a cluster of their own: the cut of weftd, and the cut of a host that recovers a dead
       host's ranges from a member.
Pass:  A host that weftd does not hear, or that does not hear weftd, is ended after 10 s of
       silence; a host without a member that others reach, after 10 s without it.  Neither is
       ended sooner, and the two other hosts never are.  Those two wait no longer than that and
       a recovery takes, and where no other host writes, not at all.  All requests of an ended
       host fail with ESHUTDOWN as soon as it can hear of its end, and none of its writes comes
       later.  Another host recovers the ranges that it had orders for.  If no host reached
       weftd, none is ended.  For each sector one order of all operations explains all reads;
       in the end all copies are alike.
"""

import contextlib
import datetime
import os
import random
import threading
import time

import nbd
import pytest

from copies import Copies, check_copies, files_of, model_of
from nbdclient import connected
from nbdkitproc import Nbdkit
from netcluster import NetCluster
from sectorhistory import SECTOR, History, Paced
from wefttest import Stopwatch, at_once, eventually

REGION = 2 << 20
TTL_S, APART_S, QUIET_S = 10, 10, 2  # SESSION_TTL_MS, APART_MS, QUIET_MS
NOTICED_S = 3  # STRANGER_NS and PROBE_NS
# From when it may be ended until it is; from its end until another has what it had.
ENDS_S, RECOVERED_S = 5, 5
SILENT = "it was silent, and others write"
APART = "it has lost a member that others who write can reach"

LEFT = ["n8", "n9"]


def both(host, *others):
    return [line for o in others for line in ((host, o), (o, host))]


# Of each: which lines are cut, from whom to whom, and why it is ended.
CUTS = {
    "v0": (both("v0", "h0"), APART),
    "v1": ([("v1", "h1")], APART),
    "v2": ([("h2", "v2")], APART),
    "v3": (both("v3", "w"), SILENT),
    "v4": ([("v4", "w")], SILENT),
    "v5": ([("w", "v5")], SILENT),
    "v6": (both("v6", "w", "h0", "h1", "h2", "h3", *LEFT), SILENT),
}


def sharing(net, close, hosts):
    return {h: close.enter_context(Nbdkit(
        "weft", "array=a", "mode=shared", f"node={h}", "io-timeout=2000",
        f"admin=http://{net.address('w')}:7380", wrap=net.inside(h)))
        for h in hosts}


def sessions_of(net):
    return {s["node"]: s for s in net.get("/api/v1/sessions")["sessions"]}


def ended_of(net):
    """Of each when, and why, in weftd's words."""
    found = {}
    for line in net.get("/api/v1/log?limit=1000&text=evicted")["log"]:
        node = line["text"].split(",")[0].removeprefix("Node ")
        at = datetime.datetime.fromisoformat(line["at"].replace("Z", "+00:00"))
        found[node] = at.timestamp(), line["text"]
    return found


def all_recovered(net):
    leases = net.get("/api/v1/arrays/a/leases")
    return leases["orphan_bytes"] == 0 and leases["recoverer"] is None


class World:
    def __init__(self, net, seed, close):
        self.net, self.history, rng = net, History(), random.Random(seed)
        self.hosts = sharing(net, close, [*CUTS, *LEFT])
        self.rng = rng
        starts = [k * REGION // SECTOR for k in range(len(CUTS) + 1)]
        self.shared = {v: range(at, at + 16) for v, at in zip(CUTS, starts)}
        self.own = {v: range(at + REGION // 2 // SECTOR, at + REGION // 2 // SECTOR + 16)
                    for v, at in zip(CUTS, starts)}
        self.dead = {v: [self.client(v, self.shared[v]), self.client(v, self.own[v])]
                     for v in CUTS}
        self.left = {v: [self.client(h, self.shared[v]) for h in LEFT] for v in CUTS}
        self.counts = {}  # of the ended, what their clients had done
        self.alone = self.client("n8", range(starts[-1], starts[-1] + 16))

    def client(self, host, run):
        one = Paced(self.history, self.hosts[host].uri,
                    random.Random(self.rng.random()), [list(run)])
        one.start()
        return one

    def others(self):
        return [one for some in self.left.values() for one in some] + [self.alone]

    def go(self, why):
        """Cuts the lines of the hosts that end for this reason."""
        some = [v for v, (_, reason) in CUTS.items() if reason is why]
        noticed, cut = {}, time.time()
        for line in (line for v in some for line in CUTS[v][0]):
            self.net.cut(*line)
        all_cut = time.time()
        # A host that reaches members goes on with its leases until others have them.
        for v in set(some) & {"v3", "v4", "v5"}:
            self.dead[v][1].until_done(20)
        for v in some:
            self.left[v].append(self.client("n9", self.own[v]))

        def over():
            for v in some:
                if v not in noticed and " is lost: " in self.hosts[v].log():
                    noticed[v] = time.time()
            return not set(sessions_of(self.net)) & set(some)
        eventually(over, 60, what=f"{some} to be ended")
        ended = ended_of(self.net)
        assert set(ended) == {*self.counts, *some}
        for v in some:
            at, text = ended[v]
            assert text.endswith(f"by weftd: {why}."), text
            if why is SILENT:
                # It was heard a heartbeat before.
                assert TTL_S - QUIET_S < at - cut and at - all_cut < TTL_S + ENDS_S, v
            else:
                assert APART_S < at - cut and at - noticed[v] < APART_S + ENDS_S, v
            for one in self.left[v]:
                one.until_done(5)
                assert one.longest < at - cut + RECOVERED_S, (v, one.longest)
            # Others have all that it had, so every member has confirmed its end.
            self.counts[v] = [one.count for one in self.dead[v]]

    def no_more(self):
        """Unacknowledged writes of ended hosts are read now, or never."""
        h = connected(self.hosts["n8"].uri)
        for run in (*self.shared.values(), *self.own.values()):
            begin = time.monotonic()
            data = h.pread(len(run) * SECTOR, run[0] * SECTOR)
            for i, s in enumerate(run):
                self.history.read(s, data[i * SECTOR:(i + 1) * SECTOR], begin,
                                  time.monotonic())
        for some in self.dead.values():
            for one in some:
                self.history.never(one.value)

    def are_over(self, hosts):
        for v in hosts:
            for one, count in zip(self.dead[v], self.counts[v]):
                one.broken()
                assert one.error.errno == "ESHUTDOWN", (v, one.error)
                # The request that it waited for may have been done before.
                assert one.count <= count + 1, (v, one.count - count)
            eventually(lambda: "every request fails from now on" in self.hosts[v].log(),
                       what=f"{v} to say why it ends")


@pytest.mark.long(30)
# Thousands of threads: see test_lease_stops.py.
@pytest.mark.xdist_group("many threads")
def test_who_goes(tmp_path, seed):
    with NetCluster(tmp_path, clients=[*CUTS, *LEFT], attached=False) as net, \
            contextlib.ExitStack() as close:
        w = World(net, seed, close)
        for one in [*w.others(), *(o for some in w.dead.values() for o in some)]:
            one.until_done(5)
        # Those first to whom no member is fenced before they end: so it is their end by
        # which members refuse them.
        w.go(SILENT)
        w.go(APART)
        assert w.alone.longest < TTL_S / 2

        eventually(lambda: all_recovered(net), what="all to be recovered")
        w.no_more()
        w.are_over([v for v, (_, why) in CUTS.items() if why is APART])
        net.heal()
        w.are_over(CUTS)
        assert set(sessions_of(net)) == set(LEFT)
        for one in w.others():
            one.until_done(5)
            one.end()
        w.history.check()
        net.in_sync()
        check_copies(net, model_of(net, net.layout, net.unit))


# --- Who recovers --------------------------------------------------------------------


def writing(handle, data, offset):
    """A thread that does so."""
    def write():
        with contextlib.suppress(nbd.Error):
            handle.pwrite(data, offset)
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def a_recoverer_is_cut_off(directory, ways):
    """From one member, when another host has died; a third wants what that one had."""
    directory.mkdir()
    with NetCluster(directory, clients=["n7", "n8", "n9"], attached=False) as net, \
            contextlib.ExitStack() as close:
        hosts = sharing(net, close, net.clients)
        numbers = {n: s["session"] for n, s in sessions_of(net).items()}
        # A session that waits for the range gets the order to recover it, or otherwise the one
        # with the lowest number.
        recoverer, third, dead = sorted(numbers, key=numbers.get)
        handles = {n: connected(h.uri) for n, h in hosts.items()}
        model, data = model_of(net, net.layout, net.unit), os.urandom(REGION)
        handles[dead].pwrite(data, REGION)
        handles[dead].flush()
        # The copies of what it writes last differ.
        net.cut(dead, "h1")
        writing(handles[dead], data, 3 * REGION)
        with Copies(model, files_of(net)) as copies:
            eventually(lambda: copies.different(
                units=range(3 * REGION // net.unit, 4 * REGION // net.unit)), every=0.01)
        hosts[dead].kill()
        watch, wall = Stopwatch(disk=True), time.time() - time.monotonic()
        for way, line in ("there", (recoverer, "h1")), ("back", ("h1", recoverer)):
            if ways in (way, "both"):
                net.cut(*line)
        writing(handles[recoverer], data[:SECTOR], REGION)
        status, said = net.call("DELETE", f"/api/v1/sessions/{numbers[dead]}")
        assert status == 200, said
        eventually(lambda: net.get("/api/v1/arrays/a/leases")["recoverer"] ==
                   numbers[recoverer], every=0.02, what=f"{recoverer} to be told")

        write = writing(handles[third], data[:SECTOR], 2 * REGION - SECTOR)
        write.join(2 * APART_S + RECOVERED_S)
        assert not write.is_alive(), net.get("/api/v1/arrays/a")["waits_for"]
        written = time.monotonic()
        at, text = ended_of(net)[recoverer]
        assert text.endswith(f"by weftd: {APART}."), text
        assert APART_S < at - wall - watch.begin
        assert watch.seconds(end=at - wall) < NOTICED_S + APART_S + ENDS_S
        assert watch.seconds(at - wall, written) < RECOVERED_S
        data = data[:-SECTOR] + data[:SECTOR]
        assert handles[third].pread(REGION, REGION) == data
        eventually(lambda: "every request fails from now on" in hosts[recoverer].log(),
                   what=f"{recoverer} to say why it ends")
        net.heal()
        net.in_sync()
        handles[third].flush()
        assert handles[third].pread(REGION, REGION) == data
        assert set(sessions_of(net)) == {third}
        check_copies(net, model)


@pytest.mark.long(20)
@pytest.mark.xdist_group("many threads")
def test_a_recoverer_is_cut_off(tmp_path):
    at_once(lambda ways: a_recoverer_is_cut_off(tmp_path / ways, ways),
            "both", "there", "back")


# --- weftd itself --------------------------------------------------------------------


@pytest.mark.long(20)
def test_weftd_is_cut_off(tmp_path, seed):
    """From all, for longer than the time-out of a silent host; and it hears one host again
    before the other.  Both go on as before."""
    rng, history = random.Random(seed), History()
    with NetCluster(tmp_path, clients=LEFT, attached=False) as net, \
            contextlib.ExitStack() as close:
        runs = {h: list(range(at, at + 16)) for h, at in
                zip(LEFT, (0, REGION // SECTOR))}
        both_write = list(range(2 * REGION // SECTOR, 2 * REGION // SECTOR + 16))
        own, all_clients = {}, []
        for h, array in sharing(net, close, LEFT).items():
            own[h], shared = (Paced(history, array.uri, random.Random(rng.random()), [run])
                              for run in (runs[h], both_write))
            all_clients += own[h], shared
        for one in all_clients:
            one.start()
        for one in all_clients:
            one.until_done(20)
        before = sessions_of(net)
        for h in net.hosts[1:]:
            net.cut(h, "w")
        net.cut("w", *net.hosts[1:])
        eventually(lambda: not any(s["alive"] for s in sessions_of(net).values()),
                   TTL_S + ENDS_S, what="both to be silent")
        for one in own.values():
            one.until_done(5)
        net.heal("w", "n9", *(f"h{i}" for i in range(net.count)))
        eventually(lambda: sessions_of(net)["n9"]["alive"], what="n9 to be heard")
        time.sleep(2)  # some ticks, of 250 ms
        assert {h: s["alive"] for h, s in sessions_of(net).items()} == \
            {"n8": False, "n9": True}
        net.heal()
        eventually(lambda: sessions_of(net)["n8"]["alive"], what="n8 to be heard")
        for one in all_clients:
            one.until_done(20)
        for one in all_clients:
            one.end()
        assert {h: s["session"] for h, s in sessions_of(net).items()} == \
            {h: s["session"] for h, s in before.items()}
        history.check()
        net.in_sync()
        check_copies(net, model_of(net, net.layout, net.unit))
