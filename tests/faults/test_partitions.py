"""Networks are cut: both ways, one way, and in part (triangles).

Topology: a network namespace for each of weftd, four members and the array
          process (tests/netcluster.py); fio writes and verifies all along.
Cause: blackhole routes between two of them, and their removal.
Pass:  fio sees no error and reads what it wrote; who is cut off from the writer
       is out and is taken back by itself when the line is whole; in the end all
       copies are alike and all members in-sync.
"""

import time

import pytest

from copies import check_copies, model_of
from fiojob import Fio
from netcluster import NetCluster
from wefttest import eventually

ARGS = ["io-timeout=2000"]


@pytest.fixture
def net(tmp_path):
    with NetCluster(tmp_path, array_args=ARGS) as c:
        yield c


def writer(c, seconds, seed):
    return Fio(c.nbd, inside=c.inside("a"), jobs=1, depth=8, size="24M",
               bs="4k-64k", rw="randrw", time_based=True, runtime=seconds,
               seed=seed % 2 ** 31)


def settle(c, job):
    c.heal()
    c.in_sync()
    job.wait(180)
    check_copies(c, model_of(c, c.layout, c.unit))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("ways", ["both", "there", "back"])
def test_writer_and_member(net, seed, ways):
    with writer(net, 20, seed) as job:
        time.sleep(2)
        if ways in ("both", "there"):
            net.cut("a", "h1")
        if ways in ("both", "back"):
            net.cut("h1", "a")
        eventually(lambda: net.states()[1] == "out", 30, what="h1 out")
        assert [s for i, s in enumerate(net.states()) if i != 1] == [
            "in-sync"] * 3
        settle(net, job)


@pytest.mark.timeout(240)
def test_writer_and_weftd(net, seed):
    """I/O goes on without weftd; what weftd must record waits for it."""
    with writer(net, 25, seed) as job:
        time.sleep(1)
        net.cut_both("a", "w")
        time.sleep(3)
        assert net.states() == ["in-sync"] * 4
        net.cut_both("a", "h2")
        time.sleep(5)
        assert net.states() == ["in-sync"] * 4
        assert job.running()
        settle(net, job)


@pytest.mark.timeout(240)
def test_member_and_weftd(net, seed):
    """A member that weftd does not hear goes on serving its writer."""
    with writer(net, 15, seed) as job:
        time.sleep(1)
        net.cut_both("h3", "w")
        eventually(lambda: not net.get("/api/v1/arrays/a")["members"][3]
                   ["alive"], 30, what="h3 silent")
        time.sleep(2)
        assert net.states() == ["in-sync"] * 4
        settle(net, job)


@pytest.mark.timeout(240)
def test_triangle_of_members(net, seed):
    """A joining member that one source can't reach waits, and says for whom."""
    with writer(net, 25, seed) as job:
        time.sleep(1)
        net.kill("h0")
        eventually(lambda: net.states()[0] == "out", 30, what="h0 out")
        time.sleep(1)
        net.cut_both("h0", "h2")
        net.start("h0")
        eventually(lambda: "member 2" in str(
            (net.get("/api/v1/arrays/a")["members"][0]["rebuild"] or {})
            .get("waits")), 30, what="h0 to say that it waits for member 2")
        assert net.states()[0] == "joining"
        settle(net, job)


@pytest.mark.timeout(240)
def test_flapping(net, seed):
    """A line that comes and goes."""
    with writer(net, 25, seed) as job:
        for i in range(5):
            time.sleep(0.5)
            net.cut_both("a", f"h{i % 2}")
            time.sleep(1.5)
            net.heal()
        settle(net, job)
