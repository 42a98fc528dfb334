"""root's scripts and a weftd that answers with texts which it chose for them.

Topology: the scripts with the configuration of a node below a folder; in the place of
weftctl a program that prints what a hostile weftd would answer, and in the place of
weft-enroll one that does nothing.
Pass:  a text that is no UUID gets into no file, and no further command has it; the message
       is one line, without control characters.
Fail:  a line of the answer is in a file of settings, or an array's place was given.
"""

import json
import os
import shutil
import subprocess

import pytest

from wefttest import SOURCE

OLD, NEW = "0a" * 4 + "-0a0a" * 3 + "-" + "0a" * 6, "0b" * 4 + "-0b0b" * 3 + "-" + "0b" * 6

WEFTCTL = r"""#!/bin/sh
printf '%s\n' "$*" >>"$ASKED"
case "$*" in
  whoami*) echo '{"role": "admin"}' ;;
  disk\ probe*) echo '{"disks": [{"uuid": "NEW"}]}' ;;
  array\ show*) cat "$ANSWER" ;;
esac
"""


class Host:
    def __init__(self, path):
        self.root, self.bin, self.asked = path / "root", path / "bin", path / "asked"
        self.answer, self.conf = path / "answer", self.root / "etc/weft/disks/d0.conf"
        self.conf.parent.mkdir(parents=True)
        (self.root / "etc/weft/tls").mkdir()
        (self.root / "etc/weft/tls/client-cert.pem").touch()
        (self.root / "etc/weft/weft.conf").write_text(
            "WEFT_ADMIN=https://10.0.0.1:7380\nWEFT_NODE=n0\n")
        self.disk = self.root / "disk"
        self.disk.touch()
        self.conf.write_text(f"DISK={self.disk}\nUUID={NEW}\n")
        self.bin.mkdir()
        for name in ("weft-replace-disk", "weft-lib.sh"):
            shutil.copy(SOURCE / "scripts" / name, self.bin)
        for name, text in (("weftctl", WEFTCTL.replace("NEW", NEW)),
                           ("weft-enroll", "#!/bin/sh\n")):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def replace(self, members):
        self.answer.write_text(json.dumps({"members": members}))
        self.asked.write_text("")
        return subprocess.run(
            [self.bin / "weft-replace-disk", "--root", self.root, "--yes", "--no-wait",
             "--array", "a", "--member", "1", "--disk", self.disk],
            capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}",
                 "ASKED": str(self.asked), "ANSWER": str(self.answer)})


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def member(disk, **more):
    return {"position": 1, "disk": disk, "node": "n1", "path": "/dev/x", "state": "out",
            "alive": False, "failed": False, **more}


def test_a_uuid_is_taken(host):
    p = host.replace([member(OLD)])
    assert p.returncode == 0, p
    assert f"array replace a 1 {NEW} --yes" in host.asked.read_text()


@pytest.mark.parametrize("disks", [
    [f"{OLD}\nDISK=/dev/sda"], [f"{OLD}\n"[:-1] + "\n\nUUID=x"], [f"\n{OLD}"],
    [f"{OLD}\rx"], [OLD[:-1] + "\u00e9"], [OLD[:-2] + "$$"], ["../../" + OLD[6:]],
    [OLD.upper()], [OLD[:-1]], [OLD + "0"], ["-" + OLD], [""], [None], [17], [[OLD, OLD]],
    [{"a": OLD}], [OLD, NEW], ["\x1b]0;x\x07"]], ids=repr)
def test_no_other_text_is(host, disks):
    before = host.conf.read_bytes()
    p = host.replace([member(d) for d in disks])
    assert (p.returncode, "names no disk by its UUID" in p.stderr) == (1, True) or \
        (disks == [""] and p.returncode == 3), p
    assert p.stderr.count("\n") == 1
    assert all(c == "\n" or c >= " " for c in p.stderr) and "\x7f" not in p.stderr
    assert host.conf.read_bytes() == before
    assert "array replace" not in host.asked.read_text()


def test_a_message_is_one_line(host):
    """A node's name for its disk, in a message."""
    p = host.replace([member(OLD, path="/dev/x\nweft-replace-disk: done\x1b[2K",
                             state="in-sync", alive=True)])
    assert p.returncode == 3 and "is in sync and answers" in p.stderr, p
    assert p.stderr.count("\n") == 1 and "\x1b" not in p.stderr
