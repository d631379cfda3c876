#!/usr/bin/python3
"""tpuctl bundle, of a collector and a tpu-hostd that stand in."""
import json
import pathlib
import unittest

from ctl_case import Ctl
from stand_ins import field
from test_runs import launchd_run

STALL = {"episode": "e1", "run": "train", "summary": "h1 reads",
         "diagnosis": {"outcome": "named", "graph": ["g" * 90] * 700, "tree": {"frames": ["f" * 60] * 100}}}


class Bundle(Ctl):
    def setUp(self):
        super().setUp()
        self.server, self.url = self.collector()
        self.file = self.root / "out.json"
        lines = [{"time": "2026-11-21T10:00:00Z", "text": f"line {i} HF_TOKEN=canary" + "x" * 200}
                 for i in range(1000)]
        events = [{"host": f"h{i}", "sentence": f"event {i} " + "y" * 200} for i in range(100)]
        a = self.server.answers
        a[("GET", "/api/v1/runs/train")] = (200, {"name": "train", "env": ["DB_PASSWORD=canary"]})
        a[("GET", "/api/v1/runs/train/why")] = (200, {"sentence": "h1 ended first", "lines": lines,
                                                      "events": events})
        a[("GET", "/api/v1/episodes")] = (200, {"episodes": [{"episode": "e2", "run": "x"}, STALL]})
        a[("GET", "/api/v1/episodes/e1")] = (200, STALL)

    def bundle(self, *options, code=0):
        done = self.expect(["bundle", "train", "--collector", self.url, "--output", str(self.file),
                            *options], code)
        return done, json.loads(self.file.read_text()) if code == 0 else None

    def test_small(self):
        done, b = self.bundle()
        self.assertLessEqual(self.file.stat().st_size, 50_000)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.assertIn(f"{self.file}: ", done.stdout)
        self.assertIn("cut to 50 kB", done.stdout)
        self.assertEqual((b["version"], b["run"], b["cut"], b["why"]["sentence"]),
                         (1, "train", True, "h1 ended first"))
        # the last lines, the first events
        self.assertTrue(b["why"]["lines"][-1]["text"].startswith("line 999 "))
        self.assertTrue(b["why"]["events"][0]["sentence"].startswith("event 0 "))
        self.assertEqual(b["stall"]["summary"], "h1 reads")
        self.assertEqual(set(b["left_out"]), {"here"})
        self.assertNotIn("canary", self.file.read_text())

    def test_full(self):
        _, b = self.bundle("--full")
        self.assertFalse(b["cut"])
        self.assertEqual((len(b["why"]["lines"]), len(b["stall"]["diagnosis"]["graph"])), (1000, 700))
        self.assertIn("/api/v1/runs/train/why?lines=1000", [p for _, p in self.server.seen])
        self.assertNotIn("canary", self.file.read_text())

    def test_what_has_its_name_already(self):
        """A link to another's file, and a file that all may read: a new file takes the name of either."""
        other = self.file.with_name("other")
        other.write_text("another's")
        self.file.symlink_to(other)
        self.bundle()
        self.assertEqual(other.read_text(), "another's")
        self.assertFalse(self.file.is_symlink())
        self.file.chmod(0o644)
        self.bundle()
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        done = self.expect(["bundle", "train", "--collector", self.url, "--output", "/dev/null"], 1)
        self.assertIn("/dev/null: ", done.stderr)
        self.assertFalse(pathlib.Path("/dev/null").is_file())

    def test_of_a_run_that_goes_on(self):
        why = (404, {"error": "it has not ended", "remedy": ""})
        self.server.answers[("GET", "/api/v1/runs/train/why")] = why
        _, b = self.bundle()
        self.assertIn("it has not ended", b["left_out"]["why"])
        self.assertIn("record", b)

    def test_of_this_host(self):
        for key in list(self.server.answers):
            self.server.answers[key] = (404, {"error": "no such", "remedy": ""})
        done, _ = self.bundle(code=3)
        self.assertIn("nobody knows anything about run train", done.stderr)
        self.assertFalse(self.file.exists())
        launchd = self.launchd()
        launchd.answers[22] = (23, field(1, launchd_run("train", "exited", "oom", "killed", "KILL", 5, 9)))
        launchd.answers[37] = (38, field(1, "step 1\nAPI_KEY=canary\n") + field(2, "p"))
        _, b = self.bundle()
        lines = ["step 1", "API_KEY=****"] # the stand-in answers each question alike
        self.assertEqual((b["here"]["runs"][0]["cause"], b["here_lines"], b["here_libtpu"], b["here_core"]),
                         ("oom", lines, lines, lines))
        self.assertEqual(self.run_ctl("bundle").returncode, 64)

    def test_why_shows_the_worst_of_libtpu(self):
        launchd = self.launchd()
        launchd.answers[22] = (23, field(1, launchd_run("train", "exited", "oom", "killed", "KILL", 5, 9)))
        worst = [f"F line {i}" for i in range(30)]
        text = "\n".join(["p.log.FATAL.1, the last 9 of 9 bytes:", *worst,
                          "p.log.INFO.1, the last 9 of 9 bytes:", "I line"])
        launchd.answers[37] = (38, field(1, text + "\n") + field(2, "p"))
        out = self.expect(["why", "train"], 0).stdout
        self.assertIn("its first core dump", out)
        part = out[out.index("libtpu wrote"):out.index("its last lines")].strip().splitlines()
        self.assertEqual([line.strip() for line in part[1:]],
                         ["p.log.FATAL.1, the last 9 of 9 bytes:", *worst[-12:]])


if __name__ == "__main__":
    unittest.main()
