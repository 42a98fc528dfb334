"""Processes are killed and stopped, over and over, under a verifying client.

Topology: one raid-x devcluster of five members; fio writes and verifies all
          along, or a client that knows what each FLUSH has promised.
Cause: SIGKILL and SIGSTOP of members, weftd and the array process, one after
       the other, each started or continued again; a member goes down only when
       all are in-sync, weftd at any moment.
Pass:  fio sees no error and only what it wrote; no flushed block is lost, ever;
       in the end all members are in-sync and all copies alike.
"""

import random
import time

import pytest

from blockwriter import Writer
from copies import check_copies, model_of
from fiojob import Load
from wefttest import eventually

UNIT = 64 << 10
MEMBERS = 5


def in_sync(c, seconds=60):
    eventually(lambda: {m["state"] for m in
                        c.get("/api/v1/arrays/a")["members"]} == {"in-sync"},
               seconds, every=0.05, what="all members in-sync")


@pytest.mark.timeout(900)
def test_members_and_weftd(cluster, seed):
    rng = random.Random(seed)
    c = cluster(layout="raid-x", members=MEMBERS, unit=UNIT, size="48M",
                io_timeout=2000, env={"WEFT_MEMBER_ARGS": "--threads=1"})
    load = Load(c.nbd, seed)
    load.start()
    kills = stops = 0
    try:
        while kills < 190:
            load.check()
            name = rng.choice(c.members)["name"]
            if rng.random() < 0.15:
                name = "weftd"
            else:
                in_sync(c)
            if rng.random() < 0.9:
                c.kill(name)
                time.sleep(rng.choice([0, 0, 0.1, 0.3]))
                c.start(name)
                kills += 1
            else:
                c.stop(name)
                time.sleep(rng.choice([0.1, 1, 4]))
                c.cont(name)
                stops += 1
        in_sync(c)
    finally:
        load.end()
    print(f"{kills} kills, {stops} stops, {load.jobs} fio jobs")
    in_sync(c)
    check_copies(c, model_of(c, "raid-x", UNIT))


@pytest.mark.timeout(600)
def test_array_process(cluster, seed):
    """With members and weftd killed just before or after it."""
    rng = random.Random(seed)
    c = cluster(layout="raid-x", members=MEMBERS, unit=UNIT, size="48M",
                io_timeout=2000, env={"WEFT_MEMBER_ARGS": "--threads=1"})
    writer = Writer(c.nbd, rng)
    for _ in range(10):
        writer.start()
        time.sleep(0.2 + rng.random())
        other = rng.choice([None, "weftd"] + [m["name"] for m in c.members])
        names = ["array"] + ([other] if other else [])
        rng.shuffle(names)
        for name in names:
            c.kill(name)
        writer.join(30)
        assert not writer.is_alive() and writer.error
        if other:
            c.start(other)
        c.start("array")
        writer.check(c.nbd)
        in_sync(c)
        check_copies(c, model_of(c, "raid-x", UNIT))
        again = Writer(c.nbd, rng, writer.number)
        again.flushed, again.issued = writer.flushed, writer.issued
        writer = again
