# SPDX-License-Identifier: Apache-2.0
"""The tests of blocked and running threads against every other real CPython there is.

With FULL=1 those of other Debian releases (pythons.py, fetched when missing, as root); always those that
OTHER_PYTHONS names by path.
"""
import os
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pythons  # noqa: E402
import test_stack  # noqa: E402
from test_native import WAITING, settled  # noqa: E402
from test_stack import frames_of, python_target, stacks_of  # noqa: E402

FULL = os.environ.get("FULL") == "1" and os.geteuid() == 0
WANTED = [version for versions in pythons.SUITES.values() for version in versions]


def interpreters():
    """name -> command."""
    found = {}
    if FULL:
        subprocess.run([pythons.__file__], stdout=subprocess.DEVNULL)  # says itself what it cannot fetch
        found = {version: ["chroot", tree, "/usr/bin/python" + version] for version,
                 tree in pythons.trees().items()}
    for path in os.environ.get("OTHER_PYTHONS", "").split():
        found[path] = [path]
    return found


class Places(unittest.TestCase):
    """What is not in target_blocked.py, because it is another process or interpreter."""
    python = ""

    def test_fork_in_a_thread(self):
        source = ("import os, time, threading\ndef child():\n    print('ready', flush=True)\n    "
                  "time.sleep(1000)\n"
                  "def work():\n    if os.fork() == 0: child()\n    time.sleep(1000)\n"
                  "t = threading.Thread(target=work); t.start(); t.join()\n")
        with python_target(source, python=self.python) as t:
            with open("/proc/%d/task/%s/children" % (t.pid, max(os.listdir("/proc/%d/task" % t.pid),
                                                                key=int))) as f:
                child = int(f.read())
            time.sleep(0.1)
            try:
                threads = stacks_of(child)["threads"]
                self.assertEqual([x["tid"] for x in threads], [child])
                self.assertEqual([f["function"] for f in threads[0]["frames"]][0], "child")
            finally:
                os.kill(child, 9)

    def test_subinterpreter(self):
        source = ("import importlib\n"
                  "for name in '_interpreters', '_xxsubinterpreters':\n"
                  "    try: s = importlib.import_module(name); break\n"
                  "    except ImportError: pass\n"
                  "i = s.create()\n"
                  "s.run_string(i, 'import time\\nprint(\"ready\", flush=True)\\ntime.sleep(1000)')\n")
        with python_target(source, python=self.python) as t:
            time.sleep(0.1)
            threads = stacks_of(t.pid)["threads"]
            self.assertIn(1, [x["interpreter"] for x in threads])
            inner = [[f["line"], f["function"]] for x in threads for f in x["frames"]
                     if x["interpreter"] == 1]
            self.assertEqual(inner[:1], [[3, "<module>"]])

    def test_native_frames_in_their_places(self):
        """Whatever symbols the interpreter's file still has."""
        with python_target(WAITING, python=self.python) as t:
            settled(t.pid)
            plain, process = stacks_of(t.pid)["threads"], stacks_of(t.pid, "--native")
            for thread, same in zip(process["threads"], plain):
                self.assertTrue(thread["native"]["merged"], thread)
                self.assertEqual(frames_of(thread), frames_of(same))
            kinds = "".join("n" if "kind" in f else "p" for f in process["threads"][2]["frames"]
                            if f.get("kind") != "kernel")
            # sleep < lambda < sorted() < sorts, numbers < list() < …, thread, start
            self.assertRegex(kinds, r"^n+pn+p(n*p){1,2}n+(p+n+)+$")

    def test_who_holds_the_lock(self):
        source = ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), "
                  "daemon=True).start()\n"
                  "print('ready', flush=True)\nwhile True: pass\n")
        with python_target(source, python=self.python) as t:
            time.sleep(0.1)
            seen = [[x["gil"] for x in stacks_of(t.pid)["threads"]] for _ in range(20)]
            self.assertIn([True, False], seen)
            self.assertNotIn(True, [second for _, second in seen])


def load_tests(loader, _tests, _pattern):
    suite, found = unittest.TestSuite(), interpreters()
    for name, command in found.items():
        for base, test in ((test_stack.Blocked, "test_every_thread_is_as_it_says"),
                           (test_stack.Running, "test_every_chain_is_possible_or_marked"),
                           (Places, None)):
            label = "%s_%s" % (base.__name__, re.sub(r"\W", "_", name.strip("/")))
            case = type(label, (base,), {"python": command, "__module__": __name__, "__qualname__": label})
            suite.addTests([case(test)] if test else loader.loadTestsFromTestCase(case))
    missing = [v for v in WANTED if v not in found]
    if missing:
        reason = ("no CPython %s here: tests/stack/pythons.py fetches them, tools/test --full runs it"
                  % ", ".join(missing))

        class Missing(unittest.TestCase):
            @unittest.skip(reason)
            def test_other_versions(self):
                pass
        suite.addTest(Missing("test_other_versions"))
    return suite


if __name__ == "__main__":
    unittest.main()
