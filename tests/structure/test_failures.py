#!/usr/bin/python3
"""What a failed step of tools/test prints: that which failed, from wherever in the log, and not more than
fits."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import failures  # noqa: E402

RULE, BAR = "=" * 70, "-" * 70
BLOCK = f"""{RULE}
FAIL: test_a (test_b.C.test_a)
{BAR}
Traceback (most recent call last):
  File "test_b.py", line 1, in test_a
AssertionError: 2 != 3

"""
PYTHON = f"""test_a (test_b.C.test_a) ... FAIL
test_z (test_b.C.test_z) ... ok

{BLOCK}{BLOCK.replace("test_a", "test_q").replace("FAIL", "ERROR")}{BAR}
Ran 3 tests in 1.000s

FAILED (failures=1, errors=1)
"""
GOOD = f"test_y (test_x.X.test_y) ... ok\n\n{BAR}\nRan 1 test in 0.1s\n\nOK\n" * 30
CTEST = f"""      Start  1: one
 1/3 Test  #1: one ....................   Passed    0.10 sec
      Start  2: program-two
 2/3 Test  #2: program-two ............***Failed    0.10 sec
{PYTHON}
      Start  3: three
 3/3 Test  #3: three ..................Subprocess aborted***Exception:   0.02 sec
a line before
three.c:12: 1 == 2

33% tests passed, 2 tests failed out of 3

Total Test time (real) =   0.20 sec
"""


class Failures(unittest.TestCase):
    def test_unittest_in_the_middle(self):
        said = failures.failures(PYTHON + GOOD)
        self.assertEqual([line for line in said if line.startswith(("FAIL", "ERROR"))],
                         ["FAIL: test_a (test_b.C.test_a)", "ERROR: test_q (test_b.C.test_q)"])
        self.assertEqual(said.count("AssertionError: 2 != 3"), 2)
        self.assertNotIn("Ran 3 tests in 1.000s", said)
        self.assertFalse([line for line in said if " ... ok" in line])

    def test_ctest(self):
        said = failures.failures(CTEST)
        for words in ("#2: program-two", "FAIL: test_a", "#3: three", "three.c:12: 1 == 2"):
            self.assertEqual(len([line for line in said if words in line]), 1, (words, said))
        self.assertFalse([line for line in said if "#1: one" in line or "tests passed" in line])

    def test_a_report_beside_a_test_that_failed(self):
        said = failures.failures(CTEST
                                 + "FAILED: a sanitizer's report: /r/report.1\n==1==ERROR: LeakSanitizer\n")
        self.assertEqual(said[-2:],
                         ["FAILED: a sanitizer's report: /r/report.1", "==1==ERROR: LeakSanitizer"])
        self.assertIn("AssertionError: 2 != 3", said)

    def test_many_and_long(self):
        said = failures.failures(PYTHON * 50)
        self.assertEqual(len(said), failures.LINES)
        self.assertIn("lines more", said[-1])
        long = BLOCK.replace("AssertionError", "  File\n" * 300 + "AssertionError")
        said = failures.failures(long)
        self.assertLessEqual(len(said), failures.LINES)
        self.assertIn("AssertionError: 2 != 3", said[-1])
        self.assertIn("FAIL: test_a (test_b.C.test_a)", said)

    def test_a_build(self):
        self.assertEqual(failures.failures("[1/2] Building\nx.c:1:2: error: no\nninja: build stopped\n"),
                         ["x.c:1:2: error: no"])

    def test_nothing_known(self):
        self.assertEqual(failures.failures("one\ntwo\n"), ["one", "two"])


if __name__ == "__main__":
    unittest.main()
