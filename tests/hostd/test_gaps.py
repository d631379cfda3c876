"""Gap records of the real tpu-hostd: what did not reach the endpoint is told, once, with its count."""

import os
import random
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import otlp  # noqa: E402
from around import wait_until  # noqa: E402
from endpoint import Answer  # noqa: E402
from uplink_case import Case  # noqa: E402

GAP = "tpu.spool.gap"


class Gaps(Case):
    def hostd(self, endpoint, **hostd):
        h = super().hostd(endpoint)
        text = h.config.read_text().replace("MetricsInterval=300ms", "MetricsInterval=100ms")
        h.config.write_text(text.replace("[Hostd]\n", "[Hostd]\n" + "".join(f"{k}={v}\n" for k, v in hostd.items())))
        return h

    @staticmethod
    def gaps(e, class_, refused=False):
        """{(spool, gap number): body} of what the endpoint was told of a class; the same number is the same gap."""
        out = {}
        for path, _, body in list(e.refused if refused else e.got):
            for event in otlp.logs(body) if path == "/v1/logs" else []:
                if event[1] == GAP and event[3]["class"] == class_:
                    key = event[3]["spool_id"], event[3]["gap"]
                    assert out.setdefault(key, event[3]) == event[3], (out[key], event[3])
        return out

    @staticmethod
    def numbers(got, class_):
        return {int(r.split("/")[2]) for _, r, _ in list(got) if r and r.split("/")[1] == class_}

    @staticmethod
    def points(bodies):
        """Of metrics, each record once."""
        return sum(len(otlp.metrics(b)) for b in {r: b for p, r, b in bodies if p == "/v1/metrics"}.values())

    def settle(self, h, e, class_, reasons):
        """All is delivered or told; returns the sums of what was told: {reason: [records, points]}."""
        e.answer = Answer()
        h.stop()  # it goes on more slowly, so that there are moments in which nothing is on its way
        h.config.write_text(h.config.read_text().replace("MetricsInterval=100ms", "MetricsInterval=1s"))
        h.start()

        def look():
            c = self.uplink(h)["classes"][class_]
            sums, told = {}, 0
            for g in self.gaps(e, class_).values():
                records, points = sums.setdefault(g["reason"], [0, 0])
                sums[g["reason"]] = [records + g["records"], points + g.get("points", 0)]
                told += g["records"]
            got = self.numbers(e.got, class_)
            self.seen = sums, len(got), told, c, sorted(set(range(1, c["next_seq"])) - got)[:40]
            return c["kept"] <= 1 and set(sums) >= set(reasons) and len(got) + told >= c["next_seq"] - 2 and (sums, got, told, c)
        try:
            sums, got, told, c = wait_until(look, 60, "everything delivered or told")
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {self.seen}") from None
        self.assertLessEqual(len(got) + told, c["next_seq"])
        self.assertEqual(set(sums), set(reasons))
        return sums

    def test_refused_is_told_exactly(self):
        codes = {2: 400, 4: 422, 5: 413}

        def answer(path, record):
            if path == "/v1/logs":
                return Answer()
            return Answer(codes.get(int(record.split("/")[2]) % 6, 200) if record else 413)  # without: a part of what was too large
        e = self.endpoint(answer).start()
        h = self.hostd(e.url).start()
        wait_until(lambda: len(e.refused) > 60, 20, "refusals")
        last = max(self.numbers(e.refused, "metrics"))  # all of its parts, before the answer changes
        wait_until(lambda: max(self.numbers(e.got, "metrics")) > last, 5, "the next one")
        sums = self.settle(h, e, "metrics", ["refused: 400 malformed", "refused: 422 unprocessable", "refused: 413 too large"])
        for reason, rest in (("refused: 400 malformed", 2), ("refused: 422 unprocessable", 4), ("refused: 413 too large", 5)):
            mine = [x for x in e.refused if x[1] and x[0] == "/v1/metrics" and int(x[1].split("/")[2]) % 6 == rest]
            self.assertEqual(sums[reason], [len({r for _, r, _ in mine}), self.points(mine)])
        self.assertEqual(self.uplink(h)["classes"]["events"]["dropped_by"]["refused: 400 malformed"], 0)

    def test_killed_at_any_moment(self):
        e = self.endpoint(lambda path, record: Answer(400 if record and path == "/v1/metrics" and int(record.split("/")[2]) % 2 else 200)).start()
        h = self.hostd(e.url)
        chance = random.Random(seed := int(time.time()))
        print(f"TEST_SEED={seed}", end=" ", flush=True)
        for _ in range(40 if os.environ.get("FULL") else 5):
            before = len(e.refused)
            h.start()
            wait_until(lambda: len(e.refused) > before, 20, "a refusal")
            time.sleep(chance.uniform(0, 0.8))
            h.process.send_signal(signal.SIGKILL)
            h.process.wait()
        h.start()
        sums = self.settle(h, e, "metrics", ["refused: 400 malformed"])
        refused = [x for x in e.refused if x[0] == "/v1/metrics"]
        self.assertEqual(sums["refused: 400 malformed"], [len({r for _, r, _ in refused}), self.points(refused)])
        self.assertGreater(len(refused), 5)

    def test_byte_limit(self):
        e = self.endpoint(Answer(503)).start()
        h = self.hostd(e.url, SpoolBytes="1M").start()
        wait_until(lambda: self.uplink(h)["classes"]["metrics"]["dropped"] > 20, 60, "the byte limit")
        u = self.uplink(h)["classes"]
        self.assertEqual(u["events"]["dropped"], 0)
        self.assertLessEqual(u["events"]["bytes"] + u["metrics"]["bytes"], 1 << 20)
        sums = self.settle(h, e, "metrics", ["byte limit"])
        self.assertGreater(sums["byte limit"][1], 20 * 50)
        self.assertGreater(sums["byte limit"][0], 20)

    def test_no_gaps_about_gaps(self):
        e = self.endpoint(lambda path, record: Answer(400 if path == "/v1/logs" else 200)).start()
        h = self.hostd(e.url).start()
        wait_until(lambda: len(self.gaps(e, "events", refused=True)) > 0, 20, "a gap record that is refused")
        time.sleep(2)
        self.assertLessEqual(len(self.gaps(e, "events", refused=True)), 2)
        e.answer = Answer()
        time.sleep(2)
        self.assertEqual(self.gaps(e, "events"), {})
        refused = [x for x in e.refused if x[0] == "/v1/logs"]
        self.assertEqual(sum(g["records"] for g in self.gaps(e, "events", refused=True).values()),
                         sum(event[1] != GAP for _, _, body in refused for event in otlp.logs(body)))


if __name__ == "__main__":
    unittest.main()
