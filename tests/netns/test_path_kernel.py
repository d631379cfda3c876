#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpuctl check path where the packets of the proof pass and this host's own kernel would do something else
with a connection's. Each case is provoked by ip(8), named, and mended by the remedy as it is printed. Needs
root; exit code 77 (skipped, with the reason) where namespaces are not permitted."""
import json
import shlex
import subprocess
import sys

from namespace import run_tests
from test_path import TPUCTL, Path

SERVER = """
import socket
listening = socket.create_server(("10.10.1.13", 5000))
print("ready", flush=True)
connection = listening.accept()[0]
while connection.recv(65536):
    pass
"""
CLIENT = """
import socket, time
connection = socket.create_connection(("10.10.1.13", 5000), source_address=("10.10.1.10", 0))
connection.sendall(bytes(1000000))
print("sent", flush=True)
time.sleep(60)
"""
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

    def test_the_subnets_route_stands_behind_another_nics(self):
        self.host.check("ip", "addr", "add", "10.10.1.78/24", "dev", "eth0")
        self.route("del", "10.10.1.0/24", "dev", "eth1")
        self.route("append", "10.10.1.0/24", "dev", "eth1", "proto", "kernel", "scope", "link", "src",
                   "10.10.1.10")
        self.assert_named(2, "FAIL", "packets leave by eth0", "unicast route to 10.10.1.0/24 by eth0")

    def test_the_peers_address_on_a_nic_of_our_own(self):
        self.host.check("ip", "addr", "add", "10.10.1.13/32", "dev", "lo")
        self.assert_named(2, "FAIL", "this host keeps the packets for itself", "this host's own lo")
        self.route("add", "local", "10.10.1.13/32", "dev", "lo")
        self.assert_named(2, "FAIL", "this host keeps the packets for itself", "local route to "
                          "10.10.1.13/32")


    def test_the_peers_address_on_a_link_that_is_no_data_centre_nic(self):
        self.host.check("ip", "link", "add", "dm0", "type", "bridge")
        self.host.check("ip", "addr", "add", "10.10.1.13/32", "dev", "dm0")
        self.assert_named(2, "FAIL", "this host keeps the packets for itself", "this host's own dm0")

    def test_a_neighbour_by_a_gateway_that_leads_nowhere(self):
        self.host.check("ip", "route", "add", "10.10.1.13/32", "via", "10.10.1.14", "dev", "eth1")
        self.assert_named(2, "FAIL", "no answer to an echo of any size", "the peer is in the subnet of eth1",
                          "unicast route to 10.10.1.13/32 by eth1 via 10.10.1.14")


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


class Loss(KernelView):
    def lost(self):
        report = self.path("--peer", "eth1=10.10.1.13", code=1)
        found = [c for c in report["checks"] if c["check"] == "path.loss"]
        self.assertEqual([(f["subject"], f["verdict"]) for f in found], [(PEER, "WARN")], report)
        self.assertRegex(found[0]["found"], r"^\d+ of 40 small echoes lost$")
        return found[0]

    def test_one_packet_in_five_one_way(self):
        self.drop("there", '"p-eth1" numgen inc mod 5 < 1')
        f = self.lost()
        self.assertIn(int(f["found"].split()[0]), range(7, 10))
        self.assertIn("direction UNKNOWN", f["reason"])
        self.peer("nft", "flush", "chain", "inet", "fault", "there")
        self.look(0)
        self.drop("back", '"p-eth1" numgen inc mod 5 < 1')
        self.lost()

    def test_one_lost_packet_is_chance(self):
        self.drop("there", '"p-eth1" numgen inc mod 30 == 29')
        self.look(0)

    def test_a_connection_is_looked_at(self):
        """Its segments are small because the peer asked for that: named, though full packets pass."""
        self.peer("ip", "route", "add", "10.10.1.10/32", "dev", "p-eth1", "advmss", "1000")
        server = subprocess.Popen(["nsenter", "-t", str(self.host.wire.pid), "-n", sys.executable, "-c",
                                   SERVER], stdout=subprocess.PIPE, text=True)
        client = None
        try:
            self.assertEqual(server.stdout.readline(), "ready\n")
            client = subprocess.Popen(self.host.command(sys.executable, "-c", CLIENT),
                                      stdout=subprocess.PIPE, text=True)
            self.assertEqual(client.stdout.readline(), "sent\n")
            report = self.path("--peer", "eth1=10.10.1.13", code=1)
            kernel = report["results"][0]["kernel"]
            self.assertEqual((kernel["connected"], kernel["pmtu"]), (True, 8896), kernel)
            f = self.finding(report, PEER)
            self.assertEqual(f["found"], f"a connection's segments have {kernel['mss']} bytes")
            self.assertIn("the peer, its route back or a firewall between asked", f["reason"])
        finally:
            for process in (server, client):
                if process:
                    process.kill()
                    process.communicate()
        self.assertFalse(self.path("--peer", "eth1=10.10.1.13")["results"][0]["kernel"]["connected"])


class Tcp(KernelView):
    """What a filter of TCP does while every echo passes."""

    def filter(self, hook, words, run):
        run("nft", f"table ip site {{ chain c {{ type filter hook {hook} priority 0; {words}\n}}\n}}")

    def named(self, *words):
        report = self.path("--peer", "eth1=10.10.1.13", code=2)
        f = next(c for c in report["checks"] if c["check"] == "path.tcp")
        self.assertEqual((f["verdict"], f["found"]), ("FAIL", "no answer"), f)
        for word in words:
            self.assertIn(word, f["reason"], f)

    def test_a_port_that_the_peer_drops(self):
        self.assertEqual(self.path("--peer", "eth1=10.10.1.13")["results"][0]["tcp"], "refuses")
        self.filter("input", "tcp dport 8471 drop;", self.peer)
        self.named("TCP to port 8471 gets no answer: a firewall on 10.10.1.13, or between")

    def test_a_port_that_this_host_drops(self):
        self.filter("output", "ip daddr 10.10.1.13 tcp dport 8471 drop;", self.host.check)
        self.named("TCP to port 8471 does not leave this host: its packet filter")

    def test_what_peers_send_is_dropped_here(self):
        self.filter("input", "tcp dport 8471 drop;", self.host.check)
        self.named("TCP to port 8471 of this host's own 10.10.1.10 gets no answer even here")


class NextHop(KernelView):
    def test_a_fixed_entry_with_a_wrong_mac(self):
        self.host.check("ip", "neigh", "replace", "10.10.1.13", "lladdr", "02:00:00:00:00:99", "dev", "eth1")
        self.assert_named(2, "FAIL", "no answer to an echo of any size",
                          "10.10.1.13 on eth1 is 02:00:00:00:00:99")

    def test_a_silent_gateway(self):
        self.route("add", "default", "via", "10.10.1.77", "dev", "eth1")
        f = self.look(2, address="10.30.0.1")
        self.assertIn("the gateway 10.10.1.77 does not answer on eth1", f["reason"])
        checks = json.loads(self.host.run(TPUCTL, "check", "nic.gateway", "--json").stdout)["checks"]
        self.assertEqual([(c["subject"], c["verdict"], c["found"]) for c in checks],
                         [("eth1", "WARN", "10.10.1.77 is silent")])
        self.peer("ip", "addr", "add", "10.10.1.77/32", "dev", "p-eth1")
        self.host.run("ping", "-c1", "-W2", "10.10.1.77")
        done = self.host.run(TPUCTL, "check", "nic.gateway", "--json")
        self.assertEqual([c["verdict"] for c in json.loads(done.stdout)["checks"]], ["OK"])

    def test_a_peer_that_is_away(self):
        f = self.look(3, address="10.10.1.78")
        self.assertIn("nobody says on eth1 that 10.10.1.78 is there", f["reason"])


class Links(KernelView):
    def checked(self, name):
        done = self.host.run(TPUCTL, "check", "nic.link", "--json")
        return next(c for c in json.loads(done.stdout)["checks"] if c["subject"] == name)

    def test_arp_that_is_ignored(self):
        for whose in ("all", "eth1"):
            self.host.check("sysctl", "-qw", f"net.ipv4.conf.{whose}.arp_ignore=8")
            f = self.checked("eth1")
            self.assertEqual((f["verdict"], f["found"]), ("FAIL", "up, answers no ARP"), f)
            self.mend(f["remedy"])
            self.assertEqual(self.checked("eth1")["verdict"], "OK")

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
