#!/usr/bin/python3
"""/metrics of both programs as scrapers read it: promtool, an independent parser, and a real
Prometheus."""

import http.client
import json
import os
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as parse_text

sys.path.insert(0, str(Path(__file__).parent))
import documented  # noqa: E402
from api_clients import Site, TlsHostd  # noqa: E402
from around import BINARY, TOP, Hostd, free_port, wait_until  # noqa: E402

COLLECTOR = BINARY.parents[2] / "collector/tpu-collectord"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
FULL = os.environ.get("FULL") == "1"


class Collector:
    """tpu-collectord on loopback, that has heard of nobody."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="scrape-test-"))
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.folder / "notify"))
        notify.settimeout(60)
        self.process = subprocess.Popen([COLLECTOR, "--config", "/dev/null", "--database",
                                         self.folder / "c.db", "--listen-otlp", "127.0.0.1:0",
                                         "--listen-api", "127.0.0.1:0"],
                                        env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")},
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.otlp, self.port = map(int, re.findall(r"127\.0\.0\.1:(\d+)", notify.recv(4096).decode()))
        notify.close()

    def call(self, path, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("GET", path, headers=headers or {})
        r = c.getresponse()
        body = r.read()
        c.close()
        return r.status, r.getheader("Content-Type"), body

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)


class Case(unittest.TestCase):
    def hostd(self, h=None):
        if not h:
            h = Hostd()
            self.addCleanup(h.close)
        own = h.root / "proc/self"
        own.mkdir(exist_ok=True)
        (own / "stat").write_text("7 (tpu-hostd) S 1 7 7 0 -1 4194560 1 0 0 0 250 150 0 0 20 0 2 0 1 1 1\n")
        (own / "statm").write_text("9000 1000 900 100 0 400 0\n")
        h.start()
        wait_until(lambda: b"tpu_uplink_sent_total" in h.call("/metrics")[2], 10, "the first tick")
        return h

    def collector(self):
        c = Collector()
        self.addCleanup(c.close)
        return c

    def read(self, program, accept, kind):
        code, got, body = program.call("/metrics", headers={"Accept": accept} if accept else None)
        self.assertEqual((code, got), (200, kind))
        return body.decode()


def samples(families):
    """{(name of the sample, sorted labels): value}"""
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


class Formats(Case):
    def lint(self, text):
        done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)

    def check(self, program):
        text = self.read(program, None, TEXT)
        self.assertEqual(self.read(program, "application/openmetrics-text", TEXT)[:40], text[:40])
        self.lint(text)
        types = re.findall(r"^# TYPE (\S+)", text, re.M)
        self.assertEqual(len(types), len(set(types)), "a family in two pieces")
        for line in text.splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) \S+ \S.*|[a-z_]+(\{.*\})? \S+)$")
        families = list(parse_text(text))
        self.assertEqual(len(families), len({f.name for f in families}))
        for f in families:
            self.assertTrue(f.samples or f.name == "tpu_collectord_requests", f.name)
            self.assertTrue(f.documentation, f.name)
            self.assertFalse(f.name.endswith(("_total", "_count", "_sum", "_bucket", "_created"))
                             and f.type == "gauge", f.name)
        return families

    def assert_a_process(self, families):
        """The names that every dashboard and alert for a process reads, one series each."""
        found = samples([f for f in families if f.name.startswith("process_")])
        self.assertEqual(found.keys(),
                         {("process_cpu_seconds_total", ()), ("process_resident_memory_bytes", ())})
        self.assertGreater(found["process_resident_memory_bytes", ()], 1 << 20)

    def test_hostd(self):
        h = self.hostd()
        families = self.check(h)
        by_name = {f.name: f for f in families}
        self.assertEqual(families[0].name, "target_info")
        target, = by_name["target_info"].samples
        self.assertEqual((target.labels["tpu_slice_name"], target.labels["service_name"]),
                         ("v6e-a", "tpu-hostd"))
        build, = by_name["tpu_hostd_build_info"].samples
        self.assertEqual(build.labels, {"version": h.get("/v1/status")["version"]})
        self.assertIn(("tpu_host_state", (("tpu_host_state", "ready"),)), samples(families))
        self.assert_a_process(families)
        reasons = set(h.get("/v1/status")["uplink"]["classes"]["events"]["dropped_by"])
        self.assertEqual({s.labels["tpu_uplink_reason"] for s in by_name["tpu_uplink_dropped"].samples},
                         reasons)

    def test_hostd_names_are_the_documented_ones(self):
        """Every family but the two of who speaks comes from a row of docs/metrics.md, with its type."""
        families = self.check(self.hostd())
        rows, text, called = {}, "", documented.prometheus()
        for name, (kind, _, _) in documented.table().items():
            full = called[name]
            rows[full.removesuffix("_total")] = kind
            text += f"# HELP {full} h\n# TYPE {full} {kind}\n"
            text += (f'{full}_bucket{{le="+Inf"}} 1\n{full}_sum 1\n{full}_count 1\n' if kind == "histogram"
                     else f"{full} 1\n")
        seen = {f.name: f.type for f in families if f.name not in ("target_info", "tpu_hostd_build_info")}
        self.assertEqual({n: seen[n] for n in seen if rows.get(n) != seen[n]}, {})
        self.assertGreater(len(seen), 30)
        self.lint(text)  # what this machine does not have is clean, too

    def test_collector(self):
        c = self.collector()
        families = self.check(c)
        self.assert_a_process(families)
        self.assertEqual(documented.of_the_collector(),
                         {f.name + ("_total" if f.type == "counter" else "") for f in families})


class Forwarder:
    """A TCP port in front of hostd's socket, which Prometheus cannot scrape."""

    def __init__(self, path):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with socket.socket(socket.AF_UNIX) as there:
                    there.connect(str(path))
                    back = threading.Thread(target=self.copy, args=(there, self.request), daemon=True)
                    back.start()
                    self.copy(self.request, there)
                    back.join(5)

            @staticmethod
            def copy(a, b):
                try:
                    while data := a.recv(65536):
                        b.sendall(data)
                    b.shutdown(socket.SHUT_WR)
                except OSError:
                    pass

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = allow_reuse_address = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Prometheus(Case):
    """Debian's Prometheus scrapes both programs; its own API says what it understood."""

    def start(self, targets, relabel=None, **more):
        """targets: {job: port}; relabel: {job: its relabel_configs}; more: of its configuration."""
        jobs = [{"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{p}"]}],
                 "relabel_configs": (relabel or {}).get(name, [])} for name, p in targets.items()]
        self.run_with(json.dumps({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                                  "scrape_configs": jobs, **more}))

    def run_with(self, configuration):
        folder, port = Path(tempfile.mkdtemp(prefix="prometheus-test-")), free_port()
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "p.yml").write_text(configuration)
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(["prometheus", f"--config.file={folder}/p.yml",
                                        f"--storage.tsdb.path={folder}/data",
                                        f"--web.listen-address=127.0.0.1:{port}",
                                        "--enable-feature=extra-scrape-metrics"],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait, 20)
        self.addCleanup(process.terminate)
        self.port = port

        def answers():
            self.assertIsNone(process.poll(), (folder / "log").read_text())
            try:
                return self.ask("status/buildinfo")
            except OSError:
                return None

        wait_until(answers, 60, "Prometheus to answer")

    def ask(self, path, **arguments):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?"
                                    + urllib.parse.urlencode(arguments), timeout=60) as r:
            return json.load(r)["data"]

    def query(self, text):
        return [(v["metric"], v["value"][1]) for v in self.ask("query", query=text)["result"]]

    def test_scrapes(self):
        h, c = self.hostd(), self.collector()
        forward = Forwarder(h.api)
        self.addCleanup(forward.close)
        self.start({"hostd": forward.port, "collector": c.port})
        scraped = 'count_over_time(up[5m]) >= ' + ("30" if FULL else "2")
        wait_until(lambda: len(self.query(scraped)) == 2, 120, "the scrapes of both")
        self.assertEqual({t["labels"]["job"]: (t["health"], t["lastError"])
                          for t in self.ask("targets")["activeTargets"]},
                         {"hostd": ("up", ""), "collector": ("up", "")})
        self.assertEqual(self.query("min_over_time(up[5m]) == 0"), [])
        _, total = self.query('system_memory_limit_bytes{job="hostd"}')[0]
        wanted = int(re.search(r"MemTotal:\s+(\d+)", (h.root / "proc/meminfo").read_text())[1]) * 1024
        self.assertEqual(int(total), wanted)
        labels, _ = self.query('system_network_io_bytes_total{network_interface_name="eth0",'
                               'network_io_direction="receive"}')[0]
        self.assertEqual(labels["job"], "hostd")
        joined = self.query('tpu_host_state{tpu_host_state="ready"} * on (instance) group_left '
                            '(tpu_slice_name) target_info')
        self.assertEqual([m["tpu_slice_name"] for m, _ in joined], ["v6e-a"])
        self.assertEqual(len(self.query("tpu_collectord_build_info") + self.query("tpu_hostd_build_info")),
                         2)
        metadata = {(m["metric"], m["target"]["job"]): m["type"] for m in
                    self.ask("targets/metadata", match_target='{job=~"hostd|collector"}')}
        for metric, job, wanted in (("system_network_io_bytes_total", "hostd", "counter"),
                                    ("target_info", "hostd", "gauge"),
                                    ("tpu_uplink_kept_size_bytes", "hostd", "gauge"),
                                    ("tpu_collectord_received_bytes_total", "collector", "counter"),
                                    ("tpu_collectord_build_info", "collector", "gauge")):
            self.assertEqual(metadata.get((metric, job)), wanted, sorted(metadata))

    def test_documented(self):
        """Each scrape_config of docs/monitoring.md, with the addresses and files of here."""
        folder, port = Path(tempfile.mkdtemp(prefix="scrape-site-")), free_port()
        self.addCleanup(shutil.rmtree, folder, True)
        site = Site(folder)
        h = TlsHostd(site, {"MetricsListen": f"127.0.0.1:{port}"})
        self.addCleanup(h.close)
        self.hostd(h)
        page = (TOP / "docs/monitoring.md").read_text()
        blocks = re.findall(r"^```yaml\n(scrape_configs:.*?)^```", page, re.M | re.S)
        local, tls = blocks
        certificate, key = site.clients["reader"]
        for a, b in (("127.0.0.1:9472", f"127.0.0.1:{port}"), ("15s", "1s")):
            self.assertIn(a, local)
            local = local.replace(a, b)
        for a, b in (("/etc/prometheus/tpu/ca.crt", site.authority.cert), ("15s", "1s"),
                     ("/etc/prometheus/tpu/prometheus.crt", certificate),
                     ("/etc/prometheus/tpu/prometheus.key", key), ("h0:9470", f"localhost:{h.port()}")):
            self.assertIn(a, tls)
            tls = tls.replace(a, str(b))
        self.run_with(local.replace("tpu-hostd", "here") + tls.split("\n", 1)[1])
        wait_until(lambda: len(self.query("system_memory_limit_bytes")) == 2, 120,
                   lambda: self.ask("targets"))
        self.assertEqual(sorted((m["job"], m["instance"], v) for m, v in self.query("up")),
                         [("here", "h0", "1"), ("tpu-hostd", "localhost", "1")])


