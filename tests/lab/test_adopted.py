#!/usr/bin/python3
"""A training that nobody told the agents of: started by hand on each of two booted hosts, once as a unit of
somebody's own and once from a shell without a terminal. It is found by the chip that it holds (a stand-in: a
node of the null device), watched, and when one host stops, diagnosed. Nothing of ours ever ends it.
"""

import json
import os
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402
import slices                    # noqa: E402

# No line of steps is printed anywhere; each round needs the other host.
PROGRAM = '''
import os, socket, sys, time
chip = os.open("/dev/accel0", os.O_RDWR)
rank, other = int(sys.argv[1]), sys.argv[2]
if rank == 0:
    server = socket.create_server(("", 7400))
    link = server.accept()[0]
else:
    while True:
        try:
            link = socket.create_connection((other, 7400))
            break
        except OSError:
            time.sleep(0.2)
def exchange(payload):
    link.sendall(payload)
    left = len(payload)
    while left:
        left -= len(link.recv(left))
payload = b"x" * 65536
while True:
    sum(i * i for i in range(20000))
    exchange(payload)
    time.sleep(0.05)
'''


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Adopted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(slices.lab(2, 2, os.environ.get("TPU_HOSTD_DEBS")))
        slices.prepare(cls.lab)
        cls.h0, cls.h1 = cls.lab.hosts
        for host in cls.lab.hosts:
            host.write("/srv/loop.py", PROGRAM)
            host.sh("chmod 0666 /dev/accel0")
        cls.h0.sh("systemd-run -q --unit=own-trainer --uid=alice python3 /srv/loop.py 0 h1")
        cls.h1.sh("systemd-run -q --scope --unit=session-77 --uid=alice sh -c "
                  "'setsid nohup sh -c \"python3 /srv/loop.py 1 h0\" >/dev/null 2>&1 &'")

    def run_of(self, host):
        runs = json.loads(host.sh("tpuctl runs --json"))["runs"]
        return runs[0] if runs else None

    def wait_for_runs(self):
        for host in self.lab.hosts:
            host.wait_for(lambda h=host: self.run_of(h), 120, "the run that holds the chip is found")

    def test_1_found_and_named(self):
        self.wait_for_runs()
        a, b = self.run_of(self.h0), self.run_of(self.h1)
        self.assertEqual((a["name"], a["state"], a["user"]), ("own-trainer", "running", "alice"))
        self.assertEqual((b["name"], b["state"], b["user"]), ("alice-loop", "running", "alice"))
        self.assertEqual([a["devices"], b["devices"]], ["/dev/accel0"] * 2)
        self.assertTrue(a["adopted"] and b["adopted"])
        self.assertIn("started without tpu-launchd, holds /dev/accel0", self.h1.sh("tpuctl runs"))

    def test_2_its_stacks_are_its_owners_and_roots(self):
        self.assertIn("/srv/loop.py", self.h1.sh("tpuctl stack alice-loop").partition("thread")[2])
        other = self.h1.run(["tpuctl", "stack", "alice-loop"], user="nobody", check=False)
        self.assertNotEqual(other.code, 0)
        lines = self.h0.run(["tpuctl", "logs", "own-trainer"], check=False)
        self.assertEqual((lines.code, lines.out), (1, ""))
        self.assertIn("to do:  sudo journalctl -u own-trainer.service", lines.err)

    def test_3_never_ended_by_us(self):
        pid = self.run_of(self.h1)["main_pid"]
        refused = self.h1.run(["tpuctl", "stop", "alice-loop", "--here"], check=False)
        self.assertNotEqual(refused.code, 0)
        self.assertIn("ends only what it started", refused.err)
        self.h1.sh("systemctl restart tpu-launchd tpu-hostd")
        self.h1.wait_for(lambda: self.run_of(self.h1), 60, "it is found again")
        self.assertEqual(self.run_of(self.h1)["main_pid"], pid)

    def test_4_stopped_on_one_host(self):
        pid = self.run_of(self.h1)["main_pid"]
        scenario.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in self.lab.hosts), 90,
                            "both hosts are members")
        self.h1.sh(f"kill -STOP {pid}")
        time.sleep(2)
        said = self.h0.run(["tpuctl", "diagnose", "s0", "--capture"], timeout=90, check=False)
        self.assertIn("10.10.0.11", said.out + said.err)
        self.assertIn("stopped", said.out)
        self.h1.sh(f"kill -CONT {pid}")

    def test_5_its_end_is_seen_at_once(self):
        pid = self.run_of(self.h1)["main_pid"]
        self.h1.sh(f"kill -KILL {pid}")
        self.h1.wait_for(lambda: self.run_of(self.h1)["state"] == "exited", 10, "its end is seen")
        self.assertEqual(self.run_of(self.h1)["cause"], "unknown")  # and never success


if __name__ == "__main__":
    unittest.main(verbosity=2)
