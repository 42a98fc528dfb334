"""weftctl attach and detach on a real cluster, with a real ext4 on what they
make.

Topology: one devcluster for each test, with or without its array process.
Pass: the device is there, holds what was written, and is gone after detach; an
error is one line that names the thing, and leaves nothing behind.
"""

import json
import mmap
import os
import re
import struct
import subprocess

import pytest

from nbdclient import connected
from nbdkitproc import Nbdkit
from servedarray import Served
from weftctlproc import FAILED, OK, REFUSED, USAGE, ctl
from wefttest import Process, Stopwatch, background, digest, eventually, http, run

MIB = 1 << 20


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read().strip()


def session(c):
    return c.get("/api/v1/arrays/a")["session"]


def write_tree(device, where):
    """A real ext4 with a real tree on it; returns the checksums."""
    os.makedirs(where, exist_ok=True)
    run("mkfs.ext4", "-q", device)
    run("mount", device, where)
    try:
        run("cp", "-r", "/usr/share/doc/bash", "/usr/share/doc/coreutils",
            where)
        return tree(where)
    finally:
        run("umount", where)


def tree(where):
    found = {}
    for root, _, names in os.walk(where):
        for name in names:
            path = os.path.join(root, name)
            found[os.path.relpath(path, where)] = digest(path)
    assert found
    return found


def read_tree(device, where):
    run("mount", "-o", "ro", device, where)
    try:
        return tree(where)
    finally:
        run("umount", where)


def test_attach_starts_an_array_process(cluster, ctl, tmp_path):
    """No array process: attach starts one, and detach ends it."""
    c = cluster(members=4, size="64M")
    w = ctl(c)
    c.terminate("array")
    mnt = str(tmp_path / "mnt")

    device = w("attach", "a", "--fuse").strip()
    assert re.fullmatch(r"/dev/loop\d+", device)
    size = c.get("/api/v1/arrays/a")["size"]
    assert int(run("blockdev", "--getsize64", device).stdout) == size
    first = session(c)
    process = Process(first["pid"])
    assert first["uri"].startswith("nbd+unix:///?socket=/tmp/weft-run-")
    assert first["mode"] == "rw"
    # Again is no second time.
    assert w("attach", "a", "--fuse").strip() == device
    assert w.json("attach", "a")["device"] == device
    assert session(c)["session"] == first["session"]

    files = write_tree(device, mnt)
    run("mount", device, mnt)
    line = w("detach", "a", status=FAILED)
    assert device in line and mnt in line
    assert tree(mnt) == files
    run("umount", mnt)

    assert w("detach", "a") == "array a: detached\n"
    assert not process.alive()
    # The kernel releases it when no process has it open, even one that only probes it.
    # Another's device may have its number by then: so it is known by its file.
    eventually(lambda: w.env["WEFT_RUN_DIR"] not in run("losetup", "-a").stdout)
    assert session(c) is None
    assert "not attached it" in w("detach", "a", status=FAILED)

    device = w("attach", "a", "--fuse", "--connections", "1").strip()
    assert session(c)["session"] != first["session"]
    assert read_tree(device, mnt) == files
    run("e2fsck", "-fn", device)
    assert w.json("detach", "a") == {"array": "a", "detached": True}


def test_partitions(cluster, ctl, tmp_path):
    """As on any disk: partitions appear, are there again, and a mounted one is in use."""
    c = cluster(members=3, size="64M")
    w = ctl(c)
    mnt = str(tmp_path / "mnt")
    device = w("attach", "a", "--fuse").strip()
    assert run("blockdev", "--getss", device).stdout == "512\n"
    # A kernel that knows partition tables finds them by itself then.
    assert read(f"/sys/block/{os.path.basename(device)}/loop/partscan") == "1"
    with open(device, "r+b") as f:
        f.seek(446)
        f.write(struct.pack("<B3xB3xII", 0, 0x83, 2048, 65536))
        f.seek(510)
        f.write(b"\x55\xaa")
    run("partx", "--update", device)  # as fdisk has a kernel do that knows the table
    files = write_tree(device + "p1", mnt)
    run("mount", device + "p1", mnt)
    line = w("detach", "a", status=FAILED)
    assert f"{device}p1 is still mounted on {mnt}" in line
    assert tree(mnt) == files
    run("umount", mnt)
    w("detach", "a")
    assert not os.path.exists(device + "p1")

    device = w("attach", "a", "--fuse").strip()
    assert read_tree(device + "p1", mnt) == files
    run("e2fsck", "-fn", device + "p1")
    w("detach", "a")
    assert not os.path.exists(device + "p1")


