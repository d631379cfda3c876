"""What is done to one rank of a training, from outside of its host: nothing runs in the host for it, and no
log there tells.

Each cause has a name, what kind of verdict is wanted, and inject(victim), which returns a function that
undoes it.
"""

import json
import os
import signal
import subprocess
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import mount_that_hangs

SETTINGS, SHARDS = "/srv/training/settings.json", "/srv/data/shards"
N_SHARDS = 4
PAUSE = 240           # seconds of the long pause: longer than any verdict may take

HOGS = 4              # of a starved rank's CPU

Victim = namedtuple("Victim", "host main_pid step step_seconds")  # main_pid: as the host calls it


@dataclass(frozen=True)
class Cause:
    name: str
    title: str
    wanted: str  # "stall": steps stop; "left": the run ends; "slow": it goes on, slower
    inject: Callable


def put(host, path, text):
    """A whole file at once, as a tool that configures a training would write it."""
    target = host.path(path)
    new = target.with_name(target.name + ".new")
    new.write_text(text)
    os.replace(new, target)


def set_number(victim, name, value):
    put(victim.host, SETTINGS, json.dumps({name: value}))
    return lambda: put(victim.host, SETTINGS, "{}")


def stop(victim):
    pid = victim.host.pid_outside(victim.main_pid)
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
    """Its threads get one CPU, and there only what others leave: a weight of 3 against 1024 for each hog
    (kernel/sched/core.c).
    Where each session has a weight of its own (sched(7), autogroup), 15 against 88761."""
    pid, cpu = victim.host.pid_outside(victim.main_pid), max(os.sched_getaffinity(0))
    for tid in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(tid), os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(int(tid), {cpu})

    def session_nice(pid, nice):
        group = Path(f"/proc/{pid}/autogroup")
        if group.exists():
            group.write_text(str(nice))

    def enter():
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, {cpu})
        os.setsid()
        session_nice("self", -20)
    session_nice(pid, 19)
    hogs = [subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "sh", "-c", "while :; do :; done"],
                             preexec_fn=enter) for _ in range(HOGS)]

    def undo():
        for p in hogs:
            p.kill()
            p.wait()
    return undo


def hang_mount(victim):
    return mount_that_hangs.mount(victim.host.leader, SHARDS).end


def cut(nic):
    def inject(victim):
        victim.host.cut(nic)
        return lambda: victim.host.heal(nic)
    return inject


CAUSES = {c.name: c for c in (
    Cause("stop", "SIGSTOP of one rank", "stall", stop),
    Cause("lock", "deadlock in a lock", "stall", lambda v: set_number(v, "cache_items", 1)),
    Cause("read", "blocked read in the data loader", "stall", block_read),
    Cause("loop", "infinite loop in Python", "stall", lambda v: set_number(v, "windows_apart", 100000)),
    Cause("spin", "native spin", "stall", lambda v: set_number(v, "scan_stride", 0)),
    Cause("eth0", "eth0 cut", "stall", cut("eth0")),
    Cause("eth1", "eth1 cut", "stall", cut("eth1")),
    Cause("pause", "long pause of the garbage collector", "stall",
          lambda v: set_number(v, "tidy_seconds", PAUSE)),
    Cause("exit", "silent exit", "left", lambda v: set_number(v, "last_step", v.step + 3)),
    Cause("slow", "slow rank (2x)", "slow",
          lambda v: set_number(v, "augment_seconds", v.step_seconds)),
    Cause("mount", "stuck file system read", "stall", hang_mount),
    Cause("starve", "starved of CPU by its neighbours", "stall", starve),
)}
