"""A rebuild on the status page, on a real cluster.

Topology: one raid-x devcluster of four; disks of 64 MiB.
Causes: a member is killed, a blank disk takes its place, and its rebuild is
        slowed, paused and let go; or a spare waits for its time.
Pass:  the page, opened before and never loaded again, shows the bytes, the
       rate, the time left, the sources and what it waits for, as weftd says
       them; and in its log what happened.
"""

import re
from types import SimpleNamespace

import nbd
import pytest
from selenium.webdriver.common.by import By

from arraystate import members, wait_state
from weftdactors import Member
from wefttest import eventually

MIB = 1 << 20


@pytest.fixture
def degraded(cluster, page):
    """(cluster, its page): member 1 is out."""
    c = cluster(members=4, size="64M")
    p = page(c)
    eventually(lambda: p.facts("a"))
    c.kill("m1")
    # An unwritten range is a hole, and holes are copied in no time.
    write(c, 96 * MIB)
    wait_state(c, 1, "out")
    return c, p


def write(c, length):
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    for at in range(0, length, 8 * MIB):
        h.pwrite(b"weft" * (2 * MIB), at)
    h.flush()
    h.shutdown()


def tune(c, **more):
    status, reply = c.call("PATCH", "/api/v1/arrays/a/members/1", more)
    assert status == 200, reply


def choose_apart(c, p):
    """The dialog offers a disk of another host first, and asks twice for one beside
    another member."""
    weftd = SimpleNamespace(call=lambda method, path, body:
                            c.call(method, "/api/v1" + path, body))
    near = Member(weftd, 0).start()  # on n0, as member 0
    try:
        _, apart = c.add()
        eventually(lambda: len(c.get("/api/v1/disks")["disks"]) == 6)
        eventually(lambda: len(p.rows("members")) == 6)
        p.press_row("members", "a 1", "Replace…")
        eventually(lambda: "Type a to go on" in p.dialog())
        assert p.js("return document.querySelector("
                    "'dialog [name=disk]').value") == apart
        p.choose("disk", near.uuid)
        eventually(lambda: "the loss of host n0 would lose" in p.dialog())
        p.js("document.querySelector('dialog [name=force]').click()")
        eventually(lambda: "the loss of host n0 loses" in p.dialog() and
                   "Type a to go on" in p.dialog())
        assert "--force" in p.js("return document.querySelector("
                                 "'dialog .command').textContent")
        p.press("Cancel", "dialog")
    finally:
        near.stop()
    return apart


def give(c, disk=None):
    """A blank disk in the place of member 1; returns its path."""
    if disk is None:
        _, disk = c.add()
    status, reply = c.call("POST", "/api/v1/arrays/a/members/1/replace",
                           {"disk": disk})
    assert status == 200, reply
    return c.members[4]["file"]


def row(p):
    return next(r for r in p.rows("members") if r["Member"] == "a 1")


def bar(p):
    """How far the bar of member 1 is; None: there is none to be seen."""
    return p.js("""
        const row = [...document.querySelectorAll("#members tbody tr")]
          .find((r) => r.querySelector("th").textContent.replaceAll("\\u00a0",
            " ") === "a 1");
        const bar = row.querySelector("progress");
        return bar.offsetParent ? bar.value : null;
        """)


def log(p):
    return p.text("#log")


def test_progress(degraded):
    c, p = degraded
    eventually(lambda: "out" in row(p)["State"])
    assert bar(p) is None
    # Slow enough for the time left to be known before it is over.
    tune(c, paused=True, ceiling=2 * MIB)
    file = give(c, choose_apart(c, p))

    # A member that is out may be paused, too: the page has heard of the disk when that
    # stands there.
    eventually(lambda: row(p)["Disk"] == file, what="the disk in its place")
    assert row(p)["Node"] == "n4"
    eventually(lambda: "paused" in row(p)["State"], what="that it is paused")
    eventually(lambda: "0 % of 63.0 MiB" in row(p)["State"])
    assert bar(p) == 0
    assert p.facts("a")["State"] == "rebuilding"
    assert "rebuil" in p.text("#verdict")
    box = p.driver.find_elements(By.CSS_SELECTOR, ".map .member")[1]
    assert box.get_attribute("data-tone") == "warning"

    tune(c, paused=False)
    done = eventually(lambda: bar(p), what="the bar to begin")
    eventually(lambda: re.search(
        r"[1-9]\d? % of 63\.0 MiB; [\d.]+ [KM]iB/s; \d+ s left; "
        r"from members 0, 2, 3$", row(p)["State"]),
        what="bytes, rate, time left and sources")
    eventually(lambda: bar(p) > done, what="the bar to go on")
    # As weftd says, within what it has copied since.
    r = members(c)[1]["rebuild"]
    said = 1 - r["todo_bytes"] / r["total_bytes"]
    eventually(lambda: bar(p) >= said - 0.001)
    # A page that is opened in the middle shows the same.
    p.driver.refresh()
    p.await_stream("live")
    eventually(lambda: bar(p) and bar(p) >= said - 0.001)

    tune(c, ceiling=0)
    eventually(lambda: "in-sync" in row(p)["State"], 60)
    assert bar(p) is None and "left" not in row(p)["State"]
    eventually(lambda: p.facts("a")["State"] == "ready")
    assert p.facts("a")["Exposed"].startswith("nothing")
    assert p.text("#verdict") == c.get("/api/v1/status")["verdict"]
    eventually(lambda: "sync again" in log(p), what="the log to say so")


def test_what_happened(degraded):
    """Each step is a sentence in the log, and those that are out say what
    would bring them back."""
    c, p = degraded
    file = give(c)
    eventually(lambda: f"Member 1 of array a is now disk {file}" in log(p))
    eventually(lambda: "in-sync" in row(p)["State"], 60)
    for part in ("is out", "being rebuilt", "sync again"):
        eventually(lambda: part in log(p), what=f"the log: {part}")

    c.kill("m4")
    write(c, 8 * MIB)
    wait_state(c, 1, "out")
    _, spare = c.add()
    assert c.call("POST", "/api/v1/arrays/a/spares", {"disk": spare})[0] == 200
    eventually(lambda: "a spare takes its place at" in row(p)["State"],
               what="the countdown")
    at = members(c)[1]["spare_at"]
    assert at[14:19] in row(p)["State"]  # minutes and seconds
    assert any("spare of a" in r["State"] for r in p.rows("members"))
    assert c.call("POST", "/api/v1/arrays/a/members/1/cancel")[0] == 200
    eventually(lambda: "held out: let it join" in row(p)["State"])
    assert "a spare takes" not in row(p)["State"]
