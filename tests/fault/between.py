"""What stands between agent and collector in some tests: it passes requests on, as badly as it is told to.

LOSES_ANSWERS: every third answer is lost after the collector gave it, as networks do. HASTY: answers 200
itself before the collector
has stored anything. NAMELESS: LOSES_ANSWERS, and takes the record's number away, so that the collector
cannot tell repeats.
"""

import http.client
import http.server
import itertools
import socketserver
import threading

LOSES_ANSWERS, HASTY, NAMELESS = "loses answers", "hasty", "nameless"


class Between:
    def __init__(self, how):
        self.how, self.server = how, None

    def __call__(self, port):
        """Starts in front of this port; returns its own."""
        how, count = self.how, itertools.count(1)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {k: self.headers[k] for k in ("Content-Type", "Content-Encoding",
                                                        "TPU-Spool-Record") if self.headers[k]}
                if how == NAMELESS:
                    del headers["TPU-Spool-Record"]
                if how == HASTY:
                    self.answer(200, b"")
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                try:
                    c.request("POST", self.path, body, headers)
                    r = c.getresponse()
                    status, content = r.status, r.read()
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                    return
                finally:
                    c.close()
                if how == HASTY:
                    return
                if next(count) % 3 == 0:
                    self.close_connection = True
                    return
                self.answer(status, content)

            def answer(self, status, content):
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *a):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

            def handle_error(self, *a):
                pass  # an agent that was killed

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()
        return self.server.server_address[1]

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
