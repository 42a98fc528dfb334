"""Nodes that lie about epochs, generations and rounds.

Topology: one real weftd; members and hosts that speak the API, each of a node of its
own; two arrays, a over four members and b over two. In the last tests nodes have
certificates.
Cause: one of them says what weftd never told it, at any time or as its first word to
a weftd that has just been started.
Pass: that node is refused and named, with the way out; nobody else is refused
anything, and what it takes to change an array is there again when its node is shut
out. Two nodes that say so make weftd read-only, as an old database does.
"""

import uuid

import pytest

from securenode import *
from weftdactors import *
from weftdlogin import first_login
from wefttest import eventually

HUGE = 1 << 60


@pytest.fixture
def arrays(weftd):
    ms = members(weftd, 6)
    create(weftd, ms[:4])
    create(weftd, ms[4:], "b", layout="raid-1")
    return ms


def health(w):
    return w.get("/status")["verdict"]


def states(w, array="a"):
    return [m["state"] for m in w.get(f"/arrays/{array}")["members"]]


def refused(m, code):
    def so():
        status, r = m.said[-1]
        return status != 200 and r["code"] == code and r
    return eventually(so)


def say(m, **more):
    """From now on, by the same process."""
    m.stop()
    for field, by in more.items():
        m.header[field] = m.header.get(field, 0) + by
    m.start()


def attaches(w, array="a"):
    """A new process gets it, in the end."""
    h = host(w, "h9")
    said = []

    def granted():
        said.append(h.attach(array, takeover=True))
        return said[-1][0] == 201

    try:
        eventually(granted, 40, 0.3)
    except AssertionError:
        raise AssertionError(said[-1]) from None
    return h


@pytest.mark.parametrize("lie", [
    {"generation": 1}, {"states_epoch": 5}, {"min_epoch": 2}])
def test_a_member_says_more_than_it_was_told(weftd, arrays, lie):
    attaches(weftd).start()
    m = arrays[1]
    honest = dict(m.header)
    say(m, **lie)
    problem = refused(m, "untrue")
    assert "node n1" in problem["detail"]
    assert "weftctl node revoke n1" in health(weftd)
    assert "weftctl node revoke n1" in weftd.log.read_text()
    s = weftd.get("/status")
    assert s["read_only"] is False
    attaches(weftd, "b")
    attaches(weftd, "a")
    state = weftd.get("/arrays/a")["members"][1]["state"]
    if "min_epoch" in lie:  # it may be another array's, and it is taken back
        assert state in ("out", "joining")
        return
    assert state == "out"
    m.header.update(honest)
    eventually(lambda: m.said[-1][0] == 200)
    assert "revoke" not in health(weftd)


@pytest.mark.parametrize("field,value", [
    ("min_epoch", HUGE), ("states_epoch", HUGE), ("round", HUGE),
    ("generation", HUGE)])
def test_a_disk_claims_what_nobody_gets_to(weftd, arrays, field, value):
    status, r = arrays[1].weftd.call(
        "POST", arrays[1].path, arrays[1].body(**{field: value}))
    assert (status, r["code"], r["field"]) == (422, "nonsense", field)
    blank = Member(weftd, 7)
    assert blank.beat(**{field: value})[1]["code"] == "nonsense"
    assert weftd.get("/status")["health"] == "ok"


def test_a_disk_is_larger_than_any(weftd, arrays):
    liar = Member(weftd, 7)
    liar.data_bytes = 1 << 62
    status, r = liar.beat()
    assert (status, r["field"]) == (422, "data_bytes")
    liar.data_bytes = 31 << 40
    assert liar.beat()[0] == 200
    liar.start()
    create(weftd, [liar], "c", layout="raid-0")
    weftd.restart(kill=True)


@pytest.mark.parametrize("field", ["generation", "states_epoch", "round"])
def test_an_import_of_what_nobody_gets_to(weftd, field):
    """weftd, which would count on from there, can be started again."""
    m = Member(weftd, 0)
    m.header.update(
        cluster=str(uuid.uuid4()), array=str(uuid.uuid4()), position=0,
        layout="raid-0", n=1, groups=1, unit=65536, member_bytes=1 << 28,
        dup="async-client", states=["in-sync"], states_epoch=3, generation=3)
    honest = dict(m.header)
    wanted = {"array": m.header["array"], "name": "c"}
    m.header[field] = HUGE - 1
    assert m.beat()[1]["code"] == "nonsense"
    assert weftd.call("POST", "/imports", wanted)[0] == 404
    m.header = honest
    assert m.beat()[1]["code"] == "foreign-cluster"
    assert weftd.call("POST", "/imports", wanted)[0] == 201
    weftd.restart(kill=True)
    assert weftd.get("/arrays/c")["name"] == "c"


def test_a_new_disk_says_a_newer_generation(weftd, arrays):
    for _ in range(3):
        status, r = Member(weftd, 7).beat(
            generation=weftd.get("/status")["generation"] + 1)
        assert (status, r["code"]) == (503, "doubted")
    s = weftd.get("/status")
    assert s["read_only"] is False and s["health"] == "warning"
    assert "of node n7" in s["verdict"], s["verdict"]
    assert weftd.log.read_text().count("weftctl node revoke n7") >= 1
    attaches(weftd, "b")


def test_a_disk_speaks_of_another_array(weftd, arrays):
    """It is no member of it."""
    a = arrays[0].header
    m = Member(weftd, 7)
    m.header.update(a, position=1, states_epoch=a["states_epoch"] + 1)
    assert m.beat()[1]["code"] in ("doubted", "not-a-member")
    assert weftd.get("/status")["read_only"] is False
    attaches(weftd, "a")


