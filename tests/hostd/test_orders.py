"""What people order: cordon, drain, observe, silence; by whom, until when, and over restarts and boots of
the agent."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from urllib.parse import urlencode

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from around import Hostd, Launchd, Receiver, has_failed, wait_until  # noqa: E402
from state_file import content_of, text_of  # noqa: E402

WRONG = "4096\t131072\t6291456"
TRAIN = {1: "train", 2: "tpu-run-train.service", 3: "running", 7: "jax", 8: "tcmalloc", 9: "alice",
         10: "python3 train.py", 13: 4242, 14: 2}
AS_NOBODY = """
import http.client, os, socket, sys
os.setgid(65534); os.setuid(65534)
c = http.client.HTTPConnection("localhost"); c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(sys.argv[1])
c.request(sys.argv[2], sys.argv[3]); r = c.getresponse(); print(r.status, r.read().decode())
"""


def at(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


@unittest.skipIf(os.getuid() != 0, "only root may order")
class Orders(unittest.TestCase):
    def hostd(self, **k):
        h = Hostd(**k)
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        self.state = h.folder / "state/health.json"
        self.state.parent.mkdir()
        h.config.write_text(h.config.read_text() + f"StateFile={self.state}\n")
        (h.root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        return h

    def order(self, h, what, status=200, method="PUT", **arguments):
        code, _, body = h.call(f"/v1/{what}" + ("?" + urlencode(arguments) if arguments else ""), method)
        self.assertEqual(code, status, body)
        return json.loads(body)

    def status(self, h):
        return h.get("/v1/status")

    def kill(self, h):
        h.process.send_signal(signal.SIGKILL)
        h.process.wait(60)

    def reboot(self, h):
        boot = h.root / "proc/sys/kernel/random/boot_id"
        boot.write_text("11111111-2222-3333-4444-555555555555\n")

    def test_cordon_survives_kills_and_boots(self):
        h = self.hostd().start()
        answer = self.order(h, "cordon", reason="bad cable", until=at(3600))
        self.assertEqual((answer["reason"], answer["by"]), ("bad cable", "root"))
        self.kill(h)  # at once: an answered order is on the disk
        cordon = self.status(h.start())["cordon"]
        self.assertEqual(cordon, answer)
        self.assertEqual(self.status(h)["state"], "ready")
        self.kill(h)
        self.reboot(h)
        self.assertEqual(self.status(h.start())["cordon"], answer)
        self.order(h, "cordon", method="DELETE")
        self.kill(h)
        self.assertIsNone(self.status(h.start())["cordon"])
        self.order(h, "cordon", 404, method="DELETE")

    def test_kills_at_any_moment(self):
        """Whenever it is killed, the last answered order holds, and the file is whole."""
        h = self.hostd()
        before = None
        for i in range(12):
            h.start()
            self.assertEqual((self.status(h)["cordon"] or {}).get("reason"), before)
            self.assertEqual(h.events("tpu.health.lost"), [])
            threading.Timer(i * 3 % 10 / 100, h.process.kill).start()
            for k in range(100000):
                try:
                    code, _, body = h.call(f"/v1/cordon?reason=r{i}.{k}", "PUT")
                    self.assertEqual(code, 200, body)
                    before = f"r{i}.{k}"
                except (OSError, http.client.HTTPException):
                    break
            h.process.wait(60)
            h.start()  # what was asked but not answered may be there or not
            now = (self.status(h)["cordon"] or {}).get("reason")
            self.assertIn(now, (before, f"r{i}.{k}"))
            before = now
            self.kill(h)

    def test_events_and_reasons(self):
        r = Receiver().start()
        self.addCleanup(r.stop)
        h = self.hostd(endpoint=f"http://127.0.0.1:{r.port}").start()
        wait_until(lambda: h.events("tpu.host.state_changed"), 10, "the first state")
        self.order(h, "cordon", reason="bad cable")
        event, = h.events("tpu.host.cordoned")
        self.assertEqual({k: event["body"][k] for k in ("reason", "by", "until")},
                         {"reason": "bad cable", "by": "root", "until": "no end"})
        told = h.events("tpu.host.state_changed")[-1]["body"]
        self.assertEqual((told["to"], told["reasons"]), ("ready", "cordoned by root: bad cable"))
        audit = h.events("tpu.api.acted")[-1]["body"]
        self.assertEqual((audit["call"], audit["uid"], audit["result"]), ("PUT /v1/cordon", 0, "bad cable"))
        wait_until(lambda: any(p[1] == "tpu.host.ordered" and p[4] == {"tpu.host.order": "cordon"}
                               and p[5] == 1
                               for p in r.points()), 10, "the metric")
        h.rmem(WRONG)
        wait_until(lambda: self.status(h)["state"] != "ready", 10, "the drift")
        wait_until(lambda: "bad cable; sysctl" in h.events("tpu.host.state_changed")[-1]["body"]["reasons"],
                   5, "both reasons")
        self.order(h, "cordon", method="DELETE")
        self.assertEqual(len(h.events("tpu.host.uncordoned")), 1)
        self.assertNotIn("cordon", h.events("tpu.host.state_changed")[-1]["body"]["reasons"])

    def test_an_end(self):
        h = self.hostd().start()
        self.order(h, "cordon", reason="short", until=at(2))
        wait_until(lambda: self.status(h)["cordon"] is None, 10, "its end")
        event, = h.events("tpu.host.uncordoned")
        self.assertEqual((event["body"]["by"], event["body"]["ordered_by"]), ("its end", "root"))
        self.kill(h)
        self.assertIsNone(self.status(h.start())["cordon"])

    def test_drain(self):
        h = self.hostd().start()
        daemon = Launchd(h.folder / "launchd.sock")
        self.addCleanup(daemon.stop)
        daemon.runs = [{**TRAIN, 11: time.time_ns() // 1000}]
        wait_until(lambda: self.status(h)["live_runs"] == 1, 10, "the run")
        self.assertFalse(self.order(h, "drain", reason="new kernel").get("drained"))
        time.sleep(0.7)
        self.assertEqual(h.events("tpu.host.drained"), [])
        daemon.runs = [{**daemon.runs[0], 3: "exited", 4: "success", 12: time.time_ns() // 1000}]
        wait_until(lambda: self.status(h)["drain"]["drained"], 10, "drained")
        self.assertIn("drained by root", h.events("tpu.host.state_changed")[-1]["body"]["reasons"])
        self.kill(h)
        h.start()
        wait_until(lambda: self.status(h)["live_runs"] == 0, 10, "the runs to be known")
        time.sleep(0.7)
        self.assertEqual(h.events("tpu.host.drained"), [])  # told before
        self.assertTrue(self.status(h)["drain"]["drained"])

    def test_drain_asks_anew(self):
        """A run that started after the last answer of tpu-launchd."""
        h = self.hostd(MetricsInterval="2s")
        daemon = Launchd(h.folder / "launchd.sock")
        self.addCleanup(daemon.stop)
        h.start()
        wait_until(lambda: self.status(h)["live_runs"] == 0, 10, "no run")
        daemon.runs = [{**TRAIN, 11: time.time_ns() // 1000}]
        self.order(h, "drain", reason="x")
        time.sleep(4)
        self.assertFalse(self.status(h)["drain"]["drained"])
        daemon.runs = []
        wait_until(lambda: self.status(h)["drain"]["drained"], 10, "drained")

    def test_drain_of_unknown_runs_waits(self):
        h = self.hostd().start()
        self.order(h, "drain", reason="x")
        time.sleep(1)
        self.assertFalse(self.status(h)["drain"]["drained"])

    def test_silence(self):
        h = self.hostd().start()
        h.rmem(WRONG)
        bad = wait_until(lambda: self.status(h)["reasons"], 10, "the drift")[0]
        self.order(h, "silence", check=bad["check"], subject=bad["subject"], reason="known", until=at(3600))
        status = self.status(h)
        self.assertEqual((status["state"], status["reasons"]), ("ready", []))
        self.assertEqual([(s["check"], s["subject"], s["reason"]) for s in status["silences"]],
                         [(bad["check"], bad["subject"], "known")])
        check, = [c for c in h.get("/v1/checks")["checks"]
                  if (c["check"], c["subject"]) == (bad["check"], bad["subject"])]
        self.assertTrue(check["silenced"] and check["settled"] != "OK")
        self.kill(h)
        h.start()
        time.sleep(0.5)
        self.assertEqual(self.status(h)["state"], "ready")
        h.rmem("4096\t41943040\t314572800")
        wait_until(lambda: h.events("tpu.check.changed"), 10, "still an event")
        last = h.events("tpu.check.changed")[-1]
        self.assertEqual((last["body"]["to"], last["body"]["silenced"], last["severity"]),
                         ("OK", "known", "INFO"))
        h.rmem(WRONG)
        wait_until(lambda: len(h.events("tpu.check.changed")) == 2, 10, "still an event")
        self.order(h, "silence", method="DELETE", check=bad["check"], subject=bad["subject"])
        self.assertNotEqual(self.status(h)["state"], "ready")

    def test_observe(self):
        h = self.hostd().start()
        self.assertEqual(self.status(h)["mode"], "repair")
        self.order(h, "observe")
        self.assertEqual(self.status(h)["mode"], "observe")
        self.kill(h)
        self.assertEqual(self.status(h.start())["mode"], "observe")
        self.order(h, "observe", method="DELETE")
        self.assertEqual(self.status(h)["mode"], "repair")
        site = h.root / "etc/tpu-hostd/netcfg.conf.d/10.conf"
        site.parent.mkdir(parents=True, exist_ok=True)
        h.config.write_text(h.config.read_text() + "[Netcfg]\nMode=observe\n")
        site.write_text("[Netcfg]\nMode=observe\n")
        h.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.status(h)["mode"] == "observe", 5, "the configuration")
        self.assertEqual((self.status(h)["observe"], self.status(h)["observe_configured"]), (None, True))

    def test_refused(self):
        h = self.hostd().start()
        h.folder.chmod(0o755)
        for method, path in (("PUT", "/v1/cordon?reason=x"), ("DELETE", "/v1/cordon"),
                             ("PUT", "/v1/silence?check=nic&reason=x")):
            said = subprocess.run(["/usr/bin/python3", "-c", AS_NOBODY, h.api, method, path],
                                  capture_output=True, text=True, check=True).stdout
            self.assertTrue(said.startswith("403 "), said)
        self.assertIsNone(self.status(h)["cordon"])
        self.assertIn("only root", h.events("tpu.api.acted")[-1]["body"]["result"])
        for status, what, arguments in (
                (400, "cordon", {}), (400, "cordon", {"reason": "x" * 200}),
                (400, "cordon", {"reason": "a\nb"}),
                (400, "cordon", {"reason": "x", "until": "soon"}),
                (400, "cordon", {"reason": "x", "until": at(-5)}),
                (400, "cordon", {"reason": "x", "until": at(400 * 86400)}),
                (400, "silence", {"reason": "x", "check": "nic"}),
                (400, "silence", {"reason": "x", "until": at(60)}),
                (404, "silence", {"reason": "x", "until": at(60), "check": "nic.mut"}),
                (400, "silence", {"reason": "x", "until": at(60), "check": "n" * 40})):
            with self.subTest(what, **arguments):
                self.assertTrue(self.order(h, what, status, **arguments)["error"])
        self.assertEqual(h.call("/v1/cordon", "POST")[0], 405)

    def test_damage_is_told_and_kept(self):
        h = self.hostd().start()
        self.order(h, "cordon", reason="bad cable")
        self.kill(h)
        whole = self.state.read_bytes()
        self.state.write_bytes(whole[:len(whole) // 2])
        h.start()
        self.assertIsNone(self.status(h)["cordon"])
        lost, = h.events("tpu.health.lost")
        self.assertEqual(lost["body"]["kept_as"], "health.json.damaged")
        self.assertEqual((self.state.parent / "health.json.damaged").read_bytes(), whole[:len(whole) // 2])
        self.order(h, "cordon", reason="again")
        self.kill(h)
        self.assertEqual(self.status(h.start())["cordon"]["reason"], "again")

    def test_another_version_is_told_and_kept(self):
        h = self.hostd().start()
        self.order(h, "cordon", reason="bad cable")
        self.kill(h)
        text = text_of("health", content_of(self.state), 2)
        self.state.write_text(text)
        h.start()
        self.assertIsNone(self.status(h)["cordon"])
        self.assertIn("version 2", h.events("tpu.health.lost")[0]["body"]["reason"])
        self.assertEqual((self.state.parent / "health.json.other-version").read_text(), text)

    def test_a_restart_is_no_news_a_boot_forgets(self):
        h = self.hostd().start()
        h.rmem(WRONG)
        bad = wait_until(lambda: self.status(h)["reasons"], 10, "the drift")[0]
        time.sleep(0.5)  # the write of it is behind its event
        self.kill(h)
        h.start()
        wait_until(lambda: self.status(h)["reasons"], 10, "the drift after the restart")
        time.sleep(0.5)
        after = self.status(h)["reasons"][0]
        self.assertEqual((after["since"][:19], after["worsened"]), (bad["since"][:19], 1))
        self.assertEqual(h.events("tpu.check.changed") + h.events("tpu.host.state_changed"), [])
        self.kill(h)
        self.reboot(h)
        h.rmem("4096\t41943040\t314572800")
        h.start()
        wait_until(lambda: self.status(h)["state"] == "ready", 10, "what is so now")
        checks = [c for c in h.get("/v1/checks")["checks"] if c["check"] == bad["check"]
                  and c["subject"] == bad["subject"]]
        self.assertEqual([(c["settled"], c["worsened"]) for c in checks], [("OK", 0)])
        self.assertEqual(h.events("tpu.check.changed"), [])

    def test_a_disk_that_cannot_be_written(self):
        h = self.hostd()
        h.start()
        self.state.parent.rename(self.state.parent.with_name("gone"))
        self.assertIn("ends with the next restart", self.order(h, "cordon", 500, reason="x")["error"])
        self.assertEqual(self.status(h)["cordon"]["reason"], "x")
        self.state.parent.with_name("gone").rename(self.state.parent)
        self.order(h, "drain", reason="y")
        self.kill(h)
        self.assertEqual(self.status(h.start())["cordon"]["reason"], "x")


if __name__ == "__main__":
    unittest.main()
