#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tpu-netcfg with the n-th allocation, open, send or write failing (fail_nth.c); called inside a host's
namespaces.

fail_every.py NETCFG LIBRARY MODE WHAT MOST: MODE is --once, --dry-run, --restore, daemon,
or observe, which is --once where the site says Mode=observe; at most MOST values of n, spread
evenly, 0: every one. Prints one line for each promise that was broken, and last "RAN n OF m".
"""
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

NETCFG, LIBRARY, MODE, WHAT, MOST = sys.argv[1:5] + [int(sys.argv[5])]
LIMIT = 5  # seconds until a run counts as hanging
RUNTIME = "/run/tpu-netcfg"
NICS = ("eth0", "eth1")
WANTED_MTU = 8896
N_MAX = 20000
SAYS = re.compile(r"^tpu-netcfg: .{12,}", re.M)
broken = []


def path_of(name):
    return "/proc/sys/" + name.replace(".", "/")


def read_state(sysctls):
    state = {}
    for name in sysctls:
        with open(path_of(name), encoding="ascii") as file:
            state[name] = " ".join(file.read().split())
    for nic in json.loads(subprocess.run(["ip", "-j", "link", "show"], check=True,
                                         capture_output=True).stdout):
        if nic["ifname"] in NICS:
            state[nic["ifname"]] = str(nic["mtu"])
    return state


def command(*words, n=0, **arguments):
    """Runs tpu-netcfg. Returns (exit code or None when it hung, stdout, stderr, whether the n-th was
    met)."""
    met, tell = os.pipe()
    environment = {**os.environ, "FAIL_WHAT": WHAT, "FAIL_NTH": str(n), "FAIL_FD": str(tell),
                   "LD_PRELOAD": LIBRARY} if n else None
    try:
        done = subprocess.run([NETCFG, *words], capture_output=True, text=True, timeout=LIMIT,
                              env=environment, pass_fds=[tell],
                              stdin=subprocess.DEVNULL, **arguments)
        return done.returncode, done.stdout, done.stderr, bool(select.select([met], [], [], 0)[0])
    except subprocess.TimeoutExpired:
        return None, "", "", True
    finally:
        os.close(met)
        os.close(tell)


def daemon(n):
    """Starts it; stops it when it is ready. Its exit code is then 0, else as it ended by itself."""
    met, tell = os.pipe()
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    address = f"/run/notify-{n}"
    notify.bind(address)
    environment = {**os.environ, "NOTIFY_SOCKET": address, "FAIL_WHAT": WHAT, "FAIL_NTH": str(n),
                   "FAIL_FD": str(tell), "LD_PRELOAD": LIBRARY}
    process = subprocess.Popen([NETCFG], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env=environment, pass_fds=[tell])
    notify.settimeout(0.02)
    end, ready = time.monotonic() + LIMIT, False
    while not ready and process.poll() is None and time.monotonic() < end:
        try:
            ready = b"READY=1" in notify.recv(4096)
        except TimeoutError:
            # READY=1 itself may be what could not be sent: the service manager starts it anew then.
            ready = WHAT == "send" and bool(select.select([met], [], [],
                                                          0)[0]) and os.path.exists(f"{RUNTIME}/netcfg.sock")
    if ready:
        process.send_signal(signal.SIGTERM)
    try:
        out, err = process.communicate(timeout=LIMIT)
        # to end with 0 unasked is no start
        code = process.returncode if ready or process.returncode != 0 else -1000
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        code = None
    was_met = bool(select.select([met], [], [], 0)[0])
    for fd in (met, tell):
        os.close(fd)
    notify.close()
    os.unlink(address)
    return code, out, err, was_met


class Trial:
    def __init__(self):
        _, out, _, _ = command("--dry-run", "--json")
        self.wanted = {op["subject"]: op["to"] for op in json.loads(out)["plan"]
                       if op["check"] in ("sysctl", "nic.mtu")}
        self.sysctls = [name for name in self.wanted if "." in name]
        self.originals = read_state(self.sysctls)
        _, self.dry, _, _ = command("--dry-run")

    def say(self, n, text, *output):
        broken.append(n)
        print(f"{MODE} {WHAT} {n}: {text}", *[" | ".join(o.strip().splitlines()) for o in output],
              sep="\n    ")

    def expect_run(self, n, code, out, err):
        """What holds for every run, whichever mode."""
        if code is None:
            self.say(n, f"hangs for {LIMIT} s")
        elif code < 0:
            self.say(n, f"ended by signal {-code}", out, err)
        elif code != 0 and not SAYS.search(err) and "FAIL" not in out and "UNKNOWN" not in out and "WARN" not in out:
            self.say(n, f"exit code {code} without a reason", out, err)

    def run(self, n):
        """Returns whether there was an n-th at all."""
        if MODE == "--restore":
            command("--once")
        words = {"observe": "--once"}.get(MODE, MODE)
        code, out, err, met = daemon(n) if MODE == "daemon" else command(words, n=n)
        if not met:
            return False
        self.expect_run(n, code, out, err)
        state = read_state(self.sysctls)
        aim = self.originals if MODE in ("--restore", "--dry-run", "observe") else self.wanted
        if MODE == "--dry-run":
            if out != self.dry and not err and "UNKNOWN" not in out:
                self.say(n, "another answer, and no word of it", out, err)
            if os.path.exists(RUNTIME):
                self.say(n, f"{RUNTIME} was made")
        wrong = [name for name in state if state[name] != aim[name]]
        if MODE == "daemon":  # it stays, has said what it could not do, and tries again within 30 s
            wrong = [name for name in wrong
                     if not re.search(rf"{re.escape(name)}: \S.* → .*: [A-Z]|checks are not OK", err)]
        if (code == 0 or MODE in ("--dry-run", "observe")) and wrong:
            self.say(n, f"exit code {code}, but {', '.join(wrong)} not as it should be", out, err)
        if any(value not in (self.wanted[name], self.originals[name]) for name, value in state.items()):
            self.say(n, f"neither the old nor the new value: {state}", out, err)
        self.expect_recovery(n)
        return True

    def expect_recovery(self, n):
        """Whatever was left: the next run goes on from there, and every original comes back."""
        if MODE == "observe":
            return
        for mode, aim in (("--once", self.wanted), ("--restore", self.originals)):
            if MODE == "--restore" and mode == "--once":
                continue
            code, out, err, _ = command(mode)
            state = read_state(self.sysctls)
            if code != 0 or state != aim:
                self.say(n, f"then {mode}: exit code {code}, {state}", out, err)
        left = set(os.listdir(RUNTIME)) - {"lock", "restored", "netcfg.sock"}
        if left:
            self.say(n, f"left in {RUNTIME}: {sorted(left)}")
        subprocess.run(["rm", "-r", RUNTIME], check=True)


def count(trial):
    """How many there are: the first n that is not met, less one. By halving, for what one run does, the
    next does."""
    low, high = 0, N_MAX
    while high - low > 1:
        middle = (low + high) // 2
        met = trial.run(middle)
        low, high = (middle, high) if met else (low, middle)
        if not met:
            trial.expect_recovery(middle)
    return low


def main():
    trial = Trial()
    total = count(trial)
    if MOST == 0 or total <= MOST:
        numbers = list(range(1, total + 1))
    else:
        numbers = sorted({1 + i * (total - 1) // (MOST - 1) for i in range(MOST)})
    for n in numbers:
        if not trial.run(n):
            trial.expect_recovery(n)
    print(f"RAN {len(numbers)} OF {total}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
