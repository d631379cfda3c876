#!/usr/bin/python3
"""What a capture costs. Prints tables; nothing is judged.

1. On its host: a program of 600 threads with 40 frames each, captured through real tpu-launchd, tpu-stack
and tpu-hostd (those below --root, with a
   stand-in for systemd's manager): peak memory and CPU of both daemons while one is taken, beside what the
   same span costs without one. Needs root.
2. From the captures of many hosts to the verdict, in a real tpu-collectord over HTTP: medians.

BUILD_DIR names the build; arguments: HOSTS …; default 16 64 256; 0: the first table alone. Each simulated
host sends both captures of a round, of 100 threads with 40
frames, a tenth of its stacks its own, as agents do: packed, a POST each. Both sides share this machine.
"arrived" is from the first
sending to the last answer of the collector (each commit is on the disk), "verdict" from there until the API
has it."""

import gzip
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "collector"), os.path.join(HERE, "..")]
import capture_wire  # noqa: E402
from collector_case import Collector  # noqa: E402
from registry_hosts import until  # noqa: E402
from test_diagnosis import READS, WAITS  # noqa: E402

ROUNDS = 5
CAPTURES = 7  # of the host's; the median counts
THREADS, DEPTH = 600, 40
PROGRAM = f"""
import random, threading, time
random.seed(7)
threading.stack_size(1 << 20)
{"".join(f"def function_number_{k}_of_the_program(path): path[0](path[1:]) if path else time.sleep(1000)" + chr(10) for k in range(300))}
functions = [v for k, v in globals().items() if k.startswith("function_")]
def path(): return random.choices(functions, k={DEPTH})
for k in range({THREADS} - 1):
    p = path()
    threading.Thread(target=p[0], args=(p[1:],), daemon=True).start()
path()[0](path()[1:])
"""


# --- On its host
# -------------------------------------------------------------------------------------------------------


def with_tool():
    """In a mount namespace where /usr/bin has the tpu-stack of this build."""
    if os.environ.get("TPU_BENCH_INSIDE"):
        return
    folder = tempfile.mkdtemp(prefix="bench-capture-")
    shutil.copy(os.path.join(os.environ["BUILD_DIR"], "probes/stack/tpu-stack"), folder)
    words = f'mount -t overlay overlay -o lowerdir={folder}:/usr/bin /usr/bin && exec "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", words, "sh", sys.executable, "-B", *sys.argv],
                          env={**os.environ, "TPU_BENCH_INSIDE": "1"}, check=False)
    shutil.rmtree(folder)
    sys.exit(done.returncode)


def cpu(pid):
    """Milliseconds."""
    return sum(int(open(f"/proc/{pid}/task/{t}/schedstat").read().split()[0])
               for t in os.listdir(f"/proc/{pid}/task")) / 1e6


