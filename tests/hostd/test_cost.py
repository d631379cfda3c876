"""What an idle tpu-hostd asks of the kernel, counted, not timed: a ratchet. Whoever makes it dearer has
to say so here."""

import os
import re
import shutil
import subprocess
import sys
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import BINARY, Hostd, Receiver, has_failed, wait_until  # noqa: E402

TICKS = 5
MARK = '"/proc/self/stat"'  # each tick reads it once
# Calls of the main thread in a tick in which every probe runs, once; the machine of fixtures, a receiver
# that answers. On a
# busy machine a tick comes late, and a probe's second run or an answer's second half falls into it: the
# cheapest whole tick counts.
CALLS_MAX = {"open": 222, "all": 905, "epoll_wait": 45}
# What a worker does not load before it looks at anything. libsystemd and what that needs cost 0.6 ms of each
# start: the probe of the daemons asks systemd by it.
WORKER_WITHOUT = ("libcrypto.", "libcurl.", "libmicrohttpd.", "libelf.")


def ticks_of(trace):
    """[(Counter of calls, Counter of files opened)] of each whole tick, without the first two: they
    learn."""
    found = []
    for line in trace.read_text(errors="replace").splitlines():
        call = re.match(r"(\w+)\(", line)
        if not call:
            continue
        if MARK in line:
            found.append((Counter(), Counter()))
        if found:
            name = "open" if call[1] in ("openat", "openat2") else call[1]
            found[-1][0].update([name, "all"])
            if name == "open":
                found[-1][1].update([re.search(r'"([^"]*)"', line)[1]])
    return found[2:-1]


def least(ticks):
    """{name of CALLS_MAX: the fewest calls of a tick in which every probe ran}"""
    often = Counter(path for _, paths in ticks for path in paths)
    usual = {path for path, n in often.items() if n > len(ticks) / 2}
    whole = [calls for calls, paths in ticks if usual <= set(paths)]
    return {name: min((calls[name] for calls in whole), default=None) for name in CALLS_MAX}


@unittest.skipUnless(shutil.which("strace"), "needs strace")
class Cost(unittest.TestCase):
    def test_calls_of_a_tick(self):
        receiver = Receiver().start()
        self.addCleanup(receiver.stop)
        h = Hostd(f"http://127.0.0.1:{receiver.port}", MetricsInterval="1s", ProbeInterval="1s",
                  LaunchdSocket="")
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        # -D: it is the child, and tpu-hostd keeps its pid
        h.wrapper = ["strace", "-D", "-ff", "-o", h.folder / "trace"]
        h.start()
        trace = Path(f"{h.folder}/trace.{h.process.pid}")

        def cheap():
            ticks = ticks_of(trace)
            found = least(ticks)
            return len(ticks) >= TICKS and all(found[name] is not None and found[name] <= most for name,
                                               most in CALLS_MAX.items())

        wait_until(cheap, 120, lambda: f"{least(ticks_of(trace))} above {CALLS_MAX}: "
                                       f"{sum((paths for _, paths in ticks_of(trace)), Counter()).most_common(20)}")
        print(least(ticks_of(trace)))
        self.assertEqual(h.stop(), 0)


class Worker(unittest.TestCase):
    def test_libraries(self):
        probe = BINARY.parent / "tpu-hostd-probe"
        loaded = subprocess.run([probe], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"},
                                capture_output=True, text=True, check=True)
        names = {line.split()[0] for line in loaded.stdout.splitlines() if "=>" in line}
        self.assertIn("libc.so.6", names)
        self.assertEqual({n for n in names if n.startswith(WORKER_WITHOUT)}, set())


if __name__ == "__main__":
    unittest.main()
