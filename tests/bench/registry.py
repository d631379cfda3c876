#!/usr/bin/python3
"""The registry of tpu-collectord under a fleet of simulated members, with either store. Prints a table.

    registry.py [--store sqlite|etcd] [--plain|--tls] [--knows yes|no] [--rest S]
    MEMBERS[:HOSTS-OF-A-SLICE[:ARRIVE-S]] …

BUILD_DIR names the build (bench-registry, tpu-collectord). Without words: 1024 and 12800:256:30, both
stores; 1024 plain, too.
Members are simulated in one process, each with a connection, a lease and a clock of its own; what is counted
is the servers'
(/metrics, /proc). All share this machine's cores. Beside enrollment with TLS stands what the bare handshakes
take. With etcd there are two
collectors over an etcd of three members, and the one that leads is killed in the end. Members know who led
last, as agents that start again do;
with --knows no they know nothing, and all come to the one that does not lead: the worst that a fleet's very
first start can be."""

import argparse
import http.client
import json
import os
import re
import resource
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("collector", "hostd", "control")]
import certificates  # noqa: E402
import etcd_site  # noqa: E402
from collector_case import BUILD, Collector  # noqa: E402

LEASE = 15
METRIC = re.compile(r"^tpu_collectord_registry_(\w+?)(?:_total)? ([\d.e+]+)$", re.MULTILINE)


