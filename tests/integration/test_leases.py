"""Several sessions share an array by leases: which sessions are admitted, and which ranges are
granted, recalled and recovered.  weftd alone, with played members and hosts.

Pass: No two sessions ever have the same byte.  A wanted range is recalled by the answer to a
heartbeat, and granted when it is given back.  Nothing is granted before all sessions have
declared their ranges.  Each refusal names the thing, the reason and the way out, and changes
nothing.
"""

import concurrent.futures
import json
import sqlite3
import time
from contextlib import closing

import pytest

from weftdactors import Events, Host, LONG_MS, Lessee, array, members, weftd
from wefttest import Stopwatch, eventually, http, run

UNIT = 262144
WRITERS_MAX = 32


@pytest.fixture
def lessees(weftd):
    """Makes a session that is admitted and sends heartbeats until the test is over; the first
    one has recovered everything."""
    made = []

    def make(node):
        s = Lessee(weftd, node)
        made.append(s.start_attached())
        if s.order:
            s.recovered()
        return s
    yield make
    for s in made:
        s.running = False
    for s in made:
        s.thread.join()


@pytest.fixture
def later():
    """Calls that wait, beside the test."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        yield pool.submit


def size(weftd):
    return weftd.get("/arrays/a")["size"]


def shown(weftd):
    return weftd.get("/arrays/a/leases")


def holders(weftd):
    """The nodes that have most of a cell."""
    return {c["node"] for c in shown(weftd)["cells"]} - {None}


def granted(answer):
    status, r = answer
    assert status == 200, r
    return r["granted"]


def ask_patiently(session, must):
    while True:
        status, r = session.ask(must)
        if status == 200:
            return r["granted"]
        assert r["code"] == "leases-wait", r


def refused(weftd, host, code, status=409, **more):
    """The session is refused, and nothing has changed by that."""
    before = weftd.get("/sessions")["sessions"], weftd.get("/arrays/a")["epoch"]
    said, problem = host.attach(**more)
    assert (said, problem["code"]) == (status, code), problem
    after = weftd.get("/sessions")["sessions"], weftd.get("/arrays/a")["epoch"]
    assert [s["id"] for s in before[0]] == [s["id"] for s in after[0]]
    assert before[1] == after[1]
    return problem


def test_the_first_begins_with_all(weftd, array):
    """The first session comes with a fence and an order to resynchronize everything; the next
    one with no range."""
    before = weftd.get("/arrays/a")["epoch"]
    first, second = Lessee(weftd, "h1"), Lessee(weftd, "h2")
    assert first.attach()[0] == 201 and first.order > 0
    assert first.epoch == before + 1
    # The answer may have been lost.
    order = first.order
    assert first.attach()[0] == 201 and first.order == order
    assert first.beat()[0] == 200 and first.recover is None
    assert second.attach()[0] == 201 and second.order == 0
    assert second.epoch == first.epoch
    assert second.beat()[0] == 200
    status, problem = second.ask([0, 512], wait_ms=0)
    assert (status, problem["code"]) == (409, "leases-wait")
    assert "recover" in problem["detail"]
    first.recovered()
    status, problem = second.ask([0, 512], wait_ms=0)
    assert (status, problem["code"]) == (409, "leases-wait")
    assert problem["holder"]["node"] == "h1"
    assert "h1" in problem["detail"] and problem["retry_after_ms"] == 0
    assert holders(weftd) == {"h1"}


def test_moved_from_one_to_another(weftd, array, lessees, later):
    first, second = lessees("h1"), lessees("h2")
    asked = later(second.ask, [4096, 4096], [0, 1 << 20])
    eventually(lambda: first.revoke, what="the range is asked back")
    assert first.revoke == [{"must": [4096, 4096], "wish": [0, 1 << 20]}]
    assert not asked.done()
    # More than was asked back, and something that it does not have any more.
    first.tell(give=[[0, 65536]])
    assert granted(asked.result()) == [[0, 65536]]
    first.tell(give=[[0, 65536]])
    eventually(lambda: not first.revoke)
    # The other way round.
    asked = later(first.ask, [512, 512], [0, 65536])
    eventually(lambda: second.revoke)
    second.tell(give=[[512, 512]])
    assert granted(asked.result()) == [[512, 512]]
    shows = shown(weftd)
    assert shows["conflicts"] == 2 and shows["revokes"] == 2
    assert shows["waiting"] == 0
    cell = shows["cells"][0]
    assert (cell["conflicts"], cell["revokes"]) == (2, 2)
    assert {s["node"]: (s["gets"], s["revokes"]) for s in shows["sessions"]} == \
        {"h1": (1, 1), "h2": (1, 1)}


def test_a_poll_is_woken(weftd, array, lessees, later):
    """Nobody waits for the next heartbeat."""
    first, second = lessees("h1"), lessees("h2")
    first.stop()
    watch = Stopwatch(disk=True)
    beat = later(first.beat, LONG_MS)
    time.sleep(0.2)
    asked = later(second.ask, [0, 512])
    assert beat.result()[1]["revoke"]
    assert watch.seconds() < 1.5
    first.tell(give=[[0, size(weftd)]])
    assert granted(asked.result()) == [[0, 512]]
    first.start()


def test_one_alone_has_all(weftd, array, lessees):
    first, second = lessees("h1"), lessees("h2")
    first.tell(give=[[0, size(weftd)]])
    assert granted(second.ask([1 << 20, 512])) == [[1 << 20, 512]]
    assert first.detach()[0] == 200
    assert granted(second.ask([0, 512])) == [[0, size(weftd)]]


def test_all_but_what_is_kept(weftd, array, lessees, later):
    first, second = lessees("h1"), lessees("h2")
    first.tell(give=[[0, 4096], [1 << 20, 4096]])
    asks = [{"must": [at, 512], "wish": [at, 512]} for at in (0, 8192, 1 << 20)]
    asked = later(second.say, ask=asks, wait_ms=LONG_MS)
    eventually(lambda: first.revoke)
    assert first.revoke == [{"must": [8192, 512], "wish": [8192, 512]}]
    assert granted(asked.result()) == [asks[0]["must"], asks[2]["must"]]
    first.tell(give=[[8192, 512]])
    assert granted(second.ask([8192, 512])) == [[8192, 512]]


def test_nobody_is_asked_back_for_a_wish(weftd, array, lessees):
    first, second = lessees("h1"), lessees("h2")
    first.tell(give=[[65536, 65536]])
    assert granted(second.ask([65536, 512], [0, 1 << 20])) == [[65536, 65536]]
    assert first.beat()[0] == 200 and not first.revoke


def test_a_call_that_comes_again(weftd, array, lessees):
    """A return is carried out once, and in its order."""
    first, second = lessees("h1"), lessees("h2")
    first.tell(give=[[0, 4096]])
    old = first.number
    first.tell(give=[[4096, 4096]])
    assert granted(second.ask([0, 4096])) == [[0, 4096]]
    second.tell(give=[[0, 4096]])
    assert granted(first.ask([0, 512])) == [[0, 512]]
    assert first.say(number=old, give=[[0, 4096]])[0] == 200
    status, problem = second.ask([0, 512], wait_ms=0)
    assert (status, problem["code"]) == (409, "leases-wait")


def test_declared_after_a_crash(weftd, array, lessees):
    """Nothing is granted before all have said what they have."""
    first, second, third = (lessees(n) for n in ("h1", "h2", "h3"))
    end = size(weftd)
    first.tell(give=[[0, 1 << 20]])
    assert granted(second.ask([0, 1 << 20])) == [[0, 1 << 20]]
    third.stop()
    generation = second.generation
    weftd.restart(kill=True)
    eventually(lambda: first.generation > generation
               and second.generation > generation)
    assert shown(weftd)["undeclared"] == 3
    status, problem = second.ask([1 << 20, 512], wait_ms=0)
    assert (status, problem["code"]) == (409, "declare")
    first.tell(declare=[[1 << 20, end - (1 << 21)]])
    second.tell(declare=[[0, 1 << 20]])
    status, problem = second.ask([end - 512, 512], wait_ms=0)
    assert (status, problem["code"]) == (409, "leases-wait")
    assert shown(weftd)["undeclared"] == 1
    third.start()
    third.tell(declare=[])
    assert granted(second.ask([end - 512, 512])) == [[end - 512, 512]]
    shows = shown(weftd)
    assert shows["undeclared"] == 0 and holders(weftd) == {"h1"}
    assert [c["other_bytes"] for c in shows["cells"] if c["other_bytes"]] == \
        [1 << 20, 512]


def test_killed_while_a_range_moves(weftd, array, lessees, later):
    """Whether or not the grant was delivered: when both have declared the ranges that they
    know of, one session has the range, or none."""
    first, second = lessees("h1"), lessees("h2")
    end, has = size(weftd), False
    for pause in (0, 0.0005, 0.001, 0.002, 0.004):
        if has:
            second.tell(give=[[0, 512]])
            assert granted(first.ask([0, 512], wait_ms=0)) == [[0, 512]]
        asked = later(quiet, second.ask, [0, 512])
        eventually(lambda: first.revoke)
        generation = first.generation
        given = later(quiet, first.tell, give=[[0, 512]])
        time.sleep(pause)
        weftd.restart(kill=True)
        given.result()
        answer = asked.result()
        has = bool(answer) and answer[0] == 200
        eventually(lambda: first.generation > generation
                   and second.generation > generation)
        first.tell(declare=[[512, end - 512]])
        second.tell(declare=[[0, 512]] if has else [])
        if not has:
            assert granted(first.ask([0, 512], wait_ms=0)) == [[0, 512]]
        assert first.over is None and second.over is None
    assert shown(weftd)["orphan_bytes"] == 0


def quiet(call, *words, **more):
    """None: weftd was killed meanwhile."""
    try:
        return call(*words, **more)
    except OSError:
        return None


def test_a_declaration_of_what_is_anothers(weftd, array, lessees):
    """It is a liar, and its session ends for that; the reason is where people look."""
    first, second, third = (lessees(n) for n in ("h1", "h2", "h3"))
    events = Events(weftd)
    events.until("snapshot")  # what is evicted earlier would be in that
    status, problem = second.say(number=second.generation << 32 | 1,
                                 declare=[[0, 4096]])
    assert (status, problem["code"]) == (409, "lease-overlap")
    assert "another" in problem["detail"] and "attach" in problem["detail"]
    eventually(lambda: second.over)
    assert "what another has" in second.over
    assert "what another has" in \
        events.until("log", lambda d: "h2" in d["text"])[1]["text"]
    events.until("session", lambda d: d.get("deleted")
                 and d["id"] == second.session)
    events.close()
    assert first.over is None and third.over is None
    assert {s["node"] for s in shown(weftd)["sessions"]} == {"h1", "h3"}


def test_what_the_dead_had(weftd, array, lessees, later):
    """A live session resynchronizes it before any session gets it."""
    first, second, third = (lessees(n) for n in ("h1", "h2", "h3"))
    first.tell(give=[[0, 1 << 20]])
    assert granted(second.ask([0, 1 << 20])) == [[0, 1 << 20]]
    asked = later(ask_patiently, third, [4096, 512])
    eventually(lambda: second.revoke)
    assert weftd.call("DELETE", f"/sessions/{second.session}")[0] == 200
    eventually(lambda: second.over)
    # The session that waits for it.
    eventually(lambda: third.recover)
    assert third.recover["ranges"] == [[0, 1 << 20]]
    shows = shown(weftd)
    assert shows["orphan_bytes"] == 1 << 20
    assert shows["recoverer"] == third.session
    # An order that it knows is not repeated.
    third.recover = None
    eventually(lambda: asked.running() and not third.beat()[1].get("recover"))
    assert not first.recover and not asked.done()
    third.recovered()
    assert asked.result() == [[4096, 512]]
    shows = shown(weftd)
    assert shows["orphan_bytes"] == 0 and shows["recoverer"] is None
    assert shows["cells"][0]["other_bytes"] == 1 << 20


def stored(weftd, kind):
    """While weftd is not there."""
    with closing(sqlite3.connect(weftd.state / "weftd.db")) as db:
        [[text]] = db.execute("SELECT json FROM record WHERE kind = ?", [kind])
    return json.loads(text)


def test_what_is_stored(weftd, array):
    """One word with the array, and one with each session."""
    first = Lessee(weftd, "h1").start_attached()

    def look():
        assert stored(weftd, "array")["to_recover"] is True
        assert stored(weftd, "session")["leases"] is True
    weftd.restart(kill=True, between=look)
    first.tell(declare=[[0, size(weftd)]], recovered=first.order)
    assert shown(weftd)["held_bytes"] == size(weftd)
    first.stop()
    weftd.stop()
    assert stored(weftd, "array")["to_recover"] is False
    with closing(sqlite3.connect(weftd.state / "weftd.db")) as db, db:
        # As an older weftd left it: a session without a part writes everywhere.
        db.execute("UPDATE record SET json = json_remove(json, '$.leases', "
                   "'$.part_offset', '$.part_length') WHERE kind = 'session'")
        db.execute("UPDATE record SET json = json_remove(json, '$.to_recover') "
                   "WHERE kind = 'array'")
    weftd.start()
    [session] = weftd.get("/sessions")["sessions"]
    assert (session["mode"], session["leases"]) == ("rw", False)
    assert shown(weftd)["shared"] is False and shown(weftd)["cells"] == []


def test_exclusive_and_shared(weftd, array, lessees):
    """An array is held by one, by parts, or by leases."""
    part = {"offset": 0, "length": UNIT}
    first = lessees("h1")
    for host, more in ((Host(weftd, "h2"), {}),
                       (Host(weftd, "h2", "shared"), {"part": part})):
        problem = refused(weftd, host, "held", **more)
        assert problem["holder"]["node"] == "h1"
        assert "h1" in problem["detail"] and "detach" in problem["detail"]
    status, problem = weftd.call("PUT", "/arrays/a/service", {"nodes": ["h9"]})
    assert (status, problem["code"]) == (409, "held"), problem
    assert problem["holder"]["node"] == "h1" and "by leases" in problem["detail"]
    assert "weftctl session ls" in problem["detail"]
    assert weftd.get("/arrays/a")["service"] is None
    assert first.detach()[0] == 200
    for mode, more in (("rw", {}), ("shared", {"part": part})):
        alone = Host(weftd, "h2", mode)
        while alone.attach(**more)[0] != 201:
            time.sleep(0.1)
        alone.start()
        problem = refused(weftd, Lessee(weftd, "h3"), "held")
        assert problem["holder"]["node"] == "h2"
        epoch = weftd.get("/arrays/a")["epoch"]
        assert alone.detach()[0] == 200
        eventually(lambda: weftd.get("/arrays/a")["epoch"] > epoch,
                   what="the fence of the session that ended")
    assert weftd.call("PUT", "/arrays/a/service", {"nodes": ["h9"]})[0] == 200
    assert "weftctl" in refused(weftd, Lessee(weftd, "h3"), "served")["detail"]


def test_so_many(weftd, array, lessees):
    for i in range(WRITERS_MAX):
        lessees(f"h{i}")
    problem = refused(weftd, Lessee(weftd, "one-more"), "too-many")
    assert str(WRITERS_MAX) in problem["detail"]
    assert "detach" in problem["detail"]


@pytest.mark.parametrize("ask", [
    ([1, 512], [0, 1024]), ([0, 511], [0, 1024]), ([0, 512], [0, 1000]),
    ([1 << 50, 512], [1 << 50, 512]), ([0, 1 << 50], [0, 1 << 50]),
    ([0, 1024], [0, 512]), ([0, 512], [512, 512]), ("end", "end")])
def test_bad_asks(weftd, array, lessees, ask):
    first = lessees("h1")
    first.tell(give=[[0, size(weftd)]])
    must, wish = ask if ask[0] != "end" else [[size(weftd), 512]] * 2
    status, problem = first.ask(must, wish)
    assert (status, problem["code"], problem["field"]) == (422, "lease", "ask")
    assert str(size(weftd)) in problem["detail"] or "wish" in problem["detail"] \
        or "512" in problem["detail"], problem
    assert holders(weftd) == set()
    assert first.over is None


@pytest.mark.parametrize("words", [
    {"declare": [[0, 100]]}, {"declare": [[0, 1 << 50]]},
    {"give": [[0, 100]]}, {"give": [[1 << 50, 512]]}])
def test_bad_words(weftd, array, lessees, words):
    """Nothing is done, and the session goes on."""
    first = lessees("h1")
    before = shown(weftd)
    status, problem = first.say(number=first.number + 1, **words)
    assert (status, problem["code"]) == (422, "lease"), problem
    assert shown(weftd)["cells"] == before["cells"]
    assert first.over is None and first.beat()[0] == 200


def test_to_give_back_what_is_anothers(weftd, array, lessees):
    first, second = lessees("h1"), lessees("h2")
    second.tell(give=[[0, size(weftd)]])
    assert holders(weftd) == {"h1"}
    assert shown(weftd)["held_bytes"] == size(weftd)


def test_who_has_no_leases(weftd, array):
    host = Host(weftd, "h1").start_attached()
    status, problem = weftd.call("POST", f"/sessions/{host.session}/leases",
                                 {"instance": host.instance})
    assert (status, problem["code"]) == (409, "no-leases"), problem
    status, problem = weftd.call("POST", f"/sessions/{host.session}/leases",
                                 {"instance": "another"})
    assert (status, problem["code"]) == (409, "other-instance")
    assert host.detach()[0] == 200
    status, _ = weftd.call("POST", f"/sessions/{host.session}/leases",
                           {"instance": host.instance})
    assert status == 410
    assert shown(weftd)["shared"] is False


def test_many_at_once(weftd, array, lessees):
    """A call with as many ranges as a session may have."""
    first, second = lessees("h1"), lessees("h2")
    first.tell(give=[[0, size(weftd)]])
    many = [[i * 1024, 512] for i in range(16384)]
    generation = first.generation
    weftd.restart(kill=True)
    eventually(lambda: first.generation > generation)
    first.tell(declare=many)
    second.tell(declare=[])
    assert shown(weftd)["leases"] == 16384
    second_has = granted(second.ask([512, 512]))
    assert second_has == [[512, 512]]
    first.tell(give=many)
    assert shown(weftd)["leases"] == 1


def weftctl(weftd, *words):
    return run("weftctl", "--admin", weftd.url, *words).stdout


def test_people_see_it(weftd, array, lessees, later):
    assert "is not shared by leases" in weftctl(weftd, "array", "leases", "a")
    first, second = lessees("h1"), lessees("h2")
    asked = later(second.ask, [0, 512], [0, size(weftd) // 2 // UNIT * UNIT])
    eventually(lambda: first.revoke)
    first.tell(give=[[0, size(weftd) // 2 // UNIT * UNIT]])
    asked.result()
    text = weftctl(weftd, "array", "leases", "a")
    assert all(len(line) <= 80 for line in text.splitlines()), text
    rows = [line.split() for line in text.splitlines()]
    cells = [r[1] for r in rows if len(r) == 2 and set(r[1]) <= set("AB")]
    assert "".join(cells) == "B" * 128 + "A" * 128, text
    assert ["met", "1"] in rows and ["asked", "back", "1"] in rows, text
    for letter, node in ("A", "h1"), ("B", "h2"):
        assert [r for r in rows if r[:2] == [letter, node]], text
    assert json.loads(weftctl(weftd, "array", "leases", "a", "--json")) == \
        shown(weftd)
    for row in weftctl(weftd, "session", "ls").splitlines()[1:]:
        assert {"shared", "leases"} <= set(row.split())
    status, text = http("GET", weftd.url + "/metrics")
    for line in ('weft_array_leases{array="a"} 2',
                 'weft_array_lease_conflicts_total{array="a"} 1',
                 'weft_array_lease_revokes_total{array="a"} 1',
                 'weft_array_lease_orphan_bytes{array="a"} 0'):
        assert line in text.decode(), line
