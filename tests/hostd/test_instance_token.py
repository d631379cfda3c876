#!/usr/bin/python3
"""tpu-hostd with the certificate that all VMs share: a stand-in of the metadata server signs its instance
token, a real tpu-collectord knows it by that, and the token is nowhere else."""

import json
import os
import sys
import time
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "lab"), str(TESTS / "attack"), str(TESTS / "hostd")]
from around import Hostd, free_port, has_failed, wait_until  # noqa: E402
from attack_case import Attack  # noqa: E402
from endpoint import Endpoint  # noqa: E402
from instance_tokens import AUDIENCE, Key, PROJECT, ZONE, claims, jwks, token  # noqa: E402
from metadata import MetadataServer  # noqa: E402

SHARED = "spiffe://site/ns/tpu/sa/agents"
NAME, NUMBER = "t1v-n-0a1b2c3d-w-0", "6502082742571311568"
NICS = [{"mac": "42:01:0a:80:00:02", "ip": "10.128.0.2"}]
IDENTITY = "[Identity]\nSliceName=s0\nWorkerId=0\nWorkerHostnames=h0\nAcceleratorType=v6e-4\nTopology=2x2\n"


class Agent(Attack):
    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.ca.folder.chmod(0o755)
        self.cert, self.key = self.ca.issue("shared", f"URI:{SHARED}")
        self.google = Key(self.folder, "google-1")
        self.given = []
        self.metadata = MetadataServer(("127.0.0.1", 0), lambda _: NICS, name=NAME)
        self.addCleanup(lambda: self.metadata.thread.is_alive() and self.metadata.stop())
        self.metadata.id = NUMBER
        self.metadata.token = self.mint
        self.collector(AllowAgents=SHARED, TokenAudience=AUDIENCE,
                       TokenKeys=self.put("keys.json", jwks(self.google)),
                       HostFrom=f"gce:{PROJECT}/{ZONE}/{{host}}")

    def mint(self, audience):
        self.given.append(token(self.google, claims(NAME, number=NUMBER, aud=audience)))
        return self.given[-1]

    def hostd(self, endpoint=None, registry=None, audience=AUDIENCE):
        h = Hostd(endpoint=endpoint or f"https://127.0.0.1:{self.c.otlp}")
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        folder = h.root / "etc/tpu-hostd/identity.conf.d"
        for f in folder.iterdir():
            f.unlink()
        (folder / "50-test.conf").write_text(IDENTITY)
        (h.root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
        h.config.write_text(
            h.config.read_text().replace(f"LaunchdSocket={h.folder}/launchd.sock", "LaunchdSocket=")
            + f"[Uplink]\nCaFile={self.ca.cert}\nCertFile={self.cert}\nKeyFile={self.key}\n"
            f"[Metadata]\nHost={self.metadata.address}\nTokenAudience={audience}\n"
            "[Registry]\nKind=collector\nAddress=127.0.0.1\nSplay=0\n"
            f"Endpoint={registry or f'https://127.0.0.1:{self.c.otlp}'}\n")
        return h.start()

    def check(self, h, name="metadata.token"):
        return next((c for c in h.get("/v1/checks")["checks"] if c["check"] == name), {})

    def state(self, h):
        return h.get("/v1/status")["registry"]

    def asked(self):
        return [a for a in self.metadata.asked if "identity" in a[0]]

    def is_member(self, h):
        wait_until(lambda: self.state(h)["state"] == "member", 30, lambda: self.state(h))

    def events(self):
        return self.people(f"/api/v1/events?host={NAME}&limit=1000").json.get("events", [])

    def test_known_by_its_token(self):
        h = self.hostd()
        self.is_member(h)
        wait_until(self.events, 30, lambda: h.get("/v1/status")["uplink"])
        wait_until(lambda: self.check(h).get("found") == "good for 59 min", 10, lambda: self.check(h))
        path, query, headers = self.asked()[0]
        self.assertEqual((query, headers["Metadata-Flavor"]),
                         ({"audience": AUDIENCE, "format": "full"}, "Google"))
        time.sleep(2)
        self.assertEqual(len(self.asked()), 1)  # no polling: the next one is due in 50 minutes
        self.secret(h)

    def secret(self, h):
        """It is in no file, no log, no answer, neither here nor at the collector."""
        answers = [h.call(p)[2] for p in ("/v1/status", "/v1/identity", "/v1/checks", "/v1/events",
                                          "/metrics")]
        shown = self.people("/api/v1/events?limit=1000").json, self.people("/api/v1/hosts").json
        everything = b"".join([*answers, json.dumps(shown).encode(), h.output.read_bytes(),
                               *(p.read_bytes() for p in h.folder.rglob("*") if p.is_file()),
                               *(p.read_bytes() for p in self.folder.glob("c.db*")),
                               os.pread(self.c.log.fileno(), 1 << 22, 0)])
        self.assertTrue(self.given)
        for part in self.given[0].split(".")[1:]:
            self.assertNotIn(part.encode(), everything)

    def test_no_service_account(self):
        """The check says it, the registry says what the collector says, and a token that comes later is used
        at once."""
        self.metadata.token = None
        h = self.hostd()
        wait_until(lambda: "no service account is attached" in self.check(h).get("reason", ""), 30,
                   lambda: self.check(h))
        self.assertEqual(self.check(h)["verdict"], "WARN")
        wait_until(lambda: "there is no instance token" in self.state(h)["why"], 30, lambda: self.state(h))
        self.metadata.token = self.mint
        self.is_member(h)
        wait_until(self.events, 30, lambda: h.get("/v1/status")["uplink"])

    def test_no_token_of_ours(self):
        """What is no token for this audience is not used."""
        for text, why in ((lambda _: "<html>", "a page of HTML"), (lambda _: "no", "has not three parts"),
                          (lambda _: self.mint("https://other"), "aud is not TokenAudience=")):
            self.metadata.token = text
            h = self.hostd()
            wait_until(lambda: why in self.check(h).get("reason", ""), 30, lambda: self.check(h))
            h.close()

    def test_whom_it_goes_to(self):
        """Collectors of the registry alone, and over TLS alone."""
        heard = []

        class Listening(Endpoint):
            def start(self):
                super().start()
                handler = self.server.RequestHandlerClass
                post = handler.do_POST

                def do_post(own):
                    heard.append((self.context is not None, own.headers["Authorization"]))
                    post(own)
                handler.do_POST = do_post
                return self

        for secure in (True, False):
            e = Listening(port=free_port())
            self.addCleanup(e.stop)
            if secure:
                e.tls(*self.ca.issue("elsewhere"))
            e.start()
            h = self.hostd(endpoint=f"http{'s' if secure else ''}://127.0.0.1:{e.port}")
            self.is_member(h)  # by its token
            wait_until(lambda: e.got, 30, "telemetry elsewhere")
            if not secure:
                continue
            h.close()
        self.assertEqual({t for _, t in heard}, {None})
        self.assertEqual({s for s, _ in heard}, {True, False})

    def test_audience_that_makes_no_sense(self):
        h = self.hostd(audience="two words")
        self.assertIn("TokenAudience", h.output.read_text())
        self.assertEqual(self.check(h), {})


if __name__ == "__main__":
    unittest.main()
