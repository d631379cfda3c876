#!/usr/bin/python3
"""What people order on a booted host with the package: a cordon over SIGKILL and power cut, journalctl -x,
events by their fields, the fleet's view.

Needs root and the packages in build/debs.
"""

import json
import os
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Orders(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(scenario.slice_lab(1, os.environ.get("TPU_HOSTD_DEBS")))
        cls.host, = cls.lab.hosts

    def status(self):
        def answer():
            done = scenario.ctl(self.host, "status", "--json", check=False)
            return done.code != 3 and done.out.startswith("{") and json.loads(done.out)
        return self.host.wait_for(answer, 20, "tpu-hostd's answer")

    def hostd(self):
        return int(scenario.unit(self.host, "tpu-hostd.service", "MainPID")["MainPID"])

    def test_1_cordon_over_kill_and_power_cut(self):
        host = self.host
        done = host.run(["tpuctl", "cordon", "cable", "of", "eth1"], user="nobody")
        self.assertEqual(done.code, 1, done.out + done.err)
        self.assertIn("only root", done.err)
        said = host.sh("tpuctl cordon --until 2h cable of eth1").strip()
        self.assertRegex(said, r"^cordoned by root until \S+Z: cable of eth1$")
        host.sh(f"kill -KILL {self.hostd()}")
        cordon = self.status()["cordon"]
        self.assertEqual(cordon["reason"], "cable of eth1")
        self.assertEqual(oct(os.stat(host.path("/var/lib/tpu-hostd/health.json")).st_mode & 0o777), "0o600")
        leader = host.leader
        host.kill()
        host.boot()
        status = self.status()
        self.assertNotEqual(host.leader, leader)
        self.assertEqual(status["cordon"], cordon)
        text = host.run(["tpuctl", "status"]).out
        self.assertIn(f"ordered  {said}\n", text)
        self.assertIn(f"ordered: {said}\n", host.run(["tpuctl", "check"], user="nobody").out)

    def test_2_the_fleet_shows_it(self):
        def ordered():
            hosts = json.loads(scenario.ctl(self.host, "fleet", "--json", check=False).out
                               or "{}").get("hosts", [])
            return hosts and hosts[0]["orders"] == "cordoned: cable of eth1"
        self.host.wait_for(ordered, 90, "the cordon in the fleet")
        self.assertIn("cable of eth1", scenario.ctl(self.host, "fleet").out)

    def test_3_runs_are_refused(self):
        refused = self.host.run(["tpuctl", "run", "--name", "r", "--", "/bin/sleep", "60"])
        self.assertEqual(refused.code, 1)
        self.assertIn("this host is cordoned by root: cable of eth1", refused.err)
        self.assertEqual(scenario.unit(self.host, "tpu-run-r.service", "ActiveState")["ActiveState"],
                         "inactive")
        self.host.sh("tpuctl run --despite-cordon --name r -- /bin/sleep 60; tpuctl uncordon; tpuctl drain "
                     "new kernel")
        time.sleep(5)  # two ticks of the agent
        self.assertFalse(self.status()["drain"]["drained"])
        self.host.sh("tpuctl stop r")
        self.host.wait_for(lambda: self.status()["drain"]["drained"], 20, "the drained host")
        self.host.sh("tpuctl uncordon")

    def test_4_journalctl_explains(self):
        text = self.host.sh("journalctl -x --no-pager -b all -u tpu-hostd -t tpu-hostd 2>/dev/null || "
                            "journalctl -x --no-pager -u tpu-hostd")
        for line in ("This host is cordoned: cable of eth1",
                     "What to do: when the reason is gone, sudo tpuctl uncordon.",
                     "This host is draining: new kernel", "This host is drained: no run is left",
                     "This host may take runs again"):
            self.assertIn(line, text)
        self.assertNotIn("@TPU_", text.split("This host is cordoned")[1].split("-- ")[0])

    def test_5_a_service_of_the_site_can_follow_the_events(self):
        """Once each, by name, with their fields, over the SIGKILL and the power cut."""
        out = self.host.sh("journalctl -o json --no-pager TPU_EVENT=tpu.host.cordoned + "
                           "TPU_EVENT=tpu.host.uncordoned")
        seen = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([(e["TPU_EVENT"], e["TPU_REASON"]) for e in seen],
                         [("tpu.host.cordoned", "cable of eth1"), ("tpu.host.uncordoned", "cable of eth1"),
                          ("tpu.host.uncordoned", "new kernel")])

    def test_6_mode(self):
        host = self.host
        mtu = scenario.link(host, "eth1")["mtu"]
        host.sh("tpuctl mode observe a test; sleep 1; ip link set eth1 mtu 1500")
        self.assertEqual(scenario.link(host, "eth1")["mtu"], 1500)
        host.sh(f"kill -KILL {self.hostd()}")
        self.assertEqual(self.status()["mode"], "observe")
        host.sh("systemctl restart tpu-netcfg; sleep 1")
        self.assertEqual(scenario.link(host, "eth1")["mtu"], 1500)
        host.kill()
        host.boot()  # the first pass after it is before tpu-hostd is there
        self.assertEqual(self.status()["mode"], "observe")
        netcfg = host.sh("journalctl --no-pager -u tpu-netcfg -o cat").rpartition("Starting tpu-netcfg.service")[2]
        self.assertIn("a person ordered to observe (tpuctl mode): nothing is changed", netcfg)
        self.assertNotIn(" → ", netcfg)
        self.assertNotEqual(scenario.link(host, "eth1")["mtu"], mtu)
        host.sh("tpuctl mode repair")
        host.wait_for(lambda: scenario.link(host, "eth1")["mtu"] == mtu, 10, "the repair")

    def test_7_silence(self):
        bad = self.status()["reasons"]
        self.assertTrue(bad, "the lab's hosts are degraded by their machine")
        for reason in bad:
            self.host.run(["tpuctl", "silence",
                           reason["check"] + (f":{reason['subject']}" if reason["subject"] else ""),
                           "--until", "1h", "the lab's machine"],
                          check=True)
        self.assertEqual(self.status()["state"], "ready")
        self.host.kill()
        self.host.boot()
        self.host.wait_for(lambda: self.status()["state"] == "ready", 30, "the silences after the boot")
        self.assertEqual(len(self.status()["silences"]), len(bad))


if __name__ == "__main__":
    unittest.main(verbosity=2)
