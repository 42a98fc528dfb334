"""Copies are written side by side where a write waits for all of them.

Topology: an array by static map over members that take 100 ms for a write (nbdkit's
          delay filter), and note when a request comes and when it is answered (log
          filter, outside of the delay).
Cause: writes with FUA, writes of an array with dup=sync-client, and large writes.
Pass:  of each write, all copies are asked for before any is answered: so it takes
       100 ms, not 200.  The copies are alike.
"""

import re

import nbd
import pytest

from maparray import MapArray, UNIT, stack                       # noqa: F401
from nbdclient import connected

LINE = re.compile(r"^\S+ (\S+) connection=\d+ (\.\.\.)?Write id=(\d+) (.*)$", re.M)


def slow_and_noting(log):
    def words(path):
        return ["--filter=log", "--filter=delay", "file", path,
                f"logfile={log(path)}", "delay-write=100ms"]
    return words


def writes_of(text):
    """(began, ended) of each write, as the log tells them."""
    began, ended = {}, {}
    for time, end, number, _ in LINE.findall(text):
        (ended if end else began)[number] = time
    assert began.keys() == ended.keys()
    return sorted((began[n], ended[n]) for n in began)


@pytest.mark.parametrize("layout,dup,flags,length,requests", [
    ("raid-x", "async-client", nbd.CMD_FLAG_FUA, 4096, 2),
    ("raid-1", "async-client", nbd.CMD_FLAG_FUA, 4096, 4),
    ("raid-10", "sync-client", 0, 4096, 2),
    # Six units of data, and two clusters of three images each.
    ("raid-x", "async-client", 0, 6 * UNIT, 8),
])
def test_all_before_any(tmp_path, stack, layout, dup, flags,     # noqa: F811
                        length, requests):
    def log(path):
        return path.with_suffix(".log")

    a = MapArray(tmp_path, stack, layout, "image-age=10000", dup=dup,
                 others=dict.fromkeys(range(4), slow_and_noting(log)))
    h = connected(a.uri)
    read = dict.fromkeys(a.files, 0)
    for i in range(8):
        h.pwrite(bytes([i + 1]) * length, i * 12 * UNIT, flags)
        writes = []
        for path in a.files:
            text = log(path).read_text()
            writes += writes_of(text[read[path]:])
            read[path] = len(text)
        assert len(writes) == requests
        assert max(b for b, _ in writes) < min(e for _, e in writes), writes
    h.shutdown()
    a.check()
