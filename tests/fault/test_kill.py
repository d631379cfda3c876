#!/usr/bin/python3
"""Agent and collector killed again and again under load: nothing that was answered is lost, nothing is there
twice.

BUILD_DIR=… [KILLS=n] [FULL=1] [TEST_SEED=n] tests/fault/test_kill.py. What is fed and answered is written
down by a program
outside (generator.py) and compared with the collector's database file (ledger.py). A quarter of the kills
meets the agent, a
quarter the collector, and half of them come to both at once.
"""

import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from site_under_test import KILL_AT, Site, wait_until  # noqa: E402

FULL = bool(os.environ.get("FULL"))
KILLS = int(os.environ.get("KILLS", 520 if FULL else 40))


class Kill(unittest.TestCase):
    def test_what_is_answered_is_stored_once(self):
        seed = int(os.environ.get("TEST_SEED", time.time()))
        print(f"TEST_SEED={seed}", end=" ", flush=True)
        with Site(seed) as s:
            s.start()
            s.feed()
            part = KILLS // 8
            s.kill(agent=2 * part, collector=0)
            s.kill(agent=0, collector=2 * part)
            s.kill(agent=2 * part, collector=KILLS - 6 * part)
            s.feed_no_more()
            s.drain()
            classes = s.classes()
            s.stop()
            wrong, said = s.compare()
            print(f"kills: {({k: dict(v) for k, v in s.kills.items()})}; {said}", flush=True)
            self.assertEqual(wrong, {})
            self.assertEqual({c["damaged"] for c in classes.values()}, {0})
            self.assertEqual(sum(sum(k.values()) for k in s.kills.values()), KILLS)

    def test_a_child_at_work_keeps_nobody_out(self):
        """The agent dies while its child writes a small file to a disk that hangs: the next one starts at
        once."""
        with Site(1) as s:
            with open(s.hostd.config, "a") as f:
                f.write(f"StateFile={s.folder}/state.json\n")
            s.hostd.environment = {"LD_PRELOAD": str(KILL_AT), "SLOW_CHILD_USEC": "5000000"}
            s.hostd.spawn()
            wait_until(lambda: any(s.folder.glob("*state.json*")), 20, "a child that writes")
            s.hostd.process.kill()
            s.hostd.process.wait()
            s.hostd.environment = {}
            s.start()


if __name__ == "__main__":
    unittest.main()
