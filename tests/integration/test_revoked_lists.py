"""A process keeps the newest list of revoked certificates that it has got.

Topology: one process of the plugin, a member or a client of an array's service, and a weftd
that is played here: it refuses each call, and names a list in each answer.  Cause: it names
an older list, and names a newer one but has an older one; an older one is put into the
process's folder.  Pass: the process shows weftd the newest list each time, and takes a newer
one.
"""

import http.server
import json
import ssl
import threading

import pytest

from certificates import Authority
from wefttest import background, eventually, run


class RefusingWeftd:
    """`named` is the name of its list, `has` that list.  It notes what it is shown, and when
    its list is fetched: after an answer with which name."""

    def __init__(self, tls):
        self.named, self.has, self.told = "", "", ""
        self.shown, self.fetched = [], []
        weftd = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status, text="", name=""):
                self.send_response(status)
                if name:
                    self.send_header("Weft-Revoked", name)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def refuse(self):
                weftd.told = weftd.named
                self.answer(503, name=weftd.told)

            def do_GET(self):
                if self.path != "/ca-crl.pem":
                    self.refuse()
                    return
                text = weftd.has
                weftd.fetched.append(weftd.told)
                self.answer(200, text)

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.refuse()

            def do_PUT(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                weftd.shown.append((weftd.told, body["crl"]))
                self.answer(200)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls / "server-cert.pem", tls / "server-key.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"https://127.0.0.1:{self.server.server_port}"

    def name(self, name, has):
        self.has = has
        self.named = name

    def end(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.parametrize("role", ["member", "service"])
def test_an_older_list_is_not_taken(tmp_path, role):
    ca = Authority(tmp_path / "ca")
    tls = ca.host(tmp_path / "tls", "n1", "127.0.0.1")
    older, kept, newer = map(ca.revoked, (6, 7, 8))
    weftd = RefusingWeftd(tls)
    words = ["service=a"]
    if role == "member":
        with open(tmp_path / "disk", "wb") as f:
            f.truncate(64 << 20)
        run("weftctl", "disk", "format", tmp_path / "disk")
        words = [f"disk={tmp_path / 'disk'}", "uri=nbds://127.0.0.1:10810"]

    def shows(name, text):
        eventually(lambda: name in dict(weftd.shown), every=0.02)
        assert dict(weftd.shown)[name] == text

    (tls / "ca-crl.pem").write_text(kept)
    process = background(
        tmp_path / "log", "nbdkit", "-f", "-U", tmp_path / "socket", "--tls=require",
        "--tls-verify-peer", f"--tls-certificates={tls}", "weft", f"admin={weftd.url}",
        "node=n1", f"tls={tls}", *words)
    try:
        weftd.name("5-a", older)
        shows("5-a", kept)
        weftd.name("9-b", older)
        eventually(lambda: weftd.fetched.count("9-b") > 1, every=0.02)
        weftd.name("6-c", older)
        shows("6-c", kept)
        (tls / "ca-crl.pem").write_text(older)
        weftd.name("9-d", newer)
        shows("9-d", kept)
        eventually(lambda: "9-d" in weftd.fetched, every=0.02)
        weftd.name("6-e", older)
        shows("6-e", newer)
    finally:
        process.kill()
        process.wait()
        weftd.end()
    assert set(weftd.fetched) == {"9-b", "9-d"}
