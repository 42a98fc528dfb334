"""/metrics of a real cluster: Prometheus' own checker reads it, its figures are
true, and what the alert rules and the dashboard name is there.
"""

import collections
import json
import re

import pytest

from nbdclient import connected
from wefttest import SOURCE, Stopwatch, eventually, http, run

MONITORING = SOURCE / "docs/monitoring"
MIB = 1 << 20


def scrape(admin):
    """{name: {frozenset of labels: value}}, and the text."""
    status, text = http("GET", admin + "/metrics")
    assert status == 200
    text = text.decode()
    samples = collections.defaultdict(dict)
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        m = re.fullmatch(r"(\w+)(?:{(.*)})? (\S+)", line)
        assert m, line
        labels = dict(re.findall(r'(\w+)="([^"]*)"', m[2] or ""))
        key = frozenset(labels.items())
        assert key not in samples[m[1]], f"twice: {line}"
        samples[m[1]][key] = float(m[3])
    return samples, text


def value(samples, name, **labels):
    """The value of the one sample with these labels."""
    [v] = [v for k, v in samples[name].items()
           if labels.items() <= dict(k).items()]
    return v


OF_POOLS = {"weft_pool_bytes", "weft_volume_bytes"}


def names_in(expression):
    return set(re.findall(r"\bweft_\w+", expression))


