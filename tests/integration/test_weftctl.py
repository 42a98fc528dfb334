"""weftctl against a real cluster: its command line, status, disk, array and
map; their JSON, errors and exit statuses.

Topology: one devcluster for each test.  Pass: weftctl's output agrees with weftd and with the
bytes on the disks; an error is one line that names the thing, and changes nothing.
"""

import os
import re

import pytest

from nbdclient import connected
from weftctlproc import Ctl, FAILED, OK, REFUSED, UNREACHABLE, USAGE, ctl
from wefttest import digest, eventually, run

MIB = 1 << 20
NOWHERE = "http://127.0.0.1:1"


# --- The command line ------------------------------------------------------------


@pytest.mark.parametrize("words", [
    [], ["disk"], ["array", "frobnicate"], ["frobnicate"],
    ["status", "more"], ["array", "show"], ["array", "show", "a", "b"],
    ["--frobnicate"], ["-x"], ["status", "--json=yes"], ["array", "create"],
    ["status", "--timeout", "0"], ["status", "--timeout", "1x"],
    ["status", "--timeout"], ["array", "show", "Not_A_Name"],
    ["array", "show", "../../etc"], ["array", "rm", "a" * 64],
    ["map", "a", "12", "13", "14"], ["attach", "a", "--connections", "0"],
    ["attach", "a", "--connections", "17"], ["attach", "a", "--node", "N"],
    ["detach", "-a"], ["status", "--admin", "ftp://x"],
])
def test_usage(words):
    p = run("weftctl", *words, check=False, env={"WEFT_ADMIN": NOWHERE})
    assert p.returncode == USAGE, p.stderr
    assert p.stdout == ""
    assert re.fullmatch(r"weftctl: .*\n", p.stderr)


@pytest.mark.parametrize("words", [
    ["status"], ["node", "ls"], ["disk", "ls"], ["disk", "forget", "0000"],
    ["array", "ls"], ["array", "show", "a"], ["array", "rm", "a", "--yes"],
    ["array", "create", "a", "--disk", "0000"], ["map", "a"],
    ["attach", "a", "--print-uri"],
])
def test_unreachable(words, tmp_path):
    p = run("weftctl", *words, "--admin", NOWHERE, check=False,
            env={"WEFT_RUN_DIR": str(tmp_path)})
    assert p.returncode == UNREACHABLE
    assert re.fullmatch(r"weftctl: .*127\.0\.0\.1:1.*\n", p.stderr)
    assert os.listdir(tmp_path) == []


def test_help_and_version():
    assert re.fullmatch(r"weftctl \d+\.\d+\.\d+\n",
                        run("weftctl", "--version").stdout)
    everything = run("weftctl", "--help").stdout
    assert "weftctl array create" in everything
    one = run("weftctl", "disk", "--help").stdout
    assert "weftctl disk format" in one and "--force" in one
    assert "weftctl array" not in one
    assert "weftctl disk ls" not in run("weftctl", "disk", "format",
                                        "--help").stdout


# --- Looking -----------------------------------------------------------------------


def test_looking(cluster, ctl):
    c = cluster(members=4, size="32M")
    w = ctl(c)

    status = c.get("/api/v1/status")
    said = w("status")
    assert said.splitlines()[0] == f"{status['health']}: {status['verdict']}"
    assert re.search(r"^a +ready +raid-x +4 ", said, re.MULTILINE)
    assert w.json("status")["arrays"][0]["name"] == "a"

    nodes = {n["name"] for n in w.json("node", "ls")["nodes"]}
    assert nodes == {"n0", "n1", "n2", "n3"}
    table = w("node", "ls").splitlines()
    assert table[0].split()[:3] == ["NODE", "STATE", "DISKS"]
    assert {row.split()[0] for row in table[1:]} == nodes
    assert all(row.split()[1] == "alive" for row in table[1:])

    disks = w.json("disk", "ls")["disks"]
    assert {d["path"] for d in disks} == {m["file"] for m in c.members}
    table = w("disk", "ls").splitlines()
    assert {row.split()[0] for row in table[1:]} == {d["uuid"] for d in disks}
    assert all(row.split()[4:6] == ["serving", "a"] for row in table[1:])

    assert w.json("array", "ls")["arrays"][0]["name"] == "a"
    row = w("array", "ls").splitlines()[1]
    assert row.split()[:4] == ["a", "ready", "raid-x", "4"]
    assert row.split()[-1] == "n0"

    array = c.get("/api/v1/arrays/a")
    shown = w.json("array", "show", "a")
    for key in ("uuid", "layout", "size", "epoch", "capacity", "survives"):
        assert shown[key] == array[key]
    text = w("array", "show", "a")
    assert f"({array['size']} bytes)" in text
    assert array["survives"] in text
    for m in array["members"]:
        assert re.search(rf"^ +{m['position']} +in-sync +{m['node']} .*"
                         rf"{m['disk']}.*{re.escape(m['uri'])}", text,
                         re.MULTILINE)
    assert array["session"]["session"] in text

    line = w("array", "show", "b", status=REFUSED)
    assert re.search(r"\bb\b", line)
    w("array", "show", "b", "--json", status=REFUSED)


