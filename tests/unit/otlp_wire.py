#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the requests that test-otlp makes by a decoder of its own: field numbers and wire types as in the
OpenTelemetry
protocol 1.x (metrics.proto, logs.proto, common.proto), written down here once more and independent of
proto/otlp.proto."""
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import protobuf  # noqa: E402  (the path comes first)


def fields(data):
    """{number: [(wire type, value)]}"""
    out = {}
    for number, kind, value in protobuf.read(data):
        out.setdefault(number, []).append((kind, value))
    return out


def one(message, number, kind):
    (found, value), = message[number]
    assert found == kind, (number, found, kind)
    return value


def text(message, number):
    return one(message, number, 2).decode("utf-8", "strict")


def fixed64(message, number):
    return struct.unpack("<Q", one(message, number, 1))[0]


def any_value(data):
    message = fields(data)
    (number, _), = message.items()
    if number == 1:
        return text(message, 1)
    if number == 3:
        return one(message, 3, 0)
    if number == 6:
        return key_values(fields(one(message, 6, 2)), 1)
    raise AssertionError(f"AnyValue field {number}")


def key_values(message, number):
    pairs = [fields(value) for kind, value in message.get(number, [])]
    return {text(p, 1): any_value(one(p, 2, 2)) for p in pairs}


T0 = 1795237200 * 10**9


def envelope(data):
    """Resource attributes and the fields of the one scope; the same numbers for metrics and logs."""
    outer = fields(one(fields(data), 1, 2))
    scope = fields(one(outer, 2, 2))
    assert key_values(fields(one(outer, 1, 2)), 1) == {"host.name": "h0", "tpu.worker": 3}
    name = fields(one(scope, 1, 2))
    assert (text(name, 1), text(name, 2)) == ("tpu-hostd", "0.1")
    return scope


def check_metrics(data):
    scope = envelope(data)
    io, load = [fields(value) for kind, value in scope[2]]
    assert (text(io, 1), text(io, 2), text(io, 3)) == ("system.network.io", "bytes", "By")
    total = fields(one(io, 7, 2))
    assert one(total, 2, 0) == 2 and one(total, 3, 0) == 1  # cumulative, monotonic
    first, second = [fields(value) for kind, value in total[1]]
    assert key_values(first, 7) == {"network.interface.name": "eth0", "queue": 7}
    assert key_values(second, 7) == {"network.interface.name": "eth1"}
    assert struct.unpack("<q", one(first, 6, 1))[0] == 123456789012
    assert struct.unpack("<q", one(second, 6, 1))[0] == -1
    assert (fixed64(first, 2), fixed64(first, 3)) == (T0, T0 + 1000)
    assert text(load, 1) == "tpu.load"
    point = fields(one(fields(one(load, 5, 2)), 1, 2))
    assert struct.unpack("<d", one(point, 4, 1))[0] == -0.25
    assert fixed64(point, 3) == T0 + 2000 and 2 not in point


def check_event(data):
    record = fields(one(envelope(data), 2, 2))
    assert fixed64(record, 1) == fixed64(record, 11) == T0
    assert one(record, 2, 0) == 13 and text(record, 3) == "WARN"
    assert any_value(one(record, 5, 2)) == {"found": "mtu 1460", "wanted": 8896}
    assert key_values(record, 6) == {"tpu.spool.seq": 42}
    assert text(record, 12) == "tpu.nic.mtu_drift"


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1]], check=True, env={**os.environ, "OTLP_DUMP": folder})
        for name, check in (("metrics", check_metrics), ("event", check_event)):
            with open(f"{folder}/{name}", "rb") as f:
                check(f.read())
            print(f"{name}: as the protocol says")


main()
