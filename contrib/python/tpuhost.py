# SPDX-License-Identifier: Apache-2.0
"""Asks agents and collectors of tpu-hostd. One file, the standard library alone, Python 3.9 and later.

    import tpuhost
    agent = tpuhost.Agent()                                  # of this host, over its socket
    agent = tpuhost.Agent.of("h0", "ca.crt", "me.crt", "me.key")   # of another, by mutual TLS
    print(agent.status()["state"])
    collector = tpuhost.Collector("https://collector:9471", "ca.crt", "me.crt", "me.key")
    for host in collector.hosts(state="unfit"):
        print(host["name"], host["reasons"])
    print(collector.stall("my-slice")["sentence"])

Answers are those of api.md, as dictionaries. What is refused is Refused, with the remedy; who does not
answer is OSError or http.client.HTTPException.
"""

import http.client
import json
import socket
import ssl
from typing import Any, Callable, Dict, Iterator, List, Optional, TypedDict
from urllib.parse import quote, urlencode, urlsplit

Answer = Dict[str, Any]
SOCKET = "/run/tpu-hostd/api.sock"


class Refused(Exception):
    """Any answer but 2xx: its status, the error and what to do about it."""

    def __init__(self, status: int, error: str, remedy: str = "") -> None:
        super().__init__(f"{status}: {error}" + (f"; to do: {remedy}" if remedy else ""))
        self.status, self.error, self.remedy = status, error, remedy


class Suspect(TypedDict):
    host: str
    slice: str
    worker: Optional[int]
    kind: str
    sentence: str
    details: List[str]


class Stall(TypedDict):
    """What holds up the run on a slice; the keys are always there."""

    version: int
    slice: str
    state: str  # none, asking, stalled, recovered, answered
    run: Optional[str]
    generation: Optional[int]
    episode: Optional[str]
    since: Optional[str]
    recovered: Optional[str]
    outcome: Optional[str]
    sentence: Optional[str]
    first_word: Optional[str]
    asked: Optional[int]
    suspects: List[Suspect]
    next: List[str]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float = 60) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def _connect(url: str, context: Optional[ssl.SSLContext], timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no http:// or https:// URL")
    if parts.scheme == "https":
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout, context=context)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)


