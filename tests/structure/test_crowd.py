#!/usr/bin/python3
"""The runner of tools/test: planted tests that fail once, always, with a sanitizer's report, with a
crash, or many at once."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
import crowd  # noqa: E402

PRESETS = {"version": 2,
           "configurePresets": [{"name": "p", "generator": "Ninja", "binaryDir": "${sourceDir}/build"}],
           "testPresets": [{"name": "p", "configurePreset": "p", "output": {"outputOnFailure": True}}]}
# A test that fails at its first run alone, and says what it is told to say.
ONCE = "echo ran >>{name}.ran; echo {say}; [ $(wc -l <{name}.ran) -gt 1 ]"
ALWAYS = "echo ran >>{name}.ran; echo {say}; false"
GOOD = "echo ran >>{name}.ran"
UNIT = """import unittest
class T(unittest.TestCase):
    def test_a(self):
        with open("{name}.ran", "a+") as f:
            f.write("ran\\n"), f.seek(0)
            self.assertGreater(len(f.readlines()), {more}, "{say}")
    def test_b(self):
        pass
"""


class Crowd(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="crowd-")
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        (self.top / "build").mkdir()
        (self.top / "reports").mkdir()

    def crowd(self, *words):
        """(exit code, output)"""
        env = {**os.environ, "SANITIZER_REPORTS": str(self.top / "reports"), "LOCK": str(self.top / "lock")}
        done = subprocess.run([crowd.PYTHON, "-B", TESTS / "crowd.py", "--kept", self.top / "first", *words],
                              cwd=self.top, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def ctest(self, **tests):
        """tests: NAME=(shell, what it says), "program_" in front of those that drive programs."""
        if "--preset" not in subprocess.run(["ctest", "--help"], stdout=subprocess.PIPE, text=True).stdout:
            self.skipTest("this ctest knows no presets, and tools/test cannot run here")
        (self.top / "CMakePresets.json").write_text(json.dumps(PRESETS))
        text = ""
        for name, (shell, say) in tests.items():
            text += f'add_test({name} sh -c [=[{shell.format(name=name, say=say)}]=])\n'
            text += (f'set_tests_properties({name} PROPERTIES LABELS '
                     f'{"program" if name.startswith("program_") else "unit"})\n')
        (self.top / "build/CTestTestfile.cmake").write_text(text)
        return self.crowd("ctest", "p", "-j2")

    def runs(self, name, folder="build"):
        return (self.top / folder / f"{name}.ran").read_text().count("ran")

    def files(self, **tests):
        for name, (more, say) in tests.items():
            (self.top / f"{name}.py").write_text(UNIT.format(name=name, more=more, say=say))
        return self.crowd("files", "2", *(self.top / f"{name}.py" for name in tests))

    def test_all_pass(self):
        code, out = self.ctest(program_a=(GOOD, ""), unit_b=(GOOD, ""))
        self.assertEqual((code, self.runs("program_a")), (0, 1), out)
        self.assertNotIn("alone", out)

    def test_once(self):
        code, out = self.ctest(program_a=(ONCE, "too slow"), program_b=(GOOD, ""), unit_c=(GOOD, ""))
        self.assertEqual((code, self.runs("program_a"), self.runs("program_b")), (0, 2, 1), out)
        first = re.search(r"^passed alone, failed in the crowd: program_a, first output in (.*)$", out, re.M)
        self.assertIn("too slow", pathlib.Path(first[1]).read_text())
        self.assertIn("  | too slow", out)
        self.assertTrue(out.endswith("100% tests passed, 0 tests failed out of 3\n"), out)

    def test_a_long_output_is_shortened(self):
        code, out = self.ctest(program_a=(ONCE.replace("echo {say}", "seq 1 900"), ""))
        self.assertEqual(code, 0, out)
        self.assertLessEqual(len(re.findall(r"^  \| ", out, re.M)), crowd.SHOWN)
        self.assertIn("  | 900\n", out)

    def test_always(self):
        code, out = self.ctest(program_a=(ALWAYS, "broken"), program_b=(ONCE, "slow"))
        self.assertEqual((code, self.runs("program_a")), (1, 2), out)
        self.assertIn("failed alone, too: program_a", out)
        self.assertTrue(out.endswith("50% tests passed, 1 tests failed out of 2\n"), out)

    def test_never_again(self):
        for say in ("==1==ERROR: AddressSanitizer: heap-use-after-free",
                    "==1==ERROR: LeakSanitizer: detected memory leaks",
                    "x.c:1:2: runtime error: signed integer overflow",
                    "SUMMARY: UndefinedBehaviorSanitizer: x", "killed by SIGSEGV",
                    "Aborted (core dumped)", "x: x.c:3: f: Assertion \\`x == 1\\' failed.",
                    "AssertionError: -6 != 0", "0 != -11", "exit code -6:"):
            with self.subTest(say):
                code, out = self.ctest(program_a=(ONCE, f'"{say}"'))
                self.assertEqual((code, self.runs("program_a")), (1, 1), out)
                self.assertIn("not run again: program_a: ", out)
                (self.top / "build/program_a.ran").unlink()

    def test_ordinary_words_forbid_nothing(self):
        for say in ("AssertionError: 1 != 0", "AssertionError: not within 60 s: READY=1", "1.5-6 != 2",
                    "exit code -15:", "-15 != 0"):
            self.assertIsNone(crowd.fault(say), say)

    def test_a_report_that_no_test_shows(self):
        code, out = self.ctest(program_a=(f"echo ERROR: LeakSanitizer >{self.top}/reports/report.1", ""))
        self.assertEqual(code, 1, out)
        self.assertIn("FAILED: a sanitizer's report: ", out)
        self.assertIn("ERROR: LeakSanitizer", out)

    def test_a_report_of_another_test(self):
        code, out = self.ctest(program_a=(f"{ONCE}; r=$?; echo ERROR: LeakSanitizer "
                                          f">{self.top}/reports/report.1; exit $r", "slow"))
        self.assertEqual((code, self.runs("program_a")), (1, 1), out)

    def test_units_are_not_run_again(self):
        code, out = self.ctest(unit_a=(ONCE, "x"), program_b=(ONCE, "slow"))
        self.assertEqual((code, self.runs("unit_a"), self.runs("program_b")), (1, 1, 1), out)
        self.assertIn("2 tests failed out of 2", out)

    def test_many(self):
        code, out = self.ctest(**{f"program_{n}": (ONCE, "slow") for n in range(crowd.MOST + 1)})
        self.assertEqual((code, self.runs("program_0")), (1, 1), out)
        code, out = self.files(**{f"test_{n}": (1, "slow") for n in range(crowd.MOST + 1)})
        self.assertEqual((code, self.runs("test_0", ".")), (1, 1), out)
        self.assertEqual([crowd.most(n) for n in (1, 79, 272)], [3, 3, 13])

    def test_files(self):
        code, out = self.files(test_once=(1, "slow"), test_good=(0, ""))
        self.assertEqual((code, self.runs("test_once", "."), self.runs("test_good", ".")), (0, 2, 1), out)
        self.assertRegex(out, r"(?m)^passed alone, failed in the crowd: \S*\.test_once, first output in ")
        self.assertEqual((out.count("\nRan 2 tests"), out.count("\nFAILED")), (2, 0), out)

    def test_files_that_fail(self):
        code, out = self.files(test_always=(9, "broken"), test_crash=(1, "SIGSEGV"))
        self.assertEqual((code, self.runs("test_always", "."), self.runs("test_crash", ".")), (1, 2, 1), out)
        self.assertEqual((out.count("\nRan 2 tests"), out.count("\nFAILED (failures=1)")), (2, 2), out)

    def test_a_command(self):
        once = (f"echo ran >>{self.top}/c.ran; [ $(wc -l <{self.top}/c.ran) -gt 1 ] && echo PASS one || {{ "
                f"echo FAIL one: slow; false; }}")
        code, out = self.crowd("command", "path", "sh", "-c", once)
        self.assertEqual((code, "FAIL one" in re.sub(r"(?m)^  \| .*", "", out), "\nPASS one\n" in out),
                         (0, False, True), out)
        code, out = self.crowd("command", "path", "sh", "-c", "echo FAIL one; false")
        self.assertEqual((code, "\nFAIL one" in out), (1, True), out)
        code, out = self.crowd("command", "path", "sh", "-c", "echo PASS one")
        self.assertEqual((code, out), (0, "PASS one\n"))


if __name__ == "__main__":
    unittest.main()
