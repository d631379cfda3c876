#!/usr/bin/python3
"""The host's numbers and its kernel log on a booted host: what is in the collector's database, held against
/proc, `ip` and systemd.

A counter is read from outside, then out of the database (a point taken after that), then from outside again:
it must lie between.
Needs root and packages. Usage: tests/lab/test_metrics.py [FOLDER-WITH-THE-PACKAGES]
"""

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402

STAND_IN = HERE.parent / "libtpu" / "libtpu_stand_in.py"
# As cloud-tpu-diagnostics has it done: faulthandler writes the stacks of the program into a file of this
# name.
WRITES_STACKS = """
import faulthandler, os
os.makedirs("/tmp/debugging", exist_ok=True)
def next_batch():
    with open("/tmp/debugging/stack_trace_2026_11_21_18_00_00.txt", "wb") as f:
        faulthandler.dump_traceback(f)
next_batch()
"""
FOLDER = os.environ.get("TPU_HOSTD_DEBS")
HZ = os.sysconf("SC_CLK_TCK")
GROUP = "/sys/fs/cgroup/tpu.slice/tpu-run.slice/tpu-run-train.slice"
# What this kind of host does not have: swap, control groups that account for memory.
ABSENT = {"system.paging.usage", "tpu.agent.memory.usage",
          "tpu.run.cpu.throttled_time", "tpu.run.memory.usage", "tpu.run.memory.part", "tpu.run.oom_kills",
          "tpu.run.tasks", "tpu.run.disk.io",
          "tpu.run.memory.major_faults", "tpu.run.memory.refaults", "tpu.run.memory.direct_reclaim"}
ROW = re.compile(r"^\| `([^`]+)` \| `[^`]+` \| (counter|gauge|histogram) \| (?:`([^`]*)` )?\| ([^|]*?)\|",
                 re.MULTILINE)


def microseconds(text):
    """Since 1970, of an RFC 3339 time in UTC."""
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1e6)


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


def fields(text, protocol):
    """A protocol's counters out of /proc/net/snmp or netstat."""
    names, values = [line.split()[1:] for line in text.splitlines() if line.startswith(protocol + ":")][:2]
    return dict(zip(names, map(int, values)))


