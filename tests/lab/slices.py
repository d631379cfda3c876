"""Hosts of several slices with a registry, and one training over all of them; used by the tests of runs and
by the demo.

What is judged is the training's own log as the journal of each host has it: steps, losses, resumptions.
"""

import json
import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import control  # noqa: E402
import scenario  # noqa: E402
from lab import Lab  # noqa: E402
from lab.prepare import debs_layer  # noqa: E402

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
    if host in host.lab.collectors:
        if len(host.lab.collectors) > 1:
            control.configure(host)
        else:
            scenario.configure(host, n_hosts, scenario.WANTED_MTU)
        return
    s, worker = slice_of(host, per_slice)
    collector = host.lab_collector_address
    names = ",".join(f"h{i}" for i in range(s * per_slice, (s + 1) * per_slice))
    host.write("/etc/tpu-hostd/identity.conf.d/10-site.conf",
               f"[Identity]\nSliceName=s{s}\nAcceleratorType=v6e-{4 * per_slice}\n"
               f"MachineType=ct6e-standard-4t\n"
               f"Topology={TOPOLOGY[per_slice]}\nWorkerId={worker}\nWorkerHostnames={names}\nChips=4\n"
               f"\n[Network]\nMtu={scenario.WANTED_MTU}\n")
    host.write("/etc/tpu-hostd/hostd.conf.d/10-site.conf",
               f"[Hostd]\nEndpoint=http://{collector}:4318\nMetricsInterval=2s\n\n[Registry]\n{registry}\n")
    people = " ".join(f"http://{c.address('eth0')}:9471" for c in host.lab.collectors)
    host.write("/etc/tpu-hostd/tpuctl.conf.d/10-site.conf", f"[Ctl]\nCollector={people}\n")
    if grant:
        host.write(AUTHORITY, GRANT)
    host.write("/srv/train.py", scenario.TRAINING.read_text(), 0o755)
    host.bind_chips(scenario.CHIPS)


def lab(n_hosts=4, per_slice=2, folder=None, registry="Kind=collector", grant=True, collectors=1,
        unified=False, on=None, also=None):
    """A lab of n_hosts in slices s0, s1, … of per_slice each, and a collector, or two over an etcd; use it
    in a with statement.

    With two, telemetry goes to the first alone, and every host knows both for control.
    on: the layer that hosts have below the packages; also: called with each host (no collector) before it
    boots.
    """
    host_deb, collector_deb = scenario.debs(folder)

    def before_boot(host):
        host.lab_collector_address = host.lab.collector.address("eth0")
        urls = " ".join(f"http://{c.address('eth0')}:4318" for c in host.lab.collectors)
        configure(host, n_hosts, per_slice, registry + (f"\nEndpoint={urls}" if collectors > 1 else ""),
                  grant)
        if also and host not in host.lab.collectors:
            also(host)

    return Lab(hosts=n_hosts, debs=debs_layer([host_deb], on), collector=[collector_deb],
               collectors=collectors, unified=unified, before_boot=before_boot)


def prepare(lab):
    """The user whose runs they are, and where the training keeps its checkpoints."""
    for host in lab.hosts:
        host.sh(f"useradd -m {USER}; install -d -o {USER} {KEPT}")


def train_command(run, *flags, steps=100000, pause="0.1", kept=KEPT, user=USER):
    return ["tpuctl", "run", "--name", run, "--framework", "torch", "--user", user, *flags,
            "--env", "GLOO_SOCKET_IFNAME=eth0", "--env", f"CHECKPOINTS={kept}", "--env",
            f"STEP_PAUSE={pause}",
            "--", "/usr/bin/python3", "/srv/train.py", str(steps)]


def train(host, run, *flags, **options):
    """tpuctl run over slices; returns the finished command."""
    return host.run(train_command(run, *flags, **options), check=False, timeout=120)


def log(host, run):
    return host.journal(f"tpu-run-{run}.service")


