#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which allocator for which run: bench-malloc under "tpuctl run --malloc tcmalloc" and "--malloc glibc", in
a booted host.

Medians of RUNS (5) interleaved runs; printed, deciding nothing. Needs root, build/debs (tools/deb) and
build/dev's bench-malloc.
Usage: malloc.py [--json]      BUILD_DIR: the build tree (build/dev)   TPU_HOSTD_DEBS: where the packages are
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

BUILD = Path(os.environ.get("BUILD_DIR", HERE.parents[1] / "build/dev"))
RUNS = int(os.environ.get("RUNS", 5))
LOADS, ALLOCATORS = ("objects", "embedding"), ("tcmalloc", "glibc")


def main():
    deb, _ = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))
    found = {}
    with Lab(hosts=1, debs=[deb]) as lab:
        host = lab.hosts[0]
        host.write("/usr/local/bin/bench-malloc", (BUILD / "tests/bench/bench-malloc").read_bytes(), 0o755)
        for n in range(RUNS):
            for load in LOADS:
                for allocator in ALLOCATORS:
                    name = f"{load}-{allocator}-{n}"
                    host.run(["tpuctl", "run", "--name", name, "--malloc", allocator, "--",
                              "/usr/local/bin/bench-malloc", load], check=True)
                    host.wait_for(lambda name=name: f'"load"' in host.sh(f"journalctl -o cat -t tpu-run "
                                                                         f"TPU_RUN={name}"), timeout=300)
                    line = host.sh(f"journalctl -o cat -t tpu-run TPU_RUN={name}").strip().splitlines()[-1]
                    found.setdefault((load, allocator), []).append(json.loads(line))
    rows = [{"load": load, "allocator": allocator, "runs": RUNS,
             **{key: statistics.median(r[key] for r in found[load, allocator])
                for key in ("seconds", "peak_mib", "faults")}}
            for load in LOADS for allocator in ALLOCATORS]
    if "--json" in sys.argv:
        print(json.dumps({"malloc": rows}))
        return
    print(f"{'load':10} {'allocator':10} {'seconds':>8} {'peak MiB':>9} {'page faults':>12}   (medians of "
          f"{RUNS})")
    for r in rows:
        print(f"{r['load']:10} {r['allocator']:10} {r['seconds']:8.3f} {r['peak_mib']:9.0f} "
              f"{r['faults']:12.0f}")


if __name__ == "__main__":
    main()
