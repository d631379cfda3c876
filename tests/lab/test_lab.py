#!/usr/bin/python3
"""Tests of the lab itself, on booted hosts. Needs root; run it as a program or by unittest."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from lab import Lab, LabError, cgroup, guardian            # noqa: E402  (the path comes first)
from lab.check import check                                 # noqa: E402
from lab.command import sh                                  # noqa: E402
from lab.dummy_deb import build                             # noqa: E402
from lab.tree import cache_dir                              # noqa: E402

# It outlives its SIGTERM; while it is stopped, the host's systemd sends a notification a second (the time
# left).
STUBBORN = ("systemd-run -q --unit=stubborn -p TimeoutStopSec=20 sh -c 'trap \"\" TERM; while :; do sleep "
            "1; done'")

# Sends 1 MB over TCP in the time that an untroubled path needs a thousand times.
RECEIVE = """
import socket
s = socket.create_server(("", 7000)); s.settimeout(5)
c, _ = s.accept(); c.settimeout(5); n = 0
while b := c.recv(65536): n += len(b)
print(n)
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000), 5) as s: s.sendall(bytes(1000000))
"""


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


def traces(lab_id):
    """Returns everything on this machine that carries the name of a lab."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found = [line.split()[1] for line in mounts if lab_id in line]
    for place in ("/run/netns", "/run/systemd/nspawn/propagate", cache_dir() / "labs"):
        found += [str(p) for p in Path(place).glob(f"*{lab_id}*")]
    found += [str(p) for pattern in ("*", "*/*") for p in cgroup.ROOT.glob(f"{pattern}{lab_id}*")]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            mine = lab_id in (entry / "cmdline").read_text() + (entry / "cgroup").read_text()
            # A zombie has ended; it waits for this machine's first process to collect it.
            if mine and "State:\tZ" not in (entry / "status").read_text():
                found.append(f"process {entry.name}")
        except OSError:
            continue
    return found


def start_victim():
    """Starts a process that has a lab with two hosts; returns it and the lab's id."""
    script = "from lab import Lab; import time; l = Lab(2); l.start(); " \
             "l.hosts[0].spawn(['sleep', '600']); print(l.id, flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=TESTS, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


