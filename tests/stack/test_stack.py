# SPDX-License-Identifier: Apache-2.0
"""tpu-stack against real interpreters: what it prints is compared with what the target says of itself.

BUILD_DIR names the build tree. TEST_SEED repeats a failure; TARGET_PYTHON tries another CPython 3.11.
"""
import ast
import glob
import json
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
TOOL = os.path.join(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build")), "probes/stack/tpu-stack")
PYTHON = os.environ.get("TARGET_PYTHON", "/usr/bin/python3")  # a CPython 3.11
SEED = int(os.environ.get("TEST_SEED", time.time()))
ROOT = os.geteuid() == 0


def sanitized():
    with open(TOOL, "rb") as f:
        return b"__asan_init" in f.read()


def run_tool(*args, prefix=(), **more):
    return subprocess.run([*prefix, TOOL, *map(str, args)], capture_output=True, text=True, timeout=60,
                          **more)


def stacks_of(pid, *options, prefix=(), **more):
    """The process object of pid in --json."""
    r = run_tool("--json", *options, pid, prefix=prefix, **more)
    if r.returncode != 0:
        raise AssertionError("exit code %d: %s" % (r.returncode, r.stderr))
    answer = json.loads(r.stdout)
    return next(p for p in answer["processes"] if p["pid"] == int(pid))


def frames_of(thread):
    return [[f["file"], f["line"], f["function"]] for f in thread["frames"] if "kind" not in f]


def parse_text(text):
    """The text form: tid -> [[file, line, function]...]."""
    threads = {}
    for line in text.splitlines():
        m = re.match(r'thread (\d+) "', line)
        if m:
            current = threads[int(m[1])] = []
            continue
        m = re.match(r'  File "(.*)", line (\d+), in (.*)$', line)
        if m:
            current.append([m[1], int(m[2]), m[3]])
    return threads


class Target:
    """A program that printed "ready"; killed on the way out."""

    def __init__(self, *command, ready="ready", **more):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        **more)
        line = self.process.stdout.readline()
        if line != ready + "\n":
            self.__exit__()
            raise AssertionError("the target said %r" % line)

    @property
    def pid(self):
        return self.process.pid

    def ask(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return {int(k): v for k, v in json.loads(self.process.stdout.readline()).items()}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def python_target(source, *args, python=PYTHON, **more):
    return Target(*([python] if isinstance(python, str) else python), "-c", source, *args, **more)


def source_of(name):
    with open(os.path.join(HERE, name)) as f:
        return f.read()


class Blocked(unittest.TestCase):
    python = PYTHON  # or a list of words: test_versions.py

    def test_every_thread_is_as_it_says(self):
        print("TEST_SEED=%d" % SEED)
        rng = random.Random(SEED)
        threads = frames = 0
        for _ in range(3):
            with python_target(source_of("target_blocked.py"), str(rng.randrange(10**6)),
                               python=self.python) as t:
                before = t.ask()
                by_json = stacks_of(t.pid)
                by_text = parse_text(run_tool(t.pid).stdout)
                after = t.ask()
                self.assertEqual(before, after)
                self.assertGreater(len(before), 40)
                seen = {x["tid"]: x for x in by_json["threads"]}
                self.assertEqual(len(seen), len(before) + 1)  # the one that answers
                for tid, stack in before.items():
                    self.assertFalse(seen[tid]["changed"])
                    self.assertEqual(frames_of(seen[tid]), stack)
                    self.assertEqual(by_text[tid], stack)
                    threads += 1
                    frames += len(stack)
                self.assertEqual(by_json["threads"][0]["tid"], t.pid)
                self.assertEqual(by_json["other_threads"], 0)
                self.assertTrue(all(x["state"] == "S" and not x["gil"] for x in by_json["threads"]))
        print("%d threads with %d frames: all equal" % (threads, frames))

    def test_what_it_waits_in(self):
        for end, call in (("os.read(os.pipe()[0], 1)", "read"), ("time.sleep(1000)", "clock_nanosleep"),
                          ("select.poll().poll()", "poll"),
                          ("threading.Lock().acquire() and l.acquire()", "futex")):
            source = ("import os, select, threading, time\nl = threading.Lock(); l.acquire()\n"
                      "print('ready', flush=True)\n" + end)
            with python_target(source) as t:
                for _ in range(600):
                    thread = stacks_of(t.pid)["threads"][0]
                    if thread.get("syscall") == call:
                        break
                    time.sleep(0.1)
                self.assertEqual(thread["syscall"], call)
                self.assertIn(" waits in %s" % call, run_tool(t.pid).stdout)

    def test_deeper_than_the_limit(self):
        source = ("import sys, threading, time\nsys.setrecursionlimit(10000)\nthreading.stack_size(256 << "
                  "20)\n"
                  "def down(n):\n    if n: return down(n - 1)\n    print('ready', flush=True); "
                  "time.sleep(1000)\n"
                  "t = threading.Thread(target=down, args=(6000,)); t.start(); t.join()\n")
        with python_target(source) as t:
            time.sleep(0.1)
            deep = stacks_of(t.pid)["threads"][1]
            self.assertTrue(deep["frames_cut"])
            self.assertEqual(len(deep["frames"]), 4096)
            self.assertIn("(more frames: only the innermost 4096 were read)", run_tool(t.pid).stdout)

    def test_output_is_bounded(self):
        source = ("import sys, threading, time\nsys.setrecursionlimit(10000)\nthreading.stack_size(64 << "
                  "20)\nn = 30\n"
                  "exec(compile('def '+'f'*3000+'(n):\\n if n: return '+'f'*3000+'(n - 1)\\n b.wait(); "
                  "time.sleep(1000)',"
                  "'x' * 3000, 'exec'))\nb = threading.Barrier(n + 1)\n"
                  "for i in range(n): threading.Thread(target=globals()['f' * 3000], args=(300,), "
                  "daemon=True).start()\n"
                  "b.wait(); print('ready', flush=True); time.sleep(1000)\n")
        with python_target(source) as t:
            for options in ([], ["--json"]):
                r = run_tool(*options, t.pid)
                self.assertEqual(r.returncode, 3)
                self.assertLessEqual(len(r.stdout.encode()), 4 << 20)
                self.assertGreater(len(r.stdout), 3 << 20)
                self.assertIn("longer than 4194304 bytes", r.stderr)
                if options:
                    self.assertTrue(json.loads(r.stdout)["cut"])

    def test_stopped_process_is_read(self):
        with python_target("import time\nprint('ready', flush=True)\ntime.sleep(1000)\n") as t:
            os.kill(t.pid, 19)
            time.sleep(0.1)
            self.assertIn(" stopped\n", run_tool(t.pid).stdout)
            self.assertEqual(stacks_of(t.pid)["threads"][0]["state"], "T")

    def test_control_characters_are_escaped(self):
        source = ("import time\nexec(compile('print(\"ready\", flush=True); time.sleep(1000)',"
                  "'evil\\n\\x1b[2Jthread 1 \\x9b', 'exec'))")
        with python_target(source) as t:
            time.sleep(0.1)
            r = run_tool(t.pid)
            self.assertIn('File "evil\\x0a\\x1b[2Jthread 1 \\x9b", line 1, in <module>\n', r.stdout)
            self.assertNotIn("\x1b", r.stdout)
            self.assertEqual(stacks_of(t.pid)["threads"][0]["frames"][0]["file"],
                             "evil\n\x1b[2Jthread 1 \x9b")

    def test_arguments_stay_private(self):
        with tempfile.TemporaryDirectory() as d:
            script = os.path.join(d, "train.py")
            with open(script, "w") as f:
                f.write("import time\nprint('ready', flush=True)\ntime.sleep(1000)\n")
            with Target(PYTHON, "-u", "-X", "dev", script, "--token=s3cret") as t:
                r = run_tool(t.pid)
                self.assertRegex(r.stdout.splitlines()[0], r"^process \d+ python3\S* " + re.escape(script)
                                 + r" \(CPython 3\.11\.\d+\)$")
                self.assertNotIn("s3cret", r.stdout)


class Running(unittest.TestCase):
    python = PYTHON
    CAPTURES = int(os.environ.get("CAPTURES", "200"))

    @staticmethod
    def calls(source):
        """Which function can be called from which line, and the lines of each function, from the source."""
        tree = ast.parse(source)
        names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        edges, lines = set(), {}
        for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)] + [tree]:
            name = getattr(function, "name", "<module>")
            body = [n for child in function.body for n in ast.walk(child)] if name != "<module>" else [
                n for child in function.body if not isinstance(child, ast.FunctionDef)
                for n in ast.walk(child)]
            lines[name] = {n.lineno for n in ast.walk(function) if hasattr(n, "lineno")}
            for n in body:
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names:
                    edges.add((name, n.lineno, n.func.id))
        return edges, lines

    def wait_for(self, path, condition):
        """The counters of the target, when they are as wanted."""
        for _ in range(600):
            with open(path, "rb") as f:
                now = struct.unpack("QQ", f.read())
            if condition(now):
                return now
            time.sleep(0.1)
        self.fail("the target stands still at %d and %d rounds" % now)

    def test_every_chain_is_possible_or_marked(self):
        source = source_of("target_running.py")
        edges, lines = self.calls(source)
        total = changed = checked = 0
        with tempfile.NamedTemporaryFile() as counters:
            counters.write(bytes(16))
            counters.flush()
            with python_target(source, str(counters.fileno()), python=self.python,
                               pass_fds=[counters.fileno()]) as t:
                time.sleep(0.1)
                for _ in range(self.CAPTURES):
                    for thread in stacks_of(t.pid)["threads"]:
                        total += 1
                        if thread["changed"]:
                            changed += 1
                            continue
                        own = [f for f in frames_of(thread) if f[0] == "<string>"]
                        for inner, outer in zip(own, own[1:]):
                            edge = (outer[2], outer[1], inner[2])
                            if inner[2] == "numbers":  # resumed by the for statement
                                self.assertEqual(outer[2], "consume", own)
                            else:
                                self.assertIn(edge, edges, own)
                            checked += 1
                        # what a generator ends with is on no line, from 3.12 on
                        if own[0][2] != "numbers" or own[0][1] != 0:
                            self.assertIn(own[0][1], lines[own[0][2]], own)
                        self.assertIn(own[-1][2], ("<module>", "spin"), own)
                    with open("/proc/%d/stat" % t.pid) as f:
                        self.assertNotIn(f.read().rsplit(")", 1)[1].split()[0], "Tt")
                last = self.wait_for(counters.name, lambda now: min(now) > 100)
                self.wait_for(counters.name, lambda now: sum(now) > sum(last))  # it runs on
        print("%d threads read while running: %d marked as changed, %d calls checked, all possible"
              % (total, changed, checked))
        self.assertGreater(checked, 5 * self.CAPTURES / 4)  # the marks must not swallow the test


