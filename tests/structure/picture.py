#!/usr/bin/python3
"""The picture of docs/structure.md, out of the KNOWS lines: rooms in groups, arrows between groups.

--write puts it into the page.

An arrow that follows from others is left out. A room without a group and a circle between groups, are
errors.
"""
import pathlib
import re
import sys

from test_structure import SOURCE, calls

PAGE = SOURCE / "docs/structure.md"
BEGIN, END = "<!-- picture: tests/structure/picture.py --write -->\n", "<!-- end of the picture -->\n"
# (title, what matches "FOLDER ROOM"): the first that matches takes the room. Programs have one group each.
GROUPS = [
    ("proto", r"proto/ "),
    ("model", r"agent/model/ |agent/base/(journal|otlp)/ "),
    ("base", r"agent/base/"),
    ("a run and its host", r"agent/(model/run|identity|identity/metadata|progress|stackfiles)/ "),
    ("registry's client", r"agent/enroll/"),
    ("uplink", r"agent/uplink/"),
    ("BPF", r"probes/bpf/"),
    ("stacks", r"probes/stack/"),
    ("network settings", r"netcfg/\w+/ "),
    ("probes", r"probes/"),
    ("bus", r"agent/parts/(bus|calls)/ | health$"),
    ("parts", r"agent/parts/"),
    ("hostd", r"agent/hostd/"),
    ("launch", r"agent/launch/"),
    ("ctl", r"agent/ctl/"),
    ("diagnosis", r"collector/diagnose/"),
    ("telemetry", r"collector/telemetry/"),
    ("control", r"collector/control/"),
    ("ports of the collector", r"collector/(receive|api|page)/"),
]


def group_of(kind, name, folder):
    if kind == "program":
        return name
    for title, pattern in GROUPS:
        if re.match(pattern, f"{folder} {name}") or pattern.endswith(f" {name}$"):
            return title
    raise ValueError(
        f"the room {name} ({folder}) is in no group of {pathlib.Path(__file__).name}: add its folder to "
        f"GROUPS")


def groups():
    """{title: rooms} and {title: titles of all groups that it knows directly}, out of the build files."""
    declared = list(calls())
    title = {name: group_of(kind, name, folder) for kind, name, folder, _ in declared}
    rooms, knows = {}, {}
    for _, name, _, known in declared:
        rooms.setdefault(title[name], []).append(name)
        knows.setdefault(title[name], set()).update(title[k] for k in known if title[k] != title[name])
    return rooms, knows


def below(knows, title, path=()):
    """All groups below this one."""
    if title in path:
        raise ValueError("groups know each other in a circle: " + \
                         " → ".join((*path[path.index(title):], title)))
    found = set()
    for lower in knows[title]:
        found |= {lower} | below(knows, lower, (*path, title))
    return found


def picture():
    rooms, knows = groups()
    ids = {title: f"g{i}" for i, title in enumerate(rooms)}
    lines = ["```mermaid", "flowchart TD"]
    for title, names in rooms.items():
        words = [n for n in names if n != title]
        text = [", ".join(words[i:i + 3]) for i in range(0, len(words), 3)]
        shape = '(["{}"])' if names == [title] and not any(title == g for g, _ in GROUPS) else '["{}"]'
        lines.append(f"  {ids[title]}" + shape.format("<br>".join([f"<b>{title}</b>", *text])))
    for title in rooms:
        below(knows, title)
        for lower in sorted(knows[title]):
            if not any(lower in below(knows, other) for other in knows[title]):
                lines.append(f"  {ids[title]} --> {ids[lower]}")
    return "\n".join([*lines, "```"]) + "\n"


def in_page(text):
    """What the page holds, and the page with a fresh picture."""
    head, rest = text.split(BEGIN, 1)
    held, tail = rest.split(END, 1)
    return held, head + BEGIN + picture() + END + tail


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(in_page(PAGE.read_text())[1])
    else:
        print(picture(), end="")
