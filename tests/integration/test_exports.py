"""Which clients are admitted at an array's export that other hosts reach.

Topology: weftd and nodes that have enrolled, each in a network namespace of its own, with
      TLS.  n1 and n2 have the disks of array a, n3 has none; n1 exports the array to
      other hosts.  They have a pool p as well, which n1 exports at another port.
Cause: NBD clients that are not Weft's own connect from n3, with its certificate and what
      else they have; the array's list changes, n3 is fenced or revoked.
Pass: they do what the array's list allows n3, and nothing else, at most 5 s after it was
      changed, on connections that are open and on new ones; n2's connection goes on.
"""

import time

import pytest

from enrollworld import World
from strangers import Client
from wefttest import Stopwatch, eventually

BOUND_S = 5
PORT = 10809
POOL_PORT = 10900
# The errors of a reader that writes anyway.  nbdkit refuses the write, and loses its place in
# the stream of TLS: then libnbd's error says where the connection broke.
NOT_WRITTEN = ("EPERM", "ENOTCONN", "failed")

# Each input line is an order for the open connection, or for a new one.
CLIENT = """
import nbd, sys
uri, tls = sys.argv[1:]
def connect():
    h = nbd.NBD()
    h.set_tls_certificates(tls)
    h.set_tls_verify_peer(True)
    h.set_strict_mode(0)
    h.connect_uri(uri)
    return h
h = None
for line in sys.stdin:
    what = line.strip()
    try:
        if what == "connect":
            h = connect()
            said = "ro" if h.is_read_only() else "rw"
        elif what == "list":
            h = nbd.NBD()
            h.set_opt_mode(True)
            h.set_tls_certificates(tls)
            h.set_tls_verify_peer(True)
            h.connect_uri(uri)
            names = []
            h.opt_list(lambda name, text: names.append(name))
            said = ",".join(names)
        elif what == "read":
            h.pread(4096, 0)
            said = "done"
        elif what == "write":
            h.pwrite(b"x" * 4096, 0)
            h.flush()
            said = "done"
        elif what == "gone":  # without asking for anything
            if not (h.aio_is_dead() or h.aio_is_closed()):
                h.poll(0)
            said = str(h.aio_is_dead() or h.aio_is_closed())
    except nbd.Error as e:
        said = e.errno or "failed"
    print(said, flush=True)
"""

# A reader takes every place that it gets, then asks for much more than it reads.
GREEDY = CLIENT.replace("h = None", "held, buffers = [], []").replace(
    """        elif what == "read":""", """        elif what == "many":
            try:
                while len(held) < 600:
                    held.append(connect())
            except nbd.Error:
                pass
            said = str(len(held))
        elif what == "pin":
            for h in held[:8]:
                for _ in range(16):
                    buffers.append(nbd.Buffer(min(h.get_size(), 32 << 20)))
                    h.aio_pread(buffers[-1], 0)
            said = "done"
        elif what == "read":""")
# The bounds for one node's readers, and for one node (plugin/lobby.h, plugin/budget.h).
READERS_PLACES = 64
NODE_BYTES = 64 << 20
# Stacks of the threads that 64 connections have, what GnuTLS and the heap keep.
BESIDE_BYTES = 96 << 20


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("exports")) as w:
        w.n1, w.n2 = (w.serving(n, "d0", "d1") for n in ("n1", "n2"))
        w.ctl("array", "create", "a", "--layout", "raid-1", "--yes", *[
            x for n in (w.n1, w.n2) for x in ("--disk", f"{n.name}:{n.disk('d0')}")])
        w.ctl("array", "create", "p", "--layout", "raid-1", "--pool", "--yes", *[
            x for n in (w.n1, w.n2) for x in ("--disk", f"{n.name}:{n.disk('d1')}")])
        w.ctl("volume", "create", "p/v", "4M")
        w.n3 = w.node("n3")
        w.enroll(w.n3)
        begin(w)
        yield w


@pytest.fixture
def clients(world):
    """They end with the test, and the list is as at the beginning."""
    made = []

    def client(node, uri=None, tls=None):
        made.append(Client(node, CLIENT, uri or door(world),
                           str(tls or node.etc / "tls")))
        return made[-1]
    yield client
    for c in made:
        c.end()
    world.ctl("node", "fence", "off", "n3", "--yes", check=False)
    world.ctl("array", "deny", "a", "n3", "--yes")


def begin(w, *options, node=None, words=("array=a",), name="export", port=PORT):
    """Its process on n1, as an administrator starts one for other hosts."""
    node = node or w.n1
    tls = node.settings(node.conf)["WEFT_TLS"]
    pid = node.dir / f"{name}.pid"
    pid.unlink(missing_ok=True)
    node.popen(name, "nbdkit", "-f", "-P", str(pid), "-i", node.address, "-p",
               str(port), "--tls=require", "--tls-verify-peer",
               f"--tls-certificates={tls}", *options, "weft", *words,
               f"admin={w.admin}", f"node={node.name}", f"tls={tls}",
               f"uri=nbds://{node.address}:{port}")
    eventually(pid.exists, 40, what=f"{node.log(name)[-800:]}")


