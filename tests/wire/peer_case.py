"""Somebody else's server, in a folder and at ports of its own, and what it answers."""

import http.client
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
from pathlib import Path

import peers


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def get(port, path, headers=None, **query):
    """(status, text); (0, "") while nobody listens."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        c.request("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""),
                  headers=headers or {})
        r = c.getresponse()
        return r.status, r.read().decode()
    except OSError:
        return 0, ""
    finally:
        c.close()


class PeerCase(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="wire-peer-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def peer(self, suite, package):
        """The program of a package's name."""
        try:
            return peers.debian(suite, package) / "usr/bin" / package
        except peers.Missing as why:
            self.skipTest(str(why))

    def wait(self, what, name):
        end = time.monotonic() + 60
        while not (result := what()):
            self.assertLess(time.monotonic(), end, f"not within a minute: {name}")
            time.sleep(0.05)
        return result

    def start(self, *words, ready):
        """ready: (port, path) that it answers 200 from when it can be used."""
        with open(self.folder / "said", "ab") as log:
            process = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, cwd=self.folder)
        self.addCleanup(lambda: (process.kill(), process.wait()))
        self.wait(lambda: get(*ready)[0] == 200 or process.poll() is not None, f"{words[0]} to be ready")
        self.assertIsNone(process.poll(), (self.folder / "said").read_text(errors="replace")[-2000:])
        return process
