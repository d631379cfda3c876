#!/usr/bin/python3
"""Enrollment with etcd, from a cold start until every host sees its slice ready. BUILD_DIR: where bench-enroll is built (ninja fleet-driver).

   enroll.py [HOSTS[/SLICE_SIZE[/SPLAY_MS]]]… [--plain|--tls] [--hold S] [--lease S]      (default: 64 1024 2304 10000/2304/30000, plain and TLS)

One etcd on loopback and all hosts share this machine's cores. Times are from the word to begin, which all processes are given at once; "release" is
the time between the first and the last host that saw its slice ready. Processor time is from the word on until the last one was ready, and its
share says what of this machine's went to the simulated hosts. What etcd counted of it
(connections, leases, watchers, calls that failed) is printed from its own /metrics. Beside it: what was measured with the prototype.
"""

import argparse
import os
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "etcd"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "control"))
from etcd_server import Site  # noqa: E402
from fleet import counted, Fleet  # noqa: E402

AT_ONCE = 128  # hosts of one process: a loop of sd-event looks at all sockets that are ready for each that it serves
LIMIT = 240
PROTOTYPE = {1024: "1.08 s", 2304: "3.24 s"}  # by etcd's JSON gateway, 10 s lease, 2 cores alone


def shares(clients, etcd, hosts):
    return f"clients {clients:.2f} s ({100 * clients / (clients + etcd):.0f} %), etcd {etcd:.2f} s ({1e3 * etcd / hosts:.2f} ms a host)"


def run(hosts, size, splay, tls, lease, hold):
    site = Site(tls=tls)
    try:
        fleet = Fleet(site, hosts, size, lease=lease, splay=splay, at_once=AT_ONCE)
        before, load = site.metrics(), os.getloadavg()[0]
        start = fleet.go()
        fleet.until_ready(LIMIT)
        after = site.metrics()
        time.sleep(hold)
        last = site.metrics()
        fleet.close()
        print(f"{hosts} hosts in slices of {size}, {'TLS' if tls else 'plain'}, splay {splay} ms, lease {lease} s; load {load:.1f} on {os.cpu_count()} cores")
        if fleet.is_ready():
            first, ready = fleet.first_ready - start, fleet.last_ready - start
            print(f"    all members {fleet.last_member - start:.3f} s, all ready {ready:.3f} s (prototype: {PROTOTYPE.get(hosts, '-')}), release {ready - first:.3f} s; "
                  f"CPU: {shares(fleet.processor_time, after['process_cpu_seconds_total'] - before['process_cpu_seconds_total'], hosts)}")
        members, there, troubles = fleet.end
        print(f"    at the end: {members} members, {there} ready, {troubles} troubles {fleet.words[:5] or ''}; largest client {fleet.largest} MB")
        n = counted(before, last)
        asked = ", ".join(f"{v} {k}" for k, v in n["asked"].items())
        print(f"    asked: {asked} ({sum(n['asked'].values()) / hosts:.2f} a host); {n['committed']} entries of etcd's log, {n['synced']} fsync")
        print(f"    etcd: {n['connections']} connections, {n['watchers']} watchers, {n['granted']} leases granted, {n['renewed']} renewed, {n['puts']} puts, "
              f"{n['events']} events, {n['calls']} calls, {n['sent'] / 1e6:.1f} MB sent, {last['process_resident_memory_bytes'] / 1e6:.0f} MB; "
              f"not OK: {n['failed'] or 'none'}", flush=True)
    finally:
        site.close()


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("fleets", nargs="*", default=["64", "1024", "2304", "10000/2304/30000"])
    p.add_argument("--plain", action="store_true")
    p.add_argument("--tls", action="store_true")
    p.add_argument("--lease", type=int, default=15)
    p.add_argument("--hold", type=int, default=5)
    a = p.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))  # etcd's, too: a descriptor a host
    for fleet in a.fleets:
        hosts, size, splay = ([int(x) for x in fleet.split("/")] + [0, 0])[:3]
        for tls in [x for x in (False, True) if not (a.plain and x) and not (a.tls and not x)]:
            run(hosts, size or hosts, splay, tls, a.lease, a.hold)


if __name__ == "__main__":
    main()
