"""The training's own word on its steps, as the journal of each host has it; nothing of ours is asked."""

import json
import re
import statistics
import time

from lab.command import sh

STEP = re.compile(r"completed step: (\d+), seconds: ([0-9.]+)")


def recent(host, run, lines=60):
    """[(step, seconds, real time)] out of the last lines of the training on that host."""
    out = sh("journalctl", "-q", "--no-pager", "-o", "json", "--output-fields=MESSAGE", "-n", str(lines),
             "-D", host.tree / "var/log/journal", "-u", f"tpu-run-{run}.service")
    found = []
    for line in out.splitlines():
        record = json.loads(line)
        match = isinstance(record.get("MESSAGE"), str) and STEP.search(record["MESSAGE"])
        if match:
            found.append((int(match[1]), float(match[2]), int(record["__REALTIME_TIMESTAMP"]) / 1e6))
    return found


def last_step(host, run):
    steps = recent(host, run, 20)
    return steps[-1][0] if steps else -1


def step_seconds(host, run, newest=10):
    """The median of the last steps, from line to line."""
    times = [at for _, _, at in recent(host, run)][-newest - 1:]
    return statistics.median(b - a for a, b in zip(times, times[1:]))


def stopped(hosts, run, since, quiet, limit):
    """Waits until no host has completed a step for `quiet` seconds; returns the real time of the last step,
    or None when steps go
    on for `limit` seconds after since."""
    while True:
        last = max((recent(h, run, 5) or [(0, 0, 0)])[-1][2] for h in hosts)
        if time.time() - max(last, since) >= quiet:
            return last
        if time.time() - since > limit:
            return None
        time.sleep(0.5)


def slowed(host, run, since, before, factor, windows=8, limit=60):
    """Waits for `windows` steps after since; returns their median when it is `factor` times what it was
    before, else None."""
    while time.time() - since < limit:
        times = [at for _, _, at in recent(host, run) if at > since + before]
        if len(times) > windows:
            now = statistics.median(b - a for a, b in zip(times, times[1:]))
            return now if now >= factor * before else None
        time.sleep(0.5)
    return None
