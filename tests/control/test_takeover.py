#!/usr/bin/python3
"""Several collectors over one etcd: one leads; another takes over, whatever became of the first; hosts go
on."""

import os
import signal
import subprocess
import time
import unittest

import control_case
from control_case import BUILD, LEASE, Control, member, until


@unittest.skipIf(control_case.etcd_site.missing(), control_case.etcd_site.missing())
class Takeover(Control):
    COLLECTORS = 2

    def whole(self):
        """Two slices and a run over both."""
        hosts = self.slice("s0", 2) + self.slice("s1", 2)
        for h in hosts:
            self.wait_for(h, f"slice/{h.member['slice']}", state="ready")
        self.want("train", ["s0", "s1"], 2, 2)
        run = self.wait_for(hosts[3], "run/train", state="running")
        until(lambda: all(h.parts.get("train", {}).get("state") == "running" and not h.changed
                          for h in hosts), "all run it")
        return hosts, run

    def unhurt(self, hosts, run):
        """All are with the new leader, and nothing changed."""
        term = self.site.term()
        until(lambda: all(max(h.terms.values()) == term for h in hosts),
              lambda: [(h.terms, h.error) for h in hosts])
        time.sleep(LEASE * 1.5)  # nobody is missed when the new leader's first lease is over
        for h in hosts:
            self.assertEqual(h.records["run/train"]["generation"], run["generation"])
            self.assertEqual(h.records["run/train"]["state"], "running")
            self.assertEqual(h.parts["train"]["state"], "running")
            self.assertEqual(h.records[f"slice/{h.member['slice']}"]["state"], "ready")

    def test_one_leads_and_the_other_says_so(self):
        leader = self.leader()
        other = self.collectors[1 - self.collectors.index(leader)]
        until(lambda: self.sync(member(), other)[0] == 421, "the other knows who leads")
        self.assertEqual(self.sync(member(), other)[1]["leader"], leader.agents_url)
        r = other.get("/api/v1/runs?a=b%20c")
        self.assertEqual((r.status, r.getheader("Location")),
                         (307, leader.people_url + "/api/v1/runs?a=b%20c"))
        r = other.get("/api/v1/slices/s0/slots/1", "DELETE")
        self.assertEqual((r.status, r.getheader("Location")),
                         (307, leader.people_url + "/api/v1/slices/s0/slots/1"))
        self.assertEqual(other.get("/api/v1/events").status, 200)
        status, answer = self.sync(member(), leader)
        self.assertEqual(status, 200)
        self.assertEqual(answer["term"], self.site.term())
        self.assertTrue(answer["store"].isdigit())
        self.assertEqual(self.sync({**member(), "tenant": "red"}, leader)[0], 404)
        self.assertIn('"red"', self.sync({**member(), "tenant": "red"}, leader)[1]["error"])
        self.assertIn('"default"', self.sync({**member(), "tenant": "red"}, leader)[1]["error"])

    def test_tpuctl_is_sent_on(self):
        host = self.host("s0", 0, 1)
        self.wait_for(host, "slice/s0", state="ready")
        other = next(c for c in self.collectors if not self.leads(c))
        until(lambda: self.sync(member(), other)[0] == 421, "the other knows who leads")

        def ctl(*words):
            p = subprocess.run([os.path.join(BUILD, "agent/ctl/tpuctl"), "fleet", *words, "--collector",
                                other.people_url], capture_output=True, text=True,
                               timeout=60, check=False)
            self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
            return p.stdout
        self.assertIn("ready", ctl("slices"))
        ctl("cordon", "s0-0", "bad", "cable")
        until(lambda: (host.records.get("order/s0-0") or {}).get("cordon", {}).get("reason") == "bad cable",
              "it is told")

    def test_killed_leader(self):
        hosts, run = self.whole()
        term, old = self.site.term(), self.leader()
        old.stop(signal.SIGKILL)
        until(lambda: self.leader(), "another leads")
        self.unhurt(hosts, run)
        self.assertGreater(self.site.term(), term)
        self.again(self.collectors.index(old))
        until(lambda: self.sync(member(), self.collectors[self.collectors.index(self.leader()) - 1])[0]
              == 421, "who comes back follows")

    def test_leader_that_is_stopped_hands_over_at_once(self):
        hosts, run = self.whole()
        old = self.leader()
        began = time.monotonic()
        self.assertEqual(old.stop(signal.SIGTERM), 0)
        until(lambda: self.leader(), "another leads")
        print(f"handed over in {time.monotonic() - began:.2f} s")
        self.assertNotIn("could not be renewed", old.said)
        self.unhurt(hosts, run)

    def test_paused_leader_is_deposed(self):
        hosts, run = self.whole()
        old = self.leader()
        term = self.site.term()
        old.process.send_signal(signal.SIGSTOP)
        until(lambda: self.leader(but=old), "another leads")
        self.unhurt(hosts, run)
        revision = self.site.revision()
        old.process.send_signal(signal.SIGCONT)
        status, answer = self.sync(member(slice="s9"), old)
        self.assertIn(status, (421, 503), answer)
        until(lambda: self.sync(member(slice="s9"), old)[0] == 421, "it follows")
        self.assertFalse(self.leads(old))
        for h in hosts:
            self.assertEqual(h.refused_terms, 0)
            self.assertGreater(min(h.terms.values()), term)
        self.assertEqual([k for k, v in self.site.changed_since(revision).items() if v.get("term") == term],
                         [])


@unittest.skipIf(control_case.etcd_site.missing(), control_case.etcd_site.missing())
class ThreeMembers(Takeover):
    MEMBERS, TLS, AUTH = 3, True, True

    def test_etcd_leader_killed(self):
        hosts, run = self.whole()
        self.site.kill(self.site.leader())
        host = self.host("s2", 0, 1)
        self.wait_for(host, "slice/s2", state="ready")
        for h in hosts:
            self.assertEqual(h.records["run/train"]["generation"], run["generation"])

    def test_quorum_lost_and_back(self):
        hosts, run = self.whole()
        for i in (0, 1):
            self.site.kill(i)
        until(lambda: not self.leader(), "nobody leads")
        until(lambda: all(h.statuses[-1] == 503 for h in hosts if h.statuses),
              lambda: [h.statuses[-3:] for h in hosts])
        for i in (0, 1):
            self.site.start(i)
        until(lambda: self.leader(), "one leads again")
        self.unhurt(hosts, run)


if __name__ == "__main__":
    unittest.main()
