"""Doubts: each sentence of the source that states a doubt has a row and a scene.

Topology: none; the sentences of core/, plugin/ and server/, the table in docs/PROTOCOL.md
       "Doubts", and its scenes in tests/unit/test-cluster-doubts.c.
Pass:  each warning and error of the cluster engine's log, and each sentence with a word of
       doubt, is in one of the lists below, by a row of the table or as no doubt; each row has
       a scene, and the scenes expect each warning that states a doubt.
Fail:  the sentence, or the row, that is missing.
"""

import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["WEFT_SRCDIR"])
SCENES = "tests/unit/test-cluster-doubts.c"
WORDS = re.compile(
    r"old copy|older copy|older one|older than (the )?pool|old one|old database|doubt|has seen|knows more|clone|"
    r"supersed|is a copy|of the copy|be trusted|do not trust|may have (copied|data|gone|lost)|"
    r"may differ|impossible|surely|newer|differs from|last line that|"
    r"without its unflushed", re.I)
STRING = r'"((?:[^"\\\n]|\\.)*)"'
STRINGS = re.compile(rf"(?:{STRING}(?:\s|PRI\w+)*)+")

# Part of a sentence: how the row of its doubt begins.
DOUBTS = {
    "; the array was imported from disks with": "a disk knows a later epoch",
    ", more than the disks from which": "a disk knows a later epoch",
    "description of the array differs from the other members'":
        "a disk that an import did not find",
    "description of the array differs from the backup's": "an array is being restored",
    "have the same UUID: stop the process of the copy": "an array is being restored",
    "say that they are member %u: stop the process of the copy": "an array is being restored",
    "is served there: stop that process before": "two processes serve one disk",
    "is already served by a live process": "two processes serve one disk",
    "asked to serve %s and was refused: is it a clone?": "two processes serve one disk",
    "do not trust that node (weftctl node revoke).": "a member's disk became smaller",
    "that node is not to be trusted (weftctl": "without certificates, another node",
    "says that it belongs to no array: it was formatted": "the same, and no other copy",
    "an old copy of it was put back": "the same, and no other copy",
    "is an old copy of member %u (it has seen round": "the same, and no other copy",
    "The disk of member %u is an old copy": "the same, and no other copy",
    "served as member %u of array %s, is an old copy of the disk.": "an in-sync member's disk",
    "it is taken in, and rebuilt in full": "an in-sync member's disk",
    "is an old copy of member %u of array %s (it has seen": "an in-sync member's disk",
    "its disk was an old copy when weftd was restored": "an in-sync member's disk",
    ", and rebuilt: its disk is an old copy": "an in-sync member's disk",
    "is an old copy of its disk": "an in-sync member's disk",
    "is an old copy of the disk: it has seen round % of the array's writing, and others":
        "an in-sync member's disk",
    "is an old copy of member %u of array %s": "an in-sync member's disk",
    "it is an old copy of the disk": "an in-sync member's disk",
    "is an old copy of the disk": "an in-sync member's disk",
    "ask again to have it rebuilt": "the disk of a member that is out",
    "was over when the member went out": "the disk of a member that is out",
    "it may have copied from an old copy": "a joining member may have copied",
    "both say that they are member %u: one is a copy": "two disks are copies of each other",
    "have the same UUID: stop the process of the one": "two disks are copies of each other",
    "Another disk may have taken this place": "an import's disk was replaced",
    "This is an old copy of the disk.": "an import's disk was replaced",
    "it was not surely in-sync when": "an import's disk was replaced",
    "they may have gone on without": "missing members may have continued",
    "which is given up, knows epoch": "missing members may have continued",
    "was restored though this was doubtful": "an array is being restored",
    "was imported though this was doubtful": "missing members may have continued",
    "is not to be trusted: weftctl node revoke %s shuts": "a member, or a writer, knows more",
    "if weftd's database is an older copy": "a member, or a writer, knows more",
    "If weftd's database is an older copy": "a member, or a writer, knows more",
    "it has seen generation": "a member, or a writer, knows more",
    "it has seen epoch": "a member, or a writer, knows more",
    "a newer weftd has spoken already": "a member, or a writer, knows more",
    "that is not known here is refused": "an unknown disk does",
    "it has seen round % of the writing": "a disk or a session reports an impossible",
    "that is impossible; check that node": "a disk or a session reports an impossible",
    "The report is impossible and refused": "a disk or a session reports an impossible",
    "Refused an impossible report": "a disk or a session reports an impossible",
    "no other has seen more than": "one node alone has seen rounds",
    "waiting for weftd to know that an older one": "a resync uses an older copy",
    "weftd's database was copied or moved here": "`weftd`'s database was copied",
    "weftd's database is an old one": "`weftd`'s database was copied",
    "because its database is an old one": "two nodes, or the only one",
    "started after a fence of which": "a client names a fence",
    "weftd's database may be an old one": "`weftd`'s database was copied",
    "The audit log %.200s does not end with": "the audit log does not end",
    "weftd's database may be older than": "the process that has a pool",
}
# Part of a sentence that has a word of doubt, or is a warning: why it states no doubt.
UNEQUAL = "a known difference: the table in \"Copies that an ended session leaves\""
LOSS = "a known loss, with its own row in the table of changes"
ORDER = "tells of an order, or of what weftd did"
NO_DOUBTS = {
    "which it may have copied from": LOSS,
    "may differ": UNEQUAL,
    "without its unflushed writes": UNEQUAL,
    "a member may have lost what was copied to it": "the resync begins again",
    "the copy there of the CA's certificate": "a file for people",
    "restore a newer backup": "advice",
    "if you trust it, restore it without": "the administrator decides that",
    "have all of their copies on one host": "a fact about places, which the verdict warns of",
    "other members of the group are there": "a fact about places, which the verdict warns of",
    "takes array %s over from node": ORDER,
    "The loss of %s of array %s was accepted": ORDER,
    "is to copy them from another member": ORDER,
    "Node %s was fenced by": ORDER,
    "was imported from its members": ORDER,
    "was restored from its members": ORDER,
    "weftd was restored from a backup: it takes newer state": ORDER,
    "which shared array %s, has ended": ORDER,
    "stays out until weftctl rebuild join": ORDER,
    "was not deleted: %s": ORDER,
    "is not in the pool, and was deleted later": ORDER,
    ", which no process has made, is gone": "nobody has written to the volume",
    "Pool %s has two volumes %s: that of root %u is called": "both are there, and keep their data",
    "was scanned: it has %u volumes": ORDER,
    "Volume %s/%s can't be read: %s": "the volume is broken: nothing is granted in its pool",
    "may grow to %s in all, and it has": "a fact about sizes",
    "was shut out by": ORDER,
    "The service of array %s moves": ORDER,
    "does not move: the disk that was to have": ORDER,
    "was replaced by a spare": ORDER,
    "was evicted from array": ORDER,
    "Disk %.200s of node %s %s.": LOSS,
    "has moved from node %s to node": "says where; the doubt is a part of its own",
    "Disk %.200s of node %s has failed": LOSS,
    "of array %s (%s) is silent": LOSS,
    "is out%s%s.": LOSS,
    "cannot be left out, because": LOSS,
    "sends heartbeats, but has not": "a word that is overdue: \"Waits for a word\"",
    "which has attached array %s, is silent": LOSS,
}
# weftd's rows, which the cluster engine does not know: their tests.
ELSEWHERE = {
    "`weftd`'s database was copied": "tests/integration/test_security_tls.py",
    "a client names a fence": "tests/unit/test-fenced.c",
    "the audit log does not end": "tests/unit/test-audit-log.c",
}
# A warning that no scene reaches: the process is judged before, by one of the others.
UNREACHED = "was over when the member went out"


