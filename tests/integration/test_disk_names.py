"""Names of disks that are read by others than the one who writes them.

Topology: one host with disks of awkward names, and partitions of a loop device to which
udev's links lead, in a directory of the test's.
Cause: weft-enroll serves them.
Pass: systemd (enrollworld.py has its parser a second time; test_packages.py asks the real
one), weft-disks and weftd have exactly the given name, or another lasting name of the same
device.  A name that one of them would read differently is refused before anything is
formatted.
"""

import os
import pathlib
import re
import shutil
import struct

import pytest

from enrollworld import UNWANTED, environment_file, world
from wefttest import SOURCE, run

AWKWARD = [" a  b ", "weft\\x20data", "it's", "'all'", '"all" \\"', "50%n %%i $HOME ${DISK}",
           "`id`=#;~*&|<>(){}[]!?", "dïsk 盘\\"]


def may_touch(settings, tmp_path):
    """The output of weft-disks for these settings, as systemd reads it: {name: disk}."""
    run("sh", SOURCE / "systemd/weft-disks-generator", tmp_path / "units",
        env={"WEFT_DISKS": str(settings)})
    found = {}
    for file in (tmp_path / "units").rglob("disk.conf"):
        line = re.search(r'^(?:DeviceAllow="|ReadWritePaths="-)(.*)"', file.read_text(),
                         re.MULTILINE).group(1)
        name = re.match("weft-disk@(.*).service.d", file.parent.name).group(1)
        found[name] = re.sub(r"\\(.)", r"\1", line).replace("%%", "%")
    return found


def test_awkward_names(world, tmp_path):
    n = world.node("n1")
    files = [n.disk(name) for name in AWKWARD]
    world.enroll(n, disks=files)
    confs = {f.stem: n.settings(f)["DISK"] for f in n.etc.glob("disks/*.conf")}
    assert sorted(confs.values()) == sorted(str(f) for f in files)
    assert may_touch(n.etc / "disks", tmp_path) == confs
    # Our own reader: each is served already.
    p = world.enroll(n, disks=files)
    assert p.stdout.count("is served already") == len(files)
    # And the serving process reports to weftd the name that it got.
    served = sorted(confs)[::3]
    n.serve(*served)
    world.seen(n, len(served))
    assert set(world.disks_of(n)) == {confs[name] for name in served}


@pytest.mark.parametrize("name", [b"bell\a", b"latin\xe9"])
def test_names_that_are_refused(world, name):
    n = world.node("n1")
    path = os.fsdecode(os.fsencode(n.dir) + b"/" + name)
    with open(path, "wb") as f:
        f.truncate(64 << 20)
    p = world.enroll(n, "--disk", path, check=False)
    assert p.returncode == UNWANTED and "another name" in p.stderr, p
    assert p.stderr.rstrip("\n").isprintable()
    with open(path, "rb") as f:
        assert not f.read(1 << 20).strip(b"\0")
    assert not n.conf.exists()


def test_a_name_that_is_read_differently(world, tmp_path):
    """The scripts here do not quote backslashes.  weft-enroll notices, and formats nothing."""
    scripts = shutil.copytree(SOURCE / "scripts", tmp_path / "scripts")
    lib = scripts / "weft-lib.sh"
    text = lib.read_text()
    assert text.count(r"""sed 's/[\\"$`]/\\&/g'""") == 1
    lib.write_text(text.replace(r"""sed 's/[\\"$`]/\\&/g'""", "cat"))
    n = world.node("n1")
    disk = n.disk(r"a\\b")
    p = world.enroll(n, disks=[disk], check=False,
                     env={"PATH": f"{scripts}:{os.environ['PATH']}"})
    assert p.returncode == UNWANTED and "would take its name for" in p.stderr, p
    assert not disk.read_bytes()[:1 << 20].strip(b"\0")
    assert not n.conf.exists()


