#!/usr/bin/python3
"""A fight over a setting on a booted host: a unit sets a sysctl again and again. The contest is shown by
check, status, event and fleet with setting, both values, how often and since when, and with the writer or
the reason why nobody saw it. It ends by what the check says to type.

Needs root and the packages in build/debs.
"""

import json
import os
import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402
import slices                    # noqa: E402

KEY = "net.ipv4.tcp_slow_start_after_idle"
FIGHTER = f"[Service]\nExecStart=/bin/sh -c 'while :; do sysctl -qw {KEY}=1; sleep 0.3; done'\n"
SINCE = r"contested since \S+.*: changed [2-9]\d* times after our repairs, last to '1'"
SEEN = r" by pid \d+ \(sysctl -qw \S+\) of fighter\.service"
NOT_SEEN = r"; writer not seen \([^)]+\)"


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Contest(unittest.TestCase):
    def test_a_fight(self):
        with slices.lab(1, per_slice=1, folder=os.environ.get("TPU_HOSTD_DEBS")) as lab:
            self.fight(lab.hosts[0])

    def line(self, h):
        done = h.run(["tpuctl", "check", "sysctl", "--json"], user="nobody")
        return next((c for c in json.loads(done.out)["checks"] if c["subject"] == KEY), None)

    def events(self, h, name):
        return [e for e in scenario.ctl_json(h, "events", "--since", "10m")["events"] if e["name"] == name]

    def fight(self, h):
        h.write("/run/systemd/system/fighter.service", FIGHTER)
        h.sh("systemctl daemon-reload; systemctl start fighter")
        line = h.wait_for(lambda: (c := self.line(h)) and "contested" in c["reason"] and c, 30, "the check")
        print(f"  check: {line['verdict']} {line['reason']} → {line['remedy']}")
        self.assertEqual((line["verdict"], line["found"], line["wanted"]), ("WARN", "1", "0"))
        self.assertRegex(line["reason"], SINCE)
        # who it is says tpu-hostd, at its next tick
        told = re.compile(f"{SINCE}({SEEN}|{NOT_SEEN})")
        line = h.wait_for(lambda: told.search((c := self.line(h))["reason"]) and c, 30, "who sets it")
        print(f"  check: {line['reason']} → {line['remedy']}")
        event = h.wait_for(lambda: self.events(h, "tpu.netcfg.contested"), 60, "the event")[0]
        print(f"  event: {json.dumps(event)}")
        self.assertRegex(json.dumps(event), "last to '1'")
        status = h.wait_for(lambda: [r for r in scenario.ctl_json(h, "status")["reasons"]
                                     if "contested" in r["reason"]], 120, "the status")[0]
        self.assertEqual((status["check"], status["subject"]), ("sysctl", KEY))
        # the fleet has the check among the host's reasons, and the event with all the words
        h.wait_for(lambda: KEY in json.dumps(scenario.ctl_json(h, "fleet")), 60, "the fleet")
        sql = "SELECT count(*) FROM events WHERE name = 'tpu.netcfg.contested'"
        h.wait_for(lambda: scenario.query(h.lab, sql)[0][0], 60, "the fleet's event")
        if "writer not seen" in line["reason"]:
            h.sh("systemctl stop fighter")  # which no program of this kernel could name
        for part in line["remedy"].replace("sudo ", "").split(";"):
            if part.strip().startswith(("systemctl stop", "sed")):
                h.sh(part)
        h.sh("tpu-netcfg --once", check=False)  # 1: it has changed something
        if "tpu-netcfg --once" not in line["remedy"]:
            self.fail(line["remedy"])
        h.wait_for(lambda: self.line(h)["verdict"] == "OK", 30, "its end")
        h.wait_for(lambda: self.events(h, "tpu.netcfg.uncontested"), 60, "the event of its end")
        h.sh(f"sysctl -qw {KEY}=1")  # a single change is repaired again
        h.wait_for(lambda: h.sh(f"sysctl -n {KEY}").strip() == "0", 10, "the repair")


if __name__ == "__main__":
    unittest.main(verbosity=2)
