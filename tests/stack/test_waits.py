# SPDX-License-Identifier: Apache-2.0
"""tpu-stack: what threads wait for, of real programs that wait for each kind of thing."""
import fcntl
import json
import os
import subprocess
import tempfile
import time
import unittest

from hung_files import HungFiles
from test_stack import HERE, PYTHON, ROOT, TOOL, Target, python_target, run_tool
from test_targets import Group

HEAD = ("import os, select, signal, socket, sys, threading, time\n"
        "def run(f, *a, name='waiter'):\n"
        "    threading.Thread(target=f, args=a, daemon=True, name=name).start()\n")
END = "\nprint('ready', flush=True)\ntime.sleep(1000)\n"


def read_all(*pids, options=(), **more):
    r = run_tool("--json", *options, *pids, **more)
    if r.returncode != 0:
        raise AssertionError("exit code %d: %s" % (r.returncode, r.stderr))
    return json.loads(r.stdout)


def process_of(answer, pid):
    return next(p for p in answer["processes"] if p["pid"] == pid)


def waits_of(process):
    return [w for t in process["threads"] for w in t.get("waits", [])]


class Waits(unittest.TestCase):
    def until(self, pid, wanted, *more, options=()):
        """The answer in which wanted(process) is true."""
        for _ in range(40):
            answer = read_all(pid, *more, options=options)
            process = process_of(answer, pid)
            if wanted(process):
                return answer, process
            time.sleep(0.1)
        self.fail(json.dumps(answer, indent=1))

    def waits(self, pid, kind, n=1, *more, options=()):
        answer, process = self.until(
            pid, lambda p: len([w for w in waits_of(p) if w["for"] == kind]) >= n, *more, options=options)
        return answer, process, [w for w in waits_of(process) if w["for"] == kind]


