"""Histories of sectors, and whether there is an order of what was done that explains
what was read.

    h = History()
    c = Client(h, uri, rng, sectors); c.start()
    c.until_done(100); c.end()
    h.check()

Each sector is a register of its own, and no value is written twice.  So the theorem of
Gibbons and Korach (Testing Shared Memories, 1997, section 4) decides it: all that has to
do with one value, its write and the reads that found it, is a cluster.  Its zone goes
from the earliest end of any of them to the latest begin.  If that is forward in time the
register must have had the value all through the zone; else it must have had it once in
it.  There is such an order exactly if no two forward zones overlap, no forward zone
contains a backward one, and no value was read before it was written.
"""

import collections
import math
import struct
import threading
import time

import nbd

from blockwriter import Goal
from nbdclient import connected
from wefttest import Stopwatch, eventually

SECTOR = 512
SECTORS_MAX = 8  # of a request


def stamp(value, sector):
    return struct.pack("<QQ", value, sector) * (SECTOR // 16)


class History:
    def __init__(self):
        self.lock, self.values = threading.Lock(), 0
        # Of each sector: value -> (begin, end) of its write; (value, begin, end) of reads.
        self.writes = collections.defaultdict(lambda: {0: (-math.inf, -math.inf)})
        self.reads = collections.defaultdict(list)
        self.gone = collections.defaultdict(dict)  # of each sector: value -> since when

    def new_value(self):
        with self.lock:
            self.values += 1
            return self.values

    def wrote(self, value, sectors, begin, end):
        """end: inf when it was not answered; it may have been done, or be done yet."""
        with self.lock:
            for s in sectors:
                self.writes[s][value] = (begin, end)

    def read(self, sector, data, begin, end):
        """A sector that is torn, or that no client wrote, fails at once."""
        value = int.from_bytes(data[:8], "little")
        assert data == (stamp(value, sector) if value else bytes(SECTOR)), \
            f"sector {sector} is torn, or another's: {data[:64]}"
        with self.lock:
            assert begin <= self.gone[sector].get(value, math.inf), \
                f"sector {sector}: {value} was not there any more, and is read"
            self.reads[sector].append((value, begin, end))

    def never(self, value):
        """Where nobody has read it yet, no read that begins from now on finds it."""
        with self.lock:
            for s, values in self.writes.items():
                if value in values and all(r[0] != value for r in self.reads[s]):
                    self.gone[s].setdefault(value, time.monotonic())

    def check(self):
        with self.lock:
            for s in {*self.writes, *self.reads}:
                check_register(s, self.writes[s], self.reads[s])


def check_register(name, writes, reads):
    # For each value: the earliest end, the latest begin.
    zones = {v: list(reversed(times)) for v, times in writes.items()}
    found = set()
    for value, begin, end in reads:
        assert value in writes, f"{name}: {value} was read, and nobody wrote it"
        assert end >= writes[value][0], \
            f"{name}: {value} was read before it was written"
        found.add(value)
        zones[value][0] = min(zones[value][0], end)
        zones[value][1] = max(zones[value][1], begin)
    # A write that was neither acknowledged nor read did not happen.
    zones = {v: z for v, z in zones.items() if v in found or z[0] < math.inf}
    forward = sorted((first, last, v) for v, (first, last) in zones.items()
                     if first < last)
    for (_, last, v), (first, _, w) in zip(forward, forward[1:]):
        assert last <= first, \
            f"{name}: it was {v} until {last}, but {w} from {first} on"
    for v, (first, last) in zones.items():
        if first < last:
            continue
        for begin, end, w in forward:
            assert not (begin < last and first < end), \
                f"{name}: {v} was there between {last} and {first}, but {w} " \
                f"from {begin} to {end}"


class Client(threading.Thread):
    """Reads and writes runs of these sectors (a list of lists, each of neighbours) by one
    connection, and notes what it sees.  self.longest: how many seconds a request has
    waited; self.value: of its last write."""

    def __init__(self, history, uri, rng, runs):
        super().__init__(daemon=True)
        self.history, self.rng, self.runs = history, rng, runs
        self.handle = connected(uri)
        self.count, self.longest, self.since = 0, 0, None
        self.error, self.done, self.value = None, False, 0
        self.watch, self.goal = Stopwatch(disk=True), Goal()

    def run(self):
        try:
            while not self.done:
                self.once()
        except (nbd.Error, AssertionError) as e:
            self.error = e
        self.since = None

    def once(self):
        run, rng = self.rng.choice(self.runs), self.rng
        n = rng.randint(1, min(SECTORS_MAX, len(run)))
        first = rng.randrange(len(run) - n + 1)
        sectors = run[first:first + n]
        self.since = begin = time.monotonic()
        if rng.random() < 0.5:
            data = self.handle.pread(n * SECTOR, sectors[0] * SECTOR)
            end = time.monotonic()
            for i, s in enumerate(sectors):
                self.history.read(s, data[i * SECTOR:(i + 1) * SECTOR], begin, end)
        else:
            self.value = value = self.history.new_value()
            # Others may read it before we are answered, and after we are dead.
            self.history.wrote(value, sectors, begin, math.inf)
            self.handle.pwrite(b"".join(stamp(value, s) for s in sectors),
                               sectors[0] * SECTOR,
                               nbd.CMD_FLAG_FUA if rng.random() < 0.1 else 0)
            end = time.monotonic()
            self.history.wrote(value, sectors, begin, end)
        if end - begin > self.longest:
            self.longest = max(self.longest, self.watch.seconds(begin, end))
        if rng.random() < 0.02:
            self.handle.flush()
        self.count += 1
        if self.count < self.goal.count or rng.random() < 0.05:
            self.goal.rest(self.count)

    def want(self, times):
        """So many requests more."""
        self.goal.count = self.count + times

    def until_done(self, times=0, seconds=60):
        """So many requests more, or as many as are wanted."""
        if times > 0:
            self.want(times)
        eventually(lambda: self.error or self.count >= self.goal.count, seconds,
                   every=0.01, what="the client to be answered")
        assert self.error is None, self.error

    def broken(self):
        """Its array process is dead."""
        self.join(30)
        assert not self.is_alive() and isinstance(self.error, nbd.Error)

    def end(self):
        self.done = True
        self.join(60)
        assert not self.is_alive(), "the client hangs"
        assert self.error is None, self.error
        self.handle.flush()
        self.handle.shutdown()


class Paced(Client):
    """Leaves some of the processor to others."""

    def once(self):
        super().once()
        time.sleep(0.01)
        self.goal.rest(self.count)
