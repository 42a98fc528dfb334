"""Disks get other keys while their array is in use, and a thief of the former keys gets
nothing further.

Topology: one devcluster; fio with four connections.  The thief has a copy of weftd's
       database, and reaches the members.
Cause: `weftctl disk rekey`; weftd or the member is killed at any time during that.
Pass:  fio sees no error and no wrong byte, and no member goes out (but the one that is
       killed); the thief's open connections are shut, and no door opens for it.
"""

import hashlib
import hmac
import itertools
import json
import random
import shutil
import sqlite3
import tempfile
import time
import uuid
from contextlib import closing

import nbd
import pytest

from arraystate import (content, states, wait_for_writes,
                        wait_in_sync, wait_state)
from copies import check_copies, model_of
from fiojob import Fio
from memberhost import read_superblock
from memberscene import mint
from wefttest import eventually, run

UNIT = 64 << 10
# Nothing of fio's is there, on any member.
UNUSED = 28 << 20


def disk(c, m):
    return read_superblock(c.members[m]["file"])["disk"]


def stolen(c):
    """weftd's records, by kind and key: from a copy, because weftd holds a lock."""
    rows = {}
    with tempfile.TemporaryDirectory() as directory:
        for file in (c.dir / "weftd").glob("weftd.db*"):
            shutil.copy(file, directory)
        with closing(sqlite3.connect(f"{directory}/weftd.db")) as db:
            for kind, key, text in db.execute("SELECT kind, key, json FROM record"):
                rows.setdefault(kind, {})[key] = json.loads(text)
    return rows


class Thief:
    """Makes tokens by what weftd's database had: of an epoch that no gate refuses, and
    for a session that weftd knows."""

    def __init__(self, c, ahead):
        self.c = c
        rows = stolen(c)
        self.disks, [(self.array, a)] = rows["disk"], rows["array"].items()
        [(self.session, _)] = [s for s in rows["session"].items()
                               if not s[1]["ended"]]
        self.epoch = a["epoch"] + ahead

    def token(self, disk, rights):
        record = self.disks[disk]
        key = hmac.digest(bytes.fromhex(record["key"]), record["instance"].encode(),
                          hashlib.sha256)
        return mint(key, uuid.UUID(self.array), uuid.UUID(disk), self.session, rights,
                    self.epoch)

    def open(self, m, rights="rw"):
        h = nbd.NBD()
        h.set_export_name("data/" + self.token(disk(self.c, m), rights))
        host, port = self.c.members[m]["uri"].removeprefix("nbd://").split(":")
        h.connect_tcp(host, port)
        return h


def refused(call, *args):
    with pytest.raises(nbd.Error) as error:
        call(*args)
    return error.value


def rekey(c, *words):
    p = run("weftctl", "--admin", c.admin, "disk", "rekey", *words)
    return p.stdout


def keys(c):
    return {uuid: record["key"] for uuid, record in stolen(c)["disk"].items()}


def rekeys(c):
    return [d["rekeys"] for d in c.get("/api/v1/disks")["disks"]]


def since(c):
    return [(m["state"], m["since"]) for m in c.get("/api/v1/arrays/a")["members"]]


def load(c, seed, size):
    return Fio(c.nbd, jobs=4, depth=8, size=size, rw="randrw", bs="512-256k",
               bs_unaligned=True, seed=seed % 2 ** 31, rate="500k,500k")


def rounds(f):
    """For as long as it runs, and twice at least."""
    for i in itertools.count():
        if not f.running():
            assert i >= 2
            return
        yield i


@pytest.mark.parametrize("layout,count", [("raid-x", 3), ("raid-0", 2)])
def test_a_thief_is_locked_out(cluster, seed, layout, count):
    c = cluster(layout=layout, members=count, unit=UNIT, size="64M")
    before, old = since(c), keys(c)
    thief = Thief(c, 50)
    model = model_of(c, layout, UNIT, 1)
    with load(c, seed, "6M") as f:
        wait_for_writes(c)
        open = [thief.open(m) for m in range(count)]
        for h in open:
            h.pwrite(h.pread(512, UNUSED), UNUSED)
        assert rekey(c, "--all").count("has another key") == count
        assert f.running()
        for m, h in enumerate(open):
            assert refused(h.pread, 512, 0).errno == "ESHUTDOWN"
            assert refused(h.pwrite, bytes(512), 0).errno == "ESHUTDOWN"
            refused(thief.open, m)
            refused(thief.open, m, "ro")
        f.wait()
    assert since(c) == before and rekeys(c) == [False] * count
    assert not set(keys(c).values()) & set(old.values())
    check_copies(c, model, content(c.nbd))


@pytest.mark.long(40)
def test_weftd_is_killed(cluster, seed):
    """At any time: the requested rekey is done when it is back."""
    c = cluster(layout="raid-x", members=3, unit=UNIT, size="64M")
    before, model = since(c), model_of(c, "raid-x", UNIT, 1)
    rng = random.Random(seed)
    with load(c, seed, "20M") as f:
        wait_for_writes(c)
        for i in rounds(f):
            old = keys(c)
            for m in range(3):
                c.call("POST", f"/api/v1/disks/{disk(c, m)}/key")
            time.sleep(rng.uniform(0, 0.4) if i else 0)
            c.restart("weftd")
            eventually(lambda: not any(rekeys(c)), 30, every=0.05)
            assert not set(keys(c).values()) & set(old.values())
        f.wait()
    assert [s for s, _ in since(c)] == [s for s, _ in before]
    check_copies(c, model, content(c.nbd))


@pytest.mark.long(40)
def test_the_member_is_killed(cluster, seed):
    c = cluster(layout="raid-x", members=3, unit=UNIT, size="64M")
    model = model_of(c, "raid-x", UNIT, 1)
    rng = random.Random(seed)
    with load(c, seed, "20M") as f:
        wait_for_writes(c)
        for i in rounds(f):
            m = rng.randrange(3)
            c.call("POST", f"/api/v1/disks/{disk(c, m)}/key")
            time.sleep(rng.uniform(0, 0.2) if i else 0)
            c.kill(f"m{m}")
            wait_state(c, m, "out")
            c.start(f"m{m}")
            wait_in_sync(c)
            eventually(lambda: not any(rekeys(c)), 30, every=0.05)
        f.wait()
    check_copies(c, model, content(c.nbd))


def test_a_silent_disk_gets_it_later(cluster):
    c = cluster(layout="raid-x", members=3, unit=UNIT, size="64M")
    old = keys(c)
    c.kill("m1")
    wait_state(c, 1, "out")
    eventually(lambda: not c.get("/api/v1/disks/" + disk(c, 1))["alive"])
    said = rekey(c, disk(c, 0), disk(c, 1))
    assert said.count("has another key") == 1
    assert said.count("is silent, and gets another key when it is back") == 1
    assert "out" in states(c)
    c.start("m1")
    wait_in_sync(c)
    eventually(lambda: not any(rekeys(c)))
    now = keys(c)
    assert [old[disk(c, m)] == now[disk(c, m)] for m in range(3)] == [False, False, True]
