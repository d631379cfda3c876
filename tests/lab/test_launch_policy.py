#!/usr/bin/python3
"""What tpu-launchd promises of a run, on a booted host: rights, limits, secrets, devices, causes, restarts,
preemption.

Judged by systemd, /proc and the journal. Needs root and the packages in build/debs.
"""

import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab import Lab              # noqa: E402  (the path comes first)
from lab.check import check      # noqa: E402
import scenario                  # noqa: E402
from test_launch import IDENTITY, KIND_ERROR, Refused  # noqa: E402

RUN = {1: "name", 3: "state", 4: "cause", 5: "code", 6: "status", 13: "main_pid", 16: "generation",
       20: "restarts", 22: "why",
       23: "remedy", 25: "last_step", 26: "preempted"}
AUDIT = "5d0a3e1b7c9f4c5f8a20c61f3d7e4b92"
GRANT = "/etc/tpu-hostd/authority.conf.d/10-remote.conf"


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Policy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        host_deb, _ = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))
        cls.lab = cls.enterClassContext(Lab(hosts=1, debs=[host_deb], before_boot=lambda h: h.write(
            "/etc/tpu-hostd/identity.conf.d/10-site.conf", IDENTITY)))
        cls.host = cls.lab.hosts[0]
        cls.host.write("/usr/local/bin/frames", (HERE / "launch_frames.py").read_text(), 0o755)
        cls.host.sh("useradd -m -G tpu-run alice; useradd -m bob; mkdir -m 0777 /srv/open")

    def ask(self, verb, *words, user=None):
        r = self.host.run(["/usr/bin/python3", "/usr/local/bin/frames", verb, *words], user=user,
                          timeout=100)
        answer = json.loads(r.out)
        if answer["kind"] == KIND_ERROR:
            raise Refused(*(answer["fields"].get(n, [""])[0] for n in ("1", "2", "3")))
        return answer

    def run_as(self, user, name, *words):
        return self.ask("run", f"name={name}", *words, user=user)["fields"]

    def listed(self, name):
        run, = self.ask("runs", f"1={name}", user="bob")["runs"]
        return {RUN[int(n)]: v[0] for n, v in run.items() if int(n) in RUN}

    def until(self, name, state):
        self.host.wait_for(lambda: self.listed(name)["state"] == state, timeout=60)
        return self.listed(name)

    def ended(self, name):
        return self.until(name, "exited")

    def show(self, name, prop):
        return self.host.sh(f"systemctl show -P {prop} tpu-run-{name}.service").strip()

    def refused(self, code, *args, **kwargs):
        with self.assertRaises(Refused) as caught:
            self.ask(*args, **kwargs)
        self.assertEqual(caught.exception.args[0], code, caught.exception.args)
        return caught.exception.args

    def test_limits_and_devices(self):
        self.run_as("alice", "limits", "memlock=1048576", "nofile=4096", "memory=268435456", "cpus=0",
                    "grace=7000000", "slice=slice a", "worker=3",
                    "--", "sleep", "1000")
        pid = self.show("limits", "MainPID")
        limits = {line[:26].strip(): line[26:].split()
                  for line in self.host.sh(f"cat /proc/{pid}/limits").splitlines()}
        self.assertEqual((limits["Max locked memory"][0], limits["Max open files"][0],
                          limits["Max core file size"][0]),
                         ("1048576", "4096", "0"))
        self.assertIn("Cpus_allowed_list:\t0\n", self.host.sh(f"cat /proc/{pid}/status"))
        self.assertEqual((self.show("limits", "MemoryMax"), self.show("limits", "TimeoutStopUSec"),
                          self.show("limits", "DevicePolicy")),
                         ("268435456", "7s", "closed"))
        self.assertIn("char-vfio* rw", self.show("limits", "DeviceAllow"))
        self.assertEqual(
                self.host.sh("journalctl -p warning -o cat _PID=1 | grep -c 'stat device'; true").strip(),
                "0")
        self.ask("stop", "1=limits", user="alice")
        self.run_as("alice", "lines", "slice=slice a", "worker=3", "generation=4", "intent=5e71a1", "--",
                    "echo", "a line")
        self.ended("lines")
        record, = [json.loads(line) for line in self.host.sh("journalctl -o json TPU_RUN=lines _COMM=echo + "
                                                             "TPU_RUN=lines MESSAGE='a line'").splitlines()]
        self.assertEqual([record[f"TPU_{f}"] for f in ("SLICE", "WORKER", "GENERATION", "INTENT")],
                         ["slice a", "3", "4", "5e71a1"])

    def test_memory_of_the_slice(self):
        """The limit is the slice's, with the containers in it; it goes with the run, and comes with its
        next start."""
        self.run_as("alice", "small", "memory_total=134217728", "memory_high=67108864", "restarts=1", "--",
                    "sh", "-c", "exec sleep 1000")
        for again in (False, True):
            self.assertEqual({*self.host.sh("systemctl show -p MemoryMax -p MemoryHigh tpu-run-small.slice").split()},
                             {"MemoryMax=134217728", "MemoryHigh=67108864"})
            self.assertEqual(self.show("small", "MemoryMax"), "infinity")
            if not again:
                first = self.listed("small")["main_pid"]
                self.host.sh(f"kill -KILL {first}")
                self.host.wait_for(lambda: self.listed("small").get("main_pid", 0) not in (0, first)
                                   and self.listed("small")["state"] == "running",
                                   timeout=60)
        # Beside the service, as a container would be: 256 MiB are too much for the slice.
        self.host.run(["systemd-run", "--collect", "--unit=beside", "--slice=tpu-run-small.slice", "--wait",
                       "-p", "MemorySwapMax=0", "python3", "-c",
                       "x = b'1' * (256 << 20)"], timeout=100)
        self.assertIn("status=9/KILL", self.host.sh("journalctl -u beside -o cat --no-pager"))
        self.ask("stop", "1=small", user="alice")
        self.host.wait_for(lambda: self.host.sh("systemctl show -P MemoryMax tpu-run-small.slice").strip()
                           == "infinity", timeout=60)
        self.run_as("alice", "greedy", "memory_total=67108864", "--", "python3", "-c",
                    "import time; time.sleep(1); x = b'1' * (256 << 20)")
        self.assertEqual(self.ended("greedy")["cause"], "oom-kill")

    def test_device_policy(self):
        """What launchd says of the policy is so: a node that is not let in is refused to a run whose user
        may read it, and only then."""
        says = "test -r /dev/kmsg && echo open >/srv/open/says || echo shut >/srv/open/says"
        seen = {}

        def look(name, *words):
            warning = self.run_as("alice", name, *words, "--", "sh", "-c", says).get("8", [])
            self.ended(name)
            seen[name] = (self.host.sh("cat /srv/open/says; rm /srv/open/says").strip(),
                          [w for w in warning if "device" in w])
            return seen[name]

        self.assertEqual(self.host.sh("test -r /dev/kmsg && stat -c %t:%T:%a /dev/kmsg", user="alice"),
                         "1:b:644\n")
        found, warning = look("closed")
        self.assertEqual((found, len(warning)), ("open", 1) if warning else ("shut", 0), seen)
        self.assertEqual(look("named", "devices=/dev/kmsg")[0], "open")
        self.assertEqual(look("any", "devices=any"), ("open", []))
        self.host.sh("mknod -m 666 /dev/accel7 c 1 11")  # the same device under a TPU's name
        self.assertEqual(look("tpu")[0], "open")
        self.host.sh("rm /dev/accel7")
        self.host.write("/etc/tpu-hostd/launchd.conf.d/10-site.conf", "[Devices]\nPolicy=any\n")
        self.assertEqual(look("host"), ("open", []))
        self.host.sh("rm /etc/tpu-hostd/launchd.conf.d/10-site.conf")
        print(f"device policy of this lab: {found}", flush=True)

    def test_secret(self):
        """The run has it; the unit, the files on disk and the journal have not; another user cannot read
        it."""
        self.run_as("alice", "secret", "6.1=API_KEY", "6.2=s3cr3t-of-alice", "--", "sh", "-c",
                    "printf %s \"$API_KEY\" >/srv/open/key; exec sleep 1000")
        self.host.wait_for(lambda: self.host.sh("cat /srv/open/key 2>/dev/null; true") == "s3cr3t-of-alice",
                           timeout=60)
        self.assertNotIn("s3cr3t", self.host.sh("systemctl show tpu-run-secret.service; systemctl cat "
                                                "tpu-run-secret.service"))
        self.assertNotIn("s3cr3t", self.host.sh("journalctl --no-pager -o verbose -u 'tpu-*'"))
        self.assertEqual(self.host.sh("grep -rl s3cr3t /var/lib/tpu-launchd /etc "
                                      "/run/systemd/transient/tpu-*; true").strip(), "")
        for path in ("/run/tpu-launchd/secrets/secret",
                     "/run/credentials/tpu-run-secret.service/tpu-environment"):
            self.assertNotEqual(self.host.run(["cat", path], user="bob").code, 0, path)
        self.ask("stop", "1=secret", user="alice")
        self.assertEqual(self.host.sh("ls /run/tpu-launchd/secrets; rm /srv/open/key").strip(), "")

    def test_generations(self):
        """Asked again: the same run. A higher one: the old one ends, and all of it, before the new one
        begins."""
        words = ["generation=1", "grace=2000000", "user=alice", "--", "sh", "-c",
                 "trap 'sleep 0.5; exit 0' TERM; (trap '' TERM; sleep 1000) & while :; do sleep 0.1; done"]
        first = self.ask("run", "name=gang", *words)["fields"]
        pid = self.show("gang", "MainPID")
        again = self.ask("run", "name=gang", *words)["fields"]
        self.assertEqual((again["5"], again["7"], self.show("gang", "MainPID")), ([1], [1], pid))
        self.assertEqual(first["7"], [1])
        words[0] = "generation=2"
        second = self.ask("run", "name=gang", *words)["fields"]
        self.assertEqual(second["7"], [2])
        self.assertNotEqual(self.show("gang", "MainPID"), pid)
        self.assertEqual(len(self.host.sh("pgrep -f 'sleep 1000' | wc -l").split()), 1)
        words[0] = "generation=1"
        self.assertIn("generation 2", self.refused(116, "run", "name=gang", *words)[1])
        self.assertEqual(self.listed("gang")["state"], "running")
        self.ask("stop", "1=gang")

    def test_busy_device_and_stale_lock(self):
        self.host.sh("touch /tmp/libtpu_lockfile; chown bob /tmp/libtpu_lockfile; mkdir -p /dev/vfio; mknod "
                     "/dev/vfio/7 c 1 3")
        holder = self.host.spawn(["sh", "-c", "exec 9</dev/vfio/7; exec sleep 1000"], user=None)
        self.host.wait_for(lambda: "/dev/vfio/7" in self.host.sh("ls -l /proc/[0-9]*/fd 2>/dev/null; true"),
                           timeout=60)
        time.sleep(1.1)     # an answer about owners is a second old at most
        code, text, remedy = self.refused(16, "run", "name=busy", "--", "true", user="alice")
        self.assertIn("/dev/vfio/7 is in use by process", text)
        self.assertIn("kill ", remedy)
        self.host.sh("test -e /tmp/libtpu_lockfile")
        self.run_as("alice", "shared", "share_devices=1", "--", "true")     # who says so may
        self.host.stop_command(holder)
        self.host.wait_for(lambda: "/dev/vfio/7" not in self.host.sh("ls -l /proc/[0-9]*/fd 2>/dev/null; "
                                                                     "true"), timeout=60)
        self.run_as("alice", "free", "--", "true")
        self.assertEqual(self.host.sh("ls /tmp/libtpu_lockfile 2>&1; true").strip(),
                         "ls: cannot access '/tmp/libtpu_lockfile': No such file or directory")

    def test_causes(self):
        """Each from evidence of its own, within a second of the end (printed, not judged)."""
        cases = {
            "well": (["true"], "success"),
            "code": (["sh", "-c", "exit 3"], "exit-code"),
            "never": (["sh", "-c", "exit 93"], "never-restart"),
            "segv": (["sh", "-c", "kill -SEGV $$"], "signal"),
            "peer": (["sh", "-c", "echo 'I grpc_transport.cc:1930] GetMultiSliceTopology returned with "
                                  "status: UNAVAILABLE: x'; exit 1"], "peer-lost"),
            "went-on": (["sh", "-c", "echo 'GetMultiSliceTopology returned with status: UNAVAILABLE: x'; "
                         "echo 'completed step: 7, seconds: 0.5, loss: 0.3'; exit 1"], "exit-code"),
            "inuse": (["sh", "-c",
                       "echo 'ABORTED: The TPU is already in use by process with pid 1'; exit 1"],
                      "device-busy"),
        }
        for name, (argv, cause) in cases.items():
            self.run_as("alice", name, "--", *argv)
            run = self.ended(name)
            self.assertEqual(run["cause"], cause, run)
            if cause != "success":
                self.assertTrue(run["why"], run)
        self.assertEqual(self.listed("went-on")["last_step"], 7)

    def test_out_of_memory(self):
        """The run's own limit. Where this machine's lab has no memory controller, there is nothing to
        see."""
        self.run_as("alice", "oom", "memory=67108864", "--", "python3", "-c",
                    "x = bytearray(1 << 30); import time; time.sleep(1)")
        run = self.ended("oom")
        if run["cause"] == "success":
            self.skipTest("no memory controller here")
        self.assertEqual(run["cause"], "oom-kill", run)

    def test_started_again(self):
        """Over the death of tpu-launchd, up to its budget; and not when it makes no progress."""
        self.host.sh("rm -f /srv/open/count /srv/open/go")
        self.run_as("alice", "again", "restarts=2", "--", "sh", "-c",
                    "echo x >>/srv/open/count; n=$(wc -l </srv/open/count); echo \"completed step: $n, "
                    "seconds: 0.1, loss: 1\"; until test $n != 2 -o -e /srv/open/go; do sleep 0.1; done; "
                    "exit 1")
        self.host.wait_for(lambda: self.host.sh("grep -c x /srv/open/count; true").strip() == "2",
                           timeout=60)
        # while it waits for its third start
        self.host.sh("touch /srv/open/go; sleep 0.3; systemctl kill -s KILL tpu-launchd.service")
        self.host.wait_for(lambda: self.host.sh("systemctl show -P SubState tpu-launchd.service").strip()
                           == "running", timeout=60)
        run = self.ended("again")
        self.assertEqual((run["restarts"], run["cause"], self.host.sh("wc -l </srv/open/count").strip()),
                         (2, "exit-code", "3"), run)
        self.assertIn("all 2 restarts are done", run["why"])
        self.run_as("alice", "stuck", "restarts=99", "--", "sh", "-c",
                    "echo 'completed step: 1, seconds: 0.1, loss: 1'; exit 1")
        run = self.ended("stuck")
        self.assertIn("no progress", run["why"])
        self.assertLess(run["restarts"], 5)

    def test_preemption(self):
        self.run_as("alice", "told", "preempt=TERM", "--", "sh", "-c",
                    "trap 'echo saved >/srv/open/saved; exit 0' TERM; while :; do sleep 0.1; done")
        self.host.sh("sleep 0.5")
        fields = self.ask("signal", "1=told", "3=preemption", user="tpu-hostd")["fields"]
        self.assertIn("TERM to process", fields["2"][0])
        self.ended("told")
        self.host.sh("test -e /srv/open/saved; rm /srv/open/saved")
        self.run_as("alice", "asked", "preempt=/usr/bin/id -un >/srv/open/who; kill -USR1 $(cat "
                                      "/srv/open/pid)", "--", "sh", "-c",
                    "echo $$ >/srv/open/pid; trap 'exit 5' USR1; while :; do sleep 0.1; done")
        self.host.wait_for(lambda: self.host.sh("cat /srv/open/pid 2>/dev/null; true").strip(), timeout=60)
        self.ask("signal", "1=asked", "3=preemption", user="tpu-hostd")
        self.assertEqual(self.ended("asked")["cause"], "preempted")
        self.assertEqual(self.host.sh("cat /srv/open/who").strip(), "alice")
        self.host.sh("rm /srv/open/pid /srv/open/who")
        self.host.run(["tpuctl", "run", "--name", "line", "--malloc", "glibc", "--preempt",
                       "/usr/bin/id -un >/srv/open/who; kill -USR1 $(cat /srv/open/pid)",
                       "--", "sh", "-c", "echo $$ >/srv/open/pid; trap 'exit 5' USR1; while :; do sleep "
                                         "0.1; done"], user="alice", check=True)
        self.host.wait_for(lambda: self.host.sh("cat /srv/open/pid 2>/dev/null; true").strip(), timeout=60)
        self.ask("signal", "1=line", "3=preemption", user="tpu-hostd")
        self.assertEqual(self.ended("line")["cause"], "preempted")
        self.assertEqual(self.host.sh("cat /srv/open/who").strip(), "alice")
        self.run_as("alice", "untold", "preempt=none", "--", "sleep", "1000")
        self.refused(95, "signal", "1=untold", user="tpu-hostd")
        self.refused(13, "signal", "1=untold", user="bob")
        self.ask("stop", "1=untold", user="alice")

    def test_remote_is_granted_users_only(self):
        code, text, remedy = self.refused(13, "run", "name=r", "user=alice", "generation=1", "--", "true",
                                          user="tpu-hostd")
        self.assertIn(f"in {GRANT}: section [Remote], line Start=alice", remedy)
        self.host.write(GRANT, "[Remote]\nStart=alice\n")
        self.run_as("tpu-hostd", "r", "user=alice", "generation=1", "--", "sh", "-c",
                    "id -un; grep -E 'NoNewPrivs|CapEff' /proc/self/status; exec sleep 1000")
        self.assertEqual((self.show("r", "User"), self.show("r", "NoNewPrivileges")), ("alice", "yes"))
        self.host.wait_for(
                lambda: "NoNewPrivs:\t1" in self.host.sh("journalctl -o cat -t tpu-run TPU_RUN=r"),
                timeout=60)
        self.assertIn("CapEff:\t0000000000000000", self.host.sh("journalctl -o cat -t tpu-run TPU_RUN=r"))
        for user in ("root", "bob", "daemon", ""):
            self.refused(13, "run", "name=q", f"user={user}", "generation=1", "--", "true", user="tpu-hostd")
        self.ask("stop", "1=r", user="tpu-hostd")
        self.run_as("alice", "own", "--", "sleep", "1000")     # alice's own, and so stoppable
        self.ask("stop", "1=own", user="tpu-hostd")
        self.run_as(None, "roots", "--", "sleep", "1000")
        self.refused(13, "stop", "1=roots", user="tpu-hostd")
        self.ask("stop", "1=roots")
        # A line that names root grants nothing, not even the users beside it, and says where it stands.
        self.host.write(GRANT, "[Remote]\nStart=alice root\n")
        self.refused(13, "run", "name=r2", "user=alice", "generation=1", "--", "true", user="tpu-hostd")
        check = self.host.run(["tpu-launchd", "--check-config"])
        self.assertEqual(check.code, 1)
        self.assertIn(f"{GRANT}:2", check.err)
        self.host.sh(f"rm {GRANT}")
        asked = [json.loads(line)
                 for line in self.host.sh(f"journalctl -o json MESSAGE_ID={AUDIT}").splitlines()]
        mine = [(a["TPU_ACTION"], a["TPU_RESULT"], a["TPU_BY"]) for a in asked if a["TPU_RUN"] == "r"]
        self.assertEqual(mine, [("start", "refused", "tpu-hostd"), ("start", "accepted", "tpu-hostd"),
                                ("stop", "accepted", "tpu-hostd")])
        self.host.sh("tpuctl env own")  # alice's, shown to root
        self.host.run(["tpuctl", "env", "own"], user="alice")
        asked = [json.loads(line) for line in self.host.sh(f"journalctl -o json MESSAGE_ID={AUDIT} "
                                                           f"TPU_ACTION=environment").splitlines()]
        self.assertEqual([(a["TPU_RUN"], a["TPU_RESULT"], a["TPU_BY"]) for a in asked],
                         [("own", "accepted", "root")])

    def api(self, method, path, body=None):
        words = ["curl", "-sS", "--unix-socket", self.host.path("/run/tpu-hostd/api.sock"), "-X", method,
                 "-w", "\\n%{http_code}", f"http://h{path}"]
        if body is not None:
            words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        answer, _, code = subprocess.run(words, check=True, capture_output=True, text=True,
                                         timeout=100).stdout.rpartition("\n")
        return int(code), json.loads(answer)

    def test_posted(self):
        """POST and DELETE /v1/runs: tpu-hostd asks tpu-launchd as principal remote, whose refusal comes
        through."""
        run = {"name": "posted", "user": "alice", "serial": "s1", "generation": 1,
               "argv": ["sh", "-c", "id -un >/srv/open/posted; exec sleep 1000"]}
        code, said = self.api("POST", "/v1/runs", run)
        self.assertEqual(code, 403, said)
        self.assertIn(f"in {GRANT}: section [Remote], line Start=alice", json.dumps(said))
        self.host.write(GRANT, "[Remote]\nStart=alice\n")
        code, said = self.api("POST", "/v1/runs", run)
        self.assertEqual((code, said["name"], said["already"]), (201, "posted", False), said)
        self.until("posted", "running")
        self.host.wait_for(lambda: self.host.sh("cat /srv/open/posted 2>/dev/null; true").strip() == "alice",
                           timeout=60)
        code, said = self.api("POST", "/v1/runs", run)
        self.assertEqual((code, said["already"]), (200, True), said)
        code, said = self.api("POST", "/v1/runs", {**run, "name": "roots", "user": "root"})
        self.assertEqual(code, 403, said)
        code, said = self.api("DELETE", "/v1/runs/posted")
        self.assertEqual(code, 200, said)
        self.assertEqual(self.ended("posted")["cause"], "stopped")
        self.host.sh(f"rm {GRANT}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
