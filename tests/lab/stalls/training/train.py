#!/usr/bin/python3
"""An ordinary data-parallel training: a character model under torch's DistributedDataParallel over gloo.

Rank, peers and rendezvous come from the environment that the agent gives a run (RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT).
Each rank prints MaxText's step line. How long compiling, evaluation and checkpoints take, and after how many
steps they
come, is said by the environment too. Nothing in here knows about the agent, and what can go wrong goes wrong
in lines
that work on other days.
"""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from checkpoint import Checkpoints
from dataset import Dataset
from errands import Checker, Errands, Tally, finish, tell_pids
from loader import WORKERS, Forked, Loader
from settings import Settings

WIDTH, HIDDEN = 96, 160
COMPILE = float(os.environ.get("COMPILE_SECONDS", "0"))
EVALUATE = float(os.environ.get("EVALUATE_SECONDS", "0"))
EVALUATE_EVERY = int(os.environ.get("EVALUATE_EVERY", "0"))
RECOMPILE_AT = int(os.environ.get("RECOMPILE_AT", "0"))


def join():
    where = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=world,
                            timeout=datetime.timedelta(minutes=30))
    return rank, world


def build_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Embedding(64, WIDTH), nn.Linear(WIDTH, HIDDEN), nn.ReLU(),
                         nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
                         nn.Linear(HIDDEN, 64))


def compile_step(seconds):
    """Looks for the fastest of some shapes, as a compiler's autotuning does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for size in (128, 256, 384):
            torch.mm(torch.rand(size, size), torch.rand(size, size))
        time.sleep(0.05)


def train_step(model, optimizer, batch):
    x, y = batch
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()  # gradients are averaged over all ranks in here
    optimizer.step()
    return float(loss), x.numel()


def evaluate(model, loader, step):
    """The loss over batches that are not trained on, averaged over all ranks."""
    end, losses = time.monotonic() + EVALUATE, []
    with torch.no_grad():
        while time.monotonic() < end:
            x, y = loader.next_batch()
            losses.append(float(nn.functional.cross_entropy(model.module(x).flatten(0, 1), y.flatten())))
    mean = torch.tensor([sum(losses) / len(losses)])
    dist.all_reduce(mean)
    if dist.get_rank() == 0:
        print(f"eval metrics after step: {step}, loss={float(mean) / dist.get_world_size():.3f}", flush=True)


def one_more():
    """A message of the rank before this one."""
    dist.recv(torch.zeros(1), (dist.get_rank() - 1) % dist.get_world_size())


def make_loader(rank, settings):
    """(what gives batches, the number that it and the training count up)"""
    tally = Tally()
    checker = None if WORKERS else Checker(settings, tally)
    dataset = Dataset(rank, settings, Errands(settings, checker))
    loader = Forked(dataset, tally) if WORKERS else Loader(dataset)
    tell_pids(loader.pid if WORKERS else checker.pid)
    return loader, tally


def train(steps):
    torch.set_num_threads(1)
    settings = Settings(os.environ.get("SETTINGS", "/srv/training/settings.json"))
    loader, tally = make_loader(int(os.environ["RANK"]), settings)
    _, world = join()
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    checkpoints = Checkpoints(dist.get_rank())
    if COMPILE:
        compile_step(COMPILE)
    model = DistributedDataParallel(model, bucket_cap_mb=0.5)
    for step in range(steps):
        start = time.monotonic()
        loss, tokens = train_step(model, optimizer, loader.next_batch())
        seconds = time.monotonic() - start
        print(f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: 0.000, "
              f"Tokens/s/device: {tokens / seconds:.3f}, total_weights: {tokens * world}, loss: {loss:.3f}",
              flush=True)
        tally.count_up()
        if EVALUATE_EVERY and step % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            evaluate(model, loader, step)
        checkpoints.maybe_save(step, model.module, optimizer)
        if RECOMPILE_AT and step == RECOMPILE_AT:
            compile_step(COMPILE)
        finish(settings, step, one_more)


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 100000)
