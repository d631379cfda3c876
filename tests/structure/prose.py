"""What CODING_STYLE.md, **Prose**, asks of texts: each fault as (kind, file, line, words).

test_prose.py holds the tree to it. A text is read into passages: a paragraph, a cell, a message or a
comment, with its code masked by §.
"""

import fnmatch
import re
import shutil
import subprocess
from pathlib import Path

LONGEST = 30  # words of a sentence
MEAN = 20  # words of a page's sentences on average
COLUMNS = 109
KINDS = ("spelling", "words", "sentence", "columns", "path")
ROOMS = ("agent", "netcfg", "probes", "collector", "proto", "contrib")
TOPS = (*ROOMS, "docs", "packaging", "systemd", "tests", "tools")
SOURCES = (".c", ".h", ".def", ".py", ".cmake", ".bash", ".bt", "CMakeLists.txt")
GIVEN = ("tests/fixtures/", "tests/fuzz/corpus/")  # files that somebody else wrote, or a program

# --- Passages -----------------------------------------------------------


def mask(found):
    """Code is §; the full stop behind it still ends a sentence."""
    code, end = re.fullmatch(r"(.*?)([.,;:!?)]*)", found[0], re.DOTALL).groups()
    return re.sub(r"\S", "§", code) + end


class Passage:
    """kind: prose, cell, message, comment."""

    def __init__(self, file, kind, parts):
        self.file, self.kind, self.starts = file, kind, []
        self.text = ""
        for line, text in parts:
            self.starts.append((len(self.text), line))
            self.text += text + "\n"

    def line(self, offset):
        return max((s for s in self.starts if s[0] <= offset), default=(0, 1))[1]

    def sentences(self):
        """(offset, text). A list of a cell or a message is as many as it has members."""
        ends = r"[.!?][\")]*\s+" + {"message": r"|\s*[;\n]\s*|: ", "cell": r"|;\s+"}.get(self.kind, "")
        at = 0
        for end in [*re.finditer(ends, self.text), None]:
            stop = end.start() if end else len(self.text)
            if end and re.search(r"\b(e\.g|i\.e|etc|vs|cf|Nr|no)$", self.text[:stop]):
                continue
            yield at, self.text[at:stop]
            at = end.end() if end else stop


def markdown(file, text):
    text = re.sub(r"<!--.*?-->", lambda c: "\n" * c[0].count("\n"), text, flags=re.DOTALL)
    block, kind, code, blank = [], "prose", False, True
    masked = []
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        inside = code != fence if fence else code
        code = inside if fence else code
        skipped = fence or code or (line.startswith("    ") and blank)
        blank = not line.strip() or (skipped and not fence and not code)
        masked.append("" if skipped else line)
    text = re.sub(r"\[((?:[^\[\]]|\n(?!\n))*)\]\([^()\s]*\)", r"\1", "\n".join(masked))
    text = re.sub(r"`[^`]+?`(?!`)|(?<![\w/])https?://[^\s)]*", mask, text)
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.strip()
        row = plain.startswith("|")
        if block and (not plain or row or re.match(r"#|[-*] |\d+\. |> ", plain)):
            yield Passage(file, kind, block)
            block = []
        if row:
            for cell in plain.strip("|").split(" | "):
                if re.search(r"[a-z]", cell):
                    yield Passage(file, "cell", [(number, cell.strip())])
        elif plain.startswith("#"):
            yield Passage(file, "cell", [(number, plain.lstrip("# "))])
        elif plain:
            block.append((number, re.sub(r"^([-*]|\d+\.|>) +", "", plain).replace("**", "")))
    if block:
        yield Passage(file, kind, block)


TEXT_MACROS = {"Nd", "Pq", "Dq", "Em", "Sy", "Qq", "Sh", "Ss", "It", "Sq"}
CODE_MACROS = {"Nm", "Ar", "Cm", "Fl", "Li", "Pa", "Xr", "Ev", "Ql",
    "Op", "Oo", "Oc", "Ic", "Fa", "Er", "Va", "Lk", "No", "Ns", "Dv"}
BREAKS = {"Sh", "Ss", "Pp", "Bl", "El", "It", "Bd", "Ed"}


