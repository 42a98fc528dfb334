"""Redbud, Figure 8: leases of what is needed, of all, and by a window that adapts."""

from hosts import MIB, Hosts
from papers_base import KIB, SEQUENTIAL, Paper, one, ratio
from table import markdown, number


# What `weftd` counts of each session.
COUNTED = {"gets": "granted", "revokes": "asked back"}


class Redbud(Paper):
    """Of leases; the ways are what is compared.  Before each run the array processes
    are started again, so that nobody has leases but the first, which begins with all."""

    arrays = dict.fromkeys(("naive", "token", "adaptive"), ("raid-x", int))
    ways = ("leases",)
    defaults = {"clients": [2, 4, 8], "members": 4}
    quick_clients = [2]
    quick_part = 1
    alone = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB)
    axes_of = {"one client writes": ("KiB of a request", "MB/s")}

    def hosts(self, directory, name):
        a = self.a
        size = 2 * max(a.clients) * a.part // a.members
        return Hosts(directory, a.members, max(a.clients), a.part, way=a.way, kind=name,
                     disk_ms=a.disk_ms, layout="raid-x", unit=a.unit,
                     size=size + 4 * MIB + 2 * a.members * a.unit)

    def fresh(self, h):
        for do in h.end, h.start:
            for user in h.users:
                do("use-" + user)

    def measure(self, name):
        a = self.a
        with self.shaped(name) as h:
            for _ in range(a.rounds):
                for length in self.alone:
                    work = ("write", length, a.depth, (*SEQUENTIAL, "flush"))
                    self.fresh(h)
                    self.note(name, 1, f"{length // KIB} KiB", self.counted(
                        h, a.part // length,
                        lambda: one(h, work, h.users[1:2], a.part // length)))
                for clients in a.clients:
                    users = h.users[:clients]
                    for work, does in (("write own, read others'", self.turns),
                                       ("write every n-th", self.interleaved)):
                        self.fresh(h)
                        self.note(name, clients, work, self.counted(
                            h, clients * a.part // (64 * KIB), lambda: does(h, users)))
        self.save()

    def counted(self, h, writes, run):
        """What it returns, and how many leases were granted and asked back meanwhile, of
        each write."""
        def seen(kind):
            return sum(s[kind] for s in h.get("/api/v1/arrays/a/leases")["sessions"])

        before = {kind: seen(kind) for kind in COUNTED}
        result = run()
        result.update({kind: (seen(kind) - n) / writes for kind, n in before.items()})
        return result

    def turns(self, h, users):
        """Each writes its part, and reads that of the next one."""
        a, length = self.a, 64 * KIB
        count = a.part // length
        writes = h.run(("write", length, a.depth, (*SEQUENTIAL, "flush")), users, count)
        reads = h.run(("read", length, a.depth, SEQUENTIAL), users, count, ahead=1)
        return {"MB/s": 2 * len(users) * a.part / (max(writes) + max(reads)) / 1e6}

    def interleaved(self, h, users):
        """Each of n writes every n-th 64 KiB of what all write."""
        a, length = self.a, 64 * KIB
        seconds = h.run(("write", length, a.depth, (f"every={len(users)}", "flush")), users,
                        a.part // length, apart=length)
        return {"MB/s": len(users) * a.part / max(seconds) / 1e6}

    def parts(self):
        """{part of the figure: {its x: (how many clients, what they do)}}"""
        clients = self.a.clients
        return {"one client writes": {f"{n // KIB} KiB": (1, f"{n // KIB} KiB")
                                      for n in self.alone},
                "each writes its own and reads another's": {
                    f"{n} clients": (n, "write own, read others'") for n in clients},
                "each of n writes every n-th 64 KiB": {
                    f"{n} clients": (n, "write every n-th") for n in clients}}

    def show(self):
        print(self.title() + "; MB/s of all clients together")
        rows, counts = [], []
        for part, points in self.parts().items():
            for x, point in points.items():
                rate = {name: self.rate(name, *point) for name in self.arrays}
                title = f"{part}: {x}" if x == next(iter(points)) else x
                rows.append([title, *map(number, rate.values()),
                             ratio(rate["adaptive"], rate["token"]),
                             ratio(rate["adaptive"], rate["naive"])])
                counts.append([title, *(number(self.rate(name, *point, what))
                                        for what in COUNTED for name in self.arrays)])
        print("\n" + markdown(
            ["", *self.arrays, "adaptive ÷ token", "adaptive ÷ naive"], rows))
        print("\nof a write, leases that were granted and asked back\n\n" + markdown(
            ["", *(f"{name}: {what}" for what in COUNTED.values()
                   for name in self.arrays)], counts))

    def panels(self):
        # Sizes and clients are words: each has its place, as far from the next as others.
        return {part: {name: [(x.split()[0], rate) for x, point in points.items()
                              if (rate := self.rate(name, *point))]
                       for name in self.arrays} for part, points in self.parts().items()}
