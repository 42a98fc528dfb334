"""Several array processes, and clients of each that know what they may read.

    with all_write(c, rng, places) as w:    # places[i][b]: where process i's block b is
        w.until_flushed(5)
        w.lose(1); c.kill("array1"); w.all[1].broken()
        c.start("array1"); w.go_on(1)
"""

import contextlib
import random
import threading
import time

import nbd

from blockwriter import BLOCK, BLOCKS, Goal, Writer
from nbdclient import connected
from wefttest import eventually


class Reader(threading.Thread):
    """Reads what the others write, by way of one process."""

    def __init__(self, uri, writers, rng):
        super().__init__(daemon=True)
        self.handle, self.writers, self.rng = connected(uri), writers, rng
        self.done, self.reads, self.error = False, 0, None

    def run(self):
        try:
            while not self.done:
                self.look(self.rng.choice(self.writers), self.rng.randrange(BLOCKS))
                if self.rng.random() < 0.05 and all(
                        w.goal.rests() for w in self.writers):
                    time.sleep(self.rng.random() * Goal.REST_S)
        except (nbd.Error, AssertionError) as e:
            self.error = e

    def look(self, w, b):
        # Before the read: a client that continues a dead one's work notes its findings in
        # these lists.
        least, flushed, most = w.acknowledged[b], w.flushed[b], w.issued[b]
        data = self.handle.pread(BLOCK, w.places[b])
        number, most = int.from_bytes(data[:8], "little"), max(most, w.issued[b])
        if w.gone:
            least = flushed
        self.reads += 1
        if data == Writer.block(number):
            assert least <= number <= most, (w.places[b], least, number, most)
        else:
            assert least < most, f"torn, and nobody wrote: {w.places[b]}"


class Writers:
    """One for each array process, and a reader of the others' places beside it.
    places: a list for each."""

    def __init__(self, c, rng, places):
        self.c, self.rng = c, rng
        self.all = [Writer(a["uri"], self.mine(), places=p)
                    for a, p in zip(c.arrays, places)]
        for w in self.all:
            w.gone = False
        self.readers, self.lost = {}, []
        for i, w in enumerate(self.all):
            w.start()
            self.read(i)

    def mine(self):
        return random.Random(self.rng.random())

    def read(self, i):
        others = self.all[:i] + self.all[i + 1:]
        self.readers[i] = Reader(self.c.arrays[i]["uri"], others, self.mine())
        self.readers[i].start()

    def until_flushed(self, times, but=()):
        """Each of them; all at the same time."""
        some = [w for i, w in enumerate(self.all) if i not in but]
        for w in some:
            w.want(times)
        for w in some:
            w.until_flushed()
        self.well()

    def well(self):
        for r in self.readers.values():
            assert r.error is None, r.error
        for r in self.lost:
            assert r.error is None or isinstance(r.error, nbd.Error), r.error

    def lose(self, i):
        """This one is about to be killed: say so before."""
        self.all[i].gone = True
        self.readers[i].done = True
        self.lost.append(self.readers.pop(i))
        return self.lost[-1]

    def go_on(self, i):
        """Its process is back: all that was flushed is there."""
        w = self.all[i]
        w.check(self.c.arrays[i]["uri"])
        new = Writer(self.c.arrays[i]["uri"], self.mine(), after=w,
                     places=w.places)
        new.gone = False
        for r in self.readers.values():
            r.writers = [new if x is w else x for x in r.writers]
        self.all[i] = new
        new.start()
        self.read(i)

    def longest(self, but=()):
        return max(w.longest for i, w in enumerate(self.all) if i not in but)

    def end(self):
        for r in self.readers.values():  # one may have begun a moment ago
            eventually(lambda: r.reads > 10 or r.error, 60, what="a reader reads")
            r.done = True
        for r in [*self.readers.values(), *self.lost]:
            r.join(60)
            assert not r.is_alive(), "a reader hangs"
        self.well()
        for w in self.all:
            if not w.done:
                w.end()


@contextlib.contextmanager
def all_write(c, rng, places):
    """In the end each place is what it should be, by way of each process."""
    w = Writers(c, rng, places)
    try:
        yield w
    except BaseException:
        for one in [*w.all, *w.readers.values()]:
            one.done = True
        raise
    w.end()
    for a in c.arrays:
        for one in w.all:
            one.check(a["uri"])
