#!/usr/bin/python3
"""Files with stacks, written by a real Python's faulthandler as cloud-tpu-diagnostics has it done,
through tpu-hostd to a receiver."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from around import Hostd, Receiver, wait_until  # noqa: E402

PROGRAM = """
import faulthandler, signal, sys, threading, time
f = open(sys.argv[1], "wb")
faulthandler.enable(f, all_threads=False)
def next_batch(way):
    if way == "crash":
        faulthandler._sigsegv()
    for _ in range(3):
        f.write(b"INFO: Not a crash. cloud-tpu-diagnostics emits a stack trace snapshot every 600 seconds.\\n")
        f.flush()
        faulthandler.dump_traceback(f, all_threads=way == "all")
threading.Thread(target=time.sleep, args=(1,), name="loader").start()
next_batch(sys.argv[2])
"""


class StackFiles(unittest.TestCase):
    def setUp(self):
        self.receiver = Receiver().start()
        self.addCleanup(self.receiver.stop)

    def hostd(self, more=""):
        h = Hostd(f"http://127.0.0.1:{self.receiver.port}")
        h.config.write_text(h.config.read_text() + more)
        self.addCleanup(lambda: h.close(failed=not self._outcome.success))
        return h

    def dump(self, path, way):
        subprocess.run(["/usr/bin/python3", "-c", PROGRAM, path, way], stderr=subprocess.DEVNULL, timeout=60)

    def stacks(self):
        return [(severity, body) for _, name, severity, body, _, _,
                _ in self.receiver.events() if name == "tpu.stack.file"]

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_who_sees_them(self):
        """The text of stacks is for root, and for who may act: another user of the host has the event
        without it."""
        h = self.hostd().start()
        (h.root / "tmp/debugging").mkdir(parents=True)
        self.dump(h.root / "tmp/debugging/stack_trace_2026_11_21_18_00_00.txt", "one")
        wait_until(lambda: h.events("tpu.stack.file"), 60, "a stack")
        self.assertIn("in next_batch", h.events("tpu.stack.file")[0]["body"]["text"])
        text = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-s",
                               "--unix-socket", h.api, "http://h/v1/events?since=0"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn("tpu.stack.file", text)
        self.assertNotIn("next_batch", text)

    def test_snapshots_and_a_crash(self):
        h = self.hostd().start()
        folder = h.root / "tmp/debugging"
        folder.mkdir(parents=True)
        self.dump(folder / "stack_trace_2026_11_21_18_00_00.txt", "one")
        self.dump(folder / "stack_trace_2026_11_21_18_00_01.txt", "all")
        self.dump(folder / "stack_trace_2026_11_21_18_00_02.txt", "crash")
        (folder / "stack_trace_evil.txt").symlink_to("/etc/passwd")
        got = {b["file"].split("_")[-1]: (s, b) for s,
               b in wait_until(lambda: len(self.stacks()) >= 3 and self.stacks(), 60, "three stacks")}
        severity, one = got["00.txt"]
        self.assertEqual((severity, one["kind"], one["verb"], one["node"], one["slice"], one["worker"],
                          one["threads"]),
                         (9, "snapshot", "stacktraceanalyzer", "t1v-n-0a1b2c3d-w-0", "v6e-a", "0", 1))
        self.assertEqual((one["file"], one["uid"]),
                         ("/tmp/debugging/stack_trace_2026_11_21_18_00_00.txt", os.getuid()))
        self.assertIn("in next_batch\n", one["text"])
        severity, everything = got["01.txt"]
        self.assertEqual(everything["threads"], 2)
        severity, crash = got["02.txt"]
        self.assertEqual((severity, crash["kind"], crash["reason"]), (17, "crash", "Segmentation fault"))
        self.assertIn("in next_batch\n", crash["text"])
        # each is told once, after a restart, too; what is no file of its own is refused in words
        point = 'tpu_stack_files_snapshots_total{tpu_stack_files_outcome="%s"} %d\n'
        wait_until(lambda: point % ("told", 3) in h.call("/metrics")[2].decode(), 60, "they are counted")
        text = h.call("/metrics")[2].decode()
        self.assertRegex(text, 'outcome="repeated"} [4-9]')
        self.assertIn("stack_trace_evil.txt are not taken: it is a symbolic link", h.output.read_text())
        self.assertEqual(h.stop(), 0)
        h.start()
        self.dump(folder / "stack_trace_2026_11_21_18_00_03.txt", "one")
        wait_until(lambda: any(b["file"].endswith("03.txt") for _, b in self.stacks()), 60,
                   "the next program's stack")
        self.assertEqual(len(self.stacks()), 4)
        self.assertNotIn("root:", json.dumps(self.stacks()))

    def test_other_folders(self):
        h = self.hostd("[StackFiles]\nPath=/srv/stacks/*.log  /var/crash/py-*\n")
        (h.root / "srv/stacks").mkdir(parents=True)
        h.start()
        self.dump(h.root / "srv/stacks/rank0.log", "one")
        (h.root / "tmp/debugging").mkdir(parents=True)
        self.dump(h.root / "tmp/debugging/stack_trace_1.txt", "one")
        wait_until(self.stacks, 60, "the stack")
        self.assertEqual([b["file"] for _, b in self.stacks()], ["/srv/stacks/rank0.log"])


if __name__ == "__main__":
    unittest.main()
