#!/usr/bin/python3
"""What README.md and the pages of docs/ show as typed and answered, on booted hosts: each command is run,
and what it prints is compared (examples.py). One page follows the other; a page leaves no run behind.

Needs root and the packages in build/debs. PAGES=docs/first-run.md,… runs those alone, and KEEP=FILE writes
what was typed, what came and how long it took: docs/walk.md is the README's.
"""

import os
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
from examples import examples, matches  # noqa: E402
import scenario                  # noqa: E402
import slices                    # noqa: E402

ALL = ["README.md", *sorted(f"docs/{f.name}" for f in (scenario.TOP / "docs").glob("*.md"))]
PAGES = os.environ["PAGES"].split(",") if "PAGES" in os.environ else ALL


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Examples(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(slices.lab(4, 2, os.environ.get("TPU_HOSTD_DEBS")))
        slices.prepare(cls.lab)
        for host in cls.lab.hosts:
            host.sh("usermod -aG tpu-run alice; useradd -m bob")
        scenario.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in cls.lab.hosts), 90,
                            "all hosts are members")

    def typed(self, example):
        """What it printed, its exit code, and how long it took."""
        began = time.monotonic()
        host = next(h for h in self.lab.every if h.name == example.host)
        done = host.run(["/bin/sh", "-c", f"exec 2>&1; cd; {example.command}"], user=example.user,
                        timeout=180)
        return done.out, done.code, time.monotonic() - began

    def test_pages(self):
        kept = []
        for page in PAGES:
            for example in examples(page, (scenario.TOP / page).read_text()):
                said, code, took = self.typed(example)
                kept.append(f"{example.user}@{example.host}$ {example.command}    # {took:.1f} s\n{said}")
                with self.subTest(str(example)):
                    if example.expected is None:
                        self.assertEqual(code, 0, said)
                    elif not matches(example.expected, said):
                        self.fail(f"{example}\nit printed (exit code {code}):\n{said}\nthe page shows:\n"
                                  + "\n".join(example.expected))
        if os.environ.get("KEEP"):
            Path(os.environ["KEEP"]).write_text("\n".join(kept))


if __name__ == "__main__":
    unittest.main(verbosity=2)
