"""Blocks that can't be read in any copy: their content is never read.

Topology: a raid-1 devcluster; any block of a member's disk can be made
          unreadable.
Cause: a block, or very many, of the only good copy can't be read while the
       other member is rebuilt, which has older data there; or none of two copies
       can, when the array is attached after a kill of its process.
Pass:  that block is EIO until it is written as a whole, whatever is started
       again or rebuilt; all that is beside it is read; the list of such blocks
       is on the disks, does not grow by rebuilding one member from the other, and
       is empty when the block was written, or its loss accepted, which makes
       zeroes of it and of nothing else.
"""

import random

import nbd
import pytest

from arraystate import members, wait_clean, wait_in_sync, wait_state
from badspots import BLOCK, HEADER, bad_blocks, bad_list, bad_spots, mend, spoil
from nbdclient import connected, refuses
from weftctlproc import REFUSED, USAGE, ctl  # noqa: F401
from wefttest import eventually, run

UNIT = 64 << 10
AT_ONCE = {"WEFT_ARRAY_ARGS": "takeover=true"}


@pytest.fixture
def array(cluster, tmp_path):
    return cluster(layout="raid-1", members=2, unit=UNIT, size="24M",
                   env=bad_spots(tmp_path, AT_ONCE))


def is_eio(h, at, n=BLOCK):
    with refuses("EIO"):
        h.pread(n, at)
    return True


def is_all(h, letter, but, size=8 << 20):
    """All but these blocks."""
    for at in range(0, size, UNIT):
        if not any(at <= b < at + UNIT for b in but):
            assert h.pread(UNIT, at) == letter * UNIT, at
    for b in but:
        unit = b // UNIT * UNIT
        for at in range(unit, unit + UNIT, BLOCK):
            if at not in but:
                assert h.pread(BLOCK, at) == letter * BLOCK, at


def flushed_alone(c, m):
    """`1` everywhere; then `2`, flushed, while member m is out."""
    h = connected(c.nbd)
    for at in range(0, 8 << 20, UNIT):
        h.pwrite(b"1" * UNIT, at)
    h.flush()
    c.kill(f"m{m}")
    for at in range(0, 8 << 20, UNIT):
        h.pwrite(b"2" * UNIT, at)
    h.flush()
    wait_state(c, m, "out")
    return h


