#!/usr/bin/python3
"""Port 9470 and the collector on booted hosts with the packages and a site's certificates: what the README
says to put where, and what curl gets.

Needs root and the packages in build/debs. curl is this machine's, in the network of the other host.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent / "hostd"))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402
from certificates import Authority  # noqa: E402

ONCALL, CONTROL, OTHER = ("spiffe://site.example/oncall", "spiffe://site.example/control/drainer",
                          "spiffe://elsewhere/oncall")
TLS = "/etc/tpu-hostd/tls"


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


def section_of(section):
    """A section of the configuration that docs/install.md shows."""
    return re.search(rf"^\[{section}\]\n(?:\w+=.*\n)+", (scenario.TOP / "docs/install.md").read_text(),
                     re.MULTILINE).group()


class Api(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.ca, cls.foreign = Authority(folder / "ca"), Authority(folder / "foreign", "another authority")
        cls.lab = cls.enterClassContext(scenario.slice_lab(1, os.environ.get("TPU_HOSTD_DEBS")))
        cls.host, = cls.lab.hosts
        cls.collector = cls.lab.collector
        issue = cls.ca.issue
        cls.clients = {"oncall": issue("oncall", f"URI:{ONCALL}"),
                       "control": issue("control", f"URI:{CONTROL}"),
                       "other": issue("other", f"URI:{OTHER}"),
                       "expired": issue("expired", f"URI:{ONCALL}", since=-7200, seconds=-60),
                       "foreign": cls.foreign.issue("oncall", f"URI:{ONCALL}")}

    def install(self, host, user, name, *pair):
        """A certificate and its key, as the README says that they must be readable."""
        host.write(f"{TLS}/ca.pem", self.ca.cert.read_text())
        for file, kind in zip(pair, ("pem", "key")):
            host.write(f"{TLS}/{name}.{kind}", file.read_text(), 0o640)
            host.sh(f"chown root:{user} {TLS}/{name}.{kind}")

    def curl(self, url, who=None, *words, ca=None):
        """(status, JSON or text) as curl on the collector's machine gets it."""
        words = ["--cert", self.clients[who][0], "--key", self.clients[who][1],
                 *words] if who else list(words)
        done = subprocess.run(["nsenter", "-t", str(self.collector.leader), "-n", "curl", "-sS",
                               "--max-time", "10", "-w", "\n%{http_code}", "--cacert",
                               self.ca.cert, *words, url], capture_output=True, text=True, timeout=30)
        if done.returncode:
            return done.returncode, done.stderr
        body, code = done.stdout.rsplit("\n", 1)
        return int(code), json.loads(body) if body.startswith("{") else body

    def test_1_the_agent_over_tcp(self):
        host, api = self.host, f"https://{self.host.address()}:9470"
        self.assertEqual(self.curl(f"{api}/healthz")[0], 7)  # nobody listens
        self.install(host, "tpu-hostd", "host",
                     *self.ca.issue("host",
                                    f"IP:{host.address()},URI:spiffe://site.example/host/{host.name}"))
        host.write("/etc/tpu-hostd/hostd.conf.d/20-api.conf", section_of("Api"))
        host.sh("systemctl reload tpu-hostd")
        self.assertEqual(self.curl(f"{api}/v1/status", "oncall")[1]["host"], host.name)
        self.assertEqual(self.curl(f"{api}/healthz"), (200, "ok\n"))
        for who, why in ((None, "no client certificate"), ("other", OTHER), ("expired", "expired"),
                         ("foreign", "not of a CA")):
            code, answer = self.curl(f"{api}/v1/status", who)
            self.assertEqual((who, code), (who, 403))
            self.assertIn(why, answer["error"])
        self.assertEqual(self.curl(f"{api}/v1/cordon?reason=x", "oncall", "-X", "PUT")[0], 403)
        self.assertEqual(self.curl(f"{api}/v1/cordon?reason=bad+cable", "control", "-X", "PUT")[1]["by"],
                         CONTROL)
        self.assertIn(f"cordoned by {CONTROL}: bad cable", scenario.ctl(host, "status", check=False).out)
        told = host.sh("journalctl -x --no-pager -u tpu-hostd TPU_EVENT=tpu.api.acted")
        self.assertIn(f"{CONTROL} from {self.collector.address()} called PUT /v1/cordon: bad cable", told)
        self.assertIn(f"{ONCALL} from {self.collector.address()} called PUT /v1/cordon: refused: no right "
                      f"to act", told)
        self.assertIn("says who may act over TCP", told)  # the catalog's explanation
        # the Unix socket, as ever
        self.assertEqual(scenario.ctl_json(host, "status")["cordon"]["by"], CONTROL)

    def test_2_the_collector_with_mutual_tls(self):
        host, collector, address = self.host, self.collector, self.collector.address()
        self.install(collector, "tpu-collectord", "collector", *self.ca.issue("collector", f"IP:{address}"))
        own = re.sub("10.0.0.9", address, section_of("Collector"))
        collector.write("/etc/tpu-hostd/collectord.conf.d/20-tls.conf", own + "InsecureListen=no\n")
        collector.sh("systemctl restart tpu-collectord")
        host.write("/etc/tpu-hostd/hostd.conf.d/20-tls.conf",
                   f"[Hostd]\nEndpoint=https://{address}:4318\n" + section_of("Uplink"))
        host.sh("systemctl restart tpu-hostd")
        before = len(scenario.events(self.lab, host, "tpu.host.cordoned"))
        self.assertEqual(self.curl(f"https://{host.address()}:9470/v1/cordon?reason=over+TLS", "control",
                                   "-X", "PUT")[0], 200)
        host.wait_for(lambda: len(scenario.events(self.lab, host, "tpu.host.cordoned")) > before, 20,
                      "the event in the collector's database")
        self.assertIn(CONTROL, scenario.events(self.lab, host, "tpu.host.cordoned")[0])
        for who, code in ((None, 403), ("control", 403), ("oncall", 200)):
            self.assertEqual((who, self.curl(f"https://{address}:9471/api/v1/hosts", who)[0]), (who, code))
        self.assertEqual(self.curl(f"https://{address}:4318/v1/logs", "oncall", "-X", "POST", "-H",
                                   "Content-Type: application/x-protobuf", "-d", "")[0], 403)

    def test_3_renewal(self):
        """Both servers show the new certificate, without a restart."""
        for host, program, name, port in ((self.host, "tpu-hostd", "host", 9470),
                                          (self.collector, "tpu-collectord", "collector", 9471)):
            main = scenario.unit(host, f"{program}.service", "MainPID")
            cert, key = self.ca.issue(f"{name}-2",
                                      f"IP:{host.address()},URI:spiffe://site.example/host/{host.name}")
            self.install(host, program, f"{name}.new", cert, key)
            host.sh(f"cd {TLS} && mv {name}.new.pem {name}.pem && mv {name}.new.key {name}.key")
            wanted = cert.read_text().strip()

            def shown():
                done = subprocess.run(["nsenter", "-t", str(self.collector.leader), "-n", "openssl",
                                       "s_client", "-connect", f"{host.address()}:{port}"],
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
                return wanted in done.stdout

            host.wait_for(shown, 20, f"{program}'s new certificate")
            self.assertEqual(scenario.unit(host, f"{program}.service", "MainPID"), main)
        self.assertEqual(self.curl(f"https://{self.host.address()}:9470/v1/status", "oncall")[0], 200)


if __name__ == "__main__":
    unittest.main()
