# SPDX-License-Identifier: Apache-2.0
"""Others' BPF programs that ask what ours ask, run as their users would: libbpf-tools, bpftrace
one-liners, bpftune."""
import shutil
import subprocess
import time
from pathlib import Path

import holding

PATIENCE = 300  # seconds until one of them has attached its programs: an emulated machine is slow
# What answers the same question as which set of ours, under the loads that ask it. bpftune looks for what it
# would change.
PEERS = {
    "bpftrace tcp_retransmit_skb": (["bpftrace", "-e", "tracepoint:tcp:tcp_retransmit_skb { @[args->dport] "
                                                       "= count(); }"], ("always on", "loss")),
    "tcprtt": (["tcprtt"], ("always on", "stream", "loss")),
    "tcpstates": (["tcpstates"], ("always on", "connects")),
    "tcplife": (["tcplife"], ("always on", "connects")),
    "tcpconnlat": (["tcpconnlat"], ("always on", "connects")),
    "bpftrace kfree_skb": (["bpftrace", "-e", "tracepoint:skb:kfree_skb { @[args->location, args->reason] = "
                                              "count(); }"], ("always on", "unwanted")),
    "sigsnoop": (["sigsnoop"], ("always on", "processes")),
    "exitsnoop": (["exitsnoop"], ("always on", "processes")),
    "bpftune": (["bpftune"], ("always on", "stream", "loss", "connects", "unwanted")),
    "runqlat": (["runqlat"], ("watching sched", "stream", "switches")),
    "runqslower": (["runqslower", "10000"], ("watching sched", "stream", "switches")),
    "offcputime": (["offcputime"], ("watching sched", "stream", "switches")),
    "softirqs": (["softirqs"], ("watching sched", "stream", "switches")),
    "biolatency": (["biolatency"], ("watching io", "reads")),
    "biosnoop": (["biosnoop"], ("watching io", "reads")),
    "syscount": (["syscount"], ("watching io", "reads", "switches")),
}
# and what it needs, of Debian 13
BPFTUNE = "bpftune libbpftune0 libbpf1 libc6 libcap2 libnl-3-200 libelf1t64 zlib1g libzstd1".split()
# They look for tracepoints in files, which not every machine has mounted. What bpftune would set stays as it
# is: /proc/sys is read-only.
PRIVATE = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
           "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; mount -t debugfs debugfs "
           "/sys/kernel/debug 2>/dev/null\n"
           "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys || exit 1\n"
           "mkdir -p /run/bench-bpf-cgroup && mount -t cgroup2 none /run/bench-bpf-cgroup\nexec \"$@\"",
           "sh"]


def bpftune(tree, memlock):
    """Its own C library's loader runs it, out of the folder that its packages were unpacked into."""
    lib = Path(tree) / "usr/lib/x86_64-linux-gnu"
    return [str(lib / "ld-linux-x86-64.so.2"), "--preload", memlock, "--library-path", str(lib),
            str(Path(tree) / "usr/sbin/bpftune"), "-s",
            "-c", "/run/bench-bpf-cgroup", "-l", str(lib / "bpftune")]


def command(name, tree, memlock):
    """Its words, or why there are none."""
    words = PEERS[name][0]
    if name == "bpftune":
        return bpftune(tree, memlock) if tree else "not installed"
    path = shutil.which(words[0], path="/usr/sbin:/usr/bin")
    return [path, *words[1:]] if path else "not installed"


class Peer:
    """One of them as long as it is open: .ids of its programs, or .why there are none."""

    def __init__(self, words):
        self.why, self.ids = None, []
        self.process = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *PRIVATE, *words],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, text=True, errors="replace")
        end, stable = time.monotonic() + PATIENCE, 0
        while time.monotonic() < end and self.process.poll() is None and stable < 4:
            time.sleep(0.5)
            try:
                now = holding.programs_of(self.process.pid)
            except OSError:
                continue  # it ended
            stable = stable + 1 if now and now == self.ids else 0
            self.ids = now
        if self.process.poll() is not None or not self.ids:
            said = self.close()
            self.why = said[-1] if said else "it attaches nothing"

    def close(self):
        """What it said to people."""
        if self.process.poll() is None:
            self.process.kill()
        return self.process.communicate()[1].strip().splitlines()
