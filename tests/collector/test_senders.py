#!/usr/bin/python3
"""Who sends: one spool on two disks, or on one that went back to an earlier day, loses nothing."""

import json
import unittest

import otlp
from collector_case import AGENT, SPOOL, Case


class Senders(Case):
    def push(self, c, seq, host="h0", boot="b1", machine="m0", name="e", spool=SPOOL,
             header="TPU-Spool-Record"):
        who = {**AGENT, "host.name": host, "tpu.boot.id": boot, "host.id": machine}
        self.ok(c.post("/v1/logs", otlp.request(who, [otlp.log(f"{name}.{host}.{boot}.{seq}", "x")]),
                       {header: f"{spool}/events/{seq}"}))

    def stored(self, c):
        return {n for n, in c.sql("SELECT name FROM events WHERE name LIKE 'e.%'")}

    def told(self, c, name):
        return [json.loads(a) for a, in c.sql("SELECT attributes FROM events WHERE name = ?", name)]

    def hosts(self, c):
        return [h["name"] for h in c.get("/api/v1/hosts").json["hosts"]]

    def test_repeats_are_known_by_sender(self):
        c = self.start()
        for _ in range(2):
            for seq in 1, 2, 3:
                self.push(c, seq)
        self.assertEqual(c.sql("SELECT count(*) FROM events"), [(3,)])

    def test_two_hosts_with_one_spool(self):
        c = self.start()
        for seq in 1, 2, 3:
            self.push(c, seq)
        self.push(c, 3, "h1", "b2", "m1")
        self.push(c, 4, "h1", "b2", "m1")
        self.push(c, 4)
        self.assertEqual(len(self.stored(c)), 6)
        told = self.told(c, "tpu.spool.shared")
        self.assertEqual([(t["host"], t["other"], t["spool_id"]) for t in told], [("h1", "h0", SPOOL)])

    def test_one_image_without_any_overlap(self):
        c = self.start()
        self.push(c, 1)
        self.push(c, 2, "h1", "b2", "m1")
        self.assertEqual(len(self.told(c, "tpu.spool.shared")), 1)

    def test_a_snapshot_comes_back(self):
        c = self.start()
        for seq in range(1, 6):
            self.push(c, seq)
        self.push(c, 3, boot="b2", name="e.new")
        self.push(c, 4, boot="b2", name="e.new")
        self.assertEqual(len(self.stored(c)), 7)
        told = self.told(c, "tpu.spool.went_back")
        self.assertEqual([(t["host"], t["seq"]) for t in told], [("h0", 3)])
        self.assertEqual(self.told(c, "tpu.spool.shared"), [])

    def test_boots_and_names_are_no_news(self):
        """A boot goes on where the last one ended; what it had not sent may come behind the newest."""
        c = self.start()
        for boot, numbers in (("b1", (1, 2)), ("b2", (9, 5, 6, 7, 8)), ("b1", (3, 4))):
            for seq in numbers:
                self.push(c, seq, boot=boot)
        self.push(c, 10, "localhost", "b3")
        self.push(c, 11, "h0", "b3")
        self.push(c, 12, "renamed", "b4")
        self.assertEqual(self.told(c, "tpu.spool.went_back") + self.told(c, "tpu.spool.shared"), [])

    def test_what_was_set_aside_makes_no_member(self):
        c = self.start()
        self.push(c, 1, "h1", "b2", "m1")
        for _ in range(2):
            self.push(c, 7, "builder", "b1", "m0", spool="00000000000000bb", header="TPU-Spool-Aside")
        self.assertEqual((len(self.stored(c)), self.hosts(c)), (2, ["h1"]))
        events = c.get("/api/v1/events?host=builder").json["events"]
        self.assertEqual([e["name"] for e in events], ["e.builder.b1.7"])
        self.push(c, 8, "builder", "b3", "m0", spool="00000000000000bb")  # it is there itself
        self.assertEqual(self.hosts(c), ["builder", "h1"])
        self.assertIsNotNone(c.get("/api/v1/hosts").json["hosts"][0]["first_seen"])

    def test_hosts_with_one_machine_id(self):
        c = self.start()
        self.push(c, 1, "h0", "b1", spool="00000000000000aa")
        self.push(c, 1, "h1", "b2", spool="00000000000000bb")
        self.push(c, 2, "h1", "b2", spool="00000000000000bb")
        self.push(c, 2, "h0", "b1", spool="00000000000000aa")
        told = self.told(c, "tpu.host.same_machine_id")
        self.assertEqual([(t["host"], t["other"], t["machine"]) for t in told], [("h1", "h0", "m0")])
        self.assertIn("systemd-machine-id-setup", told[0]["remedy"])
        self.assertEqual(self.hosts(c), ["h0", "h1"])


if __name__ == "__main__":
    unittest.main()
