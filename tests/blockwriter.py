"""A client that knows what a FLUSH has promised.

    w = Writer(c.nbd, rng); w.start()
    w.until_flushed(3)
    ... kill its array process ...; w.broken()
    w.check(c.nbd)          # by a connection of its own, any time later
    w = Writer(c.nbd, rng, after=w)
"""

import random
import threading
import time

import nbd

from nbdclient import connected
from wefttest import Stopwatch, eventually

BLOCK = 4096
BLOCKS = 512


class Goal:
    """How much of its work a test waits for.  Until a client has done that, and for HASTE_S
    more, it makes no pause.  Then it works in bursts, because the test then waits for
    time-outs of others, which need the processors, too."""

    HASTE_S, REST_S = 0.5, 0.2

    def __init__(self):
        self.count, self.reached = 0, time.monotonic()

    def rests(self):
        """Nobody has to wait for it."""
        return time.monotonic() > self.reached + self.HASTE_S

    def rest(self, done):
        """After a burst; so much is done by now."""
        if done < self.count:
            self.reached = time.monotonic()
        elif self.rests():
            time.sleep(random.random() * self.REST_S)


class Writer(threading.Thread):
    """Writes numbered blocks at random, and flushes now and then.

    self.flushed[b]: the number that a FLUSH has promised; self.issued[b]: the
    last that was sent; self.acknowledged[b]: that was answered.  `after`: whose work
    it goes on with; places[b]: where the block is.  self.forgives: so many FLUSHes
    may fail with EIO, where a last copy was away.  self.longest: how many seconds a
    request has waited, and not before self.since."""

    def __init__(self, uri, rng, after=None, places=None):
        super().__init__(daemon=True)
        self.places = places or [b * BLOCK for b in range(BLOCKS)]
        self.rng, self.number = rng, after.number if after else 1
        self.flushed = after.flushed if after else [0] * BLOCKS
        self.issued = after.issued if after else [0] * BLOCKS
        self.acknowledged, self.longest = list(self.issued), 0
        self.handle = connected(uri)
        self.flushes, self.error, self.done = 0, None, False
        self.goal = Goal()
        self.forgives, self.watch, self.since = 0, Stopwatch(disk=True), 0

    @staticmethod
    def block(number):
        return number.to_bytes(8, "little") * (BLOCK // 8)

    def waited(self, since):
        since = max(since, self.since)
        if time.monotonic() - since > self.longest:
            self.longest = max(self.longest, self.watch.seconds(since))

    def run(self):
        try:
            while not self.done:
                for _ in range(self.rng.randrange(1, 40)):
                    b = self.rng.randrange(BLOCKS)
                    self.number += 1
                    self.issued[b] = self.number
                    since = time.monotonic()
                    self.handle.pwrite(self.block(self.number), self.places[b])
                    self.waited(since)
                    self.acknowledged[b] = self.number
                if self.rng.random() < 0.5:
                    self.flush()
                self.goal.rest(self.flushes)
        except nbd.Error as e:
            self.error = e

    def flush(self):
        promise, since = list(self.acknowledged), time.monotonic()
        try:
            self.handle.flush()
            self.waited(since)
        except nbd.Error as e:
            if e.errno != "EIO" or self.forgives == 0:
                raise
            self.forgives -= 1
            self.acknowledged[:] = self.flushed  # the rest may be gone
            return
        self.flushed = promise
        self.flushes += 1

    def want(self, times):
        """So many FLUSHes more."""
        self.goal.count = self.flushes + times

    def until_flushed(self, times=0):
        """So many FLUSHes more, or as many as are wanted."""
        if times > 0:
            self.want(times)
        eventually(lambda: self.error or self.flushes >= self.goal.count, 60,
                   every=0.01, what="the writer to be answered")
        assert self.error is None, self.error

    def broken(self):
        """Its array process is dead."""
        self.join(30)
        assert not self.is_alive() and self.error

    def end(self):
        """It has seen no error, and flushes all."""
        self.done = True
        self.join(60)
        assert not self.is_alive(), "the writer hangs"
        assert self.error is None, self.error
        self.handle.flush()
        self.flushed = list(self.issued)
        self.handle.shutdown()

    def check(self, uri):
        """Every block has a content that some history allows; the content is kept."""
        h = connected(uri)
        for b in range(BLOCKS):
            data = h.pread(BLOCK, self.places[b])
            number = int.from_bytes(data[:8], "little")
            assert data == self.block(number), f"block {b} is torn"
            assert self.flushed[b] <= number <= self.issued[b], \
                (f"block {b} has {number}, but {self.flushed[b]} was flushed "
                 f"and {self.issued[b]} written last")
            self.flushed[b] = self.issued[b] = number
