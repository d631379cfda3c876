#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemons of an idle host cost, and two peers under the same observation: memory, processor, wakeups.

Boots one lab host with a collector from the packages, at default cadence, and lets it stand. Peers run on this machine out of
their Debian packages, unpacked and not installed: node_exporter scraped every 10 s, collectd with an interval of 10 s writing
into CSV files. Prints medians over the rounds. Needs root, like the lab. Usage: idle.py [FOLDER OF OUR PACKAGES]
"""
import http.client
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "lab")]
from lab import Lab  # noqa: E402
import scenario  # noqa: E402

SECONDS = int(os.environ.get("SECONDS", 60))
ROUNDS = int(os.environ.get("ROUNDS", 3))
SETTLE = 20  # seconds behind the boot before the first round
SCRAPE = 10
PRIVATE_GOAL_KB, RESIDENT_GOAL_KB, CPU_GOAL = 4096, 16384, 0.05  # of all daemons, of tpu-hostd, percent of a core
COLLECTD = """BaseDir "{0}"
PluginDir "{1}/usr/lib/collectd"
TypesDB "{1}/usr/share/collectd/types.db"
PIDFile "{0}/pid"
Interval 10
LoadPlugin cpu
LoadPlugin memory
LoadPlugin load
LoadPlugin interface
LoadPlugin disk
LoadPlugin df
LoadPlugin csv
<Plugin csv>
  DataDir "{0}/csv"
</Plugin>
"""


def memory(pid):
    """(resident, private dirty) in kB."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, value = line.split(":")
        found[key] = int(value.split()[0])
    return found["Rss"], found["Private_Dirty"]


def work(pid):
    """(ns on a processor, voluntary switches) of all threads."""
    cpu = switches = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        cpu += int((task / "schedstat").read_text().split()[0])
        switches += next(int(line.split()[1]) for line in (task / "status").read_text().splitlines()
                         if line.startswith("voluntary"))
    return cpu, switches


def measure(pids):
    """{name: [(resident kB, private dirty kB, percent of a core, voluntary switches a minute)]}, a tuple a round."""
    result = {name: [] for name in pids}
    for _ in range(ROUNDS):
        before, start = {name: work(pid) for name, pid in pids.items()}, time.monotonic()
        time.sleep(SECONDS)
        for name, pid in pids.items():
            (cpu, switches), span = work(pid), time.monotonic() - start
            result[name].append((*memory(pid), 100 * (cpu - before[name][0]) / 1e9 / span,
                                 60 * (switches - before[name][1]) / span))
    return result


class Peers:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tpu-bench-idle-"))
        self.folder.chmod(0o755)
        self.processes, self.over = {}, threading.Event()

    def start(self):
        for name, start in (("prometheus-node-exporter", self._node_exporter), ("collectd-core", self._collectd)):
            try:
                tree = self._unpack(name)
                self._run(name, *start(tree))
            except (OSError, subprocess.CalledProcessError) as e:
                print(f"{name}: not measured: {e}")
        return self

    def _unpack(self, package):
        place = self.folder / package
        place.mkdir()
        subprocess.run(["apt-get", "-q", "download", package], cwd=place, check=True, capture_output=True)
        subprocess.run(["dpkg-deb", "-x", next(place.glob("*.deb")), place / "tree"], check=True)
        return place / "tree"

    def _run(self, name, argv, environment=None):
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             env={**os.environ, **(environment or {})})
        self.processes[name] = p
        time.sleep(1)
        if p.poll() is not None:
            del self.processes[name]
            raise OSError(f"{argv[0]} ended with {p.returncode}")

    def _node_exporter(self, tree):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        threading.Thread(target=self._scrape, args=(port,), daemon=True).start()
        return [[tree / "usr/bin/prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"]]

    def _scrape(self, port):
        while not self.over.wait(SCRAPE):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            c.request("GET", "/metrics")
            c.getresponse().read()
            c.close()

    def _collectd(self, tree):
        conf = self.folder / "collectd.conf"
        conf.write_text(COLLECTD.format(self.folder, tree))
        return [[tree / "usr/sbin/collectd", "-f", "-C", conf], {"LD_LIBRARY_PATH": str(tree / "usr/lib")}]

    def pids(self):
        return {name: p.pid for name, p in self.processes.items()}

    def stop(self):
        self.over.set()
        for p in self.processes.values():
            p.kill()
            p.wait()
        shutil.rmtree(self.folder)


def before_boot(host):
    host.lab_collector_address = host.lab.collector.address("eth0")
    scenario.configure(host, 1, scenario.WANTED_MTU)
    if host.name != "collector":  # not the tests' cadence
        host.write("/etc/tpu-hostd/hostd.conf.d/10-site.conf",
                   f"[Hostd]\nEndpoint=http://{host.lab_collector_address}:4318\n")


def agents(host):
    return {name: host.pid_outside(int(host.sh(f"systemctl show -p MainPID --value {name}"))) for name in scenario.AGENTS}


def print_row(name, rounds):
    medians = [statistics.median(column) for column in zip(*rounds)]
    print(f"{name:26} {medians[0]:9.0f} {medians[1]:13.0f} {medians[2]:11.4f} {medians[3]:15.1f}")
    return medians


def main():
    peers = Peers()
    try:
        peers.start()
        host_deb, collector_deb = scenario.debs(sys.argv[1] if len(sys.argv) > 1 else None)
        with Lab(hosts=1, debs=[host_deb], collector=[collector_deb], before_boot=before_boot) as lab:
            host = lab.hosts[0]
            host.wait_for(lambda: scenario.ctl_json(host, "status")["state"] != "unknown", 30, "the host's state is known")
            time.sleep(SETTLE)
            result = measure({**agents(host), **peers.pids()})
    finally:
        peers.stop()
    print(f"medians of {ROUNDS} rounds of {SECONDS} s\n{'':26} {'RSS kB':>9} {'priv. dirty kB':>13} {'CPU %':>10} {'switches/min':>15}")
    ours = {name: print_row(name, result[name]) for name in scenario.AGENTS}
    total = print_row("all daemons", [tuple(map(sum, zip(*each))) for each in zip(*(result[n] for n in scenario.AGENTS))])
    for name in peers.processes:
        print_row(name, result[name])
    missed = [text for text, bad in ((f"private dirty above {PRIVATE_GOAL_KB} kB", total[1] > PRIVATE_GOAL_KB),
                                     (f"tpu-hostd above {RESIDENT_GOAL_KB} kB resident", ours["tpu-hostd"][0] > RESIDENT_GOAL_KB),
                                     (f"processor above {CPU_GOAL} %", total[2] > CPU_GOAL)) if bad]
    print("; ".join(missed) or "within the goals")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
