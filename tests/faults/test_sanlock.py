"""sanlock's leases on the raw sectors of an array that two hosts have attached.

Topology: a network namespace for each of weftd, four members and two hosts
          (tests/netcluster.py), which have the array attached by
          `weftctl attach --shared`, and run a sanlock daemon.  Both hosts may serve the
          array; or they share it by leases of Weft's.
Cause: On both, a program takes a lease of sanlock's, adds one to the number in a sector, and
       releases it, again and again.  The server of the array is killed; then a host is killed
       that holds the lease, and that serves the array if there is a server.
Pass:  no number comes twice, and none is left out; neither program ever loses a lease;
       the other host has the dead one's after the time that sanlock says, and goes on
       from the last number that was written.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time

import pytest

from netcluster import NetCluster
from servedarray import BOUND_S
from wefttest import Cluster, at_once, background, eventually, run

pytestmark = pytest.mark.long(150)

SANLOCK = "/usr/sbin/sanlock"
# A daemon that could not write for 8 times as long ends who has leases there.  Others
# take these after 60 s more: sanlock waits for watchdogs, which these hosts don't have.
IO_TIMEOUT_S = 4
LOST_S = 8 * IO_TIMEOUT_S
DEAD_S = LOST_S + 60
assert LOST_S > 2 * BOUND_S

RESOURCE, NUMBER = 1 << 20, 2 << 20  # the lockspace is at 0
LAYOUT = ["-Z", "512", "-A", "1M"]  # of sanlock's areas

# Prints "took N" and then, when the number is written, "wrote N". After a line on its input it
# keeps the lease, does not write the number, and prints "keeps N". sanlock's requests fail
# when they get no answer within its io_timeout, as while the array has no server.  The pause
# is longer on a slow machine, or the other host would hardly ever find the lease free there.
COUNT = f"""
import mmap, os, random, sanlock, select, sys, time
lease = b"weft", b"number", [(sys.argv[1].encode(), {RESOURCE})]
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT | os.O_SYNC)
sector = memoryview(mmap.mmap(-1, mmap.PAGESIZE))[:512]
daemon = sanlock.register()
while True:
    try:
        sanlock.acquire(*lease, slkfd=daemon)
    except sanlock.SanlockException as e:
        print("refused", -e.errno, flush=True)
        time.sleep(random.uniform(0.01, 0.1))
        continue
    begin = time.monotonic()
    assert os.preadv(fd, [sector], {NUMBER}) == 512
    number = int(bytes(sector).rstrip(b"\\0") or b"0") + 1
    print("took", number, flush=True)
    if select.select([sys.stdin], [], [], 0)[0]:
        print("keeps", number, flush=True)
        time.sleep(3600)
    sector[:] = b"%-512d" % number
    assert os.pwritev(fd, [sector], {NUMBER}) == 512
    print("wrote", number, flush=True)
    try:
        sanlock.release(*lease, slkfd=daemon)
    except sanlock.SanlockException as e:  # the daemon goes on trying
        print("unanswered", -e.errno, flush=True)
    held = time.monotonic() - begin
    time.sleep(random.uniform(0, min(0.1 + 4 * held, 5)))
