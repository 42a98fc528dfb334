"""weftctl: rebuilds, spares, imports and takeover.

Topology: a weftd with members and hosts that are played (weftdactors.py), and
weftctl.  Pass: it does what weftd then shows, and an error is one line that
changes nothing.
"""

import json

import pytest

from weftctlproc import FAILED, OK, REFUSED, USAGE, weftds as ctl
from weftdactors import array, host, members, weftd
from wefttest import eventually


@pytest.fixture
def joining(weftd, array):
    array[2].stay_joining()
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
        assert " left\n" not in ctl(*words)  # nobody knows yet
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


def test_a_pause_of_nothing(weftd, array, ctl):
    """It would hold the member's next rebuild, when nobody thinks of it."""
    before = weftd.get("/status")
    said = ctl("rebuild", "pause", "a", "1", status=REFUSED)
    assert "member 1 of array a (" in said and "is in-sync" in said
    assert "weftctl rebuild ls" in said
    path = "/arrays/a/members/1"
    status, r = weftd.call("PATCH", path, {"paused": True, "floor": 1 << 20})
    assert (status, r["code"]) == (409, "in-sync")
    after = weftd.get("/status")
    assert after["verdict"] == before["verdict"]
    assert not any(m["paused"] for m in after["arrays"][0]["members"])
    host(weftd).start_attached().lost(1)
    eventually(lambda: member(weftd, 1)["state"] == "in-sync")


def test_a_pause_that_stands(weftd, array, ctl):
    """Each place says so at once, from before the rebuild until it goes on."""
    def said():
        s = weftd.get("/status")
        assert s["health"] == "warning"
        for text in (s["verdict"], ctl("status"), ctl("array", "show", "a")):
            assert "paused" in text
            assert "weftctl rebuild resume a 2 lets it" in text
        assert member(weftd, 2)["paused"]

    h = host(weftd).start_attached()
    array[2].stop()
    h.lost(2)
    eventually(lambda: member(weftd, 2)["state"] == "out")
    assert "by itself" not in weftd.get("/status")["verdict"]
    ctl("rebuild", "pause", "a", "2")
    said()
    weftd.restart(kill=True)
    said()
    array[2].stay_joining()
    array[2].start()
    eventually(lambda: array[2].order and array[2].order["paused"])
    said()
    ctl("rebuild", "resume", "a", "2")
    assert "paused" not in weftd.get("/status")["verdict"]
    assert "paused" not in ctl("status") + ctl("array", "show", "a")
    array[2].phase = "synced"
    eventually(lambda: member(weftd, 2)["state"] == "in-sync")


def test_what_it_survives_now(weftd, array, ctl):
    whole = "any 1 member, and any 1 host"
    assert weftd.get("/arrays/a")["survives"] == whole
    array[2].stop()
    host(weftd).start_attached().lost(2)
    eventually(lambda: member(weftd, 2)["state"] == "out")
    now = f"no further loss now (when all members are in-sync: {whole})"
    assert weftd.get("/arrays/a")["survives"] == now
    assert f"survives  {now}\n" in ctl("array", "show", "a")


def test_wait_in_a_pipe(weftd, array, joining, ctl):
    ctl("rebuild", "wait", "a", "9", status=USAGE)
    p = ctl.started("rebuild", "wait", "a", 2)
    assert "2M of 8M (25.0 %)" in p.stdout.readline()
    array[2].phase = "synced"
    rest = p.stdout.read()
    assert p.wait(30) == OK and rest.endswith("member 2: in-sync\n")
    assert "\r" not in rest and "\033" not in rest


def test_wait_on_a_terminal(weftd, array, joining, ctl):
    with ctl.terminal("rebuild", "wait", "a", 2) as t:
        assert "[#######......................." in t.until("25.0")
        array[2].phase = "synced"
        t.until("in-sync")
        assert t.wait() == OK


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
    assert "30 s goes out" in ctl("array", "set", "a", "--slow-out", "30")
    a = weftd.get("/arrays/a")
    assert (a["spare_after_s"], a["slow_out_s"]) == (30, 30)
    assert "because it is slow" in ctl("array", "set", "a", "--slow-out", "0")
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
