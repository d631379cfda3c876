#!/usr/bin/python3
"""docs/checks.md against agent/model/check_words.def: one section a check, with what each verdict means and
what to do. The sentence under a heading is a person's, and everything else is made from the table.

test_checks.py --write writes the page anew and keeps the sentences; a new check gets its heading, and the
test asks for the sentence.
"""
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIST = SOURCE / "agent/model/check_words.def"
PAGE = SOURCE / "docs/checks.md"
GRAVITY = ("FAIL", "WARN", "UNKNOWN", "OK")
HEAD = """# Checks

What is looked at, one section a check. `tpuctl check NAME` looks at one, but for these:

| check | where it is shown |
|---|---|
| `api.*`, `metadata`, `metadata.token`, `uplink.*` | tpu-hostd alone makes them: `tpuctl status` |
| `module.parameter`, `netcfg.profile`, `platform` | `tpuctl check` without a name |
| `path.*` | `tpuctl check path` |
| `run` | `tpuctl check preflight`, and `tpuctl runs --fleet` under WHY |

FAIL makes the host unfit: no run over slices starts there. WARN makes it degraded: they start, but not with
`enroll.slice` or `preflight.alike` WARN. A run of this host alone starts in any case. UNKNOWN could not be
looked at. Each finding that is not OK has its reason, and a command in the line `to do:`. The tables are
`agent/model/check_words.def` as a page; a test compares them. In a command NAME is what the finding is
about: a NIC, a disk, a file. … and VALUE are details of the day.
"""
MISSING = "(a sentence is missing here)"


def checks():
    """{check: [(verdict, wanted, reason, remedy)]}"""
    text = subprocess.run(["cc", "-E", "-P", "-x", "c", LIST], check=True, capture_output=True,
                          text=True).stdout
    string = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
    row = re.compile(rf"WORDS\((\w+),\s*{string},\s*(\w+),\s*{string},\s*{string},\s*{string},\s*{string}\)")
    found = {}
    for m in row.finditer(text):
        check, wanted, _, reason, remedy = (
            re.sub(r"\\(.)", r"\1", "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', m[i])))
            for i in (2, 4, 5, 6, 7))
        if check:
            found.setdefault(check, []).append((m[3], wanted, reason, remedy))
    assert len(row.findall(text)) == len(re.findall(r"\bWORDS\(", text)) > 80, "the list was not understood"
    return found


def cell(text, code=False):
    text = re.sub(r"\{\d\}", "…", text.replace("{}", "NAME")).strip()
    if code and text:
        return "`" + text.replace("|", "\\|").replace("…", "VALUE") + "`"
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*").replace("_", "\\_")


def sentences(text):
    """{check: what a person wrote below its heading}"""
    return {m[1]: m[2].strip() for m in
            re.finditer(r"^## (\S+)\n\n(.*?)(?=\n\n\||\n## |\Z)", text, re.MULTILINE | re.DOTALL)}


def page(kept):
    parts = [HEAD]
    for check, rows in sorted(checks().items()):
        parts.append(f"\n## {check}\n\n{kept.get(check) or MISSING}\n")
        shown = sorted({r for r in rows if r[0] != "OK" and (r[2] or r[3])}, key=lambda r: (
            GRAVITY.index(r[0]) if r[0] in GRAVITY else len(GRAVITY), r))
        verdicts = {}
        for verdict, _, reason, remedy in shown:
            verdicts.setdefault((reason, remedy), []).append("as found" if verdict == "KEPT" else verdict)
        if shown:
            parts.append("\n| verdict | why | to do |\n|---|---|---|\n")
            parts += [f"| {', '.join(said)} | {cell(reason)} | {cell(remedy, True)} |\n"
                      for (reason, remedy), said in verdicts.items()]
    return "".join(parts)


class Checks(unittest.TestCase):
    maxDiff = None

    def test_the_page_is_the_list(self):
        text = PAGE.read_text()
        self.assertEqual(text, page(sentences(text)), "tests/structure/test_checks.py --write")

    def test_each_check_has_a_sentence(self):
        self.assertNotIn(MISSING, PAGE.read_text(), "write what the check looks at, and why")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(sentences(PAGE.read_text()) if PAGE.exists() else {}))
    else:
        unittest.main()
