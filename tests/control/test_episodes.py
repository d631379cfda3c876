#!/usr/bin/python3
"""An episode outlives who began it: the leader is killed between the two captures, or loses the lead and
gets it back, over a real etcd. BUILD_DIR names the build."""

import signal
import threading
import time
import unittest

import control_case
from control_case import Control, Member, until

import capture_wire

MAIN = [{"file": "train.py", "line": 80, "function": "step"},
        {"file": "train.py", "line": 120, "function": "main"}]
C10D = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
WAITS = {"state": "S", "wait": "futex_wait_queue",
         "frames": [{"file": C10D, "line": 2050, "function": "all_reduce"}] + MAIN}
READS = {"state": "S", "wait": "pipe_read", "syscall": "read",
         "frames": [{"file": "dataset.py", "line": 88, "function": "next_batch"}] + MAIN}


class Captured(Member):
    """A member that answers requests for its stacks as agents do: each is taken once, kept on a shelf,
    and sent to each new leader."""

    def __init__(self, collectors, *args, thread=WAITS, gate=None, **more):
        self.thread_of, self.gate, self.shelf, self.asked, self.arrived = thread, gate, {}, {}, []
        super().__init__(collectors, *args, **more)
        threading.Thread(target=self._send_all, daemon=True).start()

    def _act(self):
        super()._act()
        for key, r in self.records.items():
            if key.startswith("capture/") and r.get("episode") and r["episode"] not in self.asked:
                self.asked[r["episode"]] = r
                threading.Thread(target=self._take, args=(r,), daemon=True).start()

    def _take(self, r):
        for k in (0, 1):
            if k == 1 and self.gate and not self.gate.wait(120):
                return
            self.shelf[r["episode"],
                       k] = capture_wire.wire({"episode": r["episode"], "round": k, "wanted": r["at"],
                                               "taken": int(time.time() * 1e6), "step": 7,
                                                             "processes": [{"pid": 4700,
                                                                            "command": "python3 train.py",
                                                                            "threads": [self.thread_of | {"tid": 4700, "name": "python3"}]}]})

    def _send_all(self):
        done = set()
        while not self.ended.wait(0.05):
            term = max(self.terms.values(), default=None)
            for (episode, k), data in list(self.shelf.items()):
                r = self.asked[episode]
                if term is None or (term, episode,
                                    k) in done or self.records.get("capture/" + self.member["slice"],
                                                                   {}).get("episode") != episode:
                    continue
                try:
                    answer = capture_wire.post(self.collector, self.member, episode, r["run"], k, data,
                                               generation=r["generation"], hosts=r["hosts"],
                                               slice_hosts=r["slice_hosts"], suspicion="stall")
                except OSError:
                    continue
                if answer.status == 200:
                    done.add((term, episode, k))
                    self.arrived.append((term, episode, k))