def door(w):
    return f"nbds://{w.n1.address}:{PORT}/a"


def allow(w, node, *words):
    w.ctl("array", "allow", "a", node, *words, "--yes")


def ends_soon(since, *clients):
    """The connection, which asks for nothing meanwhile."""
    for c in clients:
        eventually(lambda: c.ask("gone") == "True", BOUND_S)
        assert c.ask("read") != "done" and c.ask("write") != "done"
    assert since.seconds() < BOUND_S


def test_a_node_without_a_right(world, clients):
    """An enrolled node, with a certificate of the cluster, has no right yet; and the log says
    how to give it."""
    stranger = clients(world.n3)
    assert stranger.ask("connect") not in ("rw", "ro")
    said = world.n1.log("export")
    assert "a client on node n3 is refused: its node may not use array a" in said
    assert "weftctl array allow a n3" in said
    # The other export's name is no way round.
    assert clients(world.n3, door(world)[:-1]).ask("connect") not in ("rw", "ro")
    allow(world, "n3")
    eventually(lambda: stranger.ask("connect") == "rw", BOUND_S)
    assert stranger.ask("write") == stranger.ask("read") == "done"


def test_a_node_that_may_read(world, clients):
    allow(world, "n3", "ro")
    reader = clients(world.n3)
    eventually(lambda: reader.ask("connect") == "ro", BOUND_S)
    assert reader.ask("read") == "done"
    assert reader.ask("write") in NOT_WRITTEN


def test_the_nodes_of_the_disks(world, clients):
    """And so does a client with the own address of the exporting node."""
    for n in (world.n1, world.n2):
        c = clients(n)
        assert c.ask("connect") == "rw" and c.ask("write") == "done"


@pytest.mark.parametrize("change", [("deny", "a", "n3"), ("allow", "a", "n3", "ro")])
def test_the_list_shrinks(world, clients, change):
    allow(world, "n3")
    c, idle, other = clients(world.n3), clients(world.n3), clients(world.n2)
    for x in (c, idle, other):
        eventually(lambda: x.ask("connect") == "rw", BOUND_S)
    # The command shows the cost first, and acts only after a yes.
    p = world.ctl("array", *change, check=False)
    assert p.returncode != 0 and "on node n1, which exports it, are cut off" in p.stdout
    assert c.ask("write") == "done"
    since = Stopwatch(disk=True)
    world.ctl("array", *change, "--yes")
    ends_soon(since, idle, c)
    if change[0] == "deny":
        assert c.ask("connect") not in ("rw", "ro")
    else:
        assert c.ask("connect") == "ro" and c.ask("read") == "done"
        assert c.ask("write") in NOT_WRITTEN
    assert other.ask("write") == other.ask("read") == "done"


def test_fenced(world, clients):
    """When the order is answered, nothing of the node is carried out."""
    allow(world, "n3")
    c, other = clients(world.n3), clients(world.n2)
    for x in (c, other):
        eventually(lambda: x.ask("connect") == "rw", BOUND_S)
    world.ctl("node", "fence", "on", "n3", "--yes")
    assert c.ask("write") != "done"
    assert c.ask("connect") not in ("rw", "ro")
    assert "its node is fenced" in world.n1.log("export")
    assert other.ask("write") == "done"
    world.ctl("node", "fence", "off", "n3", "--yes")
    eventually(lambda: c.ask("connect") == "rw", BOUND_S)


def test_revoked(world, clients):
    """It is in the list still; its certificate is not believed."""
    n4 = world.node("n4")
    world.enroll(n4)
    allow(world, "n4")
    c = clients(n4)
    eventually(lambda: c.ask("connect") == "rw", BOUND_S)
    since = Stopwatch(disk=True)
    world.ctl("node", "revoke", "n4", "--yes")
    ends_soon(since, c)
    assert c.ask("connect") not in ("rw", "ro")
    world.ctl("array", "deny", "a", "n4", "--yes")


def test_the_name_is_the_certificate_s(world, clients):
    """A service client's name counts for nothing at a process that serves no service."""
    own = f"{door(world)[:-2]}/data/0000000000000000/n2/{'0' * 32}/1/0"
    assert clients(world.n3, own).ask("connect") not in ("rw", "ro")


def test_weftd_is_killed(world, clients):
    """The list persists, and admitted clients go on; a right that is removed while weftd is
    away is gone when weftd is back."""
    allow(world, "n3")
    c = clients(world.n3)
    eventually(lambda: c.ask("connect") == "rw", BOUND_S)
    world.w.end("weftd", 9)
    assert c.ask("write") == "done"
    other = clients(world.n2)
    assert other.ask("connect") == "rw"
    world.start_weftd()
    assert c.ask("write") == "done"
    eventually(lambda: world.json("session", "ls")["sessions"])
    since = Stopwatch(disk=True)
    world.ctl("array", "deny", "a", "n3", "--yes")
    ends_soon(since, c)
    assert other.ask("write") == "done"


