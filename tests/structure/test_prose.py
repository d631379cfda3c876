#!/usr/bin/python3
"""Texts against CODING_STYLE.md, **Prose**: spelling, words, sentences, columns, paths (prose.py).

tests/structure/prose-known counts what is not clean yet; a number there only ever falls.
  test_prose.py --known    prints that list as the tree is now, for whoever lowered a number or moved a file
  test_prose.py --words    prints prose-words alike: whoever adds to it looks for misspellings first

BUILD_DIR: the build's folder, which knows what is installed. GATE: tools that are missing are a failure.
"""

import collections
import functools
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(HERE))
import prose  # noqa: E402

BUILD = Path(os.environ.get("BUILD_DIR", TOP / "build/dev"))
KNOWN, WORDS = HERE / "prose-known", HERE / "prose-words"
LEFT_OUT = {"build", ".git", "__pycache__", ".ci"}
SHOWN = 400  # sites of one row


def files(top):
    found = []
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(set(inner) - LEFT_OUT)
        found += [str(Path(folder, n).relative_to(top)) for n in names]
    return sorted(f for f in found if not f.startswith(prose.GIVEN))


@functools.lru_cache()
def tree():
    """{file: text} of what is text and ours."""
    found = {}
    for file in files(TOP):
        if prose.reader(file) or prose.source(file):
            found[file] = (TOP / file).read_text(encoding="utf-8")
    return found


@functools.lru_cache()
def faults():
    """All faults of the tree but spelling, which needs a dictionary."""
    words = prose.forbidden(tree()["docs/glossary.md"])
    paths = prose.Paths(
    TOP, prose.installed(
        BUILD, TOP), "\n".join(
            t for f, t in tree().items() if not f.endswith(".md")))
    found = []
    for file, text in tree().items():
        if prose.source(file):
            found += prose.column_faults(file, text)
        if prose.reader(file):
            passages = list(prose.reader(file)(file, text))
            found += prose.sentence_faults(passages)
            found += [f for p in passages for f in prose.word_faults(p, words) if file != "docs/glossary.md"]
            found += paths.faults(file, text)
    return found


def spelling(own):
    passages = [p for file, text in tree().items() if prose.reader(file)
                                         for p in prose.reader(file)(file, text)]
    return list(prose.spell_faults(passages, own))


def row_of(file):
    """A page has a row of its own, a folder of tests, and all of agent/ or probes/: files move."""
    parts = file.split("/")
    if len(parts) < 2 or prose.reader(file) in (prose.markdown, prose.mdoc, prose.plain_text):
        return file
    return "/".join(parts[:-1][:2 if parts[0] == "tests" else 1]) + "/"


def known(text):
    """{(kind, path): number}"""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {(kind, path): int(number) for kind, path, number in rows}


def compare(found, listed):
    """What differs between faults and the list, in sentences."""
    sites = collections.defaultdict(list)
    for kind, file, line, why in found:
        rows = [p for k, p in listed if k == kind and (
            file == p or (p.endswith("/") and file.startswith(p)))]
        sites[kind, max(rows, key=len, default=file)].append(f"{file}:{line}: {why}")
    wrong = []
    for key in sorted({*listed, *sites}):
        more = len(sites[key]) - listed.get(key, 0)
        if more > 0:
            wrong.append(f"{key[1]}: {len(sites[key])} of kind '{key[0]}', {listed.get(key, 0)} known:")
            wrong += [f"  {s}" for s in sites[key][:SHOWN]]
        elif more < 0:
            wrong.append(
                f"tests/structure/prose-known: {' '.join(key)} is {len(sites[key])} now: lower the number")
    return wrong