def mdoc(file, text):
    """mandoc(1)'s language as far as our pages use it."""
    block, display = [], False
    for number, line in enumerate(text.splitlines(), 1):
        macro, _, rest = line[1:].partition(" ") if line.startswith(".") else ("", "", line)
        if macro.startswith("\\") or macro in ("Dd", "Dt", "Os", "Bk", "Ek"):
            continue
        if macro in BREAKS:
            if block:
                yield Passage(file, "prose", block)
            block, display = [], macro == "Bd"
        if display or macro in ("Bl", "El", "Pp", "Bd", "Ed"):
            continue
        words, shown = rest.split(), []
        coded = macro in CODE_MACROS or (macro == "It" and words[:1] and words[0] in CODE_MACROS)
        for word in words if macro else []:
            if word in CODE_MACROS or word in TEXT_MACROS:
                coded = word in CODE_MACROS
            elif re.fullmatch(r"[.,;:()?!]+", word):
                shown.append(word)
            else:
                shown.append("§" if coded else word.replace('"', ""))
        if macro:
            rest = re.sub(r"§( §)+", "§", " ".join(shown or (["§"] if coded and macro == "Nm" else [])))
        rest = re.sub(r"\\f[BI].*?\\f[PR]", "§", rest).replace("\\&", "").replace("\\-", "-")
        if rest:
            block.append((number, rest))
        if macro in ("Sh", "Ss", "It") and block:
            yield Passage(file, "cell", block)
            block = []
    if block:
        yield Passage(file, "prose", block)


PIECE = re.compile(
    r'/\*.*?\*/|//[^\n]*|#include[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
     re.DOTALL)
SAID = re.compile(r"[a-z§]+[,:;]? [a-z§]+[,:;]? [a-z]+")  # a string that somebody reads
CODE_WORD = re.compile(
    r"[`].*?[`]|\S*[\w)]\([^ )]*\)|\S*(?:_|->|--|=|\.[a-z])\S*|<[a-zA-Z/_.-]+>",
     re.DOTALL)


def comment(file, number, text):
    """Passages of a comment: paragraphs."""
    block = []
    for line in text.split("\n"):
        plain = line.strip().strip("*/").strip()
        if (not plain or re.match(r"-{3,}|[-@] ", plain)) and block:
            yield Passage(file, "comment", block)
            block = []
        if plain and "SPDX" not in plain:
            block.append((number, re.sub(r"-{3,}", "", CODE_WORD.sub(mask, plain))))
        number += 1
    if block:
        yield Passage(file, "comment", block)


def c_source(file, text):
    said, until = [], 0
    pieces = [(text.count("\n", 0, m.start()) + 1, m) for m in PIECE.finditer(text)]
    for number, m in [*pieces, (0, None)]:
        joined = said and m and re.fullmatch(r"(\s|PRI\w+|[A-Z][A-Z_0-9]+)*", text[until:m.start()])
        if said and not (joined and m[0].startswith('"')):
            whole = "".join(t for _, t in said)
            if SAID.search(whole) and not re.match(
                r"\s*(SELECT|INSERT|DELETE|UPDATE|CREATE|WITH|PRAGMA)\b", whole):
                yield Passage(file, "message", [(n, t.rstrip("\n")) for n, t in said])
            said = []
        if m and m[0].startswith('"'):
            plain = re.sub(r"\\(.)", lambda e: "\n" if e[1] == "n" else e[1], m[0][1:-1])
            plain = re.sub(r"%[-+ #0-9.*]*[a-z]+|\{[a-z_0-9]*\}|\[[^\[\] ]*\]|\"[^\"]*\"", mask, plain)
            said.append((number, CODE_WORD.sub(mask, plain)))
            until = m.end()
        elif m and m[0].startswith("/"):
            yield from comment(file, number, m[0])


def hashed(file, text):
    """Comments that begin with #."""
    block = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        m = re.match(r"\s*#(?!!) ?(.*)", line)
        if m and m[1].strip():
            block.append((number, CODE_WORD.sub(mask, m[1])))
        elif block:
            yield Passage(file, "comment", block)
            block = []


FIELD = re.compile(r"--|#|[A-Z][A-Za-z-]+: (?!.*[a-z] [a-z]+ )| \.$| ?[\w.-]+( \(.*\))?( <.*>)?,$|"
                   r"Support:|Defined-By:")


def plain_text(file, text):
    """A catalog, or what dpkg shows of a package."""
    for para in re.finditer(r"(?:[^\n]*\S[^\n]*\n)+", text):
        lines = [(text.count("\n", 0, para.start()) + 1 + i, t) for i, t in enumerate(para[0].splitlines())]
        lines = [(n, CODE_WORD.sub(mask, re.sub(r"^(Subject|Description): |@\w+@", "", t))) for n, t in lines
                 if not FIELD.match(t)]
        if lines:
            yield Passage(file, "prose", lines)


def reader(file):
    name, top = file.rsplit("/", 1)[-1], file.split("/")[0]
    if name.endswith(".md"):
        return markdown
    if re.fullmatch(r"docs/man/.*\.[1-8]", file):
        return mdoc
    if top in ROOMS and name.endswith((".c", ".h", ".def", ".proto")):
        return c_source
    if name.endswith(".catalog") or file == "packaging/deb/control":
        return plain_text
    if top in ("systemd", "packaging", "tools") or (top in ROOMS and name.endswith((".conf", ".txt"))):
        return hashed
    return None


