#!/usr/bin/python3
"""A stand-in for the metadata server of Compute Engine: its keys, its header rule, its waits for changes,
and its bad days.

For tests: MetadataServer(address, nics) in a thread, .set(mode=…, mtu=…, preempted=…). As a program it
serves a lab's hosts,
NICs by the caller's address, and takes one JSON object a line on standard input: {"mode": "html"}, {"mtu":
1460},
{"preempted": "10.10.0.2"} (that host alone; true: all), {"maintenance": "TERMINATE_ON_HOST_MAINTENANCE"},
{"attributes": {"10.10.0.2": {"tpu-env": "…"}}}; it answers each with "ok". tpu_env() and endpoints() make
attributes in
both of their forms.
"""

import collections
import hashlib
import http.server
import json
import socket
import sys
import threading
import time
import urllib.parse

ROOT = "/computeMetadata/v1/"
MODES = ("good", "slow", "flaky", "missing", "html", "page", "flavor", "huge", "garbage", "busy", "etagless",
         "restless")
SETTINGS = ("mode", "mtu", "machine_type", "name", "attributes", "preempted", "maintenance", "upcoming",
            "zone", "id", "preemptible")
HTML = b"<!DOCTYPE html>\n<html><body>Sign in to the network</body></html>\n"


# What a v4-256 of the Cloud TPU API and a v6e-8 of Compute Engine have beside what tpu_env() is told.
CLOUD_TPU = {"AGENT_BOOTSTRAP_IMAGE": "gcr.io/cloud-tpu-v2-images/instance_agent:stable", "ALT": "false",
             "CONSUMER_PROJECT_NUMBER": "1",
             "ENABLE_MEMCACHED": "false", "INJECT_SLICE_BUILDER_FAULT": "",
             "MAINTENANCE_ACTION_FLAG": "unhealthy-maintenance",
             "SOURCE": "TFRC", "TPU_RUNTIME_METRICS_PORTS": "8431,8432,8433,8434",
             "TPU_TOPOLOGY_ALT": "false", "UID": "650208",
             "VBARCONTROL_AGENT_DOCKER_URL": ""}
COMPUTE_ENGINE = {"ALT": "false", "CONSUMER_PROJECT_ID": "lab",
                  "TPU_RUNTIME_METRICS_PORTS": "8431,8432,8433,8434,8435,8436,8437,8438"}


