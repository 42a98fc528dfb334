"""The status page in headless Chromium, on a real cluster.

Every test ends with a look at what the browser complained about (webpage.py).
"""

import re
import threading
import urllib.parse
import uuid

import nbd
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from badspots import bad_spots, spoil
from servedarray import Served
from weftdactors import Lessee
from wefttest import eventually, http


class Writer:
    """Writes to the array until told to stop."""

    def __init__(self, uri):
        self.going = True
        self.error = None
        self.thread = threading.Thread(target=self.run, args=[uri])

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.going = False
        self.thread.join()
        assert self.error is None, self.error

    def run(self, uri):
        try:
            h = nbd.NBD()
            h.connect_uri(uri)
            at = 0
            while self.going:
                h.pwrite(b"weft" * 16384, at)
                at = (at + 65536) % (16 << 20)
            h.shutdown()
        except nbd.Error as e:
            self.error = e


def test_shows_what_the_api_says(cluster, page):
    c = cluster(members=4)
    p = page(c)
    status = c.get("/api/v1/status")
    array = c.get("/api/v1/arrays/a")

    eventually(lambda: p.facts("a"), what="the array on the page")
    assert p.text("#connection") == "live"
    assert p.text("#verdict") == status["verdict"]
    facts = p.facts("a")
    assert facts["State"] == array["state"] == "ready"
    assert facts["Layout"].startswith("raid-x over 4 members")
    assert "256 KiB" in facts["Layout"]
    assert facts["Survives"] == array["survives"]
    assert facts["Epoch"] == str(array["epoch"])
    assert facts["Exposed"].startswith("nothing")
    assert facts["Held for writing by"] == f"n0, process {c.array['pid']}"
    usable = array["capacity"]["usable"] / (1 << 20)
    assert f"{usable:.0f} MiB usable" in facts["Capacity"]

    members = p.rows("members")
    assert [m["Member"] for m in members] == ["a 0", "a 1", "a 2", "a 3"]
    assert [m["Node"] for m in members] == ["n0", "n1", "n2", "n3"]
    assert [m["Disk"] for m in members] == [m["file"] for m in c.members]
    assert all("in-sync" in m["State"] and m["Heard"] == "now"
               for m in members)
    assert len(p.driver.find_elements(By.CSS_SELECTOR, ".map .member")) == 4

    sessions = p.rows("sessions")
    assert len(sessions) == 1
    assert sessions[0]["Array"] == "a"
    assert sessions[0]["Process"] == str(c.array["pid"])
    assert sessions[0]["Mode"] == "read and write"
    assert sessions[0]["Part"] == "all"

    # Everything comes from weftd itself.
    hosts = p.js("return performance.getEntriesByType('resource')"
                 ".map((e) => new URL(e.name).origin)")
    assert hosts and set(hosts) == {c.admin.rstrip("/")}


def test_parts(cluster, page):
    """Two that write the array, each a part of it."""
    c = cluster(members=3, size="32M", writers=2)
    p = page(c)
    rows = eventually(lambda: len(p.rows("sessions")) == 2 and p.rows("sessions"),
                      what="both sessions on the page")
    assert {r["Mode"] for r in rows} == {"writes a part"}
    assert {r["Part"].partition(" from ")[2] for r in rows} == {
        "0 B on", f"{c.arrays[1]['part']['offset'] / (1 << 20):.1f} MiB on"}
    facts = p.facts("a")
    assert facts["Held for writing by"] == "; ".join(
        f"{a} process {pid}" for a, pid in zip(
            ("n0,", "n1,"), (c.arrays[0]["pid"], c.arrays[1]["pid"])))


class Api:
    """The API calls of played hosts."""

    def __init__(self, c):
        self.call = lambda method, path, body=None: \
            http(method, c.admin + "/api/v1" + path, body)


