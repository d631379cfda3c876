#!/usr/bin/python3
"""GET /api/v1/runs/NAME/why, and tpuctl why --fleet over it: what hosts reported of the end of a run, and
which of it was first."""

import os
import pathlib
import subprocess
import time
import unittest

import otlp
from collector_case import AGENT, BUILD, Case

NOW = time.time() - 30
STALL = {"run": "train", "sentence": "h2 waits for a lock"}


class Why(Case):
    def setUp(self):
        super().setUp()
        self.c = self.start()

    def tell(self, host, name, body, at=0.0, severity=13, attrs=None):
        worker = int(host[1:])
        self.ok(self.c.post("/v1/logs", otlp.request(
            {**AGENT, "host.name": host, "tpu.slice.name": "s0", "tpu.worker.id": worker},
            [otlp.log(name, body, severity, NOW + at, attrs)])))

    def exits(self, host, cause, at=0.0, run="train", **more):
        body = {"run": run, "unit": f"tpu-run-{run}.service", "cause": cause, "code": "exited",
                "status": "1", "killed_by": "", "why": f"because of {cause}", "remedy": f"mend {cause}"}
        self.tell(host, "tpu.run.exited", {**body, "ended": int((NOW + at) * 1e6), **more}, at + 1)

    def test_a_refusal_of_a_start_before_is_no_reason(self):
        """Seen on booted hosts: the run was refused, allowed, started, and then killed."""
        self.tell("h0", "tpu.run.refused", {"run": "train", "reason": "nobody grants it"}, -90)
        for at, generation, killed, other in ((-60.0, 2, "h0", "h1"), (0.0, 3, "h1", "h0")):
            self.exits(killed, "signal", at, generation=generation, started=int((NOW + at - 20) * 1e6))
            self.exits(other, "exit-code", at + 0.4, generation=generation,
                       started=int((NOW + at - 21) * 1e6))
        a = self.why()
        self.assertEqual((a["host"], a["cause"]), ("h1", "signal"))
        self.assertEqual([e["name"] for e in a["events"]], ["tpu.run.exited"] * 2)

    def test_a_host_without_power(self):
        """It reports nothing; its peers crash at once, and the registry's word of it comes a lease later.
        What systemd ends is stopped, whoever sent the signal."""
        self.exits("h0", "exit-code", 0.0)
        self.exits("h1", "stopped", 0.2, killed_by="SIGTERM from pid 1 (systemd, uid 0, init.scope)")
        self.ok(self.c.post("/v1/logs", otlp.request(
            {**AGENT, "host.name": "h3", "service.name": "tpu-collectord"},
            [otlp.log("tpu.run.changed",
                      {"run": "train", "generation": 5, "state": "waiting", "slices": 1, "outcome": "",
                       "reason": "h3 was lost: its lease ended", "blame": "h3", "cause": "host-lost",
                       "waits_for": ""}, 13, NOW + 15)])))
        a = self.why()
        self.assertEqual((a["host"], a["cause"]), ("h3", "host-lost"))
        self.assertIn("h3 was lost: its lease ended", a["sentence"])

    def test_a_host_that_was_not_in_the_last_life(self):
        self.exits("h2", "oom-kill", -50.0, generation=2, started=int((NOW - 80) * 1e6))
        self.exits("h0", "success", 0.0, generation=3, started=int((NOW - 20) * 1e6))
        self.exits("h1", "success", 0.1, generation=3, started=int((NOW - 20) * 1e6))
        a = self.why()
        self.assertEqual((a["host"], a["sentence"]), (None, "it was done: 2 hosts: 2 success"))

    def why(self, run="train", query=""):
        r = self.c.get(f"/api/v1/runs/{run}/why{query}")
        self.assertEqual(r.status, 200, r.json)
        return r.json

    def first(self, run="train"):
        a = self.why(run)
        return a["host"], a["cause"]

    def test_the_host_that_failed_by_itself_was_first(self):
        """Its peers lost it, and say so first: their agents were faster."""
        self.exits("h0", "peer-lost", 0.2)
        self.exits("h2", "peer-lost", 0.1)
        self.exits("h1", "exit-code", 0.0)
        self.exits("h3", "stopped", 5.0)
        a = self.why()
        self.assertEqual((a["host"], a["cause"], a["remedy"]), ("h1", "exit-code", "mend exit-code"))
        self.assertEqual(a["sentence"], "h1 ended first, exit-code: because of exit-code; 3 others followed "
                         "within 5.0 s: 2 peer-lost, 1 stopped")
        self.assertEqual([e["host"] for e in a["events"]], ["h1", "h2", "h0", "h3"])
        self.assertEqual((a["silent"], a["cut"]), ([], False))

    def test_a_crash_of_the_others_hides_no_oom(self):
        """Their runtime ends them by a crash as soon as one is gone: the kernel's word counts."""
        self.exits("h0", "core-dump", 0.0)
        self.exits("h1", "oom-kill", 0.8)
        self.exits("h2", "core-dump", 0.1)
        self.assertEqual(self.first(), ("h1", "oom-kill"))

    def test_what_came_long_after_is_no_reason(self):
        self.exits("h0", "exit-code", 0.0)
        self.exits("h1", "oom-kill", 400.0)
        self.assertEqual(self.first(), ("h0", "exit-code"))

    def test_of_each_host_its_last_end_counts(self):
        """Restarts: what ended the start before is not why it ended now."""
        self.exits("h0", "oom-kill", -900.0)
        self.exits("h1", "peer-lost", -899.0)
        self.exits("h0", "peer-lost", 0.5)
        self.exits("h1", "signal", 0.0, killed_by="SIGKILL from pid 7 (top, uid 0, session-3.scope)")
        self.assertEqual(self.first(), ("h1", "signal"))

    def test_a_stall_goes_before_the_stop(self):
        self.tell("h2", "tpu.run.stall_confirmed", STALL, -300.0)
        for i in range(4):
            self.exits(f"h{i}", "stopped", i / 10)
        a = self.why()
        self.assertEqual(a["host"], "h2")
        self.assertIn("h2 waits for a lock", a["sentence"])

    def test_a_stall_that_was_over_is_no_reason(self):
        self.tell("h2", "tpu.run.stall_confirmed", STALL, -300.0)
        self.tell("h2", "tpu.run.recovered", {"run": "train", "how": "a step", "kind": "x"}, -200.0)
        self.exits("h1", "exit-code", 0.0)
        self.exits("h2", "peer-lost", 0.1)
        self.assertEqual(self.first(), ("h1", "exit-code"))

    def test_signs_count_where_nobody_says_why(self):
        self.tell("h1", "tpu.kernel.fault", {"meaning": "a NIC hung or was reset", "fault": "nic_reset",
                                             "lines": 1, "text": "eth1: reset"}, -20.0)
        self.tell("h9", "tpu.kernel.fault", {"meaning": "elsewhere", "fault": "disk", "lines": 1,
                                             "text": "x"}, -25.0)
        self.exits("h0", "peer-lost", 0.0)
        self.exits("h1", "peer-lost", 0.1)
        a = self.why()
        self.assertEqual(a["host"], "h1")
        self.assertIn("a NIC hung", a["sentence"])
        self.assertNotIn("h9", [e["host"] for e in a["events"]])

    def test_nobody_says_why(self):
        for i in range(3):
            self.exits(f"h{i}", "peer-lost", i / 10)
        a = self.why()
        self.assertEqual((a["host"], a["cause"]), (None, None))
        self.assertEqual(a["sentence"], "no host says why: 3 hosts: 3 peer-lost")

    def test_who_left_with_success_is_why_the_others_lost_it(self):
        self.exits("h0", "success", 0.0)
        self.exits("h1", "peer-lost", 0.5)
        self.assertEqual(self.first(), ("h0", "success"))

    def test_lines_are_the_first_hosts(self):
        for n, host in enumerate(("h0", "h1")):
            for i in range(30):
                self.tell(host, "tpu.run.line", f"{host} line {i}", -10 + i / 10, 9,
                          {"tpu.run.name": "train", "tpu.run.invocation": f"i{n}", "tpu.run.line": i + 1})
        self.exits("h0", "peer-lost", 0.1)
        self.exits("h1", "oom-kill", 0.0)
        self.assertEqual([x["text"] for x in self.why(query="?lines=2")["lines"]],
                         ["h1 line 28", "h1 line 29"])
        self.assertEqual(len(self.why()["lines"]), 20)

    def test_a_run_that_goes_on_and_one_that_is_not(self):
        self.exits("h0", "success", run="other")
        r = self.c.get("/api/v1/runs/train/why")
        self.assertEqual(r.status, 404)
        self.assertIn("there is no run 'train'", r.json["error"])
        self.tell("h0", "tpu.run.line", "x", 0, 9,
                  {"tpu.run.name": "train", "tpu.run.invocation": "i", "tpu.run.line": 1})
        self.assertEqual(self.c.get("/api/v1/runs/train/why").json["error"],
                         "no host has reported the end of this run")

    def test_hostile_events(self):
        """Of wrong types, or of no sense: each is passed over or shown as it is."""
        for body in ("text", {"run": 7}, {"run": ["train"]}, {"run": "train", "cause": 3, "ended": "x"},
                     {"run": "train", "cause": "\x1b[31m" + "x" * 3000, "ended": -1}, {}):
            self.tell("h0", "tpu.run.exited", body)
        self.exits("h1", "oom-kill", 0.0)
        self.assertEqual(self.why()["host"], "h1")

    def test_tpuctl(self):
        self.exits("h1", "oom-kill", 0.0)
        self.exits("h0", "peer-lost", 0.5)
        self.tell("h1", "tpu.run.line", "step 8", -1, 9,
                  {"tpu.run.name": "train", "tpu.run.invocation": "i", "tpu.run.line": 1})
        r = subprocess.run([pathlib.Path(BUILD) / "agent/ctl/tpuctl", "why", "train", "--collector",
                            f"http://127.0.0.1:{self.c.api}"], capture_output=True, text=True,
                           env={**os.environ, "NO_COLOR": "1"})
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        head, rest = r.stdout.split("\n", 1)
        self.assertRegex(head, r"\Atrain, ended \S+Z: h1 ended first, oom-kill: because of oom-kill; "
                         r"1 other followed within 0\.5 s: 1 peer-lost\Z")
        self.assertRegex(rest, r"""\A  to do: mend oom-kill

TIME +HOST +WHAT
\S+ +h1 +run train ended: oom-kill \(exited 1\): because of oom-kill
\S+ +h0 +run train ended: peer-lost.*

the last lines of h1:
  step 8
\Z""")


if __name__ == "__main__":
    unittest.main()
