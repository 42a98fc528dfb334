"""No process ends, whatever a client sends.

Topology: a devcluster of two members and its array process.
Cause:    every option of the handshake, and every command with every combination of
          flags, within the export, at its borders and beyond, by raw sockets; then
          streams of random bytes.  First to the array process, then to each door of a
          member, by a writer's and by a reader's tokens.
Pass:     the process that was asked serves the next client.
"""

import itertools
import os
import random
import socket
import struct

import pytest

OPT_MAGIC = b"IHAVEOPT"
OPT_EXPORT_NAME, OPT_GO, OPT_STRUCTURED_REPLY, OPT_SET_META_CONTEXT = 1, 7, 8, 10
OPTIONS = [*range(1, 14), 99, 0, 0xffffffff]
PAYLOADS = [b"", b"\0", bytes(8), struct.pack(">I", 0xffffffff), b"\xff" * 64,
            struct.pack(">I", 0) + b"\0\1\0\0", bytes(5000)]
REQUEST = ">IHHQQI"
REQUEST_MAGIC = 0x25609513
WRITE, DISC, BLOCK_STATUS = 1, 2, 7
COMMANDS = [0, 1, 3, 4, 5, 6, 7, 8, 9, 0xffff]
FLAGS = [*range(32), 1 << 5, 1 << 15, 0xffff]
SIZE_MAX = 64 << 20  # of a request, for nbdkit


def opened(uri):
    host, port = uri.partition("://")[2].rstrip("/").split(":")
    s = socket.create_connection((host, int(port)), timeout=20)
    s.recv(18, socket.MSG_WAITALL)
    s.sendall(struct.pack(">I", 3))
    return s


def option(s, number, payload=b"", length=None):
    s.sendall(OPT_MAGIC + struct.pack(">II", number,
                                      len(payload) if length is None else length)
              + payload)


def named(export):
    return struct.pack(">I", len(export)) + export.encode()


def replies(s, number):
    """Until the last reply to this option."""
    kind = 0
    while kind != 1 and kind < 1 << 31:
        head = s.recv(20, socket.MSG_WAITALL)
        assert len(head) == 20, "the handshake was cut off"
        _, of, kind, n = struct.unpack(">QIII", head)
        body = s.recv(n, socket.MSG_WAITALL) if n else b""
        assert of == number
        yield kind, body


def served(uri, export, structured=False):
    """A socket in transmission, and the export's size."""
    s = opened(uri)
    if structured:
        option(s, OPT_STRUCTURED_REPLY)
        list(replies(s, OPT_STRUCTURED_REPLY))
        option(s, OPT_SET_META_CONTEXT, named(export) + struct.pack(">I", 1) +
               named("base:allocation"))
        list(replies(s, OPT_SET_META_CONTEXT))
    option(s, OPT_GO, named(export) + b"\0\0")
    size = None
    for kind, body in replies(s, OPT_GO):
        assert kind < 1 << 31, body
        if kind == 3 and body[:2] == b"\0\0":
            size = struct.unpack_from(">Q", body, 2)[0]
    return s, size


def drained(s):
    """Sends nothing more, and reads until the server has closed the connection."""
    try:
        s.shutdown(socket.SHUT_WR)
        while s.recv(1 << 20):
            pass
    except OSError as e:
        assert not isinstance(e, TimeoutError), "the server hangs"
    s.close()


def told(s, data):
    """A client that is refused early may find the connection closed."""
    try:
        s.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass


def still_serves(uri, export, what):
    try:
        s, _ = served(uri, export)
    except (OSError, AssertionError) as e:
        pytest.fail(f"{uri} ended by {what}: {e}")
    s.sendall(struct.pack(REQUEST, REQUEST_MAGIC, 0, DISC, 0, 0, 0))
    drained(s)


def places(size):
    """Offset and length, within the export, at its borders, and beyond."""
    end = max(size - 512, 0)
    return [(0, 4096), (1, 511), (0, 0), (end, 512), (end, 1024), (size, 1),
            (1 << 63, 4096), ((1 << 64) - 1, 0xffffffff)]


def all_requests(size, command):
    for flags, (offset, length) in itertools.product(FLAGS, places(size)):
        yield struct.pack(REQUEST, REQUEST_MAGIC, flags, command, flags, offset,
                          length), length


def all_commands(uri, export, structured):
    """One connection for a command; a write that is too large ends it."""
    for command in COMMANDS:
        s, size = served(uri, export, structured)
        large = []
        for request, length in all_requests(size, command):
            if command != WRITE:
                told(s, request)
            elif length <= SIZE_MAX:
                told(s, request + bytes(length))
            else:
                large.append(request)
        told(s, struct.pack(REQUEST, REQUEST_MAGIC, 0, DISC, 0, 0, 0))
        drained(s)
        for request in large[:2]:
            s, _ = served(uri, export, structured)
            told(s, request + bytes(4096))
            drained(s)
        still_serves(uri, export, f"command {command}, structured: {structured}")


def all_options(uri, export):
    for number, payload in itertools.product(OPTIONS, PAYLOADS):
        s = opened(uri)
        told(s, OPT_MAGIC + struct.pack(">II", number, len(payload)) + payload)
        told(s, OPT_MAGIC + struct.pack(">II", number, 0xffffffff))  # and a lie
        drained(s)
    still_serves(uri, export, "options")


def random_streams(uri, export, rng):
    for i in range(60):
        s, size = served(uri, export, structured=i % 2)
        for _ in range(20):
            told(s, struct.pack(REQUEST, REQUEST_MAGIC, rng.getrandbits(16),
                                rng.choice(COMMANDS), rng.getrandbits(64),
                                rng.randrange(size), rng.getrandbits(17)))
        told(s, rng.randbytes(rng.randrange(200)))
        drained(s)
        s = opened(uri)
        told(s, rng.choice([b"", OPT_MAGIC]) + rng.randbytes(rng.randrange(100)))
        drained(s)
    still_serves(uri, export, "random bytes")


def everything(uri, export, rng):
    for structured in False, True:
        all_commands(uri, export, structured)
    all_options(uri, export)
    random_streams(uri, export, rng)


@pytest.mark.long(40)
def test_no_stream_ends_a_process(cluster, seed):
    c = cluster(layout="raid-1", members=2, size="16M")
    rng = random.Random(seed)
    everything(c.nbd, "", rng)
    c.terminate("array")
    for mode, doors in ("rw", ("data", "batch", "intents")), ("ro", ("data",)):
        status, granted = c.call("POST", "/api/v1/arrays/a/sessions", {
            "instance": os.urandom(8).hex(), "node": "n9", "pid": os.getpid(),
            "mode": mode, "uri": None})
        assert status == 201, granted
        member = granted["map"]["members"][0]
        for door in doors:
            everything(member["uri"], f"{door}/{member['tokens'][door]}", rng)
