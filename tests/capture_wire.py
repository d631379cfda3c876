"""Captures as tpu-stack and tpu-hostd write them (proto/capture.proto), packed by hand out of a readable
form (JSON: docs/stack.md's, and of the host
what CAPTURE of this file says), and how they travel. As a program: capture_wire.py FILE.json…
>FILE.capture."""

import gzip
import json
import sys
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from protobuf import field, parse, varint  # noqa: E402


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


def some(number, value):
    """Not written when it is 0 or empty."""
    return field(number, value) if value else b""


def plus_1(number, c, key):
    return field(number, c[key] + 1) if c.get(key) is not None else b""


KINDS = {"python": 0, "native": 1, "kernel": 2}


def frame(f, strings):
    kind = KINDS[f.get("kind", "python")]
    line = f.get("line" if kind == 0 else "offset", 0)
    return (some(1, kind) + some(2, strings.number(f.get("module" if kind == 1 else "file", "")))
            + some(3, strings.number(f.get("function", ""))) +
            some(4, line) + some(5, f.get("address", f.get("pc", 0))))


def thread(t, strings, stack):
    native = t.get("native")
    return (some(1, t.get("tid", 0)) + some(2, strings.number(t.get("name", "")))
            + some(3, strings.number(t.get("wait", ""))) +
            some(4, strings.number(t.get("syscall", ""))) + some(5, stack)
            + some(6, ord(t.get("state", "S"))) + some(7, int(t.get("gil", False))) +
            some(8, int(t.get("changed", False))) + some(9, int(t.get("python", "interpreter" in t)))
            + some(12, strings.number(t.get("error", ""))) +
            (field(13, some(1, int(native.get("merged", False))) + some(2, int(native.get("cut", False))))
             if native is not None else b""))


def process(p, strings, threads):
    state = p.get("state") or (threads[0].get("state", "S") if threads else "S")
    return (some(1, p.get("pid", 0)) + some(2, strings.number(p.get("command", "")))
            + some(3, strings.number(p.get("error", ""))) + some(4, ord(state)) +
            plus_1(5, p, "rank") + some(6, strings.number(p.get("python", "")))
            + some(7, strings.number(p.get("no_python", ""))) +
            some(8, p.get("other_threads", 0)))


def host(c):
    return (some(1, c.get("slice", "")) + plus_1(2, c, "worker") + some(3, c.get("host", ""))
            + some(4, c.get("address", "")) + some(5, c.get("episode", "")) +
            plus_1(6, c, "round") + some(7, c.get("wanted", 0)) + some(8, c.get("taken", 0))
            + some(9, c.get("clock_error", 0)) + plus_1(10, c, "step") +
            some(11, c.get("ended", 0)) + some(12, c.get("ended_how", ""))
            + b"".join(field(13, a) for a in c.get("addresses", [])) +
            plus_1(14, c, "reached") + some(15, c.get("problem", ""))
            + some(16, int(c.get("silent", False))))


def core(c):
    return b"".join(some(k, c.get(name, "" if k in (6, 7, 8) else 0)) for k, name in
                    enumerate(("core", "chip", "pc", "launch", "run", "fingerprint", "location", "error",
                               "queued"), 1))


def finding(f):
    return some(1, f.get("check", "")) + some(2, f.get("subject", "")) + some(3,
                                                                              f.get("found", "")) + some(
                                                                                      4, int(f.get("verdict") == "FAIL"))


def part(content):
    return field(1, content)


def of_host(c):
    """The parts that an agent puts behind tpu-stack's."""
    return part(field(8, host(c))) + b"".join(part(field(9, core(x)))
                                              for x in c.get("cores", [])) + b"".join(
        part(field(10, finding(f))) for f in c.get("findings", [])
        if f.get("verdict") not in ("OK", "UNKNOWN"))


def wire(c, **about):
    """A whole capture, not packed: one part a process, as tpu-stack has it, then the host's."""
    c = {**c, **about}
    strings, frames, stacks = Table(""), Table(), Table()
    out, written = b"", [0, 0, 0]
    for k, p in enumerate(c.get("processes", []) or [None]):
        threads, process_bytes = [], b""
        for t in p.get("threads", []) if p else []:
            stack = 0
            if "error" not in t or "native" in t:
                stack = stacks.number(tuple(frames.number(frame(f, strings))
                                            for f in t.get("frames", []))) + 1
            threads.append(field(6, thread(t, strings, stack)))
        if p:
            process_bytes = field(5, process(p, strings, p.get("threads", [])))
        new = [table.items[n:] for table, n in zip((strings, frames, stacks), written)]
        written = [len(table.items) for table in (strings, frames, stacks)]
        out += part((field(1, c.get("version", 1)) if k == 0 else b"")
                    + b"".join(field(2, s) for s in new[0]) + b"".join(field(3, f) for f in new[1]) +
                    b"".join(field(4, field(1, b"".join(varint(f) for f in s))) for s in new[2])
                    + process_bytes + b"".join(threads) +
                    some(7, int(c.get("cut", False))))
    return out + of_host(c)


def packed(c, **about):
    """As it lies in a file and goes over the wire."""
    return gzip.compress(wire(c, **about), 1)


def packed_all(captures, **about):
    """Of a readable file: one object, several one behind the other, a list, or {"captures": […]}."""
    out, decoder = [], json.JSONDecoder()
    while captures.strip():
        value, end = decoder.raw_decode(captures.lstrip())
        captures = captures.lstrip()[end:]
        values = value if isinstance(value, list) else value.get("captures", [value])
        out += [packed(v, **about) for v in values]
    return b"".join(out)


CHUNK = 1000  # of a text: the name of one thread


def of_text(text):
    """A capture that shows a text of the test's own, to be told from all others: text_shown() says how."""
    chunks = [text[k:k + CHUNK] for k in range(0, len(text), CHUNK)] or [""]
    return {"processes": [{"pid": 1, "command": chunks[0], "python": "3.11.2",
                           "threads": [{"tid": k, "name": c, "python": True}
                                       for k, c in enumerate(chunks[1:], 1)]}]}


def text_shown(text):
    chunks = [text[k:k + CHUNK] for k in range(0, len(text), CHUNK)] or [""]
    return f"process 1 {chunks[0]} (CPython 3.11.2)\n" + "".join(
        f'thread {k} "{c}" waits\n  (no Python frame)\n' for k, c in enumerate(chunks[1:], 1))


def captures(answer):
    """What an answer (Captures) holds: [(host, capture)], each as {number: [value]} and bytes."""
    return [(parse(m.get(1, [b""])[-1]), m.get(2, [b""])[-1]) for m in map(parse, parse(answer).get(1, []))]


def query(episode, member, run, round_, generation=1, suspicion="stall", **more):
    """What stands behind POST /registry/v1/capture?"""
    return urllib.parse.urlencode({"episode": episode, "run": run, "round": round_, "rounds": 2,
                                   "generation": generation, "suspicion": suspicion,
                                   "taken": int(time.time() * 1e6),
                                   **{k: member[k] for k in ("slice", "worker", "host", "incarnation")},
                                   **more})


def post(collector, member, episode, run, round_, data, **more):
    """data: the wire's bytes, packed here."""
    return collector.post("/registry/v1/capture?" + query(episode, member, run, round_, **more),
                          gzip.compress(data, 1))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stdout.buffer.write(packed_all(Path(name).read_text()))
