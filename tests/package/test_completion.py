#!/usr/bin/python3
"""bash completion, sourced in a plain bash: what COMPREPLY holds, held against what the programs say.
BUILD_DIR names the build."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/ctl"))

from stand_ins import field, Launchd, LaunchdHandler  # noqa: E402  (the path comes first)

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
PROGRAMS = {"tpuctl": "agent/ctl/tpuctl", "tpu-netcfg": "netcfg/tpu-netcfg",
            "tpu-stack": "probes/stack/tpu-stack"}
SHARED = {"--root", "--config", "--help", "--version"}
# Splits the words as readline does at '=', calls the function and prints one answer a line.
DRIVER = r"""
set -u
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
function=$(complete -p "$1") && [[ $function =~ -F\ ([a-z_]+) ]] && "${BASH_REMATCH[1]}" "$1" "${!#}" "${@:$#-1:1}"
printf '%s\n' "${COMPREPLY[@]}"
"""


class Shell(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="tpu-completion-test-"))
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(SOURCE / "tests/fixtures/machine-v6e-4t", self.root / "machine", symlinks=True)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for name, path in PROGRAMS.items():
            (self.bin / name).symlink_to(BUILD / path)
        self.env = {"PATH": f"{self.bin}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(self.root)}

    def complete(self, *words):
        done = subprocess.run(["/bin/bash", "--norc", "--noprofile", "-c", DRIVER, "bash",
                               SOURCE / "packaging/completion/tpu-hostd.bash",
                               *words], capture_output=True, text=True, timeout=60, check=False,
                              env=self.env, cwd=self.root)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def options(self, program, *verb):
        text = subprocess.run([BUILD / PROGRAMS[program], *verb, "--help"], capture_output=True, text=True,
                              timeout=60, check=True).stdout
        return set(re.findall(r"^  (--[\w-]+)", text, re.MULTILINE)), text

    def launchd(self, *names):
        path = self.root / "machine/run/tpu-launchd/launchd.sock"
        path.parent.mkdir(parents=True, exist_ok=True)
        server = Launchd(str(path), LaunchdHandler)
        runs = b"".join(field(1, b"".join(field(i + 1, v) for i, v in enumerate(
            (name, f"tpu-run-{name}.service", "running", "", "", "", "plain", "glibc", "ada", "sleep 9"))))
                        for name in names)
        server.seen, server.answers = [], {22: (23, runs)}
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)


class Completion(Shell):
    def test_verbs(self):
        _, text = self.options("tpuctl")
        verbs = set(re.findall(r"^  ([a-z]+) ", text, re.MULTILINE))
        self.assertGreater(len(verbs), 8)
        self.assertEqual(self.complete("tpuctl", ""), verbs)
        self.assertEqual(self.complete("tpuctl", "--root", "/", "st"), {"status", "stop", "stack"})
        self.assertEqual(self.complete("tpuctl", "nonsense", ""), set())

    def test_options(self):
        self.assertEqual(self.complete("tpuctl", "--"), SHARED)
        for verb in sorted(self.complete("tpuctl", "")):
            with self.subTest(verb):
                options, _ = self.options("tpuctl", verb)
                self.assertLessEqual(SHARED, options)
                self.assertEqual(self.complete("tpuctl", verb, "--"), options)
        for name in ("tpu-netcfg", "tpu-stack"):
            self.assertEqual(self.complete(name, "-"), self.options(name)[0])
        self.assertEqual(self.complete("tpu-netcfg", "--re"), {"--restore"})
        self.assertEqual(self.complete("tpu-netcfg", ""), set())

    def test_checks(self):
        checks = set(re.findall(r"^PROBE\((\w+)", (SOURCE / "probes/probes.def").read_text(),
                                re.MULTILINE)) | {"identity", "bpf", "path", "enroll", "preflight"}
        self.assertEqual(self.complete("tpuctl", "check", ""), checks)
        self.assertEqual(self.complete("tpuctl", "check", "--json", "ni"), {"nic"})
        self.assertEqual(self.complete("tpuctl", "check", "--probe", "ni"), {"nic"})
        found = self.complete("tpuctl", "--root", self.root / "machine", "check", "tpu.")
        self.assertIn("tpu.chips", found)
        self.assertEqual({name.split(".")[0] for name in found}, {"tpu"})

    def test_runs(self):
        self.launchd("train", "tune-2", "eval")
        for verb in ("logs", "stop", "stack"):
            with self.subTest(verb):
                self.assertEqual(self.complete("tpuctl", "--root", self.root / "machine", verb, "t"),
                                 {"train", "tune-2"})
        self.assertEqual(self.complete("tpuctl", "status", ""), set())

    def test_runs_without_an_answer(self):
        started = time.monotonic()
        self.assertEqual(self.complete("tpuctl", "--root", self.root / "machine", "logs", ""), set())
        self.assertLess(time.monotonic() - started, 50)  # it ends by itself

    def test_values(self):
        _, text = self.options("tpuctl", "run")
        for option in ("framework", "malloc"):  # and every other key with words: from the same help
            with self.subTest(option):
                said = re.search(rf"^  --{option} NAME .*one of: ([^;]*)", text, re.MULTILINE).group(1)
                self.assertEqual(self.complete("tpuctl", "run", f"--{option}", ""),
                                 set(said.replace(",", " ").split()))
        self.assertEqual(self.complete("tpuctl", "run", "--framework", "=", "j"), {"jax"})
        self.assertEqual(self.complete("tpuctl", "run", "--framework", "="),
                         {"plain", "jax", "torch_xla", "ray", "torch"})
        self.assertEqual(self.complete("tpuctl", "run", "--name", ""), set())
        self.assertEqual(self.complete("tpuctl", "run", "--user", "roo"), {"root"})
        (self.root / "good.json").touch()
        (self.root / "goods").mkdir()
        self.assertEqual(self.complete("tpuctl", "check", "--config", "go"), {"good.json", "goods"})
        self.assertEqual(self.complete("tpuctl", "run", "--directory", "go"), {"goods"})

    def test_command(self):
        self.assertIn("tpu-stack", self.complete("tpuctl", "run", "--name", "a", "--", "tpu-st"))
        (self.root / "train.py").touch()
        self.assertEqual(self.complete("tpuctl", "run", "--", "python3", "tr"), {"train.py"})

    def test_pids(self):
        python, other = [subprocess.Popen(argv)
                         for argv in (["/usr/bin/python3", "-c", "import time; time.sleep(60)"],
                                      ["sleep", "60"])]
        for process in (python, other):
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        found = self.complete("tpu-stack", "--json", "")
        self.assertIn(str(python.pid), found)
        self.assertNotIn(str(other.pid), found)

    def test_every_option_with_a_value_is_known(self):
        """Else the value's word would be taken for a verb, or an option offered in its place."""
        for program, verb in [(name, ()) for name in PROGRAMS] + [("tpuctl", (v,))
                                                                  for v in sorted(self.complete("tpuctl",
                                                                                                ""))]:
            for option in re.findall(r"^  (--[\w-]+) \S", self.options(program, *verb)[1], re.MULTILINE):
                with self.subTest(program, verb=verb, option=option):
                    self.assertNotIn("--help", self.complete(program, *verb, option, ""))


