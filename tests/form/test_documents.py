"""The documents against the source.

Cause: The test looks for everything that docs/, README.md, HACKING.md and comments name:
files, tests, sections of documents, constants with their values, fields of messages, kinds of
records, codes of refusals.
Pass:  All of it exists, with the same value; and a document that must be complete lacks
       nothing.
"""

import functools
import json
import pathlib
import re

import pytest

from wefttest import SOURCE

DOCS = SOURCE / "docs"
PROTOCOL = (DOCS / "PROTOCOL.md").read_text()
TOP = ("admin-ui attach bench common completion core debian docs man plugin "
       "scripts server systemd tests weftctl").split()
# Pages that speak of other times, and of other projects' files.
OTHERS = {"CHANGELOG.md", "docs/UPSTREAM.md"}
BUILT = {"build", "__pycache__", ".libs", ".deps", "autom4te.cache",
         "node_modules"}


@functools.lru_cache
def files():
    """All of the source's, by path."""
    found = [p.name for p in SOURCE.iterdir() if p.is_file()]
    for top in TOP:
        for path in (SOURCE / top).rglob("*"):
            part = path.relative_to(SOURCE)
            if path.is_file() and not BUILT & set(part.parts):
                found.append(str(part))
    return sorted(found)


@functools.lru_cache
def text(path):
    return (SOURCE / path).read_text(errors="replace")


def sources(*endings):
    return [f for f in files() if f.endswith(endings)]


def documents():
    return [f for f in files() if f.endswith(".md")]


def prose(path):
    """The prose of a file (comments, docstrings), each piece as a line."""
    if path.endswith(".md"):
        pieces = [text(path)]
    elif path.endswith((".c", ".h", ".js", ".pml")):
        pieces = re.findall(r"/\*.*?\*/|(?:^ *//[^\n]*\n)+", text(path),
                            re.DOTALL | re.MULTILINE)
    else:
        pieces = re.findall(r'""".*?"""|(?:^[ \t]*#[^\n]*\n)+', text(path),
                            re.DOTALL | re.MULTILINE)
    for piece in pieces:
        yield re.sub(r"\s+(?:(?:\*|#|//) )?", " ", piece)




@functools.lru_cache
def said():
    """[(path, words)] of all prose; except this file's, which mentions citations as such."""
    ours = sources(".c", ".h", ".py", ".md", ".sh", ".js", ".am", ".pml")
    ours += [f for f in files() if "." not in f.split("/")[-1]
             and text(f).startswith("#!")]
    return [(path, words) for path in ours for words in prose(path)
            if path != "tests/form/test_documents.py"]


# --- Sections ------------------------------------------------------------------


def headings(path):
    return re.findall(r"^#+ (.*)$", text(path), re.MULTILINE)


def test_sections_of_design():
    """Sections are cited by number: the numbers exist, and are in order."""
    numbers = [h.split()[0].rstrip(".") for h in headings("docs/DESIGN.md")
               if h[0].isdigit()]
    assert len(numbers) > 30
    assert numbers == sorted(
        numbers, key=lambda n: [int(i) for i in n.split(".")])
    cited = 0
    for path, words in said():
        for some in re.findall(
                r"docs/DESIGN\.md ((?:\d+(?:\.\d+)*(?:, | and )?)+)", words):
            for n in re.findall(r"\d+(?:\.\d+)*", some):
                cited += 1
                assert n in numbers, f"{path}: docs/DESIGN.md {n}"
        # A document that is not in the repository.
        assert not re.search(r"\bDESIGN\b(?!\.md)", words), path
    assert cited > 20


def test_sections_within_design():
    """(5.2) in there is one of its own, too."""
    numbers = {h.split()[0].rstrip(".") for h in headings("docs/DESIGN.md")}
    page = text("docs/DESIGN.md")
    cited = re.findall(r"\((\d+(?:\.\d+)?(?:, \d+\.\d+)*)\)", page)
    cited += re.findall(r"\| (\d+\.\d+(?:, \d+\.\d+)*) \|", page)
    assert len(cited) > 20
    for some in cited:
        for n in some.split(", "):
            assert n in numbers, n