class Calls(unittest.TestCase):
    def test_only_reads(self):
        if not shutil.which("strace"):
            self.skipTest("no strace")
        with python_target("import time\nprint('ready', flush=True)\ntime.sleep(1000)\n") as t, \
                tempfile.NamedTemporaryFile("r") as out:
            r = run_tool(t.pid, prefix=("strace", "-f", "-o", out.name),
                         # the leak check itself cannot be traced
                         env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual(r.returncode, 0, r.stderr)
            calls = re.findall(r"^(?:\d+ +)?(\w+)\((.*)$", out.read(), re.M)
            names = {c[0] for c in calls}
            self.assertIn("process_vm_readv", names)
            self.assertFalse(names & {"ptrace", "kill", "tkill", "tgkill", "rt_sigqueueinfo",
                                      "rt_tgsigqueueinfo", "pidfd_send_signal",
                                      "process_vm_writev", "socket", "setns"}, names)
            for name, rest in calls:
                if name.startswith("open"):
                    self.assertNotIn("O_RDWR", rest)
                    self.assertNotIn("O_WRONLY", rest)


class Refused(unittest.TestCase):
    def refused(self, words, *args, code=3, shown=(), **more):
        r = run_tool(*args, **more)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertIn(words, r.stderr)
        self.assertEqual(re.findall(r"  (waits .*)", r.stdout), list(shown))
        self.assertNotIn("File", r.stdout)
        return r

    def test_not_python(self):
        with subprocess.Popen(["sleep", "1000"]) as p:
            for options in ((), ("--children",)):
                r = run_tool(*options, p.pid)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn("process %d sleep 1000 (no CPython interpreter in its memory map)" % p.pid, r.stdout)
            p.kill()

    def test_json_of_what_was_not_read(self):
        r = run_tool("--json", 99999999)
        self.assertEqual(r.returncode, 3)
        self.assertEqual(json.loads(r.stdout)["processes"],
                         [{"pid": 99999999, "command": "", "error": "there is no such process"}])

    def test_dead(self):
        p = subprocess.Popen(["true"])
        p.wait()
        self.refused("process %d: there is no such process" % p.pid, p.pid)

    def test_zombie(self):
        p = subprocess.Popen([PYTHON, "-c", ""])
        os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
        self.refused("zombie", p.pid)
        p.wait()

    def test_usage(self):
        for word in ("abc", "-1", "0", "1x", "", "99999999999999999999", "--frames"):
            r = run_tool(word)
            self.assertEqual(r.returncode, 64, word)
            self.assertIn("--help", r.stderr)
        self.refused("name 1 to", code=64)
        self.assertIn("innermost frame first", run_tool("--help").stdout)

    def test_one_of_two(self):
        with python_target("import time\nprint('ready', flush=True)\ntime.sleep(1000)\n") as t:
            r = run_tool(t.pid, 99999999)
            self.assertEqual(r.returncode, 3)
            self.assertIn("process %d python3" % t.pid, r.stdout)

    def test_other_root(self):
        with tempfile.TemporaryDirectory() as d:
            os.makedirs(os.path.join(d, "proc/7"))
            for name, text in (("status", "NSpid:\t7\n"), ("cmdline", "python3\0x.py\0"),
                               ("stat", "7 (x) S\n")):
                with open(os.path.join(d, "proc/7", name), "w") as f:
                    f.write(text)
            self.refused("process 7: memory can be read on the real machine only", "--root", d, 7)
            self.refused("process 8: there is no such process", "--root", d, 8)

    def test_other_version(self):
        """A program with the symbols of another CPython is refused by its own version number."""
        source = ("#include <unistd.h>\nchar _PyRuntime[4096] = { 1 };\nconst unsigned long Py_Version = "
                  "%s;\n"
                  "int main(void) { write(1, \"ready\\n\", 6); for (;;) pause(); }\n")
        for version, words in (("0x036303F0", "CPython 3.99.3 is not supported yet; supported: 3.8 to 3.15"),
                               ("0x030B00A4", "CPython 3.11.0a4 is not supported yet"),
                               ("0", "CPython 0.0.0 is not supported yet")):
            with tempfile.TemporaryDirectory() as d:
                program = os.path.join(d, "python3")
                subprocess.run(["cc", "-rdynamic", "-w", "-x", "c", "-", "-o", program],
                               input=source % version, text=True, check=True)
                with Target(program) as t:
                    signal = ["waits for something that is not known: a signal"]
                    self.refused("process %d: %s" % (t.pid, words), t.pid, shown=signal)
                    os.unlink(program)
                    self.refused(words, t.pid, shown=signal)

    @unittest.skipUnless(ROOT, "needs root, to become another user")
    def test_not_permitted(self):
        with python_target("import time\nprint('ready', flush=True)\ntime.sleep(1000)\n") as t, tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o755)
            tool = shutil.copy(TOOL, d)
            r = subprocess.run([tool, str(t.pid)], capture_output=True, text=True, user=65534, group=65534,
                               extra_groups=[])
            self.assertEqual(r.returncode, 3)
            self.assertIn("CAP_SYS_PTRACE", r.stderr)


