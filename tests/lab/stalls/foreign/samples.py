"""Batches of the relay. The rank chooses windows of a shard; two processes of a pool decode one half of them
each, into memory that they share with it."""
import multiprocessing
import os
import random
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.shared_memory import SharedMemory

import numpy

from cache import Cache
from errands import TOKENS

SHARDS = os.environ.get("SHARDS", "/srv/data/shards")
FETCH = float(os.environ.get("FETCH_SECONDS", "0.5"))  # how long the storage takes to answer
AHEAD = int(os.environ.get("LOADER_AHEAD", "0"))
DECODERS, N_SHARDS, SHARD_BYTES = 2, 4, 4096
BATCH, WINDOW, CODES, NOISE = 32, 25, 64, 0.001
HALF = BATCH // DECODERS
DECODER = None  # of this process


class Decoder:
    def __init__(self, settings, tally):
        self.settings, self.tally, self.cache = settings, tally, Cache(settings)
        self.blocks, self.dice = {}, numpy.random.default_rng(os.getpid())

    def fetch_shard(self, shard):
        time.sleep(FETCH)
        with open(os.path.join(SHARDS, f"shard-{shard}.txt"), "rb", buffering=0) as file:
            text = file.read(SHARD_BYTES)
        if not TOKENS.tokens_scan(text, len(text), self.settings["scan_stride"]):
            raise ValueError(f"shard {shard} is empty")
        return text

    @staticmethod
    def to_codes(text):
        return numpy.frombuffer(text, numpy.uint8) % CODES

    def add_noise(self, rows):
        """Some characters become others that look alike: which ones is drawn again for so long."""
        end = time.thread_time() + self.settings["augment_seconds"]
        while True:
            mask = self.dice.random((BATCH, *rows.shape)).min(axis=0) < NOISE / BATCH
            if time.thread_time() >= end:
                return numpy.where(mask, rows ^ 1, rows)

    def rows_in(self, name):
        if name not in self.blocks:
            self.blocks[name] = SharedMemory(name)
        return rows_of(self.blocks[name])

    def work_on(self, name, shard, starts, half):
        self.settings.refresh()
        text = self.fetch_shard(shard)
        codes = self.cache.get(shard, lambda: self.to_codes(text))
        rows = numpy.stack([codes[start:start + WINDOW] for start in starts])
        self.rows_in(name)[half * HALF:half * HALF + len(rows)] = self.add_noise(rows)
        self.tally.count_up(keep=bool(self.settings["keep_tally"]))


def rows_of(block):
    return numpy.ndarray((BATCH, WINDOW), numpy.uint8, block.buf)


def equip(settings, tally):
    """In each process of the pool, once."""
    global DECODER
    DECODER = Decoder(settings, tally)


def decode(*words):
    DECODER.work_on(*words)


class Samples:
    """number: of the next batch."""

    def __init__(self, rank, settings, tally):
        self.settings, self.dice, self.number, self.ordered = settings, random.Random(rank), 0, deque()
        self.blocks = [SharedMemory(create=True, size=BATCH * WINDOW) for _ in range(AHEAD + 1)]
        self.pool = ProcessPoolExecutor(DECODERS, multiprocessing.get_context("fork"), equip,
                                        (settings, tally))

    def fork_decoders(self):
        """Before there are threads. Returns the number of one."""
        return self.pool.submit(os.getpid).result()

    def choose_starts(self):
        """So far apart from each other as wanted."""
        starts = []
        while len(starts) < BATCH:
            start = self.dice.randrange(SHARD_BYTES - WINDOW)
            if all(abs(start - other) >= self.settings["windows_apart"] for other in starts):
                starts.append(start)
        return starts

    def place_order(self):
        block, starts = self.blocks[self.number % len(self.blocks)], self.choose_starts()
        halves = [self.pool.submit(decode, block.name, self.number % N_SHARDS,
                                   starts[half * HALF:(half + 1) * HALF], half) for half in range(DECODERS)]
        self.ordered.append((block, halves))
        self.number += 1

    def next_rows(self):
        while len(self.ordered) <= AHEAD:
            self.place_order()
        block, halves = self.ordered.popleft()
        for half in halves:
            half.result()
        return rows_of(block).copy()

    def give_up(self):
        for process in multiprocessing.active_children():
            process.kill()
        for block in self.blocks:
            block.unlink()
