"""Reads OTLP requests by hand: the field numbers of the standard, nothing of ours."""

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import protobuf  # noqa: E402  (the path comes first)


def every(data, number):
    return [v for n, _, v in protobuf.read(data) if n == number]


def one(data, number, default=b""):
    return (every(data, number) or [default])[-1]


def any_value(data):
    for number, _, v in protobuf.read(data):
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


def histograms(data):
    """[(kind, attributes, (count, sum, bounds, bucket counts), time_ns, start_ns)]"""
    assert one(data, 2) == 2, "histograms are cumulative"
    out = []
    for p in every(data, 1):
        bounds, counts = one(p, 7), one(p, 6)
        bounds, counts = struct.unpack(f"<{len(bounds) // 8}d",
                                       bounds), struct.unpack(f"<{len(counts) // 8}Q", counts)
        count, = struct.unpack("<Q", one(p, 4, bytes(8)))
        assert (len(counts) == len(bounds) + 1 and sum(counts) == count
                and list(bounds) == sorted(set(bounds)))
        out.append(("histogram", key_values(every(p, 9)),
                    (count, struct.unpack("<d", one(p, 5))[0], bounds, counts),
                    struct.unpack("<Q", one(p, 3))[0], struct.unpack("<Q", one(p, 2, bytes(8)))[0]))
    return out


def metrics(body):
    """[(resource, name, unit, kind, attributes, value, time_ns, start_ns)] of an
    ExportMetricsServiceRequest."""
    out = []
    for envelope in every(body, 1):
        for scope in every(envelope, 2):
            for m in every(scope, 2):
                if every(m, 9):
                    out += [(resource(envelope), one(m, 1).decode(), one(m, 3).decode(), *h)
                            for h in histograms(one(m, 9))]
                    continue
                kind, data = ("gauge", one(m, 5)) if every(m, 5) else ("sum", one(m, 7))
                if kind == "sum":
                    assert one(data, 2) == 2 and one(data, 3) == 1, "sums are cumulative and monotonic"
                for p in every(data, 1):
                    value = struct.unpack("<d", one(p, 4))[0] if every(p, 4) else struct.unpack("<q",
                                                                                                one(p, 6))[0]
                    out.append((resource(envelope), one(m, 1).decode(), one(m, 3).decode(), kind,
                                key_values(every(p, 7)), value,
                                struct.unpack("<Q", one(p, 3))[0],
                                struct.unpack("<Q", one(p, 2, bytes(8)))[0]))
    return out


def logs(body):
    """[(resource, name, severity number, body, attributes, time_ns)] of an ExportLogsServiceRequest."""
    out = []
    for envelope in every(body, 1):
        for scope in every(envelope, 2):
            for r in every(scope, 2):
                out.append((resource(envelope), one(r, 12).decode(), one(r, 2, 0), any_value(one(r, 5)),
                            key_values(every(r, 6)),
                            struct.unpack("<Q", one(r, 1))[0]))
    return out
