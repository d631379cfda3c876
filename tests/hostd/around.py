"""What stands around tpu-hostd in these tests: a machine of fixtures, systemd's notify socket, an OTLP
receiver, tpu-launchd."""

import gzip
import http.server
import json
import os
import random
import shutil
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import otlp  # which finds what the folders of tests share
import capture_wire  # (and for who imports this)
from protobuf import message  # noqa: F401  (likewise)

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "contrib/python"))
import tpuhost  # noqa: E402
BINARY = Path(os.environ.get("BUILD_DIR", TOP / "build/dev")) / "agent/hostd/tpu-hostd"
MACHINE = TOP / "tests/fixtures/machine-v6e-4t"


PATIENCE = 60  # seconds that anything may take on a slow disk or a busy machine: a time never decides a test


def wait_until(what, seconds, name):
    """seconds: longer than that on a good machine means that something is wrong; others are given a
    minute. name: text, or what makes it at the end."""
    seconds = max(seconds, PATIENCE)
    end = time.monotonic() + seconds
    while True:
        result = what()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {name() if callable(name) else name}")
        time.sleep(0.02)


def free_port():
    """A port that is free and stays so: below those that the kernel gives to whoever connects meanwhile."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def has_failed(case):
    """Inside its cleanups, where case._outcome.success speaks of the cleanup alone."""
    result = case._outcome and case._outcome.result
    return bool(result) and any(test is case or getattr(test, "test_case", None) is case for test,
                                _ in result.failures + result.errors)


class Receiver:
    """An OTLP/HTTP receiver on loopback that keeps what it accepted: [(path, spool record, body)]."""

    def __init__(self):
        self.got, self.port, self.server, self.status = [], 0, None, 200

    def start(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if receiver.status == 200:
                    assert self.headers["Content-Type"] == "application/x-protobuf", \
                            self.headers["Content-Type"]
                    receiver.got.append((self.path, self.headers["TPU-Spool-Record"], body))
                self.send_response(receiver.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *a):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            allow_reuse_address = daemon_threads = True

            def get_request(self):
                connection = super().get_request()
                connections.append(connection[0])
                return connection

        connections = self.connections = []
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()
        return self

    def stop(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            for c in self.connections:
                try:
                    c.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                c.close()
        self.server = None

    def events(self):
        return [e + (record,) for path, record,
                body in list(self.got) if path == "/v1/logs" for e in otlp.logs(body)]

    def points(self):
        return [p for path, _, body in list(self.got) if path == "/v1/metrics" for p in otlp.metrics(body)]

    def records(self):
        return [record for _, record, _ in list(self.got)]


def captured(name, text="text", taken=1):
    """tpu-launchd's answer with a capture that shows this text."""
    return CAPTURE_REPLY, message({1: name, 3: taken, 6: capture_wire.packed(capture_wire.of_text(text))})


# Kinds and messages of proto/local.proto, as its peers see them.
ERROR, RUN_LIST_REQUEST, RUN_LIST_REPLY, CAPTURE_REQUEST, CAPTURE_REPLY, OWNERS_REQUEST, OWNERS_REPLY = (
        1, 22, 23, 26, 27, 28, 29)


