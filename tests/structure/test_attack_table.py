#!/usr/bin/python3
"""tests/attack/table.py: which verdict an attack gets, and how the table ends."""

import contextlib
import importlib.util
import io
import tempfile
import unittest
from pathlib import Path

ATTACK = Path(__file__).resolve().parents[1] / "attack/table.py"
HEAD = '"""An attacker. More words."""\nimport sys\nimport unittest\n'


def case(*lines):
    body = "".join(f"    {line}\n" for line in lines)
    return f"{HEAD}class T(unittest.TestCase):\n{body}unittest.main()\n"


class Table(unittest.TestCase):
    def run_table(self, *files):
        spec = importlib.util.spec_from_file_location("table", ATTACK)
        table = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(table)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            for i, text in enumerate(files):
                (Path(folder) / f"test_{i}.py").write_text(text)
            code = table.main([], Path(folder))
        return code, out.getvalue()

    def expect(self, code, verdict, last, *files):
        got, text = self.run_table(*files)
        self.assertEqual(got, code, text)
        self.assertIn(verdict, text)
        self.assertTrue(text.rstrip().endswith(last), text)

    good = case("def test_x(self):", "    pass")

    def test_refused(self):
        self.expect(0, "refused", "1 attacks, 0 got in, 0 not tried", self.good)

    def test_got_in(self):
        for line in ("self.assertEqual(1, 2)", "raise ConnectionResetError('x')"):
            self.expect(1, "GOT IN", "2 attacks, 1 got in, 0 not tried", self.good,
                        case("def test_x(self):", f"    {line}"))

    def test_not_tried(self):
        """What is missing is no attack that got in, and no success either."""
        for text in (HEAD + "import no_such_module\n", HEAD + "sys.exit(77)\n",
                     case("def test_x(self):", "    import no_such_module"),
                     case("def test_x(self):", "    open('/no/such/packages')"),
                     case("def test_x(self):", "    self.skipTest('needs root')"),
                     case("@classmethod", "def setUpClass(cls):", "    cls.no_such()",
                          "def test_x(self):", "    pass"),
                     case("def test_x(self:")):
            self.expect(2, "not tried", "2 attacks, 0 got in, 1 not tried", self.good, text)

    def test_both(self):
        self.expect(1, "not tried", "2 attacks, 1 got in, 1 not tried",
                    case("def test_x(self):", "    self.fail()"), HEAD + "import no_such_module\n")


if __name__ == "__main__":
    unittest.main()
