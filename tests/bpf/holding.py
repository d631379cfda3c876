# SPDX-License-Identifier: Apache-2.0
"""BPF programs of ours, held by a process of a test (holder.c), and what the kernel says of them."""
import json
import os
import re
import shutil
import subprocess
import unittest

BUILD = os.environ["BUILD_DIR"]
LOADER = f"{BUILD}/agent/hostd/tpu-hostd-bpf"
HOLDER = f"{BUILD}/tests/bpf/bpf-holder"
BPFTOOL = shutil.which("bpftool", path="/usr/sbin:/usr/bin")


def as_nobody(*capabilities):
    words = ",".join(["-all"] + ["+" + c for c in capabilities])
    return ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=" + words,
            "--ambient-caps=" + words,
            "--bounding-set=" + words]


def why_not():
    """What keeps this machine from BPF, as others than our loader say; None: nothing."""
    if os.geteuid() != 0:
        return "needs root, to become another user with two capabilities"
    if not os.path.exists(LOADER):
        return "built without BPF"
    if not BPFTOOL:
        return "there is no bpftool"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "this kernel tells no types"
    done = subprocess.run([BPFTOOL, "prog", "list"], capture_output=True, text=True, timeout=60, check=False)
    return f"no bpf() on this machine: {done.stderr.strip()}" if done.returncode else None


class Holder:
    """The programs, as long as it lives; before: what stands before the command (a namespace, another
    user)."""

    def __init__(self, before=(), loader=LOADER):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *before, HOLDER, loader],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"bpf-holder: {self.process.communicate()[1]}")
        said = json.loads(line)
        self.pid = said["pid"]
        self.sets = {s["name"]: s for s in said["sets"]}

    def figures(self, name="net"):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def programs(self):
        return programs_of(self.pid)

    def missed(self, name):
        """How often a program did not run because it ran already on that CPU."""
        shown = [json.loads(subprocess.run([BPFTOOL, "-j", "prog", "show", "id", str(i)],
                                           capture_output=True, text=True, check=True,
                                           timeout=60).stdout) for i in self.programs()]
        return sum(p.get("recursion_misses", 0) for p in shown if p["name"] == name)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()


def programs_of(pid):
    """Ids of the programs that a process's descriptors keep attached."""
    ids = set()
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="utf-8") as f:
                ids.update(map(int, re.findall(r"^prog_id:\s*(\d+)", f.read(), re.MULTILINE)))
        except FileNotFoundError:
            pass  # closed meanwhile
    return sorted(ids)


def loaded(program_id):
    return subprocess.run([BPFTOOL, "prog", "show", "id", str(program_id)], capture_output=True, timeout=60,
                          check=False).returncode == 0


class Case(unittest.TestCase):
    def setUp(self):
        why = why_not()
        if why:
            self.skipTest(why)

    def hold(self, **how):
        h = Holder(**how)
        self.addCleanup(h.close)
        return h
