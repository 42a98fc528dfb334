"""Enrolling a host: one command on each side.

Topology: weftd in a network namespace of its own, with HTTPS on its address; each
node in another.  Cause: weft-enroll, with the right words and with wrong ones.
Pass: the right ones make a node whose disks weftd sees over TLS, the same again
changes nothing; the wrong ones say so by their exit status, and leave neither
certificate nor configuration nor a formatted disk.
"""

import http.server
import json
import os
import pathlib
import random
import ssl
import subprocess
import threading
import time

import pytest

from certificates import Authority
from enrollworld import (PORT, REFUSED, UNREACHABLE, UNTRUSTED, UNWANTED, USAGE, World,
                         fill, read, six_refused, world)
from wefttest import digest, eventually, run


def snapshot(directory):
    """Each file: its mode, time of change and content."""
    found = {}
    for path in sorted(pathlib.Path(directory).rglob("*")):
        s = path.lstat()
        found[str(path)] = (s.st_mode, s.st_mtime_ns,
                            path.read_bytes() if path.is_file() else None)
    return found


def probe(path):
    return json.loads(run("weftctl", "disk", "probe", path,
                          "--json").stdout)["disks"][0]


def nothing_happened(n):
    assert not n.conf.exists() and not (n.etc / "tls").exists()
    assert not list(n.etc.glob("tls*")) and not list(n.etc.glob("disks/*"))
    assert probe(n.disk("d0"))["kind"] == "blank"


def refused(n, status, *words, says="", **kw):
    """It ends with this status, which may be one of several, and says why."""
    p = n.world.enroll(n, *words, disks=["d0"], check=False, **kw)
    assert p.returncode in (status if isinstance(status, tuple) else (status,)), p
    assert says in p.stderr, p
    nothing_happened(n)


def test_on_a_terminal(world):
    """The token is asked for, and whether the disk may be formatted."""
    n, token = world.node("n1"), world.token()
    keyboard, terminal = os.openpty()
    os.write(keyboard, f"{token['token']}\nyes\n".encode())
    p = n.run("weft-enroll", "--root", n.root, "--admin", world.admin,
              "--ca-fingerprint", token["ca_fingerprint"], "--token-file", "-",
              "--node", "n1", "--disk", n.disk("d0"), stdin=terminal)
    os.close(keyboard)
    os.close(terminal)
    assert p.stderr.startswith("Token: ") and "[type yes]" in p.stderr
    assert probe(n.dir / "d0")["kind"] == "weft"


def test_a_node_and_its_disks(world):
    n = world.node("n1")
    p = world.enroll(n, disks=["d0", "d1"])
    assert f"this host is node n1 of the cluster at {world.admin}" in p.stdout
    n.serve()
    world.seen(n, 2)
    for disk in world.disks_of(n).values():
        assert disk["uri"].startswith(f"nbds://{n.address}:108")
    assert world.json("node", "show", "n1")["enrolled"] is True
    # Keys are for nobody else, and were never away.  Each process has its own.
    keys = [n.etc / f"{folder}tls/server-key.pem"
            for folder in ("", "processes/disk-d0/", "processes/disk-d1/")]
    assert all(key.stat().st_mode & 0o007 == 0 for key in keys)
    assert len({key.read_text() for key in keys}) == 3
    assert "PRIVATE" not in (n.etc / "tls/ca-cert.pem").read_text()
    for name in ("d0", "d1"):
        uuid = n.settings(n.etc / f"disks/{name}.conf")["UUID"]
        shown = run("openssl", "x509", "-noout", "-ext", "subjectAltName", "-in",
                    n.etc / f"processes/disk-{name}/tls/server-cert.pem").stdout
        assert f"URI:weft:disk:{uuid}" in shown and "DNS:n1," in shown

    # Run again: nothing changes, and no token is looked at.
    before = snapshot(n.root)
    p = n.run("weft-enroll", "--root", n.root, "--disk", n.disk("d0"))
    assert "is served already" in p.stdout and "nothing to do" in p.stdout
    world.enroll(n, disks=["d0", "d1"], token={
        "token": "no token", "ca_fingerprint": world.token()["ca_fingerprint"]})
    assert snapshot(n.root) == before

    # One more disk.
    n.run("weft-enroll", "--root", n.root, "--yes", "--disk", n.disk("d2"))
    n.serve("d2")
    world.seen(n, 3)


