"""A weftd, and calls of it that hold every answer against docs/API/openapi.json.

    from apicaller import *

The fixtures: `weftd`, a running one (of weftdactors.py); `api`, which calls it;
`disks`, four that speak to it as members do.
"""

import http.client
import json
import re
import threading
import urllib.parse
import uuid

import jsonschema
import pytest

from weftdactors import Weftd, weftd
from wefttest import SOURCE, eventually

__all__ = ["ATTACH", "Api", "Disk", "FILE", "METHODS", "NOBODY", "SPEC",
           "VALIDATOR", "Weftd", "api", "disks", "errors", "filled", "make_array",
           "operations", "request_schema", "resolve", "restart", "schemas",
           "stop", "weftd"]

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
        try:
            connection.request(method, target, body, headers)
        except BrokenPipeError:
            pass  # refused before all of it was read
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
            value = json.loads(text) if kind.endswith("json") else \
                text.decode()
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


# ---- Disks that speak to a weftd as members do ----


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
        self.obey(self.api.call(
            "POST", f"/api/v1/disks/{self.uuid}/heartbeat", self.body,
            expect=200)[1])
        self.body["load"]["disk_writes"] += 1000

    def obey(self, wanted):
        b = self.body
        b["generation"] = wanted["generation"]
        b["cluster"] = wanted["cluster"]
        b["min_epoch"] = max(b["min_epoch"], wanted["min_epoch"])
        for number, _, _ in wanted.get("over", []):
            b["over"] = number
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
        self.going.clear()
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
    stop(made)


def stop(disks):
    for d in disks:
        if not d.going.is_set():
            d.stop()


def restart(weftd, disks, **how):
    """While none of them speaks; then all do again."""
    stop(disks)
    weftd.restart(**how)
    for d in disks:
        d.start()


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
                        ("id", "0" * 16), ("job", "create-a"), ("node", "n1"),
                        ("volume", "v")):
        path = path.replace("{%s}" % what, value)
    return path
