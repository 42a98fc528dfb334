"""RAID-x, Figure 7: the Andrew benchmark (andrew.py) of clients with file systems of
their own, each in its part of one array, or of the one disk of a central server.

A client's part is a block device as weftctl makes one where the kernel has no nbd: a loop
device over the file by which nbdfuse shows what the client comes at.  It is unmounted and
mounted again before each phase, so nothing of an earlier one is in a cache; that is not in
a phase's time, but the sync at its end is.
"""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from andrew import PHASES, plant
from hosts import Hosts
from measure import TICKS, Failed, cpu_seconds, machine_ticks
from papers_base import Paper, quiet, ratio
from table import markdown, number
from wefttest import at_once, background, eventually, run

# Seconds of all phases, by clients.
ANDREW = {("raid-x", 16): 6.8, ("raid-x", 32): 7.41,
          ("central", 16): 33, ("central", 32): 75.5}
RAID_1_CUT = 0.17  # by which a RAID-x took less time than a RAID-1
WORKER = pathlib.Path(__file__).with_name("andrew.py")


class Volume:
    """A file system in the part of a client, and who works there."""

    def __init__(self, h, host, directory):
        self.h, self.host = h, host
        self.top = os.path.join(directory, host + ".mnt")
        self.seen = os.path.join(directory, host + ".fuse")
        self.fuse = self.device = self.worker = None

    def __enter__(self):
        h, host = self.h, self.host
        ready = self.seen + ".ready"
        os.mkdir(self.seen)
        os.mkdir(self.top)
        self.fuse = background(
            os.path.join(h.dir, host + ".fuse.log"), *h.inside(
                host, "nbdfuse", "-P", ready, self.seen + "/disk", h.client_uri(host)))
        try:
            eventually(lambda: os.path.exists(ready), 30, what=f"nbdfuse of {host}")
            self.device = run("losetup", "--find", "--show", "--direct-io=on",
                              f"--offset={h.begin(host)}", f"--sizelimit={h.part}",
                              self.seen + "/disk").stdout.strip()
            self.worker = subprocess.Popen(
                [sys.executable, WORKER, self.top], text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.worker:
            self.worker.stdin.close()
            self.worker.wait()
            self.worker.stdout.close()
        run("umount", self.top, check=False)
        if self.device:
            run("losetup", "-d", self.device)
        run("fusermount3", "-u", self.seen, check=False)
        self.fuse.wait(30)

    def make(self, source):
        """A new file system of ext4 with the least journal."""
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4", "-E",
            "nodiscard,lazy_itable_init=0", "-d", source, self.device)
        self.mount()

    def mount(self):
        run("mount", "-t", "ext4", self.device, self.top)

    def fresh(self):
        """So that nothing is known of it any more."""
        run("umount", self.top)
        self.mount()

    def begin(self, phase):
        self.worker.stdin.write(phase + "\n")
        self.worker.stdin.flush()

    def end(self):
        """(seconds, seconds of processor time)"""
        said = self.worker.stdout.readline().split()
        if not said:
            raise Failed(f"{self.host}: andrew.py has ended; see what it said above")
        return tuple(map(float, said))


