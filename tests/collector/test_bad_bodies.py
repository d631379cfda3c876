"""Bodies that are wrong on purpose, to the real tpu-collectord: each is answered as docs/api.md says,
nothing of it is stored, the memory
stays within what is documented, and the next good body is taken."""

import gzip
import os
import random
import socket
import threading
import time
import unittest
import zlib
from pathlib import Path

import otlp
from protobuf import field  # found by otlp
from collector_case import AGENT, PROGRAM, PROTOBUF, Case, metrics

FULL = os.environ.get("FULL") == "1"
EACH = 1 if FULL else 5  # bytes of a body that end it
SANITIZED = b"__asan_init" in Path(PROGRAM).read_bytes()
MIB = 1 << 20
GZIP = {"Content-Encoding": "gzip"}
HEAD = b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"


def rich_metrics():
    return otlp.request(AGENT, [
        otlp.gauge("g", [otlp.point(1.5, {"s": "text", "b": True, "i": -1, "d": 0.5, "a": [1, "x"],
                                          "m": {"k": [True]}}, 1.7e9), otlp.point(2 ** 40)]),
        otlp.sum_metric("s", [otlp.point(7, {"k": "v"}, 1.7e9)], "By"), otlp.histogram("h", 3, 4.5)])


def rich_logs():
    return otlp.request(AGENT,
                        [otlp.log("an.event", {"k": ["v", 1, 2.5, {"deep": True}], "bytes": b"\x00\xff"}, 17,
                                  1.7e9, {"a": "b"}), otlp.log("", "text")])


