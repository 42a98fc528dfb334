"""weftd's events, an import, and what real members make it say, held against
docs/API/openapi.json.
"""

import http.client
import json
import shutil
import threading

from apicaller import (ATTACH, Api, SPEC, api, disks, errors, make_array,
                       operations, weftd)
from wefttest import eventually


class Stream:
    def __init__(self, api, last=None):
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        self.connection = http.client.HTTPConnection(api.address, timeout=20)
        self.connection.request("GET", "/api/v1/events", headers=headers)
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200
        assert self.reply.headers["Content-Type"] == "text/event-stream"
        self.schemas = SPEC["paths"]["/api/v1/events"]["get"]["responses"][
            "200"]["x-events"]
        self.last = last

    def next(self):
        """The next event: (kind, data).  Holds it against its schema."""
        event = {}
        while True:
            line = self.reply.readline()
            assert line.endswith(b"\n"), "the stream ended"
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name in ("id", "event", "data"):
                assert name not in event
                event[name] = value
            elif name == "" and event:
                break
        kind, data = event["event"], json.loads(event["data"])
        assert kind in self.schemas, kind
        wrong = errors(self.schemas[kind], data)
        assert not wrong, (kind, data, wrong)
        if kind == "load":
            assert "id" not in event
        else:
            assert self.last is None or int(event["id"]) > int(self.last) or \
                kind == "snapshot"
            self.last = int(event["id"])
        return kind, data

    def until(self, kind, test=lambda data: True):
        while True:
            k, data = self.next()
            self.seen |= {k + (" gone" if data.get("deleted") else "")}
            if k == kind and test(data):
                return data

    seen = frozenset()

    def close(self):
        self.reply.close()
        self.connection.close()


def test_events(api, disks, weftd):
    stream = Stream(api)
    kind, snapshot = stream.next()
    assert kind == "snapshot"
    assert {d["uuid"] for d in snapshot["disks"]} == {d.uuid for d in disks}

    make_array(api, disks)
    stream.until("array", lambda a: a.get("state") == "ready")
    resume_at = stream.last
    grant = api.call("POST", "/api/v1/arrays/a/sessions", ATTACH,
                     expect=201)[1]
    stream.until("session", lambda s: s["id"] == grant["session"])
    stream.until("load", lambda load: any(
        d["disk_writes"] > 0 for d in load["disks"].values()))
    api.call("DELETE", f"/api/v1/sessions/{grant['session']}", expect=200)
    stream.until("session", lambda s: s.get("deleted"))
    api.call("DELETE", "/api/v1/arrays/a", expect=200)
    stream.until("array", lambda a: a.get("deleted"))
    disks[3].stop()
    stream.until("disk", lambda d: d["uuid"] == disks[3].uuid
                 and not d["alive"])
    eventually(lambda: api.call("DELETE", f"/api/v1/disks/{disks[3].uuid}")[0]
               == 200)
    stream.until("disk", lambda d: d.get("deleted"))
    stream.until("node", lambda n: n.get("deleted") and n["name"] == "n3")
    assert stream.seen >= {"array", "array gone", "disk", "disk gone", "node",
                           "node gone", "session", "session gone", "log",
                           "load"}
    end = stream.last
    stream.close()

    # Resumed: the same events again, no snapshot before.
    again = Stream(api, resume_at)
    again.until("session", lambda s: s["id"] == grant["session"])
    again.until("disk", lambda d: d.get("deleted"))
    assert "snapshot" not in again.seen
    again.close()

    # Also after weftd was killed.
    for d in disks[:3]:
        d.stop()
    weftd.restart(kill=True)
    again = Stream(api, resume_at)
    again.until("session", lambda s: s["id"] == grant["session"])
    again.until("node", lambda n: n.get("deleted") and n["name"] == "n3")
    assert again.last >= end and "snapshot" not in again.seen
    again.close()

    # From a place that never was: a snapshot.
    for nonsense in (1 << 60, "x", -1):
        new = Stream(api, None)
        new.close()
        new = Stream(api, nonsense)
        new.last = None
        assert new.next()[0] == "snapshot", nonsense
        new.close()


def test_ending_is_said(weftd, api, disks):
    """A stream and long polls do not keep weftd from ending."""
    stream = Stream(api)
    stream.next()
    poll = []

    def long_poll():
        try:
            poll.append(api.call(
                "POST", f"/api/v1/disks/{disks[0].uuid}/heartbeat",
                {**disks[0].body, "wait_ms": 60000})[0])
        except (OSError, http.client.HTTPException) as e:
            poll.append(e)

    for d in disks:
        d.stop()
    thread = threading.Thread(target=long_poll)
    thread.start()
    weftd.stop()
    thread.join(10)
    assert poll and (poll[0] in (200, 503) or isinstance(poll[0], Exception))
    weftd.start()


def test_import(api, disks, weftd):
    """weftd's database is lost; the members still know their array."""
    make_array(api, disks)
    place = api.call("POST", f"/api/v1/disks/{disks[0].uuid}/heartbeat",
                     disks[0].body, expect=200)[1]["assignment"]
    for d in disks:
        d.stop()
    weftd.restart(between=lambda: shutil.rmtree(weftd.state))
    for d in disks:
        d.body.update({k: place[k] for k in ("layout", "dup", "n", "groups",
                                             "unit", "member_bytes",
                                             "states")}, generation=0)
        assert api.call("POST", f"/api/v1/disks/{d.uuid}/heartbeat", d.body,
                        expect=409)[1]["code"] == "foreign-cluster"
    [found] = api.get("/api/v1/imports")["imports"]
    array = api.call("POST", "/api/v1/imports",
                     {"name": "c", "array": found["array"]}, expect=201)[1]
    assert [m["disk"] for m in array["members"]] == [d.uuid for d in disks]


# ---- Real members ----


def test_a_real_cluster(cluster):
    """weftd's answers about real members and a real array process."""
    c = cluster(members=4)
    api = Api(c.admin)
    for path, method, op in operations():
        if method == "get" and not path.endswith(("/events", "openapi.json")):
            if "security" in op["tags"] or "{job}" in path or "/volumes" in path:
                continue  # this array is no pool
            disk = api.get("/api/v1/disks")["disks"][0]["uuid"]
            name = "n0" if "/nodes/" in path else "a"
            if path.endswith("/losing"):
                path += "?node=n1"
            api.get(path.replace("{name}", name).replace("{uuid}", disk))
    stream = Stream(api)
    stream.until("load", lambda load: load["sessions"]
                 and len(load["disks"]) == 4)
    c.kill("m1")
    stream.until("disk", lambda d: not d.get("alive"))
    stream.close()
    api.get("/api/v1/status")
