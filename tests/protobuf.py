# SPDX-License-Identifier: Apache-2.0
"""The wire format of protobuf by hand, nothing of ours: so a mistake in our generated code or our .proto
files shows."""
import struct


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, value):
    """A varint of an int, length-delimited of str or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value & (1 << 64) - 1)


def double(number, value):
    return varint(number << 3 | 1) + struct.pack("<d", value)


def message(values):
    """A message out of {number: int | str | bytes | [those]}."""
    return b"".join(field(number, v) for number,
                    value in values.items() for v in (value if isinstance(value, list) else [value]))


def read(data):
    """[(number, wire type, value)] of one message, in its order: varints as int, all else as bytes."""
    out, at = [], 0

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
        kind = key & 7
        if kind == 0:
            out.append((key >> 3, kind, number()))
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            assert kind == 2, f"wire type {kind}"
            size = number()
        assert at + size <= len(data), "torn message"
        out.append((key >> 3, kind, data[at:at + size]))
        at += size
    return out


def parse(data):
    """{number: [value]} of one message."""
    out = {}
    for number, _, value in read(data):
        out.setdefault(number, []).append(value)
    return out
