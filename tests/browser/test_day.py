"""An administrator's day, on the page alone, on a real cluster with logins.

Topology: weftd and five hosts in network namespaces of their own, with TLS and
         certificates of the cluster's CA, which Chromium trusts; a disk each,
         four of which become an array.
Causes:  the events of a day: the first login, hosts are enrolled, an array is
         made, a client writes, a member dies and is replaced, its rebuild is
         throttled and let go, a node is serviced, a second administrator works
         at the same time, weftd is restarted, a host's certificate is revoked.
Pass:    each step is done by pressing and typing; the page says within 3 s that
         a member is gone; the other administrator's page shows the same; no
         written byte is lost; the browser complains about nothing.

With WEFT_SCREENSHOTS set, the pictures in docs/screenshots are made.
"""

import concurrent.futures
import json
import signal
import tempfile

import nbd
import pytest
from selenium.webdriver.common.by import By

from debianhost import Network
from enrollworld import PASSWORD, World
from webpage import Pages
from wefttest import Stopwatch, eventually, run

MIB = 1 << 20
DATA = b"weft" * (2 * MIB)
BOB = "another long password"
HERE = "10.77.0.254"
# One after the other: a link to this host that comes or goes breaks off what a Chromium
# connects to (Network.reach).
pytestmark = pytest.mark.xdist_group("links")


@pytest.fixture
def world():
    # A short path looks better in pictures.
    with tempfile.TemporaryDirectory(prefix="weft-") as directory:
        with World(directory, login=False) as w:
            w.network.reach(w.w.address, HERE)
            yield w


@pytest.fixture
def page(world):
    """Pages in Chromiums that trust the cluster's CA."""
    pages = Pages(world.w.dir / "state/ca-cert.pem")
    # Refusals that the page expects are on the console nevertheless.
    pages.refusals = (r" - Failed to load resource: .* status of "
                      r"(401|409|412|422) ")
    yield pages
    try:
        pages.end()
    finally:
        pages.quit()


def test_reach():
    """The link to the pages has no address that comes while they load."""
    network = Network()
    try:
        network.join("w", "10.77.0.1")
        network.reach("10.77.0.1", HERE)
        link, = json.loads(run("ip", "-json", "addr", "show", "dev",
                               network.tag + "h").stdout)
        assert [a["family"] for a in link["addr_info"]] == ["inet"]
    finally:
        network.down()


def write(uri, count):
    h = nbd.NBD()
    h.connect_uri(uri)
    for i in range(count):
        h.pwrite(DATA, i * len(DATA))
    h.flush()
    h.shutdown()


def check(uri, count):
    h = nbd.NBD()
    h.connect_uri(uri)
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


def fill(p, label, **fields):
    """A form of the login page."""
    for name, text in fields.items():
        p.type(name, text, within="form")
    p.press(label)
    p.await_stream("live")


def second_admin(p, page, world):
    """bob is made, and logs in elsewhere; his page."""
    p.driver.get(world.admin + "/access.html")
    p.press("Add a user…")
    p.type("name", "bob")
    p.choose("role", "admin")
    p.type("password", BOB)
    p.press("Add", "dialog")
    eventually(lambda: len(p.rows("users")) == 2, what="bob")
    bob = page(world.admin, live=False)
    eventually(lambda: "Log in" in bob.text("#login"), what="the login page")
    fill(bob, "Log in", user="bob", password=BOB)
    p.driver.get(world.admin)
    p.await_stream("live")
    return bob


def enroll(p, world):
    """Five hosts; the first as the page says, which has the command."""
    p.press("Enroll a node…")
    p.press("Make the token", "dialog")
    eventually(lambda: "weft-enroll" in p.text("dialog .command"))
    command, token = p.js("return [...document.querySelectorAll("
                          "'dialog .command')].map((e) => e.textContent)")
    p.press("Done", "dialog")
    nodes = [world.node(f"n{i}") for i in range(5)]
    (nodes[0].dir / "token").write_text(token + "\n")
    command = command.replace("/dev/sdX", str(nodes[0].disk("d0")))
    nodes[0].run("sh", "-c", f'exec {command} "$@" <"$0"',
                 nodes[0].dir / "token", "--root", nodes[0].root, "--yes",
                 "--node", "n0")
    with concurrent.futures.ThreadPoolExecutor() as threads:
        list(threads.map(lambda n: world.enroll(n, disks=["d0"]), nodes[1:]))
    for n in nodes:
        n.serve()
    eventually(lambda: ["free" in r["State"] for r in p.rows("members")]
               == [True] * 5, what="all disks")
    return nodes


