"""The volumes of a pool, by real processes, through kills, power cuts and a full pool.

Topology: one devcluster whose array is a pool, with two volumes; clients by libnbd.
Cause: the array process is killed; all processes lose their power, over volatile disks; the
       pool is full; a volume grows, is deleted, is made again; weftd loses its database, or
       gets an older one, and the process that scans the pool is killed; a root is damaged; the
       disks of a new pool have other bytes in each copy.
Pass:  after the next start each volume has all blocks that were flushed; in a full pool, after
       full-wait, writes that need space fail and all other requests succeed; trimmed space
       can be used again; a refusal says the reason, and changes nothing; after a scan no
       volume gets a segment of another, and a volume that cannot be read is named.
"""

import errno
import json
import mmap
import random
import shutil
import time

import nbd
import pytest

from blockwriter import BLOCKS, Writer
from copies import check_copies, model_of
from heldmessages import Proxied, Trap, answer_to, request
from nbdclient import connected
from powercut import power_cut, volatile
from weftctlproc import ctl
from wefttest import Stopwatch, eventually, picked, run

UNIT = 64 << 10
MIB = 1 << 20
VOLUMES = ("one", "two")


def args(*more):
    # A new array process need not wait for the dead one's silence.
    return {"WEFT_ARRAY_ARGS": " ".join(("takeover=true",) + more)}


def volume(c, name, size):
    c.call("POST", "/api/v1/arrays/a/volumes", {"name": name, "size": size})
    assert name in volumes(c)


def volumes(c):
    return {v["name"]: v for v in c.get("/api/v1/arrays/a/volumes")["volumes"]}


def uri(c, name):
    return f"{c.nbd}/{name}"


