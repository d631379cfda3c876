#!/usr/bin/python3
"""A data-parallel fit with a keeper: the first rank has the weights, the others fetch them over eth0 and
hand gradients back over eth1. The keeper serves them one after the other, and watches the loss on rows of its
own.
"""
import os
import socket
import time

import numpy

from errands import Checker, Errands, Tally, finish, tell_pids
from feed import Feed
from fit import Fit, print_step
from settings import Settings

RANK, HOSTS = int(os.environ["TPU_RUN_RANK"]), os.environ["PEERS"].split(",")
PORT = int(os.environ.get("STAR_PORT", "7400"))
ASK = b"weights?"


def take_all(link, size):
    data = bytearray(size)
    view = memoryview(data)
    while view:
        n = link.recv_into(view)
        if n == 0:
            raise ConnectionError("the other end has closed the connection")
        view = view[n:]
    return bytes(data)


def reach(name):
    while True:
        try:
            return socket.create_connection((name, PORT))
        except OSError:
            time.sleep(0.2)


class Keeper:
    def __init__(self, model):
        self.model, self.asks, self.slopes = model, {}, {}
        listener = socket.create_server(("", PORT), reuse_port=True)
        while len(self.asks) + len(self.slopes) < 2 * (len(HOSTS) - 1):
            link, _ = listener.accept()
            rank, which = link.recv(2)
            (self.slopes if which else self.asks)[rank] = link

    def go_round(self, rows, wanted):
        loss, _ = self.model.slope(rows, wanted)
        weights = self.model.weights().astype(numpy.float32).tobytes()
        for _, link in sorted(self.asks.items()):
            take_all(link, len(ASK))
            link.sendall(weights)
        total = sum(numpy.frombuffer(take_all(link, len(weights)), numpy.float32)
                    for _, link in sorted(self.slopes.items()))
        self.model.descend(total / len(self.slopes))
        return loss

    def one_more(self):
        take_all(self.slopes[1], 8)


class Hand:
    def __init__(self, model):
        self.model = model
        self.ask, self.slope = reach(HOSTS[0]), reach(HOSTS[0] + "-eth1")
        self.ask.sendall(bytes([RANK, 0]))
        self.slope.sendall(bytes([RANK, 1]))

    def go_round(self, rows, wanted):
        self.ask.sendall(ASK)
        weights = take_all(self.ask, 4 * self.model.size)
        self.model.set_weights(numpy.frombuffer(weights, numpy.float32))
        loss, slope = self.model.slope(rows, wanted)
        self.slope.sendall(slope.tobytes())
        return loss

    def one_more(self):
        take_all(self.ask, 8)


def fit():
    settings, tally = Settings(os.environ.get("SETTINGS", "/srv/training/settings.json")), Tally()
    checker = Checker(settings, tally, sockets=True)
    tell_pids(checker.pid)
    feed = Feed(RANK, settings, Errands(settings, checker))
    model, step = Fit(), 0
    part = Hand(model) if RANK else Keeper(model)
    while True:
        start = time.monotonic()
        rows, wanted = feed.draw()
        loss = part.go_round(rows, wanted)
        print_step(step, time.monotonic() - start, loss)
        tally.count_up()
        finish(settings, step, part.one_more)
        step += 1


if __name__ == "__main__":
    fit()
