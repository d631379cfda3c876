#!/usr/bin/python3
"""contrib/monitoring/demo and contrib/python/tpuhost.py: one command, and what it says is there, as the
client sees it."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_DIR"])
sys.path.insert(0, str(SOURCE / "contrib/python"))
import tpuhost  # noqa: E402


class Demo(unittest.TestCase):
    def start(self, root, **environment):
        self.process = subprocess.Popen(
            [SOURCE / "contrib/monitoring/demo", "--root", root], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={"PATH": f"{BUILD}/agent/hostd:{BUILD}/collector:/usr/bin:/bin", "TMPDIR": self.folder,
                 **environment})
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.wait, 60)
        self.addCleanup(self.process.terminate)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="demo-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.root = Path(self.folder) / "root"
        shutil.copytree(SOURCE / "tests/fixtures/machine-v6e-4t", self.root, symlinks=True)

    def said(self, last):
        text, end = "", time.monotonic() + 240
        while last not in text:
            self.assertLess(time.monotonic(), end, text)
            if select.select([self.process.stdout], [], [], 1)[0]:
                part = os.read(self.process.stdout.fileno(), 65536).decode()
                self.assertTrue(part, text)
                text += part
        return text

    @unittest.skipUnless(shutil.which("prometheus"), "Debian's prometheus is not installed")
    def test_one_command(self):
        self.start(self.root)
        text = self.said("Ctrl-C ends all of it.")
        address = dict(re.findall(r"^(\w+) +(\S.*)$", text, re.M))
        url, prometheus = address["page"].rstrip("/"), address["Prometheus"].split("/graph")[0]

        def ask(path, **arguments):
            with urllib.request.urlopen(f"{prometheus}/api/v1/{path}?" + urllib.parse.urlencode(arguments),
                                        timeout=60) as r:
                return json.load(r)["data"]

        up = {v["metric"]["job"]: v["value"][1] for v in ask("query", query="up")["result"]}
        self.assertEqual(up, {"tpu-hostd": "1", "tpu-collectord": "1"})
        rules = [r for g in ask("rules")["groups"] for r in g["rules"]]
        self.assertEqual(len(rules), len(re.findall(r"^ +- (?:alert|record): ", (
            SOURCE / "contrib/monitoring/rules.yaml").read_text(), re.M)))
        self.assertEqual([r["name"] for r in rules if r.get("lastError")], [])
        with urllib.request.urlopen(address["metrics"], timeout=60) as r:
            self.assertIn(b"tpu_host_state", r.read())
        self.client(url)
        folder, = Path(self.folder).glob("tpu-demo-*")
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(60), 0)
        self.assertFalse(folder.exists())
        with self.assertRaises(OSError):
            tpuhost.Collector(url).slices()

    def client(self, url):
        collector = tpuhost.Collector(url)
        end = time.monotonic() + 60
        while (host := next(collector.hosts()))["registry"] != "member":
            self.assertLess(time.monotonic(), end, host)
            time.sleep(0.2)
        agent = tpuhost.Agent(f"{next(Path(self.folder).glob('tpu-demo-*'))}/api.sock")
        self.assertEqual(agent.status()["host"], host["name"])
        self.assertEqual(collector.host(host["name"])["name"], host["name"])
        self.assertIn(host["name"], [h["name"] for h in collector.hosts(slice=host["slice"])])
        self.assertNotIn(host["name"], [h["name"] for h in collector.hosts(state="missing")])
        self.assertEqual([s["name"] for s in collector.slices()], [host["slice"]])
        stall = collector.stall(host["slice"])
        self.assertEqual(stall["state"], "none")
        self.assertEqual(set(stall), set(tpuhost.Stall.__annotations__))
        self.assertIn("tpu_collectord_points_total", collector.metrics())
        with self.assertRaises(tpuhost.Refused) as refused:
            collector.stall("no-such-slice")
        self.assertEqual(refused.exception.status, 404)
        self.assertTrue(refused.exception.error and refused.exception.remedy)
        events = agent.follow(since=0)
        first = next(events)
        collector.cordon(host["name"], "a bad cable")
        while "a bad cable" not in json.dumps(first):
            first = next(events)
        collector.uncordon(host["name"])
        self.assertEqual(collector.runs(), [])

    def test_what_is_missing_is_said(self):
        self.start(self.root, PATH="/nonexistent")
        self.process.wait(60)
        text = self.process.stdout.read()
        if self.process.returncode == 127 or "is not installed" not in text:
            self.skipTest("the packages are installed here: " + text[:200])
        self.assertEqual(self.process.returncode, 1)
        self.assertIn("demo: tpu-collectord is not installed", text)
        self.assertEqual(list(Path(self.folder).glob("tpu-demo-*")), [])


if __name__ == "__main__":
    unittest.main()
