#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of the house: how large it is, how it is cut, and what it costs. Prints tables; nothing is
judged.

1. Counted in what git has of this tree: lines of product C (*.c and *.h outside tests/, comments and blank
lines too; lists (*.def) and
   generated files not), the rooms by room() and program() of CMake, and what the style wants rare.
2. With --costs, after it: a capture of 600 threads (capture.py 0) and the idle daemons beside their peers
(beside.py): root, and half an hour.

Usage: [BUILD_DIR=build/dev] house.py [--costs]
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
WIDTH = 109
LARGE = 5000
ROOM = re.compile(r"^(?:room|program)\((\S+)([^)]*)\)", re.M)
ONE_FUNCTION = re.compile(r"^(?!typedef|static|#)[^\n]*\([^;{}]*\)\s*;", re.M)


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=TOP, check=True, capture_output=True,
                            text=True).stdout
    return [TOP / name for name in listed.split()]


def read(file):
    return file.read_text(errors="replace")


def rooms(lines_of):
    """Each room's lines: its sources by CMake, and the headers of the same name, or of its folder where
    no other room has a file of it."""
    sizes = {}
    claimed = {}
    for cmake in tracked("*CMakeLists.txt"):
        for name, body in ROOM.findall(read(cmake)):
            for source in re.findall(r"\S+\.c\b", body):
                claimed[cmake.parent / source] = name
                sizes.setdefault(name, 0)
    of_folder = {}
    for file, name in claimed.items():
        of_folder.setdefault(file.parent, name)
    for file, lines in lines_of.items():
        name = claimed.get(file) or claimed.get(file.with_suffix(".c")) or of_folder.get(file.parent)
        if name:
            sizes[name] += lines
    return sizes


def functions_declared(text):
    text = re.sub(r"/\*.*?\*/|_Static_assert\(.*?\);", "", text, flags=re.S)
    while text != (text := re.sub(r"\{[^{}]*\}", "", text)):
        pass
    return len(ONE_FUNCTION.findall(text))


def count():
    product = [f for f in tracked("*.c", "*.h") if TOP / "tests" not in f.parents]
    texts = {f: read(f) for f in product}
    lines_of = {f: t.count("\n") for f, t in texts.items()}
    sizes = rooms(lines_of)
    largest = max(sizes, key=sizes.get)
    forms = [f for f in tracked("agent", "collector", "proto", "probes", "netcfg", "systemd", "packaging")
             if re.search(r"memory[-_]high|MemoryHigh", read(f))]
    wide = sum(len(line) > WIDTH for t in texts.values() for line in t.splitlines())
    single = sum(functions_declared(t) == 1 for f, t in texts.items() if f.suffix == ".h")
    small = sum(n < 100 for f, n in lines_of.items() if f.suffix == ".c")
    long = sum(n > 500 for f, n in lines_of.items() if f.suffix == ".c")
    asserts = sum(len(re.findall(r"\bassert\(", t)) for t in texts.values())
    for what, value in (
            ("product C, lines", sum(lines_of.values())),
            ("files", len(product)),
            (f"largest room ({largest}), lines", sizes[largest]),
            (f"rooms over {LARGE} lines", f"{sum(n > LARGE for n in sizes.values())} of {len(sizes)}"),
            ("files that know memory_high, a key of a run", len(forms)),
            ("headers that declare one function", single),
            (".c files under 100 lines; over 500", f"{small}; {long}"),
            (f"lines wider than {WIDTH}", wide),
            ("asserts", asserts)):
        print(f"{what:48} {value:>10}")


def main():
    count()
    sys.stdout.flush()
    if "--costs" not in sys.argv[1:]:
        return 0
    os.environ.setdefault("BUILD_DIR", str(TOP / "build" / "dev"))
    bad = 0
    for command in (["capture.py", "0"], ["beside.py"]):
        print(f"\n--- {' '.join(command)}", flush=True)
        bad |= subprocess.run([sys.executable, "-B", str(HERE / command[0]), *command[1:]]).returncode
    return bad


if __name__ == "__main__":
    sys.exit(main())
