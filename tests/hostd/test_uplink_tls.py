"""The uplink of tpu-hostd and certificates: what either side believes, new files, and a fresh VM's first one."""

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
from stand_in_ca import Ca, Metadata  # noqa: E402
from uplink_case import Case  # noqa: E402


class Tls(Case):
    def setUp(self):
        super().setUp()
        self.ca, self.other = Authority(self.folder / "ca"), Authority(self.folder / "other", "other authority")
        self.folder.chmod(0o755)

    def serving(self, authority=None, client_ca=None, **validity):
        cert, key = (authority or self.ca).issue("server", **validity)
        return self.endpoint().tls(cert, key, client_ca).start()

    def refused(self, e, words, late=False, **uplink):
        h = self.hostd(e.url, **{"CaFile": self.ca.cert, **uplink})
        if late:  # -D: it is the child; and nobody looks for leaks under a tracer
            h.wrapper = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=sendto", "-e", "inject=sendto:delay_enter=20000"]
            h.environment = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        h.start()
        try:
            wait_until(lambda: re.search(words, self.uplink(h)["endpoints"][0]["events"].get("why") or ""), 30, f"refused for: {words}")
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
        """With TLS 1.3 a server says no after the handshake. Then who sends late finds a connection reset, and no answer to read."""
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

    def test_the_end_of_our_certificate(self):
        e = self.serving()
        for seconds, since, verdict in ((900, -9000, "WARN"), (-5, -9000, "FAIL"), (9000, -900, "OK"), (9000, 900, "FAIL")):
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
        locked, rubbish, missing = self.folder / "locked.key", self.folder / "rubbish", self.folder / "missing"
        openssl("ec", "-in", key, "-aes128", "-passout", "pass:x", "-out", locked)
        rubbish.write_text("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
        for files, words in (((missing, key), f"CertFile={missing}: No such file"), ((rubbish, key), f"CertFile={rubbish}: holds no certificate"),
                             ((cert, other_key), f"KeyFile={other_key}: is not the key"), ((cert, locked), f"KeyFile={locked}: has a passphrase"),
                             ((cert, rubbish), f"KeyFile={rubbish}: holds no private key"), ((self.folder, key), "not a regular file")):
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
        h = self.hostd(e.url, CaFile="credential:ca.pem", CertFile=f"credential:{cert.name}", KeyFile=f"credential:{key.name}")
        h.environment = {"CREDENTIALS_DIRECTORY": str(self.ca.folder)}
        h.start()
        self.expect_all(h, e)


class FirstCertificate(Case):
    """A fresh VM gets its certificate by its identity token; the authority and the metadata server are stand-ins."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.ca = Authority(self.folder / "ca")
        self.cert, self.key = self.ca.issue("server")
        self.metadata = Metadata()
        self.addCleanup(self.metadata.stop)
        self.e = self.endpoint().tls(self.cert, self.key, self.ca.cert).start()

    def stand_in(self, **validity):
        ca = Ca(self.ca, self.metadata, self.cert, self.key, **validity)
        self.addCleanup(ca.stop)
        return ca

    def host(self, ca, **uplink):
        h = Hostd(endpoint=self.e.url)
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        self.file = h.folder / "certificate.pem"
        with open(h.config, "a") as f:
            f.write(f"[Metadata]\nHost=127.0.0.1:{self.metadata.port}\nCopy={h.folder}/metadata.json\n[Uplink]\nCaFile={self.ca.cert}\n"
                    f"CertificateUrl={ca.url}\nCertificateFile={self.file}\n" + "".join(f"{k}={v}\n" for k, v in uplink.items()))
        return h

    def secrets_stay(self, h):
        said = h.output.read_text() + json.dumps(h.get("/v1/checks")) + json.dumps(h.get("/v1/status"))
        self.assertNotIn("PRIVATE KEY", said)
        self.assertNotRegex(said, r"eyJ[A-Za-z0-9_-]+\.|c2lnbmF0dXJl")

    def test_a_fresh_vm(self):
        ca = self.stand_in()
        h = self.host(ca, CertificateAudience=f"{ca.url}#gcp/tpu hosts").start()
        self.expect_all(h, self.e)
        self.assertEqual(self.metadata.asked, [(f"{ca.url}#gcp/tpu hosts", "full")])
        self.assertEqual(ca.subjects, ["subject=CN = t1v-n-0a1b2c3d-w-0"])
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.assertIn(b"spiffe://lab/host/4711", openssl("x509", "-noout", "-ext", "subjectAltName", "-in", self.file))
        openssl("verify", "-CAfile", self.ca.cert, self.file)
        wait_until(lambda: self.check(h, "uplink.certificate")["verdict"] == "OK", 5, "the check")
        self.secrets_stay(h)
        h.stop()
        h.start()
        time.sleep(1)
        self.assertEqual(len(ca.asked), 1)  # a restart keeps it
        self.expect_all(h, self.e)

    def test_renewed_before_its_end(self):
        ca = self.stand_in(seconds=10, since=0)
        h = self.host(ca).start()
        wait_until(lambda: len(set(self.e.peers)) >= 3, 40, "three certificates in turn")
        self.assertGreater(len(ca.asked), 2)
        self.expect_all(h, self.e)
        self.assertEqual(self.e.failures, [])  # there was always a good one

    def test_refused_then_granted(self):
        ca = self.stand_in()
        for instead, words in (((401, b'{"status":401,"message":"no such instance\\u001b[2J"}'), "HTTP 401: no such instance"),
                               ((201, b"<html>"), "no JSON object"), ((201, b'{"crt":"x"}'), "no certificate in PEM"),
                               ((201, json.dumps({"crt": self.cert.read_text()}).encode()), "not for our key"), ((200, b"x" * 70000), "too long")):
            with self.subTest(words):
                ca.instead = instead
                h = self.host(ca).start()
                f = wait_until(lambda: (lambda c: c if c and words in c["reason"] else None)(self.check(h, "uplink.certificate")), 5, words)
                self.assertEqual(f["verdict"], "FAIL")
                self.assertFalse(self.file.exists())
                self.assertNotIn("\x1b", json.dumps(f))
                self.secrets_stay(h)
                if instead[0] == 401:
                    ca.instead = None
                    self.expect_all(h, self.e)
                h.stop()

    def test_no_token(self):
        self.metadata.status = 404
        h = self.host(self.stand_in()).start()
        wait_until(lambda: "has this VM a service account?" in (self.check(h, "uplink.certificate") or {"reason": ""})["reason"], 5, "the reason")
        self.metadata.status = 200
        self.expect_all(h, self.e)

    def test_an_authority_that_nobody_vouches_for(self):
        other = Authority(self.folder / "other", "other authority")
        self.cert, self.key = other.issue("server")
        ca = self.stand_in()
        h = self.host(ca).start()
        wait_until(lambda: "certificate" in (self.check(h, "uplink.certificate") or {"reason": ""})["reason"] and
                   ca.url in self.check(h, "uplink.certificate")["reason"], 5, "the reason")
        self.assertEqual(ca.asked, [])  # and has not seen the token


if __name__ == "__main__":
    unittest.main()
