"""The Debian packages: well made, installed, and a cluster run from them.

Topology of the cluster: hosts w (weftd and two disks) and n (two disks), each a
container with its own systemd and network; TLS between them.
Cause: nothing but the packages' own programs and units is used, each as the
manual says; then processes are killed, and weftd hangs.
Pass: Data written to the array comes back; a process that died or hung is started again;
removed packages leave nothing.
"""

import json
import os
import re
import time

import pytest

from wefttest import digest, eventually, run

pytestmark = pytest.mark.timeout(1800)
PASSWORD = "nine wet weavers"
ARRAY = "nbd+unix:///?socket=/run/weft/a.sock"


def test_lintian(packages):
    changes = next(packages.glob("*.changes"))
    run("lintian", "--allow-root", "--fail-on", "error,warning", changes, timeout=300)


def test_units(host):
    """systemd finds nothing to complain of, and confines each service."""
    h = host("u")
    units = h.run("sh", "-c", "dpkg -L weft-admin weft-plugin weftctl | "
                  "grep -E '^(/usr)?/lib/systemd/system/.'").stdout.split()
    assert len(units) >= 8
    names = [re.sub("@", "@x", u.rsplit("/", 1)[1]) for u in units]
    p = h.run("systemd-analyze", "verify", "--man=no", *names)
    assert p.stdout + p.stderr == ""
    for name in names:
        if name.startswith(("weft-disk@", "weft-array@x.serv", "weft-serv", "weftd",
                            "weft-renew.serv", "weft-renew-install.serv")):
            p = h.run("systemd-analyze", "security", "--offline=true",
                      "--threshold=40", name)
            assert p.returncode == 0, p.stdout


def users_of(h, unit):
    """Its process's user, and all its groups."""
    status = h.run("cat", f"/proc/{h.main_pid(unit)}/status").stdout
    ids = dict(re.findall(r"^(Uid|Gid|Groups):(.*)$", status, re.MULTILINE))

    def names(database, numbers):
        return {h.run("getent", database, n).stdout.split(":")[0]
                for n in set(numbers)}

    [user] = names("passwd", ids["Uid"].split())
    return user, names("group", ids["Gid"].split() + ids["Groups"].split())


def may_read(h, user, path):
    return h.run("runuser", "-u", user, "--", "head", "-c", "1", path,
                 check=False).returncode == 0


def check_confined(h):
    """Disks and arrays are different users, and have what is theirs."""
    for disk in ("d0", "d1"):
        unit = f"weft-disk@{disk}"
        user, groups = users_of(h, unit)
        assert user == "weft-disk" and groups == {"weft-disk"}
        shown = dict(line.split("=", 1) for line in h.run(
            "systemctl", "show", "-p", "DevicePolicy,DeviceAllow,ReadWritePaths,"
            "LimitNOFILE,MemoryMax,TasksMax", unit).stdout.splitlines())
        assert shown["DevicePolicy"] == "closed"
        assert not shown.get("DeviceAllow")
        assert shown["ReadWritePaths"] == f"-/disks/{disk}"
        assert shown["LimitNOFILE"] == "65536" and shown["TasksMax"] == "4096"
        assert shown["MemoryMax"].isdigit()
        assert may_read(h, "weft-disk", f"/disks/{disk}")
        assert not may_read(h, "weft", f"/disks/{disk}")
    shown = h.run("systemctl", "show", "-p", "CPUWeight", "weftd").stdout
    assert shown.strip() == "CPUWeight=10"
    check_keys(h)


KEYS = {"tls": "weft-renew", "processes/disk-d0/tls": "weft-disk",
        "processes/array-a/tls": "weft"}


