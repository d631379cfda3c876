"""Batches, made when they are wanted, by a thread ahead of that, or by a forked process."""
import os
import queue
import threading

from torch.utils.data import DataLoader, IterableDataset

AHEAD = int(os.environ.get("LOADER_AHEAD", "0"))
WORKERS = int(os.environ.get("LOADER_WORKERS", "0"))


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


class Stream(IterableDataset):
    """The batches as torch's DataLoader wants them, made in its worker."""

    def __init__(self, dataset, tally):
        super().__init__()
        self.dataset, self.tally = dataset, tally

    def __iter__(self):
        while True:
            self.dataset.settings.refresh()
            self.tally.count_up(keep=bool(self.dataset.settings["keep_tally"]))
            yield self.dataset.next_batch()


class Forked:
    """One worker forked by torch's DataLoader."""

    def __init__(self, dataset, tally):
        self.batches = iter(DataLoader(Stream(dataset, tally), batch_size=None, num_workers=WORKERS))
        self.pid = self.batches._workers[0].pid

    def next_batch(self):
        return next(self.batches)
