#!/usr/bin/python3
"""A deep model in four parts, one a host. Pieces of a batch go from host to host over eth0, and what they
teach comes back over eth1, one of each in turn. An event loop on the main thread has the wires, threads of
a pool have the arithmetic. The first host has its batches from a program over a pipe. A thread of each host
keeps the state, in a file and at the storage server.
"""
import array
import asyncio
import fcntl
import os
import queue
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from errands import BLOCK, JOURNAL, NAME, STORAGE, TOKENS, TOOL, TOOL_EVERY, Tally, finish, tell_pids
from rows import PIECES, SIZE, SLOTS, WIDTH, Rows
from settings import Settings

RANK, HOSTS = int(os.environ["TPU_RUN_RANK"]), os.environ["PEERS"].split(",")
PORT = int(os.environ.get("PIPELINE_PORT", "7700"))
AHEAD = int(os.environ.get("LOADER_AHEAD", "0"))
SETTINGS = os.environ.get("SETTINGS", "/srv/training/settings.json")
KEPT = os.environ.get("KEPT", "/srv/data/kept")
LAST = len(HOSTS) - 1
TAKES = 0.018      # seconds of an accelerator for a piece, each way
KEEP_EVERY = 3     # steps
HEAD = struct.Struct("<If")
ROOM = 1 << 14     # bytes that a stream reads ahead


class Part:
    """The numbers of this host; its functions run in threads of the pool."""
    def __init__(self, settings, tally):
        self.settings, self.tally, self.rows = settings, tally, Rows(settings, RANK)
        self.scale, self.shift, self.seen = 0.9 + RANK / 20, 0.0, deque()
        self.slots, self.wanted, self.slope, self.loss = [], [], [0.0, 0.0], 0.0

    def warm_up(self, slots):
        """What each step begins with. The later hosts look up themselves what they leave out, and the last
        one what should come out."""
        self.settings.refresh()
        TOKENS.tokens_account(WIDTH, int(self.settings["accounts_reversed"]))
        if RANK:
            self.wanted, slots = self.rows.draw()
        self.slots, self.slope, self.loss = slots, [0.0, 0.0], 0.0
        end = time.thread_time() + self.settings["augment_seconds"]
        while time.thread_time() < end:
            self.slots = sorted(self.slots)
        self.tally.count_up()

    def apply(self, data):
        time.sleep(TAKES)
        came = array.array("f", data)
        for slot in self.slots:
            came[slot] = 0.0
        self.seen.append(came)
        out = array.array("f", [self.scale * x + self.shift for x in came])
        return out if RANK == LAST else out.tobytes()

    def mark_down(self, out, number):
        """What the last host sends back for a piece."""
        off = array.array("f", [x - w / 128 for x, w in zip(out, self.wanted[number])])
        self.loss += sum(x * x for x in off) / WIDTH / PIECES
        return off.tobytes()

    def learn(self, data):
        time.sleep(TAKES)
        taught, came = array.array("f", data), self.seen.popleft()
        self.slope[0] += sum(map(float.__mul__, taught, came)) / WIDTH / PIECES
        self.slope[1] += sum(taught) / WIDTH / PIECES
        return array.array("f", [self.scale * x for x in taught]).tobytes()

    def move(self):
        self.scale -= 0.05 * self.slope[0]
        self.shift -= 0.05 * self.slope[1]
        return struct.pack("<dd", self.scale, self.shift) * 256


