"""Pools and thin volumes on the page, on a real cluster.

Topology: one devcluster whose array is a pool; a client by libnbd.
Causes:  on the page a volume is created, grown and deleted; its client writes; the process
         that has the pool ends.  A second pool is made by the steps of "Create an array".
Pass:    the page shows what the API says; each dialog shows weftd's preflight, sends nothing
         that weftd would refuse, and its commands do the same; axe finds nothing.
"""

import nbd

from wefttest import eventually

MIB = 1 << 20


def vm1(p):
    return p.row("volumes-a", "vm1")


def allowed(p, label):
    """The preflight has answered that weftd would do it."""
    eventually(lambda: p.button(label, "dialog").get_attribute("aria-disabled") == "false",
               what=f"{label}: the preflight's answer")


def test_life(cluster, page):
    c = cluster(members=4, pool=True)
    p = page(c)
    eventually(lambda: "The pool has no volume yet." in p.text("#volumes-a"))
    p.press("Create a volume…", "#volumes-a")
    p.press("Create it", "dialog")
    assert "Fill in the fields first." in p.dialog()
    p.type("name", "vm1")
    p.type("size", "65")
    p.choose("unit", str(1 << 40))
    eventually(lambda: "weftd would refuse" in p.dialog() and "64 TiB" in p.dialog())
    p.press("Create it", "dialog")
    assert p.dialog() and c.get("/api/v1/arrays/a/volumes")["volumes"] == []
    p.choose("unit", str(MIB))
    allowed(p, "Create it")
    p.press("The same from a shell", "dialog")
    assert f"volume create a/vm1 {65 * MIB}" in p.dialog()
    p.press("Create it", "dialog")
    eventually(lambda: not p.dialog())
    eventually(lambda: vm1(p)["Size"] == "65.0 MiB", what="the volume")
    assert "new" in vm1(p)["State"]

    h = nbd.NBD()
    h.connect_uri(c.array["uri"] + "/vm1")
    h.pwrite(b"weft" * (2 * MIB), 0)
    h.flush()
    eventually(lambda: vm1(p)["Data"] == "8.00 MiB" and
               vm1(p)["Clients"] == "1", what="the figures")
    assert "ready" in vm1(p)["State"]
    bar = eventually(lambda: p.js("""
        return document.querySelector("#volumes-a .space").ariaLabel ??
          document.querySelector("#volumes-a .space").getAttribute("aria-label")"""))
    assert "8.00\u00a0MiB data" in bar and "free" in bar
    assert p.axe() == []

    p.press_row("volumes-a", "vm1", "Grow…")
    p.type("size", "10")
    eventually(lambda: "cannot shrink" in p.dialog())
    p.type("size", "80")
    allowed(p, "Grow it")
    p.press("Grow it", "dialog")
    eventually(lambda: vm1(p)["Size"] == "80.0 MiB")
    assert c.get("/api/v1/arrays/a/volumes/vm1")["size"] == 80 * MIB

    p.press_row("volumes-a", "vm1", "Delete…")
    eventually(lambda: "weftd would refuse" in p.dialog(), what="a client is connected")
    p.press("Cancel", "dialog")
    h.shutdown()
    eventually(lambda: vm1(p)["Clients"] == "0")
    p.press_row("volumes-a", "vm1", "Delete…")
    eventually(lambda: "Type a/vm1 to go on" in p.dialog())
    assert "All data of volume a/vm1 is lost, for good" in p.dialog()
    p.confirm("Delete it", "a/vm1")
    eventually(lambda: p.rows("volumes-a") == [])
    assert c.get("/api/v1/arrays/a/volumes")["volumes"] == []


def test_a_new_pool(cluster, page):
    """Made by the page; a plain array shows nothing of volumes."""
    c = cluster(members=3)
    for _ in range(3):
        c.add()
    p = page(c)
    eventually(lambda: len(p.rows("members")) == 6)
    assert p.text("#volumes-a") == ""
    p.press("Create an array…", "#arrays")
    p.type("name", "p")
    p.js("document.querySelector('dialog [name=pool]').click()")
    p.press("Next", "dialog")
    eventually(lambda: "Mean time to data loss" in p.dialog())
    p.press("Next", "dialog")
    eventually(lambda: "a pool of thin volumes" in p.dialog())
    p.press("The same from a shell", "dialog")
    assert " --pool" in p.dialog()
    p.press("Create it", "dialog")
    eventually(lambda: "No process has attached the pool yet." in p.text("#volumes-p"))
    assert c.get("/api/v1/arrays/p")["pool"]["state"] == "blank"
