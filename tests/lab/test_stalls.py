#!/usr/bin/python3
"""The stall matrix itself: that it chooses by its seed, keeps what it has done, tells nothing too early and
counts right; and with FULL=1
a few of its cases on booted hosts."""

import ast
import gzip
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
STALLS = HERE / "stalls"
sys.path[:0] = [str(HERE.parent), str(HERE), str(STALLS)]

import chaos                   # noqa: E402  (the paths come first)
import healthy                 # noqa: E402
import matrix                  # noqa: E402
import outside                 # noqa: E402
import recording               # noqa: E402
import slices                  # noqa: E402
import table                   # noqa: E402
import training_run            # noqa: E402
from causes import CAUSES, ROUND  # noqa: E402
from lab.check import check    # noqa: E402
from live import Live          # noqa: E402
from state import State        # noqa: E402
from trainings import HOSTS, TRAININGS  # noqa: E402

SOME = ["read", "stop", "eth1"]
WISH = {"training": "ddp", "seed": "7", "times": 1, "causes": SOME}


def record(case, cause, host, named, suspected=12.0, confirmed=20.0):
    return {"case": case, "truth": {"training": "ddp", "cause": cause, "hosts": [host],
                                    "kinds": list(CAUSES[cause].kinds)},
            "figures": {"struck": 100.0, "last_step_at": 101.0, "step_seconds": 0.5, "load": 1.0},
            "verdict": {"host": named, "kind": named and CAUSES[cause].kinds[0], "sentence": "x",
                        "suspected": suspected and 100.0 + suspected,
                        "confirmed": confirmed and 100.0 + suspected + confirmed}}


class Choice(unittest.TestCase):
    def test_the_seed_decides(self):
        self.assertEqual(chaos.plan("1", 3), chaos.plan("1", 3))
        self.assertNotEqual(chaos.plan("1", 3), chaos.plan("2", 3))
        for turn in range(3):
            self.assertEqual(sorted(chaos.plan("1", 3)[turn * len(ROUND):][:len(ROUND)]), sorted(ROUND))
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


class Foreign(unittest.TestCase):
    def test_the_product_does_not_know_their_names(self):
        """What the trainings call their functions and classes is no literal of a program."""
        names, literals = set(), set()
        for path in [*(STALLS / "foreign").glob("*.py"), STALLS / "training/errands.py"]:
            names |= {node.name for node in ast.walk(ast.parse(path.read_text()))
                      if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for room in ("agent", "collector", "probes"):
            for path in (HERE.parents[1] / room).rglob("*.[ch]"):
                literals |= set(re.findall(r'"([A-Za-z_]\w*)"', path.read_text()))
        self.assertGreater(len(names), 20)
        self.assertEqual(names & literals - {"service"}, set())  # gRPC's own name

    def test_each_cause_is_of_a_known_kind(self):
        self.assertEqual(len(ROUND), 20)
        for training in TRAININGS.values():
            self.assertEqual(set(training.wanted) - set(CAUSES), set())
            for rank in range(HOSTS):
                self.assertNotEqual(training.partner(rank), rank)
        header = (HERE.parents[1] / "agent/base/capture/captured_waits.h").read_text()
        kinds = {k.lower() for k in re.findall(r"^\s+WAIT_([A-Z_]+),", header, re.M)}
        others = {"cpu", "path", "ended", "slow"}  # what is no wait of a thread
        self.assertEqual({k for c in CAUSES.values() for k in c.kinds} - kinds - others, set())


class Recorded(unittest.TestCase):
    def test_a_case_as_a_file(self):
        truth = {"training": "ring", "cause": "read", "salt": "1f", "hosts": ["h1"], "kinds": ["pipe"]}
        with tempfile.TemporaryDirectory() as folder:
            size = recording.write(folder, truth, gzip.compress(b"abc" * 9000) + gzip.compress(b"def"))
            self.assertLess(size, 1000)
            [(name, told, captures)] = recording.read_all(folder)
        self.assertEqual((name, told), ("ring-read-1f", truth))
        self.assertEqual(gzip.decompress(captures), b"abc" * 9000 + b"def")


class Outside(unittest.TestCase):
    def test_a_name_is_known_and_others_are_not(self):
        def question(name, kind):
            labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split("."))
            return b"\1\2\1\0\0\1\0\0\0\0\0\0" + labels + b"\0" + bytes([0, kind, 0, 1])
        known = outside.answer(question(outside.NAME, 1))
        self.assertEqual((known[:4], known[6:8], known[-4:]),
                         (b"\1\2\x81\x80", b"\0\1", bytes([10, 10, 0, 1])))
        self.assertEqual(outside.answer(question(outside.NAME, 28))[6:8], b"\0\0")
        self.assertEqual(outside.answer(question("elsewhere.lab", 1))[3] & 15, 3)


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
        records = [record(n, "read", "h1", "h1") for n in range(49)]
        self.assertTrue(table.good(records + [record(49, "stop", "h2", "h0")]))
        self.assertFalse(table.good(records[:48] + [record(49, "stop", "h2", None),
                                                    record(50, "slow", "h2", None, None, None)]))
        text = "\n".join(table.lines(records[:1] + [record(1, "stop", "h2", None, 16.0, None),
                                                    record(2, "exit", "h0", "h0", None, None)]))
        self.assertIn("culprit right: 2 of 3 = 67 %", text)
        # who left is no stall
        self.assertIn("suspected after the fault (stalls): median 14.0 s, worst 16.0 s", text)
        self.assertIn("suspected after the last step (a loader ahead makes some more behind the fault): "
                      "median 13.0 s, worst 15.0 s", text)
        self.assertIn("suspected later than that: 2 of 2 (cases 0, 1)", text)
        self.assertIn("verdict after the suspicion: median 20.0 s, worst 20.0 s, 1 without", text)

    def test_pauses_of_a_healthy_run(self):
        told = {"steps": 100, "step_seconds": 10.0, "pauses": [(49.0, 3), (52.0, 9)], "suspected": [],
                "alarms": []}
        self.assertIn("1 pauses of 45 s and more after its first step: 52 s behind step 9",
                      "\n".join(healthy.lines(told)))


