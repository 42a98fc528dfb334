"""Bad input of every kind, held against docs/API/openapi.json.

A body that a schema allows must not be refused as malformed.  A body that a schema forbids
must be refused with the name of the field, and change nothing.
"""

import copy

import pytest

from apicaller import (ATTACH, NOBODY, SPEC, api, errors, request_schema,
                       resolve, weftd)


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
      "path": "/dev/sdb", "cache": "none", "size": 1 << 30,
      "data_bytes": 1 << 29,
      "cluster": NOBODY, "array": NOBODY, "position": 1, "layout": "raid-x",
      "dup": "async-client", "n": 2, "groups": 2, "unit": 65536,
      "member_bytes": 1 << 20, "states": ["in-sync"] * 4, "min_epoch": 1,
      "join": {"epoch": 1, "phase": "copying", "todo_bytes": 1,
               "total_bytes": 1, "copied_bytes": 1, "unreadable_bytes": 1,
               "rate": 1, "waits": "a peer"},
      "bad": {"sequence": 1, "ranges": [[1, 2, 1]]},
      "sequence": 1, "round": 1, "generation": 1, "states_epoch": 1,
      "state": "serving",
      "reason": "none", "gone": False, "dirty_extents": 0, "disk_stuck_ms": 0,
      "short": "room", "room": {"free": 1, "size": 2, "wanted": 1},
      "load": {"cpu": 0.5, "loadavg": 1, "mem_free": 1, "disk_read_bytes": 1,
               "disk_write_bytes": 1, "disk_reads": 1, "disk_writes": 1,
               "flushes": 1, "net_rx_bytes": 1, "net_tx_bytes": 1},
      "wait_ms": 0, "news": True, "report": 1, "over": 1}),
    ("POST", "/api/v1/arrays",
     {"name": "a", "layout": "raid-10", "unit": 65536, "groups": 1,
      "dup": "sync-client", "disks": [NOBODY], "force": True, "pool": True,
      "segment_bytes": 1 << 20,
      "allow": [{"node": "n1", "mode": "rw", "failover": True}]}),
    ("PATCH", f"/api/v1/disks/{NOBODY}", {"node": "n1"}),
    ("PATCH", "/api/v1/arrays/none", {"spare_after_s": 60, "slow_out_s": 30}),
    ("PATCH", "/api/v1/arrays/none/members/1",
     {"paused": True, "floor": 1, "ceiling": 2}),
    ("POST", "/api/v1/arrays/none/members/1/replace",
     {"disk": NOBODY, "force": True}),
    ("POST", "/api/v1/arrays/none/spares", {"disk": NOBODY}),
    ("POST", "/api/v1/imports",
     {"name": "a", "array": NOBODY, "without": [1], "accept_loss": True}),
    ("POST", "/api/v1/arrays/none/sessions",
     {**ATTACH, "mode": "shared", "part": {"offset": 0, "length": 65536}, "pinned": True,
      "takeover": False, "exports": True, "ended": "0123456789abcdef",
      "pools": True, "scans": True}),
    ("POST", "/api/v1/sessions/0123456789abcdef/heartbeat",
     {"instance": "cafe", "process": "none", "epoch": 1,
      "uri": "nbd://127.0.0.1:10809",
      "arrived": 1, "prepared": 1, "round": 1, "round_entered": 1,
      "stats": {**{name: {"sum_us": 1, "counts": [1, 2]}
                   if name.endswith("_latency") else 1
                   for name in SPEC["components"]["schemas"]
                   ["SessionCounters"]["properties"]},
                "members": [{"service_us": 1, "suspect": False}]},
      "draining": False, "wait_ms": 0, "news": True, "fences": 1,
      "older": False, "equal": False, "order": 1, "volumes": 1}),
    ("POST", "/api/v1/arrays/none/volumes", {"name": "v", "size": 512}),
    ("PATCH", "/api/v1/arrays/none/volumes/v", {"size": 512}),
    ("POST", "/api/v1/sessions/0123456789abcdef/volumes/v", {"instance": "cafe"}),
    ("POST", "/api/v1/sessions/0123456789abcdef/leases",
     {"instance": "cafe", "number": 1, "give": [[0, 512]],
      "declare": [[512, 512]], "recovered": 1,
      "ask": [{"must": [0, 512], "wish": [0, 1024]}],
      "ended": "fedcba9876543210", "wait_ms": 0}),
    ("POST", "/api/v1/sessions/0123456789abcdef/lost",
     {"member": 1, "round": 1, "reason": "it does not answer", "answers": False,
     "waited_ms": 100}),
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


def with_fractions(value):
    """The same, with 1.0 in the place of 1: JSON knows no difference."""
    if isinstance(value, dict):
        return {name: with_fractions(v) for name, v in value.items()}
    if isinstance(value, list):
        return [with_fractions(v) for v in value]
    return float(value) if type(value) is int else value


@pytest.mark.long(20)
@pytest.mark.parametrize("method,target,body", BODIES,
                         ids=[b[1].split("/v1/")[1] for b in BODIES])
def test_bad_input(api, method, target, body):
    schema = request_schema(api.operation(method, target)[1])
    properties = resolve(schema)["properties"]
    assert set(body) == set(properties), "a field is not tried"
    assert not errors(schema, body)
    status, _ = api.call(method, target, body)
    assert status not in (400, 415, 422) or "disks" in body
    again, reply = api.call(method, target, with_fractions(body))
    assert again == status, reply
    before = {k: v for k, v in api.get("/api/v1/status").items()
              if k in ("arrays", "sessions", "nodes")}
    allowed = forbidden = 0
    for field, mutant in mutants(body):
        wrong = errors(schema, mutant)
        status, reply = api.call(method, target, mutant)
        said = (field, mutant.get(field, "-"), status, reply, wrong)
        if wrong:
            assert status == 422, said
            assert field in reply["field"].split("."), said
            assert field in reply["detail"] or field == "weft", said
            forbidden += 1
        else:
            # A reason beyond the form of the body has a code.
            assert status != 400, said
            assert status != 422 or "code" in reply or \
                "field segment_bytes belongs to a pool" in reply["detail"], said
            allowed += 1
    assert forbidden > 10 and allowed > 0
    if "heartbeat" not in target or "sessions" in target:
        after = api.get("/api/v1/status")
        assert before == {k: after[k] for k in before}
