#!/usr/bin/python3
"""A fit over gRPC. Rank 0 sums even buckets of gradients, asked over eth0; rank 1 odd ones, over
eth1. Each answers once all ranks' parts have come. Two processes load batches, handed over by ZeroMQ."""
import logging
import multiprocessing
import os
import socket
import struct
import threading
import time
from concurrent import futures

import grpc
import numpy
import zmq

from errands import Checker, Errands, Tally, finish, tell_pids
from feed import ROWS, WIDTH, Feed
from fit import Fit
from settings import Settings

RANK, HOSTS = int(os.environ["TPU_RUN_RANK"]), os.environ["PEERS"].split(",")
PORT = int(os.environ.get("HUB_PORT", "7800"))
PLACES, BUCKETS, LOADERS, AHEAD = (HOSTS[0], HOSTS[1] + "-eth1"), 4, 2, 2  # places: of those who sum
ADD, HEAD = "/hub.Sums/Add", struct.Struct("<QI")  # step, bucket
LOG = logging.getLogger("hub")


class Sums(grpc.GenericRpcHandler):
    """An answer waits in its thread for the other ranks' parts."""

    def __init__(self):
        self.come, self.parts = threading.Condition(), {}
        self.server = grpc.server(futures.ThreadPoolExecutor((BUCKETS + 1) * len(HOSTS)), handlers=[self])
        self.server.add_insecure_port(f"0.0.0.0:{PORT}")
        self.server.start()

    def service(self, handler_call_details):
        if handler_call_details.method == ADD:
            return grpc.unary_unary_rpc_method_handler(self.add_part)

    def add_part(self, request, _context):
        key = HEAD.unpack_from(request)
        with self.come:
            parts = self.parts.setdefault(key, [])
            parts.append(numpy.frombuffer(request, numpy.float32, offset=HEAD.size))
            if len(parts) == len(HOSTS):
                del self.parts[key]
                self.come.notify_all()
            self.come.wait_for(lambda: len(parts) == len(HOSTS))
        return sum(parts).tobytes()


class Asker:
    def __init__(self):
        channels = [grpc.insecure_channel(f"ipv4:{socket.gethostbyname(p)}:{PORT}") for p in PLACES]
        self.add = [c.unary_unary(ADD) for c in channels]

    def ask_for(self, step, bucket, part, place):
        return self.add[place].future(HEAD.pack(step, bucket) + part.tobytes(), wait_for_ready=True)

    def sum_up(self, step, row):
        asked = [self.ask_for(step, number, part, number % len(PLACES))
                 for number, part in enumerate(numpy.array_split(row, BUCKETS))]
        return numpy.concatenate([numpy.frombuffer(a.result(), numpy.float32) for a in asked])

    def one_more(self):
        self.ask_for(0, BUCKETS, numpy.zeros(2, numpy.float32), 0 if RANK else 1).result()


def produce(place, seed, settings, tally):
    """In a process that loads: a batch for each message that wants one."""
    feed = Feed(seed, settings, Errands(settings, Checker(settings, tally)))
    link = zmq.Context().socket(zmq.PAIR)
    link.connect(place)
    while True:
        link.recv()
        rows, wanted = feed.draw()
        link.send_multipart([rows.tobytes(), wanted.tobytes()])


class Batches:
    """From the loaders in turn; each makes two ahead."""

    def __init__(self, settings, tally):
        self.links, self.loaders = [], []
        places = [f"ipc://@hub-{os.getpid()}-{i}" for i in range(LOADERS)]
        for number, place in enumerate(places):
            words = (place, LOADERS * RANK + number, settings, tally)
            self.loaders.append(multiprocessing.Process(target=produce, args=words, daemon=True))
            self.loaders[-1].start()
        for place in places:  # once all are forked: sockets have threads
            self.links.append(zmq.Context.instance().socket(zmq.PAIR))
            self.links[-1].bind(place)
            for _ in range(AHEAD):
                self.links[-1].send(b"")

    def draw(self, step):
        link = self.links[step % LOADERS]
        rows, wanted = (numpy.frombuffer(part, numpy.float32) for part in link.recv_multipart())
        link.send(b"")
        return rows.reshape(ROWS, WIDTH), wanted


def fit(settings, tally, batches):
    _sums, asker, model, step = RANK < len(PLACES) and Sums(), Asker(), Fit(), 0
    while True:
        start = time.monotonic()
        loss, slope = model.slope(*batches.draw(step))
        model.descend(asker.sum_up(step, slope) / len(HOSTS))
        LOG.info("completed step: %d, seconds: %.3f, loss: %.4f", step, time.monotonic() - start, loss)
        tally.count_up()
        finish(settings, step, asker.one_more)
        step += 1


def take_part():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings, tally = Settings(os.environ.get("SETTINGS", "/srv/training/settings.json")), Tally()
    batches = Batches(settings, tally)
    tell_pids(batches.loaders[0].pid)
    try:
        fit(settings, tally, batches)
    except grpc.RpcError as error:
        LOG.error("a sum has failed: %s", error.details())
        os._exit(1)  # threads that wait for parts would keep it


if __name__ == "__main__":
    take_part()
