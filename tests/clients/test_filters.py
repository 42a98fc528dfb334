"""nbdkit's filters on top of the array.

Topology: a devcluster whose array process runs with a filter.
Pass:  fio verifies through it; the filter did what it is for; the copies on
       the members' files are alike.
"""


from copies import Copies, check_copies, model_of
from fiojob import fio
from nbdclient import connected

UNIT = 64 << 10


def up(cluster, arguments):
    return cluster(layout="raid-x", members=4, unit=UNIT, size="64M",
                   env={"WEFT_ARRAY_ARGS": arguments})


def data_of(c, model):
    """Everything in the data areas of all members."""
    with Copies(model, [(m["file"], m["data_offset"])
                        for m in c.members]) as copies:
        return [bytes(m[offset:]) for m, offset in copies.maps]


def verify(c, seed):
    return fio(c.nbd, jobs=4, depth=4, size="16M", rw="randrw", bs="512-1M",
               bs_unaligned=True, seed=seed % 2 ** 31)


def test_cow(cluster, seed):
    """Writes stay in the overlay: not a byte of the members changes."""
    c = up(cluster, "--filter=cow")
    model = model_of(c, "raid-x", UNIT)
    before = data_of(c, model)
    assert verify(c, seed)["write"]["total_ios"] > 10
    assert data_of(c, model) == before


def test_cache(cluster, seed):
    """Write-back; a flush through it brings all to the members."""
    c = up(cluster, "--filter=cache")
    verify(c, seed)
    h = connected(c.nbd)
    h.flush()
    check_copies(c, model_of(c, "raid-x", UNIT),
                 lambda at, n: h.pread(n, at))


def test_log(cluster, seed, tmp_path):
    log = tmp_path / "log"
    c = up(cluster, f"--filter=log logfile={log}")
    job = verify(c, seed)
    text = log.read_text()
    # Each request is logged twice: when it comes, and when it is done.
    assert text.count(" Write id=") == job["write"]["total_ios"]
    assert " Flush id=" in text
    check_copies(c, model_of(c, "raid-x", UNIT))
