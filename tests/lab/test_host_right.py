#!/usr/bin/python3
"""A host made right, as the README tells it: two booted hosts with the package, joined by eth0 and eth1,
their network at 1460 and then 8896.

What every setting was before tpu-netcfg ever ran is read first, by sysctl and ip; --restore must bring all
of it back. Needs root and the
packages in build/debs.
"""

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

NETCFG = ("tpu-netcfg.service", "tpu-netcfg.socket")
SITE = "/etc/tpu-hostd/identity.conf.d/10-site.conf"
MACHINES_OWN = {"module.parameter"}  # a container cannot judge them: UNKNOWN
NO_GATEWAY = {("route.source", "eth1")}  # true of the lab's second network: WARN


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


def settings(host):
    """Everything about the host's network that a tuner could have changed, as other programs tell it."""
    links = {l["ifname"]: {k: l.get(k) for k in ("mtu", "gso_max_size", "gro_max_size", "operstate")}
             for l in json.loads(host.sh("ip -j -d link show"))}
    return {"sysctl": host.sh("sysctl -a 2>/dev/null | grep '^net[.]'").splitlines(), "links": links,
            "routes": sorted(
                    set(host.sh("ip -d route show table all; ip -6 -d route show table all").splitlines())),
            "rules": host.sh("ip rule; ip -6 rule").splitlines(),
            "ethtool": host.sh("for n in eth0 eth1; do ethtool -k $n; done").splitlines()}


class HostRight(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(scenario.slice_lab(2, os.environ.get("TPU_HOSTD_DEBS"),
                                                           network_mtu=1460, masked=NETCFG))
        cls.hosts = cls.lab.hosts
        for host in cls.hosts:  # link-local addresses come a moment after the boot
            host.wait_for(lambda: not host.sh("ip -6 addr show tentative").strip(), 10)
        cls.originals = {h.name: settings(h) for h in cls.hosts}
        for host in cls.hosts:
            host.sh("systemctl unmask -q tpu-netcfg.service tpu-netcfg.socket; systemctl start "
                    "tpu-netcfg.socket tpu-netcfg.service")

    def network(self, host):
        """tpuctl check's lines about the network: {(check, subject): line}, without what is the machine's
        own."""
        report = json.loads(scenario.ctl(host, "check", "--json", check=False).out)
        return {(c["check"], c["subject"]): c for c in report["checks"]
                if c["check"].startswith(("nic.", "sysctl", "route", "rp_filter"))
                and c["check"] not in MACHINES_OWN}

    def mtus(self):
        return {(h.name, nic): scenario.link(h, nic)["mtu"] for h in self.hosts for nic in ("eth0", "eth1")}

    def path(self, host, code):
        done = host.run(["tpuctl", "check", "path", "--json"], user="nobody")
        self.assertEqual(done.code, code, done.out + done.err)
        return {c["subject"]: (c["verdict"], c["found"]) for c in json.loads(done.out)["checks"]}

    def test_1_a_network_of_1460(self):
        """Nothing is raised; FAIL says why, and the remedy is the command to type."""
        for host in self.hosts:
            found = self.network(host)
            for nic in ("eth0", "eth1"):
                line = found["nic.mtu", nic]
                self.assertEqual((line["verdict"], line["found"]), ("FAIL", "1460"), line)
                self.assertIn("gcloud compute networks update", line["remedy"])
                self.assertIn("--mtu=8896", line["remedy"])
            wrong = {k: v["reason"] for k, v in found.items() if v["verdict"] != "OK" and k[0] != "nic.mtu"
                     and k not in NO_GATEWAY}
            self.assertEqual(wrong, {})
            self.assertIn("\nruns     0 running\n", scenario.ctl(host, "status", check=False).out)
            self.assertEqual(scenario.tcp_rmem(host), scenario.WANTED_RMEM)
            self.assertEqual(host.run(["tpuctl", "check"], user="nobody").code, 2)
        self.assertEqual(set(self.mtus().values()), {1460})
        self.assertEqual({v for v, _ in self.path(self.hosts[0], 0).values()}, {"OK"})

    def test_2_a_network_of_8896(self):
        for host in self.hosts:
            host.write(SITE, host.read(SITE).replace("Mtu=1460", "Mtu=8896"))
            host.sh("systemctl restart tpu-netcfg tpu-hostd")
            wrong = {k: v["reason"] for k,
                     v in self.network(host).items() if v["verdict"] != "OK" and k not in NO_GATEWAY}
            self.assertEqual(wrong, {})
        self.assertEqual(set(self.mtus().values()), {8896})
        ok = ("OK", "8896 bytes pass in both directions")
        self.assertEqual(self.path(self.hosts[0], 0),
                         {"eth0→h1 (10.10.0.11)": ok, "eth1→h1-eth1 (10.10.1.11)": ok})

    def test_3_restore(self):
        for host in self.hosts:
            changed = {k: settings(host)[k] != self.originals[host.name][k] for k in ("sysctl", "links")}
            self.assertEqual(changed, {"sysctl": True, "links": True})
            done = host.run(["tpu-netcfg", "--restore"])
            self.assertEqual(done.code, 0, done.out + done.err)
            for kind, now in settings(host).items():
                self.assertEqual(now, self.originals[host.name][kind], kind)
            # It holds while the daemon runs, and --once tunes again.
            host.sh("ip link set eth1 mtu 1400; ip link set eth1 mtu 1460")
            self.assertEqual(scenario.link(host, "eth1")["mtu"], 1460)
            self.assertEqual(scenario.unit(host, "tpu-netcfg.service", "ActiveState"),
                             {"ActiveState": "active"})
            host.run(["tpu-netcfg", "--once"])
        self.assertEqual(set(self.mtus().values()), {8896})

    def test_5_who_answers_without_tls_is_not_obeyed(self):
        """An http:// endpoint of [Hostd] gets records, and is no registry, until the site says so."""
        h = self.hosts[1]
        config = "/etc/tpu-hostd/hostd.conf.d/10-site.conf"
        said = h.read(config)

        def registry():
            return scenario.ctl_json(h, "status")["registry"]["state"]

        def reason():
            reasons = scenario.ctl_json(h, "status")["reasons"]
            return next((r["reason"] for r in reasons if r["check"] == "enroll.registry"), None)
        h.wait_for(lambda: registry() == "member", 20, "the registry")
        h.write(config, said.replace("[Registry]\nKind=collector\n", ""))
        h.sh("systemctl restart tpu-hostd")
        h.wait_for(reason, 20, "its check")
        self.assertIn("may not start runs or give orders here", reason())
        self.assertEqual(registry(), "none")
        h.wait_for(lambda: scenario.latest_metrics(self.lab, h), 30, "its records")
        h.write(config, said)
        h.sh("systemctl restart tpu-hostd")
        h.wait_for(lambda: registry() == "member", 20, "the registry again")

    def test_4_a_silent_black_hole(self):
        self.lab.lower_path_mtu(self.hosts[1], "eth1", 1500)
        try:
            found = self.path(self.hosts[0], 2)
            self.assertEqual(set(self.mtus().values()), {8896})
            self.assertEqual(found["eth1→h1-eth1 (10.10.1.11)"],
                             ("FAIL", "1500 bytes pass, 8896 do not (towards the peer)"))
            self.assertEqual(found["eth0→h1 (10.10.0.11)"][0], "OK")
        finally:
            self.hosts[1].heal("eth1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
