"""A member's flush fails once, and would succeed if it were tried again.

Topology: an array process by static map over four nbdkit members; one of them
          (drawn by the seed) is nbdkit's eval plugin.
Cause: after an error of fsync the kernel calls the pages clean: the next one
       succeeds, and the data may be gone.
Pass:  the client's FLUSH succeeds without that member, which is never asked for
       anything again.
"""

import random

from maparray import *
from nbdclient import connected
from wefttest import eventually


def test_failed_flush_is_never_tried_again(tmp_path, stack, seed):
    bad = random.Random(seed).randrange(4)
    log = tmp_path / "calls"
    log.touch()
    # Each call is noted, and the first flush fails.
    a = MapArray(tmp_path, stack, "raid-x", size=8 << 20, others={
        bad: lambda path: dd_disk(
            path, f"[ \"$(grep -c flush {log})\" -gt 1 ] || "
            "{ echo EIO lost what was written >&2; exit 1; }",
            note=f"echo $1 >>{log}; ")})
    h = connected(a.uri)
    data = random.Random(seed).randbytes(UNIT * 16)
    h.pwrite(data, 0)
    h.flush()
    eventually(lambda: f"m{bad}" in a.array.log(), what="the member is lost")
    calls = log.read_text().split()
    assert calls.count("flush") == 1, calls

    for _ in range(3):
        h.pwrite(data, UNIT * 16)
        h.flush()
    assert h.pread(UNIT * 32, 0) == data * 2
    assert log.read_text().split() == calls
    a.check(lost=(bad,))
