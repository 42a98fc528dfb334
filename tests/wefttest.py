"""Helpers of Weft's pytest tiers: run programs, call weftd, drive devclusters.

The fixtures that hand them out are in conftest.py, which says how to use them.
"""

import concurrent.futures
import contextlib
import hashlib
import json
import math
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

BUILD = os.environ.get("WEFT_BUILDDIR")
SOURCE = pathlib.Path(__file__).resolve().parent.parent

# HTTP never leaves by a proxy.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def run(*command, check=True, timeout=120, env=None, **kw):
    """Run a program of the build tree or the system, without a stdin.

    Returns the CompletedProcess, stdout and stderr as text.  A failure raises
    with both of them in the message.
    """
    kw.setdefault("stdin", subprocess.DEVNULL)
    kw.setdefault("text", True)
    kw.setdefault("stdout", subprocess.PIPE)
    kw.setdefault("stderr", subprocess.PIPE)
    command = [str(c) for c in command]
    p = subprocess.run(command, timeout=timeout,
                       env={**os.environ, **(env or {})}, **kw)
    if check and p.returncode != 0:
        raise AssertionError(
            f"{' '.join(command)}: exit status {p.returncode}\n"
            f"{p.stdout or ''}{p.stderr or ''}")
    return p


def background(log, *command, env=None, **kw):
    """Starts a program without stdin; appends its output to this file."""
    with open(log, "ab") as f:
        return subprocess.Popen([str(c) for c in command], stdout=f, stderr=f,
                                stdin=subprocess.DEVNULL,
                                env={**os.environ, **(env or {})}, **kw)


# In `make soak` a test plays all of its rounds, and for each layout.
ALL = bool(os.environ.get("WEFT_ALL"))
# Processes that share tests (-n) are to see the same ones.
_PICKS = os.environ.setdefault("WEFT_PICKS", os.environ.get("WEFT_SEED") or
                               str(random.randrange(2 ** 32)))


def picked(values, count=1):
    """So many of these, others in each run, for pytest's parametrize: of layouts for a test
    whose subject is the same in each.  All of them with WEFT_ALL=1."""
    places = range(len(values))
    if not ALL:
        places = sorted(random.Random(f"{_PICKS} {values}").sample(places, count))
    return [values[i] for i in places]


def at_once(call, *arguments):
    """Call it with each of these at the same time; returns what it returned."""
    with concurrent.futures.ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(call, arguments))


def http(method, url, body=None, headers=None, timeout=30):
    """Call weftd.  Returns (status, decoded JSON or None)."""
    data = None
    headers = dict(headers or {})
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with _opener.open(request, timeout=timeout) as r:
            status, text = r.status, r.read()
    except urllib.error.HTTPError as e:
        status, text = e.code, e.read()
    try:
        return status, json.loads(text) if text else None
    except ValueError:
        return status, text


class _Probe(threading.Thread):
    """Does again and again what takes hardly more than `takes` seconds, and notes from
    when to when it has taken more; for a minute each time somebody wants to know."""

    SLACK_S = 0.05

    def __init__(self, step, takes):
        super().__init__(daemon=True)
        self.step, self.takes = step, takes
        self.due, self.until, self.late = math.inf, time.monotonic() + 60, []
        self.start()

    def run(self):
        while True:
            while time.monotonic() < self.until:
                self.due = time.monotonic() + self.takes
                self.step()
                now = time.monotonic()
                if now > self.due + self.SLACK_S:
                    self.late.append((self.due, now))
                self.due = math.inf
            time.sleep(0.02)

    def noted(self, now):
        """Includes a delay that is still going on."""
        self.until = now + 60
        due, late = self.due, self.late.copy()
        return late if now < due + self.SLACK_S else [*late, (due, now)]


def _durable_byte():
    """A step makes one byte durable, beside the test's own files."""
    file = tempfile.TemporaryFile()

    def step():
        os.pwrite(file.fileno(), b"x", 0)
        os.fsync(file.fileno())
        time.sleep(0.1)
    return step


class Pace:
    """How many times slower than usual this machine computes now: at least 1.  Measured
    every few seconds, by this thread's processor time."""

    USUAL_S, EVERY_S = 0.0013, 5
    value, until = 1, 0

    @classmethod
    def now(cls):
        if time.monotonic() > cls.until:
            cls.value = max(1, min(cls._measure() for _ in range(3)) / cls.USUAL_S)
            cls.until = time.monotonic() + cls.EVERY_S
        return cls.value

    @staticmethod
    def _measure():
        begin, total = time.thread_time(), 0
        for i in range(20_000):
            total += i * i
        return time.thread_time() - begin


