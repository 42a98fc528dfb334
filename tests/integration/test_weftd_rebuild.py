"""weftd: members that come back, are replaced and rebuilt, spares, takeover,
and an array imported from its members alone.

Topology: a weftd with played members and hosts (weftdactors.py). Pass: weftd's answers follow
the requests, also after it was killed; a refused request changes nothing, and the refusal
names the field.
"""

import json
import shutil
import sqlite3
import time

import pytest

from weftdactors import Events, Member, array, host, members, weftd
from wefttest import eventually

NOBODY = "00000000-0000-4000-8000-000000000000"
MEMBER = "/arrays/a/members/"


def member(w, m):
    return w.get("/arrays/a")["members"][m]


def states(w):
    return [m["state"] for m in w.get("/arrays/a")["members"]]


def refused(w, method, path, body, status, code, field=None):
    """It is refused, and nothing has changed."""
    def all_there_is():
        a = w.get("/arrays/a")
        return (a["epoch"], a["spares"], a["spare_after_s"],
                [(m["disk"], m["state"], m["held"]) for m in a["members"]])
    before = all_there_is()
    got, r = w.call(method, path, body)
    assert (got, r.get("code"), r.get("field")) == (status, code, field), r
    assert len(r["detail"]) > 20
    assert all_there_is() == before


def lose(w, array, m, h):
    """The member dies, and the writer says so."""
    array[m].stop()
    status, r = h.lost(m)
    assert status == 200 and r["states"][m] == "out"


@pytest.fixture
def joining(weftd, array):
    """The array with a writer; member 2 joins, and does not come to an end."""
    array[2].stay_joining()
    h = host(weftd).start_attached()
    h.lost(2)
    eventually(lambda: (member(weftd, 2)["rebuild"] or {}).get("phase")
               == "copying")
    return h


def test_taken_back(weftd, array, joining):
    m = member(weftd, 2)
    assert m["state"] == "joining"
    assert weftd.get("/arrays/a")["exposed_bytes"] == 6 << 20
    assert m["rebuild"] == {
        "phase": "copying", "waits": None, "todo_bytes": 6 << 20,
        "total_bytes": 8 << 20, "copied_bytes": 2 << 20,
        "unreadable_bytes": 0, "rate": 1 << 20, "eta_s": None,
        "sources": [0, 1, 3], "paused": False, "floor": 0, "ceiling": 0}
    assert weftd.get("/rebuilds")["rebuilds"] == [
        {"array": "a", "member": 2, **m["rebuild"]}]
    eventually(lambda: "joining" in joining.states)
    order = array[2].order
    assert order["epoch"] == joining.epoch and not order["paused"]
    assert [s["member"] for s in order["sources"]] == [0, 1, 3]
    for s in order["sources"]:
        assert s["uri"] == f"nbd://127.0.0.{s['member'] + 1}:10809"
        assert set(s["tokens"]) == {"data", "intents"}
    assert all(a.order is None for a in array if a is not array[2])

    events = Events(weftd)
    _, load = events.until("load", lambda d: d["rebuilds"])
    assert load["rebuilds"] == weftd.get("/rebuilds")["rebuilds"]
    array[2].phase = "synced"
    events.until("array", lambda a: a["state"] == "ready")
    events.close()
    eventually(lambda: states(weftd) == ["in-sync"] * 4)
    eventually(lambda: joining.states == ["in-sync"] * 4)
    assert member(weftd, 2)["rebuild"] is None
    assert weftd.get("/rebuilds")["rebuilds"] == []
    eventually(lambda: array[2].order is None)


