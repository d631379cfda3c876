#!/usr/bin/python3
"""Certificates of both sides of tpu-collectord."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time
import unittest

import otlp
from collector_case import AGENT, BUILD, PROGRAM, PROTOBUF, Case, Collector, metrics


with open(PROGRAM, "rb") as f:
    SANITIZED = b"__asan_init" in f.read()


def context_of(folder, who):
    context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
    context.load_cert_chain(f"{folder}/{who}.crt", f"{folder}/{who}.key")
    return context


class Tls(Case):
    """Certificates of both sides: who has none, a foreign, an expired one, or another URI gets 403 and
    changes nothing."""

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=self.dir.name)

    def certificate(self, name, ca, san, days="30"):
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                     f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        with open(os.path.join(self.dir.name, "ext"), "w") as f:
            f.write(f"subjectAltName={san}\n" if san else "basicConstraints=CA:FALSE\n")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key",
                     "-CAcreateserial", "-days", days, "-extfile", "ext",
                     "-out", f"{name}.crt")

    def setUp(self):
        super().setUp()
        for ca in ("ca", "foreign"):
            self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                         "-keyout", f"{ca}.key", "-out", f"{ca}.crt", "-days", "30",
                         "-subj", f"/CN={ca}")
        self.certificate("server", "ca", "IP:127.0.0.1")
        self.certificate("agent", "ca", "URI:spiffe://site/host/7")
        self.certificate("reader", "ca", "DNS:x,URI:spiffe://site/people")
        self.certificate("actor", "ca", "URI:spiffe://site/control")
        self.certificate("unnamed", "ca", "")
        self.certificate("expired", "ca", "URI:spiffe://site/host/7", "-1")
        self.certificate("stranger", "foreign", "URI:spiffe://site/host/7")

    def configuration(self, **changes):
        keys = {"Certificate": f"{self.dir.name}/server.crt", "Key": f"{self.dir.name}/server.key",
                "ClientCa": f"{self.dir.name}/ca.crt",
                "AllowAgents": "spiffe://site/host/*", "TrustAllAgents": "yes",
                "AllowReaders": "spiffe://site/other spiffe://site/people", **changes}
        path = os.path.join(self.dir.name, "c.conf")
        with open(path, "w") as f:
            f.write("[Collector]\n" + "".join(f"{k}={v}\n" for k, v in keys.items() if v is not None))
        return path

    def call(self, port, who, method, path, body=None, headers=None, version=None):
        context = ssl.create_default_context(cafile=f"{self.dir.name}/ca.crt")
        if who:
            context.load_cert_chain(f"{self.dir.name}/{who}.crt", f"{self.dir.name}/{who}.key")
        if version:
            context.maximum_version = version
        conn = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        conn.request(method, path, body, headers or {})
        r = conn.getresponse()
        r.content = r.read()
        conn.close()
        return r

    def test_who_may_call(self):
        self.c = c = Collector(os.path.join(self.dir.name, "c.db"), "--config",
                               self.configuration(AllowTls12="yes"))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/metrics", metrics(), PROTOBUF,
                                       version).status, 200)
        self.assertEqual(self.call(c.api, "reader", "GET", "/api/v1/hosts").status, 200)
        for who in (None, "unnamed", "expired", "stranger", "reader"):
            r = self.call(c.otlp, who, "POST", "/v1/logs", otlp.request(AGENT, [otlp.log("no", who or "")]),
                          PROTOBUF)
            self.refused(r, 403, "certificate" if who != "reader" else "spiffe://site/people")
        for who in (None, "unnamed", "expired", "stranger", "agent"):
            for path in ("/api/v1/hosts", "/metrics", "/no/such"):
                self.assertEqual((who, self.call(c.api, who, "GET", path).status), (who, 403))
            self.assertEqual(self.call(c.api, who, "GET", "/healthz").status, 200)
        self.assertEqual(c.sql("SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM hosts)"),
                         [(0, 1)])
        with self.assertRaises((OSError, http.client.HTTPException)):
            c.get("/healthz")  # not in clear text

    def test_bodies_of_strangers(self):
        """Who calls is looked at before the body: what a stranger sends is not kept, and much of it is
        not even read."""
        self.c = c = Collector(os.path.join(self.dir.name, "c.db"), "--config", self.configuration())
        self.refused(self.call(c.otlp, "stranger", "POST", "/v1/logs", bytes(900000), PROTOBUF), 403,
                     "certificate")
        for who, status in (("stranger", b"403"), ("agent", b"")):
            with context_of(self.dir.name, who).wrap_socket(socket.create_connection(("127.0.0.1", c.otlp)),
                                                            server_hostname="127.0.0.1") as s:
                s.sendall(b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 3000000\r\n\r\n")
                s.settimeout(60 if status else 1)
                try:
                    answer = s.recv(4096)
                except TimeoutError:  # the body is waited for
                    answer = b""
                self.assertEqual(answer[9:12], status, who)
        half = b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000000\r\n\r\n" + bytes(999000)
        before, held = self.memory(), []
        self.addCleanup(lambda: [s.close() for s in held])
        for _ in range(30):
            held.append(context_of(self.dir.name,
                                   "stranger").wrap_socket(socket.create_connection(("127.0.0.1", c.otlp)),
                                                           server_hostname="127.0.0.1"))
            held[-1].sendall(half)
        self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/logs",
                                   otlp.request(AGENT, [otlp.log("a", "x")]), PROTOBUF).status, 200)
        if not SANITIZED:
            self.assertLess(self.memory() - before, 12 * 1024)

    def memory(self):
        """KiB that the collector has."""
        with open(f"/proc/{self.c.process.pid}/status") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1])

    def test_who_may_act(self):
        """The registry: agents say what they are, who acts has to be named for it, and leaves a trace."""
        self.c = c = Collector(os.path.join(self.dir.name, "c.db"), "--config",
                               self.configuration(AllowActors="spiffe://site/control"))
        member = json.dumps({"v": 1, "member": {"v": 1, "slice": "s1", "worker": 0, "host": "h0", "id": "i",
                                                "incarnation": "a", "address": [], "hosts": 1}})
        self.assertEqual(json.loads(self.call(c.otlp, "agent", "POST", "/registry/v1/sync",
                                              member).content)["records"]["slice/s1"]["state"], "ready")
        for who in (None, "unnamed", "expired", "stranger", "reader", "actor"):
            self.assertEqual((who, self.call(c.otlp, who, "POST", "/registry/v1/sync", member).status),
                             (who, 403))
        intent = json.dumps({"name": "train", "user": "alice", "argv": ["x"]})
        calls = (("POST", "/api/v1/runs", intent, {"Content-Type": "application/json"}, 201),
                 ("PUT", "/api/v1/hosts/h0/cordon?reason=why", None, {}, 200),
                 ("DELETE", "/api/v1/hosts/h0/cordon", None, {}, 204),
                 ("DELETE", "/api/v1/runs/train", None, {}, 202),
                 ("PUT", "/api/v1/mode?reason=why", None, {}, 200),
                 ("DELETE", "/api/v1/mode", None, {}, 204),
                 ("DELETE", "/api/v1/slices/s1/slots/0", None, {}, 409))
        for method, path, body, headers, status in calls:
            for who in (None, "unnamed", "stranger", "agent", "reader"):
                self.assertEqual((who, self.call(c.api, who, method, path, body, headers).status),
                                 (who, 403), path)
            self.assertEqual(self.call(c.api, "actor", method, path, body, headers).status, status, path)
        self.assertEqual(self.call(c.api, "reader", "GET", "/api/v1/runs").status, 200)
        self.assertEqual(self.call(c.api, "actor", "GET", "/api/v1/slices/s1").status, 200)
        acted = json.loads(self.call(c.api, "reader", "GET",
                                     "/api/v1/events?name=tpu.api.acted&limit=1000").content)["events"]
        self.assertEqual(sum("spiffe://site/control (127.0.0.1) called" in e["body"] for e in acted),
                         len(calls))
        self.assertIn("no right to act",
                      [e for e in acted if "spiffe://site/people" in e["body"]][0]["body"])

    def raw(self, who, method, path, *lines):
        """Status and body of a call with these header lines, which http.client would not send."""
        with context_of(self.dir.name, who).wrap_socket(
                socket.create_connection(("127.0.0.1", self.c.api), 60), server_hostname="127.0.0.1") as s:
            s.sendall(b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), b"Host: x", b"Connection: close",
                                    *lines, b"", b""]))
            answer = b""
            while part := s.recv(65536):
                answer += part
        head, body = answer.split(b"\r\n\r\n", 1)
        return int(head.split()[1]), body.decode()

    def acted(self):
        return [e["body"] for e in json.loads(self.call(
            self.c.api, "reader", "GET", "/api/v1/events?name=tpu.api.acted&limit=1000").content)["events"]]

    def test_a_user_of_a_proxy(self):
        """A proxy's header is believed of the proxy alone, and to read alone, though AllowActors= has it."""
        self.certificate("proxy", "ca", "URI:spiffe://site/proxy")
        keys = {"AllowActors": "spiffe://site/control spiffe://site/proxy",
                "ProxyUris": "spiffe://site/proxy", "ProxyUserHeader": "X-Site-User"}
        self.c = Collector(os.path.join(self.dir.name, "c.db"), "--config", self.configuration(**keys))
        alice, order = {"x-site-user": "alice@site"}, "/api/v1/hosts/h0/cordon?reason=why"
        for user in (alice, {}, {"X-Site-User": ""}, {"X-Site-User": "a" * 256}):
            r = self.call(self.c.api, "proxy", "GET", "/api/v1/hosts", headers=user)
            self.assertEqual(r.status, 200)
        r = self.call(self.c.api, "proxy", "PUT", order, headers=alice)
        self.assertEqual(r.status, 403)
        self.assertIn("a proxy's users may read, not act", r.content.decode())
        self.assertIn("alice@site by spiffe://site/proxy (127.0.0.1) called PUT", self.acted()[-1])
        for who in ("reader", "actor"):  # who is no proxy names nobody
            self.call(self.c.api, who, "PUT", order, headers=alice)
            self.assertNotIn("alice", self.acted()[-1])
        self.assertEqual(self.call(self.c.otlp, "proxy", "POST", "/v1/logs", b"", PROTOBUF).status, 403)
        for words, lines in (("256 bytes", [b"X-Site-User: " + b"a" * 257]),
                             ("more than once", [b"X-Site-User: root", b"x-site-user: alice"]),
                             ("printable", [b"X-Site-User: a\x01b"]), ("printable", [b"X-Site-User: a\x7f"]),
                             ("blank", [b"X-Site-User: root (10.0.0.1)"]),
                             ("ASCII", ["X-Site-User: \u202eecila".encode()])):
            status, body = self.raw("proxy", "GET", "/api/v1/hosts", *lines)
            self.assertEqual(status, 400, lines)
            self.assertIn(words, body)
            self.assertEqual(self.raw("reader", "GET", "/api/v1/hosts", *lines)[0], 200, lines)
        twice = b"X-Site-User: a", b"X-Site-User: b"
        self.assertEqual(self.raw("proxy", "DELETE", "/api/v1/mode", *twice)[0], 400)
        self.assertIn("spiffe://site/proxy (127.0.0.1) called DELETE", self.acted()[-1])
        self.assertIn("more than once", self.acted()[-1])

    def test_half_a_proxy(self):
        """Without both keys the header is nobody's word, and the proxy is what the other lists say."""
        self.certificate("proxy", "ca", "URI:spiffe://site/proxy")
        for keys in ({"ProxyUris": "spiffe://site/proxy"}, {"ProxyUserHeader": "X-Site-User"}):
            self.c = Collector(os.path.join(self.dir.name, "c.db"), "--config", self.configuration(**keys))
            self.assertEqual(self.call(self.c.api, "proxy", "GET", "/api/v1/hosts").status, 403)
            self.assertEqual(self.raw("reader", "GET", "/api/v1/hosts", b"X-Site-User: a\x01b")[0], 200)
            self.assertEqual(self.c.stop(), 0)
            self.assertIn("no header names a user", self.c.said)
        p = subprocess.run([PROGRAM, "--config", self.configuration(ProxyUris="x", ProxyUserHeader="X User"),
                            "--check-config"], capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 1)
        self.assertIn("'X User' is no name of a header", p.stderr)

    def test_tpuctl(self):
        self.c = c = Collector(os.path.join(self.dir.name, "c.db"), "--config", self.configuration())
        self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/logs",
                                   otlp.request(AGENT, [otlp.log("tpu.seen", {"k": "v"})]), PROTOBUF).status,
                         200)
        conf = os.path.join(self.dir.name, "ctl.conf")

        def tpuctl(who, *words):
            with open(conf, "w") as f:
                f.write(f"[Ctl]\nCollector=https://127.0.0.1:{c.api}\nCollectorCa={self.dir.name}/ca.crt\n"
                        f"CollectorCertificate={self.dir.name}/{who}.crt\n"
                        f"CollectorKey={self.dir.name}/{who}.key\n")
            return subprocess.run([os.path.join(BUILD, "agent/ctl/tpuctl"), "--config", conf, *words],
                                  capture_output=True, text=True, timeout=60)
        done = tpuctl("reader", "fleet", "--slice", "s1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?s)SLICE.*LAG.*s1 +3 +h0.*1 host: 1 unknown")
        done = tpuctl("reader", "events", "--since", "1h", "--slice", "s1", "--name", "tpu.seen")
        self.assertIn("tpu.seen  k=v", done.stdout)
        self.assertIn("no events", tpuctl("reader", "events", "--since", "1h", "--name", "other").stdout)
        done = tpuctl("agent", "fleet")
        self.assertEqual(done.returncode, 1)
        self.assertIn("spiffe://site/host/7", done.stderr)

    def test_large_push_and_long_poll(self):
        self.c = c = Collector(os.path.join(self.dir.name, "c.db"), "--config", self.configuration())
        big = otlp.request(AGENT, [otlp.log("big", "x" * 3000000)])
        self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/logs", big, PROTOBUF).status, 200)
        answer = []
        t = threading.Thread(target=lambda: answer.append(self.call(c.api, "reader", "GET",
                                                                    "/api/v1/events?since=1&wait=20")))
        t.start()
        time.sleep(0.3)
        self.assertEqual(self.call(c.otlp, "agent", "POST", "/v1/logs",
                                   otlp.request(AGENT, [otlp.log("small", "x")]), PROTOBUF).status, 200)
        t.join(20)
        self.assertEqual([e["name"] for e in json.loads(answer[0].content)["events"]], ["small"])

    def test_others_may_reach_it(self):
        p = subprocess.run([PROGRAM, "--config", self.configuration(ListenOtlp="0.0.0.0:4318"),
                            "--check-config"], capture_output=True, text=True, timeout=60)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        for changes, words in (({"Key": None}, "belong together"), ({"AllowAgents": None}, "AllowAgents="),
                               ({"ClientCa": "/no/such"}, "/no/such"),
                               ({"Key": f"{self.dir.name}/ca.key"}, "server.crt"),
                               ({"ClientCa": f"{self.dir.name}/ext"}, "ext: holds no certificate")):
            p = subprocess.run([PROGRAM, "--config", self.configuration(**changes), "--check-config"],
                               capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 1, changes)
            self.assertIn(words, p.stderr)


if __name__ == "__main__":
    unittest.main()
