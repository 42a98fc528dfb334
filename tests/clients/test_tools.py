"""The clients that people have: qemu-img, qemu-io, nbdcopy, nbdinfo.

Topology: one raid-x devcluster of four members.
Pass:  the tools succeed, what comes out is what went in, all copies on the
       members' files are alike, and what is sparse stays so.
"""

import hashlib
import json
import os
import random

import nbd
import pytest

from copies import check_copies, model_of
from nbdclient import connected
from wefttest import run

UNIT = 64 << 10


@pytest.fixture
def array(cluster):
    return cluster(layout="raid-x", members=4, unit=UNIT, size="96M")


def size_of(c):
    return int(run("nbdinfo", "--size", c.nbd).stdout)


def make_file(path, size, seed, holes=True):
    """Random bytes, and when wanted every other MiB a hole."""
    rng = random.Random(seed)
    with open(path, "wb") as f:
        for at in range(0, size, 1 << 20):
            if holes and at >> 20 & 1:
                continue
            f.seek(at)
            f.write(rng.randbytes(min(1 << 20, size - at)))
        f.truncate(size)


def checksum(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


# Of each member's file, beside its data: the header, and what the file system
# itself needs to find the pieces of a file full of holes.
HEADER = (1 << 20) + (64 << 10)


def allocated(c):
    return sum(os.stat(m["file"]).st_blocks * 512 for m in c.members)


def extents(uri, what="data"):
    """nbdinfo's extents as (offset, length, is data)."""
    out = json.loads(run("nbdinfo", "--map", "--json", uri).stdout)
    return [(e["offset"], e["length"], e["type"] == 0) for e in out]


def data_bytes(uri):
    return sum(n for _, n, data in extents(uri) if data)


def test_nbdinfo(array):
    info = json.loads(run("nbdinfo", "--json", array.nbd).stdout)
    export = info["exports"][0]
    assert export["export-size"] == model_of(array, "raid-x", UNIT).size
    assert export["is_read_only"] is False
    for flag in ("can_multi_conn", "can_flush", "can_fua", "can_trim",
                 "can_zero"):
        assert export[flag] is True, flag
    assert export["block_size_minimum"] == 1
    assert export["block_size_preferred"] >= 4096
    assert export["block_size_maximum"] >= 8 << 20


def test_a_fresh_array_is_one_hole(array):
    assert data_bytes(array.nbd) == 0
    assert sum(n for _, n, _ in extents(array.nbd)) == size_of(array)


def test_map_shows_what_was_written_and_trimmed(array):
    h = connected(array.nbd)
    start, n = 10 * UNIT + 4096, 3 << 20
    h.pwrite(b"x" * n, start)
    h.flush()
    shown = [(at, size) for at, size, data in extents(array.nbd) if data]
    assert sum(size for _, size in shown) == n, shown
    assert min(at for at, _ in shown) == start
    assert max(at + size for at, size in shown) == start + n

    h.trim(n, start)
    h.flush()
    assert data_bytes(array.nbd) == 0
    assert h.pread(n, start) == bytes(n)
    # Nothing is left but the headers.
    assert allocated(array) <= 4 * HEADER


def test_nbdcopy_both_ways(array, tmp_path, seed):
    size = size_of(array)
    src, dst = tmp_path / "in", tmp_path / "out"
    make_file(src, size, seed)
    run("nbdcopy", "--connections=4", "--flush", src, array.nbd)
    run("nbdcopy", "--connections=4", array.nbd, dst)
    assert checksum(src) == checksum(dst)

    # Sparse stays sparse: over there twice the data, back here as before.
    data = os.stat(src).st_blocks * 512
    assert data < size * 0.6
    assert allocated(array) <= 2 * data + 4 * HEADER
    assert data_bytes(array.nbd) <= data
    assert os.stat(dst).st_blocks * 512 <= data + (1 << 20)

    with open(src, "rb") as f:
        check_copies(array, model_of(array, "raid-x", UNIT),
                     lambda at, n: os.pread(f.fileno(), n, at))


def test_qemu_img(array, tmp_path, seed):
    src, qcow, out = (tmp_path / n for n in ("src", "src.qcow2", "out"))
    make_file(src, size_of(array), seed)
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", src, qcow)
    # Eight requests at a time, in any order.
    run("qemu-img", "convert", "-n", "-W", "-m", "8", "-f", "qcow2", "-O",
        "raw", qcow, array.nbd)
    run("qemu-img", "compare", "-f", "qcow2", "-F", "raw", qcow, array.nbd)
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", array.nbd, out)
    assert checksum(src) == checksum(out)

    shown = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json",
                           array.nbd).stdout)
    assert sum(e["length"] for e in shown) == size_of(array)
    assert (sum(e["length"] for e in shown if e["data"])
            <= os.stat(src).st_blocks * 512)
    check_copies(array, model_of(array, "raid-x", UNIT))

    # One byte is enough for compare to see.
    with open(src, "rb") as f:
        other = f.read(5000002)[-1] ^ 0xff
    run("qemu-io", "-f", "raw", "-c", f"write -P {other} 5000001 1", array.nbd)
    differ = run("qemu-img", "compare", "-f", "qcow2", "-F", "raw", qcow,
                 array.nbd, check=False)
    assert differ.returncode == 1 and "mismatch" in differ.stdout


