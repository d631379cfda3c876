#!/usr/bin/python3
"""tpuctl check: the screen of a good host, the order of a bad one."""
import fcntl
import json
import os
import pty
import re
import shutil
import socket
import struct
import subprocess
import termios
import time
import unittest

from ctl_case import Ctl, TPUCTL
from stand_ins import field


class Check(Ctl):
    def owners(self, *owners):
        """tpu-launchd, which tells who has the chips open: (device, pid, unit, command)…"""
        daemon = self.launchd()
        reply = b"".join(field(1, field(1, d) + field(2, p) + field(4, u) + field(5, c)) for d, p, u,
                         c in owners)
        daemon.answers[28] = (29, reply)
        return daemon

    def test_good(self):
        self.owners(("/dev/accel1", 812, "tpu-run-train.service", "python3 train.py"))
        checks = len(json.loads(self.expect(["check", "--json"], 0).stdout)["checks"])
        self.expect(["check"], 0, stderr="", stdout="""\
Chips
OK       tpu.chips                                                      4 v6e (32 GiB of HBM each)                        wanted 4
OK       tpu.machine                                                    4 v6e                                             wanted 4 v6e in a ct6e-standard-4t
OK       tpu.nodes                                                      4 of 4 chips
OK       tpu.access                                                     4 of 4 nodes open to all users
OK       owners              /dev/accel0, /dev/accel2 and 1 more        free
OK       owners              /dev/accel1                                pid 812 tpu-run-train.service: python3 train.py
OK       owners.port                                                    a run holds the chips
OK       lockfile                                                       none

Network
OK       nic.link            eth0, eth1                                 up
OK       nic.mtu             eth0, eth1                                 8896
OK       nic.driver          eth0, eth1                                 gve
OK       nic.speed           eth0, eth1                                 100000 Mbit/s
OK       nic.queues          eth0, eth1                                 4 receive, 4 transmit
OK       nic.count                                                      2
OK       nic.feature         eth0 tx-nocache-copy and 1 more            on
OK       nic.private_flag    eth0 enable-max-rx-buffer-size and 1 more  on
OK       sysctl              net.ipv4.tcp_rmem and 8 more               as wanted
OK       module.parameter    tcp_cubic.hystart_detect                   2
OK       sysctl              net.ipv4.conf.eth0.rp_filter and 1 more    2 (all: 0)
OK       route.rto_min                                                  nothing is wanted of routes
OK       route.source        eth0                                       table 847000002: rules 1, routes 3
OK       route.source        eth1                                       table 847000003: rules 1, routes 4
OK       route.foreign                                                  none takes the run's traffic
OK       route.mtu                                                      no route carries less than its NIC
OK       names               t1v-n-0a1b2c3d-w-0                         10.128.0.5
OK       proxy               /etc/environment, systemd                  none

Host
OK       config                                                         all of it is obeyed
OK       memory.available                                               704.0 GiB of 720.0 GiB available
OK       disk.space          /                                          80.0 of 100.0 GiB free
OK       disk.inodes         /                                          96.0 % free
OK       disk.places                                                    can be written
OK       clock.source                                                   kvm-clock
OK       clock.sync                                                     synchronized
OK       clock.offset                                                   -1.250 ms                                         wanted within 100 ms
OK       thp                                                            [always] madvise never
OK       limits.nofile                                                  100000 in a run
OK       limits.tasks                                                   room for 4193400
OK       limits.ports                                                   32768-60999
OK       limits.cpus                                                    180 of 180
OK       limits.tcp                                                     as the kernel sets it
OK       cmdline                                                        intel_iommu=on,sm_on iommu=pt
OK       tpu_logs                                                       0.0 GiB

Software
OK       tcmalloc                                                       loadable
OK       fingerprint.kernel                                             6.11.0-1015-gcp
OK       fingerprint.wheel   libtpu                                     0.0.21 in /usr/local/lib/python3.10/dist-packages
OK       fingerprint.wheel   jax, jaxlib                                0.7.2 in /usr/local/lib/python3.10/dist-packages

Identity
OK       identity            t1v-n-0a1b2c3d-w-0                         worker 0 of 4 in slice v6e-a

ALL checks: ALL OK, 0 WARN, 0 FAIL, 0 UNKNOWN
OK and alike share a line; each has its own with a name, as in tpuctl check nic
""".replace("ALL", str(checks)))

    def test_a_machine_without_tpus(self):
        """One line, unless more is asked for by name, or somebody says that a TPU should be there."""
        shutil.rmtree(self.root / "sys/bus/pci/devices")
        (self.root / "sys/bus/pci/devices").mkdir()
        config = self.root / "etc/tpu-hostd/identity.conf.d/10-site.conf"
        identity = config.read_text()
        config.unlink()
        self.hostd()  # what it could say besides is not asked
        self.expect(["check"], 0, stderr="", stdout="""\
Chips
OK       tpu.chips    none here, none expected: this machine is not changed

1 check: 1 OK, 0 WARN, 0 FAIL, 0 UNKNOWN
""")
        report = json.loads(self.expect(["check", "--json"], 0).stdout)
        self.assertEqual((report["verdict"], [c["check"] for c in report["checks"]]), ("OK", ["tpu.chips"]))
        self.assertIn("clock.sync", self.expect(["check", "clock"], 0).stdout)
        self.assertIn("tpu.chips", self.expect(["check", "tpu"], 0).stdout)
        config.write_text("[Identity]\nSliceName=a\n")
        self.assertIn("clock.sync", self.expect(["check"], 2).stdout)
        config.write_text("[Identity]\nMachineType=ct6e-standard-4t\n")
        self.assertIn("FAIL     tpu.machine", self.expect(["check"], 2).stdout)
        config.write_text(identity)
        self.assertIn("FAIL     tpu.chips", self.expect(["check"], 2).stdout)

    def test_identity_counts(self):
        config = self.root / "etc/tpu-hostd/identity.conf.d/10-site.conf"
        config.write_text(config.read_text().replace("WorkerId=0", "WorkerId=9"))
        self.assertIn("FAIL     identity.worker_id  ", self.expect(["check", "identity"], 2).stdout)
        self.assertIn("FAIL     identity.worker_id  ", self.expect(["check"], 2).stdout)
        self.assertEqual(self.expect(["check", "nic"], 0).stdout.count("identity"), 0)

    def test_unknown_names(self):
        self.assertIn("  identity    slice,", self.expect(["check", "foo"], 1, stdout="").stderr)
        self.expect(["check", "nic.mtuu"], 3, stdout="",
                    stderr="tpuctl check: no check answers to the name 'nic.mtuu'; "
                    "those that do: tpuctl check nic\n")

    def test_worst_first(self):
        (self.root / "proc/sys/net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
        (self.root / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 40000 kB\n")
        shutil.rmtree(self.root / "sys/bus/pci/devices")
        shutil.copy(self.root / "netlink/links.drift", self.root / "netlink/links")
        done = self.expect(["check"], 2, stderr="")
        groups = {part.split("\n")[0]: [line.split()[:2] for line in part.split("\n")[1:] if line
                                        and line[0].isupper()]
                  for part in done.stdout.split("\n\n")[:-1]}
        # FAIL, WARN, UNKNOWN, OK
        self.assertEqual(list(groups), ["Network", "Host", "Chips", "Software", "Identity"])
        self.assertEqual(groups["Network"][:3],
                         [["FAIL", "nic.mtu"], ["FAIL", "sysctl"], ["OK", "nic.link"]])
        self.assertEqual(groups["Host"][0], ["WARN", "memory.available"])
        self.assertEqual(groups["Chips"][0], ["UNKNOWN", "tpu"])
        self.assertIn("         to do:  sudo tpu-netcfg --once\n", done.stdout)

    def drift(self):
        (self.root / "proc/sys/net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
        shutil.copy(self.root / "netlink/links.drift", self.root / "netlink/links")

    def on_terminal(self, columns, *args, **env):
        """What a terminal of so many columns gets."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([TPUCTL, "--root", self.root, *args], stdin=subprocess.DEVNULL, stdout=theirs,
                              stderr=theirs, env={"PATH": "/usr/bin:/bin", **env}) as p:
            os.close(theirs)
            text = b""
            try:
                while part := os.read(ours, 65536):
                    text += part
            except OSError:  # as a terminal ends
                pass
            os.close(ours)
            p.wait()
        return text.decode().replace("\r\n", "\n")

    def test_fits_80_columns(self):
        self.owners()
        self.drift()
        text = self.on_terminal(80, "check", NO_COLOR="1")
        self.assertNotIn("\033", text)
        long = [line for line in text.splitlines() if len(line) > 80 and "to do: " not in line]
        self.assertEqual(long, [])  # a remedy is whole, so that it can be copied
        self.assertIn("OK       memory.available    704.0 GiB of 720.0 GiB available\n", text)
        self.assertIn("OK       clock.offset        -1.250 ms (wanted within 100 ms)\n", text)
        self.assertIn("FAIL     nic.mtu             eth1: 1460 (wanted 8896)\n", text)
        self.assertRegex(text, r"\n\d+ checks: ")
        wide = self.on_terminal(250, "check")
        self.assertIn("\033[1;31mFAIL   \033[0m  nic.mtu ", wide)
        self.assertEqual(re.sub(r"\033\[[0-9;]*m", "", wide), self.expect(["check"], 2).stdout)

    def test_problems(self):
        self.owners()
        done = self.expect(["check", "--problems"], 0, stderr="")
        self.assertRegex(done.stdout, r"\A\n(\d+) checks: \1 OK, 0 WARN, 0 FAIL, 0 UNKNOWN\n\Z")
        self.assertEqual(json.loads(self.expect(["check", "--problems", "--json"], 0).stdout)["checks"], [])
        self.drift()
        done = self.expect(["check", "--problems"], 2, stderr="")
        self.assertNotIn("\nOK ", done.stdout)
        self.assertRegex(done.stdout, r"\n\d+ checks: \d+ OK, 0 WARN, 2 FAIL, 0 UNKNOWN\n")
        found = json.loads(self.expect(["check", "--problems", "--json"], 2).stdout)["checks"]
        self.assertEqual(sorted(f["check"] for f in found), ["nic.mtu", "sysctl"])

    def test_without_launchd_owners_are_unknown(self):
        done = self.expect(["check", "owners"], 3, stderr="")
        self.assertIn("/run/tpu-launchd/launchd.sock", done.stdout)
        self.assertIn("to do:  systemctl status tpu-launchd", done.stdout)
        (self.root / "tmp/libtpu_lockfile").touch()
        self.expect(["check", "lockfile"], 3)

    def test_stale_lockfile(self):
        self.owners()
        (self.root / "tmp/libtpu_lockfile").touch()
        self.assertIn("to do:  sudo rm /tmp/libtpu_lockfile\n",
                      self.expect(["check", "lockfile"], 1, stderr="").stdout)

    def test_a_silent_launchd_costs_one_line(self):
        path = self.root / "run/tpu-launchd/launchd.sock"
        path.parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(path))
            s.listen()
            start = time.monotonic()
            done = self.expect(["check"], 3, stderr="")
            self.assertLess(time.monotonic() - start, 50)  # it ends by itself: nobody ever answers
        self.assertIn("UNKNOWN  owners", done.stdout)
        self.assertIn("OK       disk.space", done.stdout)

    def test_one(self):
        self.expect(["check", "nic.link"], 0, stderr="",
                    stdout="Network\nOK       nic.link  eth0  up\nOK       nic.link  eth1  up\n\n"
                    "2 checks: 2 OK, 0 WARN, 0 FAIL, 0 UNKNOWN\n")
        (self.root / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 40000 kB\n")
        self.expect(["check", "memory"], 1)
        (self.root / "proc/meminfo").unlink()
        self.expect(["check", "memory.available"], 3)
        (self.root / "netlink/links").unlink()
        self.assertIn("UNKNOWN  nic ", self.expect(["check", "nic.mtu"], 3).stdout)

    def test_json(self):
        report = json.loads(self.expect(["check", "sysctl", "--json"], 0).stdout)
        self.assertEqual((report["host"], report["verdict"], len(report["checks"])),
                         ("t1v-n-0a1b2c3d-w-0", "OK", 10))
        self.assertEqual(report["checks"][0]["found"], "4096 41943040 314572800")

    def test_no_root(self):
        done = subprocess.run([TPUCTL, "check", "--root", "/nonexistent"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 64)
        self.assertIn("/nonexistent", done.stderr)


if __name__ == "__main__":
    unittest.main()
