#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg's start-up with the n-th allocation, open, send and write failing: no crash, no hang, a reason,
no false success,
and nothing from which the next run could not go on and --restore bring every original back. Needs root; exit
code 77 (skipped,
with the reason) where namespaces are not permitted. FULL=1: every n, else some spread evenly."""
import os
import re
import subprocess
import sys
import unittest

from namespace import Host, run_tests

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.path.realpath(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build/dev")))
NETCFG, LIBRARY = f"{BUILD}/netcfg/tpu-netcfg", f"{BUILD}/tests/libfail_nth.so"
FULL = os.environ.get("FULL") == "1"
# For the gate: how many n of each. An allocation is like its neighbours; opens and sends are few and differ.
MOST = {"alloc": 24, "open": 16, "send": 10, "write": 6}
MODES = ("--once", "--dry-run", "--restore", "daemon")


def new_host():
    host = Host(os.path.join(SOURCE, "netcfg/profiles"))
    host.identity("[Identity]\nAcceleratorType=v6e-16\n[Network]\nMtu=8896\n")
    host.netcfg_conf("[Netcfg]\nNics=eth*\n")
    return host


class Failures(unittest.TestCase):
    def one_kind(self, what):
        # which writes nothing
        self.every(what, new_host(), MODES if what != "write" else [m for m in MODES if m != "--dry-run"])

    def every(self, what, host, modes):
        self.addCleanup(host.close)
        for mode in modes:
            with self.subTest(mode=mode):
                most = 0 if FULL else MOST[what] if mode == "--once" else MOST[what] // 2
                done = subprocess.run(host.command("/usr/bin/python3", "-B",
                                                   f"{SOURCE}/tests/netns/fail_every.py", NETCFG, LIBRARY,
                                                   mode, what, str(most)), capture_output=True, text=True)
                ran = re.search(r"^RAN (\d+) OF (\d+)$", done.stdout, re.M)
                self.assertTrue(ran, done.stdout + done.stderr)
                print(f"{what} {mode}: {ran[1]} of {ran[2]}", file=sys.stderr)
                self.assertGreater(int(ran[2]), 0,
                                   "nothing of this kind was met: the library does not see it")
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_allocations(self):
        self.one_kind("alloc")

    def test_opens(self):
        self.one_kind("open")

    def test_what_the_site_says_is_never_passed_over(self):
        for what in ("alloc", "open"):
            host = new_host()
            host.netcfg_conf("[Netcfg]\nMode=observe\n")
            self.every(what, host, ["observe"])

    def test_sends(self):
        self.one_kind("send")

    def test_writes(self):
        self.one_kind("write")


if __name__ == "__main__":
    run_tests()
