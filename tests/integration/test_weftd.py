"""weftd: its knowledge and decisions, and what a restart finds again.

Topology: one weftd; members and hosts are played (weftdactors.py). Causes: restarts and kill
-9 at any time, silence, double use, members that do not confirm, an old, damaged or unwritable
database, bad input.  Pass: every acknowledged change is still there afterwards, and a refused
call changes nothing.
"""

import contextlib
import http.client
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import uuid

import pytest

from weftdactors import (Events, Host, Member, array, create, host, members,
                         weftd)
from wefttest import Stopwatch, eventually, run

TTL_SESSION = 10


# ---- Disks. ----


def test_registration(weftd):
    m = Member(weftd, 0)
    status, r = m.beat()
    assert status == 200 and r["assignment"] is None and r["ttl_ms"] == 5000
    assert re.fullmatch("[0-9a-f]{64}", r["key"])
    assert r["cluster"] == weftd.get("/status")["cluster"]
    key = r["key"]
    weftd.restart()
    status, r = m.beat()
    assert r["key"] == key and r["generation"] == 2
    d = weftd.get(f"/disks/{m.uuid}")
    assert d["node"] == "n0" and d["state"] == "serving" and d["alive"]
    assert [n["name"] for n in weftd.get("/nodes")["nodes"]] == ["n0"]


def test_load_beyond_reason(weftd):
    """The shown load is never negative."""
    m = Member(weftd, 0)
    for cpu in (0.25, 2e12, 1e300):
        m.load["cpu"] = cpu
        m.beat(wait_ms=0)
        eventually(lambda: weftd.get(f"/disks/{m.uuid}")["load"]["cpu"] == cpu,
                   what=f"a load of {cpu}")


def test_heartbeat_is_held_while_nothing_changes(weftd):
    m = Member(weftd, 5)
    m.beat()
    m.beat()
    begin = time.monotonic()
    m.beat(wait_ms=1000)
    # A poll ends with the tick that is nearest: some 125 ms early or late.
    assert time.monotonic() - begin > 0.8
    # And comes back at once when something does.
    ms = [m] + members(weftd, 2)
    for other in ms[1:]:
        other.number += 10
    done = []

    def wait():
        while not m.header["array"]:
            m.beat(wait_ms=2000)
        done.append(time.monotonic())

    t = threading.Thread(target=wait)
    t.start()
    time.sleep(0.2)
    create_later = weftd.call("POST", "/arrays", {
        "name": "a", "layout": "raid-x", "disks": [d.uuid for d in ms]})
    assert create_later[0] == 201
    watch = Stopwatch()
    t.join()
    assert watch.seconds(end=max(done[0], watch.begin)) < 1


def test_strangers(weftd, array):
    m = Member(weftd, 9)
    status, r = m.beat(cluster=str(uuid.uuid4()))
    assert (status, r["code"]) == (409, "foreign-cluster")
    status, r = m.beat(array=str(uuid.uuid4()), position=0)
    assert (status, r["code"]) == (409, "unknown-array")
    status, r = m.beat(array=array[0].header["array"], position=0)
    assert (status, r["code"]) == (409, "not-a-member")
    assert len(weftd.get("/disks")["disks"]) == 4


def test_double_use(weftd, array):
    clone = Member(weftd, 0, array[0].uuid)
    clone.header = dict(array[0].header)
    status, r = clone.beat()
    assert (status, r["code"]) == (409, "double-used")
    assert "nbd://127.0.0.1:10809" in r["detail"]
    # The first one dies; the next start of it gets its place.
    array[0].stop()
    status, r = clone.beat()
    assert status == 200 and r["assignment"]["position"] == 0
    # Should the first one only have been asleep, it is the second now.
    clone.start()
    weftd.actors.append(clone)
    status, r = array[0].beat()
    assert (status, r["code"]) == (409, "double-used")


def test_failed_member_is_shown(weftd, array):
    array[1].state, array[1].reason = "failed", "fsync: I/O error <b>"
    eventually(lambda: weftd.get("/arrays/a")["state"] == "degraded")
    s = weftd.get("/status")
    assert s["health"] == "warning" and "has failed" in s["verdict"]
    assert weftd.get("/arrays/a")["members"][1]["reason"] == array[1].reason


