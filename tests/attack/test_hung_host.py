#!/usr/bin/python3
"""A user on the host, and a host whose user database or file systems do not answer: tpu-launchd goes on
serving all others. The databases hang in a module of the test's; the paths hang in a FUSE file system whose
server takes requests and never answers, which no signal ends."""

import ctypes
import os
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "hostd"), str(TESTS)]
from around import PATIENCE, wait_until  # noqa: E402
from test_launchd import ACTIVATE, LAUNCHD, TPUCTL, Launchd  # noqa: E402

MODULE = r"""
#include <errno.h>
#include <grp.h>
#include <nss.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>
static enum nss_status answer(int *e) {
        while (access(getenv("HANG"), F_OK) == 0)
                pause();
        *e = ENOENT;
        return NSS_STATUS_NOTFOUND;
}
enum nss_status _nss_hang_getpwnam_r(const char *n, struct passwd *p, char *b, size_t s, int *e);
enum nss_status _nss_hang_getpwnam_r(const char *n, struct passwd *p, char *b, size_t s, int *e)
{ return answer(e); }
enum nss_status _nss_hang_getpwuid_r(uid_t n, struct passwd *p, char *b, size_t s, int *e);
enum nss_status _nss_hang_getpwuid_r(uid_t n, struct passwd *p, char *b, size_t s, int *e)
{ return answer(e); }
enum nss_status _nss_hang_getgrnam_r(const char *n, struct group *p, char *b, size_t s, int *e);
enum nss_status _nss_hang_getgrnam_r(const char *n, struct group *p, char *b, size_t s, int *e)
{ return answer(e); }
enum nss_status _nss_hang_initgroups_dyn(const char *u, gid_t g, long *a, long *z, gid_t **p, long l,
                                         int *e);
enum nss_status _nss_hang_initgroups_dyn(const char *u, gid_t g, long *a, long *z, gid_t **p, long l,
                                         int *e)
{ return answer(e); }
"""

# In a mount namespace of its own: the databases, and the FUSE file system. Then the daemon, under one pid.
AROUND = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(r):
    if r != 0:
        raise OSError(ctypes.get_errno(), "mount")
call(libc.unshare(0x00020000))
call(libc.mount(b"none", b"/", None, 0x44000, None))
call(libc.mount(sys.argv[1].encode(), b"/etc/nsswitch.conf", None, 0x1000, None))
call(libc.mount(b"hung", sys.argv[2].encode(), b"fuse", 0,
                f"fd={sys.argv[3]},rootmode=40000,user_id=0,group_id=0,allow_other".encode()))
