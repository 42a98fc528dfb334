"""A node's life after it was enrolled: renewal, a replaced disk, drained, gone.

Topology as in test_enroll.py.  Pass: the scripts do their work, with an administrator's rights
where these are needed; a node keeps what it must not lose; a removed node's certificate counts
for nothing.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import time

import pytest

from enrollworld import (LATE, OK, PORT, REFUSED, UNREACHABLE, UNWANTED, World, fill, read,
                         world)
from strangers import serial
from wefttest import Stopwatch, eventually, run


def leave(n, *words, **kw):
    return n.run("weft-leave", "--root", n.root, *words, "--yes", **kw)




# In the place of a program of the scripts: it kills the script just before or after a step
# that changes something, each of them once (the file `seen`).
BREAK = r"""#!/bin/sh
case ${0##*/}.$* in
  weftctl.*--dry-run*) step= ;;
  weftctl.disk\ format*) step=format ;;
  weftctl.array\ replace*) step=replace ;;
  mv.*.conf) step=$(for f; do [ ! -f "$f" ] || break; done; cksum "$f") ;;
  weftctl.node\ remove*) step=leave ;;
  weftctl.node\ drain*) step=drain ;;
  mv.-T*processes/*tls.new*) step=process ;;
  mv.-fT*processes/*tls.link*) step=process-link ;;
  mv.-f*processes/*/conf) step=process-conf ;;
  mv.-T*tls.new*) step=certificate ;;
  mv.-fT*tls.link*) step=link ;;
  rm.*disks/*.conf) step=remove ;;
  rm.*weft/tls\ *) step=tls ;;
  rm.*weft/tls-*) step=old ;;
  rm.*weft/services*|rm.*weft/weft.conf|rm.*weft/leaving) step=$* ;;
  *) step= ;;
esac
b() { grep -qsxF "$1 $step" "$SEEN" || { echo "$1 $step" >>"$SEEN"; kill -9 0; }; }
PATH=${PATH#*:}
[ -z "$step" ] || b before
"${0##*/}" "$@"
status=$?
[ -z "$step" ] || b after
exit $status
"""


def broken_at_each_step(n, words, serve, directory, env):
    """Run the script until it comes to its end.  The number of breaks."""
    directory.mkdir()
    for program in ("weftctl", "mv", "rm"):
        (directory / program).write_text(BREAK)
        (directory / program).chmod(0o755)
    env = {**env, "SEEN": str(directory / "seen"),
           "PATH": f"{directory}:{os.environ['PATH']}"}
    for breaks in range(20):
        p = n.run("setsid", "--wait", *words, env=env, check=False, timeout=180)
        if p.returncode == OK:
            return breaks
        assert p.returncode == -signal.SIGKILL, p
        serve()
    raise AssertionError(p)


def heard_lately(world, n):
    return all(d["last_heard_ms"] < 2500 for d in world.disks_of(n).values())


@pytest.fixture
def admin(world, tmp_path):
    """The environment of an administrator on a node."""
    token = world.json("token", "add", "nodes", "--role", "admin")["token"]
    file = tmp_path / "admin-token"
    file.write_text(token + "\n")
    file.chmod(0o600)
    return {"WEFT_TOKEN_FILE": str(file)}


def number(n):
    """The number of the node's revocation list."""
    return int(run("openssl", "crl", "-noout", "-crlnumber", "-in",
                   n.etc / "tls/ca-crl.pem").stdout.split("=0x")[1], 16)