def test_an_array_over_three_nodes(world, tmp_path):
    nodes = [world.serving(f"n{i}", "d0") for i in range(3)]
    world.make_array(nodes)
    uri = nodes[0].serve_array("a")
    assert fill(nodes[0], uri, tmp_path) == read(nodes[0], uri, tmp_path)

    # Without a certificate of the cluster nobody talks to a disk or to weftd.
    member = f"{nodes[1].address}:10810"
    for words in [["nbdinfo", f"nbd://{member}"], ["nbdinfo", f"nbds://{member}"]]:
        assert nodes[0].run(*words, check=False).returncode != 0
    p = nodes[0].run("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}",
                     world.admin + "/api/v1/disks")
    assert p.stdout == "401"


def test_addresses_of_ipv6(tmp_path):
    """Of nodes, members and the array's service; and of weftd, if it does not say that
    its library has none."""
    refusal = six_refused(tmp_path)
    assert refusal is None or "was built without IPv6; give an IPv4 address" in refusal
    with World(tmp_path, six=True) as world:
        nodes = [world.serving(f"n{i}", "d0") for i in (1, 2, 3)]
        assert refusal or world.admin == "https://[fd77::1]:7380"
        for n in nodes:
            [disk] = world.disks_of(n).values()
            assert disk["uri"] == f"nbds://[{n.address}]:10810"
            assert world.json("node", "show", n.name)["addresses"] == [n.address]
        world.make_array(nodes)
        uri = nodes[0].serve_array("a")
        wanted = fill(nodes[0], uri, tmp_path)
        assert read(nodes[0], uri, tmp_path) == wanted
        for n in nodes:
            n.run("weft-renew", "--root", n.root, "--now")
        # A further disk, with the address that the certificate names; and restarted members.
        world.enroll(nodes[1], disks=["d0", "d1"])
        nodes[1].end("d0", 9)
        nodes[1].serve()
        world.seen(nodes[1], 2)
        assert {d["uri"] for d in world.disks_of(nodes[1]).values()} == {
            f"nbds://[{nodes[1].address}]:{p}" for p in (10810, 10811)}
        eventually(lambda: {m["state"] for m in world.json(
            "array", "show", "a")["members"]} == {"in-sync"}, 60, every=0.3)
        assert read(nodes[0], uri, tmp_path) == wanted


def test_tokens(world):
    """Wrong, used, and too old."""
    n, good = world.node("n1"), world.token()
    wrong = {**good, "token": "0" * len(good["token"])}
    refused(n, REFUSED, says="token", token=wrong)

    old = world.token("--ttl", "1")
    time.sleep(2.2)
    refused(n, REFUSED, says="token", token=old)

    world.enroll(n, disks=["d0"], token=good)
    other = world.node("n2")
    refused(other, REFUSED, says="token", token=good)

    # No token, and no weftd.
    p = n.run("weft-enroll", "--root", other.root, "--admin", world.admin,
              "--ca-fingerprint", good["ca_fingerprint"], check=False)
    assert p.returncode == USAGE and "token" in p.stderr
    refused(other, UNREACHABLE, "--admin", f"https://{world.w.address}:1",
            token=good)


def test_a_token_for_one_name(world):
    refused(world.node("n1"), REFUSED, token=world.token("n7"))