class OtherShells(Shell):
    """zsh and fish answer as bash does: the same lines, through their own files."""
    QUESTIONS = (("tpuctl", "st"), ("tpuctl", "run", "--framework", ""), ("tpuctl", "run", "--framework=j"),
                 ("tpuctl", "check", "--config", "go"), ("tpuctl", "check", "ni"), ("tpu-netcfg", "--re"),
                 ("tpu-stack", "--na"), ("tpuctl", "nonsense", ""))

    def answers(self, words, *command):
        done = subprocess.run([*command], capture_output=True, text=True, timeout=60, check=False,
                              cwd=self.root, env=self.env | {"TPU_COMPLETION": str(
                                  SOURCE / "packaging/completion/tpu-hostd.bash")})
        self.assertEqual(done.stderr, "", words)
        return set(done.stdout.split())

    def expected(self, words):
        option, equals, rest = words[-1].partition("=")
        if equals:
            return {f"{option}={answer}" for answer in self.complete(*words[:-1], option, "=", rest)}
        return self.complete(*words)

    def test_zsh(self):
        if not shutil.which("zsh"):
            self.skipTest("there is no zsh")
        (self.root / "good.json").touch()
        for words in self.QUESTIONS:
            # What zsh's own part would show is what compadd is given after '--'.
            self.assertEqual(self.answers(words, "zsh", "-f", "-c",
                                          'compadd() { shift 2; print -l -- "$@"; }; file=$1; shift; '
                                          'words=("$@") CURRENT=$#; source $file', "zsh",
                                          str(SOURCE / "packaging/completion/tpu-hostd.zsh"), *words),
                             self.expected(words), words)

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("there is no fish")
        (self.root / "good.json").touch()
        for words in self.QUESTIONS:
            self.assertEqual(self.answers(words, "fish", "--no-config", "-c",
                                          f"source {SOURCE}/packaging/completion/tpu-hostd.fish; "
                                          f"complete -C '{' '.join(words)}'"), self.expected(words), words)


if __name__ == "__main__":
    unittest.main()
