"""The matrix: case by case, a new run each, one rank struck, and the verdict compared with the truth once
it is stored."""

import statistics
import time

from lab import LabError
import recording
import slices
import training_run as training
import verdict as verdicts
import watch
from chaos import SLOW_FACTOR, WARM_UP, Chaos, plan
from trainings import TRAININGS

QUIET_STEPS, QUIET_SECONDS = 6, 8  # no step for so many steps' time, and at least so long: they have stopped
# seconds within which a fault must stop the steps (the loader's queue runs dry first)
STOP_LIMIT = 60
ATTEMPTS = 3


class Matrix:
    """judge: by_hand.ByHand or live.Live. outside: outside.Servers. say: takes a line. record: a folder for
    recordings, or None."""

    def __init__(self, lab, judge, outside, state, wish, say=print, record=None):
        self.lab, self.judge, self.state, self.wish, self.say = lab, judge, state, wish, say
        self.outside, self.record = outside, record
        self.training = TRAININGS[wish["training"]]
        self.speakers = self.training.speakers(lab.hosts)
        self.serial = int(time.time()) % 100000  # names of runs are never used twice

    def run(self, until=None):
        """until: real time after which no further case begins."""
        order = plan(self.wish["seed"], self.wish["times"], self.wish["causes"])
        for case, cause in enumerate(order):
            if self.state.done(case):
                continue
            if until and time.time() > until:
                self.say("no time is left for the other cases: the same command goes on with them")
                return
            self.case(case, cause)

    def case(self, case, cause):
        for attempt in range(ATTEMPTS):
            chaos = Chaos(self.wish["seed"], case, attempt, cause, len(self.lab.hosts),
                          self.training)
            self.serial += 1
            name = f"case{case}n{self.serial}"
            self.say(f"case {case}: {self.training.name} {name}, loader "
                     f"{'ahead' if chaos.loader_ahead else 'inline'}, seal "
                     f"{chaos.seal}, "
                     f"load {training.load():.1f} a core")
            try:
                if self.attempt(case, chaos, name):
                    return
            finally:
                chaos.undo()
                training.end(self.lab, name)
                for host in self.lab.hosts:
                    training.reset(host)
            self.say(f"case {case}: does not count: steps did not stop")

    def attempt(self, case, chaos, run):
        training.start(self.lab, run, chaos.loader_ahead, training=self.training)
        training.warm(self.speakers, run, WARM_UP)
        before = statistics.median(watch.step_seconds(h, run) for h in self.speakers)
        struck = chaos.strike(self.lab, training.pids, before,
                              lambda h: watch.last_step(h if h in self.speakers else self.speakers[0], run),
                              self.outside)
        figures = {"run": run, "step_seconds": round(before, 3), "load": round(training.load(), 2),
                   "struck": struck}
        if not self.has_effect(chaos, run, before, struck, figures):
            return False
        verdict = self.judge.judge(run, struck, f"case{case}", chaos.wanted)
        self.state.store_verdict(case, verdict)
        chaos.stored(verdict)
        truth = chaos.reveal()
        truth["hosts"] = [self.lab.hosts[r].name for r in truth.pop("ranks")]
        truth["training"] = self.training.name
        captures = self.record and self.judge.captures  # a slow host is found without any
        if captures:
            size = recording.write(self.record, truth, captures)
            self.say(f"case {case}: recorded, {size} bytes")
        self.state.store_truth(case, truth, figures)
        self.tell(case, truth, verdict)
        return True

    def has_effect(self, chaos, run, before, struck, figures):
        """By the training's own log: steps have stopped, or become slow."""
        if chaos.wanted == "slow":
            now = watch.slowed(self.speakers[0], run, struck, before, 0.75 * SLOW_FACTOR)
            figures["slow_seconds"] = now
            return now is not None
        quiet = max(QUIET_SECONDS, QUIET_STEPS * before)
        last = watch.stopped(self.speakers, run, struck, quiet, STOP_LIMIT)
        figures["last_step_at"] = last
        return last is not None

    def tell(self, case, truth, verdict):
        word = verdict.get("first_word")
        if word:
            after = word["at"] - (verdict["suspected"] or word["at"])
            self.say(f"case {case}: first word {after:.1f} s after the suspicion: {word['host'] or 'nobody'}: "
                     f"{word['sentence']}")
        self.say(f"case {case}: {verdicts.word(truth, verdict)}: {truth['cause']} on "
                 f"{'/'.join(truth['hosts'])}; said {verdict.get('kind')}: {verdict['sentence']}")


def boot(lab):
    """Users, folders and membership of a lab that is up."""
    slices.prepare(lab)
    for host in lab.hosts:
        host.sh(f"chown -R {slices.USER} /srv/data {training.FOLDER}")
    try:
        training.members(lab)
    except LabError as error:
        raise LabError(f"{error}; is the collector's package of the same tree?") from None