def _context(ca: Optional[str], certificate: Optional[str], key: Optional[str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


class _Caller:
    """One call, one connection."""

    def __init__(self, connect: Callable[[str], http.client.HTTPConnection], url: str) -> None:
        self._connect, self._url = connect, url

    def call(self, method: str, path: str, body: Optional[Answer] = None, **arguments: Any) -> Any:
        """Any call of api.md; arguments that are None are left out. JSON is parsed, all else is text."""
        query = urlencode({k: v for k, v in arguments.items() if v is not None})
        headers = {"Sec-Tpu-Caller": "tpuhost.py"}  # no web page can set it
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = self._url
        for _ in range(3):  # a collector that does not lead names the one that does
            connection = self._connect(url)
            try:
                connection.request(method, path + ("?" + query if query else ""),
                                   None if body is None else json.dumps(body), headers)
                reply = connection.getresponse()
                data = reply.read()
            finally:
                connection.close()
            if reply.status != 307:
                break
            url = reply.headers["Location"]
        if (reply.headers["Content-Type"] or "").startswith("application/json"):
            answer = json.loads(data) if data else {}
        else:
            answer = data.decode(errors="replace")
        if 200 <= reply.status < 300:
            return answer
        said = answer if isinstance(answer, dict) else {}
        raise Refused(reply.status, said.get("error", reply.reason), said.get("remedy", ""))

    def get(self, path: str, **arguments: Any) -> Any:
        return self.call("GET", path, **arguments)

    def metrics(self) -> str:
        return self.get("/metrics")

    def _follow(self, path: str, wait: int, since: Optional[int], **arguments: Any) -> Iterator[Answer]:
        """Each event from now on, or behind since, without an end."""
        if since is None:
            since = self.get(path, **arguments)["next"]
        while True:
            answer = self.get(path, since=since, wait=wait, **arguments)
            since = answer["next"]
            yield from answer["events"]


class Agent(_Caller):
    """tpu-hostd of one host."""

    def __init__(self, path: str = SOCKET, timeout: float = 60) -> None:
        super().__init__(lambda url: UnixConnection(path, timeout), "")

    @classmethod
    def of(cls, host: str, ca: str, certificate: str, key: Optional[str] = None, port: int = 9470,
           timeout: float = 60) -> "Agent":
        agent, context = cls(), _context(ca, certificate, key)
        name = f"[{host}]" if ":" in host else host
        agent._connect, agent._url = lambda url: _connect(url, context, timeout), f"https://{name}:{port}"
        return agent

    def status(self) -> Answer:
        return self.get("/v1/status")

    def checks(self) -> List[Answer]:
        return self.get("/v1/checks")["checks"]

    def runs(self) -> List[Answer]:
        return self.get("/v1/runs")["runs"]

    def chips(self) -> Answer:
        return self.get("/v1/chips")

    def events(self, since: Optional[int] = None) -> List[Answer]:
        return self.get("/v1/events", since=since)["events"]

    def follow(self, since: Optional[int] = None) -> Iterator[Answer]:
        return self._follow("/v1/events", 30, since)

    def cordon(self, reason: str, until: Optional[str] = None) -> Answer:
        return self.call("PUT", "/v1/cordon", reason=reason, until=until)

    def uncordon(self) -> None:
        self.call("DELETE", "/v1/cordon")


class Collector(_Caller):
    """tpu-collectord: the fleet."""

    def __init__(self, url: str = "http://127.0.0.1:9471", ca: Optional[str] = None,
                 certificate: Optional[str] = None, key: Optional[str] = None, timeout: float = 60) -> None:
        context = _context(ca, certificate, key) if url.startswith("https://") else None
        super().__init__(lambda u: _connect(u, context, timeout), url)

    def hosts(self, slice: Optional[str] = None, state: Optional[str] = None) -> Iterator[Answer]:
        """All of them, however many answers that takes."""
        offset: Optional[int] = None
        while True:
            answer = self.get("/api/v1/hosts", slice=slice, state=state, offset=offset)
            yield from answer["hosts"]
            offset = answer["next"]
            if offset is None:
                return

    def host(self, name: str) -> Answer:
        return self.get("/api/v1/hosts/" + quote(name, ""))

    def slices(self) -> List[Answer]:
        return self.get("/api/v1/slices")["slices"]

    def runs(self) -> List[Answer]:
        return self.get("/api/v1/runs")["runs"]

    def run(self, name: str) -> Answer:
        return self.get("/api/v1/runs/" + quote(name, ""))

    def start(self, intent: Answer) -> Answer:
        return self.call("POST", "/api/v1/runs", intent)

    def stop(self, name: str) -> Answer:
        return self.call("DELETE", "/api/v1/runs/" + quote(name, ""))

    def why(self, run: str) -> Answer:
        """Why it ended."""
        return self.get(f"/api/v1/runs/{quote(run, '')}/why")

    def stall(self, slice: str, episode: Optional[str] = None) -> Stall:
        """What holds up the run on a slice, in short; diagnosis() is the whole."""
        path = f"/api/v1/slices/{quote(slice, '')}/diagnosis"
        return self.get(path, episode=episode, **{"for": "agent"})

    def diagnosis(self, slice: str, episode: Optional[str] = None) -> Answer:
        return self.get(f"/api/v1/slices/{quote(slice, '')}/diagnosis", episode=episode)

    def events(self, **filters: Any) -> List[Answer]:
        return self.get("/api/v1/events", **filters)["events"]

    def follow(self, since: Optional[int] = None, **filters: Any) -> Iterator[Answer]:
        return self._follow("/api/v1/events", 30, since, **filters)

    def series(self, host: str, name: str, **times: Any) -> List[Answer]:
        """times: until; from is a word of Python: series(h, n, **{"from": 1700000000})."""
        return self.get("/api/v1/series", host=host, name=name, **times)["series"]

    def cordon(self, host: str, reason: str, until: Optional[str] = None) -> Answer:
        return self.call("PUT", f"/api/v1/hosts/{quote(host, '')}/cordon", reason=reason, until=until)

    def uncordon(self, host: str) -> None:
        self.call("DELETE", f"/api/v1/hosts/{quote(host, '')}/cordon")
