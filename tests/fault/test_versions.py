"""Agent, spool, database and registry of this version and of the release before it, together and one after
the other: nothing is lost on the way
up or down, and a run goes over both. With FULL=1 and git's history the programs of that release are built
and take part."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
import unittest
from collections import Counter
from pathlib import Path

TOP = Path(__file__).parents[2]
sys.path[:0] = [str(TOP / "tests/hostd"), str(TOP / "tests/collector")]
import around                                              # noqa: E402
import previous                                            # noqa: E402
import test_gang                                           # noqa: E402
from around import free_port, wait_until                   # noqa: E402
from uplink_case import Case                               # noqa: E402

NEW = around.BINARY.parents[2]


def trees():
    """{"old": its build tree, "new": ours}; skips the test where there is no release to meet."""
    tag = previous.tag()
    if not os.environ.get("FULL"):
        raise unittest.SkipTest(f"builds {tag}: only with FULL=1")
    return {"old": previous.build(tag), "new": NEW}


class WhichRelease(unittest.TestCase):
    def test_newest_from_0_2_on(self):
        tags = ["v0.1.0", "v0.1.9", "v0.2.0", "v0.2.1", "v0.10.0", "v1.0.0", "v0.3", "latest"]
        self.assertIsNone(previous.release(["v0.1.0", "nightly"], (0, 2, 0)))
        self.assertEqual(previous.release(tags, (0, 2, 1)), "v0.2.1")
        self.assertEqual(previous.release(tags, (0, 9, 0)), "v0.2.1")
        self.assertEqual(previous.release(tags, (0, 11, 0)), "v0.10.0")


class SpoolAndDatabase(Case):
    def setUp(self):
        self.trees = trees()
        super().setUp()
        self.port = free_port()
        self.h = self.hostd(f"http://127.0.0.1:{self.port}")
        # no faster than a collector on a slow disk takes them
        self.h.config.write_text(self.h.config.read_text().replace("MetricsInterval=300ms",
                                                                   "MetricsInterval=1s"))
        self.collector, self.db = None, self.h.folder / "collector.db"
        self.addCleanup(setattr, around, "BINARY", around.BINARY)
        self.addCleanup(self.end)

    def begin(self, agent, collector):
        """Both, until all that is spooled is delivered."""
        around.BINARY = self.trees[agent] / previous.PROGRAMS["agent"]
        with open(self.h.folder / "collector-output", "ab") as out:
            self.collector = subprocess.Popen([self.trees[collector] / previous.PROGRAMS["collector"],
                                               "--config", "/dev/null", "--database", self.db,
                                               "--listen-otlp", f"127.0.0.1:{self.port}", "--listen-api",
                                               "127.0.0.1:0"], stdout=out, stderr=out)
        self.h.start()
        wait_until(lambda: all(c["kept"] <= 1 for c in self.uplink(self.h)["classes"].values()), 60,
                   "delivery")
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
            return [db.execute(q).fetchall() for q in questions]
        finally:
            db.close()

    def stored(self):
        """{class: numbers} of what the collector has of the one spool of each class; each event is there
        once."""
        events, records = self.rows(
            "SELECT json_extract(attributes, '$.\"tpu.spool.id\"'), json_extract(attributes, "
            "'$.\"tpu.spool.seq\"') FROM events",
            "SELECT spool, class, first, last FROM records")
        events = Counter(events)
        self.assertEqual([e for e, n in events.items() if n > 1], [])
        out = {}
        for spool, name, first, last in records:
            out.setdefault(name, {}).setdefault(spool, set()).update(range(first, last + 1))
        self.assertEqual({len(v) for v in out.values()}, {1}, "a new spool was begun")
        out = {name: next(iter(v.values())) for name, v in out.items()}
        self.assertEqual({n for _, n in events}, out["events"],
                         "an event is missing that was counted as there")
        return out

    def test_up_and_down(self):
        for agent, collector in (("old", "old"), ("new", "new"), ("old", "old"), ("new", "old"),
                                 ("old", "new"), ("new", "new")):
            with self.subTest(agent=agent, collector=collector):
                next_seq = self.begin(agent, collector)
                # something waits when the next version comes, and it is killed
                self.collector.send_signal(signal.SIGSTOP)
                time.sleep(3)
                self.h.process.kill()
                self.h.process.wait()
                self.collector.send_signal(signal.SIGCONT)
                self.end()
                for name, there in self.stored().items():
                    self.assertGreaterEqual(there, set(range(1, next_seq[name] - 1)), name)
        self.assertEqual(list(self.db.parent.glob(f"{self.db.name}.damaged*")), [],
                         "a database was moved aside")


class RunOverSlices(test_gang.Gang):
    """It begins, is restarted as the next generation, and ends."""

    def setUp(self):
        self.trees = trees()
        self.addCleanup(setattr, around, "BINARY", around.BINARY)

    def pair(self, agent, collector):
        around.BINARY = self.trees[agent] / previous.PROGRAMS["agent"]
        test_gang.BUILD = self.trees[collector]
        try:
            super().setUp()
        finally:
            test_gang.BUILD = NEW
        for name in ("s0", "s1"):
            self.host(name, 0)
        for name in self.hosts:
            self.ready(name)
        self.run_over("--slices", "2", "--restarts", "1", "--detach")
        for generation in (1, 2):
            for name in self.hosts:
                self.until_runs(name, generation)
            if generation == 1:
                with self.launchds["s1-0"].lock:  # its last step: it is restarted at once
                    self.launchds["s1-0"].runs["run1"].update({24: 1, 25: 7})
                    self.launchds["s1-0"].exit("run1", "exit-code", "exited", "1")
        for name in self.hosts:
            self.launchds[name].exit("run1")
        for name in self.hosts:
            self.ended(name, "success")

    def test_previous_agents(self):
        self.pair("old", "new")

    def test_previous_collector(self):
        self.pair("new", "old")


if __name__ == "__main__":
    unittest.main()
