"""The table of docs/metrics.md against what was sent."""

import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `([^`]+)` \| (counter|gauge) \| (?:`([^`]*)` )?\| ([^|]*?)\|", re.MULTILINE)
KINDS = {"sum": "counter", "gauge": "gauge"}


def table():
    """{name: (kind, unit, attributes)}"""
    return {name: (kind, unit, frozenset(re.findall(r"`([^`]+)`", keys))) for name, kind, unit, keys in ROW.findall(TABLE.read_text())}


def undocumented(points):
    """What of otlp.py's points is not as the table says: (name, kind, unit, attributes)."""
    wanted = table()
    sent = {(p[1], KINDS.get(p[3], p[3]), p[2], frozenset(p[4])) for p in points}
    return {s for s in sent if wanted.get(s[0]) != s[1:]}
