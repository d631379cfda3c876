#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What our BPF programs cost, beside others' that ask the same: by the kernel's own count of each program's
runs and their time.

    sudo BUILD_DIR=build/dev tests/bench/bpf.py [SECONDS] [ROUNDS]      of each load (3), of all (3)

Prints one table, then the goals, then throughput with the programs off and on in turn. METHOD, below it,
says how each column came about.
"""
import os
import shutil
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "bpf"), str(HERE.parent / "wire")]
import bpf_peers  # noqa: E402
import bpf_site  # noqa: E402
import holding  # noqa: E402
from bpf_site import LOADS, Site, Stats  # noqa: E402

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
ALWAYS, EMPTY, ALL = "tpu-hostd always on", "a program that does nothing", "all"
WATCHES = {"sched": ("stream", "switches"), "io": ("reads", "switches")}
CLAIMED = ("stream", "switches")  # the loads of the goal
SHARE_GOAL, EVENT_GOAL, MAPS_GOAL = 0.5, 150, 4e6  # percent, ns, bytes
MEMLOCK = os.path.abspath(f"{holding.BUILD}/tests/bench/libmemlock.so")
METHOD = """runs, ns a run: the kernel's run_cnt and run_time_ns of each program (bpf(2), BPF_ENABLE_STATS), what counting itself adds included: see
the program that does nothing. share: runs x time, of the CPU time that the processes of the load used meanwhile (cpu.stat of their
control group); runs that others on this machine caused count, too. Medians of the rounds, least and most in brackets; in each round
all had their turn. beside ours: share of all its programs over that of ours that ask the same, of the same load.
stream, loss: iperf3 over veth between two namespaces, without and with 1 % loss; connects: TCP connections, one after the other; unwanted:
datagrams to a port where nobody listens; processes: that begin and end; switches: two processes that wake each other over pipes;
reads: 4 KiB of a disk, past the page cache. All as fast as they go."""


class Table:
    """{(who, load, program): [(runs, ns a run, share) a round]}"""

    def __init__(self):
        self.rows, self.reached, self.absent, self.question = {}, {}, {}, {}

    def add(self, who, load, seen, cpu):
        runs, ns = (sum(v[k] for v in seen.values()) for k in (0, 1))
        for program, (n, t) in [*seen.items(), (ALL, (runs, ns))]:
            self.rows.setdefault((who, load, program), []).append((n, t / n if n else 0, t / 1e7 / cpu))

    def median(self, who, load, column, program=ALL):
        values = [r[column] for r in self.rows.get((who, load, program), [])]
        return statistics.median(values) if values else None

    def line(self, key, last):
        who, load, program = key
        runs, ns, share = zip(*self.rows[key])
        ours = self.median(self.question.get(who), load, 2) if last else None
        spread = (f"({min(ns):.0f} to {max(ns):.0f})",
                  f"({min(share):.4f} to {max(share):.4f})") if len(ns) > 1 else ("", "")
        beside = f"{self.median(who, load, 2) / ours:.1f} x" if ours else ""
        return (f"{load:9}  {who:29} {program:21} {statistics.median(runs):9.0f} "
                f"{statistics.median(ns):8.0f} {spread[0]:16} {statistics.median(share):8.4f} "
                f"{spread[1]:20} {beside:>9}".rstrip())

    def show(self):
        print(f"{'load':9}  {'whose':29} {'program':21} {'runs':>9} {'ns a run':>8} {'':16} {'share %':>8} "
              f"{'':20} {'beside ours':>9}")
        for load in LOADS:
            for who in dict.fromkeys(key[0] for key in self.rows if key[1] == load):
                keys = [key for key in self.rows if key[:2] == (who, load)]
                if len(keys) == 2:  # one, and all of it
                    keys.pop()
                for key in sorted(keys, key=lambda k: k[2] == ALL):
                    print(self.line(key, key == keys[-1] or key[2] == ALL))
        for who, why in self.absent.items():
            print(f"{who}: does not run here: {why}")
        print(METHOD, flush=True)


def holder(site, *watched):
    """Our programs; .always: those that hang without a watch."""
    h = holding.Holder(before=site.wire.command("a"))
    h.always = bpf_site.attached(h.pid)
    for name in watched:
        r = h.figures(f"watch {name} {os.stat(site.group).st_ino}")
        if r != 0:
            h.close()
            raise OSError(-r, f"watching {name}: {os.strerror(-r)}")
    return h


def ours(site, table):
    h = holder(site)
    for load in LOADS:
        table.add(ALWAYS, load, *site.counted(h.always, load, SECONDS))
    h.close()
    for name, loads in WATCHES.items():
        who = f"tpu-hostd watching {name}"
        try:
            h = holder(site, name)
        except OSError as e:
            table.absent[who] = e.strerror
            continue
        mine = set(h.programs()) - h.always
        for load in loads:
            table.add(who, load, *site.counted(mine, load, SECONDS))
        h.close()


def nothing(site, table):
    for load, (_, _, tracepoint) in LOADS.items():
        empty = Stats(tracepoint)
        table.add(EMPTY, load, *site.counted(empty.ids, load, SECONDS))
        empty.close()


def bpftune_tree():
    """The folder of Debian 13's packages, in the lab's cache."""
    if "BPFTUNE" in os.environ:
        return os.environ["BPFTUNE"]
    import peers
    try:
        return peers.debian("trixie", *bpf_peers.BPFTUNE, small=True)
    except peers.Missing as e:
        print(f"bpftune: {e}")
        return None


def others(site, table, tree):
    for who, (_, (question, *loads)) in bpf_peers.PEERS.items():
        table.question[who] = f"tpu-hostd {question}"
        words = bpf_peers.command(who, tree, MEMLOCK)
        if who in table.absent or isinstance(words, str):
            table.absent.setdefault(who, words)
            continue
        peer = bpf_peers.Peer(words)
        if peer.why:
            table.absent[who] = peer.why
            continue
        for load in loads:
            table.add(who, load, *site.counted(peer.ids, load, SECONDS))
        peer.close()


def goals(site, table):
    h = holder(site)
    site.run("a", [bpf_site.BENCH, "peers"])
    peers, bytes_ = len(h.figures()["peers"]), bpf_site.map_bytes(set(h.programs()))
    h.close()
    print(f"maps: {bytes_ / 1e6:.2f} MB of kernel memory, {peers} peers among them: goal "
          f"{MAPS_GOAL / 1e6:.0f} MB")
    empty = statistics.median(table.median(EMPTY, load, 1) for load in LOADS)
    for load in LOADS:
        print(f"always on, {load}: {table.median(ALWAYS, load, 2):.4f} % of the CPU time used"
              + (f": goal {SHARE_GOAL} %" if load in CLAIMED else ""))
    for program in dict.fromkeys(key[2] for key in table.rows if key[0] == ALWAYS and key[2] != ALL):
        storm = max(LOADS, key=lambda load: table.median(ALWAYS, load, 0, program) or 0)
        print(f"always on, {program}: {table.median(ALWAYS, storm, 1, program):.0f} ns an event where it "
              f"has most ({storm}): goal {EVENT_GOAL} ns, "
              f"of which {empty:.0f} ns are the counting")


def in_turn(site):
    """Off and on in turn, each first in its turn: medians, and how far the rounds of each lie apart."""
    hows = {"off": None, "always on": (), "watched": ("sched", "io")}
    for load in ("stream", "switches"):
        seen = {how: [] for how in hows}
        for i in range(ROUNDS * 2):
            for k in range(len(hows)):
                how = list(hows)[(i + k) % len(hows)]
                try:
                    h = None if hows[how] is None else holder(site, *hows[how])
                except OSError:
                    continue
                seen[how].append(site.load(load, SECONDS)[0])
                if h:
                    h.close()
        off = statistics.median(seen["off"])
        for how, values in seen.items():
            if values:
                m = statistics.median(values)
                print(f"{load:9} {how:10} {m:12.4g} ({min(values):.4g} to {max(values):.4g}) "
                      f"{LOADS[load][0]}"
                      + (f": {100 * (m - off) / off:+.2f} %" if how != "off" else ""), flush=True)


def main():
    why = holding.why_not() or (None if shutil.which("iperf3") else "there is no iperf3: tools/deps bench")
    if why:
        sys.exit(f"cannot run here: {why}")
    tree, table, site = bpftune_tree(), Table(), Site()
    try:
        stats = Stats()
        for _ in range(ROUNDS):
            nothing(site, table)
            ours(site, table)
            others(site, table, tree)
        table.show()
        goals(site, table)
        stats.close()
        in_turn(site)
    finally:
        site.close()


if __name__ == "__main__":
    main()
