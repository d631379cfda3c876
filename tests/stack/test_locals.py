# SPDX-License-Identifier: Apache-2.0
"""tpu-stack --locals: values in words, bounded, and what looks like a secret never; not without being
asked."""
import time
import unittest

from test_native import settled
from test_stack import PYTHON, parse_text, python_target, run_tool, source_of, stacks_of

WANTED = {"number": "3", "rest": "tuple of 2", "flag": "True", "small": "7", "negative": "-123456789",
          "zero": "0", "large": "1000000000000000",
          "huge": "int of about 210 bits", "real": "0.10000000000000001", "nothing": "None", "truth": "True",
          "text": "'caf\u00e9 \u2603'",
          "long_text": "'%s…'" % ("x" * 120), "wide": "'\U0001F600'", "api_token": "(hidden)",
          "password": "(hidden)", "num_tokens": "512",
          "raw": "bytes of 9", "items": "list of 3", "pair": "tuple of 2", "table": "dict of 1",
          "thing": "<Tensor>"}


class Locals(unittest.TestCase):
    python = PYTHON  # or a list of words: test_versions.py

    def test_values(self):
        with python_target(source_of("target_locals.py"), python=self.python) as t:
            settled(t.pid)
            process = stacks_of(t.pid, "--locals")
            frames = process["threads"][0]["frames"]
            self.assertEqual([f["function"].split(".")[-1] for f in frames],
                             ["inner", "numbers", "<module>"])
            found = frames[0]["locals"]
            self.assertEqual({k: v for k, v in found.items() if k in WANTED}, WANTED)
            # before, what is in cells is not among a frame's plain variables
            if tuple(map(int, process["python"].split(".")[:2])) >= (3, 11):
                self.assertEqual(found["shared"], "'in a cell'")
            self.assertNotIn("unset", found)
            self.assertEqual(frames[1]["locals"], {"count": "3"})
            text = run_tool("--locals", t.pid).stdout
            self.assertIn("\n    large = 1000000000000000\n", text)
            self.assertEqual(parse_text(text), parse_text(run_tool(t.pid).stdout))
            for words in (["--json"], [], ["--native"], ["--json", "--native"]):
                self.assertNotIn("caf", run_tool(*words, t.pid).stdout)  # never without being asked
            for words in (["--locals"], ["--locals", "--json"], ["--locals", "--native"]):
                out = run_tool(*words, t.pid).stdout
                self.assertIn("caf", out)
                self.assertNotIn("s3cret", out)
                self.assertNotIn("hunter2", out)

    def test_running(self):
        """What changes all the time is never shown half: no values, or those of a moment."""
        source = ("print('ready', flush=True)\ndef spin():\n    a = b = 0\n    while True:\n        a += 1\n"
                  "        b = a\nspin()\n")
        with python_target(source, python=self.python) as t:
            time.sleep(0.1)
            for _ in range(20):
                for frame in stacks_of(t.pid, "--locals")["threads"][0]["frames"]:
                    for value in frame.get("locals", {}).values():
                        self.assertRegex(value, r"^(\d+|\?|<.*>|list of \d+)$")


if __name__ == "__main__":
    unittest.main()
