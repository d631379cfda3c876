"""Who is struck, by what and when: chosen by a seed, done, and not told until the verdict is stored.

The seal of a case is printed before it begins: a hash of the choice, which anybody can check once it is
told.
"""

import hashlib
import json
import random
import time

from causes import CAUSES, ROUND, Victim
from trainings import TRAININGS

WARM_UP = 12       # steps before anything happens
INSTANT = (0, 12)  # seconds after them; within a step as well as between two
SLOW_FACTOR = 2


class NotYet(Exception):
    """Somebody wants to know before the verdict is stored."""


def plan(seed, times, names=None):
    """The names of the causes in the order of cases: each `times` times, shuffled anew each time."""
    names, order = list(names or ROUND), []
    for n in range(times):
        some = list(names)
        random.Random(f"{seed}/{n}").shuffle(some)
        order += some
    return order


class Chaos:
    """One case. number: of the case; attempt: counts anew when steps did not stop. training: of
    trainings.py."""

    def __init__(self, seed, number, attempt, cause, ranks, training=TRAININGS["ddp"]):
        dice = random.Random(f"{training.name}/{seed}/{number}/{attempt}")
        self._cause, self._rank, self._delay = CAUSES[cause], dice.randrange(ranks), dice.uniform(*INSTANT)
        self.loader_ahead = dice.choice((0, 2))  # of the training itself: no secret
        self._training = training
        self._salt, self._undo, self._stored = dice.getrandbits(64), None, False
        text = f"{self._salt:x} {self._cause.name} {self._rank} {self._delay:.3f}"
        self.seal = hashlib.sha256(text.encode()).hexdigest()[:16]

    def strike(self, lab, pids, step_seconds, last_step, outside=None):
        """Waits for the instant and does it; returns when it was done (real time), and no more. The
        functions are asked for the host: pids for {"rank", "worker"}."""
        time.sleep(self._delay)
        host, found = lab.hosts[self._rank], pids(lab.hosts[self._rank])
        victim = Victim(host, found["rank"], found["worker"], last_step(host), step_seconds, lab,
                        lab.hosts[self._training.partner(self._rank)], outside)
        self._undo = self._cause.inject(victim)
        return time.time()

    def undo(self):
        undo, self._undo = self._undo, None
        if undo:
            undo()

    @property
    def wanted(self):
        """What kind of verdict is waited for, and how long: which of the causes of that kind it is stays
        hidden."""
        return self._training.wanted.get(self._cause.name, (self._cause.wanted,))[0]

    def stored(self, verdict):
        """The verdict is on disk."""
        json.dumps(verdict)
        self._stored = True

    def reveal(self):
        if not self._stored:
            raise NotYet("the verdict is not stored yet")
        ends = [self._rank] + [self._training.partner(self._rank)] * self._cause.either
        kinds = self._training.wanted.get(self._cause.name, (None, self._cause.kinds))[1]
        return {"cause": self._cause.name, "rank": self._rank, "ranks": ends, "kinds": list(kinds),
                "delay": round(self._delay, 3), "salt": f"{self._salt:x}"}
