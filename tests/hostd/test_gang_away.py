"""An agent that is away is no lost host: while the steps of the others rise the run is left alone, and
how it ended meanwhile is heard when the agent is back."""

import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import wait_until    # noqa: E402
from test_gang import FULL, Gang  # noqa: E402


class Training:
    """All stand-ins tell a step more, some times a second, as long as it goes on."""

    def __init__(self, launchds, run="run1"):
        self.launchds, self.run_name, self.step, self.over = launchds, run, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.3):
            self.step += 1
            for l in self.launchds.values():
                with l.lock:
                    if l.state(self.run_name) == "running":
                        l.runs[self.run_name].update({24: 1, 25: self.step})
                        l.tell()

    def stop(self):
        self.over.set()
        self.thread.join()


class Away(Gang):
    def begin(self, *words):
        for name in ("s0", "s1"):
            self.host(name, 0)
        for name in self.hosts:
            self.ready(name)
        self.run_over("--slices", "1:2", "--restarts", "5", "--shrink-after", "3s", *words)
        for name in self.hosts:
            self.until_runs(name, 1)
        training = Training(self.launchds)
        self.addCleanup(training.stop)
        return training

    def kill(self, name):
        self.hosts[name].process.kill()
        self.hosts[name].process.wait(20)

    def waits(self, words):
        wait_until(lambda: words in str(self.part("s0-0")["waits_for"]), 60,
                   lambda: f"'{words}': {self.part('s0-0')}")

    def test_steps_go_on_then_success(self):
        training = self.begin()
        self.kill("s1-0")
        self.waits("s1-0 (127.0.0.1) missing since")
        self.waits("the steps of the others go on")
        at = training.step
        wait_until(lambda: training.step > at + 20, 60, "time goes by, twice what a lost host has")
        self.assertEqual((self.part("s0-0")["state"], self.part("s0-0")["generation"]), ("running", 1))
        training.stop()
        for l in self.launchds.values():
            l.exit("run1")
        self.waits("1 of 2 hosts ended it with success, how it ended there is not known")
        self.hosts["s1-0"].start()
        self.ended("s0-0", "success")
        self.ended("s1-0", "success")
        self.assertEqual((self.starts("s0-0"), self.starts("s1-0")), ([("run1", 1)], [("run1", 1)]))

    @unittest.skipUnless(FULL, "with FULL=1: the planner's unit tests have it, too")
    def test_steps_stand_still(self):
        training = self.begin()
        training.stop()  # as where the other machine has no power
        self.kill("s1-0")
        self.until_runs("s0-0", 2)
        self.assertIn("s1-0 (127.0.0.1) was lost", self.part("s0-0")["why"])
        self.hosts["s1-0"].start()  # it was its agent alone after all: what it has is of before
        wait_until(lambda: ("run1", 1) in self.launchds["s1-0"].stops
                   or self.starts("s1-0")[-1] != ("run1", 1), 60, "generation 1 is ended there")


if __name__ == "__main__":
    unittest.main()