def test_silence_is_shown_and_forgiven(weftd, array):
    array[2].stop()
    eventually(lambda: not weftd.get("/arrays/a")["members"][2]["alive"])
    a = weftd.get("/arrays/a")
    assert a["state"] == "degraded" and a["exposed_bytes"] > 0
    assert a["lost_bytes"] == 0 and "member 2" in a["waits_for"]
    assert a["members"][2]["state"] == "in-sync"
    assert "is silent" in weftd.get("/status")["verdict"]
    status, r = host(weftd).attach()
    assert (status, r["code"]) == (409, "member-missing")
    assert "member 2" in r["detail"]
    array[2].start()
    eventually(lambda: weftd.get("/arrays/a")["state"] == "ready")
    assert weftd.get("/status")["health"] == "ok"


def test_forget_a_disk(weftd, array):
    m = Member(weftd, 8)
    m.beat()
    assert weftd.call("DELETE", f"/disks/{array[0].uuid}")[1]["code"] == \
        "in-use"
    assert weftd.call("DELETE", f"/disks/{m.uuid}")[1]["code"] == "alive"
    eventually(lambda: not weftd.get(f"/disks/{m.uuid}")["alive"])
    assert weftd.call("DELETE", f"/disks/{m.uuid}")[0] == 200
    assert weftd.call("DELETE", f"/disks/{m.uuid}")[0] == 404
    assert len(weftd.get("/disks")["disks"]) == 4


# ---- Arrays. ----


def test_create_and_delete(weftd):
    ms = members(weftd)
    body = {"name": "a", "layout": "raid-x", "disks": [m.uuid for m in ms]}
    status, dry = weftd.call("POST", "/arrays?dry_run=true", body)
    plan = dry["plan"]
    assert status == 200 and plan["survives"] == "any 1 member, and any 1 host"
    assert plan["capacity"]["usable"] == plan["size"]
    assert sum(v for k, v in plan["capacity"].items() if k != "total") == \
        plan["capacity"]["total"]
    assert weftd.get("/arrays")["arrays"] == []
    a = create(weftd, ms)
    assert a["size"] == plan["size"]
    assert [m["position"] for m in a["members"]] == [0, 1, 2, 3]
    for i, m in enumerate(ms):
        assert m.header["position"] == i
        assert m.header["array"] == a["uuid"]
    status, r = weftd.call("DELETE", "/arrays/a")
    assert status == 200
    eventually(lambda: all(m.header["array"] is None for m in ms))
    eventually(lambda: all(d["releasing"] is None
                           for d in weftd.get("/disks")["disks"]))
    # Disks that served an array serve the next one, in a higher epoch.
    b = create(weftd, ms[::-1], "b", layout="raid-10", dup="sync-client")
    assert b["epoch"] > max(a["epoch"], 0)
    assert weftd.call("DELETE", "/arrays/a")[0] == 404


@pytest.mark.parametrize("layout,count,groups", [
    ("raid-x", 3, 1), ("raid-x", 5, 1), ("raid-x", 6, 2), ("raid-10", 4, 1),
    ("chained", 3, 1), ("rotated", 4, 2), ("raid-1", 2, 1), ("raid-0", 1, 1)])
def test_every_layout(weftd, layout, count, groups):
    ms = members(weftd, count)
    a = create(weftd, ms, layout=layout, groups=groups)
    assert a["n"] == count // groups and len(a["members"]) == count
    status, r = host(weftd).attach()
    assert status == 201 and len(r["map"]["members"]) == count


