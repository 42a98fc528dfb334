"""The common part of Weft's pytest tiers.

Run it within the build tree:  ./run /usr/bin/python3 -m pytest ../tests/clients

    from wefttest import run, http, eventually

    def test_something(cluster):
        c = cluster(members=5, layout="rotated", size="64M")   # devcluster up
        run("qemu-img", "info", c.nbd)
        c.kill("m2")                       # stop, cont, start alike
        assert c.get("/api/v1/arrays/a")["state"] == "degraded"

Options of `cluster` are those of `devcluster up` with _ for -: no_array=True,
image_buffer="1M", array_port=...; env={"WEFT_ARRAY_ARGS": "..."} is for its
environment.  Any number of clusters in one test.  Each is taken down at the
end of the test; its directory is removed when the test passed and kept, its
logs' tails shown, when it failed.

A test also fails when one of its cluster's processes ended without having
been killed through the cluster (say c.may_end("array") where that is meant),
or when a sanitizer or an assertion spoke up in a log.

Nothing is ever skipped: a skip counts as a failure here.
"""

import ctypes
import os
import random
import shutil
import tempfile

import pytest

from wefttest import BUILD, Cluster, run

CLONE_NEWNS = 0x20000
_clusters = pytest.StashKey()
_failed = pytest.StashKey()


@pytest.fixture
def cluster(request):
    """A factory: see the top of tests/conftest.py."""
    made = request.node.stash.setdefault(_clusters, [])
    dirs = []

    def make(env=None, **options):
        d = tempfile.mkdtemp(prefix="weft-test-")
        os.chmod(d, 0o755)
        dirs.append(d)
        c = Cluster(os.path.join(d, "c"), env=env, **options)
        made.append(c)
        return c

    yield make
    faults = [f for c in made for f in c.faults()]
    for d in dirs:
        run("devcluster", "down", os.path.join(d, "c"), check=False)
        if not faults and not request.node.stash.get(_failed, False):
            shutil.rmtree(d, ignore_errors=True)
    assert not faults, "; ".join(faults)


@pytest.fixture
def all_threads(monkeypatch):
    """weftd has as many threads as for users: for tests that need them, before their weftd."""
    monkeypatch.delenv("WEFT_THREADS")


@pytest.fixture
def seed(request):
    """The seed of a randomised test: from WEFT_SEED or new, and printed."""
    value = int(os.environ.get("WEFT_SEED") or random.randrange(2 ** 32))
    print(f"seed: run again with WEFT_SEED={value}")
    return value


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.skipped or hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as a failure: {call.excinfo}"
    if report.failed:
        item.stash[_failed] = True
        for c in item.stash.get(_clusters, []):
            report.sections.append(("devcluster " + str(c.dir), c.tails()))


def own_mounts():
    """Mounts made here are not in the copies of all mounts that `ip netns exec` and containers
    get in other processes, where they would stay in use."""
    assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) == 0, \
        f"unshare: {os.strerror(ctypes.get_errno())}; tests want root's rights"
    run("mount", "--make-rprivate", "/")


def pytest_configure(config):
    # Fewer threads of weftd: its start and its end then cost less processor time.
    os.environ["WEFT_THREADS"] = "256"
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        os.environ["WEFT_PORTS"] = str(int(worker[2:]) % 8)
        own_mounts()
    if not BUILD:
        raise pytest.UsageError(
            "WEFT_BUILDDIR is not set: run the tests within a build tree, "
            "by  ./run /usr/bin/python3 -m pytest ...  or  make check-all")


def pytest_collection_modifyitems(items):
    """Long ones first, or one process would still be at them when the others
    (-n) are done."""
    def seconds(item):
        mark = item.get_closest_marker("long")
        return max(mark.args, default=20) if mark else 0

    items.sort(key=seconds, reverse=True)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """One of the processes that share the tests (-n) has ended."""
    Cluster.killed += getattr(node, "workeroutput", {}).get("killed", 0)


def in_one_line(report):
    """The failed test, the lines of it and of its helpers, and the reason."""
    crash, places = getattr(report.longrepr, "reprcrash", None), []
    for entry in report.longrepr.reprtraceback.reprentries if crash else []:
        where = getattr(entry, "reprfileloc", None)
        if where and not where.path.startswith("/usr/"):
            places.append(f"{os.path.basename(where.path)}:{where.lineno}")
    why = crash.message if crash else report.longreprtext[-200:]
    return " ".join(["FAIL:", report.nodeid, *places, *why.split()])[:300]


def pytest_terminal_summary(terminalreporter):
    """How many processes were killed; and one line `passed failed skipped` for
    scripts/test, which adds them up."""
    if hasattr(terminalreporter.config, "workeroutput"):
        return  # the process that shares the tests out tells the whole
    if Cluster.killed:
        terminalreporter.write_line(
            f"{Cluster.killed} processes were killed on purpose")
    counts = os.environ.get("WEFT_COUNTS")
    if counts:
        s = terminalreporter.stats
        n = [len(s.get("passed", [])),
             len(s.get("failed", [])) + len(s.get("error", [])),
             sum(len(s.get(k, [])) for k in ("skipped", "xfailed", "xpassed"))]
        with open(counts, "a", encoding="ascii") as f:
            print(*n, file=f)
        # scripts/test repeats these lines at its end.
        with open(os.path.join(os.path.dirname(counts), "failed"), "a",
                  encoding="utf-8") as f:
            for report in s.get("failed", []) + s.get("error", []):
                last = report.longreprtext[-4000:].splitlines()[-30:]
                pages = [text for name, text in report.sections
                         if name == "pages"]
                print(in_one_line(report), *last, *pages, sep="\n", file=f)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["killed"] = Cluster.killed
        return
    # A module that skips itself as a whole makes no test report.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter.stats.get("skipped") and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
