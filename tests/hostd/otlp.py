"""Reads OTLP requests by hand: the wire format of protobuf and the field numbers of the standard, nothing of ours."""

import struct


def fields(data):
    """[(number, value)] of one message: varints as int, fixed as bytes, length-delimited as bytes."""
    out, at = [], 0

    def varint():
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
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            out.append((number, varint()))
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            assert kind == 2, f"wire type {kind}"
            size = varint()
        assert at + size <= len(data), "torn message"
        out.append((number, data[at:at + size]))
        at += size
    return out


def every(data, number):
    return [v for n, v in fields(data) if n == number]


def one(data, number, default=b""):
    return (every(data, number) or [default])[-1]


def any_value(data):
    for number, v in fields(data):
        if number == 1:
            return v.decode()
        if number == 2:
            return bool(v)
        if number == 3:
            return v - (1 << 64) if v >> 63 else v
        if number == 4:
            return struct.unpack("<d", v)[0]
        if number == 6:
            return key_values(every(v, 1))
    return None


def key_values(list_of_pairs):
    return {one(p, 1).decode(): any_value(one(p, 2)) for p in list_of_pairs}


def resource(envelope):
    return key_values(every(one(envelope, 1), 1))


def metrics(body):
    """[(resource, name, unit, kind, attributes, value, time_ns, start_ns)] of an ExportMetricsServiceRequest."""
    out = []
    for envelope in every(body, 1):
        for scope in every(envelope, 2):
            for m in every(scope, 2):
                kind, data = ("gauge", one(m, 5)) if every(m, 5) else ("sum", one(m, 7))
                if kind == "sum":
                    assert one(data, 2) == 2 and one(data, 3) == 1, "sums are cumulative and monotonic"
                for p in every(data, 1):
                    value = struct.unpack("<d", one(p, 4))[0] if every(p, 4) else struct.unpack("<q", one(p, 6))[0]
                    out.append((resource(envelope), one(m, 1).decode(), one(m, 3).decode(), kind, key_values(every(p, 7)), value,
                                struct.unpack("<Q", one(p, 3))[0], struct.unpack("<Q", one(p, 2, bytes(8)))[0]))
    return out


def logs(body):
    """[(resource, name, severity number, body, attributes, time_ns)] of an ExportLogsServiceRequest."""
    out = []
    for envelope in every(body, 1):
        for scope in every(envelope, 2):
            for r in every(scope, 2):
                out.append((resource(envelope), one(r, 12).decode(), one(r, 2, 0), any_value(one(r, 5)), key_values(every(r, 6)),
                            struct.unpack("<Q", one(r, 1))[0]))
    return out