def test_create_refuses(weftd):
    ms = members(weftd)
    good = {"name": "a", "layout": "raid-x", "disks": [m.uuid for m in ms]}
    bad = [
        ("name", {"name": "Bad Name"}), ("name", {"name": "-a"}),
        ("name", {"name": "x" * 64}), ("name", {"name": 3}),
        ("layout", {"layout": "raid-5"}), ("layout", {"layout": None}),
        ("unit", {"unit": 1}), ("unit", {"unit": "256K"}),
        ("unit", {"unit": -1}), ("unit", {"unit": 1 << 40}),
        ("layout", {"unit": 12288}), ("groups", {"groups": 3}),
        ("groups", {"groups": 0}), ("dup", {"dup": "sync"}),
        ("dup", {"dup": "sync-client"}), ("disks", {"disks": []}),
        ("disks", {"disks": [1, 2, 3]}), ("disks", {"disks": "all"}),
        ("disks", {"disks": [str(uuid.uuid4())] * 3}),
        ("disks", {"disks": [ms[0].uuid] * 4}),
        ("layout", {"disks": [m.uuid for m in ms[:2]]}),
        ("disks", {"disks": [str(uuid.uuid4()) for _ in range(129)]}),
        ("dry_run", {"dry_run": True}), ("force", {"force": 1}),
    ]
    for field, change in bad:
        status, r = weftd.call("POST", "/arrays", {**good, **change})
        assert (status, r.get("field")) == (422, field), (change, r)
        assert r["title"] and len(r["detail"]) > 15
    for field in good:
        body = {k: v for k, v in good.items() if k != field}
        status, r = weftd.call("POST", "/arrays", body)
        assert (status, r.get("field")) == (422, field)
    assert weftd.get("/arrays")["arrays"] == []
    create(weftd, ms)
    status, r = weftd.call("POST", "/arrays", good)
    assert (status, r["field"]) == (409, "name")
    status, r = weftd.call("POST", "/arrays", {**good, "name": "b"})
    assert (status, r["field"], r["code"]) == (409, "disks", "in-use")


# ---- Sessions. ----


def test_attach(weftd, array):
    h = host(weftd)
    status, r = h.attach()
    assert status == 201 and r["ttl_ms"] == 10000
    m = r["map"]
    assert (m["name"], m["layout"], m["n"], m["unit"]) == \
        ("a", "raid-x", 4, 262144)
    assert m["session"] == r["session"]
    # Granted only when every member refuses whatever is older.
    assert all(d.header["min_epoch"] >= m["epoch"] for d in array)
    tokens = {t for d in m["members"] for t in d["tokens"].values()}
    assert len(tokens) >= 4
    # A host that did not get the answer asks again, and gets the same one.
    assert h.attach() == (201, r)
    h.start()
    # A second host gets the holder's name.
    status, r = host(weftd, "h1").attach()
    assert (status, r["code"]) == (409, "held")
    assert r["holder"]["node"] == "h0" and r["holder"]["pid"] == 42
    assert "h0" in r["detail"] and "retry_after_ms" not in r
    # Readers: as many as like.
    for i in range(3):
        status, r = host(weftd, f"r{i}", "ro").attach()
        assert status == 201
        assert r["map"]["members"][0]["tokens"]["data"] not in tokens
    assert len(weftd.get("/sessions")["sessions"]) == 4
    a = weftd.get("/arrays/a")
    assert a["session"]["node"] == "h0" and len(a["sessions"]) == 4
    status, r = weftd.call("DELETE", "/arrays/a")
    assert (status, r["code"]) == (409, "held")
    assert h.detach()[0] == 200
    assert h.detach()[0] == 200
    status, r = h.beat()
    assert status == 410 and "detached" in r["detail"]
    assert host(weftd, "h1").attach()[0] == 201
    assert host(weftd).attach("nix")[0] == 404


def test_takeover_after_silence(weftd, array):
    old, new = host(weftd, "old").start_attached(), host(weftd, "new")
    assert new.attach()[1]["code"] == "held"
    begin = time.monotonic()
    old.stop()
    # A host that asks just after the death hears soon that the holder may be dead.
    watch = Stopwatch()
    status, r = new.attach()
    assert r["code"] == "held" and 0 < r["retry_after_ms"] <= 10000
    assert watch.seconds() < 5
    reply = []

    def granted():
        status, r = new.attach()
        if status == 409:
            assert r["code"] == "held"
            reply.append(r)
        return status == 201

    eventually(granted, 30)
    assert time.monotonic() - begin > TTL_SESSION - 3
    assert reply[-1]["retry_after_ms"] <= 10000
    assert new.epoch > old.epoch
    status, r = old.beat()
    assert status == 410 and "node new" in r["detail"] and \
        "silent" in r["detail"]
    status, r = old.lost(1)
    assert status == 410
    assert weftd.get("/arrays/a")["members"][1]["state"] == "in-sync"
    weftd.restart()
    assert "node new" in old.beat()[1]["detail"]


