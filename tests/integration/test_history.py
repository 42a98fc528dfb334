"""The history: samples of a real weftd, kept, thinned out, and given up."""

import random
import sqlite3
import time

import pytest

from apicaller import ATTACH, api, disks, make_array, restart, weftd
from wefttest import eventually

SERIES = ("read_bytes", "write_bytes", "reads", "writes", "read_us",
          "write_us", "rebuild_bytes", "image_bytes", "exposed_bytes")
MINUTE, HOUR, DAY = 60, 3600, 86400


def history(api, **parameters):
    words = "&".join(f"{k}={v}" for k, v in parameters.items())
    return api.call("GET", f"/api/v1/history?{words}", expect=200)[1]


def database(weftd):
    return weftd.dir / "state/history.db"


def test_samples(weftd, api, disks):
    """The history shows the reports of disks and sessions unchanged."""
    make_array(api, disks)
    grant = api.call("POST", "/api/v1/arrays/a/sessions", ATTACH,
                     expect=201)[1]
    beat = f"/api/v1/sessions/{grant['session']}/heartbeat"
    stats = {"reads": 0, "read_bytes": 0, "read_ns": 0, "image_bytes": 12345}

    def speak():
        stats["reads"] += 100
        stats["read_bytes"] += 409600
        stats["read_ns"] += 100 * 250000
        api.call("POST", beat, {"instance": "cafe", "stats": stats,
                                "epoch": grant["map"]["epoch"]}, expect=200)
        time.sleep(0.25)
        points = history(api, subject="array:a", points=600)["series"]
        return [p for p in points["reads"] if p] and points

    points = eventually(speak, 40, every=0)
    last = max(i for i, p in enumerate(points["reads"]) if p is not None)
    # Computed from the means in between, because the rates vary.
    us = points["read_us"][last]
    assert us == pytest.approx(250, rel=0.01)
    assert points["read_bytes"][last] == pytest.approx(
        points["reads"][last] * 4096, rel=0.01)
    assert points["image_bytes"][last] == pytest.approx(12345, rel=0.5)
    assert points["writes"][last] == 0 and points["write_us"][last] is None
    whole = history(api)
    assert whole["subject"] == "cluster" and whole["step_ms"] == 10000
    assert set(whole["series"]) == set(SERIES)
    disk = history(api, subject=f"disk:{disks[0].uuid}")["series"]
    assert any(disk["writes"]) and not any(disk["image_bytes"])

    # Still there after a kill.
    for d in disks:
        d.stop()
    weftd.restart(kill=True)
    assert any(history(api, subject="array:a")["series"]["reads"])


def test_subjects(api, disks):
    make_array(api, disks[:3])
    assert history(api, subject="array:a")["subject"] == "array:a"
    for subject in ("array:b", "disk:" + "0" * 36, "host:a", "a"):
        status, problem = api.call("GET", f"/api/v1/history?subject={subject}")
        assert (status, problem["code"]) == (404, "unknown-subject")


def fill(path, now, subject, days, value):
    """Samples of 10 s, as of `days` without a roll-up: weftd must make them."""
    db = sqlite3.connect(path)
    with db:
        db.execute("INSERT OR IGNORE INTO subject (name) VALUES (?)",
                   (subject,))
        [id] = db.execute("SELECT id FROM subject WHERE name = ?",
                          (subject,)).fetchone()
        db.execute("DELETE FROM rolled")
        db.executemany(
            "INSERT OR REPLACE INTO sample (step, subject, at, read_bytes, "
            "reads, read_us) VALUES (10, ?, ?, ?, ?, ?)",
            ((id, at, *value(at)) for at in
             range(now - days * DAY, now, 10)))
    db.close()


