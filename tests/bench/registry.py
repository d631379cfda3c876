#!/usr/bin/python3
"""Enrollment with tpu-collectord's own registry: cold start, a barrier, a silent death, the collector killed. Prints a table.

BUILD_DIR names the build (bench-registry, tpu-collectord); arguments: MEMBERS[:HOSTS-OF-A-SLICE] …; default 64 1024 2304 10000:250. Members
are simulated, each with its own connection, lease and clock; what is counted is the server's (/metrics, /proc). Both share this machine."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "collector"))
from collector_case import BUILD, Collector  # noqa: E402

LIMIT = 300


class Bench:
    def __init__(self, members, per_slice):
        self.members, self.per_slice = members, per_slice
        self.folder = tempfile.TemporaryDirectory()
        self.start()
        self.driver = subprocess.Popen([os.path.join(BUILD, "tests/bench/bench-registry"), f"127.0.0.1:{self.c.otlp}", str(members), str(per_slice)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def start(self, *options):
        self.c = Collector(os.path.join(self.folder.name, "c.db"), *options)

    def word(self, text, answer=True):
        self.driver.stdin.write(text + "\n")
        return self.driver.stdout.readline().split() if answer else None

    def until(self, state):
        """(ms to the first, ms to the last, answers, MiB, failures) since forget()."""
        _, n, first, last, answers, size, failures = self.word("wait " + state)
        return float(first), float(last), int(answers), int(size) / 2**20, int(failures)

    def server(self):
        with open(f"/proc/{self.c.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        with open(f"/proc/{self.c.process.pid}/status") as f:
            rss = int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) / 1024
        text = self.c.get("/metrics").text
        metric = {k: float(v) for k, v in re.findall(r"^tpu_collectord_registry_(\w+) ([\d.e+]+)$", text, re.MULTILINE)}
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), rss, metric

    def say(self, what, result):
        cpu, rss, m = self.server()
        first, last, answers, size, failures = result
        print(f"  {what:34} first {first:9.1f} ms, last {last:9.1f} ms | {answers:6} answers, {size:7.1f} MiB, {failures} failures | server: "
              f"{m['members']:.0f} members, {cpu:.2f} s CPU, {rss:.0f} MiB", flush=True)

    def run(self):
        print(f"{self.members} members, {self.per_slice} a slice", flush=True)
        self.say("cold start, all see ready", self.until("ready"))
        intent = {"name": "job", "user": "bench", "argv": ["x"], "min": 1, "max": min(256, -(-self.members // self.per_slice))}
        self.word("forget running")
        c = http.client.HTTPConnection("127.0.0.1", self.c.api, timeout=60)
        c.request("POST", "/api/v1/runs", json.dumps(intent), {"Content-Type": "application/json"})
        assert c.getresponse().status == 201
        result = self.until("running")
        self.say("a run: asked to told to start", result)
        print(f"  {'':34} released within {result[1] - result[0]:.1f} ms")
        self.word("forget forming")
        self.word("die", False)
        self.say("one dies silently, its slice knows", self.until("forming"))
        self.word("forget whole")
        database, port = self.c.database, self.c.otlp
        self.c.process.send_signal(signal.SIGKILL)
        self.c.process.wait()
        self.start("--listen-otlp", f"127.0.0.1:{port}")
        self.say("killed and started, all are back", self.until("whole"))
        begun = self.server()[0]
        time.sleep(10)
        print(f"  {'at rest':34} {(self.server()[0] - begun) / 10 * 100:.1f} % of a core", flush=True)

    def end(self):
        self.driver.stdin.close()
        self.driver.wait(30)
        self.c.stop()
        self.folder.cleanup()


for size in sys.argv[1:] or ["64", "1024", "2304", "10000:250"]:
    members, _, per_slice = size.partition(":")
    bench = Bench(int(members), int(per_slice or members))
    try:
        bench.run()
    finally:
        bench.end()
