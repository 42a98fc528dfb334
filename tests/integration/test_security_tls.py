"""TLS, the cluster's CA, and nodes that enroll.

Topology: one weftd that requires a login, on a loopback address by HTTP and on all addresses
by HTTPS; openssl and python's TLS play nodes.  Pass: only a caller with a node's certificate
counts as that node, and only until it is revoked; a refused call changes nothing.
"""

import base64
import contextlib
import copy
import hashlib
import http.client
import json
import random
import re
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import time
import warnings

import pytest

from apicaller import SPEC
from securenode import *
from weftdactors import Weftd, roll_back
from weftdlogin import *
from weftdlogin import admin
from wefttest import at_once, eventually, free_port


@pytest.fixture
def weftd(tmp_path):
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", "--host-name",
               "weft.example", login=True) as w:
        yield w


@contextlib.contextmanager
def tls_connection(weftd, name):
    with socket.create_connection(weftd.tls_address) as s, \
            trusting(weftd).wrap_socket(s, server_hostname=name) as t:
        yield t


# ---- TLS ----


def test_tls(weftd):
    """The CA is made once; the server has a certificate of this CA."""
    key = weftd.state / "ca-key.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes(), (weftd.state / "ca-cert.pem").read_bytes()
    status, me, _ = https(weftd, "GET", "/api/v1/me")
    assert status == 200 and me["via"] == "none" and me["role"] is None
    status, pem, _ = https(weftd, "GET", "/ca.pem")
    assert pem.encode() == before[1]
    assert pem.count("BEGIN CERTIFICATE") == 1
    text = openssl("x509", "-noout", "-text", text=pem)
    assert "CA:TRUE, pathlen:0" in text and "prime256v1" in text
    with tls_connection(weftd, "weft.example") as t:
        assert t.version() == "TLSv1.3"
        names = t.getpeercert()["subjectAltName"]
    assert ("DNS", "weft.example") in names
    assert ("IP Address", "127.0.0.1") in names
    for name, expect in [("weft.example", 200), ("WEFT.example:1", 200),
                         ("weft.example.", 403), ("x.weft.example", 403)]:
        assert https(weftd, "GET", "/api/v1/me",
                     headers={"Host": name})[0] == expect
    weftd.restart()
    assert (key.read_bytes(), (weftd.state / "ca-cert.pem").read_bytes()) \
        == before
    https(weftd, "GET", "/api/v1/me")


