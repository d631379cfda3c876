#!/usr/bin/python3
"""A small, real data-parallel training: a character model under torch's DistributedDataParallel, gloo over eth0.

Rank, peers and rendezvous come from the environment that the agent gives a run (TPU_WORKER_ID,
TPU_WORKER_HOSTNAMES), so that a wrong environment is a training that does not start. Each rank prints MaxText's
step line. Nothing in here knows about the agent.
"""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TEXT = "the host is right, the run goes on, the stall has a name. " * 40
BATCH, WINDOW, WIDTH = 32, 24, 96
PAUSE = float(os.environ.get("STEP_PAUSE", "0.1"))  # data loading, so that a step takes its time on any machine


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


def join(rank, hosts):
    dist.init_process_group("gloo", init_method=f"tcp://{hosts[0]}:29500", rank=rank, world_size=len(hosts),
                            timeout=datetime.timedelta(minutes=30))


def train(steps):
    rank = int(os.environ["TPU_WORKER_ID"])
    hosts = os.environ["TPU_WORKER_HOSTNAMES"].split(",")
    torch.set_num_threads(1)
    join(rank, hosts)
    loader = Loader(rank)
    model = DistributedDataParallel(build_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        start = time.monotonic()
        loss, tokens = train_step(model, optimizer, loader)
        seconds = time.monotonic() - start
        print(f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 0.000, "
              f"Tokens/s/device: {tokens / seconds:.3f}, total_weights: {tokens * len(hosts)}, loss: {loss:.3f}", flush=True)


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 100000)
