"""Points handed on by Prometheus remote write: to a receiver of this test that reads the bytes by hand and
refuses what it is told to, to Debian's Prometheus, and to VictoriaMetrics."""

import http.server
import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import otlp  # noqa: E402
from collector_case import AGENT, PROGRAM, Case  # noqa: E402
from protobuf import read  # noqa: E402


def unsnappy(data):
    """A stream of literals; anything else fails."""
    size, at, shift = 0, 0, 0
    while True:
        size |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            break
    out = b""
    while at < len(data):
        assert data[at] == 61 << 2, data[at]
        n = data[at + 1] + (data[at + 2] << 8) + 1
        out += data[at + 3:at + 3 + n]
        at += 3 + n
    assert len(out) == size
    return out


def series(body):
    """[({label: value}, [(ms, value)])]; labels are sorted, and so are samples."""
    out = []
    for number, _, one in read(body):
        assert number == 1
        labels, samples = [], []
        for n, _, item in read(one):
            parts = {k: v for k, _, v in read(item)}
            if n == 1:
                labels.append((parts[1].decode(), parts[2].decode()))
            else:
                samples.append((parts[2], struct.unpack("<d", parts.get(1, bytes(8)))[0]))
        assert labels == sorted(labels), labels
        assert samples == sorted(samples, key=lambda s: s[0]), samples
        out.append((dict(labels), samples))
    return out


class Receiver:
    """What it took: [(labels, samples)]. answer(series) gives (status, words, headers)."""

    def __init__(self):
        self.port, self.server, self.took, self.asked, self.headers = 0, None, [], 0, []
        self.answer = lambda sent: (204, "", {})

    def start(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sent = series(unsnappy(body))
                receiver.asked += 1
                receiver.headers.append(dict(self.headers))
                status, words, headers = receiver.answer(sent)
                if status < 300:
                    receiver.took += sent
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(words)))
                self.end_headers()
                self.wfile.write(words.encode())

            def log_message(self, *a):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def values(self, name, **labels):
        """{(instance, ms): value} of all series of this name."""
        return {(one["instance"], ms): v for one, samples in self.took for ms, v in samples
                if one["__name__"] == name and labels.items() <= one.items()}


class RemoteCase(Case):
    def remote(self, url, **more):
        config = Path(self.dir.name) / "collectord.conf"
        config.write_text(f"[RemoteWrite]\nUrl={url}\n" + "".join(f"{k}={v}\n" for k, v in more.items()))
        return self.start("--config", str(config))

    def push(self, host, leaves):
        self.ok(self.c.post("/v1/metrics", otlp.request({**AGENT, "host.name": host}, leaves)))

    def step(self, host, step, at, run="train"):
        self.push(host, [otlp.gauge("tpu.run.step.number",
                                    [otlp.point(step, {"tpu.run.name": run}, time=at)], "{step}")])

    def counted(self, name, **labels):
        text = self.c.get("/metrics").text
        found = re.findall(rf"^tpu_collectord_remote_{name}(?:\{{([^}}]*)\}})? (\S+)$", text, re.M)
        return sum(float(v) for its, v in found
                   if all(f'{k}="{w}"' in its for k, w in labels.items()))


