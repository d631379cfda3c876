#!/usr/bin/python3
"""From the captures of many hosts to the verdict, in a real tpu-collectord over HTTP. Prints a table of medians.

BUILD_DIR names the build; arguments: HOSTS …; default 16 64 256. Each simulated host sends both captures of a round, of 100 threads with 40
frames, a tenth of its stacks its own, as agents do: packed, a POST each. Both sides share this machine. "arrived" is from the first
sending to the last answer of the collector (each commit is on the disk), "verdict" from there until the API has it."""

import gzip
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "collector"))
import capture_wire  # noqa: E402
from collector_case import Collector  # noqa: E402
from registry_hosts import until  # noqa: E402
from test_diagnosis import READS, WAITS  # noqa: E402

ROUNDS = 5


def host_capture(host, culprit):
    """As a real rank has it: the main thread, and pools of threads that wait."""
    rng = random.Random(host)
    threads = [dict(READS if host == culprit else WAITS, tid=4700, name="python3")]
    for t in range(1, 100):
        own = rng.randrange(10) == 0
        threads.append({"tid": 4700 + t, "name": f"pool-{t % 8}", "state": "S", "wait": "futex_wait_queue",
                        "frames": [{"kind": "native", "module": "libtorch_cpu.so", "function": f"at::native::f{t % 20}_{d}_{host if own else 0}"} for d in range(40)]})
    return {"step": 7, "processes": [{"pid": 4700, "command": "python3 train.py", "threads": threads}]}


def requests(slice_name, n):
    """[(member, capture)]"""
    return [({"v": 1, "slice": slice_name, "worker": host, "host": f"{slice_name}-h{host}", "id": f"{slice_name}{host}", "incarnation": "1", "address": [],
              "hosts": n}, gzip.compress(capture_wire.wire(host_capture(host, n // 3)), 1)) for host in range(n)]


def measure(c, episode, n, hosts):
    def joins(host):
        return c.post("/registry/v1/sync", json.dumps({"v": 1, "member": host[0], "wait": 0}))

    def captures(host):
        return c.post("/registry/v1/capture?" + capture_wire.query("", host[0], "bench", k, slice_hosts=n), host[1])

    with ThreadPoolExecutor(16) as pool:
        for answer in pool.map(joins, hosts):
            assert answer.status == 200, answer.content
        began = time.monotonic()
        for k in (0, 1):
            for answer in pool.map(captures, hosts):
                assert answer.status == 200, answer.content
    arrived = time.monotonic()
    until(lambda: (c.get(f"/api/v1/slices/{episode}/diagnosis").json or {}).get("outcome"), "the verdict", 120)
    verdict = time.monotonic()
    d = c.get(f"/api/v1/slices/{episode}/diagnosis").json
    assert d["outcome"] == "named" and d["diagnosis"]["suspects"][0]["host"] == f"{episode}-h{n // 3}", d["summary"]
    return arrived - began, verdict - arrived, sum(len(data) for _, data in hosts) / n


def main():
    print(f"{'hosts':>6} {'bytes a capture':>16} {'arrived':>9} {'verdict':>9} {'both, worst':>12} {'collector RSS':>14} {'diagnosis RSS':>14}")
    for n in [int(a) for a in sys.argv[1:]] or [16, 64, 256]:
        with tempfile.TemporaryDirectory() as folder:
            c = Collector(os.path.join(folder, "c.db"))
            prepared = [(f"e{n}-{k}", requests(f"e{n}-{k}", n)) for k in range(ROUNDS)]
            got = [measure(c, episode, n, hosts) for episode, hosts in prepared]
            with open(f"/proc/{c.process.pid}/status") as f:
                rss = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
            c.stop()
        child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        arrived, verdict, size = (statistics.median(g[k] for g in got) for k in range(3))
        print(f"{n:>6} {size:>16.0f} {arrived:>7.2f} s {verdict:>7.2f} s {max(a + v for a, v, _ in got):>10.2f} s {rss / 1024:>10.1f} MiB {child / 1024:>10.1f} MiB")


if __name__ == "__main__":
    main()
