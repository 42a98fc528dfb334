"""The cluster is started after anything.

Topology: one devcluster of four members, and a client that knows what each
          FLUSH has promised.
Cause: All processes die at one moment, or all members do beside a living array process.  They
       come back in any order, one member later or never, or one from yesterday's backup.  Or
       weftd's database is gone, or old; or a copy of a member's disk is served, too.
Pass:  No flushed block is lost and none is ever read older than it was flushed; missing, old
       and duplicate disks are named; in the end all members are in-sync and all copies
       alike.
"""

import contextlib
import json
import random
import shutil
import sqlite3
import time

import pytest

from arraystate import (content, states, wait_clean, wait_in_sync, wait_state,
                        writing)
from blockwriter import Writer
from copies import check_copies, model_of
from fiojob import fio
from nbdkitproc import Nbdkit, array_of, refused
from wefttest import at_once, digest, eventually, run

UNIT = 64 << 10
pytestmark = pytest.mark.long(20)
MEMBERS = ["m0", "m1", "m2", "m3"]
ALL = ["weftd", *MEMBERS, "array"]
# A last copy that was away fails the FLUSH under way and the next one, which is
# for what was written meanwhile.
TOLD = 2


def make(cluster, layout="raid-x", **env):
    return cluster(layout=layout, members=4, unit=UNIT, size="48M", env=env)


def bring_up(c, names, pauses):
    """One after the other, with these pauses, and each again until it starts,
    as a service manager would."""
    def keep(number):
        time.sleep(sum(pauses[:number]))
        end = time.monotonic() + 90
        while True:
            try:
                return c.start(names[number])
            except AssertionError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.3)

    at_once(keep, *range(len(names)))


def random_order(rng, names):
    order = rng.sample(names, len(names))
    pauses = [rng.choice([0, 0, 0.3, 1]) for _ in order]
    print(f"order {order}, pauses {pauses}")
    return order, pauses


def outage(c, writer):
    """While it writes."""
    writer.start()
    writer.until_flushed(3)
    c.kill(*ALL)
    writer.broken()


def check(c, writer, layout="raid-x"):
    writer.check(c.nbd)
    wait_in_sync(c)
    check_copies(c, model_of(c, layout, UNIT), content(c.nbd))
    writer.check(c.nbd)


def test_in_any_order(cluster, seed):
    rng = random.Random(seed)
    c = make(cluster, WEFT_ARRAY_ARGS="takeover=true")
    writer = Writer(c.nbd, rng)
    for _ in range(3):
        outage(c, writer)
        bring_up(c, *random_order(rng, ALL))
        check(c, writer)
        writer = Writer(c.nbd, rng, after=writer)


def test_without_one_member(cluster, seed):
    """It starts degraded, and the member is caught up when it comes."""
    rng = random.Random(seed)
    c = make(cluster)
    writer = Writer(c.nbd, rng)
    outage(c, writer)
    lost = rng.choice(MEMBERS)
    bring_up(c, *random_order(rng, [n for n in ALL if n != lost]))
    number = MEMBERS.index(lost)
    assert wait_state(c, number, "out")["reason"]
    writer.check(c.nbd)
    with writing(c, rng, writer) as writer:
        writer.until_flushed(3)
        c.start(lost)
        wait_in_sync(c)
    check(c, writer)


def test_members_come_back_to_an_array_that_waits(cluster, seed):
    """Its client sees no error, though all members are away for a while.  Only FLUSHes may
    fail, because unflushed data may have been in the members' caches."""
    rng = random.Random(seed)
    c = make(cluster)
    with writing(c, rng) as writer:
        for count in (4, 3, 2):
            writer.until_flushed(3)
            writer.forgives = TOLD * count
            gone = rng.sample(MEMBERS, count)
            c.kill(*gone)
            bring_up(c, *random_order(rng, gone))
            wait_in_sync(c)
            # One at least was sent since the last came back.
            writer.until_flushed(2)
            writer.forgives = 0
    check(c, writer)