def test_sections_by_name():
    """docs/X.md "Section", or (see "Section") within one."""
    cited = 0
    for path, words in said():
        for name, section in re.findall(
                r'docs/([A-Z]+\.md),? "([^"]+)"', words):
            cited += 1
            assert section in headings(f"docs/{name}"), \
                f'{path}: docs/{name} "{section}"'
        if path.endswith(".md"):
            for section in re.findall(r'\(see "([^"]+)"\)', words):
                cited += 1
                assert section in headings(path), f"{path}: {section}"
    assert cited > 5


def test_links():
    """[text](target) of documents: a file, and a heading in it."""
    count = 0
    for path in documents():
        for target, heading in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", text(path)):
            count += 1
            to = (SOURCE / path).parent / target if target else SOURCE / path
            assert to.exists(), f"{path}: {target}"
            if heading:
                there = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-")
                         for h in headings(to.resolve().relative_to(SOURCE.resolve()))}
                assert heading in there, f"{path}: {target}#{heading}"
    assert count > 20


# --- Files ---------------------------------------------------------------------


def exists(name):
    """A path from the top, perhaps with * (or NAME) in it, without its ending, or
    that of a folder."""
    name = name.rstrip("/.").replace("NAME", "*")
    return (any(SOURCE.glob(name)) or any(SOURCE.glob(name + ".*"))
            or any(SOURCE.glob(name + "*.am")))


def test_paths():
    """Paths in documents and comments."""
    top = "|".join(TOP)
    count = 0
    for path, words in said():
        if path.startswith("tests/packages/") or path in OTHERS:
            continue  # of another system's files
        for name in re.findall(
                rf"(?<![\w/.$}}<-])((?:{top})/[\w.*/-]*[\w*/])", words):
            count += 1
            assert exists(name), f"{path}: {name}"
    assert count > 100


def test_files():
    """Bare file names: C and Python, which are ours, and headers that are included."""
    names = {pathlib.PurePath(f).name for f in files()}
    names |= {pathlib.PurePath(h).name for f in sources(".c", ".h")
              for h in re.findall(r'#include [<"]([^>"]+)[>"]', text(f))}
    count = 0
    for path, words in said():
        if not path.endswith((".c", ".h", ".md")) or path in OTHERS:
            continue
        for name in re.findall(
                r"(?<![\w/.*-])([a-z][a-z0-9_-]+\.(?:c|h|py))\b(?![.\w])",
                words):
            count += 1
            assert name in names, f"{path}: {name}"
    assert count > 200


# Of nbdkit, libcurl and systemd.
THEIRS = {"http_proxy", "nbdkit_nanosleep", "nbdkit_shutdown", "sd_notify"}


def test_names():
    """Functions, fields and the like that comments and documents name."""
    code = THEIRS | {pathlib.PurePath(f).stem for f in files()}
    for path in files():
        if path.endswith((".c", ".h")):
            code |= set(re.findall(r"\w+", re.sub(
                r"/\*.*?\*/", " ", text(path), flags=re.DOTALL)))
        elif (path.endswith((".py", ".am", ".ac", ".json", ".js", ".pml"))
              or "." not in pathlib.PurePath(path).name):
            code |= set(re.findall(r"\w+", text(path)))
    count = 0
    for path, words in said():
        if path.startswith("docs/monitoring/") or path in OTHERS:
            continue  # of Prometheus's settings, of other projects
        if path.endswith(".md"):
            words = " ".join(re.findall(r"`([^`]+)`", words))
        elif not path.endswith((".c", ".h")):
            continue
        for name in re.findall(r"(?<![\w/.-])[a-z]\w*_\w*(?![\w*])", words):
            count += 1
            assert (name in code or name.endswith("_")
                    and any(c.startswith(name) for c in code)), \
                f"{path}: {name}"
    assert count > 250


# --- Constants -----------------------------------------------------------------

UNITS = {"NS": 1, "US": 10 ** 3, "MS": 10 ** 6, "S": 10 ** 9}
SAID = {"ms": 10 ** 6, "s": 10 ** 9, "min": 60 * 10 ** 9}


