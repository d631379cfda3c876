#!/usr/bin/python3
"""A stand-in for libtpu's runtime metrics service: the real messages (written by hand, nothing of ours) over
real gRPC.

    libtpu_stand_in.py --port 8431 [--port 8432]… [--state FILE.json] [--chips 4] [--calls FILE]

No TPU is anywhere: what it serves is made up, or what FILE says. FILE is read again for each call, so that a
test or a
person changes what the "TPU" does while it runs; it is a JSON object, each key may be missing:

    mode           good | slow (delay, then good) | silent (never answers) | denied | garbage | huge | deep | unimplemented
    delay          seconds before each answer
    encoding       new (device_ordinal as text in a list) | int (as number in a list) | old (one attribute, the number)
    duty_cycle     percent, of all chips              idle_seconds   of all chips
    queue          programs waiting, of all cores     error          {"error_type": "HANG_DETECTED", …} or null
    metrics        {name: [{"attributes": {…} or "device": N, and one of "int" "double" "counter" "distribution"
                   "summary" "text", "start": seconds}]}; null: not offered
    cores          [{"core", "chip", "pc", "tag", "run", "launch", "fingerprint" (hex), "location", "error", "queued"}]
    core           {"0": {"pc": 0}}: changes of one core of those
    all_cores      {"pc": 4660}: changes of every core
"""
import argparse
import json
import signal
import sys
import threading
import time
from concurrent import futures
from pathlib import Path

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from protobuf import double, field  # noqa: E402

SERVICE = "tpu.monitoring.runtime.RuntimeMetricService"
US = "microsecond.cumulative.distribution"
DISTRIBUTIONS = {
    **{f"megascale.{n}_transfer_latencies.{US}": ("buffer_size", "type") for n in ("dcn", "dcn_inbound")},
    **{f"megascale.{n}_transfer_latencies.{US}": ("buffer_size",)
       for n in ("host_to_device", "device_to_host")},
    f"megascale.collective_end_to_end_latencies.{US}": ("input_size", "collective_type"),
    f"megascale.mxla_compute_latencies.{US}": ("buffer_size",),
    f"megascale.grpc_client_call_latencies.{US}": ("buffer_size",),
    f"megascale.grpc_server_call_latencies.{US}": ("buffer_size",),
    f"megascale.grpc_tcp_min_rtt.{US}": (),
    f"megascale.grpc_tcp_sender_latency.{US}": (),
    f"megascale.grpc_tcp_transfer_latency.{US}": ("transfer_size",),
    "megascale.grpc_tcp_delivery_rate.Mbps.cumulative.distribution": (),
    "megascale.grpc_tcp_write_size.cumulative.distribution": (),
    "megascale.grpc_tcp_read_size.cumulative.distribution": (),
    "megascale.dcn_transfer_size.bytes.cumulative.distribution": ("type",),
    "megascale.dcn_inbound_transfer_size.bytes.cumulative.distribution": ("type",),
    "megascale.collective_input_size.bytes.cumulative.distribution": ("collective_type", "execution_type"),
    "megascale.mxla_compute_operand_size.bytes.cumulative.distribution": (),
    "megascale.host_to_device_transfer_size.bytes.cumulative.distribution": (),
    "megascale.device_to_host_transfer_size.bytes.cumulative.distribution": (),
}
COUNTERS = [f"megascale.{n}.cumulative.count" for n in (
    "grpc_tcp_packets_sent", "grpc_tcp_packets_retransmitted", "grpc_tcp_packets_spurious_retransmitted",
    "grpc_tcp_recurring_retransmits", "grpc_tcp_bytes_sent", "grpc_tcp_bytes_retransmitted",
    "grpc_tcp_syscall_writes",
    "grpc_tcp_syscall_reads", "bamm2_bits_sent", "bamm2_bits_received", "bamm2_bits_read",
    "bamm2_bits_written",
    "bamm2_bits_written_with_imm")]
LABELS = {"buffer_size": ("512B+", "1MB+"), "input_size": ("512B+", "4MB+"), "type": ("grpc",),
          "collective_type": ("all-reduce",),
          "execution_type": ("host",), "transfer_size": (512,)}


# --- What is served ---

def distribution(count=1000, finite=30, scale=1.0, growth=2.0):
    counts = [0] * (finite + 2)
    counts[7], counts[8], counts[9] = count - count // 2 - count // 4, count // 2, count // 4
    return {"count": count, "mean": 200.0, "min": 70.0, "max": 500.0, "exponential": [finite, growth, scale],
            "counts": counts[:10]}


