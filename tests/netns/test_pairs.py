#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The bandwidth of pairs: four tpu-hostd in network namespaces of their own, each with two NICs, a real
tpu-collectord and tpuctl. One NIC is made slow by tc; who is named is the host and the NIC. Needs root;
it is skipped where namespaces are not permitted. All of it happens in a network namespace of the test's
own. The programs are those of BUILD_DIR (build/dev)."""
import ctypes
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "hostd"))
from around import BINARY, Hostd, has_failed, wait_until  # noqa: E402
from certificates import Authority  # noqa: E402
from launchd_stand_in import Runs  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", "build/dev")).absolute()
COLLECTORD, TPUCTL = BUILD / "collector/tpu-collectord", BUILD / "agent/ctl/tpuctl"
HOSTS, NICS = 4, 2
PEOPLE = "http://10.9.0.1:9471"
# bytes/s: what a NIC sends, so that not the processors of this machine are measured, and the slow one
NIC_RATE, SLOW_RATE = 50_000_000, 500_000
CLONE_NEWNET = 0x40000000  # sched.h


def ip(*words, inside=None):
    subprocess.run([*(["nsenter", "-t", str(inside), "-n"] if inside else []), *map(str, words)], check=True)


def shape(holder, nic, rate):
    ip("tc", "qdisc", "replace", "dev", f"eth{nic}", "root", "tbf", "rate", f"{rate}bps", "burst",
       max(rate // 200, 16000), "latency", "50ms", inside=holder)


def setUpModule():
    for program in (BINARY, COLLECTORD, TPUCTL):
        if not os.access(program, os.X_OK):
            raise RuntimeError(f"{program} is missing: build first, or set BUILD_DIR")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) < 0:  # of this thread, and of all that it begins
        raise unittest.SkipTest(f"a network namespace: {os.strerror(ctypes.get_errno())}")
    ip("ip", "link", "set", "lo", "up")
    for nic in range(NICS):
        ip("ip", "link", "add", f"br{nic}", "type", "bridge")
        ip("ip", "addr", "add", f"10.9.{nic}.1/24", "dev", f"br{nic}")
        ip("ip", "link", "set", f"br{nic}", "up")


FULL = os.environ.get("FULL") == "1"
AT_REST = "rates of a machine with other work say nothing of the NICs: with FULL=1"


class Pairs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="pairs-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.folder.chmod(0o755)
        cls.authority = Authority(cls.folder / "ca")

    def setUp(self):
        self.hosts, self.launchds, self.holders = [], [], []

    # --- What stands around

    def collector(self, policy="hosts"):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "c.conf").write_text(f"[Collector]\nInsecureListen=yes\n[Control]\nLease=10s\n"
                                       f"Preflight={policy}\n")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, open(folder / "log", "ab") as log:
            notify.bind(str(folder / "notify"))
            notify.settimeout(60)
            process = subprocess.Popen([COLLECTORD, "--config", folder / "c.conf", "--database",
                                        folder / "c.db", "--listen-otlp", "10.9.0.1:4318", "--listen-api",
                                        "10.9.0.1:9471"], stderr=log,
                                       env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify")})
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            notify.recv(4096)

    def namespace(self, worker):
        """A network namespace with NICs on the bridges. The process that holds it."""
        holder = subprocess.Popen(["setpriv", "--pdeathsig=KILL", "unshare", "--net", "sh", "-c",
                                   "ip link set lo up; echo ready; exec sleep infinity"],
                                  stdout=subprocess.PIPE)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        holder.stdout.readline()
        for nic in range(NICS):
            end = f"v{holder.pid}-{nic}"
            # a namespace outlives its holder, and would answer for the next host of this address
            self.addCleanup(ip, "ip", "link", "del", end)
            ip("ip", "link", "add", end, "master", f"br{nic}", "type", "veth", "peer", "name", f"eth{nic}",
               "netns", holder.pid)
            ip("ip", "link", "set", end, "up")
            ip("ip", "addr", "add", f"10.9.{nic}.{10 + worker}/24", "dev", f"eth{nic}", inside=holder.pid)
            ip("ip", "link", "set", f"eth{nic}", "up", inside=holder.pid)
            shape(holder.pid, nic, NIC_RATE)
        return holder.pid

    def host(self, worker, api=True):
        name, holder = f"s0-{worker}", self.namespace(worker)
        cert, key = self.authority.issue(name, f"DNS:{name},URI:spiffe://site/host/{name}")
        # what a busy machine does not answer in time is looked at again; and no more than that
        h = Hostd(ProbeInterval="20s", MetricsInterval="5s")
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        folder = h.root / "etc/tpu-hostd/identity.conf.d"
        for f in folder.iterdir():
            f.unlink()
        (folder / "50-test.conf").write_text(
                f"[Identity]\nHostName={name}\nSliceName=s0\nWorkerId={worker}\nAcceleratorType=v6e-16\n"
                f"WorkerHostnames={','.join(f's0-{w}' for w in range(HOSTS))}\n")
        (h.root / "etc/machine-id").write_text(f"{worker + 1:032x}\n")
        addresses = ",".join(f"10.9.{nic}.{10 + worker}" for nic in range(NICS))
        h.config.write_text(h.config.read_text() +
                            f"[Registry]\nKind=collector\nEndpoint=http://10.9.0.1:4318\nSplay=0\n"
                            f"Address={addresses}\n"
                            f"[Uplink]\nCaFile={self.authority.cert}\nCertFile={cert}\nKeyFile={key}\n" +
                            (f"[Api]\nListen=[::]:9470\nCertificate={cert}\nKey={key}\n"
                             f"ClientCa={self.authority.cert}\nAllowReaders=spiffe://site/host/*\n"
                             if api else ""))
        launchd = Runs(h.folder / "launchd.sock")
        self.addCleanup(launchd.stop)
        launchd.start()
        h.wrapper = ["nsenter", "-t", str(holder), "-n", "--"]
        self.hosts.append(h.start())
        self.launchds.append(launchd)
        self.holders.append(holder)

    def slice(self, lacks=None, **collector):
        self.collector(**collector)
        for worker in range(HOSTS):
            self.host(worker, api=worker != lacks)
        wait_until(lambda: all((h.get("/v1/status")["slice"] or {}).get("state") == "ready"
                               for h in self.hosts), 60, "the slice is whole")

    def slow(self, worker, nic):
        shape(self.holders[worker], nic, SLOW_RATE)

    def tpuctl(self, *words):
        return subprocess.run([TPUCTL, "--root", self.folder, "fleet", *words, "--collector", PEOPLE],
                              capture_output=True, text=True, timeout=200, check=False)

    def measure(self, code):
        done = self.tpuctl("pairs", "s0", "--json")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        print(json.dumps({k: v for k, v in answer.items() if k not in ("by", "number", "at")}))
        return answer

    def check(self, worker):
        checks = self.hosts[worker].get("/v1/checks")["checks"]
        found = [c for c in checks if c["check"] == "preflight.pairs"]
        return found[0] if found else None

    def ask(self, worker, holder, address, query):
        """A call of this worker's port with a certificate that may read, from another network namespace."""
        cert, key = self.authority.folder / "s0-0.pem", self.authority.folder / "s0-0.key"
        done = subprocess.run([*(["nsenter", "-t", str(holder), "-n"] if holder else []), "curl", "-sS",
                               "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code} %{size_download}",
                               "--cacert", self.authority.cert, "--cert", cert, "--key", key, "--connect-to",
                               f"::{address}:", f"https://s0-{worker}:9470/v1/pairs?{query}"],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            print(done.stderr.strip())
        return done.stdout.split()

    # --- Tests

    @unittest.skipUnless(FULL, AT_REST)
    def test_the_slow_nic_is_named(self):
        self.slice()
        self.slow(2, 1)
        answer = self.measure(1)
        self.assertEqual((answer["measured"], answer["unmeasured"], answer["paths"]), (16, [], []))
        self.assertEqual([(s["host"], s["nic"]) for s in answer["slow"]], [("s0-2", 1)])
        # a server that sleeps between two records of TLS, 16 KiB, would hide any NIC faster than itself
        self.assertGreater(answer["nics"][0]["median"], NIC_RATE / 2)
        self.assertNotIn("receives", answer["slow"][0])
        self.assertTrue(0.3 < answer["slow"][0]["sends"] / SLOW_RATE < 1.3, answer)
        wait_until(lambda: self.check(2), 60, "the check")
        self.assertEqual((self.check(2)["verdict"], self.check(0)["verdict"]), ("WARN", "OK"))
        self.assertIn("10.9.1.12", self.check(2)["reason"])
        done = self.tpuctl("pairs", "s0", "--last")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"SLOW: s0-2 \(worker 2\), NIC 1: sends \S+ Mbit/s, where the median")
        done = self.tpuctl("pairs", "s0")  # not again so soon
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("was measured at", done.stderr)

    def test_strangers_are_sent_nothing(self):
        self.slice()
        for holder, address in ((None, "10.9.0.10"), (self.holders[1], "10.9.0.10")):
            self.assertEqual(self.ask(0, holder, address, "number=1&round=0&nic=0")[0], "409")
        asked = subprocess.Popen([TPUCTL, "--root", self.folder, "fleet", "pairs", "s0", "--json",
                                  "--collector", PEOPLE], stdout=subprocess.PIPE)
        seen = set()
        while asked.poll() is None:  # as somebody who may read, and knows the number
            number = self.last().get("number", 0)
            for round_ in range(2):
                code, size = self.ask(0, None, "10.9.0.10", f"number={number}&round={round_}&nic=0")
                seen.add(code)
                self.assertLess(int(size), 1000)
        answer = json.loads(asked.communicate()[0])
        if FULL:  # this test keeps the host busy: with other work beside it a lease may end
            self.assertEqual((answer["measured"], answer["unmeasured"]), (16, []), answer)
        self.assertLessEqual({"403"}, seen)
        self.assertLessEqual(seen, {"403", "409"})

    def last(self):
        c = http.client.HTTPConnection("10.9.0.1", 9471, timeout=60)
        try:
            c.request("GET", "/api/v1/slices/s0/pairs")
            r = c.getresponse()
            return json.loads(r.read())
        finally:
            c.close()

    def test_never_beside_a_run(self):
        self.slice()
        with self.launchds[3].lock:
            self.launchds[3].runs["mine"] = {1: "mine", 2: "tpu-run-mine.service", 3: "running", 9: "alice",
                                             11: 1795237200000000}
        wait_until(lambda: self.hosts[3].get("/v1/status")["live_runs"] == 1, 60, "the run")
        done = wait_until(lambda: (lambda d: d if "s0-3" in d.stderr else None)(self.tpuctl("pairs", "s0")),
                          60, "it is refused")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("beside a run", done.stderr)

    @unittest.skipUnless(FULL, AT_REST)
    def test_a_host_without_certificates_says_so(self):
        self.slice(lacks=1)
        answer = self.measure(3)
        why = {u["host"]: u["why"] for u in answer["unmeasured"]}
        self.assertIn("Certificate=, Key= and ClientCa=", why["s0-1"])
        self.assertEqual(answer["slow"], [])

    @unittest.skipUnless(FULL, AT_REST)
    def test_before_runs_by_policy(self):
        self.slice(policy="pairs")
        wait_until(lambda: self.last().get("state") == "measured", 120,
                   lambda: f"it was measured unasked: {self.last()}, {self.tpuctl('slices').stdout}")
        self.assertEqual((self.last()["by"], self.last()["measured"]), ("Preflight=pairs", 16))


if __name__ == "__main__":
    unittest.main(verbosity=2)
