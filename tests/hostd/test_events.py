#!/usr/bin/python3
"""GET /v1/events: those who wait for the next event, those who fall behind, and what is no such call."""

import ctypes
import json
import os
import queue
import socket
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, wait_until  # noqa: E402

WAITERS, OF_USER = 16, 8
NOBODY = 65534
SETRESUID = 117  # of x86-64
libc = ctypes.CDLL(None, use_errno=True)


class Waiter(threading.Thread):
    """One call; .answer is (status, JSON, seconds)."""

    def __init__(self, h, path, uid=0):
        super().__init__(daemon=True)
        self.h, self.path, self.uid, self.answers = h, path, uid, queue.Queue()
        self.start()

    def run(self):
        if self.uid:  # of this thread alone: the credentials that count are those of connect(2)
            libc.syscall(SETRESUID, self.uid, self.uid, self.uid)
        began = time.monotonic()
        status, _, body = self.h.call(self.path, timeout=120)
        self.answers.put((status, json.loads(body), time.monotonic() - began))

    def answer(self, seconds=120):
        return self.answers.get(timeout=seconds)

    @property
    def waits(self):
        return self.answers.empty()


class Events(unittest.TestCase):
    def setUp(self):
        self.h = Hostd(ProbeInterval="1h").start()  # quiet: events are what the test makes
        self.addCleanup(self.h.close)
        self.h.api.chmod(0o666)
        last = None
        while last != (last := self.now()):  # what the start has to tell is told
            time.sleep(0.8)

    def now(self):
        return self.h.get("/v1/events")["next"]

    def order(self, method="PUT"):
        self.assertEqual(self.h.call("/v1/observe" + ("?reason=x" if method == "PUT" else ""), method)[0],
                         200)

    def test_answered_by_the_event(self):
        since = self.now()
        w = [Waiter(self.h, f"/v1/events?since={since}&wait=30") for _ in range(3)]
        time.sleep(0.3)
        self.assertTrue(all(x.waits for x in w))
        self.assertEqual(self.h.call("/healthz")[2], b"ok\n")  # the loop goes on turning
        self.order()
        for x in w:
            status, answer, seconds = x.answer()
            self.assertEqual((status, answer["events"][0]["seq"], answer["missed"]), (200, since, 0))
            self.assertIn("tpu.api.acted", [e["name"] for e in answer["events"]])
            self.assertEqual(answer["next"], answer["events"][-1]["seq"] + 1)
            self.assertLess(seconds, 28)

    def test_time_is_up(self):
        since = self.now()
        status, answer, seconds = Waiter(self.h, f"/v1/events?since={since}&wait=1").answer()
        self.assertEqual((status, answer), (200, {"events": [], "next": since, "missed": 0}))
        self.assertGreaterEqual(seconds, 0.9)

    def test_no_reason_to_wait(self):
        """There is something; nobody said since when; since is of an agent that is gone."""
        since = self.now()
        for path, wanted in ((f"/v1/events?since={since - 1}&wait=30", since), ("/v1/events?wait=30", since),
                             (f"/v1/events?since={since + 500}&wait=30", since),
                             (f"/v1/events?since={since}", since),
                             (f"/v1/events?since={since}&wait=0", since)):
            status, answer, seconds = Waiter(self.h, path).answer()
            self.assertEqual((status, answer["next"]), (200, wanted), path)
            self.assertLess(seconds, 28, path)

    def test_falls_behind(self):
        """The ring holds 256: what came before them is counted."""
        for _ in range(60):  # several events each
            self.order()
            self.order("DELETE")
            self.h.notified("STATUS")  # systemd reads what it is told
        next_seq = self.now()
        self.assertGreater(next_seq, 300)
        answer = self.h.get("/v1/events?since=3")
        self.assertEqual((len(answer["events"]), answer["next"], answer["missed"]),
                         (256, next_seq, next_seq - 256 - 3))
        self.assertEqual(answer["events"][0]["seq"], 3 + answer["missed"])
        self.assertEqual(self.h.get(f"/v1/events?since={next_seq - 256}")["missed"], 0)
        self.assertEqual(self.h.get("/v1/events")["missed"], 0)

    def test_bounded(self):
        """Nobody has all the places: who comes too late is answered at once, and root still finds one."""
        since = self.now()
        users = [Waiter(self.h, f"/v1/events?since={since}&wait=30", NOBODY) for _ in range(OF_USER + 1)]
        wait_until(lambda: sum(not w.waits for w in users) == 1, 10, "one too many of a user to be answered")
        roots = [Waiter(self.h, f"/v1/events?since={since}&wait=30") for _ in range(WAITERS - OF_USER)]
        time.sleep(0.3)
        self.assertTrue(all(w.waits for w in roots))
        self.assertEqual(Waiter(self.h, f"/v1/events?since={since}&wait=30").answer()[1]["events"], [])
        self.order()
        for w in users + roots:
            self.assertEqual(w.answer()[0], 200)

    def test_gone_clients_leave_their_place(self):
        since = self.now()
        for _ in range(2):
            gone = []
            for _ in range(WAITERS):
                s = socket.socket(socket.AF_UNIX)
                s.connect(str(self.h.api))
                s.sendall(f"GET /v1/events?since={since}&wait=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                gone.append(s)
            for s in gone:
                s.close()
            time.sleep(1.5)
        w = Waiter(self.h, f"/v1/events?since={since}&wait=30")
        time.sleep(0.3)
        self.assertTrue(w.waits)
        self.order()
        self.assertEqual(w.answer()[0], 200)

    def test_shutdown_ends_the_wait(self):
        """At once, and with the event that says so."""
        w = [Waiter(self.h, f"/v1/events?since={self.now()}&wait=30") for _ in range(4)]
        time.sleep(0.3)
        began = time.monotonic()
        self.assertEqual(self.h.stop(), 0)
        self.assertLess(time.monotonic() - began, 28)
        for x in w:
            status, answer, _ = x.answer()
            self.assertEqual((status, [e["name"] for e in answer["events"]]), (200, ["tpu.agent.stopping"]))

    def test_arguments(self):
        """Of every call: unknown and repeated ones, and numbers that are none."""
        for path, method, words in (("/v1/events?since=1&sinse=2", "GET",
                                     "sinse= is not known; this call takes since=, wait="),
                                    ("/v1/events?since=1&since=1", "GET", "since= is given twice"),
                                    ("/v1/events?since=-1", "GET", "since=-1 is no number"),
                                    ("/v1/events?since=", "GET", "since= is no number"),
                                    ("/v1/events?since=9223372036854775808", "GET",
                                     "is no number from 0 up"),
                                    ("/v1/events?since=1x", "GET", "since=1x"),
                                    ("/v1/events?since=1&wait=31", "GET", "from 0 to 30"),
                                    ("/v1/events?wait=%ff%fe", "GET", "wait=??"),
                                    ("/v1/events?%ff=1", "GET", "?= is not known"),
                                    ("/v1/status?x", "GET", "x= is not known; this call takes none"),
                                    ("/v1/cordon?reason=x&untill=2026-11-21T05:00:00Z", "PUT",
                                     "untill= is not known"),
                                    ("/v1/silence?check=nic&reason=x&until=5&until=6", "PUT",
                                     "until= is given twice"),
                                    ("/v1/cordon?reason=x", "DELETE", "this call takes none")):
            status, kind, body = self.h.call(path, method)
            self.assertEqual((status, kind), (400, "application/json"), (path, body))
            self.assertIn(words, json.loads(body)["error"], path)
        self.assertIsNone(self.h.get("/v1/status")["cordon"])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root: it calls as another user")
        sys.exit(77)
    unittest.main()
