#!/usr/bin/python3
"""Control without telemetry: real tpu-hostd push to a receiver that is no collector of ours, and are members
of a tpu-collectord that keeps no telemetry.
BUILD_DIR names the build."""

import gzip
import json
import re
import sys
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).parent))
import around  # noqa: E402
from around import wait_until  # noqa: E402
from test_capture import READS, WAITS, Capturing, stacks  # noqa: E402


class Apart(Capturing):
    def receiver(self):
        """Its URL, and what says whether something of this host has come."""
        receiver = around.Receiver().start()
        self.addCleanup(receiver.stop)
        return f"http://127.0.0.1:{receiver.port}", lambda host: any(host.encode() in body for _, _,
                                                                     body in list(receiver.got))

    def setUp(self):
        super().setUp()
        self.elsewhere, self.has_come = self.receiver()
        self.collector.kill()
        conf = self.collector.folder / "collectord.conf"
        conf.write_text(f"{conf.read_text()}\n[Telemetry]\nEnabled=no\nElsewhere={self.elsewhere}\n")
        self.collector.start()

    def host(self, slice_name, worker, hosts=1, start=True, machine=None, thread=WAITS):
        h = super().host(slice_name, worker, hosts, start=False, machine=machine, thread=thread)
        text = h.config.read_text()
        h.config.write_text(text.replace(f"Endpoint={self.collector.agents}\n",
                                         f"Endpoint={self.elsewhere}\n", 1))
        self.assertIn(f"Endpoint={self.collector.agents}\n", h.config.read_text())  # the registry's
        return h.start() if start else h

    def ask(self, *words, code=0):
        return self.tpuctl(*words, "--collector", self.collector.people, check=code)

    def told_where(self, *words):
        done = self.ask(*words, code=3)
        self.assertEqual((done.stdout, done.stderr.splitlines()[0]),
                         ("", f"tpuctl: telemetry goes to {self.elsewhere}: this collector keeps no events, "
                              f"lines and series"))

    def test_all_but_telemetry(self):
        self.three_hosts()
        self.assertRegex(self.ask("runs", "--fleet").stdout, r"run1 +running +alice +1 .* s0, s1, s2 +3 ")
        wait_until(lambda: "3 hosts: 3 ready\n" in self.ask("fleet").stdout, 60,
                   lambda: self.ask("fleet").stdout)
        rows = [line.split() for line in self.ask("fleet").stdout.splitlines()]
        self.assertEqual([(r[0], r[2], r[3], r[4]) for r in rows[1:4]],
                         [(f"s{i}", f"s{i}-0", "ready", "run1") for i in range(3)], rows)
        self.assertEqual(rows[4], ["3", "hosts:", "3", "ready"])
        fleet = json.loads(self.ask("fleet", "--json").stdout)["hosts"]
        self.assertTrue(all(h["registry"] == "member" and re.match(r"\d+\.\d+", h["version"])
                            and h["lag_seconds"] is None for h in fleet), fleet)
        self.assertIn("s0", self.ask("fleet", "slices").stdout)
        # Orders reach their hosts.
        self.ask("fleet", "cordon", "s0-0", "disk")
        self.ask("fleet", "drain", "s2-0", "fans", "--yes")
        self.ask("fleet", "observe", "maintenance", "--yes")
        wait_until(lambda: self.hosts["s0-0"].get("/v1/status")["mode"] == "observe", 60, "the mode")
        wait_until(lambda: re.search(r"s0-0 .*cordoned: disk", self.ask("fleet").stdout), 60,
                   lambda: self.ask("fleet").stdout)
        wait_until(lambda: re.search(r"s2-0 .*draining: fans", self.ask("fleet").stdout), 60,
                   lambda: self.ask("fleet").stdout)
        self.ask("fleet", "repair")
        self.ask("fleet", "uncordon", "s0-0")
        # Who is at fault.
        done = self.ask("diagnose", "s0", "--capture", code=2)
        self.assertTrue(done.stdout.startswith("slice s1, worker 0 (127.0.0.1) holds the run up"),
                        done.stdout)
        self.assertIn("3 of 3 hosts answered", done.stdout)
        # What is telemetry's.
        self.told_where("events")
        self.told_where("events", "--follow")
        self.told_where("logs", "run1", "--fleet")
        self.told_where("logs", "run1", "--fleet", "--follow")
        for name in self.hosts:
            wait_until(lambda name=name: self.has_come(name), 60,
                       f"telemetry of {name} goes where it is told to")
        self.hosts["s2-0"].process.kill()
        self.hosts["s2-0"].process.wait(20)
        wait_until(lambda: re.search(r"s2-0 +MISSING .* its lease ended", self.ask("fleet").stdout), 60,
                   lambda: self.ask("fleet").stdout)


