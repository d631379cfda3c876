#!/usr/bin/python3
"""tpuctl cordon, drain, silence and mode: what is asked of tpu-hostd and what is shown of it."""
import datetime
import time
import unittest
import urllib.parse

from ctl_case import Ctl
from stand_ins import field

ORDER = {"reason": "bad cable", "by": "root (login ada)", "since": "2026-11-21T05:00:00Z",
         "until": "2026-11-21T10:00:00Z"}
ORDERED = {"cordon": ORDER, "drain": None, "observe": None, "observe_configured": False, "mode": "repair",
           "silences": [
    {"check": "nic.mtu", "subject": "eth1", "reason": "known", "by": "root", "since": "2026-11-21T05:00:00Z",
     "until": "2026-11-22T05:00:00Z"}]}


class Orders(Ctl):
    def asked(self, daemon):
        return [(m, urllib.parse.urlsplit(p).path,
                 dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(p).query))) for m, p in daemon.seen]

    def test_cordon(self):
        daemon = self.hostd()
        daemon.answers["PUT", "/v1/cordon"] = (200, ORDER)
        before = time.time()
        self.expect(["cordon", "bad", "cable & more", "--until", "5h"], 0, stderr="",
                    stdout="cordoned by root (login ada) until 2026-11-21T10:00:00Z: bad cable\n")
        (method, path, arguments), = self.asked(daemon)
        self.assertEqual((method, path, arguments["reason"]), ("PUT", "/v1/cordon", "bad cable & more"))
        until = datetime.datetime.fromisoformat(arguments["until"]).timestamp()
        self.assertTrue(before + 5 * 3600 - 1 <= until <= time.time() + 5 * 3600 + 1)
        daemon.answers["PUT", "/v1/drain"] = (200, ORDER | {"until": None})
        self.expect(["drain", "--until=2026-12-24T00:00:00Z", "x"], 0,
                    stdout="draining by root (login ada): bad cable\n")
        self.assertEqual(self.asked(daemon)[-1][2], {"reason": "x", "until": "2026-12-24T00:00:00Z"})

    def test_uncordon(self):
        daemon = self.hostd()
        self.expect(["uncordon"], 0, stderr="", stdout="this host was neither cordoned nor draining\n")
        daemon.answers["DELETE", "/v1/drain"] = (200, ORDER)
        self.expect(["uncordon"], 0,
                    stdout="ended: by root (login ada) until 2026-11-21T10:00:00Z: bad cable\n")
        daemon.answers["DELETE", "/v1/cordon"] = (403, {"error": "only root may", "remedy": "sudo tpuctl"})
        self.expect(["uncordon"], 1, stdout="", stderr="tpuctl: only root may\nto do:  sudo tpuctl\n")

    def test_silence_and_mode(self):
        daemon = self.hostd()
        daemon.answers["PUT", "/v1/silence"] = daemon.answers["DELETE", "/v1/silence"] = (200, ORDER)
        daemon.answers["PUT", "/v1/observe"] = (200, ORDER | {"reason": "", "until": None})
        self.expect(["silence", "nic.mtu:eth1", "--until", "3d", "known"], 0)
        self.assertEqual({k: v for k, v in self.asked(daemon)[-1][2].items() if k != "until"},
                         {"check": "nic.mtu", "subject": "eth1", "reason": "known"})
        self.expect(["unsilence", "nic"], 0)
        self.assertEqual(daemon.seen[-1], ("DELETE", "/v1/silence?check=nic"))
        self.expect(["mode", "observe"], 0, stdout="observing by root (login ada)\n")
        daemon.answers["GET", "/v1/status"] = (200, ORDERED | {"observe_configured": True})
        done = self.expect(["mode", "repair"], 0, stdout="nobody had ordered to observe\n")
        self.assertIn("Mode=observe of the configuration", done.stderr)

    def test_shown(self):
        daemon = self.hostd()
        daemon.answers["GET", "/v1/status"] = (200,
                                               {"host": "h", "state": "ready", "reasons": [], **ORDERED})
        shown = ["cordoned by root (login ada) until 2026-11-21T10:00:00Z: bad cable",
                 "nic.mtu:eth1 silenced by root until 2026-11-22T05:00:00Z: known"]
        self.assertEqual([line.split(None, 1)[1] for line in self.expect(["status"], 0).stdout.splitlines()
                          if line.startswith("ordered ")], shown)
        self.assertEqual([line.split(None, 1)[1]
                          for line in self.expect(["check", "memory"], 0).stdout.splitlines()
                          if line.startswith("ordered:")], shown)

    def test_run_refuses(self):
        daemon, launchd = self.hostd(), self.launchd()
        launchd.answers[20] = (21, field(1, "r") + field(2, "tpu-run-r.service"))
        daemon.answers["GET", "/v1/status"] = (200, ORDERED)
        done = self.expect(["run", "--name", "r", "--", "true"], 1, stdout="")
        self.assertIn("this host is cordoned by root (login ada): bad cable\nto do:  sudo tpuctl uncordon",
                      done.stderr)
        self.assertEqual(launchd.seen, [])
        self.expect(["run", "--despite-cordon", "--name", "r", "--", "true"], 0,
                    stdout="r started as tpu-run-r.service\nwatch: tpuctl runs\nlines: tpuctl logs -f r\n"
                           "stop:  tpuctl stop r\n")
        daemon.answers["GET", "/v1/status"] = (200, ORDERED | {"cordon": None})
        self.expect(["run", "--name", "r", "--", "true"], 0, stderr="")


if __name__ == "__main__":
    unittest.main()