@contextlib.contextmanager
def slow_store(weftd):
    """Every store takes 0.6 s, and there is always something to store."""
    over = threading.Event()

    def store():
        while not over.is_set():
            assert weftd.call("PATCH", "/arrays/a", {
                "spare_after_s": random.randrange(10, 10000)})[0] == 200

    threads = [threading.Thread(target=store) for _ in range(3)]
    with subprocess.Popen(
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync",
             "-e", "inject=fdatasync:delay_enter=600ms",
             "-p", str(weftd.process.pid)]) as tracer:
        for t in threads:
            t.start()
        try:
            yield
        finally:
            over.set()
            for t in threads:
                t.join()
            tracer.terminate()


def test_slow_store(weftd, array):
    """A live one does not count as silent because of that; a dead one is replaced anyway."""
    old, new = host(weftd, "old").start_attached(), host(weftd, "new")
    with slow_store(weftd):
        time.sleep(TTL_SESSION + 2)
        s = weftd.get("/status")
        assert all(d["alive"] for d in s["disks"])
        assert all(x["alive"] for x in s["sessions"])
        begin = time.monotonic()
        weftd.call("PATCH", "/arrays/a", {"spare_after_s": 5})
        assert time.monotonic() - begin > 0.5
        old.stop()
        eventually(lambda: new.attach()[0] == 201, 3 * TTL_SESSION)
    assert old.beat()[0] == 410


def test_lost(weftd, array):
    h, reader = host(weftd).start_attached(), host(weftd, "r", "ro")
    reader.start_attached()
    array[2].stop()
    before = h.epoch
    status, r = h.lost(2, "no answer for 15 s\nreally")
    assert status == 200 and r["epoch"] > before
    assert r["states"] == ["in-sync", "in-sync", "out", "in-sync"]
    again = h.lost(2)[1]  # changes nothing
    assert (again["epoch"], again["states"]) == (r["epoch"], r["states"])
    eventually(lambda: reader.epoch == r["epoch"])
    assert reader.states == r["states"]
    eventually(lambda: array[0].states == r["states"])
    # As durable as it can be.
    weftd.restart(kill=True)
    a = weftd.get("/arrays/a")
    m = a["members"][2]
    assert (a["state"], m["state"]) == ("degraded", "out")
    assert "no answer for 15 s really" in m["reason"]
    assert h.beat()[1]["states"] == r["states"]
    s = weftd.get("/status")
    assert s["health"] == "warning" and "member 2" in s["verdict"]
    for field, body in [("member", {"member": 4}), ("member", {}),
                        ("member", {"member": -1}),
                        ("reason", {"member": 1, "reason": 1})]:
        status, r = weftd.call("POST", f"/sessions/{h.session}/lost", body)
        assert (status, r["field"]) == (422, field)
    h.detach()
    reader.detach()
    # A weftd that was just started waits a while for those it has not heard.
    h = host(weftd, "h1")
    eventually(lambda: h.attach()[0] == 201)
    assert h.map["members"][2]["state"] == "out"
    assert h.detach()[0] == 200
    assert weftd.call("DELETE", "/arrays/a")[0] == 200


def test_second_loss(weftd, array):
    h = host(weftd)
    h.attach()
    array[0].stop()
    h.lost(0)
    array[1].stop()  # a member that answers is given back to the writer at once
    status, r = h.lost(1)
    assert (status, r["code"]) == (409, "last-copy") and "1" in r["detail"]
    a = weftd.get("/arrays/a")
    assert [m["state"] for m in a["members"]][:2] == ["out", "in-sync"]
    s = weftd.get("/status")
    assert s["health"] == "error" and "has stopped" in s["verdict"]


def test_attach_waits_for_confirmation(weftd, array):
    """An attach waits for a member that does not confirm, and then goes on
    without it."""
    array[3].obey = lambda r: None  # hears, but never does
    h = host(weftd)
    thread = threading.Thread(target=lambda: pytest.raises(
        (OSError, http.client.HTTPException), h.attach))
    thread.start()
    eventually(lambda: weftd.get("/arrays/a")["waits_for"])
    assert "confirm" in weftd.get("/arrays/a")["waits_for"]
    assert weftd.get("/sessions")["sessions"] == []
    # A prepared change survives a restart of weftd, and is committed when the member confirms.
    weftd.kill()
    thread.join()
    weftd.start()
    assert "confirm" in weftd.get("/arrays/a")["waits_for"]
    del array[3].obey
    eventually(lambda: h.attach()[0] == 201)
    assert all(m.header["min_epoch"] >= h.epoch for m in array)

    array[3].obey = lambda r: None  # nor that nobody writes any more
    h.detach()
    begin = time.monotonic()
    status, r = h.attach()
    assert status == 201 and time.monotonic() - begin > 5
    assert [m["state"] for m in h.map["members"]] == ["in-sync"] * 3 + ["out"]
    assert all(m.header["min_epoch"] >= h.epoch for m in array[:3])