def qemu_io(uri, *commands):
    words = [w for c in commands for w in ("-c", c)]
    p = run("qemu-io", "-f", "raw", *words, uri)
    # It says so and exits with 0.
    assert "verification failed" not in p.stdout + p.stderr, p.stdout
    assert "failed" not in p.stderr, p.stderr
    return p


def test_qemu_io(array):
    qemu_io(array.nbd,
            "write -P 0xa1 0 1M",
            "write -f -P 0xa2 1M 64k",            # FUA
            "write -P 0xa3 12345 777",            # at any byte
            "write -P 0xa4 65535 2",              # across a stripe unit
            "write -z 300k 100k",                 # zero, storage kept
            "write -z -u 600k 100k",              # zero, may unmap
            "discard 800k 64k",
            "flush",
            "read -P 0xa1 0 12345",
            "read -P 0xa3 12345 777",
            "read -P 0xa4 65535 2",
            "read -P 0xa1 65537 1000",
            "read -P 0 300k 100k",
            "read -P 0xa1 400k 200k",
            "read -P 0 600k 100k",
            "read -P 0 800k 64k",
            "read -P 0xa2 1M 64k",
            "read -P 0 1088k 1k")
    # Many at once, each then read by another connection.
    size = size_of(array)
    many = [(i, (i * 7_654_321) % (size - 300_000), 1000 * i + 1)
            for i in range(1, 40)]
    free = []
    for i, at, n in many:
        if all(at + n <= a or a + m <= at for _, a, m in free):
            free.append((i, at, n))
    qemu_io(array.nbd,
            *[f"aio_write -P {i} {at} {n}" for i, at, n in free],
            "aio_flush")
    qemu_io(array.nbd, *[f"read -P {i} {at} {n}" for i, at, n in free])
    check_copies(array, model_of(array, "raid-x", UNIT))


def test_qemu_io_sees_wrong_bytes(array):
    """The helper above must be able to fail."""
    with pytest.raises(AssertionError):
        qemu_io(array.nbd, "write -P 1 0 4k", "read -P 2 0 4k")


def test_the_last_byte(array):
    size = size_of(array)
    qemu_io(array.nbd, f"write -P 9 {size - 1} 1", f"read -P 9 {size - 1} 1")
    h = nbd.NBD()
    h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_BOUNDS)
    h.connect_uri(array.nbd)
    for call in (lambda: h.pread(2, size - 1),
                 lambda: h.pwrite(b"xx", size - 1),
                 lambda: h.trim(1, size)):
        with pytest.raises(nbd.Error):
            call()
    assert h.pread(1, size - 1) == b"\t"
