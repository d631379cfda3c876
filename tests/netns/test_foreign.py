#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Routes, rules and queueing of others on a host with two NICs: each that takes the run's traffic is named
with its owner, what it says to type mends it, and nothing of it is copied or followed. Needs root; exit code
77 (skipped, with the reason) where namespaces are not permitted."""
import json

from namespace import run_tests
from netcfg_case import NETCFG
from test_source_routing import BY_SOURCE, Routed

PEER = "10.10.1.77"


class Foreign(Routed):
    def setUp(self):
        super().setUp()
        self.netcfg("--once")

    def findings(self, *checks):
        report = json.loads(self.host.run(NETCFG, "--dry-run", "--json").stdout)
        return [f for f in report["findings"] if f["check"] in checks and f["verdict"] != "OK"]

    def is_named(self, check, verdict, subject, found, *owner):
        """One finding says it; its remedy, typed as it stands, mends it."""
        alarms = self.findings("route.foreign", "route.mtu", "route.rules", "nic.qdisc")
        self.assertEqual([(f["check"], f["verdict"], f["subject"]) for f in alarms],
                         [(check, verdict, subject)], alarms)
        self.assertIn(found, alarms[0]["found"])
        for words in owner:
            self.assertIn(words, alarms[0]["reason"])
        self.assertTrue(alarms[0]["remedy"].startswith("sudo "), alarms)
        self.host.check("sh", "-c", alarms[0]["remedy"].replace("sudo ", ""))
        self.assertEqual(self.findings("route.foreign", "route.mtu", "route.rules", "nic.qdisc"), [])

    def ours(self):
        return self.table("eth0"), self.table("eth1")

    def device(self, to, *source):
        return json.loads(self.host.check("ip", "-j", "route", "get", to, *source))[0]["dev"]

    def test_part_of_the_subnet_by_another_nic(self):
        before = self.ours()
        self.host.check("ip", "route", "add", "10.10.1.0/25", "dev", "eth0")
        self.assertEqual(self.device(PEER), "eth0")
        self.netcfg("--once", code=2)
        self.assertEqual(self.ours(), before)
        self.assertEqual(self.device(PEER, "from", "10.10.1.10"), "eth1")
        self.is_named("route.foreign", "FAIL", "eth1", "route to 10.10.1.0/25 by eth0", "ip(8), typed")
        self.assertEqual(self.device(PEER), "eth1")

    def test_the_subnet_by_another_nic(self):
        before = self.ours()
        self.host.check("ip", "route", "replace", "10.10.1.0/24", "dev", "eth0")
        self.host.check("ip", "-6", "route", "del", "fd00:1::/64", "dev", "eth1")
        self.netcfg("--once", code=2)
        self.assertEqual(self.ours(), before)
        self.host.check("ip", "-6", "route", "add", "fd00:1::/64", "dev", "eth1", "proto", "kernel",
                        "metric", "256")
        self.is_named("route.foreign", "FAIL", "eth1", "route to 10.10.1.0/24 by eth0", "in place of")
        self.assertEqual(self.device(PEER), "eth1")
        self.netcfg("--once")
        self.assertEqual(self.ours(), before)
        self.assertEqual(self.ways(), BY_SOURCE)

    def test_half_of_all_addresses_by_another_way(self):
        """Beside the default route, not in its place: as VPNs do."""
        for dst in ("0.0.0.0/1", "128.0.0.0/1"):
            self.host.check("ip", "route", "add", dst, "via", "10.10.1.1", "dev", "eth1")
            self.is_named("route.foreign", "WARN", "eth0", f"route to {dst} by eth1 via 10.10.1.1",
                          "comes before the default route", "ip(8), typed")

    def test_gone(self):
        for family, subnet in ((4, "10.10.1.0/24"), (6, "fd00:1::/64")):
            self.host.check("ip", f"-{family}", "route", "del", subnet, "dev", "eth1")
            self.is_named("route.foreign", "FAIL", "eth1", "default route by eth0")

    def test_nowhere(self):
        for kind in ("blackhole", "unreachable", "prohibit"):
            self.host.check("ip", "route", "add", kind, PEER)
            self.is_named("route.foreign", "FAIL", "eth1", f"{kind} route to {PEER}/32")
            self.host.check("ip", "-6", "route", "add", kind, "fd00:1::77")
            self.is_named("route.foreign", "FAIL", "eth1", f"{kind} route to fd00:1::77/128")

    def test_rules(self):
        self.host.check("ip", "route", "add", "default", "via", "10.10.0.1", "table", "77")
        for selector, verdict in ((["from", "10.10.1.10"], "FAIL"), (["to", "10.10.1.0/25"], "FAIL"),
                                  (["uidrange", "1000-2000"], "WARN"), (["dport", "8471"], "WARN")):
            self.host.check("ip", "rule", "add", *selector, "lookup", "77", "priority", "500")
            self.is_named("route.foreign", verdict, "eth1", "rule 500:")

    def test_bystanders(self):
        for words in (["rule", "add", "fwmark", "7", "unreachable", "priority", "50"],
                      ["rule", "add", "fwmark", "8", "lookup", "main", "priority", "51"],
                      ["rule", "add", "from", "10.10.1.10", "lookup", "77", "priority", "52"],
                      ["route", "add", "default", "via", "10.10.1.1", "table", "77"],
                      ["link", "add", "docker0", "type", "bridge"], ["link", "set", "docker0", "up"],
                      ["addr", "add", "172.17.0.1/16", "dev", "docker0"],
                      ["route", "add", "10.10.1.99", "dev", "docker0"],
                      ["link", "add", "vpn0", "type", "bridge"], ["link", "set", "vpn0", "up"],
                      ["addr", "add", "10.200.0.2/24", "dev", "vpn0"],
                      ["route", "add", "10.0.0.0/8", "dev", "vpn0"]):
            self.host.check("ip", *words)
        self.netcfg("--once")
        self.assertEqual(self.findings("route.foreign", "route.mtu"), [])

    def test_a_narrow_route(self):
        self.host.check("ip", "route", "add", PEER, "dev", "eth1", "mtu", "lock", "1400")
        self.is_named("route.mtu", "WARN", f"{PEER}/32 dev eth1", "mtu 1400 locked", "ip(8), typed")
        self.assertNotIn("mtu", self.host.check("ip", "route", "get", PEER))
        self.host.check("ip", "route", "replace", "default", "via", "10.10.1.1", "dev", "eth1", "proto",
                        "dhcp", "metric", "200", "mtu", "1460", "advmss", "1400")
        self.netcfg("--once", code=1)
        self.assertIn("mtu 1460 advmss 1400", self.table("eth1"))  # as the main table has it, and said
        self.is_named("route.mtu", "WARN", "default dev eth1 metric 200", "mtu 1460, advmss 1400",
                      "a DHCP client")
        self.netcfg("--once")
        self.assertNotIn("mtu", self.table("eth1"))
        self.assertEqual(self.ways(), BY_SOURCE)

    def test_a_narrow_route_keeps_its_other_settings(self):
        """Also where routes carry the least retransmission time, which ip(8) prints in other words than it
        takes."""
        self.host.netcfg_conf("[Netcfg]\nRtoMin=routes\n")
        self.host.check("ip", "route", "replace", "default", "via", "10.10.1.1", "dev", "eth1", "metric",
                        "200", "mtu", "1460", "initcwnd", "40", "quickack", "1")
        self.netcfg("--once", code=1)
        self.is_named("route.mtu", "WARN", "default dev eth1 metric 200",
                      "mtu 1460, initcwnd 40, quickack 1", "ip(8), typed")
        left = self.host.check("ip", "route", "show", "default", "dev", "eth1")
        for words in ("initcwnd 40", "quickack 1", "rto_min lock 5ms"):
            self.assertIn(words, left)
        self.assertNotIn("mtu", left)

    def test_a_vpn_over_an_address_without_a_subnet(self):
        for words in (["addr", "flush", "dev", "eth1", "scope", "global"],
                      ["addr", "add", "10.10.1.10/32", "dev", "eth1"],
                      ["route", "add", "10.10.1.1", "dev", "eth1"],
                      ["link", "add", "vpn0", "type", "bridge"], ["link", "set", "vpn0", "up"],
                      ["route", "add", "10.0.0.0/8", "dev", "vpn0"]):
            self.host.check("ip", *words)
        self.is_named("route.foreign", "FAIL", "eth1", "route to 10.0.0.0/8 by vpn0", "ip(8), typed")

    def test_packets_to_a_peer_are_wrapped(self):
        # either needs a module of the kernel
        for how in (["ip6", "id", "7", "dst", "fd00:1::1"], ["mpls", "100", "via", "10.10.1.1"]):
            done = self.host.run("ip", "route", "add", PEER, "encap", *how, "dev", "eth1")
            if done.returncode == 0:
                self.is_named("route.foreign", "FAIL", "eth1", f"route to {PEER}/32 by eth1",
                              "ip(8), typed")

    def test_part_of_the_subnet_by_a_nexthop_object(self):
        self.host.check("ip", "nexthop", "add", "id", "12", "via", "10.10.0.1", "dev", "eth0")
        self.host.check("ip", "route", "add", "10.10.1.0/25", "nhid", "12")
        self.is_named("route.foreign", "FAIL", "eth1", "route to 10.10.1.0/25 by eth0", "ip(8), typed")

    def test_a_queue_that_limits(self):
        self.assertEqual(self.findings("nic.qdisc"), [])
        for rate, words in (("40gbit", "4e+04 Mbit/s"), ("50mbit", "50 Mbit/s")):
            self.host.check("tc", "qdisc", "replace", "dev", "eth1", "root", "tbf", "rate", rate, "burst",
                            "64kb", "latency", "50ms")
            self.is_named("nic.qdisc", "WARN", "eth1", f"tbf rate {words}", "dropped 0 packets so far")
            self.assertNotIn("tbf", self.host.check("tc", "qdisc", "show", "dev", "eth1"))


class Flushed(Routed):
    """ip rule flush, after which nothing finds the main table."""

    def test_by_a_person(self):
        self.netcfg("--once")
        self.host.check("ip", "rule", "flush")
        report = json.loads(self.host.run(NETCFG, "--dry-run", "--json").stdout)
        alarms = [f for f in report["findings"] if f["check"] in ("route.rules", "route.foreign")
                  and f["verdict"] != "OK"]
        self.assertEqual([(f["check"], f["verdict"], f["subject"]) for f in alarms],
                         [("route.rules", "FAIL", "IPv4")])
        self.host.check("sh", "-c", alarms[0]["remedy"].replace("sudo ", ""))
        self.assertIn("dev eth0", self.host.check("ip", "route", "get", "192.0.2.1"))

    def test_the_main_one_alone(self):
        """The last one is still there, and cannot be added again."""
        self.netcfg("--once")
        before = self.host.check("ip", "rule")
        self.host.check("ip", "rule", "del", "pref", "32766")
        self.assertNotIn("lookup default", self.netcfg("--once").stderr)
        self.assertEqual(self.host.check("ip", "rule"), before)

    def test_is_put_back(self):
        self.start()
        self.wait_until_right()
        for family in ("-4", "-6"):
            before = self.host.check("ip", family, "rule")
            self.host.check("ip", family, "rule", "flush")
            self.wait_for(lambda: self.host.check("ip", family, "rule"), before)
        self.assertEqual(self.ways(), BY_SOURCE)


if __name__ == "__main__":
    run_tests(NETCFG)
