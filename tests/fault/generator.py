#!/usr/bin/python3
"""Feeds tpu-hostd-fed (feed.c) with events and metrics from outside, and writes down what was fed and what
was answered.

The log's lines, in the order of things: "event ID NAME SHA256" or "points ID SERIES FIRST N" before a frame
is sent,
"answered ID CLASS SEQ" when its answer came, "refused ID WHY". It is written by one write(2) a line, so that
it survives whatever
happens to this program. Goes on until SIGTERM; then waits a little for answers, and ends. Nothing of the
project is imported.
"""

import argparse
import base64
import hashlib
import math
import os
import random
import signal
import socket
import struct
import sys
import threading
import time

EVENT, POINTS, ANSWER = 901, 902, 903
EVENTS = ("tpu.check.changed", "tpu.stack.captured", "tpu.kernel.fault", "tpu.api.acted")
SMALLEST = 50  # bytes of a payload
TOGETHER = 4  # frames that a connection sends before it waits for their answers
PATIENCE = 120  # seconds that an answer may take


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def message(*fields):
    """A protobuf message; fields in the order of their numbers, from 1."""
    out = b""
    for i, v in enumerate(fields, 1):
        if isinstance(v, int):
            out += varint(i << 3) + varint(v)
        else:
            out += varint(i << 3 | 2) + varint(len(v)) + v
    return out


def parse(data):
    """{number: value} of a message of varints and bytes."""
    out, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        out[key >> 3] = value
    return out


def give_up(why):
    """From any thread."""
    print(f"generator: {why}", file=sys.stderr, flush=True)
    os._exit(1)


class Log:
    """Numbers of frames and points never come twice, also when a log is continued."""

    def __init__(self, path):
        self.next_id = self.next_point = 1
        if os.path.exists(path):
            with open(path) as f:
                for words in map(str.split, f):
                    if words[0] in ("event", "points"):
                        self.next_id = max(self.next_id, int(words[1]) + 1)
                    if words[0] == "points":
                        self.next_point = max(self.next_point, int(words[3]) + int(words[4]))
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.lock = threading.Lock()

    def _write(self, *words):
        os.write(self.fd, (" ".join(map(str, words)) + "\n").encode())

    def event(self, name, sha256):
        with self.lock:
            self.next_id += 1
            self._write("event", self.next_id - 1, name, sha256)
            return self.next_id - 1

    def points(self, series, n):
        with self.lock:
            self.next_id += 1
            self.next_point += n
            self._write("points", self.next_id - 1, series, self.next_point - n, n)
            return self.next_id - 1, self.next_point - n

    def answered(self, number, error, *record):
        with self.lock:
            self._write(*(("refused", number, error.replace(" ", "_")) if error
                          else ("answered", number, *record)))


class Connection(threading.Thread):
    """Feeds events, or points: those are answered up to a second later, and would keep the others
    waiting."""

    def __init__(self, options, log, number, over):
        super().__init__(daemon=True)
        self.options, self.log, self.over = options, log, over
        self.name = f"c{number}"
        self.feeds_points = number >= options.events
        self.random = random.Random(options.seed * 1000 + number)
        self.socket = None

    def frame(self):
        """(id, frame); it is in the log already."""
        if self.feeds_points:
            n = self.random.randint(1, self.options.most)
            number, first = self.log.points(self.name, n)
            kind, body = POINTS, message(number, self.name.encode(), first, n)
        else:
            size = int(math.exp(self.random.uniform(math.log(SMALLEST), math.log(self.options.largest))))
            payload = base64.b64encode(os.urandom(size * 3 // 4 + 1))
            name = self.random.choice(EVENTS)
            sha256 = hashlib.sha256(payload).hexdigest()
            number = self.log.event(name, sha256)
            kind, body = EVENT, message(number, name.encode(), sha256.encode(), payload)
        return number, struct.pack("<IHH", len(body), 1, kind) + body

    def exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.socket.recv(n - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return data

    def take_answer(self):
        size, version, kind = struct.unpack("<IHH", self.exactly(8))
        if (version, kind) != (1, ANSWER):
            give_up(f"a frame of kind {kind}, version {version}")
        answer = parse(self.exactly(size))
        self.log.answered(answer[1], answer.get(2, b"").decode(), answer.get(3, b"").decode(),
                          answer.get(4, 0))
        return answer[1]

    def talk(self):
        """Until the agent is gone, or we stop."""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        with self.socket:
            self.socket.connect(self.options.socket)
            while not self.over.is_set():
                waiting = set()
                for _ in range(self.random.randint(1, TOGETHER)):
                    number, frame = self.frame()
                    waiting.add(number)
                    self.socket.sendall(frame)
                sent = len(waiting)
                while waiting:
                    waiting.remove(self.take_answer())
                self.over.wait(self.random.uniform(0,
                                                   2) * sent * (self.options.events
                                                                + self.options.points) / self.options.rate)

    def run(self):
        while not self.over.is_set():
            try:
                self.talk()
            except TimeoutError:
                give_up(f"no answer within {PATIENCE} s")
            except OSError:  # killed, or not up again
                time.sleep(0.005)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("socket")
    p.add_argument("log")
    p.add_argument("--events", type=int, default=4, help="connections that feed events")
    p.add_argument("--points", type=int, default=2, help="connections that feed points")
    p.add_argument("--rate", type=float, default=60, help="frames a second of all connections, at most")
    p.add_argument("--largest", type=int, default=200_000,
                   help="bytes of an event's payload; all sizes down to 50 come, small ones often")
    p.add_argument("--most", type=int, default=200, help="points of a frame, at most (1000)")
    p.add_argument("--seed", type=int, default=1)
    options = p.parse_args()
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *a: over.set())
    log = Log(options.log)
    connections = [Connection(options, log, i, over) for i in range(options.events + options.points)]
    for c in connections:
        c.start()
    while any(c.is_alive() for c in connections):
        time.sleep(0.05)


if __name__ == "__main__":
    main()