def test_what_is_left(weftd, array, joining):
    """The exposed amount shrinks as the member copies; the remaining time is shown when two
    measurements agree, and not before."""
    m, seen = array[2], []
    m.total = m.todo = 960 << 20
    eventually(lambda: member(weftd, 2)["rebuild"]["todo_bytes"] == m.todo)
    begin = time.monotonic()
    while (r := member(weftd, 2)["rebuild"])["eta_s"] is None:
        seen.append(weftd.get("/arrays/a")["exposed_bytes"])
        assert time.monotonic() < begin + 30
        time.sleep(0.5)
        # At 16 MiB/s, however much of it are holes.
        m.todo = m.total - (int(16 * (time.monotonic() - begin)) << 20)
    assert time.monotonic() > begin + 6
    left = m.todo / (16 << 20)
    assert left / 2 < r["eta_s"] < left * 2
    jobs = {j["id"]: j for j in weftd.get("/jobs")["jobs"]}
    assert left / 2 < jobs["rebuild-a-2"]["eta_ms"] / 1000 < left * 2
    assert seen == sorted(seen, reverse=True)
    assert seen[0] > seen[-1] >= m.todo


def test_the_writer_comes_first(weftd, array):
    """No order before the writer sends its writes there, too."""
    array[1].stay_joining()
    h = host(weftd)
    h.attach()
    h.lost(1)
    eventually(lambda: member(weftd, 1)["state"] == "joining")
    rebuild = eventually(lambda: member(weftd, 1)["rebuild"])
    assert rebuild["phase"] == "waiting" and rebuild["sources"] == []
    assert h.session in rebuild["waits"] and "node h0" in rebuild["waits"]
    assert array[1].order is None
    h.start()
    eventually(lambda: array[1].order)
    assert array[1].order["epoch"] <= h.epoch


def test_every_session_is_asked(weftd, array, joining):
    """A reader that is not prepared keeps a member from being in-sync."""
    reader = host(weftd, "r", "ro")
    reader.prepares = False
    reader.start_attached()
    joining.prepares = True
    array[2].phase = "synced"
    # The writer is prepared, and the reader is waited for.
    eventually(lambda: joining.prepared > reader.epoch)
    a = eventually(lambda: weftd.get("/arrays/a")["waits_for"]
                   and weftd.get("/arrays/a"))
    assert "node r" in a["waits_for"], a["waits_for"]
    assert a["members"][2]["state"] == "joining"
    assert a["members"][2]["rebuild"]["phase"] == "synced"
    status, r = reader.beat()
    assert r["change"] == {"epoch": joining.prepared,
                           "states": ["in-sync"] * 4}
    assert r["states"][2] == "joining"
    reader.prepares = True
    eventually(lambda: states(weftd) == ["in-sync"] * 4)


def test_steering(weftd, array, joining):
    path = MEMBER + "2"
    status, a = weftd.call("PATCH", path, {"paused": True, "floor": 1 << 20,
                                           "ceiling": 2 << 20})
    assert status == 200
    r = a["members"][2]["rebuild"]
    assert (r["paused"], r["floor"], r["ceiling"]) == (True, 1 << 20, 2 << 20)
    assert "paused" in r["waits"] and r["eta_s"] is None
    eventually(lambda: array[2].order["paused"])
    weftd.restart(kill=True)
    r = member(weftd, 2)["rebuild"]
    assert (r["paused"], r["floor"], r["ceiling"]) == (True, 1 << 20, 2 << 20)
    for body, field in [({}, "paused"), ({"paused": 1}, "paused"),
                        ({"floor": -1}, "floor"), ({"ceiling": "1"}, "ceiling"),
                        ({"paused": True, "x": 1}, "x")]:
        refused(weftd, "PATCH", path, body, 422, None, field)
    refused(weftd, "PATCH", path, {"floor": 3 << 20}, 422, "rate", "floor")
    refused(weftd, "PATCH", path, {"ceiling": 1}, 422, "rate", "ceiling")
    refused(weftd, "PATCH", MEMBER + "4", {"paused": True}, 404,
            "unknown-member", "member")
    assert weftd.call("PATCH", MEMBER + "02", {"paused": True})[0] == 400
    assert weftd.call("PATCH", MEMBER + "x", {"paused": True})[0] == 400
    status, a = weftd.call("PATCH", path, {"paused": False, "ceiling": 0})
    r = a["members"][2]["rebuild"]
    assert (r["paused"], r["floor"], r["ceiling"]) == (False, 1 << 20, 0)
    eventually(lambda: array[2].order and not array[2].order["paused"])


