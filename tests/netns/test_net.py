#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Which way is bad: tpu-hostd and tpuctl net between four network namespaces, one of whose ways loses
packets, against ss and nstat.
Needs root; exit code 77 (skipped, with the reason) where namespaces are not permitted. The programs are
those of BUILD_DIR (build/dev)."""
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

from namespace import DIE_WITH_US, PROFILES, Host, NotPermitted, hold, run_tests

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/hostd")]
from launchd_stand_in import Runs  # noqa: E402
from openapi import OpenApi  # noqa: E402

BUILD = os.path.realpath(os.environ.get("BUILD_DIR", TOP / "build/dev"))
TPUCTL, HOSTD = f"{BUILD}/agent/ctl/tpuctl", f"{BUILD}/agent/hostd/tpu-hostd"
FILE = OpenApi(TOP / "docs/openapi-agent.yaml")
CGROUPS = next((f for f in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
                if os.path.exists(f + "/cgroup.controllers")), None)

# A peer: takes what comes and answers each 20,000 bytes with one. "ready" when it listens.
PEER = """
import socket, threading
server = socket.create_server(('0.0.0.0', 7000))
print('ready', flush=True)
def serve(c):
    got = 0
    while True:
        data = c.recv(65536)
        if not data:
            return
        got += len(data)
        while got >= 20000:
            got -= 20000
            c.send(b'.')
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
# The run: one connection a way, each waits for its answer before it goes on, for a second. A line "quiet"
# ends the sending, not the connections.
RUN = """
import socket, sys, threading, time
quiet = threading.Event()
def talk(local, peer):
    c = socket.create_connection((peer, 7000), source_address=(local, 0))
    c.settimeout(1)
    while not quiet.is_set():
        try:
            c.sendall(bytes(20000))
            c.recv(1)
        except TimeoutError:
            pass  # the answer was lost: who waits for it alone has nothing under way that could get lost
        time.sleep(0.02)
    kept.append(c)
kept, threads = [], []
for way in sys.argv[1:]:
    threads.append(threading.Thread(target=talk, args=way.split(','), daemon=True))
    threads[-1].start()
sys.stdin.readline()
quiet.set()
for t in threads:
    t.join()
print('quiet', flush=True)
sys.stdin.readline()
"""