def test_a_reader_says_a_later_epoch(weftd, arrays):
    writer = host(weftd).start_attached()
    reader = host(weftd, "h1", mode="ro")
    eventually(lambda: reader.attach()[0] == 201)
    reader.epoch += 100
    status, r = reader.beat()
    assert (status, r["code"]) == (409, "untrue") and "h1" in r["detail"]
    assert "node h1" in health(weftd)
    # The writer can lose a member as before when the reader is silent.
    arrays[3].stop()
    eventually(lambda: writer.lost(3)[0] == 200, 40)
    s = weftd.get("/status")
    assert s["read_only"] is False
    assert weftd.get("/arrays/a")["members"][3]["state"] == "out"
    # As the first report to a weftd it does not count.
    weftd.restart(kill=True)
    eventually(lambda: reader.beat()[0] == 503)
    eventually(lambda: "is frozen" not in health(weftd))
    assert weftd.get("/status")["read_only"] is False


def test_first_words_stop_one_array(weftd, arrays):
    """Whether it lies, or the database is old, one node can't decide."""
    weftd.stop()
    arrays[1].header["states_epoch"] += 1
    weftd.start()
    refused(arrays[1], "doubted")
    eventually(lambda: "Array a is frozen" in health(weftd))
    assert "weftctl node revoke n1" in health(weftd)
    status, r = host(weftd).attach()
    assert (status, r["code"]) == (409, "doubted")
    attaches(weftd, "b")
    assert weftd.get("/status")["read_only"] is False
    arrays[1].header["states_epoch"] -= 1
    eventually(lambda: "is frozen" not in health(weftd))
    attaches(weftd, "a")


def test_two_nodes_show_an_old_database(weftd, arrays):
    weftd.stop()
    for m in arrays[1:3]:
        m.header["states_epoch"] += 1
    weftd.start()
    eventually(lambda: weftd.get("/status")["read_only"])
    status, r = host(weftd).attach("b")
    assert (status, r["code"]) == (503, "read-only")


def test_a_member_says_a_high_round(weftd, arrays):
    """The others are no old copies by that, now or after a start of weftd."""
    h = host(weftd).start_attached()
    for m in arrays[:4]:
        say(m, round=3)
    eventually(lambda: all(m.said[-1][0] == 200 for m in arrays[:4]))
    h.detach()
    say(arrays[1], round=997)
    eventually(lambda: "round 1000" in health(weftd))
    assert "weftctl node revoke n1" in health(weftd)
    attaches(weftd, "a").detach()
    # It has gone out, comes back as what it is now, and says it again.  (Of a weftd that
    # is killed before that the next one can't know who is right.)
    eventually(lambda: states(weftd) == 4 * ["in-sync"] and
               arrays[1].header["min_epoch"] == arrays[0].header["min_epoch"] and
               arrays[1].said[-1][0] == 409)
    weftd.restart(kill=True)
    assert [states(weftd)[i] for i in (0, 2, 3)] == 3 * ["in-sync"]
    attaches(weftd, "a")


def test_a_member_withholds_its_word(weftd, arrays):
    """A member does not report that it has shut an ended session.  Every refusal for that
    reason names it; when it reports, all goes on.  (If it never does, it goes out:
    tests/unit/test-cluster-overdue.)"""
    obeys = arrays[2].obey
    arrays[2].obey = lambda r: obeys({**r, "over": []})
    first = Lessee(weftd, "h1").start_attached()
    try:
        Lessee(weftd, "h2").start_attached().detach()
        status, r = Host(weftd, "h2", "shared").attach()
        assert (status, r["code"]) == (409, "changing")
        assert "member 2" in r["detail"] and "has not confirmed" in r["detail"]
        eventually(lambda: "of node n2) sends heartbeats, but has not confirmed "
                   "that it refuses a session that has ended" in health(weftd), 20)
        assert weftd.get("/status")["health"] == "warning"
        arrays[2].obey = obeys
        eventually(lambda: "sends heartbeats" not in health(weftd))
        Lessee(weftd, "h2").start_attached().detach()
        assert states(weftd) == 4 * ["in-sync"]
    finally:
        first.stop()


@pytest.fixture
def secure(tmp_path):
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", login=True) as w:
        w.actors = []
        yield w
        for a in w.actors:
            a.stop()


def test_shut_out_the_array_goes_on(secure):
    """With certificates: a member that lies in its first report is shut out, and the array has
    another epoch without it."""
    admin = first_login(secure)
    nodes = [enrolled(admin, f"n{i}") for i in range(4)]
    ms = [SecureMember(n, i).start() for i, n in enumerate(nodes)]
    secure.actors += ms
    eventually(lambda: len(admin.get("/disks")["disks"]) == 4)
    admin.call("POST", "/arrays", {"name": "a", "layout": "raid-x",
                                   "disks": [m.uuid for m in ms]}, expect=201)
    eventually(lambda: admin.get("/arrays/a")["state"] == "ready")
    secure.stop()
    ms[2].header["generation"] += 5
    secure.start()
    refused(ms[2], "doubted")
    body = {**attach(nodes[0]), "mode": "rw"}
    status, r = nodes[0].call("POST", "/arrays/a/sessions", body)
    assert (status, r["code"]) == (409, "doubted")
    assert "weftctl node revoke n2" in r["detail"]
    admin.call("DELETE", "/nodes/n2/certificate", expect=200)
    eventually(lambda: nodes[0].call("POST", "/arrays/a/sessions", body)[0]
               == 201, 40, 0.3)
    assert admin.get("/arrays/a")["members"][2]["state"] == "out"
    assert admin.get("/status")["read_only"] is False