def test_cancel_and_join(weftd, array, joining):
    for verb in ("cancel", "join"):
        refused(weftd, "POST", f"{MEMBER}0/{verb}", None, 409, "in-sync")
        refused(weftd, "POST", f"{MEMBER}9/{verb}", None, 404,
                "unknown-member", "member")
        refused(weftd, "POST", f"/arrays/b/members/0/{verb}", None, 404,
                "unknown-array")
    assert weftd.call("POST", MEMBER + "2/cancel")[0] == 200
    eventually(lambda: states(weftd)[2] == "out")
    m = member(weftd, 2)
    assert m["held"] and m["rebuild"] is None and "cancel" in m["reason"]
    weftd.restart()
    eventually(lambda: joining.states and joining.states[2] == "out")
    assert member(weftd, 2)["held"]
    array[2].phase = "synced"
    assert weftd.call("POST", MEMBER + "2/join")[0] == 200
    eventually(lambda: states(weftd) == ["in-sync"] * 4)
    assert not member(weftd, 2)["held"]


def test_replace(weftd, array):
    other = members(weftd, 5)[4:][0]
    h = host(weftd).start_attached()
    path = MEMBER + "3/replace"
    lose(weftd, array, 3, h)
    refused(weftd, "POST", MEMBER + "2/replace", {"disk": other.uuid}, 409,
            "in-sync")
    refused(weftd, "POST", path, {"disk": NOBODY}, 422, "unknown-disk", "disk")
    refused(weftd, "POST", path, {"disk": array[0].uuid}, 409, "in-use", "disk")
    refused(weftd, "POST", path, {}, 422, None, "disk")
    near = Member(weftd, 0)
    near.beat()
    weftd.actors.append(near.start())
    refused(weftd, "POST", path, {"disk": near.uuid}, 409, "one-host", "disk")
    assert weftd.call("POST", path + "?dry_run=true",
                      {"disk": near.uuid, "force": True})[1]["allowed"]
    refused(weftd, "POST", path, {"disk": other.uuid, "x": 1}, 422, None, "x")
    refused(weftd, "POST", "/arrays/b/members/3/replace",
            {"disk": other.uuid}, 404, "unknown-array")
    refused(weftd, "POST", MEMBER + "4/replace", {"disk": other.uuid}, 404,
            "unknown-member", "member")
    status, a = weftd.call("POST", path, {"disk": other.uuid})
    assert status == 200 and a["members"][3]["disk"] == other.uuid
    eventually(lambda: states(weftd) == ["in-sync"] * 4)
    assert other.header["position"] == 3
    assert other.header["array"] == a["uuid"]
    old = weftd.get(f"/disks/{array[3].uuid}")
    assert old["array"] is None
    # The returning disk is no longer the member.
    assert array[3].beat()[0] in (200, 409)
    eventually(lambda: h.map["members"][3]["disk"] == other.uuid)


def test_too_small(weftd, array):
    small = Member(weftd, 7)
    small.data_bytes = 1 << 20
    small.beat()
    weftd.actors.append(small.start())
    h = host(weftd).start_attached()
    lose(weftd, array, 3, h)
    refused(weftd, "POST", MEMBER + "3/replace", {"disk": small.uuid}, 409,
            "too-small", "disk")
    refused(weftd, "POST", "/arrays/a/spares", {"disk": small.uuid}, 409,
            "too-small", "disk")