def test_leases(cluster, page):
    """Two played hosts that share the array by leases: their ranges, their conflicts, and the
    ranges that an ended one leaves."""
    c = cluster(members=3, size="64M")
    c.terminate("array")
    p = page(c)
    hosts = []
    try:
        for node in ("h1", "h2"):
            hosts.append(Lessee(Api(c), node).start_attached())
        first, second = hosts
        first.recovered()
        half = c.get("/api/v1/arrays/a")["size"] // 1024 * 512
        asked = threading.Thread(target=second.ask, args=[[0, half]])
        asked.start()
        eventually(lambda: first.revoke)
        first.tell(give=[[0, half]])
        asked.join()
        cells = """return [...document.querySelectorAll(".leases > span")].map(
            (e) => [e.textContent, e.title, e.dataset.heat ?? ""])"""
        eventually(lambda: {c[0] for c in p.js(cells)} == {"A", "B"},
                   what="both in the map")
        shown = p.js(cells)
        assert len(shown) == len(c.get("/api/v1/arrays/a/leases")["cells"])
        assert "h2 has" in shown[0][1] and "met there once" in shown[0][1]
        assert shown[0][2] == "1" and not shown[-1][2]
        label = p.driver.find_element(By.CSS_SELECTOR, ".leases") \
            .get_attribute("aria-label")
        assert "h1 (A) has most of" in label and "once at" in label
        rows = [r for r in p.rows("arrays") if r.get("Letter")]
        assert [(r["Letter"], r["Node"], r["Asked back"]) for r in rows] == \
            [("A", "h1", "1"), ("B", "h2", "0")]
        assert {r["Part"] for r in p.rows("sessions")} == {"by leases"}
        assert p.facts("a")["Service"] == "none: hosts share it by leases"
        assert not p.axe()
        second.stop()
        http("DELETE", f"{c.admin}/api/v1/sessions/{second.session}")
        eventually(lambda: "are resynchronized before they are granted: h1" in
                   p.text("#arrays"), what="a sentence on the recovery")
        assert "!" in {c[0] for c in p.js(cells)}
        first.recovered()
        eventually(lambda: {c[0] for c in p.js(cells)} == {"A"})
    finally:
        for h in hosts:
            h.stop()


def test_service(cluster, page):
    """The serving node, the candidates, and the promise to clients."""
    c = cluster(members=3)
    p = page(c)
    eventually(lambda: p.facts("a"), what="the array on the page")
    assert p.facts("a")["Service"].startswith("none")
    s = Served(c)
    try:
        eventually(lambda: p.facts("a")["Service"].startswith("no node serves"))
        s.stand_by("s0")
        s.stand_by("s1")
        eventually(lambda: p.facts("a")["Service"].startswith(
            "s0 serves it, s1 stands by; acknowledged writes"))
        assert p.rows("sessions")[0]["Mode"] == "serves other hosts"
        s.move("s1")
        eventually(lambda: p.facts("a")["Service"].startswith(
            "s1 serves it, s0 is away"))
    finally:
        s.end()


def test_weftd_beside_a_member(cluster, page, tmp_path):
    """That host's loss is two failures: the page says so."""
    wrap = tmp_path / "on-n1"
    wrap.write_text('#!/bin/sh\nhostname n1.example && exec "$@"\n')
    wrap.chmod(0o755)
    c = cluster(members=3, env={"WEFT_WRAP_WEFTD": f"unshare --uts {wrap}"})
    p = page(c)
    eventually(lambda: "weftd runs on n1, beside members" in p.text("#nodes"))
    assert "weftd runs" not in p.row("nodes", "n0")["Node"]


