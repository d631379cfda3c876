"""The real tpu-launchd on a machine of fixtures, asked by the real tpuctl; what starts the runs stands in
for systemd's manager, on a bus of its own."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import BINARY, MACHINE, PATIENCE, message, wait_until  # noqa: E402
from manager_stand_in import Manager                               # noqa: E402

LAUNCHD = BINARY.parents[1] / "launch/tpu-launchd"
TPUCTL = BINARY.parents[1] / "ctl/tpuctl"
ACTIVATE = ("import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ.update(LISTEN_FDS='1', "
            "LISTEN_PID=str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])")
SIGNAL_REQUEST, SIGNAL_REPLY = 30, 31


@unittest.skipUnless(os.geteuid() == 0, "only root may start runs without a group")
class Launchd(unittest.TestCase):
    systemd = True

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="launchd-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.root = self.folder / "root"
        shutil.copytree(MACHINE, self.root, symlinks=True)
        for name in ("run/tpu-launchd", "var/lib/tpu-launchd", "bin",
                     "run/systemd/system" if self.systemd else "run/init"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "bin/sh").touch()
        self.manager = Manager(self.root, LAUNCHD)
        self.addCleanup(self.manager.stop)
        self.socket = socket.socket(socket.AF_UNIX)  # as the .socket unit: it outlives the daemon
        self.addCleanup(self.socket.close)
        self.path = self.root / "run/tpu-launchd/launchd.sock"
        self.socket.bind(str(self.path))
        self.socket.listen()
        self.output = open(self.folder / "output", "a+")
        self.addCleanup(self.output.close)
        self.daemon = None
        self.start()
        self.addCleanup(self.kill)

    def start(self):
        self.daemon = subprocess.Popen([sys.executable, "-c", ACTIVATE, str(self.socket.fileno()), LAUNCHD,
                                        "--root", self.root], pass_fds=[self.socket.fileno()],
                                       env={"PATH": os.environ["PATH"],
                                            "DBUS_SYSTEM_BUS_ADDRESS": self.manager.address},
                                       stdout=self.output, stderr=self.output)

    def kill(self):
        self.daemon.kill()
        self.daemon.wait(PATIENCE)

    def said(self):
        return (self.folder / "output").read_text()

    def tpuctl(self, *words):
        return subprocess.run([TPUCTL, "--root", self.root, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=2 * PATIENCE, check=False)

    def run_of(self, script, *options):
        done = self.tpuctl("run", "--name", "a", "--directory", "/", "--share-devices", "--malloc", "glibc",
                           *options, "--", "/bin/sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr + self.said())
        return done

    def listed(self):
        return next(j for j in json.loads(self.tpuctl("runs", "--json").stdout)["runs"] if j["name"] == "a")

    def ended(self, cause, status):
        run = wait_until(lambda: (j := self.listed())["state"] == "exited" and j, 20, self.said)
        self.assertEqual((run["cause"], run["status"]), (cause, status), run)
        return run

    def pid(self):
        """What a script says with echo $$ >PID."""
        file = self.folder / "pid"
        pid = int(wait_until(lambda: file.exists() and file.read_text().strip(), 20, self.said))
        self.addCleanup(self.end, pid)
        return pid

    @staticmethod
    def end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class WithSystemd(Launchd):
    def test_ends(self):
        for script, cause, status in (("exit 0", "success", "0"), ("exit 93", "never-restart", "93"),
                                      ("exit 3", "exit-code", "3"),
                                      ("kill -KILL $$", "signal", "KILL")):
            self.run_of(script)
            self.ended(cause, status)

    def test_environment_and_secrets(self):
        (self.folder / "key").write_text("s3cret\n")
        self.run_of(f"env >{self.folder}/env.new; mv {self.folder}/env.new {self.folder}/env", "--env",
                    "MINE=a b", "--secret", f"KEY={self.folder}/key")
        self.ended("success", "0")
        lines = (self.folder / "env").read_text().splitlines()
        self.assertIn("MINE=a b", lines)
        self.assertIn("KEY=s3cret", lines)
        for file in (p for p in self.root.rglob("*") if p.is_file()):
            self.assertNotIn(b"s3cret", file.read_bytes(), file)

    def test_stop_and_kill(self):
        self.run_of(f"trap '' TERM; echo $$ >{self.folder}/pid; while :; do sleep 0.05; done", "--grace",
                    "1s")
        self.pid()
        self.assertEqual(self.tpuctl("stop", "a").returncode, 0)
        self.ended("timeout", "KILL")

    def test_outlives_us(self):
        """It goes on while tpu-launchd is dead, and its end is known to the next one, and to the one
        after that."""
        self.run_of(f"echo $$ >{self.folder}/pid; exec sleep 1000")
        pid = self.pid()
        self.kill()
        self.start()
        run = self.listed()
        self.assertEqual((run["state"], run["name"]), ("running", "a"))
        wait_until(lambda: self.listed()["main_pid"] == pid and self.listed()["processes"] == 1, 20,
                   self.said)
        self.kill()
        os.kill(pid, signal.SIGSEGV)
        self.start()
        self.ended("signal", "SEGV")
        self.kill()
        self.start()
        self.ended("signal", "SEGV")

    def test_told_of_a_preemption(self):
        self.run_of(f"trap 'exit 5' USR1; echo $$ >{self.folder}/pid; while :; do sleep 0.05; done",
                    "--preempt", "USR1")
        self.pid()
        request = message({1: "a"})
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.path))
            s.sendall(struct.pack("<IHH", len(request), 1, SIGNAL_REQUEST) + request)
            self.assertEqual(struct.unpack("<IHH", s.recv(8))[2], SIGNAL_REPLY)
        self.ended("preempted", "5")

    def test_without_a_record(self):
        """Its recorder did not run: nobody knows how it ended, and that is never a success."""
        self.manager.forgetful.touch()
        self.run_of("exit 0")
        self.ended("unknown", "")

    def test_image_without_its_engine(self):
        self.assertFalse((self.root / "usr/bin/podman").exists())
        done = self.tpuctl("run", "--name", "a", "--image", "py:1", "--", "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("podman is not installed on this host", done.stderr)
        self.assertIn("to do:  sudo apt-get install podman catatonit", done.stderr)
        done = self.tpuctl("run", "--name", "a", "--image", "dir:/etc", "--", "true")
        self.assertEqual(done.returncode, 64)
        self.assertIn("image 'dir:/etc' is not an image's name", done.stderr)

    def test_name_is_taken(self):
        self.run_of(f"echo $$ >{self.folder}/pid; exec sleep 1000")
        self.pid()
        done = self.tpuctl("run", "--name", "a", "--directory", "/", "--share-devices", "--", "/bin/sh")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("run a is running", done.stderr)


class WithoutSystemd(Launchd):
    systemd = False

    def test_refused(self):
        done = self.tpuctl("run", "--name", "a", "--directory", "/", "--share-devices", "--", "/bin/sh",
                           "-c", "exit 0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("systemd is not the first process", done.stderr)
        self.assertIn("to do:  start it on a machine that systemd has booted", done.stderr)
        self.assertIn("no run can be started: systemd is not the first process of this machine", self.said())
        self.assertNotIn("system bus", self.said())
        # all else is answered
        self.assertEqual(json.loads(self.tpuctl("runs", "--json").stdout)["runs"], [])


if __name__ == "__main__":
    unittest.main()
