"""An nbdkit of the test's own, beside those of a devcluster."""

import os
import re
import signal
import subprocess
import tempfile
import time

from wefttest import background, run


def nbdkit_is_old():
    """Older than 1.34: plugin/nbdkit-replies.c takes its calls over."""
    said = run("nbdkit", "--dump-config").stdout
    major, minor = re.search(r"^version=(\d+)\.(\d+)", said, re.MULTILINE).groups()
    return (int(major), int(minor)) < (1, 34)


class Nbdkit:
    """`nbdkit -f -U SOCKET WORDS...`, which listens when the constructor returns.
    (An array may attach until then: its first client waits for that.)

    with Nbdkit("weft", "map=" + path) as array:
        fio(array.uri)
    """

    def __init__(self, *words, wrap=(), env=None, timeout=60, address=None):
        """address: (host, port) to listen on, in place of the socket."""
        self.dir = tempfile.TemporaryDirectory(prefix="weft-nbdkit-")
        self.socket = os.path.join(self.dir.name, "s")
        self.uri = f"nbd+unix:///?socket={self.socket}"
        self.logfile = os.path.join(self.dir.name, "log")
        ready = os.path.join(self.dir.name, "pid")
        listen = ["-i", address[0], "-p", address[1]] if address else \
            ["-U", self.socket]
        self.words = [*wrap, "nbdkit", "-f", "-P", ready, *listen, *words]
        self.process = background(self.logfile, *self.words, env=env,
                                  start_new_session=True)
        end = time.monotonic() + timeout
        while not os.path.exists(ready) or not os.path.getsize(ready):
            if self.process.poll() is not None:
                raise NotStarted(self.process.returncode, self.log())
            if time.monotonic() > end:
                self.close()
                raise AssertionError(f"not ready after {timeout} s: "
                                     f"{self.words}")
            time.sleep(0.02)
        with open(ready, encoding="ascii") as f:
            self.pid = int(f.read())

    def log(self):
        with open(self.logfile, encoding="utf-8", errors="replace") as f:
            return f.read()

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, timeout=30):
        """End it as an administrator would; returns the exit status."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def close(self):
        """End it in any case.  nbdkit itself waits for its clients to go, so
        close them first where a clean end matters, and say stop()."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.dir.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class NotStarted(Exception):
    """nbdkit refused to start: `status`, and what it `said`."""

    def __init__(self, status, said):
        super().__init__(f"exit status {status}: {said}")
        self.status, self.said = status, said

    def line(self):
        """The one clear line.  Fails when it said more than one error, or
        none; nbdkit's own prefixes are taken off."""
        errors = [x for x in self.said.splitlines() if "error:" in x]
        assert len(errors) == 1, f"not one line of error:\n{self.said}"
        return errors[0].partition("error:")[2].strip()


def array_of(c, node="n9"):
    """The words of a further process for a cluster's array."""
    return ["weft", "array=a", f"admin={c.admin}", f"node={node}"]


def refused(*words, wrap=(), env=None):
    """Start an nbdkit that must refuse, and return its one line."""
    try:
        with Nbdkit(*words, wrap=wrap, env=env) as server:
            said = server.log()
    except NotStarted as e:
        assert e.status > 0, f"ended by a signal: {e}"
        return e.line()
    raise AssertionError(f"nbdkit {' '.join(map(str, words))} started, "
                         f"though it should have refused\n{said}")