def test_headers_are_strict(cluster, page):
    p = page(cluster(members=3))
    policy = p.js("""
        const reply = await fetch("/");
        return [reply.headers.get("Content-Security-Policy"),
                reply.headers.get("X-Content-Type-Options")];
        """)
    assert "'unsafe-" not in policy[0]
    assert "default-src 'none'" in policy[0] or \
        "default-src 'self'" in policy[0]
    assert policy[1] == "nosniff"
    # The policy is in force: forbidden actions of the page are blocked.
    blocked = p.js("""
        const script = document.createElement("script");
        script.textContent = "window.weftInline = true";
        document.body.append(script);
        const seen = [window.weftInline, window.weftViolations.length];
        window.weftViolations.length = 0;
        return seen;
        """)
    assert blocked[0] is None
    eventually(lambda: p.js("return window.weftViolations.splice(0).length")
               or blocked[1], what="the violation")
    p.driver.get_log("browser")  # which says so, too


def test_rates_are_live(cluster, page):
    c = cluster(members=3)
    p = page(c)
    with Writer(c.nbd):
        eventually(lambda: re.match(r"[1-9]", p.rows("sessions")[0]["Writes"]),
                   what="a session's rate of writes")
        eventually(lambda: re.match(r"[1-9]", p.facts("a")["Writes"]),
                   what="the array's rate of writes")
        eventually(lambda: all(re.match(r"[1-9]", m["Writes"])
                               for m in p.rows("members")),
                   what="every member's rate of writes")
    eventually(lambda: p.rows("sessions")[0]["Writes"] == "0/s",
               what="no more writes")


def test_a_killed_member_is_shown(cluster, page):
    c = cluster(members=4)
    p = page(c)
    with Writer(c.nbd):
        c.kill("m2")
        eventually(lambda: "out" in p.rows("members")[2]["State"],
                   what="member 2 out")
    eventually(lambda: p.facts("a")["State"] == "degraded")
    assert "fewer copies" in p.facts("a")["Exposed"]
    eventually(lambda: p.text("#verdict") ==
               c.get("/api/v1/status")["verdict"], what="the new verdict")
    assert "degraded" in p.text("#verdict")
    box = p.driver.find_elements(By.CSS_SELECTOR, ".map .member")[2]
    assert box.get_attribute("data-tone") == "error"
    eventually(lambda: "s ago" in p.rows("members")[2]["Heard"],
               what="since when it is silent")
    assert "in-sync" in p.rows("members")[1]["State"]
    assert p.stream() == "live"
    assert p.driver.title.startswith("(!")
    assert p.text("#log")


def test_a_lost_verdict_is_asked_for_again(cluster, page):
    c = cluster(members=3)
    p = page(c)
    eventually(lambda: "All is well" in p.text("#verdict"))
    p.js("""
        const really = fetch;
        window.lost = 0;
        window.fetch = (url, ...more) => {
          if (!url.endsWith("/status") || lost > 0)
            return really(url, ...more);
          lost++;
          return Promise.reject(new TypeError("network changed"));
        };
        """)
    assert c.call("PATCH", "/api/v1/nodes/n1", {"maintenance": True})[0] == 200
    eventually(lambda: p.js("return lost") == 1, what="the question to be lost")
    eventually(lambda: "n1 is in maintenance" in p.text("#verdict"),
               what="the verdict")


def test_what_no_copy_can_be_read_of_is_shown(cluster, page, tmp_path):
    c = cluster(layout="raid-1", members=2, size="16M",
                env=bad_spots(tmp_path, {"WEFT_ARRAY_ARGS": "takeover=true"}))
    p = page(c)
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    h.pwrite(b"w" * 65536, 1 << 20)
    h.flush()
    eventually(lambda: p.facts("a")["Can't be read"].startswith("nothing"))
    for m in 0, 1:
        spoil(c.members[m]["file"], ((1 << 20) + 8192, 4096))
    c.kill("array")
    c.start("array")
    eventually(lambda: "4096 bytes at 1056768" in p.facts("a")["Can't be read"])
    eventually(lambda: "can't be read" in p.text("#verdict"))
    h = nbd.NBD()
    h.connect_uri(c.nbd)
    h.pwrite(b"w" * 65536, 1 << 20)
    eventually(lambda: p.facts("a")["Can't be read"].startswith("nothing"))


