#!/usr/bin/python3
"""BUILD_DIR=… tests/collector/test_collector.py: the real tpu-collectord on loopback, seen by HTTP and by sqlite3."""

import gzip
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import otlp

BUILD = os.path.abspath(os.environ.get("BUILD_DIR", "build/dev"))
PROGRAM = os.path.join(BUILD, "collector", "tpu-collectord")
PROTOBUF = {"Content-Type": "application/x-protobuf"}
AGENT = {"host.name": "h0", "service.name": "tpu-hostd", "service.version": "0.1.0", "tpu.boot.id": "b-1",
         "tpu.slice.name": "s1", "tpu.worker.id": 3, "tpu.accelerator.type": "v6e-16"}
SPOOL = "0123456789abcdef"


class Collector:
    """One process and its database; with notify, what it told systemd is in .told."""

    def __init__(self, database, *options):
        self.database = database
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(os.path.join(os.path.dirname(database), f"notify-{time.monotonic_ns()}"))
        self.notify.settimeout(20)
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [PROGRAM, *([] if "--config" in options else ["--config", "/dev/null"]), "--database", database, "--listen-otlp", "127.0.0.1:0", "--listen-api", "127.0.0.1:0", *options],
            stderr=self.log, env={**os.environ, "NOTIFY_SOCKET": self.notify.getsockname()})
        self.told = self.notify.recv(4096).decode()
        self.otlp, self.api = map(int, re.findall(r"127\.0\.0\.1:(\d+)", self.told))

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(20)
        self.notify.close()
        self.log.seek(0)
        self.said = self.log.read().decode()
        self.log.close()
        return code

    def post(self, path, body, headers=None, **more):
        c = http.client.HTTPConnection("127.0.0.1", self.otlp, timeout=20)
        c.request("POST", path, body, {**PROTOBUF, **(headers or {})}, **more)
        r = c.getresponse()
        r.content = r.read()
        c.close()
        return r

    def get(self, path, method="GET", body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.api, timeout=40)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        text = r.read()
        c.close()
        r.json = json.loads(text) if r.getheader("Content-Type") == "application/json" and text else None
        r.text = text.decode()
        return r

    def latest(self, host="h0"):
        """[(name, attributes, value)] of a host, sorted by name."""
        return [(m["name"], m["attributes"], m["value"]) for m in self.get("/api/v1/hosts/" + host).json["metrics"]]

    def sql(self, question, *values):
        db = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            return db.execute(question, values).fetchall()
        finally:
            db.close()


def metrics(value=1, res=AGENT, name="m"):
    return otlp.request(res, [otlp.gauge(name, [otlp.point(value)])])


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.c = None

    def start(self, *options):
        self.c = Collector(os.path.join(self.dir.name, "c.db"), *options)
        return self.c

    def tearDown(self):
        if self.c and self.c.process.poll() is None:
            self.assertEqual(self.c.stop(), 0)

    def ok(self, r):
        self.assertEqual((r.status, r.getheader("Content-Type")), (200, PROTOBUF["Content-Type"]), r.content)
        return r

    def refused(self, r, status, words):
        """The answer is this status with a google.rpc.Status whose message has the words."""
        self.assertEqual((r.status, r.getheader("Content-Type")), (status, PROTOBUF["Content-Type"]))
        fields = otlp.parse(r.content)
        self.assertIn(words, fields[2][0].decode())
        self.assertGreater(fields[1][0], 0)