def tpu_env(dialect="cloud-tpu", accelerator="v6e-16", worker=0, topology="4x4", host_bounds="2,2,1",
            chips_bounds="2,2,1", node="slice-a",
            zone="us-east5-b", wrap="false,false,false", preemptible=False, **more):
    """tpu-env as "cloud-tpu" or "compute-engine" writes it; more: MEGASCALE_NUM_SLICES=2 and the like."""
    names = {"cloud-tpu": ("ACCELERATOR_TYPE", "WORKER_ID", "TPU_TOPOLOGY_WRAP", CLOUD_TPU),
             "compute-engine": ("TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "WRAP", COMPUTE_ENGINE)}[dialect]
    values = {names[0]: accelerator, names[1]: worker, names[2]: wrap, "TOPOLOGY": topology,
              "HOST_BOUNDS": host_bounds,
              "CHIPS_PER_HOST_BOUNDS": chips_bounds, "NODE_ID": node, "ZONE": zone,
              "ENABLE_ICI_RESILIENCY": "true",
              "PREEMPTIBLE": str(preemptible).lower(), **names[3], **more}
    return "".join(f"{key}: '{values[key]}'\n" for key in sorted(values))


def endpoints(workers, bare=False):
    """worker-network-endpoints of [(name, address)]; bare: the form of names alone."""
    return ",".join(name if bare else f"{name}:{n + 100}:{address}" for n,
                    (name, address) in enumerate(workers))


class MetadataServer:
    """nics: called with the caller's address, returns [{"mac", "ip"}]; the MTU of each is .mtu, or {mac:
    mtu}.

    mode: good | slow (an answer takes 30 s) | flaky (every second one of a path is a 503) | missing (404) |
    html (text/html with 200) | page (HTML said to be JSON) | flavor (no Metadata-Flavor) |
    huge (an endless body) | garbage (no JSON) | busy (503) | etagless (no ETag) | restless (waits end at
    once).

    attributes: {key: text}, of all, or {host's address: {key: text}}. preempted: False, True, or one host's
    address.
    maintenance: the text of instance/maintenance-event.
    """

    def __init__(self, address, nics, mtu=8896, machine_type="ct6e-standard-4t", name=None):
        self.nics, self.mtu, self.machine_type, self.name, self.mode = nics, mtu, machine_type, name, "good"
        self.attributes, self.preempted, self.maintenance = {}, False, "NONE"
        self.token = None  # called with the audience: the text of an instance token; None: 404
        self.upcoming = None  # the JSON of instance/upcoming-maintenance; None: 404
        self.zone, self.id, self.preemptible = "us-east5-b", "6502082742571311568", "FALSE"
        self.asked = []  # (path, query as a dict, headers)
        self._changed = threading.Condition()
        self._asked = collections.Counter()  # times, of each path
        standin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                try:
                    standin.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = allow_reuse_address = True
            connections = []

            def get_request(self):
                connection = super().get_request()
                self.connections.append(connection[0])
                return connection

        self.server = Server(address, Handler)
        self.address = "%s:%d" % self.server.server_address[:2]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                                       daemon=True)
        self.thread.start()

    def stop(self):
        """Gone as after a crash: connections, too."""
        self.server.shutdown()
        self.server.server_close()
        for connection in self.server.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self._changed:
            self._changed.notify_all()

    def set(self, **what):
        for key, value in what.items():
            if key == "mode" and value not in MODES or key not in SETTINGS:
                raise ValueError(f"{key}={value!r}")
        with self._changed:
            for key, value in what.items():
                setattr(self, key, value)
            self._changed.notify_all()

    # -- answers ------------------------------------------------------------------------------------------

    def _value(self, path, client):
        """(content type, body) of a key, or None."""
        name = self.name or socket.gethostname()
        if path == "instance/network-interfaces/":
            nics = self.nics(client)
            mtu = self.mtu if isinstance(self.mtu, dict) else {n["mac"]: self.mtu for n in nics}
            full = [{"accessConfigs": [{"externalIp": "", "type": "ONE_TO_ONE_NAT"}],
                     "dnsServers": ["169.254.169.254"],
                     "forwardedIps": [], "gateway": "10.10.0.1", "ip": n["ip"], "ipAliases": [],
                     "mac": n["mac"],
                     "mtu": mtu.get(n["mac"]), "network": "projects/1/networks/default",
                     "subnetmask": "255.255.255.0",
                     "targetInstanceIps": []} for n in nics]
            return "application/json", json.dumps(full).encode()
        if path == "instance/machine-type":
            return "application/text", f"projects/123456789/machineTypes/{self.machine_type}".encode()
        if path == "instance/name":
            return "application/text", name.encode()
        texts = {"instance/zone": f"projects/123456789/zones/{self.zone}", "instance/id": self.id,
                 "instance/scheduling/preemptible": self.preemptible,
                 "instance/maintenance-event": self.maintenance,
                 "instance/preempted": str(self.preempted in (True, client)).upper()}
        if path == "instance/upcoming-maintenance" and self.upcoming is not None:
            return "application/json", (json.dumps(self.upcoming, indent=2) + "\n").encode()
        attributes = self.attributes.get(client,
                                         {} if any(isinstance(v, dict) for v in self.attributes.values())
                                         else self.attributes)
        texts.update({f"instance/attributes/{key}": text for key, text in attributes.items()})
        if path in texts:
            return "application/text", texts[path].encode()
        if path.strip("/") == "":  # google-guest-agent asks for all at once
            nics = json.loads(self._value("instance/network-interfaces/", client)[1])
            return "application/json", json.dumps({"instance": {"name": name, "networkInterfaces": nics,
                                                                "attributes": {}},
                                                   "project": {"attributes": {},
                                                               "projectId": "lab"}}).encode()
        return None

    def _current(self, path, client):
        value = self._value(path, client)
        return value, hashlib.sha256(value[1]).hexdigest()[:16] if value else None

    def _wait(self, path, client, query):
        """The value, when it has changed or the time is over."""
        end = time.monotonic() + int(query.get("timeout_sec", 3600))
        with self._changed:
            while True:
                value, etag = self._current(path, client)
                left = end - time.monotonic()
                if self.mode == "restless" or etag != query.get("last_etag") or left <= 0:
                    return value, etag
                self._changed.wait(left)

    def answer(self, http_):
        url = urllib.parse.urlsplit(http_.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        client = http_.client_address[0]
        with self._changed:
            self._asked[url.path] += 1
            http_.second = self._asked[url.path] % 2 == 0
        self.asked.append((url.path, query, dict(http_.headers)))
        if http_.headers.get("Metadata-Flavor") != "Google":
            return self._send(http_, 403, "text/html", HTML)
        if not url.path.startswith(ROOT):
            return self._send(http_, 404, "text/html", HTML)
        path = url.path[len(ROOT):]
        if self._bad_day(http_):
            return None
        if path == "instance/service-accounts/default/identity" and self.token:
            return self._send(http_, 200, "text/html", self.token(query["audience"]).encode())
        if query.get("wait_for_change") == "true":
            value, etag = self._wait(path, client, query)
        else:
            value, etag = self._current(path, client)
        if self._bad_day(http_):
            return None
        if value is None:
            return self._send(http_, 404, "text/html", HTML)
        return self._send(http_, 200, *value, etag=None if self.mode == "etagless" else etag)

    def _bad_day(self, http_):
        if self.mode == "slow":
            with self._changed:
                self._changed.wait_for(lambda: self.mode != "slow", 30)
            return False
        if self.mode == "busy" or self.mode == "flaky" and not http_.second:
            self._send(http_, 503, "text/html", HTML)
        elif self.mode == "missing":
            self._send(http_, 404, "text/html", HTML)
        elif self.mode == "html":
            self._send(http_, 200, "text/html; charset=UTF-8", HTML)
        elif self.mode == "page":
            self._send(http_, 200, "application/json", HTML)
        elif self.mode == "flavor":
            self._send(http_, 200, *(self._value("instance/network-interfaces/", http_.client_address[0])),
                       flavor="Other")
        elif self.mode == "garbage":
            self._send(http_, 200, "application/json", b'[{"mac": "42:01", "mtu": "\xff')
        elif self.mode == "huge":
            http_.close_connection = True
            http_.wfile.write(b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Type: "
                              b"application/json\r\n\r\n")
            while True:
                http_.wfile.write(b"[" * 65536)
        else:
            return False
        return True

    @staticmethod
    def _send(http_, status, kind, body, etag=None, flavor="Google"):
        http_.send_response(status)
        http_.send_header("Metadata-Flavor", flavor)
        http_.send_header("Content-Type", kind)
        if etag:
            http_.send_header("ETag", etag)
        http_.send_header("Content-Length", str(len(body)))
        http_.end_headers()
        http_.wfile.write(body)


def main():
    """metadata.py ADDRESS PORT NICS-AS-JSON ({host's address: [{"mac", "ip"}]}) NAMES-AS-JSON ({host's
    address: name})."""
    nics, names = json.loads(sys.argv[3]), json.loads(sys.argv[4])

    class Lab(MetadataServer):
        def _value(self, path, client):
            if path == "instance/name":
                return "application/text", names[client].encode()
            return super()._value(path, client)

    server = Lab((sys.argv[1], int(sys.argv[2])), lambda client: nics[client])
    print("ok", flush=True)
    for line in sys.stdin:
        server.set(**json.loads(line))
        print("ok", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
