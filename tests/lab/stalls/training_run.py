"""Hosts for the matrix and the training that runs on them: two slices of two hosts, one data-parallel
training over both NICs of all."""

import os
import subprocess
from pathlib import Path

from lab import Lab, LabError
import scenario
import slices
import watch
from causes import N_SHARDS, SETTINGS, SHARDS

HERE = Path(__file__).resolve().parent
HOSTS, PER_SLICE = 4, 2
FOLDER = "/srv/training"
TEXT = "the host is right, the run goes on, the stall has a name {0}. "


def library(folder):
    """libtokens.so of the training, compiled on this machine."""
    out = Path(folder) / "libtokens.so"
    done = subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", out, HERE / "training" / "libtokens.c"],
                          capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise LabError(f"libtokens.c does not compile (is gcc installed?): {done.stderr}")
    return out.read_bytes()


def lab(folder, debs=None):
    """The lab, to be used in a with statement; folder: for what is compiled."""
    host_deb, collector_deb = scenario.debs(debs)
    native = library(folder)

    def before_boot(host):
        host.lab_collector_address = host.lab.collector.address("eth0")
        slices.configure(host, HOSTS, PER_SLICE, "Kind=collector", True)
        if host.name == "collector":
            return
        for script in sorted((HERE / "training").glob("*.py")):
            host.write(f"{FOLDER}/{script.name}", script.read_text())
        host.write(f"{FOLDER}/libtokens.so", native)
        reset(host)

    return Lab(hosts=HOSTS, debs=[host_deb], collector=[collector_deb], before_boot=before_boot,
               unified=True)


def reset(host):
    """Data and settings as they were."""
    host.write(SETTINGS, "{}")
    for i in range(N_SHARDS):
        path = host.path(f"{SHARDS}/shard-{i}.txt")
        if path.exists() and not path.is_file():
            path.unlink()
        host.write(f"{SHARDS}/shard-{i}.txt", (TEXT.format(i) * 100)[:4096])


def start(lab, run, ahead=0, env=None):
    """Starts the training on all hosts and waits until each has made a step."""
    words = {"GLOO_SOCKET_IFNAME": "eth0,eth1", "LOADER_AHEAD": str(ahead), **(env or {})}
    flags = [flag for name, value in words.items() for flag in ("--env", f"{name}={value}")]
    done = lab.hosts[0].run(["tpuctl", "run", "--name", run, "--framework", "torch", "--user", slices.USER,
                             "--slices", f"{HOSTS // PER_SLICE}:{HOSTS // PER_SLICE}", *flags, "--",
                             "/usr/bin/python3", f"{FOLDER}/train.py"],
                            timeout=120)
    if done.code:
        raise LabError(f"{run} does not start: {done.out}{done.err}")


def warm(lab, run, steps, limit=180):
    """Waits until each host has made so many steps."""
    for host in lab.hosts:
        host.wait_for(lambda h=host: watch.last_step(h, run) >= steps, limit, f"{steps} steps of {run}")


def main_pid(host, run):
    return int(scenario.unit(host, f"tpu-run-{run}.service", "MainPID")["MainPID"])


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