def test_old_tls_is_refused(weftd):
    warnings.simplefilter("ignore", DeprecationWarning)
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        context = trusting(weftd)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
        with pytest.raises((ssl.SSLError, OSError)):
            https(weftd, "GET", "/api/v1/me", context=context)
    context = trusting(weftd)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert https(weftd, "GET", "/api/v1/me", context=context)[0] == 200
    # That door does not speak HTTP either.
    with socket.create_connection(weftd.tls_address, timeout=15) as s:
        s.sendall(b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        try:
            assert b"user" not in s.recv(4096)
        except ConnectionError:
            pass
    assert weftd.is_up()


def test_cookie_of_https(weftd, admin):
    body = {"user": "root", "password": PASSWORD}
    host, port = weftd.tls_address
    status, reply, headers = https(weftd, "POST", "/api/v1/login", body)
    assert status == 200
    cookie = headers["Set-Cookie"]
    assert cookie.startswith("__Host-weft=") and "; Secure" in cookie
    assert "Domain" not in cookie
    cookie = cookie.split(";")[0]
    secret = reply["origin_secret"]
    for origin, expect in [(f"https://{host}:{port}", 200),
                           (f"https://{host}", 403)]:
        status, reply, _ = https(weftd, "POST", "/api/v1/logout", headers={
            "Cookie": cookie, "Origin": origin})
        assert status == expect
    for given, expect in [(cookie, 200),
                          # The name without the prefix is not the cookie here.
                          (cookie.removeprefix("__Host-"), 401)]:
        assert https(weftd, "GET", "/api/v1/status", headers={
            "Cookie": given, "X-Weft-Origin-Secret": secret})[0] == expect


def test_certificate_is_renewed(tmp_path, monkeypatch):
    """Before it expires, and while weftd goes on."""
    monkeypatch.setenv("WEFT_CERTIFICATE_SECONDS", "6")
    serials = set()
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", login=True) as w, \
            tls_connection(w, "127.0.0.1"):
        def renewed():
            with tls_connection(w, "127.0.0.1") as t:
                serials.add(t.getpeercert()["serialNumber"])
            return len(serials) >= 3
        eventually(renewed, 14, every=0.5)


@pytest.mark.parametrize("gone", ["ca-key.pem", "ca-cert.pem", "both", "mixed",
                                  "noise"])
def test_damaged_ca(weftd, tmp_path, gone):
    """A CA that hosts trust is never replaced by itself."""
    weftd.stop()
    key, cert = weftd.state / "ca-key.pem", weftd.state / "ca-cert.pem"
    before = cert.read_bytes()
    if gone == "mixed":
        key.write_text(openssl("genpkey", "-algorithm", "EC", "-pkeyopt",
                               "ec_paramgen_curve:P-256"))
    elif gone == "noise":
        cert.write_bytes(before[:100])
    elif gone == "both":
        key.unlink(), cert.unlink()
    else:
        (weftd.state / gone).unlink()
    if gone in ("both", "ca-cert.pem"):  # as when weftd died between the two
        weftd.start()
        https(weftd, "GET", "/api/v1/me")
        return
    assert "ca-key.pem" in weftd.refused()
    weftd.process = None


# ---- Enrolling ----


def subject(text):
    """OpenSSL before 3.2 prints it with spaces."""
    return re.search(r"^ *Subject: (.*)$", text, re.MULTILINE).group(1).replace(
        " = ", "=")


def test_enroll(weftd, admin):
    token = node_token(admin, "h1", addresses=["10.1.2.3", "FD00:DB8::7"])
    assert sorted(token) == ["addresses", "ca_fingerprint", "expires_at", "node",
                             "token"]
    assert token["addresses"] == ["10.1.2.3", "fd00:db8::7"]
    [listed] = admin.get("/node-tokens")["node_tokens"]
    assert listed["addresses"] == token["addresses"]
    pem = Browser(weftd) and https(weftd, "GET", "/ca.pem")[1]
    assert token["ca_fingerprint"] == "sha256:" + hashlib.sha256(
        ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    node = Node(weftd, "h1", ["10.1.2.3", "fd00:db8::7"])
    status, reply = node.enroll(token["token"], expect=201)
    assert reply["node"] == "h1" and reply["ca"] == pem
    text = openssl("x509", "-noout", "-text", text=reply["certificate"])
    assert subject(text) == "CN=h1" and "CA:FALSE" in text
    assert "DNS:h1, IP Address:10.1.2.3, IP Address:FD00:DB8:0:0:0:0:0:7" \
        in text
    assert "TLS Web Server Authentication, TLS Web Client Authentication" \
        in text
    openssl("verify", "-CAfile", weftd.state / "ca-cert.pem", node.cert)
    status, me = node.call("GET", "/me")
    assert status == 200 and (me["user"], me["role"], me["via"]) == \
        ("h1", "node", "certificate")
    # It is a node, and nothing more.
    assert node.call("GET", "/status")[0] == 200
    status, [known] = node.call("GET", "/nodes")[0], admin.get(
        "/nodes")["nodes"]
    assert status == 200 and known["name"] == "h1" and known["enrolled"]
    for change in [("POST", "/arrays"), ("POST", "/users"),
                   ("DELETE", "/nodes/h1"), ("POST", "/node-tokens"),
                   ("GET", "/users"), ("GET", "/audit"),
                   ("DELETE", "/nodes/h1/certificate")]:
        assert node.call(*change)[0] == 403, change
    weftd.restart(kill=True)
    assert node.call("GET", "/me")[1]["role"] == "node"


def test_tokens_are_good_once(weftd, admin):
    node, other = Node(weftd, "h1"), Node(weftd, "h2")
    token = node_token(admin, "h1")["token"]

    def refused(n, t, code, **more):
        status, reply = n.enroll(t, **more)
        assert (status, reply["code"]) == (403, code)
    for wrong in ("", "x", token[:-1], "0" * 64, token + " "):
        assert node.enroll(wrong)[0] in (403, 422)
    refused(other, token, "token-wrong")
    node.enroll(token, expect=201)
    refused(node, token, "token-used")
    weftd.restart(kill=True)
    refused(node, token, "token-used")
    short = node_token(admin, ttl_s=1)["token"]
    time.sleep(1.1)
    refused(other, short, "token-expired")
    assert other.enroll(node_token(admin)["token"])[0] == 201  # for any node
    assert admin.status("POST", "/node-tokens", {"ttl_s": 86401}) == 422
    assert admin.status("POST", "/node-tokens", {"node": "A"}) == 422
    # A bad request does not spend it.
    token = node_token(admin, "h3")["token"]
    third = Node(weftd, "h3")
    assert third.enroll(token, "nonsense")[0] == 422
    assert third.enroll(token)[0] == 201


def test_a_token_without_a_name_is_for_new_nodes(weftd, admin):
    """Its holder can't choose the name of a node that works, was shut out, or is in a list."""
    node = enrolled(admin, "h1")
    alone(admin, node)  # its array's list has h2, too
    for name in ("h1", "h2"):
        status, reply = Node(weftd, name).enroll(node_token(admin)["token"])
        assert (status, reply["code"]) == (409, "enrolled"), name
    admin.call("DELETE", "/nodes/h1/certificate", expect=200)
    token = node_token(admin)["token"]
    assert node.enroll(token)[1]["code"] == "enrolled"
    assert Node(weftd, "h3").enroll(token)[0] == 201  # it is not spent
    for name in ("h1", "h2"):
        Node(weftd, name).enroll(node_token(admin, name)["token"], expect=201)
    local = Node(weftd, "localhost").enroll(node_token(admin, "localhost")["token"])
    assert local[0] == 422 and local[1]["field"] == "node"


@pytest.mark.parametrize("end", ["enroll", "revoke", "remove"])
def test_a_token_ends_with_its_node(weftd, admin, end):
    """A token that was made for a node before it is shut out, and not used, opens nothing; a
    new one does."""
    first, earlier, other = (node_token(admin, n)["token"] for n in ("h1", "h1", "h2"))
    h1 = Node(weftd, "h1")
    h1.enroll(first, expect=201)
    if end == "enroll":
        assert {t["node"] for t in admin.get("/node-tokens")["node_tokens"]} == {"h2"}
    else:
        earlier = node_token(admin, "h1")["token"]
        path = "/nodes/h1" + ("/certificate" if end == "revoke" else "")
        admin.call("DELETE", path, expect=200)
    for kill in (True, False):
        status, said = Node(weftd, "h1").enroll(earlier)
        assert (status, said["code"]) == (403, "token-wrong")
        weftd.restart(kill=kill)
    Node(weftd, "h2").enroll(other, expect=201)
    admin.login("root")
    h1.enroll(node_token(admin, "h1")["token"], expect=201)


def test_one_token_many_hosts(weftd, admin):
    token = node_token(admin)["token"]
    nodes = [Node(weftd, f"h{i}") for i in range(6)]
    said = at_once(lambda n: n[0].enroll(token, n[1])[0],
                   *[(n, n.csr()) for n in nodes])
    assert sorted(said) == [201] + [403] * 5


def test_bad_requests_for_certificates(weftd, admin, seed):
    token = node_token(admin, "h1")["token"]
    node = Node(weftd, "h1")
    good = node.csr()
    rsa1024 = ("-newkey", "rsa:1024")
    rng = random.Random(seed)
    for csr in ["", "x", good[:200], good.replace("REQUEST", "PUBLIC"),
                node.csr("DNS:h2"), node.csr("DNS:h1,DNS:weft.example"),
                node.csr("DNS:*"), node.csr("email:a@b"), node.csr("URI:a:b"),
                node.csr(key=rsa1024), "x" * 20000]:
        status, reply = node.enroll(token, csr)
        assert status == 422 and reply["field"] == "csr", (csr, reply)
    # Its signature is looked at.
    lines = good.splitlines()

    def der(text):
        """Not all bits of its last letter count."""
        return base64.b64decode("".join(text[1:-1]))

    for _ in range(40):
        changed = lines[:]
        i = rng.randrange(1, len(lines) - 1)
        # In place of padding it would come after the request.
        j = rng.randrange(len(lines[i].rstrip("=")))
        changed[i] = changed[i][:j] + rng.choice("ABCDxyz0189+/") + \
            changed[i][j + 1:]
        if der(changed) != der(lines):
            status, reply = node.enroll(token, "\n".join(changed) + "\n")
            assert status == 422, changed
    # Other requested properties are not granted: no CA, no other name.
    csr = openssl("req", "-new", "-newkey", "ec", "-pkeyopt",
                  "ec_paramgen_curve:P-384", "-nodes", "-keyout",
                  node.dir / "new.pem", "-subj", "/O=x/CN=admin",
                  "-addext", "basicConstraints=critical,CA:TRUE",
                  "-addext", "keyUsage=keyCertSign")
    node.enroll(token, csr, expect=201)
    text = openssl("x509", "-noout", "-text", "-in", node.cert)
    assert "CA:FALSE" in text and "CA:TRUE" not in text
    assert "Certificate Sign" not in text and subject(text) == "CN=h1"
    assert node.call("GET", "/me")[1]["user"] == "h1"


def test_addresses(weftd, admin):
    enrolled(admin, "h1", ["10.1.1.1", "10.1.1.2"])
    thief = Node(weftd, "h2", ["10.1.1.9", "10.1.1.2"])
    token = node_token(admin, addresses=["10.1.1.1", "10.1.1.2", "10.1.1.9"])["token"]
    status, reply = thief.enroll(token)
    assert (status, reply["code"]) == (409, "address-in-use")
    assert "h1" in reply["detail"]
    # The same node again, on a host that was set up again: the old certificate is revoked.
    again = Node(weftd, "h1", ["10.1.1.2"])
    old = weftd.dir / "old.pem", weftd.dir / "oldkey.pem"
    again.cert.rename(old[0]), again.key.rename(old[1])
    # By a token for that node alone: others are for new ones.
    status, reply = again.enroll(token)
    assert (status, reply["code"]) == (409, "enrolled")
    assert "weftctl node token h1" in reply["detail"]
    new = again.cert, again.key
    again.cert, again.key = old
    assert again.call("GET", "/status")[0] == 200
    again.cert, again.key = new
    again.enroll(node_token(admin, "h1", addresses=["10.1.1.2"])["token"],
                 expect=201)
    assert again.call("GET", "/me")[0] == 200
    again.cert, again.key = old
    assert again.call("GET", "/status")[0] == 401
    thief.addresses = ["10.1.1.1"]
    thief.enroll(token, expect=201)  # which is as good as before


def addresses_of(node):
    return re.findall(r"IP Address:([0-9A-Fa-f.:]+)",
                      text_of(node.cert.read_text()))


def renewed(node, csr=None):
    status, reply = node.call("POST", f"/nodes/{node.name}/certificate",
                              {"csr": csr or node.csr()})
    assert status == 201, reply
    node.take(reply)
    return addresses_of(node)


def test_addresses_are_an_administrators(weftd, admin):
    """None of a node's own choice, neither at first nor later."""
    token = node_token(admin, "h1")["token"]
    for wish in (["8.8.8.8"], ["127.0.0.1", "10.2.2.2"]):
        status, reply = Node(weftd, "h1", wish).enroll(token)
        assert (status, reply["code"]) == (403, "address-not-given")
        assert f"weftctl node token h1 --address {wish[-1]}" in reply["detail"]
    # A token that names some is for none but these, not even the caller's own.
    named = node_token(admin, "h2", addresses=["10.2.2.2"])["token"]
    status, reply = Node(weftd, "h2", ["127.0.0.1"]).enroll(named)
    assert (status, reply["code"]) == (403, "address-not-given")
    h2 = Node(weftd, "h2", ["10.2.2.2"])
    h2.enroll(named, expect=201)
    h1 = Node(weftd, "h1", ["127.0.0.1"])
    h1.enroll(token, expect=201)

    # Renewed, it is for the same, whatever it asks for; again after a restart.
    for wish in (["8.8.8.8"], ["10.2.2.3"], []):
        h1.addresses = wish
        assert renewed(h1) == ["127.0.0.1"]
        weftd.restart(kill=True)
    path = "/nodes/h1/addresses"
    assert h1.call("PUT", path, {"addresses": ["10.2.2.9"]})[0] == 403
    assert admin.status("PUT", "/nodes/h9/addresses",
                        {"addresses": ["10.2.2.9"]}) == 404
    assert admin.call("PUT", path, {"addresses": ["10.2.2.2"]})[1]["code"] == \
        "address-in-use"
    for bad in ([], ["x"], ["10.2.2.9", "10.2.2.9"], ["0.0.0.0"], [1],
                [f"10.3.3.{i}" for i in range(9)], "10.2.2.9"):
        assert admin.status("PUT", path, {"addresses": bad}) == 422
    assert renewed(h1) == ["127.0.0.1"]
    admin.call("PUT", path, {"addresses": ["127.0.0.1", "::1"]}, expect=200)
    admin.call("PUT", path, {"addresses": ["10.2.2.9", "FD00:DB8::1"]}, expect=200)
    weftd.restart(kill=True)
    [known] = [n for n in admin.get("/nodes")["nodes"] if n["name"] == "h1"]
    assert known["addresses"] == ["10.2.2.9", "fd00:db8::1"]
    assert renewed(h1) == ["10.2.2.9", "FD00:DB8:0:0:0:0:0:1"]
    # A node on another host than weftd does not get weftd's address by that.
    for wish in ("127.0.0.1", "::1", "127.9.9.9"):
        status, reply = admin.call("PUT", "/nodes/h2/addresses",
                                   {"addresses": ["10.2.2.2", wish]})
        assert (status, reply["code"]) == (409, "address-in-use")
        assert f"{wish} is weftd's" in reply["detail"]
    # A released address is free, and a shut-out node has none.
    enrolled(admin, "h3", ["127.0.0.1"])
    admin.call("DELETE", "/nodes/h2/certificate", expect=200)
    enrolled(admin, "h4", ["10.2.2.2"])


def test_networks_of_the_ca(tmp_path):
    """Its name constraints bind even a holder of its key, with OpenSSL and GnuTLS."""
    networks = ["--ca-network", "10.1.2.3/8", "--ca-network", "fd00::/8"]
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", *networks, login=True) as w:
        text = openssl("x509", "-noout", "-text", "-in", w.state / "ca-cert.pem")
        assert "Name Constraints: critical" in text
        assert "IP:10.0.0.0/255.0.0.0" in text and "IP:FD00:0:0:0" in text
        admin = first_login(w)
        assert https(w, "GET", "/ca.pem")[0] == 200  # its own certificate is good
        good = enrolled(admin, "h1", ["10.9.9.9", "fd00::1", "127.0.0.1"])
        openssl("verify", "-CAfile", w.state / "ca-cert.pem", good.cert)
        assert good.call("GET", "/status")[0] == 200
        for address in ("8.8.8.8", "2001:db8::1"):
            token = node_token(admin, "h2", addresses=[address])["token"]
            status, reply = Node(w, "h2", [address]).enroll(token)
            assert status == 422 and "--ca-network" in reply["detail"]
            assert admin.status("PUT", "/nodes/h1/addresses",
                                {"addresses": [address]}) == 422
        # By the key itself.
        served = []
        for name, address in [("good", "10.9.9.9"), ("bad", "8.8.8.8")]:
            d = tmp_path / name
            d.mkdir()
            (d / "ext").write_text(f"subjectAltName=IP:127.0.0.1,IP:{address}\n")
            openssl("req", "-new", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    d / "client-key.pem", "-out", d / "csr", "-subj", "/CN=x")
            openssl("x509", "-req", "-in", d / "csr", "-days", "1", "-CA",
                    w.state / "ca-cert.pem", "-CAkey", w.state / "ca-key.pem",
                    "-extfile", d / "ext", "-out", d / "client-cert.pem")
            for use in ("cert", "key"):
                (d / f"server-{use}.pem").symlink_to(f"client-{use}.pem")
            (d / "ca-cert.pem").symlink_to(w.state / "ca-cert.pem")
            p = subprocess.run(["openssl", "verify", "-CAfile", d / "ca-cert.pem",
                                d / "client-cert.pem"], capture_output=True)
            served.append(p.returncode == 0)
        assert served == [True, False]
        good, bad = tmp_path / "good", tmp_path / "bad"
        for server, client, fine in [(good, good, True), (good, bad, False),
                                     (bad, good, False)]:
            port = free_port()
            p = subprocess.run(
                ["/usr/bin/nbdkit", "-i", "127.0.0.1", "-p", str(port), "--tls=require",
                 "--tls-verify-peer", f"--tls-certificates={server}", "null", "1M",
                 "--run", f"nbdinfo --size nbds://127.0.0.1:{port}/"
                 f"?tls-certificates={client}"], capture_output=True, text=True)
            assert (p.stdout == "1048576\n") == fine, (server, client, p)
    # It stays as it was made; and weftd does not listen where nobody would believe it.
    w = Weftd(tmp_path, "--listen", "0.0.0.0:0", login=True)
    with w:
        assert https(w, "GET", "/ca.pem")[0] == 200
    for bad in ("10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/", "fd00::/129"):
        p = subprocess.run(["weftd", "--state", tmp_path / "x", "--ca-network", bad],
                           capture_output=True, text=True)
        assert p.returncode == 1 and "--ca-network" in p.stderr


@pytest.mark.parametrize("address", [
    "0.0.0.0", "::", "255.255.255.255", "224.0.0.1", "239.1.2.3", "ff02::1",
    "::ffff:10.1.1.1"])
def test_addresses_of_no_host(weftd, admin, address):
    token = node_token(admin)["token"]
    status, reply = Node(weftd, "h1", [address]).enroll(token)
    assert (status, reply["field"]) == (422, "csr"), reply
    # To a host that calls by loopback, loopback is given.
    Node(weftd, "h2", ["127.0.0.9", "::1"]).enroll(token, expect=201)


def test_renewal(weftd, admin, monkeypatch):
    node, other = enrolled(admin, "h1", ["10.1.1.1"]), enrolled(admin, "h2")
    path = "/nodes/h1/certificate"
    assert other.call("POST", path, {"csr": node.csr()})[0] == 403
    old = node.cert.read_bytes(), node.key.read_bytes()
    for _ in range(4):
        status, reply = node.call("POST", path, {"csr": node.csr()})
        assert status == 201, reply
        node.take(reply)
        assert node.call("GET", "/status")[0] == 200
    # The first is as good as the last, until it expires.
    node.cert.write_bytes(old[0]), node.key.write_bytes(old[1])
    assert node.call("GET", "/status")[0] == 200
    said = [a["status"] for a in admin.get("/audit")["audit"]
            if a["action"] == "POST /nodes/{name}/certificate"]
    assert said == [201] * 4 + [403]
    assert admin.status("POST", "/nodes/h9/certificate",
                        {"csr": node.csr()}) == 404
    expires = [n["certificate_expires"] for n in admin.get("/nodes")["nodes"]]
    assert all(re.match(r"20\d\d-", e) for e in expires)


def test_certificates_of_one_node(weftd, admin):
    """So many are valid at a time, and no further one is given."""
    node = enrolled(admin, "h1")
    csr = node.csr()
    said = [node.call("POST", "/nodes/h1/certificate", {"csr": csr})
            for _ in range(32)]
    assert [status for status, _ in said] == [201] * 31 + [409]
    assert said[-1][1]["code"] == "too-many"


def text_of(pem):
    return openssl("x509", "-noout", "-text", text=pem)


def test_how_long_certificates_last(tmp_path):
    for days in (None, 1, 30):
        words = ["--certificate-days", str(days)] if days else []
        (tmp_path / str(days)).mkdir()
        with Weftd(tmp_path / str(days), "--listen", "0.0.0.0:0", *words,
                   login=True) as w:
            node = enrolled(first_login(w), "h1")
            expires = ssl.cert_time_to_seconds(re.search(
                r"Not After : (.*)", text_of(node.cert.read_text())).group(1))
            assert abs(expires - time.time() - (days or 7) * 86400) < 120
    for bad in ("0", "366", "-1", "x", "7d", ""):
        p = subprocess.run(["weftd", "--state", tmp_path / "x",
                            "--certificate-days", bad], capture_output=True,
                           text=True)
        assert p.returncode == 1 and "--certificate-days" in p.stderr


def test_expired_certificate(weftd, admin, monkeypatch):
    """It is good for the next one, and for nothing else; revoked, for nothing."""
    weftd.stop()
    monkeypatch.setenv("WEFT_CERTIFICATE_SECONDS", "6")
    weftd.start()
    node = enrolled(admin, "h1")
    assert node.call("GET", "/status")[0] == 200
    other, gone = enrolled(admin, "h2"), enrolled(admin, "h3")
    time.sleep(6.5)
    for method, path in [("GET", "/status"), ("GET", "/arrays"),
                         ("POST", "/arrays/a/sessions")]:
        status, reply = node.call(method, path)
        assert status == 401 and "weft-renew" in reply["detail"]
    admin.call("DELETE", "/nodes/h3/certificate", expect=200)
    path = "/nodes/{}/certificate"
    assert gone.call("POST", path.format("h3"), {"csr": gone.csr()})[0] == 401
    # Not for another node, nor by another's key.
    assert other.call("POST", path.format("h1"), {"csr": other.csr()})[0] == 401
    assert node.call("POST", path.format("h1"), {"csr": node.csr()},
                     key=False)[0] == 401
    for _ in range(2):  # as when the first answer was lost
        status, reply = node.call("POST", path.format("h1"), {"csr": node.csr()})
        assert status == 201, reply
    old = copy.copy(node)
    old.key, old.cert = (shutil.copy(file, node.dir / f"old-{file.name}")
                         for file in (node.key, node.cert))
    node.take(reply)
    assert node.call("GET", "/status")[0] == 200
    # weftd has forgotten the first one after this, and still says why it refuses it.
    assert node.call("POST", path.format("h1"), {"csr": node.csr()})[0] == 201
    status, reply = old.call("GET", "/status")
    assert status == 401 and "weft-renew" in reply["detail"]


def test_certificate_expires_while_a_request_waits(weftd, admin, monkeypatch):
    """The request was valid when it came, so it is answered.  The next one is refused with the
    reason."""
    weftd.stop()
    monkeypatch.setenv("WEFT_CERTIFICATE_SECONDS", "6")
    weftd.start()
    m = SecureMember(enrolled(admin, "h1"), 1)
    status = 200
    while status == 200:
        status, reply = m.beat(wait_ms=9000)
    assert status == 401 and "has expired" in reply["detail"]


def revoked_list(weftd):
    """weftd's published list: the serial numbers, and the list's name."""
    status, pem, headers = https(weftd, "GET", "/ca-crl.pem")
    assert status == 200
    p = subprocess.run(["openssl", "crl", "-noout", "-text", "-verify", "-CAfile",
                        weftd.state / "ca-cert.pem"], input=pem, text=True,
                       capture_output=True, check=True)
    assert "verify OK" in p.stderr
    return (set(re.findall(r"Serial Number: ([0-9A-F]+)", p.stdout)),
            headers["Weft-Revoked"])


def serial_of(node):
    return openssl("x509", "-noout", "-serial", "-in",
                   node.cert).strip().removeprefix("serial=")


def test_list_of_what_is_revoked(weftd, admin):
    h1, h2 = enrolled(admin, "h1"), enrolled(admin, "h2")
    none, empty = revoked_list(weftd)
    assert none == set()
    first = serial_of(h1)
    status, reply = h1.call("POST", "/nodes/h1/certificate", {"csr": h1.csr()})
    h1.take(reply)
    assert revoked_list(weftd) == (set(), empty)  # both are good
    admin.call("DELETE", "/nodes/h1/certificate", expect=200)
    both, name = revoked_list(weftd)
    assert both == {first, serial_of(h1)} and name != empty
    # Every answer names it.
    _, _, headers = https(weftd, "GET", "/api/v1/status", node=h2)
    assert headers["Weft-Revoked"] == name
    weftd.restart(kill=True)
    assert revoked_list(weftd) == (both, name)
    # A host that was set up again: its former certificate is no longer valid.
    again = serial_of(h2)
    h2.enroll(node_token(admin, "h2")["token"], expect=201)
    assert revoked_list(weftd)[0] == both | {again}
    assert revoked_list(weftd)[1] not in (name, empty)


def numbered_list(weftd):
    """weftd's published list: the text, and its number, which is in its name, too."""
    _, pem, headers = https(weftd, "GET", "/ca-crl.pem")
    number = int(openssl("crl", "-noout", "-crlnumber", text=pem).split("=0x")[1], 16)
    assert headers["Weft-Revoked"].split("-")[0] == str(number)
    return pem, number


def foreign_list(weftd, number):
    """As weftd's, with a higher number, but signed by another key."""
    d = weftd.dir / "foreign"
    d.mkdir()
    (d / "index").touch()
    (d / "number").write_text(f"{number:016x}\n")
    (d / "conf").write_text(
        "[ca]\ndefault_ca=x\n[x]\n"
        f"database={d}/index\ncrlnumber={d}/number\ndefault_md=sha256\n"
        "default_crl_days=9\ncrl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid\n")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", d / "key", "-out", d / "cert", "-subj",
            "/CN=Weft cluster CA")
    return openssl("ca", "-gencrl", "-config", d / "conf", "-keyfile", d / "key",
                   "-cert", d / "cert")


def test_a_copied_database(weftd, admin):
    """Logins to a copied database are refused until an administrator has looked at it: a user
    removed after the copy was made returns neither by login nor by token."""
    bob = add_user(admin, "bob", "admin")
    token = bob.call("POST", "/tokens", {"name": "bobs", "role": "admin"},
                     expect=201)[1]["token"]
    good = enrolled(admin, "good")
    weftd.stop()
    shutil.copytree(weftd.state, weftd.dir / "old")
    weftd.start()
    admin = Browser(weftd).login("root")
    admin.call("DELETE", "/users/bob", expect=200)
    weftd.stop()
    shutil.rmtree(weftd.state)
    shutil.copytree(weftd.dir / "old", weftd.state)
    weftd.start()
    for _ in range(2):
        assert good.call("GET", "/status")[0] == 200
        assert Browser(weftd, token).status("GET", "/status") == 401
        for caller in (bob, admin):
            assert caller.status("GET", "/status") == 401
        for user in ("root", "bob"):
            status, reply = Browser(weftd).call(
                "POST", "/login", {"user": user, "password": PASSWORD})
            assert status == 401 and reply["code"] == "unconfirmed"
        weftd.restart(kill=True)
    admin = Browser(weftd)
    admin.call("POST", "/setup", {"token": setup_token(weftd), "user": "root",
                                  "password": PASSWORD}, expect=201)
    eventually(lambda: "copied" in admin.get("/status")["verdict"])
    admin.call("DELETE", "/users/bob", expect=200)
    admin.call("POST", "/revocations/confirm", expect=200)
    weftd.restart()
    admin = Browser(weftd).login("root")
    assert "copied" not in admin.get("/status")["verdict"]
    assert Browser(weftd, token).status("GET", "/status") == 401


def test_an_old_database_is_put_back(weftd, admin):
    """Nothing that was revoked since comes back, once anybody has shown the newest list."""
    evil, good, renewed = (enrolled(admin, n) for n in ("evil", "good", "renewed"))
    bob = add_user(admin, "bob", "admin")
    token = bob.call("POST", "/tokens", {"name": "bobs", "role": "admin"},
                     expect=201)[1]["token"]
    unused = node_token(admin, "new")["token"]
    cookie = Browser(weftd)
    cookie.login("root")
    weftd.stop()
    shutil.copytree(weftd.state, weftd.dir / "old")
    weftd.start()
    admin = Browser(weftd)
    admin.login("root")
    # Every kind of revocation makes a newer list.
    numbers = [numbered_list(weftd)[1]]

    def counts(*call):
        admin.call(*call, expect=200)
        numbers.append(numbered_list(weftd)[1])

    add_user(admin, "ann", "admin")
    counts("DELETE", "/tokens/bobs")
    older = numbered_list(weftd)[0]
    counts("PATCH", "/users/ann", {"role": "viewer"})
    counts("PATCH", "/users/ann", {"password": PASSWORD + "!"})
    counts("DELETE", "/users/bob")
    counts("DELETE", "/nodes/evil/certificate")
    assert numbers == list(range(numbers[0], numbers[0] + 6))
    status, reply = renewed.call("POST", "/nodes/renewed/certificate",
                                 {"csr": renewed.csr()})
    renewed.take(reply)
    newest, _ = numbered_list(weftd)

    weftd.stop()
    roll_back(weftd.state, weftd.dir / "old")
    weftd.start()
    # weftd can't know until a node reports; a certificate that evil gets now is worthless
    # later.
    status, reply = evil.call("POST", "/nodes/evil/certificate", {"csr": evil.csr()})
    assert status == 201
    evil.take(reply)
    assert renewed.call("GET", "/status")[0] == 401

    # A number alone counts for nothing, and neither does a list that another has signed.
    foreign = foreign_list(weftd, 1 << 50)
    for bad in ("", "17", foreign, foreign * 10, newest.replace("M", "N", 1)):
        assert evil.call("PUT", "/revocations", {"crl": bad})[0] == 409
    assert Browser(weftd, token).status("GET", "/status") == 200
    # An unknown certificate may bring it, and is that of a node afterwards.
    assert https(weftd, "GET", "/api/v1/status", node=renewed)[2]["Weft-Revoked"]
    assert renewed.call("PUT", "/revocations", {"crl": newest}) == (
        200, {"newer": True})
    for _ in range(2):
        assert renewed.call("GET", "/status")[0] == 200
        assert good.call("GET", "/status")[0] == 200
        assert evil.call("GET", "/status")[0] == 401
        assert evil.call("POST", "/nodes/evil/certificate",
                         {"csr": evil.csr()})[0] == 401
        assert Browser(weftd, token).status("GET", "/status") == 401
        assert cookie.status("GET", "/status") == 401
        for user in ("root", "bob"):
            status, reply = Browser(weftd).call(
                "POST", "/login", {"user": user, "password": PASSWORD})
            assert status == 401 and reply["code"] == "unconfirmed"
        assert good.call("POST", "/enroll", {"token": unused, "node": "new",
                                             "csr": good.csr()})[0] == 403
        # The list that evil has is an older one by now, and so is that one.
        for pem in (older, newest):
            assert good.call("PUT", "/revocations", {"crl": pem}) == (
                200, {"newer": False})
        weftd.restart(kill=True)
    assert {serial_of(evil)} < revoked_list(weftd)[0]
    assert numbered_list(weftd)[1] > numbers[-1]

    # A user who may read weftd's folder can admit an administrator, who checks everything.
    admin = Browser(weftd)
    admin.call("POST", "/setup", {"token": setup_token(weftd), "user": "root",
                                  "password": PASSWORD}, expect=201)
    verdict = eventually(lambda: [v for v in [admin.get("/status")["verdict"]]
                                  if "revocations confirm" in v])[0]
    assert "node renewed" in verdict and "old one" in verdict
    assert admin.get("/ca")["revocations"]["unconfirmed_since"]
    assert b"weft_revocations_unconfirmed 1" in https(
        weftd, "GET", "/metrics", node=good)[1]
    admin.call("DELETE", "/users/bob", expect=200)
    admin.call("POST", "/revocations/confirm", expect=200)
    assert admin.get("/ca")["revocations"]["unconfirmed_since"] is None
    weftd.restart(kill=True)
    Browser(weftd).login("root")
    assert Browser(weftd, token).status("GET", "/status") == 401
    lines = admin.get("/audit")["audit"]
    assert {"PUT /revocations", "POST /revocations/confirm"} <= {
        x["action"] for x in lines}


def test_other_certificates(weftd, admin):
    """Certificates of another CA, of no CA, or not issued to a node."""
    node = enrolled(admin, "h1")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-keyout", node.key, "-out",
            node.cert, "-subj", "/CN=h1", "-days", "9")
    with pytest.raises((ssl.SSLError, OSError)):
        node.call("GET", "/status")
    # Signed with the CA's key, but not by weftd: it is in no record.
    csr = node.dir / "csr"
    csr.write_text(node.csr())
    openssl("x509", "-req", "-in", csr, "-CA", weftd.state / "ca-cert.pem",
            "-CAkey", weftd.state / "ca-key.pem", "-out", node.cert,
            "-days", "9")
    (node.dir / "new.pem").rename(node.key)
    assert node.call("GET", "/status")[0] == 401
    assert node.call("GET", "/status", key=False)[0] == 401
    assert node.call("GET", "/me")[0] == 401