class Receiving(Case):
    def test_agent_appears(self):
        c = self.start()
        now = time.time()
        self.assertIn("READY=1", c.told)
        states = [otlp.point(int(s == "degraded"), {"state": s}, now) for s in ("ready", "degraded", "unfit")]
        body = otlp.request(AGENT, [otlp.gauge("tpu.host.state", states), otlp.gauge("tpu.run.step", [otlp.point(12, {"job": "train"}, now)]),
                                    otlp.sum_metric("system.network.io", [otlp.point(2 ** 62, {"b": "x", "a": 1}, now)], "By"),
                                    otlp.gauge("temp", [otlp.point(1.5, time=now)], "Cel")])
        self.assertEqual(self.ok(c.post("/v1/metrics", body)).content, b"")
        event = otlp.log("tpu.host.state_changed", {"from": "ready", "to": "degraded", "reasons": "nic.mtu eth1: 1460, wanted 8896"}, 13, now,
                         {"k": ["v", True, 2.5]})
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [event])))

        row = c.sql("SELECT name, slice, worker_id, accelerator_type, version, boot_id, state, job, step FROM hosts")
        self.assertEqual(row, [("h0", "s1", 3, "v6e-16", "0.1.0", "b-1", "degraded", "train", 12)])
        host, = c.get("/api/v1/hosts").json["hosts"]
        self.assertEqual({k: host[k] for k in ("name", "slice", "worker_id", "state", "reasons", "job", "step")},
                         {"name": "h0", "slice": "s1", "worker_id": 3, "state": "degraded", "job": "train", "step": 12,
                          "reasons": "nic.mtu eth1: 1460, wanted 8896"})
        self.assertLess(host["age_seconds"], 10)
        self.assertRegex(host["first_seen"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$")
        one = c.get("/api/v1/hosts/h0").json
        values = {(m["name"], json.dumps(m["attributes"])): (m["value"], m["unit"]) for m in one["metrics"]}
        self.assertEqual(values["system.network.io", '{"a": 1, "b": "x"}'], (2 ** 62, "By"))
        self.assertEqual(values["temp", "{}"], (1.5, "Cel"))
        answer = c.get("/api/v1/events?host=h0").json
        e, = answer["events"]
        self.assertEqual((e["id"], e["name"], e["severity"], e["slice"], e["worker_id"], answer["next"]),
                         (1, "tpu.host.state_changed", "WARN", "s1", 3, 1))
        self.assertEqual((e["body"]["to"], e["attributes"]), ("degraded", {"k": ["v", True, 2.5]}))
        self.assertEqual(c.get("/api/v1/events?since=1").json, {"events": [], "next": 1})

    def test_older_data_never_wins(self):
        c = self.start()
        now = time.time()

        def push(at, state, step, boot, value):
            return otlp.request({**AGENT, "tpu.boot.id": boot}, [
                otlp.gauge("tpu.host.state", [otlp.point(1, {"state": state}, at)]), otlp.gauge("m", [otlp.point(value, time=at)]),
                otlp.gauge("tpu.run.step", [otlp.point(step, {"job": "j"}, at)])])
        self.ok(c.post("/v1/metrics", push(now, "ready", 9, "new", 5)))
        self.ok(c.post("/v1/metrics", push(now - 3600, "unfit", 4, "old", 3)))
        self.assertEqual(c.sql("SELECT state, step, boot_id FROM hosts"), [("ready", 9, "new")])
        self.assertIn(("m", {}, 5), c.latest())
        self.ok(c.post("/v1/metrics", push(now + 9e6, "degraded", 10, "new", 6)))  # a clock that is ahead holds nothing up
        self.ok(c.post("/v1/metrics", push(time.time(), "ready", 11, "new", 7)))
        self.assertEqual(c.sql("SELECT state, step FROM hosts"), [("ready", 11)])

    def test_other_senders(self):
        c = self.start()
        self.ok(c.post("/v1/metrics", metrics(res={"host.name": "pc", "tpu.slice.name": "stolen"})))
        self.ok(c.post("/v1/metrics", metrics(res={"service.instance.id": "i-7"})))
        self.ok(c.post("/v1/metrics", metrics(res={})))
        self.assertEqual(c.sql("SELECT name, slice FROM hosts ORDER BY name"), [("127.0.0.1", None), ("i-7", None), ("pc", None)])
        self.ok(c.post("/v1/metrics", metrics()))  # the agent, and another program on its host
        before = c.sql("SELECT last_seen FROM hosts WHERE name = 'h0'")
        self.ok(c.post("/v1/metrics", otlp.request({"host.name": "h0"}, [otlp.gauge("tpu.host.state", [otlp.point(1, {"state": "unfit"})])])))
        self.assertEqual(c.sql("SELECT last_seen FROM hosts WHERE name = 'h0'"), before)
        self.assertEqual(c.sql("SELECT slice, state FROM hosts WHERE name = 'h0'"), [("s1", None)])

    def test_chunked_gzip_and_kinds(self):
        c = self.start()
        many = otlp.request(AGENT, [otlp.gauge("m", [otlp.point(i, {"i": i}) for i in range(2000)])])
        parts = [many[i:i + 1000] for i in range(0, len(many), 1000)]
        self.ok(c.post("/v1/metrics", iter(parts), {"Transfer-Encoding": "chunked"}, encode_chunked=True))
        self.assertEqual(sorted(v for _, a, v in c.latest() if a["i"] == v), list(range(2000)))
        self.ok(c.post("/v1/metrics", gzip.compress(metrics(name="zipped")), {"Content-Encoding": "gzip"}))
        self.assertIn(("zipped", {}, 1), c.latest())
        r = self.ok(c.post("/v1/metrics", otlp.request(AGENT, [otlp.histogram("lat", 7, 2.5), otlp.summary("odd"),
                                                               otlp.gauge("none", [otlp.point(1, flags=1)])])))
        partial = otlp.parse(otlp.parse(r.content)[1][0])
        self.assertEqual((partial[1], partial[2][0].startswith(b"odd")), ([1], True))
        self.assertEqual([(n, v) for n, _, v in c.latest() if n.startswith("lat") or n == "none"], [("lat.count", 7), ("lat.sum", 2.5)])
        self.ok(c.post("/v1/logs", b""))

    def test_refused(self):
        c = self.start()
        good = metrics()
        self.refused(c.post("/v1/metrics", b"x", {"Content-Type": "text/plain"}), 415, "application/x-protobuf")
        self.refused(c.post("/v1/metrics", good, {"Content-Encoding": "br"}), 415, "gzip")
        self.refused(c.post("/v1/traces", good), 404, "/v1/metrics")
        for cut in range(1, len(good)):
            self.refused(c.post("/v1/metrics", good[:cut]), 400, "byte")
        self.refused(c.post("/v1/metrics", b"\xff" * 100), 400, "byte 0")
        self.refused(c.post("/v1/metrics", gzip.compress(good)[:-3], {"Content-Encoding": "gzip"}), 400, "gzip")
        self.refused(c.post("/v1/metrics", gzip.compress(bytes(17 << 20)), {"Content-Encoding": "gzip"}), 413, "16 MiB")
        deep = otlp.any_value("x")
        for _ in range(100000):
            deep = otlp.message(5, otlp.message(1, deep)) if len(deep) < 2 << 20 else deep
        self.refused(c.post("/v1/logs", otlp.request(AGENT, [otlp.message(2, otlp.message(5, deep))])), 400, "deeper")
        for bad in ("", "x", SPOOL, SPOOL + "/metrics/0", SPOOL + "/metrics/-1", SPOOL + "/metrics/1x", SPOOL + "//1", SPOOL.upper() + "/m/1",
                    SPOOL + "/m/99999999999999999999"):
            self.refused(c.post("/v1/metrics", good, {"TPU-Spool-Record": bad}), 400, "TPU-Spool-Record")
        many = otlp.request(AGENT, [otlp.gauge("m", [otlp.number(6, 0)] * 200000)])
        self.assertIn(c.post("/v1/metrics", many).status, (400, 413))
        self.assertEqual(c.sql("SELECT count(*) FROM hosts"), [(0,)])

    def test_oversized(self):
        c = self.start()
        at_limit = otlp.request(AGENT, [otlp.log("big", "x" * 4193900)])
        self.assertLess(len(at_limit), 4 << 20)
        self.assertEqual(self.ok(c.post("/v1/logs", at_limit)).status, 200)
        over = otlp.request(AGENT, [otlp.log("big", "x" * (4 << 20))])
        self.refused(c.post("/v1/logs", over), 413, "4 MiB")
        self.refused(c.post("/v1/logs", iter([over[i:i + 65536] for i in range(0, len(over), 65536)]), {"Transfer-Encoding": "chunked"},
                            encode_chunked=True), 413, "4 MiB")
        with socket.create_connection(("127.0.0.1", c.otlp), 20) as s:  # announced only: answered before it is sent
            s.sendall(b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 99999999999\r\n\r\n")
            self.assertIn(b" 413 ", s.recv(200))
        self.assertEqual(c.sql("SELECT count(*) FROM events"), [(1,)])

    def test_method_and_dead_ends(self):
        c = self.start()
        conn = http.client.HTTPConnection("127.0.0.1", c.otlp, timeout=20)
        conn.request("GET", "/v1/metrics")
        r = conn.getresponse()
        self.assertEqual((r.status, r.getheader("Allow")), (405, "POST"))
        with socket.create_connection(("127.0.0.1", c.otlp), 20) as s:  # gone in the middle of a body
            s.sendall(b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000\r\n\r\nabc")
        for junk in (b"\x00" * 64, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 9000, b"POST /v1/logs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with socket.create_connection(("127.0.0.1", c.otlp), 20) as s:
                try:
                    s.sendall(junk)
                    s.shutdown(socket.SHUT_WR)
                    s.recv(1000)
                except OSError:
                    pass
        self.ok(c.post("/v1/metrics", metrics()))

    def test_series_limit_is_told(self):
        c = self.start()
        body = otlp.request(AGENT, [otlp.gauge("m", [otlp.point(i, {"i": i}) for i in range(10010)])])
        partial = otlp.parse(otlp.parse(self.ok(c.post("/v1/metrics", body)).content)[1][0])
        self.assertEqual(partial[1], [10])
        self.assertEqual(len(c.latest()), 10000)
        self.assertEqual(c.stop(), 0)
        c = self.start()  # counted again from what is stored
        partial = otlp.parse(otlp.parse(self.ok(c.post("/v1/metrics", body)).content)[1][0])
        self.assertEqual(partial[1], [10])

    def test_hostile_texts(self):
        c = self.start()
        res = {**AGENT, "host.name": "h\x1b[31m" + "ü" * 300, "tpu.slice.name": "' OR 1"}
        raw = otlp.request(res, [otlp.gauge("n", [otlp.point(float("nan"), {"k": "v"}), otlp.point(float("inf"))])])
        self.ok(c.post("/v1/metrics", raw.replace(b"\x01v", b"\x01\xff")))
        host, = c.get("/api/v1/hosts").json["hosts"]
        self.assertTrue(host["name"].startswith("h?[31mü"))
        self.assertLess(len(host["name"].encode()), 256)
        self.assertEqual(host["slice"], "' OR 1")
        one = c.get("/api/v1/hosts/" + "".join(f"%{b:02x}" for b in host["name"].encode())).json
        self.assertEqual([(m["attributes"], m["value"]) for m in one["metrics"]], [({"k": "?"}, None), ({}, None)])


class Json(Case):
    """OTLP's JSON encoding: the same rows as protobuf, answers in JSON."""

    HEADERS = {"Content-Type": "application/json; charset=utf-8"}

    def resource(self, **more):
        return {"attributes": [{"key": k, "value": {"stringValue": v} if isinstance(v, str) else {"intValue": v}} for k, v in {**AGENT, **more}.items()]}

    def metrics(self, *metrics):
        return {"resourceMetrics": [{"resource": self.resource(), "scopeMetrics": [{"scope": {"name": "s"}, "metrics": list(metrics)}]}]}

    def logs(self, *records):
        return {"resourceLogs": [{"resource": self.resource(), "scopeLogs": [{"logRecords": list(records)}]}]}

    def post(self, path, body, **headers):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        r = self.c.post(path, body, {**self.HEADERS, **headers})
        self.assertEqual(r.getheader("Content-Type"), "application/json")
        r.json = json.loads(r.content)
        return r

    def ok(self, r):
        self.assertEqual(r.status, 200, r.content)
        return r

    def refused(self, r, status, words):
        self.assertEqual(r.status, status)
        self.assertIn(words, r.json["message"])
        self.assertGreater(r.json["code"], 0)

    def test_same_rows_as_protobuf(self):
        c = self.start()
        nano = str(int(time.time() * 1e9))
        points = [{"asInt": str(2 ** 62), "timeUnixNano": nano, "attributes": [{"key": "b", "value": {"stringValue": "x"}},
                                                                              {"key": "a", "value": {"intValue": "1"}}]}]
        body = self.metrics({"name": "io", "unit": "By", "sum": {"dataPoints": points, "aggregationTemporality": 2, "isMonotonic": True}},
                            {"name": "temp", "gauge": {"dataPoints": [{"asDouble": 1.5, "timeUnixNano": int(nano), "unknown": {"x": [1]}}]}},
                            {"name": "whole", "gauge": {"dataPoints": [{"asDouble": "2"}]}},
                            {"name": "lat", "histogram": {"dataPoints": [{"count": "7", "sum": 2.5, "bucketCounts": ["7", 0], "explicitBounds": [1]}]}})
        self.assertEqual(self.ok(self.post("/v1/metrics", gzip.compress(json.dumps(body).encode()), **{"Content-Encoding": "gzip"})).json, {})
        got = {m["name"]: (m["value"], m["unit"], m["attributes"]) for m in c.get("/api/v1/hosts/h0").json["metrics"]}
        self.assertEqual(got, {"io": (2 ** 62, "By", {"a": 1, "b": "x"}), "temp": (1.5, "", {}), "whole": (2.0, "", {}),
                               "lat.count": (7, "", {}), "lat.sum": (2.5, "", {})})
        record = {"timeUnixNano": nano, "severityNumber": 17, "eventName": "e", "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174",
                  "body": {"kvlistValue": {"values": [{"key": "raw", "value": {"bytesValue": "AP8="}}, {"key": "n", "value": {"doubleValue": "NaN"}},
                                                      {"key": "l", "value": {"arrayValue": {"values": [{"boolValue": True}, {}]}}}]}}}
        self.ok(self.post("/v1/logs", self.logs(record), **{"TPU-Spool-Record": SPOOL + "/events/1"}))
        self.ok(self.post("/v1/logs", self.logs(record), **{"TPU-Spool-Record": SPOOL + "/events/1"}))
        e, = c.get("/api/v1/events").json["events"]
        self.assertEqual((e["severity"], e["name"], e["body"]), ("ERROR", "e", {"raw": "00ff", "n": "NaN", "l": [True, None]}))

    def test_partial_and_refused(self):
        c = self.start()
        r = self.ok(self.post("/v1/metrics", self.metrics({"name": "odd", "summary": {"dataPoints": [{}]}})))
        self.assertEqual(r.json["partialSuccess"]["rejectedDataPoints"], "1")
        good = json.dumps(self.logs({"body": {"stringValue": "x"}})).encode()
        for bad, words in ((good[:-1], "JSON"), (b"", "JSON"), (b"[]", "object"), (b"\xff", "JSON"),
                           (self.logs({"traceId": "xyz"}), "hex"), (self.logs({"severityNumber": "ERROR"}), "integer"),
                           (self.logs({"timeUnixNano": -1}), "integer"), (self.logs({"timeUnixNano": "12x"}), "integer"),
                           (self.logs({"body": {"bytesValue": "?"}}), "base64"), (self.logs({"body": {"boolValue": 1}}), "true"),
                           (self.logs({"body": "x"}), "AnyValue"), ({"resourceLogs": {}}, "array"), (b"[" * 4000, "deeper")):
            self.refused(self.post("/v1/logs", bad), 400, words)
        self.refused(self.post("/v1/logs", b'{"resourceLogs":[' + b"{}," * 400000 + b"{}]}"), 413, "values")
        self.refused(self.post("/v1/logs", gzip.compress(b" " * (17 << 20)), **{"Content-Encoding": "gzip"}), 413, "16 MiB")
        deep = {"stringValue": "x"}
        for _ in range(20):
            deep = {"arrayValue": {"values": [deep]}}
        self.refused(self.post("/v1/logs", self.logs({"body": deep})), 400, "deeper")
        self.refused(self.post("/v1/traces", b"{}"), 404, "/v1/logs")
        self.assertEqual(c.sql("SELECT count(*) FROM events"), [(0,)])


class Groups(Case):
    def test_many_at_once_are_few_commits(self):
        """Malformed requests among good ones of the same transaction: each gets its own answer."""
        c = self.start()
        conns = []
        for i in range(200):
            s = socket.create_connection(("127.0.0.1", c.otlp), 20)
            body = b"\xff" if i % 10 == 3 else otlp.request({**AGENT, "host.name": f"h{i}"}, [otlp.log(f"e{i}", "x")])
            s.sendall(b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:1])
            conns.append((s, body))
        for s, body in conns:
            s.sendall(body[1:] or b"")
        for i, (s, _) in enumerate(conns):
            self.assertIn(b" 400 " if i % 10 == 3 else b" 200 ", s.recv(4096), i)
            s.close()
        self.assertEqual({n for n, in c.sql("SELECT name FROM events")}, {f"e{i}" for i in range(200) if i % 10 != 3})
        commits = int(re.search(r"tpu_collectord_commits_total (\d+)", c.get("/metrics").text)[1])
        self.assertTrue(1 <= commits < 100, commits)

    def test_same_record_twice_in_a_group(self):
        c = self.start()
        body = otlp.request(AGENT, [otlp.log("once", "x")])
        head = f"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nTPU-Spool-Record: {SPOOL}/events/1\r\nContent-Length: {len(body)}\r\n\r\n"
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
        head = b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n" % len(body)
        conns = [socket.create_connection(("127.0.0.1", c.otlp), 20) for _ in range(4)]
        for s in conns:
            s.sendall(head + body)
            time.sleep(0.02)
        self.assertEqual(c.stop(), 0)
        for s in conns:
            self.assertNotIn(b" 200 ", s.recv(4096))
            s.close()
        db.close()


class Repeats(Case):
    def test_stored_once(self):
        c = self.start()

        def push(seq, spool=SPOOL, cls="events"):
            return self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{seq}", "x")]), {"TPU-Spool-Record": f"{spool}/{cls}/{seq}"}))
        for seq in (5, 5, 6, 4, 9, 4, 6, 8, 7, 1, 9, 1):
            push(seq)
        self.assertEqual([n for n, in c.sql("SELECT name FROM events ORDER BY id")], ["e5", "e6", "e4", "e9", "e8", "e7", "e1"])
        self.assertEqual(c.sql("SELECT first, last FROM records ORDER BY first"), [(1, 1), (4, 9)])
        push(5, "f" * 16)
        push(5, cls="metrics")
        self.assertEqual(c.stop(), 0)
        c = self.start()
        push(5)
        self.assertEqual(c.sql("SELECT count(*) FROM events"), [(9,)])
        self.assertIn("tpu_collectord_duplicates_total 1\n", c.get("/metrics").text)

    def test_malformed_is_not_remembered(self):
        c = self.start()
        good = metrics()
        h = {"TPU-Spool-Record": SPOOL + "/metrics/1"}
        self.assertEqual(c.post("/v1/metrics", good[:-1], h).status, 400)
        self.ok(c.post("/v1/metrics", good, h))
        self.assertEqual(c.latest(), [("m", {}, 1)])


class Crashes(Case):
    def test_answered_is_there_after_sigkill(self):
        for i in range(20):
            c = self.start()
            self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{i}", "x")]), {"TPU-Spool-Record": f"{SPOOL}/events/{i + 1}"}))
            self.assertEqual(c.stop(signal.SIGKILL), -signal.SIGKILL)
        c = self.start()
        self.assertEqual([e["name"] for e in c.get("/api/v1/events").json["events"]], [f"e{i}" for i in range(20)])

    def test_killed_while_writing(self):
        """Pushes of 50 events each, killed at a random moment: every push is there whole or not at all, every answered one is there."""
        answered, seq = set(), 0
        for round_ in range(10):
            c = self.start()
            end = time.monotonic() + 0.05 + 0.02 * round_
            conn = http.client.HTTPConnection("127.0.0.1", c.otlp, timeout=20)
            killer = subprocess.Popen(["/bin/sh", "-c", f"sleep {0.05 + 0.02 * round_}; kill -KILL {c.process.pid}"])
            try:
                while time.monotonic() < end + 10:
                    seq += 1
                    body = otlp.request(AGENT, [otlp.log(f"p{seq}", i) for i in range(50)])
                    conn.request("POST", "/v1/logs", body, {**PROTOBUF, "TPU-Spool-Record": f"{SPOOL}/events/{seq}"})
                    r = conn.getresponse()
                    r.read()
                    if r.status == 200:
                        answered.add(f"p{seq}")
            except (OSError, http.client.HTTPException):
                pass
            killer.wait()
            self.assertEqual(c.process.wait(20), -signal.SIGKILL)
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

    def test_catalog_knows_the_event(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with open(os.path.join(source, "collector/damage.h")) as f:
            id_ = re.search(r'DAMAGE_MESSAGE_ID "([0-9a-f]{32})"', f.read())[1]
        with open(os.path.join(source, "systemd/tpu-collector.catalog")) as f:
            text = f.read()
        self.assertEqual(re.findall(r"^-- (\S+)$", text, re.M), [id_])
        self.assertIn("@TPU_DATABASE@", text)

    def test_damaged_while_running(self):
        """Pages overwritten under its feet: told to come again, then stored anew; no end of the process."""
        c = self.start()
        pad = "x" * 3000
        for i in range(50):
            self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{i}", pad + str(k)) for k in range(20)])))
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
        """On a file system of 3 MiB: 503 with Retry-After while it is full, everything answered 200 is there, and it goes on afterwards."""
        disk = os.path.join(self.dir.name, "disk")
        os.mkdir(disk)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], capture_output=True).returncode:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(lambda: subprocess.run(["umount", disk], check=True))
        ballast = os.path.join(disk, "ballast")
        with open(ballast, "wb") as f:
            f.write(bytes(1 << 20))
        self.c = c = Collector(os.path.join(disk, "c.db"))
        answers, told = [], set()
        for i in range(300):
            r = c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{i}", "x" * 20000)]), {"TPU-Spool-Record": f"{SPOOL}/events/{i + 1}"})
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


class Api(Case):
    def test_events_filters(self):
        c = self.start()
        for host in ("h1", "h2"):
            res = {**AGENT, "host.name": host, "tpu.slice.name": "s-" + host}
            self.ok(c.post("/v1/logs", otlp.request(res, [otlp.log(f"n{i % 2}", i) for i in range(10)])))

        def ids(query):
            a = c.get("/api/v1/events?" + query).json
            return [e["id"] for e in a["events"]], a["next"]
        self.assertEqual(ids("host=h2&since=0&limit=3"), ([11, 12, 13], 13))
        self.assertEqual(ids("host=h2&since=18"), ([19, 20], 20))
        self.assertEqual(ids("limit=2"), ([19, 20], 20))
        self.assertEqual(ids("slice=s-h1&name=n1&since=4"), ([6, 8, 10], 10))
        self.assertEqual(ids("name=n0&limit=1"), ([19], 19))
        self.assertEqual(ids("host=nobody&since=7"), ([], 7))
        for bad, word in (("limit=0", "1 to 1000"), ("limit=1001", "1 to 1000"), ("since=-1", "since"), ("since=x", "since"), ("sort=up", "sort"),
                          ("limit=1&limit=2", "twice"), ("since=", "since")):
            r = c.get("/api/v1/events?" + bad)
            self.assertEqual(r.status, 400)
            self.assertIn(word, r.json["error"])
            self.assertTrue(r.json["remedy"])

    def test_hosts_sorted(self):
        c = self.start()
        for name, slice_, worker in (("z", "a", 10), ("y", "a", 9), ("x", None, None), ("w", "b", 0)):
            res = {"host.name": name, "service.name": "tpu-hostd", **({"tpu.slice.name": slice_, "tpu.worker.id": worker} if slice_ else {})}
            self.ok(c.post("/v1/metrics", metrics(res=res)))
        hosts = c.get("/api/v1/hosts").json["hosts"]
        self.assertEqual([h["name"] for h in hosts], ["y", "z", "w", "x"])
        self.assertEqual((hosts[3]["slice"], hosts[3]["worker_id"], hosts[3]["state"]), (None, None, None))

    def test_dead_ends(self):
        c = self.start()
        self.assertEqual(c.get("/healthz").text, "ok\n")
        for path, method, status in (("/", "GET", 404), ("/api/v1/hosts/nobody", "GET", 404), ("/api/v1/hosts", "POST", 405),
                                     ("/api/v1/hosts?x=1", "GET", 400), ("/api/v1/hosts/%ff", "GET", 404)):
            r = c.get(path, method)
            self.assertEqual((path, r.status), (path, status))
            self.assertEqual(set(r.json), {"error", "remedy"})
        self.assertEqual(c.get("/api/v1/hosts", "HEAD").status, 200)
        self.assertEqual(c.get("/api/v1/hosts", "POST", b"x" * 100).status, 405)

    def test_slices_and_pages(self):
        c = self.start()
        now = time.time()
        for i in range(7):
            res = {**AGENT, "host.name": f"h{i}", "tpu.slice.name": f"s{i // 3}", "tpu.worker.id": i % 3}
            state = ("ready", "unfit", "degraded")[i % 3]
            self.ok(c.post("/v1/metrics", otlp.request(res, [otlp.gauge("tpu.host.state", [otlp.point(1, {"state": state}, now - 50 * (i == 1))])])))
        slices = c.get("/api/v1/slices").json["slices"]
        self.assertEqual([(s["name"], s["hosts"], s["ready"], s["degraded"], s["unfit"], s["unknown"], s["silent"]) for s in slices],
                         [("s0", 3, 1, 1, 1, 0, 0), ("s1", 3, 1, 1, 1, 0, 0), ("s2", 1, 1, 0, 0, 0, 0)])
        names, offset = [], 0
        while offset is not None:
            a = c.get(f"/api/v1/hosts?limit=3&offset={offset}").json
            names += [h["name"] for h in a["hosts"]]
            offset = a["next"]
        self.assertEqual(names, [f"h{i}" for i in range(7)])
        self.assertEqual([h["name"] for h in c.get("/api/v1/hosts?slice=s1&state=unfit").json["hosts"]], ["h4"])
        hosts = {h["name"]: h for h in c.get("/api/v1/hosts").json["hosts"]}
        self.assertTrue(49 < hosts["h1"]["lag_seconds"] < 60 and hosts["h0"]["lag_seconds"] < 10)
        text = c.get("/metrics").text
        self.assertIn('tpu_collectord_hosts{state="ready"} 3\n', text)

    def test_series(self):
        c = self.start()
        now = int(time.time())
        for i in range(30):
            for host in ("h0", "h1"):
                self.ok(c.post("/v1/metrics", otlp.request({**AGENT, "host.name": host}, [
                    otlp.gauge("load", [otlp.point(i, {"cpu": 0}, now - 300 + i * 10), otlp.point(0.5, {"cpu": 1}, now - 300 + i * 10)]),
                    otlp.gauge("other", [otlp.point(1)])])))
        a = c.get(f"/api/v1/series?host=h0&name=load&from={now - 250}&until={now - 200}").json
        self.assertEqual([s["attributes"] for s in a["series"]], [{"cpu": 0}, {"cpu": 1}])
        self.assertEqual([p["value"] for p in a["series"][0]["points"]], [5, 6, 7, 8, 9])
        self.assertEqual([p["value"] for p in a["series"][1]["points"]], [0.5] * 5)
        self.assertEqual((len(c.get("/api/v1/series?host=h1&name=load").json["series"][0]["points"]), a["truncated"]), (30, False))
        self.assertTrue(c.get("/api/v1/series?host=h1&name=load&limit=7").json["truncated"])
        self.assertEqual(c.get("/api/v1/series?host=h1&name=nothing").json["series"], [])
        for bad, status, word in (("host=h0", 400, "name"), ("host=no&name=x", 404, "no host"), ("host=h0&name=x&from=yesterday", 400, "from"),
                                  ("host=h0&name=x&since=1", 400, "since"), ("host=h0&name=x&limit=20001", 400, "20000")):
            r = c.get("/api/v1/series?" + bad)
            self.assertEqual((bad, r.status), (bad, status))
            self.assertIn(word, r.json["error"])
        self.assertEqual(c.stop(), 0)
        c = self.start()  # the numbers of series are found again, whatever order attributes have
        self.ok(c.post("/v1/metrics", otlp.request(AGENT, [otlp.gauge("load", [otlp.point(99, {"cpu": 0}, now)])])))
        self.assertEqual(c.get("/api/v1/series?host=h0&name=load").json["series"][0]["points"][-1]["value"], 99)

    def test_events_since_a_time(self):
        c = self.start()
        for i in range(5):
            self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{i}", i)])))
            time.sleep(0.03)
        times = [e["received"] for e in c.get("/api/v1/events").json["events"]]
        a = c.get("/api/v1/events?from=" + times[3]).json
        self.assertEqual([e["name"] for e in a["events"]], ["e3", "e4"])
        self.assertEqual(c.get("/api/v1/events?from=9999999999").json, {"events": [], "next": 5})
        self.assertEqual(len(c.get("/api/v1/events?from=0&limit=2").json["events"]), 2)

    def test_long_poll(self):
        c = self.start()
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("first", 1)])))
        answers = {}

        def ask(key, query):
            start = time.monotonic()
            answers[key] = (c.get("/api/v1/events?" + query).json, time.monotonic() - start)
        polls = [threading.Thread(target=ask, args=a) for a in (("any", "since=1&wait=20"), ("name", "since=1&wait=20&name=third"),
                                                                ("nothing", "since=1&wait=1&host=nobody"), ("past", "since=0&wait=20"))]
        for t in polls:
            t.start()
        time.sleep(0.4)
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("second", 1)])))
        time.sleep(0.4)
        self.assertEqual(set(answers), {"any", "past"})
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("third", 1)])))
        for t in polls:
            t.join(20)
        self.assertEqual({k: [e["name"] for e in a["events"]] for k, (a, _) in answers.items()},
                         {"any": ["second"], "name": ["third"], "nothing": [], "past": ["first"]})
        self.assertEqual(answers["nothing"][0]["next"], 1)
        self.assertTrue(0.9 < answers["nothing"][1] < 5)
        t = threading.Thread(target=ask, args=("end", "since=3&wait=30"))
        t.start()
        time.sleep(0.3)
        self.assertEqual(c.stop(), 0)  # answers who waits, and does not wait for him
        t.join(5)

    def test_open_metrics(self):
        c = self.start()
        self.ok(c.post("/v1/metrics", metrics()))
        r = c.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"})
        self.assertTrue(r.getheader("Content-Type").startswith("application/openmetrics-text; version=1.0.0"))
        self.assertTrue(r.text.endswith("\n# EOF\n"))
        self.assertIn("# TYPE tpu_collectord_points counter\ntpu_collectord_points_total 1\n", r.text)
        plain = c.get("/metrics")
        self.assertTrue(plain.getheader("Content-Type").startswith("text/plain; version=0.0.4"))
        for text in (r.text, plain.text):  # each family once, its type before its samples
            families = re.findall(r"^# TYPE (\S+)", text, re.M)
            self.assertEqual(len(families), len(set(families)))
            self.assertNotIn("\n\n", text)

    def test_large_events_come_in_parts(self):
        c = self.start()
        for _ in range(5):
            self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("stack", "x" * 3000000)])))
        seen, since = [], 0
        while len(seen) < 5:
            a = c.get(f"/api/v1/events?since={since}").json
            self.assertTrue(0 < len(a["events"]) <= 2)
            seen += [e["id"] for e in a["events"]]
            since = a["next"]
        self.assertEqual(seen, [1, 2, 3, 4, 5])

    def test_own_metrics(self):
        c = self.start()
        self.ok(c.post("/v1/metrics", metrics()))
        c.post("/v1/metrics", b"\xff")
        text = c.get("/metrics").text
        for line in ('tpu_collectord_requests_total{path="/v1/metrics",code="200"} 1', 'tpu_collectord_requests_total{path="/v1/metrics",code="400"} 1',
                     "tpu_collectord_points_total 1", "tpu_collectord_commits_total 1"):
            self.assertIn(line + "\n", text)