def test_attach_uses_the_array_process_of_this_host(cluster, ctl, tmp_path):
    """It is found although it calls its node n0, and is left running."""
    c = cluster(members=3, size="64M")
    w = ctl(c)
    before = session(c)
    mnt = str(tmp_path / "mnt")

    device = w("attach", "a", "--fuse").strip()
    files = write_tree(device, mnt)
    w("detach", "a")
    assert session(c)["session"] == before["session"]
    device = w("attach", "a", "--fuse", "--node", "n0").strip()
    assert read_tree(device, mnt) == files
    w("detach", "a")
    assert session(c)["session"] == before["session"]
    assert c.status()["array"]["state"] == "running"


def claim(c, pid, uri):
    """Node n8 has a session, and says that it is of this process, behind this URI."""
    status, reply = http("POST", f"{c.admin}/api/v1/arrays/a/sessions", {
        "instance": "e", "node": "n8", "pid": pid, "mode": "ro", "uri": uri})[:2]
    assert status == 201, reply


@pytest.mark.parametrize("words,user", [
    # An array process here, of which weftd knows no URI; or another one.
    (["array=a"], 0),
    (["array=a", "uri=nbd://127.0.0.1:9"], 0),
    # Any local user may start a program with such words.
    (["array=a", "uri={}"], 65534),
    (["array=b", "uri={}"], 0),
    (["uri={}"], 0)])
def test_a_session_of_another_node(cluster, ctl, tmp_path, words, user):
    """Another node may name the number of a process here in its session: the server that it
    names is not used for that."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    c.terminate("array")
    with Nbdkit("memory", "32M") as other:
        p = background(tmp_path / "log", "setpriv", "--reuid", str(user), "sh", "-c",
                       "sleep 1000; true", "sh", *(x.format(other.uri) for x in words))
        try:
            eventually(lambda: cmdline(p.pid).startswith("sh\0"))
            claim(c, p.pid, other.uri)
            used = w("attach", "a", "--read-only", "--print-uri").strip()
            assert used != other.uri
            w("detach", "a")
        finally:
            p.kill()
            p.wait()


def test_a_session_of_another_name(cluster, ctl, tmp_path):
    """A process here that gives itself another node's name is found by its words."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    c.terminate("array")
    with Nbdkit("memory", "32M") as other:
        p = background(tmp_path / "log", "sh", "-c", "sleep 1000; true", "sh", "array=a",
                       f"uri={other.uri}")
        try:
            eventually(lambda: cmdline(p.pid).startswith("sh\0"))
            claim(c, p.pid, other.uri)
            assert w("attach", "a", "--read-only", "--print-uri").strip() == other.uri
        finally:
            p.kill()
            p.wait()


def cmdline(pid):
    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
        return f.read()


