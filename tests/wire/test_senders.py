"""Other people's SDKs send to the real tpu-collectord; what they sent is read back from its port for people,
and what cannot be
stored is told to them in the standard's words."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import peers  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "collector"))
from collector_case import Collector  # noqa: E402

HERE = Path(__file__).parent
JAVASCRIPT = [*(f"@opentelemetry/exporter-{kind}-otlp-{encoding}@0.223.0" for kind in ("metrics", "logs")
                for encoding in ("proto", "http")),
              "@opentelemetry/sdk-metrics@2.12.0", "@opentelemetry/sdk-logs@0.223.0",
              "@opentelemetry/resources@2.12.0", "@opentelemetry/api@1"]

PYTHON = """python3-opentelemetry-exporter-otlp-proto-http python3-opentelemetry-exporter-http-transport python3-opentelemetry-exporter-otlp-proto-common
    python3-opentelemetry-exporter-otlp-common python3-opentelemetry-sdk python3-opentelemetry-api python3-opentelemetry-proto
    python3-opentelemetry-semantic-conventions python3-googleapis-common-protos python3-protobuf python3-requests python3-urllib3 python3-certifi
    python3-chardet python3-idna python3-charset-normalizer python3-typing-extensions""".split()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="wire-senders-")
        self.addCleanup(folder.cleanup)
        self.c = Collector(os.path.join(folder.name, "c.db"))
        self.addCleanup(lambda: self.assertEqual(self.c.stop(), 0))
        self.url = f"http://127.0.0.1:{self.c.otlp}"

    def latest(self, host):
        return {(name, json.dumps(attributes, sort_keys=True, ensure_ascii=False)): value for name,
                attributes, value in self.c.latest(host)}


class JavaScript(Case):
    def send(self, encoding, compression, host):
        try:
            packages = peers.npm(*JAVASCRIPT)
        except peers.Missing as why:
            self.skipTest(str(why))
        done = subprocess.run(["node", HERE / "send.js", encoding, compression, self.url, host],
                              env={**os.environ, "NODE_PATH": str(packages)},
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check(self, compression):
        host = f"sdk-{compression}"
        told = self.send("proto", compression, host)
        self.assertEqual((set(told["metrics"]), told["logs"]), ({0}, [0, 0]))
        # the exponential histogram, in each export
        refused = [json.loads(w[w.index("{"):]) for w in told["warnings"]]
        self.assertEqual([int(r["rejectedDataPoints"]) for r in refused], [1] * len(told["metrics"]))
        self.assertTrue(refused[0]["errorMessage"].startswith("odd"), refused)
        latest = self.latest(host)
        many = {k: v for k, v in latest.items() if k[0] == "many"}
        self.assertEqual(sorted(many.values()), [i * 1.5 for i in range(2000)])
        self.assertEqual({k: v for k, v in latest.items() if k not in many}, {
            ("requests", '{"n": 3, "ok": true, "path": "/a", "share": 0.5}'): 41,
            ("large", "{}"): 2 ** 53 - 1, ("open", "{}"): -7,
            ("load", '{"näme": "grüße"}'): 0.1, ("latency.count", "{}"): 4, ("latency.sum", "{}"): 12.5})
        events = self.c.get(f"/api/v1/events?host={host}").json["events"]
        events.sort(key=lambda e: e["name"], reverse=True)  # this SDK sends each by itself, at once
        self.assertEqual([(e["name"], e["severity"], e["service"]) for e in events],
                         [("an.event", "WARN", "sdk"), ("", "ERROR", "sdk")])
        self.assertEqual(events[0]["body"],
                         {"text": "hällo", "list": [1, "two", {"three": 3.5}], "yes": True})
        self.assertEqual(events[0]["attributes"], {"a.b": "c", "n": 12345678901, "list": ["x", "y"]})
        self.assertEqual(events[1]["body"], "only text " + "x" * 100000)

    def test_protobuf_plain_and_packed(self):
        """Bodies are chunked: this SDK never says a length."""
        for compression in ("none", "gzip"):
            with self.subTest(compression):
                self.check(compression)

    def test_json_is_refused(self):
        """The exporters for OTLP/JSON are told so, and do not try again."""
        told = self.send("http", "none", "sdk-json")
        self.assertTrue(told["metrics"] and told["logs"], told)
        for answer in told["metrics"] + told["logs"]:
            self.assertIn("Unsupported Media Type", str(answer))
        self.assertEqual(self.c.get("/api/v1/hosts").json["hosts"], [])


class Python(Case):
    def test_plain_and_packed(self):
        try:
            packages = peers.debian("sid", *PYTHON) / "usr/lib/python3/dist-packages"
        except peers.Missing as why:
            self.skipTest(str(why))
        environment = {**os.environ, "PYTHONPATH": str(packages),
                       "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
        for compression in ("none", "gzip"):
            with self.subTest(compression):
                host = "python-" + compression
                done = subprocess.run(["/usr/bin/python3", "-B", HERE / "send.py", compression, self.url,
                                       host], env=environment, capture_output=True, text=True,
                                      timeout=120)
                self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
                self.assertNotIn("rror", done.stderr)
                self.assertEqual(self.latest(host), {
                    ("requests", '{"n": 3, "ok": true, "path": "/a", "share": 0.5}'): 41, ("open", "{}"): -7,
                    ("load", '{"näme": "grüße"}'): 0.1,
                    ("latency.count", "{}"): 4, ("latency.sum", "{}"): 12.5})
                events = self.c.get(f"/api/v1/events?host={host}").json["events"]
                self.assertEqual([(e["name"], e["severity"], e["time"], e["body"]) for e in events], [
                    ("an.event", "WARN", "2023-11-14T22:13:20.000Z",
                     {"text": "hällo", "list": [1, "two", {"three": 3.5}], "yes": True}),
                    ("", "ERROR", "2023-11-14T22:13:21.000Z", "only text")])
                self.assertEqual(events[0]["attributes"], {"a.b": "c", "n": 12345678901, "list": ["x", "y"]})


if __name__ == "__main__":
    unittest.main()
