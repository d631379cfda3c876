"""Healthy training with the pauses that training has: compiling, evaluation, checkpoints of all ranks and
of the first alone."""

import json
import time

from lab.command import sh
import live
import training_run as training
import watch

PAUSE = 50             # seconds of each pause
PAUSE_LEAST = 45       # what each must have lasted, and at least so many steps' time
PAUSE_STEPS = 5
RUN = "healthy"


def gaps(host, run, longer):
    """[(seconds, step before)] of the times without a step on that host that were longer than that."""
    out = sh("journalctl", "-q", "--no-pager", "-o", "json", "--output-fields=MESSAGE", "-D",
             host.tree / "var/log/journal",
             "-u", f"tpu-run-{run}.service", timeout=120)
    steps = []
    for line in out.splitlines():
        record = json.loads(line)
        match = isinstance(record.get("MESSAGE"), str) and watch.STEP.search(record["MESSAGE"])
        if match:
            steps.append((int(match[1]), int(record["__REALTIME_TIMESTAMP"]) / 1e6))
    return len(steps), [(b[1] - a[1], a[0]) for a, b in zip(steps, steps[1:]) if b[1] - a[1] > longer]


def run(lab, seconds, say):
    """Trains for so long, and returns (steps, pauses, events of suspicion, false alarms)."""
    name, began = f"{RUN}{int(time.time()) % 100000}", time.time()
    say(f"healthy: {name} for {seconds / 60:.0f} minutes, load {training.load():.1f} a core")
    training.start(lab, name, env={"COMPILE_SECONDS": PAUSE, "RECOMPILE_AT": 40, "EVALUATE_SECONDS": PAUSE,
                                   "EVALUATE_EVERY": 100,
                                  "CHECKPOINTS": "/srv/checkpoints", "CHECKPOINT_EVERY": 70,
                                   "CHECKPOINT_SECONDS": PAUSE,
                                  "CHECKPOINT_STYLES": "sharded,first"})
    training.warm(lab.hosts, name, 1, 300)
    while time.time() < began + seconds:
        time.sleep(5)
    steps, pauses = gaps(lab.hosts[0], name, 10)
    ordinary = watch.step_seconds(lab.hosts[0], name)
    training.end(lab, name)
    time.sleep(10)  # what was judged last is in the collector's database
    suspected = live.events(lab, name, (live.SUSPECTED,), began)
    alarms = live.events(lab, name, (live.CONFIRMED, live.SLOW), began)
    return {"steps": steps, "step_seconds": ordinary, "pauses": pauses, "suspected": suspected,
            "alarms": alarms}


def lines(told):
    long_ones = [p for p in told["pauses"] if p[0] >= max(PAUSE_LEAST, PAUSE_STEPS * told["step_seconds"])]
    yield (f"healthy run: {told['steps']} steps of {told['step_seconds']:.2f} s; {len(long_ones)} pauses of "
           f"{PAUSE_LEAST} s and more after its "
           "first step: " + ", ".join(f"{seconds:.0f} s behind step {step}" for seconds, step in long_ones))
    yield f"suspicions without confirmation: {len(told['suspected'])}"
    yield from (f"  {host}: {body['kind']}: {body['why']}" for _, _, host, body, _ in told["suspected"])
    yield f"false alarms (stall_confirmed, straggler): {len(told['alarms'])} (goal: 0)"
    yield from (f"  {name} {body}" for _, name, _, body, _ in told["alarms"])
