"""bench/bench, bench/commit, bench/papers, bench/leases and bench/grants work: a short
run of each, and what they write.

Pass: every subject is measured in every workload asked for, with numbers that
      can be true; nothing of it is left behind.
"""

import importlib.util
import json
import os
import re
import tempfile

import pytest

from wefttest import SOURCE, run

BENCH = SOURCE / "bench" / "bench"
COMMIT = SOURCE / "bench" / "commit"
LEASES = SOURCE / "bench" / "leases"
PAPERS = SOURCE / "bench" / "papers"
# No other test needs it, and it is large: nothing installs it for these two.
PLOTS = importlib.util.find_spec("matplotlib") is not None


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


@pytest.mark.parametrize("program", ["bench", "counts", "leases", "papers", "scale"])
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
    # Links carried more than the data, because of headers; in a raid-x of four members a
    # quarter is on the reader's own host.
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


def rows(text):
    """{its first cell: the others} of each line of the tables; of some that begin alike
    the last one."""
    cells = [[c.strip() for c in line.split("|")[1:-1]]
             for line in text.splitlines() if line.startswith("| ")]
    return {first: others for first, *others in cells}


def test_papers_disks():
    """Each number of disks has its column."""
    p = run(PAPERS, "disks", "--quick", "--arrays", "raid-x of 4,raid-10 of 2",
            "--clients", "2")
    rates = rows(p.stdout)  # of the last work
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
    # The kernel lists the loop devices of other runs, too: so this one has a folder of its own.
    with tempfile.TemporaryDirectory(prefix="weft-test-") as d:
        p = run(PAPERS, "andrew", "--quick", "--disk-ms", "1", "--clients", "2", "--json", out,
                env={**os.environ, "TMPDIR": d})
    runs = {tuple(p["key"][1:4]): p["runs"][0] for p in json.loads(out.read_text())}
    phases = ["make", "copy", "stat", "read", "compile"]
    assert set(runs) == {(name, 2, phase) for name in ("raid-x", "central")
                         for phase in phases}
    for (name, clients, phase), r in runs.items():
        assert len(r["seconds each"]) == clients and f"| {name}, {clients} " in p.stdout
        # Reads come from the disks, again in each phase.
        assert r["seconds"] == max(r["seconds each"]) > 0.001, (name, clients, phase)
    assert runs["raid-x", 2, "compile"]["cpu s"]["clients"] > 0.1
    assert d not in run("losetup", "-a").stdout
    assert d not in run("mount").stdout


@pytest.mark.parametrize("way", ["shared", "leases"])
def test_papers_by_sessions(tmp_path, way):
    """Each of two clients reads the other's writes; earlier results measured by maps are kept
    beside the new ones."""
    out = tmp_path / "papers.json"
    key = ["raid-x", "raid-x", 2, "large write", "map", 100, 0, 256, 16]
    out.write_text(json.dumps([{"key": key, "runs": [{"MB/s": 5}]}]))
    p = run(PAPERS, "raid-x", "--way", way, "--quick", "--check", "--members", "3",
            "--clients", "2", "--part", "1", "--arrays", "raid-x",
            "--works", "large read,large write", "--json", out)
    points = {tuple(p["key"][1:5]): p["runs"][0] for p in json.loads(out.read_text())}
    assert set(points) == {("raid-x", 2, "large read", way), ("raid-x", 2, "large write", way),
                           ("raid-x", 2, "large write", "map")}
    for work in "large read", "large write":
        each = points["raid-x", 2, work, way]["MB/s each"]
        assert len(each) == 2 and min(each) > 0
        assert float(rows(p.stdout)[f"{work}: raid-x"][0]) > 0
    assert "| by map |" in p.stdout


def plot_to(file):
    return ["--plot", file] if PLOTS else []


def check_plot(file):
    """Where there is nothing to draw with, papers says so before it measures."""
    if PLOTS:
        assert file.read_bytes().startswith(b"\x89PNG")
    else:
        p = run(PAPERS, "redbud", "--plot", file, check=False)
        assert (p.returncode, p.stdout) == (1, "")
        assert p.stderr == "papers: --plot: python3-matplotlib is not installed\n"


