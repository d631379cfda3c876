"""The uplink of tpu-hostd and certificates: what either side believes, and new files."""

import json
import os
import re
import shutil
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, has_failed, wait_until  # noqa: E402
from certificates import Authority, openssl  # noqa: E402
from uplink_case import Case  # noqa: E402


class Tls(Case):
    def setUp(self):
        super().setUp()
        self.ca, self.other = Authority(self.folder / "ca"), Authority(self.folder / "other",
                                                                       "other authority")
        self.folder.chmod(0o755)

    def serving(self, authority=None, client_ca=None, **validity):
        cert, key = (authority or self.ca).issue("server", **validity)
        return self.endpoint().tls(cert, key, client_ca).start()

    def refused(self, e, words, late=False, **uplink):
        h = self.hostd(e.url, **{"CaFile": self.ca.cert, **uplink})
        if late:  # -D: it is the child; and nobody looks for leaks under a tracer
            h.wrapper = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=sendto", "-e",
                         "inject=sendto:delay_enter=20000"]
            h.environment = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        h.start()
        try:
            wait_until(lambda: re.search(words, self.uplink(h)["endpoints"][0]["events"].get("why") or ""),
                       30, f"refused for: {words}")
        except AssertionError as e:
            self.fail(f"{e}: {self.uplink(h)}")
        u = self.uplink(h)
        self.assertTrue(u["parked"])
        self.assertEqual(e.got, [])
        self.assertGreater(u["classes"]["events"]["kept"], 0)
        wait_until(lambda: self.check(h, "uplink.delivery")["verdict"] == "FAIL", 5, "the check")
        return h

    def test_tls(self):
        e = self.serving()
        h = self.hostd(e.url, CaFile=self.ca.cert).start()
        self.expect_all(h, e)
        self.assertEqual(self.check(h, "uplink.certificate")["verdict"], "OK")

    def test_an_authority_that_is_not_ours(self):
        self.refused(self.serving(self.other), "certificate")

    def test_another_name(self):
        self.refused(self.serving(san="DNS:elsewhere.example"), "127.0.0.1")

    def test_an_expired_server(self):
        self.refused(self.serving(seconds=-60, since=-7200), "expired")

    def test_without_our_own_certificate(self):
        self.refused(self.serving(client_ca=self.ca.cert), "Certificate is required")

    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    def test_who_sends_late_hears_why_too(self):
        """With TLS 1.3 a server says no after the handshake. Then who sends late finds a connection
        reset, and no answer to read."""
        self.refused(self.serving(client_ca=self.ca.cert), "Certificate is required", late=True)

    def test_our_certificate_of_another_authority_then_the_right_one(self):
        cert, key = self.other.issue("host")
        own = self.folder / "own.pem"
        own.write_bytes(cert.read_bytes() + key.read_bytes())
        e = self.serving(client_ca=self.ca.cert)
        h = self.refused(e, "alert", CertFile=own, KeyFile=own)
        cert, key = self.ca.issue("host")
        (self.folder / "new").write_bytes(cert.read_bytes() + key.read_bytes())
        (self.folder / "new").rename(own)
        self.expect_all(h, e)  # without a restart, without waiting for the minute of a parked endpoint
        self.assertEqual(h.process.poll(), None)

    def test_a_renewed_certificate_is_used_without_restart(self):
        cert, key = self.ca.issue("host")
        e = self.serving(client_ca=self.ca.cert)
        h = self.hostd(e.url, CaFile=self.ca.cert, CertFile=cert, KeyFile=key).start()
        wait_until(lambda: len(e.got) >= 4, 10, "records")
        before = set(e.peers)
        self.ca.issue("host")  # the same names, one file after the other
        wait_until(lambda: set(e.peers) - before, 10, "the new certificate at the server")
        self.expect_all(h, e)

    def test_a_folder_that_is_replaced_whole(self):
        """As Compute Engine's guest agent does it: a new folder, and a link that is renamed over the last
        one."""
        def renew(n):
            folder = self.folder / f"contents-{n}"
            folder.mkdir()
            for name, file in zip(("certificates.pem", "private_key.pem", "ca_certificates.pem"),
                                  (*self.ca.issue("host"), self.ca.cert)):
                shutil.copy(file, folder / name)
            (self.folder / "link.new").symlink_to(folder)
            (self.folder / "link.new").rename(self.folder / "credentials")

        renew(1)
        e, folder = self.serving(client_ca=self.ca.cert), self.folder / "credentials"
        h = self.hostd(e.url, CaFile=folder / "ca_certificates.pem", CertFile=folder / "certificates.pem",
                       KeyFile=folder / "private_key.pem").start()
        wait_until(lambda: len(e.got) >= 4, 10, "records")
        before = set(e.peers)
        renew(2)
        shutil.rmtree(self.folder / "contents-1")
        wait_until(lambda: set(e.peers) - before, 10, "the new certificate at the server")
        self.expect_all(h, e)

    def test_the_end_of_our_certificate(self):
        e = self.serving()
        for seconds, since, verdict in ((900, -9000, "WARN"), (-5, -9000, "FAIL"), (9000, -900, "OK"),
                                        (9000, 900, "FAIL")):
            cert, key = self.ca.issue("host", seconds=seconds, since=since)
            h = self.hostd(e.url, CaFile=self.ca.cert, CertFile=cert, KeyFile=key).start()
            f = wait_until(lambda: self.check(h, "uplink.certificate"), 5, "the check")
            self.assertEqual((f["verdict"], f["found"][:7]), (verdict, "ends at"), f)
            if verdict != "OK":
                self.assertIn(str(cert), f["remedy"])
            h.stop()

    def test_files_that_will_not_do(self):
        e = self.serving()
        cert, key = self.ca.issue("host")
        _, other_key = self.ca.issue("other")
        locked, rubbish, missing = (self.folder / "locked.key", self.folder / "rubbish",
                                    self.folder / "missing")
        openssl("ec", "-in", key, "-aes128", "-passout", "pass:x", "-out", locked)
        rubbish.write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
        for files, words in (((missing, key), f"CertFile={missing}: No such file"),
                             ((rubbish, key), f"CertFile={rubbish}: holds no certificate"),
                             ((cert, other_key), f"KeyFile={other_key}: is not the key"),
                             ((cert, locked), f"KeyFile={locked}: has a passphrase"),
                             ((cert, rubbish), f"KeyFile={rubbish}: holds no private key"),
                             ((self.folder, key), "not a regular file")):
            h = self.hostd(e.url, CaFile=self.ca.cert, CertFile=files[0], KeyFile=files[1]).start()
            f = wait_until(lambda: self.check(h, "uplink.certificate"), 5, "the check")
            self.assertEqual(f["verdict"], "FAIL")
            self.assertIn(words, f["reason"])
            wait_until(lambda: self.uplink(h)["parked"], 5, "what waits is parked")
            h.stop()
        self.assertEqual((e.got, e.failures), ([], []))  # not even tried

    def test_credentials_of_systemd(self):
        cert, key = self.ca.issue("host")
        e = self.serving(client_ca=self.ca.cert)
        h = self.hostd(e.url, CaFile="credential:ca.pem", CertFile=f"credential:{cert.name}",
                       KeyFile=f"credential:{key.name}")
        h.environment = {"CREDENTIALS_DIRECTORY": str(self.ca.folder)}
        h.start()
        self.expect_all(h, e)


if __name__ == "__main__":
    unittest.main()