def test_a_slow_member_is_shown(cluster, page):
    c = cluster(members=3)
    c.terminate("array")
    p = page(c)
    who = {"instance": "ab", "node": "n9", "pid": 1, "mode": "rw", "uri": None}
    status, r = c.call("POST", "/api/v1/arrays/a/sessions", who)
    assert status == 201, r

    def say(*suspect):
        status, reply = c.call(
            "POST", f"/api/v1/sessions/{r['session']}/heartbeat",
            {"instance": "ab", "epoch": r["map"]["epoch"], "uri": None,
             "draining": False, "wait_ms": 0, "stats": {"members": [
                 {"service_us": 90000 if m in suspect else 500,
                  "suspect": m in suspect} for m in range(3)]}})
        assert status == 200, reply
        return p.rows("members")[1]["State"]

    eventually(lambda: "in-sync, slow" in say(1) and "90 ms" in say(1),
               what="member 1 slow")
    assert "slow" not in p.rows("members")[0]["State"]
    eventually(lambda: "slow" not in say(), what="member 1 as the others")


def test_a_restarted_weftd_is_found_again(cluster, page):
    c = cluster(members=3)
    p = page(c)
    p.lost_on_purpose = True
    c.kill("weftd")
    p.await_stream("lost")
    assert "connection lost" in p.text("#connection")
    for part in ("#verdict", ".facts", "#members td.live"):
        # It fades.
        eventually(lambda: p.js(
            "return getComputedStyle(document.querySelector(arguments[0]))"
            ".opacity", part) == "0.5", what=f"{part} grey")
    assert p.facts("a")["State"] == "ready"  # what was known stays readable
    c.start("weftd")
    p.await_stream("live")
    eventually(lambda: all("silent" not in m["State"]
                           for m in p.rows("members")), what="all heard again")
    assert p.text("#connection") == "live"
    # And it is live: an event gets through.
    c.kill("m1")
    eventually(lambda: re.search("out|silent", p.rows("members")[1]["State"]),
               what="member 1 gone")


def test_a_hanging_weftd_is_noticed(cluster, page):
    c = cluster(members=3)
    p = page(c)
    p.lost_on_purpose = True
    c.stop("weftd")
    try:
        p.await_stream("lost")
    finally:
        c.cont("weftd")
    p.await_stream("live")