def test_renewal(world, tmp_path):
    n = world.serving("n1", "d0")
    first = serial(n)
    n.run("weft-renew", "--root", n.root)
    assert serial(n) == first  # it is good for long

    backup = world.w.dir / "backup"
    gone = world.serving("n2", "d0")
    world.ctl("backup", backup)

    def is_whole():
        for tls in (n.etc / "tls", n.etc / "processes/disk-d0/tls"):
            run("openssl", "verify", "-CAfile", tls / "ca-cert.pem", tls / "server-cert.pem")
            assert run("openssl", "x509", "-noout", "-pubkey", "-in",
                       tls / "server-cert.pem").stdout == \
                run("openssl", "pkey", "-pubout", "-in", tls / "server-key.pem").stdout

    of_process = serial(n, "processes/disk-d0/tls")
    assert broken_at_each_step(n, ["weft-renew", "--root", n.root, "--now"], is_whole,
                               tmp_path / "renew", {}) == 10
    second = serial(n)
    assert second != first and serial(n, "processes/disk-d0/tls") != of_process
    is_whole()
    assert len(list(n.etc.glob("tls-*"))) == 1
    assert len(list(n.etc.glob("processes/disk-d0/tls-*"))) == 1
    # The disk that started with the old one goes on.
    time.sleep(5)
    eventually(lambda: heard_lately(world, n), 20)

    # weftd is restored from before that: the certificate is taken in, until somebody says
    # that all is revoked again.  Logins are not in a backup, and passwords of before are
    # refused.  The processes have heard of the revoked node, and show weftd that.
    world.ctl("node", "revoke", "n2", "--yes")
    n.run("weft-renew", "--root", n.root)
    kept = number(n)
    world.w.end("weftd")
    world.w.run("weftd", "--state", world.w.dir / "state", "--restore", backup,
                "--replace")
    world.start_weftd()
    assert world.ctl("status", check=False).returncode != 0
    refused = world.ctl("login", "--user", "ann", "--password-file", world.password,
                        check=False)
    assert refused.returncode != 0 and "setup-url" in refused.stderr
    world.first_login()
    eventually(lambda: f"node {n.name} has a certificate that it got" in
               world.w.log("weftd"), 30, what="its certificate to be taken in")
    eventually(lambda: world.disks_of(n) and heard_lately(world, n), 20)
    assert gone.name in [m["name"] for m in world.json("node", "ls")["nodes"]]
    eventually(lambda: "node n2 is shut out again" in world.w.log("weftd"), 30,
               what="the newest list to be shown")
    assert gone.run("weft-renew", "--root", gone.root, "--now",
                    check=False).returncode != 0
    n.run("weft-renew", "--root", n.root)
    assert number(n) > kept
    world.ctl("revocations", "confirm", "--yes")
    n.run("weft-renew", "--root", n.root, "--now")
    eventually(lambda: heard_lately(world, n), 20)


def test_renewal_in_time(tmp_path):
    """When a third of the certificate's life is over, and not before."""
    with World(tmp_path, env={"WEFT_CERTIFICATE_SECONDS": "42"}) as world:
        n = world.node("n1")
        world.enroll(n)
        made, first = time.monotonic(), serial(n)
        n.run("weft-renew", "--root", n.root)
        assert serial(n) == first
        time.sleep(made + 16 - time.monotonic())
        n.run("weft-renew", "--root", n.root)
        assert serial(n) != first


def test_weftd_is_set_up_anew(world):
    """Its state is lost, the CA as well; members of its arrays are not."""
    n = world.serving("n1", "d0", "d1")
    world.ctl("array", "create", "a", "--layout", "raid-1", "--disk",
              f"n1:{n.dir}/d0", f"n1:{n.dir}/d1", "--yes")
    uuid = world.json("array", "show", "a")["uuid"]
    world.w.end("weftd")
    p = leave(n, "--forgotten", check=False)
    assert p.returncode == UNREACHABLE and n.conf.exists()

    (world.w.dir / "state").rename(world.w.dir / "lost")
    world.start_weftd()
    world.first_login()
    leave(n, "--forgotten")
    assert not n.conf.exists()
    for d in ("d0", "d1"):
        n.end(d)
    world.enroll(n, "--keep", disks=["d0", "d1"])
    n.serve()
    eventually(lambda: len(world.json("array", "import")["imports"]) == 1, 30)
    eventually(lambda: world.ctl("array", "import", "a", uuid,
                                 check=False).returncode == OK, 30, every=1)
    world.seen(n, 2)
    assert world.json("array", "show", "a")["uuid"] == uuid


