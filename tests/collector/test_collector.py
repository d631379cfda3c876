#!/usr/bin/python3
"""What tpu-collectord takes in and what it refuses, in protobuf and in JSON; what is stored of it."""

import gzip
import http.client
import json
import socket
import time
import unittest

import otlp
from collector_case import AGENT, SPOOL, Case, metrics


class Receiving(Case):
    def test_agent_appears(self):
        c = self.start()
        now = time.time()
        self.assertIn("READY=1", c.told)
        states = [otlp.point(int(s == "degraded"), {"tpu.host.state": s}, now)
                  for s in ("ready", "degraded", "unfit")]
        body = otlp.request(AGENT,
                            [otlp.gauge("tpu.host.state", states),
                             otlp.gauge("tpu.run.step.number",
                                        [otlp.point(12, {"tpu.run.name": "train"}, now)]),
                                    otlp.sum_metric("system.network.io",
                                                    [otlp.point(2 ** 62, {"b": "x", "a": 1}, now)], "By"),
                                    otlp.gauge("temp", [otlp.point(1.5, time=now)], "Cel")])
        self.assertEqual(self.ok(c.post("/v1/metrics", body)).content, b"")
        event = otlp.log("tpu.host.state_changed", {"from": "ready", "to": "degraded",
                                                    "reasons": "nic.mtu eth1: 1460, wanted 8896"}, 13, now,
                         {"k": ["v", True, 2.5]})
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [event])))

        row = c.sql("SELECT name, slice, worker_id, accelerator_type, version, boot_id, state, run, step "
                    "FROM hosts")
        self.assertEqual(row, [("h0", "s1", 3, "v6e-16", "0.1.0", "b-1", "degraded", "train", 12)])
        host, = c.get("/api/v1/hosts").json["hosts"]
        self.assertEqual({k: host[k]
                          for k in ("name", "slice", "worker_id", "state", "reasons", "run", "step")},
                         {"name": "h0", "slice": "s1", "worker_id": 3, "state": "degraded", "run": "train",
                          "step": 12,
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
                otlp.gauge("tpu.host.state", [otlp.point(1, {"tpu.host.state": state}, at)]),
                otlp.gauge("m", [otlp.point(value, time=at)]),
                otlp.gauge("tpu.run.step.number", [otlp.point(step, {"tpu.run.name": "j"}, at)])])
        self.ok(c.post("/v1/metrics", push(now, "ready", 9, "new", 5)))
        self.ok(c.post("/v1/metrics", push(now - 3600, "unfit", 4, "old", 3)))
        self.assertEqual(c.sql("SELECT state, step, boot_id FROM hosts"), [("ready", 9, "new")])
        self.assertIn(("m", {}, 5), c.latest())
        # a clock that is ahead holds nothing up
        self.ok(c.post("/v1/metrics", push(now + 9e6, "degraded", 10, "new", 6)))
        self.ok(c.post("/v1/metrics", push(time.time(), "ready", 11, "new", 7)))
        self.assertEqual(c.sql("SELECT state, step FROM hosts"), [("ready", 11)])

    def test_other_senders(self):
        c = self.start()
        self.ok(c.post("/v1/metrics", metrics(res={"host.name": "pc", "tpu.slice.name": "stolen"})))
        self.ok(c.post("/v1/metrics", metrics(res={"service.instance.id": "i-7"})))
        self.ok(c.post("/v1/metrics", metrics(res={})))
        self.assertEqual(c.sql("SELECT name, slice FROM hosts ORDER BY name"),
                         [("127.0.0.1", None), ("i-7", None), ("pc", None)])
        self.ok(c.post("/v1/metrics", metrics()))  # the agent, and another program on its host
        before = c.sql("SELECT last_seen FROM hosts WHERE name = 'h0'")
        self.ok(c.post("/v1/metrics",
                       otlp.request({"host.name": "h0"},
                                    [otlp.gauge("tpu.host.state",
                                                [otlp.point(1, {"tpu.host.state": "unfit"})])])))
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
        r = self.ok(c.post("/v1/metrics",
                           otlp.request(AGENT, [otlp.histogram("lat", 7, 2.5), otlp.summary("odd"),
                                                               otlp.gauge("none",
                                                                          [otlp.point(1, flags=1)])])))
        partial = otlp.parse(otlp.parse(r.content)[1][0])
        self.assertEqual((partial[1], partial[2][0].startswith(b"odd")), ([1], True))
        self.assertEqual([(n, v) for n, _, v in c.latest() if n.startswith("lat") or n == "none"],
                         [("lat.count", 7), ("lat.sum", 2.5)])
        self.ok(c.post("/v1/logs", b""))

    def test_refused(self):
        c = self.start()
        good = metrics()
        self.refused(c.post("/v1/metrics", b"x", {"Content-Type": "text/plain"}), 415,
                     "application/x-protobuf")
        self.refused(c.post("/v1/metrics", good, {"Content-Encoding": "br"}), 415, "gzip")
        self.refused(c.post("/v1/traces", good), 404, "/v1/metrics")
        for cut in range(1, len(good)):
            self.refused(c.post("/v1/metrics", good[:cut]), 400, "byte")
        self.refused(c.post("/v1/metrics", b"\xff" * 100), 400, "byte 0")
        self.refused(c.post("/v1/metrics", gzip.compress(good)[:-3], {"Content-Encoding": "gzip"}), 400,
                     "gzip")
        self.refused(c.post("/v1/metrics", gzip.compress(bytes(17 << 20)), {"Content-Encoding": "gzip"}),
                     413, "16 MiB")
        deep = otlp.any_value("x")
        for _ in range(100000):
            deep = otlp.field(5, otlp.field(1, deep)) if len(deep) < 2 << 20 else deep
        self.refused(c.post("/v1/logs", otlp.request(AGENT, [otlp.field(2, otlp.field(5, deep))])), 400,
                     "deeper")
        for bad in ("", "x", SPOOL, SPOOL + "/metrics/0", SPOOL + "/metrics/-1", SPOOL + "/metrics/1x",
                    SPOOL + "//1", SPOOL.upper() + "/m/1",
                    SPOOL + "/m/99999999999999999999"):
            self.refused(c.post("/v1/metrics", good, {"TPU-Spool-Record": bad}), 400, "TPU-Spool-Record")
        many = otlp.request(AGENT, [otlp.gauge("m", [otlp.field(6, 0)] * 200000)])
        self.assertIn(c.post("/v1/metrics", many).status, (400, 413))
        self.assertEqual(c.sql("SELECT count(*) FROM hosts"), [(0,)])

    def test_oversized(self):
        c = self.start()
        at_limit = otlp.request(AGENT, [otlp.log("big", "x" * 4193900)])
        self.assertLess(len(at_limit), 4 << 20)
        self.assertEqual(self.ok(c.post("/v1/logs", at_limit)).status, 200)
        over = otlp.request(AGENT, [otlp.log("big", "x" * (4 << 20))])
        self.refused(c.post("/v1/logs", over), 413, "4 MiB")
        self.refused(c.post("/v1/logs", iter([over[i:i + 65536] for i in range(0, len(over), 65536)]),
                            {"Transfer-Encoding": "chunked"},
                            encode_chunked=True), 413, "4 MiB")
        # announced only: answered before it is sent
        with socket.create_connection(("127.0.0.1", c.otlp), 20) as s:
            s.sendall(b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                      b"Content-Length: 99999999999\r\n\r\n")
            self.assertIn(b" 413 ", s.recv(200))
        self.assertEqual(c.sql("SELECT count(*) FROM events"), [(1,)])

    def test_method_and_dead_ends(self):
        c = self.start()
        conn = http.client.HTTPConnection("127.0.0.1", c.otlp, timeout=20)
        conn.request("GET", "/v1/metrics")
        r = conn.getresponse()
        self.assertEqual((r.status, r.getheader("Allow")), (405, "POST"))
        with socket.create_connection(("127.0.0.1", c.otlp), 20) as s:  # gone in the middle of a body
            s.sendall(b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                      b"Content-Length: 1000\r\n\r\nabc")
        for junk in (b"\x00" * 64, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 9000,
                     b"POST /v1/logs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
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
        raw = otlp.request(res, [otlp.gauge("n", [otlp.point(float("nan"), {"k": "v"}),
                                                  otlp.point(float("inf"))])])
        self.ok(c.post("/v1/metrics", raw.replace(b"\x01v", b"\x01\xff")))
        host, = c.get("/api/v1/hosts").json["hosts"]
        self.assertTrue(host["name"].startswith("h?[31mü"))
        self.assertLess(len(host["name"].encode()), 256)
        self.assertEqual(host["slice"], "' OR 1")
        one = c.get("/api/v1/hosts/" + "".join(f"%{b:02x}" for b in host["name"].encode())).json
        self.assertEqual([(m["attributes"], m["value"]) for m in one["metrics"]],
                         [({"k": "?"}, None), ({}, None)])


class Values(Case):
    def test_each_kind(self):
        c, now = self.start(), time.time()
        body = otlp.request(AGENT,
                            [otlp.sum_metric("io", [otlp.point(2 ** 62, {"b": "x", "a": 1}, now)], "By"),
                             otlp.gauge("temp", [otlp.point(1.5, time=now)], ""),
                                    otlp.histogram("lat", 7, 2.5)])
        self.assertEqual(self.ok(c.post("/v1/metrics", gzip.compress(body),
                                        {"Content-Encoding": "gzip"})).content, b"")
        got = {m["name"]: (m["value"], m["unit"], m["attributes"])
               for m in c.get("/api/v1/hosts/h0").json["metrics"]}
        self.assertEqual(got, {"io": (2 ** 62, "By", {"a": 1, "b": "x"}), "temp": (1.5, "", {}),
                               "lat.count": (7, "", {}), "lat.sum": (2.5, "s", {})})
        record = otlp.log("e", {"raw": b"\0\xff", "n": float("nan"), "l": [True, -3, {"k": "v"}]}, 17, now)
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [record])))
        e, = c.get("/api/v1/events").json["events"]
        self.assertEqual((e["severity"], e["name"], e["body"]),
                         ("ERROR", "e", {"raw": "00ff", "n": "NaN", "l": [True, -3, {"k": "v"}]}))

    def test_none_of_a_bad_request_is_stored(self):
        c = self.start()
        deep = "x"
        for _ in range(20):
            deep = [deep]
        self.refused(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("good", "x"),
                                                             otlp.log("deep", deep)])), 400, "deeper")
        self.refused(c.post("/v1/logs", gzip.compress(b" " * (17 << 20)), {"Content-Encoding": "gzip"}), 413,
                     "16 MiB")
        self.refused(c.post("/v1/traces", b""), 404, "/v1/logs")
        self.assertEqual(c.sql("SELECT count(*) FROM events"), [(0,)])


class Repeats(Case):
    def test_stored_once(self):
        c = self.start()

        def push(seq, spool=SPOOL, cls="events"):
            return self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{seq}", "x")]),
                                  {"TPU-Spool-Record": f"{spool}/{cls}/{seq}"}))
        for seq in (5, 5, 6, 4, 9, 4, 6, 8, 7, 1, 9, 1):
            push(seq)
        self.assertEqual([n for n, in c.sql("SELECT name FROM events ORDER BY id")],
                         ["e5", "e6", "e4", "e9", "e8", "e7", "e1"])
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


if __name__ == "__main__":
    unittest.main()
