#!/usr/bin/python3
"""A small, real data-parallel training: a character model under torch's DistributedDataParallel, gloo over
eth0.

Rank, peers and rendezvous come from the environment that the agent gives a run (RANK, WORLD_SIZE,
MASTER_ADDR and
MASTER_PORT, else TPU_WORKER_ID and TPU_WORKER_HOSTNAMES), so that a wrong environment is a training that
does not
start. Each rank prints MaxText's step line. With CHECKPOINTS=DIR each rank keeps the model there, and a new
start goes
on from the newest that any rank has. Nothing in here knows about the agent.
"""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TEXT = "the host is right, the run goes on, the stall has a name. " * 40
BATCH, WINDOW, WIDTH = 32, 24, 96
# data loading, so that a step takes its time on any machine
PAUSE = float(os.environ.get("STEP_PAUSE", "0.1"))
CHECKPOINTS = os.environ.get("CHECKPOINTS")
EVERY = int(os.environ.get("CHECKPOINT_EVERY", "20"))


class Loader:
    def __init__(self, rank):
        self.codes = torch.tensor([ord(c) % 64 for c in TEXT])
        self.generator = torch.Generator().manual_seed(rank)

    def next_batch(self):
        time.sleep(PAUSE)
        starts = torch.randint(0, len(self.codes) - WINDOW - 1, (BATCH,), generator=self.generator)
        x = torch.stack([self.codes[s:s + WINDOW] for s in starts])
        y = torch.stack([self.codes[s + 1:s + WINDOW + 1] for s in starts])
        return x, y


def build_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Embedding(64, WIDTH), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64))


def train_step(model, optimizer, loader):
    x, y = loader.next_batch()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()  # gradients are averaged over all ranks in here
    optimizer.step()
    return float(loss), x.numel()


def join():
    """Returns (rank, world)."""
    if "RANK" in os.environ:
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        where = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    else:
        hosts = os.environ["TPU_WORKER_HOSTNAMES"].split(",")
        rank, world, where = int(os.environ["TPU_WORKER_ID"]), len(hosts), f"tcp://{hosts[0]}:29500"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=world,
                            timeout=datetime.timedelta(minutes=30))
    return rank, world


class Checkpoints:
    """This rank's own copies of model and optimizer; whole files alone have the name."""

    def __init__(self, folder, rank):
        self.path = os.path.join(folder, f"rank-{rank}.pt") if folder else None

    def save(self, step, model, optimizer):
        if self.path:
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
                       self.path + ".new")
            os.replace(self.path + ".new", self.path)
            print(f"saved a checkpoint at step {step}", flush=True)

    def load(self, model, optimizer):
        """Returns the step to begin with: behind the newest that any rank has, and that is every rank's
        model then."""
        mine = torch.load(self.path) if self.path and os.path.exists(self.path) else {"step": -1}
        steps = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(steps, torch.tensor([float(mine["step"])]))
        newest = max(int(s) for s in steps)
        if newest < 0:
            return 0
        source = next(r for r, s in enumerate(steps) if int(s) == newest)
        state = [mine if dist.get_rank() == source else None]
        dist.broadcast_object_list(state, src=source)
        model.load_state_dict(state[0]["model"])
        optimizer.load_state_dict(state[0]["optimizer"])
        print(f"resumed from the checkpoint of step: {newest}", flush=True)
        return newest + 1


def train(steps):
    torch.set_num_threads(1)
    ending = []
    if CHECKPOINTS:  # told to end: the step is finished and kept first
        signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    rank, world = join()
    loader = Loader(rank)
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    checkpoints = Checkpoints(CHECKPOINTS, rank)
    first = checkpoints.load(model, optimizer)
    model = DistributedDataParallel(model)
    for step in range(first, steps):
        start = time.monotonic()
        loss, tokens = train_step(model, optimizer, loader)
        seconds = time.monotonic() - start
        print(f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 0.000, "
              f"Tokens/s/device: {tokens / seconds:.3f}, total_weights: {tokens * world}, loss: {loss:.3f}",
              flush=True)
        if ending or step % EVERY == EVERY - 1:
            checkpoints.save(step, model.module, optimizer)
        if ending:
            sys.exit(143)


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 100000)