class Stopwatch:
    """Measures the time of a bounded action.  It subtracts the time for which the machine
    stopped, seen by a thread that only sleeps, and, with disk=True, the time for which its
    disk stopped, seen by a thread that makes a byte durable now and then.  On a machine that
    computes more slowly than usual a second is longer.  A minimum time is measured by
    time.monotonic().

        watch = Stopwatch()
        assert watch.seconds() < BOUND_S
    """

    probes = {}

    def __init__(self, disk=False):
        self.mine = [self.probe("machine", lambda: time.sleep(0.02), 0.02)]
        if disk:
            self.mine.append(self.probe("disk", _durable_byte(), 0.1))
        self.slowest = Pace.now()
        self.begin = time.monotonic()

    @classmethod
    def probe(cls, name, step, takes):
        if name not in cls.probes:
            cls.probes[name] = _Probe(step, takes)
        cls.probes[name].until = time.monotonic() + 60
        return cls.probes[name]

    def seconds(self, begin=None, end=None):
        """Until now; or between two moments since it was made."""
        begin, end = begin or self.begin, end or time.monotonic()
        stood, reached = 0, begin
        for first, last in sorted(x for p in self.mine for x in p.noted(end)):
            first, last = max(first, reached), min(last, end)
            if first < last:
                stood, reached = stood + last - first, last
        return (end - begin - stood) / self.pace()

    def pace(self):
        """The slowest of those seen at its beginning and its readings."""
        self.slowest = max(self.slowest, Pace.now())
        return self.slowest


def eventually(check, seconds=30, every=0.1, what=None):
    """Wait until check() is true, and return what it returned."""
    watch = Stopwatch()
    while True:
        value = check()
        if value:
            return value
        assert watch.seconds() < seconds, \
            f"after {seconds} s still not: {what or check}"
        time.sleep(every)


class Process:
    """A process known only by its number: used wherever it may have ended.  The number alone
    is soon another process's, or a thread's, and /proc/NUMBER exists for a thread, too."""

    def __init__(self, pid, begin=None):
        """It runs now; or begin: it has begun then, in the kernel's ticks."""
        self.pid, self.begin = pid, begin
        if begin is None:
            status = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace")
            assert f"\nTgid:\t{pid}\n" in status, f"{pid} is a thread's number"
            self.begin = int(task_stat(pid)[19])

    @classmethod
    def of(cls, file):
        """As a devcluster writes it down."""
        return cls(*map(int, file.read_text().split()))

    def alive(self):
        """It runs, or a thread of it does, which may hold its files yet."""
        stat = task_stat(self.pid)
        return bool(stat) and int(stat[19]) == self.begin and \
            (stat[0] not in "ZX" or int(stat[17]) > 1)

    def stop(self):
        """SIGSTOP; it does nothing more when this returns, in no thread."""
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: all(stat[0] in "TZX" for stat in map(
            lambda tid: task_stat(f"{self.pid}/task/{tid}"),
            os.listdir(f"/proc/{self.pid}/task")) if stat), every=0.001,
                   what=f"process {self.pid} to stop")

    def kill(self):
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
            eventually(lambda: not self.alive(), every=0.005,
                       what=f"process {self.pid} to end")


