#!/usr/bin/python3
"""200 only after the commit: many at once, killed, a locked, a damaged, a full database."""

import http.client
import os
import re
import signal
import socket
import sqlite3
import subprocess
import time
import unittest

import otlp
from collector_case import AGENT, PROTOBUF, SPOOL, Case, Collector, metrics


class Groups(Case):
    def test_many_at_once_are_few_commits(self):
        """Malformed requests among good ones of the same transaction: each gets its own answer."""
        c = self.start()
        conns = []
        for i in range(200):
            s = socket.create_connection(("127.0.0.1", c.otlp), 20)
            body = b"\xff" if i % 10 == 3 else otlp.request({**AGENT, "host.name": f"h{i}"},
                                                            [otlp.log(f"e{i}", "x")])
            s.sendall(b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body[:1])
            conns.append((s, body))
        for s, body in conns:
            s.sendall(body[1:] or b"")
        for i, (s, _) in enumerate(conns):
            self.assertIn(b" 400 " if i % 10 == 3 else b" 200 ", s.recv(4096), i)
            s.close()
        self.assertEqual({n for n, in c.sql("SELECT name FROM events")},
                         {f"e{i}" for i in range(200) if i % 10 != 3})
        commits = int(re.search(r"tpu_collectord_commits_total (\d+)", c.get("/metrics").text)[1])
        self.assertTrue(1 <= commits < 100, commits)

    def test_same_record_twice_in_a_group(self):
        c = self.start()
        body = otlp.request(AGENT, [otlp.log("once", "x")])
        head = (f"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                f"TPU-Spool-Record: {SPOOL}/events/1\r\nContent-Length: {len(body)}\r\n\r\n")
        conns = [socket.create_connection(("127.0.0.1", c.otlp), 20) for _ in range(8)]
        for s in conns:
            s.sendall(head.encode() + body)
        for s in conns:
            self.assertIn(b" 200 ", s.recv(4096))
            s.close()
        self.assertEqual(c.sql("SELECT count(*) FROM events"), [(1,)])

    def test_stop_answers_who_waits(self):
        c = self.start()
        db = sqlite3.connect(c.database, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")  # 250 ms in which requests pile up
        body = otlp.request(AGENT, [otlp.log("e", "x")])
        head = (b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body))
        conns = [socket.create_connection(("127.0.0.1", c.otlp), 20) for _ in range(4)]
        for s in conns:
            s.sendall(head + body)
            time.sleep(0.02)
        self.assertEqual(c.stop(), 0)
        for s in conns:
            self.assertNotIn(b" 200 ", s.recv(4096))
            s.close()
        db.close()


class Crashes(Case):
    def test_answered_is_there_after_sigkill(self):
        for i in range(20):
            c = self.start()
            self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{i}", "x")]),
                           {"TPU-Spool-Record": f"{SPOOL}/events/{i + 1}"}))
            self.assertEqual(c.stop(signal.SIGKILL), -signal.SIGKILL)
        c = self.start()
        self.assertEqual([e["name"] for e in c.get("/api/v1/events").json["events"]],
                         [f"e{i}" for i in range(20)])

    def test_killed_while_writing(self):
        """Pushes of 50 events each, killed at a random moment: every push is there whole or not at all,
        every answered one is there."""
        answered, seq = set(), 0
        for round_ in range(10):
            c = self.start()
            end, before, killer = time.monotonic() + 60, len(answered), None
            conn = http.client.HTTPConnection("127.0.0.1", c.otlp, timeout=60)
            try:
                while time.monotonic() < end:
                    if not killer and len(answered) >= before + 3:
                        killer = subprocess.Popen(["/bin/sh", "-c", f"sleep {0.01 + 0.02 * round_}; kill "
                                                                    f"-KILL {c.process.pid}"])
                    seq += 1
                    body = otlp.request(AGENT, [otlp.log(f"p{seq}", i) for i in range(50)])
                    conn.request("POST", "/v1/logs", body,
                                 {**PROTOBUF, "TPU-Spool-Record": f"{SPOOL}/events/{seq}"})
                    r = conn.getresponse()
                    r.read()
                    if r.status == 200:
                        answered.add(f"p{seq}")
            except (OSError, http.client.HTTPException):
                pass
            self.assertTrue(killer, "no answers")
            conn.close()
            killer.wait()
            self.assertEqual(c.process.wait(60), -signal.SIGKILL)
            c.stop()
        c = self.start()
        stored = dict(c.sql("SELECT name, count(*) FROM events GROUP BY name"))
        self.assertGreater(len(answered), 20)
        self.assertEqual(set(stored.values()), {50})
        self.assertLessEqual(answered, set(stored))
        self.assertEqual(c.sql("PRAGMA integrity_check"), [("ok",)])

    def test_database_locked_is_503(self):
        c = self.start()
        db = sqlite3.connect(c.database, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        r = c.post("/v1/metrics", metrics())
        self.refused(r, 503, "locked")
        self.assertEqual(r.getheader("Retry-After"), "5")
        db.execute("ROLLBACK")
        db.close()
        self.ok(c.post("/v1/metrics", metrics()))


class Damage(Case):
    def test_damaged_file_at_start(self):
        path = os.path.join(self.dir.name, "c.db")
        with open(path, "wb") as f:
            f.write(b"no database at all, but long enough to be looked at" * 100)
        c = self.start()
        self.ok(c.post("/v1/metrics", metrics()))
        self.assertTrue(os.path.exists(path + ".damaged"))
        self.assertIn("tpu_collectord_databases_replaced_total 1\n", c.get("/metrics").text)
        self.assertEqual(c.stop(), 0)
        self.assertIn("moved aside", c.said)

    def test_damaged_while_running(self):
        """Pages overwritten under its feet: told to come again, then stored anew; no end of the process."""
        c = self.start()
        pad = "x" * 3000
        for i in range(50):
            self.ok(c.post("/v1/logs",
                           otlp.request(AGENT, [otlp.log(f"e{i}", pad + str(k)) for k in range(20)])))
        self.assertEqual(c.stop(), 0)
        with open(c.database, "r+b") as f:
            size = os.path.getsize(c.database)
            for page in range(2, size // 4096):  # all but the first, which says what it is
                f.seek(page * 4096)
                f.write(os.urandom(4096))
        c = self.start()
        seen = set()
        for i in range(20):
            r = c.post("/v1/logs", otlp.request(AGENT, [otlp.log("again", pad)]))
            seen.add(r.status)
        self.assertLessEqual(seen, {200, 503})
        self.assertEqual(r.status, 200)
        self.assertIn("again", {e["name"] for e in c.get("/api/v1/events").json["events"]})
        self.assertTrue(os.path.exists(c.database + ".damaged"))

    def test_full_disk(self):
        """On a file system of 3 MiB: 503 with Retry-After while it is full, everything answered 200 is
        there, and it goes on afterwards."""
        disk = os.path.join(self.dir.name, "disk")
        os.mkdir(disk)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk],
                                               capture_output=True).returncode:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(lambda: subprocess.run(["umount", disk], check=True))
        ballast = os.path.join(disk, "ballast")
        with open(ballast, "wb") as f:
            f.write(bytes(1 << 20))
        self.c = c = Collector(os.path.join(disk, "c.db"))
        answers, told = [], set()
        for i in range(300):
            r = c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{i}", "x" * 20000)]),
                       {"TPU-Spool-Record": f"{SPOOL}/events/{i + 1}"})
            answers.append(r.status)
            if r.status == 200:
                told.add(f"e{i}")
            else:
                self.assertEqual(r.getheader("Retry-After"), "5")
        self.assertEqual(set(answers), {200, 503})
        os.unlink(ballast)
        again = [c.post("/v1/logs", otlp.request(AGENT, [otlp.log("late", "x")])).status for _ in range(3)]
        self.assertEqual(again[-1], 200)
        told.add("late")
        self.assertEqual({n for n, in c.sql("SELECT name FROM events")}, told)
        self.assertEqual(c.sql("PRAGMA integrity_check"), [("ok",)])
        self.assertEqual(c.stop(), 0)


if __name__ == "__main__":
    unittest.main()
