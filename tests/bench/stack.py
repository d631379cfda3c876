# SPDX-License-Identifier: Apache-2.0
"""tpu-stack over 17 and 200 threads of 40 frames: wall time of the whole process, calls, memory; other tools beside it.

BUILD_DIR names the build tree. Prints one line a tool; a tool that is not installed is named as such. Exit code 1 when
tpu-stack's median over 17 is above GOAL_MS.
"""
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests/stack"))
import pythons  # noqa: E402

TOOL = os.path.join(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build")), "probes/stack/tpu-stack")
RUNS = 30
GOAL_MS = float(os.environ.get("GOAL_MS", "3"))
TARGET = """
import sys, threading, time
threads = int(sys.argv[1])
b = threading.Barrier(threads)
def down(n):
    if n > 0:
        return down(n - 1)
    b.wait()
    time.sleep(1000)
for _ in range(threads - 1):
    threading.Thread(target=down, args=(36,), daemon=True).start()
def main(n):
    if n > 0:
        return main(n - 1)
    b.wait()
    time.sleep(0.2)
    print("ready", flush=True)
    time.sleep(1000)
main(38)
"""


def austin():
    """The peer, out of the tree that tests/stack/pythons.py unpacked; it reads CPython to 3.13."""
    tree = pythons.trees().get("3.13", "/nowhere")
    return ["/usr/bin/env", tree + "/lib64/ld-linux-x86-64.so.2", "--library-path", tree + "/usr/lib/x86_64-linux-gnu",
            tree + "/usr/bin/austin", "-w"] if os.path.exists(tree + "/usr/bin/austin") else ["austin", "-w"]


def measure(name, command, runs):
    if not shutil.which(command[0]):
        print("%-16s not installed" % name)
        return None
    times, cpu = [], resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        times.append((time.perf_counter() - start) * 1000)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime) * 1000 / runs
    print("%-16s median %8.2f ms  best %8.2f  worst %8.2f  cpu %7.2f ms  (%d runs)" %
          (name, statistics.median(times), min(times), max(times), used, runs))
    return statistics.median(times)


def calls(pid):
    if not shutil.which("strace"):
        return
    with tempfile.NamedTemporaryFile("r") as out:
        subprocess.run(["strace", "-c", "-o", out.name, TOOL, str(pid)], stdout=subprocess.DEVNULL)
        text = out.read()
    reads = re.search(r"(\d+)(?: +\d+)? +process_vm_readv", text)
    total = re.search(r"(\d+)(?: +\d+)? +total", text)
    print("%-16s %s calls of process_vm_readv, %s calls in all" % ("", reads[1], total[1]))


def against(threads):
    with subprocess.Popen(["/usr/bin/python3", "-c", TARGET, str(threads)], stdout=subprocess.PIPE, text=True) as target:
        try:
            target.stdout.readline()
            pid = str(target.pid)
            out = subprocess.run([TOOL, pid], capture_output=True, text=True, check=True).stdout
            print("target: %d threads, %d frames, text of %d bytes" %
                  (len(re.findall("^thread", out, re.M)), out.count('  File "'), len(out.encode())))
            measure("empty process", ["true"], RUNS)
            median = measure("tpu-stack", [TOOL, pid], RUNS)
            measure("tpu-stack --json", [TOOL, "--json", pid], RUNS)
            measure("… --repeat 10", [TOOL, "--repeat", "10", "--every", "1us", pid], 10)
            calls(pid)
            measure("austin -w", [*austin(), pid], RUNS)
            measure("… --native", [TOOL, "--native", pid], 10)
            measure("eu-stack", ["eu-stack", "-p", pid], 5)
            measure("gdb bt", ["gdb", "-batch", "-p", pid, "-ex", "thread apply all bt"], 3)
        finally:
            target.kill()
    return median


def main():
    median = against(17)
    against(200)
    return 0 if median <= GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
