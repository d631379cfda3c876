"""What a generator's log (generator.py) and a collector's database say of each other. Nothing of the project is imported.

The rule: every answered event is stored exactly once with its payload; one that was not answered is there once or not at all;
nothing is there that was never fed. Of points the same, but for those that gap records count: what is answered is stored, or
was reported as thinned or dropped.
"""

import hashlib
import json
import sqlite3
from collections import Counter

METRIC = "tpu.test.fed"


def varints(data):
    """A function that reads the next one, and one that says whether there is more."""
    at = 0

    def take(n=None):
        nonlocal at
        if n is not None:
            at += n
            return data[at - n:at]
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    return take, lambda: at < len(data)


def zigzag(v):
    return v >> 1 ^ -(v & 1)


def integers(row):
    """(series, value) of the points of a row of the database that are whole numbers (collector/store/samples.h)."""
    take, more = varints(row)
    series = 0
    while more():
        head = take()
        if head & 3 == 3:  # another time
            take()
            continue
        series += zigzag(head >> 2)
        if head & 3 == 0:
            yield series, zigzag(take())
        elif head & 3 == 1:
            take(8)
        else:
            raise ValueError("condensed points")


class Fed:
    """The generator's log."""

    def __init__(self, path):
        self.events, self.points, self.answered, self.refused = {}, {}, set(), set()
        with open(path) as f:
            for words in map(str.split, f):
                if words[0] == "event":
                    self.events[int(words[1])] = words[2:]
                elif words[0] == "points":
                    self.points[int(words[1])] = range(int(words[3]), int(words[3]) + int(words[4]))
                else:
                    {"answered": self.answered, "refused": self.refused}[words[0]].add(int(words[1]))


class Stored:
    """The collector's database: events [(id, name, payload's SHA-256)], values [value], records [(spool, class, sequence)]."""

    def __init__(self, path):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)
        self.events, self.records, self.damaged = [], [], []
        for name, body, attributes in db.execute("SELECT name, body, attributes FROM events"):
            attributes, body = json.loads(attributes), json.loads(body)
            self.records.append(tuple(attributes.get(f"tpu.spool.{k}") for k in ("id", "class", "seq")))
            if isinstance(body, dict) and "fed" in body:
                sha256 = hashlib.sha256(body["payload"].encode()).hexdigest()
                self.events.append((body["fed"], name, sha256))
                if sha256 != body["sha256"]:
                    self.damaged.append(body["fed"])
        ours = {i for i, in db.execute("SELECT id FROM series WHERE name = ?", (METRIC,))}
        self.values = [v for row, in db.execute("SELECT data FROM samples") for series, v in integers(row) if series in ours]
        db.close()


def few(numbers):
    numbers = sorted(numbers)
    return f"{len(numbers)}: {str(numbers[:8])[1:-1]}{' …' if len(numbers) > 8 else ''}"


def compare(fed, stored):
    """{what is wrong: how many and which}; empty when all is as it must be."""
    events, values = Counter(number for number, _, _ in stored.events), Counter(stored.values)
    answered_values = {v for number in fed.answered & fed.points.keys() for v in fed.points[number]}
    all_values = {v for r in fed.points.values() for v in r}
    wrong = {
        "answered events that are lost": (fed.answered & fed.events.keys()) - events.keys(),
        "events that are there more than once": {n for n, times in events.items() if times > 1},
        "events that nobody fed": events.keys() - fed.events.keys(),
        "events that are not as they were fed": {n for n, *rest in stored.events if n in fed.events and rest != fed.events[n]} | set(stored.damaged),
        "answered points that are lost": answered_values - values.keys(),
        "points that are there more than once": {v for v, times in values.items() if times > 1},
        "points that nobody fed": values.keys() - all_values,
        "records that are there more than once": {str(r) for r, times in Counter(stored.records).items() if times > 1},
    }
    return {what: few(which) for what, which in wrong.items() if which}


def figures(fed, stored):
    """One line of what was counted."""
    events = {number for number, _, _ in stored.events}
    n_points = sum(len(r) for r in fed.points.values())
    answered = sum(len(fed.points[n]) for n in fed.answered & fed.points.keys())
    unanswered = fed.events.keys() - fed.answered
    return (f"events: {len(fed.events)} fed, {len(fed.events) - len(unanswered)} answered, {len(stored.events)} stored "
            f"({len(unanswered & events)} of {len(unanswered)} unanswered ones); "
            f"points: {n_points} fed, {answered} answered, {len(stored.values)} stored; refused: {len(fed.refused)}")
