"""OTLP requests by hand, independent of the code under test; parse() reads answers."""

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from protobuf import (double,  # noqa: E402,F401  (the path comes first; parse is for who imports this)
                      field,
                      fixed64,
                      parse)


def any_value(v):
    if isinstance(v, bool):
        return field(2, int(v))
    if isinstance(v, str):
        return field(1, v)
    if isinstance(v, int):
        return field(3, v)
    if isinstance(v, float):
        return double(4, v)
    if isinstance(v, bytes):
        return field(7, v)
    if isinstance(v, list):
        return field(5, b"".join(field(1, any_value(x)) for x in v))
    return field(6, attributes(1, v))


def attributes(number, d):
    return b"".join(field(number, field(1, k) + field(2, any_value(v))) for k, v in d.items())


def resource(d):
    return field(1, attributes(1, d))


def point(value, attrs=None, time=None, flags=0):
    body = attributes(7, attrs or {})
    if time:
        body += fixed64(3, int(time * 1e9))
    body += fixed64(6, value) if isinstance(value, int) else double(4, value)
    return body + (field(8, flags) if flags else b"")


def gauge(name, points, unit="1"):
    return field(2, field(1, name) + field(3, unit) + field(5, b"".join(field(1, p) for p in points)))


def sum_metric(name, points, unit="1"):
    body = b"".join(field(1, p) for p in points) + field(2, 2) + field(3, 1)
    return field(2, field(1, name) + field(3, unit) + field(7, body))


def histogram(name, count, total, unit="s", attrs=None, time=None):
    p = fixed64(4, count) + double(5, total) + field(6, struct.pack("<QQ", count,
                                                                    0)) + field(7, struct.pack("<d", 1.0))
    p += attributes(9, attrs or {}) + (fixed64(3, int(time * 1e9)) if time else b"")
    return field(2, field(1, name) + field(3, unit) + field(9, field(1, p) + field(2, 2)))


def summary(name):
    return field(2, field(1, name) + field(11, b""))


def request(res, leaves):
    return field(1, resource(res) + field(2, b"".join(leaves)))


def log(name, body, severity=9, time=None, attrs=None):
    out = field(2, severity) + field(5, any_value(body)) + attributes(6, attrs or {}) + field(12, name)
    return field(2, out + (fixed64(1, int(time * 1e9)) if time else b""))
