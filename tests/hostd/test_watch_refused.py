#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Where nothing can be attached once the capabilities are gone (Linux before 5.19): a watch is UNKNOWN
with the reason, all else counts."""
import shutil
import unittest

import real_run
from around import BINARY, wait_until

REFUSE = BINARY.parents[2] / "tests/bpf/librefuse_attach.so"
REASON = "this kernel attaches BPF programs for processes with CAP_BPF alone (Linux before 5.19)"


class Refused(real_run.Case):
    def setUp(self):
        super().setUp()
        preload = shutil.copy(REFUSE, self.h.folder)  # where nobody may look
        # the loader gets no environment: what is always on, is
        self.h.after = ["env", f"LD_PRELOAD={preload}"]

    def test_told(self):
        run = self.run_of("refused")
        run.start("sleep", "1000")
        self.h.launchd.runs = [run.listed()]
        self.h.start()
        for name in ("sched", "io"):
            found = wait_until(lambda name=name: self.h.check("bpf_" + name), 60, f"the check of {name}")
            self.assertEqual((found["verdict"], found["reason"]), ("UNKNOWN", REASON), name)
        for name in ("net", "deaths"):
            self.assertEqual(self.h.check("bpf_" + name)["verdict"], "OK", name)
        wait_until(lambda: run.name in [j["name"] for j in self.h.get("/v1/runs")["runs"]], 60,
                   "it knows the run")
        for what in ("sched", "io"):
            said = self.h.get(f"/v1/{what}?run={run.name}&watch=1")
            self.assertEqual((said["watch"], said["not_watched"]), (None, REASON), what)


if __name__ == "__main__":
    unittest.main()
