"""weftctl, run as a user runs it.

    from weftctlproc import *

The fixture `ctl` makes one for a cluster: w = ctl(c); w("array", "ls").
`weftds` is one for the weftd of the fixture `weftd`.
"""

import contextlib
import json
import os
import pty
import select
import subprocess
import time

import pytest

from wefttest import run

__all__ = ["FAILED", "OK", "REFUSED", "UNREACHABLE", "USAGE", "Ctl", "ctl",
           "weftds"]

OK, FAILED, USAGE, REFUSED, UNREACHABLE = range(5)


class Ctl:
    """weftctl for one cluster, with a run directory of its own."""

    def __init__(self, admin, run_dir):
        self.env = {"WEFT_ADMIN": admin, "WEFT_RUN_DIR": str(run_dir)}

    def __call__(self, *words, status=OK, **kw):
        """Its output.  An error must be one line, and is what is returned
        when another status than 0 is wanted."""
        p = run("weftctl", *words, env=self.env, check=False, **kw)
        assert p.returncode == status, f"{p.returncode}: {p.stdout}{p.stderr}"
        if status == OK:
            return p.stdout
        lines = p.stderr.splitlines()
        assert len(lines) == 1 and lines[0].startswith("weftctl: "), p.stderr
        return lines[0]

    def json(self, *words, **kw):
        return json.loads(self(*words, "--json", **kw))

    def started(self, *words):
        """In the background."""
        return subprocess.Popen(["weftctl", *map(str, words)], text=True,
                                env={**os.environ, **self.env},
                                stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def terminal(self, *words):
        return Terminal(words, self.env)

    def on_terminal(self, *words, answer=None):
        """(status, all that stood on the terminal)."""
        with self.terminal(*words) as t:
            if answer is not None:
                t.type(answer)
            said = t.until(None)
            return t.wait(), said


class Terminal:
    """weftctl on a terminal of its own."""

    def __init__(self, words, env):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            ["weftctl", *map(str, words)], stdin=slave, stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **env})
        os.close(slave)
        self.said = b""

    def until(self, text, timeout=60):
        """All output so far, once it contains `text`; None: at the end."""
        end = time.monotonic() + timeout
        while text is None or text.encode() not in self.said:
            assert time.monotonic() < end, f"no {text!r}: {self.said!r}"
            data = b""
            if select.select([self.master], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):  # it has ended
                    data = os.read(self.master, 65536)
            elif self.process.poll() is None:
                continue
            if not data:
                assert text is None, f"no {text!r}: {self.said!r}"
                break
            self.said += data
        return self.said.decode()

    def type(self, line):
        os.write(self.master, line.encode() + b"\n")

    def wait(self):
        return self.process.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def weftds(weftd, tmp_path):
    """One for a weftd without a cluster."""
    return Ctl(weftd.url, tmp_path / "run")


@pytest.fixture
def ctl(tmp_path):
    """A factory: ctl(cluster). Detaches everything that is left attached."""
    made = []

    def make(c):
        made.append(Ctl(c.admin, f"/tmp/weft-run-{os.getpid()}-{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        run_dir = one.env["WEFT_RUN_DIR"]
        if os.path.isdir(run_dir):
            left = os.listdir(run_dir)
            for name in left:
                run("weftctl", "detach", name, env=one.env, check=False)
            os.rmdir(run_dir)
            assert left == [], "attached when the test ended"
