"""A member's flush fails once, and would succeed if it were tried again.

Topology: an array process by static map over four nbdkit members; one of them
          (drawn by the seed) is nbdkit's eval plugin.
Cause: after an error of fsync the kernel calls the pages clean: the next one
       succeeds, and the data may be gone.
Pass:  the client's FLUSH succeeds without that member, which is never asked for
       anything again.
"""

import contextlib
import json
import random

import nbd
import pytest

from copies import Copies, Model
from nbdkitproc import Nbdkit
from wefttest import eventually

UNIT = 64 << 10
BYTES = 8 << 20
MEMBERS = 4


def fails_once(path, log):
    """An eval member that notes each call, and whose first flush fails."""
    note = f"echo $1 >>{log}; "
    return ["eval", f"get_size=stat -c %s {path}",
            f"pread={note}dd if={path} skip=$4 count=$3 "
            "iflag=skip_bytes,count_bytes status=none",
            f"pwrite={note}dd of={path} seek=$4 oflag=seek_bytes "
            "conv=notrunc status=none",
            f"flush={note}[ \"$(grep -c flush {log})\" -gt 1 ] || "
            "{ echo EIO lost what was written >&2; exit 1; }",
            "can_write=exit 0", "can_flush=exit 0"]


@pytest.fixture
def stack():
    with contextlib.ExitStack() as s:
        yield s


def test_failed_flush_is_never_tried_again(tmp_path, stack, seed):
    bad = random.Random(seed).randrange(MEMBERS)
    files = [tmp_path / f"m{i}.img" for i in range(MEMBERS)]
    log = tmp_path / "calls"
    log.touch()
    map_path = tmp_path / "map.json"
    members = []
    for i, path in enumerate(files):
        with open(path, "wb") as f:
            f.truncate(BYTES)
        members.append(stack.enter_context(Nbdkit(
            *(fails_once(path, log) if i == bad else ["file", path]))))
    map_path.write_text(json.dumps({
        "layout": "raid-x", "unit": UNIT,
        "members": [{"name": f"m{i}", "uri": m.uri}
                    for i, m in enumerate(members)]}))
    array = stack.enter_context(Nbdkit("weft", f"map={map_path}"))
    model = Model("raid-x", MEMBERS, UNIT, BYTES)

    h = nbd.NBD()
    h.connect_uri(array.uri)
    data = random.Random(seed).randbytes(UNIT * 16)
    h.pwrite(data, 0)
    h.flush()
    eventually(lambda: f"m{bad}" in array.log(), what="the member is lost")
    calls = log.read_text().split()
    assert calls.count("flush") == 1, calls

    for _ in range(3):
        h.pwrite(data, UNIT * 16)
        h.flush()
    assert h.pread(UNIT * 32, 0) == data * 2
    assert log.read_text().split() == calls
    with Copies(model, [(f, 0) for f in files]) as copies:
        bad_units = copies.different(lambda at, n: h.pread(n, at), (bad,))
    assert bad_units == []
