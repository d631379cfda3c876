"""A control group of its own for each host, in every hierarchy this machine has.

Without one, hosts share the caller's group and nothing can tell their processes apart. With one, a host
with all it ever started is ended by one write, whoever is its parent.
"""

import os
import time
from pathlib import Path

from .command import LabError

ROOT = Path("/sys/fs/cgroup")


def v2_root():
    """Returns where the version 2 hierarchy is mounted (alone or beside version 1), or None."""
    for path in (ROOT, ROOT / "unified"):
        if (path / "cgroup.controllers").exists():
            return path
    return None


def _roots():
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    names = ("unified", "systemd", "memory", "pids", "devices")
    return [ROOT / name for name in names if (ROOT / name / "cgroup.procs").exists()]


def create(name):
    """Makes the group everywhere; returns the files to write a process id to."""
    if v2_root() is None:
        raise LabError("no cgroup version 2 hierarchy below /sys/fs/cgroup: hosts could not be cleaned up")
    for root in _roots():
        (root / name).mkdir(exist_ok=True)
    return [root / name / "cgroup.procs" for root in _roots()]


def exists(name):
    return any((root / name).is_dir() for root in _roots())


def _populated(group):
    try:
        return "populated 1" in (group / "cgroup.events").read_text()
    except FileNotFoundError:
        return False


def kill(name, timeout=10):
    """Ends every process of the group with SIGKILL and waits until none is left."""
    group = v2_root() / name
    try:
        (group / "cgroup.kill").write_text("1")
    except FileNotFoundError:
        return
    deadline = time.monotonic() + timeout
    while _populated(group):
        if time.monotonic() > deadline:
            raise LabError(f"{group}: processes are left {timeout} s after cgroup.kill")
        time.sleep(0.005)


def remove(name):
    """Removes the group, whose processes have ended, and all groups below it."""
    for root in _roots():
        for path, _, _ in os.walk(root / name, topdown=False):
            _rmdir(path)


def _rmdir(path, tries=100):
    # The kernel may hold a group for a moment after its last process has ended.
    for _ in range(tries):
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
    raise LabError(f"{path}: cannot be removed: something still runs in it")