os.execv(sys.argv[4], sys.argv[4:])
"""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
AWAY = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]  # in the database that is away
OF_A_USER = 8
INIT, INIT_OUT = 26, struct.Struct("<IIIIHHIIHHI28x")


class HungHost(Launchd):
    def setUp(self):
        self.fuse = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
        self.over = threading.Event()
        super().setUp()
        self.folder.chmod(0o711)

    def start(self):
        self.hang = self.folder / "hang"
        hung = self.root / "hung"
        hung.mkdir()
        (self.folder / "nsswitch").write_text("passwd: files hang\ngroup: files hang\n")
        (self.folder / "hang.c").write_text(MODULE)
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", self.folder / "libnss_hang.so.2",
                        self.folder / "hang.c"], check=True)
        (self.root / "etc/tpu-hostd/authority.conf.d").mkdir(parents=True)
        (self.root / "etc/tpu-hostd/authority.conf.d/1.conf").write_text("[Authority]\nGroup=nogroup\n")
        fd = self.socket.fileno()
        self.daemon = subprocess.Popen(
            [sys.executable, "-c", AROUND, self.folder / "nsswitch", hung, str(self.fuse),
             sys.executable, "-c", ACTIVATE, str(fd), LAUNCHD, "--root", self.root],
            pass_fds=[fd, self.fuse], stdout=self.output, stderr=self.output,
            env={"PATH": os.environ["PATH"], "DBUS_SYSTEM_BUS_ADDRESS": self.manager.address,
                 "LD_LIBRARY_PATH": str(self.folder), "HANG": str(self.hang)})
        os.chmod(self.path, 0o666)
        self.server = threading.Thread(target=self.serve, daemon=True)
        self.server.start()

    def tearDown(self):
        self.tpuctl("stop", "--yes", "a")
        self.over.set()
        self.server.join()
        os.close(self.fuse)  # what waits for it ends with the daemon, which has the other one

    def serve(self):
        """Answers the first request alone; it is there once the file system is mounted."""
        while not self.over.wait(0.01):
            try:
                request = os.read(self.fuse, 1 << 18)
            except (PermissionError, BlockingIOError):
                continue
            _, op, unique = struct.unpack_from("<IIQ", request)
            if op == INIT:
                out = INIT_OUT.pack(7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, 0)
                os.write(self.fuse, struct.pack("<IiQ", 16 + len(out), 0, unique) + out)

    def asks(self, *words, who=NOBODY):
        p = subprocess.Popen([*who, TPUCTL, "--root", self.root, *words], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        return p

    def refusal(self, p):
        out, err = p.communicate(timeout=2 * PATIENCE)
        self.assertNotEqual(p.returncode, 0, out)
        return err

    def children(self):
        return Path(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children").read_text().split()

    def others_are_served(self):
        """By root and by a user; within what one turn of a loop takes, not within anybody's time limit."""
        began = time.monotonic()
        self.assertEqual(self.listed()["state"], "running")
        list_of_user = self.asks("runs", "--json")
        self.assertIn('"a"', list_of_user.communicate(timeout=PATIENCE)[0])
        took = time.monotonic() - began
        print(f"{self._testMethodName}: two lists beside what hangs: {took:.2f} s", file=sys.stderr)
        return took

    def test_user_database(self):
        self.run_of("sleep 1000")
        self.hang.touch()
        stuck = [self.asks("stop", "--yes", "a", who=AWAY) for _ in range(OF_A_USER)]
        wait_until(lambda: len(self.children()) == OF_A_USER, PATIENCE, self.said)
        refused = self.refusal(self.asks("stop", "--yes", "a", who=AWAY))
        self.assertIn("8 questions of user 54321 have no answer yet", refused)
        # who is known here needs no other database: it is told what it may, and not that something hangs
        self.assertIn("of its own only", self.refusal(self.asks("stop", "--yes", "a")))
        self.others_are_served()
        self.assertEqual([p.poll() for p in stuck], [None] * OF_A_USER)  # and they still wait
        self.assertEqual(self.tpuctl("stop", "--yes", "a").returncode, 0, self.said())
        self.ended("stopped", "TERM")
        for p in stuck:
            self.assertIn("the user database of this host does not answer", self.refusal(p))
        wait_until(lambda: not self.children(), PATIENCE, self.said)
        self.hang.unlink()
        self.run_of("exit 3")
        self.ended("exit-code", "3")

    def test_paths(self):
        """So many processes that nothing ends are all that a user gets."""
        self.run_of("sleep 1000")
        run = ["run", "--share-devices", "--malloc", "glibc", "--directory"]
        stuck = [self.asks(*run, f"/hung/{i}", "--", "/bin/sh") for i in range(OF_A_USER)]
        wait_until(lambda: len(self.children()) == OF_A_USER, 10, self.said)
        self.others_are_served()
        for p in stuck:
            self.assertIn("lies on a mount that does not answer", self.refusal(p))
        self.assertEqual(len(self.children()), OF_A_USER)
        for child in self.children():
            status = Path(f"/proc/{child}/status").read_text()
            self.assertIn("State:\tD", status)
            self.assertIn("Uid:\t65534\t65534\t65534\t65534", status)
            self.assertIn("CapPrm:\t0000000000000000", status)
        self.assertEqual(len(self.children()), OF_A_USER)
        for _ in range(5):
            self.assertIn("8 questions of user 65534 have no answer yet",
                          self.refusal(self.asks(*run, "/", "--", "/bin/sh")))
        self.assertEqual(len(self.children()), OF_A_USER)
        self.assertEqual(self.tpuctl("stop", "--yes", "a").returncode, 0)
        self.ended("stopped", "TERM")
        self.run_of("exit 3")
        self.ended("exit-code", "3")

    def test_paths_of_others(self):
        """Whether a file of another's is there is not told: a start looks as the run's user."""
        secret = self.root / "secret"
        secret.mkdir()
        secret.chmod(0o700)
        (secret / "there").mkdir()
        run = ["run", "--share-devices", "--malloc", "glibc", "--directory"]
        for name in ("there", "not-there"):
            p = self.asks(*run, f"/secret/{name}", "--", "/bin/sh")
            self.assertNotIn("does not exist", p.communicate(timeout=PATIENCE)[1])
        self.assertIn("does not exist", self.refusal(self.asks(*run, "/not-there", "--", "/bin/sh")))


del Launchd

if __name__ == "__main__":
    if ctypes.CDLL(None).unshare(0x00020000) != 0:
        print("SKIP: needs root")
        sys.exit(77)
    unittest.main()
