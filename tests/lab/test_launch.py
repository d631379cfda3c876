#!/usr/bin/python3
"""tpu-launchd on a booted host, judged by systemd, /proc and the journal. Needs root and the packages in
build/debs.

Runs are asked for by launch_frames.py, so that nothing here rests on tpuctl.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent / "ctl"))

from lab import Lab              # noqa: E402  (the path comes first)
from lab.check import check      # noqa: E402
import scenario                  # noqa: E402
from readers import Jax, Metadata  # noqa: E402

IDENTITY = """[Identity]
SliceName=lab
AcceleratorType=v6e-4
Topology=2x2
WorkerId=0
WorkerHostnames=h0
Chips=4
"""
# Writes down who loads it.
PRELOADED = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
        int fd = open("/srv/loaded/by", O_WRONLY | O_APPEND);
        dprintf(fd, "%d\\n", (int) geteuid());
        close(fd);
}
"""
STEPS = "n=0; while :; do n=$((n + 1)); echo $n >/srv/loaded/steps; sleep 0.05; done"
RUN = {1: "name", 2: "unit", 3: "state", 4: "cause", 5: "code", 6: "status", 8: "malloc", 9: "user",
       10: "command",
       11: "started", 12: "ended", 13: "main_pid", 14: "processes", 15: "control_group"}
