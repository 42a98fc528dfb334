"""Nodes over the API: maintenance, drain, removal, eviction and jobs; every
answer is held against docs/API/openapi.json."""

from types import SimpleNamespace

from apicaller import *
from weftdlogin import Browser, first_login
from wefttest import eventually


def node(api, name):
    return api.get(f"/api/v1/nodes/{name}")


def gone(api, disk):
    """Its process ends, and weftd misses it."""
    disk.stop()
    eventually(lambda: not api.get(f"/api/v1/disks/{disk.uuid}")["alive"])


def test_a_node_is_what_its_disks_say(api, disks):
    n = node(api, "n1")
    assert n["disks"] == [disks[1].uuid] and n["disks_alive"] == 1
    assert n["alive"] and not n["maintenance"] and not n["draining"]
    assert not n["enrolled"] and n["certificate_expires"] is None
    names = [n["name"] for n in api.get("/api/v1/nodes")["nodes"]]
    assert sorted(names) == ["n0", "n1", "n2", "n3"]
    for method, path in (("GET", ""), ("GET", "/ok-to-stop"),
                         ("DELETE", ""), ("POST", "/drain"),
                         ("DELETE", "/drain")):
        _, p = api.call(method, f"/api/v1/nodes/n9{path}", expect=404)
        assert p["code"] == "unknown-node"


def test_maintenance(weftd, api, disks):
    make_array(api, disks)
    tune = {"maintenance": True}
    n = api.call("PATCH", "/api/v1/nodes/n1", tune, expect=200)[1]
    assert n["maintenance"] and n["maintenance_since"]
    status = api.get("/api/v1/status")
    assert status["health"] == "ok" and "maintenance" in status["verdict"]
    assert next(n for n in status["nodes"]
                if n["name"] == "n1")["maintenance"]

    # The preflight of another node's loss counts this one as lost.
    left = api.get("/api/v1/nodes/n2/ok-to-stop")
    assert not left["ok"] and left["unavailable_bytes"] > 0
    assert any("maintenance" in line for line in left["lines"])
    _, p = api.call("PATCH", "/api/v1/nodes/n2", tune, expect=409)
    assert p["code"] == "unreachable"
    api.call("PATCH", "/api/v1/nodes/n2", {**tune, "force": True}, expect=200)
    api.call("PATCH", "/api/v1/nodes/n2", {"maintenance": False}, expect=200)
    api.call("PATCH", "/api/v1/nodes/n2", {}, expect=422)
    api.call("PATCH", "/api/v1/nodes/n2", {"maintenance": 1}, expect=422)

    # It is silent, as expected, but the array is degraded; and it outlives weftd.
    gone(api, disks[1])
    status = api.get("/api/v1/status")
    assert status["health"] == "warning" and "degraded" in status["verdict"]
    stop(disks)
    weftd.restart(kill=True)
    assert node(api, "n1")["maintenance"]
    n = api.call("PATCH", "/api/v1/nodes/n1", {"maintenance": False},
                 expect=200)[1]
    assert not n["maintenance"] and n["maintenance_since"] is None


def test_etag_of_a_node(api, disks):
    _, headers, _ = api.raw("GET", "/api/v1/nodes/n1")
    tag = headers["ETag"]
    api.call("PATCH", "/api/v1/nodes/n1", {"maintenance": True}, expect=200,
             headers={"If-Match": tag})
    _, p = api.call("DELETE", "/api/v1/nodes/n1", expect=412,
                    headers={"If-Match": tag})
    assert p["code"] == "changed"


def test_what_is_drained_gets_nothing(api, disks):
    _, job = api.call("POST", "/api/v1/nodes/n3/drain", expect=202)
    assert job["id"] == "drain-n3" and job["state"] == "done"
    assert node(api, "n3")["drained"]
    _, p = api.call("POST", "/api/v1/arrays",
                    {"name": "a", "layout": "raid-x",
                     "disks": [d.uuid for d in disks]}, expect=409)
    assert p["code"] == "draining"
    assert not api.call("DELETE", "/api/v1/nodes/n3/drain",
                        expect=200)[1]["draining"]
    assert api.get("/api/v1/jobs")["jobs"] == []
    make_array(api, disks)
    jobs = api.get("/api/v1/jobs")["jobs"]
    assert [(j["id"], j["state"]) for j in jobs] == [("create-a", "done")]
    assert api.get("/api/v1/jobs/create-a")["ended"]
    api.call("GET", "/api/v1/jobs/rebuild-a-0", expect=404)


