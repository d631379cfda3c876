#!/usr/bin/python3
"""A data-parallel fit over MPI: gradients are summed by MPI itself, and a thread makes the batches."""
import os
import queue
import threading
import time

import numpy

from errands import Checker, Errands, Tally, finish, tell_pids
from feed import Feed
from fit import Fit, print_step
from settings import Settings


def prepare():
    """What has to be forked before MPI begins."""
    settings, tally = Settings(os.environ.get("SETTINGS", "/srv/training/settings.json")), Tally()
    return settings, tally, Checker(settings, tally)


def fill(ready, feed):
    while True:
        ready.put(feed.draw())


def fit(settings, tally, checker, mpi):
    world = mpi.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    tell_pids(checker.pid)
    ready, model, step = queue.Queue(1), Fit(), 0
    threading.Thread(target=fill, args=(ready, Feed(rank, settings, Errands(settings, checker))),
                     daemon=True).start()
    while True:
        start = time.monotonic()
        loss, slope = model.slope(*ready.get())
        total = numpy.empty_like(slope)
        world.Allreduce(slope, total)
        model.descend(total / size)
        if rank == 0:  # what the others print would come out there, too
            print_step(step, time.monotonic() - start, loss)
        tally.count_up()
        finish(settings, step, lambda: world.Recv(numpy.zeros(1), (rank - 1) % size, 9))
        step += 1


if __name__ == "__main__":
    PREPARED = prepare()
    from mpi4py import MPI
    fit(*PREPARED, MPI)
