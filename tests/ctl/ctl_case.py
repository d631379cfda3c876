"""What the tests of tpuctl share. The screens and exit codes of tpuctl, compared exactly, against a folder
of fixtures and servers that stand in for the daemons.

BUILD_DIR names the build. The stand-ins speak the real contracts: HTTP as in docs/api.md, frames as in
agent/base/frame.h and
proto/local.proto (encoded by hand here, so that a mistake in our own generated code cannot hide).
"""

import datetime
import http.server
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

from stand_ins import UnixHttp, Handler, Launchd, LaunchdHandler

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TPUCTL = pathlib.Path(os.environ["BUILD_DIR"]) / "agent/ctl/tpuctl"


def ago(seconds):
    return (datetime.datetime.now(datetime.timezone.utc)
            - datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Ctl(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="tpuctl-test-"))
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(SOURCE / "tests/fixtures/machine-v6e-4t", self.root, symlinks=True,
                        dirs_exist_ok=True)

    def serve(self, server):
        server.seen, server.answers = [], {}
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def hostd(self):
        path = self.root / "run/tpu-hostd/api.sock"
        path.parent.mkdir(parents=True)
        return self.serve(UnixHttp(str(path), Handler))

    def launchd(self):
        path = self.root / "run/tpu-launchd/launchd.sock"
        path.parent.mkdir(parents=True)
        return self.serve(Launchd(str(path), LaunchdHandler))

    def collector(self):
        server = self.serve(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        server.daemon_threads = True
        return server, f"http://127.0.0.1:{server.server_port}"

    def run_ctl(self, *args):
        done = subprocess.run([TPUCTL, "--root", self.root, *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60,
                              env={"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:1"}, check=False)
        self.assertNotIn("\033", done.stdout + done.stderr)
        return done

    def expect(self, args, code, stdout=None, stderr=None):
        done = self.run_ctl(*args)
        self.assertEqual((done.returncode, stdout if stdout is not None else done.stdout,
                          stderr if stderr is not None else done.stderr),
                         (code, done.stdout, done.stderr))
        return done
