"""weftd's state is put back from a backup, and the CA was rotated meanwhile.

Topology: weftd alone, with TLS; nodes with certificates that speak the API.
Causes: a backup is made before each step of a rotation of the CA, and put back after each
        later one, into the state directory of that time, or after that was lost.
Pass:   every node that trusts a CA of which weftd has the key goes on with the certificate
        that it has; where no key is left, the documented way leads back: a new CA, and all
        nodes enroll again.  A node that was shut out since stays shut out.
"""

import shutil
import ssl
import time
import types

import pytest

from securenode import Node, enrolled, https, node_token, openssl
from weftdactors import Weftd
from weftdlogin import PASSWORD, Browser, first_login, setup_token
from wefttest import eventually, run

PHASES = ("none", "spread", "renew", "retired")


def follow(node):
    """Does the work of weft-renew; then node.ca has the trusted CAs."""
    tag = "0" * 64
    for _ in range(5):
        status, r = node.call("PUT", f"/nodes/{node.name}/trust", {"trusts": tag})
        assert status == 200, r
        node.ca.write_text(r["ca"])
        node.crl = r["crl"]
        now = openssl("dgst", "-sha256", text=r["ca"]).split()[-1]
        if r["renew"]:
            status, reply = node.call("POST", f"/nodes/{node.name}/certificate",
                                      {"csr": node.csr()})
            assert status == 201, reply
            node.take(reply)
        elif now == tag:
            return
        tag = now
    raise AssertionError("it has no end")


def as_it_is(node, folder):
    """Its name, certificate, key and CAs, kept for later."""
    d = folder / node.name
    d.mkdir(parents=True)
    for file in (node.key, node.cert, node.ca):
        shutil.copy(file, d)
    return types.SimpleNamespace(name=node.name, key=d / node.key.name, crl=node.crl,
                                 cert=d / node.cert.name, ca=d / node.ca.name)


def says(w, node, method, path, body=None):
    """The status, by the CAs that the node trusts; None: one of the two does not trust the
    other."""
    context = ssl.create_default_context(cafile=node.ca)
    context.load_cert_chain(node.cert, node.key)
    try:
        return https(w, method, "/api/v1" + path, body, context=context)[0]
    except (ssl.SSLError, ConnectionError):
        return None


class History:
    """A rotation of the CA: a backup before each step of it, and what there is after."""

    def __init__(self, w, folder):
        self.w, self.backups, self.times = w, {}, {}
        admin = first_login(w)
        token = folder / "token"
        token.write_text(admin.call("POST", "/tokens", {"name": "t", "role": "admin"},
                                    expect=201)[1]["token"])
        token.chmod(0o600)
        quick, slow, evil = self.nodes = [enrolled(admin, n) for n in
                                          ("quick", "slow", "evil")]
        for n in self.nodes:
            n.ca = n.dir / "ca.pem"
            follow(n)
        for phase in PHASES:
            # Certificates, and CAs, differ by their seconds.
            second = int(time.time())
            eventually(lambda: time.time() >= second + 1, every=0.05)
            if phase == "spread":
                admin.call("POST", "/ca/rotate", {}, expect=200)
                follow(quick)
            if phase == "renew":
                for n in (slow, evil, quick):
                    follow(n)
                assert admin.get("/ca")["rotation"] == "renew"
            if phase == "retired":
                follow(slow), follow(evil)
                admin.call("POST", "/ca/retire", expect=200)
                for n in self.nodes:
                    follow(n)
            backup = folder / phase
            run("weftctl", "--admin", w.url, "--token-file", token, "backup", backup)
            self.backups[phase] = backup
            # evil is shut out in each of these times, and not in the backup of that.
            was = [as_it_is(n, folder / f"in-{phase}") for n in self.nodes]
            state = folder / f"state-{phase}"
            if phase == "retired":
                admin.call("DELETE", "/nodes/evil/certificate", expect=200)
                follow(slow)
                was[1].crl = slow.crl
            w.stop()
            shutil.copytree(w.state, state)
            w.start()
            self.times[phase] = state, was


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    d = tmp_path_factory.mktemp("rotated")
    with Weftd(d, "--listen", "0.0.0.0:0", login=True) as w:
        yield History(w, d)


def put_back(w, state, backup):
    """weftd, on this state or none, from that backup; its new administrator."""
    w.stop()
    shutil.rmtree(w.state)
    if state:
        shutil.copytree(state, w.state)
    run("weftd", "--state", w.state, "--restore", backup, "--replace")
    w.start()
    return let_in(w)


def let_in(w):
    admin = Browser(w)
    admin.call("POST", "/setup", {"token": setup_token(w), "user": "root",
                                  "password": PASSWORD}, expect=201)
    return admin


def verdict(admin):
    return admin.get("/status")["verdict"]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "lost"])
@pytest.mark.parametrize("backup,now", [
    (b, n) for i, b in enumerate(PHASES) for n in PHASES[i + 1:]])
def test_restore_over_a_rotation(history, backup, now, kept):
    w = history.w
    state, (quick, slow, evil) = history.times[now]
    admin = put_back(w, kept and state, history.backups[backup])
    rotation = admin.get("/ca")["rotation"]
    said = "weftctl ca retire --force" in verdict(admin)
    assert said == (rotation != "none")
    goes_on = [says(w, n, "GET", "/status") for n in (quick, slow)]
    if now == "retired" and not kept:
        # weftd shows a certificate of the first CA, which nobody trusts any more.
        assert goes_on == [None, None]
        if backup == "none":
            enroll_all_again(w, admin, [quick, slow], evil)
            return
        status, r = admin.call("POST", "/ca/retire")
        assert status == 409 and "weftctl ca retire --force" in r["detail"]
        admin.call("POST", "/ca/retire?force=true", expect=200)
        assert "retire" not in verdict(admin)
        goes_on = [says(w, n, "GET", "/status") for n in (quick, slow)]
    elif now == "renew" and backup == "none":
        # The key of the next CA is lost: quick has a certificate of it.
        assert goes_on == [None, 200]
        return
    assert goes_on == [200, 200]
    # A node with the newest list shows it, and evil is shut out.
    assert says(w, slow, "PUT", "/revocations", {"crl": slow.crl}) == 200
    if now == "retired":
        for was in history.times.values():
            assert says(w, was[1][2], "GET", "/status") in (None, 401)
        assert says(w, slow, "GET", "/status") == 200
    admin.call("POST", "/revocations/confirm", expect=200)
    w.restart(kill=True)
    assert [says(w, n, "GET", "/status") for n in (quick, slow)] == [200, 200]


def enroll_all_again(w, admin, nodes, evil):
    """The documented way: a new CA, for no node trusts the one of the backup."""
    w.stop()
    for name in ("ca-key.pem", "ca-cert.pem"):
        (w.state / name).unlink()
    w.start()
    admin = let_in(w)
    for n in nodes:
        again = Node(w, n.name)
        again.enroll(node_token(admin, n.name)["token"], expect=201)
        assert again.call("GET", "/status")[0] == 200
