"""From a suspicion to the verdict: simulated hosts that the registry asks for their stacks, and a real
tpu-collectord. BUILD_DIR names the build."""

import json
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import collector_case
import capture_wire  # whose folder is known by now
from openapi import OpenApi
from registry_hosts import Host, until

BUILD = Path(os.environ.get("BUILD_DIR", "build/dev")).absolute()
TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "contrib/python"))
import tpuhost  # noqa: E402
FULL = os.environ.get("FULL") == "1"
C10D = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
MAIN = [{"file": "train.py", "line": 80, "function": "step"},
        {"file": "train.py", "line": 120, "function": "main"}]
WAITS = {"state": "S", "wait": "futex_wait_queue",
         "frames": [{"file": C10D, "line": 2050, "function": "all_reduce"}] + MAIN}
READS = {"state": "S", "wait": "pipe_read", "syscall": "read",
         "frames": [{"file": "dataset.py", "line": 88, "function": "next_batch"}] + MAIN}


def stacks(thread, step=7):
    return {"step": step, "processes": [{"pid": 4700, "command": "python3 train.py",
                                         "threads": [thread | {"tid": 4700, "name": "python3"}]}]}


class Captured(Host):
    """A host that answers requests for its stacks; what(round) gives them, None: it stays silent."""

    suspicion = "stall"  # what its agent thinks of its own run

    def __init__(self, collector, slice_name, worker, hosts, what, **more):
        self.what, self.done, self.sent = what, set(), []
        super().__init__(collector, slice_name, worker, hosts, **more)

    def _act(self):
        super()._act()
        for key, r in self.records.items():
            if key.startswith("capture/") and r.get("episode") and r["episode"] not in self.done:
                self.done.add(r["episode"])
                threading.Thread(target=self.capture, args=(r,), daemon=True).start()

    def capture(self, r, between=0.0):
        for k in (0, 1):
            what = self.what(k)
            if what is None:
                continue
            taken = int(time.time() * 1e6)
            self.push(r, k, capture_wire.wire({"episode": r["episode"], "round": k, "wanted": r["at"],
                                               "taken": taken, **what}),
                      suspicion=self.suspicion)
            self.sent.append(time.monotonic())
            time.sleep(between)

    def push(self, r, k, data, status=(200,), **more):
        """Again while the collector does not answer, as agents do."""
        while True:
            try:
                answer = capture_wire.post(self.collector, self.member, r["episode"], r["run"], k, data,
                                           **{"generation": r["generation"], "hosts": r["hosts"],
                                              "slice_hosts": r["slice_hosts"], **more})
            except OSError:
                answer = None
            if answer and answer.status != 503:
                assert answer.status in status, (answer.status, answer.content)
                return answer
            if self.ended.wait(0.2):
                return None


