"""The array as a block device of its own host: weft-attach@.service, by systemd and
the kernel's nbd.

Topology: one virtual machine with Debian's kernel, in it the installed packages:
weftd, three disks enrolled with TLS, an array of them, and an ext4 on it that
/etc/fstab mounts.
Cause: the array process is restarted and killed while files are written; all of
Weft is stopped; the host is started again; the array is attached by weftctl
instead, with and without TLS; the host goes down while the file system is in use.
Pass: every byte that was fsynced is there, the mount goes on, no member was lost,
and the host comes back by itself with a clean file system, and ends by itself.
"""

import json
import time

import pytest

from debianguest import ADDRESS, DISKS
from wefttest import eventually

pytestmark = [pytest.mark.timeout(1200), pytest.mark.long(100)]
PASSWORD = "nine wet weavers"
# The flags of a process's threads that PR_SET_IO_FLUSHER sets.
IO_FLUSHER = 0x00080000 | 0x00100000
# The processor is emulated, and each unit renews its certificate before it starts: so the
# mount waits for longer than systemd's 90 s (weft-attach(8)).
FSTAB = ("/dev/weft/a /srv ext4 _netdev,x-systemd.requires=weft-attach@a.service,"
         "x-systemd.device-timeout=600 0 2")
UNITS = ["weftd.service", "weft-array@a.service", "weft-attach@a.service",
         *[f"weft-disk@vd{c}.service" for c in "bcd"]]


def ctl(guest, words):
    return json.loads(guest.run(f"weftctl {words} --json"))


def enroll(guest):
    guest.run(f"(umask 077; echo '{PASSWORD}' >/root/password)")
    guest.run("weftctl setup ann --url-file /var/lib/weftd/setup-url "
              "--password-file /root/password")
    guest.run("weftctl login --user ann --password-file /root/password")
    token = ctl(guest, "node token")
    guest.run(f"(umask 077; echo {token['token']} >/root/token)")
    disks = " ".join(f"--disk /dev/vd{c}" for c in "bcd")
    said = guest.run(f"weft-enroll --admin https://{ADDRESS}:7380 "
                     f"--ca-fingerprint {token['ca_fingerprint']} "
                     f"--token-file /root/token --yes {disks}", timeout=240)
    assert "weftd sees the disks of node g" in said
    guest.run("weftctl login --user ann --password-file /root/password")


def all_in_sync(guest):
    return {m["state"] for m in ctl(guest, "array show a")["members"]
            } == {"in-sync"}


def main_pid(guest, unit):
    return int(guest.run(f"systemctl show --value -p MainPID {unit}"))


def are_active(guest, *units):
    """The states of all units, asked at once: processes start slowly there."""
    said = guest.run(f"systemctl is-active {' '.join(units)}", check=False).split()
    assert len(said) == len(units), said
    return said


def check_protected(guest):
    """When memory is short they go on, and never wait for their own clients."""
    pids = guest.run("systemctl show --value -p MainPID "
                     + " ".join(UNITS[1:])).split()
    for unit, pid in zip(UNITS[1:], pids, strict=True):
        adjusted, *threads = guest.run(
            f"cat /proc/{pid}/oom_score_adj /proc/{pid}/task/*/stat || "
            "true  # a thread may just have ended").splitlines()
        assert adjusted == "-900"
        assert threads
        if "attach" in unit:
            continue
        for line in threads:
            flags = int(line.rpartition(")")[2].split()[6])
            assert flags & IO_FLUSHER == IO_FLUSHER, (unit, line)


def check_confined(guest):
    """The processes of a disk's unit may open that disk, and no other."""
    for own in "bcd":
        group = guest.run("systemctl show --value -p ControlGroup "
                          f"weft-disk@vd{own}").strip()
        for disk in "bcd":
            status = guest.run(
                f"sh -c 'echo $$ >/sys/fs/cgroup\"$0\"/cgroup.procs; "
                f"head -c 1 /dev/vd{disk} >/dev/null 2>&1; echo $?' '{group}'")
            assert (status.strip() == "0") == (own == disk), (own, disk)
        pid = main_pid(guest, f"weft-disk@vd{own}")
        said = guest.run(f"stat -c %U /proc/{pid}; id -nG weft-disk; "
                         f"stat -c %U /dev/vd{own}").splitlines()
        assert said == ["weft-disk", "weft-disk", said[2]], said


def write_files(guest, name):
    """In the background until end() is called; each file is durable, and its sum
    noted, before the next."""
    return guest.start(
        "set -e; rm -f /root/enough; i=0; "
        "until [ -e /root/enough ]; do i=$((i + 1)); "
        f"dd if=/dev/urandom of=/srv/{name}$i bs=64k count=2 conv=fsync "
        f"status=none; (cd /srv; sha256sum {name}$i) >>/root/sums; sync "
        "/root/sums; done")


def end(guest, done):
    guest.run("touch /root/enough")
    status, said = eventually(done, 300, every=0.5)
    assert status == 0, said


def noted(guest):
    return int(guest.run("cat /root/sums 2>/dev/null | wc -l"))