class Impostor(threading.Thread):
    """Answers in weftd's place, with a CA of its own, and keeps what it hears."""

    def __init__(self, address, tls, pem):
        super().__init__(daemon=True)
        heard = self.heard = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                heard.append((self.command, self.path, dict(self.headers)))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(pem.encode())

            def do_POST(self):
                length = int(self.headers.get("Content-Length", 0))
                heard.append((self.command, self.path,
                              self.rfile.read(length)))

            def log_message(self, *words):
                pass

        self.server = http.server.HTTPServer((address, 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls / "server-cert.pem", tls / "server-key.pem")
        self.server.socket = context.wrap_socket(self.server.socket,
                                                 server_side=True)
        self.start()

    def run(self):
        self.server.serve_forever()


def test_the_wrong_weftd(world, tmp_path):
    """Its fingerprint is not the one that was given: it hears nothing."""
    n, token = world.node("n1"), world.token()
    wrong = {**token, "ca_fingerprint": "sha256:" + "ab" * 32}
    refused(n, UNTRUSTED, says="fingerprint", token=wrong)

    # An impostor that wants the token: with a CA of its own, and with the cluster's CA
    # followed by its own in a form that TLS libraries accept.
    ca = Authority(tmp_path / "ca")
    tls = ca.host(tmp_path / "i", "w", "127.0.0.1")
    own = (ca.dir / "cert.pem").read_text()
    true = (world.w.dir / "state/ca-cert.pem").read_text()
    for pem in [own, true + own,
                true + own.replace("CERTIFICATE", "X509 CERTIFICATE"),
                true + run("openssl", "x509", "-trustout", "-in",
                           ca.dir / "cert.pem").stdout]:
        impostor = Impostor("127.0.0.1", tls, pem)
        p = run("weft-enroll", "--root", n.root, "--yes", "--admin",
                f"https://127.0.0.1:{impostor.server.server_port}",
                "--ca-fingerprint", token["ca_fingerprint"], "--token-file",
                n.dir / "token", "--node", "n1", check=False)
        assert p.returncode == (UNTRUSTED if pem == own else UNREACHABLE), p
        impostor.server.shutdown()
        assert [(m, path) for m, path, _ in impostor.heard] == [
            ("GET", "/ca.pem")]
        assert token["token"] not in str(impostor.heard)
        nothing_happened(n)

    # The token is as good as before.
    world.enroll(n, disks=["d0"], token=token)


def test_the_name_of_weftds_host(world):
    """Its certificate would be one of weftd's."""
    n, token = world.node("n1"), world.token()
    refused(n, REFUSED, "--node", "w", says="weftd's host", token=token)
    assert not [x for x in world.json("node", "ls")["nodes"]
                if x["name"] == "w"]
    world.enroll(n, disks=["d0"], token=token)


def test_a_name_that_is_taken(world):
    """A token for any node makes new ones; the old one goes on as it is."""
    n, other, token = world.node("n1"), world.node("n2"), world.token()
    world.enroll(n, disks=["d0"])
    refused(other, REFUSED, "--node", "n1", says="weftctl node token n1",
            token=token)
    n.serve()
    world.seen(n, 1)
    # The token is not spent.
    world.enroll(other, disks=["d0"], token=token)


def test_an_address_that_is_none(world):
    n, token = world.node("n1"), world.token()
    for address in ["127.0.0.1", "::1", "0.0.0.0", "224.0.0.1"]:
        refused(n, (USAGE, REFUSED), "--address", address, says=address,
                token=token)
    world.enroll(n, disks=["d0"], token=token)


def test_an_address_of_its_own_choice(world):
    """None; an administrator gives it, at first and later."""
    n, token = world.node("n1"), world.token()
    refused(n, REFUSED, "--address", "10.77.9.9",
            says="weftctl node token n1 --address 10.77.9.9", token=token)
    world.enroll(n, "--address", "10.77.9.9",
                 token=world.token("n1", "--address", "10.77.9.9,fd00::9"))
    assert world.json("node", "show", "n1")["addresses"] == ["10.77.9.9"]
    world.ctl("node", "address", "n1", n.address, "10.77.9.8")
    n.run("weft-renew", "--root", n.root, "--now")
    text = run("openssl", "x509", "-noout", "-ext", "subjectAltName", "-in",
               n.etc / "tls/server-cert.pem").stdout
    assert f"DNS:n1, IP Address:{n.address}, IP Address:10.77.9.8\n" in text
    p = world.ctl("node", "address", "n2", n.address, check=False)
    assert p.returncode == REFUSED and "n2" in p.stderr


def test_no_tls(world):
    n = world.node("n1")
    refused(n, USAGE, "--admin", f"http://{world.w.address}:7380", says="https")
    # And weftd has no ear for it.
    p = n.run("curl", "-s", f"http://{world.w.address}:7380/api/v1/me",
              check=False)
    assert p.returncode != 0


def test_disks_that_hold_something(world):
    n = world.node("n1")
    disk = n.disk("d0")
    run("mke2fs", "-q", "-F", "-t", "ext4", "-L", "precious\x1b[31m", disk)
    before = digest(disk)
    token = world.token()
    p = world.enroll(n, disks=["d0"], token=token, check=False)
    assert p.returncode == UNWANTED and "ext4" in p.stderr
    assert "precious" in p.stderr and "\x1b" not in p.stdout + p.stderr
    assert digest(disk) == before and not n.conf.exists()
    p = n.run("weft-enroll", "--root", n.root, "--admin", world.admin,
              "--ca-fingerprint", token["ca_fingerprint"], "--token-file",
              n.dir / "token", "--force", "--disk", disk, check=False)
    assert p.returncode == UNWANTED and "no terminal" in p.stderr
    assert digest(disk) == before and not n.conf.exists()
    for d in ["nothing-there", n.dir]:
        p = world.enroll(n, "--disk", n.dir / d, token=token, check=False)
        assert p.returncode == UNWANTED and not n.conf.exists()
    # After all that, the token is still there.
    p = world.enroll(n, "--force", disks=["d0"], token=token)
    assert "ext4" in p.stdout
    n.serve()
    world.seen(n, 1)


@pytest.mark.parametrize("words, said", [
    (["--port", "70000"], "--port"),
    (["--port", "x"], "not a number"),
    (["--node", "../etc"], "name"),
    (["--node", "A"], "name"),
    (["--address", "here"], "address"),
    (["--ca-fingerprint", "12:34"], "sha256:"),
    (["--frob"], "no such option"),
    (["--disk"], "value is missing"),
])
def test_bad_words(tmp_path, words, said):
    p = run("weft-enroll", "--root", tmp_path, "--admin", "https://127.0.0.1:1",
            "--ca-fingerprint", "sha256:" + "0" * 64, "--token", "t", *words,
            check=False)
    assert p.returncode == USAGE and said in p.stderr
    assert not (tmp_path / "etc/weft").exists()


def enroll_and_kill(world, n, seconds):
    """True: it was done before."""
    token = world.token(n.name)
    (n.dir / "token").write_text(token["token"])
    p = subprocess.Popen(
        ["ip", "netns", "exec", n.ns, "weft-enroll", "--root", n.root,
         "--admin", world.admin, "--ca-fingerprint", token["ca_fingerprint"],
         "--token-file", n.dir / "token", "--node", n.name, "--yes", "--disk",
         n.disk("d0"), "--disk", n.disk("d1")], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        return p.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, 9)
        p.wait()
        return False


@pytest.mark.long(30)
def test_killed_at_any_moment(world, seed):
    """Killed, run again with a new token, killed again; and at last not killed."""
    rng = random.Random(seed)
    for n in [world.node(f"n{i}") for i in range(4)]:
        for _ in range(8):
            if enroll_and_kill(world, n, rng.uniform(0.05, 0.8)):
                break
            tls = n.etc / "tls"
            if tls.exists():  # then it is whole
                run("openssl", "verify", "-CAfile", tls / "ca-cert.pem",
                    tls / "client-cert.pem")
        # It may have its certificate already, and not know: a token for its name.
        world.enroll(n, disks=["d0", "d1"], token=world.token(n.name))
        confs = sorted(f.name for f in n.etc.glob("disks/*"))
        assert confs == ["d0.conf", "d1.conf"]
        assert len({n.settings(n.etc / "disks" / c)["PORT"]
                    for c in confs}) == 2
        n.serve()
        world.seen(n, 2)


def test_an_address_that_comes_late(world):
    """After a power cut weftd may be there before its address is."""
    late = f"10.77.9.9:{PORT}"
    ready = world.w.dir / "late"
    world.w.popen("late", "weftd", "--state", world.w.dir / "late-state", "--listen",
                  f"127.0.0.2:{PORT}", "--listen", late, "--port-file", ready)
    eventually(ready.exists, 30, what=world.w.log("late")[-500:])
    assert "does not have the address 10.77.9.9" in world.w.log("late")

    def fetch(url):
        return world.w.run("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", url,
                           check=False).stdout

    assert fetch(f"http://127.0.0.2:{PORT}/ca.pem") == "200"
    assert fetch(f"https://{late}/ca.pem") == "000"
    world.network.ip("w", "addr", "add", "10.77.9.9/24", "dev", "eth0")
    assert fetch(f"https://{late}/ca.pem") == "200"
