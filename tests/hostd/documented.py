"""The table of docs/metrics.md against what was sent."""

import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `([^`]+)` \| `[^`]+` \| (counter|gauge|histogram) \| (?:`([^`]*)` )?\| ([^|]*?)\|",
                 re.MULTILINE)
KINDS = {"sum": "counter", "gauge": "gauge", "histogram": "histogram"}


def table():
    """{name: (kind, unit, attributes)}"""
    return {name: (kind, unit, frozenset(re.findall(r"`([^`]+)`", keys))) for name, kind, unit,
            keys in ROW.findall(TABLE.read_text())}


def prometheus():
    """{name: what it is called on /metrics}"""
    return dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", TABLE.read_text(), re.MULTILINE))


def chapter(title):
    """The names that it lists."""
    return {row[0] for row in ROW.findall(TABLE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0])}


def of_the_tpu_runtime():
    """What nobody sends where no process holds chips."""
    return chapter("The TPU runtime")


def of_the_network():
    """What nobody sends where there are only files: no kernel to watch, no run's connections."""
    return (chapter("The network of runs")
            | chapter("The network, counted by BPF")) - {"tpu.net.left_out"}


def of_the_collector():
    """What tpu-collectord has on its /metrics."""
    return set(re.findall(r"`(\w+)`", "".join(re.findall(
        r"^\| (?:counter|gauge).*? \|(.*?)\|", TABLE.read_text().split("\n## The collector's own\n")[1],
        re.MULTILINE))))


def undocumented(points):
    """What of otlp.py's points is not as the table says: (name, kind, unit, attributes)."""
    wanted = table()
    sent = {(p[1], KINDS.get(p[3], p[3]), p[2], frozenset(p[4])) for p in points}
    return {s for s in sent if wanted.get(s[0]) != s[1:]}
