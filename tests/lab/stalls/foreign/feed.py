"""What the small model is fitted to: shards of text on a disk, rows of numbers out of them."""
import os
import random
import time

import numpy

from cache import Cache
from errands import TOKENS

SHARDS = os.environ.get("SHARDS", "/srv/data/shards")
N_SHARDS, ROWS, WIDTH = 4, 32, 24
FETCH = float(os.environ.get("FETCH_SECONDS", "0.3"))  # how long the storage takes to answer


class Feed:
    def __init__(self, rank, settings, errands):
        self.settings, self.dice, self.errands = settings, random.Random(rank), errands
        self.cache, self.number = Cache(settings), 0

    def pick_offsets(self, length):
        """Where the rows begin: so far apart from each other as wanted."""
        offsets = []
        while len(offsets) < ROWS:
            offset = self.dice.randrange(length - WIDTH - 1)
            if all(abs(offset - o) >= self.settings["windows_apart"] for o in offsets):
                offsets.append(offset)
        return offsets

    def blur(self, rows):
        """Noise, for as long as it is wanted on a processor."""
        end = time.thread_time() + self.settings["augment_seconds"]
        while True:
            noise = numpy.random.default_rng(self.number).random((ROWS * 8, WIDTH * 8))
            rows = rows + 0.001 * numpy.sort(noise)[:ROWS, :WIDTH]
            if time.thread_time() >= end:
                return rows

    def draw(self):
        """The next rows, and what should come out."""
        time.sleep(FETCH)
        self.settings.refresh()
        shard = self.number % N_SHARDS
        self.number += 1
        with open(os.path.join(SHARDS, f"shard-{shard}.txt"), "rb", buffering=0) as file:
            text = file.read(65536)
        if TOKENS.tokens_scan(text, len(text), self.settings["scan_stride"]) == 0:
            raise ValueError(f"shard {shard} is empty")
        self.errands.go_through(text)
        codes = self.cache.get((shard, self.number // 1000),
                               lambda: numpy.frombuffer(text, numpy.uint8).astype(numpy.float32) / 128)
        offsets = self.pick_offsets(len(codes))
        rows = numpy.stack([codes[o:o + WIDTH] for o in offsets])
        return self.blur(rows).astype(numpy.float32), numpy.stack([codes[o + WIDTH] for o in offsets])
