"""Tries cases one after the other on booted hosts, types the remedies that are printed, and says what came
of it. Between two cases h0 is as it was, by a boot if need be."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
import slices  # noqa: E402
from lab import LabError  # noqa: E402

SUDO = "#!/bin/sh\n[ \"$1\" != -n ] || shift\nexec \"$@\"\n"  # the lab's hosts have none; we are root
TYPED = re.compile(r"^(sudo |tpuctl |tpu-|systemctl |ip |journalctl |nft |printf |echo )")
RIGHT = ("named, mended", "named, mend is elsewhere", "repaired", "calm", "said")


class Outcome:
    def __init__(self, case, verdict, named_by="", seconds=0.0, remedy="", words=""):
        self.case, self.verdict, self.named_by = case, verdict, named_by
        self.seconds, self.remedy, self.words = seconds, remedy, words

    @property
    def right(self):
        return self.verdict in RIGHT

    def record(self):
        return {"case": self.case.name, "verdict": self.verdict, "right": self.right, "by": self.named_by,
                "seconds": round(self.seconds, 2), "remedy": self.remedy, "words": self.words}


class Bench:
    """A slice of two hosts with a registry; what is wrong with h0 before any case is no finding."""

    def __init__(self, lab):
        self.lab, self.h0, self.h1 = lab, lab.hosts[0], lab.hosts[1]
        slices.prepare(lab)
        for h in lab.hosts:
            h.write("/usr/local/bin/sudo", SUDO, 0o755)
        self.machine_id = self.h0.read("/etc/machine-id")
        self.settle()
        self.usual = self.keys(path=True)

    def become(self, machine_id):
        """h0 is another machine from its next boot on; its place is given up, or the old one has it."""
        self.h0.write("/etc/machine-id", machine_id)
        self.h0.kill()
        self.h0.boot()
        self.h1.run(["tpuctl", "fleet", "release", "--yes", "s0", "0", "another machine comes"], timeout=60)

    def settle(self):
        """Waits until nothing has changed for three seconds."""
        last, since, end = None, time.monotonic(), time.monotonic() + 60
        while time.monotonic() < end:
            now = self.keys(path=True)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() > since + 3:
                return
            time.sleep(0.3)

    def ask(self, path=False):
        """What is not OK, each as its object: what a check finds now, with path that of the paths, and what
        the agent holds against the host."""
        found = []
        status = self.h0.run(["tpuctl", "status", "--json"], timeout=30)
        if status.code in (0, 1, 2, 3) and status.out.startswith("{"):
            found += json.loads(status.out)["reasons"]
        for words in (["check"], ["check", "path"]) if path else (["check"],):
            done = self.h0.run(["tpuctl", *words, "--json"], timeout=30)
            try:
                report = json.loads(done.out)
            except ValueError:
                found.append({"check": " ".join(words), "subject": "", "verdict": "FAIL",
                              "reason": (done.err or done.out).strip(), "remedy": ""})
                continue
            found += [c for c in report["checks"] if c["verdict"] != "OK"]
        return found

    @staticmethod
    def key(f):
        return f["check"], f.get("subject") or "", f["verdict"]

    def keys(self, path=False):
        return {self.key(f) for f in self.ask(path)}

    def news(self, path):
        return [f for f in self.ask(path) if self.key(f) not in self.usual]

    def do(self, what, host=None):
        if callable(what):
            return what(self)
        return (host or self.h0).sh(what, timeout=200)

    def nft(self, text, host=None):
        """Rules in a host's own network, by this machine's nft, which wants a line's end before a brace."""
        subprocess.run(["nsenter", f"--net=/proc/{(host or self.h0).leader}/ns/net", "nft", "-f", "-"],
                       input=text.replace(" }", "\n}"), text=True, check=True, capture_output=True)

    def milliseconds(self, *words):
        """How long a command of tpuctl takes on h0: the median of five."""
        script = (f"for i in 1 2 3 4 5; do a=$(date +%s%N); tpuctl {' '.join(words)} > /run/out; "
                  "b=$(date +%s%N); echo $(( (b - a) / 1000000 )); done")
        return sorted(map(int, self.h0.sh(script, timeout=120).split()))[2]

    # -- one case -----------------------------------------------------------------------------------------

    def attempt(self, case):
        try:
            before = self.do(case.probe) if case.probe else None
            self.do(case.do)
        except (LabError, OSError, ValueError, subprocess.SubprocessError) as e:
            return Outcome(case, "NO CASE", words=str(e)[-300:])
        try:
            kinds = {"named": self.named, "repaired": self.repaired, "calm": self.calm,
                     "refused": self.refused, "said": self.said}
            return kinds[case.kind](case, before)
        except LabError as e:
            return Outcome(case, "HUNG", words=str(e)[-300:])

    def repaired(self, case, before):
        began = time.monotonic()
        while time.monotonic() < began + case.within:
            if self.do(case.probe) == before:
                return Outcome(case, "repaired", seconds=time.monotonic() - began)
            time.sleep(0.1)
        return Outcome(case, "NOT REPAIRED", seconds=case.within, words=self.do(case.probe)[:300])

    def calm(self, case, _):
        made = self.do(case.probe) if case.probe else None
        time.sleep(6)
        news = self.news(case.path)
        if news:
            return Outcome(case, "FALSE ALARM", news[0]["check"], 6, news[0].get("remedy") or "",
                           line(news[0]))
        if case.probe and self.do(case.probe) != made:
            return Outcome(case, "CHANGED WITHOUT A WORD", seconds=6, words=self.do(case.probe)[:300])
        return Outcome(case, "calm", seconds=6)

    def said(self, case, _):
        began = time.monotonic()
        while time.monotonic() < began + case.within:
            report = json.loads(self.h0.run(["tpuctl", "check", "--json"], timeout=30).out)
            for f in report["checks"]:
                if re.search(case.words, line(f), re.I):
                    return Outcome(case, "said", f["check"], time.monotonic() - began, "", line(f))
            time.sleep(0.3)
        return Outcome(case, "FALSE OK", seconds=case.within)

    def refused(self, case, _):
        """A trial run, as a person types it; the remedy is the other host's."""
        began = time.monotonic()
        done = self.h0.run(["tpuctl", "run", "--name", "trial", "--user", slices.USER, "--slices", "1",
                            "--wait", "8s", "--", "/usr/bin/true"], timeout=120)
        told = " ".join((done.out + done.err).split())
        seconds = time.monotonic() - began
        if done.code == 0 or not re.search(case.words, told, re.I):
            return Outcome(case, "FALSE OK" if done.code == 0 else "OTHER WORDS", "tpuctl run", seconds,
                           words=told[-300:])
        return Outcome(case, "named, mend is elsewhere" if "sudo " in told else "NO REMEDY", "tpuctl run",
                       seconds, words=told[-300:])

    def named(self, case, _):
        began, found, news = time.monotonic(), None, []
        while not found and time.monotonic() < began + case.within:
            news = self.news(case.path) or news
            found = next((f for f in news if re.search(case.words, line(f), re.I)), None)
            time.sleep(0.2)
        seconds = time.monotonic() - began
        if not found:
            return Outcome(case, "OTHER WORDS" if news else "FALSE OK", seconds=seconds,
                           words=line(news[0]) if news else "")
        out = Outcome(case, "", found["check"], seconds, found.get("remedy") or "", line(found))
        if case.elsewhere:
            out.verdict = "named, mend is elsewhere" if out.remedy else "NO REMEDY"
        else:
            left = self.mend(case, found)
            out.verdict = "NOT MENDED" if left else "named, mended"
            out.words += f" | left: {line(left[0])}" if left else ""
        return out

    def mend(self, case, found):
        """Types what is printed: first the remedy that was looked for, then those of what is left. Returns
        what stays."""
        for _ in range(4):
            remedy = found.get("remedy") or ""
            if TYPED.match(remedy):
                self.h0.run(["/bin/sh", "-c", remedy], timeout=90)
            began = time.monotonic()
            while time.monotonic() < began + 90:  # what the agent holds follows at the probe's next times
                left = self.news(case.path)
                if not left:
                    return []
                if time.monotonic() > began + 20 and any("found" in f for f in left):
                    break
                time.sleep(0.3)
            typed = [f for f in left if TYPED.match(f.get("remedy") or "") and f["remedy"] != remedy]
            if not typed:
                return left
            found = typed[0]
        return left

    def clean(self, case):
        """h0 as before; True: it took a boot."""
        for h in (self.h0, self.h1):
            self.nft("flush ruleset", h)
        if callable(case.undo):
            case.undo(self)
        elif case.undo:
            self.h0.run(["/bin/sh", "-c", case.undo], timeout=90)
        end = time.monotonic() + 8
        while time.monotonic() < end:
            if not self.news(path=True):
                return False
            time.sleep(0.3)
        for f in self.news(path=True)[:1]:
            print(f"  {case.name}: both hosts boot, for {line(f)[:200]}", file=sys.stderr, flush=True)
        for h in (self.h0, self.h1):
            h.kill()
            h.boot()
        end = time.monotonic() + 60
        while self.news(path=True) and time.monotonic() < end:
            time.sleep(0.5)
        return True


def line(f):
    """A finding as a person reads it."""
    parts = [f["verdict"], f["check"], f.get("subject") or "", f.get("found") or "", f.get("reason") or "",
             f"→ {f['remedy']}" if f.get("remedy") else ""]
    return " ".join(p for p in parts if p)


def table(outcomes):
    """The lines of the table and its sum."""
    rows = [f"{'case':34} {'verdict':24} {'by':22} {'after':>7}  words"]
    rows += [f"{o.case.name:34} {o.verdict:24} {o.named_by:22} {o.seconds:6.1f}s  {o.words}"
             for o in outcomes]
    wrong = [o for o in outcomes if not o.right]
    rows.append(f"{len(outcomes)} cases: {len(outcomes) - len(wrong)} right, "
                f"{sum(o.verdict == 'FALSE OK' for o in wrong)} FALSE OK, "
                f"{sum(o.verdict == 'NO CASE' for o in wrong)} could not be made")
    return rows
