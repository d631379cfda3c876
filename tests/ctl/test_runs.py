#!/usr/bin/python3
"""tpuctl run, runs, logs, stop and stack."""
import ctypes
import datetime
import json
import os
import signal
import subprocess
import time
import unittest

from ctl_case import TPUCTL, Ctl, ago
from stand_ins import field, read, strings_of, capture_wire

RUN = {"name": "train", "unit": "tpu-run-train.service", "state": "running", "cause": "", "code": "",
       "status": "", "framework": "jax", "malloc": "tcmalloc",
       "user": "ada", "command": "python3 train.py", "ended": None, "main_pid": 7, "processes": 2,
       "step": 12, "step_seconds": 0.5,
       "goodput": 0.934, "suspicion": "no step for 31 s", "checkpoint": None,
       "spent_seconds": {"step": 5820.0, "start": 31.2, "compile": 41, "checkpoint": 360, "evaluation": 0,
                         "pause": 0, "stall": 0.0, "restart": 12}}

HINTS = """\
watch: tpuctl runs
lines: tpuctl logs -f train
stop:  tpuctl stop train
"""


def spec_of(request):
    """The message in field 1 of a RunRequest: proto/run.proto."""
    return dict((number, value) for number, _, value in read(request))[1]


def launchd_run(name, state, cause, code, status, started, ended):
    texts = (name, f"tpu-run-{name}.service", state, cause, code, status, "jax", "tcmalloc", "ada",
             "python3 train.py")
    return (b"".join(field(i + 1, t) for i, t in enumerate(texts))
            + field(11, started * 1000000) + field(12, ended * 1000000))


