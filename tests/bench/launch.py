#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a run costs beside a bare transient service, and how soon its end has a cause: in a booted host.

1. "tpuctl run -- true" beside "systemd-run --service-type=exec true": from the command's start to its end
2. from the end of a run's command (its own clock) to its typed cause (tpu-launchd's line in the journal)

Medians over RUNS (40) interleaved runs; printed, deciding nothing. Needs root and build/debs (tools/deb).
Usage: launch.py [--json]      TPU_HOSTD_DEBS: where the packages are
"""
import json
import os
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "lab"))
from lab import Lab              # noqa: E402  (the path comes first)
import scenario                  # noqa: E402

RUNS = int(os.environ.get("RUNS", 40))
INSIDE = r"""
import json, subprocess, sys, time
runs = int(sys.argv[1])
times = {"tpuctl run": [], "systemd-run": []}
for n in range(runs):
    for what, words in (("tpuctl run", ["tpuctl", "run", "--name", f"t{n}", "--malloc", "glibc", "--", "true"]),
                        ("systemd-run", ["systemd-run", "--quiet", "--collect", "--service-type=exec", "true"])):
        start = time.monotonic()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        times[what].append(time.monotonic() - start)
ends = {}
cases = {"success": "", "exit-code": "exit 3", "peer-lost": "exit 1"}
for n in range(runs):
    for cause, end in cases.items():
        say = "echo GetMultiSliceTopology returned with status: UNAVAILABLE: x;" if cause == "peer-lost" else ""
        name = f"{cause}-{n}"
        subprocess.run(["tpuctl", "run", "--name", name, "--malloc", "glibc", "--", "sh", "-c", say + "date +%s%6N; " + end], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)   # one that ends at once may end before it is seen to run
        for _ in range(300):
            told = subprocess.run(["journalctl", "-o", "json", "-u", "tpu-launchd", f"--grep=run {name} ended: {cause} ", "-n", "1"], capture_output=True, text=True).stdout
            said = subprocess.run(["journalctl", "-o", "cat", "-t", "tpu-run", f"TPU_RUN={name}"], capture_output=True, text=True).stdout
            if told and said:
                break
            time.sleep(0.1)
        else:
            sys.exit(f"no cause told of {name} within 30 s: " + subprocess.run(
                ["journalctl", "-o", "cat", "-u", "tpu-launchd", f"--grep={name}"], capture_output=True, text=True).stdout)
        ends.setdefault(cause, []).append((int(json.loads(told)["_SOURCE_REALTIME_TIMESTAMP"]) - int(said.split()[-1])) / 1e6)
print(json.dumps({"times": times, "ends": ends}))
"""


def row(what, values):
    values = sorted(values)
    return {"what": what, "median_ms": round(statistics.median(values) * 1000, 1),
            "p90_ms": round(values[len(values) * 9 // 10] * 1000, 1),
            "runs": len(values)}


def main():
    deb, _ = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))
    with Lab(hosts=1, debs=[deb]) as lab:
        host = lab.hosts[0]
        host.write("/srv/inside.py", INSIDE)
        found = json.loads(host.run(["/usr/bin/python3", "/srv/inside.py", str(RUNS)], check=True,
                                    timeout=1200).out)
    rows = [row(what, values) for what, values in found["times"].items()]
    rows += [row(f"end to cause: {cause}", values) for cause, values in found["ends"].items()]
    if "--json" in sys.argv:
        print(json.dumps({"launch": rows}))
        return
    for r in rows:
        print(f"{r['what']:24} median {r['median_ms']:7.1f} ms   p90 {r['p90_ms']:7.1f} ms   ({r['runs']} "
              f"runs)")


if __name__ == "__main__":
    main()
