"""The collector's certificates are replaced while it runs: new connections get the new ones, bad files
change nothing, nobody is cut off; and all leave."""

import http.client
import os
import shutil
import signal
import socket
import ssl
import sys
import time
import unittest
from pathlib import Path

from collector_case import Case

sys.path.append(str(Path(__file__).resolve().parents[1] / "hostd"))
from certificates import Authority  # noqa: E402

READER = "spiffe://site/people"


class Certificates(Case):
    def setUp(self):
        super().setUp()
        self.folder = Path(self.dir.name)
        self.ca = Authority(self.folder / "ca")
        self.first, self.second, self.reader = (self.ca.issue("first"), self.ca.issue("second"),
                                                self.ca.issue("reader", f"URI:{READER}"))
        self.put(*self.first)
        shutil.copy(self.ca.cert, self.folder / "clients.pem")
        config = self.folder / "collectord.conf"
        config.write_text(f"[Collector]\nCertificate={self.folder}/server.pem\n"
                          f"Key={self.folder}/server.key\nClientCa={self.folder}/clients.pem\n"
                          f"AllowAgents=spiffe://site/host/*\nAllowReaders={READER}\n")
        self.start("--config", str(config))

    def put(self, cert, key):
        for new, old in ((cert, "server.pem"), (key, "server.key")):
            shutil.copy(new, self.folder / "new")
            os.replace(self.folder / "new", self.folder / old)

    def shown(self, port=None):
        return ssl.get_server_certificate(("127.0.0.1", port or self.c.api)).strip()

    def connect(self):
        context = ssl.create_default_context(cafile=self.ca.cert)
        context.load_cert_chain(*self.reader)
        c = http.client.HTTPSConnection("127.0.0.1", self.c.api, timeout=60, context=context)
        self.addCleanup(c.close)
        return c

    def status(self, c):
        c.request("GET", "/api/v1/hosts")
        r = c.getresponse()
        r.read()
        return r.status

    def test_renewal(self):
        first, second = (pair[0].read_text().strip() for pair in (self.first, self.second))
        stays = self.connect()
        self.assertEqual((self.shown(), self.shown(self.c.otlp), self.status(stays)), (first, first, 200))
        self.put(*self.second)
        self.assertEqual((self.shown(), self.shown(self.c.otlp)), (second, second))
        self.assertEqual((self.status(stays), self.status(self.connect())), (200, 200))
        self.put(self.first[0], self.second[1])
        self.assertEqual((self.shown(), self.status(self.connect())), (second, 200))
        self.put(*self.first)
        self.assertEqual((self.shown(), self.shown(self.c.otlp)), (first, first))
        self.assertEqual(self.c.stop(), 0)
        self.assertRegex(self.c.said, r"server\.key: is not the key of .*; the previous files stay in force")

    def test_another_authority(self):
        other = Authority(self.folder / "other", "another authority")
        shutil.copy(other.cert, self.folder / "clients.pem")
        self.assertEqual(self.status(self.connect()), 403)
        self.reader = other.issue("reader", f"URI:{READER}")
        self.assertEqual(self.status(self.connect()), 200)

    def test_all_leave_at_once(self):
        """At its limit libmicrohttpd does not listen; it must again, also when the last connections end
        in one turn."""
        held = [socket.create_connection(("127.0.0.1", self.c.api), 20) for _ in range(256)]
        time.sleep(0.3)
        self.c.process.send_signal(signal.SIGSTOP)
        for s in held:
            s.close()
        self.c.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.status(self.connect()), 200)


if __name__ == "__main__":
    unittest.main()
