"""The manual pages against the programs.

Cause: each option, parameter, command and debug flag of each program is
compared with its page, in both directions; the pages are linted, and the
format page is used to read a real disk.
Pass: the page says all that the program accepts, and nothing else.
"""

import pathlib
import re
import subprocess
import zlib

import pytest

from nbdclient import connected
from wefttest import BUILD, SOURCE, http, run

MAN = SOURCE / "man"
PAGES = sorted(p.name for p in MAN.glob("*.[0-9]"))


def sections(page):
    """The page's source by its .Sh and .Ss headings: {heading: text}."""
    parts = re.split(r"^\.S[hs] (.*)$", (MAN / page).read_text(),
                     flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def page_options(text):
    """{option: the words for its value} of the .It Fl items in a text."""
    found = {}
    for name, value in re.findall(r"^\.It Fl -(\S+)(?: Ar (.*))?$", text,
                                  re.MULTILINE):
        found[name] = re.sub(r" (: )?Ns (Ar )?", r"\1", value).replace(" ", "")
    return found


def help_options(text):
    """The same of a --help."""
    return {name: value.strip() for name, value in re.findall(
        r"^ +--([a-z-]+)((?: [A-Z][A-Z:]*)?) ", text, re.MULTILINE)}


# --- Pages ---------------------------------------------------------------------


def test_all_pages_are_installed():
    makefile = (MAN / "Makefile.am").read_text()
    listed = sorted(re.findall(r"^\t(\S+\.[0-9]) \\$", makefile, re.MULTILINE))
    assert listed == PAGES
    assert PAGES == ["fence_weft.8", "nbdkit-weft-plugin.1",
                     "weft-attach.8", "weft-drain.8", "weft-enroll.8",
                     "weft-format.5", "weft-leave.8",
                     "weft-renew.8", "weft-replace-disk.8",
                     "weft-shared.7", "weft-volumes.7", "weft.7",
                     "weftctl.8", "weftd.8"]


@pytest.mark.parametrize("page", PAGES)
def test_lint(page):
    # In the directory of the pages, where it finds those that are referred to.
    # On stderr it says that the system's index of pages is old.
    p = subprocess.run(["mandoc", "-T", "lint", page], text=True, cwd=MAN,
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                       stdin=subprocess.DEVNULL, timeout=60, check=False)
    # Whether other packages' pages are installed says nothing about ours.
    said = [line for line in p.stdout.splitlines() if not re.search(
        r"referenced manual not found: Xr (?!weft|nbdkit-weft)", line)]
    assert said == []


@pytest.mark.parametrize("page", PAGES)
def test_references(page):
    """Pages of ours that are referred to exist; and so do files."""
    text = (MAN / page).read_text()
    for name, section in re.findall(r"^\.Xr (\S+) (\d)", text, re.MULTILINE):
        if name.startswith("weft") or name.startswith("nbdkit-weft"):
            assert f"{name}.{section}" in PAGES
    for path in re.findall(r"\b((?:docs|scripts)/[\w./-]+\w)", text):
        assert (SOURCE / path).exists(), path


# --- weftd -----------------------------------------------------------------------


def test_weftd_options():
    in_help = help_options(run("weftd", "--help").stdout)
    in_page = page_options((MAN / "weftd.8").read_text())
    assert in_page == in_help
    assert "state" in in_help


def test_weftd_accepts_what_the_page_says():
    accepted = dict(re.findall(r'\{ "([a-z-]+)", (required|no)_argument',
                               (SOURCE / "server/weftd.c").read_text()))
    page = page_options((MAN / "weftd.8").read_text())
    assert accepted == {name: "required" if value else "no"
                        for name, value in page.items()}
    p = run("weftd", "--no-such-option", check=False)
    assert p.returncode == 1
    assert "no-such-option" in p.stderr


# --- The scripts of a node, and weft-attach --------------------------------------


@pytest.mark.parametrize("name", ["fence_weft", "weft-attach", "weft-drain",
                                  "weft-enroll", "weft-leave", "weft-renew",
                                  "weft-replace-disk"])
def test_script_options(name):
    in_help = help_options(run(name, "--help").stdout)
    in_page = page_options((MAN / f"{name}.8").read_text())
    assert in_page == in_help
    assert in_help
    p = run(name, "--no-such-option", check=False)
    # A fence agent's 2 says that the node is off.
    assert p.returncode == (1 if name == "fence_weft" else 2)
    assert "no-such-option" in p.stderr


# --- weftctl -----------------------------------------------------------------------


def weftctl_commands():
    out = run("weftctl", "--help").stdout
    return re.findall(r"^  weftctl ([a-z-]+(?: [a-z][a-z-]*)?)\b", out, re.MULTILINE)


def split_help(*words):
    """(own, general) options of a command."""
    own, general = run("weftctl", *words, "--help").stdout.split(
        "\noptions of every command:\n")
    return help_options(own), help_options(general)


def test_weftctl_commands():
    commands = weftctl_commands()
    page = sections("weftctl.8")
    assert len(commands) >= 12
    synopsis = re.findall(r"^\.Cm (.*)$", page["SYNOPSIS"], re.MULTILINE)
    assert synopsis == commands
    own = {h for h in page if h.islower() and h in commands}
    assert own == set(commands)
    names = {h for h in page if h.islower()}
    assert names == set(commands), "a section about no command"


def test_weftctl_general_options():
    _, general = split_help()
    page = sections("weftctl.8")["Options of every command"]
    assert page_options(page) == general
    assert {"admin", "json", "yes", "no-color", "timeout"} <= set(general)


@pytest.mark.parametrize("command", weftctl_commands() if BUILD else [])
def test_weftctl_options(command):
    own, _ = split_help(*command.split())
    assert page_options(sections("weftctl.8")[command]) == own
    # The help is made of the lists that drive the parser; still, ask it.
    for name, value in own.items():
        p = run("weftctl", *command.split(), f"--{name}",
                *(["x"] if value else []), "--help")
        assert p.stderr == ""
    p = run("weftctl", *command.split(), "--no-such-option", check=False)
    assert p.returncode == 2
    assert p.stderr.count("\n") == 1
    assert "--no-such-option" in p.stderr


def test_weftctl_exit_status_and_environment():
    page = sections("weftctl.8")
    header = (SOURCE / "weftctl/ctl.h").read_text()
    codes = re.findall(r"^  EXIT_\w+ = (\d+),", header, re.MULTILINE)
    assert re.findall(r"^\.It (\d+)$", page["EXIT STATUS"],
                      re.MULTILINE) == codes
    assert set(re.findall(r"^\.It Ev (\w+)$", page["ENVIRONMENT"],
                          re.MULTILINE)) == getenvs("weftctl")


def test_weftd_environment():
    assert set(re.findall(r"^\.It Ev (\w+)$",
                          sections("weftd.8")["ENVIRONMENT"],
                          re.MULTILINE)) == getenvs("server", "common")


def getenvs(*folders):
    """The variables that are ours to explain."""
    found = set()
    for path in (p for f in folders for p in (SOURCE / f).rglob("*.c")):
        found |= set(re.findall(r'getenv \("(\w+)"\)', path.read_text()))
    return found - {"PATH", "TERM"}


# --- The plugin ---------------------------------------------------------------------


def plugin_page_parameters():
    return re.findall(r"^\.It Cm ([a-z-]+)= Ns Ar (\w+)",
                      (MAN / "nbdkit-weft-plugin.1").read_text(),
                      re.MULTILINE)


def test_plugin_parameters():
    out = run("nbdkit", "weft", "--help").stdout
    in_help = re.findall(r"^([a-z-]+)=<(\w+)>", out, re.MULTILINE)
    assert len(in_help) >= 9
    assert plugin_page_parameters() == in_help


def test_plugin_accepts_what_the_page_says():
    source = (SOURCE / "plugin/weft.c").read_text()
    config = source[source.index("\nweft_config (const char"):]
    config = config[:config.index("\n}\n")]
    accepted = set(re.findall(r'\{ "([a-z-]+)", &params', config))
    accepted |= set(re.findall(r'strcmp \(key, "([a-z-]+)"\)', config))
    page = {name for name, _ in plugin_page_parameters()}
    assert page == accepted
    for name in sorted(page) + ["no-such-parameter"]:
        p = run("nbdkit", "weft", f"{name}=", check=False)
        assert p.returncode == 1
        assert ("unknown parameter" in p.stderr) == (name not in page), \
            p.stderr


def test_plugin_debug_flags():
    p = run("nm", "-D", "--defined-only",
            pathlib.Path(BUILD, "plugin/.libs/nbdkit-weft-plugin.so"))
    flags = set(re.findall(r"\bweft_debug_(\w+)$", p.stdout, re.MULTILINE))
    page = set(re.findall(r"^\.It Fl D Cm weft\.(\w+)=1$",
                          (MAN / "nbdkit-weft-plugin.1").read_text(),
                          re.MULTILINE))
    assert flags
    assert page == {f.replace("_", ".") for f in flags}


# --- The format -----------------------------------------------------------------------


def format_fields(heading):
    return [(int(offset), int(size), what) for offset, size, what in re.findall(
        r"^\.It (\d+) Ta (\d+) Ta (.*)$",
        sections("weft-format.5")[heading], re.MULTILINE)]


# Each table of fields, and what it begins with in docs/FORMAT.md.
TABLES = {"Superblock": "| 0 | 8 | magic | `WEFTDISK`", "Intent map": "| 0 | 4 | magic | `WINT`",
          "List of bad ranges": "| 0 | 4 | magic | `WBAD`",
          "Pool": "| 0 | 8 | magic | `WEFTPOOL`",
          "Root of a volume": "| 0 | 8 | magic | `WEFTROOT`",
          "Block of a log": "| 0 | 4 | magic | `WLOG`",
          "Entry of a log": "| 0 | 4 | segment |"}


def test_format_page_has_each_table():
    text = (MAN / "weft-format.5").read_text()
    assert text.count(".It Em Offset Ta Em Bytes Ta Em What") == len(TABLES)


@pytest.mark.parametrize("heading", TABLES)
def test_format_page_agrees_with_format_md(heading):
    in_page = [(offset, size) for offset, size, _ in format_fields(heading)]
    page = (SOURCE / "docs/FORMAT.md").read_text()
    assert page.count(TABLES[heading]) == 1
    table = page[page.index(TABLES[heading]):].split("\n\n")[0]
    assert in_page == [(int(o), int(s)) for o, s in re.findall(
        r"^\| (\d+) \| (\d+) \|", table, re.MULTILINE)]


def field(block, fields, word):
    (offset, size), = [(o, s) for o, s, what in fields if what.startswith(word)]
    return block[offset:offset + size]


def check_crc(block, fields):
    (offset,) = [o for o, _, what in fields if what.startswith("CRC")]
    zeroed = block[:offset] + bytes(4) + block[offset + 4:]
    assert zlib.crc32(zeroed) == int.from_bytes(block[offset:offset + 4],
                                                "little")


def test_format_page_reads_a_real_disk(tmp_path):
    path = tmp_path / "disk.img"
    path.touch()
    size = 67 << 20
    run("truncate", "-s", size, path)
    p = run("weftctl", "disk", "format", path)
    uuid = re.search(r"disk ([0-9a-f-]{36})", p.stdout).group(1)
    disk = path.read_bytes()

    fields = format_fields("Superblock")
    slots = [disk[0:4096], disk[4096:8192]]
    good = [s for s in slots if s[:8] == b"WEFTDISK"]
    assert good
    for slot in good:
        check_crc(slot, fields)
        sequence = int.from_bytes(field(slot, fields, "sequence"), "little")
        assert slots[sequence % 2] is slot
    newest = max(good, key=lambda s: field(s, fields, "sequence")[::-1])
    assert field(newest, fields, "version") == b"\2\0\0\0"
    assert int.from_bytes(field(newest, fields, "place of the list"), "little") == \
        1015808
    assert field(newest, fields, "UUID of the disk").hex() == \
        uuid.replace("-", "")
    assert field(newest, fields, "UUID of the array") == bytes(16)
    offset = int.from_bytes(field(newest, fields, "offset"), "little")
    length = int.from_bytes(field(newest, fields, "size"), "little")
    assert offset == 1 << 20
    assert offset + length == size

    fields = format_fields("Intent map")
    block = disk[8192:12288]
    assert field(block, fields, "magic") == b"WINT"
    assert field(block, fields, "number") == bytes(4)
    check_crc(block, fields)


def newest(slots, fields):
    """The valid slot of two that was written last."""
    for slot in slots:
        if slot[:4] == b"WEFT":
            assert slots[int.from_bytes(field(slot, fields, "sequence"), "little") % 2] is slot
    return max((s for s in slots if s[:4] == b"WEFT"),
               key=lambda s: field(s, fields, "sequence")[::-1])


def test_format_page_reads_a_real_pool(cluster):
    """On two members with the same data each member's data area is the array."""
    c = cluster(members=2, layout="raid-1", size="64M", pool=True)
    url = f"{c.admin}/api/v1/arrays/a"
    status, volume = http("POST", url + "/volumes", {"name": "vm1", "size": 16 << 20})
    assert status == 201
    h = connected(f"{c.nbd}/vm1")
    h.pwrite(b"w" * 32768, (5 << 20) + 16384)
    h.flush()
    h.shutdown()
    pool = http("GET", url)[1]["pool"]

    def number(block, fields, word):
        return int.from_bytes(field(block, fields, word), "little")

    area = pathlib.Path(c.members[0]["file"]).read_bytes()[1 << 20:]
    fields = format_fields("Pool")
    header = newest([area[:4096], area[4096:8192]], fields)
    check_crc(header, fields)
    assert field(header, fields, "magic") == b"WEFTPOOL"
    assert number(header, fields, "version") == 2
    array = field(header, fields, "UUID of the array")
    assert array.hex() == http("GET", url)[1]["uuid"].replace("-", "")
    segment = number(header, fields, "bytes of a segment")
    assert segment == pool["segment_bytes"]

    fields = format_fields("Root of a volume")
    roots = number(header, fields=format_fields("Pool"), word="roots")
    assert roots == pool["volumes_max"]
    of_vm1 = []
    for i in range(roots):
        at = segment + i * (256 << 10)
        slots = [area[at:at + (128 << 10)], area[at + (128 << 10):at + (256 << 10)]]
        if any(s[:8] == b"WEFTROOT" for s in slots):
            of_vm1.append(newest(slots, fields))
    (root,) = of_vm1
    check_crc(root[:number(root, fields, "length")], fields)
    assert field(root, fields, "UUID of the volume").hex() == \
        volume["uuid"].replace("-", "")
    assert field(root, fields, "UUID of the array") == array
    assert number(root, fields, "size") == 16 << 20
    assert field(root, fields, "name").rstrip(b"\0") == b"vm1"
    assert number(root, fields, "snapshots") == number(root, fields, "branches") == 0
    assert number(root, fields, "segments of the log") >= 1

    at = int.from_bytes(root[192:196], "little") * segment
    fields = format_fields("Block of a log")
    block = area[at:at + 4096]
    check_crc(block, fields)
    assert field(block, fields, "magic") == b"WLOG"
    assert field(block, fields, "first half") == bytes.fromhex(
        volume["uuid"].replace("-", ""))[:8]
    assert number(block, fields, "entries") == 1
    fields = format_fields("Entry of a log")
    entry = block[64:88]
    assert number(entry, fields, "segment of the volume") == 5
    assert number(entry, fields, "kind") == 1
    assert number(entry, fields, "blocks") == 0b110
    at = number(entry, fields, "segment of the pool") * segment + 16384
    assert area[at:at + 32768] == b"w" * 32768
