#!/usr/bin/python3
"""Pages that lead: README's length, the index of on-call.md, headings that units, catalogs and programs
point to, questions of the night and the headings that answer them, blocks that the lab runs, and what the
packages hold."""
import fnmatch
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DOCS = SOURCE / "docs"
sys.path[:0] = [str(SOURCE / "tests/structure"), str(SOURCE / "tests/lab")]
import prose  # noqa: E402
from examples import examples, matches  # noqa: E402

ONLY_IN_TREE = {"dependencies.md", "promises.md", "structure.md", "walk.md"}  # for who works on it
PARTS = ("**You see**", "**It means**", "**Do now.**", "**Do later.**")
# What is asked at night: page, heading, and words of the answer that stand below it.
QUESTIONS = (
    ("My run makes no steps. Which host is it?", "on-call.md", "hang", "tpuctl diagnose SLICE"),
    ("Steps take twice as long since noon. Why?", "on-call.md", "slow", "tpuctl check >good.txt"),
    ("The loss is NaN. Is it the hardware?", "on-call.md", "nan", "machine checks"),
    ("Exit code 137. Who killed it?", "on-call.md", "oom", "tpu.run.killed_by"),
    ("A spot VM is taken away. What becomes of the run?", "on-call.md", "preempted",
     "slices that are left"),
    ("No space left on device. What may I delete?", "on-call.md", "disk-full", "/tmp/tpu_logs"),
    ("The dashboard is empty. Is the host dead?", "on-call.md", "no-data", "tpuctl uplink"),
    ("It says that libtpu is already in use.", "on-call.md", "run-does-not-start",
     "rm /tmp/libtpu_lockfile"),
    ("A host is missing. Does the run wait for it?", "on-call.md", "host-missing", "--shrink-after"),
    ("No collector leads. Do runs end?", "on-call.md", "collector-away", "Hosts and their runs go on"),
    ("Who may start a run as me?", "run-my-training.md", "who-it-runs-as", "authority file"),
    ("Which line makes a step?", "run-my-training.md", "which-lines-are-steps", "completed step: 12"),
    ("Why do I see no lines before the end?", "run-my-training.md", "what-it-gets", "PYTHONUNBUFFERED"),
    ("What is GOOD?", "run-my-training.md", "what-the-numbers-mean", "went into steps"),
    ("Does Ctrl-C end my run?", "run-my-training.md", "ctrl-c-and-logging-out",
     "the view and not the run"),
    ("How do I see the logs of all hosts?", "run-my-training.md", "logs-of-all-hosts", "--fleet"),
    ("Who saves my checkpoint?", "run-my-training.md", "checkpoints-restarts-and-preemption",
     "your program does"),
    ("Why does it wait and not start?", "run-my-training.md", "over-slices", "what it waits for"),
    ("What happens to runs while I upgrade?", "upgrade.md", "upgrade", "Runs go on"),
    ("How do I get the old settings back?", "tuning.md", "tuning-of-the-host", "--restore"),
    # Harder ones.
    ("The diagnosis names nobody. What now?", "diagnose.md", "use-it", "`tpuctl net` on each host"),
    ("First word and verdict disagree. Which counts?", "diagnose.md", "the-first-word",
     "The verdict confirms or corrects it"),
    ("A training runs in docker. Where are its lines, and can I end it?", "run-my-training.md",
     "started-without-tpuctl", "`docker logs`"),
    ("Does asking for stacks disturb a live training?", "stack.md", "tpu-stack",
     "The process is never stopped"),
    ("A VM took a dead one's place and is refused.", "on-call.md", "identity", "tpuctl fleet release"),
    ("May I reboot a host that has a part of a run?", "on-call.md", "take-a-host-out", "Before a reboot"),
    ("A host's key was stolen. How do I lock it out?", "on-call.md", "host-refused", "`DenyUris=`"),
    ("A check that I never heard of fails.", "on-call.md", "host-unfit", "`path.mtu`"),
    ("Our OpenTelemetry Collector batches. Do we lose events?", "monitoring.md",
     "telemetry-goes-elsewhere", "no `batch` processor"),
    ("Which ports does a run need open?", "run-my-training.md", "over-slices", "8476"),
    ("Why does a slice that looks fine not get my run?", "registry.md", "when-a-run-starts", "`waits_for`"),
    ("My run was restarted at night. What does that cost it?", "registry.md", "when-a-run-ends",
     "counts against `restarts`"),
    ("How large a disk do 1,000 hosts take?", "sizing.md", "a-collector", "1,000"),
    ("Why did my run end, and on which host first?", "on-call.md", "run-ended", "tpuctl why NAME --fleet"),
    ("Who holds the chips of this host?", "on-call.md", "run-does-not-start", "sudo tpuctl chips"),
    ("GOOD falls. Where does the time go?", "metrics.md", "the-agents-own-view-state-uplink-steps",
     "`tpu.run.time`"),
)


