"""The uplink of tpu-hostd against endpoints that behave in every way: refusals, silence, failover, dead
name servers."""

import email.utils
import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import otlp  # noqa: E402
from around import BINARY, wait_until  # noqa: E402
from endpoint import HANG, LORIS, RESET, Answer  # noqa: E402
from uplink_case import Case  # noqa: E402

CTL = BINARY.parents[1] / "ctl/tpuctl"


class Bodies(Case):
    def test_gzip_where_it_pays(self):
        e = self.endpoint().start()
        h = self.hostd(e.url).start()
        wait_until(lambda: len(e.points()) > 300, 10, "metrics")
        packed = [(wire, body) for encoding, wire, body in e.encodings if encoding == "gzip"]
        plain = [body for encoding, _, body in e.encodings if encoding is None]
        self.assertTrue(packed and all(wire <= body * 0.9 for wire, body in packed))
        self.assertTrue(all(body < 1024 for body in plain), plain)
        c = self.uplink(h)["classes"]["metrics"]
        self.assertTrue(0 < c["wire_bytes"] < c["body_bytes"] / 2, c)

    def test_no_gzip_when_told_so(self):
        e = self.endpoint().start()
        self.hostd(e.url, Compression="none").start()
        wait_until(lambda: len(e.points()) > 100, 10, "metrics")
        self.assertEqual({encoding for encoding, _, _ in e.encodings}, {None})

    def test_partial_success_is_counted_and_not_sent_again(self):
        e = self.endpoint(Answer(body=b"\x0a\x07\x08\x03\x12\x03bad")).start()
        h = self.hostd(e.url).start()
        wait_until(lambda: len(e.got) >= 6, 10, "some records")
        self.assertEqual(len(e.records()), len(set(e.records())))
        c = self.uplink(h)["classes"]["metrics"]
        self.assertEqual(c["dropped_by"]["refused: in part"] % 3, 0)
        self.assertGreater(c["dropped_by"]["refused: in part"], 0)
        self.assertEqual(c["retried"], 0)
        self.assertIn("partly refused: bad", self.uplink(h)["last_error"])

    def test_too_large_is_sent_in_parts(self):
        e = self.endpoint().start()
        e.limit = 2000
        h = self.hostd(e.url).start()
        wait_until(lambda: self.uplink(h)["classes"]["metrics"]["sent"] >= 3, 10, "records in parts")
        parts = [(record, len(body)) for path, record, body in e.got if path == "/v1/metrics"]
        self.assertTrue(all(size <= 2000 for _, size in parts))
        self.assertTrue(all(not record for record, _ in parts), "parts do not carry the number of the whole")
        small = {p[1] for p in e.points()}
        e.limit = 1 << 20
        wait_until(lambda: any(len(body) > 4000 for _, _, body in e.got), 10, "one whole")
        whole = {p[1] for path, _, body in e.got if len(body) > 4000 for p in otlp.metrics(body)}
        wide = {n for n in whole - small}  # metrics that alone are larger than the limit
        dropped = self.uplink(h)["classes"]["metrics"]["dropped_by"]["refused: 413 too large"]
        self.assertEqual(bool(wide), dropped > 0)
        self.assertLessEqual(len(wide), 3, wide)
        self.assertGreater(len(small), 10)

    def test_refused_content_is_dropped_by_reason(self):
        e = self.endpoint(lambda path, record: Answer([400, 413, 422][int(record.split("/")[2]) % 3]
                                                      if record else 413)).start()
        h = self.hostd(e.url).start()
        by = lambda: self.uplink(h)["classes"]["metrics"]["dropped_by"]  # noqa: E731
        wait_until(lambda: all(by()[f"refused: {why}"] for why in ("400 malformed", "413 too large",
                                                                   "422 unprocessable")), 10, "each reason")
        self.assertEqual(by()["byte limit"], 0)
        # metrics that are too large come again in parts, without it
        whole = [record for _, _, record in e.tries if record]
        self.assertEqual(len(whole), len(set(whole)))
        self.assertFalse(self.uplink(h)["parked"])


