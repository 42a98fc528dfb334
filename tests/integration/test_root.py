"""Root's commands, in folders that another user has prepared.

Topology: no cluster; user nobody has made folders, links and records.
Pass:  weftctl attach and detach, the scripts and devcluster refuse these folders, by name, and
       weft-own-disk gives no file away; no file of root's changes, and no process of root's
       ends.  Devices that an earlier weftctl attached can be detached.
"""

import json
import os
import pathlib
import pwd
import signal

import pytest

from wefttest import BUILD, SOURCE, background, eventually, run

NOBODY = pwd.getpwnam("nobody")
FAILED = 1


@pytest.fixture
def folder(tmp_path):
    """Reached by all users."""
    for p in (tmp_path, *tmp_path.parents[:2]):
        os.chmod(p, p.stat().st_mode | 0o011)
    return tmp_path


@pytest.fixture
def process(tmp_path):
    p = background(tmp_path / "log", "sleep", "1000")
    yield p
    if p.poll() is None:
        p.send_signal(signal.SIGKILL)
    p.wait()


def start_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return int(f.read().rsplit(")", 1)[1].split()[19])


def record_of(p, **more):
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    return json.dumps({"array": "a", "device": None, "kind": "none", "uri": "x",
                       "server": {"pid": p.pid, "start": start_of(p.pid)},
                       "boot": boot, **more})


def theirs(path, follow=True):
    os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=follow)


def weftctl(folder, *words):
    return run("weftctl", *words, "--timeout", "2", check=False, env={
        "WEFT_RUN_DIR": str(folder / "run"), "WEFT_CONF": "/dev/null",
        "WEFT_ADMIN": "http://127.0.0.1:9"})


def their_run_folder(f):
    (f / "run/a").mkdir(parents=True)
    theirs(f / "run/a")
    theirs(f / "run")


def open_run_folder(f):
    (f / "run/a").mkdir(parents=True)
    os.chmod(f / "run", 0o777)


def their_array_folder(f):
    (f / "run/a").mkdir(parents=True)
    theirs(f / "run/a")
    os.chmod(f / "run", 0o1777)


def their_link(f):
    (f / "real/a").mkdir(parents=True)
    os.symlink("real", f / "run")
    theirs(f / "run", follow=False)


def link_to_array(f):
    (f / "real").mkdir()
    (f / "run").mkdir()
    os.symlink("../real", f / "run/a")


def their_way(f):
    (f / "run").mkdir()
    theirs(f)


def their_record(f):
    (f / "run/a").mkdir(parents=True)
    (f / "run/a/attach.json").touch()
    theirs(f / "run/a/attach.json")


@pytest.mark.parametrize("prepare", [
    their_run_folder, open_run_folder, their_array_folder, their_link, link_to_array,
    their_way, their_record], ids=lambda f: f.__name__)
def test_attach_in_a_hostile_folder(folder, process, prepare):
    victim = folder / "victim"
    victim.write_text("root's\n")
    prepare(folder)
    array = folder / "run/a"
    array.mkdir(exist_ok=True)
    (array / "attach.json").write_text(record_of(process))
    for file in ("attach.json.new", "nbdkit.log", "nbd.sock", "nbdkit.pid"):
        os.symlink(victim, array / file)
    for command in ("attach", "detach"):
        p = weftctl(folder, command, "a")
        assert p.returncode == FAILED and str(array) in p.stderr, p
        assert "another user" in p.stderr or "link" in p.stderr or \
            "no file of this user" in p.stderr, p.stderr
    assert victim.read_text() == "root's\n" and process.poll() is None
    assert os.readlink(array / "nbdkit.log") == str(victim)


@pytest.mark.parametrize("record", ["another", "later"])
def test_detach_ends_no_other_process(folder, process, record):
    """The record of another array; the number of a process that was started later."""
    (folder / "run/a").mkdir(parents=True)
    server = {"pid": process.pid, "start": start_of(process.pid) - 1}
    text = record_of(process, **(
        {"array": "b"} if record == "another" else {"server": server}))
    (folder / "run/a/attach.json").write_text(text)
    p = weftctl(folder, "detach", "a")
    assert p.returncode == (FAILED if record == "another" else 0), p
    assert process.poll() is None


def from_run_weft(folder, prepare, command="detach"):
    """Where /run is an empty one."""
    return run("unshare", "--mount", "sh", "-euc", f"""
        mount -t tmpfs -o mode=755 none /run
        mkdir -m 755 /run/weft && mkdir -m 700 /run/weft/a
        cp {folder}/record /run/weft/a/attach.json
        chown nobody /run/weft
        {prepare}
        status=0
        weftctl {command} a --timeout 1 || status=$?
        stat -c %U:%a /run/weftctl
        ls /run/weftctl
        ls /run/weft
        exit $status""", check=False, env={
            "WEFT_RUN_DIR": "", "WEFT_CONF": "/dev/null",
            "WEFT_ADMIN": "http://127.0.0.1:9"})