KIND_ERROR = 1


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Refused(Exception):
    """tpu-launchd's KIND_ERROR: code, text, remedy."""


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        host_deb, _ = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))
        cls.lab = cls.enterClassContext(Lab(hosts=1, debs=[host_deb], before_boot=lambda h: h.write(
            "/etc/tpu-hostd/identity.conf.d/10-site.conf", IDENTITY)))
        cls.host = cls.lab.hosts[0]
        cls.host.write("/usr/local/bin/frames", (HERE / "launch_frames.py").read_text(), 0o755)
        cls.host.sh("useradd -m -G tpu-run alice; useradd -m bob; mkdir -m 0777 /srv/loaded")

    def ask(self, verb, *words, user=None):
        """Returns the answer of tpu-launchd to user (root when None)."""
        r = self.host.run(["/usr/bin/python3", "/usr/local/bin/frames", verb, *words], user=user, timeout=60)
        answer = json.loads(r.out)
        if answer["kind"] == KIND_ERROR:
            raise Refused(*(answer["fields"].get(n, [""])[0] for n in ("1", "2", "3")))
        return answer

    def start(self, name, *argv, user="alice", env=(), **fields):
        return self.ask("run", f"name={name}", *(f"env={e}" for e in env),
                        *(f"{k}={v}" for k, v in fields.items()),
                        "--", *argv, user=user)["fields"]

    def listed(self, name):
        run, = self.ask("runs", f"1={name}", user="bob")["runs"]
        return {RUN[int(n)]: v[0] for n, v in run.items() if int(n) in RUN}

    def ended(self, name):
        self.host.wait_for(lambda: self.listed(name)["state"] == "exited", timeout=10)
        return self.listed(name)

    def refused(self, code, verb, *words, **kwargs):
        with self.assertRaises(Refused) as caught:
            self.ask(verb, *words, **kwargs)
        self.assertEqual(caught.exception.args[0], code, caught.exception.args)
        self.assertTrue(caught.exception.args[1] and caught.exception.args[2],
                        "an error without text or remedy")
        return caught.exception.args[1]

    def show(self, name, prop):
        return self.host.sh(f"systemctl show -P {prop} tpu-run-{name}.service").strip()

    def steps(self):
        return int(self.host.sh("cat /srv/loaded/steps").strip() or 0)

    def test_service_of_its_own(self):
        """The command runs as its user, in its slice, with its words unchanged; its exit code is known."""
        words = "echo \"$A|$0|$1|$(id -un)|$(pwd)\"; exit 3"
        self.start("own", "sh", "-c", words, "${HOME} %n", "$$ b", env=["A=x $y"], directory="/srv")
        run = self.ended("own")
        self.assertEqual((run["cause"], run["code"], run["status"], run["user"]),
                         ("exit-code", "exited", "3", "alice"))
        line = self.host.sh("journalctl -o cat -t tpu-run TPU_RUN=own").strip()
        self.assertEqual(line, "x $y|${HOME} %n|$$ b|alice|/srv")

    def test_slice_environment_allocator(self):
        answer = self.start("env-1", "sleep", "1000", framework="jax", env=["JAX_PLATFORMS=cpu"])
        self.assertIn("JAX_PLATFORMS: yours 'cpu' kept, ours would be 'tpu,cpu'", answer["4"][0])
        self.assertEqual(self.show("env-1", "Slice"), "tpu-run-env_1.slice")
        pid = self.show("env-1", "MainPID")
        env = dict(e.split("=", 1) for e in self.host.sh(f"cat /proc/{pid}/environ").split("\0") if e)
        self.assertEqual((env["TPU_WORKER_ID"], env["TPU_SKIP_MDS_QUERY"], env["TPU_HOST_BOUNDS"],
                          env["JAX_PLATFORMS"]),
                         ("0", "1", "1,1,1", "cpu"))
        # JAX finds all of it there, as on a host without a metadata server
        for version in Jax.VERSIONS:
            found = Jax(version, env, Metadata("absent")).initialize()
            self.assertEqual(found, ("h0:8476", 1, 0))
        maps = self.host.sh(f"cat /proc/{pid}/maps")
        self.assertEqual("libtcmalloc" in maps, answer["3"][0].startswith("tcmalloc"), answer["3"])
        # Not even root's own tools show a run's variables, which may be secrets.
        self.assertEqual(self.show("env-1", "Environment"), "")
        self.ask("stop", "1=env-1", user="alice")
        self.assertNotIn("tpu-run-env_1.slice",
                         self.host.sh("systemctl list-units --all --plain --no-legend 'tpu-run-*.slice'"))

    def test_agents_die_and_the_run_goes_on(self):
        self.start("alive", "sh", "-c", STEPS)
        pid = self.show("alive", "MainPID")
        for _ in range(8):  # more than systemd's default limit of starts allows
            before = self.steps()
            self.host.sh("systemctl kill -s KILL tpu-launchd.service")
            self.host.wait_for(
                    lambda: self.host.sh("systemctl show -P SubState tpu-launchd.service").strip()
                    == "running", timeout=5)
            self.host.wait_for(lambda: self.steps() > before + 3, timeout=10)
        self.assertEqual(self.show("alive", "MainPID"), pid)
        self.host.wait_for(lambda: self.listed("alive")["state"] == "running"
                           and self.listed("alive").get("main_pid") == int(pid), timeout=10)
        # It ends while nobody is there to see.
        self.host.sh("systemctl stop tpu-launchd.socket tpu-launchd.service; kill -KILL " + pid)
        self.host.wait_for(lambda: self.show("alive", "ActiveState") == "inactive", timeout=10)
        self.host.sh("systemctl start tpu-launchd.socket tpu-launchd.service")
        run = self.ended("alive")
        self.assertEqual((run["cause"], run["code"], run["status"]), ("signal", "killed", "KILL"))
        self.assertEqual(self.host.sh("ls /run/tpu-launchd/handover").strip(), "")

    def test_no_record_is_never_success(self):
        self.start("lost", "sleep", "1000")
        self.host.sh("mv /usr/sbin/tpu-launchd /usr/sbin/tpu-launchd.away; systemctl kill -s TERM "
                     "tpu-run-lost.service")
        self.host.wait_for(lambda: self.show("lost", "ActiveState") == "inactive", timeout=10)
        self.host.sh("mv /usr/sbin/tpu-launchd.away /usr/sbin/tpu-launchd")
        # what systemd has forgotten
        self.assertEqual(self.host.sh("systemctl show -P Result tpu-run-lost.service").strip(), "success")
        self.assertEqual(self.ended("lost")["cause"], "unknown")

    def test_stop(self):
        self.start("soft", "sleep", "1000")
        self.ask("stop", "1=soft", user="alice")
        self.assertEqual(self.listed("soft")["status"], "TERM")
        self.start("stubborn", "sh", "-c", "trap '' TERM; while :; do sleep 1; done", grace=2000000)
        start = time.monotonic()
        self.ask("stop", "1=stubborn")
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual((self.listed("stubborn")["cause"], self.listed("stubborn")["status"]),
                         ("timeout", "KILL"))

    def test_rights(self):
        self.start("rights", "sleep", "1000")
        self.assertIn("not in group tpu-run", self.refused(13, "run", "--", "true", user="bob"))
        self.refused(13, "run", "user=root", "--", "true", user="alice")
        self.refused(13, "stop", "1=rights", user="bob")
        self.refused(13, "capture", "1=rights", user="bob")
        self.refused(13, "run", "--", "true", user="tpu-hostd")
        self.refused(13, "stop", "1=rights", user="tpu-hostd")
        self.refused(17, "run", "name=rights", "--", "true", user="alice")
        self.refused(2, "run", "--", "no-such-command", user="alice")
        self.assertEqual(self.listed("rights")["state"], "running")
        self.ask("stop", "1=rights")

    def test_a_users_library_is_never_roots(self):
        """LD_PRELOAD of a run is loaded by the run, and by no process of root's: neither our recorder nor
        systemd's own."""
        with tempfile.TemporaryDirectory() as d:
            Path(d, "x.c").write_text(PRELOADED)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{d}/x.so", f"{d}/x.c"], check=True)
            self.host.path("/srv/x.so").write_bytes(Path(d, "x.so").read_bytes())
        self.host.sh("install -m 0666 /dev/null /srv/loaded/by; chmod 0755 /srv/x.so")
        self.start("preload", "sleep", "0.1", env=["LD_PRELOAD=/srv/x.so"])
        self.assertEqual(self.ended("preload")["cause"], "success")
        loaded_by = set(self.host.sh("cat /srv/loaded/by").split())
        self.assertEqual(loaded_by, {self.host.sh("id -u alice").strip()})

    def test_bus_comes_back(self):
        self.start("bus", "sleep", "1000")
        self.host.sh("systemctl --no-block restart dbus.service")

        def starts():
            try:
                return self.start("after", "true")
            except Refused as refused:
                self.assertIn("system bus", refused.args[1])
                return None

        self.host.wait_for(starts, timeout=10)
        self.assertEqual(self.listed("bus")["state"], "running")
        self.ask("stop", "1=bus", user="alice")
        self.assertEqual(self.listed("bus")["status"], "TERM")

    def test_systemd_reads_its_units_anew(self):
        """At a daemon-reload systemd tells that all units are gone, and reads the run's unit from a file."""
        words = ["%n", "$HOME $$", ";", "a\nExecStopPost=/bin/touch /srv/injected", "\\x41", "'\""]
        self.start("reload", "sh", "-c", STEPS, *words)
        pid, words_before = self.show("reload",
                                      "MainPID"), self.host.sh(
                                              f"cat /proc/{self.show('reload', 'MainPID')}/cmdline")
        self.assertEqual(words_before.split("\0")[3:-1], words)
        for verb in ("daemon-reload", "daemon-reload", "daemon-reexec", "daemon-reload"):
            self.host.sh(f"systemctl {verb}")
            before = self.steps()
            self.host.wait_for(lambda: self.steps() > before + 3, timeout=10)
            self.assertEqual((self.show("reload", "MainPID"), self.show("reload", "LoadState")),
                             (pid, "loaded"), verb)
            run = self.listed("reload")
            self.assertEqual((run["state"], run["main_pid"]), ("running", int(pid)), verb)
        self.ask("stop", "1=reload", user="alice")
        self.assertEqual((self.listed("reload")["cause"], self.listed("reload")["status"]),
                         ("stopped", "TERM"))
        self.assertEqual(self.host.sh("ls /srv/injected 2>&1; true").strip(),
                         "ls: cannot access '/srv/injected': No such file or directory")

    def test_same_name_again_at_once(self):
        """The end of the run before is no end of the one that took its name."""
        for n in range(10):
            self.start("again", "true")
            self.ended("again")
            started = self.host.wait_for(lambda: self.start_or_none("again", "sleep", "1000"), timeout=10)
            self.assertEqual(started["1"], ["again"])
            time.sleep(0.05)
            run = self.listed("again")
            self.assertEqual((run["state"], self.show("again", "ActiveState")), ("running", "active"), n)
            self.ask("stop", "1=again")

    def start_or_none(self, *words):
        try:
            return self.start(*words)
        except Refused as refused:
            self.assertEqual(refused.args[0], 17, refused.args)  # its unit is not quite gone
            return None

    def test_capture(self):
        self.start("stack", "python3", "-c",
                   "import time\ndef wait_for_ever():\n    time.sleep(1000)\nwait_for_ever()")
        self.host.wait_for(
                lambda: "python3" in self.host.sh(f"cat /proc/{self.show('stack', 'MainPID')}/comm"),
                timeout=10)
        time.sleep(1)
        fields = self.ask("capture", "1=stack", user="tpu-hostd")["fields"]
        self.assertIn("wait_for_ever", fields["6"][0])
        self.ask("stop", "1=stack")

    def test_capture_of_all_frames(self):
        """With what the unit permits: kernel, native and Python frames as one stack, and nothing had to
        be stopped for them."""
        self.start("frames", "python3", "-c",
                   "import time\ndef wait_for_ever():\n    time.sleep(1000)\nwait_for_ever()")
        self.host.wait_for(
                lambda: "python3" in self.host.sh(f"cat /proc/{self.show('frames', 'MainPID')}/comm"),
                timeout=10)
        time.sleep(1)
        fields = self.ask("capture", "1=frames", "2=1", user="tpu-hostd")["fields"]
        self.assertEqual(fields["7"], [1])
        group = self.show("frames", "ControlGroup")
        shown = self.host.sh(f"tpu-stack --capture --native --cgroup {group} >/tmp/frames.capture && tpuctl "
                             f"stack --json --from /tmp/frames.capture")
        process = json.loads(shown)["processes"][0]
        self.assertEqual(process.get("kernel_by"), "iter/task", process.get("kernel_unknown"))
        thread = process["threads"][0]
        kinds = "".join(f.get("kind", "python")[0] for f in thread["frames"])
        self.assertRegex(kinds, "^k+n+ppn+$")
        self.assertEqual(thread["native"], {"merged": True, "cut": False, "pause_ns": 0})
        self.assertIn("nanosleep",
                      "".join(f["function"] for f in thread["frames"] if f.get("kind") == "kernel"))
        self.ask("stop", "1=frames")


if __name__ == "__main__":
    unittest.main(verbosity=2)
