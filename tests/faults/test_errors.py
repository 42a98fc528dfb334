"""I/O errors of one member, made by nbdkit's error filter.

Topology: an array process by static map over four plain nbdkit members
          (`nbdkit file`), one of them (drawn by the seed) under the error
          filter.
Pass:  the client sees no error: a read that fails is answered from the other
       copy and repaired by writing it back; a failed write makes the member
       lost, and the array goes on without it.
"""

import random
import re

import pytest

from fiojob import fio
from maparray import *
from nbdclient import connected, refuses


def failing(*parameters, log=None):
    """A file under the error filter (and below that the log filter)."""
    filters = ["--filter=error"] + ["--filter=log"] * bool(log)
    words = list(parameters) + [f"logfile={log}"] * bool(log)
    return lambda path: [*filters, "file", path, *words]


def no_flush(path):
    """A disk that takes everything, but can't make it durable.  The error
    filter lets every flush pass."""
    return dd_disk(path, "echo EIO injecting an error >&2; exit 1")


def array(tmp_path, stack, layout, others):
    return MapArray(tmp_path, stack, layout, "io-timeout=5000", others=others)


LAYOUTS = ["raid-x", "raid-10", "chained", "rotated"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reads_fail_at_random(tmp_path, stack, seed, layout):
    # A mirror's data copy is read, and that is on the first half.
    bad = random.Random(seed).randrange(2 if layout == "raid-10" else 4)
    a = array(tmp_path, stack, layout, {bad: failing(
        "error-pread=EIO", "error-pread-rate=20%")})
    fio(a.uri, jobs=4, depth=4, size="8M", rw="randrw", bs="512-256k",
        bs_unaligned=True, seed=seed % 2 ** 31)
    # Errors there were, and the member is still in use: all copies are right.
    assert "injecting" in a.members[bad].log()
    a.check()


def test_a_failed_read_is_repaired(tmp_path, stack):
    """The second copy's bytes are written over those that can't be read."""
    trigger, log = tmp_path / "trigger", tmp_path / "log"
    a = array(tmp_path, stack, "raid-x", {1: failing(
        "error-pread=EIO", "error-pread-rate=100%",
        f"error-pread-file={trigger}", log=log)})
    on_1 = next(u for u in range(a.model.units)
                if a.model.copies(u)[0][0] == 1)
    h = connected(a.uri)
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
    a = array(tmp_path, stack, layout, {bad: failing(
        "error-pwrite=EIO", "error-pwrite-rate=5%")})
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
    a = array(tmp_path, stack, "raid-x", {2: bad})
    assert 2 in [m for m, _ in a.model.copies(10)]
    h = connected(a.uri)
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
    """If no copy can be read, the client gets EIO, and no other error; readable blocks are
    still read."""
    a = array(tmp_path, stack, "raid-10", {
        i: failing("error-pread=EIO", "error-pread-rate=100%",
                   f"error-pread-file={tmp_path}/trigger{i}")
        for i in range(4)})
    h = connected(a.uri)
    h.pwrite(b"x" * UNIT * 4, 0)
    h.flush()
    members = {m for m, _ in a.model.copies(0)}
    for m in members:
        (tmp_path / f"trigger{m}").write_text("")
    with refuses("EIO"):
        h.pread(4096, 0)
    other = next(u for u in range(4)
                 if not members & {m for m, _ in a.model.copies(u)})
    assert h.pread(UNIT, other * UNIT) == b"x" * UNIT
    for m in members:
        (tmp_path / f"trigger{m}").unlink()
    # An unreadable sector is no lost member.
    assert h.pread(UNIT, 0) == b"x" * UNIT
