"""Each process of a node has a key and certificate of its own, and what a stolen key opens.

Topology: weftd and nodes that have enrolled, each in a network namespace of its own, with
      TLS.  n1 has two disks, n2 one; array a is of a disk of each.
Cause: a thief on n1's or n2's address has the key of one process, with its certificate,
      and all tokens that are on the way; weftd makes certificates of a shorter life.
Pass: each certificate opens what its process needs, at weftd, at members and at exports,
      as a client and as a server, and nothing else.
"""

import json
import sys

import pytest

from enrollworld import OK, World
from strangers import serial
from wefttest import eventually, run

PORT = 10809
NODE, DISK, OTHER, ARRAY, FOREIGN = ("tls", "processes/disk-d0/tls", "processes/disk-d1/tls",
                                     "processes/array-a/tls", "processes/array-b/tls")
# Connects with this folder to this URI, and prints the result.
CONNECT = """
import nbd, sys
uri, tls = sys.argv[1:]
h = nbd.NBD()
h.set_tls_certificates(tls)
h.set_tls_verify_peer(True)
try:
    h.connect_uri(uri)
    h.pread(512, 0)
    print("open")
except nbd.Error as e:
    print("refused", e)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("processes")) as w:
        w.n1, w.n2 = w.serving("n1", "d0", "d1"), w.serving("n2", "d0")
        w.ctl("array", "create", "a", "--layout", "raid-1", "--yes", *[
            x for n in (w.n1, w.n2) for x in ("--disk", f"{n.name}:{n.disk('d0')}")])
        for n in (w.n1, w.n2):
            for name in "ab":
                n.run("weft-renew", "--root", n.root, "--process", f"array-{name}")
        yield w


def call(n, folder, method, path, body=None):
    """By the certificate in that folder of the node: (status, answer)."""
    tls = n.etc / folder
    words = [] if body is None else ["-H", "Content-Type: application/json", "-d",
                                     json.dumps(body)]
    p = n.run("curl", "-s", "-w", "\n%{http_code}", "-X", method, "--cacert",
              f"{tls}/ca-cert.pem", "--cert", f"{tls}/client-cert.pem", "--key",
              f"{tls}/client-key.pem", *words, f"{n.world.admin}/api/v1{path}")
    answer, status = p.stdout.rsplit("\n", 1)
    return int(status), json.loads(answer) if answer else None


def connects(n, folder, uri):
    said = n.run(sys.executable, "-c", CONNECT, uri, str(n.etc / folder)).stdout
    return said.startswith("open")


def uuid(n, name):
    return n.settings(n.etc / f"disks/{name}.conf")["UUID"]


def session(w, folder):
    """Of array a, from n2: each member's tokens, by its address."""
    status, r = call(w.n2, folder, "POST", "/arrays/a/sessions", {
        "instance": "cafe", "node": "n2", "pid": 1, "mode": "ro"})
    assert status == 201, r
    return r["session"], {m["uri"]: m["tokens"]["data"] for m in r["map"]["members"]}


def test_the_certificates(world):
    for n, name, identity in [
            (world.n1, "disk-d0", "disk:" + uuid(world.n1, "d0")),
            (world.n1, "disk-d1", "disk:" + uuid(world.n1, "d1")),
            (world.n2, "array-a", "array:a")]:
        tls = n.etc / f"processes/{name}/tls"
        shown = run("openssl", "x509", "-noout", "-subject", "-ext", "subjectAltName",
                    "-in", tls / "server-cert.pem").stdout
        assert f"CN = {n.name}\n" in shown and f"URI:weft:{identity}" in shown
        run("openssl", "verify", "-CAfile", tls / "ca-cert.pem", tls / "server-cert.pem")
        assert (tls / "server-key.pem").stat().st_mode & 0o077 in (0, 0o040)
    # Asked for again: it is there.
    before = serial(world.n1, DISK)
    world.n1.run("weft-renew", "--root", world.n1.root, "--process", "disk-d0")
    assert serial(world.n1, DISK) == before
    for name in ("disk-none", "array-", "../tls", "disk-", "x"):
        assert world.n1.run("weft-renew", "--root", world.n1.root, "--process", name,
                            check=False).returncode != OK, name


@pytest.mark.parametrize("folder,opens", [
    (NODE, True), (ARRAY, True), (DISK, False), (FOREIGN, False)])
def test_the_token_of_a_session_at_members(world, folder, opens):
    """By that array's certificate, or the node's."""
    mine, tokens = session(world, ARRAY)
    assert len(tokens) == 2
    for uri, token in tokens.items():
        assert connects(world.n2, folder, f"{uri}/data/{token}") == opens, uri
        # It is bound to the node, whatever the process.
        assert not connects(world.n1, folder, f"{uri}/data/{token}")
    assert call(world.n2, ARRAY, "DELETE", f"/sessions/{mine}?instance=cafe")[0] == 200
    for at, name in ((DISK, "disk:" + uuid(world.n2, "d0")), (FOREIGN, "array:b")):
        if folder == at:
            assert "for a session of an array: a, and the client shows the certificate " \
                f"of {name}" in world.n1.log("d0")


def export(n, folder, *words, wait=True):
    """A process that other hosts reach, by this certificate; for weftd by the array's."""
    pid = n.dir / "export.pid"
    pid.unlink(missing_ok=True)
    n.popen("export", "nbdkit", "-f", "-P", str(pid), "-i", n.address, "-p", str(PORT),
            "--tls=require", "--tls-verify-peer", f"--tls-certificates={n.etc / folder}",
            "weft", "array=a", *words, f"admin={n.world.admin}", f"node={n.name}",
            f"tls={n.etc / ARRAY}", f"uri=nbds://{n.address}:{PORT}")
    if wait:
        eventually(pid.exists, 40, what=n.log("export")[-800:])


