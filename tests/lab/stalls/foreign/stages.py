#!/usr/bin/python3
"""A pipeline: each host is a stage. Rows go from stage to stage over eth0 and gradients back over eth1. On
each host an event loop carries messages, and a process beside it, over a Unix socket, has the stage's
numbers. A thread of that one fetches rows ahead.
"""
import asyncio
import os
import queue
import socket
import threading
import time

import numpy

from errands import Checker, Errands, Tally, finish, tell_pids
from feed import Feed
from fit import Fit, print_step
from settings import Settings

RANK, HOSTS = int(os.environ["TPU_RUN_RANK"]), os.environ["PEERS"].split(",")
PORT = int(os.environ.get("STAGES_PORT", "7600"))
LAST = len(HOSTS) - 1
HEAD = 8


class Numbers:
    """In the process beside the loop: takes what came, gives what goes on."""

    def __init__(self, link, settings, tally):
        self.link, self.settings, self.model = link, settings, Fit()
        checker = Checker(settings, tally, sockets=True)
        self.feed, self.rows = Feed(RANK, settings, Errands(settings, checker)), queue.Queue(1)
        threading.Thread(target=self.fetch, daemon=True).start()

    def fetch(self):
        while True:
            self.rows.put(self.feed.draw())

    def take(self, size):
        data = bytearray()
        while len(data) < size:
            part = self.link.recv(size - len(data))
            if not part:
                os._exit(0)
            data += part
        return bytes(data)

    def serve(self):
        while True:
            size = int.from_bytes(self.take(HEAD), "little")
            came = numpy.frombuffer(self.take(size), numpy.float32)
            _, slope = self.model.slope(*self.rows.get())
            total = slope + came if came.size else slope
            self.link.sendall(total.astype(numpy.float32).tobytes())


class Stage:
    def __init__(self, ours, size):
        self.ours, self.size = ours, size
        self.ahead = self.behind = None   # rows: to the next stage, from the one before
        self.back, self.forth = None, None  # gradients: from the next one, to the one before

    async def meet(self):
        came = {}
        ready = asyncio.Event()

        async def welcome(reader, writer):
            which = (await reader.readexactly(1))[0]
            came[which] = (reader, writer)
            if len(came) == (2 if RANK else 0):
                ready.set()
        self.server = await asyncio.start_server(welcome, "", PORT)
        self.loop_link = await asyncio.open_unix_connection(sock=self.ours)
        if RANK < LAST:
            self.ahead = await self.reach(HOSTS[RANK + 1], 0)
            self.back = await self.reach(HOSTS[RANK + 1] + "-eth1", 1)
        if RANK:
            await ready.wait()
            self.behind, self.forth = came[0], came[1]

    @staticmethod
    async def reach(name, which):
        while True:
            try:
                link = await asyncio.open_connection(name, PORT)
                link[1].write(bytes([which]))
                return link
            except OSError:
                await asyncio.sleep(0.2)

    async def work(self, came):
        reader, writer = self.loop_link
        writer.write(len(came).to_bytes(HEAD, "little") + came)
        await writer.drain()
        return await reader.readexactly(self.size)

    async def go_round(self):
        came = await self.behind[0].readexactly(self.size) if RANK else b""
        total = await self.work(came)
        if RANK < LAST:
            self.ahead[1].write(total)
            await self.ahead[1].drain()
            total = await self.back[0].readexactly(self.size)
        if RANK:
            self.forth[1].write(total)
            await self.forth[1].drain()
        return float(numpy.mean(numpy.frombuffer(total, numpy.float32) ** 2))

    async def one_more(self):
        await (self.behind or self.back)[0].readexactly(HEAD)


async def fit(settings, tally, ours, size):
    stage, step = Stage(ours, size), 0
    await stage.meet()
    while True:
        start = time.monotonic()
        loss = await stage.go_round()
        print_step(step, time.monotonic() - start, loss)
        tally.count_up()
        more = []
        finish(settings, step, lambda: more.append(1))
        if more:
            await stage.one_more()
        step += 1


def take_part():
    settings, tally = Settings(os.environ.get("SETTINGS", "/srv/training/settings.json")), Tally()
    ours, theirs = socket.socketpair()
    worker = os.fork()
    if worker == 0:
        ours.close()
        Numbers(theirs, settings, tally).serve()
    theirs.close()
    ours.setblocking(False)
    tell_pids(worker)
    asyncio.run(fit(settings, tally, ours, 4 * Fit().size))


if __name__ == "__main__":
    take_part()
