"""A client that knows what a FLUSH has promised.

    w = Writer(c.nbd, rng); w.start()
    ... kill something ...
    w.check(c.nbd)          # by a connection of its own, any time later
"""

import threading

import nbd

BLOCK = 4096
BLOCKS = 512


class Writer(threading.Thread):
    """Writes numbered blocks at random, and flushes now and then.

    self.flushed[b]: the number that a FLUSH has promised; self.issued[b]: the
    last that was sent."""

    def __init__(self, uri, rng, start=1):
        super().__init__()
        self.rng, self.number = rng, start
        self.flushed = [0] * BLOCKS
        self.issued = [0] * BLOCKS
        self.handle = nbd.NBD()
        self.handle.connect_uri(uri)
        self.flushes, self.error, self.done = 0, None, False

    @staticmethod
    def block(number):
        return number.to_bytes(8, "little") * (BLOCK // 8)

    def run(self):
        acknowledged = list(self.issued)
        try:
            while not self.done:
                for _ in range(self.rng.randrange(1, 40)):
                    b = self.rng.randrange(BLOCKS)
                    self.number += 1
                    self.issued[b] = self.number
                    self.handle.pwrite(self.block(self.number), b * BLOCK)
                    acknowledged[b] = self.number
                if self.rng.random() < 0.5:
                    promise = list(acknowledged)
                    self.handle.flush()
                    self.flushed = promise
                    self.flushes += 1
        except nbd.Error as e:
            self.error = e

    def check(self, uri):
        """Every block is as some history allows; what is read is kept."""
        h = nbd.NBD()
        h.connect_uri(uri)
        for b in range(BLOCKS):
            data = h.pread(BLOCK, b * BLOCK)
            number = int.from_bytes(data[:8], "little")
            assert data == self.block(number), f"block {b} is torn"
            assert self.flushed[b] <= number <= self.issued[b], \
                (f"block {b} has {number}, but {self.flushed[b]} was flushed "
                 f"and {self.issued[b]} written last")
            self.flushed[b] = self.issued[b] = number
