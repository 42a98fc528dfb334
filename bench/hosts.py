"""An array whose members and clients share their hosts' links, as in the papers.

Every host is a network namespace on one bridge, with a member; on the first of them, as
many as wanted, is a client, too.  Each host's link carries so many Mbit/s each way.

How a client comes at the array is said by `way`, here alone:

  map     an array process on its host, by a static map, without weftd: each client
          must keep to its own part.  Members are plain file servers.
  ro      an array process on its host, by weftd, for reading only
  shared  an array process on its host, by weftd, for reading and writing its part
  leases  the same, but it writes what it has leases of; `kind` says how much it asks for
  direct  no array: the member of the next host itself, over the network
"""

import json
import os
import pathlib
import signal

import nbd

from counting import Client
from measure import Failed, cpu_seconds
from netcluster import ARRAY_PORT, MEMBER_PORT, PORT, NetCluster
from wefttest import at_once, eventually, run

MIB = 1 << 20
WAYS = ("map", "ro", "shared", "leases", "direct")
KINDS = {"adaptive": 0, "naive": 1, "token": 2}  # -D weft.leases
# What a switch has for a port: 0.1 s of it.
QUEUE = "100ms"


def disk_of(ms):
    """nbdkit's words for a disk that does one thing after the other, whoever asks, each
    in so many milliseconds."""
    return ["--filter=noparallel", "serialize=all-requests", "--filter=delay",
            f"rdelay={ms}ms", f"wdelay={ms}ms"] if ms else []