def test_text_is_only_text(cluster, page):
    """A disk's path is the host's own word; it must stay a word."""
    c = cluster(members=3, no_array=True)
    path = "/dev/<img src=x onerror='window.weftHurt=1'><b>\"&amp;"
    disk = str(uuid.uuid4())
    status, reply = c.call(
        "POST", f"/api/v1/disks/{disk}/heartbeat",
        {"instance": "ab", "node": "n9", "uri": "nbd://127.0.0.1:10809/<u>",
         "path": path, "size": 1 << 30, "data_bytes": 1 << 29,
         "cluster": None, "array": None, "position": None, "min_epoch": 0,
         "sequence": 1, "generation": 0, "state": "failed",
         "reason": "</td><script>window.weftHurt=1</script>\u202e\u2066\u009b",
         "dirty_extents": 0, "wait_ms": 0})
    assert status == 200, reply
    p = page(c)
    row = eventually(lambda: next((r for r in p.rows("members")
                                   if r["Node"] == "n9"), None),
                     what="the disk")
    assert row["Disk"] == path
    # Marks that turn the direction of writing are removed.
    assert "</td><script>window.weftHurt=1</script>???" in row["State"]
    assert p.driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        import("/strike.js").then(({ strike }) => {
          const struck = [];
          for (let c = 0; c <= 0x10ffff; c++)
            if (strike(String.fromCodePoint(c)) === "?")
              struck.push(c);
          done(struck);
        });""") == [
        *range(9), *range(11, 0x20), ord("?"), *range(0x7f, 0xa0), 0x61c, 0x200e,
        0x200f, *range(0x202a, 0x202f), *range(0x2066, 0x206a)]
    p.press("Create an array…")
    assert path not in p.dialog()  # a disk that has failed is not offered
    p.press("Cancel", "dialog")
    eventually(lambda: path in p.text("#log"), what="the disk in the log")
    assert path in p.js("return document.querySelector('#history [name=subject]')"
                        ".textContent")
    assert p.js("return document.querySelectorAll('body img, body script, "
                "body b, body u').length") == 0
    assert p.js("return window.weftHurt") is None
    # While the page is open, too.
    status, _ = c.call("DELETE", f"/api/v1/disks/{urllib.parse.quote(disk)}")
    if status < 300:
        eventually(lambda: all(r["Node"] != "n9" for r in p.rows("members")),
                   what="the forgotten disk gone")


def test_keyboard(cluster, page):
    c = cluster(members=3)
    p = page(c)
    eventually(lambda: p.facts("a"))
    reached = []
    for _ in range(11):
        p.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(p.js(
            "const e = document.activeElement;"
            "return e.getAttribute('href') || e.textContent"))
    assert reached[0] == "#arrays"
    assert reached[1:5] == ["/", "/access.html", "/api.html", "Menu"]
    assert [r[:2] for r in reached[5:]] == ["n0", "0✓", "n1", "1✓", "n2", "2✓"]
    # The focused element stays focused while figures change.
    p.js("document.querySelector('.map .member').focus()")
    with Writer(c.nbd):
        eventually(lambda: re.match(r"[1-9]", p.facts("a")["Writes"]))
    assert p.js("return document.activeElement.ariaLabel").startswith(
        "member 0 on n0: in-sync")
    p.driver.switch_to.active_element.send_keys(Keys.ENTER)
    eventually(lambda: "single copy" in p.text(".losing li"),
               what="what its loss would cost")
    assert "If member 0, on n0, were lost now" in p.text(".losing")
    assert p.js("return document.activeElement.ariaPressed") == "true"


def test_phone(cluster, page):
    c = cluster(members=8)
    p = page(c)
    p.cdp("Emulation.setDeviceMetricsOverride", width=360, height=740,
          deviceScaleFactor=2, mobile=True)
    eventually(lambda: len(p.rows("members")) == 8)
    assert p.js("return [document.documentElement.scrollWidth, innerWidth]") \
        == [360, 360]
    # A cell names its column, for the head of the table is gone.
    assert p.js("return getComputedStyle(document.querySelector("
                "'#members thead')).display") == "none"
    assert p.js("return getComputedStyle(document.querySelector("
                "'#members td'), '::before').content") == '"Node"'


# [selector, contrast to what it stands on, how light that is]
CONTRASTS = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (text) => {
  const [r, g, b] = parse(text).slice(0, 3).map((v) => {
    v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const back = (e) => {
  for (; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if ((parse(colour)[3] ?? 1) === 1)
      return colour;
  }
  return "rgb(255, 255, 255)";
};
return ["body", "h1", "#version", "#verdict", "dt", "dd", ".state",
        "th", "#members td", "nav a", ".half"].map((s) => {
  const e = document.querySelector(s);
  const [a, b] = [light(getComputedStyle(e).color), light(back(e))];
  return [s, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), b];
});
"""


def test_colour_scheme(cluster, page):
    """Text stands out from what it stands on (WCAG AA: 4.5 to 1)."""
    c = cluster(members=3)
    for scheme in ("light", "dark"):
        p = page(c, prefers_color_scheme=scheme)
        eventually(lambda: len(p.rows("members")) == 3)
        check_contrasts(p, scheme)


def check_contrasts(p, scheme):
    for selector, contrast, background in p.js(CONTRASTS):
        assert contrast >= 4.5, (selector, contrast)
        assert (background < 0.2) == (scheme == "dark"), (selector, background)
