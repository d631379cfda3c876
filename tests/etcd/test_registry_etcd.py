#!/usr/bin/python3
"""The registry that etcd keeps, as hosts see it: join, conflict, loss, return, a leader killed, etcd's leader and quorum lost."""

import itertools
import json
import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "control"))
from etcd_server import Lines, Site, missing, until

if why := missing():
    if __name__ == "__main__":
        print(f"skipped: {why}")
        sys.exit(77)
    raise unittest.SkipTest(why)

DRIVER = Path(os.environ["BUILD_DIR"]) / "tests/etcd/registry-driver"


class Host(Lines):
    lives = itertools.count(1)

    def __init__(self, site, worker, name=None, hosts=3, lease=3, slice_name="s0", identity=None, wait=True):
        files = [site.authority.cert, *(identity or site.root)] if site.tls else ["-"] * 3
        self.site, self.worker, self.name, self.incarnation = site, worker, name or f"h{worker}", f"{next(self.lives):016x}"
        super().__init__(DRIVER, site.urls, *files, lease, self.name, slice_name, worker, f"id-{self.name}", self.incarnation, hosts)
        self.slice_key, self.records, self.state = f"slice/{slice_name}", {}, {}
        if wait:
            self.until(lambda: self.state.get("status") == "member", "it is a member")

    def until(self, condition, what):
        """Takes what is said until the condition holds."""
        end = time.monotonic() + 60
        while not (r := condition()):
            assert time.monotonic() < end, f"{self.name}: not within 60 s: {what}; {self.state} {self.records}"
            try:
                line = self.said.get(timeout=0.5)
            except Exception:
                continue
            assert line is not None, f"{self.name} ended: {self.process.wait()}"
            if "record" in line:
                self.records[line["record"]] = line["value"]
            elif "status" in line:
                self.state = line
            else:
                self.passed.append(line)
        return r

    def slice(self):
        return self.records.get(self.slice_key) or {}

    def ready(self, generation=1):
        return self.until(lambda: self.slice().get("state") == "ready" and self.slice()["generation"] >= generation and self.slice(), "ready")

    def misses(self, worker):
        return self.until(lambda: [m for m in self.slice().get("missing", []) if m["worker"] == worker], f"{worker} is missed")[0]

    def put(self, key, value=None):
        self.tell(f"put {key} {json.dumps(value) if value else ''}")
        return self.until(lambda: next((self.passed.pop(i) for i, x in enumerate(self.passed) if "put" in x), None), "put is answered")

    def kill(self):
        self.process.kill()
        self.process.wait()


class Case(unittest.TestCase):
    MEMBERS = 1

    def setUp(self):
        self.site = Site(self.MEMBERS)
        self.addCleanup(self.site.close)
        self.hosts = []

    def tearDown(self):
        for h in self.hosts:
            if h.process.poll() is None:
                h.close()
            else:
                h.process.stdin.close()
                h.process.stdout.close()

    def host(self, *words, **named):
        self.hosts.append(Host(self.site, *words, **named))
        return self.hosts[-1]

    def fleet(self, n=3):
        hosts = [self.host(i, hosts=n) for i in range(n)]
        for h in hosts:
            h.ready()
        return hosts

    def leader_of(self, hosts):
        return until(lambda: self._look(hosts), "one of them leads")

    def _look(self, hosts):
        for h in hosts:
            while not h.said.empty():
                line = h.said.get()
                if line and "status" in line:
                    h.state = line
                elif line and "record" in line:
                    h.records[line["record"]] = line["value"]
                elif line:
                    h.passed.append(line)
        leads = [h for h in hosts if h.state.get("leads")]
        return leads[0] if len(leads) == 1 else None


