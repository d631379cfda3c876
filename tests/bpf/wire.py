# SPDX-License-Identifier: Apache-2.0
"""Hosts as network namespaces, one NIC each, all on one bridge whose ports lose, cut or refuse what a
test wants."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../netns"))
from namespace import hold  # noqa: E402

NAMESPACE = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c",
             "mount -t sysfs sysfs /sys && ip link set lo up && echo ready && exec sleep infinity"]


class Wire:
    """hosts: names; the n-th has the address 10.77.0.n on eth0."""

    def __init__(self, *hosts):
        self.held = {}
        try:
            for name in ("switch", *hosts):
                self.held[name] = hold(NAMESPACE)
            self.run("switch", "ip", "link", "add", "br0", "type", "bridge")
            self.run("switch", "ip", "link", "set", "br0", "up")
            for i, name in enumerate(hosts):
                self.run("switch", "ip", "link", "add", f"p-{name}", "type", "veth", "peer", "name", "eth0",
                         "netns",
                         str(self.held[name].pid))
                self.run("switch", "ip", "link", "set", f"p-{name}", "up", "master", "br0")
                self.run(name, "ip", "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
                self.run(name, "ip", "link", "set", "eth0", "up")
            self.nft("add table bridge t", "add chain bridge t c { type filter hook forward priority 0; }")
        except BaseException:
            self.close()
            raise

    def close(self):
        for process in self.held.values():
            process.kill()
            process.communicate()

    def command(self, name, *words):
        return ["nsenter", "-t", str(self.held[name].pid), "-n", "-m", *words]

    def run(self, name, *words, **how):
        return subprocess.run(self.command(name, *words), capture_output=True, text=True, timeout=60,
                              check=True, **how).stdout

    def nft(self, *rules):
        for rule in rules:
            self.run("switch", "nft", *rule.split())

    def lose(self, name, of_1000):
        """So many of 1000 frames that this host sends get lost, at even distances; 0: none."""
        self.nft("flush chain bridge t c")
        if of_1000 == 1000:
            self.nft(f"add rule bridge t c iifname p-{name} counter drop")
        elif of_1000:
            self.nft(f"add rule bridge t c iifname p-{name} numgen inc mod {1000 // of_1000} == "
                     f"{1000 // of_1000 - 1} counter drop")

    def lost(self):
        """How many frames, since lose()."""
        return sum(map(int, re.findall(r"counter packets (\d+)",
                                       self.run("switch", "nft", "list", "chain", "bridge", "t", "c"))))

    def counters(self, name):
        """The kernel's own, by nstat's names."""
        return json.loads(self.run(name, "nstat", "-asj"))["kernel"]
