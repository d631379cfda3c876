#!/usr/bin/python3
"""GET /api/v1/suspects: hosts that fail again and again, and what does not make a host one of them."""

import sqlite3
import time
import unittest

import otlp
from collector_case import AGENT, Case

LOST = {"run": "a", "unit": "u", "cause": "device-lost", "code": "", "status": ""}
FAULT = {"fault": "nic_reset", "meaning": "a NIC hung or was reset", "lines": 1, "text": "eth1: reset"}
BAD = {"check": "nic.errors", "subject": "eth1", "from": "OK", "to": "FAIL"}


class Suspects(Case):
    def setUp(self):
        super().setUp()
        self.c = self.start()

    def tell(self, host, name, body):
        self.ok(self.c.post("/v1/logs", otlp.request(
            {**AGENT, "host.name": host, "tpu.slice.name": "s0", "tpu.worker.id": int(host[1:])},
            [otlp.log(name, body, 17, time.time())])))

    def suspects(self):
        r = self.c.get("/api/v1/suspects")
        self.assertEqual((r.status, r.json["cut"]), (200, False), r.json)
        return r.json["suspects"]

    def names(self):
        return [s["host"] for s in self.suspects()]

    def test_nobody(self):
        self.assertEqual(self.suspects(), [])

    def test_one_trouble_is_nobodys_habit(self):
        """However often it is reported: by each start of a run, by a check that flaps all day."""
        for _ in range(30):
            self.tell("h1", "tpu.run.exited", LOST)
            self.tell("h2", "tpu.check.changed", BAD)
            self.tell("h3", "tpu.net.link_bad", {"run": "a", "text": "x"})
        self.assertEqual(self.names(), [])

    def test_the_same_host_in_two_runs(self):
        for run in ("a", "b"):
            self.tell("h1", "tpu.run.exited", dict(LOST, run=run))
        self.tell("h0", "tpu.run.exited", LOST)
        found = self.suspects()
        self.assertEqual([(s["host"], s["slice"], s["worker_id"], s["score"], s["runs"]) for s in found],
                         [("h1", "s0", 1, 2.0, 2)])
        report = found[0]["reports"][0]
        self.assertEqual((report["name"], report["count"]), ("tpu.run.exited", 2))
        self.assertIn("run b ended: device-lost", report["sentence"])

    def test_different_troubles_of_one_host(self):
        for host in ("h1", "h2"):
            self.tell(host, "tpu.kernel.fault", FAULT)
        self.tell("h2", "tpu.net.link_bad", {"run": "a", "text": "NIC eth1 loses packets"})
        self.assertEqual(self.names(), [])
        self.tell("h2", "tpu.check.changed", BAD)
        found = self.suspects()
        self.assertEqual([(s["host"], s["score"]) for s in found], [("h2", 1.6)])
        self.assertEqual(len(found[0]["reports"]), 3)

    def test_no_host_accuses_another(self):
        """The collector stores a verdict, and a lost host, under the host that it means."""
        for run in ("a", "b"):
            self.tell("h7", "tpu.run.stall_confirmed",
                      {"run": run, "outcome": "named", "host": "h7", "sentence": "h7 waits", "slice": "s0"})
            self.tell("h5", "tpu.run.stall_confirmed",
                      {"run": run, "outcome": "nobody", "host": "", "sentence": "no host", "slice": "s0"})
        self.tell("h7", "tpu.run.changed", {"run": "c", "cause": "host-lost", "blame": "h7"})
        for run in "defg":
            self.tell("h0", "tpu.run.changed", {"run": run, "cause": "host-lost", "blame": "h6"})
        self.assertEqual([(s["host"], s["score"]) for s in self.suspects()], [("h0", 4.0), ("h7", 3.0)])

    def test_what_programs_do_to_themselves(self):
        for run in "abcdef":
            for cause in ("exit-code", "signal", "oom-kill", "stopped", "peer-lost", "success"):
                self.tell("h1", "tpu.run.exited", dict(LOST, run=run, cause=cause))
            self.tell("h1", "tpu.kernel.fault", dict(FAULT, fault="oom"))
        self.assertEqual(self.names(), [])

    def test_what_is_old_counts_less(self):
        for run in ("a", "b", "c"):
            self.tell("h1", "tpu.run.exited", dict(LOST, run=run))
        for days, score in ((0, 3.0), (2, 1.89), (2, None), (20, None)):
            self.assertEqual(self.c.stop(), 0)
            db = sqlite3.connect(self.c.database)
            with db:
                db.execute("UPDATE events SET received = received - ?", (days * 86400 * 1000000,))
            db.close()
            self.c = self.start()
            self.assertEqual([s["score"] for s in self.suspects()], [score] if score else [])


if __name__ == "__main__":
    unittest.main()
