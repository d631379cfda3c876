#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What BPF programs saw of a run, read by OpenTelemetry's own definitions: histograms of a watch are what
its answer said, exits by signal
are those that this test reaped. Skipped, with the reason, where those definitions, BPF or control groups
cannot be had."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import peers  # noqa: E402

try:
    import strict
except peers.Missing as why:
    peers.skip(why, __name__)
import agent  # noqa: E402,F401  (its folder of helpers is on the path then)
import documented  # noqa: E402
import real_run  # noqa: E402
from around import BINARY, wait_until  # noqa: E402

STATE_D = BINARY.parents[2] / "tests/bpf/state-d"
SPIN = "while True: pass"


class Runs(real_run.Case):
    ours = documented.of_watches()

    def setUp(self):
        super().setUp()
        self.receiver = strict.Receiver()
        self.addCleanup(self.receiver.stop)
        self.h.config.write_text(self.h.config.read_text().replace("Endpoint=\n",
                                                                   f"Endpoint={self.receiver.url}\n")
                                 .replace("MetricsInterval=300ms",
                                          "MetricsInterval=1s").replace("ProbeInterval=100ms",
                                                                        "ProbeInterval=1min"))
        self.looked, self.seen = 0, []

    def begin(self, word, *sets):
        run = self.run_of(word)
        run.start("sleep", "1000")
        self.h.launchd.runs = [run.listed()]
        self.h.start()
        self.needs(*sets)
        wait_until(lambda: run.name in [j["name"] for j in self.h.get("/v1/runs")["runs"]], 60,
                   "it knows the run")
        return run

    def sent(self, name, **wanted):
        """The points of a metric with these attributes' values, oldest first."""
        requests = self.receiver.requests("/v1/metrics")
        for request in requests[self.looked:]:
            self.seen += [(m.name, p) for _, m, _, _, p in strict.points(request) if m.name in self.ours]
        self.looked = len(requests)
        wanted = set(wanted.values())
        return [p for of,
                p in self.seen if of == name and wanted <= set(strict.pairs(p.attributes).values())]

    def last(self, name, **wanted):
        return wait_until(lambda: self.sent(name, **wanted), 60, f"{name} {wanted}")[-1]

    def assert_same(self, point, said, run):
        """A histogram's point against {n, seconds, buckets} of the API."""
        self.assertEqual((point.count, sum(point.bucket_counts)), (said["n"], said["n"]))
        self.assertAlmostEqual(point.sum, said["seconds"], places=9)
        if "buckets" in said:
            bounds = [*point.explicit_bounds, None]
            self.assertEqual({bounds[i]: n for i, n in enumerate(point.bucket_counts) if n},
                             {b["below"]: b["n"] for b in said["buckets"]})
        self.assertEqual(strict.pairs(point.attributes)["tpu.run.name"], run.name)

    def test_a_watch(self):
        cpu = max(os.sched_getaffinity(0))
        run = self.begin("wired", "sched")
        run.start("/usr/bin/python3", "-c", SPIN, before=lambda: os.sched_setaffinity(0, {cpu}))
        run.start(STATE_D)
        other = subprocess.Popen(["/usr/bin/python3", "-c", SPIN],
                                 preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        self.addCleanup(lambda: (other.kill(), other.wait()))
        before = time.time_ns()
        first = self.h.get(f"/v1/sched?run={run.name}&watch=1")["watch"]
        after = time.time_ns()
        delay = self.last("tpu.run.sched.delay", run=run.name)
        self.assertGreater(first["delays"]["n"], 0)
        self.assert_same(delay, first["delays"], run)
        self.assertTrue(delay.start_time_unix_nano < before < delay.time_unix_nano <= after)
        self.assert_same(self.last("tpu.run.sched.off_cpu", run=run.name, cause="preempted"),
                         first["preempted"], run)
        if first["blocked"]["n"]:
            self.assert_same(self.last("tpu.run.sched.off_cpu", run=run.name, cause="blocked"),
                             first["blocked"], run)
        self.assertEqual(strict.number(self.last("tpu.run.sched.migrations", run=run.name, to="cpu")) +
                         strict.number(self.last("tpu.run.sched.migrations", run=run.name, to="node")),
                         first["migrations"]["cpus"])
        # nothing is sampled beside a watch: pushes go on, this series does not
        pushes = len(self.receiver.requests("/v1/metrics"))
        wait_until(lambda: len(self.receiver.requests("/v1/metrics")) > pushes + 3, 60, "further pushes")
        self.assertEqual(len(self.sent("tpu.run.sched.delay", run=run.name)), 1)
        second = self.h.get(f"/v1/sched?run={run.name}&watch=1")["watch"]
        both = wait_until(lambda: self.sent("tpu.run.sched.delay", run=run.name)[1:], 60,
                          "the second watch")[-1]
        self.assertEqual((both.count, both.start_time_unix_nano),
                         (first["delays"]["n"] + second["delays"]["n"], delay.start_time_unix_nano))
        watched = wait_until(lambda: self.sent("tpu.run.watch.time", run=run.name, kind="sched")[1:], 60,
                             "how long it was watched")[-1]
        self.assertTrue(0 < strict.number(watched) <= (time.time_ns() - before) / 1e9)
        self.check_all()

    def test_storage(self):
        run = self.begin("stored", "io")
        place = self.h.folder / "written"
        run.start("dd", "if=/dev/zero", f"of={place}", "bs=256k", "count=100000", "oflag=direct,dsync",
                  stderr=subprocess.DEVNULL)
        said = self.h.get(f"/v1/io?run={run.name}&watch=1")["watch"]
        self.last("tpu.run.watch.time", run=run.name, kind="io")
        for r in said["requests"]:
            self.assert_same(self.last("tpu.run.disk.request.duration", run=run.name,
                                       operation=r["operation"]), r, run)
        self.assertEqual(strict.number(self.last("tpu.run.writer.held_back", run=run.name)),
                         said["held_back"])
        self.check_all()

    def test_deaths(self):
        run = self.begin("died", "deaths")
        victims = [run.start("sleep", "1000") for _ in range(5)]
        for p in victims[:3]:
            p.kill()
        victims[3].terminate()
        itself = run.start("/bin/sh", "-c", "kill -SEGV $$")
        victims[4].kill()
        ended = [-p.wait() for p in [*victims, itself]]
        for number, sender in ((signal.SIGKILL, "process"), (signal.SIGTERM, "process"),
                               (signal.SIGSEGV, "itself")):
            wanted = ended.count(number)
            wait_until(lambda number=number, sender=sender,
                       wanted=wanted: any(strict.number(p) == wanted for p in self.sent(
                "tpu.run.deaths", run=run.name, signal=number.name, sender=sender)), 60,
                       f"{wanted} ended by {number.name}")
        self.assertEqual(len({frozenset(strict.pairs(p.attributes).items())
                              for p in self.sent("tpu.run.deaths")}), 3)
        # a run that is over: its last count goes out, then nothing is left of it
        self.h.launchd.runs = [run.listed() | {3: "exited", 4: "signal", 5: "killed", 6: "KILL",
                                               12: time.time_ns() // 1000, 13: 0}]
        wait_until(lambda: "tpu_run_deaths" not in self.h.call("/metrics")[2].decode(), 60,
                   "/metrics forgets it")
        self.check_all()

    def check_all(self):
        """What was sent is as docs/metrics.md has it, of this host, and nothing that the definitions do
        not know."""
        self.assertEqual(self.receiver.faults, [])
        points = [(strict.pairs(p.attributes), m.name, m.unit, kind, strict.pairs(p.attributes)) for _, m,
                  kind, _, p in self.receiver.points()]
        self.assertEqual(documented.undocumented(points), set())
        for _, m, kind, data, p in self.receiver.points():
            if m.name in self.ours and kind != "gauge":
                self.assertEqual(data.aggregation_temporality, 2, m.name)
                self.assertTrue(0 < p.start_time_unix_nano < p.time_unix_nano, m.name)


if __name__ == "__main__":
    unittest.main()
