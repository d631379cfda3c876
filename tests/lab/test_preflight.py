#!/usr/bin/python3
"""What hosts find of each other before a run starts: ports, routes, names, lists of workers, machine ids.

Each case is made on a booted host. The words of the refused run, of the host's own check and of the fleet
are read. Then the case is ended as the remedy says, and a trial run starts and ends. Needs root, the
packages in build/debs, and FULL=1.
"""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
from lab.command import sh       # noqa: E402
import scenario                  # noqa: E402
import slices                    # noqa: E402

END = 60  # seconds until the end of a trial run is seen


def setUpModule():
    slices.skip_unless_full(check)


class Preflight(slices.Case):
    LAB = {"n_hosts": 2, "per_slice": 2}

    def run_true(self, name, wait="8s"):
        """A trial run over both hosts, as a person types it."""
        return self.h[0].run(["tpuctl", "run", "--name", name, "--user", slices.USER, "--slices", "1",
                              "--wait", wait, "--", "/usr/bin/true"], check=False, timeout=120)

    def refused(self, name):
        done = self.run_true(name)
        told = done.out + done.err
        print(told)
        self.assertNotEqual(done.code, 0, told)
        return told

    def starts_and_ends(self, name):
        done = self.run_true(name, wait="60s")
        print(done.out + done.err)
        self.assertEqual(done.code, 0, done.out + done.err)
        run = self.wait_run(name, "its end", lambda r: r["state"] == "ended", END)
        self.assertEqual(run["outcome"], "success", run)
        return done.out + done.err

    def on_net(self, host, *argv):
        sh("nsenter", f"--net=/run/netns/{host.full_name}", *argv)

    def drop(self, host, rule):
        self.on_net(host, "nft", "add table inet t; add chain inet t in { type filter hook input priority "
                                 f"0; }}; add rule inet t in {rule}")

    def test_1_nothing_is_wrong(self):
        self.members()
        self.starts_and_ends("good")

    def test_2_the_mesh_is_dropped(self):
        self.drop(self.h[1], "tcp dport 8471 drop")
        told = self.refused("mesh")
        self.assertIn(f"port 8471 of h1 ({self.h[1].address('eth0')}), libtpu's mesh, is blocked: "
                      "no answer to h0 within 3 s", told)
        self.assertIn("sudo nft list ruleset # on h1", told)
        self.on_net(self.h[1], "nft", "delete table inet t")
        self.starts_and_ends("mesh-open")

    def test_3_the_mesh_is_rejected(self):
        self.drop(self.h[0], "tcp dport 8471 reject with icmp type port-unreachable")
        told = self.refused("rejected")
        self.assertIn(f"port 8471 of h0 ({self.h[0].address('eth0')}), libtpu's mesh, is blocked: "
                      "a firewall rejects what h1 sends", told)
        self.on_net(self.h[0], "nft", "delete table inet t")
        self.starts_and_ends("not-rejected")

    def test_4_a_blackhole_route(self):
        to = self.h[1].address("eth0")
        self.h[0].sh(f"ip route add blackhole {to}")
        told = self.refused("blackhole")
        self.assertIn(f"h1 ({to}), libtpu's mesh, cannot be reached from h0: a route of this host is a "
                      "blackhole", told)
        self.assertIn(f"ip route get {to}", told)
        self.h[0].sh(f"ip route del blackhole {to}")
        self.starts_and_ends("no-blackhole")


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