# ---- A node speaks for itself ----


def test_a_node_speaks_for_itself(weftd, admin):
    h1, h2 = enrolled(admin, "h1"), enrolled(admin, "h2")
    m = alone(admin, h1)
    assert m.beat()[0] == 200
    assert SecureMember(h1, 2, name="h2").beat()[0] == 403
    # Not for a disk that another serves.
    thief = SecureMember(h2, 1)
    thief.uuid = m.uuid
    status, r = thief.beat()
    assert status == 409 and r["code"] == "double-used"
    attached(m, h1)
    assert h2.call("POST", "/arrays/a/sessions", attach(h1))[0] == 403
    [session] = admin.get("/sessions")["sessions"]
    beat = {"instance": "cafe", "epoch": session["epoch"] or 0}
    path = "/sessions/" + session["id"]
    assert h2.call("POST", path + "/heartbeat", beat)[0] == 403
    assert h2.call("POST", path + "/lost", {"member": 0})[0] == 403
    assert h2.call("DELETE", path)[0] == 403
    assert h1.call("POST", path + "/heartbeat", beat)[0] == 200
    viewer_token = admin.call("POST", "/tokens", {
        "name": "v", "role": "viewer"}, expect=201)[1]["token"]
    assert Browser(weftd, viewer_token).status("DELETE", path) == 403


