"""tpu-hostd on a disk that fails: full, or with errors from its system calls. It goes on, says so, and
what it answered arrives."""

import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import otlp  # noqa: E402
from around import Launchd, captured, wait_until  # noqa: E402
from endpoint import Answer  # noqa: E402
from uplink_case import Case  # noqa: E402

FAULTS = ["fdatasync:error=EIO:when=4..8", "fallocate:error=ENOSPC:when=3..9",  # and with FULL=1
          "pwrite64:error=EIO:when=6..14", "pwrite64:error=EROFS:when=9..20", "renameat:error=EIO:when=2..6",
          "pwrite64:error=ENOSPC:when=5..30"]


class Disk(Case):
    def hostd(self, endpoint, **settings):
        h = super().hostd(endpoint)
        text = h.config.read_text().replace("MetricsInterval=300ms", "MetricsInterval=100ms")
        settings = {"SpoolBytes": "1M", **settings}
        h.config.write_text(text.replace("[Hostd]\n",
                                         "[Hostd]\n" + "".join(f"{k}={v}\n" for k, v in settings.items())))
        launchd = Launchd(h.folder / "launchd.sock")
        launchd.server.handle_error = lambda *a: None
        self.addCleanup(launchd.stop)
        self.captures, self.answered = 0, set()
        launchd.capture = self._capture
        return h

    def _capture(self, name):
        self.captures += 1
        return captured(name, f"capture {self.captures} " + "x" * 20000)

    def ask(self, h):
        """One capture; its text is remembered when it was answered. Returns the status."""
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        if code == 200:
            self.answered.add(json.loads(body)["text"])
        return code

    def expect_answered(self, h, e):
        """All that was answered is there, under numbers without holes, and nothing is left."""
        e.answer = Answer()
        wait_until(lambda: self.uplink(h)["durable"], 60, "a disk that works again")
        h.stop()  # it goes on more slowly, so that there are moments in which nothing is on its way
        h.wrapper = []
        h.config.write_text(h.config.read_text().replace("MetricsInterval=100ms", "MetricsInterval=1s"))
        h.start()
        wait_until(lambda: all(c["kept"] <= 1 for c in self.uplink(h)["classes"].values()), 60, "delivery")
        there = [event[3]["text"] for path, _, body in list(e.got) if path == "/v1/logs"
                 for event in otlp.logs(body) if event[1] == "tpu.stack.captured"]
        self.assertEqual(self.answered - set(there), set())
        contents = {}
        for _, record, body in list(e.got):
            self.assertEqual(contents.setdefault(record, body), body)

    def test_errors_of_system_calls(self):
        for fault in FAULTS if os.environ.get("FULL") else FAULTS[:2]:
            with self.subTest(fault):
                call = fault.split(":")[0]
                e = self.endpoint().start()
                h = self.hostd(e.url)
                h.wrapper = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", str(h.folder / "trace"),
                             "-e", f"trace={call}", "-e", f"inject={fault}"]
                h.start()
                codes, slow = [], 0
                for _ in range(6):
                    begin = time.monotonic()
                    h.call("/healthz")
                    slow = max(slow, time.monotonic() - begin)
                    codes.append(self.ask(h))
                    time.sleep(0.1)
                self.assertLess(slow, 30)
                self.assertGreater((h.folder / "trace").read_text(errors="replace").count("(INJECTED)"), 2)
                self.expect_answered(h, e)
                self.assertEqual(self.ask(h), 200)
                self.assertIsNone(h.process.poll())
                print(f"{fault}: {codes}", end=" ", flush=True)

    @unittest.skipUnless(os.geteuid() == 0, "mounting needs root")
    def test_full(self):
        e = self.endpoint(Answer(503)).start()
        h = self.hostd(e.url, SpoolBytes="4M")
        spool = h.folder / "spool"
        spool.mkdir(mode=0o700)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2300k,mode=0700", "tpu-hostd-test", spool],
                          capture_output=True).returncode != 0:
            self.skipTest("a tmpfs cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", spool], check=True)
        h.start()
        wait_until(lambda: not self.uplink(h)["durable"], 60, "a full disk")
        u = self.uplink(h)
        self.assertIn("No space left", u["spool_error"])
        self.assertGreater(u["classes"]["metrics"]["dropped_by"]["disk"], 0)
        self.assertEqual(h.call("/healthz")[0], 200)
        before = u["classes"]["metrics"]["dropped_by"]["byte limit"]
        codes = [self.ask(h) for _ in range(40)]  # events are more important: metrics make room for them
        self.assertEqual(set(codes), {200})
        u = self.uplink(h)["classes"]
        self.assertGreater(u["metrics"]["dropped_by"]["byte limit"], before)
        self.assertEqual(u["events"]["dropped"], 0)
        self.expect_answered(h, e)


if __name__ == "__main__":
    unittest.main()
