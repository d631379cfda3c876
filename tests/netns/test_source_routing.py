#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Source routing in network namespaces: a host with two NICs, each with a router of its own, where packets
are
counted. Needs root; exit code 77 (skipped, with the reason) where namespaces are not permitted."""
import json
import subprocess
import time

from namespace import hold, run_tests
from netcfg_case import NETCFG, RUNTIME, Case

FAR = {4: "192.0.2.1", 6: "2001:db8::1"}
SOURCES = {4: ("10.10.0.10", "10.10.1.10"), 6: ("fd00::10", "fd00:1::10")}
TABLE = 847000000
PACKETS = 5

SEND = """
import socket, sys
source, to, count = sys.argv[1:]
with socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.bind((source, 0))
    for _ in range(int(count)):
        s.sendto(b'packet', (to, 9))
"""


class Routed(Case):
    """eth0 and eth1, each on a subnet with a router; the main table prefers eth0."""

    def setUp(self):
        super().setUp()
        self.routers = [self.host.wire,
                        hold(["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"])]
        self.host.processes.append(self.routers[1])
        self.host.on_wire("ip", "link", "set", "p-eth1", "netns", str(self.routers[1].pid))
        self.at(1, "ip", "link", "set", "p-eth1", "up")
        for n in range(2):
            for address in (f"10.10.{n}.1/24", f"fd00:{n}::1/64"):
                self.at(n, "ip", "addr", "add", address, "dev", f"p-eth{n}",
                        *(["nodad"] if ":" in address else []))
            self.at(n, "nft",
                    "add table inet t; add chain inet t in { type filter hook prerouting priority 0; }")
            for family in (4, 6):
                for k, source in enumerate(SOURCES[family]):
                    self.at(n, "nft", f"add counter inet t v{family}_{k}; add rule inet t in "
                                      f"{'ip6' if family == 6 else 'ip'} saddr {source} udp dport 9 "
                                      f"counter name v{family}_{k}")
            self.host.check("ip", "addr", "add", f"10.10.{n}.10/24", "dev", f"eth{n}")
            self.host.check("ip", "addr", "add", f"fd00:{n}::10/64", "dev", f"eth{n}", "nodad")
        self.gateways()
        self.wait_for(lambda: self.host.check("ip", "-6", "addr", "show", "tentative"), "")
        self.untouched = self.policy()

    def at(self, router, *words):
        done = subprocess.run(["nsenter", "-t", str(self.routers[router].pid), "-n", *words], check=True,
                              capture_output=True, text=True)
        return done.stdout

    def gateways(self, nics=(0, 1)):
        for n in nics:
            self.host.check("ip", "route", "replace", "default", "via", f"10.10.{n}.1", "dev", f"eth{n}",
                            "metric", str(100 + 100 * n))
            self.host.check("ip", "-6", "route", "replace", "default", "via", f"fd00:{n}::1", "dev",
                            f"eth{n}", "metric", str(100 + 100 * n))

    def policy(self):
        return [self.host.check("ip", *words) for words in
                (["rule"], ["-6", "rule"], ["route", "show", "table", "all"],
                 ["-6", "route", "show", "table", "all"])]

    def table(self, nic, family=4):
        index = json.loads(self.host.check("ip", "-j", "link", "show", nic))[0]["ifindex"]
        return self.host.run("ip", f"-{family}", "route", "show", "table", str(TABLE + index)).stdout

    def rules(self, family=4):
        return [line for line in self.host.check("ip", f"-{family}", "rule").splitlines() if "147" in line]

    def left_by(self, family, source):
        """Sends from that NIC's address, and says at which router the packets came in."""
        def counts():
            return [json.loads(self.at(n, "nft", "-j", "list", "counter", "inet", "t",
                                       f"v{family}_{source}"))["nftables"][-1]["counter"]["packets"]
                    for n in range(2)]
        before = counts()
        self.host.check("/usr/bin/python3", "-c", SEND, SOURCES[family][source], FAR[family], str(PACKETS))
        end = time.monotonic() + 3
        while sum(counts()) - sum(before) < PACKETS and time.monotonic() < end:
            time.sleep(0.01)
        return [now - then for now, then in zip(counts(), before)]

    def ways(self):
        return [self.left_by(family, source) for family in (4, 6) for source in (0, 1)]

    def dry_run(self):
        return json.loads(self.host.run(NETCFG, "--dry-run", "--json").stdout)

    def wait_until_right(self):
        """Until nothing is left to do and the host has been looked at since."""
        self.wait_for(lambda: [op["subject"] for op in self.dry_run()["plan"]], [])


