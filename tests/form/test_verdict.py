"""The verdict of the cluster engine: each new state needs a test.

Topology: none; headers of the cluster engine, and tests/unit/test-cluster-verdict.c.
Pass:  each flag, state and reason of the engine's objects has a row there, which expects
       what the verdict says of it; each number that the API shows, or processes report, has
       a unit test that expects the verdict's sentence, or a reason why there is none.
Fail:  the fields and values without a row, a sentence or a reason.
"""

import json
import os
import pathlib
import re

import pytest

SOURCE = pathlib.Path(os.environ["WEFT_SRCDIR"])
CLUSTER = SOURCE / "core/cluster"
HEADERS = ["cluster-records.h", "cluster-disk-state.h", "cluster-array-state.h",
           "cluster-session-state.h", "cluster.h", "ground/cluster-ground.h"]
# The objects of the engine.  Structs inside them are checked, too; plans and waiting calls
# are not.
OBJECTS = ["cluster", "cluster_disk", "cluster_array", "cluster_session", "cluster_node",
           "cluster_foreign", "cluster_leases"]
# These have headers of their own.  Of their states the verdict speaks of slow members
# (test-cluster-hung.c) and of bad ranges (test-cluster-bad.c).
OUTSIDE = {"layout", "array_stats", "spans", "bad_list"}
# Arrays of char that are no reason: names, addresses, processes.
NAMES = re.compile(r"NAME_BYTES_MAX|(URI|PATH|INSTANCE|CACHE|PROCESS)_BYTES")
# test-cluster-overdue.c has a scene for each word; layouts and dup say nothing of health.
ELSEWHERE = {"cluster_word", "layout_kind", "array_dup"}
# No state of a member: that of a disk alone, and their count.
NO_STATES = {"MEMBER_SPARE", "MEMBER_STATES"}


def plain(text):
    """C without comments."""
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def headers():
    return plain("\n".join((CLUSTER / name).read_text() for name in HEADERS))


def body_of(text, name):
    return re.search(rf"^struct {name} \{{(.*?)^\}};", text, re.S | re.M).group(1)


def structs(text):
    """The objects, and the structs inside them."""
    found, rest = [], list(OBJECTS)
    for name in rest:
        if name in found or name in OUTSIDE or f"_HEAD ({name}, " in text:
            continue
        found.append(name)
        rest += re.findall(r"\bstruct (\w+) \w", body_of(text, name))
    return found


def fields(text, name):
    """(kind, field) of each flag, state and reason in this struct."""
    body = body_of(text, name)
    for line in body.split(";"):
        found = re.match(r"(?:.*[{}] )?(bool|enum \w+|char)\b (.*)", " ".join(line.split()))
        if not found:
            continue
        for field in re.split(r",\s*(?![^\[]*\])", found.group(2)):
            if found.group(1) != "char" or not NAMES.search(field):
                yield found.group(1), re.match(r"\w+", field).group()


def enumerators(text, name):
    body = re.search(rf"^enum {name} \{{(.*?)\}};", text, re.S | re.M).group(1)
    return set(re.findall(r"[A-Z]\w+", body)) - NO_STATES


def states(text):
    """The entries that need a row: (struct, field), and (struct, field, value) where it is an
    enum."""
    values = text + plain((SOURCE / "core/format/format.h").read_text())
    for name in structs(text):
        for kind, field in fields(text, name):
            enum = kind.removeprefix("enum ")
            if kind.startswith("enum ") and enum not in ELSEWHERE:
                yield from ((name, field, value) for value in enumerators(values, enum))
            elif enum not in ELSEWHERE:
                yield name, field


def rows():
    text = plain((SOURCE / "tests/unit/test-cluster-verdict.c").read_text())
    field = r"(\w+),\s*(?:[\w\[\]]+\.)?(\w+)(?:\[\d\])?"
    found = set(re.findall(rf"\b(?:FLAG|REASON) \({field},", text))
    return found | set(re.findall(rf"\bSTATE \({field},\s*(\w+)", text))


def test_each_state_has_a_verdict():
    wanted = set(states(headers()))
    assert len(wanted) > 80
    assert sorted(wanted - rows()) == [], "add a row to tests/unit/test-cluster-verdict.c"


@pytest.mark.parametrize("after, added", [
    ("struct cluster_disk {", "bool soaked;"),
    ("struct cluster_room {", "bool damp;"),
    ("struct cluster_session {", "char worry[CLUSTER_REASON_BYTES];"),
    ("enum cluster_join_phase {", "CLUSTER_JOIN_LOST,")])
def test_a_new_state_is_noticed(after, added):
    text = headers().replace(after, after + "\n  " + added)
    assert len(set(states(text)) - rows()) == 1


# ---- Numbers of the API ----

# Schemas with what users see and what processes report, with all that is inside.
SHOWN = ["Status", "Disk", "Array", "Session", "Node", "Volume", "DiskHeartbeat",
         "SessionHeartbeat"]
