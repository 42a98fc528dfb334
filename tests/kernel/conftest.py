"""A virtual machine with Debian's kernel: the client that most people will use.

`guest` is booted once for all tests of this directory, and again where its
power is cut (close, boot).  It reaches the host's 127.0.0.1 as 10.0.2.2, and
has the tree of `tree` as an ext4 on /dev/vda, mounted on /src, and no disk
else.  QEMU emulates the processor, so this runs wherever QEMU does.
"""

import contextlib
import hashlib
import os
import pathlib
import random
import re
import socket
import subprocess
import time

import pytest

from wefttest import SOURCE, run

HOST = "10.0.2.2"
# With more the kernel sends a request that waits for 30 s a second time, which
# may then run after a newer one.
CONNECTIONS = 1


class Guest:
    """Runs shell commands in the guest, one line each (see tests/kernel/init)."""

    def __init__(self, directory, drive):
        self.dir = directory
        self.console = directory / "console.log"
        self.drive = drive
        self.kernel = run(SOURCE / "tests/kernel/mkinitramfs",
                          directory / "initramfs").stdout.strip()
        self.boot()

    def boot(self):
        path = self.dir / "ttyS1"
        path.unlink(missing_ok=True)
        self.qemu = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "pc", "-accel", "tcg",
             "-cpu", "max", "-smp", "2", "-m", "384",
             "-nodefaults", "-no-user-config", "-display", "none",
             "-no-reboot",
             "-kernel", self.kernel, "-initrd", self.dir / "initramfs",
             "-append", "console=ttyS0 quiet panic=-1 oops=panic "
                        "net.ifnames=0",
             "-chardev", f"file,id=console,path={self.console}",
             "-serial", "chardev:console",
             "-chardev", f"socket,id=shell,path={path},server=on,wait=off",
             "-serial", "chardev:shell",
             "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile=",
             "-drive", f"file={self.drive},format=raw,if=virtio,readonly=on"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=(self.dir / "qemu.log").open("w"))
        try:
            self._connect(path)
        except BaseException:
            self.close()
            raise
        self.count = 0
        self.run("mount -t ext4 -o ro /dev/vda /src; dmesg -c >/dev/null")

    def attach(self, nbd):
        """The array is /dev/nbd0 then."""
        port = nbd.rsplit(":", 1)[1]
        # What a failed test has left.
        self.run("umount /mnt 2>/dev/null; nbd-client -d /dev/nbd0 2>/dev/null",
                 check=False)
        self.run(f"nbd-client {HOST} {port} /dev/nbd0 -C {CONNECTIONS}")
        # So that data leaves for the members at once, not when there is time.
        self.run("echo 2000000 >/proc/sys/vm/dirty_bytes")

    def detach(self):
        self.run("nbd-client -d /dev/nbd0")

    def kernel_errors(self):
        return [line for line in self.run("dmesg").splitlines()
                if re.search(r"(I/O error|EXT4-fs error|EXT4-fs warning|"
                             r"nbd0: .*(timed out|Receive|dead|error)|"
                             r"BUG|Call Trace|Oops)", line, re.I)]

    def _connect(self, path):
        end = time.monotonic() + 180
        self.socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.socket.connect(str(path))
                break
            except OSError:
                self._alive()
                assert time.monotonic() < end, "QEMU does not start"
                time.sleep(0.05)
        self.input = b""
        self._answer("ready", end)

    def _alive(self):
        assert self.qemu.poll() is None, (
            f"the guest is gone (status {self.qemu.returncode})\n"
            + self.tail())

    def tail(self):
        return "".join(f"--- {p}\n" + p.read_text(errors="replace")[-3000:]
                       for p in (self.console, self.dir / "qemu.log")
                       if p.exists())

    def _answer(self, ident, end):
        """Read until the line `=ident STATUS`; returns (output, status)."""
        mark = f"={ident} ".encode()
        output = b""
        while True:
            while b"\n" in self.input:
                line, self.input = self.input.split(b"\n", 1)
                if line.startswith(mark):
                    return output.decode(errors="replace"), int(line[len(mark):])
                output += line + b"\n"
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError(
                    f"no answer from the guest\n{output.decode()}\n{self.tail()}")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                continue
            if not data:
                self.qemu.wait(10)
                self._alive()
            self.input += data

    def run(self, command, check=True, timeout=120):
        """Returns what it printed; a status other than 0 raises."""
        self.send(command)
        output, status = self._answer(self.count, time.monotonic() + timeout)
        if check and status != 0:
            raise AssertionError(f"in the guest: {command}: status {status}\n"
                                 f"{output}")
        return output

    def send(self, command):
        """Run it, and let the caller see to what it prints."""
        self.count += 1
        self.socket.sendall(f"{self.count} {command}\n".encode())

    def said(self, seconds=0):
        """What it has printed since, whole lines."""
        self.socket.settimeout(seconds or 0.001)
        with contextlib.suppress(TimeoutError):
            while data := self.socket.recv(65536):
                self.input += data
                self.socket.settimeout(0.001)
        lines, end, self.input = self.input.rpartition(b"\n")
        return (lines + end).decode(errors="replace").splitlines()

    def start(self, command):
        """Run it in the background; returns a function that is None while it
        runs and then (status, output)."""
        name = f"/tmp/job{self.count}"
        self.run(f"( ( {command} ) >{name}.out 2>&1; echo $? >{name}.rc ) "
                 ">/dev/null &")

        def done():
            status = self.run(f"cat {name}.rc 2>/dev/null", check=False)
            if not status:
                return None
            return int(status), self.run(f"cat {name}.out")
        return done

    def close(self):
        """As when its power is cut."""
        self.qemu.kill()
        self.qemu.wait()
        if hasattr(self, "socket"):
            self.socket.close()


class Tree:
    """A directory tree with the SHA-256 of each of its files."""

    def __init__(self, directory):
        self.dir = directory / "tree"
        self.sums = {}
        self.bytes = 0
        seed = int(os.environ.get("WEFT_SEED") or random.randrange(2 ** 32))
        print(f"seed of the tree: WEFT_SEED={seed}")
        rng = random.Random(seed)
        for i in range(300):
            size = int(2 ** rng.uniform(3, 17))
            self._file(f"d{i % 17}/e{i % 5}/f{i}", rng.randbytes(size))
        for i in range(12):
            size = rng.randrange(2 << 20, 4 << 20)
            self._file(f"big/f{i}", rng.randbytes(size))
        (self.dir / "link").symlink_to("big/f0")
        (self.dir / "SUMS").write_text(
            "".join(f"{s}  {n}\n" for n, s in sorted(self.sums.items())))
        self.image = directory / "tree.img"
        with self.image.open("wb") as f:
            f.truncate(self.bytes + (32 << 20))
        run("/sbin/mke2fs", "-q", "-t", "ext4", "-O", "^has_journal",
            "-d", self.dir, self.image)

    def _file(self, name, data):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.sums[name] = hashlib.sha256(data).hexdigest()
        self.bytes += len(data)

    def differences(self, directory):
        """What is missing or other in a copy of the tree."""
        found = []
        for name, expected in self.sums.items():
            path = pathlib.Path(directory) / name
            if not path.is_file():
                found.append(f"{name}: missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != expected:
                found.append(f"{name}: other bytes")
        return found


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    return Tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="session")
def guest(tmp_path_factory, tree):
    g = Guest(tmp_path_factory.mktemp("guest"), tree.image)
    yield g
    g.close()
