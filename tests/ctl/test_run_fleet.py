#!/usr/bin/python3
"""tpuctl run over slices: the intent that the collector gets, and the barrier as a person sees it."""
import json
import unittest

from ctl_case import Ctl
from stand_ins import field

SLICES = [{"slice": "s0", "hosts": [{"worker": 0, "host": "h0"}, {"worker": 1, "host": "h1"}]},
          {"slice": "s1", "hosts": [{"worker": 0, "host": "h4"}, {"worker": 1, "host": "h5"}]}]
RUN = {"v": 1, "name": "run1", "serial": "b", "generation": 1, "slices": [], "waits_for": [], "why": "",
       "outcome": ""}


class RunFleet(Ctl):
    def with_records(self, *records):
        """A collector that takes the intent and tells these records, the last one for ever."""
        server, url = self.collector()
        left = list(records)
        server.answers[("POST", "/api/v1/runs")] = (200, records[0])
        server.answers[("GET", "/api/v1/runs/run1")] = (200,
                                                        lambda: left.pop(0) if len(left) > 1 else left[0])
        return server, url

    def test_no_runs_yet(self):
        server, url = self.collector()
        server.answers[("GET", "/api/v1/runs")] = (200, {"runs": []})
        self.expect(["runs", "--fleet", "--collector", url], 0, stderr="",
                    stdout="no runs over slices (of one host: tpuctl runs there)\n")
        server.answers[("GET", "/api/v1/slices")] = (200, {"slices": []})
        self.expect(["fleet", "slices", "--collector", url], 0, stderr="",
                    stdout="no slice yet: no host has reported to this registry\n")
        server.answers[("GET", "/api/v1/hosts")] = (200, {"hosts": []})
        for words, said in (([], "no host has reported to this collector yet"),
                            (["--slice", "s0"], "no host of slice s0"),
                            (["--state", "unfit"], "no host is unfit"),
                            (["--slice", "s0", "--state", "unfit"], "no host of slice s0 is unfit")):
            self.expect(["fleet", *words, "--collector", url], 0, stdout=said + "\n", stderr="")

    def test_barrier_until_it_runs(self):
        missing = "s1: h5 (10.0.0.6) missing since 05:00:00Z: its lease ended"
        _, url = self.with_records({**RUN, "state": "waiting", "waits_for": [missing]},
                                   {**RUN, "serial": "a", "state": "ended"},
                                   {**RUN, "state": "waiting", "waits_for": [missing]},
                                   {**RUN, "state": "waiting",
                                    "waits_for": [missing,
                                                  "s0: h1 (10.0.0.2): draining: new \033[31mcable"]},
                                   {**RUN, "state": "preparing", "slices": SLICES},
                                   {**RUN, "state": "running", "slices": SLICES})
        self.expect(["run", "--collector", url, "--name", "run1", "--user", "alice", "--slices", "1:2", "--", "python3", "train.py"], 0, stderr="", stdout=f"""\
run1: handed to {url}
run1: waiting
  run1: {missing}
  run1: s0: h1 (10.0.0.2): draining: new ?[31mcable
run1: preparing, generation 1, on s0, s1 (4 hosts)
run1: running, generation 1, on s0, s1 (4 hosts)
watch: tpuctl runs --fleet --collector {url}
lines: tpuctl logs -f --fleet --collector {url} run1
stop:  tpuctl stop --fleet --collector {url} run1
""")

    def test_who_answered_is_named_and_asked_again(self):
        server, url = self.with_records({**RUN, "state": "waiting"},
                                        {**RUN, "state": "running", "slices": SLICES})
        silent, other = self.collector()
        asked = []

        class Refusing(silent.RequestHandlerClass):
            def do_GET(self):
                asked.append(self.path)
                self.send_error(503)
            do_POST = do_GET

        silent.RequestHandlerClass = Refusing
        done = self.expect(["run", "--collector", f"{other} {url}", "--name", "run1", "--user", "alice",
                            "--slices", "1:2", "--", "x"], 0, stderr="")
        self.assertEqual(done.stdout.splitlines()[0], f"run1: handed to {url}")
        self.assertEqual(asked, ["/api/v1/runs"])  # once: who answered is asked first from then on

    def test_what_the_collector_gets(self):
        server, url = self.with_records({**RUN, "state": "waiting"})
        (self.root / "run.ini").write_text("[Run]\nName=run1\nUser=alice\nOn=s0,s1\nRestarts=2\nEnv=A=1\n"
                                           "Command=python3 'train it.py'\n")
        bodies = []
        Handler = server.RequestHandlerClass

        class Reading(Handler):
            def do_POST(self):
                assert self.headers["Content-Type"] == "application/json"
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer()

        server.RequestHandlerClass = Reading
        self.expect(["run", "--collector", url, "--detach", "-f", self.root / "run.ini"], 0)
        self.expect(["run", "--collector", url, "--detach", "--name=run1", "--user", "alice", "--on=s0,s1",
                     "--restarts=2", "--env", "A=1", "--",
                     "python3", "train it.py"], 0)
        self.assertEqual(bodies[0], bodies[1])
        self.assertEqual(bodies[0], {"v": 1, "name": "run1", "user": "alice",
                                     "argv": ["python3", "train it.py"], "env": ["A=1"],
                                     "slices": ["s0", "s1"], "min": 2, "max": 2, "restarts": 2})

    def test_refusals(self):
        server, url = self.with_records({**RUN, "state": "ended", "outcome": "refused",
                                         "why": "h1 (10.0.0.2) refused: port 8476 is taken"})
        done = self.run_ctl("run", "--collector", url, "--name", "run1", "--user", "alice", "--slices", "1",
                            "--", "x")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]),
                         (1, "run1: ended: refused: h1 (10.0.0.2) refused: port 8476 is taken"))
        server.answers[("POST", "/api/v1/runs")] = (409, {"error": "a run of that name has not ended",
                                                          "remedy": "tpuctl stop run1"})
        done = self.run_ctl("run", "--collector", url, "--name", "run1", "--user", "alice", "--slices", "1",
                            "--", "x")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "tpuctl: a run of that name has not ended\nto do:  tpuctl stop run1\n"))
        for words, why in ((["--slices", "2"], "name is missing"),
                           (["--name", "a", "--slices", "2", "--user", "root"],
                            "nothing that comes by the registry runs as root"),
                           (["--name", "a", "--wait", "3s"], "is for runs over slices"),
                           (["--name", "a", "--slices", "3:1"], "min 3 is above max 1"),
                           (["-f", "/nowhere.ini"], "/nowhere.ini: No such file"),
                           (["--collector", "http://127.0.0.1:1", "--on", "s0", "--name", "a", "--user",
                             "u"], "")):
            with self.subTest(words=words):
                done = self.run_ctl("run", *words, "--", "x")
                self.assertIn(done.returncode, (3, 64) if not why else (64,))
                self.assertIn(why, done.stderr)

    def test_runs_and_stop(self):
        server, url = self.collector()
        intent = {"user": "alice"}
        server.answers[("GET", "/api/v1/runs")] = (200, {"runs": [
            {**RUN, "state": "running", "intent": intent, "slices": SLICES, "generation": 2, "step": 120,
             "why": "h2 was lost"},
            {**RUN, "name": "run2", "state": "waiting", "intent": intent,
             "waits_for": ["s1: h5 (10.0.0.6) missing since 05:00:00Z"]},
            {**RUN, "name": "run3", "state": "ended", "outcome": "failed", "intent": intent,
             "why": "h1 ended it: oom-kill"}]})
        server.answers[("DELETE", "/api/v1/runs/run1")] = (200, {**RUN, "state": "stopping"})
        self.expect(["runs", "--fleet", "--collector", url], 0, stderr="", stdout="""\
NAME  STATE          USER   GENERATION  SINCE  SLICES  HOSTS  STEP  WHY
run1  running        alice  2           -      s0, s1  4      120   h2 was lost
run2  waiting        alice  1           -      -       -      -     -
run3  ended: failed  alice  1           -      -       -      -     h1 ended it: oom-kill

  run2: s1: h5 (10.0.0.6) missing since 05:00:00Z
""")
        server.answers[("GET", "/api/v1/runs")], runs = (200, {"runs": []}), server.answers[
            ("GET", "/api/v1/runs")]
        self.expect(["runs", "--fleet", "--collector", url], 0, stdout="no runs over slices (of one host: tpuctl runs there)\n", stderr="")
        server.answers[("GET", "/api/v1/runs")] = runs
        self.assertEqual(len(json.loads(self.expect(["runs", "--fleet", "--collector", url, "--json"],
                                                    0).stdout)["runs"]), 3)
        r = self.expect(["stop", "run1", "--collector", url], 1, stdout="")
        self.assertIn("to do:  the same with --yes", r.stderr)
        self.assertEqual([s for s in server.seen if s[0] == "DELETE"], [])
        self.expect(["stop", "run1", "--collector", url, "--yes"], 0,
                    stdout="run1 is being stopped on all its hosts (tpuctl runs --fleet)\n")
        self.assertEqual(server.seen[-1], ("DELETE", "/api/v1/runs/run1"))
        launchd = self.launchd()
        part = field(1, "run1") + field(3, "running") + field(16, 2)
        launchd.answers[22] = (23, field(1, part))
        launchd.answers[24] = (25, field(1, "run1"))
        (self.root / "etc/tpu-hostd/tpuctl.conf.d").mkdir()
        (self.root / "etc/tpu-hostd/tpuctl.conf.d/50.conf").write_text(f"[Ctl]\nCollector={url}\n")
        self.expect(["stop", "run1", "--yes"], 0,
                    stdout="run1 is being stopped on all its hosts (tpuctl runs --fleet)\n")
        self.expect(["stop", "run1", "--here"], 0, stdout="run1 stopped\n")


if __name__ == "__main__":
    unittest.main()
