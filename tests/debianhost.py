"""Whole Debian systems, booted in containers of systemd-nspawn, each in a network
namespace of its own on a bridge: hosts as administrators have them.
"""

import itertools
import os
import pathlib
import signal
import string
import subprocess
import time

from wefttest import background, eventually, run


def inside(root, *command, timeout=600):
    """Run a command in that directory as its root, with mounts of its own."""
    return run("unshare", "--mount", "--pid", "--fork", "sh", "-c",
               'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', root,
               *command, timeout=timeout,
               env={"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C",
                    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


def read_if_there(file):
    """"": the process has just ended."""
    try:
        return pathlib.Path(file).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Host:
    """A booted system in a network namespace, on a bridge with the others."""

    count = 0

    def __init__(self, system, network, name, scratch):
        Host.count += 1
        self.name, self.network = name, network
        self.address = f"10.77.0.{Host.count}"
        self.log = scratch / f"{name}.log"
        self.disks = scratch / f"{name}.disks"
        self.disks.mkdir()
        ns = network.join(name, self.address)
        self.nspawn = background(
            self.log, "systemd-nspawn", "--quiet", "--register=no",
            "--keep-unit", f"--machine={ns}", f"--hostname={name}",
            f"--directory={system}", "--volatile=overlay",
            f"--network-namespace-path=/run/netns/{ns}",
            f"--bind={self.disks}:/disks", "--console=pipe", "--boot",
            start_new_session=True)
        self.leader = None
        eventually(self._find_leader, 60, what=f"{name} to start")
        eventually(lambda: self.run(
            "systemctl", "is-system-running", check=False).stdout.strip()
            in ("running", "degraded"), 90, what=f"{name} to be up")

    def _find_leader(self):
        """systemd in the container."""
        assert self.nspawn.poll() is None, self.log.read_text()[-2000:]
        todo = [self.nspawn.pid]
        while todo:
            pid = todo.pop()
            for child in read_if_there(f"/proc/{pid}/task/{pid}/children").split():
                comm = read_if_there(f"/proc/{child}/comm").strip()
                if comm == "systemd":
                    self.leader = child
                    return True
                todo.append(int(child))
        return False

    def run(self, *command, **kw):
        return run("nsenter", "-t", self.leader, "-m", "-u", "-i", "-n", "-p",
                   "--", *command, **kw)

    def write(self, path, text, mode=0o644):
        file = pathlib.Path(f"/proc/{self.leader}/root{path}")
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode),
                  "w", encoding="utf-8") as f:
            f.write(text)

    def journal(self, unit):
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", unit,
                        check=False).stdout

    def main_pid(self, unit):
        return int(self.run("systemctl", "show", "--value", "-p", "MainPID",
                            unit).stdout)

    def kill(self, unit, signal_name):
        """Its main process, whose number is returned."""
        pid = self.main_pid(unit)
        self.run("sh", "-c", f"kill -{signal_name} {pid}")
        return pid

    def stop(self):
        self.nspawn.send_signal(signal.SIGTERM)
        try:
            self.nspawn.wait(30)
        except subprocess.TimeoutExpired:
            self.nspawn.kill()
            self.nspawn.wait()


class Network:
    """Namespaces on a bridge."""

    letters = itertools.cycle(string.ascii_lowercase)

    def __init__(self):
        self.tag = f"wp{os.getpid() % 100000}{next(self.letters)}"
        self.made = []
        self._add("sw")
        self.ip("sw", "link", "add", "br0", "type", "bridge")
        self.ip("sw", "link", "set", "br0", "up")

    def _add(self, name):
        run("ip", "netns", "add", self.tag + name)
        self.made.append(self.tag + name)

    def ip(self, name, *words, **kw):
        """In that namespace."""
        run("ip", "-n", self.tag + name, *words, **kw)

    def ip_all(self, name, lines):
        """All of these in that namespace, by one process."""
        run("ip", "-n", self.tag + name, "-batch", "-", stdin=None,
            input="\n".join(lines))

    def join(self, name, address, six=None):
        """six: an address of IPv6 beside it."""
        self._add(name)
        self.ip("sw", "link", "add", "to-" + name, "type", "veth", "peer",
                 "name", "eth0", "netns", self.tag + name)
        self.ip("sw", "link", "set", "to-" + name, "master", "br0", "up")
        self.ip(name, "link", "set", "lo", "up")
        self.ip(name, "link", "set", "eth0", "up")
        self.ip(name, "addr", "add", address + "/24", "dev", "eth0")
        if six:
            self.ip(name, "addr", "add", six + "/64", "dev", "eth0", "nodad")
        return self.tag + name

    def reach(self, peer, address):
        """From this host, which has an address there, too.

        The link gets no address of IPv6 by itself: that comes a second later, and a
        Chromium that is connecting somewhere gives up then (ERR_NETWORK_CHANGED).
        """
        link = self.tag + "h"
        self.ip("sw", "link", "add", "to-here", "type", "veth", "peer",
                 "name", link, "netns", str(os.getpid()))
        self.ip("sw", "link", "set", "to-here", "master", "br0", "up")
        run("ip", "addr", "add", address, "peer", peer, "dev", link)
        run("ip", "link", "set", link, "addrgenmode", "none", "up")

    def down(self):
        time.sleep(0.1)
        for ns in self.made:
            run("ip", "netns", "del", ns, check=False)
