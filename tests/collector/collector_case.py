"""What the tests of tpu-collectord share: the real program on loopback, seen by HTTP and by sqlite3.
BUILD_DIR names the build."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
import unittest

import otlp

PATIENCE = 60  # seconds that anything may take on a slow disk or a busy machine

BUILD = os.path.abspath(os.environ.get("BUILD_DIR", "build/dev"))
PROGRAM = os.path.join(BUILD, "collector", "tpu-collectord")
PROTOBUF = {"Content-Type": "application/x-protobuf"}
AGENT = {"host.name": "h0", "service.name": "tpu-hostd", "service.version": "0.1.0", "tpu.boot.id": "b-1",
         "tpu.slice.name": "s1", "tpu.worker.id": 3, "tpu.accelerator.type": "v6e-16"}
SPOOL = "0123456789abcdef"


class Collector:
    """One process and its database; with notify, what it told systemd is in .told."""

    def __init__(self, database, *options):
        self.database = database
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(os.path.join(os.path.dirname(database), f"notify-{time.monotonic_ns()}"))
        self.notify.settimeout(PATIENCE)
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [PROGRAM, *([] if "--config" in options else ["--config", "/dev/null"]), "--database", database,
             "--listen-otlp", "127.0.0.1:0", "--listen-api", "127.0.0.1:0", *options],
            stderr=self.log, env={**os.environ, "NOTIFY_SOCKET": self.notify.getsockname()})
        self.told = self.notify.recv(4096).decode()
        self.otlp, self.api = map(int, re.findall(r"127\.0\.0\.1:(\d+)", self.told))

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE)
        self.notify.close()
        self.log.seek(0)
        self.said = self.log.read().decode()
        self.log.close()
        return code

    def post(self, path, body, headers=None, **more):
        c = http.client.HTTPConnection("127.0.0.1", self.otlp, timeout=PATIENCE)
        c.request("POST", path, body, {**PROTOBUF, **(headers or {})}, **more)
        r = c.getresponse()
        r.content = r.read()
        c.close()
        return r

    def get(self, path, method="GET", body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.api, timeout=PATIENCE)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        text = r.read()
        c.close()
        r.json = json.loads(text) if r.getheader("Content-Type") == "application/json" and text else None
        r.text = text.decode()
        return r

    def latest(self, host="h0"):
        """[(name, attributes, value)] of a host, sorted by name."""
        return [(m["name"], m["attributes"], m["value"])
                for m in self.get("/api/v1/hosts/" + host).json["metrics"]]

    def sql(self, question, *values):
        db = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            return db.execute(question, values).fetchall()
        finally:
            db.close()


def metrics(value=1, res=AGENT, name="m"):
    return otlp.request(res, [otlp.gauge(name, [otlp.point(value)])])


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.c = None

    def start(self, *options):
        self.c = Collector(os.path.join(self.dir.name, "c.db"), *options)
        return self.c

    def tearDown(self):
        if self.c and self.c.process.poll() is None:
            code = self.c.stop()
            self.assertEqual(code, 0, self.c.said)

    def until(self, what):
        end = time.monotonic() + PATIENCE
        while not what():
            self.assertLess(time.monotonic(), end, f"not within {PATIENCE} s")
            time.sleep(0.02)

    def ok(self, r):
        self.assertEqual((r.status, r.getheader("Content-Type")), (200, PROTOBUF["Content-Type"]), r.content)
        return r

    def refused(self, r, status, words):
        """The answer is this status with a google.rpc.Status whose message has the words."""
        self.assertEqual((r.status, r.getheader("Content-Type")), (status, PROTOBUF["Content-Type"]))
        fields = otlp.parse(r.content)
        self.assertIn(words, fields[2][0].decode())
        self.assertGreater(fields[1][0], 0)
