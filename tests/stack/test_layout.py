#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The columns of the table in probes/stack/layout.def are what derive.c makes of the headers of their
versions.

  test_layout.py --print INCLUDE_DIR     prints the column of the headers in INCLUDE_DIR (…/include/python3.12)

Compared are the headers that are installed, those of pythons.py's trees and those that PYTHON_INCLUDES
names.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import pythons  # noqa: E402


def derive(include):
    """The column that the headers make, by member; what this version has none of is not in it."""
    parent = os.path.dirname(include.rstrip("/"))
    with tempfile.TemporaryDirectory() as d:
        program = os.path.join(d, "derive")
        subprocess.run(["cc", "-w", "-D_GNU_SOURCE", "-I" + include,
                        "-I" + os.path.join(include, "internal"), "-I" + parent,
                        "-I" + os.path.join(parent, "x86_64-linux-gnu"), os.path.join(HERE, "derive.c"),
                        "-o", program], check=True)
        return dict(line.split() for line in subprocess.run([program], capture_output=True, text=True,
                                                            check=True).stdout.splitlines())


def checked_in(version):
    """The column of the version, by member."""
    with open(os.path.join(SOURCE, "probes/stack/layout.def")) as f:
        text = f.read()
    rows = {name: [number.strip() for number in numbers.split(",")]
            for name, numbers in re.findall(r"^ROW\(([\w.]+), ([^)]*)\)", text, re.M)}
    for name, numbers in re.findall(r"^DESCRIBED\((\w+), +[^,]*, [^,]*, ([^)]*)\)", text, re.M):
        rows["debug." + name] = ["0"] * 5 + [number.strip() for number in numbers.split(",")]
    number = rows["version"].index("0x%04X" % (3 << 8 | int(version.split(".")[1])))
    return {name: numbers[number] for name, numbers in rows.items()}


def include_dirs():
    dirs = ["/usr/include/python3.11", *os.environ.get("PYTHON_INCLUDES", "").split()]
    dirs += ["%s/usr/include/python%s" % (tree, version) for version, tree in pythons.trees().items()]
    return [d for d in dirs if os.path.exists(os.path.join(d, "internal/pycore_pystate.h"))]


class Layout(unittest.TestCase):
    def test_rows_are_those_of_the_headers(self):
        self.maxDiff = None
        dirs = include_dirs()
        if not dirs:
            self.skipTest("no headers of CPython: the package libpython3.11-dev is not installed")
        for include in dirs:
            version = re.search(r"python(3\.\d+)$", include.rstrip("/"))[1]
            if not os.path.exists(os.path.join(os.path.dirname(include),
                                               "x86_64-linux-gnu")) and not os.path.exists(
                    os.path.join(include, "pyconfig.h")):
                continue
            with self.subTest(include):
                column, derived = checked_in(version), derive(include)
                self.assertEqual(dict.fromkeys(column, "0") | derived, column)
                print("%s: %d numbers, all as checked in" % (include, len(derived) - 2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--print"]:
        for pair in derive(sys.argv[2]).items():
            print(*pair)
    else:
        unittest.main()