class Hosts(NetCluster):
    def __init__(self, directory, members, clients, part, way="map", disk_ms=0,
                 apart=False, kind="adaptive", sharing=None, **options):
        """`part`: how many bytes of the array each client has.  apart: clients are on
        hosts without members.  sharing: on so many hosts, whose array processes they
        share; by `map` alone, for the others know one part of a host."""
        self.way, self.part, self.kind = way, part, kind
        self.linked = []  # whose links have been shaped
        self.check = False  # whether what was written is read again
        self.writes = 0  # how often clients have written
        self.users = [f"h{i % (sharing or clients) + apart * members}"
                      for i in range(clients)]
        super().__init__(directory, members, attached=False,
                         member_args=disk_of(disk_ms), **options)
        self.hosts += [u for u in dict.fromkeys(self.users) if u not in self.hosts]

    # --- How a client attaches ---

    def _command(self, name):
        plain = self.way in ("map", "direct")
        if plain and name in self.hosts:
            return ["nbdkit", "-f", "-P", os.path.join(self.dir, name + ".ready"),
                    "-i", self.address(name), "-p", str(MEMBER_PORT), "file",
                    self.file(name), *self.member_args]
        if not name.startswith("use-"):
            return super()._command(name)
        host = name.removeprefix("use-")
        pathlib.Path(self.socket(host)).unlink(missing_ok=True)
        words = ["nbdkit", "-f", "-P", os.path.join(self.dir, name + ".ready"),
                 "-U", self.socket(host), "weft"]
        if self.way == "map":
            return [*words, f"map={self.map}", *self.array_args]
        words += ["array=a", f"node={host}",
                  f"admin=http://{self.address('w')}:{PORT}", *self.array_args]
        if self.way == "ro":
            return [*words[:1], "-r", *words[1:]]
        if self.way == "leases":
            return [*words, "mode=shared", "-D", f"weft.leases={KINDS[self.kind]}"]
        return [*words, "mode=shared", f"part={self.begin(host)}+{self.part}"]

    def socket(self, host):
        return os.path.join(self.dir, f"{host}.socket")

    def client_uri(self, host):
        if self.way == "direct":
            beside = (self.users.index(host) + 1) % self.count
            return f"nbd://{self.address(f'h{beside}')}:{MEMBER_PORT}"
        return f"nbd+unix:///?socket={self.socket(host)}"

    def begin(self, host):
        """Where its part begins."""
        return self.users.index(host) * self.part

    def _fill(self):
        """So that nobody reads holes."""
        if self.way != "ro":
            self.run(("write", MIB, 4, ("sequential", "flush")), self.users)
            return
        self.start("a")
        whole = self.part * len(self.users)
        c = Client(self.nbd, ("write", MIB, 4, ("sequential", "flush")), whole // MIB,
                   whole, inside=self.inside("a"))
        c.say("\n")
        c.end()
        self.end("a")

    def end(self, name):
        """As it is meant to."""
        self.signal(name, signal.SIGTERM)
        if self.processes.pop(name).wait(60) != 0:
            raise Failed(f"{name}: {self.log(name)[-600:]}")

    def __enter__(self):
        if self.way in ("ro", "shared", "leases"):
            super().__enter__()
        else:
            self._network_up()
        try:
            if self.way in ("map", "direct"):
                self._plain_members()
            if self.way == "ro":
                self._fill()
            if self.way != "direct":
                for host in dict.fromkeys(self.users):
                    self.start("use-" + host)
            if self.way != "ro":
                self._fill()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _plain_members(self):
        names = [f"h{i}" for i in range(self.count)]
        for name in names:
            with open(self.file(name), "wb") as f:
                f.truncate(self.size)
            self.start(name)
        self.map = os.path.join(self.dir, "map.json")
        with open(self.map, "w", encoding="ascii") as f:
            json.dump({"layout": self.layout, "unit": self.unit,
                       "members": [{"name": n, "uri": f"nbd://{self.address(n)}:"
                                    f"{MEMBER_PORT}"} for n in names],
                       **({"dup": self.dup} if self.dup else {})}, f)

    # --- The links ---

    def _network_up(self):
        super()._network_up()
        for host in self.hosts:
            # TCP as it is nearly everywhere, whatever this machine has been set to.
            # Packets leave in bunches of 12 KB, which spares the one machine that has to
            # be all of these hosts some of their work.
            run(*self.inside(host, "sysctl", "-qw",
                             "net.ipv4.tcp_congestion_control=reno",
                             "net.ipv4.tcp_min_tso_segs=8"))

    def shape(self, mbit):
        """So much each way, for each host that has a member or a client."""
        rate = ["root", "tbf", "rate", f"{mbit}mbit", "burst", "32k", "latency", QUEUE]
        self.linked = [host for host in self.hosts if host[0] == "h"]
        for host in self.linked:
            for name, device in (host, "eth0"), ("sw", "to-" + host):
                run("tc", "-n", self.network.tag + name, "qdisc", "add", "dev", device,
                    *rate)

    def carried(self):
        """What the links have carried since they were shaped, with all headers:
        {"out" or "in": [bytes of each host]}; and "packets" of TCP that these sent, and
        those that they sent "again"."""
        seen = {"out": [], "in": [], "packets": [], "again": []}
        for host in self.linked:
            for way, name, device in ("out", host, "eth0"), ("in", "sw", "to-" + host):
                said = run("tc", "-n", self.network.tag + name, "-s", "-j", "qdisc",
                           "show", "dev", device).stdout
                seen[way].append(json.loads(said)[0]["bytes"])
            said = run(*self.inside(host, "cat", "/proc/net/snmp")).stdout.splitlines()
            head, counts = [x.split() for x in said if x.startswith("Tcp:")]
            for kind, name in ("packets", "OutSegs"), ("again", "RetransSegs"):
                seen[kind].append(int(counts[head.index(name)]))
        return seen

    # --- Work ---

    def pids(self, kind):
        return [p.pid for n, p in self.processes.items()
                if n.startswith("use-") == (kind == "arrays")]

    def run(self, work, users, requests=None, ahead=0, apart=None):
        """All of them at once, the first in the first part and so on, or in that of the
        user so many places ahead, with so many requests, or as many as it has room for; or
        in what all of them have, each from so many bytes behind the one before.  Returns
        the seconds that each of them took."""
        does, length, depth, words = work
        if does == "write":
            self.writes += 1

        def client(number):
            host, place = users[number], (number + ahead) % len(users)
            size = self.part * (len(users) if apart else 1)
            return Client(self.client_uri(host),
                          (does, length, depth,
                           (*words, f"byte={self.byte(number)}",
                            str(place * (apart or self.part)))),
                          requests or self.part // length, size,
                          inside=self.inside(host))

        clients = at_once(client, *range(len(users)))
        try:
            for c in clients:
                c.process.stdin.write("\n")
                c.process.stdin.flush()
            seconds = [int(c.say(None)) / 1e6 for c in clients]
        finally:
            for c in clients:
                c.end()
        # At random places nobody knows what has been written.
        if (self.check and does == "write" and self.way != "direct"
                and words[0] != "flush"):
            self.read_again(users, (requests or self.part // length) * length,
                            apart and length)
        return seconds

    def byte(self, number):
        """What this client writes this time, again and again."""
        return 1 + (self.writes + number) % 255

    def read_again(self, users, size, apart):
        """What each has written, by the array process of another."""
        for number, user in enumerate(users):
            other = self.users[(self.users.index(user) + 1) % len(self.users)]
            h = nbd.NBD()
            h.connect_uri(self.client_uri(other))
            begin, step = (number * apart, len(users) * apart) if apart else (
                number * self.part, size)
            for place in range(begin, begin + size // (apart or size) * step, step):
                if set(h.pread(apart or size, place)) != {self.byte(number)}:
                    raise Failed(f"{other} does not read what {user} has written at {place}")
            h.shutdown()

    def cpu(self):
        return {kind: cpu_seconds(self.pids(kind)) for kind in ("arrays", "members")}

    def lost(self):
        """What array processes have said of members that they lost."""
        return [line for host in dict.fromkeys(self.users)
                if "use-" + host in self.processes
                for line in self.log("use-" + host).splitlines() if "lost" in line]