def test_detach_what_an_earlier_version_attached(folder, process):
    (folder / "record").write_text(record_of(process))
    p = from_run_weft(folder, "chown nobody /run/weft/a")
    assert p.returncode == FAILED and "has not attached it" in p.stderr, p
    assert process.poll() is None
    p = from_run_weft(folder, "")
    assert p.returncode == 0 and p.stdout.split("\n")[1:] == ["root:700", ""], p
    eventually(lambda: process.poll() is not None, what="the array process to end")


@pytest.mark.parametrize("prepare, why", [
    ("exec 9</run/weft/a; flock 9", "try again when it is done"),
    ("mkdir /run/weftctl; mount -t tmpfs -o mode=700 none /run/weftctl", "cross-device"),
], ids=["locked", "other file system"])
def test_an_earlier_version_s_record_that_stays(folder, process, prepare, why):
    """Neither is the array said not to be attached, nor attached a second time."""
    (folder / "record").write_text(record_of(process))
    for command in ("detach", "attach"):
        p = from_run_weft(folder, prepare, command)
        assert p.returncode == FAILED and why in p.stderr, p
        assert p.stdout.split() == ["root:700", "a"] and process.poll() is None, p


def test_the_link_to_what_an_earlier_version_attached(folder, tmp_path):
    """A running process finds its files by the old path; root uses the new path; detach
    removes the old one."""
    p = background(tmp_path / "log", "env", "--ignore-signal=TERM", "sleep", "1000")
    try:
        comm = pathlib.Path(f"/proc/{p.pid}/comm")
        eventually(lambda: comm.read_text() == "sleep\n")
        (folder / "record").write_text(
            record_of(p, uri="nbd+unix:///?socket=/run/weft/a/nbd.sock"))
        said = from_run_weft(folder, f"""
            ! weftctl detach a --timeout 1
            readlink /run/weft/a
            grep -o 'socket=[^"]*' /run/weftctl/a/attach.json
            kill -9 {p.pid}""")
        assert said.returncode == 0 and said.stdout.splitlines() == [
            "/run/weftctl/a", "socket=/run/weftctl/a/nbd.sock", "array a: detached",
            "root:700"], said
    finally:
        p.kill()
        p.wait()


def test_own_disk(folder):
    """A disk's name leads to a file of an administrator's, and not to what its user puts
    in the way."""
    own = f"{BUILD}/attach/weft-own-disk"
    disk, victim = folder / "disk", folder / "victim"
    victim.touch(0o640)

    def owner(path):
        return path.stat().st_uid, path.stat().st_mode & 0o7777

    for _ in range(2):  # the second start finds it given away
        disk.touch(0o644)
        run(own, "nobody", disk)
        assert owner(disk) == (NOBODY.pw_uid, 0o600)
    (folder / "by-id").mkdir()
    os.symlink("../disk", folder / "by-id/one")
    os.chown(disk, 0, 0)
    run(own, "nobody", folder / "by-id/one")
    assert owner(disk) == (NOBODY.pw_uid, 0o600)

    hostile = folder / "hostile"
    hostile.mkdir()
    os.symlink(victim, hostile / "link")
    os.link(victim, hostile / "file")
    theirs(hostile)
    os.symlink(hostile / "link", folder / "to-link")
    os.mkfifo(folder / "fifo")
    # In a folder where all may make files a file of another user is refused, and so is one
    # with two names.
    sticky = folder / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    for name in ("theirs", "two-names", "ours"):
        (sticky / name).touch(0o600)
    theirs(sticky / "theirs")
    os.link(sticky / "two-names", sticky / "second-name")
    for name in ("theirs", "two-names"):
        p = run(own, "daemon", sticky / name, check=False)
        assert p.returncode == 1 and "another user" in p.stderr, p
    assert owner(sticky / "theirs") == (NOBODY.pw_uid, 0o600)
    assert owner(sticky / "two-names") == (0, 0o600)
    run(own, "daemon", sticky / "ours")
    for path in (hostile / "link", hostile / "file", folder / "to-link",
                 folder / "fifo", folder, folder / "missing", "relative"):
        p = run(own, "nobody", path, check=False)
        assert p.returncode == 1 and "is not given" in p.stderr, (path, p)
    assert owner(victim) == (0, 0o640)
    assert owner(folder)[0] == 0


@pytest.mark.parametrize("mode, user, group, root_fine, cluster_fine", [
    (0o755, 0, 0, True, True), (0o775, 0, 0, True, True),
    (0o1777, 0, 0, True, False), (0o777, 0, 0, False, False),
    (0o775, 0, NOBODY.pw_gid, False, False), (0o755, 0, NOBODY.pw_gid, True, True),
    (0o755, NOBODY.pw_uid, 0, False, False)])
def test_folders_of_scripts(folder, mode, user, group, root_fine, cluster_fine):
    """--root DIR, and the folder of devcluster."""
    at = folder / "at"
    at.mkdir()
    os.chown(at, user, group)
    at.chmod(mode)
    for fine, p in [
            (root_fine, run("sh", "-euc", '. "$1"; use_root "$2"', "sh",
                            SOURCE / "scripts/weft-lib.sh", at, check=False)),
            (cluster_fine, run("devcluster", "down", at, check=False))]:
        assert (p.returncode == 0) == fine, p
        assert fine or (f"{at}" in p.stderr and "another user" in p.stderr)
