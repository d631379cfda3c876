#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-stack --core: a real crash of Python read back, and cores that mean harm."""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from test_stack import TOOL

CRASH = ("import os, threading, time\n"
         "def waits():\n    time.sleep(1000)\n"
         "def innermost():\n    os.kill(os.getpid(), 0); print('here', flush=True); END\n"
         "def outer():\n    innermost()\n"
         "threading.Thread(target=waits, daemon=True).start()\n"
         "time.sleep(0.3)\nouter()\n")


def unlimited():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def read_core(path, *options):
    done = subprocess.run([TOOL, "--core", str(path), "--json", *options], capture_output=True, text=True,
                          timeout=120, check=False)
    return done, json.loads(done.stdout)["processes"][0] if done.returncode == 0 else None


def functions(thread):
    return [f["function"] for f in thread["frames"]]


class Core(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        self.path.chmod(0o755)

    def crash(self):
        """A core of a real crash; where the kernel pipes cores elsewhere, one that gdb's gcore makes."""
        program = self.path / "train.py"
        pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
        if not pattern.startswith(("|", "/")):
            program.write_text(CRASH.replace("END", "os.abort()"))
            done = subprocess.run([sys.executable, str(program)], cwd=self.path, preexec_fn=unlimited,
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, -signal.SIGABRT)
        elif shutil.which("gcore"):
            program.write_text(CRASH.replace("END", "time.sleep(1000)"))
            with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE) as target:
                target.stdout.readline()
                subprocess.run(["gcore", "-o", str(self.path / "core"), str(target.pid)], check=True,
                               capture_output=True, timeout=60)
                target.kill()
        else:
            self.skipTest("cores are piped elsewhere, and gcore is not installed")
        return next(p for p in self.path.iterdir() if p != program and p.is_file())

    def test_real_crash(self):
        core = self.crash()
        done, process = read_core(core)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(process["python"].startswith("3."))
        crashed, other = process["threads"][0], process["threads"][1]
        python = [f for f in crashed["frames"] if f.get("kind") != "native"]
        self.assertEqual([f["function"] for f in python], ["innermost", "outer", "<module>"])
        self.assertEqual([f["line"] for f in python], [5, 7, 10])
        self.assertIn("waits", functions(other))
        # one stack: what called the interpreter lies around its frames
        self.assertTrue(any(f.get("kind") == "native" for f in crashed["frames"]))
        self.assertLess(functions(crashed).index("<module>"), len(crashed["frames"]) - 1)

    def test_as_another_user(self):
        """Root reads it as its owner, or as who is named, who then may not open it."""
        if os.geteuid() != 0:
            self.skipTest("only root becomes another user")
        core = self.crash()
        core.chmod(0o600)
        done, _ = read_core(core, "--user", "65534")
        self.assertEqual(done.returncode, 3)
        self.assertIn("Permission denied", done.stderr)
        os.chown(core, 65534, 65534)
        for options in ((), ("--user", "65534")):
            done, process = read_core(core, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            # which frames it has depends on the files that this user may read
            self.assertTrue(process["threads"])

    def refused(self, data, words):
        path = self.path / "bad"
        path.write_bytes(data)
        done, _ = read_core(path)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(words, done.stderr)

    def test_refused(self):
        self.refused(b"", "cannot be read")
        self.refused(b"\x28\xb5\x2f\xfd" + bytes(100), "unpack it with zstd -d")
        self.refused(b"\x04\x22\x4d\x18" + bytes(100), "unpack it with lz4 -d")
        self.refused(Path(sys.executable).read_bytes()[:4096], "no core file")
        self.refused(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64,
                                                               56, 1, 0, 0, 0), "cut short")
        os.mkfifo(self.path / "pipe")
        done, _ = read_core(self.path / "pipe")
        self.assertEqual(done.returncode, 3)

    def test_cut_short(self):
        """Whatever is missing of it, what is there is read or refused: nothing crashes."""
        core = self.crash().read_bytes()
        for part in (len(core) // 2, len(core) // 10, 4096, 1000):
            (self.path / "cut").write_bytes(core[:part])
            done, _ = read_core(self.path / "cut")
            self.assertIn(done.returncode, (0, 3))
            self.assertNotIn("report this", done.stderr)

    def test_another_file_by_now(self):
        """A file that was replaced since counts for nothing."""
        program = self.path / "p"
        shutil.copy(os.path.realpath("/bin/sleep"), program)
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed")
        with subprocess.Popen([str(program), "1000"]) as target:
            subprocess.run(["gcore", "-o", str(self.path / "core"), str(target.pid)], check=True,
                           capture_output=True, timeout=60)
            target.kill()
        core = next(self.path.glob("core*"))
        _, before = read_core(core)
        shutil.copy(os.path.realpath("/bin/true"), program.with_name("other"))
        program.with_name("other").replace(program)
        _, after = read_core(core)
        files = [[f.get("module", "") for t in p["threads"] for f in t["frames"]] for p in (before, after)]
        self.assertIn(str(program), files[0])
        self.assertNotIn(str(program), files[1])

    def test_usage(self):
        for words in (["--core", "x", "1"], ["--user", "1", "1"], ["--core", "x", "--repeat", "2"]):
            self.assertEqual(subprocess.run([TOOL, *words], capture_output=True, check=False).returncode, 64)


if __name__ == "__main__":
    unittest.main()
