# SPDX-License-Identifier: Apache-2.0
"""Which processes tpu-stack reads, and how often: --cgroup, --children, several PIDs, --repeat and
--every."""
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

from test_stack import PYTHON, Target, python_target, run_tool

SLEEP = "import time\nprint('ready', flush=True)\ntime.sleep(1000)\n"
ROOTS = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup"]


class Group:
    """A control group of our own with one below it; skips where none can be made."""

    def __init__(self, test):
        for root in ROOTS:
            self.path = os.path.join(root, "tpu-stack-test-%d" % os.getpid())
            try:
                os.mkdir(self.path)
                os.mkdir(self.path + "/below")
            except OSError:
                continue
            if os.path.exists(self.path + "/below/cgroup.procs"):
                self.name = "/" + os.path.basename(self.path)
                test.addCleanup(self.remove)
                return
            self.remove()
        test.skipTest("no control group can be made here: run as root")

    def take(self, pid, below=""):
        with open(self.path + below + "/cgroup.procs", "w") as f:
            f.write(str(pid))

    def remove(self):
        for path in (self.path + "/below", self.path):
            for _ in range(600):
                try:
                    os.rmdir(path)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.1)  # its processes are ending


class Targets(unittest.TestCase):
    def pids(self, *options, code=0):
        r = run_tool("--json", *options)
        self.assertEqual(r.returncode, code, r.stderr)
        return sorted(p["pid"] for p in json.loads(r.stdout)["processes"])

    def test_cgroup(self):
        group = Group(self)
        with python_target(SLEEP) as a, python_target(SLEEP) as b, python_target(SLEEP) as outside, \
                subprocess.Popen(["sleep", "1000"]) as other:
            try:
                group.take(a.pid)
                group.take(b.pid, "/below")
                group.take(other.pid)
                self.assertEqual(self.pids("--cgroup", group.path), sorted([a.pid, b.pid, other.pid]))
                self.assertEqual(self.pids("--cgroup", group.name), sorted([a.pid, b.pid, other.pid]))
                self.assertEqual(self.pids("--cgroup", group.path + "/below", outside.pid),
                                 sorted([b.pid, outside.pid]))
                # each once
                self.assertEqual(self.pids("--cgroup", group.path, a.pid), sorted([a.pid, b.pid, other.pid]))
            finally:
                other.kill()

    def test_cgroup_without_python(self):
        group = Group(self)
        r = run_tool("--cgroup", group.path)
        self.assertEqual(r.returncode, 3)
        self.assertIn("control group %s: no process is in it" % group.path, r.stderr)
        r = run_tool("--cgroup", group.path + "/absent")
        self.assertEqual(r.returncode, 3)
        self.assertIn("control group %s/absent: No such file or directory" % group.path, r.stderr)

    def test_several(self):
        with python_target(SLEEP) as a, python_target(SLEEP) as b:
            r = run_tool("--json", b.pid, a.pid, b.pid)
            self.assertEqual([p["pid"] for p in json.loads(r.stdout)["processes"]], [b.pid, a.pid])

    def test_repeat(self):
        source = ("import time\ndef one():\n    time.sleep(0.05)\ndef two():\n    time.sleep(0.05)\n"
                  "print('ready', flush=True)\nwhile True: one(); two()\n")
        with python_target(source) as t:
            start = time.monotonic()
            r = run_tool("--json", "--repeat", 20, "--every", "23ms", t.pid)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertGreaterEqual(time.monotonic() - start, 19 * 0.023)
            captures = [json.loads(line) for line in r.stdout.splitlines()]
            self.assertEqual(len(captures), 20)
            inner = {c["processes"][0]["threads"][0]["frames"][0]["function"] for c in captures}
            self.assertLessEqual({"one", "two"}, inner)
            r = run_tool("--repeat", 2, "--every=1ms", t.pid)
            self.assertEqual(len(re.findall(r"^--- capture 2 of 2$", r.stdout, re.M)), 1)
            self.assertEqual(len(re.findall(r"^process %d " % t.pid, r.stdout, re.M)), 2)

    def test_repeat_until_it_ends(self):
        with python_target("import time\nprint('ready', flush=True)\ntime.sleep(0.5)\n") as t:
            r = run_tool("--json", "--repeat", 50, "--every", "20ms", t.pid)
            self.assertEqual(r.returncode, 3)
            captures = [json.loads(line)["processes"][0] for line in r.stdout.splitlines()]
            self.assertIn("threads", captures[0])
            self.assertIn("error", captures[-1])

    def test_usage(self):
        for words in (["--repeat", "0", "1"], ["--repeat", "x", "1"], ["--repeat", "100001", "1"],
                      ["--every", "1s", "1"],
                      ["--repeat", "2", "--every", "soon", "1"], ["--repeat", "2"]):
            r = run_tool(*words)
            self.assertEqual(r.returncode, 64, words)
            self.assertIn("--help", r.stderr)

    def test_virtual_environment(self):
        with tempfile.TemporaryDirectory() as d:
            subprocess.run([PYTHON, "-m", "venv", "--without-pip", d], check=True)
            with python_target(SLEEP, python=d + "/bin/python") as t:
                self.assertEqual(self.pids(t.pid), [t.pid])

    def test_embedded(self):
        """A program of another name that has CPython inside: in a library, and linked into it, with and
        without -rdynamic."""
        if not os.path.exists("/usr/include/python3.11/Python.h"):
            self.skipTest("the package libpython3.11-dev is not installed")
        source = ("#include <Python.h>\nint main(void) { Py_Initialize();\n"
                  "return PyRun_SimpleString(\"import time\\ndef here():\\n print('ready', flush=True)\\n "
                  "time.sleep(1000)\\nhere()\"); }\n")
        ways = [["-lpython3.11"],
                ["-no-pie", "-rdynamic", "-l:libpython3.11.a", "-lexpat", "-lz", "-lm", "-ldl"],
                ["-no-pie", "-l:libpython3.11.a", "-lexpat", "-lz", "-lm", "-ldl"]]
        for way in ways:
            with tempfile.TemporaryDirectory() as d:
                program = os.path.join(d, "trainer")
                subprocess.run(["cc", "-w", "-I/usr/include/python3.11", "-x", "c", "-", "-x", "none", "-o",
                                program, *way], input=source,
                               text=True, check=True)
                for stripped in (False, True):
                    if stripped:
                        subprocess.run(["strip", program], check=True)
                    with Target(program) as t:
                        r = run_tool("--json", t.pid)
                        self.assertEqual(r.returncode, 0, r.stderr)
                        frames = json.loads(r.stdout)["processes"][0]["threads"][0]["frames"]
                        self.assertEqual([f["function"] for f in frames], ["here", "<module>"])


if __name__ == "__main__":
    unittest.main()
