"""A tpu-launchd of a test: it keeps runs in memory, starts and stops nothing, and tells those who watch,
as proto/local.proto has it."""

import socketserver
import struct
import threading
import time

import capture_wire
from protobuf import message, parse

ERROR, RUN_REQUEST, RUN_REPLY, RUN_LIST_REQUEST, RUN_LIST_REPLY, STOP_REQUEST, STOP_REPLY = (
        1, 20, 21, 22, 23, 24, 25)
CAPTURE_REQUEST, CAPTURE_REPLY = 26, 27
OWNERS_REQUEST, OWNERS_REPLY, SIGNAL_REQUEST, SIGNAL_REPLY, CHECK_REQUEST = 28, 29, 30, 31, 34
EBADMSG, EACCES, ENOENT, ESRCH, ESTALE = 74, 13, 2, 3, 116


def text(m, number):
    return m.get(number, [b""])[-1].decode()


class Runs:
    """runs: name → {number: value} of the message Run. starts, stops, signals: what was asked for.
    refuse: (errno, text, remedy) of the next ones."""

    def __init__(self, path):
        self.path, self.runs, self.starts, self.stops, self.signals, self.checks = (
                str(path), {}, [], [], [], [])
        self.refuse = self.refuse_check = None
        self.image = ""      # which one a run's image is here
        self.silent = False  # it takes questions and says nothing
        # what was captured; stacks(name): what tpu-stack --native --capture would write, in
        # capture_wire.py's form
        self.captures, self.stacks, self.captured_generation = [], None, 0
        self.late = 0        # seconds until it answers a question
        self.stuck = False   # what is stopped goes on
        self.lock = threading.RLock()
        self.watchers = []
        self.server = None

    def start(self):
        runs = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                while True:
                    head = self._exactly(8)
                    if not head:
                        break
                    size, _, kind = struct.unpack("<IHH", head)
                    payload = self._exactly(size) if size else b""
                    if runs.silent:
                        continue
                    time.sleep(runs.late)
                    with runs.lock:
                        if kind == RUN_LIST_REQUEST and parse(payload).get(2,
                                                                           [0])[-1] and self.request not in runs.watchers:
                            runs.watchers.append(self.request)
                        answer = runs.answer(kind, parse(payload))
                        runs.send(self.request, *answer)
                with runs.lock:
                    if self.request in runs.watchers:
                        runs.watchers.remove(self.request)

            def _exactly(self, n):
                data = b""
                while len(data) < n:
                    try:
                        part = self.request.recv(n - len(data))
                    except OSError:
                        return b""
                    if not part:
                        return b""
                    data += part
                return data

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.server = Server(self.path, Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()
        return self

    def stop(self):
        import os
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            os.unlink(self.path)
            with self.lock:
                for w in self.watchers:
                    w.shutdown(2)
                self.watchers = []
        self.server = None

    @staticmethod
    def send(to, kind, payload):
        try:
            to.sendall(struct.pack("<IHH", len(payload), 1, kind) + payload)
        except OSError:
            pass

    def reply(self):
        return RUN_LIST_REPLY, message({1: [message({k: v for k, v in j.items() if v not in ("", 0)})
                                            for j in self.runs.values()]})

    def tell(self):
        with self.lock:
            for w in self.watchers:
                self.send(w, *self.reply())

    def exit(self, name, cause="success", code="exited", status="0", **more):
        with self.lock:
            self.runs[name].update({3: "exited", 4: cause, 5: code, 6: status, 12: time.time_ns() // 1000,
                                    **more})
            self.tell()

    def state(self, name):
        return self.runs.get(name, {}).get(3)

    @staticmethod
    def error(code, what, remedy=""):
        return ERROR, message({1: code, 2: what, 3: remedy})

    def answer(self, kind, m):
        if kind == RUN_LIST_REQUEST:
            return self.reply()
        if kind == OWNERS_REQUEST:
            return OWNERS_REPLY, b""
        if kind in (CHECK_REQUEST, RUN_REQUEST):
            m = {"spec": parse(m.get(1, [b""])[-1]), **m}  # proto/run.proto
        name = text(m.get("spec", m), 1)
        if kind == CHECK_REQUEST:
            self.checks.append(m)
            if self.refuse_check:
                return self.error(*self.refuse_check)
            return RUN_REPLY, message({1: name, **({9: self.image} if self.image else {})})
        if kind == RUN_REQUEST:
            return self._run(name, m)
        if kind == STOP_REQUEST:
            self.stops.append((name, m.get(3, [0])[-1]))
            if name not in self.runs or self.runs[name][3] == "exited":
                return self.error(ENOENT, f"there is no run {name}")
            if not self.stuck:
                self.exit(name, "stopped", "killed", "TERM")
            return STOP_REPLY, message({1: name})
        if kind == CAPTURE_REQUEST:
            self.captures.append((name, m.get(2, [0])[-1]))
            if self.state(name) != "running":
                return self.error(ESRCH, f"run {name} has ended")
            return CAPTURE_REPLY, message({1: name, 3: time.time_ns() // 1000,
                                           6: capture_wire.packed(self.stacks(name)), 7: 1,
                                           8: self.captured_generation})
        if kind == SIGNAL_REQUEST:
            self.signals.append((name, m.get(2, [0])[-1], text(m, 3)))
            return SIGNAL_REPLY, message({1: name, 2: "TERM to process 4711"})
        return self.error(EBADMSG, f"a request of kind {kind} cannot be understood",
                          "are tpuctl and tpu-launchd of one version?")

    def _run(self, name, m):
        generation, spec = m.get(2, [0])[-1], m["spec"]
        known = self.runs.get(name)
        if self.refuse:
            return self.error(*self.refuse)
        already = bool(known and known.get(16) == generation and known.get(17) == text(m, 3))
        if not already:
            self.starts.append((name, generation, m))
            self.runs[name] = {1: name, 2: f"tpu-run-{name}.service", 3: "running", 7: text(spec, 2)
                               or "plain", 8: "glibc", 9: text(spec, 4) or "alice", 10: "train",
                               11: time.time_ns() // 1000, 12: 0, 13: 4711, 14: 1, 16: generation,
                               17: text(m, 3), 18: text(m, 4), 19: text(m, 5)}
        answer = RUN_REPLY, message({1: name, 2: f"tpu-run-{name}.service", 3: "glibc", 5: int(already),
                                     6: self.runs[name][3], 7: generation})
        self.tell()
        return answer
