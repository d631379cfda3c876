#!/usr/bin/python3
"""A VM with the certificate that all VMs of the site share: without a token of its own, or with one that
does not count, it is no host; with its own it is itself alone."""

import http.client
import http.server
import json
import os
import re
import ssl
import subprocess
import threading
import unittest

from attack_case import AGENT, TESTS, Attack, member, otlp  # noqa: E402
from instance_tokens import AUDIENCE, Key, PROJECT, ZONE, claims, hs256, jwks, token  # noqa: E402

UNIT = TESTS.parent / "systemd/tpu-collector-token-keys.service"
SHARED = "spiffe://site/ns/tpu/sa/agents"
SYNC = "/registry/v1/sync"


class Shared(Attack):
    def setUp(self):
        super().setUp()
        self.who["shared"] = self.ca.issue("shared", f"URI:{SHARED}")
        self.google = Key(self.folder, "google-1")
        self.keys = self.put("keys.json", jwks(self.google))

    def site(self, **changes):
        return self.collector(**{"AllowAgents": SHARED, "TokenKeys": self.keys, "TokenAudience": AUDIENCE,
                                 "HostFrom": f"gce:{PROJECT}/{ZONE}/{{host}}", **changes})

    def token(self, vm, key=None, **changes):
        return token(key or self.google, claims(vm, **changes))

    def as_vm(self, text, host="a", slice_name=None, **more):
        """A sync for a host, with this token."""
        slice_name = slice_name or f"s-{host}"
        r = self.call("shared", SYNC, json.dumps({"v": 1, "member": member(host, slice_name, **more)}),
                      {"Authorization": f"Bearer {text}"} if text else {})
        r.json = json.loads(r.content)
        return r

    def refuses(self, text, *words, **more):
        r = self.as_vm(text, **more)
        self.assertEqual(r.status, 403, r.content)
        for w in words:
            self.assertIn(w, r.json["error"])
        if text:
            for part in text.split("."):
                self.assertFalse(len(part) > 20 and part in r.content.decode(), "the token is in the answer")

    def test_its_own_token(self):
        """With it a VM is the host that it is: for its syncs, its pushes, and no other's."""
        self.site()
        a, gauge = self.token("a"), [otlp.gauge("m", [otlp.point(1)])]
        self.assertEqual(self.as_vm(a).status, 200)
        self.refuses(a, "this caller is host a, and it speaks for host b", host="b")
        for host, status in (("a", 200), ("b", 403)):
            r = self.call("shared", "/v1/metrics", otlp.request({**AGENT, "host.name": host}, gauge),
                          {"Content-Type": "application/x-protobuf", "Authorization": f"Bearer {a}"})
            self.assertEqual(r.status, status, r.content)
        self.assertEqual(self.c.sql("SELECT name FROM hosts WHERE name IN ('a', 'b')"), [("a",)])
        self.assertIn("gce:site-tpu/us-east5-a/a from", self.refusals()[0]["body"])

    def test_no_token(self):
        self.site()
        self.refuses(None, "there is no instance token")
        for value in ("Basic YTpi", "Bearer", "bearer x"):
            r = self.call("shared", SYNC, "{}", {"Authorization": value})
            self.assertEqual(r.status, 403, value)

    def test_a_certificate_of_its_own(self):
        """Who has one needs no token, and another's adds nothing to it."""
        self.site(AllowAgents=f"{SHARED} spiffe://site/host/*",
                  HostFrom=f"gce:{PROJECT}/{ZONE}/{{host}} spiffe://site/host/{{host}}")
        self.assertEqual(self.sync("a", member=member("a")).status, 200)
        r = self.call("a", SYNC, json.dumps({"v": 1, "member": member("b", "s9")}),
                      {"Authorization": f"Bearer {self.token('b')}"})
        self.assertEqual(r.status, 403, r.content)

    def test_time(self):
        self.site()
        self.refuses(self.token("a", since=-3600 - 300), "exp is over, since 3")
        self.refuses(self.token("a", since=300), "iat is ahead")
        self.refuses(self.token("a", life=86400), "exp is more than an hour behind its iat")
        for since in (-3600 - 60, 60):  # clocks differ
            self.assertEqual(self.as_vm(self.token("a", since=since)).status, 200)

    def test_fields(self):
        """What is missing or another's is refused by its name."""
        self.site()
        for changes, words in (({"aud": "https://elsewhere"}, "aud is 'https://elsewhere', not"),
                               ({"aud": [AUDIENCE]}, "aud is missing, or no text"),
                               ({"aud": AUDIENCE + "/"}, "aud is"),
                               ({"iss": "https://accounts.google.com.evil"}, "iss is"),
                               ({"exp": None}, "exp is missing"), ({"iat": "now"}, "iat is missing, or no"),
                               ({"exp": 1e30}, "exp is missing, or no time"),
                               ({"google": None}, "google.compute_engine is missing"),
                               ({"vm_claims": {"instance_id": None}}, "instance_id is missing"),
                               ({"vm_claims": {"project_id": "evil"}}, "'gce:evil/us-east5-a/a'"),
                               ({"vm_claims": {"zone": "us-east5-b"}}, "'gce:site-tpu/us-east5-b/a'"),
                               ({"vm_claims": {"zone": f"{ZONE}/a"}}, "zone has letters"),
                               ({"vm_claims": {"instance_name": "a/../b"}}, "instance_name has letters"),
                               ({"vm_claims": {"instance_name": "a\nb"}}, "instance_name is too long, or")):
            self.refuses(self.token("a", **changes), words)

    def test_algorithms(self):
        """A token does not choose how it is checked."""
        self.site()
        mine, said = Key(self.folder, "mine"), claims("a")
        public = self.google.public
        for text, words in (
                (token(self.google, said, {"alg": "none"}, lambda _: b""), "alg is not RS256"),
                (token(self.google, said, {"alg": "none"}), "alg is not RS256"),
                (token(self.google, said, {"alg": "HS256"}, hs256(public)), "alg is not RS256"),
                (token(self.google, said, sign=hs256(public)), "signature is of no key"),
                (token(self.google, said, {"kid": "mine"}, mine.sign), "kid is of no key"),
                (token(self.google, said, {"kid": None}, mine.sign), "kid is of no key"),
                (token(self.google, said, {"jwk": mine.jwk(), "jku": "http://x"}, mine.sign), "signature"),
                (token(self.google, said, {"crit": ["b64"]}), "crit asks"),
                (token(self.google, said, sign=lambda _: b""), "signature is none of RS256"),
                (token(mine, said), "kid is of no key")):
            self.refuses(text, words)

    def test_changed(self):
        """Another payload under a signature that counts, and texts that are no token."""
        self.site()
        a, b = self.token("a").split("."), self.token("b").split(".")
        self.refuses(".".join((a[0], b[1], a[2])), "signature is of no key", host="b")
        for text in ("x", "..", "a.b.c", ".".join(a[:2]), ".".join(a + ["x"]), "A" * 5000):
            self.refuses(text, "the instance token's")

    def test_another_on_one_connection(self):
        """A connection is one VM's: the token of another on it is refused, and it ends."""
        self.site()
        c = self.connect("shared")
        ask = lambda vm, **more: self.ask(
            c, "POST", SYNC, json.dumps({"v": 1, "member": member(vm, f"s-{vm}")}),
            {"Authorization": f"Bearer {self.token(vm, **more)}"})
        self.assertEqual([ask("a").status, ask("a", since=-5).status], [200, 200])  # renewed
        r = ask("b")
        self.assertEqual((r.status, r.getheader("Connection")), (403, "close"), r.content)
        self.assertIn(b"this connection is host a's", r.content)
        c.request("POST", SYNC, json.dumps({"v": 1, "member": member("a", "s-a")}),
                  {"Authorization": f"Bearer {self.token('a')}"})
        self.assertEqual(c.getresponse().status, 200)

    def test_each_request_has_one(self):
        self.site()
        c, body = self.connect("shared"), json.dumps({"v": 1, "member": member("a")})
        head = {"Authorization": f"Bearer {self.token('a')}"}
        self.assertEqual(self.ask(c, "POST", SYNC, body, head).status, 200)
        self.assertEqual(self.ask(c, "POST", SYNC, body).status, 403)

    def test_it_ends_while_connected(self):
        self.site()
        c, body = self.connect("shared"), json.dumps({"v": 1, "member": member("a")})
        head = {"Authorization": f"Bearer {self.token('a', since=-3600 - 118)}"}
        self.assertEqual(self.ask(c, "POST", SYNC, body, head).status, 200)
        self.until(lambda: self.ask(c, "POST", SYNC, body, head).status == 403)

    def test_replayed(self):
        """What a bearer token cannot prove: A that read B's token speaks for B until it ends. It needs a
        certificate besides, B's name and VM, and is refused by every other collector's audience."""
        self.site()
        b = self.token("b")
        self.assertEqual(self.as_vm(b, host="b").status, 200)
        c = http.client.HTTPSConnection("127.0.0.1", self.c.otlp, timeout=60,
                                        context=ssl.create_default_context(cafile=self.ca.cert))
        r = self.ask(c, "POST", SYNC, "{}", {"Authorization": f"Bearer {b}"})
        self.assertEqual(r.status, 403)
        self.assertIn(b"no client certificate", r.content)
        self.refuses(b, "speaks for host a")
        number = claims("b")["google"]["compute_engine"]["instance_id"]
        self.refuses(b, f"this instance token is the VM {number}'s, and it speaks for the machine 17",
                     host="b", id="17")
        # its own id is taken: this is refused as a second worker of host b
        self.assertEqual(self.as_vm(b, host="b", id=number, slice_name="s-x").status, 503)

    def test_rotation(self):
        """A second key is taken, with both in the file, and the first one ends with its line."""
        self.site()
        second = Key(self.folder, "google-2")
        one, two = self.token("a"), self.token("a", second)
        self.assertEqual(self.as_vm(one).status, 200)
        self.refuses(two, "kid is of no key")
        self.put("keys.json", jwks(self.google, second))
        self.assertEqual([self.as_vm(t).status for t in (one, two)], [200, 200])
        self.put("keys.json", jwks(second))
        self.assertEqual(self.as_vm(two).status, 200)
        self.refuses(one, "kid is of no key")
        for text, words in (("{", "no JWKS"), (json.dumps({"keys": []}), "no RSA key"),
                            (jwks(Key(self.folder, "short", 1024)), "less than 2048 bits")):
            self.put("keys.json", text)
            self.assertEqual(self.as_vm(two).status, 200)  # the previous file stays in force
            self.assertIn(words, os.pread(self.c.log.fileno(), 1 << 20, 0).decode())

    def test_the_unit_fetches_keys(self):
        """tpu-collector-token-keys.service: a whole answer replaces the file, nothing else does."""
        keys, fetched = [jwks(self.google)], self.folder / "token-keys.json"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if keys else 500)
                self.end_headers()
                self.wfile.write("".join(keys).encode())

            def log_message(self, *words):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)

        def fetch():
            for line in re.findall("(?m)^ExecStart=(.*)", UNIT.read_text()):
                words = line.replace("${URL}", f"https://127.0.0.1:{server.server_port}/certs").split()
                if subprocess.run(words, cwd=self.folder, capture_output=True, check=False,
                                  env={"CURL_CA_BUNDLE": str(self.ca.cert)}).returncode != 0:
                    return False
            return True

        self.assertTrue(fetch())
        self.site(TokenKeys=fetched)
        self.assertEqual(self.as_vm(self.token("a")).status, 200)
        before = fetched.read_text()
        keys.clear()
        self.assertFalse(fetch())
        self.assertEqual(fetched.read_text(), before)

    def test_keys_in_pem(self):
        """Public keys have no kid: each is tried."""
        second = Key(self.folder, "google-2")
        self.put("keys.json", self.google.public + second.public)
        self.site()
        for key in (self.google, second):
            self.assertEqual(self.as_vm(self.token("a", key)).status, 200)
        self.refuses(self.token("a", Key(self.folder, "mine")), "signature is of no key")

    def test_map(self):
        """A file says which VM is which host; a pattern with a star is for certificates alone."""
        hosts = self.put("hosts", f"gce:{PROJECT}/{ZONE}/vm-1 a\n")
        self.site(HostFrom=f"{hosts} *host/{{host}}")
        self.assertEqual(self.as_vm(self.token("vm-1")).status, 200)
        self.refuses(self.token("host", vm_claims={"project_id": "evil"}), "HostFrom= does not say")

    def test_name_of_a_token_in_a_certificate(self):
        self.who["shared"] = self.ca.issue("liar", f"URI:gce:{PROJECT}/{ZONE}/b,URI:{SHARED}")
        self.site()
        self.refuses(None, "there is no instance token", host="b")

    def test_no_secret_is_kept(self):
        """No token is logged, stored or shown to people."""
        self.site()
        texts = [self.token("a"), self.token("a", aud="x"), self.token("a", Key(self.folder, "mine"))]
        for t in texts:
            self.as_vm(t)
        shown = json.dumps(self.people("/api/v1/events?limit=1000").json)
        self.assertEqual(self.c.stop(), 0)
        kept = b"".join(p.read_bytes() for p in self.folder.glob("c.db*"))
        for t in texts:
            for part in t.split(".")[1:]:
                self.assertNotIn(part, self.c.said + shown)
                self.assertNotIn(part.encode(), kept)

    def test_what_makes_no_sense(self):
        keys = {"TokenKeys": self.keys, "TokenAudience": AUDIENCE}
        vm = f"gce:{PROJECT}/{ZONE}/{{host}}"
        for words, said in (({**keys}, "TokenKeys= needs HostFrom=gce:"),
                            ({"HostFrom": vm}, "needs TokenKeys="),
                            ({"HostFrom": vm, "TokenKeys": self.keys}, "belong together"),
                            ({**keys, "TrustAllAgents": "yes"}, "TokenKeys= needs HostFrom="),
                            ({**keys, "HostFrom": vm, "TokenKeys": "/no/such"}, "/no/such: No such file")):
            self.assertIn(said, self.collector_refuses(**words))


if __name__ == "__main__":
    unittest.main()
