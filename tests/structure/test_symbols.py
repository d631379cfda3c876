#!/usr/bin/python3
"""No two rooms that a program links define one name: the linker would take either, without a word.

BUILD_DIR: the build's folder (generator Ninja).
"""

import os
import re
import subprocess
import unittest
from pathlib import Path

BUILD = Path(os.environ["BUILD_DIR"])


def programs():
    """{executable: [its rooms' archives]} as the build file links them."""
    found, name = {}, None
    for line in (BUILD / "build.ninja").read_text().splitlines():
        if m := re.match(r"build (\S+)(?: \|\S.*)?: C_EXECUTABLE_LINKER__", line):
            name = m[1]
        elif line.startswith("build "):
            name = None
        elif name and (m := re.match(r"  LINK_LIBRARIES = (.*)", line)):
            found[name] = list(dict.fromkeys(w for w in m[1].split() if w.endswith(".a")
                                             and not w.startswith("/")))
    return found


def defined(archive):
    out = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", archive], cwd=BUILD,
                         check=True,
                         capture_output=True, text=True).stdout
    return {w[0] for w in map(str.split, out.splitlines()) if len(w) >= 2 and w[1] in "TDBR"}


class Symbols(unittest.TestCase):
    def test_each_name_is_one_rooms(self):
        linked = programs()
        self.assertGreater(len(linked), 4)
        names = {a: defined(a) for a in {a for rooms in linked.values() for a in rooms}
                 if (BUILD / a).exists()}
        self.assertGreater(sum(map(len, names.values())), 500)
        twice = set()
        for program, rooms in linked.items():
            owner = {}
            for room in rooms:
                for symbol in names.get(room, ()):
                    if owner.setdefault(symbol, room) != room:
                        twice.add(f"{symbol}: in {owner[symbol]} and {room}, linked by {program}")
        self.assertEqual(sorted(twice), [])


if __name__ == "__main__":
    unittest.main()
