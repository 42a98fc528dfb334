"""Stops or kills a process at a step of its protocol.

An array process talks to weftd, and to members, through proxies in the test's process.  These
understand each message, and can stop while they hold one:

    p = Proxied(c)                          # p.admin is for admin=
    trap = Trap([reply("granted")], Process(pid).stop)
    p.trap = trap
    trap.wait()         # weftd has granted something, and the host has not read it
    ... SIGCONT ...
    trap.release()      # the held message goes on

A Trap has matchers, one for each message that must come, one after the other; the last
springs it.  One Trap may be set for several proxies: the proxy with the first message
keeps it.
"""

import contextlib
import json
import re
import socket
import struct
import threading
import urllib.parse

WRITE = 1  # of NBD
MAGIC = 0x25609513


# --- Matchers: each is asked (where, words, connection, before) of a message; `where`
# is "request" or "reply" of HTTP, or "member"; `before` is the connection of the
# message that the matcher before this one took ---------------------------------------


def request(word):
    """A call that says something for this word; "heartbeat": any heartbeat."""
    return lambda where, words, *_: where == "request" and bool(words.get(word))


def next_request(word):
    """The receiver of that answer has read it, and sends another message."""
    return lambda where, words, connection, before: where == "request" and \
        connection is before and bool(words.get(word))


def reply(word):
    """An answer that has something there."""
    return lambda where, words, *_: where == "reply" and bool(words.get(word))


def answer_to(word):
    """weftd has taken this in, and answers that it is well."""
    return lambda where, words, *_: where == "reply" and \
        words["status"] == 200 and bool(words["asked"].get(word))


def write(least=0):
    """A write of so many bytes goes to a member, and not by its door for batches."""
    return lambda where, words, *_: where == "member" and \
        words["length"] >= least and words["offset"] > 0


class Trap:
    def __init__(self, matchers, act, keep=(), drop=False):
        """act(): does it to the process.  keep: the numbers of messages that are held
        until release (of the last one, and of writes to members); drop: the last one
        goes nowhere, and its connection ends."""
        self.matchers, self.act, self.keep, self.drop = matchers, act, keep, drop
        self.lock, self.at, self.owner = threading.Lock(), 0, None
        self.connection = None
        self.sprung, self.free = threading.Event(), threading.Event()

    def passes(self, owner, *message):
        """Returns whether the message may be sent on."""
        with self.lock:
            if self.at == len(self.matchers) or self.owner not in (None, owner) or \
                    not self.matchers[self.at](*message, self.connection):
                return True
            self.owner, self.connection, number = owner, message[-1], self.at
            self.at += 1
            last = self.at == len(self.matchers)
            if last:
                self.act()
                self.sprung.set()
        if number in self.keep:
            self.free.wait()
        return not (last and self.drop)

    def wait(self, seconds=40):
        assert self.sprung.wait(seconds), \
            f"message {self.at} of {len(self.matchers)} has not come"

    def release(self):
        self.free.set()


class Listener(threading.Thread):
    """Accepts connections, each for a thread of its own."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, contextlib.suppress(OSError), \
                socket.create_connection(self.target) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.carry(client, server)


class MemberProxy(Listener):
    def __init__(self, owner, target):
        self.owner, self.target = owner, target
        super().__init__()

    def carry(self, client, server):
        back = threading.Thread(target=self.back, args=(client, server), daemon=True)
        back.start()
        while data := client.recv(1 << 20):
            # The host sends the head of a request at once.
            if len(data) >= 28 and int.from_bytes(data[:4], "big") == MAGIC:
                kind, _, offset, length = struct.unpack(">HQQI", data[6:28])
                if kind == WRITE and not self.owner.passes(
                        "member", {"offset": offset, "length": length}, client):
                    break
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)
        back.join()

    @staticmethod
    def back(client, server):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 20):
                client.sendall(data)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def message(file):
    """An HTTP message: the head, and the body; None: the connection has ended."""
    head = b""
    while (line := file.readline()) not in (b"\r\n", b""):
        head += line
    length = re.search(rb"(?i)^content-length: *(\d+)", head, re.MULTILINE)
    return (head, file.read(int(length[1]) if length else 0)) if head else None


class Proxied(Listener):
    """weftd's proxy for one array process, and with `members` also theirs."""

    def __init__(self, c, members=False, trap=None):
        url = urllib.parse.urlsplit(c.admin)
        self.target, self.trap = (url.hostname, url.port), trap
        self.places = {}
        for m in c.members if members else ():
            url = urllib.parse.urlsplit(m["uri"])
            self.places[m["uri"].encode()] = \
                b"nbd://" + MemberProxy(self, (url.hostname, url.port)) \
                .address.encode()
        super().__init__()
        self.admin = f"http://{self.address}"

    def passes(self, *message):
        return self.trap is None or self.trap.passes(self, *message)

    def carry(self, client, server):
        asks, answers = client.makefile("rb"), server.makefile("rb")
        while asked := message(asks):
            words = json.loads(asked[1] or b"{}")
            if b"/heartbeat " in asked[0]:
                words["heartbeat"] = True
            if not self.passes("request", words, client):
                return
            server.sendall(asked[0] + b"\r\n" + asked[1])
            answer = message(answers)
            if answer is None:
                return
            head, body = answer
            said = json.loads(body) if body[:1] == b"{" else {}
            said["status"], said["asked"] = int(head.split()[1]), words
            if not self.passes("reply", said, client):
                return
            for old, new in self.places.items():
                body = body.replace(b'"' + old + b'"', b'"' + new + b'"')
            head = re.sub(rb"(?im)^content-length: *\d+",
                          b"Content-Length: %d" % len(body), head)
            client.sendall(head + b"\r\n" + body)
