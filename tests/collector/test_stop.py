"""The collector is told to stop while requests lie unread in its sockets: each is answered, or its connection ends; nothing is harmed."""

import json
import signal
import socket
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from collector_case import Case  # noqa: E402

MEMBER = {"v": 1, "slice": "s0", "worker": 0, "host": "h0", "id": "1", "incarnation": "00112233445566aa", "address": ["10.0.0.1"], "hosts": 1}


class Stop(Case):
    def request(self, port, method, path, body=b"", kind="application/json"):
        """A connection that has been asked something already, so that only the request is new; and the request."""
        s = socket.create_connection(("127.0.0.1", port), 60)
        self.addCleanup(s.close)
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n")
        s.recv(4096)
        head = f"{method} {path} HTTP/1.1\r\nHost: c\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        return s, head.encode() + body

    def test_what_lies_unread(self):
        self.start()
        sync = json.dumps({"v": 1, "member": MEMBER, "wait": 5}).encode()
        asked = [self.request(self.c.otlp, "POST", "/registry/v1/sync", sync) for _ in range(3)]
        asked += [self.request(self.c.otlp, "POST", "/v1/metrics", b"", "application/x-protobuf") for _ in range(3)]
        asked += [self.request(self.c.api, "GET", path) for path in ("/api/v1/events?since=now&wait=10", "/api/v1/runs", "/api/v1/hosts", "/metrics")]
        self.c.process.send_signal(signal.SIGSTOP)
        for s, text in asked:
            s.sendall(text)
        self.c.process.send_signal(signal.SIGTERM)
        self.c.process.send_signal(signal.SIGCONT)
        for s, _ in asked:
            s.settimeout(60)
            try:
                while s.recv(65536):
                    pass
            except ConnectionResetError:
                pass
        code = self.c.process.wait(60)
        self.c.log.seek(0)
        self.assertEqual(code, 0, self.c.log.read().decode())


if __name__ == "__main__":
    unittest.main()
