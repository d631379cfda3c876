"""Captures as hosts send them (proto/capture.proto), packed by hand out of docs/diagnose.md's JSON, and how they travel."""

import gzip
import sys
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from protobuf import field, varint  # noqa: E402


class Table:
    """Each thing once, by number."""

    def __init__(self, *first):
        self.items, self.index = [], {}
        for f in first:
            self.number(f)

    def number(self, item):
        if item not in self.index:
            self.index[item] = len(self.items)
            self.items.append(item)
        return self.index[item]


def packed(number, values):
    return field(number, b"".join(varint(v) for v in values)) if values else b""


KINDS = {"python": 0, "native": 1, "kernel": 2}


def wire(c, **about):
    c = {**c, **about}
    strings, frames, stacks = Table(""), Table(), Table()
    processes, threads = [], []
    for p in c.get("processes", []):
        for t in p.get("threads", []):
            stack = []
            for f in reversed(t.get("frames", [])):
                kind = KINDS[f.get("kind", "python")]
                stack.append(frames.number((kind, strings.number(f.get("module" if kind == 1 else "file", "")), strings.number(f.get("function", "")),
                                            f.get("line", 0))))
            flags = ord(t.get("state", "S")) | (0x100 if t.get("gil") else 0) | (0x200 if t.get("changed") else 0)
            threads.append((stacks.number(tuple(stack)) + 1, strings.number(t.get("name", "")), strings.number(t.get("wait", "")),
                            strings.number(t.get("syscall", "")), t.get("tid", 0), flags))
        processes.append(field(1, p.get("pid", 0)) + (field(2, p["rank"] + 1) if "rank" in p else b"") + field(3, strings.number(p.get("command", ""))) +
                         field(4, strings.number(p.get("error", ""))) + field(5, len(p.get("threads", []))) +
                         field(6, ord(p.get("state", p.get("threads", [{}])[0].get("state", "S") if p.get("threads") else "S"))))
    out = field(1, 1) + field(2, c.get("slice", "")) + (field(3, c["worker"] + 1) if "worker" in c else b"") + field(4, c.get("host", ""))
    out += field(5, c.get("address", "")) + field(6, c.get("episode", "")) + field(7, c.get("round", 0))
    for number, key in ((8, "wanted"), (9, "taken"), (10, "clock_error"), (12, "ended")):
        out += field(number, c.get(key, 0))
    if "step" in c:
        out += field(11, c["step"] + 1)
    out += field(13, strings.number(c.get("ended_how", "")))
    out += b"".join(field(20, s) for s in strings.items)
    for k in range(4):
        out += packed(21 + k, [f[k] for f in frames.items])
    out += packed(25, [len(s) for s in stacks.items]) + packed(26, [f for s in stacks.items for f in s])
    out += b"".join(field(30, p) for p in processes)
    for k in range(6):
        out += packed(31 + k, [t[k] for t in threads])
    return out


def query(episode, member, run, round_, generation=1, suspicion="stall", **more):
    """What stands behind POST /registry/v1/capture?"""
    return urllib.parse.urlencode({"episode": episode, "run": run, "round": round_, "rounds": 2, "generation": generation, "suspicion": suspicion,
                                   "taken": int(time.time() * 1e6), **{k: member[k] for k in ("slice", "worker", "host", "incarnation")}, **more})


def post(collector, member, episode, run, round_, data, **more):
    """data: the wire's bytes, packed here."""
    return collector.post("/registry/v1/capture?" + query(episode, member, run, round_, **more), gzip.compress(data, 1))
