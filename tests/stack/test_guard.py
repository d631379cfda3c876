# SPDX-License-Identifier: Apache-2.0
"""tpu-stack and targets that hang, run on or want too much: each costs its own line, and what was read of it
and of all others is printed."""
import json
import lzma
import os
import resource
import subprocess
import tempfile
import time
import unittest

from hung_files import HungFiles
from test_stack import PYTHON, ROOT, TOOL, python_target, run_tool, sanitized
from test_waits import END, HEAD

# A page of its own whose content somebody would have to provide (userfaultfd(2)), and nobody does.
NEVER = HEAD + r"""
import ctypes, mmap, struct
l = ctypes.CDLL(None, use_errno=True)
l.mmap.restype = ctypes.c_void_p
l.mmap.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
page = l.mmap(None, 4096, 3, 0x22, -1, 0)
def never():
    fd = l.syscall(323, os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0 or l.ioctl(fd, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0)) < 0:
        sys.exit("no userfaultfd")
    if l.ioctl(fd, 0xC020AA00, struct.pack("QQQQ", page, 4096, 1, 0)) < 0:
        sys.exit("no registration")
    l.madvise(ctypes.c_void_p(page), 4096, 4)
r, w = os.pipe()
ctypes.memmove(page, r.to_bytes(4, "little") + b"\1\0\0\0", 8)
run(l.poll, ctypes.c_void_p(page), 1, -1)
time.sleep(0.5)
never()
"""


def build_library(folder):
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder + "/lib.so", "-x", "c", "-"], check=True, text=True,
                   input="#include <unistd.h>\nvoid rest(void) { for (;;) pause(); }\n")


class Guard(unittest.TestCase):
    def both(self, bad, *options):
        """What is printed of a bad target and of a good one behind it."""
        with python_target("import time\ndef good():\n    time.sleep(1000)\n"
                           "print('ready', flush=True)\ngood()") as good:
            began = time.monotonic()
            r = run_tool("--json", *options, bad, good.pid)
            print("%.1f s" % (time.monotonic() - began), r.stderr.strip())
            self.assertEqual(r.returncode, 3, r.stderr)
            first, second = json.loads(r.stdout)["processes"]
            self.assertEqual((first["pid"], second["pid"]), (bad, good.pid))
            self.assertIn("good", [f["function"] for f in second["threads"][0]["frames"]])
            return first, r

    @unittest.skipUnless(ROOT, "needs root: userfaultfd")
    def test_page_that_nobody_provides(self):
        try:
            target = python_target(NEVER + END)
        except AssertionError as e:
            self.skipTest(str(e))
        with target as t:
            process, r = self.both(t.pid)
            self.assertIn("process %d: its memory or a file of it does not answer" % t.pid, r.stderr)
            self.assertIn("poll", [x.get("syscall") for x in process["threads"]])
            self.assertIn("<module>", [f["function"] for x in process["threads"] for f in x["frames"]])
            text = run_tool(t.pid).stdout
            self.assertIn('File "<string>"', text)

    @unittest.skipUnless(ROOT, "needs root: userfaultfd")
    def test_capture_says_it(self):
        try:
            target = python_target(NEVER + END)
        except AssertionError as e:
            self.skipTest(str(e))
        with target as t:
            r = subprocess.run([TOOL, "--capture", str(t.pid)], capture_output=True, timeout=60)
            self.assertEqual((r.returncode, r.stderr), (0, b""))
            self.assertGreater(len(r.stdout), 100)

    @unittest.skipUnless(ROOT, "needs root: a mount")
    def test_library_whose_file_system_hangs(self):
        """--native needs the file of a library: what needs no file is printed, and the next process."""
        with tempfile.TemporaryDirectory() as folder:
            build_library(folder)
            with open(folder + "/lib.so", "rb") as f:
                content = f.read()
        with HungFiles(content, "lib.so") as files:
            source = HEAD + ("import ctypes\nl = ctypes.CDLL(%r)\nrun(l.rest)" % files.path) + END
            with python_target(source) as t:
                time.sleep(0.5)
                with open("/proc/sys/vm/drop_caches", "w") as f:
                    f.write("1")
                files.hang()
                process, r = self.both(t.pid, "--native")
                frames = [f["function"] for x in process["threads"] for f in x["frames"]]
                self.assertIn("<module>", frames)
                self.assertIn("does not answer", process["kernel_unknown"])

    @unittest.skipUnless(ROOT, "needs root: --native")
    def test_symbols_that_unpack_to_a_gigabyte(self):
        with tempfile.TemporaryDirectory() as folder:
            packer = lzma.LZMACompressor(preset=0)
            with open(folder + "/bomb", "wb") as f:
                for _ in range(1024):
                    f.write(packer.compress(bytes(1 << 20)))
                f.write(packer.flush())
            build_library(folder)
            subprocess.run(["objcopy", "-S", "--add-section", ".gnu_debugdata=%s/bomb" % folder,
                            folder + "/lib.so"], check=True)
            source = HEAD + ("import ctypes\nl = ctypes.CDLL('%s/lib.so')\nrun(l.rest)" % folder) + END
            with python_target(source) as t:
                r = run_tool("--json", "--native", t.pid)
                most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
                print("%d MiB, %s" % (most, r.stderr.strip()))
                if sanitized():
                    self.skipTest("the sanitizers keep memory of their own")
                self.assertLess(most, 300)
                process = json.loads(r.stdout)["processes"][0]
                self.assertIn("<module>", [f["function"] for x in process["threads"] for f in x["frames"]])

    def test_data_named_like_an_interpreter(self):
        """Mapped files named python-… do not hide it."""
        with tempfile.TemporaryDirectory() as folder:
            for n in range(30):
                with open("%s/python-train-%d" % (folder, n), "wb") as f:
                    f.write(b"x" * 8192)
            source = HEAD + ("import mmap\nmaps = []\nfor n in range(30):\n"
                             "    f = open('%s/python-train-%%d' %% n, 'rb')\n"
                             "    maps.append(mmap.mmap(f.fileno(), 0, prot=1))\n" % folder) + END
            loader = ["/lib64/ld-linux-x86-64.so.2", os.path.realpath(PYTHON)]
            with python_target(source, python=loader) as t:
                r = run_tool("--json", t.pid)
                self.assertIn("python", json.loads(r.stdout)["processes"][0], r.stdout)

    def test_names_that_turn_the_text(self):
        with python_target(HEAD + "exec(compile('def f\\u5973(): time.sleep(1000)\\nrun(f\\u5973)', "
                           "'a\\u202eb.py', 'exec'))" + END) as t:
            text = run_tool(t.pid).stdout
            self.assertNotIn("\u202e", text)
            self.assertIn("a\\u202eb.py", text)

    def test_killed_at_any_time(self):
        """No process of tpu-stack is left, whichever of them is killed."""
        with python_target(HEAD + END) as t:
            for n in range(10):
                p = subprocess.Popen([TOOL, "--repeat", "1000", "--every", "1ms", str(t.pid)],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     start_new_session=True)
                time.sleep(0.02 + 0.005 * n)
                p.kill()
                p.wait()
                for _ in range(40):
                    left = subprocess.run(["ps", "-o", "pid=", "-s", str(p.pid)], capture_output=True,
                                          text=True).stdout.split()
                    if not left:
                        break
                    time.sleep(0.05)
                self.assertEqual(left, [])
            with open("/proc/%d/stat" % t.pid) as f:
                self.assertEqual(f.read().split()[2], "S")


if __name__ == "__main__":
    unittest.main()
