#!/usr/bin/python3
"""A host with a valid certificate, and stalls of others: its captures become no part of their episodes, it
begins none in the name of their runs, and as many as it begins close none."""

import json
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from attack_case import Attack, member  # noqa: E402
import capture_wire  # noqa: E402

BODY = capture_wire.wire({"processes": []})


class Episodes(Attack):
    """Slice s0 of host a, which has run train; slice s1 of host b, which attacks."""

    def setUp(self):
        super().setUp()
        self.collector()
        self.members = {}
        self.say("a", "s0")
        self.say("b", "s1")

    def say(self, host, slice_name, state=None):
        runs = [{"name": "train", "generation": 1, "state": state}] if state else []
        self.members[host] = member(host, slice_name, state="ready", runs=runs,
                                    fingerprint={"digest": "d", "parts": {}},
                                    address=[f"10.0.0.{'ab'.index(host)}"])
        r = self.sync(host, member=self.members[host], wait=0)
        self.assertEqual(r.status, 200, r.content)
        return r

    def capture(self, host, episode, run="train", generation=1, taken=None):
        query = capture_wire.query(episode, self.members[host], run, 0, generation)
        if taken:
            query = "&".join(w if not w.startswith("taken=") else f"taken={taken}" for w in query.split("&"))
        return self.call(host, "/registry/v1/capture?" + query, BODY)

    def run_now(self):
        return next((r for r in self.people("/api/v1/runs").json["runs"] if r["name"] == "train"), {})

    def start_run(self):
        c = self.connect("actor", self.c.api)
        r = self.ask(c, "POST", "/api/v1/runs",
                     json.dumps({"name": "train", "user": "alice", "argv": ["x"], "slices": ["s0"]}),
                     {"Content-Type": "application/json"})
        self.assertEqual(r.status, 201, r.content)
        self.until(lambda: self.run_now().get("state") == "preparing")
        self.until(lambda: self.say("a", "s0", "prepared") and self.run_now()["state"] == "running")

    def captures(self):
        return self.c.sql("SELECT episode, host FROM captures ORDER BY id")

    def test_part_of_anothers(self):
        """b knows the name of an episode of s0, as readers do: what was asked for, and what a began."""
        self.start_run()
        asked = self.people("/api/v1/slices/s0/capture", "POST", "actor").json["episode"]
        self.assertEqual(self.capture("a", asked).status, 200)
        self.assertEqual(self.capture("a", "", "by-hand", 0).status, 200)
        own = self.captures()[-1][0]
        self.until(lambda: own in self.people("/api/v1/episodes").content.decode())
        for episode, generation in ((asked, 1), (own, 0)):
            r = self.capture("b", episode, "train" if generation else "by-hand", generation)
            self.assertEqual((r.status, b"no such episode" in r.content), (404, True), r.content)
        self.assertEqual(self.captures(), [(asked, "a"), (own, "a")])

    def test_in_the_name_of_anothers_run(self):
        self.start_run()
        for generation in (1, 2):
            r = self.capture("b", "", generation=generation)
            self.assertIn(b"run train is not on slice s1", r.content)
            self.assertEqual(r.status, 404)
        self.assertEqual(self.capture("a", "").status, 200)
        self.assertEqual([h for _, h in self.captures()], ["a"])

    def test_the_same_name_and_time(self):
        """Runs that people started are called alike everywhere, and b takes the time of a's episode, too."""
        taken = int(time.time() * 1e6)
        for host in "ab":
            self.assertEqual(self.capture(host, "", generation=0, taken=taken).status, 200)
        episodes = [e for e, _ in self.captures()]
        self.assertEqual(len(set(episodes)), 2, episodes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