def create(p, chosen):
    p.press("Create an array…")
    p.type("name", "a")
    for box in p.driver.find_elements(By.CSS_SELECTOR,
                                      "dialog fieldset.choices input"):
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


def move(p, rein, place):
    """A slider of the rebuild, as a hand does; "min" or "max" or a number."""
    p.js("""
        const slider = document.querySelector(
          `#rebuilds [name=${arguments[0]}]`);
        slider.value = slider[arguments[1]] ?? arguments[1];
        slider.dispatchEvent(new Event("input"));
        slider.dispatchEvent(new Event("change"));
        """, rein, place)


def a_member_dies(p, uri, nodes):
    died = Stopwatch(disk=True)
    kill(nodes[1])
    eventually(lambda: "silent" in p.text("#verdict") or
               "degraded" in p.text("#verdict"), every=0.02, what="the verdict")
    assert died.seconds() < 3
    write(uri, 1)
    eventually(lambda: "out" in p.row("members", "a 1")["State"])
    assert "0 B" not in p.text("#exposed-list div:first-child dd")
    p.js("document.querySelectorAll('.map .member')[1].click()")
    eventually(lambda: p.text(".losing li"), what="what its loss would cost")
    shots(p, "degraded", "light")
    p.press("Close", ".losing")


def its_disk_is_looked_for(p, world):
    """Another host may serve it; then not any more."""
    for node in ("n4", "n1"):
        p.press_row("members", "a 1", "Move…")
        p.choose("node", node)
        p.press("Let it serve the disk", "dialog")
        eventually(lambda: not p.dialog())
        eventually(lambda: (node == "n4") == (
            "n4 may serve it" in p.row("members", "a 1")["State"]))


def it_is_replaced(p, other, world):
    """By ann, while bob is about to do the same."""
    world.ctl("rebuild", "rate", "a", "1", "--ceiling", "128K")
    for one in (p, other):
        one.press_row("members", "a 1", "Replace…")
        eventually(lambda: "Type a to go on" in one.dialog(),
                   what="the preflight's answer")
    assert "rebuilt" in p.dialog()
    weftctl, curl = p.js("return [...document.querySelectorAll("
                         "'dialog .command')].map((e) => e.textContent)")
    assert world.admin in weftctl and "--cacert" in curl and \
        "$WEFT_TOKEN" in curl
    p.shot("replace")
    assert p.axe() == []
    p.confirm("Replace it", "a")
    other.type("confirm", "a")
    other.press("Replace it", "dialog")
    eventually(lambda: "Somebody else has changed this" in other.dialog(),
               what="that bob comes too late")
    eventually(lambda: other.js("return document.querySelector('dialog "
                                "[name=confirm]')?.value") == "",
               what="to be asked anew")
    other.press("Cancel", "dialog")


def its_rebuild_is_throttled(p, other, world):
    """It would go on for some minutes, but for the seconds in which its speed is measured;
    a higher ceiling is set while it is paused.  So it ends when it is allowed to."""
    eventually(lambda: p.text("#rebuilds article"), what="the rebuild")
    world.ctl("rebuild", "rate", "a", "1", "--ceiling", "1M")
    eventually(lambda: "% of 63.0 MiB" in p.text(".rebuild-figures"))
    eventually(lambda: "left" in p.text(".rebuild-figures"),
               what="how long yet")
    assert "At most 1.00 MiB/s" in " ".join(p.text(".reins").split())
    world.ctl("rebuild", "rate", "a", "1", "--ceiling", "128K")
    eventually(lambda: "128 KiB/s" in p.text(".reins output"),
               what="the lower ceiling")
    assert p.js("return document.querySelector('.flow').dataset.moving") == ""
    eventually(lambda: other.text("#rebuilds article"),
               what="the rebuild on the other page")
    shots(p, "rebuild", "light", "dark")
    p.phone()
    shots(p, "phone", "light")
    p.cdp("Emulation.clearDeviceMetricsOverride")
    # A floor above the ceiling is refused; the slider is back then.
    move(p, "floor", "max")
    eventually(lambda: "above the ceiling" in p.text("#notices"),
               what="the refusal")
    eventually(lambda: "weftd's default" in p.text(".reins"))
    p.js("document.querySelector('#notices [data-tone=error] button').click()")
    # The one administrator pauses it, the other one lets it go on.
    p.press("Pause", "#rebuilds")
    eventually(lambda: "somebody to resume it" in other.text("#rebuilds"),
               what="the pause on the other page")
    other.press("Resume", "#rebuilds")
    eventually(lambda: "somebody to resume it" not in p.text("#rebuilds"))
    assert "% of 63.0 MiB" in p.text(".rebuild-figures")
    p.press("Pause", "#rebuilds")
    eventually(lambda: "somebody to resume it" in other.text("#rebuilds"))
    move(p, "ceiling", 2)
    eventually(lambda: "4.00 MiB/s" in other.text(".reins output"),
               what="the new ceiling on the other page")
    move(other, "floor", 2)
    eventually(lambda: [2 * MIB] == [
        r["floor"] for r in world.json("rebuild", "ls")["rebuilds"]],
        what="the floor")
    move(p, "ceiling", "max")
    eventually(lambda: "no ceiling" in other.text(".reins"),
               what="no ceiling on the other page")
    other.press("Resume", "#rebuilds")
    eventually(lambda: p.facts("a")["State"] == "ready", 60,
               what="the end of the rebuild")
    eventually(lambda: "Nothing is being rebuilt" in other.text("#rebuilds"))


