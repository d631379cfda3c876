"""What stands in for the daemons: HTTP over a Unix socket, and tpu-launchd's frames, both in their real formats."""

import http.server
import json
import socketserver
import struct


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def strings_of(payload):
    """All length-delimited fields of a flat message: [(number, text)]."""
    found, i = [], 0
    while i < len(payload):
        key, i = payload[i], i + 1
        size, shift = 0, 0
        while True:
            size |= (payload[i] & 0x7F) << shift
            shift += 7
            i += 1
            if not payload[i - 1] & 0x80:
                break
        if key & 7 == 2:
            found.append((key >> 3, payload[i:i + size].decode()))
            i += size
    return found


class UnixHttp(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.server.seen.append((self.command, self.path))
        status, body = self.server.answers.get((self.command, self.path.split("?")[0]), (404, {"error": "no such call", "remedy": ""}))
        body = body() if callable(body) else body
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
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
        reply_kind, payload = self.server.answers[kind]
        self.wfile.write(struct.pack("<IHH", len(payload), 1, reply_kind) + payload)