# --- Old copies and twins ----------------------------------------------------


def backup(c, name, directory):
    """A copy of the disk as it is now; the member goes on."""
    file = c.members[MEMBERS.index(name)]["file"]
    c.kill(name)
    copy = directory / (name + ".backup")
    shutil.copyfile(file, copy)
    c.start(name)
    return copy


def wait_known(c, name, directory):
    """Until weftd's database knows the disk's present state (10 s at most): a copy that is no
    older than the database may be what a power loss has left.  The disk may be written to
    meanwhile: weftd's knowledge moves on with it."""
    uuid = c.get("/api/v1/arrays/a")["members"][MEMBERS.index(name)]["disk"]
    copy = directory / "look"
    now = c.get(f"/api/v1/disks/{uuid}")["sequence"]

    def known():
        c.stop("weftd")  # which lets nobody else read its database
        shutil.copytree(c.dir / "weftd", copy, dirs_exist_ok=True)
        c.cont("weftd")
        with contextlib.closing(sqlite3.connect(copy / "weftd.db")) as db:
            [(text,)] = db.execute("SELECT json FROM record WHERE kind = 'disk'"
                                   " AND key = ?", [uuid])
        shutil.rmtree(copy)
        return json.loads(text)["sequence"] >= now
    eventually(known, 60, every=2, what=f"weftd to store how far {name} is")


def put_back(c, name, copy):
    shutil.copyfile(copy, c.members[MEMBERS.index(name)]["file"])


@pytest.mark.long(30)
@pytest.mark.parametrize("all_down", [False, True], ids=["it", "all"])
def test_yesterdays_member(cluster, seed, tmp_path, all_down):
    """It lacks what was written since, though no intent bit says so: it is
    known by its sequence number, and rebuilt in full."""
    rng = random.Random(seed)
    c = make(cluster)
    old = rng.choice(MEMBERS)
    with writing(c, rng) as writer:
        writer.until_flushed(1)
        copy = backup(c, old, tmp_path)
        wait_in_sync(c)
        fio(c.nbd, size="16M", offset="8M", bs="64k", rw="write",
            seed=seed % 2 ** 31)
    wait_clean(c)
    wait_known(c, old, tmp_path)
    writer = Writer(c.nbd, rng, after=writer)
    if all_down:
        outage(c, writer)
        put_back(c, old, copy)
        bring_up(c, *random_order(rng, ALL))
    else:
        writer.start()
        writer.until_flushed(3)
        c.kill(old)
        put_back(c, old, copy)
        c.start(old)
    eventually(lambda: "is an old copy of the disk" in c.log("weftd"))
    if not all_down:
        wait_in_sync(c)
        writer.end()
    check(c, writer)


@pytest.mark.long(30)
def test_the_right_disk_too_late(cluster, seed, tmp_path):
    """When an old copy has been rebuilt in its place, it is the right disk that is
    old, though its sequence number is the higher one."""
    rng = random.Random(seed)
    c = make(cluster)
    old = rng.choice(MEMBERS)
    number = MEMBERS.index(old)
    with writing(c, rng) as writer:
        writer.until_flushed(1)
        copy = backup(c, old, tmp_path)
        wait_in_sync(c)
        wait_known(c, old, tmp_path)
        for disk in [copy, tmp_path / "right"]:
            c.kill(old)
            if disk == copy:
                shutil.copyfile(c.members[number]["file"], tmp_path / "right")
            wait_state(c, number, "out")
            writer.until_flushed(2)
            before = c.log("weftd").count("an old copy of the disk")
            put_back(c, old, disk)
            c.start(old)
            eventually(lambda n=before: c.log("weftd").count(
                "an old copy of the disk") > n)
            wait_in_sync(c)
            writer.until_flushed(2)
    check(c, writer)


