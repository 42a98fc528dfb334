"""weftctl and what may cost something: nodes, sessions, preflights, questions.

Topology: a weftd with played members and hosts (weftdactors.py), and weftctl.  Pass: weftctl
shows weftd's own preflight first, acts only after a yes, and then does what it showed.
"""

import json
import re
import socket
import threading

import pytest

from weftctlproc import FAILED, OK, REFUSED, USAGE, Ctl, weftds as ctl
from weftdactors import array, host, members, weftd
from wefttest import eventually, run


def preflight(weftd, method, path, body=None):
    status, r = weftd.call(method, path + "?dry_run=true", body)
    assert status == 200, r
    return r


def state(weftd):
    """The state that an action may change."""
    return {
        "members": [[(m["state"], m["disk"]) for m in a["members"]]
                    for a in weftd.get("/arrays")["arrays"]],
        "maintenance": [n["maintenance"] for n in weftd.get("/nodes")["nodes"]],
        "draining": [n["draining"] for n in weftd.get("/nodes")["nodes"]],
        "sessions": [s["session"] for s in weftd.get("/sessions")["sessions"]]}


def test_looking_at_nodes(weftd, array, ctl):
    host(weftd, "n1").start_attached()
    table = [row.split() for row in ctl("node", "ls").splitlines()]
    assert table[0][:5] == ["NODE", "STATE", "DISKS", "SILENT", "SESSIONS"]
    assert table[1][:5] == ["n0", "alive", "1", "0", "0"]
    assert table[2][:5] == ["n1", "alive", "1", "0", "1"]
    shown = ctl("node", "show", "n1")
    assert array[1].uuid in shown and "alive" in shown
    assert weftd.get("/sessions")["sessions"][0]["session"] in shown
    assert ctl.json("node", "show", "n1") == weftd.get("/nodes/n1")
    assert "n77" in ctl("node", "show", "n77", status=REFUSED)
    ctl("node", "show", "../x", status=USAGE)
    row = ctl("session", "ls").splitlines()[1].split()
    assert row[1:4] == ["a", "rw", "n1"]


def test_ok_to_stop(weftd, array, ctl):
    said = ctl("ok-to-stop", "n1")
    answer = weftd.get("/nodes/n1/ok-to-stop")
    assert "may be stopped" in said and answer["ok"]
    for line in answer["lines"]:
        assert line in said
    array[2].stop()
    eventually(lambda: not weftd.get("/nodes/n2")["alive"])
    eventually(lambda: not weftd.get("/nodes/n1/ok-to-stop")["ok"])
    p = ctl.on_terminal("ok-to-stop", "n1")
    assert p[0] == FAILED and "must not be stopped" in p[1]


def test_losing(weftd, array, ctl):
    for words, query in ((("a", 1), "member=1"), (("a", "n1"), "node=n1")):
        lines = weftd.get(f"/arrays/a/losing?{query}")["lines"]
        assert lines
        said = ctl("array", "losing", *words)
        assert all(line in said for line in lines)
    ctl("array", "losing", "a", "99", status=REFUSED)
    ctl("array", "losing", "a", "N", status=USAGE)


def test_layouts(weftd, array, ctl):
    spare = members(weftd, 6)[4:]
    said = ctl("array", "layouts", *[m.uuid for m in array[:4]])
    assert [row.split()[0] for row in said.splitlines()[1:]] == [
        row["layout"] for row in weftd.call("POST", "/layouts", {
            "disks": [m.uuid for m in array[:4]]})[1]["layouts"]]
    assert "raid-x" in said and "years" in said
    odd = ctl("array", "layouts", array[0].uuid, array[1].uuid, spare[0].uuid)
    assert "not with these" in odd
    ctl("array", "layouts", "0000", status=REFUSED)


@pytest.mark.parametrize("words,method,path,body,confirm", [
    (["node", "maintenance", "on", "n1"], "PATCH", "/nodes/n1",
     {"maintenance": True}, "n1"),
    (["node", "drain", "n1"], "POST", "/nodes/n1/drain", {}, "n1"),
    (["array", "rm", "a"], "DELETE", "/arrays/a", None, "a"),
])
def test_asks_and_does_nothing(weftd, array, ctl, words, method, path, body,
                               confirm):
    members(weftd, 5)  # where a member could go, as soon as it says that it is blank
    if "drain" in words:
        eventually(lambda: "becomes" in str(preflight(weftd, method, path, body)))
    asked = preflight(weftd, method, path, body)
    assert asked["allowed"] and asked["confirm"] == confirm, asked
    before = state(weftd)

    assert ctl.json(*words, "--dry-run")["lines"] == asked["lines"]
    said = ctl(*words, "--dry-run")
    assert all(line in said for line in asked["lines"])
    line = ctl(*words, status=USAGE)
    assert "no terminal" in line and "--yes" in line
    status, said = ctl.on_terminal(*words, answer="something else")
    assert status == FAILED and "nothing was changed" in said
    assert all(line in " ".join(said.split()) for line in asked["lines"])
    assert f"Type {confirm}" in said
    assert state(weftd) == before
    status, said = ctl.on_terminal(*words, answer=confirm)
    assert status == OK, said
    if words[0] == "node":
        assert state(weftd) != before
    else:
        eventually(lambda: weftd.get("/arrays")["arrays"] == [])


