# SPDX-License-Identifier: Apache-2.0
"""What a capture does to its target: nothing that the target itself could measure.

A Python program notes how long each round of a loop took. Rounds with captures all the time are put beside
rounds without, and those beside
others without. Printed, not judged, but for one thing: the program never was in a stopped state, and it ran
all the time. FULL=1: 1,000 captures.
"""
import json
import os
import subprocess
import threading
import unittest

from test_stack import TOOL, python_target

CAPTURES = 1000 if os.environ.get("FULL") == "1" else 100
SOURCE = """
import json, sys, time
now = time.perf_counter_ns
print("ready", flush=True)
for line in sys.stdin:
    until, gaps, last = now() + int(float(line) * 1e9), [], now()
    while last < until:
        t = now()
        gaps.append(t - last)
        last = t
    gaps.sort()
    n = len(gaps)
    print(json.dumps([n, gaps[n // 2], gaps[n * 999 // 1000], gaps[n * 99999 // 100000], gaps[-1]]), flush=True)
"""


class Gaps(unittest.TestCase):
    def test_captures_leave_no_gap(self):
        with python_target(SOURCE) as t:
            def measure(seconds):
                t.process.stdin.write("%f\n" % seconds)
                t.process.stdin.flush()
                return json.loads(t.process.stdout.readline())

            states, done = set(), threading.Event()

            def watch():
                while not done.wait(0.002):
                    with open("/proc/%d/stat" % t.pid) as f:
                        states.add(f.read().rsplit(")", 1)[1].split()[0])

            seconds = CAPTURES * 0.002
            watcher = threading.Thread(target=watch)
            watcher.start()
            try:
                plain = [measure(seconds), measure(seconds)]
                with subprocess.Popen([TOOL, "--json", "--repeat", str(CAPTURES), "--every", "2ms",
                                       str(t.pid)], stdout=subprocess.PIPE,
                                      text=True) as tool:
                    reader = threading.Thread(target=lambda: self.captured.extend(tool.stdout))
                    self.captured = []
                    reader.start()
                    with_captures = measure(seconds)
                    reader.join()
                self.assertEqual(tool.returncode, 0)
            finally:
                done.set()
                watcher.join()
            for name, row in (("without", plain[0]), ("without", plain[1]), ("captured", with_captures)):
                print("%-9s %9d rounds: p50 %d ns, p99.9 %d ns, p99.999 %d ns, longest %d µs"
                      % (name, *row[:4], row[4] // 1000))
            self.assertEqual(len(self.captured), CAPTURES)
            self.assertFalse(states & set("Tt"), states)
            self.assertGreater(with_captures[0], 1000)


if __name__ == "__main__":
    unittest.main()