class Tls(Case):
    """Certificates of both sides: who has none, a foreign, an expired one, or another URI gets 403 and changes nothing."""

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=self.dir.name)

    def certificate(self, name, ca, san, days="30"):
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        with open(os.path.join(self.dir.name, "ext"), "w") as f:
            f.write(f"subjectAltName={san}\n" if san else "basicConstraints=CA:FALSE\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", days, "-extfile", "ext",
                     "-out", f"{name}.crt")

    def setUp(self):
        super().setUp()
        for ca in ("ca", "foreign"):
            self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{ca}.key", "-out", f"{ca}.crt", "-days", "30",
                         "-subj", f"/CN={ca}")
        self.certificate("server", "ca", "IP:127.0.0.1")
        self.certificate("agent", "ca", "URI:spiffe://site/host/7")
        self.certificate("reader", "ca", "DNS:x,URI:spiffe://site/people")
        self.certificate("unnamed", "ca", "")
        self.certificate("expired", "ca", "URI:spiffe://site/host/7", "-1")
        self.certificate("stranger", "foreign", "URI:spiffe://site/host/7")

    def configuration(self, **changes):
        keys = {"Certificate": f"{self.dir.name}/server.crt", "Key": f"{self.dir.name}/server.key", "ClientCa": f"{self.dir.name}/ca.crt",
                "AllowAgents": "spiffe://site/host/*", "AllowReaders": "spiffe://site/other spiffe://site/people", **changes}
        path = os.path.join(self.dir.name, "c.conf")
        with open(path, "w") as f:
            f.write("[Collector]\n" + "".join(f"{k}={v}\n" for k, v in keys.items() if v is not None))
        return path

    def call(self, port, who, method, path, body=None, headers=None, version=None):
        context = ssl.create_default_context(cafile=f"{self.dir.name}/ca.crt")
        if who:
            context.load_cert_chain(f"{self.dir.name}/{who}.crt", f"{self.dir.name}/{who}.key")
        if version:
            context.maximum_version = version
        conn = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        conn.request(method, path, body, headers or {})
        r = conn.getresponse()
        r.content = r.read()
        conn.close()
        return r

    def test_who_may_call(self):
        self.c = c = Collector(os.path.join(self.dir.name, "c.db"), "--config", self.configuration())
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/metrics", metrics(), PROTOBUF, version).status, 200)
        self.assertEqual(self.call(c.api, "reader", "GET", "/api/v1/hosts").status, 200)
        for who in (None, "unnamed", "expired", "stranger", "reader"):
            r = self.call(c.otlp, who, "POST", "/v1/logs", otlp.request(AGENT, [otlp.log("no", who or "")]), PROTOBUF)
            self.refused(r, 403, "certificate" if who != "reader" else "spiffe://site/people")
        for who in (None, "unnamed", "expired", "stranger", "agent"):
            for path in ("/api/v1/hosts", "/metrics", "/no/such"):
                self.assertEqual((who, self.call(c.api, who, "GET", path).status), (who, 403))
            self.assertEqual(self.call(c.api, who, "GET", "/healthz").status, 200)
        self.assertEqual(c.sql("SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM hosts)"), [(0, 1)])
        with self.assertRaises((OSError, http.client.HTTPException)):
            c.get("/healthz")  # not in clear text

    def test_tpuctl(self):
        self.c = c = Collector(os.path.join(self.dir.name, "c.db"), "--config", self.configuration())
        self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/logs", otlp.request(AGENT, [otlp.log("tpu.seen", {"k": "v"})]), PROTOBUF).status, 200)
        conf = os.path.join(self.dir.name, "ctl.conf")

        def tpuctl(who, *words):
            with open(conf, "w") as f:
                f.write(f"[Ctl]\nCollector=https://127.0.0.1:{c.api}\nCollectorCa={self.dir.name}/ca.crt\n"
                        f"CollectorCertificate={self.dir.name}/{who}.crt\nCollectorKey={self.dir.name}/{who}.key\n")
            return subprocess.run([os.path.join(BUILD, "agent/ctl/tpuctl"), "--config", conf, *words], capture_output=True, text=True, timeout=30)
        done = tpuctl("reader", "fleet", "--slice", "s1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?s)SLICE.*LAG.*s1 +3 +h0.*1 host: 1 unknown")
        done = tpuctl("reader", "events", "--since", "1h", "--slice", "s1", "--name", "tpu.seen")
        self.assertIn("tpu.seen  k=v", done.stdout)
        self.assertIn("no events", tpuctl("reader", "events", "--since", "1h", "--host", "other").stdout)
        done = tpuctl("agent", "fleet")
        self.assertEqual(done.returncode, 1)
        self.assertIn("spiffe://site/host/7", done.stderr)

    def test_large_push_and_long_poll(self):
        self.c = c = Collector(os.path.join(self.dir.name, "c.db"), "--config", self.configuration())
        big = otlp.request(AGENT, [otlp.log("big", "x" * 3000000)])
        self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/logs", big, PROTOBUF).status, 200)
        answer = []
        t = threading.Thread(target=lambda: answer.append(self.call(c.api, "reader", "GET", "/api/v1/events?since=1&wait=20")))
        t.start()
        time.sleep(0.3)
        self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/logs", otlp.request(AGENT, [otlp.log("small", "x")]), PROTOBUF).status, 200)
        t.join(20)
        self.assertEqual([e["name"] for e in json.loads(answer[0].content)["events"]], ["small"])

    def test_others_may_reach_it(self):
        p = subprocess.run([PROGRAM, "--config", self.configuration(ListenOtlp="0.0.0.0:4318"), "--check-config"], capture_output=True, text=True, timeout=20)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        for changes, words in (({"Key": None}, "belong together"), ({"AllowAgents": None}, "AllowAgents="), ({"ClientCa": "/no/such"}, "/no/such"),
                               ({"Key": f"{self.dir.name}/ca.key"}, "server.crt"), ({"ClientCa": f"{self.dir.name}/ext"}, "CA file")):
            p = subprocess.run([PROGRAM, "--config", self.configuration(**changes), "--check-config"], capture_output=True, text=True, timeout=20)
            self.assertEqual(p.returncode, 1, changes)
            self.assertIn(words, p.stderr)


