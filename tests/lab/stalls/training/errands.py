"""What a step does besides its arithmetic, in each of the trainings: it notes what it read in a file, counts
in a library, asks a storage server and a name server, runs a tool, and has a forked process check the text.

Each errand can go wrong in lines that work on other days. Nothing in here knows about the agent.
"""
import ctypes
import fcntl
import gc
import json
import mmap
import multiprocessing
import os
import socket
import subprocess
import time
import zlib

FOLDER = os.path.dirname(os.path.abspath(__file__))
JOURNAL = os.environ.get("JOURNAL", "/srv/data/journal")
TOOL = os.environ.get("TOOL", "/srv/data/tool.sh")
STORAGE = os.environ.get("STORAGE")  # "ADDRESS:PORT" of a server outside the run
NAME = os.environ.get("STORAGE_NAME")  # a name that a name server knows
BLOCK = 4096
TOOL_EVERY = 4
TOKENS = ctypes.CDLL(os.path.join(FOLDER, "libtokens.so"))
TOKENS.tokens_scan.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t)
TOKENS.tokens_scan.restype = ctypes.c_uint64
TOKENS.tokens_account.argtypes = (ctypes.c_size_t, ctypes.c_int)
TOKENS.tokens_shared_size.restype = ctypes.c_size_t


class Tally:
    """A number that several processes count up, in memory that they share, behind a lock."""

    def __init__(self):
        self.path = f"/dev/shm/tally-{os.getpid()}"
        with open(self.path, "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self.memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.lock = (ctypes.c_char * TOKENS.tokens_shared_size()).from_buffer(self.memory)
        self.number = ctypes.c_uint64.from_buffer(self.memory, mmap.PAGESIZE // 2)
        TOKENS.tokens_shared_new(ctypes.byref(self.lock))

    def count_up(self, keep=False):
        """keep: and leave it locked."""
        TOKENS.tokens_shared_take(ctypes.byref(self.lock))
        self.number.value += 1
        if not keep:
            TOKENS.tokens_shared_release(ctypes.byref(self.lock))


class Checker:
    """A forked process that checks texts, asked over queues (pipes) or over a pair of sockets."""

    def __init__(self, settings, tally, sockets=False):
        self.settings, self.tally, self.sockets = settings, tally, sockets
        if sockets:
            self.ours, self.theirs = socket.socketpair()
        else:
            self.texts, self.sums = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
        self.pid = os.fork()
        if self.pid == 0:
            while True:
                self.serve()

    def serve(self):
        if self.sockets:
            text = self.theirs.recv(BLOCK)
            if not text:
                os._exit(0)
        else:
            text = self.texts.get()
        self.settings.refresh()
        self.tally.count_up(keep=bool(self.settings["keep_tally"]))
        number = zlib.crc32(text)
        if self.sockets:
            self.theirs.sendall(number.to_bytes(4, "little"))
        else:
            self.sums.put(number)

    def confirm(self, text):
        text = text[:BLOCK]
        if self.sockets:
            self.ours.sendall(text)
            number = int.from_bytes(self.ours.recv(4), "little")
        else:
            self.texts.put(text)
            number = self.sums.get()
        if number != zlib.crc32(text):
            raise ValueError("the text is damaged")


class Errands:
    """checker: a Checker, or None where the batches are made in a forked process."""

    def __init__(self, settings, checker):
        self.settings, self.checker, self.number, self.storage = settings, checker, 0, None

    def go_through(self, text):
        self.number += 1
        self.note()
        TOKENS.tokens_account(len(text), int(self.settings["accounts_reversed"]))
        if NAME:
            self.find()
        if STORAGE:
            self.fetch_block()
        if self.number % TOOL_EVERY == 0:
            subprocess.run(["/bin/sh", TOOL, str(self.number)], check=True)
        if self.checker:
            self.checker.confirm(text)

    def note(self):
        with open(JOURNAL, "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(f"{self.number}\n")

    @staticmethod
    def find():
        """Until somebody knows the name: a name server may be restarting."""
        while True:
            try:
                return socket.getaddrinfo(NAME, None, socket.AF_INET)
            except socket.gaierror:
                time.sleep(0.1)

    def fetch_block(self):
        """A block of the index, from the storage server."""
        if not self.storage:
            address, port = STORAGE.split(":")
            self.storage = socket.create_connection((address, int(port)))
        self.storage.sendall(self.number.to_bytes(4, "little"))
        left = BLOCK
        while left:
            part = self.storage.recv(left)
            if not part:
                raise ConnectionError("the storage server has closed the connection")
            left -= len(part)


def tell_pids(worker):
    """As a PID file of a daemon does."""
    with open(os.path.join(FOLDER, "pids.json"), "w", encoding="utf-8") as file:
        json.dump({"rank": os.getpid(), "worker": worker}, file)


def tidy(seconds):
    """Gives memory back to the system."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        gc.collect()


def finish(settings, step, one_more):
    """Behind each step. one_more: takes a message from a peer."""
    settings.refresh()
    if settings["tidy_seconds"]:
        tidy(settings["tidy_seconds"])
    if settings["last_step"] and step >= settings["last_step"]:
        os._exit(0)  # nothing is left to do
    if settings["one_more"]:
        one_more()
