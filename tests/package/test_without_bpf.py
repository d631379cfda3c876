#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A machine without clang, bpftool and libbpf: what is built there has no BPF, says so, and is otherwise
whole. FULL=1 builds it."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
FULL = os.environ.get("FULL") == "1"
HIDDEN = re.compile(r"^(clang|llvm|bpftool)|^libbpf\.pc$")
TOOLS = ("cmake", "ctest", "ninja", "gcc", "pkg-config")


class Without(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for tool in TOOLS:
            if not shutil.which(tool):
                raise unittest.SkipTest(f"there is no {tool}")
        cls.machine = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="tpu-hostd-without-bpf-"))
        path = cls.seen("bin", "/usr/sbin", "/usr/bin", "/bin",
                        *(os.path.dirname(shutil.which(tool)) for tool in TOOLS))
        told = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], capture_output=True,
                              text=True, check=True).stdout.strip()
        packages = cls.seen("packages", *told.split(":"))
        kept = {k: v for k, v in os.environ.items()
                if k in ("HOME", "LANG", "TMPDIR", "CMAKE_C_COMPILER_LAUNCHER") or k.startswith("CCACHE_")}
        cls.environment = kept | {"PATH": path, "PKG_CONFIG_LIBDIR": packages, "CC": "gcc"}

    @classmethod
    def seen(cls, name, *folders):
        """A folder of links to all in those that such a machine has."""
        made = f"{cls.machine}/{name}"
        os.mkdir(made)
        for path in [p for folder in folders for p in glob.glob(f"{folder}/*")]:
            link = f"{made}/{os.path.basename(path)}"
            if not HIDDEN.search(os.path.basename(path)) and not os.path.lexists(link):
                os.symlink(path, link)
        return made

    def setUp(self):
        self.build = self.enterContext(tempfile.TemporaryDirectory(prefix="tpu-hostd-without-bpf-"))

    def run_there(self, *words):
        return subprocess.run(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=1700,
                              check=False)

    def configure(self, *more):
        done = self.run_there("cmake", "-S", TOP, "-B", self.build, "-G", "Ninja", "-DCMAKE_C_FLAGS=-O2 -g",
                              "-DWERROR=ON", *more)
        return done.returncode, done.stdout

    def test_it_configures_and_names_no_tool_of_bpf(self):
        code, said = self.configure("-DWITH_BPF=OFF")
        self.assertEqual(code, 0, said)
        with open(f"{self.build}/build.ninja", encoding="utf-8") as f:
            rules = f.read()
        self.assertIn("agent/hostd/tpu-hostd:", rules)
        for word in ("tpu-hostd-bpf:", "bpftool", "clang", "skel.h", "-lbpf"):
            self.assertNotIn(word, rules)

    def test_with_bpf_it_says_what_is_missing(self):
        # else cmake looks into /usr/bin by itself
        code, said = self.configure("-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF")
        self.assertNotEqual(code, 0)
        self.assertRegex(re.sub(r"\s+", " ", said),
                         "need libbpf-dev, clang and bpftool; install them, or build with -DWITH_BPF=OFF")

    @unittest.skipUnless(FULL, "a whole build: FULL=1")
    def test_it_builds_and_the_unit_tests_pass(self):
        code, said = self.configure("-DWITH_BPF=OFF")
        self.assertEqual(code, 0, said)
        for words in (("ninja", "-C", self.build, "-j2"),
                      ("ctest", "--test-dir", self.build, "-LE", "program|structure", "-j2",
                       "--output-on-failure")):
            done = self.run_there(*words)
            self.assertEqual(done.returncode, 0, done.stdout[-5000:])
        headers = self.run_there("ninja", "-C", self.build, "-t", "deps").stdout
        self.assertIn("systemd/sd-event.h", headers)
        self.assertNotIn("/include/bpf/", headers)
        done = self.run_there(f"{self.build}/probes/stack/tpu-stack", "--json", "--native", str(os.getpid()))
        # as root, or not
        self.assertRegex(done.stdout, "/proc/TID/stack|this program was built without BPF")
        self.assertNotIn("iter/task", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
