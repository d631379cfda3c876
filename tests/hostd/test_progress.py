"""Runs that stall, as tpu-hostd sees them in the journal: suspected in time, told why, and no longer when
they go on."""

import contextlib
import datetime
import json
import os
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, Launchd, wait_until  # noqa: E402
from registry_stand_in import Registry  # noqa: E402

FULL = os.environ.get("FULL") == "1"
JOURNAL_WRITER = os.environ.get("JOURNAL_WRITER", "/lib/systemd/systemd-journal-remote")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
TRAIN = {1: "train", 2: "tpu-run-train.service", 3: "running", 7: "jax", 8: "tcmalloc", 9: "alice",
         10: "python3 train.py", 13: 4242, 14: 2, 16: 3, 17: "00112233445566aa"}
FIRST, SECOND = "1" * 32, "2" * 32


@unittest.skipUnless(os.path.exists(JOURNAL_WRITER), "systemd-journal-remote is not installed")
class Progress(unittest.TestCase):
    """The journal's own times are given, so that minutes of steps take none: what the agent learns, it
    learns from them."""

    def setUp(self):
        self.h = Hostd(Journal="/tmp")
        self.addCleanup(lambda: self.h.close(failed=not self._outcome.success))
        self.journal = self.h.folder / "journal"
        self.journal.mkdir()
        self.registry = Registry().start()
        self.addCleanup(self.registry.stop)
        self.h.config.write_text(self.h.config.read_text().replace("Journal=/tmp",
                                                                   f"Journal={self.journal}") +
                                 f"[Registry]\nKind=collector\n"
                                 f"Endpoint=http://127.0.0.1:{self.registry.port}\nAddress=127.0.0.1\n"
                                 f"Splay=0\n")
        self.writer = subprocess.Popen([JOURNAL_WRITER, "-o", self.journal / "system.journal", "-"],
                                       stdin=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (self.writer.stdin.close(), self.writer.wait(60)))
        self.launchd = Launchd(self.h.folder / "launchd.sock")
        self.addCleanup(self.launchd.stop)
        self.launchd.runs = [TRAIN]
        # asked for when a stall is suspected: not what this is about
        self.launchd.capture = lambda name: None
        self.entry("begin", 1000)
        wait_until(lambda: list(self.journal.glob("*.journal")), 60, "the journal file")
        self.h.start()
        wait_until(lambda: self.h.get("/v1/status")["live_runs"] == 1, 60, "the run to be known")

    def entry(self, line, ago=0.0, invocation=FIRST):
        self.writer.stdin.write((f"__REALTIME_TIMESTAMP={time.time_ns() // 1000}\n"
                                 f"__MONOTONIC_TIMESTAMP={int((time.monotonic() - ago) * 1e6)}\n"
                                 f"_BOOT_ID={BOOT_ID}\n"
                                 f"SYSLOG_IDENTIFIER=tpu-run\n_SYSTEMD_UNIT=tpu-run-train.service\n"
                                 f"_SYSTEMD_INVOCATION_ID={invocation}\nMESSAGE={line}\n\n").encode())
        self.writer.stdin.flush()

    def step(self, n, ago=0.0, **more):
        self.entry(f"completed step: {n}, seconds: 0.5, TFLOP/s/device: 1.0, Tokens/s/device: 11.5, "
                   f"total_weights: 2, loss: 1.5", ago, **more)

    def steps(self, n, each, ago, **more):
        """n steps, the last one so long ago; what was suspected before it was read is gone. Returns how
        often that was."""
        for i in range(n - 1):
            self.step(i, ago + (n - 1 - i) * each, **more)
        wait_until(lambda: self.metric(f'tpu_run_step_number{{tpu_run_name="train"}} {n - 2}'), 60,
                   "the steps")
        self.step(n - 1, ago, **more)

    def metric(self, text):
        return text in self.h.call("/metrics")[2].decode()

    def followed(self):
        """How many of the readers of the journal wake the process: their inotify is in its epoll."""
        infos = {}
        for f in Path(f"/proc/{self.h.process.pid}/fdinfo").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                infos[int(f.name)] = f.read_text()
        waited = {int(line.split()[1]) for text in infos.values() for line in text.splitlines()
                  if line.startswith("tfd:")}
        return sum(f" ino:{self.journal.stat().st_ino:x} " in infos.get(fd, "") for fd in waited)

    def lines_kept(self):
        return self.h.get("/v1/status")["uplink"]["classes"]["logs"]["appended"]

    def suspected(self, step, times=1):
        """The body of the suspicion behind that step."""
        found = wait_until(lambda: [e["body"] for e in self.h.events("tpu.run.stall_suspected")
                                    if e["body"]["last_step"] == step][times - 1:], 60, "suspicion")
        self.assertEqual(len(found), 1)
        return found[0]

    def recovered(self, step, times=1):
        return wait_until(lambda: [e["body"] for e in self.h.events("tpu.run.recovered")
                                   if e["body"]["last_step"] == step][times - 1:], 60, "recovery")[0]

    def test_journal_wakes_nobody_without_a_run(self):
        """It is read at each interval then, and followed again as soon as a run is there."""
        self.assertEqual(self.followed(), 1)
        self.launchd.runs = []
        wait_until(lambda: self.followed() == 0, 60, "nobody follows the journal")
        before = self.lines_kept()
        self.step(6)  # what a run that is over leaves
        wait_until(lambda: self.lines_kept() > before, 60, "the line that is read in the tick")
        self.launchd.runs = [TRAIN]
        wait_until(lambda: self.followed() == 1, 60, "it is followed again")
        self.step(7)
        wait_until(lambda: self.metric('tpu_run_step_number{tpu_run_name="train"} 7'), 60, "the step")

    def test_a_stall_is_suspected_and_its_end_told(self):
        self.steps(41, 4.0, 11.0)
        body = self.suspected(40)
        self.assertEqual((body["run"], body["kind"], body["last_step"], body["step_msec"], body["slice"]),
                         ("train", "stall", 40, 4000, "v6e-a"))
        self.assertTrue(9_000 <= body["silent_msec"] < 60_000, body)
        self.assertRegex(body["why"],
                         r"^no step for 1\d s after step 40, steps took 4\.0 s \(median of 40\)")
        wait_until(lambda: self.metric('tpu_run_stall_suspected{tpu_run_name="train"} 1'), 60, "the metric")
        wait_until(lambda: self.metric('tpu_run_suspicions_total{tpu_run_name="train",'
                                       'tpu_run_suspicion="stall"}'), 60, "the counter")
        wait_until(lambda: self.metric('tpu_run_step_duration_seconds_count{tpu_run_name="train"} 40'), 60,
                   "how long its steps took")
        self.assertRegex(self.h.call("/metrics")[2].decode(),
                         r'tpu_run_step_duration_seconds_bucket\{tpu_run_name="train",le="3\.0"\} 0\n')
        run = self.h.get("/v1/runs")["runs"][0]
        self.assertGreater(run["spent_seconds"]["step"], 0)
        self.assertAlmostEqual(run["goodput"],
                               run["spent_seconds"]["step"] / sum(run["spent_seconds"].values()))
        part = wait_until(lambda: self.part().get("suspected") and self.part(), 60,
                          "the registry to be told")
        self.assertEqual((part["suspicion"], part["step"]), (body["why"], 40))
        self.assertLess(abs(part["step_time"] - 4_000_000), 100)
        self.assertLess(abs(part["suspected"] / 1e6 - time.time()), 100)
        self.step(41)
        body = self.recovered(40)
        wait_until(lambda: "suspected" not in self.part() and self.part()["step"] == 41, 60,
                   "the registry to be told of its end")
        self.assertEqual((body["run"], body["how"], body["kind"], body["last_step"]),
                         ("train", "step", "stall", 40))
        # another start of the run is learned anew
        self.steps(41, 4.0, 11.0, invocation=SECOND)
        self.suspected(40, 2)
        self.step(0, invocation="3" * 32)
        self.assertEqual(self.recovered(40, 2)["how"], "restart")

    def test_while_nobody_takes_lines_nothing_is_suspected(self):
        """journald is stopped: steps cannot be seen. When it is back, they are waited for anew."""
        taken = self.h.root / "run/systemd/journal/socket"
        taken.parent.mkdir(parents=True)
        self.steps(41, 4.0, 11.0)
        time.sleep(6)
        self.assertEqual(self.h.events("tpu.run.stall_suspected"), [])
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald:
            journald.bind(str(taken))
            self.assertGreaterEqual(self.suspected(40)["silent_msec"], 20_000)

    def test_an_agent_that_is_started_anew_knows_the_rhythm(self):
        self.steps(41, 4.0, 11.0)
        self.suspected(40)
        self.assertEqual(self.h.stop(), 0)
        self.h.start()
        self.assertEqual(self.suspected(40)["step_msec"], 4000)
        if not FULL:
            return
        self.launchd.runs = []  # what the journal has of runs that are gone is none
        self.h.stop()
        self.h.start()
        time.sleep(6)
        self.assertEqual(self.h.events("tpu.run.stall_suspected"), [])

    def checkpoint(self):
        return self.h.get("/v1/runs")["runs"][0]["checkpoint"]

    def test_the_last_whole_checkpoint(self):
        """What was begun is none, what is whole is one, and a start that resumes from it knows it still."""
        self.steps(41, 4.0, 50.0)
        self.entry("Started an asynchronous checkpoint save for step 40", 49.0)
        self.step(41, 46.0)
        wait_until(lambda: self.metric('tpu_run_step_number{tpu_run_name="train"} 41'), 60, "the step")
        self.assertIsNone(self.checkpoint())
        self.assertFalse(self.metric("tpu_run_checkpoint"))
        self.entry("Finished saving checkpoint (finalized tmp dir) to `gs://b/run/40`.", 43.0)
        self.step(42, 42.0)
        whole = wait_until(self.checkpoint, 60, "the checkpoint")
        self.assertEqual((whole["step"], whole["path"]), (40, "gs://b/run/40"))
        self.assertTrue(6 <= whole["took_seconds"] < 60, whole)
        age = time.time() - datetime.datetime.fromisoformat(whole["at"].replace("Z", "+00:00")).timestamp()
        self.assertTrue(42 < age < 142, age)
        wait_until(lambda: self.checkpoint()["steps_since"] == 2, 60, "the step behind it")
        wait_until(lambda: self.metric('tpu_run_checkpoint_steps_since{tpu_run_name="train"} 2'), 60,
                   "the metric")
        self.assertRegex(self.h.call("/metrics")[2].decode(),
                         r'tpu_run_checkpoint_age_seconds\{tpu_run_name="train"\} \d\d')
        figure = wait_until(lambda: next((f["checkpoint"] for q in self.registry.asked
                                          for f in q.get("figures", ()) if "checkpoint" in f), None), 60,
                            "the registry to be told")
        self.assertLess(abs(figure.pop("at") / 1e6 - time.time() + age), 10)
        self.assertAlmostEqual(figure.pop("took") / 1e6, whole["took_seconds"])
        self.assertEqual((figure.pop("step"), figure.pop("since") <= 2, figure), (40, True, {}))
        # another start: nothing is known to be lost before its first step
        self.entry("Failed to save checkpoint at step 42", 30.0)
        self.entry("Restored checkpoint from gs://b/run/40", 20.0, SECOND)
        wait_until(lambda: self.checkpoint()["steps_since"] is None, 60, "the start")
        self.step(41, 5.0, invocation=SECOND)
        wait_until(lambda: self.checkpoint()["steps_since"] == 1, 60, "the step")
        self.assertEqual(self.checkpoint()["at"], whole["at"])

    def test_a_step_line_of_its_own(self):
        self.launchd.runs = [{**TRAIN, 29: "^batch #([0-9]+) "}]
        wait_until(lambda: self.entry("batch #7 of many")
                   or self.metric('tpu_run_step_number{tpu_run_name="train"} 7'), 60,
                   "a step by the run's expression")
        self.step(9)
        self.entry("batch #8 of many")
        wait_until(lambda: self.metric('tpu_run_step_number{tpu_run_name="train"} 8'), 60, "the next one")
        self.assertFalse(self.metric('tpu_run_step_number{tpu_run_name="train"} 9'))

    def test_the_end_of_a_suspected_run_is_its_end(self):
        self.steps(41, 1.0, 12.0)
        self.suspected(40)
        self.launchd.runs = [{**TRAIN, 3: "exited", 4: "stopped", 12: time.time_ns() // 1000}]
        self.assertEqual(self.recovered(40)["how"], "end")
        wait_until(lambda: not self.metric("tpu_run_stall_suspected"), 60, "its metrics to go")

    def test_what_may_be_a_pause_is_told_at_once(self):
        """To the registry with a mark, by which its planner asks nobody for stacks yet."""
        for i in range(41):
            self.step(i, 140.0 - i)
        self.entry("saving checkpoint 41", 99.0)  # a minute is the most that the first of its kind may take
        part = wait_until(lambda: self.part().get("suspected") and self.part(), 60,
                          "the registry to be told")
        self.assertTrue(part.get("may_be_pause"), part)
        self.assertTrue(part["suspicion"])
        self.step(41)
        wait_until(lambda: "suspected" not in self.part() and "may_be_pause" not in self.part(), 60,
                   "its end")

    def test_figures_go_with_the_syncs(self):
        group = self.h.root / "sys/fs/cgroup/tpu.slice/tpu-run.slice/tpu-run-train.slice"
        group.mkdir(parents=True)
        (self.h.root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory\n")
        (group / "cpu.stat").write_text("usage_usec 12000000\nuser_usec 9500000\nsystem_usec 2500000\n")
        (group / "cpu.pressure").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=750000\nfull "
                                            "avg10=0.00 avg60=0.00 avg300=0.00 total=125000\n")
        self.assertEqual(self.h.stop(), 0)  # where control groups are is looked up at the start
        self.h.start()
        self.steps(41, 4.0, 2.0)

        def figure(step):
            asked = [f for q in self.registry.asked for f in q.get("figures", ())]
            return next((f for f in reversed(asked) if f.get("step") == step and "waited" in f), None)

        f = wait_until(lambda: figure(40), 60, lambda: f"the figures of the run: {self.registry.asked[-1]}")
        self.assertEqual({k: f[k] for k in ("run", "generation", "step", "user", "system", "waited")},
                         {"run": "train", "generation": TRAIN[16], "step": 40, "user": 9.5, "system": 2.5,
                          "waited": 0.75})
        self.assertLess(abs(f["at"] / 1e6 - time.time()), 100)
        self.assertLess(abs(f["step_time"] - 4_000_000), 100)
        self.assertEqual(f["doing"], "step")
        # they are no part of the member, and no news
        self.assertNotIn("figures", json.dumps(list(self.registry.members.values())))
        self.step(41)
        self.assertGreaterEqual(wait_until(lambda: figure(41), 60, "the next ones")["at"], f["at"])
        self.launchd.runs = []
        wait_until(lambda: "figures" not in self.registry.asked[-1], 60, "nothing runs")

    def part(self):
        """What the host says to the registry of its part in the run."""
        return next((r for m in self.registry.members.values() for r in m["runs"]), {})

    def test_a_known_pause_is_none(self):
        """Each twentieth step takes 45 s and its kind is told: the second time there is nothing to
        suspect."""
        ago, n = 180.0, 0
        for _ in range(2):
            for _ in range(20):
                self.step(n, ago)
                n, ago = n + 1, ago - 1
            self.entry("evaluating on 4 batches", ago)
            ago -= 45
        for _ in range(20):
            self.step(n, ago)
            n, ago = n + 1, ago - 1
        self.entry("evaluating on 4 batches", ago)
        wait_until(lambda: self.metric(f'tpu_run_step_number{{tpu_run_name="train"}} {n - 1}'), 60,
                   "the steps")
        time.sleep(2)
        self.assertEqual([e for e in self.h.events("tpu.run.stall_suspected")
                          if e["body"]["last_step"] == n - 1], [])


if __name__ == "__main__":
    unittest.main()