def test_attach_without_a_choice(cluster, ctl):
    """Neither --fuse nor an nbd in the kernel: falls back and says so; with
    one it is used."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    p = run("weftctl", "attach", "a", env=w.env)
    if os.path.exists("/sys/block/nbd0"):
        assert p.stdout.startswith("/dev/nbd") and p.stderr == ""
    else:
        assert p.stdout.startswith("/dev/loop")
        assert "no nbd" in p.stderr and "nbdfuse" in p.stderr
    device = p.stdout.strip()
    with open(device, "r+b", buffering=0) as f:
        f.write(b"weft" * 1024)
        os.fsync(f.fileno())
    w("detach", "a")
    h = connected(c.nbd)
    assert h.pread(4096, 0) == b"weft" * 1024
    h.shutdown()


def test_print_uri(cluster, ctl):
    c = cluster(members=3, size="32M")
    w = ctl(c)
    size = c.get("/api/v1/arrays/a")["size"]

    # A running process is found, and nothing is recorded.
    assert w("attach", "a", "--print-uri").strip() == c.nbd
    assert os.listdir(w.env["WEFT_RUN_DIR"]) == []

    c.terminate("array")
    uri = w("attach", "a", "--print-uri").strip()
    assert uri.startswith("nbd+unix:///?socket=/")
    info = json.loads(run("qemu-img", "info", "--output=json", uri).stdout)
    assert info["virtual-size"] == size
    assert run("nbdinfo", "--size", uri).stdout.strip() == str(size)
    # A device may follow, over the same process.
    pid = session(c)["pid"]
    assert w("attach", "a", "--fuse").startswith("/dev/loop")
    assert session(c)["pid"] == pid
    assert w("attach", "a", "--print-uri").strip() == uri
    w("detach", "a")
    assert session(c) is None


def test_read_only(cluster, ctl, tmp_path):
    c = cluster(members=3, size="64M")
    w = ctl(c)
    mnt = str(tmp_path / "mnt")
    files = write_tree(w("attach", "a", "--fuse").strip(), mnt)
    assert "read-only" not in w("attach", "a", "--read-only", "--fuse",
                                status=FAILED)
    w("detach", "a")
    c.terminate("array")

    device = w("attach", "a", "--fuse", "--read-only").strip()
    assert session(c) is None
    assert [s["mode"] for s in c.get("/api/v1/arrays/a")["sessions"]] == ["ro"]
    assert run("blockdev", "--getro", device).stdout == "1\n"
    with pytest.raises(OSError):
        with open(device, "r+b", buffering=0) as f:
            f.write(bytes(4096))
    assert read_tree(device, mnt) == files
    w("detach", "a")


def test_shared(cluster, ctl, tmp_path):
    """Through the array's service: the serving process may fail meanwhile."""
    c = cluster(members=3, size="64M")
    w = ctl(c)
    s = Served(c)
    try:
        # Nobody serves it, and the array itself is not to be had.
        assert "--shared" in w("attach", "a", "--print-uri", status=REFUSED)
        assert w("attach", "a", "--fuse", "--force", status=USAGE)
        assert w("attach", "a", "--shared", "--takeover", status=USAGE)
        s.stand_by("s0")
        s.stand_by("s1")
        device = w("attach", "a", "--shared", "--fuse").strip()
        assert w("attach", "a", "--shared").strip() == device
        assert w("attach", "a", "--service").strip() == device  # its former name
        assert "its service" in w("attach", "a", status=FAILED)
        mnt = str(tmp_path / "mnt")
        files = write_tree(device, mnt)
        s.move("s1")
        assert s.ended("s0") == 0
        assert read_tree(device, mnt) == files
        w("detach", "a")
        uri = w("attach", "a", "--shared", "--print-uri").strip()
        assert connected(uri).get_size() == c.get("/api/v1/arrays/a")["size"]
        w("detach", "a")
        assert os.listdir(w.env["WEFT_RUN_DIR"]) == []
    finally:
        s.end()


def partitioned(file):
    """An ext4 in the second of two partitions of a DOS disk."""
    run("mkfs.ext4", "-q", "-E", f"offset={8 * MIB}", file, "12M")
    sectors = MIB // 512
    with open(file, "r+b") as f:
        f.seek(446)
        for start, count in ((1, 4), (8, 16)):
            f.write(struct.pack("<B3xB3xII", 0, 0x83, start * sectors,
                                count * sectors))
        f.seek(510)
        f.write(b"\x55\xaa")


def ocfs2(file):
    run("/sbin/mkfs.ocfs2", "-q", "-x", "-F", "-b", "4K", "-C", "4K", "-N", "2",
        "-J", "size=4M", "--cluster-stack=o2cb", "--cluster-name=weft", file)


