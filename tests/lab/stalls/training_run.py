"""Hosts for the matrix and the training that runs on them: two slices of two hosts, one data-parallel
training over both NICs of all."""

import json
import os
import subprocess
from pathlib import Path

from lab import Lab, LabError
import scenario
import slices
import watch
import outside
from causes import N_SHARDS, SETTINGS, SHARDS, TOOL
from lab.prepare import debs_layer
from lab.tree import apt_layer
from trainings import FOLDER, HOSTS, PER_SLICE, TRAININGS

HERE = Path(__file__).resolve().parent
TEXT = "the host is right, the run goes on, the stall has a name {0}. "


def compiled(folder, name, *words):
    """What the C compiler of this machine makes of these words."""
    out = Path(folder) / name
    done = subprocess.run(["cc", "-O2", "-pthread", "-o", out, *words],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{name} does not compile (is gcc installed?): {done.stderr}")
    return out


def lab(folder, debs=None, training=TRAININGS["ddp"]):
    """The lab, to be used in a with statement; folder: for what is compiled."""
    host_deb, collector_deb = scenario.debs(debs)
    layer = [host_deb]
    if training.packages:
        layer = apt_layer(training.name, debs_layer([host_deb]), "install", *training.packages)
    library = compiled(folder, "libtokens.so", "-shared", "-fPIC", "-Wl,-soname,libtokens.so",
                       HERE / "training" / "libtokens.c")
    program = compiled(folder, "butterfly", HERE / "foreign" / "butterfly.c", library,
                       f"-Wl,-rpath,{FOLDER}", "-lm")

    def before_boot(host):
        host.lab_collector_address = host.lab.collector.address("eth0")
        slices.configure(host, HOSTS, PER_SLICE, "Kind=collector", True)
        if host.name == "collector":
            return
        for script in sorted([*(HERE / "training").glob("*.py"), *(HERE / "foreign").glob("*.py")]):
            host.write(f"{FOLDER}/{script.name}", script.read_text(), 0o755)
        host.write("/etc/resolv.conf", f"nameserver {outside.ADDRESS}\n")
        for native in (library, program):
            host.write(f"{FOLDER}/{native.name}", native.read_bytes(), 0o755)
        reset(host)

    return Lab(hosts=HOSTS, debs=layer, collector=[collector_deb], before_boot=before_boot,
               unified=True)


def reset(host):
    """Data and settings as they were."""
    host.write(SETTINGS, "{}")
    host.write(TOOL, "exit 0\n")
    host.path(f"{FOLDER}/pids.json").unlink(missing_ok=True)
    for i in range(N_SHARDS):
        path = host.path(f"{SHARDS}/shard-{i}.txt")
        if path.exists() and not path.is_file():
            path.unlink()
        host.write(f"{SHARDS}/shard-{i}.txt", (TEXT.format(i) * 100)[:4096])


def start(lab, run, ahead=0, env=None, training=TRAININGS["ddp"]):
    """Starts the training on all hosts."""
    words = {"LOADER_AHEAD": str(ahead), "STORAGE": f"{outside.ADDRESS}:{outside.PORT}",
             "STORAGE_NAME": outside.NAME, **(env or {})}
    done = lab.hosts[0].run(training.arguments(run, words), timeout=120)
    if done.code:
        raise LabError(f"{run} does not start: {done.out}{done.err}")


def warm(hosts, run, steps, limit=180):
    """Waits until each of these hosts has made so many steps."""
    for host in hosts:
        host.wait_for(lambda h=host: watch.last_step(h, run) >= steps, limit, f"{steps} steps of {run}")


def pids(host):
    """{"rank", "worker"}: the process that trains and the one that it has forked, as the training says."""
    return json.loads(host.read(f"{FOLDER}/pids.json"))


def end(lab, run):
    """Stops the run; what does not end is killed. Returns when no host has it any more."""
    lab.hosts[0].run(["tpuctl", "stop", run, "--fleet", "--yes"], timeout=60)

    def gone(host):
        return scenario.unit(host, f"tpu-run-{run}.service",
                             "ActiveState")["ActiveState"] not in ("active", "deactivating", "activating")
    for host in lab.hosts:
        try:
            host.wait_for(lambda h=host: gone(h), 40, f"the end of {run}")
        except LabError:
            host.sh(f"systemctl kill -s KILL tpu-run-{run}.service", check=False)
            host.wait_for(lambda h=host: gone(h), 60, f"the end of {run}")
    slices.scenario.wait_until(lambda: slices.runs(lab).get(run, {"state": "ended"})["state"] == "ended", 90,
                               f"{run} ended")


def members(lab):
    scenario.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in lab.hosts), 90,
                        "all hosts are members")


def load():
    """This machine's load of the last minute, by core."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)
