"""weftd's state is put back from a backup, and weftd goes on with it.

Topology: one raid-x devcluster of four, with an array process; or a weftd alone.
Causes: a backup is put back after a member was replaced, a disk got another key, another
        array was made, and weftd was started again; weftd --restore is ended before each
        of its changes of the directory; a wrong passphrase, a file that is cut off, changed
        or of something else; the file system of the state is full.
Pass:   All flushed data is there.  Former writers are ended.  Doubtful state is reported.  An
        interrupted restore has changed nothing, or is run once more.  weftd goes on when there
        is room again.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import stat

import nbd
import pytest

from arraystate import content, wait_in_sync, wait_state
from copies import check_copies, model_of
from nbdclient import connected
from weftctlproc import FAILED, ctl
from wefttest import background, eventually, free_port, http, run

UNIT = 64 << 10
DATA = 8 << 20


def fill(uri, data):
    h = connected(uri)
    for at in range(0, len(data), 1 << 20):
        h.pwrite(data[at:at + (1 << 20)], at)
    h.flush()
    h.shutdown()


def read(uri):
    h = connected(uri)
    data = b"".join(h.pread(1 << 20, at) for at in range(0, DATA, 1 << 20))
    h.shutdown()
    return data


def refuses(uri):
    try:
        read(uri)
    except nbd.Error as e:
        return e.errno == "ESHUTDOWN"
    return False


def secret(path, text):
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


def restore(state, file, *words, check=True, env=None):
    return run("weftd", "--state", state, "--restore", file, *words,
               check=check, env=env)


# --- A cluster goes on ----------------------------------------------------------------


def test_restore_after_changes(cluster, ctl, tmp_path, seed):
    rng = random.Random(seed)
    c = cluster(members=4, unit=UNIT, size="32M")
    w = ctl(c)
    passphrase = secret(tmp_path / "passphrase", "correct horse")
    backup = tmp_path / "backup"
    said = w.json("backup", backup, "--passphrase-file", passphrase)
    assert said["encrypted"] and said["records"] > 0
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert os.listdir(tmp_path).count("backup") == 1
    assert b"key" not in backup.read_bytes()

    # Since then: a member is another disk, one has another key, there is another array,
    # and weftd counts more starts.
    _, disk = c.add()
    c.kill("m3")
    wait_state(c, 3, "out")
    w("array", "replace", "a", "3", disk, "--yes")
    wait_in_sync(c)
    w("disk", "rekey", c.get("/api/v1/arrays/a")["members"][1]["disk"])
    more = [c.add() for _ in range(2)]
    w("array", "create", "b", "--layout", "raid-1", "--disk", more[0][1],
      "--disk", more[1][1], "--yes")
    for _ in range(2):
        c.restart("weftd")
    data = rng.randbytes(DATA)
    fill(c.nbd, data)
    b = c.get("/api/v1/arrays/b")["uuid"]

    c.kill("weftd")
    refused = restore(c.dir / "weftd", backup, "--passphrase-file", passphrase,
                      check=False)
    assert refused.returncode == 1 and "--replace" in refused.stderr
    # The old database by itself changes nothing, and says what does.
    restore(c.dir / "weftd", backup, "--passphrase-file", passphrase,
            "--replace")
    kept = [f for f in os.listdir(c.dir / "weftd")
            if f.startswith("before-restore-")]
    assert len(kept) == 1
    c.may_end("array")
    c.start("weftd")
    eventually(lambda: "was restored from its members" in c.log("weftd"),
               what="the array to be restored")
    wait_in_sync(c)
    assert "b" not in [a["name"] for a in c.get("/api/v1/arrays")["arrays"]]

    # The former writer has ended; another process is admitted.
    eventually(lambda: refuses(c.nbd), what="the writer to end")
    c.kill("array")
    c.start("array")
    assert read(c.nbd) == data
    data = data[::-1]
    fill(c.nbd, data)
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))

    # The array that was made since is known by its members alone.
    eventually(lambda: b in [i["array"] for i in
                             w.json("array", "import")["imports"]],
               what="the disks of b to ask")
    w("array", "import", "b", b, "--yes")
    verdict = c.get("/api/v1/status")
    assert "revocations confirm" in verdict["verdict"]
    assert verdict["health"] == "warning"
    w("revocations", "confirm", "--yes")
    assert "revocations" not in c.get("/api/v1/status")["verdict"]


# --- The file -------------------------------------------------------------------------


class Alone:
    """A weftd without a cluster."""

    def __init__(self, state):
        self.state = state
        self.url = None

    def start(self):
        port = self.state.parent / "port"
        port.unlink(missing_ok=True)
        log = self.state.parent / "weftd.log"
        self.process = background(log, "weftd", "--state", self.state,
                                  "--listen", "127.0.0.1:0", "--no-login",
                                  "--port-file", port)
        eventually(port.exists, what=f"weftd to serve: {log.read_text()}")
        self.url = port.read_text().split()[0]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0

    def generation(self):
        return http("GET", self.url + "/api/v1/status")[1]["generation"]


@pytest.fixture
def alone(tmp_path):
    weftd = Alone(tmp_path / "state")
    weftd.start()
    yield weftd
    if weftd.process.poll() is None:
        weftd.process.kill()
        weftd.process.wait()


def weftctl(alone, *words):
    return run("weftctl", "--admin", alone.url, *words)


def test_bad_files(alone, tmp_path):
    passphrase = secret(tmp_path / "right", "correct horse")
    wrong = secret(tmp_path / "wrong", "battery staple")
    plain, locked = tmp_path / "plain", tmp_path / "locked"
    weftctl(alone, "backup", plain)
    weftctl(alone, "backup", locked, "--passphrase-file", passphrase)
    alone.end()
    before = (alone.state / "weftd.db").read_bytes()
    whole = locked.read_bytes()

    def refused(data, word, *words):
        file = tmp_path / "file"
        file.write_bytes(data)
        p = restore(alone.state, file, "--replace", *words, check=False)
        assert p.returncode == 1 and word in p.stderr, p.stderr
        assert str(file) in p.stderr or word.startswith("cannot read a passphrase")
        assert (alone.state / "weftd.db").read_bytes() == before

    right = ("--passphrase-file", passphrase)
    refused(whole, "the passphrase is wrong", "--passphrase-file", wrong)
    refused(whole, "cannot read a passphrase in", "--passphrase-file", "-")
    refused(whole, "it is encrypted")
    refused(plain.read_bytes(), "it is not encrypted", *right)
    refused(before, "it is a copy of a database", *right)
    for flag in (0, 2, 255):
        refused(whole[:9] + bytes([flag]) + whole[10:], "header is damaged", *right)
    refused(plain.read_bytes()[:9] + b"\1" + plain.read_bytes()[10:], "header is damaged")
    for size in (0, 7, 8, 40, 79, 80, 200, len(whole) - 1):
        refused(whole[:size], "cut off" if size >= 8 else "no file of weftctl",
                *right)
    for at in (90, len(whole) - 40, len(whole) - 20):
        changed = bytearray(whole)
        changed[at] ^= 1
        refused(changed, "damaged", *right)
    refused(whole[:8] + b"\x02" + whole[9:], "version", *right)
    refused(whole + b"x", "cut off or damaged", *right)
    changed = bytearray(plain.read_bytes())
    changed[200] ^= 1
    refused(changed, "damaged")
    refused(b"something else", "no file of weftctl backup")
    refused(b"SQLite format 3\0" + bytes(200), "damaged")
    refused(before[:4096], "damaged")
    # None of them has left anything but the folder in which it tried.
    assert not [f for f in os.listdir(alone.state) if f.startswith("before")]


def identity(state):
    with sqlite3.connect(f"file:{state / 'weftd.db'}?immutable=1",
                         uri=True) as db:
        (text,) = db.execute(
            "SELECT json FROM record WHERE kind = 'cluster'").fetchone()
    return json.loads(text)


DIES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static void
count (void)
{
  static int calls;
  const char *last = getenv ("DIES_AT");

  if (last && ++calls == atoi (last))
    _exit (99);
}

#define BEFORE(name, declared, given)                                        \
  int name declared                                                          \
  {                                                                          \
    int (*real) declared = (int (*) declared) dlsym (RTLD_NEXT, #name);      \
    count ();                                                                \
    return real given;                                                       \
  }

BEFORE (fsync, (int fd), (fd))
BEFORE (rename, (const char *a, const char *b), (a, b))
BEFORE (mkdir, (const char *p, mode_t m), (p, m))
BEFORE (rmdir, (const char *p), (p))
BEFORE (unlink, (const char *p), (p))
BEFORE (unlinkat, (int fd, const char *p, int f), (fd, p, f))
"""


