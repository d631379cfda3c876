"""A host's part in runs over slices: what the registry's records make tpu-hostd ask of tpu-launchd, and
what it says back; with kills in each phase."""

import json
import signal
import socket
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1]),
                str(Path(__file__).parents[1] / "lab")]
from around import free_port, wait_until  # noqa: E402
from launchd_stand_in import EACCES, ESRCH, Runs, text  # noqa: E402
from protobuf import parse  # noqa: E402
from metadata import MetadataServer  # noqa: E402
from state_file import content_of, text_of  # noqa: E402
from test_registry import WithRegistry  # noqa: E402

HOSTS = [{"worker": 0, "host": "h0", "address": ["127.0.0.1"]},
         {"worker": 1, "host": "h1", "address": ["127.0.0.1"]},
         {"worker": 2, "host": "h2", "address": ["127.0.0.1"]},
         {"worker": 3, "host": "h3", "address": ["127.0.0.1"]}]



class Part(WithRegistry):
    def setUp(self):
        self.port = free_port()
        self.r = self.registry()

    def host(self, launchd=True, state=None, **settings):
        h = self.hostd(self.r, start=False, **settings)
        if state:
            h.config.write_text(h.config.read_text().replace("[Health]\n", f"[Health]\nStateFile={state}\n",
                                                             1))
        self.launchd = Runs(h.folder / "launchd.sock")
        self.addCleanup(self.launchd.stop)
        if launchd:
            self.launchd.start()
        return h.start()

    def record(self, state, generation=1, **more):
        intent = {"v": 1, "name": "run1", "serial": "00112233445566aa", "user": "alice",
                  "framework": "plain", "argv": ["python3", "train.py"],
                  "env": ["A=1"], "directory": "/home/alice", "malloc": "auto", "grace": 3000000,
                  "preempt": "TERM",
                  "memlock": "infinity", "nofile": 5000, **more.pop("intent", {})}
        return {"v": 1, "name": "run1", "serial": intent["serial"], "generation": generation, "state": state,
                "since": 0, "why": "", "intent": intent,
                "slices": [{"slice": "s0", "generation": 3, "hosts": HOSTS}], "waits_for": [], "outcome": "",
                "coordinator": {"host": "h0", "address": "127.0.0.1", "port": self.port}, **more}

    def put(self, state, generation=1, **more):
        self.r.put("run/run1", self.record(state, generation, **more))

    def said(self):
        return next((x for x in self.r.members.get("s0/2", {}).get("runs", []) if x["name"] == "run1"), {})

    def until_says(self, state, generation=1):
        wait_until(lambda: (self.said().get("state"), self.said().get("generation")) == (state, generation),
                   60, lambda: f"{state} of {generation}: {self.said()}")
        return self.said()

    def starts(self):
        return [(n, g) for n, g, _ in self.launchd.starts]


