"""Other people's receivers take what the real tpu-hostd sends, and are asked back through their own query
interfaces: every sample
has the name, labels, time and value that went over the wire, and there is none besides."""

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import peers  # noqa: E402

try:
    import strict
except peers.Missing as why:
    peers.skip(why, __name__)
from google.protobuf import json_format  # noqa: E402

from agent import Hostd, wait_until  # noqa: E402
from peer_case import PeerCase, free_port, get  # noqa: E402

HERE = Path(__file__).parent
ENOUGH = 600  # points
# What Prometheus makes of a unit, by the specification of OpenTelemetry's compatibility with it; braces are
# dropped.
UNITS = {"By": "bytes", "s": "seconds", "Cel": "celsius", "J": "joules", "1": "ratio",
         "{token}/s": "per_second"}


class Peer(PeerCase):
    def agents(self, port, base, path, count=2):
        """So many agents send there, until each has sent enough. [(host name, tap)], stopped."""
        out = []
        for n in range(count):
            tap = strict.Tap(port, base + path)
            self.addCleanup(tap.stop)
            h = Hostd(self.addCleanup, f"http://127.0.0.1:{tap.port}{base}", host=f"tpu-host-{n}")
            h.launchd()
            out.append((f"tpu-host-{n}", tap, h.start()))
        for _, tap, _ in out:
            wait_until(lambda: sum(len(strict.series(r)) for p,
                                   r in tap.sent if p == "/v1/metrics") >= ENOUGH, 60, "enough metrics")
        for _, tap, h in out:
            u = h.get("/v1/status")["uplink"]["classes"]["metrics"]
            self.assertEqual({k: n for k, n in u["dropped_by"].items() if n}, {})
            self.assertGreater(u["sent"], 0)
            self.assertEqual(u["retried"], 0)
            self.assertEqual(h.stop(), 0)
        return [(name, tap) for name, tap, _ in out]

    def points(self, tap):
        return [p for path, request in tap.sent if path == "/v1/metrics" for p in strict.points(request)]


