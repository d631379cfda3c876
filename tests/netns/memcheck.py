#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg and tpuctl check under valgrind: no bad access, no use of what was never set, nothing
definitely lost; in a network
namespace and on a recorded machine. Prints PASS or FAIL for each; exit code 77 where namespaces are not
permitted. Needs root.
Usage: memcheck.py      BUILD_DIR: the build tree (build/dev)"""
import os
import signal
import subprocess
import sys
import time

from namespace import Host, NotPermitted

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
BUILD = os.path.realpath(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build/dev")))
NETCFG, TPUCTL = f"{BUILD}/netcfg/tpu-netcfg", f"{BUILD}/agent/ctl/tpuctl"
FIXTURE = f"{SOURCE}/tests/fixtures/machine-v6e-4t"
BAD = 99
VALGRIND = ["valgrind", "-q", "--trace-children=yes", f"--error-exitcode={BAD}", "--leak-check=full",
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite", "--track-fds=no"]
failed = []


def tell(name, code, text, allowed=(0, 1, 2, 3)):
    # A child's error is the child's exit code only: its message is what tells.
    good = code in allowed and "\n==" not in "\n" + text
    print(f"{'PASS' if good else 'FAIL'} memory: {name}", flush=True)
    if not good:
        failed.append(name)
        print(f"exit code {code}\n{text}")


def run(name, host, *words, recorded=False):
    preload = ["env", f"LD_PRELOAD={BUILD}/tests/libplain_openat2.so"] if recorded else []
    command = preload + VALGRIND + list(words)
    done = subprocess.run(host.command(*command) if host else command, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    tell(name, done.returncode, done.stderr)


def daemon(host):
    """It starts, repairs a link and a sysctl, answers a request, and ends."""
    host.check("install", "-d", "/run/tpu-netcfg")
    process = host.start(*VALGRIND, NETCFG)
    host.check("ip", "link", "set", "eth0", "mtu", "1460")
    host.check("sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=0")
    end = time.monotonic() + 60
    while (host.mtu("eth0"),
           host.sysctl("net.ipv4.tcp_no_metrics_save")) != (8896, "1") and time.monotonic() < end:
        time.sleep(0.05)
    host.ask("/run/tpu-netcfg/netcfg.sock", 10)
    process.send_signal(signal.SIGTERM)
    tell("tpu-netcfg, the daemon", process.wait(20), host.stderr(), allowed=(0,))


def main():
    host = Host(os.path.join(SOURCE, "netcfg/profiles"))
    try:
        host.identity("[Identity]\nAcceleratorType=v6e-16\n[Network]\nMtu=8896\n")
        for words in (["--dry-run"], ["--once"], ["--once", "--json"], ["--restore"],
                      ["--restore", "--json"], ["--show-config"]):
            run(" ".join(["tpu-netcfg", *words]), host, NETCFG, *words)
        daemon(host)
        run("tpuctl check", host, TPUCTL, "check")
        run("tpuctl check --json", host, TPUCTL, "check", "--json")
    finally:
        host.close()
    run("tpu-netcfg --dry-run, a recorded machine", None, NETCFG, "--root", FIXTURE, "--dry-run",
        recorded=True)
    run("tpuctl check, a recorded machine", None, TPUCTL, "--root", FIXTURE, "check", recorded=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NotPermitted as refused:
        print(f"SKIP memory: {refused}")
        sys.exit(77)
