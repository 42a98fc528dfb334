"""An array process by static map over plain nbdkit members: without a weftd.

    from maparray import *

    a = MapArray(tmp_path, stack, "raid-x", others={1: unreadable})

The fixture `stack` ends what is entered there.
"""

import contextlib
import json

import pytest

from copies import Copies, Model
from nbdclient import connected
from nbdkitproc import Nbdkit

__all__ = ["MapArray", "UNIT", "dd_disk", "stack"]

UNIT = 64 << 10


@pytest.fixture
def stack():
    with contextlib.ExitStack() as s:
        yield s


def dd_disk(path, flush, note=""):
    """The words of an nbdkit that serves the file by its eval plugin, with this
    shell script as flush; `note` is run before each call."""
    return ["eval", f"get_size=stat -c %s {path}",
            f"pread={note}dd if={path} skip=$4 count=$3 "
            "iflag=skip_bytes,count_bytes status=none",
            f"pwrite={note}dd of={path} seek=$4 oflag=seek_bytes "
            "conv=notrunc status=none",
            "can_write=exit 0", "can_flush=exit 0", f"flush={note}{flush}"]


class MapArray:
    def __init__(self, directory, stack, layout, *words, members=4,
                 size=32 << 20, others={}, dup="async-client", env=None):
        """others: {member: function of its file: its nbdkit's words}"""
        self.files = [directory / f"m{i}.img" for i in range(members)]
        self.members = []
        for i, path in enumerate(self.files):
            with open(path, "wb") as f:
                f.truncate(size)
            mine = others[i](path) if i in others else ["file", path]
            self.members.append(stack.enter_context(Nbdkit(*mine)))
        path = directory / "map.json"
        path.write_text(json.dumps({
            "layout": layout, "unit": UNIT, "dup": dup,
            "members": [{"name": f"m{i}", "uri": m.uri}
                        for i, m in enumerate(self.members)]}))
        self.array = stack.enter_context(Nbdkit("weft", f"map={path}", *words, env=env))
        self.uri = self.array.uri
        self.model = Model(layout, members, UNIT, size)

    def check(self, lost=()):
        h = connected(self.uri)
        assert h.get_size() == self.model.size
        h.flush()
        with Copies(self.model, [(f, 0) for f in self.files]) as copies:
            bad = copies.different(lambda at, n: h.pread(n, at), lost)
        assert not bad, bad[:4]
