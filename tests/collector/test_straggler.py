#!/usr/bin/python3
"""A slow host is named out of what all hosts push of a run, under its own name and once."""

import time
import unittest

import otlp
from collector_case import AGENT, Case

HOSTS, PUSH, SLOW = 4, 15, 2


class Straggler(Case):
    def push(self, c, host, at, steps, cpu, job="train"):
        resource = {**AGENT, "host.name": f"h{host}", "tpu.slice.name": f"s{host // 2}", "tpu.worker.id": host % 2}
        modes = [otlp.point(cpu * share, {"job": job, "cpu.mode": mode}, at) for mode, share in (("user", 0.5), ("system", 0.25))]
        waited = [otlp.point(cpu * 0.25, {"job": job, "tpu.pressure.resource": "cpu", "tpu.pressure.kind": "some"}, at),
                  otlp.point(at % 1000, {"job": job, "tpu.pressure.resource": "io", "tpu.pressure.kind": "some"}, at)]
        body = otlp.request(resource, [otlp.gauge("tpu.run.step", [otlp.point(int(steps), {"job": job}, at)]),
                                       otlp.sum_metric("tpu.run.cpu.time", modes, "s"),
                                       otlp.sum_metric("tpu.run.pressure.stall_time", waited, "s")])
        self.ok(c.post("/v1/metrics", body))

    def train(self, c, seconds, slow_from):
        """Steps of 0.7 s, of which each host computes for 0.15; from slow_from on one computes for 0.85, and all take 1.4."""
        began, steps, cpu = time.time() - seconds, 0.0, [0.0] * HOSTS
        for t in range(0, seconds, PUSH):
            slow = t >= slow_from
            made = PUSH / (1.4 if slow else 0.7)
            steps += made
            for host in range(HOSTS):
                cpu[host] += made * (0.85 if slow and host == SLOW else 0.15)
                self.push(c, host, began + t + host / 4, steps, cpu[host])

    def test_named(self):
        c = self.start()
        self.train(c, 600, 360)
        answer = c.get("/api/v1/events?name=tpu.run.straggler").json
        event, = answer["events"]
        self.assertEqual((event["host"], event["slice"], event["worker_id"], event["severity"]), ("h2", "s1", 0, "WARN"))
        self.assertRegex(event["body"], r"^slice s1, worker 0 \(h2\) slows run train down: in [34] of 4 windows it computed, or wanted a CPU, for 0\.\d\d s "
                                        r"of every second, the 3 others for 0\.1\d s, and wait for it; a step takes 1\.\d\d s, and took 0\.70 s before$")
        self.assertEqual((event["attributes"]["run"], event["attributes"]["host"], event["attributes"]["hosts"]), ("train", "h2", 4))

    def test_nobody(self):
        c = self.start()
        self.train(c, 400, 400)
        self.assertEqual(c.get("/api/v1/events?name=tpu.run.straggler").json["events"], [])


if __name__ == "__main__":
    unittest.main()