def test_session_input(weftd, array):
    h = host(weftd)
    for field, change in [("mode", {"mode": "w"}), ("node", {"node": "A b"}),
                          ("pid", {"pid": "1"}), ("instance",
                                                  {"instance": ""}),
                          ("instance", {"instance": "x" * 65}),
                          ("uri", {"uri": "http://x"})]:
        body = {"instance": "i", "node": "n", "pid": 1, "mode": "rw", **change}
        status, r = weftd.call("POST", "/arrays/a/sessions", body)
        assert (status, r["field"]) == (422, field)
    h.attach()
    other = Host(weftd, "x")
    other.session = h.session
    status, r = other.beat()
    assert (status, r["code"]) == (409, "other-instance")
    other.session = "0" * 16
    assert eventually(lambda: other.beat()[0] not in (503, 200) and
                      other.beat())[0] == 410
    assert weftd.call("POST", "/sessions/../status/heartbeat", {})[0] == 404
    assert weftd.call("DELETE", "/sessions/xyz")[0] == 400
    assert weftd.call("DELETE", "/sessions/" + "1" * 16)[0] == 404


# ---- weftd's own life. ----


def test_everything_is_found_again(weftd, array):
    h = host(weftd).start_attached()
    reader = host(weftd, "r", "ro").start_attached()

    def facts():
        s = weftd.get("/status")
        for a in s["arrays"]:
            for k in ("session", "sessions", "members"):
                del a[k]
        return ({d["uuid"]: (d["array"], d["position"], d["node"], d["uri"])
                 for d in s["disks"]}, s["arrays"], s["cluster"],
                {(x["id"], x["mode"], x["node"]) for x in s["sessions"]})

    before = facts()
    for end in (weftd.stop, weftd.kill):
        end()
        weftd.start()
        assert facts() == before
        eventually(lambda: all(d["alive"] for d in
                               weftd.get("/disks")["disks"]))
        assert not h.over and not reader.over
        # The holder is still the holder: it is not silent for our pause.
        # (Members of which the new weftd has not heard yet come first.)
        eventually(lambda: host(weftd, "h9").attach()[1]["code"]
                   != "member-missing")
        assert host(weftd, "h9").attach()[1]["code"] == "held"
    assert weftd.get("/status")["generation"] == 3


def test_kill_at_any_time(weftd, seed):
    """weftd is killed at random moments of an administrator's work; every acknowledged change
    must be there afterwards."""
    rng = random.Random(seed)
    ms = members(weftd)
    stop = threading.Event()
    kills = []

    def killer():
        while not stop.is_set():
            time.sleep(rng.uniform(0.02, 0.4))
            weftd.kill()
            kills.append(time.monotonic())
            weftd.start(wait=False)
            while not stop.is_set():
                try:
                    if weftd.is_up():
                        break
                except OSError:
                    pass
                time.sleep(0.02)

    def insist(method, path, body=None, accept=(200, 201), also=()):
        """Ask until an answer comes that is one of those."""
        end, r = time.monotonic() + 60, None
        while time.monotonic() < end:
            try:
                status, r = weftd.call(method, path, body)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            if status in accept or (r or {}).get("code") in also:
                return status, r
            time.sleep(0.05)
        raise AssertionError(f"{method} {path}: last answer: {r}")

    eventually(weftd.is_up)
    thread = threading.Thread(target=killer, daemon=True)
    thread.start()
    highest = 0
    try:
        i = -1
        while len(kills) < 12:
            i += 1
            insist("POST", "/arrays", {
                "name": "a", "layout": "raid-x",
                "disks": [m.uuid for m in ms]}, also=("exists",))
            h = Host(weftd, f"h{i}")
            status, r = insist("POST", "/arrays/a/sessions", {
                "instance": h.instance, "node": h.node, "pid": 1,
                "mode": "rw", "uri": None})
            assert r["map"]["epoch"] > highest
            highest = r["map"]["epoch"]
            assert all(m.header["min_epoch"] >= highest for m in ms)
            session = h.session = r["session"]
            h.map, h.epoch = r["map"], highest
            h.start()  # a weftd that was started wants to hear of it first
            status, r = insist("POST", f"/sessions/{session}/lost",
                               {"member": i % 4, "reason": "gone"})
            assert r["epoch"] > highest
            highest = r["epoch"]
            # The member is well, and so on its way back.
            status, a = insist("GET", "/arrays/a")
            assert a["epoch"] > highest or r["states"] == [
                m["state"] for m in a["members"]]
            assert a["session"]["id"] == session and a["epoch"] >= highest
            highest = a["epoch"]
            h.stop()
            insist("DELETE", f"/sessions/{session}")
            insist("DELETE", "/arrays/a", also=("unknown-array",))
            eventually(lambda: all(m.header["array"] is None for m in ms))
            # Another array's epochs begin above what its disks have confirmed:
            # of the last epoch, in which a member went out, they need not know.
            highest = max(m.header["min_epoch"] for m in ms)
    finally:
        stop.set()
        thread.join()
    eventually(weftd.is_up)
    print(f"{len(kills)} kills")
    assert weftd.get("/status")["generation"] >= 5


