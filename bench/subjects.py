"""What is measured: each subject is a set of server processes and the NBD URI
under which a client reaches them.

Servers of our own get their listening socket from us (systemd's socket
activation), so no port is ever guessed and a client may connect at once.
"""

import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.request

from measure import Failed, peak_memory


def devcluster(command, *words, build=None):
    """What devcluster says, of this Weft or of the one whose build folder is given:
    each build has an nbdkit of its own, which looks for the next one."""
    run, env = [], dict(os.environ)
    if build:
        run = [str(pathlib.Path(build) / "run")]
        env["PATH"] = ":".join(
            d for d in env["PATH"].split(":")
            if not d.startswith(env["WEFT_BUILDDIR"] + "/"))
    p = subprocess.run([*run, "devcluster", command, *map(str, words)],
                       stdin=subprocess.DEVNULL, text=True, check=False,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    if p.returncode != 0:
        raise Failed(f"devcluster {command} {' '.join(map(str, words))}: {p.stderr}")
    return p.stdout


class Server:
    """One server process on a socket that we opened for it."""

    def __init__(self, directory, name, words, unix=False):
        self.log = directory / f"{name}.log"
        if unix:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(directory / f"{name}.socket"))
            self.uri = f"nbd+unix:///?socket={directory}/{name}.socket"
        else:
            listener = socket.socket()
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
            self.uri = f"nbd://127.0.0.1:{self.port}"
        listener.listen(64)

        def take_socket():
            os.dup2(listener.fileno(), 3)

        # LISTEN_PID must be the server's own: the shell becomes the server.
        script = 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", script, "sh"] + [str(w) for w in words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=take_socket, pass_fds=(3,))
        listener.close()

    def check(self):
        if self.process.poll() is not None:
            raise Failed(f"{' '.join(map(str, self.process.args[4:]))}: ended "
                         f"with status {self.process.returncode}\n"
                         + self.log.read_text(errors="replace"))

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Subject:
    """Base of all.  `copies` is how many copies of a byte a write makes."""

    name = title = ""
    copies = 1

    def __init__(self, directory, size):
        self.dir = pathlib.Path(directory) / self.name
        self.dir.mkdir(parents=True)
        self.size = size
        self.servers = []
        self.files = []
        self.uri = None
        self.array_pid = None

    def start(self):
        raise NotImplementedError

    def stop(self):
        # Whoever composes others stops before them: it may have to write.
        for server in reversed(self.servers):
            server.stop()

    def pids(self):
        for server in self.servers:
            server.check()
        return [s.process.pid for s in self.servers]

    def member_pids(self):
        return [p for p in self.pids() if p != self.array_pid]

    def peak_memory(self):
        return peak_memory(self.array_pid)

    def server(self, name, *words, unix=False):
        s = Server(self.dir, name, words, unix)
        self.servers.append(s)
        return s

    def file_member(self, name, size, *words):
        """A plain `nbdkit file` over a file of this size."""
        path = self.dir / f"{name}.img"
        with open(path, "wb") as f:
            f.truncate(size)
        self.files.append(path)
        # What devcluster puts before a member's nbdkit.
        wrap = os.environ.get("WEFT_WRAP_MEMBER", "").split()
        return self.server(name, *wrap, "nbdkit", "-f", *words, "file", path)


class Direct(Subject):
    name = "member"
    title = "one member, directly: nbdkit file"

    def start(self):
        s = self.file_member("m0", self.size)
        self.uri, self.array_pid = s.uri, s.process.pid


class Front(Subject):
    name = "front"
    title = "nothing: each request is handed to another thread and back"
    hand = "true"

    unix = False

    def start(self):
        plugin = pathlib.Path(os.environ["WEFT_BUILDDIR"],
                              "bench/.libs/front.so")
        s = self.server("front", "nbdkit", "-f", plugin, f"size={self.size}",
                        f"hand={self.hand}", unix=self.unix)
        self.uri, self.array_pid = s.uri, s.process.pid


class FrontUnix(Front):
    name = "front-unix"
    title = "the same, its client by Unix socket"
    unix = True


class Nbdkit(Front):
    name = "nbdkit"
    title = "nothing: nbdkit alone"
    hand = "false"


