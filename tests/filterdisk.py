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
flush fails by tests/volatile/flushfails.c, each `every`-th.  The member sees a file, by FUSE:
faults of its data also hit its header.
"""

import contextlib
import errno
import os
import pathlib
import signal

from wefttest import BUILD, SOURCE, Process, run

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
        """error: its name, such as EIO."""
        self.heal()
        if call == "flush":
            self._nbdkit("file", self.raw, env={
                "LD_PRELOAD": f"{BUILD}/tests/volatile/.libs/flushfails.so",
                "WEFT_FLUSH_TRIGGER": self.trigger, "WEFT_FLUSH_EVERY": every,
                "WEFT_FLUSH_ERROR": getattr(errno, error)})
        else:
            self._nbdkit("--filter=error", "file", self.raw, *(
                f"error-{c}{option}" for c in CALLS[call] for option in (
                    f"={error}", f"-rate={1 / every}", f"-file={self.trigger}")))
        self.log.write_text("")

    def _nbdkit(self, *words, env={}):
        words = ["env", *(f"{k}={v}" for k, v in env.items()),
                 "nbdkit", "--exit-with-parent", *words]
        pathlib.Path(f"{self.file}.nbdkit").write_text("".join(f"{w}\n" for w in words))

    def serve_well(self):
        """So that it can hang."""
        self.heal()
        self._nbdkit("-P", f"{self.file}.pid", "file", self.raw)

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
