"""Replicated PVFS, Tables I to III: what a second copy costs those that write."""

import statistics

from papers_base import Paper, ratio
from table import markdown, number

# Tables I and III: MB/s of so many clients: 16 servers, 16 with replication, 8 servers.
PVFS = {1: (10.9, 9.8, 10.3), 4: (33.3, 28.7, 28.2), 8: (54.8, 39.8, 43.5),
        16: (83.3, 40.3, 43.4), 32: (77.5, 38.2, 50.1)}
# Table II: MB/s of 16 servers whose file systems are the limit, and with replication.
JAZZ = {1: (145.7, 107.6), 4: (269.8, 154.6), 8: (305.2, 173.7), 16: (287.7, 137.1),
        32: (312.2, 183.7), 64: (363.9, 157.1), 128: (367.4, 180.1)}


class Copies(Paper):
    """Arrays with and without a second copy, on whose members there are no clients."""

    figures = {}  # {clients: the paper's MB/s of each of `named`}
    named = ()
    beside = {}  # {(array, other): the paper's}: of which the ratio is wanted

    def show(self):
        for work in self.works():
            rows = []
            for n in self.a.clients:
                mine = {name: self.rate(name, n, work) for name in self.arrays}
                paper = dict(zip(self.named, self.figures.get(n, ())
                                 if "write" in work else ()))
                row = [n, *map(number, [*mine.values(), *map(paper.get, self.named)])]
                for ours, theirs in self.beside.items():
                    row += [ratio(*map(mine.get, ours)), ratio(*map(paper.get, theirs))]
                rows.append(row)
            print(f"\n{work}, MB/s of all clients together\n\n" + markdown(
                ["clients", *self.arrays, *[f"paper: {name}" for name in self.named],
                 *[head for ours in self.beside for head in (" ÷ ".join(ours), "paper")]],
                rows))


class ReplicatedPvfs(Copies):
    """Tables I and III."""

    arrays = {"raid-0": ("raid-0", int), "raid-x": ("raid-x", int),
              "raid-10": ("raid-10", int), "raid-0-half": ("raid-0", lambda n: n // 2)}
    apart = tuple(arrays)
    figures, named = PVFS, ("16", "16, replicated", "8")
    beside = {("raid-x", "raid-0"): ("16, replicated", "16"),
              ("raid-x", "raid-0-half"): ("16, replicated", "8")}

    def show(self):
        print(self.title() + ", which have hosts of their own")
        super().show()
        print("\nseconds of processor time for a GiB of data, median (least to most); beside "
              "raid-0 run by run\n\n" + markdown(
                  ["", "arrays", "members", "both", "÷ raid-0"],
                  [row for work in self.works() for n in self.a.clients
                   for name in self.arrays if (row := self.costs(name, n, work))]))

    def costs(self, name, clients, work):
        each = self.per_gib(name, clients, work)
        beside = [sum(mine) / sum(other) for mine, other in
                  zip(each, self.per_gib("raid-0", clients, work)) if sum(other)]
        return each and [f"{work} of {clients}: {name}", *map(
            spread, (*zip(*each), list(map(sum, each)), beside))]

    def per_gib(self, name, clients, work):
        """[(seconds of array processes, of members)] of each run."""
        p, (does, _) = self.points.get(self.key(name, clients, work)), self.works()[work]
        return [[s * 1e-6 * (1 << 30) / does[1] for s in r["cpu us"].values()]
                for r in p["runs"]] if p else []


class Jazz(Copies):
    """Table II: the servers' disks are the limit, not the links.  So many clients are
    processes on 16 hosts without members; those of a host share its array process.  With
    the raid-10 a write is answered when both copies are written, as in the paper."""

    arrays = {"raid-0": ("raid-0", int), "raid-x": ("raid-x", int),
              "raid-10": ("raid-10", int)}
    dups = {"raid-10": "sync-client"}
    apart = tuple(arrays)
    figures, named = JAZZ, ("stock", "replicated")
    beside = {("raid-x", "raid-0"): ("replicated", "stock"),
              ("raid-10", "raid-0"): ("replicated", "stock")}
    sharing = 16
    ways = ("map",)  # by others an array process knows one part
    quick_clients = [1, 20]
    defaults = {"clients": [1, 4, 16, 32, 64, 128], "disk_ms": 8, "mbit": 0,
                "rounds": 1, "part": 4}

    def show(self):
        print(self.title() + f", processes on {self.sharing} hosts of their own")
        super().show()


def spread(values):
    return "-" if not values else (f"{statistics.median(values):.2f} "
                                   f"({min(values):.2f} to {max(values):.2f})")