# ---- A process speaks for itself ----

OF_PROCESS = {
    "disk": {("POST", "/api/v1/disks/{uuid}/heartbeat")},
    "array": {("GET", "/api/v1/arrays/{name}/service"),
              ("POST", "/api/v1/arrays/{name}/sessions"),
              ("DELETE", "/api/v1/sessions/{id}"),
              ("POST", "/api/v1/sessions/{id}/heartbeat"),
              ("POST", "/api/v1/sessions/{id}/leases"),
              ("POST", "/api/v1/sessions/{id}/lost"),
              ("POST", "/api/v1/sessions/{id}/scan"),
              ("GET", "/api/v1/sessions/{id}/volumes"),
              ("POST", "/api/v1/sessions/{id}/volumes"),
              ("POST", "/api/v1/sessions/{id}/volumes/{name}")},
}
OF_ONE_PROCESS = "this certificate is for one process of the node"
OTHER_DISK = "00000000-0000-4000-8000-0000000000ff"


def process_of(node, process):
    """A process of the node, with a certificate of its own; it is called as a node is."""
    p = Node(node.weftd, node.name)
    p.dir = node.dir / process.replace(":", "-")
    p.dir.mkdir()
    p.key, p.cert = p.dir / "key.pem", p.dir / "cert.pem"
    status, reply = node.call("POST", f"/nodes/{node.name}/certificate", {
        "csr": p.csr(f"DNS:{node.name},URI:weft:{process}")})
    assert status == 201, reply
    p.take(reply)
    return p


