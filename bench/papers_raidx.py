"""RAID-x: Figures 5 and 6 and Table 3, and what a request costs by members."""

import statistics
import tempfile

from hosts import WAYS
from papers_base import KIB, Paper, quiet, ratio
from table import markdown, number

# Table 3, in MB/s of 1 and of 16 clients.  Its RAID-1 is striped over the half of the
# disks and mirrored on the other: our raid-10; what it writes of it is in section 5.
PAPER = {("raid-x", "large read"): (3.36, 9.65), ("raid-x", "large write"): (3.12, 9.02),
         ("raid-x", "small write"): (3.22, 9.13), ("central", "large read"): (2.58, 2.3),
         ("central", "large write"): (2.11, 2.77), ("central", "small write"): (2.47, 2.81),
         ("raid-10", "large read"): (None, 6.33), ("raid-10", "large write"): (None, 5.72)}


class RaidX(Paper):
    # RAID-1 has two members: more of them are more copies, of everything.
    arrays = {"raid-x": ("raid-x", int), "raid-10": ("raid-10", int),
              "chained": ("chained", int), "raid-1": ("raid-1", lambda n: 2),
              "central": (None, lambda n: 1), "plain": (None, int)}
    # As nearly all clients of these are on other hosts than the members.
    apart = ("raid-1", "central")

    def works(self):
        small = self.a.disk_ms or self.a.quick
        return {**super().works(), **(self.small_works() if small else {})}

    def show(self):
        a, most = self.a, max(self.a.clients)
        print(self.title() + "; MB/s of all clients together")
        # What --json has of them by other ways stands beside this one.
        ways = [way for way in WAYS if way not in (a.way, "direct")
                and any(key[4] == way for key in self.points)]
        rows = []
        for work in self.works():
            for name in self.arrays:
                rates = [self.rate(name, n, work) for n in a.clients]
                if not any(rates):
                    continue
                last = rates[-1]
                paper = PAPER.get((name, work), (None, None))
                rows.append([f"{work}: {name}", *map(number, rates),
                             ratio(last, most * a.mbit / 8),
                             ratio(last, self.rate("plain", most, work)),
                             ratio(last, rates[0]),
                             *[ratio(self.rate("raid-x", most, work, way=way),
                                     self.rate(name, most, work, way=way))
                               for way in (a.way, *ways)],
                             number(paper[1]), ratio(paper[1], paper[0]),
                             ratio(PAPER.get(("raid-x", work), (0, 0))[1], paper[1])])
        print("\n" + markdown(
            ["", *[f"{n} clients" for n in a.clients], "of the links", "of plain",
             f"{most} ÷ {min(a.clients)}", "raid-x ÷ this", *[f"by {way}" for way in ways],
             "paper: 16", "16 ÷ 1", "RAID-x ÷ this"], rows))
        if a.mbit:
            self.show_links(most)

    def show_links(self, clients):
        """What they carried, counted, from the begin until the last client had done."""
        rows = []
        for work in self.works():
            for name in self.arrays:
                p = self.points.get(self.key(name, clients, work))
                for r in quiet(p["runs"]) if p else ():
                    links, full = r["links"], r["seconds"] * self.a.mbit * 1e6 / 8
                    rows.append([f"{work}: {name}", number(r["MB/s"]),
                                 *[f"{statistics.mean(b) / full:.3f} ({min(b) / full:.3f} "
                                   f"to {max(b) / full:.3f})"
                                   for b in (links["out"], links["in"])],
                                 f"{sum(links['in']) / r['seconds'] / r['MB/s'] / 1e6:.3f}",
                                 f"{sum(links['again']) / sum(links['packets']):.4f}",
                                 f"{min(r['MB/s each']) / max(r['MB/s each']):.2f}"])
        print(f"\neach run of {clients} clients: how much of the links was in use, out of "
              "hosts and into them: of all, of the least and the most\n\n" + markdown(
                  ["", "MB/s", "out", "in", "frames ÷ data", "sent again",
                   "last ÷ first client"], rows))

    def panels(self):
        a, panels = self.a, super().panels()
        if a.mbit and not a.disk_ms:
            for lines in panels.values():
                lines["the clients' links"] = [(n, n * a.mbit / 8) for n in a.clients]
        return panels


