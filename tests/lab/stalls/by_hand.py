"""The verdict out of captures made by hand, as someone without a collector would: tpu-stack on every host,
twice, the files brought to
one host, and tpuctl diagnose there. Suspicion is the caller's."""

import gzip
import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import capture_wire  # noqa: E402
from lab import LabError
from lab.command import sh

import scenario
import verdict
import watch

BETWEEN = 5  # seconds between the two captures
# systemd 252; the last: exit code 0
EXITED = re.compile(r"Main process exited, code=(\w+), status=(\S+)|(Deactivated successfully)")
FOLDER = "/srv/captures"


def end_of(host, run):
    """(real time in µs, how) of the end of a run's process, as the host's first process tells it; (0, "")
    while it is there."""
    out = sh("journalctl", "-q", "--no-pager", "-o", "json", "-D", host.tree / "var/log/journal", "-n", "20",
             "-u", f"tpu-run-{run}.service",
             "_PID=1")
    for line in reversed(out.splitlines()):
        record = json.loads(line)
        match = EXITED.search(str(record.get("MESSAGE")))
        if match:
            how = ("exit code 0" if match[3] else f"exit code {match[2].split('/')[0]}"
                   if match[1] == "exited" else f"signal {match[2]}")
            return int(record["__REALTIME_TIMESTAMP"]), how
    return 0, ""


def unanswered(host):
    """Connections whose peer no longer answers, as ss(8) tells of them: the timer that sends again runs,
    and has run out so often."""
    lines = host.run(["ss", "-Htino", "state", "established"]).out.splitlines()
    for about, info in zip(lines, lines[1:]):
        addresses, timer = re.findall(r"(\S+):\d+\s", about), re.search(r"timer:\(on,[^,]*,(\d+)\)", about)
        silent = re.search(r"lastack:(\d+)", info)
        if timer and int(timer[1]) >= 3 and silent and int(silent[1]) >= 2000 and len(addresses) == 2:
            yield {"check": "path.answer", "subject": addresses[1], "verdict": "WARN",
                   "found": f"from {addresses[0]}, nothing for {int(silent[1]) // 1000} s"}


def findings(host):
    try:
        checks = json.loads(host.run(["tpuctl", "check", "--json"], timeout=30).out)["checks"]
    except (LabError, ValueError, KeyError):
        return []
    wrong = [{k: f[k] for k in ("check", "subject", "verdict", "found")} for f in checks
             if f["verdict"] in ("WARN", "FAIL")]
    return wrong + list(unanswered(host))


def capture(host, worker, run, turn):
    """One host's capture: what tpu-stack wrote, and behind it what an agent would say."""
    wanted = time.time()
    group = scenario.unit(host, f"tpu-run-{run}.service", "ControlGroup")["ControlGroup"] or "/nothing"
    host.run(["sh", "-c", f"mkdir -p {FOLDER} && exec tpu-stack --capture --native --cgroup {group} "
                          f">{FOLDER}/taken"], timeout=60, check=False)
    stacks = host.path(f"{FOLDER}/taken").read_bytes() or capture_wire.packed({"processes": []})
    ended, how = end_of(host, run)
    said = {"slice": "lab", "host": host.name, "address": host.address("eth0"), "worker": worker,
            "round": turn,
            "wanted": int(wanted * 1e6), "taken": int(time.time() * 1e6), "clock_error": 1000}
    steps = watch.recent(host, run, 20)
    if steps:
        said["step"] = steps[-1][0]
    if ended:
        said |= {"ended": ended, "ended_how": how}
    if turn == 1:
        said["findings"] = findings(host)
    return stacks + gzip.compress(capture_wire.of_host(said))


class ByHand:
    """captures: all that the last verdict was made from."""

    def __init__(self, lab):
        self.lab, self.captures = lab, b""

    def judge(self, run, _since, name, _wanted):
        hosts, captures = self.lab.hosts, []
        asked = time.time()
        for turn in (0, 1):
            with ThreadPoolExecutor(len(hosts)) as pool:
                captures += pool.map(lambda i, t=turn: capture(hosts[i], i, run, t), range(len(hosts)))
            if turn == 0:
                time.sleep(BETWEEN)
        self.captures = b"".join(captures)
        hosts[0].sh(f"mkdir -p {FOLDER}")
        hosts[0].path(f"{FOLDER}/{name}.capture").write_bytes(self.captures)
        done = hosts[0].run(["tpuctl", "diagnose", "lab", "--json", "--hosts", str(len(hosts)), "--from",
                             f"{FOLDER}/{name}.capture"], timeout=60)
        try:
            told = json.loads(done.out)
        except ValueError:
            return {"outcome": "no answer", "host": None, "kind": None, "sentence": done.err.strip(),
                    "suspected": asked, "confirmed": None}
        return verdict.first(told) | {"suspected": asked, "confirmed": time.time()}