@functools.lru_cache
def defined():
    """{name: [(path, expression)]} of the shells and engines."""
    found = {}
    for path in sources(".c", ".h"):
        if path.split("/")[0] in ("core", "common", "plugin", "server"):
            for name, value in re.findall(
                    r"^ *# *define ([A-Z]\w*) +(.+?)(?:\s*/\*.*)?$",
                    text(path), re.MULTILINE):
                found.setdefault(name, []).append((path, value))
    return found


def value(expression, path):
    """The value of a constant expression; its own file's names come first."""
    expression = re.sub(r"U?INT\d+_C \((\w+)\)", r"\1", expression)
    expression = re.sub(r"\(uint64_t\)", "", expression)

    def known(m):
        at = [(p, e) for p, e in defined()[m[0]]]
        at.sort(key=lambda d: d[0] != path)
        return str(value(at[0][1], at[0][0]))

    expression = re.sub(r"\b[A-Z]\w+\b", known, expression)
    assert re.fullmatch(r"[\d\s()*/+-]+", expression), expression
    return eval(expression)  # pylint: disable=eval-used


def constants():
    """(words, name) wherever PROTOCOL gives a constant's value."""
    number = r"(\d[\d.]*) (ms|s|min|times)"
    for line in PROTOCOL.splitlines():
        row = re.match(rf"\| {number} \| `(\w+)` \|", line)
        if row:
            yield row.groups()
    # Beside a time, in parentheses: 1 s (ROUND_MS), 5 s (`MEMBER_TTL_MS`).
    yield from re.findall(
        rf"{number}[^().|]{{0,30}}\(`?([A-Z][A-Z0-9_]+_(?:MS|NS|S)[A-Z_]*)`?[,)]",
        re.sub(r"\s+", " ", PROTOCOL))
    # Or: (`ENDING_WAIT_MS`, 100 ms).
    for name, n, unit in re.findall(
            rf"\(`([A-Z][A-Z0-9_]+)`, {number}\)", PROTOCOL):
        yield n, unit, name


def test_constants():
    """Each that PROTOCOL names is there; one of that name has that value."""
    named = set(constants())
    assert len(named) > 40
    for n, unit, name in named:
        assert name in defined(), f"{name} is not defined"
        values = [value(e, p) for p, e in defined()[name]]
        if unit == "times":
            wanted = int(n)
        else:
            suffix = re.search(r"_(NS|US|MS|S)(_|$)", name)[1]
            wanted = float(n) * SAID[unit] / UNITS[suffix]
        assert wanted in values, f"{name} is {values}, not {n} {unit}"


# The manual's time-outs: page, words with # for a number, unit, and the constants that give
# it.  The kernel waits 200 ms, then twice as long each time, between TCP's tries.
MANUAL, FAILURES = "man/nbdkit-weft-plugin.1", "docs/measurements/2026-11-28-failures.md"
TIMES = [
    (MANUAL, "an image is held back, .* The default is #", "ms", "IMAGE_AGE_MS_DEFAULT"),
    (MANUAL, "a member may owe .* The default is #", "ms", "IO_TIMEOUT_MS_DEFAULT"),
    (MANUAL, "is shorter, but at least # and", "ms", "LEAST_NS"),
    (MANUAL, "hardly any answers yet, at least # and", "ms", "STRANGER_NS"),
    (MANUAL, "comes from it within # milliseconds", "ms", "PROBE_NS"),
    (MANUAL, "lost after some # seconds", "s", "LEAST_NS + PROBE_NS"),
    (MANUAL, "answered nothing for # seconds", "s", "HUNG_MS"),
    (MANUAL, r"io-timeout \(# seconds\)", "s", "IO_TIMEOUT_MS_DEFAULT"),
    (MANUAL, "TCP gives up there after some # seconds", "s", "KERNEL_RETRIES_MS"),
    (FAILURES, "disk counts as one that hangs after # s", "s", "HUNG_MS"),
    ("man/weft.7", "Within # seconds all of its requests to members fail", "s",
     "SHUT_OUT_MS"),
    ("man/weft.7", "recognises the copy if it is older than # seconds", "s",
     "ROUND_LATE_MS"),
    ("man/weft.7", "that is younger than # seconds", "s", "ROUND_LATE_MS"),
    ("man/weft.7", "that knowledge may be up to # seconds old", "s", "SEQUENCE_MS"),
    ("man/weft.7", "needs new space waits for # seconds", "s", "REFUSED_PATIENCE_NS"),
    ("man/weft-shared.7", "its session ends after # seconds of silence", "s",
     "SESSION_TTL_MS"),
    ("man/weft-shared.7", "and up to # seconds for a silent host", "s", "SESSION_TTL_MS"),
    ("man/weft-shared.7", "can't reach the member after # seconds", "s", "APART_MS"),
    ("man/weft-shared.7", "After # seconds of silence its session ends", "s",
     "SESSION_TTL_MS"),
]
# Bounds that a simulator holds: page, words, file, constant.
FOUND = [
    ("docs/PROTOCOL.md", r"\(`APART_MS`\), and its request waits at most # s",
     "tests/sim/cluster/sick.c", "APART"),
    ("docs/PROTOCOL.md", "A request behind such a line waits at most # s",
     "tests/sim/cluster/sick.c", "APART"),
    ("man/weft-shared.7", "large packets, a request waits at most # seconds",
     "tests/sim/cluster/sick.c", "APART"),
    (MANUAL, "large packets, a request waits at most # seconds",
     "tests/sim/cluster/sick.c", "APART"),
]
# All times of the section of DESIGN on silent members.
SILENT = ["LEAST_NS", "IO_TIMEOUT_MS_DEFAULT", "PROBE_NS", "STRANGER_NS", "HUNG_MS",
          "LEAST_NS + PROBE_NS"]
