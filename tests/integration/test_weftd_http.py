"""weftd as an HTTP server: requests that it refuses before any other code sees them.

Topology: one weftd.  Causes: foreign hosts and origins, bodies too long or
too deep, of another type or no JSON, noise, paths that lead out of the page's
directory, and many who wait.  Pass: each gets a plain error; weftd goes on.
"""

import concurrent.futures
import http.client
import json
import random
import re
import socket

import pytest

from weftdactors import Member, weftd
from wefttest import SOURCE, Stopwatch


def raw(w, request, timeout=15):
    """Send bytes; returns all that comes back until the server closes."""
    with socket.create_connection(w.address, timeout=timeout) as s:
        s.sendall(request)
        s.settimeout(timeout)
        data = b""
        try:
            while chunk := s.recv(65536):
                data += chunk
        except TimeoutError:
            pass
    return data


def request(w, method, path, body=None, **headers):
    c = http.client.HTTPConnection(*w.address, timeout=20)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    c.request(method, path, body, headers)
    r = c.getresponse()
    data = r.read()
    c.close()
    return r, data


def test_headers(weftd):
    r, _ = request(weftd, "GET", "/api/v1/status")
    assert r.headers["Content-Type"] == "application/json"
    assert "default-src 'self'" in r.headers["Content-Security-Policy"]
    assert r.headers["X-Content-Type-Options"] == "nosniff"
    assert r.headers["X-Frame-Options"] == "DENY"
    assert r.headers["Cache-Control"] == "no-store"
    r, _ = request(weftd, "GET", "/api/v1/nix")
    assert r.status == 404
    assert r.headers["Content-Type"] == "application/problem+json"
    r, data = request(weftd, "HEAD", "/api/v1/status")
    assert r.status == 200 and data == b""
    r, _ = request(weftd, "PUT", "/api/v1/arrays")
    assert r.status == 405 and r.headers["Allow"] == "GET, POST"


@pytest.mark.parametrize("name,fine", [
    ("127.0.0.1", True), ("127.0.0.1:80", True), ("localhost", True),
    ("LOCALHOST:7380", True), ("127.8.9.10", True), ("[::1]:80", True),
    ("evil.example", False), ("127.0.0.1.evil.example", False),
    ("localhost.evil.example", False), ("127.0.0.1:80@evil.example", False),
    ("10.0.0.1", False), ("[::2]", False), ("", False),
    ("127.0.0.1:80:80", False)])
def test_host_header(weftd, name, fine):
    r, data = request(weftd, "GET", "/api/v1/status", Host=name)
    assert (r.status == 200) == fine, data
    if not fine:
        assert r.status in (400, 403)


def test_the_page_of_localhost(weftd):
    """That name stands for ::1, too, where another user may listen on the same port: so
    no page stays there."""
    for name, to in [("localhost", ""), ("LocalHost:7380", ":7380"),
                     ("localhost:65535", ":65535"), ("127.0.0.1", None)]:
        for path in ("/", "/login.html", "/nix", "//evil.example/x", "/" + "x" * 4000):
            r, _ = request(weftd, "GET", path, Host=name)
            at = path if len(path) <= 200 else "/"
            assert r.headers["Location"] == (
                None if to is None else f"http://127.0.0.1{to}{at}")
            assert (r.status == 307) == (to is not None)


def test_no_host_header(weftd):
    answer = raw(weftd, b"GET /api/v1/status HTTP/1.0\r\n\r\n")
    assert b" 200 " not in answer.split(b"\r\n")[0]


def test_other_origins(weftd):
    for origin, status in (("https://evil.example", 403), ("null", 403),
                           (f"http://{weftd.listen}", 200)):
        r, _ = request(weftd, "GET", "/api/v1/status", Origin=origin)
        assert r.status == status, origin


