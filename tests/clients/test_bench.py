"""bench/bench and bench/commit work: a short run of each, and what they write.

Pass: every subject is measured in every workload asked for, with numbers that
      can be true; nothing of it is left behind.
"""

import json
import os
import re

import pytest

from wefttest import SOURCE, run

BENCH = SOURCE / "bench" / "bench"
COMMIT = SOURCE / "bench" / "commit"


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


@pytest.mark.parametrize("program", ["bench", "counts", "scale"])
def test_help(program):
    said = run(SOURCE / "bench" / program, "--help").stdout
    assert said.startswith("usage: " + program)
    if program == "bench":
        for name in ("raid-x", "raid-x-unix", "ceph", "gluster", "vitastor"):
            assert re.search(rf"^  {name} ", said, re.M), name


def test_commit(tmp_path):
    p = run(COMMIT, "--dir", tmp_path, "--subjects", "member,raid-x", "--rounds", "2",
            "--pairs", "20", "--sync-us", "5000", timeout=120)
    rows = {r[1]: r[2:] for r in map(lambda x: [c.strip() for c in x.split("|")],
                                     p.stdout.splitlines()) if len(r) > 6}
    # No pair is quicker than the sync that it waits for.
    for name in ("member", "raid-x"):
        one, eight = float(rows[name][0]), float(rows[name][3])
        assert 0 < one < 200 and one < eight < 8 * 200, rows
    assert rows["member"][2] == "1.00"
    assert os.listdir(tmp_path) == []
