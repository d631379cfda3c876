#!/usr/bin/python3
"""BUILD_DIR=… tests/bench/ingest.py [--hosts N] [--rounds N] [--runs N]: the same pushes of 150 points, out
of a real agent, to tpu-collectord,
VictoriaMetrics and Prometheus, each fresh on the same disk: points per second of the server's own CPU, its
memory for 1,000 hosts, and how
often it makes the disk sure of anything. Medians; wall times are not printed, as the machine has other
things to do.

Debian builds Prometheus without its OTLP receiver (bug 1080354), so it gets the same points as remote write,
which asks less of it: names and
labels are ready-made. Its snappy bodies are not really packed, which spares it the unpacking, too."""

import argparse
import gzip
import http.client
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "wire")]
import peers  # noqa: E402

peers.FULL = True  # fetches what it needs
import strict  # noqa: E402
from agent import Hostd, wait_until  # noqa: E402
from peer_case import free_port, get  # noqa: E402
from protobuf import field, double, fixed64, varint  # noqa: E402,F401  (found by agent)

BUILD = Path(os.environ.get("BUILD_DIR", HERE.parents[1] / "build/dev"))
POINTS, HOST, STEP = 150, "host-00000", 10 * 10 ** 9
CONNECTIONS = 32
# seconds at the end that count, too: VictoriaMetrics writes what it took 5 s later
# (-inmemoryDataFlushInterval)
SETTLE = 6


def template():
    """A push of a real agent, cut to 150 points, of a host whose name has ten letters."""
    end = []
    receiver = strict.Receiver()
    h = Hostd(end.append, receiver.url, host=HOST)
    h.launchd()
    h.start()
    wait_until(lambda: any(len(strict.points(r)) >= POINTS for r in receiver.requests("/v1/metrics")), 60,
               "a push of 150 points")
    request = next(r for r in receiver.requests("/v1/metrics") if len(strict.points(r)) >= POINTS)
    h.stop()
    receiver.stop()
    for undo in reversed(end):
        undo()
    count = 0
    for scope in request.resource_metrics[0].scope_metrics:
        for m in scope.metrics:
            data = getattr(m, m.WhichOneof("data"))
            room = max(0, POINTS - count)
            del data.data_points[room:]
            count += len(data.data_points)
        for at in reversed(range(len(scope.metrics))):
            m = scope.metrics[at]
            if not getattr(m, m.WhichOneof("data")).data_points:
                del scope.metrics[at]
    assert len(strict.points(request)) == POINTS
    return request


