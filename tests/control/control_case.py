"""What the tests of control share: collectors that keep the registry in SQLite or in etcd, and hosts that
go to whoever leads."""

import http.client
import json
import os
import signal
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "collector"), str(Path(__file__).resolve().parent)]
import etcd_site  # noqa: E402
from collector_case import BUILD, Collector  # noqa: E402
from registry_hosts import Host, until  # noqa: E402

LEASE = 4  # s


class Member(Host):
    """A host with several endpoints, as docs/registry.md says: the next one at once, 421 is followed, a
    smaller term of one store is no answer."""

    def __init__(self, collectors, *args, **more):
        self.all, self.at, self.terms, self.refused_terms, self.statuses = collectors, 0, {}, 0, []
        self.barred = set()  # collectors that it cannot reach
        self.tenant = more.pop("tenant", None)
        super().__init__(collectors[0], *args, **more)

    def _run(self):
        c = at = None
        while not self.ended.is_set():
            self.collector = self.all[self.at % len(self.all)]
            try:
                if self.collector in self.barred:
                    raise OSError("not reachable")
                if at is not self.collector:
                    c, at = None, self.collector
                c = c or http.client.HTTPConnection("127.0.0.1", self.collector.otlp, timeout=LEASE / 2 + 2)
                if not self._sync(c):
                    self._next()
            except (OSError, http.client.HTTPException, ValueError) as e:
                self.error, c = e, None
                self._next()

    def _next(self):
        self.at += 1
        with self.lock:
            self.changed = True
        if self.at % len(self.all) == 0:
            time.sleep(0.2)

    def _sync(self, c):
        with self.lock:
            whole, self.changed = self.changed, False
            self.member["runs"] = [dict(p) for p in self.parts.values()]
            q = {"v": 1, "member": self.member} if whole else \
                {"v": 1, "same": f"{self.member['slice']}/{self.member['worker']}",
                 "incarnation": self.member["incarnation"]}
            if self.tenant:
                q["tenant"] = self.tenant
            text = json.dumps({**q, "wait": 1, **({"since": self.revision} if self.revision else {})})
        c.request("POST", "/registry/v1/sync", text)
        r = c.getresponse()
        answer = json.loads(r.read())
        self.statuses.append(r.status)
        if r.status == 421:
            found = [i for i, x in enumerate(self.all) if x.agents_url == answer["leader"]]
            self.error = answer
            if found:
                self.at = found[0]
                with self.lock:
                    self.changed = True
                return True
            return False
        if r.status != 200:
            self.error = answer
            return False
        if answer["term"] < self.terms.get(answer["store"], 0):
            self.refused_terms += 1
            return False
        self.terms[answer["store"]] = answer["term"]
        self.answers += 1
        self.conflict = answer["conflict"]
        if answer["tell"] or self.conflict:
            with self.lock:
                self.changed = True
            time.sleep(0.1)
            return True
        self.revision, self.answered = answer["revision"], time.monotonic()
        records = {} if answer["whole"] else dict(self.records)
        records.update(answer["records"])
        self.records = {k: v for k, v in records.items() if v is not None}
        self.whole += answer["whole"]
        if self.acts:
            self._act()
        return True


