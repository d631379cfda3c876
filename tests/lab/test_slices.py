#!/usr/bin/python3
"""One run over two slices of two booted hosts, and what may happen to it, judged by the training's own log.

The story is told in order: each test begins where the one before it ended. Needs root and the packages in
build/debs.
"""

import os
import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402
import slices                    # noqa: E402

RUN = "story"


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Story(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(slices.lab(folder=os.environ.get("TPU_HOSTD_DEBS"), grant=False))
        slices.prepare(cls.lab)
        cls.h = cls.lab.hosts

    def setUp(self):
        self.addCleanup(self.tell)

    def tell(self):
        """Of a failure: what everybody says."""
        result = self._outcome.result
        if not any(test is self for test, _ in result.failures + result.errors):
            return
        for host in self.h:
            print(f"--- {host.name}", host.run(["tpuctl", "runs"], check=False).out,
                  slices.log(host, RUN)[-1500:],
                  host.journal("tpu-hostd.service")[-2500:], host.journal("tpu-launchd.service")[-1500:],
                  sep="\n")
        print("--- runs", slices.runs(self.lab))

    # --- Observers
    # ---------------------------------------------------------------------------------------------

    def run_record(self):
        return slices.runs(self.lab).get(RUN, {})

    def wait_run(self, what, condition, timeout=60):
        return scenario.wait_until(lambda: (r := self.run_record()) and condition(r) and r, timeout, what)

    def began_on(self, host):
        """Where the last end of the run began, as everybody's reports come in."""
        told = scenario.wait_until(lambda: (w := scenario.ctl_json(self.h[0], "why", RUN, "--fleet"))
                                   and w.get("host") == host and w, 60, f"the end began on {host}")
        print(scenario.ctl(self.h[0], "why", RUN, "--fleet").out)
        return told

    def steps_on(self, host, beyond, timeout=90):
        return scenario.wait_step(host, RUN, beyond, timeout)

    # --- The story
    # ---------------------------------------------------------------------------------------------

    def test_01_without_the_line_it_is_refused(self):
        scenario.wait_until(lambda: all(scenario.ctl_json(h, "status")["registry"]["state"] == "member"
                                        for h in self.h), 60,
                            "all hosts are members")
        r = slices.train(self.h[0], RUN, "--slices", "2:2", "--wait", "5")
        self.assertNotEqual(r.code, 0, r.out + r.err)
        told = r.out + r.err
        self.assertIn("Start=alice", told)  # the remedy: the very line
        self.assertIn("authority", told)
        self.assertRegex(told, r"\bh[0-3]\b")
        for h in self.h:
            self.assertEqual(slices.log(h, RUN).count("completed step"), 0)

    def test_02_one_command_trains_over_two_slices(self):
        for h in self.h:
            h.write(slices.AUTHORITY, slices.GRANT)
        r = slices.train(self.h[0], RUN, "--slices", "1:2", "--restarts", "20", "--grace", "5")
        self.assertEqual(r.code, 0, r.out + r.err)
        for h in self.h:
            self.steps_on(h, 45)
        loss = slices.losses(self.h[3], RUN)
        self.assertLess(loss[45], loss[0] * 0.6)
        pids = {h.name: h.sh(f"ps -o user= -p "
                             f"{scenario.unit(h, f'tpu-run-{RUN}.service', 'MainPID')['MainPID']}").strip()
                for h in self.h}
        self.assertEqual(set(pids.values()), {slices.USER})

        def shown():
            lines = [line.split() for line in scenario.ctl(self.h[1], "fleet").out.splitlines()
                     if f" {RUN} " in line]
            return {cells[2]: int(cells[5]) for cells in lines if cells[5].isdigit()}
        scenario.wait_until(lambda: set(shown()) == {h.name for h in self.h}, 60,
                            "tpuctl fleet shows every host's step")

    def test_03_every_agent_process_is_killed(self):
        generation, at = self.run_record()["generation"], self.steps_on(self.h[0], 0)
        for h in self.h:
            self.assertEqual(len(scenario.kill_agents(h)), 3)
        self.lab.collector.sh("kill -KILL $(systemctl show -p MainPID --value tpu-collectord)")
        self.steps_on(self.h[0], at + 20)
        for h in self.h:
            numbers = sorted(slices.losses(h, RUN))
            self.assertEqual(numbers, list(range(len(numbers))))
            self.assertEqual(slices.resumed(h, RUN), [])
        scenario.wait_until(lambda: all(scenario.ctl_json(h, "status")["registry"]["state"] == "member"
                                        for h in self.h), 60,
                            "all hosts are members again")
        self.assertEqual(self.run_record()["generation"], generation)

    def test_04_a_killed_worker_is_the_next_generation(self):
        generation = self.run_record()["generation"]
        pid = scenario.unit(self.h[2], f"tpu-run-{RUN}.service", "MainPID")["MainPID"]
        self.h[2].sh(f"kill -KILL {pid}")
        r = self.wait_run("the next generation runs",
                          lambda r: r["generation"] > generation and r["state"] == "running")
        self.assertEqual([h["generation"] for h in r["history"] if h["to"]][-1:], [generation])
        self.assertEqual((r["generation"], r["restarts"]), (generation + 1, 1))
        self.assertIn("h2", r["why"])
        self.assertIn("KILL", r["why"])
        self.assertEqual(self.began_on("h2")["cause"], "signal")
        for h in self.h:
            scenario.wait_until(lambda h=h: slices.resumed(h, RUN), 60,
                                f"{h.name} goes on from its checkpoint")
            self.steps_on(h, slices.resumed(h, RUN)[-1] + 5)

    def test_05_a_host_without_power_then_with(self):
        before = len(slices.resumed(self.h[0], RUN))
        self.h[3].kill()
        r = self.wait_run("one slice goes on", lambda r: r["state"] == "running"
                          and [s["slice"] for s in r["slices"]] == ["s0"], 90)
        self.assertIn("h3", r["why"])
        self.assertIn("was lost", self.began_on("h3")["sentence"])
        scenario.wait_until(lambda: len(slices.resumed(self.h[0], RUN)) > before, 60,
                            "h0 goes on from its checkpoint")
        self.steps_on(self.h[0], slices.resumed(self.h[0], RUN)[-1] + 5)
        told = scenario.ctl(self.h[0], "fleet").out
        self.assertIn("h3", told)
        self.h[3].boot()
        r = self.wait_run("both slices again", lambda r: r["state"] == "running" and len(r["slices"]) == 2,
                          120)
        scenario.wait_until(lambda: slices.resumed(self.h[3], RUN), 60,
                            "h3 goes on from a checkpoint that it never had")
        self.steps_on(self.h[3], slices.resumed(self.h[3], RUN)[-1] + 5)

    def test_06_the_story_in_words(self):
        runs = scenario.ctl(self.h[1], "runs", "--fleet").out
        self.assertIn(RUN, runs)
        logs = scenario.ctl(self.h[0], "logs", RUN, "--worker", "s1/1").out
        self.assertTrue(re.search(r"completed step: \d+", logs), logs[-500:])
        told = scenario.ctl(self.h[0], "events", "--since", "1h").out
        for word in ("h2", "h3", RUN):
            self.assertIn(word, told)
        rows = scenario.query(self.lab, "SELECT service FROM events WHERE name = 'tpu.run.changed'")
        # told once by the collector: each host keeps it to itself
        self.assertEqual({service for service, in rows}, {"tpu-collectord"})
        print(runs, told, sep="\n")

    def test_07_stop(self):
        scenario.ctl(self.h[1], "stop", RUN, "--fleet", "--yes")
        r = self.wait_run("the end", lambda r: r["state"] == "ended" and r["outcome"] == "stopped", 60)
        for h in self.h:
            h.wait_for(lambda h=h: not h.sh("pgrep -f '^/usr/bin/python3 /srv/train.py' || true").strip(),
                       30, "no process is left")
        self.assertGreaterEqual(r["generation"], 4)


if __name__ == "__main__":
    unittest.main(failfast=True)
