"""What a page shows as typed and answered: its blocks marked `console`, and what has to happen between them.

    ```console
    alice@h0$ tpuctl runs
    NAME   STATE    …
    ```
    <!-- root@h3$ systemctl stop tpu-hostd -->

USER@HOST$ is what is typed; the lines behind it are what it prints, on either output. A command in a comment
is run, too, has to end with 0, and readers do not see it. In what is printed … stands for any words of a
line, alone on a line for any lines. Numbers and spaces are not compared.
"""

import re

PROMPT = re.compile(r"(\w+)@(\w+)\$ (.+)")
BLOCK = re.compile(r"^```console\n(.*?)^```$|^<!-- (\w+@\w+\$ .*?) -->$", re.MULTILINE | re.DOTALL)
MASKS = (
    (re.compile(r"(?<![\w.])\d[\d.,:-]*(?:T[\d:.]+Z)?(?![\w])"), "N"),
    (re.compile(r"\bN (?:ms|s|min|h|d|B|kB|MB|KiB|MiB|GiB|GB)\b"), "N"),
    (re.compile(r"[ \t]+"), " "),
)


class Example:
    """One command of a page; expected is None where readers do not see it."""

    def __init__(self, page, line, user, host, command, expected):
        self.page, self.line, self.user, self.host = page, line, user, host
        self.command, self.expected = command, expected

    def __str__(self):
        return f"{self.page}:{self.line}: {self.user}@{self.host}$ {self.command}"


def examples(page, text):
    """The page's examples in their order. Raises ValueError where a block is not understood."""
    found = []
    for m in BLOCK.finditer(text):
        line = text.count("\n", 0, m.start()) + 1
        if m[2]:
            found.append(Example(page, line, *PROMPT.fullmatch(" ".join(m[2].split())).groups(), None))
            continue
        begun = len(found)
        for number, shown in enumerate(m[1].splitlines(), line + 1):
            typed = PROMPT.fullmatch(shown)
            if typed:
                found.append(Example(page, number, *typed.groups(), []))
            elif len(found) == begun:
                raise ValueError(f"{page}:{number}: a block begins with USER@HOST$: {shown}")
            elif found[-1].command.endswith("\\") and not found[-1].expected:
                found[-1].command = f"{found[-1].command[:-1].rstrip()} {shown.strip()}"
            else:
                found[-1].expected.append(shown)
    return found


def masked(text):
    lines = []
    for line in text.splitlines():
        for pattern, instead in MASKS:
            line = pattern.sub(instead, line)
        lines.append(line.strip())
    return [line for line in lines if line]


def matches(expected, said):
    """Whether lines that a page shows are what a command printed."""
    pattern = ""
    for line in masked("\n".join(expected)):
        pattern += r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + "\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in masked(said))) is not None
