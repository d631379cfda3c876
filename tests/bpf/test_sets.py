#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""BPF programs come with two capabilities, which are then gone; and go with whoever holds them, however
that ends."""
import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import holding

NUMBERS = {"perfmon": 38, "bpf": 39}


def capabilities(pid):
    with open(f"/proc/{pid}/status") as f:
        return {k: int(v, 16) for k,
                v in re.findall(r"^Cap(Inh|Prm|Eff|Amb):\s*(\w+)", f.read(), re.MULTILINE)}


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Sets(holding.Case):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(self.folder, 0o755)
        self.loader = shutil.copy(holding.LOADER, self.folder)
        self.holder = holding.HOLDER
        holding.HOLDER = shutil.copy(holding.HOLDER, self.folder)  # where nobody may look
        self.addCleanup(setattr, holding, "HOLDER", self.holder)

    def test_loaded_by_nobody_with_two_capabilities(self):
        h = self.hold(before=holding.as_nobody("bpf", "perfmon"), loader=self.loader)
        for name, said in h.sets.items():
            with self.subTest(name):
                refused = name == "writers" and said["reason"]  # a kernel that lets nobody trace functions
                self.assertRegex(said["reason"], r"^(this kernel refuses the program on_\w+(; )?)+$" if refused
                                 else "^$")
                self.assertEqual(said["verdict"], "OK")
                self.assertEqual(said["loaded"], said["programs"])
        self.assertIn("net", h.sets)
        for which, mask in capabilities(h.pid).items():
            for name, number in NUMBERS.items():
                self.assertFalse(mask >> number & 1, f"it still has CAP_{name.upper()} among its {which}")
        self.assertTrue(h.programs())
        self.assertTrue(h.figures("net"))
        with open(f"/proc/{h.pid}/task/{h.pid}/children") as f:
            self.assertEqual(f.read(), "", "the loader has ended, and was reaped")

    def test_nothing_is_left(self):
        for how in ("SIGKILL", "end"):
            with self.subTest(how):
                h = self.hold(before=holding.as_nobody("bpf", "perfmon"), loader=self.loader)
                ids = h.programs()
                self.assertTrue(ids and all(map(holding.loaded, ids)))
                if how == "SIGKILL":
                    h.process.kill()
                    h.process.wait(60)
                else:
                    h.close()
                self.assertTrue(wait_until(lambda ids=ids: not any(map(holding.loaded, ids))),
                                "programs outlive their holder")

    def test_watch_needs_no_capability(self):
        """What is watched for a while is attached by descriptor, after the capabilities are gone (Linux
        5.19)."""
        h = self.hold(before=holding.as_nobody("bpf", "perfmon"), loader=self.loader)
        if tuple(map(int, os.uname().release.split(".")[:2])) < (5, 19):
            self.assertEqual(h.sets["sched"]["verdict"], "UNKNOWN")
            self.assertEqual(h.figures("watch sched"), -1)  # EPERM
            return
        links = len(os.listdir(f"/proc/{h.pid}/fd"))
        self.assertEqual(h.figures("watch sched"), 0)
        self.assertGreater(len(os.listdir(f"/proc/{h.pid}/fd")), links)
        self.assertEqual(h.figures("watch sched"), -114)  # EALREADY
        self.assertEqual(h.figures("unwatch sched"), 0)
        self.assertEqual(len(os.listdir(f"/proc/{h.pid}/fd")), links)
        self.assertEqual(h.figures("watch net"), -2)  # ENOENT: it has none

    def test_without_a_capability(self):
        for kept in ((), ("bpf",), ("perfmon",)):
            with self.subTest(kept):
                h = self.hold(before=holding.as_nobody(*kept), loader=self.loader)
                for said in h.sets.values():
                    self.assertEqual(said["verdict"], "UNKNOWN")
                    self.assertIn("CAP_BPF and CAP_PERFMON", said["reason"])
                self.assertEqual(h.programs(), [])
                self.assertIsNone(h.figures("net"))

    def test_told_to_a_person(self):
        done = subprocess.run([self.loader], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^net OK: (\d+) of \1 programs$")
        done = subprocess.run([*holding.as_nobody(), self.loader], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^net UNKNOWN: .*not permitted")


if __name__ == "__main__":
    unittest.main()
