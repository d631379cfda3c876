"""What one tick of an idle tpu-hostd asks of the kernel, counted, not timed: a ratchet. Whoever makes it dearer has to say so here."""

import re
import shutil
import statistics
import sys
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, Receiver, has_failed, wait_until  # noqa: E402

TICKS = 5
MARK = '"/proc/self/stat"'  # each tick reads it once
# Calls of the main thread in a tick in which every probe runs, too; the machine of fixtures, a receiver that answers.
# How many of the workers' ends come together in one epoll_wait is the machine's affair: 14 to 31 calls were seen for about 40 such ends.
CALLS_MAX = {"open": 179, "all": 930, "epoll_wait": 45}


def ticks_of(trace):
    """[Counter of calls, list of files opened] of each whole tick, without the first two: they learn."""
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        call = re.match(r"(\w+)\(", line)
        if not call:
            continue
        if MARK in line:
            found.append((Counter(), []))
        if found:
            name = "open" if call[1] in ("openat", "openat2") else call[1]
            found[-1][0].update([name, "all"])
            if name == "open":
                found[-1][1].append(re.search(r'"([^"]*)"', line)[1])
    return found[2:-1]


@unittest.skipUnless(shutil.which("strace"), "needs strace")
class Cost(unittest.TestCase):
    def test_calls_of_a_tick(self):
        receiver = Receiver().start()
        self.addCleanup(receiver.stop)
        h = Hostd(f"http://127.0.0.1:{receiver.port}", MetricsInterval="1s", ProbeInterval="1s", LaunchdSocket="")
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        h.wrapper = ["strace", "-D", "-ff", "-o", h.folder / "trace"]  # -D: it is the child, and tpu-hostd keeps its pid
        h.start()
        trace = Path(f"{h.folder}/trace.{h.process.pid}")
        wait_until(lambda: trace.read_text(errors="replace").count(MARK) > TICKS + 3, 300, f"{TICKS} ticks")
        self.assertEqual(h.stop(), 0)
        time.sleep(0.1)  # the tracer writes its last lines
        ticks = ticks_of(trace)
        self.assertGreaterEqual(len(ticks), TICKS)
        median = {name: statistics.median(calls[name] for calls, _ in ticks) for name in CALLS_MAX}
        print(median)
        for name, most in CALLS_MAX.items():
            self.assertLessEqual(median[name], most, f"{name}: {Counter(path for _, paths in ticks for path in paths).most_common(20)}")


if __name__ == "__main__":
    unittest.main()
