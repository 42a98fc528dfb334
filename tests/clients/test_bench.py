"""bench/bench, bench/commit and bench/papers work: a short run of each, and what they
write.

Pass: every subject is measured in every workload asked for, with numbers that
      can be true; nothing of it is left behind.
"""

import json
import os
import re
import tempfile

import pytest

from wefttest import SOURCE, run

BENCH = SOURCE / "bench" / "bench"
COMMIT = SOURCE / "bench" / "commit"
PAPERS = SOURCE / "bench" / "papers"


def test_bench(tmp_path):
    subjects = ["member", "weft-member", "nbd-proxy", "qemu-quorum", "raid-x",
                "raid-x-map", "raid-10-sync"]
    workloads = ["4k-randwrite-32", "1m-read-4"]
    out = tmp_path / "bench.json"
    (tmp_path / "d").mkdir()
    p = run(BENCH, "--quick", "--subjects", ",".join(subjects), "--workloads",
            ",".join(workloads), "--dir", tmp_path / "d", "--json", out,
            timeout=250)
    results = json.loads(out.read_text())
    assert list(results["subjects"]) == subjects
    for name, s in results["subjects"].items():
        assert s["peak_memory_bytes"] > 1 << 20
        assert list(s["workloads"]) == workloads
        for w, m in s["workloads"].items():
            assert m["requests"] > 0 and m["server_cpu_s"] > 0, (name, w)
            assert len(m["runs"]) == results["rounds"]
        # A line in the table of ratios, and one for each workload.
        assert sum(line.startswith(f"| {name} ")
                   for line in p.stdout.splitlines()) == 1 + len(workloads)
    assert os.listdir(tmp_path / "d") == []


def test_bench_refuses_what_it_does_not_know():
    p = run(BENCH, "--subjects", "raid-y", check=False)
    assert p.returncode == 2 and "raid-y" in p.stderr


@pytest.mark.parametrize("program", ["bench", "counts", "papers", "scale"])
def test_help(program):
    said = run(SOURCE / "bench" / program, "--help").stdout
    assert said.startswith("usage: " + program)
    if program == "bench":
        for name in ("raid-x", "raid-x-unix", "ceph", "gluster", "vitastor"):
            assert re.search(rf"^  {name} ", said, re.M), name


@pytest.fixture
def in_memory():
    """No sync waits for what others write."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield directory


def test_commit(in_memory):
    p = run(COMMIT, "--dir", in_memory, "--subjects", "member,raid-x", "--rounds", "2",
            "--pairs", "20", "--sync-us", "5000", timeout=120)
    rows = {r[1]: r[2:] for r in map(lambda x: [c.strip() for c in x.split("|")],
                                     p.stdout.splitlines()) if len(r) > 6}
    # No pair is quicker than the sync that it waits for.
    for name in ("member", "raid-x"):
        one, eight = float(rows[name][0]), float(rows[name][3])
        assert 0 < one < 200 and one < eight < 8 * 200, rows
    assert rows["member"][2] == "1.00"
    assert os.listdir(in_memory) == []


def test_papers(tmp_path):
    out = tmp_path / "papers.json"
    p = run(PAPERS, "raid-x", "--quick", "--arrays", "raid-x,central", "--json", out)
    runs = {tuple(p["key"][1:4]): p["runs"][0] for p in json.loads(out.read_text())}
    rate = {key: r["MB/s"] for key, r in runs.items()}
    works = ["large read", "large write", "small read", "small write"]
    assert set(rate) == {(name, clients, work) for name in ("raid-x", "central")
                         for clients in (1, 2) for work in works}
    for (name, clients, work), mb in rate.items():
        assert mb > 0 and work in p.stdout
        # All of it comes by one link of 100 Mbit/s, into which a burst fits beside that.
        assert name != "central" or mb < 12.5 * 1.1, (name, clients, work, mb)
    # What links carried is more than the data, for it has headers; of a raid-x of four
    # members a quarter is on the reader's own host.
    assert 1 < carried(runs["central", 2, "large read"]) < 1.2
    assert 0.75 < carried(runs["raid-x", 2, "large read"]) < 1


def carried(run_):
    """Bytes that the links have carried for a byte of data."""
    return sum(run_["links"]["in"]) / (run_["seconds"] * run_["MB/s"] * 1e6)


def test_papers_without_an_array(tmp_path):
    """Each client has the disk of another host, so links are all that they share."""
    out = tmp_path / "papers.json"
    run(PAPERS, "raid-x", "--quick", "--arrays", "plain", "--works", "large read",
        "--json", out)
    points = json.loads(out.read_text())
    assert [tuple(p["key"][1:4]) for p in points] == [
        ("plain", clients, "large read") for clients in (1, 2)]
    for p in points:
        # One link carries what a client reads, and no other carries any of it.
        carries = [b > 1 << 20 for b in p["runs"][0]["links"]["in"]]
        assert carries.count(True) == p["key"][2]


def test_papers_counts_messages(tmp_path):
    out = tmp_path / "papers.json"
    run(PAPERS, "members", "--quick", "--arrays", "4 members", "--json", out)
    messages = {tuple(p["key"][2:4]): p["messages"] for p in
                json.loads(out.read_text())}
    for clients in (1, 2):
        assert messages[clients, "4 KiB read"] == 1
        # The data, and a share in writing the images.
        assert 1 < messages[clients, "4 KiB write"] <= 2


def test_papers_disks():
    """Each number of disks has its column."""
    p = run(PAPERS, "disks", "--quick", "--arrays", "raid-x of 4,raid-10 of 2")
    rows = [[c.strip() for c in line.split("|")[1:-1]]
            for line in p.stdout.splitlines() if line.startswith("| raid-")]
    rates = {name: row for name, *row in rows}  # of the last work
    assert rates["raid-10"][1:5] == 4 * ["-"] and float(rates["raid-10"][0]) > 0
    assert rates["raid-x"][0] == "-" and float(rates["raid-x"][1]) > 0


def test_papers_with_more_clients_than_hosts(tmp_path):
    out = tmp_path / "papers.json"
    run(PAPERS, "jazz", "--quick", "--arrays", "raid-x", "--json", out)
    for p in json.loads(out.read_text()):
        each = p["runs"][0]["MB/s each"]
        assert len(each) == p["key"][2] and min(each) > 0
        assert p["key"][2] in (1, 20)


def test_papers_andrew(tmp_path):
    """Its file systems are gone afterwards."""
    out = tmp_path / "papers.json"
    p = run(PAPERS, "andrew", "--quick", "--disk-ms", "1", "--json", out)
    runs = {tuple(p["key"][1:4]): p["runs"][0] for p in json.loads(out.read_text())}
    phases = ["make", "copy", "stat", "read", "compile"]
    assert set(runs) == {(name, clients, phase) for name in ("raid-x", "central")
                         for clients in (1, 2) for phase in phases}
    for (name, clients, phase), r in runs.items():
        assert len(r["seconds each"]) == clients and f"| {name}, {clients} " in p.stdout
        # What is read comes from the disks, anew for each phase.
        assert r["seconds"] == max(r["seconds each"]) > 0.001, (name, clients, phase)
    assert runs["raid-x", 2, "compile"]["cpu s"]["clients"] > 0.1
    assert "weft-andrew" not in run("losetup", "-a").stdout
    assert "weft-andrew" not in run("mount").stdout