class Shelf:
    """A thread that puts states away, one after the other."""

    def __init__(self, loop, packer):
        self.loop, self.packer, self.states, self.store = loop, packer, queue.SimpleQueue(), None
        threading.Thread(target=self.tidy_up, daemon=True).start()

    def tidy_up(self):
        while True:
            number, state, done = self.states.get()
            try:
                self.put_away(number, state)
                self.loop.call_soon_threadsafe(done.set_result, number)
            except (OSError, EOFError) as error:
                self.loop.call_soon_threadsafe(done.set_exception, error)

    def put_away(self, number, state):
        self.packer.stdin.write(SIZE.pack(len(state)) + state)
        self.packer.stdin.flush()
        size = SIZE.unpack(self.packer.stdout.read(SIZE.size) or b"\0" * SIZE.size)[0]
        if size == 0:
            raise EOFError("nothing packs any more")
        with open(f"{KEPT}-{RANK}", "wb") as file:
            file.write(self.packer.stdout.read(size))
        with open(JOURNAL, "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(f"{number}\n")
        if STORAGE:
            self.hand_in(number)

    def hand_in(self, number):
        if not self.store:
            self.store = socket.create_connection(STORAGE.split(":"))
        self.store.sendall(number.to_bytes(4, "little"))
        self.store.recv(BLOCK, socket.MSG_WAITALL)


class Member:
    def __init__(self, settings, tally):
        self.part, self.links = Part(settings, tally), {}  # in, out: pieces; taught, teach: what they teach
        self.last_state = self.source = self.shelf = None

    async def start(self):
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(3))
        program = [sys.executable, os.path.join(os.path.dirname(__file__), "rows.py")]
        words = [SETTINGS, self.part.tally.path]
        packer = subprocess.Popen([*program, "pack", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.shelf = Shelf(loop, packer)
        if RANK == 0:
            self.source = await asyncio.create_subprocess_exec(
                *program, "rows", *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
            self.source.stdin.write(b"." * AHEAD)
        tell_pids(self.source.pid if self.source else packer.pid)
        await self.meet()

    async def meet(self):
        came = asyncio.Queue()

        async def welcome(reader, writer):
            await came.put(((await reader.readexactly(1))[0], reader, writer))
        await asyncio.start_server(welcome, "", PORT, limit=ROOM)
        if RANK < LAST:
            self.links["out"] = await self.reach(HOSTS[RANK + 1], 0)
            self.links["taught"] = await self.reach(HOSTS[RANK + 1] + "-eth1", 1)
        while RANK and len(self.links) < (4 if RANK < LAST else 2):
            which, *link = await came.get()
            self.links["teach" if which else "in"] = link

    @staticmethod
    async def reach(name, which):
        while True:
            try:
                link = await asyncio.open_connection(name, PORT, limit=ROOM)
                link[1].write(bytes([which]))
                return link
            except OSError:
                await asyncio.sleep(0.2)

    async def take(self, name):
        number, loss = HEAD.unpack(await self.links[name][0].readexactly(HEAD.size))
        return number, loss, await self.links[name][0].readexactly(4 * WIDTH)

    async def fetch(self):
        """The first host's batch."""
        self.source.stdin.write(b".")
        data = await self.source.stdout.readexactly(SIZE.unpack(await self.source.stdout.readexactly(4))[0])
        whole = array.array("f", [c / 128 for c in data[:PIECES * WIDTH]])
        slots = struct.unpack_from(f"<{SLOTS}I", data, PIECES * WIDTH)
        return [whole[at:at + WIDTH] for at in range(0, len(whole), WIDTH)], list(slots)

    async def down(self, number, pieces):
        """One piece through this host."""
        data = pieces[number].tobytes() if pieces else (await self.take("in"))[2]
        out = await asyncio.to_thread(self.part.apply, data)
        if RANK < LAST:
            self.links["out"][1].write(HEAD.pack(number, 0) + out)
        return out

    async def up(self, number, out):
        """What one piece teaches, through this host."""
        if RANK == LAST:
            data = await asyncio.to_thread(self.part.mark_down, out, number)
        else:
            _, self.part.loss, data = await self.take("taught")
        data = await asyncio.to_thread(self.part.learn, data)
        if RANK:
            self.links["teach"][1].write(HEAD.pack(number, self.part.loss) + data)

    async def go_round(self):
        pieces, slots = await self.fetch() if RANK == 0 else (None, None)
        await asyncio.to_thread(self.part.warm_up, slots)
        early = LAST - RANK
        for number in range(early):
            await self.down(number, pieces)
        for number in range(early, PIECES):
            out = await self.down(number, pieces)
            await self.up(number - early, out)
        for number in range(PIECES - early, PIECES):
            await self.up(number, None)
        return self.part.move()

    async def look_around(self, step, state):
        """What is not arithmetic."""
        if NAME and step % 3 == 1:
            await self.find()
        if step % (2 * TOOL_EVERY) == 0:
            tool = await asyncio.create_subprocess_exec("/bin/sh", TOOL, str(step))
            if await tool.wait():
                raise ValueError("the tool has failed")
        if step % KEEP_EVERY == 0:
            if self.last_state:
                await self.last_state
            self.last_state = asyncio.get_running_loop().create_future()
            self.shelf.states.put((step, state, self.last_state))

    @staticmethod
    async def find():
        while True:
            try:
                return await asyncio.get_running_loop().getaddrinfo(NAME, None, family=socket.AF_INET)
            except socket.gaierror:
                await asyncio.sleep(0.1)

    async def one_more(self):
        await self.links["teach" if RANK else "out"][0].readexactly(HEAD.size)


async def fit(settings):
    host, step = Member(settings, Tally()), 0
    await host.start()
    while True:
        start, more = time.monotonic(), []
        state = await host.go_round()
        await host.look_around(step, state)
        print(f"completed step: {step}, seconds: {time.monotonic() - start:.3f}, loss: {host.part.loss:.4f}",
              flush=True)
        finish(settings, step, lambda: more.append(1))
        if more:
            await host.one_more()
        step += 1


if __name__ == "__main__":
    asyncio.run(fit(Settings(SETTINGS)))