@pytest.mark.parametrize("mode", [0o720, 0o1702, 0o777])
def test_a_state_of_others(weftd, mode):
    """Another user could put a database there whose keys and logins that user knows."""
    weftd.stop()
    weftd.state.chmod(mode)
    assert "chmod 700" in weftd.refused()
    weftd.state.chmod(0o755)
    weftd.start()


def test_second_weftd_is_refused(weftd):
    said = weftd.refused()
    assert "another weftd" in said and str(weftd.state) in said
    assert weftd.is_up()
    # Another one on the same port: the same.
    p = run("weftd", "--state", weftd.dir / "other", "--listen", weftd.listen,
            check=False)
    assert p.returncode == 1 and len(p.stderr.splitlines()) == 1
    assert weftd.listen in p.stderr


def test_log_names_all_addresses(weftd):
    weftd.stop()
    weftd.extra += ["--listen", "127.0.0.1:0"]
    weftd.start()
    urls = weftd.url_file.read_text().split()
    assert len(urls) == 2
    eventually(lambda: f" serves {urls[0]} {urls[1]} from " in weftd.log.read_text())


def damage_page(db):
    data = bytearray(db.read_bytes())
    data[4096:8192] = os.urandom(4096)
    db.write_bytes(data)


def sql(text, *values):
    def damage(db):
        con = sqlite3.connect(db)
        con.execute(text, values)
        con.commit()
        con.close()
    return damage