def every_call(weftd, parts, bodies, node=None):
    """Each route of the API, called with a body that it takes if `bodies` has one, and else
    of nothing: its status and answer.  A session is left last.  A volume has the name of
    another array."""
    calls = [(m.upper(), path) for path, item in SPEC["paths"].items() for m in item
             if m.upper() in {"GET", "POST", "PUT", "PATCH", "DELETE"}]
    for method, path in sorted(calls, key=lambda c: c[0] == "DELETE"):
        own = parts | {"name": "h1" if "/nodes/" in path else
                               "b" if "/sessions/" in path else "a", "volume": "b"}
        filled = re.sub(r"{(\w+)}", lambda m: own[m[1]], path)
        if node is None and method == "GET" and path.endswith(("/me", ".pem")):
            yield (method, path), 200, None
            continue
        body = bodies.get((method, path), {})
        status, reply, _ = https(weftd, method, filled,
                                 None if method in ("GET", "DELETE") else body, node)
        yield (method, path), status, reply


# Each kind of certificate, and the routes that it opens beside those that are open to all.
KINDS = {"a disk of another node": set(), "another disk": set(), "another array": set(),
         "an array of another node": {("GET", "/api/v1/arrays/{name}/service")},
         "the disk": OF_PROCESS["disk"], "the array": OF_PROCESS["array"]}