def what_hangs(guest):
    """Tasks that wait in the kernel, and what it has said last."""
    return guest.run("echo w >/proc/sysrq-trigger; sleep 1; "
                     "cat /sys/block/nbd0/inflight; dmesg | tail -n 120",
                     check=False)


def more_are_noted(guest, done, count=5):
    """Before the writing ends by an error, or nothing moves any more."""
    wanted = noted(guest) + count
    moved, last = time.monotonic(), -1
    while (now := noted(guest)) < wanted:
        assert done() is None, f"{done()}\n{what_hangs(guest)}"
        if now != last:
            moved, last = time.monotonic(), now
        assert time.monotonic() < moved + 200, \
            f"no file became durable in 200 s\n{what_hangs(guest)}"
        time.sleep(0.5)


def sums_right(guest):
    guest.run("cd /srv && sha256sum --quiet -c /root/sums", timeout=240)


def check_files(guest):
    sums_right(guest)
    assert guest.device_errors() == []


def losses(guest):
    """weftd's records of lost members; not of members that were slow to start, because the
    array does not wait for those without end."""
    return [e["text"] for e in ctl(guest, "events --limit 5000")["log"]
            if " is out" in e["text"] and "started without" not in e["text"]]


def attach_array(guest):
    guest.run("weftctl array create a --layout raid-x --unit 64K --yes "
              + " ".join(f"--disk g:/dev/disk/by-id/virtio-{d}" for d in DISKS))
    guest.run("systemctl enable --now weft-array@a.socket "
              "weft-attach@a.service", timeout=300)
    eventually(lambda: are_active(guest, "dev-weft-a.device") == ["active"], 60)
    guest.run(f"mkfs.ext4 -q /dev/weft/a && echo '{FSTAB}' >>/etc/fstab && "
              "systemctl daemon-reload && mount /srv", timeout=300)


def restart_and_kill(guest):
    done = write_files(guest, "f")
    more_are_noted(guest, done)
    pid = main_pid(guest, "weft-array@a")
    guest.run("systemctl restart weft-array@a", timeout=180)
    assert main_pid(guest, "weft-array@a") not in (0, pid)
    more_are_noted(guest, done)
    guest.run("systemctl kill -s KILL weft-array@a")
    more_are_noted(guest, done)
    end(guest, done)
    check_files(guest)
    assert all_in_sync(guest)


def stop_all(guest):
    """In an order in which nothing is lost."""
    guest.run("systemctl stop weft.target", timeout=300)
    eventually(lambda: set(are_active(guest, *UNITS, "srv.mount"))
               == {"inactive"}, 240, every=0.2)
    assert guest.device_errors() == []


def attach_by_weftctl(guest, device):
    """The same file system, on a device that weftctl makes."""
    assert guest.run("weftctl attach a", timeout=240).strip() == device
    guest.run(f"mount -t ext4 {device} /srv")
    sums_right(guest)
    guest.run("umount /srv && weftctl detach a", timeout=240)


def test_a_host_of_its_own(guest):
    enroll(guest)
    attach_array(guest)
    check_protected(guest)
    check_confined(guest)
    restart_and_kill(guest)

    stop_all(guest)
    guest.reboot()
    eventually(lambda: are_active(guest, "srv.mount") == ["active"], 240)
    assert "recovery complete" not in guest.run("dmesg")
    check_files(guest)
    assert all_in_sync(guest)
    assert losses(guest) == []

    # weftctl knows of weft-attach's device, and else makes one by the same socket.
    assert guest.run("weftctl attach a").strip() == "/dev/nbd0"
    assert "weft-attach@a.service" in guest.run(
        "weftctl detach a && exit 1; true")
    guest.run("systemctl stop weft-attach@a", timeout=240)
    attach_by_weftctl(guest, "/dev/nbd0")

    # An array process that other hosts reach too wants TLS.
    guest.run("systemctl stop weft-array@a.socket weft-array@a", timeout=180)
    guest.run("systemd-run -q --unit=tls -p EnvironmentFile=/etc/weft/weft.conf "
              f"nbdkit -f -i {ADDRESS} -p 10809 --tls=require "
              "--tls-verify-peer --tls-certificates=/etc/weft/tls weft array=a "
              f"admin=https://{ADDRESS}:7380 uri=nbds://{ADDRESS}:10809 node=g")
    # It has a session a while before it listens.
    eventually(lambda: ctl(guest, "array show a")["sessions"], 120, every=1)
    eventually(lambda: f":{10809:04X} " in guest.run(
        "awk '$4 == \"0A\" { print $2 \" \" }' /proc/net/tcp"), 120, every=1)
    attach_by_weftctl(guest, "/dev/nbd0")
    guest.run("systemctl stop tls", timeout=180)

    # A process is still at work when the host shuts down: the shutdown ends anyway.
    guest.run("systemctl start weft-attach@a && mount /srv", timeout=240)
    guest.run("(cd /srv; exec sleep 1000) >/dev/null &")
    guest.run("systemctl poweroff")
    guest.qemu.wait(400)
