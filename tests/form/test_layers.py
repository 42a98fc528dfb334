"""Which folder may use which: the source and the objects against the file `layers`.

Topology: none; the source and the objects of the build.
Pass:  no file includes, and no object calls, what its folder may not know; and no
       files call one another in a circle, so that each walk through the code goes
       downwards.
Fail:  the file, and what it should not know; or the circle, with the calls in it.

A call is a symbol that one object lacks and another one has.  A call through a pointer (an
engine's callbacks, a table of commands) does not count.
"""

import os
import pathlib
import re
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["WEFT_SRCDIR"])
BUILD = pathlib.Path(os.environ["WEFT_BUILDDIR"])
PREFIX = re.compile(r"^[a-z_]+_la-|^(weftd|weftctl|weft_attach)-")


def layers(called=True):
    """Of each folder, those that it may know: itself, too; and, if `called`, those that
    it may only call."""
    known = {}
    for line in (SOURCE / "tests/form/layers").read_text().splitlines():
        if line and not line.startswith("#"):
            folder, below = line.split(":")
            known[folder] = {folder} | {f.strip("()") for f in below.split()
                                        if called or not f.startswith("(")}
    return {folder: {f for name in below for f in known
                     if f == name or (name.endswith("/*") and f.startswith(name[:-1]))}
            | {name for name in below if name.endswith(".h")}
            for folder, below in known.items()}


def sources():
    """All our C files, as paths relative to the source."""
    return sorted(p.relative_to(SOURCE) for top in layers()
                  for p in (SOURCE / top).glob("*.[ch]"))


def folder_of(path, known):
    """The folder of `layers` that this file belongs to; None: none."""
    folder = str(path.parent)
    while folder not in known and "/" in folder:
        folder = folder.rsplit("/", 1)[0]
    return folder if folder in known else None


def found(name, path):
    """The file that `#include "name"` in this file means, relative to the source."""
    for place in (path.parent, pathlib.Path(), pathlib.Path("core"),
                  path.parent.parent):
        if (SOURCE / place / name).exists():
            return place / name
    return None


def objects():
    """{source file without its end: object}, of what is built."""
    built = {}
    for folder in layers():
        if folder.startswith("tests/"):
            continue
        for o in (BUILD / folder).glob("**/*.o"):
            name = f"{folder}/{PREFIX.sub('', o.stem)}"
            if (SOURCE / f"{name}.c").exists():  # no object of an earlier build
                built[name] = o
    return built


def symbols():
    """({symbol: file that has it}, {file: symbols that it lacks})."""
    has, lacks = {}, {}
    names = {str(o): name for name, o in objects().items()}
    # One process for all.  Each line begins with the object's path and a colon.
    out = subprocess.run(["nm", "-A", *names], capture_output=True, text=True, check=True)
    for line in out.stdout.splitlines():
        o, rest = line.split(":", 1)
        *_, kind, symbol = rest.split()
        if kind == "U":
            lacks.setdefault(names[o], set()).add(symbol)
        elif kind in "TDBR":
            has[symbol] = names[o]
    return has, lacks


def calls():
    """{file: {file that it calls: symbols}}"""
    has, lacks = symbols()
    graph = {}
    for name, wanted in lacks.items():
        below = graph.setdefault(name, {})
        for symbol in wanted & has.keys():
            if has[symbol] != name and symbol != "main":
                below.setdefault(has[symbol], set()).add(symbol)
    return graph


def circles(graph):
    """The sets of files that call one another, the largest first (Tarjan)."""
    index, low, stack, result = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                result.append(sorted(stack[at:]))
            del stack[at:]

    for v in graph:
        if v not in index:
            visit(v)
    return sorted(result, key=len, reverse=True)


def test_every_folder_has_a_line():
    """A file that is missing in `layers` is in no folder."""
    known, tops = layers(), ("core", "common", "plugin", "server", "weftctl", "attach")
    files = [p.relative_to(SOURCE) for top in tops
             for p in (SOURCE / top).glob("**/*.[ch]")]
    assert len(files) > 100
    assert [str(f) for f in files if folder_of(f, known) is None] == []


