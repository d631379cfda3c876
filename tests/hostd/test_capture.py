"""Captures end to end but for processes: a real tpu-collectord, real tpu-hostd as the hosts of a run,
stand-ins for tpu-launchd with their stacks, tpuctl."""

import json
import os
import subprocess
import sys
import time
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from api_clients import Site  # noqa: E402
from around import free_port, wait_until  # noqa: E402,F401
from test_gang import BUILD, Gang  # noqa: E402

JOURNAL_WRITER = os.environ.get("JOURNAL_WRITER", "/lib/systemd/systemd-journal-remote")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
MAIN = [{"file": "/srv/train.py", "line": 80, "function": "step"},
        {"file": "/srv/train.py", "line": 120, "function": "main"}]
WAITS = {"state": "S", "wait": "futex_wait_queue",
         "frames": [{"file": "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py",
                     "line": 2050,
                                                              "function": "all_reduce"}] + MAIN}
READS = {"state": "S", "wait": "pipe_read", "syscall": "read", "frames": [
    {"kind": "kernel", "function": "pipe_read", "offset": 870},
    {"kind": "native", "function": "read", "offset": 76, "module": "/usr/lib/libc.so.6", "address": 5},
    {"kind": "native", "function": "_Py_read", "offset": 1, "module": "/usr/bin/python3.11", "address": 9},
    {"file": "/srv/dataset.py", "line": 88, "function": "next_batch"}] + MAIN,
         "native": {"merged": True, "cut": False, "pause_ns": 0}}
SHELL = {"pid": 4700, "command": "bash run.sh", "no_python": "it has no interpreter", "other_threads": 1,
         "threads": [
    {"tid": 4700, "name": "bash", "state": "S",
     "frames": [{"kind": "native", "function": "wait4", "module": "/usr/lib/libc.so.6", "address": 1}]}]}


def stacks(thread):
    return {"version": 1, "cut": False,
            "processes": [SHELL, {"pid": 4711, "command": "python3 train.py", "python": "3.11.2",
                                  "other_threads": 0, "threads": [
        {"tid": 4711, "name": "python3", "interpreter": 0, "gil": False, "changed": False,
         "frames_cut": False, **thread}]}]}


