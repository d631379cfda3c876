#!/usr/bin/python3
"""Faults of a host, each tried on booted hosts; prints a table: the fault, what stayed true, what was told
and by whom, how long that took, the verdict. Needs root, the packages in build/debs, and BUILD_DIR's
tests for the clocks.

During each fault, and after it: the run goes on under its process; the network's settings are those that
were wanted. Behind it: all daemons serve again without a person, the uplink dropped nothing that it did not
report, and no daemon has grown.

usage: faults.py [--only NAME[,NAME…]] [--list]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from lab import LabError  # noqa: E402  (the path comes first)
import scenario  # noqa: E402

BUILD = Path(os.environ.get("BUILD_DIR", scenario.TOP / "build/dev"))
AGENTS, COLLECTOR = scenario.AGENTS, "tpu-collectord"
RUN = ("i=0; while :; do i=$((i+1)); echo \"completed step: $i, seconds: 0.2, loss: 1\"; "
       "echo $i >/srv/open/step; sleep 0.2; done")
STATE = {n: f"/var/lib/{n}" for n in (*AGENTS, COLLECTOR)}
SMALL = "size=24m"
GREW_KIB = 16 * 1024
YEAR = 365 * 86400


class Fault:
    """do and undo take the bench, or are shell lines on the host. told: words of who says it; None: nobody
    needs to."""

    def __init__(self, name, do, undo, told, on="host", within=45, stays=5):
        self.name, self.do, self.undo, self.told = name, do, undo, told
        self.on, self.within, self.stays = on, within, stays


# --- How a fault is made ---------------------------------------------------------------------------------

def small_state(name, then):
    """The daemon's state on a small file system of its own, with what was there; then is done to it."""
    d = STATE[name]
    make = (f"set -e; systemctl stop {name}; cp -a {d} /srv/state-{name}; "
            f"mount -t tmpfs -o {SMALL} state {d}; cp -aT /srv/state-{name} {d}; systemctl start {name}; "
            f"sleep 2; {then.format(d=d, n=name)}")
    back = (f"mount -o remount,rw {d}; rm -f {d}/filler; sleep 3; systemctl stop {name}; "
            f"rm -rf /srv/state-{name}; cp -a {d} /srv/state-{name}; umount -l {d}; "
            f"cp -aT /srv/state-{name} {d}; rm -rf /srv/state-{name}; systemctl start {name}")
    return make, back


FULL_DISK = "dd if=/dev/zero of={d}/filler bs=64k 2>/dev/null || true"
READ_ONLY = "systemctl stop {n}; mount -o remount,ro {d}; systemctl start --no-block {n}"


def traced(name, words):
    """System calls of the daemon fail, or take long, as its disk would have them."""
    def do(b):
        pid = b.on_host(name).pid_outside(b.main_pid(name))
        b.tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(pid), *words],
                                    stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def undo(b):
        b.tracer.terminate()
        b.tracer.wait(20)
    return do, undo


WRITES = "fdatasync,fsync,pwrite64,pwritev"
EIO = ["-e", f"trace={WRITES}", "-e", f"inject={WRITES}:error=EIO"]
SLOW = ["-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:delay_enter=3000000"]


def drop_in(name, text):
    folder = f"/run/systemd/system/{name}.service.d"

    def do(b):
        b.on_host(name).write(f"{folder}/fault.conf", f"[Service]\n{text}\n")
        b.on_host(name).sh(f"systemctl daemon-reload; systemctl restart --no-block {name}")

    return do, (f"rm -rf {folder}; systemctl daemon-reload; systemctl reset-failed {name}; "
                f"systemctl restart {name}")


def limited(name, prop, value):
    return (f"systemctl set-property --runtime {name}.service {prop}={value}; systemctl kill -s KILL {name}",
            f"rm -rf /run/systemd/system.control/{name}.service.d; systemctl daemon-reload; "
            f"systemctl reset-failed {name}; systemctl restart {name}")


def descriptors(name):
    """It has as many open as it may."""
    def do(b):
        host, pid = b.on_host(name), b.main_pid(name)
        n = int(host.sh(f"ls /proc/{pid}/fd | wc -l"))
        subprocess.run(["prlimit", "--pid", str(host.pid_outside(pid)), f"--nofile={n}:"], check=True)

    def undo(b):
        b.on_host(name).sh(f"systemctl restart {name}")
    return do, undo


