#!/usr/bin/python3
"""Rows of text of the pipeline. Run as a program it does one errand for the host's stage over its standard
input and output: "rows" gives batches, "pack" gives the packed form of what comes.
"""
import ctypes
import mmap
import os
import random
import struct
import sys
import time
import zlib

from cache import Cache
from errands import TOKENS, Tally
from settings import Settings

SHARDS = os.environ.get("SHARDS", "/srv/data/shards")
FETCH = float(os.environ.get("FETCH_SECONDS", "0.2"))  # how long the storage takes to answer
N_SHARDS, SHARD_BYTES = 4, 4096
PIECES, WIDTH = 4, 1024      # of a batch; numbers of a piece
SLOTS = 16                   # places of a piece that are left out
SIZE = struct.Struct("<I")


class Count(Tally):
    """The tally of another process."""

    def __init__(self, path):  # pylint: disable=super-init-not-called
        self.path = path
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.lock = (ctypes.c_char * TOKENS.tokens_shared_size()).from_buffer(self.memory)
        self.number = ctypes.c_uint64.from_buffer(self.memory, mmap.PAGESIZE // 2)


class Rows:
    def __init__(self, settings, seed):
        self.settings, self.dice, self.cache, self.number = settings, random.Random(seed), Cache(settings), 0

    def choose_slots(self):
        """So far apart from each other as wanted."""
        slots = []
        while len(slots) < SLOTS:
            slot = self.dice.randrange(WIDTH)
            if all(abs(slot - other) >= self.settings["windows_apart"] for other in slots):
                slots.append(slot)
        return slots

    def draw(self):
        """(bytes of a piece each, the places that are left out)"""
        self.settings.refresh()
        shard = self.number % N_SHARDS
        self.number += 1
        with open(os.path.join(SHARDS, f"shard-{shard}.txt"), "rb", buffering=0) as file:
            text = file.read(SHARD_BYTES)
        if not TOKENS.tokens_scan(text, len(text), self.settings["scan_stride"]):
            raise ValueError(f"shard {shard} is empty")
        codes = self.cache.get((shard, self.number // 1000), lambda: bytes(c % 128 for c in text))
        codes = (codes * (WIDTH // len(codes) + 1))[:WIDTH]
        return [codes[at:] + codes[:at] for at in range(PIECES)], self.choose_slots()


def exactly(size):
    data = sys.stdin.buffer.read(size)
    if len(data) < size:
        sys.exit(0)
    return data


def say(data):
    sys.stdout.buffer.write(SIZE.pack(len(data)) + data)
    sys.stdout.buffer.flush()


def give_rows(settings, tally):
    rows = Rows(settings, 0)
    while True:
        exactly(1)
        time.sleep(FETCH)
        pieces, slots = rows.draw()
        tally.count_up(keep=bool(settings["keep_tally"]))
        say(b"".join(pieces) + struct.pack(f"<{SLOTS}I", *slots))


def pack_up(settings, tally):
    while True:
        data = exactly(SIZE.unpack(exactly(SIZE.size))[0])
        settings.refresh()
        tally.count_up(keep=bool(settings["keep_tally"]))
        say(zlib.compress(data, 1))


if __name__ == "__main__":
    {"rows": give_rows, "pack": pack_up}[sys.argv[1]](Settings(sys.argv[2]), Count(sys.argv[3]))
