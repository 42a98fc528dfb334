"""docs/API/openapi.json, held against a running weftd.

Both ways: what weftd has must be in the file, and what the file says must be so.
A body that a schema allows must not be refused as malformed, and one that a
schema forbids must be refused with the name of the field.
"""

import copy
import http.client
import json
import re
import shutil
import signal
import subprocess
import threading
import urllib.parse
import uuid

import jsonschema
import pytest

from wefttest import SOURCE, eventually, run

FILE = SOURCE / "docs/API/openapi.json"
SPEC = json.loads(FILE.read_text())
VALIDATOR = jsonschema.Draft202012Validator
METHODS = ("get", "put", "post", "delete", "patch")


def operations():
    return [(path, method, op) for path, item in SPEC["paths"].items()
            for method, op in item.items() if method in METHODS]


def resolve(node):
    while "$ref" in node:
        assert node["$ref"].startswith("#/"), node
        target = SPEC
        for word in node["$ref"][2:].split("/"):
            target = target[word.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def errors(schema, value):
    """Why value does not fit the schema, as a list of sentences."""
    whole = VALIDATOR({**schema, "components": SPEC["components"]})
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message}"
            for e in whole.iter_errors(value)]


def schemas(node, at="#"):
    """Every schema in the file, with its place."""
    if isinstance(node, list):
        for i, v in enumerate(node):
            yield from schemas(v, f"{at}/{i}")
    elif isinstance(node, dict):
        if isinstance(node.get("type"), (str, list)) and "in" not in node:
            yield at, node
        for k, v in node.items():
            if k not in ("example", "examples", "enum", "const"):
                yield from schemas(v, f"{at}/{k}")


def request_schema(op):
    if "requestBody" not in op:
        return None
    content = resolve(op["requestBody"])["content"]
    assert list(content) == ["application/json"]
    return content["application/json"]["schema"]


class Api:
    """Calls weftd, and holds every answer against the file."""

    def __init__(self, admin):
        self.met = set()  # (path, method, status)
        self.address = urllib.parse.urlsplit(admin).netloc

    def operation(self, method, target):
        words = target.split("?")[0].split("/")
        for path, m, op in operations():
            names = path.split("/")
            if m == method.lower() and len(names) == len(words) and \
                    all(n == w or n.startswith("{")
                        for n, w in zip(names, words)):
                return path, op
        raise AssertionError(f"{method} {target} is not in {FILE.name}")

    def raw(self, method, target, body=None, headers=None):
        """Returns (status, headers, bytes)."""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = dict(headers or {})
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            if not isinstance(body, bytes):
                body = json.dumps(body).encode()
        connection.request(method, target, body, headers)
        with connection.getresponse() as reply:
            result = reply.status, reply.headers, reply.read()
        connection.close()
        return result

    def call(self, method, target, body=None, expect=None, headers=None):
        """Returns (status, decoded JSON or None)."""
        path, op = self.operation(method, target)
        status, reply_headers, text = self.raw(method, target, body, headers)
        where = f"{method} {target}: {status}: {text[:2000]!r}"
        assert str(status) in op["responses"], f"not foreseen: {where}"
        response = resolve(op["responses"][str(status)])
        content = response.get("content")
        if content is None:
            assert text == b"", where
            value = None
        else:
            kind = (reply_headers["Content-Type"] or "").split(";")[0]
            assert kind in content, f"{kind}: {where}"
            value = json.loads(text)
            wrong = errors(content[kind]["schema"], value)
            assert not wrong, f"{where}: {wrong}"
        if status >= 400:
            assert value["status"] == status, where
            assert re.match(r"\S.*\S$", value["detail"]), where
        self.met.add((path, method.lower(), status))
        if expect is not None:
            assert status == expect, where
        return status, value

    def get(self, target):
        return self.call("GET", target, expect=200)[1]


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
    """A field that nobody described can't slip in: every object says what it
    may hold, and every number and text how large it may be."""
    count = 0
    for at, schema in schemas(SPEC):
        VALIDATOR.check_schema(schema)
        kinds = schema["type"]
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "object" in kinds:
            assert "additionalProperties" in schema or \
                "unevaluatedProperties" in schema, at
            # Nothing is required that does not exist.
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
        for name in things:
            ref = f"#/components/{kind}/{name}"
            assert ref in used, f"{ref} is not used"


