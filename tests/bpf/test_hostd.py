#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-hostd itself with its BPF programs, as nobody with two capabilities: it keeps none of them, and
tells what the programs counted."""
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import unittest

import holding
from test_sets import NUMBERS, capabilities, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../netns"))
from namespace import PROFILES, Host, NotPermitted  # noqa: E402

FLOOD = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 6000)); "
         "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096); [s.sendto(b'x' * 1000, ('127.0.0.1', "
         "6000)) for _ in range(400)]")
REFUSED = "import socket\nfor i in range(7):\n    socket.socket().connect_ex(('127.0.0.9', 9))\n"


class Hostd(holding.Case):
    def setUp(self):
        super().setUp()
        try:
            self.host = Host(PROFILES, nics=())
        except NotPermitted as e:
            self.skipTest(str(e))
        self.addCleanup(self.host.close)
        os.makedirs(f"{self.host.tree}/bin")
        for name in ("tpu-hostd", "tpu-hostd-probe", "tpu-hostd-bpf"):
            shutil.copy(f"{holding.BUILD}/agent/hostd/{name}", f"{self.host.tree}/bin")
        self.config = f"{self.host.tree}/hostd.conf"
        self.socket = self.host.path("/run/tpu-hostd/api.sock")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(f"[Hostd]\nEndpoint=\nApiSocket=/run/tpu-hostd/api.sock\n"
                       f"SpoolDirectory={self.host.tree}/own/spool\n"
                       f"Journal={self.host.tree}/no-journal\nMetricsInterval=1s\n[Metadata]\nHost=none\n")
        for folder in (f"{self.host.tree}/own", self.host.path("/var/lib/tpu-hostd"),
                       self.host.path("/run/tpu-hostd")):
            os.makedirs(folder, exist_ok=True)
            os.chown(folder, 65534, 65534)

    def start(self, *kept):
        with open(f"{self.host.tree}/log", "wb") as log:
            process = subprocess.Popen(["setpriv", "--pdeathsig=KILL",
                                        *self.host.command(*holding.as_nobody(*kept)),
                                        f"{self.host.tree}/bin/tpu-hostd", "--config", self.config],
                                       stdin=subprocess.DEVNULL, stderr=log)
        self.host.processes.append(process)
        self.assertTrue(wait_until(self.answers), self.log())
        return process

    def answers(self):
        try:
            return self.get("/healthz")
        except OSError:
            return None  # not yet

    def log(self):
        with open(f"{self.host.tree}/log", encoding="utf-8") as f:
            return f.read()

    def get(self, path):
        c = http.client.HTTPConnection("localhost", timeout=60)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(60)
        c.sock.connect(self.socket)
        c.request("GET", path)
        body = c.getresponse().read().decode()
        c.close()
        return body

    def check(self):
        found = [c for c in json.loads(self.get("/v1/checks"))["checks"] if c["check"] == "bpf_net"]
        return found[0] if found else None

    def kernel(self):
        return json.loads(self.get("/v1/net"))["kernel"]

    def report(self):
        """tpuctl check bpf, as people ask for it: {check: finding}."""
        root = f"{self.host.tree}/people"
        os.makedirs(f"{root}/run/tpu-hostd", exist_ok=True)
        if not os.path.islink(f"{root}/run/tpu-hostd/api.sock"):
            os.symlink(self.socket, f"{root}/run/tpu-hostd/api.sock")
        done = subprocess.run([f"{holding.BUILD}/agent/ctl/tpuctl", "--root", root, "check", "bpf",
                               "--json"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.stderr, "")
        return {c["check"]: c for c in json.loads(done.stdout)["checks"]}

    def metric(self, name, **labels):
        """Sum of the series with these labels."""
        total = 0
        for line in self.get("/metrics").splitlines():
            if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rpartition(" ")[2])
        return total

    def told_after_a_flood(self):
        """Floods again until enough of one flood fell into one interval."""
        self.host.check(sys.executable, "-c", FLOOD)
        return "tpu.net.packets_dropped" in self.get("/v1/events?since=0")

    def test_counts_and_keeps_no_right(self):
        hostd = self.start("bpf", "perfmon")
        self.assertTrue(wait_until(self.check), self.log())
        self.assertEqual((self.check()["verdict"], self.check()["reason"]), ("OK", ""))
        told = self.report()
        writers = told.pop("bpf_writers")  # some kernels refuse its programs, which is no fault
        self.assertEqual(writers["verdict"], "OK", writers)
        self.assertEqual({k: (v["verdict"], v["reason"]) for k, v in told.items()},
                         {f"bpf_{k}": ("OK", "") for k in ("net", "sched", "io", "deaths")})
        for which, mask in capabilities(hostd.pid).items():
            for name, number in NUMBERS.items():
                self.assertFalse(mask >> number & 1, f"it still has CAP_{name.upper()} among its {which}")
        self.host.check(sys.executable, "-c", REFUSED)
        self.assertTrue(wait_until(lambda: self.metric("tpu_net_connects_total",
                                                       tpu_net_connect_outcome="failed",
                                                       tpu_net_peer="127.0.0.9") == 7), self.get("/metrics"))
        self.assertTrue(wait_until(self.told_after_a_flood), self.log())
        event = [e for e in json.loads(self.get("/v1/events?since=0"))["events"]
                 if e["name"] == "tpu.net.packets_dropped"][0]
        self.assertEqual(event["body"]["reason"], "SOCKET_RCVBUFF")
        self.assertGreaterEqual(event["body"]["packets"], 100)
        self.assertTrue(wait_until(lambda: self.metric("tpu_net_drops_total") == self.kernel()["dropped"]),
                        self.get("/metrics"))
        self.assertGreaterEqual(self.kernel()["dropped"], sum(d["packets"] for d in self.kernel()["drops"]))
        self.assertEqual(self.kernel()["uncounted"], 0)
        shown = self.host.run(f"{holding.BUILD}/agent/ctl/tpuctl", "net").stdout
        self.assertRegex(shown,
                         r"(?m)^dropped in \w+ \(SOCKET_RCVBUFF\): \d+ packets: the receive buffer of a "
                         r"socket was full")
        self.assertNotIn("found no room", shown)
        ids = holding.programs_of(hostd.pid)
        self.assertTrue(ids and all(map(holding.loaded, ids)))
        hostd.kill()
        hostd.wait(60)
        self.assertTrue(wait_until(lambda: not any(map(holding.loaded, ids))), "programs outlive tpu-hostd")

    def test_without_rights_the_rest_runs(self):
        self.start()
        self.assertTrue(wait_until(self.check), self.log())
        self.assertEqual(self.check()["verdict"], "UNKNOWN")
        self.assertIn("CAP_BPF", self.check()["reason"])
        self.assertEqual(self.report()["bpf_net"]["reason"], self.check()["reason"])
        self.assertNotIn("bpf_net", json.dumps(json.loads(self.get("/v1/status"))),
                         "it does not count for the host's state")
        self.assertNotIn("tpu_net_connects", self.get("/metrics"))

    def test_without_the_loader_the_rest_runs(self):
        os.unlink(f"{self.host.tree}/bin/tpu-hostd-bpf")
        if os.path.exists("/usr/lib/tpu-hostd/tpu-hostd-bpf"):
            self.skipTest("the package is installed here")
        self.start("bpf", "perfmon")
        self.assertTrue(wait_until(self.check), self.log())
        self.assertEqual(self.check()["verdict"], "UNKNOWN")
        self.assertIn("tpu-hostd-bpf is not there", self.check()["reason"])


if __name__ == "__main__":
    unittest.main()