class Life(Part):
    def test_a_run_from_preparing_to_its_end(self):
        h = self.host()
        self.put("waiting", 0, slices=[], waits_for=["s0: h5 missing"])
        wait_until(lambda: [r["state"] for r in h.get("/v1/status")["runs"]] == ["waiting"], 60,
                   "it is known")
        self.put("preparing")
        self.until_says("prepared")
        self.assertEqual(self.launchd.starts, [])
        self.put("running")
        self.assertEqual(self.until_says("running")["serial"], "00112233445566aa")
        name, generation, m = self.launchd.starts[0]
        self.assertEqual((name, generation, text(m["spec"], 4), text(m, 3), text(m, 4), text(m, 5)),
                         ("run1", 1, "alice", "00112233445566aa", "s0", "2"))
        self.assertEqual([a.decode() for a in m["spec"][5]], ["python3", "train.py"])
        env = dict(e.decode().split("=", 1) for e in m["spec"][6])
        # tpu-launchd builds the rest, out of the world: its slices, this one's hosts, this host, the
        # coordinator
        self.assertEqual(env, {"A": "1"})
        world = parse(m[7][-1])
        self.assertEqual((world[1], world.get(2), world.get(3, [0]), world[4], world[5], text(world, 6),
                          world[7]),
                         ([b"s0"], [4] if isinstance(world[2][0], int) else [b"\x04"], [0], [2],
                          [b"127.0.0.1"] * 4, "127.0.0.1", [self.port]))
        self.assertEqual((m["spec"][16], text(m["spec"], 7)), ([3000000], "/home/alice"))
        self.launchd.exit("run1", "exit-code", "exited", "3", **{})
        last = self.until_says("exited")
        self.assertEqual((last["cause"], last["code"], last["status"]), ("exit-code", "exited", "3"))
        self.put("stopping", why="h2 ended it")
        wait_until(lambda: h.get("/v1/status")["runs"][0]["state"] == "stopping", 60, "it is known")
        self.put("preparing", 2)
        self.until_says("prepared", 2)
        self.put("running", 2)
        self.until_says("running", 2)
        self.put("ended", 2, outcome="stopped")
        self.until_says("stopped", 2)
        self.assertEqual(self.starts(), [("run1", 1), ("run1", 2)])
        # asked again where the list comes after the answer
        self.assertEqual({g for _, g in self.launchd.stops}, {2})
        events = [(e["body"]["state"], e["body"]["generation"]) for e in h.events("tpu.run.changed")]
        self.assertEqual(events, [("waiting", 0), ("preparing", 1), ("running", 1), ("stopping", 1),
                                  ("preparing", 2), ("running", 2), ("ended", 2)])
        run, = h.get("/v1/status")["runs"]
        self.assertEqual((run["name"], run["state"], run["part"]), ("run1", "ended", "stopped"))

    def test_an_older_generation_is_stopped_before_the_next(self):
        self.host()
        self.put("preparing")
        self.until_says("prepared")
        self.put("running")
        self.until_says("running")
        self.put("preparing", 5, why="h1 was lost")
        self.until_says("prepared", 5)
        self.assertEqual({g for _, g in self.launchd.stops}, {1})
        self.put("running", 3)  # of a registry that went back: refused
        self.put("running", 5)
        self.until_says("running", 5)
        self.assertEqual(self.starts(), [("run1", 1), ("run1", 5)])

    def test_a_host_that_is_not_in_it_stops(self):
        self.host()
        self.put("preparing")
        self.until_says("prepared")
        self.put("running")
        self.until_says("running")
        self.put("running", 2, slices=[{"slice": "s1", "generation": 1, "hosts": HOSTS}])
        self.until_says("stopped", 1)

    def test_local_runs_are_not_touched(self):
        h = self.host()
        self.launchd.runs["run1"] = {1: "run1", 2: "tpu-run-run1.service", 3: "running", 9: "bob", 11: 5,
                                     16: 0}
        self.launchd.tell()
        self.put("ended", 3)
        wait_until(lambda: h.get("/v1/status")["runs"], 60, "the record")
        wait_until(lambda: len(h.get("/v1/runs")["runs"]) == 1, 60, "the run")
        self.assertEqual(self.launchd.stops, [])
        self.assertEqual(self.said(), {})