def test_refusals_are_those_of_the_preflight(weftd, array, ctl):
    """In the same words with --dry-run, without, and with --yes."""
    host(weftd).start_attached()
    for words in (["array", "rm", "a"], ["rebuild", "cancel", "a", 0],
                  ["disk", "forget", array[0].uuid],
                  ["node", "remove", "n1"]):
        before = state(weftd)
        said = {ctl(*words, *more, status=REFUSED)
                for more in ([], ["--dry-run"], ["--yes"])}
        assert len(said) == 1, said
        assert state(weftd) == before


def test_dry_run_where_there_is_none(weftd, array, ctl):
    """It is never taken for the real thing."""
    before = state(weftd)
    for words in (["rebuild", "pause", "a", 0], ["status"],
                  ["array", "set", "a", "--spare-after", 1],
                  ["node", "drain", "n1", "--stop"], ["disk", "format", "/x"]):
        assert "--dry-run" in ctl(*words, "--dry-run", status=USAGE)
    assert state(weftd) == before


def test_maintenance(weftd, array, ctl):
    ctl("node", "maintenance", "on", "n1", "--yes")
    assert weftd.get("/nodes/n1")["maintenance"]
    assert "maintenance" in ctl("node", "ls")
    assert "maintenance" in ctl("node", "show", "n1")
    ctl("node", "maintenance", "off", "n1")
    assert not weftd.get("/nodes/n1")["maintenance"]
    ctl("node", "maintenance", "maybe", "n1", status=USAGE)


def test_maintenance_of_what_is_needed(weftd, array, ctl):
    array[2].stop()
    eventually(lambda: not weftd.get("/nodes/n2")["alive"])
    eventually(lambda: not weftd.get("/nodes/n1/ok-to-stop")["ok"])
    ctl("node", "maintenance", "on", "n1", "--yes", status=REFUSED)
    assert not weftd.get("/nodes/n1")["maintenance"]
    ctl("node", "maintenance", "on", "n1", "--yes", "--force")
    assert weftd.get("/nodes/n1")["maintenance"]


def test_drain_and_remove(weftd, array, ctl):
    blank = members(weftd, 5)
    job = ctl.json("node", "drain", "n1", "--yes")
    assert job["kind"] == "drain"
    eventually(lambda: weftd.get("/nodes/n1")["drained"], 30)
    ctl("wait", "job", job["id"], "--timeout", 30)
    ctl("wait", "node", "n1", "drained", "--timeout", 30)
    assert "n1" not in [m["node"] for m in weftd.get("/arrays/a")["members"]]
    log = weftd.get("/log")["log"]
    assert any("is out: node n1 is being drained" in e["text"] for e in log)
    assert not [e for e in log if e["severity"] == "error"]  # it was planned
    assert "drained" in ctl("node", "ls")
    ctl("node", "remove", "n1", "--yes", status=REFUSED)
    array[1].stop()
    blank[1].stop()
    ctl("wait", "node", "n1", "silent", "--timeout", 30)
    ctl("node", "remove", "n1", "--yes")
    assert "n1" not in [n["name"] for n in weftd.get("/nodes")["nodes"]]


def test_drain_stops(weftd, array, ctl):
    # There is nowhere to go.
    said = ctl("node", "drain", "n1", "--yes")
    assert "move away" not in said
    assert "member 1 of array a waits for a spare or blank disk" in said
    assert "weftctl node drain n1 --stop" in said
    assert "member 1 of array a waits for" in ctl("node", "show", "n1")
    (stay,) = weftd.get("/nodes/n1")["stays"]
    assert (stay["array"], stay["member"]) == ("a", 1)
    s = weftd.get("/status")
    assert s["health"] == "warning" and stay["waits"] in s["verdict"]
    assert "All is well" not in s["verdict"]
    assert weftd.get("/nodes/n1")["draining"]
    rows = [row.split() for row in ctl("job", "ls").splitlines()]
    (job,) = [row[0] for row in rows if row[1] == "drain"]
    assert "drain of node n1" in ctl("job", "show", job)
    line = ctl("wait", "job", job, "--timeout", 1, status=FAILED)
    assert "not done after 1 s" in line
    ctl("node", "drain", "n1", "--stop")
    assert not weftd.get("/nodes/n1")["draining"]
    assert weftd.get("/nodes/n1")["stays"] == []
    assert weftd.get("/status")["health"] == "ok"
    ctl("job", "show", "no-such-job", status=REFUSED)
    ctl("job", "show", "../x", status=USAGE)


