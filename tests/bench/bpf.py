#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What our BPF programs cost, beside others': by the kernel's own count of each program's runs and their time.

    sudo BUILD_DIR=build/dev tests/bench/bpf.py [SECONDS] [ROUNDS]      per load and program (5), of the A/B (5)

kernel.bpf_stats_enabled counts runs and their time per program (which itself costs some 20 ns a run, in the figures of all alike). Loads: a
TCP stream between two namespaces over veth, the same with 1 % loss, a storm of connects, one of packets that nobody wants, one of context
switches. Share: of the CPU time that all CPUs spent in that load. Then throughput and switches, off and on in turn, with their spread.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../bpf"))
import holding  # noqa: E402
from wire import Wire  # noqa: E402

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 5
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
STATS = "/proc/sys/kernel/bpf_stats_enabled"
RECEIVE = "import socket\ns=socket.create_server(('',5000),backlog=500)\nprint('ready',flush=True)\nimport threading\n" \
    "def f(c):\n  b=bytearray(1<<20)\n  try:\n    while c.recv_into(b): pass\n  except OSError: pass\n  c.close()\n" \
    "while True: threading.Thread(target=f,args=(s.accept()[0],),daemon=True).start()\n"
STREAM = "import socket,sys,time\nc=socket.create_connection(('10.77.0.2',5000))\nb=b'x'*(1<<20)\nn=0\nend=time.monotonic()+{}\n" \
    "while time.monotonic()<end: n+=c.send(b)\nprint(n*8/{}/1e9)"
CONNECT = "import socket,time\nend=time.monotonic()+{}\nn=0\nwhile time.monotonic()<end: socket.create_connection(('10.77.0.2',5000)).close(); n+=1\n" \
    "print(n/{})"
UNWANTED = "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nend=time.monotonic()+{}\nn=0\n" \
    "while time.monotonic()<end:\n  for i in range(100): s.sendto(b'x',('10.77.0.2',7)); n+=1\nprint(n/{})"
SWITCH = "import os,time\na,b=os.pipe()\nc,d=os.pipe()\nif os.fork()==0:\n  os.close(b)\n  while os.read(a,1): os.write(d,b'x')\n  os._exit(0)\n" \
    "os.close(a)\nend=time.monotonic()+{}\nn=0\nwhile time.monotonic()<end:\n  for i in range(100): os.write(b,b'x'); os.read(c,1)\n  n+=200\nprint(n/{})"
LOADS = {"stream": (STREAM, "Gbit/s", 0), "1 % loss": (STREAM, "Gbit/s", 10), "connects": (CONNECT, "/s", 0), "unwanted": (UNWANTED, "/s", 0),
         "switches": (SWITCH, "/s", 0)}
# The nearest that Debian packages, run as their users would.
PEERS = {"bpftrace tcp_retransmit_skb": ["bpftrace", "-e", "tracepoint:tcp:tcp_retransmit_skb { @[args->dport] = count(); }"],
         "bpftrace kfree_skb": ["bpftrace", "-e", "tracepoint:skb:kfree_skb { @[args->location, args->reason] = count(); }"],
         "tcpconnlat": ["tcpconnlat"], "tcprtt": ["tcprtt"], "tcpstates": ["tcpstates"], "runqlat": ["runqlat"],
         "runqslower": ["runqslower", "10000"], "biolatency": ["biolatency"], "bpftune": ["bpftune", "-s"]}
# They look for tracepoints in files, which not every machine has mounted.
TRACING = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
           "mount -t tracefs tracefs /sys/kernel/tracing; mount -t debugfs debugfs /sys/kernel/debug; ulimit -l unlimited; exec \"$@\"", "sh"]


def busy():
    """Seconds that all CPUs spent on something, since boot."""
    with open("/proc/stat", encoding="ascii") as f:
        n = list(map(int, f.readline().split()[1:]))
    return (sum(n[:8]) - n[3] - n[4]) / os.sysconf("SC_CLK_TCK")


def programs(ids=None):
    done = subprocess.run([holding.BPFTOOL, "-j", "prog", "show"], capture_output=True, text=True, check=True, timeout=60)
    return {p["id"]: p for p in json.loads(done.stdout) if ids is None or p["id"] in ids}


def tool(name):
    return shutil.which(name, path="/usr/sbin:/usr/bin:/usr/share/bcc/libbpf-tools")


