"""The site's hook: once an event, the fields in its environment, killed, counted, held by rate, by mode and by the fleet's state."""

import datetime
import http.server
import json
import os
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, has_failed, wait_until  # noqa: E402


class Fleet:
    """GET /api/v1/hosts of a collector."""

    def __init__(self):
        self.hosts, self.asked = [], 0
        fleet = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                fleet.asked += self.path == "/api/v1/hosts"
                data = json.dumps({"hosts": fleet.hosts}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *a):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@unittest.skipIf(os.getuid() != 0, "only root may order what the hook is run for")
class Hook(unittest.TestCase):
    def start(self, script, **hook):
        h = Hostd()
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        self.command, self.log = h.folder / "hook", h.folder / "log"
        self.command.write_text("#!/bin/sh\n" + script.replace("LOG", str(self.log)))
        self.command.chmod(0o755)
        settings = {"Command": f"{self.command} one two", "Jitter": "100ms", "Events": "tpu.host.cordoned tpu.host.uncordoned", **hook}
        h.config.write_text(h.config.read_text() + "[Hook]\n" + "".join(f"{k}={v}\n" for k, v in settings.items()))
        h.start()
        wait_until(lambda: h.get("/v1/checks")["checks"], 5, "the checks")
        return h

    def cordon(self, h, reason="x"):
        self.assertEqual(h.call(f"/v1/cordon?reason={reason}", "PUT")[0], 200)

    def lines(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_once_an_event_with_its_fields(self):
        h = self.start('env | sort > LOG.env; echo "$1 $2 $TPU_EVENT $TPU_REASON" >> LOG; tr "\\0" " " </proc/self/status | grep -c CapEff >> /dev/null')
        self.cordon(h, "a%20$(touch%20LOG.shell)%20b")
        h.call("/v1/cordon", "DELETE")
        wait_until(lambda: len(self.lines()) == 2, 10, "both calls")
        time.sleep(0.7)
        self.assertEqual(self.lines(), ["one two tpu.host.cordoned a $(touch LOG.shell) b", "one two tpu.host.uncordoned a $(touch LOG.shell) b"])
        environment = dict(line.split("=", 1) for line in Path(f"{self.log}.env").read_text().splitlines() if "=" in line)
        self.assertEqual({k: environment[k] for k in ("TPU_HOST", "TPU_SLICE", "TPU_WORKER", "TPU_BY", "TPU_SEVERITY", "TPU_ORDER")},
                         {"TPU_HOST": "t1v-n-0a1b2c3d-w-0", "TPU_SLICE": "v6e-a", "TPU_WORKER": "0", "TPU_BY": "uid 0", "TPU_SEVERITY": "INFO",
                          "TPU_ORDER": "cordon"})
        self.assertEqual([k for k in environment if k.startswith("TPU_HOSTD") or k in ("NOTIFY_SOCKET", "WATCHDOG_USEC")], [])
        self.assertIn('tpu_hook_calls_total{result="done"} 2', h.call("/metrics")[2].decode())

    def test_failure_is_told(self):
        h = self.start("exit 7", PerMinute=50)
        self.cordon(h)
        failed = wait_until(lambda: h.events("tpu.hook.failed"), 5, "the failure")[0]["body"]
        self.assertEqual((failed["event"], failed["reason"]), ("tpu.host.cordoned", "exit code 7"))
        self.cordon(h, "again")
        wait_until(lambda: 'result="failed"} 2' in h.call("/metrics")[2].decode(), 5, "the second failure")
        times = [datetime.datetime.fromisoformat(e["time"]) for e in h.events("tpu.hook.failed")]
        self.assertTrue(len(times) == 1 or (times[-1] - times[0]).total_seconds() > 59, times)  # once a minute

    def test_timeout_is_told(self):
        h = self.start("sleep 600 & echo $! > LOG.pid; sleep 600", Timeout="500ms", PerMinute=50)
        self.cordon(h)
        failed = wait_until(lambda: h.events("tpu.hook.failed"), 5, "the timeout")[0]["body"]
        self.assertRegex(failed["reason"], "^killed after ")
        child = Path(f"{self.log}.pid").read_text().strip() if Path(f"{self.log}.pid").exists() else ""
        if child:  # else it was killed before it began one
            wait_until(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2], 5, "its child's end")

    def test_one_that_cannot_be_run(self):
        h = self.start("", Command="/nonexistent/command")
        self.cordon(h)
        wait_until(lambda: h.events("tpu.hook.failed"), 5, "the failure")
        self.assertIn("/nonexistent/command cannot be run", h.output.read_text())

    def test_rate(self):
        h = self.start("echo x >> LOG", PerMinute=3, Jitter="0")
        for i in range(8):
            self.cordon(h, f"r{i}")
        wait_until(lambda: len(self.lines()) == 3, 5, "three calls")
        time.sleep(0.5)
        self.assertEqual(len(self.lines()), 3)
        held, = h.events("tpu.hook.held")
        self.assertIn("PerMinute=", held["body"]["reason"])
        self.assertIn('tpu_hook_calls_total{result="held"} 5', wait_until(lambda: (t := h.call("/metrics")[2].decode()) and 'held"} 5' in t and t, 5, "the count"))

    def test_observing_holds(self):
        h = self.start("echo $TPU_EVENT >> LOG")
        self.assertEqual(h.call("/v1/observe", "PUT")[0], 200)
        self.cordon(h)
        self.assertIn("only observe", wait_until(lambda: h.events("tpu.hook.held"), 5, "the word")[0]["body"]["reason"])
        self.assertEqual(self.lines(), [])

    def test_the_brake(self):
        fleet = Fleet()
        self.addCleanup(lambda: fleet.server and fleet.stop())
        fleet.hosts = [{"name": n, "slice": "v6e-a", "state": "ready", "reasons": None, "age_seconds": 1} for n in ("t1v-n-0a1b2c3d-w-0", "w1", "w2", "w3")]
        h = self.start("echo $TPU_REASON >> LOG", Collector=fleet.url, PerMinute=50)
        self.cordon(h, "alone")
        wait_until(lambda: self.lines() == ["alone"], 10, "the call")
        fleet.hosts[2]["reasons"] = "draining by root: y"
        self.cordon(h, "second")
        held = wait_until(lambda: h.events("tpu.hook.held"), 10, "the brake")
        self.assertIn("out of service already", held[0]["body"]["reason"])
        fleet.hosts[2]["reasons"] = None
        self.cordon(h, "third")
        wait_until(lambda: self.lines() == ["alone", "third"], 10, "the call after it")
        self.assertEqual(fleet.asked, 3)
        fleet.stop()
        fleet.server = None
        self.cordon(h, "away")
        wait_until(lambda: 'result="held"} 2' in h.call("/metrics")[2].decode(), 15, "the brake of a collector that is away")
        self.assertEqual(self.lines(), ["alone", "third"])

    def test_bad_configuration(self):
        h = self.start("", Command="relative", Events="tpu.host.cordoned tpu.nonsense", Brake=0)
        said = h.output.read_text()
        for text in ("Command=relative: not an absolute path", "'tpu.nonsense' is no event", "Brake=0: must be from 1 to 100"):
            self.assertIn(text, said)


if __name__ == "__main__":
    unittest.main()