def source(file):
    """Whether lines have a bound."""
    return not file.startswith("docs/") and (file.endswith(SOURCES)
                               or re.fullmatch(r"tools/\w+", file) is not None)


# --- Faults -------------------------------------------------------------


def forbidden(glossary):
    """The words of the glossary's last table, as expressions, with what stands for them.

    One whose meaning is in brackets is for the
    reader alone."""
    table = glossary.split("## Words not used")[1]
    found = {}
    for left, right in re.findall(r"^\| ([^|]*) \| ([^|]*) \|$", table, re.MULTILINE):
        if left != "not":
            for word in re.split(r", ", left):
                if "(" not in word:
                    found[re.compile(
                        rf"(?<![\w-]){re.escape(word)}(?:s|'s)?(?![\w-])", re.IGNORECASE)] = right
    return found


def word_faults(passage, words):
    text = re.sub(
    r'"[^"\n]{1,30}"',
    mask,
    passage.text) if passage.kind in (
        "prose",
         "cell") else passage.text
    for pattern, instead in words.items():
        for m in pattern.finditer(text):
            yield "words", passage.file, passage.line(m.start()), f"'{m[0]}': the glossary says {instead}"


def length(sentence):
    """Words; code counts as one."""
    return sum(1 for w in re.sub(r"§\s+§", "§", sentence).split() if re.search(r"[\w§]", w))


def sentence_faults(passages):
    lengths = {}
    for p in passages:
        if p.kind == "comment":
            continue
        for offset, sentence in p.sentences():
            n = length(sentence)
            if n > LONGEST:
                start = offset + len(sentence) - len(sentence.lstrip())
                begin = " ".join(sentence.split()[:8])
                yield "sentence", p.file, p.line(start), f"{n} words, {LONGEST} at most: {begin} …"
            if p.kind == "prose" and n > 2:
                lengths.setdefault(p.file, []).append(n)
    for file, all_ in lengths.items():
        if len(all_) > 10 and sum(all_) / len(all_) > MEAN:
            mean = sum(all_) / len(all_)
            yield "sentence", file, 1, f"{mean:.1f} words a sentence on average, {MEAN} at most"


def column_faults(file, text):
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield "columns", file, number, f"{len(line)} columns, {COLUMNS} at most"


TOKEN = re.compile(r"[^\s—–…/()]+")


def plain_words(passage):
    """(word, line) of what a dictionary may know: no code, no abbreviations, nothing with digits."""
    for m in TOKEN.finditer(passage.text):
        word = m[0].strip(".,;:!?()[]\"'*“”’‘")
        if re.search(r"[§\d_@={}<>%$#+*|~&\\]", m[0]):
            continue
        for part in word.split("-"):
            part = re.sub(r"(['’]s?)$", "", part)
            if re.fullmatch(r"[A-Za-z]?[a-z]{2,}", part):
                yield part, passage.line(m.start())


