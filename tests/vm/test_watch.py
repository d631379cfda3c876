#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What needs a kernel of its own to be seen: a run's OOM kill under control groups of version 2, its moves
between NUMA nodes, its writers
held back until the disk catches up, its requests to a virtio disk. Exit code 77: cannot run here.

tpu-hostd with its BPF programs runs in a machine of two processors, each a NUMA node of its own;
tpu-launchd's protocol is served from
outside. Each figure is compared with the kernel's own trace or counter of the same moments, taken inside the
machine; equal means equal.
"""

import http.client
import json
import os
import re
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "lab"), str(HERE.parent / "hostd")]

from around import BINARY, Launchd, wait_until  # noqa: E402  (the paths come first)
from vm import initramfs  # noqa: E402
from vm.kernel import Kernel  # noqa: E402
from vm.machine import QEMU, Machine, free_port  # noqa: E402

GROUP = "/sys/fs/cgroup/tpu.slice/tpu-run.slice/tpu-run-train.slice"
RUN = {1: "train", 2: "tpu-run-train.service", 3: "running", 7: "plain", 8: "glibc", 9: "root", 10: "train",
       13: 1, 14: 1}
NODES = ["-smp", "2,sockets=2", "-object", "memory-backend-ram,id=m0,size=384M", "-object",
         "memory-backend-ram,id=m1,size=384M",
         "-numa", "node,nodeid=0,cpus=0,memdev=m0", "-numa", "node,nodeid=1,cpus=1,memdev=m1"]
CONFIG = """[Hostd]
Endpoint=
MetricsInterval=1s
ProbeInterval=10min
SpoolDirectory=/run/spool
ApiSocket=/run/tpu-hostd/api.sock
LaunchdSocket=/run/tpu-launchd/launchd.sock
Journal=/none
[Metadata]
Host=none
"""
# busybox's dd has no oflag=
START = """
set -e
mkdir -p /run/tpu-hostd /run/tpu-launchd /var/lib/tpu-hostd
mount -t cgroup2 none /sys/fs/cgroup
mount -t tracefs none /sys/kernel/tracing
for g in /sys/fs/cgroup /sys/fs/cgroup/tpu.slice /sys/fs/cgroup/tpu.slice/tpu-run.slice; do
    mkdir -p $g
    echo '+memory +io' >$g/cgroup.subtree_control
