# SPDX-License-Identifier: Apache-2.0
"""tpu-stack --native: whole native stacks, Python frames where they belong, and a target that is never left
stopped.

TEST_SEED repeats a failure. FULL=1: more instants of death.
"""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from test_stack import (HERE, ROOT, SEED, TOOL, Target, frames_of, python_target, run_tool, sanitized,
                        source_of, stacks_of)

KILLS = 500 if os.environ.get("FULL") == "1" else 50
WAITING = ("import os, threading, time\n"
           "r, w = os.pipe()\n"
           "def reads():\n    os.read(r, 1)\n"
           "def sorts():\n    return sorted([1], key=lambda x: time.sleep(1000))\n"
           "def numbers():\n    yield sorts()\n"
           "threading.Thread(target=reads, daemon=True).start()\n"
           "threading.Thread(target=lambda: list(numbers()), daemon=True).start()\n"
           "time.sleep(0.3)\nprint('ready', flush=True)\nthreading.Event().wait()\n")


def settled(pid):
    """Waits until every thread of pid sleeps in a system call."""
    for _ in range(600):
        states = set()
        for tid in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/stat" % (pid, tid)) as f:
                states.add(f.read().rsplit(")", 1)[1].split()[0])
        if states == {"S"}:
            return
        time.sleep(0.1)


def natives(thread):
    return [f for f in thread["frames"] if f.get("kind") == "native"]


def left_alone(pid):
    """Threads of pid that are stopped or traced."""
    bad = []
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, tid)) as f:
            text = f.read()
        if re.search(r"^State:\s*[tT]", text, re.M) or not re.search(r"^TracerPid:\s*0$", text, re.M):
            bad.append(tid)
    return bad


@contextlib.contextmanager
def starved(pid):
    """pid in a control group with 1 ms of CPU a second; its threads with it."""
    old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    if (old / "cpu.cfs_quota_us").exists():
        group = old / f"test-starved-{pid}"
        files = {"cpu.cfs_period_us": "1000000", "cpu.cfs_quota_us": "1000"}
    elif "cpu" in (new / "cgroup.subtree_control").read_text().split():
        group, files = new / f"test-starved-{pid}", {"cpu.max": "1000 1000000"}
    else:
        raise unittest.SkipTest("no control group here may limit the CPU")
    group.mkdir()
    try:
        for name, text in files.items():
            (group / name).write_text(text)
        (group / "cgroup.procs").write_text(str(pid))
        time.sleep(1.5)
        yield
    finally:
        for left in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(left)
        group.rmdir()


