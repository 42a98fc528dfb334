"""fence_weft, as pacemaker calls it, and weftctl node fence.

Topology: a weftd with members and hosts that are played (weftdactors.py).
Cause: a node is fenced and admitted again; weftd is away, or does not know the node.
Pass: success means that the node's session has ended and the members have confirmed
      that; everything else fails, and says why.
"""

import json
import tempfile
import xml.etree.ElementTree as xml

import pytest

from weftctlproc import REFUSED, USAGE, weftds as ctl
from weftdactors import array, host, members, weftd
from wefttest import eventually, run


def agent(w, action, plug="h0", arguments=False, **options):
    """(exit status, what it said)."""
    options = {"action": action, "plug": plug,
               "admin": f"http://{w.listen}", **options}
    if arguments:
        words = [f"--{k.replace('_', '-')}={v}" for k, v in options.items()]
        p = run("fence_weft", *words, check=False)
    else:
        text = "".join(f"{k}={v}\n" for k, v in options.items())
        with tempfile.TemporaryFile("w+") as f:
            f.write(f"# pacemaker\n{text}nodename=whatever\n")
            f.seek(0)
            p = run("fence_weft", check=False, stdin=f)
    return p.returncode, p.stdout + p.stderr


def test_metadata(weftd):
    status, said = agent(weftd, "metadata")
    assert status == 0
    tree = xml.fromstring(said)
    assert {a.get("name") for a in tree.iter("action")} >= {
        "on", "off", "status", "monitor", "list", "metadata"}
    assert {p.get("name") for p in tree.iter("parameter")} >= {
        "action", "plug", "admin", "tls", "token_file"}


@pytest.mark.parametrize("arguments", [False, True])
def test_off_and_on(weftd, array, arguments):
    h = host(weftd).start_attached()
    say = lambda action, **more: agent(weftd, action, arguments=arguments,
                                       **more)
    assert say("monitor")[0] == 0
    assert say("status") == (0, "Status: ON\n")
    assert "h0," in say("list")[1].split()
    epoch = weftd.get("/arrays/a")["epoch"]
    assert say("off") == (0, "Success: off h0\n")
    # It is so by then, and not some time later.
    assert weftd.get("/sessions")["sessions"] == []
    assert all(d["min_epoch"] > epoch for d in weftd.get("/disks")["disks"])
    assert say("status") == (2, "Status: OFF\n")
    assert say("off")[0] == 0
    status, problem = host(weftd).attach()
    assert status == 409 and problem["code"] == "fenced"
    other = host(weftd, "h1").start_attached()  # what else there is goes on
    assert say("on") == (0, "Success: on h0\n")
    assert say("status") == (0, "Status: ON\n")
    other.detach()
    assert host(weftd).attach()[0] == 201
    eventually(lambda: h.over)


def test_unconfirmed(weftd, array):
    """A member does not say that it refuses what the node has asked for."""
    host(weftd).start_attached()
    array[2].stop()
    status, said = agent(weftd, "off", shell_timeout=2)
    assert status == 1 and "not fenced" in said
    array[2].start()
    assert agent(weftd, "off")[0] == 0


def test_failures(weftd, array):
    for plug in ("h9", "", "-x", "../h0", "H0", "h0 h1"):
        assert agent(weftd, "off", plug)[0] == 1, plug
        assert agent(weftd, "status", plug)[0] == 1, plug
    for action in ("reboot", "x", ""):
        status, said = agent(weftd, action)
        assert status == 1 and "fence_weft: " in said, action
    assert agent(weftd, "off", weftctl="/no/such/program")[0] == 1
    assert run("fence_weft", "--x", check=False).returncode == 1
    weftd.kill()
    for action in ("off", "on", "status", "monitor", "list"):
        status, said = agent(weftd, action, "n0", shell_timeout=1)
        assert status == 1 and "fence_weft: " in said, action
    weftd.start()


def test_usual_switches(weftd, array):
    """The options that all fence agents have."""
    for word in ("-v", "--verbose", "-q", "--quiet"):
        p = run("fence_weft", word, "-o", "status", "-n", "n0",
                f"--admin=http://{weftd.listen}", word, check=False)
        assert (p.returncode, p.stdout) == (0, "Status: ON\n"), word
    assert "weftctl" in run("fence_weft", "-V").stdout


def test_weftctl(weftd, array, ctl):
    h = host(weftd).start_attached()
    ctl("node", "fence", "x", "h0", status=USAGE)
    ctl("node", "fence", "off", "h0", "--dry-run", status=USAGE)
    ctl("node", "fence", "on", "h9", "--yes", status=REFUSED)
    assert "loses array a" in ctl("node", "fence", "on", "h0", "--dry-run")
    assert not weftd.get("/nodes/h0")["fenced"] and not h.over
    ctl("node", "fence", "on", "h0", "--yes")
    assert weftd.get("/nodes/h0")["fenced"]
    assert "fenced" in ctl("node", "show", "h0")
    assert json.loads(ctl("node", "fence", "off", "h0", "--json")) == \
        weftd.get("/nodes/h0")


def test_a_node_that_is_only_a_client(weftd, array, ctl):
    """The node has neither a disk nor a session.  Without logins, weftd learns of it when it
    asks for the service."""
    weftd.call("PUT", "/arrays/a/service", {"nodes": ["h0", "h1"]})
    ctl("node", "fence", "on", "far", "--yes", status=REFUSED)
    weftd.get("/arrays/a/service?attach=rw&node=far")
    ctl("node", "fence", "on", "far", "--yes")
    assert weftd.get("/nodes/far")["fenced"]
    fenced = weftd.get("/arrays/a/service")["fenced"]
    assert [f["node"] for f in fenced] == ["far"]
    ctl("node", "fence", "off", "far")
    assert not weftd.get("/nodes/far")["fenced"]
