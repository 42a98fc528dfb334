"""Several sessions write an array, each a part of it: which sessions are admitted, and how
they are shown.  weftd alone, with played members and hosts.

Pass: parts of live sessions never overlap; each refusal names the holder, the reason and the
way out, and changes nothing; the display and the store have the part.
"""

import json
import sqlite3
from contextlib import closing

import pytest

from weftdactors import Host, Lessee, array, members, weftd
from wefttest import run

UNIT = 262144
WRITERS_MAX = 32


class Writer(Lessee):
    """A host with a part of the array, in stripe units; it carries out orders to recover."""

    def __init__(self, weftd, node, first, units):
        super().__init__(weftd, node)
        self.part = {"offset": first * UNIT, "length": units * UNIT}

    def attach(self, array="a", **more):
        status, r = super().attach(array, **{"part": self.part, **more})
        if status == 201 and self.order:
            self.recovered()
        return status, r

    def obey(self, r):
        known = self.generation
        super().obey(r)
        if r["generation"] > known:
            self.tell(declare=[[self.part["offset"], self.part["length"]]])
        elif self.order:
            self.recovered()


@pytest.fixture
def writers(weftd, array):
    """Makes a session that is admitted and sends heartbeats until the test is over."""
    made = []

    def make(node, first, units):
        w = Writer(weftd, node, first, units)
        made.append(w.start_attached())
        return w
    yield make
    for w in made:
        w.running = False
    for w in made:
        w.thread.join()


def sessions(weftd):
    return {s["node"]: s for s in weftd.get("/sessions")["sessions"]}


def refused(weftd, host, code, status=409, **more):
    """The session is refused, and nothing has changed by that."""
    before, epoch = sessions(weftd), weftd.get("/arrays/a")["epoch"]
    said, problem = host.attach(**more)
    assert (said, problem["code"]) == (status, code), problem
    assert sessions(weftd).keys() == before.keys()
    assert weftd.get("/arrays/a")["epoch"] == epoch
    return problem


def test_they_write_side_by_side(weftd, writers):
    first = writers("h1", 0, 4)
    epoch = first.epoch
    second = writers("h2", 4, 4)
    third = writers("h3", 100, 1)
    reader = Host(weftd, "h4", "ro")
    assert reader.attach()[0] == 201
    # They join without an epoch, so they disturb nobody.
    assert {second.epoch, third.epoch, reader.epoch} == {epoch}
    shown = sessions(weftd)
    assert [shown[n]["mode"] for n in ("h1", "h2", "h3", "h4")] == \
        ["shared", "shared", "shared", "ro"]
    for w in (first, second, third):
        assert shown[w.node]["part"] == w.part
    assert shown["h4"]["part"] is None
    array = weftd.get("/arrays/a")
    assert array["session"] is None
    assert {s["node"] for s in array["sessions"]} == {"h1", "h2", "h3", "h4"}


def test_asked_again_it_is_the_same_session(weftd, writers):
    first = writers("h1", 0, 4)
    writers("h2", 4, 4)
    session = first.session
    assert first.attach()[0] == 201 and first.session == session
    assert len(sessions(weftd)) == 2


def test_the_rest_of_the_array(weftd, writers):
    writers("h1", 0, 4)
    size = weftd.get("/arrays/a")["size"]
    rest = Host(weftd, "h2", "shared")
    assert rest.attach(part={"offset": 4 * UNIT})[0] == 201
    assert sessions(weftd)["h2"]["part"] == \
        {"offset": 4 * UNIT, "length": size - 4 * UNIT}


@pytest.mark.parametrize("first, units", [(0, 4), (3, 1), (2, 100), (0, 1000)])
def test_parts_that_overlap(weftd, writers, first, units):
    holder = writers("h1", 0, 4)
    writers("h2", 500, 4)
    problem = refused(weftd, Writer(weftd, "h3", first, units), "held")
    assert problem["holder"]["node"] == "h1"
    assert problem["holder"]["session"] == holder.session
    assert "h1" in problem["detail"]


def test_all_and_a_part(weftd, writers):
    """An array is held by one that writes all, or by parts."""
    holder = writers("h1", 0, 4)
    problem = refused(weftd, Host(weftd, "h2"), "held")
    assert problem["holder"]["session"] == holder.session
    assert holder.detach()[0] == 200
    alone = Host(weftd, "h2").start_attached()
    problem = refused(weftd, Writer(weftd, "h3", 8, 4), "held")
    assert problem["holder"]["session"] == alone.session
    assert alone.detach()[0] == 200
    assert Writer(weftd, "h3", 8, 4).attach()[0] == 201


