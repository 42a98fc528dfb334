"""The power of a virtual machine is cut while its file system is written.

Topology: a guest with Debian's kernel -- nbd-client, one connection -- one
array process -- four members, all on this host.
Cause: SIGKILL of QEMU in the middle of writes, some of them fsynced; once with
       a member at the same time, and once with the array process.
Pass:  after each boot the journal can be replayed, the file system is clean, and
       every record of which the guest said that it is on disk is there, whole;
       in the end all members are in-sync and all copies alike.
"""

import random
import time

import pytest

from arraystate import content, wait_in_sync
from copies import check_copies, model_of

UNIT = 64 << 10
SLOTS = 64

# Writes record $i, a new file, then slot $i of a table in place; and much that
# nobody waits for.
WORK = r"""
( while :; do cp -r /src/d3 /mnt/noise; rm -rf /mnt/noise; done ) &
i=%d; while :; do i=$((i+1));
dd if=/src/big/f$((i%%12)) of=/mnt/r$i bs=4096 count=$((i*7%%23+1)) conv=fsync
  2>/dev/null && echo file $i;
printf "%%4095d\n" $i |
  dd of=/mnt/table bs=4096 seek=$((i%%%d)) conv=notrunc,fsync 2>/dev/null
  && echo slot $i; done
"""
# Says "file $i" of each that is whole, and "slot $number" of each slot.
CHECK = r"""
cd /mnt; for f in r*; do i=${f#r};
head -c $(((i*7%%23+1)*4096)) /src/big/f$((i%%12)) | cmp -s - $f && echo file $i;
done; awk 'length == 4095 { print "slot", $1 + 0 }' table
"""


def one_line(script):
    return " ".join(script.replace("%%", "%").split("\n"))


def numbers(lines, word):
    return {int(line.split()[1]) for line in lines
            if line.startswith(word + " ")}


def write_until_cut(guest, c, rng, last, also):
    """Returns the lines that it said."""
    said, wanted = [], rng.randrange(10, 60)
    guest.send(one_line(WORK % (last, SLOTS)))
    end = time.monotonic() + 120
    while len(said) < wanted:
        assert time.monotonic() < end, f"only {len(said)} records in 2 minutes"
        said += guest.said(0.2)
    time.sleep(rng.random() / 10)
    if also:
        c.kill(also)
    guest.qemu.kill()
    # Its last output before its end has arrived, too.
    said += guest.said(1)
    guest.close()
    return said


def check(guest, files, slots):
    guest.run("mount -t ext4 /dev/nbd0 /mnt && umount /mnt")
    guest.run("/sbin/e2fsck -fn /dev/nbd0")
    guest.run("mount -t ext4 /dev/nbd0 /mnt")
    found = guest.run(one_line(CHECK), timeout=300).splitlines()
    missing = files - numbers(found, "file")
    assert not missing, f"fsynced, and not there as written: {sorted(missing)}"
    held = {n % SLOTS: n for n in numbers(found, "slot")}
    old = {n for n in slots if held.get(n % SLOTS, 0) < n}
    assert not old, f"fsynced in the table, and not there: {sorted(old)}"
    assert guest.kernel_errors() == []


@pytest.mark.timeout(900)
def test_power_cut(guest, cluster, seed):
    rng = random.Random(seed)
    c = cluster(members=4, layout="raid-x", unit=UNIT, size="96M")
    guest.attach(c.nbd)
    guest.run("/sbin/mke2fs -q -t ext4 /dev/nbd0")
    guest.run("mount -t ext4 /dev/nbd0 /mnt")
    guest.run(f"for i in $(seq {SLOTS}); do printf '%4095d\\n' 0; done "
              ">/mnt/table; sync")
    files, slots = set(), set()
    for also in (None, rng.choice(c.members)["name"], "array"):
        said = write_until_cut(guest, c, rng, max(files, default=0), also)
        files |= numbers(said, "file")
        slots |= numbers(said, "slot")
        if also:
            c.start(also)
        guest.boot()
        guest.attach(c.nbd)
        check(guest, files, slots)
    guest.run("umount /mnt")
    guest.detach()
    print(f"{len(files)} files and {len(slots)} writes in place were fsynced")
    wait_in_sync(c)
    check_copies(c, model_of(c, "raid-x", UNIT), content(c.nbd))
