#!/usr/bin/python3
"""A whole fleet behind one address, all at once, and one host of it that never stops. Each has a certificate
of its own; all are let in, and what others wait beside the one is printed."""

import os
import subprocess
import sys
import unittest

from attack_case import HOST, Attack
from collector_case import BUILD

FULL = os.environ.get("FULL") == "1"
HOSTS, ARRIVE, BESIDE = (12800, 30, 60) if FULL else (300, 2, 2)
FLOODS = 8  # all the connections that a host may have
PROGRAM = os.path.join(BUILD, "tests/bench/bench-arrivals")


class Arrivals(Attack):
    def test_fleet_behind_one_address(self):
        driver = subprocess.Popen([PROGRAM, str(HOSTS), str(self.folder)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(driver.wait, 60)
        self.addCleanup(driver.kill)
        self.assertEqual(driver.stdout.readline(), "ready\n")
        self.collector(Certificate=self.folder / "server.pem", Key=self.folder / "server.key",
                       ClientCa=self.folder / "ca.pem", AllowAgents=HOST + "*")
        print(f"{HOSTS} hosts with a certificate each, one key and one address, within {ARRIVE} s, beside "
              f"one that syncs without a pause on {FLOODS} connections; client and server on "
              f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        said, _ = driver.communicate(f"{self.c.otlp} {ARRIVE * 1000} {BESIDE * 1000} {FLOODS}\n",
                                     timeout=800)
        for line in said.splitlines():
            print(line, file=sys.stderr)
        phases = {w[0]: dict(zip(w[1::2], map(float, w[2::2]))) for w in map(str.split, said.splitlines())}
        self.assertEqual([phases["arrival"][k] for k in ("answered", "failed", "other")], [HOSTS, 0, 0])
        self.assertEqual([phases["beside"][k] for k in ("failed", "other")], [0, 0])
        self.assertGreater(phases["beside"]["answered"], 0)
        self.assertGreater(phases["beside"]["floods"], 0)


if __name__ == "__main__":
    unittest.main()
