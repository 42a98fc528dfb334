"""The member role and its disk: the disks that it accepts and refuses, and what happens when
one fails.

Topology: a weftd and members, no array process; the host is played
          (memberhost.py).
Causes: foreign disks, block devices, full disks, failing flushes, torn headers.
Pass:  The promises of docs/FORMAT.md and core/member/member.h hold; disks of others stay
       untouched.
"""

import contextlib
import errno
import os
import signal
import socket
import struct
import subprocess
import uuid
import zlib

import nbd
import pytest

from arraystate import states, wait_failed, wait_in_sync
from badspots import bad_spots, fail_flush
from memberhost import (Array, HEADER, MIB, ROUND, array, batch, dirty_in_view,
                        dirty_on_disk, read_slots, read_superblock, refuses)
from nbdclient import connected
from nbdkitproc import Nbdkit, refused
from wefttest import Stopwatch, eventually, free_port, run


def start_refused(path, admin):
    return refused("weft", f"disk={path}", f"admin={admin}",
                   "uri=nbd://127.0.0.1:10999", "node=n9")


@pytest.fixture
def weftd(cluster):
    return cluster(members=1, size="32M", no_array=True)


def format_disk(path, *words, check=True):
    return run("weftctl", "disk", "format", path, *words, check=check)


def a_file(tmp_path, size=32 * MIB):
    path = tmp_path / "disk.img"
    with open(path, "wb") as f:
        f.truncate(size)
    return path


@contextlib.contextmanager
def tmpfs(directory, size):
    directory.mkdir()
    run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory)
    try:
        yield directory
    finally:
        run("umount", directory)


def gpt(size):
    """The least that is a GUID partition table: both headers, no entries."""
    entries = bytes(128 * 128)

    def header(lba, other, table):
        h = struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0,
                        lba, other, 34, size // 512 - 34,
                        uuid.uuid4().bytes, table, 128, 128,
                        zlib.crc32(entries))
        return h[:16] + struct.pack("<I", zlib.crc32(h)) + h[20:]

    last = size // 512 - 1
    mbr = bytearray(512)
    mbr[446:462] = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xee, b"\xff" * 3,
                               1, last)
    mbr[510:] = b"\x55\xaa"
    return {0: bytes(mbr), 512: header(1, last, 2),
            last * 512: header(last, 1, last - 32)}


def lvm():
    label = struct.pack("<QI8s", 1, 32, b"LVM2 001") + b"A" * 32
    label = label + bytes(512 - 12 - len(label) - 8)
    body = label[8:]
    crc = zlib.crc32(body, 0xf597a6cf ^ 0xffffffff) ^ 0xffffffff
    return {512: b"LABELONE" + label[:8] + struct.pack("<I", crc) + body}


