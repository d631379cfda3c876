#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpuctl check: what tpu-hostd says of its BPF programs, in the whole report and by name."""
import json
import unittest

from ctl_case import Ctl

NET = {"check": "bpf_net", "subject": "", "verdict": "OK", "found": "9 of 9 programs: retransmits, resets",
       "wanted": "", "source": "", "reason": "",
       "remedy": "", "settled": "OK", "silenced": False, "since": None}
IO = {**NET, "check": "bpf_io", "verdict": "UNKNOWN", "found": "0 of 8 programs: disks",
      "reason": "this kernel has no tracepoint block_rq_issue",
      "remedy": "sudo /usr/lib/tpu-hostd/tpu-hostd-bpf"}
OTHER = {**NET, "check": "uplink", "verdict": "FAIL"}


class CheckBpf(Ctl):
    def setUp(self):
        super().setUp()
        self.agent = self.hostd()
        self.agent.answers["GET", "/v1/checks"] = (200, {"checks": [NET, IO, OTHER]})

    def names(self, *args):
        done = self.run_ctl("check", "--json", *args)
        report = json.loads(done.stdout)
        return done.returncode, report["verdict"], [c["check"] for c in report["checks"]
                                                    if c["check"].startswith(("bpf", "uplink"))]

    def test_by_name(self):
        self.expect(["check", "bpf"], 3, stderr="", stdout="""\
BPF programs
UNKNOWN  bpf_io     0 of 8 programs: disks
         this kernel has no tracepoint block_rq_issue
         to do:  sudo /usr/lib/tpu-hostd/tpu-hostd-bpf
OK       bpf_net    9 of 9 programs: retransmits, resets

2 checks: 1 OK, 0 WARN, 0 FAIL, 1 UNKNOWN
""")
        self.assertEqual(self.names("bpf_net"), (0, "OK", ["bpf_net"]))
        self.assertEqual(self.names("bpf"), (3, "UNKNOWN", ["bpf_net", "bpf_io"]))
        self.assertEqual(self.names("bpf_what"), (3, "OK", []))
        self.assertIn("  bpf         the BPF programs", self.expect(["check", "foo"], 1, stdout="").stderr)

    def test_in_the_whole_report_they_count_for_nothing(self):
        without = self.expect(["check", "identity", "--json"], 0, stderr="")
        self.assertEqual(json.loads(without.stdout)["verdict"], "OK")
        self.agent.answers["GET", "/v1/checks"] = (200, {"checks": []})
        before = self.names()
        self.assertEqual(before[2], [])
        self.agent.answers["GET", "/v1/checks"] = (200, {"checks": [NET, {**IO, "verdict": "FAIL"}, OTHER]})
        self.assertEqual(self.names(), (*before[:2], ["bpf_net", "bpf_io"]))
        text = self.run_ctl("check").stdout
        self.assertRegex(text, r"(?m)^FAIL     bpf_io  ")
        self.assertIn("this kernel has no tracepoint block_rq_issue\n", text)

    def test_what_is_no_answer(self):
        for answer in ([], {"checks": 1},
                       {"checks": [1, {"check": 7}, {"check": "nic.mtu", "verdict": "OK"}]}):
            self.agent.answers["GET", "/v1/checks"] = (200, answer)
            self.assertEqual(self.names()[2], [])
        self.agent.answers["GET", "/v1/checks"] = (200, {"checks": [{"check": "bpf_\x1b[2J",
                                                                     "verdict": "SPLENDID", "found": 7}]})
        text = self.expect(["check", "bpf"], 3, stderr="").stdout
        self.assertIn("UNKNOWN  bpf_", text)
        self.assertNotIn("\x1b", text)

    def test_without_tpu_hostd(self):
        self.agent.answers.clear()
        self.assertEqual(self.names()[2], [])
        self.agent.server_close()
        text = self.expect(["check", "bpf"], 3, stderr="").stdout
        self.assertIn("only tpu-hostd knows: ", text)
        self.assertIn("to do:  ", text)
        self.assertEqual(self.names()[2], [])


if __name__ == "__main__":
    unittest.main()