class Locks(Waits):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.program = cls.folder + "/target_waits"
        subprocess.run(["cc", "-O1", "-pthread", "-D_GNU_SOURCE", "-o", cls.program,
                        HERE + "/target_waits.c"], check=True)

    def start(self, *args):
        p = subprocess.Popen([self.program, *args], stdout=subprocess.PIPE, text=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        said = {}
        for line in p.stdout:
            if line == "ready\n":
                return p.pid, said
            key, value = line.split()
            said[key] = int(value)
        self.fail("it ended")

    def test_deadlock_of_two_mutexes(self):
        pid, _ = self.start("deadlock")
        _, process, waits = self.waits(pid, "lock", 2)
        main, other = process["threads"]
        self.assertEqual([main["waits"][0]["holder_tid"], other["waits"][0]["holder_tid"]],
                         [other["tid"], main["tid"]])
        self.assertNotEqual(waits[0]["number"], waits[1]["number"])
        self.assertEqual(waits[0]["words"], "waits for a glibc mutex of target_waits that thread %d 'other' "
                         "holds" % other["tid"])

    def test_owners(self):
        for kind, n, text in (("robust", 1, "a robust glibc mutex"), ("inherit", 1, "a mutex with priority"),
                              ("rwlock", 2, "a glibc read-write lock")):
            with self.subTest(kind=kind):
                pid, said = self.start(kind)
                for wait in self.waits(pid, "lock", n)[2]:
                    self.assertEqual((wait.get("holder_pid"), wait.get("holder_tid")), (pid, said["owner"]))
                    self.assertTrue(wait["text"].startswith(text), wait)

    def test_no_owner_is_known(self):
        for kind in ("readers", "sem", "cond", "own"):
            with self.subTest(kind=kind):
                pid, _ = self.start(kind)
                _, _, waits = self.waits(pid, "lock")
                time.sleep(1.5 if kind == "cond" else 0)
                _, _, waits = self.waits(pid, "lock")
                for wait in waits:
                    self.assertNotIn("holder_tid", wait)
                    self.assertIn("holder unknown", wait["words"])

    def test_between_processes(self):
        path = self.folder + "/mutex"
        pid, said = self.start("shared", path)
        _, _, waits = self.waits(said["child"], "lock", 1, pid)
        self.assertEqual((waits[0]["number"], waits[0].get("holder_pid"), waits[0].get("holder_tid")),
                         (4161, pid, pid))
        self.assertIn("in shared memory mutex", waits[0]["text"])
        os.kill(said["child"], 9)
        pid, said = self.start("futex", "x")
        answer, process, waits = self.waits(pid, "lock", 1, said["child"])
        others = waits_of(process_of(answer, said["child"]))
        self.assertEqual([(w["space"], w["number"]) for w in waits],
                         [(w["space"], w["number"]) for w in others])
        os.kill(said["child"], 9)

    def test_python(self):
        source = HEAD + ("r, l = threading.RLock(), threading.Lock()\nr.acquire(); l.acquire()\n"
                         "def enter():\n    with r: pass\n"
                         "run(r.acquire); run(enter); run(l.acquire); run(threading.Event().wait)") + END
        with python_target(source) as t:
            _, process, waits = self.waits(t.pid, "lock", 4)
            held = [w for w in waits if "holder_tid" in w]
            self.assertEqual([(w["holder_pid"], w["holder_tid"], w["text"]) for w in held],
                             [(t.pid, t.pid, "a threading.RLock of Python")] * 2)
            self.assertEqual({w["text"] for w in waits if w not in held}, {"a threading.Lock of Python"})

    def test_multiprocessing(self):
        """Its object remembers who had it last here, which is the waiter: nobody holds it for that."""
        source = HEAD + ("import multiprocessing\nlock = multiprocessing.Lock()\n"
                         "lock.acquire(); lock.release()\nhere, there = os.pipe()\n"
                         "me = os.getpid()\nif os.fork() == 0:\n    lock.acquire(); os.write(there, b'x')\n"
                         "    while os.getppid() == me: time.sleep(0.1)\n    os._exit(0)\n"
                         "os.read(here, 1)\nprint('ready', flush=True)\nlock.acquire()\n")
        with python_target(source) as t:
            _, process, waits = self.waits(t.pid, "lock", 1)
            self.assertEqual(waits[0]["text"].split(" in ")[0], "a lock of Python's multiprocessing")
            self.assertNotIn("holder_tid", waits[0])

    def test_gil(self):
        source = HEAD + ("def spin():\n    while True: pass\n"
                         "for i in range(4): run(spin)") + END.replace("time.sleep(1000)", "spin()")
        with python_target(source) as t:
            for _ in range(200):
                answer = read_all(t.pid)
                process = process_of(answer, t.pid)
                holders = {x["tid"] for x in process["threads"] if x.get("gil")}
                waits = [w for w in waits_of(process) if w["for"] == "gil"]
                known = [w["holder_tid"] for w in waits if "holder_tid" in w]
                if len(waits) >= 2 and known:
                    break
            self.assertGreaterEqual(len(waits), 2, process)
            self.assertEqual(set(known), holders)


class Descriptors(Waits):
    def test_tcp(self):
        source = HEAD + (
            "s = socket.create_server(('127.0.0.1', 0)); six = socket.create_server(('::', 0), "
            "family=socket.AF_INET6, dualstack_ipv6=True)\n"
            "c = socket.create_connection(s.getsockname()); p, _ = s.accept()\n"
            "m = socket.create_connection(('127.0.0.1', six.getsockname()[1])); n, _ = six.accept()\n"
            "c.send(b'x' * 5000); p.setblocking(True)\n"
            "print('%s:%d' % c.getsockname(), '%s:%d' % c.getpeername(), m.getsockname()[1], "
            "six.getsockname()[1])\n"
            "run(c.recv, 1); run(s.accept); run(n.recv, 1)") + END
        process = subprocess.Popen([PYTHON, "-c", source], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        local, remote, other, six = process.stdout.readline().split()
        _, found, waits = self.waits(process.pid, "socket", 3)
        sockets = {s["inode"]: s for s in found["sockets"]}
        receives, accepts, mapped = self.by_role(waits, sockets, local, six)
        self.assertEqual((receives["local"], receives["remote"]), (local, remote))
        self.assertEqual((receives["protocol"], receives["state"], receives["bytes_acked"]), (6, 1, 5001))
        self.assertIn("sent_ms", receives)
        self.assertNotIn("received_ms", receives)  # it never received
        self.assertEqual((accepts["local"], accepts["state"]), (remote, 10))
        self.assertEqual((mapped["local"], mapped["remote"]), ("127.0.0.1:" + six, "127.0.0.1:" + other))
        unread = next(s for s in found["sockets"] if s["local"] == remote and s["remote"] == local)
        self.assertEqual((unread["unread"], unread["bytes_received"]), (5000, 5000))
        self.assertEqual(unread["net"], os.stat("/proc/%d/ns/net" % process.pid).st_ino)
        self.assertIn("waits for data on %s → %s, nothing unread" % (local, remote),
                      run_tool(process.pid).stdout)

    @staticmethod
    def by_role(waits, sockets, local, six):
        found = [sockets[w["number"]] for w in waits]
        return (next(s for s in found if s["local"] == local), next(s for s in found if s["state"] == 10),
                next(s for s in found if s["local"].endswith(":" + six)))

    @unittest.skipUnless(ROOT, "needs root: a network namespace")
    def test_other_network_namespace(self):
        source = HEAD + ("s = socket.create_server(('0.0.0.0', 4711)); run(s.accept)") + END
        with Target("unshare", "--net", PYTHON, "-c", source) as t:
            _, process, waits = self.waits(t.pid, "socket")
            self.assertEqual(process["sockets"][0]["local"], "0.0.0.0:4711")
            self.assertEqual(process["sockets"][0]["net"], os.stat("/proc/%d/ns/net" % t.pid).st_ino)
            self.assertNotEqual(process["sockets"][0]["net"], os.stat("/proc/self/ns/net").st_ino)

    def test_pipe_and_its_other_end(self):
        source = HEAD + "run(os.read, 0, 1)" + END
        r, w = os.pipe()
        self.addCleanup(os.close, w)
        p = subprocess.Popen([PYTHON, "-c", source], stdin=r, stdout=subprocess.PIPE, text=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        os.close(r)
        p.stdout.readline()
        answer, _, waits = self.waits(p.pid, "pipe")
        self.assertEqual(waits[0]["number"], os.fstat(w).st_ino)
        ends = {e["pid"]: e for e in answer["ends"] if e["number"] == waits[0]["number"]}
        self.assertTrue(ends[os.getpid()]["writes"] and "reads" not in ends[os.getpid()])
        self.assertTrue(ends[p.pid]["reads"] and "writes" not in ends[p.pid])
        self.assertIn("pipe:[%d]: process %d " % (waits[0]["number"], os.getpid()), run_tool(p.pid).stdout)

    def test_full_pipe(self):
        with python_target(HEAD + "r, w = os.pipe(); run(os.write, w, b'x' * 10**6)" + END) as t:
            _, _, waits = self.waits(t.pid, "pipe")
            self.assertTrue(waits[0]["writes"])
            self.assertIn("waits for room in pipe", waits[0]["words"])

    def test_fifo(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = folder + "/fifo"
        os.mkfifo(path)
        keep = os.open(path, os.O_RDWR)
        self.addCleanup(os.close, keep)
        source = HEAD + "f = os.open(%r, os.O_RDONLY); run(os.read, f, 1)" % path + END
        with python_target(source) as t:
            answer, _, waits = self.waits(t.pid, "pipe")
            self.assertEqual(waits[0]["number"], os.stat(path).st_ino)
            self.assertIn(os.getpid(), [e["pid"] for e in answer["ends"]])
        os.mkfifo(path + "2")
        with python_target(HEAD + "run(os.open, %r, os.O_RDONLY)" % (path + "2") + END) as t:
            _, _, waits = self.waits(t.pid, "pipe")
            self.assertIn("nobody else has opened", waits[0]["words"])

    def test_many(self):
        source = HEAD + (
            "pairs = [socket.socketpair() for _ in range(40)]\ne = select.epoll()\n"
            "for a, _ in pairs: e.register(a, select.EPOLLIN)\n"
            "p = select.poll(); p.register(pairs[0][0], select.POLLIN)\n"
            "p.register(pairs[1][0], select.POLLIN)\n"
            "outer = select.epoll(); outer.register(e, select.EPOLLIN)\n"
            "run(e.poll); run(p.poll, 10**6); run(select.select, [pairs[2][0]], [], [])\n"
            "run(outer.poll)") + END
        with python_target(source) as t:
            _, process, waits = self.waits(t.pid, "socket", 83)
            self.assertEqual(sorted(len(x["waits"]) for x in process["threads"]), [1, 1, 2, 40, 40])
            self.assertTrue(all(w["any"] for w in waits))
            polled = next(x["waits"] for x in process["threads"] if len(x["waits"]) == 2)
            self.assertTrue(all(w["limited"] for w in polled))
            self.assertIn("or for one of 32 others", run_tool(t.pid).stdout)

    def test_looks_again_and_again(self):
        """Threads that never sleep, and have nothing until a message comes: by their native copy alone."""
        source = ("import os, socket, select\na, b = socket.socketpair(); c, d = socket.socketpair()\n"
                  "c.setblocking(False)\n"
                  "def look():\n    try: c.recv(1)\n    except BlockingIOError: pass\n"
                  "p = select.poll(); p.register(a, select.POLLIN)\n"
                  "def spin():\n    while True: %s\n"
                  "print('ready', flush=True); spin()")
        for call in ("p.poll(0)", "look()"):
            with self.subTest(call), python_target(source % call) as t:
                _, process, waits = self.waits(t.pid, "socket", options=["--native"])
                self.assertEqual([x["state"] for x in process["threads"] if x.get("waits")], ["R"])
                self.assertEqual([w["spins"] for w in waits], [True])
        with python_target(source % "os.getppid()") as t:
            for _ in range(10):
                self.assertEqual(waits_of(process_of(read_all(t.pid, options=["--native"]), t.pid)), [])

    def test_eventfd(self):
        source = HEAD + "import ctypes\ne = ctypes.CDLL(None).eventfd(0, 0)\nrun(os.read, e, 8)" + END
        with python_target(source) as t:
            answer, _, waits = self.waits(t.pid, "eventfd")
            self.assertIn(t.pid, [e["pid"] for e in answer["ends"]])

    def test_file_lock(self):
        with tempfile.NamedTemporaryFile() as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            source = HEAD + "import fcntl\nf = open(%r); run(fcntl.flock, f, fcntl.LOCK_EX)" % f.name + END
            with python_target(source) as t:
                _, _, waits = self.waits(t.pid, "file_lock")
                self.assertEqual((waits[0]["number"], waits[0]["holder_pid"], waits[0]["text"]),
                                 (os.fstat(f.fileno()).st_ino, os.getpid(), f.name))
        with tempfile.NamedTemporaryFile() as f:
            fcntl.lockf(f, fcntl.LOCK_EX)
            source = HEAD + "import fcntl\nf = open(%r, 'r+'); run(fcntl.lockf, f, 2)" % f.name + END
            with python_target(source) as t:
                _, _, waits = self.waits(t.pid, "file_lock")
                self.assertEqual(waits[0]["holder_pid"], os.getpid())


@unittest.skipUnless(ROOT, "needs root: a mount")
class Files(Waits):
    def test_file_system_that_hangs(self):
        files = HungFiles(b"x" * 100000)
        source = HEAD + ("f = os.open(%r, os.O_RDONLY)\nprint('open', flush=True)\nsys.stdin.readline()\n"
                         "run(os.pread, f, 10, 0)\nrun(os.stat, %r)"
                         % (files.path, files.folder + "/x")) + END
        with Target(PYTHON, "-c", source, ready="open") as t:
            with files:  # it answers with errors before the target is ended
                files.hang()
                t.process.stdin.write("\n")
                t.process.stdin.flush()
                t.process.stdout.readline()
                _, process, waits = self.waits(t.pid, "file", 2)
                self.assertEqual({w["text"] for w in waits}, {"fuse " + files.folder})
                self.assertEqual(sorted("fd" in w for w in waits), [False, True])
                self.assertIn("waits for the file system fuse %s" % files.folder, run_tool(t.pid).stdout)


class Processes(Waits):
    def test_children(self):
        source = HEAD + ("dead = os.fork()\nif dead == 0: os._exit(0)\n"
                         "alive = os.fork()\nif alive == 0:\n    time.sleep(1000)\n"
                         "print(alive)\nrun(os.waitpid, alive, 0)") + END
        p = subprocess.Popen([PYTHON, "-c", source], stdout=subprocess.PIPE, text=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        child = int(p.stdout.readline())
        answer, process, waits = self.waits(p.pid, "child", 1, options=["--children"])
        self.assertEqual((waits[0]["holder_pid"], process["children_gone"]), (child, 1))
        self.assertEqual(process_of(answer, child)["parent"], p.pid)
        with open("/proc/%d/stat" % p.pid) as f:
            self.assertEqual(process["start_ticks"], int(f.read().rsplit(")")[1].split()[19]))
        os.kill(child, 9)

    def test_sleeps(self):
        with python_target(HEAD + END) as t:
            self.waits(t.pid, "timer")

    def test_stopped(self):
        with python_target(HEAD + END) as t:
            os.kill(t.pid, 19)
            _, _, waits = self.waits(t.pid, "stopped")
            self.assertIn("is stopped by a signal", run_tool(t.pid).stdout)
            with open("/proc/%d/stat" % t.pid) as f:
                self.assertEqual(f.read().split()[2], "T")  # it is left as it was

    @unittest.skipUnless(ROOT, "needs root: a control group")
    def test_frozen(self):
        group = Group(self)
        freeze = group.path + "/cgroup.freeze"
        if not os.path.exists(freeze):
            self.skipTest("no cgroup v2 here")
        with python_target(HEAD + END) as t:
            group.take(t.pid)
            with open(freeze, "w") as f:
                f.write("1")
            try:
                _, _, waits = self.waits(t.pid, "frozen")
                self.assertEqual(waits[0]["text"], group.name)
            finally:
                with open(freeze, "w") as f:
                    f.write("0")

    def test_program_without_python(self):
        p = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(p.stdin.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        _, process, waits = self.waits(p.pid, "pipe")
        self.assertEqual(process["threads"][0]["frames"], [])
        self.assertIn("no_python", process)

    def test_capture(self):
        """What a capture has is what tpu-stack prints."""
        tpuctl = os.path.join(os.path.dirname(TOOL), "../../agent/ctl/tpuctl")
        with python_target(HEAD + "r, w = os.pipe(); run(os.read, r, 1)" + END) as t, \
                tempfile.NamedTemporaryFile() as f:
            self.waits(t.pid, "pipe")
            subprocess.run([TOOL, "--capture", str(t.pid)], stdout=f, check=True)
            r = subprocess.run([tpuctl, "stack", "--from", f.name], capture_output=True, text=True,
                               check=True)
            self.assertEqual(r.stdout, run_tool(t.pid).stdout)


class Hostile(Waits):
    def test_many_descriptors(self):
        source = HEAD + ("import resource\nn = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
                         "resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))\ns = socket.socket()\n"
                         "for _ in range(min(n, 100000) - 50): os.dup(s.fileno())") + END
        with python_target(source) as t:
            began = time.time()
            process = process_of(read_all(t.pid), t.pid)
            print("100,000 descriptors: %.0f ms" % (1e3 * (time.time() - began)))
            self.assertEqual(len(process["sockets"]), 1)

    def test_epoll_of_epolls(self):
        source = HEAD + (
            "layers = [[select.epoll() for _ in range(12)] for _ in range(4)]\n"
            "for upper, lower in zip(layers, layers[1:]):\n"
            "    for u in upper:\n        for l in lower: u.register(l, select.EPOLLIN)\n"
            "run(layers[0][0].poll)") + END
        with python_target(source) as t:
            answer = read_all(t.pid)
            self.assertEqual(len(answer["processes"]), 1)

    def test_poll_of_garbage(self):
        source = HEAD + (
            "import ctypes\nl = ctypes.CDLL(None)\nbuf = ctypes.create_string_buffer(b'\\x00' * 8 * 200)\n"
            "def poll():\n    l.poll(buf, 200, -1)\n"
            "r, w = os.pipe()\n"
            "for i in range(200):\n"
            "    ctypes.memmove(ctypes.addressof(buf) + 8 * i, r.to_bytes(4, 'little') + b'\\1\\0\\0\\0', 8)\n"
            "run(poll)\ntime.sleep(0.5)\nctypes.memset(buf, 0x7e, 8 * 200)") + END
        with python_target(source) as t:
            _, process, waits = self.waits(t.pid, "unknown", 200)
            self.assertTrue(all("is not open" in w["words"] for w in waits))


if __name__ == "__main__":
    unittest.main()
