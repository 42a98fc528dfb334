"""A host with disks and a kernel of its own: the packages' system (conftest.py) in a
virtual machine.
"""

import pathlib
import shutil

from guestvm import Guest
from wefttest import SOURCE, run

HERE = SOURCE / "tests/packages"
ADDRESS = "10.0.2.15"
DISK_BYTES = 64 << 20
DISKS = ["one", "two", "three"]

UNUSED = ["serial-getty@ttyS0.service", "getty@tty1.service",
          "getty-static.service", "e2scrub_reap.service",
          "systemd-journal-flush.service", "apt-daily.timer",
          "apt-daily-upgrade.timer", "systemd-modules-load.service",
          "systemd-sysusers.service", "systemd-network-generator.service",
          "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
          "modprobe@configfs.service", "modprobe@dm_mod.service",
          "modprobe@efi_pstore.service", "modprobe@fuse.service",
          "modprobe@loop.service",
          "dev-mqueue.mount", "dev-hugepages.mount", "sys-kernel-debug.mount",
          "sys-kernel-tracing.mount"]

SPARED = ["usr/share/doc", "usr/share/locale", "usr/share/man",
          "var/cache/apt", "var/lib/apt/lists", "root"]

FILES = {
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/hostname": "g\n",
    "etc/hosts": "127.0.0.1 localhost g\n",
    "etc/fstab": "/dev/vda / ext4 defaults 0 1\n",
    "etc/systemd/network/eth0.network":
        f"[Match]\nName=eth0\n[Network]\nAddress={ADDRESS}/24\n"
        "LinkLocalAddressing=no\nIPv6AcceptRA=no\n",
    "etc/weft/weftd.conf": "WEFTD_OPTIONS=--listen 127.0.0.1:7380 "
                           f"--listen {ADDRESS}:7380\n",
    # There to the last, so that one can see how a host ends.
    "etc/systemd/system/guest-shell.service":
        "[Unit]\nDefaultDependencies=no\nAfter=local-fs.target\n"
        "[Service]\nExecStart=/bin/sh /root/guest-shell\n"
        "[Install]\nWantedBy=basic.target\n",
}


def add_modules(root, *names):
    """Modules of the kernel that the guest runs."""
    kernel = run("sh", "-c", "find /boot -name 'vmlinuz-*' | sort -V | tail -n 1")
    version = kernel.stdout.strip().split("vmlinuz-")[1]
    here = pathlib.Path("/lib/modules") / version
    there = root / "lib/modules" / version
    there.mkdir(parents=True)
    for name in ["modules.builtin", "modules.builtin.modinfo", "modules.order"]:
        shutil.copy(here / name, there)
    for name in names:
        lines = run("modprobe", "-S", version, "--show-depends", name).stdout
        for line in lines.splitlines():
            word, path = line.split()[:2]
            if word == "insmod":
                to = there / pathlib.Path(path).relative_to(here)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)
    run("depmod", "-b", root, version)


def make_image(system, directory):
    """Of that directory with a Debian in it, but for what no test looks at."""
    root = directory / "root"
    run("cp", "-al", system, root)
    for name in SPARED:
        shutil.rmtree(root / name)
    (root / "root").mkdir()
    shutil.copy(HERE / "guest-shell", root / "root")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # it is the directory's, too
        path.write_text(text)
    add_modules(root, "nbd")
    run("systemctl", f"--root={root}", "enable", "systemd-networkd.service",
        "guest-shell.service")
    run("systemctl", f"--root={root}", "mask", *UNUSED)
    image = directory / "image"
    with image.open("wb") as f:
        f.truncate(2 << 30)
    run("/sbin/mke2fs", "-q", "-t", "ext4", "-d", root, image, timeout=300)
    shutil.rmtree(root)
    return image


class SystemGuest(Guest):
    def __init__(self, system, directory):
        image = make_image(system, directory)
        drives = {"root": f"{image},cache=unsafe"}
        for name in DISKS:
            disk = directory / name
            with disk.open("wb") as f:
                f.truncate(DISK_BYTES)
            drives[name] = disk
        super().__init__(directory, drives, memory=768, root="/dev/vda")

    def boot(self):
        super().boot()
        self.run("systemctl is-system-running --wait", check=False, timeout=240)

    def reboot(self):
        """In the orderly way."""
        self.run("systemctl reboot")
        self.qemu.wait(300)
        self.close()
        self.boot()
