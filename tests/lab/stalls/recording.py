"""A case as a file: what is true of it, and all captures that were made of it, so that a judge can be tried
without hosts.

The file is xz of a line of JSON and, behind it, the captures one after the other, not packed
(proto/capture.proto).
"""

import gzip
import json
import lzma
from pathlib import Path

MAX = 60_000  # bytes of a file


def pack(truth, captures):
    """truth: of chaos.reveal(), with the training's name. captures: as tpu-stack and agents write them."""
    head = json.dumps(truth, sort_keys=True).encode() + b"\n"
    return lzma.compress(head + gzip.decompress(captures), preset=9 | lzma.PRESET_EXTREME)


def unpack(data):
    """(truth, captures as tpuctl diagnose --from takes them)"""
    head, _, captures = lzma.decompress(data).partition(b"\n")
    return json.loads(head), gzip.compress(captures, 1, mtime=0)


def write(folder, truth, captures):
    """Returns how large the file is."""
    data = pack(truth, captures)
    Path(folder, f"{truth['training']}-{truth['cause']}-{truth['salt']}.xz").write_bytes(data)
    return len(data)


def read_all(folder):
    """[(name, truth, captures)]"""
    return [(path.stem, *unpack(path.read_bytes())) for path in sorted(Path(folder).glob("*.xz"))]
