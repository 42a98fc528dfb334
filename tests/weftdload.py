"""Many members and array processes at once, in one thread: each says once a
second how it is, over a connection of its own, and waits for its answer."""

import asyncio
import json
import threading

from weftdactors import Host, Member


class Caller:
    """A connection to weftd that is kept.  It asks as the plugin does."""

    def __init__(self, weftd):
        self.address = weftd.address
        self.stream = None

    async def post(self, path, body):
        data = json.dumps(body, separators=(",", ":")).encode()
        if self.stream is None:
            self.stream = await asyncio.open_connection(*self.address)
        reader, writer = self.stream
        try:
            writer.write(f"POST /api/v1{path} HTTP/1.1\r\nHost: "
                         f"{self.address[0]}:{self.address[1]}\r\n"
                         "User-Agent: weft/load\r\n"
                         "Accept: application/json\r\n"
                         "Content-Type: application/json\r\nContent-Length: "
                         f"{len(data)}\r\n\r\n".encode() + data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                          if line.lower().startswith(b"content-length:"))
            answer = await reader.readexactly(length)
        except BaseException:
            writer.close()
            self.stream = None
            raise
        if b"\r\nConnection: close" in head:
            writer.close()
            self.stream = None
        return int(head.split()[1]), json.loads(answer)


# Fields that make no news; and fields that a heartbeat without news still has.
LOAD = ("load", "dirty_extents", "wait_ms", "stats")
WHO = ("instance", "node")


class Words:
    """An actor's report, as the plugin makes it: unchanged fields that weftd has accepted are
    left out."""

    def __init__(self):
        self.taken = self.stats = self.load = None
        self.reports = 0

    def say(self, body):
        kept = {k: v for k, v in body.items() if k not in LOAD}
        news, stats = kept != self.taken, body.get("stats")
        self.taken = kept
        if stats is not None:  # a session
            body["stats"] = stats if stats != self.stats else True
            self.stats = stats
        else:
            self.reports += news
            body["report"] = self.reports
            if not news:
                body = {k: v for k, v in body.items()
                        if k in LOAD + WHO + ("report",)}
            if body["load"] == self.load:  # it has nothing to do
                body["wait_ms"] *= 2
            self.load = body["load"]
        return {**body, "news": news}


class Load:
    def __init__(self, weftd, wait_ms=1000):
        self.weftd, self.wait_ms = weftd, wait_ms
        self.loop = asyncio.new_event_loop()
        self.waiting = self.beats = self.lost = 0
        self.lives = []
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def stop(self):
        async def end():
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def check(self):
        """Nobody was refused, but those that are over."""
        for life in self.lives:
            assert not life.done() or life.result() is None

    def member(self, number, node):
        return self.start(Member(self.weftd, number), node=node)

    def session(self, node, array, mode):
        h = Host(self.weftd, node, mode)
        status, reply = h.attach(array)
        assert status == 201, reply
        return self.start(h)

    def start(self, actor, **more):
        self.lives.append(asyncio.run_coroutine_threadsafe(
            self.live(actor, more), self.loop))
        return actor

    async def live(self, actor, more):
        caller, words = Caller(self.weftd), Words()
        while True:
            self.waiting += 1
            try:
                status, reply = await caller.post(
                    actor.path,
                    words.say(actor.body(wait_ms=self.wait_ms, **more)))
            except (OSError, asyncio.IncompleteReadError):
                words = Words()
                self.lost += 1  # weftd may close what is silent
                await asyncio.sleep(0.1)
                continue
            finally:
                self.waiting -= 1
            if status == 410:
                actor.over = reply["detail"]
                return
            if status == 409 and reply["code"] == "say-all":
                words.taken = None
                continue
            assert status == 200, reply
            self.beats += 1
            actor.obey(reply)