@pytest.mark.parametrize("make, found", [
    (lambda f: run("mkfs.ext4", "-q", "-L", "home", f),
     'an ext4 file system labelled "home"'),
    (partitioned, "an ext4 file system"),
    (lambda f: run("/sbin/mkfs.xfs", "-q", "--unsupported", f), "an xfs file system"),
    (lambda f: run("mkswap", f), "swap space"),
    (ocfs2, None), (lambda f: None, None)],
    ids=["ext4", "partition", "xfs", "swap", "ocfs2", "blank"])
def test_shared_of_one_hosts_file_system(cluster, ctl, tmp_path, make, found):
    """A content that two hosts would destroy is not attached, unless forced."""
    image = tmp_path / "image"
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    make(image)
    c = cluster(members=2, layout="raid-1", size="80M")
    run("nbdcopy", image, c.nbd)
    c.terminate("array")
    w = ctl(c)
    # Without a service it is shared by leases.
    if found:
        assert found in w("attach", "a", "--shared", "--fuse", status=FAILED)
        assert os.listdir(w.env["WEFT_RUN_DIR"]) == []
    else:
        w("attach", "a", "--shared", "--fuse")
        assert c.get("/api/v1/sessions")["sessions"][0]["leases"]
        w("detach", "a")
    c.start("array")
    s = Served(c)
    try:
        s.stand_by("s0")
        if found:
            said = w("attach", "a", "--shared", "--fuse", status=FAILED)
            assert found in said and "--force" in said, said
            assert os.listdir(w.env["WEFT_RUN_DIR"]) == []
            w("attach", "a", "--shared", "--fuse", "--read-only")
            w("detach", "a")
            w("attach", "a", "--shared", "--print-uri")
            w("detach", "a")
            assert w.json("attach", "a", "--shared", "--fuse",
                          "--force")["unseen"] is False
            # As an attach leaves it that was killed before anybody had looked.
            record = os.path.join(w.env["WEFT_RUN_DIR"], "a", "attach.json")
            with open(record) as f:
                left = json.load(f)
            with open(record, "w") as f:
                json.dump({**left, "unseen": True}, f)
            assert found in w("attach", "a", "--shared", "--fuse", status=FAILED)
            assert os.listdir(w.env["WEFT_RUN_DIR"]) == []
            w("attach", "a", "--shared", "--fuse", "--force")
        else:
            w("attach", "a", "--shared", "--fuse")
        w("detach", "a")
    finally:
        s.end()


def test_attach_refused(cluster, ctl):
    c = cluster(members=3, size="32M")
    w = ctl(c)
    assert "b" in w("attach", "b", "--fuse", status=REFUSED)
    assert "b" in w("attach", "b", "--print-uri", status=REFUSED)
    assert os.listdir(w.env["WEFT_RUN_DIR"]) == []
    # No room for the address of a socket.
    long = "/tmp/" + "x" * 100
    p = run("weftctl", "attach", "a", env={**w.env, "WEFT_RUN_DIR": long},
            check=False)
    assert p.returncode == FAILED and "WEFT_RUN_DIR" in p.stderr
    assert not os.path.exists(long)
    p = run("weftctl", "attach", "a", env={**w.env, "WEFT_RUN_DIR": "run"},
            check=False)
    assert p.returncode == USAGE and "absolute" in p.stderr
    line = w("detach", "b", status=FAILED)
    assert "array b: " in line and "nothing to detach" in line
    assert "not attached" in w("detach", "a", "--json", status=FAILED)