def defaults(chips, began):
    now = time.time()
    done = int((now - began) * 10) + 1
    each = range(chips)
    metrics = {
        "tpu.runtime.hbm.memory.total.bytes": [{"device": c, "int": 33554432000} for c in each],
        "tpu.runtime.hbm.memory.usage.bytes": [{"device": c, "int": 17179869184 + c} for c in each],
        "tpu.runtime.tensorcore.dutycycle.percent": [{"device": c, "double": 97.5} for c in each],
        "tpu.runtime.hbm.utilization.percent": [{"device": c, "double": 51.25} for c in each],
        "tpu.runtime.tensorcore.idle_duration.seconds": [{"device": c, "double": 0.004} for c in each],
        "tpu.runtime.uptime.seconds.gauge": [{"attributes": {"ml_framework_name": "jax",
                                                             "ml_framework_version": "0.6.2"},
                                              "int": int(now - began)}],
        "hlo.queue.size.gauge": [{"core": c, "int": 2} for c in each],
        "hlo.execution.timing.distribution.microseconds": [{"core": c, "distribution": distribution(done)}
                                                           for c in each],
        "megascale.error.detected.gauge": [],
        "slice.error.detected.gauge": [],
    }
    for name, keys in DISTRIBUTIONS.items():
        sets = [{}]
        for key in keys:
            sets = [{**s, key: v} for s in sets for v in LABELS[key]]
        metrics[name] = [{"attributes": s, "distribution": distribution(done), "start": began} for s in sets]
    for i, name in enumerate(COUNTERS):
        metrics[name] = [{"attributes": {}, "counter": done * (i + 1), "start": began}]
    cores = [{"core": c, "chip": c, "pc": 0x1000 + done % 7, "tag": 3, "run": done, "launch": done % 1000,
              "fingerprint": "a1" * 16,
              "location": "fusion.42 [model.py:88]", "error": "", "queued": 2} for c in each]
    return {"mode": "good", "delay": 0, "encoding": "new", "metrics": metrics, "cores": cores}


def state_of(path, chips, began):
    state = defaults(chips, began)
    try:
        said = json.loads(Path(path).read_text()) if path else {}
    except (OSError, ValueError):
        said = {}  # it is being written
    metrics = state["metrics"]
    for key, name in (("duty_cycle", "tpu.runtime.tensorcore.dutycycle.percent"),
                      ("idle_seconds", "tpu.runtime.tensorcore.idle_duration.seconds")):
        if key in said:
            metrics[name] = [{"device": c, "double": float(said[key])} for c in range(chips)]
    if "queue" in said:
        metrics["hlo.queue.size.gauge"] = [{"core": c, "int": said["queue"]} for c in range(chips)]
    if said.get("error"):
        metrics["megascale.error.detected.gauge"] = [{"attributes": said["error"], "int": 1}]
    metrics.update(said.get("metrics", {}))
    state.update({k: said[k] for k in ("mode", "delay", "encoding", "cores") if k in said})
    for core in state["cores"]:
        core.update(said.get("all_cores", {}))
        core.update(said.get("core", {}).get(str(core["core"]), {}))
    state["metrics"] = {name: points for name, points in metrics.items() if points is not None}
    return state


# --- The messages, by their numbers in tpu_metric_service.proto and tpu_telemetry.proto ---

def value(v):
    if isinstance(v, bool):
        return field(2, int(v))
    if isinstance(v, int):
        return field(3, v)
    if isinstance(v, float):
        return double(4, v)
    if isinstance(v, dict):
        return field(6, b"".join(field(1, field(1, k) + field(2, value(x))) for k, x in v.items()))
    return field(1, v)


def attribute(point, encoding):
    if "device" in point:
        n = point["device"]
        if encoding == "old":
            return field(1, "device-id") + field(2, value(n))
        return field(1, "device-id") + field(2,
                                             value({"device_ordinal": str(n) if encoding == "new" else n}))
    if "core" in point:
        n = point["core"]
        if encoding == "old":
            return field(1, "device-id") + field(2, value(n))
        return field(1, "attributes") + field(2, value({"device_ordinal": str(n) if encoding == "new" else n,
                                                        "core_type": "TensorCore"}))
    return field(1, "attributes") + field(2, value(point.get("attributes", {})))


def buckets(d):
    out = b""
    if "exponential" in d:
        n, growth, scale = d["exponential"]
        out = field(2, field(1, n) + double(2, growth) + double(3, scale))
    elif "linear" in d:
        n, width, offset = d["linear"]
        out = field(4, field(1, n) + double(2, width) + double(3, offset))
    elif "explicit" in d:
        out = field(3, b"".join(double(1, b) for b in d["explicit"]))
    elif "regular" in d:
        n, bounds = d["regular"]
        out = field(1, field(1, n) + b"".join(field(2, double(1, w) + double(2, o)) for w, o in bounds))
    return field(6, out) if out else b""


