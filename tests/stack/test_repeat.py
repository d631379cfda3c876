# SPDX-License-Identifier: Apache-2.0
"""What tpu-stack --repeat keeps from one capture to the next must never show: the target changes between
captures, and says itself
what is there then.
"""
import json
import os
import select
import subprocess
import sys
import unittest

from test_stack import PYTHON, ROOT, SEED, TOOL, Target, frames_of

# Does what a line of its input says and answers with all threads' stacks as the interpreter has them,
# between two marks
# that the stacks do not change.
TARGET = """
import json, os, sys, threading
made = {}
def report():
    frames = sys._current_frames()
    answer = {}
    for t in threading.enumerate():
        f, chain = frames[t.ident], []
        while f:
            chain.append([f.f_code.co_filename, f.f_lineno, getattr(f.f_code, "co_qualname", f.f_code.co_name)])
            f = f.f_back
        answer[t.native_id] = chain
    print(json.dumps(answer), flush=True)
def start(name, source):
    there, never = threading.Lock(), threading.Lock()
    there.acquire(), never.acquire()
    scope = {"there": there.release, "never": never}
    exec(compile(source, "made " + name, "exec"), scope)
    thread = threading.Thread(target=scope[name], daemon=True)
    made[name] = thread, never
    thread.start()
    there.acquire()
def end(name):
    thread, never = made.pop(name)
    never.release()
    thread.join()
print("ready", flush=True)
while True:
    words = sys.stdin.readline().rstrip().split("|")
    if words[0] == "start":
        start(words[1], words[2].replace("~", "\\n"))
    elif words[0] == "end":
        end(words[1])
    elif words[0] == "exec":
        os.execv(words[1], words[1:])
    report()
"""


class Captures:
    """The output of one tpu-stack that goes on."""

    def __init__(self, pid, *options):
        self.process = subprocess.Popen([TOOL, "--json", *options, "--repeat", "100000", "--every", "20ms",
                                         str(pid)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def read(self):
        part = os.read(self.process.stdout.fileno(), 1 << 20)
        if not part:
            raise AssertionError("tpu-stack ended")
        self.unread += part

    def line(self):
        while b"\n" not in self.unread:
            self.read()
        line, self.unread = self.unread.split(b"\n", 1)
        return line

    def next(self):
        """The next capture that began after now."""
        while select.select([self.process.stdout], [], [], 0)[0]:
            self.read()  # what was written before
        self.unread = self.unread[self.unread.rfind(b"\n") + 1:]
        self.line()  # was under way
        return json.loads(self.line())["processes"][0]


def function(name, lines, depth=5):
    """Source of a function that waits some calls deep, its lines so far down. All it does there is on one
    line and in no other frame."""
    return ("~" * lines + "def %s(n=%d, there=there, never=never):~ if n: return %s(n - 1)~ return there(), "
                          "never.acquire()" % (name, depth, name))


class Repeat(unittest.TestCase):
    def tell(self, t, *words):
        t.process.stdin.write("|".join(words) + "\n")
        t.process.stdin.flush()
        return {int(k): v for k, v in json.loads(t.process.stdout.readline()).items()}

    def check(self, captures, wanted, main):
        for _ in range(600):
            found = {t["tid"]: t for t in captures.next()["threads"]}
            if not any(t["changed"] or t["state"] == "R" for t in found.values()):
                break  # all have come to where they wait
        self.assertEqual(set(found), set(wanted))
        for tid, chain in wanted.items():
            self.assertFalse(found[tid]["changed"])
            if tid != main:
                self.assertEqual(frames_of(found[tid]), chain)

    def test_threads_and_code_that_come_and_go(self):
        with Target(PYTHON, "-c", TARGET) as t, Captures(t.pid) as captures:
            for n in range(12):
                name = "f%d" % (n % 2)  # the same name and size, so that its place in memory is taken again
                self.check(captures, self.tell(t, "start", name, function(name, n)), t.pid)
                self.check(captures, self.tell(t, "start", "other", function("other", 3, 40 * n)), t.pid)
                self.check(captures, self.tell(t, "end", name), t.pid)
                self.check(captures, self.tell(t, "end", "other"), t.pid)

    def test_another_program(self):
        with Target(PYTHON, "-c", TARGET) as t, Captures(t.pid) as captures:
            self.check(captures, self.tell(t, "start", "before", function("before", 1)), t.pid)
            t.process.stdin.write("exec|%s|-c|import time; time.sleep(1000)\n" % PYTHON)
            t.process.stdin.flush()
            for _ in range(600):
                process = captures.next()  # on its way there, it has an error most often
                if [f[:1] + f[2:] for x in process.get("threads", [])
                    for f in frames_of(x)] == [["<string>", "<module>"]] and \
                        process["threads"][0].get("syscall") == "clock_nanosleep":
                    break
            self.assertEqual(len(process["threads"]), 1)
            self.assertEqual(frames_of(process["threads"][0]), [["<string>", 1, "<module>"]])

    def test_no_python_any_more(self):
        with Target(PYTHON, "-c", TARGET) as t, Captures(t.pid) as captures:
            self.check(captures, self.tell(t, "start", "before", function("before", 1)), t.pid)
            t.process.stdin.write("exec|/bin/sleep|1000\n")
            t.process.stdin.flush()
            for _ in range(600):
                why = captures.next().get("no_python", "")
                if "no CPython interpreter" in why:
                    break
            self.assertIn("no CPython interpreter", why)

    def test_ended(self):
        with Target(PYTHON, "-c", TARGET) as t, Captures(t.pid) as captures:
            self.check(captures, self.tell(t, "start", "f", function("f", 1)), t.pid)
            t.process.kill()
            t.process.wait()
            self.assertEqual(captures.next()["error"], "there is no such process")

    @unittest.skipUnless(ROOT, "needs root: registers of threads that wait")
    def test_native(self):
        with Target(PYTHON, "-c", TARGET) as t, Captures(t.pid, "--native") as captures:
            for n in range(4):
                name = "f%d" % (n % 2)
                self.check(captures, self.tell(t, "start", name, function(name, n)), t.pid)
                self.check(captures, self.tell(t, "end", name), t.pid)

    def test_few_descriptors(self):
        """With less than it would keep open, all is there as well."""
        source = ("import threading, time\nfor _ in range(30): threading.Thread(target=time.sleep, "
                  "args=(1000,), daemon=True).start()\n"
                  "print('ready', flush=True)\ntime.sleep(1000)\n")
        with Target(PYTHON, "-c", source) as t:
            for limit in (20, 80, 200, 1024):
                r = subprocess.run(["prlimit", "--nofile=%d:%d" % (limit, limit), TOOL, "--json", "--repeat",
                                    "3", "--every", "1ms",
                                    str(t.pid)], capture_output=True, text=True, timeout=60)
                self.assertEqual(r.returncode, 0, r.stderr)
                for line in r.stdout.splitlines():
                    threads = json.loads(line)["processes"][0]["threads"]
                    self.assertEqual(len(threads), 31)
                    self.assertEqual({x["syscall"] for x in threads}, {"clock_nanosleep"})


if __name__ == "__main__":
    print("TEST_SEED=%d" % SEED, file=sys.stderr)
    unittest.main()
