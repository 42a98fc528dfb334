"""Hosts that enroll at a weftd and call it by their certificates, played here.

    from securenode import *
"""

import contextlib
import http.client
import json
import ssl
import subprocess
import threading
import time

from weftdactors import Member
from weftdlogin import Browser
from wefttest import eventually

__all__ = ["Node", "SecureMember", "alone", "attach", "attached", "beating", "enrolled",
           "https", "node_token", "openssl", "trusting"]


def openssl(*args, text=None):
    return subprocess.run(["openssl", *map(str, args)], input=text, text=True,
                          capture_output=True, check=True).stdout


class Node:
    """A host with a key of its own."""

    def __init__(self, weftd, name, addresses=()):
        self.weftd, self.name = weftd, name
        self.dir = weftd.dir / f"node-{name}"
        self.dir.mkdir(exist_ok=True)
        self.key, self.cert = self.dir / "key.pem", self.dir / "cert.pem"
        self.addresses = addresses

    def csr(self, names=None, key=("-newkey", "ec", "-pkeyopt",
                                   "ec_paramgen_curve:P-256")):
        names = names or ",".join([f"DNS:{self.name}"] +
                                  [f"IP:{a}" for a in self.addresses])
        return openssl("req", "-new", *key, "-nodes", "-keyout",
                       self.dir / "new.pem", "-subj", f"/CN={self.name}",
                       "-addext", f"subjectAltName={names}")

    def enroll(self, token, csr=None, expect=None, node=None):
        status, reply = Browser(self.weftd).call("POST", "/enroll", {
            "token": token, "node": node or self.name,
            "csr": self.csr() if csr is None else csr})
        assert expect is None or status == expect, reply
        if status == 201:
            self.take(reply)
        return status, reply

    def take(self, reply):
        (self.dir / "new.pem").rename(self.key)
        self.cert.write_text(reply["certificate"])

    def call(self, method, path, body=None, key=True):
        status, reply, _ = https(self.weftd, method, "/api/v1" + path, body,
                                 self if key else None)
        return status, reply


def trusting(weftd, node=None, **more):
    context = ssl.create_default_context(
        cafile=weftd.state / "ca-cert.pem")
    if node:
        context.load_cert_chain(node.cert, node.key)
    for name, value in more.items():
        setattr(context, name, value)
    return context


def https(weftd, method, path, body=None, node=None, headers={}, context=None):
    c = http.client.HTTPSConnection(
        *weftd.tls_address, timeout=30,
        context=context or trusting(weftd, node))
    headers = dict(headers)
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    c.request(method, path, body, headers)
    r = c.getresponse()
    stream = r.headers["Content-Type"].startswith("text/event-stream")
    data = b"" if stream else r.read()  # a stream has no end
    c.close()
    if r.headers["Content-Type"].startswith("application/"):
        try:
            data = json.loads(data)
        except ValueError:
            data = data.decode()
    return r.status, data, r.headers


def node_token(admin, node=None, ttl_s=None, addresses=()):
    body = {k: v for k, v in [("node", node), ("ttl_s", ttl_s),
                              ("addresses", list(addresses))] if v}
    return admin.call("POST", "/node-tokens", body, expect=201)[1]


def enrolled(admin, name, addresses=()):
    node = Node(admin.weftd, name, addresses)
    node.enroll(node_token(admin, name, addresses=addresses)["token"], expect=201)
    return node


class SecureMember(Member):
    def __init__(self, node, number, name=None):
        super().__init__(node.weftd, number)
        self.node, self.name = node, name or node.name

    def body(self, **more):
        return {**super().body(), "node": self.name,
                "uri": f"nbds://{self.node.name}:{10809 + self.number}", **more}

    def beat(self, **more):
        status, r = self.node.call("POST", f"/disks/{self.uuid}/heartbeat",
                                   self.body(**more))
        self.said.append((status, r))
        if status == 200:
            self.obey(r)
        return status, r


def alone(admin, node):
    """A member of an array of its own, which its node may take over, and h2 may
    attach."""
    m = SecureMember(node, 1)
    assert m.beat()[0] == 200
    allow = [{"node": node.name, "failover": True}, {"node": "h2"}]
    admin.call("POST", "/arrays", {"name": "a", "layout": "raid-0",
                                   "disks": [m.uuid], "allow": allow}, expect=201)
    return m


def attach(node):
    return {"instance": "cafe", "node": node.name, "pid": 1, "mode": "ro"}


@contextlib.contextmanager
def beating(m):
    """weftd hears of it all the time: else it is silent after 5 s."""
    ends = threading.Event()

    def live():
        while not ends.is_set():
            m.beat(wait_ms=0)
            time.sleep(0.02)
    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def attached(m, node, **more):
    """When the array is ready for that, and its member has been asked to speak."""
    with beating(m):
        return eventually(lambda: node.call(
            "POST", "/arrays/a/sessions", {**attach(node), **more})[0] == 201)
