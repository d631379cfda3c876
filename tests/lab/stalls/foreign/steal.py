#!/usr/bin/python3
"""A fit whose work is shared out anew in each step. A host that has nothing left to do asks the others for
some of theirs, and then all tell all what came out, in two turns with another host each. Neighbours are one
apart and talk over eth0, the others over eth1. Batches come from a pool of processes.
"""
import contextlib
import fcntl
import os
import pickle
import queue
import selectors
import socket
import struct
import subprocess
import threading
import time
from collections import deque

from errands import BLOCK, JOURNAL, NAME, STORAGE, TOKENS, TOOL, TOOL_EVERY, Tally, finish, tell_pids
from portions import Stock
from settings import Settings

RANK, HOSTS = int(os.environ["TPU_RUN_RANK"]), os.environ["PEERS"].split(",")
N = len(HOSTS)
PORT = int(os.environ.get("STEAL_PORT", "7800"))
TAKES = 0.03       # seconds of an accelerator for one portion
SIZE = struct.Struct("<I")


class Wires:
    """One connection to each other host. A thread reads them all; messages are pickled tuples of a tag and
    a body, and who wants one takes it out of a box by its tag."""

    def __init__(self, asked):
        self.asked, self.links, self.parts, self.boxes = asked, {}, {}, {}
        self.locks, self.news, self.lost = [threading.Lock() for _ in HOSTS], threading.Condition(), False
        self.selector = selectors.DefaultSelector()

    def meet(self):
        door = socket.create_server(("", PORT), backlog=N)
        for rank in range(RANK):
            self.links[rank] = reach(HOSTS[rank] + ("" if near(rank) else "-eth1"), PORT)
            self.links[rank].sendall(bytes([RANK]))
        while len(self.links) < N - 1:
            link, _ = door.accept()
            self.links[link.recv(1)[0]] = link
        for rank, link in self.links.items():
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.parts[rank] = bytearray()
            self.selector.register(link, selectors.EVENT_READ, rank)
        threading.Thread(target=self.attend, daemon=True).start()

    def post(self, rank, tag, body):
        data = pickle.dumps((tag, body))
        with self.locks[rank]:
            self.links[rank].sendall(SIZE.pack(len(data)) + data)

    def attend(self):
        while True:
            for key, _ in self.selector.select():
                try:
                    data = key.fileobj.recv(65536)
                except OSError:
                    data = b""
                self.take_apart(key.data, data)
                if not data:
                    self.selector.unregister(key.fileobj)

    def take_apart(self, rank, data):
        held = self.parts[rank]
        held += data
        with self.news:
            self.lost = self.lost or not data
            self.news.notify_all()
        while len(held) >= SIZE.size and len(held) >= (end := SIZE.size + SIZE.unpack_from(held)[0]):
            tag, body = pickle.loads(held[SIZE.size:end])
            del held[:end]
            if tag == "any":
                self.asked.put((rank, *body))
            else:
                with self.news:
                    self.boxes[rank, tag] = body
                    self.news.notify_all()

    def pick(self, rank, tag):
        with self.news:
            while (rank, tag) not in self.boxes:
                if self.lost:
                    raise ConnectionError("another host has left")
                self.news.wait()
            return self.boxes.pop((rank, tag))