def test_bodies(weftd):
    path = "/api/v1/arrays"
    j = "application/json"
    for body, kind, status in [
            ("{}", "text/plain", 415), ("{}", None, 415), ("", j, 400),
            ("{", j, 400), ("[]", j, 400), ("null", j, 400), ("1", j, 400),
            ('{"name":"a","name":"b"}', j, 400), (b'{"name":"\xff"}', j, 400),
            ('{"name":"a\\u0000b"}', j, 400), ("{} {}", j, 400),
            ("[" * 100000, j, 400), ('{"a":' * 2000, j, 400),
            (" " * (1 << 20) + "{}", j, 413),
            ("x" * (3 << 20), j, 413), ("{}", j + "; charset=utf-8", 422)]:
        headers = {"Content_Type": kind} if kind else {}
        r, data = request(weftd, "POST", path, body, **headers)
        assert r.status == status, (body[:40], kind, data)
        assert json.loads(data)["status"] == status
    # In chunks, the same.
    for size, status in [(100, 400), (2 << 20, 413)]:
        c = http.client.HTTPConnection(*weftd.address, timeout=20)
        try:
            c.request("POST", path, iter([b"x" * 65536] * (size // 65536 + 1)),
                      {"Content-Type": j}, encode_chunked=True)
            assert c.getresponse().status == status
        except (BrokenPipeError, ConnectionResetError):
            assert status == 413  # it did not want to hear more
        c.close()
    assert weftd.is_up()


CHUNKS = "0\r\n\r\n"
AMBIGUOUS = [
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", CHUNKS),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", CHUNKS),
    ("Content-Length: 2\r\nContent-Length: 40", "{}"),
    ("Content-Length: 2\r\nContent-Length: 2", "{}"),
    ("Content-Length: 2, 2", "{}"), ("Content-Length: +2", "{}"),
    ("Content-Length: 0x2", "{}"), ("Content-Length: -2", "{}"), ("Content-Length:", ""),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", CHUNKS),
    ("Transfer-Encoding: identity", "{}"), ("Transfer-Encoding: gzip, chunked", CHUNKS),
    ("Transfer-Encoding: xchunked", CHUNKS),
    ("Host: 127.0.0.1\r\nContent-Length: 2", "{}"),
    # civetweb has 64 places for headers, and drops those that follow.
    ("".join(f"X-{i}: a\r\n" for i in range(64)) + "Content-Length: 2", "{}"),
    # civetweb itself refuses these lines.
    ("X\r\nContent-Length: 2", "{}"), ("X: a\r\n\tb\r\nContent-Length: 2", "{}"),
    ("X: a\0b\r\nContent-Length: 2", "{}"), ("X: a\rContent-Length: 2", "{}"),
    ("X\xe9: a\r\nContent-Length: 2", "{}"), ("X y: a\r\nContent-Length: 2", "{}"),
    # civetweb drops the headers from these lines on.
    (" X: a\r\nContent-Length: 2", "{}"), (": a\r\nContent-Length: 2", "{}"),
    ("\xe9: a\r\nContent-Length: 2", "{}"), ("\rX: a\r\nContent-Length: 2", "{}"),
    ("X: a\n\r\nContent-Length: 2", "{}"),
    # LF alone, which other readers may not take for the end of a line.
    ("X: a\nContent-Length: 2", "{}"), ("Content-Length: 2\nX: a", "{}"),
    ("Content-Length: 2\r\nX: a\n\n{}", ""), ("Content-Length: 2\n", "{}")]


def test_many_headers(weftd):
    """As many as weftd accepts."""
    for more, status in ((61, b"200"), (62, b"400")):
        lines = ["GET /api/v1/status HTTP/1.1", "Host: 127.0.0.1", "Connection: close",
                 *(f"X-{i}: a" for i in range(more)), "\r\n"]
        assert raw(weftd, "\r\n".join(lines).encode())[9:12] == status


@pytest.mark.parametrize("call", ["POST /api/v1/arrays", "GET /api/v1/status",
                                  "GET /index.html", "GET /api/v1/none"])
def test_ambiguous_framing(weftd, call):
    """One answer, an error, and the end: no byte of it is taken for a second request.
    (civetweb itself answers 411 to a length that it can't read.)"""
    for framing, body in AMBIGUOUS:
        answer = raw(weftd, (
            f"{call} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"{framing}\r\n\r\n{body}"
            "GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").encode())
        assert answer[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 411 "), (framing, answer)
        assert answer.count(b"HTTP/1.1 ") == 1, (framing, answer)
    for end in ("\r\n ", "\r\n\t", "\n", "\n\r\n"):
        answer = raw(weftd, f"{call} HTTP/1.1{end}Host: 127.0.0.1\r\n\r\n".encode())
        assert answer[:13] == b"HTTP/1.1 400 ", (end, answer)
        assert answer.count(b"HTTP/1.1 ") == 1, (end, answer)


@pytest.mark.parametrize("empty", ["\r\n\r\n", "\n\n", " \n\n", "\r\n"])
def test_no_request_goes_on_in_earlier_bytes(weftd, empty):
    """Empty lines before a request: civetweb looks for its end in all that its thread has
    received before, also from other callers.  Here the end of a request was left there by
    one caller, who then sends half a request."""
    left = "left HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    head = ("PUT /api/v1/none HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(left)}\r\n\r\n")
    half = f"{empty}GET /"
    half += "x" * (len(head) - len(half))
    whole = f"{empty}GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for second in (half, whole):
        with socket.create_connection(weftd.address, timeout=15) as s:
            s.sendall((head + left).encode())
            assert s.recv(65536)[9:12] in (b"404", b"405")
            s.sendall(second.encode())
            s.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: s.recv(65536), b""))
        assert answer[9:12] == b"400" and b"left" not in answer, answer
        assert answer.count(b"HTTP/1.1 ") == 1, answer


