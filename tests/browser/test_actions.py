"""The page's actions, beyond test_day.py: each on a real cluster."""

import re
import shutil

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from wefttest import eventually, run


def say(p):
    return p.text("#notices")


def commands(p):
    p.press("The same from a shell", "dialog")
    return [e.text for e in p.driver.find_elements(
        By.CSS_SELECTOR, "dialog .command")]


def test_a_disabled_action_says_why(cluster, page):
    p = page(cluster(members=3))
    button = p.button("Remove…", "#arrays")
    assert button.get_attribute("aria-disabled") == "true"
    assert "detach it there" in button.get_attribute("title")
    p.click(button)
    assert "detach it there" in say(p)
    assert not p.dialog()
    p.press_row("members", "a 0", "Replace…")
    assert "No disk is free" in say(p)


def test_what_weftd_would_refuse_is_not_sent(cluster, page):
    """The preflight's refusal stands in the dialog, and the button says it."""
    c = cluster(members=3)
    p = page(c)
    p.press_row("nodes", "n1", "Drain…")
    eventually(lambda: "weftd would refuse" in p.dialog() or
               "Type n1" in p.dialog(), what="the preflight's answer")
    said = c.call("POST", "/api/v1/nodes/n1/drain?dry_run=true", {})[1]
    if not said["allowed"]:
        assert said["why"] in p.dialog()
        p.press("Drain it", "dialog")
        assert p.dialog()
    else:
        for line in said["lines"]:
            assert line in p.dialog()
    assert not c.get("/api/v1/nodes/n1")["draining"]


def test_wrong_name(cluster, page):
    c = cluster(members=3)
    c.terminate("array")
    p = page(c)
    eventually(lambda: not p.rows("sessions"))
    p.press("Remove…", "#arrays")
    eventually(lambda: "Type a to go on" in p.dialog())
    assert "lost" in p.dialog().lower()
    p.type("confirm", "b")
    p.press("Remove it", "dialog")
    assert "Type a first." in p.dialog()
    assert c.get("/api/v1/arrays/a")["state"] == "ready"


def test_commands_do_the_same(cluster, page):
    """Both commands of a dialog, run as they stand there."""
    c = cluster(members=3)
    _, first = c.add()
    _, second = c.add()
    p = page(c)
    eventually(lambda: len(p.rows("members")) == 5)
    for index in range(2):
        p.press("Spare…", "#members")
        weftctl, curl = commands(p)
        assert weftctl.startswith("weftctl ") and curl.startswith("curl ")
        line = [weftctl, curl][index].replace("curl ", "curl --noproxy '*' ", 1)
        p.press("Cancel", "dialog")
        assert run("sh", "-c", line, check=False).returncode == 0, line
        eventually(lambda: sum("spare of a" in r["State"]
                               for r in p.rows("members")) == index + 1)
    assert set(c.get("/api/v1/arrays/a")["spares"]) == {first, second}


def test_spares(cluster, page):
    c = cluster(members=3)
    _, disk = c.add()
    p = page(c)
    eventually(lambda: p.row("members", "–"), what="the new disk")
    p.press("Spare…", "#members")
    p.press("Keep it", "dialog")
    eventually(lambda: "spare of a" in p.row("members", "–")["State"])
    p.press("Spares…", "#arrays")
    assert "m3.img on n3" in p.dialog()
    p.type("spare_after_s", "42")
    p.press("Set the time", "dialog")
    eventually(lambda: c.get("/api/v1/arrays/a")["spare_after_s"] == 42)
    p.press("Spares…", "#arrays")
    p.press("Drop", "dialog")
    eventually(lambda: c.get("/api/v1/arrays/a")["spares"] == [])
    eventually(lambda: not p.dialog())
    eventually(lambda: "free" in p.row("members", "–")["State"])
    assert c.get(f"/api/v1/disks/{disk}")["spare_of"] is None


def test_rekey(cluster, page):
    """A member gets another key: at once, or when it is heard again."""
    c = cluster(members=3)
    p = page(c)
    disk = c.get("/api/v1/arrays/a")["members"][1]["disk"]
    file = c.members[1]["file"]

    def rekeys():
        return c.get(f"/api/v1/disks/{disk}")["rekeys"]

    p.press_row("members", "a 1", "Rekey…")
    eventually(lambda: f"Type {file} to go on" in p.dialog())
    assert "made again" in p.dialog() and "silent" not in p.dialog()
    assert commands(p)[0].endswith(f"disk rekey {disk}")
    p.type("confirm", c.members[0]["file"])
    p.press("Rekey it", "dialog")
    assert f"Type {file} first." in p.dialog() and not rekeys()
    p.confirm("Rekey it", file)
    eventually(lambda: not rekeys())
    assert p.facts("a")["State"] == "ready"
    # While it is silent it has the former one, which the page says.
    c.kill("m1")
    eventually(lambda: "is silent" in p.text("#log"), 60)
    p.press_row("members", "a 1", "Rekey…")
    eventually(lambda: "The disk is silent" in p.dialog())
    p.confirm("Rekey it", file)
    eventually(lambda: "another key is on its way" in
               p.row("members", "a 1")["State"])
    assert rekeys()
    p.press_row("members", "a 1", "Rekey…")
    assert "on its way" in say(p) and not p.dialog()
    c.start("m1")
    eventually(lambda: not rekeys(), 60)
    eventually(lambda: "another key" not in p.row("members", "a 1")["State"])


