"""Weft's Debian packages, built from the source archive, in Debian itself.

`packages` builds them; `system` is a directory with a whole Debian in which they
are installed; `host` boots that, systemd and all, in a container with a network
of its own, as often as one likes: nothing that a host writes lasts.  `guest` is a
virtual machine of it (debianguest.py), with a kernel of its own.  Processes that
test side by side (-n) have one `packages` and one `system` among them.

The bare Debian below it is kept in the build tree (packages/base) for the next
time.  Where Debian comes from is what this machine's apt says.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from debianguest import SystemGuest
from debianhost import Host, Network, inside
from wefttest import BUILD, SOURCE, run

FAILED = pytest.StashKey()
WORK = pathlib.Path(BUILD) / "packages"
BASE = WORK / "base"
PACKAGES = ["weft-admin", "weft-plugin", "weftctl"]
# The packages that tests need beyond the packages' dependencies.
EXTRAS = "systemd-sysv,udev,kmod,libnbd-bin,nbd-client,iproute2"


def apt_source():
    """(URI, suite) of this machine's Debian."""
    files = [pathlib.Path("/etc/apt/sources.list"),
             *pathlib.Path("/etc/apt/sources.list.d").glob("*.list"),
             *pathlib.Path("/etc/apt/sources.list.d").glob("*.sources")]
    text = "\n".join(f.read_text() for f in files if f.exists())
    suite = re.search(r"^VERSION_CODENAME=(\w+)$",
                      pathlib.Path("/etc/os-release").read_text(),
                      re.MULTILINE).group(1)
    found = [m.group(1) for m in re.finditer(
        rf"^deb (?:\[.*?\] )?(\S+) {suite} ", text, re.MULTILINE)]
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"^(\w[\w-]*): *(.*)$", stanza, re.MULTILINE))
        if suite in fields.get("Suites", "").split():
            found += fields["URIs"].split()
    assert found, f"this machine's apt has no source of {suite}"
    return found[0], suite


@contextlib.contextmanager
def locked(directory):
    """By one process at a time; the lock stands beside the directory."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{directory}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def base_of_all(tmp_path_factory):
    """The directory that processes which test side by side have among them."""
    d = tmp_path_factory.getbasetemp()
    return d.parent if "PYTEST_XDIST_WORKER" in os.environ else d


@contextlib.contextmanager
def shared(tmp_path_factory, name, make):
    """A directory that the first process to want it makes, and the last one to be
    done with it removes."""
    d = base_of_all(tmp_path_factory) / name
    with open(f"{d}.used", "w", encoding="ascii") as used:
        with locked(d):
            if not (d / "complete").exists():
                shutil.rmtree(d, ignore_errors=True)
                d.mkdir()
                make(d)
                (d / "complete").touch()
            fcntl.flock(used, fcntl.LOCK_SH)
        yield d
        with locked(d), contextlib.suppress(BlockingIOError):
            fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(d, ignore_errors=True)


@pytest.fixture(scope="session")
def base():
    """Bare Debian, in the making while the packages are."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(bare_debian)


def bare_debian():
    with locked(BASE):
        complete = BASE / "complete"
        if not complete.exists() or complete.read_text() != EXTRAS:
            shutil.rmtree(BASE, ignore_errors=True)
            uri, suite = apt_source()
            run("debootstrap", "--variant=minbase", f"--include={EXTRAS}", suite,
                BASE, uri, timeout=900)
            complete.write_text(EXTRAS)
    return BASE


@pytest.fixture(scope="session")
def packages(base, tmp_path_factory):
    """The directory of the packages, and of what lintian wants to see."""
    made = base_of_all(tmp_path_factory) / "packages-made"
    p = run(SOURCE / "tests/packages/build", BUILD, check=False, timeout=1500,
            env={"WEFT_PACKAGES_MADE": made, **os.environ})
    assert p.returncode == 0, p.stdout[-4000:] + p.stderr[-2000:]
    return WORK / "built"


@pytest.fixture(scope="session")
def system(base, packages, tmp_path_factory):
    def make(d):
        install(base.result(), packages, d / "root")

    with shared(tmp_path_factory, "system", make) as d:
        yield d / "root"


def install(base, packages, root):
    run("cp", "-a", base, root)
    (root / "complete").unlink()
    (root / "etc/hostname").unlink(missing_ok=True)  # this machine's
    for name in PACKAGES:
        shutil.copy(next(packages.glob(f"{name}_*.deb")), root / "root")
    inside(root, "apt-get", "-q", "update")
    inside(root, "sh", "-c", "apt-get -q -y install --no-install-recommends "
           "-o DPkg::Options::=--force-unsafe-io /root/*.deb")
    # So that the next time has less to fetch.
    archives = "var/cache/apt/archives"
    for deb in (root / archives).glob("*.deb"):
        shutil.move(deb, base / archives / deb.name)


@pytest.fixture
def host(system, tmp_path, request):
    """A factory: host("w") boots one."""
    network, hosts = Network(), []

    def boot(name):
        hosts.append(Host(system, network, name, tmp_path))
        return hosts[-1]

    with contextlib.ExitStack() as ends:  # even if collecting the journals fails
        ends.callback(network.down)
        ends.callback(lambda: [h.stop() for h in hosts])
        yield boot
        if request.node.stash.get(FAILED, False):
            for h in hosts:
                print(f"--- {h.name}\n" + h.journal("weft*")[-6000:])


@pytest.fixture
def guest(system, tmp_path, request):
    """A virtual machine of it."""
    with contextlib.closing(SystemGuest(system, tmp_path)) as g:
        yield g
        if request.node.stash.get(FAILED, False) and g.qemu.poll() is None:
            print(g.run("journalctl -b --no-pager -o short-monotonic -u 'weft*' "
                        "-u srv.mount", check=False)[-8000:])
            # The messages of systemd are in the journal.
            print(g.run("dmesg | grep -v ' systemd\\[' | tail -n 80",
                        check=False)[-6000:])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if outcome.get_result().failed:
        item.stash[FAILED] = True
