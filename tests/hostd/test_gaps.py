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
from around import MACHINE, wait_until  # noqa: E402
from endpoint import Answer  # noqa: E402
from uplink_case import Case  # noqa: E402

GAP = "tpu.spool.gap"
JUMP = 64 * 1024 * 1024 // 24  # numbers that name no record, after a kill in the middle of a write (spool.h)
RIGHT_RMEM = (MACHINE / "proc/sys/net/ipv4/tcp_rmem").read_text().rstrip("\n")


class Gaps(Case):
    def hostd(self, endpoint, **hostd):
        h = super().hostd(endpoint)
        text = h.config.read_text().replace("MetricsInterval=300ms", "MetricsInterval=100ms")
        h.config.write_text(text.replace("[Hostd]\n",
                                         "[Hostd]\n" + "".join(f"{k}={v}\n" for k, v in hostd.items())))
        return h

    @staticmethod
    def gaps(e, class_, refused=False):
        """{(spool, gap number): body} of what the endpoint was told of a class; the same number is the
        same gap."""
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
        return sum(len(otlp.metrics(b)) for b in bodies)

    @staticmethod
    def refused(e, class_):
        """Of what was refused, each record once: {number: body}; parts of one have no number."""
        return {int(r.split("/")[2]): body for _, r,
                body in list(e.refused) if r and r.split("/")[1] == class_}

    def settle(self, h, e, class_, reasons):
        """All is delivered or told; returns the sums of what was told: {reason: [records, points]}."""
        e.answer = Answer()
        h.stop()  # it goes on more slowly, so that there are moments in which nothing is on its way
        last = max(self.refused(e, class_), default=0)
        h.config.write_text(h.config.read_text().replace("MetricsInterval=100ms", "MetricsInterval=1s"))
        h.start()

        def look():
            c = self.uplink(h)["classes"][class_]
            sums, told = {}, 0
            for g in self.gaps(e, class_).values():
                records, points = sums.setdefault(g["reason"], [0, 0])
                sums[g["reason"]] = [records + g["records"], points + g.get("points", 0)]
                told += g["records"]
            got = {n for n in self.numbers(e.got, class_) if n < c["first_seq"]}
            self.seen = sums, len(got), told, c, sorted(set(range(1, c["first_seq"])) - got)[:40]
            # Of all that is decided each is at the endpoint or told, and none is both.
            complete = (c["first_seq"] - 1 - len(got) - told) % JUMP == 0
            return (c["kept"] <= 1 and c["first_seq"] > last and set(sums) >= set(reasons) and complete
                    and sums)
        try:
            sums = wait_until(look, 180, "everything delivered or told")
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {self.seen}") from None
        self.assertEqual(set(sums), set(reasons))
        return sums

    def test_refused_is_told_exactly(self):
        codes = {2: (400, "refused: 400 malformed"), 4: (422, "refused: 422 unprocessable"),
                 5: (413, "refused: 413 too large")}
        last = [1 << 40]  # the last number that is refused

        def answer(path, record):
            if path == "/v1/logs":
                return Answer()
            if not record:  # a part of what was too large
                return Answer(413)
            number = int(record.split("/")[2])
            return Answer(codes[number % 6][0] if number % 6 in codes and number <= last[0] else 200)

        def status():
            return self.uplink(h)["classes"]["metrics"]
        e = self.endpoint(answer).start()
        h = self.hostd(e.url).start()
        wait_until(lambda: all(status()["dropped_by"][reason] >= 3 for _, reason in codes.values()), 60,
                   "each reason several times")
        last[0] = max(self.refused(e, "metrics")) + 2
        wait_until(lambda: status()["first_seq"] > last[0], 120, "a decision about each that may be refused")
        sums = self.settle(h, e, "metrics", [reason for _, reason in codes.values()])
        for rest, (_, reason) in codes.items():
            mine = [body for number, body in self.refused(e, "metrics").items() if number % 6 == rest]
            self.assertEqual(sums[reason], [len(mine), self.points(mine)])
        # it was stopped in good order: what was decided is remembered
        self.assertEqual(set(self.refused(e, "metrics")) & self.numbers(e.got, "metrics"), set())
        self.assertEqual(self.uplink(h)["classes"]["events"]["dropped_by"]["refused: 400 malformed"], 0)

    def test_killed_at_any_moment(self):
        e = self.endpoint(lambda path, record: Answer(400 if record and path == "/v1/metrics"
                                                      and int(record.split("/")[2]) % 2 else 200)).start()
        h = self.hostd(e.url)
        chance = random.Random(seed := int(time.time()))
        print(f"TEST_SEED={seed}", end=" ", flush=True)
        for _ in range(40 if os.environ.get("FULL") else 5):
            before = len(e.refused)
            h.start()
            wait_until(lambda: len(e.refused) > before + 1, 60, "refusals")
            time.sleep(chance.uniform(0, 0.8))
            h.process.send_signal(signal.SIGKILL)
            h.process.wait()
        h.start()
        sums = self.settle(h, e, "metrics", ["refused: 400 malformed"])
        # A refusal that a kill kept from the disk is not known any more: the record was sent again, and
        # taken at the end.
        got = self.numbers(e.got, "metrics")
        lost = [body for number, body in self.refused(e, "metrics").items() if number not in got]
        self.assertEqual(sums["refused: 400 malformed"], [len(lost), self.points(lost)])
        self.assertGreater(len(e.refused), 5)

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

        def plain():
            return sum(event[1] != GAP for body in self.refused(e, "events").values()
                       for event in otlp.logs(body))

        def told():
            return sum(g["records"] for g in self.gaps(e, "events", refused=True).values())

        def all_told(more_than):
            """Each refused event, and nothing else: a gap about a gap would be one too many, at the next
            one at the latest."""
            def look():
                self.seen = plain(), told()
                return self.uplink(h)["classes"]["events"]["kept"] == 0 and more_than < plain() == told()
            try:
                wait_until(look, 60, "refused events told")
            except AssertionError as failure:
                raise AssertionError(f"{failure}: {self.seen}") from None
        all_told(0)
        for text in ("4096\t131072\t6291456", RIGHT_RMEM, "4096\t131072\t6291456"):
            before = plain()
            h.rmem(text)  # an event about its check
            all_told(before)
        e.answer = Answer()
        h.rmem(RIGHT_RMEM)
        wait_until(lambda: self.numbers(e.got, "events"), 60, "an event that is taken")
        self.assertEqual(self.gaps(e, "events"), {})
        self.assertEqual(told(), plain())


if __name__ == "__main__":
    unittest.main()