class Taken(RemoteCase):
    def setUp(self):
        super().setUp()
        self.receiver = Receiver().start()
        self.addCleanup(self.receiver.stop)

    def url(self):
        return f"http://127.0.0.1:{self.receiver.port}/api/v1/write"

    def test_names_labels_and_sums(self):
        self.remote(self.url())
        now = time.time() - 60
        for k in range(3):
            self.push("h0", [
                otlp.sum_metric("system.network.io", [otlp.point(
                    1000 + k, {"network.interface.name": "eth0", "network.io.direction": "receive"},
                    time=now + 10 * k)], "By"),
                otlp.gauge("tpu.run.step.number", [otlp.point(7 + k, {"tpu.run.name": "train"},
                                                              time=now + 10 * k)], "{step}"),
                otlp.gauge("made.up", [otlp.point(0.5, {"a.b": True, "9c": 3}, time=now + 10 * k)], "s")])
        self.push("h1", [otlp.histogram("tpu.run.step.duration", 5, 2.5)])
        self.until(lambda: len(self.receiver.values("tpu_run_step_duration_seconds_count")) == 1)
        sums = self.receiver.values("system_network_io_bytes_total")
        self.assertEqual(sorted((round(ms / 1000 - now), v) for (_, ms), v in sums.items()),
                         [(0, 1000), (10, 1001), (20, 1002)])
        labels = next(one for one, _ in self.receiver.took
                      if one["__name__"] == "system_network_io_bytes_total")
        self.assertEqual(labels, {"__name__": "system_network_io_bytes_total", "job": "tpu-hostd",
                                  "instance": "h0", "tpu_slice_name": "s1",
                                  "network_interface_name": "eth0", "network_io_direction": "receive"})
        self.assertEqual(sorted(self.receiver.values("tpu_run_step_number", tpu_run_name="train",
                                                     tpu_slice_name="s1").values()), [7, 8, 9])
        self.assertEqual(set(self.receiver.values("made_up_seconds", a_b="true", _9c="3").values()), {0.5})
        self.assertEqual(list(self.receiver.values("tpu_run_step_duration_seconds_sum").values()), [2.5])
        target = next(one for one, _ in self.receiver.took if one["__name__"] == "target_info")
        self.assertEqual({k: target[k] for k in ("tpu_slice_name", "tpu_worker_id", "service_version",
                                                 "tpu_accelerator_type")},
                         {"tpu_slice_name": "s1", "tpu_worker_id": "3", "service_version": "0.1.0",
                          "tpu_accelerator_type": "v6e-16"})
        head = {k.lower(): v for k, v in self.receiver.headers[0].items()}
        self.assertEqual([head[k] for k in ("content-type", "content-encoding",
                                            "x-prometheus-remote-write-version")],
                         ["application/x-protobuf", "snappy", "0.1.0"])
        self.assertEqual(self.counted("waiting_pushes"), 0)
        self.assertEqual(self.counted("refused_samples_total"), 0)
        self.assertEqual(self.counted("written_samples_total"),
                         sum(len(samples) for _, samples in self.receiver.took))

    def test_nothing_is_lost_while_it_is_away(self):
        self.receiver.stop()
        self.remote(self.url())
        now = time.time() - 600
        for k in range(40):
            self.step("h0", k, now + 10 * k)
            self.step("h1", k, now + 10 * k)
        self.until(lambda: self.counted("failures_total") > 0)
        self.assertEqual(self.counted("waiting_pushes"), 80)
        self.assertGreater(self.counted("behind_seconds"), 0)
        self.c.stop(signal.SIGKILL)
        self.remote(self.url())
        self.step("h0", 40, now + 400)
        self.receiver.start()
        self.until(lambda: len(self.receiver.values("tpu_run_step_number")) == 81)
        self.until(lambda: self.counted("waiting_pushes") == 0 and self.counted("behind_seconds") == 0)
        seen = [ms for one, samples in self.receiver.took for ms, _ in samples
                if (one["__name__"], one["instance"]) == ("tpu_run_step_number", "h0")]
        self.assertEqual(seen, sorted(seen), "the oldest first")

    def test_refused_for_good_is_counted_and_the_rest_arrives(self):
        """A request is rolled back as a whole, as Prometheus does: one bad host costs the others nothing."""
        def answer(sent):
            bad = [one["instance"] for one, _ in sent if one["instance"] in ("late", "twice", "huge", "odd")]
            words = {"late": (400, "out of order sample"), "huge": (413, "too large"),
                     "twice": (400, "duplicate sample for timestamp"), "odd": (422, "no such thing")}
            return (*words[bad[0]], {}) if bad else (204, "", {})

        self.receiver.answer = answer
        self.receiver.stop()
        self.remote(self.url())
        hosts = ["a", "late", "b", "twice", "c", "huge", "odd", "d"]
        for host in hosts:
            for k in range(5):
                self.step(host, k, time.time() - 100 + 10 * k)
        self.receiver.start()
        self.until(lambda: self.counted("waiting_pushes") == 0)
        self.assertEqual({host for host, _ in self.receiver.values("tpu_run_step_number")},
                         {"a", "b", "c", "d"})
        self.assertEqual(len(self.receiver.values("tpu_run_step_number")), 20)
        for reason in ("out_of_order", "duplicate", "too_large", "other"):
            self.assertEqual((reason, self.counted("refused_samples_total", reason=reason)),
                             (reason, 10))  # with target_info
        self.assertEqual(self.c.stop(), 0)
        for words in ("as out_of_order, which are given up and counted: 400 out of order sample",
                      "422 no such thing"):
            self.assertEqual(self.c.said.count(words), 1, self.c.said)

    def test_what_a_person_must_mend_loses_nothing(self):
        self.receiver.answer = lambda sent: (401, "who are you", {})
        token = Path(self.dir.name) / "token"
        token.write_text("Bearer wrong\n")
        self.remote(self.url(), AuthorizationFile=token)
        self.step("h0", 1, time.time() - 5)
        self.until(lambda: self.counted("failures_total") == 1)
        self.assertEqual(self.counted("waiting_pushes"), 1)
        self.assertEqual(self.receiver.headers[-1]["Authorization"], "Bearer wrong")
        self.assertEqual(self.c.stop(), 0)
        self.assertIn("answered 401; tried again once a minute, nothing is lost", self.c.said)
        token.write_text("Bearer right\n")
        self.receiver.answer = lambda sent: (204, "", {})
        self.remote(self.url(), AuthorizationFile=token)
        self.until(lambda: len(self.receiver.values("tpu_run_step_number")) == 1)
        self.assertEqual(self.receiver.headers[-1]["Authorization"], "Bearer right")

    def test_busy_is_tried_again(self):
        answers = [(503, "", {}), (429, "", {"Retry-After": "1"}), (500, "", {})]
        self.receiver.answer = lambda sent: answers.pop(0) if answers else (200, "", {})
        self.remote(self.url())
        self.step("h0", 1, time.time() - 5)
        self.until(lambda: len(self.receiver.values("tpu_run_step_number")) == 1)
        self.assertEqual((self.counted("failures_total"), self.counted("refused_samples_total")), (3, 0))

    def test_a_bad_url_is_said(self):
        config = Path(self.dir.name) / "bad.conf"
        config.write_text("[RemoteWrite]\nUrl=ftp://x\n")
        done = subprocess.run([PROGRAM, "--config", config, "--check-config"], text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Url", done.stdout + done.stderr)


class Prometheus(RemoteCase):
    """The real one; it keeps its samples in order, so one that is late is refused by it."""

    def run_program(self, *words, ready):
        folder = tempfile.mkdtemp(prefix="remote-write-")
        self.addCleanup(shutil.rmtree, folder, True)
        with open(folder + "/log", "wb") as log:
            process = subprocess.Popen([str(w).replace("FOLDER", folder) for w in words], cwd=folder,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.terminate)

        def answers():
            self.assertIsNone(process.poll(), Path(folder + "/log").read_text())
            try:
                return self.ask(ready)
            except OSError:
                return False

        self.until(answers)

    def ask(self, path, **arguments):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}?"
                                    + urllib.parse.urlencode(arguments), timeout=60) as r:
            return r.read().decode() or True

    def free(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]

    def points(self, query, at):
        found = json.loads(self.ask("/api/v1/query", query=query, time=at))["data"]["result"]
        return {one["metric"]["instance"]: [(round(t * 1000), float(v)) for t, v in one["values"]]
                for one in found}

    def fill(self):
        """What was pushed: {instance: [(ms, value)]}."""
        now = round(time.time() - 300, 3)
        for k in range(20):
            for host in ("h0", "h1"):
                self.step(host, k, now + 10 * k)
        return now, {host: [(round((now + 10 * k) * 1000), k) for k in range(20)] for host in ("h0", "h1")}

    def near(self, found, wanted):
        """Times are whole milliseconds, cut."""
        self.assertEqual(found.keys(), wanted.keys())
        for host, points in wanted.items():
            self.assertEqual([v for _, v in found[host]], [v for _, v in points])
            for (a, _), (b, _) in zip(found[host], points):
                self.assertLessEqual(abs(a - b), 1)

    def start_receiver(self):
        if not shutil.which("prometheus"):
            self.skipTest("Debian's prometheus is not installed")
        self.port = self.free()
        (Path(self.dir.name) / "p.yml").write_text("{}")
        self.run_program("prometheus", f"--config.file={self.dir.name}/p.yml",
                         "--storage.tsdb.path=FOLDER/d", f"--web.listen-address=127.0.0.1:{self.port}",
                         "--web.enable-remote-write-receiver",
                         ready="/-/ready")
        return f"http://127.0.0.1:{self.port}/api/v1/write"

    def test_has_what_was_stored(self):
        url = self.start_receiver()
        self.remote(url)
        now, wanted = self.fill()
        self.until(lambda: self.counted("waiting_pushes") == 0)
        self.assertEqual(self.counted("refused_samples_total"), 0)
        self.near(self.points('tpu_run_step_number{tpu_run_name="train",tpu_slice_name="s1"}[10m]',
                              time.time()), wanted)
        joined = self.ask("/api/v1/query", time=now + 190, query="tpu_run_step_number * on (job, instance) "
                          "group_left (tpu_accelerator_type) target_info")
        self.assertEqual({one["metric"]["tpu_accelerator_type"]
                          for one in json.loads(joined)["data"]["result"]}, {"v6e-16"})
        self.step("h0", 100, now - 60)  # an agent's backlog behind its newest
        self.step("h1", 20, now + 200)
        self.until(lambda: self.counted("refused_samples_total", reason="out_of_order") == 2)
        wanted["h1"].append((round((now + 200) * 1000), 20))
        self.until(lambda: len(self.points("tpu_run_step_number[10m]", time.time())["h1"]) == 21)
        self.near(self.points("tpu_run_step_number[10m]", time.time()), wanted)


    SUM, COUNT = "tpu_run_step_duration_seconds_sum", "tpu_run_step_duration_seconds_count"

    def grown(self, name):
        """{host: [(ms, value)]} of a counter, as the receiver has it."""
        return self.points(f"{name}[10m]", time.time())

    def test_has_the_step_time_of_the_page(self):
        """The page has it from the API's series: what the sum grew, by how much the count did."""
        self.remote(self.start_receiver())
        now = round(time.time() - 300)
        for k in range(20):
            self.push("h0", [otlp.histogram("tpu.run.step.duration", 4 * k, 4.5 * k * k,
                                            attrs={"tpu.run.name": "train"}, time=now + 10 * k)])
        self.until(lambda: self.counted("waiting_pushes") == 0)
        shown = [self.c.get(f"/api/v1/series?host=h0&name=tpu.run.step.duration.{part}").json["series"][0]
                 for part in ("sum", "count")]
        shown = [[p["value"] for p in sorted(one["points"], key=lambda p: p["time"])] for one in shown]
        self.until(lambda: all(len(self.grown(n).get("h0", [])) == 20 for n in (self.SUM, self.COUNT)))
        kept = [[v for _, v in self.grown(name)["h0"]] for name in (self.SUM, self.COUNT)]

        def times(sums, counts):
            return [(b - a) / (d - c) for a, b, c, d in zip(sums, sums[1:], counts, counts[1:])]
        self.assertEqual(times(*kept), times(*shown))
        self.assertEqual(times(*kept)[0], 4.5 / 4)


