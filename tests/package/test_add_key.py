#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A key of a run is one row and its field: added to a copy of the tree, it is in flag, help, page, JSON, bounds and unit, and no other file was touched."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
ROWS = """RUN_KEY(cpu_weight, NUMBER, 1, 10000, HERE | SLICES, "N", "its share of the CPUs beside other units", .unit = "CPUWeight")
RUN_KEY(log_noise, WORD, 0, 0, HERE | SLICES, "WORD", "how much it logs", .words = "quiet loud", .variable = "TRAIN_NOISE")
"""
FIELDS = """  optional uint64 cpu_weight = 1001;
  optional string log_noise = 1002 [default = ""];
}
"""
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

        if (run_spec_from_json(o, NULL, &kept.spec, why) < 0 || run_spec_check(kept.spec, RUN_HERE, why) < 0) {
                puts(why);
                return 1;
        }
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0 || sd_bus_new(&bus) < 0 || sd_bus_set_fd(bus, fds[0], fds[0]) < 0 ||
            sd_bus_start(bus) < 0 || unit_message_new(bus, &(struct unit_spec){ .kept = &kept }, &m) < 0 || sd_bus_message_seal(m, 1, 0) < 0)
                return 2;
        return sd_bus_message_dump(m, stdout, 0) < 0 ? 3 : 0;
}
"""


class AddKey(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.environ.get("FULL"):
            raise unittest.SkipTest("builds tpuctl anew, which takes a minute: with FULL=1")
        for tool in ("cmake", "ninja", "gcc"):
            if not shutil.which(tool):
                raise unittest.SkipTest(f"there is no {tool}")
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="tpu-add-key-test-")))
        cls.top, cls.build = folder / "tree", folder / "build"
        shutil.copytree(TOP, cls.top, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"), symlinks=True)
        with (cls.top / "agent/model/run/run_keys.def").open("a") as table:
            table.write(ROWS)
        proto = cls.top / "proto/run.proto"
        spec, rest = proto.read_text().split("\n}\n", 1)
        proto.write_text(spec + "\n" + FIELDS + rest)
        (cls.top / "tests/unit/test-added-key.c").write_text(DRIVER)
        (cls.top / "tests/unit/added.cmake").write_text("unit_test(added-key KNOWS launch)\n")
        cls.run_there("cmake", "-S", cls.top, "-B", cls.build, "-G", "Ninja", "-DCMAKE_C_FLAGS=-O1", "-DWITH_BPF=OFF")
        cls.run_there("cmake", "--build", cls.build, "-j2", "--target", "tpuctl", "pages", "test-run-keys", "test-added-key")

    @staticmethod
    def run_there(*words):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1700, check=False)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def tpuctl(self, *words):
        return subprocess.run([self.build / "agent/ctl/tpuctl", *words], capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"LC_ALL": "C.UTF-8"})

    def unit_of(self, json):
        return subprocess.run([self.build / "tests/unit/test-added-key", json], capture_output=True, text=True, timeout=60, check=False)

    def test_flag_and_help(self):
        self.assertRegex(self.tpuctl("run", "--help").stdout, r"--cpu-weight N +its share of the CPUs beside other units\n")
        self.assertRegex(self.tpuctl("run", "--help").stdout, r"--log-noise WORD +how much it logs; one of: quiet, loud\n")

    def test_bounds_are_alike(self):
        wrong = "cpu_weight '10001' is not a whole number from 1 to 10000"
        self.assertEqual(self.tpuctl("run", "--cpu-weight", "10001", "--", "true").stderr, f"tpuctl run: {wrong}\n")
        self.assertEqual(self.unit_of('{"argv":["true"],"cpu_weight":10001}').stdout, f"{wrong}\n")
        file = self.build / "wrong.ini"
        file.write_text("[Run]\nCpuWeight=10001\n")
        self.assertIn(wrong, self.tpuctl("run", "-f", file, "--", "true").stderr)
        self.assertIn("log_noise 'no' is not one of quiet, loud", self.tpuctl("run", "--log-noise", "no", "--", "true").stderr)

    def test_page(self):
        self.assertIn(".It Fl -cpu-weight Ar N\nits share of the CPUs beside other units.\n", (self.build / "docs/man/tpuctl.1").read_text())

    def test_unit(self):
        found = self.unit_of('{"argv":["true"],"cpu_weight":50}')
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        self.assertRegex(found.stdout, r'STRING "CPUWeight";\s+VARIANT "t" \{\s+UINT64 50;')
        self.assertNotIn("CPUWeight", self.unit_of('{"argv":["true"]}').stdout)

    def test_properties_hold_for_it(self):
        self.run_there(self.build / "tests/unit/test-run-keys")


if __name__ == "__main__":
    unittest.main()