def plain(text):
    """C without comments."""
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def sentence(found):
    return re.sub(r"%\s", "% ", "".join(re.findall(STRING, found.group())))


def of_log(text, at):
    """Is the string there the format of a warning or an error of the log?"""
    call = text[:at].rpartition("cluster_step_log")[2]
    return bool(re.match(r"\s*\(\s*c,(?!\s*CLUSTER_INFO\s*,)", call)
                and ";" not in call and " " not in "".join(re.findall(STRING, call)))


def sentences(text):
    """(sentence, is a warning of the log) of each that needs an entry here."""
    text = plain(text)
    for found in STRINGS.finditer(text):
        said = sentence(found)
        logged = of_log(text, found.start()) and len(said) > 20
        if logged or (WORDS.search(said) and " " in said):
            yield said, logged


def sources():
    for folder in ("core", "plugin", "server"):
        yield from sorted((SOURCE / folder).rglob("*.c"))


def entries(said):
    return ([part for part in DOUBTS if part in said]
            or [part for part in NO_DOUBTS if part in said])


def test_each_sentence_has_an_entry():
    missing = {f"{path.relative_to(SOURCE)}: {said}" for path in sources()
               for said, _ in sentences(path.read_text()) if not entries(said)}
    assert not missing, "\n".join(sorted(missing))


def test_each_entry_has_a_sentence():
    said = [one for path in sources() for one, _ in sentences(path.read_text())]
    assert len(said) > 100
    assert [part for part in [*DOUBTS, *NO_DOUBTS]
            if not any(part in one for one in said)] == []


def test_a_new_sentence_is_noticed():
    new = 'cluster_step_log (c, CLUSTER_WARNING, "disk", path, "Disk %s of " "node %s rusts.");'
    assert [entries(said) for said, _ in sentences(new)] == [[]]
    new = 'refuse (c, "it may have copied %" PRIu64 " bytes too few, and knows more");'
    assert [entries(said) for said, _ in sentences(new)] == [[]]


def rows():
    text = (SOURCE / "docs/PROTOCOL.md").read_text()
    table = text.split("\n| doubt | stops |")[1].split("\n\n")[0]
    return re.findall(r"^\| ([^|]*) \|", table, re.M)[1:]


def scenes():
    """(row, log) of each."""
    text = plain((SOURCE / SCENES).read_text())
    table = text.split("doubts[] = {")[1].split("\n};")[0]
    for scene in re.findall(r"\{(.*?)\}", table, re.S):
        found = [sentence(one) for one in STRINGS.finditer(scene)]
        yield found[1], found[2] if len(found) > 2 else None


def begins(row, beginnings):
    return [one for one in beginnings if row.startswith(one)]


def test_each_row_has_a_scene():
    wanted = [row for row, _ in scenes()] + list(ELSEWHERE)
    assert len(rows()) > 20
    assert [row for row in rows() if not begins(row, wanted)] == []
    assert [one for one in [*wanted, *DOUBTS.values()]
            if not any(row.startswith(one) for row in rows())] == []
    for name in ELSEWHERE.values():
        assert (SOURCE / name).exists()


def test_each_warning_has_a_scene():
    logs = [log for _, log in scenes() if log]
    doubted = {said for path in sources() for said, logged in sentences(path.read_text())
               if logged and any(part in said for part in DOUBTS) and UNREACHED not in said}
    assert len(doubted) > 6
    assert [said for said in doubted if not any(log in said for log in logs)] == []
