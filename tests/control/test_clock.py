#!/usr/bin/python3
"""A collector whose real clock is set forward, back, and by decades: leases, runs, orders and what is
stored stay, with either store. BUILD_DIR names the build."""

import os
import signal
import struct
import time
import unittest

import control_case
from control_case import BUILD, LEASE, Control, until

LIBRARY = os.path.join(BUILD, "tests", "libset_clock.so")
DAY = 86400


class Clock(Control):
    STORE = "sqlite"

    def collector(self, i, ports=None, settings=()):
        path = os.path.join(self.dir.name, f"clock{i}")
        if not os.path.exists(path):
            self.set_clock(i, 0)
        os.environ.update(LD_PRELOAD=LIBRARY, SET_CLOCK=path)
        try:
            return super().collector(i, ports, settings)
        finally:
            del os.environ["LD_PRELOAD"], os.environ["SET_CLOCK"]

    def set_clock(self, i, seconds):
        with open(os.path.join(self.dir.name, f"clock{i}"),
                  "r+b" if os.path.exists(os.path.join(self.dir.name, f"clock{i}")) else "wb") as f:
            f.write(struct.pack("=q", seconds))

    def metric(self, c, name):
        return next(float(line.split()[1]) for line in c.get("/metrics").text.splitlines()
                    if line.startswith(name + " "))

    def story(self):
        hosts = self.slice("s0", 2) + self.slice("s1", 2)
        for h in hosts:
            self.wait_for(h, f"slice/{h.member['slice']}", state="ready")
        self.want("train", ["s0", "s1"], 2, 2)
        self.wait_for(hosts[0], "run/train", state="running")
        until(lambda: all(h.parts.get("train", {}).get("state") == "running" and not h.changed
                          for h in hosts), "all run it")
        leader = self.leader()
        self.assertEqual(leader.get("/api/v1/hosts/s0-0/cordon?reason=disk", "PUT").status, 200)
        self.assertEqual(leader.get(f"/api/v1/hosts/s1-1/cordon?reason=fans&until={int(time.time()) + 3600}",
                                    "PUT").status, 200)
        self.stays(hosts)
        return hosts

    def stays(self, hosts):
        """All that was so before the clock was set, for longer than a lease."""
        until(lambda: all((h.records.get(f"order/{h.member['host']}") or {}).get("cordon", {}).get("reason")
                          == reason
                          for h, reason in ((hosts[0], "disk"), (hosts[3], "fans"))),
              lambda: [h.records for h in (hosts[0], hosts[3])])
        end = time.monotonic() + 1.25 * LEASE
        while time.monotonic() < end:
            for h in hosts:
                self.assertEqual((h.records["run/train"]["state"], h.records["run/train"]["generation"]),
                                 ("running", 1))
                self.assertEqual(h.records[f"slice/{h.member['slice']}"]["state"], "ready")
                self.assertEqual(h.parts["train"]["state"], "running")
            self.assertIn("order/s0-0", hosts[0].records)
            self.assertIn("order/s1-1", hosts[3].records)
            time.sleep(0.2)
        leader = self.leader()
        self.assertEqual(self.metric(leader, "tpu_collectord_registry_leases_ended_total"), 0)
        self.assertEqual(self.metric(leader, "tpu_collectord_registry_members"), 4)
        return len(leader.get("/api/v1/events?limit=1000").json["events"])

    def test_set_forward_and_back(self):
        hosts = self.story()
        events = self.stays(hosts)
        for seconds in (DAY, 30 * 365 * DAY, -20 * 365 * DAY, 0):
            with self.subTest(seconds=seconds):
                i = self.collectors.index(self.leader())
                self.set_clock(i, seconds)
                if seconds > DAY:
                    time.sleep(11)  # what is old is removed every 10 s
                self.assertGreaterEqual(self.stays(hosts), events)
                # What is decided now is decided as ever.
                name = f"run{abs(seconds)}"
                self.want(name, ["s0"], 1, 1)
                until(lambda name=name: self.leader().get(f"/api/v1/runs/{name}").json["state"] == "waiting",
                      "another run is taken, and waits for its slice")
                self.assertEqual(self.leader().get(f"/api/v1/runs/{name}", "DELETE").status, 202)

    def test_started_ahead_and_set_right(self):
        """What comes after the clock was set right is as young as it is."""
        hosts = self.story()
        old = self.leader()
        i = self.collectors.index(old)
        old.stop(signal.SIGKILL)
        for k in range(len(self.collectors)):
            self.set_clock(k, 60 * DAY)
        if len(self.collectors) == 1:
            self.again(i)
        leader = until(lambda: self.leader(but=old), "one leads")
        answers = [h.answers for h in hosts]
        until(lambda: all(h.answers > n for h, n in zip(hosts, answers)), "all are there again")
        time.sleep(3)  # what is old was looked for once
        for k in range(len(self.collectors)):
            self.set_clock(k, 0)
        self.assertEqual(leader.get("/api/v1/hosts/s0-1/cordon?reason=fans", "PUT").status, 200)

        def told():
            return [e for e in leader.get("/api/v1/events?limit=1000").json["events"]
                    if "s0-1/cordon" in str(e)]

        until(told, "the call is an event")
        time.sleep(21)  # what is old is removed every 10 s
        self.assertEqual(len(told()), 1)

    def test_started_again_with_another_clock(self):
        hosts = self.story()
        for seconds in (-2 * DAY, -DAY):
            with self.subTest(seconds=seconds):
                old = self.leader()
                i = self.collectors.index(old)
                old.stop(signal.SIGKILL)
                for k in range(len(self.collectors)):
                    self.set_clock(k, seconds)
                if len(self.collectors) == 1:
                    self.again(i)
                until(lambda old=old: self.leader(but=old), "one leads")
                answers = [h.answers for h in hosts]
                until(lambda answers=answers: all(h.answers > n for h, n in zip(hosts, answers)),
                      "all are there again")
                self.stays(hosts)
                if len(self.collectors) > 1:
                    self.again(i)


@unittest.skipIf(control_case.etcd_site.missing(), control_case.etcd_site.missing())
class ClockOverEtcd(Clock):
    STORE, COLLECTORS = "etcd", 2


if __name__ == "__main__":
    unittest.main()
