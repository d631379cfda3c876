#!/usr/bin/python3
"""The remedies of agent/model/check_words.def: each is a command line that a person can type as it stands.

No placeholder in capitals, and nothing but programs that a host has, verbs that tpuctl has, and options that
our programs know. And whatever any message of ours names: a page, a unit, a verb or a file of the documents
is there where it is read.
"""
import fnmatch
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIST = SOURCE / "agent/model/check_words.def"
VERBS = set(re.findall(r"^VERB\((\w+)", (SOURCE / "agent/ctl/terminal/verbs.def").read_text(), re.MULTILINE))
OURS = {"tpuctl", "tpu-netcfg", "tpu-hostd"}
# Of Debian's base system and what our packages need; the rest is the cloud's, the kernel's and Python's own.
OTHERS = set("""apt-get chmod chronyc curl df dmesg du echo ethtool find fuser gcloud getent grep head
                hostname ip journalctl kill ls lspci mkdir mknod mount nft openssl ping pip
                printf ps rm sed sort ss sudo sudoedit sysctl systemctl
                systemd-machine-id-setup systemd-tmpfiles tail taskset tc tee timedatectl
                timeout udevadm update-grub""".split())
SAMPLE = "x1"


def remedies():
    """[(id, remedy)], the list's macros expanded; what is empty left out."""
    text = subprocess.run(["cc", "-E", "-P", "-x", "c", LIST], check=True, capture_output=True,
                          text=True).stdout
    string = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'
    row = re.compile(rf"WORDS\((\w+), {string}, (\w+),\s*{string},\s*{string},\s*{string},\s*{string}\)")
    found = [(m[1], "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', m[7])).replace('\\"', '"'))
             for m in row.finditer(text)]
    assert len(found) == len(re.findall(r"\bWORDS\(", text)) > 100, "the list was not understood"
    return [(i, r) for i, r in found if r]


def commands(remedy):
    """The simple commands of a remedy, each as words; what stands behind "# " is for the reader."""
    line = re.sub(r"\{\d?\}", SAMPLE, remedy).split("# ")[0]
    return [c.split() for c in re.split(r";|\|", re.sub(r"'[^']*'", SAMPLE, line)) if c.strip()]


class Remedies(unittest.TestCase):
    def test_no_placeholder(self):
        for id_, remedy in remedies():
            bare = re.sub(r"'[^']*'|=\w+", "", remedy.split("# ")[0])
            self.assertNotRegex(bare, r"\b[A-Z]{3,}\b|…|<|\.\.\.", id_)
            self.assertNotRegex(remedy,
                                r"\b(NAME|PID|ADDRESS|PEER|HOST|NETWORK|NUMBER|GATEWAY|RUN|SLICE|WORKER|FILE|URL|UNIT)\b", id_)

    def test_bash_can_read_it(self):
        for id_, remedy in remedies():
            done = subprocess.run(["bash", "-n"],
                                  input=re.sub(r"\[([^\[\]]*\{\d\}[^\[\]]*)\]", r"\1", remedy), text=True,
                                  capture_output=True)
            self.assertEqual(done.returncode, 0, f"{id_}: {done.stderr}")

    def test_each_command_is_there(self):
        for id_, remedy in remedies():
            for words in commands(remedy):
                words = [w for w in words if w != "sudo"]
                if words == [SAMPLE]:
                    continue  # a command that the judge gives whole
                self.assertIn(words[0], OURS | OTHERS, id_)
                if words[0] == "tpuctl":
                    self.assertIn(words[1], VERBS | {SAMPLE}, id_)

    def test_what_changes_the_host_is_typed_with_sudo(self):
        changes = re.compile(r"(apt-get|chmod|rm|tee|sysctl -w|ip link set|tpu-netcfg --(once|restore)|"
                             r"systemctl (re)?start|systemctl reload)\b")
        for id_, remedy in remedies():
            for words in commands(remedy):
                self.assertFalse(changes.match(" ".join(words)), f"{id_}: {remedy}")

    def test_each_option_is_known(self):
        known = "".join(f.read_text() for top in ("agent", "netcfg", "probes")
                        for f in (SOURCE / top).glob("**/*.c"))
        for id_, remedy in remedies():
            for words in commands(remedy):
                for option in [w for w in words if w.startswith("--")] if set(words) & OURS else []:
                    self.assertIn(f'"{option[2:]}"', known, id_)

    def test_judges_write_none_themselves(self):
        written = [f"{file.relative_to(SOURCE)}:{text[:m.start()].count(chr(10)) + 1}"
                   for top in ("agent", "netcfg", "probes", "collector")
                   for file in (SOURCE / top).glob("**/*.c")
                   for text in [file.read_text()]
                   for m in re.finditer(r"finding_set\([^;]*remedy,\s*\"(?!%s\")", text)]
        self.assertEqual(written, [])


COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
LITERAL = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
DOCUMENT = re.compile(r"/usr/share/doc/([\w*-]+)/([\w.*-]+\.md)\b")


def texts():
    """(file, text) of every string of the product, adjacent literals joined."""
    for top in ("agent", "netcfg", "probes", "collector"):
        for file in sorted((SOURCE / top).rglob("*")):
            if file.suffix in (".c", ".h", ".def"):
                for m in LITERAL.finditer(COMMENT.sub("", file.read_text())):
                    yield (str(file.relative_to(SOURCE)),
                           "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', m[0])))
    for file in sorted((SOURCE / "systemd").glob("*.catalog")):
        yield str(file.relative_to(SOURCE)), file.read_text()


class Named(unittest.TestCase):
    """What messages name."""

    def test_documents_are_installed(self):
        kept = {f.name.removesuffix(".docs"): {pathlib.Path(line).name for line in f.read_text().split()}
                for f in (SOURCE / "packaging/deb").glob("*.docs")}
        seen = 0
        for file, text in texts():
            for package, name in DOCUMENT.findall(text):
                found = [p for p in kept if fnmatch.fnmatch(p, package) and name in kept[p]]
                self.assertTrue(found, f"{file}: no package has {name} in /usr/share/doc/{package}")
                seen += 1
            rest = DOCUMENT.sub("", text)
            self.assertNotRegex(rest, r"\w\.md\b", f"{file}: a document without the folder where it lies")
        self.assertGreater(seen, 8, "the sources were not understood")
        # Debian compresses what is large, but for what the rules leave out.
        self.assertIn("dh_compress -X.md", (SOURCE / "packaging/deb/rules").read_text())

    def test_pages_units_and_verbs_are_there(self):
        pages = {f.name.rpartition(".")[0] for f in (SOURCE / "docs/man").glob("*.[158]")}
        files = list((SOURCE / "systemd").iterdir())
        units = {f.name for f in files} | {f.stem for f in files}
        seen = set()
        for file, text in texts():
            for page in re.findall(r"(?<![\w-])man ((?:tpu)[\w.-]*\w)", text):
                self.assertIn(page, pages, f"{file}: man {page}")
                seen.add("page")
            for words in re.findall(r"systemctl (?:status|start|stop|restart)((?: tpu-[a-z.-]+\b)+)", text):
                for unit in words.split():
                    self.assertTrue(unit in units or unit.startswith("tpu-run-"), f"{file}: {text}")
                    seen.add("unit")
            for unit in re.findall(r"journalctl (?:-\w+ )*-u (tpu-[a-z]+)\b", text):
                self.assertTrue(unit in units or unit == "tpu-run", f"{file}: {text}")
            for verb in re.findall(r"(?:^|; |'|sudo |: )tpuctl ([a-z]+)\b", text):
                self.assertIn(verb, VERBS | {"help"}, f"{file}: {text}")
                seen.add("verb")
        self.assertEqual(seen, {"page", "unit", "verb"})


if __name__ == "__main__":
    unittest.main()
