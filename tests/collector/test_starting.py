#!/usr/bin/python3
"""How tpu-collectord starts, refuses to start, and ends."""

import os
import socket
import sqlite3
import subprocess
import unittest

from collector_case import PROGRAM, Case, metrics


class Starting(Case):
    def refuse(self, *options, code=1):
        p = subprocess.run([PROGRAM, "--config", "/dev/null", "--database",
                            os.path.join(self.dir.name, "x.db"), *options], capture_output=True,
                           text=True, timeout=60)
        self.assertEqual(p.returncode, code, p.stderr)
        return p.stderr

    def test_only_loopback(self):
        for address in ("0.0.0.0:0", "[::]:0", "10.1.2.3:4318"):
            self.assertIn("--insecure-listen", self.refuse("--listen-otlp", address))
            self.assertIn("--insecure-listen", self.refuse("--listen-api", address))
        self.assertFalse(os.path.exists(os.path.join(self.dir.name, "x.db")))
        for address in ("localhost:1", "127.0.0.1", "127.0.0.1:99999", "::1:80", ":80", "127.0.0.1:"):
            self.assertIn("ADDRESS:PORT", self.refuse("--listen-otlp", address))
        self.start("--insecure-listen", "--listen-api", "0.0.0.0:0")

    def start(self, *options):
        if not options:
            return super().start()
        c = subprocess.Popen([PROGRAM, "--config", "/dev/null", "--database",
                              os.path.join(self.dir.name, "y.db"), "--listen-otlp", "[::]:0",
                              *options], stderr=subprocess.PIPE, text=True)
        lines = []  # where there is no page, that is said first
        while not any("receiving OTLP" in line for line in lines) and (line := c.stderr.readline()):
            lines.append(line)
        c.terminate()
        self.assertEqual(c.wait(60), 0)
        c.stderr.close()
        self.assertIn("whoever reaches [::]:", lines[-2])
        self.assertIn("receiving OTLP", lines[-1])

    def test_configuration(self):
        conf = os.path.join(self.dir.name, "c.conf")
        with open(conf, "w") as f:
            f.write(f"[Collector]\nListenOtlp=127.0.0.1:0\nListenApi=192.0.2.1:1\n"
                    f"Database={self.dir.name}/from.db\n")
        p = subprocess.run([PROGRAM, "--config", conf, "--show-config"], capture_output=True, text=True,
                           timeout=60)
        self.assertEqual(p.returncode, 0)
        self.assertIn("192.0.2.1:1", p.stdout)
        self.assertIn("c.conf:3", p.stdout)
        p = subprocess.run([PROGRAM, "--config", conf, "--check-config"], capture_output=True, text=True,
                           timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn("ListenApi", p.stderr)

    def test_foreign_and_newer_database(self):
        path = os.path.join(self.dir.name, "x.db")
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE other (a)")
        db.commit()
        db.close()
        self.assertIn("another program",
                      self.refuse("--listen-otlp", "127.0.0.1:0", "--listen-api", "127.0.0.1:0"))

    def test_port_in_use_and_usage(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            address = "127.0.0.1:%d" % s.getsockname()[1]
            self.assertIn(address, self.refuse("--listen-otlp", address, "--listen-api", "127.0.0.1:0"))
        self.refuse("--no-such", code=64)
        self.refuse("word", code=64)

    def test_clean_end(self):
        c = super().start()
        self.ok(c.post("/v1/metrics", metrics()))
        self.assertEqual(c.stop(), 0)
        # the log was folded in
        self.assertEqual([f for f in os.listdir(self.dir.name) if f.startswith("c.db")], ["c.db"])


if __name__ == "__main__":
    unittest.main()