def test_noise(weftd, seed):
    """No bytes of whatever kind end weftd or are taken for a request."""
    rng = random.Random(seed)
    for _ in range(60):
        kind = rng.randrange(4)
        if kind == 0:
            data = rng.randbytes(rng.randrange(1, 3000))
        elif kind == 1:
            data = b"GET /" + rng.randbytes(rng.randrange(200)) + \
                b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        elif kind == 2:
            data = b"POST /api/v1/arrays HTTP/1.1\r\nHost: 127.0.0.1\r\n" \
                b"Content-Type: application/json\r\nConnection: close\r\n" \
                b"Content-Length: 10\r\n\r\n" + rng.randbytes(10)
        else:
            data = b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * rng.randrange(300) + \
                b"Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
        with socket.create_connection(weftd.address, timeout=5) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            try:
                while s.recv(65536):
                    pass
            except OSError:
                pass
    assert weftd.is_up() and weftd.get("/arrays")["arrays"] == []


def test_heartbeat_fuzz(weftd, seed):
    """A heartbeat with one field made bad: an error, and no other field blamed
    or change made."""
    rng = random.Random(seed)
    m = Member(weftd, 0)
    m.beat()
    known = weftd.get("/disks")["disks"]
    for d in known:
        d.pop("last_heard_ms"), d.pop("load")
    values = [None, "", "x" * 5000, -1, 1 << 62, 1.5, True, [], {}, "\u0001",
              "<script>", "é", -(1 << 63)]
    for _ in range(400):
        body = m.body()
        name = rng.choice(sorted(body))
        body[name] = rng.choice(values)
        if rng.random() < 0.2:
            del body[name]
        status, r = weftd.call("POST", f"/disks/{m.uuid}/heartbeat", body)
        assert status in (200, 409, 422, 503), (name, body.get(name), r)
        if status == 422:
            assert r["field"] == name or name == "load", (name, r)
        if status == 503:
            break
    for d in weftd.get("/disks")["disks"]:
        assert d["uuid"] == m.uuid


def test_files(weftd):
    r, page = request(weftd, "GET", "/")
    assert r.status == 200 and b"<html" in page
    assert r.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in r.headers["Content-Security-Policy"]
    r2, _ = request(weftd, "GET", "/", If_None_Match=r.headers["ETag"])
    assert r2.status == 304
    # Everything that the page asks for is there.
    for ref in re.findall(rb'(?:src|href)="(/[^"#]+)"', page):
        r, _ = request(weftd, "GET", ref.decode())
        assert r.status == 200, ref
    for path in ["/..", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
                 "/vendor/../../../../etc/passwd", "/vendor/bootstrap5/../x",
                 "/vendor/bootstrap5/%2e%2e/%2e%2e/x", "//etc/passwd",
                 "/./index.html", "/.hidden", "/vendor", "/vendor/",
                 "/vendor/bootstrap5", "/vendor/nix/x", "/index.html/",
                 "/..\\x", "/index.html%00.js", "/" + "a" * 6000]:
        r, data = request(weftd, "GET", path)
        assert r.status == 404, path
        assert b"root:" not in data
    r, _ = request(weftd, "POST", "/index.html", "x")
    assert r.status == 405
    assert (SOURCE / "admin-ui" / "index.html").read_bytes() == page


def test_many_long_polls(all_threads, weftd):
    """As many members wait at once as a big cluster has, and a person still
    gets an answer."""
    ms = [Member(weftd, i % 200) for i in range(250)]
    for m in ms:
        assert m.beat()[0] == 200
        m.beat()
    with concurrent.futures.ThreadPoolExecutor(len(ms)) as threads:
        threads.map(lambda m: m.beat(wait_ms=2000), ms)
        watch = Stopwatch()
        assert len(weftd.get("/disks")["disks"]) == 250
        assert watch.seconds() < 5
    assert all(m.said[-1][0] == 200 for m in ms)
