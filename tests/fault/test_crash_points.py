"""The spool stopped at each real system call that changes its directory, by SIGKILL and by a power cut:
what was promised is there."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import calls  # noqa: E402

BUILD = Path(os.environ.get("BUILD_DIR", Path(__file__).resolve().parents[2] / "build/dev")) / "tests/fault"
STOP_AT, DRIVER = BUILD / "stop_at", BUILD / "spool_driver"
FULL = os.environ.get("FULL")


def items(n):
    return n % 5 + 1


class Promises:
    """What a program said that it promised, over its lives."""

    def __init__(self):
        self.durable, self.delivered, self.gaps = 0, set(), {}

    def hear(self, lines):
        for line in lines:
            word, *rest = line.split()
            if word == "durable":
                self.durable = max(self.durable, int(rest[0]))
            elif word in ("delivered", "record"):
                self.delivered.add(int(rest[0]))
            elif word == "gap":
                numbers = tuple(map(int, rest))
                assert self.gaps.setdefault(numbers[0], numbers) == numbers, (self.gaps[numbers[0]], numbers)
        return self

    def broken(self):
        """After a check: None, or what is wrong."""
        s = self.durable
        # behind that: torn pieces of what nobody was promised
        mine = [g for g in self.gaps.values() if g[2] <= s]
        there = {n for n in self.delivered if n <= s}
        lost, lost_items = sum(g[4] for g in mine), sum(g[5] for g in mine)
        if any(g[3] > s for g in mine):  # lost when it was durable and nobody had been told yet
            return f"{s - len(there) - lost} of {s} are missing" if len(there) + lost < s else None
        if len(there) + lost != s:
            missing = sorted(set(range(1, s + 1)) - there)
            return (f"{len(there)} of {s} are there and {lost} are told, missing {missing[:20]}, gaps "
                    f"{sorted(self.gaps.values())}")
        if any(g[1] == 1 for g in mine):
            return f"damage where there was none: {mine}"
        if sum(map(items, there)) + lost_items != sum(map(items, range(1, s + 1))):
            return f"items: {mine}"
        return None


class CrashPoints(unittest.TestCase):
    def setUp(self):
        base = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="crash-points-",
                                            dir=base if os.access(base, os.W_OK) else None))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        seed = int(os.environ.get("TEST_SEED", time.time()))
        print(f"TEST_SEED={seed}", end=" ", flush=True)
        random.seed(seed)
        self.seed, self.n = seed % 100000, 0

    def fresh(self):
        self.n += 1
        return self.folder / f"spool-{self.n}"

    def whole(self):
        """One run to its end: the log's entries."""
        spool, log = self.fresh(), self.folder / "log"
        self.assertEqual(calls.stop_at(STOP_AT, spool, log, 0, "after", DRIVER, "work", spool,
                                       str(self.seed)), 0)
        shutil.rmtree(spool)
        return calls.read(log)

    def check(self, spool, promises, what):
        """Recovers with the real code; now and then that is killed, too."""
        if random.randrange(4) == 0:
            log = self.folder / "check-log"
            code = calls.stop_at(STOP_AT, spool, log, random.randrange(1, 12),
                                 random.choice(("before", "after")), DRIVER, "check", spool)
            self.assertIn(code, (0, 137), what)
            promises.hear(c[1] for c in calls.read(log) if c[0] == "say")
        r = subprocess.run([DRIVER, "check", spool], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, (what, r.stderr))
        promises.hear(r.stdout.splitlines())
        if (why := promises.broken()):
            keep = Path(tempfile.mkdtemp(prefix="crash-point-")) / "spool"
            shutil.copytree(spool, keep)
            self.fail(f"{what}, TEST_SEED={self.seed}, left in {keep}: {why}")
        shutil.rmtree(spool)

    def test_killed_before_and_after_each_call(self):
        entries = self.whole()
        n = sum(c[0] != "say" for c in entries)
        kinds = {c[0] for c in entries}
        self.assertGreaterEqual(kinds,
                                {"open", "write", "allocate", "truncate", "rename", "unlink", "sync", "say"})
        points = calls.chosen([(i, when) for i in range(1, n + 1) for when in ("before", "after")],
                              10**6 if FULL else 60)
        for i, when in points:
            spool, log = self.fresh(), self.folder / "log"
            code = calls.stop_at(STOP_AT, spool, log, i, when, DRIVER, "work", spool, str(self.seed))
            self.assertIn(code, (0, 137))
            said = [c[1] for c in calls.read(log) if c[0] == "say"]
            self.check(spool, Promises().hear(said), f"killed {when} call {i}")
        print(f"{len(points)} of {2 * n} points", end=" ", flush=True)

    def test_power_cut_at_each_call(self):
        entries = self.whole()
        at = set(calls.chosen(range(len(entries) + 1), 10**6 if FULL else 120))
        disk, said, cuts = calls.Disk(), [], 0
        for i, entry in enumerate([*entries, None]):
            if i in at:
                hows = ["none", "all", "prefix", "any", "any", "any"]
                for how in hows if FULL else random.sample(hows, 2):
                    spool = self.fresh()
                    calls.fill(spool, disk.power_cut(how, random))
                    self.check(spool, Promises().hear(said), f"power cut ({how}) before entry {i}, {entry}")
                    cuts += 1
            if entry and entry[0] == "say":
                said.append(entry[1])
            elif entry:
                disk.call(*entry)
        print(f"{cuts} power cuts at {len(at)} places", end=" ", flush=True)


if __name__ == "__main__":
    unittest.main()