def check_keys(h):
    """Each key is one user's, and each process sees its own alone."""
    for folder, owner in KEYS.items():
        if h.run("test", "-d", f"/etc/weft/{folder}", check=False).returncode:
            continue  # the array is on one host
        for user in ("weft", "weft-disk", "weft-renew", "weftd", "nobody"):
            for end in ("client", "server"):
                assert may_read(h, user, f"/etc/weft/{folder}/{end}-key.pem") == \
                    (user == owner), (folder, user)
            assert may_read(h, user, f"/etc/weft/{folder}/ca-cert.pem")
    for unit in ("weft-disk@d0", "weft-disk@d1", "weft-array@a.service"):
        pid = h.main_pid(unit)
        if pid == 0:
            continue
        process = unit.removeprefix("weft-").removesuffix(".service").replace("@", "-")
        assert uses(h, pid) == f"/etc/weft/processes/{process}/tls"
        assert h.run("nsenter", "-t", pid, "-m", "ls",
                     "/etc/weft/processes").stdout.split() == [process]


def uses(h, pid):
    """The folder of the certificate that the process shows."""
    # Until it runs nbdkit, it has the environment of systemd, which calls it (nbdkit).
    eventually(lambda: "admin=" in h.run("cat", f"/proc/{pid}/cmdline").stdout, 60)
    text = h.run("cat", f"/proc/{pid}/environ").stdout
    return dict(x.partition("=")[::2] for x in text.split("\0"))["WEFT_TLS"]


def test_generator(host):
    """A line for each disk; names that are odd; nothing for what names no disk."""
    h = host("u")
    h.run("sh", "-c", """cd /etc/weft/disks && rm -f ./*
        echo 'DISK=/dev/disk/by-id/virtio-one' >a.conf
        printf 'PORT=1\nDISK="/srv/50%% of a disk"\n' >b.conf
        echo 'PORT=7' >c.conf
        printf 'ADDRESS=::1\nPORT=2\nURI=nbds://[::1]:2\nDISK=/dev/null\n' >d.conf
        echo "DISK='/srv/a disk'" >e.conf
        ln -s /dev/null /srv/link && echo 'DISK=/srv/link' >f.conf
        printf 'WEFT_ADMIN=https://x\nWEFT_TLS=/x\nWEFT_NODE=u\n' >../weft.conf
        systemctl daemon-reload""")

    def shown(what, name):
        return h.run("systemctl", "show", "--value", "-p", what,
                     f"weft-disk@{name}").stdout.strip().strip('"')

    assert shown("DeviceAllow", "a") == "/dev/disk/by-id/virtio-one rw"
    assert shown("ReadWritePaths", "a") == ""
    assert shown("ReadWritePaths", "b") == "-/srv/50% of a disk"
    assert shown("DeviceAllow", "b") == shown("ReadWritePaths", "c") == ""
    assert shown("DeviceAllow", "d") == "/dev/null rw"
    assert shown("ReadWritePaths", "e") == "-/srv/a disk"
    assert shown("ReadWritePaths", "f") == "-/srv/link"
    assert shown("DeviceAllow", "f") == "/dev/null rw"


def test_an_earlier_version(host):
    """Where arrays had all disks of the host, by a group, the upgrade takes it."""
    h = host("u")
    h.run("sh", "-c", "gpasswd -a weft disk && userdel weft-disk && "
          "touch /srv/d && chgrp weft /srv/d && chmod 660 /srv/d")
    assert "disk" in h.run("id", "-nG", "weft").stdout.split()
    h.run("sh", "-c", "dpkg -i /root/weftctl_*.deb /root/weft-plugin_*.deb")
    assert "disk" not in h.run("id", "-nG", "weft").stdout.split()
    assert h.run("id", "-nG", "weft-disk").stdout.split() == ["weft-disk"]


def start_weftd(w):
    w.write("/etc/weft/weftd.conf",
            "WEFTD_OPTIONS=--listen 127.0.0.1:7380 "
            f"--listen {w.address}:7380\n")
    w.run("systemctl", "restart", "weftd")
    w.write("/root/password", PASSWORD + "\n", 0o600)
    w.run("weftctl", "setup", "ann", "--url-file", "/var/lib/weftd/setup-url",
          "--password-file", "/root/password")
    login(w)


def login(w):
    w.run("weftctl", "login", "--user", "ann", "--password-file",
          "/root/password")


