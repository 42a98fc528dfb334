"""weftctl volume: the volumes of a pool, as a user creates, sees and deletes them.

Topology: a weftd with played members (weftdactors.py), and weftctl; no process has the pool.
Pass:  each command does what it says, also in JSON; bad input is refused in one line that
       names the thing, the reason and the way out, and changes nothing.
"""

import pytest

from weftctlproc import FAILED, OK, REFUSED, USAGE, weftds as ctl
from weftdactors import members, weftd


@pytest.fixture
def pool(weftd, ctl):
    """Array a, a pool."""
    ctl("array", "create", "a", "--pool", "--yes",
        *[w for m in members(weftd) for w in ("--disk", m.uuid)])
    return ctl


def volumes(ctl):
    return ctl.json("volume", "ls", "a")["volumes"]


def test_life(pool):
    ctl = pool
    shown = ctl("array", "show", "a")
    assert "blank: 0 of" in shown and "for all volumes" in shown
    assert ctl("volume", "create", "a/vm1", "8M") == "volume a/vm1: made, with 8M\n"
    v = ctl.json("volume", "create", "a/vm2", "4M")
    assert (v["name"], v["size"], v["state"]) == ("vm2", 4 << 20, "new")
    assert ctl("volume", "ls", "a").split()[:8] == [
        "VOLUME", "STATE", "SIZE", "DATA", "GRANTED", "CLIENTS", "vm1", "new"]
    assert ctl.json("volume", "show", "a/vm2") == v
    shown = ctl("volume", "show", "a/vm2")
    assert shown.startswith("volume a/vm2: new\n") and v["uuid"] in shown
    assert ctl("volume", "resize", "a/vm2", "6M") == "volume a/vm2: has 6M now\n"
    assert [x["size"] for x in volumes(ctl)] == [8 << 20, 6 << 20]

    # The name is typed, or --yes is given.
    status, said = ctl.on_terminal("volume", "rm", "a/vm2", answer="a/vm1\n")
    assert status == FAILED and "All data of volume a/vm2 is lost" in said
    assert len(volumes(ctl)) == 2
    status, said = ctl.on_terminal("volume", "rm", "a/vm2", answer="a/vm2\n")
    assert status == OK and "volume a/vm2: deleted" in said
    assert ctl.json("volume", "rm", "a/vm1", "--yes")["deleted"]
    assert volumes(ctl) == []


def test_dry_runs(pool):
    ctl = pool
    total = ctl.json("array", "show", "a")["pool"]["total_bytes"]
    flight = ctl.json("volume", "create", "a/v", str(total), "--dry-run")
    assert flight["allowed"] and flight["confirm"] == "a/v"
    assert volumes(ctl) == []
    ctl("volume", "create", "a/v", str(total))
    said = ctl("volume", "create", "a/w", "8M", "--dry-run")
    assert "may then grow to" in said and len(volumes(ctl)) == 1
    assert ctl("volume", "resize", "a/v", str(total), "--dry-run") == ""
    assert "is lost, for good" in ctl("volume", "rm", "a/v", "--dry-run")
    assert [v["size"] for v in volumes(ctl)] == [total]


def test_refused(pool):
    ctl = pool
    ctl("volume", "create", "a/v", "8M")
    before = volumes(ctl)
    create, resize = ("volume", "create"), ("volume", "resize")
    for words, status, said in (
            ((*create, "v", "8M"), USAGE, "POOL/NAME"),
            ((*create, "a/v@s", "8M"), USAGE, "no snapshots"),
            ((*create, "a/v/w", "8M"), USAGE, "not the name of a volume"),
            ((*create, "a/", "8M"), USAGE, "not the name of a volume"),
            ((*create, "/v", "8M"), USAGE, "not the name of a pool"),
            ((*create, "a/V", "8M"), USAGE, "not the name of a volume"),
            ((*create, "a/" + "v" * 64, "8M"), USAGE, "not the name of a volume"),
            ((*create, "a/w", "much"), USAGE, "not a size"),
            ((*create, "a/w", "0"), REFUSED, "multiple of 512"),
            ((*create, "a/w", "1000"), REFUSED, "multiple of 512"),
            ((*create, "a/w", "65T"), REFUSED, "64 TiB is the most"),
            ((*create, "a/w", "64T"), REFUSED, "could never be filled"),
            ((*create, "a/v", "8M"), REFUSED, "choose another name"),
            ((*create, "b/v", "8M"), REFUSED, "no array b"),
            ((*resize, "a/v", "4M"), REFUSED, "cannot shrink"),
            ((*resize, "a/w", "4M"), REFUSED, "no volume w"),
            ((*resize, "a/v", "64T"), REFUSED, "could never be filled"),
            (("volume", "rm", "a/w", "--yes"), REFUSED, "no volume w"),
            (("volume", "rm", "a/v"), USAGE, "--yes"),
            (("volume", "show", "a/w"), REFUSED, "no volume w"),
            (("volume", "ls", "b"), REFUSED, "no array b")):
        if words[1] == "rm" and status == USAGE:
            continue  # its error follows the lines of the dry run
        assert said in ctl(*words, status=status), words
    assert volumes(ctl) == before


def test_completion(pool):
    ctl = pool
    ctl("volume", "create", "a/v1", "8M")
    ctl("volume", "create", "a/v2", "8M")
    assert ctl("complete", "--", "volume", "rm", "").split() == ["a/v1", "a/v2"]
    assert ctl("complete", "--", "volume", "ls", "").split() == ["a"]
    for verb in ("show", "resize", "rm"):
        assert ctl("complete", "--", "volume", verb, "a/v2").split() == ["a/v2"]
    for noun in ("attach", "detach"):
        assert ctl("complete", "--", noun, "").split() == ["a", "a/v1", "a/v2"]
        assert ctl("complete", "--", noun, "a/").split() == ["a/v1", "a/v2"]
    assert ctl("complete", "--", "volume", "").split() == [
        "create", "ls", "show", "resize", "rm"]


def test_a_plain_array_has_none(weftd, ctl):
    ctl("array", "create", "b", "--yes",
        *[w for m in members(weftd) for w in ("--disk", m.uuid)])
    for words in (("create", "b/v", "8M"), ("ls", "b"), ("show", "b/v"),
                  ("resize", "b/v", "8M"), ("rm", "b/v", "--yes")):
        assert "array b is no pool" in ctl("volume", *words, status=REFUSED)
    assert "pool" not in ctl("array", "show", "b")
