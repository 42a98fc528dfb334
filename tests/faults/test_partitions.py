"""Networks are cut: both ways, one way, and in part (triangles).

Topology: a network namespace for each of weftd, four members and the array
          process (tests/netcluster.py); fio writes and verifies all along.
Cause: blackhole routes between two of them, and their removal.
Pass:  fio sees no error and reads only its own data.  A member that is cut off from the writer
       goes out, and is taken back by itself when the line is whole.  In the end all copies are
       alike and all members in-sync.  A writer that was replaced reads nothing old.
"""

import os
import time

import pytest

from copies import check_copies, model_of
from fiojob import Load
from netcluster import Client, NetCluster
from wefttest import background, eventually

ARGS = ["io-timeout=2000"]
pytestmark = pytest.mark.long(20)


@pytest.fixture
def net(tmp_path):
    with NetCluster(tmp_path, array_args=ARGS) as c:
        yield c


@pytest.fixture
def load(net, seed):
    """Ends with the network whole."""
    load = Load(net.nbd, seed, inside=net.inside("a"))
    load.start()
    time.sleep(1)
    yield load
    net.heal()
    load.end()
    net.in_sync()
    check_copies(net, model_of(net, net.layout, net.unit))


@pytest.mark.parametrize("ways", ["both", "there", "back"])
def test_writer_and_member(net, load, ways):
    if ways in ("both", "there"):
        net.cut("a", "h1")
    if ways in ("both", "back"):
        net.cut("h1", "a")
    eventually(lambda: net.states()[1] == "out", 30, what="h1 out")
    assert [s for i, s in enumerate(net.states()) if i != 1] == [
        "in-sync"] * 3
    jobs = load.jobs
    eventually(lambda: load.jobs > jobs or load.failure, 60,
               what="I/O to go on without h1")


def test_writer_and_weftd(net, load):
    """I/O goes on without weftd; changes that weftd must record wait for it."""
    net.cut_both("a", "w")
    jobs = load.jobs
    eventually(lambda: load.jobs > jobs + 1 or load.failure, 60,
               what="I/O to go on without weftd")
    net.cut_both("a", "h2")

    def stands_still():
        jobs = load.jobs
        time.sleep(3)
        return load.jobs == jobs
    time.sleep(5)
    eventually(stands_still)  # requests done before the cut may be counted late
    assert net.states() == ["in-sync"] * 4
    assert stands_still()


def test_member_and_weftd(net, load):
    """A member that weftd does not hear goes on serving its writer."""
    net.cut_both("h3", "w")
    eventually(lambda: not net.get("/api/v1/arrays/a")["members"][3]["alive"],
               30, what="h3 silent")
    jobs = load.jobs
    eventually(lambda: load.jobs > jobs + 1 or load.failure, 60,
               what="I/O to go on with h3")
    assert net.states() == ["in-sync"] * 4


def test_triangle_of_members(net, load):
    """A joining member that one source can't reach waits, and says for whom."""
    net.kill("h0")
    eventually(lambda: net.states()[0] == "out", 30, what="h0 out")
    time.sleep(1)
    net.cut_both("h0", "h2")
    net.start("h0")
    eventually(lambda: "member 2" in str(
        (net.get("/api/v1/arrays/a")["members"][0]["rebuild"] or {})
        .get("waits")), 30, what="h0 to say that it waits for member 2")
    assert net.states()[0] == "joining"


def test_flapping(net, load):
    """A line that comes and goes."""
    for i in range(5):
        net.cut_both("a", f"h{i % 2}")
        time.sleep(1.5)
        net.heal()
        time.sleep(0.5)


def take_over(net, host):
    """Another array process, as soon as weftd lets it; its URI."""
    uri = f"nbd://{net.address(host)}:10809"
    ready = f"{net.dir}/second.ready"
    end = time.monotonic() + 60
    while not os.path.exists(ready):
        p = net.processes.get("second")
        assert time.monotonic() < end
        if p is None or p.poll() is not None:
            net.processes["second"] = background(
                f"{net.dir}/second.log", *net.inside(
                    host, "nbdkit", "-f", "-P", ready, "-i", net.address(host),
                    "-p", "10809", "weft", "array=a", f"uri={uri}",
                    f"admin=http://{net.address('w')}:7380", f"node={host}"),
                start_new_session=True)
        time.sleep(0.2)
    return uri


def test_a_writer_that_is_cut_off_with_a_member_reads_nothing_old(net):
    """It has nobody to fence the member, which the next writer goes without."""
    data = model_of(net, net.layout, net.unit).copies(0)[0][0]
    others = [h for h in net.hosts if h not in ("a", f"h{data}")]
    with Client(net, "a", net.nbd) as old:
        old.ask("write old")
        assert old.answer() == "old"
        for host in others:
            net.cut_both("a", host)
            net.cut_both(f"h{data}", host)
        uri = take_over(net, others[1])
        assert net.states()[data] == "out"
        with Client(net, others[1], uri) as new:
            new.ask("write new")
            assert new.answer() == "new"
            old.ask("read")
            assert old.answer(8) is None
            net.heal()
            assert old.answer() == "ESHUTDOWN"
            new.ask("read")
            assert new.answer() == "new"
