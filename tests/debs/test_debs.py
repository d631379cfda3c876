#!/usr/bin/python3
"""What the built packages hold: hardened programs, debug symbols that fit them, and nothing of the machine
they were built on.

Judged by dpkg-deb, readelf and gdb. TPU_HOSTD_DEBS names the folder; default: build/debs.
"""
import os
import pathlib
import re
import stat
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
DEBS = pathlib.Path(os.environ.get("TPU_HOSTD_DEBS") or TOP / "build/debs")
README = "etc/tpu-hostd/README"
PROGRAMS = {"tpu-hostd": ("usr/bin/tpu-stack", "usr/lib/tpu-hostd/tpu-hostd-probe",
                          "usr/lib/tpu-hostd/tpu-hostd-bpf",
                          "usr/sbin/tpu-hostd", "usr/sbin/tpu-launchd", "usr/sbin/tpu-netcfg"),
            "tpuctl": ("usr/bin/tpuctl",),
            "tpu-collector": ("usr/sbin/tpu-collectord",)}
ENDBR64 = bytes.fromhex("f30f1efa")  # where -fcf-protection lets an indirect jump land


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True,
                          env=os.environ | {"LC_ALL": "C"}).stdout


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]{40})", run("readelf", "-Wn", path)).group(1)


class Debs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tpu-debs-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.tree = {}
        for package in PROGRAMS:
            for name in (package, f"{package}-dbgsym"):
                found = sorted(DEBS.glob(f"{name}_*.deb"))
                assert len(found) == 1, f"{name} in {DEBS}: {len(found)} packages; run tools/deb"
                cls.tree[name] = pathlib.Path(folder.name, name)
                run("dpkg-deb", "-x", found[0], cls.tree[name])

    def programs(self):
        for package, names in PROGRAMS.items():
            for name in names:
                yield package, self.tree[package] / name

    def debug(self, package, number):
        return self.tree[f"{package}-dbgsym"] / f"usr/lib/debug/.build-id/{number[:2]}/{number[2:]}.debug"

    def test_these_are_all_programs(self):
        for package, names in PROGRAMS.items():
            executable = {str(f.relative_to(self.tree[package])) for f in self.tree[package].rglob("*")
                          if f.is_file() and not f.is_symlink() and f.stat().st_mode & 0o111
                          and "examples" not in f.parts}
            self.assertEqual(executable, set(names))

    def test_hardening(self):
        for _, path in self.programs():
            with self.subTest(path.name):
                headers, dynamic = run("readelf", "-Wl", path), run("readelf", "-Wd", path)
                self.assertRegex(dynamic, r"FLAGS_1\b.*\bPIE\b")
                self.assertRegex(dynamic, r"\(FLAGS\).*BIND_NOW")
                self.assertRegex(headers, r"GNU_RELRO")
                self.assertRegex(headers, r"GNU_STACK .* RW ")
                self.assertNotRegex(headers, r"\bRWE\b")
                self.assertNotRegex(dynamic, r"RPATH|RUNPATH|TEXTREL")
                symbols = run("readelf", "-W", "--dyn-syms", path)
                self.assertIn("__stack_chk_fail@", symbols)
                self.assertRegex(symbols, r"__\w+_chk@")  # _FORTIFY_SOURCE
                self.assertNotRegex(symbols, r"\b(strcpy|strcat|sprintf|vsprintf|gets)@")

    def test_indirect_jumps(self):
        """-fcf-protection: marks in the code; the note too where the C library's own start files have it
        (Debian 12's have not)."""
        start = run("gcc", "-print-file-name=Scrt1.o").strip()
        noted = "IBT" in run("readelf", "-Wn", start)
        for _, path in self.programs():
            with self.subTest(path.name):
                with tempfile.NamedTemporaryFile(prefix="tpu-debs-test-") as text:
                    run("objcopy", "-O", "binary", "--only-section=.text", path, text.name)
                    code = pathlib.Path(text.name).read_bytes()
                self.assertGreater(code.count(ENDBR64), 50)
                self.assertEqual("IBT" in run("readelf", "-Wn", path), noted)

    def test_what_is_linked_in(self):
        """sbom.spdx names each archive of another package whose symbols a program has, and what the page is
        made of, with its version; no program loads libbpf, whose name is not the same on all systems."""
        made_of = {"libbpf": "bpf_object__open", "libiberty": "cplus_demangle"}
        for package, names in PROGRAMS.items():
            text = (self.tree[package] / f"usr/share/doc/{package}/sbom.spdx").read_text()
            named = set(re.findall(r"^PackageName: (.+)\nSPDXID: .+\nPackageVersion: [0-9].*$", text, re.M))
            has = set()
            for name in names:
                path = self.tree[package] / name
                self.assertNotIn("libbpf", run("readelf", "-Wd", path))
                symbols = run("readelf", "-Ws", self.debug(package, build_id(path)))
                has |= {source for source, symbol in made_of.items() if symbol in symbols}
            page = self.tree[package] / "usr/share/tpu-collector/page/uPlot.min.js"
            has |= {"uplot"} if page.exists() else set()
            self.assertEqual(named - {package}, has, text)
        self.assertLessEqual(has, {"uplot"})  # tpu-collector, the last one

    def test_tpuctl_alone_changes_nothing(self):
        """It has a program and pages: nothing that the system's own tools act on, and no script."""
        deb, = DEBS.glob("tpuctl_*.deb")
        self.assertEqual(run("sh", "-c", f"dpkg-deb --ctrl-tarfile {deb} | tar -t | sort").split(),
                         ["./", "./control", "./md5sums"])
        tree = self.tree["tpuctl"]
        self.assertEqual({p.name for p in tree.glob("usr/*")}, {"bin", "share"})
        self.assertFalse((tree / "lib").exists())

    def test_no_test_feed(self):
        """What tests feed the agent with (tests/fault/feed.c) is in the program that they build, and in
        none of these."""
        fed = TOP / "build/dev/tests/fault/tpu-hostd-fed"
        words = b"TPU_HOSTD_TEST_FEED"
        if fed.exists():
            self.assertIn(words, fed.read_bytes())
        for name in PROGRAMS:
            for package in (name, f"{name}-dbgsym"):
                for path in filter(lambda p: p.is_file() and not p.is_symlink(),
                                   self.tree[package].rglob("*")):
                    self.assertNotIn(words, path.read_bytes(), path)
                    self.assertNotIn(b"tests/fault", path.read_bytes(), path)

    def test_debug_symbols(self):
        for package, path in self.programs():
            with self.subTest(path.name):
                number = build_id(path)
                debug = self.debug(package, number)
                self.assertTrue(debug.is_file(), debug)
                self.assertEqual(build_id(debug), number)
                self.assertNotIn(".symtab", run("readelf", "-WS", path))
                # gdb finds it by the id alone and knows the line where main() starts.
                said = run("gdb", "-nx", "-batch", "-iex",
                           f"set debug-file-directory {self.tree[f'{package}-dbgsym'] / 'usr/lib/debug'}",
                           "-ex", "info line main", path)
                self.assertRegex(said, r'Line \d+ of ".*\.c" starts at address 0x')

    def test_nothing_of_the_machine(self):
        """No path, no user, no id of where it was built; no file that is not plain; nothing outside /usr
        and /lib but the link to what says what a site may write beside it."""
        unique = {str(TOP).encode(), b"/tmp/tmp.", b"/tmp/tpu-hostd-"}
        for name in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
            if (text := pathlib.Path(name).read_text().strip() if pathlib.Path(name).exists() else ""):
                unique |= {text.encode(), text.replace("-", "").encode()}
        for package in PROGRAMS:
            tree = self.tree[package]
            self.assertLessEqual({f.name for f in tree.iterdir()}, {"usr", "lib", "etc"})
            self.assertEqual([str(f.relative_to(tree)) for f in tree.glob("etc/**/*") if not f.is_dir()],
                             [README] if package == "tpuctl" else [])
            self.assertTrue(all(f.is_symlink() for f in tree.glob(README)))  # else it was a conffile
            for path in tree.rglob("*"):
                with self.subTest(package, path=str(path.relative_to(tree))):
                    mode = path.lstat().st_mode
                    self.assertTrue(stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
                    self.assertEqual(mode & 0o6022 if not stat.S_ISLNK(mode) else 0, 0, oct(mode))
                    if stat.S_ISREG(mode):
                        data = path.read_bytes()
                        self.assertEqual([u for u in unique if u in data], [])
                        self.assertNotRegex(data, rb"-----BEGIN [A-Z ]+-----\s|\b42:01:(?!0a)[0-9a-f]{2}:")


if __name__ == "__main__":
    unittest.main()
