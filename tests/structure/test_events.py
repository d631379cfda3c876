#!/usr/bin/python3
"""agent/model/events.def against the code, the catalogs and the page: every event is emitted, every emit
gives exactly the
event's fields, journalctl -x explains each event with fields that it has, and docs/events.md is the list.

test_events.py --write writes the page anew.
"""
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIST = SOURCE / "agent/model/events.def"
PAGE = SOURCE / "docs/events.md"
MODEL = "agent/model/"
CATALOGS = ("tpu-hostd", "tpu-launchd", "tpu-collector")
USE = re.compile(r"\bEVENT_(OF|AS|LIKE)\(\s*([A-Z_]+)\s*,")
FIELD = re.compile(r"^\.([a-z_]+)\s*=", re.DOTALL)
HEAD = """# Events

What happened on a host or at the collector. Each event is

- a line of the host's journal: `journalctl TPU_EVENT=NAME`; `journalctl -x` explains it.
  Fields are `TPU_FIELD=`;
- a row of `tpuctl events`, which asks the collector, and of `/v1/events` of the agent;
- an OTLP log record, sent to the endpoint. Fields are the record's body.

The last column leads to what to do. A field in brackets is there where it is known. What stands in brackets
in a sentence appears with its fields. The severity is the usual one. The list is `agent/model/events.def`;
a test compares both.
"""


def events():
    """{id: (name, severity, sentence, [(field, is text, optional)], message id)}, the list's macros
    expanded."""
    text = subprocess.run(["cc", "-E", "-P", "-x", "c", LIST], check=True, capture_output=True,
                          text=True).stdout
    found = {}
    row = re.compile(r'EVENT\((\w+), "([^"]+)", (\w+), '
                     r'"(\w+)",\s*((?:"[^"]*"\s*)+),\s*((?:(?:TEXT|NUMBER)(?:_IF)?\(\w+\)\s*)+)\)')
    for id_, name, severity, message, sentence, fields in row.findall(text):
        kinds = re.findall(r"(TEXT|NUMBER)(_IF)?\((\w+)\)", fields)
        found[id_] = (name, severity, "".join(re.findall(r'"([^"]*)"', sentence)),
                      [(field, kind == "TEXT", bool(known)) for kind, known, field in kinds], message)
    assert len(found) == len(re.findall(r"\bEVENT\(", text)) > 30, "the list was not understood"
    return found


def headings():
    """{message id: the heading of docs/on-call.md that its catalog entry points to}"""
    return {m[1]: m[2] for name in CATALOGS for m in
            re.finditer(r"^-- ([0-9a-f]{32})$.*?^Support: [^\n]*on-call\.md#([\w-]+)$",
                        (SOURCE / f"systemd/{name}.catalog").read_text(), re.MULTILINE | re.DOTALL)}


def page():
    rows = ["", "| event | severity | sentence | fields | on call |", "|---|---|---|---|---|"]
    told = headings()
    for name, severity, sentence, fields, message in sorted(events().values()):
        listed = ", ".join(f"[`{f}`]" if optional else f"`{f}`" for f, _, optional in fields)
        to = f"[{told[message].replace('-', ' ')}](on-call.md#{told[message]})"
        rows.append(f"| `{name}` | {severity} | {sentence} | {listed} | {to} |")
    return HEAD + "\n".join(rows) + "\n"


def arguments(text, at):
    """The arguments of the call whose bracket opens in front of at, split at its own commas."""
    depth, start, found, quoted = 0, at, [], False
    for i in range(at, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}" and depth:
            depth -= 1
        elif c == ")":
            return [*found, text[start:i].strip()]
        elif c == "," and depth == 0:
            found.append(text[start:i].strip())
            start = i + 1
    raise AssertionError(text[at:at + 80])


def emits():
    """(file, kind, id, [fields]) of every emit in the product's sources."""
    for file in sorted(SOURCE.glob("*/**/*.c")):
        name = str(file.relative_to(SOURCE))
        if name.split("/")[0] in ("build", "tests") or name.startswith(MODEL):
            continue
        text = file.read_text()
        for m in USE.finditer(text):
            given = [f for a in arguments(text, m.end()) for f in FIELD.findall(a)]
            yield name, m[1], m[2], given


class Events(unittest.TestCase):
    maxDiff = None

    def test_each_emit_gives_exactly_the_fields(self):
        known = events()
        for file, _, id_, given in emits():
            self.assertIn(id_, known, file)
            self.assertEqual(sorted(given), sorted(f for f, _, _ in known[id_][3]), f"{file}: {id_}")

    def test_each_event_is_emitted(self):
        emitted = {id_ for _, kind, id_, _ in emits() if kind != "LIKE"}
        sources = "".join(f.read_text() for top in ("agent", "collector", "netcfg")
                          for f in (SOURCE / top).glob("**/*.c"))
        for id_ in events():
            self.assertTrue(id_ in emitted or re.search(rf"\bEVENT_{id_}\b", sources), f"nobody emits {id_}")

    def test_one_of_several_has_their_fields(self):
        """EVENT_LIKE(A, …) emits others than A: events of the same fields, in the same order."""
        known = events()
        groups = {}
        for id_, (_, _, _, fields, _) in known.items():
            groups.setdefault(str(fields), set()).add(id_)
        for file, kind, id_, _ in emits():
            if kind == "LIKE":
                alike = groups[str(known[id_][3])]
                used = set(re.findall(r"\bEVENT_([A-Z]+_[A-Z_]+)\b",
                                      (SOURCE / file).read_text())) & set(known)
                others = {o for _, k, o, _ in emits() if k != "LIKE"} - alike
                self.assertLessEqual(used - others, alike, file)

    def test_sentences_name_fields(self):
        for id_, (_, _, sentence, fields, _) in events().items():
            self.assertLessEqual(set(re.findall(r"\{(\w+)\}", sentence)), {f for f, _, _ in fields}, id_)
            self.assertNotRegex(re.sub(r"\{\w+\}", "", sentence), r"[{}]", id_)

    def test_catalogs_explain_each(self):
        by_message = {message: (id_, fields) for id_, (_, _, _, fields, message) in events().items()}
        explained = []
        for name in CATALOGS:
            text = (SOURCE / f"systemd/{name}.catalog").read_text()
            for message, entry in re.findall(r"^-- (\w+)$(.*?)(?=^-- |\Z)", text, re.MULTILINE | re.DOTALL):
                self.assertIn(message, by_message, name)
                id_, fields = by_message[message]
                explained.append(id_)
                asked = set(re.findall(r"@TPU_(\w+)@", entry)) - {"VERSION"}
                self.assertLessEqual(asked, {f.upper() for f, _, _ in fields} | {"VERSION"},
                                     f"{name}: {id_}")
        self.assertEqual(sorted(explained), sorted(events()))

    def test_page_is_the_list(self):
        self.assertEqual(PAGE.read_text(), page(), "tests/structure/test_events.py --write writes it anew")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page())
    else:
        unittest.main()
