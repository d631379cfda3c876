#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What tpu-netcfg costs and how fast it is, beside people's shell lines and TuneD, in one run.

1. from process start to all settings applied and verified   2. from drift to repair: links, routes, sysctls
3. the idle watcher: wakeups, processor, memory              4. tpuctl check

All in network namespaces with two data NICs (veth); for the drifts of links, hosts of ten, and each NIC
drifts once; for those of
routes, each route once: so no setting is repaired twice within 60 s and the rule of contests, which is in
force, is never met. TuneD comes out of its Debian package,
unpacked and not installed. Times are printed, medians over interleaved runs, and decide nothing. Needs root.

On a machine that does other work, too, "chrt -r 1 netcfg.py" keeps that out of the figures; the load is
printed.
Usage: netcfg.py [--json]      BUILD_DIR: the build tree (build/dev)   RUNS, DRIFTS, SECONDS: 30, 200, 60   PARTS: 1234
"""
import json
import math
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.realpath(os.path.join(HERE, "../.."))
sys.path.insert(0, os.path.join(HERE, "../netns"))
from namespace import NET_ADMIN_ONLY, Host, NotPermitted  # noqa: E402

BUILD = os.path.realpath(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build/dev")))
NETCFG, TPUCTL = f"{BUILD}/netcfg/tpu-netcfg", f"{BUILD}/agent/ctl/tpuctl"
IN_HOST = ["/usr/bin/python3", "-B", f"{HERE}/in_host.py"]
RUNS, DRIFTS, SECONDS = (int(os.environ.get(name, default)) for name,
                         default in (("RUNS", 30), ("DRIFTS", 200), ("SECONDS", 60)))
PARTS = os.environ.get("PARTS", "1234")
NICS = ("eth0", "eth1")
# What each setting is before a run: none is what any profile wants.
WRONG = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_slow_start_after_idle": "1",
         "net.ipv4.tcp_no_metrics_save": "0",
         "net.core.somaxconn": "1024", "net.ipv4.tcp_max_syn_backlog": "1024",
         "net.ipv4.tcp_mtu_probing": "1",
         "net.core.optmem_max": "65536", "net.ipv4.tcp_rto_min_us": "200000"}
GOALS = {"applied": 50, "links": 10, "wakeups": 6, "dirty": 600, "check": 150}
TUNED_PACKAGES = ("tuned", "python3-pyudev", "python3-linux-procfs")
rows = []  # every figure, for --json


def say(text=""):
    if "--json" not in sys.argv:
        print(text, flush=True)


def note(part, name, **figures):
    rows.append({"part": part, "name": name, **figures})


def percentile(values, share):
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def new_host(**arguments):
    host = Host(os.path.join(SOURCE, "netcfg/profiles"), **arguments)
    host.identity("[Identity]\nAcceleratorType=v6e-16\n[Network]\nMtu=8896\n")
    return host


def in_host(host, *words, stdin=""):
    done = subprocess.run(host.command(*IN_HOST, *words), input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


# --- TuneD
# -----------------------------------------------------------------------------------------------------------

def unpack_tuned():
    """The folder into which TuneD was unpacked, or None with the reason printed."""
    folder = tempfile.mkdtemp(prefix="bench-netcfg-")
    os.chmod(folder, 0o755)
    try:
        for package in TUNED_PACKAGES:
            subprocess.run(["apt-get", "-q", "download", package], cwd=folder, check=True,
                           capture_output=True)
        for name in os.listdir(folder):
            if name.endswith(".deb"):
                subprocess.run(["dpkg-deb", "-x", f"{folder}/{name}", f"{folder}/tree"], check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        say(f"TuneD: not measured: {e}")
        shutil.rmtree(folder)
        return None
    return folder


def set_up_tuned(host, wanted, daemon):
    """Gives the host a profile with what ours sets, but for the MTU: TuneD finds NICs by /sys, the
    machine's."""
    os.makedirs(f"{host.tree}/etc/tuned/same")
    with open(f"{host.tree}/etc/tuned/same/tuned.conf", "w", encoding="utf-8") as file:
        file.write("[sysctl]\n" + "".join(f"{name}={value}\n" for name, value in wanted.items()))
    with open(f"{host.tree}/etc/tuned/tuned-main.conf", "w", encoding="utf-8") as file:
        file.write(f"daemon = {daemon}\n")


def tuned_command(tuned):
    return ["/usr/bin/python3", f"{tuned}/tree/usr/sbin/tuned", "--no-dbus", "--no-socket", "-p", "same"]


# --- 1. From process start to applied and verified
# ---------------------------------------------------------------------------

