#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A NIC that goes while tpu-netcfg is at work: after it was looked at, before it is written to. strace holds
the program in
the middle. Needs root; exit code 77 (skipped, with the reason) where namespaces are not permitted."""
import os
import subprocess

from namespace import DIE_WITH_US, run_tests
from netcfg_case import NETCFG, RMEM, Case

HELD = 400000  # microseconds in each system call that is held


class GoneNic(Case):
    def once_while(self, call, happens, verb="--once"):
        """tpu-netcfg, which waits as long as HELD in its first such call; happens() meanwhile."""
        trace = f"{self.host.tree}/trace"
        words = ["strace", "-f", "-o", trace, "-e", f"trace={call}", "-e",
                 f"inject={call}:delay_enter={HELD}:when=1", NETCFG, verb]
        with subprocess.Popen(DIE_WITH_US + self.host.command(*words), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            self.wait_for(lambda: os.path.exists(trace) and os.path.getsize(trace) > 0, True)
            happens()
            out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def delete(self):
        self.host.check("ip", "link", "del", "eth1")

    def test_after_it_was_read(self):
        """Held while the originals are saved: everything was read, nothing is written."""
        code, out, err = self.once_while("fdatasync", self.delete)
        self.assertEqual(code, 1, out + err)
        self.assertEqual((self.host.sysctl("net.ipv4.tcp_rmem"), self.host.mtu("eth0")), (RMEM, 8896))
        self.assertIn("MTU of eth1: 1460 → 8896: No such device", err)
        self.assertRegex(out, r"WARN +nic\.mtu +eth1 +gone")
        self.assertRegex(out, r"OK +nic\.mtu +eth0 +8896")
        self.assertIn("it went while tpu-netcfg was at work", out)
        self.assertEqual(self.netcfg("--once").stdout.count("eth1"), 0)
        self.assertIn("are of NICs or routes that are gone", self.netcfg("--restore", code=1).stdout)
        self.assertEqual((self.host.sysctl("net.ipv4.tcp_rmem"), self.host.mtu("eth0")), self.before[:2])

    def test_made_anew_meanwhile(self):
        """Of the same name, and another index: not what was planned for: it is left to the next pass."""
        def anew():
            self.delete()
            self.host.add_nic("eth1", 1400)

        code, out, err = self.once_while("fdatasync", anew)
        self.assertEqual((code, self.host.mtu("eth1"), self.host.mtu("eth0")), (2, 1400, 8896), out + err)
        self.assertIn("MTU of eth1: 1460 → 8896: No such device", err)
        self.assertIn("could not be set: No such device", out)
        self.netcfg("--once")
        self.assertEqual(self.state(), (RMEM, 8896, 8896))
        self.host.run(NETCFG, "--restore")
        self.assertEqual((self.host.sysctl("net.ipv4.tcp_rmem"), self.host.mtu("eth0")), self.before[:2])

    def test_while_restoring(self):
        self.netcfg("--once")
        code, out, err = self.once_while("flock", self.delete, "--restore")
        self.assertEqual(code, 1, out + err)
        self.assertIn("are of NICs or routes that are gone", out)
        self.assertEqual((self.host.sysctl("net.ipv4.tcp_rmem"), self.host.mtu("eth0")), self.before[:2])


if __name__ == "__main__":
    run_tests(NETCFG)
