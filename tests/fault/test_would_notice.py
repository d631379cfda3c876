#!/usr/bin/python3
"""The test of the kill test: parts that break the promise, each in one way, and each time the comparison
must say so.

BUILD_DIR=… FULL=1 tests/fault/test_would_notice.py: only with FULL=1, because it says nothing about our
programs.
"""

import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from between import HASTY, LOSES_ANSWERS, NAMELESS, Between  # noqa: E402
from site_under_test import Site, wait_until  # noqa: E402


@unittest.skipUnless(os.environ.get("FULL"), "FULL=1 is not set")
class WouldNotice(unittest.TestCase):
    def run_site(self, how=None, agent=0, collector=0, frames=0, answers=None):
        """What the comparison finds wrong."""
        through = Between(how) if how else None
        with Site(int(time.time()), through) as s:
            if answers:
                s.always["TPU_HOSTD_TEST_FEED_ANSWERS"] = answers
            s.start()
            s.feed()
            s.kill(agent, collector)
            if frames:
                wait_until(lambda: min(s.answered()) >= frames, 120, "answers")
            s.feed_no_more()
            s.drain()
            s.stop()
            wrong, said = s.compare()
            print(f"{how or answers}: {said}; {wrong}", flush=True)
            self.repeats = s.collector.repeats
        if through:
            through.stop()
        return wrong

    def test_an_agent_that_answers_before_the_disk(self):
        wrong = self.run_site(answers="submit", agent=20)
        self.assertIn("answered points that are lost", wrong)
        self.assertLessEqual(set(wrong), {"answered points that are lost", "answered events that are lost"})

    def test_a_collector_that_answers_before_the_commit(self):
        self.assertIn("answered events that are lost", self.run_site(HASTY, collector=12))

    def test_a_collector_that_cannot_tell_repeats(self):
        wrong = self.run_site(NAMELESS, frames=15)
        self.assertIn("events that are there more than once", wrong)
        self.assertIn("points that are there more than once", wrong)

    def test_lost_answers_alone_do_no_harm(self):
        self.assertEqual(self.run_site(LOSES_ANSWERS, frames=15), {})
        self.assertGreater(self.repeats, 5)


if __name__ == "__main__":
    unittest.main()