def test_broken_off(alone, tmp_path):
    """weftd --restore ends before each call that changes the directory."""
    source, library = tmp_path / "dies.c", tmp_path / "dies.so"
    source.write_text(DIES)
    run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    backup = tmp_path / "backup"
    weftctl(alone, "backup", backup)
    alone.end()
    was, state = tmp_path / "was", tmp_path / "again"
    alone.state.rename(was)
    calls, half = 0, 0
    while True:
        calls += 1
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(was, state)
        p = restore(state, backup, "--replace", check=False,
                    env={"LD_PRELOAD": str(library), "DIES_AT": str(calls)})
        if p.returncode == 0:
            break
        assert p.returncode == 99, p.stderr
        if (state / "restoring").exists():
            half += 1
            p = run("weftd", "--state", state, check=False)
            assert p.returncode == 1 and "broken off" in p.stderr
        elif not identity(state).get("restore"):
            assert identity(state) == identity(was)
        # Once more is always right.
        restore(state, backup, "--replace")
        assert identity(state)["restore"]
        assert not (state / "restoring").exists()
        # The original state is still there.
        kept = list(state.glob("before-restore-*/weftd.db"))
        assert identity(was) in [identity(f.parent) for f in kept]
    assert calls > 12 and half > 4
    shutil.rmtree(alone.state, ignore_errors=True)
    state.rename(alone.state)
    alone.start()
    assert alone.generation() > 1_000_000_000
    alone.end()


