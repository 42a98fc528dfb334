"""An array that is served: candidates, and clients on other hosts.

Beside a devcluster whose own array process has ended:

    s = Served(cluster(...))
    s.stand_by("s0"); s.stand_by("s1")
    uri = s.client("c0")        # of a client process of the service
    s.serving()                 # "s0"
    s.kill("s0")
"""

import os
import random
import signal
import subprocess

from wefttest import Cluster, Stopwatch, background, eventually, free_port

BOUND_S = 15  # bound for clients to go on after the loss of the server
MOVE_S = 2  # after an order to move

# Writes a block again and again, until its input ends; prints from when to when the
# longest pauses were.
PULSE = """
import nbd, sys, threading, time
h, pauses, done = nbd.NBD(), [], []
h.connect_uri(sys.argv[1])
threading.Thread(target=lambda: done.append(sys.stdin.read())).start()
while not done:
    begin = time.monotonic()
    h.pwrite(bytes(4096), h.get_size() - 4096)
    end = time.monotonic()
    pauses = sorted([*pauses, (begin - end, begin, end)])[:20]
    time.sleep(0.02)
for _, begin, end in pauses:
    print(begin, end)
"""


class Pulse:
    """The longest that a client of the service waits for an answer; `inside`: words
    that run a program on its host.  self.paused: the same, of the clock."""

    def __init__(self, uri, inside=()):
        self.watch = Stopwatch(disk=True)
        self.p = subprocess.Popen(
            [*inside, "/usr/bin/python3", "-c", PULSE, uri],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def longest(self):
        said, _ = self.p.communicate(timeout=60)
        assert self.p.returncode == 0
        pauses = [tuple(map(float, line.split())) for line in said.splitlines()]
        self.paused = max(end - begin for begin, end in pauses)
        longest = max(self.watch.seconds(*pause) for pause in pauses)
        print(f"the client's longest pause: {longest:.2f} s")
        return longest


class Served:
    def __init__(self, cluster, nodes=("s0", "s1")):
        self.c, self.processes, self.ports = cluster, {}, {}
        # A standby listens some time later, when others may have its port.
        self.address = "127." + ".".join(str(random.randrange(100, 200))
                                         for _ in range(3))
        cluster.terminate("array")
        status, reply = cluster.call("PUT", "/api/v1/arrays/a/service",
                                     {"nodes": list(nodes)})
        assert status == 200, reply

    def log(self, name):
        return (self.c.dir / f"{name}.log").read_text(errors="replace")

    def _start(self, name, *words, under=()):
        (self.c.dir / f"{name}.served").unlink(missing_ok=True)
        self.processes[name] = background(
            str(self.c.dir / f"{name}.log"), *under, "nbdkit", "-f", "-P",
            str(self.c.dir / f"{name}.served"), *words,
            f"admin={self.c.admin}",
            *([] if any(w.startswith("node=") for w in words)
              else [f"node={name}"]))

    def stand_by(self, name, *words, uri=None):
        """uri: where clients are to connect, if not to the process itself."""
        port = self.ports.setdefault(name, free_port())
        self._start(name, "-i", self.address, "-p", str(port), "weft", "array=a",
                    "service=yes",
                    f"uri={uri or f'nbd://{self.address}:{port}'}", *words)
        eventually(lambda: self.serving() == name or self.stands_by(name),
                   what=f"{name} to stand by or serve")

    def session_of(self, name):
        """It serves, and can be reached: its session."""
        eventually((self.c.dir / f"{name}.served").exists, 30,
                   what=f"{name} to listen")
        serving = self.service()["serving"]
        assert serving["node"] == name
        return serving["session"]

    def client(self, name, *words, node=None):
        """node: its node's name, if that is not its own."""
        if node:
            words = (*words, f"node={node}")
        # nbdkit makes its socket, then listens there, and then makes this file.
        self._start(name, "-U", str(self.c.dir / f"{name}.sock"), "weft", "service=a", *words)
        eventually((self.c.dir / f"{name}.served").exists, 30, what=f"{name} to listen")
        return self.uri(name)

    def uri(self, name):
        return f"nbd+unix:///?socket={self.c.dir / name}.sock"

    def service(self):
        return self.c.get("/api/v1/arrays/a/service")

    def serving(self):
        serving = self.service()["serving"]
        return serving and serving["node"]

    def stands_by(self, name):
        return any(n["stands_by"] for n in self.service()["nodes"]
                   if n["node"] == name)

    def move(self, name):
        eventually(lambda: self.stands_by(name), what=f"{name} to stand by")
        status, reply = self.c.call(
            "POST", "/api/v1/arrays/a/service/move", {"node": name})
        assert status == 200, reply

    def fence(self, node, on=True):
        status, reply = self.c.call("POST" if on else "DELETE",
                                    f"/api/v1/nodes/{node}/fence")
        assert status == 200 and reply["fenced"] == on, reply

    def signal(self, name, number):
        os.kill(self.processes[name].pid, number)

    def kill(self, *names):
        for name in names:
            self.signal(name, signal.SIGKILL)
        for name in names:
            Cluster.killed += 1
            self.processes.pop(name).wait()

    def ended(self, name, seconds=30):
        """It ends by itself: the status."""
        return self.processes.pop(name).wait(seconds)

    def end(self):
        for p in self.processes.values():
            p.send_signal(signal.SIGCONT)
            p.terminate()
        for p in self.processes.values():
            p.wait(30)