def test_what_a_process_may_call(weftd, admin):
    """Every route, about the same disk, array and session, by a certificate of each kind."""
    h1, h2 = enrolled(admin, "h1"), enrolled(admin, "h2")
    m = alone(admin, h1)
    attached(m, h1)
    [session] = admin.get("/sessions")["sessions"]
    parts = {"uuid": m.uuid, "id": session["id"], "node": "h1", "member": "0", "job": "j"}
    at = "/api/v1/sessions/{id}"
    bodies = {("POST", "/api/v1/disks/{uuid}/heartbeat"): m.body(),
              ("POST", "/api/v1/arrays/{name}/sessions"): attach(h1),
              ("POST", at + "/heartbeat"): {"instance": "cafe", "epoch": session["epoch"] or 0},
              ("POST", at + "/lost"): {"member": 0},
              ("POST", at + "/leases"): {"instance": "cafe"},
              ("POST", at + "/scan"): {"instance": "cafe"},
              ("POST", at + "/volumes"): {"instance": "cafe", "number": 1},
              ("POST", at + "/volumes/{name}"): {"instance": "cafe"}}
    by = {"a disk of another node": process_of(h2, "disk:" + m.uuid),
          "another disk": process_of(h1, "disk:" + OTHER_DISK),
          "another array": process_of(h1, "array:b"),
          "an array of another node": process_of(h2, "array:a"),
          "the disk": process_of(h1, "disk:" + m.uuid),
          "the array": process_of(h1, "array:a")}
    assert set(by) == set(KINDS)
    open_to_all = {call for call, status, _ in every_call(weftd, parts, bodies)
                   if status != 401}
    assert ("PUT", "/api/v1/revocations") in open_to_all and len(open_to_all) < 10
    for kind, opens in KINDS.items():
        for call, status, reply in every_call(weftd, parts, bodies, by[kind]):
            if call in opens:
                assert status not in (401, 403), (kind, call, reply)
            elif call not in open_to_all:
                assert status == 403 or (status, reply.get("field")) == (422, "uri"), \
                    (kind, call, status, reply)
                assert any(why in reply["detail"] for why in (
                    OF_ONE_PROCESS, "a node may speak for itself alone", "its own, or enroll"))
    # The node's own may do what a node may, and so all of that.
    mine = set().union(*OF_PROCESS.values())
    for call, status, reply in every_call(weftd, parts, bodies, h1):
        assert call not in mine or status not in (401, 403), (call, reply)
        assert status != 403 or OF_ONE_PROCESS not in reply["detail"]