class Kills(Part):
    def again(self, h):
        h.process.send_signal(signal.SIGKILL)
        h.process.wait(20)
        h.start()

    def test_in_each_phase(self):
        h = self.host()
        self.put("preparing")
        self.until_says("prepared")
        self.r.members.clear()
        self.again(h)
        self.until_says("prepared")
        self.put("running")
        self.until_says("running")
        for _ in range(3):
            self.r.members.clear()
            self.again(h)
            self.member(self.r)  # the first word of the new life
            self.assertEqual((self.said()["state"], self.said()["generation"]), ("running", 1))
        h.process.send_signal(signal.SIGKILL)
        h.process.wait(20)
        self.launchd.exit("run1", "oom-kill", "killed", "KILL")  # while nobody looks
        self.r.members.clear()
        h.start()
        self.member(self.r)
        self.assertEqual((self.said()["state"], self.said()["cause"]), ("exited", "oom-kill"))
        self.assertEqual(self.starts(), [("run1", 1)])
        self.put("preparing", 2)
        self.until_says("prepared", 2)
        self.put("running", 2)
        self.until_says("running", 2)
        self.launchd.stuck = True
        self.put("stopping", 2)
        wait_until(lambda: self.launchd.stops, 60, "the stop")
        self.again(h)
        wait_until(lambda: len(self.launchd.stops) > 1, 60, "it is stopped by the next life")
        self.launchd.exit("run1", "stopped", "killed", "TERM")
        self.until_says("stopped", 2)

    def test_prepared_is_kept(self):
        """The others begin while the agent of this host is dead: it begins the same generation, which it
        had prepared; of another boot it does not."""
        with tempfile.TemporaryDirectory() as folder:
            h = self.host(state=f"{folder}/health.json")
            kept = Path(folder) / "prepared.json"
            self.put("preparing")
            self.until_says("prepared")
            wait_until(lambda: kept.exists() and json.loads(content_of(kept))["parts"], 60, "it is kept")
            checks = len(self.launchd.checks)
            h.process.send_signal(signal.SIGKILL)
            h.process.wait(20)
            self.put("running")
            h.start()
            self.until_says("running")
            self.assertEqual((self.starts(), len(self.launchd.checks)), ([("run1", 1)], checks))
            self.put("preparing", 2)
            self.until_says("prepared", 2)
            wait_until(lambda: json.loads(content_of(kept))["parts"][0]["generation"] == 2, 60,
                       "the next is kept")
            h.process.send_signal(signal.SIGKILL)
            h.process.wait(20)
            kept.write_text(text_of("prepared",
                                    content_of(kept).replace(json.loads(content_of(kept))["boot_id"],
                                                             "0" * 32)))
            self.put("running", 2)
            self.r.members.clear()
            h.start()
            self.member(self.r)
            self.assertEqual(self.starts(), [("run1", 1)])

    def test_registry_away_changes_nothing(self):
        h = self.host()
        self.put("preparing")
        self.until_says("prepared")
        self.put("running")
        self.until_says("running")
        self.r.stop()
        self.until(h, "away")
        self.again(h)
        wait_until(lambda: h.get("/v1/runs")["runs"], 60, "the run is seen")
        self.launchd.exit("run1")
        wait_until(lambda: h.get("/v1/status")["runs"][0]["part"] == "exited", 60, "its end is seen")
        self.assertEqual((self.launchd.stops, self.starts()), ([], [("run1", 1)]))
        self.r.members.clear()
        self.r.start()
        self.assertEqual(self.until_says("exited")["cause"], "success")

    def test_launchd_answers_late(self):
        """A busy host's tpu-launchd takes longer than the interval at which it is asked: it is heard all
        the same."""
        h = self.host(launchd=False)
        self.launchd.late = 1  # MetricsInterval is 300 ms
        self.launchd.start()
        self.put("preparing")
        self.until_says("prepared")
        self.put("running")
        self.until_says("running")
        self.assertEqual(len(h.get("/v1/runs")["runs"]), 1)
        self.assertEqual(self.starts(), [("run1", 1)])

    def test_launchd_away(self):
        h = self.host()
        self.put("preparing")
        self.until_says("prepared")
        self.launchd.stop()
        self.put("running")
        wait_until(lambda: "tpu-launchd does not answer" in h.get("/v1/status")["runs"][0]["detail"], 60,
                   "it is said")
        self.launchd.start()
        self.until_says("running")
        self.launchd.stop()
        self.r.put("slice/s0", None)
        wait_until(lambda: h.get("/v1/runs")["runs"] is None, 60, "launchd is gone")
        self.assertEqual(self.said()["state"], "running")  # what was known stays believed
        self.launchd.runs.clear()  # as after a boot
        self.launchd.start()
        self.assertEqual(self.until_says("exited")["cause"], "unknown")


