"""What the runner of crash points wrote down, and the disk it leaves behind when the power goes at one of
the calls."""

import random
import subprocess
from pathlib import Path

SECTOR = 512


def read(log):
    """[("say", text) | (name, path, result, rest…)] of a log of stop_at, in order."""
    out = []
    for line in Path(log).read_text().splitlines():
        if line.startswith("say "):
            out.append(("say", line[4:]))
            continue
        _, name, path, result, *rest = line.split(" ")
        out.append((name, path, None if result == "-" else int(result), *rest))
    return out


class File:
    """One inode: what is on the disk, and what was done since the last sync that returned."""

    def __init__(self):
        self.synced, self.pending = b"", []

    def apply(self, keep, rng):
        """keep(op) for whole operations; rng: writes are kept sector by sector instead."""
        data = bytearray(self.synced)
        for op in self.pending:
            if not keep(op):
                continue
            if op[0] == "size":
                data = data[:op[1]] + bytes(max(0, op[1] - len(data)))
                continue
            at, new = op[1], op[2]
            if len(data) < at + len(new):  # what a write adds to a file is there wholly or not at all
                data += bytes(at + len(new) - len(data))
            for begin in range(at // SECTOR * SECTOR, at + len(new), SECTOR):
                a, b = max(begin, at), min(begin + SECTOR, at + len(new))
                if rng is None or rng.random() < 0.5:
                    data[a:b] = new[a - at:b - at]
        return bytes(data)

    def sync(self):
        self.synced, self.pending = self.apply(lambda op: True, None), []


class Disk:
    """The directory as the kernel knows it, and what a power cut may leave of it."""

    def __init__(self):
        self.now, self.synced, self.pending, self.order = {}, {}, [], 0

    def _do(self, target, op):
        target.append((*op, self.order))
        self.order += 1

    def call(self, name, path, result, *rest):
        if result is None or result < 0:
            return
        if name == "open":
            if path not in self.now:
                self.now[path] = File()
                self._do(self.pending, ("add", path, self.now[path]))
            elif rest[0] == "1":
                self._do(self.now[path].pending, ("size", 0))
        elif name == "write":
            data = bytes.fromhex(rest[1])[:result]
            self._do(self.now[path].pending, ("write", int(rest[0]), data))
        elif name == "allocate":
            if int(rest[0]) > len(self.now[path].apply(lambda op: True, None)):
                self._do(self.now[path].pending, ("size", int(rest[0])))
        elif name == "truncate":
            self._do(self.now[path].pending, ("size", int(rest[0])))
        elif name == "unlink":
            self.now.pop(path)
            self._do(self.pending, ("remove", path))
        elif name == "rename":
            file = self.now.pop(path)
            self.now[rest[0]] = file
            self._do(self.pending, ("move", path, rest[0], file))
        elif name == "sync" and path == ".":
            self.synced, self.pending = dict(self.now), []
        elif name == "sync":
            self.now[path].sync()

    def power_cut(self, how, rng):
        """{name: content}. how: none, all, prefix (in the order of the calls) or any (a write sector by
        sector)."""
        last = rng.randrange(self.order + 1)
        keep = {"none": lambda op: False, "all": lambda op: True, "prefix": lambda op: op[-1] < last,
                "any": lambda op: rng.random() < 0.6}[how]
        names = dict(self.synced)
        for op in self.pending:
            if not keep(op):
                continue
            if op[0] == "add":
                names[op[1]] = op[2]
            elif op[0] == "remove":
                names.pop(op[1], None)
            else:
                names.pop(op[1], None)
                names[op[2]] = op[3]

        return {n: f.apply(keep, rng if how == "any" else None) for n, f in names.items()}


def fill(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def stop_at(binary, folder, log, n, when, *command):
    return subprocess.run([binary, folder, log, str(n), when, *command], stdout=subprocess.DEVNULL,
                          timeout=120).returncode


def chosen(of, n):
    """All of them, or n evenly spread at random."""
    of = list(of)
    return of if n >= len(of) else sorted(random.sample(of, n))
