"""docs/API/openapi.json and weftd: logins, users, tokens and enrollment, each
with every answer that the file promises."""

import json
import subprocess

import pytest

from apicaller import Api, Weftd, filled, operations
from weftdlogin import PASSWORD

PATHS = [(p, m) for p, m, op in operations() if op["tags"] == ["security"]]
V1 = "/api/v1"


@pytest.fixture
def api(tmp_path):
    with Weftd(tmp_path, login=True) as w:
        a = Api(w.url)
        a.weftd = w
        yield a


def csr(directory, *names):
    return subprocess.run(
        ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:P-256", "-nodes", "-keyout", directory / "key",
         "-subj", "/CN=x", "-addext", "subjectAltName=" + ",".join(names)],
        capture_output=True, text=True, check=True).stdout


class Caller:
    def __init__(self, api, **headers):
        self.api, self.headers = api, headers

    def __call__(self, method, path, body=None, expect=None, **headers):
        headers = {k.replace("_", "-"): v
                   for k, v in {**self.headers, **headers}.items()}
        return self.api.call(method, path if path.endswith(".pem") else V1 + path,
                             body, expect, headers)[1]


def logged_in(api, method, path, body, status):
    code, headers, text = api.raw("POST", V1 + path, body)
    assert code == status
    reply = json.loads(text)
    me = api.get(V1 + "/me")
    nobody = Caller(api)
    assert me["role"] is None
    cookie = headers["Set-Cookie"].split(";")[0]
    return Caller(api, Cookie=cookie, X_Weft_Origin_Secret=reply["origin_secret"])


def test_every_answer(api, tmp_path):
    token = (tmp_path / "state/setup-url").read_text().strip().split("=")[1]
    nobody = Caller(api)
    setup = {"token": token, "user": "root", "password": PASSWORD}
    nobody("POST", "/setup", {**setup, "token": "x"}, 403)
    nobody("POST", "/setup", setup, 201)
    login = {"user": "root", "password": PASSWORD}
    nobody("POST", "/login", {**login, "password": "x"}, 401)
    nobody("POST", "/login", login, 200)
    admin = logged_in(api, "POST", "/login", login, 200)
    admin("GET", "/me", expect=200)

    user = {"name": "v", "role": "viewer", "password": PASSWORD}
    admin("POST", "/users", user, 201)
    assert admin("POST", "/users", user, 409)["code"] == "exists"
    admin("GET", "/users", expect=200)
    admin("GET", "/users/v", expect=200)
    admin("GET", "/users/x", expect=404)
    admin("PATCH", "/users/v", {"role": "viewer"}, 200)
    admin("PATCH", "/users/x", {"role": "viewer"}, 404)
    admin("PATCH", "/users/root", {"role": "viewer"}, 409)
    admin("PATCH", "/users/v", {"role": "viewer"}, 412, If_Match='"x"')
    admin("DELETE", "/users/v", expect=412, If_Match='"x"')
    admin("DELETE", "/users/x", expect=404)
    admin("DELETE", "/users/root", expect=409)
    admin("PUT", "/users/v/totp", {"on": False}, 409)
    admin("PUT", "/users/x/totp", {"on": True}, 404)
    admin("PUT", "/users/v/totp", {"on": True, "code": "1"}, 422)
    admin("PUT", "/users/v/totp", {"on": True}, 200)
    nobody("POST", "/login", {**login, "user": "v"}, 401)
    admin("PUT", "/users/v/totp", {"on": False}, 200)
    viewer = logged_in(api, "POST", "/login", {**login, "user": "v"}, 200)
    viewer("PUT", "/users/root/totp", {"on": True}, 403)
    admin("GET", "/audit/log", expect=200)
    for path in ("/users", "/audit", "/audit/log", "/users/v"):
        viewer("GET", path, expect=403)
    for _ in range(7):  # one's own, with a wrong current one
        last = viewer("PATCH", "/users/v", {"password": "x" * 12,
                                            "current": "x"})
    assert last["code"] == "too-many-tries"

    new = {"name": "t", "role": "admin"}
    script = Caller(api, Authorization="Bearer "
                    + admin("POST", "/tokens", new, 201)["token"])
    admin("POST", "/tokens", new, 409)
    viewer("POST", "/tokens", {**new, "name": "u"}, 403)
    script("GET", "/tokens", expect=200)
    script("GET", "/audit", expect=200)
    script("DELETE", "/tokens/x", expect=404)

    enroll(api, script, tmp_path)
    script("DELETE", "/tokens/t", expect=200)
    script("GET", "/me", expect=401)
    admin("DELETE", "/users/v", expect=200)
    admin("POST", "/logout", expect=200)
    for _ in range(6):
        last = nobody("POST", "/login", {"user": "v", "password": "x"})
    assert last["code"] == "too-many-tries"
    what_http_refuses(api, tmp_path)
    promised = {(p, m, int(s)) for p, m, op in operations() if (p, m) in PATHS
                for s in op["responses"]}
    # Not met: the end of weftd, floods (test_floods.py), and what takes hundreds of
    # tries.
    left = {x for x in promised - api.met if x[2] not in (429, 503)} - {
        (V1 + "/node-tokens", "post", 409),
        (V1 + "/nodes/{name}/certificate", "post", 409)}
    assert not left, sorted(left)