BY_MAIN = [[PACKETS, 0]] * 4
BY_SOURCE = [[PACKETS, 0], [0, PACKETS]] * 2


class OneShot(Routed):
    def test_each_leaves_by_its_nic_and_back(self):
        self.assertEqual(self.ways(), BY_MAIN)
        self.netcfg("--once")
        self.assertEqual(self.ways(), BY_SOURCE)
        again = json.loads(self.netcfg("--once", "--json").stdout)
        self.assertEqual((again["writes"], again["plan"]), (0, []))
        self.assertEqual({f["subject"]: f["verdict"] for f in again["findings"]
                          if f["check"] == "route.source"}, {"eth0": "OK", "eth1": "OK"})
        self.netcfg("--restore")
        self.assertEqual(self.policy(), self.untouched)
        self.assertEqual(self.ways(), BY_MAIN)
        self.assertEqual(self.state(), self.before)

    def test_dry_run_and_observe_change_nothing(self):
        text = self.netcfg("--dry-run", code=2).stdout
        self.assertRegex(text,
                         r"route.source from 10\.10\.1\.10 lookup 8470000\d\d: absent → priority 28470")
        self.assertRegex(text, r"route.source table 8470000\d\d default6: absent → via fd00:1::1")
        self.host.netcfg_conf("[Netcfg]\nMode=observe\n")
        self.netcfg("--once", code=2)
        self.assertEqual(self.policy(), self.untouched)

    def test_more_routes_than_are_handled(self):
        """A table that lacks one would lead astray: those of before go, and --restore still works."""
        self.netcfg("--once")
        self.host.check("sh", "-c", "ip link add docker0 type bridge; ip link set docker0 up; "
                                    "for i in $(seq 0 2099); do echo route add "
                                    "172.$((20 + i / 256)).$((i % 256)).1 dev docker0; done | ip -batch -")
        self.assertEqual(len(self.rules()), 2)
        said = self.netcfg("--once", code=3)
        self.assertIn("than are handled", said.stdout)
        self.assertNotIn("8470000", "".join(self.policy()))
        self.netcfg("--restore")

    def test_what_goes_elsewhere_still_goes_there(self):
        for words in (["link", "add", "docker0", "type", "bridge"], ["link", "set", "docker0", "up"],
                      ["addr", "add", "172.17.0.1/16", "dev", "docker0"],
                      ["-6", "addr", "add", "fd17::1/64", "dev", "docker0", "nodad"],
                      ["route", "add", "blackhole", "10.66.0.0/16"]):
            self.host.check("ip", *words)
        self.netcfg("--once")
        for family, to in ((4, "172.17.0.2"), (6, "fd17::2")):
            for source in SOURCES[family]:
                self.assertIn("dev docker0", self.host.check("ip", "route", "get", to, "from", source))
        self.assertNotEqual(self.host.run("ip", "route", "get", "10.66.0.1", "from",
                                          "10.10.1.10").returncode, 0)
        self.assertEqual(self.ways(), BY_SOURCE)

    def test_one_nic_or_switched_off_is_left_alone(self):
        self.netcfg("--once")
        self.host.netcfg_conf("[Netcfg]\nSourceRouting=no\n")
        self.netcfg("--once")
        self.assertEqual(self.policy(), self.untouched)
        self.host.netcfg_conf("[Netcfg]\nIgnoreNics=eth1\n")
        self.netcfg("--once")
        self.assertEqual(self.policy(), self.untouched)
        self.assertNotIn("route.source", self.netcfg("--once").stdout)
        self.host.site_profile("v6e", "[Mtu]\nValue=8896\nSource=a test\n")
        self.host.netcfg_conf("[Netcfg]\nSourceRouting=yes\n")  # where the profile does not ask
        self.assertIn("netcfg.conf.d/10-test.conf:2", self.netcfg("--once", "--json").stdout)
        self.assertEqual(self.ways(), BY_SOURCE)

    def test_a_rule_of_another_is_his(self):
        self.host.check("ip", "rule", "add", "from", "10.10.1.10", "lookup", "77", "priority", "500")
        self.host.check("ip", "route", "add", "default", "via", "10.10.0.1", "table", "77")
        untouched = self.policy()
        text = self.netcfg("--once", code=2).stdout
        self.assertIn("left to rule 500: from 10.10.1.10/32 lookup 77", text)
        self.assertIn("sudo ip -4 rule del priority 500 from 10.10.1.10/32 table 77", text)
        self.assertEqual(self.left_by(4, 1), [PACKETS, 0])
        self.assertEqual(self.left_by(6, 1), [0, PACKETS])
        self.netcfg("--restore")
        self.assertEqual(self.policy(), untouched)

    def test_a_host_address_and_its_only_neighbour(self):
        """As DHCP leaves it on Google Cloud, where the second NIC gets no default route."""
        self.host.check("ip", "addr", "flush", "dev", "eth1", "scope", "global")
        for words in (["addr", "add", "10.10.1.10/32", "dev", "eth1"],
                      ["-6", "addr", "add", "fd00:1::10/128", "dev", "eth1", "nodad"],
                      ["route", "add", "10.10.1.1", "dev", "eth1"],
                      ["-6", "route", "del", "default", "dev", "eth1"]):
            self.host.check("ip", *words)
        text = self.netcfg("--once", code=1).stdout
        self.assertEqual(self.left_by(4, 1), [0, PACKETS])
        self.assertIn("no IPv6 gateway by it is known", text)

    def test_the_least_retransmission_time_holds_in_our_tables(self):
        self.host.netcfg_conf("[Netcfg]\nRtoMin=routes\n")
        self.netcfg("--once")
        for family in (4, 6):
            for nic in ("eth0", "eth1"):
                lines = [line for line in self.table(nic, family).splitlines()
                         if not line.startswith("throw")]
                self.assertEqual(len(lines), 2, lines)
                self.assertTrue(all("rto_min lock 5ms" in line for line in lines), lines)
        self.assertEqual(json.loads(self.netcfg("--once", "--json").stdout)["plan"], [])
        self.netcfg("--restore")
        self.assertEqual(self.policy(), self.untouched)

    def test_a_gateway_whose_subnet_has_gone(self):
        """IPv6 keeps such a route in the main table, and it works."""
        self.host.check("ip", "addr", "del", "fd00:1::10/64", "dev", "eth1")
        self.host.check("ip", "addr", "add", "fd00:1::10/128", "dev", "eth1", "nodad")
        self.netcfg("--once")
        self.assertEqual(self.left_by(6, 1), [0, PACKETS])

    def test_metrics_go_along(self):
        self.host.check("ip", "route", "replace", "default", "via", "10.10.1.1", "dev", "eth1", "metric",
                        "200", "mtu", "lock", "1400", "initcwnd", "20", "congctl", "reno")
        self.netcfg("--once", code=1)
        self.assertIn("onlink mtu lock 1400 initcwnd 20", self.table("eth1"))
        self.assertIn("congctl reno", self.table("eth1"))