class Bench:
    def __init__(self):
        self.wire = Wire("a", "b")
        self.server = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *self.wire.command("b", sys.executable, "-c", RECEIVE)], stdout=subprocess.PIPE)
        self.server.stdout.readline()

    def close(self):
        self.server.kill()
        self.server.communicate()
        self.wire.close()

    def load(self, name, seconds=SECONDS):
        code, _, loss = LOADS[name]
        self.wire.lose("a", loss)
        begin = busy()
        done = subprocess.run(self.wire.command("a", sys.executable, "-c", code.format(seconds, seconds)), capture_output=True, text=True, check=True,
                              timeout=seconds + 120)
        return float(done.stdout), busy() - begin

    def measure(self, label, ids):
        """Each load with these programs attached: a line a program that ran. Returns the greatest share of each load."""
        shares = {}
        for name in LOADS:
            before = programs(ids)
            _, cpu = self.load(name)
            spent = 0
            for i, now in programs(ids).items():
                runs = now.get("run_cnt", 0) - before[i].get("run_cnt", 0)
                ns = now.get("run_time_ns", 0) - before[i].get("run_time_ns", 0)
                spent += ns
                if runs:
                    print(f"{label:30} {name:10} {now.get('name', ''):18} {runs:10} runs {ns / runs:7.0f} ns {ns / 1e7 / cpu:8.4f} %")
            shares[name] = spent / 1e7 / cpu
            print(f"{label:30} {name:10} {'all':18} {'':10}      {'':7}    {shares[name]:8.4f} %", flush=True)
        return shares

    def ours(self):
        h = holding.Holder(before=self.wire.command("a"))
        told = {n: s["verdict"] for n, s in h.sets.items()}
        print(f"sets: {told}")
        ids = set(h.programs())
        memory = subprocess.run([holding.BPFTOOL, "-j", "map", "show"], capture_output=True, text=True, check=True, timeout=60)
        used = {m for p in programs(ids).values() for m in p.get("map_ids", [])}
        bytes_ = sum(m.get("bytes_memlock", 0) for m in json.loads(memory.stdout) if m["id"] in used)
        print(f"maps: {bytes_ / 1e6:.2f} MB of kernel memory (goal: 4 MB)")
        always = self.measure("tpu-hostd always on", ids)
        for name in h.sets:
            if h.figures(f"watch {name}") == 0:
                self.measure(f"tpu-hostd watching {name}", ids)
                h.figures(f"unwatch {name}")
        h.close()
        print(f"always on: {max(always.values()):.4f} % of the CPU time used, at most (goal: 0.5 %)")

    def peers(self):
        for name, command in PEERS.items():
            if not tool(command[0]):
                print(f"{name}: not installed")
                continue
            before = set(programs())
            process = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *TRACING, tool(command[0]), *command[1:]], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            end, ids, stable = time.monotonic() + 30, set(), 0
            while time.monotonic() < end and process.poll() is None and stable < 4:
                time.sleep(0.5)
                now = set(programs()) - before
                stable = stable + 1 if now and now == ids else 0
                ids = now
            if ids and process.poll() is None:
                self.measure(name, ids)
            ended = process.poll() is not None
            process.kill()
            said = process.communicate()[1].strip().splitlines()
            if ended or not ids:
                print(f"{name}: does not run on this kernel: {said[-1] if said else 'it attaches nothing'}")

    def in_turn(self):
        """Off and on in turn: medians, and how far the rounds of each lie apart."""
        for name in ("stream", "switches"):
            seen = {"off": [], "on": []}
            for _ in range(ROUNDS):
                for how in seen:
                    h = holding.Holder(before=self.wire.command("a")) if how == "on" else None
                    seen[how].append(self.load(name, min(SECONDS, 3))[0])
                    if h:
                        h.close()
            off, on = statistics.median(seen["off"]), statistics.median(seen["on"])
            words = ", ".join(f"{how} {statistics.median(v):.4g} ({min(v):.4g} to {max(v):.4g})" for how, v in seen.items())
            print(f"{name}: {words} {LOADS[name][1]}; difference {100 * (off - on) / off:+.2f} %", flush=True)


def main():
    why = holding.why_not()
    if why:
        sys.exit(f"cannot run here: {why}")
    with open(STATS, encoding="ascii") as f:
        were = f.read()
    b = Bench()
    try:
        with open(STATS, "w", encoding="ascii") as f:
            f.write("1")
        b.ours()
        b.peers()
        with open(STATS, "w", encoding="ascii") as f:
            f.write("0")
        b.in_turn()
    finally:
        with open(STATS, "w", encoding="ascii") as f:
            f.write(were)
        b.close()


if __name__ == "__main__":
    main()