def asked(p):
    """The name that the user must type."""
    return eventually(lambda: re.search(r"Type (\S+) to go on", p.dialog()),
                      what="the preflight's answer").group(1)


def test_who_may_attach(cluster, page):
    c = cluster(members=3)
    p = page(c)

    def listed():
        return {n["node"]: (n["mode"], n["failover"])
                for n in c.get("/api/v1/arrays/a")["allow"]}

    assert set(listed()) == {"n0", "n1", "n2"}
    for mode, right in (("ro", ("ro", False)), ("failover", ("rw", True))):
        p.press("Nodes…", "#arrays")
        p.choose("node", "n1")
        p.choose("mode", mode)
        p.confirm("Allow it", asked(p))
        assert listed()["n1"] == right
    eventually(lambda: "n1 with failover" in p.facts("a")["May attach it"])
    p.press("Nodes…", "#arrays")
    p.press("Deny…", "dialog")
    eventually(lambda: "Forbid n0 to attach a" in p.dialog())
    p.confirm("Deny it", asked(p))
    assert set(listed()) == {"n1", "n2"}
    eventually(lambda: "n0" not in p.facts("a")["May attach it"])


def test_evict(cluster, page):
    c = cluster(members=3)
    c.may_end("array")
    p = page(c)
    p.press("Evict…", "#sessions")
    p.confirm("Evict it", asked(p))
    eventually(lambda: not p.rows("sessions"), what="no session")
    eventually(lambda: "evicted" in p.text("#log"), what="the log to say so")


def test_somebody_else_was_faster(cluster, page):
    """Another user's change while a dialog is open is not overwritten."""
    c = cluster(members=3)
    p = page(c)
    p.refusals = r" - Failed to load resource: .* status of 412 "
    p.press("Spares…", "#arrays")
    p.type("spare_after_s", "42")
    assert c.call("PATCH", "/api/v1/arrays/a", {"spare_after_s": 7})[0] == 200
    p.press("Set the time", "dialog")
    eventually(lambda: "Somebody else has changed this" in p.dialog())
    assert c.get("/api/v1/arrays/a")["spare_after_s"] == 7
    # The user may still make the change.
    p.press("Set the time", "dialog")
    eventually(lambda: not p.dialog())
    assert c.get("/api/v1/arrays/a")["spare_after_s"] == 42

    p.press_row("nodes", "n1", "Maintenance…")
    eventually(lambda: "Type n1 to go on" in p.dialog())
    assert c.call("PATCH", "/api/v1/nodes/n1", {"maintenance": True})[0] == 200
    p.type("confirm", "n1")
    p.press("Begin maintenance", "dialog")
    eventually(lambda: "Somebody else has changed this" in p.dialog())
    # The dialog asks again, with the effect that the action has now.
    eventually(lambda: p.js("return document.querySelector('dialog "
                            "[name=confirm]')?.value") == "")
    p.press("Cancel", "dialog")


def test_maintenance_by_force(cluster, page):
    c = cluster(members=3)
    p = page(c)
    c.kill("m0")
    eventually(lambda: "out" in p.row("members", "a 0")["State"], 60)
    p.press_row("nodes", "n1", "Maintenance…")
    eventually(lambda: "weftd would refuse" in p.dialog())
    p.press("Begin maintenance", "dialog")
    assert p.dialog()
    force = p.driver.find_element(By.CSS_SELECTOR, "dialog [name=force]")
    p.click(force)
    assert all("force" in c for c in commands(p))
    p.confirm("Begin maintenance", "n1")
    eventually(lambda: c.get("/api/v1/nodes/n1")["maintenance"])
    # If nothing is lost, the dialog does not ask for force.
    p.press_row("nodes", "n0", "Maintenance…")
    eventually(lambda: "Type n0 to go on" in p.dialog())
    assert not p.js("return document.querySelector('dialog [name=force]')"
                    ".checkVisibility()")


