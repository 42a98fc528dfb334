"""What a paper measured, measured here: base of what the papers_*.py modules have."""

import contextlib
import json
import statistics
import sys
import tempfile

from hosts import MIB, WAYS, Hosts
from measure import STEAL_MAX, machine_ticks

KIB = 1 << 10
SEQUENTIAL = ("sequential",)


def one(h, work, users, requests):
    """One run, by all these users: what it was, in plain numbers."""
    links, cpu, ticks = h.carried(), h.cpu(), machine_ticks()
    seconds = h.run(work, users, requests)
    cpu = {kind: now - cpu[kind] for kind, now in h.cpu().items()}
    steal, _, whole = (b - a for a, b in zip(ticks, machine_ticks()))
    done = len(users) * requests
    return {"MB/s": done * work[1] / max(seconds) / 1e6,
            "MB/s each": [requests * work[1] / s / 1e6 for s in seconds],
            "cpu us": {kind: s * 1e6 / done for kind, s in cpu.items()},
            "seconds": max(seconds), "steal": steal / whole,
            "links": {kind: [b - a for a, b in zip(links[kind], now)]
                      for kind, now in h.carried().items()}}


def quiet(runs):
    """Those in which nobody had this machine's processors; all, if there are none."""
    return [r for r in runs if r.get("steal", 0) <= STEAL_MAX] or runs


def ratio(one, other):
    return "-" if not one or not other else f"{one / other:.2f}"


class Paper:
    """Base of all: `arrays` says of what layout and members each is, `works` what is
    done with it.  `defaults` are those of its options, `quick...` those with --quick."""

    arrays = {}
    apart = ()  # of which of these the clients have hosts of their own
    dups = {}  # which of these have another way of duplication
    sharing = None  # how many hosts all clients share; each has its own
    ways = tuple(way for way in WAYS if way != "direct")  # the first is the default
    defaults = {}
    quick = None  # of which of these; all
    quick_part = 2  # MiB
    quick_clients = [1, 2]
    axes = "clients", "MB/s"
    axes_of = {}  # those of other panels of the plot

    def __init__(self, a):
        self.a = a
        self.points = {}
        if a.json and a.json.exists():
            self.points = {tuple(p["key"]): p for p in json.loads(a.json.read_text())}

    def works(self):
        """{name: (work, how many requests of each client)}"""
        a = self.a
        return {"large read": (("read", MIB, a.depth, SEQUENTIAL), a.part // MIB),
                "large write": (("write", MIB, a.depth, (*SEQUENTIAL, "flush")),
                                a.part // MIB)}

    def small_works(self):
        a = self.a
        count = min(a.part // a.unit, 256)
        return {"small read": (("read", a.unit, a.depth, SEQUENTIAL), count),
                "small write": (("write", a.unit, a.depth, (*SEQUENTIAL, "flush")),
                                count)}

    def key(self, name, clients, work, way=None):
        a = self.a
        way = (way or a.way) if self.arrays[name][0] else "direct"
        return (a.paper, name, clients, work, way, a.mbit, a.disk_ms, a.unit // KIB,
                a.depth)

    def hosts(self, directory, name):
        a = self.a
        layout, members = self.arrays[name]
        members = members(a.members)
        clients = max(a.clients)
        copies = 1 if layout in ("raid-0", None) else members if layout == "raid-1" else 2
        size = clients * a.part * copies // (members if layout else 1)
        # A layout uses whole periods only.
        return Hosts(directory, members, clients, a.part, apart=name in self.apart,
                     way=a.way if layout else "direct", disk_ms=a.disk_ms,
                     layout=layout, unit=a.unit, dup=self.dups.get(name),
                     sharing=self.sharing, size=size + 4 * MIB + 2 * members * a.unit)

    @contextlib.contextmanager
    def shaped(self, name):
        """Its hosts, on links as they are wanted."""
        with tempfile.TemporaryDirectory(prefix="weft-papers-", dir="/dev/shm") as d, \
                self.hosts(d, name) as h:
            if self.a.mbit:
                h.shape(self.a.mbit)
            h.check = self.a.check
            yield h
            for line in h.lost():
                print(f"\n{name}: {line}", file=sys.stderr)

    def measure(self, name):
        a = self.a
        with self.shaped(name) as h:
            for r in range(a.rounds):
                for clients in a.clients:
                    self.round(h, name, clients, f"{name}: round {r + 1}/{a.rounds}")
                    self.save()
        print(file=sys.stderr)

    def round(self, h, name, clients, title):
        """All works once, by so many clients."""
        for work, (does, requests) in self.works().items():
            if (self.a.way == "ro" and does[0] == "write" or
                    self.a.works and work not in self.a.works):
                continue
            self.say(f"{title}: {clients} {work}")
            self.note(name, clients, work, one(h, does, h.users[:clients], requests))

    def say(self, what):
        print(f"\r{what:60}", end="", file=sys.stderr, flush=True)

    def note(self, name, clients, work, run):
        key = self.key(name, clients, work)
        self.points.setdefault(key, {"key": key, "runs": []})["runs"].append(run)

    def save(self):
        if self.a.json:
            self.a.json.write_text(json.dumps(list(self.points.values()), indent=1) + "\n")

    def rate(self, name, clients, work, what="MB/s", way=None):
        """The median of its runs, or None."""
        p = self.points.get(self.key(name, clients, work, way))
        return p and statistics.median(r[what] for r in quiet(p["runs"]))

    def cpu(self, name, clients, work):
        """Microseconds of a request, at array processes and members together."""
        p = self.points.get(self.key(name, clients, work))
        return p and statistics.median(sum(r["cpu us"].values())
                                       for r in quiet(p["runs"]))

    def title(self):
        a = self.a
        links = f"links of {a.mbit} Mbit/s" if a.mbit else "links without limit"
        disks = (f"disks of {a.disk_ms} ms" if a.disk_ms else "members in memory")
        return (f"{a.members} members, {links}, {disks}, units of {a.unit // KIB} KiB, "
                f"clients by {a.way}")

    def panels(self):
        """{title: {line: [(x, y), ...]}}, of what the plot shows."""
        return {work: {name: [(n, rate) for n in self.a.clients
                              if (rate := self.rate(name, n, work))]
                       for name in self.arrays} for work in self.works()}

    def plot(self, plt, path):
        panels = self.panels()
        rows = (len(panels) + 1) // 2
        figure, places = plt.subplots(rows, 2, squeeze=False, figsize=(9, 3.6 * rows))
        for place in places.flat[len(panels):]:
            place.set_visible(False)
        for place, (work, lines) in zip(places.flat, panels.items()):
            for name, points in lines.items():
                if points:
                    place.plot(*zip(*points), marker="o", label=name)
            x, y = self.axes_of.get(work, self.axes)
            place.set(title=work, xlabel=x, ylabel=y, ylim=0)
            place.legend(fontsize=7)
        figure.suptitle(self.title(), fontsize=9)
        figure.tight_layout()
        figure.savefig(path, dpi=80)
