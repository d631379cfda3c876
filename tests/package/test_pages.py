#!/usr/bin/python3
"""The manual pages against the programs: every option, verb and key is in its page, and nothing else.
BUILD_DIR names the build."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGES = SOURCE / "docs/man"
BUILD = pathlib.Path(os.environ["BUILD_DIR"])
PROGRAM = re.compile(r"^program\((\S+)\s+\$\{CMAKE_INSTALL_(S?)BINDIR\}", re.MULTILINE)
HELP_OPTION = re.compile(r"^  --([\w-]+)(?: (\S+))?", re.MULTILINE)
PAGE_OPTION = re.compile(r"^\.It Fl -([\w-]+)(?: Ar (\S+))?$", re.MULTILINE)
PAGE_KEY = re.compile(r"^\.It Cm (\w+)=", re.MULTILINE)
SUBSECTION = re.compile(r"^\.Ss (.*)\n((?:(?!\.S[sh]).*\n)*)", re.MULTILINE)
# A line of a table of struct config_item: CONFIG_ITEM("Section", "Key", …
ITEM = re.compile(r'\b(?:CONFIG|FIXED)_[A-Z]+\(\s*"([A-Z]\w+)",\s*"([A-Z]\w+)",')
# A line of the table of identity fields: [IDENTITY_X] = { "name-of-it", "Key", …
FIELD = re.compile(r"\[IDENTITY_\w+\] = \{ \"[a-z-]+\", \"(\w+)\",")
SHARED = {("root", "DIR"), ("config", "FILE"), ("help", ""), ("version", "")}


def programs():
    """{name: (path of what was built, section of its page)}"""
    found = {}
    for file in sorted(SOURCE.glob("*/**/CMakeLists.txt")):
        folder = file.parent.relative_to(SOURCE)
        if folder.parts[0] not in ("build", "tests"):
            for name, s in PROGRAM.findall(file.read_text()):
                found[name] = (BUILD / folder / name, "8" if s else "1")
    return found


def page(name):
    """As it is installed: one that the build fills in stands in its own folder."""
    built = BUILD / "docs/man" / name
    return (built if built.exists() else PAGES / name).read_text()


def subsections(text):
    return {title: body for title, body in SUBSECTION.findall(text)}


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False,
                          env=os.environ | {"LC_ALL": "C.UTF-8"})


def help_of(program, *verb):
    done = run(program, *verb, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


def machine(test):
    """A folder with the package's profiles and a generation that is known, so that nothing but an example
    can be warned about."""
    folder = tempfile.TemporaryDirectory(prefix="tpu-pages-test-")
    test.addCleanup(folder.cleanup)
    root = pathlib.Path(folder.name)
    shutil.copytree(SOURCE / "netcfg/profiles", root / "usr/lib/tpu-hostd/profiles")
    shutil.copy(SOURCE / "netcfg/machines.conf", root / "usr/lib/tpu-hostd")
    site = root / "etc/tpu-hostd/identity.conf.d/05-type.conf"
    site.parent.mkdir(parents=True)
    site.write_text("[Identity]\nAcceleratorType=v6e-16\n")
    return root


def documented_keys():
    """{(section, key)} of all configuration pages."""
    return {(title.strip("[]"), key) for file in PAGES.glob("*.conf.5") for title,
            body in subsections(file.read_text()).items()
            for key in PAGE_KEY.findall(body)}


class Options(unittest.TestCase):
    maxDiff = None

    def test_every_program_has_a_page(self):
        self.assertGreater(len(programs()), 5, "the build files were not understood")
        self.assertEqual({f"{name}.{section}" for name, (_, section) in programs().items()},
                         {f.name for f in PAGES.glob("*.[18]")})

    def test_options(self):
        for name, (path, section) in programs().items():
            if name == "tpuctl":
                continue
            with self.subTest(name):
                options = set(HELP_OPTION.findall(help_of(path)))
                for letter, word in (("-h", "--help"), ("help", "--help"), ("-V", "--version")):
                    short, whole = run(path, letter), run(path, word)
                    self.assertEqual((short.stdout, short.stderr, short.returncode), (whole.stdout, "", 0))
                self.assertLessEqual(SHARED, options)
                self.assertEqual(set(PAGE_OPTION.findall(page(f"{name}.{section}"))), options)

    def test_tpuctl(self):
        path, _ = programs()["tpuctl"]
        text = page("tpuctl.1")
        verbs = {title.split()[0]: body for title, body in subsections(text).items()}
        summary = help_of(path)
        self.assertEqual(set(re.findall(r"^  ([a-z]\w*) ", summary, re.MULTILINE)), set(verbs))
        self.assertEqual(set(HELP_OPTION.findall(summary)), SHARED)
        self.assertEqual(set(PAGE_OPTION.findall(text.split(".Sh VERBS")[0])), SHARED)
        for verb, body in verbs.items():
            with self.subTest(verb):
                self.assertEqual(set(PAGE_OPTION.findall(body)) | SHARED,
                                 set(HELP_OPTION.findall(help_of(path, verb))))


class Keys(unittest.TestCase):
    maxDiff = None

    def test_keys(self):
        known = {item for folder in ("agent", "collector", "netcfg", "probes")
                 for file in (SOURCE / folder).rglob("*.c")
                 for item in ITEM.findall(file.read_text())}
        known |= {("Identity", key)
                  for key in FIELD.findall((SOURCE / "agent/identity/identity.c").read_text())}
        shown, root = set(), machine(self)
        for name, (path, section) in programs().items():
            if section == "8":
                here = None
                for line in run(path, "--root", root, "--show-config").stdout.splitlines():
                    if line.startswith("["):
                        here = line.strip("[]")
                    elif here and " = " in line:
                        shown.add((here, line.split(" = ")[0]))
        self.assertGreater(len(shown), 20)
        self.assertLessEqual(shown, known, "a table of keys was not understood")
        self.assertEqual(documented_keys(), known)


class Content(unittest.TestCase):
    def complaints(self, root):
        lines = [line for name, (path, section) in programs().items() if section == "8"
                 for line in run(path, "--root", root, "--check-config").stderr.splitlines()
                 if "--insecure-listen" not in line and "there is no user" not in line]
        # Its configurations are tpuctl's alone, which has no such option.
        for verb in (["fleet", "--collector", "http://127.0.0.1:1"], ["check", "path"]):
            told = run(programs()["tpuctl"][0], "--root", root, *verb).stderr
            lines += [line for line in told.splitlines()
                      if re.search(r"/(tpuctl|path)\.conf\S*:\d+:", line)]
        return lines

    def test_examples_are_good(self):
        seen = 0
        for file in PAGES.glob("*.5"):
            for path, text in re.findall(r"^\.Bd -literal.*\n# (/\S+)\n((?:(?!\.Ed).*\n)*)",
                                         file.read_text(), re.MULTILINE):
                with self.subTest(file.name, path=path):
                    root = machine(self)
                    where = root / path.lstrip("/")
                    where.parent.mkdir(parents=True, exist_ok=True)
                    where.write_text(text)
                    self.assertEqual(self.complaints(root), [])
                    seen += 1
                    if not path.startswith("/usr"):
                        where.write_text(text.replace("=", "x=", 1))
                        self.assertNotEqual(self.complaints(root), [], "nobody reads this file")
        self.assertGreater(seen, 4)

    def test_profile_sections(self):
        documented = {title.strip("[]") for title in subsections(page("tpu-profile.5"))}
        named = {"Sysctl": "Sysctl NAME", "Parameter": "Parameter MODULE.NAME",
                 "Feature": "Feature NAME", "PrivateFlag": "PrivateFlag DRIVER NAME", "Link": "Link NAME"}
        shipped = {named.get(section.split()[0], section)
                   for file in (SOURCE / "netcfg/profiles").glob("*.conf")
                   for section in re.findall(r"^\[(.*)\]", file.read_text(), re.MULTILINE)}
        self.assertLessEqual(shipped, documented)
        for title in sorted(documented) + ["Nonsense"]:
            if title.startswith(("Chip", "Machine")):
                continue
            with self.subTest(title):
                root = machine(self)
                section = title.replace("MODULE.NAME", "tcp.a").replace("NAME", "net.a")
                (root / "usr/lib/tpu-hostd/profiles/v6e.conf").write_text(f"[{section}]\nValue=1\nSource=x\n")
                unknown = any("there is no such setting" in line for line in self.complaints(root))
                self.assertEqual(unknown, title == "Nonsense")

    def test_machines(self):
        """machines.conf: the keys that its parser and its file know."""
        documented = {kind: set(PAGE_KEY.findall(body)) for title,
                      body in subsections(page("tpu-profile.5")).items()
                      for kind in ("Chip", "Machine") if title.startswith(f"[{kind} ")}
        known = set(re.findall(r'streq\(key, "(\w+)"\)', (SOURCE / "netcfg/intent/machine.c").read_text()))
        self.assertEqual(documented["Chip"] | documented["Machine"], known)
        shipped = re.findall(r"^\[(Chip|Machine) .*\]\n((?:(?!\[).*\n)*)",
                             (SOURCE / "netcfg/machines.conf").read_text(), re.MULTILINE)
        self.assertGreater(len(shipped), 10)
        for kind, body in shipped:
            self.assertLessEqual(set(re.findall(r"^(\w+)=", body, re.MULTILINE)), documented[kind])

    def test_cross_references(self):
        names = {f.name for f in PAGES.iterdir()}
        for file in PAGES.glob("*.[158]"):
            for name, section in re.findall(r"\bXr (\S+) (\d)", file.read_text()):
                if not name.startswith("systemd-"):  # whose pages are its own
                    self.assertIn(f"{name}.{section}", names, file.name)

    def test_lint(self):
        if not shutil.which("mandoc"):
            self.skipTest("there is no mandoc")
        for file in sorted(PAGES.glob("*.[158]")):
            with self.subTest(file.name):
                done = run("mandoc", "-T", "lint", "-W", "warning", file)
                self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertNotEqual(run("mandoc", "-T", "lint", "-W", "warning", SOURCE / "README.md").returncode, 0)


if __name__ == "__main__":
    unittest.main()