def pushes(hosts, rounds):
    """Rounds of [(OTLP body, remote-write body)]: times go on by ten seconds, counters and gauges move."""
    request = template()
    began = time.time_ns() - rounds * STEP
    out = []
    for n in range(rounds):
        written = b""
        for resource, m, kind, _, p in strict.points(request):
            p.time_unix_nano = began + n * STEP
            if p.WhichOneof("value") == "as_int":
                p.as_int += 1 + n % 3
            else:
                p.as_double += 0.25 * (n % 3)
            labels = {"__name__": m.name.replace(".", "_"), "instance": HOST, "job": "tpu-hostd"}
            labels.update({k.replace(".", "_"): v for k,
                           v in strict.pairs(p.attributes).items() if k not in labels})
            series = b"".join(field(1, field(1, k) + field(2, labels[k])) for k in sorted(labels))
            written += field(1, series
                             + field(2, double(1, strict.number(p)) + field(2, p.time_unix_nano // 10 ** 6)))
        body = request.SerializeToString()
        names = [f"host-{i:05d}".encode() for i in range(hosts)]
        out.append([(body.replace(HOST.encode(), name), written.replace(HOST.encode(), name))
                    for name in names])
    return out


def snappy(data):
    """The format, by literals only."""
    out = varint(len(data))
    for at in range(0, len(data), 65536):
        piece = data[at:at + 65536]
        out += bytes([61 << 2]) + (len(piece) - 1).to_bytes(2, "little") + piece
    return out


class Server:
    """One server's process; numbers out of /proc."""

    def __init__(self, folder, trace):
        self.folder, self.port, self.traced = Path(folder), free_port(), trace
        words, ready = self.command()
        if trace:
            words = ["strace", "-f", "-qq", "-c", "-U", "calls,name", "-e",
                     "trace=fsync,fdatasync,msync,sync_file_range", "-o", f"{folder}/calls", *words]
        self.process = subprocess.Popen([str(w) for w in words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        end = time.monotonic() + 60
        while get(*ready)[0] != 200:
            assert time.monotonic() < end and self.process.poll() is None, f"{self.name} does not start"
            time.sleep(0.05)

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        return int(re.search(r"VmRSS:\s+(\d+)",
                             Path(f"/proc/{self.process.pid}/status").read_text())[1]) / 1024

    def stop(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if self.traced:  # strace ends with what it traces
            os.kill(int(children[0]), signal.SIGTERM)
        else:
            self.process.terminate()
        self.process.wait(60)

    def syncs(self):
        return sum(int(n) for n in re.findall(r"^\s*(\d+) (?:fsync|fdatasync|msync|sync_file_range)$",
                                              (self.folder / "calls").read_text(), re.M))

    @staticmethod
    def body(push, packed):
        headers = {"Content-Type": "application/x-protobuf"}
        return (gzip.compress(push[0], 1), {**headers, "Content-Encoding": "gzip"}) if packed else (push[0],
                                                                                                    headers)


class Collectord(Server):
    name, path = "tpu-collectord", "/v1/metrics"

    def command(self):
        self.api = free_port()
        return [BUILD / "collector/tpu-collectord", "--config", "/dev/null", "--database",
                self.folder / "c.db", "--listen-otlp", f"127.0.0.1:{self.port}",
                "--listen-api", f"127.0.0.1:{self.api}"], (self.api, "/healthz")

    def stored(self):
        return int(re.search(r"^tpu_collectord_points_total (\d+)", get(self.api, "/metrics")[1], re.M)[1])


class Victoria(Server):
    name, path = "VictoriaMetrics", "/opentelemetry/v1/metrics"

    def command(self):
        binary = peers.debian("trixie", "victoria-metrics") / "usr/bin/victoria-metrics"
        return [binary, f"-httpListenAddr=127.0.0.1:{self.port}", f"-storageDataPath={self.folder}/data",
                "-retentionPeriod=1d", "-loggerLevel=ERROR"], (self.port, "/health")

    def stored(self):
        return int(sum(float(n) for n in re.findall(r'^vm_rows_inserted_total\{type="opentelemetry"\} (\S+)',
                                                    get(self.port, "/metrics")[1], re.M)))


class Prometheus(Server):
    name, path = "Prometheus, remote write", "/api/v1/write"

    def command(self):
        binary = peers.debian("sid", "prometheus") / "usr/bin/prometheus"
        (self.folder / "p.yml").write_text("{}\n")
        return [binary, f"--config.file={self.folder}/p.yml", f"--storage.tsdb.path={self.folder}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=error", "--web.enable-remote-write-receiver"], (self.port, "/-/ready")

    @staticmethod
    def body(push, packed):
        return snappy(push[1]), {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy",
                                 "X-Prometheus-Remote-Write-Version": "0.1.0"}

    def stored(self):
        return int(sum(float(n) for n in re.findall(r"^prometheus_tsdb_head_samples_appended_total\S* (\S+)",
                                                    get(self.port, "/metrics")[1], re.M)))


def post(server, requests):
    """All of them over 32 connections that stay; each must be taken."""
    errors, at, lock = [], [0], threading.Lock()

    def work():
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        while True:
            with lock:
                mine = at[0]
                at[0] += 1
            if mine >= len(requests) or errors:
                return c.close()
            body, headers = requests[mine]
            c.request("POST", server.path, body, headers)
            r = c.getresponse()
            text = r.read()
            if r.status not in (200, 204):
                errors.append((r.status, text[:300]))

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]


def measure(kind, rounds, packed, trace=False):
    """{points per second of CPU once all series are known, CPU of the first round a host, memory} of one
    fresh server."""
    with tempfile.TemporaryDirectory(prefix="bench-ingest-",
                                     dir=os.environ.get("BENCH_DIR", "/var/tmp")) as folder:
        server = kind(folder, trace)
        try:
            empty = server.memory()
            made = [[(body, {**headers, "TPU-Spool-Record": f"{host:016x}/metrics/{n + 1}"}) for host,
                     (body, headers) in
                     enumerate(kind.body(push, packed) for push in pushed)] for n,
                    pushed in enumerate(rounds)]
            idle = -server.cpu()
            time.sleep(SETTLE)
            idle = (idle + server.cpu()) / SETTLE

            def spent():
                """CPU but for what it takes when nobody sends: on a busy machine a run may last."""
                return server.cpu() - idle * time.monotonic()

            start = spent()
            post(server, made[0])
            first = spent()
            for requests in made[1:]:
                post(server, requests)
            time.sleep(SETTLE)
            last, grown = spent(), server.memory() - empty
            count = sum(map(len, made))
            assert server.stored() >= count * POINTS, (server.stored(), count * POINTS)
        finally:
            server.stop()
        hosts = len(rounds[0])
        return {"rate": (count - hosts) * POINTS / max(last - first, 0.01),
                "new": hosts * POINTS / max(first - start, 0.01), "empty": empty,
                "memory": grown * 1000 / hosts, "syncs": server.syncs() / count if trace else None}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hosts", type=int, default=1000)
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--runs", type=int, default=5)
    o = p.parse_args()
    rounds = pushes(o.hosts, o.rounds)
    plain, packed = len(rounds[0][0][0]), len(gzip.compress(rounds[0][0][0], 1))
    print(f"{o.hosts} hosts, {o.rounds} pushes each of {POINTS} points ({plain} bytes, {packed} packed), "
          f"{CONNECTIONS} connections, medians of {o.runs} runs")
    print(f"{'server':26} {'body':8} {'points/s and core':>18} {'of new series':>14} {'MiB empty':>10} "
          f"{'MiB per 1,000 hosts':>20} {'syncs a push':>13}")
    for kind in (Collectord, Victoria, Prometheus):
        for packing in (False, True) if kind is not Prometheus else (False,):
            runs = [measure(kind, rounds, packing) for _ in range(o.runs)]
            traced = measure(kind, [r[:100] for r in rounds], packing, trace=True)
            m = {k: statistics.median(r[k] for r in runs) for k in ("rate", "new", "empty", "memory")}
            print(f"{kind.name:26} "
                  f"{'gzip' if packing else 'plain' if kind is not Prometheus else 'snappy':8} "
                  f"{m['rate']:18,.0f} {m['new']:14,.0f} {m['empty']:10.0f} {m['memory']:20.0f} "
                  f"{traced['syncs']:13.3f}", flush=True)
    print("syncs a push: fsync, fdatasync, msync and sync_file_range during a pass of 100 hosts, its end "
          "included, a push. tpu-collectord answers after the\n"
          "fdatasync of its commit, which pushes that come together share; the others answer before "
          "anything is sure on the disk.")


if __name__ == "__main__":
    main()
