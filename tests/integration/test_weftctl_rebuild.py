"""weftctl: rebuilds, spares, imports and takeover.

Topology: a weftd with members and hosts that are played (weftdactors.py), and
weftctl.  Pass: it does what weftd then shows, and an error is one line that
changes nothing.
"""

import json
import os
import pty
import subprocess

import pytest

from weftctlproc import FAILED, OK, REFUSED, USAGE, Ctl
from weftdactors import array, host, members, weftd
from wefttest import eventually


@pytest.fixture
def ctl(weftd, tmp_path):
    return Ctl(weftd.url, tmp_path / "run")


@pytest.fixture
def joining(weftd, array):
    array[2].phase, array[2].todo, array[2].total = "copying", 6 << 20, 8 << 20
    h = host(weftd).start_attached()
    h.lost(2)
    eventually(lambda: array[2].order)
    eventually(lambda: weftd.get("/rebuilds")["rebuilds"][0]["phase"]
               == "copying")
    return h


def member(w, m):
    return w.get("/arrays/a")["members"][m]


def test_progress_and_steering(weftd, array, joining, ctl):
    row = ctl("rebuild", "ls").splitlines()[1].split()
    assert row[:4] == ["a", "2", "copying", "25.0"] and "0,1,3" in row
    assert json.loads(ctl("rebuild", "ls", "--json")) == weftd.get("/rebuilds")
    for words in (["status"], ["array", "show", "a"]):
        assert "2M of 8M (25.0 %)" in ctl(*words)
    ctl("rebuild", "pause", "a", "2")
    assert member(weftd, 2)["rebuild"]["paused"]
    assert "paused" in ctl("rebuild", "ls")
    ctl("rebuild", "resume", "a", "2")
    assert not member(weftd, 2)["rebuild"]["paused"]
    ctl("rebuild", "rate", "a", "2", "--floor", "10M", "--ceiling", "1.5G")
    r = member(weftd, 2)["rebuild"]
    assert (r["floor"], r["ceiling"]) == (10 << 20, 3 << 29)
    ctl("rebuild", "rate", "a", "2", status=USAGE)
    assert "x" in ctl("rebuild", "rate", "a", "2", "--floor", "x", status=USAGE)
    assert "1G" not in ctl("rebuild", "rate", "a", "2", "--ceiling", "1M",
                           status=REFUSED)
    ctl("rebuild", "pause", "a", "7", status=REFUSED)
    ctl("rebuild", "pause", "a", "-", status=USAGE)
    ctl("rebuild", "pause", "a", "999", status=USAGE)
    r = member(weftd, 2)["rebuild"]
    assert (r["floor"], r["ceiling"], r["paused"]) == (10 << 20, 3 << 29, False)


def test_wait_in_a_pipe(weftd, array, joining, ctl):
    ctl("rebuild", "wait", "a", "9", status=USAGE)
    p = subprocess.Popen(["weftctl", "rebuild", "wait", "a", "2"],
                         env={**os.environ, **ctl.env}, text=True,
                         stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert "2M of 8M (25.0 %)" in p.stdout.readline()
    array[2].phase = "synced"
    rest = p.stdout.read()
    assert p.wait(30) == OK and rest.endswith("member 2: in-sync\n")
    assert "\r" not in rest and "\033" not in rest


def test_wait_on_a_terminal(weftd, array, joining, ctl):
    master, slave = pty.openpty()
    p = subprocess.Popen(["weftctl", "rebuild", "wait", "a", "2"],
                         env={**os.environ, "TERM": "xterm", **ctl.env},
                         stdout=slave, stdin=slave)
    os.close(slave)
    said = b""
    while b"25.0" not in said:
        said += os.read(master, 4096)
    assert b"[#######......................." in said
    array[2].phase = "synced"
    while b"in-sync" not in said:
        said += os.read(master, 4096)
    assert p.wait(30) == OK
    os.close(master)


def test_cancel_and_join(weftd, array, joining, ctl):
    assert "in-sync" in ctl("rebuild", "cancel", "a", "0", "--yes",
                            status=REFUSED)
    ctl("rebuild", "cancel", "a", "2", "--yes")
    eventually(lambda: member(weftd, 2)["held"])
    assert "rebuild join a 2" in ctl("array", "show", "a")
    assert "cancelled" in ctl("rebuild", "wait", "a", "2", status=FAILED)
    array[2].phase = "synced"
    ctl("rebuild", "join", "a", "2")
    assert ctl("rebuild", "wait", "a", "2").endswith("in-sync\n")


def test_replace_and_spares(weftd, array, joining, ctl):
    other = members(weftd, 5)[4]
    ctl("rebuild", "cancel", "a", "2", "--yes")
    eventually(lambda: member(weftd, 2)["state"] == "out")
    ctl("array", "spare", "add", "a", other.uuid)
    assert weftd.get("/arrays/a")["spares"] == [other.uuid]
    assert other.uuid in ctl("array", "show", "a")
    ctl("array", "spare", "rm", "a", other.uuid[:8])
    assert weftd.get("/arrays/a")["spares"] == []
    ctl("array", "spare", "rm", "a", other.uuid, status=REFUSED)
    assert "take" in ctl("array", "spare", "take", "a", other.uuid,
                         status=USAGE)
    ctl("array", "set", "a", "--spare-after", "30")
    assert weftd.get("/arrays/a")["spare_after_s"] == 30
    ctl("array", "set", "a", status=USAGE)
    ctl("array", "set", "a", "--spare-after", "-1", status=USAGE)
    ctl("array", "replace", "a", "0", other.uuid, "--yes", status=REFUSED)
    ctl("array", "replace", "a", "2", array[0].uuid, "--yes", status=REFUSED)
    ctl("array", "replace", "a", "2", other.uuid, "--yes")
    assert ctl("rebuild", "wait", "a", "2").endswith("in-sync\n")
    assert member(weftd, 2)["disk"] == other.uuid


def test_takeover_asks(weftd, array, joining, ctl):
    said = ctl("attach", "a", "--takeover", "--print-uri", status=USAGE)
    assert "--yes" in said and "node h0" in said and not joining.over
    ctl("attach", "a", "--takeover", "--read-only", status=USAGE)


def test_import_says_what_there_is(weftd, array, ctl):
    assert "nothing to import" in ctl("array", "import")
    assert json.loads(ctl("array", "import", "--json")) == {
        "imports": [], "next": None}
    ctl("array", "import", "x", status=USAGE)
    ctl("array", "import", "x", "y", status=REFUSED)
