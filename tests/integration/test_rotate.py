"""The cluster's CA is changed while arrays are in use.

Topology: weftd and nodes with a disk each, every one in a network namespace of its own,
with TLS; raid-x over the disks, attached on the first node, which writes and reads all
the time.  Causes: a new CA, keys and certificates for everybody, weftd killed between
all steps, nodes that are late, that miss it, that never heard of it.  Pass: no request
fails, every node that was there connects to every other at each step, and after the end
nothing that the first CA has signed is believed by anybody.
"""

import contextlib
import http.client
import os
import re
import shutil
import signal
import ssl
import threading
import time
import types

import pytest

from certificates import Authority
from enrollworld import REFUSED, UNTRUSTED, fill, read, world
from securenode import Node, enrolled, https, node_token, openssl, trusting
from strangers import Stranger, serial, serial_served
from weftdactors import Weftd
from weftdlogin import first_login
from wefttest import SOURCE, eventually, run


def renew(n, *words, **kw):
    return n.run("weft-renew", "--root", n.root, *words, **kw)


def kill_weftd(world):
    world.w.end("weftd", signal.SIGKILL)
    world.start_weftd()


def issuer(n):
    return run("openssl", "x509", "-noout", "-issuer", "-in",
               n.etc / "tls/client-cert.pem").stdout


def key(n):
    return run("openssl", "pkey", "-pubout", "-in", n.etc / "tls/client-key.pem").stdout


def count(n):
    return (n.etc / "tls/ca-cert.pem").read_text().count("BEGIN CERTIFICATE")


def state(world):
    """The rotation; the nodes that trust all required CAs; the nodes with a certificate of the
    last CA; the nodes that weftd waits for."""
    r = world.json("ca", "show")
    return (r["rotation"], *("".join(n["node"] for n in sorted(
        r["nodes"], key=lambda n: n["node"]) if n[w])
        for w in ("trusts", "renewed", "waited_for")))


@contextlib.contextmanager
def writing(n, uri, directory):
    """All of the array, again and again, with pauses that leave some of the processor to
    others."""
    stop, failures, rounds = threading.Event(), [], []

    def work():
        try:
            while not stop.is_set():
                wanted = fill(n, uri, directory)
                rounds.append(wanted)
                if read(n, uri, directory) != wanted:
                    failures.append("other data came back")
                stop.wait(0.5)
        except BaseException as e:
            failures.append(e)
    t = threading.Thread(target=work)
    t.start()
    try:
        yield rounds
    finally:
        stop.set()
        t.join()
    assert not failures, failures
    assert rounds


def everyone_connects(nodes):
    """New connections, of each to each, by what is in the folders now."""
    for client in nodes:
        for server in nodes:
            s = Stranger(client, f"nbds://{server.address}:10810")
            s.end()


