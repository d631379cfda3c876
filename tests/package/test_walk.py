#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The walk of docs/structure.md, done: a check, a metric, a key, a part, a command.

As the page says it, they are added to a copy of the tree.

What is built of it shows each of them where users look, and the tests that the page adds pass.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/structure"))

from walk import files_of, walks  # noqa: E402  (the path comes first)

TARGETS = (
    "tpuctl",
    "tpu-hostd",
    "pages",
    "test-run-keys",
    "test-added-key",
    "test-probes",
    "test-probes-host",
    "test-metrics",
     "test-hostd-metrics")
# What goes over the bus for a run whose JSON is the argument.
DRIVER = r"""
#include <sys/socket.h>

#include "unit_message.h"

int main(int argc, char *argv[]) {
        struct kept_run kept = { .name = "a", .id = "0", .user = (char[]){ "u" } };
        json_t *o = json_loads(argv[argc - 1], 0, NULL);
        char why[RUN_WHY_MAX] = "";
        sd_bus_message *m = NULL;
        sd_bus *bus = NULL;
        int fds[2];

        if (run_spec_from_json(o, NULL, &kept.spec, why) < 0 ||
            run_spec_check(kept.spec, RUN_HERE, why) < 0) {
                puts(why);
                return 1;
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0 || sd_bus_new(&bus) < 0 ||
            sd_bus_set_fd(bus, fds[0], fds[0]) < 0 || sd_bus_start(bus) < 0 ||
            unit_message_new(bus, &(struct unit_spec){ .kept = &kept }, &m) < 0 ||
            sd_bus_message_seal(m, 1, 0) < 0)
                return 2;
        return sd_bus_message_dump(m, stdout, 0) < 0 ? 3 : 0;
}
"""


# The real tpu-hostd, on a machine that has the line in its /proc/meminfo.
SCRAPE = r"""
import sys
sys.path.insert(0, sys.argv[1])
from around import Hostd, wait_until
h = Hostd()
with (h.root / "proc/meminfo").open("a") as f:
    f.write("Unevictable:         500 kB\n")
h.start()
try:
    wait_until(lambda: b"\ntpu_memory_unevictable_bytes 512000\n" in h.call("/metrics")[2], 10, "the sample")
finally:
    h.close()
"""


