"""Every path that Weft's programs, scripts and units touch as root.

Topology: none; the source.
Pass:  each place where a program makes, replaces or removes something by a path, each path
       in a script, and each unit without a user of its own stands in a table here, with
       the reason why no other user can turn it into another file.
Fail:  a new one: use common/folder.h in programs, a folder of root's in scripts, a user of
       its own in units; else say here why it is safe.
"""

import os
import pathlib
import re

import pytest

SOURCE = pathlib.Path(os.environ["WEFT_SRCDIR"])

OURS = "in a folder that folder_find or mkdtemp has made ours"
NEW = "made with O_EXCL, and a rename replaces a link"
KERNEL = "the kernel's own, sysfs or a device node that root's record names"
DEV = "in /dev, which is root's"
NAMED = "removed by name, and a link itself is removed"

# The programs that root runs, and what they use of common/.
CALLS = {
    "attach/device.c": {('fopen', 'path, "we"'): KERNEL},
    "attach/weft-attach.c": {
        ("mkdir", "LINKS, 0755"): DEV, ("unlink", "temporary"): DEV,
        ("symlink", "target, temporary"): DEV, ("rename", "temporary, link"): DEV,
        ("unlink", "link"): DEV, ("unlink", "o->client_file"): NAMED,
        ("unlink", "o.client_file"): NAMED},
    "attach/weft-own-disk.c": {("chmod", "self, 0600"): "of an open descriptor",
                               ("fchownat", 'fd, "", user, (gid_t) -1, AT_EMPTY_PATH'):
                               "of an open descriptor"},
    "common/disk.c": {("open", "self, O_RDWR | O_CLOEXEC"): "of an open descriptor"},
    "common/folder.c": {
        ("mkdirat", "folder, name, 0700"): OURS, ("unlinkat", "folder, name, 0"): OURS,
        ("openat", "folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | "
         "O_CLOEXEC, mode"): OURS},
    "weftctl/cmd-backup.c": {
        ("open", "temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, "
         "0600"): NEW, ("rename", "temporary, path"): NEW,
        ("unlink", "temporary"): NAMED},
    "weftctl/cmd-report.c": {
        ("mkdtemp", "report->dir"): OURS, ("mkdir", "path, 0700"): OURS,
        ("fopen", 'path, "we"'): OURS, ("unlink", "report->part"): NAMED,
        ("open", "report->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, "
         "0600"): NEW, ("rename", "report->part, report->output"): NEW,
        ("kill", "-gatherer, signum"): "a child of its own"},
    "weftctl/config.c": {
        ("mkdirat", "at, name, 0700"): OURS,
        ("renameat", "folder, temporary, folder, file"): OURS,
        ("unlinkat", "folder, temporary, 0"): OURS, ("unlinkat", "folder, name, 0"): OURS},
    "weftctl/cmd-attach.c": {("unlinkat", 'r->lock, "nbd.sock", 0'): OURS,
                             ("unlinkat", 'r->lock, "nbdkit.pid", 0'): OURS},
    "weftctl/ctl-device.c": {
        ("kill", "pid, SIGKILL"): "a child of its own",
        ("mkdirat", 'r->lock, "mnt", 0700'): OURS,
        ("unlinkat", 'r->lock, "nbdfuse.pid", 0'): OURS,
        ("open", '"/dev/loop-control", O_RDWR | O_CLOEXEC'): KERNEL,
        ("mknod", "device, S_IFBLK | 0600, makedev (LOOP_MAJOR, (unsigned) n)"): DEV,
        ("open", "r->device, O_RDWR | O_CLOEXEC"): KERNEL,
        ("umount2", "mount, 0"): OURS},
    "weftctl/ctl-process.c": {("pidfd_send_signal", "fd, SIGTERM, NULL, 0"):
                          "a process by number and start, of a record of ours"},
    "weftctl/record.c": {
        ("mkdirat", "at, base, 0700"): OURS,
        ("renameat", 'r->lock, RECORD_FILE ".new", r->lock, RECORD_FILE'): OURS,
        ("renameat", "arrays, r->name, r->run, r->name"):
            "what is moved is looked at again: folder_enter refuses another user's",
        ("symlinkat", "target, arrays, r->name"): "a link is made, or nothing",
        ("unlinkat", "arrays, r->name, 0"): "a name in the folder of its user, and no folder",
        ("unlinkat", "r->lock, files[i], 0"): OURS,
        ("unlinkat", 'r->lock, "mnt", AT_REMOVEDIR'): OURS,
        ("unlinkat", "r->run, r->folder, AT_REMOVEDIR"): OURS},
}
# Files of common/ that only weftd or nbdkit's plugin use are not root's.
CALL = re.compile(
    r"\b(open|openat|fopen|freopen|creat|mkdir|mkdirat|mkdtemp|mkstemp|mkostemp|mkfifo|"
    r"mknod|mknodat|unlink|unlinkat|remove|rmdir|rename|renameat|link|linkat|symlink|"
    r"symlinkat|chown|lchown|fchownat|chmod|fchmodat|truncate|mount|umount|umount2|bind|"
    r"kill|pidfd_send_signal) \(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)", re.S)
