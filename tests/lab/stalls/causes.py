"""What is done to one rank of a training, from outside of its program; no log of the host tells.

Each cause has a name, what kind of verdict is wanted, the kinds of wait that name it, and inject(victim),
which returns a function that undoes it. They strike any of the trainings: all read the same settings and do
the same errands (training/errands.py).
"""

import json
import os
import signal
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import mount_that_hangs

SETTINGS, SHARDS = "/srv/training/settings.json", "/srv/data/shards"
JOURNAL, TOOL = "/srv/data/journal", "/srv/data/tool.sh"
N_SHARDS = 4
PAUSE = 240           # seconds of the long pause: longer than any verdict may take

CGROUP = Path("/sys/fs/cgroup")

# rank: the number of the process that trains, worker: of its forked one, as the host calls them. partner: a
# host with which it exchanges messages; outside: outside.Servers
Victim = namedtuple("Victim", "host main_pid worker_pid step step_seconds lab partner outside")


@dataclass(frozen=True)
class Cause:
    """kinds: as tpuctl diagnose --json calls them (docs/diagnose.md). wanted: "stall": steps stop; "left": the run ends; "slow": it goes on, slower. either: the host at the
    other end is as right."""
    name: str
    title: str
    wanted: str
    kinds: tuple
    inject: Callable
    either: bool = False


def put(host, path, text):
    """A whole file at once, as a tool that configures a training would write it."""
    target = host.path(path)
    new = target.with_name(target.name + ".new")
    new.write_text(text)
    os.replace(new, target)


def set_number(victim, name, value):
    put(victim.host, SETTINGS, json.dumps({name: value}))
    return lambda: put(victim.host, SETTINGS, "{}")


def stop(victim, number=None):
    pid = victim.host.pid_outside(number or victim.main_pid)
    os.kill(pid, signal.SIGSTOP)

    def undo():
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
    return undo


def block_read(victim):
    """The shards become fifos that have a writer who never writes."""
    folder, held = victim.host.path(SHARDS), []
    for i in range(N_SHARDS):
        new = folder / f"shard-{i}.new"
        os.mkfifo(new)
        held.append(os.open(new, os.O_RDWR))
        os.replace(new, folder / f"shard-{i}.txt")

    def undo():
        for fd in held:
            os.close(fd)
    return undo


def starve(victim):
    """All its threads together get 1 ms of CPU in each second, however idle the machine is. By a group of
    its own where the controller has a hierarchy of its own (version 1); else by the quota of the group it is
    in."""
    pid, alone = victim.host.pid_outside(victim.main_pid), CGROUP / "cpu"
    if (alone / "cpu.cfs_quota_us").exists():
        group = alone / f"lab-starved-{pid}"
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text("1000000")
        (group / "cpu.cfs_quota_us").write_text("1000")
        (group / "cgroup.procs").write_text(str(pid))

        def undo():
            for left in (group / "cgroup.procs").read_text().split():
                (alone / "cgroup.procs").write_text(left)
            group.rmdir()
        return undo

    path = Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition("::/")[2]
    above = CGROUP
    for name in path.split("/"):
        (above / "cgroup.subtree_control").write_text("+cpu")
        above /= name
    (above / "cpu.max").write_text("1000 1000000")
    return lambda: above.exists() and (above / "cpu.max").write_text("max")


def kill_worker(victim):
    os.kill(victim.host.pid_outside(victim.worker_pid), signal.SIGKILL)
    return lambda: None


def freeze(victim):
    """The control group of the rank, by version 2 of the controllers."""
    pid = victim.host.pid_outside(victim.main_pid)
    path = Path(f"/proc/{pid}/cgroup").read_text().rpartition("::/")[2].splitlines()[0]
    top = CGROUP / "unified" if (CGROUP / "unified").is_dir() else CGROUP
    switch = top / path / "cgroup.freeze"
    switch.write_text("1")

    def undo():
        try:
            switch.write_text("0")
        except FileNotFoundError:
            pass
    return undo


def command(victim, *words):
    """Another program of the host, until it is undone."""
    process = victim.host.spawn(words)
    return lambda: victim.host.stop_command(process)


# PTRACE_SEIZE, then PTRACE_INTERRUPT: as a debugger that somebody has left open.
TRACER = """import ctypes, sys, time
trace = ctypes.CDLL(None, use_errno=True).ptrace
trace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
for request in (0x4206, 0x4207):
    if trace(request, int(sys.argv[1]), None, None) < 0:
        sys.exit(ctypes.get_errno())
time.sleep(100000)
"""