class Disks(Paper):
    """What most clients get of so many members; with two a raid-10 is a raid-1."""

    layouts = {"raid-x": (4, 8, 12, 16), "raid-10": (2, 4, 8, 12, 16)}
    arrays = {f"{layout} of {n}": (layout, lambda _, n=n: n)
              for layout, counts in layouts.items() for n in counts}
    defaults = {"clients": [16], "disk_ms": 8, "rounds": 1, "part": 4}
    quick = ("raid-x of 4", "raid-10 of 2", "raid-10 of 4")
    axes = "disks", "MB/s"

    def works(self):
        return {**super().works(), **self.small_works()}

    def title(self):
        return super().title().replace(f"{self.a.members} members",
                                       f"{max(self.a.clients)} clients")

    def panels(self):
        return {work: {layout: [(n, rate) for n in counts if (rate := self.rate(
            f"{layout} of {n}", max(self.a.clients), work))]
            for layout, counts in self.layouts.items()} for work in self.works()}

    def show(self):
        print(self.title())
        for work, lines in self.panels().items():
            rates = {layout: dict(points) for layout, points in lines.items()}
            counts = self.layouts["raid-10"]
            rows = [[layout, *[number(rates[layout].get(n)) for n in counts],
                     ratio(rates[layout].get(16), rates[layout].get(4)),
                     number(PAPER.get((layout, work), (None, None))[1])]
                    for layout in rates]
            rows.append(["raid-x ÷ raid-10",
                         *[ratio(rates["raid-x"].get(n), rates["raid-10"].get(n))
                           for n in counts], "",
                         ratio(*[PAPER.get((layout, work), (None, None))[1]
                                 for layout in rates])])
            print(f"\n{work}, MB/s of all clients together\n\n" + markdown(
                [work, *[f"{n} disks" for n in counts], "16 ÷ 4", "paper: 16 disks"],
                rows))


class Members(Paper):
    arrays = {f"{n} members": ("raid-x", lambda _, n=n: n) for n in (4, 8, 16)}
    plot = None

    def works(self):
        small, d = 4 * KIB, self.a.depth
        return {"4 KiB read": (("read", small, d, ()), 2000),
                "4 KiB write": (("write", small, d, ("flush",)), 2000)}

    def measure(self, name):
        super().measure(name)
        self.count_messages(name)

    def count_messages(self, name):
        """In another run, for each request to a member is written to a log there."""
        a = self.a
        with tempfile.TemporaryDirectory(prefix="weft-papers-", dir="/dev/shm") as d, \
                self.hosts(d, name) as h:
            h.array_args = ["-v", "-D", "weft.io=1"]
            for host in h.users:
                h.end("use-" + host)
                h.start("use-" + host)
            for clients in a.clients:
                for work, (does, requests) in self.works().items():
                    before = [h.log("use-" + u).count("weft: io ") for u in h.users]
                    h.run(does, h.users[:clients], requests)
                    sent = sum(h.log("use-" + u).count("weft: io ") for u in h.users)
                    key = self.key(name, clients, work)
                    self.points[key]["messages"] = ((sent - sum(before))
                                                    / clients / requests)
        self.save()

    def show(self):
        print(self.title() + "; in memory, of one request: messages to members, and "
              "microseconds of processor time of array process and members")
        for work in self.works():
            rows = []
            for name in self.arrays:
                row = [name]
                for n in self.a.clients:
                    p = self.points.get(self.key(name, n, work))
                    row.append("-" if not p else f"{p.get('messages', 0):.2f}, "
                               f"{self.cpu(name, n, work):.0f} µs")
                rows.append(row)
            print(f"\n{work}\n\n" + markdown(
                [work, *[f"{n} clients" for n in self.a.clients]], rows))
