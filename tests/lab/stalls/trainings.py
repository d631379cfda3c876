"""The trainings that the matrix can drive into stalls. They differ in who waits for whom, and by what."""

from dataclasses import dataclass, field

import slices

HOSTS, PER_SLICE = 4, 2
FOLDER = "/srv/training"
PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Training:
    """first_speaks: only the first rank's lines of steps come out. wanted: of causes that come to something
    else here, {cause: (wanted, kinds)}. layer: Debian packages that it needs."""
    name: str
    title: str
    framework: str
    command: tuple
    partner: object            # rank -> a rank with which it exchanges messages in each step
    env: dict = field(default_factory=dict)
    first_speaks: bool = False
    wanted: dict = field(default_factory=dict)
    packages: tuple = ()
    compiled: bool = False     # a program of its own; else scripts of Python

    def speakers(self, hosts):
        return hosts[:1] if self.first_speaks else hosts

    def arguments(self, run, env):
        """The words of tpuctl that start it on all hosts."""
        peers = ",".join(f"h{i}" for i in range(HOSTS))
        words = {"PEERS": peers, **self.env, **env}
        flags = [flag for name, value in words.items() for flag in ("--env", f"{name}={value}")]
        return ["tpuctl", "run", "--name", run, "--framework", self.framework, "--user", slices.USER,
                "--slices", f"{HOSTS // PER_SLICE}:{HOSTS // PER_SLICE}", *flags, "--",
                *(() if self.compiled else (PYTHON,)), *(f"{FOLDER}/{word}" for word in self.command)]


def next_one(rank):
    return (rank + 1) % HOSTS


GLOO = {"GLOO_SOCKET_IFNAME": "eth0,eth1"}
TRAININGS = {t.name: t for t in (
    Training("ddp", "torch's DistributedDataParallel over gloo, one process a host", "torch", ("train.py",),
             next_one, GLOO),
    Training("torchrun", "the same under torchrun, with forked DataLoader workers", "plain",
             ("torchrun_start.py", "train.py"), next_one, {**GLOO, "LOADER_WORKERS": "1"},
             wanted={"killed": ("left", ("ended",))}),
    Training("ring", "gradients round a ring of plain sockets, batches from a forked process", "plain",
             ("ring.py",), next_one),
    Training("star", "a parameter server: the first rank keeps the weights", "plain", ("star.py",),
             lambda rank: 0 if rank else 1),
    Training("stages", "a pipeline of event loops, each with a process for the numbers beside it", "plain",
             ("stages.py",), lambda rank: rank - 1 if rank else 1),
    Training("mpi", "MPI's own sum of gradients, batches from a thread", "plain",
             ("mpi_start.py", "mpi.py"), lambda rank: rank ^ 1, first_speaks=True,
             packages=("openmpi-bin", "python3-mpi4py")),
    Training("butterfly", "a compiled program: an event loop for the wire, threads and a process beside it",
             "plain", ("butterfly",), lambda rank: rank ^ 1, compiled=True,
             wanted={"killed": ("stall", ("child", "lock"))}),
    Training("hub", "gRPC: two ranks sum the buckets of all, batches from two processes over ZeroMQ",
             "plain", ("hub.py",), lambda rank: 0 if rank else 1,
             packages=("python3-grpcio", "python3-zmq")),
    Training("relay", "recursive halving by an event loop in a thread, batches from a pool of processes",
             "plain", ("relay.py",), lambda rank: rank ^ 1, wanted={"killed": ("left", ("ended",))}),
    Training("pipeline", "a pipeline of four pieces of each batch, by event loops and threads",
             "plain", ("pipeline.py",), lambda rank: rank - 1 if rank else 1,
             wanted={"killed": ("left", ("ended",))}),
    Training("steal", "work that idle hosts take from others, then all tell all in turns with another each",
             "plain", ("steal.py",), lambda rank: rank ^ 1,
             wanted={"killed": ("stall", ("child", "lock")), "message": ("stall", ("socket", "lock"))}),
)}
