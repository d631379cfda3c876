"""The registry between this version and the first one that had runs over slices, both ways: what that version's agents said to its collector, and were
answered, is a fixture (tests/fixtures/versions/registry-1.json). With FULL=1 and git's history its programs are built and take part."""

import json
import os
import socket
import sys
import tempfile
import threading
import unittest
from pathlib import Path

TOP = Path(__file__).parents[2]
sys.path[:0] = [str(TOP / "tests/hostd"), str(TOP / "tests/collector")]
import around                                              # noqa: E402
import older                                               # noqa: E402
import test_gang                                           # noqa: E402
from around import wait_until                              # noqa: E402
from collector_case import Collector                       # noqa: E402
from launchd_stand_in import Runs                          # noqa: E402
from registry_stand_in import Registry                     # noqa: E402
from test_registry import WithRegistry                     # noqa: E402

OLDER = "c9e3dfc"
EXCHANGES = json.loads((TOP / "tests/fixtures/versions/registry-1.json").read_text())
MEMBERS = [e["request"]["member"] for e in EXCHANGES if "member" in e["request"]]
STATES = [e["answer"]["records"]["run/job1"] for e in EXCHANGES if "run/job1" in e["answer"]["records"]]


def states_of_run():
    """Each record of the run once, as they followed each other."""
    seen = {(r["generation"], r["state"]): r for r in STATES}
    return [seen[key] for key in ((1, "preparing"), (1, "running"), (1, "stopping"), (2, "preparing"), (2, "running"), (2, "ended"))]


class Before(threading.Thread):
    """An agent of before: its own words, but that the run's serial is the one that it is told of."""

    def __init__(self, collector, slice_name):
        super().__init__(daemon=True)
        self.collector, self.slice, self.error, self.records = collector, slice_name, None, {}
        self.said = {tuple((r["generation"], r["state"]) for r in m["runs"]): m for m in MEMBERS if m["slice"] == slice_name}
        self.start()

    def words(self, run, now):
        """What it said when the run was so, and what that came from: ((generation, state), its words)."""
        generation = run["generation"]
        after = {"preparing": ["prepared"], "running": ["running"] if (generation, "running") not in now else ["exited"],
                 "stopping": ["stopped", "exited"], "ended": ["exited"]}[run["state"]]
        return next((((generation, s),) for s in after if ((generation, s),) in self.said), now)

    def run(self):
        try:
            now, revision = (), None
            while self.records.get("run/job1", {}).get("state") != "ended":
                member = json.loads(json.dumps(self.said[now]))
                for r in member["runs"]:
                    r["serial"] = self.records["run/job1"]["serial"]
                answer = self.collector.post("/registry/v1/sync", json.dumps({"v": 1, "member": member, "wait": 1, **({"since": revision} if revision else {})}),
                                             {"Content-Type": "application/json"})
                if answer.status != 200:
                    raise AssertionError(answer.content)
                answer = json.loads(answer.content)
                if answer["tell"]:
                    continue
                revision = answer["revision"]
                self.records = {**({} if answer["whole"] else self.records), **answer["records"]}
                if self.records.get("run/job1"):
                    now = self.words(self.records["run/job1"], now)
        except Exception as e:  # told by whoever waits
            self.error = e


class AgentsOfBefore(unittest.TestCase):
    """They speak to today's collector: a run begins, is begun anew, and ends."""

    def test_run(self):
        with tempfile.TemporaryDirectory(prefix="registry-before-") as folder:
            collector = Collector(os.path.join(folder, "c.db"))
            self.addCleanup(lambda: collector.process.poll() is None and collector.stop())
            agents = [Before(collector, s) for s in ("s0", "s1")]
            body = {"name": "job1", "user": "alice", "argv": ["train"], "slices": [], "min": 2, "max": 2, "restarts": 1}
            self.assertEqual(collector.get("/api/v1/runs", "POST", json.dumps(body), {"Content-Type": "application/json"}).status, 201)
            wait_until(lambda: not any(a.is_alive() for a in agents), 60, lambda: str([(a.error, a.records) for a in agents]))
            self.assertEqual([a.error for a in agents], [None, None])
            run = agents[0].records["run/job1"]
            self.assertEqual((run["generation"], run["outcome"], run["restarts"], [h["generation"] for h in run["history"]]), (2, "success", 1, [1, 2]))
            self.assertEqual(run["step"], 7)
            # What an agent of before reads of it is there, of the same kind.
            before = states_of_run()[-1]
            self.assertEqual({k: type(before[k]) for k in before}, {k: type(run.get(k)) for k in before})
            self.assertEqual(collector.stop(), 0)