class Preflight(Part):
    def refused(self, h, *words):
        s = self.until_says("refused")
        for w in words:
            self.assertIn(w, s["detail"])
        self.assertIn("\n", s["detail"])  # and the remedy
        e, = h.events("tpu.run.refused")
        self.assertEqual((e["body"]["run"], e["body"]["generation"]), ("run1", 1))
        self.assertTrue(e["body"]["remedy"])
        self.assertEqual(self.launchd.starts, [])

    def test_launchd_would_refuse(self):
        h = self.host(launchd=True)
        self.launchd.refuse_check = (EACCES, "requests that come through tpu-hostd may not start runs on "
                                             "this host", "echo 'remote start alice' > …")
        self.put("preparing")
        self.refused(h, "may not start runs", "echo 'remote start alice'")

    def test_refused_for_good(self):
        h = self.host(launchd=True)
        self.launchd.refuse_check = (ESRCH, "user alice is not known on this host", "getent passwd alice")
        self.put("preparing")
        self.refused(h, "user alice is not known on this host\ngetent passwd alice")
        self.assertEqual(self.until_says("refused")["cause"], "not-started")

    def test_image(self):
        """Which one it is here is reported with the readiness, and is what tpu-launchd has to start, also
        when the agent was killed in between."""
        with tempfile.TemporaryDirectory() as folder:
            h = self.host(state=f"{folder}/health.json")
            kept = Path(folder) / "prepared.json"
            self.launchd.image = "0f" * 32
            self.put("preparing", intent={"image": "py:1"})
            self.assertEqual(self.until_says("prepared")["image"], "0f" * 32)
            wait_until(lambda: kept.exists() and json.loads(content_of(kept))["parts"], 60, "it is kept")
            self.assertEqual(json.loads(content_of(kept))["parts"][0]["image"], "0f" * 32)
            h.process.send_signal(signal.SIGKILL)
            h.process.wait(20)
            self.launchd.image = "ee" * 32
            self.put("running", intent={"image": "py:1"})
            h.start()
            self.assertNotIn("image", self.until_says("running"))
            _, _, m = self.launchd.starts[0]
            self.assertEqual((text(m["spec"], 31), text(m, 8)), ("py:1", "0f" * 32))

    def test_refused_at_the_start(self):
        h = self.host()
        self.put("preparing")
        self.until_says("prepared")
        self.launchd.refuse = (EACCES, "not any more", "ask root")
        self.put("running")
        self.refused(h, "not any more\nask root")

    def test_port_is_taken_on_the_coordinator(self):
        with socket.create_server(("0.0.0.0", 0)) as taken:
            self.port = taken.getsockname()[1]
            h = self.host()
            self.put("preparing", coordinator={"host": "h2", "address": "127.0.0.1", "port": self.port})
            self.refused(h, f"port {self.port} of this run's coordinator is taken on h2", "ss -ltnp")

    def test_port_answers_or_refuses_and_is_reachable(self):
        self.host()
        with socket.create_server(("127.0.0.1", 0)) as there:
            self.put("preparing",
                     coordinator={"host": "h0", "address": "127.0.0.1", "port": there.getsockname()[1]})
            self.until_says("prepared")
        self.put("preparing", 2)
        self.until_says("prepared", 2)

    def test_port_is_silent(self):
        with socket.socket() as full:  # a queue that is full drops what comes, as a firewall does
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            fill = []
            for _ in range(4):
                s = socket.socket()
                s.setblocking(False)
                s.connect_ex(("127.0.0.1", port))
                fill.append(s)
            h = self.host()
            self.put("preparing", coordinator={"host": "h0", "address": "127.0.0.1", "port": port})
            self.refused(h, f"port {port} of the coordinator h0 (127.0.0.1) is blocked: no answer to h2 "
                            f"within 3 s", "--port")
            for s in fill:
                s.close()

    def test_no_way_to_a_port(self):
        h = self.host()  # the kernel itself says no: nobody speaks TCP with all
        self.put("preparing",
                 coordinator={"host": "h0", "address": "255.255.255.255", "port": self.port})
        self.refused(h, "the coordinator h0 (255.255.255.255) cannot be reached from h2: ",
                     "ip route get 255.255.255.255")
        found = lambda: next((c for c in h.get("/v1/checks")["checks"] if c["check"] == "preflight.run"), {})
        wait_until(lambda: found().get("verdict") == "WARN", 30, found)
        self.assertIn("cannot be reached from h2", found()["reason"])
        self.put("ended")
        wait_until(lambda: not found(), 30, found)

    def test_this_host(self):
        h = self.host()
        h.call("/v1/cordon?reason=bad+cable", "PUT")
        self.put("preparing")
        self.refused(h, "h2 is cordoned: bad cable", "tpuctl uncordon")

    def test_unlike(self):
        self.r.put("slice/s0", {"v": 1, "slice": "s0", "generation": 3, "state": "ready", "unlike": [
            {"worker": 2, "host": "h2", "part": "libtpu", "found": "0.0.39", "others": "0.0.41"}]})
        h = self.host()
        self.put("preparing")
        self.refused(h, "h2 is unlike the other hosts of slice s0: libtpu 0.0.39, others 0.0.41")

    def test_framework_without_what_it_needs(self):
        h = self.host()
        self.put("preparing", intent={"framework": "caffe"})
        self.refused(h, "framework 'caffe' is not one of plain")

    def test_unknown_warns_and_does_not_refuse(self):
        h = self.host()
        self.launchd.answer, real = lambda kind, m: self.launchd.error(74, "a request of kind 34 cannot be "
                                                                           "understood") if kind == 34 else real(kind, m), self.launchd.answer
        self.put("preparing")
        self.assertIn("full-size packets", self.until_says("prepared")["detail"])
        self.assertEqual(h.events("tpu.run.refused"), [])


