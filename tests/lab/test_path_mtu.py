#!/usr/bin/python3
"""tpuctl check path on two booted hosts with the package, while both NICs of both hosts read 8896. Needs
root and the packages in build/debs."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402


ASK = """
import http.client, socket, sys
c = http.client.HTTPConnection("localhost", timeout=10)
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect("/run/tpu-hostd/api.sock")
c.request(sys.argv[1], "/v1/path")
r = c.getresponse()
print(r.status, r.read().decode())
"""


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
                host.wait_for(lambda: scenario.link(host, nic)["mtu"] == 8896, 20,
                              f"{host.name} {nic} at 8896")

    def path(self, host, code, *words, user="nobody"):
        """The report; all four NICs read 8896 before and after."""
        for h in self.lab.hosts:
            self.assertEqual([scenario.link(h, nic)["mtu"] for nic in ("eth0", "eth1")], [8896, 8896])
        done = host.run(["tpuctl", "check", "path", "--json", *words], user=user)
        self.assertEqual(done.code, code, done.out + done.err)
        report = json.loads(done.out)
        return {f["subject"]: (f["verdict"], f["found"]) for f in report["checks"]}

    def test_proven_by_any_user_from_the_workers_names(self):
        ok = ("OK", "8896 bytes pass in both directions")
        self.assertEqual(self.path(self.h0, 0),
                         {"eth0→h1 (10.10.0.11)": ok, "eth1→h1-eth1 (10.10.1.11)": ok})
        self.assertEqual(self.path(self.h1, 0),
                         {"eth0→h0 (10.10.0.10)": ok, "eth1→h0-eth1 (10.10.1.10)": ok})

    def test_a_silent_black_hole_is_named(self):
        for nic, address, name in (("eth1", "10.10.1.11", "h1-eth1"), ("eth0", "10.10.0.11", "h1")):
            self.lab.lower_path_mtu(self.h1, nic, 1500)
            try:
                found = self.path(self.h0, 2)
                self.assertEqual(found.pop(f"{nic}→{name} ({address})"),
                                 ("FAIL", "1500 bytes pass, 8896 do not (towards the peer)"))
                self.assertEqual({verdict for verdict, _ in found.values()}, {"OK"})
                self.assertGreater(self.lab.dropped(self.h1, nic), 0)
            finally:
                self.h1.heal(nic)
        self.path(self.h0, 0)

    def ask_agent(self, method, user="root"):
        done = self.h0.run(["/usr/bin/python3", "-c", ASK, method], user=user, check=True)
        status, _, body = done.out.partition(" ")
        return int(status), json.loads(body)

    def test_the_agent_proves_it_too(self):
        """In the hardened unit, by the agent's own user."""
        self.lab.lower_path_mtu(self.h1, "eth1", 1500, "from")
        try:
            status, report = self.ask_agent("POST")
        finally:
            self.h1.heal("eth1")
        self.assertEqual(status, 200, report)
        found = {f["subject"]: (f["verdict"], f["found"]) for f in report["checks"]}
        self.assertEqual(found, {"eth0→h1 (10.10.0.11)": ("OK", "8896 bytes pass in both directions"),
                                 "eth1→h1-eth1 (10.10.1.11)": ("FAIL", "1500 bytes pass, 8896 do not (from "
                                                                       "the peer)")})
        self.assertEqual(self.ask_agent("GET"), (200, report))
        self.assertEqual(scenario.unit(self.h0, "tpu-hostd", "NRestarts")["NRestarts"], "0")

    def test_only_when_asked_for(self):
        done = scenario.ctl(self.h0, "check", "--json", check=False)
        self.assertNotIn("path.mtu", done.out)

    def test_ping_sockets_are_opened(self):
        self.assertEqual(self.h0.sh("cat /proc/sys/net/ipv4/ping_group_range").split(), ["0", "2147483647"])
        # A site that narrows it.
        site = "/etc/tpu-hostd/netcfg.conf.d/50-ping.conf"
        self.h1.sh(f"mkdir -p /etc/tpu-hostd/netcfg.conf.d; echo '[Netcfg]' >{site}; "
                   f"echo IgnoreSettings=net.ipv4.ping_group_range >>{site}; "
                   "systemctl restart tpu-netcfg; sysctl -qw net.ipv4.ping_group_range='1 0'")
        self.assertEqual(self.path(self.h1, 3),
                         {"": ("UNKNOWN", "not tried: ping sockets are not permitted")})
        self.h1.sh(f"rm {site}; systemctl restart tpu-netcfg")
        self.path(self.h1, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
