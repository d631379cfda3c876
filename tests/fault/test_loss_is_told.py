#!/usr/bin/python3
"""What the byte limit forces out is told: stored points and those that gap records tell of are together what
was answered.

The collector is away while more points are fed than the spool may hold, the agent is killed meanwhile, and
both while the
rest is delivered. BUILD_DIR=… [FULL=1] [TEST_SEED=n] tests/fault/test_loss_is_told.py
"""

import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from site_under_test import Site, wait_until  # noqa: E402

FULL = bool(os.environ.get("FULL"))
KILLS = 60 if FULL else 6
SPOOL = 1 << 20  # bytes


class LossIsTold(unittest.TestCase):
    def test_byte_limit(self):
        seed = int(os.environ.get("TEST_SEED", time.time()))
        print(f"TEST_SEED={seed}", end=" ", flush=True)
        with Site(seed, SpoolBytes=str(SPOOL), MetricsInterval="300ms") as s:
            s.always["TPU_HOSTD_TEST_FEED_ALONE"] = "1"
            s.start()
            # 8000 series: the collector takes 10000 of a host
            s.feed("--events", 2, "--largest", 1000, "--points", 8, "--most", 1000, "--rate", 150)
            time.sleep(1)
            s.collector.process.kill()
            s.collector.process.wait()
            s.kill_agent_alone(KILLS)
            s.start_agent()
            try:
                wait_until(lambda: (s.classes() or {"metrics": {"dropped": 0}})["metrics"]["dropped"] > 20,
                           240, "the byte limit")
            except AssertionError as failure:
                raise AssertionError(f"{failure}: {s.classes()}") from None
            s.kill(agent=KILLS // 2, collector=KILLS // 2)
            s.feed_no_more()
            s.drain()
            rule = {"gaps_allowed": ("metrics",), "alone": True}
            try:
                wait_until(lambda: not s.compare(**rule)[0], 180, "all losses are told")
            except AssertionError:
                pass  # said below
            s.stop()
            wrong, said = s.compare(**rule)
            print(f"kills: {({k: dict(v) for k, v in s.kills.items()})}; {said}", flush=True)
            self.assertEqual(wrong, {})
            self.assertIn("told in gaps", said)


if __name__ == "__main__":
    unittest.main()
