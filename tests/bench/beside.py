#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What our daemons cost an idle host, beside three that hosts have today, all at once and in one run.

Four lab hosts of one kernel: on h0 all our daemons at default cadence, with a collector to send to and a
metadata server to
wait on; on three more, out of their Debian packages and under their own units, node_exporter scraped every
10 s from another
host, collectd with an interval of 10 s writing CSV files, and google-guest-agent waiting on the same
metadata server. Prints one
table: medians over the windows. How each column is measured is printed below it. Needs root, like the lab.

Usage: [SECONDS=60] [ROUNDS=5] beside.py [FOLDER OF OUR PACKAGES]
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "lab")]
from lab import Lab, network  # noqa: E402
from lab.command import LabError  # noqa: E402
import scenario  # noqa: E402

SECONDS = int(os.environ.get("SECONDS", 60))
ROUNDS = int(os.environ.get("ROUNDS", 5))
SETTLE = 30  # seconds behind the boot before the first window
SCRAPE = 10
# of all daemons, of tpu-hostd, percent of a core
PRIVATE_GOAL_KB, RESIDENT_GOAL_KB, CPU_GOAL = 4096, 16384, 0.05
EXPORTER, COLLECTD, GUEST = "h1", "h2", "h3"
PEERS = {EXPORTER: ("prometheus-node-exporter", "prometheus-node-exporter"),
         COLLECTD: ("collectd-core", "collectd"),
         GUEST: ("google-guest-agent", "google-guest-agent")}  # host: (package, unit)
UNITS = "/etc/systemd/system"
# up only when a metadata server answers
LATER = ("google-guest-agent.service", "google-startup-scripts.service")
COLLECTD_CONF = """BaseDir "/var/lib/collectd"
PIDFile "/run/collectd.pid"
PluginDir "/usr/lib/collectd"
TypesDB "/usr/share/collectd/types.db"
Interval 10
LoadPlugin cpu
LoadPlugin memory
LoadPlugin load
LoadPlugin interface
LoadPlugin disk
LoadPlugin df
LoadPlugin csv
<Plugin csv>
  DataDir "/var/lib/collectd/csv"
</Plugin>
"""
SCRAPER = """import sys, time, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1], timeout=5).read()
    time.sleep(float(sys.argv[2]))
"""
COLUMNS = (("RSS kB", "9.0f"), ("private kB", "11.0f"), ("CPU %", "8.4f"), ("switches/min", "13.1f"),
           ("written kB/min", "15.1f"),
           ("sent kB/min", "12.1f"))
METHOD = """RSS, private: Rss and Private_Dirty of smaps_rollup at the end of a window. CPU: ns on a processor of all threads
(schedstat), and of children that ended (cutime + cstime over the whole run, for they come in steps of 10 ms). switches:
voluntary and involuntary, of all threads: each is a wakeup, or a processor taken away. written: write_bytes, children's
included. sent: bytes that left the host by its NICs, which nobody else in it uses (all daemons together)."""


def memory(pid):
    """(resident, private dirty) in kB."""
    found = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        key, value = line.split(":")
        found[key] = int(value.split()[0])
    return found["Rss"], found["Private_Dirty"]


def children(pid):
    """Seconds of children that were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def work(pid):
    """(ns on a processor, switches, bytes written) of all threads."""
    cpu = switches = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        cpu += int((task / "schedstat").read_text().split()[0])
        switches += sum(int(line.split()[1]) for line in (task / "status").read_text().splitlines()
                        if "ctxt_switches" in line)
    written = next(int(line.split()[1]) for line in Path(f"/proc/{pid}/io").read_text().splitlines()
                   if line.startswith("write_bytes"))
    return cpu, switches, written


def sent(pid):
    """Bytes that left by the NICs of the process's network namespace."""
    lines = [line.split(":") for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]]
    return sum(int(counters.split()[8]) for name, counters in lines if name.strip().startswith("eth"))


def look(pid):
    return (*work(pid), sent(pid))


def measure(pids):
    """{name: a tuple of COLUMNS a window}."""
    result = {name: [] for name in pids}
    born, began = {name: children(pid) for name, pid in pids.items()}, time.monotonic()
    for _ in range(ROUNDS):
        before, start = {name: look(pid) for name, pid in pids.items()}, time.monotonic()
        time.sleep(SECONDS)
        for name, pid in pids.items():
            after, minutes = look(pid), (time.monotonic() - start) / 60
            cpu, switches, written, out = ((b - a) / minutes for a, b in zip(before[name], after))
            result[name].append((*memory(pid), cpu / 60e9 * 100, switches, written / 1024, out / 1024))
    for name, pid in pids.items():
        more = (children(pid) - born[name]) / (time.monotonic() - began) * 100
        result[name] = [(*w[:2], w[2] + more, *w[3:]) for w in result[name]]
    return result


