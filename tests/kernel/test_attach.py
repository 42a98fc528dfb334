"""weft-attach: a kernel client outlives the process behind it.

Topology: All in the guest: Debian's kernel, weft-attach, and nbdkit with a file in place of
the array process, because this test is only about how a connection ends and returns.  An ext4
on the device is written all the time.
Cause: the process is killed and started again, weft-attach too, and the process
is silent for longer than the kernel waits by itself.
Pass: no I/O error in the kernel; the file system is clean; every byte is there.
"""

import re
import time

import pytest

from wefttest import SOURCE, eventually

pytestmark = pytest.mark.timeout(600)


def start_server(guest, words="/sbin/nbdkit-file-plugin.so /a.img"):
    guest.run("rm -f /run/a.pid; mkdir -p /run; "
              f"/sbin/nbdkit -U /run/a.sock -P /run/a.pid {words}")


# The guest's shell reaps ended processes, and must not be reading its next line just then:
# hence the sleep behind each kill.


def kill_server(guest):
    guest.run("kill -9 $(cat /run/a.pid); rm -f /run/a.sock; sleep 1")


def kill_attach(guest, signal):
    guest.run(f"kill -{signal} $(pidof weft-attach); sleep 1")


def unit_capabilities():
    """As setpriv wants them."""
    unit = (SOURCE / "systemd/weft-attach@.service.in").read_text()
    names = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)[1].split()
    return ",".join(["-all"] + ["+" + n.removeprefix("CAP_").lower() for n in names])


def start_attach(guest, words=""):
    """With the capabilities of its unit, and no others."""
    return guest.start(f"exec /sbin/setpriv --bounding-set {unit_capabilities()} "
                       "--inh-caps -all /sbin/weft-attach --socket /run/a.sock "
                       f"--pid-file /run/a.pid {words} a")


def attach_pid(guest):
    return guest.run("pidof weft-attach", check=False).strip()


def write_some(guest, name):
    """In the background until end() is asked for, each file durable before the
    next."""
    return guest.start(
        "set -e; rm -f /enough; i=0; "
        "until [ -e /enough ] || [ $i -ge 200 ]; do i=$((i + 1)); "
        f"dd if=/dev/urandom of=/mnt/{name}$i bs=64k count=3 conv=fsync "
        f"2>/dev/null; (cd /mnt; sha256sum {name}$i) >>/sums; done")


def end(guest, done, seconds):
    """The writing ends well."""
    guest.run("touch /enough")
    status, said = eventually(done, seconds, every=1)
    assert status == 0, said


def files_there(guest, name):
    return int(guest.run(f"ls /mnt | grep -c ^{name} || true"))


@pytest.fixture
def attached(guest):
    guest.run("truncate -s 64M /a.img; rm -f /sums; dmesg -c >/dev/null")
    start_server(guest)
    start_attach(guest)
    eventually(lambda: guest.run("ls /dev/weft/a 2>/dev/null", check=False), 30)
    guest.run("/sbin/mke2fs -q -t ext4 /dev/weft/a && "
              "mount -t ext4 /dev/weft/a /mnt")
    yield guest
    guest.run("umount /mnt 2>/dev/null; kill $(pidof weft-attach) 2>/dev/null; "
              "sleep 1", check=False)
    eventually(lambda: not guest.run("pidof weft-attach", check=False), 60)
    guest.run("kill -9 $(cat /run/a.pid); sleep 1; "
              "rm -rf /a.img /run/a.* /sums", check=False)


def check(guest):
    assert guest.device_errors() == []
    guest.run("umount /mnt && /sbin/e2fsck -fn /dev/weft/a && "
              "mount -t ext4 /dev/weft/a /mnt && cd /mnt && "
              "sha256sum -c -s /sums", timeout=120)


def test_the_process_is_killed(attached):
    done = write_some(attached, "f")
    eventually(lambda: files_there(attached, "f") > 5, 60)
    kill_server(attached)
    time.sleep(4)
    assert done() is None, "the writing was over before the process was killed"
    start_server(attached)
    # The kernel sends what was under way again half a minute after the first time.
    end(attached, done, 180)
    check(attached)


def test_weft_attach_is_killed_too(attached):
    done = write_some(attached, "g")
    eventually(lambda: files_there(attached, "g") > 5, 60)
    kill_attach(attached, 9)
    kill_server(attached)
    assert done() is None, "the writing was over before the process was killed"
    start_server(attached)
    start_attach(attached)
    end(attached, done, 180)
    check(attached)
    assert attached.run("ls /sys/block/nbd1/pid 2>/dev/null", check=False) == ""


def test_silence_is_no_failure(attached):
    """Longer than the 30 s after which the kernel looks at a request."""
    done = write_some(attached, "h")
    eventually(lambda: files_there(attached, "h") > 5, 60)
    attached.run("kill -STOP $(cat /run/a.pid)")
    time.sleep(45)
    assert done() is None
    attached.run("kill -CONT $(cat /run/a.pid)")
    end(attached, done, 120)
    check(attached)


