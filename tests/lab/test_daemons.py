#!/usr/bin/python3
"""The agents watch each other: a booted host with the package, whose daemons are stopped, killed, starved
and cut off, one after the other. tpuctl check names each, and what its remedy says is typed and mends it.

With FULL=1 every case; else those that end within seconds. Needs root and the packages in build/debs.
"""

import json
import os
import re
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
from lab.command import LabError  # noqa: E402
import scenario                  # noqa: E402

FULL = os.environ.get("FULL") == "1"
AGENTS = scenario.AGENTS
full = unittest.skipUnless(FULL, "takes longer: with FULL=1")


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Daemons(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(scenario.slice_lab(1, os.environ.get("TPU_HOSTD_DEBS")))
        cls.host, = cls.lab.hosts

    def tearDown(self):
        for name in AGENTS:
            self.host.sh(f"rm -rf /run/systemd/system/{name}.service.d", check=False)
        self.host.sh(f"systemctl daemon-reload; systemctl restart {' '.join(AGENTS)}", check=False)

    def lines(self):
        """{(check, subject): line} of the checks of daemons."""
        done = self.host.run(["tpuctl", "check", "daemon", "--json"], user="nobody")
        return {(c["check"], c["subject"]): c for c in json.loads(done.out)["checks"]}

    def wrong(self):
        return {k: v for k, v in self.lines().items() if v["verdict"] != "OK"}

    def named(self, name, words, kind="daemon.state", timeout=10):
        """Waits for the line and returns it."""
        def there():
            line = self.lines().get((kind, name))
            return line and line["verdict"] in ("WARN", "FAIL") and words in line["reason"] and line
        began = time.monotonic()
        line = self.host.wait_for(there, timeout, f"{kind} {name}: {words}; now {self.lines()}")
        print(f"  {self.id().split('.')[-1]:30s} {kind} {name}: {line['verdict']} in "
              f"{time.monotonic() - began:.1f} s: {line['reason']}")
        return line

    def remedied(self, line, timeout=30):
        """Types what the line says, as root, and waits until nothing is wrong."""
        self.host.sh(line["remedy"].split("# ")[0].replace("sudo ", ""), check=False)
        try:
            self.host.wait_for(lambda: not self.wrong(), timeout, "nothing wrong any more")
        except LabError as e:
            raise LabError(f"{e}; now {self.wrong()}") from e

    def drop_in(self, name, text):
        self.host.write(f"/run/systemd/system/{name}.service.d/test.conf", text)
        self.host.sh("systemctl daemon-reload")

    # -- quick --------------------------------------------------------------------------------------------

    def test_1_good(self):
        self.host.wait_for(lambda: not self.wrong(), 20, "a good host")
        self.assertEqual({k for k in self.lines() if k[0] == "daemon.state"},
                         {("daemon.state", n) for n in (*AGENTS, "systemd-journald")})
        began = time.monotonic()
        self.lines()
        print(f"  tpuctl check daemon: {(time.monotonic() - began) * 1000:.0f} ms, with systemd-run")

    def test_2_stopped(self):
        """One that was stopped by a signal; tpu-hostd's own is named without it."""
        for name in AGENTS if FULL else ("tpu-hostd",):
            with self.subTest(name):
                self.host.sh(f"systemctl kill -s STOP {name}")
                self.remedied(self.named(name, "stopped by a signal"))

    def test_3_away(self):
        for name in AGENTS if FULL else ("tpu-netcfg",):
            with self.subTest(name):
                self.host.sh(f"systemctl stop {name}.socket {name}.service")
                self.remedied(self.named(name, "meanwhile"))

    def test_4_run_directory_deleted(self):
        self.host.sh("rm -rf /run/tpu-hostd")
        self.remedied(self.named("tpu-hostd", "socket is gone"))
        self.assertEqual(scenario.ctl(self.host, "status", "--json", check=False).out[:1], "{")

    def test_5_deaf(self):
        """No inotify for tpu-netcfg: it runs, repairs what it reads again, and says so; then it hears."""
        host = self.host
        self.drop_in("tpu-netcfg", "[Service]\nSystemCallFilter=~inotify_init1:EMFILE\n")
        host.sh("systemctl restart tpu-netcfg")
        line = self.named("tpu-netcfg", "Too many open files", "daemon.events")
        self.assertIn("max_user_instances", line["remedy"])
        host.sh("sysctl -qw net.ipv4.tcp_slow_start_after_idle=1")
        if FULL:
            host.wait_for(lambda: host.sh("sysctl -n net.ipv4.tcp_slow_start_after_idle").strip() == "0", 35,
                          "drift is found by reading again")
        host.sh("rm -r /run/systemd/system/tpu-netcfg.service.d; systemctl daemon-reload")
        self.remedied({"remedy": "systemctl restart tpu-netcfg"})  # the other half would change this machine
        self.assertEqual(self.lines()["daemon.events", "tpu-netcfg"]["verdict"], "OK")

    def test_6_state_read_only(self):
        """Named by both; launchd lists and stops, and refuses to start in words; hostd sends from memory."""
        host = self.host
        units, places = "tpu-hostd tpu-launchd", ("/var/lib/tpu-hostd", "/var/lib/tpu-launchd")
        host.sh(f"systemctl stop {units}; for d in {' '.join(places)}; do mount -t tmpfs state $d; "
                f"chmod 755 $d; done; chown tpu-hostd: {places[0]}; chmod 700 {places[0]}; "
                f"systemctl start {units}")
        scenario.ctl(host, "run", "--name", "before", "--", "sleep", "1000")
        host.sh(f"systemctl stop {units}; for d in {' '.join(places)}; do mount -o remount,ro $d; done")
        began = int(time.time() * 1e6)
        host.sh(f"systemctl start {units}")
        launchd = self.named("tpu-launchd", "read-only", "daemon.disk")
        hostd = self.named("tpu-hostd", "sent from memory", "daemon.disk")
        refused = scenario.ctl(host, "run", "--name", "new", "--", "true", check=False)
        self.assertNotEqual(refused.code, 0)
        self.assertIn("Read-only file system", refused.err)
        print("   ", refused.err.strip())
        self.assertIn("before", scenario.ctl(host, "runs").out)
        scenario.ctl(host, "stop", "before")
        sql = "SELECT count(*) FROM events WHERE name = 'tpu.agent.started' AND time >= ?"
        host.wait_for(lambda: scenario.query(self.lab, sql, began)[0][0], 30, "what was sent from memory")
        for line in (launchd, hostd):
            host.sh(line["remedy"].split("# ")[0].replace("sudo ", ""))
        host.wait_for(lambda: not self.wrong(), 60, "both heal")
        scenario.ctl(host, "run", "--name", "new", "--", "true")
        host.sh(f"systemctl stop {units}; umount {' '.join(places)}; systemctl start {units}")

    # -- slow ---------------------------------------------------------------------------------------------

    @full
    def test_7_crash_loop(self):
        for name in AGENTS:
            with self.subTest(name):
                self.drop_in(name, "[Service]\nExecStart=\nExecStart=/bin/false\n")
                self.host.sh(f"systemctl restart {name}", check=False)
                line = self.named(name, "again and again", timeout=60)
                self.host.sh(f"rm -r /run/systemd/system/{name}.service.d; systemctl daemon-reload")
                self.remedied(line, 90)  # after three restarts, once it has run for a minute

    @full
    def test_8_tpu_hostd_says_it(self):
        """A check that changes is an event, and the fleet's view of the host."""
        host = self.host
        host.sh("systemctl stop tpu-netcfg")
        host.wait_for(lambda: any(re.search("daemon.state tpu-netcfg: (WARN|FAIL)", line) for line in
                                  host.journal("tpu-hostd.service").splitlines()), 200, "the event")
        host.wait_for(lambda: "daemon.state tpu-netcfg" in scenario.ctl(host, "fleet", "--json",
                                                                        check=False).out, 150, "the fleet")
        host.sh("systemctl start tpu-netcfg")


if __name__ == "__main__":
    unittest.main(verbosity=2)
