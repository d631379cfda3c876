# SPDX-License-Identifier: Apache-2.0
"""tpu-stack --native: the kernel's stacks and blocked threads' registers, by a BPF iterator, with two
capabilities that are given up at once."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from test_native import natives, settled
from test_stack import HERE, ROOT, TOOL, Target, python_target, run_tool, stacks_of

SLEEPS = ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
          "print('ready', flush=True)\ntime.sleep(1000)\n")
CAPABILITIES = ["bpf", "perfmon", "sys_ptrace", "dac_read_search", "checkpoint_restore"]
NUMBERS = {"perfmon": 38, "bpf": 39, "sys_ptrace": 19}


def as_nobody(*capabilities):
    words = ",".join(["-all"] + ["+" + c for c in capabilities])
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=" + words,
            "--ambient-caps=" + words,
            "--bounding-set=" + words]


def kernel_functions(thread):
    return [f["function"] for f in thread["frames"] if f.get("kind") == "kernel"]


def proc_functions(pid, tid):
    with open("/proc/%d/task/%d/stack" % (pid, tid)) as f:
        return re.findall(r"\] (\S+?)\+0x", f.read())


@unittest.skipUnless(ROOT, "needs root: /proc/PID/stack to compare, and to become another user")
class Kernel(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(self.folder, 0o755)
        self.tool = shutil.copy(TOOL, self.folder)
        with python_target(SLEEPS) as t:
            settled(t.pid)
            text = run_tool("--native", t.pid).stdout
        if "built without BPF" in text:
            self.skipTest("built without BPF")
        if "UNKNOWN" in text and not self.bpf_works():
            self.skipTest("no BPF on this machine: "
                          + text.split("kernel stacks: UNKNOWN: ")[1].splitlines()[0])
        self.assertNotIn("UNKNOWN", text)

    @staticmethod
    def bpf_works():
        """As another program says, so that a broken iterator of ours is no reason to skip its test."""
        tool = shutil.which("bpftool", path="/usr/sbin:/usr/bin")
        return (os.path.exists("/sys/kernel/btf/vmlinux") and tool
                and subprocess.run([tool, "prog", "list"], capture_output=True).returncode == 0)

    def build(self, name):
        program = os.path.join(self.folder, name)
        subprocess.run(["cc", "-O1", "-o", program, os.path.join(HERE, name + ".c")], check=True)
        return program

    def test_as_the_kernel_says(self):
        with python_target(SLEEPS) as t:
            settled(t.pid)
            process = stacks_of(t.pid, "--native")
            self.assertEqual(process["kernel_by"], "iter/task")
            self.assertEqual(len(process["threads"]), 2)
            for thread in process["threads"]:
                self.assertEqual(kernel_functions(thread), proc_functions(t.pid, thread["tid"]))
                self.assertGreater(len(kernel_functions(thread)), 2)
                self.assertEqual(thread["native"]["pause_ns"], 0)

    def test_uninterruptible(self):
        with Target(self.build("target_vfork")) as t:
            for _ in range(600):
                thread = stacks_of(t.pid, "--native")["threads"][0]
                if thread["state"] == "D":
                    break
                time.sleep(0.1)
            self.assertEqual(thread["state"], "D")
            self.assertEqual(thread["native"], {"merged": False, "cut": False, "pause_ns": 0})
            functions = [f["function"] for f in natives(thread)]
            self.assertEqual([f for f in functions if f in ("waits_for_child", "calls", "main")],
                             ["waits_for_child", "calls", "main"])
            self.assertEqual(kernel_functions(thread), proc_functions(t.pid, t.pid))
            with open("/proc/%d/task/%d/children" % (t.pid, t.pid)) as f:
                os.kill(int(f.read().split()[0]), signal.SIGKILL)

    def test_stopped(self):
        with python_target(SLEEPS) as t:
            settled(t.pid)
            os.kill(t.pid, signal.SIGSTOP)
            for _ in range(600):
                threads = stacks_of(t.pid, "--native")["threads"]
                if {x["state"] for x in threads} == {"T"}:
                    break
                time.sleep(0.1)
            for thread in threads:
                self.assertTrue(thread["native"]["merged"])
                self.assertEqual(thread["native"]["pause_ns"], 0)
                self.assertIn("do_signal_stop", kernel_functions(thread))

    def test_capabilities_are_given_up(self):
        with python_target(SLEEPS) as t:
            tool = subprocess.Popen([*as_nobody(*CAPABILITIES), self.tool, "--native", "--json", "--repeat",
                                     "100000", "--every", "5ms",
                                     str(t.pid)], stdout=subprocess.PIPE, text=True)
            try:
                for _ in range(3):  # the later ones by iterators made without any capability
                    self.assertIn('"kind":"kernel"', tool.stdout.readline())
                with open("/proc/%d/task/%d/children" % (tool.pid, tool.pid)) as f:
                    worker = int(f.read().split()[0])
                status = {}
                for pid in (tool.pid, worker):
                    with open("/proc/%d/status" % pid) as f:
                        status[pid] = f.read()
            finally:
                tool.kill()
                tool.communicate()
            for name in ("Inh", "Prm", "Eff", "Amb"):
                for pid, wanted in ((worker, [0, 0, 1]), (tool.pid, [0, 0, 0])):
                    bits = int(re.search(r"^Cap%s:\s*(\w+)$" % name, status[pid], re.M)[1], 16)
                    self.assertEqual([bits >> NUMBERS[c] & 1 for c in ("bpf", "perfmon", "sys_ptrace")],
                                     wanted, name)

    def test_not_permitted(self):
        with python_target(SLEEPS) as t:
            settled(t.pid)
            r = subprocess.run([*as_nobody("sys_ptrace", "dac_read_search", "checkpoint_restore"), self.tool,
                                "--native", str(t.pid)],
                               capture_output=True, text=True)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("\nkernel stacks: UNKNOWN: not permitted: it takes CAP_BPF and CAP_PERFMON\n",
                          r.stdout)
            self.assertNotIn("[kernel]", r.stdout)
            self.assertIn("clock_nanosleep+0x", r.stdout)

    def test_in_a_pid_namespace(self):
        command = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                   "exec /usr/bin/python3 -c \"$0\"", SLEEPS]
        with Target(*command) as t:
            with open("/proc/%d/task/%d/children" % (t.pid, t.pid)) as f:
                pid = int(f.read().split()[0])
            settled(pid)
            outside = stacks_of(pid, "--native")["threads"]
            inside = stacks_of(1, "--native",
                               prefix=["nsenter", "-t", str(pid), "--pid", "--mount"])["threads"]
            self.assertEqual([kernel_functions(x) for x in inside], [kernel_functions(x) for x in outside])
            self.assertTrue(all(kernel_functions(x) for x in inside))

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_who_waits_is_not_traced(self):
        with python_target(SLEEPS) as t, tempfile.NamedTemporaryFile("r") as out:
            settled(t.pid)
            r = run_tool("--native", t.pid, prefix=("strace", "-f", "-o", out.name),
                         env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual(r.returncode, 0, r.stderr)
            names = set(re.findall(r"^(?:\d+ +)?(\w+)\(", out.read(), re.M))
            self.assertIn("bpf", names)
            self.assertFalse(names & {"ptrace", "kill", "tkill", "tgkill", "rt_sigqueueinfo",
                                      "pidfd_send_signal", "process_vm_writev"}, names)


if __name__ == "__main__":
    unittest.main()