def wrong_lines(wanted):
    return "\n".join([f"echo '{WRONG[name]}' > /proc/sys/{name.replace('.', '/')}" for name in wanted] +
                     [f"ip link set {nic} mtu 1460" for nic in NICS])


def by_hand(wanted, verify):
    paths = {"/proc/sys/" + name.replace(".", "/"): value for name, value in wanted.items()}
    lines = [f"echo '{value}' > {path}" for path,
             value in paths.items()] + [f"ip link set {nic} mtu 8896" for nic in NICS]
    if verify:
        lines += [f"[ \"$(cat {path} | tr '\\t' ' ')\" = '{value}' ] || exit 1" for path,
                  value in paths.items()]
        lines += [f"ip link show {nic} | grep -q 'mtu 8896 ' || exit 1" for nic in NICS]
    return ["sh", "-c", "\n".join(["set -e"] + lines)]


def wanted_here(host):
    """{sysctl: value} that the profile wants and this kernel and namespace can have."""
    plan = json.loads(host.run(NETCFG, "--dry-run", "--json").stdout)["plan"]
    return {op["subject"]: op["to"] for op in plan if op["check"] == "sysctl" and op["subject"] in WRONG}


def driver_time(host, before):
    """Median ms that one --once spends inside the kernel's RTM_SETLINK, as strace tells it (its own cost
    is in it)."""
    if not shutil.which("strace"):
        return None
    totals = []
    for _ in range(5):
        host.check("sh", "-c", before)
        text = host.run("strace", "-T", "-e", "trace=sendmsg,sendto", NETCFG, "--once").stderr
        totals.append(sum(float(t) for t in re.findall(r"RTM_SETLINK.*<([0-9.]+)>", text)) * 1000)
    return statistics.median(totals)


def measure_start(tuned):
    host = new_host(packages=f"{tuned}/tree" if tuned else None)
    try:
        for name, value in WRONG.items():
            host.run("sysctl", "-qw", f"{name}={value}")
        wanted = wanted_here(host)
        before = wrong_lines(wanted)
        cases = [("tpu-netcfg --once", [NETCFG, "--once"], {}),
                 ("tpu-netcfg --once, nothing wrong", [NETCFG, "--once"], {"before": ":"}),
                 ("by hand, F1 and F2 alone",
                  by_hand({"net.ipv4.tcp_rmem": wanted["net.ipv4.tcp_rmem"]}, False), {}),
                 ("by hand, the same settings", by_hand(wanted, False), {}),
                 ("by hand, the same, read back", by_hand(wanted, True), {}),
                 ("an empty process", ["true"], {})]
        if tuned:
            set_up_tuned(host, wanted, 0)
            cases.append(("TuneD, one shot, sysctls alone", tuned_command(tuned), {}))
        spec = [{"name": name, "argv": argv, "before": more.get("before", before)} for name, argv,
                more in cases]
        spec[1]["before"] = before + f"\n{NETCFG} --once >/dev/null"
        result = in_host(host, "runs", stdin=json.dumps({"rounds": RUNS, "cases": spec}))
        host.check("sh", "-c", before)
        host.run(NETCFG, "--once")
        right = {name: host.sysctl(name) for name in wanted} == wanted and [host.mtu(nic)
                                                                            for nic in NICS] == [8896, 8896]
        driver = driver_time(host, before)
    finally:
        host.close()
    ours = statistics.median(run["ms"] for run in result["tpu-netcfg --once"])
    say(f"\n1. Process start to applied and verified: {len(wanted)} sysctls and the MTU of two NICs, all "
        f"wrong before each run; "
        f"{RUNS} runs each, interleaved\n{'':36} {'median ms':>10} {'max ms':>8} {'ours is':>8}")
    for name, _, _ in cases:
        times = [run["ms"] for run in result[name]]
        failed = sum(run["code"] not in (0,) for run in result[name])
        median = statistics.median(times)
        say(f"{name:36} {median:10.2f} {max(times):8.2f} {ours / median:7.2f}×"
            + (f"   {failed} runs failed" if failed else ""))
        note(1, name, median_ms=median, max_ms=max(times), failed=failed, runs=RUNS)
    say(f"goal: {GOALS['applied']} ms less the time inside the driver" +
        ("" if driver is None
         else f" (here {driver:.2f} ms in RTM_SETLINK, by strace -T, in runs of its own)") +
        f"; read by others afterwards: {'all right' if right else 'NOT ALL RIGHT'}")
    note(1, "inside RTM_SETLINK", median_ms=driver, right=right)
    say("TuneD finds NICs by /sys, which shows another namespace's here: no MTU. bpftune: not in this "
        "Debian release; it sizes buffers as it sees traffic, and has nothing to apply at start."
        if not in_apt("bpftune")
        else "bpftune sizes buffers as it sees traffic: it has nothing to apply at start.")