def psi(text, kind):
    return int(re.search(rf"^{kind} .*total=(\d+)", text, re.MULTILINE)[1]) / 1e6


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = scenario.slice_lab(1, FOLDER, unified=True)
        cls.lab.__enter__()
        cls.host = cls.lab.hosts[0]
        cls.host.wait_for(lambda: cls.points("system.uptime"), 60, "metrics in the database")

    @classmethod
    def tearDownClass(cls):
        cls.lab.__exit__(None, None, None)

    @classmethod
    def points(cls, name):
        """[(attributes, value, microseconds)] of the host, the newest of each series."""
        return [(m["attributes"], m["value"], microseconds(m["time"]))
                for m in scenario.latest_metrics(cls.lab, cls.host) if m["name"] == name]

    def point(self, name, **attributes):
        """The value of a series, of a point that was taken from now on."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        since = time.time_ns() // 1000

        def fresh():
            return [value for found, value, taken in self.points(name) if found == wanted and taken > since]

        return self.host.wait_for(lambda: [(v,) for v in fresh()], 20,
                                  f"a new point of {name} {wanted}")[0][0]

    def between(self, outside, name, **attributes):
        """outside: a counter as seen by somebody else."""
        before = outside()
        value = self.point(name, **attributes)
        after = outside()
        self.assertLessEqual(before - 1e-5, value, name)
        self.assertLessEqual(value, after + 1e-5, name)
        return value

    def read(self, path):
        return self.host.sh(f"cat {path}")

    def test_1_nic(self):
        def nic(side, what):
            return json.loads(self.host.sh("ip -s -j link show eth0"))[0]["stats64"][side][what]

        send = "import socket, sys\ns = socket.socket(type=socket.SOCK_DGRAM)\n"
        send += "for _ in range(200): s.sendto(bytes(8000), (sys.argv[1], 9))"
        self.host.run(["python3", "-c", send, "10.10.0.100"], check=False)
        self.lab.collector.run(["python3", "-c", send, self.host.address("eth0")], check=False)
        for side, direction in (("rx", "receive"), ("tx", "transmit")):
            for what, name in (("bytes", "io"), ("packets", "packet.count"), ("errors", "errors"),
                               ("dropped", "packet.dropped")):
                value = self.between(lambda: nic(side, what), f"system.network.{name}",
                                     network__interface__name="eth0",
                                     network__io__direction=direction)
                if what == "bytes":
                    self.assertGreater(value, 200 * 8000)

    def test_2_tcp_and_receive_path(self):
        def softnet(column):
            return sum(int(line.split()[column], 16)
                       for line in self.read("/proc/net/softnet_stat").splitlines())

        before = self.point("tpu.tcp.segments",
                            tpu__tcp__segment__kind="sent_again"), self.point("tpu.tcp.timeouts")
        self.host.cut("eth0")
        try:
            self.host.run(["python3", "-c",
                           "import socket; socket.create_connection(('10.10.0.100', 9471), 4)"], check=False)
        finally:
            self.host.heal("eth0")
        tcp, ext = lambda k: fields(self.read("/proc/net/snmp"),
                                    "Tcp")[k], lambda k: fields(self.read("/proc/net/netstat"), "TcpExt")[k]
        self.assertGreater(self.between(lambda: tcp("RetransSegs"), "tpu.tcp.segments",
                                        tpu__tcp__segment__kind="sent_again"), before[0])
        self.assertGreater(self.between(lambda: ext("TCPTimeouts"), "tpu.tcp.timeouts"), before[1])
        self.between(lambda: tcp("OutSegs"), "tpu.tcp.segments", tpu__tcp__segment__kind="sent")
        self.assertGreater(self.between(lambda: softnet(0), "tpu.softnet.packets",
                                        tpu__softnet__outcome="processed"), 0)
        self.between(lambda: softnet(1), "tpu.softnet.packets", tpu__softnet__outcome="dropped")

    def test_3_cpu_pressure_memory(self):
        for column, mode in ((1, "user"), (3, "system"), (4, "idle"), (7, "softirq")):
            self.between(lambda: int(self.read("/proc/stat").split()[column]) / HZ, "system.cpu.time",
                         cpu__mode=mode)
        for resource, kind in (("cpu", "some"), ("memory", "some"), ("io", "full")):
            self.between(lambda: psi(self.read(f"/proc/pressure/{resource}"), kind),
                         "tpu.pressure.stall_time",
                         tpu__pressure__resource=resource, tpu__pressure__kind=kind)
        meminfo = dict(re.findall(r"^(\w+): +(\d+)", self.read("/proc/meminfo"), re.MULTILINE))
        self.assertEqual(self.point("system.memory.limit"), int(meminfo["MemTotal"]) * 1024)
        self.assertAlmostEqual(
                self.point("system.memory.linux.available") / (int(meminfo["MemAvailable"]) * 1024), 1,
                delta=0.1)
        self.assertEqual(self.point("system.cpu.logical.count"), os.sysconf("SC_NPROCESSORS_ONLN"))
        self.between(lambda: int(re.search(r"^pgmajfault (\d+)", self.read("/proc/vmstat"),
                                           re.MULTILINE)[1]), "system.paging.faults",
                     system__paging__fault__type="major")

    def test_4_disk(self):
        def column(n):
            return int(next(line.split() for line in self.read("/proc/diskstats").splitlines()
                            if line.split()[2] == disk)[n])

        disk = sorted(a["system.device"] for a, _, _ in self.points("system.disk.io_time"))[0]
        self.between(lambda: column(9) * 512, "system.disk.io", system__device=disk,
                     disk__io__direction="write")
        self.between(lambda: column(7), "system.disk.operations", system__device=disk,
                     disk__io__direction="write")
        self.between(lambda: column(12) / 1e3, "system.disk.io_time", system__device=disk)

    def test_5_run(self):
        def systemd():
            return int(scenario.unit(self.host, "tpu-run-train.slice", "CPUUsageNSec")["CPUUsageNSec"]) / 1e9

        def cpu(what):
            return int(re.search(rf"^{what}_usec (\d+)", self.read(f"{GROUP}/cpu.stat"),
                                 re.MULTILINE)[1]) / 1e6

        scenario.start_training(self.host)
        scenario.wait_step(self.host, "train", 0)
        kinds = [f"{kind}Accounting" for kind in ("CPU", "Memory", "Tasks", "IO")]
        self.assertEqual(scenario.unit(self.host, "tpu-run-train.service", *kinds),
                         dict.fromkeys(kinds, "yes"))
        self.disk()
        for mode in ("user", "system"):
            self.between(lambda: cpu(mode), "tpu.run.cpu.time", tpu__run__name="train", cpu__mode=mode)
        for resource in ("cpu", "memory", "io"):
            self.between(lambda: psi(self.read(f"{GROUP}/{resource}.pressure"), "some"),
                         "tpu.run.pressure.stall_time", tpu__run__name="train",
                         tpu__pressure__resource=resource, tpu__pressure__kind="some")
        before = systemd()
        both = self.point("tpu.run.cpu.time", tpu__run__name="train", cpu__mode="user") + \
            self.point("tpu.run.cpu.time", tpu__run__name="train", cpu__mode="system")
        self.assertLessEqual(before - 0.1, both)
        self.assertLessEqual(both, systemd() + 0.1)
        print(f"run: {both:.2f} s of CPU; systemd said {before:.2f} s before and {systemd():.2f} s after",
              file=sys.stderr)
        scenario.ctl(self.host, "stop", "train")
        stopped = time.time_ns() // 1000
        time.sleep(6)
        newest = max(taken for attributes, _,
                     taken in self.points("tpu.run.cpu.time") if attributes["tpu.run.name"] == "train")
        self.assertLess(newest, stopped + 5e6)  # a run that is gone is not measured any more

    def disk(self):
        """What the run's slice wrote, where the kernel has the io controller in version 2."""
        if "io" not in self.read("/sys/fs/cgroup/cgroup.controllers").split():
            print("run: no io controller in version 2 here: what a slice writes is not checked",
                  file=sys.stderr)
            return
        self.assertRegex(self.read(f"{GROUP}/../cgroup.subtree_control"), r"\bio\b")

        def written():
            return sum(map(int, re.findall(r"\bwbytes=(\d+)", self.read(f"{GROUP}/io.stat"))))

        self.between(written, "tpu.run.disk.io", tpu__run__name="train", disk__io__direction="write")

    def test_6_our_own_daemons(self):
        for name in scenario.AGENTS:
            def cpu(what):
                text = self.read(f"/sys/fs/cgroup/system.slice/{name}.service/cpu.stat")
                return int(re.search(rf"^{what}_usec (\d+)", text, re.MULTILINE)[1]) / 1e6
            for mode in ("user", "system"):
                self.between(lambda: cpu(mode), "tpu.agent.cpu.time", tpu__unit=f"{name}.service",
                             cpu__mode=mode)

    def test_7_kernel_log(self):
        pid = scenario.unit(self.host, "tpu-hostd.service", "MainPID")["MainPID"]
        status = self.read(f"/proc/{pid}/status")
        held = {line.split()[0]: line.split()[1] for line in status.splitlines() if line.startswith("Cap")}
        self.assertEqual(held.pop("CapBnd:"), "000000c000000000",
                         "BPF and PERFMON: what it may begin with, no more")
        self.assertEqual(set(held.values()), {"0" * 16})
        self.assertEqual(self.point("tpu.kernel.log.readable"), 1)
        marker = f"lab-{uuid.uuid4()}"

        def mine():
            return [b for b in map(json.loads, scenario.events(self.lab, self.host, "tpu.kernel.fault"))
                    if marker in b["text"]]

        before = self.point("tpu.kernel.faults", tpu__kernel__fault="conntrack_full")
        for _ in range(3):
            self.host.sh(f"echo '<3>{marker}: nf_conntrack: table full, dropping nothing, this is a test' "
                         f">/dev/kmsg")
        body = self.host.wait_for(mine, 30, "the event")[0]
        self.assertEqual((body["fault"], body["level"], body["from"]), ("conntrack_full", 3, "process"))
        self.host.wait_for(lambda: self.point("tpu.kernel.faults",
                                              tpu__kernel__fault="conntrack_full") >= before + 3, 20,
                           "all three lines are counted")
        self.assertEqual(len(mine()), 1)
        # Neither a restart nor a crash tells it again.
        self.host.sh("systemctl restart tpu-hostd")
        self.host.sh("kill -KILL $(systemctl show -p MainPID --value tpu-hostd)")
        self.host.wait_for(lambda: self.point("tpu.kernel.log.readable") == 1, 30, "the agent is back")
        time.sleep(3)
        told = mine()
        self.assertEqual(sum(b["lines"] for b in told), 3, told)
        explained = self.host.sh("journalctl -x --no-pager -u tpu-hostd TPU_EVENT=tpu.kernel.fault")
        self.assertIn("What to do: journalctl -k -b", explained)

    def stand_in(self):
        """A stand-in for libtpu on the host's loopback: there is no TPU. Returns what it is told by, and
        the calls it got so far."""
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="stand-in-")))
        process = subprocess.Popen(["nsenter", "-t", str(self.host.leader), "-n", "/usr/bin/python3",
                                    STAND_IN, "--port", "8431",
                                    "--state", folder / "state.json", "--calls", folder / "calls"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)
        self.assertIn("stand-in for libtpu listens on 8431", process.stdout.readline())
        return (folder / "state.json",
                lambda: (folder / "calls").read_text().split() if (folder / "calls").exists() else [])

    def test_7_tpu_runtime(self):
        state, calls = self.stand_in()
        state.write_text(json.dumps({"core": {"2": {"error": "HANG_DETECTED", "pc": 7}}}))
        scenario.start_training(self.host)
        scenario.wait_step(self.host, "train", 5)
        known = {"tpu.run.name": "train", "tpu.process": "0", "tpu.chip": "3"}
        taken = self.host.wait_for(lambda: [v for a, v, _ in self.points("tpu.duty_cycle") if a == known],
                                   60, "the chips' metrics of the run")
        self.assertAlmostEqual(taken[0], 0.975)
        self.assertEqual([v for a, v, _ in self.points("tpu.hbm.usage") if a == known], [17179869187])
        self.host.wait_for(lambda: [v for a, v, _ in self.points("tpu.dcn.transfer.duration.count")
                                    if a["tpu.run.name"] == "train" and a["tpu.buffer.size"] == "1MB+"], 60,
                           "latencies")
        whose, = [h for h in scenario.ctl_json(self.host, "fleet")["hosts"] if h["name"] == self.host.name]
        self.assertEqual((whose["slice"], whose["worker_id"]), ("lab", 0))
        self.assertNotIn("GetTpuRuntimeStatus", calls())  # nobody suspects anything
        if os.environ.get("FULL") == "1":
            said = self.suspected()
        else:  # a person asks: by the agent of this host, twice
            said = scenario.ctl_json(self.host, "diagnose", "lab", "--from", "agents", "--run", "stalled")
        self.assertIn("GetTpuRuntimeStatus", calls())
        first = said["suspects"][0]
        self.assertEqual((first["host"], first["kind"]), (self.host.name, "core"), said["summary"])
        self.assertIn('its TPU core 2 reports "HANG_DETECTED"', first["sentence"])
        print(f"{len(calls())} calls to the stand-in for libtpu, of GetTpuRuntimeStatus "
              f"{calls().count('GetTpuRuntimeStatus')}", file=sys.stderr)
        scenario.ctl(self.host, "stop", "train")

    def suspected(self):
        """The run is stopped until its host suspects it; the collector has the captures then."""
        pid = scenario.unit(self.host, "tpu-run-train.service", "MainPID")["MainPID"]
        self.host.sh(f"kill -STOP {pid}")

        def diagnosed():
            out = scenario.ctl(self.host, "diagnose", "lab", "--run", "stalled", "--json", check=False).out
            # nothing: the collector has no captures yet
            return (d := json.loads(out))["suspects"] and d if out else None
        try:
            return self.host.wait_for(diagnosed, 90, "captures in the collector, and a suspect")
        finally:
            self.host.sh(f"kill -CONT {pid}")

    def test_7_stack_file(self):
        self.host.run(["python3", "-c", WRITES_STACKS], user="nobody")
        body = json.loads(self.host.wait_for(lambda: scenario.events(self.lab, self.host, "tpu.stack.file"),
                                             60, "the stack in the database")[0])
        self.assertEqual((body["verb"], body["node"], body["slice"], body["worker"], body["kind"]),
                         ("stacktraceanalyzer", self.host.name, "lab", "0", "snapshot"))
        self.assertEqual(body["file"], "/tmp/debugging/stack_trace_2026_11_21_18_00_00.txt")
        self.assertIn("in next_batch\n", body["text"])

    def test_8_what_is_documented(self):
        text = (HERE.parents[1] / "docs" / "metrics.md").read_text()
        documented, told_as = {}, {}  # the collector keeps of a histogram its count and its sum
        for name, kind, unit, keys in ROW.findall(text):
            units = {".count": "", ".sum": unit} if kind == "histogram" else {"": unit}
            told_as[name] = {name + end for end in units}
            documented.update({name + end: (u, frozenset(re.findall(r"`([^`]+)`", keys))) for end,
                               u in units.items()})
        rows = scenario.latest_metrics(self.lab, self.host)
        sent = {m["name"]: (m["unit"], frozenset(m["attributes"])) for m in rows}
        self.assertEqual({name: what for name, what in sent.items() if documented.get(name) != what}, {})
        first = text.split("## The agent's own view")[0]
        missing = {name for name, _, _, _ in ROW.findall(first) if not told_as[name] & set(sent)}
        self.assertLessEqual(missing, ABSENT)
        print(f"{len(rows)} series of {len(sent)} metrics; not on this host: {', '.join(sorted(missing))}",
              file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        FOLDER = sys.argv.pop(1)
    unittest.main(verbosity=2)