def attach(victim):
    return command(victim, "/usr/bin/python3", "-c", TRACER, victim.main_pid)


def hold_journal(victim):
    return command(victim, "/usr/bin/flock", JOURNAL, "/bin/sleep", "100000")


def hang_tool(victim):
    put(victim.host, TOOL, "exec sleep 100000\n")
    return lambda: None


def silence(what):
    def inject(victim):
        victim.outside.say(f"{what} {victim.host.address('eth0')}")
        return lambda: victim.outside.say("heal")
    return inject


def nothing_out(victim):
    """What the host sends to the other ranks vanishes; what they send arrives."""
    lab = victim.lab
    lab.drop([(victim.host, other) for other in lab.hosts if other is not victim.host])
    return lambda: lab.drop([])


def black_hole(victim):
    """Between two ranks nothing passes; both talk with all others."""
    victim.lab.drop([(victim.host, victim.partner), (victim.partner, victim.host)])
    return lambda: victim.lab.drop([])


def hang_mount(victim):
    return mount_that_hangs.mount(victim.host.leader, SHARDS).end


def cut(nic):
    def inject(victim):
        victim.host.cut(nic)
        return lambda: victim.host.heal(nic)
    return inject


RUNS, PATH, STOPPED, LOCK = ("cpu",), ("path",), ("stopped",), ("lock",)
SERVER = ("socket",)

CAUSES = {c.name: c for c in (
    Cause("stop", "SIGSTOP of one rank", "stall", STOPPED, stop),
    Cause("lock", "deadlock in a lock", "stall", LOCK, lambda v: set_number(v, "cache_items", 1)),
    Cause("read", "blocked read in the data loader", "stall", ("pipe",), block_read),
    Cause("loop", "infinite loop in Python", "stall", RUNS,
          lambda v: set_number(v, "windows_apart", 100000)),
    Cause("spin", "native spin", "stall", RUNS, lambda v: set_number(v, "scan_stride", 0)),
    Cause("eth0", "eth0 cut", "stall", PATH, cut("eth0")),
    Cause("eth1", "eth1 cut", "stall", PATH, cut("eth1")),
    Cause("pause", "long pause of the garbage collector", "stall", RUNS,
          lambda v: set_number(v, "tidy_seconds", PAUSE)),
    Cause("exit", "silent exit", "left", ("ended",), lambda v: set_number(v, "last_step", v.step + 3)),
    Cause("slow", "slow rank (2x)", "slow", ("slow",),
          lambda v: set_number(v, "augment_seconds", v.step_seconds)),
    Cause("mount", "stuck file system read", "stall", ("file", "page"), hang_mount),
    Cause("starve", "starved of CPU", "stall", ("throttled",), starve),
    Cause("locks", "two native threads, two locks, two orders", "stall", LOCK,
          lambda v: set_number(v, "accounts_reversed", 1)),
    Cause("tally", "lock in shared memory, never released", "stall", LOCK,
          lambda v: set_number(v, "keep_tally", 1)),
    Cause("journal", "flock held by another program", "stall", ("file_lock",), hold_journal),
    Cause("worker", "SIGSTOP of a forked worker", "stall", STOPPED, lambda v: stop(v, v.worker_pid)),
    Cause("killed", "SIGKILL of a forked worker", "stall", ("child", "pipe", "socket"), kill_worker),
    Cause("freeze", "control group frozen", "stall", ("frozen",), freeze),
    Cause("traced", "tracer attached", "stall", STOPPED, attach),
    Cause("tool", "a tool that hangs", "stall", ("child", "timer"), hang_tool),
    Cause("storage", "storage server silent", "stall", SERVER, silence("storage")),
    Cause("dns", "name server silent", "stall", SERVER, silence("dns")),
    Cause("oneway", "path that carries one direction", "stall", PATH, nothing_out),
    Cause("blackhole", "nothing passes between two ranks", "stall", PATH, black_hole, either=True),
    Cause("message", "waits for a message that nobody sends", "stall", ("socket",),
          lambda v: set_number(v, "one_more", 1)),
)}

# A round of the matrix: the twelve that there were first, and eight of the others.
ROUND = [n for n in CAUSES if n not in ("traced", "dns", "blackhole", "killed", "tool")]
