#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Waits and storage of a run, as /v1/sched and /v1/io tell them, beside what the kernel's own files say
of the same processes."""
import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

import real_run
from around import BINARY, wait_until

SPIN = "while True: pass"
FUSE = Path("/usr/lib/python3/dist-packages/fusepy.py")
SERVER = """import errno, stat, sys, time, fusepy as fuse
class Files(fuse.Operations):
    def getattr(self, path, handle=None):
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path != "/checkpoint":
            raise fuse.FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o644, "st_nlink": 1, "st_size": 4096}
    def read(self, path, size, offset, handle):
        time.sleep(0.3)
        return b"x" * size
fuse.FUSE(Files(), sys.argv[1], foreground=True, direct_io=True)
"""
READER = ("import os, sys\nwhile True:\n for p in sys.argv[1:]:\n  f = os.open(p, os.O_RDONLY); os.read(f, "
          "10); os.close(f)")
STATE_D = BINARY.parents[2] / "tests/bpf/state-d"  # stands there 0.2 s at a time, in wait_for_vfork_done()
FULL = os.environ.get("FULL") == "1"
SECONDS = 3 if FULL else 1


def schedstat(pid):
    """(ran, waited) in seconds."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


class Watch(real_run.Case):
    def begin(self, word, *sets):
        run = self.run_of(word)
        run.start("sleep", "1000")
        self.h.launchd.runs = [run.listed()]
        self.h.start()
        self.needs(*sets)
        wait_until(lambda: run.name in [j["name"] for j in self.h.get("/v1/runs")["runs"]], 60,
                   "it knows the run")
        return run

    def ctl(self, *words):
        """tpuctl as a person has it; it looks for the socket below --root."""
        root = self.h.folder / "ctl"
        (root / "run/tpu-hostd").mkdir(parents=True, exist_ok=True)
        if not (root / "run/tpu-hostd/api.sock").exists():
            (root / "run/tpu-hostd/api.sock").symlink_to(self.h.api)
        done = subprocess.run([BINARY.parents[1] / "ctl/tpuctl", "--root", root, *words],
                              capture_output=True, text=True, timeout=120, check=False)
        print(done.stdout, done.stderr, flush=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def neighbour(self, cpu):
        p = subprocess.Popen(["/usr/bin/python3", "-c", SPIN],
                             preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        self.addCleanup(lambda: (p.kill(), p.wait()))
        return p

    def test_a_starved_process(self):
        """It shares one CPU with a neighbour that is none of the run's."""
        cpu = max(os.sched_getaffinity(0))
        run = self.begin("starved", "sched")
        starved = run.start("/usr/bin/python3", "-c", SPIN, before=lambda: os.sched_setaffinity(0, {cpu}))
        self.neighbour(cpu)
        before = schedstat(starved.pid)
        said = self.h.get(f"/v1/sched?run={run.name}&watch={SECONDS}")
        after = schedstat(starved.pid)
        waited = after[1] - before[1]
        print("sched:", json.dumps({k: said[k] for k in ("seconds", "cpu")}), "schedstat waited",
              round(waited, 3), flush=True)
        print("watch:", json.dumps({k: v for k, v in said["watch"].items() if k != "blocked"}), flush=True)
        self.assertIsNone(said["not_watched"])
        w = said["watch"]
        # the kernel's own count of the same waits, taken around it: a wait that had begun before the watch
        # is in that alone
        self.assertLessEqual(said["cpu"]["waited"], waited * 1.05 + 0.1)
        self.assertGreater(said["cpu"]["waited"], waited * 0.3)
        self.assertLessEqual(w["delays"]["seconds"], waited * 1.05 + 0.1)
        self.assertGreater(w["delays"]["seconds"], waited * 0.3)
        self.assertGreater(w["preempted"]["n"], 0)
        self.assertGreaterEqual(w["delays"]["n"], w["preempted"]["n"])
        self.assertEqual(sum(b["n"] for b in w["delays"]["buckets"]), w["delays"]["n"])
        self.assertEqual(w["lost"], 0)
        shown = self.ctl("sched", run.name, "--seconds", "1")
        self.assertRegex(shown,
                         rf"(?s)^run {run.name}, .*waits for a CPU +\S+ m?s in \d+ waits: half below "
                         rf".*moved +\d+ times")
        idle = self.h.get(f"/v1/sched?run={run.name}")
        self.assertEqual((idle["watch"], idle["not_watched"]), (None, None))

    def test_state_d_has_a_place(self):
        run = self.begin("blocked", "sched")
        run.start(STATE_D)
        outside = subprocess.Popen([STATE_D])  # of no run: not counted
        self.addCleanup(lambda: (outside.send_signal(signal.SIGKILL), outside.wait()))
        time.sleep(0.5)
        w = self.h.get(f"/v1/sched?run={run.name}&watch={SECONDS}")["watch"]["blocked"]
        print("blocked:", json.dumps(w), flush=True)
        worst = max(w["places"], key=lambda p: p["seconds"])
        self.assertRegex(worst["stack"], "vfork|kernel_clone")
        self.assertEqual(worst["comm"], "state-d")
        self.assertGreaterEqual(worst["longest"], 0.2)
        self.assertLessEqual(w["seconds"], SECONDS + 1)  # of one process, not of both

    @unittest.skipUnless(FULL, "FULL=1")
    def test_migrations(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("one CPU")
        run = self.begin("moved", "sched")
        moved = run.start("/usr/bin/python3", "-c", SPIN)
        end = time.monotonic() + SECONDS + 1
        asked = subprocess.Popen(["/usr/bin/python3", "-c", "import os, time\n"
                                  f"while time.monotonic() < {end}:\n for c in {cpus[:2]}: "
                                  f"os.sched_setaffinity({moved.pid}, {{c}}); time.sleep(0.05)"])
        w = self.h.get(f"/v1/sched?run={run.name}&watch={SECONDS}")["watch"]
        asked.wait()
        self.assertGreater(w["migrations"]["cpus"], 3)

    def test_requests_to_a_disk(self):
        run = self.begin("disk", "io")
        place = self.h.folder / "written"
        run.start("dd", "if=/dev/zero", f"of={place}", "bs=256k", "count=100000", "oflag=direct,dsync",
                  stderr=subprocess.DEVNULL)
        said = self.h.get(f"/v1/io?run={run.name}&watch={SECONDS}")
        print("io:", json.dumps({**said, "watch": {k: v for k, v in said["watch"].items()
                                                   if k != "slow_requests"}}), flush=True)
        print("slow:", json.dumps(said["watch"]["slow_requests"][:2]), flush=True)
        self.assertIn("disks ", self.ctl("io", run.name))
        written = next((r for r in said["watch"]["requests"] if r["operation"] == "write"), None)
        if written is None:
            self.skipTest("what is written to the temporary folder reaches no disk")
        self.assertGreaterEqual(written["bytes"], 256 * 1024)
        self.assertEqual(sum(b["n"] for b in written["buckets"]), written["n"])
        disks = {line.split()[2] for line in Path("/proc/diskstats").read_text().splitlines()}
        self.assertIn(said["watch"]["slow_requests"][0]["disk"], disks)

    def test_slow_calls_on_a_served_file_system(self):
        """FUSE, whose reads of one file take 0.3 s; the same calls on a file of a disk are none of its
        business."""
        if not FUSE.exists() or not Path("/dev/fuse").exists():
            self.skipTest("no FUSE, or not python3-fusepy")
        place = self.h.folder / "served"
        place.mkdir()
        server = subprocess.Popen(["/usr/bin/python3", "-c", SERVER, str(place)], stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (subprocess.run(["umount", "-l", place], check=False), server.kill(),
                                 server.wait()))
        try:
            wait_until(lambda: os.path.ismount(place) or server.poll() is not None, 60, "the mount")
        finally:
            if server.poll() is not None:
                self.skipTest("FUSE cannot be mounted here")
        run = self.begin("served", "io")
        run.start("/usr/bin/python3", "-c", READER, str(place / "checkpoint"),
                  str(self.h.folder / "hostd.conf"))
        w = self.h.get(f"/v1/io?run={run.name}&watch={SECONDS + 2}")["watch"]
        print("calls:", json.dumps(w["slow_calls"][:2]), flush=True)
        slowest = w["slow_calls"][0]
        self.assertEqual((slowest["call"], slowest["filesystem"], slowest["file"]),
                         ("read", "fuse", "checkpoint"))
        self.assertGreaterEqual(slowest["seconds"], 0.3)
        self.assertEqual({c["file"] for c in w["slow_calls"]}, {"checkpoint"})
        self.assertGreaterEqual(next(c for c in w["calls"] if c["call"] == "read")["n"], 1)

    def test_refusals(self):
        run = self.begin("refused", "sched")
        for path, status in (("/v1/sched?watch=0", 400), ("/v1/sched?watch=31", 400),
                             ("/v1/sched?watch=x", 400), ("/v1/sched?run=../x", 400),
                             ("/v1/sched?run=none", 404), ("/v1/io?run=none", 404)):
            with self.subTest(path):
                self.assertEqual(self.h.call(path)[0], status)
        stranger = subprocess.run(["setpriv", f"--reuid={real_run.NOBODY}", "--clear-groups", "curl", "-s",
                                   "-w", "%{http_code}", "-o", "/dev/null",
                                   "--unix-socket", str(self.h.api),
                                   f"http://x/v1/io?run={run.name}&watch=1"], capture_output=True, text=True)
        self.assertEqual(stranger.stdout, "403")
        first = subprocess.Popen(["curl", "-s", "--unix-socket", str(self.h.api),
                                  f"http://x/v1/sched?run={run.name}&watch=5"], stdout=subprocess.PIPE)
        wait_until(lambda: [e for e in self.h.events("tpu.api.acted")
                            if "is watched" in e["body"]["result"]], 60, "its trace")
        second = self.h.get(f"/v1/sched?run={run.name}&watch=1")
        self.assertIn("being watched already", second["not_watched"])
        self.assertIsNone(second["watch"])
        self.assertIsNone(json.loads(first.communicate()[0])["not_watched"])


if __name__ == "__main__":
    unittest.main()