class Tree(unittest.TestCase):
    """The tree against the list."""

    def check(self, *kinds):
        listed = {key: n for key, n in known(KNOWN.read_text()).items() if key[0] in kinds}
        found = spelling(set(WORDS.read_text().split())) if kinds == (
            "spelling",) else [f for f in faults() if f[0] in kinds]
        wrong = compare(found, listed)
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_words_of_the_glossary(self):
        self.check("words")

    def test_sentences(self):
        self.check("sentence")

    def test_columns(self):
        self.check("columns")

    def test_links_and_paths(self):
        self.assertTrue(prose.installed(BUILD, TOP), f"{BUILD} is no build: set BUILD_DIR")
        self.check("path")

    def test_spelling(self):
        if not prose.can_spell():
            (self.fail if "GATE" in os.environ else self.skipTest)(
                "hunspell and hunspell-en-gb are missing: sudo tools/deps test")
        self.check("spelling")

    def test_lists_are_sorted(self):
        rows, words = list(known(KNOWN.read_text())), WORDS.read_text().split()
        self.assertEqual(rows, sorted(rows))
        self.assertEqual(words, sorted(set(words)))

    def test_each_word_of_the_project_is_used(self):
        used = {w.lower() for f, t in tree().items() if prose.reader(f)
                        for p in prose.reader(f)(f, t) for w, _ in prose.plain_words(p)}
        self.assertEqual([w for w in WORDS.read_text().split() if w not in used],
                         [], "take them out of tests/structure/prose-words")


GLOSSARY = """## Words not used

| not | but |
|---|---|
| job, begun anew | run |
| says (of a program) | reported |
"""
LONG = " ".join(["word"] * (prose.LONGEST + 1))


