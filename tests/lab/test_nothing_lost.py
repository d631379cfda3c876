#!/usr/bin/python3
"""Nothing acknowledged is lost, on a booted host with the packages: the collector is away under load, and
both are killed many times.

The agent is the package's unit, whose ExecStart= a drop-in replaces by tpu-hostd-fed (tests/fault/feed.c):
tpu-hostd's own objects
and a test-only feed, which no package may hold. All else (collector, sandbox, restarts, spool) is the
package's. What was fed and answered
is in the log of a program outside (tests/fault/generator.py); it is compared with the collector's database
file.

With FULL=1 the collector is away for two minutes. Needs root, the packages in build/debs and BUILD_DIR's
tests/fault.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "fault")]

from lab.check import check      # noqa: E402  (the path comes first)
import ledger                    # noqa: E402
import scenario                  # noqa: E402

BUILD = Path(os.environ.get("BUILD_DIR", scenario.TOP / "build/dev"))
FULL = bool(os.environ.get("FULL"))
# Seconds. All is delivered within ten minutes of its time: what is older than that is thinned out.
AWAY, BEFORE, AFTER = (120, 20, 20) if FULL else (10, 3, 8)
SOCKET, LOG = "/var/lib/tpu-hostd/feed.sock", "/srv/fed.log"
FEED = ["--rate", "45", "--largest", "20000"]  # fits the spool for as long as the collector is away
DROP_IN = f"""[Service]
ExecStart=
ExecStart=/usr/local/lib/tpu-hostd-fed
Environment=TPU_HOSTD_TEST_FEED={SOCKET}
"""


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Killer(threading.Thread):
    """SIGKILL to a unit's main process, again and again, for so many seconds; systemd brings it back."""

    def __init__(self, host, unit, seconds):
        super().__init__()
        self.host, self.unit, self.seconds, self.kills, self.error = host, unit, seconds, 0, None
        self.random = random.Random(f"{unit} {time.time()}")

    def main_pid(self):
        return int(scenario.unit(self.host, self.unit, "MainPID")["MainPID"])

    def run(self):
        end = time.monotonic() + self.seconds
        try:
            while time.monotonic() < end:
                pid = self.host.wait_for(self.main_pid, 30, f"{self.unit} to come back")
                time.sleep(self.random.uniform(0, 3 if FULL else 0.6))
                self.host.sh(f"kill -KILL {pid}")
                self.kills += 1
                self.host.wait_for(lambda: self.main_pid() not in (0, pid), 30, f"{self.unit} to come back")
        except BaseException as e:
            self.error = e


class NothingLost(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(scenario.slice_lab(1, os.environ.get("TPU_HOSTD_DEBS")))
        cls.host, = cls.lab.hosts
        cls.host.write("/srv/generator.py", (HERE.parent / "fault/generator.py").read_text())
        cls.host.path("/usr/local/lib").joinpath("tpu-hostd-fed").write_bytes(
                (BUILD / "tests/fault/tpu-hostd-fed").read_bytes())
        cls.host.sh("chmod 755 /usr/local/lib/tpu-hostd-fed")
        cls.host.write("/etc/systemd/system/tpu-hostd.service.d/10-test-feed.conf", DROP_IN)
        cls.host.sh("systemctl daemon-reload; systemctl restart tpu-hostd")

    def curl(self, path):
        """This machine's curl, on the host's socket."""
        done = subprocess.run(["curl", "-s", "-S", "--fail", "--unix-socket",
                               self.host.path("/run/tpu-hostd/api.sock"), f"http://h{path}"],
                              capture_output=True, text=True, timeout=30, check=True)
        return json.loads(done.stdout)

    def kill_for(self, seconds, *targets):
        """{unit: kills}."""
        killers = [Killer(host, unit, seconds) for host, unit in targets]
        for k in killers:
            k.start()
        for k in killers:
            k.join()
            if k.error:
                raise k.error
            self.kills[k.unit] = self.kills.get(k.unit, 0) + k.kills

    def drained(self):
        return scenario.ctl(self.host, "uplink", "--drain", "5s", check=False).code == 0

    def test_outage_and_kills(self):
        host, collector, self.kills = self.host, self.lab.collector, {}
        agent, sink = (host, "tpu-hostd.service"), (collector, "tpu-collectord.service")
        host.wait_for(lambda: [m for m in scenario.latest_metrics(self.lab, host)
                               if m["name"] == "system.uptime"], 60, "the host in the collector")
        self.assertEqual(self.curl("/v1/identity")["slice-name"]["value"], "lab")
        host.sh(f"systemd-run -q --unit=generator python3 /srv/generator.py {SOCKET} {LOG} {' '.join(FEED)}")
        self.kill_for(BEFORE, agent, sink)
        collector.sh("systemctl stop tpu-collectord")
        self.kill_for(AWAY, agent)
        waiting = sum(c["kept"] for c in host.wait_for(self.classes, 30, "the agent's answer").values())
        collector.sh("systemctl start tpu-collectord")
        self.kill_for(AFTER, agent, sink)
        host.sh("systemctl stop generator")
        host.wait_for(self.drained, 600 if FULL else 120, "all that waits is delivered")
        for where, unit in (agent, sink):
            state = scenario.unit(where, unit, "ActiveState", "NRestarts")
            self.assertEqual(state["ActiveState"], "active")
            if where is host:
                self.assertEqual(int(state["NRestarts"]), self.kills[unit])
        status = self.curl("/v1/status")
        self.assertTrue(status["uplink"]["durable"])
        collector.sh("systemctl stop tpu-collectord")
        fed, stored = ledger.Fed(host.path(LOG)), ledger.Stored(f"{collector.tree}{scenario.DATABASE}")
        print(f"\nkills: {self.kills}; {waiting} records waited when the collector came back; "
              f"{ledger.figures(fed, stored)}", flush=True)
        self.assertEqual(ledger.compare(fed, stored), {})
        self.assertGreater(waiting, 20)
        self.assertGreater(len(fed.answered), 100)

    def classes(self):
        try:
            return self.curl("/v1/status")["uplink"]["classes"]
        except subprocess.SubprocessError:
            return None


if __name__ == "__main__":
    unittest.main()