class One(Case):
    def test_a_slice_becomes_whole(self):
        first = self.host(0)
        self.assertEqual({m["worker"] for m in first.until(lambda: first.slice().get("missing"), "who is missing is named")}, {1, 2})
        second, third = self.host(1), self.host(2)
        for h in (first, second, third):
            self.assertEqual([(m["worker"], m["host"]) for m in h.ready()["roster"]], [(0, "h0"), (1, "h1"), (2, "h2")])
            self.assertTrue(h.state["may_claim"])
        self.assertIsNotNone(self.leader_of([first, second, third]))

    def test_killed_and_back(self):
        hosts = self.fleet()
        generation = hosts[0].slice()["generation"]
        leader = self.leader_of(hosts)
        lost = next(h for h in hosts if h is not leader)
        others = [h for h in hosts if h is not lost]
        lost.kill()
        for h in others:
            m = h.misses(lost.worker)
            self.assertEqual(m["host"], lost.name)
            self.assertIn("lease ended", m["why"])
        back = self.host(lost.worker)
        for h in (*others, back):
            self.assertGreater(h.ready(generation + 1)["generation"], generation)

    def test_a_restart_is_a_new_generation_at_once(self):
        hosts = self.fleet()
        generation = hosts[0].slice()["generation"]
        hosts[2].kill()
        self.host(2)  # long before the old lease ends
        self.assertEqual(hosts[0].ready(generation + 1)["roster"][2]["incarnation"], self.hosts[-1].incarnation)

    def test_leaving_is_told_at_once(self):
        hosts = self.fleet()
        self.leader_of(hosts)
        hosts[1].tell("leave")
        others = [hosts[0], hosts[2]]
        for h in others:
            self.assertIn("shut down", h.misses(1)["why"])

    @unittest.skipUnless(os.environ.get("FULL"), "with FULL=1")  # as below, of a slice whose record is whole
    def test_the_leader_is_killed(self):
        """Its member and its key go in one: who takes over has to notice that by itself."""
        hosts = self.fleet()
        generation = hosts[0].slice()["generation"]
        old = self.leader_of(hosts)
        others = [h for h in hosts if h is not old]
        old.kill()
        self.leader_of(others)
        for h in others:
            h.misses(old.worker)
        self.host(old.worker)
        for h in others:
            h.ready(generation + 1)

    def test_the_leader_of_a_large_slice_is_killed(self):
        """Who takes over has to know who was there, which the record that all hosts watch does not say."""
        hosts = self.fleet(18)
        s = hosts[0].slice()
        self.assertEqual((s["there"], s["absent"], s["missing"], "roster" in s), (18, 0, [], False))
        whole = json.loads(self.site.ctl("get", "/tpu/test/roster/s0", "--print-value-only").stdout)
        self.assertEqual([m["host"] for m in whole["roster"]], [f"h{i}" for i in range(18)])
        old = self.leader_of(hosts)
        others = [h for h in hosts if h is not old]
        old.kill()
        for h in others[:3]:
            self.assertEqual(h.misses(old.worker)["host"], old.name)
            self.assertEqual((h.slice()["generation"], h.slice()["there"], h.slice()["absent"]), (2, 17, 1))

    def test_two_hosts_claim_one_id(self):
        hosts = self.fleet()
        second = self.host(1, name="thief", wait=False)
        second.until(lambda: second.state.get("status") == "conflict", "a conflict")
        self.assertIn("h1", second.state["why"])
        self.assertFalse(second.state["may_claim"])
        c = hosts[0].until(lambda: hosts[0].slice().get("conflicts"), "people are told")[0]
        self.assertEqual((c["worker"], c["host"], c["holder"]), (1, "thief", "h1"))
        self.assertEqual(hosts[0].slice()["state"], "ready")  # nobody lost anything
        self.assertEqual(hosts[0].slice()["roster"][1]["host"], "h1")

    def test_what_people_want(self):
        hosts = self.fleet(2)
        hosts[0].put("order/h1", {"v": 1, "cordon": {"reason": "memory", "by": "uid 0", "at": 1, "until": 0}})
        hosts[1].until(lambda: hosts[1].records.get("order/h1"), "the order")
        a = hosts[0].put("intent/job1", {"v": 1, "name": "job1"})
        self.assertNotEqual(a["put"], 0)
        self.assertTrue(a["why"])
        intent = {"name": "job1", "user": "nobody", "framework": "plain", "argv": ["true"], "env": [], "directory": "/",
                  "malloc": "auto", "slices": ["s0"], "min": 1, "max": 1, "restarts": 0, "grace": 1000000, "wait": 60000000,
                  "late": "fail", "preempt": "TERM", "limits": {}, "port": 8476, "by": "uid 0 of h0", "stop": False}
        self.assertEqual(hosts[0].put("intent/job1", intent)["put"], 0)
        for h in hosts:
            waits = h.until(lambda h=h: h.records.get("run/job1", {}).get("waits_for"), "the run waits")
            self.assertIn("cordoned by uid 0: memory", waits[0])
        self.assertEqual(hosts[0].put("order/h1")["put"], 0)
        hosts[1].until(lambda: not hosts[1].records.get("order/h1"), "the order is gone")
        # in step, as hosts are: what is said too early is not heard, and the planner asks for it by waiting
        for state, when in (("prepared", "preparing"), ("running", "running"), ("exited", "running")):
            for h in hosts:
                h.until(lambda h=h, when=when: h.records["run/job1"]["state"] == when, when)
            for h in hosts:
                run = h.records["run/job1"]
                h.tell("say " + json.dumps({"runs": [{"name": "job1", "serial": run["serial"], "generation": run["generation"], "state": state,
                                                      "cause": "success" if state == "exited" else "", "code": "exited", "status": "0", "step": 0,
                                                      "detail": ""}]}))
        for h in hosts:
            h.until(lambda h=h: h.records["run/job1"]["state"] == "ended", "it ended")
            self.assertEqual(h.records["run/job1"]["outcome"], "success")

    @unittest.skipUnless(os.environ.get("FULL"), "with FULL=1")
    def test_compaction_is_no_loss(self):
        hosts = self.fleet(2)
        leader = self.leader_of(hosts)
        leader.process.send_signal(19)  # SIGSTOP: its watch falls behind
        other = next(h for h in hosts if h is not leader)
        for i in range(5):
            other.put("order/h9", {"v": 1, "cordon": {"reason": f"r{i}", "by": "uid 0", "at": 1, "until": 0}})
        revision = json.loads(self.site.ctl("get", "/tpu/test/order/h9", "-w", "json").stdout)["header"]["revision"]
        self.site.ctl("compact", str(revision))
        leader.process.send_signal(18)
        third = self.host(2, hosts=3)
        third.until(lambda: len(third.slice().get("roster", [])) == 3, "the planner goes on")


class Three(Case):
    MEMBERS = 3

    @unittest.skipUnless(os.environ.get("FULL"), "with FULL=1")
    def test_etcds_leader_killed(self):
        hosts = self.fleet()
        generation = hosts[0].slice()["generation"]
        self.site.kill(self.site.leader())
        time.sleep(4)  # longer than a lease
        self._look(hosts)
        self.assertEqual(hosts[0].slice()["generation"], generation, "nobody was lost")
        hosts[2].kill()
        self.host(2)
        hosts[0].ready(generation + 1)

    def test_quorum_lost_and_back(self):
        hosts = self.fleet()
        generation = hosts[0].slice()["generation"]
        for i in (0, 1):
            self.site.kill(i)
        for h in hosts:
            h.until(lambda h=h: h.state["status"] == "away" and not h.state["may_claim"], "it does not claim to be a member")
            self.assertEqual(h.slice()["state"], "ready")  # what was told stays believed
        for i in (0, 1):
            self.site.start(i)
        for h in hosts:
            h.until(lambda h=h: h.state["status"] == "member" and h.state["may_claim"], "it is back")
            h.ready()
        self.assertGreaterEqual(hosts[0].slice()["generation"], generation)


if __name__ == "__main__":
    unittest.main()