class Stand:
    """A collector that keeps a registry: it answers syncs with what it is given and keeps what is posted;
    a leader's term."""

    def __init__(self):
        self.term, self.records, self.captures, self.answers, self.revision, self.away = 1, {}, [], [], 0, False
        # gate: what captures wait for until they are answered; terms: of the syncs that were answered
        self.gate, self.terms = None, []
        stand = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                url = urlsplit(self.path)
                if stand.away:
                    self.close_connection = True
                    return
                status, answer = 200, {}
                if url.path == "/registry/v1/capture":
                    q = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
                    status = stand.answers.pop(0) if stand.answers else 200
                    stand.captures.append((stand.term, status, q, body, self.headers["Content-Encoding"]))
                    answer = {} if status == 200 else {"error": "not now"}
                    if stand.gate:
                        stand.gate.wait(60)
                elif url.path == "/registry/v1/sync":
                    since = json.loads(body).get("since")
                    if since == f"e.{stand.revision}":
                        time.sleep(0.2)
                    known = since == f"e.{stand.revision}"
                    answer = {"v": 1, "lease": 15, "revision": f"e.{stand.revision}", "whole": not known,
                              "records": {} if known else stand.records,
                              "tell": False, "conflict": None, "term": stand.term, "store": "one"}
                    stand.terms.append(stand.term)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *a):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    def tell(self, **records):
        self.records, self.revision = {k.replace("__", "/"): v for k,
                                       v in records.items()}, self.revision + 1

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class OnTheWay(Capturing):
    """What a host does with its captures, before a stand-in for the collector."""

    def setUp(self):
        super().setUp()
        self.stand = Stand()
        self.addCleanup(self.stand.stop)
        self.h = self.host("s0", 0, start=False)
        self.h.config.write_text(self.h.config.read_text().replace(f"[Registry]\nKind=collector\n"
                                                                   f"Endpoint={self.collector.agents}\n",
                                                                   f"[Registry]\nKind=collector\n"
                                                                   f"Endpoint={self.stand.url}\n"))
        self.launchds["s0-0"].runs["solo"] = {1: "solo", 2: "tpu-run-solo.service", 3: "running", 9: "alice",
                                              10: "train", 11: time.time_ns() // 1000, 13: 4711}
        self.launchds["s0-0"].stacks = lambda name: stacks(READS)

    def record(self, episode, **more):
        return {"v": 1, "episode": episode, "at": int(time.time() * 1e6), "second": 1000000, "run": "solo",
                "generation": 0, "hosts": 1, "slice_hosts": 1, "again": 0,
                "suspected": True, "by": "h", "why": "w", **more}

    def sent(self, n):
        wait_until(lambda: len(self.stand.captures) >= n, 60,
                   lambda: f"{n} captures: {[c[:3] for c in self.stand.captures]}")
        return [(term, status, q["episode"], q["round"]) for term, status, q, _, _ in self.stand.captures]

    def test_of_another_generation(self):
        """The stacks of another start of the run are not sent in its place: the host says which it has."""
        for has, wanted, problem in ((1, 2, b"generation 1 of the run is on this host, and generation 2"),
                                     (2, 2, None), (0, 2, None)):
            self.launchds["s0-0"].captured_generation = has
            if not self.h.process:
                self.h.start()
            before = len(self.stand.captures)
            self.stand.tell(capture__s0=self.record(f"e{has}{wanted}", generation=wanted, second=0))
            self.sent(before + 1)
            body = gzip.decompress(self.stand.captures[-1][3])
            self.assertEqual(b"next_batch" in body, problem is None)
            self.assertIn(problem or b"", body)

    def test_each_leader_gets_them(self):
        self.stand.answers = [503, 421]
        self.h.start()
        self.stand.tell(capture__s0=self.record("e1"))
        got = self.sent(4)
        self.assertEqual([g for g in got if g[1] == 200], [(1, 200, "e1", "0"), (1, 200, "e1", "1")])
        self.assertEqual(sorted(g[1] for g in got), [200, 200, 421, 503])
        _, _, q, body, encoding = self.stand.captures[-1]
        self.assertEqual((q["host"], q["slice"], q["worker"], q["run"], q["rounds"], q["hosts"], encoding),
                         ("s0-0", "s0", "0", "solo", "2", "1", "gzip"))
        self.assertEqual(body[:2], b"\x1f\x8b")
        time.sleep(3)
        self.assertEqual(len(self.stand.captures), 4)  # once is enough
        self.stand.term = 2
        self.assertEqual(self.sent(6)[4:], [(2, 200, "e1", "0"), (2, 200, "e1", "1")])
        # Another life of the agent has them on its shelf; to it the leader is new.
        self.h.stop()
        self.h.start()
        self.assertEqual(sorted(self.sent(8)[6:]), [(2, 200, "e1", "0"), (2, 200, "e1", "1")])
        self.assertEqual(self.stand.captures[-1][2]["run"], "solo")
        self.assertEqual(len(self.launchds["s0-0"].captures), 2)
        # What is not wanted is let be, and another episode's captures are not sent to who leads next.
        self.stand.answers = [404, 404]
        self.stand.tell(capture__s0=self.record("e2"))
        self.assertEqual(sorted(self.sent(10)[8:]), [(2, 404, "e2", "0"), (2, 404, "e2", "1")])
        self.stand.tell()
        self.stand.term = 3
        time.sleep(3)
        self.stand.tell(capture__s0=self.record("e3"))
        self.assertEqual([g[2] for g in self.sent(12)[10:]], ["e3", "e3"])

    def test_acknowledged_by_who_led_before(self):
        """Another leads while a capture is on its way: what the one before acknowledges is not
        acknowledged by it."""
        self.stand.gate = threading.Event()
        self.h.start()
        self.stand.tell(capture__s0=self.record("e1"))
        self.assertEqual(self.sent(1), [(1, 200, "e1", "0")])
        self.stand.term = 2
        wait_until(lambda: self.stand.terms.count(2) >= 2, 60, "it knows of the next leader")
        self.stand.gate.set()
        wait_until(lambda: {g[3] for g in self.sent(1) if g[0] == 2} == {"0", "1"}, 60,
                   lambda: f"the next one gets both: {self.sent(1)}")

    def test_the_registry_is_away_meanwhile(self):
        """They are taken when they were asked for, and go out when it is back."""
        self.h.start()
        self.stand.tell(capture__s0=self.record("e1", at=int((time.time() + 3) * 1e6)))
        wait_until(lambda: "episode e1" in self.h.output.read_text(), 60, "it is asked")
        self.stand.away = True
        wait_until(lambda: len(self.launchds["s0-0"].captures) == 2, 60, "both are taken")
        wait_until(lambda: self.h.get("/v1/status")["registry"]["state"] == "away", 60, "it is missed")
        self.assertEqual(self.stand.captures, [])
        self.stand.away = False
        self.assertEqual(self.sent(2), [(1, 200, "e1", "0"), (1, 200, "e1", "1")])


del Capturing

if __name__ == "__main__":
    unittest.main()