class Proxy(Subject):
    name = "nbd-proxy"
    title = "nbdkit's nbd plugin as a proxy to one member"

    def start(self):
        m = self.file_member("m0", self.size)
        s = self.server("proxy", "nbdkit", "-f", "nbd", "uri=" + m.uri)
        self.uri, self.array_pid = s.uri, s.process.pid


class Quorum(Subject):
    name = "qemu-quorum"
    title = "qemu-storage-daemon, quorum over two members"
    copies = 2

    def start(self):
        words = ["qemu-storage-daemon"]
        for i in range(2):
            # qemu asks for the extents of whatever it reads for a client, and
            # tmpfs takes long to find the next hole: not what we measure.
            m = self.file_member(f"m{i}", self.size, "--filter=noextents")
            words += ["--blockdev",
                      f"driver=nbd,node-name=m{i},server.type=inet,"
                      f"server.host=127.0.0.1,server.port={m.port}"]
        # A mirror, not a vote: two members can't outvote each other, and by
        # `fifo` a read asks one of them, as an array's does.
        words += ["--blockdev",
                  "driver=quorum,node-name=q,vote-threshold=1,"
                  "read-pattern=fifo,children.0=m0,children.1=m1",
                  "--nbd-server", "addr.type=fd,addr.str=3",
                  "--export", "type=nbd,id=e,node-name=q,name=q,writable=on"]
        s = self.server("quorum", *words)
        self.uri, self.array_pid = s.uri + "/q", s.process.pid


