"""OTLP requests and answers by hand: enough of protobuf for tests, independent of the code under test."""

import struct


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def message(number, body):
    if isinstance(body, str):
        body = body.encode()
    return varint(number << 3 | 2) + varint(len(body)) + body


def number(field, value):
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def fixed64(field, value):
    return varint(field << 3 | 1) + struct.pack("<Q", value & (1 << 64) - 1)


def double(field, value):
    return varint(field << 3 | 1) + struct.pack("<d", value)


def any_value(v):
    if isinstance(v, bool):
        return number(2, int(v))
    if isinstance(v, str):
        return message(1, v)
    if isinstance(v, int):
        return number(3, v)
    if isinstance(v, float):
        return double(4, v)
    if isinstance(v, bytes):
        return message(7, v)
    if isinstance(v, list):
        return message(5, b"".join(message(1, any_value(x)) for x in v))
    return message(6, attributes(1, v))


def attributes(field, d):
    return b"".join(message(field, message(1, k) + message(2, any_value(v))) for k, v in d.items())


def resource(d):
    return message(1, attributes(1, d))


def point(value, attrs=None, time=None, flags=0):
    body = attributes(7, attrs or {})
    if time:
        body += fixed64(3, int(time * 1e9))
    body += fixed64(6, value) if isinstance(value, int) else double(4, value)
    return body + (number(8, flags) if flags else b"")


def gauge(name, points, unit="1"):
    return message(2, message(1, name) + message(3, unit) + message(5, b"".join(message(1, p) for p in points)))


def sum_metric(name, points, unit="1"):
    body = b"".join(message(1, p) for p in points) + number(2, 2) + number(3, 1)
    return message(2, message(1, name) + message(3, unit) + message(7, body))


def histogram(name, count, total, unit="s"):
    p = fixed64(4, count) + double(5, total) + message(6, struct.pack("<QQ", count, 0)) + message(7, struct.pack("<d", 1.0))
    return message(2, message(1, name) + message(3, unit) + message(9, message(1, p) + number(2, 2)))


def summary(name):
    return message(2, message(1, name) + message(11, b""))


def request(res, leaves):
    return message(1, resource(res) + message(2, b"".join(leaves)))


def log(name, body, severity=9, time=None, attrs=None):
    out = number(2, severity) + message(5, any_value(body)) + attributes(6, attrs or {}) + message(12, name)
    return message(2, out + (fixed64(1, int(time * 1e9)) if time else b""))


def parse(data):
    """A message as {field: [values]}; bytes of length-delimited fields stay bytes."""
    out, at = {}, 0

    def read():
        nonlocal at
        n = shift = 0
        while True:
            b = data[at]
            at += 1
            n |= (b & 0x7F) << shift
            shift += 7
            if not b & 0x80:
                return n
    while at < len(data):
        tag = read()
        if tag & 7 == 0:
            v = read()
        elif tag & 7 == 2:
            n = read()
            v = data[at:at + n]
            assert len(v) == n, "cut off"
            at += n
        else:
            raise ValueError(f"wire type {tag & 7}")
        out.setdefault(tag >> 3, []).append(v)
    return out
