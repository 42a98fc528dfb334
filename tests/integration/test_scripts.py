"""The scripts that people and tests start with: devcluster and quickstart."""

import json
import os
import subprocess

import pytest

from nbdclient import connected
from wefttest import BUILD, SOURCE, Process, http, run


def test_status_describes_every_process(cluster):
    c = cluster(members=3, size="32M")
    s = c.status()
    assert s["nbd"] == s["array"]["uri"] and s["admin"] == s["weftd"]["uri"]
    assert [m["name"] for m in s["members"]] == ["m0", "m1", "m2"]
    hosts = {m["uri"].split("/")[2].split(":")[0] for m in s["members"]}
    assert hosts == {"127.0.0.1", "127.0.0.2", "127.0.0.3"}
    for p in c.processes():
        assert p["state"] == "running" and Process(p["pid"]).alive()
    for m in s["members"]:
        assert os.path.getsize(m["file"]) == 32 << 20
        # Where the data begins, as the disk itself has it.
        disk = next(d for d in c.get("/api/v1/disks")["disks"]
                    if d["path"] == m["file"])
        assert m["data_offset"] + disk["data_bytes"] <= disk["size"]
    assert run("nbdinfo", "--size", c.nbd).stdout.strip() == str(
        c.get("/api/v1/arrays/a")["size"])


def test_kill_and_start_keep_the_port(cluster):
    c = cluster(members=3, size="32M")
    before, process = dict(c.weftd), c.process("weftd")
    c.may_end("weftd")
    c.devcluster("kill", c.dir, "weftd")
    assert not process.alive()
    assert c.status()["weftd"] == {**before, "pid": None, "state": "down"}
    c.start("weftd")
    after = c.weftd
    assert after["uri"] == before["uri"] and after["pid"] != before["pid"]
    assert c.get("/api/v1/arrays/a")["name"] == "a"


def test_stop_and_cont(cluster):
    c = cluster(members=3, size="32M")
    c.stop("m1")
    assert c.status()["members"][1]["state"] == "stopped"
    c.cont("m1")
    assert c.status()["members"][1]["state"] == "running"


def test_down_ends_its_own_processes_and_no_other(cluster):
    c = cluster(members=3, size="32M")
    other = cluster(members=3, size="32M")
    assert {p["uri"] for p in c.processes()}.isdisjoint(
        p["uri"] for p in other.processes())
    ours = [Process(p["pid"]) for p in c.processes()]
    others = [Process(p["pid"]) for p in other.processes()]
    c.stop("m0")

    # Others that have got the pid of an ended process: a stranger, a thread of one of its own,
    # and a process of its own.
    stranger = subprocess.Popen(["sleep", "1000"])
    weftd = c.pid("weftd")
    thread = max(map(int, os.listdir(f"/proc/{weftd}/task")))
    with pytest.raises(AssertionError, match="thread's number"):
        Process(thread)
    begin = c.process("m1").begin
    try:
        c.kill("m1")
        for pid in (stranger.pid, thread, weftd):
            (c.dir / "m1.pid").write_text(f"{pid} {begin - 1}\n")
            assert not c.running("m1")
            assert c.status()["members"][1]["state"] == "down"
            assert "not running" in c.devcluster("kill", c.dir, "m1",
                                                 check=False).stderr
        (c.dir / "m1.pid").write_text(f"{stranger.pid} {begin}\n")
        c.down()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    assert not any(p.alive() for p in ours)
    assert all(p.alive() for p in others)
    c.down()  # says nothing and does nothing


def test_up_again_has_the_same_data(cluster):
    c = cluster(members=3, size="32M")
    h = connected(c.nbd)
    h.pwrite(b"x" * 70000, 300000)
    h.shutdown()
    c.down()
    c.up()
    h = connected(c.nbd)
    assert h.pread(70000, 300000) == b"x" * 70000
    h.shutdown()


def test_several_writers(cluster):
    c = cluster(members=3, size="32M", writers=3)
    array, s = c.get("/api/v1/arrays/a"), c.status()
    assert [a["name"] for a in s["arrays"]] == ["array", "array1", "array2"]
    assert s["array"] == s["arrays"][0] and s["nbd"] == s["array"]["uri"]
    parts, end = [a["part"] for a in s["arrays"]], 0
    for part in parts:
        assert part["offset"] == end and end % array["unit"] == 0
        end += part["length"]
    assert end == array["size"]
    lengths = [part["length"] for part in parts]
    assert max(lengths) - min(lengths) < 2 * array["unit"]
    held = {x["node"]: x for x in c.get("/api/v1/sessions")["sessions"]}
    assert [held[f"n{i}"]["part"] for i in range(3)] == parts
    c.restart("array1")
    assert [a["part"] for a in c.status()["arrays"]] == parts
    c.down()
    assert not any(a["pid"] for a in c.status()["arrays"])
    c.up()
    assert [a["part"] for a in c.arrays] == parts
    assert all(c.running(a["name"]) for a in c.arrays)
    assert len(c.get("/api/v1/sessions")["sessions"]) == 3