class Walk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.environ.get("FULL"):
            raise unittest.SkipTest(
                "builds tpuctl and tpu-hostd anew, which takes some minutes: with FULL=1")
        for tool in ("cmake", "ninja", "gcc"):
            if not shutil.which(tool):
                raise unittest.SkipTest(f"there is no {tool}")
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="tpu-walk-test-")))
        cls.top, cls.build = folder / "tree", folder / "build"
        for file in files_of(TOP):
            (cls.top / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / file, cls.top / file, follow_symlinks=False)
        cls.documents = {}
        for title, steps in walks(cls.top).items():
            for step in steps:
                if title == "A new metric" and step.path == "docs/metrics.md":
                    cls.documents[title] = (cls.top / step.path).read_text()
                step.do(cls.top)
        (cls.top / "tests/unit/test-added-key.c").write_text(DRIVER)
        (cls.top / "tests/unit/added.cmake").write_text("unit_test(added-key KNOWS launch)\n")
        # With ccache, paths are kept relative to the copy: then the second time is quick.
        cls.env = os.environ | {
    "BUILD_DIR": str(
        cls.build),
        "LC_ALL": "C.UTF-8",
        "CCACHE_BASEDIR": str(folder),
         "CCACHE_NOHASHDIR": "1"}
        launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        cls.run_there(
    "cmake",
    "-S",
    cls.top,
    "-B",
    cls.build,
    "-G",
    "Ninja",
    "-DCMAKE_C_FLAGS=-O2",
    "-DWERROR=ON",
    "-DWITH_BPF=OFF",
     *launcher)
        cls.run_there("cmake", "--build", cls.build, "-j2", "--target", *TARGETS)

    @classmethod
    def run_there(cls, *words):
        done = subprocess.run(
    words,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    timeout=1700,
    check=False,
     env=cls.env)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def python(self, test, *names):
        return self.run_there("/usr/bin/python3", "-B", self.top / "tests" / test, *names)

    def unit(self, name):
        return self.run_there(self.build / "tests/unit" / f"test-{name}")

    # --- A new check ---------------------------------------------------------------------------------------

    def test_check_is_shown_with_its_remedy(self):
        root = self.build / "machine"
        shutil.copytree(self.top / "tests/fixtures/machine-v6e-4t", root, symlinks=True)
        good = self.tpuctl("--root", root, "check", "zone_reclaim")
        self.assertEqual(good.returncode, 0, good.stderr)
        self.assertRegex(good.stdout, r"OK +zone_reclaim +0\n")
        (root / "proc/sys/vm/zone_reclaim_mode").write_text("1\n")
        bad = self.tpuctl("--root", root, "check", "zone_reclaim")
        self.assertEqual(bad.returncode, 1, bad.stderr)
        self.assertIn("sudo sysctl -w vm.zone_reclaim_mode=0", bad.stdout)

    def test_check_is_listed(self):
        self.assertRegex(
    self.tpuctl(
        "check",
        "?").stderr,
         r"  zone_reclaim +zone reclaim of the memory of NUMA nodes\n")

    def test_check_has_its_tests(self):
        self.unit("probes")
        self.unit("probes-host")
        self.python("ctl/test_check.py")
        self.python("structure/test_remedies.py")

    # --- A new metric --------------------------------------------------------------------------------------

    def test_metric_has_its_tests(self):
        self.unit("metrics")
        self.unit("hostd-metrics")

    def test_metric_is_missed_in_the_page(self):
        page = self.top / "docs/metrics.md"
        whole = page.read_text()
        self.addCleanup(page.write_text, whole)
        page.write_text(self.documents["A new metric"])
        done = subprocess.run([self.build / "tests/unit/test-hostd-metrics"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tpu.memory.unevictable", done.stdout + done.stderr)

    def test_metric_is_on_the_page_for_prometheus(self):
        self.run_there("/usr/bin/python3", "-B", "-c", SCRAPE, self.top / "tests/hostd")

    # --- A new part ----------------------------------------------------------------------------------------

    def test_part_answers(self):
        self.python("hostd/test_hostd.py", "Service.test_uptime")
        self.python("hostd/test_openapi.py")
        self.python("structure/test_structure.py")

    # --- A new command -------------------------------------------------------------------------------------

    def test_command(self):
        self.assertRegex(self.tpuctl("--help").stdout, r"\n  uptime +how long the agent has been up\n")
        self.assertIn("Usage: tpuctl uptime [--json]", self.tpuctl("uptime", "--help").stdout)
        self.python("ctl/test_ctl.py", "Uptime")

    def test_command_is_completed_and_in_its_page(self):
        self.python("package/test_completion.py", "Completion.test_verbs", "Completion.test_checks")
        self.python("package/test_pages.py", "Options.test_tpuctl")

    # --- A new key of a run --------------------------------------------------------------------------------

    def tpuctl(self, *words):
        return subprocess.run([self.build / "agent/ctl/tpuctl", *words], capture_output=True,
                              text=True, timeout=60, check=False, env=os.environ | {"LC_ALL": "C.UTF-8"})

    def unit_of(self, json):
        return subprocess.run([self.build / "tests/unit/test-added-key", json],
                              capture_output=True, text=True, timeout=60, check=False)

    def test_flag_and_help(self):
        self.assertRegex(
    self.tpuctl(
        "run",
        "--help").stdout,
         r"--cpu-weight N +its share of the CPUs beside other units\n")
        self.assertRegex(
    self.tpuctl(
        "run",
        "--help").stdout,
         r"--log-noise WORD +how much it logs; one of: quiet, loud\n")

    def test_bounds_are_alike(self):
        wrong = "cpu_weight '10001' is not a whole number from 1 to 10000"
        self.assertEqual(
    self.tpuctl(
        "run",
        "--cpu-weight",
        "10001",
        "--",
        "true").stderr,
         f"tpuctl run: {wrong}\n")
        self.assertEqual(self.unit_of('{"argv":["true"],"cpu_weight":10001}').stdout, f"{wrong}\n")
        file = self.build / "wrong.ini"
        file.write_text("[Run]\nCpuWeight=10001\n")
        self.assertIn(wrong, self.tpuctl("run", "-f", file, "--", "true").stderr)
        self.assertIn(
    "log_noise 'no' is not one of quiet, loud",
    self.tpuctl(
        "run",
        "--log-noise",
        "no",
        "--",
         "true").stderr)

    def test_page(self):
        self.assertIn(".It Fl -cpu-weight Ar N\nits share of the CPUs beside other units.\n",
                      (self.build / "docs/man/tpuctl.1").read_text())

    def test_unit(self):
        found = self.unit_of('{"argv":["true"],"cpu_weight":50}')
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        self.assertRegex(found.stdout, r'STRING "CPUWeight";\s+VARIANT "t" \{\s+UINT64 50;')
        self.assertNotIn("CPUWeight", self.unit_of('{"argv":["true"]}').stdout)

    def test_properties_hold_for_it(self):
        self.unit("run-keys")


if __name__ == "__main__":
    unittest.main()