def a_node_is_serviced(p, other, node):
    p.press_row("nodes", "n2", "Maintenance…")
    p.confirm("Begin maintenance", "n2")
    eventually(lambda: "maintenance" in p.row("nodes", "n2")["State"])
    eventually(lambda: "maintenance" in other.row("nodes", "n2")["State"])
    kill(node)
    eventually(lambda: "as is expected" in p.row("nodes", "n2")["State"])
    node.serve()
    p.press_row("nodes", "n2", "End maintenance")
    eventually(lambda: "alive" in other.row("nodes", "n2")["State"])
    eventually(lambda: p.facts("a")["State"] == "ready", 60)


def weftd_is_restarted(p, other, world):
    """Under the open pages; nobody has to log in again."""
    for one in (p, other):
        one.lost_on_purpose = True
    kill(world.w)
    p.await_stream("lost")
    p.shot("lost")
    world.start_weftd()
    for one in (p, other):
        one.await_stream("live")
        eventually(lambda: one.facts("a")["State"] == "ready", 60)
        eventually(lambda: one.text("#verdict") ==
                   world.json("status")["verdict"])
    assert "is ready" in p.text("#log")


def a_host_is_taken_away(p, world):
    """The one whose disk died: nobody may use its certificate."""
    p.press_row("nodes", "n1", "Revoke…")
    p.confirm("Revoke it", "n1")
    eventually(lambda: not world.json("node", "show", "n1")["enrolled"])
    p.press_row("nodes", "n1", "Remove…")
    p.confirm("Remove it", "n1")
    eventually(lambda: not p.row("nodes", "n1"), what="the node gone")


def kill(place):
    """A process that runs there, except the array's."""
    place.end(next(name for name in place.processes if name != "a"),
              signal.SIGKILL)


@pytest.mark.timeout(900)
@pytest.mark.long
def test_day(world, page):
    world.disk_mb = 64
    token = (world.w.dir / "state/setup-url").read_text().split("#", 1)[1]
    p = page(world.admin, "/login.html#" + token.strip(), live=False)
    eventually(lambda: "first administrator" in p.text("#login"))
    fill(p, "Make this login", user="ann", password=PASSWORD, again=PASSWORD)
    world.log_in()
    other = second_admin(p, page, world)
    nodes = enroll(p, world)
    shots(p, "empty", "light")

    disks = {d["node"]: d["uuid"] for d in world.json("disk", "ls")["disks"]}
    create(p, [disks[f"n{i}"] for i in range(4)])
    eventually(lambda: other.facts("a"), what="the array on the other page")

    # A client comes and writes.
    uri = nodes[0].serve_array("a")
    write(uri, 12)
    eventually(lambda: p.rows("sessions"), what="the client")
    eventually(lambda: "B/s" in p.facts("a")["Writes"])
    shots(p, "overview", "light", "dark")
    p.shot("overview-top", height_max=512)  # README.md has this one
    assert p.axe() == []

    a_member_dies(p, uri, nodes)
    its_disk_is_looked_for(p, world)
    it_is_replaced(p, other, world)
    its_rebuild_is_throttled(p, other, world)
    check(uri, 12)
    a_node_is_serviced(p, other, nodes[2])
    a_host_is_taken_away(p, world)
    weftd_is_restarted(p, other, world)
    check(uri, 12)

    # At the end of the day the client leaves, and the array is removed.
    nodes[0].end("a")
    eventually(lambda: not p.rows("sessions"))
    p.press("Remove…", "#arrays")
    p.confirm("Remove it", "a")
    eventually(lambda: p.facts("a") is None, what="the array gone")
    eventually(lambda: other.facts("a") is None)
