#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A flood of changes, of several kinds, and what the daemon writes of it: at most ten lines a minute, and
how many more there would have been. Needs root; exit code 77 (skipped, with the reason) where namespaces are
not permitted."""
import re
import subprocess
import time

from namespace import DIE_WITH_US, run_tests
from netcfg_case import NETCFG
from test_source_routing import Routed

MOST = 10
SECONDS = 6
FLOODS = {
    "a rule of ours is rewritten": """
        r=$(ip rule show priority 28470 | head -n 1)
        r=$(echo "$r" | sed 's/.*from \\([^ ]*\\) .*lookup \\([0-9]*\\).*/\\1 \\2/')
        set -- $r; ip rule del from $1 lookup $2 priority 28470
        ip rule add from $1 lookup $2 priority 99 proto 147; sleep 0.3""",
    "our routes are taken away": """
        for t in $(ip route show table all proto 147 | sed -n 's/^default.* table \\([0-9]*\\) .*/\\1/p'); do
          ip route del default table $t; done; sleep 0.2""",
    "routes of others come and go": """
        i=$(( (i + 1) % 250 )); ip route add 10.77.$i.0/24 via 10.10.1.1 dev eth1
        ip route del 10.77.$(( (i + 125) % 250 )).0/24; sleep 0.02""",
    "an MTU is fought over": "ip link set eth1 mtu 1400; sleep 0.1",
    "a sysctl is fought over": "echo 1 > /proc/sys/net/ipv4/tcp_slow_start_after_idle; sleep 0.05",
    "a link flaps": "ip link set eth1 down; sleep 0.2; ip link set eth1 up; sleep 0.3",
    "addresses come and go": """
        i=$(( (i + 1) % 200 )); ip addr add 10.10.1.$(( i + 20 ))/24 dev eth1
        ip addr del 10.10.1.$(( (i + 100) % 200 + 20 ))/24 dev eth1; sleep 0.05""",
    "the kernel's rules are flushed": "ip rule flush; sleep 0.2",
    "a route takes the subnet": """
        ip route add 10.10.1.0/25 dev eth0; sleep 0.1; ip route del 10.10.1.0/25 dev eth0; sleep 0.1""",
}


class Flood(Routed):
    def flood(self, *scripts):
        """Runs them at once for a while; returns the lines that the daemon wrote meanwhile."""
        before = len(self.host.stderr().splitlines())
        loops = [subprocess.Popen(DIE_WITH_US + self.host.command("sh", "-c", f"while :; do {s}\ndone"),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) for s in scripts]
        time.sleep(SECONDS)
        for loop in loops:
            loop.kill()
            loop.wait()
        return self.host.stderr().splitlines()[before:]

    def test_each_kind(self):
        for what, script in FLOODS.items():
            with self.subTest(what):
                self.start()
                lines = self.flood(script)
                print(f"{what}: {len(lines)} lines in {SECONDS} s")
                self.assertLessEqual(len(lines), MOST, "\n".join(lines))
                # the last is none of ours: nothing is written or deleted for it, and checks name it
                self.assertTrue(lines or what == "a route takes the subnet", "nothing is said of it")
                self.host.stop(self.host.processes.pop())

    def test_all_at_once(self):
        self.start()
        lines = self.flood(*FLOODS.values())
        self.assertLessEqual(len(lines), MOST, "\n".join(lines))
        self.assertTrue(lines)
        # The count of the rest comes as soon as it may, and it is true that it was many.
        self.wait_for(lambda: bool(re.search(r"\d{2,} more lines were not written",
                                              self.host.stderr())),
                      True, 100)


if __name__ == "__main__":
    run_tests(NETCFG)
