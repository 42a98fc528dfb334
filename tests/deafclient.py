"""NBD clients that live, and take nothing."""

import socket
import struct

MAGIC = 0x25609513
READ = 0
CHUNK = 64 << 10


def connect(uri):
    """A socket, connected to nbd[s]://HOST:PORT or nbd+unix:///?socket=PATH."""
    if uri.startswith("nbd+unix:"):
        s = socket.socket(socket.AF_UNIX)
        s.connect(uri.split("socket=")[1])
        return s
    host, port = uri.partition("://")[2].rstrip("/").split(":")
    return socket.create_connection((host, int(port)))


def deaf_client(uri, requests=256, chunk=CHUNK, export=""):
    """A connection whose client asks for 16 MiB and reads none of it."""
    s = connect(uri)
    name = export.encode()
    s.recv(18, socket.MSG_WAITALL)
    s.sendall(struct.pack(">I8sIII", 3, b"IHAVEOPT", 7, 6 + len(name),
                          len(name)) + name + struct.pack(">H", 0))
    kind = 0
    while kind != 1:  # NBD_REP_ACK
        _, _, kind, n = struct.unpack(">QIII", s.recv(20, socket.MSG_WAITALL))
        assert kind < 1 << 31, f"refused: {s.recv(n)}"
        if n:
            s.recv(n, socket.MSG_WAITALL)
    for i in range(requests):
        s.sendall(struct.pack(">IHHQQI", MAGIC, 0, READ, i, i * chunk, chunk))
    return s