def test_colours(cluster, ctl):
    """On a terminal, and only there."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    assert "\033" not in w("status")
    status, said = w.on_terminal("status")
    assert status == OK and "\033[32m" in said
    assert "\033" not in w.on_terminal("status", "--no-color")[1]
    w.env["NO_COLOR"] = "1"
    status, said = w.on_terminal("status")
    assert status == OK and said and "\033" not in said


def test_degraded_is_shown(cluster, ctl):
    """A member dies, and a write meets that: out, and said so everywhere."""
    c = cluster(members=4, size="32M", io_timeout=2000)
    w = ctl(c)
    h = connected(c.nbd)
    c.kill("m2")
    for offset in range(0, 4 * MIB, MIB // 4):
        h.pwrite(b"x" * 4096, offset)
    h.flush()
    h.shutdown()
    eventually(lambda: c.get("/api/v1/arrays/a")["state"] == "degraded")
    said = w("status")
    assert not said.startswith("ok:")
    assert re.search(r"^a +degraded", said, re.MULTILINE)
    assert re.search(r"array a, member 2 \(n2:.*m2\.img\): out", said)
    assert re.search(r"^ +2 +out ", w("array", "show", "a"), re.MULTILINE)
    assert re.search(r"exposed", w("array", "show", "a"))
    assert re.search(r"^ *\d+ +\d+ +data +2 .* out ",
                     w("map", "a", "512K"), re.MULTILINE)


# --- disk ---------------------------------------------------------------------------


def blank(path, size=32 * MIB):
    with open(path, "wb") as f:
        f.truncate(size)
    return str(path)


def test_disk_format(tmp_path):
    w = Ctl(NOWHERE, tmp_path)  # needs no weftd
    a, b = blank(tmp_path / "a.img"), blank(tmp_path / "b.img", 5 * MIB + 77)

    both = w.json("disk", "format", a, b)["disks"]
    assert [d["path"] for d in both] == [a, b]
    assert both[0]["size"] == 32 * MIB
    assert both[0]["data_bytes"] == 31 * MIB
    for d in both:
        assert d["size"] - d["data_bytes"] - d["unused_bytes"] == MIB
        assert d["replaced"] is None
    assert both[0]["uuid"] != both[1]["uuid"]

    before = digest(a)
    line = w("disk", "format", a, status=FAILED)
    assert a in line and "Weft" in line and "--force" in line
    assert digest(a) == before

    said = w("disk", "format", a, "--force")
    assert a in said and both[0]["uuid"] in said and "31M" in said
    assert digest(a) != before


def test_disk_format_touches_none_if_one_is_bad(tmp_path):
    w = Ctl(NOWHERE, tmp_path)
    good, ext4 = blank(tmp_path / "good.img"), blank(tmp_path / "ext4.img")
    run("mke2fs", "-q", "-t", "ext4", "-L", "home", ext4)
    before = digest(good), digest(ext4)

    line = w("disk", "format", good, ext4, status=FAILED)
    assert ext4 in line and "ext4" in line and "--force" in line
    missing = str(tmp_path / "missing")
    assert missing in w("disk", "format", good, missing, status=FAILED)
    assert not os.path.exists(missing)
    assert str(tmp_path) in w("disk", "format", good, tmp_path, status=FAILED)
    w("disk", "format", good, good, status=USAGE)
    assert (digest(good), digest(ext4)) == before

    disks = w.json("disk", "format", "--force", good, ext4)["disks"]
    assert disks[0]["replaced"] is None and "ext4" in disks[1]["replaced"]
    p = run("blkid", "-p", ext4, check=False)
    assert "ext4" not in p.stdout


def test_disk_format_in_use(cluster, ctl):
    c = cluster(members=3, size="32M", no_array=True)
    path = c.members[0]["file"]
    before = digest(path)
    line = ctl(c)("disk", "format", "--force", path, status=FAILED)
    assert path in line and "--force" not in line
    assert digest(path) == before


def test_disk_forget(cluster, ctl):
    c = cluster(members=4, size="32M", no_array=True)
    w = ctl(c)
    disk = next(d for d in c.get("/api/v1/disks")["disks"]
                if d["path"] == c.members[3]["file"])
    assert disk["path"] in w("disk", "forget", disk["uuid"], status=REFUSED)
    assert "no such disk" in w("disk", "forget", "n3:/nowhere",
                               status=REFUSED)
    c.kill("m3")
    eventually(lambda: not [d for d in c.get("/api/v1/disks")["disks"]
                            if d["uuid"] == disk["uuid"]][0]["alive"])
    assert "silent" in w("disk", "ls")
    assert "--yes" in w("disk", "forget", disk["uuid"], status=USAGE)
    assert "forgotten" in w("disk", "forget", disk["uuid"], "--dry-run")
    assert len(c.get("/api/v1/disks")["disks"]) == 4
    assert w.json("disk", "forget", f"n3:{disk['path']}", "--yes") == {
        "uuid": disk["uuid"], "deleted": True}
    assert len(c.get("/api/v1/disks")["disks"]) == 3


# --- array --------------------------------------------------------------------------


def test_array_create_and_rm(cluster, ctl):
    c = cluster(members=4, size="32M", no_array=True)
    w = ctl(c)
    disks = sorted(c.get("/api/v1/disks")["disks"], key=lambda d: d["path"])
    uuids = [d["uuid"] for d in disks]
    create = ["array", "create", "data", "--layout", "raid-x"]

    # Each way of naming a disk, in an order that is not theirs.
    names = [uuids[2], f"n0:{disks[0]['path']}", disks[3]["path"]]
    named = [w for n in names for w in ("--disk", n)] + [uuids[1][:13]]
    plan = w.json(*create, *named, "--dry-run")["plan"]
    assert [m["disk"] for m in plan["members"]] == [
        uuids[2], uuids[0], uuids[3], uuids[1]]
    assert plan["unit"] == 256 * 1024
    capacity = plan["capacity"]
    assert capacity["total"] == sum(d["data_bytes"] for d in disks)
    assert capacity["total"] == (capacity["usable"] + capacity["images"]
                                 + capacity["wasted"])
    text = w(*create, *named, "--dry-run", "--unit", "64K")
    for word in ("raid-x, 4 members, stripe unit 64K", "usable", "images",
                 "wasted", "survives", "any 1 member"):
        assert word in text
    assert c.get("/api/v1/arrays")["arrays"] == []

    # No terminal, and no; nothing is done.
    assert "--yes" in w(*create, *named, status=USAGE)
    status, said = w.on_terminal(*create, *named, answer="n")
    assert status == FAILED and "any 1 member" in said and "[y/N]" in said
    assert c.get("/api/v1/arrays")["arrays"] == []

    status, said = w.on_terminal(*create, *named, answer="y")
    assert status == OK, said
    array = c.get("/api/v1/arrays/data")
    assert array["state"] == "ready"
    assert [m["disk"] for m in array["members"]] == [
        uuids[2], uuids[0], uuids[3], uuids[1]]

    # A used disk can't be used again.
    line = w("array", "create", "more", "--yes", *named, status=REFUSED)
    assert "data" in line
    w(*create, *named, "--yes", status=REFUSED)

    # rm
    assert "--yes" in w("array", "rm", "data", status=USAGE)
    status, said = w.on_terminal("array", "rm", "data", answer="date")
    assert status == FAILED
    assert c.get("/api/v1/arrays/data")["state"] == "ready"
    status, said = w.on_terminal("array", "rm", "data", answer="data")
    assert status == OK, said
    assert c.get("/api/v1/arrays")["arrays"] == []
    assert "data" in w("array", "rm", "data", "--yes", status=REFUSED)

    # The disks are free again.
    array = w.json("array", "create", "mirror", "--layout", "raid-10",
                   "--unit", "64K", "--dup", "sync-client", "--yes",
                   *named)
    assert (array["state"], array["layout"], array["unit"], array["dup"]) == (
        "ready", "raid-10", 65536, "sync-client")
    assert w.json("array", "rm", "mirror", "--yes") == {
        "name": "mirror", "deleted": True, "silent_disks": 0}
    assert "WARNING" in w("array", "create", "z", "--layout", "raid-0",
                          "--dry-run", *named)


def test_array_create_refused(cluster, ctl):
    c = cluster(members=3, size="32M", no_array=True)
    w = ctl(c)
    uuids = [d["uuid"] for d in c.get("/api/v1/disks")["disks"]]
    three = [x for u in uuids for x in ("--disk", u)]

    def refused(*words, status, says):
        line = w("array", "create", "a", "--yes", *words, status=status)
        assert re.search(says, line), line

    refused(status=USAGE, says="--disk")
    refused(*three, "--layout", "raid-7", status=USAGE, says="raid-7.*raid-x")
    refused(*three, "--unit", "64Q", status=USAGE, says="64Q")
    refused(*three, "--unit", "5000", status=REFUSED, says="unit|5000")
    refused(*three, "--groups", "0", status=USAGE, says="groups")
    refused(*three, "--groups", "2", status=REFUSED, says="group")
    refused(*three, "--layout", "raid-10", status=REFUSED, says="raid-10|even")
    refused(*three, "--dup", "maybe", status=REFUSED, says="dup|maybe")
    refused(*three[:4], status=REFUSED, says="raid-x|3")
    refused(*three, uuids[1], status=USAGE, says="twice")
    refused(*three, "0" * 36, status=REFUSED, says="no such disk")
    refused(*three, "n1:/nowhere", status=REFUSED, says="no such disk")
    refused(*three[:2], "/", status=REFUSED, says="no such disk")
    assert c.get("/api/v1/arrays")["arrays"] == []


def test_rm_with_a_silent_disk(cluster, ctl):
    """It is not waited for, and is free when it is back."""
    c = cluster(members=3, size="32M")
    w = ctl(c)
    uuids = [m["disk"] for m in c.get("/api/v1/arrays/a")["members"]]
    c.terminate("array")
    c.kill("m2")
    eventually(lambda: "silent" in w("disk", "ls"))
    assert "1 of its disks" in w("array", "rm", "a", "--yes")
    three = [x for u in uuids for x in ("--disk", u)]
    w("array", "create", "b", "--yes", *three, status=REFUSED)
    c.start("m2")
    eventually(lambda: not [d for d in c.get("/api/v1/disks")["disks"]
                            if d["releasing"] or not d["alive"]])
    w("array", "create", "b", "--yes", *three)


def test_rm_of_an_attached_array(cluster, ctl):
    c = cluster(members=3, size="32M")
    line = ctl(c)("array", "rm", "a", "--yes", status=REFUSED)
    assert "n0" in line
    assert c.get("/api/v1/arrays/a")["state"] == "ready"


# --- map ----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["raid-x", "raid-10", "chained", "rotated",
                                    "raid-1", "raid-0"])
def test_map_tells_where_bytes_are(cluster, ctl, seed, layout):
    """Data written at an offset is on the disks where map says."""
    c = cluster(members=4, size="16M", layout=layout, unit="64K")
    w = ctl(c)
    size = c.get("/api/v1/arrays/a")["size"]
    offset = (seed * 512) % (size - MIB)
    data = bytes((i * 7 + i // 256 + seed) % 251 for i in range(300000))
    h = connected(c.nbd)
    h.pwrite(data, offset)
    h.flush()
    h.shutdown()

    said = w.json("map", "a", offset, len(data))
    assert (said["offset"], said["length"]) == (offset, len(data))
    at, copies = offset, {"raid-1": 4, "raid-0": 1}.get(layout, 2)
    for piece in said["pieces"]:
        assert piece["offset"] == at
        at += piece["length"]
        wanted = data[piece["offset"] - offset:][:piece["length"]]
        assert [x["copy"] for x in piece["copies"]] == \
            ["data"] + ["image"] * (copies - 1)
        assert len({x["member"] for x in piece["copies"]}) == copies
        for copy in piece["copies"]:
            member = c.members[copy["member"]]
            assert copy["node"] == f"n{copy['member']}"
            with open(member["file"], "rb") as f:
                f.seek(member["data_offset"] + copy["offset"])
                assert f.read(piece["length"]) == wanted
    assert at == offset + len(data)
    assert len(w("map", "a", offset, len(data)).splitlines()) == \
        1 + copies * len(said["pieces"])


def test_map_picture(cluster, ctl):
    """Figure 2b of the RAID-x paper: 4 members."""
    c = cluster(members=4, size="16M", unit="64K")
    w = ctl(c)
    picture = w.json("map", "a")
    columns = [[u["unit"] for u in m["units"]] for m in picture["members"]]
    assert columns == [
        ["D0", "D4", "D8", "D9'", "D10'", "D11'"],
        ["D1", "D5", "D9", "D6'", "D7'", "D8'"],
        ["D2", "D6", "D10", "D3'", "D4'", "D5'"],
        ["D3", "D7", "D11", "D0'", "D1'", "D2'"],
    ]
    text = w("map", "a")
    rows = [line.split()[1:] for line in text.splitlines()
            if re.match(r" +[\d.]+[KM]? +D", line)]
    assert [list(column) for column in zip(*rows)] == columns

    size = c.get("/api/v1/arrays/a")["size"]
    one = w.json("map", "a", "64K")
    assert (one["offset"], one["length"]) == (65536, 65536)
    assert w.json("map", "a", 65537)["length"] == 65535
    assert w.json("map", "a", size - 1, 1)["pieces"][0]["length"] == 1
    for words, says in [(["64Q"], "64Q"), ([size], "end"),
                        ([0, size + 1], "end"), ([0, 0], "at least one byte"),
                        (["0", "1.3G"], "1.3G"), (["-1"], ""),
                        ([1 << 64], ""), ([0, "16E"], "")]:
        assert says in w("map", "a", *words, status=USAGE)
    w("map", "b", status=REFUSED)
