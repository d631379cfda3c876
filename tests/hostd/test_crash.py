"""tpu-hostd and tpu-collectord, each killed at random moments: the capture whose call was answered is in the
collector exactly once.

tests/fault/test_kill.py does the same with a generator outside, metrics and kills within calls; here it is
the API's answer.
"""

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import BINARY, Hostd, Launchd, captured, wait_until  # noqa: E402

COLLECTORD = BINARY.parents[2] / "collector/tpu-collectord"
FULL = bool(os.environ.get("FULL"))
KILLS = int(os.environ.get("KILLS", 70 if FULL else 21))
SECONDS = 30 if FULL else 9  # of killing; what is left over is delivered after it
CLIENTS = 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Collector:
    """One tpu-collectord on a port that stays, as its address in the agents' configuration does."""

    def __init__(self, folder):
        self.database, self.output = folder / "collector.db", folder / "collector-output"
        self.port, self.process = free_port(), None

    def start(self):
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen([COLLECTORD, "--config", "/dev/null", "--database",
                                             self.database,
                                             "--listen-otlp", f"127.0.0.1:{self.port}", "--listen-api",
                                             "127.0.0.1:0"],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def rows(self, question, *values):
        db = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)
        try:
            return db.execute(question, values).fetchall()
        finally:
            db.close()


class Crash(unittest.TestCase):
    def setUp(self):
        self.h = Hostd()
        self.addCleanup(self.h.close)
        self.collector = Collector(self.h.folder)
        self.addCleanup(lambda: self.collector.process and self.collector.kill())
        text = self.h.config.read_text().replace("Endpoint=\n",
                                                 f"Endpoint=http://127.0.0.1:{self.collector.port}\n")
        self.h.config.write_text(text.replace("FailAfter=3\nHealAfter=3", "FailAfter=1\nHealAfter=1"))
        slow = self.h.folder / "slow_disk.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", slow, Path(__file__).parent / "slow_disk.c"],
                       check=True)
        self.h.environment = {"LD_PRELOAD": str(slow), "ASAN_OPTIONS": "verify_asan_link_order=0"}
        self.launchd = Launchd(self.h.folder / "launchd.sock")
        self.launchd.server.handle_error = lambda *a: None  # a caller that was killed
        self.addCleanup(self.launchd.stop)
        self.launchd.capture = self._capture
        self.asked, self.answered, self.lock, self.over = 0, {}, threading.Lock(), threading.Event()
        self.random = random.Random(seed := int(os.environ.get("TEST_SEED", time.time())))
        print(f"TEST_SEED={seed}", end=" ", flush=True)

    def _capture(self, name):
        """Each capture has a text of its own, so that its record can be told from all others; some are
        long."""
        with self.lock:
            self.asked += 1
            n = self.asked
        return captured(name, f"capture {n} " + "x" * (n % 13 * n % 30000))

    def _client(self):
        while not self.over.is_set():
            try:
                code, _, body = self.h.call("/v1/runs/train/capture", "POST")
            except OSError:  # killed, or not up again
                time.sleep(0.01)
                continue
            except Exception as e:  # an answer cut off by the kill: nothing was promised
                self.assertIn(type(e).__name__, ("RemoteDisconnected", "IncompleteRead", "BadStatusLine"))
                continue
            if code == 200:
                answer = json.loads(body)
                with self.lock:
                    self.answered[answer["text"]] = (answer["record"]["spool"], answer["record"]["seq"])
            time.sleep(0.01)  # no faster than the collector commits

    def _drift(self):
        n = 0
        while not self.over.wait(0.15):
            n += 1
            self.h.rmem("4096\t131072\t6291456" if n % 2 else "4096\t41943040\t314572800")

    def _kill_at_random(self):
        kills = Counter()
        for i in range(KILLS):
            before = len(self.answered)
            wait_until(lambda: len(self.answered) >= before + 3, 60, "answers between two kills")
            time.sleep(self.random.uniform(0, 0.8 * SECONDS / KILLS))
            which = "hostd" if i % 3 else "collectord"
            kills[which] += 1
            if which == "collectord":
                self.collector.kill()
                time.sleep(self.random.choice((0, 0.1)))
                self.collector.start()
                continue
            self.h.process.send_signal(signal.SIGKILL)
            self.h.process.wait()
            # every third time again while it recovers
            if self.random.randrange(3) == 0:
                once = subprocess.Popen([BINARY, "--root", self.h.root, "--config", self.h.config],
                                        stdin=subprocess.DEVNULL,
                                        # the disk is quick here
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(self.random.uniform(0, 0.03))
                once.kill()
                once.wait()
            self.h.start()
        return kills

    def _delivered(self):
        try:
            return self.h.get("/v1/status")["uplink"]["classes"]["events"]["kept"] == 0
        except OSError:
            return False

    def test_answered_is_stored_once(self):
        self.collector.start()
        self.h.start()
        threads = [threading.Thread(target=f) for f in [self._client] * CLIENTS + [self._drift]]
        for t in threads:
            t.start()
        try:
            kills = self._kill_at_random()
        finally:
            self.over.set()
            for t in threads:
                t.join()
        wait_until(self._delivered, 600, "delivery of all that is spooled")
        self.check(kills)

    def check(self, kills):
        rows = self.collector.rows("SELECT name, body, attributes FROM events ORDER BY id")
        stored = Counter()
        for name, body, attributes in rows:
            if name == "tpu.stack.captured":
                a = json.loads(attributes)
                text = json.loads(body)["text"]
                stored[text] += 1
                if text in self.answered:
                    self.assertEqual((a["tpu.spool.id"], a["tpu.spool.seq"]), self.answered[text])
        numbers = Counter((json.loads(a)["tpu.spool.id"], json.loads(a)["tpu.spool.seq"]) for _, _,
                          a in rows)
        names = Counter(name for name, _, _ in rows)
        print(f"{dict(kills)}, {len(self.answered)} answered, {len(rows)} events in the collector",
              flush=True)
        self.assertEqual([t[:40] for t in self.answered if stored[t] != 1], [])
        self.assertEqual([t[:40] for t, n in stored.items() if n > 1], [])
        self.assertEqual([n for n, times in numbers.items() if times > 1], [], "a number for two records")
        self.assertEqual(len({spool for spool, _ in numbers}), 1)
        self.assertGreaterEqual(len(self.answered), 3 * KILLS)
        self.assertGreater(names["tpu.check.changed"], KILLS // 5)
        self.assertGreater(min(kills.values()), KILLS // 6)
        status = self.h.get("/v1/status")["uplink"]
        self.assertEqual((status["durable"], status["classes"]["events"]["damaged"]), (True, 0), status)


if __name__ == "__main__":
    unittest.main()
