"""Bad input: each is refused at start with one clear line that names the
thing, the reason and the way out; nothing is written.

Topology: a devcluster whose array process has ended; then a member or an
          array process is started on something that is wrong.
Pass:  it refuses, says so in one line with the words expected, and the
       members' files are, byte for byte, what they were.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket

import nbd
import pytest

from nbdclient import connected
from nbdkitproc import Nbdkit, array_of, refused
from wefttest import eventually, run

MIB = 1 << 20


def checksums(paths):
    out = {}
    for p in paths:
        with open(p, "rb") as f:
            out[str(p)] = (os.path.getsize(p),
                           hashlib.file_digest(f, "sha256").hexdigest())
    return out


@contextlib.contextmanager
def nothing_written(*paths):
    before = checksums(paths)
    yield
    assert checksums(paths) == before, "something was written"


def says(line, *patterns):
    for p in patterns:
        assert re.search(p, line, re.I), f"{p!r} is not in: {line}"
    # The way out follows the reason.
    assert len(line) > 30 and not line.endswith(":"), line


@pytest.fixture
def idle(cluster):
    """A cluster of four whose array process has ended."""
    c = cluster(layout="raid-x", members=4, unit=65536, size="32M")
    h = connected(c.nbd)
    h.pwrite(b"content" * 10000, 0)
    h.flush()
    h.shutdown()
    c.terminate("array")
    return c


def attach(c, mode, instance="0123456789abcdef"):
    """A session; None: not now, and a client is to ask again."""
    status, granted = c.call(
        "POST", "/api/v1/arrays/a/sessions",
        {"instance": instance, "node": "n9", "pid": os.getpid(), "mode": mode,
         "uri": None})
    if status == 201:
        return granted
    assert status == 409 and "retry_after_ms" in granted, granted
    return None


def files(c):
    return [m["file"] for m in c.members]


def array_refused(c, *words, name="a"):
    """Members rewrite their headers by themselves; their data stays."""
    return refused("weft", f"array={name}", f"admin={c.admin}", "node=n9",
                   *words)


def member_refused(c, path, *words, admin=None):
    return refused("weft", f"disk={path}", f"admin={admin or c.admin}",
                   "uri=nbd://127.0.0.9:10809", "node=n9", *words)


# --- Members of an array -----------------------------------------------------


@pytest.mark.long(30)
def test_missing_members(idle):
    """One may be missing, not two: some data has both of its copies there.
    Killed a moment ago, so that weftd believes that they live."""
    idle.kill("m1", "m2")
    with nothing_written(*files(idle)[1:3]):
        line = array_refused(idle)
    says(line, r"\ba\b", r"member [12]\b", "no copy", "start")


def test_unknown_array(idle):
    line = array_refused(idle, name="nope")
    says(line, "nope", "no array|unknown|there is no")


def test_array_name_that_is_none(idle):
    says(array_refused(idle, name="No Such!"), "No Such!", "name")


def test_weftd_not_there():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # nobody listens on it
        admin = f"http://127.0.0.1:{s.getsockname()[1]}"
        line = refused("weft", "array=a", f"admin={admin}", "node=n9")
    says(line, re.escape(admin.removeprefix("http://")), "refused|connect")


def test_too_few_descriptors(idle):
    """It is not the member that can't be reached."""
    with Nbdkit(*array_of(idle)) as a:
        # Some are opened last, when all members are connected.
        limit = len(os.listdir(f"/proc/{a.pid}/fd")) - 14
    line = refused(*array_of(idle),
                   wrap=["prlimit", f"--nofile={limit}"])
    says(line, r"member m\d", f"too many open files: .* {limit} ", "ulimit -n",
         "LimitNOFILE")


# --- Disks -------------------------------------------------------------------


@pytest.fixture
def taken(idle):
    """m1's file after its process has ended."""
    idle.terminate("m1")
    return idle.members[1]["file"]


def test_no_such_disk(idle, tmp_path):
    path = tmp_path / "none.img"
    says(member_refused(idle, path), re.escape(str(path)), "no such file")
    assert not path.exists()


