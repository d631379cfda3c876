#!/usr/bin/python3
"""Enrollment with etcd, from a cold start until every host sees its slice ready. BUILD_DIR: where bench-enroll is built (ninja bench-enroll).

   enroll.py [HOSTS[/SLICE_SIZE[/SPLAY_MS]]]… [--plain] [--hold S] [--lease S]      (default: 64 1024 2304, TLS and plain)

One etcd on loopback and all hosts share this machine's cores, and each host's slice record goes to each of its hosts: use the ratios. What etcd
counted of it (connections, leases, watchers, calls that failed) is printed from its own /metrics.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "etcd"))
from etcd_site import Site  # noqa: E402

AT_ONCE = 5000  # hosts of one process: three descriptors each
BENCH = Path(os.environ["BUILD_DIR"]) / "tests/bench/bench-enroll"


def counted(before, after):
    def grown(pattern):
        return sum(int(v - before.get(k, 0)) for k, v in after.items() if re.search(pattern, k))
    failed = {re.search(r'grpc_code="(\w+)"', k)[1] + " " + re.search(r'grpc_method="(\w+)"', k)[1]: int(v - before.get(k, 0))
              for k, v in after.items() if k.startswith("grpc_server_handled_total") and 'grpc_code="OK"' not in k and v > before.get(k, 0)}
    return (f"etcd: {int(after.get('etcd_debugging_mvcc_watcher_total', 0))} watchers, {grown('^etcd_debugging_lease_granted_total')} leases granted, "
            f"{grown('^etcd_debugging_lease_renewed_total')} renewed, {grown('^etcd_debugging_mvcc_events_total')} events, "
            f"{grown('^grpc_server_started_total')} calls, {int(after['process_open_fds'])} descriptors, "
            f"{after['process_resident_memory_bytes'] / 1e6:.0f} MB, {after['process_cpu_seconds_total'] - before['process_cpu_seconds_total']:.1f} s CPU; not OK: {failed or 'none'}")


def run(hosts, size, splay, tls, lease, hold):
    site = Site(tls=tls)
    try:
        files = [site.authority.cert, *site.root] if tls else ["-"] * 3
        before, most = site.metrics(), {}
        share = max(size, AT_ONCE // size * size)  # whole slices
        programs = [subprocess.Popen([str(x) for x in (BENCH, site.urls, *files, min(share, hosts - first), size, lease, splay, hold, first)],
                                     stdout=subprocess.PIPE, text=True) for first in range(0, hosts, share)]
        while any(p.poll() is None for p in programs):
            time.sleep(0.5)
            now = site.metrics()
            if now["process_open_fds"] >= most.get("process_open_fds", 0):
                most = now
        print(f"{hosts} hosts in slices of {size}, {'TLS' if tls else 'plain'}, splay {splay} ms, lease {lease} s; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
        for p in programs:
            print("    " + "; ".join(p.stdout.read().splitlines()))
        print(f"    {counted(before, most)}", flush=True)
    finally:
        site.close()


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("fleets", nargs="*", default=["64", "1024", "2304"])
    p.add_argument("--plain", action="store_true")
    p.add_argument("--tls", action="store_true")
    p.add_argument("--lease", type=int, default=15)
    p.add_argument("--hold", type=int, default=5)
    a = p.parse_args()
    for fleet in a.fleets:
        hosts, size, splay = ([int(x) for x in fleet.split("/")] + [0, 0])[:3]
        for tls in [x for x in (False, True) if not (a.plain and x) and not (a.tls and not x)]:
            run(hosts, size or hosts, splay, tls, a.lease, a.hold)


if __name__ == "__main__":
    main()