done
mkdir {group}
socat UNIX-LISTEN:/run/tpu-launchd/launchd.sock,fork TCP:10.0.2.2:{launchd} </dev/null >/dev/null 2>&1 &
socat TCP-LISTEN:7000,fork,reuseaddr UNIX-CONNECT:/run/tpu-hostd/api.sock </dev/null >/dev/null 2>&1 &
tpu-hostd --config /etc/hostd.conf </dev/null >/run/hostd.log 2>&1 &
set +e
"""
IN_RUN = f"sh -c 'echo $$ >{GROUP}/cgroup.procs; exec \"$@\"' sh "
TRIES = 20
SETS = {"bpf_net", "bpf_deaths", "bpf_sched", "bpf_io", "bpf_writers"}


class Watch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder = Path(
                cls.enterClassContext(tempfile.TemporaryDirectory(prefix="tpu-hostd-vm-watch-")))
        cls.launchd = Launchd(folder / "launchd.sock")
        cls.addClassCleanup(cls.launchd.stop)
        cls.launchd.runs = [{**RUN, 11: time.time_ns() // 1000}]

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        tcp = Server(("127.0.0.1", 0), cls.launchd.server.RequestHandlerClass)
        threading.Thread(target=tcp.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        cls.addClassCleanup(lambda: (tcp.shutdown(), tcp.server_close()))
        kernel = Kernel()
        cls.addClassCleanup(lambda: [lease.close() for lease in kernel.leases])
        disk = folder / "disk.img"
        with open(disk, "wb") as f:
            f.truncate(256 << 20)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", str(disk)], check=True)
        programs = {"/usr/sbin/tpu-hostd": BINARY,
                    "/usr/sbin/tpu-hostd-bpf": BINARY.parent / "tpu-hostd-bpf",
                    "/usr/sbin/gnu-dd": shutil.which("dd")}
        initrd = initramfs.build(folder, kernel.modules(), programs, {"/etc/hostd.conf": CONFIG})
        cls.port = free_port()
        cls.machine = Machine(folder, kernel.image, initrd, [
            *NODES, "-device", "virtio-net-pci,netdev=user0,romfile=", "-drive",
            f"file={disk},format=raw,if=none,id=d0,cache=writeback",
            "-device", "virtio-blk-pci,drive=d0"], "quiet", {7000: cls.port}, memory=768)
        cls.addClassCleanup(cls.machine.close)
        cls.machine.start()
        cls.shell = cls.machine.wait_shell()
        cls.shell.run(START.format(group=GROUP, launchd=tcp.server_address[1]))
        wait_until(cls.is_ready, 600, lambda: "the BPF sets; " + cls.shell.run("cat /run/hostd.log"))

    @classmethod
    def is_ready(cls):
        """It answers, knows the run, and has told of every set."""
        try:
            found = {c["check"]: c for c in cls.get("/v1/checks")["checks"] if c["check"].startswith("bpf_")}
            runs = cls.get("/v1/runs").get("runs", [])
        except (OSError, http.client.HTTPException, ValueError):
            return False
        wrong = {k: c["reason"] for k, c in found.items() if c["verdict"] != "OK"}
        assert not wrong, wrong
        return found.keys() == SETS and [j["name"] for j in runs] == ["train"]

    @classmethod
    def get(cls, path):
        c = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=600)
        try:
            c.request("GET", path)
            return json.loads(c.getresponse().read())
        finally:
            c.close()

    def metrics(self, name, word):
        """Values of the series of that name that have the word among their labels."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request("GET", "/metrics")
        lines = c.getresponse().read().decode().splitlines()
        c.close()
        return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{")
                and f'"{word}"' in line]

    def events(self, name):
        return [e["body"] for e in self.get("/v1/events?since=0")["events"] if e["name"] == name]

    def watched(self, kind, script):
        """(what the script printed, what was watched): a watch that began before the script and ended
        behind it; else again."""
        for _ in range(TRIES):
            answer, told = [], len(self.watches())
            asking = threading.Thread(
                    target=lambda: answer.append(self.get(f"/v1/{kind}?run=train&watch=30")))
            asking.start()
            wait_until(lambda: len(self.watches()) > told or answer, 600, "the watch")
            out = self.shell.run(script)
            in_time = not answer
            asking.join()
            self.assertIsNone(answer[0]["not_watched"])
            if in_time:
                return out, answer[0]["watch"]
        self.skipTest("this machine stands still")

    def watches(self):
        return [e for e in self.events("tpu.api.acted") if "is watched" in e["result"]]

    def test_a_death_for_want_of_memory(self):
        said = self.shell.run(f"echo 48M >{GROUP}/memory.max; echo 0 >{GROUP}/memory.swap.max 2>/dev/null\n"
                              f"{IN_RUN} gnu-dd if=/dev/zero of=/dev/null bs=200M count=1 & pid=$!; wait "
                              f"$pid; echo ended $?\n"
                              f"echo victim $pid; grep oom_kill {GROUP}/memory.events; dmesg | grep -i "
                              f"'oom-kill:\\|killed process'; echo max >{GROUP}/memory.max")
        print(said, flush=True)
        victim = int(re.search(r"(?m)^victim (\d+)", said)[1])
        self.assertIn("ended 137", said)
        self.assertIn("oom_kill 1\n", said)  # the control group's own count
        # the kernel's own words
        self.assertRegex(said,
                         rf"oom_memcg={GROUP.removeprefix('/sys/fs/cgroup')},.*task=gnu-dd,pid={victim},")
        told = wait_until(lambda: self.events("tpu.run.killed_by"), 600, "the event")
        print(told, flush=True)
        self.assertEqual([(e["run"], e["pid"], e["comm"], e["group"], e["killed_by"], e["out_of_memory"])
                          for e in told],
                         [("train", victim, "gnu-dd", GROUP.rpartition("/")[2],
                           "SIGKILL from the kernel, out of memory", 1)])
        wait_until(lambda: self.metrics("tpu_run_oom_kills_total", "train") == [1], 600,
                   "the control group's count as a metric")

    def test_moves_between_nodes(self):
        self.assertEqual(self.shell.run("cat /sys/devices/system/node/online").strip(), "0-1")
        out, w = self.watched("sched", "cd /sys/kernel/tracing; echo 1 "
                                       ">events/sched/sched_migrate_task/enable; echo >trace\n"
                              f"taskset 1 {IN_RUN} sh -c 'while :; do :; done' & pid=$!\n"
                              f"while ! grep -qx $pid {GROUP}/cgroup.procs; do :; done; echo >trace\n"
                              "for n in 1 2 3 4 5; do taskset -p 2 $pid; taskset -p 1 $pid; done "
                              ">/dev/null\n"
                              "kill -9 $pid; wait $pid; echo 0 >events/sched/sched_migrate_task/enable\n"
                              "grep \"sched_migrate_task: .* pid=$pid \" trace; echo end")
        moves = re.findall(r"orig_cpu=(\d+) dest_cpu=(\d+)", out)
        print("kernel's trace:", moves, "ours:", w["migrations"], flush=True)
        self.assertEqual(len(moves), 10)
        self.assertEqual(w["migrations"], {"cpus": 10, "nodes": 10})  # each CPU is a node

    def test_writers_held_back(self):
        out, w = self.watched("io", "grep -q ' /data ' /proc/mounts || mount -t ext4 /dev/vda /data\n"
                              "echo 1048576 >/proc/sys/vm/dirty_bytes; echo 524288 "
                              ">/proc/sys/vm/dirty_background_bytes\n"
                              "cd /sys/kernel/tracing; echo 1 >events/writeback/balance_dirty_pages/enable; "
                              "echo >trace\n"
                              f"{IN_RUN} gnu-dd if=/dev/zero of=/data/written bs=64k count=1000 2>&1\n"
                              "echo 0 >events/writeback/balance_dirty_pages/enable; grep "
                              "'gnu-dd-.*balance_dirty_pages:' trace | grep -c ' pause=[1-9]'\n"
                              "umount /data; echo end")
        trace = int(out.split()[-2])
        print("kernel's trace:", trace, "ours:", w["held_back"], flush=True)
        self.assertEqual(w["held_back"], trace)

    def test_requests_to_a_disk(self):
        stat = "grep ' vda ' /proc/diskstats"
        out, w = self.watched("io", f"umount /data 2>/dev/null; {stat}\n"
                              f"{IN_RUN} gnu-dd if=/dev/vda of=/dev/null bs=64k count=40 skip=1024 "
                              f"iflag=direct 2>/dev/null\n"
                              f"{IN_RUN} gnu-dd if=/dev/vda of=/dev/null bs=4k count=25 skip=32768 "
                              f"iflag=direct 2>/dev/null\n{stat}")
        before, after = (list(map(int, line.split()[3:])) for line in out.strip().splitlines())
        requests, sectors, milliseconds = (after[i] - before[i] for i in (0, 2, 3))
        ours = next(r for r in w["requests"] if r["operation"] == "read")
        print("diskstats:", requests, sectors * 512, milliseconds, "ours:", ours, flush=True)
        self.assertEqual((ours["n"], ours["bytes"]), (requests, sectors * 512))
        self.assertEqual(sectors * 512, 40 * (64 << 10) + 25 * (4 << 10))
        self.assertLessEqual(ours["seconds"], (milliseconds + 1) / 1000)
        self.assertEqual({r["disk"] for r in w["slow_requests"]}, {"vda"})


if __name__ == "__main__":
    for program in (QEMU, "busybox", "socat", "cpio", "mke2fs"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            print(f"skipped: there is no {program}: tools/deps vm")
            sys.exit(77)
    if not (BINARY.parent / "tpu-hostd-bpf").exists():
        print("skipped: built without BPF")
        sys.exit(77)
    unittest.main(verbosity=2)
