"""The matrix as a table, and what it comes to."""

import statistics

from causes import CAUSES
from verdict import kind_right, word

GOAL_CULPRIT, GOAL_KIND, GOAL_SUSPICION, GOAL_STEPS, GOAL_VERDICT = 98, 95, 10.0, 2.5, 30.0
ORDER = ("wrong", "nobody", "right")


def seconds(value):
    return "-" if value is None else f"{value:.1f}"


def row(record):
    """(suspected after, its goal, verdict after suspicion, right) of a case; seconds, None: not at all."""
    verdict, figures, truth = record["verdict"], record["figures"], record["truth"]
    suspected = verdict["suspected"] and verdict["suspected"] - figures["struck"]
    confirmed = verdict["confirmed"] and verdict["suspected"] and verdict["confirmed"] - verdict["suspected"]
    return suspected, max(GOAL_SUSPICION,
                          GOAL_STEPS * figures["step_seconds"]), confirmed, word(truth, verdict) == "right"


def spread(values):
    known = [v for v in values if v is not None]
    if not known:
        return "none"
    without = f", {len(values) - len(known)} without" if len(known) < len(values) else ""
    return f"median {statistics.median(known):.1f} s, worst {max(known):.1f} s{without}"


def lines(records):
    """The wrong ones first."""
    yield (f"{'training':<8} {'case':>4} {'cause':<40} {'truth':<5} {'named':<5} {'':<6} {'kind':<14} "
           f"{'suspected':>9} {'verdict':>8} {'step':>5} {'load':>5}  sentence")
    for record in sorted(records, key=lambda r: ORDER.index(word(r["truth"], r["verdict"]))):
        suspected, _, confirmed, _ = row(record)
        truth, figures, verdict = record["truth"], record["figures"], record["verdict"]
        kind = "right" if kind_right(truth, verdict) else f"not {verdict.get('kind') or 'told'}"
        yield (f"{truth['training']:<8} {record['case']:>4} {CAUSES[truth['cause']].title:<40} "
               f"{'/'.join(truth['hosts']):<5} {verdict['host'] or '-':<5} "
               f"{word(truth, verdict):<6} {kind:<14} {seconds(suspected):>9} {seconds(confirmed):>8} "
               f"{figures['step_seconds']:>5.2f} {figures['load']:>5.1f}  {verdict['sentence']}")
    yield from totals(records)


def share(part, whole):
    return f"{part} of {whole} = {100 * part / whole:.0f} %" if whole else "none"


def by_training(records):
    """{training: records}"""
    return {name: [r for r in records if r["truth"]["training"] == name]
            for name in dict.fromkeys(r["truth"]["training"] for r in records)}


def totals(records):
    rows = [row(r) for r in records]
    if not rows:
        yield "no case"
        return
    for name, some in by_training(records).items():
        words = [word(r["truth"], r["verdict"]) for r in some]
        yield (f"{name}: culprit right {share(words.count('right'), len(words))}, "
               f"wrong {words.count('wrong')}, nobody {words.count('nobody')}; "
               f"kind right {share(sum(kind_right(r['truth'], r['verdict']) for r in some), len(some))}")
    stalls = [(r, record) for r,
              record in zip(rows, records) if CAUSES[record["truth"]["cause"]].wanted == "stall"]
    told = sum(record["verdict"]["confirmed"] is not None for record in records)
    yield f"detected: {share(told, len(rows))} (goal: 100 %)"
    yield f"culprit right: {share(sum(r[3] for r in rows), len(rows))} (goal: at least {GOAL_CULPRIT} %)"
    kinds = sum(kind_right(record["truth"], record["verdict"]) for record in records)
    yield f"kind of wait right: {share(kinds, len(rows))} (goal: at least {GOAL_KIND} %)"
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
    return sum(row(r)[3] for r in records) * 100 >= GOAL_CULPRIT * len(records)
