"""Every field that tpu-hostd sends, read by OpenTelemetry's own definitions: what there is, what there is
not, and every value
that the machine below it tells otherwise. Skipped, with the reason, where those definitions cannot be
had."""

import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import peers  # noqa: E402

try:
    import strict
except peers.Missing as why:
    peers.skip(why, __name__)
import agent  # noqa: E402
import documented  # noqa: E402
from agent import RIGHT, STEP, WRONG, Hostd, wait_until  # noqa: E402
from around import BINARY, TOP, capture_wire, captured, message  # noqa: E402

sys.path.insert(0, str(TOP / "tests/netns"))
import namespace  # noqa: E402

RESOURCE = {"host.name": "t1v-n-0a1b2c3d-w-0", "service.name": "tpu-hostd",
            "service.instance.id": "t1v-n-0a1b2c3d-w-0",
            "tpu.boot.id": "5e0f3a52-52a7-4d2b-9b1c-6a1f0e4d7c3b",
            "tpu.slice.name": "v6e-a", "tpu.worker.id": "0", "tpu.accelerator.type": "v6e-16"}
ENVELOPE = {"resource.attributes.key", "resource.attributes.value:string_value"}
POINT = {"data_points.time_unix_nano", "data_points.as_int", "data_points.as_double",
         "data_points.attributes.key",
         "data_points.attributes.value:string_value"}
METRIC = {"name", "description", "unit", *("gauge." + p for p in POINT), *("sum." + p for p in POINT),
          "sum.data_points.start_time_unix_nano",
          "sum.aggregation_temporality", "sum.is_monotonic", "histogram.aggregation_temporality",
          *("histogram.data_points." + f for f in ("attributes.key", "attributes.value:string_value",
                                                   "start_time_unix_nano", "time_unix_nano", "count",
                                                   "sum", "min", "max", "bucket_counts", "explicit_bounds"))}
RECORD = {"time_unix_nano", "observed_time_unix_nano", "severity_number", "severity_text",
          "body:kvlist_value", "attributes.key",
          "attributes.value:string_value", "attributes.value:int_value", "event_name"}
SEVERITIES = {9: "INFO", 13: "WARN", 17: "ERROR", 21: "FATAL"}
NANO = 10 ** 9


LINE = "tpu.run.line"  # what a run prints, of a spool class of its own


def expected_fields(kind, leaves, leaf):
    top = f"resource_{kind}."
    return {top + e for e in ENVELOPE} | {f"{top}scope_{kind}.scope.{x}"
                                          for x in ("name", "version")} | {f"{top}scope_{kind}.{leaf}.{x}"
                                                                           for x in leaves}


