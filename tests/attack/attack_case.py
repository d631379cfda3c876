"""What the attacks share: a tpu-collectord with certificates, and callers that each have one. Every file
of this folder is a line of the threat model (docs/security.md). Each test is an attack, and holds that
nothing was got by it."""

import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "collector"), str(TESTS / "hostd"), str(TESTS)]
from certificates import Authority  # noqa: E402
from collector_case import AGENT, PROGRAM, PROTOBUF, Case, Collector  # noqa: E402, F401
import otlp  # noqa: E402, F401

HOST, READER, ACTOR = "spiffe://site/host/", "spiffe://site/people", "spiffe://site/control"


def member(host, slice_name="s0", worker=0, hosts=1, **more):
    return {"v": 1, "slice": slice_name, "worker": worker, "host": host, "id": f"id-{host}",
            "incarnation": f"life-{host}", "address": [], "hosts": hosts, **more}


class Attack(Case):

    def setUp(self):
        super().setUp()
        self.folder = Path(self.dir.name)
        self.ca = Authority(self.folder / "ca")
        self.who = {}
        self.server = self.ca.issue("server", "IP:127.0.0.1")
        for name, san in (("reader", f"URI:{READER}"), ("actor", f"URI:{ACTOR}"),
                          *((h, f"URI:{HOST}{h}") for h in ("a", "b"))):
            self.who[name] = self.ca.issue(name, san)

    def collector(self, control=None, **changes):
        """Starts one; keys of [Collector] may be changed, None: left out."""
        keys = {"Certificate": self.server[0], "Key": self.server[1], "ClientCa": self.ca.cert,
                "AllowAgents": HOST + "*", "AllowReaders": READER, "AllowActors": ACTOR, **changes}
        config = self.folder / "collectord.conf"
        config.write_text("[Collector]\n" + "".join(f"{k}={v}\n" for k, v in keys.items() if v is not None)
                          + "[Control]\n" + "".join(f"{k}={v}\n" for k, v in (control or {}).items()))
        return self.start("--config", str(config))

    def collector_refuses(self, **words):
        """What --check-config says of a configuration that makes no sense."""
        config = self.folder / "bad.conf"
        config.write_text(f"[Collector]\nCertificate={self.server[0]}\nKey={self.server[1]}\n"
                          f"ClientCa={self.ca.cert}\nAllowAgents={HOST}*\nAllowReaders={READER}\n"
                          + "".join(f"{k}={v}\n" for k, v in words.items()))
        p = subprocess.run([PROGRAM, "--config", config, "--check-config"], capture_output=True,
                           text=True, timeout=60, check=False)
        self.assertEqual(p.returncode, 1, words)
        return p.stderr

    def restart(self):
        self.assertEqual(self.c.stop(), 0)
        self.c = Collector(self.c.database, "--config", str(self.folder / "collectord.conf"))

    def connect(self, who, port=None, version=None):
        context = ssl.create_default_context(cafile=self.ca.cert)
        if who:
            context.load_cert_chain(*self.who[who])
        if version:
            context.maximum_version = version
        c = http.client.HTTPSConnection("127.0.0.1", port or self.c.otlp, timeout=60, context=context)
        self.addCleanup(c.close)
        return c

    def ask(self, c, method, path, body=None, headers=None):
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        r.content = r.read()
        return r

    def call(self, who, path, body, headers=None):
        """At the agents' port."""
        c = self.connect(who)
        r = self.ask(c, "POST", path, body, headers)
        c.close()
        return r

    def sync(self, who, **words):
        r = self.call(who, "/registry/v1/sync", json.dumps({"v": 1, **words}))
        r.json = json.loads(r.content)
        return r

    def push(self, who, path, request, record=None, name="TPU-Spool-Record"):
        return self.call(who, path, request, {**PROTOBUF, **({name: record} if record else {})})

    def people(self, path, method="GET", who="reader"):
        c = self.connect(who, self.c.api)
        r = self.ask(c, method, path)
        c.close()
        r.json = json.loads(r.content) if r.content else None
        return r

    def refusals(self):
        return [e for e in self.people("/api/v1/events?name=tpu.agent.refused&limit=1000").json["events"]]

    def put(self, name, text):
        """A file that is replaced as renewers do it."""
        new = self.folder / (name + ".new")
        new.write_text(text)
        os.replace(new, self.folder / name)
        return self.folder / name

    def copy(self, path, name):
        shutil.copy(path, self.folder / (name + ".new"))
        os.replace(self.folder / (name + ".new"), self.folder / name)
        return self.folder / name
