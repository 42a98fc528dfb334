"""A cluster whose hosts have a network each, to be cut at will.

Every host is a network namespace with an address of 127.77.0.0/24 on a bridge:
loopback addresses, because Weft serves no others without TLS, but routed like
any.  Host "w" has weftd, "a" the array process and its clients, "h0", "h1", ...
a member each.

    with NetCluster(tmp, members=4) as c:
        c.cut("a", "h1")           # a's packets to h1 vanish; not h1's to a
        c.cut_both("a", "w")
        c.heal()
"""

import json
import os
import signal

from debianhost import Network
from wefttest import Cluster, background, eventually, run

PORT = 7380
ARRAY_PORT = 10809
MEMBER_PORT = 10810


class NetCluster:
    def __init__(self, directory, members=4, layout="raid-x", unit=64 << 10,
                 size=64 << 20, array_args=()):
        self.dir = str(directory)
        self.layout, self.unit = layout, unit
        self.array_args = list(array_args)
        self.hosts = ["w", "a"] + [f"h{i}" for i in range(members)]
        self.count = members
        self.processes, self.cuts = {}, set()
        self.nbd = f"nbd://{self.address('a')}:{ARRAY_PORT}"
        self.size = size

    # --- The network ---

    def address(self, host):
        return f"127.77.0.{1 + self.hosts.index(host)}"

    def inside(self, host, *words):
        return ["ip", "netns", "exec", self.network.tag + host, *words]

    def _network_up(self):
        self.network = Network()
        for host in self.hosts:
            self.network.join(host, self.address(host))
            run(*self.inside(host, "sysctl", "-qw",
                             "net.ipv4.conf.all.route_localnet=1",
                             "net.ipv4.conf.eth0.route_localnet=1"))
            # 127/8 is not all ours any more: only what is given to us.
            self.network.ip(host, "route", "del", "local", "127.0.0.0/8", "dev",
                            "lo", "table", "local", check=False)

    def cut(self, source, target):
        self.network.ip(source, "route", "add", "blackhole",
                        self.address(target) + "/32")
        self.cuts.add((source, target))

    def cut_both(self, one, other):
        self.cut(one, other)
        self.cut(other, one)

    def heal(self):
        for source, target in self.cuts:
            self.network.ip(source, "route", "del", "blackhole",
                            self.address(target) + "/32")
        self.cuts = set()

    # --- The processes ---

    def _command(self, name):
        ready = os.path.join(self.dir, name + ".ready")
        admin = f"http://{self.address('w')}:{PORT}"
        if name == "w":
            return ["weftd", "--state", os.path.join(self.dir, "weftd"),
                    "--listen", f"{self.address('w')}:{PORT}",
                    "--no-login", "--port-file", ready]
        if name == "a":
            return ["nbdkit", "-f", "-P", ready, "-i", self.address("a"),
                    "-p", str(ARRAY_PORT), "weft", "array=a",
                    f"admin={admin}", f"uri={self.nbd}", "node=a",
                    *self.array_args]
        return ["nbdkit", "-f", "-P", ready, "-i", self.address(name),
                "-p", str(MEMBER_PORT), "weft",
                f"disk={self.file(name)}", f"admin={admin}",
                f"uri=nbd://{self.address(name)}:{MEMBER_PORT}",
                f"node={name}"]

    def file(self, host):
        return os.path.join(self.dir, host + ".img")

    def start(self, name, wait=True):
        ready = os.path.join(self.dir, name + ".ready")
        if os.path.exists(ready):
            os.unlink(ready)
        self.processes[name] = background(
            os.path.join(self.dir, name + ".log"),
            *self.inside(name, *self._command(name)), start_new_session=True)
        if wait:
            eventually(lambda: os.path.exists(ready) and
                       os.path.getsize(ready) > 0, 60,
                       what=f"{name} to be ready: {self.log(name)[-600:]}")

    def signal(self, name, number):
        os.kill(self.processes[name].pid, number)

    def kill(self, name):
        self.signal(name, signal.SIGKILL)
        Cluster.killed += 1
        self.processes.pop(name).wait()

    def log(self, name):
        with open(os.path.join(self.dir, name + ".log"),
                  errors="replace") as f:
            return f.read()

    def call(self, method, path, body=None):
        words = ["curl", "-sS", "--max-time", "30", "-X", method,
                 "-w", "\n%{http_code}"]
        if body is not None:
            words += ["-H", "Content-Type: application/json",
                      "-d", json.dumps(body)]
        out = run(*self.inside("w", *words,
                               f"http://{self.address('w')}:{PORT}{path}"))
        text, status = out.stdout.rsplit("\n", 1)
        return int(status), json.loads(text) if text else None

    def get(self, path):
        status, reply = self.call("GET", path)
        assert status == 200, f"GET {path}: {status}: {reply}"
        return reply

    def states(self):
        return [m["state"] for m in self.get("/api/v1/arrays/a")["members"]]

    def in_sync(self, seconds=60):
        eventually(lambda: set(self.states()) == {"in-sync"}, seconds,
                   every=0.3, what="all members in-sync")

    @property
    def members(self):
        """For copies.py."""
        return [{"name": f"h{i}", "file": self.file(f"h{i}"),
                 "data_offset": self.offset} for i in range(self.count)]

    def __enter__(self):
        try:
            self._network_up()
            self.start("w")
            for i in range(self.count):
                file = self.file(f"h{i}")
                with open(file, "wb") as f:
                    f.truncate(self.size)
                p = run("weftctl", "disk", "format", file, "--json")
                disk = json.loads(p.stdout)["disks"][0]
                self.offset = (disk["size"] - disk["data_bytes"]
                               - disk["unused_bytes"])
                self.start(f"h{i}")
            disks = {d["path"]: d["uuid"]
                     for d in self.get("/api/v1/disks")["disks"]}
            status, reply = self.call("POST", "/api/v1/arrays", {
                "name": "a", "layout": self.layout, "unit": self.unit,
                "disks": [disks[self.file(f"h{i}")]
                          for i in range(self.count)]})
            assert status == 201, reply
            eventually(lambda: self.get("/api/v1/arrays/a")["state"]
                       == "ready", 30)
            self.start("a")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure):
        if failure and failure[0]:
            for name in sorted(self.processes):
                print(f"--- {name}.log\n{self.log(name)[-3000:]}")
        for p in self.processes.values():
            p.kill()
        for p in self.processes.values():
            p.wait()
        self.network.down()