def test_attach_at_the_same_time(cluster, ctl):
    """Four at once: one of them attaches, the others see that."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    c.terminate("array")
    four = [subprocess.Popen(["weftctl", "attach", "a", "--fuse"], text=True,
                             env={**os.environ, **w.env},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE) for _ in range(4)]
    said = [p.communicate(timeout=120) for p in four]
    assert [p.returncode for p in four] == [OK] * 4, said
    assert len({out for out, _ in said}) == 1
    assert len(c.get("/api/v1/arrays/a")["sessions"]) == 1
    w("detach", "a")


def test_attach_with_a_member_out(cluster, ctl):
    """The other members' data is all there, and the member is caught up."""
    c = cluster(members=4, size="32M", io_timeout=2000)
    w = ctl(c)
    h = connected(c.nbd)
    c.kill("m1")
    h.pwrite(b"degraded" * MIB, 0)
    h.flush()
    h.shutdown()
    eventually(lambda: c.get("/api/v1/arrays/a")["state"] == "degraded")
    c.terminate("array")
    device = w("attach", "a", "--fuse").strip()
    assert c.get("/api/v1/arrays/a")["members"][1]["state"] == "out"
    with open(device, "rb", buffering=0) as f:
        assert f.read(8 * MIB) == b"degraded" * MIB
    c.start("m1")
    w("rebuild", "wait", "a", "1")
    assert c.get("/api/v1/arrays/a")["state"] == "ready"
    w("detach", "a")


def test_attach_survives_the_death_of_the_array_process(cluster, ctl):
    """kill -9 of the nbdkit that attach started: the next attach starts another one."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    c.terminate("array")
    device = w("attach", "a", "--fuse").strip()
    with open(device, "r+b", buffering=0) as f:
        f.write(b"flushed!" * 512)
        os.fsync(f.fileno())
    dead = session(c)
    Process(dead["pid"]).kill()
    # Its own host need not wait until the dead one has been silent for its time.
    watch = Stopwatch(disk=True)
    p = run("weftctl", "attach", "a", "--fuse", env=w.env)
    assert watch.seconds() < 5
    assert "could not be flushed" in p.stderr
    assert session(c)["session"] != dead["session"]
    with open(p.stdout.strip(), "rb", buffering=0) as f:
        assert f.read(4096) == b"flushed!" * 512
    w("detach", "a")


def evict(c):
    """As an administrator does; the array process lives, and hears of it."""
    over = session(c)
    assert c.call("DELETE", f"/api/v1/sessions/{over['session']}")[0] == 200
    return over


def reads(device):
    try:
        fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return False
    try:
        return os.readv(fd, [mmap.mmap(-1, 4096)]) == 4096
    except OSError:
        return False
    finally:
        os.close(fd)


def test_attach_after_an_eviction(cluster, ctl, tmp_path):
    """The attached device answers no I/O: attach replaces it, but not under a mounted file
    system."""
    c = cluster(members=3, size="64M")
    w = ctl(c)
    c.terminate("array")
    mnt = str(tmp_path / "mnt")
    device = w("attach", "a", "--fuse").strip()
    files = write_tree(device, mnt)
    run("mount", "-o", "ro", device, mnt)
    try:
        process = Process(session(c)["pid"])
        evict(c)
        eventually(lambda: not reads(device))
        p = run("weftctl", "attach", "a", "--fuse", env=w.env, check=False)
    finally:
        run("umount", mnt)
    assert p.returncode == FAILED and p.stdout == "", p
    said = p.stderr.splitlines()
    assert device in said[0] and "fails: Input/output error" in said[0]
    assert f"still mounted on {mnt}" in said[1]

    p = run("weftctl", "attach", "a", "--fuse", env=w.env)
    assert f"each read from {device} fails" in p.stderr
    new = p.stdout.strip()
    assert reads(new) and read_tree(new, mnt) == files
    assert not process.alive()
    assert session(c)["pid"] != process.pid
    assert w("attach", "a", "--fuse").strip() == new
    w("detach", "a")


def test_attach_finds_only_an_evicted_one(cluster, ctl):
    """The array process is another's, so attach can't end it: no device is left,
    and none is printed."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    uri = w("attach", "a", "--print-uri").strip()
    # It listens where systemd would.
    c.terminate("array")
    socket = f"{w.env['WEFT_RUN_DIR']}/a.sock"
    with Nbdkit("weft", "array=a", f"admin={c.admin}", f"uri={uri}",
                "node=n9") as a:
        os.symlink(a.socket, socket)
        try:
            # Evicted before it serves, it ends, and nobody is found.
            run("nbdinfo", "--size", a.uri)
            evict(c)
            eventually(lambda: "evicted" in a.log())
            line = w("attach", "a", "--fuse", status=FAILED)
        finally:
            os.unlink(socket)
        assert "evicted" in line and "systemctl restart" in line
        assert os.listdir(w.env["WEFT_RUN_DIR"]) == []


