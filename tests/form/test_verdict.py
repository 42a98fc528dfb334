"""The verdict of the cluster engine: each new state needs a test.

Topology: none; headers of the cluster engine, and tests/unit/test-cluster-verdict.c.
Pass:  each flag, state and reason of the engine's objects has a row there, which expects
       what the verdict says of it.
Fail:  the fields and values without a row.
"""

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
