"""I/O errors of one member, made by nbdkit's error filter.

Topology: an array process by static map over four plain nbdkit members
          (`nbdkit file`), one of them (drawn by the seed) under the error
          filter.
Pass:  the client sees no error: a read that fails is answered from the other
       copy and repaired by writing it back; a failed write makes the member
       lost, and the array goes on without it.
"""

import contextlib
import json
import random
import re

import nbd
import pytest

from copies import Copies, Model
from fiojob import fio
from nbdkitproc import Nbdkit

UNIT = 64 << 10
BYTES = 32 << 20


def failing(*parameters, log=None):
    """A file under the error filter (and below that the log filter)."""
    filters = ["--filter=error"] + ["--filter=log"] * bool(log)
    words = list(parameters) + [f"logfile={log}"] * bool(log)
    return lambda path: [*filters, "file", path, *words]


def no_flush(path):
    """A disk that takes everything, but can't make it durable.  The error
    filter lets every flush pass."""
    return ["eval", f"get_size=stat -c %s {path}",
            f"pread=dd if={path} skip=$4 count=$3 "
            "iflag=skip_bytes,count_bytes status=none",
            f"pwrite=dd of={path} seek=$4 oflag=seek_bytes conv=notrunc "
            "status=none", "can_write=exit 0", "can_flush=exit 0",
            "flush=echo EIO injecting an error >&2; exit 1"]


class Array:
    def __init__(self, tmp_path, layout, filters, stack):
        """filters: {member: function of its file: its nbdkit's words}"""
        self.files = [tmp_path / f"m{i}.img" for i in range(4)]
        members = []
        for i, path in enumerate(self.files):
            with open(path, "wb") as f:
                f.truncate(BYTES)
            words = filters.get(i, lambda f: ["file", f])(path)
            members.append(stack.enter_context(Nbdkit(*words)))
        self.members = members
        map_path = tmp_path / "map.json"
        map_path.write_text(json.dumps({
            "layout": layout, "unit": UNIT,
            "members": [{"name": f"m{i}", "uri": m.uri}
                        for i, m in enumerate(members)]}))
        self.array = stack.enter_context(
            Nbdkit("weft", f"map={map_path}", "io-timeout=5000"))
        self.uri = self.array.uri
        self.model = Model(layout, 4, UNIT, BYTES)

    def check(self, lost=()):
        h = nbd.NBD()
        h.connect_uri(self.uri)
        assert h.get_size() == self.model.size
        h.flush()
        with Copies(self.model, [(f, 0) for f in self.files]) as copies:
            bad = copies.different(lambda at, n: h.pread(n, at), lost)
        assert not bad, bad[:4]


@pytest.fixture
def stack():
    with contextlib.ExitStack() as s:
        yield s


