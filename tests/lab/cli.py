"""The lab as a tool for people: see `tests/lab/lab --help`."""

import argparse
import signal
import sys

from . import guardian
from .check import check
from .command import LabError
from .laboratory import Lab


def _parser():
    parser = argparse.ArgumentParser(prog="lab", description="Boots real hosts on this machine. Needs root.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="boot hosts and keep them until Ctrl-C")
    up.add_argument("-n", "--hosts", type=int, default=2, help="how many hosts (default 2)")
    up.add_argument("--deb", action="append", default=[],
                    help="package to install on the hosts; may be repeated")
    up.add_argument("--collector-deb", action="append", help="package for one more host, named collector")
    up.add_argument("--unified", action="store_true", help="cgroup version 2 only, as on TPU images")
    commands.add_parser("check", help="say which permission is missing, if any")
    commands.add_parser("clean", help="remove what labs left whose processes were all killed")
    return parser


def _up(args):
    if any(reason for _, reason in check()):
        return _check()
    with Lab(args.hosts, args.deb, args.collector_deb, args.unified) as lab:
        print(f"{len(lab.every)} hosts up in {lab.boot_seconds:.1f} s. A shell on each:")
        for host in lab.every:
            print(f"  {host.name:<9} {host.address('eth0'):<12} "
                  f"nsenter -t {host.leader} -m -p -n -i -u -C -r -w systemd-run -qGt bash -l")
        print("Ctrl-C ends the lab.", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("\nstopping", flush=True)
    return 0


def _check():
    answers = check()
    for name, reason in answers:
        print(f"ok       {name}" if reason is None else f"MISSING  {name}: {reason}")
    return 1 if any(reason for _, reason in answers) else 0


def _clean():
    swept, errors = guardian.sweep()
    for error in errors:
        print(f"cannot remove {error}", file=sys.stderr)
    print(f"removed: {', '.join(swept)}" if swept else "nothing removed")
    return 1 if errors else 0


def main():
    args = _parser().parse_args()
    try:
        return {"up": lambda: _up(args), "check": _check, "clean": _clean}[args.command]()
    except LabError as e:
        print(f"lab: {e}", file=sys.stderr)
        return 1