def test_a_drain_that_waits_says_for_what(api, disks):
    make_array(api, disks)
    _, job = api.call("POST", "/api/v1/nodes/n1/drain", expect=202)
    assert job["state"] == "waiting" and "member 1 of array a" in job["waits"]
    assert job["total_bytes"] > 0 and job["done_bytes"] == 0
    n = node(api, "n1")
    assert n["draining"] and not n["drained"] and n["waits"] == job["waits"]
    assert n["waits"] in api.get("/api/v1/status")["verdict"]
    assert api.get("/api/v1/jobs/drain-n1") == job
    a = api.get("/api/v1/arrays/a")
    assert {m["state"] for m in a["members"]} == {"in-sync"}


def test_removal(weftd, api, disks):
    make_array(api, disks[:3])
    _, p = api.call("DELETE", "/api/v1/nodes/n1", expect=409)
    assert p["code"] == "in-use" and "member 1 of array a" in p["detail"]
    _, p = api.call("DELETE", "/api/v1/nodes/n3", expect=409)
    assert p["code"] == "alive"
    gone(api, disks[3])
    api.call("PATCH", "/api/v1/nodes/n3", {"maintenance": True}, expect=200)
    _, done = api.call("DELETE", "/api/v1/nodes/n3", expect=200)
    assert done == {"name": "n3", "deleted": True}
    api.call("GET", "/api/v1/nodes/n3", expect=404)
    api.call("GET", f"/api/v1/disks/{disks[3].uuid}", expect=404)
    stop(disks)
    weftd.restart(kill=True)
    api.call("GET", "/api/v1/nodes/n3", expect=404)


def test_eviction_says_who(api, disks):
    make_array(api, disks)
    _, grant = api.call("POST", "/api/v1/arrays/a/sessions", ATTACH,
                        expect=201)
    beat = f"/api/v1/sessions/{grant['session']}/heartbeat"
    hb = {"instance": "cafe", "epoch": grant["map"]["epoch"], "wait_ms": 0}
    api.call("POST", beat, hb, expect=200)
    _, p = api.call("DELETE", "/api/v1/nodes/n0", expect=409)
    assert p["code"] == "in-use"
    api.call("DELETE", f"/api/v1/sessions/{grant['session']}", expect=200)
    _, p = api.call("POST", beat, hb, expect=410)
    assert "evicted by somebody at 127.0.0.1" in p["detail"]

    # The host's own end is no eviction.
    _, grant = api.call("POST", "/api/v1/arrays/a/sessions", ATTACH,
                        expect=201)
    session = f"/api/v1/sessions/{grant['session']}"
    api.call("DELETE", f"{session}?instance=cafe", expect=200)
    _, p = api.call("POST", f"{session}/heartbeat", hb, expect=410)
    assert "detached" in p["detail"] and "evicted" not in p["detail"]


def test_an_eviction_has_a_name(tmp_path):
    """The host hears which administrator did it, or which token."""
    with Weftd(tmp_path, login=True) as w:
        admin = first_login(w, "kim")
        token = admin.call("POST", "/tokens", {"name": "night", "role": "admin"},
                           expect=201)[1]["token"]
        beats = Browser(w, token)
        disk = Disk(SimpleNamespace(call=lambda method, path, *words, **more: beats.call(
            method, path.removeprefix("/api/v1"), *words, **more)), "n1")
        disk.start()
        admin.call("POST", "/arrays", {"name": "a", "layout": "raid-0",
                                       "disks": [disk.uuid]}, expect=201)
        eventually(lambda: admin.call("GET", "/arrays/a")[1]["state"] == "ready")
        for who, by in ((admin, "administrator kim at 127.0.0.1"),
                        (Browser(w, token), "token night at 127.0.0.1")):
            grant = admin.call("POST", "/arrays/a/sessions",
                               {**ATTACH, "mode": "ro"}, expect=201)[1]
            session = f"/sessions/{grant['session']}"
            who.call("DELETE", session, expect=200)
            p = admin.call("POST", f"{session}/heartbeat",
                           {"instance": "cafe", "epoch": 1}, expect=410)[1]
            assert p["detail"].endswith(f"it was evicted by {by}"), p
        disk.stop()
