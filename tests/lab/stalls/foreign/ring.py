#!/usr/bin/python3
"""A data-parallel fit whose gradients go round a ring of plain sockets, half over each NIC; a forked process
makes the batches."""
import multiprocessing
import os
import socket
import time

import numpy

from errands import Errands, Tally, finish, tell_pids
from feed import Feed
from fit import Fit, print_step
from settings import Settings

RANK, HOSTS = int(os.environ["TPU_RUN_RANK"]), os.environ["PEERS"].split(",")
PORT = int(os.environ.get("RING_PORT", "7300"))
RAILS = ("", "-eth1")


def produce(batches, settings, tally):
    """In the forked process."""
    feed = Feed(RANK, settings, Errands(settings, None))
    while True:
        settings.refresh()
        tally.count_up(keep=bool(settings["keep_tally"]))
        batches.put(feed.draw())


def reach(name):
    while True:
        try:
            return socket.create_connection((name, PORT))
        except OSError:
            time.sleep(0.2)


class Ring:
    def __init__(self):
        listener = socket.create_server(("", PORT), reuse_port=True)
        right = HOSTS[(RANK + 1) % len(HOSTS)]
        self.right = []
        self.left = [None] * len(RAILS)
        for number, rail in enumerate(RAILS):
            self.right.append(reach(right + rail))
            self.right[-1].sendall(bytes([number]))
        for _ in RAILS:
            link, _ = listener.accept()
            self.left[link.recv(1)[0]] = link

    def pull(self, row):
        for link, part in zip(self.left, numpy.array_split(row, len(RAILS))):
            view = memoryview(part).cast("B")
            while view:
                n = link.recv_into(view)
                if n == 0:
                    raise ConnectionError("the rank before this one has closed the connection")
                view = view[n:]

    def carry_round(self, row):
        """The mean of all rows."""
        passing, total = row.copy(), row.copy()
        for _ in range(len(HOSTS) - 1):
            for link, part in zip(self.right, numpy.array_split(passing, len(RAILS))):
                link.sendall(part.tobytes())
            self.pull(passing)
            total += passing
        return total / len(HOSTS)


def fit():
    settings = Settings(os.environ.get("SETTINGS", "/srv/training/settings.json"))
    batches, tally = multiprocessing.SimpleQueue(), Tally()
    worker = multiprocessing.Process(target=produce, args=(batches, settings, tally), daemon=True)
    worker.start()
    tell_pids(worker.pid)
    ring, model, step = Ring(), Fit(), 0
    while True:
        start = time.monotonic()
        loss, slope = model.slope(*batches.get())
        model.descend(ring.carry_round(slope))
        print_step(step, time.monotonic() - start, loss)
        tally.count_up()
        finish(settings, step, lambda: ring.pull(numpy.zeros(model.size, numpy.float32)))
        step += 1


if __name__ == "__main__":
    fit()