def boundaries(body):
    """Where a request may be cut and still be one: between the fields of its outermost message."""
    out, at = {0}, 0
    while at < len(body):
        size = shift = 0
        at += 1
        while True:
            byte = body[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += size
        out.add(at)
    return out


class Bad(Case):
    def setUp(self):
        super().setUp()
        self.start()
        self.ok(self.c.post("/v1/metrics", metrics()))

    def tearDown(self):
        self.assertEqual(self.c.process.poll(), None, "it still runs")
        self.ok(self.c.post("/v1/metrics", metrics(name="afterwards")))
        self.assertIn(("afterwards", {}, 1), self.c.latest())
        super().tearDown()

    def peak(self):
        """The most memory that it ever had, in MiB."""
        status = Path(f"/proc/{self.c.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024

    def bounded(self, before, mib, what):
        grown = self.peak() - before
        print(f"{what}: {grown:.1f} MiB more at its peak", flush=True)
        if not SANITIZED:
            self.assertLess(grown, mib)

    def events(self):
        return self.c.sql("SELECT count(*) FROM events")[0][0]

    def raw(self, *parts, timeout=20):
        """What comes back for these bytes; the status, or 0 for an end, or nothing, without one."""
        with socket.create_connection(("127.0.0.1", self.c.otlp), timeout) as s:
            try:
                for part in parts:
                    s.sendall(part)
                answer = s.recv(4096)
            except (ConnectionError, TimeoutError):
                return 0
        return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


class Truncated(Bad):
    def test_at_each_byte(self):
        for path, body in (("/v1/metrics", rich_metrics()), ("/v1/logs", rich_logs())):
            body += otlp.request({"host.name": "other"}, [otlp.gauge("m", [otlp.point(1)])
                                                          if path == "/v1/metrics" else otlp.log("e", "x")])
            self.ok(self.c.post(path, body))
            rows = self.events()
            ends = boundaries(body)
            self.assertEqual(len(ends), 3)
            for cut in (c for c in range(len(body)) if c in ends or c % EACH == 0):
                r = self.c.post(path, body[:cut])
                if cut in ends:
                    self.ok(r)
                    rows += 2 if path == "/v1/logs" and cut else 0
                else:
                    self.refused(r, 400, "byte")
            self.assertEqual(self.events(), rows)

    def test_packed_at_each_byte(self):
        body = gzip.compress(rich_logs())
        for cut in range(1, len(body), EACH):
            self.refused(self.c.post("/v1/logs", body[:cut], GZIP), 400, "gzip")
        self.assertEqual(self.events(), 0)


class Mutated(Bad):
    def test_random_mutations(self):
        """Whatever a body becomes, it is taken or refused; with --full, more of them: the parsers behind
        are fuzzed."""
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        r = random.Random(seed)
        kinds = [("/v1/metrics", rich_metrics(), PROTOBUF), ("/v1/logs", rich_logs(), PROTOBUF),
                 ("/v1/logs", gzip.compress(rich_logs()), {**PROTOBUF, **GZIP})]
        before, count = self.peak(), {}
        for i in range(5000 if FULL else 300):
            path, body, headers = kinds[i % len(kinds)]
            body = bytearray(body)
            for _ in range(r.choice((1, 1, 2, 8))):
                at = r.randrange(len(body))
                how = r.randrange(5)
                if how == 0:
                    body[at] ^= 1 << r.randrange(8)
                elif how == 1:
                    body[at] = r.randrange(256)
                elif how == 2:
                    del body[at:at + r.randrange(1, 9)]
                elif how == 3:
                    body[at:at] = bytes([r.choice((0, 0x7F, 0x80, 0xFF))] * r.randrange(1, 12))
                else:
                    body[at:at] = body[r.randrange(len(body)):][:64]
                body = body or bytearray(1)
            a = self.c.post(path, bytes(body), headers)
            self.assertIn(a.status, (200, 400, 413, 415), (seed, i))
            self.assertEqual(a.getheader("Content-Type"), headers["Content-Type"], (seed, i))
            count[a.status] = count.get(a.status, 0) + 1
        print(f"answers: {count}")
        self.assertGreater(min(count[200], count[400]), 0)
        self.bounded(before, 24, "mutations")


class Bombs(Bad):
    def squeezed(self, mib, level=9):
        c = zlib.compressobj(level, zlib.DEFLATED, 31)
        return b"".join([c.compress(bytes(MIB)) for _ in range(mib)]) + c.flush()

    def test_gzip_bombs(self):
        before = self.peak()
        bomb = self.squeezed(3900 if FULL else 900)
        self.assertLess(len(bomb), 4 * MIB)
        cpu = self.cpu()
        for path, headers in (("/v1/logs", GZIP), ("/v1/metrics", GZIP)):
            r = self.c.post(path, bomb, headers)
            self.assertEqual(r.status, 413)
            self.assertIn(b"16 MiB", r.content)
        r = self.c.post("/v1/logs", iter([bomb[i:i + 10000] for i in range(0, len(bomb), 10000)]),
                        {**GZIP, "Transfer-Encoding": "chunked"}, encode_chunked=True)
        self.refused(r, 413, "16 MiB")
        members = gzip.compress(bytes(MIB)) * 40  # each small, all together too many
        self.refused(self.c.post("/v1/logs", members, GZIP), 413, "16 MiB")
        print(f"four bombs: {self.cpu() - cpu:.2f} s of CPU")
        self.bounded(before, 40, "bombs")

    def cpu(self):
        fields = Path(f"/proc/{self.c.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_not_quite_gzip(self):
        good = gzip.compress(metrics(name="zipped"))
        # RFC 1952: members add up
        self.ok(self.c.post("/v1/metrics",
                            gzip.compress(metrics(name="one")) + gzip.compress(metrics(name="two")), GZIP))
        self.assertEqual([n for n, _, _ in self.c.latest() if n in ("one", "two")], ["one", "two"])
        self.ok(self.c.post("/v1/metrics", gzip.compress(b"") * 1000 + good, GZIP))
        broken = bytearray(good)
        broken[-6] ^= 1  # of its CRC
        for body in (good + b"junk", bytes(broken), b"", b"\x1f\x8b", metrics(), zlib.compress(metrics())):
            self.refused(self.c.post("/v1/metrics", body, GZIP), 400, "gzip")
        for encoding in ("gzip, gzip", "deflate", "x-gzip2", "GZIP;q=1", "zstd"):
            self.refused(self.c.post("/v1/metrics", good, {"Content-Encoding": encoding}), 415, "gzip")

    def test_deep(self):
        """Messages in messages, lists in lists."""
        before = self.peak()
        for wrap in (lambda v: field(5, field(1, v)),
                     lambda v: field(6, field(1, field(1, "k") + field(2, v)))):
            deep, n = otlp.any_value("x"), 0
            while len(deep) < MIB and n < 20000:
                deep, n = wrap(deep), n + 1
            self.refused(self.c.post("/v1/logs", otlp.request(AGENT, [field(2, field(5, deep))])), 400,
                         "deeper")
        self.bounded(before, 100, "depth")

    def test_many_small_things(self):
        """A few bytes each, but very many: points, resources, attributes."""
        before = self.peak()
        self.refused(self.c.post("/v1/metrics", field(1, b"") * 10001), 413, "resources")
        self.refused(self.c.post("/v1/metrics",
                                 otlp.request(AGENT, [otlp.gauge("m", [otlp.point(1)] * 100001)])), 413,
                     "points")
        self.refused(self.c.post("/v1/logs", otlp.request(AGENT, [field(2, b"")] * 100001)), 413, "events")
        attributes = otlp.request(AGENT, [otlp.gauge("m", [otlp.point(1) + field(7, b"") * 1000000])])
        self.assertIn(self.c.post("/v1/metrics", attributes).status, (200, 400, 413))
        self.bounded(before, 200, "many small things")


class Framing(Bad):
    def chunked(self, *parts, **more):
        return self.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *parts, **more)

    def test_endless_chunks(self):
        """One that never ends is answered when 4 MiB are over, or cut off; never kept."""
        before = self.peak()
        with socket.create_connection(("127.0.0.1", self.c.otlp), 20) as s:
            s.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            sent, piece = 0, b"10000\r\n" + bytes(65536) + b"\r\n"
            try:
                while sent < 200 * MIB:
                    s.sendall(piece)
                    sent += 65536
            except ConnectionError:
                pass
        self.assertLess(sent, 80 * MIB)  # 64 MiB are read and thrown away, so that the client hears why
        self.bounded(before, 16, "endless chunks")
        self.assertEqual(self.events(), 0)

    def test_malformed_chunks(self):
        good = otlp.request(AGENT, [otlp.log("e", "x")])
        self.assertEqual(self.chunked(b"%x;ext=%s\r\n" % (len(good), b"y" * 500) + good + b"\r\n0\r\n\r\n"),
                         200)
        self.assertEqual(self.events(), 1)
        for bad in (b"zz\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"fffffffffffffffff\r\nx",
                    b"5\r\nhelloworld\r\n0\r\n\r\n", b"5" * 20000, b"\r\n\r\n\r\n",
                    b"0x5\r\nhello\r\n0\r\n\r\n"):
            self.assertIn(self.chunked(bad, timeout=0.5), (0, 400, 413, 431), bad[:20])
        self.assertIn(self.chunked(b"ffffffffffffffff\r\n" + bytes(100000), timeout=0.5), (0, 400, 413))
        self.assertEqual(self.events(), 1)

    def test_lengths_that_lie(self):
        good = otlp.request(AGENT, [otlp.log("e", "x")])
        for length in (b"-1", b"1e3", b"99999999999999999999999", b"0x10", b""):
            self.assertIn(self.raw(HEAD + b"Content-Length: " + length + b"\r\n\r\n" + good, timeout=0.5),
                          (0, 400, 413), length)
        self.assertIn(self.raw(HEAD + b"Content-Length: 100000\r\n\r\n" + good, timeout=0.5), (0, 400))
        both = HEAD + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % len(good)
        self.assertIn(self.raw(both + good, timeout=0.5), (0, 200, 400))
        self.assertEqual(self.events(), 0)

    def test_half_bodies_of_many(self):
        """Bodies that are never finished, from many at once: 128 MiB of them are kept, the rest is told
        to come again."""
        before, held, piece = self.peak(), [], bytes(4 * MIB - 4096)
        self.addCleanup(lambda: [s.close() for s in held])
        for _ in range(40):
            s = socket.create_connection(("127.0.0.1", self.c.otlp), 20)
            held.append(s)
            s.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (4 * MIB))
            s.sendall(piece)
        peak = 0
        while peak != self.peak():  # until all is read
            peak = self.peak()
            time.sleep(0.5)
        for s in held:
            s.sendall(bytes(4096))
        answers = [s.recv(4096) for s in held]
        refused = [a for a in answers if a.startswith(b"HTTP/1.1 503") and b"\r\nRetry-After: " in a]
        self.assertGreaterEqual(len(refused), 8)
        self.assertTrue(all(a in refused or a.startswith(b"HTTP/1.1 400") for a in answers),
                        [a[:20] for a in answers])
        self.assertEqual(self.c.get("/healthz").status, 200)
        self.bounded(before, 170, "160 MiB of half bodies")
        self.ok(self.c.post("/v1/metrics", metrics(name="again")))

    @unittest.skipUnless(FULL, "a minute long: tools/test --full")
    def test_silent_ones_are_let_go(self):
        """A body that does not end within half a minute ends its connection, silent or trickling; others
        are served meanwhile."""
        results = {}

        def hold(key, trickle):
            with socket.create_connection(("127.0.0.1", self.c.otlp), 90) as s:
                s.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
                start = time.monotonic()
                try:
                    while trickle and time.monotonic() - start < 45:
                        s.sendall(b"x")
                        time.sleep(1)
                    results[key] = (s.recv(100), time.monotonic() - start)
                except OSError as e:
                    results[key] = (repr(e), time.monotonic() - start)

        threads = [threading.Thread(target=hold, args=a) for a in (("silent", False), ("trickle", True))]
        for t in threads:
            t.start()
        for _ in range(20):
            self.ok(self.c.post("/v1/metrics", metrics()))
            time.sleep(0.5)
        threads[0].join(90)
        threads[1].join(120)
        self.assertTrue(25 < results["silent"][1] < 60, results)
        self.assertTrue(25 < results["trickle"][1] < 45, results)


class Types(Bad):
    def test_content_types(self):
        good = metrics(name="typed")
        for kind in ("application/x-protobuf", "application/x-protobuf; charset=utf-8",
                     "APPLICATION/X-PROTOBUF"):
            self.assertEqual((kind, self.c.post("/v1/metrics", good, {"Content-Type": kind}).status),
                             (kind, 200))
        for kind in ("application/protobuf", "application/grpc", "text/plain", "application/x-protobufx",
                     "application/jsonx", "", "multipart/form-data; boundary=x",
                     "application/x-www-form-urlencoded", "x" * 3000):
            self.refused(self.c.post("/v1/metrics", good, {"Content-Type": kind}), 415,
                         "application/x-protobuf")
        self.assertEqual(self.raw(b"POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                                  % len(good) + good), 415)
        for kind in ("application/json", "application/json; charset=utf-8"):
            self.refused(self.c.post("/v1/metrics", b'{"resourceMetrics":[]}', {"Content-Type": kind}), 415,
                         "OTLP/JSON is not taken")
        self.refused(self.c.post("/v1/metrics", b'{"resourceMetrics":[]}'), 400, "byte 0")
        self.refused(self.c.post("/v1/metrics", rich_logs()), 400, "byte")  # a body of the other path


if __name__ == "__main__":
    unittest.main()
