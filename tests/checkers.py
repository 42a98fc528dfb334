"""Run nbdkit under valgrind or ThreadSanitizer, and read what they found.

Both work the same way: a script named `nbdkit` that comes first in PATH starts
the real one under the tool, so a whole devcluster runs under it unchanged.

The definition of an error, in one place:

valgrind: every error, and every block that is lost, wherever it was
  allocated; a block that is still reachable at the end when one of our frames
  is on its stack.  valgrind.supp holds the exceptions and why.
ThreadSanitizer: every report with one of our frames on a stack.  nbdkit and
  the libraries are not instrumented: ThreadSanitizer neither sees their own
  memory nor understands their atomics, so reports without us mean little.
  tsan.supp holds the exceptions and why.
"""

import glob
import os
import pathlib
import shutil
import stat
import subprocess
import xml.etree.ElementTree

from wefttest import BUILD, SOURCE

HERE = pathlib.Path(__file__).resolve().parent / "memory"
PLUGIN = "nbdkit-weft-plugin.so"


def real_nbdkit():
    path = [d for d in os.environ["PATH"].split(":")
            if not d.startswith(f"{BUILD}/")]
    return shutil.which("nbdkit", path=":".join(path))


class Tool:
    """`env` makes a Cluster or an Nbdkit run under the tool."""

    def __init__(self, directory, plugin, roles=("array", "disk", "map"),
                 ours=PLUGIN):
        self.dir = pathlib.Path(directory)
        self.ours = ours
        bin_dir = self.dir / "bin"
        bin_dir.mkdir(parents=True)
        script = bin_dir / "nbdkit"
        # Every role runs the same plugin, those looked at under the tool.
        script.write_text(f"""#!/usr/bin/python3
import os, sys
words = [{str(plugin)!r} if w == "weft" else w for w in sys.argv[1:]]
looked_at = any(w.startswith(r + "=") for w in words
                for r in {list(roles)!r})
if looked_at or {self.always()!r}:
    os.environ.update({self.variables()!r})
command = ({self.command()!r} if looked_at else []) + [{real_nbdkit()!r}] + words
os.execvp(command[0], command)
""", encoding="ascii")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        self.env = {"PATH": f"{bin_dir}:{os.environ['PATH']}"}

    def command(self):
        return []

    def variables(self):
        return {}

    def always(self):
        """Must the variables be set for processes that are not looked at?"""
        return False


class Valgrind(Tool):
    def command(self):
        return ["valgrind", "--leak-check=full", "--show-leak-kinds=all",
                "--keep-debuginfo=yes", "--num-callers=40",
                "--error-limit=no", "--fair-sched=try", "--xml=yes",
                f"--xml-file={self.dir}/%p.xml",
                f"--suppressions={HERE}/valgrind.supp"]

    def reports(self):
        """One XML tree for each process that ended.  Fails for a process that was killed,
        because valgrind then reports no leaks."""
        trees = []
        for name in glob.glob(f"{self.dir}/*.xml"):
            try:
                tree = xml.etree.ElementTree.parse(name).getroot()
            except xml.etree.ElementTree.ParseError:
                raise AssertionError(f"{name}: the process did not come to "
                                     "its end") from None
            states = [s.findtext("state") for s in tree.findall("status")]
            assert "FINISHED" in states, f"{name}: {states}"
            trees.append(tree)
        return trees

    def found(self):
        out = []
        for tree in self.reports():
            for e in tree.findall("error"):
                if self.counts(e):
                    out.append(self.text(e))
        return out

    def counts(self, e):
        if e.findtext("kind") != "Leak_StillReachable":
            return True
        return any((f.findtext("obj") or "").endswith(self.ours)
                   for f in e.iter("frame"))

    @staticmethod
    def text(e):
        lines = [e.findtext("kind") + ": "
                 + (e.findtext("xwhat/text") or e.findtext("what") or "")]
        for f in e.findall("stack/frame"):
            obj = os.path.basename(f.findtext("obj") or "")
            at = f.findtext("file")
            at = f"{at}:{f.findtext('line')}" if at else obj
            lines.append(f"    {f.findtext('fn') or f.findtext('ip')} ({at})")
        return "\n".join(lines)


def tsan_library():
    p = subprocess.run(["gcc", "-print-file-name=libtsan.so"], text=True,
                       stdout=subprocess.PIPE, check=True)
    return os.path.realpath(p.stdout.strip())


class ThreadSanitizer(Tool):
    # A process that is not looked at runs the same instrumented plugin, so it
    # needs the library too.
    def always(self):
        return True

    def variables(self):
        return {"LD_PRELOAD": tsan_library(),
                "TSAN_OPTIONS": f"log_path={self.dir}/tsan "
                                f"suppressions={HERE}/tsan.supp "
                                "history_size=4 second_deadlock_stack=1"}

    def found(self):
        out = []
        for name in glob.glob(f"{self.dir}/tsan.*"):
            with open(name, encoding="utf-8", errors="replace") as f:
                for report in f.read().split("=" * 18):
                    if "WARNING: ThreadSanitizer" in report \
                            and f"({self.ours}+" in report:
                        out.append(report.strip())
        return out

    @staticmethod
    def watches(pid):
        """Is this process instrumented at all?"""
        with open(f"/proc/{pid}/maps", encoding="utf-8",
                  errors="replace") as f:
            return "libtsan" in f.read()


def tsan_build():
    """A second build beside the first, instrumented; returns the plugin."""
    build = pathlib.Path(BUILD) / "tsan"
    build.mkdir(exist_ok=True)
    log = build / "build.log"
    with open(log, "w", encoding="utf-8") as f:
        def step(*words):
            p = subprocess.run(words, cwd=build, stdin=subprocess.DEVNULL,
                               stdout=f, stderr=f, check=False)
            assert p.returncode == 0, f"{' '.join(words)}: see {log}"

        if not (build / "config.status").exists():
            step(str(SOURCE / "configure"), "--enable-sanitizers=thread",
                 "CFLAGS=-g -O1")
        step("make", "-C", "core", "-j2", "libcore.la")
        step("make", "-C", "common", "-j2")
        step("make", "-C", "plugin", "-j2")
    plugin = build / "plugin" / ".libs" / PLUGIN
    assert b"__tsan_write" in plugin.read_bytes(), f"{plugin}: not instrumented"
    return plugin


def planted(directory, *flags):
    """The plugin with a leak and a race, compiled."""
    out = pathlib.Path(directory) / "planted.so"
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", *flags,
                    str(HERE / "planted.c"), "-o", str(out)], check=True)
    return out
