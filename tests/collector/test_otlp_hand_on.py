"""What the collector hands on by OTLP: to a receiver of this test that reads the bytes by hand and refuses
what it is told to, and to a second collector."""

import gzip
import http.server
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import otlp  # noqa: E402
from collector_case import AGENT, PROGRAM, PROTOBUF, Collector  # noqa: E402
from protobuf import field, parse, read  # noqa: E402
from test_remote_write import RemoteCase  # noqa: E402

AWAY = 10  # seconds
KINDS = {5: "gauge", 7: "sum", 9: "histogram"}  # the field of a Metric


def value(data):
    for number, _, v in read(data):
        if number == 1:
            return v.decode()
        if number == 2:
            return bool(v)
        if number == 3:
            return v - (1 << 64) if v >> 63 else v
        if number == 4:
            return struct.unpack("<d", v)[0]
        if number == 5:
            return [value(x) for x in parse(v).get(1, [])]
        if number == 6:
            return pairs(parse(v).get(1, []))
    return None


def pairs(messages):
    both = [parse(m) for m in messages]
    out = {p[1][0].decode(): value(p[2][0]) for p in both}
    assert len(out) == len(both), "a key is there twice"
    return out


def number(fields, at, form="<Q"):
    return struct.unpack(form, fields[at][0])[0] if at in fields else None


def in_scopes(body):
    """[(resource, leaf)] of a request: its metrics or log records."""
    out = []
    for one in parse(body).get(1, []):
        group = parse(one)
        resource = pairs(parse(group[1][0]).get(1, []))
        out += [(resource, parse(leaf)) for scope in group[2] for leaf in parse(scope)[2]]
    return out