def test_old_data_is_not_read(array, ctl, seed):
    c, rng = array, random.Random(seed)
    bad = rng.randrange(8 << 20) // BLOCK * BLOCK
    h = flushed_alone(c, 1)
    spoil(c.members[0]["file"], (bad + 512 * rng.randrange(8), 512))
    c.start("m1")
    wait_in_sync(c)
    assert is_eio(h, bad)
    is_all(h, b"2", [bad])
    assert bad_list(c, 1) == [(bad // BLOCK, 1, 1)] and bad_list(c, 0) == []

    # It is shown, in offsets of the array.
    w = ctl(c)
    shown = [{"offset": bad, "length": BLOCK, "reason": "rebuild",
              "members": [1], "copy_left": True, "copy_out": False}]
    eventually(lambda: c.get("/api/v1/arrays/a")["bad_bytes"] == BLOCK)
    assert c.get("/api/v1/arrays/a")["bad_ranges"] == shown
    assert c.get("/api/v1/arrays/a/bad-ranges") == {"bad_ranges": shown,
                                                    "next": None}
    status = c.get("/api/v1/status")
    assert "4 KiB of array a can't be read" in status["verdict"], status
    assert status["health"] == "error"
    assert str(bad) in w("array", "bad-ranges", "a")
    assert f'weft_bad_bytes{{array="a"}} {BLOCK}\n' in \
        run("curl", "-sf", c.admin + "/metrics").stdout
    # Also by a weftd that has just been started.
    c.restart("weftd")
    eventually(lambda: c.get("/api/v1/arrays/a")["bad_ranges"] == shown)

    # Where the other copy is not there at all: not what was there before.
    c.kill("m0")
    assert is_eio(h, bad) and is_eio(h, bad + 100, 1)
    wait_state(c, 0, "out")
    is_all(h, b"2", [bad])

    # A hole is not reported as zeroes there either.
    found = []
    h2 = nbd.NBD()
    h2.add_meta_context("base:allocation")
    h2.connect_uri(c.nbd)
    h2.block_status(BLOCK, bad, lambda *a: found.append(a[2][1]) or 0)
    assert found == [0], found

    # The entry survives a restart of everything; a rebuild from the member that has the entry
    # makes exactly one at the other.
    c.start("m0")
    wait_in_sync(c)
    c.kill("array", "m0", "m1")
    c.start("m0", "m1")
    c.start("array")
    wait_in_sync(c)
    h = connected(c.nbd)
    assert is_eio(h, bad)
    is_all(h, b"2", [bad])
    assert bad_blocks(c, 0) == bad_blocks(c, 1) == [bad]


def rebuild(c, m, served):
    """A new disk in the place; served: {position: number of its process}."""
    c.kill(f"m{served[m]}")
    wait_state(c, m, "out")
    name, disk = c.add()
    served[m] = int(name[1:])
    status, answer = c.call("POST", f"/api/v1/arrays/a/members/{m}/replace",
                            {"disk": disk})
    assert status == 200, answer
    wait_in_sync(c)


def test_the_list_does_not_spread(array, seed):
    c, rng = array, random.Random(seed)
    blocks = sorted(b * BLOCK for b in rng.sample(range(2048), 3))
    h = flushed_alone(c, 1)
    spoil(c.members[0]["file"], *((b, 4096) for b in blocks))
    c.start("m1")
    wait_in_sync(c)
    served = {0: 0, 1: 1}
    for m in 0, 1, 0, 1:
        rebuild(c, m, served)
        assert bad_blocks(c, served[m]) == blocks, m
    for b in blocks:
        is_eio(h, b)
    is_all(h, b"2", blocks)

    # In part: answered as good, and bad still.  Whole: good, for ever.
    h.pwrite(b"3" * 512, blocks[0] + 512)
    is_eio(h, blocks[0])
    for b in blocks:
        h.pwrite(b"2" * BLOCK, b)
    h.flush()
    is_all(h, b"2", [])
    assert all(bad_blocks(c, n) == [] for n in served.values())
    names = [f"m{n}" for n in served.values()]
    c.kill("array", *names)
    c.start(*names)
    c.start("array")
    is_all(connected(c.nbd), b"2", [])


def test_nothing_to_read_at_an_attach(array, seed):
    """Then the copies agree that it is bad, and no extent stays dirty."""
    c, rng = array, random.Random(seed)
    bad = rng.randrange(8 << 20) // BLOCK * BLOCK
    h = connected(c.nbd)
    for at in range(0, 8 << 20, UNIT):
        h.pwrite(b"2" * UNIT, at)
    h.flush()
    spoil(c.members[0]["file"], (bad, 1))
    spoil(c.members[1]["file"], (bad + 4095, 1))
    c.restart("array")
    h = connected(c.nbd)
    assert is_eio(h, bad)
    wait_clean(c)
    # A block that becomes readable later might be old.
    mend(c.members[0]["file"])
    mend(c.members[1]["file"])
    assert is_eio(h, bad)
    is_all(h, b"2", [bad])
    assert bad_list(c, 0) == bad_list(c, 1) == [(bad // BLOCK, 1, 2)]
    h.pwrite(b"2" * UNIT, bad // UNIT * UNIT)
    h.flush()  # also to the other copy
    is_all(h, b"2", [])
    assert bad_list(c, 0) == bad_list(c, 1) == []
    eventually(lambda: c.get("/api/v1/arrays/a")["bad_bytes"] == 0)
    assert "can't be read" not in c.get("/api/v1/status")["verdict"]


    parts_are_written(c, h, bad)


def parts_are_written(c, h, first):
    """The rest of a block can't be read while a part of it is written, or read: the
    other copy has it.  No member fails by that."""
    blocks = [(first + 2 * BLOCK * i) % (8 << 20) for i in range(5)]

    def holds(at, block):
        h.flush()
        assert [m["state"] for m in members(c)] == ["in-sync"] * 2
        eventually(lambda: bad_list(c, 0) == bad_list(c, 1) == [])
        assert h.pread(BLOCK, at) == block
        for m in c.members:
            with open(m["file"], "rb") as f:
                f.seek(HEADER + at)
                assert f.read(BLOCK) == block

    for m in 0, 1:
        spoil(c.members[m]["file"], *((at, BLOCK) for at in blocks[m::2]))
    h.pwrite(b"3" * 512, blocks[0] + 512)
    h.pwrite(b"4" * 512, blocks[1] + 512, nbd.CMD_FLAG_FUA)
    h.trim(512, blocks[2] + 512)
    h.zero(512, blocks[3] + 512)
    assert h.pread(512, blocks[4] + 512) == b"2" * 512
    for at, part in zip(blocks, (b"3", b"4", b"\0", b"\0", b"2")):
        holds(at, b"2" * 512 + part * 512 + b"2" * (BLOCK - 1024))

    # Where no copy can be read, nothing is made up.
    for m in c.members:
        spoil(m["file"], (first, BLOCK))
    h.pwrite(b"5" * 512, first + 512)
    h.flush()
    assert is_eio(h, first) and is_eio(h, first + 512, 512)
    assert bad_list(c, 0) == bad_list(c, 1) == [(first // BLOCK, 1, 4)]
    h.pwrite(b"2" * BLOCK, first)
    holds(first, b"2" * BLOCK)


def test_nothing_to_read_while_one_is_out(cluster, tmp_path, seed):
    """Two copies that can be read again are not read in turns: first the first copy's content,
    and, when that fails, the other's."""
    c = cluster(layout="raid-1", members=3, unit=UNIT, size="24M",
                env=bad_spots(tmp_path, AT_ONCE))
    bad = random.Random(seed).randrange(8 << 20) // BLOCK * BLOCK
    files = [m["file"] for m in c.members]
    h = flushed_alone(c, 2)
    c.kill("array")
    # As by a write that has reached the one alone.
    with open(files[0], "r+b") as f:
        f.seek(HEADER + bad)
        f.write(b"3" * BLOCK)
    spoil(files[0], (bad, 1))
    spoil(files[1], (bad, 1))
    c.start("array")
    h = connected(c.nbd)
    assert is_eio(h, bad)
    mend(files[0])
    mend(files[1])
    assert is_eio(h, bad)
    spoil(files[0], (bad, 1))
    assert is_eio(h, bad)
    mend(files[0])
    is_all(h, b"2", [bad])

    # The third has it from nobody.
    c.start("m2")
    wait_in_sync(c)
    wait_clean(c)
    assert is_eio(h, bad)
    assert all(bad_blocks(c, m) == [bad] for m in range(3))
    h.pwrite(b"2" * BLOCK, bad)
    h.flush()
    is_all(h, b"2", [])


def block_size(c):
    """The block size that the array announces to a new client."""
    return connected(c.nbd).get_block_size(nbd.SIZE_MINIMUM)


def test_loss_is_accepted(array, ctl, seed):
    """Zeroes in place of what is lost, and nowhere else; and while anything is bad
    who connects is to write whole blocks."""
    c, rng, w = array, random.Random(seed), ctl(array)
    # No two are neighbours, which would be one range.
    blocks = sorted(b * BLOCK for b in rng.sample(range(0, 2048, 2), 3))
    assert block_size(c) == 1
    h = flushed_alone(c, 1)
    spoil(c.members[0]["file"], *((b, 4096) for b in blocks))
    c.start("m1")
    wait_in_sync(c)
    eventually(lambda: block_size(c) == BLOCK)
    with refuses("EINVAL"):
        connected(c.nbd).pwrite(b"3" * 512, blocks[0])
    # A former client may write a part; the rest of the block is still lost.
    h.pwrite(b"3" * 512, blocks[0] + 512)
    is_eio(h, blocks[0])

    # Not while a member is away that may have a good copy.
    one = {"ranges": [{"offset": blocks[0], "length": BLOCK}]}
    c.kill("m0")
    wait_state(c, 0, "out")
    said = w("array", "accept-loss", "a", "--yes", status=REFUSED)
    assert "may have a good copy" in said
    status, answer = c.call("POST", "/api/v1/arrays/a/accept-loss", one)
    assert (status, answer["code"]) == (409, "member-out"), answer
    c.start("m0")
    wait_in_sync(c)
    is_eio(h, blocks[0])

    # The command shows the cost first, and acts only after a yes.
    shown = w("array", "accept-loss", "a", "--dry-run")
    assert "12 KiB of array a become zeroes" in shown
    assert all(f"4096 bytes at {b}" in shown for b in blocks)
    assert "--yes" in w("array", "accept-loss", "a", status=USAGE)
    for b in blocks:
        is_eio(h, b)
    h.pwrite(b"2" * BLOCK, 8 << 20)
    status, answer = c.call("POST", "/api/v1/arrays/a/accept-loss",
                            {"ranges": [{"offset": 8 << 20, "length": BLOCK}]})
    assert (status, answer["code"]) == (409, "not-bad"), answer

    # One of them, then all.
    w("array", "accept-loss", "a", str(blocks[1]), "4096", "--yes")
    assert h.pread(BLOCK, blocks[1]) == bytes(BLOCK)
    for b in blocks[0], blocks[2]:
        is_eio(h, b)
    w("array", "accept-loss", "a", "--yes")
    assert "is known to be bad" in w("array", "accept-loss", "a", "--yes")

    def zeroes(h):
        for b in blocks:
            assert h.pread(BLOCK, b) == bytes(BLOCK), b
        for at in range(0, 8 << 20, BLOCK):
            assert at in blocks or h.pread(BLOCK, at) == b"2" * BLOCK, at
    zeroes(h)
    assert bad_list(c, 0) == bad_list(c, 1) == []
    eventually(lambda: "can't be read" not in
               c.get("/api/v1/status")["verdict"])
    eventually(lambda: block_size(c) == 1)
    mend(c.members[0]["file"])  # what was written can be read
    c.kill("array", "m0", "m1")
    c.start("m0", "m1")
    c.start("array")
    zeroes(connected(c.nbd))


def test_no_room(array):
    """More bad blocks than the list can take: the member does not become in-sync, and says
    why, until the blocks have been written again."""
    c = array
    h = flushed_alone(c, 1)
    spoil(c.members[0]["file"], (0, 9 << 20))
    c.start("m1")

    def rebuild():
        return c.get("/api/v1/arrays/a")["members"][1]["rebuild"] or {}
    eventually(lambda: "list of bad ranges is full" in (rebuild().get("waits") or ""))
    eventually(lambda: "list of bad ranges is full" in c.get("/api/v1/status")["verdict"])
    assert members(c)[1]["state"] == "joining"
    for at in range(0, 8 << 20, 1 << 20):
        h.pwrite(b"2" * (1 << 20), at)
    h.zero(1 << 20, 8 << 20)
    mend(c.members[0]["file"])  # what was written can be read
    wait_in_sync(c)
    is_all(h, b"2", [])
    assert bad_list(c, 1) == []