class Checker(unittest.TestCase):
    """Each fault is found in a small bad text, and nothing in a good one."""

    def words(self, file, text):
        words = prose.forbidden(GLOSSARY)
        return [(line, re.match(r"'(.*?)'", why)[1]) for p in prose.reader(file)(file, text)
                 for _, _, line, why in prose.word_faults(p, words)]

    def sentences(self, file, text):
        return [line for _, _, line, _ in prose.sentence_faults(prose.reader(file)(file, text))]

    def test_words_in_pages(self):
        text = ("# A\n\nA job, and\nits Jobs.\n\n- `job` \"job\" jobless says\n\n| a | job |\n\n"
                "```\njob\n```\n\n    job\n\n[job](x.md)\nwas begun anew\n")
        self.assertEqual(self.words("docs/x.md", text),
                         [(3, "job"), (4, "Jobs"), (8, "job"), (16, "job"), (17, "begun anew")])

    def test_words_in_manual_pages(self):
        text = ".Sh JOBS\nThe\n.Ar job\nof\n.Nm job\nis a job.\n.\\\" job\n.Pq a job\n"
        text += ".Bd -literal\njob\n.Ed\n"
        self.assertEqual(self.words("docs/man/x.1", text), [(1, "JOBS"), (6, "job"), (8, "job")])

    def test_words_in_source(self):
        text = ('/* A job,\n * and job_new(), of `job`.\n */\nx("job");\n'
                'log("the job %s"\n    " is a job now", job);\n#include "job.h"\n')
        self.assertEqual(self.words("agent/x.c", text), [(1, "job"), (5, "job"), (6, "job")])
        self.assertEqual(self.words("systemd/x.service", "# a job\nJobTimeoutSec=job is it\n"), [(1, "job")])

    def test_sentences(self):
        self.assertEqual(self.sentences("docs/x.md", f"Short.\n{LONG}.\n"), [2])
        self.assertEqual(
    self.sentences(
        "docs/x.md",
        f"{LONG[:80]}. {LONG[:80]}!\n\n- {LONG[:80]}\n- {LONG[:80]}\n"),
         [])
        self.assertEqual(self.sentences("docs/x.md", f"| {LONG[:80]}; {LONG[:80]} | b |\n"), [])
        self.assertEqual(self.sentences("docs/x.md", f"| {LONG} | b |\n"), [1])
        self.assertEqual(self.sentences("docs/man/x.8", f".Pp\n{LONG}\n.Pp\nb\n"), [2])
        self.assertEqual(self.sentences("agent/x.c", f'f("{LONG}");\n/* {LONG} */\n'), [1])
        (mean,) = prose.sentence_faults(prose.markdown(
            "docs/x.md", (" ".join(["word"] * (prose.MEAN + 1)) + ". ") * 11))
        self.assertIn("on average", mean[3])

    def test_columns(self):
        line = "…" * prose.COLUMNS + "\n"
        self.assertEqual([f[2] for f in prose.column_faults("x.c", line + "x" + line)], [2])
        self.assertTrue(
            all(map(prose.source, ("agent/x.c", "tests/unit/CMakeLists.txt", "tools/test", "tests/x.py"))))
        self.assertFalse(any(map(prose.source, ("docs/x.md", "tests/x.json"))))

    @unittest.skipUnless(prose.can_spell(), "no hunspell")
    def test_spelling(self):
        text = "The recieved colour of eth0, `recieved`, a_recieved, TLS\nand sysctls, recieved.\n"
        found = prose.spell_faults(prose.markdown("docs/x.md", text), {"sysctls"})
        self.assertEqual([f[2] for f in found], [1, 2])

    def test_paths(self):
        there = {"/usr/lib/tpu-hostd/machines.conf", "/usr/share/doc/tpu-hostd/api.md"}
        paths = prose.Paths(TOP, there, '"netcfg" "spool" tpu-hostd')
        good = ("docs/api.md agent/base/*.h build/x tests/test_NAME.py /usr/lib/tpu-hostd/machines.conf "
                "/usr/lib/tpu-hostd/ /etc/tpu-hostd/netcfg.conf.d/10-site.conf /var/lib/tpu-hostd/spool "
                "/etc/tpu-hostd/tls/ca.pem [a](api.md)")
        bad = ("docs/gone.md", "agent/gone/", "/usr/lib/tpu-hostd/gone.conf", "/etc/tpu-hostd/gone.conf.d",
               "/var/lib/tpu-hostd/gone", "/usr/share/doc/tpu-hostd/gone.md", "[a](gone.md)",
               "[a](glossary.md#gone)", "[a](glossary.md)")
        self.assertEqual(list(paths.faults("docs/api.md", good)), [])
        for text in bad:
            self.assertEqual([f[2] for f in paths.faults("docs/api.md", f"\n{text}\n")], [2], text)
        for file, text in (("docs/man/x.1", "docs/api.md"), ("agent/x.c", 'f("see docs/api.md");')):
            self.assertEqual(len(list(paths.faults(file, text))), 1, file)
        self.assertEqual(list(paths.faults("agent/x.c", "f(); /* docs/api.md */")), [])

    def test_list_only_shrinks(self):
        found = [("words", "agent/a.c", 1, "x"), ("words", "agent/b/c.c", 2, "y")]
        self.assertEqual(compare(found, known("# a\nwords agent/ 2\n")), [])
        self.assertEqual(compare(found, known("words agent/ 1\nwords agent/b/ 1\n")), [])
        self.assertIn("lower the number", *compare(found, known("words agent/ 3\n")))
        self.assertIn("lower the number", *compare(found, known("columns agent/ 1\nwords agent/ 2\n")))
        self.assertIn("  agent/b/c.c:2: y", compare(found, known("words agent/ 1\n")))
        self.assertIn("  agent/a.c:1: x", compare(found, known("words agent/b/ 1\n")))


if __name__ == "__main__":
    if sys.argv[1:] == ["--known"]:
        counts = collections.Counter((kind, row_of(file)) for kind, file, _, _ in faults())
        print("# What is not clean yet: kind, file or folder, number. A number here only ever falls.")
        for (kind, path), number in sorted(counts.items()):
            print(kind, path, number)
    elif sys.argv[1:] == ["--words"]:
        print("\n".join(sorted({re.match(r"'(.*?)'", why)[1].lower() for *_, why in spelling(set())})))
    else:
        unittest.main()
