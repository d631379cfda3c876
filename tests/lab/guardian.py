"""Takes a lab away, by the names in its manifest, when the process that made it has ended.

A lab's process may be ended by SIGKILL at any instruction, so it never cleans up itself. The guardian, a
process in a session of its own, waits for a byte or the end of a pipe that only the lab's process holds, and
then does it: for an orderly stop and for a killed test the same code runs. It holds the lab's lock and its
leases on the layers until nothing is mounted any more.
"""

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import cgroup, network
from .command import LabError, sh
from .tree import cache_dir, remove_tree


# A killed process may have had a command under way, a mount or a boot: let it end, then clean.
GRACE = 0.7


def full_name(lab_id, part):
    """Returns the machine-wide name of a part of a lab: of its control group, namespace, machine."""
    return f"tpulab-{lab_id}-{part}"


def labs_dir():
    return cache_dir() / "labs"


def register(hosts):
    """Makes the directory of a new lab with its manifest; returns (lab id, directory, open lock file).

    The manifest names everything before any of it is made, so that cleaning up never misses a thing.
    """
    with open(cache_dir() / "locks" / "labs", "a") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        lab_id = f"{os.getpid()}-{secrets.token_hex(2)}"
        directory = labs_dir() / lab_id
        directory.mkdir(mode=0o755)
        lock = open(directory / "lock", "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        (directory / "manifest").write_text(json.dumps({"id": lab_id, "hosts": hosts}))
    return lab_id, directory, lock


def start(directory, held):
    """Starts the guardian of a lab. held: open files whose locks it keeps. Returns (process, pipe end)."""
    read_end, write_end = os.pipe()
    here = Path(__file__).resolve().parent
    with open(directory / "guardian.log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"{here.name}.guardian", directory], cwd=here.parent,
            stdin=read_end, stdout=log, stderr=log, start_new_session=True,
            pass_fds=[f.fileno() for f in held])
    os.close(read_end)
    return process, write_end


def _unmount(path):
    for _ in range(50):
        if not os.path.ismount(path):
            return
        sh("umount", path, check=False)
    sh("umount", "--lazy", path)


def _clean_host(lab_id, directory, host):
    name = full_name(lab_id, host)
    cgroup.kill(name)
    cgroup.remove(name)
    network.delete_namespace(name)
    _unmount(directory / host / "tree")
    propagate = Path("/run/systemd/nspawn/propagate") / name
    if propagate.is_dir():
        propagate.rmdir()


def clean(directory):
    """Removes every part of the lab in this directory. May be repeated; raises LabError for what stays."""
    try:
        manifest = json.loads((directory / "manifest").read_text())
    except (FileNotFoundError, ValueError):
        manifest = None                 # killed before it made anything
    errors = []
    if manifest:
        for host in manifest["hosts"]:
            try:
                _clean_host(manifest["id"], directory, host)
            except (LabError, OSError) as e:
                errors.append(f"{host}: {e}")
        network.delete_namespace(full_name(manifest["id"], "switch"))
    if errors:
        raise LabError("; ".join(errors))
    remove_tree(directory)


def sweep():
    """Cleans up after labs whose process and guardian are both gone; returns (ids, errors)."""
    swept, errors = [], []
    with open(cache_dir() / "locks" / "labs", "a") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        for directory in sorted(labs_dir().iterdir()):
            with open(directory / "lock", "a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                try:
                    clean(directory)
                    swept.append(directory.name)
                except (LabError, OSError) as e:
                    errors.append(f"{directory.name}: {e}")
    return swept, errors


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.read(0, 1) == b"":
        time.sleep(GRACE)
    try:
        clean(Path(sys.argv[1]))
    except (LabError, OSError) as e:
        print(e, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