@pytest.mark.long(60)
def test_rotation_under_io(world, tmp_path):
    nodes = a, b, c = [world.serving(f"n{i}", "d0") for i in range(3)]
    world.make_array(nodes)
    uri = a.serve_array("a")
    for n in nodes:
        renew(n)
    first = world.json("ca", "show")["ca"]
    before = [(issuer(n), key(n)) for n in nodes]
    # The array process takes a list that the first CA alone has signed.
    gone = world.node("n9")
    world.enroll(gone)
    world.ctl("node", "revoke", "n9", "--yes")
    pids = [n.processes["d0"].pid for n in nodes]
    epoch = world.json("array", "show", "a")["epoch"]
    assert state(world) == ("none", "n0n1n2", "n0n1n2", "")
    assert world.ctl("ca", "retire", "--yes", check=False).returncode == REFUSED
    with writing(a, uri, tmp_path) as rounds:
        world.ctl("ca", "rotate")
        kill_weftd(world)
        next = world.json("ca", "show")["next"]
        assert next["fingerprint"] != first["fingerprint"]
        world.ctl("ca", "rotate")  # again: it has begun
        assert world.json("ca", "show")["next"] == next
        assert state(world) == ("spread", "", "", "n0n1n2")
        everyone_connects(nodes)

        # Nobody gets a certificate of the next CA before all trust it.
        for n in (a, b):
            renew(n, "--now")
            assert count(n) == 2
            kill_weftd(world)
        assert state(world) == ("spread", "n0n1", "", "n2")
        assert [issuer(n) for n in nodes] == [i for i, _ in before]
        everyone_connects(nodes)
        p = world.ctl("ca", "retire", "--yes", check=False)
        assert p.returncode == REFUSED and "n2" in p.stderr

        # The last one that trusts both is the first that gets one.
        renew(c)
        assert state(world) == ("renew", "n0n1n2", "n2", "n0n1")
        kill_weftd(world)
        everyone_connects(nodes)
        own = serial(c, "processes/disk-d0/tls")
        assert serial_served(c, a).lstrip("0") == own.lstrip("0")
        renew(a)
        kill_weftd(world)
        assert state(world) == ("renew", "n0n1n2", "n0n2", "n1")
        everyone_connects(nodes)
        p = world.ctl("ca", "retire", "--yes", check=False)
        assert p.returncode == REFUSED and "n1" in p.stderr
        renew(b)
        assert state(world) == ("renew", "n0n1n2", "n0n1n2", "")

        logs = [(n, name) for n in nodes for name in n.processes]
        before_retire = [n.log(name) for n, name in logs]
        world.ctl("ca", "retire", "--yes")
        # For these processes nothing has happened.
        time.sleep(3)
        for (n, name), log in zip(logs, before_retire):
            assert "weftd" not in n.log(name)[len(log):], n.log(name)[len(log):]
        kill_weftd(world)
        assert world.json("ca", "show")["ca"] == next
        assert state(world) == ("none", "", "n0n1n2", "")
        everyone_connects(nodes)
        for n in nodes:
            renew(n)
            assert count(n) == 1
        everyone_connects(nodes)
        assert state(world) == ("none", "n0n1n2", "n0n1n2", "")
        done = len(rounds)
        eventually(lambda: len(rounds) > done, 60)
    assert [n.processes["d0"].pid for n in nodes] == pids
    # No connection of the array's was lost: they stay, whatever has signed what they
    # were opened by.
    assert world.json("array", "show", "a")["epoch"] == epoch
    for n, (i, k) in zip(nodes, before):
        assert issuer(n) != i and key(n) != k
    # And all restarts work with the second CA alone.
    b.end("d0", 9)
    b.serve()
    eventually(lambda: {m["state"] for m in world.json("array", "show", "a")["members"]}
               == {"in-sync"}, 60, every=0.3)
    assert fill(a, uri, tmp_path) == read(a, uri, tmp_path)
    said = [x["action"] for x in world.json("audit")["audit"] if "/ca/" in x["action"]]
    assert said.count("POST /ca/rotate") == 2
    assert said.count("POST /ca/retire") == 4


NO_PROCESS = """#!/bin/sh
case $* in *processes*) kill -9 0 ;; esac
PATH=${PATH#*:}
exec mv "$@"
"""


def test_a_rotation_waits_for_processes(world, tmp_path):
    """A node whose process has no certificate of the next CA yet is waited for."""
    n = world.serving("n1", "d0")
    program = tmp_path / "mv"
    program.write_text(NO_PROCESS)
    program.chmod(0o755)

    def issuers():
        return [run("openssl", "x509", "-noout", "-issuer", "-in",
                    n.etc / f"{folder}tls/server-cert.pem").stdout
                for folder in ("", "processes/disk-d0/")]

    renew(n)
    first = issuers()
    world.ctl("ca", "rotate")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for _ in range(2):  # each time when the process's certificate is about to be put in place
        p = n.run("setsid", "--wait", "weft-renew", "--root", n.root, env=env, check=False)
        assert p.returncode == -signal.SIGKILL, p
        node, process = issuers()
        assert node != first[0] and process == first[1]
        assert state(world) == ("renew", "n1", "", "n1")
        p = world.ctl("ca", "retire", "--yes", check=False)
        assert p.returncode == REFUSED and "n1" in p.stderr
    renew(n)
    assert issuers() == [node, node]
    assert state(world) == ("renew", "n1", "n1", "")
    world.ctl("ca", "retire", "--yes")
    renew(n)
    everyone_connects([n])


def forged(world, directory, name):
    """A certificate for `name`, made by a thief of the first CA's key."""
    d = directory / "etc/tls"
    d.mkdir(parents=True)
    state = world.w.dir / "state"
    (d / "ext").write_text("subjectAltName=DNS:x\n")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", d / "client-key.pem", "-out", d / "csr",
            "-subj", f"/CN={name}")
    openssl("x509", "-req", "-in", d / "csr", "-days", "1", "-CA",
            state / "ca-cert.pem", "-CAkey", state / "ca-key.pem", "-extfile", d / "ext",
            "-out", d / "client-cert.pem")
    return directory / "etc"