def sections(text):
    """{anchor: text below that heading, up to the next one}"""
    text = re.sub(r"^```.*?^```", lambda code: code[0].replace("\n#", "\n #"), text, flags=re.DOTALL | re.M)
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {next(iter(prose.anchors(f"# {h}"))): body for h, body in zip(parts[1::2], parts[2::2])}


class Pages(unittest.TestCase):
    def test_readme_is_one_screen(self):
        self.assertLessEqual(len((SOURCE / "README.md").read_text().splitlines()), 100)

    def test_readme_shows_the_demo_as_it_is(self):
        """The steps that README shows are those of tests/lab/demo.py, with their numbers and titles."""
        demo = (SOURCE / "tests/lab/demo.py").read_text()
        titles = re.findall(r'^    \("(.*)", \w+\),$', demo.split("STEPS = [")[1], re.MULTILINE)
        readme = (SOURCE / "README.md").read_text()
        shown = re.findall(r"^    ok +(\d+)/(\d+)  (.*)  \([\d.]+ s\)$", readme, re.MULTILINE)
        self.assertTrue(shown)
        for number, of, title in shown:
            self.assertEqual((titles[int(number) - 1], int(of)), (title, len(titles)))
        self.assertIn(f"    {len(titles)}/{len(titles)} steps\n", readme)

    def test_on_call_leads_from_its_index(self):
        found = sections((DOCS / "on-call.md").read_text())
        indexed = re.findall(r"^\| .* \| \[.*\]\(#([\w-]+)\) \|$",
                             (DOCS / "on-call.md").read_text().split("**The first minute**")[0],
                             re.MULTILINE)
        self.assertEqual(indexed, [a for a in found if a != "on-call"], "the index has all, in their order")
        for anchor in indexed:
            at = [found[anchor].find(p) for p in PARTS]
            self.assertTrue(-1 not in at and at == sorted(at), f"#{anchor}: {PARTS} in this order")

    def test_each_check_leads_to_a_heading(self):
        """By the table of on-call.md#host-unfit; checks.md is the list of all checks (test_checks.py)."""
        found = sections((DOCS / "on-call.md").read_text())
        rows = [(re.findall(r"`([^`]+)`", names), re.findall(r"\]\(#([\w-]+)\)", to)) for names, to in
                re.findall(r"^\| (`[^|]*) \| ([^|]*\]\(#[^|]*) \|$", found["host-unfit"], re.MULTILINE)]
        patterns = {name: to for names, to in rows for name in names}
        checks = re.findall(r"^## (\S+)$", (DOCS / "checks.md").read_text(), re.MULTILINE)
        self.assertGreater(len(checks), 50)
        self.assertEqual([c for c in checks if not any(fnmatch.fnmatch(c, p) for p in patterns)], [])
        self.assertEqual([p for p in patterns if not fnmatch.filter(checks, p)], [], "no such check")
        self.assertEqual([a for to in patterns.values() for a in to if a not in found], [])

    def test_headings_that_are_pointed_to(self):
        pointed = 0
        files = [f for top in ("systemd", "agent", "collector", "netcfg", "probes", "contrib")
                 for f in (SOURCE / top).glob("**/*") if f.is_file()]
        for file in files:
            for page, anchor in re.findall(r"/usr/share/doc/[\w-]+/([\w-]+\.md)(?:#([\w-]+))?",
                                           file.read_text(errors="replace")):
                self.assertTrue((DOCS / page).exists(), f"{file}: {page}")
                if anchor:
                    self.assertIn(anchor, sections((DOCS / page).read_text()), f"{file}: {page}#{anchor}")
                    pointed += 1
        self.assertGreater(pointed, 40, "each entry of the journal's catalogs points to a heading")

    def test_each_entry_of_the_journal_has_a_heading(self):
        for file in SOURCE.glob("systemd/*.catalog"):
            for line in re.findall(r"^Support: .*$", file.read_text(), re.MULTILINE):
                self.assertRegex(line, r"on-call\.md#[\w-]+$", file.name)

    def test_questions_are_answered(self):
        for question, page, anchor, words in QUESTIONS:
            found = sections((DOCS / page).read_text())
            self.assertIn(anchor, found, question)
            self.assertIn(words, " ".join(found[anchor].split()), f"{question} {page}#{anchor}")

    def test_index_names_each_page(self):
        index = set(re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "README.md").read_text()))
        self.assertEqual(index, {f.name for f in DOCS.glob("*.md")} - ONLY_IN_TREE - {"README.md"})

    def test_packages_hold_each_page(self):
        wanted = {f"docs/{f.name}" for f in DOCS.glob("*.md")} - {f"docs/{n}" for n in ONLY_IN_TREE}
        for name in ("tpu-hostd", "tpu-collector", "tpuctl"):
            held = set((SOURCE / f"packaging/deb/{name}.docs").read_text().split())
            self.assertEqual({h for h in held if h.endswith(".md")}, wanted, name)

    def test_blocks_are_understood(self):
        found = [e for page in ("README.md", *(f"docs/{f.name}" for f in DOCS.glob("*.md")))
                 for e in examples(page, (SOURCE / page).read_text())]
        self.assertGreater(sum(e.expected is not None for e in found), 15)
        for e in found:
            self.assertFalse(e.expected == [] and not e.command.startswith("cd "), f"{e} shows nothing")


