"""The conventions of the API (docs/API/README.md): parameters, pages, ETags,
idempotency keys, the log; against a real weftd.

Their place is weftd, so the disks are made of their heartbeats alone.
"""

import json
import random
import threading
import time
import uuid

import pytest

from apicaller import (ATTACH, Disk, NOBODY, api, disks, filled, make_array,
                       operations, restart, weftd)
from wefttest import at_once, eventually

V1 = "/api/v1"


def ask(api, method, path, body=None, **headers):
    """Returns (status, headers, JSON)."""
    status, answered, text = api.raw(
        method, V1 + path, body,
        {k.replace("_", "-"): v for k, v in headers.items()})
    return status, answered, json.loads(text)


def good(api, method, path, body=None, **headers):
    status, _, value = ask(api, method, path, body, **headers)
    assert status in (200, 201), value
    return value


# ---- Parameters. ----


def test_unknown_parameters(api):
    """Each operation refuses what it does not know, by name, and does nothing;
    a parameter of one operation is none of another."""
    for path, method, op in operations():
        target = filled(path)
        status, _, text = api.raw(method.upper(), target + "?weft=1", b"{}")
        problem = json.loads(text)
        assert (status, problem["field"]) == (400, "weft"), (path, problem)
    for target, field in (
            ("/disks?dry_run=true", "dry_run"), ("/status?limit=1", "limit"),
            ("/disks?limit=0", "limit"), ("/disks?limit=1001", "limit"),
            ("/disks?limit=", "limit"), ("/disks?limit=-1", "limit"),
            ("/disks?limit=1e2", "limit"), ("/disks?limit=%31%00", "limit"),
            ("/disks?limit=1&limit=2", "limit"), ("/disks?cursor=", "cursor"),
            ("/disks?cursor=" + "a" * 128, "cursor"),
            ("/disks?cursor=" + "a" * 5000, "cursor"),
            ("/disks?cursor=%ff", "cursor"), ("/disks?cursor=a%0ab", "cursor"),
            ("/disks?%6cimit=0", "limit"), ("/disks?=1", ""),
            ("/log?severity=fatal", "severity"),
            ("/history?from=now", "from"), ("/history?points=601", "points"),
            ("/history?from=18446744073709551616", "from"),
            ("/history?from=2&to=1", "from")):
        status, _, problem = ask(api, "GET", target)
        assert (status, problem.get("field", "")) == (400, field), \
            (target, problem)
    assert good(api, "GET", "/disks?") == good(api, "GET", "/disks?&&")


# ---- Pages. ----


@pytest.fixture
def many(api):
    """Disks that spoke once."""
    made = [Disk(api, f"n{i}") for i in range(23)]
    for d in made:
        good(api, "POST", f"/disks/{d.uuid}/heartbeat", d.body)
    return made


def pages(api, path, name, limit):
    got, cursor, count = [], "", 0
    while cursor is not None:
        page = good(api, "GET", f"{path}?limit={limit}{cursor}")
        assert len(page[name]) <= limit
        got += page[name]
        cursor = page["next"] and f"&cursor={page['next']}"
        count += 1
    return got, count


def test_pages(api, many):
    whole = good(api, "GET", "/disks")
    assert whole["next"] is None and len(whole["disks"]) == 23
    names = [d["uuid"] for d in whole["disks"]]
    assert names == sorted(d.uuid for d in many)
    for limit, count in ((1, 23), (7, 4), (23, 1), (24, 1), (1000, 1)):
        got, pages_count = pages(api, "/disks", "disks", limit)
        assert [d["uuid"] for d in got] == names
        assert pages_count == count
    got, _ = pages(api, "/nodes", "nodes", 5)
    assert len({n["name"] for n in got}) == len(got) == 23


def test_pages_while_disks_come_and_go(api, many, seed):
    """A disk that exists all the time is seen exactly once."""
    rng = random.Random(seed)
    seen, cursor = [], ""
    names = sorted(d.uuid for d in many)
    while cursor is not None:
        page = good(api, "GET", f"/disks?limit=3{cursor}")
        seen += [d["uuid"] for d in page["disks"]]
        cursor = page["next"] and f"&cursor={page['next']}"
        new = Disk(api, f"m{rng.randrange(1000)}")
        good(api, "POST", f"/disks/{new.uuid}/heartbeat", new.body)
    assert len(set(seen)) == len(seen)
    assert [s for s in seen if s in names] == names


# ---- ETags. ----