class Native(unittest.TestCase):
    def program(self, directory):
        program = os.path.join(directory, "target")
        subprocess.run(["cc", "-O1", "-pthread", "-o", program, os.path.join(HERE, "target_signals.c")],
                       check=True)
        return program

    def test_python_frames_stand_where_they_run(self):
        with python_target(WAITING) as t:
            settled(t.pid)
            process, plain = stacks_of(t.pid, "--native"), stacks_of(t.pid)
            modules = {m["path"]: m for m in process["modules"]}
            self.assertTrue(all(re.fullmatch("[0-9a-f]{40}", m["build_id"]) for m in modules.values()),
                            modules)
            for thread, same in zip(process["threads"], plain["threads"]):
                native = thread["native"]
                self.assertTrue(native["merged"], native)
                self.assertFalse(native["cut"])
                self.assertEqual(native["pause_ns"], 0)  # it waits: nothing had to be stopped
                self.assertEqual(frames_of(thread), frames_of(same))
                frames = natives(thread)
                self.assertTrue(all(f["module"] in modules for f in frames))
                # the Python frames are it
                self.assertFalse([f for f in frames if f["function"].startswith("_PyEval_EvalFrameDefault")])
                kinds = [f.get("kind", "python") for f in thread["frames"] if f.get("kind") != "kernel"]
                self.assertEqual((kinds[0], kinds[-1]), ("native", "native"))
            text = run_tool("--native", t.pid).stdout
            self.assertRegex(text,
                             r'(?s)\n  read\+0x\w+ \(libc.so.6\)\n(  \S+ \(python3.11[^\n]*\n)+  File '
                             r'"<string>", line 4, in reads\n')
            self.assertRegex(text,
                             r'line 6, in sorts.<locals>.<lambda>\n(  (?!File)[^\n]+\n)+  File "<string>", '
                             r'line 6, in sorts\n')

    @unittest.skipUnless(ROOT, "needs root, to make a control group")
    def test_threads_that_get_no_cpu(self):
        """They cannot come to a stop: what is read without one is the answer all the same. Two threads, 1 ms
        in each second."""
        with python_target("import threading\ndef spin():\n    while True: pass\n"
                           "threading.Thread(target=spin, daemon=True).start()\nprint('ready', flush=True)\n"
                           "spin()\n") as t:
            while run_tool(t.pid).stdout.count("in spin\n") < 2:
                time.sleep(0.05)
            with starved(t.pid):
                done = subprocess.run([TOOL, "--native", str(t.pid)], capture_output=True, text=True,
                                      timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("in spin\n"), 2, done.stdout)
            self.assertEqual(left_alone(t.pid), [])

    @unittest.skipIf(sanitized(), "the sanitizer asks for terabytes")
    def test_however_little_memory_there_is(self):
        """Files of 64 MB each, of which code is mapped, cost none. Where memory ends, the native stacks are
        lost, and nothing else."""
        with tempfile.TemporaryDirectory() as d:
            large = [shutil.copy("/lib/x86_64-linux-gnu/libz.so.1", f"{d}/liblarge{i}.so") for i in range(4)]
            for path in large:
                os.truncate(path, 64 << 20)
            with python_target("import ctypes, threading\nkept = [ctypes.CDLL(p) for p in %r]\n"
                               "print('ready', flush=True)\nthreading.Event().wait()\n" % large) as t:
                settled(t.pid)
                lost = []
                for kilobytes in [*range(1000, 6000, 100), *range(8000, 48000, 8000)]:
                    few = ("sh", "-c", f'ulimit -S -d {kilobytes}; exec "$@"', "sh")
                    if run_tool(t.pid, prefix=few).returncode != 0:
                        continue  # not even Python's
                    answer = run_tool("--native", t.pid, prefix=few).stdout
                    self.assertIn('File "<string>", line 4', answer, f"{kilobytes} kB")
                    lost += [kilobytes] if "no native stacks" in answer else []
                self.assertLess(max(lost, default=0), 8000)

    def test_segments_that_are_not_aligned(self):
        """As ld -n lays a program out: its first segment begins behind the header, and is loaded alone."""
        source = ("__attribute__((noinline)) void sleeps(void) { for (;;) __asm__ volatile(\"syscall\" :: "
                  "\"a\"(34) : \"rcx\", \"r11\", \"memory\"); }\n"
                  + "".join(f"void fills{i}(void) {{ __asm__ volatile(\".skip 256, 0x90\"); }}\n"
                            for i in range(3))
                  + "__attribute__((noinline)) void calls(void) { sleeps(); __asm__ volatile(\"\"); }\n"
                  "void _start(void) { calls(); }\n")
        for options in (["-static", "-Wl,-n"], ["-static", "-Wl,-N"], ["-static"]):
            with self.subTest(options), tempfile.TemporaryDirectory() as d:
                subprocess.run(["cc", "-nostdlib", "-fno-stack-protector", *options, "-o", f"{d}/target",
                                "-x", "c", "-"], input=source, text=True, check=True)
                with subprocess.Popen([f"{d}/target"]) as p:
                    try:
                        time.sleep(0.2)
                        self.assertEqual(self.functions(p.pid)[:3], ["sleeps", "calls", "_start"])
                    finally:
                        p.kill()

    def functions(self, pid):
        return [f["function"] for f in natives(stacks_of(pid, "--native")["threads"][0])]

    def test_deleted_program(self):
        with tempfile.TemporaryDirectory() as d:
            python = shutil.copy(os.path.realpath("/usr/bin/python3"), os.path.join(d, "python3.11"))
            with python_target(WAITING, python=python) as t:
                settled(t.pid)
                os.unlink(python)
                self.assertIn("PyEval_EvalCode", self.functions(t.pid))

    @unittest.skipUnless(ROOT, "needs root, to make namespaces")
    def test_other_namespaces(self):
        """A container's own file system: what is mapped is read, not what has that name here."""
        with tempfile.TemporaryDirectory() as d:
            script = ("mount -t tmpfs none %s && cp %s %s/python3.11 && exec %s/python3.11 -c \"$0\"" %
                      (d, os.path.realpath("/usr/bin/python3"), d, d))
            with Target("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                        script, WAITING) as t:
                with open("/proc/%d/task/%d/children" % (t.pid, t.pid)) as f:
                    pid = int(f.read().split()[0])
                settled(pid)
                self.assertIn("PyEval_EvalCode", self.functions(pid))

    def test_symbols_that_mean_harm(self):
        """A symbol that is no UTF-8 and moves the cursor; a C++ one that never ends."""
        for name, shown in ((b"wai\xff\x1b_for_child", "wai?\x1b_for_child"),
                            (b"_ZN9999INSN9IIE", "_ZN9999INSN9IIE")):
            with tempfile.TemporaryDirectory() as d:
                program = os.path.join(d, "target")
                subprocess.run(["cc", "-O1", "-o", program, os.path.join(HERE, "target_vfork.c")],
                               check=True)
                with open(program, "r+b") as f:
                    data = f.read()
                    self.assertEqual(len(name), len(b"waits_for_child"))
                    f.seek(0)
                    f.write(data.replace(b"waits_for_child", name))
                with Target(program) as t:
                    with open("/proc/%d/task/%d/children" % (t.pid, t.pid)) as f:
                        child = int(f.read().split()[0])
                    self.assertIn(shown, self.functions(child))
                    self.assertNotIn("\x1b", run_tool("--native", child).stdout)
                    os.kill(child, signal.SIGKILL)

    def test_many_ways_to_wait(self):
        with python_target(source_of("target_blocked.py"), str(SEED)) as t:
            settled(t.pid)
            merged = [x["native"]["merged"] for x in stacks_of(t.pid, "--native")["threads"]
                      if len(frames_of(x)) < 900]
            self.assertEqual(merged.count(False), 0, "%d of %d" % (merged.count(False), len(merged)))

    def test_frames_are_those_of_another_unwinder(self):
        if not shutil.which("eu-stack"):
            self.skipTest("eu-stack is not installed")
        with python_target(WAITING) as t:
            settled(t.pid)
            process = stacks_of(t.pid, "--native")
            start = {m["path"]: m["start"] for m in process["modules"]}
            # Where Python frames stand, one of the other's frames is the interpreter loop.
            ours = {x["tid"]: {f["address"] + start[f["module"]] for f in natives(x)}
                    for x in process["threads"]}
            runs = {x["tid"]: sum("kind" not in f and "kind" in g for f,
                                  g in zip(x["frames"], x["frames"][1:])) for x in process["threads"]}
            theirs, current = {}, None
            for line in subprocess.run(["eu-stack", "-p", str(t.pid)], capture_output=True,
                                       text=True).stdout.splitlines():
                m = re.match(r"TID (\d+):|#\d+ +0x([0-9a-f]+)", line)
                if m and m[1]:
                    current = theirs[int(m[1])] = []
                elif m:
                    current.append(int(m[2], 16))
            self.assertEqual(set(ours), set(theirs))
            for tid, stack in theirs.items():
                # A stop may have sent the thread through its system call once more: the frame inside it can
                # be another.
                self.assertLessEqual(len(set(stack[1:]) - ours[tid]), runs[tid])
                self.assertLessEqual(len(ours[tid] - set(stack)), 1)

    def test_other_programs(self):
        with tempfile.TemporaryDirectory() as d, Target(self.program(d)) as t:
            r = run_tool("--json", "--native", t.pid)
            self.assertEqual(r.returncode, 0, r.stderr)
            process = json.loads(r.stdout)["processes"][0]
            self.assertIn("no CPython", process["no_python"])
            self.assertEqual(len(process["threads"]), 10)
            symbols = [[f["function"] for f in natives(x)] for x in process["threads"]]
            self.assertEqual(sum("clock_nanosleep" in s for s in symbols), 8, symbols)
            spinning = [x for x in process["threads"] if x["native"]["pause_ns"] > 0]
            self.assertGreaterEqual(len(spinning), 1)
            self.assertIn("(native stacks only: no CPython", run_tool("--native", t.pid).stdout)

    def test_nothing_is_lost(self):
        """Signals that arrive while threads are stopped and let go all arrive, and the program runs on."""
        with tempfile.TemporaryDirectory() as d, Target(self.program(d)) as t:
            tool = subprocess.Popen([TOOL, "--json", "--native", "--repeat", "100", "--every", "1ms",
                                     str(t.pid)], stdout=subprocess.PIPE, text=True)
            sent = 500
            for _ in range(sent):
                os.kill(t.pid, signal.SIGRTMIN)
                time.sleep(0.0005)
            out = tool.communicate()[0]
            self.assertEqual(tool.returncode, 0)
            pauses = sorted(x["native"]["pause_ns"] for line in out.splitlines()
                            for x in json.loads(line)["processes"][0]["threads"]
                            if x["native"]["pause_ns"] > 0)
            os.kill(t.pid, signal.SIGTERM)
            signals, spins = map(int, t.process.stdout.readline().split())
            self.assertEqual(signals, sent)
            self.assertGreater(spins, 1000)
            print("%d signals, all arrived; %d stops: p50 %d µs, p99 %d µs, longest %d µs" % (
                sent, len(pauses), pauses[len(pauses) // 2] // 1000, pauses[len(pauses) * 99 // 100] // 1000,
                pauses[-1] // 1000))

    def test_whatever_processors_there_are(self):
        """A thread that runs is stopped from its own processor; where tpu-stack may not run there, from
        another."""
        cpus = sorted(os.sched_getaffinity(0))
        with tempfile.TemporaryDirectory() as d:
            program = os.path.join(d, "target")
            subprocess.run(["cc", "-O1", "-pthread", "-o", program, os.path.join(HERE, "target_threads.c")],
                           check=True)
            for theirs, ours in [(cpus[0], cpus[-1]), (cpus[-1], cpus[0]), (cpus[0], cpus[0])]:
                with Target("taskset", "-c", str(theirs), program, "3") as t:
                    for limit in (["taskset", "-c", str(ours)], []):
                        process = stacks_of(t.pid, "--native", prefix=limit)
                        self.assertEqual({x["native"].get("error") for x in process["threads"]}, {None})
                        stopped = [x for x in process["threads"] if x["native"]["pause_ns"]]
                        self.assertEqual([x["tid"] for x in stopped], [t.pid])
                        self.assertEqual(natives(stopped[0])[0]["function"], "main")
                        self.assertEqual(left_alone(t.pid), [])

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_waits_asleep(self):
        """On the processor of the thread that it waits for, looking for the stop again and again would be
        what keeps it from stopping."""
        with tempfile.TemporaryDirectory() as d:
            program, log = os.path.join(d, "target"), os.path.join(d, "log")
            subprocess.run(["cc", "-O1", "-pthread", "-o", program, os.path.join(HERE, "target_threads.c")],
                           check=True)
            with Target(program, "2") as t:
                stacks_of(t.pid, "--native", prefix=["strace", "-f", "-o", log],
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
            with open(log) as f:
                calls = [line for line in f if "wait4(" in line and "WALL" in line]
        self.assertTrue(calls)
        self.assertFalse([line for line in calls if "WNOHANG" in line or "EINVAL" in line], calls)
        self.assertLess(len(calls), 100)  # a tick of 50 ms ends each; the longest wait is 2 s

    def test_death_at_any_instant(self):
        rng = random.Random(SEED)
        print("TEST_SEED=%d" % SEED)
        died = 0
        with tempfile.TemporaryDirectory() as d, Target(self.program(d)) as t:
            start = time.monotonic()
            subprocess.run([TOOL, "--native", str(t.pid)], stdout=subprocess.DEVNULL, check=True)
            whole = time.monotonic() - start
            for _ in range(KILLS):
                tool = subprocess.Popen([TOOL, "--native", "--repeat", "100", "--every", "1ms", str(t.pid)],
                                        stdout=subprocess.DEVNULL)
                time.sleep(rng.random() * 2 * whole)
                tool.kill()
                died += tool.wait() == -9
                for _ in range(600):  # the kernel lets go when the dead one's last task is gone
                    bad = left_alone(t.pid)
                    if not bad:
                        break
                    time.sleep(0.1)
                self.assertEqual(bad, [])
        print("killed at %d instants: the target is never left stopped" % died)
        self.assertGreater(died, KILLS // 2)

    def test_stopped_target_stays_stopped(self):
        with tempfile.TemporaryDirectory() as d, Target(self.program(d)) as t:
            os.kill(t.pid, signal.SIGSTOP)
            for _ in range(600):
                if len(left_alone(t.pid)) == 10:
                    break
                time.sleep(0.1)
            r = run_tool("--json", "--native", t.pid)
            self.assertEqual(r.returncode, 0, r.stderr)
            threads = json.loads(r.stdout)["processes"][0]["threads"]
            self.assertTrue(all(natives(x) for x in threads))
            self.assertEqual(len(left_alone(t.pid)), 10)
            os.kill(t.pid, signal.SIGCONT)
            for _ in range(600):
                if not left_alone(t.pid):
                    break
                time.sleep(0.1)
            self.assertEqual(left_alone(t.pid), [])

    def test_another_debugger(self):
        if not shutil.which("strace"):
            self.skipTest("no strace")
        with tempfile.TemporaryDirectory() as d, Target(self.program(d)) as t:
            with subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-p", str(t.pid)],
                                  stderr=subprocess.PIPE, text=True) as other:
                other.stderr.readline()
                r = run_tool("--json", "--native", t.pid)
                other.terminate()
                other.stderr.read()
            self.assertEqual(r.returncode, 0, r.stderr)
            errors = [x["native"].get("error") for x in json.loads(r.stdout)["processes"][0]["threads"]]
            self.assertIn("not permitted, or another debugger has it", errors)  # the one that spins


if __name__ == "__main__":
    unittest.main()