class Loopback(Case):
    """MetricsListen=: /metrics for this host alone, of a bounded number of connections."""

    def fetch(self, port, path, method="GET", **headers):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            c.request(method, path, headers=headers)
            r = c.getresponse()
            return r.status, r.read().decode()
        finally:
            c.close()

    def with_api(self, text):
        h = Hostd()
        self.addCleanup(h.close)
        h.config.write_text(h.config.read_text() + f"[Api]\n{text}\n")
        return h

    def test_only_metrics(self):
        port = free_port()
        h = self.hostd(self.with_api(f"MetricsListen=127.0.0.1:{port}"))
        code, text = self.fetch(port, "/metrics")
        self.assertEqual(code, 200)
        self.assertEqual(text.split("\n")[0], h.call("/metrics")[2].decode().split("\n")[0])
        for method, path in (("GET", "/v1/status"), ("PUT", "/v1/cordon?reason=x"), ("GET", "/healthz"),
                             ("POST", "/v1/runs")):
            code, text = self.fetch(port, path, method)
            self.assertEqual((path, code, json.loads(text)["error"]),
                             (path, 404, "MetricsListen= has /metrics alone"))
        self.assertEqual(self.fetch(port, "/metrics", "POST")[0], 405)
        self.assertIsNone(h.get("/v1/status")["cordon"])
        found, = [c for c in h.get("/v1/checks")["checks"] if c["check"] == "api.listen"]
        self.assertEqual((found["subject"], found["found"], found["verdict"]),
                         ("metrics", f"127.0.0.1:{port}", "OK"))

    def test_a_name_that_was_bound_to_our_address(self):
        """A browser on this host shows a page of evil.example, and that name now leads to 127.0.0.1."""
        port = free_port()
        self.hostd(self.with_api(f"MetricsListen=127.0.0.1:{port}"))
        for host in (f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "localhost.evil.example",
                     "[evil.example]", ""):
            code, text = self.fetch(port, "/metrics", Host=host)
            self.assertEqual((host, code, json.loads(text)["remedy"]),
                             (host, 403, "call it by its address, or as localhost"))
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", "[::1]"):
            self.assertEqual((host, self.fetch(port, "/metrics", Host=host)[0]), (host, 200))

    def test_connections_are_bounded(self):
        port = free_port()
        h = self.hostd(self.with_api(f"MetricsListen=127.0.0.1:{port}"))
        idle = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(100)]
        self.addCleanup(lambda: [s.close() for s in idle])
        self.assertEqual(self.fetch(port, "/metrics")[0], 200)
        table = Path(f"/proc/{h.process.pid}/net/tcp").read_text().splitlines()[1:]
        mine = {os.readlink(f) for f in Path(f"/proc/{h.process.pid}/fd").iterdir()}
        of_port = [line for line in table if line.split()[1].endswith(f":{port:04X}")
                   and f"socket:[{line.split()[9]}]" in mine and line.split()[3] != "0A"]
        self.assertLessEqual(len(of_port), 16)

    def test_refused_and_taken(self):
        for where in ("0.0.0.0:9472", "[::]:9472", "10.0.0.7:9472", "localhost:9472"):
            done = subprocess.run([BINARY, "--check-config", "--config",
                                   self.with_api(f"MetricsListen={where}").config],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertIn("no loopback ADDRESS:PORT as 127.0.0.1:9472; others scrape Listen= by TLS",
                          done.stdout + done.stderr)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            h = self.hostd(self.with_api(f"MetricsListen=127.0.0.1:{port}"))

            def finding(verdict):
                return [c for c in h.get("/v1/checks")["checks"]
                        if (c["check"], c["subject"], c["verdict"]) == ("api.listen", "metrics", verdict)]

            deaf, = wait_until(lambda: finding("WARN"), 60, "the finding")
            self.assertIn("Address already in use", deaf["reason"])
        wait_until(lambda: finding("OK"), 60, "the port")
        self.assertEqual(self.fetch(port, "/metrics")[0], 200)


if __name__ == "__main__":
    unittest.main()