def test_one_that_writes_all_has_no_part(cluster):
    c = cluster(members=3, size="32M")
    assert c.status()["arrays"] == [c.status()["array"]]
    assert c.array["part"] is None


def test_up_on_a_running_cluster_says_so(cluster):
    c = cluster(members=3, size="32M")
    p = c.devcluster("up", c.dir, check=False)
    assert p.returncode == 1 and "running already" in p.stderr
    assert "devcluster down" in p.stderr
    assert all(c.running(p["name"]) for p in c.processes())


@pytest.mark.parametrize("words, said", [
    (["--members", "0"], "must be 1 to 128"),
    (["--members", "x"], "not a number"),
    (["--size", "12q"], "not a size"),
    (["--writers", "0"], "must be 1 to 32"),
    (["--writers", "33"], "must be 1 to 32"),
    (["--writers", "2", "--no-array"], "there are none"),
    (["--writers", "20", "--unit", "4M"], "stripe units"),
    (["--name", "a b"], "not a word"),
    (["--frob", "1"], "no such option"),
    (["--layout"], "value is missing"),
    (["--layout", "raid-7"], "layout must be one of"),
    (["--members", "2"], "raid-x"),  # which needs three
])
def test_bad_options_leave_nothing_running(tmp_path, words, said):
    p = run("devcluster", "up", tmp_path / "c", "--size", "32M", *words,
            check=False)
    assert p.returncode != 0 and said in p.stderr
    for f in (tmp_path / "c").glob("*.pid"):
        assert not Process.of(f).alive()


def test_without_a_cluster(tmp_path):
    p = run("devcluster", "status", tmp_path, "--json", check=False)
    assert p.returncode == 1 and "no cluster there" in p.stderr
    run("devcluster", "down", tmp_path)
    (tmp_path / "file").write_text("precious")
    p = run("devcluster", "up", tmp_path, check=False)
    assert p.returncode == 1 and "not empty" in p.stderr
    assert (tmp_path / "file").read_text() == "precious"


def test_array_port_and_arguments(cluster, tmp_path):
    log = tmp_path / "log"
    c = cluster(members=3, size="32M", no_array=True)
    assert c.array["state"] == "down"
    assert c.get("/api/v1/arrays")["arrays"] == []
    c = cluster(members=3, size="32M", image_buffer="2M",
                env={"WEFT_ARRAY_ARGS": f"--filter=log logfile={log}"})
    run("nbdinfo", c.nbd)
    assert "Connect" in log.read_text()


class Quickstart:
    """The README's first command, with a directory of its own."""

    def __init__(self, tmp_path):
        self.dir = tmp_path / "q"
        self.words = [SOURCE / "scripts/quickstart", "--dir", self.dir,
                      "--build", BUILD]

    def run(self, *words, **kw):
        return run(*self.words, *words, timeout=300, **kw)

    def status(self):
        return json.loads(run("devcluster", "status", self.dir / "c",
                              "--json").stdout)

    def weftctl(self, *words):
        return run(self.dir / "weftctl", *words)


@pytest.mark.timeout(900)
@pytest.mark.long(60)
def test_quickstart(tmp_path):
    """Twice, with somebody using the array, and stopped."""
    q = Quickstart(tmp_path)
    state = None
    try:
        p = q.run()
        assert "all is right" in p.stdout and "killed member m2" in p.stdout
        assert "now it writes where h1 did" in p.stdout
        assert "the volume of 100M has 8M of its pool" in p.stdout
        assert "it has none, now that its blocks are discarded" in p.stdout
        assert json.loads(q.weftctl("volume", "ls", "p", "--json").stdout)["volumes"] == []
        state = q.status()
        processes = [Process(p["pid"]) for p in
                     (state["weftd"], state["array"], *state["members"]) if p["pid"]]
        assert state["members"][2]["state"] == "down"
        status, page = http("GET", state["admin"] + "/")
        assert status == 200 and page

        p = q.run()
        assert "earlier run" in p.stdout and "all is right" in p.stdout
        assert q.status() == state

        device = q.weftctl("attach", "a", "--fuse").stdout.strip()
        (tmp_path / "other").mkdir()
        run("mount", "-o", "ro", device, tmp_path / "other")
        p = q.run("stop", check=False)
        assert p.returncode == 1 and "in use" in p.stderr
        assert q.status() == state
        run("umount", tmp_path / "other")
    finally:
        q.run("stop")
    assert not q.dir.exists()
    assert not any(p.alive() for p in processes)
    assert "nothing runs" in q.run("stop").stdout


@pytest.mark.long(30)
def test_quickstart_without_mounting(tmp_path):
    q = Quickstart(tmp_path)
    try:
        p = q.run("--no-mount")
        assert "no mounting here" in p.stdout and "all is right" in p.stdout
    finally:
        q.run("stop")


def test_quickstart_spares_a_directory_that_is_not_its_own(tmp_path):
    q = Quickstart(tmp_path)
    q.dir.mkdir()
    (q.dir / "file").write_text("precious")
    for words in [[], ["stop"]]:
        p = q.run(*words, check=False)
        assert p.returncode == 1 and "not made by quickstart" in p.stderr
    assert (q.dir / "file").read_text() == "precious"
