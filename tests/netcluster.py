"""A cluster whose hosts have a network each, to be cut at will.

Every host is a network namespace with an address of 127.77.0.0/24 on a bridge.  These are
loopback addresses, because Weft serves other addresses only with TLS, but they are routed like
any.  Host "w" has weftd, "a" the array process and its clients, "h0", "h1", ... a member each.
With servers=["s0", "h1"], clients=["c0"] there is no "a": the servers may serve the array, and
each client host has a client process.  With clients alone each of these has an array process,
which shares the array by leases.  With attached=False there is neither "a" nor a process of a
client: the caller attaches.  With tls={HOST: FOLDER}, for servers and clients, too, each host
has an address outside of loopback, and clients reach the server by it.

    with NetCluster(tmp, members=4) as c:
        c.cut("a", "h1")           # a's packets to h1 vanish; not h1's to a
        c.cut_both("a", "w")
        c.heal()
"""

import contextlib
import json
import os
import select
import signal
import subprocess

from arraystate import wait_in_sync
from debianhost import Network
from wefttest import Cluster, background, eventually, run

PORT = 7380
ARRAY_PORT = 10809
MEMBER_PORT = 10810


class NetCluster:
    def __init__(self, directory, members=4, layout="raid-x", unit=64 << 10,
                 size=64 << 20, array_args=(), member_args=(), dup=None,
                 servers=(), clients=(), attached=True, tls=None):
        self.dir = str(directory)
        self.layout, self.unit = layout, unit
        self.array_args, self.member_args = list(array_args), list(member_args)
        self.attached = attached
        self.dup, self.servers, self.clients = dup, servers, clients
        self.tls = tls
        self.hosts = ["w", "a"] + [f"h{i}" for i in range(members)]
        self.hosts += [h for h in (*servers, *clients) if h not in self.hosts]
        self.count = members
        self.processes, self.cuts = {}, set()
        self.nbd = f"nbd://{self.address('a')}:{ARRAY_PORT}"
        self.size = size

    # --- The network ---

    def address(self, host):
        return f"127.77.0.{1 + self.hosts.index(host)}"

    def outside(self, host):
        """Where others take it for another host."""
        return self.address(host).replace("127.77", "10.77")

    def inside(self, host, *words):
        """Unlike `ip netns exec`, this shares all mounts: an unmount is seen by all."""
        return ["nsenter", f"--net=/run/netns/{self.network.tag}{host}", *words]

    def _network_up(self):
        self.network = Network()
        for host in self.hosts:
            self.network.join(host, self.address(host))
            run(*self.inside(host, "sysctl", "-qw",
                             "net.ipv4.conf.all.route_localnet=1",
                             "net.ipv4.conf.eth0.route_localnet=1"))
            if self.tls:
                self.network.ip(host, "addr", "add",
                                self.outside(host) + "/24", "dev", "eth0")
            # 127/8 no longer belongs to this host, except its own addresses.
            self.network.ip(host, "route", "del", "local", "127.0.0.0/8", "dev",
                            "lo", "table", "local", check=False)

    def cut(self, source, *targets):
        """From all of these at one moment, as near as it gets."""
        self.network.ip_all(source, [
            f"route add blackhole {self.address(target)}/32" for target in targets])
        self.cuts.update((source, target) for target in targets)

    @contextlib.contextmanager
    def large_dropped(self, host, out):
        """Drops packets of more than some 1000 bytes that this host sends (out) or receives;
        no connection learns that they are too large."""
        ends = [(host, "eth0"), ("sw", f"to-{host}")]
        (sender, device), (receiver, other) = ends if out else ends[::-1]
        self.network.ip(sender, "link", "set", device, "gso_max_segs", "1")
        self.network.ip(receiver, "link", "set", other, "mtu", "1000")
        yield
        self.network.ip(receiver, "link", "set", other, "mtu", "1500")

    def cut_both(self, one, other):
        self.cut(one, other)
        self.cut(other, one)

    def heal(self, *hosts):
        """All lines, or those between these alone."""
        for line in [line for line in self.cuts if not hosts or {*line} <= {*hosts}]:
            self.network.ip(line[0], "route", "del", "blackhole",
                            self.address(line[1]) + "/32")
            self.cuts.remove(line)

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
        if name.startswith("serve-"):
            host = name[6:]
            uri, listen = self.uri(host), ["-i", self.address(host)]
            if self.tls:
                uri = f"nbds://{self.outside(host)}:{ARRAY_PORT}"
                listen = ["--tls=require", "--tls-verify-peer",
                          f"--tls-certificates={self.tls[host]}"]
            return ["nbdkit", "-f", "-P", ready, *listen, "-p", str(ARRAY_PORT),
                    "weft", "array=a", "service=yes", f"admin={admin}",
                    f"uri={uri}", f"node={host}", *self.array_args]
        if name in self.clients:
            way = (["service=a"] if self.servers else
                   ["array=a", "mode=shared", f"uri={self.uri(name)}",
                    *self.array_args])
            return ["nbdkit", "-f", "-P", ready, "-i", self.address(name),
                    "-p", str(ARRAY_PORT), "weft", *way,
                    f"admin={admin}", f"node={name}",
                    *([f"tls={self.tls[name]}"] if self.tls else [])]
        return ["nbdkit", "-f", "-P", ready, "-i", self.address(name),
                "-p", str(MEMBER_PORT), "weft",
                f"disk={self.file(name)}", f"admin={admin}",
                f"uri=nbd://{self.address(name)}:{MEMBER_PORT}",
                f"node={name}", *self.member_args]

    def uri(self, host):
        return f"nbd://{self.address(host)}:{ARRAY_PORT}"

    def file(self, host):
        return os.path.join(self.dir, host + ".img")

    def start(self, name, wait=True):
        ready = os.path.join(self.dir, name + ".ready")
        if os.path.exists(ready):
            os.unlink(ready)
        self.processes[name] = background(
            os.path.join(self.dir, name + ".log"),
            *self.inside(name.split("-")[-1], *self._command(name)),
            start_new_session=True)
        if wait:
            eventually(lambda: os.path.exists(ready) and
                       os.path.getsize(ready) > 0, 60,
                       what=f"{name} to be ready: {self.log(name)[-600:]}")

    def _serve(self):
        """The first of the servers serves, the others stand by."""
        status, reply = self.call("PUT", "/api/v1/arrays/a/service",
                                  {"nodes": list(self.servers)})
        assert status == 200, reply
        for host in self.servers:
            self.start(f"serve-{host}", wait=False)
            eventually(lambda: host in (self.serving(), *self.standing_by()),
                       what=f"{host} to serve or stand by")

    def serving(self):
        serving = self.get("/api/v1/arrays/a/service")["serving"]
        return serving and serving["node"]

    def standing_by(self):
        return [n["node"] for n in
                self.get("/api/v1/arrays/a/service")["nodes"] if n["stands_by"]]

    def cut_off(self, host):
        """As if it had lost its power, but that it wakes up when it is healed."""
        others = [h for h in self.hosts if h != host]
        self.cut(host, *others)
        for other in others:
            self.cut(other, host)

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
        wait_in_sync(self, seconds)

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
            # A process is ready some time before weftd hears that it has started.
            eventually(lambda: [d["alive"] for d in
                                self.get("/api/v1/disks")["disks"]]
                       == self.count * [True], 30)
            disks = {d["path"]: d["uuid"]
                     for d in self.get("/api/v1/disks")["disks"]}
            status, reply = self.call("POST", "/api/v1/arrays", {
                "name": "a", "layout": self.layout, "unit": self.unit,
                "disks": [disks[self.file(f"h{i}")]
                          for i in range(self.count)],
                **({"dup": self.dup} if self.dup else {})})
            assert status == 201, reply
            eventually(lambda: self.get("/api/v1/arrays/a")["state"]
                       == "ready", 30)
            if self.servers:
                self._serve()
            elif self.attached and not self.clients:
                self.start("a")
            for host in self.clients if self.attached else ():
                self.start(host)
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


CLIENT = """
import sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
for line in sys.stdin:
    words = line.split()
    if words[0] == "write":
        h.pwrite(words[1].encode(), 0, nbd.CMD_FLAG_FUA)
    try:
        print(h.pread(3, 0).decode(), flush=True)
    except nbd.Error as e:
        print(e.errno, flush=True)
"""


class Client:
    """A client that reads (and writes) the first bytes, on a host."""

    def __init__(self, net, host, uri):
        self.process = subprocess.Popen(
            net.inside(host, "/usr/bin/python3", "-c", CLIENT, uri),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def answer(self, seconds=30):
        """None: there is none yet."""
        ready = select.select([self.process.stdout], [], [], seconds)[0]
        return self.process.stdout.readline().strip() if ready else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
