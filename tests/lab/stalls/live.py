"""The verdict as someone on call gets it: events in the collector, and tpuctl diagnose SLICE on one of
the hosts."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import capture_wire  # noqa: E402
import scenario
import slices
import verdict as verdicts
from trainings import PER_SLICE

SUSPECTED, CONFIRMED, SLOW, STATE = ("tpu.run.stall_suspected", "tpu.run.stall_confirmed",
                                     "tpu.run.straggler", "tpu.run.changed")
FIRST_WORD = "tpu.run.first_word"
LIMIT = 180       # seconds after the fault within which there must be a verdict
KEPT = "/var/lib/tpu-hostd/captures"
# the same where the run goes on, slower: four windows of half a minute, and who was slow before
SLOW_LIMIT = 300


def events(lab, run, names, since):
    """[(real time, name, host, body, attributes)] of a run, oldest first, out of the collector's
    database."""
    marks = ",".join("?" * len(names))
    rows = scenario.query(lab, "SELECT events.time, events.name, hosts.name, events.body, events.attributes "
                               "FROM events "
                               f"JOIN hosts ON hosts.id = events.host WHERE events.name IN ({marks}) AND "
                               f"events.time >= ? ORDER BY events.time",
                          *names, int(since * 1e6))
    found = []
    for at, name, host, body, attributes in rows:
        body, attributes = json.loads(body), json.loads(attributes or "{}")
        if run in (attributes.get("run"), body.get("run") if isinstance(body, dict) else None):
            found.append((at / 1e6, name, host, body, attributes))
    return found


def episode_of(lab, slice_name):
    """The collector's last episode of a slice; {} while there is none."""
    script = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())"
    done = lab.collector.run(["python3", "-c", script,
                              f"http://127.0.0.1:9471/api/v1/slices/{slice_name}/diagnosis"])
    return json.loads(done.out) if done.code == 0 else {}


def asked(lab, slice_name):
    """tpuctl diagnose SLICE on the first host that gets an answer: one that is cut off gets none."""
    for host in lab.hosts:
        done = host.run(["tpuctl", "diagnose", slice_name, "--from", "collector", "--json"], timeout=60)
        try:
            return json.loads(done.out)
        except ValueError:
            continue
    return {"outcome": "no answer", "summary": (done.err or done.out).strip(), "suspects": []}


def diagnosis(lab, run):
    """What tpuctl diagnose says of the run's slices: of the first slice where a host is named, else of
    the last."""
    told = {"outcome": "none", "summary": "no stacks of the run were asked for", "suspects": []}
    for name in sorted({f"s{slices.slice_of(h, PER_SLICE)[0]}" for h in lab.hosts}):
        if episode_of(lab, name).get("run") != run:
            continue
        told = asked(lab, name)
        if told["outcome"] == "named":
            break
    return told


def silent(host):
    number, worker = slices.slice_of(host, PER_SLICE)
    return capture_wire.packed({"processes": [], "slice": f"s{number}", "worker": worker, "host": host.name,
                                "address": host.address("eth0"), "silent": True})


class Live:
    def __init__(self, lab):
        self.lab, self.since = lab, 0

    @property
    def captures(self):
        """What the hosts have kept of the last case; of a host that was not reached, that it is silent, as
        its collector knows."""
        kept = {host: sorted((p for p in host.path(KEPT).glob("*")
                              if p.is_file() and p.stat().st_mtime >= self.since),
                             key=lambda p: p.stat().st_mtime) for host in self.lab.hosts}
        if not any(kept.values()):
            return b""
        return b"".join(b"".join(p.read_bytes() for p in paths) or silent(host)
                        for host, paths in kept.items())

    def first(self, run, names, since, condition=lambda event: True):
        return next((e for e in events(self.lab, run, names, since) if condition(e)), None)

    def judge(self, run, since, _name, wanted):
        """Waits for what the collector concludes: a stall, a slow host, or the end of the run."""
        self.since = since
        limit, told = SLOW_LIMIT if wanted == "slow" else LIMIT, None

        def concludes(event):
            return event[1] != STATE or event[4].get("state") == "ended"
        while told is None and time.time() - since < limit:
            time.sleep(0.5)
            told = self.first(run, (CONFIRMED, SLOW, STATE), since, concludes)
        suspected = self.first(run, (SUSPECTED,), since)
        word = self.first(run, (FIRST_WORD,), since)
        verdict = {"suspected": suspected and suspected[0], "suspicion": suspected and suspected[3],
                   "confirmed": told and told[0],
                   "first_word": word and {"at": word[0], "host": word[2], "sentence": word[3]}}
        if told and told[1] == SLOW:
            return verdict | {"outcome": "slow", "kind": "slow", "host": told[2], "sentence": told[3]}
        said = diagnosis(self.lab, run)
        if told and told[1] == STATE:
            verdict["event"] = told[3]
            for _ in range(20):  # the run has ended; who left it first is asked of its hosts then
                if said["outcome"] == "named" and said["suspects"][0]["kind"] == "ended":
                    break
                time.sleep(1)
                said = diagnosis(self.lab, run)
            else:
                return verdict | {"outcome": "ended", "kind": "ended", "host": told[4].get("blame") or None,
                                  "sentence": told[3]}
        return verdict | verdicts.first(said) | {"event": told and told[3]}