def task_stat(task):
    """The fields of /proc/TASK/stat, from the state on; none: it has ended."""
    try:
        return pathlib.Path(f"/proc/{task}/stat").read_text(errors="replace") \
            .rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def idle_threads(pid):
    """How many threads an array process has before there is a client.  (nbdkit says
    that it is ready a moment before the last of them begins.)"""
    def names():
        found = []
        for file in pathlib.Path(f"/proc/{pid}/task").glob("*/comm"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.append(file.read_text())  # it may just have ended
        return found
    eventually(lambda: "weft-loss\n" in names(), what="the last thread to begin")
    return len(names())


def free_port():
    """For a server that is started again on it: of our eighth of the ports (see
    devcluster), of which no outgoing connection is given one."""
    while True:
        port = random.randrange(1596) + 20000 + \
            1596 * int(os.environ.get("WEFT_PORTS", "0"))
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


class Cluster:
    """One devcluster.  `c.admin`, `c.nbd`, `c.members[1]["file"]` and so on
    are as in `devcluster status --json`, as of the start."""

    killed = 0  # processes of all clusters, on purpose

    def __init__(self, directory, env=None, **options):
        self.dir = pathlib.Path(os.path.realpath(directory))
        self.env = env or {}
        self.down_on_purpose = set()
        words = []
        for key, value in options.items():
            option = "--" + key.replace("_", "-")
            words += [option] if value is True else [option, str(value)]
        self.words = words
        self.up()

    def devcluster(self, *words, **kw):
        return run("devcluster", *words, env=self.env, **kw)

    def up(self):
        """Also starts a cluster again that was taken down."""
        words = [] if (self.dir / "cluster.json").exists() else self.words
        p = self.devcluster("up", self.dir, *words, "--json")
        self._take(json.loads(p.stdout))
        self.down_on_purpose = {a["name"] for a in self.arrays if not a["pid"]}

    def _take(self, status):
        self.admin, self.nbd = status["admin"], status["nbd"]
        self.weftd, self.array = status["weftd"], status["array"]
        self.arrays = status["arrays"]
        self.members = status["members"]

    def status(self):
        p = self.devcluster("status", self.dir, "--json")
        return json.loads(p.stdout)

    def pid(self, name):
        """The number of a running process."""
        return self.process(name).pid

    def process(self, name):
        assert self.running(name), f"{name} does not run"
        return Process.of(self.dir / f"{name}.pid")

    def running(self, name):
        file = self.dir / f"{name}.pid"
        return file.exists() and Process.of(file).alive()

    def _signal(self, names, number):
        processes = [self.process(name) for name in names]
        self.down_on_purpose |= set(names)
        for p in processes:
            os.kill(p.pid, number)
        eventually(lambda: not any(p.alive() for p in processes), every=0.005,
                   what=f"{names} to end")

    def kill(self, *names):
        """All of them at one moment, as near as it gets."""
        Cluster.killed += len(names)
        self._signal(names, signal.SIGKILL)

    def terminate(self, *names):
        """Cleanly, all of them at the same time."""
        arrays = [a["name"] for a in self.arrays if a["name"] in names]
        for _ in range(5):
            again = self._end(names)
            if not again or len(arrays) < len(names):
                return
            self.start(*again)
            names = again
        raise AssertionError(f"{again} lose a member each time")

    def detaches(self, name):
        """Ends an array process.  False: it has not detached, because it lost a member."""
        return not self._end([name])

    def _end(self, names):
        """The array processes that have lost a member as they ended, because the machine
        stalled: they can't tell that from the end of the host, and have not detached."""
        arrays = [a for a in self.arrays if a["name"] in names]
        before = {a["name"]: len(self.log(a["name"])) for a in arrays}
        for a in arrays:
            self._greeted(a["uri"])
        self._signal(names, signal.SIGTERM)
        return [name for name in before if self._lost_one(name, before[name])]

    def _lost_one(self, name, since):
        log = self.log(name)
        gone = re.search(r"ending, so it does not report that member (\S+) is gone",
                         log[since:])
        if gone:
            said = re.findall(rf"member {gone[1]} is (lost|recorded|connected)", log)
            assert said and said[-1] == "lost", f"{name} lost no member:\n{log}"
        return gone is not None

    @staticmethod
    def _greeted(uri):
        """The array process has come up: the kernel takes connections for it before, and a
        connection that ends then may leave its session open."""
        uri = urllib.parse.urlsplit(uri)
        with socket.create_connection((uri.hostname, uri.port), 60) as s:
            assert s.recv(8) == b"NBDMAGIC"

    def stop(self, name):
        self.devcluster("stop", self.dir, name)

    def cont(self, name):
        self.devcluster("cont", self.dir, name)

    def restart(self, *names):
        """All are killed, and then started."""
        self.kill(*names)
        self.start(*names)

    def start(self, *names):
        """All at the same time."""
        starts = [subprocess.Popen(
            ["devcluster", "start", self.dir, name],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **self.env}) for name in names]
        said = [p.communicate(timeout=120)[0] for p in starts]
        assert not any(p.returncode for p in starts), "".join(said)
        self.down_on_purpose -= set(names)
        for p in [self.weftd, self.array, *self.arrays, *self.members]:
            if p["name"] in names:
                p["pid"] = self.pid(p["name"])

    def add(self):
        """One more disk, blank and in no array: its name and UUID."""
        name, disk = self.devcluster("add", self.dir).stdout.split()
        self._take(self.status())
        return name, disk

    def may_end(self, name):
        """This process may end by itself from now on."""
        self.down_on_purpose.add(name)

    def down(self):
        self.down_on_purpose = {file.stem for file in self.dir.glob("*.cmd")}
        self.devcluster("down", self.dir)

    def processes(self):
        s = self.status()
        return [s["weftd"], *s["members"], *s["arrays"]]

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def get(self, path):
        """GET that must succeed; returns the JSON."""
        status, reply = http("GET", self.admin + path)
        assert status == 200, f"GET {path}: {status}: {reply}"
        return reply

    def call(self, method, path, body=None, **kw):
        """Returns (status, JSON)."""
        return http(method, self.admin + path, body, **kw)

    # For the fixture.

    def faults(self):
        """Failures that the test itself may not have looked at."""
        names = {file.stem for file in self.dir.glob("*.cmd")}
        found = [f"{name} ended by itself"
                 for name in sorted(names - self.down_on_purpose)
                 if not self.running(name)]
        bad = re.compile(r"(Assertion .* failed|ERROR: \w+Sanitizer|"
                         r"WARNING: ThreadSanitizer|runtime error:)")
        for log in sorted(self.dir.glob("*.log")):
            m = bad.search(log.read_text(errors="replace"))
            if m:
                found.append(f"{log.name}: {m.group(0)}")
        return found

    def tails(self):
        text = []
        for log in sorted(self.dir.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-25:]
            text += [f"--- {log}"] + lines
        return "\n".join(text)