LAYOUTS = ["raid-x", "raid-10", "chained", "rotated"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reads_fail_at_random(tmp_path, stack, seed, layout):
    # Of a mirror the data copy is read, and that is on the first half.
    bad = random.Random(seed).randrange(2 if layout == "raid-10" else 4)
    a = Array(tmp_path, layout, {bad: failing(
        "error-pread=EIO", "error-pread-rate=20%")}, stack)
    fio(a.uri, jobs=4, depth=4, size="8M", rw="randrw", bs="512-256k",
        bs_unaligned=True, seed=seed % 2 ** 31)
    # Errors there were, and the member is still in use: all copies are right.
    assert "injecting" in a.members[bad].log()
    a.check()


def test_a_failed_read_is_repaired(tmp_path, stack):
    """The second copy's bytes are written over those that can't be read."""
    trigger, log = tmp_path / "trigger", tmp_path / "log"
    a = Array(tmp_path, "raid-x", {1: failing(
        "error-pread=EIO", "error-pread-rate=100%",
        f"error-pread-file={trigger}", log=log)}, stack)
    on_1 = next(u for u in range(a.model.units)
                if a.model.copies(u)[0][0] == 1)
    h = nbd.NBD()
    h.connect_uri(a.uri)
    h.pwrite(b"r" * UNIT, on_1 * UNIT)
    h.flush()
    # The disk forgot: only the image has it now.
    unit = a.model.copies(on_1)[0][1]
    with open(a.files[1], "r+b") as f:
        f.seek(unit * UNIT)
        f.write(b"?" * UNIT)
    log.write_text("")
    trigger.write_text("")
    assert h.pread(UNIT, on_1 * UNIT) == b"r" * UNIT
    h.flush()
    writes = re.findall(r" Write .*offset=0x([0-9a-f]+) count=0x([0-9a-f]+)",
                        log.read_text())
    done = set()
    for offset, count in writes:
        done.update(range(int(offset, 16), int(offset, 16) + int(count, 16),
                          512))
    assert done >= set(range(unit * UNIT, (unit + 1) * UNIT, 512)), writes
    trigger.unlink()
    a.check()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_writes_fail_at_random(tmp_path, stack, seed, layout):
    bad = random.Random(seed).randrange(4)
    a = Array(tmp_path, layout, {bad: failing(
        "error-pwrite=EIO", "error-pwrite-rate=5%")}, stack)
    fio(a.uri, jobs=4, depth=4, size="8M", rw="randrw", bs="512-256k",
        bs_unaligned=True, seed=seed % 2 ** 31)
    a.check(lost=(bad,))
    # It is lost for good, not tried again and again.
    assert a.members[bad].log().count("injecting") >= 1
    assert f"m{bad}" in a.array.log(), a.array.log()


@pytest.mark.parametrize("bad,ask", [
    (failing("error-zero=EIO", "error-zero-rate=100%"),
     lambda h: h.zero(UNIT * 2, UNIT * 9)),
    # A trim is a zero that may unmap.
    (failing("error-zero=EIO", "error-zero-rate=100%"),
     lambda h: h.trim(UNIT * 2, UNIT * 9)),
    (no_flush, lambda h: None)], ids=["zero", "trim", "flush"])
def test_other_requests_fail(tmp_path, stack, bad, ask):
    """A zero, trim or flush that fails is as bad as a write."""
    a = Array(tmp_path, "raid-x", {2: bad}, stack)
    assert 2 in [m for m, _ in a.model.copies(10)]
    h = nbd.NBD()
    h.connect_uri(a.uri)
    h.pwrite(b"a" * UNIT * 12, 0)
    ask(h)
    h.flush()
    h.flush()
    held = h.pread(UNIT * 12, 0)
    assert held in (b"a" * UNIT * 12,
                    b"a" * UNIT * 9 + bytes(UNIT * 2) + b"a" * UNIT)
    assert (bad is no_flush) == (held[UNIT * 9] != 0)
    a.check(lost=(2,))
    assert "m2" in a.array.log()


def test_both_copies_fail(tmp_path, stack):
    """Where no copy can be read the client gets EIO, and nothing else: what
    can be read still is."""
    filters = {i: failing("error-pread=EIO", "error-pread-rate=100%",
                          f"error-pread-file={tmp_path}/trigger{i}")
               for i in range(4)}
    a = Array(tmp_path, "raid-10", filters, stack)
    h = nbd.NBD()
    h.connect_uri(a.uri)
    h.pwrite(b"x" * UNIT * 4, 0)
    h.flush()
    members = {m for m, _ in a.model.copies(0)}
    for m in members:
        (tmp_path / f"trigger{m}").write_text("")
    with pytest.raises(nbd.Error) as e:
        h.pread(4096, 0)
    assert e.value.errno == "EIO"
    other = next(u for u in range(4)
                 if not members & {m for m, _ in a.model.copies(u)})
    assert h.pread(UNIT, other * UNIT) == b"x" * UNIT
    for m in members:
        (tmp_path / f"trigger{m}").unlink()
    # An unreadable sector is no lost member.
    assert h.pread(UNIT, 0) == b"x" * UNIT