def points(body):
    """[(resource, name, kind, attributes, ms, value)]; of a histogram the value is (count, sum, buckets)."""
    out = []
    for resource, metric in in_scopes(body):
        key, kind = next((k, name) for k, name in KINDS.items() if k in metric)
        data = parse(metric[key][0])
        if key != 5:
            assert data[2] == [2], "cumulative"
        assert key != 7 or data[3] == [1], "monotonic"
        for p in map(parse, data[1]):
            assert 2 not in p, "nobody keeps when a sum began"
            if key == 9:
                v = (number(p, 4), number(p, 5, "<d"), struct.unpack("<Q", p[6][0])[0])
            else:
                v = number(p, 6, "<q") if 6 in p else number(p, 4, "<d")
            out.append((resource, metric[1][0].decode(), kind, pairs(p.get(9 if key == 9 else 7, [])),
                        number(p, 3) // 1000000, v))
    return out


def records(body):
    """[(resource, name, severity, attributes, body)]"""
    return [(resource, log[12][0].decode(), log.get(2, [0])[0], pairs(log.get(6, [])),
             value(log[5][0]) if 5 in log else None) for resource, log in in_scopes(body)]


class Receiver:
    """What it took: points and records. answer(path, items) gives (status, body, headers). Away, it hangs
    up."""

    def __init__(self):
        self.port, self.server, self.points, self.records, self.away = 0, None, [], [], False
        self.headers, self.statuses = [], []
        self.answer = lambda path, items: (200, b"", {})

    def start(self):
        receiver = self
        self.away = False

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.away:  # on a connection from before
                    self.close_connection = True
                    return
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                items = (points if self.path == "/v1/metrics" else records)(body)
                status, text, headers = receiver.answer(self.path, items)
                receiver.headers.append(dict(self.headers))
                receiver.statuses.append(status)
                if status < 300:
                    (receiver.points if self.path == "/v1/metrics" else receiver.records).extend(items)
                self.send_response(status)
                for k, v in {**PROTOBUF, **headers}.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *a):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        self.away = True
        self.server.shutdown()
        self.server.server_close()

    def steps(self, host):
        return [v for resource, name, _, _, _, v in list(self.points)
                if (name, resource["host.name"]) == ("tpu.run.step.number", host)]

    def of(self, name):
        """The bodies of the records of this name."""
        return [body for _, its, _, _, body in list(self.records) if its == name]


class HandOn(RemoteCase):
    def otlp(self, port, **more):
        return self.remote(f"http://127.0.0.1:{port}/", Protocol="otlp", **more)

    def event(self, name, body, host="h0", **more):
        self.ok(self.c.post("/v1/logs", otlp.request({**AGENT, "host.name": host}, [
            otlp.log(name, body, 13, time.time(), more)])))

    def line(self, n, host="h0", run="train"):
        self.ok(self.c.post("/v1/logs", otlp.request({**AGENT, "host.name": host}, [
            otlp.log("tpu.run.line", f"line {n}", 9, time.time(),
                     {"tpu.run.name": run, "tpu.run.invocation": "i1", "tpu.run.line": n,
                      "tpu.run.priority": 6, "tpu.slice.name": "s1", "tpu.worker.id": 3})])))

    def one_of_each(self, n):
        self.step("h0", n, time.time())
        self.event("tpu.made.up", {"n": n})
        self.line(n + 1)

    def all_taken(self):
        return (self.counted("waiting_pushes"), self.counted("waiting_records")) == (0, 0)


class Taken(HandOn):
    def setUp(self):
        super().setUp()
        self.receiver = Receiver().start()
        self.addCleanup(lambda: self.receiver.away or self.receiver.stop())

    def each_once(self, n):
        self.until(lambda: len(self.receiver.steps("h0")) >= n and len(self.receiver.of("tpu.made.up")) >= n
                   and len(self.receiver.of("tpu.run.line")) >= n and self.all_taken())
        self.assertEqual(sorted(self.receiver.steps("h0")), list(range(n)))
        self.assertEqual(self.receiver.of("tpu.made.up"), [{"n": k} for k in range(n)])
        self.assertEqual(self.receiver.of("tpu.run.line"), [f"line {k + 1}" for k in range(n)])

    def test_metrics(self):
        self.otlp(self.receiver.port)
        now = time.time() - 60
        for k in range(3):
            self.push("h0", [
                otlp.sum_metric("system.network.io", [otlp.point(
                    1000 + k, {"network.interface.name": "eth0"}, time=now + 10 * k)], "By"),
                otlp.gauge("tpu.run.step.number", [otlp.point(7 + k, {"tpu.run.name": "train"},
                                                              time=now + 10 * k)], "{step}"),
                otlp.histogram("tpu.run.step.duration", 5 + k, 2.5)])
        self.ok(self.c.post("/v1/metrics", otlp.request({"host.name": "h0", "service.name": "train.py"}, [
            otlp.sum_metric("made.up", [otlp.point(0.5, {"a": True, "b": 3, "c": [1, "x"]}, time=now)])])))
        self.until(self.all_taken)
        got = {}
        for resource, name, kind, attributes, ms, v in self.receiver.points:
            got.setdefault((name, kind), []).append((resource, attributes, round(ms / 1000 - now), v))
        self.assertEqual(set(got), {("system.network.io", "sum"), ("tpu.run.step.number", "gauge"),
                                    ("tpu.run.step.duration", "histogram"), ("made.up", "gauge")})
        resource = {"host.name": "h0", "service.name": "tpu-hostd", "service.instance.id": "h0",
                    "service.version": "0.1.0", "tpu.slice.name": "s1", "tpu.worker.id": "3",
                    "tpu.accelerator.type": "v6e-16"}
        self.assertEqual(sorted((a["network.interface.name"], at, v)
                                for _, a, at, v in got["system.network.io", "sum"]),
                         [("eth0", 0, 1000), ("eth0", 10, 1001), ("eth0", 20, 1002)])
        self.assertEqual([r for r, *_ in got["system.network.io", "sum"]], [resource] * 3)
        self.assertEqual(sorted((a["tpu.run.name"], v)
                                for _, a, _, v in got["tpu.run.step.number", "gauge"]),
                         [("train", 7), ("train", 8), ("train", 9)])
        self.assertEqual(sorted(v for *_, v in got["tpu.run.step.duration", "histogram"]),
                         [(5, 2.5, 5), (6, 2.5, 6), (7, 2.5, 7)])
        (theirs, attributes, _, v), = got["made.up", "gauge"]
        self.assertEqual((theirs["service.name"], attributes, v),
                         ("train.py", {"a": True, "b": 3, "c": [1, "x"]}, 0.5))
        self.assertNotIn("service.version", theirs)
        self.assertEqual(self.counted("written_samples_total"), len(self.receiver.points))
        self.assertEqual({h["Content-Type"] for h in self.receiver.headers}, {PROTOBUF["Content-Type"]})

    def test_events_and_lines(self):
        self.otlp(self.receiver.port)
        self.event("tpu.host.state_changed", {"state": "ready", "reasons": "none"}, **{"tpu.spool.seq": 4})
        self.event("tpu.made.up", "a sentence", "h1")
        for n in (1, 2, 4):
            self.line(n)
        self.until(lambda: len(self.receiver.records) == 5 and self.all_taken())
        resource = {"host.name": "h0", "service.name": "tpu-hostd", "service.instance.id": "h0",
                    "service.version": "0.1.0", "tpu.slice.name": "s1", "tpu.worker.id": "3",
                    "tpu.accelerator.type": "v6e-16"}
        changed, = [r for r in self.receiver.records if r[1] == "tpu.host.state_changed"]
        self.assertEqual(changed, (resource, "tpu.host.state_changed", 13, {"tpu.spool.seq": 4},
                                   {"state": "ready", "reasons": "none"}))
        other, = [r for r in self.receiver.records if r[1] == "tpu.made.up"]
        self.assertEqual((other[0]["host.name"], other[4]), ("h1", "a sentence"))
        lines = [r for r in self.receiver.records if r[1] == "tpu.run.line"]
        self.assertEqual([(r[3]["tpu.run.line"], r[4]) for r in lines],
                         [(1, "line 1"), (2, "line 2"), (4, "line 4")])
        self.assertEqual(lines[0][0], {**resource, "tpu.run.name": "train"})
        self.assertEqual(lines[0][3],
                         {"tpu.run.name": "train", "tpu.run.invocation": "i1", "tpu.run.line": 1,
                          "tpu.run.priority": 6, "tpu.slice.name": "s1", "tpu.worker.id": 3})
        self.assertEqual([self.counted("written_records_total", kind=k) for k in ("events", "lines")],
                         [2, 3])
        self.assertEqual(self.counted("refused_records_total"), 0)

    def test_only_what_arrives_from_then_on(self):
        self.start()
        self.event("tpu.made.up", "before")
        self.line(1)
        self.assertEqual(self.c.stop(), 0)
        self.otlp(self.receiver.port)
        self.event("tpu.made.up", "after")
        self.line(2)
        self.until(lambda: len(self.receiver.records) == 2 and self.all_taken())
        self.assertEqual((self.receiver.of("tpu.made.up"), self.receiver.of("tpu.run.line")),
                         (["after"], ["line 2"]))

    def test_nothing_is_lost_while_it_is_away(self):
        self.otlp(self.receiver.port)
        for n in range(3):
            self.one_of_each(n)
        self.each_once(3)
        self.receiver.stop()
        end = time.monotonic() + AWAY
        n = 3
        while time.monotonic() < end:
            self.one_of_each(n)
            n += 1
            time.sleep(0.5)
        self.assertEqual([self.counted("waiting_records", kind=k) for k in ("events", "lines")], [n - 3] * 2)
        self.assertGreater(self.counted("failures_total"), 0)
        self.assertGreater(self.counted("behind_seconds"), 0)
        self.receiver.start()
        self.each_once(n)
        self.until(lambda: self.counted("behind_seconds") == 0)
        self.assertEqual(self.counted("refused_records_total") + self.counted("expired_records_total"), 0)

    def test_goes_on_at_its_position(self):
        """Also after a kill: what was answered 200 does not come again."""
        self.otlp(self.receiver.port)
        for n in range(5):
            self.one_of_each(n)
        self.each_once(5)
        self.receiver.answer = lambda path, items: (503, b"", {})
        for n in range(5, 10):
            self.one_of_each(n)
        self.until(lambda: 503 in self.receiver.statuses)
        self.c.stop(signal.SIGKILL)
        self.receiver.stop()  # it takes nothing more: what the dead one sent last may still be read
        before, self.receiver = self.receiver, Receiver()
        self.receiver.port = before.port
        self.receiver.points, self.receiver.records = list(before.points), list(before.records)
        self.otlp(self.receiver.start().port)
        self.one_of_each(10)
        self.each_once(11)

    def test_busy_is_tried_again(self):
        answers = {path: iter([(503, b"", {}), (429, b"", {"Retry-After": "1"}), (502, b"", {}),
                               (504, b"", {})]) for path in ("/v1/metrics", "/v1/logs")}
        self.receiver.answer = lambda path, items: next(answers[path], (200, b"", {}))
        self.otlp(self.receiver.port)
        self.one_of_each(0)
        self.each_once(1)
        self.assertEqual(self.counted("failures_total"), 8)
        self.assertEqual(self.counted("refused_samples_total") + self.counted("refused_records_total"), 0)

    def test_refused_for_good_is_counted_and_the_rest_arrives(self):
        def answer(path, items):
            if path == "/v1/metrics":
                bad = {"late": (400, b"out of order sample", {"Content-Type": "text/plain"})}
                found = [bad[i[0]["host.name"]] for i in items if i[0]["host.name"] in bad]
            else:
                bad = {"bad": (400, field(1, 3) + field(2, "no such thing"), {}), "huge": (413, b"", {})}
                found = [bad[i[4]] for i in items if i[4] in bad]
            return found[0] if found else (200, b"", {})

        self.receiver.answer = answer
        self.receiver.stop()
        self.otlp(self.receiver.port)
        for host in ("a", "late", "b"):
            for k in range(5):
                self.step(host, k, time.time() - 100 + 10 * k)
        for k in range(20):
            self.event("tpu.made.up", {4: "bad", 5: "huge", 17: "bad"}.get(k, f"good {k}"))
        self.line(1)
        self.receiver.start()
        self.until(self.all_taken)
        self.assertEqual([len(self.receiver.steps(h)) for h in ("a", "late", "b")], [5, 0, 5])
        self.assertEqual(self.receiver.of("tpu.made.up"),
                         [f"good {k}" for k in range(20) if k not in (4, 5, 17)])
        self.assertEqual(self.receiver.of("tpu.run.line"), ["line 1"])
        self.assertEqual((self.counted("refused_samples_total", reason="out_of_order"),
                          self.counted("refused_samples_total")), (5, 5))
        self.assertEqual([self.counted("refused_records_total", kind="events", reason=r)
                          for r in ("other", "too_large")], [2, 1])
        self.assertEqual(self.counted("refused_records_total"), 3)
        self.assertEqual(self.c.stop(), 0)
        for words in ("as out_of_order, which are given up and counted: 400 out of order sample",
                      "as other, which are given up and counted: HTTP 400: no such thing"):
            self.assertEqual(self.c.said.count(words), 1, self.c.said)

    def test_a_cut_between_histograms(self):
        """Of one histogram the store keeps all counts before all sums: whatever part is sent has both."""
        def answer(path, items):
            bad = any(v[0] == 45 for *_, v in items)
            return (400, b"out of order sample", {"Content-Type": "text/plain"}) if bad else (200, b"", {})

        self.receiver.answer, now = answer, time.time() - 60
        self.otlp(self.receiver.port)
        self.push("h0", [otlp.histogram("tpu.run.step.duration", 5 + k, 2.5 + k, time=now + k // 9,
                                        attrs={"tpu.run.name": f"r{k % 9}"}) for k in range(63)])
        self.until(self.all_taken)
        got = sorted(v for _, _, kind, _, _, v in self.receiver.points if kind == "histogram")
        self.assertEqual(len(got) + self.counted("refused_samples_total"), 63)
        self.assertLess(set(got), {(5 + k, 2.5 + k, 5 + k) for k in range(63)})
        self.assertGreater(len(got), 63 - 9)

    def test_refused_in_part(self):
        said = field(1, field(1, 2) + field(2, "duplicate, not these"))
        self.receiver.answer = lambda path, items: (200, said if path == "/v1/logs" else b"", {})
        self.otlp(self.receiver.port)
        self.ok(self.c.post("/v1/logs", otlp.request(AGENT, [
            otlp.log("tpu.made.up", k, 9, time.time()) for k in range(5)])))
        self.until(lambda: self.receiver.records and self.all_taken())
        self.assertEqual(self.receiver.of("tpu.made.up"), list(range(5)), "once")
        self.assertEqual((self.counted("refused_records_total", kind="events", reason="duplicate"),
                          self.counted("written_records_total", kind="events")), (2, 3))
        self.assertEqual(self.c.stop(), 0)
        self.assertIn("partly refused: duplicate, not these", self.c.said)

    def test_what_a_person_must_mend_loses_nothing(self):
        """A page in place of an answer says nothing about what was sent."""
        token = Path(self.dir.name) / "token"
        token.write_text("Bearer wrong\n")
        self.receiver.answer = lambda path, items: (
            (200, b"<html>", {"Content-Type": "text/html"}) if path == "/v1/metrics" else (401, b"", {}))
        self.otlp(self.receiver.port, AuthorizationFile=token)
        self.one_of_each(0)
        self.until(lambda: self.counted("failures_total") == 3)
        self.assertEqual((self.counted("waiting_pushes"), self.counted("waiting_records")), (1, 2))
        self.assertEqual(self.receiver.headers[-1]["Authorization"], "Bearer wrong")
        self.assertEqual(self.c.stop(), 0)
        self.assertIn("is this an OTLP endpoint?", self.c.said)
        self.receiver.points.clear()  # it answered 200, and kept nothing
        token.write_text("Bearer right\n")
        self.receiver.answer = lambda path, items: (200, b"", {})
        self.otlp(self.receiver.port, AuthorizationFile=token)
        self.each_once(1)

    def test_much_is_packed_and_in_order(self):
        self.receiver.stop()
        self.otlp(self.receiver.port)
        for first in range(0, 3000, 500):
            self.ok(self.c.post("/v1/logs", otlp.request(AGENT, [
                otlp.log("tpu.made.up", n, 9, time.time()) for n in range(first, first + 500)])))
        self.receiver.start()
        self.until(self.all_taken)
        self.assertEqual(self.receiver.of("tpu.made.up"), list(range(3000)))
        self.assertTrue(any(h.get("Content-Encoding") == "gzip" for h in self.receiver.headers))


class SecondCollector(HandOn):
    """It takes what a first one hands on as if the agents had sent it. Without TLS; with TLS it would need
    TrustAllAgents=yes, for the first speaks for hosts that it is not."""

    def test_it_stores_the_same(self):
        second = Collector(os.path.join(self.dir.name, "second.db"))
        self.addCleanup(second.stop, signal.SIGKILL)
        self.otlp(second.otlp)
        now = time.time() - 60
        for host in ("h0", "h1"):
            for k in range(5):
                self.step(host, k, now + 10 * k)
            self.push(host, [
                otlp.gauge("tpu.host.state", [otlp.point(1, {"tpu.host.state": "ready"}, time=now + 50)]),
                otlp.sum_metric("system.network.io", [otlp.point(7, {"a": "b"}, time=now)], "By"),
                otlp.histogram("tpu.run.step.duration", 5, 2.5)])
            self.event("tpu.host.state_changed", {"state": "ready", "reasons": "none"}, host)
            self.line(1, host)
            self.line(3, host)
        self.until(self.all_taken)
        for host in ("h0", "h1"):
            self.assertEqual(second.latest(host), self.c.latest(host))
            mine, its = (c.get("/api/v1/hosts?host=" + host).json["hosts"][0] for c in (self.c, second))
            for key in ("name", "slice", "worker_id", "state", "reasons", "version"):
                self.assertEqual((key, its[key]), (key, mine[key]))
        for path, key in (("/api/v1/events", "events"), ("/api/v1/runs/train/logs", "lines")):
            mine, its = ([{k: v for k, v in e.items() if k != "received"} for e in c.get(path).json[key]]
                         for c in (self.c, second))
            self.assertEqual(its, mine)
        self.assertEqual(self.counted("refused_samples_total") + self.counted("refused_records_total"), 0)


class Definitions(HandOn):
    """OpenTelemetry's own definitions, which know every byte; skipped, with the reason, where they cannot be
    had."""

    def test_each_field_is_known(self):
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "wire"))
        import peers
        try:
            import strict
        except peers.Missing as why:
            self.skipTest(str(why))
        receiver = strict.Receiver()
        self.addCleanup(receiver.stop)
        self.otlp(receiver.port)
        self.push("h1", [otlp.sum_metric("system.network.io", [otlp.point(7, {"a": "b"})], "By"),
                         otlp.histogram("tpu.run.step.duration", 5, 2.5)])
        self.one_of_each(0)
        self.until(lambda: len(receiver.points()) == 3 and len(receiver.records()) == 2 and self.all_taken())
        self.assertEqual(receiver.faults, [])
        self.assertEqual({(resource["host.name"], metric.name, kind)
                          for resource, metric, kind, _, _ in receiver.points()},
                         {("h0", "tpu.run.step.number", "gauge"), ("h1", "system.network.io", "sum"),
                          ("h1", "tpu.run.step.duration", "histogram")})
        self.assertEqual({(log.event_name, log.severity_text) for _, log in receiver.records()},
                         {("tpu.made.up", "WARN"), ("tpu.run.line", "INFO")})


class Settings(HandOn):
    def test_a_protocol_that_there_is_none_of(self):
        config = Path(self.dir.name) / "bad.conf"
        config.write_text("[RemoteWrite]\nUrl=http://x:4318\nProtocol=grpc\n")
        done = subprocess.run([PROGRAM, "--config", config, "--check-config"], text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Protocol", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