class Capturing(Gang):
    """Hosts whose stand-ins for tpu-launchd have stacks."""

    def host(self, slice_name, worker, hosts=1, start=True, machine=None, thread=WAITS):
        h = super().host(slice_name, worker, hosts, start=False, machine=machine)
        h.config.write_text(h.config.read_text().replace("Endpoint=\n",
                                                         f"Endpoint={self.collector.agents}\n", 1))
        self.launchds[machine or f"{slice_name}-{worker}"].stacks = lambda name: stacks(thread)
        return h.start() if start else h

    def api(self, path, method="GET"):
        request = urllib.request.Request(self.collector.people + path, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as r:
                return json.loads(r.read())
        except urllib.error.HTTPError as e:
            return json.loads(e.read()) | {"status": e.code}

    def diagnosed(self, slice_name="s0"):
        wait_until(lambda: self.api(f"/api/v1/slices/{slice_name}/diagnosis").get("outcome"), 90,
                   lambda: f"a verdict: {self.api(f'/api/v1/slices/{slice_name}/diagnosis')}")
        return self.api(f"/api/v1/slices/{slice_name}/diagnosis")

    @staticmethod
    def threads(h, state):
        """The control group of the run, with one thread that neither runs nor is ever woken: nothing here
        changes."""
        group = h.root / "sys/fs/cgroup/tpu.slice/tpu-run.slice/tpu-run-run1.slice"
        group.mkdir(parents=True)
        (h.root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu io memory pids\n")
        (group / "cgroup.threads").write_text("4711\n")
        (h.root / "proc/4711").mkdir()
        (h.root / "proc/4711/schedstat").write_text("7000 9000 3\n")
        (h.root / "proc/4711/stat").write_text(f"4711 (python3) {state} 1 4711 4711 0 -1 0 0 0 0 0 0 0 0 0 "
                                               f"20 0 1 0 1 0 0\n")

    def three_hosts(self):
        for s in ("s0", "s1", "s2"):
            h = self.host(s, 0, start=False, thread=READS if s == "s1" else WAITS)
            self.threads(h, "R" if s == "s1" else "S")
            h.start()
        for name in self.hosts:
            self.ready(name)
        self.run_over("--slices", "3")
        for name in self.hosts:
            self.until_runs(name, 1)

    def kept(self, name):
        return sorted(p.name for p in (self.hosts[name].folder / "captures").glob("*"))


class Capture(Capturing):
    def test_order_to_verdict(self):
        self.three_hosts()
        none = self.tpuctl("diagnose", "s0", "--collector", self.collector.people, check=None)
        self.assertIn("no stacks of this slice were asked for yet", none.stderr)
        asked = self.api("/api/v1/slices/s0/capture?reason=slow", "POST")
        self.assertIn("episode", asked, asked)
        d = self.diagnosed()
        self.assertEqual((d["episode"], d["run"], d["answered"], d["outcome"]),
                         (asked["episode"], "run1", 3, "named"))
        self.assertIn("slice s1, worker 0 (127.0.0.1) holds the run up: its main thread is in `read` "
                      "under `dataset.py:88 next_batch`, the 2 others wait in all-reduce",
                      d["summary"])
        self.assertEqual(d["diagnosis"]["ranks"], 3)  # the shell is none
        self.assertRegex("\n".join(d["diagnosis"]["suspects"][0]["details"]),
                         r"also: its check sched of run1 fails: 1 of its threads \(python3\) wanted a CPU "
                         r"and got next to none all of \d+ s")
        for name in self.hosts:
            self.assertEqual([(n, f) for n, f in self.launchds[name].captures], [("run1", 1)] * 2)
            self.assertEqual(len(self.kept(name)), 2)
            self.assertTrue(all(k.endswith(f"-{asked['episode']}.capture") for k in self.kept(name)),
                            self.kept(name))
            events = [e for e in self.hosts[name].get("/v1/events")["events"]
                      if e["name"] == "tpu.run.captured"]
            self.assertEqual([(e["body"]["round"], e["body"]["episode"], "capture" in e["body"])
                              for e in events], [(0, asked["episode"], False), (1, asked["episode"], False)])
        said = wait_until(lambda: [e
                                   for e in self.api("/api/v1/events?limit=1000&name=tpu.run.captured&host=s1-0")["events"]], 60, "the copy for exporters")[0]["body"]
        self.assertEqual({k: said[k] for k in ("verb", "node", "slice", "worker")},
                         {"verb": "stacktraceanalyzer", "node": "s1-0", "slice": "s1", "worker": "0"})
        self.assertIn('  File "/srv/dataset.py", line 88, in next_batch\n', said["text"])
        self.assertNotIn("capture", said)
        folders = [str(h.folder / "captures") for h in self.hosts.values()]
        done = subprocess.run([BUILD / "agent/ctl/tpuctl", "diagnose", "all", "--from", *folders],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("worker 0 (127.0.0.1) holds the run up", done.stdout)
        done = subprocess.run([BUILD / "agent/ctl/tpuctl", "diagnose", "s0", "--collector",
                               self.collector.people], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("slice s1, worker 0 (127.0.0.1) holds the run up: its "
                                               "main thread is in `read` under `dataset.py:88 next_batch`"),
                        done.stdout)
        self.assertRegex(done.stdout,
                         rf"episode {asked['episode']}: run run1, asked for at .* by somebody at "
                         rf"127\.0\.0\.1.* \(slow\); 3 of 3 hosts answered")
        self.assertIn("next_batch (/srv/dataset.py:88)", done.stdout)
        self.assertIn("its check sched of run1 fails: 1 of its threads (python3) wanted a CPU and got "
                      "next to none all of ", done.stdout)
        again = self.tpuctl("diagnose", "s0", "--capture", "--collector", self.collector.people, check=None)
        self.assertEqual(again.returncode, 3, again.stdout + again.stderr)
        self.assertIn("one in 300 s is taken", again.stderr)
        self.assertIn("to do:  tpuctl diagnose s0: without --capture it shows the last round's verdict\n",
                      again.stderr)
        # The same record again, after a restart of an agent, is not answered again.
        h = self.hosts["s1-0"]
        h.stop()
        h.start()
        self.ready("s1-0")
        time.sleep(2)
        self.assertEqual(len(self.launchds["s1-0"].captures), 2)

    def entry(self, name, line, ago):
        """A line of the run in a host's journal, printed so many seconds ago."""
        self.journals[name].stdin.write((f"__REALTIME_TIMESTAMP={time.time_ns() // 1000}\n"
                                         f"__MONOTONIC_TIMESTAMP={int((time.monotonic() - ago) * 1e6)}\n"
                                         f"_BOOT_ID={BOOT_ID}\nSYSLOG_IDENTIFIER=tpu-run\n"
                                         f"_SYSTEMD_UNIT=tpu-run-run1.service\n"
                                         f"_SYSTEMD_INVOCATION_ID={'1' * 32}\nMESSAGE={line}\n\n").encode())
        self.journals[name].stdin.flush()

    @unittest.skipUnless(os.path.exists(JOURNAL_WRITER), "systemd-journal-remote is not installed")
    def test_from_log_lines_to_the_sentence(self):
        """Nobody asks: the hosts see in the run's own lines that no step comes, and the collector says
        who is at fault."""
        self.journals = {}
        for s in ("s0", "s1", "s2"):
            h = self.host(s, 0, start=False, thread=READS if s == "s1" else WAITS)
            journal = h.folder / "journal"
            journal.mkdir()
            h.config.write_text(h.config.read_text().replace("[Hostd]\n", f"[Hostd]\nJournal={journal}\n",
                                                             1))
            writer = subprocess.Popen([JOURNAL_WRITER, "-o", journal / "system.journal", "-"],
                                      stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.addCleanup(lambda w=writer: (w.stdin.close(), w.wait(60)))
            self.journals[f"{s}-0"] = writer
            self.entry(f"{s}-0", "begin", 1000)
            wait_until(lambda j=journal: list(j.glob("*.journal")), 60, "the journal file")
            h.start()
        for name in self.hosts:
            self.ready(name)
        self.run_over("--slices", "3")
        for name in self.hosts:
            self.until_runs(name, 1)
        for name in self.hosts:
            for i in range(30):
                self.entry(name, f"completed step: {i}, seconds: 0.5, TFLOP/s/device: 1.0, Tokens/s/device: "
                                 f"11.5, total_weights: 2, loss: 1.5", 12 + (29 - i) * 2)
        d = self.diagnosed()
        self.assertEqual((d["suspected"], d["outcome"], d["answered"]), (True, "named", 3), d)
        self.assertIn("no step", d["why"])
        self.assertTrue(d["confirmed"], d["summary"])
        events = self.api("/api/v1/events?limit=1000&name=tpu.run.stall_confirmed")["events"]
        self.assertEqual([e["host"] for e in events], ["s1-0"])
        self.assertIn("run run1 stalls: slice s1, worker 0 (127.0.0.1) holds the run up: its main "
                      "thread is in `read` under `dataset.py:88 next_batch`", events[0]["body"])
        for name in self.hosts:
            self.entry(name, "completed step: 30, seconds: 0.5, TFLOP/s/device: 1.0, Tokens/s/device: 11.5, "
                             "total_weights: 2, loss: 1.5", 0)
        wait_until(lambda: self.api("/api/v1/slices/s0/diagnosis")["recovered"], 60, "it is over")

    def test_from_agents(self):
        """No collector is asked: tpuctl asks the agents of the slice itself, its own by the socket, the
        others by mutual TLS; one has lost its power."""
        site = Site(self.folder / "site")
        address = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        for w in range(4):
            h = self.host("s0", w, 4, start=False, thread=READS if w == 2 else WAITS)
            cert = site.authority.issue(f"agent{w}", f"IP:{address}.{w + 2}")
            h.config.write_text(h.config.read_text().replace("Address=127.0.0.1",
                                                             f"Address={address}.{w + 2}") +
                                site.settings(Listen=f"{address}.{w + 2}:9470", Certificate=cert[0],
                                              Key=cert[1]))
            self.launchds[f"s0-{w}"].runs["solo"] = {1: "solo", 2: "tpu-run-solo.service", 3: "running",
                                                     9: "alice", 10: "train", 11: time.time_ns() // 1000,
                                                     13: 4711}
            h.start()
        for name in self.hosts:
            self.ready(name)
            wait_until(lambda name=name: self.hosts[name].get("/v1/status")["live_runs"] == 1, 60,
                       "the run is known")
        lost = self.hosts["s0-3"]
        lost.process.kill()
        lost.process.wait(20)
        root = self.folder / "ctl"
        (root / "run/tpu-hostd").mkdir(parents=True)
        (root / "run/tpu-hostd/api.sock").symlink_to(self.hosts["s0-0"].api)
        (root / "etc/tpu-hostd/tpuctl.conf.d").mkdir(parents=True)
        conf = root / "etc/tpu-hostd/tpuctl.conf.d/10.conf"
        conf.write_text(f"[Ctl]\nAgentCa={site.authority.cert}\n"
                        f"AgentCertificate={site.clients['actor'][0]}\nAgentKey={site.clients['actor'][1]}\n")
        done = self.tpuctl("--root", root, "diagnose", "s0", "--from", "agents", check=None)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith(f"slice s0, worker 2 ({address}.4) holds the run up: "
                                               f"its main thread is in `read` under `dataset.py:88 "
                                               f"next_batch`"), done.stdout)
        self.assertIn("no answer from 1 of 4 hosts: [3]", done.stdout)
        self.assertIn(f"s0-3 ({address}.5) gives no capture: no answer", done.stderr)
        self.assertIn("both captures", done.stdout)
        other = self.tpuctl("--root", root, "diagnose", "s9", "--from", "agents", check=None)
        self.assertIn("knows slice s0, not slice s9", other.stderr)
        conf.write_text(conf.read_text().replace("actor", "reader"))
        # by default the agents, where no collector is configured
        done = self.tpuctl("--root", root, "diagnose", "s0", check=None)
        self.assertIn("s0-1", done.stderr)
        self.assertIn("may read, but not act", done.stderr)
        acted = [e["body"] for e in self.hosts["s0-1"].get("/v1/events")["events"]
                 if e["name"] == "tpu.api.acted"]
        self.assertTrue(any(a["call"] == "POST /v1/captures" and a["result"] == "captured" for a in acted),
                        acted)


del Gang

if __name__ == "__main__":
    unittest.main()
