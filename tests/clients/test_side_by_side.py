"""Copies are written side by side where a write waits for all of them.

Topology: an array by static map over members that can be paused (nbdkit's pause filter),
          and note when a request comes and when it is answered (log filter, outside of
          the pause).
Cause: writes with FUA, writes of an array with dup=sync-client, and large writes, while
       all members are paused.
Pass:  of each write, all copies are asked for though none is answered; resumed, the
       members answer each, and no other is asked for.  The copies are alike.
"""

import re
import socket

import nbd
import pytest

from maparray import MapArray, UNIT, stack                       # noqa: F401
from nbdclient import connected
from wefttest import eventually

LINE = re.compile(r"^\S+ \S+ connection=\d+ (\.\.\.)?Write id=\d+ ", re.M)


def pausing_and_noting(control, log):
    def words(path):
        return ["--filter=log", "--filter=pause", "file", path,
                f"pause-control={control(path)}", f"logfile={log(path)}"]
    return words


def say(control, word):
    """To the pause filter, which repeats it as a capital when it is done."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(control))
        s.sendall(word)
        assert s.recv(1) == word.upper()


def writes(logs):
    """(asked, answered) of all writes that these logs tell."""
    ends = [end for log in logs for end in LINE.findall(log.read_text())]
    return ends.count(""), ends.count("...")


@pytest.mark.parametrize("layout,dup,flags,length,requests", [
    ("raid-x", "async-client", nbd.CMD_FLAG_FUA, 4096, 2),
    ("raid-1", "async-client", nbd.CMD_FLAG_FUA, 4096, 4),
    ("raid-10", "sync-client", 0, 4096, 2),
    # Six units of data, and two clusters of three images each.
    ("raid-x", "async-client", 0, 6 * UNIT, 8),
])
def test_all_before_any(tmp_path, stack, layout, dup, flags,     # noqa: F811
                        length, requests):
    def control(path):
        return path.with_suffix(".control")

    def log(path):
        return path.with_suffix(".log")

    a = MapArray(tmp_path, stack, layout, "image-age=10000", dup=dup,
                 others=dict.fromkeys(range(4), pausing_and_noting(control, log)))
    logs = [log(path) for path in a.files]
    h = connected(a.uri)
    for i in range(8):
        before = i * requests
        for path in a.files:
            say(control(path), b"p")
        cookie = h.aio_pwrite(bytearray([i + 1]) * length, i * 12 * UNIT, flags=flags)

        def all_asked():
            h.poll(0)
            return writes(logs) == (before + requests, before)
        eventually(all_asked, every=0.01,
                   what=f"{requests} requests of write {i}, and no answer")
        for path in a.files:
            say(control(path), b"r")
        while not h.aio_command_completed(cookie):
            h.poll(1000)
        eventually(lambda: writes(logs) == (before + requests,) * 2, every=0.01,
                   what=f"the answers of write {i}")
    h.shutdown()
    a.check()