def test_a_process_speaks_for_itself(weftd, admin):
    """It does its work; the audit trail names it; and it is of its node, whose end is its."""
    h1 = enrolled(admin, "h1")
    m = alone(admin, h1)
    m.node = own_disk = process_of(h1, "disk:" + m.uuid)
    assert m.beat()[0] == 200
    own = process_of(h1, "array:a")
    attached(m, own)
    [session] = admin.get("/sessions")["sessions"]
    beat = {"instance": "cafe", "epoch": session["epoch"] or 0}
    path = "/sessions/" + session["id"]
    assert own.call("POST", path + "/heartbeat", beat)[0] == 200
    assert own_disk.call("POST", path + "/heartbeat", beat)[0] == 403
    lines = [x for x in admin.get("/audit")["audit"] if x["who"] == "h1"]
    assert {(x["action"], x["subject"], x.get("process")) for x in lines
            if x["status"] < 300} == {
        ("POST /arrays/{name}/sessions", "a", "array:a"),
        ("POST /nodes/{name}/certificate", "h1, array:a", None),
        ("POST /nodes/{name}/certificate", f"h1, disk:{m.uuid}", None)}
    admin.call("DELETE", "/nodes/h1/certificate", expect=200)
    assert own.call("POST", path + "/heartbeat", beat)[0] == 401
    assert m.beat()[0] == 401


def test_certificates_of_processes(weftd, admin):
    """Names of processes are asked for by the node, and well-formed; each process has its
    own number of certificates.  weftd knows them after a restart."""
    node = enrolled(admin, "h1")
    path = "/nodes/h1/certificate"
    for uri in ["URI:weft:disk:x", "URI:weft:array:", "URI:weft:array:A", "URI:weft:node:h1",
                "URI:https://h1/", "URI:weft:array:" + "a" * 64,
                "URI:weft:array:a,URI:weft:array:b"]:
        status, reply = node.call("POST", path, {"csr": node.csr("DNS:h1," + uri)})
        assert status == 422 and reply["field"] == "csr", (uri, reply)
    token = node_token(admin, "h2")["token"]
    h2 = Node(weftd, "h2")
    status, reply = h2.enroll(token, h2.csr("DNS:h2,URI:weft:array:a"))
    assert status == 422 and reply["field"] == "csr", reply
    h2.enroll(token, expect=201)
    csr = node.csr("DNS:h1,URI:weft:array:b")
    said = [node.call("POST", path, {"csr": csr})[0] for _ in range(33)]
    assert said == [201] * 32 + [409]
    p = process_of(node, "array:a")
    assert h2.call("POST", path, {"csr": csr})[0] == 403
    assert p.call("POST", path, {"csr": csr})[0] == 403
    weftd.stop()
    weftd.start()
    assert p.call("GET", "/status")[0] == 403
    assert p.call("GET", "/arrays/a/service")[0] == 404
    assert node.call("POST", path, {"csr": csr})[0] == 409
    assert node.call("POST", path, {"csr": node.csr()})[0] == 201
    assert node.call("GET", "/status")[0] == 200


FOREIGN = ["nbd://10.99.0.66:10810", "nbds://127.0.0.1:10810", "nbds://10.99.0.1:10810",
           "nbds://localhost", "nbds://h2:10810", "nbd://127.0.0.1:10999",
           "nbds+unix:///?socket=/run/weft/a.sock", "nbds://10.99.0.66@10.99.0.1",
           "nbds://10.99.0.66:10810/?tls-verify-peer=false", "nbds://",
           "nbds://10.99.0.66:10810#x", "nbds://10.99.0.66%2e/", "nbds://[::1]:1"]


def test_addresses_of_others(weftd, admin):
    """A node reports only its own addresses, with TLS. Otherwise its report would send an
    array process to its own host's servers."""
    h = enrolled(admin, "h1", ["10.99.0.66", "fd00::66"])
    m = SecureMember(h, 1)
    own = ["nbds://10.99.0.66:10810", "nbds://h1", "nbds://[fd00::66]:10810/"]
    for uri in FOREIGN:
        status, said = m.beat(uri=uri)
        assert (status, said["field"]) == (422, "uri"), (uri, said)
    assert admin.get("/disks")["disks"] == []
    for uri in own:
        assert m.beat(uri=uri)[0] == 200, uri
    assert admin.get("/disks")["disks"][0]["uri"] == own[-1]
    admin.call("POST", "/arrays", {"name": "a", "layout": "raid-0", "disks": [m.uuid],
                                   "allow": [{"node": "h1"}]}, expect=201)
    # A session may be served on a socket of its host, if nobody else is to come there.
    local = ["nbd+unix:///?socket=/run/a", "nbd://127.0.0.1:10999", "nbds://[::1]:1"]
    for uri in FOREIGN + local:
        for more in [{"exports": True}, {"mode": "service"}]:
            status, said = h.call("POST", "/arrays/a/sessions",
                                  {**attach(h), "uri": uri, **more})
            assert (status, said["field"]) == (422, "uri"), (uri, more, said)
    for uri in [*own, *local]:
        status, said = h.call("POST", "/arrays/a/sessions", {**attach(h), "uri": uri})
        assert status != 422, (uri, said)


def test_a_disk_on_another_node(weftd, admin):
    """Carried there, an administrator says; taken by its UUID, nobody does."""
    h1, h2 = enrolled(admin, "h1"), enrolled(admin, "h2")
    m = alone(admin, h1)
    eventually(lambda: m.beat(wait_ms=0) and
               admin.get("/arrays/a")["state"] == "ready")
    path = f"/disks/{m.uuid}"

    def disk():
        return admin.get(path)
    there = SecureMember(h2, 1)
    there.uuid, there.header = m.uuid, m.header
    assert admin.status("PATCH", path, {"node": "h2"}) == 409  # it lives
    eventually(lambda: not disk()["alive"])
    for _ in range(3):
        status, r = there.beat(wait_ms=0)
        assert status == 409 and r["code"] == "other-node"
        assert f"weftctl disk move {m.uuid} h2" in r["detail"]
    warnings = [x["text"] for x in admin.get("/log?severity=warning")["log"]]
    assert len([w for w in warnings if "Node h2 asked to serve" in w]) == 1
    assert disk()["node"] == "h1" and not disk()["alive"]
    assert add_user(admin, "v", "viewer").status(
        "PATCH", path, {"node": "h2"}) == 403
    assert h2.call("PATCH", path, {"node": "h2"})[0] == 403
    assert admin.call("PATCH", path, {"node": "h9"})[1]["code"] == \
        "unknown-node"

    assert admin.call("PATCH", path, {"node": "h2"}, expect=200)[1] \
        ["moves_to"] == "h2"
    assert admin.call("PATCH", path, {"node": "h1"}, expect=200)[1] \
        ["moves_to"] is None
    assert there.beat(wait_ms=0)[0] == 409
    admin.call("PATCH", path, {"node": "h2"}, expect=200)
    assert [(a["who"], a["subject"], a["status"])
            for a in admin.get("/audit?limit=1")["audit"]] == \
        [("root", f"{m.uuid} to h2", 200)]
    weftd.restart(kill=True)
    assert disk()["moves_to"] == "h2"
    eventually(lambda: there.beat(wait_ms=0)[0] == 200)
    assert disk()["node"] == "h2" and disk()["moves_to"] is None
    assert m.beat(wait_ms=0)[1]["code"] == "double-used"


