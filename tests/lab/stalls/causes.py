"""What is done to one rank of a training, from outside of its host: nothing runs in the host for it, and no
log there tells.

Each cause has a name, what kind of verdict is wanted, and inject(victim), which returns a function that
undoes it.
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
N_SHARDS = 4
PAUSE = 240           # seconds of the long pause: longer than any verdict may take

CGROUP = Path("/sys/fs/cgroup")

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
    Cause("starve", "starved of CPU", "stall", starve),
)}