class Starting(Case):
    def refuse(self, *options, code=1):
        p = subprocess.run([PROGRAM, "--config", "/dev/null", "--database", os.path.join(self.dir.name, "x.db"), *options], capture_output=True,
                           text=True, timeout=20)
        self.assertEqual(p.returncode, code, p.stderr)
        return p.stderr

    def test_only_loopback(self):
        for address in ("0.0.0.0:0", "[::]:0", "10.1.2.3:4318"):
            self.assertIn("--insecure-listen", self.refuse("--listen-otlp", address))
            self.assertIn("--insecure-listen", self.refuse("--listen-api", address))
        self.assertFalse(os.path.exists(os.path.join(self.dir.name, "x.db")))
        for address in ("localhost:1", "127.0.0.1", "127.0.0.1:99999", "::1:80", ":80", "127.0.0.1:"):
            self.assertIn("ADDRESS:PORT", self.refuse("--listen-otlp", address))
        self.start("--insecure-listen", "--listen-api", "0.0.0.0:0")

    def start(self, *options):
        if not options:
            return super().start()
        c = subprocess.Popen([PROGRAM, "--config", "/dev/null", "--database", os.path.join(self.dir.name, "y.db"), "--listen-otlp", "[::]:0",
                              *options], stderr=subprocess.PIPE, text=True)
        lines = [c.stderr.readline(), c.stderr.readline()]
        c.terminate()
        self.assertEqual(c.wait(20), 0)
        c.stderr.close()
        self.assertIn("whoever reaches [::]:", lines[0])
        self.assertIn("receiving OTLP", lines[1])

    def test_configuration(self):
        conf = os.path.join(self.dir.name, "c.conf")
        with open(conf, "w") as f:
            f.write(f"[Collector]\nListenOtlp=127.0.0.1:0\nListenApi=192.0.2.1:1\nDatabase={self.dir.name}/from.db\n")
        p = subprocess.run([PROGRAM, "--config", conf, "--show-config"], capture_output=True, text=True, timeout=20)
        self.assertEqual(p.returncode, 0)
        self.assertIn("192.0.2.1:1", p.stdout)
        self.assertIn("c.conf:3", p.stdout)
        p = subprocess.run([PROGRAM, "--config", conf, "--check-config"], capture_output=True, text=True, timeout=20)
        self.assertEqual(p.returncode, 1)
        self.assertIn("ListenApi", p.stderr)

    def test_foreign_and_newer_database(self):
        path = os.path.join(self.dir.name, "x.db")
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE other (a)")
        db.commit()
        db.close()
        self.assertIn("another program", self.refuse("--listen-otlp", "127.0.0.1:0", "--listen-api", "127.0.0.1:0"))

    def test_port_in_use_and_usage(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            address = "127.0.0.1:%d" % s.getsockname()[1]
            self.assertIn(address, self.refuse("--listen-otlp", address, "--listen-api", "127.0.0.1:0"))
        self.refuse("--no-such", code=64)
        self.refuse("word", code=64)

    def test_clean_end(self):
        c = super().start()
        self.ok(c.post("/v1/metrics", metrics()))
        self.assertEqual(c.stop(), 0)
        self.assertEqual([f for f in os.listdir(self.dir.name) if f.startswith("c.db")], ["c.db"])  # the log was folded in


if __name__ == "__main__":
    unittest.main()