class Places(unittest.TestCase):
    """Where the interpreter's file is not where its path says."""
    SLEEP = "import time\ndef here():\n    print('ready', flush=True)\n    time.sleep(1000)\nhere()\n"

    def copy_python(self, directory):
        return shutil.copy(os.path.realpath("/usr/bin/python3"), os.path.join(directory, "python3.11"))

    def check(self, thread, tid=None):
        self.assertEqual([f["function"] for f in thread["frames"]], ["here", "<module>"])
        if tid:
            self.assertEqual(thread["tid"], tid)

    def test_deleted_program(self):
        with tempfile.TemporaryDirectory() as d:
            python = self.copy_python(d)
            with python_target(self.SLEEP, python=python) as t:
                time.sleep(0.1)
                os.unlink(python)
                self.check(stacks_of(t.pid)["threads"][0], t.pid)
                os.symlink("/dev/zero", python)
                self.check(stacks_of(t.pid)["threads"][0], t.pid)

    @unittest.skipUnless(ROOT, "needs root, to become another user")
    def test_same_user_without_capabilities(self):
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o755)
            python, tool = self.copy_python(d), shutil.copy(TOOL, d)
            who = dict(user=65534, group=65534, extra_groups=[])
            with python_target(self.SLEEP, python=python, **who) as t:
                time.sleep(0.1)
                for gone in (False, True):
                    if gone:
                        os.unlink(python)
                    r = subprocess.run([tool, str(t.pid)], capture_output=True, text=True, **who)
                    self.assertEqual(r.returncode, 0, r.stderr)
                    self.assertIn('line 4, in here\n  File "<string>", line 5, in <module>', r.stdout)

    @unittest.skipUnless(ROOT, "needs root, to make namespaces")
    def test_other_namespaces(self):
        source = ("import os, threading, time\ndef here():\n    b.wait()\n    time.sleep(1000)\nb = "
                  "threading.Barrier(3)\n"
                  "for i in range(2): threading.Thread(target=here, daemon=True).start()\nb.wait()\n"
                  "print('ready', flush=True)\ntime.sleep(1000)\n")
        with tempfile.TemporaryDirectory() as d:
            script = ("mount -t tmpfs none %s && cp %s %s/python3.11 && cp %s %s/ && exec %s/python3.11 -c "
                      "\"$0\"" %
                      (d, os.path.realpath("/usr/bin/python3"), d, TOOL, d, d))
            command = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                       script, source]
            with Target(*command) as t:
                with open("/proc/%d/task/%d/children" % (t.pid, t.pid)) as f:
                    pid = int(f.read().split()[0])
                time.sleep(0.1)
                threads = stacks_of(pid)["threads"]
                self.assertEqual(sorted(x["tid"] for x in threads),
                                 sorted(map(int, os.listdir("/proc/%d/task" % pid))))
                self.assertEqual(threads[1]["frames"][0]["function"], "here")
                inside = subprocess.run(["nsenter", "-t", str(pid), "--pid", "--mount",
                                         os.path.join(d, "tpu-stack"), "--json", "1"],
                                        capture_output=True, text=True)
                self.assertEqual(inside.returncode, 0, inside.stderr)
                self.assertEqual([frames_of(x)
                                  for x in json.loads(inside.stdout)["processes"][0]["threads"]],
                                 [frames_of(x) for x in threads])

    def test_children_after_fork(self):
        source = ("import os, time, threading\ndef child():\n    print('ready', flush=True)\n    "
                  "time.sleep(1000)\n"
                  "def work():\n    if os.fork() == 0: child()\n    time.sleep(1000)\n"
                  "t = threading.Thread(target=work); t.start(); t.join()\n")
        with python_target(source) as t:
            time.sleep(0.1)
            r = run_tool("--json", "--children", t.pid)
            self.assertEqual(r.returncode, 0, r.stderr)
            parent, child = json.loads(r.stdout)["processes"]
            self.assertEqual([len(parent["threads"]), len(child["threads"])], [2, 1])
            self.assertEqual(child["threads"][0]["tid"], child["pid"])
            self.assertEqual(child["threads"][0]["frames"][0]["function"], "child")
            os.kill(child["pid"], 9)

    def test_subinterpreter(self):
        source = ("import _xxsubinterpreters as s\ni = s.create()\n"
                  "s.run_string(i, 'import time\\nprint(\"ready\", flush=True)\\ntime.sleep(1000)')\n")
        with python_target(source) as t:
            time.sleep(0.1)
            threads = stacks_of(t.pid)["threads"]
            self.assertIn(1, [x["interpreter"] for x in threads])
            self.assertIn([["<string>", 3, "<module>"]], [frames_of(x)[:1] for x in threads])


if __name__ == "__main__":
    unittest.main()