class Tpuctl(Case):
    """tpuctl uplink against the real agent."""

    def hostd(self, endpoint, **uplink):
        h = super().hostd(endpoint, **uplink)
        (h.root / "run/tpu-hostd").mkdir()
        h.api = h.root / "run/tpu-hostd/api.sock"
        h.config.write_text(h.config.read_text().replace(str(h.folder / "api.sock"), str(h.api)))
        return h

    def ctl(self, h, *words):
        return subprocess.run([CTL, "--root", h.root, "uplink", *words], capture_output=True, text=True,
                              timeout=60)

    def test_delivering(self):
        e = self.endpoint().start()
        h = self.hostd(e.url).start()
        wait_until(lambda: len(e.got) >= 4, 10, "records")
        r = self.ctl(h)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout,
                         rf"ENDPOINT +CLASS +STATE +SENT +NEXT TRY +WHY\n{e.url} +events +good +[1-9]")
        self.assertRegex(r.stdout,
                         r"CLASS +WAITING +OLDEST +DISK +SENT +PACKED +RETRIED +DROPPED\nevents +0 ")
        u = json.loads(self.ctl(h, "--json").stdout)
        self.assertGreater(u["classes"]["metrics"]["sent"], 0)
        self.assertEqual(self.ctl(h, "--drain").returncode, 0)

    def test_parked_and_drained(self):
        e = self.endpoint(Answer(401)).start()
        h = self.hostd(e.url).start()
        wait_until(lambda: self.uplink(h)["parked"], 5, "parked")
        time.sleep(2)
        r = self.ctl(h)
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertRegex(r.stdout, r"events +parked +0 +in 5\d s +HTTP 401\n")
        self.assertRegex(r.stdout, r"\nevents +\d+ +[2-9] s ")
        r = self.ctl(h, "--drain", "1s")
        self.assertEqual(r.returncode, 2)
        self.assertRegex(r.stderr, r"\d+ records? in the spool still waits?")
        self.assertEqual(self.ctl(h, "--drain", "soon").returncode, 64)
        e.answer = Answer(503)
        h.stop()
        h.start()
        wait_until(lambda: len(e.tries) > 3, 10, "tries")
        e.answer = Answer()
        r = self.ctl(h, "--drain", "40s")
        self.assertEqual((r.returncode, r.stdout), (0, "everything that was there is delivered\n"))
        self.assertGreater(len(e.got), 3)

    def test_no_endpoint(self):
        h = self.hostd("").start()
        r = self.ctl(h)
        self.assertEqual(r.returncode, 0)
        self.assertIn("no endpoint is configured", r.stdout)


class Answers(Case):
    def test_busy_for_ever_loses_nothing(self):
        e = self.endpoint(Answer(503)).start()
        h = self.hostd(e.url).start()
        wait_until(lambda: len(e.tries) >= 6, 15, "tries")
        u = self.uplink(h)
        self.assertFalse(u["parked"])
        self.assertGreater(u["classes"]["metrics"]["retried"], 0)
        self.assertIsNotNone(u["classes"]["metrics"]["oldest"])
        e.answer = Answer()
        self.expect_all(h, e)

    def test_retry_after_in_both_forms(self):
        for least, form in ((2, lambda: "2"),
                            (2, lambda: email.utils.formatdate(time.time() + 3, usegmt=True))):
            with self.subTest(form()):
                e = self.endpoint(lambda path, record, f=form: Answer(429, {"Retry-After": f()})).start()
                h = self.hostd(e.url).start()
                times = lambda: [[t for t, path, _ in e.tries if path == p] for p in ("/v1/logs", "/v1/metrics")]  # noqa: E731
                wait_until(lambda: all(times()), 5, "a try of each class")
                state = self.uplink(h)["endpoints"][0]["metrics"]
                self.assertEqual(state["state"], "waiting")
                self.assertIsNotNone(state["until"])
                wait_until(lambda: all(len(t) > 1 for t in times()), 10, "another try of each class")
                for t in times():  # full jitter alone would have tried again within 0.5 s
                    self.assertGreaterEqual(t[1] - t[0], least - 0.1)
                e.answer = Answer()
                self.expect_all(h, e)
                h.stop()
                e.stop()

    def test_401_parks_and_keeps(self):
        e = self.endpoint(Answer(401)).start()
        h = self.hostd(e.url).start()
        wait_until(lambda: self.uplink(h)["parked"], 5, "parked")
        wait_until(lambda: any(r["check"] == "uplink.delivery" for r in h.get("/v1/status")["reasons"]), 5,
                   "the check")
        time.sleep(2)
        self.assertEqual(len(e.tries), 2)
        f = self.check(h, "uplink.delivery")
        self.assertEqual(f["verdict"], "FAIL")
        self.assertIn("HTTP 401", f["reason"])
        state = self.uplink(h)["endpoints"][0]["events"]
        self.assertEqual((state["state"], state["why"]), ("parked", "HTTP 401"))
        e.answer = Answer()
        h.stop()
        h.start()
        self.expect_all(h, e)

    def test_answers_that_never_end(self):
        for how in (HANG, LORIS, RESET):
            with self.subTest(how.how):
                e = self.endpoint(how).start()
                h = self.hostd(e.url, Timeout="1s").start()
                wait_until(lambda: self.uplink(h)["classes"]["events"]["retried"] >= 2, 15, "two tries")
                before = time.monotonic()
                for _ in range(50):
                    self.assertEqual(h.call("/healthz")[0], 200)
                # a loop that waits with the upload: up to a second for each
                self.assertLess(time.monotonic() - before, 25)
                e.answer = Answer()
                self.expect_all(h, e)
                e.answer = how
                time.sleep(0.5)  # one is at work
                before = time.monotonic()
                self.assertEqual(h.stop(), 0)
                # 5 s at most for what is left (test_stop.py), on a good machine
                self.assertLess(time.monotonic() - before, 30)
                e.stop()