class Control(unittest.TestCase):
    """A site: STORE is "sqlite" or "etcd"; n collectors, hosts that know them all."""

    STORE, MEMBERS, TLS, COLLECTORS, AUTH, ETCD = "etcd", 1, False, 1, False, ()

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.site, self.collectors, self.hosts = None, [], []
        if self.STORE == "etcd":
            self.site = etcd_site.Site(self.MEMBERS, self.TLS, self.ETCD)
            self.addCleanup(self.site.close)
            if self.AUTH:
                self.site.with_auth()
        for i in range(self.COLLECTORS):
            self.collectors.append(self.collector(i))
        until(lambda: self.leader(), lambda: "a leader")

    def tearDown(self):
        for h in self.hosts:
            h.ended.set()
        for c in self.collectors:
            if c.process.poll() is None:
                c.process.send_signal(signal.SIGCONT)
                code = c.stop()
                self.assertEqual(code, 0, c.said)

    def etcd_settings(self):
        lines = ["Store=etcd", "Etcd=" + self.site.urls.replace(",", " ")]
        if self.TLS:
            lines += [f"EtcdCa={self.site.authority.cert}", f"EtcdCertificate={self.site.client[0]}",
                      f"EtcdKey={self.site.client[1]}"]
        if self.AUTH:
            path = os.path.join(self.dir.name, "password")
            with open(path, "w", encoding="ascii") as f:
                f.write("quiet\n")
            lines += ["EtcdUser=tpu", f"EtcdPasswordFile={path}"]
        return lines

    def collector(self, i, ports=None, settings=()):
        """The i-th one, with a folder and ports of its own."""
        folder = os.path.join(self.dir.name, f"c{i}")
        os.makedirs(folder, exist_ok=True)
        otlp, api = ports or etcd_site.free_ports(2)
        lines = ["[Control]", f"Lease={LEASE}s", f"AgentsUrl=http://127.0.0.1:{otlp}",
                 f"PeopleUrl=http://127.0.0.1:{api}"]
        lines += self.etcd_settings() if self.site else []
        path = os.path.join(folder, "collectord.conf")
        with open(path, "w", encoding="ascii") as f:
            f.write("\n".join([*lines, *settings]) + "\n")
        c = Collector(os.path.join(folder, "c.db"), "--config", path, "--listen-otlp", f"127.0.0.1:{otlp}",
                      "--listen-api", f"127.0.0.1:{api}")
        c.agents_url, c.people_url, c.folder = f"http://127.0.0.1:{otlp}", f"http://127.0.0.1:{api}", folder
        return c

    def again(self, i):
        """A collector that ended is started as it was."""
        old = self.collectors[i]
        new = self.collector(i, (old.otlp, old.api))
        self.collectors[i] = new
        for h in self.hosts:
            h.all = [new if x is old else x for x in h.all]
        return new

    def leads(self, c):
        try:
            return c.process.poll() is None and "\ntpu_collectord_registry_leads 1" in c.get("/metrics").text
        except (OSError, http.client.HTTPException):
            return False

    def leader(self, but=None):
        return next((c for c in self.collectors if c is not but and self.leads(c)), None)

    def host(self, *args, **more):
        self.hosts.append(Member(list(self.collectors), *args, **more))
        return self.hosts[-1]

    def slice(self, name, n, **more):
        return [self.host(name, w, n, **more) for w in range(n)]

    def wait_for(self, host, key, **wanted):
        until(lambda: all((host.records.get(key) or {}).get(k) == v for k, v in wanted.items()),
              lambda: f"{key} {wanted}, is {host.records.get(key)}, {host.error}, {host.statuses[-5:]}")
        return host.records[key]

    def sync(self, body, collector=None):
        c = http.client.HTTPConnection("127.0.0.1", (collector or self.leader()).otlp, timeout=60)
        c.request("POST", "/registry/v1/sync", body if isinstance(body, (str, bytes)) else json.dumps(body))
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, json.loads(text)

    def want(self, name, slices, least, most, collector=None, **more):
        r = (collector or self.leader()).get("/api/v1/runs", "POST", json.dumps(
            {"name": name, "user": "alice", "argv": ["train"], "slices": slices, "min": least, "max": most,
             **more}), {"Content-Type": "application/json"})
        self.assertEqual(r.status, 201, r.text)
        return r.json


def member(**more):
    """One whole sync of a host."""
    return {"v": 1, "wait": 0, "member": {"v": 1, "slice": "s0", "worker": 0, "host": "h0", "id": "m0",
                                          "incarnation": "a1", "address": ["10.0.0.1"],
                                         "hosts": 1, "state": "ready", "runs": [], **more}}
