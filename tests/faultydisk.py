"""Members of a devcluster whose disks fail every n-th call.

    c = cluster(env=faulty(tmp_path), ...)
    disk = FaultyDisk(c.members[1]["file"])
    disk.fail("write", 7, errno.ENOSPC)         # each 7th from now on
    disk.failed("write"); disk.heal()

The calls: read, write (zeroes and trims, too), flush.  tests/faults/everynth.c
does it.
"""

import mmap
import pathlib
import struct

from wefttest import SOURCE, run

CALLS = ["read", "write", "flush"]
FIELDS = struct.Struct("=IIII")  # every, error, calls, failed


def faulty(directory):
    """The environment of a devcluster whose members' disks may fail."""
    library = pathlib.Path(directory) / "everynth.so"
    run("cc", "-O1", "-shared", "-fPIC", "-o", library,
        SOURCE / "tests/faults/everynth.c", "-ldl")
    return {"WEFT_WRAP_MEMBER": f"env LD_PRELOAD={library} WEFT_FAULTY=*.img"}


class FaultyDisk:
    def __init__(self, file):
        with open(file + ".faults", "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 0)

    def _put(self, call, every, error):
        # `every` is what arms it, so it goes last, and is disarmed first.
        at = CALLS.index(call) * FIELDS.size
        self.map[at:at + 4] = bytes(4)
        FIELDS.pack_into(self.map, at, 0, error, 0, 0)
        self.map[at:at + 4] = every.to_bytes(4, "little")

    def fail(self, call, every, error):
        self._put(call, every, error)

    def heal(self):
        """All that were counted are forgotten."""
        for call in CALLS:
            self._put(call, 0, 0)

    def failed(self, call):
        """How many of them have failed."""
        return FIELDS.unpack_from(
            self.map, CALLS.index(call) * FIELDS.size)[3]