def test_spares(weftd, array):
    spare = members(weftd, 5)[4]
    path = "/arrays/a/spares"
    assert weftd.get("/arrays/a")["spare_after_s"] == 600
    refused(weftd, "POST", path, {"disk": array[0].uuid}, 409, "in-use", "disk")
    refused(weftd, "POST", path, {"disk": NOBODY}, 422, "unknown-disk", "disk")
    refused(weftd, "POST", path, {"disk": 1}, 422, None, "disk")
    refused(weftd, "POST", "/arrays/b/spares", {"disk": spare.uuid}, 404,
            "unknown-array")
    refused(weftd, "DELETE", f"{path}/{spare.uuid}", None, 404, "no-spare")
    assert weftd.call("DELETE", path + "/x")[0] == 400
    status, a = weftd.call("POST", path, {"disk": spare.uuid})
    assert status == 200 and a["spares"] == [spare.uuid]
    assert weftd.get(f"/disks/{spare.uuid}")["spare_of"] == "a"
    refused(weftd, "POST", "/arrays", {
        "name": "b", "layout": "raid-0", "disks": [spare.uuid]}, 409, "spare",
        "disks")
    status, a = weftd.call("DELETE", f"{path}/{spare.uuid}")
    assert status == 200 and a["spares"] == []
    weftd.call("POST", path, {"disk": spare.uuid})
    for value in (-1, None, "1", 31536001):
        refused(weftd, "PATCH", "/arrays/a", {"spare_after_s": value}, 422,
                None, "spare_after_s")
    refused(weftd, "PATCH", "/arrays/b", {"spare_after_s": 1}, 404,
            "unknown-array")
    assert weftd.call("PATCH", "/arrays/a", {"spare_after_s": 7})[0] == 200
    weftd.restart()
    a = weftd.get("/arrays/a")
    assert (a["spares"], a["spare_after_s"]) == ([spare.uuid], 7)

    # Nobody needs to ask.
    h = host(weftd)
    eventually(lambda: h.attach()[0] == 201)
    h.start()
    lose(weftd, array, 1, h)
    assert eventually(lambda: member(weftd, 1)["spare_at"], 10) > \
        member(weftd, 1)["since"]
    eventually(lambda: member(weftd, 1)["disk"] == spare.uuid, 20)
    eventually(lambda: states(weftd) == ["in-sync"] * 4)
    assert weftd.get("/arrays/a")["spares"] == []


def test_takeover(weftd, array):
    old, new = host(weftd, "old").start_attached(), host(weftd, "new")
    status, r = new.attach()
    assert r["code"] == "held" and r["holder"]["node"] == "old"
    status, r = new.attach(takeover="yes")
    assert (status, r["field"]) == (422, "takeover")
    assert not old.over
    status, r = new.attach(takeover=True)
    assert status == 201 and new.epoch > old.epoch
    eventually(lambda: old.over)
    assert "node new" in old.over
    assert all(m.header["min_epoch"] >= new.epoch for m in array)
    assert weftd.get("/arrays/a")["session"]["id"] == new.session


# ---- The database is lost. ----


@pytest.fixture
def bare(weftd, array):
    """A weftd that knows nothing, and members that know their array."""
    h = host(weftd).start_attached()
    h.detach()
    eventually(lambda: len({m.header["states_epoch"] for m in array}) == 1)
    weftd.stop()
    shutil.rmtree(weftd.state)
    for m in array:
        m.header["generation"] = 0
    weftd.start()
    eventually(lambda: len(imports(weftd)[0]["members"]) == 4
               if imports(weftd) else False)
    return array


def imports(w):
    return w.get("/imports")["imports"]


def test_import(weftd, bare):
    uuid = bare[0].header["array"]
    before = {(m.uuid, m.header["position"]) for m in bare}
    [found] = imports(weftd)
    assert found["array"] == uuid and found["missing"] == []
    assert (found["layout"], found["n"], found["groups"]) == ("raid-x", 4, 1)
    assert {(m["disk"], m["position"]) for m in found["members"]} == before
    assert weftd.get("/arrays")["arrays"] == []
    for body, status, code, field in [
            ({"name": "a", "array": NOBODY}, 404, "unknown-array", "array"),
            ({"name": "A", "array": uuid}, 422, None, "name"),
            ({"name": "a", "array": "x"}, 422, None, "array"),
            ({"array": uuid}, 422, None, "name"),
            ({"name": "a", "array": uuid, "without": 1}, 422, None, "without"),
            ({"name": "a", "array": uuid, "without": [128]}, 422, None,
             "without"),
            ({"name": "a", "array": uuid, "without": [0, 1]}, 409, "last-copy",
             "without"),
            ({"name": "a", "array": uuid, "x": 1}, 422, None, "x")]:
        got, r = weftd.call("POST", "/imports", body)
        assert (got, r.get("code"), r.get("field")) == (status, code, field)
        assert weftd.get("/arrays")["arrays"] == []
    status, a = weftd.call("POST", "/imports", {"name": "again", "array": uuid})
    assert status == 201 and a["name"] == "again" and a["uuid"] == uuid
    eventually(lambda: weftd.get("/arrays/again")["state"] == "ready")
    a = weftd.get("/arrays/again")
    assert {(m["disk"], m["position"]) for m in a["members"]} == before
    assert imports(weftd) == []
    h = host(weftd)
    eventually(lambda: h.attach("again")[0] == 201)


