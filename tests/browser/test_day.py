"""An administrator's day, on the page alone, on a real cluster.

Topology: a devcluster of five disks, four of them to be an array.
Causes:  what a day brings: an array is made, a client writes, a member dies and
         is replaced, its rebuild is throttled and let go, a node is serviced, a
         second administrator works at the same time, weftd is restarted.
Pass:    each step is done by pressing and typing; the page says within 3 s that
         a member is gone; the other administrator's page shows the same; no
         written byte is lost; the browser complains about nothing.

With WEFT_SCREENSHOTS set, the pictures in docs/screenshots are made.
"""

import time

import nbd
from selenium.webdriver.common.by import By

from webpage import page
from wefttest import eventually

MIB = 1 << 20
DATA = b"weft" * (2 * MIB)


def write(c, count):
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    for i in range(count):
        h.pwrite(DATA, i * len(DATA))
    h.flush()
    h.shutdown()


def check(c, count):
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    for i in range(count):
        assert h.pread(len(DATA), i * len(DATA)) == DATA
    h.shutdown()


def shots(p, name, *themes):
    p.js("document.querySelector('#history')?.scrollIntoView()")
    eventually(lambda: not p.js("return document.querySelector('#history')")
               or p.js("return document.querySelector('canvas')"),
               what="the charts")
    p.js("scrollTo(0, 0)")
    for theme in themes:
        p.theme(theme)
        p.shot(f"{name}-{theme}")
    p.theme("auto")


def create(p, chosen):
    p.press("Create an array…")
    p.type("name", "a")
    for box in p.driver.find_elements(By.CSS_SELECTOR,
                                      "dialog .choices input"):
        if box.get_attribute("value") not in chosen:
            p.click(box)
    assert "4 disks on 4 hosts" in p.dialog()
    p.shot("create-1-disks")
    p.press("Next", "dialog")
    rows = eventually(lambda: p.js(
        "return [...document.querySelectorAll('.layouts tbody tr')]"
        ".map((r) => r.textContent)"), what="the layouts")
    assert len(rows) == 6
    assert "years" in rows[0] and rows[0].strip().startswith("raid-x")
    p.shot("create-2-layout")
    p.press("Next", "dialog")
    eventually(lambda: "any 1 member" in p.dialog(), what="the plan")
    p.shot("create-3-review")
    p.press("Create it", "dialog")
    eventually(lambda: not p.dialog())
    eventually(lambda: (p.facts("a") or {}).get("State") == "ready",
               what="the array")


def test_day(cluster, page):
    c = cluster(members=5, size="64M", no_array=True)
    disks = {d["node"]: d["uuid"] for d in c.get("/api/v1/disks")["disks"]}
    p = page(c)
    other = page(c)  # the second administrator's
    eventually(lambda: len(p.rows("members")) == 5)
    shots(p, "empty", "light")

    create(p, [disks[f"n{i}"] for i in range(4)])
    eventually(lambda: other.facts("a"), what="the array on the other page")

    # A client comes and writes.
    c.start("array")
    write(c, 12)
    eventually(lambda: p.rows("sessions"), what="the client")
    eventually(lambda: "B/s" in p.facts("a")["Writes"])
    shots(p, "overview", "light", "dark")
    assert p.axe() == []

    # A member dies.
    died = time.monotonic()
    c.kill("m1")
    eventually(lambda: "silent" in p.text("#verdict") or
               "degraded" in p.text("#verdict"), every=0.02, what="the verdict")
    assert time.monotonic() - died < 3
    write(c, 1)
    eventually(lambda: "out" in p.row("members", "a 1")["State"])
    assert "0 B" not in p.text("#exposed-list div:first-child dd")
    p.js("document.querySelectorAll('.map .member')[1].click()")
    eventually(lambda: p.text(".losing li"), what="what its loss would cost")
    shots(p, "degraded", "light")
    p.press("Close", ".losing")

    # It is replaced; its rebuild is throttled, paused, let go.
    status, reply = c.call("PATCH", "/api/v1/arrays/a/members/1",
                           {"ceiling": MIB})
    assert status == 200, reply
    p.press_row("members", "a 1", "Replace…")
    eventually(lambda: "Type a" in p.dialog() or "Type" in p.dialog(),
               what="the preflight's answer")
    assert "rebuilt" in p.dialog()
    p.shot("replace")
    assert p.axe() == []
    p.confirm("Replace it", "a")
    eventually(lambda: p.text("#rebuilds article"), what="the rebuild")
    eventually(lambda: "% of 63.0 MiB" in p.text(".rebuild-figures"))
    eventually(lambda: "left" in p.text(".rebuild-figures"),
               what="how long yet")
    assert "at most 1.00 MiB/s" in p.text("#rebuilds")
    assert p.js("return document.querySelector('.flow').dataset.moving") == ""
    eventually(lambda: other.text("#rebuilds article"),
               what="the rebuild on the other page")
    shots(p, "rebuild", "light", "dark")
    p.phone()
    shots(p, "phone", "light")
    p.cdp("Emulation.clearDeviceMetricsOverride")
    # The one administrator pauses it, the other one lets it go on.
    p.press("Pause", "#rebuilds")
    eventually(lambda: "somebody to resume it" in other.text("#rebuilds"),
               what="the pause on the other page")
    other.press("Resume", "#rebuilds")
    eventually(lambda: "somebody to resume it" not in p.text("#rebuilds"))
    p.js("""
        const cap = document.querySelector("#rebuilds input[type=range]");
        cap.value = cap.max;
        cap.dispatchEvent(new Event("input"));
        cap.dispatchEvent(new Event("change"));
        """)
    eventually(lambda: p.facts("a")["State"] == "ready", 60,
               what="the end of the rebuild")
    eventually(lambda: "Nothing is being rebuilt" in other.text("#rebuilds"))
    check(c, 12)

    # A node is serviced.
    p.press_row("nodes", "n2", "Maintenance…")
    p.confirm("Begin maintenance", "n2")
    eventually(lambda: "maintenance" in p.row("nodes", "n2")["State"])
    eventually(lambda: "maintenance" in other.row("nodes", "n2")["State"])
    c.kill("m2")
    eventually(lambda: "as is expected" in p.row("nodes", "n2")["State"])
    c.start("m2")
    p.press_row("nodes", "n2", "End maintenance")
    eventually(lambda: "alive" in other.row("nodes", "n2")["State"])
    eventually(lambda: p.facts("a")["State"] == "ready", 60)

    # weftd is restarted under the open pages.
    for one in (p, other):
        one.lost_on_purpose = True
    c.kill("weftd")
    p.await_stream("lost")
    p.shot("lost")
    c.start("weftd")
    for one in (p, other):
        one.await_stream("live")
        eventually(lambda: one.facts("a")["State"] == "ready", 60)
        eventually(lambda: one.text("#verdict") ==
                   c.get("/api/v1/status")["verdict"])
    assert "is ready" in p.text("#log")
    check(c, 12)

    # At the end of the day the client leaves, and the array is removed.
    c.terminate("array")
    eventually(lambda: not p.rows("sessions"))
    p.press("Remove…", "#arrays")
    p.confirm("Remove it", "a")
    eventually(lambda: p.facts("a") is None, what="the array gone")
    eventually(lambda: other.facts("a") is None)
