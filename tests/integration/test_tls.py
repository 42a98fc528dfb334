"""TLS on the data path, with real certificates.

Topology: a devcluster whose members and array process verify each other by
          certificates of a CA of the test's own; nbdkit in a network namespace
          of its own, where there is an address that is no loopback.
Causes: a member is lost and rebuilt; a client, a member and an array process
        with a certificate of another CA, or none; starts that would expose
        something.
Pass:  The array works and is rebuilt over TLS alone.  A client without a valid certificate, or
       with TLS 1.1 at most, gets nothing.  A process that other hosts would reach without TLS
       and a certificate does not start, and says what to do.
"""

import json
import os
import random
import signal
import socket
import ssl
from urllib.parse import urlsplit

import nbd
import pytest

from arraystate import states, wait_in_sync, wait_state
from certificates import Authority, nbd_connect
from copies import check_copies, model_of
from nbdkitproc import Nbdkit, NotStarted
from weftctlproc import FAILED, ctl
from wefttest import Process, eventually, free_port, run

UNIT = 64 << 10
MIB = 1 << 20
# The array announces this as its largest request; libnbd 1.22 sends none larger.
LARGEST = 8 * MIB
OUTSIDE = "10.77.0.1"


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path / "ca")


@pytest.fixture
def tls(ca, tmp_path):
    return ca.host(tmp_path / "tls", "h",
                   *(f"127.0.0.{i}" for i in range(1, 9)), OUTSIDE)


@pytest.fixture
def strange(tmp_path):
    """A folder with a good certificate of another CA."""
    return Authority(tmp_path / "ca2").host(
        tmp_path / "strange", "h", *(f"127.0.0.{i}" for i in range(1, 9)),
        OUTSIDE)


def certified(path):
    """The environment of a devcluster that speaks TLS."""
    return {"WEFT_TLS": str(path)}


# --- The data path -------------------------------------------------------------


def test_array(cluster, tls, seed):
    """Written, degraded, rebuilt: libnbd refuses anything but TLS to nbds://,
    and nbdkit anything else with --tls=require."""
    c = cluster(members=3, layout="raid-x", unit=UNIT, size="61M",
                env=certified(tls))
    assert c.nbd.startswith("nbds://")
    h = nbd_connect(nbd.NBD(), c.nbd, tls)
    data = random.Random(seed).randbytes(LARGEST)
    h.pwrite(data, 0)
    h.flush()
    c.kill("m1")
    wait_state(c, 1, "out")
    h.pwrite(data[:MIB], LARGEST)
    assert h.pread(LARGEST, 0) == data
    with open(c.members[1]["file"], "r+b") as f:
        f.truncate(MIB)
        f.truncate(61 * MIB)
    run("weftctl", "disk", "format", "--force", c.members[1]["file"])
    c.start("m1")
    new = eventually(lambda: next(
        (d["uuid"] for d in c.get("/api/v1/disks")["disks"]
         if d["alive"] and d["array"] is None), None))
    status, reply = c.call("POST", "/api/v1/arrays/a/members/1/replace",
                           {"disk": new})
    assert status == 200, reply
    wait_in_sync(c)
    h.flush()
    check_copies(c, model_of(c, "raid-x", UNIT), lambda at, n: h.pread(n, at))
    assert h.pread(LARGEST, 0) == data


def test_device(cluster, ctl, tls):
    """nbdfuse speaks TLS without a certificate of ours: the message says so, and its advice
    helps."""
    c = cluster(members=3, size="61M", env=certified(tls))
    w = ctl(c)
    words = ["attach", "a", "--fuse", "--tls", tls]
    said = w(*words, status=FAILED)
    assert c.nbd in said and "end that process" in said
    assert not any(os.scandir(w.env["WEFT_RUN_DIR"]))
    c.terminate("array")
    device = w(*words).strip()
    with open(device, "r+b", buffering=0) as f:
        f.write(b"weft" * 1024)
        f.seek(0)
        assert f.read(4096) == b"weft" * 1024
    w("detach", "a")


def test_who_has_no_good_certificate(cluster, tls, strange):
    c = cluster(members=2, layout="raid-1", unit=UNIT, size="61M",
                env=certified(tls))
    for uri in (c.nbd, c.members[0]["uri"]):
        with pytest.raises(nbd.Error):
            nbd_connect(nbd.NBD(), uri, strange)
        with pytest.raises(nbd.Error):
            nbd.NBD().connect_uri(uri.replace("nbds:", "nbd:"))
    h = nbd_connect(nbd.NBD(), c.nbd, tls)
    h.pwrite(b"x" * MIB, 0)

    # An array process with such a certificate, by the same map.
    c.terminate("array")
    for words in ([f"tls={strange}"], []):
        with pytest.raises(NotStarted) as e:
            Nbdkit("weft", "array=a", f"admin={c.admin}", *words)
        assert "member m0" in str(e.value) and "CA" in str(e.value), e
    assert states(c) == ["in-sync"] * 2

    # A member that the array can't verify is none.
    c.start("array")
    c.kill("m1")
    wait_state(c, 1, "out")
    member = (c.dir / "m1.cmd").read_text().replace(str(tls), str(strange))
    (c.dir / "m1.cmd").write_text(member)
    c.start("m1")
    eventually(lambda: "certificate verification" in c.log("weftd"))
    assert states(c)[1] != "in-sync"
    h = nbd_connect(nbd.NBD(), c.nbd, tls)
    assert h.pread(MIB, 0) == b"x" * MIB


