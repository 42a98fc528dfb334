"""A member that says what NBD does not allow is hung up on, and lost.

Topology: raid-1 over two nbdkit file members by a static map, one of them through a
          relay of ours.
Cause: the relay changes one byte of what the member says: of a reply's header, or of
       what a chunk says of itself; while reads and writes are under way.
Pass:  no request fails, none gets other bytes than were written, the array process
       lives, and says that the member is lost for that reason.
"""

import contextlib
import json
import random
import re
import socket
import threading

import pytest

from nbdclient import connected
from nbdkitproc import Nbdkit
from wefttest import eventually

SIZE = 16 << 20
BLOCK = 64 << 10


class Relay:
    """TCP to the member's socket; `lie` is the place of the byte that is changed in
    what the member says next."""

    def __init__(self, to):
        self.to, self.lie, self.lies = to, None, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"nbd://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                member = socket.socket(socket.AF_UNIX)
                member.connect(self.to)
                for a, b, lies in ((client, member, False), (member, client, True)):
                    threading.Thread(target=self.carry, args=(a, b, lies),
                                     daemon=True).start()

    def carry(self, a, b, lies):
        with contextlib.suppress(OSError):
            while data := bytearray(a.recv(1 << 20)):
                if lies and self.lie is not None and len(data) > self.lie:
                    data[self.lie] ^= 0x40
                    self.lie, self.lies = None, self.lies + 1
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("place", [0, 3, 8, 15])
def test_lie(tmp_path, place, seed):
    rng = random.Random(seed)
    with contextlib.ExitStack() as stack:
        members = []
        for i in range(2):
            path = tmp_path / f"m{i}.img"
            path.write_bytes(bytes(SIZE))
            members.append(stack.enter_context(Nbdkit("file", path)))
        relay = Relay(members[0].socket)
        stack.callback(relay.listener.close)
        path = tmp_path / "map.json"
        path.write_text(json.dumps({
            "layout": "raid-1", "unit": BLOCK,
            "members": [{"name": "m0", "uri": relay.uri},
                        {"name": "m1", "uri": members[1].uri}]}))
        array = stack.enter_context(Nbdkit("weft", f"map={path}"))
        h = connected(array.uri)
        wrote = {}
        for i in range(40):
            if i == 20:
                relay.lie = place
            at = rng.randrange(64) * BLOCK
            wrote[at] = bytes([i + 1]) * BLOCK
            h.pwrite(wrote[at], at)
            at = rng.choice(sorted(wrote))
            assert h.pread(BLOCK, at) == wrote[at]
        h.flush()
        assert relay.lies == 1
        for at, data in wrote.items():
            assert h.pread(BLOCK, at) == data
        eventually(lambda: re.search(
            "member m0 is lost: its connection broke: its answer makes no sense",
            array.log()), 10)
        h.shutdown()
