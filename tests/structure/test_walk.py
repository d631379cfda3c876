#!/usr/bin/python3
"""The walk of docs/structure.md can be done: each file and each place that it names is there.

tests/package/test_walk.py builds what comes of it."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from walk import files_of, walks

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Walk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tpu-walk-test-")
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        touched = {step.path for steps in walks(SOURCE).values() for step in steps}
        wanted = re.compile(
            r"CMakeLists\.txt$|tests/structure/|"
            r"tests/fixtures/make-machine$|(agent|collector|probes|netcfg|systemd|packaging|docs/man)/")
        for file in files_of(SOURCE):
            if file in touched or wanted.search(file):
                (self.top / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCE / file, self.top / file, follow_symlinks=False)

    def test_every_step_finds_its_place(self):
        for title, steps in walks(self.top).items():
            self.assertGreater(len(steps), 1, title)
            for step in steps:
                with self.subTest(title, path=step.path, anchor=step.anchor):
                    step.do(self.top)
        # What was added is in the tables, too. The copy has no more than these tests look at.
        for test in (["test_structure.py", "Structure.test_table_is_what_the_build_holds",
                     "Structure.test_picture_is_what_the_build_holds"], ["test_remedies.py", "Remedies"]):
            done = subprocess.run(["/usr/bin/python3", "-B", self.top / "tests/structure" / \
                                  test[0], *test[1:]], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_place_that_went_is_found(self):
        probes = self.top / "probes/probes.def"
        probes.write_text(probes.read_text().replace("PROBE(thp,", "PROBE(gone,"))
        with self.assertRaisesRegex(AssertionError, "probes/probes.def, which is not there"):
            for step in walks(self.top)["A new check"]:
                step.do(self.top)


if __name__ == "__main__":
    unittest.main()
