"""Members of a devcluster whose disks are nbdkit's, and fail on demand.

    with filterdisks(c) as disks:       # c = cluster(env=OVER_NBDKIT, ...)
        disks[1].serve("write", 7, "EIO")   # from the next start of m1 on, and
        c.kill("m1"); c.start("m1")
        disks[1].arm()                      # as soon as this is called
        disks[1].failed(); disks[1].heal()

        disks[1].serve_well()               # the same, and then
        with disks[1].hung():               # it answers nothing
            ...

The calls: read, write and zero (also trim) fail by nbdkit's error filter, one call of `every`;
flush fails by its eval plugin, each `every`-th.  The member sees a file, by FUSE: faults of
its data also hit its header.
"""

import contextlib
import os
import pathlib
import signal

from maparray import dd_disk
from wefttest import SOURCE, Process, run

OVER_NBDKIT = {"WEFT_WRAP_MEMBER": str(SOURCE / "tests/overnbdkit")}
# The error filter's names for them.
CALLS = {"read": ["pread"], "write": ["pwrite"], "zero": ["zero", "trim"]}
INJECTING = "injecting"


class FilterDisk:
    def __init__(self, file):
        self.file, self.raw = file, f"{file}.raw"
        self.trigger = pathlib.Path(f"{file}.fails")
        self.log = pathlib.Path(f"{file}.log")

    def serve(self, call, every, error):
        count = f"{self.file}.flushes"
        words = dd_disk(
            self.raw, f"[ -e {self.trigger} ] || exit 0; echo >>{count}; "
            f"[ $(($(wc -l <{count}) % {every})) -ne 0 ] || "
            f"{{ echo {error} {INJECTING} >&2; exit 1; }}") \
            if call == "flush" else [
            "--filter=error", "file", self.raw,
            *(f"error-{c}{option}" for c in CALLS[call] for option in (
                f"={error}", f"-rate={1 / every}", f"-file={self.trigger}"))]
        self.heal()
        pathlib.Path(count).unlink(missing_ok=True)
        pathlib.Path(f"{self.file}.nbdkit").write_text(
            "".join(f"{w}\n" for w in words))
        self.log.write_text("")

    def serve_well(self):
        """So that it can hang."""
        self.heal()
        pathlib.Path(f"{self.file}.nbdkit").write_text(
            f"-P\n{self.file}.pid\nfile\n{self.raw}\n")

    @contextlib.contextmanager
    def hung(self):
        """Meanwhile it answers nothing."""
        server = Process(int(pathlib.Path(f"{self.file}.pid").read_text()))
        server.stop()
        try:
            yield
        finally:
            os.kill(server.pid, signal.SIGCONT)

    def arm(self):
        self.trigger.touch()

    def heal(self):
        self.trigger.unlink(missing_ok=True)

    def failed(self):
        """How many calls have, since `serve`."""
        return self.log.read_text(errors="replace").count(INJECTING)

    def forget_cache(self):
        """Data that the kernel has cached is read from nbdkit again."""
        fd = os.open(self.file, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)

    def unmount(self):
        while run("mountpoint", "-q", self.file, check=False).returncode == 0:
            run("fusermount3", "-u", "-z", self.file)


@contextlib.contextmanager
def filterdisks(c):
    disks = [FilterDisk(m["file"]) for m in c.members]
    try:
        yield disks
    finally:
        for d in disks:
            d.unmount()
