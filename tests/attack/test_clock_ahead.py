#!/usr/bin/python3
"""A clock that jumps a year ahead, under a collector that runs and over its restart: nothing is removed."""

import sqlite3
import subprocess
import time
import unittest

from attack_case import AGENT, Attack, otlp
import collector_case

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
        static int (*real)(clockid_t, struct timespec *);
        long ahead = 0;
        FILE *f;
        int r;
        if (!real)
                real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
        r = real(id, t);
        f = id == CLOCK_REALTIME ? fopen(getenv("AHEAD"), "re") : NULL;
        if (f && fscanf(f, "%ld", &ahead) == 1)
                t->tv_sec += ahead;
        if (f)
                fclose(f);
        return r;
}
"""
YEAR = 365 * 86400


class ClockAhead(Attack):
    def setUp(self):
        super().setUp()
        source, library, self.ahead = (self.folder / n for n in ("clock.c", "clock.so", "ahead"))
        source.write_text(CLOCK)
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", library, source, "-ldl"], check=True)
        before = dict(collector_case.os.environ)
        self.addCleanup(collector_case.os.environ.update, before)
        self.addCleanup(collector_case.os.environ.pop, "LD_PRELOAD")
        collector_case.os.environ.update(LD_PRELOAD=str(library), AHEAD=str(self.ahead),
                                         ASAN_OPTIONS="verify_asan_link_order=0")

    def kept(self):
        return [self.c.sql(f"SELECT count(*) FROM {table}")[0][0] for table in ("samples", "run_lines")] + [
            self.c.sql("SELECT count(*) FROM events WHERE name = 'tpu.x'")[0][0],
            self.c.sql("SELECT count(*) FROM hosts WHERE name = 'a'")[0][0]]

    def a_turn_passes(self):
        """The first piece of work is due after a second, and takes the events and the only host."""
        time.sleep(4)

    def test_nothing_is_removed(self):
        self.collector(RetainDays="1")
        agent = {**AGENT, "host.name": "a"}
        for path, request in (
                ("/v1/metrics", otlp.request(agent, [otlp.gauge("m", [otlp.point(1)])])),
                ("/v1/logs", otlp.request(agent, [otlp.log("tpu.x", "text")])),
                ("/v1/logs", otlp.request(agent, [otlp.log("tpu.run.line", "text", attrs={
                    "tpu.run.name": "r", "tpu.run.invocation": "i", "tpu.run.line": 1})]))):
            self.assertEqual(self.push("a", path, request).status, 200)
        self.assertEqual(self.kept(), [1, 1, 1, 1])
        self.a_turn_passes()
        self.ahead.write_text(f"{YEAR}\n")
        self.a_turn_passes()
        self.assertEqual(self.kept(), [1, 1, 1, 1])
        for _ in range(2):
            self.restart()
            self.a_turn_passes()
            self.assertEqual(self.kept(), [1, 1, 1, 1])
        self.assertEqual(self.c.stop(), 0)
        self.assertIn("nothing was removed for its age since 36", self.c.said)
        # the same, once the time has really been lived through: they go
        db = sqlite3.connect(self.c.database)
        db.execute("UPDATE meta SET value = ? WHERE key = 'tended'", (int((time.time() + YEAR) * 1e6),))
        db.commit()
        db.close()
        self.c = collector_case.Collector(self.c.database, "--config", str(self.folder / "collectord.conf"))
        self.until(lambda: self.kept() == [0, 0, 0, 0])

    def test_a_clock_that_was_ahead(self):
        """It is set right: what was kept of the wrong time holds nothing up."""
        self.ahead.write_text(f"{YEAR}\n")
        self.collector(RetainDays="1")
        self.a_turn_passes()
        self.assertEqual(self.c.stop(), 0)
        self.ahead.write_text("0\n")
        self.c = collector_case.Collector(self.c.database, "--config", str(self.folder / "collectord.conf"))
        self.a_turn_passes()
        self.assertEqual(self.c.stop(), 0)
        self.assertNotIn("nothing was removed", self.c.said)
        self.assertLess(self.c.sql("SELECT value FROM meta WHERE key = 'tended'")[0][0],
                        (time.time() + 86400) * 1e6)


if __name__ == "__main__":
    unittest.main()