def test_revocation_ends_all(weftd, admin):
    """At once: its sessions, what it waits for, and its disks."""
    h1, h2 = enrolled(admin, "h1"), enrolled(admin, "h2")
    m = alone(admin, h1)
    attached(m, h2)
    [session] = admin.get("/sessions")["sessions"]
    beat = {"instance": "cafe", "epoch": session["epoch"] or 0}
    admin.call("DELETE", "/nodes/h2/certificate", expect=200)
    assert admin.get("/sessions")["sessions"] == []
    assert h2.call("POST", f"/sessions/{session['id']}/heartbeat",
                   beat)[0] == 401
    assert m.beat(wait_ms=0)[0] == 200
    assert admin.get(f"/disks/{m.uuid}")["alive"]
    admin.call("DELETE", "/nodes/h1/certificate", expect=200)
    assert not admin.get(f"/disks/{m.uuid}")["alive"]
    assert m.beat(wait_ms=0)[0] == 401
    [node] = [n for n in admin.get("/nodes")["nodes"] if n["name"] == "h1"]
    assert not node["enrolled"] and not node["alive"] and node["load"] is None
    said = [x["text"] for x in admin.get("/log")["log"]]
    assert any("Node h2, process 1, was evicted from array a by administrator "
               "root at 127.0.0.1" in s for s in said)
    assert any(s.startswith("Node h1 was shut out by administrator root")
               for s in said)
    # It is trusted again.
    h1.enroll(node_token(admin, "h1")["token"], expect=201)
    assert m.beat(wait_ms=0)[0] == 200
    assert admin.get(f"/disks/{m.uuid}")["alive"]


def test_tokens_of_nodes(weftd, admin):
    def listed():
        return admin.get("/node-tokens")["node_tokens"]
    assert listed() == []
    one, any_one = node_token(admin, "h1"), node_token(admin)
    first, second = listed()
    assert {first["node"], second["node"]} == {"h1", None}
    assert {t["expires_at"] for t in listed()} == \
        {one["expires_at"], any_one["expires_at"]}
    for t in listed():
        assert t["created_by"] == "root" and t["created_at"] < t["expires_at"]
        assert t["id"] not in one["token"] + any_one["token"]
    viewer = add_user(admin, "v", "viewer")
    assert viewer.status("GET", "/node-tokens") == 403
    cancel = next(t["id"] for t in listed() if t["node"] == "h1")
    assert viewer.status("DELETE", "/node-tokens/" + cancel) == 403
    assert admin.status("DELETE", "/node-tokens/" + "0" * 16) == 404
    assert admin.status("DELETE", "/node-tokens/x") == 400
    admin.call("DELETE", "/node-tokens/" + cancel, expect=200)
    assert admin.status("DELETE", "/node-tokens/" + cancel) == 404
    weftd.restart(kill=True)
    assert Node(weftd, "h1").enroll(one["token"], expect=403)[1]["code"] == \
        "token-wrong"
    [left] = listed()
    assert left["node"] is None
    Node(weftd, "h2").enroll(any_one["token"], expect=201)
    assert listed() == []  # used
    node_token(admin, ttl_s=1)
    eventually(lambda: listed() == [], what="it to expire")


def test_nodes_work_in_the_audit_trail(weftd, admin):
    """Attaching is in it; a node that does it again and again fills nothing."""
    h1 = enrolled(admin, "h1")
    body = {**attach(h1), "takeover": True}
    for _ in range(5):  # there is none
        assert h1.call("POST", "/arrays/a/sessions", body)[0] == 404
    for _ in range(5):  # nor may it do this: refused before it is read
        assert h1.call("DELETE", "/users/root")[0] == 403
    m = alone(admin, h1)
    attached(m, h1, takeover=True)
    with beating(m):
        for _ in range(30):  # the same one: it gets the same answer
            assert h1.call("POST", "/arrays/a/sessions", body)[0] == 201
    lines = [(a["action"], a["subject"], a["status"]) for a in
             admin.get("/audit?limit=1000")["audit"] if a["who"] == "h1"]
    made = ("POST /arrays/{name}/sessions", "a, takeover", 201)
    assert lines[-2:] == [
        ("DELETE /users/{name}", "root", 403),
        ("POST /arrays/{name}/sessions", "a, takeover", 404)]
    assert set(lines[:-2]) <= {made, (*made[:2], 409)}
    assert 15 < lines.count(made) <= 20
    # Equal lines are counted together, and a kill forgets none of them.
    def times():
        return sum(a["times"] for a in admin.get("/audit?limit=1000")["audit"]
                   if (a["action"], a["subject"], a["status"]) == made)
    assert times() == 31
    weftd.kill()
    weftd.start()
    assert times() == 31


def test_revoked(weftd, admin):
    """At once, and the waiting poll gets nothing further."""
    node = enrolled(admin, "h1")
    m = SecureMember(node, 1)
    m.beat()
    held = []

    def poll():
        begin = time.monotonic()
        while m.beat(wait_ms=5000)[0] == 200:  # at its end, it gets nothing
            held.append(time.monotonic() - begin)
            begin = time.monotonic()
    thread = threading.Thread(target=poll)
    c, stream = (http.client.HTTPSConnection(
        *weftd.tls_address, timeout=30, context=trusting(weftd, node))
        for _ in range(2))
    c.request("GET", "/api/v1/status")
    assert c.getresponse().read()
    stream.request("GET", "/api/v1/events")
    events = stream.getresponse()
    thread.start()
    time.sleep(0.5)
    assert admin.status("DELETE", "/nodes/h9/certificate") == 404
    admin.call("DELETE", "/nodes/h1/certificate", expect=200)
    c.request("GET", "/api/v1/status")  # on the same connection
    assert c.getresponse().status == 401
    assert node.call("GET", "/me")[0] == 401
    assert m.beat()[0] == 401
    thread.join()
    assert [status for status, _ in m.said if status != 200] == [401, 401]
    assert all(t > 1.5 for t in held), held
    events.read()  # ends
    log = weftd.log.read_text()
    assert log.count("refused, from 127.0.0.1: login-required") == 1
    weftd.restart(kill=True)
    assert node.call("GET", "/status")[0] == 401


def test_removed_node(weftd, admin):
    """Forgotten and revoked in one."""
    node = enrolled(admin, "h1")
    [known] = admin.get("/nodes")["nodes"]
    assert known["enrolled"]
    admin.call("DELETE", "/nodes/h1", expect=200)
    for _ in range(2):
        assert node.call("GET", "/me")[0] == 401
        assert admin.status("GET", "/nodes/h1") == 404
        weftd.restart(kill=True)
