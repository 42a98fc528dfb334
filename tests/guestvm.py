"""A virtual machine with Debian's kernel (tests/kernel/mkinitramfs) that obeys the test.  QEMU
emulates it, so it runs wherever QEMU does.

On its second serial port it is sent lines `ID COMMAND`; each is run by a shell,
what that prints is sent back, and then `=ID STATUS`.
"""

import contextlib
import json
import lzma
import pathlib
import re
import socket
import struct
import subprocess
import time

from wefttest import SOURCE, eventually, run


def unpacked(kernel, to):
    """The kernel proper, out of the image that would unpack it: in the emulated
    machine that takes longer than all else until its first process.  Images are
    laid out by the boot protocol of Linux/x86; of those that are not by xz the
    path is returned as it is."""
    image = pathlib.Path(kernel).read_bytes()
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (image[0x1f1] + 1) * 512 + offset
    payload = image[start:start + length]
    if not payload.startswith(b"\xfd7zXZ"):
        return kernel
    # Behind it stands the length of what it unpacks to.
    to.write_bytes(lzma.LZMADecompressor().decompress(payload))
    return to


def boot_files(directory, *extra):
    """The guests' boot files, with `extra` in the initramfs: (kernel, initramfs)."""
    initramfs = directory / "initramfs"
    made = run(SOURCE / "tests/kernel/mkinitramfs", initramfs, *extra)
    return unpacked(made.stdout.strip(), directory / "vmlinux"), initramfs


class Monitor:
    """A QEMU's QMP, by a socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self.call("qmp_capabilities")

    def call(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}))
        self.file.flush()
        while True:
            said = json.loads(self.file.readline())
            assert "error" not in said, said
            if "return" in said:
                return said["return"]

    def has_ended(self):
        """How the migration has ended; None: it goes on."""
        status = self.call("query-migrate").get("status")
        return status if status in ("completed", "failed", "cancelled") else None


class Guest:
    """With these drives, {serial number: file, and more as QEMU's -drive has it};
    `root` is the path of the one to boot from, without which the initramfs is all
    (tests/kernel/init); `words` are more of QEMU's, and `inside` runs that on some host.
    `files` are its boot_files, if it has none of its own.  On a busy machine its clock
    may run at several times the speed, but for one that is `punctual`.  Two emulated
    `processors` wait for each other, which takes a third of the host's processor time; where
    several guests are the subject, one is enough."""

    def __init__(self, directory, drives, memory=384, root=None, words=(),
                 files=None, inside=(), punctual=False, processors=2):
        self.dir = directory
        self.console = directory / "console.log"
        self.words = ["-m", str(memory), "-smp", str(processors), *words]
        self.drives, self.inside = drives, inside
        self.starts = 0
        # The time is asked for often: of the processor it costs no way out of the
        # emulation, but the processor's own speed is measured at boot.  Who would spy
        # on whom there?  And a self-test of its cryptography has looped in the emulation.
        self.append = ("console=ttyS0 quiet panic=-1 oops=panic net.ifnames=0 "
                       "mitigations=off no_timer_check cryptomgr.notests " +
                       ("clocksource=acpi_pm" if punctual else "tsc=reliable"))
        if root:
            self.append += f" root={root}"
        self.kernel, self.initramfs = files or boot_files(directory)
        self.boot()

    def _path(self, what):
        """The path of a socket of the QEMU that was started last."""
        return self.dir / f"{what}.{self.starts}"

    def _start(self, *more):
        self.starts += 1
        words = []
        for serial, drive in self.drives.items():
            words += [
                "-drive", f"format=raw,if=none,id={serial},file={drive}",
                "-device", f"virtio-blk-pci,drive={serial},serial={serial}"]
        return subprocess.Popen(
            [*self.inside, "qemu-system-x86_64", "-machine", "pc", "-accel", "tcg",
             "-cpu", "max", "-nodefaults", "-no-user-config", "-display", "none",
             "-no-reboot",
             "-kernel", self.kernel, "-initrd", self.initramfs,
             "-append", self.append,
             "-chardev", f"file,id=console,path={self.console},append=on",
             "-serial", "chardev:console",
             "-chardev",
             f"socket,id=shell,path={self._path('shell')},server=on,wait=off",
             "-serial", "chardev:shell",
             "-qmp", f"unix:{self._path('qmp')},server=on,wait=off",
             "-netdev", "user,id=net",
             "-device", "virtio-net-pci,netdev=net,romfile=", *self.words,
             *words, *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=(self.dir / "qemu.log").open("a"))

    def boot(self):
        self.qemu = self._start()
        try:
            end = time.monotonic() + 180
            self._connect(self._path("shell"), end)
            self._answer("ready", end)
        except BaseException:
            self.close()
            raise
        self.count = 0

    def _monitor(self):
        """None: there is none yet."""
        with contextlib.suppress(OSError):
            return Monitor(self._path("qmp"))
        return None

    def migrate(self, drives, inside, uri):
        """It goes on in a QEMU on another host, which is reached there by the URI, and
        has the same drives by other ways."""
        old, monitor = self.qemu, Monitor(self._path("qmp"))
        self.drives, self.inside = drives, inside
        self.qemu = self._start("-incoming", "defer")
        try:
            eventually(self._monitor, 60, what="the other QEMU to start").call(
                "migrate-incoming", uri=uri)
            monitor.call("migrate", uri=uri)
            said = eventually(lambda: monitor.has_ended(), 120, every=0.05,
                              what="the migration to end")
            assert said == "completed", self.tail()
        finally:
            old.kill()
            old.wait()
        self.socket.close()
        self._connect(self._path("shell"), time.monotonic() + 60)

    def kernel_errors(self):
        return [line for line in self.run("dmesg").splitlines()
                if re.search(r"(I/O error|EXT4-fs error|EXT4-fs warning|"
                             r"nbd0: .*(timed out|Receive|dead|error)|"
                             r"BUG|Call Trace|Oops)", line, re.I)]

    def device_errors(self):
        """The errors that are not merely the end of a connection."""
        return [line for line in self.kernel_errors()
                if "I/O error" in line or "EXT4" in line or "timed out" in line]

    def _connect(self, path, end):
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
        """The whole lines printed since the last call."""
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