# Measured values, which FAILURES has with command and date: page, words, row of FAILURES.
MEASURED = [
    (MANUAL, "a client waits for some # seconds then", "its disk hangs, its process lives"),
]


def flat(page):
    """Without mdoc's macros, in one line."""
    words = re.sub(r"^\.\w\w ?", "", text(page), flags=re.MULTILINE)
    return re.sub(r"\s+", " ", words)


def stated(page, words):
    """The numbers that stand for # in these words; they stand there."""
    found = re.findall(words.replace(".*", ".{0,120}?").replace("#", r"(\d+(?:\.\d+)?)"),
                       flat(page))
    assert found, f"{page}: nothing says: {words}"
    return [float(n) for n in found]


def milliseconds(sum_of):
    ms = 0.0
    for name in sum_of.split(" + "):
        if name == "KERNEL_RETRIES_MS":
            ms += 200 * (2 ** value("RETRIES", "plugin/blackhole.c") - 1)
            continue
        [(path, expression)] = defined()[name]
        suffix = re.search(r"_(NS|MS)(_|$)", name)[1]
        ms += value(expression, path) * UNITS[suffix] / UNITS["MS"]
    return ms


def test_times_of_the_manual():
    """A time that follows from constants is what they give."""
    for page, words, unit, sum_of in TIMES:
        wanted = milliseconds(sum_of) / {"ms": 1, "s": 1000}[unit]
        assert set(stated(page, words)) == {wanted}, f"{page}: {words}: {sum_of} is {wanted}"


def test_bounds_of_the_simulator():
    """The manual promises what the simulator holds."""
    for page, words, path, name in FOUND:
        (seconds,) = re.findall(rf"^#define {name} \((\d+) \* SECOND\)", text(path), re.M)
        assert set(stated(page, words)) == {float(seconds)}, f"{page}: {words}: {name}"


def test_times_of_design():
    """Each of them is there, and each that has a decimal point is one of them."""
    section = re.search(r"^### 6\.5 .*?(?=^##)", text("docs/DESIGN.md"), re.M | re.S)[0]
    section = " ".join(section.split())
    here = {float(n) for n in re.findall(r"(\d+(?:\.\d+)?) s\b", section)}
    here |= {float(n) for n in re.findall(r"between (\d+(?:\.\d+)?) and [\d.]+ s\b",
                                          section)}
    wanted = {milliseconds(sum_of) / 1000 for sum_of in SILENT}
    assert wanted <= here
    assert not {n for n in here - wanted if n % 1}


