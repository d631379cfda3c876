#!/usr/bin/python3
"""Control without telemetry, and telemetry without control: each works where the other is switched off.
BUILD_DIR names the build."""

import json
import os
import time
import unittest

import otlp
from collector_case import AGENT, Case, metrics
import capture_wire  # whose folder is known by now

ELSEWHERE = "https://victoria.example:8428/select/0"


def member(worker, **more):
    return {"v": 1, "slice": "s0", "worker": worker, "host": f"h{worker}", "id": f"id{worker}",
            "incarnation": "a", "address": [f"10.0.0.{worker}"], "hosts": 3,
            "state": "ready", "reasons": "", "accelerator": "v6e-16", "version": "0.9", "runs": [], **more}


class Apart(Case):
    def configured(self, text):
        path = os.path.join(self.dir.name, "collectord.conf")
        with open(path, "w") as f:
            f.write(text)
        return self.start("--config", path)

    def sync(self, c, m, status=200, **more):
        r = c.post("/registry/v1/sync", json.dumps({"v": 1, "member": m, "wait": 0, **more}))
        self.assertEqual(r.status, status, r.content)
        return json.loads(r.content)

    def hosts(self, c, query=""):
        return {h["name"]: h for h in c.get("/api/v1/hosts" + query).json["hosts"]}

    def test_the_fleet_of_both(self):
        c = self.start()
        self.sync(c, member(0, orders="cordoned: disk"),
                  figures=[{"run": "train", "generation": 2, "at": int(time.time() * 1e6), "step": 41,
                            "step_time": 4_100_000, "doing": "checkpoint", "goodput": 0.93,
                            "checkpoint": {"at": 1795237200000000, "step": 30, "took": 1_500_000,
                                           "since": 11}}])
        self.sync(c, member(1, state="unfit", reasons="nic.mtu eth1", next=["h2"], topology="4x4", runs=[
            {"name": "train", "generation": 2, "state": "running", "serial": "5", "step": 40, "suspected": 1,
             "suspicion": "no step for 40 s"}]))
        old = otlp.gauge("tpu.host.state", [otlp.point(1, {"tpu.host.state": "degraded"}, time.time() - 50)])
        for name in ("h0", "h2", "lone"):
            res = {**AGENT, "host.name": name, "tpu.slice.name": "s0", "tpu.worker.id": 7}
            self.ok(c.post("/v1/metrics", otlp.request(res, [old])))
        h = self.hosts(c)
        self.assertEqual([(n, x["registry"], x["slice"], x["worker_id"]) for n, x in h.items()],
                         [("h0", "member", "s0", 0), ("h1", "member", "s0", 1), ("h2", "missing", "s0", 2),
                          ("lone", "none", "s0", 7)])
        self.assertEqual([(x["state"], x["run"], x["step"], x["orders"]) for x in h.values()],
                         [("ready", "train", 41, "cordoned: disk"), ("unfit", "train", 40, None),
                          ("degraded", None, None, None), ("degraded", None, None, None)])
        self.assertEqual([(x["doing"], x["step_seconds"], x["goodput"], x["suspicion"], x["topology"]) for x in h.values()],
                         [("checkpoint", 4.1, 0.93, None, None), ("stall", None, None, "no step for 40 s", "4x4"),
                          (None,) * 5, (None,) * 5])
        self.assertEqual([x["checkpoint"] for x in h.values()],
                         [{"at": "2026-11-21T05:00:00.000Z", "step": 30, "took_seconds": 1.5,
                           "steps_since": 11}, None, None, None])
        self.assertEqual((h["h1"]["reasons"], h["h1"]["accelerator_type"], h["h1"]["lag_seconds"],
                          h["h1"]["boot_id"]), ("nic.mtu eth1", "v6e-16", None, None))
        self.assertTrue(49 < h["h0"]["lag_seconds"] < 60 and h["h0"]["boot_id"] == "b-1")
        self.assertEqual((h["h0"]["version"], h["lone"]["version"]), ("0.9", "0.1.0"))
        self.assertIn("never", h["h2"]["missing"])
        self.assertEqual(list(self.hosts(c, "?state=unfit")), ["h1"])
        self.assertEqual(list(self.hosts(c, "?limit=1&offset=2")), ["h2"])
        s, = c.get("/api/v1/slices").json["slices"]
        self.assertEqual((s["hosts"], s["ready"], s["unfit"], s["degraded"], s["silent"]), (4, 1, 1, 1, 1))
        self.assertIn('tpu_collectord_hosts{state="silent"} 1\n', c.get("/metrics").text)
        r = c.post("/registry/v1/sync",
                   json.dumps({"v": 1, "same": "s0/0", "incarnation": "a", "wait": 0, "leave": True}))
        self.assertEqual(r.status, 200)
        self.until(lambda: self.hosts(c)["h0"]["missing"] == "it was shut down")
        self.assertEqual([m["name"] for m in c.get("/api/v1/hosts/h2").json["metrics"]], ["tpu.host.state"])

    def test_figures_that_make_no_sense(self):
        c = self.start()
        self.sync(c, member(0), figures=[7, {}, {"run": "x" * 80, "at": 1},
                                         {"run": "r", "at": -1, "doing": 7, "goodput": 7, "step_time": "x"},
                                         {"run": "r", "at": 1, "doing": "<b>", "goodput": -1,
                                          "checkpoint": {"at": 1 << 60}},
                                         {"run": "ok", "at": 1 << 60, "step": 3, "user": "x", "system": -1}])
        self.assertEqual([(h["run"], h["step"]) for h in self.hosts(c).values()], [("ok", 3)])
        for wrong in (7, [], {}, {"at": "x"}, {"at": -1}, {"at": 0}, {"at": (1 << 53) + 1}):
            self.sync(c, member(0), figures=[{"run": "ok", "at": 1, "checkpoint": wrong}])
            self.assertIsNone(self.hosts(c)["h0"]["checkpoint"], wrong)
        self.sync(c, member(0), figures=[{"run": "ok", "at": 1, "checkpoint": {
            "at": 1795237200000000, "step": -1, "took": "x", "since": None, "path": "/secret"}}])
        self.assertEqual(self.hosts(c)["h0"]["checkpoint"], {
            "at": "2026-11-21T05:00:00.000Z", "step": None, "took_seconds": None, "steps_since": None})
        self.sync(c, member(0), 400, figures={"run": "r"})
        self.sync(c, member(0), 400, figures=[{"run": f"r{i}", "at": 1} for i in range(65)])
        self.sync(c, member(0), figures=[{"run": f"r{i}", "at": 1} for i in range(64)])
        self.sync(c, member(0), figures=[])
        self.assertEqual([(h["run"], h["step"]) for h in self.hosts(c).values()], [(None, None)])

    def test_control_alone(self):
        c = self.configured(f"[Telemetry]\nEnabled=no\nElsewhere={ELSEWHERE}\n")
        self.refused(c.post("/v1/metrics", metrics()), 404, "telemetry is not kept here")
        self.refused(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("e", {})])), 404,
                     "telemetry is not kept here")
        for path in ("/api/v1/events", "/api/v1/events?wait=5&since=0", "/api/v1/series?host=h0&name=m",
                     "/api/v1/runs/run1/logs"):
            r = c.get(path)
            self.assertEqual((path, r.status, r.json["error"], r.json["telemetry"]),
                             (path, 404, f"telemetry is not kept here: it goes to {ELSEWHERE}", ELSEWHERE))
        self.sync(c, member(0), figures=[{"run": "train", "generation": 1, "at": 1, "step": 3}])
        h = self.hosts(c)["h0"]
        self.assertEqual((h["registry"], h["state"], h["run"], h["step"], h["version"], h["lag_seconds"]),
                         ("member", "ready", "train", 3, "0.9", None))
        self.assertEqual(c.get("/api/v1/hosts/h0").json["metrics"], [])
        self.assertEqual(c.get("/api/v1/runs").json, {"runs": []})
        self.assertEqual(c.get("/api/v1/slices/s0/diagnosis").status, 404)
        self.assertEqual(c.get("/api/v1/hosts/h0/cordon?reason=disk", "PUT").json["reason"], "disk")
        self.assertEqual(c.get("/api/v1/mode?reason=disks", "PUT").status, 200)
        self.assertIn('tpu_collectord_hosts{state="ready"} 1\n', c.get("/metrics").text)
        asked = c.get("/api/v1/slices/s0/capture", "POST").json
        for k in (0, 1):
            r = capture_wire.post(c, member(0), asked["episode"], "", k,
                                  capture_wire.wire({"processes": []}))
            self.assertEqual(r.status, 200, r.content)
        self.until(lambda: c.get("/api/v1/slices/s0/diagnosis").json.get("outcome"))
        self.assertEqual([e["episode"] for e in c.get("/api/v1/slices/s0/episodes").json["episodes"]],
                         [asked["episode"]])

    def test_telemetry_alone(self):
        c = self.configured("[Control]\nEnabled=no\n")
        self.sync(c, member(0), 404)
        self.assertEqual(capture_wire.post(c, member(0), "", "r", 0, b"x").status, 404)
        self.ok(c.post("/v1/metrics", metrics()))
        self.assertEqual({n: h["registry"] for n, h in self.hosts(c).items()}, {"h0": "none"})
        self.assertEqual(c.get("/api/v1/slices").json["slices"][0]["gang"], None)
        for path, method in (("/api/v1/runs", "GET"), ("/api/v1/runs/x", "DELETE"), ("/api/v1/mode", "PUT"),
                             ("/api/v1/slices/s1", "GET"),
                             ("/api/v1/slices/s1/diagnosis", "GET"), ("/api/v1/slices/s1/capture", "POST"),
                             ("/api/v1/hosts/h0/cordon", "PUT")):
            r = c.get(path, method)
            self.assertEqual((path, r.status, r.json["error"]), (path, 404, "no registry is kept here"))
        self.assertEqual(c.get("/api/v1/events").status, 200)
        self.assertEqual(c.get("/api/v1/runs/x/logs").json["error"], "there is no run 'x'; none is known")
        self.assertNotIn("registry_members", c.get("/metrics").text)


if __name__ == "__main__":
    unittest.main()