class Old(Registry):
    """Answers have what they had before, and no more."""

    def sync(self, request, gone):
        done = super().sync(request, gone)
        if not done or done[0] != 200:
            return done
        answer = {k: done[1][k] for k in EXCHANGES[0]["answer"]}
        if answer["tell"]:
            answer.update(revision="", whole=False, records={})
        return 200, answer


class CollectorOfBefore(WithRegistry):
    """It speaks to today's agent."""

    def test_run(self):
        r = Old(lease=10)
        self.addCleanup(lambda: r.stop())
        r.start()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        h = self.hostd(r, "[Identity]\nHostName=s0-0\nSliceName=s0\nWorkerId=0\nAcceleratorType=v6e-4\nWorkerHostnames=s0-0\n", start=False)
        launchd = Runs(h.folder / "launchd.sock")
        self.addCleanup(launchd.stop)
        launchd.start()
        r.put("slice/s0", EXCHANGES[0]["answer"]["records"]["slice/s0"])
        h.start()
        self.assertEqual(self.until(h, "member")["state"], "member")
        wait_until(lambda: (h.get("/v1/status")["slice"] or {}).get("state") == "ready", 60, "its slice")

        def said():
            runs = self.member(r, "s0/0")["runs"]
            return (runs[0]["generation"], runs[0]["state"]) if runs else None

        def tell(record, wanted):
            r.put("run/job1", json.loads(json.dumps(record).replace(str(record["coordinator"]["port"]), str(port))))
            wait_until(lambda: said() == wanted, 60, lambda: f"{wanted}, not {said()}: {self.member(r, 's0/0')['runs']}")

        first, begun, broken, second, again, ended = states_of_run()
        tell(first, (1, "prepared"))
        tell(begun, (1, "running"))
        self.assertEqual([g for _, g, _ in launchd.starts], [1])
        tell(broken, (1, "stopped"))
        tell(second, (2, "prepared"))
        tell(again, (2, "running"))
        launchd.exit("job1")
        wait_until(lambda: said() == (2, "exited"), 60, lambda: str(said()))
        part = self.member(r, "s0/0")["runs"][0]
        before = next(m["runs"][0] for m in reversed(MEMBERS) if m["slice"] == "s0" and m["runs"])
        self.assertEqual({k: type(before[k]) for k in before}, {k: type(part.get(k)) for k in before})
        self.assertEqual(part["serial"], before["serial"])
        r.put("run/job1", ended)
        wait_until(lambda: next((x["outcome"] for x in h.get("/v1/status")["runs"] if x["name"] == "job1"), None) == "success", 60, "it ended")
        self.assertEqual([g for _, g, _ in launchd.starts], [1, 2])


@unittest.skipUnless(os.environ.get("FULL"), "builds an older version: only with FULL=1")
class Programs(test_gang.Gang):
    """The programs of both versions, in each pairing."""

    def setUp(self):
        self.old, self.new = older.build(OLDER), test_gang.BUILD
        self.addCleanup(setattr, around, "BINARY", around.BINARY)

    def pair(self, agent, collector):
        around.BINARY = agent / "agent/hostd/tpu-hostd"
        test_gang.BUILD = collector
        try:
            super().setUp()
        finally:
            test_gang.BUILD = self.new
        for name in ("s0", "s1"):
            self.host(name, 0)
        for name in self.hosts:
            self.ready(name)
        self.run_over("--slices", "2", "--restarts", "1", "--detach")
        for generation in (1, 2):
            for name in self.hosts:
                self.until_runs(name, generation)
            if generation == 1:
                with self.launchds["s1-0"].lock:  # its last step: it is begun anew at once
                    self.launchds["s1-0"].jobs["job1"].update({24: 1, 25: 7})
                    self.launchds["s1-0"].exit("job1", "exit-code", "exited", "1")
        for name in self.hosts:
            self.launchds[name].exit("job1")
        for name in self.hosts:
            self.ended(name, "success")

    def test_old_agents(self):
        self.pair(self.old, self.new)

    def test_old_collector(self):
        self.pair(self.new, self.old)


if __name__ == "__main__":
    unittest.main()