def processor_time(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


class Driver:
    """The simulated members."""

    def __init__(self, ports, members, per_slice, *options):
        where = ",".join(f"127.0.0.1:{p}" for p in ports)
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/bench/bench-registry"), *options, where,
                                         str(members), str(per_slice)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def word(self, text, answer=True):
        self.process.stdin.write(text + "\n")
        return self.process.stdout.readline().split() if answer else None

    def until(self, state):
        """(s to the first, s to the last, answers, MiB, failures, refused) since forget."""
        _, n, first, last, answers, size, failures, refused = self.word("wait " + state)
        return (float(first) / 1e3, float(last) / 1e3, int(answers), int(size) / 2**20, int(failures),
                int(refused))

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


class Bench:
    def __init__(self, store, tls, members, per_slice, arrive):
        self.store, self.tls, self.members, self.per_slice, self.arrive = (
                store, tls, members, per_slice, arrive)
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.etcd = etcd_site.Site(members=3, tls=tls) if store == "etcd" else None
        if tls:
            authority = self.authority = certificates.Authority(self.folder / "ca")
            self.server = authority.issue("server", san="IP:127.0.0.1,URI:spiffe://site/collector")
            self.client = authority.issue("client", san="URI:spiffe://site/agent")
        self.ports = etcd_site.free_ports(4)
        self.collectors = [self.start(i) for i in range(2 if self.etcd else 1)]

    def configuration(self, i):
        lines = ["[Collector]"]
        if self.tls:
            cert, key = self.server
            lines += [f"Certificate={cert}", f"Key={key}", f"ClientCa={self.authority.cert}",
                      "AllowAgents=spiffe://site/agent", "TrustAllAgents=yes",
                      "AllowReaders=spiffe://site/agent", "AllowActors=spiffe://site/agent"]
        scheme = "https" if self.tls else "http"
        lines += ["[Control]", f"Lease={LEASE}"]
        if self.etcd:
            lines += ["Store=etcd", f"AgentsUrl={scheme}://127.0.0.1:{self.ports[2 * i]}",
                      f"PeopleUrl={scheme}://127.0.0.1:{self.ports[2 * i + 1]}",
                      "Etcd=" + " ".join(f"{scheme}://127.0.0.1:{p}" for p in self.etcd.clients)]
            if self.tls:
                cert, key = self.etcd.client
                lines += [f"EtcdCa={self.etcd.authority.cert}", f"EtcdCertificate={cert}", f"EtcdKey={key}"]
        path = self.folder / f"collector{i}.conf"
        path.write_text("\n".join(lines) + "\n")
        return path

    def start(self, i):
        return Collector(str(self.folder / f"c{i}.db"), "--config", str(self.configuration(i)),
                         "--listen-otlp", f"127.0.0.1:{self.ports[2 * i]}",
                         "--listen-api", f"127.0.0.1:{self.ports[2 * i + 1]}")

    def call(self, i, method, path, body=None):
        port = self.ports[2 * i + 1]
        if self.tls:
            context = ssl.create_default_context(cafile=str(self.authority.cert))
            context.load_cert_chain(*map(str, self.client))
            c = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
        else:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        c.request(method, path, body, {"Content-Type": "application/json"})
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        return r.status, text

    def metric(self, i):
        return {k: float(v) for k, v in METRIC.findall(self.call(i, "GET", "/metrics")[1])}

    def leader(self):
        """The collector whose registry answers: the other one sends people on."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for i, c in enumerate(self.collectors):
                if c.process.poll() is None and self.call(i, "GET", "/api/v1/runs")[0] == 200:
                    return i
            time.sleep(0.1)
        raise AssertionError("no collector leads")

    def driver(self, *more):
        options = list(more)
        if self.tls:
            options += ["--tls", ",".join(map(str, (self.authority.cert, *self.client)))]
        return Driver([self.ports[2 * i] for i in range(len(self.collectors))], self.members, self.per_slice,
                      *options)

    def say(self, what, result):
        first, last, answers, size, failures, refused = result
        servers = [c.process.pid for c in self.collectors if c.process.poll() is None]
        print(f"  {what:36} first {first:7.3f} s, last {last:7.3f} s | {answers:6} answers, {size:7.1f} "
              f"MiB, {failures} failures, {refused} sent on | "
              f"collector: {sum(map(processor_time, servers)):.2f} s CPU, {max(map(resident, servers)):.0f} "
              f"MiB", flush=True)

    def bare(self, leader):
        d = self.driver("--bare", "--first", str(leader))
        result = d.until("connected")
        d.close()
        self.say("bare connections" + (" and handshakes" if self.tls else ""), result)
        return result[1]

    def etcd_requests(self):
        """gRPC calls that etcd has answered, all members together; the gateway's calls are gRPC calls
        inside of etcd."""
        return sum(sum(v for k, v in self.etcd_metrics(m).items()
                       if k.startswith("grpc_server_handled_total")) for m in range(3))

    def etcd_metrics(self, member):
        c = http.client.HTTPConnection("127.0.0.1", self.etcd.metrics_ports[member], timeout=30)
        c.request("GET", "/metrics")
        text = c.getresponse().read().decode()
        c.close()
        return {k: float(v) for k,
                v in (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")}

    def rest(self, seconds, leader):
        pid = self.collectors[leader].process.pid
        cpu, calls, syncs = (processor_time(pid), self.etcd and self.etcd_requests(),
                             self.metric(leader)["syncs"])
        time.sleep(seconds)
        line = (f"{(processor_time(pid) - cpu) / seconds * 100:.1f} % of a core for "
                f"{(self.metric(leader)['syncs'] - syncs) / seconds:.0f} syncs/s")
        if self.etcd:
            line += f"; etcd: {(self.etcd_requests() - calls) / seconds:.1f} requests/s"
        print(f"  {'at rest':36} {line}", flush=True)

    def run(self, rest, knows):
        print(f"{self.members} members, slices of {self.per_slice}, {self.store}, "
              f"{'TLS' if self.tls else 'plain'}, arriving within {self.arrive} s, "
              f"{'knowing' if knows else 'not knowing'} who led; "
              f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        leader = self.leader()
        bare = self.bare(leader) if not self.arrive else None
        d = self.driver("--arrive", str(1000 * self.arrive), "--first",
                        str(leader if knows or not self.etcd else 1 - leader))
        result = d.until("ready")
        self.say("arrived, all see their slice ready", result)
        if bare:
            print(f"  {'':36} {result[1] / bare:.2f} x the bare connections")
        m = self.metric(leader)
        print(f"  {'':36} {m['members']:.0f} members at the server, {m['leases_ended']:.0f} leases expired",
              flush=True)
        time.sleep(2)
        self.rest(rest, leader)
        d.word("forget running")
        intent = {"name": "train", "user": "bench", "argv": ["x"], "min": 1,
                  "max": min(256, -(-self.members // self.per_slice))}
        status, text = self.call(leader, "POST", "/api/v1/runs", json.dumps(intent))
        assert status == 201, text
        result = d.until("running")
        self.say("a run: asked to told to start", result)
        d.word("forget forming")
        d.word("die", False)
        self.say("one is silent, its slice knows", d.until("forming"))
        d.word("forget whole")
        self.collectors[leader].process.send_signal(signal.SIGKILL)
        self.collectors[leader].process.wait()
        if not self.etcd:
            self.collectors[0] = self.start(0)
        self.say("collector killed, all are with the next", d.until("whole"))
        leader = self.leader()
        m = self.metric(leader)
        print(f"  {'':36} {m['members']:.0f} members at the server, {m['leases_ended']:.0f} leases expired",
              flush=True)
        status, text = self.call(leader, "GET", "/api/v1/runs/train")
        print(f"  {'':36} the run: {json.loads(text)['state']}, generation {json.loads(text)['generation']}",
              flush=True)
        d.close()

    def close(self):
        for c in self.collectors:
            if c.process.poll() is None:
                c.stop()
        if self.etcd:
            self.etcd.close()
        self.temporary.cleanup()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("sizes", nargs="*", metavar="MEMBERS[:PER-SLICE[:ARRIVE-S]]")
    p.add_argument("--store", action="append", choices=["sqlite", "etcd"])
    p.add_argument("--plain", action="store_true")
    p.add_argument("--tls", action="store_true")
    p.add_argument("--knows", choices=["yes", "no"], default="yes")
    p.add_argument("--rest", type=int, default=10, metavar="S")
    o = p.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for store in o.store or ["sqlite", "etcd"]:
        for size in o.sizes or ["1024", "12800:256:30"]:
            members, per_slice, arrive = (list(map(int, size.split(":"))) + [0, 0])[:3]
            for tls in (False, True):
                if (o.plain and not o.tls and tls) or (o.tls and not o.plain
                                                       and not tls) or (not o.sizes and arrive and not tls):
                    continue
                b = Bench(store, tls, members, per_slice or members, arrive)
                try:
                    b.run(o.rest, o.knows == "yes")
                finally:
                    b.close()


main()
