"""weftctl and its user: setup, login, tokens, users, configuration, TLS.

Topology: one weftd that wants a login, and weftctl with a home of its own.
Pass: a secret is taken from files and the terminal only, is kept for nobody
else, and appears in no output, error or argument list.
"""

import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import urllib.request

import pytest

from certificates import Authority
from weftctlproc import FAILED, OK, REFUSED, UNREACHABLE, USAGE, Ctl
from weftdactors import Weftd
from weftdlogin import code_of, weftd
from wefttest import eventually, run

PASSWORD = "correct horse battery"


class Person(Ctl):
    """Somebody at a shell, with a home."""

    def __init__(self, url, home):
        super().__init__(url, home / "run")
        home.mkdir()
        self.home = home
        self.env |= {"HOME": str(home), "XDG_CONFIG_HOME": "",
                     "WEFT_CONF": str(home / "weft.conf")}
        self.kept = home / ".config/weft/token"

    def secret(self, name, text):
        path = self.home / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path


@pytest.fixture
def admin(weftd, tmp_path):
    """Has made the first user, and is logged in."""
    p = Person(weftd.url, tmp_path / "home")
    p.password = p.secret("password", PASSWORD)
    p("setup", "root", "--url-file", weftd.state / "setup-url",
      "--password-file", p.password)
    p("login", "--user", "root", "--password-file", p.password)
    return p


