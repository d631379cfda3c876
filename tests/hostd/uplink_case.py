"""What the tests of the uplink share: a folder, endpoints, one tpu-hostd with an [Uplink] section, and
that nothing was lost."""

import shutil
import tempfile
import unittest
from pathlib import Path

from around import Hostd, has_failed, wait_until
from endpoint import Endpoint


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="uplink-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def endpoint(self, *a, **k):
        e = Endpoint(*a, **k)
        self.addCleanup(e.stop)
        return e

    def hostd(self, endpoint, **uplink):
        h = Hostd(endpoint=endpoint)
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        with open(h.config, "a") as f:
            f.write("[Uplink]\n" + "".join(f"{k}={v}\n" for k, v in uplink.items()))
        return h

    def uplink(self, h):
        return h.get("/v1/status")["uplink"]

    def check(self, h, name):
        return next((c for c in h.get("/v1/checks")["checks"] if c["check"] == name), None)

    def expect_all(self, h, *endpoints):
        """Every record that the spool ever got is at one of the endpoints, none was dropped, none is
        missing in between."""
        wait_until(lambda: all(c["kept"] <= 1 for c in self.uplink(h)["classes"].values()), 30,
                   "an empty spool")
        for name, c in self.uplink(h)["classes"].items():
            there = {int(r.split("/")[2]) for e in endpoints for r in e.records() if r.split("/")[1] == name}
            self.assertTrue(there >= set(range(1, c["next_seq"] - 2)), (name, c, sorted(there)))
            self.assertEqual([n for reason, n in c["dropped_by"].items() if n], [])
