#!/usr/bin/python3
"""tpuctl check path on two booted hosts with the package, while both NICs of both hosts read 8896. Needs root and the packages in build/debs."""

import json
import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class PathMtu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(scenario.slice_lab(2, os.environ.get("TPU_HOSTD_DEBS")))
        cls.h0, cls.h1 = cls.lab.hosts
        for host in cls.lab.hosts:
            for nic in ("eth0", "eth1"):
                host.wait_for(lambda: scenario.link(host, nic)["mtu"] == 8896, 20, f"{host.name} {nic} at 8896")

    def path(self, host, code, *words, user="nobody"):
        """The report; all four NICs read 8896 before and after."""
        for h in self.lab.hosts:
            self.assertEqual([scenario.link(h, nic)["mtu"] for nic in ("eth0", "eth1")], [8896, 8896])
        done = host.run(["tpuctl", "check", "path", "--json", *words], user=user)
        self.assertEqual(done.code, code, done.out + done.err)
        report = json.loads(done.out)
        self.assertLess(report["seconds"], 2)
        return {f["subject"]: (f["verdict"], f["found"]) for f in report["checks"]}

    def test_proven_by_any_user_from_the_workers_names(self):
        ok = ("OK", "8896 bytes pass both ways")
        self.assertEqual(self.path(self.h0, 0), {"eth0→h1 (10.10.0.11)": ok, "eth1→h1-eth1 (10.10.1.11)": ok})
        self.assertEqual(self.path(self.h1, 0), {"eth0→h0 (10.10.0.10)": ok, "eth1→h0-eth1 (10.10.1.10)": ok})

    def test_a_silent_black_hole_is_named(self):
        for nic, address, name in (("eth1", "10.10.1.11", "h1-eth1"), ("eth0", "10.10.0.11", "h1")):
            self.lab.lower_path_mtu(self.h1, nic, 1500)
            try:
                found = self.path(self.h0, 2)
                self.assertEqual(found.pop(f"{nic}→{name} ({address})"), ("FAIL", "1500 bytes pass, 8896 do not (towards the peer)"))
                self.assertEqual({verdict for verdict, _ in found.values()}, {"OK"})
                self.assertGreater(self.lab.dropped(self.h1, nic), 0)
            finally:
                self.h1.heal(nic)
        self.path(self.h0, 0)

    def test_only_when_asked_for(self):
        done = scenario.ctl(self.h0, "check", "--json", check=False)
        self.assertNotIn("path.mtu", done.out)

    def test_the_package_opens_ping_sockets(self):
        self.assertEqual(self.h0.read("/usr/lib/sysctl.d/50-tpu-hostd.conf").split("\n")[-2], "-net.ipv4.ping_group_range = 0 2147483647")
        self.assertEqual(self.h0.sh("cat /proc/sys/net/ipv4/ping_group_range").split(), ["0", "2147483647"])
        # A site that narrows it.
        self.h1.sh("sysctl -qw net.ipv4.ping_group_range='1 0'")
        self.assertEqual(self.path(self.h1, 3), {"": ("UNKNOWN", "not tried: ping sockets are not permitted")})
        self.h1.sh("systemctl restart systemd-sysctl")
        self.path(self.h1, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
