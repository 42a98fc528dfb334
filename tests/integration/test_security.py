"""Attackers: many connections, slow ones, endless bodies, paths and Host headers that lead
elsewhere, names with script.

Topology: one weftd that requires a login, by HTTP on a loopback address and by HTTPS on all.
Pass: each attack is refused, the log has one line for many tries, and weftd goes on answering
others meanwhile.
"""

import http.client
import json
import random
import re
import resource
import socket
import ssl
import threading
import time

import pytest

from weftdactors import Weftd
from weftdlogin import *
from weftdlogin import admin
from wefttest import Stopwatch, eventually

MANY = 10000
SOON = 30  # seconds; a flood of all threads holds them for longer


@pytest.fixture
def weftd(tmp_path):
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", login=True) as w:
        yield w


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def refusals(w, text):
    return len(re.findall(f"warning: .*{text}", w.log.read_text()))


def answers_soon(caller):
    watch = Stopwatch()
    assert caller.status("GET", "/status") == 200
    assert watch.seconds() < SOON


def flood(address, count, data, sockets=None):
    """In `sockets` is what there is, also when it fails."""
    sockets = [] if sockets is None else sockets
    for i in range(count):
        s = socket.socket()
        sockets.append(s)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                     b"\1\0\0\0\0\0\0\0")  # ports are free at once
        s.settimeout(30)
        try:
            s.connect(address)
            s.sendall(data)
        except OSError:
            pass  # closed already
    return sockets


# ---- Connections ----


@pytest.mark.parametrize("data", [
    b"", b"G", b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
    b"POST /api/v1/login HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"])
@pytest.mark.parametrize("tls", [False, True])
def test_ten_thousand_connections(weftd, admin, many_descriptors, data, tls):
    """Opened, and then silent in the midst of something."""
    address = weftd.tls_address if tls else weftd.address
    if tls:
        data = data[:1] and b"\x16\x03\x01\x02\x00\x01" + data[:9]
    stop, took, shut_out = threading.Event(), [], []

    def look():
        while not stop.is_set():
            watch = Stopwatch()
            try:
                assert admin.status("GET", "/status") == 200
                took.append(watch.seconds())
            except OSError as e:  # it was the oldest of the silent ones
                shut_out.append(e)
            time.sleep(0.05)
    thread = threading.Thread(target=look)
    thread.start()
    sockets = []
    try:
        flood(address, MANY, data, sockets)
        for _ in range(10):
            answers_soon(admin)
        stop.set()
        thread.join()
        assert len(took) > 9 * len(shut_out), (took, shut_out)
        assert max(took) < SOON, max(took)
    finally:  # else the tests after it would find none left
        stop.set()
        thread.join()
        for s in sockets:
            s.close()
    assert refusals(weftd, "closed a connection from 127.0.0.1") == 1
    answers_soon(admin)


def test_slow_loris(weftd, admin, seed):
    """A byte now and then, on more connections than weftd has threads."""
    rng = random.Random(seed)
    sockets = flood(weftd.address, 1500, b"GET /api/v1/me HTTP/1.1\r\n")
    end = time.monotonic() + 8
    while time.monotonic() < end:
        for s in rng.sample(sockets, 300):
            try:
                s.send(b"X")
            except OSError:
                pass
        answers_soon(admin)
    # A single one is not kept for ever either.
    with socket.create_connection(weftd.address, timeout=60) as s:
        watch = Stopwatch()
        try:
            while watch.seconds() < 50:
                s.send(b"G")
                time.sleep(0.5)
        except OSError:
            pass
        assert watch.seconds() < 45
    for s in sockets:
        s.close()


def test_who_waits_rightly_is_left_alone(weftd, admin, many_descriptors):
    """Streams of events outlive a flood."""
    streams = []
    for _ in range(20):
        c = http.client.HTTPConnection(*weftd.address, timeout=60)
        c.request("GET", "/api/v1/events",
                  headers=admin.login_headers())
        streams.append((c, c.getresponse()))
    sockets = flood(weftd.address, 3000, b"G")
    answers_soon(admin)
    admin.call("POST", "/tokens", {"name": "t", "role": "viewer"}, expect=201)
    for c, r in streams:
        assert r.status == 200
        assert r.fp.read1(10).startswith(b"retry")
    weftd.stop()
    for c, r in streams:
        assert b"event: snapshot" in r.read()
        c.close()
    for s in sockets:
        s.close()
    weftd.start()


def test_ipv6(tmp_path):
    """If civetweb supports it; otherwise the message says that it does not."""
    w = Weftd(tmp_path)
    w.listen = "[::1]:0"
    w.start(wait=False)
    eventually(lambda: w.url_file.exists() or w.process.poll() is not None)
    if w.process.poll() is not None:
        assert "without IPv6; give an IPv4 address" in w.log.read_text()
        return
    for host, fine in [("[::1]", True), ("[0:0:0:0:0:0:0:1]:9", True),
                       ("localhost", True), ("[::2]", False), ("::1", False)]:
        c = http.client.HTTPConnection("::1", int(w.url.rsplit(":")[-1]),
                                       timeout=30)
        c.request("GET", "/api/v1/me", headers={"Host": host})
        assert (c.getresponse().status == 200) == fine, host
        c.close()
    w.end()


