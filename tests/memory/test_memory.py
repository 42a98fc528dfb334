"""The plugin under valgrind and under ThreadSanitizer, both roles.

Topology: a raid-x devcluster of three members; the array process, or all
          members, run under the tool (tests/checkers.py).
Cause: fio writes and verifies over four connections; zeroes, trims, extents,
       FUA; then a member ends, comes back and is rebuilt, while fio writes
       and verifies again; then all of it is ended as an administrator would.
Pass:  no error, no leak, no race.  That the tools find one is shown by a
       plugin that has both (planted.c).
"""

import nbd
import pytest

from arraystate import wait_in_sync, wait_state
from checkers import (BUILD, PLUGIN, ThreadSanitizer, Valgrind, planted,
                      tsan_build)
from copies import check_copies, model_of
from fiojob import fio
from nbdclient import connected
from nbdkitproc import Nbdkit
from wefttest import run

UNIT = 64 << 10
WEFT = f"{BUILD}/plugin/.libs/{PLUGIN}"

pytestmark = pytest.mark.timeout(900)


def verify(uri, seed):
    fio(uri, timeout=600, jobs=4, depth=4, size="2M", rw="randrw",
        bs="512-128k", bs_unaligned=True, seed=seed % 2 ** 31)


def exercise(c, seed):
    """Every kind of request; a member's end in between, and its return."""
    model = model_of(c, "raid-x", UNIT)
    verify(c.nbd, seed)
    h = connected(c.nbd)
    at = 9 << 20
    h.pwrite(b"f" * 300_000, at + 5, nbd.CMD_FLAG_FUA)
    h.zero(100_000, at)
    h.zero(100_000, at + 200_000, nbd.CMD_FLAG_NO_HOLE)
    h.trim(1 << 20, at + (1 << 20))
    h.flush()
    run("nbdinfo", "--map", c.nbd)
    h.pread(4 << 20, at)
    # Not killed: the tool is to have its last word.
    c.terminate("m1")
    verify(c.nbd, seed + 1)
    wait_state(c, 1, "out")
    check_copies(c, model, lambda o, n: h.pread(n, o), lost=(1,))
    c.start("m1")
    verify(c.nbd, seed + 2)
    wait_in_sync(c, 120)
    h.flush()
    check_copies(c, model, lambda o, n: h.pread(n, o))
    h.shutdown()


def up(cluster, tool):
    return cluster(layout="raid-x", members=3, unit=UNIT, size="32M",
                   io_timeout=60000, env=tool.env)


@pytest.mark.parametrize("role", ["array", "disk"])
def test_valgrind(cluster, seed, tmp_path, role):
    tool = Valgrind(tmp_path / "vg", WEFT, roles=[role])
    c = up(cluster, tool)
    exercise(c, seed)
    c.down()
    assert len(tool.reports()) == (1 if role == "array" else 4)
    found = tool.found()
    assert not found, f"{len(found)} found:\n" + "\n\n".join(found)


@pytest.mark.long(30)
def test_thread_sanitizer(cluster, seed, tmp_path):
    tool = ThreadSanitizer(tmp_path / "tsan", tsan_build())
    c = up(cluster, tool)
    assert all(tool.watches(p["pid"]) for p in [c.array, *c.members])
    exercise(c, seed)
    c.down()
    found = tool.found()
    assert not found, f"{len(found)} found:\n" + "\n\n".join(found)


def test_valgrind_finds_a_leak(tmp_path):
    plugin = planted(tmp_path)
    tool = Valgrind(tmp_path / "vg", plugin, roles=["weft"],
                    ours=plugin.name)
    with Nbdkit("weft", "weft=1", env=tool.env) as server:
        fio(server.uri, rw="read", size="1M", verify=False)
        assert server.stop() == 0
    found = tool.found()
    assert any("Lost" in f and "planted_open" in f for f in found), found


def test_thread_sanitizer_finds_a_race(tmp_path):
    plugin = planted(tmp_path, "-fsanitize=thread")
    tool = ThreadSanitizer(tmp_path / "tsan", plugin, ours=plugin.name)
    with Nbdkit("weft", env=tool.env) as server:
        assert tool.watches(server.pid)
        fio(server.uri, rw="randread", size="4M", jobs=4, verify=False)
        server.stop()
    found = tool.found()
    assert any("data race" in f and "planted_pread" in f for f in found), found
