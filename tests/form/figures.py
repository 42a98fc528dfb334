#!/usr/bin/python3
"""Figures of the source's form, for docs/DESIGN.md: the size, the circles of calls,
and the static functions that are called once.

  cd build && ./run /usr/bin/python3 ../tests/form/figures.py
"""

import re
import subprocess

from test_layers import SOURCE, calls, circles, layers

STATIC = re.compile(r"^static [^;={}()]*\n(\w+) \([^;{}]*\)\n\{", re.MULTILINE)


def programs():
    """What the programs are made of: no tests."""
    return [p for top in layers() if not top.startswith("tests/")
            for p in (SOURCE / top).glob("*.c")]


def called_once():
    """(functions, static ones, static ones that are called in one place)"""
    functions = static = once = 0
    for path in programs():
        text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)
        functions += len(re.findall(r"^\w+ \([^;{}]*\)\n\{", text, re.MULTILINE))
        for name in STATIC.findall(text):
            static += 1
            once += len(re.findall(rf"\b{name} \(", text)) == 2
    return functions, static, once


def main():
    graph = calls()
    found = circles(graph)
    functions, static, once = called_once()
    out = subprocess.run(["git", "ls-files"], cwd=SOURCE, capture_output=True,
                         text=True, check=True)
    lines = sum((SOURCE / f).read_bytes().count(b"\n") for f in out.stdout.split())
    print(f"{lines} lines in all")
    print(f"{sum(map(len, found))} of {len(graph)} files are in a circle of calls: "
          + "; ".join(" ".join(c) for c in found))
    print(f"{functions} functions, {static} of them static, {once} of these called once")


if __name__ == "__main__":
    main()