def etag(api, path):
    status, headers, _ = ask(api, "GET", path)
    assert status == 200
    return headers["ETag"]


def test_etags(api, disks):
    make_array(api, disks[:3])
    before = etag(api, "/arrays/a")
    # Not of what is measured.
    time.sleep(0.3)
    assert etag(api, "/arrays/a") == before
    _, headers, _ = ask(api, "PATCH", "/arrays/a", {"spare_after_s": 5})
    after = headers["ETag"]
    assert after != before and etag(api, "/arrays/a") == after

    status, _, problem = ask(api, "PATCH", "/arrays/a", {"spare_after_s": 7},
                             If_Match=before)
    assert (status, problem["code"]) == (412, "changed")
    status, _, problem = ask(api, "DELETE", "/arrays/a", If_Match=before)
    assert (status, problem["code"]) == (412, "changed")
    # Weak ones never match.
    assert ask(api, "DELETE", "/arrays/a", If_Match="W/" + after)[0] == 412
    assert good(api, "GET", "/arrays/a")["spare_after_s"] == 5
    for match in (after, f'"x", {after}', "*"):
        good(api, "PATCH", "/arrays/a", {"spare_after_s": 5}, If_Match=match)

    # A member's and a spare's change are changes of the array.
    for change in (("PATCH", "/arrays/a/members/1", {"ceiling": 1 << 20}),
                   ("POST", "/arrays/a/spares", {"disk": disks[3].uuid})):
        good(api, *change)
        assert etag(api, "/arrays/a") not in (before, after)
        after = etag(api, "/arrays/a")
    spare = f"/arrays/a/spares/{disks[3].uuid}"
    assert ask(api, "DELETE", spare, If_Match=before)[0] == 412
    good(api, "DELETE", spare, If_Match=after)

    # For a missing array, the answer is "not found".
    assert ask(api, "DELETE", "/arrays/b", If_Match=after)[0] == 404
    old = etag(api, f"/disks/{disks[3].uuid}")
    assert etag(api, f"/disks/{disks[0].uuid}") != old
    good(api, "POST", "/arrays/a/spares", {"disk": disks[3].uuid})
    assert etag(api, f"/disks/{disks[3].uuid}") != old
    assert ask(api, "DELETE", f"/disks/{disks[3].uuid}",
               If_Match=old)[0] == 412


def test_two_administrators(api, disks, seed):
    """Each adds one to a number that they read: nothing is lost."""
    make_array(api, disks)
    good(api, "PATCH", "/arrays/a", {"spare_after_s": 1000})
    rounds = 15

    def one(_):
        done = 0
        while done < rounds:
            _, headers, a = ask(api, "GET", "/arrays/a")
            status, _, said = ask(
                api, "PATCH", "/arrays/a",
                {"spare_after_s": a["spare_after_s"] + 1},
                If_Match=headers["ETag"])
            assert status in (200, 412), said
            done += status == 200

    at_once(one, *range(3))
    assert good(api, "GET", "/arrays/a")["spare_after_s"] == 1000 + 3 * rounds


# ---- Idempotency keys. ----


def test_the_same_answer_again(weftd, api, disks):
    body = {"name": "a", "layout": "raid-x", "disks": [d.uuid for d in disks]}
    status, headers, first = ask(api, "POST", "/arrays", body,
                                 Idempotency_Key="one")
    assert status == 201 and "Idempotent-Replay" not in headers

    def again():
        status, headers, value = ask(api, "POST", "/arrays", body,
                                     Idempotency_Key="one")
        assert (status, headers["Idempotent-Replay"]) == (201, "true")
        assert value == first

    again()
    assert ask(api, "POST", "/arrays", body)[0] == 409
    assert ask(api, "POST", "/arrays", body, Idempotency_Key="two")[0] == 409
    for change in ({"name": "b"}, {"unit": 65536}):
        status, _, problem = ask(api, "POST", "/arrays", {**body, **change},
                                 Idempotency_Key="one")
        assert (status, problem["code"]) == (422, "key-reused")
    path = "/arrays/a/members/1/join"
    assert ask(api, "POST", path, Idempotency_Key="one")[2]["code"] == \
        "key-reused"
    assert ask(api, "POST", "/arrays?dry_run=true", {**body, "name": "c"},
               Idempotency_Key="three")[2]["dry_run"]
    for kill in (False, True):
        restart(weftd, disks, kill=kill)
        again()
    # A refused request changed nothing: its key is free.
    status, _, _ = ask(api, "POST", "/arrays/a/spares", {"disk": NOBODY},
                       Idempotency_Key="four")
    assert status == 422
    spare = Disk(api, "n9")
    good(api, "POST", f"/disks/{spare.uuid}/heartbeat", spare.body)
    status, headers, _ = ask(api, "POST", "/arrays/a/spares",
                             {"disk": spare.uuid}, Idempotency_Key="four")
    assert status == 200 and "Idempotent-Replay" not in headers