def test_measured_times_of_the_manual():
    """Each lies within what its row has, rounded; the page has the date."""
    assert re.search(r"\(\d+ \w+ 20\d\d", text(FAILURES))
    rows = {row[0]: row for _, rows in tables(text(FAILURES)) for row in rows}
    for page, words, row in MEASURED:
        low, high = re.match(r"([\d.]+) to ([\d.]+) s", rows[row][1]).groups()
        for n in stated(page, words):
            assert float(low) <= n <= float(high), f"{page}: {words}: {rows[row]}"
        assert "`tests/" in rows[row][2]


def test_all_constants_are_real():
    """Constants without a value, too."""
    for name in set(re.findall(r"\b(?<!-)[A-Z][A-Z0-9]*_[A-Z0-9_]+\b",
                               PROTOCOL)):
        if not name.startswith(("NOTICE_", "WAIT_", "WORD_")):
            assert name in defined(), name
        else:
            assert any(name in text(f) for f in sources(".h")), name


# --- Messages ------------------------------------------------------------------


def tables(document):
    """(the text before, rows) of each table; a row is its cells."""
    before, rows = [], []
    for line in document.splitlines() + [""]:
        if line.startswith("|"):
            rows.append([c.strip() for c in line.strip("|").split(" | ")])
        elif rows:
            yield " ".join(before), rows[2:]
            before, rows = [line], []
        elif line.strip() or not before:
            before.append(line)
        elif len(before) > 40:
            before = before[-40:]


@functools.lru_cache
def api():
    return json.loads(text("docs/API/openapi.json"))


def schema(name):
    return api()["components"]["schemas"][name]["properties"]


def message_tables():
    for before, rows in tables(PROTOCOL):
        named = re.findall(r"`(\w+)` in the API", before)
        if named and rows and rows[0][0].startswith("`"):
            yield named[-1], rows


def test_messages():
    """The fields of each message are those of the API's description, all of them;
    test_openapi.py holds that against the programs."""
    seen = set()
    for name, rows in message_tables():
        fields = re.findall(r"`([\w.]+)`", " ".join(row[0] for row in rows))
        assert len(fields) == len(set(fields)), name
        top = {f for f in fields if "." not in f}
        assert top == set(schema(name)), name
        for part in {f.split(".")[0] for f in fields if "." in f}:
            inner = {f.split(".")[1] for f in fields
                     if f.startswith(part + ".")}
            whole = schema(name)[part]
            whole = whole.get("oneOf", [whole])[0]
            whole = whole.get("items", whole)
            ref = whole.get("$ref", "").rpartition("/")[2]
            assert inner == set(schema(ref) if ref else whole["properties"]), \
                f"{name}.{part}"
        seen.add(name)
    assert seen == {"Attach", "Grant", "Map", "SessionHeartbeat",
                    "SessionState", "Lost", "DiskHeartbeat", "JoinProgress",
                    "DiskDesired", "Assignment", "JoinOrder", "Service",
                    "Leases", "SessionVolumes"}


def test_routes():
    paths = {(m.upper(), re.sub(r"\{\w+\}", "*", p))
             for p, methods in api()["paths"].items() for m in methods}
    named = re.findall(r"`(GET|POST|DELETE|PATCH) (/api/v1/[\w/]+)", PROTOCOL)
    assert len(named) >= 5
    for method, path in named:
        path = re.sub(r"\b[A-Z]+\b", "*", path)
        assert (method, path) in paths, f"{method} {path}"


def test_codes():
    """Some document has each code of a refusal in the part on messages."""
    part = PROTOCOL.split("\n## What travels")[1].split("\n## Time-outs")[0]
    server = " ".join(text(f) for f in sources(".c")
                      if f.startswith(("core/cluster", "server/")))
    codes = set()
    for words in re.findall(r"(?:409|410|503)[^|#]*?\n\n", part):
        codes |= set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", words))
    for row in re.findall(r"^\| (`[^|]*`) \|",
                          part.split("| refused with 409 |")[1].split("\n\n")[0],
                          re.MULTILINE):
        codes |= set(re.findall(r"`([a-z-]+)`", row))
    codes -= {"weftd", "holder", "process"}
    assert len(codes) > 20
    for code in codes:
        if any(code in schema(n) for n, _ in message_tables()):
            continue  # a field that is spoken of beside
        assert f'"{code}"' in server, code


def kinds():
    """{name: number} of a batch's records."""
    return {name: int(n) for name, n in re.findall(
        r"^  BATCH_([A-Z]+) = (\d+),", text("core/format/batch.h"),
        re.MULTILINE)}


