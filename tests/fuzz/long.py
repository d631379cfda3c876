#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every fuzz target for a while, from its corpus and from what earlier runs found; prints PASS or FAIL for
each. ctest runs a fixed number
of inputs from a fixed seed instead.
BUILD_DIR: the sanitized build (build/asan). FUZZ_SECONDS=60: how much processor time each; FUZZ_AT_ONCE=2;
TEST_SEED=N repeats, as far as time allows.
Usage: long.py [NAME…]      only these targets, as json for fuzz-json
What it finds stays in BUILD_DIR/tests/fuzz/found-NAME/; what ends a target in
BUILD_DIR/tests/fuzz/ended-NAME/, for the corpus once mended."""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("BUILD_DIR", SOURCE.parents[1] / "build/asan")).resolve() / "tests/fuzz"
SECONDS = int(os.environ.get("FUZZ_SECONDS", 60))
AT_ONCE = int(os.environ.get("FUZZ_AT_ONCE", 2))
SEED = int(os.environ.get("TEST_SEED", 0)) or int(time.time())


def computed(pid):
    """Seconds of processor time: beside other work a minute of the clock may be seconds of trying."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def target(name):
    """(name, good, what it says of itself)"""
    found, ended = BUILD / f"found-{name}", BUILD / f"ended-{name}"
    for folder in (found, ended):
        folder.mkdir(exist_ok=True)
    # 300 s for one input: a machine that stands still is no endless loop.
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        p = subprocess.Popen([BUILD / f"fuzz-{name}", f"-seed={SEED}", "-timeout=300",
                              "-print_final_stats=1", f"-artifact_prefix={ended}/",
                              found, SOURCE / "corpus" / name], stdin=subprocess.DEVNULL, stdout=out,
                             stderr=subprocess.STDOUT)
        asked = False
        while p.poll() is None:
            time.sleep(0.2)
            if not asked and computed(p.pid) >= SECONDS:
                asked = True
                p.send_signal(signal.SIGUSR1)  # ends after the input that it tries
        out.seek(0)
        told = out.read()
    inputs = re.search(r"stat::number_of_executed_units: *(\d+)", told)
    good = p.returncode == 0 and inputs and int(inputs[1]) > 0
    new = re.search(r"stat::new_units_added: *(\d+)", told)
    return name, good, (f"{int(inputs[1]):,} inputs, {new[1]} kept" if good else
                        f"exit code {p.returncode}; input in {ended}\n" + "\n".join(told.splitlines()[-60:]))


def main():
    have = {p.name.removeprefix("fuzz-") for p in BUILD.glob("fuzz-*") if p.is_file()
            and os.access(p, os.X_OK)}
    wanted = {p.stem.removeprefix("fuzz-") for p in SOURCE.glob("fuzz-*.c")}
    names = sorted(sys.argv[1:] or wanted)
    if missing := [name for name in names if name not in have]:
        sys.exit(f"long.py: not in {BUILD}: {' '.join(missing)}; build the preset asan")
    print(f"TEST_SEED={SEED}, {SECONDS} s of processor time each, {len(names)} targets", flush=True)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for name, good, told in pool.map(target, names):
            print(f"{'PASS' if good else 'FAIL'} fuzz-{name}: {told}", flush=True)
            bad += not good
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