def enroll(w, h, disks):
    token = json.loads(w.run("weftctl", "node", "token", "--json").stdout)
    h.write("/root/token", token["token"] + "\n", 0o600)
    words = []
    for disk in disks:
        empty(h, disk)
        words += ["--disk", f"/disks/{disk}"]
    words = ["weft-enroll", "--admin", f"https://{w.address}:7380",
             "--ca-fingerprint", token["ca_fingerprint"], "--token-file",
             "/root/token", "--yes", *words]
    p = h.run(*words)
    assert f"weftd sees the disks of node {h.name}" in p.stdout
    assert "nothing to do" in h.run(*words).stdout


def round_trip(w, scratch):
    size = int(w.run("nbdinfo", "--size", ARRAY).stdout)
    data = scratch / "data"
    data.write_bytes(os.urandom(1 << 20) * 24 + bytes(size - (24 << 20)))
    os.rename(data, w.disks / "data")
    w.run("nbdcopy", "--flush", "/disks/data", ARRAY)
    return digest(w.disks / "data")


def read_back(w):
    w.run("nbdcopy", ARRAY, "/disks/back")
    return digest(w.disks / "back")


def in_sync(w):
    p = w.run("weftctl", "array", "show", "a", "--json", check=False)
    return p.returncode == 0 and {
        m["state"] for m in json.loads(p.stdout)["members"]} == {"in-sync"}


AWKWARD = "50%n %%i \"$HOME\" \\x20 'x'=;#é"


def awkward_name(n):
    """systemd reads it as it was written, before the disk is formatted and after."""
    empty(n, AWKWARD)
    n.run("weft-enroll", "--disk", f"/disks/{AWKWARD}", "--yes")
    [unit] = [u for u in n.run("systemctl", "list-units", "--plain", "--no-legend",
                               "weft-disk@*").stdout.split()
              if u.startswith("weft-disk@") and "home" in u]
    n.run("systemctl", "disable", "--now", unit)
    assert "weft-name-check" not in n.run("ls", "/run/systemd/system").stdout


def late_addresses(w, n):
    """After a power cut addresses may come later than all that waits for them: longer than
    systemd tries where it gives up (six starts in 10 s)."""
    for h in (w, n):
        h.network.ip(h.name, "addr", "del", f"{h.address}/24", "dev", "eth0")
    w.run("systemctl", "restart", "weftd", "weft-disk@d0", "weft-disk@d1")
    n.run("systemctl", "restart", "weft-disk@d0", "weft-disk@d1")
    eventually(lambda: int(n.run("systemctl", "show", "--value", "-p", "NRestarts",
                                 "weft-disk@d0").stdout) > 6, 60, every=1)
    for h in (w, n):
        h.network.ip(h.name, "addr", "add", f"{h.address}/24", "dev", "eth0")
    eventually(lambda: in_sync(w), 60, every=1, what="all in-sync")
    assert "does not have the address" in w.journal("weftd")


def nothing_to_serve(w):
    """systemctl start fails, and says why."""
    for unit, why in [("weft-service@none", "/etc/weft/services/none.conf"),
                      ("weft-disk@none", "/etc/weft/disks/none.conf"),
                      ("weft-array@none", "there is no array none")]:
        p = w.run("systemctl", "start", f"{unit}.service", check=False)
        assert p.returncode != 0, unit
        assert why in w.journal(f"{unit}.service") + p.stderr, (unit, p.stderr)
    w.run("systemctl", "stop", "weft-array@none.service", "weft-array@none.socket")


def empty(h, disk):
    (h.disks / disk).unlink(missing_ok=True)
    with open(h.disks / disk, "wb") as f:
        f.truncate(64 << 20)


