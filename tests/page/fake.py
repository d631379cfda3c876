"""A collector that is not one: the page's files and whatever a test has the API answer, as slow, and as
wrong as it likes."""

import http.server
import json
import pathlib
import threading
import time
import urllib.parse

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def host(i, slice_name, worker, **more):
    return {
        "name": f"{slice_name}-w{worker}",
        "slice": slice_name,
        "worker_id": worker,
        "accelerator_type": "v6e-256",
        "registry": "member",
        "missing": None,
        "state": "ready",
        "reasons": None,
        "orders": None,
        "observe": False,
        "version": "0.2.0",
        "boot_id": "b",
        "first_seen": None,
        "last_seen": None,
        "age_seconds": 2.0,
        "lag_seconds": 1.0,
        "run": "pretrain",
        "step": 18203,
        "topology": "16x16",
        "doing": "step",
        "step_seconds": 4.1,
        "goodput": 0.93,
        "checkpoint": None,
        "suspicion": None,
        **more,
    }


def fleet(n, of_slice=64):
    """n hosts, a few of them odd."""
    hosts = [host(i, f"s{i // of_slice}", i % of_slice) for i in range(n)]
    for i, odd in (
        (n // 2, {"doing": "stall", "suspicion": "no step for 41 s, usually 4 s"}),
        (n // 3, {"age_seconds": 300.0}),
        (n // 5, {"orders": "cordoned: bad cable"}),
        (n // 7, {"doing": "checkpoint"}),
        (n // 11, {"state": "degraded", "reasons": "nic.mtu eth1 WARN"}),
    ):
        hosts[i].update(odd)
    return hosts


def event(i):
    return {
        "id": i,
        "time": "2026-11-27T10:00:00Z",
        "name": "tpu.check.changed",
        "severity": "WARN",
        "service": "tpu-hostd",
        "host": f"s{i}-w0",
        "sentence": f"check nic.mtu: WARN, {i}",
    }


def series(question):
    """What is asked for, of a minute; the last value is another each time."""
    now = time.time()
    at = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - i)) for i in range(60, 0, -1)]
    points = [{"time": t, "value": float(i)} for i, t in enumerate(at)]
    attributes = {"tpu.run.name": "pretrain", "tpu.chip": 0}
    return {"series": [{"name": question["name"], "attributes": attributes, "points": points}]}


def metrics():
    names = ("tpu.duty_cycle", "tpu.hbm.usage", "tpu.hbm.limit", "tpu.run.loss")
    attributes = {"tpu.run.name": "pretrain", "tpu.chip": 0, "tpu.process": 0}
    rest = {"attributes": attributes, "value": 0.5, "time": "2026-11-27T10:00:00Z"}
    return [{"name": n, **rest} for n in names]


def diagnosis():
    frames = [{"function": f, "file": "train.py", "line": 7} for f in ("main", "train_step", "read")]
    return {
        "suspects": [{"host": "s1-w2", "slice": "s1", "worker": 2, "score": 0.9, "sentence": "it reads",
                      "chain": [{"pid": 1, "tid": 1, "command": "python3", "kind": "pipe"}]}],
        "classes": [{"kind": "lock", "in": "all-reduce", "ranks": 63, "hosts": "s1[0-1,3-63]"}],
        "tree": {"hosts": 64, "frames": frames[:2], "children": [{"hosts": 1, "frames": frames[2:]}]},
    }


class Fake:
    """answers: path (without its question) to a value, (status, value), bytes, or a function of the question;
    delay: seconds before each answer of the API; down: connections are closed instead."""

    def __init__(self, folder):
        self.folder, self.answers, self.delay, self.down, self.asked = pathlib.Path(folder), {}, 0, False, []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                fake.serve(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, q):
        url = urllib.parse.urlsplit(q.path)
        name = "index.html" if url.path == "/" else url.path.removeprefix("/page/")
        file = self.folder / name
        if not url.path.startswith("/api/") and file.is_file():
            return self.send(q, 200, TYPES[file.suffix], file.read_bytes())
        if self.down:
            q.close_connection = True
            return None
        self.asked.append(q.path)
        time.sleep(self.delay)
        value = self.answers.get(url.path, (404, {"error": "there is no such call", "remedy": ""}))
        if callable(value):
            value = value(dict(urllib.parse.parse_qsl(url.query)))
        status, value = value if isinstance(value, tuple) else (200, value)
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.send(q, status, "application/json", body)

    @staticmethod
    def send(q, status, kind, body):
        try:
            q.send_response(status)
            q.send_header("Content-Type", kind)
            q.send_header("Content-Length", str(len(body)))
            q.send_header(
                "Content-Security-Policy", "require-trusted-types-for 'script'; trusted-types 'none'"
            )
            q.end_headers()
            q.wfile.write(body)
        except OSError:
            pass  # it went away

    def hosts(self, hosts):
        """In answers of 10,000, as the collector does."""

        def page(question):
            at = int(question.get("offset", 0))
            some = hosts[at : at + 10000]
            return {"hosts": some, "next": at + 10000 if at + 10000 < len(hosts) else None}

        self.answers["/api/v1/hosts"] = page

    def events(self, events=(), wait=1):
        def some(question):
            if "since" in question and int(question["since"]) >= len(events):
                time.sleep(min(wait, int(question.get("wait", 0))))
                return {"events": [], "next": len(events)}
            return {"events": list(events), "next": len(events)}

        self.answers["/api/v1/events"] = some
