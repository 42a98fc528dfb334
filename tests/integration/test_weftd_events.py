"""weftd's stream of events.

Topology: one weftd with played members and hosts.  Pass: every change makes one event, in
order, also for a listener that returns after weftd was killed, and the store of events is
bounded.
"""

import sqlite3
import threading
import time

from weftdactors import (Events, Member, array, create, host, members, weftd)


def test_events(weftd):
    e = Events(weftd)
    i, kind, data = e.next()
    assert kind == "snapshot" and data["verdict"] and data["disks"] == []
    ms = members(weftd)
    seen = {e.until("disk")[1]["uuid"] for _ in ms}
    assert seen == {m.uuid for m in ms}
    create(weftd, ms)
    e.until("array", lambda a: a["state"] == "creating")
    e.until("log", lambda m: "was created" in m["text"] and
            m["severity"] == "info")
    e.until("array", lambda a: a["state"] == "ready" and a["name"] == "a")
    h = host(weftd)
    h.attach()
    e.until("session", lambda s: s["id"] == h.session and s["mode"] == "rw")
    e.until("node", lambda n: n["name"] == "h0")
    h.lost(1)
    e.until("array", lambda a: a["state"] == "degraded")
    h.detach()
    e.until("session", lambda s: s["id"] == h.session and s["deleted"])
    e.until("node", lambda n: n["name"] == "h0" and n["deleted"])
    weftd.call("DELETE", "/arrays/a")
    e.until("array", lambda a: a.get("deleted") and a["name"] == "a")
    e.close()


def test_a_disk_that_moves(weftd, array):
    """A member's disk that another node says to have is worth a warning."""
    def warnings():
        return [m["text"] for m in weftd.get("/log?severity=warning")["log"]
                if "has moved" in m["text"]]
    free = Member(weftd, 9)
    free.beat(wait_ms=0)
    free.beat(wait_ms=0, node="n8")  # in no array
    member = array[1]
    member.stop()
    member.beat(wait_ms=0, path="/dev/other")
    assert warnings() == []
    e = Events(weftd)
    thief = {"node": "thief", "uri": "nbd://127.0.0.99:10809"}
    for _ in range(3):  # says it once
        assert member.beat(wait_ms=0, **thief)[0] == 200
    e.until("log", lambda m: "has moved from node n1 to node thief "
            "(nbd://127.0.0.99:10809)" in m["text"] and
            "member 1 of array a" in m["text"] and m["severity"] == "warning")
    e.close()
    assert len(warnings()) == 1
    assert "has moved from node n1" in weftd.log.read_text()


def test_events_resume(weftd):
    e = Events(weftd)
    first = e.next()[0]
    ms = members(weftd, 3)
    ids, names = [], []
    create(weftd, ms)
    while True:
        i, kind, data = e.next()
        if kind == "load":
            assert i is None
            continue
        ids.append(i)
        names.append((kind, data))
        if kind == "array" and data["state"] == "ready":
            break
    assert ids == list(range(first + 1, first + 1 + len(ids)))
    e.close()
    # From the middle, the same ones again; over a restart, too.
    for m in ms:
        m.stop()
    half = ids[len(ids) // 2]
    for again in range(2):
        e = Events(weftd, half)
        for i, (kind, data) in list(zip(ids, names)):
            if i <= half:
                continue
            got = e.next()
            while got[1] == "load":
                got = e.next()
            assert got == (i, kind, data)
        e.close()
        weftd.restart(kill=True)
    # An unknown id, or one from the future, starts over with a snapshot.
    for last in (ids[-1] + 100000, "abc", -1):
        e = Events(weftd, last)
        assert e.next()[1] == "snapshot"
        e.close()


def test_events_are_bounded(weftd):
    m = Member(weftd, 0)
    m.beat()
    first = Events(weftd)
    begin = first.next()[0]
    first.close()
    for i in range(1100):
        m.reason = f"reason {i}"
        m.beat()
    count = sqlite_count(weftd)
    assert count <= 2000
    for i in range(1100, 2200):
        m.reason = f"reason {i}"
        m.beat()
    e = Events(weftd, begin)
    assert e.next()[1] == "snapshot"
    e.close()
    assert sqlite_count(weftd) <= 2000


def sqlite_count(w):
    """Events that are stored."""
    w.stop()
    con = sqlite3.connect(w.state / "weftd.db")
    count = con.execute(
        "SELECT count(*) FROM record WHERE kind = 'event'").fetchone()[0]
    con.close()
    w.start()
    return count


def test_load(weftd, array):
    """Counters in heartbeats become rates."""
    h = host(weftd).start_attached()
    e = Events(weftd)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            for m in array:
                m.load["disk_write_bytes"] += 1 << 20
            h.stats["reads"] += 100
            h.stats["read_bytes"] += 409600
            h.stats["read_ns"] += 100 * 50000
            time.sleep(0.1)

    t = threading.Thread(target=work)
    t.start()
    try:
        _, data = e.until("load", lambda d: d["sessions"].get(
            h.session, {}).get("reads", 0) > 300 and
            d["disks"][array[0].uuid]["disk_write_bytes"] > 3 << 20)
    finally:
        stop.set()
        t.join()
    assert data["disks"][array[0].uuid]["cpu"] == 0.25
    assert 300 < data["arrays"]["a"]["reads"] < 3000
    assert 40 < data["sessions"][h.session]["read_us"] < 60
    e.close()