def replace_disk(w, n):
    """n's second disk is lost, and another one takes its place, then one at the same path; the
    host's other units and files are as before.  Then n's certificate is renewed, and its disks
    are started with the new one."""
    token = json.loads(w.run("weftctl", "token", "add", "n", "--role", "admin",
                             "--json").stdout)["token"]
    n.write("/root/admin", token + "\n", 0o600)

    def replace(disk, **kw):
        return n.run("weft-replace-disk", "--array", "a", "--member", "3", "--disk",
                     f"/disks/{disk}", "--yes",
                     env={"WEFT_TOKEN_FILE": "/root/admin"}, timeout=180, **kw)

    def active(disk):
        return n.run("systemctl", "is-active", f"weft-disk@{disk}",
                     check=False).stdout.strip()

    # It is enabled, and was stopped for a reason.
    empty(n, "d9")
    n.run("weft-enroll", "--disk", "/disks/d9", "--yes")
    n.run("systemctl", "stop", "weft-disk@d9")
    empty(n, "d2")
    p = replace("d2", check=False)
    assert p.returncode == 3 and "stop weft-disk@d1.service there" in p.stderr, p
    n.run("systemctl", "stop", "weft-disk@d1")
    eventually(lambda: not in_sync(w), 60, every=1, what="a member to be out")
    p = replace("d2")
    assert "d1.conf is removed" in p.stdout
    assert in_sync(w)

    # Its process has the file that was there before, and answers.
    empty(n, "d2")
    p = replace("d2", check=False)
    assert p.returncode == 3 and "stop weft-disk@d2.service there" in p.stderr, p
    n.run("systemctl", "stop", "weft-disk@d2")
    eventually(lambda: not in_sync(w), 60, every=1, what="a member to be out")
    eventually(lambda: replace("d2", check=False).returncode == 0, 180, every=1)
    assert in_sync(w)
    time.sleep(2)
    assert in_sync(w) and active("d2") == "active"
    assert active("d9") == active("d1") == "inactive"
    n.run("systemctl", "disable", "weft-disk@d9")

    pids = {d: n.main_pid(f"weft-disk@{d}") for d in ("d0", "d2")}
    p = n.run("weft-renew", "--now", timeout=180)
    assert "a new certificate" in p.stdout
    # Nothing is started again for that (test_tls_life.py: and yet it is shown).
    assert all(n.main_pid(f"weft-disk@{d}") == pids[d] for d in pids)
    assert in_sync(w)
    renewal(w, n)


def certificate(n):
    return n.run("cat", "/etc/weft/tls/server-cert.pem").stdout


def renewal(w, n):
    """The user weft-renew gets the certificate; root looks at it before it is in place."""
    n.run("systemctl", "start", "weft-renew")
    assert n.run("systemctl", "show", "--value", "-p", "User",
                 "weft-renew").stdout.strip() == "weft-renew"
    # A list that is lost is got by the unit.
    n.run("sh", "-c", "rm /etc/weft/tls/ca-crl.pem")
    n.run("systemctl", "start", "weft-renew")
    n.run("grep", "-q", "X509 CRL", "/etc/weft/tls/ca-crl.pem")
    before = n.run("sh", "-c", "cat /etc/weft/tls/*").stdout
    key = "openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out"
    copy = "cp /etc/weft/tls/ca-* /etc/weft/tls/server-* making"
    other = w.run("sh", "-euc", f"""
        {key} /root/other.pem; cat /root/other.pem
        openssl req -new -subj /CN=other -addext subjectAltName=DNS:other \\
          -key /root/other.pem |
          openssl x509 -req -copy_extensions copy -days 1 -set_serial 1 \\
          -CA /var/lib/weftd/ca-cert.pem -CAkey /var/lib/weftd/ca-key.pem""").stdout
    n.write("/tmp/other.pem", other)

    def handed(hostile, why):
        said = len(n.journal("weft-renew-install"))
        n.run("runuser", "-u", "weft-renew", "--", "sh", "-euc",
              "cd /run/weft-renew; rm -rf making; mkdir making; " + hostile +
              "; mv -T making new")
        eventually(lambda: n.run("test", "-e", "/run/weft-renew/new",
                                 check=False).returncode != 0, 60, every=0.2,
                   what="what was handed over to be looked at")
        eventually(lambda: why in n.journal("weft-renew-install")[said:], 30, every=0.2,
                   what=f"{why!r} to be said")

    for hostile, why in [
            # A CA and certificate of its own.
            (f"{copy}; {key} making/server-key.pem; openssl req -x509 -new -subj /CN={n.name}"
             f" -addext subjectAltName=DNS:{n.name} -key making/server-key.pem"
             " -out making/server-cert.pem; cp making/server-cert.pem making/ca-cert.pem",
             "both new"),
            # A CA of its own, which did not sign the certificate.
            (f"{copy}; {key} k; openssl req -x509 -new -subj /CN=ca -key k"
             " -out making/ca-cert.pem", "not of its CA"),
            (f"{copy}; {key} making/server-key.pem", "another key"),
            # Another node's, of the real CA.
            (f"{copy}; cp /tmp/other.pem making/server-key.pem;"
             " openssl x509 -in /tmp/other.pem -out making/server-cert.pem",
             f"is not for node {n.name}"),
            (f"{copy}; rm making/ca-crl.pem", "cannot be read"),
            (f"{copy}; ln -sf /etc/shadow making/server-key.pem", "cannot be read"),
            ("ln -s /etc/shadow making/ca-crl.pem", "cannot be read"),
            ("cp /etc/passwd making/ca-crl.pem", "no list of what is revoked"),
            ("mkfifo making/ca-crl.pem", "cannot be read")]:
        handed(hostile, why)
        assert n.run("sh", "-c", "cat /etc/weft/tls/*").stdout == before, hostile
    renewal_of_a_process(n, handed)


