"""python3 failures.py LOG: what a failed step of tools/test says about itself, since often only what is
printed is kept of a run.

Of unittest its blocks (====, FAIL or ERROR, traceback), of ctest the names of what failed and the end of
what it
printed, of a build its errors; all in all LINES lines. Where nothing of that is there: the end of the log.
"""

import re
import sys

LINES, OF_ONE, WIDTH = 80, 25, 600
RULE = re.compile(r"(?:\d+: )?={60,}$")
BLOCK = re.compile(r"(?:FAIL|ERROR): ")
BAR = re.compile(r"-{60,}$")
CTEST = re.compile(r"\s*\d+/\d+ Test +#\d+: ")
CTEST_END = re.compile(r"\d+% tests passed, ")
REPORT = re.compile(r"FAILED: a sanitizer's report: ")  # tests/crowd.py
COMPILER = re.compile(r"(?:.*\berror: |FAILED: |.*AddressSanitizer: |.*runtime error: )")


def blocks(lines):
    """The blocks of unittest, up to the bar that ends the last one."""
    out, inside, bars = [], None, 0
    for line, following in zip(lines, lines[1:] + [""]):
        if RULE.match(line) and BLOCK.match(following):
            inside, bars = [], 0
            out.append(inside)
        bars += bool(BAR.match(line))
        if CTEST.match(line) or bars == 2:
            inside = None
        if inside is not None:
            inside.append(line)
    return out


def shorter(lines, most):
    """The first two lines say which it is, the last ones what is wrong."""
    out = len(lines) - (most - 1)
    return lines if out <= 1 else [*lines[:2], f"({out} lines not shown)", *lines[2 + out:]]


def of_ctest(lines):
    """[(the line that says Failed, what was printed)] of each test that failed."""
    out, now = [], None
    for line in lines:
        if CTEST.match(line) or CTEST_END.match(line):
            now = None
        if REPORT.match(line) or (CTEST.match(line) and not re.search(r" Passed |\*\*\*Skipped", line)):
            now = []
            out.append((line, now))
        elif now is not None:
            now.append(line)
    return out


def failures(text):
    lines = [line[:WIDTH] for line in text.splitlines()]
    found = []
    if any(CTEST.match(line) for line in lines):
        for head, printed in of_ctest(lines):
            found.append([head, *(line for b in blocks(printed) for line in b)] if blocks(printed)
                         else [head, *printed])
    else:
        found = blocks(lines) or [[line] for line in lines if COMPILER.match(line)
                                  or line.startswith("FAIL ")]
    if not found:
        return lines[-40:]
    of_one = max(OF_ONE, LINES // len(found))
    said = [line for block in found for line in shorter([line for line in block if line.strip()], of_one)]
    return said if len(said) <= LINES else [*said[:LINES - 1],
                                            f"({len(said) - LINES + 1} lines more of what failed)"]


if __name__ == "__main__":
    with open(sys.argv[1], errors="replace") as log:
        print("\n".join(failures(log.read())))
