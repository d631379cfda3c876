#!/usr/bin/python3
"""The remedies of agent/model/check_words.def: each is a command line that a person can type as it stands.

No placeholder in capitals, and nothing but programs that a host has, verbs that tpuctl has, and options that
our programs know.
"""
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIST = SOURCE / "agent/model/check_words.def"
VERBS = set(re.findall(r"^VERB\((\w+)", (SOURCE / "agent/ctl/terminal/verbs.def").read_text(), re.MULTILINE))
OURS = {"tpuctl", "tpu-netcfg", "tpu-hostd"}
# Of Debian's base system and what our packages need; the rest is the cloud's, the kernel's and Python's own.
OTHERS = set("""apt-get chmod chronyc curl dmesg df du echo ethtool find fuser gcloud getent grep head ip journalctl ls lspci openssl ping
                pip ps rm sort ss sudo sudoedit sysctl systemctl systemd-tmpfiles tail tee timedatectl udevadm update-grub""".split())
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


if __name__ == "__main__":
    unittest.main()
