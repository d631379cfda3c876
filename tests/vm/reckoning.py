"""What was promised while the machine's power was cut again and again, and what was found in the database
afterwards."""

import json
import re
import sys
import threading
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from capture_wire import text_shown  # noqa: E402


def capture_text(n):
    return f"capture {n} " + "x" * (n * 7919 % 6000)


def capture_number(shown):
    return int(re.match(r"process 1 capture (\d+) ", shown)[1])


def fed_text(n):
    return f"fed {n} " + "y" * (n * 104729 % 3000)


class Promises:
    """What those outside were answered. Written by several threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.asked = self.fed_sent = self.ordered = 0
        self.captures = {}  # text: (spool, sequence number)
        self.fed = set()
        self.order = 0  # the last one answered
        self.broken = []  # seen while running

    def number(self, kind):
        with self.lock:
            setattr(self, kind, getattr(self, kind) + 1)
            return getattr(self, kind)

    def count(self):
        with self.lock:
            return len(self.captures) + len(self.fed) + self.order


class Outcome:
    """What a run found: promises against the rows (name, body, attributes) of the database's events."""

    def __init__(self, promises, rows):
        self.promises, self.rows, self.wrong = promises, rows, []
        self._captured, self._fed, numbers = Counter(), Counter(), Counter()
        for name, body, attributes in rows:
            attributes = json.loads(attributes)
            number = attributes.get("tpu.spool.id"), attributes.get("tpu.spool.seq")
            if number[0]:
                numbers[number] += 1
            if name == "tpu.stack.captured":
                self._take_capture(json.loads(body)["text"], number)
            elif name == "tpu.test.fed":
                self._take_fed(json.loads(body))
        self.lost_captures = sorted(capture_number(t) for t in promises.captures if not self._captured[t])
        self.lost_fed = sorted(n for n in promises.fed if not self._fed[n])
        self.twice = [k for c in (self._captured, self._fed, numbers) for k, n in c.items() if n > 1]
        self.spools = {spool for spool, _ in numbers}
        self.answered = len(promises.captures) + len(promises.fed)
        self.found_answered = self.answered - len(self.lost_captures) - len(self.lost_fed)
        self.found = len(self._captured) + len(self._fed)

    def _take_capture(self, text, number):
        self._captured[text] += 1
        n = capture_number(text)
        if text != text_shown(capture_text(n)) or n > self.promises.asked:
            self.wrong.append(text[:40])
        if self.promises.captures.get(text, number) != number:
            self.wrong.append(f"{text[:40]}: under another number than was answered")

    def _take_fed(self, text):
        n = int(text.split()[1])
        self._fed[n] += 1
        if text != fed_text(n) or n > self.promises.fed_sent:
            self.wrong.append(text[:40])
