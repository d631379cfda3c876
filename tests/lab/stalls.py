#!/usr/bin/python3
"""The stall matrix: real training on four booted hosts is driven into every kind of stall, and who is named
is compared with who it was.

Usage: sudo tests/lab/stalls.py [--training NAME] [--times N] [--only CAUSE,…] [--seed S] [--state FILE]
[--judge live|hand] [--record DIR] [--healthy 30m]
       tests/lab/stalls.py --table STATE…

Prints a table and exits 0 when the goals are met. With --state FILE the same command goes on where it was
ended. --table prints what such files hold, of all trainings in one.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "stalls")]

import healthy                     # noqa: E402  (the paths come first)
import matrix                      # noqa: E402
import outside                     # noqa: E402
import table                       # noqa: E402
import training_run                # noqa: E402
from by_hand import ByHand         # noqa: E402
from causes import CAUSES, ROUND   # noqa: E402
from lab.check import check        # noqa: E402
from live import Live              # noqa: E402
from state import State, kept      # noqa: E402
from trainings import TRAININGS    # noqa: E402


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--training", choices=list(TRAININGS), default="ddp",
                        help="; ".join(f"{t.name}: {t.title}" for t in TRAININGS.values()))
    parser.add_argument("--times", type=int, default=3, help="how often each cause (default 3)")
    parser.add_argument("--only", default="",
                        help=f"causes, with commas between; a round: {','.join(ROUND)}; "
                             f"others: {','.join(c for c in CAUSES if c not in ROUND)}")
    parser.add_argument("--seed", default="1", help="chooses ranks, instants and order")
    parser.add_argument("--state", help="a file that keeps what is done: the same command goes on there")
    parser.add_argument("--judge", choices=("live", "hand"), default="live",
                        help="live: agents and collector, as on call; hand: captures made by hand, without "
                             "suspicion")
    parser.add_argument("--record", type=Path,
                        help="a folder for recordings: each case's captures and truth")
    parser.add_argument("--table", nargs="+", metavar="STATE", help="print what these state files hold")
    parser.add_argument("--minutes", type=float, help="begin no case after so many minutes")
    parser.add_argument("--healthy", default="0", metavar="SPAN",
                        help="before the matrix, train without a fault: 30m, 300s; 0 (default): not")
    args = parser.parse_args()
    span = re.fullmatch(r"(\d+)(s|m|h|)", args.healthy)
    if not span:
        parser.error(f"--healthy {args.healthy!r}: a number and s, m or h")
    args.healthy = int(span[1]) * {"s": 1, "m": 60, "h": 3600, "": 1}[span[2]]
    if args.healthy and args.training != "ddp":
        parser.error("--healthy: ddp alone has compilations, evaluations and checkpoints")
    args.only = [c for c in args.only.split(",") if c]
    unknown = [c for c in args.only if c not in CAUSES]
    if unknown:
        parser.error(f"no cause {unknown[0]!r}; causes: {', '.join(CAUSES)}")
    return args


def main():
    args = parse()
    if args.table:
        return tell([record for path in args.table for record in kept(path)], None)
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        sys.exit("stalls.py: this machine does not permit a lab: " + "; ".join(missing))
    wish = {"training": args.training, "seed": args.seed, "times": args.times, "causes": args.only or ROUND}
    state = State(args.state, wish)
    if args.record:
        args.record.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, \
            training_run.lab(folder, os.environ.get("TPU_HOSTD_DEBS"), TRAININGS[args.training]) as lab, \
            outside.Servers(lab) as servers:
        matrix.boot(lab)
        judge = Live(lab) if args.judge == "live" else ByHand(lab)
        calm = healthy.run(lab, args.healthy, say) if args.healthy else None
        try:
            if args.times:
                matrix.Matrix(lab, judge, servers, state, wish, say,
                              args.record).run(args.minutes and time.time() + 60 * args.minutes)
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