def test_import_without_a_member(weftd, bare):
    uuid = bare[0].header["array"]
    status, a = weftd.call("POST", "/imports", {"name": "a", "array": uuid,
                                                "without": [3]})
    assert status == 201
    eventually(lambda: states(weftd)[:3] == ["in-sync"] * 3)
    assert states(weftd)[3] != "in-sync"


def test_import_of_few(weftd, array):
    """A member that does not ask is not given up by itself."""
    array[3].stop()
    for m in array[:3]:
        m.stop()
    weftd.stop()
    shutil.rmtree(weftd.state)
    weftd.start()
    for m in array[:3]:
        m.header["generation"] = 0
        m.start()
    eventually(lambda: imports(weftd) and len(imports(weftd)[0]["members"]) == 3)
    [found] = imports(weftd)
    assert found["missing"] == [3]
    status, r = weftd.call("POST", "/imports", {
        "name": "a", "array": found["array"]})
    assert (status, r["code"]) == (409, "member-missing") and "3" in r["detail"]
    assert weftd.get("/arrays")["arrays"] == []
    # The loss of what it may have is accepted: that is on record.
    status, _ = weftd.call("POST", "/imports", {
        "name": "a", "array": found["array"], "without": [3],
        "accept_loss": True})
    assert status == 201
    line = weftd.get("/audit")["audit"][0]
    assert line["action"] == "POST /imports"
    assert line["subject"] == "a, loss accepted"


def test_import_into_another_cluster(weftd, array):
    stranger = Member(weftd, 9)
    stranger.beat()
    stranger.header.update(array[0].header, array=NOBODY, cluster=NOBODY)
    stranger.header["generation"] = 0
    assert stranger.beat()[0] == 409
    [found] = imports(weftd)
    assert found["array"] == NOBODY and found["missing"] == [1, 2, 3]
    status, r = weftd.call("POST", "/imports", {"name": "b", "array": NOBODY})
    assert (status, r["code"]) == (409, "not-empty")
    assert [a["name"] for a in weftd.get("/arrays")["arrays"]] == ["a"]


# ---- Records of before. ----


def test_older_records(weftd, array):
    """A database of before there were rebuilds is taken as it is."""
    h = host(weftd).start_attached()
    epoch = h.epoch
    h.detach()
    weftd.stop()
    con = sqlite3.connect(weftd.state / "weftd.db")
    for kind, key, text in con.execute(
            "SELECT kind, key, json FROM record").fetchall():
        record = json.loads(text)
        if kind == "disk":
            for field in ("spare_of", "sequence"):
                del record[field]
        elif kind == "array":
            del record["spare_after_ms"]
            record["fence"] = max(m["fence"] for m in record["members"])
            assert record["fence"] >= epoch  # the detach made another
            for m in record["members"]:
                for field in ("fence", "held", "reset", "paused", "floor",
                              "ceiling"):
                    del m[field]
            # An attach that was under way.
            record["change"] = {
                "epoch": record["epoch"] + 1, "fence": True, "since_ms": 1,
                "states": [m["state"] for m in record["members"]]}
        con.execute("UPDATE record SET json = ? WHERE kind = ? AND key = ?",
                    (json.dumps(record), kind, key))
    con.commit()
    con.close()
    weftd.start()
    eventually(lambda: weftd.get("/arrays/a")["epoch"] > epoch)
    a = weftd.get("/arrays/a")
    assert a["spare_after_s"] == 600 and states(weftd) == ["in-sync"] * 4
    assert all(m.header["min_epoch"] >= a["epoch"] for m in array)
    h = host(weftd, "h1")
    eventually(lambda: h.attach()[0] == 201)
