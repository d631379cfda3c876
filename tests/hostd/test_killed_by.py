#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Who ended a run is told as the kernel saw it: the sender's number is the one that we know, as its
parent."""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

import real_run
from around import wait_until

V1_MEMORY = Path("/sys/fs/cgroup/memory")
EAT = "held = []\nwhile True: held.append(bytearray(1 << 20))"
FULL = os.environ.get("FULL") == "1"


class KilledBy(real_run.Case):
    def begin(self, word, *command, **more):
        run = self.run_of(word)
        first = run.start(*command, **more)
        self.h.launchd.runs = [run.listed()]
        self.h.start()
        self.needs("deaths")
        wait_until(lambda: run.name in [j["name"] for j in self.h.get("/v1/runs")["runs"]], 60,
                   "it knows the run")
        return run, first

    def killed(self, run, times=1):
        return wait_until(lambda: [e["body"] for e in self.h.events("tpu.run.killed_by")
                                   if e["body"]["run"] == run.name][times - 1:], 60,
                          "the event")[0]

    def exited(self, run, status, cause="signal"):
        """tpu-launchd tells its end."""
        self.h.launchd.runs = [run.listed(**{}) | {3: "exited", 4: cause, 5: "killed", 6: status,
                                                   12: time.time_ns() // 1000, 13: 0}]
        return wait_until(lambda: [e["body"] for e in self.h.events("tpu.run.exited")], 60, "its end")[0]

    def test_a_kill_from_a_known_process(self):
        run, first = self.begin("kill", "sleep", "1000")
        bystander = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(lambda: (bystander.kill(), bystander.wait()))
        other = subprocess.Popen(["sh", "-c", f"kill -TERM {bystander.pid}; :"])  # of no run: no event
        other.wait()
        sender = subprocess.Popen(["sh", "-c", f"kill -9 {first.pid}; :"])
        sender.wait()
        self.assertEqual(first.wait(), -signal.SIGKILL)
        said = self.killed(run)
        self.assertEqual(said["group"], run.group.name)
        self.assertEqual((said["pid"], said["comm"], said["signal"], said["sender"], said["sender_pid"],
                          said["sender_comm"], said["sender_uid"]),
                         (first.pid, "sleep", "SIGKILL", "process", sender.pid, "sh", os.getuid()))
        self.assertTrue(said["killed_by"].startswith(f"SIGKILL from pid {sender.pid} (sh, uid 0"),
                        said["killed_by"])
        ended = self.exited(run, "KILL")
        self.assertEqual(ended["killed_by"], said["killed_by"])
        ended = next(j for j in self.h.get("/v1/runs")["runs"] if j["name"] == run.name)
        self.assertEqual(ended["killed_by"], said["killed_by"])
        self.assertEqual([e["body"]["run"] for e in self.h.events("tpu.run.killed_by")], [run.name])

    def test_many_at_once_are_told_once(self):
        run, first = self.begin("many", "sleep", "1000")
        others = [run.start("sleep", "1000") for _ in range(5)]
        sender = subprocess.Popen(["sh", "-c",
                                   "kill -9 " + " ".join(str(p.pid) for p in [first, *others]) + "; :"])
        sender.wait()
        self.killed(run)
        for p in [first, *others]:
            p.wait()
        self.exited(run, "KILL")  # by then all was read
        self.assertEqual(len(self.h.events("tpu.run.killed_by")), 1)

    def test_a_fault_comes_from_the_kernel(self):
        run, first = self.begin("fault", "/usr/bin/python3", "-c",
                                "import sys, ctypes; sys.stdin.readline(); ctypes.string_at(8)",
                                stdin=subprocess.PIPE)
        first.communicate(b"\n")
        self.assertEqual(self.killed(run)["killed_by"], "SIGSEGV from the kernel")

    def test_out_of_memory(self):
        group = V1_MEMORY / f"tpu-hostd-test-{os.getpid()}"
        limited = real_run.base() / "cgroup.controllers"
        if "memory" in limited.read_text().split() or not os.access(V1_MEMORY, os.W_OK):
            self.skipTest("no memory controller of version 1 to limit a group with; version 2: tests/vm")
        group.mkdir()
        self.addCleanup(lambda: wait_until(lambda: not group.exists()
                                           or not (group / "cgroup.procs").read_text(), 60, "empty")
                        and group.rmdir())
        (group / "memory.limit_in_bytes").write_text(str(48 << 20))
        run, first = self.begin("oom", "/usr/bin/python3", "-c", "import sys; sys.stdin.readline()\n" + EAT,
                                stdin=subprocess.PIPE)
        (group / "cgroup.procs").write_text(str(first.pid))
        first.communicate(b"\n")
        self.assertEqual(first.returncode, -signal.SIGKILL)
        said = self.killed(run)
        self.assertEqual((said["pid"], said["group"]), (first.pid, run.group.name))
        self.assertEqual((said["killed_by"], said["out_of_memory"]),
                         ("SIGKILL from the kernel, out of memory", 1))
        # the kernel's own count of it
        self.assertIn(f"oom_kill {1}", (group / "memory.oom_control").read_text())

    @unittest.skipUnless(FULL, "bpftrace takes seconds to start: FULL=1")
    def test_beside_bpftrace(self):
        if not shutil.which("bpftrace"):
            self.skipTest("there is no bpftrace")
        run, first = self.begin("trace", "sleep", "1000")
        with subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount -t tracefs none /sys/kernel/tracing; '
                                                            'exec "$@"', "sh", "bpftrace", "-e",
                               'BEGIN { printf("begin\\n") } tracepoint:signal:signal_generate /args->sig '
                               '== 9/ '
                               '{ printf("sent %d %s %d\\n", pid, comm, args->pid) }'],
                              stdout=subprocess.PIPE, text=True) as other:
            if not any("begin" in line for line in iter(other.stdout.readline, "")):
                self.skipTest("bpftrace does not run here")
            sender = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -9 {first.pid}; :"])
            sender.wait()
            said = self.killed(run)
            told = (re.match(r"sent (\d+) (\S+) (\d+)", line) for line in iter(other.stdout.readline, ""))
            m = next(m for m in told if m and int(m[3]) == first.pid)
            other.terminate()
        self.assertEqual((said["sender_pid"], said["sender_comm"], said["pid"]),
                         (int(m[1]), m[2], int(m[3])))


if __name__ == "__main__":
    unittest.main()
