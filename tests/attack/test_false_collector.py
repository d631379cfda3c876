#!/usr/bin/python3
"""A collector or an etcd whose certificate was revoked, in the hands of somebody else: agents, tpuctl and
collectors send it nothing, obey nothing and show nothing of it."""

import http.server
import os
import ssl
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hostd"))
from attack_case import Attack  # noqa: E402
from around import BINARY, wait_until  # noqa: E402
from certificates import Authority  # noqa: E402
from test_registry import SLICE, WithRegistry  # noqa: E402
from uplink_case import Case  # noqa: E402

TPUCTL = BINARY.parents[1] / "ctl/tpuctl"


def put(path, text):
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)
    return path


class Registry(WithRegistry):
    def test_orders_of_a_revoked_one(self):
        """Not obeyed; a list that no longer names it is taken without a restart."""
        h = self.hostd(start=False, alone=True)
        ca = Authority(h.folder / "ca")
        h.folder.chmod(0o755)
        stolen = ca.issue("collector")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*stolen)
        r = self.registry(tls=context)
        r.put("slice/s0", SLICE)
        first = ca.lists()
        crl = put(h.folder / "lists.pem", ca.lists(stolen[0]))
        h.config.write_text(h.config.read_text() + "[Registry]\nKind=collector\n"
                            f"CaFile={ca.cert}\nCrl={crl}\n"
                            f"Endpoint=https://127.0.0.1:{r.port}\n")
        h.start()
        wait_until(lambda: "revoked" in self.state(h)["why"], 60, lambda: f"refused: {self.state(h)}")
        self.assertEqual((r.asked, h.get("/v1/status")["slice"]), ([], None))
        put(crl, first)
        self.until(h, "member")
        self.assertEqual(len(r.members), 1)


class Uplink(Case):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.ca = Authority(self.folder / "ca")
        self.cert, self.key = self.ca.issue("server")

    def why(self, h):
        return self.uplink(h)["endpoints"][0]["events"].get("why") or ""

    def test_records_for_a_revoked_one(self):
        e = self.endpoint().tls(self.cert, self.key, None).start()
        first, crl = self.ca.lists(), self.folder / "lists.pem"
        put(crl, self.ca.lists(self.cert))
        h = self.hostd(e.url, CaFile=self.ca.cert, Crl=crl).start()
        wait_until(lambda: "revoked" in self.why(h), 60, lambda: f"refused: {self.uplink(h)}")
        self.assertEqual(e.got, [])
        put(crl, first)
        self.expect_all(h, e)

    def test_lists_that_cannot_be_used(self):
        """Nothing is sent until there is one again, and the check names the file."""
        e = self.endpoint().tls(self.cert, self.key, None).start()
        crl = put(self.folder / "lists.pem", "no list\n")
        h = self.hostd(e.url, CaFile=self.ca.cert, Crl=crl).start()
        check = lambda: self.check(h, "uplink.certificate") or {}
        wait_until(lambda: "holds no revocation list in PEM form" in check().get("reason", ""), 60, check)
        self.assertEqual(e.got, [])
        put(crl, self.ca.lists())
        self.expect_all(h, e)

    def test_an_overdue_list(self):
        """What a client of ours does with one is what a server does: whoever forgets to renew it cuts
        nobody off."""
        e = self.endpoint().tls(self.cert, self.key, None).start()
        crl = put(self.folder / "lists.pem", self.ca.lists(due=1))
        time.sleep(2.2)
        h = self.hostd(e.url, CaFile=self.ca.cert, Crl=crl).start()
        self.expect_all(h, e)


class Ctl(Attack):
    def test_answers_of_a_revoked_one(self):
        self.collector()
        for lists, code in ((self.ca.lists(), 0), (self.ca.lists(self.server[0]), 3)):
            config = self.put("tpuctl.conf",
                              f"[Ctl]\nCollector=https://127.0.0.1:{self.c.api}\n"
                              f"CollectorCa={self.ca.cert}\n"
                              f"CollectorCertificate={self.who['reader'][0]}\n"
                              f"CollectorKey={self.who['reader'][1]}\n"
                              f"CollectorCrl={self.put('lists.pem', lists)}\n")
            p = subprocess.run([TPUCTL, "--config", config, "fleet"], capture_output=True, text=True,
                               timeout=60, check=False, stdin=subprocess.DEVNULL)
            self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        self.assertIn("revoked", p.stderr)


class Etcd(Attack):
    """A stand-in of etcd, whose certificate was revoked: it notes what it is asked."""

    def etcd(self, certificate):
        asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                asked.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_error(503)

            def log_message(self, *words):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # a client that hangs up
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"https://127.0.0.1:{server.server_port}", asked

    def test_an_etcd_that_was_revoked(self):
        """It is sent nothing, not even the password; a list that no longer names it is taken without a
        restart."""
        stolen = self.ca.issue("etcd")
        url, asked = self.etcd(stolen)
        first = self.ca.lists()
        crl = self.put("etcd-lists.pem", self.ca.lists(stolen[0]))
        self.collector({"Store": "etcd", "Etcd": url, "EtcdCa": self.ca.cert, "EtcdCrl": crl,
                        "EtcdUser": "tpu", "EtcdPasswordFile": self.put("password", "quiet\n"),
                        "AgentsUrl": "https://127.0.0.1:1", "PeopleUrl": "https://127.0.0.1:2"})
        self.until(lambda: "revoked" in self.log())
        self.assertEqual(asked, [])
        self.put("etcd-lists.pem", first)
        self.until(lambda: asked)
        self.assertIn(b"quiet", asked[0])

    def log(self):
        return os.pread(self.c.log.fileno(), 1 << 20, 0).decode()


if __name__ == "__main__":
    unittest.main()
