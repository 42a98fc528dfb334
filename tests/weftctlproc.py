"""weftctl, run as a user runs it.

    from weftctlproc import *

The fixture `ctl` makes one for a cluster: w = ctl(c); w("array", "ls").
"""

import json
import os
import pty
import select
import subprocess
import time

import pytest

from wefttest import run

__all__ = ["FAILED", "OK", "REFUSED", "UNREACHABLE", "USAGE", "Ctl", "ctl"]

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

    def on_terminal(self, *words, answer=None, timeout=60):
        """(status, all that stood on the terminal)."""
        master, slave = pty.openpty()
        p = subprocess.Popen(
            ["weftctl", *map(str, words)], stdin=slave, stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **self.env})
        os.close(slave)
        if answer is not None:
            os.write(master, answer.encode() + b"\n")
        said, end = b"", time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([master], [], [], 0.2)[0]:
                try:
                    data = os.read(master, 65536)
                except OSError:
                    break
                if not data:
                    break
                said += data
            elif p.poll() is not None:
                break
        status = p.wait(timeout=10)
        os.close(master)
        return status, said.decode()


@pytest.fixture
def ctl(tmp_path):
    """A factory: ctl(cluster).  Whatever is left attached is detached."""
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
