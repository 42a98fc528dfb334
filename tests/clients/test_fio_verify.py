"""fio with eight connections against every layout, then the members' files.

Topology: one devcluster of the layout; eight NBD connections to its array.
Cause: random writes and reads of 512 B to 8 MiB at odd offsets, overlapping
       ones too, each followed by a flush; fio verifies what it reads.
Pass:  fio sees no error and no wrong byte, and afterwards all copies of every
       stripe unit, as a second model of the layout finds them in the members'
       own files, are alike, and are what the array shows.
Fail:  anything else.
"""

import pytest

from copies import Copies, check_copies, model_of
from fiojob import fio
from nbdclient import connected

UNIT = 64 << 10

# layout, members, groups, further options
ARRAYS = [
    ("raid-x", 3, 1, {}),
    ("raid-x", 4, 1, {}),
    ("raid-x", 5, 1, {}),
    ("raid-x", 8, 1, {}),
    ("raid-x", 6, 2, {}),
    ("raid-10", 4, 1, {"dup": "async-client"}),
    ("raid-10", 4, 1, {"dup": "sync-client"}),
    ("raid-10", 8, 2, {"dup": "async-client"}),
    ("chained", 4, 1, {}),
    ("rotated", 5, 1, {}),
    ("raid-1", 2, 1, {}),
    ("raid-1", 3, 1, {}),
    ("raid-0", 3, 1, {}),
]


def name_of(array):
    layout, members, groups, options = array
    return "-".join([layout, str(members)]
                    + [f"groups{groups}"] * (groups > 1)
                    + list(options.values()))


def member_size(layout, members):
    """So that the array has some 100 MiB whatever its layout, in sizes that
    fill no period."""
    copies = {"raid-1": members, "raid-0": 1}.get(layout, 2)
    return (105 << 20) * copies // members + (1 << 20) + 5 * 4096


@pytest.mark.parametrize("array", ARRAYS, ids=name_of)
def test_verify(cluster, seed, array):
    layout, members, groups, options = array
    size = member_size(layout, members) // 4096 * 4096
    c = cluster(layout=layout, members=members, groups=groups, unit=UNIT,
                size=size, **options)
    model = model_of(c, layout, UNIT, groups)

    h = connected(c.nbd)
    assert h.get_size() == model.size
    # A quarter of the array is left out, for its holes.
    each = model.size * 3 // 4 // 8 // 4096 * 4096

    job = fio(c.nbd, jobs=8, depth=4, size=each, rw="randrw", bs="512-8M",
              bs_unaligned=True, seed=seed % 2 ** 31)
    assert job["write"]["io_bytes"] > each
    # At any byte, each overlapping others.
    fio(c.nbd, jobs=8, depth=4, size=each, rw="randwrite", bs="512-64k",
        bs_unaligned=True, blockalign=1, seed=seed % 2 ** 31 + 1)

    check_copies(c, model, content=lambda at, n: h.pread(n, at))
    h.shutdown()


def test_the_check_can_fail(cluster):
    """One byte of one image, changed on the member behind our back, is seen;
    and it is found where the model of the test says that the image lies."""
    c = cluster(layout="raid-x", members=4, unit=UNIT, size="32M")
    model = model_of(c, "raid-x", UNIT)
    fio(c.nbd, size="16M", rw="write", bs="256k")
    check_copies(c, model)

    a = 37
    member, unit = model.copies(a)[1]
    at = c.members[member]["data_offset"] + unit * UNIT + 123
    with open(c.members[member]["file"], "r+b") as f:
        f.seek(at)
        old = f.read(1)
        f.seek(at)
        f.write(bytes([old[0] ^ 1]))
    files = [(m["file"], m["data_offset"]) for m in c.members]
    with Copies(model, files) as copies:
        assert [bad[0] for bad in copies.different()] == [a]
        assert copies.different(lost=(member,)) == []
