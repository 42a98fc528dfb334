"""Processes are killed, over and over, under a verifying client.

Topology: one raid-x devcluster of four groups of three members; fio writes and
          verifies all along, or a client that knows what each FLUSH has
          promised.
Cause: SIGKILL of members, one in some or all of the groups, of weftd and of the
       array process, at one moment or one after the other; each is started
       again.  A member goes down only when all of its group are in-sync, weftd
       and the array process at any moment.
Pass:  fio sees no error and reads only its own data; no flushed block is ever lost; in the end
       all members are in-sync and all copies alike.
"""

import random
import time

import pytest

from arraystate import content, in_sync, members, states
from blockwriter import Writer
from copies import check_copies, model_of
from fiojob import Load
from wefttest import ALL, eventually

UNIT = 64 << 10
GROUPS, WIDTH = 4, 3
# Of members and weftd; and how often the array process is killed with one of them or more.
KILLS = 160 if ALL else 48
ROUNDS = 20 if ALL else 6


def make(cluster, **env):
    return cluster(layout="raid-x", members=GROUPS * WIDTH, groups=GROUPS,
                   unit=UNIT, size="16M", io_timeout=2000, env=env)


def victims(rng, least):
    """One member each of some groups; and weftd, at times."""
    names = [f"m{g * WIDTH + rng.randrange(WIDTH)}"
             for g in rng.sample(range(GROUPS), rng.randint(least, GROUPS))]
    if rng.random() < 0.25:
        names.insert(rng.randrange(len(names) + 1), "weftd")
    return names


def kill(c, rng, names):
    if rng.random() < 0.5:
        c.kill(*names)
    else:
        for name in names:
            c.kill(name)
            time.sleep(rng.choice([0, 0.02, 0.1]))


def since(c):
    """When the state of each member changed last."""
    return {f"m{m['position']}": m["since"] for m in members(c)}


def recover(c, changed=lambda since: True):
    """Without the wait that is for members that flap."""
    def recovered():
        for m, state in enumerate(states(c)):
            if state == "out":
                c.call("POST", f"/api/v1/arrays/a/members/{m}/join")
        return changed(since(c)) and in_sync(c)
    eventually(recovered, 60, every=0.05, what="all members in-sync")


@pytest.mark.timeout(900)
@pytest.mark.long(120)
def test_members_and_weftd(cluster, seed):
    rng = random.Random(seed)
    c = make(cluster)
    load = Load(c.nbd, seed, size="8M")
    load.start()
    kills = 0
    try:
        while kills < KILLS:
            load.check()
            names, before = victims(rng, 2), since(c)
            kill(c, rng, names)
            time.sleep(rng.choice([0, 0, 0.3]))
            rng.shuffle(names)
            c.start(*names)
            kills += len(names)
            # Losses that weftd and the writer have not noticed yet are waited for, too.
            recover(c, lambda now: all(
                now[n] != before[n] for n in before if n in names))
    finally:
        load.end()
    print(f"{kills} kills, {load.jobs} fio jobs")
    recover(c)
    check_copies(c, model_of(c, "raid-x", UNIT, GROUPS), content(c.nbd))


@pytest.mark.long(60)
def test_array_process(cluster, seed):
    """With members and weftd, killed just before or after it."""
    rng = random.Random(seed)
    c = make(cluster, WEFT_ARRAY_ARGS="takeover=true")
    writer, kills = None, 0
    for _ in range(ROUNDS):
        writer = Writer(c.nbd, rng, after=writer)
        writer.start()
        writer.until_flushed(rng.randrange(1, 20))
        names = victims(rng, 1)[:rng.randint(1, GROUPS)]
        names.insert(rng.randrange(len(names) + 1), "array")
        kill(c, rng, names)
        kills += len(names)
        writer.broken()
        if "weftd" in names:
            c.start("weftd")
        c.start(*(n for n in names if n != "weftd"))
        writer.check(c.nbd)
        recover(c)
        check_copies(c, model_of(c, "raid-x", UNIT, GROUPS))
        writer.check(c.nbd)
    print(f"{kills} kills")