DISK = "UPDATE record SET json = ? WHERE kind = 'disk'"
DAMAGES = {
    "no database at all": lambda db: db.write_bytes(os.urandom(20000)),
    "a page of noise": damage_page,
    "cut short": lambda db: os.truncate(db, db.stat().st_size - 4096),
    "a record without fields": sql(DISK, "{}"),
    "a record that is no JSON": sql(DISK, "{"),
    "an array without members": sql(
        "UPDATE record SET json = '{\"name\":\"a\"}' WHERE kind = 'array'"),
    "a lost disk": sql("DELETE FROM record WHERE key = (SELECT min(key) "
                       "FROM record WHERE kind = 'disk')"),
    "a kind that is unknown": sql(
        "INSERT INTO record VALUES ('future', 'x', '{}')"),
    "a later version": sql("PRAGMA user_version = 99"),
    "another program's": sql("PRAGMA application_id = 1"),
    "no identity": sql("DELETE FROM record WHERE kind = 'cluster'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_database(weftd, array, damage):
    weftd.stop()
    db = weftd.state / "weftd.db"
    DAMAGES[damage](db)
    before = db.read_bytes()
    said = weftd.refused()
    assert "weftd.db" in said or "database" in said
    assert db.read_bytes() == before  # nothing was changed


def test_full_disk(weftd):
    """A store that cannot write ends weftd with one line; every change acknowledged before is
    there afterwards."""
    weftd.stop()
    weftd.start(under=["prlimit", f"--fsize={1 << 20}"])
    ms = [Member(weftd, i) for i in range(3)]
    for m in ms:
        assert m.beat()[0] == 200
    answered = None
    with pytest.raises((OSError, http.client.HTTPException)):
        for i in range(5000):
            ms[0].reason = f"reason {i}"
            status, r = ms[0].beat()
            if status == 503:
                raise OSError(r["detail"])
            answered = ms[0].reason
    assert weftd.process.wait(timeout=20) == 1
    lines = [x for x in weftd.log.read_text().splitlines() if "error" in x]
    assert len(lines) == 1 and "cannot write" in lines[0]
    assert "weftd.db" in lines[0] and answered
    weftd.start()
    known = {d["uuid"] for d in weftd.get("/disks")["disks"]}
    assert known == {m.uuid for m in ms}


def test_old_backup(weftd, array):
    """A database from before the last attach meets members that know more."""
    weftd.stop()
    shutil.copytree(weftd.state, weftd.dir / "backup")
    weftd.start()
    h = host(weftd)
    eventually(lambda: h.attach()[0] == 201)
    h.lost(1)
    eventually(lambda: array[0].header["states_epoch"] >= h.epoch)
    weftd.stop()
    shutil.rmtree(weftd.state)
    shutil.copytree(weftd.dir / "backup", weftd.state)
    weftd.start()
    assert h.beat()[0] == 503  # not 410: its session may be a good one
    eventually(lambda: weftd.get("/status")["read_only"])
    s = weftd.get("/status")
    assert s["health"] == "error" and "backup" in s["verdict"]
    assert h.beat()[0] == 503
    for method, path, body in [
            ("POST", "/arrays/a/sessions",
             {"instance": "i", "node": "n", "pid": 1, "mode": "ro"}),
            ("DELETE", "/arrays/a", None),
            ("DELETE", f"/disks/{array[0].uuid}", None)]:
        status, r = weftd.call(method, path, body)
        assert (status, r["code"]) == (503, "read-only")
        assert "backup" in r["detail"]


def test_paused_weftd_accuses_nobody(weftd, array):
    h = host(weftd).start_attached()
    weftd.process.send_signal(signal.SIGSTOP)
    time.sleep(12)
    weftd.process.send_signal(signal.SIGCONT)
    for _ in range(10):
        s = weftd.get("/status")
        assert s["health"] == "ok", s["verdict"]
        assert all(d["alive"] for d in s["disks"])
        assert all(x["alive"] for x in s["sessions"])
        time.sleep(0.1)
    assert not h.over


def test_ends_at_once_with_everybody_waiting(weftd, array):
    host(weftd).start_attached()
    streams = [Events(weftd) for _ in range(20)]
    for s in streams:
        assert s.next()[1] == "snapshot"
    idle = [socket.create_connection(weftd.address) for _ in range(20)]
    assert weftd.stop() < 5
    for s in streams:
        s.close()
    for s in idle:
        s.close()
    assert not weftd.url_file.exists()
    assert not (weftd.dir / "pid").exists()


def test_a_weftd_that_dies_is_noticed(weftd):
    """By every test that has one: at its end."""
    os.kill(weftd.process.pid, signal.SIGKILL)  # not by weftd.kill()
    weftd.process.wait(timeout=20)
    with pytest.raises(AssertionError):
        weftd.end()
    weftd.url_file.unlink()
    weftd.start()
    weftd.kill()
    weftd.end()


def test_options(tmp_path):
    here = f"--state {tmp_path}"
    for words, word in [("", "--state"), ("--nix", "--help"),
                        (f"{here} more", "more"),
                        (f"{here} --no-login --listen 0.0.0.0:1", "TLS"),
                        (f"{here} --listen 10.0.0.1:1 --no-login", "TLS"),
                        (f"{here} --listen host:1", "one of this host's"),
                        (f"{here} --listen ::1:1", "[2001"),
                        (f"{here} --host-name A_b", "host name"),
                        (f"{here} --listen 127.0.0.1", "ADDRESS:PORT"),
                        (f"{here} --listen 127.0.0.1:99999", "65535"),
                        (f"{here} --listen 127.0.0.1:x", "65535"),
                        ("--state /proc/nix", "/proc/nix")]:
        p = run("weftd", *words.split(), check=False)
        assert p.returncode == 1 and p.stdout == ""
        assert word in p.stderr, p.stderr
        assert len(p.stderr.splitlines()) <= 2
    assert "--listen" in run("weftd", "--help").stdout
    assert re.match(r"weftd \d", run("weftd", "--version").stdout)
    routes = run("weftd", "--list-routes").stdout.splitlines()
    assert "POST /api/v1/arrays/{name}/sessions" in routes