def test_setup_and_login(weftd, tmp_path):
    p = Person(weftd.url, tmp_path / "home")
    assert "no user yet" in p("whoami")
    assert "login" in p("status", status=REFUSED)
    short = p.secret("short", "short")
    url = weftd.state / "setup-url"
    p("setup", "root", "--url-file", url, "--password-file", short,
      status=REFUSED)
    password = p.secret("password", PASSWORD)
    p("setup", "root", "--url-file", password, "--password-file", password,
      status=USAGE)
    p("setup", "root", status=USAGE)
    assert "root" in p("setup", "root", "--url-file", url,
                       "--password-file", password)
    assert not url.exists()
    assert "weftctl login" in p("whoami")
    device = p.kept.with_name("device-root")
    known = device.read_text()
    assert stat.S_IMODE(device.stat().st_mode) == 0o600

    wrong = p.secret("wrong", PASSWORD + "!")
    p("login", "--user", "root", "--password-file", wrong, status=REFUSED)
    p("login", "--user", "root", status=USAGE)  # no terminal to ask on
    p("login", "--password-file", password, status=USAGE)
    assert not p.kept.exists()
    p("login", "--user", "root", "--password-file", password)
    assert device.read_text() == known
    assert stat.S_IMODE(p.kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(p.kept.parent.stat().st_mode) == 0o700
    assert "(admin), by token" in p("whoami")
    assert p.json("whoami")["role"] == "admin"
    p("status")

    # The cookie's login is over; the token goes, too.
    assert p.json("user", "ls")["users"][0]["logins"] == 0
    token = p.kept.read_text().splitlines()[0]
    p("logout")
    assert not p.kept.exists()
    stolen = p.secret("stolen", token)
    p("status", "--token-file", stolen, status=REFUSED)
    assert "weftctl login" in p("logout", status=FAILED)


def test_login_asks_without_echo(weftd, admin):
    admin("logout")
    with admin.terminal("login") as t:
        for question, answer in (("User:", "root"), ("Password:", PASSWORD)):
            t.until(question)
            t.type(answer)
        said = t.until("(admin)")
        assert t.wait() == OK
    assert PASSWORD not in said
    assert admin.json("whoami")["via"] == "token"


def test_two_passwords_that_differ(admin):
    with admin.terminal("user", "add", "eve", "--role", "admin") as t:
        for question, answer in (("Password:", "one password here"),
                                 ("Once more:", "another password")):
            t.until(question)
            t.type(answer)
        assert t.wait() == FAILED
    assert [u["name"] for u in admin.json("user", "ls")["users"]] == ["root"]


def test_the_token_goes_to_no_other_weftd(weftd, admin, tmp_path):
    other = weftd.url.replace("127.0.0.1", "localhost")
    assert "weftctl login" in admin("whoami", "--admin", other)
    # Not in clear to another host, wherever it comes from.
    token = admin.secret("token", admin.kept.read_text().splitlines()[0])
    line = admin("status", "--admin", "http://192.0.2.1:7380",
                 "--token-file", token, status=UNREACHABLE)
    assert "https://" in line and token.read_text().strip() not in line
    line = admin("login", "--admin", "http://192.0.2.1:7380", "--user", "root",
                 "--password-file", admin.password, status=UNREACHABLE)
    assert "https://" in line and PASSWORD not in line


def test_configuration(weftd, admin):
    """The file, then the environment, then the options."""
    conf = admin.home / "weft.conf"
    token = admin.secret("token", admin.kept.read_text().splitlines()[0])
    admin.kept.unlink()
    url = admin.env.pop("WEFT_ADMIN")
    conf.write_text("# where\n; or\n\nWEFT_ADMIN=http://127.0.0.1:1\n"
                    f" WEFT_TOKEN_FILE=\"{token}\" \nWEFT_OTHER=x\n")
    env = {**admin.env, "WEFT_ADMIN": "", "WEFT_TOKEN_FILE": ""}
    admin.env = env
    assert "127.0.0.1:1" in admin("status", status=UNREACHABLE)
    env["WEFT_ADMIN"] = url
    assert "by token" in admin("whoami")
    env["WEFT_TOKEN_FILE"] = str(admin.home / "missing")
    assert "missing" in admin("status", status=USAGE)
    assert "by token" in admin("whoami", "--token-file", token)
    assert "127.0.0.1:2" in admin("status", "--admin", "http://127.0.0.1:2",
                                  "--token-file", token, status=UNREACHABLE)
    conf.unlink()
    conf.mkdir()
    assert "weft.conf" in admin("status", status=FAILED)


def test_a_secret_that_all_may_read(admin):
    token = admin.secret("token", admin.kept.read_text().splitlines()[0])
    token.chmod(0o644)
    line = admin("status", "--token-file", token, status=USAGE)
    assert "chmod 600" in line
    empty = admin.secret("empty", "")
    admin("status", "--token-file", empty, status=USAGE)


def test_users_and_tokens(weftd, admin):
    password = admin.secret("bobs", "another long password")
    admin("user", "add", "bob", "--password-file", password, status=USAGE)
    admin("user", "add", "bob", "--role", "king", "--password-file", password,
          status=USAGE)
    admin("user", "add", "Bob", "--role", "viewer", "--password-file",
          password, status=USAGE)
    assert "bob" in admin("user", "add", "bob", "--role", "viewer",
                          "--password-file", password)
    rows = admin("user", "ls").splitlines()
    assert [r.split()[:2] for r in rows[1:]] == [["bob", "viewer"],
                                                ["root", "admin"]]
    admin("user", "set", "bob", status=USAGE)
    admin("user", "set", "bob", "--role", "admin")
    assert admin.json("user", "ls")["users"][0]["role"] == "admin"
    admin("user", "set", "bob", "--role", "viewer")
    # The last one who may change anything stays.
    admin("user", "set", "root", "--role", "viewer", status=REFUSED)

    assert "bob" in admin("user", "rm", "bob", "--dry-run")
    assert "--yes" in admin("user", "rm", "bob", status=USAGE)
    status, said = admin.on_terminal("user", "rm", "bob", answer="alice")
    assert status == FAILED
    assert len(admin.json("user", "ls")["users"]) == 2
    status, said = admin.on_terminal("user", "rm", "bob", answer="bob")
    assert status == OK, said
    assert len(admin.json("user", "ls")["users"]) == 1

    token = admin("token", "add", "ci", "--expires", "1h").strip()
    assert re.fullmatch(r"\S{32,}", token)
    viewer = admin.secret("ci", token)
    assert "ci (viewer)" in admin("whoami", "--token-file", viewer)
    admin("status", "--token-file", viewer)
    admin("user", "ls", "--token-file", viewer, status=REFUSED)
    assert re.search(r"^ci +viewer ", admin("token", "ls"), re.MULTILINE)
    admin("token", "add", "ci", status=REFUSED)
    admin("token", "add", "x", "--expires", "1y", status=USAGE)
    admin("token", "rm", "ci", "--yes")
    admin("whoami", "--token-file", viewer, status=REFUSED)

    lines = admin("audit", "--limit", "3").splitlines()
    assert len(lines) == 4 and "DELETE" in lines[-1] and "ci" in lines[-1]
    everything = admin("audit", "--limit", "1000") + weftd.log.read_text()
    for secret in (PASSWORD, "another long password", token):
        assert secret not in everything


def test_second_factor(weftd, admin):
    """Its secret is shown once, and a code of it is asked for on the terminal."""
    def turn_on():
        said = admin("user", "totp", "root", "on")
        secret = re.search(r"secret=([A-Z2-7]{32})&", said)[1]
        assert said.count(secret) == 2 and "otpauth://totp/Weft:root?" in said
        return secret

    secret = turn_on()
    assert re.search(r"^root +admin +\d+ +yes ", admin("user", "ls"), re.MULTILINE)
    admin("user", "totp", "root", "of", status=USAGE)
    assert "second factor" in admin("user", "totp", "root", "off", status=REFUSED)
    status, said = admin.on_terminal("user", "totp", "root", "off", answer=code_of(secret))
    assert status == OK and "Code of the second factor:" in said, said
    secret = turn_on()
    login = ("login", "--user", "root", "--password-file", admin.password)
    assert "has a second factor" in admin(*login, status=REFUSED)
    assert "root (admin)" in admin(*login, "--code", code_of(secret))
    assert secret not in weftd.log.read_text() + admin("audit")


def test_the_audit_log(weftd, admin, tmp_path):
    """The file also has lines from before the log was configured, and lines that a killed
    weftd had not written.  A manipulated log is refused at its first wrong line."""
    log, old = tmp_path / "audit.log", tmp_path / "audit.log.1"

    def lines(*files):
        """The whole lines: weftd may be writing one."""
        return [json.loads(x) for f in files for x in f.read_text().splitlines(True)
                if x.endswith("\n")]

    def done(count, *files):
        eventually(lambda: log.exists() and len(lines(*files or [log])) >= count,
                   what=f"{count} lines")
        trail = admin.json("audit")["audit"][::-1]
        assert [(x["id"], x["action"]) for x in lines(*files or [log])] == \
            [(x["id"], x["action"]) for x in trail]

    count = len(admin.json("audit")["audit"])
    weftd.extra = ["--audit-log", str(log)]
    weftd.restart(kill=True)
    done(count)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    admin("token", "add", "ci")
    done(count + 1)
    weftd.kill()  # a torn line
    log.write_bytes(log.read_bytes()[:-50])
    assert "cut off" in admin("audit", "verify", log, status=FAILED)
    weftd.start()
    done(count + 1)
    assert f"1 to {count + 1} are whole" in admin("audit", "verify", log)

    # Rotation.
    log.rename(old)
    weftd.process.send_signal(signal.SIGHUP)
    eventually(log.exists, what="a new file")
    admin("token", "rm", "ci", "--yes")
    done(count + 2, old, log)
    assert f"1 to {count + 2} are" in admin("audit", "verify", old, log)
    assert f"{count + 2} to {count + 2}" in admin("audit", "verify", log)
    assert "missing at its end" in admin("audit", "verify", old, status=FAILED)

    # Each kind of tampering is named.
    good = old.read_text().splitlines(keepends=True)
    for evil, said in [
            ([good[0].replace("200", "201").replace("POST", "GET"), *good[1:]], "line 1"),
            ([good[0], *good[2:]], "line 2"),
            ([good[1], good[0], *good[2:]], "line 2"),
            ([*good[:2], good[2][:40] + "\n"], "line 3"),
            (good[:-1], "line 1: number")]:
        old.write_text("".join(evil))
        assert said in admin("audit", "verify", old, log, status=FAILED)
    old.write_text("".join(good))
    kept = log.read_text()
    log.write_text("")
    assert "missing at its end" in admin("audit", "verify", old, log, status=FAILED)
    log.write_text(kept)

    # A line that can't be written is reported, and not lost.
    log.unlink()
    log.mkdir()
    weftd.process.send_signal(signal.SIGHUP)
    admin("token", "add", "late")
    eventually(lambda: "cannot be written" in admin("status"), what="the verdict")
    log.rmdir()
    eventually(lambda: log.exists() and len(lines(log)) == 1, what="the line")
    log.write_text(kept + log.read_text())
    assert f"1 to {count + 3} are" in admin("audit", "verify", old, log)
    eventually(lambda: "cannot be written" not in admin("status"), what="the verdict")


def test_a_viewer_logs_in_too(weftd, admin, tmp_path):
    password = admin.secret("bobs", "another long password")
    admin("user", "add", "bob", "--role", "viewer", "--password-file", password)
    bob = Person(weftd.url, tmp_path / "bob")
    bob("login", "--user", "bob", "--password-file", password)
    assert bob.json("whoami")["role"] == "viewer"
    bob("status")
    bob("user", "ls", status=REFUSED)

    # A user can change the own password only with the current one.
    new = admin.secret("bobs-new", "yet another password")
    said = bob("user", "set", "bob", "--password-file", new, status=REFUSED)
    assert "weftctl user password" in said
    own = ["user", "password", "bob", "--password-file", new, "--current-file"]
    bob(*own, new, status=REFUSED)
    bob("user", "password", "bob", "--password-file", new, status=USAGE)
    bob("user", "password", "root", "--password-file", new, "--current-file",
        password, status=REFUSED)
    known = bob.kept.with_name("device-bob").read_text()
    assert "bob" in bob(*own, password)
    assert bob.kept.with_name("device-bob").read_text() == known
    assert bob.json("whoami")["role"] == "viewer"  # the token is as good
    assert [u["logins"] for u in admin.json("user", "ls")["users"]] == [0, 0]
    bob("login", "--user", "bob", "--password-file", password, status=REFUSED)
    bob("login", "--user", "bob", "--password-file", new)
    bob("logout")
    assert not bob.kept.exists()


def test_two_users_share_a_home(weftd, admin):
    """Each stays a device that weftd knows, however often the other logs in."""
    device = admin.kept.with_name("device-root")
    known = device.read_text()
    password = admin.secret("anns", PASSWORD)
    admin("user", "add", "ann", "--role", "viewer", "--password-file", password)
    for user in ("ann", "root", "ann", "root"):
        admin("login", "--user", user, "--password-file", password)
    assert device.read_text() == known
    assert device.with_name("device-ann").exists()


@pytest.mark.parametrize("foreign", ["home", ".config", ".config/weft", "link"])
def test_another_users_home(weftd, admin, tmp_path, foreign):
    """Root writes and removes nothing where that user could put a link."""
    folder = admin.home / ".config/weft"
    target = tmp_path / "target"
    target.mkdir()
    if foreign == "link":
        folder.rename(target / "weft")
        admin.kept = target / "weft/token"
        folder.symlink_to(target / "weft")
        os.chown(folder, 65534, 65534, follow_symlinks=False)
    else:
        place = admin.home if foreign == "home" else admin.home / foreign
        os.chown(place, 65534, 65534)
    before = sorted(p.name for p in admin.kept.parent.iterdir())
    text = admin.kept.read_text()
    said = admin("login", "--user", "root", "--password-file", admin.password,
                 status=FAILED)
    assert "belongs to user 65534" in said and "set HOME" in said
    assert sorted(p.name for p in admin.kept.parent.iterdir()) == before
    assert admin.kept.read_text() == text
    assert len(admin.json("user", "ls")["users"]) == 1
    admin("logout")
    assert admin.kept.read_text() == text


def test_report_holds_no_secret(weftd, admin, tmp_path):
    conf = admin.home / "weft.conf"
    conf.write_text("WEFT_NODE=x\n")
    token = admin.kept.read_text().splitlines()[0]
    node_token = admin.json("node", "token", "n7")["token"]
    disk = "36" + "0a" * 15  # as in scsi-36...: it is no secret
    admin.json("node", "token", disk)
    out = tmp_path / "report.tar.gz"
    done = admin.json("report", "--output", out)
    assert done["file"] == str(out) and done["files"] >= 15
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    run("tar", "-C", tmp_path, "-xzf", out)
    (directory,) = tmp_path.glob("weft-report-*")
    names = {f.name for f in directory.iterdir()}
    assert {"status.json", "arrays.json", "nodes.json", "disks.json",
            "sessions.json", "log.json", "audit.json", "metrics.txt",
            "versions.txt"} <= names
    everything = b"".join(f.read_bytes() for f in directory.iterdir())
    for secret in (PASSWORD, token, node_token):
        assert secret.encode() not in everything
    assert b"PRIVATE KEY" not in everything
    assert f'"{disk}"'.encode() in everything
    assert json.loads((directory / "status.json").read_text())["health"]
    assert "weft_build_info" in (directory / "metrics.txt").read_text()
    assert "weftctl " in (directory / "versions.txt").read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_report_that_is_ended_leaves_nothing(weftd, admin, tmp_path, how):
    """While weftd does not answer."""
    def left():
        return {p.name for p in pathlib.Path("/tmp").glob("weftctl-??????")
                if p.owner() == pathlib.Path("/proc/self").owner()}
    before = left()
    weftd.process.send_signal(signal.SIGSTOP)
    try:
        p = subprocess.Popen(
            ["weftctl", "report", "--output", tmp_path / "r.tar.gz"],
            env={**os.environ, **admin.env}, stdout=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        begun = eventually(lambda: left() - before, what="it to begin")
        p.send_signal(how)
        assert p.wait(20) == -how
    finally:
        weftd.process.send_signal(signal.SIGCONT)
    # Another test's may be among these, which ends by itself.
    eventually(lambda: not left() & begun, what="it to be gone")
    assert list(tmp_path.glob("r.tar.gz*")) == []


def test_tls(tmp_path):
    """weftctl verifies weftd by its certificate authority, and sends nothing to an unverified
    server."""
    with Weftd(tmp_path, "--listen", "0.0.0.0:0", login=True) as w:
        plain, far = w.url_file.read_text().split()
        url = far.replace("0.0.0.0", "127.0.0.1")
        assert url.startswith("https://")
        tls = tmp_path / "tls"
        tls.mkdir()
        (tls / "ca-cert.pem").write_text(
            urllib.request.urlopen(plain + "/ca.pem").read().decode())
        strangers = Authority(tmp_path / "strangers").host(
            tmp_path / "other", "n0", "127.0.0.1")

        p = Person(url, tmp_path / "home")
        password = p.secret("password", PASSWORD)
        words = ["setup", "root", "--url-file", w.state / "setup-url",
                 "--password-file", password]
        for wrong in ([], ["--tls", strangers], ["--tls", tmp_path / "none"]):
            line = p(*words, *wrong, status=UNREACHABLE)
            assert url in line and PASSWORD not in line
        p.env["WEFT_TLS"] = str(tls)
        p(*words)
        p("login", "--user", "root", "--password-file", password)
        assert "(admin), by token" in p("whoami")
        p("status")
