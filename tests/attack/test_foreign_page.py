#!/usr/bin/python3
"""A web page of another site, in a browser on a machine that reaches a collector without TLS: it may start
nothing, stop nothing and order nothing."""

import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "collector"))
from collector_case import Case  # noqa: E402

RUN = '{"name": "theirs", "slices": ["s"], "command": ["/bin/true"], "user": "nobody", "hosts": 1}'


class ForeignPage(Case):
    def send(self, host, **headers):
        r = self.c.get("/api/v1/mode?reason=x", "PUT", None, {"Host": host, **headers})
        return r.status

    def test_what_a_page_can_send(self):
        c = self.start()
        here = f"127.0.0.1:{c.api}"
        for what, host, headers in (
                ("a name that was bound to our address", f"evil.example:{c.api}", {}),
                ("the same, with its own origin", f"evil.example:{c.api}",
                 {"Origin": f"http://evil.example:{c.api}"}),
                ("a form that posts across sites", here, {"Origin": "https://evil.example"}),
                ("a page without an origin, as of a file", here, {"Origin": "null"}),
                ("another port of this machine", here, {"Origin": "http://127.0.0.1:8888"}),
                ("a name that begins with an address", f"127.0.0.1.evil.example:{c.api}", {}),
                ("a name that begins with localhost", f"localhost.evil.example:{c.api}", {}),
                ("brackets around a name", "[evil.example]", {}),
                ("an empty host", "", {})):
            with self.subTest(what):
                self.assertEqual(self.send(host, **headers), 403)
                r = c.get("/api/v1/runs", "POST", RUN, {"Host": host, **headers})
                self.assertEqual(r.status, 403)
                self.assertIn("by its address", r.json["remedy"])
        self.assertEqual(c.get("/api/v1/runs").json["runs"], [])
        refused = c.get("/api/v1/events?name=tpu.api.acted&limit=100").json["events"]
        self.assertEqual({e["attributes"]["result"] for e in refused},
                         {"refused: perhaps a page of another site"})

    def test_who_is_no_page(self):
        c = self.start()
        for what, host, headers in (("a script, by the address", f"127.0.0.1:{c.api}", {}),
                                    ("by an IPv6 address", f"[::1]:{c.api}", {}),
                                    ("by localhost", "localhost", {}),
                                    ("a page that the collector itself served", f"127.0.0.1:{c.api}",
                                     {"Origin": f"http://127.0.0.1:{c.api}"}),
                                    ("tpuctl, by the collector's name", f"collector.site:{c.api}",
                                     {"Sec-Tpu-Caller": "tpuctl"})):
            with self.subTest(what):
                self.assertEqual(self.send(host, **headers), 200)

    def test_reading_needs_neither(self):
        c = self.start()
        self.assertEqual(c.get("/metrics", headers={"Host": f"collector.site:{c.api}"}).status, 200)


if __name__ == "__main__":
    unittest.main()
