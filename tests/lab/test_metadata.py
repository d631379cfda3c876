#!/usr/bin/python3
"""The metadata server on a booted host: what it says of the network is followed, judged by `ip`. Needs root
and packages.

Usage: tests/lab/test_metadata.py [FOLDER-WITH-THE-PACKAGES]
"""

import json
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab import Lab, network     # noqa: E402  (the path comes first)
from lab.check import check      # noqa: E402
import metadata_process          # noqa: E402
import scenario                  # noqa: E402

FOLDER = None
COPY = "/var/lib/tpu-hostd/metadata.json"
LAST_GOOD = r"^metadata, last good of 20\d\d-"


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Metadata(unittest.TestCase):
    """One host, one story, in the order of the names."""

    @classmethod
    def setUpClass(cls):
        def before_boot(host):
            host.write("/etc/tpu-hostd/identity.conf.d/10-site.conf",
                       "[Identity]\nSliceName=lab\nAcceleratorType=v6e-4\nTopology=2x2\nWorkerId=0\n"
                       "WorkerHostnames=h0\nChips=4\n")
            host.bind_chips(scenario.CHIPS)

        cls.lab = Lab(hosts=1, debs=[scenario.debs(FOLDER)[0]], before_boot=before_boot)
        cls.lab.start()
        cls.addClassCleanup(cls.lab.stop)
        cls.host, cls.server = cls.lab.hosts[0], None
        cls.addClassCleanup(lambda: cls.server and cls.server.stop())

    def mtus(self):
        return [scenario.link(self.host, nic)["mtu"] for nic in network.NICS]

    def wait_mtus(self, wanted, timeout=30):
        self.host.wait_for(lambda: self.mtus() == [wanted] * 2, timeout,
                           f"{wanted} on both NICs, not {self.mtus()}")

    def judged(self):
        """tpu-netcfg's verdicts on the NICs' MTU."""
        report = json.loads(self.host.run(["tpu-netcfg", "--dry-run", "--json"]).out)
        return [f for f in report["findings"] if f["check"] == "nic.mtu"]

    def identity(self):
        return scenario.ctl_json(self.host, "identity")["identity"]

    def reboot(self):
        self.host.kill()
        began = time.monotonic()
        self.host.boot()
        return time.monotonic() - began

    def test_1_without_a_server_nothing_is_raised(self):
        time.sleep(3)
        self.assertEqual(self.mtus(), [1460, 1460])
        self.assertEqual({f["verdict"] for f in self.judged()}, {"UNKNOWN"})
        self.assertEqual(self.host.sh("systemctl --failed --no-legend --plain").strip(), "")
        self.assertFalse(self.host.path(COPY).exists())

    def test_2_the_networks_mtu_arrives_and_is_raised_to(self):
        type(self).server = metadata_process.Metadata(self.lab, "t1v-n-lab-")
        print(f"boot with a server: {self.reboot():.1f} s", file=sys.stderr)
        self.wait_mtus(8896)
        self.assertEqual({f["verdict"] for f in self.judged()}, {"OK"})
        self.host.wait_for(lambda: (self.identity()["machine-type"] or {}).get("value")
                           == "ct6e-standard-4t", 10)
        live = json.loads(self.host.sh("curl -s --unix-socket /run/tpu-hostd/api.sock http://h/v1/identity")) \
            if self.host.path("/usr/bin/curl").exists() else None
        if live:
            self.assertEqual(live["machine-type"], {"value": "ct6e-standard-4t", "origin": "metadata"})
            self.assertEqual(live["host-name"]["value"], "t1v-n-lab-h0")
        self.assertRegex(self.identity()["machine-type"]["origin"], LAST_GOOD)
        self.assertEqual(oct(self.host.path(COPY).stat().st_mode & 0o777), "0o600")
        self.assertEqual(self.host.sh(f"stat -c %U {COPY}").strip(), "tpu-hostd")
        nobody = self.host.run(["tpuctl", "identity", "--json"], user="nobody")  # tpu-hostd answers
        self.assertEqual((nobody.err, json.loads(nobody.out)["identity"]["machine-type"]["value"]),
                         ("", "ct6e-standard-4t"))

    def test_3_a_change_is_followed_at_once(self):
        self.server.set(mtu=1460)
        self.wait_mtus(1460, 5)
        self.server.set(mtu=8896)
        self.wait_mtus(8896, 5)

    def test_4_a_narrow_network_is_a_failure_with_the_remedy(self):
        self.server.set(mtu=1460)
        self.wait_mtus(1460, 5)
        self.reboot()
        self.host.wait_for(lambda: {f["verdict"] for f in self.judged()} == {"FAIL"}, 15,
                           "FAIL for both NICs")
        for finding in self.judged():
            self.assertEqual(finding["reason"],
                             "the network carries 1460 (metadata); a NIC is never set above that")
            self.assertIn("--mtu=8896", finding["remedy"])
        self.assertEqual(self.mtus(), [1460, 1460])
        # every boot of a lab's host has the machine's boot id: the last start is the last boot's
        self.assertNotIn("MTU of",
                         self.host.journal("tpu-netcfg.service").rpartition("Starting tpu-netcfg")[2])
        shown = self.host.run(["tpuctl", "check", "nic"])
        self.assertEqual(shown.code, 2)
        self.assertIn("--mtu=8896", shown.out)
        self.server.set(mtu=8896)
        self.wait_mtus(8896, 5)

    def test_5_a_boot_without_the_server_uses_the_last_good_copy(self):
        self.server.set(mtu=8896)
        self.host.wait_for(lambda: '"mtu": 8896' in self.host.read(COPY), 5, "the copy")
        self.server.stop()
        type(self).server = None
        print(f"boot without it: {self.reboot():.1f} s", file=sys.stderr)
        self.wait_mtus(8896)
        self.assertRegex(self.identity()["machine-type"]["origin"], LAST_GOOD)
        kept = self.host.read("/run/tpu-netcfg/network-mtu").splitlines()
        self.assertEqual(len(kept), 4)
        self.assertIn(" 8896 metadata, last good of ", kept[2])
        self.host.wait_for(lambda: any(c["check"] == "metadata" and c["verdict"] == "WARN"
                                       for c in scenario.ctl_json(self.host, "status").get("reasons", [])),
                           60, "a WARN of the host")

    def test_6_hostile_servers_change_nothing(self):
        for mode in ("html", "page", "flavor", "garbage", "huge", "missing"):
            server = metadata_process.Metadata(self.lab, "t1v-n-lab-")
            try:
                server.set(mode=mode, mtu=1460)
                self.host.sh("systemctl restart tpu-hostd")
                time.sleep(3)
                self.assertEqual(self.mtus(), [8896, 8896], mode)
                self.assertRegex(self.identity()["machine-type"]["origin"], LAST_GOOD)
            finally:
                server.stop()
        self.assertEqual(self.host.sh("systemctl --failed --no-legend --plain").strip(), "")


if __name__ == "__main__":
    if len(sys.argv) > 1 and Path(sys.argv[1]).is_dir():
        FOLDER = sys.argv.pop(1)
    unittest.main(verbosity=2, failfast=True)