class VictoriaMetrics(Peer):
    def test(self):
        binary, port = self.peer("trixie", "victoria-metrics"), free_port()
        self.start(binary, f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={self.folder}/data",
                   "-retentionPeriod=1d", "-loggerLevel=ERROR",
                   "-search.latencyOffset=0s", ready=(port, "/health"))
        taps = self.agents(port, "/opentelemetry", "")
        wanted = {}
        for name, tap in taps:
            for resource, m, _, _, p in self.points(tap):
                self.assertEqual(resource["host.name"], name)
                self.put(wanted, {**resource, **strict.pairs(p.attributes), "__name__": m.name}, p)
        found = {}

        def all_there():
            """What it took may be seen a moment later, and it says nothing of when."""
            get(port, "/internal/force_flush")
            status, text = get(port, "/api/v1/export", **{"match[]": '{__name__=~".+"}'})
            self.assertEqual(status, 200)
            for line in text.splitlines():
                series = json.loads(line)
                for at, v in zip(series["timestamps"], series["values"]):
                    found[frozenset(series["metric"].items()), at] = float(v)
            return set(wanted) <= set(found)

        with contextlib.suppress(AssertionError):
            wait_until(all_there, 20, "the samples")
        self.compare(wanted, found)

    @staticmethod
    def put(wanted, labels, point):
        """These stores keep milliseconds, and an empty label is none."""
        wanted[frozenset((k, str(v)) for k, v in labels.items() if v != ""),
               point.time_unix_nano // 10 ** 6] = float(strict.number(point))

    def compare(self, wanted, found):
        self.assertEqual(sorted(map(repr, set(wanted) - set(found)))[:3], [], "sent and not there")
        self.assertEqual(sorted(map(repr, set(found) - set(wanted)))[:3], [], "there and not sent")
        self.assertEqual({k: (v, found[k]) for k, v in wanted.items() if found[k] != v}, {})
        print(f"{type(self).__name__}: {len(found)} samples read back, all equal", file=sys.stderr)


@unittest.skipUnless(peers.FULL, "two programs and a relay: tools/test --full")
class Prometheus(VictoriaMetrics):
    """3.5 and 2.53. Debian builds both without their OTLP receiver (bug 1080354), so they are written to by
    vmagent, which receives OTLP, gives
    everything Prometheus' names and passes it on by remote write."""

    SUITE = "sid"

    def name_of(self, m, kind):
        """The names that the specification of OpenTelemetry's compatibility with Prometheus wants."""
        name = re.sub(r"[^a-zA-Z0-9_]", "_", m.name)
        unit = UNITS.get(m.unit, "") if m.unit != "1" or kind == "gauge" else ""
        if unit and not name.endswith("_" + unit):
            name += "_" + unit
        return name + ("_total" if kind == "sum" else "")

    def test(self):
        binary, port, relay = self.peer(self.SUITE, "prometheus"), free_port(), free_port()
        agent = self.peer("trixie", "victoria-metrics").with_name("vmagent")
        (self.folder / "p.yml").write_text("storage:\n  tsdb:\n    out_of_order_time_window: 10m\n")
        self.start(binary, f"--config.file={self.folder}/p.yml", f"--storage.tsdb.path={self.folder}/data",
                   f"--web.listen-address=127.0.0.1:{port}",
                   "--log.level=warn", "--web.enable-remote-write-receiver", ready=(port, "/-/ready"))
        self.start(agent, f"-httpListenAddr=127.0.0.1:{relay}",
                   f"-remoteWrite.url=http://127.0.0.1:{port}/api/v1/write",
                   f"-remoteWrite.tmpDataPath={self.folder}/relay",
                   "-opentelemetry.usePrometheusNaming", "-remoteWrite.flushInterval=200ms",
                   "-remoteWrite.forcePromProto", "-loggerLevel=ERROR", ready=(relay, "/health"))
        taps = self.agents(relay, "/opentelemetry", "")
        wanted = {}
        for name, tap in taps:
            for resource, m, kind, _, p in self.points(tap):
                labels = {re.sub(r"[^a-zA-Z0-9_]", "_", k): v for k,
                          v in {**resource, **strict.pairs(p.attributes)}.items()}
                self.put(wanted, {**labels, "__name__": self.name_of(m, kind)}, p)

        def found():
            status, text = get(port, "/api/v1/query", query='{__name__=~".+"}[10m]')
            self.assertEqual(status, 200, text[:500])
            return {(frozenset(s["metric"].items()), round(at * 1000)): float(v)
                    for s in json.loads(text)["data"]["result"] for at, v in s["values"]}

        end = time.monotonic() + 30
        while len(found()) < len(wanted) and time.monotonic() < end:
            time.sleep(0.2)
        self.compare(wanted, found())


class Prometheus2(Prometheus):
    SUITE = "trixie"


def as_json(request):
    return json_format.MessageToDict(request, use_integers_for_enums=True)


def without(tree, name):
    if isinstance(tree, dict):
        return {k: without(v, name) for k, v in tree.items() if k != name}
    return [without(v, name) for v in tree] if isinstance(tree, list) else tree


class Elastic(Peer):
    def node(self, *packages):
        try:
            return ["node", HERE / "receivers.js"], {**os.environ, "NODE_PATH": str(peers.npm(*packages))}
        except peers.Missing as why:
            self.skipTest(str(why))

    def test(self):
        """@elastic/mockotlpserver knows no gzip (its process ends): Compression=none is for receivers
        like this one."""
        words, environment = self.node("@elastic/mockotlpserver@0.10.0")
        p = subprocess.Popen([*words, "mock"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                             env=environment)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close()))
        tap = strict.Tap(int(p.stdout.readline().rstrip("/\n").rpartition(":")[2]))
        self.addCleanup(tap.stop)
        h = Hostd(self.addCleanup, f"http://127.0.0.1:{tap.port}", uplink="Compression=none").start()
        wait_until(lambda: {p for p, _ in tap.sent} == {"/v1/metrics", "/v1/logs"} and len(tap.sent) > 5, 60,
                   "both kinds of requests")
        h.stop()
        told = {"/v1/metrics": [], "/v1/logs": []}
        sent = list(tap.sent)
        for _ in sent:
            line = json.loads(p.stdout.readline())
            told[line["path"]].append(line["request"])
        for path, requests in told.items():
            # younger than this server
            self.assertEqual(requests, [without(as_json(r), "eventName") for p, r in sent if p == path])


class Transformer(Elastic):
    def test(self):
        """The decoder of OpenTelemetry's own JavaScript, in the last version that had one."""
        words, environment = self.node("@opentelemetry/otlp-transformer@0.203.0", "protobufjs@7",
                                       "@opentelemetry/api@1")
        receiver = strict.Receiver()
        self.addCleanup(receiver.stop)
        h = Hostd(self.addCleanup, receiver.url)
        h.launchd()
        h.start()
        wait_until(lambda: len(receiver.points()) > ENOUGH and receiver.records(), 60, "enough of both")
        h.stop()
        sent = [(path, request) for path, _, _, request in receiver.got]
        lines = "".join(json.dumps({"path": path, "body": base64.b64encode(r.SerializeToString()).decode()})
                        + "\n" for path, r in sent)
        done = subprocess.run([*words, "transformer"], input=lines, capture_output=True, text=True,
                              env=environment, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        read = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(x["path"], x["request"]) for x in read], [(path, as_json(r)) for path, r in sent])


if __name__ == "__main__":
    unittest.main()
