"""weftctl for those who watch: status --check, events, wait, history, and the
shell's completion.

Topology: a weftd with played members and hosts (weftdactors.py), and weftctl.  Pass: the
output is weftd's state, no event is missed over a restart of weftd, and it ends with the
documented status.
"""

import json
import os
import pty
import re
import threading

import pytest

from weftctlproc import FAILED, OK, REFUSED, UNREACHABLE, USAGE, Ctl, weftds as ctl
from weftdactors import Member, Weftd, array, host, weftd
from wefttest import SOURCE, eventually, run

PERFDATA = re.compile(r"(?:[a-z_]+=\d+B?(?: |$))+")


# --- status --check -------------------------------------------------------------


def check(ctl):
    """(exit status, word, perfdata) of the one line that is printed."""
    p = run("weftctl", "status", "--check", env=ctl.env, check=False)
    assert p.stdout.count("\n") == 1
    word, _, rest = p.stdout.rstrip("\n").removeprefix("WEFT ").partition(" - ")
    text, _, perfdata = rest.partition(" | ")
    assert text and "|" not in perfdata
    assert perfdata == "" or PERFDATA.fullmatch(perfdata)
    return p.returncode, word, dict(
        v.split("=") for v in perfdata.split()), p.stderr


def test_check(weftd, array, ctl):
    status, word, data, _ = check(ctl)
    assert (status, word) == (0, "OK")
    assert (data["arrays"], data["members"], data["silent"]) == ("1", "4", "0")

    host(weftd).start_attached().lost(2)
    array[2].stop()
    eventually(lambda: weftd.get("/status")["health"] != "ok")
    health = weftd.get("/status")["health"]
    status, word, data, _ = check(ctl)
    assert (status, word) == {"warning": (1, "WARNING"),
                              "error": (2, "CRITICAL")}[health]
    assert data["not_in_sync"] == "1" and int(data["exposed"][:-1]) > 0

    weftd.kill()
    status, word, data, said = check(ctl)
    assert (status, word, data, said) == (3, "UNKNOWN", {}, "")
    weftd.start()


def test_check_of_what_is_lost(weftd, array, ctl):
    for m in array[1:3]:
        m.stop()
    eventually(lambda: weftd.get("/status")["health"] == "error")
    assert check(ctl)[:2] == (2, "CRITICAL")


def test_check_without_a_login(tmp_path):
    with Weftd(tmp_path, login=True) as w:
        c = Ctl(w.url, tmp_path / "run")
        c.env["HOME"] = str(tmp_path)
        assert check(c)[:2] == (3, "UNKNOWN")


# --- events ---------------------------------------------------------------------


def texts(weftd, query=""):
    return [e["text"] for e in weftd.get("/log" + query)["log"]][::-1]


def test_events(weftd, array, ctl):
    host(weftd).start_attached().lost(2)
    eventually(lambda: weftd.get("/arrays/a")["members"][2]["state"]
               == "in-sync" and not weftd.get("/rebuilds")["rebuilds"])
    lines = ctl("events").splitlines()
    for text, line in zip(texts(weftd), lines, strict=True):
        assert text in line and re.match(r"\d{4}-\d\d-\d\dT\S+Z  ", line)
    assert len(ctl("events", "--limit", "2").splitlines()) == 2
    assert ctl("events", "--limit", "2").splitlines() == lines[-2:]
    warned = ctl("events", "--severity", "warning").splitlines()
    assert len(warned) == len(texts(weftd, "?severity=warning")) > 0
    word = texts(weftd)[-1].split()[0]
    assert ctl("events", "--text", word)
    assert ctl("events", "--text", "no such text & = ?") == ""
    subject = ctl.json("events")["log"][0]["subject"]
    assert all(e["subject"] == subject for e in
               ctl.json("events", "--subject", subject)["log"])
    ctl("events", "--severity", "loud", status=USAGE)
    ctl("events", "--limit", "0", status=USAGE)