# Links to a partition; the given link ("": the device itself), and the written one.
LINKS = [
    ([["by-id", "ata-DISK-part1"], ["by-id", "wwn-0x5-part1"], ["by-path", "pci-part1"]],
     "", ["by-id", "ata-DISK-part1"]),
    ([["by-id", "wwn-0x5-part2"], ["by-id", "lvm-pv-uuid-x"], ["by-path", "pci-part2"]],
     "", ["by-id", "wwn-0x5-part2"]),
    ([["by-partlabel", "weft\\x20data"], ["by-partuuid", "0123-03"]],
     ["by-partlabel", "weft\\x20data"], ["by-partuuid", "0123-03"]),
    ([["by-partlabel", "weft\\x20log"]], ["by-partlabel", "weft\\x20log"],
     ["by-partlabel", "weft\\x20log"]),
]
WHOLE = [
    ([["by-path", "pci-1"]], "", ["by-path", "pci-1"]),
    ([["by-id", "dm-name-a\\x20b"], ["../mapper", "a_b"]], ["../mapper", "a_b"],
     ["../mapper", "a_b"]),
    ([["by-id", "dm-name-c\\x20d"]], "", ["by-id", "dm-name-c\\x20d"]),
    ([], "", ""),
]


@pytest.fixture
def loops(tmp_path):
    """A loop device with four partitions, and four without."""
    made = []
    try:
        for i in range(1 + len(WHOLE)):
            image = tmp_path / f"image{i}"
            with open(image, "wb") as f:
                f.truncate(300 << 20)
                for p in range(0 if i else 4):
                    f.seek(446 + 16 * p)
                    f.write(struct.pack("<B3xB3xII", 0, 0x83, 2048 + p * 140000, 140000))
                f.seek(510)
                f.write(b"" if i else b"\x55\xaa")
            made.append(run("losetup", "-f", "-P", "--show", image).stdout.strip())
        run("partx", "-u", made[0])  # a kernel may know no partition tables itself
        yield made
    finally:
        for loop in made:
            run("losetup", "-d", loop)


def test_links(world, loops, tmp_path):
    n = world.node("n1")
    by = n.root / "dev/disk"
    devices = [f"{loops[0]}p{i + 1}" for i in range(len(LINKS))] + loops[1:]
    words, wanted = [], []
    for device, (links, given, written) in zip(devices, LINKS + WHOLE):
        for link in links:
            path = pathlib.Path(by, *link)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(device)

        def name(words):
            return os.path.normpath(by / pathlib.Path(*words)) if words else device

        words += ["--disk", name(given)]
        wanted.append(name(written))
    world.enroll(n, *words)
    confs = {f.stem: environment_file(f.read_text())["DISK"]
             for f in n.etc.glob("disks/*.conf")}
    assert sorted(confs.values()) == sorted(wanted)
    for disk, file in may_touch(n.etc / "disks", tmp_path).items():
        assert file in (confs[disk], os.path.realpath(confs[disk]))


def test_links_that_will_lead_elsewhere(tmp_path):
    """The unit allows the first name in /dev, which may be a link itself: a device that was
    away may return under another name."""
    settings = tmp_path / "disks"
    settings.mkdir()
    up = os.path.relpath("/", tmp_path)
    for name, to in [("direct", "/dev/stdout"), ("twice", "direct"),
                     ("by-dots", f"{up}/dev/null"), ("file", "/etc/passwd")]:
        (tmp_path / name).symlink_to(to)
        (settings / f"{name}.conf").write_text(f"DISK={tmp_path / name}\n")
    run("sh", SOURCE / "systemd/weft-disks-generator", tmp_path / "units",
        env={"WEFT_DISKS": str(settings)})
    allowed = {f.parent.name.partition("@")[2].partition(".")[0]:
               re.findall('^DeviceAllow="(.*)" rw$', f.read_text(), re.MULTILINE)
               for f in (tmp_path / "units").rglob("disk.conf")}
    assert allowed == {"direct": ["/dev/stdout"], "twice": ["/dev/stdout"],
                       "by-dots": ["/dev/null"], "file": []}