class Diagnosis(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="diagnosis-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.collector = collector_case.Collector(str(self.folder / "c.db"), "--config",
                                                  self.config(20 if FULL else 4))
        self.addCleanup(lambda: self.collector.process.poll() is None and self.collector.stop())
        self.hosts = []
        self.addCleanup(lambda: [h.ended.set() for h in self.hosts])

    def config(self, patience):
        path = self.folder / "collectord.conf"
        path.write_text(f"[Collector]\nCapturePatience={patience}s\n")
        return str(path)

    def host(self, slice_name, worker, hosts, what):
        h = Captured(self.collector, slice_name, worker, hosts, what)
        self.hosts.append(h)
        return h

    def run_(self, slices, name="run1"):
        answer = self.collector.get("/api/v1/runs", "POST",
                                    json.dumps({"name": name, "user": "alice", "argv": ["train"],
                                                "slices": slices, "min": len(slices)}),
                                    {"Content-Type": "application/json"})
        self.assertEqual(answer.status, 201, answer.text)
        until(lambda: all(h.parts.get(name, {}).get("state") == "running" for h in self.hosts),
              "the run runs")

    def restart(self, takes_over=False):
        """Killed, and started again where it was; takes_over: as another collector, that has the records
        of the registry alone."""
        ports = self.collector.otlp, self.collector.api
        self.collector.process.kill()
        self.collector.process.wait(60)
        if takes_over:
            db = sqlite3.connect(self.collector.database)
            with db:
                for table in ("captures", "episodes", "episode_slices"):
                    self.assertGreater(db.execute(f"DELETE FROM {table}").rowcount, 0, table)
            db.close()
        again = collector_case.Collector(self.collector.database, "--config", self.config(5),
                                         "--listen-otlp", f"127.0.0.1:{ports[0]}", "--listen-api",
                                         f"127.0.0.1:{ports[1]}")
        self.addCleanup(lambda: again.process.poll() is None and again.stop())
        for h in self.hosts:
            h.collector = again
        self.collector = again

    def suspect(self, *hosts, on=True, name="run1"):
        for h in hosts:
            h.part(name, suspected=int(time.time() * 1e6) if on else 0,
                   suspicion="no step for 40 s, usually 8 s" if on else "")

    def diagnosis(self, slice_name="s1", query=""):
        return self.collector.get(f"/api/v1/slices/{slice_name}/diagnosis{query}")

    def for_programs(self, **more):
        """The short answer, which is as the file says, and short."""
        answer = tpuhost.Collector(f"http://127.0.0.1:{self.collector.api}").stall("s1", **more)
        self.assertLess(len(json.dumps(answer)), 20000)
        OpenApi(TOP / "docs/openapi-collector.yaml").check(answer, "StallForPrograms")
        return answer

    def diagnosed(self, slice_name="s1", **like):
        def look():
            d = self.diagnosis(slice_name).json
            return d if d and d.get("outcome") and all(d[k] == v for k, v in like.items()) else None
        return until(look, lambda: f"it is diagnosed: {self.diagnosis(slice_name).text[:500]}")

    def events(self, name):
        return [e for e in self.collector.get(f"/api/v1/events?limit=1000&name={name}").json["events"]]

    def slice(self, n, culprit, what=None):
        for w in range(n):
            self.host("s1", w, n, what or (lambda k, w=w: stacks(READS if w == culprit else WAITS)))

    def test_a_save_that_gets_on(self):
        """The first rank alone saves, and no line told it."""
        place = [{"file": "/usr/lib/python3/dist-packages/torch/serialization.py", "line": 440,
                  "function": "save"}] + MAIN
        self.slice(4, 0, lambda k: None)
        for w, h in enumerate(self.hosts):
            h.what = (lambda k: stacks({"state": "R",
                                        "frames": [{"file": "/usr/lib/python3/dist-packages/torch/serialization.py", "line": 660 + k, "function": "_save"}] + place})) \
                if w == 0 else (lambda k: stacks(WAITS))
        self.run_(["s1"])
        self.suspect(self.hosts[1])
        d = self.diagnosed(outcome="named")
        self.assertFalse(d["confirmed"])
        self.assertTrue(d["diagnosis"]["suspects"][0]["saves"] and d["diagnosis"]["suspects"][0]["moved"])
        event = until(lambda: self.events("tpu.run.stall_unconfirmed"), "it is told")[0]
        self.assertEqual((event["host"], event["severity"]), ("s1-0", "INFO"))
        self.assertIn("slow, not stuck: slice s1, worker 0", event["body"])
        self.assertEqual(self.events("tpu.run.stall_confirmed"), [])

    def test_from_suspicion_to_recovery(self):
        self.slice(4, 2)
        self.run_(["s1"])
        self.assertEqual(self.diagnosis().status, 404)
        none = self.for_programs()
        self.assertEqual((none["state"], none["run"], none["next"]),
                         ("none", None, ["tpuctl diagnose s1 --capture"]))
        self.assertEqual(self.diagnosis("s9", "?for=agent").status, 404)
        self.assertEqual(self.diagnosis(query="?for=nobody").status, 400)
        self.suspect(self.hosts[0], self.hosts[3])
        d = self.diagnosed(outcome="named")
        short = self.for_programs()
        self.assertEqual({k: short[k] for k in ("version", "slice", "state", "run", "generation", "episode",
                                                "outcome", "sentence", "asked", "recovered")},
                         {"version": 1, "slice": "s1", "state": "stalled", "run": "run1", "generation": 1,
                          "episode": d["episode"], "outcome": "named", "sentence": d["summary"], "asked": 4,
                          "recovered": None})
        self.assertEqual([(s["host"], s["worker"]) for s in short["suspects"]], [("s1-2", 2)])
        self.assertEqual(short["next"], [f"tpuctl diagnose s1 --episode {d['episode']}",
                                         "tpuctl diagnose s1 --capture", "tpuctl why run1"])
        self.assertIn("slice s1, worker 2 (10.0.1.2) holds the run up: its main thread is in `read` "
                      "under `dataset.py:88 next_batch`, the 3 others wait in all-reduce",
                      d["summary"])
        self.assertEqual((d["run"], d["generation"], d["hosts"], d["answered"], d["suspected"]),
                         ("run1", 1, 4, 4, True))
        self.assertRegex(d["by"], r"^s1-[03] \(10\.0\.1\.[03]\)$")
        self.assertEqual([s["host"] for s in d["diagnosis"]["suspects"]], ["s1-2"])
        self.assertEqual(d["diagnosis"]["tree"]["hosts"], 4)
        self.assertTrue(d["confirmed"])
        event, = self.events("tpu.run.stall_confirmed")
        self.assertEqual((event["host"], event["slice"], event["worker_id"], event["severity"]),
                         ("s1-2", "s1", 2, "ERROR"))
        self.assertTrue(event["body"].startswith("run run1 stalls: slice s1, worker 2 (10.0.1.2)"), event)
        self.assertEqual(self.events("tpu.run.recovered"), [])
        self.restart()
        self.suspect(*self.hosts, on=False)
        until(lambda: self.events("tpu.run.recovered"), "it recovers")
        self.assertTrue(self.diagnosis().json["recovered"])
        self.assertEqual(self.for_programs()["state"], "recovered")
        self.assertEqual(self.for_programs(episode=d["episode"])["recovered"],
                         self.diagnosis().json["recovered"])
        self.assertEqual(self.diagnosis(query="?for=agent&episode=other").status, 404)
        listed = self.collector.get("/api/v1/slices/s1/episodes").json["episodes"]
        self.assertEqual([e["episode"] for e in listed], [d["episode"]])
        self.assertEqual(self.diagnosis(query=f"?episode={d['episode']}").json["summary"], d["summary"])
        self.assertEqual(self.diagnosis(query="?episode=other").status, 404)

    def test_a_pause_that_was_announced(self):
        """Three wait in a barrier while the first saves a checkpoint, as its log has said: it is named,
        but that confirms no stall."""
        self.slice(4, 2)
        self.hosts[2].suspicion = "announced"
        self.run_(["s1"])
        self.suspect(self.hosts[0], self.hosts[3])
        d = self.diagnosed(outcome="named")
        self.assertEqual([s["host"] for s in d["diagnosis"]["suspects"]], ["s1-2"])
        self.assertEqual((d["suspected"], d["confirmed"]), (True, None))
        self.assertEqual(self.events("tpu.run.stall_confirmed"), [])

    def test_all_compile(self):
        """No step, and all hosts wonder: but nobody waits for another."""
        busy = [{"state": "R", "frames": [{"file": "train.py", "line": line, "function": "compile"}] + MAIN}
                for line in (50, 51)]
        self.slice(4, None, lambda k: stacks(busy[k]))
        self.run_(["s1"])
        self.suspect(*self.hosts)
        d = self.diagnosed(outcome="works")
        self.assertIn("nobody waits for another: 4 of 4 ranks do something", d["summary"])
        self.assertEqual(self.events("tpu.run.stall_confirmed"), [])

    def test_ordered_and_no_stall(self):
        """What a person asks for is diagnosed, and confirms nothing: the run makes steps."""
        self.slice(2, None, lambda k: stacks(WAITS, step=7 + k))
        self.run_(["s1"])
        answer = self.collector.get("/api/v1/slices/s1/capture?reason=why%20so%20slow", "POST")
        self.assertEqual((answer.status, answer.json["why"]), (202, "why so slow"), answer.text)
        d = self.diagnosed(outcome="goes_on")
        self.assertEqual((d["episode"], d["suspected"], d["confirmed"]),
                         (answer.json["episode"], False, None))
        again = self.collector.get("/api/v1/slices/s1/capture", "POST")
        self.assertEqual(again.status, 409, again.text)
        self.assertIn(d["episode"], again.json["error"])
        self.assertEqual(self.collector.get("/api/v1/slices/none/capture", "POST").status, 404)
        self.assertEqual(self.collector.get("/api/v1/slices/s1/capture").status, 405)
        acted = [e["body"] for e in self.events("tpu.api.acted")]
        self.assertTrue(any("POST /api/v1/slices/s1/capture: 202" in a and d["episode"] in a for a in acted),
                        acted)
        self.assertTrue(any("POST /api/v1/slices/s1/capture: 409" in a for a in acted), acted)
        self.assertEqual(self.events("tpu.run.stall_confirmed"), [])

    def test_silent_and_hostile(self):
        """One host does not answer; another one sends what is no capture, speaks for others, and too
        often."""
        good = lambda k: stacks(WAITS)
        for w in range(4):
            self.host("s1", w, 4, (lambda k: None) if w in (1, 3) else good)
        self.run_(["s1"])
        self.suspect(self.hosts[0])
        r = until(lambda: self.hosts[3].records.get("capture/s1"), "it is asked for")
        liar = self.hosts[3]
        liar.push(r, 0, b"\x08\x01" + os.urandom(200))
        liar.push(r, 1, capture_wire.wire({**stacks(WAITS), "slice": "s1", "worker": 1, "host": "s1-1",
                                           "episode": r["episode"], "round": 0}))
        post = lambda **more: capture_wire.post(self.collector, {**liar.member, **more}, r["episode"],
                                                "run1", 0, capture_wire.wire(stacks(READS)))
        self.assertEqual(post(host="s1-1").status, 503)  # it is no member by that name, worker id or life
        self.assertEqual(post(worker=1).status, 503)
        self.assertEqual(post(incarnation="0").status, 503)
        self.assertEqual(post(host="../x").status, 400)
        self.assertEqual(post(slice="").status, 400)
        self.assertEqual(liar.push({**r, "episode": "run1-1-7"}, 0, b"x", status=(404,)).status, 404)
        self.assertEqual(self.collector.post("/registry/v1/capture?"
                                             + capture_wire.query(r["episode"], liar.member, "run1", 0),
                                             os.urandom(1024 * 1024 + 1)).status, 413)
        self.assertEqual(self.collector.post("/registry/v1/capture?"
                                             + capture_wire.query(r["episode"], liar.member, "run1", 7),
                                             b"x").status, 400)
        self.assertEqual(liar.push(r, 1, b"again").status, 200)  # one that is there stands
        d = self.diagnosed()
        self.assertEqual(d["outcome"], "named", d["summary"])
        self.assertEqual((d["diagnosis"]["silent"], d["diagnosis"]["hosts"], d["diagnosis"]["unusable"]),
                         (1, 4, 1))
        self.assertEqual((d["diagnosis"]["suspects"][0]["host"], d["diagnosis"]["suspects"][0]["kind"]),
                         ("s1-1", "silent"))
        self.assertIn("worker 1 (10.0.1.1)", d["summary"])
        for k in range(40):
            capture_wire.post(self.collector, liar.member, "", f"x{k}", 0, b"x")
        self.assertEqual(self.collector.sql("SELECT count(*) FROM captures WHERE host = 's1-3'")[0][0], 16)

    def test_two_slices_and_a_restart(self):
        """The collector is killed between the captures and the verdict."""
        gate = threading.Event()
        for s in ("s1", "s2"):
            for w in range(2):
                self.host(s, w, 2, lambda k, s=s,
                          w=w: (k == 0 or gate.wait(60)) and stacks(READS if (s, w) == ("s2", 1) else WAITS))
        self.run_(["s1", "s2"])
        self.suspect(self.hosts[0])
        until(lambda: self.collector.sql("SELECT count(*) FROM captures")[0][0] == 4,
              "the first captures are there")
        self.restart()
        gate.set()
        for s in ("s1", "s2"):
            d = self.diagnosed(s)
            self.assertIn("slice s2, worker 1", d["summary"])
            self.assertEqual(d["answered"], 4)

    def test_another_collector_goes_on(self):
        """It takes over between the two captures: the hosts send theirs again, and the verdict comes; the
        next answers for it without any capture."""
        gate = threading.Event()
        for w in range(3):
            self.host("s1", w, 3, lambda k,
                      w=w: (k == 0 or gate.wait(60)) and stacks(READS if w == 1 else WAITS))
        self.run_(["s1"])
        self.suspect(self.hosts[0])
        until(lambda: self.collector.sql("SELECT count(*) FROM captures")[0][0] == 3,
              "the first captures are there")
        r = self.hosts[0].records["capture/s1"]
        until(lambda: self.collector.sql("SELECT count(*) FROM registry WHERE key = ?",
                                         f"episode/{r['episode']}")[0][0], "it is kept")
        self.restart(takes_over=True)
        for h in self.hosts:
            threading.Thread(target=h.push,
                             args=(r, 0,
                                   capture_wire.wire({"episode": r["episode"], "round": 0,
                                                      **stacks(READS if h is self.hosts[1] else WAITS)})),
                             kwargs={"suspicion": "stall"}, daemon=True).start()
        gate.set()
        d = self.diagnosed(outcome="named")
        self.assertEqual((d["episode"], d["answered"], d["hosts"], d["suspected"], d["by"]),
                         (r["episode"], 3, 3, True, r["by"]))
        self.assertIn("worker 1 (10.0.1.1) holds the run up", d["summary"])
        event, = until(lambda: self.events("tpu.run.stall_confirmed"), "it is told")
        until(lambda: '"outcome":"named"' in self.collector.sql("SELECT value FROM registry WHERE key = ?",
                                                                f"episode/{r['episode']}")[0][0],
              "the verdict is kept")
        self.restart(takes_over=True)
        again = self.diagnosed(outcome="named")
        same = ("episode", "run", "generation", "at", "by", "why", "hosts", "answered", "outcome", "summary",
                "diagnosed", "confirmed", "suspected")
        self.assertEqual({k: again[k] for k in same}, {k: d[k] for k in same})
        self.assertEqual(again["diagnosis"]["suspects"], d["diagnosis"]["suspects"])
        self.assertEqual([e["episode"]
                          for e in self.collector.get("/api/v1/slices/s1/episodes").json["episodes"]],
                         [r["episode"]])
        self.suspect(*self.hosts, on=False)
        until(lambda: self.diagnosis().json["recovered"], "it recovers")
        until(lambda: '"recovered":0' not in self.collector.sql("SELECT value FROM registry WHERE key = ?",
                                                                f"episode/{r['episode']}")[0][0],
              "that is kept")

    def test_hosts_by_themselves(self):
        """No registry asked: what several hosts of a run captured at about the same time is one episode."""
        self.slice(3, None, lambda k: None)
        until(lambda: all(h.records for h in self.hosts), "they are members")
        for w, h in enumerate(self.hosts):
            for k in (0, 1, 1):  # the last is said again
                data = capture_wire.wire({**stacks(READS if w == 1 else WAITS), "round": k})
                self.assertEqual(capture_wire.post(self.collector, h.member, "", "solo", k, data,
                                                   slice_hosts=3).status, 200)
        d = self.diagnosed("s1")
        self.assertIn("slice s1, worker 1", d["summary"])
        self.assertTrue(d["episode"].startswith("own.solo-1-"), d)
        self.assertTrue(d["confirmed"])
        old = capture_wire.post(self.collector, self.hosts[0].member, "", "solo", 0, b"x",
                                taken=int((time.time() - 2 * 86400) * 1e6))
        self.assertEqual(old.status, 404, old.content)

    def test_64_hosts(self):
        """Capture to verdict: from the last capture's arrival on. Printed, not judged."""
        n = 64 if FULL else 16
        self.slice(n, 5)
        self.run_(["s1"])
        self.suspect(*self.hosts)
        d = self.diagnosed(outcome="named")
        took = time.monotonic() - max(t for h in self.hosts for t in h.sent)
        self.assertIn(f"worker 5 (10.0.1.5) holds the run up", d["summary"])
        print(f"{n} hosts: {took:.2f} s from the last capture to the verdict", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