def download(folder):
    """{host: [its .deb]}"""
    found = {}
    for host, (package, _) in PEERS.items():
        place = Path(folder, host)
        place.mkdir()
        subprocess.run(["apt-get", "-q", "download", package], cwd=place, check=True, capture_output=True)
        found[host] = [next(place.glob("*.deb"))]
    return found


def before_boot(host):
    if host.name == COLLECTD:
        host.write("/etc/collectd/collectd.conf", COLLECTD_CONF)
    if host.name == GUEST:
        for unit in LATER:
            host.path(f"{UNITS}/{unit}").symlink_to("/dev/null")
    if host.name in PEERS:
        return
    host.lab_collector_address = host.lab.collector.address("eth0")
    scenario.configure(host, 1, scenario.WANTED_MTU)
    if host.name != "collector":  # not the tests' cadence
        host.write("/etc/tpu-hostd/hostd.conf.d/10-site.conf",
                   f"[Hostd]\nEndpoint=http://{host.lab_collector_address}:4318\n"
                   "[Registry]\nKind=collector\n")


def metadata_server(lab):
    nics = {h.address("eth0"): [{"mac": network.mac(n, h.number), "ip": h.address(n)} for n in network.NICS]
            for h in lab.every}
    names = {h.address("eth0"): h.name for h in lab.every}
    server = subprocess.Popen(
        ["setpriv", "--pdeathsig=KILL", "nsenter", f"--net=/run/netns/{lab.switch.namespace}",
         sys.executable, "-B",
         HERE.parent / "lab" / "metadata.py", network.METADATA_ADDRESS, "80", json.dumps(nics),
         json.dumps(names)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ok\n"
    return server


def main_pid(host, unit):
    pid = int(host.sh(f"systemctl show -p MainPID --value {unit}"))
    if pid == 0:
        raise SystemExit(f"{unit} does not run on "
                         f"{host.name}:\n{host.sh(f'systemctl status {unit} || true')}")
    return host.pid_outside(pid)


def observe(lab):
    by_name = {h.name: h for h in lab.every}
    by_name[GUEST].sh(f"rm {UNITS}/{LATER[0]} && systemctl daemon-reload && systemctl start {LATER[0]}")
    exporter = by_name[EXPORTER].address("eth0")
    scraper = lab.collector.spawn(["python3", "-c", SCRAPER, f"http://{exporter}:9100/metrics", SCRAPE])
    pids = {name: main_pid(by_name["h0"], name) for name in scenario.AGENTS}
    pids |= {PEERS[name][0]: main_pid(by_name[name], PEERS[name][1]) for name in PEERS}
    by_name["h0"].wait_for(lambda: scenario.ctl_json(by_name["h0"], "status")["state"] != "unknown", 30,
                           "the host's state is known")
    time.sleep(SETTLE)
    result = measure(pids)
    if scraper.poll() is not None:
        raise SystemExit(f"the scrape of node_exporter ended: {scraper.communicate()[1]}")
    lab.collector.stop_command(scraper)
    return result


def print_row(name, windows):
    medians = [statistics.median(column) for column in zip(*windows)]
    print(f"{name:26}" + "".join(f" {m:{form}}" for m, (_, form) in zip(medians, COLUMNS)), flush=True)
    return medians


def together(windows):
    """The sum over daemons of one window; what left the host is the host's and counted once."""
    return (*map(sum, list(zip(*windows))[:-1]), windows[0][-1])


def main():
    with tempfile.TemporaryDirectory() as folder:
        host_deb, collector_deb = scenario.debs(sys.argv[1] if len(sys.argv) > 1 else None)
        with Lab(hosts=1 + len(PEERS), debs=[host_deb], collector=[collector_deb], debs_of=download(folder),
                 before_boot=before_boot) as lab:
            server = metadata_server(lab)
            try:
                result = observe(lab)
            finally:
                server.kill()
                server.communicate()
    print(f"medians of {ROUNDS} windows of {SECONDS} s\n{'':26}"
          + "".join(f" {title:>{form.split('.')[0]}}" for title, form in COLUMNS))
    ours = {name: print_row(name, result[name]) for name in scenario.AGENTS}
    total = print_row("all our daemons",
                      [together(each) for each in zip(*(result[name] for name in scenario.AGENTS))])
    for package, _ in PEERS.values():
        print_row(package, result[package])
    print(METHOD)
    missed = [text for text,
              bad in ((f"private dirty above {PRIVATE_GOAL_KB} kB", total[1] > PRIVATE_GOAL_KB),
                                     (f"tpu-hostd above {RESIDENT_GOAL_KB} kB resident",
                                      ours["tpu-hostd"][0] > RESIDENT_GOAL_KB),
                                     (f"processor above {CPU_GOAL} %", total[2] > CPU_GOAL)) if bad]
    print("; ".join(missed) or "within the goals")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as e:
        sys.exit(f"beside.py: {e}")