def spell_faults(passages, known):
    """known: the project's own words. Needs hunspell with en_GB."""
    found = [(w, p.file, line) for p in passages for w, line in plain_words(p)]
    asked = sorted({w for w, _, _ in found} - known)
    done = subprocess.run(["hunspell", "-d", "en_GB", "-i", "utf-8", "-l"], input="\n".join(asked) + "\n",
                          text=True, capture_output=True, check=True,
                          env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"})
    wrong = {w for w in done.stdout.split() if w.lower() not in known}
    for word, file, line in found:
        if word in wrong:
            yield "spelling", file, line, f"'{word}' is in no dictionary, nor in tests/structure/prose-words"


def can_spell():
    return bool(shutil.which("hunspell")) and Path("/usr/share/hunspell/en_GB.dic").exists()


# --- Paths --------------------------------------------------------------

LINK = re.compile(r"\[(?:[^\[\]]|\n(?!\n))*\]\(([^()\s]+)\)")
OF_TREE = re.compile(rf"(?<![\w/.@~-])((?:{'|'.join(TOPS)})/(?!sd-)[\w*?./-]*[\w*/])")
PLACEHOLDER = re.compile(r"(?<![A-Za-z0-9])(?!README)[A-Z]{1,20}(?![A-Za-z0-9])|…|[*?\[{<]|\bx\b")
OF_HOST = re.compile(r"(?<![\w/.}])(/(?:usr|etc|run|var)/(?:[\w.@-]+/)*[\w.@-]*tpu[\w./*@%-]*)")
SITES_OWN = (".pem", ".crt", ".key", "/token-keys.json")  # certificates and keys are the site's
RUNTIME = ("/run", "/var/lib", "/var/log", "/var/cache", "/etc")


def anchors(text):
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-")
                   for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


INSTALL = (r'file\(INSTALL DESTINATION "([^"]*)" TYPE (\w+)(?: [A-Z_]+)*?'
           r'(?: RENAME "([^"]*)")?(?: OPTIONAL)? FILES((?:\s*"[^"]*")+)')


def installed(build, top):
    """What the packages put onto a host: what CMake installs and a package's list takes, and documents."""
    files = set()
    for script in sorted(build.glob("**/cmake_install.cmake")):
        for m in re.finditer(INSTALL, script.read_text()):
            folder = m[1].replace("${CMAKE_INSTALL_PREFIX}", "/usr")
            for source in map(Path, re.findall(r'"([^"]*)"', m[4])):
                inner = [m[3] or source.name]
                if m[2] == "DIRECTORY":
                    inner = [f"{source.name}/{f.name}" for f in source.glob("*.conf")]
                files.update(f"{folder}/{i}" for i in inner)
    lists = [line for file in top.glob("packaging/deb/*.install") for line in file.read_text().split()]
    lists += re.findall(r"dh_install -p \S+ (\S+)", (top / "packaging/deb/rules").read_text())
    patterns = [p for line in lists for p in (line if line.startswith("*") else f"/{line}", f"/{line}/*")]
    taken = {f for f in files if any(fnmatch.fnmatch(f, p) for p in patterns)}
    for file in top.glob("packaging/deb/*.docs"):
        taken.update(f"/usr/share/doc/{file.stem}/{Path(line).name}" for line in file.read_text().split())
    for file in top.glob("packaging/deb/*.examples"):
        taken.update(f"/usr/share/doc/{file.stem}/examples/{found.name}"
                     for pattern in file.read_text().split() for found in top.glob(pattern))
    return taken


class Paths:
    """top: the tree; there: files of the packages; source: the text of what makes the rest at run time."""

    def __init__(self, top, there, source):
        self.top, self.source = top, source
        self.there = there | {str(p) for f in there for p in Path(f).parents}
        self.documents = {Path(f).name for f in there if f.startswith("/usr/share/doc/")}

    def on_host(self, path):
        path = path.rstrip("/.,-")
        if PLACEHOLDER.search(path) or "%" in path:
            path = re.split(r"[*{%…]|(?<![A-Za-z0-9])[A-Z]", path)[0].rpartition("/")[0]
        if path in self.there or path.endswith(SITES_OWN):
            return True
        config = re.fullmatch(r"/(?:etc|run|usr/lib)/tpu-hostd/(\w+)\.conf(?:\.d(?:/[^/]*\.conf)?)?", path)
        if config:
            return f'"{config[1]}"' in self.source or f"{config[1]}.conf" in self.source
        made = Path(path).parts[3 if path.startswith("/var/") else 2:]
        return path.startswith(("/run/", "/var/", "/etc/tpu-hostd")) and all(p in self.source for p in made)

    def in_tree(self, file, path):
        return any(self.top.glob(path.rstrip("/"))) or (file ==
                   "docs/promises.md" and any(self.top.glob(f"tests/{path}")))

    def link_faults(self, file, text):
        for m in LINK.finditer(text):
            target, _, anchor = m[1].partition("#")
            to = (self.top / file).parent / target if target else self.top / file
            line = text.count("\n", 0, m.start()) + 1
            if re.match(r"[a-z]+:", m[1]):
                continue
            if not to.exists():
                yield "path", file, line, f"the link {m[1]} leads nowhere"
            elif anchor and anchor not in anchors(to.read_text()):
                yield "path", file, line, f"the link {m[1]}: {to.name} has no such heading"
            elif Path(file).name in self.documents and file != "README.md" and to.name not in self.documents:
                yield "path", file, line, f"the link {m[1]}: {to.name} is in no package, but this page is"

    def faults(self, file, text):
        if file.endswith(".md"):
            yield from self.link_faults(file, text)
        with_package = file.startswith(("docs/man/", "systemd/")) or file.endswith(".def")
        if file == "docs/structure.md":
            # which makes files, and test_walk.py looks at those that it names
            text = text.split("\n## A walk")[0]
        for number, line in enumerate(text.splitlines(), 1):
            code = re.sub(r"/\*.*", "", line) if file.endswith(".c") else line
            for path in OF_TREE.findall(line):
                said = with_package or (file.endswith(".c") and re.search(rf'"[^"]*{re.escape(path)}', code))
                if path.startswith(
                    "docs/") and path.endswith(".md") and said and not re.match(r" ?[/*]", line):
                    yield "path", file, number, f"{path}: the packages have it below /usr/share/doc/"
                elif not self.in_tree(file, path) and not PLACEHOLDER.search(path):
                    yield "path", file, number, f"{path} is not in the tree"
            for path in OF_HOST.findall(line):
                if not self.on_host(path):
                    yield "path", file, number, f"{path}: no package installs it, and no program makes it"
