#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Requests of a run to a disk, as /v1/io counts them, against the kernel's own count of the same disk
(/proc/diskstats, which iostat reads).

The disk is a loop device over a file that nobody else uses. Number and bytes are the same, exactly; of the
times the kernel's own begin
before ours (when a request is made, not when it goes to the disk) and end behind them, and are told in whole
milliseconds. (A flush alone, which the kernel also counts as a write of nothing, is not among these.)
"""
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

import real_run
from around import wait_until

FULL = os.environ.get("FULL") == "1"
READS, WRITES = (300, 200) if FULL else (30, 20)
BLOCK = 64 << 10


class Iostat(real_run.Case):
    def disk(self):
        if not shutil.which("losetup", path="/usr/sbin:/sbin:/usr/bin"):
            self.skipTest("there is no losetup")
        image = self.h.folder / "disk.img"
        with open(image, "wb") as f:
            f.truncate(64 << 20)
        done = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            self.skipTest(f"no loop device: {done.stderr.strip()}")
        device = done.stdout.strip()
        self.addCleanup(subprocess.run, ["losetup", "-d", device], check=False)
        return device

    @staticmethod
    def stat(device):
        """{operation: (requests, bytes, milliseconds)}"""
        line = next(w for w in map(str.split, Path("/proc/diskstats").read_text().splitlines())
                    if w[2] == Path(device).name)
        n = list(map(int, line[3:]))
        return {"read": (n[0], n[2] * 512, n[3]), "write": (n[4], n[6] * 512, n[7]),
                "flush": (n[15], 0, n[16])}

    @staticmethod
    def iostat(device):
        """[KiB read, KiB written] since the device is there, as iostat says; [] without it."""
        beside = shutil.which("iostat")
        if not beside:
            return []
        said = subprocess.run([beside, "-d", "-k", Path(device).name], capture_output=True, text=True,
                              check=True).stdout
        head, row = (re.search(rf"(?m)^{word} .*$", said)[0].split()
                     for word in ("Device", Path(device).name))
        return [int(row[head.index(column)]) for column in ("kB_read", "kB_wrtn")]

    def test_against_diskstats(self):
        run = self.run_of("iostat")
        run.start("sleep", "1000")
        self.h.launchd.runs = [run.listed()]
        device = self.disk()
        self.h.start()
        self.needs("io")
        wait_until(lambda: run.name in [j["name"] for j in self.h.get("/v1/runs")["runs"]], 60,
                   "it knows the run")

        def work():
            """And how many blocks the kernel says that its processes moved: its own pages may come from
            another disk."""
            blocks = 0
            before, shown = self.stat(device), self.iostat(device)
            for words in ([f"of={device}", "if=/dev/zero", f"count={WRITES}", "oflag=direct"],
                          [f"if={device}", "of=/dev/null", f"count={READS}", "iflag=direct"]):
                dd = run.start("dd", f"bs={BLOCK}", *words, stderr=subprocess.DEVNULL)
                _, status, used = os.wait4(dd.pid, 0)
                dd.returncode = status
                self.assertEqual(status, 0)
                blocks += used.ru_inblock + used.ru_oublock
            # dd of nobody's: in the kernel's count, not in ours
            after, shown_after = self.stat(device), self.iostat(device)
            subprocess.run(["dd", f"bs={BLOCK}", f"if={device}", "of=/dev/null", "count=7", "iflag=direct"],
                           stderr=subprocess.DEVNULL, check=True)
            return {k: tuple(b - a for a, b in zip(before[k], after[k]))
                    for k in before}, [b - a for a, b in zip(shown, shown_after)], blocks

        (kernel, shown, _), said = self.watched("io", run, work,
                                                lambda did: did[2] == (READS + WRITES) * BLOCK // 512)
        print("diskstats:", kernel, "\nours:",
              [{k: v for k, v in r.items() if k != "buckets"} for r in said["requests"]], flush=True)
        ours = {r["operation"]: r for r in said["requests"]}
        for operation, least in (("write", WRITES), ("read", READS)):
            requests, size, milliseconds = kernel[operation]
            self.assertGreaterEqual(requests, least)
            self.assertEqual((ours[operation]["n"], ours[operation]["bytes"]), (requests, size))
            self.assertEqual(sum(b["n"] for b in ours[operation]["buckets"]), requests)
            self.assertLessEqual(ours[operation]["seconds"], (milliseconds + 1) / 1000)
            self.assertGreater(ours[operation]["seconds"], 0)
        self.assertEqual(said["lost"], 0)
        self.assertEqual({r["disk"] for r in said["slow_requests"]}, {Path(device).name})
        self.assertIn(shown, ([], [ours["read"]["bytes"] // 1024, ours["write"]["bytes"] // 1024]))


if __name__ == "__main__":
    unittest.main()