def expressions():
    """(where, expression) of all rules and panels."""
    rules = (MONITORING / "weft-alerts.yml").read_text()
    for rule in rules.split("- alert: ")[1:]:
        yield rule.split()[0], re.search(r"expr: (.*?)\n +(?:for|labels):",
                                         rule, re.S)[1]
    board = json.loads((MONITORING / "weft-grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for a in board["annotations"]["list"]:
        yield a["name"], a["expr"]
    for v in board["templating"]["list"]:
        if v["type"] == "query":
            yield v["name"], v["definition"]


def test_rules():
    run("promtool", "check", "rules", MONITORING / "weft-alerts.yml")
    run("promtool", "test", "rules", MONITORING / "weft-alerts-test.yml",
        cwd=MONITORING)
    # The tests show each alert firing, and silent.
    tests = (MONITORING / "weft-alerts-test.yml").read_text()
    for name in re.findall(r"- alert: (\w+)",
                           (MONITORING / "weft-alerts.yml").read_text()):
        assert f"alertname: {name}}}" in tests, name
        assert re.search(rf"alertname: {name}\n +exp_alerts", tests), name


def test_dashboard_is_sound():
    board = json.loads((MONITORING / "weft-grafana.json").read_text())
    ids = [p["id"] for p in board["panels"]]
    assert len(set(ids)) == len(ids) > 20
    cells = set()
    for p in board["panels"]:
        g = p["gridPos"]
        assert g["x"] + g["w"] <= 24
        here = {(x, y) for x in range(g["x"], g["x"] + g["w"])
                for y in range(g["y"], g["y"] + g["h"])}
        assert not here & cells, p["title"]
        cells |= here
        if p["type"] != "row":
            assert p["targets"], p["title"]


@pytest.fixture
def busy(cluster):
    """An array that was written and read, and a member whose rebuild is
    paused."""
    c = cluster(members=4, size="64M")
    h = connected(c.nbd)
    for i in range(200):
        h.pwrite(bytes([i]) * 65536, i * 65536)
    h.flush()
    for i in range(100):
        assert h.pread(65536, i * 65536) == bytes([i]) * 65536
    url = f"{c.admin}/api/v1/arrays/a"
    c.kill("m2")
    eventually(lambda: http("GET", url)[1]["members"][2]["state"] == "out")
    assert http("PATCH", url + "/members/2", {"paused": True})[0] == 200
    for i in range(200):
        h.pwrite(bytes([i + 1 & 255]) * 65536, i * 65536)
    h.flush()
    c.start("m2")
    eventually(lambda: http("GET", url)[1]["members"][2]["state"] == "joining")
    eventually(lambda: value(scrape(c.admin)[0], "weft_session_writes_total")
               >= 400)
    yield c, h
    assert http("PATCH", url + "/members/2", {"paused": False})[0] == 200
    eventually(lambda: http("GET", url)[1]["state"] == "ready", 60)
    h.shutdown()


def test_live(busy):
    c, _ = busy
    name = "a"
    samples, text = scrape(c.admin)
    run("promtool", "check", "metrics", stdin=None, input=text)

    # Names.
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, metric, kind = line.split()
            assert metric.startswith("weft_")
            assert metric.endswith("_total") == (kind == "counter"), line
            assert f"# HELP {metric} " in text
    for where, expression in expressions():
        assert names_in(expression), where
        for n in names_in(expression) - OF_POOLS:  # array a is no pool
            assert n in samples, f"{where} names {n}, which is not there"

    # The true values.
    for m in range(4):
        states = {s: value(samples, "weft_member_state", array=name,
                           member=str(m), state=s)
                  for s in ("in-sync", "out", "joining")}
        assert sum(states.values()) == 1
        assert states["joining" if m == 2 else "in-sync"] == 1
    assert value(samples, "weft_array_state", array=name,
                 state="rebuilding") == 1
    assert value(samples, "weft_rebuild_paused", member="2") == 1
    assert value(samples, "weft_array_exposed_bytes", array=name) > 0
    assert value(samples, "weft_array_lost_bytes", array=name) == 0
    assert value(samples, "weft_session_written_bytes_total",
                 array=name) == 400 * 65536
    assert value(samples, "weft_session_reads_total", array=name) == 100
    array = http("GET", f"{c.admin}/api/v1/arrays/{name}")[1]
    assert value(samples, "weft_array_epoch", array=name) == array["epoch"]
    assert value(samples, "weft_array_sessions", array=name, mode="rw") == 1
    assert sum(samples["weft_disk_up"].values()) == 4
    for what in "size", "free", "wanted":  # the disks are sparse files
        assert min(samples[f"weft_disk_room_{what}_bytes"].values()) > 0
        assert len(samples[f"weft_disk_room_{what}_bytes"]) == 4
    for whose in "", "peers_":  # member 2 is joining
        assert value(samples, f"weft_member_{whose}latency_seconds", array=name,
                     member="0") > 0
    status = http("GET", c.admin + "/api/v1/status")[1]
    assert value(samples, "weft_cluster_verdict", state=status["health"]) == 1


def buckets(samples, name, **labels):
    """[(upper bound, count)], in order."""
    return sorted((float(dict(k)["le"]), v)
                  for k, v in samples[name + "_bucket"].items()
                  if labels.items() <= dict(k).items())


def test_latencies(busy):
    c, h = busy
    samples, _ = scrape(c.admin)
    for kind, count in (("read", 100), ("write", 400), ("flush", 2)):
        name = f"weft_session_{kind}_duration_seconds"
        rows = buckets(samples, name)
        assert len(rows) == 21
        counts = [n for _, n in rows]
        assert counts == sorted(counts) and counts[-1] == count
        assert value(samples, name + "_count") == count
        # The sum lies within what the buckets allow.
        least = most = before = low = 0
        for bound, n in rows:
            least += (n - before) * low
            most += (n - before) * bound if n > before else 0
            before, low = n, bound
        assert least <= value(samples, name + "_sum") <= most
    name = "weft_member_request_duration_seconds"
    for m in range(4):
        rows = buckets(samples, name, member=str(m))
        assert rows[-1][1] > 0, m
        assert value(samples, name + "_sum", member=str(m)) > 0

    # Counters grow, and never fall.
    h.pread(4096, 0)
    after = eventually(lambda: (lambda s: s if value(
        s, "weft_session_reads_total") == 101 else None)(scrape(c.admin)[0]))
    for metric, series in samples.items():
        if metric.endswith(("_total", "_bucket", "_count")):
            for k, v in series.items():
                assert after[metric][k] >= v, (metric, k)


def test_pool(cluster):
    """The figures of a pool and its volumes are those of the API, before and after a write."""
    c = cluster(members=3, size="64M", pool=True)
    assert OF_POOLS <= {n for _, e in expressions() for n in names_in(e)}
    url = f"{c.admin}/api/v1/arrays/a"
    for name, mib in (("v", 8), ("w", 16)):
        assert http("POST", url + "/volumes", {"name": name, "size": mib * MIB})[0] == 201

    def figures():
        """The metrics, if they are those of the API before and after."""
        def told():
            return (http("GET", url)[1]["pool"],
                    {v["name"]: v for v in http("GET", url + "/volumes")[1]["volumes"]})
        before, (samples, text), after = told(), scrape(c.admin), told()
        if before != after:
            return None
        pool, volumes = after
        states = {dict(k)["state"]: v for k, v in samples["weft_pool_bytes"].items()}
        assert set(states) == {"data", "log", "spare", "untold", "free"}
        assert states["free"] == pool["free_bytes"]
        assert sum(states.values()) == pool["total_bytes"]
        for name, v in volumes.items():
            for state, field in (("size", "size"), ("granted", "granted_bytes")):
                assert value(samples, "weft_volume_bytes", array="a", volume=name,
                             state=state) == v[field]
        assert len(samples["weft_volume_bytes"]) == 4
        run("promtool", "check", "metrics", stdin=None, input=text)
        return states

    assert eventually(figures)["data"] == 0
    h = connected(f"{c.nbd}/v")
    for i in range(3):
        h.pwrite(b"x" * 65536, i * MIB)
    h.flush()
    states = eventually(lambda: (lambda f: f if f and f["data"] else None)(figures()))
    assert states["data"] == 3 * MIB
    h.shutdown()


def test_of_nothing(tmp_path, cluster):
    """A weftd that knows nothing yet has metrics that are well-formed."""
    c = cluster(members=3, size="32M")
    c.terminate("array")
    url = f"{c.admin}/api/v1/arrays/a"
    eventually(lambda: http("DELETE", url)[0] == 200)
    samples, text = scrape(c.admin)
    run("promtool", "check", "metrics", stdin=None, input=text)
    assert not samples["weft_array_state"] and samples["weft_disk_up"]


def test_a_scrape_is_cheap(busy):
    """A scrape does not delay weftd's other work: many in a row, and heartbeats go on."""
    c, h = busy
    watch, count = Stopwatch(), 0
    while watch.seconds() < 3:
        scrape(c.admin)
        count += 1
    assert count > 5
    assert http("GET", c.admin + "/api/v1/status")[1]["health"] != "error"
    h.pwrite(b"x" * 4096, 0)
