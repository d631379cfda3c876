#!/usr/bin/python3
"""Cases that the checks were not written for, on booted hosts; prints a table of what named each and whether
the remedy mended it (README.md, The cases). Needs root and the packages in build/debs.

usage: cases.py [--quick] [--only NAME[,NAME…]] [--json FILE]
"""

import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import slices  # noqa: E402  (the path comes first)
from case_bench import Bench, table  # noqa: E402
from case_table import CASES  # noqa: E402


def chosen(arguments):
    names = arguments.only.split(",") if arguments.only else None
    unknown = set(names or ()) - {c.name for c in CASES}
    if unknown:
        sys.exit(f"no such case: {', '.join(sorted(unknown))}")
    return [c for c in CASES if (c.name in names if names else c.quick or not arguments.quick)]


def tried(cases, say=lambda outcome: None):
    """The outcomes, in a lab of its own; say is told of each at once."""
    outcomes = []
    with slices.lab(2, per_slice=2, folder=os.environ.get("TPU_HOSTD_DEBS")) as lab:
        bench = Bench(lab)
        print(f"tpuctl check: {bench.milliseconds('check')} ms, tpuctl check path: "
              f"{bench.milliseconds('check', 'path')} ms", flush=True)
        for case in cases:
            outcome = bench.attempt(case)
            outcomes.append(outcome)
            say(outcome)
            if bench.clean(case) and outcome.right and case.kind == "named" and not case.undo \
                    and not case.elsewhere:
                outcome.verdict, outcome.words = "LEFT SOMETHING", outcome.words
    return outcomes


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--quick", action="store_true", help="those of the gate")
    p.add_argument("--only", help="names, with commas between")
    p.add_argument("--json", help="a line of JSON for each case is added to this file", metavar="FILE")
    arguments = p.parse_args()

    def say(outcome):
        print(table([outcome])[1], flush=True)
        if arguments.json:
            with open(arguments.json, "a") as out:
                print(json.dumps(outcome.record()), file=out)

    outcomes = tried(chosen(arguments), say)
    print("\n".join(table(outcomes)))
    sys.exit(0 if all(o.right for o in outcomes) else 1)


if __name__ == "__main__":
    main()
