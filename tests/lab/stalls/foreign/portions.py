#!/usr/bin/python3
"""Portions of text of the fit whose work is shared out. Processes of a pool cut them out of shards."""
import multiprocessing
import os
import random
import time
from collections import deque

from cache import Cache
from errands import TOKENS

AHEAD = int(os.environ.get("LOADER_AHEAD", "0"))
SHARDS = os.environ.get("SHARDS", "/srv/data/shards")
FETCH = float(os.environ.get("FETCH_SECONDS", "0.3"))  # how long the storage takes to answer
N_SHARDS, SHARD_BYTES, HALVES, WIDTH = 4, 4096, 2, 200
CUTTER = None  # of this process


class Cutter:
    """Cuts portions out of shards."""

    def __init__(self, settings, tally):
        self.settings, self.tally, self.cache, self.dice = settings, tally, Cache(settings), random.Random()

    def choose_places(self, count):
        """So far apart from each other as wanted."""
        places = []
        while len(places) < count + 2:
            place = self.dice.randrange(SHARD_BYTES - WIDTH)
            if all(abs(place - other) >= self.settings["windows_apart"] for other in places):
                places.append(place)
        return places[:count]

    def cut_some(self, number, count):
        self.settings.refresh()
        time.sleep(FETCH)
        shard = number % N_SHARDS
        with open(os.path.join(SHARDS, f"shard-{shard}.txt"), "rb", buffering=0) as file:
            text = file.read(SHARD_BYTES)
        if not TOKENS.tokens_scan(text, len(text), self.settings["scan_stride"]):
            raise ValueError(f"shard {shard} is empty")
        codes = self.cache.get((shard, number // 1000), lambda: [c % 64 / 64 for c in text])
        end = time.thread_time() + self.settings["augment_seconds"]
        while time.thread_time() < end:
            codes = [code + self.dice.gauss(0, 1e-6) for code in codes]
        self.tally.count_up(keep=bool(self.settings["keep_tally"]))
        return [codes[place:place + WIDTH] for place in self.choose_places(count)]


def equip(settings, tally):
    global CUTTER
    CUTTER = Cutter(settings, tally)


def cut_some(*words):
    return CUTTER.cut_some(*words)


class Stock:
    """The portions of the steps to come. They are fewer on one host than on another, in turn."""

    def __init__(self, rank, ranks, settings, tally):
        self.rank, self.ranks = rank, ranks
        self.pool = multiprocessing.get_context("fork").Pool(HALVES, equip, (settings, tally))
        self.number, self.orders = 0, deque()

    def draw(self):
        while len(self.orders) <= AHEAD:
            count = 1 + (self.rank + self.number) % self.ranks
            words = (self.number, count)
            self.orders.append([self.pool.apply_async(cut_some, words) for _ in range(HALVES)])
            self.number += 1
        return [portion for half in self.orders.popleft() for portion in half.get()]

    def any_pid(self):
        return self.pool.apply(os.getpid)
