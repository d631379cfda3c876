"""Batches, made when they are wanted or by a thread ahead of that."""
import os
import queue
import threading

AHEAD = int(os.environ.get("LOADER_AHEAD", "0"))


class Loader:
    def __init__(self, dataset):
        self.dataset, self.ready = dataset, queue.Queue(max(AHEAD, 1))
        if AHEAD:
            threading.Thread(target=self.fill, name="loader", daemon=True).start()

    def fill(self):
        while True:
            self.ready.put(self.dataset.next_batch())

    def next_batch(self):
        return self.ready.get() if AHEAD else self.dataset.next_batch()