@pytest.mark.long(40)
def test_yesterdays_last_copy(cluster, seed, tmp_path):
    """Nobody is served the old data: the array waits for the right disk, however
    often the copy and weftd are started meanwhile; and nothing is written to the
    copy, which would make it look newer."""
    rng = random.Random(seed)
    c = make(cluster, layout="raid-0")
    with writing(c, rng) as writer:
        writer.until_flushed(1)
        old = rng.choice(MEMBERS)
        writer.forgives = TOLD
        copy = backup(c, old, tmp_path)
        writer.until_flushed(3)
        wait_known(c, old, tmp_path)
    c.kill("array", old)
    file = c.members[MEMBERS.index(old)]["file"]
    right = tmp_path / "right"
    shutil.move(file, right)
    put_back(c, old, copy)
    for i in range(8):
        if i % 2:
            c.kill("weftd")
        if i % 4 == 3:  # it asks on until there is a weftd to refuse it
            c.start(old)
            c.start("weftd")
            eventually(lambda: "an old copy of it was put back" in c.log(old))
            c.kill(old)
        elif i % 2:
            c.start("weftd")
        with pytest.raises(AssertionError, match="an old copy of it was put"):
            c.start(old)
        assert digest(file) == digest(copy)
    line = refused(*array_of(c))
    assert "old copy" in line and f"n{old[1]}" in line, line
    put_back(c, old, right)
    c.start(old)
    c.start("array")
    writer.check(c.nbd)


def test_a_cloned_member(cluster, seed, tmp_path):
    """Two disks that say the same of themselves: one is served, and the other
    is refused by name, whichever comes first."""
    rng = random.Random(seed)
    c = make(cluster)
    writer = Writer(c.nbd, rng)
    outage(c, writer)
    name = rng.choice(MEMBERS)
    m = c.members[MEMBERS.index(name)]
    clone = tmp_path / "clone.img"
    shutil.copyfile(m["file"], clone)
    bring_up(c, ALL, [0] * len(ALL))
    line = refused("weft", f"disk={clone}", f"admin={c.admin}", "node=n9",
                   "uri=nbd://127.0.0.9:10809")
    assert "served by a live process" in line and m["uri"] in line, line
    check(c, writer)


# --- weftd's database --------------------------------------------------------


@pytest.mark.parametrize("way", [
    {}, {"writers": 2}, {"writers": 2, "leases": True}],
    ids=["alone", "a-part", "leases"])