def clock(name, seconds):
    """Its real clock is set while it runs. It begins with the right one."""
    folder = f"/run/systemd/system/{name}.service.d"

    def set_to(b, s):
        with open(b.on_host(name).path("/srv/open/ahead"), "r+b") as f:
            f.write(s.to_bytes(8, "little", signed=True))

    def do(b):
        host = b.on_host(name)
        host.path("/usr/local/lib").joinpath("set_clock.so").write_bytes(
            (BUILD / "tests/libset_clock.so").read_bytes())
        host.sh("install -d -m 777 /srv/open; head -c 8 /dev/zero >/srv/open/ahead; chmod 644 "
                "/srv/open/ahead /usr/local/lib/set_clock.so")
        host.write(f"{folder}/fault.conf", "[Service]\nEnvironment=LD_PRELOAD=/usr/local/lib/set_clock.so "
                                           "SET_CLOCK=/srv/open/ahead\n")
        host.sh(f"systemctl daemon-reload; systemctl restart {name}; sleep 3")
        b.began = time.monotonic()
        set_to(b, seconds)

    def undo(b):
        set_to(b, 0)
        time.sleep(3)
        b.on_host(name).sh(f"rm -rf {folder}; systemctl daemon-reload; systemctl restart {name}")
    return do, undo


def many_processes(b):
    """4,200 of a user's, beside the run."""
    b.h.sh("systemd-run -q --unit=many -p TasksMax=infinity -p User=alice python3 -c \""
           "import os, time\nfor i in range(4200):\n    if os.fork() == 0:\n        time.sleep(1000)\n"
           "time.sleep(1000)\"")
    b.h.wait_for(lambda: int(b.h.sh("pgrep -u alice -c python3; true")) > 4100, 120, "4,100 processes")


def faults():
    stopped = "stopped by a signal|does not answer|no answer|silent"
    yes = []

    def add(name, made, told, **more):
        yes.append(Fault(name, *made, told, **more))

    for d in ("tpu-hostd", "tpu-launchd"):
        add(f"{d}: disk full", small_state(d, FULL_DISK), r"No space left|\bfull\b", within=60)
        add(f"{d}: disk read-only", small_state(d, READ_ONLY), "[Rr]ead-only", within=60)
        add(f"{d}: disk gives EIO", traced(d, EIO), "Input/output error|EIO" if d == "tpu-hostd" else None,
            within=60)
        add(f"{d}: disk is slow", traced(d, SLOW), None)
    for d in AGENTS:
        add(f"{d}: killed for memory", limited(d, "MemoryMax", "1M"), "again and again|does not run|restart",
            within=100)
        add(f"{d}: no descriptors", descriptors(d), None)
        add(f"{d}: no processes", limited(d, "TasksMax", "1"), None)
        add(f"{d}: stopped", (f"systemctl kill -s STOP {d}",
                              f"systemctl kill -s CONT {d}; systemctl restart {d}"), stopped)
        add(f"{d}: run directory deleted", (f"rm -rf /run/{d}", f"systemctl restart {d}.socket {d}"),
            "socket is gone")
    for d in ("tpu-netcfg", "tpu-launchd"):
        add(f"{d}: no inotify", drop_in(d, "SystemCallFilter=~inotify_init1:EMFILE"),
            "Too many open files" if d == "tpu-netcfg" else None)
    add("journald: stopped", ("systemctl kill -s STOP systemd-journald",
                              "systemctl kill -s CONT systemd-journald"), "journald")
    add("journald: away", ("systemctl stop systemd-journald.socket systemd-journald-dev-log.socket "
                           "systemd-journald-audit.socket systemd-journald; true",
                           "systemctl start systemd-journald.socket systemd-journald-dev-log.socket "
                           "systemd-journald"), "journald")
    add("D-Bus: stopped", ("systemctl kill -s STOP dbus", "systemctl kill -s CONT dbus"), None)
    add("4,200 processes", (many_processes, "systemctl kill -s KILL many; true"), None, stays=15)
    for words, seconds in (("an hour ahead", 3600), ("an hour back", -3600), ("a year ahead", YEAR)):
        add(f"tpu-hostd: clock {words}", clock("tpu-hostd", seconds), "clock", within=60)
        add(f"{COLLECTOR}: clock {words}", clock(COLLECTOR, seconds), "clock", on="collector", within=60)
    c = COLLECTOR
    away = "no answer|cannot|refused|503|timed? ?out|Connection|not within"
    add(f"{c}: disk full", small_state(c, FULL_DISK), r"\bfull\b|No space", on="collector", within=60)
    add(f"{c}: disk read-only", small_state(c, READ_ONLY), "unable to open database file", on="collector",
        within=60)
    add(f"{c}: disk gives EIO", traced(c, EIO), "I/O error|Input/output|disk", on="collector", within=60)
    add(f"{c}: disk is slow", traced(c, SLOW), None, on="collector")
    add(f"{c}: killed for memory", limited(c, "MemoryMax", "2M"), away, on="collector", within=60)
    add(f"{c}: no descriptors", descriptors(c), None, on="collector")
    add(f"{c}: no processes", limited(c, "TasksMax", "1"), None, on="collector")
    add(f"{c}: stopped", (f"systemctl kill -s STOP {c}", f"systemctl kill -s CONT {c}"), away,
        on="collector", within=90)
    add(f"{c}: its host has no journald", ("systemctl kill -s STOP systemd-journald",
                                          "systemctl kill -s CONT systemd-journald"), None, on="collector")
    return yes


