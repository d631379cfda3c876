"""The real tpu-hostd stopped before and after the system calls that change its spool, one life after the
other: every number that was
given arrives, each with one content, and what was refused is told."""

import os
import random
import subprocess
import sys
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "hostd")]
import calls  # noqa: E402
import otlp  # noqa: E402
from around import BINARY, Hostd, wait_until  # noqa: E402
from endpoint import Answer, Endpoint  # noqa: E402

STOP_AT = BINARY.parents[2] / "tests/fault/stop_at"
LIVES = 150 if os.environ.get("FULL") else 5
CALLS = 150  # of one life that are looked at


class CrashPointsHostd(unittest.TestCase):
    def setUp(self):
        self.refusing = lambda path, record: Answer(400 if path == "/v1/metrics"
                                                    and int(record.split("/")[2]) % 5 == 0 else 200)
        self.e = Endpoint(self.refusing).start()
        self.addCleanup(self.e.stop)
        self.h = Hostd(endpoint=self.e.url)
        self.addCleanup(lambda: self.h.close(failed=not self._outcome.success))
        text = self.h.config.read_text().replace("MetricsInterval=300ms", "MetricsInterval=100ms")
        self.h.config.write_text(text.replace("[Hostd]\n", "[Hostd]\nSpoolBytes=1M\n"))  # segments of 64 KiB
        self.log = self.h.folder / "log"
        seed = int(os.environ.get("TEST_SEED", time.time()))
        print(f"TEST_SEED={seed}", end=" ", flush=True)
        random.seed(seed)

    def life(self, n, when):
        """Until it was stopped. Returns the call."""
        with open(self.h.output, "ab") as out:
            code = subprocess.run([STOP_AT, self.h.folder / "spool", self.log, str(n), when, BINARY,
                                   "--root", self.h.root, "--config", self.h.config],
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=600).returncode
        self.assertEqual(code, 137, self.h.output.read_text()[-2000:])
        return [c for c in calls.read(self.log) if c[0] != "say"][-1]

    def test_every_number_arrives(self):
        kinds = Counter()
        for _ in range(LIVES):
            call = self.life(random.randrange(1, CALLS), random.choice(("before", "after")))
            kinds[call[0]] += 1
        self.e.answer = Answer()
        self.h.config.write_text(self.h.config.read_text().replace("MetricsInterval=100ms",
                                                                   "MetricsInterval=1s"))
        self.h.start()
        wait_until(lambda: all(c["kept"] <= 1
                               for c in self.h.get("/v1/status")["uplink"]["classes"].values()), 60,
                   "an empty spool")

        def told():
            """What was refused before a stop that came before the disk knew is sent again, and taken now:
            all else is told."""
            taken = {r for _, r, _ in list(self.e.got)}
            refused = {r: b for _, r, b in self.e.refused if r not in taken}
            gaps = self.gaps().values()
            self.seen = ((len(refused), sum(len(otlp.metrics(b)) for b in refused.values())),
                         (sum(g["records"] for g in gaps), sum(g["points"] for g in gaps)))
            return self.seen[0] == self.seen[1]
        try:
            wait_until(told, 60, "all that was refused is told")
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {self.seen}") from None
        spools, by_class = set(), {}
        contents = {}
        for _, record, body in self.e.got + self.e.refused:
            self.assertEqual(contents.setdefault(record, body), body, f"{record} is two records")
            spool, name, n = record.split("/")
            spools.add((spool, name))
            by_class.setdefault(name, set()).add(int(n))
        self.assertEqual(len(spools), 2)
        for name, there in by_class.items():
            self.assertEqual(set(range(1, max(there) + 1)) - there, set(), name)
        print(f"{LIVES} lives, ended at {dict(kinds)}; {({k: len(v) for k, v in by_class.items()})} records",
              end=" ", flush=True)

    def gaps(self):
        events = [event[3] for path, _, body in list(self.e.got) if path == "/v1/logs"
                  for event in otlp.logs(body) if event[1] == "tpu.spool.gap"]
        return {(g["spool_id"], g["gap"]): g for g in events}


if __name__ == "__main__":
    unittest.main()
