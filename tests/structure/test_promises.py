#!/usr/bin/python3
"""docs/promises.md against the tests: what it names is there, and every test file is named there."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TESTS = SOURCE / "tests"
PAGE = "docs/promises.md"
NAME = re.compile(r"`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+)(?:::(\w+))?`")
STRUCK = re.compile(r"^~~.+~~ *(.*)$")


def faults(text, tests):
    """What is wrong with the page, one sentence each with the line and what to do. tests: the folder of
    tests."""
    found, named, folders = [], set(), {p.name for p in tests.iterdir() if p.is_dir()}
    for number, line in enumerate(text.splitlines(), 1):
        names = [(path, test) for path, test in NAME.findall(line) if path.split("/")[0] in folders]
        named.update(path for path, _ in names)
        cells = [c.strip() for c in line.strip("|").split("|")]
        row = line.startswith("| ") and cells[-1] not in ("held by", "test")
        struck = STRUCK.match(cells[0]) if row else None
        if struck and not struck[1]:
            found.append(f"{PAGE}:{number}: the promise is struck without a reason: write it behind the "
                         f"second ~~")
        if row and not struck and not names and not cells[-1].startswith("no test"):
            found.append(f"{PAGE}:{number}: no test is named: name one, or write 'no test' and what is "
                         f"missing")
        for path, test in names:
            file = tests / path
            if not file.exists():
                found.append(f"{PAGE}:{number}: tests/{path} is not there: name the test that holds this "
                             f"promise now, "
                             "write 'no test', or strike the promise (~~…~~) and say why")
            elif test and not re.search(rf"\b{test}\b", file.read_text()):
                found.append(f"{PAGE}:{number}: tests/{path} has no {test}: name the one that holds this "
                             f"promise now, "
                             f"or `{path}` alone")
    files = [*tests.glob("**/test_*.py"), *tests.glob("unit/test-*.c")]
    for path in sorted(str(f.relative_to(tests)) for f in files):
        if path not in named:
            found.append(f"tests/{path} is not in {PAGE}: put `{path}` into the row of the promise that it "
                         f"holds, "
                         "or into the last table and say what it is for")
    return found


class Promises(unittest.TestCase):
    def test_page_and_tests_agree(self):
        found = faults((SOURCE / PAGE).read_text(), TESTS)
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_each_fault_is_found(self):
        row = "| It works. | {} |\n"
        good = "".join(row.format(f"`{f.relative_to(TESTS)}`")
                       for f in (*TESTS.glob("**/test_*.py"), *TESTS.glob("unit/test-*.c")))
        self.assertEqual(faults(good, TESTS), [])
        for line, words in ((row.format("`unit/test-gone.c`"), "tests/unit/test-gone.c is not there"),
                            (row.format("`unit/test-base.c::test_gone`"), "has no test_gone"),
                            ("| ~~It works.~~ Nobody needs it. | `unit/test-gone.c` |\n", "is not there"),
                            (row.format("people"), "no test is named"),
                            ("| ~~It works.~~ | gone |\n", "without a reason")):
            (found,) = faults(good + line, TESTS)
            self.assertIn(words, found)
        for line in ("| ~~It works.~~ Nobody needs it. | gone |\n",
                     row.format("no test; not built")):
            self.assertEqual(faults(good + line, TESTS), [])
        (found,) = faults(good.replace("`unit/test-base.c`", "no test"), TESTS)
        self.assertIn("tests/unit/test-base.c is not in docs/promises.md", found)


if __name__ == "__main__":
    unittest.main()
