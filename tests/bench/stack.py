# SPDX-License-Identifier: Apache-2.0
"""tpu-stack and its peers on the same Python programs, in one run: one command, one table.

  sudo BUILD_DIR=build/dev /usr/bin/python3 -B tests/bench/stack.py [RUNS]

Programs: 17 and 200 threads of 40 frames, all blocked. Columns: wall time, processor time and largest memory
of the whole process of the tool,
and the longest gap that a spinning thread of such a program saw meanwhile, beside the gap it sees when
nothing is done. Then --native's stops of
one running thread among 1,000. BUILD_DIR names the build tree. Peers: austin and austinp of Debian 13
(tests/stack/pythons.py fetches them),
eu-stack (elfutils), gdb with py-bt (python3.11-dbg); one that is missing is named as such. Exit code 1 when
a goal is missed, which on a busy
machine says nothing: the load average stands beside it.
"""
import json
import mmap
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tests/stack"))
import pythons  # noqa: E402

TOOL = os.path.join(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build")), "probes/stack/tpu-stack")
PYTHON = "/usr/bin/python3"
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
REPEAT = 50
RUN = ""  # where RUNNER is, when it is built
TARGET = """
import mmap, struct, sys, threading, time
threads, counters = int(sys.argv[1]), sys.argv[2]
b = threading.Barrier(threads)
def down(n):
    if n > 0:
        return down(n - 1)
    b.wait()
    time.sleep(1000)
def spin():
    now, last = time.perf_counter_ns, time.perf_counter_ns()
    with open(counters, "r+b") as f:
        shared = mmap.mmap(f.fileno(), 8)
    while True:
        t = now()
        if t - last > struct.unpack_from("Q", shared)[0]:
            struct.pack_into("Q", shared, 0, t - last)
        last = t
for _ in range(threads - 1):
    threading.Thread(target=down, args=(36,), daemon=True).start()
def main(n):
    if n > 0:
        return main(n - 1)
    b.wait()
    time.sleep(0.2)
    if counters:
        threading.Thread(target=spin, daemon=True).start()
    print("ready", flush=True)
    time.sleep(1000)
main(38)
"""


class Program:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.pid = str(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def peer(name):
    """A program of Debian 13, with its own libraries: as a command."""
    tree = pythons.trees().get("3.13", "/nowhere")
    path = tree + "/usr/bin/" + name
    libraries = tree + "/usr/lib/x86_64-linux-gnu"
    return [tree + "/lib64/ld-linux-x86-64.so.2", "--library-path", libraries,
            path] if os.path.exists(path) else [name]


# Runs a program and prints wall and processor time in µs, the largest memory in KiB, and the exit code. Not
# from Python itself: a child's
# largest memory is at least that of who started it, and starting it takes longer from a large process.
RUNNER = r"""
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>
int main(int argc, char *argv[]) {
        struct timespec a, b;
        struct rusage u;
        int status, null = open("/dev/null", O_RDWR | O_CLOEXEC);
        pid_t pid;
        (void) argc;
        clock_gettime(CLOCK_MONOTONIC, &a);
        pid = vfork();
        if (pid == 0) {
                dup2(null, 0); dup2(null, 1); dup2(null, 2);
                execv(argv[1], argv + 1);
                _exit(127);
        }
        wait4(pid, &status, 0, &u);
        clock_gettime(CLOCK_MONOTONIC, &b);
        printf("%ld %ld %ld %d\n", (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000,
               (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec, u.ru_maxrss,
               WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        return 0;
}
"""
LONGEST = 10  # seconds that one tool's runs may take, three at least


def compiled(source, name, folder, *words):
    path = os.path.join(folder, name)
    subprocess.run(["cc", "-O1", *words, "-o", path,
                    *([source] if os.path.exists(source) else ["-x", "c", "-"])],
                   input=None if os.path.exists(source) else source, text=True, check=True)
    return path


def once(command):
    """Wall and processor time in ms, largest memory in KiB, exit code."""
    wall, cpu, rss, code = map(int, subprocess.run([RUN, *command], capture_output=True, text=True,
                                                   check=True).stdout.split())
    return wall / 1000, cpu / 1000, rss, code


def measure(command, runs):
    command = [shutil.which(command[0]) or command[0], *command[1:]]
    if not os.path.exists(command[0]):
        return None
    rows, end = [], time.monotonic() + LONGEST
    while len(rows) < runs and (len(rows) < 3 or time.monotonic() < end):
        rows.append(once(command))
    return {"wall": sorted(r[0] for r in rows), "cpu": statistics.mean(r[1] for r in rows),
            "rss": max(r[2] for r in rows),
            "failed": sum(r[3] not in (0, 3) for r in rows)}


def gap_during(shared, command):
    """The longest gap of the spinning thread, in µs; None: for as long as a sleep of that many seconds."""
    struct.pack_into("Q", shared, 0, 0)
    if isinstance(command, float):
        time.sleep(command)
    else:
        once([shutil.which(command[0]) or command[0], *command[1:]])
    return struct.unpack_from("Q", shared)[0] / 1000


def tools(pid):
    gdb = ["gdb", "-batch", "-p", pid, "-ex", "thread apply all py-bt"]
    return [("empty process", ["true"], 1), ("tpu-stack", [TOOL, pid], 1),
            ("tpu-stack --json", [TOOL, "--json", pid], 1),
            ("austin -w", [*peer("austin"), "-w", pid], 1),
            ("tpu-stack --native", [TOOL, "--native", pid], 1),
            ("austinp -w", [*peer("austinp"), "-w", pid], 0.2), ("eu-stack", ["eu-stack", "-p", pid], 0.2),
            ("gdb py-bt", gdb, 0.1)]


def row(name, m, gap=None):
    if not m:
        print("  %-20s not installed" % name)
        return
    wall = m["wall"]
    print("  %-20s %9.2f %9.2f %9.2f %9.2f %9d  %9s%s" % (
        name, statistics.median(wall), wall[0], wall[-1], m["cpu"], m["rss"],
        "" if gap is None else "%.0f" % gap,
        "  %d of %d failed" % (m["failed"], len(wall)) if m["failed"] else ""))


def against(threads, counters):
    """name -> median wall time, as a table."""
    medians = {}
    with open(counters, "r+b") as f:
        shared = mmap.mmap(f.fileno(), 8)
    with Program(PYTHON, "-c", TARGET, str(threads),
                 "") as blocked, Program(PYTHON, "-c", TARGET, str(threads), counters) as spinning:
        print("%d threads of 40 frames" % threads)
        print("  %-20s %9s %9s %9s %9s %9s  %9s" % ("", "median ms", "best", "worst", "cpu ms", "RSS KiB",
                                                    "gap µs"))
        beside = dict((name, command) for name, command, _ in tools(spinning.pid))
        for name, command, share in tools(blocked.pid):
            runs = max(3, int(RUNS * share))
            m = measure(command, runs)
            gap = statistics.median(gap_during(shared, beside[name]) for _ in range(3)) if m else None
            row(name, m, gap)
            medians[name] = statistics.median(m["wall"]) if m else None
        quiet = statistics.median(gap_during(shared, 0.01) for _ in range(7))
        print("  %-20s %9s %9s %9s %9s %9s  %9.0f" % ("nothing, 10 ms", "", "", "", "", "", quiet))
        m = measure([TOOL, "--json", "--repeat", str(REPEAT), "--every", "1us", blocked.pid],
                    max(3, RUNS // 5))
        medians["repeat"] = statistics.median(m["wall"]) / REPEAT
        print("  each of --repeat %d: %.2f ms" % (REPEAT, medians["repeat"]))
    return medians


def own_view(threads, counters, runs):
    """The longest time that the one thread that runs could not, as it sees it itself, in ms: while it is
    captured, and without."""
    program = compiled(os.path.join(SOURCE, "tests/stack/target_threads.c"), "target_threads",
                       os.path.dirname(RUN), "-pthread")
    with open(counters, "r+b") as f, Program(program, str(threads), counters) as t:
        shared = mmap.mmap(f.fileno(), 8)
        captured = sorted(gap_during(shared, [TOOL, "--json", "--native", t.pid]) / 1000
                          for _ in range(runs))
        quiet = sorted(gap_during(shared, 0.02) / 1000 for _ in range(runs))
    for name, gaps in (("captured", captured), ("not", quiet)):
        print("  its own longest gap in each of %d, %-9s p50 %.3f ms, p99 %.3f ms" %
              (runs, name + ":", gaps[len(gaps) // 2], gaps[len(gaps) * 99 // 100]))


def stops(threads):
    """How long --native stops the one thread of so many that runs."""
    with Program(compiled(os.path.join(SOURCE, "tests/stack/target_threads.c"), "target_threads",
                          os.path.dirname(RUN), "-pthread"),
                 str(threads)) as t:
        m = measure([TOOL, "--json", "--native", t.pid], max(3, RUNS // 5))
        out = subprocess.run([TOOL, "--json", "--native", "--repeat", str(RUNS * 5), "--every", "1ms",
                              t.pid],
                             capture_output=True, text=True, check=True).stdout
    pauses = sorted(x["native"]["pause_ns"] / 1e6 for line in out.splitlines()
                    for x in json.loads(line)["processes"][0]["threads"]
                    if x["native"]["pause_ns"])
    if not pauses:
        sys.exit("no thread was ever stopped")
    p50, p99 = pauses[len(pauses) // 2], pauses[len(pauses) * 99 // 100]
    print("--native on %d threads, one of which runs: %.1f ms; %d stops, of that one alone: p50 %.3f ms, "
          "p99 %.3f ms, longest %.3f ms" %
          (threads, statistics.median(m["wall"]), len(pauses), p50, p99, pauses[-1]))
    return p50, p99


def main():
    global RUN
    print("load average %s on %d processors, %d runs" % (" ".join("%.2f" % x for x in os.getloadavg()),
                                                         os.cpu_count(), RUNS))
    with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile() as counters:
        RUN = compiled(RUNNER, "run", d)
        counters.write(bytes(8))
        counters.flush()
        small = against(17, counters.name)
        large = against(200, counters.name)
        p50, p99 = stops(1000)
        own_view(100, counters.name, RUNS * 3)
    goals = [("whole process on 17 threads <= 3 ms", small["tpu-stack"] <= 3),
             ("each of --repeat <= 1 ms", small["repeat"] <= 1)]
    for name, medians in (("17", small), ("200", large)):
        for ours, peers, factor in (("tpu-stack", "austin -w", 1), ("tpu-stack --native", "eu-stack", 10)):
            if medians[peers]:
                goals.append(("%s on %s threads: %.1f times %s (goal: more than %d)"
                              % (ours, name, medians[peers] / medians[ours], peers, factor),
                              medians[peers] / medians[ours] > factor))
    goals += [("a stop: p50 <= 0.05 ms", p50 <= 0.05), ("a stop: p99 <= 0.1 ms", p99 <= 0.1)]
    for text, met in goals:
        print("%s  %s" % ("met   " if met else "MISSED", text))
    print("load average %s at the end" % " ".join("%.2f" % x for x in os.getloadavg()))
    return 0 if all(met for _, met in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
