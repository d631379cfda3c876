#!/usr/bin/python3
"""tpuctl top, and what is shown with --watch, on a pseudo-terminal: drawn again, as wide and high as the
terminal, and the terminal is left as it was."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from ctl_case import TPUCTL, Ctl, ago
from stand_ins import field
from test_chips import CHIPS

TAKE, GIVE, AGAIN = "\033[?1049h\033[?25l\033[?7l", "\033[?7h\033[?25h\033[?1049l", "\033[H\033[J"
STATUS = {"host": "h0", "state": "ready", "version": "0.2.0", "started": ago(60), "live_runs": 1,
          "reasons": [], "identity": {"slice": "s1", "worker_id": "3", "accelerator_type": "v6e-16"},
          "uplink": {"endpoint": "http://c:4318", "classes": {}}}


def host(name, state, **more):
    return {"name": name, "slice": "s1", "worker_id": 1, "state": state, "registry": "member",
            "age_seconds": 2, "reasons": "nic.mtu eth1", **more}


class Screen(Ctl):
    """A tpuctl on a terminal; what it wrote is in self.text."""

    def setUp(self):
        super().setUp()
        self.text = ""

    def open(self, *words, rows=40, columns=100):
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen([TPUCTL, "--root", self.root, *words], stdin=slave, stdout=slave,
                                        stderr=slave, start_new_session=True,
                                        env={"PATH": "/usr/bin:/bin", "TERM": "xterm"},
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.slave = slave
        self.addCleanup(os.close, slave)

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, what, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), end, self.text)
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536).decode()

    def pictures(self):
        """Each as its lines, without colours."""
        return [re.sub(r"\033\[[0-9;]*m", "", p).split("\r\n") for p in self.text.split(AGAIN)[1:]]

    def ends(self, code, how):
        how()
        self.until(lambda: self.text.endswith(GIVE))
        self.assertEqual(self.process.wait(60), code)
        self.assertEqual(termios.tcgetattr(self.slave), self.before)
        self.assertTrue(self.text.startswith(TAKE))
        self.assertEqual(self.text.count(TAKE), self.text.count(GIVE))


class Host(Screen):
    def setUp(self):
        super().setUp()
        self.launchd().answers[28] = (29, field(1, field(1, "/dev/accel1") + field(2, 812) + field(3, 0)
                                                + field(4, "u.service") + field(5, "python3 train.py")))
        self.server = self.hostd()
        self.server.answers[("GET", "/v1/status")] = (200, STATUS)
        self.server.answers[("GET", "/v1/chips")] = (200, {"looked": ago(5), "run": "train", "error": "",
                                                           "chips": CHIPS})
        self.server.answers[("GET", "/v1/runs")] = (200, {"runs": [
            {"name": "train", "state": "running", "user": "alice", "step": 7, "started": ago(30)}]})

    def test_it_is_drawn_again_and_q_ends_it(self):
        self.open("top")
        self.until(lambda: "17 GiB" in self.text)
        for words in ("state    ready", "s1, worker 3", "train", "/dev/accel1  812", "90 %"):
            self.assertIn(words, self.text)
        self.server.answers[("GET", "/v1/status")] = (200, {**STATUS, "state": "degraded"})
        self.until(lambda: "state    degraded" in self.text)
        self.assertGreater(len(self.pictures()), 1)
        self.ends(0, lambda: os.write(self.master, b"q"))

    def test_ctrl_c_and_sigterm(self):
        self.open("top")
        self.until(lambda: "17 GiB" in self.text)
        self.ends(0, lambda: os.write(self.master, b"\x03"))
        self.text = ""
        self.open("top")
        self.until(lambda: "17 GiB" in self.text)
        self.ends(128 + signal.SIGTERM, self.process.terminate)

    def test_a_new_size_is_drawn_at_once(self):
        self.open("chips", "--watch", columns=100)
        self.until(lambda: "python3 train.py" in self.text and "17 GiB" in self.text)
        started = time.monotonic()
        self.size(40, 44)
        self.until(lambda: len(self.pictures()) > 1 and "17 GiB" in self.text.split(AGAIN)[-1])
        print(f"drawn again after {time.monotonic() - started:.2f} s", flush=True)
        self.assertNotIn("python3 train.py", self.text.split(AGAIN)[-1])
        self.ends(0, lambda: os.write(self.master, b"q"))

    def test_a_daemon_that_goes_away_is_said_and_comes_back(self):
        self.open("top")
        self.until(lambda: "17 GiB" in self.text)
        answer = self.server.answers.pop(("GET", "/v1/status"))
        self.until(lambda: "tpuctl: " in self.text.split(AGAIN)[-1])
        self.server.answers[("GET", "/v1/status")] = answer
        self.until(lambda: "17 GiB" in self.text.split(AGAIN)[-1])
        self.ends(0, lambda: os.write(self.master, b"q"))

    def test_once(self):
        done = self.expect(["top", "--once"], 0, stderr="")
        self.assertIn("state    ready", done.stdout)
        self.assertIn("17 GiB", done.stdout)


class Fleet(Screen):
    def setUp(self):
        super().setUp()
        self.server, self.url = self.collector()
        slices = [{"name": f"s{i:02}", "hosts": 64, "ready": 62, "degraded": 1, "unfit": 1, "unknown": 0,
                   "silent": 0, "oldest_age_seconds": 3, "gang": {"state": "ready"}} for i in range(40)]
        self.server.answers[("GET", "/api/v1/slices")] = (200, {"slices": slices})
        self.server.answers[("GET", "/api/v1/runs")] = (200, {"runs": []})
        self.server.answers[("GET", "/api/v1/hosts")] = (200, lambda: {"next": None, "hosts": [
            host("bad-host", "unfit")] if "state=unfit" in self.server.seen[-1][1] else []})

    def test_it_fits(self):
        """So many slices as there is room for, the odd hosts below them."""
        self.open("top", "--fleet", "--collector", self.url, rows=24, columns=80)
        self.until(lambda: "1 host: 1 unfit" in self.text)
        self.assertIn("bad-host", self.text)
        self.assertIn("s03", self.text)
        self.assertNotIn("s20", self.text)
        self.assertLessEqual(len(self.pictures()[0]), 24)
        self.size(100, 80)
        self.until(lambda: "s20" in self.text)
        self.ends(0, lambda: os.write(self.master, b"q"))

    def test_once(self):
        done = self.expect(["top", "--fleet", "--once", "--collector", self.url], 0, stderr="")
        self.assertIn("s39", done.stdout)


if __name__ == "__main__":
    unittest.main()
