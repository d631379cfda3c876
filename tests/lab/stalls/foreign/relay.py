#!/usr/bin/python3
"""A loop of one's own, of NumPy and the standard library. The main thread reckons and hands each layer's
gradients to an event loop in another thread. Batches come from a pool of processes over shared memory.
Threads do the errands beside each step, write checkpoints, write the log and wait for signals."""
import logging
import logging.handlers
import os
import queue
import signal
import socket
import sys
import threading
import time

import numpy

from errands import Errands, Tally, finish, tell_pids
from samples import CODES, WINDOW, Samples
from settings import Settings
from wires import Wires

RANK, HOSTS = int(os.environ["TPU_RUN_RANK"]), os.environ["PEERS"].split(",")
FOLDER = os.environ.get("CHECKPOINTS") or f"/srv/training/relay/{os.environ.get('TPU_RUN_NAME', 'alone')}"
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "10"))
SECONDS = float(os.environ.get("CHECKPOINT_SECONDS", "0"))  # what the storage's bandwidth makes of it
CHUNK = 65536
LOOK, HIDDEN, RATE = 6, 128, 0.5   # characters that it looks back
SLABS = 3                          # of the first layer's rows, a bucket each
LOG = logging.getLogger("relay")


class Model:
    """The next character out of some before it: a hidden layer and a softmax. Bucket 0 of its weights is the
    second layer, whose gradients are known first; the others are slabs of the first one."""

    def __init__(self):
        size = HIDDEN * CODES * (1 + LOOK)
        self.weights = numpy.random.default_rng(1).normal(0, 0.05, size).astype(numpy.float32)
        self.buckets = numpy.split(self.weights, [HIDDEN * CODES * (1 + n * LOOK // SLABS)
                                                  for n in range(SLABS)])
        self.second = self.buckets[0].reshape(HIDDEN, CODES)
        self.first = self.weights[HIDDEN * CODES:].reshape(LOOK * CODES, HIDDEN)
        self.loss = 0.0

    @staticmethod
    def questions(rows):
        """(characters before, as ones among zeros; the character that follows)"""
        ends = range(LOOK, WINDOW, LOOK)
        before = numpy.concatenate([rows[:, end - LOOK:end] for end in ends])
        ones = numpy.eye(CODES, dtype=numpy.float32)[before].reshape(len(before), LOOK * CODES)
        return ones, numpy.concatenate([rows[:, end] for end in ends])

    def gradients(self, rows):
        """One bucket after the other."""
        ones, wanted = self.questions(rows)
        hidden = numpy.tanh(ones @ self.first)
        scores = hidden @ self.second
        guess = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        guess /= guess.sum(axis=1, keepdims=True)
        line = numpy.arange(len(wanted))
        self.loss = float(-numpy.log(guess[line, wanted] + 1e-9).mean())
        guess[line, wanted] -= 1
        guess /= len(wanted)
        yield (hidden.T @ guess).ravel()
        back = (guess @ self.second.T) * (1 - hidden ** 2)
        for slab in numpy.split(ones, SLABS, axis=1):
            yield (slab.T @ back).ravel()

    def improve(self, bucket, gradient):
        self.buckets[bucket] -= RATE * gradient


class Keeper:
    """Writes checkpoints in a thread, always the newest: who trains does not wait."""

    def __init__(self, folder):
        self.path, self.last, self.wanted = os.path.join(folder, f"rank-{RANK}.weights"), None, False
        self.news, self.writing = threading.Condition(), threading.Lock()
        os.makedirs(folder, exist_ok=True)
        threading.Thread(target=self.write_on, name="keeper", daemon=True).start()

    def look_up(self, weights):
        """(the step to go on with, weights)"""
        try:
            kept = numpy.fromfile(self.path, numpy.float32)
        except FileNotFoundError:
            return 0, weights
        return int(kept[0]) + 1, kept[1:]

    def hear_of(self, step, weights):
        with self.news:
            self.last = numpy.concatenate([[step], weights]).astype(numpy.float32)
            self.wanted = self.wanted or step % EVERY == EVERY - 1
            self.news.notify()

    def write_on(self):
        while True:
            with self.news:
                self.news.wait_for(lambda: self.wanted)
                self.wanted, last = False, self.last
            with self.writing:
                self.write_down(last, SECONDS)

    def write_down(self, state, seconds):
        data = state.tobytes()
        with open(self.path + ".new", "wb") as file:
            for at in range(0, len(data), CHUNK):
                file.write(data[at:at + CHUNK])
                file.flush()
                os.fsync(file.fileno())
                time.sleep(seconds * CHUNK / len(data))
        os.replace(self.path + ".new", self.path)

    def write_last(self):
        """Unless one is being written."""
        if self.last is not None and self.writing.acquire(blocking=False):
            self.write_down(self.last, 0)


class Sideline:
    """The errands of a step, in a thread while the step is reckoned. Both meet before the next one."""

    def __init__(self, errands):
        self.errands, self.texts, self.both = errands, queue.SimpleQueue(), threading.Barrier(2)
        threading.Thread(target=self.keep_up, name="sideline", daemon=True).start()

    def keep_up(self):
        try:
            while True:
                self.errands.go_through(self.texts.get())
                self.both.wait()
        except Exception:
            LOG.exception("an errand has failed")
            self.both.abort()


class Relay:
    def __init__(self, settings, tally, samples):
        self.settings, self.tally, self.samples = settings, tally, samples
        self.model, self.keeper, self.wires = Model(), Keeper(FOLDER), Wires(RANK, HOSTS)
        self.sideline = Sideline(Errands(settings, None))
        self.once, self.rope = threading.Lock(), None

    def pick_up(self):
        """Where the run was before, as the rank knows that has the newest checkpoint."""
        self.wires.hand_over(self.wires.gather_round()).result()
        kept = self.keeper.look_up(self.model.weights)
        step, self.model.weights[:] = self.wires.hand_over(self.wires.newest_of_all(*kept)).result()
        self.samples.number = step
        LOG.info("begin with step %d", step)
        return step

    def one_step(self, step):
        rows = self.samples.next_rows()
        self.sideline.texts.put(rows.tobytes())
        sums = [self.wires.hand_over(self.wires.sum_up(step, bucket, gradient))
                for bucket, gradient in enumerate(self.model.gradients(rows))]
        for bucket, total in enumerate(sums):
            self.model.improve(bucket, total.result() / len(HOSTS))
        self.sideline.both.wait()

    def extra_piece(self):
        return self.wires.hand_over(self.wires.extra_piece()).result()

    def train_on(self):
        step = self.pick_up()
        while True:
            start, self.wires.step = time.monotonic(), step
            self.one_step(step)
            LOG.info("completed step: %d, seconds: %.3f, loss: %.4f, heard of: %d", step,
                     time.monotonic() - start, self.model.loss, self.wires.gossip.still_there())
            self.tally.count_up()
            self.keeper.hear_of(step, self.model.weights)
            finish(self.settings, step, self.extra_piece)
            step += 1

    def go_home(self, listener, word, error=None):
        """Of the threads that want to, the second waits for the end here."""
        with self.once:
            LOG.log(logging.ERROR if error else logging.INFO, word, exc_info=error)
            try:
                self.samples.give_up()
                self.keeper.write_last()
                listener.stop()
            finally:
                os._exit(1 if error else 0)  # threads may wait for what does not come

    def heed_signals(self, listener):
        """Also while the main thread waits in a library: a byte comes for each signal."""
        bell, self.rope = socket.socketpair()
        self.rope.setblocking(False)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(self.rope.fileno())

        def stand_by():
            bell.recv(1)
            self.go_home(listener, "told to stop")
        threading.Thread(target=stand_by, name="signals", daemon=True).start()


def log_from_a_thread():
    lines = queue.SimpleQueue()
    out = logging.StreamHandler(sys.stdout)
    out.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(threadName)s: %(message)s"))
    logging.getLogger().addHandler(logging.handlers.QueueHandler(lines))
    logging.getLogger().setLevel(logging.INFO)
    listener = logging.handlers.QueueListener(lines, out)
    listener.start()
    return listener


def take_part():
    settings, tally = Settings(os.environ.get("SETTINGS", "/srv/training/settings.json")), Tally()
    samples = Samples(RANK, settings, tally)
    tell_pids(samples.fork_decoders())
    listener = log_from_a_thread()
    relay = Relay(settings, tally, samples)
    relay.heed_signals(listener)
    try:
        relay.train_on()
    except Exception as error:
        relay.go_home(listener, "cannot go on", error)


if __name__ == "__main__":
    take_part()