def test_import(cluster, page):
    """weftd has lost its database; the members know their array."""
    c = cluster(members=3, size="32M")
    array = c.get("/api/v1/arrays/a")
    c.terminate("array")
    c.kill("weftd", "m2")
    shutil.rmtree(c.dir / "weftd")
    c.start("weftd")
    p = page(c)
    p.refusals = r" - Failed to load resource: .* status of 409 "
    p.press("Import…")
    eventually(lambda: "has contacted this weftd" in p.dialog() or
               array["uuid"] in p.dialog(), what="what could be imported")
    p.press("Cancel" if array["uuid"] in p.dialog() else "Close", "dialog")
    eventually(lambda: [len(i["members"])
                        for i in c.get("/api/v1/imports")["imports"]] == [2])
    p.press("Import…")
    eventually(lambda: array["uuid"] in p.dialog())
    for m in c.members[:2]:
        assert m["file"] in p.dialog()
    assert "2: was not heard" in p.dialog()
    p.type("name", "again")
    p.press("Import it", "dialog")
    eventually(lambda: "Member" in p.text("dialog [role=alert]"),
               what="that member 2 is missing")
    assert "Member 2 is in-sync as of epoch" in p.dialog()
    p.click(p.driver.find_element(By.CSS_SELECTOR, "dialog [value='2']"))
    p.press("Accept a loss…", "dialog")
    eventually(lambda: "Member 2 would be out" in p.dialog())
    p.confirm("Import it", "again")
    eventually(lambda: not p.dialog())
    eventually(lambda: (p.facts("again") or {}).get("State") == "degraded")
    assert c.get("/api/v1/arrays/again")["uuid"] == array["uuid"]


def test_drain_and_remove(cluster, page):
    c = cluster(members=3, size="64M")
    c.add()
    p = page(c)
    eventually(lambda: p.row("members", "–"))
    p.press_row("nodes", "n1", "Remove…")
    assert "drain it first" in say(p)
    p.press_row("nodes", "n1", "Drain…")
    p.confirm("Drain it", "n1")
    eventually(lambda: "drained" in p.row("nodes", "n1")["State"], 60,
               what="the node drained")
    eventually(lambda: p.row("members", "a 1")["Node"] == "n3")
    eventually(lambda: p.facts("a")["State"] == "ready", 60)
    eventually(lambda: any("drain" in r["Job"] for r in p.rows("jobs")),
               what="the job")
    c.terminate("m1")
    eventually(lambda: c.get("/api/v1/nodes/n1")["disks_alive"] == 0)
    p.press_row("nodes", "n1", "Remove…")
    p.confirm("Remove it", "n1")
    eventually(lambda: all(r["Node"] != "n1" for r in p.rows("nodes")),
               what="the node gone")


def test_dialog_by_keyboard(cluster, page):
    """Open, walk, refuse, close: no mouse; the focus comes back."""
    c = cluster(members=3)
    c.terminate("array")
    p = page(c)
    eventually(lambda: not p.rows("sessions"))
    opener = p.button("Remove…", "#arrays")
    p.js("arguments[0].focus()", opener)
    opener.send_keys(Keys.ENTER)
    eventually(lambda: "Type a to go on" in p.dialog())

    def active():
        return p.driver.switch_to.active_element

    assert active().get_attribute("name") == "confirm"
    walked = []
    for _ in range(6):
        active().send_keys(Keys.TAB)
        walked.append(p.js(
            "const e = document.activeElement;"
            "return [e.textContent, e === document.body ||"
            " e.closest('dialog') !== null]"))
    # The focus stays within the dialog (or is the browser's own for a moment).
    assert all(inside for _, inside in walked), walked
    assert {"The same from a shell", "Cancel", "Remove it"} <= \
        {text for text, _ in walked}
    p.js("document.querySelector('dialog [name=confirm]').focus()")
    active().send_keys("wrong" + Keys.ENTER)
    assert "Type a first." in p.text("dialog [role=alert]")
    active().send_keys(Keys.ESCAPE)
    eventually(lambda: not p.dialog())
    assert p.js("return document.activeElement === arguments[0]", opener)
    assert c.get("/api/v1/arrays/a")["name"] == "a"


def test_axe(cluster, page):
    """No serious fault on any page, as axe-core sees it, light and dark."""
    c = cluster(members=3)
    c.add()
    p = page(c)
    for theme in ("light", "dark"):
        p.driver.get(c.admin)
        eventually(lambda: p.row("members", "–"))
        p.theme(theme)
        assert p.axe() == []
        p.press("Create an array…")
        assert p.axe() == []
        p.press("Cancel", "dialog")
        for at in ("access.html", "api.html"):
            p.driver.get(f"{c.admin}/{at}")
            eventually(lambda: p.text("#top nav"))
            assert p.axe() == [], at
    p.phone()
    assert p.axe() == []


def test_the_api_page(cluster, page):
    c = cluster(members=3)
    p = page(c)
    p.driver.get(c.admin + "/api.html")
    api = c.get("/api/v1/openapi.json")
    operations = {(method.upper(), path)
                  for path, item in api["paths"].items() for method in item
                  if method != "parameters"}
    shown = eventually(lambda: p.js("""
        return [...document.querySelectorAll(".operation > summary")].map((s) =>
          [s.querySelector(".method").textContent,
           s.querySelector("code").textContent]);
        """))
    assert {tuple(pair) for pair in shown} == operations
    p.type("filter", "create", within="main")
    p.type("filter", "make an array", within="main")
    fold = p.driver.find_element(By.CSS_SELECTOR, "#createArray > summary")
    p.click(fold)
    said = eventually(lambda: p.text("#createArray > div"))
    for word in ("layout", "disks", "201", "curl"):
        assert word in said
    p.shot("api")