# Numbers that tell of trouble: a sentence of the verdict, and the unit test that expects it.
VERDICT = "verdict"
TOLD = {
    r"(Disk|Session)\.last_heard_ms": (VERDICT, "has been silent"),
    r"Node\.(disks|sessions)_alive": (VERDICT, "is silent"),
    r"Array\.exposed_bytes": (VERDICT, "have fewer copies than they should"),
    r"Array\.unreachable_bytes": ("hung", "check its disk"),
    r"Array\.lost_bytes": (VERDICT, "Array a has lost data"),
    r"Array\.bad_bytes|BadRange\.\w+": ("bad", "can't be read"),
    r"Array\.hosts_survived": ("place", "have all of their copies on one host"),
    r"Rebuild\.(todo|total|copied)_bytes|JoinProgress\.(todo|total|copied)_bytes":
        (VERDICT, "is being rebuilt"),
    r"(Rebuild|JoinProgress)\.unreadable_bytes": (VERDICT, "found no readable copy of 1 MiB"),
    r"Member\.(peers|service)_us|SessionCounters\.members\.service_us": ("hung", "is slow"),
    r"SessionCounters\.members\.refused_ms": ("room", "refused what is written"),
    r"SessionCounters\.memory_wait_ns": ("room", "has had no memory"),
    r"DiskRoom\.\w+": ("room", "has little room"),
    r"DiskHeartbeat\.disk_stuck_ms": ("hung", "has a disk that hangs"),
    r"DiskHeartbeat\.data_bytes": ("doubts", "give it its size back"),
    r"Pool\.(free|granted|total)_bytes": ("volume", "Pool a is 9"),
    r"Volume\.waiting": ("volume", "have waited for space"),
    r"Service\.lapse": ("unequal", "older data"),
    r"(Disk|DiskHeartbeat)\.(min_epoch|sequence)|DiskHeartbeat\.(round|states_epoch|generation)":
        (VERDICT, "impossible report"),
}
# All others, and why the verdict does not need them.
SPEED = "a speed or a rate; a member that is slower than its peers is told (Member.service_us)"
SIZE = "a size or a place, which only an order changes"
HOST = "how busy the host is, with whatever runs there"
NAME = "it names or numbers something"
ORDER = "an administrator's order"
LIVE = "requests under way; the verdict names whom they wait for"
BITS = "usual while an array is written; copies that stay different are told (test-cluster-unequal.c)"
STEP = "a step of the protocol; a step that is overdue is told (test-cluster-overdue.c)"
USE = "how much of a pool's or a layout's space is used for what"
UNTOLD = {
    r"(DiskLoad|DiskCounters)\.(cpu|loadavg|mem_free|(disk|net)_\w+|flushes)": HOST,
    r"SessionLoad\.(reads|writes|flushes|\w+_us|(read|write)_bytes)": SPEED,
    r"SessionCounters\.(reads|writes|flushes|zeroes|trims|batches|(read|write|flush)_(ns|bytes)|"
    r"images_\w+)": SPEED,
    r"Session(Load|Counters)\.(image_\w+|requests_waiting|ios_in_flight)": LIVE,
    r"LatencyCounters\.\w+": SPEED,
    r"(Rebuild|JoinProgress)\.rate|Rebuild\.eta_s": SPEED,
    r"(Disk|Volume|Array)\.(size|member_bytes|n|groups|unit)|Disk\.data_bytes|Member\.data_bytes|"
    r"DiskHeartbeat\.(size|n|groups|unit|member_bytes)|Part\.\w+|Pool\.segment_bytes": SIZE,
    r"Status\.generation|\w+\.position|Node\.stays\.member|Rebuild\.sources|\w+\.pid|Volume\.root|"
    r"Service\.serving\.pid": NAME,
    r"Array\.(spare_after_s|slow_out_s)|Rebuild\.(floor|ceiling)": ORDER,
    r"(Disk|DiskLoad|DiskHeartbeat)\.dirty_extents": BITS,
    r"Capacity\.\w+|Pool\.(volumes\w*|(mapped|log|spare|promised)_bytes)|"
    r"Volume\.((granted|mapped|present|log|spare)_bytes|clients)": USE,
    r"(Array|Session|Service|JoinProgress)\.epoch|Service\.fences|FencedNode\.below|"
    r"SessionHeartbeat\..*|DiskHeartbeat\.(over|news|report|wait_ms|bad\.sequence)": STEP,
}


def api():
    return json.loads((SOURCE / "docs/API/openapi.json").read_text())["components"]["schemas"]


def numbers(schemas):
    """SCHEMA.FIELD of each number in these schemas and in all that they refer to."""
    found, rest = set(), list(SHOWN)

    def look(value, path):
        if "$ref" in value:
            name = value["$ref"].rsplit("/", 1)[1]
            if {"integer", "number"} & kinds(schemas[name]):
                found.add(path)
            elif name not in rest:
                rest.append(name)
            return
        if {"integer", "number"} & kinds(value):
            found.add(path)
        for word in "oneOf", "anyOf", "allOf":
            for one in value.get(word, []):
                look(one, path)
        for word in "items", "additionalProperties":
            if isinstance(value.get(word), dict):
                look(value[word], path)
        for name, one in value.get("properties", {}).items():
            look(one, f"{path}.{name}")

    for name in rest:
        look(schemas[name], name)
    return found


def kinds(schema):
    kind = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def untold(found):
    """The numbers that no entry above has, and the entries that have none."""
    left = {path for path in found
            if sum(bool(re.fullmatch(p, path)) for p in TOLD | UNTOLD) != 1}
    idle = {p for p in TOLD | UNTOLD if not any(re.fullmatch(p, path) for path in found)}
    return left, idle


def test_each_number_is_told_or_harmless():
    found = numbers(api())
    assert len(found) > 100
    assert untold(found) == (set(), set()), "add it to TOLD, with its test, or to UNTOLD"


@pytest.mark.parametrize("entry", TOLD)
def test_a_number_of_trouble_has_a_scene(entry):
    file, sentence = TOLD[entry]
    assert sentence in plain((SOURCE / f"tests/unit/test-cluster-{file}.c").read_text())


@pytest.mark.parametrize("schema", ["Disk", "SessionCounters", "Volume"])
def test_a_new_number_is_noticed(schema):
    schemas = api()
    schemas[schema]["properties"]["damp_ms"] = {"type": "integer"}
    left, _ = untold(numbers(schemas))
    assert left == {f"{schema}.damp_ms"}