class Launchd:
    """tpu-launchd's socket: runs is the list it tells; capture(name) gives (kind, payload), or None to
    say nothing."""

    def __init__(self, path):
        self.runs, self.capture, self.asked = [], None, []
        self.other = {}  # kind: payload to (kind, payload)
        launchd = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                while True:
                    head = self._exactly(8)
                    if not head:
                        return
                    size, version, kind = struct.unpack("<IHH", head)
                    payload = self._exactly(size) if size else b""
                    assert version == 1
                    launchd.asked.append(kind)
                    if kind == RUN_LIST_REQUEST:
                        answer = (RUN_LIST_REPLY, message({1: [message(j) for j in launchd.runs]}))
                    elif kind == OWNERS_REQUEST:
                        answer = (OWNERS_REPLY, b"")
                    elif kind in launchd.other:
                        answer = launchd.other[kind](payload)
                    else:
                        assert kind == CAPTURE_REQUEST
                        answer = launchd.capture(otlp.one(payload, 1).decode())
                    if answer:
                        self.request.sendall(struct.pack("<IHH", len(answer[1]), 1, answer[0]) + answer[1])

            def _exactly(self, n):
                data = b""
                while len(data) < n:
                    try:
                        part = self.request.recv(n - len(data))
                    except OSError:
                        return b""
                    if not part:
                        return b""
                    data += part
                return data

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.server = Server(str(path), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Hostd:
    """One tpu-hostd on a machine of its own below a temporary folder."""

    def __init__(self, endpoint="", **hostd):
        self.folder = Path(tempfile.mkdtemp(prefix="hostd-process-test-"))
        self.folder.chmod(0o755)
        self.root = self.folder / "root"
        shutil.copytree(MACHINE, self.root, symlinks=True)
        (self.root / "run/tpu-launchd").mkdir(parents=True)
        self.owners = Launchd(self.root / "run/tpu-launchd/launchd.sock")  # whom the workers of probes ask
        self.api = self.folder / "api.sock"
        settings = {"Endpoint": endpoint, "MetricsInterval": "300ms", "ProbeInterval": "1s",
                    "ApiSocket": self.api,
                    "SpoolDirectory": self.folder / "spool", "LaunchdSocket": self.folder / "launchd.sock",
                    "CaptureTimeout": "2s", **hostd}
        self.config = self.folder / "hostd.conf"
        self.config.write_text("[Hostd]\n" + "".join(f"{k}={v}\n" for k, v in settings.items()) +
                               "[Health]\nFailAfter=3\nHealAfter=3\nHold=0\n")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(self.folder / "notify"))
        self.notify.settimeout(0.02)
        self.told, self.process, self.output = [], None, self.folder / "output"
        self.environment = {}  # more of it for the next start
        self.wrapper = []  # a command that execs the rest of its words
        self.binary = BINARY

    def spawn(self, watchdog_usec=None):
        environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(self.folder / "notify"),
                       "LC_ALL": "C.UTF-8",
                       **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")},
                       **self.environment}
        if watchdog_usec:
            environment["WATCHDOG_USEC"] = str(watchdog_usec)
        self.told.clear()
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen([*self.wrapper, self.binary, "--root", self.root, "--config",
                                             self.config], env=environment,
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def start(self, watchdog_usec=None):
        self.spawn(watchdog_usec)
        wait_until(lambda: self.notified("READY=1") or self.process.poll() is not None, 60, "READY=1")
        assert self.process.poll() is None, self.output.read_text()
        return self

    def notified(self, text):
        while True:
            try:
                self.told.append(self.notify.recv(4096).decode())
            except (TimeoutError, BlockingIOError):
                return sum(text in lines.split("\n") for lines in self.told)

    def stop(self):
        """SIGTERM; returns the exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def close(self, failed=False):
        code = self.process.poll() if self.process else None
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.notify.close()
        self.owners.stop()
        if failed and self.output.exists():
            print(f"--- tpu-hostd, exit code {code}:\n{self.output.read_text(errors='replace')}---",
                  file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, path, method="GET", timeout=PATIENCE, headers=None, body=None):
        """(status, content type, body) of one call."""
        code, told, data = self.exchange(path, method, timeout, headers, body)
        return code, told["Content-Type"], data

    def exchange(self, path, method="GET", timeout=PATIENCE, headers=None, body=None):
        """(status, headers, body) of one call."""
        c = tpuhost.UnixConnection(self.api, timeout)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            c.close()

    def get(self, path, status=200):
        code, kind, body = self.call(path)
        assert code == status and kind == "application/json", (code, kind, body)
        return json.loads(body)

    def events(self, name=None):
        return [e for e in self.get("/v1/events")["events"] if name is None or e["name"] == name]

    def rmem(self, text):
        (self.root / "proc/sys/net/ipv4/tcp_rmem").write_text(text + "\n")