class OnHosts(unittest.TestCase):
    def cases(self, wish):
        training = TRAININGS[wish["training"]]
        with tempfile.TemporaryDirectory() as folder, \
                training_run.lab(folder, os.environ.get("TPU_HOSTD_DEBS"), training) as lab, \
                outside.Servers(lab) as servers:
            matrix.boot(lab)
            state = State(None, wish)
            matrix.Matrix(lab, Live(lab), servers, state, wish).run()
            print(*table.lines(state.records()), sep="\n")
            return state.records()

    def test_a_training_that_the_product_does_not_know(self):
        """The gate's one case: a minute."""
        missing = [f"{name}: {reason}" for name, reason in check() if reason]
        if missing:
            self.skipTest("this machine does not permit a lab: " + "; ".join(missing))
        [case] = self.cases({"training": "ring", "seed": "3", "times": 1, "causes": ["lock"]})
        self.assertIn(case["verdict"]["host"], case["truth"]["hosts"])
        self.assertIn(case["verdict"]["kind"], case["truth"]["kinds"])

    def test_some_cases(self):
        slices.skip_unless_full(check)
        records = self.cases(WISH)
        self.assertEqual(len(records), len(SOME))
        self.assertTrue(table.good(records))

    def test_the_host_says_why(self):
        """What the agent saw of its run's threads between the two captures is in the verdict's evidence."""
        said = {"starve": r"its check sched of \S+ fails: (\d+ of its threads \(.*\) wanted a CPU and got "
                          r"next to none all of|its threads waited \S+ s of \S+ s for a CPU)",
                "mount": r"its check sched of \S+ fails: \d+ of its threads \(.*\) stood in state D all of"}
        slices.skip_unless_full(check)
        for r in self.cases({"training": "ddp", "seed": "11", "times": 1, "causes": list(said)}):
            with self.subTest(r["truth"]["cause"]):
                print(r["truth"], r["verdict"], flush=True)
                self.assertIn(r["verdict"]["host"], r["truth"]["hosts"])
                self.assertRegex("\n".join([r["verdict"]["sentence"], *r["verdict"]["details"]]),
                                 said[r["truth"]["cause"]])


if __name__ == "__main__":
    unittest.main()
