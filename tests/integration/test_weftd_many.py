"""weftd with as many members and array processes as it is made for: 64 hosts,
512 disks and 100 sessions, each of which waits for an answer."""

import subprocess

import pytest

from weftdactors import *
from weftdload import Load
from wefttest import eventually

HOSTS, DISKS, SESSIONS = 64, 512, 100
ARRAYS = DISKS // HOSTS
pytestmark = pytest.mark.usefixtures("all_threads")


@pytest.fixture
def load(weftd):
    made = Load(weftd, wait_ms=2000)
    yield made
    made.stop()


def everybody_waits(load):
    return load.waiting == DISKS + SESSIONS


def test_long_polls(weftd, load):
    disks = [load.member(i, f"host{i % HOSTS:02}") for i in range(DISKS)]
    eventually(lambda: len(weftd.get("/disks?limit=1000")["disks"]) == DISKS,
               60)
    for i in range(ARRAYS):
        create(weftd, disks[i * HOSTS:(i + 1) * HOSTS], f"a{i}", groups=2)
    sessions = [load.session(f"host{i % HOSTS:02}", f"a{i % ARRAYS}",
                             "rw" if i < ARRAYS else "ro")
                for i in range(SESSIONS)]

    # A caller is answered meanwhile, though no waiting poll is.
    def answered_alone():
        if not everybody_waits(load):
            return False
        beats = load.beats
        assert weftd.get("/me")["role"] == "admin"
        return beats == load.beats and everybody_waits(load)

    eventually(answered_alone, 60, every=0.01)

    # A change reaches the actors that it concerns.
    eventually(lambda: everybody_waits(load), 60, every=0.01)
    over = sessions[-1]
    assert weftd.call("DELETE", f"/sessions/{over.session}")[0] == 200
    eventually(lambda: over.over)
    assert "evicted" in over.over
    writer, readers = sessions[0], sessions[ARRAYS:-1:ARRAYS]
    before, others = writer.epoch, [s.epoch for s in sessions[1:ARRAYS]]
    status, reply = writer.lost(3)
    assert status == 200 and reply["epoch"] > before
    eventually(lambda: all(r.epoch > before for r in readers))
    eventually(lambda: all(d.header["states_epoch"] > before
                           for d in disks[:HOSTS]))
    assert [s.epoch for s in sessions[1:ARRAYS]] == others
    load.check()
    assert load.lost == 0


def test_what_is_known_is_not_said_again(weftd):
    """But a weftd that was started again asks for it and says it, and so does one to
    a process that does not say that it has no news."""
    made = [Member(weftd, i).start() for i in range(3)]
    weftd.actors += made
    eventually(lambda: len(weftd.get("/disks")["disks"]) == 3)
    create(weftd, made)
    for m in made:
        m.stop()
    m = made[0]

    def beat(**more):
        status, reply = m.beat(**more)
        assert status == 200, reply
        return reply["assignment"], "key" in reply

    def refused(report):
        status, p = m.beat(body=m.same(report))
        return (status, p["code"]) == (409, "say-all")

    def whole(answer):
        place, key = answer
        return key and place["position"] == 0 and len(place["states"]) == 3

    assert refused(1)
    assert whole(beat(report=1)) and whole(beat(report=2))
    before = weftd.get(f"/disks/{m.uuid}")
    assert beat(body=m.same(2)) == (True, False)
    after = weftd.get(f"/disks/{m.uuid}")
    for known in before, after:
        known.pop("last_heard_ms"), known.pop("load")
    assert before == after and after["size"] == GIB
    assert refused(1) and refused(3)
    weftd.restart()
    assert refused(2)
    assert whole(beat(report=3)) and beat(body=m.same(3)) == (True, False)
    m.instance = "another life"
    assert refused(3)
    answer = eventually(lambda: (r := m.beat(report=1))[0] == 200 and r[1])
    assert whole((answer["assignment"], "key" in answer))


def test_too_few_threads(tmp_path):
    """weftd ends instead of serving without answers.  Two threads have stacks of this size;
    the memory left is less than the answering threads need, 104 KiB each."""
    p = subprocess.run(["prlimit", "--as=880000000", "--stack=400000000",
                        "weftd", "--state", tmp_path / "state",
                        "--listen", "127.0.0.1:0", "--no-login"], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=60)
    assert p.returncode == 1, p.stderr
    assert "TasksMax" in p.stderr and "serves" not in p.stderr, p.stderr
