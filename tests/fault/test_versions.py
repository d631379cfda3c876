"""Agent, spool and collector of this version and of an older one, together and one after the other: nothing is lost on the way up or down.

The older ones' files are fixtures; with FULL=1 and git's history their programs are built and take part."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "hostd"))
import around  # noqa: E402
import older  # noqa: E402
from around import TOP, free_port, wait_until  # noqa: E402
from uplink_case import Case  # noqa: E402

FIXTURES = TOP / "tests/fixtures/versions"
OLDER = "c0fdd6b"  # database schema 1, a spool without ledger
BUILD = around.BINARY.parents[2]
NEW = {"agent": around.BINARY, "collector": BUILD / "collector/tpu-collectord"}


class Versions(Case):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.h = self.hostd(f"http://127.0.0.1:{self.port}")
        # no faster than a collector on a slow disk takes them
        self.h.config.write_text(self.h.config.read_text().replace("MetricsInterval=300ms", "MetricsInterval=1s"))
        self.collector, self.db = None, self.h.folder / "collector.db"
        self.addCleanup(self.end)

    def unpack(self, *names):
        for name in names:
            with tarfile.open(FIXTURES / f"{name}.tar.xz") as t:
                t.extractall(self.h.folder)

    def begin(self, agent, collector):
        """Both, until all that is spooled is delivered."""
        around.BINARY = agent
        self.addCleanup(setattr, around, "BINARY", NEW["agent"])
        with open(self.h.folder / "collector-output", "ab") as out:
            self.collector = subprocess.Popen([collector, "--config", "/dev/null", "--database", self.db, "--listen-otlp", f"127.0.0.1:{self.port}",
                                               "--listen-api", "127.0.0.1:0"], stdout=out, stderr=out)
        self.h.start()
        wait_until(lambda: all(c["kept"] <= 1 for c in self.uplink(self.h)["classes"].values()), 60, "delivery")
        return {name: c["next_seq"] for name, c in self.uplink(self.h)["classes"].items()}

    def end(self):
        if self.h.process and self.h.process.poll() is None:
            self.h.stop()
        if self.collector:
            self.collector.terminate()
            self.assertEqual(self.collector.wait(60), 0, (self.h.folder / "collector-output").read_text())
        self.collector = None

    def rows(self, *questions):
        """The answers, of one and the same moment."""
        db = sqlite3.connect(f"file:{self.db}?mode=ro", uri=True, isolation_level=None)
        try:
            db.execute("BEGIN")
            answers = [db.execute(q).fetchall() for q in questions]
            return answers if len(questions) > 1 else answers[0]
        finally:
            db.close()

    def stored(self):
        """{class: numbers} of what the collector has of the one spool of each class; each event is there once."""
        events, records = self.rows(
            "SELECT json_extract(attributes, '$.\"tpu.spool.id\"'), json_extract(attributes, '$.\"tpu.spool.seq\"') FROM events",
            "SELECT spool, class, first, last FROM records")
        events = Counter(events)
        self.assertEqual([e for e, n in events.items() if n > 1], [])
        out = {}
        for spool, name, first, last in records:
            out.setdefault(name, {}).setdefault(spool, set()).update(range(first, last + 1))
        self.assertEqual({len(v) for v in out.values()}, {1}, "a new spool was begun")
        out = {name: next(iter(v.values())) for name, v in out.items()}
        self.assertEqual({n for _, n in events}, out["events"], "an event is missing that was counted as there")
        return out

    def expect_all(self, next_seq):
        for name, there in self.stored().items():
            self.assertGreaterEqual(there, set(range(1, next_seq[name] - 1)), name)

    def thinned(self):
        """(numbers between which metrics were thinned, how many of them went)."""
        gaps = [json.loads(body) for (body,) in self.rows("SELECT DISTINCT body FROM events WHERE name = 'tpu.spool.gap'")]
        self.assertEqual({(g["class"], g["reason"]) for g in gaps} - {("metrics", "thinned")}, set())
        return {n for g in gaps for n in range(g["from_seq"], g["to_seq"] + 1)}, sum(g["records"] for g in gaps)

    def test_a_spool_of_before(self):
        """All of it comes, but that its metrics are old: what is thinned is told."""
        self.unpack("spool-1")
        next_seq = self.begin(**NEW)
        self.assertGreaterEqual(next_seq["metrics"], 8)

        def look():
            metrics = self.uplink(self.h)["classes"]["metrics"]
            old = metrics["next_seq"] - metrics["appended"] - 1
            stored, (between, thinned) = self.stored()["metrics"], self.thinned()
            self.seen = metrics, sorted(n for n in stored if n <= old), between, thinned
            return old >= 7 and thinned + len([n for n in stored if n <= old]) == old
        try:
            wait_until(look, 60, "what was thinned is told")
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {self.seen}") from None
        self.end()
        stored, (between, _) = self.stored(), self.thinned()
        self.assertGreaterEqual(stored["events"], set(range(1, next_seq["events"] - 1)))
        self.assertGreaterEqual(stored["metrics"] | between, set(range(1, next_seq["metrics"] - 1)))

    def test_spool_and_database_of_before(self):
        """The database has what is in the spool already, and more of it: the numbers say so."""
        self.unpack("spool-1", "collector-1")
        before = self.rows("SELECT * FROM events ORDER BY id")
        self.begin(**NEW)
        self.end()
        self.assertEqual(self.rows("SELECT * FROM events ORDER BY id")[:len(before)], before)
        self.assertEqual(self.rows("PRAGMA user_version"), [(5,)])
        self.assertEqual(len(self.rows("SELECT name FROM hosts")), 1)
        self.stored()

    @unittest.skipUnless(os.environ.get("FULL"), "builds an older version: only with FULL=1")
    def test_up_and_down(self):
        old = older.programs(OLDER)
        kinds = {"old": old, "new": NEW}
        for agent, collector in (("old", "old"), ("new", "new"), ("old", "old"), ("new", "old"), ("old", "new"), ("new", "new")):
            with self.subTest(agent=agent, collector=collector):
                next_seq = self.begin(kinds[agent]["agent"], kinds[collector]["collector"])
                self.collector.send_signal(signal.SIGSTOP)  # something waits when the next version comes, and it is killed
                time.sleep(3)
                self.h.process.kill()
                self.h.process.wait()
                self.collector.send_signal(signal.SIGCONT)
                self.end()
                self.expect_all(next_seq)


if __name__ == "__main__":
    unittest.main()