def test_follow_over_a_restart(weftd, array, ctl):
    """Every line once, in order, those from before and after weftd's death,
    too."""
    p = ctl.started("events", "--follow", "--json")
    seen = []

    def read():
        for line in p.stdout:
            seen.append(json.loads(line))

    reader = threading.Thread(target=read)
    reader.start()

    def all_seen():
        kept = weftd.get("/log?limit=1000")["log"][::-1]
        return [e["id"] for e in seen] == [e["id"] for e in kept]

    try:
        eventually(all_seen)
        host(weftd).start_attached().lost(2)
        eventually(all_seen)
        weftd.restart(kill=True)
        said = len(array[3].said)
        ctl("array", "set", "a", "--spare-after", "30")
        # A disk that weftd has not heard since its start makes no "heard again" event.
        eventually(lambda: any(s == 200 for s, _ in array[3].said[said:]))
        array[3].stop()
        eventually(lambda: not weftd.get("/nodes/n3")["alive"])
        eventually(all_seen, 30)
        before = len(seen)
        array[3].start()
        eventually(lambda: len(texts(weftd)) > before)
        eventually(all_seen)
    finally:
        p.terminate()  # SIGINT is ignored where tests run in the background
        p.wait(10)
        reader.join(10)
    said = p.stderr.read().splitlines()
    assert len(said) <= 1 and all("waiting" in s for s in said)


def test_follow_filters(weftd, array, ctl):
    p = ctl.started("events", "--follow", "--severity", "warning", "--limit",
                "1")
    try:
        h = host(weftd).start_attached()
        ctl("array", "set", "a", "--spare-after", "31")
        h.lost(2)
        line = p.stdout.readline()
        assert "info" not in line.split()[1]
    finally:
        p.kill()
        p.communicate()


# --- wait -----------------------------------------------------------------------


def test_wait_for_an_array(weftd, array, ctl):
    assert ctl("wait", "array", "a", "ready") == "array a: ready\n"
    assert ctl("wait", "array", "a", "in-sync") == "array a: in-sync\n"
    ctl("wait", "array", "a", "perfect", status=USAGE)
    ctl("wait", "array", "b", "ready", status=REFUSED)
    ctl("wait", "array", "b", "gone")
    line = ctl("wait", "array", "a", "gone", "--timeout", "1", status=FAILED)
    assert "not gone after 1 s" in line

    array[2].stay_joining()
    host(weftd).start_attached().lost(2)
    eventually(lambda: weftd.get("/arrays/a")["members"][2]["rebuild"])
    p = ctl.started("wait", "array", "a", "in-sync")
    assert "1 of 4 members not in-sync" in p.stdout.readline()
    array[2].phase = "synced"
    out, err = p.communicate(timeout=30)
    assert p.returncode == OK and err == ""
    assert out.endswith("array a: in-sync\n") and "\r" not in out


@pytest.mark.parametrize("end", [Weftd.kill, Weftd.stop])
def test_wait_over_a_restart(weftd, array, ctl, end):
    array[2].stay_joining()
    host(weftd).start_attached().lost(2)
    eventually(lambda: weftd.get("/arrays/a")["members"][2]["rebuild"])
    p = ctl.started("wait", "rebuild", "a", 2)
    assert "a, member 2" in p.stdout.readline()
    end(weftd)
    while "does not answer" not in p.stdout.readline():
        pass
    weftd.start()
    array[2].phase = "synced"
    out, err = p.communicate(timeout=60)
    assert p.returncode == OK and out.endswith("in-sync\n"), out + err


def test_wait_for_a_node(weftd, array, ctl):
    assert ctl("wait", "node", "n1", "alive") == "node n1: alive\n"
    line = ctl("wait", "node", "n9", "alive", "--timeout", "1", status=FAILED)
    assert "never heard of" in line
    ctl("wait", "node", "n1", "happy", status=USAGE)
    array[1].stop()
    assert ctl("wait", "node", "n1", "silent").endswith("node n1: silent\n")
    weftd.kill()
    ctl("wait", "node", "n1", "alive", status=UNREACHABLE)
    weftd.start()


def test_wait_on_a_terminal(weftd, array, ctl):
    """One line that changes, and is gone at the end."""
    status, said = ctl.on_terminal("wait", "array", "a", "gone", "--timeout",
                                   "1")
    assert status == FAILED and "\r\033[K" in said
    assert said.count("\n") == 1


