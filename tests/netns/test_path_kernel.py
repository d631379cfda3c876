#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpuctl check path where the packets of the proof pass and this host's own kernel would do something else
with a connection's. Each case is provoked by ip(8), named, and mended by the remedy as it is printed. Needs
root; exit code 77 (skipped, with the reason) where namespaces are not permitted."""
import json
import shlex
import unittest

from namespace import run_tests
from test_path import TPUCTL, Path

PEER = "eth1→10.10.1.13"


class KernelView(Path):
    def look(self, code, nic="eth1", address="10.10.1.13"):
        report = self.path("--peer", f"{nic}={address}", code=code)
        return self.finding(report, f"{nic}→{address}")

    def assert_named(self, code, verdict, found, *words, mended=True):
        f = self.look(code)
        self.assertEqual((f["verdict"], f["found"]), (verdict, found), f)
        for word in words:
            self.assertIn(word, f["reason"], f)
        if mended:
            self.mend(f["remedy"])
            self.assertEqual(self.look(0)["found"], "8896 bytes pass in both directions")
        return f

    def mend(self, remedy):
        """Types the remedy."""
        words = shlex.split(remedy, comments=True)
        self.assertEqual(words[0], "sudo", remedy)
        self.host.check(*words[1:])

    def route(self, *words):
        self.host.check("ip", "route", *words)


class Routes(KernelView):
    def test_a_route_with_a_locked_mtu(self):
        self.route("add", "10.10.1.13/32", "dev", "eth1", "mtu", "lock", "1400")
        self.assert_named(1, "WARN", "this host's kernel holds connections to packets of 1400",
                          "unicast route to 10.10.1.13/32 by eth1 from table main, protocol boot, mtu 1400 "
                          "locked", "typed by a person")

    def test_the_subnets_route_with_mtu_and_advmss(self):
        self.route("replace", "10.10.1.0/24", "dev", "eth1", "proto", "dhcp", "src", "10.10.1.10", "metric",
                   "0", "mtu", "1460", "advmss", "1400")
        self.assert_named(1, "WARN", "this host's route holds connections to packets of 1460, segments of "
                          "1400", "protocol dhcp", "a DHCP client", "the wire is not to blame")

    def test_a_limit_that_tpu_netcfg_copied_is_its_origins(self):
        self.route("replace", "10.10.1.0/24", "dev", "eth1", "proto", "dhcp", "src", "10.10.1.10", "mtu",
                   "1400")
        self.host.check("ip", "rule", "add", "from", "10.10.1.10", "lookup", "847", "priority", "28470")
        self.route("add", "10.10.1.0/24", "dev", "eth1", "table", "847", "proto", "147", "mtu", "1400")
        self.assert_named(1, "WARN", "this host's kernel holds connections to packets of 1400",
                          "from table main, protocol dhcp", mended=False)

    def test_routes_that_reject(self):
        for kind, error in (("blackhole", "Invalid argument"), ("unreachable", "No route to host"),
                            ("prohibit", "Permission denied")):
            with self.subTest(kind):
                self.route("add", kind, "10.10.1.13/32")
                self.assert_named(2, "FAIL", f"this host's kernel sends nothing there ({error})",
                                  f"{kind} route to 10.10.1.13/32 from table main, protocol boot")

    def test_a_more_specific_route_by_another_nic(self):
        self.route("add", "10.10.1.0/25", "dev", "eth0")
        self.assert_named(2, "FAIL", "packets leave by eth0", "packets to 10.10.1.13 leave by eth0 and not "
                          "by eth1", "unicast route to 10.10.1.0/25 by eth0 from table main")

    def test_the_subnet_routed_by_another_nic(self):
        self.route("del", "10.10.1.0/24", "dev", "eth1")
        self.route("add", "10.10.1.0/24", "dev", "eth0")
        f = self.assert_named(2, "FAIL", "packets leave by eth0", "unicast route to 10.10.1.0/24 by eth0")
        self.assertEqual(f["remedy"], "sudo ip route replace 10.10.1.0/24 dev eth1 proto kernel scope link "
                         "src 10.10.1.10")

    def test_the_peers_address_on_a_nic_of_our_own(self):
        self.host.check("ip", "addr", "add", "10.10.1.13/32", "dev", "lo")
        self.assert_named(2, "FAIL", "this host keeps the packets for itself", "this host's own lo")
        self.route("add", "local", "10.10.1.13/32", "dev", "lo")
        self.assert_named(2, "FAIL", "this host keeps the packets for itself", "local route to "
                          "10.10.1.13/32")


class Qdisc(KernelView):
    def limit(self, *words):
        self.host.check("tc", "qdisc", "replace", "dev", "eth1", "root", *words)

    def nic(self, report):
        found = [c for c in report["checks"] if c["check"] == "nic.qdisc"]
        self.assertEqual([(f["subject"], f["verdict"]) for f in found], [("eth1", "WARN")], report)
        return found[0]

    def test_a_left_over_rate_is_named(self):
        self.limit("tbf", "rate", "50mbit", "burst", "64kb", "latency", "400ms")
        f = self.nic(self.path("--peer", "eth1=10.10.1.13", code=1))
        self.assertEqual(f["found"], "tbf rate 50 Mbit/s burst 65536 bytes")
        self.assertEqual(f["remedy"], "sudo tc qdisc del dev eth1 root")
        done = self.host.run(TPUCTL, "check", "nic.qdisc", "--json")
        checks = {c["subject"]: (c["verdict"], c["found"]) for c in json.loads(done.stdout)["checks"]}
        self.assertEqual(checks, {"eth0": ("OK", "noqueue"), "eth1": ("WARN", f["found"])})
        self.mend(f["remedy"])
        self.look(0)
        self.limit("htb")
        self.assertEqual(self.nic(self.path("--peer", "eth1=10.10.1.13", code=1))["found"], "htb")

    def test_a_small_burst_is_this_hosts_fault(self):
        self.limit("tbf", "rate", "50mbit", "burst", "4kb", "latency", "400ms")
        f = self.look(2)
        self.assertEqual(f["verdict"], "FAIL")
        self.assertRegex(f["reason"], r"this host's own queueing discipline on eth1 \(tbf rate 50 Mbit/s "
                         r"burst 4096 bytes\) dropped [1-9]\d* packets while the path was tried")
        self.mend(f["remedy"])
        self.look(0)


class Links(KernelView):
    def checked(self, name):
        done = self.host.run(TPUCTL, "check", "nic.link", "--json")
        return next(c for c in json.loads(done.stdout)["checks"] if c["subject"] == name)

    def test_lo_and_arp(self):
        for words, name, reason in ((("lo", "down"), "lo", "the interface was set down"),
                                    (("eth1", "arp", "off"), "eth1", "ARP is off")):
            self.host.check("ip", "link", "set", *words)
            f = self.checked(name)
            self.assertEqual(f["verdict"], "FAIL", f)
            self.assertIn(reason, f["reason"])
            self.mend(f["remedy"])
            done = self.host.run(TPUCTL, "check", "nic.link", "--json")
            self.assertEqual({c["verdict"] for c in json.loads(done.stdout)["checks"]}, {"OK"})


if __name__ == "__main__":
    run_tests()
