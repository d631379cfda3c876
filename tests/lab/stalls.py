#!/usr/bin/python3
"""The stall matrix: real training on four booted hosts is driven into every kind of stall, and who is named
is compared with who it was.

Usage: sudo tests/lab/stalls.py [--times N] [--only CAUSE,…] [--seed S] [--state FILE] [--judge live|hand]
[--healthy 30m]

Prints a table and exits 0 when the goals are met. With --state FILE the same command goes on where it was
ended.
"""

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "stalls")]

import healthy                     # noqa: E402  (the paths come first)
import matrix                      # noqa: E402
import table                       # noqa: E402
import training_run                # noqa: E402
from by_hand import ByHand         # noqa: E402
from causes import CAUSES          # noqa: E402
from lab.check import check        # noqa: E402
from live import Live              # noqa: E402
from state import State            # noqa: E402


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3, help="how often each cause (default 3)")
    parser.add_argument("--only", default="", help=f"causes, with commas between; all: {','.join(CAUSES)}")
    parser.add_argument("--seed", default="1", help="chooses ranks, instants and order")
    parser.add_argument("--state", help="a file that keeps what is done: the same command goes on there")
    parser.add_argument("--judge", choices=("live", "hand"), default="live",
                        help="live: agents and collector, as on call; hand: captures made by hand, without "
                             "suspicion")
    parser.add_argument("--keep", type=Path, help="a folder for captures made by hand")
    parser.add_argument("--minutes", type=float, help="begin no case after so many minutes")
    parser.add_argument("--healthy", default="0", metavar="SPAN",
                        help="before the matrix, train without a fault: 30m, 300s; 0 (default): not")
    args = parser.parse_args()
    span = re.fullmatch(r"(\d+)(s|m|h|)", args.healthy)
    if not span:
        parser.error(f"--healthy {args.healthy!r}: a number and s, m or h")
    args.healthy = int(span[1]) * {"s": 1, "m": 60, "h": 3600, "": 1}[span[2]]
    args.only = [c for c in args.only.split(",") if c]
    unknown = [c for c in args.only if c not in CAUSES]
    if unknown:
        parser.error(f"no cause {unknown[0]!r}; causes: {', '.join(CAUSES)}")
    return args


def main():
    args = parse()
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        sys.exit("stalls.py: this machine does not permit a lab: " + "; ".join(missing))
    wish = {"seed": args.seed, "times": args.times, "causes": args.only or list(CAUSES)}
    state = State(args.state, wish)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, training_run.lab(folder) as lab:
        matrix.boot(lab)
        judge = Live(lab) if args.judge == "live" else ByHand(lab, args.keep)
        calm = healthy.run(lab, args.healthy, say) if args.healthy else None
        try:
            if args.times:
                matrix.Matrix(lab, judge, state, wish,
                              say).run(args.minutes and time.time() + 60 * args.minutes)
        except KeyboardInterrupt:
            pass
    return tell(state.records(), calm)


def tell(records, calm):
    """Prints the table; 0 when what was asked for is right."""
    print(*table.lines(records), sep="\n")
    good = table.good(records)
    if calm:
        print(*healthy.lines(calm), sep="\n")
        good &= not calm["alarms"]
    return 0 if good else 1


def say(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