@pytest.mark.parametrize("key", ["", "x" * 72, "\u00e9"])
def test_bad_keys(api, key):
    status, _, problem = ask(api, "POST", "/arrays", {},
                             Idempotency_Key=key.encode("latin-1"))
    assert (status, problem["field"]) == (400, "Idempotency-Key")


def test_keys_are_few(api, disks):
    """More than are kept: the oldest is forgotten, weftd goes on."""
    make_array(api, disks[:3])
    path, body = "/arrays/a/spares", {"disk": disks[3].uuid}
    for i in range(1003):
        status, headers, _ = ask(api, "POST", path, body,
                                 Idempotency_Key=f"k{i}")
        assert status == 200 and "Idempotent-Replay" not in headers
    assert "Idempotent-Replay" in ask(api, "POST", path, body,
                                      Idempotency_Key="k1002")[1]
    assert "Idempotent-Replay" not in ask(api, "POST", path, body,
                                          Idempotency_Key="k0")[1]


def test_done_once_whenever_weftd_dies(weftd, api, disks, seed):
    """weftd is killed at any moment of a POST; asked again with the same key,
    it must give the answer of the one time that it was done: never `exists`."""
    rng = random.Random(seed)
    uuids = [d.uuid for d in disks]
    replays = 0
    for i in range(12):
        body = {"name": f"a{i}", "layout": "raid-0", "disks": [uuids[i % 4]]}
        key = str(uuid.UUID(int=rng.getrandbits(128)))
        answers = []

        def post():
            try:
                answers.append(ask(api, "POST", "/arrays", body,
                                   Idempotency_Key=key))
            except (OSError, ValueError):
                pass  # it was killed
            except Exception as e:  # the answer was cut
                assert "Incomplete" in type(e).__name__ or \
                    "Disconnected" in type(e).__name__, e

        thread = threading.Thread(target=post)
        for d in disks:
            d.stop()
        thread.start()
        time.sleep(rng.random() * 0.03)
        restart(weftd, disks, kill=True, between=thread.join)
        status, headers, value = ask(api, "POST", "/arrays", body,
                                     Idempotency_Key=key)
        assert status == 201, (seed, i, value)
        replays += "Idempotent-Replay" in headers
        if answers:
            assert answers[0][2]["uuid"] == value["uuid"]
            assert "Idempotent-Replay" in headers
        [array] = [a for a in good(api, "GET", "/arrays")["arrays"]
                   if a["name"] == f"a{i}"]
        assert array["uuid"] == value["uuid"]
        good(api, "DELETE", f"/arrays/a{i}")
        eventually(lambda: not any(d["array"] or d["releasing"] for d in
                                   good(api, "GET", "/disks")["disks"]))
    print(f"{replays} of 12 were done before the kill")


# ---- The log. ----


def test_log(weftd, api, disks):
    make_array(api, disks)
    grant = good(api, "POST", "/arrays/a/sessions", ATTACH)
    good(api, "POST", f"/sessions/{grant['session']}/lost",
         {"member": 1, "reason": "it burns \u00c4"})
    whole = good(api, "GET", "/log?limit=1000")
    ids = [line["id"] for line in whole["log"]]
    assert whole["next"] is None and ids == sorted(ids, reverse=True)
    assert any("was created" in line["text"] for line in whole["log"])

    by_page, _ = pages(api, "/log", "log", 2)
    assert [line["id"] for line in by_page][-len(ids):] == ids

    only = good(api, "GET", "/log?severity=warning")["log"]
    assert only and all(x["severity"] != "info" for x in only)
    burns = good(api, "GET", "/log?text=IT%20BURNS%20%C3%84")["log"]
    assert burns and all("it burns" in x["text"] for x in burns)
    assert good(api, "GET", "/log?subject=array+a")["log"]
    assert good(api, "GET", "/log?subject=array+b")["log"] == []

    for d in disks:
        d.stop()
    before = good(api, "GET", "/log")["log"]
    weftd.restart(kill=True)
    after = good(api, "GET", "/log")["log"]
    assert after[-len(before):] == before