class Runs(Ctl):
    def test_runs(self):
        """Runs are launchd's; hostd adds the steps to those that it knows by name and start."""
        started = int(time.time()) - 300
        self.launchd().answers[22] = (23, b"".join(field(1, launchd_run(*j)) for j in (
            ("train", "running", "", "", "", started, 0), ("anew", "running", "", "", "", started, 0),
            ("old", "exited", "signal", "killed", "KILL", started - 9999, started - 17700),
            ("ended", "exited", "stopped", "killed", "TERM", started - 9999, started))))
        text = datetime.datetime.fromtimestamp(started,
                                               datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        self.hostd().answers[("GET", "/v1/runs")] = (200, {"runs": [
            dict(RUN, started=text), dict(RUN, name="anew", started=ago(9999)),
            dict(RUN, name="forgotten", started=text)]})
        self.expect(["runs"], 0, stderr="", stdout="""\
NAME   STATE    USER  FRAMEWORK  SINCE  STEP  PER STEP  GOOD  END           COMMAND
train  running  ada   jax        5 min  12    0.5 s     93 %  -             python3 train.py
anew   running  ada   jax        5 min  -     -         -     -             python3 train.py
old    exited   ada   jax        5 h    -     -         -     signal KILL   python3 train.py
ended  exited   ada   jax        5 min  -     -         -     stopped TERM  python3 train.py
train: may have stalled: no step for 31 s
""")
        self.assertEqual([j["step"] for j in json.loads(self.expect(["runs", "--json"], 0).stdout)["runs"]],
                         [12, None, None, None])

    def test_the_last_checkpoint(self):
        """Within 80 columns, and what is not known is left out."""
        started = int(time.time()) - 9999
        text = datetime.datetime.fromtimestamp(started,
                                               datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        names = ("train", "other", "new")
        self.launchd().answers[22] = (23, b"".join(
            field(1, launchd_run(name, "running", "", "", "", started, 0)) for name in names))
        whole = {"at": ago(270), "step": 41200, "path": "gs://b/run/\x1b41200", "took_seconds": 31.4,
                 "steps_since": 380}
        bare = {"at": ago(7300), "step": None, "path": None, "took_seconds": None, "steps_since": None}
        self.hostd().answers[("GET", "/v1/runs")] = (200, {"runs": [
            dict(RUN, name=name, started=text, suspicion=None, checkpoint=checkpoint)
            for name, checkpoint in zip(names, (whole, bare, None), strict=True)]})
        said = self.expect(["runs"], 0, stderr="").stdout.splitlines()[4:]
        self.assertEqual(said, ["train: checkpoint of step 41200 is 4 min old, took 31.4 s; 380 steps since",
                                "  in gs://b/run/?41200", "other: checkpoint is 2 h old"])
        runs = json.loads(self.expect(["runs", "--json"], 0).stdout)["runs"]
        self.assertEqual([r["checkpoint"] for r in runs], [whole, bare, None])

    def test_where_the_time_went(self):
        started = int(time.time()) - 300
        self.launchd().answers[22] = (23, b"".join(
            field(1, launchd_run(name, "running", "", "", "", started, 0)) for name in ("train", "new")))
        text = datetime.datetime.fromtimestamp(started,
                                               datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        self.hostd().answers[("GET", "/v1/runs")] = (200, {"runs": [dict(RUN, started=text)]})
        self.expect(["runs", "--goodput"], 0, stderr="", stdout="""\
train: 93 % of its time here went into steps
  steps 97 min, start 31 s, compile 41 s, checkpoint 6 min, restart and steps made again 12 s
new: no step of it was read here
""")
        self.assertIn("without --fleet", self.expect(["runs", "--goodput", "--fleet"], 64).stderr)

    def test_runs_tell_what_became_of_it(self):
        started = int(time.time()) - 300
        run = launchd_run("again", "waiting", "exit-code", "exited", "3", started, started)
        self.launchd().answers[22] = (23,
                                      field(1,
                                            run + field(16, 2) + field(20, 1) + field(21, 5)
                                            + field(22, "its log: out of memory")
                                            + field(23, "a smaller batch")))
        self.hostd().answers[("GET", "/v1/runs")] = (200, {"runs": []})
        self.assertEqual(self.expect(["runs"], 0).stdout.splitlines()[1:], [
            "again  waiting  ada   jax        5 min  -     -         -     exit-code 3  python3 train.py",
            "again: generation 2; restarted 1 of 5 times; its log: out of memory",
            "  to do: a smaller batch"])
        self.assertEqual(json.loads(self.expect(["runs", "--json"], 0).stdout)["runs"][0]["restarts_max"], 5)

    def test_logs_of_an_unknown_run(self):
        launchd = self.launchd()
        why = "there is no run 'nothere' on this host; there are: a, b"
        launchd.answers[37] = (1, field(1, 2) + field(2, why) + field(3, "tpuctl runs"))
        self.expect(["logs", "nothere"], 1, stdout="", stderr=f"tpuctl: {why}\nto do:  tpuctl runs\n")
        self.assertEqual(strings_of(launchd.seen[0][1]), [(1, "nothere")])

    def test_logs_page_by_page(self):
        launchd = self.launchd()
        pages = [field(1, "one\n\033[31mtwo\0\n") + field(2, "p1") + field(3, 1),
                 field(1, "three\n") + field(2, "p2")]
        launchd.answers[37] = lambda: (38, pages.pop(0))
        self.expect(["logs", "train"], 0, stdout="one\n?[31mtwo?\nthree\n", stderr="")
        self.assertEqual([dict((n, v) for n, _, v in read(seen)) for _, seen in launchd.seen],
                         [{1: b"train", 2: 1000}, {1: b"train", 2: 1000, 3: b"p1"}])
        for lines, last in (("7", {2: 7}), ("all", {})):
            launchd.answers[37] = (38, field(1, "x\n") + field(2, "p"))
            self.expect(["logs", "train", "-n", lines], 0, stdout="x\n")
            self.assertEqual(dict((n, v) for n, _, v in read(launchd.seen[-1][1])), {1: b"train", **last})
        for lines in ("", "0", "x", "1000001"):
            self.assertIn("--lines is a number from 1 to 1000000 or all",
                          self.expect(["logs", "train", "-n", lines], 64).stderr)

    def test_logs_are_followed_to_the_end_of_the_run(self):
        launchd = self.launchd()
        pages = [field(1, "one\n") + field(2, "p1"), field(2, "p1"), None,
                 field(1, "two\n") + field(2, "p2"), field(2, "p2") + field(4, "exit-code 3")]
        launchd.answers[37] = lambda: (38, pages.pop(0))  # None: the connection ends
        done = self.expect(["logs", "-f", "train"], 0, stdout="one\ntwo\n")
        self.assertRegex(done.stderr, r"\Atpuctl logs: no answer from .*; trying again\n"
                                      r"tpuctl logs: run train has ended: exit-code 3\n\Z")
        waits = [dict((n, v) for n, _, v in read(seen)).get(4, 0) for _, seen in launchd.seen]
        self.assertEqual(waits, [0, 25000000, 25000000, 25000000, 25000000])

    def test_interrupted(self):
        """Ctrl-C says what goes on, and ends tpuctl as it ends any program."""
        launchd = self.launchd()
        launchd.answers[37] = lambda: (38, field(2, "p1") if len(launchd.seen) == 1 else time.sleep(5))
        with subprocess.Popen([TPUCTL, "--root", self.root, "logs", "-f", "train"], stderr=subprocess.PIPE,
                              text=True) as p:
            while len(launchd.seen) < 2:
                time.sleep(0.01)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.stderr.read(),
                             "\ntpuctl logs: run train goes on; end it: tpuctl stop train\n")
        self.assertEqual(p.returncode, -signal.SIGINT)

    def test_runs_without_hostd(self):
        run = b"".join(field(i + 1, v) for i, v in enumerate((
            "train", "tpu-run-train.service", "running", "", "", "", "plain", "glibc", "ada", "sleep 9")))
        self.launchd().answers[22] = (23, field(1, run))
        done = self.expect(["runs"], 0)
        self.assertEqual(done.stdout.splitlines()[1],
                         "train  running  ada   plain      -      -     -         -     -    sleep 9")
        self.assertIn("systemctl status tpu-hostd", done.stderr)

    def test_run(self):
        launchd = self.launchd()
        launchd.answers[20] = (21, field(1, "train") + field(2, "tpu-run-train.service")
                               + field(3, "glibc (tcmalloc is not installed)") +
                               field(4, "X: yours '1' kept, ours would be '2'"))
        self.expect(["run", "--name", "train", "--framework=jax", "--env", "X=1", "--env=Y=a b", "--",
                     "python3", "--env", "t.py"], 0,
                    stdout="train started as tpu-run-train.service, malloc glibc (tcmalloc is not "
                           "installed)\n" + HINTS,
                    stderr="tpuctl run: warning: X: yours '1' kept, ours would be '2'\n")
        self.assertEqual(launchd.seen[0][0], 20)
        self.assertEqual(strings_of(spec_of(launchd.seen[0][1])),
                         [(1, "train"), (2, "jax"), (5, "python3"), (5, "--env"), (5, "t.py"),
                                                          (6, "X=1"), (6, "Y=a b")])

    def test_run_with_step_lines_of_its_own(self):
        launchd = self.launchd()
        launchd.answers[20] = (21, field(1, "train") + field(2, "tpu-run-train.service"))
        self.expect(["run", "--step-regex", "^batch #([0-9]+)", "--", "true"], 0, stderr="")
        self.assertIn((21, "^batch #([0-9]+)"), strings_of(spec_of(launchd.seen[0][1])))
        for bad, why in (("batch", "has no group"), ("(a", "step_regex '(a': "), ("(a)\\1", "refers back"),
                         ("(a{200})", "100 times")):
            self.assertIn(why, self.expect(["run", "--step-regex", bad, "--", "true"], 64).stderr)

    def test_run_with_limits_and_secrets(self):
        launchd = self.launchd()
        launchd.answers[20] = (21, field(1, "train") + field(2, "tpu-run-train.service"))
        key = self.root / "key"
        key.write_text("s3cret=\n")
        self.expect(["run", "--name", "train", "--secret", f"KEY={key}", "--memlock", "1G", "--nofile=7",
                     "--memory-total", "64G", "--memory-high", "1K", "--cpus", "0-3", "--core", "keep",
                     "--devices", "/dev/net/tun", "--share-devices", "--restarts", "2", "--grace", "5s",
                     "--preempt", "USR1", "--", "true"], 0, stderr="")
        request = launchd.seen[0][1]
        for wanted in (field(8, 1 << 30), field(9, 7), field(11, 64 << 30), field(12, 1024),
                       field(13, "0-3"), field(15, "keep"), field(16, 5000000), field(17, 2),
                       field(18, "USR1"), field(19, 1), field(20, "/dev/net/tun")):
            self.assertIn(wanted, spec_of(request))
        self.assertIn(field(6, field(1, "KEY") + field(2, "s3cret=")), request)
        for words, why in ((["--secret", "KEY=/nowhere/key"], "/nowhere/key: No such file"),
                           (["--secret", "KEY"], "NAME=FILE"),
                           (["--memlock", "much"], "memlock 'much' is not"),
                           (["--memory-high", "0"], "memory_high '0' is not"),
                           (["--core", "all"], "core 'all' is not one of none, keep"),
                           (["--nofile", "0"], "nofile '0' is not"),
                           (["--slices", "2", "--secret", f"KEY={key}"], "every host reads an intent")):
            self.assertIn(why, self.expect(["run", "--name", "train", *words, "--", "true"], 64,
                                           stdout="").stderr)
        self.assertEqual(len(launchd.seen), 1)

    def test_a_run_gets_what_env_shows(self):
        """One identity: the static file, and what the metadata server answered, also where only tpu-hostd
        may read that."""
        launchd = self.launchd()
        launchd.answers[20] = (21, field(1, "train") + field(2, "tpu-run-train.service"))
        shown = json.loads(self.expect(["identity", "--json"], 0).stdout)["identity"]
        self.expect(["run", "--", "true"], 0, stderr="")
        world = dict((number, value) for number, _, value in read(launchd.seen[0][1]))[7]
        facts = [dict((n, v.decode()) for n, _, v in read(fact)) for number, _,
                 fact in read(world) if number == 9]
        self.assertIn({1: "worker-id", 2: "0", 3: shown["worker-id"]["origin"]}, facts)
        for fact in facts:
            self.assertEqual({"value": fact[2], "origin": fact[3]}, shown[fact[1]])

    def test_env_of_a_run(self):
        launchd = self.launchd()
        launchd.answers[35] = (36, field(1, "train") + field(2, 3) + field(3, "A=b c")
                               + field(3, "PATH=/bin") + field(4, "MY_TOKEN"))
        self.expect(["env", "train"], 0, stdout="A='b c'\nPATH=/bin\n",
                    stderr="tpuctl env: not shown, for its name is a secret's: MY_TOKEN\n")
        self.assertEqual(strings_of(launchd.seen[0][1]), [(1, "train")])
        self.assertEqual(json.loads(self.expect(["env", "train", "--json"], 0).stdout),
                         {"name": "train", "environment": ["A=b c", "PATH=/bin"]})
        launchd.answers[35] = (1,
                               field(1, 13) + field(2, "user eve may not see the environment of run train")
                               + field(3, "as root, or as the user of the run"))
        self.expect(["env", "train"], 1, stdout="", stderr="tpuctl: user eve may not see the environment of "
                                                           "run train\nto do:  as root, or as the user of "
                                                           "the run\n")
        self.assertIn("No", self.expect(["env", "NoName"], 64, stdout="").stderr)

    def test_refused(self):
        self.launchd().answers[20] = (1, field(1, 1) + field(2, "you may not start runs")
                                      + field(3, "ask to be in the group tpu-run"))
        self.expect(["run", "true"], 1, stdout="",
                    stderr="tpuctl: you may not start runs\nto do:  ask to be in the group tpu-run\n")

    def test_garbled(self):
        launchd = self.launchd()
        for answer in ((21, b"\xff\xff\xff"), (27, b""), (1, b"\xff")):
            launchd.answers[20] = answer
            self.assertIn("cannot be understood", self.expect(["run", "true"], 1, stdout="").stderr)

    def test_a_refusal_of_two_lines_stays_one(self):
        self.launchd().answers[24] = (1, field(1, 1) + field(2, "one\ntwo\n") + field(3, "see: tpuctl runs"))
        self.expect(["stop", "a"], 1, stdout="", stderr="tpuctl: one; two\nto do:  see: tpuctl runs\n")

    def test_stop(self):
        launchd = self.launchd()
        launchd.answers[24] = (25, field(1, "train"))
        self.expect(["stop", "train"], 0, stdout="train stopped\n", stderr="")
        self.assertEqual(strings_of(launchd.seen[0][1]), [(1, "train")])

    def test_no_launchd(self):
        for args in (["run", "true"], ["stop", "a"], ["runs"], ["stack", "a"]):
            self.assertIn("to do:  systemctl status tpu-launchd", self.expect(args, 3, stdout="").stderr)

    def test_where_it_cannot_be(self):
        (self.root / "run/secrets/kubernetes.io").mkdir(parents=True)
        said = self.expect(["run", "true"], 3, stdout="").stderr
        self.assertIn("this is a Kubernetes pod", said)
        self.assertIn("to do:  kubectl get jobsets,pods", said)
        (self.root / "run/secrets/kubernetes.io").rmdir()
        (self.root / "etc/os-release").write_text('NAME="Container-Optimized OS"\nID=cos\nVERSION=117\n')
        self.assertIn("this is Container-Optimized OS", self.expect(["runs"], 3, stdout="").stderr)

    def test_stack(self):
        hostd = self.hostd()
        hostd.answers[("POST", "/v1/runs/train/capture")] = (200,
                                                             {"name": "train",
                                                              "taken": "2026-11-21T05:00:00.000Z",
                                                              "processes": 1, "threads": 2,
                                                                 "text": "Thread 1\n  train_step "
                                                                         "(train.py:7)\n",
                                                              "record": {"spool": "ab", "class": "events",
                                                                         "seq": 9}})
        self.expect(["stack", "train"], 0, stderr="",
                    stdout="run train: 1 process, 2 threads, taken 2026-11-21T05:00:00.000Z\n"
                    "record ab/events/9 is durable and goes to the collector\n\nThread 1\n  train_step "
                    "(train.py:7)\n")
        hostd.answers[("POST", "/v1/runs/train/capture")] = (404, {"error": "there is no run 'train'",
                                                                   "remedy": "tpuctl runs"})
        self.expect(["stack", "train"], 1, stdout="",
                    stderr="tpuctl: there is no run 'train'\nto do:  tpuctl runs\n")

    def test_stack_without_hostd(self):
        self.launchd().answers[26] = (27, field(1, "train") + field(3, 1763701200000000)
                                      + field(6, capture_wire.packed(capture_wire.of_text("Thread 1"))))
        done = self.expect(["stack", "train"], 0, stdout="run train: 1 process, 0 threads, taken "
                                                         "2025-11-21T05:00:00.000Z\n\nprocess 1 Thread 1 "
                                                         "(CPython 3.11.2)\n")
        self.assertIn("NOT sent", done.stderr)


if __name__ == "__main__":
    unittest.main()