def test_an_export_of_the_array(world):
    export(world.n1, ARRAY)
    door = f"nbds://{world.n1.address}:{PORT}/a"
    for folder, opens in [(NODE, True), (ARRAY, True), (DISK, False), (FOREIGN, False)]:
        assert connects(world.n2, folder, door) == opens, folder
    said = world.n1.log("export")
    assert f"for the process disk:{uuid(world.n2, 'd0')} alone" in said
    assert "for the process array:b alone" in said
    world.n1.end("export")


def test_a_stolen_key_of_a_member(world):
    """The key of n1's disk d0: neither another member, nor an array, nor the node."""
    n = world.n1
    other = next(d for d in world.json("disk", "ls")["disks"] if d["uuid"] == uuid(n, "d1"))
    for method, path, body in [
            ("GET", "/status", None), ("GET", "/disks", None), ("GET", "/arrays/a", None),
            ("POST", "/arrays/a/sessions", {"instance": "cafe", "node": "n1", "pid": 1,
                                            "mode": "ro"}),
            ("PUT", "/nodes/n1/trust", {"trusts": "0" * 64}),
            ("POST", f"/disks/{other['uuid']}/key", {})]:
        assert call(n, DISK, method, path, body)[0] == 403, path
    csr = n.dir / "csr"
    n.run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
          "-nodes", "-keyout", n.dir / "stolen-key", "-subj", "/CN=n1", "-out", csr)
    for folder, status in [(DISK, 403), (ARRAY, 403), (NODE, 201)]:
        assert call(n, folder, "POST", "/nodes/n1/certificate",
                    {"csr": csr.read_text()})[0] == status
    # A process that says that it serves disk d1 is not believed, and serves nobody.
    n.end("d1")
    settings = n.settings(n.conf, n.etc / "disks/d1.conf")
    port = settings["PORT"]
    n.popen("thief", "nbdkit", "-f", "-i", n.address, "-p", port, "--tls=require",
            "--tls-verify-peer", f"--tls-certificates={n.etc / DISK}", "weft",
            f"disk={settings['DISK']}", f"admin={world.admin}", "node=n1",
            f"uri={settings['URI']}", f"tls={n.etc / DISK}")
    eventually(lambda: "for one process of the node" in n.log("thief"), 30,
               what=n.log("thief")[-800:])
    eventually(lambda: len(world.disks_of(n)) == 1, 30)
    n.end("thief")
    n.serve("d1")
    world.seen(n, 2)


def refused(n, *words):
    """The words of an array process on n that does not start, by its own certificate."""
    p = n.run("nbdkit", "-f", "-U", n.dir / "refused.sock", "weft", *words,
              f"admin={n.world.admin}", f"node={n.name}", f"tls={n.etc / ARRAY}",
              check=False, timeout=60)
    assert p.returncode == 1, p
    return p.stderr


def test_a_member_with_the_key_of_an_array(world):
    """A server is believed to be a member by a disk's certificate, or the node's."""
    n = world.n1
    n.end("d0")
    settings = n.settings(n.conf, n.etc / "disks/d0.conf")
    n.popen("thief", "nbdkit", "-f", "-i", n.address, "-p", settings["PORT"],
            "--tls=require", "--tls-verify-peer", f"--tls-certificates={n.etc / ARRAY}",
            "weft", f"disk={settings['DISK']}", f"admin={world.admin}", "node=n1",
            f"uri={settings['URI']}", f"tls={n.etc / DISK}")
    world.seen(n, 2)
    assert "its certificate is not of a disk's process" in refused(world.n2, "array=a")
    n.end("thief")
    n.serve("d0")
    world.seen(n, 2)


def test_a_service_with_the_key_of_a_disk(world):
    """A client of array a's service believes that array's certificate, or the node's."""
    world.ctl("array", "service", "a", "--on", "n1")
    for folder, believed in [(DISK, False), (FOREIGN, False), (ARRAY, True)]:
        export(world.n1, folder, "service=yes", wait=False)
        eventually(lambda: any(s["mode"] == "service" for s in
                               world.json("session", "ls")["sessions"]), 40)
        if believed:
            uri = world.n2.serve_array("a", "service")
            assert world.n2.run("nbdinfo", "--size", uri).stdout.strip().isdigit()
            world.n2.end("a")
        else:
            assert "its certificate is not of a process of this array" in \
                refused(world.n2, "service=a")
        world.n1.end("export")
    world.ctl("array", "service", "a", "--off", "--yes")


def test_a_process_is_renewed_with_its_node(tmp_path):
    """Also where weftd makes certificates of a shorter life than before."""
    with World(tmp_path, env={"WEFT_CERTIFICATE_SECONDS": "3000"}) as world:
        n = world.serving("n1", "d0")
        first = [serial(n), serial(n, DISK)]
        n.run("weft-renew", "--root", n.root)
        assert [serial(n), serial(n, DISK)] == first
        world.w.end("weftd")
        world.env = {"WEFT_CERTIFICATE_SECONDS": "1000"}
        world.start_weftd()
        n.run("weft-renew", "--root", n.root)
        assert [serial(n), serial(n, DISK)] == first
        n.run("weft-renew", "--root", n.root, "--process", "array-a")
        n.run("weft-renew", "--root", n.root)
        second = [serial(n), serial(n, DISK), serial(n, ARRAY)]
        assert not set(first) & set(second)
        n.run("weft-renew", "--root", n.root)
        assert [serial(n), serial(n, DISK), serial(n, ARRAY)] == second
