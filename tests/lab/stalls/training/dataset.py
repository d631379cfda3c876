"""What the model is trained on: shards of text on a disk, tokens out of them, batches out of tokens."""
import os
import random
import time

import torch

from cache import Cache
from errands import TOKENS

SHARDS = os.environ.get("SHARDS", "/srv/data/shards")
N_SHARDS, BATCH, WINDOW = 4, 32, 24
FETCH = float(os.environ.get("FETCH_SECONDS", "0.5"))  # how long the storage takes to answer


class Dataset:
    def __init__(self, rank, settings, errands):
        self.settings, self.random, self.cache = settings, random.Random(rank), Cache(settings)
        self.number, self.errands = 0, errands

    def is_whole(self, text):
        """An empty shard, or one of zeros, is none."""
        return TOKENS.tokens_scan(text, len(text), self.settings["scan_stride"]) > 0

    @staticmethod
    def tokens_of(text):
        return torch.tensor([c % 64 for c in text])

    def windows(self, length):
        """Where the windows of a batch begin: so far apart from each other as wanted."""
        starts = []
        while len(starts) < BATCH:
            start = self.random.randrange(length - WINDOW - 1)
            if all(abs(start - s) >= self.settings["windows_apart"] for s in starts):
                starts.append(start)
        return starts

    def augment(self, x):
        """Noise: characters change places with others that look alike."""
        # of a processor: as slow on every machine
        end = time.thread_time() + self.settings["augment_seconds"]
        while True:
            noise = torch.rand(BATCH * 8, WINDOW * 8)
            x = torch.where(noise.sort().values[:BATCH, :WINDOW] > 2, x ^ 1, x)
            if time.thread_time() >= end:
                return x

    def next_batch(self):
        time.sleep(FETCH)
        shard = self.number % N_SHARDS
        self.number += 1
        with open(os.path.join(SHARDS, f"shard-{shard}.txt"), "rb", buffering=0) as file:
            text = file.read(65536)
        if not self.is_whole(text):
            raise ValueError(f"shard {shard} is empty")
        self.errands.go_through(text)
        codes = self.cache.get((shard, self.number // 1000), lambda: self.tokens_of(text))
        starts = self.windows(len(codes))
        x = torch.stack([codes[s:s + WINDOW] for s in starts])
        y = torch.stack([codes[s + 1:s + WINDOW + 1] for s in starts])
        return self.augment(x), y
