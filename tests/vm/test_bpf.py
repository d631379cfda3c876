#!/usr/bin/python3
"""Every BPF program on kernels of others: 5.10 (Debian 11), 6.1 (12), 6.12 (13), each in a machine of its
own. Exit code 77: cannot run here.

What is asked: the verifier takes each program whose hook the kernel has, it is attached, and what the
network's programs count is
what the kernel's own counters say. Loaded by the packaged loader, as root of a machine that has nothing but
it and a shell.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "lab"))

from vm import initramfs  # noqa: E402  (the path comes first)
from vm.kernel import Kernel  # noqa: E402
from vm.machine import QEMU, Machine  # noqa: E402
from vm.suite_kernel import SuiteKernel  # noqa: E402

BUILD = Path(os.environ.get("BUILD_DIR", HERE.parents[1] / "build/dev"))
PROGRAMS = {"/usr/sbin/tpu-hostd-bpf": BUILD / "agent/hostd/tpu-hostd-bpf",
            "/usr/sbin/bpf-holder": BUILD / "tests/bpf/bpf-holder",
            "/usr/sbin/nstat": shutil.which("nstat"), "/usr/sbin/setpriv": shutil.which("setpriv"),
            "/data/ip": shutil.which("ip")}  # busybox has an ip of its own, by ioctl
# Where a kernel lacks a hook, the reason says so; nothing else may be missing.
ABSENT = re.compile(r"^(this kernel has no (tracepoint|function) \w+(; )?)+$")
KERNELS = {"5.10": lambda: SuiteKernel("bullseye"), "6.1": Kernel, "6.12": lambda: SuiteKernel("trixie")}
# As nobody with the two capabilities, for whom a watch is what tpu-hostd has; the connections are of a
# control group.
AS_NOBODY = "/usr/sbin/setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all,+bpf,+perfmon --ambient-caps=-all,+bpf,+perfmon " \
    "--bounding-set=-all,+bpf,+perfmon"
COUNT = rf"""
lines() {{ # until so many were said; what is emulated takes minutes
    for i in $(seq 3000); do
        [ "$(wc -l </tmp/said)" -lt "$1" ] || return 0
        sleep 0.2
    done
}}
chmod 755 / /usr /usr/sbin /lib /lib64 /tmp
mkdir -p /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mkdir /sys/fs/cgroup/ours
stat -c 'group %i' /sys/fs/cgroup/ours
mkfifo /tmp/ask
chmod 666 /tmp/ask
: >/tmp/said
ulimit -l 65536 # as the service has it: before 5.11 the kernel counts maps by it
({AS_NOBODY} bpf-holder /usr/sbin/tpu-hostd-bpf </tmp/ask >/tmp/said 2>&1 &)
exec 3>/tmp/ask
lines 1
nstat -asz | grep '^TcpActiveOpens '
for port in 1 2 3 4 5; do
    sh -c "echo 0 >/sys/fs/cgroup/ours/cgroup.procs; exec socat -u OPEN:/dev/null TCP:127.0.0.1:$port" 2>/dev/null
done
echo net >&3
lines 2
for set in sched io; do
    echo "watch $set" >&3
    echo "unwatch $set" >&3
done
lines 6
in_ours() {{ (echo 0 >/sys/fs/cgroup/ours/cgroup.procs; exec "$@"); }}
in_ours busybox sysctl -w net.ipv4.tcp_rmem='4096 87380 6291456' >/dev/null
in_ours /data/ip link set lo mtu 1460
in_ours busybox ip rule add from 10.9.8.7 lookup 77
in_ours busybox ifconfig lo mtu 1500
busybox ip link >/dev/null # which only reads
for writer in "0 0 tcp_rmem ipv4" "0 0 tcp_wmem ipv4" "1 1 - -" "1 0 lo -" "3 0 - -" "2 0 - -"; do
    echo "writer $writer" >&3
