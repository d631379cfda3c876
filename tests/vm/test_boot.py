#!/usr/bin/python3
"""The package in an image with Debian's own kernel, booted by its own initial file system: what hosts that
share a kernel cannot show.

Module parameters, memory limits, NICs whose device says what the network carries, the host's own kernel log,
cases of tests/lab/cases.py that a shared kernel lacks, a power cut while it runs. Judged by systemctl,
/proc, /sys and ip. Exit code 77: cannot run here.
"""

import json
import os
import re
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "lab"))

import case_bench  # noqa: E402  (the path comes first)
import case_table  # noqa: E402
import scenario  # noqa: E402
from vm import image  # noqa: E402
from vm.kernel import Kernel, packages_layer  # noqa: E402
from vm.machine import QEMU, Machine  # noqa: E402

NIC_MTU = 8896
NICS = ("eth0", "eth1")
HYSTART = "/sys/module/tcp_cubic/parameters/hystart_detect"
# As each segment of a spool has it (agent/uplink/segment.h).
SPOOL_ID = "cd /var/lib/tpu-hostd/spool/events && od -A n -t x8 -j 8 -N 8 *.seg"
SITE = {
    "/etc/hostname": "vm0\n",
    "/etc/hosts": "127.0.0.1 localhost\n10.0.2.15 vm0\n",
    # eth0 by DHCP as on a cloud; both as a network of 1460 has them, until ours says otherwise.
    "/etc/systemd/network/10-eth0.network": "[Match]\nName=eth0\n[Link]\nMTUBytes=1460\n[Network]\n"
                                            "DHCP=ipv4\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n",
    "/etc/systemd/network/10-eth1.network": "[Match]\nName=eth1\n[Link]\nMTUBytes=1460\n[Network]\n"
                                            "Address=10.10.1.10/24\nIPv6AcceptRA=no\n"
                                            "LinkLocalAddressing=no\nConfigureWithoutCarrier=yes\n",
    "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service": "-> /lib/systemd/system/systemd-networkd.service",
    "/etc/tpu-hostd/identity.conf.d/10-site.conf":
        "[Identity]\nSliceName=vm\nAcceleratorType=v6e-4\nMachineType=ct6e-standard-4t\nTopology=2x2\n"
        "WorkerId=0\nWorkerHostnames=vm0\nChips=4\n"
        f"[Network]\nMtu={NIC_MTU}\n",
    # What is emulated on a busy machine may stand still for a minute: no reason to kill an agent here.
    **{f"/etc/systemd/system/{agent}.service.d/emulated.conf": "[Service]\nWatchdogSec=20min\n"
                                                               "TimeoutStartSec=20min\n"
       for agent in scenario.AGENTS},
    # nobody listens
    "/etc/tpu-hostd/hostd.conf.d/10-site.conf": "[Hostd]\nEndpoint=http://127.0.0.1:4318\n"
                                                "MetricsInterval=2s\n",
}
# What is true of this machine: no chips, a second network without a gateway, no time daemon, no Python, so
# little memory that systemd's shares of the kernel's threads are few, nobody at its endpoint.
NOT_RIGHT = {("FAIL", "tpu.chips", ""), ("FAIL", "tpu.machine", ""), ("WARN", "route.source", "eth1"),
             ("WARN", "clock.sync", ""), ("WARN", "enroll.registry", ""),
             ("WARN", "daemon.slice", "DefaultTasksMax"), ("WARN", "daemon.slice", "DefaultLimitNPROC"),
             ("UNKNOWN", "fingerprint.wheel", "")}

# Of the lab's cases those that its kernel has no module for, or that are of a whole machine.
CASES = [c for c in case_table.CASES if c.name in (
    "netem-delay", "netem-loss", "fq-is-no-limit", "vlan", "vrf-takes-the-nic", "bond-takes-the-nic",
    "fair-queue-of-one-packet", "congestion-control-yields")] + [
    case_table.Case("few-neighbours", "sysctl -qw net.ipv4.neigh.default.gc_thresh3=64",
                    words="gc_thresh3", undo="sysctl -qw net.ipv4.neigh.default.gc_thresh3=1024"),
    case_table.Case("memory-only-as-it-is-there", "sysctl -qw vm.overcommit_ratio=100 "
                    "vm.overcommit_memory=2", words="overcommit_memory",
                    undo="sysctl -qw vm.overcommit_memory=0 vm.overcommit_ratio=50"),
]