def in_apt(package):
    return "Candidate" in subprocess.run(["apt-cache", "policy", package], capture_output=True,
                                         text=True).stdout


# --- 2. From drift to repair
# -------------------------------------------------------------------------------------------------

def print_drifts(name, found):
    done = [d for d in found if d]
    say_drift(name, done, len(found))
    note(2, name, drifts=len(found), repaired=len(done),
         **{f"{key}_{word}": f([d[key] for d in done]) for key in ("event_ms", "ms") if done
            for word,
            f in (("median", statistics.median), ("p99", lambda v: percentile(v, .99)), ("max", max))})


def say_drift(name, done, total):
    if not done:
        say(f"{name:36} none of {total} repaired")
        return
    event, whole = ([d[key] for d in done] for key in ("event_ms", "ms"))
    say(f"{name:36} {len(done):4}/{total:<4} {statistics.median(event):8.2f} {percentile(event, .99):7.2f} "
        f"{max(event):7.2f}   "
        f"{statistics.median(whole):8.2f} {percentile(whole, .99):7.2f} {max(whole):7.2f}")


def daemon_of(host):
    host.check("install", "-d", "-o", "65534", "-g", "65534", "/run/tpu-netcfg")
    return host.start(*NET_ADMIN_ONLY, NETCFG)


def drift_links(n):
    """Of one host of n NICs."""
    nics = [f"n{i}" for i in range(n)]
    host = new_host(nics=nics)
    try:
        host.netcfg_conf("[Netcfg]\nNics=n*\n")
        daemon_of(host)
        return in_host(host, "links", "1460", *nics)
    finally:
        host.close()


def drift_two_links():
    """On a host as real ones are; two drifts of each NIC are what the rule of contests lets pass."""
    host = new_host()
    try:
        daemon_of(host)
        return in_host(host, "links", "1460", *NICS * 2)
    finally:
        host.close()


def drift_routes(n):
    host = new_host()
    try:
        host.netcfg_conf("[Netcfg]\nRtoMin=routes\n")
        host.check("ip", "addr", "add", "10.10.0.10/24", "dev", "eth0")
        routes = [f"10.{20 + i // 250}.{i % 250}.0/24" for i in range(n)]
        host.check("sh", "-c", "\n".join(f"ip route add {route} via 10.10.0.1" for route in routes))
        daemon_of(host)
        return in_host(host, "routes", *routes)
    finally:
        host.close()


def drift_sysctls():
    host = new_host()
    try:
        for name, value in WRONG.items():
            host.run("sysctl", "-qw", f"{name}={value}")
        wanted = wanted_here(host)
        daemon_of(host)
        return in_host(host, "sysctls", *[f"{name}={WRONG[name]}" for name in list(wanted) * 2])
    finally:
        host.close()


