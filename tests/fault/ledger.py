"""What a generator's log (generator.py) and a collector's database say of each other. Nothing of the project
is imported.

The rule: what was answered is stored exactly once, as it was fed and under the number that the answer named;
what was not answered
is there once or not at all; nothing is there that was never fed. Where gaps are allowed, what was answered
may instead be one of
the records that a gap record (event tpu.spool.gap) tells of: then those must be as many as are missing.
"""

import hashlib
import json
import sqlite3
from collections import Counter

METRIC, GAP = "tpu.test.fed", "tpu.spool.gap"


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
    """(series, value) of the points of a row of the database that are whole numbers
    (collector/telemetry/store/samples.h)."""
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
            raise ValueError("a row of another version")


class Fed:
    """The generator's log: events {id: (name, SHA-256)}, points {id: values}, answered {id: (class,
    sequence)}, refused {id}."""

    def __init__(self, path):
        self.events, self.points, self.answered, self.refused = {}, {}, {}, set()
        with open(path) as f:
            for words in map(str.split, f):
                number = int(words[1])
                if words[0] == "event":
                    self.events[number] = tuple(words[2:])
                elif words[0] == "points":
                    self.points[number] = range(int(words[3]), int(words[3]) + int(words[4]))
                elif words[0] == "answered":
                    self.answered[number] = words[2], int(words[3])
                else:
                    self.refused.add(number)


class Stored:
    """The collector's database: events [(id, name, payload's SHA-256, (class, sequence))], values [value],
    records
    [(spool, class, sequence)] of all events, gaps {(spool, class, number): body}."""

    def __init__(self, path):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)
        self.events, self.records, self.damaged, self.gaps, self.unclear_gaps = [], [], [], {}, []
        for name, body, attributes in db.execute("SELECT name, body, attributes FROM events"):
            attributes, body = json.loads(attributes), json.loads(body)
            record = tuple(attributes.get(f"tpu.spool.{k}") for k in ("id", "class", "seq"))
            self.records.append(record)
            if name == GAP:
                self._add_gap(body)
            if isinstance(body, dict) and "fed" in body:
                sha256 = hashlib.sha256(body["payload"].encode()).hexdigest()
                self.events.append((body["fed"], name, sha256, record[1:]))
                if sha256 != body["sha256"]:
                    self.damaged.append(body["fed"])
        ours = {i for i, in db.execute("SELECT id FROM series WHERE name = ?", (METRIC,))}
        self.values = [v for row, in db.execute("SELECT data FROM samples") for series,
                       v in integers(row) if series in ours]
        db.close()

    def _add_gap(self, body):
        """One that is told twice is one, and must say the same."""
        key = body["spool_id"], body["class"], body["gap"]
        if self.gaps.setdefault(key, body) != body:
            self.unclear_gaps.append(key)

    def told(self, class_):
        """(ranges of numbers, records, points) of the gaps of a class."""
        gaps = [g for (_, c, _), g in self.gaps.items() if c == class_]
        return ([range(g["from_seq"], g["to_seq"] + 1) for g in gaps], sum(g["records"] for g in gaps),
                sum(g.get("points", 0) for g in gaps))


def few(items):
    items = sorted(items)
    return f"{len(items)}: {str(items[:8])[1:-1]}{' …' if len(items) > 8 else ''}"


def missing(fed, stored):
    """(answered ids of which nothing is stored, of which not all is stored, all ids of which nothing is
    stored)."""
    there = {number for number, *_ in stored.events}
    values = set(stored.values)
    n_there = {number: sum(v in values for v in r) for number, r in fed.points.items()}
    gone = (fed.events.keys() - there) | {number for number, n in n_there.items() if n == 0}
    torn = {number for number, n in n_there.items() if 0 < n < len(fed.points[number])}
    return gone & fed.answered.keys(), torn, gone


def compare_gaps(fed, stored, class_, lost, gone, alone):
    """What is wrong with what gaps of a class tell; lost: answered ids of the class."""
    ranges, records, points = stored.told(class_)
    untold = {n for n in lost if not any(fed.answered[n][1] in r for r in ranges)}
    lost_points = sum(len(fed.points.get(n, ())) for n in lost)
    most = lost_points + sum(len(fed.points.get(n, ())) for n in gone - fed.answered.keys())
    wrong = {}
    if untold:
        wrong[f"answered {class_} that are lost, and no gap tells of them"] = few(untold)
    if len(lost) > records or lost_points > points:
        wrong[f"gaps of {class_} tell of too little"] = (f"{records} records, {points} points; missing: "
                                                         f"{len(lost)}, {lost_points}")
    if alone and points > most:
        wrong[f"gaps of {class_} tell of too much"] = f"{points} points; missing: {most} at most"
    return wrong


def compare(fed, stored, gaps_allowed=(), alone=False):
    """{what is wrong: how many and which}; empty when all is as it must be. alone: the agent had no
    points of its own."""
    events, values = Counter(number for number, *_ in stored.events), Counter(stored.values)
    lost, torn, gone = missing(fed, stored)
    excused = {number for number in lost if fed.answered[number][0] in gaps_allowed}
    wrong = {
        "answered events that are lost": (lost - excused) & fed.events.keys(),
        "answered points that are lost": {v for n in (lost - excused) & fed.points.keys()
                                          for v in fed.points[n]},
        "points of which some are there": torn,
        "events that are there more than once": {n for n, times in events.items() if times > 1},
        "points that are there more than once": {v for v, times in values.items() if times > 1},
        "records that are there more than once": {str(r) for r,
                                                  times in Counter(stored.records).items() if times > 1},
        "events that nobody fed": events.keys() - fed.events.keys(),
        "points that nobody fed": values.keys() - {v for r in fed.points.values() for v in r},
        "events that are not as they were fed": {n for n, *rest, _ in stored.events if n in fed.events
                                                 and tuple(rest) != fed.events[n]}
        | set(stored.damaged),
        "events under another number than was answered": {n for n, *_,
                                                          r in stored.events if fed.answered.get(n, r) != r},
        "gaps that are told in two ways": stored.unclear_gaps,
        "gaps that cannot be": [key for key in stored.gaps if key[1] not in gaps_allowed],
    }
    wrong = {what: few(which) for what, which in wrong.items() if which}
    for class_ in gaps_allowed:
        wrong |= compare_gaps(fed, stored, class_, {n for n in excused if fed.answered[n][0] == class_},
                              gone, alone)
    return wrong


def figures(fed, stored):
    """One line of what was counted."""
    events = {number for number, *_ in stored.events}
    answered = sum(len(fed.points[n]) for n in fed.answered.keys() & fed.points.keys())
    unanswered = fed.events.keys() - fed.answered.keys()
    told = {reason: [sum(g[k] for g in stored.gaps.values() if g["reason"] == reason and k in g)
                     for k in ("records", "points")]
            for reason in sorted({g["reason"] for g in stored.gaps.values()})}
    return (f"events: {len(fed.events)} fed, {len(fed.events) - len(unanswered)} answered, "
            f"{len(stored.events)} stored "
            f"({len(unanswered & events)} of {len(unanswered)} unanswered ones); "
            f"points: {sum(map(len, fed.points.values()))} fed, {answered} answered, {len(stored.values)} "
            f"stored; refused: {len(fed.refused)}"
            + (f"; told in gaps [records, points]: {told}" if told else ""))
