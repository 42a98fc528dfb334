"""weftd's database from one version to the next, and its jobs and log after that; and the
files of a whole earlier Weft.

Pass: An older weftd's database is read, and then marked so that the older one refuses it.  A
newer weftd's database is refused and left unchanged.
"""

import json
import pathlib
import sqlite3
import tarfile
from contextlib import closing

from arraystate import content, wait_in_sync
from copies import check_copies, model_of
from nbdclient import connected
from weftdactors import array, host, weftd
from wefttest import eventually


def sql(weftd, *statements):
    with closing(sqlite3.connect(weftd.state / "weftd.db")) as db, db:
        return [db.execute(*s).fetchall() for s in statements][-1]


def version(weftd):
    return sql(weftd, ["PRAGMA user_version"])[0][0]


def as_version_1(weftd):
    """Keeps only the records that weftd's first version knew: it put everything into its
    events."""
    sql(weftd, ["DELETE FROM record WHERE kind NOT IN "
                "('cluster', 'disk', 'array', 'session', 'event')"],
        ["UPDATE record SET json = json_remove(json, '$.moves_to', "
         "'$.instance') WHERE kind = 'disk'"],
        ["PRAGMA user_version = 1"])


def test_from_version_1(weftd, array):
    host(weftd, "h0").start_attached()
    log = weftd.get("/log?limit=1000")["log"]
    arrays = weftd.get("/arrays")["arrays"]
    weftd.stop()
    as_version_1(weftd)
    weftd.start()
    assert weftd.get("/log?limit=1000")["log"][-len(log):] == log
    eventually(lambda: weftd.get("/arrays/a")["state"] == "ready")
    assert weftd.get("/arrays/a")["uuid"] == arrays[0]["uuid"]
    weftd.stop()
    assert version(weftd) == 2  # 1 refuses it
    # No line is in the log twice.
    weftd.start()
    ids = [line["id"] for line in weftd.get("/log?limit=1000")["log"]]
    assert ids == sorted(set(ids), reverse=True)
    assert [line["id"] for line in log] == ids[-len(log):]


def test_from_a_newer_one(weftd):
    weftd.stop()
    sql(weftd, ["PRAGMA user_version = 3"])
    before = (weftd.state / "weftd.db").read_bytes()
    assert "use the weftd that wrote it" in weftd.refused("--no-login")
    assert (weftd.state / "weftd.db").read_bytes() == before


def test_what_makes_no_sense_stays_as_it_is(weftd):
    """It is marked as the next version's only when all of it was read."""
    weftd.stop()
    as_version_1(weftd)
    sql(weftd, ["INSERT INTO record VALUES ('disk', 'x', '{}')"])
    assert "makes no sense" in weftd.refused("--no-login")
    assert version(weftd) == 1


def test_jobs_that_have_ended(weftd, array):
    def jobs():
        return {j["id"]: j for j in weftd.get("/jobs")["jobs"]}
    h = host(weftd, "h0").start_attached()
    array[1].phase = "copying"
    h.lost(1)
    eventually(lambda: "rebuild-a-1" in jobs())
    array[1].phase = "synced"
    eventually(lambda: jobs()["rebuild-a-1"]["state"] == "done")
    before = jobs()
    assert before["create-a"]["state"] == "done"
    weftd.restart(kill=True)
    assert jobs() == before
    assert weftd.get("/jobs/rebuild-a-1") == before["rebuild-a-1"]
    # A day later they are gone.
    weftd.stop()
    [(text,)] = sql(weftd, ["SELECT json FROM record WHERE kind = 'job' AND "
                            "key = 'create-a'"])
    job = json.loads(text)
    job["ended_ms"] -= 25 * 3600 * 1000
    sql(weftd, ["UPDATE record SET json = ? WHERE kind = 'job' AND "
                "key = 'create-a'", (json.dumps(job),)])
    weftd.start()
    assert set(jobs()) == {"rebuild-a-1"}
    weftd.stop()
    assert sql(weftd, ["SELECT key FROM record WHERE kind = 'job'"]) == \
        [("rebuild-a-1",)]


BLOCK, WRITTEN = 4096, 8 << 20


def test_of_before_lists(cluster):
    """Files of the Weft before arrays had lists of nodes: raid-x over three members, one of
    them killed, and some blocks written again since; then all was killed, with the array
    attached."""
    c = cluster(members=3, size="32M", unit="64K")
    c.terminate("array")
    c.kill("weftd", "m0", "m1", "m2")
    for file in (c.dir / "weftd").glob("weftd.db*"):
        file.unlink()
    with tarfile.open(pathlib.Path(__file__).parent / "earlier/before-lists.tar.xz") as t:
        t.extractall(c.dir)
    c.start("weftd")
    c.start("m0", "m1", "m2", "array")
    assert c.get("/api/v1/arrays/a")["allow"] is None  # any node, as it was
    wait_in_sync(c)
    h = connected(c.nbd)
    for i in range(WRITTEN // BLOCK):
        salt = 2 if i % 7 == 0 else 1
        number = i * 2654435761 % 2 ** 32 ^ salt
        assert h.pread(BLOCK, i * BLOCK) == number.to_bytes(8, "little") * 512, i
    h.pwrite(b"x" * WRITTEN, WRITTEN)
    h.flush()
    h.shutdown()
    check_copies(c, model_of(c, "raid-x", 64 << 10), content(c.nbd))
    c.restart("weftd", "m0", "m1", "m2")
    wait_in_sync(c)
    assert connected(c.nbd).pread(WRITTEN, WRITTEN) == b"x" * WRITTEN
    status, r = c.call("PUT", "/api/v1/arrays/a/allow/n0", {"mode": "rw"})
    assert status == 200, r
    # The list begins with the nodes of its disks.
    assert {n["node"] for n in c.get("/api/v1/arrays/a")["allow"]} == \
        {"n0", "n1", "n2"}
