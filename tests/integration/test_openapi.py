"""docs/API/openapi.json, held against a running weftd.

Both ways: the file describes everything in weftd, and everything in the file is true.
"""

import copy
import json
import re
import threading

from apicaller import (ATTACH, Api, Disk, NOBODY, SPEC, VALIDATOR, Weftd,
                       api, disks, errors, filled, make_array, operations,
                       request_schema, resolve, schemas, weftd)
from weftdactors import Lessee
from wefttest import eventually, run


# ---- The file by itself ----


def test_the_file_is_sound():
    assert SPEC["openapi"].startswith("3.1.")
    seen = set()
    for path, method, op in operations():
        where = f"{method} {path}"
        assert op["operationId"] not in seen, where
        seen.add(op["operationId"])
        assert op["summary"], where
        parameters = op.get("parameters", []) + \
            SPEC["paths"][path].get("parameters", [])
        named = {p["name"] for p in map(resolve, parameters)
                 if p["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), where
        for status, response in op["responses"].items():
            response = resolve(response)
            assert response["description"], where
            if int(status) >= 400:
                assert list(response["content"]) == \
                    ["application/problem+json"], where
        if "requestBody" in op:
            assert "400" in op["responses"], where
            assert resolve(op["requestBody"]).get("required") is True, where


def test_schemas_are_strict():
    """An undescribed field is found: every object lists its fields, and every number and text
    has a bound."""
    count = 0
    spec = copy.deepcopy(SPEC)
    del spec["components"]["securitySchemes"]
    for at, schema in schemas(spec):
        VALIDATOR.check_schema(schema)
        kinds = schema["type"]
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "object" in kinds:
            assert "additionalProperties" in schema or \
                "unevaluatedProperties" in schema, at
            # Only existing fields are required.
            assert set(schema.get("required", [])) <= \
                set(schema.get("properties", {})), at
        if "array" in kinds:
            assert "items" in schema, at
        count += 1
    assert count > 50


def test_references_lead_somewhere():
    used = set()

    def walk(node):
        if isinstance(node, list):
            for v in node:
                walk(v)
        elif isinstance(node, dict):
            if "$ref" in node:
                used.add(node["$ref"])
                resolve(node)
            for v in node.values():
                walk(v)
    walk(SPEC)
    for kind, things in SPEC["components"].items():
        for name in things if kind != "securitySchemes" else ():
            ref = f"#/components/{kind}/{name}"
            assert ref in used, f"{ref} is not used"


# ---- Every answer ----


def test_the_routes_are_the_same(weftd):
    table = {tuple(line.split())
             for line in run("weftd", "--list-routes").stdout.splitlines()}
    assert len(table) > 10
    assert table == {(m.upper(), p) for p, m, _ in operations()}


def test_it_serves_the_file(api):
    assert api.get("/api/v1/openapi.json") == SPEC


def test_every_answer(api, disks):
    """Walks through all that the file promises, and checks at the end that
    nothing of it was left out."""
    uuids = [d.uuid for d in disks]
    create = {"name": "a", "layout": "raid-x", "disks": uuids}

    # Arrays.
    flight = api.call("POST", "/api/v1/arrays?dry_run=true", create,
                      expect=200)[1]
    plan = flight["plan"]
    assert flight["dry_run"] and flight["allowed"] and plan["uuid"] is None
    assert api.get("/api/v1/arrays") == {"arrays": [], "next": None}
    assert plan["allow"] == [{"node": d.body["node"], "mode": "rw",
                              "failover": False} for d in disks]
    allow = [{"node": f"y{i}", "failover": True} for i in range(256)]
    for bad in (allow + allow[:1], allow[:1] * 2, {}, [{"node": "Y"}],
                [{"node": "y", "mode": "ro", "failover": True}]):
        assert api.call("POST", "/api/v1/arrays", {**create, "allow": bad},
                        expect=422)[1]["field"] == "allow"
    make_array(api, disks, allow=allow)
    nodes_that_may_attach(api)
    problem = api.call("POST", "/api/v1/arrays", create, expect=409)[1]
    assert problem["code"] == "exists" and problem["field"] == "name"
    problem = api.call("POST", "/api/v1/arrays", {**create, "name": "b"},
                       expect=409)[1]
    assert problem["code"] == "in-use"
    array = api.get("/api/v1/arrays/a")
    for key in ("layout", "n", "groups", "survives"):
        assert plan[key] == array[key], key
    assert (plan["unit"], array["unit"]) == (262144, 65536)
    api.call("GET", "/api/v1/arrays/b", expect=404)
    api.call("GET", "/api/v1/arrays/B", expect=400)
    api.call("DELETE", "/api/v1/arrays/b", expect=404)
    api.call("DELETE", "/api/v1/arrays/-", expect=400)

    # Sessions.
    attach = "/api/v1/arrays/a/sessions"
    grant = api.call("POST", attach, ATTACH, expect=201)[1]
    session = f"/api/v1/sessions/{grant['session']}"
    assert [m["disk"] for m in grant["map"]["members"]] == uuids
    problem = api.call("POST", attach, {**ATTACH, "instance": "beef"},
                       expect=409)[1]
    assert problem["code"] == "held"
    assert problem["holder"]["session"] == grant["session"]
    assert problem["holder"]["pid"] == 1234
    refuse_parts(api, attach, array)
    api.call("POST", session + "/leases", {"instance": "cafe"}, expect=409)
    api.call("POST", "/api/v1/sessions/1/leases", {"instance": "cafe"},
             expect=400)
    api.call("POST", "/api/v1/arrays/b/sessions", ATTACH, expect=404)
    api.call("POST", "/api/v1/arrays/b.c/sessions", ATTACH, expect=400)
    reader = api.call("POST", attach, {**ATTACH, "instance": "feed",
                                       "mode": "ro"}, expect=201)[1]
    beat = {"instance": "cafe", "epoch": grant["map"]["epoch"], "wait_ms": 0,
            "stats": {"reads": 1, "writes": 2}}
    api.call("POST", session + "/heartbeat", beat, expect=200)
    api.call("POST", session + "/heartbeat", {**beat, "instance": "beef"},
             expect=409)
    api.call("POST", "/api/v1/sessions/1/heartbeat", beat, expect=400)
    api.call("DELETE", "/api/v1/arrays/a", expect=409)
    assert len(api.get("/api/v1/sessions")["sessions"]) == 2

    # A service; `a` is held by another until then.
    service = "/api/v1/arrays/a/service"
    candidate = {**ATTACH, "instance": "5e71", "mode": "service"}
    assert api.get(service)["nodes"] == []
    api.call("GET", "/api/v1/arrays/b/service", expect=404)
    api.call("GET", "/api/v1/arrays/B/service", expect=400)
    assert api.call("DELETE", service, expect=409)[1]["code"] == "no-service"
    assert api.call("POST", attach, candidate, expect=409)[1]["code"] == \
        "no-service"
    for bad in ({}, {"nodes": []}, {"nodes": ["N"]}, {"nodes": ["x", "x"]},
                {"nodes": [f"n{i}" for i in range(17)]}, {"nodes": "n1"}):
        assert api.call("PUT", service, bad, expect=422)[1]["field"] == "nodes"
    api.call("PUT", service, b"{", expect=400)
    api.call("PUT", "/api/v1/arrays/b/service", {"nodes": ["n1"]}, expect=404)
    api.call("PUT", service, {"nodes": ["n1"]}, expect=412,
             headers={"If-Match": '"other"'})
    array = api.call("PUT", service, {"nodes": ["x1", ATTACH["node"]]},
                     expect=200)[1]
    assert array["service"] == api.get(service)
    assert array["service"]["serving"] is None
    assert [n["node"] for n in array["service"]["nodes"]] == \
        ["x1", ATTACH["node"]]
    problem = api.call("POST", attach, {**ATTACH, "instance": "beef"},
                       expect=409)[1]
    assert problem["code"] == "served"
    problem = api.call("POST", attach, {**candidate, "node": "x2"},
                       expect=409)[1]
    assert problem["code"] == "no-candidate"
    problem = api.call("POST", attach, candidate, expect=409)[1]
    assert problem["code"] == "standby"
    assert problem["holder"]["session"] == grant["session"]
    assert [n["stands_by"] for n in api.get(service)["nodes"]] == [False, True]
    move = service + "/move"
    api.call("POST", move, {"node": ATTACH["node"]}, expect=200)
    for node, status in (("x1", 409), ("x2", 409), ("-", 422)):
        api.call("POST", move, {"node": node}, expect=status)
    assert api.get(service + "?attach=rw") == api.get(service)
    api.call("GET", service + "?attach=yes", expect=400)
    for word in "reached", "unreached":
        api.call("GET", f"{service}?{word}=1", expect=400)
        api.get(f"{service}?attach=rw&node=n1&{word}=0123456789abcdef")
    api.call("POST", move, b"{", expect=400)
    api.call("POST", "/api/v1/arrays/b/service/move", {"node": "x1"},
             expect=404)
    flight = api.call("DELETE", service + "?dry_run=true", expect=200)[1]
    assert flight["allowed"] and flight["confirm"] == "a"
    api.call("DELETE", "/api/v1/arrays/b/service", expect=404)
    api.call("DELETE", service, expect=412, headers={"If-Match": '"other"'})
    assert api.call("DELETE", service, expect=200)[1]["service"] is None

    # A member is lost.
    api.call("POST", "/api/v1/sessions/1/lost", {"member": 1}, expect=400)
    problem = api.call("POST", session + "/lost", {"member": 4},
                       expect=422)[1]
    assert problem["field"] == "member"
    problem = api.call(
        "POST", f"/api/v1/sessions/{reader['session']}/lost", {"member": 1},
        expect=409)[1]
    assert problem["code"] == "in-use"
    api.call("DELETE", f"/api/v1/sessions/{reader['session']}", expect=200)
    state = api.call("POST", session + "/lost",
                     {"member": 1, "reason": "it burns"}, expect=200)[1]
    assert state["states"] == ["in-sync", "out", "in-sync", "in-sync"]
    assert state["map"]["members"][1]["state"] == "out"
    array = api.get("/api/v1/arrays/a")
    assert array["state"] == "degraded" and array["exposed_bytes"] > 0
    nodes_and_jobs(api)
    refuse_and_rebuild(api, disks)

    # Detached.
    api.call("DELETE", session, expect=200)
    api.call("POST", session + "/heartbeat", beat, expect=410)
    api.call("POST", session + "/lost", {"member": 1}, expect=410)
    api.call("POST", session + "/leases", {"instance": "cafe"}, expect=410)
    share_by_leases(api)
    api.call("DELETE", "/api/v1/sessions/0123456789abcdef", expect=404)
    api.call("DELETE", "/api/v1/sessions/x", expect=400)
    fence_beside_a_server(api, attach, candidate)
    api.call("DELETE", "/api/v1/arrays/a", expect=200)
    eventually(lambda: all(d["array"] is None and d["releasing"] is None
                           for d in api.get("/api/v1/disks")["disks"]))
    volumes_of_a_pool(api, disks)

    # Disks.
    api.get(f"/api/v1/disks/{uuids[0]}")
    api.call("GET", f"/api/v1/disks/{NOBODY}", expect=404)
    api.call("GET", "/api/v1/disks/x", expect=400)
    beat = f"/api/v1/disks/{uuids[0]}/heartbeat"
    api.call("POST", f"/api/v1/disks/{NOBODY}/heartbeat",
             {**disks[0].body, "cluster": NOBODY}, expect=409)
    api.call("POST", "/api/v1/disks/x/heartbeat", disks[0].body, expect=400)
    api.call("DELETE", f"/api/v1/disks/{uuids[0]}", expect=409)
    api.call("DELETE", f"/api/v1/disks/{NOBODY}", expect=404)
    api.call("DELETE", "/api/v1/disks/x", expect=400)
    this, there = f"/api/v1/disks/{uuids[0]}", {"node": "n1"}
    api.call("PATCH", f"/api/v1/disks/{NOBODY}", there, expect=404)
    api.call("PATCH", this, there, expect=409)
    api.call("PATCH", this, there, expect=412, headers={"If-Match": '"x"'})
    api.call("POST", f"{this}/key", expect=200)
    api.call("POST", f"/api/v1/disks/{NOBODY}/key", expect=404)
    api.call("POST", "/api/v1/disks/x/key", expect=400)
    disks[0].stop()
    eventually(lambda: not api.get(f"/api/v1/disks/{uuids[0]}")["alive"])
    assert api.call("PATCH", this, there, expect=200)[1]["moves_to"] == "n1"
    api.call("DELETE", f"/api/v1/disks/{uuids[0]}", expect=200)

    disks[2].stop()
    eventually(lambda: not api.get(f"/api/v1/disks/{uuids[2]}")["alive"])
    api.call("DELETE", "/api/v1/nodes/n2", expect=200)

    for what in ("status", "nodes", "disks", "log", "history",
                 "openapi.json"):
        api.get(f"/api/v1/{what}")
    api.get("/metrics")
    api.call("GET", "/api/v1/history?subject=array:none", expect=404)
    layouts = api.call("POST", "/api/v1/layouts", {"disks": uuids[1:2]},
                       expect=200)[1]["layouts"]
    assert [x["layout"] for x in layouts if not x["problem"]] == ["raid-0"]
    refuse_what_http_refuses(api)
    assert_all_met(api)


def volumes_of_a_pool(api, disks):
    """Every call about the volumes of array a, which is a pool now; and its process's calls."""
    volumes, attach = "/api/v1/arrays/a/volumes", "/api/v1/arrays/a/sessions"
    size = 4 << 20
    for more in ({"segment_bytes": 1 << 20}, {"pool": True, "segment_bytes": 5}):
        assert api.call("POST", "/api/v1/arrays",
                        {"name": "a", "layout": "raid-x", **more,
                         "disks": [d.uuid for d in disks]},
                        expect=422)[1]["field"] == "segment_bytes"
    make_array(api, disks, pool=True, segment_bytes=1 << 18)
    pool = api.get("/api/v1/arrays/a")["pool"]
    assert pool["state"] == "blank" and pool["volumes"] == 0
    assert pool["free_bytes"] == pool["total_bytes"] > size

    # Created; refused.
    assert api.get(volumes) == {"volumes": [], "next": None}
    new = {"name": "v", "size": size}
    flight = api.call("POST", f"{volumes}?dry_run=true", new, expect=200)[1]
    assert flight["allowed"] and flight["confirm"] == "a/v"
    v = api.call("POST", volumes, new, expect=201)[1]
    assert v["state"] == "new" and v["granted_bytes"] == 0
    assert api.get(volumes)["volumes"] == [v] == [api.get(f"{volumes}/v")]
    assert api.call("POST", volumes, new, expect=409)[1]["code"] == "exists"
    for bad in (0, 511, 513, (64 << 40) + 512, pool["total_bytes"] + 512):
        problem = api.call("POST", volumes, {**new, "name": "w", "size": bad},
                           expect=422)[1]
        assert problem["field"] == "size", bad
    for bad in ("v/w", "v@w", "V", "", "v" * 64):
        assert api.call("POST", volumes, {**new, "name": bad},
                        expect=422)[1]["field"] == "name"
    api.call("GET", f"{volumes}/w", expect=404)
    api.call("GET", f"{volumes}/v@w", expect=400)
    for method, body in (("PATCH", {"size": size}), ("DELETE", None)):
        api.call(method, f"{volumes}/w", body, expect=404)
        api.call(method, f"{volumes}/v@w", body, expect=400)
        api.call(method, f"{volumes}/v", body, expect=412,
                 headers={"If-Match": '"x"'})
    for bad in ("b", "B"):
        status = 404 if bad == "b" else 400
        for method, body in (("GET", None), ("POST", new)):
            api.call(method, f"/api/v1/arrays/{bad}/volumes", body,
                     expect=status)

    # A process attaches the pool.
    assert api.call("POST", attach, ATTACH, expect=422)[1]["field"] == "pools"
    can = {**ATTACH, "pools": True}
    for mode in ("ro", "shared", "service"):
        assert api.call("POST", attach, {**can, "mode": mode},
                        expect=422)[1]["field"] == "mode"
    grant = api.call("POST", attach, can, expect=201)[1]
    assert grant["pool"] == {
        "uuid": api.get("/api/v1/arrays/a")["uuid"], "segment_bytes": 1 << 18,
        "segments": grant["pool"]["segments"], "roots": pool["volumes_max"],
        "formatted": False, "scan": False, "volumes": 0}
    session = f"/api/v1/sessions/{grant['session']}"
    me = {"instance": "cafe"}
    exports = api.get(f"{session}/volumes?instance=cafe")["volumes"]
    assert exports == [{"uuid": v["uuid"], "name": "v", "size": size}]
    api.call("GET", "/api/v1/sessions/1/volumes", expect=400)
    api.call("GET", "/api/v1/sessions/0123456789abcdef/volumes", expect=410)
    opened = api.call("POST", f"{session}/volumes/v", me, expect=200)[1]
    assert opened["volume"] == {"uuid": v["uuid"], "name": "v", "root": 0,
                                "size": size, "new": True}
    [[first, count]] = opened["runs"]
    assert count == 16
    api.call("POST", f"{session}/volumes/w", me, expect=404)
    api.call("POST", f"{session}/volumes/w@", me, expect=400)
    api.call("POST", f"{session}/volumes/v", {"instance": ""}, expect=422)
    api.call("POST", f"{session}/volumes/v", {"instance": "beef"}, expect=409)

    # It says what it has, and asks for more.
    said = {"made": True, "size": size, "mapped": 3, "log": 1, "spare": 12,
            "blocks": 5, "clients": 1, "waiting": 0, "why": None}
    words = {**me, "number": 1, "formatted": True, "volumes": [
        {"volume": v["uuid"], "want": 8, "log": 1, "near": first + 32,
         "give": [[first, 2]], "said": said},
        {"volume": NOBODY, "want": 8}]}
    answer = api.call("POST", f"{session}/volumes", words, expect=200)[1]
    assert answer["number"] == 1
    [granted] = answer["volumes"]
    assert granted["volume"] == v["uuid"]
    assert sum(n for _, n in granted["granted"]) == 8
    assert api.call("POST", f"{session}/volumes", words,
                    expect=200)[1] == answer
    now = api.get(f"{volumes}/v")
    assert (now["state"], now["mapped_bytes"], now["clients"],
            now["present_bytes"], now["granted_bytes"]) == \
        ("ready", 3 << 18, 1, 5 << 12, 22 << 18)
    pool = api.get("/api/v1/arrays/a")["pool"]
    assert (pool["state"], pool["granted_bytes"], pool["log_bytes"]) == \
        ("ready", 22 << 18, 1 << 18)
    metrics = api.call("GET", "/metrics", expect=200)[1]
    for line in (f'weft_pool_bytes{{array="a",state="data"}} {3 << 18}',
                 f'weft_pool_bytes{{array="a",state="untold"}} {6 << 18}',
                 f'weft_pool_bytes{{array="a",state="free"}} {pool["free_bytes"]}',
                 f'weft_volume_bytes{{array="a",volume="v",state="size"}} {size}'):
        assert line in metrics
    for bad, field in (({"number": "x"}, "number"),
                       ({"volumes": [{"want": 1}]}, "volumes"),
                       ({"volumes": [{"volume": v["uuid"], "give": [[first]]}]},
                        "volumes"),
                       ({"volumes": [{"volume": v["uuid"], "give": [[0, 1]]}]},
                        "give"),
                       ({"volumes": [{"volume": v["uuid"]}] * 2}, "volumes"),
                       ({"volumes": [{"volume": v["uuid"], "said":
                                      {**said, "size": 3}}]}, "said"),
                       ({"volumes": [{"volume": NOBODY}] * 65}, "volumes"),
                       ({"done": [{"order": 0}]}, "done")):
        assert api.call("POST", f"{session}/volumes",
                        {**me, "number": 2, **bad},
                        expect=422)[1]["field"] == field, bad
    api.call("POST", f"{session}/volumes", {**me, "number": 0}, expect=409)
    api.call("POST", "/api/v1/sessions/1/volumes", me, expect=400)
    api.call("POST", "/api/v1/sessions/1/volumes/v", me, expect=400)

    # A scan, of which nobody has need: it changes nothing.
    scan = f"{session}/scan"
    answer = api.call("POST", scan, {**me, "begin": True, "end": True},
                      expect=200)[1]
    assert answer["pool"]["scan"] is False and answer["pool"]["volumes"] == 1
    assert api.get(f"{volumes}/v") == now
    api.call("POST", scan, {**me, "instance": "beef"}, expect=409)
    api.call("POST", "/api/v1/sessions/1/scan", me, expect=400)
    for bad, field in (({"volumes": [{}]}, "volumes"),
                       ({"volumes": [{"root": 1, "runs": [[1]]}]}, "volumes"),
                       ({"begin": 3}, "begin"),
                       ({"segment_bytes": 5}, "segment_bytes")):
        assert api.call("POST", scan, {**me, **bad},
                        expect=422)[1]["field"] == field, bad

    # Orders: a change is answered when the process has carried it out.
    assert api.call("DELETE", f"{volumes}/v", expect=409)[1]["code"] == "in-use"
    assert api.call("PATCH", f"{volumes}/v", {"size": 512},
                    expect=422)[1]["field"] == "size"
    beat = {**me, "epoch": grant["map"]["epoch"], "wait_ms": 0, "volumes": 1}
    number = 1

    def carried_out(method, body, **done):
        nonlocal number
        answers = []
        caller = threading.Thread(
            target=lambda: answers.append(
                api.call(method, f"{volumes}/v", body, expect=None)))
        caller.start()
        order = eventually(lambda: api.call(
            "POST", f"{session}/heartbeat", beat, expect=200)[1].get("volumes"))[0]
        assert order["volume"]["uuid"] == v["uuid"]
        number += 1
        api.call("POST", f"{session}/volumes",
                 {**me, "number": number, "volumes": [
                     {"volume": v["uuid"], "said": {**said, "clients": 0,
                                                    "size": order.get("size", size)}}],
                  "done": [{"order": order["order"], **done}]}, expect=200)
        caller.join()
        return order, answers[0]

    order, (status, v) = carried_out("PATCH", {"size": size + 512})
    assert (order["do"], status, v["size"]) == ("resize", 200, size + 512)
    size += 512
    order, (status, problem) = carried_out("PATCH", {"size": size + 512},
                                           error="no luck")
    assert (status, problem["code"]) == (409, "not-done")
    order, (status, problem) = carried_out("DELETE", None, error="in use")
    assert (order["do"], status, problem["code"]) == ("delete", 409, "in-use")
    order, (status, gone) = carried_out("DELETE", None)
    assert (status, gone["deleted"]) == (200, True)
    pool = api.get("/api/v1/arrays/a")["pool"]
    assert pool["volumes"] == 0 and pool["free_bytes"] == pool["total_bytes"]

    api.call("DELETE", session + "?instance=cafe", expect=200)
    for path, body in (("/volumes", {**me, "number": 9}), ("/volumes/v", me),
                       ("/scan", me)):
        api.call("POST", session + path, body, expect=410)
    api.call("DELETE", "/api/v1/arrays/a", expect=200)
    eventually(lambda: all(d["array"] is None and d["releasing"] is None
                           for d in api.get("/api/v1/disks")["disks"]))

    # A plain array has none of it.
    make_array(api, disks)
    session = api.call("POST", attach, can, expect=201)[1]["session"]
    session = f"/api/v1/sessions/{session}"
    assert api.get("/api/v1/arrays/a")["pool"] is None
    for method, path, body in (
            ("GET", volumes, None), ("POST", volumes, new),
            ("GET", f"{volumes}/v", None), ("DELETE", f"{volumes}/v", None),
            ("PATCH", f"{volumes}/v", {"size": size}),
            ("GET", f"{session}/volumes", None),
            ("POST", f"{session}/volumes", {**me, "number": 1}),
            ("POST", f"{session}/volumes/v", me),
            ("POST", f"{session}/scan", me)):
        assert api.call(method, path, body,
                        expect=409)[1]["code"] == "not-pool"
    api.call("DELETE", session + "?instance=cafe", expect=200)
    api.call("DELETE", "/api/v1/arrays/a", expect=200)
    eventually(lambda: all(d["array"] is None and d["releasing"] is None
                           for d in api.get("/api/v1/disks")["disks"]))


def nodes_that_may_attach(api):
    """Every call about array a's list, which is full.  The caller is an administrator, and no
    list binds administrators."""
    allow, service = "/api/v1/arrays/a/allow", "/api/v1/arrays/a/service"
    for path, body in ((f"{allow}/x1", {"mode": "rw"}),
                       (service, {"nodes": ["x1"]})):
        assert api.call("PUT", path, body, expect=409)[1]["code"] == "too-many"
    for i in range(4, 8):
        was = api.call("DELETE", f"{allow}/y{i}", expect=200)[1]["allow"]
    assert len(was) == 252
    line = {"node": "x1", "mode": "ro", "failover": False}
    flight = api.call("PUT", f"{allow}/x1?dry_run=true", {"mode": "ro"},
                      expect=200)[1]
    assert flight["allowed"] and flight["confirm"] == "a"
    assert flight["lines"] == ["weftd has not heard of a node x1 yet."]
    for _ in range(2):
        array = api.call("PUT", f"{allow}/x1", {"mode": "ro"}, expect=200)[1]
        assert array["allow"] == [*was, line]
    for bad, field in (({}, "mode"), ({"mode": "wo"}, "mode"),
                       ({"mode": "ro", "failover": True}, "failover"),
                       ({"mode": "rw", "failover": "yes"}, "failover"),
                       ({"mode": "rw", "node": "x1"}, "node")):
        assert api.call("PUT", f"{allow}/x1", bad,
                        expect=422)[1]["field"] == field
    changed = {"If-Match": '"other"'}
    for method, body in (("PUT", {"mode": "rw"}), ("DELETE", None)):
        api.call(method, "/api/v1/arrays/b/allow/x1", body, expect=404)
        api.call(method, "/api/v1/arrays/a/allow/X", body, expect=400)
        api.call(method, f"{allow}/x1", body, expect=412, headers=changed)
    api.call("PUT", f"{allow}/x1", b"{", expect=400)
    assert api.call("DELETE", f"{allow}/x1?dry_run=true",
                    expect=200)[1]["lines"] == []
    for _ in range(2):
        array = api.call("DELETE", f"{allow}/x1", expect=200)[1]
        assert array["allow"] == was


def refuse_parts(api, attach, array):
    """Parts that make no sense; and one of an array that is held whole."""
    size, unit = array["size"], array["unit"]
    for field, mode, part in (
            ("part", "rw", {"offset": 0, "length": unit}),
            ("part", "ro", {"offset": 0, "length": unit}),
            ("part", "service", {"offset": 0}),
            ("part", "shared", [0, unit]),
            ("part.offset", "shared", {}),
            ("part", "shared", {"offset": 1, "length": unit}),
            ("part", "shared", {"offset": 1}),
            ("part", "shared", {"offset": size, "length": unit}),
            ("part.offset", "shared", {"offset": size}),
            ("part.offset", "shared", {"offset": 1 << 62}),
            ("part.offset", "shared", {"offset": -unit, "length": unit}),
            ("part.length", "shared", {"offset": 0, "length": 0}),
            ("part", "shared", {"offset": 0, "length": unit - 1}),
            ("part", "shared", {"offset": unit, "length": size}),
            ("part", "shared", {"offset": 0, "length": (1 << 63) - 1})):
        problem = api.call("POST", attach,
                           {**ATTACH, "instance": "beef", "mode": mode,
                            "part": part, "pinned": True}, expect=422)[1]
        assert problem["field"] == field, (mode, part, problem)
    for part in ({"offset": 0, "length": unit}, {"offset": unit},
                 {"offset": 0, "length": size}):
        problem = api.call("POST", attach,
                           {**ATTACH, "instance": "beef", "mode": "shared",
                            "part": part, "pinned": True}, expect=409)[1]
        assert problem["code"] == "held"
    # A process of an older Weft.
    problem = api.call("POST", attach,
                       {**ATTACH, "instance": "beef", "mode": "shared",
                        "part": {"offset": 0, "length": unit}}, expect=422)[1]
    assert problem["field"] == "pinned"
    assert len(api.get("/api/v1/sessions")["sessions"]) == 1


class Caller:
    """All answers to the played hosts' calls are checked, too."""

    def __init__(self, api):
        self.api = api

    def call(self, method, path, body=None):
        return self.api.call(method, "/api/v1" + path, body)


def share_by_leases(api):
    """Two sessions: granted, waiting, recalled and orphaned ranges."""
    leases = "/api/v1/arrays/a/leases"
    assert api.get(leases)["cells"] == []
    api.call("GET", "/api/v1/arrays/b/leases", expect=404)
    api.call("GET", "/api/v1/arrays/B/leases", expect=400)
    first, second = (Lessee(Caller(api), n).start_attached() for n in ("x1", "x2"))
    assert first.order > 0 and second.order == 0
    first.recovered()
    waiting = threading.Thread(target=second.ask, args=[[0, 512], [0, 4096]])
    waiting.start()
    eventually(lambda: first.revoke)
    assert api.get(leases)["waiting"] == 1
    first.tell(give=[[0, 4096]])
    waiting.join()
    assert second.ask([4096, 512], wait_ms=0)[1]["code"] == "leases-wait"
    shown = api.get(leases)
    assert shown["leases"] == 2 and len(shown["sessions"]) == 2
    second.stop()
    api.call("DELETE", f"/api/v1/sessions/{second.session}", expect=200)
    eventually(lambda: first.recover)
    assert first.detach()[0] == 200


def fence_beside_a_server(api, attach, candidate):
    """A fence waits for the session that serves an array, and is cancelled meanwhile."""
    fence = "/api/v1/nodes/n2/fence"
    api.call("PUT", "/api/v1/arrays/a/service", {"nodes": [ATTACH["node"]]},
             expect=200)
    grant = api.call("POST", attach, candidate, expect=201)[1]
    assert [n["node"] for n in grant["fenced"]] == ["n2"]
    problems = []
    waiting = threading.Thread(target=lambda: problems.append(
        api.call("POST", fence, expect=409)[1]))
    waiting.start()
    eventually(lambda: api.get("/api/v1/nodes/n2")["fenced"])
    api.call("DELETE", fence, expect=200)
    waiting.join()
    assert problems[0]["code"] == "not-fenced"
    api.call("DELETE", f"/api/v1/sessions/{grant['session']}", expect=200)


def nodes_and_jobs(api):
    """Every call about nodes and jobs, while member 1 of the array a, which is on node n1, is
    not in-sync."""
    tune = {"maintenance": True}
    for method, path, body in (("GET", "", None), ("PATCH", "", tune),
                               ("DELETE", "", None),
                               ("GET", "/ok-to-stop", None),
                               ("POST", "/drain", None),
                               ("DELETE", "/drain", None)):
        api.call(method, f"/api/v1/nodes/n9{path}", body, expect=404)
        api.call(method, f"/api/v1/nodes/N9{path}", body, expect=400)
    api.get("/api/v1/nodes/n1")
    api.get("/api/v1/nodes/n1/ok-to-stop")
    api.call("PATCH", "/api/v1/nodes/n2", tune, expect=409)
    api.call("DELETE", "/api/v1/nodes/n2", expect=409)
    changed = {"If-Match": '"0123456789abcdef"'}
    api.call("PATCH", "/api/v1/nodes/n2", tune, expect=412, headers=changed)
    api.call("DELETE", "/api/v1/nodes/n2", expect=412, headers=changed)
    api.call("PATCH", "/api/v1/nodes/n2", {"maintenance": False}, expect=200)
    fence = "/api/v1/nodes/n2/fence"
    flight = api.call("POST", f"{fence}?dry_run=true", expect=200)[1]
    assert flight["allowed"] and flight["confirm"] == "n2"
    assert api.call("POST", fence, expect=200)[1]["fenced"]
    assert not api.call("DELETE", fence, expect=200)[1]["fenced"]
    for method in ("POST", "DELETE"):
        api.call(method, "/api/v1/nodes/n99/fence", expect=404)
        api.call(method, "/api/v1/nodes/N/fence", expect=400)
    drain = "/api/v1/nodes/n2/drain"
    api.call("POST", drain, expect=412, headers=changed)
    api.call("DELETE", drain, expect=412, headers=changed)
    once = {"Idempotency-Key": "the drain of n2"}
    api.call("POST", f"{drain}?dry_run=true", expect=200)
    assert api.call("POST", drain, expect=202, headers=once)[1] == \
        api.call("POST", drain, expect=202, headers=once)[1]
    api.call("POST", "/api/v1/nodes/n3/drain", expect=422, headers=once)
    assert api.get("/api/v1/jobs/drain-n2")["kind"] == "drain"
    api.call("DELETE", drain, expect=200)
    assert "create-a" in [j["id"] for j in api.get("/api/v1/jobs")["jobs"]]
    api.call("GET", "/api/v1/jobs/drain-n2", expect=404)
    api.call("GET", "/api/v1/jobs/N", expect=400)
    api.get("/api/v1/arrays/a/losing?member=2")
    api.call("GET", "/api/v1/arrays/a/losing?member=4", expect=400)
    api.call("GET", "/api/v1/arrays/b/losing?member=0", expect=404)
    assert api.get("/api/v1/arrays/a/bad-ranges?limit=1") == {
        "bad_ranges": [], "next": None}
    api.call("GET", "/api/v1/arrays/b/bad-ranges", expect=404)
    accept = "/api/v1/arrays/a/accept-loss"
    loss = {"ranges": [{"offset": 0, "length": 4096}]}
    for query in "", "?dry_run=true":
        status, answer = api.call("POST", accept + query, loss,
                                  expect=200 if query else 409)
        assert "bad-ranges a" in answer["why" if query else "detail"]
    api.call("POST", "/api/v1/arrays/b/accept-loss", loss, expect=404)
    for bad in ({}, {"ranges": []}, {"ranges": [1]},
                {"ranges": [{"offset": 0, "length": 512}]},
                {"ranges": [{"offset": 512, "length": 4096}]},
                {"ranges": [{"offset": 0}]}, loss | {"all": True}):
        api.call("POST", accept, bad, expect=422)


def refuse_and_rebuild(api, disks):
    """Every call about members of the array a, whose member 1 was lost."""
    spare = Disk(api, "n4")
    spare.start()
    disks.append(spare)
    this, well = ("/api/v1/arrays/a/members/" + m for m in "10")
    eventually(lambda: api.get("/api/v1/arrays/a")["members"][1]["rebuild"])
    [rebuild] = api.get("/api/v1/rebuilds")["rebuilds"]
    assert (rebuild["array"], rebuild["member"]) == ("a", 1)
    for verb in ("cancel", "join", "replace"):
        body = {"disk": spare.uuid} if verb == "replace" else None
        assert api.call("POST", f"{well}/{verb}", body, expect=409)[1][
            "code"] == "in-sync"
        api.call("POST", f"/api/v1/arrays/b/members/1/{verb}", body, expect=404)
        api.call("POST", f"/api/v1/arrays/a/members/x/{verb}", body, expect=400)
    api.call("PATCH", this, {"floor": 1}, expect=200)
    assert api.call("PATCH", well, {"paused": True}, expect=409)[1][
        "code"] == "in-sync"
    changed = {"If-Match": '"0123456789abcdef"'}
    for method, path, body in (
            ("PATCH", "/api/v1/arrays/a", {"spare_after_s": 1}),
            ("DELETE", "/api/v1/arrays/a", None), ("PATCH", this, {"floor": 2}),
            ("DELETE", f"/api/v1/arrays/a/spares/{spare.uuid}", None),
            ("DELETE", f"/api/v1/disks/{spare.uuid}", None),
            ("POST", this + "/replace", {"disk": spare.uuid}),
            ("POST", this + "/cancel", None), ("POST", this + "/join", None)):
        assert api.call(method, path, body, expect=412,
                        headers=changed)[1]["code"] == "changed"
    api.call("PATCH", "/api/v1/arrays/a/members/4", {"floor": 1}, expect=404)
    api.call("PATCH", "/api/v1/arrays/a/members/x", {"floor": 1}, expect=400)
    api.call("PATCH", "/api/v1/arrays/a", {"spare_after_s": 1000}, expect=200)
    api.call("PATCH", "/api/v1/arrays/b", {"spare_after_s": 1000}, expect=404)
    for path in ("/api/v1/arrays/a/spares", this + "/replace"):
        problem = api.call("POST", path, {"disk": disks[0].uuid},
                           expect=409)[1]
        assert (problem["code"], problem["field"]) == ("in-use", "disk")
        api.call("POST", path, {"disk": NOBODY}, expect=422)
    spares = "/api/v1/arrays/a/spares"
    api.call("POST", "/api/v1/arrays/b/spares", {"disk": NOBODY}, expect=404)
    api.call("DELETE", f"{spares}/{spare.uuid}", expect=404)
    api.call("DELETE", spares + "/x", expect=400)
    for _ in range(2):
        array = api.call("POST", spares, {"disk": spare.uuid}, expect=200)[1]
        assert array["spares"] == [spare.uuid]
    api.call("DELETE", f"{spares}/{spare.uuid}", expect=200)
    eventually(lambda: api.call("POST", this + "/cancel")[0] == 200)
    api.call("POST", this + "/join", expect=200)
    eventually(lambda: api.call("POST", this + "/replace",
                                {"disk": spare.uuid})[0] == 200)
    api.get("/api/v1/imports")
    api.call("POST", "/api/v1/imports", {"name": "c", "array": NOBODY},
             expect=404)
    stranger = Disk(api, "n9")
    stranger.body.update(cluster=NOBODY, array=NOBODY, position=0,
                         layout="raid-0", dup="sync-client", n=1, groups=1,
                         unit=65536, member_bytes=64 << 20,
                         states=["in-sync"], states_epoch=1)
    api.call("POST", f"/api/v1/disks/{stranger.uuid}/heartbeat", stranger.body,
             expect=409)
    assert api.get("/api/v1/imports")["imports"][0]["array"] == NOBODY
    problem = api.call("POST", "/api/v1/imports",
                       {"name": "c", "array": NOBODY}, expect=409)[1]
    assert problem["code"] == "not-empty"
    flight = api.call("POST", "/api/v1/imports?dry_run=true",
                      {"name": "c", "array": NOBODY, "accept_loss": True},
                      expect=200)[1]
    assert not flight["allowed"] and flight["code"] == "not-empty"


def refuse_what_http_refuses(api):
    """The answers that are the same for every operation, tried on each."""
    for path, method, op in operations():
        target = filled(path)
        m, has_body = method.upper(), "requestBody" in op
        api.call(m, target, b"{}", headers={"Host": "weft.example"},
                 expect=403)
        api.call(m, target, b"{}", headers={"Origin": "http://weft.example"},
                 expect=403)
        most = 4 << 20 if path.endswith(("/leases", "/scan")) and has_body else 1 << 20
        api.call(m, target, b" " * (most + 1), expect=413)
        api.call(m, target + "?weft=1", b"{}", expect=400)
        if m != "GET" and "IfMatch" not in str(op.get("parameters")):
            problem = api.call(m, target, b"{}", expect=400,
                               headers={"If-Match": '"x"'})[1]
            assert problem["field"] == "If-Match", problem
        if "IdempotencyKey" in str(op.get("parameters")):
            problem = api.call(m, target, b"{}" if has_body else None,
                               headers={"Idempotency-Key": "the drain of n2"})
            assert problem[0] in (400, 422), problem
        if has_body:
            api.call(m, target, b"{}", headers={"Content-Type": "text/plain"},
                     expect=415)
            for text in (b"", b"{", b"[]", b"{\"a\":1,\"a\":1}", b"\xff",
                         b"{} {}", b"{\"size\":" + b"9" * 30 + b"}"):
                api.call(m, target, text, expect=400)
            if "security" not in op["tags"] or \
                    resolve(request_schema(op)).get("required"):
                api.call(m, target, b"{}", expect=422)


def assert_all_met(api):
    """Every response in the file was met, but 503 (test_read_only), 401
    (test_login_is_required), 429 (test_floods.py), the stream (test_events), an import (test_import),
    and that the file itself is missing."""
    promised = {(path, method, int(status)) for path, method, op in operations()
                for status in op["responses"] if "security" not in op["tags"]}
    left = {(p, m, s) for p, m, s in promised - api.met
            if s not in (401, 429, 503) and not (p.endswith("/events") and s == 200)
            and not (p.endswith("/openapi.json") and s == 404)
            and not (p.endswith("/imports") and s == 201)
            # Only where hundreds have attached an array of an older weftd.
            and not (p.endswith("/allow/{node}") and (m, s) == ("delete", 409))
            # Only while the first with the same Idempotency-Key is under way.
            and not (p.endswith("/drain") and s == 409)}
    assert not left, sorted(left)


def test_read_only(api, disks, weftd):
    """Members of two nodes that have seen a later weftd than this one: nothing is
    changed any more, everything can still be read."""
    make_array(api, disks[:3])
    session = api.call("POST", "/api/v1/arrays/a/sessions", ATTACH,
                       expect=201)[1]["session"]
    for d in disks:
        d.stop()
    weftd.restart()
    status = api.get("/api/v1/status")
    newer = {"generation": status["generation"] + 1}
    assert api.call("POST", f"/api/v1/disks/{disks[1].uuid}/heartbeat",
                    {**disks[1].body, **newer},
                    expect=503)[1]["code"] == "doubted"
    status = api.get("/api/v1/status")
    assert status["read_only"] is False
    changes = [
        ("POST", f"/api/v1/disks/{disks[0].uuid}/heartbeat",
         {**disks[0].body, **newer}),
        ("POST", "/api/v1/arrays", {"name": "b", "layout": "raid-0",
                                    "disks": [disks[3].uuid]}),
        ("POST", "/api/v1/arrays/a/sessions", {**ATTACH, "mode": "ro"}),
        ("POST", f"/api/v1/sessions/{session}/heartbeat",
         {"instance": "cafe", "epoch": 1}),
        ("POST", f"/api/v1/sessions/{session}/lost", {"member": 1}),
        ("POST", f"/api/v1/sessions/{session}/leases", {"instance": "cafe"}),
        ("POST", f"/api/v1/sessions/{session}/volumes",
         {"instance": "cafe", "number": 1}),
        ("POST", f"/api/v1/sessions/{session}/volumes/v", {"instance": "cafe"}),
        ("POST", f"/api/v1/sessions/{session}/scan", {"instance": "cafe"}),
        ("POST", "/api/v1/arrays/a/volumes", {"name": "v", "size": 1 << 20}),
        ("PATCH", "/api/v1/arrays/a/volumes/v", {"size": 1 << 20}),
        ("DELETE", "/api/v1/arrays/a/volumes/v", None),
        ("DELETE", f"/api/v1/sessions/{session}", None),
        ("PATCH", "/api/v1/arrays/a", {"spare_after_s": 1}),
        ("POST", "/api/v1/arrays/a/accept-loss",
         {"ranges": [{"offset": 0, "length": 4096}]}),
        ("PATCH", "/api/v1/arrays/a/members/1", {"paused": True}),
        ("POST", "/api/v1/arrays/a/members/1/replace",
         {"disk": disks[3].uuid}),
        ("POST", "/api/v1/arrays/a/members/1/cancel", None),
        ("POST", "/api/v1/arrays/a/members/1/join", None),
        ("POST", "/api/v1/arrays/a/spares", {"disk": disks[3].uuid}),
        ("DELETE", f"/api/v1/arrays/a/spares/{disks[3].uuid}", None),
        ("PUT", "/api/v1/arrays/a/allow/n1", {"mode": "ro"}),
        ("DELETE", "/api/v1/arrays/a/allow/n1", None),
        ("PUT", "/api/v1/arrays/a/service", {"nodes": ["n1"]}),
        ("DELETE", "/api/v1/arrays/a/service", None),
        ("POST", "/api/v1/arrays/a/service/move", {"node": "n1"}),
        ("POST", "/api/v1/imports", {"name": "c", "array": NOBODY}),
        ("DELETE", "/api/v1/arrays/a", None),
        ("DELETE", f"/api/v1/disks/{disks[3].uuid}", None),
        ("PATCH", f"/api/v1/disks/{disks[3].uuid}", {"node": "n2"}),
        ("POST", f"/api/v1/disks/{disks[3].uuid}/key", None),
        ("PATCH", "/api/v1/nodes/n3", {"maintenance": True}),
        ("POST", "/api/v1/nodes/n3/drain", None),
        ("DELETE", "/api/v1/nodes/n3/drain", None),
        ("POST", "/api/v1/nodes/n3/fence", None),
        ("DELETE", "/api/v1/nodes/n3/fence", None),
        ("DELETE", "/api/v1/nodes/n3", None),
    ]
    for change in changes:
        assert api.call(*change, expect=503)[1]["code"] == "read-only"
    after = api.get("/api/v1/status")
    assert after["read_only"] is True and after["health"] == "error"
    assert [a["epoch"] for a in after["arrays"]] == \
        [a["epoch"] for a in status["arrays"]]
    assert [s["id"] for s in after["sessions"]] == [session]
    assert len(after["disks"]) == 4
    for path in ("arrays", "arrays/a", "arrays/a/leases", "disks", "sessions", "nodes",
                 "rebuilds", "imports"):
        api.get("/api/v1/" + path)
    # Nothing that changes anything was left out.
    assert len(changes) == sum(
        m != "get" and "security" not in op["tags"]
        and not p.endswith("/layouts") for p, m, op in operations())


def test_login_is_required(tmp_path):
    """Every operation that promises 401 gives it to a caller without a login, before it checks
    anything else."""
    with Weftd(tmp_path, login=True) as w:
        api = Api(w.url)
        for path, method, op in operations():
            if op.get("security") != []:
                problem = api.call(method.upper(), filled(path), b"{}",
                                   expect=401)[1]
                assert problem["code"] == "login-required", path


def test_other_methods_and_paths(api):
    have = {}
    for path, method, _ in operations():
        have.setdefault(path, set()).add(method.upper())
    for path, methods in have.items():
        target = filled(path)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            if method in methods:
                continue
            status, headers, text = api.raw(method, target)
            assert status == 405, (method, target, status)
            assert set(headers["Allow"].split(", ")) == methods
            assert not errors({"$ref": "#/components/schemas/Problem"},
                              json.loads(text))
            assert "Access-Control-Allow-Origin" not in headers
    for target in ("/api/v1", "/api/v1/", "/api/v2/status", "/api/v1/arrays/",
                   "/api/v1/arrays/a/b", "/api/v1/status/x"):
        status, headers, text = api.raw("GET", target)
        assert status == 404, target
        assert not errors({"$ref": "#/components/schemas/Problem"},
                          json.loads(text))
    status, headers, text = api.raw("HEAD", "/api/v1/status")
    assert status == 200 and text == b""
    assert int(headers["Content-Length"]) > 0
