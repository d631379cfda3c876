"""Runs over slices end to end but for processes: a real tpu-collectord, two tpu-hostd as the hosts of two
slices, tpuctl, and stand-ins for tpu-launchd."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, free_port, has_failed, wait_until  # noqa: E402
from launchd_stand_in import EACCES, Runs  # noqa: E402

FULL = os.environ.get("FULL") == "1"
BUILD = Path(os.environ.get("BUILD_DIR", "build/dev")).absolute()


class Collectord:
    """A tpu-collectord that keeps the registry: its ports stay over restarts."""

    def __init__(self, folder):
        self.folder, self.process = Path(folder), None
        # a busy machine renews late: a host that is lost is another test's
        (self.folder / "collectord.conf").write_text("[Control]\nLease=10s\n")
        self.ports = [free_port(), free_port()]
        self.agents, self.people = (f"http://127.0.0.1:{p}" for p in self.ports)
        self.output = open(self.folder / "collectord.log", "ab")

    def start(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            path = self.folder / "notify"
            path.unlink(missing_ok=True)
            notify.bind(str(path))
            notify.settimeout(30)
            self.process = subprocess.Popen([BUILD / "collector/tpu-collectord", "--config",
                                             self.folder / "collectord.conf", "--database",
                                             self.folder / "c.db",
                                             "--listen-otlp", f"127.0.0.1:{self.ports[0]}", "--listen-api",
                                             f"127.0.0.1:{self.ports[1]}"],
                                            stderr=self.output,
                                            env={**os.environ, "NOTIFY_SOCKET": str(path)})
            notify.recv(4096)
        return self

    def kill(self):
        self.process.kill()
        self.process.wait(20)

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.output.close()


class Gang(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gang-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.collector = Collectord(self.folder)
        self.addCleanup(self.collector.close)
        self.collector.start()
        self.hosts, self.launchds = {}, {}
        self.port = str(free_port())

    def host(self, slice_name, worker, hosts=1, start=True, machine=None):
        name = f"{slice_name}-{worker}"
        h = Hostd()
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        folder = h.root / "etc/tpu-hostd/identity.conf.d"
        for f in folder.iterdir():
            f.unlink()
        (folder / "50-test.conf").write_text(f"[Identity]\nHostName={machine or name}\n"
                                             f"SliceName={slice_name}\nWorkerId={worker}\n"
                                             f"AcceleratorType=v6e-4\n"
                                             f"WorkerHostnames={','.join(f'{slice_name}-{w}' for w in range(hosts))}\n")
        (h.root / "etc/machine-id").write_text(f"{abs(hash(machine or name)):032x}\n")
        h.config.write_text(h.config.read_text() + f"[Registry]\nKind=collector\n"
                                                   f"Endpoint={self.collector.agents}\nAddress=127.0.0.1\n"
                                                   f"Splay=0\n")
        launchd = Runs(h.folder / "launchd.sock")
        self.addCleanup(launchd.stop)
        launchd.start()
        self.hosts[machine or name], self.launchds[machine or name] = h, launchd
        return h.start() if start else h

    def tpuctl(self, *words, check=0):
        done = subprocess.run([BUILD / "agent/ctl/tpuctl", "--root", self.folder, *words],
                              capture_output=True, text=True, timeout=100, check=False)
        if check is not None:
            self.assertEqual(done.returncode, check, done.stdout + done.stderr)
        return done

    def run_over(self, *words, check=0, name="run1"):
        return self.tpuctl("run", "--collector", self.collector.people, "--name", name, "--user", "alice",
                           "--port", self.port, "--grace", "2s", *words,
                           "--", "train", check=check)

    def ready(self, name):
        wait_until(lambda: (self.hosts[name].get("/v1/status")["slice"] or {}).get("state") == "ready", 60,
                   f"slice of {name} is ready")

    def starts(self, name):
        return [(n, g) for n, g, _ in self.launchds[name].starts]

    def until_runs(self, name, generation, run="run1"):
        wait_until(lambda: self.launchds[name].runs.get(run, {}).get(16) == generation
                   and self.launchds[name].state(run) == "running", 60,
                   lambda: f"{name} runs generation {generation}: {self.starts(name)}, "
                           f"{self.hosts[name].get('/v1/status')['runs']}")

    def part(self, name, run="run1"):
        return next(r for r in self.hosts[name].get("/v1/status")["runs"] if r["name"] == run)

    def ended(self, name, outcome):
        wait_until(lambda: (self.part(name)["state"], self.part(name)["outcome"]) == ("ended", outcome), 60,
                   lambda: f"it ended: {self.part(name)}")


class TwoSlices(Gang):
    def test_from_one_command_to_success(self):
        self.host("s0", 0)
        done = self.run_over("--slices", "2", "--detach")
        self.assertIn("handed to", done.stdout)
        self.ready("s0-0")
        self.assertEqual(self.starts("s0-0"), [])
        self.host("s1", 0)
        for name in ("s0-0", "s1-0"):
            self.until_runs(name, 1)
        out = self.tpuctl("runs", "--fleet", "--collector", self.collector.people).stdout
        self.assertRegex(out, r"run1 +running +alice +1 .* s0, s1 +2 ")
        status, _, body = self.hosts["s0-0"].call("/v1/runs/run1", "DELETE")
        self.assertEqual((status, b"ask the collector" in body), (409, True), body)
        self.assertEqual([r["state"] for r in self.hosts["s0-0"].get("/v1/runs")["records"]], ["running"])
        self.launchds["s0-0"].exit("run1")
        self.launchds["s1-0"].exit("run1")
        self.ended("s0-0", "success")
        self.assertEqual((self.starts("s0-0"), self.starts("s1-0")), ([("run1", 1)], [("run1", 1)]))

    @unittest.skipUnless(FULL, "with FULL=1")
    def test_barrier_is_shown_and_a_failure_restarts_all(self):
        self.host("s0", 0)
        self.host("s1", 0)
        self.ready("s0-0")
        self.ready("s1-0")
        out = self.run_over("--slices", "2", "--restarts", "1").stdout
        self.assertRegex(out, r"run1: running, generation 1, on s0, s1 \(2 hosts\)\n")
        self.until_runs("s1-0", 1)
        self.launchds["s1-0"].exit("run1", "exit-code", "exited", "1")
        for name in ("s0-0", "s1-0"):
            self.until_runs(name, 2)
        self.assertEqual([g for _, g in self.launchds["s0-0"].stops], [1])
        self.tpuctl("stop", "run1", "--yes", "--collector", self.collector.people)
        self.ended("s0-0", "stopped")
        self.ended("s1-0", "stopped")

    @unittest.skipUnless(FULL, "with FULL=1")
    def test_a_host_refuses_and_is_named(self):
        self.host("s0", 0)
        self.host("s1", 0)
        self.launchds["s1-0"].refuse_check = (EACCES, "requests that come through tpu-hostd may not start "
                                                      "runs of alice on this host", "[Remote] Start=alice")
        self.ready("s0-0")
        self.ready("s1-0")
        done = self.run_over("--slices", "2", "--wait", "5s", check=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("s1-0 (127.0.0.1)", done.stdout)
        self.assertIn("may not start runs of alice", done.stdout)
        self.assertEqual((self.starts("s0-0"), self.starts("s1-0")), ([], []))

    @unittest.skipUnless(FULL, "takes half a minute: with FULL=1")
    def test_shrinks(self):
        self.host("s0", 0)
        h = self.host("s1", 0)
        self.ready("s0-0")
        self.ready("s1-0")
        self.run_over("--slices", "1:2", "--restarts", "5")
        self.until_runs("s1-0", 1)
        h.process.kill()  # the machine is off: nothing of it answers
        h.process.wait(20)
        self.launchds["s1-0"].runs.clear()
        wait_until(lambda: self.part("s0-0")["state"] == "running" and self.part("s0-0")["generation"] > 1,
                   150,
                   lambda: f"it goes on with one: {self.part('s0-0')}")
        self.until_runs("s0-0", self.part("s0-0")["generation"])

    def test_everything_dies_but_the_run(self):
        for name in ("s0", "s1"):
            self.host(name, 0)
        self.ready("s0-0")
        self.ready("s1-0")
        self.run_over("--slices", "2")
        self.collector.kill()
        for h in self.hosts.values():
            h.process.send_signal(signal.SIGKILL)
            h.process.wait(20)
        for h in self.hosts.values():
            h.start()
        self.collector.start()
        for name in self.hosts:
            wait_until(lambda name=name: self.hosts[name].get("/v1/status")["registry"]["state"] == "member",
                       60, "it is back")
        self.ready("s0-0")
        wait_until(lambda: self.part("s0-0")["state"] == "running", 60, "the record is back")
        self.assertEqual((self.starts("s0-0"), self.starts("s1-0")), ([("run1", 1)], [("run1", 1)]))
        self.assertEqual((self.launchds["s0-0"].stops, self.launchds["s1-0"].stops), ([], []))
        for name in self.launchds:
            self.launchds[name].exit("run1")
        self.ended("s0-0", "success")

    def test_two_machines_claim_one_id(self):
        self.host("s0", 0)
        self.ready("s0-0")
        thief = self.host("s0", 0, machine="thief")
        wait_until(lambda: thief.get("/v1/status")["registry"]["state"] == "conflict", 60, "the conflict")
        self.assertIn("s0-0's", thief.get("/v1/status")["registry"]["why"])
        self.assertEqual(self.hosts["s0-0"].get("/v1/status")["slice"]["roster"][0]["host"], "s0-0")


if __name__ == "__main__":
    unittest.main()
