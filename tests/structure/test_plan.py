#!/usr/bin/python3
"""tools/test: the plan it prints names every step it has, single steps run by name, and a run is resumed
while the tree is as it was."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SCRIPTS = "packaging/completion/tpu-hostd.bash tools/deb tools/deps tools/demo .ci/run".split()


def run(*words, top=TOP):
    return subprocess.run([top / "tools/test", *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=300)


class Plan(unittest.TestCase):
    def names(self, *words):
        done = run(*words, "--plan")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [re.fullmatch(r" *\d+ s  (.+)", line)[1] for line in done.stdout.splitlines()]
        self.assertTrue(rows.pop().startswith("in all"))
        return rows

    def test_every_step_is_in_it(self):
        steps = re.findall(r'^\s*(?:step|begin) "([^"$]+)"',
                           (TOP / "tools/test").read_text(), re.M)
        self.assertGreater(len(steps), 15)
        self.assertEqual(self.names("--full"), steps)
        gate = self.names()
        self.assertEqual([name for name in self.names("--full") if name in gate], gate)
        self.assertNotIn("power cuts", gate)

    def test_steps_by_name(self):
        self.assertEqual(self.names("--full", "--only", "valgrind", "--only", "cuts"),
                         ["memory: valgrind", "power cuts"])
        for words in (["--only", "power cuts"], ["--only"], ["--often"]):  # the first is none of the gate's
            self.assertEqual(run(*words, "--plan").returncode, 64, words)
        self.assertIn("--resume", run("--help").stdout)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("git"),
                     "tools/test must be root, and resumes with git alone")
class Steps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tpu-plan-test-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        for name in ["tests/plan.bash", *SCRIPTS]:
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (self.top / name).write_text("true\n")
        for name in ("tools/test", "tests/plan.bash"):
            shutil.copy(TOP / name, self.top / name)
        (self.top / ".gitignore").write_text("/build/\n")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=t", "-c", "user.email=t@invalid", "commit", "-q", "-m", "all")

    def git(self, *words):
        subprocess.run(["git", *words], cwd=self.top, check=True, capture_output=True)

    def step(self, *words):
        done = run("--only", "scripts parse", *words, top=self.top)
        return done.returncode, "before this run" in done.stdout, done.stdout.splitlines()[-1]

    def test_resumed(self):
        all_well = "1 passed, 0 failed, 0 skipped"
        self.assertEqual(self.step(), (0, False, all_well))
        self.assertEqual(self.step("--resume"), (0, True, all_well))
        self.assertEqual(self.step("--resume", "--full"), (0, False, all_well))  # --full is another run
        self.assertEqual(self.step("--resume", "--full"), (0, True, all_well))
        (self.top / "tools/deps").write_text("if\n")
        self.assertEqual(self.step("--resume", "--full"), (1, False, "0 passed, 1 failed, 0 skipped"))
        # what failed runs again
        self.assertEqual(self.step("--resume", "--full"), (1, False, "0 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