class VictoriaMetrics(Prometheus):
    def grown(self, name):
        self.ask("/internal/force_flush")
        lines = self.ask("/api/v1/export", **{"match[]": name})
        found = map(json.loads, lines.splitlines() if isinstance(lines, str) else [])
        return {one["metric"]["instance"]: sorted(zip(one["timestamps"], one["values"])) for one in found}

    def start_receiver(self):
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "wire"))
        import peers
        program = shutil.which("victoria-metrics")
        try:
            program = program or peers.debian("trixie", "victoria-metrics") / "usr/bin/victoria-metrics"
        except peers.Missing as why:
            self.skipTest(f"no victoria-metrics: {why}")
        self.port = self.free()
        self.run_program(program, f"-httpListenAddr=127.0.0.1:{self.port}", "-storageDataPath=FOLDER/d",
                         "-retentionPeriod=1d", "-search.latencyOffset=0s", "-loggerLevel=ERROR",
                         ready="/health")
        return f"http://127.0.0.1:{self.port}/api/v1/write"

    def test_has_what_was_stored(self):
        url = self.start_receiver()
        self.remote(url)
        _, wanted = self.fill()
        self.until(lambda: self.counted("waiting_pushes") == 0)
        found = {}

        def there():
            self.ask("/internal/force_flush")
            found.clear()
            for line in self.ask("/api/v1/export", **{"match[]": "tpu_run_step_number"}).splitlines():
                one = json.loads(line)
                found[one["metric"]["instance"]] = sorted(zip(one["timestamps"], one["values"]))
            return len(found) == 2 and all(len(p) == 20 for p in found.values())

        self.until(there)
        self.near(found, wanted)


if __name__ == "__main__":
    unittest.main()