def heard_by_weftd(world, n, etc):
    """Does TLS let it in, so that weftd says what it thinks of it?"""
    p = n.run("curl", "-sS", "-k", "--cert", etc / "tls/client-cert.pem", "--key",
              etc / "tls/client-key.pem", f"{world.admin}/api/v1/me", check=False)
    return p.returncode == 0


def test_who_misses_it(world, tmp_path):
    a = world.serving("n0", "d0")
    late, off = world.node("n1"), world.node("n2")
    for n in (late, off):
        world.enroll(n)
    thief = types.SimpleNamespace(ns=off.ns, etc=forged(world, tmp_path / "thief", "n0"))
    door = f"nbds://{a.address}:10810"
    first = (a.etc / "tls/ca-cert.pem").read_text()
    world.ctl("ca", "rotate")
    renew(a)
    assert state(world) == ("spread", "n0", "", "n1n2")
    p = world.ctl("ca", "rotate", "--force", check=False)
    assert p.returncode and state(world)[0] == "spread"
    world.ctl("ca", "rotate", "--force", "--yes")
    assert state(world) == ("renew", "n0", "", "n0n1n2")
    renew(a)
    # A node that asks for a certificate and does not know the next CA gets a certificate that
    # it can use.
    p = late.run("curl", "-sS", f"{world.admin}/ca.pem", "-k")
    assert p.stdout.count("BEGIN CERTIFICATE") == 2 and p.stdout.startswith(first)
    before = issuer(late)
    (late.etc / "tls/ca-crl.pem").unlink(missing_ok=True)
    renew(late, "--now")
    # It comes back by itself, wherever it was.
    assert issuer(late) == issuer(a) != before and count(late) == 2
    # A node that enrolls meanwhile trusts both from the beginning.
    new = world.serving("n3", "d0")
    assert count(new) == 2 and issuer(new) == before
    everyone_connects([a, new])
    renew(new)
    assert issuer(new) == issuer(a)
    everyone_connects([a, new])

    # Nobody is shut out unnamed.
    p = world.ctl("ca", "retire", "--yes", check=False)
    assert p.returncode == REFUSED and "n2;" in p.stderr
    assert state(world)[3] == "n2"
    world.ctl("node", "revoke", "n2", "--yes")
    (thief.etc / "tls/ca-cert.pem").write_text((a.etc / "tls/ca-cert.pem").read_text())
    Stranger(thief, door).end()
    assert heard_by_weftd(world, off, thief.etc)
    world.ctl("ca", "retire", "--yes")
    assert not heard_by_weftd(world, off, thief.etc)
    p = world.enroll(late, check=False)
    assert p.returncode == UNTRUSTED and "weft-renew" in p.stderr
    for n in (a, late, new):
        renew(n)
    with pytest.raises(AssertionError):
        Stranger(thief, door)
    everyone_connects([a, new])

    p = renew(off, check=False)
    assert p.returncode == UNTRUSTED and "weft-enroll" in p.stderr
    p = off.run("weftctl", "status", check=False)
    assert p.returncode and "was away while the CA was changed" in p.stderr
    # Trusting both, with a certificate of the first alone, is no better.
    (off.etc / "tls/ca-cert.pem").write_text(
        first + (a.etc / "tls/ca-cert.pem").read_text())
    p = renew(off, check=False)
    assert p.returncode == UNTRUSTED and "weft-enroll" in p.stderr
    off.run("weft-leave", "--root", off.root, "--forgotten", "--yes")
    world.enroll(off, token=world.token("n2"))
    renew(off)
    assert issuer(off) == issuer(a)
    assert sorted(world.json("ca", "show")["nodes"], key=lambda n: n["node"]) == [
        {"node": f"n{i}", "trusts": True, "renewed": True, "waited_for": False}
        for i in range(4)]


# --- weftd alone ---------------------------------------------------------------


def said(node, trusts, expect=200):
    status, reply = node.call("PUT", f"/nodes/{node.name}/trust", {"trusts": trusts})
    assert status == expect, reply
    return reply


def follow(node):
    """Does the work of weft-renew, without a folder."""
    tag = "0" * 64
    for _ in range(5):
        r = said(node, tag)
        now = openssl("dgst", "-sha256", text=r["ca"]).split()[-1]
        if r["renew"]:
            status, reply = node.call("POST", f"/nodes/{node.name}/certificate",
                                      {"csr": node.csr()})
            assert status == 201
            node.take(reply)
        elif now == tag:
            return r
        tag = now
    raise AssertionError("it has no end")


