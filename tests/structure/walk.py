"""The walk of docs/structure.md, read and done: what it asks a newcomer to write, written into a copy.

A step is a numbered line, with its text behind it as an indented block of code:

    1. `PATH`, new:                         the file
    2. `PATH`, at the end:                  lines
    3. `PATH`, behind the line `ANCHOR`:    lines; "before" likewise
    4. `PATH`, in the line, behind `WORDS`: words
    5. `PATH`, instead of `WORDS`:          words

The first place that has the anchor counts. A numbered line without a block is for the reader, but for
"run `COMMAND`".
"""
import dataclasses
import pathlib
import re
import subprocess

PAGE = "docs/structure.md"
WALKS = ("A new check", "A new metric", "A new key of a run", "A new part", "A new command")
SECTION = re.compile(r"^### (.*)\n((?:(?!##).*\n)*)", re.MULTILINE)
# An anchor that has backticks itself stands between two of them and a blank, as Markdown wants it.
STEP = re.compile(
    r"^\d+\. `(?P<path>[^`]+)`, "
    r"(?P<how>new|at the end|(?:behind|before) the line|in the line, behind|instead of)"
    r"(?: (?:`` (?P<quoted>.+?) ``|`(?P<anchor>[^`]+)`))?:.*\n"
    r"(?: {3,4}(?!```).*\n)*\n(?P<indent> {3,4})```.*\n"
    r"(?P<text>(?:(?! {3,4}```).*\n)*)(?P=indent)```$", re.MULTILINE)
RUN = re.compile(r"^\d+\. run `([^`]+)`", re.MULTILINE)


@dataclasses.dataclass
class Step:
    place: int  # in the section
    how: str
    path: str = ""
    anchor: str = ""
    text: str = ""

    def do(self, top):
        if self.how == "run":
            subprocess.run(self.path, shell=True, check=True, cwd=top)
            return
        file = pathlib.Path(top) / self.path
        if self.how == "new":
            assert not file.exists(), f"{self.path} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.text)
            return
        held = file.read_text()
        if self.how == "at the end":
            file.write_text(held + self.text)
            return
        at = held.find(self.anchor)
        assert at >= 0, (f"{PAGE} names '{self.anchor}' of {self.path}, which is not there: "
                         "let it name another place")
        if self.how.endswith("the line"):
            edge = held.find("\n", at) + 1 if self.how.startswith("behind") else held.rfind("\n", 0, at) + 1
            file.write_text(held[:edge] + self.text + held[edge:])
        else:
            words, end = self.text.rstrip("\n"), at + len(self.anchor)
            file.write_text(held[:at if self.how == "instead of" else end] + words + held[end:])


def walks(top):
    """{title: steps in their order} of the page."""
    found = {}
    for title, body in SECTION.findall((pathlib.Path(top) / PAGE).read_text()):
        if title not in WALKS:
            continue
        steps = [
    Step(
        m.start(),
        m["how"],
        m["path"],
        m["quoted"] or m["anchor"] or "",
        re.sub(
            "^" +
            m["indent"],
            "",
            m["text"],
             flags=re.MULTILINE)) for m in STEP.finditer(body)]
        assert len(steps) * 2 == body.count("```"), (
            f"{PAGE}: a block of '{title}' belongs to no step that tests/structure/walk.py understands")
        steps += [Step(m.start(), "run", m[1]) for m in RUN.finditer(body)]
        found[title] = sorted(steps, key=lambda s: s.place)
    assert tuple(found) == WALKS, f"{PAGE} has the walks {', '.join(found)}"
    return found


def files_of(top):
    """What a copy of the tree needs: what git has, and what will be added to it."""
    done = subprocess.run(["git", "-C", top, "ls-files", "--cached", "--others",
                          "--exclude-standard"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [f for f in done.stdout.splitlines() if (pathlib.Path(top) / f).exists()]
    skip = {"build", ".git", "__pycache__"}
    return [str(f.relative_to(top)) for f in pathlib.Path(top).glob("**/*") if not skip &
                set(f.relative_to(top).parts) and (f.is_symlink() or f.is_file())]
