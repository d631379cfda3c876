"""OTLP as OpenTelemetry's own definitions have it: a decoder that takes nothing it does not know, a receiver
on loopback, and a tap
between tpu-hostd and somebody else's receiver. Nothing here is made from proto/otlp.proto."""

import gzip
import http.server
import socket
import socketserver
import sys
import threading
import time
import zlib

import peers

sys.path.insert(0, str(peers.definitions()))
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_service  # noqa: E402
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_service  # noqa: E402

REQUESTS = {"/v1/metrics": metrics_service.ExportMetricsServiceRequest,
            "/v1/logs": logs_service.ExportLogsServiceRequest}
RESPONSES = {"/v1/metrics": metrics_service.ExportMetricsServiceResponse,
             "/v1/logs": logs_service.ExportLogsServiceResponse}
REJECTED = {"/v1/metrics": "rejected_data_points", "/v1/logs": "rejected_log_records"}


def decode(path, body):
    """The request of a path; an AssertionError when a byte of it is not OpenTelemetry's."""
    request = REQUESTS[path].FromString(body)
    known = REQUESTS[path]()
    known.CopyFrom(request)
    known.DiscardUnknownFields()
    assert known.SerializeToString() == request.SerializeToString(), "unknown fields"
    assert known.ByteSize() == len(body), "fields that are said twice, or empty ones that are said"
    assert known.IsInitialized()
    return request


def field_paths(message, prefix=""):
    """{path of every field that is set}: metrics.sum.data_points.as_int; within a value, its kind only."""
    out = set()
    for field, value in message.ListFields():
        name = prefix + field.name
        if field.message_type is None:
            out.add(name)
        elif field.message_type.name == "AnyValue":
            out.add(name + ":" + value.WhichOneof("value"))
        else:
            for m in value if field.label == field.LABEL_REPEATED else [value]:
                out |= field_paths(m, name + ".")
    return out


def value(v):
    """An AnyValue as Python has it."""
    kind = v.WhichOneof("value")
    if kind == "kvlist_value":
        return pairs(v.kvlist_value.values)
    if kind == "array_value":
        return [value(x) for x in v.array_value.values]
    return getattr(v, kind) if kind else None


def pairs(list_of_pairs):
    out = {p.key: value(p.value) for p in list_of_pairs}
    assert len(out) == len(list_of_pairs), "a key is there twice"
    return out


def points(request):
    """[(resource, metric, kind, data, point)] of an ExportMetricsServiceRequest."""
    return [(pairs(r.resource.attributes), m, m.WhichOneof("data"), getattr(m, m.WhichOneof("data")), p)
            for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics
            for p in getattr(m, m.WhichOneof("data")).data_points]


def number(point):
    return getattr(point, point.WhichOneof("value"))


def series(request):
    """{(metric name, attributes as sorted pairs): (value, time)}"""
    return {(m.name, tuple(sorted(pairs(p.attributes).items()))): (number(p), p.time_unix_nano) for _, m, _,
            _, p in points(request)}


def records(request):
    """[(resource, log record)] of an ExportLogsServiceRequest."""
    return [(pairs(r.resource.attributes), x) for r in request.resource_logs for s in r.scope_logs
            for x in s.log_records]


def inflate(raw):
    """gzip to its very end, with nothing behind it."""
    d = zlib.decompressobj(31)
    body = d.decompress(raw)
    assert d.eof and not d.unused_data, "one whole gzip member and no more"
    return body


class Receiver:
    """answer: a function (path, how many requests of this path came before) -> (status, headers, rejected or
    None).
    got: [(path, status answered, headers, request)]; faults: what was wrong with any."""

    def __init__(self, answer=None, listener=None):
        self.answer, self.got, self.faults, self.times = answer or (lambda path,
                                                                    n: (200, {}, None)), [], [], []
        self.lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = (self.rfile.read(int(self.headers["Content-Length"]))
                        if "Content-Length" in self.headers else self.chunks())
                try:
                    status, headers, rejected = receiver.take(self.path, self.headers, body)
                except Exception as e:  # told by the test, not only by a thread
                    receiver.faults.append(f"{self.path}: {type(e).__name__}: {e}")
                    status, headers, rejected = 400, {}, None
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                text = b""
                if rejected is not None:
                    response = RESPONSES[self.path]()
                    setattr(response.partial_success, REJECTED[self.path], rejected)
                    response.partial_success.error_message = "not these"
                    text = response.SerializeToString()
                for byte in text:  # a byte a chunk: the slowest way that is allowed
                    self.wfile.write(b"1\r\n" + bytes([byte]) + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")

            def chunks(self):
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def log_message(self, *a):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            allow_reuse_address = daemon_threads = True

            def handle_error(self, *a):
                pass  # who ends its connection, ends it

        self.server = Server(("127.0.0.1", 0), Handler, bind_and_activate=listener is None)
        if listener:
            self.server.socket.close()
            self.server.socket = listener
        self.port = self.server.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    def take(self, path, headers, body):
        assert headers["Content-Type"] == "application/x-protobuf", headers["Content-Type"]
        assert headers["Content-Encoding"] in (None, "gzip"), headers["Content-Encoding"]
        request = decode(path, inflate(body) if headers["Content-Encoding"] else body)
        with self.lock:
            status, more, rejected = self.answer(path, sum(p == path for p, *_ in self.got))
            self.got.append((path, status, headers, request))
            self.times.append(time.monotonic())
        return status, more, rejected

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def requests(self, path):
        with self.lock:
            return [request for p, status, _, request in self.got if p == path and status == 200]

    def points(self):
        return [p for r in self.requests("/v1/metrics") for p in points(r)]

    def records(self):
        return [x for r in self.requests("/v1/logs") for x in records(r)]


class Tap:
    """A port that passes bytes to another and back, byte for byte; sent: [(path, request)] of what went
    to it whole."""

    def __init__(self, port, prefix=""):
        self.sent, self.statuses, self.prefix = [], [], prefix
        tap = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with socket.create_connection(("127.0.0.1", port)) as there:
                    back = threading.Thread(target=self.back, args=(there,), daemon=True)
                    back.start()
                    seen = b""
                    while data := self.request.recv(65536):
                        there.sendall(data)
                        seen = tap.cut(seen + data)
                    there.shutdown(socket.SHUT_WR)
                    back.join()

            def back(self, there):
                try:
                    while data := there.recv(65536):
                        if data.startswith(b"HTTP/1.1 "):
                            tap.statuses.append(int(data[9:12]))
                        self.request.sendall(data)
                    self.request.shutdown(socket.SHUT_WR)
                except OSError:
                    pass

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

            def handle_error(self, *a):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    def cut(self, seen):
        """Takes whole requests off the front."""
        while b"\r\n\r\n" in seen:
            head, _, rest = seen.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            size = int(headers.get("content-length", 0))
            if len(rest) < size:
                break
            path = first.split()[1].removeprefix(self.prefix)
            body = rest[:size]
            self.sent.append((path, decode(path, inflate(body) if headers.get("content-encoding") == "gzip"
                                           else body)))
            seen = rest[size:]
        return seen

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def gzipped(data):
    return gzip.compress(data, 1)
