#!/usr/bin/python3
"""tpu-hostd is told to stop: what it recorded is delivered first where that is a matter of moments, and
nothing holds it up."""

import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import otlp  # noqa: E402
from around import BINARY, Hostd, wait_until  # noqa: E402
from endpoint import HANG, Answer, Endpoint  # noqa: E402


class Stop(unittest.TestCase):
    def endpoint(self, answer=None, port=0):
        e = Endpoint(answer or Answer(), port).start()
        self.addCleanup(e.stop)
        return e

    def hostd(self, url, **settings):
        h = Hostd(url, **settings)
        self.addCleanup(lambda: h.close(failed=bool(self._outcome and not self._outcome.success)))
        return h

    def stop(self, h):
        """Seconds until it had ended, with 0."""
        start = time.monotonic()
        self.assertEqual(h.stop(), 0)
        return time.monotonic() - start

    def delivered(self, e):
        return {record for path, record, _ in e.got}

    def waiting(self, h):
        """Records in the spool, by a start without an endpoint."""
        h.config.write_text("".join(line + "\n" for line in h.config.read_text().splitlines()
                                    if not line.startswith("Endpoint=")))
        return {name: c["kept"] for name, c in h.start().get("/v1/status")["uplink"]["classes"].items()}

    def names(self, e):
        return [name for path, _, body in list(e.got) if path == "/v1/logs" for _, name,
                *_ in otlp.logs(body)]

    def test_what_was_recorded_is_delivered_first(self):
        """Events and metrics alike, a last word included; metrics wait up to a second for the disk
        otherwise."""
        e = self.endpoint()
        h = self.hostd(e.url, MetricsInterval="2s").start()
        wait_until(lambda: e.points(), 10, "metrics")
        seq = h.get("/v1/status")["uplink"]["classes"]["metrics"]["next_seq"]
        took = self.stop(h)
        print(f"stopped after {took:.2f} s", file=sys.stderr)
        self.assertIn("tpu.agent.stopping", self.names(e))
        self.assertGreaterEqual(max(int(r.split("/")[2]) for r in self.delivered(e) if "/metrics/" in r),
                                seq - 1)
        self.assertEqual(self.names(e).count("tpu.agent.stopping"), 1)
        self.assertNotIn("stay in the spool", h.output.read_text())
        self.assertEqual(self.waiting(h)["metrics"], 0)

    def test_a_collector_that_is_away_does_not_hold_it_up(self):
        e = self.endpoint()
        h = self.hostd(e.url).start()
        wait_until(lambda: e.points(), 10, "metrics")
        e.stop()
        wait_until(lambda: h.get("/v1/status")["uplink"]["last_error"], 10, "an exchange that failed")
        self.stop(h)
        self.assertIn("stay in the spool until the next start: no endpoint takes them now",
                      h.output.read_text())
        self.assertNotIn("not delivered within", h.output.read_text())
        self.again(h, e.port)

    def again(self, h, port):
        """Nothing is lost: the next start delivers what was left."""
        e = self.endpoint(port=port)
        h.start()
        wait_until(lambda: {"tpu.agent.stopping", "tpu.agent.started"} <= set(self.names(e)), 10,
                   "what was left")

    def test_one_that_never_answers_holds_it_up_for_5_s(self):
        e = self.endpoint()
        h = self.hostd(e.url).start()
        wait_until(lambda: e.points(), 10, "metrics")
        e.answer = HANG
        self.assertGreater(self.stop(h), 4.5)
        self.assertIn("not delivered within 5 s", h.output.read_text())
        e.answer = Answer()
        h.start()
        wait_until(lambda: "tpu.agent.stopping" in self.names(e), 20, "what was left")

    def test_a_second_signal_ends_it_at_once(self):
        e = self.endpoint()
        h = self.hostd(e.url).start()
        wait_until(lambda: e.points(), 10, "metrics")
        e.answer = HANG
        h.process.send_signal(signal.SIGTERM)
        wait_until(lambda: h.notified("STOPPING=1"), 5, "STOPPING=1")
        self.stop(h)
        self.assertNotIn("not delivered within", h.output.read_text())

    def test_without_an_endpoint(self):
        h = self.hostd("").start()
        self.stop(h)
        self.assertNotIn("not delivered within", h.output.read_text())
        self.assertEqual(h.start().get("/v1/status")["uplink"]["durable"], True)


if __name__ == "__main__":
    assert BINARY.exists(), BINARY
    unittest.main()
