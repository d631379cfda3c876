#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The agents' share of a host's boot: one lab host boots with our daemons and without, in turn.

Same tree and packages; without them their units are masked. Measured is systemd's own time from its start
to the end of the boot (FinishTimestamp), and how long each daemon takes from its start until it is ready.
Deciding nothing: prints the medians and what lies between them, the spread, and this machine's load.

Usage: [BOOTS=20] boot.py [FOLDER OF OUR PACKAGES]   as root, like the lab
"""
import os
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "lab")]
import scenario  # noqa: E402

BOOTS = int(os.environ.get("BOOTS", 20))
UNITS = [f"{name}.{kind}" for name in scenario.AGENTS for kind in ("service", "socket")]


def mask(host, masked):
    for unit in UNITS:
        link = host.path("/etc/systemd/system") / unit
        if masked:
            link.symlink_to("/dev/null")
        else:
            link.unlink(missing_ok=True)


def manager(host, what):
    return int(*scenario.unit(host, "", f"{what}TimestampMonotonic").values())


def boot(host):
    """Milliseconds: of the whole boot, then of each daemon that started."""
    host.boot()
    # READY comes a moment before the manager notes the end.
    host.wait_for(lambda: manager(host, "Finish") > 0)
    daemons = [scenario.unit(host, f"{name}.service", "InactiveExitTimestampMonotonic",
                             "ActiveEnterTimestampMonotonic") for name in scenario.AGENTS]
    return [(manager(host, "Finish") - manager(host, "Userspace")) / 1000,
            *((int(d["ActiveEnterTimestampMonotonic"]) - int(d["InactiveExitTimestampMonotonic"])) / 1000
              for d in daemons)]


def row(what, times):
    print(f"{what:28} {statistics.median(times):7.0f} ({min(times):.0f} to {max(times):.0f})")


def main():
    found = {True: [], False: []}
    with scenario.slice_lab(1, *sys.argv[1:]) as lab:
        host = lab.hosts[0]
        for n in range(2 * BOOTS + 2):
            host.poweroff()
            masked = n % 2 == 0
            mask(host, masked)
            times = boot(host)
            mask(host, False)
            if n > 1:  # the first of each warms the caches
                found[masked].append(times)
    print(f"{BOOTS} boots of each kind, in turn; load {' '.join(f'{x:.1f}' for x in os.getloadavg())}, "
          f"{os.cpu_count()} processors. Milliseconds: median (fastest to slowest)")
    without, those = ([times[0] for times in found[masked]] for masked in (True, False))
    row("boot without the agents", without)
    row("boot with the agents", those)
    print(f"{'the agents share of it':28} {statistics.median(those) - statistics.median(without):7.0f}")
    for n, name in enumerate(scenario.AGENTS, 1):
        row(f"{name}, start to ready", [times[n] for times in found[False]])


if __name__ == "__main__":
    main()