def peak(pid):
    """MiB."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def span(pids, what):
    """({pid: (ms of CPU, peak MiB)}, seconds, what it gave)"""
    for pid in pids:
        with open(f"/proc/{pid}/clear_refs", "w") as f:
            f.write("5")
    before, began = [cpu(p) for p in pids], time.monotonic()
    result = what()
    seconds = time.monotonic() - began
    time.sleep(0.2)  # what is done behind the answer
    return {p: (cpu(p) - b, peak(p)) for p, b in zip(pids, before)}, seconds, result


def on_its_host():
    sys.path.insert(0, os.path.join(HERE, "..", "hostd"))
    import around
    import test_launchd
    t = test_launchd.Launchd("run_of")
    t.setUp()
    try:
        program = t.folder / "training.py"
        program.write_text(PROGRAM)
        t.run_of(f"exec {sys.executable} {program}")
        h = around.Hostd(LaunchdSocket=t.path, MetricsInterval="60s", ProbeInterval="60s",
                         CaptureTimeout="60s")
        h.start()
        pids = {"tpu-hostd": h.process.pid, "tpu-launchd": t.daemon.pid}
        around.wait_until(lambda: h.get("/v1/status")["live_runs"] == 1, 60, "the run is known")
        time.sleep(12)  # its own beginning is over

        def capture():
            code, _, body = h.call("/v1/captures?run=a", "POST")
            assert code == 200, body
            return capture_wire.captures(body)[0][1]

        def stack():
            code, _, body = h.call("/v1/runs/a/capture", "POST")
            assert code == 200, body
            return json.loads(body)

        print(f"{THREADS} threads, {DEPTH} frames: {'bytes':>8} {'took':>7}"
              + "".join(f" {name + ' CPU':>16} {'peak':>9}" for name in pids))
        for name, what in (("nothing", lambda: time.sleep(0.5)), ("capture", capture), ("stack", stack)):
            rows = []
            for _ in range(CAPTURES):
                rows.append(span(list(pids.values()), what))
                time.sleep(1.2)  # tpu-launchd takes one a second
            size = len(rows[0][2]) if name == "capture" else 0
            line = f"{name:>24} {size:>8} {statistics.median(r[1] for r in rows):>5.2f} s"
            for pid in pids.values():
                line += (f" {statistics.median(r[0][pid][0] for r in rows):>13.1f} ms "
                         f"{max(r[0][pid][1] for r in rows):>5.1f} MiB")
            print(line, flush=True)
        data = capture()
        plain = gzip.decompress(data)
        print(f"a capture: {len(data)} bytes as gzip, {len(plain)} plain; serialized once, by tpu-stack")
        t.tpuctl("stop", "a")
        h.close()
    finally:
        t.doCleanups()


# --- In the collector
# --------------------------------------------------------------------------------------------------


def host_capture(host, culprit):
    """As a real rank has it: the main thread, and pools of threads that wait."""
    rng = random.Random(host)
    threads = [dict(READS if host == culprit else WAITS, tid=4700, name="python3")]
    for t in range(1, 100):
        own = rng.randrange(10) == 0
        threads.append({"tid": 4700 + t, "name": f"pool-{t % 8}", "state": "S", "wait": "futex_wait_queue",
                        "frames": [{"kind": "native", "module": "libtorch_cpu.so",
                                    "function": f"at::native::f{t % 20}_{d}_{host if own else 0}"}
                                   for d in range(40)]})
    return {"step": 7, "processes": [{"pid": 4700, "command": "python3 train.py", "threads": threads}]}


def requests(slice_name, n):
    """[(member, capture)]"""
    return [({"v": 1, "slice": slice_name, "worker": host, "host": f"{slice_name}-h{host}",
              "id": f"{slice_name}{host}", "incarnation": "1", "address": [],
              "hosts": n}, gzip.compress(capture_wire.wire(host_capture(host, n // 3)), 1))
            for host in range(n)]


def measure(c, episode, n, hosts):
    def joins(host):
        return c.post("/registry/v1/sync", json.dumps({"v": 1, "member": host[0], "wait": 0}))

    def captures(host):
        return c.post("/registry/v1/capture?" + capture_wire.query("", host[0], "bench", k, slice_hosts=n),
                      host[1])

    with ThreadPoolExecutor(16) as pool:
        for answer in pool.map(joins, hosts):
            assert answer.status == 200, answer.content
        began = time.monotonic()
        for k in (0, 1):
            for answer in pool.map(captures, hosts):
                assert answer.status == 200, answer.content
    arrived = time.monotonic()
    until(lambda: (c.get(f"/api/v1/slices/{episode}/diagnosis").json or {}).get("outcome"), "the verdict",
          120)
    verdict = time.monotonic()
    d = c.get(f"/api/v1/slices/{episode}/diagnosis").json
    assert d["outcome"] == "named" and d["diagnosis"]["suspects"][0]["host"] == f"{episode}-h{n // 3}", \
            d["summary"]
    return arrived - began, verdict - arrived, sum(len(data) for _, data in hosts) / n


def main():
    if os.geteuid() == 0:
        with_tool()
        on_its_host()
    if sys.argv[1:] == ["0"]:
        return
    print(f"{'hosts':>6} {'bytes a capture':>16} {'arrived':>9} {'verdict':>9} {'both, worst':>12} "
          f"{'collector RSS':>14} {'diagnosis RSS':>14}")
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
        print(f"{n:>6} {size:>16.0f} {arrived:>7.2f} s {verdict:>7.2f} s "
              f"{max(a + v for a, v, _ in got):>10.2f} s {rss / 1024:>10.1f} MiB {child / 1024:>10.1f} MiB")


if __name__ == "__main__":
    main()