def spread(rng):
    """Places in many segments, so that the log has something to say."""
    return [4096 * b for b in rng.sample(range(40 * MIB // 4096), BLOCKS)]


def pool(cluster, env, size="64M"):
    c = cluster(pool=True, unit=UNIT, size=size, env=env)
    for name in VOLUMES:
        volume(c, name, 64 * MIB)
    return c


def writers(c, rng, after=None):
    new = [Writer(uri(c, name), rng, after=after and after[i],
                  places=after[i].places if after else spread(rng))
           for i, name in enumerate(VOLUMES)]
    for w in new:
        w.start()
    return new


def checked(c, all_of_them):
    for w, name in zip(all_of_them, VOLUMES):
        w.check(uri(c, name))


@pytest.mark.long(30)
def test_process_is_killed(cluster, seed):
    rng = random.Random(seed)
    c = pool(cluster, args())
    both = writers(c, rng)
    for _ in range(4):
        for w in both:
            w.until_flushed(rng.randrange(2, 20))
        c.kill("array")
        for w in both:
            w.broken()
        c.start("array")
        checked(c, both)
        both = writers(c, rng, after=both)
    for w in both:
        w.end()
    c.terminate("array")
    c.start("array")
    checked(c, both)


@pytest.mark.long(30)
def test_power_of_all(cluster, seed):
    rng = random.Random(seed)
    c = pool(cluster, volatile(args()))
    names = ["array", "weftd"] + [m["name"] for m in c.members]
    both, lost = writers(c, rng), 0
    for cut in range(12):
        if cut >= 3 and lost > 0:
            break
        for w in both:
            w.until_flushed(rng.randrange(2, 20))
        time.sleep(0.02)
        rng.shuffle(names)
        c.kill(*names)
        for w in both:
            w.broken()
        lost += sum(power_cut(m["file"], rng)[1] for m in c.members)
        c.up()
        checked(c, both)
        check_copies(c, model_of(c, "raid-x", UNIT))
        both = writers(c, rng, after=both)
    for w in both:
        w.end()
    assert lost > 0


def fill(h, size):
    """Writes whole MiB until it fails: how many were written, and the error."""
    data = random.randbytes(MIB)
    for at in range(0, size, MIB):
        try:
            h.pwrite(data, at)
        except nbd.Error as e:
            return at // MIB, e.errno
    return size // MIB, None


def test_full(cluster, seed):
    rng = random.Random(seed)
    c = pool(cluster, args("full-wait=1500"), size="128M")
    volume(c, "large", 240 * MIB)
    one = Writer(uri(c, "one"), rng, places=spread(rng))
    one.start()
    one.until_flushed(5)
    one.end()
    large = connected(uri(c, "large"))
    since, watch = time.monotonic(), Stopwatch()
    written, error = fill(large, 240 * MIB)
    assert error == "ENOSPC" and 130 < written < 240
    assert watch.seconds(since) >= 1.4
    # Reads, writes in place, FLUSH, trim and the other volume go on.
    large.pwrite(b"x" * 4096, 0)
    large.flush()
    assert large.pread(4096, 0) == b"x" * 4096
    h = connected(uri(c, "one"))
    h.pwrite(b"y" * 4096, one.places[0])
    h.flush()
    assert h.pread(4096, one.places[0]) == b"y" * 4096
    # A write that waits goes on when there is space.
    waits = large.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(b"z" * 4096)), 239 * MIB)
    large2 = connected(uri(c, "large"))
    large2.trim(20 * MIB, 0)
    large2.flush()
    eventually(lambda: large.poll(10) is not None and large.aio_command_completed(waits),
               what="the write to go on")
    assert large.pread(4096, 239 * MIB) == b"z" * 4096
    assert large2.pread(MIB, MIB) == bytes(MIB)
    # Space that was trimmed comes back to the other volume.
    large2.trim(100 * MIB, 20 * MIB)
    large2.flush()
    two = connected(uri(c, "two"))
    again = []

    def fits():
        again.append(fill(two, 40 * MIB))
        return again[-1] == (40, None)
    eventually(fits, 60, what="the space to come back")
    two.flush()


def extents(h, size):
    found = []
    h.block_status(size, 0, lambda context, offset, e, error: found.extend(e))
    return list(zip(found[::2], found[1::2]))


def test_thin(cluster):
    """Trim returns space, a hole is shown as one, and nothing of another volume."""
    c = pool(cluster, args())
    h = nbd.NBD()
    h.add_meta_context("base:allocation")
    h.connect_uri(uri(c, "one"))
    assert h.get_size() == 64 * MIB
    assert extents(h, 64 * MIB) == [(64 * MIB, 3)]
    h.pwrite(b"a" * 8 * MIB, 4 * MIB)
    h.flush()
    assert extents(h, 64 * MIB) == [(4 * MIB, 3), (8 * MIB, 0), (52 * MIB, 3)]

    def mapped(name):
        return volumes(c)[name]["mapped_bytes"]
    eventually(lambda: mapped("one") == 8 * MIB)
    h.trim(6 * MIB, 4 * MIB)
    h.flush()
    assert h.pread(6 * MIB, 4 * MIB) == bytes(6 * MIB)
    eventually(lambda: mapped("one") == 2 * MIB)
    # The segments are used again, and what stood there is not seen.
    other = connected(uri(c, "two"))
    other.pwrite(b"b" * 4096, 30 * MIB)
    assert other.pread(MIB, 30 * MIB) == b"b" * 4096 + bytes(MIB - 4096)


def test_grow_and_delete(cluster):
    c = pool(cluster, args())
    h = connected(uri(c, "one"))
    h.pwrite(b"a" * 4096, 0)
    h.flush()
    c.call("PATCH", "/api/v1/arrays/a/volumes/one", {"size": 96 * MIB})
    bigger = connected(uri(c, "one"))
    assert bigger.get_size() == 96 * MIB
    bigger.pwrite(b"b" * 4096, 95 * MIB)
    bigger.flush()
    c.restart("array")
    bigger = connected(uri(c, "one"))
    assert bigger.get_size() == 96 * MIB
    assert bigger.pread(4096, 0) == b"a" * 4096
    assert bigger.pread(4096, 95 * MIB) == b"b" * 4096
    bigger.shutdown()
    eventually(lambda: volumes(c)["one"]["clients"] == 0)
    c.call("DELETE", "/api/v1/arrays/a/volumes/one")
    eventually(lambda: "one" not in volumes(c))
    with pytest.raises(nbd.Error) as e:
        connected(uri(c, "one"))
    assert "one" in str(e.value)
    # Another one of this name is empty.
    volume(c, "one", 32 * MIB)
    h = connected(uri(c, "one"))
    assert h.get_size() == 32 * MIB and h.pread(MIB, 0) == bytes(MIB)


def test_names(cluster):
    c = pool(cluster, args())
    listed = json.loads(run("nbdinfo", "--list", "--json", c.nbd).stdout)["exports"]
    assert {e["export-name"] for e in listed} == set(VOLUMES)
    for name in ("", "a", "nope", "one/two", "one@monday"):
        with pytest.raises(nbd.Error):
            connected(uri(c, name))
    log = c.log("array")
    assert "array a is a pool" in log and "weftctl volume ls a" in log
    # Volumes that are open stay so while weftd is down; others cannot be opened.
    volume(c, "three", 8 * MIB)
    h = connected(uri(c, "one"))
    c.kill("weftd")
    again = connected(uri(c, "one"))
    again.pwrite(b"a" * 4096, 0)
    again.flush()
    assert h.pread(4096, 0) == b"a" * 4096
    with pytest.raises(nbd.Error):
        connected(uri(c, "three"))
    c.start("weftd")
    assert connected(uri(c, "three")).get_size() == 8 * MIB


class Lists:
    """Counts weftd's answers with a list of volumes."""

    count = 0

    def passes(self, _, where, words, *__):
        self.count += where == "reply" and words["status"] == 200 and \
            words["asked"] == {} and "volumes" in words
        return True


def proxied(c):
    """The array process, from its next start on, has a proxy for weftd."""
    proxy = Proxied(c)
    command = c.dir / "array.cmd"
    was = command.read_text()
    command.write_text(was.replace(c.admin, proxy.admin))
    assert command.read_text() != was
    return proxy


def test_many_lists(cluster):
    """Clients that ask for the names again and again cost weftd a call a second at most."""
    c = pool(cluster, args())
    c.terminate("array")
    proxy = proxied(c)
    proxy.trap = lists = Lists()
    c.start("array")
    since = Stopwatch()
    for _ in range(300):
        h = nbd.NBD()
        h.set_opt_mode(True)
        h.connect_uri(c.nbd)
        names = []
        h.opt_list(lambda name, _: names.append(name))
        assert names == list(VOLUMES)
        h.opt_abort()
    assert 1 <= lists.count <= 1 + since.seconds()


# --- A volume that its clients have left ------------------------------------------------


IDLE_S = 5  # then it is closed


def wrote(c, name, number):
    """A client comes, finds what the one before has written, writes, and goes."""
    h = connected(uri(c, name))
    for i in range(number):
        assert h.pread(4096, i * 3 * MIB) == b"%08d" % i * 512
    h.pwrite(b"%08d" % number * 512, number * 3 * MIB)
    h.flush()
    h.shutdown()


def granted(c, name):
    return volumes(c)[name]["granted_bytes"]


def gives(kind):
    """A message that gives segments of a volume back, or its answer."""
    def matches(where, words, *_):
        asked = words if where == "request" else words.get("asked", {})
        told = asked.get("volumes")  # a heartbeat has a number there
        return where == kind and isinstance(told, list) and any("give" in v for v in told)
    return matches


def test_left(cluster):
    """It is closed: its window is another's, and the next client finds its data."""
    c = pool(cluster, args())
    wrote(c, "one", 0)
    connected(uri(c, "two")).shutdown()
    before = granted(c, "one")
    assert before > 4 * MIB and granted(c, "two") > 0
    eventually(lambda: granted(c, "two") == 0 and granted(c, "one") < before / 2)
    wrote(c, "one", 1)
    wrote(c, "two", 0)
    c.restart("array")
    wrote(c, "one", 2)
    wrote(c, "two", 1)


@pytest.mark.long(30)
def test_left_and_back(cluster, seed):
    """A client that comes when the volume is just being closed gets it, without an error."""
    rng = random.Random(seed)
    c = pool(cluster, args())
    for number in range(5):
        for name in VOLUMES:
            wrote(c, name, number)
        # A volume is closed within a few ms.
        time.sleep(IDLE_S + rng.random() * 0.1 - 0.03)
    with pytest.raises(nbd.Error):
        connected(uri(c, "three"))


@pytest.mark.parametrize("kind", ["request", "reply"])
def test_left_and_killed(cluster, kind):
    """The process is killed when weftd does not know yet, or only just, that it gives the
    window back."""
    c = pool(cluster, args())
    c.terminate("array")
    proxy = proxied(c)
    c.start("array")
    proxy.trap = Trap([gives(kind)], lambda: c.kill("array"), drop=True)
    wrote(c, "one", 0)
    connected(uri(c, "two")).shutdown()
    proxy.trap.wait()
    proxy.trap = None
    c.start("array")
    for number in (1, 2):
        wrote(c, "one", number)
        wrote(c, "two", number - 1)
        eventually(lambda: granted(c, "one") <= 10 * MIB)


def test_left_while_weftd_is_down(cluster):
    """A volume is not closed then: it keeps its window, and a client that comes back writes."""
    c = pool(cluster, args())
    wrote(c, "one", 0)
    c.kill("weftd")
    for number in (1, 2):
        time.sleep(IDLE_S + 2)
        wrote(c, "one", number)
    c.start("weftd")
    eventually(lambda: 0 < granted(c, "one") <= 10 * MIB)
    wrote(c, "one", 3)


@pytest.mark.parametrize("kind", ["request", "reply"])
def test_left_while_weftd_dies(cluster, kind):
    """weftd dies when the volume has just been closed: a client opens it again, reads and
    writes in place; a write that needs space waits until weftd is back."""
    c = pool(cluster, args())
    c.terminate("array")
    proxy = proxied(c)
    c.start("array")
    wrote(c, "two", 0)
    proxy.trap = Trap([gives(kind)], lambda: c.kill("weftd"), drop=True)
    proxy.trap.wait()
    h = connected(uri(c, "two"))
    for block in (b"%08d" % 7, b"%08d" % 0):
        h.pwrite(block * 512, 0)
        h.flush()
        assert h.pread(4096, 0) == block * 512
    proxy.trap = None
    c.start("weftd")
    wrote(c, "two", 1)
    h.shutdown()
    eventually(lambda: 0 < granted(c, "two") <= 10 * MIB)
    wrote(c, "one", 0)
    wrote(c, "two", 2)


# --- A scan ---------------------------------------------------------------------------


ROOT, ROOT_SLOT = b"WEFTROOT", 128 << 10


def lose_database(c):
    """weftd knows nothing; then the array is imported."""
    uuid = c.get("/api/v1/arrays/a")["uuid"]
    c.kill("weftd")
    shutil.rmtree(c.dir / "weftd")
    c.start("weftd")

    def heard():
        found = c.get("/api/v1/imports")["imports"]
        return len(found) == 1 and len(found[0]["members"]) == len(c.members)
    eventually(heard, what="the members to ask the new weftd")
    status, reply = c.call("POST", "/api/v1/imports", {"name": "a", "array": uuid})
    assert status == 201, reply


def filled(c, rng):
    """Both volumes, with all that their clients have flushed; nobody has the pool."""
    both = writers(c, rng)
    for w in both:
        w.until_flushed(10)
        w.end()
    c.terminate("array")
    return both


def third(c, rng):
    """A volume that is made now, and written in many segments, takes nothing from others."""
    volume(c, "three", 64 * MIB)
    w = Writer(uri(c, "three"), rng, places=spread(rng))
    w.start()
    w.until_flushed(5)
    w.end()
    return w


def test_database_is_lost(cluster, seed):
    rng = random.Random(seed)
    c = pool(cluster, args(), size="128M")
    both = filled(c, rng)
    lose_database(c)
    # Until it is scanned, the pool is no array that anybody could read or write.
    said = c.call("POST", "/api/v1/arrays/a/volumes", {"name": "three", "size": MIB})
    assert said[0] == 409, said
    c.start("array")
    checked(c, both)
    assert set(volumes(c)) == set(VOLUMES)
    new = third(c, rng)
    checked(c, both)
    c.restart("array")
    checked(c, both)
    new.check(uri(c, "three"))
    assert "reading the volumes of the pool" in c.log("array")
    assert c.log("array").count("the pool was scanned: 2 volumes") == 1


def test_imported_array_is_none(cluster, seed):
    """A plain array stays one."""
    c = cluster(unit=UNIT, size="64M", env=args())
    h = connected(c.nbd)
    h.pwrite(b"a" * 4096, 0)
    h.flush()
    h.shutdown()
    c.terminate("array")
    lose_database(c)
    for _ in range(2):
        c.start("array")
        h = connected(c.nbd)
        assert h.pread(4096, 0) == b"a" * 4096
        h.pwrite(b"a" * 8192, 0)
        h.flush()
        h.shutdown()
        c.terminate("array")
    assert "reading the volumes" not in c.log("array")
    said = c.call("POST", "/api/v1/arrays/a/volumes", {"name": "one", "size": MIB})
    assert said[0] == 409 and said[1]["code"] == "not-pool"


def test_backup_from_before_a_volume(cluster, ctl, tmp_path, seed):
    rng = random.Random(seed)
    c = pool(cluster, args(), size="128M")
    one = Writer(uri(c, "one"), rng, places=spread(rng))
    one.start()
    one.until_flushed(3)
    connected(uri(c, "two")).shutdown()
    eventually(lambda: volumes(c)["two"]["state"] == "ready")
    secret = tmp_path / "passphrase"
    secret.write_text("correct horse\n")
    secret.chmod(0o600)
    ctl(c)("backup", tmp_path / "backup", "--passphrase-file", secret)
    # Since the backup: one writes on, two is deleted, three is made.
    one.until_flushed(5)
    one.end()
    c.call("DELETE", "/api/v1/arrays/a/volumes/two")
    eventually(lambda: "two" not in volumes(c))
    three = third(c, rng)
    c.terminate("array")
    c.kill("weftd")
    run("weftd", "--state", c.dir / "weftd", "--restore", tmp_path / "backup",
        "--passphrase-file", secret, "--replace")
    c.start("weftd")
    eventually(lambda: "was restored from its members" in c.log("weftd"),
               what="the array to be restored")
    c.start("array")
    one.check(uri(c, "one"))
    assert set(volumes(c)) == {"one", "three"}
    three.check(uri(c, "three"))
    volume(c, "two", 32 * MIB)
    h = connected(uri(c, "two"))
    assert h.pread(MIB, 0) == bytes(MIB)
    assert fill(h, 32 * MIB) == (32, None)
    h.flush()
    one.check(uri(c, "one"))
    three.check(uri(c, "three"))


STEPS = {"begin": request("begin"), "begun": answer_to("begin"),
         "volume": request("volumes"), "told": answer_to("volumes"),
         "end": request("end"), "ended": answer_to("end")}


@pytest.mark.long(30)
def test_scan_is_killed(cluster, seed):
    """At each step: weftd has taken over all of it, or nothing."""
    rng = random.Random(seed)
    c = pool(cluster, args(), size="128M")
    both = filled(c, rng)
    lose_database(c)
    proxy = proxied(c)
    for step, matcher in STEPS.items():
        proxy.trap = Trap([matcher], lambda: c.kill("array"), drop=True)
        c.devcluster("start", c.dir, "array", check=False)
        proxy.trap.wait()
        status, reply = c.call("GET", "/api/v1/arrays/a/volumes")
        assert step == "ended" or status == 409 or reply["volumes"] == [], (step, reply)
    assert set(volumes(c)) == set(VOLUMES)
    proxy.trap = None
    c.start("array")
    checked(c, both)
    third(c, rng)
    checked(c, both)


def roots(c):
    """Where roots begin, in the members' files."""
    found = []
    for m in c.members:
        with open(m["file"], "rb") as f, \
                mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(ROOT)
            while at >= 0:
                found.append((m["file"], at))
                at = data.find(ROOT, at + 1)
    return found


# Bytes of a root, and what they become.
DAMAGES = {"name": (190, b"\xff"), "magic": (0, b"w"), "array": (112, bytes(16)),
           "first-sector": (0, bytes(512)), "other-bytes": (0, b"\xa5" * 4096),
           "all-but-a-byte": (0, bytes(130) + b"o" + bytes(4096 - 131))}


def damage(c, name, kind):
    """Each copy of each slot of the volume's root is damaged in this way."""
    at, data = DAMAGES[kind]
    damaged = 0
    for file, root in roots(c):
        with open(file, "r+b") as f:
            f.seek(root + 128)  # ROOT_AT_NAME
            if f.read(64).rstrip(b"\0").decode(errors="replace") != name:
                continue
            f.seek(root + at)
            f.write(data)
            damaged += 1
    return damaged


@pytest.mark.parametrize("kind", picked(list(DAMAGES), 2))
def test_root_is_damaged(cluster, seed, kind):
    """However it is damaged, the volume is seen, and none of its space is granted."""
    rng = random.Random(seed)
    c = pool(cluster, args(), size="128M")
    both = filled(c, rng)
    # All copies of both slots, where both were written.
    assert damage(c, "two", kind) >= 2
    lose_database(c)
    c.start("array")
    both[0].check(uri(c, "one"))
    found = volumes(c)
    assert len(found) == 2
    name = next(n for n in found if n.startswith("broken"))
    assert found[name]["state"] == "broken"
    with pytest.raises(nbd.Error):
        connected(uri(c, name))
    log = c.log("array")
    assert f"the volume of root {name[-1]} cannot be read: " in log
    # Nothing is granted before the broken volume is deleted.
    volume(c, "three", 8 * MIB)
    h = connected(uri(c, "one"))
    h.pwrite(b"x" * 4096, both[0].places[0])
    h.flush()
    c.call("DELETE", f"/api/v1/arrays/a/volumes/{name}")
    eventually(lambda: name not in volumes(c))
    three = connected(uri(c, "three"))
    assert fill(three, 8 * MIB) == (8, None)
    three.flush()


def soil(c, rng):
    """The data area of each disk has other bytes, and something like a root in each block."""
    for m in c.members:
        with open(m["file"], "r+b") as f:
            end = f.seek(0, 2)
            f.seek(MIB)
            f.write((ROOT + rng.randbytes(4096 - len(ROOT))) * ((end - MIB) // 4096))


def test_pool_on_used_disks(cluster, seed):
    """Old bytes of the disks are no volumes, after weftd has lost its database, too."""
    rng = random.Random(seed)
    c = cluster(pool=True, unit=UNIT, size="128M", env=args())
    c.terminate("array")
    shown = c.get("/api/v1/arrays/a")
    eventually(lambda: c.call("DELETE", "/api/v1/arrays/a")[0] < 300, what="the array to go")
    disks = [d["uuid"] for d in c.get("/api/v1/disks")["disks"]]
    eventually(lambda: all(d["array"] is None for d in c.get("/api/v1/disks")["disks"]),
               what="the disks to be free")
    soil(c, rng)
    status, reply = c.call("POST", "/api/v1/arrays", {
        "name": "a", "layout": shown["layout"], "unit": UNIT, "pool": True, "disks": disks})
    assert status == 201, reply
    eventually(lambda: c.get("/api/v1/arrays/a")["state"] == "ready", what="the new array")
    c.start("array")
    for name in VOLUMES:
        volume(c, name, 64 * MIB)
    both = filled(c, rng)
    lose_database(c)
    c.start("array")
    checked(c, both)
    assert set(volumes(c)) == set(VOLUMES)
    assert "2 volumes, of which 0 cannot be read" in c.log("array")
