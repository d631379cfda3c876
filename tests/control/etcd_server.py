"""etcd for tests: one member or three on loopback, with TLS and client certificates or plain; killed, stopped, brought back."""

import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
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
    def __init__(self, members=1, tls=True):
        shm = Path("/dev/shm")  # an etcd whose disk is slow loses its leader now and then, which these tests do by themselves
        self._folder = tempfile.TemporaryDirectory(dir=shm if shm.is_dir() and os.access(shm, os.W_OK) else None)
        self.folder, self.tls, self.n = Path(self._folder.name), tls, members
        ports = free_ports(3 * members)
        self.clients, self.peers, self.metrics_ports = ports[:members], ports[members:2 * members], ports[2 * members:]
        self.processes = [None] * members
        if tls:
            self.authority = certificates.Authority(self.folder / "ca")
            self.server = self.authority.issue("server")
            self.root = self.authority.issue("root")
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
        command = ["etcd", "--name", f"m{i}", "--data-dir", self.folder / f"m{i}", "--listen-client-urls", self.url(i),
                   "--advertise-client-urls", self.url(i), "--listen-peer-urls", peer[i], "--initial-advertise-peer-urls", peer[i],
                   "--initial-cluster", ",".join(f"m{k}={u}" for k, u in enumerate(peer)), "--initial-cluster-state", "new",
                   "--listen-metrics-urls", f"http://127.0.0.1:{self.metrics_ports[i]}", "--logger", "zap", "--log-level", "error"]
        if self.tls:
            command += ["--client-cert-auth", "--trusted-ca-file", self.authority.cert, "--cert-file", self.server[0], "--key-file", self.server[1]]
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
            command += ["--cacert", self.authority.cert, "--cert", self.root[0], "--key", self.root[1]]
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

    def close(self):
        for p in self.processes:
            if p and p.poll() is None:
                p.kill()
                p.wait()
        self._folder.cleanup()


def counted(before, after):
    """What grew between two looks at etcd's metrics."""
    def grown(name):
        return sum(int(v - before.get(k, 0)) for k, v in after.items() if re.match(name, k))
    failed = {re.search(r'grpc_code="(\w+)"', k)[1] + " " + re.search(r'grpc_method="(\w+)"', k)[1]: int(v - before.get(k, 0))
              for k, v in after.items() if k.startswith("grpc_server_handled_total") and 'grpc_code="OK"' not in k and v > before.get(k, 0)}
    asked = {re.search(r'grpc_method="(\w+)"', k)[1]: int(v - before.get(k, 0))
             for k, v in after.items() if k.startswith("grpc_server_started_total") and v > before.get(k, 0)}
    return {"asked": asked, "committed": grown("etcd_server_proposals_committed_total"), "synced": grown("etcd_disk_wal_fsync_duration_seconds_count"),
            "connections": int(after["process_open_fds"] - before["process_open_fds"]), "watchers": grown("etcd_debugging_mvcc_watcher_total"),
            "granted": grown("etcd_debugging_lease_granted_total"), "renewed": grown("etcd_debugging_lease_renewed_total"),
            "events": grown("etcd_debugging_mvcc_events_total"), "puts": grown("etcd_debugging_mvcc_put_total"),
            "calls": grown("grpc_server_started_total"), "sent": grown("etcd_network_client_grpc_sent_bytes_total"), "failed": failed}


class Lines:
    """A program that is told lines and says lines of JSON."""

    def __init__(self, *command):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said, self.passed = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.said.put(json.loads(line))
        self.said.put(None)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def next(self, wanted, limit=LIMIT):
        """The first line that is as wanted and was not given yet; the others wait in passed."""
        for i, line in enumerate(self.passed):
            if wanted(line):
                return self.passed.pop(i)
        end = time.monotonic() + limit
        while True:
            try:
                line = self.said.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"not said within {limit} s; what was: {self.passed[-20:]}") from None
            assert line is not None, f"it ended: {self.process.wait()}; {self.passed[-20:]}"
            if wanted(line):
                return line
            self.passed.append(line)

    def close(self):
        try:
            self.process.stdin.close()
            code = self.process.wait(LIMIT)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
        assert code == 0, code
