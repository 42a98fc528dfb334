"""Members of a devcluster whose disk is a block device that can be removed.

    disk = LoopDisk(c, 1)      # m1 is started again on it
    disk.remove()              # as when it is pulled out: open files stay dead
    disk.lead_to(None)         # its path: nothing, or another device
    disk.bring_back()          # the same disk, as another device

The kernel sets the size of a disk that it removes to 0, so each read finds its end, and each
write no room.  Here the offset of a loop device does that; the data stays in its file.
"""

import contextlib
import fcntl
import os
import pathlib
import struct

from wefttest import run

LOOP_GET_STATUS64, LOOP_SET_STATUS64 = 0x4C05, 0x4C04
LO_OFFSET, LO_BYTES = 24, 232


@contextlib.contextmanager
def loop_of(file):
    """A loop device of this file."""
    device = run("losetup", "-f", "--show", file).stdout.strip()
    try:
        yield device
    finally:
        run("losetup", "-d", device)


class LoopDisk:
    def __init__(self, c, number, stack):
        """stack: a contextlib.ExitStack, which outlives the processes of the cluster or
        leaves a device to them until they end."""
        file = pathlib.Path(c.members[number]["file"])
        self.image, self.stack = f"{file}.raw", stack
        self.link = pathlib.Path(f"{file}.by-id")
        c.kill(f"m{number}")
        os.rename(file, self.image)
        file.symlink_to(self.link)
        self.bring_back()
        c.start(f"m{number}")

    def lead_to(self, device):
        self.link.unlink(missing_ok=True)
        if device:
            self.link.symlink_to(device)

    def bring_back(self):
        self.device = self.stack.enter_context(loop_of(self.image))
        self.lead_to(self.device)

    def show_file(self):
        """For those who read what is on the disk, beside its process."""
        fd = os.open(self.device, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        self.lead_to(self.image)

    def remove(self):
        """All at once: it has no size, and its path leads to nothing."""
        self.lead_to(None)
        fd = os.open(self.device, os.O_RDWR)
        try:
            status = bytearray(LO_BYTES)
            fcntl.ioctl(fd, LOOP_GET_STATUS64, status)
            struct.pack_into("<Q", status, LO_OFFSET, 1 << 50)
            fcntl.ioctl(fd, LOOP_SET_STATUS64, bytes(status))
        finally:
            os.close(fd)
        assert os.stat(self.image).st_size > 0