def test_not_formatted(idle, tmp_path):
    path = tmp_path / "blank.img"
    path.write_bytes(bytes(8 * MIB))
    with nothing_written(path):
        line = member_refused(idle, path)
    says(line, re.escape(str(path)), "format")


def test_something_else(idle, tmp_path):
    """A file system: refused as a member, and not formatted over."""
    path = tmp_path / "ext4.img"
    with open(path, "wb") as f:
        f.truncate(16 * MIB)
    run("mke2fs", "-q", "-t", "ext4", path)
    with nothing_written(path):
        says(member_refused(idle, path), re.escape(str(path)))
        p = run("weftctl", "disk", "format", path, check=False)
        assert p.returncode != 0
        says(p.stderr.strip(), re.escape(str(path)), "ext4", "force")
        assert len(p.stderr.strip().splitlines()) == 1, p.stderr


def test_another_arrays_header(idle, taken):
    with nothing_written(taken):
        p = run("weftctl", "disk", "format", taken, check=False)
    assert p.returncode != 0
    says(p.stderr.strip(), re.escape(taken), "force")


def test_short(idle, tmp_path):
    """Too short to hold a header, let alone data."""
    path = tmp_path / "short.img"
    path.write_bytes(bytes(MIB // 2))
    with nothing_written(path):
        says(member_refused(idle, path), re.escape(str(path)))
        p = run("weftctl", "disk", "format", path, check=False)
        assert p.returncode != 0
        says(p.stderr.strip(), re.escape(str(path)), "small|short|large")


def test_truncated(idle, taken):
    for left in 31 * MIB, 2 * MIB, MIB, 4096, 100, 0:
        os.truncate(taken, left)
        with nothing_written(taken):
            line = member_refused(idle, taken)
        says(line, re.escape(taken))


def test_damaged_header(idle, taken):
    """Both superblock slots flipped."""
    with open(taken, "r+b") as f:
        for slot in (0, 4096):
            f.seek(slot + 100)
            byte = f.read(1)[0]
            f.seek(slot + 100)
            f.write(bytes([byte ^ 0x40]))
    with nothing_written(taken):
        says(member_refused(idle, taken), re.escape(taken))


def test_one_damaged_slot_is_survived(idle, taken):
    """The older slot serves; that is what there are two for."""
    with open(taken, "r+b") as f:
        f.seek(100)
        f.write(b"\xff")
    idle.start("m1")
    eventually(lambda: idle.get("/api/v1/arrays/a")["members"][1]["alive"])


def test_double_used_file(idle):
    """Two processes on one disk."""
    path = idle.members[0]["file"]
    says(member_refused(idle, path), re.escape(path), "use|lock|serve")


def test_double_used_clone(idle, tmp_path):
    """A copy of a disk that is being served: same UUID, other file."""
    clone = tmp_path / "clone.img"
    shutil.copyfile(idle.members[0]["file"], clone)
    before = clone.read_bytes()
    line = member_refused(idle, clone)
    says(line, "disk|clone", "n0|another|already")
    # It may have noted its own start in its header, but no data.
    offset = idle.members[0]["data_offset"]
    assert clone.read_bytes()[offset:] == before[offset:]


def test_double_used_in_create(idle, cluster):
    c = cluster(members=3, no_array=True, size="32M")
    disks = [d["uuid"] for d in c.get("/api/v1/disks")["disks"]]
    with_same = disks[:2] + disks[:1]
    status, problem = c.call("POST", "/api/v1/arrays", {
        "name": "b", "layout": "raid-x", "unit": 65536, "disks": with_same})
    assert 400 <= status < 500
    says(problem["detail"], "twice|same")
    assert c.get("/api/v1/arrays")["arrays"] == []

    taken = [d["uuid"] for d in idle.get("/api/v1/disks")["disks"]]
    status, problem = idle.call("POST", "/api/v1/arrays", {
        "name": "b", "layout": "raid-x", "unit": 65536, "disks": taken})
    assert status == 409
    says(problem["detail"], r"array a\b", "other|another|delete")


def test_foreign(idle, taken, cluster):
    """A disk of another cluster: its process waits for its array to be imported,
    says so, and serves nobody; nothing is taken over."""
    other = cluster(members=1, no_array=True, size="32M")
    with Nbdkit("weft", f"disk={taken}", f"admin={other.admin}", "node=n9",
                "uri=nbd://127.0.0.9:10809") as m:
        eventually(lambda: other.get("/api/v1/imports")["imports"])
        h = nbd.NBD()
        h.set_export_name("data/")
        with pytest.raises(nbd.Error):
            h.connect_uri(m.uri)
        [error] = {x for x in m.log().splitlines() if "belongs to cluster" in x}
    says(error, re.escape(taken), "import")
    assert [d["path"] for d in other.get("/api/v1/disks")["disks"]] == [
        other.members[0]["file"]]
    # And its own cluster still knows it.
    idle.start("m1")
    eventually(lambda: idle.get("/api/v1/arrays/a")["members"][1]["alive"])


# --- Tokens ------------------------------------------------------------------


def open_door(member, door):
    h = nbd.NBD()
    h.set_export_name(door)
    host, port = member["uri"].removeprefix("nbd://").split(":")
    h.connect_tcp(host, port)
    return h


def door_refused(c, position, door, *patterns):
    """Refused at open; the member says why in one line."""
    m = c.members[position]
    before = len(c.log(m["name"]))
    with pytest.raises(nbd.Error):
        open_door(m, door)
    said = c.log(m["name"])[before:]
    errors = [x for x in said.splitlines() if "error:" in x]
    assert errors, f"{m['name']} said nothing:\n{said}"
    for p in patterns:
        assert re.search(p, errors[0], re.I), errors[0]


def test_wrong_tokens(idle):
    granted = eventually(lambda: attach(idle, "rw"))
    members = granted["map"]["members"]
    token = members[0]["tokens"]["data"]

    # The right one opens, or nothing of this proves anything.
    h = open_door(idle.members[0], "data/" + token)
    assert h.get_size() > 0
    h.pwrite(b"x" * 512, 0)
    h.shutdown()

    # One character of each part changed, and of the MAC at its end.
    for i in {len(token) // 5, len(token) // 2, len(token) - 1}:
        wrong = token[:i] + ("1" if token[i] != "1" else "2") + token[i + 1:]
        door_refused(idle, 0, "data/" + wrong, "token")
    door_refused(idle, 1, "data/" + token, "token")      # another member's
    door_refused(idle, 0, "data/" + token[:-7], "token")
    door_refused(idle, 0, "data/" + "1" * 255, "token")
    door_refused(idle, 0, "data/", "token")
    door_refused(idle, 0, "data", "token")
    door_refused(idle, 0, "", "door|token|export")
    door_refused(idle, 0, "batch/x", "token")
    door_refused(idle, 0, "attic/" + token, "door|attic|export")


def test_a_readers_token_cannot_write(idle):
    granted = eventually(lambda: attach(idle, "ro"))
    tokens = granted["map"]["members"][0]["tokens"]
    h = open_door(idle.members[0], "data/" + tokens["data"])
    assert h.is_read_only()
    h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_COMMANDS)
    with pytest.raises(nbd.Error):
        h.pwrite(b"y" * 512, 0)
    if tokens.get("batch"):
        with pytest.raises(nbd.Error):
            b = open_door(idle.members[0], "batch/" + tokens["batch"])
            b.set_strict_mode(b.get_strict_mode() & ~nbd.STRICT_COMMANDS)
            b.pwrite(b"y" * 512, 0)


def test_an_old_sessions_token_is_refused(idle):
    """A later writer raises the epoch; the first one's tokens are worth
    nothing then, on open connections too."""
    first = eventually(lambda: attach(idle, "rw", "00000000000000aa"))
    token = first["map"]["members"][0]["tokens"]["data"]
    h = open_door(idle.members[0], "data/" + token)
    h.pwrite(b"1" * 512, 0)
    second = eventually(lambda: attach(idle, "rw", "00000000000000bb"), seconds=40,
                        what="the silent first session to be replaced")
    with pytest.raises(nbd.Error):
        h.pwrite(b"2" * 512, 0)
    door_refused(idle, 0, "data/" + token, "epoch|token")
    token = second["map"]["members"][0]["tokens"]["data"]
    h = open_door(idle.members[0], "data/" + token)
    assert h.pread(512, 0) == b"1" * 512


# --- Static maps -------------------------------------------------------------


def good_map(uris):
    return {"name": "a", "layout": "raid-x", "unit": 65536,
            "members": [{"name": f"m{i}", "uri": u}
                        for i, u in enumerate(uris)]}


@pytest.fixture
def plain(tmp_path):
    """Four plain members and their files."""
    with contextlib.ExitStack() as stack:
        paths = [tmp_path / f"m{i}.img" for i in range(4)]
        for p in paths:
            p.write_bytes(b"old content " * (16 * MIB // 12))
        yield paths, [stack.enter_context(Nbdkit("file", p)).uri
                      for p in paths]


def change(**fields):
    return lambda m: m.update(fields)


def member(i, **fields):
    return lambda m: m["members"][i].update(fields)


def without(key):
    return lambda m: m.pop(key)


MAPS = {
    "no-layout": (without("layout"), ["layout"]),
    "unknown-layout": (change(layout="raid-y"), ["layout", "raid-y"]),
    "no-unit": (without("unit"), ["unit"]),
    "unit-no-power-of-two": (change(unit=100000), ["unit", "100000"]),
    "unit-too-small": (change(unit=512), ["unit", "512"]),
    "unit-too-large": (change(unit=1 << 30), ["unit"]),
    "unit-text": (change(unit="64K"), ["unit"]),
    "unit-negative": (change(unit=-65536), ["unit"]),
    "no-members": (without("members"), ["members"]),
    "empty-members": (change(members=[]), ["members"]),
    "two-for-raid-x": (lambda m: m["members"].__delitem__(slice(2, 4)),
                       ["raid-x", "3"]),
    "odd-for-raid-10": (lambda m: (m["members"].pop(),
                                   m.update(layout="raid-10")), ["raid-10"]),
    "groups-do-not-divide": (change(groups=3), ["groups"]),
    "n-wrong": (change(n=7), [r"\bn\b"]),
    "no-uri": (lambda m: m["members"][2].pop("uri"), ["uri"]),
    "same-uri-twice": (lambda m: m["members"][2].update(
        uri=m["members"][0]["uri"]), ["uri|same|twice"]),
    "uri-that-is-none": (member(2, uri="here/there"), ["here/there"]),
    "nobody-there": (member(2, uri="nbd+unix:///?socket=/nonexistent/s"),
                     ["m2", "/nonexistent/s"]),
    "unknown-state": (member(2, state="fine"), ["state", "in-sync"]),
    "unknown-dup": (change(dup="both"), ["dup", "both"]),
    "member-bytes-too-large": (change(member_bytes=1 << 40), ["m[0-3]"]),
    "member-bytes-too-small": (change(member_bytes=4096), ["small|4096"]),
}


def map_refused(tmp_path, text, *patterns):
    path = tmp_path / "map.json"
    path.write_text(text)
    line = refused("weft", f"map={path}")
    says(line, *patterns)
    return line


@pytest.mark.parametrize("name", MAPS)
def test_bad_map(tmp_path, plain, name):
    paths, uris = plain
    spoil, patterns = MAPS[name]
    text = good_map(uris)
    spoil(text)
    with nothing_written(*paths):
        map_refused(tmp_path, json.dumps(text), *patterns)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"layout": 3}',
                                  '{"a": 1, "a": 2}', "\0" * 100,
                                  "{" * 100000])
def test_map_that_is_no_map(tmp_path, text):
    map_refused(tmp_path, text, "map.json")


def test_map_file_missing(tmp_path):
    path = tmp_path / "none.json"
    says(refused("weft", f"map={path}"), re.escape(str(path)), "no such file")


def test_good_map_starts(tmp_path, plain):
    """The map that the other tests spoil is valid; otherwise they would prove nothing."""
    _, uris = plain
    path = tmp_path / "map.json"
    path.write_text(json.dumps(good_map(uris)))
    with Nbdkit("weft", f"map={path}") as array:
        h = connected(array.uri)
        assert h.get_size() > 0


def test_map_with_a_member_out(tmp_path, plain):
    """The map's state is trusted: the array starts degraded, and says so loudly."""
    paths, uris = plain
    path = tmp_path / "map.json"
    text = good_map(uris)
    text["members"][2]["state"] = "out"
    path.write_text(json.dumps(text))
    with Nbdkit("weft", f"map={path}") as array, nothing_written(paths[2]):
        h = connected(array.uri)
        h.pwrite(b"x" * 65536 * 12, 0)
        h.flush()
        assert h.pread(65536 * 12, 0) == b"x" * 65536 * 12


def test_map_with_too_many_out(tmp_path, plain):
    paths, uris = plain
    text = good_map(uris)
    for i in (1, 2):
        text["members"][i]["state"] = "out"
    with nothing_written(*paths):
        map_refused(tmp_path, json.dumps(text), "members", "no copy|lost")


def test_member_shorter_than_the_others(tmp_path, plain):
    """The smallest counts; one too small for a stripe unit is refused."""
    paths, uris = plain
    tiny = tmp_path / "tiny.img"
    tiny.write_bytes(bytes(4096))
    with Nbdkit("file", tiny) as small, nothing_written(*paths, tiny):
        map_refused(tmp_path, json.dumps(good_map(uris[:3] + [small.uri])),
                    "m3|small")


# --- Parameters --------------------------------------------------------------


@pytest.mark.parametrize("words,patterns", [
    (["array=a"], ["admin"]),
    (["disk=/x"], ["admin"]),
    ([], ["disk=", "array=", "map="]),
    (["array=a", "disk=/x", "admin=http://127.0.0.1:1"], ["one of"]),
    (["array=a", "admin=http://127.0.0.1:1", "image-buffer=1000"],
     ["image-buffer", "1000"]),
    (["array=a", "admin=http://127.0.0.1:1", "image-buffer=99999G"],
     ["image-buffer"]),
    (["array=a", "admin=http://127.0.0.1:1", "image-age=-1"], ["image-age"]),
    (["array=a", "admin=http://127.0.0.1:1", "io-timeout=1"], ["io-timeout"]),
    (["array=a", "admin=http://127.0.0.1:1", "colour=red"], ["colour"]),
    (["array=a", "array=b", "admin=http://127.0.0.1:1"], ["array", "twice"]),
    (["array=a", "admin=ftp://127.0.0.1:1"], ["admin|ftp"]),
], ids=lambda v: "-".join(v)[:40] if v else "nothing")
def test_parameters(words, patterns):
    line = refused("weft", *words)
    for p in patterns:
        assert re.search(p, line), line


CREATES = [
    ({"unit": 100000}, ["unit", "100000"]),
    ({"unit": 65537}, ["unit"]),
    ({"layout": "raid-9"}, ["layout", "raid-x"]),
    ({"groups": 2}, ["group"]),
    ({"name": "A b"}, ["name"]),
    ({"disks": ["x"]}, ["disks"]),
]


def test_create_that_is_wrong(cluster):
    c = cluster(members=3, no_array=True, size="32M")
    disks = [d["uuid"] for d in c.get("/api/v1/disks")["disks"]]
    for fields, patterns in CREATES:
        status, problem = c.call("POST", "/api/v1/arrays", {
            "name": "b", "layout": "raid-x", "unit": 65536, "disks": disks,
            **fields})
        assert 400 <= status < 500, problem
        for p in patterns:
            assert re.search(p, problem["detail"]), problem
        assert c.get("/api/v1/arrays")["arrays"] == []
    for d in c.get("/api/v1/disks")["disks"]:
        assert d["array"] is None
