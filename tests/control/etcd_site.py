"""etcd for tests: one member or three on loopback, with TLS and client certificates or plain; killed,
stopped, brought back."""

import base64
import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hostd"))
import certificates  # noqa: E402

LIMIT = int(os.environ.get("TEST_LIMIT", "60"))


def missing():
    """Why these tests cannot run here, or None."""
    absent = [p for p in ("etcd", "etcdctl") if not shutil.which(p)]
    return f"{' and '.join(absent)} not installed; run tools/deps test" if absent else None


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def until(condition, what, limit=LIMIT):
    end = time.monotonic() + limit
    while not (r := condition()):
        assert time.monotonic() < end, f"not within {limit} s: {what}"
        time.sleep(0.05)
    return r


class Site:
    def __init__(self, members=1, tls=False, more=()):
        # an etcd whose disk is slow loses its leader now and then, which these tests do by themselves
        shm = Path("/dev/shm")
        self._folder = tempfile.TemporaryDirectory(dir=shm if shm.is_dir() and os.access(shm, os.W_OK)
                                                   else None)
        self.folder, self.tls, self.n, self.more, self.user = (Path(self._folder.name), tls, members,
                                                               list(more), None)
        ports = free_ports(3 * members)
        self.clients, self.peers, self.metrics_ports = (ports[:members], ports[members:2 * members],
                                                        ports[2 * members:])
        self.processes = [None] * members
        if tls:
            self.authority = certificates.Authority(self.folder / "ca")
            self.server = self.authority.issue("server")
            # with auth on, the gateway takes no certificate with a CN
            self.client = self.authority.issue("collector", subject="/O=collectors")
        for i in range(members):
            self.start(i)
        until(lambda: self.ctl("endpoint", "health", check=False).returncode == 0, "etcd is healthy")

    def url(self, i):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.clients[i]}"

    @property
    def urls(self):
        return ",".join(self.url(i) for i in range(self.n))

    def start(self, i):
        peer = [f"http://127.0.0.1:{p}" for p in self.peers]
        command = ["etcd", "--name", f"m{i}", "--data-dir", self.folder / f"m{i}", "--listen-client-urls",
                   self.url(i),
                   "--advertise-client-urls", self.url(i), "--listen-peer-urls", peer[i],
                   "--initial-advertise-peer-urls", peer[i],
                   "--initial-cluster", ",".join(f"m{k}={u}" for k, u in enumerate(peer)),
                   "--initial-cluster-state", "new",
                   "--listen-metrics-urls", f"http://127.0.0.1:{self.metrics_ports[i]}", "--logger", "zap",
                   "--log-level", "error", *self.more]
        if self.tls:
            command += ["--client-cert-auth", "--trusted-ca-file", self.authority.cert, "--cert-file",
                        self.server[0], "--key-file", self.server[1]]
        with open(self.folder / f"m{i}.log", "ab") as log:
            self.processes[i] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self, i):
        self.processes[i].kill()
        self.processes[i].wait()

    def pause(self, i, on=True):
        self.processes[i].send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    def ctl(self, *words, check=True, stdin=None):
        command = ["etcdctl", "--endpoints", self.urls, "--command-timeout", "20s"]
        if self.tls:
            command += ["--cacert", self.authority.cert, "--cert", self.client[0], "--key", self.client[1]]
        if self.user:
            command += ["--user", self.user]
        r = subprocess.run(command + list(words), capture_output=True, text=True, timeout=LIMIT, input=stdin,
                           env=dict(os.environ, ETCDCTL_API="3"))
        assert not check or r.returncode == 0, r.stderr
        return r

    def leader(self):
        def look():
            r = self.ctl("endpoint", "status", "-w", "json", check=False)
            for s in json.loads(r.stdout or "[]"):
                if s["Status"].get("leader") and s["Status"]["leader"] == s["Status"]["header"]["member_id"]:
                    return [i for i in range(self.n) if self.url(i) == s["Endpoint"]]
            return None
        return until(look, "a leader")[0]

    def metrics(self, i=0):
        """{name with labels: value} as the member counts."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_ports[i]}/metrics", timeout=LIMIT) as r:
            lines = r.read().decode().splitlines()
        return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if line and line[0] != "#")}

    def with_auth(self, user="tpu", password="quiet"):
        """Authentication on; the user may do with /tpu/ what it likes."""
        for words in (("user", "add", f"root:{password}"), ("user", "grant-role", "root", "root"),
                      ("role", "add", "tpu"),
                      ("role", "grant-permission", "tpu", "readwrite", "/tpu/", "/tpu0"),
                      ("user", "add", f"{user}:{password}"),
                      ("user", "grant-role", user, "tpu"), ("auth", "enable")):
            self.ctl(*words)
        self.user = f"root:{password}"

    def values(self, tenant="default", prefix=""):
        """{key behind the tenant: bytes}."""
        r = json.loads(self.ctl("get", "--prefix", f"/tpu/{tenant}/{prefix}", "-w", "json").stdout)
        n = len(f"/tpu/{tenant}/")
        return {base64.b64decode(kv["key"]).decode()[n:]: base64.b64decode(kv["value"])
                for kv in r.get("kvs", [])}

    def records(self, tenant="default", prefix=""):
        """{key behind the tenant: value}."""
        return {k: json.loads(gzip.decompress(v) if v[:2] == b"\x1f\x8b" else v) for k,
                v in self.values(tenant, prefix).items()}

    def _get(self, *words):
        return json.loads(self.ctl("get", *words, "-w", "json").stdout)

    def term(self, tenant="default"):
        return self._get(f"/tpu/{tenant}/ctl/leader")["kvs"][0]["create_revision"]

    def revision(self):
        return self._get("/")["header"]["revision"]

    def changed_since(self, revision, tenant="default"):
        """{key: value} of what was written behind a revision."""
        kvs = self._get("--prefix", f"/tpu/{tenant}/").get("kvs", [])
        return {base64.b64decode(kv["key"]).decode(): json.loads(base64.b64decode(kv["value"]))
                for kv in kvs if kv["mod_revision"] > revision}

    def close(self):
        for p in self.processes:
            if p and p.poll() is None:
                p.kill()
                p.wait()
        self._folder.cleanup()