class Crew:
    """Threads that do what stands in a queue, and one that answers other hosts."""

    def __init__(self, settings):
        self.settings, self.jobs, self.asked = settings, queue.Queue(), queue.Queue()
        self.shelf, self.step, self.sums, self.weight, self.store = deque(), -1, [], 0.5, None
        self.wires = Wires(self.asked)

    def begin(self):
        for target in (self.labour, self.labour, self.reply):
            threading.Thread(target=target, daemon=True).start()

    def labour(self):
        while True:
            function, *words = self.jobs.get()
            function(*words)
            self.jobs.task_done()

    def reply(self):
        while True:
            rank, tag, step = self.asked.get()
            mine = self.shelf.pop() if step == self.step and len(self.shelf) > 1 else None
            self.wires.post(rank, tag, mine)

    def from_shelf(self):
        with contextlib.suppress(IndexError):  # another host has it
            self.work_on(self.shelf.popleft())

    def work_on(self, portion):
        TOKENS.tokens_account(len(portion), int(self.settings["accounts_reversed"]))
        time.sleep(TAKES)
        off = [(x, self.weight * x - y) for x, y in zip(portion, portion[1:])]
        self.sums.append((sum(x * e for x, e in off) / len(off), sum(e * e for _, e in off) / len(off)))

    @staticmethod
    def note(step):
        with open(JOURNAL, "a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(f"{step}\n")

    @staticmethod
    def find():
        while True:
            try:
                return socket.getaddrinfo(NAME, None, socket.AF_INET)
            except socket.gaierror:
                time.sleep(0.1)

    def ask_storage(self, step):
        if not self.store:
            self.store = socket.create_connection(STORAGE.split(":"))
        self.store.sendall(step.to_bytes(4, "little"))
        self.store.recv(BLOCK, socket.MSG_WAITALL)

    def do_own(self, step, portions):
        self.sums = []
        self.shelf.extend(portions)
        self.step = step
        jobs = [(self.from_shelf,)] * len(portions) + [(self.note, step)] * (step % 2)
        jobs += [(self.ask_storage, step)] * bool(STORAGE and step % 3 == 0)
        jobs += [(self.find,)] * bool(NAME and step % 3 == 1)
        jobs += [(subprocess.run, ["/bin/sh", TOOL, str(step)])] * (step % TOOL_EVERY == 0)
        for job in jobs:
            self.jobs.put(job)
        self.jobs.join()

    def do_others(self, step):
        """What the others have not begun yet."""
        for far in range(1, N):
            rank, tag, got = (RANK + far) % N, 0, True
            while got:
                self.wires.post(rank, "any", (("given", step, tag), step))
                got = self.wires.pick(rank, ("given", step, tag))
                tag += 1
                if got:
                    self.work_on(got)

    def tell_all(self, step):
        known, far, turn = {RANK: self.sums}, 1, 0
        while far < N:
            self.wires.post((RANK + far) % N, (step, turn), known)
            known = {**known, **self.wires.pick((RANK - far) % N, (step, turn))}
            far, turn = 2 * far, turn + 1
        return [pair for rank in sorted(known) for pair in known[rank]]

    def go_round(self, step, portions):
        self.do_own(step, portions)
        self.do_others(step)
        sums = self.tell_all(step)
        self.weight -= 0.1 * sum(slope for slope, _ in sums) / len(sums)
        return sum(loss for _, loss in sums) / len(sums)


def near(rank):
    return (rank - RANK) % N in (1, N - 1)


def reach(name, port):
    while True:
        try:
            return socket.create_connection((name, port))
        except OSError:
            time.sleep(0.2)


class Pulse:
    """A word to the next host each second, which gives it back."""

    def __init__(self):
        self.door, self.late = socket.create_server(("", PORT + 1)), 0
        for target in (self.give_back, self.beat):
            threading.Thread(target=target, daemon=True).start()

    def give_back(self):
        link, _ = self.door.accept()
        with contextlib.suppress(OSError):
            while data := link.recv(8):
                link.sendall(data)

    def beat(self):
        link = reach(HOSTS[(RANK + 1) % N] + "-eth1", PORT + 1)
        link.settimeout(3)
        link.sendall(bytes(8))
        while True:
            try:
                if not link.recv(8):
                    return
                time.sleep(1)
                link.sendall(bytes(8))
            except TimeoutError:
                self.late += 1
            except OSError:
                return


def fit():
    settings, tally = Settings(os.environ.get("SETTINGS", "/srv/training/settings.json")), Tally()
    stock, crew, step = Stock(RANK, N, settings, tally), Crew(settings), 0
    tell_pids(stock.any_pid())
    crew.wires.meet()
    Pulse()
    crew.begin()
    while True:
        start = time.monotonic()
        loss = crew.go_round(step, stock.draw())
        seconds = time.monotonic() - start
        print(f"completed step: {step}, seconds: {seconds:.3f}, loss: {loss:.4f}", flush=True)
        tally.count_up()
        finish(settings, step, lambda: crew.wires.pick((RANK - 1) % N, "more"))
        step += 1


if __name__ == "__main__":
    fit()