def losses(host, run):
    """{step: loss} as the training on that host wrote them; of a step done twice, the later."""
    return {int(m[1]): float(m[2]) for m in LOSS.finditer(log(host, run))}


def resumed(host, run):
    """The steps whose checkpoints this host's training went on from, in order."""
    return [int(m[1]) for m in RESUMED.finditer(log(host, run))]


def since_resumed(host, run):
    """The steps that this host's training has made since it went on from a checkpoint last, in order."""
    text = log(host, run)
    marks = list(RESUMED.finditer(text))
    return [int(m[1]) for m in LOSS.finditer(text, marks[-1].end())] if marks else []


def runs(lab):
    """{name: record} as the collector's API gives them."""
    script = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())"
    done = lab.collector.run(["python3", "-c", script, "http://127.0.0.1:9471/api/v1/runs"])
    return {r["name"]: r for r in json.loads(done.out)["runs"]} if done.code == 0 else {}


def whole(run, hosts):
    """Raises unless each host's training has made every step once, from 0 on, and has never gone back to
    a checkpoint."""
    for host in hosts:
        numbers = [int(m[1]) for m in LOSS.finditer(log(host, run))]
        assert numbers == list(range(len(numbers))), f"{host.name} has lost or repeated steps: {numbers}"
        assert resumed(host, run) == [], f"{host.name} has begun again"


def unbroken(run, hosts):
    """Raises unless each host's training has made every step once since it went on from a checkpoint
    last."""
    for host in hosts:
        text = log(host, run)
        mark = list(RESUMED.finditer(text))[-1]
        numbers = [int(m[1]) for m in LOSS.finditer(text, mark.end())]
        assert numbers == list(range(int(mark[1]) + 1,
                                     int(mark[1]) + 1 + len(numbers))), f"{host.name}: {numbers}"


class Case(unittest.TestCase):
    """Tests in the order of their names on one lab; what everybody says is printed of a failure."""

    LAB = {}  # arguments of lab()

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(lab(folder=os.environ.get("TPU_HOSTD_DEBS"), **cls.LAB))
        prepare(cls.lab)
        cls.h = cls.lab.hosts

    def setUp(self):
        self.addCleanup(self.tell)

    def tell(self):
        result = self._outcome.result
        if any(test is self for test, _ in result.failures + result.errors):
            self.tell_of_failure()

    def tell_of_failure(self):
        for host in self.lab.every:
            if host in self.lab.collectors:
                print(f"--- {host.name}", host.journal("tpu-collectord.service")[-2500:], sep="\n")
                continue
            print(f"--- {host.name}",
                  *(host.run(["tpuctl", verb], check=False).out for verb in ("runs", "status") if host.up),
                  host.journal()[-6000:], sep="\n")
        print("--- runs", json.dumps(runs(self.lab), indent=1))

    def members(self, hosts=None):
        """Waits until all are members of the registry."""
        scenario.wait_until(lambda: all(registry(h)["state"] == "member" for h in hosts or self.h), 90,
                            "all hosts are members")

    def wait_run(self, run, what, condition, timeout=90):
        return scenario.wait_until(lambda: (r := runs(self.lab).get(run)) and condition(r) and r, timeout,
                                   f"{run}: {what}")

    def steps_on(self, hosts, run, more=10, timeout=90):
        """Waits until each host's training has made that many steps more than now."""
        before = {h.name: scenario.last_step(h, run) for h in hosts}
        return [scenario.wait_step(h, run, before[h.name] + more, timeout) for h in hosts]


def registry(host):
    """What the host says of its registry; a state of its own while its agent does not answer."""
    done = host.run(["tpuctl", "status", "--json"])
    try:
        return json.loads(done.out)["registry"] or {"state": "none"}
    except (ValueError, KeyError):
        return {"state": "no answer"}


def skip_unless_full(check):
    """For setUpModule of what takes minutes."""
    if os.environ.get("FULL") != "1":
        raise unittest.SkipTest("takes minutes: with FULL=1")
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))