def test_a_part_is_free_when_its_session_is_over(weftd, writers):
    first, second = writers("h1", 0, 4), writers("h2", 4, 4)
    assert first.detach()[0] == 200
    third = writers("h3", 0, 4)
    assert third.session != first.session
    # A fence would have raised it.
    assert third.epoch == second.epoch
    assert weftd.call("DELETE", f"/sessions/{third.session}")[0] == 200
    writers("h4", 2, 2)
    assert second.over is None


def test_so_many(weftd, writers):
    for i in range(WRITERS_MAX):
        writers(f"h{i}", i, 1)
    problem = refused(weftd, Writer(weftd, "one-more", 100, 1), "too-many")
    assert str(WRITERS_MAX) in problem["detail"]


def test_an_array_with_a_service(weftd, writers):
    assert weftd.call("PUT", "/arrays/a/service", {"nodes": ["h9"]})[0] == 200
    problem = refused(weftd, Writer(weftd, "h1", 0, 4), "served")
    assert "weftctl" in problem["detail"]
    assert weftd.call("DELETE", "/arrays/a/service")[0] == 200
    writers("h1", 0, 4)
    # The reverse: a serving session writes the whole array.
    status, problem = weftd.call("PUT", "/arrays/a/service", {"nodes": ["h9"]})
    assert (status, problem["code"]) == (409, "held"), problem
    assert problem["holder"]["node"] == "h1" and "in parts" in problem["detail"]
    refused(weftd, Host(weftd, "h9", "service"), "no-service")


@pytest.mark.parametrize("part, field", [
    ({"offset": 1, "length": UNIT}, "part"),
    ({"offset": 0, "length": UNIT + 512}, "part"),
    ({"offset": UNIT << 30, "length": UNIT}, "part"),
    ({"offset": UNIT << 30}, "part.offset"),
    ({"offset": UNIT, "length": UNIT << 30}, "part")])
def test_a_part_that_makes_no_sense(weftd, writers, part, field):
    writers("h1", 0, 4)
    problem = refused(weftd, Host(weftd, "h2", "shared"), "part", 422,
                      part=part)
    assert problem["field"] == field
    refused(weftd, Host(weftd, "h2"), "part", 422,
            part={"offset": 8 * UNIT, "length": UNIT})


def weftctl(weftd, *words):
    return run("weftctl", "--admin", weftd.url, *words).stdout


def test_people_see_it(weftd, writers):
    writers("h1", 0, 4)
    writers("h2", 4, 16)
    for words in (["session", "ls"], ["array", "show", "a"]):
        rows = [row.split() for row in weftctl(weftd, *words).splitlines()]
        for node, part in ("h1", "0+1M"), ("h2", "1M+4M"):
            assert [row for row in rows
                    if {"shared", node, part} <= set(row)], (words, rows)
    for words in (["array", "ls"], ["status"]):
        assert "h1, h2" in weftctl(weftd, *words)
    shown = weftd.get("/arrays/a/leases")
    assert shown["leases"] == len(shown["sessions"]) == 2
    table = weftctl(weftd, "array", "leases", "a")
    assert "h1" in table and "h2" in table and "in 2 leases" in table, table


def test_weftd_is_started_again(weftd, writers):
    first, second = writers("h1", 0, 4), writers("h2", 4, 4)
    weftd.restart(kill=True)
    assert {n: s["part"] for n, s in sessions(weftd).items()} == \
        {"h1": first.part, "h2": second.part}
    refused(weftd, Writer(weftd, "h3", 4, 1), "held")
    assert first.over is None and second.over is None


def test_a_session_of_an_older_weftd(weftd, array):
    """Its record has no part: it writes all."""
    host = Host(weftd, "h1").start_attached()
    host.stop()
    weftd.stop()
    with closing(sqlite3.connect(weftd.state / "weftd.db")) as db, db:
        rows = db.execute("SELECT json FROM record WHERE kind = 'session'")
        assert all("part_length" in json.loads(r[0]) for r in rows)
        db.execute("UPDATE record SET json = json_remove(json, '$.part_offset',"
                   " '$.part_length') WHERE kind = 'session'")
    weftd.start()
    assert sessions(weftd)["h1"]["mode"] == "rw"
    assert sessions(weftd)["h1"]["part"] is None
