#!/usr/bin/python3
"""The stall matrix itself: that it chooses by its seed, keeps what it has done, tells nothing too early and
counts right; and with FULL=1
a few of its cases on booted hosts."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "stalls")]

import chaos                   # noqa: E402  (the paths come first)
import healthy                 # noqa: E402
import matrix                  # noqa: E402
import slices                  # noqa: E402
import table                   # noqa: E402
import training_run            # noqa: E402
from causes import CAUSES      # noqa: E402
from lab.check import check    # noqa: E402
from live import Live          # noqa: E402
from state import State        # noqa: E402

SOME = ["read", "stop", "eth1"]
WISH = {"seed": "7", "times": 1, "causes": SOME}


def record(case, cause, host, named, suspected=12.0, confirmed=20.0):
    return {"case": case, "truth": {"cause": cause, "host": host},
            "figures": {"struck": 100.0, "last_step_at": 101.0, "step_seconds": 0.5, "load": 1.0},
            "verdict": {"host": named, "sentence": "x", "suspected": suspected and 100.0 + suspected,
                        "confirmed": confirmed and 100.0 + suspected + confirmed}}


class Choice(unittest.TestCase):
    def test_the_seed_decides(self):
        self.assertEqual(chaos.plan("1", 3), chaos.plan("1", 3))
        self.assertNotEqual(chaos.plan("1", 3), chaos.plan("2", 3))
        for turn in range(3):
            self.assertEqual(sorted(chaos.plan("1", 3)[turn * len(CAUSES):][:len(CAUSES)]), sorted(CAUSES))
        self.assertEqual(chaos.Chaos("1", 4, 0, "read", 4).seal, chaos.Chaos("1", 4, 0, "read", 4).seal)
        self.assertEqual(len({chaos.Chaos("1", n, 0, "read", 4).seal for n in range(50)}), 50)

    def test_every_rank_has_its_turn(self):
        ranks = set()
        for n in range(40):
            one = chaos.Chaos("1", n, 0, "stop", 4)
            one.stored({})
            ranks.add(one.reveal()["rank"])
        self.assertEqual(ranks, {0, 1, 2, 3})

    def test_nothing_is_told_before_the_verdict_is_stored(self):
        one = chaos.Chaos("1", 0, 0, "read", 4)
        with self.assertRaises(chaos.NotYet):
            one.reveal()
        one.stored({"host": None})
        self.assertEqual(one.reveal()["cause"], "read")


class Kept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "state")

    def test_it_goes_on_where_it_was(self):
        first = State(self.path, WISH)
        first.store_verdict(0, {"host": "h1"})
        first.store_truth(0, {"host": "h1"}, {})
        first.store_verdict(1, {"host": "h2"})  # killed before the truth was told
        with open(self.path, "a", encoding="utf-8") as f:
            f.write('{"case": 2, "verd')  # and within a line
        again = State(self.path, WISH)
        self.assertEqual([again.done(n) for n in range(3)], [True, False, False])
        self.assertEqual(again.records(),
                         [{"case": 0, "verdict": {"host": "h1"}, "truth": {"host": "h1"}, "figures": {}}])
        again.store_verdict(1, {"host": "h3"})
        again.store_truth(1, {"host": "h3"}, {})
        self.assertEqual([r["verdict"]["host"] for r in State(self.path, WISH).records()], ["h1", "h3"])

    def test_another_matrix_is_refused(self):
        State(self.path, WISH)
        State(self.path, {**WISH, "times": 10})
        with self.assertRaisesRegex(ValueError, "of another matrix"):
            State(self.path, {**WISH, "seed": "8"})


class Counted(unittest.TestCase):
    def test_totals(self):
        records = [record(n, "read", "h1", "h1") for n in range(19)]
        self.assertTrue(table.good(records + [record(19, "stop", "h2", "h0")]))
        self.assertFalse(table.good(records[:18] + [record(19, "stop", "h2", None),
                                                    record(20, "slow", "h2", None, None, None)]))
        text = "\n".join(table.lines(records[:1] + [record(1, "stop", "h2", None, 16.0, None),
                                                    record(2, "exit", "h0", "h0", None, None)]))
        self.assertIn("culprit right: 2 of 3 = 67 %", text)
        # who left is no stall
        self.assertIn("suspected after the fault (stalls): median 14.0 s, worst 16.0 s", text)
        self.assertIn("suspected after the last step (a loader ahead makes some more behind the fault): "
                      "median 13.0 s, worst 15.0 s", text)
        self.assertIn("suspected later than that: 1 of 2 (cases 1)", text)
        self.assertIn("verdict after the suspicion: median 20.0 s, worst 20.0 s, 1 without", text)

    def test_pauses_of_a_healthy_run(self):
        told = {"steps": 100, "step_seconds": 10.0, "pauses": [(49.0, 3), (52.0, 9)], "suspected": [],
                "alarms": []}
        self.assertIn("1 pauses of 45 s and more after its first step: 52 s behind step 9",
                      "\n".join(healthy.lines(told)))


class OnHosts(unittest.TestCase):
    def cases(self, wish):
        slices.skip_unless_full(check)
        with tempfile.TemporaryDirectory() as folder, training_run.lab(folder,
                                                                       os.environ.get("TPU_HOSTD_DEBS")) as lab:
            matrix.boot(lab)
            state = State(None, wish)
            matrix.Matrix(lab, Live(lab), state, wish).run()
            print(*table.lines(state.records()), sep="\n")
            return state.records()

    def test_some_cases(self):
        records = self.cases(WISH)
        self.assertEqual(len(records), len(SOME))
        self.assertTrue(table.good(records))

    def test_the_host_says_why(self):
        """What the agent saw of its run's threads between the two captures is in the verdict's evidence."""
        said = {"starve": r"its check sched of \S+ fails: (\d+ of its threads \(.*\) wanted a CPU and got "
                          r"none all of|its threads waited \S+ s of \S+ s for a CPU)",
                "mount": r"its check sched of \S+ fails: \d+ of its threads \(.*\) stood in state D all of"}
        for r in self.cases({"seed": "11", "times": 1, "causes": list(said)}):
            with self.subTest(r["truth"]["cause"]):
                print(r["truth"], r["verdict"], flush=True)
                self.assertEqual(r["verdict"]["host"], r["truth"]["host"])
                self.assertRegex("\n".join([r["verdict"]["sentence"], *r["verdict"]["details"]]),
                                 said[r["truth"]["cause"]])


if __name__ == "__main__":
    unittest.main()