# --- history --------------------------------------------------------------------


def test_history(weftd, array, ctl):
    reply = ctl.json("history", "--last", "1h", "--points", "10")
    assert reply["subject"] == "cluster" and len(reply["series"]) >= 6
    table = ctl("history", "array:a", "--points", "5").splitlines()
    assert table[0].split()[:2] == ["FROM", "READ"] and 2 <= len(table) <= 6
    ctl("history", "array:nothing", status=REFUSED)
    ctl("history", "--last", "soon", status=USAGE)
    ctl("history", "--points", "601", status=USAGE)


# --- completion -----------------------------------------------------------------


def completed(ctl, line, env=None):
    """bash's completions for a line, with the script sourced as installed."""
    script = f"""
        . '{SOURCE}/completion/weftctl'
        complete -p weftctl >/dev/null || exit 9
        COMP_LINE=$1 COMP_POINT=${{#1}}
        COMPREPLY=()
        compopt () {{ echo FILES; }}
        _weftctl
        [ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    p = run("bash", "-c", script, "bash", line,
            env={**ctl.env, **(env or {})})
    assert p.stderr == ""
    return p.stdout.split()


def test_completion_is_sound():
    run("shellcheck", SOURCE / "completion/weftctl")


def test_completion_of_words(weftd, ctl):
    assert completed(ctl, "weftctl arr") == ["array"]
    assert "complete" not in completed(ctl, "weftctl ")
    assert completed(ctl, "weftctl array r") == ["rm", "replace"]
    assert completed(ctl, "weftctl array create x --lay") == ["--layout"]
    assert completed(ctl, "weftctl array create x --layout raid-1") == [
        "raid-10", "raid-1"]
    assert "--yes" in completed(ctl, "weftctl array rm --")
    assert completed(ctl, "weftctl node maintenance ") == ["on", "off"]
    assert completed(ctl, "weftctl disk format ") == ["FILES"]
    assert completed(ctl, "weftctl --token-file ") == ["FILES"]
    assert completed(ctl, "weftctl frobnicate ") == []
    assert "status" in completed(ctl, "weftctl --json s")


def test_completion_of_live_names(weftd, array, ctl):
    host(weftd).start_attached()
    assert completed(ctl, "weftctl array show ") == ["a"]
    assert completed(ctl, "weftctl array show b") == []
    assert completed(ctl, "weftctl ok-to-stop n") == ["n0", "n1", "n2", "n3"]
    assert completed(ctl, "weftctl rebuild pause a ") == ["0", "1", "2", "3"]
    assert completed(ctl, "weftctl array replace a 1 n2:") == ["/dev/disk2"]
    uuid = array[3].uuid
    assert completed(ctl, f"weftctl disk forget {uuid[:9]}") == [uuid]
    assert completed(ctl, "weftctl session evict ") == [
        weftd.get("/sessions")["sessions"][0]["session"]]
    assert completed(ctl, "weftctl wait array a in") == ["in-sync"]
    assert completed(ctl, "weftctl wait node n1 ") == ["alive", "silent",
                                                      "drained"]
    # Without a weftd there are no completions, and no messages.
    assert completed(ctl, "weftctl array show ",
                     {"WEFT_ADMIN": "http://127.0.0.1:1"}) == []
    assert completed(ctl, f"weftctl --admin {weftd.url} array show ",
                     {"WEFT_ADMIN": "http://127.0.0.1:1"}) == ["a"]


class Shell:
    """An interactive bash on a terminal, with the completion as it is installed."""

    def __init__(self, env, directory):
        self.said = b""
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(directory)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                       {**os.environ, **env, "PS1": "ready> ", "TERM": "dumb",
                        "HISTFILE": ""})
        self.pid = pid
        self.until(b"ready> ")
        self.type(f". '{SOURCE}/completion/weftctl'\r", b"ready> ")

    def until(self, text, since=0):
        while text not in self.said[since:]:
            more = os.read(self.fd, 65536)
            assert more, self.said
            self.said += more

    def type(self, keys, text):
        """Press these, and wait until it has said that."""
        since = len(self.said)
        os.write(self.fd, keys.encode())
        self.until(text, since)
        return self.said[since:].decode(errors="replace")

    def end(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


HOSTILE = [";>canary", "&>canary", "|tee canary", "$(>canary)", "`>canary`",
           "\n>canary", "\r>canary\r", "' ;>canary '", '";>canary;"',
           "\\\n>canary", "()(>canary)", "<(>canary)", "{a,b};>canary", ">canary",
           "#\t>canary", "*", "?", "[a-z]", "~", "!!", "\x1b[2J", "\x16\r>canary\r",
           "\u2028>canary", "\u00a0>canary"]


# Characters that a terminal takes as orders, and marks that turn the direction of writing; not
# NUL.
ORDERS = "".join(map(chr, [*range(1, 0x20), *range(0x7f, 0xa0), 0x61c, 0x200e, 0x200f,
                           *range(0x202a, 0x202f), *range(0x2066, 0x206a)]))


def test_what_is_printed_gives_no_orders(tmp_path, weftd, ctl):
    """A node calls its disk by what a terminal would obey: it is shown as "?", and in
    JSON escaped.  The scripts show it so, too."""
    odd = "".join(c for c in ORDERS if c >= "\x80")
    m = Member(weftd, 5)
    status, reply = weftd.call("POST", m.path, {
        **m.body(), "path": f"/dev/a{odd}\u00e9", "state": "failed",
        "reason": f"gone {ORDERS}"})
    assert status == 200, reply
    shown = "/dev/a" + "?" * len(odd) + "\u00e9"
    said = ""
    for words in (["disk", "ls"], ["status"], ["events"], ["node", "show", "n5"]):
        for json_too in ([], ["--json"]):
            said += ctl(*words, *json_too)
    assert shown in said
    assert any(d["path"] == f"/dev/a{odd}\u00e9"  # JSON loses nothing
               for d in ctl.json("disk", "ls")["disks"])
    assert not set(said) & set(ORDERS) - {"\n"}
    text = "".join(chr(c) for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000)
    (tmp_path / "text").write_text(text.replace("\n", ""), newline="")
    with open(tmp_path / "text") as f:
        p = run("sh", "-c", f". '{SOURCE}/scripts/weft-lib.sh'; plain", stdin=f)
    assert p.stdout == "".join("?" if c in ORDERS else c
                               for c in text if c != "\n")


def test_a_hostile_name_completes_harmlessly(tmp_path, weftd, ctl):
    """A node calls its disk by what a shell would run.  Nothing is run by Tab, nor
    by Enter after it."""
    for i, text in enumerate(HOSTILE):
        m = Member(weftd, i)
        weftd.call("POST", m.path, {**m.body(), "path": "/dev/d" + text})
    fine = Member(weftd, 77)
    usual = "/dev/disk/by-id/wwn-0x5000c500a1b2,c3d4:5@6+7%8_9"
    assert weftd.call("POST", fine.path, {**fine.body(), "path": usual})[0] == 200
    taken = {d["path"] for d in weftd.get("/disks")["disks"]}
    assert "/dev/d;>canary" in taken and "/dev/d$(>canary)" in taken, taken
    shell = Shell(ctl.env, tmp_path)
    try:
        for d in weftd.get("/disks")["disks"]:
            offered = completed(ctl, f"weftctl disk forget {d['node']}:")
            assert offered == ([d["path"]] if d["uuid"] == fine.uuid else []), \
                offered
            for keys in (f"weftctl disk forget {d['node']}:\t",
                         f"weftctl disk forget {d['node']}:/dev/d\t\t",
                         f"weftctl disk forget {d['node']}:\x1b*"):
                # The word is a part of the line, which is run, and refused.
                said = shell.type(keys + " --frobnicate\r", b"ready> ")
                assert "frobnicate" in said, said
                assert not (tmp_path / "canary").exists(), (d["path"], said)
        said = shell.type("weftctl disk forget n77:\t--frobnicate\r", b"ready> ")
        assert usual in said
    finally:
        shell.end()
