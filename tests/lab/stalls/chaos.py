"""Who is struck, by what and when: chosen by a seed, done, and not told until the verdict is stored.

The seal of a case is printed before it begins: a hash of the choice, which anybody can check once it is
told.
"""

import hashlib
import json
import random
import time

from causes import CAUSES, Victim

WARM_UP = 12       # steps before anything happens
INSTANT = (0, 12)  # seconds after them; within a step as well as between two
SLOW_FACTOR = 2


class NotYet(Exception):
    """Somebody wants to know before the verdict is stored."""


def plan(seed, times, names=None):
    """The names of the causes in the order of cases: each `times` times, shuffled anew each time."""
    names, order = list(names or CAUSES), []
    for n in range(times):
        some = list(names)
        random.Random(f"{seed}/{n}").shuffle(some)
        order += some
    return order


class Chaos:
    """One case. number: of the case; attempt: counts anew when steps did not stop."""

    def __init__(self, seed, number, attempt, cause, ranks):
        dice = random.Random(f"{seed}/{number}/{attempt}")
        self._cause, self._rank, self._delay = CAUSES[cause], dice.randrange(ranks), dice.uniform(*INSTANT)
        self.loader_ahead = dice.choice((0, 2))  # of the training itself: no secret
        self._salt, self._undo, self._stored = dice.getrandbits(64), None, False
        text = f"{self._salt:x} {self._cause.name} {self._rank} {self._delay:.3f}"
        self.seal = hashlib.sha256(text.encode()).hexdigest()[:16]

    def strike(self, hosts, main_pid, step_seconds, last_step):
        """Waits for the instant and does it; returns when it was done (real time), and no more. The
        functions are asked for the host."""
        time.sleep(self._delay)
        host = hosts[self._rank]
        victim = Victim(host, main_pid(host), last_step(host), step_seconds)
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
        return self._cause.wanted

    def stored(self, verdict):
        """The verdict is on disk."""
        json.dumps(verdict)
        self._stored = True

    def reveal(self):
        if not self._stored:
            raise NotYet("the verdict is not stored yet")
        return {"cause": self._cause.name, "rank": self._rank, "delay": round(self._delay, 3),
                "salt": f"{self._salt:x}"}
