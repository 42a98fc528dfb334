"""The array process dies in the middle of writing, and another takes over.

Topology: one devcluster; fio writes through its array process, never
          flushing, while another region was written and flushed before.
Cause: SIGKILL of the array process; a new one starts.
Pass:  Flushed data is there.  Of unflushed data both copies are alike on the members' files,
       so no later read, failure or rebuild can change what a reader sees.  The members go
       on.
"""

import random
import time

import pytest

from arraystate import states, wait_for_writes
from copies import Copies, check_copies, model_of
from fiojob import Fio
from nbdclient import connected

UNIT = 64 << 10
FLUSHED = 8 << 20
# A kill may find all images sent, where fio was slow: then there are more.
ENOUGH = 10


def differences(c, model):
    with Copies(model, [(m["file"], m["data_offset"])
                        for m in c.members]) as copies:
        return len(copies.different())


@pytest.mark.parametrize("layout,members,options,rounds", [
    ("raid-x", 4, {"image_age": 2000}, 2),
    ("raid-10", 4, {"dup": "sync-client"}, 1),
    ("raid-1", 3, {}, 1),
], ids=["raid-x", "raid-10", "raid-1"])
def test_host_killed(cluster, seed, layout, members, options, rounds):
    rng = random.Random(seed)
    c = cluster(layout=layout, members=members, unit=UNIT, size="64M",
                env={"WEFT_ARRAY_ARGS": "takeover=true"}, **options)
    content = rng.randbytes(FLUSHED)
    h = connected(c.nbd)
    h.pwrite(content, 0)
    h.flush()

    model = model_of(c, layout, UNIT)
    different = 0
    for round_ in range(ENOUGH):
        if round_ >= rounds and (different > 0 or layout != "raid-x"):
            break
        job = Fio(c.nbd, jobs=2, depth=16, offset=FLUSHED, size="16M",
                  rw="randwrite", bs="512-128k", bs_unaligned=True,
                  verify=False, end_fsync=0, time_based=True, runtime=60,
                  seed=(seed + round_) % 2 ** 31)
        with job:
            wait_for_writes(c)
            time.sleep(rng.random())
            assert job.running()
            c.kill("array")
        different += differences(c, model)
        c.start("array")
        h = connected(c.nbd)
        assert h.pread(FLUSHED, 0) == content
        check_copies(c, model, lambda at, n: h.pread(n, at))
    print(f"{different} units differed between their copies after the kill")
    # There was something to do: images in the buffer die with the process.
    assert different > 0 or layout != "raid-x"
    assert states(c) == ["in-sync"] * members