def measure_drift():
    say(f"\n2. Drift to repair in ms, seen by an observer's own socket; first from the event of the drift "
        f"to the event of the "
        f"repair, then from before\n   the writing call\n{'':36} {'repaired':>9} {'median':>8} {'p99':>7} "
        f"{'max':>7}   {'median':>8} {'p99':>7} {'max':>7}")
    print_drifts(f"MTU, each NIC of {DRIFTS // 10} hosts of 10",
                 [d for _ in range(DRIFTS // 10) for d in drift_links(10)])
    print_drifts(f"MTU, each NIC of a host of {DRIFTS}", drift_links(DRIFTS))
    print_drifts("MTU, a host of two NICs", drift_two_links())
    print_drifts(f"least RTO, each of {DRIFTS} routes", drift_routes(DRIFTS))
    print_drifts("sysctls, twice each", drift_sysctls())
    say(f"goal: links, p99 of the first {GOALS['links']} ms. By hand: until someone looks. TuneD: sysctls "
        f"at its next start.")


# --- 3. The idle watcher
# -----------------------------------------------------------------------------------------------------

def cost(pid):
    """(switches, ns on a processor) of all its threads so far."""
    switches = cpu = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
            switches += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            cpu += int(file.read().split()[0])
    return switches, cpu


def memory(pid):
    """(resident, private dirty) in kB."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        found = dict(re.findall(r"^(\w+): +(\d+) kB", file.read(), re.M))
    return int(found["Rss"]), int(found["Private_Dirty"])


def watchdog():
    """As the unit has it, in µs: its wakeups are counted, too."""
    with open(f"{SOURCE}/systemd/tpu-netcfg.service", encoding="utf-8") as file:
        value, unit = re.search(r"^WatchdogSec=(\d+)(min|s)?$", file.read(), re.M).groups()
    return str(int(value) * (60 if unit == "min" else 1) * 1000000)


def start_idle(host, command):
    null = subprocess.DEVNULL
    process = subprocess.Popen(host.command("setpriv", "--pdeathsig=KILL", *command), stdin=null,
                               stdout=null, stderr=null)
    host.processes.append(process)
    return process.pid


def measure_idle(tuned):
    ours, theirs = new_host(), new_host(packages=f"{tuned}/tree" if tuned else None)
    try:
        ours.check("install", "-d", "-o", "65534", "-g", "65534", "/run/tpu-netcfg")
        pids = {"tpu-netcfg": ours.start("env", f"WATCHDOG_USEC={watchdog()}", *NET_ADMIN_ONLY, NETCFG).pid}
        if tuned:
            set_up_tuned(theirs,
                         {"net.ipv4.tcp_rmem": "4096 41943040 314572800", "net.core.somaxconn": "4096"}, 1)
            pids["TuneD"] = start_idle(theirs, tuned_command(tuned))
        pids["nothing (sleep)"] = start_idle(theirs, ["sleep", "infinity"])
        time.sleep(5)
        before = {name: cost(pid) for name, pid in pids.items()}
        start = time.monotonic()
        time.sleep(SECONDS)
        span = time.monotonic() - start
        say(f"\n3. Idle for {SECONDS} s, WatchdogSec as in the unit\n{'':36} {'wakeups/min':>11} "
            f"{'CPU %':>9} {'RSS kB':>8} {'priv. dirty kB':>14}")
        for name, pid in pids.items():
            (switches, cpu), (rss, dirty) = cost(pid), memory(pid)
            wakeups, share = (switches - before[name][0]) * 60 / span, (cpu - before[name][1]) / span / 1e7
            say(f"{name:36} {wakeups:11.1f} {share:9.4f} {rss:8} {dirty:14}")
            note(3, name, wakeups_per_minute=wakeups, cpu_percent=share, rss_kb=rss, private_dirty_kb=dirty,
                 seconds=SECONDS)
        say(f"goals: {GOALS['wakeups']} wakeups a minute, {GOALS['dirty']} kB private dirty")
    finally:
        ours.close()
        theirs.close()


# --- 4. tpuctl check
# ---------------------------------------------------------------------------------------------------------

def measure_check():
    host = new_host()
    try:
        host.run(NETCFG, "--once")
        fixture = f"{SOURCE}/tests/fixtures/machine-v6e-4t"
        spec = [{"name": "tpuctl check, this machine", "argv": [TPUCTL, "check"], "before": ":"},
                {"name": "tpuctl check, recorded v6e host", "argv": [TPUCTL, "--root", fixture, "check"],
                 "before": ":"},
                {"name": "tpu-netcfg --dry-run", "argv": [NETCFG, "--dry-run"], "before": ":"},
                {"name": "an empty process", "argv": ["true"], "before": ":"}]
        result = in_host(host, "runs", stdin=json.dumps({"rounds": RUNS, "cases": spec}))
    finally:
        host.close()
    say(f"\n4. tpuctl check, whole process; {RUNS} runs each, interleaved\n{'':36} {'median ms':>10} "
        f"{'max ms':>8} {'exit code':>10}")
    for case in spec:
        times, codes = [run["ms"] for run in result[case["name"]]], {run["code"]
                                                                     for run in result[case["name"]]}
        say(f"{case['name']:36} {statistics.median(times):10.2f} {max(times):8.2f} "
            f"{','.join(map(str, sorted(codes))):>10}")
        note(4, case["name"], median_ms=statistics.median(times), max_ms=max(times), codes=sorted(codes))
    say(f"goal: {GOALS['check']} ms")


def main():
    say(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    tuned = unpack_tuned() if set(PARTS) & set("13") else None
    try:
        if "1" in PARTS:
            measure_start(tuned)
        if "2" in PARTS:
            measure_drift()
        if "3" in PARTS:
            measure_idle(tuned)
        if "4" in PARTS:
            measure_check()
    except NotPermitted as refused:
        print(f"SKIP: {refused}")
        return 77
    finally:
        if tuned:
            shutil.rmtree(tuned)
    if "--json" in sys.argv:
        for row in rows:
            print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