class Weft(Subject):
    """A whole devcluster."""

    layout = "raid-x"
    options = []
    members = 4
    copies = 2
    build = None  # the folder of another build than this one

    def member_bytes(self):
        # A member begins with 1 MiB of header; and what fills no period of the
        # layout, at most 2 (members - 1) stripe units of 256 KiB, is of no use.
        data = self.size * self.copies // self.members
        return (data // (1 << 20) + max(4, self.members // 2 + 2)) << 20

    def up(self, *options):
        status = devcluster(
            "up", self.dir / "c", "--json", "--members", self.members,
            "--size", self.member_bytes(), *options, build=self.build)
        self.status = json.loads(status)
        self.files = [m["file"] for m in self.status["members"]]

    def call(self, method, path, body=None):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(
            self.status["admin"] + path, method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"})
        with opener.open(request, timeout=30) as reply:
            return json.load(reply)

    def up_unattached(self, layout):
        """An array named a, and no process for it."""
        self.up("--no-array")
        disks = self.call("GET", "/api/v1/disks")["disks"]
        self.call("POST", "/api/v1/arrays",
                  {"name": "a", "layout": layout,
                   "disks": [d["uuid"] for d in disks]})
        for _ in range(100):
            if self.call("GET", "/api/v1/arrays/a")["state"] == "ready":
                return
            time.sleep(0.1)
        raise Failed("array a does not become ready")

    def start(self):
        self.up("--layout", self.layout, *self.options)
        self.uri = self.status["nbd"]
        self.array_pid = self.status["array"]["pid"]

    def stop(self):
        devcluster("down", self.dir / "c", build=self.build)

    def pids(self):
        s = self.status
        return [p["pid"] for p in [s["weftd"], *s["members"], s["array"]]
                if p and p["pid"]]

    def member_pids(self):
        """Without weftd, which no request asks."""
        return [p for p in super().member_pids() if p != self.status["weftd"]["pid"]]


class RaidX(Weft):
    name = "raid-x"
    title = "Weft raid-x over 4 members"


class InFront(Weft):
    """A process of our own stands in front of a Weft cluster."""

    def stop(self):
        Subject.stop(self)
        super().stop()

    def pids(self):
        return super().pids() + Subject.pids(self)


class RaidXUnix(InFront):
    name = "raid-x-unix"
    title = "Weft raid-x over 4 members, its client by Unix socket"

    def start(self):
        self.up_unattached("raid-x")
        s = self.server("array", "nbdkit", "-f", "weft", "array=a",
                        "admin=" + self.status["admin"], unix=True)
        self.uri, self.array_pid = s.uri, s.process.pid


class Raid10Async(Weft):
    name = "raid-10-async"
    title = "Weft raid-10 over 4 members, async-client"
    layout = "raid-10"
    options = ["--dup", "async-client"]


class Raid10Sync(Weft):
    name = "raid-10-sync"
    title = "Weft raid-10 over 4 members, sync-client"
    layout = "raid-10"
    options = ["--dup", "sync-client"]


class Raid0(Weft):
    """The same job as the proxy's: one copy, one member."""
    name = "raid-0"
    title = "Weft raid-0 over 1 member (a proxy)"
    layout = "raid-0"
    members = 1
    copies = 1


class Door(Weft):
    """A Weft member's data door, without an array process: we attach the
    array ourselves and talk to the member with the token that weftd gives.
    """
    name = "weft-member"
    title = "one Weft member, directly: its data door"
    members = 1
    copies = 1

    def start(self):
        self.up_unattached("raid-0")
        granted = self.call("POST", "/api/v1/arrays/a/sessions",
                            {"instance": "bench", "node": "bench",
                             "pid": os.getpid(), "mode": "rw", "uri": None})
        member = granted["map"]["members"][0]
        self.uri = f"{member['uri']}/data/{member['tokens']['data']}"
        self.array_pid = self.status["members"][0]["pid"]


class Hop(InFront, Door):
    """The least behind nbdkit with one copy on one other process: hop.c in front of a
    member's data door, in several ways to wait for the reply.
    """
    name = "hop-own"
    title = "nothing but one member asked: each thread by a connection of its own"
    wait = "own"

    def start(self):
        super().start()
        plugin = pathlib.Path(os.environ["WEFT_BUILDDIR"], "bench/.libs/hop.so")
        s = self.server("hop", "nbdkit", "-f", plugin, "uri=" + self.uri,
                        f"wait={self.wait}")
        self.uri, self.array_pid = s.uri, s.process.pid


class HopLead(Hop):
    name = "hop-lead"
    title = "the same by one connection: one who waits receives for all"
    wait = "lead"


class HopRead(Hop):
    name = "hop-read"
    title = "the same by one connection: a thread receives"
    wait = "read"


class RaidXMap(Subject):
    """Without weftd, and over members that know nothing of Weft: no batch
    door, so every image is a write of its own.
    """
    name = "raid-x-map"
    title = "Weft raid-x over 4 plain nbdkit file members, static map"
    copies = 2

    def start(self):
        members = [self.file_member(f"m{i}", self.size // 2 + (4 << 20))
                   for i in range(4)]
        path = self.dir / "map.json"
        path.write_text(json.dumps({
            "name": "a", "layout": "raid-x", "unit": 262144,
            "members": [{"name": f"m{i}", "uri": m.uri}
                        for i, m in enumerate(members)]}))
        s = self.server("array", "nbdkit", "-f", "weft", f"map={path}")
        self.uri, self.array_pid = s.uri, s.process.pid


class Other(Subject):
    """Another system, in a cluster on this host that `other` makes."""
    copies = 2

    def other(self, *words):
        script = pathlib.Path(__file__).resolve().parent / "other"
        p = subprocess.run([script, self.name, *map(str, words)],
                           stdin=subprocess.DEVNULL, text=True, check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.returncode != 0:
            raise Failed(p.stderr.strip())
        return [line.split() for line in p.stdout.splitlines()]

    def start(self):
        said = self.other("up", self.dir, self.size >> 20)
        self.uri = dict(said)["uri"]
        self.array_pid = int(dict(said)["front"])
        self.all_pids = [int(pid) for what, pid in said if what != "uri"]

    def pids(self):
        return self.all_pids

    def stop(self):
        self.other("down", self.dir)


class Ceph(Other):
    name = "ceph"
    title = "Ceph: RBD over 4 OSDs, qemu-storage-daemon in front, Unix socket"


class Gluster(Other):
    name = "gluster"
    title = "Gluster over 4 bricks, qemu-storage-daemon in front, Unix socket"


class Vitastor(Other):
    name = "vitastor"
    title = "Vitastor over 4 OSDs, nbdkit in front, Unix socket"


ALL = [Nbdkit, Front, FrontUnix, Direct, Door, Hop, HopLead, HopRead, Proxy, Raid0,
       Quorum, RaidX, RaidXUnix, RaidXMap, Raid10Async, Raid10Sync]
OTHERS = [Ceph, Gluster, Vitastor]