# ---- Bodies ----


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_without_end(weftd, admin, chunked):
    """100 MB: refused at once, not read."""
    for caller in (admin, Browser(weftd)):
        for path in ("/arrays", "/login", "/nix"):
            with socket.create_connection(weftd.address, timeout=60) as s:
                head = [f"POST /api/v1{path} HTTP/1.1", "Host: 127.0.0.1",
                        "Content-Type: application/json",
                        "Transfer-Encoding: chunked" if chunked
                        else f"Content-Length: {100 << 20}"]
                head += [f"{name}: {value}" for name, value
                         in caller.login_headers().items()]
                s.sendall("\r\n".join(head + ["", ""]).encode())
                sent = 0
                chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
                try:
                    while chunked and sent < 100 << 20:
                        s.sendall(chunk)
                        sent += 65536
                except OSError:
                    pass
                assert sent < 20 << 20
                try:
                    answer = s.recv(65536)
                except ConnectionError:
                    assert chunked
                    continue
                assert b" 413 " in answer.split(b"\r\n")[0], answer
    answers_soon(admin)


@pytest.mark.parametrize("path", ["login", "arrays"])
def test_damaged_chunks(weftd, admin, path):
    """The bytes after half a body are not taken as a request."""
    inner = b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for size in (b"-5", b"x", b"7fffffffffffffff"):
        with socket.create_connection(weftd.address, timeout=60) as s:
            s.sendall(f"POST /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                      "Content-Type: application/json\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n".encode() +
                      b"2\r\n{}\r\n" + size + b"\r\n" + inner)
            s.shutdown(socket.SHUT_WR)
            said = b""
            try:
                while more := s.recv(65536):
                    said += more
            except ConnectionError:
                pass
        assert said.count(b"HTTP/1.1 ") <= 1, said
        assert b"login_required" not in said
    answers_soon(admin)


# ---- Names and paths ----


def test_paths_lead_nowhere(weftd):
    """Nothing of the state, nor of the host, by any spelling."""
    secrets = ["weftd.db", "ca-key.pem", "setup-url", "weftd.lock"]
    paths = [f"{up}{name}" for name in secrets + ["etc/passwd"]
             for up in ("/", "/../", "/../" * 8, "/%2e%2e/", "/..%2f" * 8,
                        "/%252e%252e/", "/vendor/../../state/",
                        f"/{weftd.state}/", f"//{weftd.state}/",
                        "/....//", "/..\\", "/%5c..%5c", "/./")]
    before = len(weftd.log.read_text())
    for address in (weftd.address, weftd.tls_address):
        for path in paths:
            s = socket.create_connection(address, timeout=30)
            if address == weftd.tls_address:
                context = ssl.create_default_context(
                    cafile=weftd.state / "ca-cert.pem")
                s = context.wrap_socket(s, server_hostname="127.0.0.1")
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                      "Connection: close\r\n\r\n".encode())
            answer = b""
            while chunk := s.recv(65536):
                answer += chunk
            s.close()
            assert b" 404 " in answer[:20] or b" 400 " in answer[:20], path
            assert b"PRIVATE" not in answer and b"SQLite" not in answer
            assert b"root:" not in answer and b"#setup" not in answer
    assert weftd.is_up()
    assert len(weftd.log.read_text()) - before < 2000


def test_host_headers(weftd, admin):
    """A name that somebody else made point here."""
    for _ in range(20):
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.",
                     "127.1", "0x7f.0.0.1", "2130706433", "[::ffff:x]",
                     "127.0.0.1@evil.example", "evil.example:80",
                     "127.0.0.1, evil.example", "127.0.0.1 evil.example"):
            assert admin.status("GET", "/status", Host=host) in (400, 403), host
    assert refusals(weftd, "a Host header") == 1
    for host in ("127.0.0.1", "localhost", "10.9.8.7"):  # of any address
        assert admin.status("GET", "/status", Host=host) == 200
    for _ in range(20):
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1",
                       "file://", "http://localhost", "", "https://"):
            assert admin.status("POST", "/logout", Origin=origin) == 403
    assert refusals(weftd, "another origin") == 1
    answers_soon(admin)


def test_refusals_are_said_once(weftd, admin):
    nobody = Browser(weftd)
    size = len(weftd.log.read_text())
    for _ in range(100):
        assert nobody.status("DELETE", "/arrays/a") == 401
        assert admin.status("DELETE", "/tokens/nix") == 404
        assert Browser(weftd, "wrong").status("GET", "/status") == 401
    assert refusals(weftd, "login-required") == 1
    assert len(weftd.log.read_text()) - size < 1000
    audit = admin.get("/audit?limit=1000")["audit"]
    assert sorted((e["action"], e["status"], e["times"]) for e in audit) == [
        ("DELETE /arrays/{name}", 401, 100)] + 100 * [
        ("DELETE /tokens/{name}", 404, 1)] + [("POST /setup", 201, 1)]


def test_names_that_are_script(weftd, admin, seed):
    """A name can't bring a tag into the page; free text is JSON and stays text."""
    rng = random.Random(seed)
    script = "<script>alert(1)</script>"
    for path, body in [
            ("/users", {"name": script, "role": "admin", "password": PASSWORD}),
            ("/tokens", {"name": script, "role": "viewer"}),
            ("/node-tokens", {"node": script}),
            ("/arrays", {"name": script, "layout": "raid-0", "disks": []}),
            ("/login", {"user": script, "password": "x"})]:
        status, reply = admin.call("POST", path, body)
        assert status == 422 and admin.headers["Content-Type"] == \
            "application/problem+json"
        assert admin.headers["X-Content-Type-Options"] == "nosniff"
        assert "script" not in json.dumps(reply)
    path = "/arrays/" + "".join(rng.choice("<>\"'&;%") for _ in range(8))
    c = http.client.HTTPConnection(*weftd.address, timeout=30)
    c.request("GET", "/api/v1" + path)
    r = c.getresponse()
    assert r.status in (400, 401, 404)
    assert "unsafe-inline" not in r.headers["Content-Security-Policy"]
    c.close()
    assert script not in weftd.log.read_text()
