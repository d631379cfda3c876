"""What a line of a run costs the agent, in instructions, which are the same on every machine: no more
than a bound with room."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("BUILD_DIR", Path(__file__).resolve().parents[2] / "build/dev"))
BOUND = {"chatter": 12000, "maxtext": 16000, "torch": 30000}  # a line; twice and more of what they took
SANITIZED = "asan" in BUILD.name


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
@unittest.skipIf(SANITIZED, "valgrind and sanitizers do not go together")
class Cost(unittest.TestCase):
    def instructions(self, kind, n):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                                   BUILD / "tests/bench/bench-progress", kind, str(n)],
                                  capture_output=True, text=True, timeout=300, check=True)
        return int(re.search(r"Collected : (\d+)", done.stderr)[1])

    def test_lines(self):
        for kind, bound in BOUND.items():
            # with what makes the line
            each = (self.instructions(kind, 2000) - self.instructions(kind, 1000)) / 1000
            print(f"{kind}: {each:.0f} instructions a line")
            self.assertLess(each, bound, kind)


if __name__ == "__main__":
    unittest.main()