def test_includes():
    known, wrong = layers(called=False), []
    for path in sources():
        mine = known[folder_of(path, known)]
        text = (SOURCE / path).read_text()
        for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            other = found(name, path)
            if other is None:
                wrong.append(f"{path} includes {name}, which is nowhere")
            elif folder_of(other, known) not in mine and str(other) not in mine:
                wrong.append(f"{path} includes {other}")
    assert wrong == []


def test_calls():
    known = layers()
    graph = calls()
    assert len(graph) > 100
    assert [f"{name} calls {sorted(symbols)} of {other}"
            for name, below in graph.items() for other, symbols in below.items()
            if not {folder_of(pathlib.Path(other), known), f"{other}.h"}
            & known[folder_of(pathlib.Path(name), known)]] == []


def test_circles():
    graph = calls()
    for circle in circles(graph):
        print(f"{len(circle)} files call one another: {' '.join(circle)}")
        print(*(f"  {v} -> {w}: {' '.join(sorted(graph[v][w]))}"
                for v in circle for w in sorted(graph[v]) if w in circle), sep="\n")
    assert circles(graph) == []


def test_a_circle_is_found():
    """The check itself can fail."""
    assert circles({"a": {"b": 1}, "b": {"c": 1}, "c": {"a": 1}, "d": {"a": 1}}) == [
        ["a", "b", "c"]]


def test_a_layout_by_its_name():
    """Code asks core/layout for a layout's properties.  Only there, and where a disk's header
    stores it, is a layout known by its name."""
    name = re.compile(r"\bLAYOUT_(?!DEFAULT|SINGLE|NAMES|KINDS|H\b)[A-Z0-9]+\b"
                      r"|\"[^\"\n]*\braid-[^\"\n]*\"")
    named = [f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]}"
             for path in sources()
             if path.parts[0] not in ("tests",) and path.parts[:2] != ("core", "layout")
             for text in [(SOURCE / path).read_text()]
             for m in name.finditer(re.sub(
                 r"_Static_assert \([^;]*;|/\*.*?\*/",
                 lambda left: "\n" * left[0].count("\n"), text, flags=re.DOTALL))]
    assert not named, "\n".join(named)


@pytest.mark.parametrize("folder, what", [
    ("server/store", r"#include <sqlite3\.h>|\bsqlite3_\w+ \("),
    ("server/pki", r"\bX509_(CRL_)?sign \(|\bX509_REQ_\w+ \("),
], ids=["SQLite", "the signing of certificates"])
def test_one_folder_alone_knows(folder, what):
    users = {str(path.parent) for path in sources() if path.parts[0] != "tests"
             and re.search(what, (SOURCE / path).read_text())}
    assert users == {folder}


# Files of the plugin that keep state for the whole process.  The state in the other files
# belongs to an array, so that one process can serve several arrays.
PROCESS_WIDE = """budget data door exposure guests hangup listeners lobby loss member-control
    member-pulse member-role member-server nbdkit-options nbdkit-replies nbdkit-tls puller
    revoked served weft whole""".split()


def test_state_of_the_process():
    found = {}
    for name, o in objects().items():
        if name.startswith("plugin/") and not name.startswith("plugin/test-"):
            out = subprocess.run(["objdump", "-t", o], capture_output=True, text=True,
                                 check=True).stdout
            state = re.findall(r" O \.(?:data(?!\.rel\.ro)|bss)\S*\t\w+ (?:\.hidden )?"
                               r"(?!weft_debug_)(\S+)", out)
            if state:
                found[name.removeprefix("plugin/")] = state
    assert set(found) == set(PROCESS_WIDE), found


def test_the_engine_knows_its_block_alone():
    lacks = symbols()[1]
    for name in ("engine", "engine-thread"):
        assert any(s.startswith("peer_") for s in lacks[f"plugin/{name}"])
        assert [s for s in lacks[f"plugin/{name}"] if s.startswith("array_")] == []
