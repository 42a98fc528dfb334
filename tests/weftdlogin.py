"""People who log in to a weftd, and their first login.

    from weftdlogin import *

and by name the fixtures: `weftd`, one that wants a login, and `admin`, its first
administrator, logged in.
"""

import http.client
import json
import re

import pytest

from weftdactors import Weftd

__all__ = ["Browser", "PASSWORD", "add_user", "first_login", "setup_token"]

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
        self.cookie = self.csrf = None
        self.headers = {}

    def call(self, method, path, body=None, expect=None, **more):
        headers = {k.replace("_", "-"): v for k, v in more.items()}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(body)
        if self.cookie:
            headers.setdefault("Cookie", "weft=" + self.cookie)
        if self.csrf and method != "GET":
            headers.setdefault("X-Weft-CSRF", self.csrf)
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
            self.csrf = reply["csrf"]
        return r.status, reply

    def get(self, path):
        return self.call("GET", path, expect=200)[1]

    def status(self, method, path, body=None, **more):
        return self.call(method, path, body, **more)[0]

    def login(self, user, password=PASSWORD):
        self.call("POST", "/login", {"user": user, "password": password},
                  expect=200)
        return self


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