class Net(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.host = Host(PROFILES, mtu=1500)
        self.addCleanup(self.host.close)
        self.peers = []
        for i, nic in enumerate(("eth0", "eth1")):
            self.host.check("ip", "addr", "add", f"10.0.{i}.10/24", "dev", nic)
            self.host.on_wire("ip", "link", "add", f"br{i}", "type", "bridge")
            self.host.on_wire("ip", "link", "set", f"br{i}", "up")
            self.host.on_wire("ip", "link", "set", f"p-{nic}", "master", f"br{i}")
        for k in (1, 2, 3):
            self.add_peer(k)
        self.on_wire_nft("table bridge fault { chain forward { type filter hook forward priority 0; policy "
                         "accept; }\n}")
        self.make_group()
        self.runs = Runs(f"{self.host.tree}/launchd.sock").start()
        self.addCleanup(self.runs.stop)
        os.chmod(f"{self.host.tree}/launchd.sock", 0o666)
        self.start_agent()

    def add_peer(self, k):
        peer = hold(["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"])
        self.addCleanup(peer.communicate)
        self.addCleanup(peer.kill)
        inside = ["nsenter", "-t", str(peer.pid), "-n"]
        for i in (0, 1):
            self.host.on_wire("ip", "link", "add", f"q{k}eth{i}", "type", "veth", "peer", "name", f"eth{i}",
                              "netns", str(peer.pid))
            self.host.on_wire("ip", "link", "set", f"q{k}eth{i}", "master", f"br{i}", "up")
            subprocess.run([*inside, "ip", "addr", "add", f"10.0.{i}.{10 + k}/24", "dev", f"eth{i}"],
                           check=True)
            subprocess.run([*inside, "ip", "link", "set", f"eth{i}", "up"], check=True)
        server = subprocess.Popen([*DIE_WITH_US, *inside, "/usr/bin/python3", "-c", PEER],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        self.assertEqual(server.stdout.readline(), "ready\n")

    def make_group(self):
        """The control group of the run; the host sees those of this test alone."""
        top = f"{CGROUPS}/net-test-{os.getpid()}"
        self.group = f"{top}/tpu.slice/tpu-run.slice/tpu-run-run1.slice/tpu-run-run1.service"
        made = [top]
        while made[-1] != self.group:
            made.append("/".join([made[-1], self.group[len(made[-1]) + 1:].split("/")[0]]))
        try:
            for folder in made:
                os.mkdir(folder)
                self.addCleanup(os.rmdir, folder)
        except OSError as refused:
            raise NotPermitted(f"control groups: {refused}") from refused
        self.host.check("mount", "--bind", top, CGROUPS)

    def start_agent(self):
        self.host.check("mkdir", "/run/tpu-hostd")
        self.socket = self.host.path("/run/tpu-hostd/api.sock")
        config = f"{self.host.tree}/hostd.conf"
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[Hostd]\nEndpoint=\nApiSocket=/run/tpu-hostd/api.sock\n"
                       f"LaunchdSocket={self.runs.path}\nSpoolDirectory={self.host.tree}/spool\n"
                       f"Journal={self.host.tree}/no-journal\nMetricsInterval=1s\n[Metadata]\nHost=none\n")
        self.host.identity("[Identity]\nWorkerHostnames=10.0.0.10,10.0.0.11,10.0.0.12,10.0.0.13\n"
                           "WorkerId=0\n")
        os.chmod(self.host.tree, 0o755)
        self.host.start(HOSTD, "--config", config)

    def start_run(self, ways):
        self.runs._run("run1", {"spec": {}})  # noqa: SLF001
        join = f"echo 0 > {self.group}/cgroup.procs; exec \"$@\""
        self.run_process = subprocess.Popen(["sh", "-c", join, "sh", *DIE_WITH_US,
                                             *self.host.command("/usr/bin/python3", "-c", RUN, *ways)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.run_process.communicate)
        self.addCleanup(self.run_process.kill)

    def on_wire_nft(self, text):
        subprocess.run(["nsenter", "-t", str(self.host.wire.pid), "-n", "nft", "-f", "-"], input=text,
                       text=True, check=True)

    def lose(self, rule):
        """Packets between this host and peer 2 by eth1, both ways."""
        self.on_wire_nft("flush chain bridge fault forward\n" + "".join(
            f'add rule bridge fault forward iifname "{a}" oifname "{b}" ip protocol tcp {rule} drop\n' for a,
            b in (("p-eth1", "q2eth1"), ("q2eth1", "p-eth1")))
            if rule is not None else "flush chain bridge fault forward")

    def get(self, path):
        c = http.client.HTTPConnection("localhost", timeout=60)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(60)
        c.sock.connect(self.socket)
        try:
            c.request("GET", path)
            r = c.getresponse()
            body = r.read()
            self.assertEqual(r.status, 200, body)
            if ("GET", FILE.path_of(path)) in FILE.operations:
                FILE.take("GET", FILE.path_of(path), r.status, r.getheader("Content-Type"), body)
            return body.decode()
        finally:
            c.close()

    def net(self, query=""):
        return json.loads(self.get("/v1/net" + query))

    def wait_for(self, what, condition):
        # a loader of BPF programs works for seconds, and a busy machine gives it few
        end = time.monotonic() + 300
        while time.monotonic() < end:
            answer = self.net()
            if condition(answer):
                return answer
            time.sleep(0.2)
        return self.fail(f"{what}: {json.dumps(answer, indent=1)}")

    @staticmethod
    def bad(answer):
        return {(link["nic"], link["address"]) for link in answer["links"] if link["bad"]}

    def events(self):
        return [e for e in json.loads(self.get("/v1/events?since=0"))["events"]
                if e["name"].startswith("tpu.net.")]

    def by_others(self):
        """What ss and nstat of the host say: of each connection by its peer, all that /v1/net tells, too;
        and retransmits and timeouts of all."""
        seen = {}
        lines = self.host.check("ss", "-HtinO", "state", "established").splitlines()
        for words in map(str.split, lines):
            address, said = words[3].rpartition(":")[0], dict(w.split(":", 1) for w in words[4:] if ":" in w)
            self.assertNotIn(address, seen, "one connection a way")

            def number(name, unit=1, said=said):
                first, _, second = said.get(name, "0").partition("/")
                return round(float(re.match(r"[\d.]*", second if name == "retrans" else first)[0]
                                   or 0) * unit)

            seen[address] = {
                "local": words[2].rpartition(":")[0],
                "total": {"retransmits": number("retrans"), "segments": number("data_segs_out"),
                          "sent_bytes": number("bytes_sent"),
                          "received_bytes": number("bytes_received"), "busy": number("busy"),
                          "receive_window_limited": number("rwnd_limited"),
                          "send_buffer_limited": number("sndbuf_limited")},
                "rtt": number("rtt", 1000), "min_rtt": number("minrtt", 1000),
                "receive_space": number("rcv_space"),
                "unacked": number("unacked"), "lost": number("lost"),
                "delivery_rate": int(words[words.index("delivery_rate") + 1].removesuffix("bps")) // 8
                if "delivery_rate" in words else 0}
        counters = dict(line.split()[:2] for line in self.host.check("nstat", "-asz").splitlines()[1:])
        return seen, *(int(counters[name])
                       for name in ("TcpRetransSegs", "TcpExtTCPTimeouts", "TcpExtTCPRetransFail"))

    @staticmethod
    def as_ss(link):
        """A link in the units that ss prints: times of a total in whole milliseconds, of round trips in
        microseconds."""
        total = {k: round(link["total"][k] * 1e6) // 1000
                 if k in ("busy", "receive_window_limited", "send_buffer_limited") else link["total"][k]
                 for k in ("retransmits", "segments", "sent_bytes", "received_bytes", "busy",
                           "receive_window_limited", "send_buffer_limited")}
        return {"local": link["local"], "total": total, "min_rtt": round((link["min_rtt"] or 0) * 1e6),
                **{k: link[k] for k in ("receive_space", "unacked", "lost", "delivery_rate")}}

    def assert_figures(self):
        """All is still: the figures of everyone are those of the same moment."""
        self.lose(None)
        self.run_process.stdin.write("quiet\n")
        self.run_process.stdin.flush()
        self.assertEqual(self.run_process.stdout.readline(), "quiet\n")
        # a timer may have backed off for long
        self.wait_for("nothing to be under way", lambda a: all(link["unacked"] == 0 for link in a["links"]))
        looks = []
        answer = self.wait_for("two more looks",
                               lambda a: looks.append(a) or len({look["looked"] for look in looks}) > 2)
        seen, retransmits, timeouts, failed = self.by_others()
        # A look tells the round trips of what was sent since the one before: of those behind which nothing
        # was sent.
        sent = {link["address"]: link["total"]["segments"] for link in answer["links"]}
        rtts = {link["address"]: round(link["rtt"] * 1e6) for look in looks for link in look["links"]
                if link["rtt"] is not None and link["unacked"] == 0
                and link["total"]["segments"] == sent[link["address"]]}
        smoothed = {address: c.pop("rtt") for address, c in seen.items()}
        self.assertEqual(rtts, {address: smoothed[address] for address in rtts})
        self.assertEqual({link["address"]: self.as_ss(link) for link in answer["links"]}, seen)
        by_peer = {address: c["total"]["retransmits"] for address, c in seen.items()}
        self.assertEqual({n["nic"]: n["total"]["sent_bytes"] for n in answer["nics"]},
                         {f"eth{i}": sum(c["total"]["sent_bytes"] for c in seen.values()
                                         if c["local"] == f"10.0.{i}.10") for i in (0, 1)})
        self.assertEqual(sum(link["total"]["retransmits"] for link in answer["links"]), retransmits)
        self.assertGreater(retransmits, 0)
        if answer["exact_timeouts"]:
            self.assertEqual(sum(link["total"]["timeouts"] for link in answer["links"]), timeouts)
        self.assert_kernel(answer, by_peer, failed)
        print(f"ss and nstat: {retransmits} segments sent again, {timeouts} timeouts, to {by_peer}; round "
              f"trips of {len(rtts)} connections: as /v1/net has them", file=sys.stderr)

    def assert_kernel(self, answer, by_peer, failed):
        """Where BPF may be used here: its programs counted the same, by peer, but for segments that this
        host could not hand down."""
        print(f"BPF: {json.dumps(answer['kernel'])}", file=sys.stderr)
        if answer["kernel"] is None:
            self.assertEqual({link["kernel"] for link in answer["links"]}, {None})
            return
        counted = {link["address"]: sum(link["kernel"][cause]
                                        for cause in ("fast", "rto", "probes", "syns"))
                   for link in answer["links"] if link["kernel"]}
        self.assertLessEqual(set(counted), set(by_peer))
        uncounted = {peer: n - counted.get(peer, 0) for peer, n in by_peer.items()}
        self.assertGreaterEqual(min(uncounted.values()), 0, uncounted)
        # A program that is interrupted by an event of its own kind misses that one, and the kernel counts
        # how often.
        missed = sum(p.get("recursion_misses", 0) for p in self.programs() if p.get("name") == "retransmit")
        print(f"{failed} segments could not be handed down, BPF missed {missed} times, and told nothing of "
              f"{uncounted}", file=sys.stderr)
        if missed:
            self.assertGreaterEqual(sum(uncounted.values()), failed, uncounted)
        else:
            self.assertEqual(sum(uncounted.values()), failed, uncounted)
        self.assertEqual({link["run"] for link in answer["links"]}, {"run1"})
        sent = self.retransmits()
        self.assertEqual({address: n for address, n in counted.items() if n}, sent)

    def retransmits(self):
        """{address: segments} of the metric, over all causes."""
        total = {}
        for line in self.get("/metrics").splitlines():
            if line.startswith("tpu_net_retransmits_total{"):
                address = re.search('network_peer_address="([^"]*)"', line).group(1)
                total[address] = total.get(address, 0) + float(line.rpartition(" ")[2])
        return total

    @staticmethod
    def programs():
        """All of this machine; without bpftool it is not known how often one missed something."""
        bpftool = shutil.which("bpftool", path="/usr/sbin:/usr/bin")
        if not bpftool:
            return [{"name": "retransmit", "recursion_misses": 1}]
        return json.loads(subprocess.run([bpftool, "-j", "prog", "show"], capture_output=True, text=True,
                                         check=True).stdout)

    def test_one_bad_way(self):
        self.assertIn("no run", self.net()["text"])
        self.wait_for("the kernel's programs, or why there are none",
                      lambda _: '"bpf_net"' in self.get("/v1/checks"))
        ways = [f"10.0.{i}.10,10.0.{i}.{10 + k}" for i in (0, 1) for k in (1, 2, 3)]
        # by the other NIC than its address's
        self.host.check("ip", "route", "add", "10.0.1.13/32", "dev", "eth0")
        self.start_run(ways)
        answer = self.wait_for("six ways", lambda a: len(a["links"]) == 6 and a["verdict"] == "OK" and
                               all(link["interval"]["segments"] > 0 for link in a["links"]))
        self.assertEqual({link["run"] for link in answer["links"]}, {"run1"})
        self.assertEqual({link["peer"] for link in answer["links"] if link["nic"] == "eth0"},
                         {"worker 1", "worker 2", "worker 3"})
        self.assertEqual({link["address"]: link["leaves_by"] for link in answer["links"]
                          if link["leaves_by"]}, {"10.0.1.13": "eth0"})
        self.assertAlmostEqual(sum(n["share"] for n in answer["nics"]), 1)
        self.assertEqual(answer["receive_buffer"]["verdict"], "OK")
        self.assertEqual([link["address"] for link in self.net("?peer=2")["links"]], ["10.0.0.12"])

        self.lose("numgen random mod 100 < 40")
        answer = self.wait_for("a bad way", self.bad)
        self.assertEqual(self.bad(answer), {("eth1", "10.0.1.12")})
        self.assertRegex(answer["text"], r"NIC eth1 to 10\.0\.1\.12: ")
        self.lose("counter")  # nothing comes through any more
        answer = self.wait_for("silence", lambda a: "nothing acknowledged for" in a["text"])
        self.assertEqual(self.bad(answer), {("eth1", "10.0.1.12")})
        done = self.host.run(TPUCTL, "--config", f"{self.host.tree}/hostd.conf", "net")
        print(done.stdout, file=sys.stderr)
        self.assertEqual("BPF: counted by the kernel's programs" in done.stdout,
                         answer["kernel"] is not None)
        self.assertEqual(done.returncode, 1, done.stderr)
        first = done.stdout.splitlines()[0]
        self.assertTrue(first.startswith("WARN  NIC eth1 to 10.0.1.12: "), first)
        self.assertEqual(len(re.findall(r"^BAD ", done.stdout, re.M)), 1)
        again = self.retransmits()
        # a busy machine repeats one elsewhere, now and then
        self.assertEqual(max(again, key=again.get), "10.0.1.12")
        if answer["kernel"] is None:
            self.assertEqual(len(again), 6)  # of BPF, what never happened has no series

        self.lose(None)
        self.wait_for("all well", lambda a: a["verdict"] == "OK")
        told = [e for e in self.events() if e["name"].startswith("tpu.net.link")]
        # Between the loss and the silence of the cut there may be three looks, of a second each here,
        # without a reason.
        self.assertEqual([e["name"] for e in told],
                         ["tpu.net.link_bad", "tpu.net.links_good"] * (len(told) // 2))
        self.assertEqual([told[0]["body"][k] for k in ("nic", "address", "run")],
                         ["eth1", "10.0.1.12", "run1"])
        self.assert_figures()
        self.runs.exit("run1")
        over = self.wait_for("no run", lambda a: "no run" in a["text"])
        self.assertEqual([link for link in over["links"] if link["connections"] or link["run"]
                          or not link["kernel"]], [])


if __name__ == "__main__":
    if CGROUPS is None:
        print("SKIP: no control groups of version 2")
        sys.exit(77)
    run_tests(TPUCTL, HOSTD)