class Failover(Case):
    def test_to_the_second_and_back(self):
        first, second = self.endpoint().start(), self.endpoint().start()
        h = self.hostd(f"{first.url} {second.url}").start()
        wait_until(lambda: len(first.got) >= 4, 10, "the first")
        self.assertEqual(second.got, [])
        first.answer = Answer(503)
        wait_until(lambda: len(second.got) >= 4, 15, "the second takes over")
        states = self.uplink(h)["endpoints"]
        self.assertEqual((states[0]["metrics"]["state"], states[1]["metrics"]["state"]), ("avoided", "good"))
        tries = len(first.tries)
        time.sleep(3)
        self.assertLessEqual(len(first.tries) - tries, 1)  # left alone
        first.answer = Answer()
        count = len(first.got)
        wait_until(lambda: len(first.got) > count + 3, 60, "back at the first")
        count = len(second.got)
        time.sleep(1)
        self.assertLessEqual(len(second.got) - count, 2)
        self.expect_all(h, first, second)

    def test_one_parked_is_a_warning(self):
        first, second = self.endpoint(Answer(403)).start(), self.endpoint().start()
        h = self.hostd(f"{first.url} {second.url}").start()
        wait_until(lambda: len(second.got) >= 4, 10, "the second")
        f = self.check(h, "uplink.delivery")
        self.assertEqual(f["verdict"], "WARN", f)
        self.assertIn("another endpoint takes them", f["reason"])
        self.assertFalse(self.uplink(h)["parked"])
        self.expect_all(h, second)

    def test_a_dead_first_at_start(self):
        second = self.endpoint().start()
        h = self.hostd(f"http://127.0.0.1:1 {second.url}").start()
        self.expect_all(h, second)


class Names(Case):
    def test_a_name(self):
        e = self.endpoint().start()
        h = self.hostd(f"http://localhost:{e.port}").start()
        self.expect_all(h, e)

    def test_a_name_that_is_none(self):
        second = self.endpoint().start()
        h = self.hostd(f"http://collector.invalid:4318 {second.url}").start()
        self.expect_all(h, second)
        self.assertIn("collector.invalid cannot be looked up", self.uplink(h)["endpoints"][0]["dns_error"])

    def test_proxy_variables_are_ignored(self):
        e = self.endpoint().start()
        h = self.hostd(e.url)
        h.environment = {v: "http://127.0.0.1:1"
                         for v in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY")}
        h.start()
        self.expect_all(h, e)

    def test_a_configured_proxy(self):
        e = self.endpoint().start()  # as a proxy it sees the whole URL as path
        h = self.hostd("http://collector.invalid:4318", Proxy=e.url)
        h.environment = {"no_proxy": "*"}
        h.start()
        wait_until(lambda: len(e.got) >= 3, 10, "requests through the proxy")
        self.assertEqual({path for path, _, _ in e.got}, {"http://collector.invalid:4318/v1/logs",
                                                          "http://collector.invalid:4318/v1/metrics"})

    @unittest.skipUnless(os.geteuid() == 0, "needs root for a network namespace of its own")
    def test_dead_name_servers_stop_nothing(self):
        """A name server that takes questions and never answers: the loop goes on, and so does the end."""
        resolv = self.folder / "resolv.conf"
        resolv.write_text("nameserver 127.0.0.1\n")
        h = self.hostd("http://collector.example:4318")
        h.wrapper = ["unshare", "-n", "-m", "/usr/bin/python3", "-c",
                     "import os, socket, subprocess, sys\n"
                     "subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)\n"
                     f"subprocess.run(['mount', '--bind', '{resolv}', '/etc/resolv.conf'], check=True)\n"
                     "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                     "s.bind(('127.0.0.1', 53)); os.set_inheritable(s.fileno(), True)\n"
                     "os.execv(sys.argv[1], sys.argv[1:])"]
        h.start()
        children = lambda: Path(f"/proc/{h.process.pid}/task/{h.process.pid}/children").read_text().split()  # noqa: E731
        wait_until(children, 5, "a look-up at work")
        slowest = 0
        for _ in range(200):
            before = time.monotonic()
            self.assertEqual(h.call("/healthz")[0], 200)
            slowest = max(slowest, time.monotonic() - before)
            time.sleep(0.01)
        self.assertLess(slowest, 5)  # resolvers give up after 10 s: a loop that waits with one is still then
        wait_until(lambda: "the name servers do not answer" in self.uplink(h)["last_error"]
                   or "Temporary failure" in self.uplink(h)["last_error"], 30,
                   "said so")
        # the loop and the sync thread
        self.assertLessEqual(len(list(Path(f"/proc/{h.process.pid}/task").iterdir())), 2)
        left = wait_until(children, 40, "another look-up at work")
        self.assertEqual(h.stop(), 0)
        self.assertFalse([pid for pid in left if Path(f"/proc/{pid}/exe").exists()])


if __name__ == "__main__":
    unittest.main()
