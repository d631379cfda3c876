#!/usr/bin/python3
"""tpuctl chips: who holds which device, and what libtpu says of the chips."""

import json
import unittest

from ctl_case import Ctl, ago
from stand_ins import field

CHIPS = [{"process": 0, "port": 8431, "chip": str(c), "hbm_used_bytes": 17179869184.0 + c * 2 ** 30,
          "hbm_total_bytes": 34359738368.0, "duty_cycle": 0.9, "idle_seconds": None} for c in (0, 1)]


class Chips(Ctl):
    def owners(self, *owners, incomplete=False):
        self.launchd().answers[28] = (29, b"".join(
            field(1, field(1, d) + field(2, p) + field(3, u) + field(4, s) + field(5, c))
            for d, p, u, s, c in owners) + (field(2, 1) if incomplete else b""))

    def libtpu(self, **more):
        self.hostd().answers[("GET", "/v1/chips")] = (
            200, {"looked": ago(3 * 3600 + 60), "run": "train", "error": "", "chips": CHIPS, **more})

    def test_both(self):
        self.owners(("/dev/accel1", 812, 0, "tpu-run-train.service", "python3 train.py"),
                    ("/dev/accel1", 813, 4999, "", "python3 -c"))
        self.libtpu()
        self.expect(["chips"], 0, stderr="", stdout="""\
DEVICE       PID   USER      UNIT                   COMMAND
/dev/accel0  free  -         -                      -
/dev/accel1  812   root      tpu-run-train.service  python3 train.py
/dev/accel1  813   uid 4999  -                      python3 -c
/dev/accel2  free  -         -                      -
/dev/accel3  free  -         -                      -

as libtpu reported for run train, 3 h ago:
PROCESS  CHIP  HBM USED  OF      DUTY CYCLE  IDLE
0        0     16 GiB    32 GiB  90 %        -
0        1     17 GiB    32 GiB  90 %        -
""")

    def test_an_error_of_libtpu(self):
        self.owners()
        self.libtpu(error="HANG_DETECTED", chips=CHIPS[:1])
        self.assertIn("it reports an error: HANG_DETECTED", self.expect(["chips"], 0, stderr="").stdout)

    def test_json(self):
        self.owners(("/dev/accel3", 812, 0, "u.service", "python3 train.py"))
        self.libtpu()
        got = json.loads(self.expect(["chips", "--json"], 0, stderr="").stdout)
        self.assertEqual([(d["state"], d.get("pid")) for d in got["devices"]],
                         [("free", None)] * 3 + [("held", 812)])
        self.assertEqual(got["chips"], CHIPS)

    def test_a_daemon_away(self):
        """The other's part is shown; a device is not called free because nobody could be asked."""
        self.libtpu(chips=[])
        done = self.expect(["chips"], 0)
        self.assertIn("who holds them is not known", done.stderr)
        self.assertNotIn("free", done.stdout)
        self.assertIn("/dev/accel0  not known", done.stdout)

    def test_both_away(self):
        self.assertNotIn("free", self.expect(["chips"], 3).stdout)

    def test_what_cannot_be_looked_at_is_not_absent(self):
        """A host with more devices than any has: nobody is told that it has none."""
        self.owners()
        self.libtpu()
        bus = self.root / "sys/bus/pci/devices"
        for i in range(5000):
            (bus / f"00{i % 100:02x}:{i // 100:02x}:00.0").mkdir(exist_ok=True)
        done = self.expect(["chips"], 3)
        self.assertIn("the devices cannot be looked at", done.stderr)
        self.assertNotIn("no TPU device", done.stdout)

    def test_not_all_processes_could_be_read(self):
        self.owners(("/dev/accel1", 812, 0, "u.service", "python3"), incomplete=True)
        self.libtpu(chips=[])
        self.assertNotIn("free", self.expect(["chips"], 0).stdout)


if __name__ == "__main__":
    unittest.main()
