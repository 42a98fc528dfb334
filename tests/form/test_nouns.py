"""A name says where a function is: its prefix is its file's noun, and each file name is one.

Topology: none; the source.
Pass:  each exported function begins with the noun of its file, or with that of the public
       header that declares it; no two C files or headers of the tree have the same name; a
       header's include guard is its name.
Fail:  the function and its file; the files that share a name; or the header and its guard.

The noun of `cluster-lease-map.c` is `cluster_lease_map`, or, without the module's word,
`lease_map`: words in singular or plural.  The noun of a public header, such as `cluster.h`,
`http.h` or `ctl.h`, is found in the same way.  Headers `*-internal.h`, and those of the rooms
of core/cluster, are not public: a function that only a module's own files call has its file's
noun.  Names in `cluster.h` begin with `cluster_` and the object that they change or describe:
`cluster_disk_heartbeat`.
"""

import collections
import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["WEFT_SRCDIR"])
TOPS = ("core", "common", "plugin", "server", "weftctl", "attach")
FUNCTION = re.compile(r"^(?!static)[A-Za-z_][^;={}()\n]*\n(\w+) \([^;{}]*\)\n\{", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^#(?:.*\\\n)*.*$", re.MULTILINE)

# Nouns of the things that a file has besides its own noun; and names that are not ours.
NOUNS = {
    # The lists of all kinds of object, and of calls that wait.
    "core/cluster/ground/cluster-objects.c": {
        "cluster_array", "cluster_disk", "cluster_node", "cluster_session", "cluster_uuid",
        "cluster_wait"},
    # A piece is a part of one request.
    "core/array/array-req.c": {"piece"},
    # The structures of a disk's header, each with the words for its values.
    "core/format/format.c": {"array_dup", "intents", "member_state", "superblock"},
    # They take the place of a library's function.
    "server/doorman.c": {"accept"},
    "server/http.c": {"bind"},
    "server/shim/crypto.c": {"weft_crypto"},
    "server/shim/ssl.c": {"SSL"},
}


def tree(top, kinds="ch"):
    return sorted(p.relative_to(SOURCE) for p in (SOURCE / top).rglob(f"*.[{kinds}]"))


def begins(name, noun):
    """`disks_lost` begins with `disk`: singular and plural are one."""
    parts = name.split("_")[:len(noun)]
    return len(parts) == len(noun) and all(
        a == b or re.sub(r"ies$", "y", a) == b or re.sub(r"ies$", "y", b) == a
        or a + "s" == b or b + "s" == a for a, b in zip(parts, noun))


def nouns(path):
    words = path.stem.split("-")
    return [words, words[1:]] if len(words) > 1 else [words]


def is_public(header):
    return not header.stem.endswith("-internal") and not (
        header.parts[:2] == ("core", "cluster") and len(header.parts) == 4)


def declarations():
    """{function: the public headers that declare it}"""
    found = collections.defaultdict(set)
    for top in TOPS:
        for path in filter(is_public, tree(top, "h")):
            text = COMMENT.sub("", DIRECTIVE.sub("", (SOURCE / path).read_text()))
            for statement in re.split("[;{}]", text):
                for name in re.findall(r"\b(\w+) \(", statement)[:1]:
                    found[name].add(path)
    return found


def fits(path, name, headers):
    if str(path).startswith("weftctl/") and name.startswith("cmd_"):
        return True  # a row of the table in commands.c
    own = nouns(path) + [n.split("_") for n in NOUNS.get(str(path), ())]
    own += [noun for h in headers for noun in nouns(h)]
    return any(begins(name, noun) for noun in own)


def functions():
    for top in TOPS:
        for path in tree(top, "c"):
            if not path.name.startswith("test-"):
                for name in FUNCTION.findall((SOURCE / path).read_text()):
                    if name != "main":
                        yield path, name


def test_prefix_is_the_noun():
    declared = declarations()
    every = list(functions())
    assert len(every) > 1500
    assert [f"{path}: {name}" for path, name in every
            if not fits(path, name, declared.get(name, ()))] == []


def test_every_other_noun_is_used():
    used = collections.defaultdict(set)
    for path, name in functions():
        for noun in NOUNS.get(str(path), ()):
            if begins(name, noun.split("_")):
                used[str(path)].add(noun)
    assert used == NOUNS


def test_basenames():
    found = collections.defaultdict(list)
    for top in TOPS + ("tests", "bench"):
        for path in tree(top):
            found[path.name].append(str(path))
    assert [paths for paths in found.values() if len(paths) > 1] == []


def test_wrong_prefixes_are_found():
    """The check itself can fail."""
    path = pathlib.Path("core/cluster/lease/cluster-lease-map.c")
    assert fits(path, "cluster_lease_map_cool", ())
    assert fits(path, "lease_map_cool", ())
    assert not fits(path, "cluster_lease_cool", ())
    assert not fits(path, "map_cool", ())
    assert not is_public(path.with_name("cluster-lease.h"))
    assert fits(path, "cluster_array_lost", {pathlib.Path("core/cluster/cluster.h")})
    assert begins("replies_sent", ["reply"]) and not begins("disks_sent", ["clock"])


def test_include_guards():
    """A header's guard is its name: two headers with one guard would hide each other."""
    wrong = []
    for path in sorted(SOURCE / h for top in (*TOPS, "tests", "bench") for h in tree(top, "h")):
        guard = re.search(r"^#ifndef (\w+)\n#define \1$", path.read_text(), re.MULTILINE)
        name = path.stem.upper().replace("-", "_")
        if guard and guard[1] != f"WEFT_{name}_H":
            wrong.append(f"{path.relative_to(SOURCE)}: {guard[1]}")
    assert not wrong, wrong