def test_thinned_out(weftd, api, disks, seed):
    """Two days of samples of 10 s: of each age the right ones are kept, and
    their means are the means of the finer ones."""
    rng = random.Random(seed)
    samples = {}

    def value(at):
        reads = rng.randrange(1, 100)
        samples[at] = (rng.randrange(1 << 20), reads, rng.randrange(1, 5000))
        return samples[at]

    eventually(lambda: database(weftd).exists())
    now = int(time.time()) // 10 * 10
    restart(weftd, disks, between=lambda: fill(
        database(weftd), now, "array:old", 3, value))

    def steps():
        db = sqlite3.connect(f"file:{database(weftd)}?mode=ro", uri=True)
        rows = db.execute("SELECT step, count(*), min(at) FROM sample, subject "
                          "WHERE subject = id AND name = 'array:old' "
                          "GROUP BY step").fetchall()
        db.close()
        return {step: (count, least) for step, count, least in rows}

    eventually(lambda: set(steps()) == {10, 60, 600}, 90)
    kept, late = steps(), int(time.time()) - now
    assert now - 2 * HOUR - 60 <= kept[10][1] <= now - 2 * HOUR + 120 + late
    assert now - 2 * DAY - 600 <= kept[60][1] <= now - 2 * DAY + 1200 + late
    assert kept[600][1] <= now - 3 * DAY + 600

    def mean(at, step, i):
        part = [samples[t] for t in range(at, at + step, 10) if t in samples]
        if i == 2:
            return sum(s[2] * s[1] for s in part) / sum(s[1] for s in part)
        return sum(s[i] for s in part) / len(part)

    for back, step in ((HOUR, 10), (DAY, 60), (5 * DAY // 2, 600)):
        at = (now - back) // step * step
        h = history(api, subject="array:old", **{
            "from": at * 1000, "to": (at + 20 * step) * 1000, "points": 600})
        assert (h["step_ms"], h["from"]) == (step * 1000, at * 1000)
        assert len(h["series"]["reads"]) == 20
        for i, name in enumerate(("read_bytes", "reads", "read_us")):
            for k, point in enumerate(h["series"][name]):
                assert point == pytest.approx(mean(at + k * step, step, i),
                                              abs=0.1), (seed, name, k)
    # Fewer points: of more samples each.
    at = (now - DAY) // 600 * 600
    h = history(api, subject="array:old", **{
        "from": at * 1000, "to": (at + 6000) * 1000, "points": 10})
    assert h["step_ms"] == 600000
    assert h["series"]["reads"][3] == pytest.approx(
        mean(at + 1800, 600, 1), abs=0.1)
    # The whole range fits, whatever is asked for.
    for points in (1, 2, 7, 600):
        h = history(api, **{"from": 0, "points": points})
        assert len(h["series"]["reads"]) <= points
        assert h["to"] >= now * 1000


def broken(kind, path, rng):
    whole = path.read_bytes()
    if kind == "noise":
        path.write_bytes(rng.randbytes(len(whole)))
    elif kind == "other":
        path.unlink()
        db = sqlite3.connect(path)
        with db:
            db.execute("CREATE TABLE sample (x)")
        db.close()
    elif kind == "pages":  # its head is sound
        path.write_bytes(whole[:4096] + rng.randbytes(len(whole) - 4096))
    elif kind == "directory":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize("kind", ["noise", "other", "pages", "directory"])
def test_broken(weftd, api, kind, seed):
    """A history that cannot be read is set aside; nothing else is hurt."""
    path = database(weftd)
    eventually(lambda: path.exists())
    eventually(lambda: any(v is not None for v in
                           history(api)["series"]["reads"]), 30)
    weftd.restart(between=lambda: broken(kind, path, random.Random(seed)))
    assert api.get("/api/v1/status")["health"] == "ok"
    status, _ = api.call("GET", "/api/v1/history")
    assert status in (200, 503)
    eventually(lambda: api.call("GET", "/api/v1/history")[0] == 200
               and any(v is not None for v in
                       history(api)["series"]["reads"]), 40)
    log = weftd.log.read_text()
    assert log.count("history.db.broken") == 1
    assert (weftd.dir / "state/history.db.broken").exists()


def test_what_cannot_be_opened_is_not_set_aside(weftd, api, disks):
    """A disk that is full, or a right that is missing, breaks no history."""
    make_array(api, disks[:3])
    aside = weftd.dir / "state/history.db.broken"
    wal = weftd.dir / "state/history.db-wal"
    eventually(lambda: samples_of(weftd), 40)

    def hinder():
        with sqlite3.connect(database(weftd)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        wal.unlink(missing_ok=True)
        wal.mkdir()  # it can't be opened beside this
    before = samples_of(weftd)
    restart(weftd, disks, between=hinder)
    time.sleep(1)
    log = weftd.log.read_text()
    assert log.count("cannot use the history") == 1 and not aside.exists()
    wal.rmdir()
    eventually(lambda: samples_of(weftd) > before, 40)
    assert not aside.exists()


def samples_of(weftd):
    with sqlite3.connect(f"file:{database(weftd)}?mode=ro", uri=True) as db:
        try:
            return db.execute("SELECT count(*) FROM sample").fetchone()[0]
        except sqlite3.OperationalError:  # it is being made
            return 0
