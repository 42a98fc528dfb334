"""A member whose link is slow, with much on its way, is not taken for a silent one; one
whose link drops large packets, and passes small ones, is out soon.

Topology: a network namespace for each of weftd, an array process and four members.
Cause:    one member's link gives 2 Mbit/s, and keeps whatever waits for it; all of the
          array is read, many requests at a time.  So for seconds no answer comes to its
          end, and a sign of life waits behind them.
Pass:     all is read, and right; no member is lost, for all the time something came.
Fail:     the member is out, though it lives, or a read returns other data than was written.
"""

import os

import pytest

from netcluster import NetCluster
from wefttest import Stopwatch, eventually, run


@pytest.mark.long(13)
def test_congested_member(tmp_path):
    written, read = tmp_path / "written", tmp_path / "read"
    with NetCluster(tmp_path, unit=256 << 10, size=6 << 20) as c:
        size = int(run(*c.inside("a", "nbdinfo", "--size", c.nbd)).stdout)
        written.write_bytes(os.urandom(size))
        run(*c.inside("a", "nbdcopy", "--flush", written, c.nbd))
        run(*c.inside("h2", "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                      "2mbit", "burst", "32k", "limit", "4m"))
        run(*c.inside("a", "nbdcopy", c.nbd, read))
        assert read.read_bytes() == written.read_bytes()
        assert c.states() == ["in-sync"] * 4
        assert "is lost" not in c.log("a")


WRITES = """
import nbd, time
h = nbd.NBD()
h.connect_uri({uri!r})
begin = time.monotonic()
if {reads}:
    assert h.pread(1 << 20, 0) == b"x" * (1 << 20)
else:
    h.pwrite(b"x" * (1 << 20), 0)
    h.flush()
print(time.monotonic() - begin)
"""


@pytest.mark.long(20)
def test_line_drops_large_packets(tmp_path):
    """Connections are made, signs of life and heartbeats come; data does not.  The first
    client waits for some seconds, and weftd says that the disk answers."""
    with NetCluster(tmp_path, unit=64 << 10, size=6 << 20) as c:
        def waits(reads):
            return float(run(*c.inside(
                "a", "/usr/bin/python3", "-c",
                WRITES.format(uri=c.nbd, reads=reads))).stdout)
        watch = Stopwatch(disk=True)
        waits(reads=False)
        assert watch.seconds() < 3
        for reads in True, False:
            with c.large_dropped("h2", out=reads):
                watch = Stopwatch()
                first = waits(reads)
                assert watch.seconds() < 7
                print(f"the first waits for {first:.2f} s, others for "
                      f"{waits(reads):.2f} s")
                assert "large packets" in c.log("h2" if reads else "a")
                assert c.states()[2] != "in-sync"
            eventually(lambda: c.states() == ["in-sync"] * 4, 60)