def test_programs_of_others(world, clients):
    """By an NBD URI with the folder of their node's certificate."""
    uri = f"{door(world)}?tls-certificates={world.n3.etc}/tls"
    copy = world.n3.dir / "copy.qcow2"
    qemu = ["qemu-img", "convert", "-O", "qcow2", "--image-opts", "--object",
            f"tls-creds-x509,id=t,dir={world.n3.etc}/tls,endpoint=client",
            f"driver=nbd,host={world.n1.address},port={PORT},tls-creds=t", str(copy)]
    for words in (["nbdinfo", "--size", uri], qemu):
        assert world.n3.run(*words, check=False).returncode != 0
    allow(world, "n3", "ro")
    eventually(lambda: world.n3.run("nbdinfo", "--size", uri, check=False)
               .returncode == 0, BOUND_S)
    p = world.n3.run("nbdinfo", uri)
    assert "is_read_only: true" in p.stdout
    world.n3.run(*qemu)
    assert world.n3.run("qemu-img", "info", copy).stdout.count("qcow2")


def test_a_greedy_reader(world, clients):
    """It has its part of the places and of the memory, and others go on."""
    other = clients(world.n2)
    assert other.ask("connect") == "rw"
    status = f"/proc/{(world.n1.dir / 'export.pid').read_text().strip()}/status"
    allow(world, "n3", "ro")
    greedy = Client(world.n3, GREEDY, door(world), str(world.n3.etc / "tls"))
    try:
        eventually(lambda: greedy.ask("many") == str(READERS_PLACES), BOUND_S)
        assert "read-only connections from n3" in world.n1.log("export")
        assert greedy.ask("pin") == "done"
        for _ in range(3):
            assert other.ask("write") == "done" and other.ask("read") == "done"
            time.sleep(1)
        assert clients(world.n2).ask("connect") == "rw"
        with open(status, encoding="ascii") as f:
            peak = next(int(x.split()[1]) << 10 for x in f if x.startswith("VmHWM"))
        print(f"peak {peak >> 20} MiB")
        assert peak < NODE_BYTES + BESIDE_BYTES
    finally:
        greedy.p.kill()
        greedy.end()


def test_names_of_volumes(world, clients):
    """A node hears the names of a pool's volumes if it may open them."""
    begin(world, words=("array=p",), name="pool", port=POOL_PORT)
    try:
        pool = f"nbds://{world.n1.address}:{POOL_PORT}"
        stranger = clients(world.n3, pool)
        assert clients(world.n2, pool).ask("list") == "v"
        assert stranger.ask("list") not in ("v", "")
        assert stranger.ask("connect") not in ("rw", "ro")
        said = world.n1.log("pool")
        assert said.count("a client on node n3 is refused: its node may not use array p") == 2
        world.ctl("array", "allow", "p", "n3", "ro", "--yes")
        eventually(lambda: stranger.ask("list") == "v", BOUND_S)
        world.ctl("volume", "create", "p/w", "4M")
        eventually(lambda: stranger.ask("list") == "v,w", BOUND_S)
        world.w.end("weftd", 9)
        try:
            eventually(lambda: stranger.ask("list") == "", BOUND_S)
        finally:
            world.start_weftd()
        eventually(lambda: stranger.ask("list") == "v,w", BOUND_S)
    finally:
        world.n1.end("pool")


def test_a_client_of_a_service_serves_its_own_host(world, clients):
    world.n1.end("export")
    world.ctl("array", "service", "a", "--on", "n1")
    try:
        begin(world, words=("array=a", "service=yes"))
        begin(world, node=world.n2, words=("service=a",))
        there = door(world).replace(world.n1.address, world.n2.address)
        assert clients(world.n1, there).ask("connect") not in ("rw", "ro")
        said = world.n2.log("export")
        assert "uses its service for its own host" in said
        world.n2.end("export")
        # A client at the service claims to be on another node.
        allow(world, "n3")
        service = world.json("array", "service", "a")
        session, fences = service["serving"]["session"], service["fences"]
        for node, fine in (("n2", False), ("n3", True)):
            c = clients(world.n3, f"{door(world)[:-1]}data/{session}/{node}/"
                                  f"{'1' * 32}/1/{fences}")
            eventually(lambda: (c.ask("connect") == "rw") == fine, BOUND_S)
        assert "says that it is on node n2, and has the certificate of node n3" in \
            world.n1.log("export")
    finally:
        world.n1.end("export")
        world.n2.processes.get("export") and world.n2.end("export")
        world.ctl("array", "service", "a", "--off", "--yes")
        begin(world)