class Hosts(unittest.TestCase):
    """What works on two running hosts with a package installed."""

    @classmethod
    def setUpClass(cls):
        cls.work = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.lab = cls.enterClassContext(Lab(hosts=2, debs=[build(cls.work)],
                                            before_boot=lambda h: h.write("/etc/early", h.name)))
        cls.h0, cls.h1 = cls.lab.hosts

    def pings(self, *options, to=None):
        return self.h0.run(["ping", "-q", "-c1", "-W1", *options, to or self.h1.address()]).code == 0

    def test_boot(self):
        for host in self.lab.hosts:
            self.assertEqual(host.sh("systemctl is-system-running").strip(), "running")
            self.assertEqual(host.sh("hostname; cat /etc/early").split(), [host.name, host.name])
            mtus = host.sh("cat /sys/class/net/eth0/mtu /sys/class/net/eth1/mtu").split()
            self.assertEqual(mtus, ["1460", "1460"])
            self.assertIn(host.address("eth1") + "/24", host.sh("ip -4 -br addr show eth1"))
        self.assertNotEqual(self.h0.read("/etc/machine-id"), self.h1.read("/etc/machine-id"))
        self.assertTrue(self.pings(to="h1") and self.pings(to="h1-eth1") and self.pings(to="10.10.0.1"))

    def test_run(self):
        result = self.h0.run(["sh", "-c", 'echo out "$1" "$V"; echo err >&2; exit 3', "sh", "a $b %c"],
                             env={"V": "x $y"})
        self.assertEqual((result.code, result.out, result.err), (3, "out a $b %c x $y\n", "err\n"))
        self.assertEqual(self.h0.run(["cat"], input="hello\n").out, "hello\n")
        self.assertEqual(self.h0.run(["id", "-un"], user="nobody").out, "nobody\n")
        self.assertEqual(self.h0.run(["sh", "-c", "kill -9 $$"]).code, 255)
        with self.assertRaisesRegex(LabError, "h0: false: exit code 1"):
            self.h0.run(["false"], check=True)

    def test_timeout_ends_the_command(self):
        with self.assertRaisesRegex(LabError, "no end within 0.5 s; it said: begun"):
            self.h0.run(["sh", "-c", "echo begun; sleep 4321; true"], timeout=0.5)
        self.assertEqual(self.h0.run(["pgrep", "-f", "^sleep 4321$"]).code, 1)

    def test_memory_limit_is_real(self):
        grab = ["python3", "-c", "bytearray(96 << 20)"]
        self.assertEqual(self.h0.run(grab, properties=["MemoryMax=256M"]).code, 0)
        self.assertNotEqual(self.h0.run(grab, properties=["MemoryMax=32M"]).code, 0)

    def test_package(self):
        born = set()
        for host in self.lab.hosts:
            status = host.sh("dpkg-query -W -f '${Status}.' lab-dummy libjansson4")
            self.assertEqual(status, "install ok installed." * 2)
            self.assertEqual(host.read("/usr/share/lab-dummy-postinst"), "active\n")
            self.assertEqual(host.sh("systemctl is-active lab-dummy").strip(), "active")
            born.add(host.read("/var/lib/tpu-dummy/born"))
        self.assertEqual(len(born), 2, "the service's state came with the tree")

    def test_files_and_logs(self):
        self.h0.write("/var/run/note", "one")                  # /var/run is an absolute link in the host
        self.assertEqual(self.h0.sh("cat /run/note"), "one")
        self.assertFalse(Path("/run/note").exists())
        self.h0.sh("echo logged-in-h0 | systemd-cat -t labtest")
        self.h0.wait_for(lambda: "logged-in-h0" in self.h0.journal())
        self.assertNotIn("logged-in-h0", self.h1.journal())
        self.assertTrue(any(r["_COMM"] == "systemd" for r in self.h0.journal_records()))

    def test_process_ids(self):
        sleeper = self.h0.spawn(["sleep", "1234"])
        inside = self.h0.wait_for(["pgrep", "-f", "^/usr/bin/sleep 1234$"]).out.strip()
        outside = self.h0.pid_outside(inside)
        self.assertIn("1234", Path(f"/proc/{outside}/cmdline").read_text())
        self.h0.stop_command(sleeper)
        sleeper.communicate()
        self.assertFalse(Path(f"/proc/{outside}").exists())

    def test_cut_and_heal(self):
        self.assertTrue(self.pings())
        self.h1.cut("eth0")
        try:
            self.assertFalse(self.pings())
            self.assertTrue(self.pings(to="h1-eth1"), "the other NIC was cut too")
            self.assertEqual(self.h1.read("/sys/class/net/eth0/carrier").strip(), "1")
            self.assertGreater(self.lab.dropped(), 0)
        finally:
            self.h1.heal("eth0")
        self.assertTrue(self.pings())

    def test_path_mtu(self):
        for host in self.lab.hosts:
            host.sh("ip link set eth1 mtu 8896")
        big = ["-M", "do", "-s", "8000"]
        self.assertTrue(self.pings(*big, to="h1-eth1"))
        self.lab.lower_path_mtu(self.h1, "eth1", 1500)
        self.lab.lower_path_mtu(self.h1, "eth0", 1500)
        try:
            self.assertFalse(self.pings(*big, to="h1-eth1"))
            self.assertTrue(self.pings("-M", "do", "-s", "1472", to="h1-eth1"), "1500 bytes must pass")
            self.assertFalse(self.pings("-M", "do", "-s", "1473", to="h1-eth1"), "1501 bytes must not")
            self.assertGreater(self.lab.dropped(self.h1, "eth1"), 0)
            self.assertEqual(self.transfer("eth0"), "1000000\n", "segments of 1460 bytes fit the path")
            self.assertNotEqual(self.transfer("eth1"), "1000000\n", "segments of 8896 bytes do not")
        finally:
            self.h1.heal("eth0")
            self.h1.heal("eth1")
        self.assertEqual(self.transfer("eth1"), "1000000\n")

    def transfer(self, nic):
        receiver = self.h1.spawn(["python3", "-c", RECEIVE])
        self.h1.wait_for(lambda: ":7000" in self.h1.sh("ss -Hltn"))
        sender = self.h0.spawn(["python3", "-c", SEND, self.h1.address(nic)])
        try:
            return receiver.communicate(timeout=20)[0]
        finally:
            self.h0.stop_command(sender)
            sender.communicate()

    def test_power(self):
        self.h1.sh("echo gone >/run/file; ip link set eth0 mtu 8896; echo kept >/root/file")
        self.h1.kill()
        self.assertFalse(self.h1.up)
        self.assertFalse(self.pings())
        with self.assertRaisesRegex(LabError, "h1 is not up"):
            self.h1.run(["true"])
        self.h1.boot()
        self.assertEqual(self.h1.sh("ls /run/file 2>/dev/null || echo gone"), "gone\n")
        self.assertEqual(self.h1.sh("cat /root/file /sys/class/net/eth0/mtu").split(), ["kept", "1460"])
        self.h1.poweroff()
        self.h1.write("/etc/written-while-off", "yes")
        with self.assertRaisesRegex(LabError, "made by booting"):
            self.h1.write("/run/lost", "")
        self.h1.boot()
        self.assertEqual(self.h1.sh("cat /etc/written-while-off"), "yes")

    def test_slow_stop_freezes_nothing(self):
        self.h1.sh(STUBBORN)
        began = time.monotonic()
        self.h1.sh("systemctl stop --no-block stubborn")
        self.h1.wait_for(lambda: time.monotonic() - began > 18, timeout=30)
        state = "systemctl is-active stubborn; true"
        self.assertIn(self.h1.sh(state, timeout=15).strip(), ("deactivating", "failed"))
        self.h1.wait_for(lambda: self.h1.sh(state, timeout=15).strip() == "failed", timeout=30)
        self.assertEqual(self.h1.run(["systemctl", "is-system-running"], timeout=15).out.strip(), "degraded")
        self.h1.sh("systemctl reset-failed stubborn")

    def test_chips(self):
        fixture = Path(self.work) / "fixture"
        for i in range(4):
            pci = fixture / f"sys/bus/pci/devices/0000:00:0{i + 4}.0"
            accel = fixture / f"sys/class/accel/accel{i}"
            pci.mkdir(parents=True)
            accel.mkdir(parents=True)
            (pci / "vendor").write_text("0x1ae0\n")
            (accel / "device").symlink_to(f"../../../bus/pci/devices/{pci.name}")
        self.h0.bind_chips(fixture)
        self.assertEqual(self.h0.sh("cat /sys/class/accel/accel3/device/vendor"), "0x1ae0\n")
        self.assertEqual(self.h0.sh("stat -c %t:%T:%a /dev/accel3"), "1:3:666\n")
        self.assertEqual(self.h0.sh("ls /sys/class/net").split(), ["eth0", "eth1", "lo"])
        (fixture / "sys/class/accel/accel3/device").unlink()
        (fixture / "sys/class/accel/accel3/device").symlink_to("/nowhere")
        with self.assertRaisesRegex(LabError, "accel3/device: leads nowhere"):
            self.h0.bind_chips(fixture)


