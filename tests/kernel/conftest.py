"""A virtual machine with Debian's kernel: the client that most people will use.

`guest` is booted once for all tests of this directory, and again where its
power is cut (close, boot).  It reaches the host's 127.0.0.1 as 10.0.2.2, and
has the tree of `tree` as an ext4 on /dev/vda, mounted on /src, and no disk
else.  QEMU emulates the processor, so this runs wherever QEMU does.
"""

import hashlib
import os
import pathlib
import random

import pytest

from guestvm import Guest
from wefttest import run

HOST = "10.0.2.2"
# With more the kernel sends a request that waits for 30 s a second time, which
# may then run after a newer one.
CONNECTIONS = 1


class ArrayGuest(Guest):
    def boot(self):
        super().boot()
        self.run("mount -t ext4 -o ro /dev/vda /src; dmesg -c >/dev/null")

    def attach(self, nbd):
        """The array is /dev/nbd0 then."""
        port = nbd.rsplit(":", 1)[1]
        # Cleans up after a failed test.
        self.run("umount /mnt 2>/dev/null; nbd-client -d /dev/nbd0 2>/dev/null",
                 check=False)
        self.run(f"nbd-client {HOST} {port} /dev/nbd0 -C {CONNECTIONS}")
        # So that data leaves for the members at once, not when there is time.
        self.run("echo 2000000 >/proc/sys/vm/dirty_bytes")

    def detach(self):
        self.run("nbd-client -d /dev/nbd0")


class Tree:
    """A directory tree with the SHA-256 of each of its files."""

    def __init__(self, directory):
        self.dir = directory / "tree"
        self.sums = {}
        self.bytes = 0
        seed = int(os.environ.get("WEFT_SEED") or random.randrange(2 ** 32))
        print(f"seed of the tree: WEFT_SEED={seed}")
        rng = random.Random(seed)
        for i in range(300):
            size = int(2 ** rng.uniform(3, 17))
            self._file(f"d{i % 17}/e{i % 5}/f{i}", rng.randbytes(size))
        for i in range(12):
            size = rng.randrange(2 << 20, 4 << 20)
            self._file(f"big/f{i}", rng.randbytes(size))
        (self.dir / "link").symlink_to("big/f0")
        (self.dir / "SUMS").write_text(
            "".join(f"{s}  {n}\n" for n, s in sorted(self.sums.items())))
        self.image = directory / "tree.img"
        with self.image.open("wb") as f:
            f.truncate(self.bytes + (32 << 20))
        run("/sbin/mke2fs", "-q", "-t", "ext4", "-O", "^has_journal",
            "-d", self.dir, self.image)

    def _file(self, name, data):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.sums[name] = hashlib.sha256(data).hexdigest()
        self.bytes += len(data)

    def differences(self, directory):
        """The missing and different files in a copy of the tree."""
        found = []
        for name, expected in self.sums.items():
            path = pathlib.Path(directory) / name
            if not path.is_file():
                found.append(f"{name}: missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != expected:
                found.append(f"{name}: other bytes")
        return found


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    return Tree(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="session")
def guest(tmp_path_factory, tree):
    g = ArrayGuest(tmp_path_factory.mktemp("guest"),
                   {"tree": f"{tree.image},readonly=on"})
    yield g
    g.close()
