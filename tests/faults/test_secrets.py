"""A member's token is secret, above all in error messages.

Topology: one devcluster.
Cause: a member is killed, and is alive again at another port than it says; at its
       own stands a server that knows no such export.  libnbd's error then names the
       export, and so the token: under an array that runs, and in one's start.
Pass:  the reason is in the log of the array's process, in weftd's and in the archive
       of `weftctl report`, and the token is in none of them.
"""

import contextlib
import os
import re

import pytest

from arraystate import wait_in_sync, wait_state
from nbdkitproc import Nbdkit
from wefttest import eventually, free_port, run

SECRET = re.compile(rb"[0-9a-fA-F]{48}")


def logs(c):
    return {name: (c.dir / f"{name}.log").read_bytes()
            for name in ("weftd", "array", "m0", "m1")}


@contextlib.contextmanager
def member_behind_another(c):
    """m2 is alive, but at its door stands somebody else."""
    uri = c.members[2]["uri"]
    host, port = re.fullmatch(r"nbd://([\d.]+):(\d+)", uri).groups()
    with Nbdkit("--filter=exportname", "memory", "64M", "exportname-strict=true",
                "exportname=other", address=(host, port)), \
            Nbdkit("weft", f"disk={c.members[2]['file']}", f"uri={uri}", "node=n2",
                   f"admin={c.admin}", address=(host, str(free_port()))):
        yield


def test_a_door_that_fails(cluster, tmp_path):
    c = cluster(size="32M")
    c.kill("m2")
    wait_state(c, 2, "out")
    with member_behind_another(c):
        eventually(lambda: "can't connect" in
                   c.get("/api/v1/log?limit=1000&text=lost")["log"][0]["text"])
    c.start("m2")
    wait_in_sync(c)
    c.kill("array")
    c.kill("m2")
    # An array's start says all of libnbd's sentence; weftd keeps its beginning.
    with member_behind_another(c):
        with pytest.raises(AssertionError) as error:
            c.start("array")
    [said] = re.findall("no export named 'data/.*'", str(error.value))
    assert "*" * 64 in said and not SECRET.search(str(error.value).encode())

    # A journal may be older than this Weft.
    journal = tmp_path / "bin/journalctl"
    journal.parent.mkdir()
    journal.write_text("#!/bin/sh\necho \"no export named 'data/1."
                       f"{'ab' * 16}.{'cd' * 16}.{'0' * 16}.rw.4.{'ef' * 32}'\"\n")
    journal.chmod(0o755)
    report = tmp_path / "report.tar.gz"
    run("weftctl", "report", "--output", report,
        env={"WEFT_ADMIN": c.admin, "HOME": str(tmp_path),
             "PATH": f"{journal.parent}:{os.environ['PATH']}"})
    run("tar", "-C", tmp_path, "-xzf", report)
    [directory] = tmp_path.glob("weft-report-*")
    kept = logs(c) | {f.name: f.read_bytes() for f in directory.iterdir()}
    assert b"can't connect" in kept["log.json"]
    assert b"no export named" in kept["journal.txt"]
    for name, text in kept.items():
        assert not SECRET.search(text), (name, SECRET.search(text))
    c.start("m2")
    c.start("array")
