"""A machine that is shut down says so, and a run over slices goes on without it at once; a daemon that is
stopped alone says nothing."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import wait_until         # noqa: E402
from manager_stand_in import Manager  # noqa: E402
from test_gang import Gang            # noqa: E402


class Leave(Gang):
    def setUp(self):
        super().setUp()
        self.manager = Manager()
        self.addCleanup(self.manager.stop)

    def begin(self):
        for name in ("s0", "s1"):
            h = self.host(name, 0, start=False)
            h.environment["DBUS_SYSTEM_BUS_ADDRESS"] = self.manager.address
            h.start()
        for name in self.hosts:
            self.ready(name)
        self.run_over("--slices", "1:2", "--restarts", "5", "--shrink-after", "10min", "--grow-after", "0")
        for name in self.hosts:
            self.until_runs(name, 1)

    def test_restart_and_shutdown(self):
        self.begin()
        h = self.hosts["s1-0"]
        for state in ("running", "degraded", "silent"):
            self.manager.state.write_text(state)
            self.assertEqual(h.stop(), 0)
            h.start()
            wait_until(lambda: h.get("/v1/status")["registry"]["state"] == "member", 60, "it is back")
            self.assertNotIn("shut down", h.output.read_text())
        self.assertEqual(self.starts("s0-0"), [("run1", 1)])
        self.manager.state.write_text("stopping")
        self.assertEqual(h.stop(), 0)
        self.until_runs("s0-0", 2)  # far before the lease and --shrink-after would have ended
        self.assertIn("s1-0 (127.0.0.1) was lost: it was shut down", self.part("s0-0")["why"])
        self.assertIn("the machine is shut down: this host leaves the registry", h.output.read_text())
        self.manager.state.write_text("running")
        self.launchds["s1-0"].runs.clear()  # it has booted
        h.start()
        for name in self.hosts:
            self.until_runs(name, 3)


if __name__ == "__main__":
    unittest.main()