# ---- A weftd of our own, and disks that speak to it as members do ----


class Weftd:
    def __init__(self, directory):
        self.dir = directory
        self.start()

    def start(self):
        port_file = self.dir / "url"
        self.log = open(self.dir / "weftd.log", "ab")
        self.process = subprocess.Popen(
            ["weftd", "--state", self.dir / "state", "--listen", "127.0.0.1:0",
             "--port-file", port_file],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        eventually(lambda: port_file.exists()
                   or self.process.poll() is not None)
        assert self.process.poll() is None, \
            (self.dir / "weftd.log").read_text()
        self.url = port_file.read_text().strip()

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(30)
        self.log.close()
        (self.dir / "url").unlink(missing_ok=True)
        return status


@pytest.fixture
def weftd(tmp_path):
    w = Weftd(tmp_path)
    yield w
    assert w.end() == 0, (tmp_path / "weftd.log").read_text()


class Disk:
    """Speaks for a disk, as the member process does: says what is, and makes
    true what is wanted."""

    def __init__(self, api, node):
        self.api = api
        self.uuid = str(uuid.uuid4())
        self.going = threading.Event()
        self.error = None
        self.body = {
            "instance": uuid.uuid4().hex, "node": node,
            "uri": "nbd://127.0.0.1:10810", "path": f"/dev/{node}",
            "size": 65 << 20, "data_bytes": 64 << 20,
            "cluster": None, "array": None, "position": None,
            "min_epoch": 0, "sequence": 1, "generation": 0,
            "state": "serving", "reason": None, "dirty_extents": 0,
            "load": {"cpu": 0.25, "loadavg": 1.5, "mem_free": 1 << 30,
                     "disk_read_bytes": 1, "disk_write_bytes": 2,
                     "disk_reads": 3, "disk_writes": 4, "flushes": 5,
                     "net_rx_bytes": 6, "net_tx_bytes": 7},
            "wait_ms": 100}

    def beat(self):
        b = self.body
        _, wanted = self.api.call(
            "POST", f"/api/v1/disks/{self.uuid}/heartbeat", b, expect=200)
        b["load"]["disk_writes"] += 1000
        b["generation"] = wanted["generation"]
        b["cluster"] = wanted["cluster"]
        b["min_epoch"] = max(b["min_epoch"], wanted["min_epoch"])
        place = wanted["assignment"]
        if place:
            b["array"], b["position"] = place["array"], place["position"]
            b["states_epoch"] = place["epoch"]
        elif wanted.get("release") == b["array"]:
            b["array"] = b["position"] = None

    def run(self):
        try:
            while not self.going.wait(0.05):
                self.beat()
        except Exception as e:  # told by stop()
            self.error = e

    def start(self):
        self.beat()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def stop(self):
        self.going.set()
        self.thread.join()
        assert self.error is None, self.error


@pytest.fixture
def api(weftd):
    return Api(weftd.url)


@pytest.fixture
def disks(api):
    made = [Disk(api, f"n{i}") for i in range(4)]
    for d in made:
        d.start()
    yield made
    for d in made:
        if not d.going.is_set():
            d.stop()


def make_array(api, disks, **more):
    api.call("POST", "/api/v1/arrays",
             {"name": "a", "layout": "raid-x", "unit": 65536,
              "disks": [d.uuid for d in disks], **more}, expect=201)
    eventually(lambda: api.get("/api/v1/arrays/a")["state"] == "ready")


ATTACH = {"instance": "cafe", "node": "n0", "pid": 1234, "mode": "rw",
          "uri": "nbd://127.0.0.1:10809"}
NOBODY = "00000000-0000-4000-8000-000000000000"


def filled(path):
    """The path of something that is well-formed; of the arrays, a."""
    for what, value in (("uuid", NOBODY), ("name", "a"), ("member", "0"),
                        ("id", "0" * 16)):
        path = path.replace("{%s}" % what, value)
    return path


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
    plan = api.call("POST", "/api/v1/arrays", {**create, "dry_run": True},
                    expect=200)[1]
    assert plan["dry_run"] and plan["uuid"] is None
    assert api.get("/api/v1/arrays") == {"arrays": []}
    make_array(api, disks)
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
    refuse_and_rebuild(api, disks)

    # Detached.
    api.call("DELETE", session, expect=200)
    api.call("POST", session + "/heartbeat", beat, expect=410)
    api.call("POST", session + "/lost", {"member": 1}, expect=410)
    api.call("DELETE", "/api/v1/sessions/0123456789abcdef", expect=404)
    api.call("DELETE", "/api/v1/sessions/x", expect=400)
    api.call("DELETE", "/api/v1/arrays/a", expect=200)
    eventually(lambda: all(d["array"] is None and d["releasing"] is None
                           for d in api.get("/api/v1/disks")["disks"]))

    # Disks.
    api.get(f"/api/v1/disks/{uuids[0]}")
    api.call("GET", f"/api/v1/disks/{NOBODY}", expect=404)
    api.call("GET", "/api/v1/disks/x", expect=400)
    beat = f"/api/v1/disks/{uuids[0]}/heartbeat"
    api.call("POST", beat, {**disks[0].body, "cluster": NOBODY}, expect=409)
    api.call("POST", "/api/v1/disks/x/heartbeat", disks[0].body, expect=400)
    api.call("DELETE", f"/api/v1/disks/{uuids[0]}", expect=409)
    api.call("DELETE", f"/api/v1/disks/{NOBODY}", expect=404)
    api.call("DELETE", "/api/v1/disks/x", expect=400)
    disks[0].stop()
    eventually(lambda: not api.get(f"/api/v1/disks/{uuids[0]}")["alive"])
    api.call("DELETE", f"/api/v1/disks/{uuids[0]}", expect=200)

    for what in ("status", "nodes", "disks"):
        api.get(f"/api/v1/{what}")
    api.get("/api/v1/openapi.json")
    refuse_what_http_refuses(api)
    assert_all_met(api)


def refuse_and_rebuild(api, disks):
    """All that is asked about members of the array a, whose member 1 was
    lost."""
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


def refuse_what_http_refuses(api):
    """What is the same for every operation, tried on each."""
    for path, method, op in operations():
        target = filled(path)
        m, has_body = method.upper(), "requestBody" in op
        api.call(m, target, b"{}", headers={"Host": "weft.example"},
                 expect=403)
        api.call(m, target, b"{}", headers={"Origin": "http://weft.example"},
                 expect=403)
        api.call(m, target, b" " * ((1 << 20) + 1), expect=413)
        if has_body:
            api.call(m, target, b"{}", headers={"Content-Type": "text/plain"},
                     expect=415)
            for text in (b"", b"{", b"[]", b"{\"a\":1,\"a\":1}", b"\xff",
                         b"{} {}", b"{\"size\":" + b"9" * 30 + b"}"):
                api.call(m, target, text, expect=400)
            api.call(m, target, b"{}", expect=422)


def assert_all_met(api):
    """Every response in the file was met, but 503 (test_read_only), the stream
    (test_events), an import (test_import), and that the file itself is
    missing."""
    promised = {(path, method, int(status)) for path, method, op in operations()
                for status in op["responses"]}
    left = {(p, m, s) for p, m, s in promised - api.met
            if s != 503 and not (p.endswith("/events") and s == 200)
            and not (p.endswith("/openapi.json") and s == 404)
            and not (p.endswith("/imports") and s == 201)}
    assert not left, sorted(left)


def test_read_only(api, disks):
    """A member that has seen a later weftd than this one: nothing is changed
    any more, everything can still be read."""
    make_array(api, disks[:3])
    session = api.call("POST", "/api/v1/arrays/a/sessions", ATTACH,
                       expect=201)[1]["session"]
    for d in disks:
        d.stop()
    status = api.get("/api/v1/status")
    assert status["read_only"] is False
    changes = [
        ("POST", f"/api/v1/disks/{disks[0].uuid}/heartbeat",
         {**disks[0].body, "generation": status["generation"] + 1}),
        ("POST", "/api/v1/arrays", {"name": "b", "layout": "raid-0",
                                    "disks": [disks[3].uuid]}),
        ("POST", "/api/v1/arrays/a/sessions", {**ATTACH, "mode": "ro"}),
        ("POST", f"/api/v1/sessions/{session}/heartbeat",
         {"instance": "cafe", "epoch": 1}),
        ("POST", f"/api/v1/sessions/{session}/lost", {"member": 1}),
        ("DELETE", f"/api/v1/sessions/{session}", None),
        ("PATCH", "/api/v1/arrays/a", {"spare_after_s": 1}),
        ("PATCH", "/api/v1/arrays/a/members/1", {"paused": True}),
        ("POST", "/api/v1/arrays/a/members/1/replace",
         {"disk": disks[3].uuid}),
        ("POST", "/api/v1/arrays/a/members/1/cancel", None),
        ("POST", "/api/v1/arrays/a/members/1/join", None),
        ("POST", "/api/v1/arrays/a/spares", {"disk": disks[3].uuid}),
        ("DELETE", f"/api/v1/arrays/a/spares/{disks[3].uuid}", None),
        ("POST", "/api/v1/imports", {"name": "c", "array": NOBODY}),
        ("DELETE", "/api/v1/arrays/a", None),
        ("DELETE", f"/api/v1/disks/{disks[3].uuid}", None),
    ]
    for change in changes:
        assert api.call(*change, expect=503)[1]["code"] == "read-only"
    after = api.get("/api/v1/status")
    assert after["read_only"] is True and after["health"] == "error"
    assert [a["epoch"] for a in after["arrays"]] == \
        [a["epoch"] for a in status["arrays"]]
    assert [s["id"] for s in after["sessions"]] == [session]
    assert len(after["disks"]) == 4
    for path in ("arrays", "arrays/a", "disks", "sessions", "nodes",
                 "rebuilds", "imports"):
        api.get("/api/v1/" + path)
    # Nothing that changes anything was left out.
    assert len(changes) == sum(m != "get" for _, m, _ in operations())


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


# ---- Bad input ----


@pytest.mark.parametrize("text", [
    b"[" * 100000, b"[" * 1500 + b"]" * 1500,
    b'{"name":' * 2000 + b"1" + b"}" * 2000,
    b'{"name":' + b"[" * 2000 + b"]" * 2000 + b"}",
], ids=["open", "lists", "objects", "field"])
def test_nested_json(api, text):
    """A parser that recurses must not run out of its stack."""
    status, _ = api.call("POST", "/api/v1/arrays", text)
    assert status in (400, 422)
    api.get("/api/v1/status")


I63 = (1 << 63) - 1
VALUES = [None, True, False, 0, 1, -1, 2, 3.5, 1 << 31, 1 << 40, I63, -I63, "",
          "x", "-x", "X", "x y", "\u0001", "\x7f", "\u00e9", "a" * 63, "a" * 64,
          "a" * 65, "a" * 600, NOBODY, NOBODY.upper(), "nbd://h", "http://h",
          "nbd://" + "a" * 506, "nbd+unix://", "raid-x", "raid-10", "raid-5",
          "sync-client", "rw", "ro", "serving", "failed", [], [1], [NOBODY],
          [NOBODY] * 129, {}, {"x": 1}]

# (method, target, a body that is well-formed, but meets nothing there)
BODIES = [
    ("POST", f"/api/v1/disks/{NOBODY}/heartbeat",
     {"instance": "cafe", "node": "n7", "uri": "nbd://127.0.0.1:10810",
      "path": "/dev/sdb", "size": 1 << 30, "data_bytes": 1 << 29,
      "cluster": NOBODY, "array": NOBODY, "position": 1, "layout": "raid-x",
      "dup": "async-client", "n": 2, "groups": 2, "unit": 65536,
      "member_bytes": 1 << 20, "states": ["in-sync"] * 4, "min_epoch": 1,
      "join": {"epoch": 1, "phase": "copying", "todo_bytes": 1,
               "total_bytes": 1, "copied_bytes": 1, "unreadable_bytes": 1,
               "rate": 1, "waits": "a peer"},
      "sequence": 1, "generation": 1, "states_epoch": 1, "state": "serving",
      "reason": "none", "dirty_extents": 0,
      "load": {"cpu": 0.5, "loadavg": 1, "mem_free": 1, "disk_read_bytes": 1,
               "disk_write_bytes": 1, "disk_reads": 1, "disk_writes": 1,
               "flushes": 1, "net_rx_bytes": 1, "net_tx_bytes": 1},
      "wait_ms": 0}),
    ("POST", "/api/v1/arrays",
     {"name": "a", "layout": "raid-10", "unit": 65536, "groups": 1,
      "dup": "sync-client", "disks": [NOBODY], "dry_run": False}),
    ("PATCH", "/api/v1/arrays/none", {"spare_after_s": 60}),
    ("PATCH", "/api/v1/arrays/none/members/1",
     {"paused": True, "floor": 1, "ceiling": 2}),
    ("POST", "/api/v1/arrays/none/members/1/replace", {"disk": NOBODY}),
    ("POST", "/api/v1/arrays/none/spares", {"disk": NOBODY}),
    ("POST", "/api/v1/imports",
     {"name": "a", "array": NOBODY, "without": [1]}),
    ("POST", "/api/v1/arrays/none/sessions",
     {**ATTACH, "takeover": False}),
    ("POST", "/api/v1/sessions/0123456789abcdef/heartbeat",
     {"instance": "cafe", "epoch": 1, "uri": "nbd://127.0.0.1:10809",
      "prepared": 1, "stats": {name: 1 for name in SPEC["components"]["schemas"]
                ["SessionCounters"]["properties"]},
      "draining": False, "wait_ms": 0}),
    ("POST", "/api/v1/sessions/0123456789abcdef/lost",
     {"member": 1, "reason": "it does not answer"}),
]


def mutants(body):
    """(the field that is wrong, a body that differs in it)"""
    for name, value in body.items():
        less = copy.deepcopy(body)
        del less[name]
        yield name, less
        for v in VALUES:
            yield name, {**copy.deepcopy(body), name: v}
        if isinstance(value, dict):
            for field, mutant in mutants(value):
                yield field, {**copy.deepcopy(body), name: mutant}
    yield "weft", {**body, "weft": 1}


@pytest.mark.parametrize("method,target,body", BODIES,
                         ids=[b[1].split("/v1/")[1] for b in BODIES])
def test_bad_input(api, method, target, body):
    schema = request_schema(api.operation(method, target)[1])
    properties = resolve(schema)["properties"]
    assert set(body) == set(properties), "a field is not tried"
    assert not errors(schema, body)
    status, _ = api.call(method, target, body)
    assert status not in (400, 415, 422) or "disks" in body
    before = {k: v for k, v in api.get("/api/v1/status").items()
              if k in ("arrays", "sessions", "nodes")}
    allowed = forbidden = 0
    for field, mutant in mutants(body):
        wrong = errors(schema, mutant)
        status, reply = api.call(method, target, mutant)
        said = (field, mutant.get(field, "-"), status, reply, wrong)
        if wrong:
            assert status == 422, said
            assert reply["field"] == field, said
            assert field in reply["detail"] or field == "weft", said
            forbidden += 1
        else:
            # A reason beyond the form of the body has a code.
            assert status != 400, said
            assert status != 422 or "code" in reply, said
            allowed += 1
    assert forbidden > 10 and allowed > 0
    if "heartbeat" not in target or "sessions" in target:
        after = api.get("/api/v1/status")
        assert before == {k: after[k] for k in before}


# ---- Events ----


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
    weftd.end(signal.SIGKILL)
    weftd.start()
    api = Api(weftd.url)
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
    assert weftd.end() == 0
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
    weftd.end()
    shutil.rmtree(weftd.dir / "state")
    weftd.start()
    api = Api(weftd.url)
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
    """What real members and a real array process make weftd say."""
    c = cluster(members=4)
    api = Api(c.admin)
    for path, method, op in operations():
        if method == "get" and not path.endswith(("/events", "openapi.json")):
            disk = api.get("/api/v1/disks")["disks"][0]["uuid"]
            api.get(path.replace("{name}", "a").replace("{uuid}", disk))
    stream = Stream(api)
    stream.until("load", lambda load: load["sessions"]
                 and len(load["disks"]) == 4)
    c.kill("m1")
    stream.until("disk", lambda d: not d.get("alive"))
    stream.close()
    api.get("/api/v1/status")