class Andrew(Paper):
    arrays = {"raid-x": ("raid-x", int), "raid-10": ("raid-10", int),
              "central": (None, lambda n: 1)}
    apart = ("central",)
    ways = tuple(way for way in Paper.ways if way != "ro")
    defaults = {"disk_ms": 8, "rounds": 1, "part": 16}
    quick = ("raid-x", "central")
    quick_part = 16
    axes = "clients", "seconds"

    def __init__(self, a):
        super().__init__(a)
        # All file systems look alike.  Parts of whole stripes would have the same place
        # of each on the same disk, where all clients would wait at the same time.
        a.part += a.unit

    def works(self):
        return dict.fromkeys(PHASES)

    def round(self, h, name, clients, title):
        with tempfile.TemporaryDirectory(prefix="weft-andrew-") as d, \
                contextlib.ExitStack() as stack:
            tree = pathlib.Path(d, "tree")
            tree.mkdir()
            plant(tree / "source")
            self.say(f"{title}: {clients} make their file systems")
            volumes = [stack.enter_context(Volume(h, u, d)) for u in h.users[:clients]]
            at_once(lambda v: v.make(tree), *volumes)
            for phase in PHASES:
                at_once(Volume.fresh, *volumes)
                self.say(f"{title}: {clients} {phase}")
                self.note(name, clients, phase, self.phase(h, volumes, phase))

    def phase(self, h, volumes, phase):
        """All of them at once, until the last has done."""
        fuses = [v.fuse.pid for v in volumes]
        cpu, fuse, ticks = h.cpu(), cpu_seconds(fuses), machine_ticks()
        for v in volumes:
            v.begin(phase)
        did = [v.end() for v in volumes]
        seconds = max(s for s, _ in did)
        steal, busy, whole = (b - a for a, b in zip(ticks, machine_ticks()))
        cpu = {kind: now - cpu[kind] for kind, now in h.cpu().items()}
        return {"seconds": seconds, "seconds each": [s for s, _ in did],
                "cpu s": {"clients": sum(c for _, c in did),
                          "nbdfuse": cpu_seconds(fuses) - fuse, **cpu},
                "busy": busy / TICKS / seconds / os.cpu_count(),
                "steal": steal / whole}

    def seconds(self, name, clients, but=None):
        """Of all phases (but one), or None."""
        each = [self.rate(name, clients, phase, "seconds")
                for phase in PHASES if phase != but]
        return None if None in each else sum(each)

    def show(self):
        a = self.a
        print(self.title() + "; seconds until the last client has done")
        rows = []
        for name in self.arrays:
            for n in a.clients:
                whole, rest = (self.seconds(name, n, but) for but in (None, "compile"))
                if whole:
                    paper = ANDREW.get((name, n))
                    rows.append([f"{name}, {n}", *[
                        number(self.rate(name, n, p, "seconds")) for p in PHASES],
                        number(whole), ratio(whole, self.seconds("raid-x", n)),
                        ratio(rest, self.seconds("raid-x", n, "compile")), number(paper),
                        ratio(paper, ANDREW.get(("raid-x", n)))])
        print("\n" + markdown(["clients", *PHASES, "all", "÷ raid-x", "÷, no compile",
                               "paper: all", "÷ RAID-x"], rows))
        last = max(a.clients)
        mine, other = (self.seconds(name, last) for name in ("raid-x", "raid-10"))
        if mine and other:
            print(f"\nfor {last} clients raid-x takes {100 - 100 * mine / other:.0f} % less "
                  f"time than raid-10; paper: {100 * RAID_1_CUT:.0f} %")
        rows = [[name, phase, *map(number, self.spent(name, last, phase).values())]
                for name in self.arrays for phase in PHASES
                if self.rate(name, last, phase, "seconds")]
        print(f"\nof {last} clients, seconds of processor time, and how much of all "
              "processors was in use, by whomever\n\n" + markdown(
                  ["", "phase", "clients", "nbdfuse", "arrays", "members", "in use"],
                  rows))

    def spent(self, name, clients, phase):
        runs = quiet(self.points[self.key(name, clients, phase)]["runs"])
        return {**{kind: statistics.median(r["cpu s"][kind] for r in runs)
                   for kind in runs[0]["cpu s"]},
                "busy": statistics.median(r["busy"] for r in runs)}

    def panels(self):
        panels = {}
        for name in self.arrays:
            lines = {phase: [(n, s) for n in self.a.clients
                             if (s := self.rate(name, n, phase, "seconds"))]
                     for phase in PHASES}
            lines["all"] = [(n, s) for n in self.a.clients
                            if (s := self.seconds(name, n))]
            panels[name] = lines
        panels["all phases"] = {name: panels[name]["all"] for name in self.arrays}
        return panels
