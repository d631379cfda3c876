#!/usr/bin/python3
"""tpuctl run --replace: real processes are ended, of which a stand-in of tpu-launchd says that they hold
chips."""
import signal
import subprocess
import time
import unittest

from ctl_case import Ctl
from stand_ins import field

DEAF = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); "
        "time.sleep(60)")


class Replace(Ctl):
    def setUp(self):
        super().setUp()
        self.server = self.launchd()
        self.server.answers[20] = (21, field(1, "a") + field(2, "tpu-run-a.service"))
        self.holders = []
        self.server.answers[28] = lambda: (29, b"".join(
            field(1, field(1, "/dev/accel0") + field(2, pid) + field(4, unit) + field(5, "python3 x.py"))
            for pid, unit in self.holders))

    def start(self, script, unit="docker-1.scope"):
        process = subprocess.Popen(["python3", "-c", script], stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        self.holders.append((process.pid, unit))
        return process

    def test_ended_after_a_yes(self):
        process = self.start("import time; print(1, flush=True); time.sleep(60)")
        self.holders *= 2  # two devices
        done = self.expect(["run", "--replace", "--", "true"], 1, stdout="")
        self.assertIn(f"/dev/accel0 is held by process {process.pid} of uid 0 (python3 x.py), "
                      "in docker-1.scope\n", done.stderr)
        self.assertIn("to do:  the same with --yes", done.stderr)
        self.assertIsNone(process.poll())
        self.expect(["run", "--replace", "--yes", "--", "true"], 0)
        self.assertEqual(process.wait(1), -signal.SIGTERM)
        self.assertIn(20, [kind for kind, _ in self.server.seen])

    def test_deaf_to_term(self):
        process = self.start(DEAF)
        began = time.monotonic()
        self.expect(["run", "--replace", "--yes", "--", "true"], 0)
        self.assertGreater(time.monotonic() - began, 10)
        self.assertEqual(process.wait(1), -signal.SIGKILL)

    def test_who_holds_none_any_more(self):
        """The number may be another process's by then."""
        process = self.start("import time; print(1, flush=True); time.sleep(60)")
        lists = iter([list(self.holders), []])
        self.server.answers[28] = lambda: (29, b"".join(
            field(1, field(1, "/dev/accel0") + field(2, pid)) for pid, _ in next(lists)))
        self.expect(["run", "--replace", "--yes", "--", "true"], 1)
        self.assertIsNone(process.poll())

    def test_a_run_is_left_alone(self):
        process = self.start("import time; print(1, flush=True); time.sleep(60)", "tpu-run-b.service")
        done = self.expect(["run", "--replace", "--yes", "--", "true"], 1, stdout="")
        self.assertIn("to do:  tpuctl stop b # it is a run", done.stderr)
        self.assertIsNone(process.poll())

    def test_nobody(self):
        self.expect(["run", "--replace", "--", "true"], 0)


if __name__ == "__main__":
    unittest.main()
