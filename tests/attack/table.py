#!/usr/bin/python3
"""Runs all attacks of this folder and prints a table: the attack, what was got, the verdict. Exits
with 1 when one got in. BUILD_DIR names the build. Words choose files: table.py strangers revoked."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINE = re.compile(r"^(test_\w+) \((?:__main__\.)?(\w+)[^)]*\)(?:\n[^\n]*?)? \.\.\. ", re.M)


def title(path):
    """The first sentence of the file's own words: who attacks."""
    return " ".join(path.read_text().split('"""')[1].split()).split(". ")[0].rstrip(".")


def attacks(path):
    """[(name, verdict, what was got)] of one file, as unittest says it."""
    done = subprocess.run([sys.executable, "-B", path, "-v"], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=900)
    if done.returncode == 77:
        yield "all", "not tried", done.stdout.strip()
        return
    failures = dict(re.findall(r"^(?:FAIL|ERROR): (\w+) .*?\n(?:.*\n)*?(\w*(?:Error|Exception)[^\n]*)",
                               done.stderr, re.M))
    found = list(LINE.finditer(done.stderr))
    for m in found:
        name = m[1]
        failed = failures.get(name)
        skipped = re.match(r"skipped '(.*)'", done.stderr[m.end():])
        yield (f"{m[2]}.{name}", "not tried" if skipped else "GOT IN" if failed else "refused",
               failed or (skipped[1] if skipped else "nothing"))
    if not found or (done.returncode != 0 and not failures):
        yield "all", "GOT IN", (done.stderr.strip().splitlines() or ["no answer"])[-1]


def main(words):
    bad = tried = 0
    for path in sorted(HERE.glob("test_*.py")):
        if words and not any(w in path.name for w in words):
            continue
        began = time.monotonic()
        print(f"\n{title(path)}")
        for name, verdict, got in attacks(path):
            tried += 1
            bad += verdict == "GOT IN"
            print(f"  {name:52} {got[:80]:24} {verdict}", flush=True)
        print(f"  {time.monotonic() - began:.0f} s")
    print(f"\n{tried} attacks, {bad} got in")
    return 1 if bad or not tried else 0


if __name__ == "__main__":
    os.environ.setdefault("BUILD_DIR", "build/dev")
    sys.exit(main(sys.argv[1:]))
