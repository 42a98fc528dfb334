"""?dry_run=true: an action does what its preflight says, and a preflight changes nothing."""

from apicaller import *
from wefttest import eventually


def fly(api, method, target, body=None):
    return api.call(method, f"{target}?dry_run=true", body, expect=200)[1]


def state(api):
    """All stored and observed state, except values that change by themselves."""
    s = api.get("/api/v1/status")
    return s["verdict"], [(a["name"], a["epoch"], a["spares"],
                           [(m["disk"], m["state"], m["held"])
                            for m in a["members"]]) for a in s["arrays"]], \
        sorted(n["name"] + str(n["maintenance"]) + str(n["draining"])
               for n in s["nodes"]), sorted(d["uuid"] for d in s["disks"]), \
        [s["id"] for s in s["sessions"]]


def test_nothing_is_changed_and_all_is_foreseen(api, disks):
    make_array(api, disks[:3])
    _, grant = api.call("POST", "/api/v1/arrays/a/sessions", ATTACH,
                        expect=201)
    session = f"/api/v1/sessions/{grant['session']}"
    member = "/api/v1/arrays/a/members/1"
    create = {"name": "b", "layout": "raid-0", "disks": [disks[3].uuid]}
    before = state(api)
    # In an order in which none makes room for the next.
    actions = [
        ("POST", "/api/v1/arrays", {**create, "name": "a"}, "exists"),
        ("POST", "/api/v1/arrays", {**create, "disks": [disks[0].uuid]},
         "in-use"),
        ("POST", f"{member}/replace", {"disk": disks[0].uuid}, "in-use"),
        ("POST", f"{member}/cancel", None, "in-sync"),
        ("DELETE", "/api/v1/arrays/a", None, "held"),
        ("DELETE", "/api/v1/nodes/n1", None, "in-use"),
        ("DELETE", f"/api/v1/disks/{disks[3].uuid}", None, "alive"),
        ("POST", "/api/v1/nodes/n9/drain", None, "unknown-node"),
        ("POST", "/api/v1/nodes/n1/drain", None, None),
        ("PATCH", "/api/v1/nodes/n1", {"maintenance": True}, None),
        ("POST", "/api/v1/arrays", create, None),
        ("DELETE", session, None, None),
    ]
    said = [fly(api, method, path, body) for method, path, body, _ in actions]
    assert state(api) == before
    for (method, path, body, code), f in zip(actions, said):
        assert (f["allowed"], f["code"]) == (code is None, code), (path, f)
        assert f["lines"] or not f["allowed"], path
        if code:
            status, p = api.call(method, path, body)
            assert status >= 400
            assert (p["code"], p["detail"]) == (code, f["why"])
    assert state(api) == before
    drain, maintain, plan, evict = said[-4:]
    size = api.get("/api/v1/arrays/a")["member_bytes"]
    assert drain["rebuild_bytes"] == size and drain["exposed_bytes"] > 0
    assert drain["confirm"] == "n1" and maintain["confirm"] == "n1"
    assert plan["plan"]["name"] == "b" and plan["plan"]["size"] > 0
    assert evict["confirm"] == "a"
    for method, path, body, code in reversed(actions):
        if code is None:
            status, _ = api.call(method, path, body)
            assert status in (200, 201, 202), path


def test_what_a_deletion_loses(api, disks):
    make_array(api, disks)
    f = fly(api, "DELETE", "/api/v1/arrays/a")
    assert f["allowed"]
    assert f["lost_bytes"] == api.get("/api/v1/arrays/a")["size"]
    assert "for good" in f["lines"][0] and f["confirm"] == "a"
    api.call("DELETE", "/api/v1/arrays/a", expect=200)


def test_losing(api, disks):
    make_array(api, disks)
    one = api.get("/api/v1/arrays/a/losing?member=1")
    assert one["unreachable_bytes"] == 0 and one["exposed_bytes"] > 0
    assert api.get("/api/v1/arrays/a/losing?node=n1") == one
    two = api.get("/api/v1/arrays/a/losing?member=1&node=n2")
    assert two["unreachable_bytes"] > 0 and two["lines"]
    none = api.get("/api/v1/arrays/a/losing?node=n9")
    assert none == {"lines": [], "unreachable_bytes": 0, "exposed_bytes": 0}
    for query in ("", "?member=4", "?member=x", "?node=N", "?dry_run=true"):
        api.call("GET", f"/api/v1/arrays/a/losing{query}", expect=400)
    api.call("GET", "/api/v1/arrays/b/losing?member=0", expect=404)


def test_it_is_refused_where_it_means_nothing(api, disks):
    _, p = api.call("POST", "/api/v1/arrays/a/members/0/join?dry_run=true",
                    expect=400)
    assert p["field"] == "dry_run"
    eventually(lambda: api.get("/api/v1/status"))