# --- The bench ---------------------------------------------------------------------------------------------

class Bench:
    def __init__(self, lab):
        self.lab, self.h, self.c, self.tracer, self.began = lab, lab.hosts[0], lab.collector, None, 0
        self.h.sh("useradd -m -G tpu-run alice; install -d -m 777 /srv/open")
        self.h.run(["tpuctl", "run", "--name", "train", "--framework", "plain", "--malloc", "glibc",
                    "--share-devices", "--", "/bin/sh", "-c", RUN], user="alice", check=True)
        self.h.wait_for(lambda: self.step() > 5, 60, "steps")
        self.pid = self.main_pid("tpu-run-train")
        self.settled()
        self.wanted = self.settings()
        self.usual = {self.key(f) for f in self.findings()}

    def on_host(self, name):
        return self.c if name == COLLECTOR else self.h

    def main_pid(self, name):
        return int(scenario.unit(self.on_host(name), f"{name}.service", "MainPID")["MainPID"])

    def step(self):
        return int(self.h.sh("cat /srv/open/step 2>/dev/null || echo 0").strip() or 0)

    def settings(self):
        return tuple(scenario.link(self.h, n)["mtu"] for n in ("eth0", "eth1")), scenario.tcp_rmem(self.h)

    @staticmethod
    def key(f):
        return f["check"], f.get("subject") or "", f["verdict"]

    def findings(self):
        found = []
        for words, key in ((["check", "daemon"], "checks"), (["status"], "reasons")):
            done = self.h.run(["tpuctl", *words, "--json"], timeout=30)
            try:
                found += [f for f in json.loads(done.out)[key] if f["verdict"] != "OK"]
            except ValueError:
                found.append({"check": f"tpuctl {words[0]}", "verdict": "FAIL",
                              "reason": (done.err or done.out).strip()[:200]})
        return found

    def told(self, fault, since):
        """Who says it, and how: checks of the host, people's commands to the collector, journals."""
        for f in self.findings():
            words = " ".join(str(f.get(k) or "") for k in ("check", "subject", "found", "reason"))
            if self.key(f) not in self.usual and re.search(fault.told, words):
                return f["check"], f"{f['verdict']} {words}"
        for words in (["fleet"], ["uplink"]):
            done = self.h.run(["tpuctl", *words], timeout=40)
            if done.code not in (0, 1) and re.search(fault.told, done.out + done.err):
                return f"tpuctl {words[0]}", " ".join((done.err or done.out).split())
        for host, units in ((self.h, AGENTS), (self.c, (COLLECTOR,))):
            for unit in units:
                done = host.run(["journalctl", "-q", "-o", "cat", "-u", unit, f"--since=@{int(since)}"],
                                timeout=20)
                line = next((x for x in done.out.splitlines() if re.search(fault.told, x)), None)
                if line:
                    return f"journal of {unit}", line
        return None

    def uplink(self):
        """{class: {reason: records dropped}} of what is not zero, and how many wait."""
        classes = scenario.ctl_json(self.h, "uplink")["classes"]
        return ({n: {r: k for r, k in c["dropped_by"].items() if k} for n, c in classes.items()
                 if any(c["dropped_by"].values())}, sum(c["kept"] for c in classes.values()))

    def sizes(self):
        """{daemon: (KiB resident, descriptors)}."""
        out = {}
        for name in (*AGENTS, COLLECTOR):
            host, pid = self.on_host(name), self.main_pid(name)
            rss, fds = host.sh(f"grep VmRSS /proc/{pid}/status | tr -dc 0-9; echo; ls /proc/{pid}/fd | wc -l"
                               ).split()
            out[name] = int(rss), int(fds)
        return out

    def settled(self, seconds=90):
        """Everything serves: checks as usual, the uplink empties, the collector shows the host."""
        usual = getattr(self, "usual", None)

        def well():
            news = [f for f in self.findings() if usual is not None and self.key(f) not in usual
                    and not f.get("flapping")]  # several faults of one kind: held back for five minutes
            if news:
                self.last = str(news[0])
                return False
            fleet = self.h.run(["tpuctl", "fleet", "--json"], timeout=30)
            self.last = f"tpuctl fleet: {fleet.code} {fleet.err}; {self.uplink()[1]} records wait"
            return fleet.code in (0, 1, 2) and '"h0"' in fleet.out and self.uplink()[1] <= 3
        try:
            self.h.wait_for(well, seconds)
        except LabError:
            raise LabError(f"not within {seconds} s: {self.last}") from None

    # -- one fault ------------------------------------------------------------------------------------------

    def do(self, what, host):
        if callable(what):
            return what(self)
        done = host.run(["/bin/sh", "-c", what], timeout=120)
        if done.code != 0 and what.startswith("set -e"):
            raise LabError(f"the fault could not be made: {done.err[-300:]}")
        return done

    def goes_on(self, where):
        """The run and the settings; words where they do not."""
        before = self.step()
        end = time.monotonic() + 10
        while self.step() <= before + 2:
            if time.monotonic() > end:
                return f"the run makes no step {where}"
            time.sleep(0.2)
        if self.main_pid("tpu-run-train") != self.pid:
            return f"the run is another process {where}"
        if self.settings() != self.wanted:
            return f"settings {where}: {self.settings()}, wanted {self.wanted}"
        return ""

    def attempt(self, fault):
        """(verdict, who told, seconds, words)."""
        host = self.c if fault.on == "collector" else self.h
        dropped, sizes, since = self.uplink()[0], self.sizes(), time.time()
        told, seconds, lost = None, 0.0, ""
        self.began = time.monotonic()
        try:
            self.do(fault.do, host)
            if fault.told:
                end = self.began + fault.within
                while not told and time.monotonic() < end:
                    told = self.told(fault, since)
                    time.sleep(0.3)
                seconds = time.monotonic() - self.began
            else:
                time.sleep(fault.stays)
            lost = self.goes_on("meanwhile")
        finally:
            self.do(fault.undo, host)
        try:
            back = time.monotonic()
            self.settled()
            back = time.monotonic() - back
        except LabError as e:
            return "HUNG", told and told[0] or "", seconds, str(e)[-400:]
        lost = lost or self.goes_on("afterwards")
        now = self.uplink()[0]
        if lost:
            return "LOST", told and told[0] or "", seconds, lost
        grown = {n: (sizes[n], s) for n, s in self.sizes().items()
                 if s[0] > sizes[n][0] + GREW_KIB or s[1] > sizes[n][1] + 64}
        if grown:
            return "GREW", told and told[0] or "", seconds, str(grown)
        if fault.told and not told:
            return "NOT TOLD", "", seconds, "; ".join(self.key(f)[0] for f in self.findings())
        reported = "" if now == dropped else f"; dropped, and reported as gaps: {now}"
        return ("held", told[0] if told else "nobody needs to", seconds,
                f"serves again in {back:.0f} s{reported}{'; ' + told[1][:160] if told else ''}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--only", help="names, or beginnings of them, with commas between")
    p.add_argument("--list", action="store_true", help="the names, and end")
    a = p.parse_args()
    wanted = [f for f in faults() if not a.only or any(f.name.startswith(n) for n in a.only.split(","))]
    if a.list:
        print("\n".join(f.name for f in wanted))
        return 0
    print(f"{'fault':36} {'verdict':9} {'told by':26} {'after':>7}  words; the run and the settings stayed")
    bad = 0
    with scenario.slice_lab(1, os.environ.get("TPU_HOSTD_DEBS")) as lab:
        bench = Bench(lab)
        for f in wanted:
            try:
                verdict, who, seconds, words = bench.attempt(f)
            except (LabError, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
                verdict, who, seconds, words = "HUNG", "", 0.0, f"{type(e).__name__}: {str(e)[-300:]}"
            bad += verdict != "held"
            print(f"{f.name:36} {verdict:9} {who:26} {seconds:6.1f}s  {' '.join(words.split())}", flush=True)
    print(f"{len(wanted)} faults: {len(wanted) - bad} held, {bad} did not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