def enroll(api, admin, tmp_path):
    token = admin("POST", "/node-tokens", {
        "node": "h1", "addresses": ["10.0.0.1"]}, 201)["token"]
    admin("POST", "/node-tokens", {"node": "h4"}, 201)
    [one] = [t for t in admin("GET", "/node-tokens", expect=200)["node_tokens"]
             if t["node"] == "h4"]
    admin("DELETE", "/node-tokens/" + one["id"], expect=200)
    admin("DELETE", "/node-tokens/" + one["id"], expect=404)
    pem = csr(tmp_path, "DNS:h1", "IP:10.0.0.1")
    body = {"token": token, "node": "h1", "csr": pem}
    nobody = Caller(api)
    nobody("POST", "/enroll", {**body, "token": "x"}, 403)
    nobody("POST", "/enroll", {**body, "csr": "x"}, 422)
    nobody("POST", "/enroll", body, 201)
    other = {"token": admin("POST", "/node-tokens", {"addresses": ["10.0.0.1"]},
                            201)["token"],
             "node": "h2", "csr": csr(tmp_path, "IP:10.0.0.1")}
    nobody("POST", "/enroll", other, 409)
    nobody("POST", "/enroll", {**other, "csr": csr(tmp_path, "DNS:h2")}, 201)
    nobody("GET", "/ca.pem", expect=200)
    nobody("GET", "/ca-crl.pem", expect=200)
    admin("POST", "/nodes/h1/certificate", {"csr": pem}, 201)
    path = "/nodes/h2/addresses"
    admin("PUT", path, {"addresses": ["10.0.0.1"]}, 409)
    admin("PUT", path, {"addresses": ["10.0.0.2"]}, 200)
    admin("PUT", "/nodes/h3/addresses", {"addresses": ["10.0.0.2"]}, 404)
    admin("POST", "/nodes/h3/certificate", {"csr": pem}, 404)
    trust = {"trusts": "0" * 64}
    assert not admin("PUT", "/nodes/h1/trust", trust, 200)["renew"]
    admin("PUT", "/nodes/h3/trust", trust, 404)
    admin("PUT", "/nodes/h1/trust", {"trusts": "0" * 63 + "G"}, 422)
    assert admin("GET", "/ca", expect=200)["next"] is None
    assert admin("POST", "/backup", expect=200)["records"]
    assert admin("POST", "/revocations/confirm", expect=200)["confirmed"]
    assert not nobody("PUT", "/revocations", {
        "crl": nobody("GET", "/ca-crl.pem", expect=200)}, 200)["newer"]
    assert nobody("PUT", "/revocations", {"crl": "x"}, 409)["code"] == "other-ca"
    assert admin("POST", "/ca/retire", expect=409)["code"] == "one-ca"
    admin("POST", "/ca/rotate", {"force": 1}, 422)
    for networks, status in [(["--ca-network", "10.9.0.0/16"], 409), ([], 200)]:
        admin.api.weftd.stop()
        admin.api.weftd.extra = networks
        admin.api.weftd.start()
        said = admin("POST", "/ca/rotate", {}, status)
        assert status == 200 or said["code"] == "address-outside"
    assert admin("POST", "/ca/retire", expect=409)["code"] == "nodes-left-behind"
    admin("POST", "/ca/rotate", {"force": True}, 200)
    left_behind = admin("GET", "/ca", expect=200)["nodes"]
    for node in left_behind:
        admin("DELETE", f"/nodes/{node['node']}/certificate", expect=200)
    assert admin("POST", "/ca/retire", expect=200)["rotation"] == "none"
    admin("DELETE", "/nodes/h1/certificate", expect=200)
    admin("DELETE", "/nodes/h1/certificate", expect=200)  # once more
    admin("DELETE", "/nodes/h9/certificate", expect=404)


def what_http_refuses(api, tmp_path):
    """Also of those who need no login."""
    for path, method in PATHS:
        m, target = method.upper(), filled(path)
        api.call(m, target, b"{}", expect=401,
                 headers={"Authorization": "Bearer x"})
        api.call(m, target, b"{}", expect=403,
                 headers={"Host": "weft.example"})
    # The rest by an administrator, as everybody is without logins.
    (tmp_path / "open").mkdir()
    w = Weftd(tmp_path / "open").start()
    address, api.address = api.address, w.listen
    for path, method in PATHS:
        m, target = method.upper(), filled(path)
        api.call(m, target, b" " * ((1 << 20) + 1), expect=413)
        api.call(m, target + "?weft=1", b"{}", expect=400)
        if "requestBody" not in api.operation(m, target)[1]:
            continue
        api.call(m, target, b"{}", expect=415,
                 headers={"Content-Type": "text/plain"})
        for text in (b"", b"[]", b"{} {}", b"\xff"):
            api.call(m, target, text, expect=400)
        api.call(m, target, {"nix": 1}, expect=422)
    api.address = address
    w.end()