@unittest.skipIf(control_case.etcd_site.missing(), control_case.etcd_site.missing())
class Episodes(Control):
    MEMBERS, COLLECTORS, PATIENCE = 3, 2, 20

    def collector(self, i, ports=None, settings=()):
        return super().collector(i, ports, [*settings, "[Collector]", f"CapturePatience={self.PATIENCE}s"])

    def suspected(self, silent=0):
        """Two slices with a run that stalls; the first captures are with the leader, the second wait for
        self.gate. silent: so many never take their second."""
        self.gate, never = threading.Event(), threading.Event()
        for i in range(4):
            name, worker = f"s{i // 2}", i % 2
            self.hosts.append(Captured(list(self.collectors), name, worker, 2, thread=READS if i == 2
                                       else WAITS, gate=never if i < silent else self.gate))
        for h in self.hosts:
            self.wait_for(h, f"slice/{h.member['slice']}", state="ready")
        self.want("train", ["s0", "s1"], 2, 2)
        until(lambda: all(h.parts.get("train", {}).get("state") == "running" and not h.changed
                          for h in self.hosts), "all run it")
        self.hosts[0].part("train", suspected=int(time.time() * 1e6),
                           suspicion="no step for 40 s, usually 8 s")
        leader = self.leader()
        until(lambda: leader.sql("SELECT count(*) FROM captures")[0][0] == 4,
              lambda: f"the first captures are there: {[h.arrived for h in self.hosts]}")
        self.episode, = {r["episode"] for h in self.hosts for r in h.asked.values()}
        until(lambda: f"episode/{self.episode}" in self.site.records(), "the episode is a record")
        return leader

    def diagnosed(self, collector):
        def verdict():
            d = collector.get("/api/v1/slices/s1/diagnosis")
            return d.json if d.status == 200 and d.json.get("outcome") else None
        return until(verdict,
                     lambda: f"a verdict: {collector.get('/api/v1/slices/s1/diagnosis').text[:500]}")

    def same_round(self):
        """No host was asked once more, and none for another episode."""
        for h in self.hosts:
            self.assertEqual(list(h.asked), [self.episode])
            self.assertEqual(h.records["run/train"]["generation"], 1)
            self.assertEqual(h.parts["train"]["state"], "running")

    def named(self, d):
        self.assertEqual((d["episode"], d["outcome"], d["answered"], d["hosts"], d["suspected"]),
                         (self.episode, "named", 4, 4, True))
        self.assertIn("slice s1, worker 0 (10.0.1.0) holds the run up", d["summary"])

    def test_leader_killed_between_the_captures(self):
        old = self.suspected()
        i = self.collectors.index(old)
        old.stop(signal.SIGKILL)
        new = until(lambda: self.leader(but=old), "another leads")
        self.assertEqual(new.sql("SELECT count(*) FROM captures WHERE round = 1"), [(0,)])
        self.gate.set()
        d = self.diagnosed(new)
        self.named(d)
        self.same_round()
        term = self.site.term()
        for h in self.hosts:  # from their shelves
            self.assertEqual({a for a in h.arrived if a[0] == term},
                             {(term, self.episode, 0), (term, self.episode, 1)})
        until(lambda: self.site.records(prefix="episode/")[f"episode/{self.episode}"]["outcome"] == "named",
              "the verdict is kept")
        # The first comes back and leads, and knows from the record what it did not see.
        first = self.again(i)
        new.stop(signal.SIGKILL)
        until(lambda: self.leader(but=new), "the first leads again")
        known = self.diagnosed(first)
        self.named(known)
        self.assertEqual((known["diagnosed"], known["summary"], known["confirmed"]),
                         (d["diagnosed"], d["summary"], d["confirmed"]))
        self.same_round()


class TheSameAgain(Episodes):
    """One collector that loses the lead and gets it back: it goes on with what it began itself."""

    COLLECTORS, PATIENCE = 1, 8
    test_leader_killed_between_the_captures = None

    def lose_and_lead(self, leader, meanwhile=lambda: None):
        for i in (0, 1):
            self.site.kill(i)
        until(lambda: not self.leads(leader), "it leads no more")
        meanwhile()
        for i in (0, 1):
            self.site.start(i)
        until(lambda: self.leads(leader), "it leads again")

    def test_lead_lost_while_an_episode_is_open(self):
        leader = self.suspected(silent=1)
        self.gate.set()
        until(lambda: leader.sql("SELECT count(*) FROM captures") == [(7,)], "all that answer have")

        def nothing_is_judged():
            """By who does not lead: another could, and would say something else."""
            time.sleep(self.PATIENCE + 4)
            self.assertEqual(leader.sql("SELECT outcome FROM episodes"), [(None,)])
        self.lose_and_lead(leader, nothing_is_judged)
        self.named(self.diagnosed(leader))
        self.same_round()
        # What is confirmed is over one day, whoever led meanwhile.
        self.lose_and_lead(leader)
        self.hosts[0].part("train", suspected=0, suspicion="")
        until(lambda: leader.get("/api/v1/slices/s1/diagnosis").json["recovered"], "it recovers")
        self.same_round()


if __name__ == "__main__":
    unittest.main()