class Daemon(Routed):
    def test_follows_addresses(self):
        self.start()
        self.host.check("ip", "addr", "add", "10.10.1.11/24", "dev", "eth1")
        self.wait_for(lambda: len(self.rules()), 3)
        # the primary one, and so the other, too
        self.host.check("ip", "addr", "del", "10.10.1.10/24", "dev", "eth1")
        self.host.check("ip", "addr", "del", "fd00:1::10/64", "dev", "eth1")
        self.wait_for(lambda: (self.rules(), self.rules(6)), ([], []))
        self.host.check("ip", "addr", "add", "10.10.1.10/24", "dev", "eth1")
        self.gateways_of_ipv4()
        self.wait_until_right()
        self.assertEqual(self.left_by(4, 1), [0, PACKETS])

    def gateways_of_ipv4(self):
        self.host.check("ip", "route", "replace", "default", "via", "10.10.1.1", "dev", "eth1", "metric",
                        "200")

    def test_flaps_are_followed_and_are_no_contest(self):
        # The kernel's search for a second owner of an address can stay without an end when the link flaps in
        # it.
        self.host.check("sysctl", "-qw", "net.ipv6.conf.eth1.accept_dad=0")
        self.start()
        for _ in range(5):
            self.host.check("ip", "link", "set", "eth1", "down")
            self.wait_for(lambda: self.table("eth1"), "")
            self.host.check("ip", "link", "set", "eth1", "up")
            self.wait_for(lambda: self.host.check("ip", "-6", "addr", "show", "tentative"), "")
            self.host.check("ip", "-6", "addr", "replace", "fd00:1::10/64", "dev", "eth1", "nodad")
            self.gateways((1,))  # what a DHCP client does
            self.wait_until_right()
            self.assertIn("default via 10.10.1.1", self.table("eth1"))
        self.wait_for(lambda: self.host.check("ip", "-6", "addr", "show", "tentative"), "")
        self.assertNotIn("contested", self.host.stderr())
        self.assertEqual(self.ways(), BY_SOURCE)

    def test_flaps_too_fast_to_be_seen_singly(self):
        self.start()
        for _ in range(4):
            self.host.check("sh", "-c", "ip link set eth1 down; ip link set eth1 up; ip route replace "
                                        "default via 10.10.1.1 dev eth1 metric 200")
            self.wait_for(lambda: "default via 10.10.1.1" in self.table("eth1"), True)
        self.wait_until_right()
        self.assertNotIn("contested", self.host.stderr())
        self.assertEqual(self.left_by(4, 1), [0, PACKETS])

    def test_drift_is_repaired_and_a_fight_is_not(self):
        self.start()
        table = self.rules()[1].split()[4]
        for _ in range(2):
            self.host.check("ip", "rule", "del", "from", "10.10.1.10", "lookup", table)
            self.wait_for(lambda: len(self.rules()), 2)
        self.host.check("ip", "route", "del", "default", "table", table)
        self.wait_for(lambda: "default via 10.10.1.1" in self.table("eth1"), True)
        self.host.check("ip", "rule", "del", "from", "10.10.1.10", "lookup", table)
        time.sleep(0.5)
        self.assertEqual(len(self.rules()), 1)
        self.assertEqual(self.host.stderr().count("is contested"), 1)

    def test_a_rule_of_others_that_comes_and_goes_is_left_to_them(self):
        """Rewritten each 3 s, as some agents do: ours does not go along for ever, nor does the journal."""
        self.start()
        before = len(self.host.stderr().splitlines())
        for _ in range(6):
            self.host.check("ip", "rule", "add", "from", "10.10.1.10", "lookup", "100", "priority", "99")
            time.sleep(0.3)
            self.host.check("ip", "rule", "del", "from", "10.10.1.10", "lookup", "100", "priority", "99")
            time.sleep(0.3)
        self.assertEqual(self.host.stderr().count("is contested"), 1)
        self.assertLessEqual(len(self.host.stderr().splitlines()) - before, 10)
        self.assertEqual(len(self.rules()), 1)  # left alone
        self.netcfg("--once")
        self.assertEqual(len(self.rules()), 2)
        self.assertNotEqual(self.host.run("test", "-e", f"{RUNTIME}/contested").returncode, 0)

    def test_an_address_that_comes_back_has_no_history(self):
        self.start()
        table = self.rules()[1].split()[4]
        for _ in range(3):
            self.host.check("ip", "rule", "del", "from", "10.10.1.10", "lookup", table)
            time.sleep(0.3)
        self.assertEqual(len(self.rules()), 1)
        self.host.check("ip", "addr", "del", "10.10.1.10/24", "dev", "eth1")
        self.wait_for(lambda: "contested: nothing asks for it any more" in self.host.stderr(), True)
        self.host.check("ip", "addr", "add", "10.10.1.10/24", "dev", "eth1")
        self.gateways_of_ipv4()
        self.wait_until_right()
        self.host.check("ip", "rule", "del", "from", "10.10.1.10", "lookup", table)
        self.wait_until_right()
        self.assertEqual(self.host.stderr().count("is contested"), 1)

    def test_our_own_writes_end(self):
        self.start()
        self.host.check("ip", "addr", "add", "10.10.1.11/24", "dev", "eth1")
        self.wait_for(lambda: len(self.rules()), 3)
        time.sleep(0.2)
        monitor = self.host.run("timeout", "1", "ip", "monitor", "rule", "route", "address")
        self.assertEqual(monitor.stdout, "")

    def test_containers_fill_no_journal(self):
        self.start()
        before = len(self.host.stderr().splitlines())
        self.host.check("sh", "-c", "ip link add docker0 type bridge; ip link set docker0 up; ip addr add "
                                    "172.17.0.1/16 dev docker0; "
                                    "for i in $(seq 50); do echo route add 10.200.$i.0/24 dev docker0; done "
                                    "| ip -batch -")
        self.wait_for(lambda: self.table("eth1").count("throw 10.200."), 50)
        self.assertLess(len(self.host.stderr().splitlines()) - before, 5)

    def test_a_nic_that_is_gone_leaves_nothing(self):
        daemon = self.start()
        self.host.check("ip", "link", "del", "eth1")
        self.wait_for(lambda: (self.rules(), self.rules(6)), ([], []))
        self.wait_for(lambda: [text for text in self.policy() if "8470000" in text], [])
        self.assertEqual(self.host.stop(daemon), 0)

    def test_steps_aside_after_restore(self):
        self.start()
        self.netcfg("--restore")
        time.sleep(0.5)
        self.assertEqual(self.policy(), self.untouched)


if __name__ == "__main__":
    run_tests(NETCFG)
