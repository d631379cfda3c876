#!/usr/bin/python3
"""Asks tpu-launchd in the words of proto/local.proto, without any code of ours: copied into a host and run there.

Prints one JSON object: {"kind": N, "fields": {number: [value, …]}}. Usage: launch_frames.py VERB [NUMBER=VALUE…] [-- ARGV…]
NUMBER is N, or N.M for field M of the message in field N: those of one N make one message.
"""

import gzip
import json
import socket
import struct
import sys

SOCKET = "/run/tpu-launchd/launchd.sock"
VERBS = {"run": 20, "jobs": 22, "stop": 24, "capture": 26, "signal": 30, "hint": 32}
NUMBERS = {("capture", "2"), ("stop", "2"), ("stop", "3"), ("signal", "2"), ("run", "8"), ("run", "13"), ("run", "14"), ("run", "17"), ("run", "12.1"),
           ("run", "12.2"), ("run", "12.3"), ("run", "12.7"), ("run", "12.8")}     # fields that are no strings
ARGV = 5


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
        value = int(value) if (verb, n) in NUMBERS else value
        if "." in n:
            outer, inner = map(int, n.split("."))
            nested[outer] = nested.get(outer, b"") + field(inner, value)
        else:
            payload += field(int(n), value)
    for n, inner in nested.items():
        payload += field(n, inner)
    for word in argv:
        payload += field(ARGV, word)
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(100)
        s.connect(SOCKET)
        s.sendall(struct.pack("<IHH", len(payload), 1, VERBS[verb]) + payload)
        size, _, kind = struct.unpack("<IHH", receive(s, 8))
        fields = parse(receive(s, size))
    if verb == "jobs" and kind != 1:
        print(json.dumps({"kind": kind, "jobs": [readable(parse(job)) for job in fields.get(1, [])]}))
    else:
        print(json.dumps({"kind": kind, "fields": readable(fields)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
