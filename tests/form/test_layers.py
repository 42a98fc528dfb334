"""Who may know whom: the source and the objects against the file `layers`.

Topology: none; the source and the objects of the build.
Pass:  no file includes, and no object calls, what its folder may not know; and no
       more than three files call one another in a circle, so that each walk through
       the code goes downwards.
Fail:  the file, and what it should not know; or the circle, with the calls in it.

A call is a symbol that one object lacks and another one has.  What is called through
a pointer (an engine's callbacks, a table of commands) is none.
"""

import os
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(os.environ["WEFT_SRCDIR"])
BUILD = pathlib.Path(os.environ["WEFT_BUILDDIR"])
CIRCLE_MAX = 3
PREFIX = re.compile(r"^[a-z_]+_la-|^(weftd|weftctl|weft_attach)-")


def layers():
    """Of each folder, those that it may know: itself, too."""
    known = {}
    for line in (SOURCE / "tests/form/layers").read_text().splitlines():
        if line and not line.startswith("#"):
            folder, below = line.split(":")
            known[folder] = {folder, *below.split()}
    rooms = {folder for folder in known if folder.startswith("core/")}
    return {folder: below | rooms if "core/*" in below else below
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
    """What `#include "name"` in this file means, relative to the source."""
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
    for name, o in objects().items():
        out = subprocess.run(["nm", o], capture_output=True, text=True, check=True)
        for line in out.stdout.splitlines():
            *_, kind, symbol = line.split()
            if kind == "U":
                lacks.setdefault(name, set()).add(symbol)
            elif kind in "TDBR":
                has[symbol] = name
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
    """What nobody has thought of is in no folder."""
    known, tops = layers(), ("core", "common", "plugin", "server", "weftctl", "attach")
    files = [p.relative_to(SOURCE) for top in tops
             for p in (SOURCE / top).glob("**/*.[ch]")]
    assert len(files) > 100
    assert [str(f) for f in files if folder_of(f, known) is None] == []


def test_includes():
    known, wrong = layers(), []
    for path in sources():
        mine = known[folder_of(path, known)]
        text = (SOURCE / path).read_text()
        for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            other = found(name, path)
            if other is None:
                wrong.append(f"{path} includes {name}, which is nowhere")
            elif folder_of(other, known) not in mine:
                wrong.append(f"{path} includes {other}")
    assert wrong == []


def test_calls():
    known = layers()
    graph = calls()
    assert len(graph) > 100
    assert [f"{name} calls {sorted(symbols)} of {other}"
            for name, below in graph.items() for other, symbols in below.items()
            if folder_of(pathlib.Path(other), known)
            not in known[folder_of(pathlib.Path(name), known)]] == []


def test_circles():
    graph = calls()
    said = []
    for circle in circles(graph):
        said.append(f"{len(circle)} files call one another: {' '.join(circle)}")
        if len(circle) > CIRCLE_MAX:
            said += [f"  {v} -> {w}: {' '.join(sorted(graph[v][w]))}"
                     for v in circle for w in sorted(graph[v]) if w in circle]
    print("\n".join(said))
    assert [c for c in circles(graph) if len(c) > CIRCLE_MAX] == []


def test_a_circle_is_found():
    """The check itself can fail."""
    assert circles({"a": {"b": 1}, "b": {"c": 1}, "c": {"a": 1}, "d": {"a": 1}}) == [
        ["a", "b", "c"]]
