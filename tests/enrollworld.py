"""weftd and nodes that enroll, each in a network namespace of its own, with TLS.

    with World(tmp_path) as world:
        n = world.node("n1")
        world.enroll(n, disks=["d0"])
        n.serve()

A node's processes run as their systemd units say, with the configuration that weft-enroll
wrote below the node's directory.
"""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess

import pytest

from debianhost import Network
from wefttest import SOURCE, background, digest, eventually, run

PASSWORD = "nine wet weavers"
PORT = 7380
# The exit statuses of a node's scripts.
OK, FAILED, USAGE, REFUSED, UNREACHABLE, UNTRUSTED, UNWANTED, LATE = range(8)


def literal(address):
    """As a URL has it."""
    return f"[{address}]" if ":" in address else address


def six_refused(directory):
    """weftd's message if its civetweb has no IPv6, as in Debian 12; or None."""
    ports = directory / "six.ports"
    with open(directory / "six.log", "w+", encoding="utf-8") as log:
        p = subprocess.Popen(["weftd", "--state", directory / "six", "--listen", "[::1]:0",
                              "--no-login", "--port-file", ports], stderr=log)
        eventually(lambda: p.poll() is not None or ports.exists(), 60)
        refused = p.poll() == 1
        p.terminate()
        p.wait()
        log.seek(0)
        return log.read() if refused else None


def environment_file(text):
    """The settings in it, as systemd reads an EnvironmentFile= (its env-file.c)."""
    found, state, key, value, kept = {}, "key", "", "", 0
    for c in text + "\n":
        end = c == "\n" and state in ("key", "value")
        if state == "key" and c == "=":
            state, value, kept = "value", "", 0
        elif state == "key":
            key = "" if c == "\n" else (key + c).lstrip()
        elif state == "value" and c in "'\"" and len(value) == kept == 0:
            state = c
        elif state == "value" and c == "\\":
            state = "escape"
        elif state == "value" and not end:
            value = (value + c).lstrip() if kept == 0 else value + c
        elif state == "escape":
            state, value = "value", value + c.strip("\n")
            kept = len(value)
        elif state == "'" and c != "'":
            value += c
        elif state == '"' and c == "\\":
            state = "quoted escape"
        elif state == "quoted escape":
            state, value = '"', value + (c if c in '\\"`$' else "\\" + c)
        elif state == '"' and c != '"':
            value += c
        elif state in ("'", '"'):
            state, kept = "value", len(value)
        if end and state == "value":
            found[key] = value[:kept] + value[kept:].rstrip()
            state, key = "key", ""
    return found


