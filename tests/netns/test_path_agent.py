#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The path proof in tpu-hostd: /v1/path of its socket, between network namespaces. Needs root; exit code 77
(skipped, with
the reason) where namespaces are not permitted. The programs are those of BUILD_DIR (build/dev)."""
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

from namespace import NO_RIGHTS, run_tests
from test_path import EACH, TPUCTL, Path as PathCase

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from openapi import OpenApi  # noqa: E402

FILE = OpenApi(pathlib.Path(__file__).parents[2] / "docs/openapi-agent.yaml")
HOSTD = os.path.join(os.path.dirname(TPUCTL), "../hostd/tpu-hostd")
ASK = """
import http.client, socket, sys
c = http.client.HTTPConnection("localhost", timeout=60)
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect(sys.argv[1])
c.request("POST", sys.argv[2])
r = c.getresponse()
print(r.status, r.read().decode())
"""


class Agent(PathCase):
    def setUp(self):
        super().setUp()
        config = f"{self.host.tree}/hostd.conf"
        self.socket = f"{self.host.tree}/api.sock"
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[Hostd]\nEndpoint=\nApiSocket={self.socket}\n"
                       f"SpoolDirectory={self.host.tree}/spool\n"
                       f"Journal={self.host.tree}/no-journal\nMetricsInterval=1s\n"
                       "[Metadata]\nHost=none\n[Identity]\nWorkerHostnames=h0,h3\nWorkerId=0\n[Path]\n"
                       "Peers=eth1=10.10.1.13\n")
        os.chmod(self.host.tree, 0o755)
        with open(f"{self.host.tree}/etc/resolv.conf", "w", encoding="utf-8") as file:
            file.write("nameserver 10.10.0.13\n")  # before anybody looks: /etc is an overlay, and remembers
        self.daemon = self.host.start(HOSTD, "--config", config)

    def connect(self):
        c = http.client.HTTPConnection("localhost", timeout=60)
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(60)
        c.sock.connect(self.socket)
        return c

    def call(self, method, path):
        c = self.connect()
        try:
            c.request(method, path)
            r = c.getresponse()
            status, kind, body = r.status, r.getheader("Content-Type"), r.read()
            if (method, FILE.path_of(path)) in FILE.operations:
                FILE.take(method, FILE.path_of(path), status, kind, body)
            return status, body
        finally:
            c.close()

    def get(self, method, path, status=200):
        code, body = self.call(method, path)
        self.assertEqual(code, status, body)
        return json.loads(body)

    def slow(self):
        """Makes a proof last nearly a second: nobody answers."""
        self.drop("there", '"p-eth0"')

    def test_its_own_peers_and_the_last_result(self):
        self.assertEqual(self.get("GET", "/v1/path", 404)["remedy"], "POST /v1/path starts one")
        report = self.get("POST", "/v1/path")
        self.assert_found(report, "eth0→h3 (10.10.0.13)", "OK", "8896 bytes pass in both directions")
        self.assert_found(report, "eth1→10.10.1.13", "OK", "8896 bytes pass in both directions")
        self.assertEqual(self.get("GET", "/v1/path"), report)
        seen = self.counters()
        self.assertEqual((seen["full_echo"], seen["without_df"], seen["any_udp"]),
                         (report["packets"] / EACH, 0, 0))
        done = self.host.run(TPUCTL, "check", "path", "--json", "--peer", "h3")
        self.assertEqual(report.keys(), json.loads(done.stdout).keys())
        self.assertEqual({frozenset(r) for r in report["results"]},
                         {frozenset(r) for r in json.loads(done.stdout)["results"]})
        audit = [e for e in self.get("GET", "/v1/events?since=0")["events"] if e["name"] == "tpu.api.acted"]
        self.assertEqual([(e["body"]["call"], e["body"]["uid"]) for e in audit], [("POST /v1/path", 0)])
        self.assertNotIn("unknown key", self.host.stderr())

    def test_a_black_hole_on_demand(self):
        self.drop("there", '"p-eth0" meta length > 1500')
        report = self.get("POST", "/v1/path?peer=h3")
        self.assert_found(report, "eth0→h3 (10.10.0.13)", "FAIL",
                          "1500 bytes pass, 8896 do not (towards the peer)")

    def test_one_at_a_time_and_the_loop_turns(self):
        self.slow()
        longest = 0
        for _ in range(30):  # a proof lasts a second: on a busy machine the others may come after its end
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(self.call("POST", "/v1/path?peer=h3"))) for _ in range(4)]
            for t in threads:
                t.start()
            while any(t.is_alive() for t in threads):
                began = time.monotonic()
                self.assertEqual(self.call("GET", "/healthz"), (200, b"ok\n"))
                longest = max(longest, time.monotonic() - began)
                time.sleep(0.01)
            self.assertEqual(len(answers), len(threads))
            self.assertLessEqual({status for status, _ in answers}, {200, 409})
            done = [json.loads(body) for status, body in answers if status == 200]
            self.assertEqual({self.finding(d, "eth0→h3 (10.10.0.13)")["verdict"] for d in done}, {"UNKNOWN"})
            if len(done) == 1:
                break
        print(f"while a proof runs: /healthz answered within {longest * 1000:.1f} ms at most",
              file=sys.stderr)
        self.assertEqual(len(done), 1)

    def private_dirty(self):
        with open(f"/proc/{self.daemon.pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))

    def test_256_peers(self):
        """Nobody is there: the worst case. The figures are printed; the load is bounded."""
        self.host.check("ip", "route", "add", "10.10.2.0/23", "dev", "eth0")
        peers = ",".join(f"10.10.{2 + i // 250}.{1 + i % 250}" for i in range(256))
        before, answers, longest = self.private_dirty(), [], 0
        call = threading.Thread(target=lambda: answers.append(self.get("POST", "/v1/path?peer=" + peers)))
        call.start()
        while call.is_alive():
            began = time.monotonic()
            self.assertEqual(self.call("GET", "/healthz")[0], 200)
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.005)
        call.join()
        self.assertEqual(len(answers[0]["results"]), 256)
        self.assertLessEqual(answers[0]["packets"], 240 * 256)
        print(f"256 peers: {answers[0]['seconds']:.2f} s, {answers[0]['packets']} packets; /healthz within "
              f"{longest * 1000:.1f} ms; "
              f"private dirty {before} kB before, {self.private_dirty()} kB after", file=sys.stderr)

    def test_the_client_goes_away(self):
        self.slow()
        for attempt in range(6):  # gone before it is heard: once more, with more patience
            c = self.connect()
            c.request("POST", "/v1/path?peer=h3")
            time.sleep(0.1 * 2 ** attempt)
            c.close()
            for _ in range(200):
                status, body = self.call("GET", "/v1/path")
                if status == 200:
                    break
                time.sleep(0.05)
            if status == 200:
                break
        self.assertEqual(status, 200, body)
        self.assertEqual(self.finding(json.loads(body), "eth0→h3 (10.10.0.13)")["verdict"], "UNKNOWN")

    def test_it_ends_in_the_middle(self):
        self.slow()
        c = self.connect()
        c.request("POST", "/v1/path?peer=h3")
        time.sleep(0.1)
        self.assertEqual(self.host.stop(self.daemon), 0)
        c.close()

    def test_names_that_nobody_resolves_in_time(self):
        # A resolver that never answers: the namespace has no way to it, but the socket takes the packets.
        with open(f"{self.host.tree}/etc/nsswitch.conf", "w", encoding="utf-8") as file:
            file.write("hosts: dns\n")
        self.drop("there", '"p-eth0" udp dport 53')
        f = self.finding(self.get("POST", "/v1/path?peer=slow.example"), "slow.example")
        self.assertEqual(f["reason"], "the resolver gave no answer within 1 s")
        time.sleep(0.3)
        children = subprocess.run(["pgrep", "-P", str(self.daemon.pid), "-r", "Z"], capture_output=True,
                                  text=True).stdout
        self.assertEqual(children, "")  # no zombie is left

    def test_who_may(self):
        def ask(path):
            done = self.host.run(*NO_RIGHTS, "/usr/bin/python3", "-c", ASK, self.socket, path)
            status, _, body = done.stdout.partition(" ")
            return int(status), json.loads(body)

        self.assertEqual(ask("/v1/path?peer=h3")[0], 403)
        self.assertEqual(self.counters()["full_echo"], 0)
        self.assertEqual(ask("/v1/path")[0], 200)
        status, body = ask("/v1/path")
        self.assertEqual(status, 429)
        self.assertIn("10 s", body["error"])

    def test_bad_words(self):
        for query in ("peer=", "peer=a%20b", "peer=,", "peer==x", "peer=%1b",
                      "peer=" + ",".join(f"10.1.{i // 250}.{i % 250}" for i in range(300))):
            answer = self.get("POST", "/v1/path?" + query, 400)
            self.assertTrue(answer["error"] and answer["remedy"], query)
        self.assertEqual(self.call("DELETE", "/v1/path")[0], 405)
        self.assertEqual(self.get("GET", "/v1/path", 404)["remedy"], "POST /v1/path starts one")

    def test_narrow_ping_group_range(self):
        self.host.check("sysctl", "-qw", "net.ipv4.ping_group_range=1 0")
        f = self.finding(self.get("POST", "/v1/path"), "")
        self.assertEqual((f["verdict"], f["found"]),
                         ("UNKNOWN", "not tried: ping sockets are not permitted"))


if __name__ == "__main__":
    run_tests(HOSTD)