def status_by(connection):
    connection.request("GET", "/api/v1/status")
    r = connection.getresponse()
    r.read()
    return r.status


def constraints(path):
    """The networks of a CA's name constraints, as OpenSSL writes them."""
    text = openssl("x509", "-noout", "-text", "-in", path)
    return set(re.findall(r"^ *IP:(\S+)", text, re.MULTILINE))


def test_usual_networks(tmp_path):
    """A CA that nobody said anything about is for private networks and those of weftd's
    host; for another one --ca-network, and then the next CA, and none that leaves a node
    outside."""
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", login=True) as w:
        pem = w.state / "ca-cert.pem"
        assert constraints(pem) >= {
            "10.0.0.0/255.0.0.0", "172.16.0.0/255.240.0.0", "192.168.0.0/255.255.0.0",
            "100.64.0.0/255.192.0.0", "169.254.0.0/255.255.0.0", "127.0.0.0/255.0.0.0",
            "FC00:0:0:0:0:0:0:0/FE00:0:0:0:0:0:0:0",
            "FE80:0:0:0:0:0:0:0/FFC0:0:0:0:0:0:0:0"}
        admin = first_login(w)
        for i, address in enumerate(("10.255.0.1", "172.31.0.1", "192.168.9.9",
                                     "100.127.0.1", "169.254.1.1", "fd12::1", "fe80::1")):
            node = enrolled(admin, f"h{i}", [address, "127.0.0.1"] if i == 0 else [address])
            openssl("verify", "-CAfile", pem, node.cert)
            if i > 0:
                admin.call("DELETE", f"/nodes/h{i}/certificate", expect=200)
            else:
                h0 = node
        for address in ("172.32.0.1", "100.128.0.1", "203.0.113.7", "2001:db8::1"):
            for status, said in [
                    Node(w, "p", [address]).enroll(
                        node_token(admin, "p", addresses=[address])["token"]),
                    admin.call("PUT", "/nodes/h0/addresses", {"addresses": [address]})]:
                assert status == 422
                for word in (address, "--ca-network", "weftctl ca rotate"):
                    assert word in said["detail"]
        w.stop()
        w.extra += ["--ca-network", "203.0.113.0/24"]
        w.start()
        assert "ca rotate makes the next one" in w.log.read_text()
        status, said = admin.call("POST", "/ca/rotate", {})
        assert (status, said["code"]) == (409, "address-outside")
        assert "h0 is at 10.255.0.1" in said["detail"]
        assert admin.get("/ca")["rotation"] == "none"
        w.stop()
        w.extra += ["--ca-network", "10.0.0.0/8"]
        w.start()
        admin.call("POST", "/ca/rotate", {"force": True}, expect=200)
        # Both have to sign it, as long as there are both.
        there = ["203.0.113.7"]
        token = node_token(admin, "p", addresses=there)["token"]
        assert Node(w, "p", there).enroll(token)[0] == 422
        follow(h0)
        admin.call("POST", "/ca/retire", expect=200)
        assert constraints(pem) == {
            "127.0.0.0/255.0.0.0", "0:0:0:0:0:0:0:1/FFFF:FFFF:FFFF:FFFF:FFFF:FFFF:FFFF:FFFF",
            "203.0.113.0/255.255.255.0", "10.0.0.0/255.0.0.0"}
        p = Node(w, "p", there)
        p.enroll(token, expect=201)
        openssl("verify", "-CAfile", pem, p.cert)
        openssl("verify", "-CAfile", pem, h0.cert)
        # The one after that is for the same, and not every address can be served.
        w.stop()
        del w.extra[-4:]
        w.start()
        admin.call("POST", "/ca/rotate", {"force": True}, expect=200)
        w.stop()
        assert "is in none of the networks" in w.refused(
            "--listen", "10.1.1.1:0", "--ca-network", "203.0.113.0/24")
        w.start()