def test_array_before_a_member(cluster, way):
    """It waits for a member that has died and is not missed yet, also beside another
    that writes, which is stopped: so that one does not say that the member is lost."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="48M", **way)
    beside, *comes = [a["name"] for a in c.arrays]
    if not comes:
        beside, comes = None, [beside]
    c.terminate(*comes)
    if beside:
        c.may_end(beside)  # if it is stopped for longer than its TTL
        c.stop(beside)
    c.kill("m1")

    def start(name):
        if name == "m1":
            time.sleep(1)
        c.start(name)
        if name == "m1" and beside:
            c.cont(beside)

    at_once(start, *comes, "m1")
    wait_in_sync(c)


def weftctl(c, *words, status=0):
    p = run("weftctl", *words, env={"WEFT_ADMIN": c.admin}, check=False)
    assert p.returncode == status, p.stdout + p.stderr
    return p.stdout + p.stderr


def imports(c):
    return c.get("/api/v1/imports")["imports"]


def wait_import(c, positions):
    """Until these members, and no others, could be imported."""
    eventually(lambda: imports(c) and sorted(
        m["position"] for m in imports(c)[0]["members"]) == sorted(positions),
        what="the members to ask the new weftd")
    return imports(c)[0]["array"]


@pytest.mark.parametrize("members_live", [True, False],
                         ids=["members-live", "all-down"])
def test_database_lost(cluster, seed, members_live):
    rng = random.Random(seed)
    c = make(cluster)
    writer = Writer(c.nbd, rng)
    if members_live:
        writer.start()
        writer.until_flushed(3)
        c.kill("array", "weftd")
        writer.broken()
    else:
        outage(c, writer)
    shutil.rmtree(c.dir / "weftd")
    bring_up(c, *random_order(rng, ["weftd"] + MEMBERS * (not members_live)))
    uuid = wait_import(c, range(4))
    assert uuid in weftctl(c, "array", "import")
    assert c.get("/api/v1/arrays")["arrays"] == []
    weftctl(c, "array", "import", "a", uuid)
    eventually(lambda: c.get("/api/v1/arrays/a")["state"] == "ready")
    c.start("array")
    check(c, writer)
    with writing(c, rng, writer) as writer:
        writer.until_flushed(3)
        lost = rng.choice(MEMBERS)
        c.restart(lost)
        wait_in_sync(c)
    check(c, writer)


def test_import_without_a_member_and_with_a_clone(cluster, seed, tmp_path):
    """Both are the administrator's to decide, and named."""
    rng = random.Random(seed)
    c = make(cluster)
    writer = Writer(c.nbd, rng)
    outage(c, writer)
    lost, twin = rng.sample(range(4), 2)
    there = [m for m in range(4) if m != lost]
    clone = tmp_path / "clone.img"
    shutil.copyfile(c.members[twin]["file"], clone)
    c.start(*(f"m{m}" for m in there))
    with Nbdkit("weft", f"disk={clone}", f"admin={c.admin}", "node=n9",
                "uri=nbd://127.0.0.9:10809"):
        shutil.rmtree(c.dir / "weftd")
        c.start("weftd")
        uuid = wait_import(c, [*there, twin])
        said = weftctl(c, "array", "import", "a", uuid, f"--without={lost}",
                       status=3)
        assert str(clone) in said and c.members[twin]["file"] in said, said
        assert c.get("/api/v1/arrays")["arrays"] == []
    # It is forgotten when it stops asking.
    eventually(lambda: str(clone) not in weftctl(
        c, "array", "import", "a", uuid, status=3), 60)
    said = weftctl(c, "array", "import", "a", uuid, status=3)
    assert f"member {lost}" in said and "without" in said, said
    weftctl(c, "array", "import", "a", uuid, f"--without={lost}")
    c.start("array")
    writer.check(c.nbd)
    assert states(c)[lost] == "out"
    # It is still itself, but given up: it comes back as what it is now.
    with writing(c, rng, writer) as writer:
        writer.until_flushed(3)


def test_an_old_database(cluster, seed, tmp_path):
    """The members' later state shows that the database is old: weftd decides nothing by it."""
    rng = random.Random(seed)
    c = make(cluster)
    with writing(c, rng) as writer:
        writer.until_flushed(1)
        c.kill("weftd")
        shutil.copytree(c.dir / "weftd", tmp_path / "old")
        c.start("weftd")
        lost = rng.choice(MEMBERS)
        c.kill(lost)
        wait_state(c, MEMBERS.index(lost), "out")
        c.start(lost)
        wait_in_sync(c)
        c.kill("weftd")
        shutil.move(c.dir / "weftd", tmp_path / "right")
        shutil.copytree(tmp_path / "old", c.dir / "weftd")
        c.start("weftd")
        eventually(lambda: c.get("/api/v1/status")["read_only"])
        assert "database is older than its members" in c.get("/api/v1/status")["verdict"]
        writer.until_flushed(3)  # nobody needs weftd for that
        status, problem = c.call("DELETE", "/api/v1/arrays/a")
        assert status >= 400 and "backup" in problem["detail"], problem
        line = refused(*array_of(c))
        assert "backup" in line, line

        c.kill("weftd")
        shutil.rmtree(c.dir / "weftd")
        shutil.move(tmp_path / "right", c.dir / "weftd")
        c.start("weftd")
        wait_in_sync(c)
        c.kill(lost)
        wait_state(c, MEMBERS.index(lost), "out")
        c.start(lost)
        wait_in_sync(c)
    check(c, writer)
