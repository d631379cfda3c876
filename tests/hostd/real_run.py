"""A tpu-hostd on the real machine, with its BPF programs, and runs of it: real processes in the control
group of a run."""
import os
import shutil
import subprocess
import threading
import time
import unittest
from pathlib import Path

import around

NOBODY = 65534
TRIES = 10
HIDE = ('for d in /var/lib /run; do mount -t tmpfs none "$d"; done; for d in /var/lib/tpu-hostd '
        '/run/tpu-hostd; do mkdir "$d"; chown 65534 "$d"; '
        'done; exec "$@"')
# As systemd/tpu-hostd.service has it: a user of its own, with the two capabilities alone.
AS_SERVICE = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
              "--inh-caps=-all,+bpf,+perfmon",
              "--ambient-caps=-all,+bpf,+perfmon", "--bounding-set=-all,+bpf,+perfmon", "--no-new-privs"]


def base():
    """Where control groups of version 2 are; None: nowhere."""
    for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if Path(place, "cgroup.controllers").exists():
            return Path(place)
    return None


def why_not():
    if os.geteuid() != 0:
        return "needs root, for BPF and control groups"
    if not (around.BINARY.parent / "tpu-hostd-bpf").exists():
        return "built without BPF"
    if not base() or not os.access(base(), os.W_OK):
        return "no control groups of version 2 that can be made here"
    return None


class Run:
    """Real processes in tpu-run-NAME.slice. name is one of this test's own."""

    def __init__(self, word):
        self.name = f"{word}-{os.getpid()}"
        self.group = base() / "tpu.slice/tpu-run.slice" / f"tpu-run-{self.name.replace('-', '_')}.slice"
        self.group.mkdir(parents=True)
        self.processes = []

    def start(self, *command, before=None, **more):
        def enter():
            (self.group / "cgroup.procs").write_text("0")
            if before:
                before()

        self.processes.append(subprocess.Popen(command, preexec_fn=enter, **more))
        return self.processes[-1]

    def listed(self, **more):
        """What tpu-launchd reports of it (proto/local.proto, Run)."""
        return {1: self.name, 2: f"tpu-run-{self.name}.service", 3: "running", 7: "plain", 8: "glibc",
                9: "root", 10: "train",
                11: self.started, 12: 0, 13: self.processes[0].pid, 14: len(self.processes), **more}

    started = property(lambda self: int((time.time() - 60) * 1e6))

    def close(self):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
            p.wait()
        if (self.group / "cgroup.kill").exists():  # their children, too
            (self.group / "cgroup.kill").write_text("1")
        around.wait_until(lambda: "populated 0" in (self.group / "cgroup.events").read_text(), 60,
                          "the control group is empty")
        self.group.rmdir()
        for parent in list(self.group.parents)[:2]:
            try:
                parent.rmdir()  # unless others have runs there
            except OSError:
                break


class RealHostd(around.Hostd):
    """On the root of this machine; what it would write in its own folders goes into a mount namespace of
    its own."""

    def __init__(self, **hostd):
        super().__init__(**hostd)
        self.after = []  # words before the program itself, as its user
        self.launchd = around.Launchd(self.folder / "launchd.sock")

    def start(self, watchdog_usec=None):
        programs = self.folder / "bin"  # where nobody may look
        if not programs.exists():
            programs.mkdir()
            for name in ("tpu-hostd", "tpu-hostd-bpf"):
                shutil.copy(around.BINARY.parent / name, programs)
        self.binary = programs / "tpu-hostd"
        (self.folder / "launchd.sock").chmod(0o666)
        os.chown(self.folder, NOBODY, NOBODY)
        os.chown(self.folder / "notify", NOBODY, NOBODY)
        self.wrapper = ["unshare", "-m", "sh", "-c", HIDE, "sh", *AS_SERVICE, *self.after]
        self.root = "/"
        return super().start(watchdog_usec)

    def close(self, failed=False):
        super().close(failed)
        self.launchd.stop()

    def check(self, name):
        return next((c for c in self.get("/v1/checks")["checks"] if c["check"] == name), None)


@unittest.skipIf(why_not(), why_not())
class Case(unittest.TestCase):
    def setUp(self):
        self.h = RealHostd()
        self.addCleanup(lambda: self.h.close(around.has_failed(self)))

    def run_of(self, word):
        run = Run(word)
        self.addCleanup(run.close)
        return run

    def watched(self, kind, run, work, good=lambda did: True):
        """(what work() returned, what was watched) of a watch that began before the work and ended behind
        it. On a machine that stands
        still: again, with more patience, and again when what was done is not good."""
        def watches():
            return [e for e in self.h.events("tpu.api.acted") if "is watched" in e["body"]["result"]]

        for seconds in (2, *[30] * TRIES):
            answer, times = [], len(watches())
            asking = threading.Thread(
                    target=lambda: answer.append(self.h.get(f"/v1/{kind}?run={run.name}&watch={seconds}")))
            asking.start()
            around.wait_until(lambda: len(watches()) > times or answer, 60, "the watch")
            did = work()
            in_time = not answer
            asking.join()
            if in_time and good(did):
                return did, answer[0]["watch"]
        self.skipTest("this machine stands still")

    def needs(self, *sets):
        """Skips where the kernel does not take these sets of programs."""
        for name in sets:
            found = around.wait_until(lambda name=name: self.h.check("bpf_" + name), 60,
                                      f"the check of {name}")
            if found["verdict"] != "OK":
                self.skipTest(f"BPF set {name}: {found['reason']}")
