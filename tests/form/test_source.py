"""The form of the source: clang-format and shellcheck.

Topology: none; every C file and every script of the source.
Pass:  each looks as .clang-format says, by the version that it was made for; and
       shellcheck has nothing to say.
Fail:  the file; `scripts/format` mends what clang-format finds.
"""

import os
import pathlib
import re
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["WEFT_SRCDIR"])
SHEBANG = re.compile(rb"#! ?/bin/(sh|busybox sh)\b")
LEFT_OUT = {".git", "autom4te.cache", "build-aux"}


def walk():
    """Every file of the source, but for what is built."""
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = [f for f in folders if f not in LEFT_OUT and
                      not f.startswith("build") and f != "__pycache__"]
        for f in files:
            path = pathlib.Path(folder, f)
            if path.is_file() and f not in ("configure", "config.status", "libtool"):
                yield path


def scripts():
    """All scripts, by their first line."""
    return sorted(str(path.relative_to(SOURCE)) for path in walk()
                  if not path.name.endswith("~") and
                  SHEBANG.match(path.open("rb").read(32)))


def test_format():
    files = sorted(str(p) for p in walk() if p.suffix in (".c", ".h"))
    assert len(files) > 200
    out = subprocess.run([SOURCE / "scripts/format", "--check", *files],
                         cwd=SOURCE, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stdout + out.stderr


@pytest.mark.parametrize("script", scripts())
def test_shellcheck(script):
    out = subprocess.run(["shellcheck", "-x", "-s", "sh", script], cwd=SOURCE,
                         capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stdout


# Fields of weftd's records outside the tables of server/records.c: other functions store them,
# or nobody does.
OUTSIDE_TABLES = {
    "cluster_disk_record": {"uuid"},
    "cluster_array_record": {"uuid", "change", "over", "over_count", "allow", "member",
                             "service_node", "service_nodes"},
    "cluster_session_record": {"id"},
    "cluster_node_record": {"name"},
    "cluster_job": {"id", "rate", "eta_ms", "link"},
    "cluster_volume_record": {"uuid", "granted", "grant"},
    "cluster_space_record": {"owner"},
}


def test_each_field_of_a_record_is_stored():
    header = (SOURCE / "core/cluster/cluster-records.h").read_text()
    header = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    tables = dict(re.findall(r"FIELD_AT \((\w+), member\)\n(.*?)#undef",
                             (SOURCE / "server/records.c").read_text(), re.S))
    assert {"cluster_member", "cluster_array_record", "cluster_disk_record"} <= set(tables)
    for name, table in tables.items():
        body = re.search(rf"^struct {name} \{{(.*?)^\}};", header, re.S | re.M).group(1)
        fields = set(re.findall(r"\b(\w+)(?:\[[^\]]*\])*\s*[,;]", body))
        stored = set(re.findall(r"AT \((\w+)", table))
        assert fields - stored == OUTSIDE_TABLES.get(name, set()), name


@pytest.mark.parametrize("unit", sorted(
    p.name for p in (SOURCE / "systemd").glob("*.service.in")))
def test_units_never_give_up(unit):
    """However often it has failed; and one without its settings fails, and does not end
    well having done nothing."""
    lines = (SOURCE / "systemd" / unit).read_text().splitlines()
    head = lines[:lines.index("[Service]")]
    assert "StartLimitIntervalSec=0" in head
    by_path = SOURCE / "systemd" / unit.replace(".service.in", ".path")
    assert by_path.exists() or {"Restart=always", "Restart=on-failure"} & set(lines)
    if "Type=oneshot" not in lines:
        assert not [line for line in head if line.startswith("Condition")]


def test_libraries_are_up_to_date():
    """Each library of another folder is brought up to date before a program is linked to it."""
    folders = [p for p in walk() if p.name == "Makefile.am" and p.parent != SOURCE]
    used = {lib for p in folders
            for lib in re.findall(r"\$\(top_builddir\)/[\w/]+\.la", p.read_text())}
    rules = (SOURCE / "common-rules.mk").read_text()
    made = dict(re.findall(r"^(\w+) = (\$\(top_builddir\)/[\w/]+\.la)$", rules, re.M))
    assert len(used) >= 4 and used <= set(made.values())
    targets = re.search(r"^(.*): always\n\t@cd \$\(@D\) && \$\(MAKE\)", rules, re.M)[1]
    assert set(targets.split()) == {f"$({name})" for name in made}
    for p in folders:
        assert "include $(top_srcdir)/common-rules.mk" in p.read_text(), p


def test_no_file_of_the_archive_is_called_like_a_target():
    """`make dist` would carry out the target of a folder's Makefile that has the file's name."""
    listed = {}
    for p in walk():
        if p.name == "Makefile.am":
            text = p.read_text().replace("\\\n", " ")
            for words in re.findall(r"^\w*EXTRA_DIST \+?= (.*)$", text, re.M):
                listed[p] = listed.get(p, set()) | set(words.split())
    assert len(listed) > 3
    targets = {"all", "check", "clean", "dist", "distcheck", "install", "soak", "uninstall"}
    assert [(p, listed[p] & targets) for p in listed if listed[p] & targets] == []


def refusals(name):
    """The codes by which this file of the cluster engine refuses."""
    text = (SOURCE / "core/cluster/inputs" / name).read_text()
    return {code for pair in re.findall(
        r'CLUSTER_(?:CONFLICT|UNAVAILABLE|NOT_FOUND),\s*(?:[\w>.()-]+ \? )?"([a-z-]+)"'
        r'(?:\s*: "([a-z-]+)")?', text) for code in pair if code}


@pytest.mark.parametrize("source, tests", [
    # "starting" lasts until the member's own process was heard.
    ("cluster-admit.c", ["test-cluster-doubts.c"]),
    ("cluster-import-plan.c", ["test-cluster-doubts.c", "test-cluster-import.c",
                               "test-cluster-plan.c"])])
def test_no_refusal_of_a_disk_is_passed_over(source, tests):
    """Each has a test that says what it stops, and what the verdict says meanwhile."""
    text = "".join((SOURCE / "tests/unit" / t).read_text() for t in tests)
    codes = refusals(source) - {"starting"}
    assert len(codes) > 8
    assert [c for c in sorted(codes) if f'"{c}"' not in text] == []
