#!/usr/bin/python3
"""What tpuctl diagnose says of recorded stalls: the captures of cases that tests/lab/stalls.py drove real
trainings into on booted hosts, each with what was true of it. BUILD_DIR names the build.

  test_recorded.py --table [FOLDER]   every recording with its verdict, wrong ones first, and what was taken
                                      for what; each training's part beside the others
  test_recorded.py --known            prints fixtures/captures/recorded/known as the judge is now

A recording in that list may be judged wrong or not at all, for the reason that stands there. All others must
be judged right: host and kind of wait.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "lab/stalls"))
import recording  # noqa: E402  (the path comes first)
import verdict as verdicts  # noqa: E402

FOLDER = TESTS / "fixtures/captures/recorded"
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", TESTS.parent / "build/dev"))
HOSTS = 4
WORDS = ("wrong", "nobody", "host, not kind", "right")


def diagnose(captures, *options):
    with tempfile.NamedTemporaryFile(suffix=".capture") as file:
        file.write(captures)
        file.flush()
        return subprocess.run([BUILD / "agent/ctl/tpuctl", "diagnose", "all", *options,
                               "--hosts", str(HOSTS), "--from", file.name],
                              capture_output=True, text=True, timeout=60, check=False)


def judge(captures):
    """What tpuctl says of captures, as verdict.first() has it."""
    done = diagnose(captures, "--json")
    return verdicts.first(json.loads(done.stdout) if done.stdout else {"summary": done.stderr.strip()})


def word(truth, said):
    host = verdicts.word(truth, said)
    return host if host != "right" or verdicts.kind_right(truth, said) else "host, not kind"


def judged(folder):
    """[(name, truth, what was said, word)]"""
    found = []
    for name, truth, captures in recording.read_all(folder):
        said = judge(captures)
        found.append((name, truth, said, word(truth, said)))
    return found


def known(folder):
    """{name: why} of the list."""
    path = pathlib.Path(folder, "known")
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


def share(rows):
    words = collections.Counter(row[3] for row in rows)
    n = len(rows)
    named, whole = n - words["wrong"] - words["nobody"], words["right"]
    return (f"host right {named} of {n} = {100 * named / n:.0f} %, "
            f"kind too {whole} = {100 * whole / n:.0f} %, wrong {words['wrong']}, nobody {words['nobody']}")


def group_of(row):
    """Its training. waits is false where tpu-stack did not yet read any: stacks alone."""
    return row[1]["training"] + ("" if row[1].get("waits", True) else ", no waits")


def table(rows):
    for name, truth, said, result in sorted(rows, key=lambda r: WORDS.index(r[3])):
        yield (f"{result:<14} {name:<36} {'/'.join(truth['hosts']):<6} {'|'.join(truth['kinds']):<20} "
               f"said {said['host'] or '-':<4} {said['kind'] or '-':<10} {said['sentence']}")
    yield ""
    yield "what was taken for what (true kind: said kind, how often)"
    pairs = collections.defaultdict(collections.Counter)
    for _, truth, said, _ in rows:
        pairs["|".join(truth["kinds"])][said["kind"] or ("no kind" if said["host"] else "nobody")] += 1
    for kind in sorted(pairs):
        yield f"  {kind:<22}" + ", ".join(f"{said} {n}" for said, n in pairs[kind].most_common())
    yield ""
    for group in sorted({group_of(row) for row in rows}):
        yield f"{group + ':':<20} {share([r for r in rows if group_of(r) == group])}"
        others = [r for r in rows if group_of(r) != group]
        yield f"{'  others':<20} {share(others)}" if others else "  others: none"
    yield f"{'all:':<20} {share(rows)}" if rows else "no recordings"


class Recorded(unittest.TestCase):
    def test_every_recording_is_judged(self):
        rows, listed = judged(FOLDER), known(FOLDER)
        self.assertGreater(len(rows), 0)
        self.assertEqual(set(listed) - {row[0] for row in rows}, set(), "listed, but no such recording")
        wrong = {name: (result, said["sentence"]) for name, _, said, result in rows if result != "right"}
        print(f"recorded stalls: {share(rows)}; {len(listed)} known not to be right; better than that: "
              f"{sorted(set(listed) - set(wrong))}")
        self.assertEqual({n: w for n, w in wrong.items() if n not in listed}, {})

    def test_the_example_of_the_page(self):
        """docs/diagnose.md begins with what is said of ring-mount; its lines are wrapped there."""
        shown = (TESTS.parent / "docs/diagnose.md").read_text().split("```\n")[1]
        captures, = (c for name, _, c in recording.read_all(FOLDER) if name.startswith("ring-mount"))
        self.assertIn(" ".join(shown.split()), " ".join(diagnose(captures).stdout.split()))

    def test_files_are_small_and_whole(self):
        for path in FOLDER.glob("*.xz"):
            with self.subTest(path.name):
                self.assertLessEqual(path.stat().st_size, recording.MAX)
                truth, captures = recording.unpack(path.read_bytes())
                self.assertEqual(path.stem, f"{truth['training']}-{truth['cause']}-{truth['salt']}")
                self.assertEqual(recording.unpack(recording.pack(truth, captures)), (truth, captures))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        print(*table(judged(sys.argv[2] if len(sys.argv) > 2 else FOLDER)), sep="\n")
    elif sys.argv[1:] == ["--known"]:
        kept = known(FOLDER)
        for name_, _, said_, result_ in judged(FOLDER):
            if result_ != "right":
                print(name_, kept.get(name_, f"{result_}: {said_['sentence']}"))
    else:
        unittest.main()