class Boot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tpu-hostd-vm-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.kernel = Kernel()
        layer = packages_layer([scenario.debs()[0]])
        leases = layer.leases()
        root = image.build(cls.folder, layer, SITE)
        for lease in leases:
            lease.close()
        nic = "virtio-net-pci,host_mtu={},romfile=,netdev={},mac=42:01:0a:00:00:0{}"
        cls.machine = Machine(cls.folder, cls.kernel.image, cls.kernel.initrd, [
            "-device", nic.format(NIC_MTU, "user0", 1), "-netdev", "hubport,id=hub1,hubid=1", "-device",
            nic.format(NIC_MTU, "hub1", 2),
            "-drive", f"file={root},format=raw,if=none,id=root,cache=unsafe", "-device",
            "virtio-blk-pci,drive=root"],
            "root=/dev/vda rw quiet", memory=1024)
        cls.addClassCleanup(cls.machine.close)
        begin = time.monotonic()
        cls.machine.start()
        cls.machine.wait_shell()
        cls.state = cls.sh("systemctl is-system-running --wait; true").strip()
        print(f"booted in {time.monotonic() - begin:.0f} s: {cls.state}", flush=True)

    @classmethod
    def sh(cls, script):
        return cls.machine.shell.run(script)

    def ctl(self, *words):
        return json.loads(self.sh(f"tpuctl {' '.join(words)} --json; true"))

    def finding(self, check, subject):
        found = [f for f in self.ctl("check")["checks"] if (f["check"], f["subject"]) == (check, subject)]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def wait(self, script, seconds=60):
        """Until the line exits 0."""
        self.sh(f"for i in $(seq {seconds * 5}); do ({script}) >/dev/null 2>&1 && break; sleep 0.2; done; "
                f"{script}")

    def sound(self):
        """Nothing failed, all of ours up, never started a second time."""
        self.assertEqual(self.sh("systemctl --failed --plain --no-legend"), "")
        for name in scenario.AGENTS:
            state = dict(line.split("=", 1) for line in self.sh(f"systemctl show {name} -p "
                                                                f"ActiveState,NRestarts,Result").splitlines())
            self.assertEqual(state, {"ActiveState": "active", "NRestarts": "0", "Result": "success"},
                             name + "\n" + self.sh(f"journalctl -b -o short-monotonic --no-pager -u {name} "
                                                   f"| tail -n 40"))

    def test_1_up(self):
        self.assertEqual(self.state, "running")
        self.assertRegex(self.sh("uname -r"), r"^6\.1\.")
        self.assertEqual(self.sh("uname -r").strip(), self.kernel.release)
        self.sound()

    def test_2_nics(self):
        for nic in NICS:
            with self.subTest(nic):
                link = json.loads(self.sh(f"ip -j -d link show {nic}"))[0]
                self.assertEqual((link["mtu"], link["max_mtu"]), (NIC_MTU, NIC_MTU))
                self.assertEqual(self.finding("nic.mtu", nic)["verdict"], "OK")
        self.assertEqual(self.sh("cat /proc/sys/net/ipv4/tcp_rmem").split(), scenario.WANTED_RMEM.split())
        self.sh("ip link set eth1 mtu 1460")
        self.wait(f"ip link show eth1 | grep 'mtu {NIC_MTU}'")

    def test_3_hystart_detect(self):
        self.assertEqual(self.sh(f"cat {HYSTART}").strip(), "2")
        f = self.finding("module.parameter", "tcp_cubic.hystart_detect")
        self.assertEqual((f["verdict"], f["found"], f["wanted"]), ("OK", "2", "2"))
        self.sh(f"echo 3 >{HYSTART}")  # the kernel's own
        f = self.finding("module.parameter", "tcp_cubic.hystart_detect")
        self.assertEqual((f["found"], f["wanted"]), ("3", "2"))
        self.assertIn(f["verdict"], ("WARN", "FAIL"))
        print(f"remedy: {f['remedy']}", flush=True)
        for remedy in ("tpu-netcfg --once", "systemctl restart tpu-netcfg"):
            self.sh(f"echo 3 >{HYSTART}; {remedy} || true")  # --once warns of what else is not right here
            self.assertEqual(self.finding("module.parameter", "tcp_cubic.hystart_detect")["verdict"], "OK")
        self.sh("tpu-netcfg --restore || true")
        self.assertEqual(self.sh(f"cat {HYSTART}").strip(), "3")
        self.sh("tpu-netcfg --once || true")
        self.assertEqual(self.sh(f"cat {HYSTART}").strip(), "2")

    def test_4_limits(self):
        for name in scenario.AGENTS:
            with self.subTest(name):
                wanted = self.sh(f"sed -n 's/^MemoryMax=//p' /lib/systemd/system/{name}.service").strip()
                folder = f"/sys/fs/cgroup/system.slice/{name}.service"
                self.assertEqual(self.sh(f"cat {folder}/memory.max").strip(),
                                 str(int(wanted.rstrip("M")) << 20))
                print(f"{name}: memory.max {wanted}, memory.current "
                      f"{int(self.sh(f'cat {folder}/memory.current')) >> 10} KiB, "
                      f"memory.peak {self.sh(f'cat {folder}/memory.peak').strip()}", flush=True)

    def test_5_run_beyond_its_memory(self):
        self.sh("useradd alice; tpuctl run --name fat --user alice -- sh -c 'sleep 5; exec tail /dev/zero'")
        self.sh("systemctl set-property --runtime tpu-run-fat.slice MemoryMax=32M MemorySwapMax=0")
        self.wait("tpuctl runs --json | grep -q exited", 120)
        run = next(j for j in self.ctl("runs")["runs"] if j["name"] == "fat")
        self.assertEqual((run["state"], run["cause"]), ("exited", "oom-kill"), run)
        self.sound()

    def test_6_check_answers(self):
        code = int(self.sh("tpuctl check >/run/check.txt; echo $?"))
        self.assertIn(code, range(4))
        print(self.sh("tail -n 2 /run/check.txt"), flush=True)
        wrong = {(f["verdict"], f["check"], f["subject"]) for f in self.ctl("check")["checks"]
                 if f["verdict"] != "OK" and f["check"] != "clock.source"}  # whatever emulation gives it
        self.assertEqual(wrong, NOT_RIGHT)

    def not_right(self):
        """{key: the finding}: what is not OK, also of the paths. What an emulated machine is too slow for is
        no finding."""
        found = self.ctl("check")["checks"] + self.ctl("check path")["checks"]
        return {case_bench.Bench.key(f): f for f in found
                if f["verdict"] != "OK" and not f["found"].startswith("no answer within")
                and (f["verdict"], f["check"], f["subject"]) not in NOT_RIGHT}

    def attempt(self, case, usual):
        """What came of it, as a line of the lab's table."""
        self.sh(f"({case.do}) && sleep 3")
        news = [f for key, f in self.not_right().items() if key not in usual]
        found = [f for f in news if case.words and re.search(case.words, case_bench.line(f), re.I)]
        if case.kind == "calm":
            self.assertEqual([case_bench.line(f) for f in news], [], case.name)
            return "calm"
        self.assertTrue(found, f"{case.name}: {[case_bench.line(f) for f in news]}")
        left = self.mend(found, usual)
        self.assertEqual([case_bench.line(f) for f in left], [], f"{case.name} after its remedies")
        return f"named, mended: {case_bench.line(found[0])}"

    def mend(self, left, usual):
        """Types what is printed, then what is printed of what is left. Returns what stays."""
        for _ in range(4):
            if left:
                self.sh(f"(\n{left[0].get('remedy') or ''}\n) </dev/null >/dev/null 2>&1; sleep 3")
                left = [f for key, f in self.not_right().items() if key not in usual]
        return left

    def test_6_other_cases(self):
        self.sh(f"printf '%s' '{case_bench.SUDO}' >/usr/local/bin/sudo; chmod 755 /usr/local/bin/sudo")
        usual = self.not_right()
        for case in CASES:
            with self.subTest(case.name):
                try:
                    print(f"{case.name:28} {self.attempt(case, usual)}", flush=True)
                finally:
                    self.sh(f"({case.undo}) </dev/null >/dev/null 2>&1; sleep 3")
        self.sound()

    def test_7_reset(self):
        """The reset button while it runs: it comes up again, with the spool it had, and remembers what it
        was ordered."""
        self.sh("tpuctl cordon 'bad cable'")
        spool = self.sh(SPOOL_ID).strip()
        begin = time.monotonic()
        self.machine.reset(lambda: None)
        self.machine.wait_shell()
        print(f"up again after {time.monotonic() - begin:.0f} s", flush=True)
        self.assertEqual(self.sh("systemctl is-system-running --wait; true").strip(), "running")
        self.sound()
        self.assertEqual(self.sh(f"cat {HYSTART}").strip(), "2")
        self.assertEqual(self.sh(SPOOL_ID).strip(), spool)
        self.assertEqual(self.ctl("status")["cordon"]["reason"], "bad cable")


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(map(shutil.which, (QEMU, "mke2fs"))):
        print("cannot run: needs root and the packages of tools/deps vm")
        sys.exit(77)
    unittest.main(verbosity=2)
