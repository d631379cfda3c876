"""A tpu-collectord's POST /registry/v1/sync, as docs/registry.md has it, that a test drives: what it
holds and answers."""

import http.server
import json
import socket
import socketserver
import threading
import time


class Registry:
    """records: key → value that the host shall know. members: what hosts said, whole. asked: every request.
    leader: the URL that 421 names instead of an
    answer; None: this one answers. posted: (path, headers, body) of what came to other paths than sync;
    post: how it is answered, (status, answer)."""

    def __init__(self, lease=15, tls=None, term=0, store=""):
        self.lease, self.tls, self.term, self.store, self.leader = lease, tls, term, store, None
        self.posted, self.post = [], (200, {})
        self.records, self.members, self.asked, self.left, self.said = {}, {}, [], [], {}
        self.revision, self.epoch, self.changed = 0, "a", {}
        self.conflict, self.status, self.port, self.server = None, 200, 0, None
        self.forgets, self.clock_ahead = False, 0  # s
        self.news = threading.Condition()

    def put(self, key, value):
        with self.news:
            self.revision += 1
            self.records[key] = value
            self.changed[key] = self.revision
            self.news.notify_all()

    def wake(self):
        with self.news:
            self.news.notify_all()

    def since(self, text):
        epoch, _, revision = (text or "").partition(".")
        return int(revision) if epoch == self.epoch else None

    def sync(self, request, gone):
        """(status, answer) when there is news or the wait is over; None when the client went away."""
        end = time.monotonic() + request.get("wait", 5)
        tell = False
        with self.news:
            self.asked.append(request)
            if self.leader is not None:
                return 421, {"error": "this one does not lead", "leader": self.leader}
            if self.status != 200:
                return self.status, {"error": "so says the test", "remedy": ""}
            if request.get("leave"):
                self.left.append(request["same"])
            elif "member" in request:
                m = request["member"]
                key = f"{m['slice']}/{m['worker']}"
                if m["incarnation"] != self.said.get(key,
                                                     ("", 0))[0] or request["said"] >= self.said[key][1]:
                    self.members[key], self.said[key] = m, (m["incarnation"], request["said"])
                self.news.notify_all()
            else:
                m = self.members.get(request["same"])
                tell = not m or self.said[request["same"]] != (request["incarnation"],
                                                               request["said"]) or self.forgets
                self.forgets = False
            known = self.since(request.get("since"))
            while known is not None and known >= self.revision and not tell and not self.conflict and time.monotonic() < end:
                if self.status != 200 or self.leader is not None or gone() or not self.server:
                    return None
                self.news.wait(0.05)
            whole = known is None
            news = {k: v for k, v in self.records.items() if whole and v is not None or not whole
                    and self.changed[k] > known}
            answer = {"v": 1, "lease": self.lease, "revision": f"{self.epoch}.{self.revision}",
                      "whole": whole, "records": news,
                      "tell": tell, "conflict": self.conflict, "term": self.term, "store": self.store,
                      "later": "versions may say more"}
            return 200, answer

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def start(self):
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def gone(self):
                try:
                    return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
                except BlockingIOError:
                    return False
                except (OSError, ValueError):
                    return True

            def date_time_string(self, timestamp=None):
                return super().date_time_string(time.time() + registry.clock_ahead)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/registry/v1/sync":
                    assert self.headers["Content-Type"] == "application/json", self.headers
                    answer = registry.sync(json.loads(body),
                                           self.gone if not registry.tls else lambda: False)
                else:
                    registry.posted.append((self.path, dict(self.headers), body))
                    answer = registry.post
                if answer is None:
                    self.close_connection = True
                    return
                text = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
                try:
                    self.send_response(answer[0])
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    self.close_connection = True

            def log_message(self, *a):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            allow_reuse_address = daemon_threads = True

            def get_request(self):
                connection = super().get_request()
                connections.append(connection[0])
                return connection

            def finish_request(self, request, address):
                if registry.tls:
                    request.settimeout(10)
                    request = registry.tls.wrap_socket(request, server_side=True)
                super().finish_request(request, address)

            def handle_error(self, request, address):
                pass  # a client that went away, or whose certificate is not believed

        connections = self.connections = []
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()
        return self

    def stop(self):
        server, self.server = self.server, None
        if server:
            server.shutdown()
            server.server_close()
            for c in self.connections:
                try:
                    c.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                c.close()
