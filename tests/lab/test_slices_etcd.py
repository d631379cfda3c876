#!/usr/bin/python3
"""A run over two slices with the registry in etcd: three members, one killed, then two, the agent that leads killed; judged by the training's log.

Told in order: each test begins where the one before it ended. Needs root, the packages in build/debs, Debian's etcd-server and etcd-client on this
machine (tools/deps test), and FULL=1.
"""

import json
import shutil
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402
import slices                    # noqa: E402

JOB = "etcd-story"
MEMBERS = range(3)
ADDRESS = "10.10.0.100"  # the collector's machine has the members, too
URLS = [f"http://{ADDRESS}:{23790 + i}" for i in MEMBERS]
PEERS = [f"http://127.0.0.1:{23890 + i}" for i in MEMBERS]
# In memory: an etcd whose disk is slow loses its leader now and then, which these tests do by themselves.
UNIT = """[Service]
ExecStart=/usr/bin/etcd --name m%i --data-dir /dev/shm/etcd-%i --listen-client-urls http://0.0.0.0:2379%i --advertise-client-urls http://{address}:2379%i \
 --listen-peer-urls http://127.0.0.1:2389%i --initial-advertise-peer-urls http://127.0.0.1:2389%i --initial-cluster {cluster} --initial-cluster-state new \
 --auto-compaction-retention=1h --logger zap --log-level error
"""


def setUpModule():
    slices.skip_unless_full(check)
    if not shutil.which("etcd") or not shutil.which("etcdctl"):
        raise unittest.SkipTest("etcd is not installed: tools/deps test")


