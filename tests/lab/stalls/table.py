"""The matrix as a table, and what it comes to."""

import statistics

from causes import CAUSES

GOAL_RIGHT, GOAL_SUSPICION, GOAL_STEPS, GOAL_VERDICT = 95, 15.0, 2.5, 60.0


def seconds(value):
    return "-" if value is None else f"{value:.1f}"


def row(record):
    """(suspected after, its goal, verdict after suspicion, right) of a case; seconds, None: not at all."""
    verdict, figures, truth = record["verdict"], record["figures"], record["truth"]
    suspected = verdict["suspected"] and verdict["suspected"] - figures["struck"]
    confirmed = verdict["confirmed"] and verdict["suspected"] and verdict["confirmed"] - verdict["suspected"]
    return suspected, max(GOAL_SUSPICION,
                          GOAL_STEPS * figures["step_seconds"]), confirmed, verdict["host"] == truth["host"]


def spread(values):
    known = [v for v in values if v is not None]
    if not known:
        return "none"
    without = f", {len(values) - len(known)} without" if len(known) < len(values) else ""
    return f"median {statistics.median(known):.1f} s, worst {max(known):.1f} s{without}"


def lines(records):
    yield f"{'case':>4} {'cause':<38} {'truth':<5} {'named':<5} {'':<5} {'suspected':>9} {'verdict':>8} {'step':>5} {'load':>5}  sentence"
    for record in records:
        suspected, _, confirmed, right = row(record)
        truth, figures, verdict = record["truth"], record["figures"], record["verdict"]
        yield (f"{record['case']:>4} {CAUSES[truth['cause']].title:<38} {truth['host']:<5} "
               f"{verdict['host'] or '-':<5} "
               f"{'right' if right else 'WRONG':<5} {seconds(suspected):>9} {seconds(confirmed):>8} "
               f"{figures['step_seconds']:>5.2f} "
               f"{figures['load']:>5.1f}  {verdict['sentence']}")
    yield from totals(records)


def totals(records):
    rows = [row(r) for r in records]
    if not rows:
        yield "no case"
        return
    right = sum(r[3] for r in rows)
    stalls = [(r, record) for r,
              record in zip(rows, records) if CAUSES[record["truth"]["cause"]].wanted == "stall"]
    yield f"culprit right: {right} of {len(rows)} = {100 * right / len(rows):.0f} % (goal: at least {GOAL_RIGHT} %)"
    yield (f"suspected after the fault (stalls): {spread([r[0] for r, _ in stalls])} (goal: "
           f"{GOAL_SUSPICION:.0f} s or {GOAL_STEPS} steps, "
           "whichever is longer)")
    last = [record["verdict"]["suspected"]
            and record["verdict"]["suspected"] - record["figures"]["last_step_at"] for _, record in stalls]
    yield f"suspected after the last step (a loader ahead makes some more behind the fault): {spread(last)}"
    late = [record["case"] for r, record in stalls if r[0] is None or r[0] > r[1]]
    yield f"suspected later than that: {len(late)} of {len(stalls)}" + (
            f" (cases {', '.join(map(str, late))})" if late else "")
    yield f"verdict after the suspicion: {spread([r[2] for r, _ in stalls])} (goal: {GOAL_VERDICT:.0f} s)"


def good(records):
    """Whether enough culprits are right. Times are printed, and judged by people."""
    return sum(row(r)[3] for r in records) * 100 >= GOAL_RIGHT * len(records)