def test_a_ca_of_before(tmp_path):
    """A CA without networks stays so, and the next one, too, until --ca-network."""
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", login=True) as w:
        w.stop()
        openssl("req", "-x509", "-new", "-key", w.state / "ca-key.pem", "-days", "9",
                "-subj", "/CN=Weft cluster CA", "-out", w.state / "ca-cert.pem",
                "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        w.start()
        admin = first_login(w)
        far = enrolled(admin, "far", ["203.0.113.7"])
        admin.call("POST", "/ca/rotate", {"force": True}, expect=200)
        follow(far)
        assert not admin.call("POST", "/ca/retire", expect=200)[1]["ca"]["bound"]
        w.stop()
        w.extra += ["--ca-network", "203.0.113.0/24"]
        w.start()
        admin.call("POST", "/ca/rotate", {"force": True}, expect=200)
        follow(far)
        assert admin.call("POST", "/ca/retire", expect=200)[1]["ca"]["bound"]


def test_weftd_dies_while_the_first_ca_is_taken_away(tmp_path):
    """Between the files, and between them and the database; and a CA with networks keeps
    them."""
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", "--ca-network", "10.0.0.0/8",
               login=True) as w:
        admin = first_login(w)
        h1, gone = enrolled(admin, "h1", ["10.1.1.1"]), enrolled(admin, "h2")
        old = w.state / "ca-cert.pem", (w.state / "ca-cert.pem").read_text()
        admin.call("POST", "/ca/rotate", {}, expect=200)
        admin.call("POST", "/ca/rotate", {"force": True}, expect=200)
        before = types.SimpleNamespace(cert=w.dir / "cert", key=w.dir / "key")
        shutil.copy(h1.cert, before.cert), shutil.copy(h1.key, before.key)
        follow(h1)
        admin.call("DELETE", "/nodes/h2/certificate", expect=200)
        saved = tmp_path / "saved"
        w.stop()
        shutil.copytree(w.state, saved)
        w.start()
        c = http.client.HTTPSConnection(*w.tls_address, timeout=30,
                                        context=trusting(w, before))
        assert status_by(c) == 200
        assert admin.call("POST", "/ca/retire", expect=200)[1]["rotation"] == "none"
        # An open connection stays open, but no longer counts as a node's; other clients don't
        # get that far.
        assert status_by(c) == 401
        c.close()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            https(w, "GET", "/api/v1/status", context=trusting(w, before))

        def before_the_database_knew():
            w.stop()
            for file in saved.iterdir():
                if not file.name.startswith("ca-"):
                    shutil.copy(file, w.state / file.name)
            w.start()
        (w.state / "ca-cert.pem").write_text(old[1])
        before_the_database_knew()
        assert (w.state / "ca-cert.pem").read_text() != old[1]
        ca = admin.get("/ca")
        assert (ca["rotation"], ca["next"]) == ("none", None) and ca["ca"]["bound"]
        assert h1.call("GET", "/status")[0] == 200
        follow(h1)
        assert [n["node"] for n in admin.get("/ca")["nodes"]] == ["h1"]
        text = openssl("x509", "-noout", "-text", text=(w.state / "ca-cert.pem").read_text())
        assert "Name Constraints: critical" in text and "IP:10.0.0.0/255.0.0.0" in text
        # Certificates revoked before stay on the list.
        crl = https(w, "GET", "/ca-crl.pem")[1]
        assert crl.count("BEGIN X509 CRL") == 1
        assert re.search("Serial Number: ", openssl("crl", "-noout", "-text", text=crl))
        # The next rotation may begin at once.
        before_the_database_knew()
        next = admin.call("POST", "/ca/rotate", {"force": True}, expect=200)[1]["next"]
        w.stop()
        w.start()
        assert next and admin.get("/ca")["next"] == next
        follow(h1)
        assert admin.call("POST", "/ca/retire", expect=200)[1]["ca"] == next