class Examples(unittest.TestCase):
    """examples.py itself: what it takes for the same, and what not."""

    def test_blocks(self):
        text = ("# A\n<!-- root@h1$ true -->\n```console\nalice@h0$ a \\\n  b\none\ntwo\nalice@h0$ c\n```\n"
                "```\nx\n```\n")
        self.assertEqual([(e.user, e.host, e.command, e.expected) for e in examples("p", text)],
                         [("root", "h1", "true", None), ("alice", "h0", "a b", ["one", "two"]),
                          ("alice", "h0", "c", [])])
        with self.assertRaises(ValueError):
            examples("p", "```console\nno prompt\n```\n")

    def test_matches(self):
        for shown, said in ((["a 1 s"], "a   27 ms\n"), (["…", "b"], "x\ny\nb\n"), (["a … c"], "a b b c\n"),
                            (["at 10.0.0.1"], "at 10.9.9.9\n"), (["…"], ""), (["h0 x"], "h0  x")):
            self.assertTrue(matches(shown, said), shown)
        for shown, said in ((["a"], "a\nb\n"), (["a", "b"], "a\n"), (["h0"], "h1\n"), (["a … c"], "a b\n"),
                            (["OK"], "WARN\n")):
            self.assertFalse(matches(shown, said), shown)


if __name__ == "__main__":
    unittest.main()
