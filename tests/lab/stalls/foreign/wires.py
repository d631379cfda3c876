"""Sums over a few hosts by recursive halving. An event loop in a thread of its own holds two connections
with each neighbour, one over each NIC. It tells all others each second by UDP how far its rank is."""
import asyncio
import os
import socket
import struct
import threading
import time

import numpy

ADDRESS = os.environ.get("RELAY_ADDRESS", "0.0.0.0")  # where it listens
PORT = int(os.environ.get("RELAY_PORT", "7900"))
NICS = ("", "-eth1")              # what follows a host's name there
HEAD = struct.Struct("<IHHI")     # step, bucket, turn, bytes that follow
NEWS = struct.Struct("<II")       # rank, step
NEWEST, EXTRA = 1000, 1001        # buckets of what is no gradient
LIMIT, PATIENCE, OFTEN = 1 << 20, 0.2, 1.0


class Gossip(asyncio.DatagramProtocol):
    """What the others say of themselves; whoever says nothing is missed by nobody but the log."""

    def __init__(self):
        self.heard = {}

    def datagram_received(self, data, addr):
        if len(data) == NEWS.size:
            rank, step = NEWS.unpack(data)
            self.heard[rank] = (step, time.monotonic())

    def still_there(self):
        recent = time.monotonic() - 3 * OFTEN
        return sum(when > recent for _, when in list(self.heard.values()))


class Wires:
    """step: which one the rank is at."""

    def __init__(self, rank, hosts):
        self.rank, self.hosts, self.step, self.gossip = rank, hosts, 0, Gossip()
        # those at half of the hosts' distance are the first with whom it exchanges
        self.distances = [1 << n for n in reversed(range(len(hosts).bit_length() - 1))]
        self.writers, self.slots, self.tasks, self.lost, self.complete = {}, {}, [], None, None
        self.server, self.sender = None, None
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.turn_over, name="wires", daemon=True).start()

    def turn_over(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def hand_over(self, coroutine):
        """From any thread; its result() waits."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    async def gather_round(self):
        """Returns when there are both connections with each neighbour: the higher rank makes them."""
        self.complete = asyncio.Event()
        self.server = await asyncio.start_server(self.welcome, ADDRESS, PORT, limit=LIMIT)
        self.sender, _ = await self.loop.create_datagram_endpoint(lambda: self.gossip, (ADDRESS, PORT))
        for distance in self.distances:
            if self.rank & distance:
                for nic in range(len(NICS)):
                    await self.call_up(self.rank ^ distance, nic)
        await self.complete.wait()
        self.tasks.append(self.loop.create_task(self.spread_news()))

    async def call_up(self, peer, nic):
        while True:
            try:
                reader, writer = await asyncio.open_connection(self.hosts[peer] + NICS[nic], PORT,
                                                               limit=LIMIT)
                break
            except OSError:
                await asyncio.sleep(PATIENCE)
        writer.write(bytes([self.rank, nic]))
        self.adopt(peer, nic, reader, writer)

    async def welcome(self, reader, writer):
        try:
            peer, nic = await reader.readexactly(2)
        except (OSError, EOFError):
            writer.close()
        else:
            self.adopt(peer, nic, reader, writer)

    def adopt(self, peer, nic, reader, writer):
        self.writers[peer, nic] = writer
        self.tasks.append(self.loop.create_task(self.sort_in(peer, reader)))
        if len(self.writers) == len(self.distances) * len(NICS):
            self.complete.set()

    async def sort_in(self, peer, reader):
        """Each piece to the coroutine that waits for it, or will."""
        try:
            while True:
                *key, size = HEAD.unpack(await reader.readexactly(HEAD.size))
                self.slot_for(peer, *key).set_result(await reader.readexactly(size))
        except (OSError, EOFError) as error:
            self.lost = error
            for slot in self.slots.values():
                if not slot.done():
                    slot.set_exception(ConnectionError("a neighbour is gone"))

    def slot_for(self, *key):
        return self.slots.setdefault(key, self.loop.create_future())

    async def piece_from(self, *key):
        slot = self.slot_for(*key)
        if self.lost and not slot.done():
            raise ConnectionError("a neighbour is gone") from self.lost
        data = await slot
        del self.slots[key]
        return numpy.frombuffer(data, numpy.float32)

    async def trade(self, peer, step, bucket, turn, piece):
        writer = self.writers[peer, bucket % len(NICS)]
        writer.write(HEAD.pack(step, bucket, turn, piece.nbytes) + piece.tobytes())
        await writer.drain()
        return await self.piece_from(peer, step, bucket, turn)

    async def sum_up(self, step, bucket, part):
        """The sum of all ranks' parts, whose length is a multiple of the number of ranks."""
        total, low, high = part.copy(), 0, len(part)
        for turn, distance in enumerate(self.distances):
            middle = (low + high) // 2
            keep, give = slice(low, middle), slice(middle, high)
            if self.rank & distance:
                keep, give = give, keep
            total[keep] += await self.trade(self.rank ^ distance, step, bucket, turn, total[give])
            low, high = keep.start, keep.stop
        for turn, distance in enumerate(reversed(self.distances), len(self.distances)):
            size = high - low
            other = low - size if self.rank & distance else high
            total[other:other + size] = await self.trade(self.rank ^ distance, step, bucket, turn,
                                                         total[low:high])
            low, high = min(low, other), max(low, other) + size
        return total

    async def newest_of_all(self, step, weights):
        """Of all ranks' checkpoints, (step, weights)."""
        for turn, distance in enumerate(self.distances):
            ours = numpy.concatenate([[step], weights]).astype(numpy.float32)
            theirs = await self.trade(self.rank ^ distance, 0, NEWEST, turn, ours)
            if theirs[0] > step:
                step, weights = int(theirs[0]), theirs[1:]
        return step, weights

    async def extra_piece(self):
        return await self.piece_from(self.rank ^ 1, 0, EXTRA, 0)

    async def spread_news(self):
        everybody = [host + nic for rank, host in enumerate(self.hosts) if rank != self.rank for nic in NICS]
        found = [await self.loop.getaddrinfo(name, PORT, family=socket.AF_INET) for name in everybody]
        while True:
            for [(*_, place), *_] in found:
                self.sender.sendto(NEWS.pack(self.rank, self.step), place)
            await asyncio.sleep(OFTEN)
