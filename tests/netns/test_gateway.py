#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg and the gateway of the only default route, which answers or does not. Needs root; exit code 77
(skipped, with
the reason) where namespaces are not permitted. The programs are those of BUILD_DIR (build/dev)."""
import json
import subprocess
import time

from namespace import run_tests
from netcfg_case import NETCFG, RMEM, Case


class Gateway(Case):
    """The NIC of the only default route: no change that costs the host its gateway stays."""

    def setUp(self):
        super().setUp()
        self.host.on_wire("ip", "addr", "add", "10.10.0.1/24", "dev", "p-eth0")
        self.host.check("ip", "addr", "add", "10.10.0.10/24", "dev", "eth0")
        self.host.check("ip", "route", "add", "default", "via", "10.10.0.1")

    def lose_the_gateway_after(self, answers):
        self.host.on_wire("nft",
                          f"add table arp t; add chain arp t i {{ type filter hook input priority 0; }}; "
                                 f"add rule arp t i arp operation request limit rate over 1/day burst "
                                 f"{answers} packets drop")

    def neighbour(self):
        return self.host.check("ip", "neigh", "show", "10.10.0.1", "dev", "eth0")

    def test_one_that_answers(self):
        took = []
        # 2 s is what a gateway that is silent costs: always
        while not took or (min(took) >= 2 and len(took) < 10):
            self.host.check("ip", "link", "set", "eth0", "mtu", "1460")
            self.host.check("ip", "neigh", "flush", "dev", "eth0")
            start = time.monotonic()
            self.netcfg("--once")
            took.append(time.monotonic() - start)
            self.assertEqual(self.state(), (RMEM, 8896, 8896))
            self.assertIn("REACHABLE", self.neighbour())
        self.assertLess(min(took), 2)

    def test_one_that_is_known_and_stale(self):
        mac = json.loads(subprocess.run(["nsenter", "-t", str(self.host.wire.pid), "-n", "ip", "-j", "link",
                                         "show", "p-eth0"],
                                        check=True, capture_output=True).stdout)[0]["address"]
        self.host.check("ip", "neigh", "replace", "10.10.0.1", "lladdr", mac, "dev", "eth0", "nud", "stale")
        self.netcfg("--once")
        self.assertIn("REACHABLE", self.neighbour())
        self.assertEqual(self.state(), (RMEM, 8896, 8896))

    def test_one_of_ipv6(self):
        self.host.check("ip", "route", "del", "default")
        self.host.on_wire("ip", "addr", "add", "fd00::1/64", "dev", "p-eth0", "nodad")
        self.host.check("ip", "addr", "add", "fd00::10/64", "dev", "eth0", "nodad")
        self.host.check("ip", "-6", "route", "add", "default", "via", "fd00::1")
        # The kernel solicits from a link-local address only, and only once no one else turned out to have
        # it.
        self.wait_for(lambda: self.host.check("ip", "-6", "addr", "show", "tentative"), "")
        self.netcfg("--once")
        self.assertIn("REACHABLE", self.host.check("ip", "neigh", "show", "fd00::1", "dev", "eth0"))
        self.assertEqual(self.state(), (RMEM, 8896, 8896))

    def test_one_that_does_not_answer_before(self):
        self.host.on_wire("ip", "link", "set", "p-eth0", "arp", "off")
        done = self.netcfg("--once", code=2)
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (1460, 8896))
        self.assertIn("does not answer, so a change could not be verified", done.stdout)

    def test_one_that_does_not_answer_after(self):
        self.lose_the_gateway_after(1)
        done = self.netcfg("--once", code=2)
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (1460, 8896))
        self.assertIn("taken back", done.stdout)
        self.assertIn("MTU of eth0: 1460 → 8896 was taken back", done.stderr)

    def test_the_daemon_tries_it_once(self):
        self.lose_the_gateway_after(1)
        self.start()
        with self.host.monitor_links() as events:
            self.host.check("ip", "link", "set", "eth1", "mtu", "1460")
            self.wait_for(lambda: self.host.mtu("eth1"), 8896)
        self.assertEqual([line for line in events if " eth0" in line], [])
        self.assertEqual(self.host.mtu("eth0"), 1460)

    def test_it_is_asked_twice_a_minute_whatever_else_happens(self):
        self.give_runtime()
        self.start()
        self.host.check("ip", "neigh", "change", "10.10.0.1", "dev", "eth0", "nud", "stale")
        end = time.monotonic() + 45
        while "STALE" in self.neighbour() and time.monotonic() < end:
            self.host.check("ip", "link", "set", "eth1", "alias", str(time.monotonic()))
            time.sleep(2)
        self.assertNotIn("STALE", self.neighbour())

    def test_with_another_default_route_nothing_is_asked(self):
        self.host.on_wire("ip", "link", "set", "p-eth0", "arp", "off")
        self.host.check("ip", "addr", "add", "10.10.1.10/24", "dev", "eth1")
        self.host.check("ip", "route", "add", "default", "via", "10.10.1.1", "metric", "9")
        self.netcfg("--once")
        self.assertEqual(self.state(), (RMEM, 8896, 8896))


if __name__ == "__main__":
    run_tests(NETCFG)