def test_a_disk_is_carried_to_another_node(world):
    nodes = a, b, _ = [world.serving(f"n{i}", "d0") for i in (1, 2, 3)]
    world.make_array(nodes)
    uuid = next(iter(world.disks_of(a).values()))["uuid"]
    a.end("d0")
    carried = b.dir / "carried"
    (a.dir / "d0").rename(carried)
    eventually(lambda: not world.disks_of(a), 30, what="it to be silent")
    world.ctl("disk", "move", uuid[:8], "n2", "--yes")
    b.run("weft-enroll", "--root", b.root, "--keep", "--disk", carried, "--yes")
    b.serve("carried")
    world.seen(b, 2)
    eventually(lambda: {m["state"] for m in
                        world.json("array", "show", "a")["members"]}
               == {"in-sync"}, 60, every=0.3)


@pytest.mark.parametrize("script", [
    ["weft-replace-disk", "--array", "a", "--member", "0", "--disk", "DISK"],
    ["weft-drain"], ["weft-leave"]])
def test_without_an_administrator(world, script):
    """The refusal comes before the disk is formatted in vain."""
    n = world.node("n1")
    world.enroll(n)
    disk = n.disk("d0")
    words = [str(disk) if w == "DISK" else w for w in script]
    p = n.run(*words, "--root", n.root, "--yes", check=False)
    assert p.returncode == REFUSED and "weftctl login" in p.stderr
    assert not list(n.etc.glob("disks/*")) and n.conf.exists()
    p = run("weftctl", "disk", "probe", disk, "--json")
    assert '"blank"' in p.stdout


def test_a_node_that_was_removed(world):
    n = world.serving("n1", "d0")
    p = leave(n, "--forgotten", check=False)
    assert p.returncode == REFUSED and "not forgotten" in p.stderr
    n.end("d0")
    eventually(lambda: not world.disks_of(n), 30, what="it to be silent")
    world.ctl("node", "remove", "n1", "--yes")

    # Its certificate is worth nothing.
    p = n.run("weft-renew", "--root", n.root, "--now", check=False)
    assert p.returncode == REFUSED
    n.serve()
    time.sleep(5)
    assert not world.disks_of(n)
    n.end("d0")

    p = leave(n, "--forgotten")
    assert "is none any more" in p.stdout
    assert not n.conf.exists() and not list(n.etc.glob("tls*"))
    p = leave(n)
    assert "nothing to do" in p.stdout
    # It may come again, with its disk as it is.
    world.enroll(n, disks=["d0"])
    n.serve()
    world.seen(n, 1)


@contextlib.contextmanager
def host_names(world, *places):
    """In these places the name "w" stands for weftd's host: a function that says at which
    address."""
    folders = [pathlib.Path("/etc/netns", p.ns) for p in places]

    def tell(address):
        for folder in folders:
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} w\n")
    try:
        for folder in folders:
            folder.mkdir(parents=True)
        tell(world.w.address)
        yield tell
    finally:
        for folder in folders:
            shutil.rmtree(folder)