class Notice(Part):
    def test_runs_are_told_of_a_preemption(self):
        server = MetadataServer(("127.0.0.1", 0), lambda _: [], name="t1v-n-test-w-0")
        self.addCleanup(server.stop)
        h = self.hostd(self.r, start=False)
        h.config.write_text(h.config.read_text() + f"[Metadata]\nHost={server.address}\n"
                                                   f"Copy={h.folder}/metadata.json\nCopyAfter=300ms\n")
        self.launchd = Runs(h.folder / "launchd.sock").start()
        self.addCleanup(self.launchd.stop)
        h.start()
        self.put("preparing")
        self.until_says("prepared")
        self.put("running")
        self.until_says("running")
        self.launchd.runs["mine"] = {1: "mine", 2: "tpu-run-mine.service", 3: "running", 9: "bob", 11: 5}
        self.launchd.runs["old"] = {1: "old", 2: "tpu-run-old.service", 3: "exited", 4: "success", 9: "bob",
                                    11: 5, 12: 6}
        self.launchd.tell()
        wait_until(lambda: len(h.get("/v1/runs")["runs"]) == 3, 60, "the runs are known")
        began = time.monotonic()
        server.set(preempted=True)
        wait_until(lambda: len(self.launchd.signals) == 2, 60, "they are told")
        print(f"told after {time.monotonic() - began:.2f} s", file=sys.stderr)
        self.assertEqual(sorted(self.launchd.signals),
                         [("mine", 0, "preemption"), ("run1", 1, "preemption")])
        events = wait_until(lambda: len(h.events("tpu.run.notified")) == 2 and h.events("tpu.run.notified"),
                            60, "the events")
        self.assertEqual(events[0]["body"]["result"], "TERM to process 4711")
        wait_until(lambda: self.r.members["s0/2"]["notice"] == "preemption", 60, "the planner knows")


class Orders(Part):
    def test_of_the_registry(self):
        h = self.host()
        self.r.put("order/h2", {"v": 1, "cordon": {"reason": "new cable", "by": "ada", "at": 1, "until": 0}})
        wait_until(lambda: h.get("/v1/status")["cordon"], 60, "the cordon")
        self.assertEqual((h.get("/v1/status")["cordon"]["reason"], h.get("/v1/status")["cordon"]["by"]),
                         ("new cable", "registry (ada)"))
        self.r.put("site/mode",
                   {"v": 1, "mode": "observe", "by": "ada", "reason": "stop all", "at": 1, "until": 0})
        wait_until(lambda: h.get("/v1/status")["mode"] == "observe", 60, "the mode")
        wait_until(lambda: self.r.members["s0/2"]["observe"], 60, "it is said")
        self.r.put("site/mode", {"v": 1, "mode": "repair", "by": "ada", "at": 1, "until": 0})
        wait_until(lambda: h.get("/v1/status")["mode"] == "repair", 60, "the mode")
        h.call("/v1/cordon?reason=mine", "PUT")  # a person's own stands before it
        self.r.put("order/h2", None)
        self.r.put("site/mode", None)
        wait_until(lambda: self.r.members["s0/2"]["orders"] == "cordoned: mine", 60, "it is said")
        self.assertEqual(h.get("/v1/status")["cordon"]["reason"], "mine")


if __name__ == "__main__":
    unittest.main()
