"""A process of any role is stopped, and goes on later.

Topology: one raid-x devcluster of four members; fio writes and verifies.
Cause: SIGSTOP, then SIGCONT 0.2 to 7 s later, of a member, the array process
       and weftd in turn, and of two of different roles at once.
Pass:  fio sees no error and reads only its own data; a member that went out comes back in-sync
       by itself; all copies are alike in the end.
"""

import random
import time

import pytest

from arraystate import content, wait_in_sync
from copies import check_copies, model_of
from fiojob import Load

UNIT = 64 << 10
PAUSES_S = [0.2, 1, 7]


def roles(c, rng):
    member = rng.choice(c.members)["name"]
    yield [member]
    yield ["array"]
    yield ["weftd"]
    yield rng.sample([rng.choice(c.members)["name"], "array", "weftd"], 2)


@pytest.mark.long(50)
def test_pauses(cluster, seed):
    rng = random.Random(seed)
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="48M",
                io_timeout=2000)
    load = Load(c.nbd, seed)
    load.start()
    try:
        for pause in PAUSES_S:
            for names in roles(c, rng):
                wait_in_sync(c)
                for name in names:
                    c.stop(name)
                time.sleep(pause)
                rng.shuffle(names)
                for name in names:
                    c.cont(name)
                load.check()
        wait_in_sync(c)
    finally:
        load.end()
    wait_in_sync(c)
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))
