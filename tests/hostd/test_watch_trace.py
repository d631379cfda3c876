#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a watch counts of a run, beside the kernel's own trace of the same moments: writers that are held
back, and moves between CPUs.

The disk that writers must wait for is a loop device of this test's own, which alone gets a tight limit. The
machine has one NUMA node or is not
asked: the agent is shown a folder in which each CPU is a node. Both counts are the trace's, exactly.
"""
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

import real_run
from around import wait_until

TRACING = Path("/sys/kernel/tracing")
LIMIT = 256 << 10  # bytes that may be unwritten


class Trace:
    """An instance of the kernel's trace, with one event of it."""

    def __init__(self, event):
        self.folder = TRACING / f"instances/tpu-hostd-test-{os.getpid()}"
        self.folder.mkdir()
        self.event = self.folder / "events" / event / "enable"
        (self.folder / "buffer_size_kb").write_text("8192\n")

    def during(self, work):
        """The lines of what happened while work() was done."""
        self.event.write_text("1\n")
        (self.folder / "trace").write_text("")
        work()
        self.event.write_text("0\n")
        return [line for line in (self.folder / "trace").read_text().splitlines()
                if not line.startswith("#")]

    def close(self):
        self.event.write_text("0\n")
        self.folder.rmdir()


class WatchTrace(real_run.Case):
    def trace(self, event):
        if not (TRACING / "events").exists():
            if subprocess.run(["mount", "-t", "tracefs", "none", TRACING], capture_output=True,
                              check=False).returncode:
                self.skipTest("no tracefs")
            self.addCleanup(subprocess.run, ["umount", TRACING], check=True)
        try:
            trace = Trace(event)
        except OSError as e:
            self.skipTest(f"no trace of one's own: {e}")
        self.addCleanup(trace.close)
        return trace

    def begin(self, word, kind):
        run = self.run_of(word)
        run.start("sleep", "1000")
        self.h.launchd.runs = [run.listed()]
        self.h.start()
        self.needs(kind)
        wait_until(lambda: run.name in [j["name"] for j in self.h.get("/v1/runs")["runs"]], 60,
                   "it knows the run")
        return run

    def slow_disk(self):
        """A folder on a disk for which little may be unwritten."""
        image, place = self.h.folder / "disk.img", self.h.folder / "slow"
        with open(image, "wb") as f:
            f.truncate(64 << 20)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", str(image)], check=True)
        done = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            self.skipTest(f"no loop device: {done.stderr.strip()}")
        device = done.stdout.strip()
        self.addCleanup(subprocess.run, ["losetup", "-d", device], check=False)
        number = os.stat(device).st_rdev
        limits = Path(f"/sys/class/bdi/{os.major(number)}:{os.minor(number)}")
        if not (limits / "strict_limit").exists():
            self.skipTest("this kernel limits no single disk (Linux 6.2)")
        before = [(limits / name, (limits / name).read_text()) for name in ("max_ratio", "strict_limit")]
        self.addCleanup(lambda: [file.write_text(text) for file, text in before])
        place.mkdir()
        if subprocess.run(["mount", device, place], capture_output=True, check=False).returncode:
            self.skipTest("no disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", place], check=True)
        (limits / "strict_limit").write_text("1\n")
        (limits / "max_bytes").write_text(f"{LIMIT}\n")
        return place

    @unittest.skipUnless(shutil.which("losetup", path="/usr/sbin:/sbin:/usr/bin"), "there is no losetup")
    def test_writers_held_back(self):
        place, trace = self.slow_disk(), self.trace("writeback/balance_dirty_pages")
        run = self.begin("heldback", "io")

        def work():
            writers = []

            def write():
                for _ in range(2):
                    writers.append(run.start("dd", "if=/dev/zero", f"of={place}/{len(writers)}", "bs=64k",
                                             "count=30", stderr=subprocess.DEVNULL))
                for p in writers:
                    self.assertEqual(p.wait(), 0)

            lines = trace.during(write)
            return [int(m[1]) for line in lines for p in writers
                    if (m := re.search(rf"-{p.pid} .* balance_dirty_pages: .* pause=(-?\d+) ", line))]

        pauses, said = self.watched("io", run, work)
        print("pauses in the trace:", pauses, "ours:", said["held_back"], flush=True)
        self.assertGreater(said["held_back"], 0)
        self.assertEqual(said["held_back"], sum(p > 0 for p in pauses))

    def test_moves(self):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        if len(cpus) < 2:
            self.skipTest("one CPU")
        trace = self.trace("sched/sched_migrate_task")
        run = self.begin("moves", "sched")
        nodes = self.h.folder / "nodes"
        for n, cpu in enumerate(cpus):
            (nodes / f"node{n}").mkdir(parents=True)
            (nodes / f"node{n}/cpulist").write_text(f"{cpu}\n")
        nodes.chmod(0o755)
        subprocess.run(["nsenter", "-t", str(self.h.process.pid), "-m", "mount", "--bind", nodes,
                        "/sys/devices/system/node"], check=True)
        moved = run.start("sh", "-c", "while :; do :; done",
                          before=lambda: os.sched_setaffinity(0, {cpus[0]}))

        def work():
            def move():
                for n in range(1, 12):
                    cpu = cpus[n % 2]
                    os.sched_setaffinity(moved.pid, {cpu})
                    wait_until(lambda cpu=cpu: int(Path(f"/proc/{moved.pid}/stat").read_text().rpartition(")")[2].split()[36]) == cpu, 60, "it is there")

            return [tuple(map(int, re.search(r"orig_cpu=(\d+) dest_cpu=(\d+)", line).groups()))
                    for line in trace.during(move)
                    if f" pid={moved.pid} " in line]

        moves, said = self.watched("sched", run, work)
        print("moves in the trace:", moves, "ours:", said["migrations"], flush=True)
        self.assertGreaterEqual(len(moves), 10)
        self.assertEqual(said["migrations"], {"cpus": len(moves), "nodes": sum(a != b for a, b in moves)})


if __name__ == "__main__":
    unittest.main()
