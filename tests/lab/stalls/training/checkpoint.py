"""Checkpoints: each rank keeps its own part, or the first rank all of it while the others wait."""
import os
import time

import torch
import torch.distributed as dist

FOLDER = os.environ.get("CHECKPOINTS")
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "0"))
SECONDS = float(os.environ.get("CHECKPOINT_SECONDS", "0"))  # what the storage's bandwidth makes of it
STYLES = os.environ.get("CHECKPOINT_STYLES", "sharded").split(",")
CHUNK = 65536


class Checkpoints:
    def __init__(self, rank):
        self.rank, self.path, self.saved = rank, os.path.join(FOLDER,
                                                              f"rank-{rank}.pt") if FOLDER else None, 0

    def maybe_save(self, step, model, optimizer):
        if not self.path or not EVERY or step % EVERY != EVERY - 1:
            return
        style = STYLES[self.saved % len(STYLES)]
        self.saved += 1
        if style == "sharded" or self.rank == 0:
            print(f"saving checkpoint of step {step} to {self.path}", flush=True)
            self.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()})
            print(f"saved a checkpoint at step {step}", flush=True)
        dist.barrier()

    def save(self, state):
        torch.save(state, self.path + ".new")
        self.upload(self.path + ".new")
        os.replace(self.path + ".new", self.path)

    def upload(self, path):
        """Copies the file to where it is kept, as fast as that takes it."""
        size = os.path.getsize(path)
        with open(path, "rb") as source, open(self.path + ".kept", "wb") as kept:
            while chunk := source.read(CHUNK):
                kept.write(chunk)
                kept.flush()
                os.fsync(kept.fileno())
                time.sleep(SECONDS * len(chunk) / size)