def renewal_of_a_process(n, handed):
    """Root makes a folder for a process; the certificate there is for what the process serves,
    and nothing else."""
    own = "/etc/weft/processes/disk-d0/tls"
    before = n.run("sh", "-c", f"cat {own}/*").stdout
    folders = n.run("ls", "/etc/weft/processes").stdout
    assert "disk-d0\ndisk-d2\n" in folders and "disk-d1\n" not in folders
    copy = f"cp {own}/server-cert.pem making; cp /tmp/own-key.pem making/server-key.pem"
    n.run("sh", "-c", f"install -m 444 {own}/server-key.pem /tmp/own-key.pem")
    for hostile, why in [
            (f"{copy}; echo disk-d2 >making/process", "is not for disk:"),
            (f"{copy}; echo array-new >making/process", "no process of this host"),
            (f"{copy}; echo ../../tls >making/process", "no process of this host"),
            (f"{copy}; : >making/process", "is empty"),
            ("cp /etc/weft/tls/server-cert.pem making; cp /tmp/own-key.pem "
             "making/server-key.pem; echo disk-d0 >making/process", "is not for disk:"),
            ("cp /tmp/other.pem making/server-key.pem; echo disk-d0 >making/process;"
             " openssl x509 -in /tmp/other.pem -out making/server-cert.pem",
             "is not for node n")]:
        handed(hostile, why)
        assert n.run("sh", "-c", f"cat {own}/*").stdout == before, hostile
    assert n.run("ls", "/etc/weft/processes").stdout == folders