def test_copy_of_a_database(alone, tmp_path):
    """A copy made by hand is restored in the same way, but without its secrets, because they
    may have been taken back since."""
    secrets = ("login", "token", "node-token", "device", "idempotency")
    alone.end()
    file = tmp_path / "copy"
    shutil.copy(alone.state / "weftd.db", file)
    with contextlib.closing(sqlite3.connect(file)) as db:  # the WAL is not copied
        db.executemany("INSERT INTO record VALUES (?, 'ab', '{}')", zip(secrets))
        db.commit()
    empty = tmp_path / "empty"
    restore(empty, file)
    assert identity(empty)["restore"]
    with sqlite3.connect(f"file:{empty / 'weftd.db'}?immutable=1",
                         uri=True) as db:
        kinds = {kind for kind, in db.execute("SELECT DISTINCT kind FROM record")}
    assert "cluster" in kinds and not kinds & set(secrets)


# --- There is no room -----------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small"
    path.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=16M", "tmpfs", path)
    yield path
    run("umount", "-l", path)


def test_no_room(cluster, ctl, small, seed):
    c = cluster(members=4, unit=UNIT, size="32M")
    w = ctl(c)
    data = random.Random(seed).randbytes(DATA)
    c.kill("weftd")
    shutil.copytree(c.dir / "weftd", small / "weftd")
    shutil.rmtree(c.dir / "weftd")
    (c.dir / "weftd").symlink_to(small / "weftd")
    c.start("weftd")
    wait_in_sync(c)
    # The verdict warns before the disk is full.
    other = small / "other.log"
    free = os.statvfs(small)
    other.write_bytes(bytes(free.f_bavail * free.f_frsize - (1 << 20)))
    eventually(lambda: "has only" in c.get("/api/v1/status")["verdict"],
               what="the verdict to say so")
    assert c.get("/api/v1/status")["health"] == "warning"
    with open(other, "ab", buffering=0) as f:
        with pytest.raises(OSError):
            while True:
                f.write(bytes(4096))
    # A change that can't be stored is not acknowledged, and every caller hears why.
    asked = w.started("node", "maintenance", "on", "n3", "--yes")
    eventually(lambda: c.call("GET", "/api/v1/status")[0] == 503,
               what="weftd to have something to store")
    assert "make room" in w("status", status=FAILED)
    assert "make room" in c.log("weftd")
    # Also the caller whose change was the first that could not be stored.
    said = asked.communicate(timeout=30)[1]
    assert asked.returncode == FAILED and "make room" in said, said
    # Clients go on meanwhile.
    fill(c.nbd, data)
    # weftd starts nevertheless, says why it is frozen, and loses nothing.
    c.restart("weftd")
    said = w("status", status=FAILED)
    assert "make room" in said and "backup" not in said
    # A member that dies now holds writes up until weftd can store that.
    c.kill("m2")
    other.unlink()
    eventually(lambda: c.call("GET", "/api/v1/status")[0] == 200,
               what="weftd to go on by itself")
    fill(c.nbd, data[::-1])
    c.start("m2")
    wait_in_sync(c)
    assert read(c.nbd) == data[::-1]
    assert "there is room again" in c.log("weftd")
