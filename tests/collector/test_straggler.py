#!/usr/bin/python3
"""A slow host is named out of the figures of all hosts' syncs, under its own name and once."""

import json
import time
import unittest

from collector_case import Case

HOSTS, PUSH, SLOW = 4, 15, 2


class Straggler(Case):
    def setUp(self):
        super().setUp()
        self.known = set()

    def push(self, c, host, at, steps, cpu, run="train"):
        f = {"run": run, "generation": 1, "at": int(at * 1e6), "step": int(steps), "user": cpu * 0.5,
             "system": cpu * 0.25, "waited": cpu * 0.25}
        member = {"v": 1, "slice": f"s{host // 2}", "worker": host % 2, "host": f"h{host}",
                  "id": f"id{host}", "incarnation": "1", "address": [f"10.0.0.{host}"],
                  "hosts": 2, "state": "ready", "runs": []}
        known = {"v": 1, "same": f"{member['slice']}/{member['worker']}",
                 "incarnation": "1"} if host in self.known else {"v": 1, "member": member}
        self.known.add(host)
        r = c.post("/registry/v1/sync", json.dumps({**known, "wait": 0, "figures": [{"run": 7}, f]}))
        self.assertEqual(r.status, 200, r.content)

    def train(self, c, seconds, slow_from):
        """Steps of 0.7 s, of which each host computes for 0.15; from slow_from on one computes for 0.85,
        and all take 1.4."""
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
        self.assertEqual((event["host"], event["slice"], event["worker_id"], event["severity"]),
                         ("h2", "s1", 0, "WARN"))
        self.assertRegex(event["body"],
                         r"^slice s1, worker 0 \(h2\) slows run train down: in [34] of 4 windows it "
                         r"computed, or wanted a CPU, for 0\.\d\d s "
                                        r"of every second, the 3 others for 0\.1\d s, and wait for it; a "
                                        r"step takes 1\.\d\d s, and took 0\.70 s before$")
        self.assertEqual((event["attributes"]["run"], event["attributes"]["host"],
                          event["attributes"]["hosts"]), ("train", "h2", 4))

    def test_nobody(self):
        c = self.start()
        self.train(c, 400, 400)
        self.assertEqual(c.get("/api/v1/events?name=tpu.run.straggler").json["events"], [])

    def test_of_a_run_of_others(self):
        """A host outside of the run's slices says that it is in it: nobody listens, neither who compares
        nor `fleet`."""
        c = self.start()
        for host in range(HOSTS):
            self.push(c, host, time.time(), 0, 0, "other")
        r = c.get("/api/v1/runs", "POST",
                  json.dumps({"name": "train", "user": "alice", "argv": ["x"], "slices": ["s0"], "min": 1}),
                  {"Content-Type": "application/json"})
        self.assertEqual(r.status, 201, r.text)
        self.until(lambda: c.get("/api/v1/runs/train").json["slices"])
        self.train(c, 600, 360)
        self.assertEqual(c.get("/api/v1/events?name=tpu.run.straggler").json["events"], [])
        self.assertEqual({h["name"]: h["run"] for h in c.get("/api/v1/hosts").json["hosts"]},
                         {"h0": "train", "h1": "train", "h2": None, "h3": None})


if __name__ == "__main__":
    unittest.main()