READS = re.compile(r"O_CREAT|O_WRONLY|O_RDWR|O_TRUNC")


def calls(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    for m in CALL.finditer(text):
        name, words = m.group(1), re.sub(r"\s+", " ", m.group(2))
        if name in ("open", "openat") and not READS.search(words):
            continue
        if name in ("fopen", "freopen") and not re.search(r'"[wa]|\+', words):
            continue
        yield name, words


def test_calls():
    found = {str(p.relative_to(SOURCE)): set(calls(p))
             for folder in ("attach", "common", "weftctl")
             for p in (SOURCE / folder).glob("*.c")}
    assert {f: c for f, c in found.items() if c} == {
        f: set(c) for f, c in CALLS.items()}


# Folders and files of root's, in which nobody else may write.
PATHS = {
    "weft-enroll": {"/dev/disk/by-id/*", "/dev/disk/by-id/nvme-eui.*",
                    "/dev/disk/by-id/wwn-*", "/dev/disk/by-partuuid/*",
                    "/dev/disk/by-path/*", "/run/systemd/system/$reads"},
    "weft-leave": {"/run/weft-leave"},
    "weft-renew": {"/run/weft-renew"},  # made by systemd or install -d, then by its user
    "weft-lib.sh": {"/run/systemd/system"},
    "weft-admin.postrm": {"/var/lib/weftd", "/var/log/weftd"},  # rm -r follows no link
    "weftctl.postrm": {"/etc/weft"},
    "weft-plugin.postinst": {"/run/systemd/system"},
    "weft-disks-generator": {"/dev/*"},
}
PATH = re.compile(r"(?<![\w$}/.*~-])/(?:run|var|tmp|etc|dev|srv|root)/[\w./*@%$-]*")


def scripts():
    names = ["systemd/weft-disks-generator", "scripts/fence_weft"]
    names += [str(p.relative_to(SOURCE)) for p in (SOURCE / "scripts").glob("weft-*")]
    names += [str(p.relative_to(SOURCE)) for p in (SOURCE / "debian").glob("*.p*")
              if p.suffix in (".postinst", ".postrm", ".preinst", ".prerm")]
    return sorted(names)


@pytest.mark.parametrize("script", scripts())
def test_scripts(script):
    """A script writes no path outside of root's; temporary files are in a folder by mktemp
    -d."""
    text = "\n".join(line for line in (SOURCE / script).read_text().splitlines()
                     if not line.lstrip().startswith("#"))
    found = set(PATH.findall(text)) - {"/dev/null"}
    assert found == PATHS.get(os.path.basename(script), set())
    assert "mktemp" not in re.sub(r"mktemp -d\b", "", text)


# Units that run as root, and lines that do.
ROOT_UNITS = {
    "weft-attach@.service.in": "makes block devices (test_calls)",
    "weft-renew-install.service.in": "writes /etc/weft, which is root's, and reads as the "
                                     "user weft-renew",
}
ROOT_LINES = {
    ("weft-disk@.service.in", "ExecStartPre=-+@pkglibexecdir@/weft-own-disk weft-disk "
     "${DISK}"): "folder_find (test_own_disk)",
    **{(f"weft-{unit}@.service.in", "ExecStartPre=+/usr/bin/nsenter -t 1 -m "
        f"@sbindir@/weft-renew --process {process}-%i"):
       "writes /etc/weft, which is root's (test_scripts)"
       for unit, process in [("disk", "disk"), ("array", "array"), ("service", "array")]},
}


def test_units():
    units = sorted((SOURCE / "systemd").glob("*.service.in"))
    texts = {u.name: u.read_text().splitlines() for u in units}
    assert {u for u, lines in texts.items()
            if not any(re.match(r"User=(?!root)", line) for line in lines)} == set(
                ROOT_UNITS)
    assert {(u, line) for u, lines in texts.items() for line in lines
            if re.match(r"Exec\w+=[-@:]*[+!]", line)} == set(ROOT_LINES)
    assert not any(re.match(r"PermissionsStartOnly|RootDirectory", line)
                   for lines in texts.values() for line in lines)


def test_sockets():
    """systemd makes a socket as root, and gives it to its owner by its path.  A unit whose
    folder is another user's therefore sets no owner."""
    others = {f[1] for line in (SOURCE / "systemd/weft-tmpfiles.conf").read_text()
              .splitlines() for f in [line.split()] if f[0] == "d" and f[3] != "root"}
    assert others == {"/run/weft"}
    for unit in (SOURCE / "systemd").glob("*.socket"):
        keys = dict(line.split("=", 1) for line in unit.read_text().splitlines()
                    if "=" in line and not line.startswith("#"))
        assert os.path.dirname(keys["ListenStream"]) in others
        assert not {"SocketUser", "SocketGroup", "Symlinks", "ExecStartPost",
                    "ListenFIFO"} & set(keys)


# Texts that root's scripts take from weftd's answers, or from a disk, as they are.  A wrong
# weftd may put a line break or a shell's character into any of them.
SHOWN = "shown, on one line and without control characters (say, die)"
COMPARED = "only compared with words of the script"
CHECKED = "checked by is_uuid before it is used"
SIGNED = "a file of its own, whose signature is checked before it is used"
PROBED = "weftctl's own words about a disk of this host: a kind, UUIDs; or shown"
ANSWERS = {
    ("weft-enroll", '".disks[0].$1 // empty"'): PROBED,
    ("weft-enroll", '.'): "a disk's name by the administrator, as JSON",
    ("weft-enroll", '.ca'): SIGNED,
    ("weft-leave", "'if .allowed then \"yes\" else .code // \"no\" end'"): COMPARED,
    ("weft-leave", '.why'): SHOWN,
    ("weft-leave", "'.lines[]?'"): SHOWN,
    ("weft-leave", "'.why // \"weftd did not agree\"'"): SHOWN,
    ("weft-lib.sh", '.role'): COMPARED,
    ("weft-lib.sh", "'.detail? // .title? // empty'"): SHOWN,
    ("weft-lib.sh", '.certificate'): SIGNED,
    ("weft-renew", '.ca'): SIGNED,
    ("weft-renew", '.crl'): SIGNED,
    ("weft-renew", '.renew'): COMPARED,
    ("weft-replace-disk", '.disk'): CHECKED,
    ("weft-replace-disk", "'.node + \":\" + .path'"): SHOWN,
    ("weft-replace-disk", "'.disks[0].uuid // empty'"): PROBED,
}
# Other captures of what weftctl or curl prints.
CAPTURES = {
    ("fence_weft", "ctl node show"): COMPARED,
    ("fence_weft", "ctl node ls"): "the list for pacemaker, whose names weftctl has struck",
    ("weft-enroll", "curl -sS --noproxy"): "curl's own numbers: the status, an address",
    ("weft-lib.sh", "weftctl_here whoami --json"): "taken apart by jq, above",
}
JQ = re.compile(r"\bjq (?!-n )(?:-\w+ )*('[^']*'|\"[^\"]*\"|[^\s)\"]+)")
# A question by jq -e without r or j, or JSON that stays in a file.
ASKED = re.compile(r"\bjq (-e )?'(any\(|\.state ==|\.members\[\] \|)")


def test_answers():
    found, captured = set(), set()
    for script in scripts():
        name, text = os.path.basename(script), (SOURCE / script).read_text()
        text = re.sub(r"^\s*#.*$", "", text, flags=re.M).replace("\\\n", "")
        for m in JQ.finditer(text):
            line = text[text.rindex("\n", 0, m.start()):m.start()]
            if not ASKED.match(m.group(0)) and " need " not in f" {line.strip()}":
                found.add((name, m.group(1)))
        captured |= {(name, " ".join(c.split()[:3])) for c in re.findall(
            r"\$\(((?:weftctl_here|ctl|curl)\b[^()|]*)\)", text)}
    assert found == set(ANSWERS)
    assert captured == set(CAPTURES)
    # say prints one line of plain text, and die prints by say.
    lib = (SOURCE / "scripts/weft-lib.sh").read_text()
    assert "tr '\\n' ' ')\" | plain" in lib.split("say ()")[1].split("}")[0]
    assert 'say "$*" >&2' in lib.split("die ()")[1].split("}")[0]
    replace = (SOURCE / "scripts/weft-replace-disk").read_text()
    assert re.search(r'holder=\$\(jq -r \.disk .*\n(.*\n)*?  is_uuid "\$holder" \|\|',
                     replace)
