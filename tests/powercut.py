"""A power cut of members, whose disks have a volatile cache.

    c = cluster(env=volatile(), ...)     # or volatile(c_env)
    c.kill("m1"); power_cut(c.members[1]["file"], rng)

tests/volatile/volatile.c notes what was written and not synced; power_cut takes
each such write back, or keeps it, at random.  The file is another one then: by that
(in place of the boot, which stays) a member knows that it is not the memory of the
process before.
"""

import os
import struct
import subprocess

from wefttest import BUILD

WRITTEN, ZEROES, STABLE, SYNCED = 1, 2, 3, 4
RECORD = struct.Struct("=QQQ")


def volatile(env=None):
    """The environment of a devcluster whose members' files are volatile."""
    library = os.path.join(BUILD, "tests/volatile/.libs/volatile.so")
    assert os.path.exists(library), library
    return {**(env or {}),
            "WEFT_WRAP_MEMBER":
                f"env LD_PRELOAD={library} WEFT_VOLATILE=*.img"}


def _records(log):
    """(position, kind, offset, length, what stood there) in their order."""
    found, at = [], 0
    while at + RECORD.size <= len(log):
        kind, offset, length = RECORD.unpack_from(log, at)
        payload = length if kind == WRITTEN else 0
        if at + RECORD.size + payload > len(log):
            break  # killed while it noted: the write was not begun
        old = log[at + RECORD.size:][:payload] if kind == WRITTEN \
            else bytes(length if kind == ZEROES else 0)
        found.append((at, kind, offset, length, old))
        at += RECORD.size + payload
    return found


def power_cut(file, rng, keep=0.5):
    """The process is dead.  Returns how many writes were in doubt, and how
    many of them are lost."""
    log_file = file + ".undo"
    _another_inode(file)
    if not os.path.exists(log_file):
        return 0, 0
    with open(log_file, "rb") as f:
        records = _records(f.read())
    synced = max([r[2] for r in records if r[1] == SYNCED], default=0)
    later = []  # ranges that newer writes have that are kept
    doubtful = lost = 0
    with open(file, "r+b") as disk:
        for at, kind, offset, length, old in reversed(records):
            if kind == SYNCED:
                continue
            doubt = kind != STABLE and at >= synced
            doubtful += doubt
            if doubt and rng.random() >= keep:
                lost += 1
                _restore(disk, offset, old, later)
            else:
                later.append((offset, offset + length))
    os.unlink(log_file)
    return doubtful, lost


def _another_inode(file):
    copy = file + ".copy"
    subprocess.run(["cp", "--sparse=always", file, copy], check=True)
    os.replace(copy, file)


def _restore(disk, offset, old, later):
    """Put back what stood there, where no newer write is kept."""
    parts = [(offset, offset + len(old))]
    for start, end in later:
        parts = [p for s, e in parts
                 for p in ((s, min(e, start)), (max(s, end), e))
                 if p[0] < p[1]]
    for s, e in parts:
        disk.seek(s)
        disk.write(old[s - offset:e - offset])
