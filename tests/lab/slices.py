"""Hosts of several slices with a registry, and one training over all of them; used by the tests of runs and by the demo.

What is judged is the training's own log as the journal of each host has it: steps, losses, resumptions.
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import scenario  # noqa: E402
from lab import Lab  # noqa: E402

USER = "alice"
KEPT = "/srv/checkpoints"
LOSS = re.compile(r"completed step: (\d+), .*loss: ([0-9.]+)")
RESUMED = re.compile(r"resumed from the checkpoint of step: (\d+)")
GRANT = f"[Remote]\nStart={USER}\n"
AUTHORITY = "/etc/tpu-hostd/authority.conf.d/10-site.conf"
TOPOLOGY = {1: "2x2", 2: "2x4", 4: "4x4"}


def slice_of(host, per_slice):
    index = int(host.name[1:])
    return index // per_slice, index % per_slice


def configure(host, n_hosts, per_slice, registry, grant):
    """What a site bakes in: identity, endpoint, registry; whose runs others may start."""
    if host.name == "collector":
        scenario.configure(host, n_hosts, scenario.WANTED_MTU)
        return
    s, worker = slice_of(host, per_slice)
    collector = host.lab_collector_address
    names = ",".join(f"h{i}" for i in range(s * per_slice, (s + 1) * per_slice))
    host.write("/etc/tpu-hostd/identity.conf.d/10-site.conf",
               f"[Identity]\nSliceName=s{s}\nAcceleratorType=v6e-{4 * per_slice}\nMachineType=ct6e-standard-4t\n"
               f"Topology={TOPOLOGY[per_slice]}\nWorkerId={worker}\nWorkerHostnames={names}\nChips=4\n"
               f"\n[Network]\nMtu={scenario.WANTED_MTU}\n")
    host.write("/etc/tpu-hostd/hostd.conf.d/10-site.conf",
               f"[Hostd]\nEndpoint=http://{collector}:4318\nMetricsInterval=2s\n\n[Registry]\n{registry}\n")
    host.write("/etc/tpu-hostd/tpuctl.conf.d/10-site.conf", f"[Ctl]\nCollector=http://{collector}:9471\n")
    if grant:
        host.write(AUTHORITY, GRANT)
    host.write("/srv/train.py", scenario.TRAINING.read_text(), 0o755)
    host.bind_chips(scenario.CHIPS)


def lab(n_hosts=4, per_slice=2, folder=None, registry="Kind=collector", grant=True):
    """A lab of n_hosts in slices s0, s1, … of per_slice each, and a collector; use it in a with statement."""
    host_deb, collector_deb = scenario.debs(folder)

    def before_boot(host):
        host.lab_collector_address = host.lab.collector.address("eth0")
        configure(host, n_hosts, per_slice, registry, grant)

    return Lab(hosts=n_hosts, debs=[host_deb], collector=[collector_deb], before_boot=before_boot)


def prepare(lab):
    """The user whose runs they are, and where the training keeps its checkpoints."""
    for host in lab.hosts:
        host.sh(f"useradd -m {USER}; install -d -o {USER} {KEPT}")


def train(host, job, *flags, steps=100000, pause="0.1"):
    """tpuctl run over slices; returns the finished command."""
    return host.run(["tpuctl", "run", "--name", job, "--framework", "torch", "--user", USER, *flags,
                     "--env", "GLOO_SOCKET_IFNAME=eth0", "--env", f"CHECKPOINTS={KEPT}", "--env", f"STEP_PAUSE={pause}",
                     "--", "/usr/bin/python3", "/srv/train.py", str(steps)], check=False, timeout=120)


def log(host, job):
    return host.journal(f"tpu-run-{job}.service")


def losses(host, job):
    """{step: loss} as the training on that host wrote them; of a step done twice, the later."""
    return {int(m[1]): float(m[2]) for m in LOSS.finditer(log(host, job))}


def resumed(host, job):
    """The steps whose checkpoints this host's training went on from, in order."""
    return [int(m[1]) for m in RESUMED.finditer(log(host, job))]


def runs(lab):
    """{name: record} as the collector's API gives them."""
    script = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())"
    done = lab.collector.run(["python3", "-c", script, "http://127.0.0.1:9471/api/v1/runs"])
    return {r["name"]: r for r in json.loads(done.out)["runs"]} if done.code == 0 else {}