class Place:
    """A network namespace and what runs in it."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.dir = world.dir / name
        self.dir.mkdir()
        number = 1 + len(world.places)
        four, six = f"10.77.0.{number}", f"fd77::{number}" if world.six else None
        self.address = six or four
        self.ns = world.network.join(name, four, six)
        self.processes = {}
        world.places.append(self)

    def run(self, *command, **kw):
        env = {"HOME": str(self.dir), "WEFT_CONF": str(self.conf),
               **kw.pop("env", {})}
        return run("ip", "netns", "exec", self.ns, *command, env=env, **kw)

    def popen(self, name, *command, env=None):
        self.processes[name] = background(
            self.dir / f"{name}.log", "ip", "netns", "exec", self.ns, *command,
            env=env, start_new_session=True)

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def end(self, name, number=signal.SIGTERM):
        p = self.processes.pop(name)
        p.send_signal(number)
        p.wait(60)

    @property
    def root(self):
        return self.dir / "root"

    @property
    def conf(self):
        return self.root / "etc/weft/weft.conf"


class Node(Place):
    @property
    def etc(self):
        return self.conf.parent

    def disk(self, name):
        path = self.dir / name
        with open(path, "ab") as f:
            f.truncate(self.world.disk_mb << 20)
        return path

    def settings(self, *files):
        found = {}
        for file in files:
            found.update(environment_file(file.read_text()))
        return found

    def exec_start(self, unit, name, env):
        """The words of the unit's command, as systemd makes them, after the process has got
        its certificate.  env gets its WEFT_CONF, and WEFT_TLS of its process."""
        text = (SOURCE / "systemd" / (unit + ".in")).read_text().replace("%i", name)
        [process] = re.findall(r"^ExecStartPre=\+.* @sbindir@/weft-renew --process (.*)$", text,
                               re.MULTILINE)
        self.run("weft-renew", "--process", process, "--root", self.root)
        [conf] = re.findall(r"^EnvironmentFile=-(/etc/weft/processes/.*)$", text,
                            re.MULTILINE)
        if (own := pathlib.Path(f"{self.root}{conf}")).exists():
            env |= self.settings(own)
        line = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE).group(1)
        if m := re.search(r"^Environment=WEFT_CONF=(.*)$", text, re.MULTILINE):
            env["WEFT_CONF"] = f"{self.root}{m.group(1)}"
        defaults = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
        env |= defaults | env
        words = []
        for word in line.split():
            if m := re.fullmatch(r"\$(\w+)", word):
                words += shlex.split(env.get(m.group(1), ""))
            else:
                words.append(re.sub(r"\$\{(\w+)\}",
                                    lambda m: env.get(m.group(1), ""), word))
        assert words[0] == "/usr/bin/nbdkit"
        return ["nbdkit", *words[1:]]  # of the build tree

    def serve(self, *names):
        """Its disks, or these; as weft-disk@.service."""
        for file in sorted(self.etc.glob("disks/*.conf")):
            if names and file.stem not in names:
                continue
            env = self.settings(self.conf, file)
            words = self.exec_start("weft-disk@.service", file.stem, env)
            self.popen(file.stem, *words, env=env)
        return self

    def serve_array(self, name, kind="array", options=""):
        """As weft-array@.service, on a socket of its own.  Its URI."""
        env = {**self.settings(self.conf), "WEFT_OPTIONS": options,
               "WEFT_AS": kind,
               "NBDKIT_OPTIONS": f"-U {self.dir}/{name}.sock"}
        words = self.exec_start("weft-array@.service", name, env)
        words = [w.replace(f"/run/weft/{name}", f"{self.dir}/{name}") for w in words]
        for end in ("pid", "sock"):  # of the process before
            (self.dir / f"{name}.{end}").unlink(missing_ok=True)
        self.popen(name, *words, env=env)
        eventually(lambda: (self.dir / f"{name}.pid").exists(), 60,
                   what=f"array {name}: {self.log(name)[-800:]}")
        return f"nbd+unix:///?socket={self.dir}/{name}.sock"

    def serve_service(self, name, port=10809):
        """As weft-service@.service."""
        env = {**self.settings(self.conf), "ADDRESS": self.address, "PORT": str(port),
               "URI": f"nbds://{literal(self.address)}:{port}"}
        words = self.exec_start("weft-service@.service", name, env)
        self.popen(f"{name}-service", *words, env=env)


class World:
    """`login`: is its first administrator logged in already?  six: nodes have addresses
    of IPv6, and so has weftd where its library lets it."""

    disk_mb = 24  # of each disk

    def __init__(self, directory, env=None, login=True, six=False):
        self.dir, self.env, self.login = pathlib.Path(directory), env, login
        self.six = six
        self.network, self.places = Network(), []

    def __enter__(self):
        try:
            self.w = Place(self, "w")
            if self.six and six_refused(self.dir):
                self.w.address = "10.77.0.1"
            self.start_weftd()
            if self.login:
                self.first_login()
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def __exit__(self, *failure):
        for place in self.places:
            for name, p in place.processes.items():
                if failure and failure[0]:
                    print(f"--- {place.name}/{name}\n{place.log(name)[-2500:]}")
                p.kill()
                p.wait()
        self.network.down()

    @property
    def admin(self):
        return f"https://{literal(self.w.address)}:{PORT}"

    def start_weftd(self):
        ready = self.w.dir / "ready"
        ready.unlink(missing_ok=True)
        self.w.popen("weftd", "weftd", "--state", self.w.dir / "state",
                     "--listen", f"127.0.0.1:{PORT}", "--listen",
                     f"{literal(self.w.address)}:{PORT}", "--host-name", "w",
                     "--port-file", ready, env=self.env)
        eventually(ready.exists, 30, what=self.w.log("weftd")[-500:])

    @property
    def password(self):
        """A file with it."""
        file = self.w.dir / "password"
        file.write_text(PASSWORD + "\n")
        file.chmod(0o600)
        return file

    def first_login(self):
        self.ctl("setup", "ann", "--url-file", self.w.dir / "state/setup-url",
                 "--password-file", self.password)
        self.log_in()

    def log_in(self):
        """weftctl, as ann."""
        self.ctl("login", "--user", "ann", "--password-file", self.password)

    def ctl(self, *words, **kw):
        """weftctl of an administrator, on weftd's host."""
        return self.w.run("weftctl", *words, **kw)

    def json(self, *words):
        return json.loads(self.ctl(*words, "--json").stdout)

    def node(self, name):
        return Node(self, name)

    def serving(self, name, *disks):
        """A node that is enrolled with these disks, which weftd sees."""
        n = self.node(name)
        self.enroll(n, disks=disks)
        n.serve()
        self.seen(n, len(disks))
        return n

    def make_array(self, nodes):
        """Array a, of a disk each."""
        words = [w for n in nodes for w in ("--disk", f"{n.name}:{n.disk('d0')}")]
        self.ctl("array", "create", "a", "--unit", "64K", *words, "--yes")

    def token(self, *words):
        """{"token", "ca_fingerprint"}"""
        return self.json("node", "token", *words)

    def enroll(self, n, *words, disks=(), token=None, check=True, **kw):
        """Run weft-enroll on n.  Options given in words come last, and win."""
        if self.six and ":" not in self.w.address and not n.conf.exists():
            # It calls weftd from its other address.
            token = token or self.token(n.name, "--address", n.address)
            words = ("--address", n.address, *words)
        token = token or self.token()
        file = n.dir / "token"
        file.write_text(token["token"] + "\n")
        options = []
        for d in disks:
            options += ["--disk", n.disk(d)]
        return n.run("weft-enroll", "--root", n.root, "--admin", self.admin,
                     "--ca-fingerprint", token["ca_fingerprint"],
                     "--token-file", file, "--node", n.name, "--yes",
                     *options, *words, check=check, **kw)

    def disks_of(self, n):
        """The live disks of the node that weftd has heard of: {path: disk}."""
        return {d["path"]: d for d in self.json("disk", "ls")["disks"]
                if d["node"] == n.name and d["alive"]}

    def seen(self, n, count):
        eventually(lambda: len(self.disks_of(n)) == count, 60, every=0.3,
                   what=f"{count} disks of {n.name}")


@pytest.fixture
def world(tmp_path):
    with World(tmp_path) as w:
        yield w


def fill(n, uri, directory):
    """All of an array, from that node; its digest."""
    size = int(n.run("nbdinfo", "--size", uri).stdout)
    data = directory / "data"
    data.write_bytes(os.urandom(size))
    n.run("nbdcopy", "--flush", data, uri)
    return digest(data)


def read(n, uri, directory):
    n.run("nbdcopy", uri, directory / "back")
    return digest(directory / "back")
