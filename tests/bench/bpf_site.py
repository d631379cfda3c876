# SPDX-License-Identifier: Apache-2.0
"""Where BPF programs are measured: two network namespaces on a bridge, loads between them, and what the
kernel counted meanwhile."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../bpf"))
import holding  # noqa: E402
from wire import Wire  # noqa: E402

BENCH = os.path.abspath(f"{holding.BUILD}/tests/bench/bench-bpf")
PEER = "10.77.0.2"
# What it prints, of 1000 frames how many get lost, and the tracepoint that it goes through most.
LOADS = {"stream": ("Gbit/s", 0, "consume_skb"), "loss": ("Gbit/s", 10, "tcp_retransmit_skb"),
         "connects": ("/s", 0, "inet_sock_set_state"),
         "unwanted": ("/s", 0, "kfree_skb"), "processes": ("/s", 0, "sched_process_exit"),
         "switches": ("/s", 0, "sched_switch"),
         "reads": ("/s", 0, "block_rq_complete")}
FILE_MB = 64


def programs(ids=None):
    done = subprocess.run([holding.BPFTOOL, "-j", "prog", "show"], capture_output=True, text=True,
                          check=True, timeout=300)
    return {p["id"]: p for p in json.loads(done.stdout) if ids is None or p["id"] in ids}


def map_bytes(ids):
    """Kernel memory of the maps of these programs."""
    done = subprocess.run([holding.BPFTOOL, "-j", "map", "show"], capture_output=True, text=True, check=True,
                          timeout=300)
    used = {m for p in programs(ids).values() for m in p.get("map_ids", [])}
    return sum(m.get("bytes_memlock", 0) for m in json.loads(done.stdout) if m["id"] in used)


def attached(pid):
    """Those of a process's programs that hang on something: links have both lines."""
    ids = set()
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            lines = dict(line.split(":", 1)
                         for line in Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines()
                         if ":" in line)
        except FileNotFoundError:
            continue
        if "link_type" in lines and "prog_id" in lines:
            ids.add(int(lines["prog_id"]))
    return ids


class Site:
    def __init__(self):
        self.kept, self.group = [], None
        self.folder = tempfile.TemporaryDirectory(prefix="bench-bpf-", dir=os.environ.get("BENCH_FOLDER"))
        self.file = Path(self.folder.name) / "file"
        with open(self.file, "wb") as f:
            for _ in range(FILE_MB):
                f.write(os.urandom(1 << 20))
            f.flush()
            os.fsync(f.fileno())
        top = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
        self.group = Path(top) / f"bench-bpf-{os.getpid()}"
        self.group.mkdir()
        self.wire = Wire("a", "b")
        self.keep("b", ["iperf3", "-s", "--forceflush"], "listening")
        self.keep("b", [BENCH, "accept"], "ready")

    def words(self, name, words):
        """In the control group that is watched, in the namespace of that name."""
        return ["setpriv", "--pdeathsig=KILL", "sh", "-c",
                f"echo 0 >{self.group}/cgroup.procs && exec \"$@\"", "sh",
                *(self.wire.command(name) if name else ()), *words]

    def keep(self, name, words, until):
        process = subprocess.Popen(self.words(name, words), stdout=subprocess.PIPE, text=True)
        self.kept.append(process)
        while until not in (line := process.stdout.readline()):
            if not line:
                raise SystemExit(f"{words[0]} ended")

    def close(self):
        for process in self.kept:
            process.kill()
            process.communicate()
        self.wire.close()
        self.folder.cleanup()
        self.group.rmdir()

    def cpu(self):
        """Seconds that the processes of the loads used."""
        lines = dict(line.split() for line in (self.group / "cpu.stat").read_text().splitlines())
        return int(lines["usage_usec"]) / 1e6

    def run(self, name, words):
        done = subprocess.run(self.words(name, words), capture_output=True, text=True, check=False,
                              timeout=900)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stdout[-500:]}{done.stderr[-500:]}")
        return done.stdout

    def load(self, name, seconds):
        """(what it reached, seconds of CPU time that it used)"""
        self.wire.lose("a", LOADS[name][1])
        inside, words = "a", [BENCH, name, PEER, str(seconds)]
        if name in ("stream", "loss"):
            words = ["iperf3", "-c", PEER, "-t", str(max(int(seconds), 1)), "-J"]
        elif name in ("processes", "switches"):
            words = [BENCH, name, str(seconds)]
        elif name == "reads":
            inside, words = None, [BENCH, name, str(self.file), str(seconds)]
        begin = self.cpu()
        said = self.run(inside, words)
        reached = (json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e9 if words[0] == "iperf3"
                   else float(said))
        return reached, self.cpu() - begin

    def counted(self, ids, name, seconds):
        """{program: (runs, ns)} of a load, and the seconds of CPU time that it used. 0: of all together."""
        before = programs(ids)
        _, cpu = self.load(name, seconds)
        seen = {}
        for i, now in programs(ids).items():
            runs, ns = (now.get(k, 0) - before.get(i, {}).get(k, 0) for k in ("run_cnt", "run_time_ns"))
            if runs:
                old = seen.get(now.get("name", ""), (0, 0))
                seen[now.get("name", "")] = (old[0] + runs, old[1] + ns)
        return seen, cpu


class Stats:
    """The kernel counts, and an empty program hangs on those tracepoints, as long as it is open."""

    def __init__(self, *tracepoints):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig=KILL", BENCH, "stats", *tracepoints],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.process.stdout.readline() != b"ready\n":
            raise SystemExit("bench-bpf stats: the kernel does not count")
        self.ids = set(holding.programs_of(self.process.pid))

    def close(self):
        self.process.communicate()