def test_evict(weftd, array, ctl):
    h = host(weftd).start_attached()
    ctl("session", "evict", "../..", status=USAGE)
    ctl("session", "evict", "0123456789abcdef", "--yes", status=REFUSED)
    confirm = preflight(weftd, "DELETE", f"/sessions/{h.session}")["confirm"]
    status, said = ctl.on_terminal("session", "evict", h.session,
                                   answer=confirm)
    assert status == OK, said
    eventually(lambda: h.over)
    assert weftd.get("/sessions")["sessions"] == []


def test_array_service(weftd, array, ctl):
    assert "has no service" in ctl("array", "service", "a")
    ctl("array", "service", "a", "--move", "h1", status=REFUSED)
    ctl("array", "service", "a", "--off", "--yes", status=REFUSED)
    ctl("array", "service", "a", "--on", "H", status=REFUSED)
    ctl("array", "service", "a", "--on", "h1", "--move", "h1", status=USAGE)
    ctl("array", "service", "a", "--on", "h1", "--dry-run", status=USAGE)
    assert weftd.get("/arrays/a")["service"] is None
    assert "weft-service@a" in ctl("array", "service", "a", "--on", "h0,h1,n1")
    assert "no node serves it" in ctl("array", "service", "a")
    h = host(weftd, mode="service")
    h.attach()
    h.start()
    said = ctl("array", "service", "a")
    assert "served by node h0" in said and "survive" in said
    rows = {row.split()[0]: row for row in said.splitlines()[-3:]}
    assert rows["n1"].endswith("yes") and rows["h1"].endswith("no")
    assert "h0" in ctl("array", "show", "a")
    assert json.loads(ctl("array", "service", "a", "--json")) == \
        weftd.get("/arrays/a/service")
    ctl("array", "service", "a", "--move", "h1", status=REFUSED)
    assert "leaves off" in ctl("array", "service", "a", "--off", "--dry-run")
    assert not h.leave
    ctl("array", "service", "a", "--off", "--yes")
    eventually(lambda: h.leave)
    assert weftd.get("/arrays/a")["service"] is None


def test_changed_meanwhile(weftd, array, ctl, tmp_path):
    """Between the question and its answer another administrator gives the array a spare: the
    shown effect is no longer the real one, so nothing is done."""
    spare = members(weftd, 5)[4]
    with ctl.terminal("array", "rm", "a") as t:
        t.until("Type a to go on")
        ctl("array", "spare", "add", "a", spare.uuid)
        t.type("a")
        assert t.wait() == REFUSED
    assert weftd.get("/arrays")["arrays"]


def test_node_token(weftd, ctl):
    token = ctl.json("node", "token", "n9", "--ttl", "5m")
    assert token["node"] == "n9" and token["ca_fingerprint"].startswith(
        "sha256:")
    said = ctl("node", "token")
    assert "weft-enroll" in said and token["ca_fingerprint"] in said
    ctl("node", "token", "--ttl", "2d", status=USAGE)
    ctl("node", "token", "N", status=USAGE)

    rows = [row.split() for row in ctl("node", "tokens").splitlines()]
    assert sorted(row[1] for row in rows[1:]) == ["-", "n9"]
    assert [t["id"] for t in ctl.json("node", "tokens")["node_tokens"]] == \
        [row[0] for row in rows[1:]]
    one = rows[1][0]
    offered = ctl("complete", "--", "node", "token", "--cancel", "").split()
    assert sorted(offered) == sorted(row[0] for row in rows[1:])
    ctl("node", "token", "n9", "--cancel", one, status=USAGE)
    ctl("node", "token", "--cancel", "../users", status=USAGE)
    assert one in ctl("node", "token", "--cancel", one)
    ctl("node", "token", "--cancel", one, status=REFUSED)
    assert len(ctl.json("node", "tokens")["node_tokens"]) == 1


