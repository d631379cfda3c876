#!/usr/bin/python3
"""The power is cut at random instants: whatever was answered before is there afterwards, once, and nothing
else is.

README.md says how. CUTS=20 says how often, TEST_SEED=N repeats a run. Exit code 77: cannot run here.
"""

import os
import shutil
import sqlite3
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from vm.machine import QEMU  # noqa: E402  (the path comes first)
from vm.rig import Rig  # noqa: E402

CUTS = int(os.environ.get("CUTS", 20))
SEED = int(os.environ.get("TEST_SEED", time.time()))
MUTANT_CUTS = 4


class PowerCut(unittest.TestCase):
    def rig(self, **k):
        folder = tempfile.TemporaryDirectory(prefix="tpu-hostd-vm-")
        self.addCleanup(folder.cleanup)
        rig = Rig(Path(folder.name), SEED, **k)
        self.addCleanup(rig.close)
        return rig

    def test_answered_is_there(self):
        rig = self.rig()
        begin = time.monotonic()
        p = rig.promises
        # The run was one: something was answered in most lives, and the disk had something to lose.
        enough = {"events": lambda: len(p.captures) > CUTS, "fed": lambda: len(p.fed) > CUTS,
                  "orders": lambda: p.order > CUTS // 2,
                  "lost sectors": lambda: rig.sectors["lost"] > 10 * CUTS}
        outcome = rig.run(CUTS, enough=lambda: all(there() for there in enough.values()))
        boots = sorted(rig.boots)
        spool = {k: v for k, v in rig.uplink["classes"]["events"].items()
                 if k in ("kept", "damaged", "dropped", "next_seq")}
        print(f"TEST_SEED={SEED}: {sum(rig.cuts.values())} cuts in {time.monotonic() - begin:.0f} s "
              f"({', '.join(f'{n} {moment} by {how}' for (moment, how), n in sorted(rig.cuts.items()))}); "
              f"up after {boots[len(boots) // 2]:.1f} s; {rig.sectors['cached']} sectors in the disk's "
              f"cache, {rig.sectors['lost']} lost\n"
              f"acknowledged {outcome.answered} ({len(p.captures)} events at tpu-hostd, {len(p.fed)} at "
              f"tpu-collectord), "
              f"found {outcome.found_answered}, lost {outcome.answered - outcome.found_answered}; "
              f"not acknowledged and found {outcome.found - outcome.found_answered}; "
              f"{p.order} orders, all remembered; {len(outcome.rows)} events in the database; spool of "
              f"events: {spool}", flush=True)
        self.assertEqual((outcome.lost_captures, outcome.lost_fed), ([], []), "acknowledged and lost")
        self.assertEqual((p.broken, outcome.wrong, outcome.twice), ([], [], []))
        self.assertEqual(len(outcome.spools), 1)
        self.assertGreaterEqual(sum(rig.cuts.values()), CUTS)
        self.assertEqual([what for what, there in enough.items() if not there()], [], "too few of")

    def test_an_agent_that_does_not_sync_is_found_out(self):
        rig = self.rig(no_sync=("tpu-hostd",), shares=(0,))
        outcome = rig.run(MUTANT_CUTS, collector_share=0,
                          enough=lambda: len(rig.promises.captures) > MUTANT_CUTS)
        print(f"tpu-hostd without syncs: {len(outcome.lost_captures)} of {len(rig.promises.captures)} "
              f"events lost, "
              f"{rig.promises.broken or 'no order lost'}", flush=True)
        self.assertNotEqual(outcome.lost_captures, [])

    def test_a_collector_that_does_not_sync_is_found_out(self):
        rig = self.rig(no_sync=("tpu-collectord",), shares=(0,))
        try:
            lost = rig.run(MUTANT_CUTS, collector_share=1,
                           enough=lambda: len(rig.promises.fed) > MUTANT_CUTS).lost_fed
        except sqlite3.DatabaseError as e:
            lost = [str(e)]
        print(f"tpu-collectord without syncs: {len(lost)} of {len(rig.promises.fed)} lost: {lost[:3]}",
              flush=True)
        self.assertNotEqual(lost, [])


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(map(shutil.which,
                                        (QEMU, "busybox", "socat", "cpio", "mke2fs", "debugfs"))):
        print("cannot run: needs root and the packages of tools/deps vm")
        sys.exit(77)
    unittest.main(verbosity=2)
