"""Many hosts with the registry that etcd keeps, some in each of several processes; and what etcd counted of them."""

import os
import re
import selectors
import subprocess
import time
from pathlib import Path

DRIVER = Path(os.environ["BUILD_DIR"]) / "tests/etcd/fleet-driver"


def counted(before, after):
    """What grew between two looks at etcd's metrics."""
    def grown(name):
        return sum(int(v - before.get(k, 0)) for k, v in after.items() if re.match(name, k))
    failed = {re.search(r'grpc_code="(\w+)"', k)[1] + " " + re.search(r'grpc_method="(\w+)"', k)[1]: int(v - before.get(k, 0))
              for k, v in after.items() if k.startswith("grpc_server_handled_total") and 'grpc_code="OK"' not in k and v > before.get(k, 0)}
    asked = {re.search(r'grpc_method="(\w+)"', k)[1]: int(v - before.get(k, 0))
             for k, v in after.items() if k.startswith("grpc_server_started_total") and v > before.get(k, 0)}
    return {"asked": asked, "committed": grown("etcd_server_proposals_committed_total"), "synced": grown("etcd_disk_wal_fsync_duration_seconds_count"),
            "connections": int(after["process_open_fds"] - before["process_open_fds"]), "watchers": grown("etcd_debugging_mvcc_watcher_total"),
            "granted": grown("etcd_debugging_lease_granted_total"), "renewed": grown("etcd_debugging_lease_renewed_total"),
            "events": grown("etcd_debugging_mvcc_events_total"), "puts": grown("etcd_debugging_mvcc_put_total"),
            "calls": grown("grpc_server_started_total"), "sent": grown("etcd_network_client_grpc_sent_bytes_total"), "failed": failed}


class Process:
    def __init__(self, words):
        self.process = subprocess.Popen([str(x) for x in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.words, self.ready, self.end, self.member = [], None, None, None

    def take(self, line):
        kind, _, rest = line.strip().partition(" ")
        if kind == "ready":
            self.ready = [float(x) for x in rest.split()]
        elif kind == "members":
            self.member = float(rest)
        elif kind == "end":
            self.end = [float(x) for x in rest.split()]
        elif kind and kind != "stands":
            self.words.append(line.strip())

    def until(self, word):
        for line in self.process.stdout:
            self.take(line)
            if line.startswith(word):
                return


class Fleet:
    """Stands when made; goes by go()."""

    def __init__(self, site, hosts, size, lease=15, splay=0, at_once=128):
        files = [site.authority.cert, *site.root] if site.tls else ["-"] * 3
        self.processes = [Process((DRIVER, site.urls, *files, min(at_once, hosts - first), size, lease, splay, first, hosts))
                          for first in range(0, hosts, at_once)]
        for p in self.processes:
            p.until("stands")

    def go(self):
        start = time.clock_gettime(time.CLOCK_BOOTTIME)
        for p in self.processes:
            p.process.stdin.write("go\n")
            p.process.stdin.flush()
        return start

    def until_ready(self, limit):
        s, waiting, end = selectors.DefaultSelector(), set(self.processes), time.monotonic() + limit
        for p in self.processes:
            s.register(p.process.stdout, selectors.EVENT_READ, p)
        while waiting and time.monotonic() < end:
            for key, _ in s.select(timeout=1):
                line = os.read(key.fd, 65536).decode()  # whole lines: it is line-buffered
                for part in line.splitlines():
                    key.data.take(part)
                if not line:
                    s.unregister(key.fileobj)
                if key.data.ready or not line:
                    waiting.discard(key.data)
        return self.is_ready()

    def is_ready(self):
        return all(p.ready for p in self.processes)

    def close(self):
        for p in self.processes:
            p.process.stdin.close()
        for p in self.processes:
            p.until("end")
            p.process.stdout.close()
            p.process.wait()

    @property
    def words(self):
        return [w for p in self.processes for w in p.words]

    @property
    def first_ready(self):
        return min(p.ready[0] for p in self.processes)

    @property
    def last_ready(self):
        return max(p.ready[1] for p in self.processes)

    @property
    def last_member(self):
        """When all hosts of a process were members at one time; the last process's."""
        return max(p.member or p.ready[1] for p in self.processes)

    @property
    def processor_time(self):
        return sum(p.ready[2] for p in self.processes)

    @property
    def end(self):
        """Members, those who see their slice ready, troubles."""
        return [int(sum(p.end[i] for p in self.processes)) for i in range(3)]

    @property
    def largest(self):
        return int(max(p.end[4] for p in self.processes))
