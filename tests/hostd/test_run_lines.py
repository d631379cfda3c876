"""What runs print, from the journal through tpu-hostd's spool to a real tpu-collectord and tpuctl, with
kills between."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, wait_until  # noqa: E402
from test_gang import BUILD, Collectord  # noqa: E402

FULL = os.environ.get("FULL") == "1"
JOURNAL_WRITER = os.environ.get("JOURNAL_WRITER", "/lib/systemd/systemd-journal-remote")
FIRST, SECOND = "1" * 32, "2" * 32


@unittest.skipUnless(os.path.exists(JOURNAL_WRITER), "systemd-journal-remote is not installed")
class RunLines(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="run-lines-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.journal = self.folder / "journal"
        self.journal.mkdir()
        self.collector = Collectord(self.folder)
        self.addCleanup(self.collector.close)
        self.collector.start()
        self.writer = subprocess.Popen([JOURNAL_WRITER, "-o", self.journal / "system.journal", "-"],
                                       stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (self.writer.stdin.close(), self.writer.wait(60)))
        self.entry("ssh.service", "not of a run", invocation=FIRST)
        wait_until(lambda: list(self.journal.glob("*.journal")), 60, "the journal file")

    def hostd(self, **settings):
        h = Hostd(self.collector.agents, Journal=self.journal, **settings)
        self.addCleanup(lambda: h.close(failed=not self._outcome.success))
        return h.start()

    def entry(self, unit, line, invocation=FIRST, identifier="tpu-run", priority=6):
        self.writer.stdin.write((f"__REALTIME_TIMESTAMP={time.time_ns() // 1000}\n"
                                 f"__MONOTONIC_TIMESTAMP={time.monotonic_ns() // 1000}\n"
                                 f"_BOOT_ID={'5e0f3a5252a74d2b9b1c6a1f0e4d7c3b'}\n"
                                 f"SYSLOG_IDENTIFIER={identifier}\nPRIORITY={priority}\n"
                                 f"_SYSTEMD_UNIT={unit}\n_SYSTEMD_INVOCATION_ID={invocation}\n"
                                 f"MESSAGE={line}\n\n").encode())
        self.writer.stdin.flush()

    def say(self, *lines, run="train", **more):
        for line in lines:
            self.entry(f"tpu-run-{run}.service", line, **more)

    def ask(self, path, status=200):
        try:
            with urllib.request.urlopen(self.collector.people + path, timeout=60) as a:
                self.assertIn(a.status, status if isinstance(status, tuple) else (status,))
                return json.load(a)
        except urllib.error.HTTPError as e:
            answer = json.load(e)
            self.assertIn(e.code, status if isinstance(status, tuple) else (status,), answer)
            return answer

    def lines(self, run="train", more=""):
        got, since = [], 0
        while True:
            a = self.ask(f"/api/v1/runs/{run}/logs?since={since}{more}", (200, 404))
            if not a.get("lines"):  # 404: nothing of this run has come yet
                return got
            got, since = got + a["lines"], a["next"]

    def until(self, n, run="train"):
        wait_until(lambda: len(self.lines(run)) >= n, 60, f"{n} lines")
        return self.lines(run)

    def tpuctl(self, *words, check=0):
        done = subprocess.run([BUILD / "agent/ctl/tpuctl", "--root", self.folder, "logs", "--collector",
                               self.collector.people, *words],
                              capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        return done


class FromHostToPeople(RunLines):
    def test_only_lines_of_runs_come_and_each_says_whose_it_is(self):
        self.hostd()
        self.say("one", "zwei ü", "x" * 10000)
        self.entry("ssh.service", "secret")
        self.entry("tpu-run-train.service", "a lie", identifier="liar")
        self.say("error", priority=3)
        self.say("of another", run="eval")
        self.say("again", invocation=SECOND)
        got = self.until(5)
        self.assertEqual([line["text"] for line in got[:2]], ["one", "zwei ü"])
        self.assertEqual((got[2]["text"][:4096], len(got[2]["text"].encode()) < 4110), ("x" * 4096, True))
        self.assertEqual([(line["text"], line["priority"], line["number"], line["invocation"])
                          for line in got[3:]],
                         [("error", 3, 4, FIRST), ("again", 6, 1, SECOND)])
        self.assertEqual({line["missing"] for line in got}, {0})
        first = got[0]
        self.assertTrue(first["slice"] and first["worker_id"] is not None, first)
        self.assertEqual([line["text"] for line in self.until(1, "eval")], ["of another"])
        # filters, and the newest first without since
        self.assertEqual(len(self.lines(more=f"&worker={first['slice']}/"
                                             f"{first['worker_id']}&host={first['host']}")), 5)
        self.assertEqual(self.lines(more="&worker=99"), [])
        self.assertEqual([line["text"] for line in self.ask("/api/v1/runs/train/logs?limit=2")["lines"]],
                         ["error", "again"])
        self.assertEqual(self.ask("/api/v1/runs/train/logs?worker=x", 400)["error"][:7], "worker=")
        # no event is made of them
        self.assertEqual([e for e in self.ask("/api/v1/events?limit=1000")["events"]
                          if e["name"] == "tpu.run.line"], [])
        out = self.tpuctl("train", "-n", "2").stdout
        self.assertEqual(out, f"{first['slice']}/{first['worker_id']}: "
                              f"error\n{first['slice']}/{first['worker_id']}: again\n")
        self.assertIn("there is no run 'nope'; known: ", self.tpuctl("nope", check=1).stderr)
        self.tpuctl("train", "-n", "0", check=64)

    def test_who_waits_is_answered(self):
        self.hostd()
        self.say("one")
        self.until(1)
        since = self.ask("/api/v1/runs/train/logs")["next"]
        follow = subprocess.Popen([BUILD / "agent/ctl/tpuctl", "--root", self.folder, "logs", "--collector",
                                   self.collector.people, "-f", "train"],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (follow.kill(), follow.wait(60), follow.stdout.close()))
        self.assertRegex(follow.stdout.readline(), ": one$")
        self.say("other", run="eval")
        self.say("two")
        self.assertEqual([line["text"]
                          for line in self.ask(f"/api/v1/runs/train/logs?since={since}&wait=30")["lines"]],
                         ["two"])
        self.assertRegex(follow.stdout.readline(), ": two$")

    def test_nothing_goes_out_when_it_is_not_wanted(self):
        h = self.hostd(RunLogs="no")
        self.say("one")
        self.entry("ssh.service", "x")
        wait_until(lambda: h.get("/v1/status")["uplink"]["classes"]["metrics"]["sent"] > 8, 60,
                   "some metrics")
        self.assertEqual((self.lines(), (h.folder / "spool/run-lines").exists()), ([], False))


class Kills(RunLines):
    def test_no_line_is_lost_or_comes_twice(self):
        """hostd and the collector are killed while a run prints, and what was printed while hostd was
        away comes, too."""
        h = self.hostd()
        n = 0
        for turn in range(12 if FULL else 4):
            for _ in range(300):
                n += 1
                self.say(f"line {n}")
            if turn % 2:
                self.collector.kill()
            else:
                wait_until(lambda: len(self.lines()) > (n - 300) // 2, 60, "some of them")
            h.process.kill()
            h.process.wait(60)
            self.say(f"line {n + 1}")
            n += 1
            if turn % 2:
                self.collector.start()
            h.start()
        got = self.until(n)
        self.assertEqual([line["text"] for line in got], [f"line {i + 1}" for i in range(n)])
        self.assertEqual({line["missing"] for line in got}, {0})

    def test_what_is_missing_is_counted(self):
        """A collector that was not there when lines fell out of the spool says how many."""
        h = self.hostd(SpoolBytes="1M", RunLogBytes="1M")
        self.say("first")
        self.until(1)
        self.collector.kill()
        noise = os.urandom(3000).hex()[:4000]
        for i in range(700):
            self.say(f"{i} {noise}")
        wait_until(lambda: h.get("/v1/status")["uplink"]["classes"]["logs"]["dropped"] > 0, 60,
                   "the spool to be full")
        self.say("last")
        self.collector.start()
        wait_until(lambda: self.lines()[-1]["text"] == "last", 60, "the last line")
        got = self.lines()
        self.assertEqual(len(got) + sum(line["missing"] for line in got), 702)
        self.assertGreater(sum(line["missing"] for line in got), 0)
        self.assertRegex(self.tpuctl("train").stdout, r"\[\d+ lines did not reach the collector\]")
        wait_until(lambda: [e for e in h.events("tpu.spool.gap") if e["body"]["class"] == "logs"], 60,
                   "the gap's event")
        told = sum(int(e["body"]["lines"]) for e in h.events("tpu.spool.gap")
                   if e["body"]["class"] == "logs")
        self.assertLessEqual(told, sum(line["missing"] for line in got))


if __name__ == "__main__":
    unittest.main()