def test_papers_replicated_pvfs(tmp_path):
    out, plot = tmp_path / "papers.json", tmp_path / "plot.png"
    p = run(PAPERS, "replicated-pvfs", "--quick", "--clients", "1", "--part", "1",
            "--json", out, *plot_to(plot))
    arrays = ["raid-0", "raid-x", "raid-10", "raid-0-half"]
    works = ["large read", "large write"]
    points = {tuple(p["key"][1:4]): p["runs"][0] for p in json.loads(out.read_text())}
    assert set(points) == {(name, 1, work) for name in arrays for work in works}
    # A client has no member on its host: its reads use its link once, and its writes once for
    # each copy.
    for (name, _, work), run_ in points.items():
        copies = 2 if name in ("raid-x", "raid-10") and "write" in work else 1
        assert copies < carried(run_) < copies * 1.2, (name, work)
    for work in works:
        for name in arrays:
            costs = rows(p.stdout)[f"{work} of 1: {name}"]
            assert len(costs) == 4 and float(costs[2].split()[0]) > 0
    # Four arrays, the paper's three, and two ratios, each with the paper's.
    rates = rows(p.stdout)["1"]
    assert all(float(cell) > 0 for cell in rates) and len(rates) == 4 + 3 + 4
    assert rates[4:7] == ["10.9", "9.8", "10.3"] and rates[8] == "0.90"
    check_plot(plot)


def test_papers_redbud(tmp_path):
    out, plot = tmp_path / "papers.json", tmp_path / "plot.png"
    p = run(PAPERS, "redbud", "--quick", "--check", "--members", "3", "--mbit", "0",
            "--json", out, *plot_to(plot))
    sizes = ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1024 KiB"]
    points = {tuple(p["key"][1:4]): p["runs"] for p in json.loads(out.read_text())}
    assert set(points) == {
        (kind, *what) for kind in ("naive", "token", "adaptive") for what in
        [*[(1, size) for size in sizes], (2, "write own, read others'"),
         (2, "write every n-th")]}
    assert all(len(runs) == 1 and runs[0]["MB/s"] > 0 for runs in points.values())
    rates, counts = map(rows, p.stdout.split("of a write, leases"))
    for first in (f"one client writes: {sizes[0]}", *sizes[1:],
                  "each writes its own and reads another's: 2 clients",
                  "each of n writes every n-th 64 KiB: 2 clients"):
        assert len(rates[first]) == 5 and all(float(cell) > 0 for cell in rates[first])
        assert len(counts[first]) == 6 and all(float(cell) > 0 for cell in counts[first])
    naive, token, *_ = map(float, counts[f"one client writes: {sizes[0]}"])
    assert naive == 1 and token < naive
    check_plot(plot)


def test_leases(in_memory):
    """Its arrays are gone afterwards."""
    p = run(LEASES, "--moves", "20", "--rounds", "1", "--seconds", "0.2",
            "--workloads", "4k-randwrite-1", env={**os.environ, "TMPDIR": in_memory})
    taken, kept = re.search(r"another host has: p50 ([0-9.]+) ms.* is here: p50 ([0-9.]+) ms",
                            p.stdout).groups()
    # The one makes a call to weftd and another to the host that had it.
    assert 0 < float(kept) < float(taken)
    costs = rows(p.stdout)
    assert costs[""] == ["by leases", "exclusive", "leases ÷ exclusive"]
    assert all(float(cell) > 0 for cell in costs["4 KiB random write, depth 1"])


@pytest.mark.parametrize("kind", ["adaptive", "naive", "token"])
@pytest.mark.parametrize("pattern", ["stream", "jump", "fight"])
def test_grants(kind, pattern):
    grants = os.path.join(os.environ["WEFT_BUILDDIR"], "bench", "grants")
    words = run(grants, "10", "5", kind, pattern, "100", "100", "10").stdout.split()
    hosts, asks, gives, _, back, one, whole, *_, grants, writes, spans, records = map(
        float, words)
    assert hosts == 10 and asks > 0 and grants > 0 and writes > 0 and spans > 0
    assert 0 < one <= whole and records == 0
    # Clients that fight take leases from others, which were asked and gave them back.
    assert pattern != "fight" or (back > 0 and gives > 0)


def test_flood():
    """All doors, at its smallest: it names those that miss the bound, if any does."""
    p = run(SOURCE / "bench" / "flood", "--rounds", "1", "--phase-s", "0.5",
            "--after-s", "0", check=False)
    doors = re.findall(r"^at     (\w+)$", p.stdout, re.M)
    ratios = re.findall(r"^ratio  ([0-9.]+) ", p.stdout, re.M)
    made = re.findall(r"^made   ([0-9]+) ", p.stdout, re.M)
    assert doors == ["weftd", "https", "member", "array"] and len(made) == 4
    assert all(int(n) > 0 for n in made), p.stdout
    missed = [door for door, ratio in zip(doors, ratios) if float(ratio) >= 3
              and len(os.sched_getaffinity(0)) > 1]
    assert re.findall(r"^flood: (\w+): the client's 99th", p.stderr, re.M) == missed
    assert p.returncode == (1 if missed else 0), p.stderr