done
lines 12
exec 3>&-
cat /tmp/said
nstat -asz | grep '^TcpActiveOpens '
"""
REFUSED = "this kernel attaches BPF programs for processes with CAP_BPF alone (Linux before 5.19)"


class Bpf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """TPU_HOSTD_DEBS: a folder of packages, whose loader is tried in the place of the build's."""
        if debs := os.environ.get("TPU_HOSTD_DEBS"):
            folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="tpu-hostd-vm-bpf-"))
            deb, = Path(debs).glob("tpu-hostd_*.deb")
            subprocess.run(["dpkg-deb", "-x", deb, folder], check=True)
            PROGRAMS["/usr/sbin/tpu-hostd-bpf"] = Path(folder, "usr/lib/tpu-hostd/tpu-hostd-bpf")

    def boot(self, kernel):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="tpu-hostd-vm-bpf-")))
        initrd = initramfs.build(folder, [m for m in kernel.modules() if "blk" not in m.name], PROGRAMS)
        machine = Machine(folder, kernel.image, initrd, ["-device", "virtio-net-pci,netdev=user0,romfile="],
                          "quiet", memory=1024)
        self.addCleanup(machine.close)
        begin = time.monotonic()
        machine.start()
        shell = machine.wait_shell()
        print(f"{shell.run('uname -r').strip()}: booted in {time.monotonic() - begin:.0f} s", flush=True)
        return shell

    def one(self, version):
        kernel = KERNELS[version]()
        self.addCleanup(lambda: [lease.close() for lease in kernel.leases])
        shell = self.boot(kernel)
        self.assertTrue(shell.run("uname -r").strip().startswith(version + "."))
        said = shell.run("tpu-hostd-bpf; true")
        print(said, flush=True)
        sets = re.findall(r"(?m)^(\w+) (OK|UNKNOWN): (\d+) of (\d+) programs(?:: (.*))?$", said)
        self.assertIn("net", [s[0] for s in sets], said)
        for name, verdict, loaded, programs, reason in sets:
            with self.subTest(version, set=name):
                if verdict == "OK":
                    self.assertEqual(loaded, programs)
                else:
                    if not ABSENT.match(reason):
                        print(shell.run("tpu-hostd-bpf --verbose 2>&1 | grep -B 12 -A 3 'END PROG LOAD "
                                        "LOG'; true"), flush=True)
                    self.assertRegex(reason, ABSENT)
                    self.assertGreater(int(loaded), 0)
        self.counted(shell.run(COUNT), version)

    def counted(self, said, version):
        """What programs of nobody's counted, beside the kernel's own counter and the inode of the control
        group."""
        print(said[:2000], flush=True)
        self.assertRegex(said, r'"connect_failures": 5,', said)
        before, after = map(int, re.findall(r"(?m)^TcpActiveOpens +(\d+) ", said))
        self.assertEqual(after - before, 5, said)
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        group = int(re.search(r"(?m)^group (\d+)$", said)[1])
        self.assertEqual({p["cgroup"] for p in lines[1]["peers"]}, {group}, said)
        sets = {s["name"]: s for s in lines[0]["sets"]}
        self.written([json.loads(line) for line in said.splitlines()
                      if line == "null" or line.startswith('{"pid": ') and '"sets"' not in line])
        watched = list(map(int, re.findall(r"(?m)^(-?\d+)$", said)))
        if version == "5.10":
            self.assertEqual(watched, [-1, 0, -1, 0])  # EPERM
            for name in ("sched", "io"):
                self.assertEqual(sets[name]["verdict"], "UNKNOWN")
                self.assertIn(REFUSED, sets[name]["reason"])
        else:
            self.assertEqual(watched, [0, 0, 0, 0])
            for name in ("sched", "io"):
                self.assertNotIn(REFUSED, sets[name]["reason"])

    def written(self, writers):
        """Who sets a sysctl, a link by rtnetlink and by ioctl, a rule; nobody another sysctl or a route."""
        for index, command in ((0, "busybox sysctl -w net/ipv4/tcp_rmem=4096 87380 6291456"),
                               (2, "/data/ip link set lo mtu 1460"), (3, "busybox ifconfig lo mtu 1500"),
                               (4, "busybox ip rule add from 10.9.8.7 lookup 77")):
            with self.subTest(command):
                self.assertEqual((writers[index]["group"], writers[index]["command"]), ("ours", command))
                self.assertGreater(writers[index]["pid"], 1)
                self.assertGreater(writers[index]["parent"], 0)
        self.assertEqual([writers[1], writers[5]], [None, None])

    def test_5_10(self):
        self.one("5.10")

    def test_6_1(self):
        self.one("6.1")

    def test_6_12(self):
        self.one("6.12")


if __name__ == "__main__":
    for program in (QEMU, "busybox", "socat", "cpio", "nstat"):
        if not shutil.which(program):
            print(f"skipped: there is no {program}: tools/deps vm")
            sys.exit(77)
    if not PROGRAMS["/usr/sbin/tpu-hostd-bpf"].exists():
        print("skipped: built without BPF")
        sys.exit(77)
    unittest.main(verbosity=2)