def test_print_uri_after_an_eviction(cluster, ctl):
    c = cluster(members=3, size="32M")
    w = ctl(c)
    c.terminate("array")
    w("attach", "a", "--print-uri")
    old = evict(c)
    uri = w("attach", "a", "--print-uri").strip()
    assert session(c)["session"] != old["session"]
    run("nbdcopy", uri, "null:")
    w("detach", "a")


def test_detach_beside_a_copy_of_the_mounts(cluster, ctl):
    """As a container may have one: nbdfuse's file stays mounted there."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    fuse = Process(w.json("attach", "a", "--fuse")["fuse"]["pid"])
    with subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             "grep -c $0/ /proc/self/mountinfo; exec cat",
             w.env["WEFT_RUN_DIR"]], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == "1\n"
        w("detach", "a")
        assert not fuse.alive()
        assert os.listdir(w.env["WEFT_RUN_DIR"]) == []
        assert other.poll() is None


def test_detach_after_the_death_of_nbdfuse(cluster, ctl):
    c = cluster(members=3, size="32M")
    w = ctl(c)
    Process(w.json("attach", "a", "--fuse")["fuse"]["pid"]).kill()
    p = run("weftctl", "detach", "a", env=w.env, check=False)
    assert p.returncode in (OK, FAILED)
    assert "Traceback" not in p.stderr
    w("detach", "a", status=FAILED)
    # Another's device may have its number by now: so it is known by its file.
    assert w.env["WEFT_RUN_DIR"] not in run("losetup", "-a").stdout
    assert w.env["WEFT_RUN_DIR"] not in open("/proc/mounts").read()
    # detach works without weftd, too.
    w("attach", "a", "--fuse")
    assert w.env["WEFT_RUN_DIR"] in run("losetup", "-a").stdout
    c.kill("weftd")
    w("detach", "a")
    assert w.env["WEFT_RUN_DIR"] not in run("losetup", "-a").stdout


# --- All of the array, beside other hosts, by leases ----------------------------------


def test_each_attaches_all(cluster, ctl):
    """This host's weftctl, and the array process of another: both write all over, and
    each reads what the other wrote."""
    c = cluster(members=3, size="64M")
    c.terminate("array")
    w = ctl(c)
    shared = ["attach", "a", "--shared", "--fuse", "--node", "h2"]
    # As of another host its number is none of this one's.
    with Nbdkit("weft", "array=a", f"admin={c.admin}", "node=h1", "mode=shared",
                wrap=["unshare", "--pid", "--fork", "--kill-child"]) as other:
        device = w(*shared).strip()
        assert {(s["node"], s["mode"], s["leases"], s["part"])
                for s in c.get("/api/v1/sessions")["sessions"]} == \
            {(n, "shared", True, None) for n in ("h1", "h2")}
        h = connected(other.uri)
        with open(device, "r+b", buffering=0) as f:
            for i in range(3):
                h.pwrite(bytes([i + 1]) * 4096, 4096 * i)
                h.flush()
                f.seek(4096 * i)
                f.write(b"2" * 4096)
                os.fsync(f.fileno())
                assert h.pread(4096, 4096 * i) == b"2" * 4096
        h.shutdown()
        shown = c.get("/api/v1/arrays/a/leases")
        assert shown["shared"] and shown["conflicts"] >= 3
        assert "h1" in w("array", "leases", "a")

        # The same command gives the same device; other options are refused.
        assert w(*shared).strip() == device
        line = w("attach", "a", "--node", "h2", status=FAILED)
        assert "beside other hosts" in line and "detach" in line
        for words, status in ((["--part", "0+8M"], FAILED), ([], REFUSED)):
            line = ctl(c)("attach", "a", *words, "--node", "h3", status=status)
            assert "h1" in line or "h2" in line, line
        assert len(c.get("/api/v1/sessions")["sessions"]) == 2
        w("detach", "a")
        assert [s["node"] for s in c.get("/api/v1/sessions")["sessions"]] == \
            ["h1"]
        assert os.listdir(w.env["WEFT_RUN_DIR"]) == []


def test_shared_has_no_such_array(cluster, ctl):
    c = cluster(members=3, size="32M", no_array=True)
    w = ctl(c)
    assert "b" in w("attach", "b", "--shared", status=REFUSED)
    assert os.listdir(w.env["WEFT_RUN_DIR"]) == []


# --- A part of the array, beside other hosts ----------------------------------------


def parts_of(c):
    return {s["node"]: s["part"] for s in c.get("/api/v1/sessions")["sessions"]}


def test_each_attaches_a_part(cluster, ctl):
    """Two hosts' weftctl, each with a run directory of its own."""
    c = cluster(members=3, size="64M")
    c.terminate("array")
    size = c.get("/api/v1/arrays/a")["size"]
    h1, h2 = ctl(c), ctl(c)
    first = h1("attach", "a", "--part", "0+8M", "--print-uri", "--node",
               "h1").strip()
    second = h2("attach", "a", "--part", "8M+", "--fuse", "--node",
                "h2").strip()
    assert parts_of(c) == {"h1": {"offset": 0, "length": 8 * MIB},
                           "h2": {"offset": 8 * MIB, "length": size - 8 * MIB}}
    h = connected(first)
    h.pwrite(b"1" * 4096, 8 * MIB - 4096)
    h.flush()
    with open(second, "r+b", buffering=0) as f:
        f.seek(8 * MIB)
        f.write(b"2" * 4096)
        os.fsync(f.fileno())
        f.seek(0)
        f.write(b"2" * 4096)
        with pytest.raises(OSError):
            os.fsync(f.fileno())  # the page cache writes it now
    assert h.pread(4096, 8 * MIB) == b"2" * 4096
    assert h.pread(4096, 0) == bytes(4096)
    h.shutdown()

    # The same command gives the same device; other options are refused.
    assert h1("attach", "a", "--part", "0+8M", "--print-uri", "--node",
              "h1").strip() == first
    line = h1("attach", "a", "--part", "0+4M", "--node", "h1", status=FAILED)
    assert "another part" in line and "detach" in line
    line = h1("attach", "a", "--node", "h1", status=FAILED)
    assert "a part of it alone" in line
    line = ctl(c)("attach", "a", "--part", "4M+8M", "--node", "h3",
                  status=FAILED)
    assert "h1" in line and "h2" not in line
    line = ctl(c)("attach", "a", "--node", "h3", status=REFUSED)
    assert "h1" in line or "h2" in line
    assert len(parts_of(c)) == 2

    h1("detach", "a")
    assert set(parts_of(c)) == {"h2"}
    h2("detach", "a")
    assert parts_of(c) == {}


def test_parts_are_taken_over(cluster, ctl):
    """By one that is to write all: each that writes is ended."""
    c = cluster(members=3, size="64M", writers=2)
    for a in c.arrays:
        c.may_end(a["name"])
    w = ctl(c)
    line = w("attach", "a", "--takeover", "--print-uri", "--node", "h9",
             status=USAGE)
    assert "--yes" in line
    assert set(parts_of(c)) == {"n0", "n1"}
    w("attach", "a", "--takeover", "--print-uri", "--node", "h9", "--yes")
    assert parts_of(c) == {"h9": None}
    w("detach", "a")


@pytest.mark.parametrize("words", [
    ["--part", ""], ["--part", "4M"], ["--part", "x+4M"], ["--part", "4M+x"],
    ["--part", "0+0"], ["--part", "+4M"], ["--part", "-1+4M"],
    ["--part", "0+9E9"], ["--part", "0+4M", "--read-only"],
    ["--part", "0+4M", "--shared"], ["--part", "0+4M", "--takeover"]])
def test_bad_parts(cluster, ctl, words):
    c = cluster(members=3, size="32M", no_array=True)
    line = ctl(c)("attach", "a", *words, status=USAGE)
    assert words[-1] in line or "--part" in line, line