# --- TLS 1.2 at least ------------------------------------------------------------


OLD = {"GNUTLS_SYSTEM_PRIORITY_FILE": "/dev/null"}


def received(s, n):
    got = b""
    while len(got) < n:
        part = s.recv(n - len(got))
        assert part, got
        got += part
    return got


def negotiated(uri, tls, version):
    """The version that OpenSSL gets, as an NBD client with a good certificate that has
    no other; or ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(tls / "ca-cert.pem")
    context.load_cert_chain(tls / "client-cert.pem", tls / "client-key.pem")
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    at = urlsplit(uri)
    with socket.create_connection((at.hostname, at.port), timeout=20) as s:
        assert received(s, 18)[:16] == b"NBDMAGICIHAVEOPT"
        s.sendall((3).to_bytes(4, "big") + b"IHAVEOPT" + (5).to_bytes(4, "big") +
                  bytes(4))
        assert received(s, 20)[12:] == b"\0\0\0\1" + bytes(4)
        with context.wrap_socket(s) as t:
            return t.version()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_versions(cluster, tls, tmp_path):
    """At a member and at an array's export, with GnuTLS's defaults.  nbdkit alone accepts
    these versions: the test's client can use them."""
    c = cluster(members=2, layout="raid-1", unit=UNIT, size="61M",
                env={**certified(tls), **OLD})
    uris = [c.nbd, c.members[0]["uri"]]
    for uri in uris:
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            with pytest.raises(ssl.SSLError):
                negotiated(uri, tls, version)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            assert negotiated(uri, tls, version) == version.name.replace("_", ".")
    for name in ("array", "m0"):
        assert c.log(name).count("unsupported version") == 2
    port, pid = free_port(), tmp_path / "lax"
    run("nbdkit", "-P", pid, "-i", "127.0.0.1", "-p", port, "--tls=require",
        f"--tls-certificates={tls}", "memory", "1M", env=OLD)
    try:
        assert negotiated(f"nbds://127.0.0.1:{port}", tls,
                          ssl.TLSVersion.TLSv1) == "TLSv1"
    finally:
        end(pid)


# --- What does not start ---------------------------------------------------------


@pytest.fixture
def outside():
    """Words that run a program where OUTSIDE is an address of this host."""
    name = f"wtls{os.getpid()}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "addr", "add", f"{OUTSIDE}/24", "dev", "lo")
        yield ["ip", "netns", "exec", name]
    finally:
        run("ip", "netns", "del", name)


@pytest.fixture
def map_words(tmp_path):
    """`weft map=...` over one member that is a file."""
    file = tmp_path / "m0.img"
    run("truncate", "-s", "64M", file)
    with Nbdkit("file", file) as member:
        path = tmp_path / "map.json"
        path.write_text(json.dumps({"layout": "raid-0", "unit": UNIT,
                                    "members": [{"uri": member.uri}]}))
        yield ["weft", f"map={path}"]


def psk(directory):
    """A file of secrets that both ends of a connection know."""
    path = directory / "keys.psk"
    path.write_text("alice:" + "a5" * 32 + "\n")
    path.chmod(0o600)
    return path


def end(pid):
    """The nbdkit that writes this file."""
    eventually(lambda: pid.exists() and pid.read_text().strip(), every=0.02)
    process = Process(int(pid.read_text()))
    os.kill(process.pid, signal.SIGTERM)
    eventually(lambda: not process.alive(), every=0.02)


def refusal(*command, **kw):
    """Its messages as it ends."""
    p = run(*command, check=False, timeout=30, **kw)
    assert p.returncode != 0, p.stderr
    return p.stderr


@pytest.mark.parametrize("listen", [
    [], ["-i", OUTSIDE], [f"--ip-a={OUTSIDE}"], ["-i", "0.0.0.0"], ["-i", "::"],
    ["-4"]], ids=" ".join)
def test_array_off_loopback(outside, map_words, tls, tmp_path, listen):
    certificates = f"--tls-certificates={tls}"
    pid = tmp_path / "pid"
    said = refusal(*outside, "nbdkit", "-P", pid, *listen, *map_words)
    assert "--tls=require" in said and "-i 127.0.0.1" in said, said
    # That clients may speak TLS does not do.
    assert "--tls=require" in refusal(*outside, "nbdkit", "-P", pid, *listen,
                                      "--tls=on", certificates, *map_words)
    # And every client that verifies would be admitted.
    said = refusal(*outside, "nbdkit", "-P", pid, *listen, "--tls=require",
                   certificates, *map_words)
    assert "without --tls-verify-peer" in said, said
    secure = ["nbdkit", "-P", pid, *listen, "--tls", "require", "--tls-verify",
              certificates, *map_words]
    # By a shared secret, no client shows a certificate, and all of them are verified.
    said = refusal(*outside, *secure, f"--tls-psk={psk(tmp_path)}")
    assert "--tls-psk cannot" in said, said
    assert not pid.exists()
    # TLS and buffers of this nbdkit are as Weft knows them.
    assert "does not know the TLS code" not in run(*outside, *secure).stderr
    end(pid)