"""


class Host:
    def __init__(self, net, name, number):
        self.net, self.name, self.number = net, name, number
        self.dir = os.path.join(net.dir, f"sanlock-{name}")
        os.mkdir(self.dir)
        self.env = {"WEFT_ADMIN": f"http://{net.address('w')}:7380",
                    # sanlock gives its own folder to its user.
                    "WEFT_RUN_DIR": os.path.join(net.dir, f"weft-{name}"),
                    "SANLOCK_RUN_DIR": self.dir, "SANLOCK_PRIVILEGED": "0"}
        self.device = self.run("weftctl", "attach", "a", "--shared", "--fuse",
                               "--node", name).stdout.strip()
        self.program, self.said = None, []

    def run(self, *words, **kw):
        return run(*self.net.inside(self.name, *words), env=self.env, **kw)

    def make_areas(self):
        for words in (["-s", f"weft:0:{self.device}:0"],
                      ["-r", f"weft:number:{self.device}:{RESOURCE}"]):
            self.run(SANLOCK, "direct", "init", *words, *LAYOUT)

    def join(self):
        name = f"sanlock-{self.name}"
        self.net.processes[name] = background(
            os.path.join(self.net.dir, f"{name}.log"), *self.net.inside(
                self.name, SANLOCK, "daemon", "-D", "-w", "0", "-h", "0", "-l", "0",
                "-e", self.name), env=self.env)
        eventually(lambda: self.run(SANLOCK, "client", "status",
                                    check=False).returncode == 0)
        self.run(SANLOCK, "client", "add_lockspace", "-o", IO_TIMEOUT_S, "-s",
                 f"weft:{self.number}:{self.device}:0")

    def count(self):
        self.program = subprocess.Popen(
            self.net.inside(self.name, "/usr/bin/python3", "-c", COUNT, self.device),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **self.env})
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.program.stdout:
            self.said.append(line.split())

    def numbers(self, word):
        return [int(n) for said, n in self.said.copy() if said == word]

    def _await(self, check):
        eventually(lambda: self.program.poll() is not None or check(), 60, every=0.02,
                   what=f"{self.name} to go on")
        assert self.program.poll() is None, \
            f"{self.name} lost its lease, or an I/O failed: {self.said[-3:]}"

    def goes_on(self):
        """Counts 8 times more, each time within a minute: how many it counts in a minute
        depends on the disks of this machine."""
        for _ in range(8):
            before = len(self.numbers("wrote"))
            self._await(lambda before=before: len(self.numbers("wrote")) > before)

    def keep(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        self._await(lambda: self.numbers("keeps"))
        return self.numbers("keeps")[0]

    def kill(self):
        """Kills all its processes, as nearly at one moment as possible."""
        pids = run("ip", "netns", "pids", self.net.network.tag + self.name)
        for pid in pids.stdout.split():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(int(pid), signal.SIGKILL)
                Cluster.killed += 1
        for name in (f"serve-{self.name}", f"sanlock-{self.name}"):
            if name in self.net.processes:
                self.net.processes.pop(name).wait()

    def end(self):
        if self.program:
            self.program.kill()
            self.program.wait()
        self.run(SANLOCK, "client", "shutdown", "-f", "1", "-w", "1", check=False)
        # Where all was killed it says that nothing could be flushed.
        p = self.run("weftctl", "detach", "a", check=False)
        assert os.listdir(self.env["WEFT_RUN_DIR"]) == [], p.stderr


@pytest.fixture(params=[True, False], ids=["service", "leases"])
def hosts(tmp_path, request):
    made, names = [], ["s0", "s1"]
    with NetCluster(tmp_path, **({"servers": names} if request.param else
                                 {"clients": names, "attached": False})) as net:
        try:
            made += at_once(lambda i: Host(net, f"s{i}", i + 1), 0, 1)
            yield made
        finally:
            for host in made:
                host.end()


def test_two_hosts_count(hosts):
    net = hosts[0].net
    hosts[0].make_areas()
    at_once(Host.join, *hosts)
    for host in hosts:
        host.count()
    at_once(Host.goes_on, *hosts)

    stays, dies = hosts
    if net.servers:
        assert net.serving() == stays.name
        serve = f"serve-{stays.name}"
        net.kill(serve)
        at_once(Host.goes_on, *hosts)
        assert net.serving() == dies.name
        net.start(serve, wait=False)
        eventually(lambda: stays.name in net.standing_by(),
                   what=f"{stays.name} to stand by")
        at_once(Host.goes_on, *hosts)
    else:
        leases = net.get("/api/v1/arrays/a/leases")
        assert all(s["gets"] and s["revokes"] for s in leases["sessions"]), leases
        assert len(leases["sessions"]) == 2

    kept = dies.keep()
    begin = time.monotonic()
    dies.kill()
    # Its earlier writes are perhaps heard of only now, so not any number will do.
    eventually(lambda: kept in stays.numbers("wrote"), DEAD_S + 60,
               what=f"{stays.name} to have the dead one's lease")
    waited = time.monotonic() - begin
    print(f"the lease of a dead host was had after {waited:.1f} s")
    assert waited > LOST_S
    if net.servers:
        assert net.serving() == stays.name
    stays.goes_on()

    wrote = stays.numbers("wrote") + dies.numbers("wrote")
    assert [n for n in range(1, max(wrote) + 1) if wrote.count(n) != 1] == []
    print(f"{len(wrote)} numbers, {len(dies.numbers('wrote'))} of the dead host; "
          f"{sum(len(h.numbers('refused')) for h in hosts)} times the lease was "
          "somebody else's")