def earlier_keys(w, n):
    """On a node of an earlier version all processes had the node's key.  They go on, and get
    certificates of their own when they are started again; then they can no longer read the
    node's key."""
    units = ["weft-disk@d0", "weft-disk@d2"]
    n.run("systemctl", "stop", *units)
    n.run("sh", "-ec", """usermod -aG weft weft-disk; usermod -aG weft weft-renew
        chgrp -R weft /etc/weft/tls/; chmod 750 /etc/weft/tls/; chmod 640 /etc/weft/tls/*
        rm -rf /etc/weft/processes/*""")
    w.run("systemctl", "stop", "weftd")
    n.run("systemctl", "start", *units)
    assert {uses(n, n.main_pid(u)) for u in units} == {"/etc/weft/tls"}
    w.run("systemctl", "start", "weftd")
    eventually(lambda: in_sync(w), 60, every=1, what="all in-sync")
    p = n.run("weft-renew", "--now", timeout=180)  # they read the next key, too
    assert "weft-renew --separate" in p.stdout
    n.run("systemctl", "restart", "weft-disk@d0")
    assert uses(n, n.main_pid("weft-disk@d0")) == "/etc/weft/processes/disk-d0/tls"
    eventually(lambda: in_sync(w), 60, every=1, what="all in-sync")
    p = n.run("weft-renew", "--separate", check=False)
    assert p.returncode == 3 and "weft-disk@d2.service was started by" in p.stderr, p
    assert may_read(n, "weft", "/etc/weft/tls/client-key.pem")
    n.run("systemctl", "restart", "weft-disk@d2")
    eventually(lambda: in_sync(w), 60, every=1, what="all in-sync")
    before = certificate(n)
    n.run("weft-renew", "--separate", timeout=180)
    assert certificate(n) != before
    assert n.run("id", "-nG", "weft-disk").stdout.split() == ["weft-disk"]
    check_keys(n)
    n.run("systemctl", "start", "weft-renew")
    n.run("systemctl", "restart", *units)
    eventually(lambda: in_sync(w), 60, every=1, what="all in-sync")
    check_keys(n)


def test_cluster(host, tmp_path):
    w, n = host("w"), host("n")
    start_weftd(w)
    enroll(w, w, ["d0", "d1"])
    login(w)  # weftctl is a node's now, and talks to weftd as other hosts do
    enroll(w, n, ["d0", "d1"])
    w.run("weftctl", "array", "create", "a", "--layout", "raid-x", "--disk",
          "w:/disks/d0", "--disk", "n:/disks/d0", "--disk", "w:/disks/d1",
          "--disk", "n:/disks/d1", "--unit", "64K", "--force",
          "--yes")  # two hosts can't have both copies of all
    w.run("systemctl", "enable", "--now", "weft-array@a.socket")
    wanted = round_trip(w, tmp_path)
    for h in (w, n):
        check_confined(h)
    assert w.run("stat", "-c", "%U:%G:%a", "/run/weft/a.sock", "/run/weft").stdout \
        .split() == ["root:disk:660", "weft:disk:2755"]
    user, groups = users_of(w, "weft-array@a.service")
    assert user == "weft" and groups == {"weft"}
    assert read_back(w) == wanted

    # A disk's process, and then the array's, is killed: systemd starts both again.
    for h, unit in [(n, "weft-disk@d0"), (w, "weft-array@a.service")]:
        h.kill(unit, "KILL")
    assert eventually(lambda: read_back(w) == wanted, 60)
    eventually(lambda: in_sync(w), 60, every=1, what="all in-sync")

    late_addresses(w, n)
    nothing_to_serve(w)
    awkward_name(n)
    replace_disk(w, n)
    assert read_back(w) == wanted
    earlier_keys(w, n)
    assert read_back(w) == wanted

    # weftd hangs: it is noticed, and started again; nobody is worse for it.
    pid = w.kill("weftd", "STOP")
    eventually(lambda: w.main_pid("weftd") not in (0, pid), 120, every=1,
               what="the watchdog to bite")
    assert "watchdog" in w.journal("weftd").lower()
    eventually(lambda: in_sync(w), 60, every=1, what="all in-sync")
    assert read_back(w) == wanted


def test_removal(host):
    h = host("r")
    h.run("systemctl", "stop", "weft.target", "weftd")
    h.run("apt-get", "-q", "-y", "purge", "weft-admin", "weft-plugin", "weftctl",
          timeout=300)
    left = h.run("sh", "-c", "find / -xdev -name '*weft*' "
                 "! -path '/proc/*' ! -path '/root/*' ! -path '/var/cache/*' "
                 "! -path '/var/lib/dpkg/*' ! -path '/var/log/*' "
                 "! -path '/var/lib/systemd/*' ! -path '/run/*' "
                 "! -path '/sys/*' ! -path '/var/lib/apt/*'").stdout.split()
    assert left == []
