#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpuctl check path asks the peer's own agent over TCP 9470, so that the direction has a name without any
file. Between network
namespaces, real certificates, real programs of BUILD_DIR (build/dev). Needs root; exit code 77 (skipped,
with the reason) where namespaces
are not permitted."""
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from namespace import run_tests
from test_path import TPUCTL, Path as PathCase

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../hostd"))
from certificates import Authority  # noqa: E402

HOSTD = os.path.join(os.path.dirname(TPUCTL), "../hostd/tpu-hostd")
TUNED = "eth0→h3 (10.10.0.13)"
# no packet of 1500 bytes holds them
NAMES = "DNS:h3," + ",".join(f"DNS:another-name-of-this-very-host-{i}.site.example" for i in range(60))


class Agents(PathCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="path-tls-", dir=self.host.tree))
        self.site = Authority(self.folder / "ca")
        server, client = self.site.issue("h3", NAMES), self.site.issue("oncall", "URI:spiffe://site/oncall")
        self.config = self.folder / "tpuctl.conf"
        self.config.write_text(f"[Ctl]\nAgentCa={self.site.cert}\nAgentCertificate={client[0]}\n"
                               f"AgentKey={client[1]}\n")
        self.peer("sysctl", "-qw", "net.ipv4.ping_group_range=0 2147483647")
        # what crosses is what a wire carries
        self.host.check("ip", "link", "set", "eth0", "gso_max_segs", "1")
        self.peer("ip", "link", "set", "p-eth0", "gso_max_segs", "1")
        self.start_peer(server)

    def start_peer(self, server):
        """The peer's tpu-hostd, in its network, touching nothing of this machine."""
        self.socket, config, f = self.folder / "api.sock", self.folder / "hostd.conf", self.folder
        config.write_text(f"[Hostd]\nEndpoint=\nApiSocket={self.socket}\nSpoolDirectory={f}/spool\n"
                          f"Journal={f}/none\nLaunchdSocket={f}/none\n"
                          f"NetcfgSocket={f}/none\nMetricsInterval=1s\n[Health]\nStateFile={f}/health.json\n"
                          f"[Metadata]\nHost=none\n"
                          f"[Api]\nCertificate={server[0]}\nKey={server[1]}\nClientCa={self.site.cert}\n"
                          f"AllowReaders=spiffe://site/oncall\n")
        with open(f / "stderr", "wb") as stderr:
            self.daemon = subprocess.Popen(["setpriv", "--pdeathsig=KILL", "nsenter", "-t",
                                            str(self.host.wire.pid), "-n", HOSTD, "--config", config],
                                           stdin=subprocess.DEVNULL, stderr=stderr)
        self.addCleanup(self.daemon.wait)
        self.addCleanup(self.daemon.kill)
        end = time.monotonic() + 60
        while not self.socket.exists() or "the API answers on" not in (f / "stderr").read_text():
            self.assertLess(time.monotonic(), end, (f / "stderr").read_text())
            time.sleep(0.05)

    def peer_proves(self):
        c = http.client.HTTPConnection("localhost", timeout=60)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(str(self.socket))
        c.request("POST", "/v1/path?peer=10.10.0.10,10.10.1.10")
        self.assertEqual(c.getresponse().status, 200)
        c.close()

    def ask(self, code=2, peer="h3"):
        done = self.host.run(TPUCTL, "--config", str(self.config), "check", "path", "--json", "--peer", peer)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def found(self, done):
        return self.finding(json.loads(done.stdout), TUNED)

    def no_udp(self):
        """So that each host alone cannot tell the direction."""
        self.nft('add rule inet fault there iifname "p-eth0" meta l4proto udp drop')

    def test_towards_the_peer(self):
        self.drop("there", '"p-eth0" meta length > 1500')
        self.no_udp()
        self.peer_proves()
        f = self.found(self.ask())
        self.assertEqual(f["found"], "1500 bytes pass, 8896 do not (towards the peer only)")
        self.assertIn("its full datagrams arrive here", f["reason"])

    def test_from_the_peer(self):
        """The answer itself has to come through what drops large packets."""
        for rule in ("add table inet wire",
                     "add chain inet wire in { type filter hook prerouting priority -450; policy accept; }",
                     'add rule inet wire in iifname "eth0" meta length > 1500 drop'):
            self.host.check("nft", rule)
        self.no_udp()
        self.peer_proves()
        done = self.ask()
        self.assertEqual((done.stderr, self.found(done)["found"]),
                         ("", "1500 bytes pass, 8896 do not (from the peer)"))

    def test_who_gives_none_is_named(self):
        self.drop("there", '"p-eth0" meta length > 1500')
        self.no_udp()
        done = self.ask()  # it has proven nothing yet
        self.assertIn("the agent of h3 gives no report: no path was proven", done.stderr)
        self.assertIn("(direction UNKNOWN)", self.found(done)["found"])
        self.config.write_text(self.config.read_text().replace("AgentCa=", "AgentCa=/no/such"))
        self.assertIn("the agent of h3 gives no report: ", self.ask().stderr)
        self.config.write_text("[Ctl]\n")
        self.assertEqual(self.ask().stderr, "")  # nobody is asked

    def test_nobody_is_asked_when_all_is_well(self):
        self.peer_proves()
        done = self.ask(code=0)
        self.assertEqual((done.stderr, self.found(done)["found"]),
                         ("", "8896 bytes pass in both directions"))
        self.assertNotIn("spiffe", (self.folder / "stderr").read_text())


if __name__ == "__main__":
    run_tests(HOSTD)