@unittest.skipUnless(agent.JOURNAL_WRITER.exists(), "systemd-journal-remote is not installed")
class Fixture(unittest.TestCase):
    """One agent, one strict receiver, and all that this machine of fixtures can bring an agent to say."""

    @classmethod
    def setUpClass(cls):
        cls.receiver = r = strict.Receiver(cls.answer)
        cls.addClassCleanup(r.stop)
        cls.h = h = Hostd(cls.addClassCleanup, r.url, MetricsInterval="500ms")
        line = h.journal()
        launchd = h.launchd()
        launchd.capture = lambda name: captured(name, "träin.py:9 step", time.time_ns() // 1000)
        cls.began = time.time_ns()
        h.start()
        cls.see("tpu.run.cpu.time")
        line(STEP.format(40))
        cls.see("tpu.run.step.number")
        line("Saved a checkpoint at step 40.")
        line(STEP.format(41))
        cls.see("tpu.run.step.duration")
        cls.see("tpu.run.checkpoint.steps_since")
        cls.seen_first = cls.see("system.network.io", receive="eth0")
        h.net_dev(eth0=123456789 + 4711)
        cls.see("system.network.io", receive="eth0", value=123456789 + 4711)
        h.net_dev(eth0=5)
        cls.see("system.network.io", receive="eth0", value=5)
        h.rmem(WRONG)
        cls.event("tpu.host.state_changed", to="unfit")
        h.rmem(RIGHT)
        cls.event("tpu.host.state_changed", to="ready", source="unfit")
        assert h.call("/v1/runs/my-run/capture", "POST")[0] == 200
        cls.event("tpu.stack.captured")
        cls.status = wait_until(
                lambda: (s := h.get("/v1/status")["uplink"])["classes"]["metrics"]["dropped_by"]["refused: in part"] and s, 30, "partial success")
        cls.told = h.events()
        h.stop()
        cls.points, said, cls.ended = r.points(), r.records(), time.time_ns()
        cls.records = [(resource, x) for resource, x in said if x.event_name != LINE]
        cls.lines = [(resource, x) for resource, x in said if x.event_name == LINE]

    @staticmethod
    def answer(path, before):
        """503 first, then what only partly pleases, then all well."""
        if before == 0:
            return 503, {"Retry-After": "1"}, None
        return 200, {}, 3 if path == "/v1/metrics" and before == 2 else None

    @classmethod
    def wait(cls, path, take, name):
        """What take says of a request of the path that was answered 200; each is looked at once."""
        at = 0

        def found():
            nonlocal at
            while at < len(cls.receiver.got):
                p, status, _, request = cls.receiver.got[at]
                at += 1
                if p == path and status == 200 and (result := take(request)):
                    return result
            return None

        return wait_until(found, 60, name)

    @classmethod
    def see(cls, name, receive=None, value=None):
        def take(request):
            for _, m, _, _, p in strict.points(request):
                if m.name == name:
                    attributes = strict.pairs(p.attributes)
                    if (receive is None
                        or (attributes["network.interface.name"], attributes["network.io.direction"])
                        == (receive, "receive")) and \
                            (value is None or value == strict.number(p)):
                        return p
            return None

        return cls.wait("/v1/metrics", take, f"{name} {receive} {value}")

    @classmethod
    def event(cls, name, to=None, source=None):
        def take(request):
            for _, x in strict.records(request):
                body = strict.value(x.body)
                if x.event_name == name and to in (None, body.get("to")) and source in (None,
                                                                                        body.get("from")):
                    return x
            return None

        return cls.wait("/v1/logs", take, f"{name} {to}")

    def points_of(self, name):
        """{attributes' values by their keys' order: [points]} of a metric."""
        out = {}
        for _, m, _, _, p in self.points:
            if m.name == name:
                out.setdefault(tuple(v for _, v in sorted(strict.pairs(p.attributes).items())), []).append(p)
        return out

    def last(self, name):
        return {k: strict.number(p[-1]) for k, p in self.points_of(name).items()}

    def read(self, path):
        return (self.h.root / path).read_text()

    def test_nothing_but_these_fields(self):
        self.assertEqual(self.receiver.faults, [])
        fields = {"/v1/metrics": set(), "/v1/logs": set()}
        for path, _, _, request in self.receiver.got:
            fields[path] |= strict.field_paths(request)
        self.assertEqual(fields["/v1/metrics"], expected_fields("metrics", METRIC, "metrics"))
        text = "resource_logs.scope_logs.log_records.body:string_value"  # of lines
        self.assertEqual(fields["/v1/logs"], expected_fields("logs", RECORD, "log_records") | {text})

    def test_who_speaks(self):
        version = subprocess.run([BINARY, "--version"], capture_output=True, text=True,
                                 check=True).stdout.split()[1]
        wanted = {**RESOURCE, "service.version": version}
        seen = [r for r, *_ in self.points] + [r for r, _ in self.records + self.lines]
        self.assertEqual({frozenset(r.items()) for r in seen}, {frozenset(wanted.items())})
        for path, _, _, request in self.receiver.got:
            for outer in getattr(request,
                                 {"/v1/metrics": "resource_metrics", "/v1/logs": "resource_logs"}[path]):
                scopes = outer.scope_metrics if path == "/v1/metrics" else outer.scope_logs
                self.assertEqual([(s.scope.name, s.scope.version) for s in scopes], [("tpu-hostd", version)])

    def test_metrics_are_as_documented(self):
        """Name, kind, unit and attributes of every point as docs/metrics.md says; both ways but for what
        a folder cannot have."""
        sent = {}
        for _, m, kind, _, p in self.points:
            sent.setdefault(m.name, set()).add((documented.KINDS[kind], m.unit,
                                                frozenset(strict.pairs(p.attributes))))
            self.assertRegex(m.description, r"^[A-Z0-9].*[^.\s]$", m.name)
        table = documented.table()
        self.assertEqual({n: s for n, s in sent.items() if s != {table.get(n)}}, {})
        # A folder has no kernel log: that is in Real below.
        self.assertEqual(set(table) - set(sent),
                         {"tpu.kernel.faults", "tpu.kernel.log.lost"}
                         | documented.of_the_tpu_runtime() | documented.of_the_network())

    def test_sums_and_gauges(self):
        for _, m, kind, data, p in self.points:
            self.assertTrue(self.began - NANO < p.time_unix_nano <= self.ended, m.name)
            if kind == "sum":
                # cumulative
                self.assertEqual((data.aggregation_temporality, data.is_monotonic), (2, True), m.name)
                self.assertTrue(0 < p.start_time_unix_nano < p.time_unix_nano, m.name)
                self.assertGreaterEqual(strict.number(p), 0, m.name)
            elif kind == "histogram":
                self.assertEqual(data.aggregation_temporality, 2, m.name)
                self.assertTrue(0 < p.start_time_unix_nano < p.time_unix_nano, m.name)
                self.assertEqual((sum(p.bucket_counts), len(p.bucket_counts)),
                                 (p.count, len(p.explicit_bounds) + 1), m.name)
                self.assertEqual(list(p.explicit_bounds), sorted(set(p.explicit_bounds)), m.name)
                self.assertTrue(p.min <= p.sum / p.count <= p.max, m.name)
            else:
                self.assertEqual(p.start_time_unix_nano, 0, m.name)

    def test_series_go_on(self):
        """Times rise; a sum never falls without a new start."""
        series = {}
        for request in self.receiver.requests("/v1/metrics"):
            seen = set()
            for _, m, _, _, p in strict.points(request):
                key = (m.name, tuple(sorted(strict.pairs(p.attributes).items())))
                self.assertNotIn((key, p.time_unix_nano), seen)
                seen.add((key, p.time_unix_nano))
                series.setdefault(key, []).append((m.WhichOneof("data"), p))
        for key, points in series.items():
            for (kind, a), (_, b) in zip(points, points[1:]):
                self.assertLess(a.time_unix_nano, b.time_unix_nano, key)
                if kind == "sum" and a.start_time_unix_nano == b.start_time_unix_nano:
                    self.assertLessEqual(strict.number(a), strict.number(b), key)

    def test_bytes_between_two_samples(self):
        points = self.points_of("system.network.io")[("eth0", "receive")]
        values = [p.as_int for p in points]
        first, grown, reset = (values.index(v) for v in (123456789, 123456789 + 4711, 5))
        self.assertEqual(sorted(set(values)), [5, 123456789, 123456789 + 4711])
        self.assertEqual(points[first].start_time_unix_nano, points[grown].start_time_unix_nano)
        # began anew after what was seen last
        self.assertEqual(points[reset].start_time_unix_nano, points[reset - 1].time_unix_nano)

    def test_values_are_the_machines(self):
        """Read here from the same files by other code."""
        columns = {}
        for line in self.read("proc/net/dev").splitlines()[2:]:
            name, _, numbers = line.partition(":")
            columns[name.strip()] = list(map(int, numbers.split()))
        for metric, receive, transmit in (("io", 0, 8), ("packet.count", 1, 9), ("errors", 2, 10),
                                          ("packet.dropped", 3, 11)):
            self.assertEqual(self.last("system.network." + metric),
                             {(nic, way): columns[nic][at] for nic in ("eth0", "eth1") for way,
                              at in (("receive", receive), ("transmit", transmit))}, metric)
        hz = os.sysconf("SC_CLK_TCK")
        cpu = list(map(int, self.read("proc/stat").split()[1:9]))
        self.assertEqual(self.last("system.cpu.time"), {(mode,): n / hz for mode, n in zip(
            ("user", "nice", "system", "idle", "iowait", "interrupt", "softirq", "steal"), cpu)})
        memory = {k: int(v) * 1024 for k,
                  v in re.findall(r"^(\w+): +(\d+)", self.read("proc/meminfo"), re.M)}
        self.assertEqual(self.last("system.memory.limit"), {(): memory["MemTotal"]})
        self.assertEqual(self.last("system.memory.linux.available"), {(): memory["MemAvailable"]})
        usage = self.last("system.memory.usage")
        self.assertEqual({k[0]: usage[k] for k in usage if k != ("used",)},
                         {"free": memory["MemFree"], "buffers": memory["Buffers"],
                          "cached": memory["Cached"]})
        self.assertEqual(sum(usage.values()), memory["MemTotal"])
        disks = {w[2]: list(map(int, w[3:]))
                 for w in map(str.split, self.read("proc/diskstats").splitlines())}
        self.assertEqual(self.last("system.disk.io"),
                         {(way, d): disks[d][at] * 512 for d in ("sda", "nvme0n1") for way,
                          at in (("read", 2), ("write", 6))})
        self.assertEqual(self.last("system.disk.io_time"),
                         {(d,): disks[d][9] / 1000 for d in ("sda", "nvme0n1")})
        for resource in ("cpu", "memory", "io"):
            for kind, total in re.findall(r"^(\w+) .*total=(\d+)", self.read(f"proc/pressure/{resource}"),
                                          re.M):
                if (kind, resource) != ("full", "cpu"):  # which means nothing for a whole host
                    self.assertEqual(self.last("tpu.pressure.stall_time")[kind, resource], int(total) / 1e6)
        names, values = [line.split()[1:] for line in self.read("proc/net/snmp").splitlines()
                         if line.startswith("Tcp:")]
        tcp = dict(zip(names, map(int, values)))
        self.assertEqual(self.last("tpu.tcp.segments"),
                         {("received",): tcp["InSegs"], ("sent",): tcp["OutSegs"],
                          ("sent_again",): tcp["RetransSegs"]})
        self.assertEqual(self.last("process.cpu.time"), {(): (250 + 150) / hz})
        self.assertEqual(self.last("process.memory.usage"), {(): 1000 * os.sysconf("SC_PAGESIZE")})
        group = self.h.root / "sys/fs/cgroup/tpu.slice/tpu-run.slice/tpu-run-my_run.slice"
        used = dict(re.findall(r"^(\w+)_usec (\d+)", (group / "cpu.stat").read_text(), re.M))
        self.assertEqual(self.last("tpu.run.cpu.time"),
                         {(m, "my-run"): int(used[m]) / 1e6 for m in ("user", "system")})
        self.assertEqual(self.last("tpu.run.memory.usage"),
                         {("my-run",): int((group / "memory.current").read_text())})
        self.assertEqual((self.last("tpu.run.step.number"), self.last("tpu.run.loss")),
                         ({("my-run",): 41}, {("my-run",): 1.5}))
        self.assertEqual(self.last("tpu.run.checkpoint.steps_since"), {("my-run",): 1})
        self.assertTrue(0 <= self.last("tpu.run.checkpoint.age")["my-run",] < 300)
        states = self.points_of("tpu.host.state")
        for at in range(len(states["ready",])):
            self.assertEqual(sum(p[at].as_int for p in states.values()), 1)

    def test_log_records(self):
        records = self.records
        seen = set()
        for _, x in records:
            self.assertRegex(x.event_name, r"^tpu\.[a-z_.]+$")
            self.assertEqual(x.severity_text, SEVERITIES[x.severity_number])
            self.assertEqual(x.time_unix_nano, x.observed_time_unix_nano)
            self.assertTrue(self.began - NANO < x.time_unix_nano <= self.ended)
            attributes = strict.pairs(x.attributes)
            self.assertEqual(set(attributes), {"tpu.spool.id", "tpu.spool.class", "tpu.spool.seq"})
            self.assertRegex(attributes["tpu.spool.id"], r"^[0-9a-f]{16}$")
            seen.add((attributes["tpu.spool.id"], attributes["tpu.spool.class"],
                      attributes["tpu.spool.seq"]))
            self.assertIsInstance(strict.value(x.body), dict)
        self.assertEqual(len({s[:2] for s in seen}), 1)
        self.assertEqual(sorted(n for *_, n in seen), list(range(1, len(records) + 1)))
        headers = [h["TPU-Spool-Record"] for path, status, h,
                   _ in self.receiver.got if path == "/v1/logs" and status == 200]
        headers = [h for h in headers if h.split("/")[1] == "events"]
        self.assertEqual(sorted(headers), sorted("/".join(map(str, s)) for s in seen))

    def test_lines_of_runs(self):
        """Each once, numbered from 1, with the run's name and this host's slice."""
        numbers = []
        for resource, x in self.lines:
            attributes = strict.pairs(x.attributes)
            self.assertEqual(set(attributes),
                             {"tpu.run.name", "tpu.run.invocation", "tpu.run.line", "tpu.run.priority",
                                               "tpu.slice.name", "tpu.worker.id"})
            self.assertEqual(attributes["tpu.run.name"], "my-run")
            self.assertEqual((attributes["tpu.slice.name"], str(attributes["tpu.worker.id"])),
                             (resource["tpu.slice.name"], resource["tpu.worker.id"]))
            self.assertEqual((x.severity_number, x.severity_text), (9, "INFO"))
            self.assertTrue(strict.value(x.body).startswith(("completed step: ", "Saved a checkpoint")))
            numbers.append(attributes["tpu.run.line"])
        self.assertEqual(sorted(numbers), list(range(1, len(numbers) + 1)))
        self.assertGreater(len(numbers), 0)

    def test_events_say_what_the_api_says(self):
        """Name, severity, time and body, in the order of both."""
        sent = [(x.event_name, x.severity_text, strict.value(x.body)) for _,
                x in self.records if x.event_name != "tpu.stack.captured"]
        # which comes after the API was asked
        self.assertEqual(sent.pop()[:2], ("tpu.agent.stopping", "INFO"))
        self.assertEqual(sent, [(e["name"], e["severity"], e["body"]) for e in self.told
                                if e["name"] != "tpu.stack.captured"][:len(sent)])
        self.assertEqual(self.event("tpu.host.state_changed", to="unfit").severity_number, 17)
        self.assertEqual(strict.value(self.event("tpu.check.changed", to="FAIL").body)["found"],
                         " ".join(WRONG.split()))
        stack = strict.value(self.event("tpu.stack.captured").body)
        self.assertEqual((stack["verb"], stack["node"], stack["slice"], stack["worker"]),
                         ("stacktraceanalyzer", RESOURCE["host.name"], "v6e-a", "0"))
        self.assertEqual(stack["text"], capture_wire.text_shown("träin.py:9 step"))

    def test_answers_are_obeyed(self):
        """503 with Retry-After: the same again, not sooner; what is refused in part: counted, never
        again."""
        for path in ("/v1/metrics", "/v1/logs"):
            tries = [(at, status, h["TPU-Spool-Record"], request) for at,
                     (p, status, h, request) in zip(self.receiver.times, self.receiver.got) if p == path]
            self.assertEqual([t[1] for t in tries[:2]], [503, 200])
            self.assertEqual(tries[0][2:], tries[1][2:])
            self.assertGreaterEqual(tries[1][0] - tries[0][0], 0.99)
            accepted = [record for _, status, record, _ in tries if status == 200]
            self.assertEqual(len(accepted), len(set(accepted)))
        self.assertEqual(self.status["classes"]["metrics"]["dropped_by"]["refused: in part"], 3)

    def test_gzip_and_length(self):
        for _, _, headers, request in self.receiver.got:
            self.assertIsNotNone(headers["Content-Length"])
            self.assertIsNone(headers["Expect"])
            if request.ByteSize() > 4096:
                self.assertEqual(headers["Content-Encoding"], "gzip")


class Real(unittest.TestCase):
    """The agent on the true /proc and /sys of this machine, in a network namespace of its own."""

    def listener(self):
        """A listening socket of the host's namespace."""
        out = []

        def enter():
            with open(f"/proc/{self.host.holder.pid}/ns/net") as ns:
                # CLONE_NEWNET, of this thread only
                if ctypes.CDLL(None, use_errno=True).setns(ns.fileno(), 0x40000000) != 0:
                    return
            s = socket.create_server(("127.0.0.1", 0))
            out.append(s)

        t = threading.Thread(target=enter)
        t.start()
        t.join()
        return out[0]

    def setUp(self):
        try:
            self.host = namespace.Host(str(TOP / "netcfg/profiles"))
        except namespace.NotPermitted as e:
            self.skipTest(str(e))
        self.addCleanup(self.host.close)
        self.receiver = strict.Receiver(listener=self.listener())
        self.addCleanup(self.receiver.stop)
        tree = self.host.tree
        Path(f"{tree}/hostd.conf").write_text(
            f"[Hostd]\nEndpoint={self.receiver.url}\nApiSocket={tree}/api.sock\n"
            f"SpoolDirectory={tree}/spool\nJournal={tree}/none\nMetricsInterval=200ms\n"
            "[Metadata]\nHost=none\n")
        with open(f"{tree}/said", "wb") as said:
            self.process = subprocess.Popen(self.host.command(str(BINARY), "--config", f"{tree}/hostd.conf"),
                                            stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=said)
        self.addCleanup(self.end)

    def end(self):
        self.process.kill()
        self.process.wait()

    def outside(self):
        """Counters as `ip` and /proc tell them, in seconds and bytes."""
        links = json.loads(self.host.check("ip", "-s", "-j", "link", "show", "eth0"))[0]["stats64"]
        hz = os.sysconf("SC_CLK_TCK")
        stat = list(map(int, Path("/proc/stat").read_text().split()[1:9]))
        vmstat = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        softnet = sum(int(line.split()[0], 16)
                      for line in Path("/proc/net/softnet_stat").read_text().splitlines())
        psi = int(re.search(r"some .*total=(\d+)", Path("/proc/pressure/cpu").read_text())[1])
        return {("system.network.io", ("eth0", "receive")): links["rx"]["bytes"],
                ("system.network.packet.count", ("eth0", "receive")): links["rx"]["packets"],
                ("system.network.io", ("eth0", "transmit")): links["tx"]["bytes"],
                ("system.cpu.time", ("idle",)): stat[3] / hz, ("system.cpu.time", ("system",)): stat[2] / hz,
                ("system.paging.faults", ("major",)): int(vmstat["pgmajfault"]),
                ("tpu.softnet.packets", ("processed",)): softnet,
                ("tpu.pressure.stall_time", ("some", "cpu")): psi / 1e6,
                ("system.uptime", ()): time.clock_gettime(time.CLOCK_BOOTTIME)}

    def newest(self, since):
        """{(metric, attributes' values): value} of points that were taken from then on."""
        return {(m.name, tuple(v for _, v in sorted(strict.pairs(p.attributes).items()))): strict.number(p)
                for _, m, _, _, p in self.receiver.points()
                if p.time_unix_nano > since}

    def test_between_two_looks(self):
        wait_until(self.receiver.points, 20, "metrics")
        burst = "import socket\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind(('p-eth0', 0))\n" \
                "for _ in range(100): s.send(b'\\xff' * 6 + bytes(6) + b'\\x88\\xb5' + bytes(986))\n"
        quiet = self.outside()
        self.host.on_wire("/usr/bin/python3", "-c", burst)
        before = self.outside()
        self.assertGreaterEqual(before["system.network.io",
                                       ("eth0", "receive")] - quiet["system.network.io",
                                                                    ("eth0", "receive")], 100 * 1000)
        since = time.time_ns()
        wait_until(lambda: set(before) <= set(self.newest(since)), 20, "newer points of all of them")
        found, after = self.newest(since), self.outside()
        for key, least in before.items():
            self.assertTrue(least - 0.02 <= found[key] <= after[key] + 0.02,
                            (key, least, found[key], after[key]))
        self.assertEqual(self.receiver.faults, [])
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        for _, m, kind, _, p in self.receiver.points():
            if kind == "sum" and m.name.startswith("system."):
                self.assertAlmostEqual(p.start_time_unix_nano / 1e9, boot, delta=2, msg=m.name)
        names = {m.name for _, m, *_ in self.receiver.points()}
        if "the kernel log cannot be read" not in Path(f"{self.host.tree}/said").read_text():
            self.assertLessEqual({"tpu.kernel.faults", "tpu.kernel.log.lost"}, names)
        points = [(strict.pairs(p.attributes), m.name, m.unit, kind, strict.pairs(p.attributes)) for _, m,
                  kind, _, p in self.receiver.points()]
        self.assertEqual(documented.undocumented(points), set())


if __name__ == "__main__":
    unittest.main()