def test_records_of_a_batch():
    rows = next(rows for before, rows in tables(PROTOCOL)
                if rows[0][0].startswith("WRITE"))
    assert ([k for row in rows for k in row[0].split(", ")]
            == sorted(kinds(), key=kinds().get))
    named = re.search(r"\| kind \| (.*) \|", text("docs/FORMAT.md"))[1]
    assert ({k: int(n) for n, k in re.findall(r"(\d+) ([A-Z]+)\b", named)}
            == kinds())


def test_doors():
    rows = next(rows for before, rows in tables(PROTOCOL)
                if rows[0][0] == "`data`")
    door = re.search(r"door_names\[\] = \{(.*?)\}",
                     text("core/member/member-doors.c"), re.DOTALL)[1]
    assert ([row[0].strip("`") for row in rows]
            == re.findall(r'"(\w+)"', door))


# --- Changes of epoch ----------------------------------------------------------


def test_changes():
    """The table of what a change waits for says what the engine's own does."""
    waits = {
        "MEMBERS_NONE": "none", "MEMBERS_ALL": "all that are not out",
        "MEMBERS_THESE": "(?!none|all).+",
        "MEMBERS_THESE_OR_ALL": ".+; without a writer all that are not out",
        "MEMBERS_GO_ON": "those of the change that it replaces(, if any)?",
        "SESSIONS_NONE": "none(: .+)?", "SESSIONS_ALL": "all(; .+)?",
        "SESSIONS_IF_OUT": "(none; )?(readers|all), if .+",
        "SESSIONS_GO_ON": "those of the change that it replaces",
    }
    rules = re.findall(
        r"/\* ([^/]+?)\.\s+\*/\s+\[CHANGE_\w+\] = \{ (\w+), (\w+) \},",
        text("core/cluster/epoch/cluster-change.c"))
    rows = next(rows for _, rows in tables(
        PROTOCOL.split("\n## What a change waits for")[1]))
    assert len(rules) == len(rows) >= 10
    for (words, *rule), (change, _, *said, _) in zip(rules, rows):
        words = re.sub(r"\s*\n \s*\* ", " ", words)
        assert words[0].lower() + words[1:] == change
        for kind, phrase in zip(rule, said):
            assert re.fullmatch(waits[kind], phrase), f"{change}: {phrase}"


def test_waits():
    """Each word, and each operation that waits, has a row in the tables of waits."""
    section = PROTOCOL.split("\n## Waits for a word")[1].split("\n## ")[0]
    named = {name for _, rows in tables(section) for row in rows
             for name in re.findall(r"`((?:WORD|WAIT)_\w+)`", "".join(row[:2]))}
    wanted = {"WORD_NONE", "WAIT_KINDS"}
    for header, kind in (("cluster-disk-state.h", "cluster_word"),
                         ("ground/cluster-ground.h", "waiting_kind")):
        values = re.search(r"enum %s \{(.*?)\n\};" % kind,
                           text(f"core/cluster/{header}"), re.DOTALL)[1]
        wanted ^= set(re.findall(r"^  ((?:WORD|WAIT)_\w+)", values,
                                 re.MULTILINE))
    assert named == wanted


# --- Tests ---------------------------------------------------------------------


MODELS = ("epochs.pml", "leases.pml")


def promises():
    for before, rows in tables(PROTOCOL.split("\n## Invariants")[1]):
        for row in rows:
            yield row


