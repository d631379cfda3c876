#!/usr/bin/python3
"""The sanitizers of this build find a fault of each kind, with the options that tools/test gives them; what
they find fails the step even
when the test that drives the program takes no notice (tests/crowd.py)."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
PLANTED = pathlib.Path(os.environ["BUILD_DIR"]) / "tests/sanitizers/planted"
FOUND = {"leak": "LeakSanitizer: detected memory leaks",
         "use-after-free": "AddressSanitizer: heap-use-after-free",
         "heap-overflow": "AddressSanitizer: heap-buffer-overflow",
         "stack-overflow": "AddressSanitizer: stack-buffer-overflow",
         "undefined": "runtime error: signed integer overflow"}
CARELESS = """import subprocess, unittest
class T(unittest.TestCase):
    def test(self):
        subprocess.run([{planted!r}, {kind!r}], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


class Sanitizers(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="sanitizers-")))

    def options(self):
        """As those of this run, but for where the report goes."""
        kept = {name: ":".join(w for w in os.environ.get(name, "").split(":") if w
                               and not w.startswith("log_path=")) for name in
                ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
        return {**os.environ,
                **{name: f"{rest}:log_path={self.folder}/report".lstrip(":") for name, rest in kept.items()}}

    def test_each_kind_is_found(self):
        for kind, said in FOUND.items():
            with self.subTest(kind):
                done = subprocess.run([PLANTED, kind], env=self.options(), stdout=subprocess.DEVNULL,
                                      check=False)
                self.assertNotIn(done.returncode, (0, 64))
                [report] = self.folder.glob("report*")
                self.assertIn(said, report.read_text())
                report.unlink()

    def test_nothing_is_found_without_a_fault(self):
        done = subprocess.run([PLANTED, "nothing"], env=self.options(), check=False)
        self.assertEqual((done.returncode, list(self.folder.iterdir())), (64, []))

    def test_a_careless_test_does_not_hide_it(self):
        for kind, said in {"none": None, **FOUND}.items():
            with self.subTest(kind):
                (self.folder / "test_careless.py").write_text(CARELESS.format(planted=str(PLANTED),
                                                                              kind=kind))
                reports = self.folder / f"reports-{kind}"
                reports.mkdir()
                options = {k: v.replace(str(self.folder), str(reports)) if k.endswith("SAN_OPTIONS") else v
                           for k, v in self.options().items()}
                done = subprocess.run([sys.executable, "-B", TESTS / "crowd.py", "--kept",
                                       self.folder / "first", "files", "1",
                                       self.folder / "test_careless.py"],
                                      env={**options, "SANITIZER_REPORTS": str(reports),
                                           "LOCK": str(self.folder / "lock")},
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      check=False)
                self.assertEqual(done.returncode, 1 if said else 0, done.stdout)
                self.assertIn(said or "OK", done.stdout)


if __name__ == "__main__":
    unittest.main()
