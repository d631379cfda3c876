#!/usr/bin/python3
"""An older life of a host, an address that was given away, a host that does not know which it is: what they
say is refused, or named, and touches nobody's run."""

import json
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hostd"))
from attack_case import Attack, member  # noqa: E402
from around import wait_until  # noqa: E402
import capture_wire  # noqa: E402
from test_registry import WithRegistry  # noqa: E402

BOOT, OTHER = "0123456789abcdef", "fedcba9876543210"


def life(start, boot=BOOT):
    return f"{boot}.{start:016x}"


class OlderLife(Attack):
    """Slice s0 of the hosts a and b, which have a run."""

    def setUp(self):
        super().setUp()
        self.collector(control={"Lease": "5s"})
        self.lives, self.starts = {"a": life(20), "b": life(20)}, {"a": [], "b": []}

    def say(self, host, state=None, generation=1, **more):
        runs = [{"name": "train", "generation": generation, "state": state, **more.pop("part", {})}]
        words = member(host, worker="ab".index(host), hosts=2, fingerprint={"digest": "d", "parts": {}},
                       state="ready", **{"address": [f"10.0.0.{'ab'.index(host)}"],
                                         "incarnation": self.lives[host], "runs": runs if state else [],
                                         **more})
        return self.sync(host, member=words, wait=0)

    def short(self, host, incarnation=None, **more):
        return self.sync(host, same=f"s0/{'ab'.index(host)}",
                         incarnation=incarnation or self.lives[host], wait=0, **more)

    def run_now(self):
        return next((r for r in self.people("/api/v1/runs").json["runs"] if r["name"] == "train"), None)

    def slice_now(self):
        return self.people("/api/v1/slices/s0").json

    def want_run(self):
        c = self.connect("actor", self.c.api)
        intent = {"name": "train", "user": "alice", "argv": ["x"], "slices": ["s0"], "restarts": 3}
        r = self.ask(c, "POST", "/api/v1/runs", json.dumps(intent), {"Content-Type": "application/json"})
        self.assertEqual(r.status, 201, r.content)

    def start_run(self):
        for host in "ab":
            self.say(host)
        self.want_run()
        self.until(lambda: (self.run_now() or {}).get("state") == "preparing")
        self.until(lambda: all(self.say(h, "prepared").status == 200 for h in "ab")
                   and self.run_now()["state"] == "running")
        for host in "ab":
            self.say(host, "running")

    def test_a_late_word_of_it(self):
        """What an agent said before it was restarted arrives after: the slot stays with its later life, the
        slice its generation, and nothing that the older one says counts."""
        self.start_run()
        before = self.slice_now()["generation"], self.run_now()["generation"]
        self.lives["b"] = life(10)
        for state in (None, "exited", "running"):
            r = self.say("b", state, part={"cause": "exit-code", "status": "1", "code": "exited"})
            self.assertEqual(r.json["conflict"]["holder"], "b", r.content)
        for more in ({"leave": True}, {}, {"figures": [{"run": "train", "generation": 1, "at": 1}]}):
            self.assertTrue(self.short("b", **more).json["tell"])
        query = {**member("b", worker=1), "incarnation": self.lives["b"]}
        r = self.call("b", "/registry/v1/capture?" + capture_wire.query("", query, "train", 0),
                      capture_wire.wire({"processes": []}))
        self.assertEqual((r.status, b"no member here" in r.content), (503, True))
        self.lives["b"] = life(20)
        self.assertFalse(self.short("b").json["tell"])
        self.assertEqual((self.slice_now()["generation"], self.run_now()["generation"]), before)
        self.assertEqual(self.run_now()["state"], "running")

    def test_after_the_collector_was_restarted(self):
        """The order of two lives is known to a collector that has heard neither."""
        self.say("b")
        self.until(lambda: self.slice_now()["roster"])
        self.restart()
        self.lives["b"] = life(10)
        self.assertEqual(self.say("b").json["conflict"]["holder"], "b")
        self.lives["b"] = life(30)
        self.assertIsNone(self.say("b").json["conflict"])
        self.lives["b"] = life(1, OTHER)  # booted again: that its clock began anew says nothing
        self.assertIsNone(self.say("b").json["conflict"])

    def test_runs_of_an_older_generation(self):
        """What ended then ends nothing now, and its figures are nobody's."""
        self.start_run()
        self.say("b", "exited", part={"cause": "exit-code", "status": "1", "code": "exited"})
        self.until(lambda: self.say("a", "stopped").status == 200 and self.run_now()["generation"] == 2)
        self.until(lambda: all(self.say(h, "prepared", 2).status == 200 for h in "ab")
                   and self.run_now()["state"] == "running")
        for host in "ab":
            self.say(host, "running", 2)
        shown = lambda: next(h for h in self.people("/api/v1/hosts").json["hosts"] if h["name"] == "a")
        for generation, step in ((2, 30), (1, 99), (3, 99), (2 ** 53, 99)):
            self.short("a", figures=[{"run": "train", "generation": generation, "at": int(time.time() * 1e6),
                                      "step": step, "step_time": 1000}])
            (self.assertEqual if generation == 2 else self.assertNotEqual)(shown().get("step"), step)
        for generation in (1, 1, 0):
            self.say("b", "exited", generation, part={"cause": "signal", "status": "KILL", "code": "killed"})
        self.say("b", "running", 2)
        now = self.run_now()
        self.assertEqual((now["state"], now["generation"]), ("running", 2), now)
        self.late_capture()

    def late_capture(self):
        """A capture of the older generation does not become part of the later one's episode."""
        r = self.people("/api/v1/slices/s0/capture", "POST", "actor")
        self.assertEqual(r.status, 202, r.content)
        host = {**member("b", worker=1), "incarnation": self.lives["b"]}
        for generation, status in ((1, 404), (3, 404), (2, 200), (1, 404)):
            query = capture_wire.query(r.json["episode"], host, "train", 0, generation)
            r2 = self.call("b", "/registry/v1/capture?" + query, capture_wire.wire({"processes": []}))
            self.assertEqual(r2.status, status, r2.content)
            if status == 404:
                self.assertIn(b"this capture is of generation %d of run train" % generation, r2.content)
        self.assertEqual(self.c.sql("SELECT host, generation FROM captures"), [("b", 2)])

    def test_a_recycled_address(self):
        """The address of a host that is still there by its lease: no run is started over the two, and both
        are named."""
        self.say("a")
        self.say("b", address=["10.0.0.0"])
        self.want_run()
        self.until(lambda: (self.run_now() or {}).get("waits_for"))
        self.assertEqual(self.run_now()["waits_for"],
                         ["s0: a (10.0.0.0) and s0: b (10.0.0.0) report one address"])
        self.say("b", address=["10.0.0.7"])
        self.until(lambda: self.run_now()["state"] == "preparing")


class NoIndex(WithRegistry):
    """A second host with an empty metadata server."""

    def test_it_is_no_worker_0(self):
        r = self.registry()
        for identity, missing in ((("AcceleratorType=v6e-16\nTopology=4x4\nSliceName=s0\n"
                                    "WorkerHostnames=h0,h1,h2,h3\n"), "the worker id"),
                                  ("AcceleratorType=v6e-16\nWorkerId=0\n", "the slice's name"),
                                  ("SliceName=s0\nWorkerId=\n", "the worker id"),
                                  ("SliceName=s0\nWorkerId=zero\n", "the worker id")):
            with self.subTest(identity):
                h = self.hostd(r, identity="[Identity]\nHostName=h2\n" + identity)
                wait_until(lambda: self.check(h, "enroll.registry"), 60, "the check")
                self.assertIn(f"{missing} of this host is not known: it is a member of nothing",
                              self.check(h, "enroll.registry")["reason"])
                h.close()
        self.assertEqual((r.members, r.asked), ({}, []))


if __name__ == "__main__":
    unittest.main()
