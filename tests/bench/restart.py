#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The agents' share of a restart over slices: from the moment that a loss is known to the new start on every
host that stays.

A real tpu-collectord and two real tpu-hostd as the hosts of two slices; tpu-launchd and the training are
stand-ins that start and stop at once, so that
what is measured is what the agents and the registry take: to hear of it, to end what is left, preflight,
barrier, start. Not in it: the training's
own grace, imports and compilation, and the wait for a slice that may come back (--shrink-after).

  failed     a process ended badly on one host (launchd's word) -> both hosts start again
  shut down  a machine says that it goes -> the other one starts without it
  back       that machine is there again and fit -> both start

Prints milliseconds: median, worst. RUNS (10) of each. Deciding nothing; the goal is 2 s. Usage: restart.py   BUILD_DIR: the build
"""
import io
import os
import statistics
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hostd"))
from around import wait_until         # noqa: E402  (the path comes first)
from launchd_stand_in import Runs     # noqa: E402
from manager_stand_in import Manager  # noqa: E402
from test_gang import Gang            # noqa: E402
from test_gang_away import Training   # noqa: E402

RUNS = int(os.environ.get("RUNS", 10))
times = {}
began = {}
taken = Runs._run


def note(self, name, m):
    began[(self, m.get(2, [0])[-1])] = time.monotonic()
    return taken(self, name, m)


Runs._run = note


class Restart(Gang):
    def newest(self, *hosts):
        """When the newest generation began on the last of them."""
        return max(began[(self.launchds[h], max(g for _, g in self.starts(h)))] for h in hosts)

    def all_run(self, generation, *hosts):
        for h in hosts:
            self.until_runs(h, generation)
        return self.newest(*hosts)

    def begin(self, *words):
        self.manager = Manager()
        self.addCleanup(self.manager.stop)
        for name in ("s0", "s1"):
            h = self.host(name, 0, start=False)
            h.environment["DBUS_SYSTEM_BUS_ADDRESS"] = self.manager.address
            h.start()
        for name in self.hosts:
            self.ready(name)
        self.run_over("--slices", "1:2", "--restarts", "1000", *words)
        self.all_run(1, "s0-0", "s1-0")
        self.training = Training(self.launchds)
        self.addCleanup(self.training.stop)

    def steps(self):
        """New ones, which come with how it ended: a run that gets on is started again without a pause."""
        at = self.training.step + 2
        wait_until(lambda: self.training.step > at, 60, "steps")

    def test_failed(self):
        self.begin()
        for n in range(RUNS):
            self.steps()
            start = time.monotonic()
            self.launchds["s1-0"].exit("run1", "exit-code", "exited", "1")
            times.setdefault("failed", []).append(self.all_run(n + 2, "s0-0", "s1-0") - start)

    def test_lost(self):
        self.begin("--shrink-after", "10min", "--grow-after", "0")
        h = self.hosts["s1-0"]
        for n in range(RUNS):
            self.steps()
            self.manager.state.write_text("stopping")
            start = time.monotonic()
            h.process.terminate()
            times.setdefault("shut down", []).append(self.all_run(2 * n + 2, "s0-0") - start)
            h.process.wait(60)
            self.manager.state.write_text("running")
            self.launchds["s1-0"].runs.clear()  # it has booted
            h.start()
            wait_until(lambda: h.get("/v1/status")["registry"]["state"] == "member", 60, "it is back")
            start = time.monotonic()
            times.setdefault("back", []).append(max(0, self.all_run(2 * n + 3, "s0-0", "s1-0") - start))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    said = io.StringIO()
    good = unittest.TextTestRunner(stream=said).run(unittest.defaultTestLoader.loadTestsFromTestCase(Restart)).wasSuccessful()
    print(f"{'':<10}{'median ms':>10}{'worst ms':>10}{'runs':>6}")
    for what, values in times.items():
        print(f"{what:<10}{statistics.median(values) * 1000:>10.0f}{max(values) * 1000:>10.0f}{len(values):>6}")
    if not good:
        print(said.getvalue(), file=sys.stderr)
    sys.exit(0 if good else 1)
