"""andrew.py TOP: the five phases of the Andrew benchmark (Howard et al., 1988), in a
file system at TOP that has the folder `source`; plant() makes that.

It reads the name of a phase, does it, and says how many seconds that took until all was
on the disks, and how many seconds of processor time; and so on until there is no more.
The source is a C program of 70 files in 20 folders, some 200 KiB, as the original's,
always the same: 30 units, and 40 headers of which each unit includes three.
"""

import ctypes
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

FOLDERS, UNITS, HEADERS = 20, 30, 40
FUNCTIONS = 16  # of a unit


def plant(source):
    """Make the source in a folder that is not there yet."""
    rng = random.Random(13)
    folders = [source / f"d{i}" if i < 5 else source / f"d{i % 5}" / f"d{i}"
               for i in range(FOLDERS - 1)]
    for folder in (source, *folders):
        folder.mkdir()
    headers = []
    for i in range(HEADERS):
        place = folders[i % len(folders)] / f"h{i}.h"
        lines = [f"#ifndef H{i}", f"#define H{i}"]
        for k in range(24):
            lines += [f"/* What unit {i} gives to others, number {k}: of {i * k}. */",
                      f"#define H{i}_{k}(x) ((x) * {rng.randrange(99)} + {k})"]
        place.write_text("\n".join([*lines, "#endif", ""]), encoding="ascii")
        headers.append(place)
    for i in range(UNITS):
        used = rng.sample(range(HEADERS), 3)
        lines = [f'#include "{headers[h].relative_to(source)}"' for h in used]
        for k in range(FUNCTIONS):
            lines += [f"static int f{k} (int a, int b)", "{", "  int sum = 0;",
                      f"  for (int i = 0; i < {rng.randrange(9, 99)}; i++) {{"]
            lines += [f"    sum += H{h}_{rng.randrange(24)} (a ^ i) - b * {k};"
                      for h in used]
            lines += ["  }", "  return sum;", "}"]
        calls = " + ".join(f"f{k} (n, {k})" for k in range(FUNCTIONS))
        lines += [f"int unit{i} (int n)", "{", f"  return {calls};", "}"]
        if i == 0:
            lines += [f"int unit{n} (int);" for n in range(1, UNITS)]
            all_units = " ^ ".join(f"unit{n} (n)" for n in range(UNITS))
            lines += ["int main (int n, char **v)", "{", "  (void) v;",
                      f"  return ({all_units}) & 1;", "}"]
        folder = folders[(i * 7) % len(folders)]
        (folder / f"u{i}.c").write_text("\n".join([*lines, ""]), encoding="ascii")


# --- The phases -----------------------------------------------------------------


def below(top, pattern="*"):
    return sorted(top.rglob(pattern))


def make(source, target):
    target.mkdir()
    for path in below(source):
        if path.is_dir():
            (target / path.relative_to(source)).mkdir()


def copy(source, target):
    for path in below(source):
        if path.is_file():
            shutil.copyfile(path, target / path.relative_to(source))


def stat(_, target):
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            os.lstat(os.path.join(folder, name))


def read(_, target):
    for path in below(target):
        if path.is_file():
            path.read_bytes()


def build(_, target):
    for path in below(target, "*.c"):
        subprocess.run(["gcc", "-pipe", "-I", target, "-c", path, "-o",
                        path.with_suffix(".o")], check=True)
    subprocess.run(["gcc", "-o", target / "program", *below(target, "*.o")], check=True)


PHASES = {"make": make, "copy": copy, "stat": stat, "read": read, "compile": build}


def sync(top):
    """The one file system."""
    fd = os.open(top, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "syncfs", str(top))
    finally:
        os.close(fd)


def main():
    top = pathlib.Path(sys.argv[1])
    for line in sys.stdin:
        cpu, began = sum(os.times()[:4]), time.monotonic()
        PHASES[line.strip()](top / "source", top / "target")
        sync(top)
        print(time.monotonic() - began, sum(os.times()[:4]) - cpu, flush=True)


if __name__ == "__main__":
    main()
