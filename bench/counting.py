"""The cost of a request, counted: context switches, system calls and CPU time of the
client, of the array process and of all members together.

The kernel counts switches and CPU time for each thread, and forgets them when it
ends; so `requests` (requests.c) keeps its connection until all is counted.  System
calls are counted by strace, which makes everything slower, so in another run.

Heartbeats and the like go on meanwhile, more of them the longer a run takes.  Their
threads are not counted: switches and system calls are those of the threads that serve
requests (SERVES).
"""

import collections
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from measure import Failed, cpu_seconds

# What a workload does, the bytes of a request and how many are on their way.
WORKLOADS = {
    "4k-randread-1": ("read", 4096, 1, ()),
    "4k-randread-32": ("read", 4096, 32, ()),
    "4k-randwrite-1": ("write", 4096, 1, ()),
    "4k-randwrite-32": ("write", 4096, 32, ()),
    "1m-read-4": ("read", 1 << 20, 4, ("sequential",)),
    "1m-write-4": ("write", 1 << 20, 4, ("sequential",)),
}
# A write and a FLUSH when it is answered: so many writers do that at once.
COMMITS = {
    "4k-commit-1": ("commit", 4096, 1, ()),
    "4k-commit-8": ("commit", 4096, 8, ()),
}
# What is left behind by writes goes on for a moment: it belongs to them.
SETTLE_S = 0.3
# By name: every thread of Weft's but the engine's does what nobody requested.
SERVES = re.compile(r"(?!weft-)|weft-engine$")


def requests_of(workload, count):
    """So many of 4 KiB, or 1/16 of them of 1 MiB."""
    return count if WORKLOADS[workload][1] == 4096 else max(count // 16, 64)


def switches(pids, kind=r"(?:non)?voluntary"):
    """Context switches so far, by thread, of those that serve requests.  A switch is voluntary when
    the thread goes to sleep, and not when another takes its processor."""
    each = {}
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                text = (task / "status").read_text(encoding="ascii",
                                                   errors="replace")
                if not SERVES.match(text.splitlines()[0].split(None, 1)[1]):
                    continue
                each[task] = sum(map(int, re.findall(
                    rf"^{kind}_ctxt_switches:\s+(\d+)", text, re.M)))
    return each


def since(before, after):
    """How many there were between two counts by thread.  Threads of a client that has
    hung up may end meanwhile: what they had counted until then is none of it."""
    return sum(n - before.get(task, 0) for task, n in after.items())


class Client:
    """A `requests` that is connected.  The workload is the name of one, or as they
    are in WORKLOADS."""

    def __init__(self, uri, workload, count, size, connections=1, inside=(),
                 depth=None):
        does, length, usual, more = (WORKLOADS | COMMITS).get(workload, workload)
        depth = depth or usual
        self.process = subprocess.Popen(
            [*inside, f"{os.environ['WEFT_BUILDDIR']}/bench/requests", uri, does,
             str(length), str(depth), str(count), str(size),
             str(connections), *more],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.say(None)

    def say(self, line):
        """Its next line, when it was told to go on."""
        if line is not None:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        said = self.process.stdout.readline()
        if not said:
            raise Failed("requests: it has ended; see what it said above")
        return said

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def client(*args):
    c = Client(*args)
    try:
        yield c
    finally:
        c.end()


def parties(subject, c):
    """Whose counts are told apart: their processes."""
    return {"client": [c.process.pid], "array": [subject.array_pid],
            "members": subject.member_pids()}


def costs(subject, workload, count, size, connections=1):
    """{party: {"switches", "sleeps": of a request, "cpu": seconds of 100,000}}, and
    how many requests the client made in a second ("rate").  The depth is that of
    each connection."""
    def now():
        return {p: (switches(pids), switches(pids, "voluntary"),
                    cpu_seconds(pids) * 1e5) for p, pids in who.items()}

    with client(subject.uri, workload, count, size, connections) as c:
        who = parties(subject, c)
        before = now()
        seconds = int(c.say("\n")) / 1e6
        if "write" in workload:
            time.sleep(SETTLE_S)
        after = now()
    cost = {p: {"switches": since(before[p][0], after[p][0]) / count,
                "sleeps": since(before[p][1], after[p][1]) / count,
                "cpu": (after[p][2] - before[p][2]) / count} for p in who}
    cost["client"]["rate"] = count / seconds
    return cost


def traced(pids, run):
    """{name: how many} of the system calls while run() runs, of those threads of these
    processes that serve requests, and live yet when it is done."""
    made = collections.Counter()
    with tempfile.TemporaryDirectory() as d:
        words = ["strace", "-ff", "-qq", "-s0", "-esignal=none", "-o", f"{d}/t"]
        for pid in pids:
            words += ["-p", str(pid)]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL) as p:
            try:
                time.sleep(1)  # it attaches to one thread after the other
                run()
            finally:
                p.send_signal(signal.SIGINT)
                p.wait()
        for task in switches(pids):
            with contextlib.suppress(FileNotFoundError):  # a thread that made none
                text = pathlib.Path(f"{d}/t.{task.name}").read_text(
                    encoding="ascii", errors="replace")
                made.update(re.findall(r"^(\w+)\(", text, re.M))
    return made


def calls(subject, workload, count, size, party="array", connections=1):
    """{name: how many for a request} of the system calls of one party."""
    with client(subject.uri, workload, count, size, connections) as c:
        made = traced(parties(subject, c)[party], lambda: c.say("\n"))
    return {name: n / count for name, n in made.items()}


def seconds(subject, workload, count, size):
    """How long so many requests took."""
    with client(subject.uri, workload, count, size) as c:
        return int(c.say("\n")) / 1e6
