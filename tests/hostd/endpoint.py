"""An OTLP/HTTP endpoint on loopback that does as a test says, well or badly, with TLS or without."""

import gzip
import http.server
import socket
import socketserver
import ssl
import threading
import time

import otlp

PROTOBUF = {"Content-Type": "application/x-protobuf"}


class Answer:
    """status, headers and body of an answer; or one of the ways of having none."""

    def __init__(self, status=200, headers=None, body=b"", how="whole"):
        self.status, self.headers, self.body, self.how = status, {**PROTOBUF, **(headers or {})}, body, how


OK, HANG, RESET, LORIS = Answer(), Answer(how="hang"), Answer(how="reset"), Answer(how="loris")


class Endpoint:
    """answer: an Answer, or a function (path, record) -> Answer; limit: larger bodies are answered 413;
    got: [(path, record, body)] of what was answered 200."""

    def __init__(self, answer=OK, port=0):
        self.answer, self.port = answer, port
        self.got, self.tries, self.encodings, self.peers, self.failures = [], [], [], [], []
        self.refused = []  # as got, of what was answered 400, 413 or 422
        self.server = self.context = None
        self.open, self.limit = [], 1 << 20

    def tls(self, cert, key, client_ca=None):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        if client_ca:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(client_ca)
        return self

    def start(self):
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                assert len(raw) <= 1 << 20 and self.headers["Content-Type"] == "application/x-protobuf"
                encoding = self.headers.get("Content-Encoding")
                body = gzip.decompress(raw) if encoding == "gzip" else raw
                record = self.headers["TPU-Spool-Record"]
                endpoint.tries.append((time.monotonic(), self.path, record))
                answer = endpoint.answer(self.path, record) if callable(endpoint.answer) else endpoint.answer
                if len(body) > endpoint.limit:
                    answer = Answer(413)
                if answer.how == "whole" and answer.status == 200:
                    endpoint.got.append((self.path, record, body))
                    endpoint.encodings.append((encoding, len(raw), len(body)))
                    if endpoint.context:
                        endpoint.peers.append((self.request.getpeercert() or {}).get("serialNumber"))
                elif answer.status in (400, 413, 422):
                    endpoint.refused.append((self.path, record, body))
                self.give(answer)

            def give(self, answer):
                if answer.how == "hang":
                    while endpoint.server:
                        time.sleep(0.05)
                if answer.how == "loris":
                    for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: " + b"a" * 10000:
                        if not endpoint.server:
                            break
                        self.wfile.write(bytes([byte]))
                        time.sleep(0.05)
                if answer.how != "whole":
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for k, v in answer.headers.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *a):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            allow_reuse_address = daemon_threads = True

            def finish_request(self, request, address):
                endpoint.open.append(request)
                try:
                    if endpoint.context:
                        request = endpoint.context.wrap_socket(request, server_side=True)
                        endpoint.open.append(request)
                    self.RequestHandlerClass(request, address, self)
                except OSError as e:  # ssl.SSLError too
                    endpoint.failures.append(str(e))
                finally:
                    request.close()

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()
        return self

    def cut(self):
        """Ends every connection, so that the next request makes one."""
        for c in self.open:
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.open = []

    def stop(self):
        server, self.server = self.server, None
        if server:
            server.shutdown()
            server.server_close()
            self.cut()

    @property
    def url(self):
        return f"http{'s' if self.context else ''}://127.0.0.1:{self.port}"

    def points(self):
        return [p for path, _, body in list(self.got) if path == "/v1/metrics" for p in otlp.metrics(body)]

    def records(self):
        return [record for _, record, _ in list(self.got)]