# Once, when a file says so: a directory is not written to disk.
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int
fsync (int fd)
{
  int (*real) (int) = (int (*) (int)) dlsym (RTLD_NEXT, "fsync");
  struct stat st;

  if (fstat (fd, &st) == 0 && S_ISDIR (st.st_mode) && unlink (getenv ("FAIL")) == 0) {
    errno = EIO;
    return -1;
  }
  return real (fd);
}
"""


def test_a_disk_fails_while_the_first_ca_is_taken_away(tmp_path):
    """The next one holds from when ca-key.pem has it, and weftd and the disk agree."""
    source, library, fail = (tmp_path / n for n in ("shim.c", "shim.so", "fail"))
    source.write_text(SHIM)
    run("cc", "-shared", "-fPIC", "-o", library, source, "-ldl")
    under = ["env", f"LD_PRELOAD={library}", f"FAIL={fail}"]
    w = Weftd(tmp_path, "--listen", "0.0.0.0:0", login=True)
    w.start(under=under)
    try:
        admin = first_login(w)
        copy, in_its_way = w.state / "ca-cert.pem", w.state / "ca-cert.pem.new"
        first = copy.read_text()
        next = admin.call("POST", "/ca/rotate", {}, expect=200)[1]["next"]
        # The copy for people cannot be written: that is all.
        in_its_way.mkdir()
        assert admin.call("POST", "/ca/retire", expect=200)[1]["ca"] == next
        w.stop()
        w.start(under=under)
        assert admin.get("/ca")["ca"] == next and copy.read_text() == first
        assert w.log.read_text().count("cannot write") == 2
        in_its_way.rmdir()
        w.stop()
        w.start(under=under)
        assert copy.read_text() == https(w, "GET", "/ca.pem")[1] != first
        # The disk's content is unknown now: weftd ends, and the next one begins with the files
        # that are there.
        next = admin.call("POST", "/ca/rotate", {}, expect=200)[1]["next"]
        fail.touch()
        with contextlib.suppress(ConnectionError):  # it may go without a word
            assert admin.call("POST", "/ca/retire")[0] == 503
        assert w.process.wait(30) == 1 and not fail.exists()
        assert "weftd ends" in w.log.read_text()
        fail.touch()
        p = run(*under, "weftd", "--state", w.state, "--listen", "127.0.0.1:0", check=False)
        assert p.returncode == 1 and f"cannot write {w.state}: Input/output" in p.stderr
        w.start()
        ca = admin.get("/ca")
        assert (ca["ca"], ca["rotation"], ca["next"]) == (next, "none", None)
    finally:
        w.end()


# --- A node's folder -----------------------------------------------------------

INSTALL = """
set -eu
. "$1"
use_root "$2"
mkdir -p "$etc"
date () { echo 20260101-000000; }
look ()
{
  [ ! -L "$etc/tls" ] || cat "$etc"/tls/client-key.pem "$etc"/tls/client-cert.pem \
    "$etc"/tls/ca-cert.pem >/dev/null || exit 9
}
rm () { command rm "$@"; look; }
mv () { command mv "$@"; look; }
ln () { command ln "$@"; look; }
for n in 1 2 3; do
  mkdir -m 750 "$etc/tls.new"
  for file in server-key server-cert ca-cert; do
    echo $n >"$etc/tls.new/$file.pem"
  done
  install_tls
  [ "$(cat "$etc/tls/client-cert.pem")" = $n ]
done
"""


def test_certificates_are_installed_within_a_second(tmp_path):
    """After each step the link leads to a whole folder."""
    run("sh", "-c", INSTALL, "sh", SOURCE / "scripts/weft-lib.sh", tmp_path)
    etc = tmp_path / "etc/weft"
    assert sorted(f.name for f in etc.iterdir()) == [
        "tls", (etc / "tls").resolve().name]
    modes = {f.name: f.stat().st_mode & 0o777 for f in (etc / "tls/").iterdir()}
    keys = {modes.pop(f"{end}-key.pem") for end in ("client", "server")}
    assert keys <= {0o600, 0o640} and set(modes.values()) == {0o644}


LISTS = """
. "$1"
use_root "$2"
work=$2/work
check_revoked "$2/shown" "$2/cert"
"""


def test_lists_that_a_node_refuses(tmp_path):
    """weft-renew verifies each list of what is revoked that is in a file."""
    ca, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    shutil.copy(ca.dir / "cert.pem", tmp_path / "cert")
    older, same, newer, foreign = *map(ca.revoked, (6, 7, 8)), other.revoked(9)
    tls = tmp_path / "etc/weft/tls"
    tls.mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tls / "ca-crl.pem").write_text(same)
    for shown, why in [(same, ""), (newer, ""), (same * 2, ""),
                       ("none", "no list"), (older, "older"), (same + older, "older"),
                       (foreign, "not signed"), (same + foreign, "not signed"),
                       (same * 9 + foreign, "not signed"),
                       (same + " " + older, "more than the lists"),
                       ("x\n" + same, "more than the lists")]:
        (tmp_path / "shown").write_text(shown)
        p = run("sh", "-euc", LISTS, "sh", SOURCE / "scripts/weft-lib.sh", tmp_path,
                check=False)
        assert (p.returncode == 0) == (why == "") and why in p.stderr, (shown, p)
