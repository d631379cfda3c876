"""A host's agent with the feed, a collector and a generator beside them, each a process that may be
killed at any moment."""

import ctypes
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hostd")]
from around import TOP, Hostd, wait_until  # noqa: E402
from ledger import Fed, Stored, compare, figures  # noqa: E402

BUILD = Path(os.environ.get("BUILD_DIR", TOP / "build/dev"))
FED, COLLECTORD, KILL_AT = (BUILD / p for p in ("tests/fault/tpu-hostd-fed", "collector/tpu-collectord",
                                                "tests/fault/libkill_at.so"))
LIVES = (0.3, 0.3, 0.3, 1.2)  # seconds that a process is left to live, at most
# KILL_HOW of kill_at.c
AT_CALLS = {"before a call": "before", "half a write": "half", "behind a call": "after"}
FIRST_CALLS = 60  # of those that change the disk: at one of them it may die
STANDSTILL = 60  # seconds without any delivery; a failing exchange is tried again within 30
AT_A_CALL_WITHIN = 0.7  # seconds; else it is killed from outside


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ending_with_us():
    """A child's: gone when this test is, whatever ends it (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Collector:
    """One tpu-collectord on ports that stay, as its address in the agents' configuration does."""

    def __init__(self, folder):
        self.database, self.output = folder / "collector.db", folder / "collector-output"
        self.port, self.api_port, self.process, self.environment = free_port(), free_port(), None, {}
        self.repeats = 0  # pushes that it knew already, as far as it was asked before it died

    def spawn(self):
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen([COLLECTORD, "--config", "/dev/null", "--database",
                                             self.database,
                                             "--listen-otlp", f"127.0.0.1:{self.port}", "--listen-api",
                                             f"127.0.0.1:{self.api_port}"],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env={**os.environ, **self.environment})

    def get(self, path):
        """None: it is not up."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.api_port}{path}", timeout=1) as r:
                return r.read().decode()
        except OSError:
            return None

    def answers(self):
        return self.get("/healthz") is not None

    def count_repeats(self):
        text = self.get("/metrics")
        if text:
            self.repeats += int(float(re.search(r"^\S*duplicates\S* (\S+)$", text, re.MULTILINE)[1]))


class Killer(threading.Thread):
    """Starts one process again and again, and lets it die each time: at any moment, at its start, at or
    within a call that writes."""

    def __init__(self, process, count, seed, starts_within, before_kill=lambda: None):
        super().__init__(daemon=True)
        self.process, self.count, self.random, self.starts_within = (process, count, random.Random(seed),
                                                                     starts_within)
        self.before_kill, self.kills, self.error = before_kill, Counter(), None

    def plan(self):
        """How the next life ends: (its name, environment, seconds after which it is killed from outside)."""
        slow = {"SLOW_USEC": str(self.random.choice((0, 0, 2000, 20000)))}
        kind = self.random.choice(("any moment", "any moment", "starting", *AT_CALLS))
        if kind in AT_CALLS:
            at = int(self.random.uniform(1, FIRST_CALLS ** 0.5) ** 2)
            return kind, {**slow, "KILL_AT": str(at), "KILL_HOW": AT_CALLS[kind]}, AT_A_CALL_WITHIN
        most = self.starts_within if kind == "starting" else self.random.choice(LIVES)
        return kind, slow, self.random.uniform(0, most)

    def one(self):
        kind, environment, seconds = self.plan()
        self.process.environment = {"LD_PRELOAD": str(KILL_AT), **environment}
        self.process.spawn()
        p = self.process.process
        try:
            p.wait(seconds)
        except subprocess.TimeoutExpired:
            kind = kind if kind == "starting" else "any moment"
            self.before_kill()
            p.kill()
        if p.wait() != -signal.SIGKILL:
            raise AssertionError(f"{p.args[0]} ended by itself: {p.returncode}")
        self.kills[kind] += 1
        time.sleep(self.random.choice((0, 0, 0.02, 0.1)))

    def run(self):
        try:
            for _ in range(self.count):
                self.one()
        except BaseException as e:
            self.error = e


class Site:
    """Use it in a with statement: ends all its processes, and removes its folder unless something was
    wrong."""

    def __init__(self, seed, through=None, **hostd):
        self.random = random.Random(seed)
        self.hostd = Hostd(**{"MetricsInterval": "1s", **hostd})
        self.hostd.binary = FED
        self.hostd.owners.server.handle_error = lambda *a: None  # a caller that was killed
        self.folder = self.hostd.folder
        self.socket, self.log = self.folder / "feed.sock", self.folder / "fed.log"
        # nobody would read what it says there
        self.always = {"TPU_HOSTD_TEST_FEED": str(self.socket), "NOTIFY_SOCKET": ""}
        self.collector = Collector(self.folder)
        port = through(self.collector.port) if through else self.collector.port
        self.hostd.config.write_text(self.hostd.config.read_text().replace("Endpoint=\n",
                                                                           f"Endpoint=http://127.0.0.1:{port}\n"))
        self.generator, self.kills = None, {"agent": Counter(), "collector": Counter()}
        spawn = self.hostd.spawn
        self.hostd.spawn = lambda *a: (self.hostd.environment.update(self.always), spawn(*a))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for p in (self.generator, self.collector.process):
            if p and p.poll() is None:
                p.kill()
                p.wait()
        if kind:
            kept = Path(f"{self.folder}-failed")
            shutil.copytree(self.folder, kept, ignore=shutil.ignore_patterns("root", "*.sock", "notify"))
            print(f"\nkept: {kept}", file=sys.stderr)
        self.hostd.close(failed=bool(kind))

    def feed(self, *options):
        self.generator = subprocess.Popen([sys.executable, "-B", HERE / "generator.py", self.socket,
                                           self.log, "--seed",
                                           str(self.random.randrange(1 << 30)), *map(str, options)],
                                          preexec_fn=ending_with_us)

    def feed_no_more(self):
        self.generator.terminate()
        if self.generator.wait(150) != 0:
            raise AssertionError("the generator ended with an error")

    @staticmethod
    def _start(process):
        if not process.process or process.process.poll() is not None:
            process.environment = {}
            process.spawn()

    def start_agent(self):
        self._start(self.hostd)
        wait_until(lambda: self.classes() is not None, 20, "the agent's answer")

    def start(self):
        """Both, to stay."""
        self._start(self.collector)
        wait_until(self.collector.answers, 20, "the collector's answer")
        self.start_agent()

    def kill(self, agent, collector):
        """So many times each, at the same time; the one that is not killed lives."""
        self.start()
        self._kill(("agent", agent), ("collector", collector))

    def kill_agent_alone(self, n):
        """The collector stays as it is."""
        self._kill(("agent", n))

    def _kill(self, *counts):
        what = {"agent": (self.hostd, 0.08, lambda: None),
                "collector": (self.collector, 0.012, self.collector.count_repeats)}
        killers = []
        for name, n in counts:
            process, within, before = what[name]
            if n:
                process.process.kill()
                process.process.wait()
                killers.append((name, Killer(process, n, self.random.randrange(1 << 30), within, before)))
        for _, k in killers:
            k.start()
        for name, k in killers:
            k.join()
            if k.error:
                raise k.error
            self.kills[name] += k.kills
        if self.generator.poll() is not None:
            raise AssertionError("the generator has ended")

    def answered(self):
        """(events, frames of points) so far."""
        fed = Fed(self.log) if self.log.exists() else None
        return (len(fed.answered.keys() & fed.events.keys()),
                len(fed.answered.keys() & fed.points.keys())) if fed else (0, 0)

    def classes(self):
        try:
            return self.hostd.get("/v1/status")["uplink"]["classes"]
        except OSError:
            return None

    def drain(self):
        """Everything that is in the spool by now is in the collector; how long that takes is the
        machine's to say, while it goes on."""
        self.start()
        goal = {name: c["next_seq"] for name, c in self.classes().items()}
        before = None
        while True:
            classes = wait_until(self.classes, 20, "the agent's answer")
            if all(c["first_seq"] >= goal[name] for name, c in classes.items()):
                return
            now = {name: (c["first_seq"], c["sent"]) for name, c in classes.items()}
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() > since + STANDSTILL:
                raise AssertionError(f"nothing was delivered for {STANDSTILL} s: {classes}")
            time.sleep(0.05)

    def stop(self):
        """Both, in order; what was stored lies still then."""
        if self.hostd.stop() != 0:
            raise AssertionError("the agent ended with an error")
        self.collector.count_repeats()
        self.collector.process.terminate()
        if self.collector.process.wait(60) != 0:
            raise AssertionError("the collector ended with an error")

    def compare(self, **rule):
        """What is wrong, and the line of figures."""
        fed, stored = Fed(self.log), Stored(self.collector.database)
        return compare(fed, stored,
                       **rule), f"{figures(fed, stored)}; pushes known already: at least {self.collector.repeats}"
