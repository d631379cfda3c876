"""What stands in for the daemons: HTTP over a Unix socket, and tpu-launchd's frames, both in their real
formats."""

import http.server
import json
import socketserver
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import capture_wire  # noqa: E402,F401  (the path comes first; for who imports this)
from protobuf import field, read  # noqa: E402,F401  (field likewise)


def strings_of(payload):
    """All length-delimited fields of a flat message: [(number, text)]."""
    return [(number, value.decode()) for number, kind, value in read(payload) if kind == 2]


class UnixHttp(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.server.seen.append((self.command, self.path))
        status, body, *headers = self.server.answers.get((self.command, self.path.split("?")[0]),
                                                         (404, {"error": "no such call", "remedy": ""}))
        body = body() if callable(body) else body
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            pass

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass


class Launchd(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class LaunchdHandler(socketserver.StreamRequestHandler):
    def handle(self):
        length, _, kind = struct.unpack("<IHH", self.rfile.read(8))
        self.server.seen.append((kind, self.rfile.read(length)))
        answer = self.server.answers[kind]
        reply_kind, payload = answer() if callable(answer) else answer
        if payload is None:  # it is gone
            return
        self.wfile.write(struct.pack("<IHH", len(payload), 1, reply_kind) + payload)