class Etcd(slices.Case):
    LAB = {"registry": f"Kind=etcd\nEndpoint={','.join(URLS)}"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.site = cls.lab.collector
        for program in ("etcd", "etcdctl"):
            cls.site.write(f"/usr/bin/{program}", Path(shutil.which(program)).read_bytes(), 0o755)
        cluster = ",".join(f"m{i}={url}" for i, url in enumerate(PEERS))
        cls.site.write("/etc/systemd/system/etcd@.service", UNIT.format(address=ADDRESS, cluster=cluster))
        cls.site.sh("systemctl daemon-reload; systemctl start etcd@0 etcd@1 etcd@2")

    # --- etcd ------------------------------------------------------------------------------------------------------

    def ctl(self, *words, check=True):
        return self.site.run(["etcdctl", "--endpoints", ",".join(URLS), *words], check=check, env={"ETCDCTL_API": "3"})

    def leader(self):
        for s in json.loads(self.ctl("endpoint", "status", "-w", "json", check=False).out or "[]"):
            if s["Status"].get("leader") == s["Status"]["header"]["member_id"]:
                return URLS.index(s["Endpoint"])
        return None

    def kill(self, *members):
        for i in members:
            self.site.sh(f"systemctl kill -s KILL etcd@{i}; systemctl stop etcd@{i}")

    def start(self, *members):
        self.site.sh("systemctl start " + " ".join(f"etcd@{i}" for i in members))
        scenario.wait_until(lambda: self.ctl("endpoint", "health", check=False).code == 0, 60, "etcd is healthy")

    def record(self):
        text = self.ctl("get", f"/tpu/default/run/{JOB}", "--print-value-only").out
        return json.loads(text) if text.strip() else {}

    def intend(self, **more):
        """As a control plane hands a run over: its record."""
        command = slices.train_command(JOB)
        argv = command[command.index("--") + 1:]
        env = [command[i + 1] for i, word in enumerate(command) if word == "--env"]
        intent = {"v": 1, "name": JOB, "serial": "00000000000000aa", "user": slices.USER, "framework": "torch", "argv": argv, "env": env,
                  "slices": [], "min": 1, "max": 2, "restarts": 10, "grace": 5000000, "wait": 600000000, "late": "fail", "by": "the test",
                  "at": 1, "stop": False, **more}
        self.ctl("put", f"/tpu/default/intent/{JOB}", json.dumps(intent))

    def wait_record(self, what, condition, timeout=90):
        return scenario.wait_until(lambda: (r := self.record()) and condition(r) and r, timeout, what)

    def pids(self):
        return {h.name: scenario.unit(h, f"tpu-run-{JOB}.service", "MainPID")["MainPID"] for h in self.h}

    def untouched(self, pids, generation):
        """The run goes on as it was: the same processes, no step lost or done twice."""
        self.steps_on(self.h, JOB, 20)
        slices.unbroken(JOB, self.h)
        self.assertEqual(self.pids(), pids)
        self.assertEqual((self.record()["generation"], self.record()["state"]), (generation, "running"))

    def tell_of_failure(self):
        super().tell_of_failure()
        print("--- etcd", self.ctl("get", "--prefix", "/tpu/", check=False).out[-6000:])

    # --- The story -------------------------------------------------------------------------------------------------

    def test_1_it_trains(self):
        scenario.wait_until(lambda: self.ctl("endpoint", "health", check=False).code == 0, 60, "etcd is healthy")
        self.members()
        self.intend()
        self.wait_record("it runs on both slices", lambda r: r["state"] == "running" and len(r["slices"]) == 2)
        self.steps_on(self.h, JOB, 45)
        slices.whole(JOB, self.h)
        self.assertLess(slices.losses(self.h[3], JOB)[45], slices.losses(self.h[3], JOB)[0] * 0.6)

    def test_2_a_killed_worker_is_the_next_generation(self):
        self.h[2].sh(f"kill -KILL {self.pids()['h2']}")
        r = self.wait_record("the next generation runs", lambda r: r["generation"] > 1 and r["state"] == "running")
        self.assertIn("h2", r["why"])
        self.assertIn("KILL", r["why"])
        for h in self.h:
            scenario.wait_until(lambda h=h: slices.resumed(h, JOB), 60, f"{h.name} goes on from its checkpoint")
        self.steps_on(self.h, JOB)

    def test_3_the_leader_of_etcd_is_killed(self):
        pids, generation = self.pids(), self.record()["generation"]
        gone = scenario.wait_until(lambda: [i for i in [self.leader()] if i is not None], 60, "etcd has a leader")[0]
        self.kill(gone)
        scenario.wait_until(lambda: self.leader() not in (None, gone), 60, "etcd has another leader")
        self.untouched(pids, generation)
        self.members()
        self.start(gone)
        self.untouched(pids, generation)

    def test_4_the_quorum_is_lost_and_back(self):
        pids, generation = self.pids(), self.record()["generation"]
        self.kill(0, 1)
        scenario.wait_until(lambda: all(slices.registry(h)["state"] == "away" for h in self.h), 120, "every host is away")
        print(slices.registry(self.h[0]))
        self.steps_on(self.h, JOB, 50)
        self.assertEqual(self.pids(), pids)
        self.start(0, 1)
        self.members()
        self.untouched(pids, generation)

    def test_5_the_agent_that_leads_is_killed(self):
        pids, generation = self.pids(), self.record()["generation"]
        leads = json.loads(scenario.wait_until(lambda: self.ctl("get", "/tpu/default/ctl/leader", "--print-value-only").out.strip(), 60, "a leader"))
        host = next(h for h in self.h if h.name == leads["host"])
        host.sh("systemctl stop tpu-hostd.socket tpu-hostd; systemctl start tpu-hostd.socket tpu-hostd")
        scenario.wait_until(lambda: self.ctl("get", "/tpu/default/ctl/leader", "--print-value-only").out.strip(), 60, "a leader again")
        self.members()
        self.untouched(pids, generation)

    def test_6_stop(self):
        self.intend(stop=True)
        r = self.wait_record("the end", lambda r: r["state"] == "ended")
        self.assertEqual(r["outcome"], "stopped")
        for h in self.h:
            h.wait_for(lambda h=h: not h.sh("pgrep -f '^/usr/bin/python3 /srv/train.py' || true").strip(), 60, "no process is left")


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