# One partition, 1 MiB from the begin, of 32 MiB, in blocks of 512 bytes, which every
# attached device has (tests/integration/test_weftctl_attach.py).
TABLE = (r"printf '\0\0\0\0\203\0\0\0\0\010\0\0\0\0\001\0' | "
         "dd of=/dev/weft/a bs=1 seek=446 2>/dev/null && "
         r"printf '\125\252' | dd of=/dev/weft/a bs=1 seek=510 conv=fsync 2>/dev/null && "
         "blockdev --rereadpt /dev/weft/a && ")


def test_what_is_in_use_stays(guest):
    """Here a partition, which comes and goes with its device."""
    guest.run("truncate -s 64M /a.img")
    start_server(guest)
    try:
        done = start_attach(guest)
        eventually(lambda: guest.run("ls /dev/weft/a 2>/dev/null", check=False), 30)
        assert guest.run("blockdev --getss /dev/weft/a").split() == ["512"]
        guest.run(TABLE + "/sbin/mke2fs -q -t ext4 /dev/nbd0p1 && "
                  "mount -t ext4 /dev/nbd0p1 /mnt")
        kill_attach(guest, 15)
        status, said = eventually(done, 30)
        assert status == 1 and "/dev/nbd0p1 is still mounted on /mnt" in said, said
        guest.run("dd if=/dev/zero of=/mnt/x bs=64k count=4 conv=fsync")
        start_attach(guest)  # takes it over
        eventually(lambda: attach_pid(guest), 30)
        guest.run("umount /mnt")
        time.sleep(1)
        kill_attach(guest, 15)
        eventually(lambda: not guest.run("ls /dev/weft/a 2>/dev/null",
                                         check=False), 30)
        eventually(lambda: guest.run("cat /sys/block/nbd0/size").strip() == "0", 30)
        guest.run("! ls /dev/nbd0p1 2>/dev/null")

        start_attach(guest)
        eventually(lambda: guest.run("ls /dev/weft/a 2>/dev/null", check=False), 30)
        guest.run("dd if=/dev/weft/a of=/dev/null count=1")  # as udev looks at it
        guest.run("/sbin/e2fsck -fn /dev/nbd0p1 && mount -t ext4 /dev/nbd0p1 /mnt && "
                  "test $(stat -c %s /mnt/x) = 262144 && umount /mnt")
        kill_attach(guest, 15)
        eventually(lambda: not guest.run("pidof weft-attach", check=False), 30)
        assert guest.device_errors() == []
    finally:
        guest.run("umount /mnt 2>/dev/null; kill $(pidof weft-attach) 2>/dev/null; "
                  "sleep 1; kill -9 $(pidof nbdkit) 2>/dev/null; sleep 1; "
                  "rm -rf /a.img /run/a.*", check=False)


def test_what_two_hosts_destroy(guest):
    """It is seen before there is a device that anybody could use."""
    guest.run("truncate -s 64M /a.img && /sbin/mke2fs -q -t ext4 /a.img")
    start_server(guest)
    try:
        done = start_attach(guest, "--as service")
        status, said = eventually(done, 60)
        assert status == 3 and "an ext4 file system" in said, said
        assert "WEFT_ATTACH_OPTIONS=--force" in said
        guest.run("! ls /dev/weft/a /sys/block/nbd?/pid 2>/dev/null")

        start_attach(guest, "--as service --force")
        eventually(lambda: guest.run("ls /dev/weft/a 2>/dev/null", check=False), 30)
        # A process that takes a device over takes it unchanged.
        kill_attach(guest, 9)
        start_attach(guest, "--as service")
        time.sleep(2)
        guest.run("dd if=/dev/zero of=/dev/weft/a bs=64k conv=fsync count=1 && "
                  "test $(cat /sys/block/nbd0/ro) = 0")
        kill_attach(guest, 15)
        eventually(lambda: not guest.run("pidof weft-attach", check=False), 30)

        # The device's content does not matter any longer.
        start_attach(guest, "--as service")
        eventually(lambda: guest.run("ls /dev/weft/a 2>/dev/null", check=False), 30)
        guest.run("test $(cat /sys/block/nbd0/ro) = 0")
        kill_attach(guest, 15)
        eventually(lambda: not guest.run("pidof weft-attach", check=False), 30)

        # A program that probes the device while the array process ends does not hang for ever.
        kill_server(guest)
        start_server(guest, "--filter=/sbin/nbdkit-delay-filter.so "
                     "/sbin/nbdkit-file-plugin.so /a.img rdelay=3")
        done = start_attach(guest, "--as service")
        eventually(lambda: "weft-look/a" in guest.run(
            "cat /sys/block/nbd*/backend 2>/dev/null", check=False), 30)
        kill_server(guest)
        assert eventually(done, 30)[0] == 1
        guest.run("! ls /dev/weft/a /sys/block/nbd?/pid 2>/dev/null")
    finally:
        guest.run("kill $(pidof weft-attach) 2>/dev/null; sleep 1; "
                  "kill -9 $(pidof nbdkit) 2>/dev/null; sleep 1; "
                  "rm -rf /a.img /run/a.*", check=False)
