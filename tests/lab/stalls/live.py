"""The verdict as someone on call gets it: events in the collector, and tpuctl diagnose SLICE on one of the hosts."""

import json
import time

import scenario
import slices

SUSPECTED, CONFIRMED, SLOW = "tpu.run.stall_suspected", "tpu.run.stall_confirmed", "tpu.run.straggler"
LIMIT = 180       # seconds after the fault within which there must be a verdict
SLOW_LIMIT = 300  # the same where the run goes on, slower: four windows of half a minute, and who was slow before


def events(lab, job, names, since):
    """[(real time, name, host, body)] of a run, oldest first, out of the collector's database."""
    marks = ",".join("?" * len(names))
    rows = scenario.query(lab, "SELECT events.time, events.name, hosts.name, events.body, events.attributes FROM events "
                               f"JOIN hosts ON hosts.id = events.host WHERE events.name IN ({marks}) AND events.time >= ? ORDER BY events.time",
                          *names, int(since * 1e6))
    found = []
    for at, name, host, body, attributes in rows:
        if f'"{job}"' in body or f'"{job}"' in attributes or job in body.split():
            found.append((at / 1e6, name, host, body))
    return found


def diagnosis(lab, job):
    """(what tpuctl diagnose says of the run's slices, its exit code): of the first slice where a host is named, else of the last."""
    told = {}
    for name in sorted({f"s{slices.slice_of(h, 2)[0]}" for h in lab.hosts}):
        done = lab.hosts[0].run(["tpuctl", "diagnose", name, "--from", "collector", "--json"], timeout=60)
        try:
            told = json.loads(done.out)
        except ValueError:
            told = {"outcome": "no answer", "summary": (done.err or done.out).strip(), "suspects": []}
        if told["outcome"] == "named":
            break
    return told


class Live:
    def __init__(self, lab):
        self.lab = lab

    def judge(self, job, since, _name, wanted):
        limit, confirmed = SLOW_LIMIT if wanted == "slow" else LIMIT, None
        while confirmed is None and time.time() - since < limit:
            time.sleep(0.5)
            confirmed = next(iter(events(self.lab, job, (CONFIRMED, SLOW), since)), None)
        if confirmed and confirmed[1] == SLOW:
            return {"outcome": "slow", "host": confirmed[2], "sentence": json.loads(confirmed[3]), "suspected": None, "confirmed": confirmed[0]}
        suspected = next(iter(events(self.lab, job, (SUSPECTED,), since)), None)
        told = diagnosis(self.lab, job)
        first = told["suspects"][0] if told["outcome"] == "named" else None
        return {"outcome": told["outcome"], "host": first and first["host"], "sentence": told["summary"],
                "details": first and first["details"], "suspected": suspected and suspected[0],
                "suspicion": suspected and suspected[3], "confirmed": confirmed and confirmed[0],
                "event": confirmed and [confirmed[1], confirmed[3]]}