def test_on_this_host(outside, map_words, tmp_path):
    """Loopback, by number and name, and sockets that are no network's."""
    for i, listen in enumerate([["-i", "127.0.0.1"], ["-i", "localhost"],
                                ["-i", "::1"], ["-U", tmp_path / "s"]]):
        pid = tmp_path / f"pid{i}"
        run(*outside, "nbdkit", "-P", pid, *listen, *map_words)
        end(pid)


def test_member_off_loopback(outside, tls, tmp_path):
    file = tmp_path / "disk.img"
    run("truncate", "-s", "64M", file)
    run("weftctl", "disk", "format", file)
    before = file.read_bytes()
    words = ["-i", OUTSIDE, f"--tls-certificates={tls}"]
    weft = ["weft", f"disk={file}", "admin=http://127.0.0.1:1"]
    plain, secure = f"uri=nbd://{OUTSIDE}", f"uri=nbds://{OUTSIDE}"
    said = refusal(*outside, "nbdkit", "-f", *words, *weft, secure)
    assert "--tls=require --tls-verify-peer" in said, said
    # Without it, any client that speaks TLS would be admitted.
    said = refusal(*outside, "nbdkit", "-f", *words, "--tls=require", *weft,
                   secure)
    assert "without --tls-verify-peer" in said, said
    said = refusal(*outside, "nbdkit", "-f", *words, "--tls=require",
                   "--tls-verify-peer", f"--tls-psk={psk(tmp_path)}", *weft, secure)
    assert "--tls-psk cannot" in said, said
    said = refusal(*outside, "nbdkit", "-f", *words, "--tls=require",
                   "--tls-verify-peer", *weft, plain)
    assert "make it nbds://" in said, said
    said = refusal("nbdkit", "-f", "-U", tmp_path / "s", "weft",
                   f"disk={file}", f"admin=http://{OUTSIDE}:7380", plain)
    assert "https://" in said, said
    assert file.read_bytes() == before


@pytest.mark.parametrize("uri", [
    "nbd://h1", "nbd://10.0.0.1:10809/x", "nbd://127.0.0.1@h1", "NBD://h1",
    "nbd://[fe80::1]", "nbd://[::ffff:10.0.0.1]", "nbd://127.0.0.1.example",
    "nbd://localhost.example:1"])
def test_uri_of_another_host(map_words, uri):
    said = refusal("nbdkit", "-U", "-", *map_words, f"uri={uri}")
    assert "no TLS" in said, said


@pytest.mark.parametrize("uri", [
    "nbd://127.0.0.1:1", "nbd://127.3.2.1", "nbd://localhost", "nbd://[::1]:7",
    "nbd://user@127.0.0.1/x", "nbds://h1", "nbd+unix:///?socket=/h1"])
def test_uri_of_this_host(map_words, uri):
    with Nbdkit(*map_words, f"uri={uri}") as a:
        assert a.stop() == 0


def test_folder_without_certificates(map_words, tmp_path):
    said = refusal("nbdkit", "-U", "-", *map_words, f"tls={tmp_path}")
    assert f"{tmp_path}/ca-cert.pem" in said, said
    said = refusal("nbdkit", "-U", "-", "weft", "array=a",
                   "admin=https://127.0.0.1:1")
    assert "needs tls=FOLDER" in said, said


HANDED = """
import os, socket, sys
address, *command = sys.argv[1:]
s = socket.create_server((address, 0))
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execvp(command[0], command)
"""

# As inetd does it; the client asks for the default export.
LET_IN = """
import os, socket, sys
address, *command = sys.argv[1:]
listener = socket.create_server((address, 0))
c = socket.create_connection(listener.getsockname())
s = listener.accept()[0]
if os.fork() == 0:
    c.close()
    os.dup2(s.fileno(), 0)
    os.dup2(s.fileno(), 1)
    os.execvp(command[0], command)
s.close()
c.sendall((1).to_bytes(4, "big") + b"IHAVEOPT" + (1).to_bytes(4, "big") +
          bytes(4))
got = b""
while part := c.recv(4096):
    got += part
assert len(got) == 18, got
os.wait()
"""


def test_sockets_that_it_is_handed(outside, map_words):
    """LISTEN_FDS: sockets from systemd count as well."""
    said = refusal(*outside, "/usr/bin/python3", "-c", HANDED, OUTSIDE,
                   "nbdkit", "-f", *map_words)
    assert f"{OUTSIDE}, which other hosts reach" in said, said


def test_client_that_inetd_let_in(outside, map_words):
    """Nothing is listened on here; the client itself is looked at."""
    p = run(*outside, "/usr/bin/python3", "-c", LET_IN, OUTSIDE, "nbdkit",
            "-s", *map_words)
    assert "without TLS and is refused" in p.stderr, p.stderr