def md_at_end(size):
    """Version 1.0: at the end of the disk, within the data area."""
    sector = (size // 512 - 16) & ~7
    sb = bytearray(512)
    struct.pack_into("<II", sb, 0, 0xa92b4efc, 1)
    sb[16:32] = uuid.uuid4().bytes
    struct.pack_into("<Q", sb, 144, sector)
    total = sum(struct.unpack("<64I", sb[:256]))
    struct.pack_into("<I", sb, 216, (total + (total >> 32)) & 0xffffffff)
    return {sector * 512: bytes(sb)}


@pytest.mark.parametrize("what, words", [
    ("gpt", "partition table"), ("lvm", "LVM"), ("md", "software RAID"),
    ("swap", "swap"), ("ext4", "ext4 file system labelled \"home\"")])
def test_foreign_disks(weftd, tmp_path, what, words):
    """Refused as a member, not formatted over; with force, formatted so that
    libblkid finds nothing any more."""
    path = a_file(tmp_path)
    if what == "ext4":
        run("mke2fs", "-q", "-t", "ext4", "-L", "home", path)
    elif what == "swap":
        run("mkswap", path)
    else:
        parts = {"gpt": lambda: gpt(32 * MIB), "lvm": lvm,
                 "md": lambda: md_at_end(32 * MIB)}[what]()
        with open(path, "r+b") as f:
            for at, data in parts.items():
                f.seek(at)
                f.write(data)
    before = path.read_bytes()
    line = start_refused(path, weftd.admin)
    assert words in line and str(path) in line, line
    p = format_disk(path, check=False)
    assert p.returncode != 0 and words in p.stderr, p.stderr
    assert path.read_bytes() == before
    format_disk(path, "--force")
    p = run("blkid", "-p", path, check=False)
    assert p.returncode == 2 and p.stdout == "", p.stdout
    assert read_superblock(path)["array"] == str(uuid.UUID(int=0))


def test_a_file_system_made_over_a_member(weftd, tmp_path):
    """Swap space overwrites one slot only: the other must not serve."""
    path = a_file(tmp_path)
    format_disk(path)
    run("mkswap", path)
    line = start_refused(path, weftd.admin)
    assert "holds swap space" in line, line


def test_fresh_disks_know_whether_they_are_clean(tmp_path):
    clean = a_file(tmp_path)
    format_disk(clean)
    assert dirty_on_disk(clean) == set()
    used = tmp_path / "used.img"
    used.write_bytes(b"something" * 1000000)
    format_disk(used)
    s = read_superblock(used)
    assert s["data_bytes"] == (9000000 - MIB) // 4096 * 4096
    with open(used, "rb") as f:
        f.seek(HEADER)
        zeroes = not any(f.read(s["data_bytes"]))
    assert dirty_on_disk(used) == (set() if zeroes else {0, 1})


def test_disks_that_cannot_be_zeroed_start_dirty(tmp_path):
    """tmpfs has no ZERO_RANGE, so what was there is still there."""
    with tmpfs(tmp_path / "small", "20m") as small:
        disk = small / "disk.img"
        disk.write_bytes(b"something" * 1000000)
        format_disk(disk)
        with open(disk, "rb") as f:
            f.seek(HEADER)
            assert f.read(9) != bytes(9)
        assert dirty_on_disk(disk) == {0, 1}


@pytest.fixture
def loop(tmp_path):
    """A real block device."""
    path = a_file(tmp_path, 40 * MIB)
    device = run("losetup", "-f", "--show", path).stdout.strip()
    yield device
    run("losetup", "-d", device)


def test_block_device(weftd, loop, tmp_path):
    """Claimed for ourselves alone while it is served; refused while somebody
    else has it; everything works on it as on a file."""
    run("mke2fs", "-q", "-t", "ext4", loop)
    mount = tmp_path / "mnt"
    mount.mkdir()
    run("mount", loop, mount)
    try:
        p = format_disk(loop, "--force", check=False)
        assert p.returncode != 0 and "in use" in p.stderr, p.stderr
    finally:
        run("umount", mount)
    format_disk(loop, "--force")
    with open(loop, "rb") as f:
        f.seek(HEADER)
        zeroes = not any(f.read())
    assert dirty_on_disk(loop) == (set() if zeroes else set(range(10)))

    # In the place of the devcluster's only member, with an array over it.
    weftd.may_end("m0")
    weftd.kill("m0")
    host, port = weftd.members[0]["uri"][len("nbd://"):].split(":")
    with serving(loop, weftd.admin, host, port):
        h = alone(weftd, loop, host, port)()
        model = bytearray(os.urandom(MIB))
        h.pwrite(model, 5 * MIB, nbd.CMD_FLAG_FUA)
        for at, n, trim in ((100, 1000, False), (5000, 20000, True),
                            (65536, 131072, False), (262144, 4096, True),
                            (300001, 4095, True), (MIB - 7, 7, False)):
            (h.trim if trim else h.zero)(n, 5 * MIB + at)
            model[at:at + n] = bytes(n)
        h.flush()
        assert h.pread(MIB, 5 * MIB) == model
        assert "in use" in start_refused(loop, weftd.admin)
        p = format_disk(loop, "--force", check=False)
        assert p.returncode != 0 and "in use" in p.stderr, p.stderr
        # The system can't take it either.
        assert run("mount", loop, mount, check=False).returncode != 0


@contextlib.contextmanager
def serving(path, admin, host, port):
    with Nbdkit("weft", f"disk={path}", f"admin={admin}", "node=n9",
                f"uri=nbd://{host}:{port}", address=(host, port)) as p:
        yield
        assert p.process.poll() is None, p.log()
        assert p.stop() == 0, p.log()


def alone(c, path, host, port):
    """Its array, and a client of its data door."""
    disk = eventually(lambda: next(
        (d for d in c.get("/api/v1/disks")["disks"]
         if d["path"] == str(path) and d["alive"]), None))
    status, reply = c.call("POST", "/api/v1/arrays", {
        "name": "a", "layout": "raid-0", "unit": 65536,
        "disks": [disk["uuid"]]})
    assert status == 201, reply
    eventually(lambda: c.get("/api/v1/arrays/a")["state"] == "ready")
    status, r = c.call("POST", "/api/v1/arrays/a/sessions", {
        "instance": "aa", "node": "n9", "pid": 1, "mode": "rw", "uri": None})
    assert status == 201, r
    token = r["map"]["members"][0]["tokens"]["data"]

    def client():
        h = nbd.NBD()
        h.set_export_name("data/" + token)
        h.connect_tcp(host, port)
        return h
    return client


def test_a_full_file_system_refuses_writes(cluster, tmp_path):
    """The host gets the error of each, and reads what is there; weftd knows why.  When
    there is room again all goes on by itself."""
    c = cluster(members=1, size="32M", no_array=True)
    with tmpfs(tmp_path / "small", "6m") as small:
        disk = a_file(small, 64 * MIB)
        format_disk(disk)
        c.may_end("m0")
        c.kill("m0")
        host, port = c.members[0]["uri"][len("nbd://"):].split(":")

        def short():
            return next(d for d in c.get("/api/v1/disks")["disks"]
                        if d["path"] == str(disk))["short"]

        with serving(disk, c.admin, host, port):
            h = alone(c, disk, host, port)()
            h.pwrite(b"x" * MIB, 0)
            for flags in (0, nbd.CMD_FLAG_FUA):
                with refuses("ENOSPC"):
                    for i in range(1, 8):
                        h.pwrite(b"x" * MIB, i * MIB, flags)
            with refuses("ENOSPC"):
                h.zero(4 * MIB, 32 * MIB, nbd.CMD_FLAG_NO_HOLE)
            h.flush()
            h.pwrite(b"y" * MIB, 0)
            assert h.pread(MIB, 0) == b"y" * MIB
            eventually(lambda: short() == os.strerror(errno.ENOSPC))
            run("mount", "-o", "remount,size=40m", small)
            eventually(lambda: short() is None)
            h.pwrite(b"x" * MIB, 7 * MIB)
            h.zero(4 * MIB, 32 * MIB, nbd.CMD_FLAG_NO_HOLE)
            h.flush()


def test_a_failed_flush_is_not_tried_again(cluster, tmp_path):
    """fdatasync fails once: the kernel may have dropped what it could not
    write, so a later success would mean nothing."""
    array = Array(cluster(members=3, size="61M", no_array=True,
                          env=bad_spots(tmp_path)))
    [h] = array.opened(0, "data")
    h.pwrite(b"x", 0)
    h.flush()
    fail_flush(array.file(0))
    with refuses("EIO"):
        h.flush()
    for request in (h.flush, lambda: h.pread(1, 0), lambda: h.pwrite(b"y", 0)):
        with refuses("EIO"):
            request()
    eventually(lambda: "flushing failed" in str(array.disk(0)))
    # The bits of the written extents are there for the resync.
    assert dirty_on_disk(array.file(0)) == {0}


def test_round_stands_in_both_slots(array):
    """Before it is answered; and weftd hears of it."""
    [h] = array.opened(0, "batch")
    before = read_superblock(array.file(0))
    for number, says in (1, 1), (7, 7), (3, 7):
        h.pwrite(batch((ROUND, 0, number)), 0)
        slots = read_slots(array.file(0))
        assert [s["round"] for s in slots] == [says, says]
        assert [s["version"] for s in slots] == [2, 2]
    assert read_superblock(array.file(0))["sequence"] > before["sequence"]
    assert read_superblock(array.file(1))["round"] == 0
    for bad in (ROUND, 1, 1), (ROUND, 0, 1 << 61):
        with refuses("EINVAL"):
            h.pwrite(batch(bad), 0)


def test_ends_quickly_with_idle_clients(array):
    """SIGTERM with doors open and nobody asking anything."""
    doors = array.opened(0, "data", "batch", "intents")
    doors[0].pwrite(b"x" * MIB, 0)
    array.c.may_end("m0")
    array.c.stop("weftd")  # nor does a weftd that hangs keep it
    watch = Stopwatch(disk=True)
    os.kill(array.members[0]["pid"], signal.SIGTERM)
    eventually(lambda: array.c.status()["members"][0]["state"] == "down",
               seconds=10, every=0.05)
    assert watch.seconds() < 10
    assert "Assertion" not in array.log(0)
    array.c.cont("weftd")
    array.end()
    array.c.start("m0")
    [h] = array.opened(0, "data")
    assert h.pread(MIB, 0) == b"x" * MIB


def test_torn_header_writes(array):
    """One slot and a block of the intent map are damaged, as by a power cut:
    the other slot serves, the block counts as all dirty, both are mended."""
    [h] = array.opened(0, "data")
    h.pwrite(b"x", 0)
    array.c.kill("m0")
    before = read_superblock(array.file(0))
    with open(array.file(0), "r+b") as f:
        # The one that would be written next.
        f.seek((before["sequence"] + 1) % 2 * 4096 + 512)
        f.write(b"torn")
        f.seek(8192 + 512)
        f.write(b"torn")
    array.end()
    array.c.start("m0")
    slots = read_slots(array.file(0))
    assert all(slots) and {s["min_epoch"] for s in slots} == \
        {before["min_epoch"] + 1}
    assert "damaged" in array.log(0)
    assert dirty_in_view(*array.opened(0, "intents")) == set(range(15))


def test_a_bad_slot_is_mended_before_all_else(tmp_path):
    """Even if weftd does not answer: every round that it may have heard of is on the disk."""
    path = a_file(tmp_path)
    format_disk(path)

    before = read_slots(path)
    port = free_port()
    for bad in 0, 1:
        with open(path, "r+b") as f:
            f.seek(bad * 4096 + 4000)
            f.write(b"bad")
        assert read_slots(path)[bad] is None
        with serving(path, f"http://127.0.0.1:{free_port()}", "127.0.0.1", port):
            after = read_slots(path)
        assert all(after) and after[bad]["sequence"] >= before[bad]["sequence"]
        assert after[bad]["sequence"] == after[not bad]["sequence"] + 1
        assert {**after[0], "sequence": 0} == {**after[1], "sequence": 0}


def write_sequence(path, sequence):
    """As if the disk had been written so often: both slots say the same."""
    with open(path, "r+b") as f:
        slots = [f.read(4096) for _ in range(2)]
        newest = slots[read_superblock(path)["sequence"] % 2]
        for n in (sequence - 1, sequence):
            slot = newest[:12] + bytes(4) + newest[16:128] + struct.pack("<Q", n) + \
                newest[136:]
            slot = slot[:12] + struct.pack("<I", zlib.crc32(slot)) + slot[16:]
            f.seek(n % 2 * 4096)
            f.write(slot)


def test_a_disk_that_was_written_as_often_as_can_be(cluster):
    """Its member fails before it writes what its next process would not read; the
    array goes on, and the disk is refused with the way out."""
    c = cluster(members=3, size="32M")
    file = c.members[1]["file"]
    c.kill("m1")
    write_sequence(file, (1 << 60) - 20)
    c.start("m1")
    wait_in_sync(c)
    h = connected(c.nbd)

    def failed():
        h.pwrite(b"w" * MIB, 0)  # each second of it is one more round
        h.flush()
        return "out" in states(c)

    eventually(failed, 60)
    wait_failed(c, 1, "writing the superblock once more")
    assert h.pread(MIB, 0) == b"w" * MIB
    assert read_superblock(file)["sequence"] == 1 << 60
    c.kill("m1")
    said = start_refused(file, c.admin)
    assert "its sequence number is the highest that there is" in said
    assert "format it again with --force" in said


def test_its_port_is_taken(weftd, tmp_path):
    """A process that can't listen does not make its disk alive, however often
    it is started."""
    path = a_file(tmp_path)
    format_disk(path)

    def disk():
        return next(d for d in weftd.get("/api/v1/disks")["disks"]
                    if d["node"] == "n9")

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = ["nbdkit", "-f", "-i", "127.0.0.1", "-p", str(port), "weft",
                 f"disk={path}", f"admin={weftd.admin}", "node=n9",
                 f"uri=nbd://127.0.0.1:{port}"]
        for _ in range(2):
            ended = run(*words, check=False, timeout=60)
            assert ended.returncode != 0 and "in use" in ended.stderr
            assert not disk()["alive"] and disk()["state"] == "silent"
    member = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    try:
        eventually(lambda: disk()["alive"], what="the disk")
    finally:
        member.terminate()
        assert member.wait(30) == 0