@pytest.mark.long(40)
def test_weftd_gets_another_address(world, tmp_path):
    """Once it is known by a name, and once the new address is written to weft.conf; nothing on
    the node is started again."""
    nodes = a, _, c = [world.node(f"n{i}") for i in range(3)]

    def moves_to(address, tell):
        # The address goes first: connections that are open hear nothing of an end.
        world.network.ip("w", "addr", "del", world.w.address + "/24", "dev", "eth0")
        world.w.end("weftd", signal.SIGKILL)
        world.w.address = address
        world.network.ip("w", "addr", "add", address + "/24", "dev", "eth0")
        world.start_weftd()
        tell(address)

    def goes_on():
        """Changes that need weftd work, too: a member is lost and comes back."""
        began = Stopwatch()
        c.end("d0", 9)
        wanted = fill(a, uri, tmp_path)
        assert states(world)[2] == "out"
        assert began.seconds() < 30
        for n in nodes:
            n.run("weft-renew", "--root", n.root, "--now")
        c.serve()
        eventually(lambda: states(world) == ["in-sync"] * 3, 60, every=0.3)
        assert read(a, uri, tmp_path) == wanted
        print(f"after {began.seconds():.1f} s")

    with host_names(world, *nodes) as tell:
        for n in nodes:
            world.enroll(n, "--admin", f"https://w:{PORT}", disks=["d0"])
            n.serve()
            world.seen(n, 1)
        world.make_array(nodes)
        uri = a.serve_array("a")
        fill(a, uri, tmp_path)
        pids = [n.processes["d0"].pid for n in nodes[:2]] + [a.processes["a"].pid]
        moves_to("10.77.0.98", tell)
        goes_on()

        def write(address):
            for n in nodes:
                text = n.conf.read_text()
                n.conf.write_text(re.sub(r"(?m)^WEFT_ADMIN=.*$",
                                         f"WEFT_ADMIN=https://{address}:{PORT}", text))
        moves_to("10.77.0.99", write)
        goes_on()
        assert pids == [n.processes["d0"].pid for n in nodes[:2]] + [a.processes["a"].pid]


def states(world):
    return [m["state"] for m in world.json("array", "show", "a")["members"]]


def uuid_of(path):
    return json.loads(run("weftctl", "disk", "probe", path,
                          "--json").stdout)["disks"][0]["uuid"]


@pytest.mark.long(30)
def test_replace_disk(world, admin, tmp_path):
    """By a disk at another path, then by one at the same; broken at each step."""
    nodes = a, b, _ = [world.serving(f"n{i}", "d0") for i in range(3)]
    world.make_array(nodes)
    uri = a.serve_array("a")
    wanted = fill(a, uri, tmp_path)

    def words(name):
        return ["weft-replace-disk", "--root", b.root, "--yes", "--array", "a",
                "--member", "1", "--disk", b.disk(name)]

    def serve(name, old):
        """As soon as its settings are those of the new disk."""
        conf = b.etc / f"disks/{name}.conf"
        if name not in b.processes and conf.exists() and \
                b.settings(conf)["UUID"] != old:
            b.serve(name)
            world.seen(b, 1)

    # A disk that is in sync and answers is let be, and nothing is formatted.
    p = b.run(*words("d1"), env=admin, check=False)
    assert p.returncode == REFUSED and "stop weft-disk@d0.service" in p.stderr, p
    assert '"blank"' in run("weftctl", "disk", "probe", b.disk("d1"), "--json").stdout

    b.end("d0", 9)
    eventually(lambda: read(a, uri, tmp_path) == wanted, 60)
    eventually(lambda: states(world)[1] == "out", 30)
    # A node alone has no right to that.
    assert b.run(*words("d1"), check=False).returncode == REFUSED
    old = uuid_of(b.disk("d0"))
    breaks = broken_at_each_step(b, words("d1"), lambda: serve("d1", old),
                                       tmp_path / "other", admin)
    assert breaks == 10, (tmp_path / "other/seen").read_text()
    assert states(world) == ["in-sync"] * 3
    assert [f.name for f in b.etc.glob("disks/*")] == ["d1.conf"]
    assert "REPLACES" not in (b.etc / "disks/d1.conf").read_text()
    assert read(a, uri, tmp_path) == wanted
    # Again: it is done.
    b.run(*words("d1"), env=admin)

    # The same bay: the old disk is out of it, and its process still answers.
    old = uuid_of(b.disk("d1"))
    b.disk("d1").rename(b.dir / "taken-out")
    for script in (words("d1"), ["weft-enroll", "--root", b.root, "--yes", "--disk",
                                 b.disk("d1")]):
        p = b.run(*script, env=admin, check=False)
        assert p.returncode in (REFUSED, UNWANTED) and "answers" in p.stderr, p
    assert uuid_of(b.disk("d1")) is None
    b.end("d1", 9)
    eventually(lambda: read(a, uri, tmp_path) == wanted, 60)
    eventually(lambda: states(world)[1] == "out" and not world.disks_of(b), 30)
    port = b.settings(b.etc / "disks/d1.conf")["PORT"]
    breaks = broken_at_each_step(b, words("d1"), lambda: serve("d1", old),
                                       tmp_path / "same", admin)
    assert breaks == 8, (tmp_path / "same/seen").read_text()
    assert states(world) == ["in-sync"] * 3
    assert [f.name for f in b.etc.glob("disks/*")] == ["d1.conf"]
    settings = b.settings(b.etc / "disks/d1.conf")
    assert settings["UUID"] == uuid_of(b.disk("d1")) != old
    assert settings["PORT"] == port and "REPLACES" not in settings
    assert read(a, uri, tmp_path) == wanted


