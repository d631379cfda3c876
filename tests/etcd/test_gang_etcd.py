#!/usr/bin/python3
"""A run over slices where etcd is the registry: handed to a host's tpu-hostd, shown by it, stopped by it. Real etcd, hosts and tpuctl; stand-ins for tpu-launchd."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hostd"))
from around import Hostd, wait_until  # noqa: E402
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "control"))
from etcd_server import Site, free_ports, missing  # noqa: E402
from launchd_stand_in import Runs  # noqa: E402

if why := missing():
    if __name__ == "__main__":
        print(f"skipped: {why}")
        sys.exit(77)
    raise unittest.SkipTest(why)

BUILD = Path(os.environ.get("BUILD_DIR", "build/dev")).absolute()


class GangOfEtcd(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gang-etcd-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "run/tpu-hostd").mkdir(parents=True)
        self.hosts, self.launchds = {}, {}
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]

    def host(self, slice_name, endpoint):
        h = Hostd()
        self.addCleanup(lambda: h.close(failed=not self._outcome.success))
        folder = h.root / "etc/tpu-hostd/identity.conf.d"
        for f in folder.iterdir():
            f.unlink()
        (folder / "50-test.conf").write_text(f"[Identity]\nHostName={slice_name}-0\nSliceName={slice_name}\nWorkerId=0\nAcceleratorType=v6e-4\nWorkerHostnames={slice_name}-0\n")
        (h.root / "etc/machine-id").write_text(f"{int.from_bytes(slice_name.encode()):032x}\n")
        h.config.write_text(h.config.read_text() + f"[Registry]\nKind=etcd\nEndpoint={endpoint}\nAddress=127.0.0.1\nSplay=0\n")
        launchd = Runs(h.folder / "launchd.sock")
        self.addCleanup(launchd.stop)
        launchd.start()
        self.hosts[slice_name], self.launchds[slice_name] = h, launchd
        return h.start()

    def tpuctl(self, *words, check=0):
        api = self.folder / "run/tpu-hostd/api.sock"
        api.unlink(missing_ok=True)
        api.symlink_to(self.hosts["s0"].api)
        done = subprocess.run([BUILD / "agent/ctl/tpuctl", "--root", self.folder, *words], capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        return done

    def post(self, **body):
        status, _, answer = self.hosts["s0"].call("/v1/jobs", "POST", body=json.dumps({"user": "alice", "argv": ["train"], **body}))
        return status, json.loads(answer)

    def until_runs(self, slice_name, job):
        wait_until(lambda: self.launchds[slice_name].state(job) == "running", 60, f"{slice_name} runs it: {self.launchds[slice_name].starts}")

    def records(self):
        answer = self.hosts["s0"].get("/v1/runs")
        self.assertEqual(answer["registry"], "etcd")
        return {r["name"]: r for r in answer["runs"]}

    def until_ended(self, job, outcome):
        wait_until(lambda: (self.records()[job]["state"], self.records()[job]["outcome"]) == ("ended", outcome), 60, f"it ended: {self.records()[job]}")

    def test_start_show_and_stop(self):
        site = Site(tls=False)
        self.addCleanup(site.close)
        self.host("s0", site.urls)
        done = self.tpuctl("run", "--name", "job1", "--user", "alice", "--port", str(self.port), "--grace", "2s", "--slices", "2", "--detach", "--", "train")
        self.assertIn("handed to the registry (etcd) by tpu-hostd", done.stdout)
        wait_until(lambda: self.records().get("job1", {}).get("state") == "waiting", 60, "it waits")
        self.assertEqual(self.launchds["s0"].starts, [])
        out = self.tpuctl("jobs", "--fleet").stdout
        self.assertRegex(out, r"job1 +waiting +alice ")
        status, answer = self.post(name="job1", min=1, max=1)
        self.assertEqual(status, 409, answer)
        self.assertIn("job1", answer["error"])
        self.assertEqual(self.post(name="job2", min=3, max=1)[0], 400)
        self.host("s1", site.urls)
        for s in ("s0", "s1"):
            self.until_runs(s, "job1")
        # An order for stacks that somebody puts is completed for both slices by the elected agent, and each host takes part in the round.
        for s in ("s0", "s1"):
            self.launchds[s].stacks = lambda name: {"version": 1, "processes": []}
        done = self.tpuctl("diagnose", "s0", "--capture", check=3)  # s0-0 alone is of this slice, and its stacks say nothing
        self.assertIn("asked for their stacks by the registry (etcd)", done.stderr)
        self.assertNotIn("gives no capture", done.stderr)
        for s in ("s0", "s1"):
            wait_until(lambda s=s: len(list((self.hosts[s].folder / "captures").glob("*-job1-1-*.capture"))) == 2, 60, f"{s} took part")
        written = [json.loads(site.ctl("get", f"/tpu/default/capture/{s}", "--print-value-only").stdout) for s in ("s0", "s1")]
        self.assertEqual(written[0], written[1])
        self.assertEqual((written[0]["run"], written[0]["why"], written[0]["hosts"]), ("job1", "tpuctl diagnose --capture", 2))
        self.assertRegex(written[0]["by"], r"^uid 0 \(pid \d+\) of s0-0$")
        self.assertIn("there was a round of captures at", self.tpuctl("diagnose", "s0", "--capture", check=3).stderr)
        self.assertEqual(self.hosts["s0"].call("/v1/captures?slice=s7", "POST")[0], 404)
        intent = self.records()["job1"]["intent"]
        self.assertRegex(intent["by"], r"^uid 0 \(pid \d+\) of s0-0$")
        self.assertEqual(intent["serial"], self.launchds["s0"].starts[0][2][9][-1].decode())
        self.assertIn("is being stopped", self.tpuctl("stop", "--fleet", "job1").stdout)
        for s in ("s0", "s1"):
            wait_until(lambda s=s: self.launchds[s].state("job1") == "exited", 60, f"{s} ended it")
        self.until_ended("job1", "stopped")
        status, answer = self.post(name="job1", min=1, max=2, port=self.port)
        self.assertEqual((status, answer["state"]), (201, "waiting"), answer)
        self.until_runs("s0", "job1")
        self.until_runs("s1", "job1")
        for s in ("s0", "s1"):
            self.launchds[s].exit("job1")
        self.until_ended("job1", "success")

    def test_an_etcd_that_is_not_there(self):
        port = free_ports(1)[0]
        h = self.host("s0", f"http://127.0.0.1:{port}")

        def found():
            return next((c for c in h.get("/v1/checks")["checks"] if c["check"] == "enroll.registry" and c["verdict"] == "WARN"), None)

        check = wait_until(found, 60, "the check says it")
        self.assertIn(f"etcdctl --endpoints=http://127.0.0.1:{port} endpoint health", check["remedy"])
        self.assertNotIn("collectord", check["remedy"])
        self.assertRegex(check["reason"], r"^[^;]*\w[^:;]*; runs go on")
        status, answer = self.post(name="job1", min=1, max=1)
        self.assertIn(status, (409, 503), answer)
        self.assertTrue(answer["error"].strip(" :"))


if __name__ == "__main__":
    unittest.main()