def test_promises():
    """Each rule names tests, and each of them is there."""
    numbers = [row[0] for row in promises()]
    count = {kind: sum(n.startswith(kind) for n in numbers) for kind in "PLB"}
    assert count["P"] >= 18 and count["L"] >= 6 and count["B"] >= 5
    assert numbers == [f"{kind}{n + 1}" for kind in "PLB" for n in range(count[kind])]
    programs = " ".join(text(f) for f in sources("Makefile.am"))
    model = "".join(text(f"tests/spin/{m}") for m in (*MODELS, "check"))
    for number, _, tests in promises():
        named = re.findall(r"`([^`]+)`(?: \((\w+)\))?", tests)
        assert named, number
        for name, note in named:
            if note:
                assert note in model, f"{number}: {note}"
            for rule in re.findall(r"-D(\w+)", name):
                assert re.search(rf"def {rule}\b", model), f"{number}: {rule}"
                assert rule in text("tests/spin/check"), f"{number}: {rule}"
            name = name.split(" ")[0]
            if name.startswith("tests/unit/"):
                assert any(SOURCE.glob(name + ".c")), f"{number}: {name}"
            elif "/" in name:
                assert (SOURCE / name).is_file(), f"{number}: {name}"
            elif not name.startswith("-D") and name not in MODELS:
                assert re.search(rf"^\t{name} \\$|\b{name}_SOURCES", programs,
                                 re.MULTILINE), f"{number}: {name}"


def test_rules_are_tried():
    """Each rule that the model can do without is named by a promise."""
    tried = set(re.findall(r"^#ifn?def (\w+)",
                           "".join(text(f"tests/spin/{m}") for m in MODELS),
                           re.MULTILINE)) - {"WRITES", "FIRST", "READS"}
    named = set(re.findall(r"-D(\w+)", PROTOCOL))
    assert tried == named


# --- Limits --------------------------------------------------------------------


def listed(page, folder):
    """The links of a page that go to files of a folder."""
    return {str((SOURCE / page).parent.joinpath(target).resolve().relative_to(folder))
            for target in re.findall(r"\]\(([^)#:\s]+)", text(page))
            if (SOURCE / page).parent.joinpath(target).resolve().is_relative_to(folder)}


@pytest.mark.parametrize("name", sorted(
    p.name for p in DOCS.iterdir() if p.suffix == ".md" or (p / "README.md").exists()))
def test_documents_are_distributed(name):
    assert re.search(rf"^\t{name}(/README\.md)? \\\n", text("docs/Makefile.am"), re.M)


def test_measurements_are_listed():
    """Each page stands in the index, and each is named by its date."""
    pages = {p.name for p in (DOCS / "measurements").iterdir()} - {"README.md"}
    assert len(pages) > 10
    assert pages <= listed("docs/measurements/README.md", DOCS / "measurements")
    for page in pages:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d-[a-z-]+\.md", page), page


# --- Figures -------------------------------------------------------------------


def figures(words):
    """The numbers of a text, without those of links and programs."""
    words = re.sub(r"\]\([^)]*\)|`[^`]*`", " ", words)
    return set(re.findall(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w.]*\d)", words))


def measured(*pages):
    return figures(" ".join(text(f"docs/measurements/{p}") for p in pages))


def test_readme_is_short():
    assert len(text("README.md").splitlines()) <= 120


def test_figures_of_readme():
    """Each stands on the page that its row names."""
    rows = next(rows for _, rows in tables(
        text("README.md").split("\n## Five figures")[1].split("\n## ")[0]))
    assert len(rows) == 5
    for _, value, source in rows:
        page = re.search(r"docs/measurements/([\w-]+\.md)", source)[1]
        assert figures(value) <= measured(page), f"{value}: {page}"


def sections(page, column):
    """(heading, figures with a decimal point of its tables, pages that it names)"""
    for section in text(page).split("\n## ")[1:]:
        cells = [cell for _, rows in tables(section) for row in rows
                 for cell in row[column:]]
        wanted = {n for cell in cells for n in figures(cell) if "." in n}
        named = re.findall(r"measurements/([\w-]+\.md)\)", section)
        yield section.split("\n")[0], wanted, {p for p in named if p != "README.md"}


def test_figures_of_performance():
    """Each stands on a page that its section names."""
    count = 0
    for heading, wanted, named in sections("docs/PERFORMANCE.md", 1):
        count += len(wanted)
        assert wanted <= measured(*named), f"{heading}: {wanted - measured(*named)}"
    assert count > 80


def test_figures_of_papers():
    """Ours, which are in the last column."""
    pages = re.findall(r"measurements/([\w-]+\.md)\)", text("docs/PAPERS.md"))
    count = 0
    for heading, wanted, _ in sections("docs/PAPERS.md", -1):
        count += len(wanted)
        assert wanted <= measured(*pages), f"{heading}: {wanted - measured(*pages)}"
    assert count > 40
