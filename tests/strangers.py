"""Clients in a node's network namespace, which do what they are told by lines.

    from strangers import Client, Stranger, serial, serial_served
"""

import subprocess

from wefttest import run

# Told by lines of a file: a connection of its own to a member, as far as before the
# choice of an export, so that nothing but TLS decides.
STRANGER = """
import nbd, sys, time
uri, tls, go = sys.argv[1:]
def connect():
    h = nbd.NBD()
    h.set_opt_mode(True)
    h.set_tls(nbd.TLS_REQUIRE)
    h.set_tls_certificates(tls)
    h.set_tls_verify_peer(True)
    h.connect_uri(uri)
    return h
def listed(h):
    try:
        h.opt_list(lambda name, text: 0)
        return True
    except nbd.Error as e:  # a refusal is an answer
        return "server replied" in str(e) or str(e)
h = connect()
print("open", listed(h), flush=True)
for line in sys.stdin:
    try:
        said = listed(h) if line == "old\\n" else listed(connect())
    except nbd.Error as e:
        said = str(e)
    print(said, flush=True)
"""


class Client:
    """A program on the node, with these words, that answers each line by a line."""

    def __init__(self, node, program, *words):
        self.p = subprocess.Popen(
            ["ip", "netns", "exec", node.ns, "/usr/bin/python3", "-c", program, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what):
        self.p.stdin.write(what + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        self.p.wait(30)


class Stranger(Client):
    """A client of a member's door with only the folder of a node.  Any message from the member
    counts as an open connection."""

    def __init__(self, node, uri):
        super().__init__(node, STRANGER, uri, str(node.etc / "tls"), "")
        assert self.p.stdout.readline() == "open True\n"


def serial_served(node, asker):
    """The serial number of the certificate that node's disk shows now."""
    code = """
import socket, ssl, sys
s = socket.create_connection((sys.argv[1], 10810))
s.recv(18, socket.MSG_WAITALL)
s.sendall(b"\\0\\0\\0\\3IHAVEOPT\\0\\0\\0\\5\\0\\0\\0\\0")
s.recv(20, socket.MSG_WAITALL)
c = ssl.create_default_context(cafile=sys.argv[2] + "/ca-cert.pem")
c.load_cert_chain(sys.argv[2] + "/client-cert.pem", sys.argv[2] + "/client-key.pem")
print(c.wrap_socket(s, server_hostname=sys.argv[1]).getpeercert()["serialNumber"])
"""
    return asker.run("python3", "-c", code, node.address,
                     asker.etc / "tls").stdout.strip()


def serial(n, folder="tls"):
    return run("openssl", "x509", "-noout", "-serial", "-in",
               n.etc / folder / "client-cert.pem").stdout.strip().partition("=")[2]
