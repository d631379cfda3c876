#!/usr/bin/python3
"""docs/openapi-collector.yaml and the running tpu-collectord say the same: every call, every status,
every field, both ways."""

import gzip
import http.client
import json
import pathlib
import sqlite3
import sys
import time
import unittest
import urllib.parse

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]
import otlp  # noqa: E402
from collector_case import AGENT, Case  # noqa: E402
from openapi import METHODS, OpenApi  # noqa: E402
from openapi_registry import Drive  # noqa: E402

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs/openapi-collector.yaml"
PROTOBUF = "application/x-protobuf"


class Collector(Case):
    def setUp(self):
        super().setUp()
        self.file = OpenApi(FILE)
        (pathlib.Path(self.dir.name) / "index.html").write_text("<!doctype html>")
        self.start("--page", self.dir.name)

    def request(self, port, method, url, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        c.request(method, url, body, headers or {})
        r = c.getresponse()
        answer = r.status, r.getheader("Content-Type"), r.read(), dict(r.getheaders())
        c.close()
        return answer

    def get(self, path, status=200, headers=None, body=None, **arguments):
        url = path.replace("{name}", arguments.pop("name_", "h0"))
        url += "?" + urllib.parse.urlencode(arguments) if arguments else ""
        got, kind, answer, _ = self.request(self.c.api, "GET", url, body, headers)
        self.assertEqual(got, status, (url, answer))
        return self.file.take("GET", path, got, kind, answer)

    def post(self, path, body, status=200, kind=PROTOBUF, **headers):
        got, answered, answer, head = self.request(self.c.otlp, "POST", path, body,
                                                   {"Content-Type": kind, **headers})
        self.assertEqual(got, status, answer)
        if status == 503:
            self.assertGreater(int(head["Retry-After"]), 0)
        return self.file.take("POST", path, got, answered, answer)

    def feed(self):
        now = time.time()
        states = [otlp.point(int(s == "degraded"), {"tpu.host.state": s}, now)
                  for s in ("ready", "degraded", "unfit")]
        self.post("/v1/metrics",
                  otlp.request(AGENT,
                               [otlp.gauge("tpu.host.state", states),
                                otlp.gauge("tpu.run.step.number",
                                           [otlp.point(12, {"tpu.run.name": "j"}, now)]),
                                                      otlp.gauge("odd",
                                                                 [otlp.point(float("nan"), time=now)])]))
        event = otlp.log("tpu.host.state_changed",
                         {"from": "ready", "to": "degraded", "reasons": "nic.mtu eth1"}, 13, now,
                         {"k": ["v", True, 2.5]})
        self.post("/v1/logs", otlp.request(AGENT, [event, otlp.log("plain", {}, 0, now)]))
        for slice_name in ({}, {"tpu.slice.name": "s0", "tpu.worker.id": 0, "tpu.run.generation": 1}):
            line = otlp.log("tpu.run.line", "text", 9, now,
                            {"tpu.run.name": "h0", "tpu.run.invocation": f"a{len(slice_name)}",
                             "tpu.run.line": 2, **slice_name})
            self.post("/v1/logs", otlp.request(AGENT, [line]))
        ended = otlp.log("tpu.run.exited", {"run": "h0", "unit": "u", "cause": "oom-kill", "code": "killed",
                                            "status": "KILL", "killed_by": "", "why": "no memory left",
                                            "remedy": "a smaller batch", "generation": 1}, 13, now)
        self.post("/v1/logs", otlp.request({**AGENT, "tpu.slice.name": "s0", "tpu.worker.id": 0}, [ended]))
        for host in (AGENT, {"host.name": "h8"}):  # named twice: suspects, one of no slice
            self.post("/v1/logs", otlp.request({**host, "service.name": "tpu-hostd"}, [
                otlp.log("tpu.kernel.fault", {"fault": "disk", "meaning": "m", "lines": 1, "text": "t"}, 17,
                         now),
                otlp.log("tpu.run.exited", {"run": "r", "cause": "device-lost"}, 13, now)]))
        # no agent: all is null
        self.post("/v1/metrics",
                  otlp.request({"host.name": "pc"}, [otlp.gauge("m", [otlp.point(1, time=now)])]))

    def otlp(self, path, key):
        """Each answer of a port 4318 call."""
        leaf = otlp.gauge("m", [otlp.point(1)]) if key == "resourceMetrics" else otlp.log("e", {})
        good = otlp.request(AGENT, [leaf])
        self.post(path, b"")
        self.post(path, b"\xff" * 30, 400)
        self.post(path, good, 400, **{"TPU-Spool-Record": "x"})
        self.post(path, b"{}", 415, kind="application/json")
        self.post(path, good, 415, **{"Content-Encoding": "br"})
        self.post(path, bytes(5 << 20), 413)
        lock = sqlite3.connect(self.c.database, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        self.post(path, good, 503)
        lock.execute("ROLLBACK")
        lock.close()

    def test_both_ports(self):
        self.feed()
        self.otlp("/v1/metrics", "resourceMetrics")
        self.otlp("/v1/logs", "resourceLogs")
        self.post("/v1/metrics", otlp.request(AGENT, [otlp.summary("s")]))
        long = otlp.request(AGENT, [otlp.log("e", "x" * (5 << 20))])
        self.post("/v1/logs", gzip.compress(long, 1), **{"Content-Encoding": "gzip"})
        registry = Drive(self)
        registry.before_reads()
        for method, path in self.file.operations:
            if method == "GET" and path not in ("/api/v1/series", "/api/v1/slices/{name}/pairs"):
                names = {"/page/{name}": "index.html",
                         "/api/v1/episodes/{name}": self.get("/api/v1/episodes")["episodes"][0]["episode"]}
                self.get(path, name_=names.get(path, "h0"))
        for path in ("/", "/page/{name}"):
            tag = self.request(self.c.api, "GET", "/")[3]["ETag"]
            self.get(path, 304, name_="index.html", headers={"If-None-Match": tag})
        self.get("/page/{name}", 404, name_="none.js")
        self.get("/api/v1/episodes/{name}", 404, name_="none")
        registry.after_reads()
        self.get("/api/v1/series", host="h0", name="tpu.run.step.number")
        self.get("/api/v1/series", 404, host="nobody", name="m")
        self.get("/api/v1/series", 400)
        self.get("/api/v1/hosts/{name}", 404, name_="nobody")
        self.get("/api/v1/hosts", 404, slice="nowhere")
        self.get("/api/v1/events", 404, slice="nowhere")
        self.get("/api/v1/runs/{name}/logs", 404, name_="nothing")
        self.get("/api/v1/runs/{name}/why", 404, name_="nothing")
        self.assertEqual(self.get("/api/v1/hosts", limit=1)["next"], 1)
        self.assertEqual(self.get("/api/v1/hosts/{name}")["metrics"][0]["value"], None)
        self.assertIsNone(self.get("/api/v1/hosts/{name}", name_="pc")["state"])
        self.assertEqual(self.get("/api/v1/hosts/{name}", name_="h1")["registry"], "missing")
        for (method, path), parameters in self.file.parameters.items():
            if method == "GET":
                answer = self.get(path, 400, nonsense=1)
                takes = answer["error"].partition("this call takes ")[2]
                wanted = ", ".join(p["name"] + "=" for p in parameters if p["in"] == "query") or "none"
                self.assertEqual(sorted(takes.split(", ")), sorted(wanted.split(", ")), path)
                self.get(path, 413, body=bytes(1 << 20))
        self.assertEqual(self.file.never_came(), [])

    def test_no_other_path_and_method(self):
        agents = ("/v1/", "/registry/")
        for port, prefix in ((self.c.api, ""), (self.c.otlp, agents)):
            mine = [(m, p) for m, p in self.file.operations if p.startswith(agents) == bool(prefix)]
            status, kind, body, _ = self.request(port, "GET", "/nothing")
            self.assertEqual(status, 404)
            if not prefix:  # it lists what there is
                listed = set(json.loads(body)["remedy"].removeprefix("there are ").split(", "))
                self.assertEqual({p.replace("NAME", "{name}").replace("WORKER", "{worker}") for p in listed},
                                 {f"{m} {p}" for m, p in mine})
            for path in {p for _, p in mine}:
                has = {m for m, p in mine if p == path}
                has |= {"HEAD"} if "GET" in has else set()
                for method in METHODS:
                    if method.upper() not in has:
                        status, kind, body, head = self.request(port, method.upper(),
                                                                path.replace("{name}",
                                                                             "h0").replace("{worker}", "0"))
                        self.assertEqual((status, set(head["Allow"].split(", "))), (405, has),
                                         (method, path))


if __name__ == "__main__":
    unittest.main()