class Life(unittest.TestCase):
    """How labs begin and end."""

    def test_four_hosts_and_a_collector(self):
        with Lab(hosts=4, collector=[], unified=True) as lab:
            print(f"4 hosts and a collector up in {lab.boot_seconds:.2f} s", file=sys.stderr)
            self.assertEqual(lab.collector.sh("hostname").strip(), "collector")
            for host in lab.hosts:
                self.assertEqual(host.run(["ping", "-q", "-c1", "-W1", "collector"]).code, 0)
            self.assertEqual(lab.hosts[0].sh("stat -f -c %T /sys/fs/cgroup").strip(), "cgroup2fs")
            lab_id = lab.id
        self.assertEqual(traces(lab_id), [])

    def test_killed_test_leaves_nothing(self):
        process, lab_id = start_victim()
        self.assertGreater(len(traces(lab_id)), 8, "the lab has other names than this test looks for")
        process.kill()
        process.communicate()
        deadline = time.monotonic() + 10
        while (left := traces(lab_id)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(left, [])

    def test_killed_guardian_is_made_up_for(self):
        process, lab_id = start_victim()
        pids = [int(t.split()[1]) for t in traces(lab_id) if t.startswith("process ")]
        (keeper,) = [p for p in pids if "lab.guardian" in Path(f"/proc/{p}/cmdline").read_text()]
        self.assertNotIn(lab_id, guardian.sweep()[0], "a living lab was swept away")
        os.kill(keeper, signal.SIGKILL)
        process.kill()
        process.communicate()
        self.assertGreater(len(traces(lab_id)), 8)
        deadline = time.monotonic() + 10
        # its lock goes with the guardian's last breath, not with our signal
        while lab_id not in guardian.sweep()[0]:
            self.assertLess(time.monotonic(), deadline, "nobody made up for the killed guardian")
            time.sleep(0.05)
        self.assertEqual(traces(lab_id), [])

    def test_failure_to_boot_is_told_and_leaves_nothing(self):
        def spoil(host):
            ids.append(host.lab.id)
            host.write("/usr/lib/lab/init", "#!/bin/sh\necho out of order\nexit 1\n", mode=0o755)

        ids = []
        with self.assertRaisesRegex(LabError, "(?s)h0: ended while booting: .*out of order"):
            Lab(hosts=1, before_boot=spoil).start()
        self.assertEqual(traces(ids[0]), [])

    def test_bad_package_is_named(self):
        with self.assertRaisesRegex(LabError, "/no/such.deb: no such package file"):
            Lab(hosts=1, debs=["/no/such.deb"]).start()

    def test_killed_layer_build_leaves_no_layer(self):
        script = textwrap.dedent("""
            import sys
            from lab import tree
            def slow(layer, work, out):
                (out / "half").touch()
                tree.run_script("mount -t tmpfs tmpfs $OUT; sleep 987; true", {"OUT": out}, "test")
            def quick(layer, work, out):
                (out / "whole").touch()
            layer = tree.Layer("test", "key", None, slow if sys.argv[1] == "slow" else quick)
            layer.leases()
            names = sorted(p.name for p in layer.path.parent.iterdir())
            print(*names, *(p.name for p in layer.path.iterdir()))
        """)
        with tempfile.TemporaryDirectory() as cache:
            env = {**os.environ, "TPU_HOSTD_CACHE": cache}
            slow = subprocess.Popen([sys.executable, "-c", script, "slow"], cwd=TESTS, env=env,
                                    stderr=subprocess.DEVNULL)
            while subprocess.run(["pgrep", "-f", "^sleep 987$"], stdout=subprocess.DEVNULL).returncode:
                time.sleep(0.05)
            slow.kill()
            slow.wait()
            out = subprocess.run([sys.executable, "-c", script, "quick"], cwd=TESTS, env=env, check=True,
                                 capture_output=True, text=True).stdout.split()
            self.assertRegex(out[0], "^test-[0-9a-f]{16}$")
            self.assertEqual(out[1:], ["whole"])
            self.assertEqual(sh("pgrep", "-f", "^sleep 987$", check=False), "")


if __name__ == "__main__":
    unittest.main()