def test_disk_move(weftd, array, ctl):
    uuid = array[1].uuid
    assert "alive" in ctl("disk", "move", uuid, "n2", status=REFUSED)
    array[1].stop()
    eventually(lambda: not weftd.get(f"/disks/{uuid}")["alive"])
    assert "n2" in ctl("complete", "--", "disk", "move", uuid, "n").split()
    ctl("disk", "move", "no-such", "n2", status=REFUSED)
    ctl("disk", "move", uuid, "n77", status=REFUSED)
    ctl("disk", "move", uuid, "../x", status=USAGE)
    assert "n2" in ctl("disk", "move", "n1:/dev/disk1", "n2")
    assert weftd.get(f"/disks/{uuid}")["moves_to"] == "n2"
    assert "stays on node n1" in ctl("disk", "move", uuid, "n1")
    assert ctl.json("disk", "move", uuid, "n2")["moves_to"] == "n2"


def test_disk_rekey(weftd, array, ctl):
    uuids = sorted(d["uuid"] for d in weftd.get("/disks")["disks"])
    assert "name disks" in ctl("disk", "rekey", status=USAGE)
    assert "name disks" in ctl("disk", "rekey", "--all", uuids[0], status=USAGE)
    ctl("disk", "rekey", "no-such", status=REFUSED)
    assert uuids[0] in ctl("complete", "--", "disk", "rekey", "").split()
    uuid = array[1].uuid
    array[1].stop()
    eventually(lambda: not weftd.get(f"/disks/{uuid}")["alive"])
    assert ctl("disk", "rekey", "n1:/dev/disk1") == \
        f"disk {uuid}: is silent, and gets another key when it is back\n"
    [done] = ctl.json("disk", "rekey", uuid)["disks"]
    assert done["uuid"] == uuid and done["rekeys"]
    said = [x for x in ctl.json("audit")["audit"] if x["action"].endswith("/key")]
    assert [x["status"] for x in said] == [200, 200]


def test_a_silent_node_has_no_load(weftd, array, ctl):
    assert ctl("node", "ls").splitlines()[2].split()[5] != "-"
    array[1].stop()
    eventually(lambda: not weftd.get("/nodes/n1")["alive"])
    row = ctl("node", "ls").splitlines()[2].split()
    assert row[:2] == ["n1", "silent"] and row[5:] == ["-", "-", "-"]
    assert "CPU" not in ctl("node", "show", "n1")


def test_revoke(weftd, array, ctl, tmp_path):
    ctl("node", "revoke", "n9", "--yes", status=REFUSED)  # there is none
    token = ctl.json("node", "token", "n1")["token"]
    run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=n1",
        "-addext", "subjectAltName=DNS:n1,IP:127.0.0.9",
        "-keyout", tmp_path / "key.pem", "-out", tmp_path / "csr.pem")
    status, r = weftd.call("POST", "/enroll", {
        "token": token, "node": "n1",
        "csr": (tmp_path / "csr.pem").read_text()})
    assert status == 201, r
    assert weftd.get("/nodes/n1")["enrolled"]
    assert "expires" in ctl("node", "show", "n1")
    assert "shut out" in ctl("node", "revoke", "n1", "--dry-run")
    ctl("node", "revoke", "n1", status=USAGE)
    assert ctl.on_terminal("node", "revoke", "n1", answer="n2")[0] == FAILED
    assert weftd.get("/nodes/n1")["enrolled"]
    assert ctl.on_terminal("node", "revoke", "n1", answer="n1")[0] == OK
    assert not weftd.get("/nodes/n1")["enrolled"]


class Cutter:
    """Stands between weftctl and weftd, and cuts the connection when weftd has
    answered the first POST that changes something."""

    def __init__(self, weftd):
        self.to = weftd.address
        self.cut, self.keys = 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                self.one(client)

    def one(self, client):
        request = b""
        while not self.whole(request):
            part = client.recv(65536)
            if not part:
                return
            request += part
        changes = request.startswith(b"POST /api/v1/arrays HTTP")
        if changes:
            self.keys += re.findall(rb"(?i)idempotency-key: (\S+)", request)
        with socket.create_connection(self.to) as c:
            c.sendall(request.replace(b"\r\n\r\n",
                                      b"\r\nConnection: close\r\n\r\n", 1))
            answer = b"".join(iter(lambda: c.recv(65536), b""))
        if changes and not self.cut:
            self.cut += 1
            return
        client.sendall(answer)

    @staticmethod
    def whole(request):
        head, end, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        return end and len(body) >= (int(length[1]) if length else 0)


def test_an_answer_is_lost(weftd, tmp_path):
    """The array was made, and its maker never heard of it: the same request
    again, with the same key, is answered as the first was."""
    disks = [m.uuid for m in members(weftd)]
    cutter = Cutter(weftd)
    ctl = Ctl(cutter.url, tmp_path / "run")
    said = ctl("array", "create", "a", "--yes", "--disk", *disks)
    assert "array a is ready" in said
    assert cutter.cut == 1
    assert len(cutter.keys) == 2 and len(set(cutter.keys)) == 1
    cutter.listener.close()