@pytest.mark.long(20)
def test_drain_and_leave(world, admin, tmp_path):
    nodes = _, old, _ = [world.serving(f"n{i}", "d0") for i in range(3)]
    world.make_array(nodes)
    uri = nodes[0].serve_array("a")
    wanted = fill(nodes[0], uri, tmp_path)

    # With members it may not leave.
    p = leave(old, env=admin, check=False)
    assert p.returncode == REFUSED and old.conf.exists()
    # And there is nowhere to go yet.
    p = old.run("weft-drain", "--root", old.root, "--yes", "--timeout", "3",
                env=admin, check=False)
    assert p.returncode in (REFUSED, LATE)

    spare = world.serving("n3", "d0")
    assert broken_at_each_step(old, ["weft-drain", "--root", old.root, "--yes"],
                               lambda: None, tmp_path / "drain", admin) == 2
    disks = {d["path"]: d for d in world.json("disk", "ls")["disks"]}
    assert disks[str(old.disk("d0"))]["array"] is None
    assert disks[str(spare.disk("d0"))]["array"] == "a"
    assert states(world) == ["in-sync"] * 3

    old.end("d0")
    breaks = broken_at_each_step(
        old, ["weft-leave", "--root", old.root, "--yes"],
        lambda: None, tmp_path / "leave", admin)
    assert breaks == 10, (tmp_path / "leave/seen").read_text()
    assert [f.name for f in old.etc.iterdir()] == ["lock"]
    names = [n["name"] for n in world.json("node", "ls")["nodes"]]
    assert "n1" not in names and "n3" in names
    assert read(nodes[0], uri, tmp_path) == wanted


# Replaces systemd's: of two disks one runs, and does not end when it should.
SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$SAID"
case $* in
  *ActiveState*d1*) echo inactive ;;
  *ActiveState*) echo active ;;
esac
"""
# The node's configuration as /etc/weft, and a systemd that seems to run.
AS_HOST = """set -e; cd "$0"
mount -t tmpfs none /run; mkdir -p /run/systemd/system
cp -a /etc etc; mkdir -p etc/weft; mount --bind etc /etc; mount --bind "$1" /etc/weft
shift; exec "$@"
"""


def test_leave_is_given_up(world, admin, tmp_path):
    """Units that ran are started again, and units that did not run stay stopped."""
    n = world.node("n1")
    world.enroll(n, disks=["d0", "d1"])
    n.serve("d0")
    world.seen(n, 1)
    (tmp_path / "systemctl").write_text(SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    p = n.run("unshare", "--mount", "sh", "-c", AS_HOST, tmp_path, n.etc,
              "timeout", "4", "weft-leave", "--yes", check=False,
              env={**admin, "SAID": str(tmp_path / "said"),
                   "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert p.returncode == 124, p
    assert [line for line in (tmp_path / "said").read_text().splitlines()
            if line.startswith("st")] == ["stop weft-disk@d0.service",
                                          "start weft-disk@d0.service"]
    assert n.conf.exists() and world.disks_of(n)
