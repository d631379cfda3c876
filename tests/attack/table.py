#!/usr/bin/python3
"""Runs all attacks of this folder and prints a table: the attack, what was got, the verdict. Exits
with 1 when one got in, and with 2 when none did and one could not be tried. BUILD_DIR names the build. Words
choose files: table.py strangers revoked."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINE = re.compile(r"^(test_\w+) \((?:__main__\.)?(\w+)[^)]*\)(?:\n[^\n]*?)? \.\.\. ", re.M)
END = re.compile(r"^(FAIL|ERROR): (\w+) .*?\n(?:(?!={70}).*\n)*?"
                 r"([\w.]*(?:Error|Exception|Expired))(.*)", re.M)
NOT_TRIED = "not tried"
# Of a test that ended before its attack: a package, a program or a right is missing here.
MISSING = ("ModuleNotFoundError", "ImportError", "FileNotFoundError", "PermissionError")


def title(path):
    """The first sentence of the file's own words: who attacks."""
    return " ".join(path.read_text().split('"""')[1].split()).split(". ")[0].rstrip(".")


def attacks(path):
    """[(name, verdict, what was got)] of one file, as unittest says it."""
    done = subprocess.run([sys.executable, "-B", path, "-v"], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=900)
    if done.returncode == 77:
        yield "all", NOT_TRIED, done.stdout.strip()
        return
    ended = {name: (kind, error, words) for kind, name, error, words in END.findall(done.stderr)}
    found = list(LINE.finditer(done.stderr))
    for m in found:
        name = m[1]
        kind, error, words = ended.get(name, ("", "", ""))
        skipped = re.match(r"skipped '(.*)'", done.stderr[m.end():])
        missing = skipped or (kind == "ERROR" and error in MISSING)
        yield (f"{m[2]}.{name}", NOT_TRIED if missing else "GOT IN" if kind else "refused",
               error + words or (skipped[1] if skipped else "nothing"))
    if not found or (done.returncode != 0 and not ended):
        yield "all", NOT_TRIED, (done.stderr.strip().splitlines() or ["no answer"])[-1]
    elif started := [v for k, v in ended.items() if k in ("setUpClass", "setUpModule")]:
        yield "all", NOT_TRIED, "".join(started[0][1:])


def main(words, folder=HERE):
    count = {"refused": 0, "GOT IN": 0, NOT_TRIED: 0}
    for path in sorted(folder.glob("test_*.py")):
        if words and not any(w in path.name for w in words):
            continue
        began = time.monotonic()
        print(f"\n{title(path)}")
        for name, verdict, got in attacks(path):
            count[verdict] += 1
            print(f"  {name:52} {got[:80]:24} {verdict}", flush=True)
        print(f"  {time.monotonic() - began:.0f} s")
    print(f"\n{sum(count.values())} attacks, {count['GOT IN']} got in, {count[NOT_TRIED]} not tried")
    return 1 if count["GOT IN"] else 2 if count[NOT_TRIED] or not count["refused"] else 0


if __name__ == "__main__":
    os.environ.setdefault("BUILD_DIR", "build/dev")
    sys.exit(main(sys.argv[1:]))
