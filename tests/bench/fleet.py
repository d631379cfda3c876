#!/usr/bin/python3
"""BUILD_DIR=… tests/bench/fleet.py [--collector PROGRAM] [--mutual-tls] [--instructions] HOSTS SECONDS
[options of bench-fleet]: one
collector, one fleet; prints what the fleet saw, and what the collector's own process spent: CPU, memory,
bytes written, and points per second
of its CPU. --instructions: under callgrind, which makes it slow and the machine's load irrelevant: prints
instructions a point."""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("BUILD_DIR", "build/dev"))


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def field(pid, file, name):
    with open(f"/proc/{pid}/{file}") as f:
        return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M)[1])


def certificates(folder):
    """A configuration with both sides' certificates, and the fleet's options."""
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=ca")
    for name, san in (("server", "IP:127.0.0.1"), ("agent", "URI:spiffe://bench/host")):
        openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        with open(f"{folder}/ext", "w") as f:
            f.write(f"subjectAltName={san}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", "ext", "-out", f"{name}.crt")
    with open(f"{folder}/conf", "w") as f:
        f.write(f"[Collector]\nCertificate={folder}/server.crt\nKey={folder}/server.key\n"
                f"ClientCa={folder}/ca.crt\n"
                "AllowAgents=spiffe://bench/*\nTrustAllAgents=yes\nAllowReaders=spiffe://bench/*\n")
    return f"{folder}/conf", ["--tls", f"{folder}/agent.crt", f"{folder}/agent.key"]


def total(folder):
    """Of what callgrind counted last."""
    with open(f"{folder}/callgrind") as f:
        return int(re.search(r"^(?:totals|summary): (\d+)", f.read(), re.M)[1])


def instructions(counter, program, folder):
    """Of a collector that starts and ends."""
    c = subprocess.Popen([*counter, program, "--config", "/dev/null", "--database", f"{folder}/idle.db",
                          "--listen-otlp", "127.0.0.1:0",
                          "--listen-api", "127.0.0.1:0"], stderr=subprocess.DEVNULL)
    time.sleep(5)
    c.terminate()
    c.wait(30)
    return total(folder)


def main():
    args = sys.argv[1:]
    program = os.path.join(BUILD, "collector", "tpu-collectord")
    more = []
    if args[0] == "--collector":
        program = args[1]
        args = args[2:]
    tls = "--mutual-tls" in args
    args = [a for a in args if a != "--mutual-tls"]
    count = "--instructions" in args
    args = [a for a in args if a != "--instructions"]
    while "--with" in args:  # --with OPTION: for the collector
        i = args.index("--with")
        more.append(args[i + 1])
        del args[i:i + 2]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with (tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder,
          open(os.path.join(folder, "log"), "w+") as log):
        conf = "/dev/null"
        if tls:
            conf, options = certificates(folder)
            args += options
        counter = ["valgrind", "-q", "--tool=callgrind",
                   f"--callgrind-out-file={folder}/callgrind"] if count else []
        idle = instructions(counter, program, folder) if count else 0
        c = subprocess.Popen([*counter, program, "--config", conf, "--database", f"{folder}/c.db",
                              "--listen-otlp", "127.0.0.1:0",
                              "--listen-api", "127.0.0.1:0", *more], stderr=log)
        try:
            for _ in range(600):
                time.sleep(0.05)
                found = re.search(r"OTLP on 127\.0\.0\.1:(\d+)", open(log.name).read())
                if found:
                    break
            empty = field(c.pid, "status", "VmRSS")
            before, start = cpu(c.pid), time.monotonic()
            out = subprocess.run([os.path.join(BUILD, "tests/bench/bench-fleet"), f"127.0.0.1:{found[1]}",
                                  *args], check=True, capture_output=True,
                                 text=True).stdout
            spent, took = cpu(c.pid) - before, time.monotonic() - start
            print(out, end="")
            ok = int(re.search(r"200: (\d+)", out)[1]) * int(re.search(r"points (\d+)", out)[1])
            rss, peak = field(c.pid, "status", "VmRSS"), field(c.pid, "status", "VmHWM")
            wrote = field(c.pid, "io", "write_bytes")
            size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)
                       if f.startswith("c.db"))
            print(f"collector: {spent / took * 100:.0f} % of a core, "
                  f"{ok / spent if spent else 0:.0f} points per second and core, "
                  f"RSS {rss / 1024:.1f} MiB "
                  f"(empty {empty / 1024:.1f}, peak {peak / 1024:.1f}), "
                  f"wrote {wrote / took / 1e6:.2f} MB/s, database {size / 1e6:.1f} MB, "
                  f"load of the machine {os.getloadavg()[0]:.1f}")
        finally:
            c.terminate()
            c.wait(30)
        if count:
            print(f"{(total(folder) - idle) / ok:.0f} instructions a point, start and end left out")


main()
