"""People who log in to a weftd, and their first login.

    from weftdlogin import *

and by name the fixtures: `weftd`, one that wants a login, and `admin`, its first
administrator, logged in.
"""

import base64
import hmac
import http.client
import json
import re
import struct
import time

import pytest

from weftdactors import Weftd

__all__ = ["Browser", "PASSWORD", "add_user", "code_of", "first_login", "setup_token",
           "wrong_code"]

PASSWORD = "correct horse battery"


@pytest.fixture
def weftd(tmp_path):
    with Weftd(tmp_path, login=True) as w:
        yield w


class Browser:
    """A page that may be logged in, or a script that has a token."""

    def __init__(self, weftd, token=None):
        self.weftd = weftd
        self.token = token
        self.cookie = self.origin_secret = None
        self.headers = {}

    def call(self, method, path, body=None, expect=None, **more):
        headers = {k.replace("_", "-"): v for k, v in more.items()}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        for name, value in self.login_headers().items():
            headers.setdefault(name, value)
        if self.token:
            headers.setdefault("Authorization", "Bearer " + self.token)
        c = http.client.HTTPConnection(*self.weftd.address, timeout=60)
        c.request(method, "/api/v1" + path, body,
                  {k: v for k, v in headers.items() if v is not None})
        r = c.getresponse()
        self.headers = r.headers
        reply = json.loads(r.read())
        c.close()
        assert expect is None or r.status == expect, (r.status, reply)
        if cookie := r.headers["Set-Cookie"]:
            self.cookie = re.match(r"weft=([0-9a-f]*);", cookie)[1]
            self.origin_secret = reply.get("origin_secret")
        return r.status, reply

    def login_headers(self):
        if not self.cookie:
            return {}
        return {"Cookie": "weft=" + self.cookie,
                "X-Weft-Origin-Secret": self.origin_secret}

    def get(self, path):
        return self.call("GET", path, expect=200)[1]

    def status(self, method, path, body=None, **more):
        return self.call(method, path, body, **more)[0]

    def login(self, user, password=PASSWORD):
        self.call("POST", "/login", {"user": user, "password": password},
                  expect=200)
        return self


def code_of(secret, steps=1):
    """As an app makes it (RFC 6238), so many steps of 30 s from now: that of the next step is
    good for a minute more."""
    counter = struct.pack(">Q", int(time.time()) // 30 + steps)
    mac = hmac.digest(base64.b32decode(secret), counter, "sha1")
    at = mac[-1] & 15
    return f"{(int.from_bytes(mac[at:at + 4], 'big') & 0x7fffffff) % 10 ** 6:06}"


def wrong_code(secret):
    """That of no time near."""
    near = {code_of(secret, steps) for steps in range(-40, 41)}
    return next(c for c in map("{:06}".format, range(100)) if c not in near)


def setup_token(w):
    return (w.state / "setup-url").read_text().strip().split("#setup=")[1]


def first_login(w, user="root"):
    b = Browser(w)
    b.call("POST", "/setup", {"token": setup_token(w), "user": user,
                              "password": PASSWORD}, expect=201)
    return b


def add_user(admin, name, role):
    admin.call("POST", "/users", {"name": name, "role": role,
                                  "password": PASSWORD}, expect=201)
    return Browser(admin.weftd).login(name)


@pytest.fixture
def admin(weftd):
    return first_login(weftd)
