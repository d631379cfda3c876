#!/usr/bin/python3
"""Asks tpu-launchd in the words of proto/local.proto, without any code of ours: copied into a host and run
there.

Prints one JSON object: {"kind": N, "fields": {number: [value, …]}}. Usage: launch_frames.py VERB
[NUMBER=VALUE…] [-- ARGV…]
NUMBER is N, or N.M for field M of the message in field N: those of one N make one message. For the verb
"run" also a key of
proto/run.proto, or one of those beside it.
"""

import gzip
import json
import socket
import struct
import sys

SOCKET = "/run/tpu-launchd/launchd.sock"
VERBS = {"run": 20, "runs": 22, "stop": 24, "capture": 26, "signal": 30}
RUN = {"name": "1.1", "framework": "1.2", "malloc": "1.3", "user": "1.4", "env": "1.6", "directory": "1.7",
       "memlock": "1.8", "nofile": "1.9", "memory": "1.10",
       "memory_total": "1.11", "memory_high": "1.12", "cpus": "1.13", "numa": "1.14", "core": "1.15",
       "grace": "1.16", "restarts": "1.17", "preempt": "1.18",
       "share_devices": "1.19", "devices": "1.20", "generation": "2", "intent": "3", "slice": "4",
       "worker": "5"}
NUMBERS = {("capture", "2"), ("stop", "3"), ("signal", "2")} | {("run", RUN[k]) for k in (
    # fields that are no strings
    "memlock", "nofile", "memory", "memory_total", "memory_high", "grace", "restarts", "share_devices",
    "generation")}
ARGV = 5      # of the message in field 1


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3 | 2) + varint(len(value.encode())) + value.encode()


def parse(data):
    """Returns {number: [int or bytes, …]} of one message."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            at, value = at + value, data[at:at + value]
        fields.setdefault(key >> 3, []).append(value)
    return fields


def text(value):
    return (gzip.decompress(value) if value.startswith(b"\x1f\x8b") else value).decode("utf-8", "replace")


def readable(fields):
    return {n: [text(v) if isinstance(v, bytes) else v for v in values] for n, values in fields.items()}


def receive(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise SystemExit("tpu-launchd closed the connection")
        data += more
    return data


def main(verb, *words):
    words = list(words)
    argv = words[words.index("--") + 1:] if "--" in words else []
    payload = b""
    nested = {}
    for word in words[:words.index("--") if "--" in words else None]:
        n, value = word.split("=", 1)
        n = RUN.get(n, n) if verb == "run" else n
        value = int(value) if (verb, n) in NUMBERS else value
        if "." in n:
            outer, inner = map(int, n.split("."))
            nested[outer] = nested.get(outer, b"") + field(inner, value)
        else:
            payload += field(int(n), value)
    for word in argv:
        nested[1] = nested.get(1, b"") + field(ARGV, word)
    for n, inner in nested.items():
        payload += field(n, inner)
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(100)
        s.connect(SOCKET)
        s.sendall(struct.pack("<IHH", len(payload), 1, VERBS[verb]) + payload)
        size, _, kind = struct.unpack("<IHH", receive(s, 8))
        fields = parse(receive(s, size))
    if verb == "runs" and kind != 1:
        print(json.dumps({"kind": kind, "runs": [readable(parse(run)) for run in fields.get(1, [])]}))
    else:
        print(json.dumps({"kind": kind, "fields": readable(fields)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