def measure(point):
    if "int" in point:
        return field(3, field(2, point["int"]))
    if "double" in point:
        return field(3, double(1, point["double"]))
    if "text" in point:
        return field(3, field(3, point["text"]))
    if "counter" in point:
        return field(4, field(2, point["counter"]))
    if "summary" in point:
        s = point["summary"]
        return field(6, field(1, s["count"]) + double(2, s["sum"])
                     + b"".join(field(3, double(1, q) + double(2, v)) for q, v in s["quantiles"]))
    if "distribution" in point:
        d = point["distribution"]
        return field(5, field(1, d["count"]) + double(2, d["mean"]) + double(3, d.get("min", 0))
                     + double(4, d.get("max", 0)) + double(5, 1.0) +
                     buckets(d) + b"".join(field(7, n) for n in d.get("counts", [])))
    return b""


def timestamp(t):
    return field(1, int(t)) + field(2, int(t % 1 * 1e9))


def metric(name, points, encoding):
    body = b"".join(field(3,
                          field(1, attribute(p, encoding)) + field(2, timestamp(time.time())) + measure(p) +
                          (field(7, timestamp(p["start"])) if "start" in p else b"")) for p in points)
    return field(1, field(1, name) + field(2, "what it is") + body)


def core_state(c):
    sequencer = (field(1, 1) + field(2, 0) + field(3, c["pc"]) + field(4, c["tag"]) + field(5, 0)
                 + field(6, 1) + field(7, c["run"]) +
                 field(8, c["location"]) + field(9, json.dumps([c["location"]])))
    other = field(1, 4) + field(3, 99) + field(7, 1)
    body = (field(1, field(1, c["core"]) + field(2, c["chip"]) + field(3, field(1, 1) + field(2, 0)))
            + field(2, other) + field(2, sequencer) +
            field(3, 0) + field(4, bytes.fromhex(c["fingerprint"])) + field(5, c["launch"]) +
            b"".join(field(6, field(1, c["run"] + i) + field(2, c["launch"] + i))
                     for i in range(c["queued"])) + field(7, c["error"]))
    return field(1, c["core"]) + field(2, body)


def requested(request):
    """The metric's name, and whether of this process only."""
    import protobuf
    got = {n: v for n, _, v in protobuf.read(request)}
    return got.get(1, b"").decode(), bool(got.get(2, 0))


# --- The server ---

class StandIn:
    def __init__(self, ports, state=None, chips=4, calls=None):
        self.calls_file = calls
        self.state_file, self.chips, self.began = state, chips, time.time()
        self.calls, self.lock = [], threading.Lock()
        self.server = grpc.server(futures.ThreadPoolExecutor(64), options=[("grpc.so_reuseport", 0)])
        handlers = {name: grpc.unary_unary_rpc_method_handler(self.handler(name, f)) for name, f in (
            ("GetRuntimeMetric", self.metric), ("ListSupportedMetrics", self.list),
            ("GetTpuRuntimeStatus", self.status))}
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        self.ports = [self.server.add_insecure_port(f"127.0.0.1:{p}") for p in ports]
        if 0 in self.ports:
            raise OSError("a port is taken")
        self.server.start()

    def stop(self):
        self.server.stop(0).wait()

    def count(self, name):
        with self.lock:
            return sum(n == name for n, _ in self.calls)

    def handler(self, name, answer):
        def call(request, context):
            state = state_of(self.state_file, self.chips, self.began)
            with self.lock:
                self.calls.append((name, request))
                if self.calls_file:
                    with open(self.calls_file, "a") as f:
                        f.write(name + "\n")
            mode = state["mode"]
            if mode == "silent":
                while context.is_active():
                    time.sleep(0.02)
                return b""
            time.sleep(state["delay"])
            if mode == "denied":
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "not for you")
            if mode == "unimplemented":
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")
            if mode == "garbage":
                return b"\xff\x07garbage" * 20
            if mode == "huge":
                return field(1, b"\0" * (3 << 20))
            if mode == "deep" and name != "ListSupportedMetrics":
                deep = b""  # an attribute whose value is a list of one whose value is a list of one…
                for _ in range(5000):
                    deep = field(2, field(6, field(1, deep)))
                return field(1,
                             field(3,
                                   field(1, deep))) if name == "GetRuntimeMetric" else field(2,
                                                                                             field(2, deep))
            return answer(request, context, state)
        return call

    def metric(self, request, context, state):
        name, _ = requested(request)
        if name not in state["metrics"]:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no metric {name}")
        return metric(name, state["metrics"][name], state["encoding"])

    def list(self, request, context, state):
        return b"".join(field(1, field(1, n)) for n in [*state["metrics"], "some.metric.of.tomorrow"])

    def status(self, request, context, state):
        return field(1, "stand-in") + b"".join(field(2, core_state(c)) for c in state["cores"])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--port", type=int, action="append", required=True)
    p.add_argument("--state")
    p.add_argument("--chips", type=int, default=4)
    p.add_argument("--calls", help="a file that gets the name of each call, a line each")
    o = p.parse_args()
    stand_in = StandIn(o.port, o.state, o.chips, o.calls)
    print("stand-in for libtpu listens on", *stand_in.ports, flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    stand_in.stop()


if __name__ == "__main__":
    main()
