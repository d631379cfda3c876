"""Stand-ins for who gives a fresh VM its certificate: the metadata server's identity token, and an authority that takes it.

They speak the real shapes: Compute Engine's instance/service-accounts/default/identity (a signed JSON Web Token with the claims of
format=full), and step-ca's POST /1.0/sign ({"csr", "ott"} to {"crt", "ca", "certChain"}, errors {"status", "message"}). Nothing else of
either is here, and the token's signature is a stand-in, too: it is the authority's business to check it, not the host's.
"""

import base64
import http.server
import json
import ssl
import threading
import time
import urllib.parse

from certificates import openssl

PATH = "/computeMetadata/v1/instance/service-accounts/default/identity"


def part(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Server:
    def __init__(self, handle, context=None):
        self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, answer = handle(self, body)
                self.send_response(status)
                for k, v in {**headers, "Content-Length": len(answer)}.items():
                    self.send_header(k, str(v))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET

            def log_message(self, *a):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *a: None  # a client that does not believe our certificate
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Metadata(_Server):
    """asked: [(audience, format)] of identity tokens; status: of the next answers."""

    def __init__(self, name="t1v-n-0a1b2c3d-w-0"):
        self.status, self.tokens, self.name = 200, [], name
        super().__init__(self.answer)

    def answer(self, request, body):
        url = urllib.parse.urlsplit(request.path)
        google = {"Metadata-Flavor": "Google", "Content-Type": "text/html"}
        if request.headers.get("Metadata-Flavor") != "Google":
            return 403, {}, b"no"
        if url.path != PATH or self.status != 200:
            return (404 if url.path != PATH else self.status), google, b"not here"
        query = urllib.parse.parse_qs(url.query)
        self.asked.append((query["audience"][0], query["format"][0]))
        claims = {"aud": query["audience"][0], "iss": "https://accounts.google.com", "sub": "112233", "exp": int(time.time()) + 3600,
                  "iat": int(time.time()), "google": {"compute_engine": {"instance_id": "4711", "instance_name": self.name,
                                                                        "project_id": "lab", "zone": "us-east5-b"}}}
        token = ".".join([part(b'{"alg":"RS256","kid":"stand-in","typ":"JWT"}'), part(json.dumps(claims).encode()), part(b"signature %d" % len(self.tokens))])
        self.tokens.append(token)
        return 200, google, token.encode()


class Ca(_Server):
    """Signs with authority for tokens of metadata; answer: None, or what to say instead: (status, bytes)."""

    def __init__(self, authority, metadata, cert, key, **validity):
        self.authority, self.metadata, self.validity, self.instead, self.subjects, self.url = authority, metadata, validity, None, [], None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        super().__init__(self.answer, context)
        self.url = f"https://127.0.0.1:{self.port}/1.0/sign"

    def answer(self, request, body):
        kind = {"Content-Type": "application/json"}
        self.asked.append(request.path)
        if self.instead:
            return self.instead[0], kind, self.instead[1]
        q = json.loads(body)
        assert set(q) == {"csr", "ott"} and request.path == "/1.0/sign" and request.headers["Content-Type"] == "application/json"
        if q["ott"] not in self.metadata.tokens:
            return 401, kind, b'{"status":401,"message":"The request lacked necessary authorization to be completed."}'
        self.metadata.tokens.remove(q["ott"])  # once
        claims = json.loads(base64.urlsafe_b64decode(q["ott"].split(".")[1] + "=="))
        openssl("req", "-verify", "-noout", stdin=q["csr"].encode())
        self.subjects.append(openssl("req", "-noout", "-subject", stdin=q["csr"].encode()).decode().strip())
        instance = claims["google"]["compute_engine"]["instance_id"]
        crt = self.authority.sign(q["csr"].encode(), f"URI:spiffe://lab/host/{instance}", **self.validity).decode()
        ca = self.authority.cert.read_text()
        return 201, kind, json.dumps({"crt": crt, "ca": ca, "certChain": [crt, ca]}).encode()
